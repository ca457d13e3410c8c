"""What a repository's history says: recent commits, when files last changed, who wrote which line and when, and which
large files change often."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, groupby, repeat
from pathlib import Path

from msgspec import Struct, field

from codeinfo.globs import lies_below
from codeinfo.languages import STYLESHEETS, is_derived
from codeinfo.languages.manifests import kind_of_manifest
from codeinfo.operations import code
from codeinfo.operations.knowledge import PatternHistory
from codeinfo.ports import CodeFacts
from codeinfo.sources import git
from codeinfo.sources.masking import mask

# --- when lines were written -----------------------------------------------------------------------------------------


RISING, STABLE, DECLINING = "Rising", "Stable", "Declining"
RISING_DAYS = 60
DECLINING_DAYS = 180
WINDOW_DAYS = 400  # of history that is read: anything older has been declining for long
MONTHS = 13  # this month and the twelve before it: the window covers them all
EXACT_FILES = 8  # dated for a pattern's newest use, last changed first; beyond, knowing that it rises is enough
MOST_BLAMES = 60  # files dated in one run: git needs 40 ms for each in a history of 35,000 commits, …
BLAME_S = 10.0  # … but 1.5 s in one of 110,000: no more begins after this long
_DAY = 86_400

Lines = Mapping[str, Sequence[int]]  # path → numbers of lines that use a pattern


class BlameLine(Struct, frozen=True):
    time: int  # when the line was written, 0 if that is before the window
    author: str
    text: str


class FileDates(Struct, frozen=True, array_like=True):
    """When the lines of a file were written, as of the last commit that changed it; neighbours with one date
    together."""

    commit: str
    runs: tuple[tuple[int, float], ...]

    @classmethod
    def from_blame(cls, commit: str, blame: Iterable[BlameLine]) -> FileDates:
        return cls(commit, tuple((len(list(run)), float(date)) for date, run in groupby(line.time for line in blame)))

    def lines(self) -> list[float]:
        return list(chain.from_iterable(repeat(date, count) for count, date in self.runs))


class LastChange(Struct):
    """The newest change of a file within the window, and who changed it in that time."""

    time: int
    commit: str
    authors: set[str] = field(default_factory=set)


class LineDates(Struct, dict=True):
    """Dates lines on demand, within a budget of MOST_BLAMES files and BLAME_S seconds.

    `changed` are the files that changed within the window, `edited` those that differ from the commit. `known` is what
    earlier runs found; new dates are added. `blame` gives the lines as committed, `text_of` the text as indexed. Ages
    are counted from `last_commit`: a team's patterns do not age while nobody commits. If the history `is_young`, all
    of it is recent, and that says nothing.
    """

    changed: Mapping[str, LastChange]
    edited: frozenset[str]
    known: dict[str, FileDates]
    blame: Callable[[str], Sequence[BlameLine]]
    text_of: Callable[[str], str]
    now: float
    last_commit: float
    is_young: bool = False
    complete: bool = True  # until a file is left out for lack of budget
    by_path: dict[str, Sequence[float]] = {}
    blame_count: int = 0
    blame_s: float = 0.0

    @cached_property
    def bounds(self) -> Mapping[str, float]:
        """When each file last changed: none of its lines can be newer."""
        last_times = {path: float(change.time) for path, change in self.changed.items()}
        return last_times | dict.fromkeys(self.edited, self.now)

    @property
    def notes(self) -> tuple[str, ...]:
        young = f"the history is shorter than {RISING_DAYS} days: trends are not known"
        left_out = f"only {self.blame_count} files were dated this time; the next run goes on from there"
        return (young,) * self.is_young + (left_out,) * (not self.complete)

    def is_recent(self, path: str) -> bool:
        return path in self.bounds

    def changed_lately(self, path: str) -> bool:
        return self.trend(self.bounds.get(path, 0.0)) == RISING

    def authors(self, paths: Iterable[str]) -> int:
        """How many people changed some files within the window."""
        return len({author for path in paths if path in self.changed for author in self.changed[path].authors})

    def trend(self, newest: float) -> str:
        """By the newest use, in seconds since the epoch; 0 is before the window."""
        age_days = (self.last_commit - newest) / _DAY
        if age_days <= RISING_DAYS:
            return RISING
        return DECLINING if age_days >= DECLINING_DAYS else STABLE

    def newest_use(self, uses: Lines) -> float | None:
        """When the newest of the lines was written, 0 if before the window, None if the budget ended before that was
        known. Files are dated from the latest on until no other can have a newer line; those already dated come first
        among equals."""
        newest, undated = 0.0, False
        in_window = (path for path in uses if path in self.bounds)
        candidates = sorted(in_window, key=lambda path: (-self.bounds[path], path not in self.known, path))
        for number, path in enumerate(candidates):
            if self.bounds[path] <= newest or (number >= EXACT_FILES and self.trend(newest) == RISING):
                break
            dates = self._dates(path)
            undated = undated or not dates
            newest = max([newest, *(dates[line - 1] for line in uses[path] if line <= len(dates))])
        return None if undated and self.trend(newest) != RISING else newest

    def date_all(self, paths: Iterable[str]) -> None:
        """Date as many files as the budget allows, the latest first."""
        for path in sorted((path for path in paths if path in self.bounds), key=lambda p: (-self.bounds[p], p)):
            self._dates(path)

    def by_month(self, uses: Lines) -> PatternHistory:
        """How many of the lines were written in each month."""
        months = _months_until(self.now)
        counts = dict.fromkeys(months, 0)
        older = undated = 0
        for path, lines in uses.items():
            dates = self._dates(path) if path in self.bounds else [0.0] * max(lines)
            for line in lines:
                seconds = min(dates[line - 1], self.now) if line <= len(dates) else None
                month = time.strftime("%Y-%m", time.gmtime(seconds)) if seconds is not None else ""
                if month in counts:
                    counts[month] += 1
                elif month:
                    older += 1
                else:
                    undated += 1
        return PatternHistory(months[0], tuple(counts.values()), older, undated)

    def _dates(self, path: str) -> Sequence[float]:
        """One date per line; none for a file that exceeded the budget."""
        dates = self.by_path.get(path)
        if dates is None:
            dates = self.by_path[path] = self._date_edited(path) if path in self.edited else self._date_committed(path)
        return dates

    def _date_edited(self, path: str) -> list[float]:
        blame = self._blame_lines(path)
        return dates_after_edit(self.text_of(path).split("\n"), blame, self.now) if blame is not None else []

    def _date_committed(self, path: str) -> list[float]:
        if path not in self.known:
            blame = self._blame_lines(path)
            if blame is None:
                return []
            self.known[path] = FileDates.from_blame(self.changed[path].commit, blame)
        return self.known[path].lines()

    def _blame_lines(self, path: str) -> Sequence[BlameLine] | None:
        if self.blame_count >= MOST_BLAMES or self.blame_s > BLAME_S:
            self.complete = False
            return None
        started = time.monotonic()
        lines = self.blame(path)
        self.blame_count, self.blame_s = self.blame_count + 1, self.blame_s + time.monotonic() - started
        return lines


def _months_until(now: float) -> tuple[str, ...]:
    this = time.gmtime(now)
    numbers = range(12 * this.tm_year + this.tm_mon - MONTHS, 12 * this.tm_year + this.tm_mon)
    return tuple(f"{number // 12}-{number % 12 + 1:02}" for number in numbers)


def dates_after_edit(texts: Iterable[str], blame: Sequence[BlameLine], now: float) -> list[float]:
    """Dates of the lines of an edited file: committed lines keep theirs, the others were written just now."""
    newest: dict[str, float] = {}
    for line in blame:
        key = line.text.strip()
        newest[key] = max(newest.get(key, 0.0), line.time)
    return [newest.get(text.strip(), now) for text in texts]


# --- what git prints -----------------------------------------------------------------------------------------------


COMMIT_DAYS = 90  # in which a commit may state a memory
_MEMORY_FORMAT = git.log_format("%H", "%at", "%an", "%s", "%b")
_CHANGE_FORMAT = git.log_format("%at", "%H", "%ae")


def last_changes(log: str) -> dict[str, LastChange]:
    """The newest change of each path, from a log with _CHANGE_FORMAT."""
    changes: dict[str, LastChange] = {}
    for (seconds, commit, author), paths in git.read_log(log, 3):
        for path in paths if seconds.isdigit() else ():
            change = changes.setdefault(path, LastChange(int(seconds), commit))
            change.time = max(change.time, int(seconds))
            change.authors.add(author)
    return changes


def read_blame(porcelain: str) -> list[BlameLine]:
    """The lines of `git blame --porcelain`; lines of a boundary commit may be older than it, so they get no date."""
    times: dict[str, int] = {}
    authors: dict[str, str] = {}
    boundary: set[str] = set()
    lines: list[BlameLine] = []
    commit = ""
    for line in porcelain.split("\n"):
        if line.startswith("\t"):
            time = 0 if commit in boundary else times.get(commit, 0)
            lines.append(BlameLine(time, authors.get(commit, ""), line[1:]))
            commit = ""
        elif not commit:
            commit = line.partition(" ")[0]
        elif line.startswith("author "):
            authors[commit] = line[7:]
        elif line.startswith("author-time "):
            times[commit] = int(line[12:])
        elif line == "boundary":
            boundary.add(commit)
    return lines


# --- the repository --------------------------------------------------------------------------------------------------


MOST_COMMITS = 20_000  # at most: a history of a hundred commits a day still fits
MOST_INDEXED = 10_000  # commits whose messages are searched: some years of a busy project
_NAMES = ("--name-only", "--no-renames", "--relative", "-z")
MOST_TOUCHING = 3  # commits shown for a file or a definition
COMPANION_DAYS, MOST_COMPANIONS = 1100, 100  # of commits that show what changes together with a file
LOG_TIMEOUT_S = 60.0
LINES_TIMEOUT_S = 2.0


class History:
    """The history below one root; empty without a repository, or with only the tip of one."""

    def __init__(self, root: Path, revision: str = "HEAD") -> None:
        self.root = root
        self._revision = revision
        self._git_dir = _git_dir(root)
        self.shallow = self._git_dir is not None and (_common_dir(self._git_dir) / "shallow").exists()

    @property
    def known(self) -> bool:
        return self._git_dir is not None and not self.shallow

    def key(self) -> str:
        """Changes when the branch moves. Reads a few files instead of starting git."""
        if self._git_dir is None:
            return ""
        head = git.read_pointer(self._git_dir / "HEAD")
        common = _common_dir(self._git_dir)
        watched = (self._git_dir, "logs/HEAD"), (common, "packed-refs"), (common, head.removeprefix("ref: "))
        return repr([head, *(git.stamp(folder, name) for folder, name in watched)])

    def tree_key(self) -> str:
        """Changes when the branch moves or something is staged."""
        return self.key() + repr(git.stamp(self._git_dir, "index")) if self._git_dir is not None else ""

    def memory_log(self, now: float) -> str:
        """Commits with their files, then merges with what they brought in: their titles describe whole changes."""
        since = int(now - COMMIT_DAYS * _DAY)
        shape = (f"--since=@{since}", f"--max-count={MOST_COMMITS}", _MEMORY_FORMAT, *_NAMES)
        plain = self._run_masked(("log", "--no-merges", *shape, "HEAD", "--", "."))
        return plain + self._run_masked(("log", "--merges", "--first-parent", "-m", *shape, "HEAD", "--", "."))

    def last_changes(self, now: float) -> dict[str, LastChange]:
        """The newest change of each file, for files changed within the window."""
        arguments = ("log", f"--since=@{int(now - WINDOW_DAYS * _DAY)}", f"--max-count={MOST_COMMITS}", "--no-merges")
        return last_changes(self._text((*arguments, _CHANGE_FORMAT, *_NAMES, "HEAD", "--", ".")))

    def head(self) -> str:
        return self._text(("rev-parse", "--verify", "--quiet", self._revision)).strip()

    def commit_ids(self) -> list[str]:
        """The newest commits below the root, newest first."""
        return self._text(("rev-list", "--no-merges", *self._newest)).split()

    def commits_since(self, revision: str) -> list[str]:
        """What the current branch has and a revision has not."""
        return self._text(("rev-list", f"{revision}..HEAD")).split()

    def commits(self, only: Sequence[str] | None = None) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Id, message and paths of the commits in `only`, or of the newest ones below the root, newest first."""
        if only is None:
            return self._messages("%B", *self._newest)
        return self._messages("%B", "--no-walk=unsorted", "--stdin", stdin="\n".join(only)) if only else iter(())

    @property
    def _newest(self) -> tuple[str, ...]:
        return f"--max-count={MOST_INDEXED}", self._revision, "--", "."

    def subjects(self, paths: Sequence[str], revision: str, days: int) -> dict[str, list[str]]:
        """The subjects of the commits that changed each file in the days before a revision, newest first."""
        seconds = self._text(("log", "-1", "--format=%ct", revision)).strip()
        if not paths or not seconds.isdigit():
            return {}
        bounds = (f"--since=@{int(seconds) - days * _DAY}", f"--max-count={MOST_COMMITS}")
        by_path: dict[str, list[str]] = {path: [] for path in paths}
        for _, subject, names in self._messages("%s", *bounds, revision, "--", *paths):
            for path in by_path.keys() & set(names):
                by_path[path].append(subject)
        return by_path

    def changes_with(self, path: str) -> list[dict[str, str]]:
        """What each commit of the last years that changed a file did, as a letter by path; newest first."""
        since = f"--since=@{int(self.newest_commit() - COMPANION_DAYS * _DAY)}"
        bounds = ("log", "--no-merges", since, f"--max-count={MOST_COMPANIONS}")
        shape = ("--full-diff", "--name-status", "--no-renames", "--relative", "-z", git.log_format("%H"))
        log = self._text((*bounds, *shape, "HEAD", "--", path))
        return [dict(zip(names[1::2], names[::2], strict=True)) for _, names in git.read_log(log, 1)]

    def _messages(self, message: str, *arguments: str, stdin: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Id, message (in git's format) and paths of each commit."""
        log = self._text(("log", "--no-merges", *_NAMES, git.log_format("%H", message), *arguments), stdin=stdin)
        listed = list(git.read_log(log, 2))
        texts = ("\0".join((text, *names)).replace("\x02", " ") for (_, text), names in listed)
        masked = mask("\x02".join(texts))[0].split("\x02")  # without ids, which look like keys
        for ((commit, _), _), entry in zip(listed, masked, strict=True) if listed else ():
            text, *names = entry.split("\0")
            yield commit, text, tuple(names)

    def newest_commit(self) -> float:
        seconds = self._text(("log", "-1", "--format=%at", "HEAD")).strip()
        return float(seconds) if seconds.isdigit() else 0.0

    def has_commit_before(self, seconds: float) -> bool:
        return bool(self._text(("log", "-1", f"--before=@{int(seconds)}", "--format=%h", "HEAD")).strip())

    def blame(
        self, path: str, *, revision: str = "HEAD", since: float = 0.0, lines: Collection[int] = ()
    ) -> list[BlameLine]:
        """These lines of a file as committed, or all; lines from before `since` have no date."""
        limit = [f"--since=@{int(since)}"] if since else []
        starts, ends = (sorted(line for line in lines if line + step not in lines) for step in (-1, 1))
        limit += (f"-L{start},{end}" for start, end in zip(starts, ends, strict=True))
        # Git fails if the repository configures a list of commits to ignore that does not exist.
        shape = ("blame", "--porcelain", "--root", "--no-ignore-revs-file")
        return read_blame(self._text((*shape, *limit, revision, "--", path)))

    def commits_touching(
        self, path: str, lines: tuple[int, int] | None = None, most: int = MOST_TOUCHING
    ) -> tuple[str, ...]:
        """The newest commits that changed a file, or these lines of it: hash, date and subject."""
        shape = ("log", f"--max-count={most}", "--no-merges", "--format=%h %as %s")
        if lines is not None:
            span = f"-L{lines[0]},{lines[1]}:{path}"
            return self._lines((*shape, "--no-patch", span, "HEAD"), LINES_TIMEOUT_S)
        return self._lines((*shape, "HEAD", "--", path), LOG_TIMEOUT_S)

    def changed_from(self, reference: str) -> frozenset[str]:
        return git.list_changed(self.root, reference)

    def committed(self, revision: str, paths: Sequence[str]) -> dict[str, bytes]:
        """The contents of those files that a commit has."""
        listed = git.list_commit(self.root, revision, paths) if paths else ()
        blobs = [blob for blob in listed if blob.mode in git.REGULAR]
        return {blob.path: data for blob, data in git.read_blobs(self.root, blobs) if data is not None}

    def branch_point(self, names: Sequence[str]) -> str:
        """The commit where the current branch left the first existing one of `names`, or ""."""
        for name in names:
            try:
                return self._text(("merge-base", "HEAD", name)).strip()
            except git.GitFailed:
                continue
        return ""

    def _lines(self, arguments: Sequence[str], timeout: float) -> tuple[str, ...]:
        text = git.run(self.root, arguments, timeout=timeout).decode("utf-8", "replace")
        return tuple(line for line in mask(text)[0].splitlines() if line)

    def _text(self, arguments: Sequence[str], stdin: str = "") -> str:
        output = git.run(self.root, arguments, stdin=stdin.encode(), timeout=LOG_TIMEOUT_S)
        return output.decode("utf-8", "replace")

    def _run_masked(self, arguments: Sequence[str]) -> str:
        return mask(self._text(arguments))[0]


def _git_dir(root: Path) -> Path | None:
    if (root / "HEAD").is_file() and (root / "objects").is_dir():
        return root  # a bare repository
    top = git.work_tree_of(str(root))
    if top is None:
        return None
    marker = Path(top, ".git")
    if marker.is_dir():
        return marker
    target = git.read_pointer(marker).removeprefix("gitdir: ")  # a linked work tree or a submodule
    return Path(os.path.normpath(os.path.join(top, target))) if target else None


def _common_dir(git_dir: Path) -> Path:
    """The folder that a linked work tree shares with the others."""
    shared = git.read_pointer(git_dir / "commondir")
    return git_dir / shared if shared else git_dir


# --- hotspots --------------------------------------------------------------------------------------------------------

MOST_HOTSPOTS = 1000  # the largest limit
_EARLIEST = 100_000_001  # 1973: git takes fewer seconds for no date, and finds nothing since then
_WITHOUT_LOGIC = re.compile(  # of this project: translations, declarations, settings of builds, code of others
    r"(?:.*/)?(?:_?vendor(?:s|ed)?|(?:third|3rd)[_-]?party)/.*|(?:deps|externals?|extern)/.*|"
    r"(?:.*/)?(?:langs?|locales?|i18n|l10n|translations)/(?:.*/)?[a-z]{2}(?:[-_]\w+)?(?:/.*|\.\w+)|.*\.(?:d\.[cm]?ts|gradle(?:\.kts)?)"
)


def hotspots(facts: CodeFacts, root: Path, days: int, below: str = "") -> code.HotspotReport:
    """Computes as many as any request may ask for. What changed once does not change often, unless all files did."""
    try:
        commits, authors = _count_changes(root, days)
    except git.GitFailed as failed:
        return code.HotspotReport(0, (), days, 0, (f"no git history: {failed.what}",))
    logic = (file for file in facts.files() if file.kind == "code" and _has_logic(file.path, file.language))
    changed = {file.path: file.file_id for file in logic if file.path in authors and lies_below(file.path, below)}
    files = {path: file_id for path, file_id in changed.items() if len(authors[path]) > 1} or changed
    definitions = Counter(file_id for file_id, _ in facts.outlines(list(files.values())))
    lines = {path: max(facts.lines(file_id), default=0) for path, file_id in files.items()}
    weights = {path: len(authors[path]) * lines[path] for path in files}
    worst = max(weights.values(), default=0)
    ranked = [
        code.Hotspot(
            path=path,
            commits=len(authors[path]),
            lines=lines[path],
            definitions=definitions[files[path]],
            authors=len(set(authors[path])),
            score=round(weights[path] / worst, 4) if worst else 0.0,
        )
        for path in sorted(files, key=lambda path: (-weights[path], path))
    ]
    return code.HotspotReport(len(ranked), tuple(ranked[:MOST_HOTSPOTS]), days, commits)


def _has_logic(path: str, language: str) -> bool:
    """Manifests change with each release of a dependency, and translations with each text."""
    is_data = language in STYLESHEETS or kind_of_manifest(path) is not None
    return not (is_data or is_derived(path) or _WITHOUT_LOGIC.fullmatch(path))


def _count_changes(root: Path, days: int) -> tuple[int, dict[str, list[str]]]:
    """The number of commits, and the authors of those that changed each file, relative to the root and by today's name;
    without commits that the project excludes from blame."""
    if git.work_tree_of(str(root)) is None:
        raise git.GitFailed("this folder is not in a git repository")
    last = os.fsdecode(git.run(root, ("log", "-1", "--format=%ct"))).strip()
    since = max(_EARLIEST, int(last or 0) - days * _DAY)  # a project that rests has hotspots as well
    # Names alone: counting lines takes eight times as long, and fails where a partial clone lacks an old file, as
    # finding renames does.
    shape = (
        "log",
        "--no-merges",
        f"--since=@{since}",
        "--name-status",
        "--relative",
        "-z",
        git.log_format("%H", "%aE"),
    )
    try:
        log = git.run(root, (*shape, "--find-renames"))
    except git.GitFailed:
        log = git.run(root, (*shape, "--no-renames"))
    listed = git.run(root, ("cat-file", "blob", "HEAD:.git-blame-ignore-revs"), accept=(0, 128))
    ignored = frozenset(os.fsdecode(listed).split())
    count = 0
    today: dict[str, str] = {}  # by an earlier name
    authors: dict[str, list[str]] = {}
    for (commit, author), changes in git.read_log(os.fsdecode(log), 2):  # the newest first
        if commit in ignored:
            continue
        count += 1
        words = iter(changes)
        for status in words:
            path = next(words)
            if status.startswith("R"):
                old, path = path, next(words)
                today[old] = today.get(path, path)
            authors.setdefault(today.get(path, path), []).append(author)
    return count, authors
