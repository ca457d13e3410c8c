"""Which chunks of a file and which lines of a chunk to show: those that answer, within a budget of characters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.model import PLAIN_KIND, symbol_kind
from codeinfo.ports import ChunkRow, Extent, Snapshot, StoredSymbol
from codeinfo.search.channels import KeywordScores, VectorScores, read_cosines, rows_of
from codeinfo.search.query import Query

MEANING_IN_FILE = 1.0  # weight of a cosine relative to the keyword score when chunks of one file compete
DEFINED_HERE = 3.0  # the chunk that defines a bare name beats any that uses it
OWNER_HERE = 1.0  # `Session` where `Session.send` is requested
NAMED_HERE = 0.3  # a sentence that names something is rarely about its definition alone
QUOTED_HERE = 10.0
IN_FUNCTION = (
    0.3  # a chunk that is all code of functions, or is called what is asked: others declare, import or describe
)
SHORT_ROW = 16.0  # terms: what is left after the last definition, such as `export default App`, shows nothing


def best_rows(
    view: Snapshot,
    files: Sequence[int],
    keyword: KeywordScores,
    vectors: VectorScores | None,
    defined: dict[int, float],
    most: int | None,
) -> list[list[tuple[int, float]]]:
    """Each file's best rows with their worth, best first: by words and meaning, and by where a requested name is
    defined."""
    rows, starts, counts = rows_of(view, files)
    words = keyword.rows(np.asarray(files), in_file=True)[rows]
    score = words / np.maximum(np.maximum.reduceat(words, starts), 1e-6).repeat(counts)
    if vectors is not None:
        score = score + MEANING_IN_FILE * read_cosines(view, vectors, rows)
    score = score * np.minimum(view.row_length[rows] / SHORT_ROW, 1)
    for row, bonus in defined.items():
        score[rows == row] += bonus
    order = np.lexsort((-score, np.arange(len(files)).repeat(counts)))
    best = list(zip(rows[order].tolist(), score[order].tolist(), strict=True))
    spans = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
    return [best[start : end if most is None else min(end, start + most)] for start, end in spans]


def lines_of_functions(extents: Iterable[Extent]) -> list[tuple[int, int]]:
    """The first and the last line of each function that is in no other, in order."""
    outer: list[tuple[int, int]] = []
    for extent in extents:
        if symbol_kind(extent.kind).is_callable and (not outer or extent.start_line > outer[-1][1]):
            outer.append((extent.start_line, extent.end_line))
    return outer


def share_of_functions(chunk: ChunkRow, functions: Sequence[tuple[int, int]]) -> float:
    """The share of a chunk's lines that is code of these functions."""
    inside = 0
    for first, last in functions[bisect_left(functions, chunk.start_line, key=itemgetter(1)) :]:
        if first > chunk.end_line:
            break
        inside += min(last, chunk.end_line) - max(first, chunk.start_line) + 1
    return inside / (chunk.end_line - chunk.start_line + 1)


def find_defined_rows(
    query: Query, definitions: Iterable[StoredSymbol], view: Snapshot, files: Sequence[int]
) -> dict[int, float]:
    """Rows of these files where a name of the query is defined, with its bonus."""
    bonuses: dict[int, float] = {}
    chosen = set(files)
    for symbol in definitions:
        if symbol.file in chosen and (row := view.row_at(symbol.file, symbol.start_line)) is not None:
            bonuses[row] = max(bonuses.get(row, 0.0), _bonus_of_definition(query, symbol))
    return bonuses


def _bonus_of_definition(query: Query, definition: StoredSymbol) -> float:
    """Several constructors of one name in a chunk count once; the type itself counts most, or its member if that is
    requested."""
    worth = DEFINED_HERE if query.bare_name or query.asks_entry_point else NAMED_HERE
    if query.names_owner and definition.name.lower() != query.names[0].lower():
        return OWNER_HERE
    if symbol_kind(definition.kind).ranks_as_type or (query.names_owner and query.asks_for(definition.qualified)):
        worth *= 1.5
    return worth if definition.name in query.names else worth / 2


