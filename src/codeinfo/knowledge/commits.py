"""Memories that a project's history already holds: what the commits of the last months decided, fixed and reverted."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import Struct

from codeinfo.knowledge.memory import DAY_SECONDS, MAX_TEXT, Memory, iso_of
from codeinfo.knowledge.metadata import is_manifest
from codeinfo.languages import is_product, kind_of, language_of
from codeinfo.model import FileKind
from codeinfo.tokens import terms

WINDOW_DAYS = 90
# A commit in `git log --name-only -z`: its fields, then the names of its files. Git prints neither of these signs.
LOG_FORMAT = "%x02%H%x1f%at%x1f%an%x1f%s%x1f%b%x03"
MOST_FILES = 5  # in a scope; of more, the folder that holds them all
# Kind of a conventional commit → type and category of the memory.
_COMMIT_KINDS = {
    "refactor": ("decision", "architecture"),
    "migrate": ("decision", "dependencies"),
    "migration": ("decision", "dependencies"),
    "fix": ("gotcha", "conventions"),
    "hotfix": ("gotcha", "conventions"),
    "revert": ("gotcha", "architecture"),
}
_SUBJECT = re.compile(r"(?P<kind>[A-Za-z]+)(?:\((?P<part>[^()\n]{1,80})\))?!?:\s+(?P<text>\S.*)")
_REVERTED = re.compile(r'Revert(?:ed)?:? "?(?P<text>(?!"*(?:Revert|Merge)\b).+?)"?')
_BACKPORT = re.compile(r"\A(?:\[[^\]]*\]\s*)+(?=\S)")  # "[PR #12/ab backport][3.15] Fix …"
# Signs that some teams put before a subject instead of a word.
_SIGNS = {"🐛": "fix", ":bug:": "fix", "🚑": "fix", "♻": "refactor", ":recycle:": "refactor", "⏪": "revert"}
_SIGN = re.compile(r"\A(?::\w+:|[^\w\s\[`\"'(<@$.-]+)\s*")
_NUMBER = re.compile(r"\s*\((?:#\d+|!\d+|gh-\d+|fix(?:es)? #\d+)(?:,\s*#\d+)*\)\s*$", re.IGNORECASE)
_MERGE = re.compile(r"Merge (?:pull request #\d+ from \S+|branch '[^']*' into \S+)")
_MERGE_SUBJECT = re.compile(r"Merge (?:branch|pull request|remote-tracking branch|tag|commit|[0-9a-f]{7,})\b")
# Plain subjects that say what was decided: one thing given up, preferred or demanded.
_DECISION = re.compile(
    r"(?:(?:replace[sd]?|swap(?:ped)?)\s.+?\s(?:by|with|for)\s"
    r"|(?:use[sd]?|prefer(?:red|s)?)\s.+?\s(?:instead of|over|rather than|in favou?r of)\s"
    r"|(?:switch(?:ed|es)?|migrate[sd]?|convert(?:ed|s)?|port(?:ed|s)?)\s(?:.+\s)?(?:to|from|away)\s"
    r"|(?:drop(?:ped|s)?|remove[sd]?|end)\s(?:the\s)?(?:support|compat\w*|deprecated|legacy|obsolete|dependency)\b"
    r"|drop(?:ped|s)?\s\S+\s[\d.]+|drop(?:ped|s)?\s(?:the\s)?\S+\ssupport"
    r"|deprecate[sd]?\s|undeprecate[sd]?\s|(?:adopt(?:ed|s)?|standardi[sz]e[sd]?\son)\s"
    r"|(?:forbid|disallow|ban)\s"
    r"|(?:require[sd]?|bump(?:ed|s)?\s(?:the\s)?minimum|raise[sd]?\s(?:the\s)?minimum|default(?:s)?\sto)\s"
    r"|make\s.+\s(?:the\sdefault|opt-in|opt-out|mandatory|private|public|optional)\b"
    r"|rename[sd]?\s.+\sto\s)",
    re.IGNORECASE,
)
_RULE = re.compile(r"(?:stop(?:ped|s)?|do not|don't|never|avoid(?:ed|s)?|always|no longer|only)\s", re.IGNORECASE)
_FIX = re.compile(r"(?:fix(?:e[sd])?|correct(?:ed|s)?|work around|prevent(?:ed|s)?)\s", re.IGNORECASE)
# What a refactoring did that others must know of, also where it does not say why.
_RESHAPING = re.compile(
    r"(?:extract|move|split|merge|inline|separate|introduce|unify|consolidate|remove|drop|rename|replace)(?:s|d|ed)?\s",
    re.IGNORECASE,
)
_SHORTEST_REASON = 25  # characters: what other refactorings, and fixes that are not marked as such, must say
_FEWEST_WORDS = 4
# Work on the text or the papers of a project rather than on what it does.
_NOISE = re.compile(
    r"\b(?:typos?|spelling|grammar|wording|whitespaces?|formatting|indentation|changelog|release notes?|readme|docs?"
    r"|docstrings?|docblocks?|documentation|doc-?comments?|comments?|translations?|links?|versions? bump|bump version"
    r"|merge conflicts?|review comments|nits?|types? (?:annotations?|hints?)|typing|flaky|snapshots?|sponsors?|badges?"
    r"|copyright|license|codespell|examples?|failing tests?|(?:test|variable) names?|unused imports?|imports? order"
    r"|magic numbers?)\b"
    r"|^bump (?!(?:the )?minimum)|^update (?:dependency|dependencies)\b|^(?:chore|build|ci|docs?|style|test)\b",
    re.IGNORECASE,
)
# Work with tools, unless one is chosen or given up.
_TOOLS = re.compile(
    r"\b(?:lint(?:er|ing|s)?|prettier|black|isort|clippy|warnings?|ruff|mypy|pyright|eslint|type ignore|ci"
    r"|github actions?|workflows?|pre-commit|dependabot|renovate|lock ?files?)\b",
    re.IGNORECASE,
)
_PARTS_OF_NOISE = frozenset("build ci deps dev-deps docs lint release test tests types".split())
_BOT = re.compile(r"\[bot\]|\bbot$|dependabot|renovate|pre-commit-ci", re.IGNORECASE)
_TRAILER = re.compile(
    r"[A-Z][A-Za-z-]+(?:-[Bb]y|-[Ii]d|-[Oo]n)?:\s|\(cherry picked|See merge request|This reverts commit"
)
_POINTER = re.compile(
    r"(?:(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|related to|part of|issue|pr|cc)\W*)*"
    r"(?:(?:[\w./-]*#\d+|https?://\S+|@[\w-]+)[\s,;.]*)+",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BULLETS = ("* ", "- ", "+ ")
_SHORTEST_PROSE, _LONG_BULLET = 15, 120  # characters
_MOST_SAID_AGAIN = 2  # words beyond the subject's: a reason with no more says the same
_REASON_CHARS = 300
# What a decision is about, by its words; else it is about architecture.
_ABOUT = (
    ("testing", re.compile(r"\b(?:tests?|testing|pytest|jest|vitest|coverage|fixtures?|mocks?)\b", re.IGNORECASE)),
    (
        "dependencies",
        re.compile(
            r"\b(?:dependenc(?:y|ies)|librar(?:y|ies)|packages?|versions?|python|node(?:js)?|go|rust|php|java|ruby)"
            r"\s?[\d.]+\b|\b(?:dependenc(?:y|ies)|librar(?:y|ies)|msrv|minimum \S+ version|driver|sdk|vendored?)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "tooling",
        re.compile(
            r"\b(?:build|bundl\w+|tox|uv|pip|npm|pnpm|yarn|poetry|cargo|docker|nix|ruff|black|mypy|eslint|ci)\b",
            re.IGNORECASE,
        ),
    ),
)


class Commit(Struct, frozen=True):
    id: str
    seconds: int
    author: str
    subject: str
    body: str
    files: tuple[str, ...]


def read_log(log: str) -> list[Commit]:
    """The commits of a log written with LOG_FORMAT."""
    found = []
    for record in log.split("\x02")[1:]:
        head, _, names = record.partition("\x03")
        fields = head.split("\x1f")
        if len(fields) == 5 and fields[1].isdigit():
            files = tuple(name.lstrip("\n") for name in names.split("\0") if name.strip("\n"))
            found.append(Commit(fields[0], int(fields[1]), fields[2], fields[3], fields[4], files))
    return found


def from_log(log: str, now: float) -> tuple[Memory, ...]:
    """Memories of a log written with LOG_FORMAT, newest first; the same words count once, at their newest date."""
    oldest = now - WINDOW_DAYS * DAY_SECONDS
    found: dict[str, Memory] = {}
    undone: set[str] = set()  # what newer commits reverted
    for commit in sorted(read_log(log), key=lambda commit: -commit.seconds):
        subject = _title(commit)[0]
        if reverted := _REVERTED.fullmatch(subject):
            undone.add(_NUMBER.sub("", reverted["text"]))
        memory = _commit_memory(commit) if commit.seconds >= oldest and subject not in undone else None
        if memory is not None:
            key = memory.memory.lower()
            # A merge and the commit it brings say the same; the one that says why is worth more.
            if key not in found or (memory.reason and not found[key].reason):
                found[key] = memory
    return tuple(found.values())


def _commit_memory(commit: Commit) -> Memory | None:
    subject, body = _title(commit)
    kinds = {path: kind_of(path, language_of(path)) for path in commit.files}
    code = [path for path, kind in kinds.items() if is_product(path, kind)]
    tests = [path for path, kind in kinds.items() if kind is FileKind.TEST]
    settings = [path for path, kind in kinds.items() if is_manifest(path) or _is_setting(path, kind)]
    if not subject or _BOT.search(commit.author) or not (code or tests or settings):
        return None
    reason = _reason(body)
    if len(set(terms(reason)) - set(terms(subject))) <= _MOST_SAID_AGAIN:
        reason = ""
    # On its way into the main branch a change gets a number; other commits may be steps within one.
    whole = commit.subject.strip() != subject
    said = _said(subject, reason, whole=whole)
    if said is None:
        return None
    type_, category, text = said
    if tests and not code and not settings:
        category = "testing"
    return Memory(
        id=commit.id[:12],
        type=type_,
        category=category,
        memory=text[:MAX_TEXT],
        reason=reason,
        date=iso_of(commit.seconds),
        scope=_scope_of(code or tests or settings),
        source="git",
        author=commit.author,
    )


def _is_setting(path: str, kind: FileKind) -> bool:
    """A configuration of the project itself, not of what is around it, such as the jobs of a forge."""
    return kind is FileKind.CONFIG and not any(part.startswith(".") for part in path.split("/")[:-1])


def _title(commit: Commit) -> tuple[str, str]:
    """What a commit says of itself and why; of a merge, what was merged, "" where it names a branch only."""
    subject, body = commit.subject.strip(), commit.body
    if _MERGE_SUBJECT.match(subject):
        if not _MERGE.match(subject):
            return "", ""
        subject, _, body = body.strip().partition("\n")
    return _NUMBER.sub("", _BACKPORT.sub("", subject, count=1)).strip().rstrip("."), body


def _said(subject: str, reason: str, *, whole: bool) -> tuple[str, str, str] | None:
    """Type, category and text of a memory, or None where the subject states nothing worth keeping."""
    reverted = _REVERTED.fullmatch(subject)
    sign = _SIGN.match(subject)
    plain = subject[sign.end() :] if sign else subject
    match = None if reverted else _SUBJECT.fullmatch(plain)
    marked = next((kind for mark, kind in _SIGNS.items() if sign and mark in sign[0]), "")
    kind = marked or (match["kind"].lower() if match else "")
    text = match["text"] if match else plain
    part = match["part"] or "" if match else ""
    decides = _DECISION.match(text) is not None
    if _NOISE.search(plain) or _NOISE.search(text) or part in _PARTS_OF_NOISE or (_TOOLS.search(text) and not decides):
        return None
    has_reason = len(reason) >= _SHORTEST_REASON
    if reverted or kind == "revert":
        return "gotcha", "architecture", f"Reverted: {_NUMBER.sub('', reverted['text']) if reverted else text}"
    if kind in ("fix", "hotfix") and len(text.split()) < _FEWEST_WORDS:
        return None
    if kind in _COMMIT_KINDS and (kind != "refactor" or has_reason or _RESHAPING.match(text)):
        return (*_COMMIT_KINDS[kind], f"{part}: {text}" if part else text)
    if decides:
        return "decision", next((name for name, words in _ABOUT if words.search(text)), "architecture"), text
    if (_RULE.match(text) and (whole or has_reason)) or (_FIX.match(text) and has_reason):
        return "gotcha", "conventions", text
    return None


def _reason(body: str) -> str:
    """The first paragraph of prose in a message's body: no trailers, lists of commits, headings or numbers."""
    for paragraph in _COMMENT.sub("", body).replace("\r", "").strip().split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
        text = " ".join(line.lstrip("*-+ ") for line in lines if not _is_formal(line))
        bullets = sum(line.startswith(_BULLETS) for line in lines)
        # A bullet of some length may be prose; short ones are the subjects of commits that were made one.
        if bullets <= 1 and len(text) > (_LONG_BULLET if bullets else _SHORTEST_PROSE) and " " in text:
            return text if len(text) <= _REASON_CHARS else text[:_REASON_CHARS].rpartition(" ")[0] + " …"
    return ""


def _is_formal(line: str) -> bool:
    return bool(_TRAILER.match(line) or _POINTER.fullmatch(line) or line.startswith(("#", "---", "```", "|", ">")))


def _scope_of(files: Sequence[str]) -> str:
    """The files, or the folder that holds them where they are many."""
    if len(files) <= MOST_FILES:
        return ", ".join(f"file:{path}" for path in files)
    folder = os.path.commonpath(files)
    return f"file:{folder}" if "/" in folder else ""  # a top folder says no more than the project
