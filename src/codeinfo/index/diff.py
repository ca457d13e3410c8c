"""What changed since the index was written: first by size and time, then, for those in doubt, by content."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from codeinfo.model import SourceFile


class Changes(Struct, frozen=True):
    added: tuple[SourceFile, ...]
    suspects: tuple[SourceFile, ...]  # size or time differ: the content decides
    removed: tuple[str, ...]
    unchanged: int

    def __bool__(self) -> bool:
        return bool(self.added or self.suspects or self.removed)


def compare(known: AbstractSet[SourceFile], files: Sequence[SourceFile]) -> Changes:
    """`known` are the files as they were when they were indexed."""
    found = set(files)
    before = {file.path for file in known - found}
    doubtful = [file for file in files if file not in known]
    added = tuple(file for file in doubtful if file.path not in before)
    suspects = tuple(file for file in doubtful if file.path in before)
    removed = before.difference(file.path for file in suspects)
    return Changes(added, suspects, tuple(sorted(removed)), len(files) - len(doubtful))