def closest_rows(view: Snapshot, vectors: VectorScores, files: Sequence[int]) -> NDArray[np.intp]:
    """The nearest row of each file that has any; the first of equals."""
    rows, starts, counts = rows_of(view, files)
    cosines = read_cosines(view, vectors, rows)
    nearest = (cosines == np.maximum.reduceat(cosines, starts).repeat(counts)).nonzero()[0]
    closest: NDArray[np.intp] = rows[nearest[nearest.searchsorted(starts)]]
    return closest


def answering_definition(
    query: Query, extents: Sequence[Extent], first_line: int, text: str, shown: Shown, finder: Finder
) -> Extent | None:
    """Of the definitions that the shown lines of a chunk are about, the one requested by name, otherwise the one
    with most of the query in its name and in these lines; the first of equals. If none matches: the one that the
    shown part begins with, and None at the start of the chunk."""
    extents = [extent for extent in extents if extent.kind != "namespace"]
    definitions = [extent for extent in extents if symbol_kind(extent.kind) is not PLAIN_KIND] or extents
    if not definitions:
        return None
    reading = finder.read(text)
    terms_in: dict[Extent, list[str]] = {}  # the terms in the lines of each
    for line in range(shown.first, shown.last + 1):
        if reading.lines[line].strip():
            owner = _owner(definitions, first_line + line, first_line + reading.leads_to(line))
            if owner is not None:
                terms_in.setdefault(owner, []).extend(reading.terms.get(line, ()))
    if requested := next((extent for extent in terms_in if query.asks_for(extent.qualified)), None):
        return requested
    middle, last = first_line + (shown.first + shown.last) / 2, first_line + shown.last
    weights = dict[Extent, float]()
    for extent, line_terms in terms_in.items():
        in_name = (term for _, term in finder.find_terms(extent.qualified.rpartition(".")[2]))
        if (weight := finder.weigh(line_terms, finder.weigh(in_name))) > 0:
            weights[extent] = weight
    # One whose beginning only is shown in the last lines if no other matches.
    shown_well = [
        extent
        for extent in weights
        if extent.start_line <= middle or 2 * (last - extent.start_line) >= extent.end_line - extent.start_line
    ]
    best = max(shown_well or weights, key=weights.__getitem__, default=None)
    return next(iter(terms_in), None) if best is None and shown.first else best


def _owner(definitions: Sequence[Extent], line: int, led_to: int) -> Extent | None:
    """The innermost definition around a line, or around the line it leads to if that lies in the former."""
    inner = _innermost(definitions, line)
    below = inner if led_to == line else _innermost(definitions, led_to)
    return below if inner is None or (below is not None and below.end_line <= inner.end_line) else inner


def _innermost(definitions: Sequence[Extent], line: int) -> Extent | None:
    innermost = None
    for extent in definitions:
        if extent.start_line <= line <= extent.end_line and (
            innermost is None or extent.start_line > innermost.start_line
        ):
            innermost = extent
    return innermost


LINE_READ = 200  # characters of a line that are read to classify it
MODIFIERS_READ = 6  # words before the one that says what is defined


class LineKind(StrEnum):
    BLANK = "blank"
    IMPORT = "import"
    COMMENT = "comment"
    ATTRIBUTE = "attribute"  # belongs to the definition below it: a decorator, an annotation
    DEFINITION = "definition"  # the first line of one
    OTHER = "other"


_ATTRIBUTES = ("@", "#[", "#![", "template<", "template <")
_COMMENTS = ("//", "/*", "* ", "*/", "#", "--", ";", "%", '"""', "'''", "<!--", "{-")
_MARKS = frozenset(mark[0] for mark in (*_ATTRIBUTES, *_COMMENTS))  # first characters of such a line
_IMPORTS = frozenset("import use require require_relative require_once include package alias #include".split())
_MAY_IMPORT = frozenset("from using const let var export".split())
_DEFINERS = frozenset(
    """
    class def defmacro defmodule defp enum extension fn fun func function impl instance interface macro_rules! module
    namespace newtype object proc protocol record struct sub trait type union #define
    """.split()
)
_MODIFIERS = frozenset(
    """
    abstract async case const constexpr data declare default explicit export extern final implicit indirect inline
    internal lazy local mutating open override partial private protected pub public readonly sealed static suspend
    typedef unsafe virtual
    """.split()
)
_CONTROL = frozenset(
    """
    if for while switch catch else elif elsif return match when foreach with do try unless until case loop select
    synchronized using lock guard defer throw yield await new
    """.split()
)


