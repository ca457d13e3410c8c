"""The packet for a review, from the two sides of a change."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import RunCli
from msgspec.structs import replace
from team_tools import build_team, engine_of

from codeinfo.errors import NotFound, UsageError
from codeinfo.index import pool
from codeinfo.knowledge.change import (
    WIDELY_USED,
    Revision,
    Version,
    compare,
    find_api_changes,
    find_changed_symbols,
    find_untested,
    find_unusual_patterns,
    rank_reviewers,
)
from codeinfo.knowledge.detectors import built_in_detectors
from codeinfo.knowledge.history import BlameLine, LastChange, dates_after_edit, last_changes, read_blame
from codeinfo.model import Definition, FileKind, Import
from codeinfo.operations.code import ImpactRequest, MapRequest
from codeinfo.operations.knowledge import PatternsRequest, PatternUse, RememberRequest, ReviewRequest
from codeinfo.operations.search import SearchRequest


def test_a_difference_knows_both_sides() -> None:
    found = compare("a.py", "one\ntwo\nthree\n", "one\n2\nthree\nfour\n")
    assert found.state == "changed"
    assert (set(found.added), set(found.removed)) == ({2, 4}, {2})
    assert compare("a.py", None, "x\n").state == "added"
    gone = compare("a.py", "x\ny\n", None)
    assert gone.state == "removed"
    assert (set(gone.removed), set(gone.added)) == ({1, 2}, set())
    assert compare("a.py", "one\ntwo\n", "one\n").dropped == {2}
    old = [f"{number}" for number in range(100)]
    added = compare("c.py", "\n".join(old), "\n".join([*old[:75], "new", "newer", *old[75:]]))
    assert (set(added.near), set(added.removed)) == (set(range(66, 86)), set())


def test_a_long_file_changed_only_where_it_differs() -> None:
    """Files of tests have 26,000 lines, most of which are in the file often."""
    old = [text for number in range(9_000) for text in (f"def test_{number}():", "    run()", "}")]
    new = [*old[:600], "added", *old[600:26_000], "other", *old[26_001:]]
    found = compare("test_all.py", "\n".join(old), "\n".join(new))
    assert (set(found.added), set(found.removed)) == ({601, 26_002}, {26_001})


def test_the_innermost_definition_changed() -> None:
    outer = Definition("A", "A", "class", "", "", 1, 9)
    inner = Definition("b", "A.b", "method", "", "", 2, 4)
    sides = "class A:\n  def b():\n    1\n    2\n  x = 1\n", "class A:\n  def b():\n    1\n    3\n  x = 1\n"
    before, after = (Version(side, (outer, inner)) for side in sides)
    revision = Revision(compare("a.py", *sides), before, after)
    assert [(s.name, s.place, s.lines) for s in find_changed_symbols(revision)] == [("A.b", "a.py:2-4", 1)]


def test_what_was_removed_changed_the_definition_it_was_in() -> None:
    """Not the one that stands in its place now."""

    def side(*lines: str) -> Version:
        fields = [
            Definition(line.split()[0], f"S.{line.split()[0]}", "field", "", "", at, at)
            for at, line in enumerate(lines, 1)
            if line.endswith(" int")
        ]
        return Version("\n".join(lines), (Definition("S", "S", "struct", "", "", 1, len(lines)), *fields))

    old, new = side("struct S {", "a int", "b int", "c int", "}"), side("struct S {", "a int", "c int", "}")
    changed = find_changed_symbols(Revision(compare("s.go", old.text, new.text), old, new))
    assert [(one.name, one.lines) for one in changed] == [("S", 1)]
    last = Definition("f", "f", "function", "", "", 1, 3)
    shorter = Definition("f", "f", "function", "", "", 1, 2)
    before, after = "def f():\n    a()\n    b()\n\nx = 1\n", "def f():\n    a()\n\nx = 1\n"
    revision = Revision(compare("f.py", before, after), Version(before, (last,)), Version(after, (shorter,)))
    assert [one.name for one in find_changed_symbols(revision)] == ["f"]


def test_reviewers_wrote_what_was_changed() -> None:
    blame = [BlameLine(1, author, "") for author in ("Ben", "Cem", "some-bot", "Copilot", "Devin AI")]
    assert [(r.name, r.lines) for r in rank_reviewers({"a.py": blame})] == [("Ben", 1), ("Cem", 1)]
    spelled = [BlameLine(1, author, "") for author in ('Ben "B" Roe', "Ben B Roe")]
    assert [(r.name, r.lines) for r in rank_reviewers({"a.py": spelled})] == [('Ben "B" Roe', 2)]


def test_blame_and_log_are_read() -> None:
    porcelain = (
        "aaa 1 1 2\nauthor Ann\nauthor-time 100\nsummary x\nfilename f\n\tone\naaa 2 2\n\ttwo\n"
        "bbb 3 3 1\nauthor Ben\nauthor-time 50\nboundary\nfilename f\n\tthree\n"
    )
    lines = read_blame(porcelain)
    assert [(line.time, line.author, line.text) for line in lines] == [
        (100, "Ann", "one"),
        (100, "Ann", "two"),
        (0, "Ben", "three"),
    ]
    assert dates_after_edit(["one", "new"], lines, 200) == [100, 200]
    log = "\0\0\x1f300\0\x1fc2\0\x1fann@x\0\na.py\0b.py\0\0\0\x1f100\0\x1fc1\0\x1fben@x\0\nb.py\0c.py\0"
    assert last_changes(log) == {
        "a.py": LastChange(300, "c2", {"ann@x"}),
        "b.py": LastChange(300, "c2", {"ann@x", "ben@x"}),
        "c.py": LastChange(100, "c1", {"ben@x"}),
    }


def test_a_file_that_grew_too_large_is_not_gone(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    store = root / "shop" / "store.py"
    store.write_text(store.read_text() + "# more\n" * 200_000)
    with engine_of(root) as engine:
        assert engine.knowledge.review(ReviewRequest(path=str(root))).files == ()


def test_the_teams_packet(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    store, reports = root / "shop" / "store.py", root / "shop" / "reports.py"
    store.write_text(store.read_text().replace("return order", "return [order]"))
    reports.write_text(reports.read_text() + "\n\ndef again():\n    print('again')\n")
    with engine_of(root) as engine:
        engine.knowledge.remember(RememberRequest("Stores are slow", scope="file:shop/store.py", path=str(root)))
        packet = engine.knowledge.review(ReviewRequest(path=str(root)))
        assert [(f.path, f.state, f.added, f.removed) for f in packet.files] == [
            ("shop/reports.py", "changed", 4, 0),
            ("shop/store.py", "changed", 1, 1),
        ]
        by_name = {symbol.name: symbol for symbol in packet.symbols}
        assert set(by_name) == {"Store.save", "again"}
        # reports.py uses the store as well, but is part of the change.
        assert set(by_name["Store.save"].callers) == {"shop/shipping.py:11", "tests/test_store.py:5"}
        assert packet.missing_tests == ("shop/reports.py",)
        # With the new line print stays at 2 of 5 files, and is of today.
        assert packet.patterns == (
            "shop/reports.py:10: print (how messages are written) is at 40 %; logging module is at 60 %",
        )
        assert [memory.memory for memory in packet.memories] == ["Stores are slow"]
        # Ben wrote the line that was changed, and all six lines of the file that only grew.
        assert [(r.name, r.lines, r.files) for r in packet.reviewers] == [("Ben", 7, 2)]
        (root / "guide.md").write_text("# Guide\n")
        cut = engine.knowledge.review(ReviewRequest(path=str(root), limit=1))
        assert ([f.path for f in cut.files], cut.totals["files"]) == (["shop/reports.py"], 3), "code comes first"


# --- findings ------------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, timeout=120)


def commit(folder: Path, subject: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)


def test_the_reviewed_commits_are_no_memories_of_the_review(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "Start", {"store.py": "def save_order():\n    return 1\n"})
    fix = "Fix a crash of save_order\n\nThe file was locked since the last save had failed."
    commit(tmp_path, fix, {"store.py": "def save_order():\n    return 0\n"})
    commit(tmp_path, "Replace save_item by save_order", {"store.py": "def save_order():\n    return 2\n"})
    commit(tmp_path, "Use save_order instead of save_all", {"store.py": "def save_order():\n    return 3\n"})
    with engine_of(tmp_path) as engine:
        engine.knowledge.clock = time.time
        packet = engine.knowledge.review(ReviewRequest("HEAD~1", path=str(tmp_path)))
        report = engine.knowledge.patterns(PatternsRequest(str(tmp_path)))
    decisions = ["Replace save_item by save_order", "Use save_order instead of save_all"]
    assert {memory.memory for memory in packet.memories} == {"Fix a crash of save_order", decisions[0]}
    assert sorted(memory.memory for memory in report.memories) == decisions  # a fix says nothing about patterns


ADAPTER = """class Adapter:
    def send(self, request):
        return self.connect(request.url)

    def connect(self, url):
        return open(url)
