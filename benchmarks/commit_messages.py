"""Commit messages as questions: cleaned of what only a forge needs, and marked where they describe a bug."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codeinfo.evals.run import Commit

BODY_CHARS = 4000  # of longer messages the rest is logs
REPORT_WORDS = 60  # a body of fewer adds little to its subject
REPORT_LIST_SHARE = 0.6  # of its lines: more is a list of changes, not a text

BUG_WORDS = (40, 450)
BUG_LIST_SHARE = 0.25
BUG_OPENING_WORDS = 80  # what goes wrong is said early; later words may tell of tests
BUG_SCORE = 6  # least score of what is taken for a bug report

# --- cleaning ------------------------------------------------------------------------------------------------------

_TYPE = re.compile(
    r"(?::\w+:\s*)?\W*(?:feat|fix|bug|bugfix|hotfix|chore|refactor|perf|feature|improvement|enhancement|enh|mnt|api)"
    r"(?:\([^)]*\))?!?:\s+",
    re.IGNORECASE,
)
# Changes that say what was done to the text of the code, and nothing about what it does.
_UNTELLING = re.compile(
    r"\W*(?:initial commit|back to dev|post-release|publish|snapshot|happy new year|cosmetic|nits?\b|misc\b|bug fixes\b"
    r"|(?:re)?format|cleanup$|clean up$|code review|address (?:review|comments|feedback)|review (?:comments|feedback)"
    r"|(?:minor|small) (?:fix|change|cleanup|tweak)"
    r"|(?:run|apply) (?:black|prettier|ruff|isort|gofmt|rustfmt|clang|rubocop)"
    r"|(?:black|prettier|isort|rubocop|clippy|eslint|clang-format|ruff|mypy|pylint)\b|cargo (?:fmt|update)|go mod"
    r"|upgrade \S+ (?:to|from)"
    r"|update (?:the )?(?:version|translation|contributor|author|submodule|vendor|lock|package))"
    r"|.*\b(?:formatting|clang-tidy|codespell|misspell\w*|cod(?:e|ing) style|translations?|test cases?|unit tests?)\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TRAILER = re.compile(
    r"\s*(?:[a-z]+(?:-[a-z]+)*-(?:by|on|id|queue|url|revid)|cc|link|refs?|pr|pull request|issue|test plan|release-note"
    r"|changelog(?:-\w+)?|differential revision|cherry[- ]picked|type|milestone|backport|skip-checks)\s*:"
    r"|\s*\(cherry picked",
    re.IGNORECASE,
)
_POINTER = re.compile(  # a line that only names issues
    r"\s*[-*]?\s*(?:(?:partially |also |this )?(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|references?|see(?: also)?"
    r"|related(?: to)?|part of|addresses|issue|bug|ticket|supersedes)\W*)?"
    r"(?:(?:[\w./-]*#|gh-)\d+|https?://\S+)(?:[ ,;&]+(?:and )?(?:[\w./-]*#\d+|https?://\S+))*\s*\.?\s*",
    re.IGNORECASE,
)
_NOISE = re.compile(r"generated with \[|🤖|coderabbit|\s*[-*_=]{3,}\s*$|\s*[-*]\s*\[[ x]\]", re.IGNORECASE)
_EMPTY_HEADING = re.compile(r"\n#{2,}[^\n]*(?=\n+(?:#{2,}|$))")


def question_of(commit: Commit) -> str:
    """The subject as somebody would ask it: without issue numbers and the type of the change."""
    return _TYPE.sub("", commit.subject, count=1).strip()


def is_telling(commit: Commit) -> bool:
    question = question_of(commit)
    return len(question.split()) >= 3 and not _UNTELLING.match(question) and "This reverts commit" not in commit.body


def text_of(commit: Commit) -> str:
    """The body without trailers, pointers to issues, checklists and comments."""
    lines = _COMMENT.sub("", commit.body).replace("\r", "").split("\n")
    lines = [
        line.rstrip() for line in lines if not (_TRAILER.match(line) or _POINTER.fullmatch(line) or _NOISE.match(line))
    ]
    return _joined(_EMPTY_HEADING.sub("", "\n".join(lines)))[:BODY_CHARS]


def _joined(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def is_report(text: str) -> bool:
    return words(text) >= REPORT_WORDS and list_share(text) < REPORT_LIST_SHARE


def words(text: str) -> int:
    return len(re.findall(r"[A-Za-z][A-Za-z'_-]*", text))


def list_share(text: str) -> float:
    """How many of the lines belong to items of lists."""
    lines = [line for line in text.split("\n") if line.strip()]
    inside = False
    items = 0
    for line in lines:
        inside = bool(re.match(r"\s*(?:[-*+•]|\d+[.)])\s", line)) or (inside and line[0] in " \t")
        items += inside
    return items / len(lines) if lines else 0.0


# --- bugs ----------------------------------------------------------------------------------------------------------

_FAULT = re.compile(  # words that only a fault is described with
    r"\b(?:crash\w*|traceback|regress\w*|segfault\w*|segmentation fault|wrong(?:ly)?|incorrect(?:ly)?|unexpected(?:ly)?"
    r"|fail(?:s|ed|ing)|broken|hangs?|deadlock\w*|leak(?:s|ed|ing)?|panic\w*|infinite loop|misbehav\w*|stuck|raise[sd]?"
    r"|throws?|thrown|bug|\w+Error|\w+Exception|garbage|corrupt\w*|race condition|did(?: not|n't)|does(?: not|n't)"
    r"|no longer)\b"
)
_SYMPTOM = re.compile(  # words that come with faults, and elsewhere
    r"\b(?:errors?|failures?|breaks?|broke|exceptions?|overflow\w*|invalid|isn't|wasn't|not work\w*|instead of|never"
    r"|missing|freez\w*|lost|ignored|duplicate[ds]?|mistaken(?:ly)?|accidental(?:ly)?|unable|can't|cannot|undefined)\b"
)
_SITUATION = re.compile(
    r"\b(?:when(?:ever)?|if|because|since|currently|previously|before this|prior to|would|was|were|causing|caused"
    r"|causes?|resulted|results? in|leads? to|led to|leading to|happens?|occurs?|after|to reproduce|reproduc\w+"
    r"|expected|actual|for example|e\.g\.|reported|noticed|seen|observed)\b",
    re.IGNORECASE,
)
_FIX = re.compile(
    r"\b(?:fix\w*|prevent\w*|avoid\w*|handle\w*|correct\w*|crash\w*|error\w*|fail\w*|wrong\w*|bug\w*|don't|do not"
    r"|doesn't|never|ensure|respect|properly|broken|leak\w*|race|deadlock|hang\w*|regression|incorrect\w*|missing"
    r"|resolve|repair|restore|guard|stop|invalid|exception|panic|segfault|overflow|lost|ignore\w*|honou?r|not|only"
    r"|always)\b",
    re.IGNORECASE,
)
_FEATURE = re.compile(
    r"\W*(?:add|support|implement|allow|refactor|rename|move|introduce|improve|optimi[sz]e|simplify|deprecate|remove"
    r"|drop|enable|expose|convert|extract|clean ?up|speed|bump|use|port|feat|new|switch|replace|migrate|rework|rewrite"
    r"|update|upgrade|enhance|silence|suppress|disable|regenerate|harden|cap|bound|limit|reuse|clarify)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(  # a line that tells what was done
    r"^\s*(?:[-*+]\s*)?(?:add|remov|refactor|renam|mov|implement|introduc|updat|extract|replac|simplif|convert|split|clean)",
    re.IGNORECASE | re.MULTILINE,
)
_AUTHORS_VIEW = re.compile(r"\b(?:this (?:commit|patch|PR|change)|we now|now we|I)\b")
_OF_REVIEW = re.compile(
    r"address review|regression coverage|review caught|(?:previous|last) commit|follow-?up to (?:the )?review"
    r"|no behaviou?r (?:change|difference)|pure(?:ly)? docs",
    re.IGNORECASE,
)
_TOOLING = re.compile(
    r"\b(?:pylint|mypy|lint|type hints?|typing|static analy\w+|coverity|warnings?|refactor\w*|unit tests?|CI)\b"
)
# From here on a message tells of the fix and its tests, which nobody who reports a bug knows.
_AFTER_THE_BUG = re.compile(
    r"\n+(?:#{0,4}\s*\**(?:test plan|testing|tests|how (?:has|was) this (?:been )?tested\??|how to test|checklist"
    r"|changes?|release notes?|screenshots?|what changed|changes made|verification|validation|review|solution"
    r"|(?:the )?fix|summary by \w+)\**:?\**\s*\n|(?:technical overview|impact|implementation|solution)\s*:).*",
    re.IGNORECASE | re.DOTALL,
)
_BUG_HEADING = re.compile(
    r"(?:^|\n)#{0,5}\s*\**(?:summary|description|problem|issue|motivation|context|background|what|why|root cause)"
    r"\**:?\s*\n",
    re.IGNORECASE,
)


def bug_text_of(text: str) -> str:
    """What a message says about the bug: without headings, and up to where it tells of the fix."""
    return _joined(_BUG_HEADING.sub("\n", _AFTER_THE_BUG.sub("", "\n" + text)))


def bug_score(question: str, text: str, answers: Iterable[str]) -> float | None:
    """How much the text reads as a report by somebody who met the bug; None: it does not.

    `answers` are the files that were changed: a text that names them was written by who knew.
    """
    least, most = BUG_WORDS
    opening = " ".join(text.split()[:BUG_OPENING_WORDS])
    if not (least <= words(text) <= most) or list_share(text) > BUG_LIST_SHARE or _FEATURE.match(question):
        return None
    if not (_FAULT.search(opening) and _SITUATION.search(opening)) or "```diff" in text or _OF_REVIEW.search(text):
        return None
    if len(_TOOLING.findall(text)) > 1 or len(re.findall(r"[a-z`'\")]{2}[.:](?:\s|$)", text)) < 2:
        return None
    faults, symptoms, situations = (_distinct(pattern, text) for pattern in (_FAULT, _SYMPTOM, _SITUATION))
    if faults + symptoms < 2 or situations < 2 or not (_FIX.search(question) or faults >= 2):
        return None
    named = sum(path in text or path.rpartition("/")[2] in text for path in answers)
    against = 2 * len(_CHANGE.findall(text)) + 2 * named + len(_AUTHORS_VIEW.findall(text)) + 6 * list_share(text)
    return 3 * faults + symptoms + situations - against


def _distinct(pattern: re.Pattern[str], text: str) -> int:
    return len({match.group().lower() for match in pattern.finditer(text)})
