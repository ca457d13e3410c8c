"""From a text that users see, in a file of translations, to the code that shows it: by the key of the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from codeinfo.model import FileKind
from codeinfo.ports import Snapshot
from codeinfo.search.channels import Ints
from codeinfo.search.query import Quotation
from codeinfo.tokens import terms

MOST_READ = 400  # chunks of code with all terms of a key
USED_IN = 8  # files at most: a key in more is a common word

# `"repo.pulls.new": "New Pull Request"`, `new: New`, `'new' => 'New'`, `new = New`
_ENTRY = re.compile(r"(?P<indent>\s*)[\"']?(?P<key>[\w./:-]*\w)[\"']?\s*(?:=>|[:=])(?:\s*(?P<value>\S.*))?")
_NAMED = re.compile(r"\bname=\"([\w.-]+)\"")  # an XML element with the text, or on the line above it
_OPENINGS = ("{", "[", "array(")
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?")
_SEVERAL_WORDS = re.compile(r"\w+[._:/-]\w.*|\w*[a-z][A-Z].*")
_TRANSLATIONS = re.compile(
    r"(?:\A|[/._-])(?:lang|langs|locale|locales|i18n|l10n|translations|messages|strings)(?=[/._-])", re.IGNORECASE
)
_ENGLISH = re.compile(r"(?:\A|[/._-])en(?:[-_]\w+)?(?=[/._-])")


def choose_labelled(by_kind: Mapping[str, Mapping[int, int]], view: Snapshot) -> dict[int, int]:
    """Of rows with a text, each with its file, those that may have it under a key: in translations, and in any data if
    code does not have it."""
    code, data = (by_kind.get(kind, {}) for kind in (FileKind.CODE, FileKind.CONFIG))
    rows = {**code, **data}
    return {row: file for row, file in rows.items() if not code or _is_translation(view.paths[file])}


def _is_translation(path: str) -> bool:
    return _TRANSLATIONS.search(path) is not None


def in_english(rows: Mapping[int, int], view: Snapshot) -> Mapping[int, int]:
    """Of rows, each with its file, those in English texts; all if there are none."""
    return {row: file for row, file in rows.items() if _ENGLISH.search(view.paths[file])} or rows


def rows_of_all(lists: Iterable[Ints]) -> Ints:
    """The rows that are in all lists, each of them in order."""
    rarest, *others = sorted(lists, key=len)
    for rows in others:
        rarest = rarest[rows[np.minimum(rows.searchsorted(rarest), len(rows) - 1)] == rarest]
    return rarest


def find_label_uses(label: Quotation, rows: Sequence[int], view: Snapshot) -> Mapping[int, Quotation]:
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
        having = rows_of_all([posting.rows for posting in postings.values()])
        rows = [row for row in having.tolist() if view.kinds[view.row_file[row]] == FileKind.CODE][:MOST_READ]
        read = ((row, use.search(chunk.text)) for row, chunk in zip(rows, view.chunks(rows), strict=True))
        if uses := {row: Quotation(match[0]) for row, match in read if match}:
            return uses if len(set(view.row_file[list(uses)].tolist())) <= USED_IN else {}
    return {}
