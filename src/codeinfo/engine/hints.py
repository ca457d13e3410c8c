"""What searches say about the patterns of a file: momentum and a warning, kept beside the index so that a search needs
no detectors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from codeinfo.store.sqlite import SqliteStore, read_beside, version_beside, write_beside

NAME = "pattern-hints.json"

Hints = Mapping[str, tuple[str, str]]  # path → trend, warning


def hints_version(store: SqliteStore) -> object:
    """Another one after each `write_hints`, whichever process it was called in."""
    return version_beside(store, NAME)


def read_hints(store: SqliteStore) -> Hints | None:
    """As far as they are known, which a search does not wait for; None where nobody asked for patterns so far."""
    try:
        found = json.loads(read_beside(store, NAME) or b"null")
        return {path: (momentum, warning) for path, (momentum, warning) in found.items()}
    except (ValueError, TypeError, AttributeError):
        return None


def write_hints(store: SqliteStore, hints: Hints) -> None:
    write_beside(store, NAME, json.dumps(hints).encode())
