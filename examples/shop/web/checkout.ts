import { Cart, CartItem } from "./cart";

export class CheckoutError extends Error {
  constructor(readonly code: "sold_out" | "declined" | "offline", message: string) {
    super(message);
  }
}

/** Sends the order. The idempotency key makes a second click on "buy" harmless. */
export async function placeOrder(cart: readonly CartItem[], cardToken: string, signal?: AbortSignal): Promise<string> {
  const response = await fetch("/api/orders", {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": await fingerprint(cart) },
    body: JSON.stringify({ items: cart.map(({ sku, quantity }) => ({ sku, quantity })), cardToken }),
    signal,
  });
  if (response.status === 409) throw new CheckoutError("sold_out", "Something in your cart is gone.");
  if (response.status === 402) throw new CheckoutError("declined", "The card was declined.");
  if (!response.ok) throw new CheckoutError("offline", "We could not reach the shop.");
  const { orderId } = await response.json();
  return orderId;
}

async function fingerprint(cart: readonly CartItem[]): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(cart));
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
