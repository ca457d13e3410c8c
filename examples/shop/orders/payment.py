"""Talks to the payment provider: authorise at checkout, capture at dispatch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

MAX_ATTEMPTS = 4
FIRST_PAUSE_S = 0.5


class Declined(Exception):
    """The bank said no; asking again would not change its mind."""


class Unavailable(Exception):
    """The provider could not be reached, or answered with a server error."""


class Gateway(Protocol):
    def authorise(self, card_token: str, cents: int) -> str: ...
    def capture(self, authorisation: str) -> None: ...
    def refund(self, authorisation: str, cents: int) -> None: ...


@dataclass
class Payment:
    authorisation: str
    cents: int
    captured: bool = False
    refunded_cents: int = 0


def with_backoff(call: Callable[[], str], sleep: Callable[[float], None] = time.sleep) -> str:
    """Try again after passing failures, doubling the pause; a declined card is passed on at once."""
    pause = FIRST_PAUSE_S
    for attempt in range(MAX_ATTEMPTS):
        try:
            return call()
        except Unavailable:
            if attempt == MAX_ATTEMPTS - 1:
                raise
            sleep(pause)
            pause *= 2
    raise AssertionError("unreachable")


def authorise(gateway: Gateway, card_token: str, cents: int) -> Payment:
    return Payment(with_backoff(lambda: gateway.authorise(card_token, cents)), cents)


def refund(gateway: Gateway, payment: Payment, cents: int) -> None:
    """Give money back; all refunds together never exceed what was captured."""
    if not payment.captured or payment.refunded_cents + cents > payment.cents:
        raise ValueError("nothing left to refund")
    gateway.refund(payment.authorisation, cents)
    payment.refunded_cents += cents
