"""Uses of the most used names, judged before anybody asks for them, file by file.

A common name has thousands of uses, and what each of them means takes some 40 µs to find out: too long to wait for.
What was judged of a file holds until the file changes, or one that it imports, over however many files between them;
from then on its uses are judged when somebody asks, like those of the files that were not read yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from codeinfo.engine.affected import Visible, affected
from codeinfo.engine.judging import Rows, judged, spoken
from codeinfo.engine.world import IndexWorld
from codeinfo.graph.model import Graph
from codeinfo.graph.usage import Verdict
from codeinfo.index.grammars import GRAMMARS
from codeinfo.index.uses import unpacked
from codeinfo.languages.tree import FileFacts

MIN_USES = 100  # fewer are judged while the question waits
MOST_USES = 600_000  # in all names together: some seven megabytes, and a quarter of a minute of work
_FILES_AT_ONCE = 20
_REST_FILES = 200  # after so many the judge starts afresh, which keeps it small


class Ahead:
    """What is known of which names, and in which files."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph  # the one that all of this holds for
        self.families: dict[str, frozenset[str]] = {}  # of the languages that define a name, by name
        self.rows: dict[str, Rows] = {}
        self.read: set[int] = set()  # file ids
        self.is_chosen = False
        self._is_littered = False  # whether there are rows of files that do not count

    def covers(self, name: str, file: FileFacts) -> bool:
        return file.file_id in self.read and spoken(file.language) in self.families[name]

    def rows_of(self, name: str, files: Sequence[FileFacts]) -> Rows | None:
        """The uses in those of the files that were read, or None for a name that is not common."""
        rows = self.rows.get(name)
        return rows.among({f.file_id for f in files if self.covers(name, f)}) if rows is not None else None

    def missing(self, graph: Graph) -> list[FileFacts]:
        """The files that remain to be read."""
        files = [file for file in graph.files.values() if file.language in GRAMMARS and file.file_id not in self.read]
        return sorted(files, key=lambda file: file.file_id)

    def follow(self, graph: Graph, visible: Visible) -> None:
        """Go on with the graph of another generation: what may mean something else there does not count any more."""
        stale = affected(self.graph, graph, visible)
        for name in _redefined(self.graph, graph):
            self.rows.pop(name, None)
            self.families.pop(name, None)
        holds = {file.file_id for path, file in graph.files.items() if path not in stale}
        self.graph = graph
        self._is_littered |= not self.read <= holds
        self.read &= holds

    # --- reading, in small steps: each `yield` is a chance to let others do something ---

    def steps(self, world: IndexWorld) -> Iterator[None]:
        """Read what is missing. `world.facts` may be another transaction after each step, of the same generation."""
        if not self.is_chosen:
            yield from self._choose(world)
        if self._is_littered:
            yield from self._clean()
        common: dict[str, set[str]] = {}
        for name, families in self.families.items():
            for one in families:
                common.setdefault(one, set()).add(name)
        for count, file in enumerate(self.missing(world.graph), 1):
            yield from self._read(world, file, common.get(spoken(file.language), set()))
            if not count % _REST_FILES:
                world.forget_verdicts()

    def _choose(self, world: IndexWorld) -> Iterator[None]:
        """The names used most that are defined here."""
        counts: Counter[str] = Counter()
        ids = list(world.by_id)
        for start in range(0, len(ids), _FILES_AT_ONCE):
            for _, packed in world.facts.references(ids[start : start + _FILES_AT_ONCE]):
                counts.update(_words(unpacked(packed)))
            yield
        left = MOST_USES
        for name, count in counts.most_common():
            if count < MIN_USES or left < count:
                break
            found = [world.by_id.get(file_id) for file_id, _ in world.facts.definitions_named(name)]
            families = frozenset(spoken(file.language) for file in found if file is not None)
            if families:
                self.families[name], self.rows[name] = families, Rows()
                left -= count
            yield
        self.is_chosen = True

    def _clean(self) -> Iterator[None]:
        """Files that do not count are about to be read again, so what was known of them must go."""
        for name, rows in self.rows.items():
            self.rows[name] = rows.among(self.read)
            yield
        self._is_littered = False

    def _read(self, world: IndexWorld, file: FileFacts, common: set[str]) -> Iterator[None]:
        text = world.uses(file.file_id)
        unit = world.unit(file.path) if text and common else None
        found: list[tuple[str, list[tuple[int, Verdict]]]] = []
        if unit is not None:
            renamed = {name for written in unit.imports if written.alias for name in written.names}
            for name in common.intersection((*_words(text), *renamed)):
                found.append((name, [(use.line, verdict) for use, verdict in judged(world, file, name)]))
                yield
        for name, uses in found:  # all at once: a file counts as read or not
            for line, verdict in uses:
                self.rows[name].add(file.file_id, line, verdict)
        self.read.add(file.file_id)
        yield


def _redefined(before: Graph, after: Graph) -> set[str]:
    """Names of C's functions that other files define now: calls mean them without an import that would tell."""
    names: set[str] = set()
    for path in before.files.keys() | after.files.keys():
        old, new = before.files.get(path), after.files.get(path)
        if old is not new and any(file is not None and file.language == "c" for file in (old, new)):
            names |= {*(old.exports if old else ())} ^ {*(new.exports if new else ())}
    return names


def _words(text: str) -> list[str]:
    """The names in unpacked references, once for each line, with numbers of lines and positions among them."""
    return text.partition("\n")[2].replace("(", " ").split()
