"""What changed since the index was written: first by size and time, then, for those in doubt, by content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codeinfo.frozen import frozen
from codeinfo.types import ManifestRow, SourceFile


@frozen
class Changes:
    added: tuple[SourceFile, ...]
    suspects: tuple[SourceFile, ...]  # size or time differ: the content decides
    removed: tuple[str, ...]
    unchanged: int

    def __bool__(self) -> bool:
        return bool(self.added or self.suspects or self.removed)


def compare(manifest: Mapping[str, ManifestRow], files: Sequence[SourceFile]) -> Changes:
    added, suspects, unchanged = [], [], 0
    for file in files:
        known = manifest.get(file.path)
        if known is None:
            added.append(file)
        elif known.size == file.size and known.mtime_ns == file.mtime_ns:
            unchanged += 1
        else:
            suspects.append(file)
    present = {file.path for file in files}
    removed = tuple(path for path in manifest if path not in present)
    return Changes(tuple(added), tuple(suspects), removed, unchanged)