"""
START = {
    "pkg/__init__.py": "",
    "pkg/adapter.py": ADAPTER,
    "pkg/web.py": "from pkg.adapter import Adapter\n\n\ndef fetch(request):\n    return Adapter().send(request)\n",
    "tests/test_adapter.py": (
        "from pkg.adapter import Adapter\n\n\ndef test_send():\n    assert Adapter().send(1) == 2\n"
    ),
    "pyproject.toml": '[project]\nname = "pkg"\ndependencies = ["click>=8"]\n',
}


def review(root: Path) -> list[tuple[str, str, str]]:
    with engine_of(root) as engine:
        found = engine.knowledge.review(ReviewRequest("HEAD", path=str(root))).findings
    return [(one.kind, one.place, one.message) for one in found]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "first", START)
    return tmp_path


def test_a_new_function_against_what_was_agreed(project: Path) -> None:
    with engine_of(project) as engine:
        know = engine.knowledge
        know.remember(RememberRequest("we never import requests in pkg/", author="Ann", path=str(project)))
        know.remember(RememberRequest("we never import requests in other/", path=str(project)))
        know.remember(RememberRequest("Use pathlib instead of os.path.join", path=str(project)))
    (project / "pkg" / "load.py").write_text(
        "import os\n\nimport requests\n\n\ndef load(name):\n    return requests.get(os.path.join('a', name))\n"
    )
    found = review(project)
    assert [(kind, place) for kind, place, _ in found] == [
        ("contradiction", "pkg/load.py:3"),
        ("contradiction", "pkg/load.py:7"),
        ("dependency", "pkg/load.py:3"),
        ("untested", "pkg/load.py:6"),
    ]
    assert "by Ann says: we never import requests in pkg/" in found[0][2]
    assert "os.path.join is used here" in found[1][2]
    assert found[2][2] == "requests is imported for the first time"
    assert found[3][2] == "load is new, and no test names it"


def test_a_new_line_of_a_manifest(project: Path) -> None:
    text = '[project]\nname = "pkg"\ndependencies = ["click>=9", "httpx"]\n'
    (project / "pyproject.toml").write_text(text)
    assert [message for _, _, message in review(project)] == [
        "httpx is a new dependency",
        "click was >=8, is >=9",
    ]


def test_versions_are_compared_within_a_manifest_and_all_manifests_declare(project: Path) -> None:
    crates = {
        "crates/a/Cargo.toml": '[package]\nname = "a"\n[dependencies]\nlog = "0.4.20"\n',
        "crates/b/Cargo.toml": '[package]\nname = "b"\n[dependencies]\nredb = "4"\n',
    }
    commit(project, "crates", {"Cargo.toml": '[package]\nname = "top"\n[dependencies]\nlog = "0.4.5"\n', **crates})
    (project / "Cargo.toml").write_text('[package]\nname = "top"\n[dependencies]\nlog = "0.4.5"\nserde = "1"\n')
    (project / "crates" / "a" / "Cargo.toml").write_text(crates["crates/a/Cargo.toml"] + 'redb = "4"\n')
    source = project / "crates" / "b" / "src"
    source.mkdir()
    (source / "lib.rs").write_text("use redb::Database;\nuse serde::Serialize;\n")
    assert [message for kind, _, message in review(project) if kind == "dependency"] == [
        "serde 1 is a new dependency",
        "redb is imported for the first time",
    ]


def test_a_release_of_the_packages_of_one_repository_is_no_news(project: Path) -> None:
    manifest = '{{"name": "@shop/{0}", "version": "{1}", "dependencies": {{"@shop/core": "{1}", "koa": "{2}"}}}}'
    names = ("core", "web", "api-tests")
    packages = {f"packages/{name}/package.json": manifest.format(name, "1.0.0", "2.0.0") for name in names}
    commit(project, "packages", packages)
    for name in names:
        (project / "packages" / name / "package.json").write_text(manifest.format(name, "1.1.0", "3.0.0"))
    assert [message for _, _, message in review(project)] == ["koa was 2.0.0, is 3.0.0"]


def test_packages_updated_alike_are_one_finding(project: Path) -> None:
    manifest = '{{"name": "web", "dependencies": {{"@vue/a": "{0}", "@vue/b": "{0}", "koa": "2.0.0"}}}}'
    commit(project, "a package", {"package.json": manifest.format("2.0.0")})
    (project / "package.json").write_text(manifest.format("3.0.0"))
    assert [message for _, _, message in review(project)] == ["@vue/a and 1 more were 2.0.0, are 3.0.0"]


def test_a_constructor_needs_no_test_of_its_own(project: Path) -> None:
    (project / "pkg" / "adapter.py").write_text(ADAPTER + "\n    def __init__(self):\n        self.url = 1\n")
    assert review(project) == []


@pytest.mark.parametrize(
    ("before", "after", "is_reported"),
    [
        ("2.0.0", "2.4.1", False),
        ("2.4.1", "2.4.0", True),
        ("0.3.0", "0.4.0", True),
        ("0.3.0", "0.3.9", False),
        ("10.0.0-rc.1", "10.0.0", False),
        ("94915e6f73", "latest", True),
    ],
)
def test_versions_with_which_nothing_should_break_are_no_findings(
    project: Path, before: str, after: str, is_reported: bool
) -> None:
    manifest = '{{"name": "web", "dependencies": {{"koa": "{0}"}}}}'
    commit(project, "a package", {"package.json": manifest.format(before)})
    (project / "package.json").write_text(manifest.format(after))
    messages = [f"koa was {before}, is {after}"] if is_reported else []
    assert [message for _, _, message in review(project)] == messages


def test_in_a_program_only_what_others_use_is_an_interface(project: Path) -> None:
    """Nobody else's code can depend on it, unlike on a package that is published."""
    files = {
        "manage.py": "",
        "pkg/stock.py": "def count(shop):\n    return 1\n\n\ndef order(shop):\n    return count(shop)\n",
        "pkg/view.py": "from pkg.stock import order\n\n\ndef show():\n    return order(1)\n",
        "pkg/Stock.kt": "fun stock(a: Int) = a + 1\n",
        "pkg/Till.kt": "fun till() = stock(1)\n",
        "web/package.json": '{"name": "web", "main": "index.js"}',
        "web/index.js": "export function draw(a) {}\n",
    }
    commit(project, "a site", files)
    (project / "pkg/stock.py").write_text("def order(shop, day):\n    return 1\n")
    (project / "pkg/Stock.kt").write_text("fun stock(a: Int, b: Int) = a + b\n")  # the compiler finds the callers
    (project / "web/index.js").write_text("export function paint(b, c) {\n  return 1;\n}\n")
    assert [message for kind, _, message in review(project) if kind == "api"] == [
        "order was def order(shop), is def order(shop, day); used outside the change in pkg/view.py",
        "draw (function) is gone: function draw(a)",
    ]
    (project / "web/package.json").write_text('{"name": "web", "private": true}')
    assert [place for kind, place, _ in review(project) if kind == "api"] == ["pkg/stock.py:1"]
    (project / "pyproject.toml").write_text('[build-system]\nrequires = ["hatchling"]\n\n' + START["pyproject.toml"])
    assert "count (function) is gone: def count(shop)" in [message for _, _, message in review(project)]


