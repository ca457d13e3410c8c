"""The context of results: what they are, who uses them, and what is said about how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from patience import is_quick
from team_tools import build_team, engine_of

from codeinfo.engine.project_knowledge import TRENDS_UNKNOWN
from codeinfo.graph.model import Edge, Graph, Links
from codeinfo.graph.references import near_callers
from codeinfo.knowledge.card import add_context, file_context, path_role, role
from codeinfo.knowledge.patterns import FileHints
from codeinfo.languages.model import FileFacts
from codeinfo.model import FileKind, Hit
from codeinfo.operations.code import RefsRequest
from codeinfo.operations.knowledge import PatternsRequest
from codeinfo.operations.search import SearchRequest


def graph_of(edges: Sequence[Edge]) -> Graph:
    paths = dict.fromkeys(path for edge in edges for path in (edge.target, edge.source))
    kinds = {path: "tests" if path.startswith("test_") else "code" for path in paths}
    files = {path: FileFacts(number, path, "python", kinds[path]) for number, path in enumerate(paths)}
    return Graph(1, files, {path: Links(tuple(edge for edge in edges if edge.source == path)) for path in paths})


def hit(path: str, kind: FileKind = FileKind.CODE) -> Hit:
    return Hit("/r", path, 1, 9, "", 1, 1.0, 1, kind=kind, symbol_kind="function")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/app/user.service.ts", ("service", "application")),
        ("src/components/Button.tsx", ("component", "presentation")),
        ("shop/OrderRepository.java", ("repository", "data")),
        ("app/models/order.rb", ("model", "domain")),
        ("shop/forms/model_forms.py", ("form", "presentation")),
        ("api/routes/orders.py", ("route", "api")),
        ("src/services/order_controller.py", ("controller", "api")),  # its own name says more than the folder
        ("src/order.py", ("", "")),
        ("latest/contest.py", ("", "")),
        ("shop/settings.py", ("configuration", "configuration")),
        ("config/initializers/mail.rb", ("configuration", "configuration")),
        ("UserSettings/Profile.cs", ("", "")),  # a user's, not the program's
        ("src/pages/settings/profile.vue", ("view", "presentation")),
        ("search/SearchViewModel.kt", ("view model", "presentation")),
        ("search/SearchUiState.kt", ("view model", "presentation")),
        ("domain/GetQueriesUseCase.kt", ("service", "application")),
        ("lib/shop/cart.ex", ("", "")),  # all of it is there
        ("src/lib/dates.ts", ("", "")),  # anything lies there
        ("services/repository/branch.go", ("service", "application")),  # about repositories
        ("modules/setting/repository.go", ("", "")),
        ("lib/cli/email_domain_blocks.rb", ("command", "api")),
        ("src/components/CommandPalette.tsx", ("component", "presentation")),
        ("app/models/fasp/provider.rb", ("model", "domain")),
        ("src/components/CommandBar/useSearchIndex.ts", ("", "")),  # no markup, so no component
        ("server/commands/pinCreator.ts", ("command", "")),
        ("blog/views.py", ("view", "presentation")),
        ("priv/repo/migrations/20200204093801_add_domain.exs", ("migration", "data")),
        ("wiki/models/pages.py", ("model", "domain")),  # a page of a wiki, which a model describes
        ("wiki/actions/move_page.py", ("", "")),
        ("src/pages/Cart.page.tsx", ("view", "presentation")),
        ("runtime/hooks/callbacks.go", ("", "")),
        ("src/hooks/useCart.ts", ("hook", "presentation")),
        ("internal/state_store.go", ("", "")),
        ("internal/transform_config_resource.go", ("", "")),
        ("stacks/local_value_config.go", ("", "")),
        ("app/models/terms_of_service.rb", ("model", "domain")),
        ("lang/uk/components.php", ("", "")),
        ("app/Entities/EntityProvider.php", ("", "")),
        ("app/Models/PurchaseOrder.php", ("model", "domain")),
        ("client/src/controllers/SwapController.ts", ("controller", "presentation")),
        ("dashboard/src/routes/orders/order-detail.tsx", ("route", "presentation")),
        ("app/routes/settings.branding.tsx", ("route", "presentation")),  # with markup
        ("ui/src/settings/backups/restoreModal.js", ("", "")),  # shows settings
        ("core/data/model/NewsResource.kt", ("", "")),  # a resource of anything
        ("lib/template/get-recipients-for-template.ts", ("", "")),  # of a document
        ("plugins/toast.client.ts", ("", "")),  # runs in browsers
        ("lib/api/base-client.ts", ("adapter", "infrastructure")),
    ],
)
def test_a_path_tells_type_and_layer(path: str, expected: tuple[str, str]) -> None:
    assert path_role(path) == expected


def test_what_nothing_tells_is_its_kind_of_definition() -> None:
    assert role(hit("src/order.py")) == ("function", "")
    assert role(hit("x/test_a.py", FileKind.TEST)) == ("test", "tests")
    assert role(replace(hit("components/toast.scss"), language="scss")) == ("style sheet", "presentation")


def test_callers_consumers_and_tests_stop_at_three() -> None:
    edges = [Edge(f"caller{n}.py", "a.py", n) for n in range(5)] + [Edge("test_a.py", "a.py", 1)]
    edges += [Edge("one.py", "caller0.py", 7), Edge("both.py", "caller0.py", 8), Edge("both.py", "caller1.py", 9)]
    edges += [Edge(user, "caller1.py", 1) for user in ("caller2.py", "a.py", "test_b.py")]
    calls = [f"caller{n}.py:{n} run" for n in range(5)]
    graph, one = graph_of(edges), hit("a.py")
    files = {"a.py": file_context(graph, "a.py", graph.tests_of("a.py"))}
    hints = {"a.py": FileHints([], [(one.start_line, "old")])}
    found = add_context([one], files, hints, {("a.py", one.symbol): calls}, {})[0].context
    assert found is not None
    assert found.imported_by_count == 6
    assert found.has_tests
    assert found.callers == ("caller0.py:0 run", "caller1.py:1 run", "caller2.py:2 run")
    (without,) = add_context([one], files, {}, {}, {})
    assert without.context is not None
    assert without.context.callers == ()  # to import is not to call
    assert found.consumers == ("caller1.py:1", "caller0.py:0", "caller2.py:2")  # important ones first, no tests
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
    assert store.callers == ("shop/shipping.py:11 ship",)  # of `Store.save`, which answers; reports.py only opens it
    assert store.trend == "Rising"
    assert orders is not None
    assert not orders.has_tests
    assert (orders.trend, orders.pattern_warning) == ("", "")  # old, but nothing takes its place


def test_those_that_call_most_come_first(tmp_path: Path) -> None:
    sources = {
        "core.py": "def run_job(x):\n    return x\n\n\ndef local():\n    return run_job(0)\n",
        "few.py": "from core import run_job\n\n\ndef once():\n    run_job(1)\n",
        "many.py": "import core\n\n\ndef often():\n    core.run_job(1)\n    core.run_job(2)\n    core.run_job(3)\n",
        "other.py": "import core\n\n\ndef unrelated(run_job):\n    return run_job(1)\n",
        "test_core.py": "from core import run_job\n\n\ndef test_it():\n    assert run_job(1)\n",
        "lonely.py": "def run_alone(x):\n    return x\n",
    }
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with engine_of(tmp_path) as engine:
        found = engine.search(SearchRequest("run_job", paths=(str(tmp_path),), context=True))
        with engine.code._open(RefsRequest("run_job", str(tmp_path)), None) as (index, _):
            asked = [("core.py", "run_job"), ("core.py", "gone"), ("lonely.py", "run_alone")]
            calls = {one: [*map(str, near_callers(index, *one))] for one in asked}
    assert calls == {
        ("core.py", "run_job"): ["many.py:5 often", "core.py:6 local", "few.py:5 once"],
        ("core.py", "gone"): [],
        ("lonely.py", "run_alone"): [],
    }
    core = next(item.context for item in found.hits if item.path == "core.py")
    assert core is not None
    assert core.callers == tuple(calls["core.py", "run_job"])


def test_callers_of_a_result_do_not_depend_on_what_was_read_before(tmp_path: Path) -> None:
    (tmp_path / "core.py").write_text("def run_job(x):\n    return x\n")
    for number in range(4):
        (tmp_path / f"user{number}.py").write_text(f"from core import run_job\n\n\ndef f{number}():\n    run_job(1)\n")
    with engine_of(tmp_path) as engine:
        found = engine.search(SearchRequest("run_job", paths=(str(tmp_path),), context=True))
        with engine.code._open(RefsRequest("run_job", str(tmp_path)), None) as (index, _):
            assert len(near_callers(index, "core.py", "run_job")) == 4
    core = next(hit.context for hit in found.hits if hit.path == "core.py")
    assert core is not None
    assert len(core.callers) == 3  # of which the first three are shown


def test_nothing_found_in_all_projects_says_nothing_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build_team(tmp_path / "team")
    with engine_of(root) as engine:
        engine.search(SearchRequest("save order", paths=(str(root),)))
        monkeypatch.chdir("/")  # no project, and none may begin there
        nowhere = SearchRequest("save order", globs=("nowhere/**",), all_projects=True, context=True, purpose="edit")
        found = engine.search(nowhere)
    assert (found.hits, found.preflight) == ((), None)


def test_a_search_says_how_to_get_trends(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    request = SearchRequest("save order store", paths=(str(root),), context=True)
    with engine_of(root) as engine:
        assert TRENDS_UNKNOWN in engine.search(request).notes
        engine.knowledge.patterns(PatternsRequest(str(root)))
        assert TRENDS_UNKNOWN not in engine.search(request).notes
    with engine_of(root) as engine:  # another process finds what was kept
        assert TRENDS_UNKNOWN not in engine.search(request).notes


def test_enrichment_is_cheap(tmp_path: Path) -> None:
    """Some milliseconds a search once it is warm; the limit leaves room for a slow machine."""
    root = build_team(tmp_path / "team")
    request = SearchRequest("order", paths=(str(root),), context=True, refresh=False)
    with engine_of(root) as engine:
        result = engine.search(request)
        assert is_quick(lambda: [engine.knowledge.enrich(request, result) for _ in range(20)], 0.5)
