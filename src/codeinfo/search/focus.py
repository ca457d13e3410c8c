"""Which chunks of a file and which lines of a chunk to show: those that answer, within a budget of characters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.model import PLAIN_KIND, FileKind, symbol_kind
from codeinfo.ports import Extent, Snapshot, StoredSymbol
from codeinfo.search.channels import Floats, KeywordScores, rows_of
from codeinfo.search.query import Query
from codeinfo.tokens import terms

MEANING_IN_FILE = 1.0  # a cosine's worth beside the relative keyword score when chunks of one file compete
DEFINED_HERE = 3.0  # the chunk where a bare name is defined wins over any that uses it
NAMED_HERE = 1.0
QUOTED_HERE = 10.0
READ_FOR_QUOTE = 200  # chunks with all of a quotation's words that are read for it, best first
QUOTED_FIRST = (FileKind.CODE, FileKind.CONFIG, FileKind.TEST, FileKind.DOCS)
QUOTED_IN = 5  # files at most: what more of them say is a phrase, not a place


def best_rows(
    view: Snapshot,
    files: Sequence[int],
    keyword: Floats,
    cosines: Floats | None,
    defined: dict[int, float],
    most: int | None,
) -> list[list[int]]:
    """Each file's best rows, best first: by words and meaning, and by where a name asked for is defined."""
    rows, starts, counts = rows_of(view, files)
    words = keyword[rows]
    score = words / np.maximum(np.maximum.reduceat(words, starts), 1e-6).repeat(counts)
    if cosines is not None:
        score = score + MEANING_IN_FILE * cosines[rows]
    for row, worth in defined.items():
        score[rows == row] += worth
    order = rows[np.lexsort((-score, np.arange(len(files)).repeat(counts)))].tolist()
    spans = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
    return [order[start : end if most is None else min(end, start + most)] for start, end in spans]


def defined_rows(
    query: Query, definitions: Iterable[StoredSymbol], view: Snapshot, files: Sequence[int]
) -> dict[int, float]:
    """Rows of these files where a name of the query is defined, with what that is worth."""
    worths: dict[int, float] = {}
    among = set(files)
    for symbol in definitions:
        if symbol.file in among and (row := view.row_at(symbol.file, symbol.start_line)) is not None:
            worths[row] = max(worths.get(row, 0.0), _worth_of_definition(query, symbol))
    return worths


def _worth_of_definition(query: Query, definition: StoredSymbol) -> float:
    """Several constructors of one name in a chunk are worth no more than one; the type itself is worth the most."""
    worth = DEFINED_HERE if query.bare_name else NAMED_HERE
    if symbol_kind(definition.kind).ranks_as_type:
        worth *= 1.5
    return worth if definition.name in query.names else worth / 2


def quoting_rows(query: Query, keyword: KeywordScores, view: Snapshot) -> list[int]:
    """Rows that have the text of the query as it is, where few files do; of code alone where code has it: tests and
    documents repeat what it says."""
    quotation = query.quotation
    if quotation is None:
        return []
    wanted = query.terms.keys() & terms(quotation.text)
    if not wanted or not keyword.idf.keys() >= wanted:
        return []
    known = dict(zip(keyword.idf, keyword.uses, strict=True))
    having, *others = sorted((known[term].rows for term in wanted), key=len)
    for other in others:  # both in order
        having = having[other[np.minimum(other.searchsorted(having), len(other) - 1)] == having]
    if len(having) > READ_FOR_QUOTE:
        scores = keyword.rows(view.row_file[having])[having]
        having = having[np.argsort(-scores, kind="stable")[:READ_FOR_QUOTE]]
    rows = having.tolist()
    found: dict[str, dict[int, int]] = {}  # by kind: the file of each row
    for row, chunk in zip(rows, view.chunks(rows), strict=True):
        if quotation.is_in(chunk.text, chunk.file_kind):
            found.setdefault(chunk.file_kind, {})[row] = int(view.row_file[row])
    best = next((found[kind] for kind in QUOTED_FIRST if kind in found), {})
    return list(best) if len(set(best.values())) <= QUOTED_IN else []


def closest_rows(view: Snapshot, cosines: Floats, files: Sequence[int]) -> NDArray[np.intp]:
    """Of each file, which has some, the first row that is nearest."""
    rows, starts, counts = rows_of(view, files)
    near = cosines[rows]
    nearest = (near == np.maximum.reduceat(near, starts).repeat(counts)).nonzero()[0]
    found: NDArray[np.intp] = rows[nearest[nearest.searchsorted(starts)]]
    return found