def test_a_test_may_reach_a_method_through_its_interface(project: Path) -> None:
    sources = {
        "Shop/IStock.cs": "namespace Shop;\npublic interface IStock { int Count(); }\n",
        "Shop/Stock.cs": "namespace Shop;\npublic class Stock : IStock {\n    public int Count() {\n"
        "        return 1;\n    }\n}\n",
        "Shop.Tests/CountTests.cs": "namespace Shop.Tests;\nusing Shop;\npublic class CountTests {\n"
        "    private IStock _stock;\n    [Test] public void Counts() { _stock.Count(); }\n}\n",
    }
    commit(project, "stock", sources)
    (project / "Shop" / "Stock.cs").write_text(sources["Shop/Stock.cs"].replace("return 1", "return 2"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert packet.missing_tests == ()


def test_a_signature_and_who_calls_it(project: Path) -> None:
    (project / "pkg" / "adapter.py").write_text(ADAPTER.replace("send(self, request)", "send(self, request, timeout)"))
    (kind, place, message), *rest = review(project)
    assert (kind, place) == ("api", "pkg/adapter.py:2")
    assert message.startswith("Adapter.send was def send(self, request), is def send(self, request, timeout)")
    assert "used outside the change in pkg/web.py" in message
    assert [kind for kind, _, _ in rest] == ["untested"]


def test_what_is_gone(project: Path) -> None:
    (project / "pkg" / "adapter.py").write_text("def helper(x):\n    return x\n")
    (project / "tests" / "test_adapter.py").write_text("def test_other():\n    pass\n")
    found = review(project)
    kinds = [kind for kind, _, _ in found]
    assert kinds == ["api", "expectation", "untested"]  # of the class alone, not of each of its methods
    assert found[0][2].startswith("Adapter (class) is gone")
    assert "pkg/web.py" in found[0][2]
    assert found[1][2] == "the test test_send is gone"


def test_what_is_gone_of_a_file_and_used_nowhere_is_one_finding(project: Path) -> None:
    commit(project, "parts", {"pkg/parts.py": "".join(f"def part_{name}(a):\n    return a\n\n\n" for name in "abc")})
    (project / "pkg" / "parts.py").write_text("x = 1\n")
    assert [message for kind, _, message in review(project) if kind == "api"] == ["part_a, part_b, part_c are gone"]


def test_a_bundle_that_is_gone_was_no_api(project: Path) -> None:
    packed = ";".join(f"export function f{number}(a){{return a+{number}}}" for number in range(400))
    commit(project, "bundles", {"ui/dist/app.js": "export function run() {}\n", "ui/lib/packed.js": packed})
    for name in ("ui/dist/app.js", "ui/lib/packed.js"):
        (project / name).unlink()
    assert review(project) == []


def test_what_is_gone_was_indexed_by_the_same_rules_as_what_is_there(project: Path) -> None:
    files = {
        "tools/build/steps.py": "def step(a):\n    return a\n",
        "tools/build/output.map": "{}\n",
        "dist/made.js": "export function made() {}\n",
        "web/package-lock.json": "{}\n",
    }
    own = {"tools/steps/build/order.py": "def order(a):\n    return a\n"}  # a name that people use for their own code
    commit(project, "files", {**files, **own})
    for name in (*files, *own):
        (project / name).unlink()
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert [(one.path, one.state) for one in packet.files] == [("tools/steps/build/order.py", "removed")]


def test_what_is_no_longer_expected(project: Path) -> None:
    test = project / "tests" / "test_adapter.py"
    test.write_text(test.read_text().replace("== 2", "== 3"))
    assert review(project) == [
        ("expectation", "tests/test_adapter.py:5", "no longer expected: assert Adapter().send(1) == 2")
    ]
    test.write_text(test.read_text().replace("== 3", "== 2") + "    assert Adapter().send(2) == 3\n    # assert it\n")
    commit(project, "more", {})
    test.write_text("from pkg.adapter import Adapter as assert_adapter\n\n\ndef test_send():\n    pass\n")
    assert review(project) == [
        (
            "expectation",
            "tests/test_adapter.py:5",
            "no longer expected: assert Adapter().send(1) == 2; and 1 more in this file",
        )
    ]
    commit(project, "table", {"tests/test_table.py": 'CASES = [\n    ("a", "one"),\n    ("b", "two"),\n]\n'})
    (project / "tests" / "test_table.py").write_text('CASES = [\n    ("a", "uno"),\n    ("b", "two"),\n]\n')
    assert review(project) == [
        ("expectation", "tests/test_table.py:2", 'test data changed: ("a", "one"), became ("a", "uno"),')
    ]


def test_an_expectation_that_is_wrapped_in_another_way_stays(project: Path) -> None:
    test = 'test("a", () => {{\n{}\n}})\n'
    short = "  expect(run(1)).toBe(2);\n  expect(ask).toHaveBeenCalledWith(\n    1,\n    expect.any(Date),\n  );"
    long = "  expect(run(1)).toBe(\n    2,\n  );\n  expect(ask).toHaveBeenCalledWith(1, expect.any(Date));"
    commit(project, "tests", {"web/run.test.ts": test.format(f"{short}\n  use(1) // expected")})
    (project / "web" / "run.test.ts").write_text(test.format(long))
    assert review(project) == []
    (project / "web" / "run.test.ts").write_text(test.format(long.replace("2,", "20,")))
    expected = ("expectation", "web/run.test.ts:2", "no longer expected: expect(run(1)).toBe(2);")
    assert review(project) == [expected]


def test_a_test_that_went_with_what_it_tested_was_changed(project: Path) -> None:
    both = "def give():\n    a = 1\n    return a\n", "from pkg.give import give\n\n\ndef test_give():\n    give()\n"
    commit(project, "give", {"pkg/give.py": both[0], "tests/test_give.py": f"{both[1]}\n\ndef test_a():\n    give()\n"})
    (project / "pkg" / "give.py").write_text(both[0].replace("    a = 1\n", ""))
    (project / "tests" / "test_give.py").write_text(both[1])
    assert review(project) == [("expectation", "tests/test_give.py:8", "the test test_a is gone")]


def test_the_words_of_a_failure_expect_nothing(project: Path) -> None:
    go = 'package shop\n\nfunc TestA(t *testing.T) {{\n\tif {0} {{\n\t\tt.Errorf("{1} %d", {2})\n\t}}\n}}\n'
    helper = "def assert_total(a{}):\n    b = a\n    return b\n"
    commit(project, "a helper", {"tests/helper.py": helper.format("")})
    (project / "tests" / "helper.py").write_text(helper.format(", c"))
    kotlin = "class ATest {{\n    @Test fun `When {0} expect one`() = run {{ go(1) }}\n}}\n"
    commit(project, "tests", {"a_test.go": go.format("a != 1", "Wrong", "a"), "ATest.kt": kotlin.format("old")})
    (project / "a_test.go").write_text(go.format("a != 1", "wrong:", "a"))
    (project / "ATest.kt").write_text(kotlin.format("new"))
    assert review(project) == []
    (project / "a_test.go").write_text(go.format("a != 1", "Wrong", "b"))
    assert [message for _, _, message in review(project)] == ['no longer expected: t.Errorf("Wrong %d", a)']


def test_a_helper_of_tests_is_no_test_that_is_gone(project: Path) -> None:
    helpers = {
        "e2e/mail.ts": "export function findMail(id) {\n  return id\n}\n",
        "e2e/reset.spec.ts": (
            'import { findMail } from "./mail"\n'
            'test("reset", async () => {\n  const found = await poll({\n    filter: (e) => findMail(e),\n  })\n})\n'
        ),
        "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef client():\n    return 1\n",
    }
    commit(project, "helpers", helpers)
    for name in ("e2e/mail.ts", "tests/conftest.py"):
        (project / name).unlink()
    (project / "e2e" / "reset.spec.ts").write_text('test("reset", async () => {\n  await mail()\n})\n')
    assert [message for kind, _, message in review(project) if kind == "expectation"] == []


def test_a_project_without_tests_misses_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "first", {"app.py": "def run():\n    return 1\n"})
    (tmp_path / "app.py").write_text("def run():\n    return 2\n")
    with engine_of(tmp_path) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(tmp_path)))
    assert (packet.missing_tests, packet.findings) == ((), ())
    assert packet.notes == ("files like those that changed have no or few tests here, so none is missed",)


def test_a_field_known_by_its_name_only_has_no_callers(project: Path) -> None:
    flavor = "enum class Flavor {{\n    contentType, // {}\n    otherType{}\n}}\n"
    feed = 'fun feed() {\n    item(contentType = "a")\n}\n'
    commit(project, "flavor", {"src/Flavor.kt": flavor.format(1, ""), "src/Feed.kt": feed})
    (project / "src" / "Flavor.kt").write_text("enum class Flavor {\n    contentType(1),\n    otherType\n}\n")
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert [(one.name, one.callers) for one in packet.symbols if "content" in one.name] == [("Flavor.contentType", ())]


def test_another_member_of_a_type_changes_nothing_for_its_users(project: Path) -> None:
    users = {f"pkg/use{number}.py": "from pkg.adapter import Adapter\n\nAdapter().send(1)\n" for number in range(5)}
    commit(project, "users", users)
    adapter = project / "pkg" / "adapter.py"
    adapter.write_text(ADAPTER.replace("class Adapter:\n", "class Adapter:\n    limit = 1\n"))
    assert review(project) == []
    adapter.write_text(ADAPTER.replace("class Adapter:\n", "class Adapter(Base):\n"))
    assert [(kind, place) for kind, place, _ in review(project)] == [("callers", "pkg/adapter.py:1")]


def test_what_helps_others_to_test_needs_no_test(project: Path) -> None:
    (project / "pkg" / "testing_support").mkdir()
    (project / "pkg" / "testing_support" / "client.py").write_text("def accept():\n    return 1\n")
    assert review(project) == []
    (project / "pkg" / "client.py").write_text("def accept():\n    return 1\n")
    assert [(kind, place) for kind, place, _ in review(project)] == [("untested", "pkg/client.py:1")]


def test_callbacks_of_an_object_need_no_test(project: Path) -> None:
    commit(project, "page", {"pages/list.ts": "useHead({ title: 1 })\n"})
    (project / "pages" / "list.ts").write_text("useHead({\n  title: () => 1,\n})\n")
    assert review(project) == []


def test_an_expectation_that_calls_something_by_its_new_name_stays(project: Path) -> None:
    commit(project, "more", {"tests/test_more.py": "def test_more():\n    assert lantency(20) == 'white'\n"})
    test = project / "tests" / "test_more.py"
    test.write_text(test.read_text().replace("lantency", "latency"))
    assert review(project) == []
    test.write_text(test.read_text().replace("white", "green"))
    assert [kind for kind, _, _ in review(project)] == ["expectation"]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "pkg/more.py",
            'def f(a):\n    """Old."""\n    # one\n    return a\n',
            'def f(a):\n    """New."""\n\n    return a  # x\n',
        ),
        (
            "pkg/more.go",
            "package pkg\n\n// Old.\nfunc F() int { return 1 }\n",
            "package pkg\n\n// New.\nfunc F() int { return 1 } // x\n",
        ),
        (
            "Sources/more.swift",
            "/// The `value.\npublic func load() -> Int { return 1 }\n",
            "/// The `value`.\npublic func load() -> Int { return 1 } // x\n",
        ),
        (
            "src/more.cpp",
            "/* Old. */\nint load() {\n  return 1;\n}\n",
            "/* New. */\nint load() {\n  // it's one\n  return 1;\n}\n",
        ),
        (
            "lib/more.ex",
            'defmodule More do\n  @doc """\n  Old.\n  """\n  def load do\n    return(1)\n  end\nend\n',
            'defmodule More do\n  @doc """\n  New.\n  """\n  def load do\n    return(1) # x\n  end\nend\n',
        ),
    ],
)
def test_comments_and_documentation_are_no_change_of_code(project: Path, path: str, before: str, after: str) -> None:
    commit(project, "Add more", {path: "\n\n\n" + before})
    for number in range(3):
        commit(project, "Fix a crash", {path: "\n" * number + before})
    (project / path).write_text(after)
    assert review(project) == []
    (project / path).write_text(after.replace("return", "return 2 +"))
    assert "risk" in [kind for kind, _, _ in review(project)]


