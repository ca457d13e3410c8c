"""Patterns: every detector on its own example, and a team's repository whose figures were worked out by hand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from team_tools import DAY, NOW, build_team, engine_of

from codeinfo.engine import Engine
from codeinfo.errors import UsageError
from codeinfo.index.queries import OwnPatterns
from codeinfo.knowledge.detectors import Detector, built_in_detectors, project_detectors
from codeinfo.knowledge.matching import CodeText, Matcher
from codeinfo.knowledge.patterns import guidance, trend
from codeinfo.operations.knowledge import PATTERN_CATEGORIES, PatternHistory, PatternReport, PatternsRequest

BUILT_IN = built_in_detectors()
LANGUAGE = {"javascript": "typescript"}


def name(detector: Detector) -> str:
    return f"{detector.language}-{detector.name}"


@pytest.mark.parametrize("detector", BUILT_IN, ids=name)
def test_a_detector_finds_its_example(detector: Detector) -> None:
    language = LANGUAGE.get(detector.language, detector.language)
    text = "\n".join([detector.example, *(f'import {{ a }} from "{word}core"' for word in detector.within[:1])])
    assert Matcher([detector]).uses(text, language, "a"), detector.expression
    assert detector.category in PATTERN_CATEGORIES


def test_a_frameworks_words_count_only_where_it_is_used() -> None:
    text = "class Shop {\n  constructor(private stock: Stock) {}\n}\n"
    matcher = Matcher(BUILT_IN)
    assert not [use for use in matcher.uses(text, "typescript", "a.ts") if matcher.detectors[use[0]].within]
    angular = f'import {{ Injectable }} from "@angular/core";\n{text}'
    found = [matcher.detectors[use[0]].name for use in matcher.uses(angular, "typescript", "a.ts")]
    assert "constructor parameters" in found


def test_a_question_has_at_least_two_answers() -> None:
    """A share of one is always 100 % and says nothing."""
    questions: dict[tuple[str, str], set[str]] = {}
    for detector in BUILT_IN:
        questions.setdefault((detector.language, detector.question), set()).add(detector.name)
    assert all(len(answers) > 1 for answers in questions.values())


def test_every_language_speaks_of_every_category() -> None:
    for language in ("python", "javascript", "go", "java", "csharp", "rust"):
        categories = {detector.category for detector in BUILT_IN if detector.language == language}
        assert categories == set(PATTERN_CATEGORIES), language


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "# print('x')\n"),
        ("python", '"""\nprint("x")\n"""\n'),
        ("python", "text = 'call os.environ here'\n"),
        ("javascript", "// console.log(1)\n"),
        ("javascript", "/* \n console.log(1)\n*/"),
        ("go", '// fmt.Println("a")\n'),
        ("rust", '/* println!("a") */'),
    ],
)
def test_comments_and_strings_are_no_uses(language: str, text: str) -> None:
    assert Matcher(BUILT_IN).uses(text, language, "a") == []


def test_hostile_text_is_read_once() -> None:
    started = time.perf_counter()
    for family in ("python", "javascript", "go", "java", "csharp", "rust"):
        for text in ("/*" * 50_000, '"""' + "\\" * 99_999, "`" + "\\" * 100_001, '@"' * 50_000, '"\\' * 50_000):
            CodeText(text, family).is_code(5)
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize(
    ("days", "expected"), [(0, "Rising"), (60, "Rising"), (61, "Stable"), (179, "Stable"), (180, "Declining")]
)
def test_a_trend_is_the_age_of_the_newest_use(days: int, expected: str) -> None:
    assert trend(NOW - days * DAY, NOW) == expected


@pytest.mark.parametrize(
    ("adoption", "momentum", "expected"),
    [
        (80, "Rising", "use"),
        (79, "Stable", "prefer"),
        (50, "", "prefer"),
        (49, "Rising", ""),
        (100, "Declining", "avoid"),
    ],
)
def test_advice(adoption: int, momentum: str, expected: str) -> None:
    assert guidance(adoption, momentum) == expected


# --- the team's repository -----------------------------------------------------------------------------------------


