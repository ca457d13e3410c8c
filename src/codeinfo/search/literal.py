r"""Exact search: texts and regular expressions, line by line, in time linear in the text.

A pattern says which texts every matching line must have. The runs of three and four bytes in these choose pages, pieces
of files, by their signatures: one bit for each bucket of such runs. What is left is searched with `bytes.find` or RE2.

Signatures ignore the case of ASCII letters, so that `-i` needs no others. Matching follows ripgrep: a match stays
within a line; `\w`, `\d`, `\s` and a `\b` at either end know Unicode. Elsewhere `\b` knows ASCII alone, as RE2 has it.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.errors import UsageError
from codeinfo.globs import compile_linear
from codeinfo.model import json_decoder

MAX_PATTERN_CHARS = 2000
MAX_DEPTH = 50  # nested groups
_LINEAR = "Matching takes time linear in the text, which rules these out: search for less, and filter what comes back"

Bits = NDArray[np.uint8]  # one bit a page


class Needs(Struct, frozen=True):
    """Texts that every matching line contains, and for each group in `one_of` those of one alternative."""

    runs: tuple[bytes, ...] = ()
    one_of: tuple[tuple[Needs, ...], ...] = ()


# --- patterns --------------------------------------------------------------------------------------------------------


class Pattern:
    """A compiled pattern: what it needs, and where a text first matches."""

    def __init__(self, text: str, *, regex: bool = False, word: bool = False, ignore_case: bool = False) -> None:
        _check(text, regex)
        self._literal = b"" if regex or word or ignore_case else text.encode("utf-8", "surrogatepass")
        self._flags = "im" if ignore_case else "m"
        any_case = ignore_case or (regex and _IGNORES_CASE.search(text) is not None)
        plain = Expression(re.escape(text), Needs(_runs(text, any_case)))
        self._expression = _read(text, any_case) if regex else plain
        self.needs = self._expression.needs
        self._landmark = b"" if any_case else max(self.needs.runs, key=len, default=b"")
        self._source = f"(?:{text})" if regex else plain.source
        self._word = word

    def first(self, data: bytes, at: int, is_ascii: bool) -> tuple[int, int]:
        """Where the first match at or after `at`, the start of a line, begins and ends; -1 if there is none."""
        if self._literal:
            start = data.find(self._literal, at)
            return start, start + len(self._literal)
        if self._landmark:  # every matching line contains it, and finding it is faster than matching
            landmark = data.find(self._landmark, at)
            if landmark < 0:
                return -1, -1
            at = max(at, data.rfind(b"\n", at, landmark) + 1)
        expression = self._ascii if is_ascii else self._any
        match = expression.search(data, at)
        return (-1, -1) if match is None else match.span(min(1, expression.groups))

    @cached_property
    def _ascii(self) -> Any:
        return self._compile(self._source, r"\W", starts=self._word, ends=self._word)

    @cached_property
    def _any(self) -> Any:
        expression = self._expression
        return self._compile(
            expression.source,
            rf"[^{_WORD}]",
            starts=self._word or expression.starts_word,
            ends=self._word or expression.ends_word,
        )

    def _compile(self, source: str, beside: str, *, starts: bool, ends: bool) -> Any:
        """With a word boundary at either end, where the match is the first group."""
        before, after = f"(?:^|{beside})" if starts else "", f"(?:{beside}|$)" if ends else ""
        captures = starts or ends
        return _compile(
            f"(?{self._flags}){before}({source}){after}" if captures else f"(?{self._flags}){source}", captures
        )


class Line(NamedTuple):
    """A line that matches: its number from 0, where it starts, and where its first match begins and ends."""

    number: int
    start: int
    match_start: int
    match_end: int


def matching_lines(pattern: Pattern, data: bytes) -> Iterator[Line]:
    at = line = 0
    end, is_ascii = len(data), data.isascii()
    while at < end:
        start, match_end = pattern.first(data, at, is_ascii)
        if start < 0 or (start == end and data.endswith(b"\n")):
            return
        line += data.count(b"\n", at, start)
        yield Line(line, max(at, data.rfind(b"\n", at, start) + 1), start, match_end)
        at = data.find(b"\n", start) + 1
        line += 1
        if not at:
            return


def _check(text: str, regex: bool) -> None:
    if not text:
        raise UsageError("the pattern is empty", next_step="Say what to look for")
    if len(text) > MAX_PATTERN_CHARS:
        what = f"the pattern has {len(text):,} characters"
        raise UsageError(what, next_step=f"Use at most {MAX_PATTERN_CHARS:,}: a distinctive part of it is enough")
    if "\n" in text or "\r" in text:
        raise UsageError("the pattern has several lines, and a match is within one", next_step="Search for one line")
    if regex:
        try:
            _compile(text)
        except ValueError as error:
            raise _syntax_error(text, str(error)) from None


def _compile(source: str, captures: bool = False) -> Any:
    try:
        return compile_linear(source, captures=captures)
    except ValueError as error:
        if "too large" in str(error):
            what = "the regular expression is too large once compiled"
            raise UsageError(what, next_step="Use smaller repetition counts") from None
        raise


def _syntax_error(text: str, error: str) -> UsageError:
    """RE2's error with its position in the pattern."""
    reason, _, part = error.partition(": ")
    place = _find_unclosed(text) if reason == "missing )" else max(0, text.find(part))
    where = f"at character {place + 1}"
    if text.startswith(("(?=", "(?!", "(?<=", "(?<!"), place):
        return UsageError(f"lookaround is not supported, {where}", next_step=_LINEAR)
    if re.match(r"\\[1-9k]", part):
        return UsageError(f"backreferences are not supported, {where}: {part}", next_step=_LINEAR)
    shown = f": {part[:40]}" if part and part != text else ""
    return UsageError(
        f"the regular expression is not valid {where}: {reason}{shown}",
        next_step="Escape special characters with a backslash, or search for it as plain text",
    )


