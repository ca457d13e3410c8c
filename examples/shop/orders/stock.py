"""Stock levels and the reservations that checkouts hold while the customer types a card number."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta

HOLD = timedelta(minutes=15)


class SoldOut(Exception):
    pass


def reserve(db: sqlite3.Connection, sku: str, quantity: int, cart_id: str, now: datetime) -> None:
    """Hold items for a cart, or raise SoldOut; two carts can never hold the same last item."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        release_expired(db, now)
        (free,) = db.execute(
            "SELECT on_hand - (SELECT coalesce(sum(quantity), 0) FROM holds WHERE sku = ?1) FROM stock WHERE sku = ?1",
            (sku,),
        ).fetchone()
        if free < quantity:
            raise SoldOut(sku)
        db.execute(
            "INSERT INTO holds (cart_id, sku, quantity, until) VALUES (?, ?, ?, ?)",
            (cart_id, sku, quantity, (now + HOLD).isoformat()),
        )


def release_expired(db: sqlite3.Connection, now: datetime) -> int:
    """Give back what abandoned carts were holding."""
    return db.execute("DELETE FROM holds WHERE until < ?", (now.isoformat(),)).rowcount
