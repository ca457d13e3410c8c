"""A project's own patterns, as queries of the syntax and as expressions: what they find, which are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from patience import within
from team_tools import build_team, engine_of

from codeinfo.errors import UsageError
from codeinfo.index import pool
from codeinfo.index.pool import PatternSandbox
from codeinfo.index.worker import query_lines
from codeinfo.knowledge.detectors import Matcher, project_detectors
from codeinfo.operations.knowledge import PatternsRequest

STORE_CALLS = """
(call
  function: (identifier) @use
  (#eq? @use "Store"))
"""
TOML = f"""
[[patterns]]
name = "a store of its own"
category = "data access"
question = "how orders are kept"
language = "python"
query = '''{STORE_CALLS}'''

[[patterns]]
name = "a store that is handed in"
category = "data access"
question = "how orders are kept"
language = "python"
regex = "store: Store"
"""


@pytest.fixture
def syntax() -> Iterator[PatternSandbox]:
    found = PatternSandbox()
    yield found
    found.close()


def table(query: str, language: str = "python") -> dict[str, str]:
    return {"name": "a", "category": "logging", "language": language, "query": query}


class Recorded(PatternSandbox):
    calls: ClassVar[list[str]] = []

    def lines(self, name: str, queries: Sequence[str], text: str) -> list[list[int]]:
        self.calls.append("lines")
        return super().lines(name, queries, text)

    def close(self) -> None:
        self.calls.append("close")
        super().close()


def test_a_project_asks_for_syntax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.engine.project_knowledge.PatternSandbox", Recorded)
    Recorded.calls.clear()
    team = build_team(tmp_path / "team")
    (team / ".codeinfo.toml").write_text(TOML)
    (team / "shop" / "notes.py").write_text('# Store()\nTEXT = "Store()"\n\n\ndef keep(store: Store):\n    pass\n')
    with engine_of(team) as engine:
        report = engine.knowledge.patterns(PatternsRequest(str(team), category="data access"))
        seen = {one.name: (one.files, one.uses, one.adoption, one.trend) for one in report.patterns}
        # Calls stand in shipping.py, reports.py and the store's test; the comment and the string are none.
        assert seen == {
            "a store of its own": (3, 3, 75, "Stable"),
            "a store that is handed in": (1, 1, 25, "Rising"),
        }
        assert "lines" in Recorded.calls
        assert Recorded.calls[-1] == "close"  # no process is left behind


def test_the_line_of_a_use_is_that_of_its_capture() -> None:
    text = "def f():\n    try:\n        g()\n    except ValueError:\n        pass\n\n\nö = 1\n"
    caught = "(try_statement (except_clause (identifier) @use (block (pass_statement)))) @whole"
    assert query_lines(text, "python", [caught, "(try_statement) @a", "(identifier) @name"]) == [[4], [2], [1, 3, 4, 8]]


@pytest.mark.parametrize(
    ("query", "language", "says"),
    [
        ("(call function: (identifir) @use)", "python", "query: line 1, column 18: Invalid node type: identifir"),
        ("(call\n  function: (identifier @use", "python", "query: line 2, column 2[0-9]: Invalid syntax"),
        ("(call function: (identifier) @use)", "cobol", "no syntax tree for 'cobol'"),
        ("(call function: (identifier))", "python", "nothing is captured"),
        ('(call) @use\n(#evil? @use "a")', "python", "line 2, column 2: unknown predicate #evil\\?"),
        ("(identifier) @use " * 300, "python", "longer than 4000"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(syntax: PatternSandbox, query: str, language: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        project_detectors([table(query, language)], syntax)
    assert refused.value.what.startswith("pattern 1 of .codeinfo.toml, query: ")


def test_a_query_speaks_of_one_language(syntax: PatternSandbox) -> None:
    matcher = Matcher(project_detectors([table("(call_expression) @use", "typescript")], syntax), syntax)
    assert matcher.uses("run()\n", "typescript", "a.ts") == [(0, 1)]
    assert matcher.uses("run()\n", "javascript", "a.js") == []
    assert matcher.knows("typescript")
    assert not matcher.knows("javascript")


def test_a_query_that_does_not_end_is_stopped(syntax: PatternSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FILE_SECONDS", 1.0)
    endless = '((identifier) @use (#match? @use "^(a+)+$"))'
    matcher = Matcher(project_detectors([table(endless)], syntax), syntax)
    with within(30):
        assert matcher.uses("a" * 60 + "b = 1\n", "python", "a.py") == []
    assert syntax.gave_up
    syntax.begin()
    assert matcher.uses("aaa = 1\n", "python", "b.py") == [(0, 1)]  # a fresh process takes over
    assert not syntax.gave_up


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell what a process computed")
def test_a_busy_machine_costs_no_pattern_its_uses(syntax: PatternSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FILE_SECONDS", 0.5)
    before = set(psutil.Process().children())
    matcher = Matcher(project_detectors([table("(call) @use")], syntax), syntax)
    (worker,) = set(psutil.Process().children()) - before
    worker.suspend()
    threading.Timer(1.0, worker.resume).start()
    assert matcher.uses("run()\n", "python", "a.py") == [(0, 1)]
    assert not syntax.gave_up


def test_all_files_together_have_a_limit(syntax: PatternSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ALL_SECONDS", 0.0)
    matcher = Matcher(project_detectors([table("(identifier) @use")], syntax), syntax)
    syntax.begin()
    assert matcher.uses("a = 1\n", "python", "a.py") == []
    assert syntax.gave_up


# --- expressions ----------------------------------------------------------------------------------------------------


def regex_table(regex: str, *paths: str) -> dict[str, object]:
    return {"name": "a", "category": "logging", "language": "python", "regex": regex, "paths": list(paths)}


@pytest.mark.parametrize(
    ("expression", "lines"),
    [(r"class \w+Repository", [1]), (r"(a|b)+\(", [2]), (r"([ab])\1", [2]), (r"x(?!y)", [3]), ("print", [3])],
)
def test_an_expression_finds_lines_of_code(syntax: PatternSandbox, expression: str, lines: list[int]) -> None:
    matcher = Matcher(project_detectors([regex_table(expression)], syntax), syntax)
    text = "class BookRepository:  # print\n    aabb(xy)\n    print(x, 'ee')\n    'print'\n"
    assert matcher.uses(text, "python", "a.py") == [(0, line) for line in lines]


@pytest.mark.parametrize(("expression", "says"), [("(", "unterminated"), ("a" * 1001, "longer than 1000")])
def test_a_wrong_expression_is_refused(syntax: PatternSandbox, expression: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"^pattern 1 of .codeinfo.toml, regex: .*{says}"):
        project_detectors([regex_table(expression)], syntax)


@pytest.mark.parametrize("expression", ["(a+)+b", "a?" * 45 + "a" * 45 + "b", "(a|aa)+$"])
def test_an_expression_that_does_not_end_is_stopped(
    syntax: PatternSandbox, expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "FILE_SECONDS", 1.0)
    matcher = Matcher(project_detectors([regex_table(expression)], syntax), syntax)
    with within(30):
        assert matcher.uses("a" * 60 + "c = 1\n", "python", "a.py") == []
    assert syntax.gave_up


def test_paths_are_globs(syntax: PatternSandbox) -> None:
    matcher = Matcher(project_detectors([regex_table("x", "shop/*", "deep/**")], syntax), syntax)
    for path, found in (("shop/a.py", True), ("shop/b/a.py", False), ("deep/b/c/a.py", True), ("a.py", False)):
        assert bool(matcher.uses("x = 1\n", "python", path)) is found, path
    with pytest.raises(UsageError, match=r"pattern 1 of \.codeinfo\.toml, paths: 65 globs are too many"):
        project_detectors([regex_table("x", *["a/*"] * 65)], syntax)