def test_a_hook_that_nobody_calls_any_more(project: Path) -> None:
    changed = ADAPTER.replace("self.connect(request.url)", "self._connect(request)") + (
        "\n    def _connect(self, request):\n        return request\n"
    )
    (project / "pkg" / "adapter.py").write_text(changed)
    (project / "tests" / "test_more.py").write_text("def test_more():\n    assert True\n")
    assert review(project) == [
        (
            "unused",
            "pkg/adapter.py:5",
            "Adapter.connect is no longer called anywhere; pkg/adapter.py was the last caller",
        )
    ]


def test_a_type_that_is_named_elsewhere_is_used_without_a_call(project: Path) -> None:
    stamp = "class Stamp:\n    pass\n\n\ndef read(stamp: Stamp):\n    return stamp\n"
    user = "from pkg.stamp import Stamp\n\n\ndef make():\n    return Stamp()\n"
    commit(project, "Stamps", {"pkg/stamp.py": stamp, "pkg/user.py": user, "tests/test_s.py": "def test_s(): make()\n"})
    (project / "pkg" / "user.py").write_text("def make():\n    return 1\n")
    assert "unused" not in [kind for kind, _, _ in review(project)]


def test_a_hook_that_a_decorator_registers_needs_no_call(project: Path) -> None:
    hook = "\n\n@route(\n    '/'\n)\ndef show():\n    return 1\n"
    commit(project, "hook", {"pkg/page.py": "from web import route\n" + hook + "\n\n_ROUTES = [show()]\n"})
    (project / "pkg" / "page.py").write_text("from web import route\n" + hook)
    assert [kind for kind, _, _ in review(project)] == []


def test_generated_files_are_not_reviewed(project: Path) -> None:
    text = "# @generated by a tool\n\n\ndef made():\n    return {}\n"
    commit(project, "made", {"pkg/made.py": text.format(1)})
    (project / "pkg" / "made.py").write_text(text.format(2))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert (packet.files, packet.findings) == ((), ())


def test_a_shallow_clone_is_reviewed_without_what_needs_its_history(project: Path, tmp_path: Path) -> None:
    commit(project, "fix the adapter", {"pkg/adapter.py": ADAPTER.replace("open(url)", "open(url, 'rb')")})
    commit(project, "second", {"pkg/adapter.py": ADAPTER.replace("open(url)", "open(url, 'rt')")})
    clone = tmp_path / "clone"
    git(project, "clone", "-q", "--depth=2", f"file://{project}", str(clone))
    with engine_of(clone) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD~1", path=str(clone)))
        with pytest.raises(NotFound, match="is not a commit"):
            engine.knowledge.review(ReviewRequest("HEAD~2", path=str(clone)))
    assert [one.path for one in packet.files] == ["pkg/adapter.py"]
    assert packet.reviewers == ()
    assert any("the clone is shallow" in note for note in packet.notes)


def test_files_that_are_no_text_are_not_reviewed(project: Path) -> None:
    path = project / "wrapper.jar"
    path.write_bytes(b"PK\0\1")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "binary")
    path.write_bytes(b"PK\0\2")
    with engine_of(project) as engine:
        assert engine.knowledge.review(ReviewRequest("HEAD", path=str(project))).files == ()


def test_both_versions_of_a_header_are_read_as_the_same_language(project: Path) -> None:
    header = "#define KEY(name) KEY_##name\nenum keys {\n\tFIRST,\n\tKEY(MOVE),\n\tKEY(UP),\n};\n"
    commit(project, "header", {"pkg/run.h": header})
    (project / "pkg" / "run.h").write_text(f"{header}int stop(void);\n")
    assert review(project) == []