@lru_cache(maxsize=20_000)  # most lines of a project are read again with its next question
def line_kind(line: str) -> LineKind:
    bare = line[:LINE_READ].strip()
    if not bare:
        return LineKind.BLANK
    is_marked = bare[0] in _MARKS
    if is_marked and bare.startswith(_ATTRIBUTES):
        return LineKind.ATTRIBUTE
    first = _word(bare.split(None, 1)[0])
    if first in _IMPORTS or (first in _MAY_IMPORT and _imports(first, bare)):
        return LineKind.IMPORT
    if is_marked and (bare == "*" or (bare.startswith(_COMMENTS) and first != "#define")):
        return LineKind.COMMENT
    return LineKind.DEFINITION if _defines(first, bare, line[0].isspace()) else LineKind.OTHER


def _word(word: str) -> str:
    """`pub(crate)` → pub, `impl<T>` → impl."""
    return word if word.isalpha() else word.partition("(")[0].partition("<")[0]


def _imports(first: str, bare: str) -> bool:
    if first == "from":
        return " import " in bare
    if first == "using":
        return bare.endswith(";") and "(" not in bare
    return "= require(" in bare or " from " in bare


def _defines(first: str, bare: str, indented: bool) -> bool:
    if first in _DEFINERS:
        return True
    if first in _MODIFIERS:
        for word in map(_word, bare.split(None, MODIFIERS_READ)[1:MODIFIERS_READ]):
            if word in _DEFINERS:
                return True
            if word not in _MODIFIERS:
                break
    # `int main(void) {`, `send(body) {`, `exports.send = function (body) {`; in C the brace may be on the next line.
    if bare.endswith(("{", "=>")):
        opens = True
    else:
        opens = not indented and bare.endswith(")") and " " in bare and "=" not in bare
    return opens and "(" in bare and (first.lstrip("}") or "else") not in _CONTROL


def line_asked_for(query: Query, path: str, start: int, text: str) -> int | None:
    """The line of a text from line `start` of a file on that the query names or quotes, counted from its first."""
    line = query.line_in(path)
    if line is not None and start <= line <= start + text.count("\n"):
        return line - start
    quoted = (quotation.line_in(text) for quotation in query.quotations)
    return next((line for line in quoted if line is not None), None)


# The first result is read, the last ones are skimmed: characters by rank, 3,090 for ten results.
BUDGETS = (900, 460, 320, 270)
LATER_BUDGET = 190
HEAD_SHARE = 0.2  # of the query's weight: the start of a definition explains the rest
# The weight of a term by its line, 1 elsewhere: imports are no answer, and the line that begins a definition says what
# those below it are about.
LINE_WEIGHTS = {LineKind.IMPORT: 0.0, LineKind.COMMENT: 0.8, LineKind.DEFINITION: 2.0}
IN_HEAD = 0.15  # in the comments above the imports: licences, and what a whole file is about
ABOVE = 0.4  # of the budget, for what lies between the start of a definition and the matching line
STARTS_TRIED = 4  # heaviest lines
MOST_STARTS = 7  # including those of terms that are in none of them
LEAST_WEIGHT = 0.15  # of the heaviest term: lighter ones are on too many lines to tell which
PREFIX = 5  # letters that identify a term: stems keep the beginning of a word


def budget_for(place: int) -> int:
    return BUDGETS[place] if place < len(BUDGETS) else LATER_BUDGET


class Shown(NamedTuple):
    """The part of a text that is shown: its first and last line, by offset, and their content."""

    first: int
    last: int
    text: str


