"""The card before a change: each point and each doubt by itself, then on the team's repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from team_tools import NOW, build_team, engine_of

from codeinfo.knowledge.card import (
    LONGEST_EXAMPLE,
    RELEVANT,
    Evidence,
    best_example,
    companions,
    decide,
    deprecation,
    relevance,
)
from codeinfo.knowledge.patterns import can_be_example, in_area
from codeinfo.model import Distance, FileKind, Hit, HitContext, Quality, RelatedMemory
from codeinfo.operations.knowledge import PatternConflict, PatternReport, PatternUse
from codeinfo.operations.search import SearchRequest

QUESTION = "how messages are written"


def hit(
    path: str, text: str = "save an order", kind: FileKind = FileKind.CODE, symbol: str = "", far: float | None = None
) -> Hit:
    distance = None if far is None else Distance(far)
    return Hit("/r", path, 1, 9, text, 1, 1.0, 1, language="python", kind=kind, symbol=symbol, distance=distance)


def pattern(name: str, adoption: int, guidance: str, language: str = "python") -> PatternUse:
    counted = PatternUse(name, "logging", QUESTION, language, adoption, 5, 9, "Rising", "2025-12-02", guidance)
    return replace(counted, of_files=6, examples=("a.py:7",))


def memory(confidence: float, kind: str = "decision") -> RelatedMemory:
    return RelatedMemory("abc", kind, "testing", "Beware", "", "2025-01-01", "by Ann", confidence, confidence < 0.3)


GOOD = Evidence(
    query="save an order",
    purpose="edit",
    hits=[hit("a.py", symbol="Store.save"), hit("b.py"), hit("c.py")],
    quality=Quality("ok", 0.9),
    patterns=PatternReport((pattern("logging module", 90, "use"), pattern("print", 30, "")), (), ()),
    memories=[memory(1.0)],
    targets=[hit("a.py", symbol="Store.save"), hit("b.py"), hit("c.py")],
    near={("python", QUESTION, "logging module")},
    callers={("a.py", "Store.save"): [("b.py", 3), ("x.py", 4), ("y.py", 5)]},
)
CONFLICT = PatternConflict("logging", QUESTION, "python", ("logging module", "print"), (60, 40))


@pytest.mark.parametrize(
    ("change", "score"),
    [
        ({}, 100.0),  # 45 + 30 + 25
        ({"memories": []}, 75.0),  # 45 + 30
        ({"memories": [memory(0.5)]}, 87.5),  # 45 + 30 + 25 × 0.5
        ({"patterns": PatternReport((), (), ())}, 70.0),  # 45 + 25
        ({"near": {("python", QUESTION, "print")}}, 85.0),  # none of those used there is preferred: 45 + 15 + 25
        ({"patterns": PatternReport((pattern("slog", 90, "use", "go"),), (), ())}, 70.0),  # of another language
        ({"memories": [], "near": set()}, 45.0),
    ],
)
def test_points_and_ready(change: dict[str, Any], score: float) -> None:
    card = decide(replace(GOOD, **change))
    assert card.score == score
    assert sum(point.points for point in card.breakdown) == score
    assert card.ready
    assert (card.next_action, card.what_would_help) == ("", ())


@pytest.mark.parametrize(
    ("change", "doubt", "help"),
    [
        ({"query": "rotate the kubernetes certificates"}, "low relevance", "name a function or file"),
        ({"query": "improve the code quality"}, "vague task", "name a function or file"),
        ({"query": "save every order across the whole app"}, "wide scope", "codeinfo map"),
        ({"query": "rewrite all code that saves an order"}, "wide scope", "codeinfo map"),
        ({"quality": Quality("low_confidence", 0.2)}, "low search quality", "codeinfo refs Store.save"),
        ({"changed_since_index": 2}, "stale index", "codeinfo index"),
        ({"hits": GOOD.hits[:1]}, "thin evidence", "codeinfo refs Store.save"),
        ({"purpose": "refactor"}, "low caller coverage", "read x.py:4"),  # b.py is a result, x.py and y.py are not
        ({"query": "rename save of an order"}, "low caller coverage", "read x.py:4"),
        (
            {"query": "print when an order is saved", "patterns": replace(GOOD.patterns, conflicts=(CONFLICT,))},
            "pattern conflict",
            "codeinfo patterns --category logging",
        ),
        ({"memories": [memory(0.2)]}, "stale memory", "codeinfo memory show abc"),
        ({"hits": [], "memories": []}, "too few points", "codeinfo map"),
    ],
)
def test_each_doubt_withdraws_the_readiness(change: dict[str, Any], doubt: str, help: str) -> None:
    card = decide(replace(GOOD, **change))
    assert not card.ready
    assert doubt in [point.name for point in card.breakdown if point.most == 0]
    assert card.next_action
    assert any(help in step for step in card.what_would_help)
    assert len(card.what_would_help) <= 4


@pytest.mark.parametrize(
    "change",
    [
        {"patterns": replace(GOOD.patterns, conflicts=(CONFLICT,))},  # the task is not about messages
        {"query": "save all of an order"},  # "all" of something small
    ],
)
def test_what_does_not_concern_the_change_is_no_doubt(change: dict[str, Any]) -> None:
    assert decide(replace(GOOD, **change)).ready


def test_results_that_only_exist_are_not_evidence() -> None:
    about_else = [hit(f"{name}.py", "parse the header of a mail", far=1.5) for name in "abcde"]
    card = decide(replace(GOOD, hits=about_else, has_vectors=True, memories=[]))
    assert not card.ready
    assert card.best_example == ""
    assert "nothing about save, order" in card.next_action


def test_relevance_is_of_meaning_words_and_names() -> None:
    plain = [hit("a.py", "x")]
    near, far = [hit("a.py", "x", far=0.8)], [hit("a.py", "x", far=1.6)]  # cosines of .6 and .2
    task = "fix the order of saved mails"
    by_meaning = [relevance(task, hits, has_vectors=True)[0] for hits in (near, far)]
    # 6.8 × .6 - 5.5 = -1.42, and 6.8 × .2 - 5.5 = -4.14
    assert by_meaning == [pytest.approx(0.195, abs=0.001), pytest.approx(0.016, abs=0.001)]
    named = [hit("orders/saved_mail.py", "x", far=0.8)]  # all of order, save, mail: + 3.4 + 2.6
    assert relevance(task, named, has_vectors=True)[0] == pytest.approx(0.99, abs=0.001)
    assert relevance(task, plain, has_vectors=False)[0] < RELEVANT < relevance(task, named, has_vectors=False)[0]
    assert relevance("Store.save", [hit("a.py", "x", symbol="Store.save")], has_vectors=True)[0] == 1.0


def test_what_goes_along() -> None:
    memories = [memory(1.0), *(memory(0.9, "failure") for _ in range(5))]
    card = decide(replace(GOOD, memories=memories))
    assert card.warnings == ("Beware (by Ann)",) * 3
    assert card.patterns is not None
    assert card.patterns.do == (f"logging module ({QUESTION}): 5 of 6 files, newest 2025-12-02, a.py:7",)
    assert card.impact is not None
    assert card.impact.coverage == "1/3 callers in results"
    assert str(card.impact) == "the first results are called in 3 files, 1 of them among the results"
    assert card.impact.files == ("x.py:4", "y.py:5", "b.py:3")


@pytest.mark.parametrize(
    ("query", "coverage"),
    [
        ("rename Store.save_order", "0/1"),
        ("rename save_order", "1/3"),
        ("save an order", "1/3"),
        ("remove drop_order", None),
    ],
)
def test_callers_are_those_of_the_definitions_that_a_task_names(query: str, coverage: str | None) -> None:
    hits = [
        hit("a.py", symbol="Store.save_order"),
        hit("b.py", symbol="Cart.save_order"),
        hit("c.py", symbol="drop_order"),
    ]
    callers = {("a.py", "Store.save_order"): [("x.py", 4)], ("b.py", "Cart.save_order"): [("c.py", 1), ("y.py", 5)]}
    impact = decide(replace(GOOD, query=query, hits=hits, targets=hits, callers=callers)).impact
    assert (impact and impact.coverage.partition(" ")[0]) == coverage


def test_what_the_files_to_be_changed_do_is_what_to_do() -> None:
    other = replace(pattern("httpx", 100, "use"), question="how HTTP is called")
    evidence = replace(GOOD, patterns=PatternReport((*GOOD.patterns.patterns, other), (), ()))
    advice = decide(evidence).patterns
    assert advice is not None
    assert [line.partition(" (")[0] for line in advice.do] == ["logging module"]
    assert decide(replace(evidence, near=())).patterns is None  # nothing, rather than what others do elsewhere
    assert decide(replace(evidence, query="rotate the certificates")).patterns is None  # nor for a wrong place


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        (
            [{"a.py": "M", "b.py": "M"}] * 3 + [{"a.py": "M"}] * 2,
            "of 5 commits that changed a.py, 3 also changed b.py",
        ),
        (
            [{"a.py": "M", "b.py": "M", "m/1.py": "M"}] * 3,
            "of 3 commits that changed a.py, 3 also changed b.py, 3 m/1.py",
        ),
        ([{"a.py": "M", "gone.py": "M"}] * 5, ""),
        ([{"a.py": "M", "b.py": "M"}] * 2, ""),  # few
        ([{"a.py": "M", "b.py": "M"}] * 3 + [{"a.py": "M"}] * 9, ""),  # a small part
        ([{"a.py": "M", **{f"{n}.py": "M" for n in range(50)}, "b.py": "M"}] * 5, ""),  # sweeping ones
        (
            [{"a.py": "M", f"m/{n}.py": "A"} for n in range(4)],
            "of 4 commits that changed a.py, 4 added a file like m/1.py",
        ),
        (
            [{"a.py": "M", f"m/20250101{n}_add/up.sql": "A"} for n in range(4)],
            "of 4 commits that changed a.py, 4 added a file like m/202501012_add/up.sql",
        ),
        ([{"a.py": "M", f"m/{n}.py": "A", f"old/{n}.py": "D"} for n in range(4)], ""),  # moved
        ([{"a.py": "M", f"{n}.py": "A"} for n in range(4)], ""),  # more of its own kind
        (
            [{"a.py": "M", "x.lock": "M", "y.lock": "M", "z.lock": "M", "b.py": "M"}] * 3,
            "of 3 commits that changed a.py, 3 also changed b.py",
        ),
    ],
)
def test_what_changes_together_with_a_file(commits: list[dict[str, str]], expected: str) -> None:
    assert (
        companions("a.py", commits, {"b.py", "1.py", "m/1.py", "m/2.py", "m/202501012_add/up.sql"}.__contains__)
        == expected
    )


def test_advice_is_shown_near_the_file_to_be_changed(tmp_path: Path) -> None:
    text = "import logging\n\nlogger = logging.getLogger(__name__)\n\n\n" + "\n\n".join(
        f"def {{0}}_{number}(order):\n    logger.info('saved')\n    return f'{{{{order}}}}'\n" for number in range(6)
    )
    for name in ("a/pay", "a/ship", "b/refund", "b/cancel", "z/tax"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text.format(name[2:]))
    (tmp_path / "z" / "old.py").write_text("def tell(order):\n    print(order)\n")
    with engine_of(tmp_path) as engine:
        request = SearchRequest("refund_3", paths=(str(tmp_path),), purpose="edit", limit=1)
        card = engine.search(request).preflight
    assert card is not None
    assert card.patterns is not None
    (line,) = card.patterns.do
    assert line.startswith("logging module (how messages are written): 5 of 6 files")
    assert line.endswith("b/cancel.py:7")


def test_a_card_reads_only_the_product_of_the_package_of_the_first_result(tmp_path: Path) -> None:
    text = "import logging\n\nlogger = logging.getLogger(__name__)\n\n\ndef {0}(order):\n    logger.info('saved')\n"
    for package in ("shop", "till"):
        for name in ("one", "two", "three"):
            (tmp_path / package).mkdir(exist_ok=True)
            (tmp_path / package / f"{name}.py").write_text(text.format(f"{package}_{name}"))
        (tmp_path / package / "test_one.py").write_text("def test_one():\n    assert one(1)\n")
        (tmp_path / package / "pyproject.toml").write_text(f'[project]\nname = "{package}"\n')
    request = SearchRequest("till_two", paths=(str(tmp_path),), purpose="edit")
    with engine_of(tmp_path) as engine:
        engine.search(request)
        patterns = engine.knowledge._project(tmp_path).patterns
        files = {path for one in patterns._latest.values() for path in one.files}
        assert files == {f"till/{name}.py" for name in ("one", "two", "three")}
        store = engine.knowledge._project(tmp_path).index.live_store()
        assert store is not None
        around, _ = patterns.around(store, float(NOW), "till/two.py", "python")
        whole = patterns.report(store, float(NOW))
        assert around.patterns == in_area(whole, "till/two.py", "python").patterns != ()


FILES = [
    *(f"libs/album/store/{name}.ts" for name in ("albums.reducer", "albums.effect", "genres.reducer", "index")),
    *(f"libs/player/store/{name}.ts" for name in ("player.reducer", "player.effect")),
    *(f"apps/web/{name}.ts" for name in ("main", "shell.component", "routes", "environment")),
    *(f"libs/shared/{name}.ts" for name in ("a", "b", "c", "d", "e", "f", "g")),
    *(f"src/{name}.cs" for name in ("TaskManager", "ITaskManager", "CartManager", "MockManager")),
    *(f"app/{name}.py" for name in ("views/user_topics", "lib/user_topics", "lib/tcp_helpers", "lib/cookie_helpers")),
    *(f"app/lib/{name}_client.py" for name in ("till", "order", "deep/inside/cart")),
]


@pytest.mark.parametrize(
    ("results", "example"),
    [
        ([FILES[0], "libs/album/store/genres.reducer.ts"], "libs/album/store/genres.reducer.ts"),  # beside it
        ([FILES[0], "libs/player/store/player.reducer.ts"], "libs/player/store/player.reducer.ts"),  # a parallel folder
        ([FILES[0], "libs/player/store/player.effect.ts"], ""),
        ([FILES[0]], ""),  # what is no result is about something else
        (["libs/shared/a.ts", "libs/shared/c.ts"], ""),  # no kind: that it is a result too makes it no example
        (["app/views/user_topics.py", "app/lib/user_topics.py"], ""),  # the counterpart in another layer
        (["app/lib/tcp_helpers.py", "app/lib/cookie_helpers.py"], ""),  # what helps has no form of its own
        (["app/lib/till_client.py", "app/lib/deep/inside/cart_client.py"], ""),  # far away
        (
            ["src/TaskManager.cs", "src/ITaskManager.cs", "src/MockManager.cs", "src/CartManager.cs"],
            "src/CartManager.cs",
        ),
        ([FILES[0], "libs/player/store/huge.reducer.ts"], ""),  # not offered: too long
        ([], ""),
    ],
)
def test_the_example_is_a_sibling_of_the_same_kind(results: list[str], example: str) -> None:
    files = {**dict.fromkeys(FILES, 900), "libs/player/store/huge.reducer.ts": LONGEST_EXAMPLE + 1}
    hits = [hit(path) for path in results]
    assert best_example(hits, files) == example
    old = HitContext(pattern_warning="deprecated: use another")
    assert best_example([*hits[:1], *(replace(one, context=old) for one in hits[1:])], files) == ""


def test_examples_that_call_a_result_come_after_the_code_that_ships() -> None:
    callers = {("a.py", "save"): [("examples/x.py", 1), ("lib/y.py", 2)]}
    hits = [hit("a.py", "def save order", symbol="save"), hit("b.py", "def save order")]
    files = {"a.py": 9, "b.py": 9, "lib/y.py": LONGEST_EXAMPLE + 1}
    card = decide(replace(GOOD, hits=hits, targets=hits, callers=callers, files=files))
    assert card.impact is not None
    assert card.impact.files == ("lib/y.py:2", "examples/x.py:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '/**\n * Saves.\n * @deprecated use {@link #write}\n */\n@Deprecated(since = "2.0")\nvoid save() {}',
            "use write",
        ),
        ('@Deprecated(\n    "Use write instead",\n    ReplaceWith("write")\n)\nfun save() {}', "Use write instead"),
        ("/** @deprecated */\nexport function save() {}", ""),
        ('[Obsolete("Use Write instead")]\npublic void Save() {}', "Use Write instead"),
        ("[HttpGet, Obsolete]\npublic void Save() {}", ""),
        ('#[deprecated(since = "1.2", note = "use write now")]\npub fn save() {}', "use write now"),
        ("// Save saves.\n//\n// Deprecated: Use Write.\nfunc Save() {}", "Use Write."),
        ("@typing_extensions.deprecated('Use write instead')\ndef save():\n    pass", "Use write instead"),
        ('def save():\n    """Save.\n\n    .. deprecated:: 2.0\n       Use write.\n    """', "Use write."),
        ("def save():\n    warnings.warn(\n        'use write now', DeprecationWarning\n    )", "use write now"),
        ('@deprecated "Use write/1"\ndef save(x), do: x', "Use write/1"),
        ("#[\\Deprecated(message: 'use write now')]\nfunction save() {}", "use write now"),
        ('[[deprecated("use write now")]] void save();', "use write now"),
        ("def save(a=None):\n    if a:\n        warnings.warn('old', DeprecationWarning)", None),  # only with it
        ("def save(a=None):\n    warnings.warn('the argument a is old', DeprecationWarning)", None),
        ("@Deprecated\nint old() { return 1; }\nvoid save() {}", None),  # what stands before it
        ("// A deprecated file can be saved.\nfunc Save() {}", None),
        ("const flags = {\n  deprecated: true,\n};\nfunction save() {}", None),
    ],
)
def test_what_marks_a_definition_as_deprecated(text: str, said: str | None) -> None:
    lines = dict(enumerate(text.split("\n"), 1))
    start = next(
        number for number, line in lines.items() if re.search(r"(?:void|fun|func|function|fn|def) save", line, re.I)
    )
    assert deprecation(lines, start, len(lines)) == ("" if said is None else f"deprecated: {said}".rstrip(": "))


# --- on the team's repository --------------------------------------------------------------------------------------


def test_the_teams_card(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    request = SearchRequest("Store save order", paths=(str(root),), purpose="edit")
    with engine_of(root) as engine:
        before = engine.search(request)
        card = before.preflight
        assert card is not None
        assert [memory.memory for memory in before.memories] == ["Refactored: shop: keep orders in a store"]
        assert (card.ready, card.score) == (True, 93.4)
        assert card.impact is not None
        assert card.impact.coverage == "1/1 callers in results"  # of `Store.save`
        unknown = engine.search(replace(request, query="rotate the certificates of the kubernetes operator")).preflight
        assert unknown is not None
        assert not unknown.ready
        (root / "shop" / "new.py").write_text("x = 1\n")
        unseen = engine.search(replace(request, refresh=False)).preflight
        assert unseen is not None
        assert "stale index" in [point.name for point in unseen.breakdown]


def test_a_team_that_is_divided_is_a_doubt_where_the_task_is_about_it(tmp_path: Path) -> None:
    old = "import os\n\n\ndef load{0}(folder):\n    return open(os.path.join(folder, 'orders')).read()\n"
    new = "from pathlib import Path\n\n\ndef save{0}(folder):\n    return Path(folder, 'orders').write_text('')\n"
    for number in range(4):
        (tmp_path / f"load{number}.py").write_text(old.format(number))
        (tmp_path / f"save{number}.py").write_text(new.format(number))
    with engine_of(tmp_path) as engine:
        request = SearchRequest("read the orders folder by pathlib", paths=(str(tmp_path),), purpose="edit")
        divided = engine.search(request).preflight
        other = engine.search(replace(request, query="load3 orders folder")).preflight
    assert divided is not None
    assert other is not None
    assert "pattern conflict" in [point.name for point in divided.breakdown]
    assert any("codeinfo patterns --category 'component style'" in step for step in divided.what_would_help)
    assert "pattern conflict" not in [point.name for point in other.breakdown]


@pytest.mark.parametrize(
    "query", ["rename to_html in Markdowner", "rename Markdowner.to_html", "remove parse of Markdowner"]
)
def test_callers_of_what_a_task_names_count_whichever_part_of_its_file_is_shown(tmp_path: Path, query: str) -> None:
    (tmp_path / "markdowner.rb").write_text(
        "class Markdowner\n  # Markdowner to html\n  def self.to_html(text)\n    text\n  end\n\n"
        "  def self.parse(text)\n    text\n  end\nend\n"
    )
    for name in ("comment", "story"):
        calls = f"class {name.title()}\n  def show\n    Markdowner.to_html(Markdowner.parse(text))\n  end\nend\n"
        (tmp_path / f"{name}.rb").write_text(calls)
    with engine_of(tmp_path) as engine:
        card = engine.search(SearchRequest(query, paths=(str(tmp_path),), purpose="refactor")).preflight
    assert card is not None
    assert card.impact is not None
    assert card.impact.coverage == "2/2 callers in results"


def test_the_place_of_a_change_is_the_file_of_what_the_task_names() -> None:
    hits = [hit("stock.py", symbol="count"), hit("view.py", symbol="show_stock")]
    evidence = replace(GOOD, query="make show_stock faster", hits=hits, targets=hits)
    assert (evidence.place, replace(evidence, query="make it faster").place) == ("view.py", "stock.py")


def test_the_card_is_the_same_without_snippets(tmp_path: Path) -> None:
    for name in ("store", "queue"):
        (tmp_path / f"{name}.py").write_text(f"def {name}_1(job):\n    return job.retry(connection, status=400)\n")
    request = SearchRequest("retry jobs with status 400 on a new connection", paths=(str(tmp_path),), purpose="edit")
    with engine_of(tmp_path) as engine:
        shown, hidden = engine.search(request), engine.search(replace(request, snippets=False))
    assert hidden.preflight == shown.preflight
    assert {hit.text for hit in hidden.hits} == {""}


def test_a_deprecated_result_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "store.go").write_text(
        "package store\n\n// Old keeps orders.\n//\n// Deprecated: use New.\ntype Old struct{}\n\n"
        "func (o *Old) SaveOrder() int { return 1 }\n\nfunc saveOrderAgain() int { return 2 }\n"
    )
    (tmp_path / "Store.java").write_text(
        "class Store {\n    /** @deprecated use write */\n    @Deprecated\n"
        "    int saveOrder() {\n        return 1;\n    }\n}\n"
    )
    body = "        if (kept.contains(order)) {\n            kept.remove(order);\n        }\n" * 12
    (tmp_path / "Shop.java").write_text(
        "/** A shop makes and drops orders faster. */\nclass Shop {\n"
        "    int makeOrderFaster() {\n        return 1;\n    }\n\n"
        f"    @Deprecated\n    void dropOrder(int order) {{\n{body}    }}\n}}\n"
    )
    with engine_of(tmp_path) as engine:
        request = SearchRequest("saveOrder", paths=(str(tmp_path),), purpose="edit")
        found, named = engine.search(request), engine.search(replace(request, query="make dropOrder of Shop faster"))
    assert found.preflight is not None
    assert named.preflight is not None
    assert "Shop.java Shop.dropOrder is deprecated" in named.preflight.warnings  # whichever part of it is shown
    assert "Store.java Store.saveOrder is deprecated: use write" in found.preflight.warnings
    assert not any("saveOrderAgain" in warning for warning in found.preflight.warnings)


def test_without_a_purpose_there_is_no_card(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def parse(): pass\n")
    with engine_of(tmp_path) as engine:
        assert engine.search(SearchRequest("parse", paths=(str(tmp_path),))).preflight is None


def test_what_has_little_to_do_with_the_task_is_no_next_step() -> None:
    """Neither its uses nor its callers help: they are about something else."""
    card = decide(replace(GOOD, query="bake bread in the oven", memories=[]))
    assert (card.ready, card.impact) == (False, None)
    assert not any("Store.save" in step for step in card.what_would_help)


def test_a_package_called_after_samples_has_examples() -> None:
    assert can_be_example("core/src/main/kotlin/com/acme/samples/shop/CartRepository.kt")
    assert not can_be_example("samples/shop/CartRepository.kt")
