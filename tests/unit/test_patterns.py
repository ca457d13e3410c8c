"""Patterns: every detector on its own example, and a team's repository whose figures were worked out by hand."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import pytest
from patience import is_quick
from team_tools import DAY, NOW, build_history, build_team, engine_of

from codeinfo.engine import Engine
from codeinfo.errors import UsageError
from codeinfo.index.pool import PatternSandbox
from codeinfo.knowledge.detectors import (
    PRODUCT,
    TEST,
    TESTING,
    CodeText,
    Detector,
    Matcher,
    built_in_detectors,
    import_of,
    project_detectors,
    role_of,
)
from codeinfo.knowledge.history import LineDates
from codeinfo.knowledge.patterns import FileHints, advice_line, in_area
from codeinfo.model import FileKind
from codeinfo.operations.knowledge import (
    PATTERN_CATEGORIES,
    MetadataRequest,
    PatternHistory,
    PatternReport,
    PatternsRequest,
)
from codeinfo.operations.search import SearchRequest
from codeinfo.shells import render_code  # noqa: F401  (it registers)
from codeinfo.shells.render import render
from codeinfo.shells.terminal import Output

BUILT_IN = built_in_detectors()
LANGUAGE = {"javascript": "typescript"}


def name(detector: Detector) -> str:
    return f"{detector.language}-{detector.name}"


@pytest.mark.parametrize("detector", BUILT_IN, ids=name)
def test_a_detector_finds_its_example(detector: Detector) -> None:
    language = LANGUAGE.get(detector.language, detector.language)
    text = "\n".join([detector.example, *(f'import {{ a }} from "{word}core"' for word in detector.within[:1])])
    path = detector.paths[0].replace("*", "a") if detector.paths else "a"
    role = TEST if detector.category == TESTING else PRODUCT
    assert Matcher([detector]).uses(text, language, path, role), detector.expression
    assert not Matcher([detector]).uses(text, language, path, PRODUCT if role == TEST else TEST)
    assert detector.category in PATTERN_CATEGORIES


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("csharp", "public Address(IPAddress address, IPNetwork? subnet) {}"),  # no interface
        ("csharp", "var status = eventArgs.Result.Status;"),  # no task
        ("csharp", "services.AddSingleton<IGuide>(s => s.GetRequiredService<Guide>());"),  # put together, not located
        ("java", "class Wrapper {\n    @Override\n    public Mode getMode() {\n        return mode;\n    }\n}"),
        ("java", "class Wrapper {\n    public Mode getMode() {\n        return delegate.getMode();\n    }\n}"),
        ("java", "class Breaker {\n    boolean isOpen() {\n        return !checkState();\n    }\n}"),  # not Guava's
        ("java", "import org.jetbrains.annotations.NotNull;\nclass A {\n    void a(@NotNull B b) {}\n}"),  # no check
        ("java", "class Pool {\n    private final ThreadFactory threads;\n}"),
        ("kotlin", "val result: Flowable<User> = log.println(a)"),
    ],
)
def test_what_only_looks_like_a_pattern_is_none(language: str, text: str) -> None:
    matcher = Matcher(BUILT_IN)
    assert [matcher.detectors[use[0]].name for use in matcher.uses(text, language, "a", PRODUCT)] == []


def test_own_functions_called_like_those_of_a_library_are_none_of_it(tmp_path: Path) -> None:
    own = "import useQuery from './useQuery'\nconst params = useQuery()\nconst c = createContext({ expression })\n"
    routes = "import Router from 'koa-router'\nconst expression = 1\nconst router = new Router()\n"
    made = {"package.json": '{"dependencies": {"react": "19"}}', **files("src", own + routes, 4, ".ts")}
    found = advice(build_history(tmp_path / "r", (5, "Ann", made)))
    assert not {"TanStack Query", "React context", "Express"}.intersection(found)


def test_a_frameworks_words_count_only_where_it_is_used() -> None:
    text = "class Shop {\n  constructor(private stock: Stock) {}\n}\n"
    matcher = Matcher(BUILT_IN)
    assert not [use for use in matcher.uses(text, "typescript", "a.ts", PRODUCT) if matcher.detectors[use[0]].within]
    angular = f'import {{ Injectable }} from "@angular/core";\n{text}'
    found = [matcher.detectors[use[0]].name for use in matcher.uses(angular, "typescript", "a.ts", PRODUCT)]
    assert "constructor parameters" in found


@pytest.mark.parametrize(
    ("language", "role", "text", "answers"),
    [
        ("kotlin", PRODUCT, "package shop\nimport org.jetbrains.exposed.sql.Table\n", ["Exposed"]),
        ("kotlin", PRODUCT, "package org.jetbrains.exposed.sql\nimport org.jetbrains.exposed.core.Op\n", []),  # itself
        ("python", TEST, "class TestCart:\n    def test_total(self):", ["pytest functions and classes"]),
        ("python", TEST, "class TestCart(CartTestCase):\n    def test_total(self):", ["unittest.TestCase"]),
        ("python", TEST, "class TestCartMixin:\n    def test_total(self):", []),
        ("go", PRODUCT, 'import (\n\t"shop.dev/modules/log"\n)\nlog.Printf("a")', ["custom log package"]),
        ("go", PRODUCT, 'import (\n\t"log"\n\t"github.com/rs/zerolog/log"\n)\n', ["zerolog"]),
        ("go", PRODUCT, "type Shop struct {\n\tl *slog.Logger\n}\n", ["log/slog"]),
        ("ruby", TEST, "describe Cart do\n  it 'sells' do", ["it blocks"]),  # of Minitest as well
    ],
)
def test_a_way_of_writing_is_named_as_it_is(language: str, role: str, text: str, answers: list[str]) -> None:
    matcher = Matcher(BUILT_IN)
    asked = {"how the database is reached", "test framework", "how tests are written"}
    asked |= {"how messages are written"} if language == "go" else set()
    found = [matcher.detectors[position] for position, _ in matcher.uses(text, language, "shop/a", role)]
    assert list(dict.fromkeys(one.name for one in found if one.question in asked)) == answers


@pytest.mark.parametrize(
    ("text", "answer", "counts"),
    [
        ("let a = config::Config::builder();", "config crate", True),
        ("use crate::{config::Config, error::Error};", "config crate", False),
    ],
)
def test_only_what_leaves_a_choice_is_an_answer(text: str, answer: str, counts: bool) -> None:
    matcher = Matcher(BUILT_IN)
    found = [matcher.detectors[use[0]].name for use in matcher.uses(text, "rust", "src/a.rs", PRODUCT)]
    assert (answer in found) is counts


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("public Users(IStore store) { _store = store; }", ["constructor injection"]),
        ("public Users(IStore store) : base(store)", ["constructor injection"]),
        ("public Users(IUser user) { Id = user.Id; }", []),  # a copy of its values
        ("public Users(IDictionary<string, int> all, IEqualityComparer<int> by)", []),  # values, no services
        ("public Users(IList<int> all, IClock clock) => _clock = clock;", ["constructor injection"]),
        ("ValidationUtils.ArgumentNotNull(value, nameof(value));", ["a guard of the project"]),
        ("Guard.Against.Null(value, nameof(value));", ["a guard of the project"]),
        ("Assert.NotNull(value);", []),
    ],
)
def test_collections_are_not_injected_and_guards_have_helpers(text: str, answers: list[str]) -> None:
    matcher = Matcher(BUILT_IN)
    found = [matcher.detectors[use[0]].name for use in matcher.uses(text, "csharp", "src/A.cs", PRODUCT)]
    assert found == answers


def test_a_react_context_is_no_rival_of_a_store() -> None:
    assert [one.advice for one in BUILT_IN if one.name == "React context"] == [False]


def test_a_question_has_at_least_two_answers() -> None:
    """A share of one is always 100 % and says nothing."""
    questions: dict[tuple[str, str], set[str]] = {}
    for detector in BUILT_IN:
        questions.setdefault((detector.language, detector.question), set()).add(detector.name)
    assert all(len(answers) > 1 for answers in questions.values())


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "# print('x')\n"),
        ("python", '"""\nprint("x")\n"""\n'),
        ("python", "text = 'call os.environ here'\n"),
        ("javascript", "// console.log(1)\n"),
        ("javascript", "/* \n console.log(1)\n*/"),
        ("javascript", "  async fetch(\n    url: string,\n"),  # a method of that name
        ("javascript", "  fetch(url: string) {\n"),
        ("go", '// fmt.Println("a")\n'),
        ("csharp", "global using Ardalis.Result;\ncontext.Result = found;\n"),
        ("typescript", 'import { Request } from "express"\n'),  # a type of it declares no route
        ("rust", '/* println!("a") */'),
        (
            "java",
            "import org.apache.logging.log4j.Level;\nimport java.util.logging.Handler;\n",
        ),  # sets up another's log
        ("java", 'String version = System.getProperty("java.version");\n'),  # a fact, not a setting
        ("ruby", "# puts name\nname = 'puts name' # rescue => e\nkind = found ? one : two\n"),
        ("php", "<?php declare(strict_types=0);\n# var_dump($a)\n// error_log('a')\n$a = 'two\nvar_dump($b)';\n"),
    ],
)
def test_what_only_looks_like_a_use_is_none(language: str, text: str) -> None:
    assert Matcher(BUILT_IN).uses(text, language, "a", PRODUCT) == []


def test_strict_types_may_be_declared_beside_the_opening_tag() -> None:
    uses = Matcher(BUILT_IN).uses("<?php declare(strict_types=1);\n\nnamespace Shop;\n", "php", "a", PRODUCT)
    assert [BUILT_IN[position].name for position, _ in uses] == ["strict types"]


def test_hostile_text_is_read_once() -> None:
    def read() -> None:
        for family in ("python", "javascript", "go", "java", "csharp", "rust", "php", "ruby"):
            for text in ("/*" * 50_000, '"""' + "\\" * 99_999, "`" + "\\" * 100_001, '@"' * 50_000, '"\\' * 50_000):
                CodeText(text, family).is_code(5)

    assert is_quick(read, 20)


