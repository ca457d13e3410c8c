"""What compilers say: `index.scip`, the output of a compiler-based indexer (https://github.com/sourcegraph/scip), and
the questions for language servers.

Of SCIP's protocol buffers only documents, occurrences and roles are decoded. A file may have hundreds of megabytes, and
a question needs few of its documents: each is decoded on demand.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from string import ascii_letters, digits
from typing import NamedTuple, Protocol

from msgspec import Struct

from codeinfo.cache import group_by_key
from codeinfo.files import open_regular

FILE_NAME = "index.scip"
_DEFINITION = 1  # the bit of a role
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_SYMBOL = 4000  # characters; a longer one is data, and costs its square to take apart
_PAGE = 1 << 16


class ScipError(ValueError):
    """The bytes are not a SCIP index."""


class Occurrence(Struct, frozen=True):
    """Where a symbol is written. Lines start at 1, columns at 0."""

    line: int
    start: int
    end: int
    symbol: str
    defines: bool


class _Pages:
    """The bytes of a file. It is not mapped: its indexer may cut it meanwhile, and that would end the process."""

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        weakref.finalize(self, os.close, self._file)  # there is no end to a question, other than that nobody holds this
        self.status = os.fstat(self._file)
        self._start, self._page = 0, b""

    def __getitem__(self, at: int, /) -> int:
        if not 0 <= at - self._start < len(self._page):
            self._start, self._page = at, os.pread(self._file, _PAGE, at)
        return self._page[at - self._start]

    def read(self, start: int, end: int) -> bytes:
        """Raises ScipError where the file is another one by now."""
        data = os.pread(self._file, end - start, start)
        status = os.fstat(self._file)
        if (status.st_mtime_ns, status.st_size) != (self.status.st_mtime_ns, self.status.st_size):
            raise ScipError("it was written to while it was read")
        return data


class Compiler:
    """The answers of a project's `index.scip` for files that have not been written since."""

    def __init__(self, path: Path, root: Path) -> None:
        """Raises OSError, or ScipError for a file of another kind."""
        self._root, self._data = root, _Pages(path)
        self.tool = ""
        self._spans: dict[str, tuple[int, int]] = {}
        self._fresh: dict[str, bool] = {}
        self._uses: dict[str, dict[int, list[Occurrence]]] = {}
        for number, start, end in _fields(self._data, 0, self._data.status.st_size):
            if number == 1:
                self.tool = _tool(self._data.read(start, end))
            elif number == 2:
                name = next(((a, b) for field, a, b in _fields(self._data, start, end) if field == 1 and b >= 0), None)
                if name is not None:
                    self._spans[self._data.read(*name).decode("utf-8", "replace")] = (start, end)
        if not self._spans and not self.tool:
            raise ScipError("it has neither documents nor the name of the tool that wrote it")

    @property
    def paths(self) -> Collection[str]:
        return self._spans.keys()

    def covers(self, path: str) -> bool:
        if path not in self._fresh:
            self._fresh[path], written_ns = False, self._data.status.st_mtime_ns
            with suppress(OSError):
                self._fresh[path] = path in self._spans and (self._root / path).stat().st_mtime_ns <= written_ns
        return self._fresh[path]

    def symbols_at(self, path: str, line: int, name: str, text: str) -> list[str]:
        """What a name on a line means; `text` is the line. Empty if the compiler knows no more than we do."""
        if not text.isascii():  # columns are counted differently there
            return []
        found = [place.symbol for place in self._on_line(path, line) if text[place.start : place.end] == name]
        return [] if any(symbol.startswith("local ") for symbol in found) else found

    def defines(self, path: str, line: int, symbol: str) -> bool:
        return any(occurrence.defines and occurrence.symbol == symbol for occurrence in self._on_line(path, line))

    def _on_line(self, path: str, line: int) -> list[Occurrence]:
        if path not in self._uses:
            self._uses[path] = group_by_key((occurrence.line, occurrence) for occurrence in self.occurrences(path))
        return self._uses[path].get(line, [])

    def occurrences(self, path: str) -> tuple[Occurrence, ...]:
        """None where the document is broken: its names are then resolved as if there were no index."""
        with suppress(OSError, ScipError):
            return tuple(_occurrences(self._data.read(*self._spans[path]))) if path in self._spans else ()
        return ()

    def note(self) -> str:
        stale = sum(not self.covers(path) for path in self.paths)
        older = f", {stale} of which were changed since and are resolved without it" if stale else ""
        return f"{FILE_NAME} by {self.tool or 'an unnamed tool'} covers {len(self._spans)} files{older}"


def _tool(data: bytes) -> str:
    parts = {}
    for number, a, b in _fields(data, 0, len(data)):
        if number == 2:
            parts = {field: _text(data, x, y) for field, x, y in _fields(data, a, b) if field < 3}
    return " ".join(filter(None, (parts.get(1, ""), parts.get(2, ""))))


