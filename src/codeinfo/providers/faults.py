"""What can go wrong with an endpoint, as one table: code, sentence, next step, and whether another try may help."""

from __future__ import annotations

import json
from enum import Enum

from msgspec import Struct

from codeinfo.errors import ProviderError
from codeinfo.providers.keys import redact

_LONGEST_DETAIL = 300  # characters of a server's own words that go into an error


class _Row(Struct, frozen=True):
    suffix: str
    what: str  # {where} and {model} are filled in
    next_step: str
    retry: bool = False


_START = "Start the server, or set another address; `codeinfo providers` shows what answers."


class Kind(Enum):
    REFUSED = _Row("UNAVAILABLE", "{where} refuses the connection", _START)
    UNREACHABLE = _Row("UNAVAILABLE", "{where} cannot be reached", _START)
    BROKEN = _Row("UNAVAILABLE", "{where} broke the connection off", "Look at the server's own log.", retry=True)
    TLS = _Row(
        "UNAVAILABLE",
        "no secure connection to {where}",
        "Check that the address should begin with https, and that its certificate is valid and trusted "
        "(SSL_CERT_FILE names further authorities).",
    )
    UNAUTHORIZED = _Row(
        "UNAUTHORIZED", "{where} does not accept the key", "Check which key the settings name, and what it may do."
    )
    MISSING = _Row(
        "MODEL_MISSING",
        "{where} has no model {model!r}, or nothing at this path",
        "Load the model or set another (`codeinfo providers` lists them); most addresses end in /v1.",
    )
    RATE_LIMITED = _Row("RATE_LIMITED", "{where} allows no more requests now", "Wait, or use another endpoint.", True)
    SERVER = _Row("UNAVAILABLE", "{where} failed", "Look at the server's own log, then try again.", retry=True)
    REJECTED = _Row(
        "REJECTED", "{where} rejects the request for model {model!r}", "Check the model and the settings sent to it."
    )
    TIMEOUT = _Row(
        "TIMEOUT",
        "{where} did not answer in time",
        "Try again, allow more time in the settings, or use a lighter model.",
    )
    BAD_REPLY = _Row(
        "BAD_REPLY",
        "{where} sent a reply that makes no sense",
        "Check that the address is that of an endpoint for this task, and that the model fits it.",
    )
    CANCELLED = _Row("CANCELLED", "the request to {where} was cancelled", "")


class Fault(Exception):
    """A failed exchange, before it is put into words for the user."""

    def __init__(self, kind: Kind, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.tries = 1


def provider_error(fault: Fault, *, role: str, where: str, model: str) -> ProviderError:
    """`role` is LLM, EMBEDDING or RERANK and begins the code; `where` is an address without credentials."""
    row = fault.kind.value
    what = row.what.format(where=where, model=model)
    notes = [_one_line(fault.detail)] if fault.detail else []
    if fault.tries > 1:
        notes.append(f"{fault.tries} tries")
    if notes:
        what = f"{what} ({'; '.join(notes)})"
    return ProviderError(redact(what), next_step=row.next_step, code=f"{role}_{row.suffix}")


def status_kind(status: int, words: str = "") -> Kind:
    if "response_format" in words and status >= 400:
        return Kind.REJECTED  # llama-cpp-python says 500 to a format it does not know: trying again is no use
    if status in (401, 403):
        return Kind.UNAUTHORIZED
    if status == 404:
        return Kind.MISSING
    if status == 429:
        return Kind.RATE_LIMITED
    if status == 408 or status >= 500:
        return Kind.SERVER
    if 400 <= status < 500:
        return Kind.REJECTED
    return Kind.BAD_REPLY


def server_words(body: bytes) -> str:
    """The message inside an error reply, in whichever of the usual places it stands."""
    text = body.decode("utf-8", "replace")
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip().startswith("<") else text  # a page of HTML says nothing in one line
    for name in ("error", "detail", "message"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else ""


def _one_line(text: str) -> str:
    """Redacted before it is cut, so that no half of a key is left; control characters never reach a terminal."""
    clean = "".join(char if char.isprintable() else " " for char in redact(text[: _LONGEST_DETAIL * 20]))
    clean = " ".join(clean.split())
    return clean if len(clean) <= _LONGEST_DETAIL else clean[:_LONGEST_DETAIL] + "…"