@pytest.mark.parametrize(
    ("days", "expected"), [(0, "Rising"), (60, "Rising"), (61, "Stable"), (179, "Stable"), (180, "Declining")]
)
def test_a_trend_is_the_age_of_the_newest_use(days: int, expected: str) -> None:
    dates = LineDates({}, frozenset(), {}, lambda path: (), lambda path: "", NOW, last_commit=NOW)
    assert dates.trend(NOW - days * DAY) == expected


# --- the team's repository -----------------------------------------------------------------------------------------


@pytest.fixture
def team(tmp_path: Path) -> Path:
    return build_team(tmp_path / "team")


def report_of(engine: Engine, root: Path, **more: Any) -> PatternReport:
    return engine.knowledge.patterns(PatternsRequest(path=str(root), **more))


def test_the_teams_figures(team: Path) -> None:
    with engine_of(team) as engine:
        report = report_of(engine, team)
    seen = {
        (p.area, p.name): (p.adoption, p.files, p.of_files, p.authors, p.trend, p.newest, p.guidance)
        for p in report.patterns
    }
    # Messages are written in five Python files: billing, store and shipping log, orders and reports print: 3/5 and 2/5.
    # The newest logging line is of shipping.py, 30 days before 2026-01-01; the newest print of reports.py, 100 days.
    assert seen[".", "logging module"] == (60, 3, 5, 2, "Rising", "2025-12-02", "prefer")
    assert seen[".", "print"] == (40, 2, 5, 2, "Stable", "2025-09-23", "")
    assert (".", "os.path") not in seen  # what one file does is no habit
    # The web is a package of its own. One file is too few for advice.
    assert seen["web", "inject()"] == (50, 1, 2, 1, "Rising", "2025-12-12", "")
    assert seen["web", "constructor parameters"] == (50, 1, 2, 1, "Stable", "2025-06-15", "")
    assert report.conflicts == ()
    assert report.golden_files == ()  # every file is shorter than 20 lines
    (logging,) = (p for p in report.patterns if p.name == "logging module")
    assert advice_line(logging) == (
        "logging module (how messages are written): 3 of 5 files, 2 authors, newest 2025-12-02, shop/store.py:8"
    )


