"""A project's own patterns, from `.codeinfo.toml`. The file comes with a repository nobody vouches for: its expressions
and queries are tried, and run, only where they can be stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from codeinfo.errors import UsageError
from codeinfo.globs import check_globs
from codeinfo.knowledge.detector import FAMILY, Detector
from codeinfo.operations.knowledge import PATTERN_CATEGORIES

MOST_PATTERNS = 100
_KEYS = frozenset({"name", "category", "question", "language", "regex", "query", "paths"})


class PatternCheck(Protocol):
    """Says what is wrong with something the project wrote; "" for nothing."""

    def expression_complaint(self, expression: str) -> str: ...

    def query_complaint(self, name: str, query: str) -> str: ...


def own_detectors(tables: Sequence[Mapping[str, Any]], check: PatternCheck) -> tuple[Detector, ...]:
    if len(tables) > MOST_PATTERNS:
        raise UsageError(f"{len(tables)} patterns are too many", next_step=f"Keep at most {MOST_PATTERNS}")
    return tuple(_detector(table, number, check) for number, table in enumerate(tables, 1))


def _detector(table: Mapping[str, Any], number: int, check: PatternCheck) -> Detector:
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
    check_globs(paths, f"{where}, paths")
    if texts["regex"] and (wrong := check.expression_complaint(texts["regex"])):
        raise UsageError(f"{where}, regex: {wrong}", next_step="Mend the regex")
    if texts["query"] and (wrong := check.query_complaint(texts["language"], texts["query"])):
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