def _find_unclosed(text: str) -> int:
    """Where the last unclosed group begins."""
    waiting: list[int] = []
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "open":
            waiting.append(token.start())
        elif token[0] == ")" and waiting:
            waiting.pop()
    return waiting[-1] if waiting else 0


# --- reading an expression -------------------------------------------------------------------------------------------

# The word characters, digits and spaces of ripgrep, as in a character class; RE2's own are ASCII only.
_WORD = r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}"
_DIGIT = r"\p{Nd}"
_SPACE = r"\t\x0b\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_NOT_SPACE = (
    r"\x00-\x08\x0e-\x1f!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}"
    r"\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}"
)


@cache
def _not_word() -> str:
    """Everything but word characters, for a class that excludes more or less than these."""
    marks = bytearray(sys.maxunicode + 1)
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        marks[code] = category[0] in "LM" or category in ("Nd", "Nl", "Pc") or code in (0x200C, 0x200D)
    marks[0x24B6:0x24EA] = b"\1" * 52
    return "".join(rf"\x{{{run.start():x}}}-\x{{{run.end() - 1:x}}}" for run in re.finditer(rb"\0+", marks))


_CLASSES: dict[str, Callable[[], str]] = {
    r"\w": lambda: _WORD,
    r"\W": _not_word,
    r"\d": lambda: _DIGIT,
    r"\D": lambda: r"\P{Nd}",
    r"\s": lambda: _SPACE,
    r"\S": lambda: _NOT_SPACE,
}
_TOKEN = re.compile(
    r"""(?P<quoted>\\Q.*?(?:\\E|\Z))
    |   (?P<class>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])
    |   (?P<open>\((?:\?(?:P?<\w+>|[imsU-]*[:)]))?)
    |   (?P<repeat>[*+?]|\{(?P<least>\d+)(?:,\d*)?\})
    |   (?P<named>\\[pP](?:\{[^}]*\}|.) | \\x\{[0-9a-fA-F]+\} | \\x[0-9a-fA-F]{2} | \\[0-7]{1,3} | \\[a-zA-Z])
    |   \\(?P<escaped>.)
    |   (?P<other>[.^$|)])
    |   (?P<plain>.)""",
    re.VERBOSE,
)
_IN_CLASS = re.compile(r"\\.")
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z-]*i")  # a flag anywhere in an expression
_WORD_TOKEN = re.compile(r"\w|\[(?:\w-\w|\w|\\[wd])+\]")