# --- advice --------------------------------------------------------------------------------------------------------

OLD = "import os\n\n\ndef f(a):\n    return os.path.join(a)\n"
NEW = "from pathlib import Path\n\n\ndef f(a):\n    return Path(a)\n"


def files(folder: str, text: str, count: int, ending: str = ".py") -> dict[str, str]:
    return {f"{folder}/f{zlib.crc32(text.encode())}_{number}{ending}": text for number in range(count)}


def advice(root: Path, **more: Any) -> dict[str, tuple[str, str]]:
    """Trend and guidance of each pattern of a report, by area and name where it is not the top."""
    with engine_of(root) as engine:
        found = report_of(engine, root, **more).patterns
    return {p.name if p.area == "." else f"{p.area} {p.name}": (p.trend, p.guidance) for p in found}


def test_what_another_way_replaces_is_to_be_avoided(tmp_path: Path) -> None:
    root = build_history(
        tmp_path / "r",
        (300, "Ann", files("lib", OLD, 2)),
        (299, "Ben", files("lib/b", OLD, 1)),
        (10, "Ann", files("lib", NEW, 2)),
        (5, "Ben", files("lib/b", NEW, 3)),
    )
    assert advice(root) == {"pathlib": ("Rising", "prefer"), "os.path": ("Declining", "avoid")}
    with engine_of(root) as engine:
        (old,) = (p for p in report_of(engine, root).patterns if p.guidance == "avoid")
        found = engine.search(SearchRequest("f return", paths=(str(root),), context=True, limit=20)).hits
    assert advice_line(old).startswith("os.path (how paths are handled): 3 of 8 files, 2 authors, none since")
    assert "pathlib takes its place" in advice_line(old)
    shown = {hit.path: hit.context for hit in found if hit.context}
    assert {shown[path].pattern_warning for path in files("lib", OLD, 2)} == {advice_line(old)}
    assert {shown[path].pattern_warning for path in files("lib", NEW, 2)} == {""}