def test_callers_of_the_largest_changes_are_looked_up(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.engine.review.MOST_SYMBOLS", 1)
    commit(project, "more", {"pkg/a.py": "LIMIT = 1\n"})
    (project / "pkg" / "a.py").write_text("LIMIT = 2\n")
    adapter = project / "pkg" / "adapter.py"
    adapter.write_text(ADAPTER.replace("return self.connect(request.url)", "url = request.url\n        return url"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert packet.symbols[0].callers == ("pkg/web.py:5", "tests/test_adapter.py:5")


def test_what_may_be_a_column_of_a_table_is_no_caller(project: Path) -> None:
    """In Ruby, whose attributes need no definition."""
    group = "class Group\n  def paid_total\n    {0}\n  end\n\n  def pay_all(sum)\n    {0}\n  end\nend\n"
    order = "def due(order, group)\n  order.paid_total + group.pay_all(3)\nend\n"
    commit(project, "group", {"pkg/group.rb": group.format(1), "pkg/order.rb": order})
    (project / "pkg" / "group.rb").write_text(group.format(2))
    with engine_of(project) as engine:
        symbols = engine.knowledge.review(ReviewRequest("HEAD", path=str(project))).symbols
    callers = {one.name: one.callers for one in symbols}
    assert callers == {"Group.pay_all": ("pkg/order.rb:2",), "Group.paid_total": ()}


def test_a_common_word_after_a_dot_is_no_caller(project: Path) -> None:
    store = (
        "class Store:\n    def delete(self, key):\n        return {}\n\n    def delete_all(self):\n        return {}\n"
    )
    users = {f"pkg/use{n}.py": "def clear(session):\n    session.delete(1)\n" for n in range(5)}
    certain = {f"pkg/all{n}.py": "def clear(session):\n    session.delete_all()\n" for n in range(5)}
    commit(project, "store", {"pkg/store.py": store.format(1, 1), **users, **certain})
    (project / "pkg" / "store.py").write_text(store.format(2, 2))
    callers = [message for kind, _, message in review(project) if kind == "callers"]
    assert [message.split(" was changed")[0] for message in callers] == ["Store.delete_all"]
    (project / "pkg" / "store.py").write_text(store.format(1, 1).replace("key", "key, force"))
    (api,) = [message for kind, _, message in review(project) if kind == "api"]
    assert "used outside the change" not in api


def test_overloads_have_their_callers_listed_once(project: Path) -> None:
    store = """package pkg;

public class Store {
    public void put(int key) {
        %s;
    }

    public void put(int key, int size) {
        %s;
    }
}
"""
    use = "package pkg;\n\npublic class Use%d {\n    void run(Store store) {\n        store.put(1);\n    }\n}\n"
    users = {f"pkg/Use{number}.java": use % number for number in range(5)}
    commit(project, "store", {"pkg/Store.java": store % ("open()", "open()"), **users})
    (project / "pkg" / "Store.java").write_text(store % ("close()", "close()"))
    (callers,) = [message for kind, _, message in review(project) if kind == "callers"]
    assert callers.startswith("Store.put was changed and is used outside the change in pkg/Use")


def test_files_that_needed_fixes_of_late(project: Path) -> None:
    harmless = "docs: fix a typo", "fix(deps): update all dependencies"
    for number, subject in enumerate(("Fix case 0", "Fix case 1", "Fix case 2", *harmless)):
        commit(project, subject, {"pkg/web.py": f"{START['pkg/web.py']}\n\nCASE = {number}\n"})
    (project / "pkg" / "web.py").write_text(START["pkg/web.py"])
    (finding,) = [one for one in review(project) if one[0] == "risk"]
    assert finding[1:] == ("pkg/web.py", "6 commits in 180 days, 3 of them fixes; the last: Fix case 2")


def test_what_moved_is_not_gone_and_exports_are_kept_track_of() -> None:
    gone = Definition("f", "f", "function", "def f(a)", "", 1, 2)
    before, after = Version("x", (gone,)), Version("y")
    moved = Revision(compare("b.py", None, "x"), Version(), Version("x", (gone,)), is_product=True)
    left = Revision(compare("a.py", "x", "y"), before, after, is_product=True)
    assert find_api_changes([left, moved]) == []
    assert [change.finding.message for change in find_api_changes([left])] == ["f (function) is gone: def f(a)"]
    number = [Definition("V", "V", "constant", f"V = {value}", "", 1, 1) for value in (1, 2)]
    raised = Revision(
        compare("a.py", "x", "y"), Version("x", (number[0],)), Version("y", (number[1],)), is_product=True
    )
    assert find_api_changes([raised]) == []  # another value is no other way to use it
    shop = Definition("Shop", "Shop", "class", "class Shop(val a: Int = b()) : Base", "", 1, 1)
    for path, signature, is_reported in (
        ("Shop.kt", "class Shop(val a: Int = b()) : Base, Other", False),
        ("Shop.kt", "class Shop(val a: String = b()) : Base", True),
    ):
        other = Version("y", (replace(shop, signature=signature),))
        derived = Revision(compare(path, "x", "y"), Version("x", (shop,)), other, is_product=True)
        assert bool(find_api_changes([derived])) is is_reported, signature
    for signature, is_found in (
        ("def f(a, b: dict[str, int] = {}, *, c=1)", False),
        ("def f(a, b)", True),
        ("def f(a, b=1, c)", True),
        ("def f(a, b=None, **more)", True),
        ("def f(a) -> int", True),
    ):
        other = Version("y", (Definition("f", "f", "function", signature, "", 1, 2),))
        changed = Revision(compare("a.py", "x", "y"), before, other, is_product=True)
        assert bool(find_api_changes([changed])) is is_found, signature
    signatures = ("def f(a, **more)", "def f(a, b=None, **more)")
    old, new = (Version(text, (replace(gone, signature=text),)) for text in signatures)
    assert find_api_changes([Revision(compare("a.py", *signatures), old, new, is_product=True)]) == []
    written = Definition("f", "f", "function", "f({ a }: { a: T; })", "", 1, 2)
    reformatted = replace(written, signature="f({ a }: { a: T })")
    same = Revision(compare("a.ts", "x", "y"), Version("x", (written,)), Version("y", (reformatted,)), is_product=True)
    assert find_api_changes([same]) == []
    held = Definition("P", "P", "interface", "interface P", "", 1, 3)
    was, now = (Definition("f", "P.f", "method", text, "", 2, 2) for text in ("f($a)", "f($a, $b = 1)"))
    taken = Revision(compare("P.php", "x", "y"), Version("x", (held, was)), Version("y", (held, now)), is_product=True)
    assert len(find_api_changes([taken])) == 1  # who implements it must take it too
    hidden = Revision(compare("pkg/_a.py", "x", "y"), before, after, is_product=True)
    assert find_api_changes([hidden]) == []
    everything = Import("@a/client", 1, ("*",), reexport=True)
    index = Revision(compare("index.ts", "x", "y"), Version("x", (), (everything,)), Version("y"), is_product=True)
    assert [change.finding.message for change in find_api_changes([index])] == [
        "* of @a/client is no longer exported from here"
    ]


def test_tests_beside_the_code_count_as_tests() -> None:
    code = Definition("f", "f", "function", "fn f()", "", 1, 1)
    inline = Definition("works", "tests.works", "function", "fn works()", "", 2, 2)
    both = "fn f() { 1 }\nfn works() { 1 }", "fn f() { 2 }\nfn works() { 2 }"
    before, after = (Version(text, (code, inline)) for text in both)
    assert (
        find_untested([Revision(compare("a.rs", *both), before, after, is_product=True)], lambda path, name: False)
        == []
    )
    only = "fn f() { 1 }", "fn f() { 2 }"
    before, after = (Version(text, (code,)) for text in only)
    alone = Revision(compare("a.rs", *only), before, after, is_product=True)
    assert [finding.message for finding in find_untested([alone], lambda path, name: False)] == [
        "f was changed, and no test was"
    ]


def test_a_declaration_lacks_no_test_and_an_attribute_changes_no_type(project: Path) -> None:
    sources = {
        "src/lib.rs": "pub mod a;\n",
        "src/a.rs": "pub struct Pot;\n\nimpl Pot {\n    pub fn lid(&self) -> u8 {\n        1\n    }\n\n"
        "    #[must_use]\n    pub fn pour(&self) -> u8 {\n        1\n    }\n}\n",
        **{f"src/use_{name}.rs": f"use crate::a::Pot;\npub fn {name}(pot: Pot) {{}}\n" for name in "bcdefgh"},
    }
    commit(project, "rust", sources)
    (project / "src/lib.rs").write_text("pub mod a;\npub mod use_b;\n")
    (project / "src/a.rs").write_text(sources["src/a.rs"].replace("    #[must_use]\n", ""))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest(path=str(project)))
    assert [symbol.name for symbol in packet.symbols] == ["use_b"]
    assert (packet.missing_tests, [finding.kind for finding in packet.findings]) == ((), [])


def test_callers_of_an_interface_are_callers_of_what_implements_it(project: Path) -> None:
    sources = {
        "shop/base.py": "class Store:\n    def save(self, order): ...\n",
        "shop/disk.py": "from shop.base import Store\n\nclass Disk(Store):\n    def save(self, order): return 1\n",
        **{
            f"shop/till{n}.py": "from shop.base import Store\n\ndef pay(store: Store):\n    store.save(1)\n"
            for n in range(WIDELY_USED)
        },
    }
    commit(project, "store", sources)
    (project / "shop/disk.py").write_text(sources["shop/disk.py"].replace("return 1", "return 2"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest(path=str(project)))
        tills = [f"shop/till{n}.py" for n in range(WIDELY_USED)]
        assert [(one.name, one.callers) for one in packet.symbols] == [
            ("Disk.save", tuple(f"{till}:4" for till in tills))
        ]
        (message,) = (finding.message for finding in packet.findings if finding.kind == "callers")
        assert message.startswith("Disk.save was changed and is used, or may be called through what it overrides, out")
        target = ("shop/disk.py", "Disk.save")
        assert engine.code.callers(engine.indexes.of(project), {target}) == {target: [(till, 4) for till in tills]}


def test_a_written_task_or_nullness_changes_nothing_for_callers() -> None:
    def changes(path: str, before: str, after: str) -> list[str]:
        old, new = (
            Version(text, (Definition("send", "send", "function", text, "", 1, 1),)) for text in (before, after)
        )
        revision = Revision(compare(path, before, after), old, new, is_product=True)
        return [change.finding.kind for change in find_api_changes([revision])]

    assert changes("a.cs", "public Task send(int a)", "public async Task send(int a)") == []
    assert changes("a.ts", "export function send(): Promise<A>", "export async function send(): Promise<A>") == []
    assert changes("a.ts", "export function send(): A", "export async function send(): Promise<A>") == ["api"]
    assert changes("a.py", "def send()", "async def send()") == ["api"]
    assert changes("A.java", "List<A> send(String a)", "List<@Nullable A> send(@jakarta.Nonnull String a)") == []
    assert changes("A.java", "List<A> send(String a)", "List<@Nullable B> send(String a)") == ["api"]


def test_what_a_test_gets_from_a_helper_does_not_lack_a_test(project: Path) -> None:
    cart = "package shop\n\nfunc (s *Service) AddToCart() int { return 1 }\n"
    stock = "package shop\n\nfunc (s *Service) refill() int { return 1 }\n"
    sources = {
        "go.mod": "module example.com/shop\n",
        "shop/service.go": "package shop\n\ntype Service struct{}\n",
        "shop/cart.go": cart,
        "shop/stock.go": stock,
        "e2e/helper.go": 'package e2e\n\nimport "example.com/shop/shop"\n\n'
        "type Helper struct{ Service *shop.Service }\n",
        "e2e/buying_test.go": 'package e2e\n\nimport "testing"\n\n'
        "func TestBuying(t *testing.T) {\n\thelper := Helper{}\n\thelper.Service.AddToCart()\n}\n",
    }
    commit(project, "shop", sources)
    (project / "shop/cart.go").write_text(cart.replace("1", "2"))
    (project / "shop/stock.go").write_text(stock.replace("1", "2"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest(path=str(project)))
    assert packet.missing_tests == ("shop/stock.go",)


def test_a_page_is_tested_by_the_tests_of_its_package_in_the_change(project: Path) -> None:
    """They request the page and import nothing of it."""
    page = "def unfold_{}():\n    return {}\n"
    sources = {"shop/papers/serving.py": "documents", "shop/carts/summary.py": "baskets"}
    before = {path: page.format(name, 1) for path, name in sources.items()}
    tests = {"shop/papers/tests/test_urls.py": "def test_page(): ...\n", "shop/papers/forms.py": "LIMIT = 1\n"}
    commit(project, "pages", {**before, **tests})
    for path, name in sources.items():
        (project / path).write_text(page.format(name, 2))
    (project / "shop/papers/tests/test_urls.py").write_text("def test_page():\n    assert get('/docs') == 2\n")
    with engine_of(project) as engine:
        assert engine.knowledge.review(ReviewRequest(path=str(project))).missing_tests == ("shop/carts/summary.py",)


def test_what_only_requests_reach_is_tested_by_the_tests_of_its_file_or_user(project: Path) -> None:
    """They name a path, no function."""
    form = "defmodule Web.Live.Domain.Form do\n  def render(assigns), do: {}\nend\n"
    live = "defmodule Web.Live.Domain do\n  alias Web.Live.Domain.Form\n  def mount(a), do: Form.render(a)\nend\n"
    controller = "class CommentsController\n  def index\n    1\n  end\n{}end\n"
    spec = "RSpec.describe 'comments' do\n  it 'works' do\n    get '/comments'\n{}  end\nend\n"
    sources = {
        "lib/web/live/domain.ex": live,
        "lib/web/live/domain/form.ex": form.format("assigns"),
        "test/web/live/domain_test.exs": "defmodule Web.Live.DomainTest do\nend\n",
        "app/controllers/comments_controller.rb": controller.format(""),
        "spec/requests/comments_spec.rb": spec.format(""),
    }
    commit(project, "pages", sources)
    (project / "lib/web/live/domain/form.ex").write_text(form.format("[assigns]"))
    new = "\n  def user_comments\n    2\n  end\n"
    (project / "app/controllers/comments_controller.rb").write_text(controller.format(new))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest(path=str(project)))
    assert packet.missing_tests == ("lib/web/live/domain/form.ex",)
    assert any("user_comments is new" in one.message for one in packet.findings)
    (project / "test/web/live/domain_test.exs").write_text("defmodule Web.Live.DomainTest do\n  test\nend\n")
    (project / "spec/requests/comments_spec.rb").write_text(spec.format("    get '/~ann/comments'\n"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest(path=str(project)))
    assert packet.missing_tests == ()
    assert [one for one in packet.findings if one.kind == "untested"] == []


def test_a_function_inside_another_is_part_of_it(project: Path) -> None:
    install = "def install(rows):\n    for row in rows:\n        {}\n"
    commit(project, "install", {"pkg/install.py": install.format("print(row)")})
    inner = "def save(one):\n            print(one)\n\n        save(row)"
    (project / "pkg/install.py").write_text(install.format(inner))
    untested = [message for kind, _, message in review(project) if kind == "untested"]
    assert untested == ["install was changed, and no test was"]


def test_a_command_is_tested_by_its_name(project: Path) -> None:
    path, test = "shop/management/commands/check_carts.py", "shop/tests/test_check_carts.py"
    (project / path).parent.mkdir(parents=True)
    (project / test).parent.mkdir()
    (project / path).write_text(
        "def find_lost():\n    return 1\n\n\nclass Command:\n    def handle(self):\n        find_lost()\n"
    )
    assert [message for kind, _, message in review(project) if kind == "untested"] != []
    (project / test).write_text('def test_it():\n    call_command("check_carts")\n')
    assert [message for kind, _, message in review(project) if kind == "untested"] == []


def test_what_is_tested_in_its_own_file_or_is_no_product_does_not_lack_a_test(project: Path) -> None:
    tested = "pub fn f() -> u8 {{ {} }}\n\n#[cfg(test)]\nmod tests {{\n    #[test]\n    fn works() {{}}\n}}\n"
    bare = "pub fn g() -> u8 {{ {} }}\n"
    commit(project, "rust", {"a.rs": tested.format(1), "b.rs": bare.format(1), "build.gradle": "def x = 1\n"})
    commit(project, "page", {"web/page.html.erb": "<p>1</p>\n"})
    (project / "web/page.html.erb").write_text("<p>2</p>\n")
    (project / "a.rs").write_text(tested.format(2))
    (project / "b.rs").write_text(bare.format(2))
    (project / "build.gradle").write_text("def x = 2\n")
    with engine_of(project) as engine:
        assert engine.knowledge.review(ReviewRequest(path=str(project))).missing_tests == ("b.rs",)
        impact = engine.code.impact(ImpactRequest("a.rs", root=str(project)))
        assert impact.tests == ("a.rs",)


def test_what_a_moved_file_had_before_is_neither_new_nor_changed(project: Path) -> None:
    page = "def fold(paper):\n    return paper[:1]\n\n\ndef unfold(paper):\n    return paper * 2\n"
    commit(project, "pages", {"shop/papers.py": page})
    (project / "shop/papers.py").unlink()
    (project / "core").mkdir()
    (project / "core/folding.py").write_text(page.replace("* 2", "* 3") + "\n\ndef cut(paper):\n    return paper[0]\n")
    with engine_of(project) as engine:
        found = engine.knowledge.review(ReviewRequest(path=str(project)))
    assert [one.name for one in found.symbols] == ["cut", "unfold"]
    assert [one.message for one in found.findings if one.kind == "untested"] == [
        "cut is new, and no test names it",
        "unfold was changed, and no test was",
    ]


def test_a_repository_without_commits_is_named_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    root = str(tmp_path)
    with engine_of(tmp_path) as engine:
        for ask in (
            lambda: engine.knowledge.review(ReviewRequest(path=root)),
            lambda: engine.search(SearchRequest("x", (root,), at="HEAD")),
        ):
            with pytest.raises(NotFound, match="this repository has no commits yet"):
                ask()
        assert engine.code.map(MapRequest(root)).notes == ("no git history: this repository has no commits yet",)
        patterns = engine.knowledge.patterns(PatternsRequest(path=root))
    assert "this repository has no commits yet: trends are not known" in patterns.notes


def test_a_branch_is_compared_with_where_it_left(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    with engine_of(root) as engine:
        against = engine.knowledge.review(ReviewRequest("HEAD~1", path=str(root)))
        assert [f.path for f in against.files] == ["main.go"]
        assert engine.knowledge.review(ReviewRequest(path=str(root))).files == ()
        with pytest.raises(NotFound):
            engine.knowledge.review(ReviewRequest("--output=x", path=str(root)))
        with pytest.raises(UsageError, match=r"is a range.* `codeinfo review 'HEAD~1'`"):
            engine.knowledge.review(ReviewRequest("HEAD~1..HEAD", str(root)))


def test_without_a_history_there_is_no_review(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with engine_of(tmp_path) as engine, pytest.raises(UsageError, match="no history"):
        engine.knowledge.review(ReviewRequest(path=str(tmp_path)))


def test_a_review_without_changes_says_how_to_compare_with_another_commit(project: Path, codeinfo: RunCli) -> None:
    advice = codeinfo("review", cwd=project).stdout
    assert re.fullmatch(r"against \w{12}\nnote: nothing differs from \w{12}; to compare with another .*\n", advice)
    assert codeinfo("review", "HEAD", cwd=project).returncode == 0
    for name in ("yarn.lock", "Cargo.lock", "composer.lock", "package-lock.json"):
        (project / name).write_text("{}\n")
    left_out = codeinfo("review", cwd=project).stdout.partition("\n")[2]
    names = "yarn.lock, Cargo.lock, composer.lock and 1 more"
    assert left_out == f"note: not compared, since the index leaves them out: {names}\n"


def test_methods_of_a_hidden_class_need_no_test_that_names_them(project: Path) -> None:
    (project / "pkg" / "adapter.py").write_text(ADAPTER + "\n\nclass _Pool:\n    def take(self):\n        return 1\n")
    test = project / "tests" / "test_adapter.py"
    test.write_text(test.read_text() + "    assert Adapter().send(2) == 3\n")
    assert review(project) == []
    (project / "pkg" / "adapter.py").write_text(ADAPTER + "\n\nclass Pool:\n    def take(self):\n        return 1\n")
    assert [message for _, _, message in review(project)] == ["Pool.take is new, and no test names it"]


def test_callers_are_those_of_the_product(project: Path) -> None:
    users = {f"{{}}/use{number}.py": "from pkg.web import fetch\n\nfetch(1)\n" for number in range(5)}
    commit(project, "examples", {path.format("docs_src"): text for path, text in users.items()})
    (project / "pkg" / "web.py").write_text(START["pkg/web.py"].replace("return ", "return 1 + "))
    assert [kind for kind, _, _ in review(project)] == ["untested"]
    for path, text in users.items():
        (project / path.format("pkg")).write_text(text)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "users", "--", *(path.format("pkg") for path in users))
    assert [kind for kind, _, _ in review(project)] == ["untested", "callers"]


def test_the_place_of_a_finding_has_its_whole_path(project: Path) -> None:
    users = {f"use{number}.py": "from my_pkg.web import fetch\n\nfetch(1)\n" for number in range(5)}
    files = {"my-app/my_pkg/web.py": START["pkg/web.py"], "my-app/my_pkg/__init__.py": ""}
    commit(project, "app", {**files, **{f"my-app/{path}": text for path, text in users.items()}})
    (project / "my-app/my_pkg/web.py").write_text(START["pkg/web.py"].replace("return ", "return 1 + "))
    assert ("callers", "my-app/my_pkg/web.py:4") in [(kind, place) for kind, place, _ in review(project)]


def test_what_overrides_another_is_no_other_call_and_needs_no_test_by_name() -> None:
    was, now = (
        "class A {\n  fun size(): Int = 1\n}",
        "class A : B {\n  override fun size(): Int = 1\n  override fun take() {}\n}",
    )
    holder = Definition("A", "A", "class", "class A", "", 1, 3)
    size = Definition("size", "A.size", "method", "fun size(): Int", "", 2, 2)
    over = Definition("size", "A.size", "method", "override fun size(): Int", "", 2, 2)
    take = Definition("take", "A.take", "method", "override fun take()", "", 3, 3)
    change = Revision(
        compare("A.kt", was, now), Version(was, (holder, size)), Version(now, (holder, over, take)), is_product=True
    )
    assert find_api_changes([change]) == []
    test = Revision(compare("ATest.kt", None, "x"), Version(), Version("x"), FileKind.TEST)
    assert find_untested([change, test], lambda path, name: False) == []
    assert [one.message for one in find_untested([change], lambda path, name: False)] == [
        "A.take is new, and no test names it",
        "A.size was changed, and no test was",
    ]


def test_operators_and_functions_of_traits_need_no_test_that_names_them(project: Path) -> None:
    rust = "pub struct Shop;\n\nimpl Ord for Shop {\n    fn cmp(&self, other: &Self) -> Ordering { Equal }\n}\n"
    (project / "pkg" / "stock.py").write_text("class Stock:\n    def __len__(self):\n        return 1\n")
    (project / "src").mkdir()
    (project / "src" / "shop.rs").write_text(rust)
    test = project / "tests" / "test_adapter.py"
    test.write_text(test.read_text() + "    assert Adapter().send(2) == 3\n")
    assert review(project) == []


def test_a_test_of_the_change_names_what_it_calls_on_an_unknown_value(project: Path) -> None:
    pool = "\n\nclass Pool:\n    def take(self):\n        return 1\n\n    def give(self):\n        return 2\n"
    (project / "pkg" / "adapter.py").write_text(ADAPTER + pool)
    test = project / "tests" / "test_adapter.py"
    test.write_text(test.read_text() + "\n\ndef take():\n    pass\n\n\ndef test_pool(made):\n    made[0].take()\n")
    assert [message for _, _, message in review(project)] == ["Pool.give is new, and no test names it"]


def test_a_test_of_a_class_with_one_function_is_a_test_of_that_function(project: Path) -> None:
    job = "\n\nclass SendJob:\n    def __init__(self):\n        self.sent = 0\n\n"
    job += "    def perform(self):\n        return 1\n"
    (project / "pkg" / "adapter.py").write_text(ADAPTER + job)
    test = project / "tests" / "test_adapter.py"
    named = test.read_text() + "\n\ndef test_job():\n    run_now(SendJob)\n"
    test.write_text(named.replace("import Adapter", "import Adapter, SendJob"))
    assert [message for _, _, message in review(project)] == []
    (project / "pkg" / "adapter.py").write_text(ADAPTER + job + "\n    def undo(self):\n        return 1\n")
    assert [message for _, _, message in review(project)] == [
        "SendJob.perform, SendJob.undo are new, and no test names them"
    ]


def test_what_is_new_is_not_tested_by_what_names_something_else(project: Path) -> None:
    """Tests that were there cannot use it: they name another thing, or the data class that it now belongs to."""
    before = "from dataclasses import dataclass\n\n\n@dataclass\nclass Limit:\n    rate: int = 0\n"
    test = "from pkg.limit import Limit\n\n\ndef test_limit(lamp):\n    assert Limit(2).rate == lamp.raise_burst()\n"
    commit(project, "data", {"pkg/limit.py": before, "tests/test_limit.py": test})
    (project / "pkg" / "limit.py").write_text(before + "\n    def raise_burst(self):\n        return 1\n")
    assert [message for _, _, message in review(project)] == ["Limit.raise_burst is new, and no test names it"]


def test_what_an_interface_declares_needs_no_test(project: Path) -> None:
    declared = "interface Shop {\n    int open(int at);\n\n    default int close() {\n        return 1;\n    }\n}\n"
    test = {"src/test/java/CartTest.java": "class CartTest {\n    @Test void adds() {}\n}\n"}
    test["src/main/java/Cart.java"] = "class Cart {\n}\n"
    commit(project, "java", {"src/main/java/Shop.java": declared, **test})
    (project / "src/main/java/Shop.java").write_text(declared.replace("int at);", "int at);\n\n    int pay(int sum);"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert (packet.findings, packet.missing_tests) == ((), ())
    (project / "src/main/java/Shop.java").write_text(declared.replace("return 1", "return 2"))
    assert [message for _, _, message in review(project)] == ["Shop.close was changed, and no test was"]


def test_a_new_file_that_is_missing_from_the_list_of_its_neighbours(project: Path) -> None:
    names = ("list", "read", "write", "watch")
    command = "package {0}\n\nfunc New() int {{ return 1 }}\n"
    imports = "".join(f'\t"shop.dev/command/{name}"\n' for name in names)
    calls = ", ".join(f"{name}.New()" for name in names)
    registry = f"package command\n\nimport (\n{imports})\n\nvar all = []int{{{calls}}}\n"
    sources = {f"command/{name}/{name}.go": command.format(name) for name in names}
    commit(project, "go", {"go.mod": "module shop.dev\n", "command/registry.go": registry, **sources})
    (project / "command" / "drop").mkdir()
    (project / "command" / "drop" / "drop.go").write_text(command.format("drop"))
    missing = "nothing imports this new file; command/registry.go imports 4 of its 4 neighbours"
    assert ("unused", "command/drop/drop.go", missing) in review(project)
    added = registry.replace("import (\n", 'import (\n\t"shop.dev/command/drop"\n').replace(
        "{list", "{drop.New(), list"
    )
    (project / "command" / "registry.go").write_text(added)
    assert review(project) == []
    with engine_of(project) as engine:
        request = SearchRequest(
            "add a command that reads all", paths=(str(project),), purpose="edit", globs=("command/*/*",)
        )
        card = engine.search(request).preflight
        other = engine.search(replace(request, query="make the command that reads faster")).preflight
    assert card is not None
    assert other is not None
    line = "for a new file beside the first result: command/registry.go imports 4 of the 4 there"
    assert card.patterns is not None
    assert line in card.patterns.do
    assert other.patterns is None or line not in other.patterns.do


def test_overloads_have_one_name(project: Path) -> None:
    text = "fun show(at: Int) = at + 1\n\nfun show(at: Long) = at + 1\n"
    test = {"src/test/kotlin/CartTest.kt": "class CartTest {\n    @Test fun adds() {}\n}\n"}
    test["src/main/kotlin/Cart.kt"] = "class Cart\n"
    commit(project, "kotlin", {"src/main/kotlin/Show.kt": text, **test})
    (project / "src/main/kotlin/Show.kt").write_text(text.replace("+ 1", "+ 2"))
    assert [message for _, _, message in review(project)] == ["show was changed, and no test was"]


def test_a_caller_is_no_import_of_what_it_calls(project: Path) -> None:
    (project / "pkg" / "adapter.py").write_text(ADAPTER.replace("class Adapter:", "class Adapter(object):"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    callers = {symbol.name: symbol.callers for symbol in packet.symbols}
    assert callers == {"Adapter": ("pkg/web.py:5", "tests/test_adapter.py:5")}


BUILT_IN = built_in_detectors()


@pytest.mark.parametrize(
    ("name", "adoption", "guidance", "said"),
    [
        ("httpx", 11, "", True),
        ("httpx", 30, "", False),  # many do so
        ("httpx", 30, "avoid", True),
        ("structlog", 11, "", False),  # answers another question
    ],
)
def test_only_a_rare_way_is_unusual(name: str, adoption: int, guidance: str, said: bool) -> None:
    position = next(at for at, one in enumerate(BUILT_IN) if (one.language, one.name) == ("python", name))
    question = BUILT_IN[position].question
    common = PatternUse(
        "requests", "data access", "how HTTP is called", "python", 84, 9, 9, "Rising", "2026-01-01", "use"
    )
    other = replace(common, name=name, question=question, adoption=adoption, guidance=guidance)
    change = compare("a.py", "x\n", "x\ny\n")
    found = find_unusual_patterns({"a.py": [(position, 2)]}, [change], BUILT_IN, {"a.py": [common, other]})
    assert bool(found) is said


def test_a_file_that_could_not_be_parsed_as_it_was_has_nothing_new(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pkg" / "adapter.py").write_text(ADAPTER + "\n\ndef more():\n    return 1\n")
    with engine_of(project) as engine:
        request = ReviewRequest(path=str(project))
        before = engine.knowledge.review(request)
        assert [(one.kind, one.message) for one in before.findings] == [
            ("untested", "more is new, and no test names it")
        ]
        monkeypatch.setattr(pool, "time_limit_s", lambda text, settings: 0.0)  # a machine that is too busy
        found = engine.knowledge.review(request)
    assert found.notes == ("the old pkg/adapter.py could not be parsed: what it defined before is unknown",)
    assert [one.message for one in found.findings] == ["more was changed, and no test was"]


def test_a_test_with_another_name_is_not_gone(project: Path) -> None:
    test = project / "tests" / "test_pool.py"
    body = "    made = pool()\n    assert made.take() == 1\n    made.give(1)\n"
    commit(
        project, "a test", {"tests/test_pool.py": f"def test_take():\n{body}\n\ndef test_give():\n    assert give()\n"}
    )
    commit(project, "a class", {"tests/PoolTests.cs": "class PoolTests\n{\n    public PoolTests() {}\n}\n"})
    (project / "tests" / "PoolTests.cs").write_text("class PoolTests\n{\n}\n")
    test.write_text(f"def test_what_is_taken_comes_from_the_pool():\n{body}")
    assert [message for kind, _, message in review(project) if kind == "expectation"] == ["the test test_give is gone"]


def test_moved_functions_are_not_new_and_changed_ones_come_once(project: Path) -> None:
    parts = [f"def {name}(a):\n    return [a, 1]\n" for name in "abc"]
    commit(project, "more", {"pkg/parts.py": "\n\n".join(parts), "pkg/other.py": "def d(a):\n    return a\n"})
    (project / "pkg" / "parts.py").write_text(parts[0].replace("1", "2"))
    (project / "pkg" / "more.py").write_text("\n\n".join(parts[1:]))
    (project / "pkg" / "other.py").write_text("def d(a):\n    b = a\n    return b\n")
    assert [(place, message) for kind, place, message in review(project) if kind == "untested"] == [
        ("pkg/other.py:1", "d, a were changed, and no test was")
    ]


def test_code_in_a_language_without_tests_misses_none(project: Path) -> None:
    commit(project, "a page", {"web/draw.js": "export function draw() {\n  return 1;\n}\n"})
    (project / "web/draw.js").write_text("export function draw() {\n  return 2;\n}\n\nexport function more() {}\n")
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
        assert (packet.findings, packet.missing_tests) == ((), ())
        (project / "web/draw.test.js").write_text("test('draws', () => {});\n")
        assert [one.kind for one in engine.knowledge.review(ReviewRequest("HEAD", path=str(project))).findings]


def test_functions_without_a_test_come_once_a_file_and_renamed_ones_are_not_new(project: Path) -> None:
    body = "    total = 0\n    for one in given:\n        total += one\n    return total\n"
    commit(project, "more", {"pkg/sums.py": f"def old(given):\n{body}\n\ndef other(given):\n    return 1\n"})
    (project / "pkg" / "sums.py").write_text(
        f"def new(given):\n{body}\n\ndef other(given):\n    return 2\n\n\n"
        "def a():\n    pass\n\n\ndef b():\n    return [1]\n"
    )
    assert [message for kind, _, message in review(project) if kind == "untested"] == [
        "a, b are new, and no test names them",
        "other was changed, and no test was",
    ]


def test_a_test_of_rust_outside_of_a_module_is_a_test_and_more_findings_are_counted(project: Path) -> None:
    commit(project, "crate", {"src/lib.rs": "pub fn add(a: i32) -> i32 {\n    a\n}\n"})
    (project / "src" / "lib.rs").write_text(
        "pub fn add(a: i32) -> i32 {\n    a + 1\n}\n\n#[tokio::test]\n#[ignore]\nasync fn adds() {\n    add(1);\n}\n"
    )
    listed = ", ".join(f'"lib{number}"' for number in range(12))
    (project / "pyproject.toml").write_text(f'[project]\nname = "pkg"\ndependencies = ["click>=8", {listed}]\n')
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert {one.kind for one in packet.findings} == {"dependency"}
    assert packet.missing_tests == ()
    assert packet.notes == ("2 more findings of the kind dependency are not listed",)


def test_a_decorator_is_part_of_what_it_decorates_and_a_new_name_is_no_change(project: Path) -> None:
    text = (
        "class Cart:\n    limit = 3\n\n    def pay(self):\n        return 1\n\n    def empty(self):\n        return 2\n"
    )
    commit(project, "carts", {"pkg/cart.py": text})
    edited = text.replace("    def pay", "    @staticmethod\n    def pay").replace("def empty", "def clear")
    (project / "pkg/cart.py").write_text(edited)
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert [one.name for one in packet.symbols] == ["Cart.pay", "Cart.clear"]
    untested = [one.message for one in packet.findings if one.kind == "untested"]
    assert untested == ["Cart.pay was changed, and no test was"]


def test_what_an_existing_class_overrides_is_reached_through_its_base(project: Path) -> None:
    base = "class Base:\n    def load(self):\n        return []\n"
    pages = "from pkg.base import Base\n\n\nclass Page(Base):\n    def show(self):\n        return 1\n"
    commit(project, "pages", {"pkg/base.py": base, "pkg/page.py": pages})
    (project / "pkg/page.py").write_text(pages + "\n    def load(self):\n        return [2]\n")
    assert [message for kind, _, message in review(project) if kind == "untested"] == []
    (project / "pkg/page.py").write_text(pages + "\n    def save(self):\n        return [2]\n")
    messages = [message for kind, _, message in review(project) if kind == "untested"]
    assert messages == ["Page.save is new, and no test names it"]


def test_tests_beside_the_code_are_no_changed_symbols_and_a_file_is_a_caller_once(project: Path) -> None:
    code = "pub fn add(a: u8) -> u8 {\n    a\n}\n"
    inside = (
        "\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        add(1);\n    }\n}\n"
    )
    users = {f"src/{name}.rs": "use crate::a::add;\n\npub fn run() {\n    add(1);\n    add(2);\n}\n" for name in "bc"}
    lib = {"src/lib.rs": "pub mod a;\npub mod b;\npub mod c;\n", "Cargo.toml": '[package]\nname = "x"\n'}
    commit(project, "rust", {"src/a.rs": code + inside, **users, **lib})
    (project / "src/a.rs").write_text((code + inside).replace("    a\n", "    a + 1\n").replace("add(1)", "add(3)"))
    with engine_of(project) as engine:
        symbols = engine.knowledge.review(ReviewRequest("HEAD", path=str(project))).symbols
    assert [(one.name, one.callers) for one in symbols] == [("add", ("src/b.rs:4", "src/c.rs:4"))]


def test_where_nothing_of_a_kind_is_tested_no_test_is_missed(project: Path) -> None:
    page = "<script setup>\nfunction total() {\n  return 1\n}\n</script>\n<template><p>{{ total() }}</p></template>\n"
    script = "export function sum() {\n  return 1\n}\n"
    test = 'import { sum } from "./sum"\n\nit("sums", () => {\n  expect(sum()).toBe(1)\n})\n'
    files = {"web/Page.vue": page, "web/Cart.vue": page, "web/sum.js": script, "web/sum.test.js": test}
    commit(project, "pages", {**files, "web/other.js": script.replace("sum", "other")})
    for name in ("web/Page.vue", "web/other.js"):
        (project / name).write_text((project / name).read_text().replace("return 1", "return 2"))
    with engine_of(project) as engine:
        packet = engine.knowledge.review(ReviewRequest("HEAD", path=str(project)))
    assert packet.missing_tests == ("web/other.js",)
    assert [one.message for one in packet.findings] == ["other was changed, and no test was"]


def test_what_a_component_takes_out_of_its_properties_is_no_interface(project: Path) -> None:
    text = "export const Cart = ({ items, total }: CartProps) => {\n  return total;\n};\n"
    commit(project, "cart", {"web/cart.ts": text})
    (project / "web/cart.ts").write_text(text.replace("total }", "total, onPay }"))
    assert [message for kind, _, message in review(project) if kind == "api"] == []
    (project / "web/cart.ts").write_text(text.replace("CartProps", "BasketProps"))
    assert [message for kind, _, message in review(project) if kind == "api"] != []


def test_a_package_of_rust_with_another_name_here_is_no_new_one(project: Path) -> None:
    manifest = '[package]\nname = "x"\n[dependencies]\n'
    commit(project, "crate", {"Cargo.toml": f'{manifest}tree-lib = {{ package = "tree", version = "1" }}\n'})
    (project / "Cargo.toml").write_text(f'{manifest}tree = "1"\n')
    assert [message for kind, _, message in review(project) if kind == "dependency"] == []


def test_what_is_reached_through_others_or_is_a_release_needs_no_test(project: Path) -> None:
    ruby = "class Cart\n  def pay\n    total\n  end\n\n  private\n\n    def total\n      1\n    end\n{}end\n"
    files = {
        "lib/cart.rb": "class Cart\nend\n",
        "lib/version.rb": 'def release\n  "1.2.3"\nend\n',
        "pkg/api/stock.py": "def count():\n    return 1\n",
        "pkg/api/tests/test_all.py": "def test_all():\n    pass\n",
        "spec/cart_spec.rb": "it { 1 }\n",
    }
    commit(project, "shop", files)
    (project / "lib/version.rb").write_text('def release\n  "1.2.4"\nend\n')
    (project / "pkg/api/stock.py").write_text("def count():\n    return 2\n")
    assert [message for _, _, message in review(project)] == ["count was changed, and no test was"]
    with engine_of(project) as engine:
        assert engine.knowledge.review(ReviewRequest("HEAD", path=str(project))).missing_tests == ()
    (project / "pkg/api/stock.py").write_text(files["pkg/api/stock.py"])
    (project / "lib/cart.rb").write_text(ruby.format("\n  def sum\n    2\n  end\n"))
    assert [message for _, _, message in review(project)] == ["Cart.pay is new, and no test names it"]
    adapter = (
        ADAPTER
        + "\n\ndef sign(x):\n    return Signer().make(x)\n\n\nclass Signer:\n    def make(self, x):\n        return x\n"
    )
    (project / "pkg" / "adapter.py").write_text(adapter)
    (project / "tests/test_sign.py").write_text("from pkg.adapter import sign\n\n\ndef test_sign():\n    sign(1)\n")
    (project / "lib/cart.rb").write_text(files["lib/cart.rb"])
    assert review(project) == []


def test_where_marks_make_a_test_what_has_none_is_no_test_that_is_gone(project: Path) -> None:
    steps = "class CartTests\n{\n    [BeforeFeature]\n    public void Start() {}\n\n"
    steps += "    [Fact]\n    public void Adds() {}\n}\n"
    commit(project, "steps", {"tests/CartTests.cs": steps})
    (project / "tests/CartTests.cs").write_text("class CartTests\n{\n}\n")
    gone = [message for kind, _, message in review(project) if kind == "expectation"]
    assert gone == ["the test CartTests.Adds is gone"]


def test_two_long_signatures_are_shown_where_they_differ() -> None:
    start = ", ".join(f"first_parameter_{number}: str" for number in range(8))
    before, after = (
        Definition("pay", "pay", "function", f"def pay({start}, last: {kind})", "", 1, 9) for kind in ("int", "bool")
    )
    revision = Revision(compare("a.py", "x\n", "y\n"), Version("x\n", (before,)), Version("y\n", (after,)))
    (found,) = find_api_changes([replace(revision, is_product=True)])
    assert found.finding.message == "pay was …last: int), is …last: bool)"


def test_parameters_behind_the_stored_part_of_a_signature_count() -> None:
    """Parsing keeps 200 characters: a parameter at the end of many was missed, or taken for a change that matters."""
    parameters = [f"first_parameter_{number}: str | None = None" for number in range(8)]

    def messages(added: str) -> list[str]:
        texts = [f"def pay(\n    {', '.join(one)},\n):\n    pass\n" for one in (parameters, [*parameters, added])]
        kept = [Definition("pay", "pay", "function", " ".join(text.split())[:200], "", 1, 4) for text in texts]
        before, after = (Version(text, (definition,)) for text, definition in zip(texts, kept, strict=True))
        revision = Revision(compare("a.py", *texts), before, after)
        return [found.finding.message for found in find_api_changes([replace(revision, is_product=True)])]

    assert messages("is_new: bool = False") == messages("versions: Set<Version> = [.http1]") == []
    last = "first_parameter_7: str | None = None"
    assert messages("is_new: bool") == [f"pay was …{last}), is …{last}, is_new: bool)"]


def test_lines_are_those_of_git(project: Path) -> None:
    """A form feed and the separators of Unicode end no line there."""
    text = '"""\f\u2028"""\r\n\r\n\r\ndef pay():\r\n    return {}\r\n'
    commit(project, "pay", {"pkg/[id] pay.py": text.format(1)})
    (project / "pkg/[id] pay.py").write_text(text.format(2), newline="")
    assert review(project) == [("untested", "pkg/[id] pay.py:4", "pay was changed, and no test was")]


def test_the_first_line_of_a_definition_without_a_syntax_tree_is_no_signature() -> None:
    texts = ("sub token { 1 }\n", "sub token { 2 }\n")

    def messages(path: str) -> list[str]:
        before, after = (Version(text, (Definition("token", "token", "method", text, "", 1, 1),)) for text in texts)
        revision = Revision(compare(path, *texts), before, after, is_product=True)
        return [found.finding.message for found in find_api_changes([revision])]

    assert messages("Cart.pm") == []
    assert len(messages("cart.rb")) == 1
