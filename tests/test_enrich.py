"""The context of results: what they are, who uses them, and what is said about how they are written."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from team_tools import build_team, engine_of

from codeinfo.enrich import context, path_role, role
from codeinfo.requests import SearchRequest
from codeinfo.requests.knowledge import PatternsRequest
from codeinfo.types import FileKind, Hit


@dataclass(frozen=True)
class Known:
    imported_by: tuple[tuple[str, int], ...] = ()
    tests: tuple[str, ...] = ()


def hit(path: str, kind: FileKind = FileKind.CODE) -> Hit:
    return Hit("/r", path, 1, 9, "", 1, 1.0, 1, kind=kind, symbol_kind="function")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/app/user.service.ts", ("service", "application")),
        ("src/components/Button.tsx", ("component", "presentation")),
        ("shop/OrderRepository.java", ("repository", "data")),
        ("app/models/order.rb", ("model", "domain")),
        ("api/routes/orders.py", ("route", "api")),
        ("src/services/order_controller.py", ("controller", "api")),  # its own name says more than the folder
        ("src/order.py", ("", "")),
        ("latest/contest.py", ("", "")),
    ],
)
def test_a_path_tells_type_and_layer(path: str, expected: tuple[str, str]) -> None:
    assert path_role(path) == expected


def test_what_nothing_tells_is_its_kind_of_definition() -> None:
    assert role(hit("src/order.py")) == ("function", "")
    assert role(hit("x/test_a.py", FileKind.TEST)) == ("test", "tests")


def test_callers_consumers_and_tests_stop_at_three() -> None:
    relations = {
        "a.py": Known((*((f"caller{n}.py", n) for n in range(5)), ("test_a.py", 1)), ("test_a.py",)),
        "caller0.py": Known((("one.py", 7), ("both.py", 8))),
        "caller1.py": Known((("both.py", 9), ("caller2.py", 1), ("a.py", 1), ("test_b.py", 2))),
    }
    found = context(hit("a.py"), relations, {"a.py": ("Declining", "old")}, frozenset({"test_a.py", "test_b.py"}))
    assert found.imported_by_count == 6
    assert found.has_tests
    assert found.callers == ("caller0.py:0", "caller1.py:1", "caller2.py:2")
    assert found.consumers == ("both.py:8", "one.py:7")  # what uses two callers comes first
    assert found.tests == ("test_a.py",)
    assert (found.trend, found.pattern_warning) == ("Declining", "old")


def test_results_of_the_team_carry_context(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    request = SearchRequest("save order store", paths=(str(root),), context=True)
    with engine_of(root) as engine:
        engine.knowledge.patterns(PatternsRequest(str(root)))
        hits = {item.path: item.context for item in engine.search(request).hits}
    store, orders = hits["shop/store.py"], hits["shop/orders.py"]
    assert store is not None
    assert store.imported_by_count == 3  # shipping.py, reports.py and its test
    assert store.has_tests
    assert store.tests == ("tests/test_store.py",)
    assert {caller.partition(":")[0] for caller in store.callers} == {"shop/shipping.py", "shop/reports.py"}
    assert store.trend == "Rising"
    assert orders is not None
    assert not orders.has_tests
    assert orders.trend == "Declining"
    assert "declining" in orders.pattern_warning


def test_enrichment_is_cheap(tmp_path: Path) -> None:
    """Under 10 ms a search once it is warm; the limit here leaves room for a busy machine."""
    root = build_team(tmp_path / "team")
    request = SearchRequest("order", paths=(str(root),), context=True, refresh=False)
    with engine_of(root) as engine:
        result = engine.search(request)
        times = []
        for _ in range(20):
            started = time.perf_counter()
            engine.knowledge.around(request, result)
            times.append(time.perf_counter() - started)
    assert min(times) < 0.010
