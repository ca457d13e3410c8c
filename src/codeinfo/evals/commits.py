"""What commits say and which code they changed, and the rules that leave out those that nobody could ask about."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from codeinfo.languages import kind_of, language_of
from codeinfo.model import FileKind
from codeinfo.sources import git

MOST_FILES = 10  # a commit that changes more is a sweep, and no ten results could name them all
FEWEST_WORDS = 3  # "fix tests" says nothing to search for
LOG_TIMEOUT_S = 120.0  # thousands of commits of a large repository, with the files they changed

_BOT = re.compile(
    r"\[bot\]|\bbot\b|bot@|-bot|dependabot|renovate|greenkeeper|github-actions|pre-commit-ci|weblate|transifex|crowdin",
    re.IGNORECASE,
)
# Subjects that tell of housekeeping and name no code, however the commit went about it.
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
_FIELDS = "%x01%H%x02%P%x02%an <%ae>%x02%ct%x02%s%x02%b%x02"


class Commit(Struct, frozen=True):
    sha: str
    parent: str  # "" of the first commit
    author: str
    time: int  # of the commit, in seconds since 1970
    subject: str  # without issue numbers
    body: str
    changed: int  # files, of every kind
    added: tuple[str, ...]  # code files that it brought
    files: tuple[str, ...]  # code files that it changed and that were there before


def read_commits(path: Path, count: int, revision: str = "HEAD") -> Iterator[Commit]:
    """The newest `count` commits up to the revision, without merges: their changes are those of other commits."""
    arguments = ("log", "--no-merges", f"--max-count={count}", f"--format={_FIELDS}", "--name-status", "--no-renames")
    log = os.fsdecode(git.run(path, [*arguments, "-z", "--end-of-options", revision], timeout=LOG_TIMEOUT_S))
    for record in log.split("\x01")[1:]:
        facts = record.split("\x02", 6)
        if len(facts) == 7:  # a message may hold any character, these separators as well
            yield _commit(*facts)


def _commit(sha: str, parents: str, author: str, time: str, subject: str, body: str, changes: str) -> Commit:
    changed = list(_changed(changes))
    code = [(status, path) for status, path in changed if is_code(path)]
    return Commit(
        sha=sha,
        parent=parents.split(" ")[0],
        author=author,
        time=int(time),
        subject=without_numbers(subject),
        body=body.strip(),
        changed=len(changed),
        added=tuple(path for status, path in code if status == "A"),
        files=tuple(path for status, path in code if status != "A"),
    )


def _changed(listing: str) -> Iterator[tuple[str, str]]:
    """(status, path) pairs of `--name-status -z`; git sets the list off with line breaks."""
    parts = [part for part in listing.strip("\n\x00").split("\x00") if part]
    for status, path in zip(parts[::2], parts[1::2], strict=False):
        yield status.strip("\n"), path


def without_numbers(subject: str) -> str:
    return _NUMBERS.sub("", subject).strip(" ,;–-")


def reason_to_leave_out(commit: Commit, most_files: int = MOST_FILES) -> str:
    """The rule by which a commit makes no question, "" for none."""
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