def _occurrences(data: bytes) -> Iterator[Occurrence]:
    for number, a, b in _fields(data, 0, len(data)):
        if number != 2:
            continue
        place: list[int] = []
        symbol, roles = "", 0
        for field, x, y in _fields(data, a, b):
            if field == 1 and y < 0:  # not packed: one number each
                place.append(x)
            elif field == 1:
                place = list(_numbers(data, x, y))
            elif field == 2:
                symbol = _text(data, x, y)
            elif field == 3:
                roles = x
        if 0 < len(symbol) <= _LONGEST_SYMBOL and len(place) in (3, 4):
            last = place[2] if len(place) == 3 else place[3] if place[0] == place[2] else place[1]
            yield Occurrence(place[0] + 1, place[1], last, symbol, bool(roles & _DEFINITION))


# --- what it says of a project ----------------------------------------------------------------------------------------

_DESCRIPTOR = re.compile(r"(?:`((?:[^`]|``)+)`|([\w$+-]+))(?:\([^()]*\)\.|[#.:/!])")
_CONSTRUCTORS = frozenset({"<constructor>", "__init__"})


def defined_name(symbol: str) -> tuple[str, bool]:
    """The name at the end of a symbol, and whether it is a constructor: then it is the name of its type."""
    names = [quoted or plain for quoted, plain in _DESCRIPTOR.findall(symbol)]
    if len(names) > 1 and names[-1] in _CONSTRUCTORS:
        return names[-2], True
    return (names[-1] if names else ""), False


def scip_written(root: Path) -> int:
    """When a project's `index.scip` was written, in nanoseconds; 0 if there is none."""
    try:
        return (root / FILE_NAME).stat().st_mtime_ns
    except OSError:
        return 0


def open_compiler(root: Path) -> Compiler | None:
    """None if the project has no such file. Raises ScipError for one that cannot be read."""
    try:
        return Compiler(root / FILE_NAME, root)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ScipError(str(error)) from error


def compiler_notes(root: Path) -> tuple[str, ...]:
    """What `index` and `status` say about a project's `index.scip`."""
    try:
        compiler = open_compiler(root)
    except ScipError as error:
        return (f"{FILE_NAME} is not used: {error}",)
    return (compiler.note(),) if compiler else ()


# --- protocol buffers -------------------------------------------------------------------------------------------------


class _Indexed(Protocol):
    def __getitem__(self, at: int, /) -> int: ...


def _text(data: bytes, start: int, end: int) -> str:
    return data[start:end].decode("utf-8", "replace")


def _fields(data: _Indexed, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message: number, and the span of its bytes or, for a varint, the value and -1."""
    at = start
    while at < end:
        tag, at = _number(data, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _number(data, at)
            if at + size > end:
                raise ScipError(f"a field reaches beyond its message at byte {at}")
            yield tag >> 3, at, at + size
            at += size
        elif kind == _VARINT:
            value, at = _number(data, at)
            yield tag >> 3, value, -1
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ScipError(f"an unknown type of field at byte {at}")


def _numbers(data: bytes, start: int, end: int) -> Iterator[int]:
    while start < end:
        value, start = _number(data, start)
        yield value


def _number(data: _Indexed, at: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
            if shift > 63:
                raise ScipError(f"a number is too long at byte {at}")
    except IndexError:
        raise ScipError("it ends in the middle of a field") from None


# --- language servers ------------------------------------------------------------------------------------------------

_IN_NAMES = f"{ascii_letters}{digits}_$"
USES, CALLS, MEANING = "uses", "calls", "meaning"


class Question(NamedTuple):
    """A question for a language server: where a definition is used, what it calls, or what a used name means."""

    kind: str
    path: str
    line: int
    name: str
    column: int = -1  # of the name, in UTF-16 units; otherwise it is searched for on the line


class Proven(Struct, frozen=True):
    """A place ending in a name that a compiler sees used or called. Lines start at 1; columns, in UTF-16 units, at
    0. The target is the definition; its path is empty if that is outside the project."""

    path: str
    line: int
    start: int
    end: int
    target_path: str = ""
    target_line: int = 0

    def name(self, text: str) -> str:
        """The name, in the text of the line."""
        units = text.encode("utf-16-le")
        written = units[2 * self.start : 2 * self.end].decode("utf-16-le", "ignore")
        return written[len(written.rstrip(_IN_NAMES)) :] if written.isascii() else written

    def is_called(self, text: str) -> bool:
        return text.encode("utf-16-le")[2 * self.end :].decode("utf-16-le", "ignore").startswith("(")


class Proofs:
    """What language servers said about the definitions of one generation. While `asking`, open questions are
    collected in `wanted`: servers take seconds, so the caller asks them and answers again."""

    def __init__(self) -> None:
        self.known: dict[Question, tuple[Proven, ...]] = {}
        self.wanted: dict[Question, None] = {}
        self.asking = False

    def get(self, question: Question) -> tuple[Proven, ...] | None:
        found = self.known.get(question)
        if found is None and self.asking:
            self.wanted[question] = None
        return found
