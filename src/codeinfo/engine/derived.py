"""Answers that are derived from a whole index, kept in one checksummed file beside it for the next process.

Each holds for one stamp: a generation of the index, a state of the git history and a day, since "newest" and "in the
last year" move with time. A file with another stamp, or one that cannot be read, counts as empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from codeinfo.knowledge.history import History
from codeinfo.store.sqlite import SqliteStore, read_beside, write_beside

FILE = "answers.json"
MOST_ANSWERS = 32  # in the file, the oldest goes first
_DAY = 86_400

Answer = TypeVar("Answer")


class _Answers(Struct):
    stamp: str
    answers: dict[str, msgspec.Raw] = field(default_factory=dict)


def stamp_of(store: SqliteStore, root: Path) -> str:
    return f"{store.meta()['generation']} {History(root).key()} {int(time.time() // _DAY)}"


def derive(store: SqliteStore, root: Path, key: str, kind: type[Answer], make: Callable[[], Answer]) -> Answer:
    """The answer that was kept under `key`, or a new one, which is kept."""
    stamp = stamp_of(store, root)
    kept = _load(store, stamp)
    if key in kept.answers:
        try:
            return msgspec.json.decode(kept.answers[key], type=kind)
        except msgspec.DecodeError:  # written by another version
            del kept.answers[key]
    answer = make()
    try:
        encoded = msgspec.Raw(msgspec.json.encode(answer))
    except UnicodeEncodeError:  # a path that is not UTF-8
        return answer
    if stamp == stamp_of(store, root):  # else it may be of a newer generation
        kept = _load(store, stamp)  # others may have added theirs meanwhile
        kept.answers[key] = encoded
        for old in list(kept.answers)[:-MOST_ANSWERS]:
            del kept.answers[old]
        write_beside(store, FILE, msgspec.json.encode(kept))
    return answer


def _load(store: SqliteStore, stamp: str) -> _Answers:
    try:
        kept = msgspec.json.decode(read_beside(store, FILE) or b"", type=_Answers)
    except msgspec.DecodeError:
        return _Answers(stamp)
    return kept if kept.stamp == stamp else _Answers(stamp)