def answering_definition(
    extents: Sequence[Extent], first_line: int, text: str, shown: Shown, finder: Finder
) -> Extent | None:
    """Of the definitions that the shown lines of a chunk are about, the one that has most of the query in its name and
    in these lines; the first of equals. Where none has anything of it: the one that the shown part begins with, and
    None at the beginning of the chunk."""
    named = [extent for extent in extents if symbol_kind(extent.kind) is not PLAIN_KIND] or extents
    found = finder.found_in(text)
    lines_found = {start: at for at, start in enumerate(found.starts)}
    met = dict[tuple[Extent, str], None]()
    owners = dict[Extent, None]()
    lines = text.split("\n") if named else []  # as lines are counted everywhere: a form feed ends none
    starts = accumulate((len(line) + 1 for line in lines), initial=0)
    for at, (line, start) in enumerate(zip(lines, starts, strict=False)):
        if shown.first <= at <= shown.last and line.strip():
            number = first_line + at
            owner = _owner(named, number, number + text.count("\n", start, _led_to(text, start)))
            if owner is not None:
                owners[owner] = None
                terms = found.terms_of(lines_found[start]) if start in lines_found else ()
                met |= dict.fromkeys((owner, term) for _, term in terms)
    middle, last = first_line + (shown.first + shown.last) / 2, first_line + shown.last
    worths = dict[Extent, float]()
    for extent in owners:  # not one of which the last lines show only the beginning
        if extent.start_line <= middle or 2 * (last - extent.start_line) >= extent.end_line - extent.start_line:
            worths[extent] = sum(finder.found_in(extent.qualified.rpartition(".")[2]).weights)
    for owner, term in met:
        if owner in worths:
            worths[owner] += finder.weights[term]
    best = max(worths, key=worths.__getitem__, default=None)
    if best is not None and worths[best]:
        return best
    return next(iter(owners), None) if shown.first else None


def _owner(named: Sequence[Extent], line: int, led_to: int) -> Extent | None:
    """The innermost definition around a line, or around the line that it leads to where that lies in the former."""
    inner = _innermost(named, line)
    below = inner if led_to == line else _innermost(named, led_to)
    return below if inner is None or (below is not None and below.end_line <= inner.end_line) else inner


def _innermost(named: Sequence[Extent], line: int) -> Extent | None:
    found = None
    for extent in named:
        if extent.start_line <= line <= extent.end_line and (found is None or extent.start_line > found.start_line):
            found = extent
    return found


def _led_to(text: str, start: int) -> int:
    """Where the line starts that a comment or attribute, which starts here, stands above; other lines stand for
    themselves."""
    at = start
    while at < len(text):
        line = text[at : _line_end(text, at)]
        if line.lstrip()[:1] not in _MAY_LEAD or line_kind(line) not in _ABOVE_A_LINE:
            break
        at += len(line) + 1
    return at if at < len(text) else start


LINE_READ = 200  # characters of a line that tell what it is
MODIFIERS_READ = 6  # words before the one that says what is defined


class LineKind(Enum):
    BLANK = "blank"
    IMPORT = "import"
    COMMENT = "comment"
    ATTRIBUTE = "attribute"  # belongs to the definition below it: a decorator, an annotation
    DEFINITION = "definition"  # the first line of one
    OTHER = "other"


_ATTRIBUTES = ("@", "#[", "#![", "template<", "template <")
_COMMENTS = ("//", "/*", "* ", "*/", "#", "--", ";", "%", '"""', "'''", "<!--", "{-")
_MAY_LEAD = frozenset({"", *(mark[0] for mark in (*_ATTRIBUTES, *_COMMENTS))})  # how such a line may begin
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


def line_kind(line: str) -> LineKind:
    bare = line[:LINE_READ].strip()
    if not bare:
        return LineKind.BLANK
    if bare.startswith(_ATTRIBUTES):
        return LineKind.ATTRIBUTE
    first = _word(bare.split(None, 1)[0])
    if first in _IMPORTS or (first in _MAY_IMPORT and _imports(first, bare)):
        return LineKind.IMPORT
    if bare == "*" or (bare.startswith(_COMMENTS) and first != "#define"):
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


# The first result is read, the last ones are glanced at: characters by place, 3,300 for ten results.
BUDGETS = (900, 500, 350, 300)
LATER_BUDGET = 200
HEAD_SHARE = 0.35  # of the query's weight: where a definition begins tells what the rest is
REPEATED = 0.1
# What a term is worth by the line it is in, 1 elsewhere: what a file imports is no answer, and the line that begins a
# definition says what those below it are about.
LINE_WORTHS = {LineKind.IMPORT: 0.0, LineKind.COMMENT: 0.8, LineKind.DEFINITION: 2.0}
IN_HEAD = 0.3  # in the comments above the imports: licences, and what a whole file is about
ABOVE = 0.4  # of the budget, for what stands between the beginning of a definition and the line that was looked for
STARTS_TRIED = 4  # heaviest lines
MOST_STARTS = 7  # with those of terms that are in none of them
LEAST_WEIGHT = 0.15  # of the heaviest term: lighter ones are on too many lines to tell which
PREFIX = 5  # letters by which a term is known: stems keep the beginning of a word


