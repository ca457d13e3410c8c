"""Ignore files in gitignore syntax: parsed by pathspec, with the line that decided."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from msgspec import Struct

from codeinfo.sources.files import read_regular

OVERRIDES_NAME = ".codeinfoignore"
_MAX_BYTES = 1_000_000
# Each star of a segment multiplies the work of a failing match; a hostile line of twenty would stall for years.
_MAX_STARS_IN_SEGMENT = 3
_MAX_CHARS = 4096  # of a line: no path is longer
_PLAIN_LINE = re.compile(r"(?P<not>!?)(?P<key>[\w.-]+|\*\.[\w-]+)(?P<folder>/?)[ ]*")
_STARS = re.compile(r"\*\*(?!\*)|\*")


class Pattern(Struct, frozen=True):
    line: int
    text: str
    negated: bool
    folders_only: bool = False
    matches: Callable[[str], object] | None = None  # None: a plain name, looked up instead


class Match(Struct, frozen=True):
    """The line that decided; `source` is `folder/.gitignore:3`."""

    negated: bool
    source: str
    text: str


class IgnoreFile(Struct, frozen=True, dict=True):
    """One ignore file; `folder` is relative to the root, "" or ending with a slash.

    Most lines are `name`, `name/` or `*.extension`: a lookup each, which spares compiling and trying hundreds of
    expressions for every path. The others are expressions by pathspec.
    """

    folder: str
    name: str
    plain: dict[str, list[Pattern]]
    expressions: tuple[Pattern, ...]
    refused_lines: tuple[int, ...] = ()

    @cached_property
    def has_negation(self) -> bool:
        patterns = [*self.expressions, *(pattern for same in self.plain.values() for pattern in same)]
        return any(pattern.negated for pattern in patterns)

    def match(self, path: str) -> Match | None:
        """The last line that matches `path` (relative to the root; folders end with a slash)."""
        if not path.startswith(self.folder):
            return None
        below = path[len(self.folder) :]
        last = self._last_plain(below)
        for pattern in reversed(self.expressions):
            if last and last.line > pattern.line:
                break
            if pattern.matches and pattern.matches(below):
                last = pattern
                break
        return Match(last.negated, f"{self.folder}{self.name}:{last.line}", last.text) if last else None

    def _last_plain(self, below: str) -> Pattern | None:
        if not self.plain:
            return None
        last = None
        *folders, name = below.split("/")
        for part in (*folders, name):
            dot = part.rfind(".")
            for key in (part, f"*{part[dot:]}") if dot >= 0 else (part,):
                for pattern in self.plain.get(key, ()):
                    if (last is None or pattern.line > last.line) and (part is not name or not pattern.folders_only):
                        last = pattern
        return last


def parse(folder: str, name: str, content: str) -> IgnoreFile:
    plain: dict[str, list[Pattern]] = {}
    expressions: list[Pattern] = []
    refused: list[int] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if simple := _PLAIN_LINE.fullmatch(line):
            pattern = Pattern(number, line.strip(), bool(simple["not"]), bool(simple["folder"]))
            plain.setdefault(simple["key"], []).append(pattern)
        elif expression := _expression(line, number):
            expressions.append(expression)
        else:
            refused.append(number)
    return IgnoreFile(folder, name, plain, tuple(expressions), tuple(refused))


def _expression(line: str, number: int) -> Pattern | None:
    """None for a line that cannot be parsed, which git never matches either, or that would cost too much."""
    from pathspec import GitIgnoreSpec

    if len(line) > _MAX_CHARS or any(
        len(_STARS.findall(segment)) > _MAX_STARS_IN_SEGMENT for segment in line.split("/")
    ):
        return None
    try:
        parsed = GitIgnoreSpec.from_lines([line]).patterns[0]
        regex = getattr(parsed, "regex", None)
        if regex is None:
            return None
        # One `**` is searched for quickly; an expression with several tries every way to share the folders among them.
        matches = regex.match if line.split("/").count("**") < 2 else _several_depths(line)
    except (ValueError, re.error):
        return None
    return Pattern(number, line.strip(), not parsed.include, matches=matches)


def _several_depths(line: str) -> Callable[[str], bool]:
    """A line with more than one `**`, matched part by part: the path itself or a folder above it."""
    from codeinfo.globs import PathAutomaton

    text = line.rstrip(" ").removeprefix("!")
    folders_only, parts = text.endswith("/"), text.strip("/").split("/")
    while len(parts) > 1 and parts[-1] == "**":  # everything in a folder is the folder
        folders_only, parts = True, parts[:-1]
    automaton = PathAutomaton([parts], _compile_segment)

    def matches(path: str) -> bool:
        names = path.rstrip("/").split("/")
        accepted = [automaton.accepts(state) for state in automaton.states(names)]
        return any(accepted[:-1]) or (accepted[-1] and (path.endswith("/") or not folders_only))

    return matches


def _compile_segment(segment: str) -> Callable[[str], object]:
    from pathspec import GitIgnoreSpec

    regex = GitIgnoreSpec.from_lines([f"/{segment}"]).patterns[0].regex
    if regex is None:
        raise ValueError(f"{segment!r} is no part of a pattern")
    return regex.match


def load(root: str, folder: str, name: str) -> IgnoreFile | None:
    """The ignore file `name` in `folder`, or None where there is none that may be read."""
    try:
        data = read_regular(root, folder + name, _MAX_BYTES)
    except OSError:
        return None
    return parse(folder, name, data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape"))


def decide(files: Sequence[IgnoreFile], path: str) -> Match | None:
    """The match in the deepest file that has one; `files` run from the root downwards."""
    for file in reversed(files):
        if match := file.match(path):
            return match
    return None


class Overrides:
    """The `.codeinfoignore` files of a root. A file is judged by its whole path, so that `!vendor/ours/` works even
    where a folder above is left out."""

    def __init__(self, files: Iterable[IgnoreFile]) -> None:
        self.files = sorted(files, key=lambda file: file.folder.count("/"))
        self.has_negation = any(file.has_negation for file in self.files)

    def decide(self, path: str) -> Match | None:
        return decide(self.files, path)


def overrides_above(root: str, path: str) -> Overrides:
    """The `.codeinfoignore` files that have a say about `path`: in the root and in each folder down to it."""
    parts = path.split("/")[:-1]
    folders = ["".join(f"{part}/" for part in parts[:depth]) for depth in range(len(parts) + 1)]
    return Overrides(file for folder in folders if (file := load(root, folder, OVERRIDES_NAME)))


def brings_back_secret(match: Match, path: str) -> bool:
    """A secret comes back only when a line names it in full: `!certs/` and `!*` do not mean the keys."""
    return match.negated and match.text.lstrip("!").rpartition("/")[2] == path[path.rfind("/") + 1 :]
