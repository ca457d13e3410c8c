"""The files of one index as questions about names see them: definitions, imports, uses and lines, kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codeinfo.graph.model import Graph
from codeinfo.graph.resolve import Resolver
from codeinfo.graph.unit import Unit
from codeinfo.graph.usage import Judge
from codeinfo.index.uses import unpacked
from codeinfo.kept import Kept
from codeinfo.languages.tree import FileFacts, Outcome
from codeinfo.operations.code import CodeMap
from codeinfo.ports import CodeFacts, FileLines
from codeinfo.types import Import

if TYPE_CHECKING:
    from codeinfo.engine.ahead import Ahead

_KEPT_UNITS = 8000  # files whose definitions and imports stay in memory
_KEPT_CHARACTERS = 64_000_000  # of the lines, and as many of the uses: those of some 5,000 files
_KEPT_ANSWERS = 1_000_000  # their uses, and as if each had a thousand more: some megabytes
_KEPT_MAPS = 8
_KEPT_NEAR = 20_000  # small answers about the files and definitions that searches find
_KEPT_VERDICTS = 400_000  # that the judge remembers; beyond that it starts afresh with the next question


class Contents:
    """What was read of the files of one index, by their ids; it outlives the generations."""

    def __init__(self, units: int = _KEPT_UNITS, characters: int = _KEPT_CHARACTERS) -> None:
        self.units: Kept[int, Unit] = Kept(units, lambda unit: 1)
        self.lines: Kept[int, FileLines] = Kept(characters, lambda lines: lines.characters)
        self.uses: Kept[int, str] = Kept(characters, len)


class IndexWorld:
    """The World that names are looked up in, over one generation of an index."""

    def __init__(
        self,
        facts: CodeFacts,
        graph: Graph,
        resolver: Resolver,
        contents: Contents,
        read_ahead: Callable[[], Ahead | None] = lambda: None,
    ) -> None:
        self.facts = facts
        self.graph = graph
        self._resolver = resolver
        self._contents = contents
        self._outcomes: dict[Hashable, Outcome] = {}
        self._visible: dict[str, tuple[str, ...]] = {}
        self._defining: dict[str, frozenset[str]] = {}
        self.answers: Kept[Hashable, Any] = Kept(_KEPT_ANSWERS, lambda answer: 1000 + len(answer))  # asked again
        self.maps: Kept[Hashable, CodeMap] = Kept(_KEPT_MAPS, lambda code_map: 1)
        self.near: Kept[Hashable, Any] = Kept(_KEPT_NEAR, lambda answer: 1)
        self._read_ahead = read_ahead
        self.is_read_ahead = False  # whether that is all of them
        self.files_read = 0
        self.by_id = {file.file_id: file for file in graph.files.values()}

    def unit(self, path: str) -> Unit | None:
        file = self.graph.files.get(path)
        if file is None:
            return None
        unit = self._contents.units.get(file.file_id)
        if unit is None:
            imports = tuple(written for _, written in self.facts.imports([file.file_id]))
            unit = Unit(file, tuple(self.facts.definitions(file.file_id)), imports)
            self._contents.units.add(file.file_id, unit)
            self.files_read += 1
        return unit

    def has_read(self, path: str) -> bool:
        return path in self.graph.files and self._contents.units.get(self.graph.files[path].file_id) is not None

    def outcome(self, source: FileFacts, written: Import) -> Outcome:
        key = (source.path, written.module, written.line, written.names, written.alias)
        if key not in self._outcomes:
            self._outcomes[key] = self._resolver.outcome(source, written)
        return self._outcomes[key]

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        if source.path not in self._visible:
            self._visible[source.path] = self._resolver.visible(source)
        return self._visible[source.path]

    def defining(self, name: str) -> frozenset[str]:
        if name not in self._defining:
            rows = self.facts.definitions_named(name)
            self._defining[name] = frozenset(self.by_id[file_id].path for file_id, _ in rows if file_id in self.by_id)
        return self._defining[name]

    def lines(self, file_id: int) -> FileLines:
        known = self._contents.lines.get(file_id)
        return known if known is not None else self._contents.lines.add(file_id, self.facts.lines(file_id))

    def uses(self, file_id: int) -> str:
        """The unpacked references of a file."""
        known = self._contents.uses.get(file_id)
        if known is None:
            packed = dict(self.facts.references([file_id]))
            known = self._contents.uses.add(file_id, unpacked(packed.get(file_id, b"")))
        return known

    def read_uses(self, file_ids: Sequence[int]) -> None:
        """Read the uses of many files at once, which is quicker than one after another."""
        missing = [file_id for file_id in file_ids if self._contents.uses.get(file_id) is None]
        for file_id, packed in self.facts.references(missing):
            self._contents.uses.add(file_id, unpacked(packed))

    def rest(self) -> None:
        """After a question: what was found out for one name must not pile up for ever."""
        if "judge" in self.__dict__ and self.judge.remembered > _KEPT_VERDICTS:
            self.forget_verdicts()

    def forget_verdicts(self) -> None:
        self.__dict__.pop("judge", None)

    @cached_property
    def ahead(self) -> Ahead | None:
        """Uses that were judged before anybody asked. Loaded when they are needed, which no search is waiting for."""
        return self._read_ahead()

    @cached_property
    def judge(self) -> Judge:
        return Judge(self)