def test_what_most_files_do_is_never_avoided(tmp_path: Path) -> None:
    root = build_history(tmp_path / "r", (300, "Ann", files("lib", OLD, 5)), (5, "Ann", files("lib", NEW, 3)))
    assert advice(root) == {"os.path": ("Declining", ""), "pathlib": ("Rising", "prefer")}


def test_an_older_way_is_no_advice_beside_a_common_newer_one(tmp_path: Path) -> None:
    both = build_history(tmp_path / "both", (9, "Ann", files("lib", OLD, 7)), (5, "Ann", files("lib", NEW, 3)))
    assert advice(both) == {"os.path": ("", ""), "pathlib": ("", "")}
    few = build_history(tmp_path / "few", (9, "Ann", files("lib", OLD, 7)), (5, "Ann", files("lib", NEW, 1)))
    assert advice(few)["os.path"] == ("", "use")


def test_the_only_way_does_not_decline(tmp_path: Path) -> None:
    call = "import httpx\n\nclient = httpx.Client()\n"
    root = build_history(tmp_path / "r", (300, "Ann", files("lib", call, 4)), (5, "Ann", {"notes.md": "# Notes\n"}))
    assert advice(root) == {"httpx": ("", "use")}


def test_being_written_less_is_no_decline_where_both_ways_are_fine(tmp_path: Path) -> None:
    old, new = "import requests\n\nrequests.get(URL)\n", "import httpx\n\nclient = httpx.Client()\n"
    root = build_history(tmp_path / "r", (300, "Ann", files("lib", old, 3)), (5, "Ann", files("lib", new, 4)))
    assert advice(root) == {"httpx": ("Rising", "prefer"), "requests": ("Stable", "")}


def test_what_replaces_a_rare_way_is_not_preferred_to_the_usual_one(tmp_path: Path) -> None:
    rare, usual, new = "new XMLHttpRequest()\n", "import axios from 'axios'\n", "await fetch(URL)\n"
    root = build_history(
        tmp_path / "r",
        (300, "Ann", files("lib", rare, 1, ".js")),
        (5, "Ann", files("lib", usual, 5, ".js") | files("lib", new, 3, ".js")),
    )
    found = advice(root)
    assert [found[name] for name in ("XMLHttpRequest", "axios", "fetch")] == [
        ("Declining", ""),
        ("Stable", ""),  # fetch is newer and common, so axios is not advised either
        ("Stable", ""),
    ]


def test_what_gains_is_rising_and_not_what_is_merely_written(tmp_path: Path) -> None:
    old, new = "import requests\n\nrequests.get(URL)\n", "import httpx\n\nclient = httpx.Client()\n"
    both = f"{old}\n{new}"
    root = build_history(
        tmp_path / "r",
        (300, "Ann", files("lib", old, 8) | files("lib", new, 2)),
        (9, "Ben", files("app", new, 3) | files("app", both, 1)),
        (5, "Ann", {"app/one.py": old}),
    )
    # httpx: 6 of 14 files, and 4 of the 5 that changed lately; requests: 10 of 14, and 2 of those 5.
    assert advice(root) == {"httpx": ("Rising", ""), "requests": ("Stable", "prefer")}


def test_what_few_of_many_files_do_says_nothing_about_the_team(tmp_path: Path) -> None:
    """The others have a way that no detector knows."""
    call = 'package shop\n\nimport "database/sql"\n'
    for count, expected in ((400, {}), (100, {"database/sql": ("", "use")})):
        others = {f"shop/f{number}.go": f"package shop\n\nvar x{number} = 1\n" for number in range(count)}
        made = {"go.mod": "module shop\n", **others, **files("lib", call, 3, ".go")}
        found = advice(build_history(tmp_path / str(count), (5, "Ann", made)))
        assert {name: told for name, told in found.items() if name == "database/sql"} == expected, count


def test_a_young_history_has_no_trends(tmp_path: Path) -> None:
    young = build_history(tmp_path / "young", (50, "Ann", files("lib", NEW, 4)), (1, "Ann", files("app", NEW, 4)))
    assert advice(young) == {"pathlib": ("", "use")}
    with engine_of(young) as engine:
        assert "the history is shorter than 60 days: trends are not known" in report_of(engine, young).notes
    old = files("lib", OLD, 2)
    older = build_history(tmp_path / "older", (90, "Ann", files("lib", NEW, 9) | old), (1, "Ann", files("app", NEW, 4)))
    assert advice(older) == {"pathlib": ("Rising", "use"), "os.path": ("Stable", "")}


