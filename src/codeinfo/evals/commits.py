"""The commits of a repository as questions: which of them are asked about, and the tree before each of them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from codeinfo.errors import NotFound, UsageError
from codeinfo.languages import kind_of, language_of
from codeinfo.model import FileKind
from codeinfo.sources import git

Item = TypeVar("Item")

HISTORY = 2000  # commits looked at, newest first: older code has little to do with today's


class History(Struct, frozen=True):
    """The commits to ask about, oldest first, and how many were left out by which rule."""

    commits: tuple[Commit, ...]
    looked_at: int
    left_out: dict[str, int]
    missing_blobs: int = 0  # blobs missing from the clone, whose files could not be found


def read_history(path: Path, count: int) -> History:
    """About `count` usable commits, evenly spread over the recent history."""
    if not os.path.isdir(path):
        raise NotFound(f"there is no folder {path}", next_step="Give a git repository.")
    try:
        commits = list(read_commits(path, HISTORY))
    except git.GitFailed as error:
        raise UsageError(f"{path} has no history to read: {error.what}", next_step="Give a git repository.") from error
    commits_seen = [(commit, reason_to_leave_out(commit)) for commit in commits]
    usable = [commit for commit, rule in commits_seen if not rule]
    left_out = Counter(rule for _, rule in commits_seen if rule)
    if not usable:
        raise UsageError(
            f"none of the {len(commits_seen)} commits of {path} can be asked about",
            next_step="A commit counts when a person wrote three words or more and changed 1 to 10 code files.",
        )
    return History(tuple(reversed(spread(usable, count))), len(commits_seen), left_out)


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """`count` evenly spaced items, including the first."""
    if len(items) <= count:
        return list(items)
    return [items[place * len(items) // count] for place in range(count)]


MOST_FILES = 10  # a commit that changes more is a sweep, and ten results could not name all its files
FEWEST_WORDS = 3  # "fix tests" gives nothing to search for
LOG_TIMEOUT_S = 120.0  # thousands of commits of a large repository, with the files they changed

_BOT = re.compile(
    r"\[bot\]|\bbot\b|bot@|-bot|dependabot|renovate|greenkeeper|github-actions|pre-commit-ci|weblate|transifex|crowdin",
    re.IGNORECASE,
)
# Subjects of housekeeping commits, which do not describe code.
_CHORE = re.compile(
    r"(?:merge|revert|bump|release|prepare|version|update dependenc|fixup!|squash!|amend!|wip\b|v?\d+\.\d+)"
    r"|(?:chore|build|ci|docs?|style|tests?|release)(?:\([^)]*\))?!?:"
    r"|(?:(?:add|fix|update|improve|more|move|remove)\w* )?(?:an? |some |the |unit |missing )*tests?\b"
    r"|.*\b(?:typos?|spelling|whitespace|lint\w*|flake8|pep ?8|changelog|readme|copyright|licen[cs]e|docstrings?"
    r"|docs?|documentation|comments?|(?:start|next|new|set) version)\b",
    re.IGNORECASE,
)
# "(#123)", "(fixes #123, #124)", ", closes GH-7": numbers that the tree does not know, with the words before them.
_NUMBER = r"(?:(?:[\w.-]+/[\w.-]+)?#|gh-)\d+"
_LEADING = r"(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|issue|bug|pr)[: ]*"
_NUMBERS = re.compile(
    rf"\s*[(\[](?:{_LEADING})?{_NUMBER}(?:[ ,;&]+(?:and )?(?:{_LEADING})?{_NUMBER})*[)\]]"
    rf"|[ ,.;:–-]*\b{_LEADING}{_NUMBER}\.?$"
    rf"|(?:^|\s+)\[?{_NUMBER}\]?(?:[:,]?(?=\s|$))?",
    re.IGNORECASE,
)


class Commit(Struct, frozen=True):
    sha: str
    parent: str  # "" for the first commit
    author: str
    time: int  # of the commit, in seconds since 1970
    subject: str  # without issue numbers
    body: str
    changed: int  # files, of every kind
    added: tuple[str, ...]  # code files it added
    files: tuple[str, ...]  # code files it changed that existed before


def read_commits(path: Path, count: int, revision: str = "HEAD") -> Iterator[Commit]:
    """The newest `count` commits up to the revision, without merges, whose changes belong to other commits."""
    form = git.log_format("%H", "%P", "%an <%ae>", "%ct", "%s", "%b")
    arguments = ("log", "--no-merges", f"--max-count={count}", form, "--name-status", "--no-renames")
    log = os.fsdecode(git.run(path, [*arguments, "-z", "--end-of-options", revision], timeout=LOG_TIMEOUT_S))
    for (sha, parents, author, seconds, subject, body), listed in git.read_log(log, 6):
        statuses = list(zip(listed[::2], listed[1::2], strict=False))
        code = [(status, changed) for status, changed in statuses if is_code(changed)]
        yield Commit(
            sha=sha,
            parent=parents.split(" ")[0],
            author=author,
            time=int(seconds),
            subject=strip_numbers(subject),
            body=body.strip(),
            changed=len(statuses),
            added=tuple(changed for status, changed in code if status == "A"),
            files=tuple(changed for status, changed in code if status != "A"),
        )


def strip_numbers(subject: str) -> str:
    return _NUMBERS.sub("", subject).strip(" ,;–-")


def reason_to_leave_out(commit: Commit, most_files: int = MOST_FILES) -> str:
    """The rule that excludes a commit, "" if it is a question."""
    if not commit.parent:
        return "first commit"
    if _BOT.search(commit.author):
        return "bot"
    if _CHORE.match(commit.subject):
        return "chore"
    if len(commit.subject.split()) < FEWEST_WORDS:
        return "too short"
    if commit.changed > most_files:
        return "too many files"
    return "" if commit.files else "no code file that was there before"


def is_code(path: str) -> bool:
    return kind_of(path, language_of(path)) is FileKind.CODE


# --- laying commits out in a folder ----------------------------------------------------------------------------------

LARGEST = 1_000_000  # bytes; larger files are not indexed anyway
_PLAIN_MODES = ("100644", "100755", "100664")  # neither links, which could lead outside the folder, nor submodules


class Layout:
    """The folder, and which blob each of its files holds."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder
        self._present: dict[str, str] = {}
        self._missing: set[str] = set()

    @property
    def missing_blobs(self) -> int:
        """The number of blobs that the repository lacks, over all trees laid out so far."""
        return len(self._missing)

    def move_to(self, commit: str) -> None:
        """Make the folder hold the commit's tree: every plain file that is small enough and has a safe path."""
        listed = git.list_commit(self._repository, commit, whole=True)
        plain = [blob for blob in listed if blob.mode in _PLAIN_MODES and _is_safe(blob.path)]
        self._missing |= {blob.id for blob in plain if blob.size is None}
        wanted = {blob.path: blob for blob in plain if blob.size is not None and blob.size <= LARGEST}
        for path in self._present.keys() - wanted.keys():
            (self._folder / path).unlink()
        differing = [blob for path, blob in wanted.items() if self._present.get(path) != blob.id]
        for blob, content in git.read_blobs(self._repository, differing):
            target = self._folder / blob.path
            _make_room(target)
            target.write_bytes(content or b"")
        self._present = {path: blob.id for path, blob in wanted.items()}


def _make_room(target: Path) -> None:
    """Make the folders above `target`, and remove an empty folder in its place."""
    if target.is_dir():  # an empty folder in the place of a new file
        for place, _, _ in os.walk(target, topdown=False):
            os.rmdir(place)
    target.parent.mkdir(parents=True, exist_ok=True)


def _is_safe(path: str) -> bool:
    """A tree may be forged: no path may lead outside the folder or into git's own."""
    return all(part not in ("", ".", "..") and part.lower() != ".git" for part in path.split("/"))
