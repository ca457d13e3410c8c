"""One generation of an index as questions about code read it: its graph, and the contents of files, cached."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from codeinfo.cache import Cache
from codeinfo.graph.model import Graph, Unit
from codeinfo.graph.resolve import ImportResolver, have_same_exports, project_tree
from codeinfo.graph.uses import unpack
from codeinfo.languages.model import FileFacts, Outcome
from codeinfo.model import Import
from codeinfo.ports import CodeFacts, FileLines

_MOST_UNITS = 8000  # files whose definitions and imports stay in memory
_MOST_CHARACTERS = 64_000_000  # of lines, and as many of uses: those of some 5,000 files
_MOST_ANSWERS = 200_000  # rows of cached answers, see `_size`: some 40 MB at most


class FileCache:
    """Contents of files by their ids. A changed file has a new id, so this outlives a generation."""

    def __init__(self) -> None:
        self.units: Cache[int, Unit] = Cache(_MOST_UNITS, lambda unit: 1)
        self.lines: Cache[int, FileLines] = Cache(_MOST_CHARACTERS, lambda lines: lines.characters)
        self.uses: Cache[int, str] = Cache(_MOST_CHARACTERS, len)


class CodeIndex:
    """The owner of all that is cached for one generation. `facts` is the transaction of the question at hand."""

    def __init__(self, facts: CodeFacts, graph: Graph, root: Path, before: CodeIndex | None = None) -> None:
        self.facts = facts
        self.graph = graph
        self.root = root
        self.by_id = {file.file_id: file for file in graph.files.values()}
        self.answers: Cache[Hashable, Any] = Cache(_MOST_ANSWERS, _size)
        self.files_read = 0
        self._files: FileCache = before._files if before else FileCache()
        self._outcomes: dict[Hashable, Outcome] = {}
        self._visible: dict[str, tuple[str, ...]] = {}
        self._defining: dict[str, frozenset[str]] = {}
        if before and "imports" in vars(before) and have_same_exports(before.graph.files, graph.files):
            self.imports = before.imports

    @cached_property
    def imports(self) -> ImportResolver:
        return ImportResolver(project_tree(self.graph.files, self.root))

    def outcome(self, source: FileFacts, written: Import) -> Outcome:
        key = (source.path, written.module, written.line, written.names, written.alias)
        if key not in self._outcomes:
            self._outcomes[key] = self.imports.outcome(source, written)
        return self._outcomes[key]

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        if source.path not in self._visible:
            self._visible[source.path] = self.imports.visible(source)
        return self._visible[source.path]

    def defining(self, name: str) -> frozenset[str]:
        """Paths of the files that define something of this name."""
        if name not in self._defining:
            rows = self.facts.definitions_named(name)
            self._defining[name] = frozenset(self.by_id[file_id].path for file_id, _ in rows if file_id in self.by_id)
        return self._defining[name]

    def unit(self, path: str) -> Unit | None:
        file = self.graph.files.get(path)
        if file is None:
            return None
        unit = self._files.units.get(file.file_id)
        if unit is None:
            imports = tuple(written for _, written in self.facts.imports([file.file_id]))
            unit = Unit(file, tuple(self.facts.definitions(file.file_id)), imports)
            self._files.units.add(file.file_id, unit)
            self.files_read += 1
        return unit

    def has_read(self, path: str) -> bool:
        return path in self.graph.files and self._files.units.get(self.graph.files[path].file_id) is not None

    def lines(self, file_id: int) -> FileLines:
        known = self._files.lines.get(file_id)
        return known if known is not None else self._files.lines.add(file_id, self.facts.lines(file_id))

    def uses(self, file_id: int) -> str:
        """The unpacked references of a file."""
        known = self._files.uses.get(file_id)
        if known is None:
            packed = dict(self.facts.references([file_id]))
            known = self._files.uses.add(file_id, unpack(packed.get(file_id, b"")))
        return known

    def read_uses(self, file_ids: Sequence[int]) -> None:
        """Read the uses of many files at once, which is quicker than one after another."""
        missing = [file_id for file_id in file_ids if self._files.uses.get(file_id) is None]
        for file_id, packed in self.facts.references(missing):
            self._files.uses.add(file_id, unpack(packed))


def _size(answer: object) -> int:
    """The rows of an answer, and ten for itself."""
    return 10 + (len(answer) if hasattr(answer, "__len__") else 0)
