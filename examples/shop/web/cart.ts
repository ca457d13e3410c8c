export interface CartItem {
  sku: string;
  title: string;
  quantity: number;
  unitCents: number;
}

const STORAGE_KEY = "shop.cart.v2";

/** The cart of this browser. It survives a reload, and tells every open tab when it changes. */
export class Cart {
  private items: CartItem[] = [];
  private listeners = new Set<(items: readonly CartItem[]) => void>();

  constructor(private storage: Storage = window.localStorage) {
    this.items = this.load();
    window.addEventListener("storage", (event) => {
      if (event.key === STORAGE_KEY) {
        this.items = this.load();
        this.notify();
      }
    });
  }

  add(item: CartItem): void {
    const known = this.items.find((other) => other.sku === item.sku);
    if (known) known.quantity += item.quantity;
    else this.items.push({ ...item });
    this.save();
  }

  remove(sku: string): void {
    this.items = this.items.filter((item) => item.sku !== sku);
    this.save();
  }

  subscribe(listener: (items: readonly CartItem[]) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private load(): CartItem[] {
    try {
      return JSON.parse(this.storage.getItem(STORAGE_KEY) ?? "[]");
    } catch {
      return []; // a cart written by an older version of the page
    }
  }

  private save(): void {
    this.storage.setItem(STORAGE_KEY, JSON.stringify(this.items));
    this.notify();
  }

  private notify(): void {
    for (const listener of this.listeners) listener(this.items);
  }
}