def test_what_nobody_recommends_is_never_advised(tmp_path: Path) -> None:
    text = "def f():\n    try:\n        print(1)\n    except OSError:\n        pass\n"
    logged = files("app", "import logging\n\nlog = logging.getLogger()\nlog.info(1)\n", 2)
    root = build_history(tmp_path / "r", (5, "Ann", files("lib", text, 9) | logged))
    found = advice(root)
    assert (found["except: pass"], found["print"]) == (("", ""), ("", ""))


def test_what_a_program_prints_is_no_way_of_logging(tmp_path: Path) -> None:
    prints = 'package {0}\n\nfunc Run() {{\n\tfmt.Println("a")\n}}\n'
    program = {"go.mod": "module shop.dev/cli\n", **files("lib", prints.format("lib"), 9, ".go")}
    assert "fmt.Print" not in advice(build_history(tmp_path / "cli", (5, "Ann", program)))
    logged = files("log", 'package log\n\nimport "log/slog"\n\nfunc Log() {\n\tslog.Info("a")\n}\n', 4, ".go")
    main = files("cmd", prints.format("main"), 5, ".go")
    with engine_of(build_history(tmp_path / "server", (5, "Ann", {**program, **logged, **main}))) as engine:
        report = report_of(engine, tmp_path / "server")
    assert {(p.name, p.files) for p in report.patterns} == {("log/slog", 4), ("fmt.Print", 9)}  # not that of `main`


def test_a_few_files_or_one_of_several_people_make_no_team(tmp_path: Path) -> None:
    two = build_history(tmp_path / "two", (5, "Ann", files("lib", NEW, 2)))
    assert advice(two) == {"pathlib": ("", "")}
    one_of_many = build_history(
        tmp_path / "many",
        (9, "Ann", files("lib", NEW, 4)),
        (5, "Ben", {"lib/g.py": "import httpx\n\nclient = httpx.Client()\n"}),
    )
    assert advice(one_of_many)["pathlib"] == ("", "")
    alone = build_history(
        tmp_path / "alone",
        (9, "Ann", files("lib", NEW, 4)),
        (5, "Ann", {"lib/g.py": "import httpx\n\nclient = httpx.Client()\n"}),
    )
    assert advice(alone)["pathlib"] == ("", "use")


def test_only_product_code_says_how_the_team_writes(tmp_path: Path) -> None:
    around = {
        "tests/test_a.py": NEW,
        "docs_src/tutorial.py": NEW,
        "examples/app.py": NEW,
        "scripts/release.py": NEW,
        "setup.py": NEW,
        "benchmarks/run.py": NEW,
    }
    assert advice(build_history(tmp_path / "r", (5, "Ann", around))) == {}


def test_a_framework_counts_only_where_it_is_declared(tmp_path: Path) -> None:
    hooks = "export const f = () => {\n  const [a] = useState(0)\n  useEffect(() => {})\n}\n"
    options = "export default {\n  testEnvironment: 'jsdom',\n}\n"
    sources = {
        **files("timers/src", hooks, 4, ".ts"),
        **files("app/src", f"import {{ useState }} from 'react'\n{hooks}", 4, ".ts"),
        **files("react/src", f"import {{ useState }} from 'react'\n{hooks}", 4, ".ts"),
        "timers/package.json": '{"name": "timers", "devDependencies": {"vue": "3"}}',
        "app/package.json": '{"name": "app", "dependencies": {"react": "19"}}',
        "react/package.json": '{"name": "react"}',
        "timers/src/docs.ts": "export const text = `\nimport { useState } from 'react'\n`\n",
        **{f"timers/jest{n}.config.js": options for n in range(4)},
        **{f"timers/src/settings{n}.js": options for n in range(4)},
    }
    found = advice(build_history(tmp_path / "r", (5, "Ann", sources)))
    assert found["app useState"] == ("", "")
    assert "timers useState" not in found
    assert "react useState" not in found  # React's own code is no example of how to use it
    assert not [name for name in found if "options API" in name]


def test_packages_of_one_repository_are_counted_apart(tmp_path: Path) -> None:
    sources = {
        **files("old/src", OLD, 4),
        **files("new/src", NEW, 4),
        "old/pyproject.toml": '[project]\nname = "old"\n',
        "new/pyproject.toml": '[project]\nname = "new"\n',
    }
    root = build_history(tmp_path / "r", (5, "Ann", sources))
    assert advice(root) == {"old os.path": ("", "use"), "new pathlib": ("", "use")}
    with engine_of(root) as engine:
        report = report_of(engine, root)
    assert [p.name for p in in_area(report, "old/src/deep/more.py", "python").patterns] == ["os.path"]
    assert in_area(report, "scripts.py", "python").patterns == ()
    assert in_area(report, "old/src/a.ts", "typescript").patterns == ()


