"""Where a text that a query quotes stands; of one in a file of translations, the code that shows it by its key; of a
route, the code that serves it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.model import FileKind
from codeinfo.ports import Snapshot
from codeinfo.search.channels import Floats, Ints, KeywordScores
from codeinfo.search.query import Query, Quotation, Shape
from codeinfo.tokens import terms

if TYPE_CHECKING:
    from codeinfo.languages.routes import AskedRoute

# Chunks with all words of a quotation that are read, by the kinds that come first.
MOST_READ = {FileKind.CODE: 120, FileKind.CONFIG: 120, FileKind.TEST: 20, FileKind.DOCS: 20}
MOST_FILES = 8  # text in more files is a phrase, and a key a common word
MOST_READ_FOR_KEY = 400  # chunks of code
# What a file scores that has all of a text in code: 1.
PART = 0.3  # of a message
SHOWN_BY_KEY = 1.5  # code that shows a text of a file of translations comes before that file
IN_DATA = 4.0  # if only data contains it, which the factor `config` divides by as much

# `"repo.pulls.new": "New Pull Request"`, `new: New`, `'new' => 'New'`, `new = New`
_ENTRY = re.compile(r"(?P<indent>\s*)[\"']?(?P<key>[\w./:-]*\w)[\"']?\s*(?:=>|[:=])(?:\s*(?P<value>\S.*))?")
_NAMED = re.compile(r"\bname=\"([\w.-]+)\"")  # an XML element with the text, or on the line above it
_OPENINGS = ("{", "[", "array(")
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?")
_SEVERAL_WORDS = re.compile(r"\w+[._:/-]\w.*|\w*[a-z][A-Z].*")
_TRANSLATIONS = re.compile(
    r"(?:\A|[/._-])(?:lang|langs|locale|locales|i18n|l10n|translations|messages|strings)(?=[/._-])", re.IGNORECASE
)
# Files that may declare routes.
_TABLE = re.compile(r"(?i)(?:url|rout|app|main|server|program|startup|api|endpoint|web|http|controller|handler)[^/]*$")
_ENGLISH = re.compile(r"(?:\A|[/._-])en(?:[-_]\w+)?(?=[/._-])")


class Quoted(Struct, frozen=True):
    """Where a text of the query stands verbatim."""

    rows: Sequence[int] = ()  # of chunks that have it or show it
    is_whole: bool = False  # they have all of it, not a part
    label_uses: Mapping[int, Quotation] = {}  # those of code that shows it by its key, each with the key as it is used
    scores: Floats | None = None  # of every file, if it stands anywhere
    lines: Sequence[Quotation] = ()  # of a route, where it stands, however it is written there
    served: Collection[int] = ()  # the rows that serve all of it


NOT_QUOTED = Quoted()


def find_quoted(query: Query, keyword: KeywordScores, view: Snapshot) -> Quoted:
    """The files that have a text of the query, or that show it by its key; of a route, those that serve it first."""
    quoted = _find_text(query, keyword, view)
    return _find_served(query, quoted, view) if query.route else quoted


def _find_text(query: Query, keyword: KeywordScores, view: Snapshot) -> Quoted:
    occurrence = _find_occurrence(query, keyword, view)
    if occurrence is None:
        return NOT_QUOTED
    quotation, rows, labelled = occurrence
    uses = _find_label_uses(quotation, labelled, view)
    is_data = any(view.kinds[view.row_file[row]] == FileKind.CONFIG for row in rows)
    is_change = query.shape in (Shape.TASK, Shape.REPORT)  # of the code that shows a label, not of the label
    if is_change and (is_data or uses):
        rows = []
    scores = np.zeros(len(view.paths), np.float32)
    scores[view.row_file[rows]] = IN_DATA if is_data and not uses else PART if quotation.is_part else 1
    scores[view.row_file[list(uses)]] = SHOWN_BY_KEY
    return Quoted([*uses, *rows], bool(rows) and (not quotation.is_part or query.bare_name), uses, scores)


def _find_served(query: Query, quoted: Quoted, view: Snapshot) -> Quoted:
    """The files that serve a route by their place or declare it, before those that only have it in a string."""
    from codeinfo.languages.routes import read_asked_route  # imported late: for routes only

    asked = read_asked_route(query.route)
    rows, is_declared, is_whole = _find_placed(asked, view), True, True
    if not rows:
        candidates = _rows_with_names(asked, view)
        chunks = zip(candidates, view.chunks(candidates), strict=True)
        read = ((row, asked.best_place(chunk.text, chunk.path)) for row, chunk in chunks)
        places = {row: place for row, place in read if place is not None}
        best = max((place.rank for place in places.values()), default=None)
        rows = {row: Quotation(place.line) for row, place in places.items() if place.rank == best}
        is_declared = all(places[row].is_declared for row in rows)
        is_whole = all(places[row].is_whole for row in rows)
    files = view.row_file[list(rows)]
    if not 0 < len(set(files.tolist())) <= MOST_FILES:
        return quoted
    lines = [line for line in rows.values() if line.text]
    scores = np.zeros(len(view.paths), np.float32)
    scores[files] = 1 if is_declared else PART
    if is_declared:
        return Quoted(list(rows), scores=scores, lines=lines, served=rows.keys() if is_whole else ())
    if quoted.scores is not None:
        scores = np.maximum(scores, quoted.scores)
    return replace(quoted, rows=[*rows, *quoted.rows], scores=scores, lines=lines)


def _find_placed(asked: AskedRoute, view: Snapshot) -> dict[int, Quotation]:
    """Of each file that serves a path by its place, the row that does, with its line."""
    rows: dict[int, Quotation] = {}
    method = asked.method or "default|GET|POST|PUT|PATCH|DELETE"
    serving = re.compile(rf"(?m)^export (?=.*\b(?:{method})\b).*\b(?:function|const|class)\b.*$")
    for file, path in enumerate(view.paths):
        if asked.served_by_place(path) and view.kinds[file] == FileKind.CODE and view.file_rows[file]:
            own = range(int(view.file_first[file]), int(view.file_first[file] + view.file_rows[file]))
            found = ((row, serving.search(chunk.text)) for row, chunk in zip(own, view.chunks(own), strict=True))
            rows |= next(({row: Quotation(match[0])} for row, match in found if match), {own[0]: Quotation("")})
    return rows


def _rows_with_names(asked: AskedRoute, view: Snapshot) -> list[int]:
    """The rows of code that have most names of a path, and of these the most telling ones."""
    having = np.zeros(len(view.row_file), np.float32)
    for name in filter(None, asked.path):
        needed = set(terms(name))
        rows = [posting.rows for posting in view.postings(sorted(needed)).values()]
        if needed and len(rows) == len(needed):
            having[_rows_of_all(rows)] += 1
    kinds = view.once("kinds", lambda: np.array(view.kinds))
    tables = view.once("tables", lambda: np.array([_TABLE.search(path) is not None for path in view.paths], bool))
    having[(kinds != FileKind.CODE)[view.row_file]] = 0
    having[tables[view.row_file] & (having > 0)] += 0.5
    best = np.argsort(-having, kind="stable")[:MOST_READ_FOR_KEY]
    return [int(row) for row in best if having[row]]


class _Occurrence(NamedTuple):
    quotation: Quotation
    rows: list[int]  # those that contain it verbatim, all in files of one kind
    labelled: list[int]  # those that have it, or a longer text, under a key


def _find_occurrence(query: Query, keyword: KeywordScores, view: Snapshot) -> _Occurrence | None:
    """The first of the query's quotations that occurs: in code if any does, since a test repeats the whole message
    that the code has in parts."""
    elsewhere = None
    for quotation in query.quotations:
        occurrence = _find_verbatim(quotation, query, keyword, view)
        if occurrence.rows and view.kinds[view.row_file[occurrence.rows[0]]] == FileKind.CODE:
            return occurrence
        if occurrence.rows or occurrence.labelled:
            elsewhere = elsewhere or occurrence
    return elsewhere


def _find_verbatim(quotation: Quotation, query: Query, keyword: KeywordScores, view: Snapshot) -> _Occurrence:
    """The rows that contain the text verbatim, if few files do; only code if code has it: tests and documents repeat
    it. Of a name, those that have it as a whole string, if nothing here is called so."""
    rows = _rows_with_words(quotation, query, keyword, view)
    by_kind: dict[str, dict[int, int]] = {}  # by kind: the file of each row
    strings: set[int] = set()
    for row, chunk in zip(rows, view.chunks(rows), strict=True):
        if quotation.is_in(chunk.text, chunk.file_kind):
            by_kind.setdefault(chunk.file_kind, {})[row] = int(view.row_file[row])
            strings |= {row} if quotation.is_string_in(chunk.text) else set()
    kind = next((kind for kind in MOST_READ if kind in by_kind), "")
    best: Mapping[int, int] = by_kind.get(kind, {})
    if quotation.is_name and not strings.isdisjoint(best) and not view.definitions((quotation.text,)):
        best = {row: file for row, file in best.items() if row in strings}
    if kind == FileKind.CONFIG:
        best = _in_english(best, view)
    labelled = {} if quotation.is_part else _in_english(_choose_labelled(by_kind, view), view)
    return _Occurrence(quotation, _if_in_few_files(best), _if_in_few_files(labelled))


def _rows_with_words(quotation: Quotation, query: Query, keyword: KeywordScores, view: Snapshot) -> Sequence[int]:
    """Those with all words of a quotation; of many, the best ones of each kind."""
    words = set(terms(quotation.text))
    needed = query.terms.keys() & words
    if not needed or not keyword.idf.keys() >= needed:
        return []
    having = _rows_of_all([keyword.uses[term].rows for term in needed])
    if len(having) > sum(MOST_READ.values()):  # common words, such as `code`, are no terms of the query
        having = _rows_of_all([having, *(posting.rows for posting in view.postings(sorted(words - needed)).values())])
    if len(having) > sum(MOST_READ.values()):
        scores = keyword.rows(view.row_file[having])[having]
        having = having[np.argsort(-scores, kind="stable")]
        kinds = view.once("kinds", lambda: np.array(view.kinds))[view.row_file[having]]
        having = np.concatenate([having[kinds == kind][:most] for kind, most in MOST_READ.items()])
    return [int(row) for row in having]


def _if_in_few_files(rows: Mapping[int, int]) -> list[int]:
    return list(rows) if len(set(rows.values())) <= MOST_FILES else []


def _choose_labelled(by_kind: Mapping[str, Mapping[int, int]], view: Snapshot) -> dict[int, int]:
    """Of rows with a text, each with its file, those that may have it under a key: in translations, and in any data if
    code does not have it."""
    code, data = (by_kind.get(kind, {}) for kind in (FileKind.CODE, FileKind.CONFIG))
    rows = {**code, **data}
    return {row: file for row, file in rows.items() if not code or _is_translation(view.paths[file])}


def _is_translation(path: str) -> bool:
    return _TRANSLATIONS.search(path) is not None


def _in_english(rows: Mapping[int, int], view: Snapshot) -> Mapping[int, int]:
    """Of rows, each with its file, those in English texts; all if there are none."""
    return {row: file for row, file in rows.items() if _ENGLISH.search(view.paths[file])} or rows


def _rows_of_all(lists: Iterable[Ints]) -> Ints:
    """The rows that are in all lists, each of them in order."""
    rarest, *others = sorted(lists, key=len)
    for rows in others:
        rarest = rarest[rows[np.minimum(rows.searchsorted(rarest), len(rows) - 1)] == rarest]
    return rarest


def _find_label_uses(label: Quotation, rows: Sequence[int], view: Snapshot) -> Mapping[int, Quotation]:
    """The rows of code that use a key under which these rows have the text, each with the key as it is used."""
    keys = [key for row in rows for key in _find_keys(label, row, view)]
    whole = [names for names, is_whole in keys if is_whole]
    chosen = dict.fromkeys(whole or [names for names, _ in keys])
    return {row: use for names in chosen for row, use in _find_uses(names, view).items() if row not in rows}


def _find_keys(label: Quotation, row: int, view: Snapshot) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The keys of the texts in this row that contain the label, by their names from the outermost, and whether it is
    all of the text."""
    file = int(view.row_file[row])
    chunks = view.chunks(range(int(view.file_first[file]), row + 1))
    lines = {chunk.start_line + at: line for chunk in chunks for at, line in enumerate(chunk.text.split("\n"))}
    text = re.escape(label.text)
    is_whole = re.compile(rf"[\"'>=:]\s*{text}\s*(?:[\"'<,;]|\Z)")
    for number in range(chunks[-1].start_line, chunks[-1].end_line + 1):
        line = lines.get(number, "")
        if not re.search(text, line, re.IGNORECASE):
            continue
        entry = _ENTRY.fullmatch(line)
        if named := _NAMED.search(line) or _NAMED.search(lines.get(number - 1, "")):
            yield (named[1],), is_whole.search(line) is not None
        elif entry and re.search(text, entry["value"] or "", re.IGNORECASE):
            names = _names_around(entry, number, lines)
            if len(names) > 1 and _LANGUAGE.fullmatch(names[0]):
                del names[0]
            if view.languages[file] == "php":
                names.insert(0, view.paths[file].rpartition("/")[2].removesuffix(".php"))
            if len(names) > 1 or _SEVERAL_WORDS.fullmatch(names[0]) or _is_translation(view.paths[file]):
                yield tuple(names), is_whole.search(line) is not None


