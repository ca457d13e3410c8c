"""Path globs from users and projects: the one place that matches them, in time linear in the path; and expressions
from users that do.

`*`, `?` and `[…]` stay within one folder or file name; `**` stands for any number of folders, and `{a,b}` for either
`a` or `b`. A glob without a slash matches a name anywhere, one that ends with a slash matches everything below that
folder, and a leading `!` excludes what matches.

All globs of a set run in parallel as one automaton over the parts of a path: the state is an integer with one bit for
each part of each glob, so `**` never tries the same folder twice. Within a name, `fnmatch` generates expressions whose
stars do not backtrack.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from codeinfo.errors import UsageError

MAX_GLOBS = 64
MAX_GLOB_CHARS = 4096  # of all globs of one list together
MAX_PROGRAM_BYTES = 32 << 20  # of a compiled expression with its automaton; RE2 refuses or slows down, never exceeds it
_ANY_DEPTH = "**"
_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")


def lies_below(path: str, folder: str) -> bool:
    """Whether a path is that folder or file, or lies in it; everything lies below ""."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def similar_paths(written: str, paths: Iterable[str]) -> list[str]:
    """Of the paths whose last name has the same ending and resembles this one, up to three, most similar first."""
    from difflib import get_close_matches  # imported late: only mistakes need it

    ending = f".{written.rpartition('.')[2]}"
    names = {path: path.rpartition("/")[2] for path in paths if path.endswith(ending)}
    near = get_close_matches(written.rpartition("/")[2], set(names.values()), cutoff=0.75)
    called = ([path for path, name in names.items() if name == similar] for similar in near)
    return [path for paths_called in called for path in get_close_matches(written, paths_called, cutoff=0)][:3]


def check_globs(globs: Sequence[str], where: str) -> None:
    """Raise UsageError for a list that is too long to be matched against every file, or has an empty glob; `where`
    names the place."""
    chars = sum(map(len, globs))
    if chars > MAX_GLOB_CHARS:
        step = f"Use at most {MAX_GLOB_CHARS:,}; a folder needs one glob, as in src/**"
        raise UsageError(f"{where}: the globs have {chars:,} characters together", step)
    if (count := len(_expand_braces(globs))) > MAX_GLOBS:
        raise UsageError(f"{where}: {count} globs are too many", f"Use at most {MAX_GLOBS}; {{a,b}} counts as two")
    if any(not glob.removeprefix("!") for glob in globs):
        raise UsageError(f"{where}: a glob is empty", "Write one like *.py or src/**, or leave it out")


def match_globs(paths: Sequence[str], globs: Sequence[str], where: str = "globs") -> list[bool]:
    """For each path, whether some glob selects it (or there is none) and no glob with a `!` excludes it."""
    check_globs(globs, where)
    included = GlobSet([glob for glob in globs if not glob.startswith("!")])
    excluded = GlobSet([glob[1:] for glob in globs if glob.startswith("!")])
    return [(not included or included.matches(path)) and not (excluded and excluded.matches(path)) for path in paths]


def _expand_braces(globs: Sequence[str]) -> list[str]:
    """`*.{ts,tsx}` as `*.ts` and `*.tsx`; stops soon after there are too many."""
    expanded, waiting = list[str](), [*reversed(globs)]
    while waiting and len(expanded) + len(waiting) <= MAX_GLOBS:
        glob = waiting.pop()
        if braces := _BRACES.search(glob):
            before, after = glob[: braces.start()], glob[braces.end() :]
            waiting += [f"{before}{part}{after}" for part in braces[1].split(",", MAX_GLOBS)][::-1]
        else:
            expanded.append(glob)
    return expanded + waiting


class GlobSet:
    """Globs without `!`; a path matches if any of them does."""

    def __init__(self, globs: Sequence[str]) -> None:
        start = self._any_depth = self._accepting = 0
        places: dict[str, int] = {}  # part → its bits
        bit = 1
        for glob in _expand_braces(globs):
            start |= bit
            for part in _simplify(_parts(glob)):
                if part == _ANY_DEPTH:
                    self._any_depth |= bit
                else:
                    places[part] = places.get(part, 0) | bit
                bit <<= 1
            self._accepting |= bit
            bit <<= 1
        # `*`, `?` and `[…]` as in a shell, case-sensitive.
        self._tests: list[tuple[int, Callable[[str], object]]] = [
            (bits, re.compile(fnmatch.translate(part)).match if re.search(r"[*?[]", part) else part.__eq__)
            for part, bits in places.items()
        ]
        self._after = {"": self._with_no_folders(start)}  # the state below a folder

    def __bool__(self) -> bool:
        return self._accepting != 0

    def matches(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if (state := self._after.get(folder)) is None:
            state = self._after[""]
            for part in folder.split("/"):
                state = self._step(state, part)
            self._after[folder] = state
        return bool(self._step(state, name) & self._accepting)

    def _step(self, state: int, name: str) -> int:
        """The state after one more part of a path."""
        matched = 0
        for bits, test in self._tests:
            if state & bits and test(name):
                matched |= bits
        return self._with_no_folders((state & matched) << 1 | (state & self._any_depth))

    def _with_no_folders(self, state: int) -> int:
        """`**` may stand for no folder: a state before it is also a state after it."""
        return state | (state & self._any_depth) << 1


def _parts(glob: str) -> list[str]:
    glob = glob.removeprefix(".") if glob.startswith("./") else glob
    anchored = glob.lstrip("/") if "/" in glob.rstrip("/") else f"{_ANY_DEPTH}/{glob}"
    return (f"{anchored}{_ANY_DEPTH}" if anchored.endswith("/") else anchored).split("/")


def _simplify(pattern: Sequence[str]) -> Iterator[str]:
    """Collapse repeated `**`, and write a last one as `**/*`: what lies in a folder, not the folder itself."""
    before = ""
    for part in pattern:
        if part != _ANY_DEPTH or before != _ANY_DEPTH:
            yield part
        before = part
    if before == _ANY_DEPTH:
        yield "*"


def compile_linear(expression: str | bytes, *, captures: bool = False) -> Any:
    """An expression that takes time linear in the text, whatever it is; ValueError says what is wrong with it. It
    matches within a line. A text is Unicode, bytes stand for themselves."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = not captures
    options.max_mem = MAX_PROGRAM_BYTES
    if isinstance(expression, bytes):
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode("utf-8", "replace")) from None