def test_a_path_narrows_patterns_to_its_packages(tmp_path: Path) -> None:
    packages = {f"libs/{name}/pyproject.toml": f'[project]\nname = "{name}"\n' for name in "abcdef"}
    sources = {path: text for name in "abcdef" for path, text in files(f"libs/{name}/src", NEW, 4).items()}
    root = build_history(tmp_path / "r", (5, "Ann", {**files("src", OLD, 4), **packages, **sources}))
    with engine_of(root) as engine:

        def areas(path: str) -> set[str]:
            report = engine.knowledge.patterns(PatternsRequest(str(root / path)))
            return {one.area for one in report.patterns} | {one.area for one in report.golden_files}

        assert areas("libs/a/src") == areas("libs/a") == {"libs/a"}
        assert areas("libs") == {f"libs/{name}" for name in "abcdef"}
        assert areas("src") == {"."}
        shown = io.StringIO()
        render(engine.knowledge.patterns(PatternsRequest(str(root))), Output(shown))
    assert shown.getvalue().count("pathlib") == 3
    assert "… 3 more packages; `codeinfo patterns libs/" in shown.getvalue()


def test_golden_files_are_product_code_of_today_without_poor_ways(tmp_path: Path) -> None:
    good = NEW + "\n\ndef g(b):\n    logger.info(b)\n" + "\n\nwith suppress(OSError):\n    g(1)\n" + "\n\nx = 1\n" * 6
    sources = {**files("lib", good, 3), "lib/poor.py": good + "\nprint(x)\n", "examples/e.py": good, "lib/tiny.py": NEW}
    old = {f"lib/old{number}.py": good for number in range(2)}
    root = build_history(tmp_path / "r", (500, "Ann", old), (5, "Ann", sources))
    with engine_of(root) as engine:
        golden = report_of(engine, root).golden_files
    assert {file.path for file in golden} == set(files("lib", good, 3))
    assert golden[0].patterns == ("contextlib.suppress", "logging module", "pathlib")


def test_tests_inside_of_a_source_file_are_tests() -> None:
    text = "fn a() { println!() }\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn c() { println!() }\n}\n"
    matcher = Matcher(BUILT_IN)
    found = {(matcher.detectors[at].name, line) for at, line in matcher.uses(text, "rust", "src/a.rs", PRODUCT)}
    assert found == {("println", 1), ("#[test]", 5)}


@pytest.mark.parametrize(
    ("path", "language", "kind", "expected"),
    [
        ("src/app.component.html", "html", FileKind.DOCS, PRODUCT),
        ("docs/page.html", "html", FileKind.DOCS, ""),
        ("src/a.py", "python", FileKind.CODE, PRODUCT),
        ("tests/test_a.py", "python", FileKind.TEST, TEST),
        ("tests/fixtures/a.py", "python", FileKind.TEST, ""),
        ("jest.config.ts", "typescript", FileKind.CODE, ""),
        ("resources/views/base.blade.php", "php", FileKind.CODE, ""),
    ],
)
def test_roles(path: str, language: str, kind: FileKind, expected: str) -> None:
    assert role_of(path, language, kind) == expected


def test_hints_speak_of_the_lines_shown() -> None:
    hints = FileHints([3, 9], [(5, "old"), (6, "older")])
    assert hints.of_lines(1, 4) == ("Rising", "")
    assert hints.of_lines(5, 8) == ("Declining", "old")
    assert hints.of_lines(10, 20) == ("", "")


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


@pytest.mark.parametrize("budget", [{"MOST_BLAMES": 3}, {"BLAME_S": 0.0}])
def test_a_budget_that_ends_leaves_lines_undated_until_the_next_look(
    team: Path, monkeypatch: pytest.MonkeyPatch, budget: dict[str, float]
) -> None:
    for name, value in budget.items():
        monkeypatch.setattr(f"codeinfo.knowledge.history.{name}", value)
    undated = []
    with engine_of(team) as engine:
        for _ in range(15):
            report = engine.knowledge.patterns(PatternsRequest(str(team), history=True))
            undated.append(sum(p.history.undated for p in report.patterns if p.history))
    assert undated == sorted(undated, reverse=True)
    assert undated[0] > undated[-1] == 0


