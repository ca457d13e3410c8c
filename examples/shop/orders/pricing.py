"""Prices in whole cents; rounding happens once, at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

VAT = {"DE": Decimal("0.19"), "FR": Decimal("0.20"), "NL": Decimal("0.21")}


@dataclass(frozen=True)
class Line:
    sku: str
    quantity: int
    unit_cents: int
    gift: bool = False


def subtotal(lines: Iterable[Line]) -> int:
    """The sum of all lines before discounts; gifts are free."""
    return sum(line.quantity * line.unit_cents for line in lines if not line.gift)


def apply_voucher(cents: int, percent: Decimal, *, at_most: int | None = None) -> int:
    """Take a percentage off, never more than the voucher's ceiling."""
    discount = int((cents * percent / 100).quantize(Decimal(1), ROUND_HALF_EVEN))
    return cents - (discount if at_most is None else min(discount, at_most))


def add_tax(cents: int, country: str) -> int:
    """Gross price for the country the parcel goes to."""
    return int((cents * (1 + VAT[country])).quantize(Decimal(1), ROUND_HALF_EVEN))