class Expression(Struct, frozen=True):
    """An expression with Unicode classes, and what it needs. `\\b` at its ends is left to the caller: a
    word starts or ends there."""

    source: str
    needs: Needs
    starts_word: bool = False
    ends_word: bool = False


def _read(text: str, any_case: bool) -> Expression:
    """Read a valid expression."""
    reader = _Reader(text, any_case)
    part = reader.alternatives(0)
    starts = part.starts_word and reader.written[0] == r"\b"
    ends = part.ends_word and reader.written[-1] == r"\b"
    source = "".join(reader.written[starts : -1 if ends else None])
    return Expression(f"(?:{source})", part.needs, starts, ends)


class _Part(NamedTuple):
    """What a part of an expression needs, and whether its first and last characters are certainly word characters."""

    needs: Needs
    starts_word: bool = False
    ends_word: bool = False


class _Reader:
    """Reads an expression that RE2 accepts, and rewrites it with Unicode classes."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self.written: list[str] = []
        self._tokens = list(_TOKEN.finditer(text))
        self._at = 0
        self._ignore_case = ignore_case

    def alternatives(self, depth: int) -> _Part:
        if depth > MAX_DEPTH:
            raise UsageError(f"more than {MAX_DEPTH} groups are nested in each other", next_step="Use fewer groups")
        branches = [self._sequence(depth)]
        while self._at < len(self._tokens) and self._take()[0] == "|":
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        needs = Needs(one_of=(tuple(branch.needs for branch in branches),))
        is_group = depth > 0  # without one around them, `\\b` belongs to one alternative
        starts, ends = (all(flags) and is_group for flags in zip(*(branch[1:] for branch in branches), strict=True))
        return _Part(needs, starts, ends)

    def _take(self) -> re.Match[str]:
        token = self._tokens[self._at]
        self._at += 1
        self.written.append(_unicode(token))
        return token

    def _sequence(self, depth: int) -> _Part:
        """Up to the `|` or `)` that ends it, which is left to the caller."""
        texts = [""]
        runs: list[bytes] = []
        one_of: list[tuple[Needs, ...]] = []
        words: list[tuple[bool, bool]] = []  # of what takes room: whether it starts and ends as a word does
        while self._at < len(self._tokens) and self._tokens[self._at][0] not in ("|", ")"):
            token = self._take()
            inside = _Part(Needs(), _is_word(token), _is_word(token))
            if token.lastgroup == "open" and not token[0].endswith(")"):
                inside = self.alternatives(depth + 1)
            # Not of a text in \Q…\E: a quantifier behind it applies to its last character only.
            text = token["plain"] or token["escaped"] or ""
            least = self._least()
            if token[0] not in (r"\b", "^", "$"):
                words.append((inside.starts_word and least != 0, inside.ends_word and least != 0))
            if least == 0 or not text:
                texts.append("")  # what precedes and follows it need not be adjacent
                if least != 0:
                    runs += inside.needs.runs
                    one_of += inside.needs.one_of
            else:
                texts[-1] += text
                if least is not None:
                    texts.append(text)
        runs += (run for text in texts for run in _runs(text, self._ignore_case))
        starts, ends = (words[0][0], words[-1][1]) if words else (False, False)
        return _Part(Needs(tuple(runs), tuple(one_of)), starts, ends)

    def _least(self) -> int | None:
        """The minimum number of occurrences of the last token; None if it occurs once, as written."""
        least = None
        while self._at < len(self._tokens) and self._tokens[self._at].lastgroup == "repeat":
            token = self._take()
            times = int(token["least"]) if token["least"] else int(token[0] == "+")
            least = times if least is None else min(least, times)  # a lazy `?` reads as optional: needs less, not more
        return least


def _is_word(token: re.Match[str]) -> bool:
    """Whether it stands for some word character."""
    return token[0] in (r"\w", r"\d") or _WORD_TOKEN.fullmatch(token[0]) is not None


def _unicode(token: re.Match[str]) -> str:
    """A token with Unicode classes in place of RE2's."""
    text = token[0]
    if text == r"\n":
        raise UsageError(r"the pattern has \n, and a match is within one line", next_step="Search for one line")
    if text in (r"\A", r"\z") or (token.lastgroup == "open" and "m" in text.partition("-")[2]):
        raise UsageError(f"the pattern has {text}, and lines are matched one by one", next_step="Use ^ and $")
    if token.lastgroup == "class":
        return _IN_CLASS.sub(lambda escape: _CLASSES[escape[0]]() if escape[0] in _CLASSES else escape[0], text)
    if text in _CLASSES:
        return f"[{'^' if text.isupper() else ''}{_CLASSES[text.lower()]()}]"
    return text