@pytest.fixture
def team(tmp_path: Path) -> Path:
    return build_team(tmp_path / "team")


def report_of(engine: Engine, root: Path, **more: Any) -> PatternReport:
    return engine.knowledge.patterns(PatternsRequest(path=str(root), **more))


def test_the_teams_figures(team: Path) -> None:
    with engine_of(team) as engine:
        report = report_of(engine, team)
    seen = {(p.language, p.name): (p.adoption, p.files, p.trend, p.newest, p.guidance) for p in report.patterns}
    # Messages are written in five Python files: billing, store and shipping log, orders and reports print: 3/5 and 2/5.
    # The newest logging line is of shipping.py, 30 days before 2026-01-01; the newest print of reports.py, 100 days.
    assert seen[("python", "logging module")] == (60, 3, "Rising", "2025-12-02", "prefer")
    assert seen[("python", "print")] == (40, 2, "Stable", "2025-09-23", "")
    # orders.py is 300 days old, and the only one with these.
    assert seen[("python", "broad except")] == (100, 1, "Declining", "2025-03-07", "avoid")
    assert seen[("python", "os.path")] == (100, 1, "Declining", "2025-03-07", "avoid")
    # prices.ts is 200 days old, cart.ts 20: one file each.
    assert seen[("javascript", "constructor parameters")] == (50, 1, "Declining", "2025-06-15", "avoid")
    assert seen[("javascript", "inject()")] == (50, 1, "Rising", "2025-12-12", "prefer")
    assert seen[("javascript", "signals")] == (50, 1, "Rising", "2025-12-12", "prefer")
    assert seen[("javascript", "@if and @for")] == (100, 1, "Rising", "2025-12-12", "use")
    assert seen[("go", "log/slog")] == (100, 1, "Rising", "2025-12-27", "use")


def test_the_teams_conflicts_and_golden_files(team: Path) -> None:
    with engine_of(team) as engine:
        report = report_of(engine, team)
    assert [(c.language, c.patterns, c.adoption) for c in report.conflicts] == [
        ("javascript", ("constructor parameters", "inject()"), (50, 50)),
        ("python", ("logging module", "print"), (60, 40)),
        ("javascript", ("RxJS subjects", "signals"), (50, 50)),
    ]
    assert [(g.path, len(g.patterns), g.density) for g in report.golden_files] == [
        ("web/cart.ts", 3, 50.0),  # inject, signals, ES modules: 3 uses in 6 lines
        ("shop/shipping.py", 3, 27.27),  # logging, lazy %, X | None: 3 in 11
        ("shop/billing.py", 2, 25.0),  # 2 in 8
        ("shop/store.py", 2, 22.22),  # 2 in 9
        ("main.go", 1, 14.29),  # 1 in 7
    ]
    # orders.py and prices.ts use what is to be avoided, reports.py nothing preferred, cart.html has three lines only.


def test_lines_are_counted_by_the_month_they_were_written_in(team: Path) -> None:
    with engine_of(team) as engine:
        report = engine.knowledge.patterns(PatternsRequest(str(team), history=True))
        plain = report_of(engine, team)
    seen = {p.name: p.history for p in report.patterns if p.history}
    assert len(seen) == len(report.patterns)
    # billing.py is of 2025-09-03, store.py of 2025-09-23, shipping.py of 2025-12-02; NOW is the first day of 2026.
    assert seen["logging module"] == PatternHistory("2025-01", (0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0))
    assert seen["print"] == PatternHistory("2025-01", (0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0))
    assert {p.history for p in plain.patterns} == {None}  # nobody asked


def test_lines_from_before_the_window_are_older_and_edited_ones_of_this_month(team: Path) -> None:
    with engine_of(team) as engine:
        engine.knowledge.clock = lambda: float(NOW + 130 * DAY)  # 2026-05-11: orders.py is 430 days old
        text = (team / "shop" / "reports.py").read_text()
        (team / "shop" / "reports.py").write_text(text + "\n\nprint(report())\n")
        report = engine.knowledge.patterns(PatternsRequest(str(team), history=True))
    (print_lines,) = (p.history for p in report.patterns if p.name == "print")
    assert print_lines == PatternHistory("2025-05", (0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1), older=1)


