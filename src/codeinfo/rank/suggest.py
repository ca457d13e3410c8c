"""Spellings that exist in an index and are near to what was asked for, for a query that found little or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from codeinfo.ports import Snapshot
from codeinfo.rank.keyword import first_of_runs
from codeinfo.rank.query import Query
from codeinfo.tokens import split_identifier, stem

MOST = 5  # suggestions
MOST_WORDS = 3  # of a question that are looked up
SHORTEST = 4  # letters: shorter ones are near to everything
LONGEST = 64  # letters: longer names were generated
SHORT = 6  # letters below which no three in a row need survive a slip
LONG = 9  # letters from which pieces need not overlap to survive two slips
LEAST_RATIO = 0.75  # of matching letters, as `difflib` counts them: "sned" is this near to "send"
COMPARED = 40  # candidates that are compared letter by letter
READ = 200  # names that are read for the words they are made of
SHARING = 1_000  # names that are looked at, those with most pieces of the word first


def suggestions(query: Query, known: Mapping[str, float], view: Snapshot) -> tuple[str, ...]:
    """Names of this index near to the name asked for, else words near to those that occur nowhere, nearest first.

    `known` has the query's terms that occur.
    """
    names = _Names(view.definition_names())
    if query.bare_name and query.names and (near := _nearest_names(query.names[0], names, view)):
        return near
    unknown = [word for word in dict.fromkeys(query.words) if stem(word) not in known]
    found = (near for word in unknown[:MOST_WORDS] for near in _nearest_words(word, names, view))
    return tuple(dict.fromkeys(found))[:MOST]


def _nearest_names(wanted: str, names: _Names, view: Snapshot) -> tuple[str, ...]:
    wanted = _letters(wanted)
    sharing = names.sharing(wanted, longest=2 * len(wanted))
    # Headings of documents are definitions too, but nobody asks for one as a name.
    near = _closest(wanted, {name: name.replace("_", "") for name in sharing if " " not in name})[:MOST]
    written: dict[str, dict[str, None]] = {name: {} for name in near}
    for symbol in view.definitions(near) if near else ():
        written[symbol.definition.name.lower()][symbol.definition.name] = None
    return tuple(name for same in written.values() for name in same)[:MOST]


def _nearest_words(wanted: str, names: _Names, view: Snapshot) -> list[str]:
    """Words that names of definitions and files are made of."""
    sharing = names.sharing(wanted, longest=LONGEST)[:READ]
    written = (symbol.definition.name for symbol in view.definitions(sharing)) if sharing else ()
    words = {part for name in dict.fromkeys(written) for part in split_identifier(name)}
    return _closest(wanted, {word: word for word in words | _path_words(view)})


def _letters(name: str) -> str:
    """`solveDependencies` and `solve_dependencies` are the same letters."""
    return "".join(split_identifier(name))


class _Names:
    """Names of definitions as one array of letters, so that 100,000 of them are looked through in milliseconds."""

    def __init__(self, names: str) -> None:
        self._text = names.encode()
        self._letters = np.frombuffer(self._text, np.uint8)
        self._ends = np.append((self._letters == ord("\n")).nonzero()[0], len(self._letters))
        self._starts = np.minimum(np.append(0, self._ends[:-1] + 1), max(len(self._letters) - 1, 0))

    def sharing(self, wanted: str, longest: int) -> list[str]:
        """The names that have a piece of `wanted`, those with most of them first, then those as long as it is."""
        if not SHORTEST <= len(wanted) <= LONGEST or not self._text:
            return []
        having = np.zeros(len(self._ends), np.int32)
        for place in self._places(wanted):
            lines = self._ends.searchsorted(place)
            having[lines[first_of_runs(lines)]] += 1
        underscores = np.add.reduceat(self._letters == ord("_"), self._starts, dtype=np.int64)
        lengths = self._ends - self._starts - underscores
        having[lengths > longest] = 0
        alike = having.nonzero()[0]
        alike = alike[np.lexsort((abs(lengths[alike] - len(wanted)), -having[alike]))][:SHARING]
        spans = zip(self._starts[alike].tolist(), self._ends[alike].tolist(), strict=True)
        return list(dict.fromkeys(self._text[start:end].decode() for start, end in spans))

    def _places(self, wanted: str) -> Iterator[NDArray[np.intp]]:
        """Where each piece of a word is; of a short one, where a name begins with one of its first letters."""
        if len(wanted) < SHORT:
            for letter in dict.fromkeys(wanted[:2].encode()):
                yield self._starts[self._letters[self._starts] == letter]
            return
        for piece in _pieces(wanted):
            letters = piece.encode()
            last = len(self._letters) - len(letters) + 1
            same = np.ones(max(last, 0), bool)
            for offset, letter in enumerate(letters):
                same &= self._letters[offset : last + offset] == letter
            yield same.nonzero()[0]


def _pieces(wanted: str) -> Iterable[str]:
    """Parts of a word, one of which a slip or two leave alone."""
    size, step = (3, 1) if len(wanted) < LONG else (len(wanted) // (3 if len(wanted) < 16 else 4),) * 2
    return dict.fromkeys(wanted[at : at + size] for at in range(0, len(wanted) - size + 1, step))


def _path_words(view: Snapshot) -> frozenset[str]:
    def read() -> frozenset[str]:
        names = {path.rpartition("/")[2].partition(".")[0] for path in view.paths}
        return frozenset(part for name in names for part in split_identifier(name))

    return view.derived("path_words", read)


def _closest(wanted: str, candidates: Mapping[str, str]) -> list[str]:
    """Of the candidates, each with its letters, those near to `wanted`; most are left out by the letters they share."""
    import difflib  # not what a search that finds something should load

    letters = frozenset(wanted)
    parts = [wanted[at : at + 2] for at in range(len(wanted) - 1)]
    least, most = len(wanted) * LEAST_RATIO - 1, len(wanted) / LEAST_RATIO + 1
    alike = [
        (-sum(part in spelled for part in parts), len(spelled), name, spelled)
        for name, spelled in candidates.items()
        if least <= len(spelled) <= most and spelled != wanted and len(letters.intersection(spelled)) >= least / 2
    ]
    matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
    near = []
    for _, _, name, spelled in sorted(alike)[:COMPARED]:
        matcher.set_seq1(spelled)
        if (ratio := matcher.ratio()) >= LEAST_RATIO:
            near.append((-ratio, name))
    return [name for _, name in sorted(near)]
