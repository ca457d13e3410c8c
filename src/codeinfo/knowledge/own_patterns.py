"""A project's own patterns, from `.codeinfo.toml`. The file comes with a repository nobody vouches for: an expression
that could take for ever is refused, so no repeated groups, no references back, few repetitions without an end. Queries
of the syntax are run where they can be stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codeinfo.errors import UsageError
from codeinfo.knowledge.detector import FAMILY, Detector
from codeinfo.requests.knowledge import PATTERN_CATEGORIES

MOST_PATTERNS = 100
MOST_REPEATS = 3
_KEYS = frozenset({"name", "category", "question", "language", "regex", "query", "paths"})
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_ENDLESS = re.compile(r"[*+]|\{\d*,\d*\}")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")


Complaint = Callable[[str, str], str]  # language, query → what is wrong with it, "" for nothing


def own_detectors(tables: Sequence[Mapping[str, Any]], complaint: Complaint = lambda *_: "") -> tuple[Detector, ...]:
    if len(tables) > MOST_PATTERNS:
        raise UsageError(f"{len(tables)} patterns are too many", next_step=f"Keep at most {MOST_PATTERNS}")
    return tuple(_detector(table, number, complaint) for number, table in enumerate(tables, 1))


def _detector(table: Mapping[str, Any], number: int, complaint: Complaint) -> Detector:
    where = f"pattern {number} of .codeinfo.toml"
    if not isinstance(table, Mapping) or set(table) - _KEYS:
        raise UsageError(f"{where} has fields that are not known", next_step=f"Use {', '.join(sorted(_KEYS))}")
    texts = {key: table.get(key, "") for key in _KEYS - {"paths"}}
    paths = table.get("paths", [])
    if not all(isinstance(text, str) for text in (*texts.values(), *paths)) or not isinstance(paths, list):
        raise UsageError(f"{where} has a field of the wrong type", next_step="Use texts, and a list of texts for paths")
    missing = [key for key in ("name", "category", "language") if not texts[key]]
    if missing:
        raise UsageError(
            f"{where} has no {missing[0]}", next_step="Give it a name, category, language, and regex or query"
        )
    if bool(texts["regex"]) == bool(texts["query"]):
        raise UsageError(f"{where} needs either a regex or a query", next_step="Give it one of them")
    if texts["category"] not in PATTERN_CATEGORIES:
        raise UsageError(
            f"{where}: {texts['category']!r} is no category", next_step=f"Use one of {', '.join(PATTERN_CATEGORIES)}"
        )
    check_expression(texts["regex"], f"{where}, regex")
    if texts["query"] and (wrong := complaint(texts["language"], texts["query"])):
        raise UsageError(f"{where}, query: {wrong}", next_step="Mend the query")
    return Detector(
        name=texts["name"],
        category=texts["category"],
        question=texts["question"] or f"{texts['category']}, the project's own",
        language=FAMILY.get(texts["language"], texts["language"]),
        expression=texts["regex"],
        paths=tuple(paths),
        own=True,
        query=texts["query"],
        grammar=texts["language"] if texts["query"] else "",
    )


def check_expression(expression: str, where: str) -> None:
    """UsageError for one that does not compile or could run away."""
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{where}: {error}", next_step="Mend the regex") from None
    bare = _ESCAPE_OR_CLASS.sub("x", expression)
    if re.search(r"\\[1-9]", expression) or "(?P=" in bare or "(?(" in bare:
        raise UsageError(f"{where}: references back are refused", next_step="Write the words out")
    if _REPEATED_GROUP.search(bare):
        raise UsageError(f"{where}: a repeated group is refused", next_step="Repeat single characters or classes only")
    if len(_ENDLESS.findall(bare)) > MOST_REPEATS:
        raise UsageError(f"{where}: too many repetitions", next_step=f"Use at most {MOST_REPEATS} of * and +")
