"""The uses of a name, each judged: columns of files, lines and meanings, since a common name has thousands of uses."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.engine.world import IndexWorld
from codeinfo.graph.scopes import SymbolId
from codeinfo.graph.unit import Unit
from codeinfo.graph.usage import Verdict
from codeinfo.index.uses import references_to
from codeinfo.languages.tree import FileFacts, family
from codeinfo.types import Reference

Column = NDArray[np.int32]
Meaning = tuple[SymbolId, ...]
UNKNOWN = -1  # in the column of meanings: what is meant cannot be told


class Judged(NamedTuple):
    """Uses that mean something here, or may: by file id, and in a file in the order they are looked at."""

    files: Column
    lines: Column
    meanings: Column  # positions in `symbols`, or UNKNOWN
    symbols: tuple[Meaning, ...]


class Rows:
    """Judged uses of one name while they are gathered. Those that mean something else are left out."""

    def __init__(self) -> None:
        self.files, self.lines, self.meanings = array("i"), array("i"), array("i")
        self._positions: dict[Meaning, int] = {}

    def __len__(self) -> int:
        return len(self.files)

    @classmethod
    def of(cls, judged: Judged) -> Rows:
        rows = cls()
        for column, values in (
            (rows.files, judged.files),
            (rows.lines, judged.lines),
            (rows.meanings, judged.meanings),
        ):
            column.frombytes(values.astype(np.intc).tobytes())
        rows._positions = {meaning: position for position, meaning in enumerate(judged.symbols)}
        return rows

    def add(self, file_id: int, line: int, verdict: Verdict) -> None:
        if verdict.symbols:
            meaning = self._positions.setdefault(verdict.symbols, len(self._positions))
        elif verdict.possible:
            meaning = UNKNOWN
        else:
            return
        self.files.append(file_id)
        self.lines.append(line)
        self.meanings.append(meaning)

    def among(self, file_ids: AbstractSet[int]) -> Rows:
        """Those in some files."""
        files, lines, meanings, symbols = self.columns()
        chosen = np.fromiter((file_id in file_ids for file_id in files.tolist()), bool, len(files))
        return Rows.of(Judged(files[chosen], lines[chosen], meanings[chosen], symbols))

    def columns(self) -> Judged:
        files, lines, meanings = (np.array(one, np.int32) for one in (self.files, self.lines, self.meanings))
        order = np.argsort(files, kind="stable")
        return Judged(files[order], lines[order], meanings[order], tuple(self._positions))


def judged_uses(world: IndexWorld, name: str, files: Sequence[FileFacts]) -> Judged:
    """The uses of a name in some files: taken from what was judged ahead where that has them."""
    ahead = world.ahead if world.defining(name) else None  # of another's name all uses are wanted, none was read ahead
    rows = ahead.rows_of(name, files) if ahead is not None else None
    if ahead is not None and rows is not None:
        files = [file for file in files if not ahead.covers(name, file)]
    rows = Rows() if rows is None else rows
    world.read_uses([file.file_id for file in files])
    for file in files:
        for use, verdict in judged(world, file, name):
            rows.add(file.file_id, use.line, verdict)
    return rows.columns()


def judged(world: IndexWorld, file: FileFacts, name: str) -> Iterator[tuple[Reference, Verdict]]:
    """Every use of the name in a file, with what it means."""
    unit = _unit_with(world, file, name)
    if unit is not None:
        for use in _written(world, unit, name):
            yield use, world.judge.verdict(unit, use)


def uses_by_line(world: IndexWorld, file: FileFacts, name: str) -> dict[int, Reference]:
    """The same uses without their meanings; no line has two."""
    unit = _unit_with(world, file, name)
    return {use.line: use for use in _written(world, unit, name)} if unit else {}


def _unit_with(world: IndexWorld, file: FileFacts, name: str) -> Unit | None:
    """Most candidates have the name in a comment or a string only."""
    return world.unit(file.path) if name in world.uses(file.file_id) else None


def _written(world: IndexWorld, unit: Unit, name: str) -> Iterator[Reference]:
    """Uses of a name, also under the other names that imports give it."""
    text = world.uses(unit.facts.file_id)
    aliases = {written.alias for written in unit.taking(name) if written.alias and name in written.names} - {name}
    seen: set[int] = set()
    for written_name in (*aliases, name):
        for use in references_to(text, written_name):
            if use.line not in seen:  # `import a as b` has both names
                seen.add(use.line)
                yield use


def spoken(language: str) -> str:
    """Languages that use each other's definitions."""
    if language in {"javascript", "typescript", "tsx"}:
        return "ecmascript"
    return "c" if language in {"c", "cpp"} else family(language)