def test_a_budget_that_ends_leaves_lines_undated_until_the_next_look(
    team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.knowledge.patterns.MOST_BLAMES", 3)
    undated = []
    with engine_of(team) as engine:
        for _ in range(5):
            report = engine.knowledge.patterns(PatternsRequest(str(team), history=True))
            undated.append(sum(p.history.undated for p in report.patterns if p.history))
    assert undated == sorted(undated, reverse=True)
    assert undated[0] > undated[-1] == 0


def test_what_is_not_committed_is_of_today(team: Path) -> None:
    with engine_of(team) as engine:
        report_of(engine, team)
        (team / "shop" / "orders.py").write_text(
            (team / "shop" / "orders.py").read_text() + "\n\ndef close():\n    print('closed')\n"
        )
        seen = {p.name: p for p in report_of(engine, team, category="logging").patterns}
        assert (seen["print"].trend, seen["print"].newest) == ("Rising", "2026-01-01")
        # Its old lines stay old.
        others = {p.name: p.trend for p in report_of(engine, team, category="error handling").patterns}
        assert others == {"broad except": "Declining"}


def test_after_one_edit_one_file_is_looked_at(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = Matcher.uses

    def watched(self: Matcher, text: str, language: str, path: str) -> list[tuple[int, int]]:
        looked.append(path)
        return real(self, text, language, path)

    monkeypatch.setattr(Matcher, "uses", watched)
    with engine_of(team) as engine:
        report_of(engine, team)
        assert len(looked) > 5
        looked.clear()
        report_of(engine, team)
        assert looked == []
        (team / "main.go").write_text("package main\n")
        report_of(engine, team)
    with engine_of(team) as engine:  # a fresh process finds what was kept
        report_of(engine, team)
    assert looked == ["main.go"]


def test_without_a_repository_there_is_no_trend(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(1)\n")
    with engine_of(tmp_path) as engine:
        report = report_of(engine, tmp_path)
    assert [p.trend for p in report.patterns] == [""]
    assert "no git repository" in report.notes[0]


# --- a project's own patterns --------------------------------------------------------------------------------------


def test_a_project_adds_its_own(team: Path) -> None:
    (team / ".codeinfo.toml").write_text(
        '[[patterns]]\nname = "store calls"\ncategory = "data access"\nlanguage = "python"\nregex = "Store\\\\(\\\\)"\n'
        'paths = ["shop/*"]\n'
    )
    with engine_of(team) as engine:
        (own,) = report_of(engine, team, category="data access").patterns
    assert (own.name, own.files, own.trend) == ("store calls", 2, "Rising")  # shipping.py and reports.py, not the test


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"name": "a"}, "no category"),
        ({"name": "a", "category": "logging", "language": "go"}, "either a regex or a query"),
        ({"name": "a", "category": "logging", "language": "go", "regex": "a", "query": "(b) @c"}, "either a regex or"),
        ({"name": "a", "category": "x", "language": "go", "regex": "a"}, "no category"),
        ({"name": 3, "category": "logging", "language": "go", "regex": "a"}, "wrong type"),
        ({"name": "a", "colour": "red"}, "not known"),
    ],
)
def test_a_wrong_table_is_refused(table: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        project_detectors([table], OwnPatterns())


def test_a_detectors_words_hide_no_use() -> None:
    """Where a text has its words is only where the expression is tried, so none may be found without one."""
    for detector in BUILT_IN:
        assert detector.words
        assert any(word in detector.example for word in detector.words), detector.name


def test_a_match_that_goes_on_to_another_line_is_found_near_its_word() -> None:
    text = "x = 1\n" * 400 + "try:\n    f()\nexcept OSError:\n    pass\n" + "y = 2\n" * 400
    detectors = [detector for detector in BUILT_IN if detector.name == "except: pass"]
    assert Matcher(detectors).uses(text, "python", "a.py") == [(0, 403)]