def budget_for(place: int) -> int:
    return BUDGETS[place] if place < len(BUDGETS) else LATER_BUDGET


class Shown(NamedTuple):
    """The part of a text that is shown: its first and last line, by offset, and what they say."""

    first: int
    last: int
    text: str


class Found(NamedTuple):
    """Where a query's terms are in a text, in order, and the lines that have any."""

    places: list[tuple[int, str]]  # where a term starts
    starts: list[int]  # of each such line
    firsts: list[int]  # position in `places` of its first term
    weights: list[float]  # of its different terms

    def terms_of(self, line: int) -> list[tuple[int, str]]:
        """The places on one of these lines."""
        last = self.firsts[line + 1] if line + 1 < len(self.firsts) else len(self.places)
        return self.places[self.firsts[line] : last]


class Finder:
    """Finds a query's terms in a text, line by line; made once a query.

    A term is known by its first letters, which stemming keeps: exact enough to choose lines by, and a plain search for
    each instead of cutting every line into terms.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        least = LEAST_WEIGHT * max(weights.values(), default=0.0)
        self.weights: dict[str, float] = {}
        for term, weight in weights.items():
            if weight >= least:
                beginning = _beginning(term)
                self.weights[beginning] = max(weight, self.weights.get(beginning, 0.0))
        self.total = sum(self.weights.values())
        self._terms = sorted(self.weights, key=len)
        self._last = ("", Found([], [], [], []))

    def found_in(self, text: str) -> Found:
        if text != self._last[0]:  # what is shown of a chunk and what it is called are asked one after the other
            self._last = text, self._find_in(text)
        return self._last[1]

    def _find_in(self, text: str) -> Found:
        found = Found([], [], [], [])
        places, starts, firsts, weights = found
        line_end = seen_to = -1
        terms_here: set[str] = set()
        for place in self._places(text):
            start, term = place
            if start < seen_to:
                continue  # part of a longer one
            seen_to = start + len(term)
            if start > line_end:
                starts.append(text.rfind("\n", 0, start) + 1)
                firsts.append(len(places))
                weights.append(0.0)
                line_end = _line_end(text, start)
                terms_here.clear()
            if term not in terms_here:
                terms_here.add(term)
                weights[-1] += self.weights[term]
            places.append(place)
        return found

    def _places(self, text: str) -> list[tuple[int, str]]:
        """Every place where a term starts, in order; the longest where several start."""
        lowered = text.lower()
        if len(lowered) != len(text):  # a few capitals have longer small letters, and places would no longer agree
            lowered = text
        find = lowered.find
        term_at: dict[int, str] = {}
        for term in self._terms:  # the shortest first, so that longer ones take their places
            start = find(term)
            while start >= 0:
                term_at[start] = term
                start = find(term, start + 1)
        return sorted(term_at.items())


def _beginning(term: str) -> str:
    """The letters that a stem shares with its word: `retri` of "retry" ends in a letter of its own."""
    return term.removesuffix("i")[:PREFIX] or term


def focus(text: str, finder: Finder, budget: int, *, prose: bool = False) -> Shown:
    """The best run of whole lines within `budget`; at least one line, which is cut where it is longer.

    A run is worth the weights of the query's terms in it, a repeated term a tenth of its first occurrence. In code, a
    term is worth more or less by the kind of its line, and a run that starts where a definition does gets a bonus,
    since a signature explains more than the middle of a body. In `prose` all lines are alike, and the head of the text
    gets the bonus.
    """
    if len(text) <= budget:
        return Shown(0, text.count("\n"), text)
    found = finder.found_in(text)
    factors, starts = _read_prose(found) if prose else _read_code(found, text, budget)
    best, best_end, best_worth = 0, 0, -1.0
    for start, is_head in starts.items():
        end = _run_end(text, start, budget)
        worth = _worth(found, factors, start, end, finder.weights)
        if is_head:
            worth += HEAD_SHARE * finder.total
        if worth > best_worth:
            best, best_end, best_worth = start, end, worth
    first = text.count("\n", 0, best)
    chosen = text[best:best_end].rstrip("\n")
    shown = chosen if len(chosen) <= budget else chosen[: max(budget - 1, 0)] + "…"
    return Shown(first, first + chosen.count("\n"), shown)


def _read_prose(found: Found) -> tuple[list[float], dict[int, bool]]:
    """What a term is worth in each line that has any, and where to start, with whether that is the head."""
    factors = [1.0] * len(found.starts)
    return factors, {0: True} | {start: False for start in _heaviest(found, factors) if start}


def _read_code(found: Found, text: str, budget: int) -> tuple[list[float], dict[int, bool]]:
    """As of prose. The best runs start at one of the heaviest lines, or where the definition around it begins."""
    lines, room = _Lines(text), int(ABOVE * budget)
    body, defines = lines.body_start()
    factors = [lines.worth(start, body) for start in found.starts]
    starts = {body: defines}
    for start in _heaviest(found, factors):
        starts.setdefault(start, lines.kind(start) is LineKind.DEFINITION)
        if (head := lines.definition_around(start, room)) is not None:
            starts[head] = True
    return factors, starts


def _heaviest(found: Found, factors: Sequence[float]) -> list[int]:
    """The heaviest lines, and of each term the first line where it is worth the most."""
    weights = [weight * factor for weight, factor in zip(found.weights, factors, strict=True)]
    order = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)
    chosen = dict.fromkeys(order[:STARTS_TRIED])
    best_line: dict[str, int] = {}
    for line, factor in enumerate(factors):
        for _, term in found.terms_of(line):
            known = best_line.setdefault(term, line)
            if factor > factors[known]:
                best_line[term] = line
    chosen |= dict.fromkeys(best_line.values())
    return [found.starts[line] for line in list(chosen)[:MOST_STARTS] if weights[line] > 0]


class _Lines:
    """The lines of a text by where they start, each read once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._kinds: dict[int, LineKind] = {}

    def kind(self, start: int) -> LineKind:
        known = self._kinds.get(start)
        if known is None:
            known = self._kinds[start] = line_kind(self._text[start : _line_end(self._text, start)])
        return known

    def worth(self, start: int, body: int) -> float:
        """Of a term in the line that starts here, where imports and comments at the head of the text end at `body`."""
        worth = LINE_WORTHS.get(self.kind(start), 1.0)
        return min(worth, IN_HEAD) if start < body else worth

    def body_start(self) -> tuple[int, bool]:
        """Where imports and comments at the head of the text end, and whether a definition begins there; comments that
        lead to a definition belong to it."""
        start, leading = 0, -1
        while start < len(self._text):
            kind = self.kind(start)
            if kind in _LEADING:
                leading = start if leading < 0 else leading
            elif kind in (LineKind.IMPORT, LineKind.BLANK):
                leading = -1
            else:
                is_head = kind is LineKind.DEFINITION
                return (leading if is_head and leading >= 0 else start), is_head
            start = _line_end(self._text, start) + 1
        return 0, False

    def definition_around(self, start: int, room: int) -> int | None:
        """Where the definition begins that holds the line which starts here, with the comments and attributes that lead
        to it; None where that is here, or more than `room` characters above."""
        head, indent = start, self._indent(start)
        while not (self.kind(head) is LineKind.DEFINITION and (head == start or self._indent(head) < indent)):
            if head == 0 or start - head > room:
                return None
            head = self._above(head)
        while head > 0 and self.kind(above := self._above(head)) in _LEADING and start - above <= room:
            head = above
        return head if start - room <= head < start else None

    def _above(self, start: int) -> int:
        return self._text.rfind("\n", 0, start - 1) + 1

    def _indent(self, start: int) -> int:
        line = self._text[start : _line_end(self._text, start)]
        return len(line) - len(line.lstrip())


_LEADING = frozenset({LineKind.COMMENT, LineKind.ATTRIBUTE})
_ABOVE_A_LINE = _LEADING | {LineKind.BLANK}


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def _run_end(text: str, start: int, budget: int) -> int:
    """Where the last whole line ends that still fits when showing starts at `start`."""
    if start + budget >= len(text):
        return len(text)
    end = text.rfind("\n", start, start + budget + 1)
    return end if end >= 0 else _line_end(text, start)


def _worth(found: Found, factors: Sequence[float], start: int, end: int, weights: Mapping[str, float]) -> float:
    """Of the terms from `start` to `end`: each as much as its best line makes it, and a tenth for every other use."""
    best: dict[str, float] = {}
    worth = 0.0
    for line in range(bisect_left(found.starts, start), bisect_left(found.starts, end)):
        factor = factors[line]
        for place, term in found.terms_of(line) if factor else ():
            if place >= end:
                break
            if term in best:
                worth += REPEATED * weights[term]
            best[term] = max(factor, best.get(term, 0.0))
    return worth + sum(weights[term] * factor for term, factor in best.items())