def _runs(text: str, ignore_case: bool) -> tuple[bytes, ...]:
    """The parts of a text covered by signatures: ignoring case, only ASCII letters have exactly one other form."""
    parts = re.split(r"[^\0-\x7f]+", text) if ignore_case else [text]
    return tuple(part.encode("utf-8", "surrogatepass") for part in parts if len(part.encode("utf-8", "replace")) > 2)


# --- signatures ------------------------------------------------------------------------------------------------------

BUCKETS_LOG2 = 14
BUCKETS = 1 << BUCKETS_LOG2
PAGE_BYTES = 1 << 16  # a page of code this long sets half of its bits
MOST_BYTES = 64  # of one text that are looked up: this many leave hardly a wrong page
_BLOCK = 1024  # pages packed at once
_FORMAT = "codeinfo trigrams 1"
_SPREAD = np.uint32(2654435761)
_FOLDED = (
    ("\u212a".encode(), b"k"),
    ("\u017f".encode(), b"s"),
)  # also `k` and `s` when case is ignored


class Page(Struct, frozen=True, array_like=True):
    """A piece of a file that ends at a line end."""

    start: int
    end: int
    line: int  # number of its first line, from 0


class Paged(Struct, frozen=True, array_like=True):
    """A content: its key, its pages, and whether its raw bytes are searched."""

    key: str
    plain: bool
    pages: tuple[Page, ...]


class Header(Struct, frozen=True):
    format: str
    files: tuple[Paged, ...]