class Finder:
    """Finds a query's terms in a text; created once per query.

    A term is identified by its first letters, which stemming keeps: exact enough to choose lines, and a plain search
    for each instead of splitting every line into terms.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        least = LEAST_WEIGHT * max(weights.values(), default=0.0)
        self.weights: dict[str, float] = {}
        for term, weight in weights.items():
            if weight >= least:
                beginning = _common_prefix(term)
                self.weights[beginning] = max(weight, self.weights.get(beginning, 0.0))
        self.total = sum(self.weights.values())
        self._terms = sorted(self.weights, key=len)
        self._last: Reading | None = None

    def read(self, text: str) -> Reading:
        """A chunk's shown part and its name are requested one after the other."""
        if self._last is None or text != self._last.text:
            self._last = Reading(text, self)
        return self._last

    def weigh(self, terms: Iterable[str], start: float = 0.0) -> float:
        """The weights of the distinct ones, added to those before."""
        return sum(map(self.weights.__getitem__, dict.fromkeys(terms)), start)

    def share_of(self, name: str) -> float:
        """The share of the query that is in a name."""
        return self.weigh(term for _, term in self.find_terms(name)) / self.total if self.total else 0.0

    def find_terms(self, text: str) -> list[tuple[int, str]]:
        """Every position where a term starts, in order; the longest if several start or overlap there."""
        lowered = text.lower()
        if len(lowered) != len(text):  # a few capitals have longer lower-case forms
            lowered = text
        find = lowered.find
        term_at: dict[int, str] = {}
        for term in self._terms:  # shortest first, so that longer ones replace them
            start = find(term)
            while start >= 0:
                term_at[start] = term
                start = find(term, start + 1)
        places, seen_to = [], 0
        for start, term in sorted(term_at.items()):
            if start >= seen_to:  # otherwise part of a longer one
                seen_to = start + len(term)
                places.append((start, term))
        return places


def _common_prefix(term: str) -> str:
    """The letters that a stem shares with its word: `retri` of "retry" ends in a letter of its own."""
    return term.removesuffix("i")[:PREFIX] or term


class Reading:
    """A text line by line: where each starts, and which of a query's terms it has."""

    def __init__(self, text: str, finder: Finder) -> None:
        self.text = text
        self.lines = text.split("\n")  # as lines are counted everywhere: a form feed does not end one
        self.starts = list(accumulate([len(line) + 1 for line in self.lines], initial=0))
        self.terms: dict[int, list[str]] = {}  # by line, for lines that have any
        end = 0
        for start, term in finder.find_terms(text):
            if start >= end:
                line = bisect_right(self.starts, start) - 1
                end = self.starts[line + 1]
                self.terms[line] = []
            self.terms[line].append(term)

    def factors(self, body: int) -> dict[int, float]:
        """The weight of terms in each line that has any; imports and comments at the head of the text end at `body`."""
        factors = {line: LINE_WEIGHTS.get(line_kind(self.lines[line]), 1.0) for line in self.terms}
        return {line: min(factor, IN_HEAD) if line < body else factor for line, factor in factors.items()}

    def body_start(self) -> tuple[int, bool]:
        """Where imports and comments at the head of the text end, and whether a definition begins there; comments
        that lead to a definition belong to it."""
        leading = -1
        for line, kind in enumerate(map(line_kind, self.lines)):
            if kind in _LEADING:
                leading = line if leading < 0 else leading
            elif kind is LineKind.IMPORT or kind is LineKind.BLANK:
                leading = -1
            else:
                is_head = kind is LineKind.DEFINITION
                return (leading if is_head and leading >= 0 else line), is_head
        return 0, False

    def definition_around(self, line: int, room: int) -> int | None:
        """Where the definition around this line begins, with its leading comments and attributes; None if that is
        here, or more than `room` characters above."""
        lines, head, least = self.lines, line, self.starts[line] - room
        if line_kind(lines[line]) is not LineKind.DEFINITION:
            indent = len(lines[line]) - len(lines[line].lstrip())
            while lines[head][:indent].isspace() or line_kind(lines[head]) is not LineKind.DEFINITION:
                if not indent or not head or self.starts[head] < least:
                    return None
                head -= 1
        while head and self.starts[head - 1] >= least and line_kind(lines[head - 1]) in _LEADING:
            head -= 1
        return head if head < line and self.starts[head] >= least else None

    def leads_to(self, line: int) -> int:
        """The line below a comment or attribute; other lines stand for themselves."""
        for below in range(line, len(self.lines)):
            text = self.lines[below]
            if text.lstrip()[:1] not in _MAY_LEAD or line_kind(text) not in ABOVE_A_LINE:
                return below
        return line


_LEADING = frozenset({LineKind.COMMENT, LineKind.ATTRIBUTE})
ABOVE_A_LINE = _LEADING | {LineKind.BLANK}
_MAY_LEAD = _MARKS | {""}