def _names_around(entry: re.Match[str], number: int, lines: Mapping[int, str]) -> list[str]:
    """The names of the entries that a line is in, outermost first, and its own."""
    names, indent = [entry["key"]], len(entry["indent"])
    while indent and number > 1:
        number -= 1
        outer = _ENTRY.fullmatch(lines.get(number, ""))
        if outer and len(outer["indent"]) < indent and (outer["value"] or "{").startswith(_OPENINGS):
            names, indent = [outer["key"], *names], len(outer["indent"])
    return names


def _find_uses(names: Sequence[str], view: Snapshot) -> Mapping[int, Quotation]:
    """The rows of code with the key, or with as many of its last names as occur anywhere, but not with one of several:
    `title` says nothing."""
    for first in range(max(len(names) - 1, 1)):
        key = ".".join(names[first:])
        written = re.sub(r"\\?[.:/]", "[.:/]", re.escape(key))
        if _SEVERAL_WORDS.fullmatch(key):
            use = re.compile(rf"[\"'`.:/@{{]{written}(?:[\"'`]|(?![\w-]|[.:]\w))")
        else:
            use = re.compile(rf"([\"'`]){written}\1|\bstrings?[./]{written}\b")
        needed = set(terms(key))
        postings = view.postings(sorted(needed))
        if not needed or len(postings) < len(needed):
            continue
        having = _rows_of_all([posting.rows for posting in postings.values()])
        rows = [row for row in having.tolist() if view.kinds[view.row_file[row]] == FileKind.CODE][:MOST_READ_FOR_KEY]
        read = ((row, use.search(chunk.text)) for row, chunk in zip(rows, view.chunks(rows), strict=True))
        if uses := {row: Quotation(match[0]) for row, match in read if match}:
            return uses if len(set(view.row_file[list(uses)].tolist())) <= MOST_FILES else {}
    return {}