def test_an_edited_file_that_the_budget_did_not_reach_has_no_date(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.knowledge.history.MOST_BLAMES", 0)
    (team / "shop" / "orders.py").write_text((team / "shop" / "orders.py").read_text() + "\n# more\n")
    with engine_of(team) as engine:
        report = report_of(engine, team)
    assert {pattern.newest for pattern in report.patterns} == {""}
    assert any("only 0 files were dated" in note for note in report.notes)


def test_what_is_not_committed_is_of_today(team: Path) -> None:
    own = 'name = "broad"\ncategory = "error handling"\nlanguage = "python"\nregex = "except Exception"\n'
    (team / ".codeinfo.toml").write_text(f"[[patterns]]\n{own}")
    with engine_of(team) as engine:
        report_of(engine, team)
        (team / "shop" / "orders.py").write_text(
            (team / "shop" / "orders.py").read_text() + "\n\ndef close():\n    print('closed')\n"
        )
        seen = {p.name: p for p in report_of(engine, team, category="logging").patterns}
        assert (seen["print"].trend, seen["print"].newest) == ("Rising", "2026-01-01")
        # Its old lines stay old; a project's own pattern is listed for one file too.
        others = {p.name: p.files for p in report_of(engine, team, category="error handling").patterns}
        assert others == {"broad": 1}


def test_after_one_edit_one_file_is_looked_at(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = Matcher.uses

    def watched(self: Matcher, text: str, language: str, path: str, role: str) -> list[tuple[int, int]]:
        looked.append(path)
        return real(self, text, language, path, role)

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
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("import logging\n\nlogging.info(1)\n")
    with engine_of(tmp_path) as engine:
        report = report_of(engine, tmp_path)
    assert [(p.trend, p.newest, p.authors) for p in report.patterns] == [("", "", 0)]
    assert "newest" not in advice_line(report.patterns[0])
    assert "not a git repository" in report.notes[0]
    assert len(report.notes) == 1


def test_a_language_of_which_no_pattern_is_known_is_named(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"pot{number}.swift").write_text(f"class Pot{number} {{}}\n")
    (tmp_path / "a.py").write_text("print(1)\n")
    (tmp_path / "tea.lua").write_text("local tea = 1\n")
    (tmp_path / "Gemfile").write_text("gem 'rack'\n")  # no product
    (tmp_path / "pot.lua").write_text("local pot = 1\n")
    for number in range(9):  # left out of the index, so of no language
        (tmp_path / f"made{number}.py").write_text("# @generated by a tool\n")
    with engine_of(tmp_path) as engine:
        notes = report_of(engine, tmp_path).notes
    assert notes[-1] == "no patterns are built in for lua, swift: .codeinfo.toml may define some"


# --- a project's own patterns --------------------------------------------------------------------------------------


def test_a_project_adds_its_own(team: Path) -> None:
    (team / ".codeinfo.toml").write_text(
        '[[patterns]]\nname = "store calls"\ncategory = "data access"\nlanguage = "python"\nregex = "Store\\\\(\\\\)"\n'
        'paths = ["shop/*"]\n'
    )
    with engine_of(team) as engine:
        (own,) = report_of(engine, team, category="data access").patterns
    assert (own.name, own.files, own.trend) == ("store calls", 2, "")  # shipping.py and reports.py, not the test


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"name": "a"}, "missing required field `category`"),
        ({"name": "a", "category": "logging", "language": "go"}, "either a regex or a query"),
        ({"name": "a", "category": "logging", "language": "go", "regex": "a", "query": "(b) @c"}, "either a regex or"),
        ({"name": "a", "category": "x", "language": "go", "regex": "a"}, "not a category"),
        ({"name": 3, "category": "logging", "language": "go", "regex": "a"}, "Expected `str`, got `int`"),
        ({"name": "a", "colour": "red"}, "unknown field `colour`"),
    ],
)
def test_a_wrong_table_is_refused(table: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        project_detectors([table], PatternSandbox())


def test_a_detectors_words_hide_no_use() -> None:
    """Where a text has its words is only where the expression is tried, so none may be found without one."""
    for detector in BUILT_IN:
        assert detector.words
        assert any(word in detector.example for word in detector.words), detector.name


@pytest.mark.parametrize(
    ("language", "text", "name", "lines"),
    [
        ("php", "<?php\nnamespace App\\Http\\Requests\\API;\nclass Cart extends Request {}\n", "form requests", [2]),
        ("javascript", "const found = await fetch(query ? `${path}?${query}` : path)\n", "fetch", [1]),
        ("javascript", "fetch(url?: string) {}\n", "fetch", []),
        ("php", "<?php\nnamespace App\\Bus;\nclass SendRequest extends Request {}\n", "form requests", []),
        ("python", "class Sender(Thread):\n    pass\n", "threads", [1]),
        ("javascript", "axios\n  .put(url)\n", "axios", [1]),
        ("rust", "struct A {\n    cell: OnceCell<u8>,\n}\npub static B: sync::Lazy<u8> = C;\n", "lazy globals", [4]),
    ],
)  # fmt: skip
def test_what_extends_the_usual_base_counts(language: str, text: str, name: str, lines: list[int]) -> None:
    detectors = [detector for detector in BUILT_IN if detector.name == name and detector.language == language]
    found = Matcher(detectors).uses(text, language, "a", PRODUCT)
    assert [line for _, line in found] == lines


def test_tests_of_php_are_marked_by_annotations_as_well() -> None:
    text = "<?php\nclass CartTest {\n    /** @test */\n    function adds() {}\n\n    /**\n     * @test\n     */\n"
    detectors = [detector for detector in BUILT_IN if detector.question == "how tests are marked"]
    matcher = Matcher([detector for detector in detectors if detector.language == "php"])
    found = matcher.uses(text, "php", "tests/CartTest.php", TEST)
    assert [(matcher.detectors[position].name, line) for position, line in found] == [("@test", 3), ("@test", 7)]


def test_a_match_that_goes_on_to_another_line_is_found_near_its_word() -> None:
    text = "x = 1\n" * 400 + "try:\n    f()\nexcept OSError:\n    pass\n" + "y = 2\n" * 400
    detectors = [detector for detector in BUILT_IN if detector.name == "except: pass"]
    assert Matcher(detectors).uses(text, "python", "a.py", PRODUCT) == [(0, 403)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('_LOGGER.debug("a %s", b)\n', "logging module"),
        ("from aiohttp import (\n    BasicAuth,\n    ClientError,\n)\n", "aiohttp"),
        ("from requests.exceptions import HTTPError\n", "requests"),
        ("import voluptuous as vol\n", "voluptuous"),
    ],
)
def test_libraries_are_counted_however_a_file_uses_them(text: str, name: str) -> None:
    """Otherwise the one whose usual form is known would seem to be the most common."""
    matcher = Matcher(BUILT_IN)
    assert name in {matcher.detectors[use[0]].name for use in matcher.uses(text, "python", "a.py", PRODUCT)}


