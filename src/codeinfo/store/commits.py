"""The commit index on disk: one file beside the builds, replaced as a whole, rebuilt from git if lost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codeinfo.files import open_private
from codeinfo.search.channels import CommitIndex

FILE = "commits-2.npz"  # the number is the format version


def save_commits(folder: Path, index: CommitIndex) -> None:
    partial = folder / f".{FILE}-{os.urandom(4).hex()}"
    columns = index._asdict() | {
        "head": _pack([index.head]),
        "ids": np.frombuffer(bytes.fromhex("".join(index.ids)), np.uint8),
        "vocabulary": _pack(index.vocabulary),
        "paths": _pack(index.paths),
    }
    try:
        with open(open_private(partial, os.O_WRONLY | os.O_EXCL), "wb") as sink:
            np.savez(sink, **columns)
        os.replace(partial, folder / FILE)
    finally:
        partial.unlink(missing_ok=True)


def load_commits(folder: Path) -> CommitIndex | None:
    """None if there is none, or one that cannot be read: the zip format checks every column."""
    import zipfile  # imported late: a folder outside git has no commits

    try:
        with (folder / FILE).open("rb") as source, np.load(source, allow_pickle=False) as stored:
            columns = {name: stored[name] for name in stored.files}
        count = len(columns["indexed"])
        ids = columns["ids"].reshape(count, -1) if count else ()
        return CommitIndex(
            **columns
            | {
                "head": _unpack(columns["head"])[0],
                "ids": [commit.tobytes().hex() for commit in ids],
                "vocabulary": {term: at for at, term in enumerate(_unpack(columns["vocabulary"]))},
                "paths": _unpack(columns["paths"]),
            }
        )
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None


def _pack(texts: Iterable[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\0".join(texts).encode("utf-8", "surrogateescape"), np.uint8)  # neither has a NUL


def _unpack(column: NDArray[np.uint8]) -> list[str]:
    text = column.tobytes().decode("utf-8", "surrogateescape")
    return text.split("\0") if text else []
