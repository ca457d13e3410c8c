"""The card before a change: each point and each doubt by itself, then on the team's repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from team_tools import build_team, engine_of

from codeinfo.knowledge.change import Evidence, decide
from codeinfo.model import FileKind, Hit, Quality, RelatedMemory
from codeinfo.operations.knowledge import GoldenFile, PatternConflict, PatternReport, PatternUse
from codeinfo.operations.search import SearchRequest


def hit(path: str, kind: FileKind = FileKind.CODE, symbol: str = "") -> Hit:
    return Hit("/r", path, 1, 9, "", 1, 1.0, 1, language="python", kind=kind, symbol=symbol)


def pattern(name: str, adoption: int, guidance: str, language: str = "python") -> PatternUse:
    return PatternUse(name, "logging", "how messages are written", language, adoption, 5, 9, "Rising", "", guidance)


def memory(confidence: float, kind: str = "decision") -> RelatedMemory:
    return RelatedMemory("abc", kind, "testing", "Beware", "", "2025-01-01", "by Ann", confidence, confidence < 0.3)


CALLERS = [("a.py", 3), ("x.py", 4)]
GOOD = Evidence(
    query="save an order",
    purpose="edit",
    hits=[hit("a.py"), hit("b.py"), hit("c.py")],
    quality=Quality("ok", 0.9),
    patterns=PatternReport((pattern("logging module", 90, "use"),), (), (GoldenFile("g.py", "python", ("a",), 3.0),)),
    questions={"how messages are written"},
    memories=[memory(1.0)],
    importers={"b.py": CALLERS},  # a.py is among the results, x.py is not: half are covered, which is enough
)
CONFLICT = PatternConflict("logging", "how messages are written", "python", ("logging module", "print"), (60, 40))


@pytest.mark.parametrize(
    ("change", "score"),
    [
        ({}, 100.0),  # 45 + 30 + 25
        ({"memories": []}, 75.0),  # 45 + 30
        ({"memories": [memory(0.5)]}, 87.5),  # 45 + 30 + 25 × 0.5
        ({"patterns": PatternReport((), (), ())}, 70.0),  # 45 + 25
        ({"patterns": PatternReport((pattern("print", 30, ""),), (), ())}, 85.0),  # known, none preferred: 45 + 15 + 25
        ({"patterns": PatternReport((pattern("slog", 90, "use", "go"),), (), ())}, 70.0),  # of another language
        ({"hits": [hit("a.py"), hit("b.py")], "importers": {}}, 77.5),  # 22.5 + 30 + 25
        ({"hits": [hit("a.py"), hit("b.py"), hit("t.py", FileKind.TEST)], "importers": {}}, 77.5),  # a test is no code
        (
            {"hits": [hit("a.py"), hit("b.py"), hit("c.py")], "memories": [], "patterns": PatternReport((), (), ())},
            45.0,
        ),
    ],
)
def test_points_and_ready(change: dict[str, Any], score: float) -> None:
    card = decide(replace(GOOD, **change))
    assert card.score == score
    assert sum(point.points for point in card.reckoning) == score
    assert card.ready
    assert (card.next_action, card.what_would_help) == ("", ())


@pytest.mark.parametrize(
    ("change", "doubt", "help"),
    [
        ({"quality": Quality("low_confidence", 0.2)}, "low search quality", "codeinfo search"),
        ({"changed_since_index": 2}, "stale index", "codeinfo index"),
        ({"hits": [hit("a.py", symbol="Store.save")]}, "thin evidence", "codeinfo refs Store.save"),
        ({"importers": {"b.py": [("x.py", 4), ("y.py", 5), ("a.py", 1)]}}, "low caller coverage", "read x.py:4"),
        (
            {"patterns": replace(GOOD.patterns, conflicts=(CONFLICT,))},
            "pattern conflict",
            'codeinfo patterns -c "logging"',
        ),
        ({"memories": [memory(0.2)]}, "stale memory", "codeinfo memory show abc"),
        (
            {"hits": [], "memories": []},
            "too few points",
            "codeinfo search",
        ),  # patterns of no language at hand: 0 points
    ],
)
def test_each_doubt_withdraws_the_readiness(change: dict[str, Any], doubt: str, help: str) -> None:
    card = decide(replace(GOOD, **change))
    assert not card.ready
    assert doubt in [point.name for point in card.reckoning if point.most == 0]
    assert card.next_action
    assert any(help in step for step in card.what_would_help)
    assert len(card.what_would_help) <= 4


def test_a_conflict_about_something_else_is_no_doubt() -> None:
    patterns = replace(GOOD.patterns, conflicts=(CONFLICT,))
    assert decide(replace(GOOD, patterns=patterns, questions={"how code waits"})).ready


def test_what_goes_along() -> None:
    memories = [memory(1.0), *(memory(0.9, "failure") for _ in range(5))]
    card = decide(replace(GOOD, memories=memories))
    assert card.warnings == ("Beware (by Ann)",) * 3
    assert card.patterns is not None
    assert card.patterns.do == ("logging module (90 % of how messages are written)",)
    assert card.best_example == "g.py"
    assert card.impact is not None
    assert (card.impact.coverage, card.impact.files) == ("1/2 callers in results", ("x.py:4", "a.py:3"))


# --- on the team's repository --------------------------------------------------------------------------------------


def test_the_teams_card(tmp_path: Path) -> None:
    """Five Python files under shop/ know "store", "save" or "order": 45 points for code. 30 since logging is preferred,
    and 25 × 2^(-80/180) = 18.4 for the decision of 80 days ago: 93.4. Both callers of the store are among the results.
    The team is divided on logging, so the card says no all the same."""
    root = build_team(tmp_path / "team")
    request = SearchRequest("Store save order", paths=(str(root),), purpose="edit")
    with engine_of(root) as engine:
        before = engine.search(request)
        card = before.preflight
        assert card is not None
        assert [memory.memory for memory in before.memories] == ["shop: keep orders in a store"]
        assert (card.ready, card.score) == (False, 93.4)
        assert [point.name for point in card.reckoning if point.most == 0] == ["pattern conflict"]
        assert card.next_action.endswith('run `codeinfo patterns -c "logging"`')
        assert card.impact is not None
        assert card.impact.coverage == "2/2 callers in results"
        assert card.best_example == "shop/shipping.py"
        # When nobody prints any more, nothing is left to settle.
        for name in ("orders.py", "reports.py"):
            file = root / "shop" / name
            file.write_text("\n".join(line for line in file.read_text().split("\n") if "print(" not in line))
        after = engine.search(request).preflight
        assert after is not None
        assert (after.ready, after.score) == (True, 93.4)
        # Many points do not help when the search itself is not sure.
        vague = engine.search(replace(request, query="keep orders of yesterday in an archive")).preflight
        assert vague is not None
        assert (vague.ready, vague.score) == (False, 93.4)
        assert [point.name for point in vague.reckoning if point.most == 0] == ["low search quality"]
        (root / "shop" / "new.py").write_text("x = 1\n")
        unseen = engine.search(replace(request, refresh=False)).preflight
        assert unseen is not None
        assert "stale index" in [point.name for point in unseen.reckoning]


def test_without_a_purpose_there_is_no_card(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def parse(): pass\n")
    with engine_of(tmp_path) as engine:
        assert engine.search(SearchRequest("parse", paths=(str(tmp_path),))).preflight is None