def test_an_example_is_a_readable_file_of_today_and_no_stand_in(tmp_path: Path) -> None:
    def uses(count: int, lines: int) -> str:
        return "".join(f"def f{at}(a=os.path.sep):\n    return a\n" for at in range(count)) + "x = 1\n" * lines

    others = {
        "lib/huge.py": uses(100, 500),
        "lib/tiny.py": uses(4, 0),
        "lib/once.py": uses(1, 90),
        "lib/poor.py": uses(3, 90) + "print(x)\n",
        "lib/mock_store.py": uses(3, 90),
        "plugin_example/store.py": uses(3, 90),
        "jmh-benchmarks/store.py": uses(3, 90),
        "migrations/store.py": uses(3, 90),
        "lib/ledger.py": uses(9, 300),
    }
    root = build_history(tmp_path / "r", (500, "Ann", {"lib/old.py": uses(3, 90)}), (5, "Ann", others))
    with engine_of(root) as engine:
        (pattern,) = (one for one in report_of(engine, root).patterns if one.name == "os.path")
    assert pattern.examples == ("migrations/store.py:1", "lib/ledger.py:1", "lib/once.py:1")


def test_examples_of_tests_are_tests_and_none_is_better_than_a_bad_one(tmp_path: Path) -> None:
    test = "import { it } from 'vitest';\n" * 3 + "const x = 1;\n" * 30
    sources = {
        "package.json": '{"name": "shop", "devDependencies": {"vitest": "1"}}',
        **{f"src/tests/{name}.ts": test for name in ("a-helper", "vitest.setup", "api-mock", "store.spec")},
        **{f"src/{name}.ts": "export const f = () => fetch(URL);\n" * 900 for name in ("store", "till")},
    }
    root = build_history(tmp_path / "r", (5, "Ann", sources))
    with engine_of(root) as engine:
        examples = {one.name: one.examples for one in report_of(engine, root).patterns}
    assert examples == {"Vitest": ("src/tests/store.spec.ts:1",), "fetch": ()}


def test_an_import_of_types_alone_is_no_use_of_a_package(tmp_path: Path) -> None:
    matcher, types = Matcher(BUILT_IN), 'import type { FC } from "react";\n'
    assert matcher.packages(types, "typescript") == []
    assert matcher.packages(types.replace(" type", ""), "typescript") == ["react"]
    sources = {"src/a.ts": types, "src/b.ts": 'import express from "express";\n'}
    root = build_history(tmp_path / "r", (5, "Ann", sources))
    with engine_of(root) as engine:
        found = engine.knowledge.metadata(MetadataRequest(path=str(root))).frameworks
    assert [one.name for one in found] == ["Express"]


@pytest.mark.parametrize("family", ["python", "javascript", "go", "rust", "java", "csharp", "ruby"])
def test_imports_are_looked_for_in_linear_time_behind_empty_lines(family: str) -> None:
    search = import_of("requests", family).search
    for text in ("\n" * 100_000, f"import{' ' * 100_000}x"):
        assert is_quick(lambda: search(text), 2)  # noqa: B023
