"""Questions with known answers, read from the two formats in use.

a folder with queries.jsonl and repos.tsv   many repositories, targets are paths, some with lines
a JSON file with {"queries": […]}           one repository, targets are parts of paths (codebase-context's fixtures)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from codeinfo.errors import NotFound, UsageError

WHOLE_TREE = "-"  # in repos.tsv: index the whole repository
FIXTURE_GATE = ("top1", 0.7)  # what a fixture must reach unless another gate is named


Span = tuple[int, int]  # first and last line


class Target(Struct, frozen=True):
    """A file that answers a query: by its path, or by any of `patterns` within it and none of `unwanted`.

    `start` and `end` are the lines of the answer: a result elsewhere in the file is wrong. `spans` are lines that a
    change touched and `functions` those of the definitions around them: any result of the file is right, and whether
    one has the function is a figure of its own.
    """

    path: str = ""
    start: int | None = None
    end: int | None = None
    patterns: tuple[str, ...] = ()  # lowercase, as is `unwanted`
    unwanted: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    functions: tuple[Span, ...] = ()

    def is_file(self, path: str) -> bool:
        if not self.patterns:
            return path == self.path
        lowered = path.lower()
        return any(part in lowered for part in self.patterns) and not any(part in lowered for part in self.unwanted)

    def covers(self, path: str, start: int | None, end: int | None) -> bool:
        """The same file, and a shared line where both sides name lines."""
        if not self.is_file(path):
            return False
        if self.start is None or self.end is None or start is None or end is None:
            return True
        return start <= self.end and end >= self.start

    def has_function(self, path: str, start: int | None, end: int | None) -> bool:
        """The same file, and a line of what was changed or of a definition around it."""
        if not self.is_file(path):
            return False
        if start is None or end is None:
            return True
        return any(start <= last and end >= first for first, last in (*self.spans, *self.functions))


class Query(Struct, frozen=True):
    id: str
    text: str
    targets: tuple[Target, ...]
    repo: str = ""
    language: str = ""
    category: str = ""


class Dataset(Struct, frozen=True):
    name: str
    queries: tuple[Query, ...]
    roots: Mapping[str, str] = field(default_factory=dict)  # repository → the folder in it to index, "" for all of it
    gates: tuple[tuple[str, float], ...] = ()  # what a run must reach unless the caller names other gates

    def of_repositories(self, names: tuple[str, ...]) -> Dataset:
        """The part that asks about these repositories."""
        known = {query.repo for query in self.queries}
        if unknown := sorted(set(names) - known):
            raise NotFound(
                f"{self.name} has no repository {unknown[0]!r}", next_step=f"It has: {', '.join(sorted(known))}"
            )
        return Dataset(self.name, tuple(q for q in self.queries if q.repo in names), self.roots, self.gates)


def load(path: Path) -> Dataset:
    """Read a dataset: a folder, a queries file (with repos.tsv beside it, or none), or a fixture."""
    if os.path.isdir(path):
        path = path / "queries.jsonl"
    if not os.path.isfile(path):
        raise NotFound(
            f"there is no dataset {path}", next_step="Name a folder with queries.jsonl, or a fixture in JSON."
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".jsonl":
            return Dataset(_name(path), tuple(_benchmark_queries(text)), _roots(path.with_name("repos.tsv")))
        return _fixture(path.stem, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} is not a dataset: {what}", next_step="See docs/evaluation.md for the formats."
        ) from error


def _name(path: Path) -> str:
    return path.resolve().parent.name if path.name == "queries.jsonl" else path.stem


def _benchmark_queries(text: str) -> Iterator[Query]:
    for line in text.splitlines():
        if not line.strip():
            continue
        row = json.loads(line)
        yield Query(
            id=str(row["id"]),
            text=row["query"],
            targets=tuple(map(_target, row["targets"])),
            repo=row.get("repo", ""),
            language=row.get("language", ""),
            category=row.get("category", ""),
        )


def _target(row: Mapping[str, Any]) -> Target:
    return Target(
        row["path"],
        row.get("start_line"),
        row.get("end_line"),
        spans=_spans(row.get("spans", ())),
        functions=_spans(row.get("functions", ())),
    )


def _spans(rows: Any) -> tuple[Span, ...]:
    return tuple((int(first), int(last)) for first, last in rows)


def _roots(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    header, *lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    name, root = header.index("name"), header.index("root")
    return {line[name]: "" if line[root] == WHOLE_TREE else line[root].strip("/") for line in lines}


def _fixture(name: str, content: Mapping[str, Any]) -> Dataset:
    """Every query has one target: any file that its patterns fit."""
    repo = str(content.get("codebase", ""))
    queries = []
    for row in content["queries"]:
        wanted = row.get("expectedPatterns", row.get("expectedTopFiles", ()))
        unwanted = row.get("expectedNotPatterns", row.get("expectedNotTopFiles", ()))
        target = Target(patterns=_lowered(wanted), unwanted=_lowered(unwanted))
        queries.append(
            Query(
                id=str(row["id"]),
                text=row["query"],
                targets=(target,) if target.patterns else (),
                repo=repo,
                category=row.get("category", ""),
            )
        )
    return Dataset(name, tuple(queries), gates=(FIXTURE_GATE,))


def _lowered(patterns: Any) -> tuple[str, ...]:
    return tuple(str(pattern).lower() for pattern in patterns)
