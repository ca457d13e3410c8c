"""What a repository's history says: recent commits, when files last changed, who wrote which line and when."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from codeinfo.knowledge import commits
from codeinfo.knowledge.dates import WINDOW_DAYS, BlameLine, LastChange, last_changes, read_blame
from codeinfo.sources import git
from codeinfo.sources.masking import mask

MOST_COMMITS = 20_000  # read at most: a history of a hundred commits a day still fits
MOST_INDEXED = 10_000  # commits whose messages are searched: some years of a busy project
_COMMIT_START, _MESSAGE_END = "\x02", "\x03"
_NAMES = ("--name-only", "--no-renames", "--relative", "-z")
_DAY = 86_400
MOST_TOUCHING = 3  # commits shown of a file or a definition
LOG_TIMEOUT_S = 60.0
LINES_TIMEOUT_S = 2.0


class History:
    """The history below one root; nothing is known where there is no repository, or only the tip of one."""

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
        head = _text(self._git_dir / "HEAD")
        common = _common_dir(self._git_dir)
        watched = [self._git_dir / "logs" / "HEAD", common / "packed-refs", common / head.removeprefix("ref: ")]
        return repr([head, *(_stamp(path) for path in watched)])

    def tree_key(self) -> str:
        """Changes when the branch moves or something is staged."""
        return self.key() + repr(_stamp(self._git_dir / "index")) if self._git_dir is not None else ""

    def memory_log(self, now: float) -> str:
        """Commits with their files, then merges with what they brought: their titles are those of whole changes."""
        since = int(now - commits.WINDOW_DAYS * _DAY)
        shape = (f"--since=@{since}", f"--max-count={MOST_COMMITS}", f"--format={commits.LOG_FORMAT}", *_NAMES)
        plain = self._masked(("log", "--no-merges", *shape, "HEAD", "--", "."))
        return plain + self._masked(("log", "--merges", "--first-parent", "-m", *shape, "HEAD", "--", "."))

    def last_changes(self, now: float) -> dict[str, LastChange]:
        """The newest change of each file, for files changed within the window."""
        arguments = ("log", f"--since=@{int(now - WINDOW_DAYS * _DAY)}", f"--max-count={MOST_COMMITS}", "--no-merges")
        return last_changes(self._text((*arguments, "--format=%x01%at%x1f%H%x1f%ae", *_NAMES, "HEAD", "--", ".")))

    def head(self) -> str:
        return self._text(("rev-parse", "--verify", "--quiet", self._revision)).strip()

    def commits(self, since: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
        """Message and paths of the newest commits below the root, of those after `since` where it is given."""
        revisions = f"{since}..{self._revision}" if since else self._revision
        return self._messages("%B", f"--max-count={MOST_INDEXED}", revisions, "--", ".")

    def subjects(self, paths: Sequence[str], revision: str, days: int) -> dict[str, list[str]]:
        """The subjects of the commits that changed each of some files in the days before a revision, newest first."""
        seconds = self._text(("log", "-1", "--format=%ct", revision)).strip()
        if not paths or not seconds.isdigit():
            return {}
        bounds = (f"--since=@{int(seconds) - days * _DAY}", f"--max-count={MOST_COMMITS}")
        found: dict[str, list[str]] = {path: [] for path in paths}
        for subject, names in self._messages("%s", *bounds, revision, "--", *paths):
            for path in found.keys() & set(names):
                found[path].append(subject)
        return found

    def _messages(self, message: str, *arguments: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Message, in a format of git's, and paths of each commit, newest first."""
        shape = ("--no-merges", *_NAMES, f"--format={_COMMIT_START}{message}{_MESSAGE_END}")
        for entry in self._masked(("log", *shape, *arguments)).split(_COMMIT_START)[1:]:
            text, _, names = entry.partition(_MESSAGE_END)
            yield text, tuple(name.lstrip("\n") for name in names.split("\0") if name.strip("\n"))

    def has_ancestor(self, commit: str) -> bool:
        """Whether HEAD has `commit` in its history: not after a rebase or on another branch."""
        try:
            return self._text(("merge-base", commit, self._revision)).strip() == commit
        except git.GitFailed:
            return False

    def newest_commit(self) -> float:
        seconds = self._text(("log", "-1", "--format=%at", "HEAD")).strip()
        return float(seconds) if seconds.isdigit() else 0.0

    def blame(self, path: str, *, revision: str = "HEAD", since: float = 0.0) -> list[BlameLine]:
        """The lines of a file as committed; those from before `since` have no date."""
        limit = (f"--since=@{int(since)}",) if since else ()
        arguments = ("blame", "--porcelain", "--root", *limit, revision, "--", path)
        # A list of commits to ignore that the repository names and does not have would be an error.
        return read_blame(self._text(arguments, settings=("blame.ignoreRevsFile=",)))

    def touching(self, path: str, lines: tuple[int, int] | None = None) -> tuple[str, ...]:
        """The newest commits that changed a file, or these lines of it: hash, date and subject. Following lines takes
        seconds in a long history; past the limit the whole file has to do."""
        shape = ("log", f"--max-count={MOST_TOUCHING}", "--no-merges", "--format=%h %as %s")
        if lines is not None:
            with suppress(git.GitFailed):
                span = f"-L{lines[0]},{lines[1]}:{path}"
                return self._lines((*shape, "--no-patch", span, "HEAD"), LINES_TIMEOUT_S)
        return self._lines((*shape, "HEAD", "--", path), LOG_TIMEOUT_S)

    def changed_from(self, reference: str) -> frozenset[str]:
        return git.changed_since(self.root, reference)

    def committed_text(self, revision: str, path: str) -> str | None:
        """A file as a commit has it, or None where the commit does not."""
        try:
            return self._masked(("cat-file", "blob", f"{revision}:./{path}"))
        except git.GitFailed:
            return None

    def branch_point(self, names: Sequence[str]) -> str:
        """The commit where the current branch left the first of `names` that exists, or "" """
        for name in names:
            try:
                return self._text(("merge-base", "HEAD", name)).strip()
            except git.GitFailed:
                continue
        return ""

    def resolve(self, revision: str) -> str:
        return self._text(("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")).strip()

    def _lines(self, arguments: Sequence[str], timeout: float) -> tuple[str, ...]:
        text = git.run(self.root, arguments, timeout=timeout).decode("utf-8", "replace")
        return tuple(line for line in mask(text)[0].splitlines() if line)

    def _text(self, arguments: Sequence[str], settings: Sequence[str] = ()) -> str:
        return git.run(self.root, arguments, settings=settings, timeout=LOG_TIMEOUT_S).decode("utf-8", "replace")

    def _masked(self, arguments: Sequence[str]) -> str:
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
    target = _text(marker).removeprefix("gitdir: ")  # a linked work tree or a submodule
    return Path(os.path.normpath(os.path.join(top, target))) if target else None


def _common_dir(git_dir: Path) -> Path:
    """Where a linked work tree keeps what it shares with the others."""
    shared = _text(git_dir / "commondir")
    return git_dir / shared if shared else git_dir


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