class Signatures:
    """Which pages may contain which runs of bytes. `rows[b]` has a bit for each page with a run of bucket `b`."""

    def __init__(self, files: Sequence[Paged], rows: Bits, checksums: NDArray[np.uint32] | None = None) -> None:
        self.files = {file.key: file for file in files}
        self.first: dict[str, int] = {}  # position of a content's first page
        self.count = 0
        for file in files:
            self.first[file.key] = self.count
            self.count += len(file.pages)
        self._rows = np.ascontiguousarray(rows)
        self._checksums = np.array([crc32(row) for row in self._rows], np.uint32) if checksums is None else checksums

    def encode(self) -> bytes:
        header = msgspec.json.encode(Header(_FORMAT, tuple(self.files.values())))
        sizes = np.array([len(header), crc32(header)], np.uint32)
        padding = b"\0" * (-len(header) % 4)
        return b"".join((sizes.tobytes(), header, padding, self._checksums.tobytes(), self._rows.tobytes()))

    def choose(self, needs: Needs) -> NDArray[np.bool_] | None:
        """The pages that may match; None means all. Raises ValueError if the stored data is damaged."""
        bits = self._bits(needs)
        return None if bits is None else np.unpackbits(bits, count=self.count).view(np.bool_)

    def _bits(self, needs: Needs) -> Bits | None:
        buckets = {bucket for run in needs.runs for bucket in _buckets(run[:MOST_BYTES]).tolist()}
        needed = [self._row(bucket) for bucket in sorted(buckets)]
        for alternatives in needs.one_of:
            choices = [bits for bits in map(self._bits, alternatives) if bits is not None]
            if len(choices) == len(alternatives):  # otherwise one of them may be anywhere
                needed.append(np.bitwise_or.reduce(choices))
        return np.bitwise_and.reduce(needed) if needed else None

    def is_sound(self) -> bool:
        return all(crc32(row.tobytes()) == checksum for row, checksum in zip(self._rows, self._checksums, strict=True))

    def _row(self, bucket: int) -> Bits:
        row: Bits = self._rows[bucket]
        if crc32(row.tobytes()) != self._checksums[bucket]:
            raise ValueError("a signature is damaged")
        return row

    def merge(self, other: Signatures, keys: set[str]) -> Signatures:
        """Both combined, without the contents that are no longer wanted."""
        files = [file for file in self.files.values() if file.key in keys]
        columns = [self.first[file.key] + at for file in files for at in range(len(file.pages))]
        rows = np.empty((BUCKETS, (len(columns) + other.count + 7) // 8), np.uint8)
        for start in range(0, BUCKETS, _BLOCK):
            block = slice(start, start + _BLOCK)
            before = np.unpackbits(self._rows[block], axis=1, count=self.count)[:, columns]
            after = np.unpackbits(other._rows[block], axis=1, count=other.count)
            rows[block] = np.packbits(np.concatenate((before, after), axis=1), axis=1)
        return Signatures([*files, *other.files.values()], rows)


def decode_signatures(data: bytes | memoryview) -> Signatures:
    """Decode what `encode` wrote, without copying; ValueError if it is damaged or from another version."""
    sizes = np.frombuffer(data, np.uint32, 2)
    length = int(sizes[0])
    header = bytes(memoryview(data)[8 : 8 + length])
    if crc32(header) != sizes[1]:
        raise ValueError("the header is damaged")
    described = json_decoder(Header).decode(header)  # a msgspec error is a ValueError
    if described.format != _FORMAT:
        raise ValueError(f"of another version: {described.format}")
    width = (sum(len(file.pages) for file in described.files) + 7) // 8
    checksums = np.frombuffer(data, np.uint32, BUCKETS, 8 + length + -length % 4)
    rows = np.frombuffer(data, np.uint8, BUCKETS * width, 8 + length + -length % 4 + 4 * BUCKETS)
    return Signatures(described.files, rows.reshape(BUCKETS, width), checksums)


def signatures_of(files: Iterable[tuple[str, bytes, bool]]) -> Signatures:
    """The signatures of contents, each with its key and whether its raw bytes are searched."""
    described: dict[str, Paged] = {}
    packed: list[Bits] = []
    marks = np.zeros((_BLOCK, BUCKETS), np.bool_)
    used = 0
    for key, data, plain in files:
        if key in described:  # many files of a repository are copies
            continue
        pages = tuple(_pages(data))
        described[key] = Paged(key, plain, pages)
        for page in pages:
            marks[used, _buckets(data[page.start : page.end])] = True
            used += 1
            if used == _BLOCK:
                packed.append(np.packbits(marks, axis=0).T)
                marks[:] = False
                used = 0
    packed.append(np.packbits(marks[:used], axis=0).T)
    return Signatures(list(described.values()), np.concatenate(packed, axis=1))


def _pages(data: bytes) -> Iterator[Page]:
    start = line = 0
    while start < len(data):
        end = data.find(b"\n", start + PAGE_BYTES) + 1 or len(data)
        yield Page(start, end, line)
        line += data.count(b"\n", start, end)
        start = end


def _buckets(data: bytes) -> NDArray[np.intp]:
    """The buckets of all trigrams and of all runs of four bytes, which tell sequences of common words apart."""
    data = data.lower()
    if not data.isascii():
        for letter, plain in _FOLDED:
            data = data.replace(letter, plain)
    values = np.frombuffer(data, np.uint8)
    if len(values) < 3:
        return np.zeros(0, np.intp)
    codes = np.empty(2 * len(values) - 5, np.uint32)
    threes, fours = codes[: len(values) - 2], codes[len(values) - 2 :]
    np.left_shift(values[:-2], 16, out=threes, dtype=np.uint32)
    threes |= np.left_shift(values[1:-1], 8, dtype=np.uint32)
    threes |= values[2:]
    np.left_shift(threes[:-1], 8, out=fours)
    fours |= values[3:]
    codes *= _SPREAD
    codes >>= 32 - BUCKETS_LOG2
    return codes.astype(np.intp)  # the fastest type to index with