def focus(
    text: str, finder: Finder, budget: int, *, prose: bool = False, at: int | None = None, head: int | None = None
) -> Shown:
    """The best run of whole lines within `budget`, with the line `at` if one is requested, or from the definition at
    `head` on; at least one line, truncated if it is longer.

    A run is worth the weights of the query's terms in it, however often they are repeated. In code, a term is worth
    more or less by the kind of its line, and a run that starts where a definition does gets a bonus, since a signature
    explains more than the middle of a body. In `prose` all lines are alike, and the head of the text gets the bonus.
    """
    if len(text) <= budget and head is None:
        return Shown(0, text.count("\n"), text)
    reading = finder.read(text)
    factors, starts = _read_prose(reading, finder) if prose else _read_code(reading, finder, int(ABOVE * budget))
    if at is not None:
        starts = {_start_around(reading, at, int(ABOVE * budget)): True}
    if head is not None:
        above = reading.definition_around(head, int(ABOVE * budget))
        starts = {head if above is None else above: True}
    best, best_end, best_worth = 0, 0, (-1.0, False)
    for first, is_head in starts.items():
        end = _run_end(reading, first, budget)
        worth = _worth(reading, factors, first, end, finder.weights)
        if is_head:
            worth += HEAD_SHARE * finder.total
        if (worth, first in reading.terms) > best_worth:  # of equals, one that starts with what is asked for
            best, best_end, best_worth = first, end, (worth, first in reading.terms)
    chosen = text[reading.starts[best] : reading.starts[best_end] - 1].rstrip("\n")
    shown = chosen if len(chosen) <= budget else chosen[: max(budget - 1, 0)] + "…"
    return Shown(best, best + chosen.count("\n"), shown)


def _start_around(reading: Reading, line: int, room: int) -> int:
    """Where the definition around a line begins if that is at most `room` characters above, otherwise as far above."""
    head = reading.definition_around(line, room)
    return min(bisect_right(reading.starts, reading.starts[line] - room), line) if head is None else head


def _read_prose(reading: Reading, finder: Finder) -> tuple[dict[int, float], dict[int, bool]]:
    """The weight of terms in each line that has any, and where to start, with whether that is the head."""
    factors = dict.fromkeys(reading.terms, 1.0)
    return factors, {0: True} | {line: False for line in _heaviest(reading, factors, finder) if line}


def _read_code(reading: Reading, finder: Finder, room: int) -> tuple[dict[int, float], dict[int, bool]]:
    """The same for code. The best runs start at one of the heaviest lines, or where the definition around it begins."""
    body, defines = reading.body_start()
    factors = reading.factors(body)
    if not any(factors.values()):  # only imports name it
        factors = dict.fromkeys(factors, 1.0)
    starts = {body: defines}
    for line in _heaviest(reading, factors, finder):
        starts.setdefault(line, line_kind(reading.lines[line]) is LineKind.DEFINITION)
        if (head := reading.definition_around(line, room)) is not None:
            starts[head] = True
    return factors, starts


def _heaviest(reading: Reading, factors: Mapping[int, float], finder: Finder) -> list[int]:
    """The heaviest lines, and for each term the first line where it is worth the most."""
    weights = {line: finder.weigh(line_terms) * factors[line] for line, line_terms in reading.terms.items()}
    chosen = dict.fromkeys(sorted(weights, key=weights.__getitem__, reverse=True)[:STARTS_TRIED])
    best_line: dict[str, int] = {}
    for line, line_terms in reading.terms.items():
        for term in line_terms:
            if factors[line] > factors[best_line.setdefault(term, line)]:
                best_line[term] = line
    chosen |= dict.fromkeys(best_line.values())
    return [line for line in list(chosen)[:MOST_STARTS] if weights[line] > 0]


def _run_end(reading: Reading, first: int, budget: int) -> int:
    """The line after the last one that still fits when starting with `first`, at least the next."""
    return max(bisect_right(reading.starts, reading.starts[first] + budget + 1) - 1, first + 1)


def _worth(reading: Reading, factors: Mapping[int, float], first: int, end: int, weights: Mapping[str, float]) -> float:
    """The worth of the terms in lines from `first` to `end`, each as much as in its best line."""
    best: dict[str, float] = {}
    for line, line_terms in reading.terms.items():
        if line >= end:
            break
        if line >= first:
            for term in line_terms:
                if factors[line] > best.get(term, 0.0):
                    best[term] = factors[line]
    return sum(weights[term] * factor for term, factor in best.items())
