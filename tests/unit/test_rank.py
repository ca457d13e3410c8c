"""Every step of the ranking by itself, with values worked out by hand. Reading a query: `test_read_query.py`."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from patience import is_quick

from codeinfo.ports import IN_STEM, Posting, StoredSymbol
from codeinfo.search import boost, channels
from codeinfo.search.boost import Layout, project_files
from codeinfo.search.channels import (
    ANYWHERE,
    DEFINED,
    FOLDER,
    PATH_SHARE,
    STEM,
    KeywordScores,
    TermUses,
    best_coverage,
    file_meaning,
    file_scores,
    norms_of,
    read_terms,
    runs_of,
    score_keywords,
    squared_l2,
    weigh_words,
    with_paths,
)
from codeinfo.search.focus import BUDGETS, LATER_BUDGET, Finder, budget_for, focus
from codeinfo.search.quality import AnswerFeatures, assess, share_words
from codeinfo.search.query import read_query
from codeinfo.search.weights import QUESTION, REPORT, TASK
from codeinfo.tokens import stem

W = QUESTION


# --- the keyword channel -------------------------------------------------------------------------------------------


def postings(**found: dict[int, float]) -> dict[str, Posting]:
    """`pool={0: 5}`: five uses in row 0; `stem_pool={0: 1}`: the name of its file has it."""
    columns: dict[str, dict[int, dict[str, float]]] = {}
    for key, rows in found.items():
        field, _, term = key.rpartition("_")
        for row, count in rows.items():
            columns.setdefault(term, {}).setdefault(row, {})[field] = count
    return {term: posting(rows) for term, rows in columns.items()}


def posting(rows: dict[int, dict[str, float]]) -> Posting:
    ordered = sorted(rows)
    return Posting(
        np.array(ordered, np.int32),
        np.array([round(10 * rows[row].get("", 0)) for row in ordered], np.uint16),
        np.array([rows[row].get("type", 0) for row in ordered], np.uint8),
        np.array([rows[row].get("name", 0) for row in ordered], np.uint8),
        np.array([IN_STEM if "stem" in rows[row] else 0 for row in ordered], np.uint8),
    )


def scored(
    terms: dict[str, float], lengths: list[float], owners: list[int], **found: dict[int, float]
) -> KeywordScores:
    lengths_, owners_ = np.array(lengths, np.float32), np.array(owners, np.int32)
    norms = norms_of(owners_, lengths_, max(owners) + 1, W)
    known = read_terms(postings(**found), owners_, norms, W)
    return score_keywords(terms, known, norms)


def test_bm25_by_hand() -> None:
    # Two chunks of mean length, so the norm is k1 = 5; one of two has the term: idf = ln(1 + 1.5 / 1.5) = ln 2.
    result = scored({"pool": 1.0}, [10, 10], [0, 1], pool={0: 5})
    assert result.rows().tolist() == pytest.approx([math.log(2) * 5 / 10, 0])
    assert result.idf == pytest.approx({"pool": math.log(2)})


def test_a_file_is_also_one_text() -> None:
    # File 0 has both chunks with the term: frequency 4, length 20 of mean 15, so norm = 5 (.15 + .85 · 20/15).
    result = scored({"pool": 1.0}, [10, 10, 10], [0, 0, 1], pool={0: 1, 1: 3})
    assert result.files.tolist() == pytest.approx([math.log(2) * 4 / (4 + 5 * (0.15 + 0.85 * 20 / 15)), 0])


def test_more_uses_shorter_chunks_and_rarer_terms_weigh_more() -> None:
    uses = scored({"a": 1.0}, [10, 10], [0, 1], a={0: 1, 1: 2}).rows()
    assert uses[1] > uses[0]
    length = scored({"a": 1.0}, [10, 30], [0, 1], a={0: 1, 1: 1}).rows()
    assert length[0] > length[1]
    rarity = scored({"a": 1.0, "b": 1.0}, [10, 10, 10], [0, 1, 2], a={0: 1}, b={1: 1, 2: 1}).rows()
    assert rarity[0] > rarity[1] == rarity[2]


@given(st.floats(0.5, 50), st.floats(0.1, 50))
def test_bm25_never_falls_with_frequency(frequency: float, more: float) -> None:
    rows = scored({"a": 1.0}, [10, 10, 10], [0, 1, 2], a={0: frequency, 1: frequency + more}).rows()
    assert rows[1] >= rows[0]


def test_a_name_counts_like_many_uses() -> None:
    fields = scored({"a": 1.0}, [10] * 4, [0, 1, 2, 3], a={0: 1}, name_a={1: 1}, type_a={2: 1}, stem_a={3: 1}).rows()
    assert np.argsort(fields).tolist() == [0, 1, 2, 3]
    same = scored({"a": 1.0}, [10, 10], [0, 1], a={0: 20}, stem_a={1: 1}).rows()
    assert same[0] == pytest.approx(same[1]), "a term in the file's name counts as 20 uses"


def test_fields_of_one_chunk_add_up() -> None:
    together = scored({"a": 1.0}, [10, 10], [0, 1], a={0: 3}, name_a={0: 2}, type_a={0: 1}, stem_a={0: 1})
    uses = 3 + 2 * W.name_field + W.type_field + W.stem_field
    assert together.rows().tolist() == pytest.approx([math.log(2) * uses / (uses + 5), 0])


def test_terms_meet_files_once_with_the_fields_that_have_them() -> None:
    found = scored(
        {"a": 1.0, "b": 1.0, "c": 1.0}, [10] * 3, [0, 0, 1], a={0: 1, 1: 1, 2: 1}, stem_a={2: 1}, type_b={1: 1}
    )
    assert list(found.idf) == ["a", "b"], "what occurs nowhere has no rarity here"
    met = {term: (uses.files.tolist(), uses.fields.tolist()) for term, uses in found.uses.items()}
    assert met == {"a": ([0, 1], [0, STEM]), "b": ([0], [DEFINED])}
    assert found.shares.sum() == pytest.approx(1)


@given(st.integers(1, 40), st.data())
def test_chunks_of_some_files_score_as_among_all(files: int, data: st.DataObject) -> None:
    owners = sorted(data.draw(st.lists(st.integers(0, files - 1), min_size=1, max_size=60)))
    rows = st.dictionaries(st.integers(0, len(owners) - 1), st.floats(0.5, 9))
    found = {term: data.draw(rows) for term in ("a", "b", "c", "name_b", "stem_c")}
    found = {term: uses for term, uses in found.items() if uses}
    weights, lengths = {"a": 1.0, "b": 0.5, "c": 0.7}, [10.0 + at % 3 for at in range(len(owners))]
    every = scored(weights, lengths, owners, **found)
    chosen = np.array(data.draw(st.lists(st.sampled_from(owners), unique=True)), np.intp)
    expected = np.where(np.isin(owners, chosen), every.rows(), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channels, "CHOSEN_FROM", 0)
        assert every.rows(chosen).tolist() == expected.tolist()
        covered = every.row_coverage(chosen)
    assert covered.tolist() == np.where(np.isin(owners, chosen), every.row_coverage(), 0).tolist()


def test_a_query_that_meets_nothing() -> None:
    found = scored({"a": 1.0}, [10, 10], [0, 1])
    assert (found.rows().tolist(), found.files.tolist(), dict(found.idf)) == ([0, 0], [0, 0], {})


def test_a_files_best_chunks_each_weigh_less() -> None:
    rows = np.array([2, 4, 0, 1, 3], np.float32)
    scores = file_scores(rows, runs_of(np.array([0, 0, 0, 0, 1], np.int32)), 3, W.chunk_decay)
    assert scores.tolist() == pytest.approx([4 + 0.5 * 2 + 0.25 * 1, 3, 0])
    many = file_scores(np.ones(9, np.float32), runs_of(np.zeros(9, np.int32)), 1, W.chunk_decay)
    assert many.tolist() == pytest.approx([1.93]), "a long file is not better for being long"
    assert file_scores(np.zeros(2, np.float32), runs_of(np.zeros(2, np.int32)), 1, W.chunk_decay).tolist() == [0]
    assert file_scores(np.zeros(0, np.float32), runs_of(np.zeros(0, np.int32)), 2, W.chunk_decay).tolist() == [0, 0]


def test_words_that_are_together_in_a_chunk_say_more_than_all_over_a_file() -> None:
    # Three terms of equal weight and rarity: file 0 has each in another chunk, file 1 all of them in one.
    query, owners = {"retry": 1.0, "lost": 1.0, "frame": 1.0}, [0, 0, 0, 1]
    covered = scored(query, [10] * 4, owners, retry={0: 1, 3: 1}, lost={1: 1, 3: 1}, frame={2: 1, 3: 1}).row_coverage()
    assert covered.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1])
    assert best_coverage(covered, runs_of(np.array(owners)), 3).tolist() == pytest.approx([1 / 9, 1, 0])


# --- signals of names, folders and definitions ---------------------------------------------------------------------


def known(text: str, idf: dict[str, float], files: dict[str, list[int]], fields: int = 0) -> KeywordScores:
    """What is known of a query when its terms have this rarity and meet these files, all in the same fields."""
    weights = read_query(text).terms
    return KeywordScores(
        np.zeros(1 + max((file for having in files.values() for file in having), default=0), np.float32),
        idf,
        {term: met_in(files.get(term, []), fields) for term in idf},
        np.array([weights[term] * value for term, value in idf.items()]),
        np.zeros(0, np.float32),
    )


def met_in(files: list[int], fields: int) -> TermUses:
    """A term that is once in each of these files."""
    once = np.ones(len(files), np.float32)
    owners = np.array(files, np.int32)
    return TermUses(owners, once, owners, np.arange(len(files) + 1), once, np.full(len(files), fields, np.uint8))


def test_coverage_is_the_share_of_the_query_by_rarity() -> None:
    # Weights 1 and 1/1.2; the pair `retrylines` occurs nowhere.
    keyword = known("retry lines", {"retri": 2.0, "lin": 1.2}, {"retri": [0], "lin": [0, 1]}, STEM)
    total = 2.0 + 1.2 / 1.2
    assert boost.coverage(keyword, STEM, 3).tolist() == pytest.approx([1, 1 / total, 0])
    assert boost.coverage(keyword, ANYWHERE, 3).tolist() == pytest.approx([1, 1 / total, 0])
    assert boost.coverage(keyword, FOLDER, 3).tolist() == [0, 0, 0]
    assert boost.coverage(known("retry", {}, {}), STEM, 1).tolist() == [0]


def test_a_synonym_covers_a_word_of_the_first_line() -> None:
    text = "how does it resolve dependencies"
    met = {"resolv": [0, 1], "depend": [1, 2, 3], "solv": [2, 4]}
    keyword = known(text, dict.fromkeys(met, 1.0), met)
    covered = boost.title_coverage(read_query(text), keyword, 6)
    assert covered.tolist() == pytest.approx([0.5, 1, 1, 0.5, 0.5, 0])
    task = boost.title_coverage(read_query("Resolve dependencies of a plugin"), keyword, 6)
    assert task.tolist() == pytest.approx([0.5, 1, 0.5, 0.5, 0, 0])


def test_stem_precision_is_the_share_of_the_name() -> None:
    paths = ["connection_pool.py", "pool.py", "other.py"]
    one = known("pool", {"pool": 1.0}, {"pool": [0, 1]}, STEM)
    sizes = np.zeros(3, np.int32)
    assert boost.stem_precision(one, paths, sizes).tolist() == pytest.approx([1 / 3, 1, 0])
    assert sizes.tolist() == [3, 1, 0], "counted where asked for"
    met = {"connect": [0], "pool": [0, 1], "connectionpool": [0]}
    whole = known("the connection pool", dict.fromkeys(met, 1.0), met, STEM)
    assert boost.stem_precision(whole, paths, sizes).tolist() == pytest.approx([1, 1, 0])


def test_a_name_matches_as_well_as_its_worse_half() -> None:
    both = boost.both(np.array([1, 1, 0.2, 0], np.float32), np.array([1, 0.2, 1, 0], np.float32))
    assert both.tolist() == pytest.approx([1, 1 / 3, 1 / 3, 0])


def test_definitions_of_a_bare_name() -> None:
    found = [
        StoredSymbol(0, "Session", "Session", "class", 1),
        StoredSymbol(1, "Session", "Session", "function", 1),
        StoredSymbol(2, "session", "session", "variable", 1),
        StoredSymbol(2, "session", "session", "function", 1),
    ]
    exact, named = boost.definition_scores(read_query("Session"), found, ["a", "b", "c", "d"])
    assert exact.tolist() == pytest.approx([1, 0.7, 0.35, 0])
    assert not named.any()


def test_what_qualifies_a_name_is_worth_half() -> None:
    found = [StoredSymbol(0, "Session", "Session", "class", 1), StoredSymbol(1, "send", "send", "method", 2)]
    exact, _ = boost.definition_scores(read_query("Session.send"), found, ["a.py", "session.py"])
    assert exact.tolist() == pytest.approx([0.5, 0.7])
    exact, _ = boost.definition_scores(read_query("Session.send"), found, ["a.py", "b.py"])
    assert exact.tolist() == pytest.approx([0.5, 0.7 * boost.ASKED_VALUE]), "it is another's"


def test_a_member_is_worth_most_where_its_owner_has_it() -> None:
    found = [
        StoredSymbol(0, "send", "Session.send", "method", 9),
        StoredSymbol(1, "send", "Adapter.send", "method", 9),
        StoredSymbol(2, "Session", "Session", "class", 1),
    ]
    for text in ("Session.send", "requests.session.send", "Session::send"):
        exact, _ = boost.definition_scores(read_query(text), found, ["a", "b", "c"])
        assert exact.argmax() == 0, text
        assert exact[0] >= 2 * exact[1:].max(), text
    exact, _ = boost.definition_scores(read_query("send"), found[:2], ["a", "b"])
    assert exact[0] == exact[1]


def test_a_name_in_a_sentence_says_less_the_more_files_define_it() -> None:
    query = read_query("why does the RetryPolicy give up")
    found = [StoredSymbol(file, "RetryPolicy", "RetryPolicy", "class", 1) for file in range(4)]
    exact, named = boost.definition_scores(query, found, list("abcde"))
    assert named.tolist() == pytest.approx([0.5, 0.5, 0.5, 0.5, 0])
    assert not exact.any()


def test_files_that_the_text_names() -> None:
    paths = ["src/app.py", "app.py", "src/webapp.py"]

    def mentions(text: str) -> list[float]:
        found: list[float] = boost.path_mentions(read_query(text), paths, boost.files_by_name(paths)).tolist()
        return found

    assert mentions("error in app.py of mine") == pytest.approx([0.5**0.5, 0.5**0.5, 0]), "both are called that"
    assert mentions("see ./src/app.py.") == [1, 0.5, 0]
    assert mentions("/usr/lib/python3/site-packages/src/app.py line 3") == pytest.approx([2 / 3, 0.5, 0])
    assert mentions("first src/app.py then src/webapp.py") == pytest.approx([0.85, 0.425, 1]), "the later the nearer"
    assert mentions("no path") == [0, 0, 0]
    paths = ["crates/milli/src/indexer/write.rs", "crates/index/src/write.rs"]
    assert mentions("in milli/write.rs") == [1, 0.5]


def test_files_below_a_folder_that_the_text_names() -> None:
    paths = ["staging/pkg/apis/core/types.go", "pkg/apis/core.go", "pkg/apis/corev1/a.go", "pkg/io/a.go"]
    found = boost.path_mentions(read_query("pkg/apis/Core: allow more"), paths, boost.files_by_name(paths))
    assert found.tolist() == [boost.IN_FOLDER, 0, 0, 0]
    assert not boost.path_mentions(read_query("slow I/O"), paths, boost.files_by_name(paths)).any()


def factors(text: str, path: str, kind: str = "code", beside: tuple[str, ...] = ()) -> dict[str, float]:
    """The factors of a file in a tree that has some others `beside` it."""
    return boost.multipliers(read_query(text), Layout([path, *beside]).facts(0), kind, W)


def test_depth_counts_from_the_package_and_is_bounded() -> None:
    deep = "staging/src/org/lib/pkg/a/b/c/d/e/f.go"
    assert factors("retry", deep)["depth"] == pytest.approx(math.exp(-W.depth * 4))
    assert factors("retry", deep, beside=("staging/src/org/lib/go.mod",))["depth"] == factors("retry", deep)["depth"]
    near = factors("retry", "packages/core/src/a.ts", beside=("packages/core/package.json",))
    assert near["depth"] == pytest.approx(math.exp(-W.depth))


PACKAGE_FILES = ("Cargo.toml", "README.md", "CHANGELOG.md", "LICENSE", "build.rs")


@pytest.mark.parametrize(
    ("path", "beside", "older"),
    [
        ("api/v1beta1/types.go", ("api/v1/types.go",), True),
        ("api/v1/types.go", ("api/v1beta1/types.go",), False),
        ("api/v1/types.go", ("api/v2/types.go",), True),
        ("api/v10/types.go", ("api/v9/types.go",), False),
        ("lib/old/a.c", ("lib/old/b.c", "lib/old/c.c", "lib/a.c", "lib/b.c", "lib/c.c"), True),
        ("lib/other/a.c", ("lib/other/b.c", "lib/a.c"), False),
        ("core/src/a.rs", tuple(f"{at}{name}" for at in ("", "core/") for name in PACKAGE_FILES), False),
        (
            "orm/sql/query.py",
            tuple(f"orm/{at}{name}.py" for at in ("", "sql/") for name in ("__init__", "terms")),
            False,
        ),
    ],
)
def test_older_copies_are_recognised_by_their_neighbours(path: str, beside: tuple[str, ...], older: bool) -> None:
    assert ("older_copy" in factors("retry policy", path, beside=beside)) is older
    assert "older_copy" not in factors("retry policy of v1beta1", path, beside=beside)


def test_a_header_gives_way_to_a_larger_file_that_does_what_it_declares() -> None:
    paths = ["lib/retry.h", "lib/retry.c", "lib/url.hpp", "lib/url.cc", "lib/map.h", "lib/map.cc", "io/map.c"]
    layout = Layout(paths, sizes=np.array([2, 9, 3, 5, 9, 2, 20]))
    headers = [path for file, path in enumerate(paths) if layout.facts(file).header]
    assert headers == ["lib/retry.h", "lib/url.hpp"], "templates of C++ are in headers"
    assert boost.multipliers(read_query("retry policy"), layout.facts(0), "code", W)["header"] == W.header


def test_translations_give_way_to_the_page_in_the_language_of_the_query() -> None:
    beside = ("docs/en/a.md", "docs/es/a.md")
    assert "translation" in factors("how are dependencies resolved", "docs/pt/a.md", "docs", beside)
    assert "translation" not in factors("how are dependencies resolved", "docs/en/a.md", "docs", beside)
    assert "translation" in factors("how are dependencies resolved", "docs/qq/a.md", "docs", (*beside, "docs/pt/a.md"))
    assert "translation" not in factors("как разрешаются зависимости", "docs/ru/a.md", "docs", beside)
    assert "translation" not in factors("retry", "src/it/a.py"), "a folder alone is no translation"
    assert "translation" in factors("install", "README.zh-CN.md", "docs", ("README.md",))
    commands = tuple(f"src/{name}/main.rs" for name in ("id", "tr", "nl", *(f"command{at}" for at in range(40))))
    assert "translation" not in factors("escapes", "src/tr/main.rs", beside=commands), "a few are called like languages"


def test_documents_and_data_weigh_less_unless_asked_for() -> None:
    assert factors("retry policy", "guide.md", "docs")["docs"] == W.docs
    assert "docs" not in factors("guide to the retry policy", "guide.md", "docs")
    assert factors("retry policy", "a.yaml", "config")["config"] == W.config
    assert "config" not in factors("retry settings", "a.yaml", "config")


def test_who_asks_how_to_do_something_is_shown_the_guide() -> None:
    assert factors("how do I retry a request?", "guide.md", "docs")["guide"] == W.guide > 1
    assert factors("how are requests retried?", "guide.md", "docs")["docs"] == W.docs
    for path in (
        "CHANGELOG.md",
        "upcoming-release-notes/retry.md",
        ".changeset/kind-cats-retry.md",
        "changelog.d/7.md",
    ):
        assert factors("how do I retry a request?", path, "docs")["docs"] == W.docs, "it explains nothing"
    assert "guide" not in factors("how do I retry a request?", "retry.py")
    tests = factors("how do I replace the clock in tests?", "tests/test_clock.py", "tests")
    assert tests["test_topic"] == W.test_topic, "a test is no guide"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("where is the CI configured", ".github/workflows/test.yml"),
        ("which compilers run in CI?", ".gitlab-ci.yml"),
        ("how is the docker image built", "docker/Dockerfile"),
        ("how is a release published", ".github/workflows/publish.yml"),
        ("which linters run before a commit", ".pre-commit-config.yaml"),
        ("what is the license", "LICENSE"),
        ("which python versions are supported", "pyproject.toml"),
        ("minimum node version", "package.json"),
        ("what are the main dependencies", "Cargo.toml"),
        ("how is the code organised", "ARCHITECTURE.md"),
        ("main entry point", "main.go"),
        ("what is the entry point of the server?", "cmd/server/main.go"),
        ("where does the program start", "src/app/__main__.py"),
    ],
)
def test_questions_about_the_project_find_the_files_that_set_it_up(text: str, path: str) -> None:
    query = read_query(text)
    top, nested, other = project_files(query, [path, f"packages/api/{path}", "src/retry.py"])
    assert top > nested > other == 0
    assert factors(text, path, "config") == {}


@pytest.mark.parametrize("text", ["what does this project do?", "What's this repo about", "explain the codebase"])
def test_what_a_project_does_is_in_its_own_readme(text: str) -> None:
    query = read_query(text)
    assert project_files(query, ["README.md", "packages/api/README.md"]).tolist() == [1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "entry point of the request pipeline",
        "where does the server start a transaction",
        "how the pool acquires and releases connections",
        "how are messages published to the queue",
        "how is a license key validated",
        "python version of the retry loop",
        "which target python versions can parse this source",
        "ci: run the tests twice",
        "what does the package manager do",
        "how does the library handle redirects",
    ],
)
def test_questions_about_the_code_are_none_about_the_project(text: str) -> None:
    assert not read_query(text).project_files


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("tests/a.py", "secondary"),
        ("pkg/retry_test.go", "secondary"),
        ("web/retry.spec.ts", "secondary"),
        ("app/RetryTest.java", "secondary"),
        ("test_retry.py", "secondary"),
        ("examples/a.py", "secondary"),
        ("_examples/a.go", "secondary"),
        ("benchmarks/a.py", "secondary"),
        ("Tests/Retries.swift", "secondary"),
        ("Example-iOS/Retries.swift", "secondary"),
        ("Retries.playground/Contents.swift", "secondary"),
        ("packages/retries-playground/src/App.vue", "secondary"),
        ("fuzz/fuzz_targets/retries.rs", "secondary"),
        ("sandbox/Retries.cs", "secondary"),
        ("documentation-website/snippets/Retries.kt", "secondary"),
        ("app/src/main/java/org/acme/tests/Retries.java", "secondary"),
        ("src/main/kotlin/test/Retries.kt", "secondary"),
        ("crates/app-test-support/src/retries.rs", "secondary"),
        ("app-testing-support/Retries.kt", "secondary"),
        ("pkg/testutil/retries.go", "secondary"),
        ("pkg/testing/retries.go", "secondary"),
        ("t/unit/retries.py", "secondary"),
        ("testing/retries.py", "secondary"),
        ("integration/retries/src/app.ts", "secondary"),
        ("web/retries.scss", "stylesheet"),
        ("vendor/a.go", "vendored"),
        ("third_party/a.c", "vendored"),
        ("priv/static/retries.js", "vendored"),
        ("web/retries.min.js", "vendored"),
        ("web/static/retries-3.5.1.js", "vendored"),
        ("a.d.ts", "type_stub"),
        ("a.pyi", "type_stub"),
        ("web/Retry.stories.tsx", "secondary"),
        ("web/.storybook/retry.ts", "secondary"),
        ("db/migrate/20240102030405_add_retries.rb", "migration"),
        ("app/migrations/0007_retries.py", "migration"),
        ("models/migrations/v1_22/v91.go", "migration"),
        ("alembic/versions/retries.py", "migration"),
        ("util/Migrator/scripts/2024-01-02_00_Retries.sql", "migration"),
    ],
)
def test_secondary_files_weigh_less(path: str, factor: str) -> None:
    assert factors("retry policy of requests", path) == pytest.approx(
        {"depth": math.exp(-W.depth * min(path.count("/"), boost.DEEPEST)), factor: getattr(W, factor)}
    )


@pytest.mark.parametrize("path", ["packages/app-test-utils/src/events.ts", "packages/testing/events.ts"])
def test_helpers_of_tests_are_no_tests(path: str) -> None:
    assert factors("remove listeners after an event", path)["secondary"] == W.secondary
    assert factors("remove test listeners after an event", path).keys() == {"depth"}, "it may be about them"


def test_a_folder_called_testing_at_the_top_has_tests() -> None:
    assert factors("parametrize test functions", "testing/python/metafunc.py")["test_topic"] == W.test_topic


def test_a_stylesheet_that_is_asked_for_weighs_what_others_do() -> None:
    assert "stylesheet" not in factors("color of retries", "web/retries.css")


def test_a_migration_that_is_asked_for_weighs_what_others_do() -> None:
    path = "db/migrate/20240102030405_add_retries.rb"
    assert factors("add retries", path)["migration"] == W.migration
    assert "migration" not in factors("migration that adds retries", path)
    assert "migration" not in factors("columns of the retries table", path)


@pytest.mark.parametrize(
    "path",
    [
        "src/retry.py",
        "legacy/ui/retry.py",  # half of some products
        "lib/doc_test.ex",  # tests of Elixir are scripts
        "db/schema.rb",
        "models/user_story.py",
        "services/migrations/retry.go",  # a part of a product
        "contest.py",
        "latest/a.py",
        "src/protest.go",
        "goldfish.py",
        "pkg/kubelet/sandbox/retry.go",  # what a product calls so
        "app/src/main/java/org/acme/samples/external/Retry.java",  # a package may be called like anything
    ],
)
def test_ordinary_files_do_not(path: str) -> None:
    assert list(factors("retry policy", path)) == ["depth"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("tests of retries", "pkg/retry_test.go"),
        ("an example of streaming", "examples/stream.py"),
        ("an example of streaming", "docs_src/streaming/tutorial.py"),
        ("examples of streaming", "samples/Stream.java"),
        ("mocks for the clock", "mocks/clock.ts"),
        ("run the benchmarks", "benchmarks/run.py"),
        ("benchmarks of retries", "pkg/retry_benchmark_test.go"),
    ],
)
def test_who_asks_for_them_gets_them(text: str, path: str) -> None:
    assert "asked_secondary" in factors(text, path)


def test_a_test_is_one_wherever_it_lies() -> None:
    assert factors("retry policy", "src/RetriesSuite.scala", "tests")["secondary"] == W.secondary


@pytest.mark.parametrize("text", ["how does the test client retry", "test runner for commands in isolation"])
def test_a_part_of_the_product_that_is_about_testing_comes_before_tests(text: str) -> None:
    assert factors(text, "tests/test_client.py")["test_topic"] == W.test_topic < W.asked_secondary


# --- meaning -------------------------------------------------------------------------------------------------------


def test_a_file_means_what_its_best_chunk_means() -> None:
    cosines = np.array([0.9, 0.1, 0.5, 0.5], np.float32)
    meaning, _ = file_meaning(cosines, runs_of(np.array([0, 0, 1, 2], np.int32)), 4)  # the fourth file has no chunks
    assert meaning.tolist() == pytest.approx([1, 0, 0, 0], abs=1e-5)


def test_meaning_weighs_the_same_in_small_and_large_indexes() -> None:
    near, rest = np.array([0.9, 0.7], np.float32), np.full(20_000, 0.2, np.float32)
    for files in (10, 20_000):
        cosines = np.concatenate([near, rest[:files]])
        meaning, _ = file_meaning(cosines, runs_of(np.arange(len(cosines), dtype=np.int32)), len(cosines))
        assert meaning[0] == pytest.approx(1)
        assert meaning[1] == pytest.approx(0.7, abs=0.05)


def test_files_of_equal_meaning_are_not_distinguished() -> None:
    assert not file_meaning(np.full(3, 0.4, np.float32), runs_of(np.arange(3, dtype=np.int32)), 3)[0].any()
    assert not file_meaning(np.zeros(0, np.float32), runs_of(np.zeros(0, np.int32)), 2)[0].any()


def test_one_file_is_scored_on_the_scale_of_all() -> None:
    values, scale = file_meaning(np.array([0.9, 0.1, 0.2], np.float32), runs_of(np.arange(3, dtype=np.int32)), 3)
    assert scale(np.array([0.9, 0.1, 0.2], np.float32)).tolist() == values.tolist()
    assert scale(np.array([2.0], np.float32))[0] > values[0]


def test_words_are_worth_what_they_tell_here() -> None:
    """By their place and the root of their rarity; what the index does not know counts as its words do on average."""
    query = read_query("how are sockets closed quietly")
    worths = dict(weigh_words(query, {"socket": 4.0, stem("closed"): 1.0}))
    assert list(worths) == ["how", "are", "sockets", "closed", "quietly"]
    assert worths["sockets"] == pytest.approx(2 * query.terms["socket"])
    assert worths["closed"] == pytest.approx(1 * query.terms[stem("closed")])
    assert worths["how"] == pytest.approx(math.sqrt(2.5))
    assert worths["quietly"] == pytest.approx(math.sqrt(2.5) * query.terms[stem("quietly")])
    assert dict(weigh_words(read_query("closed"), {})) == {"closed": 1.0}


def test_a_chunk_and_its_path_are_one_vector() -> None:
    chunks, paths, query = (
        np.array(rows, np.float32) for rows in ([[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 1, 0]], [0.6, 0.8, 0])
    )
    together = chunks + PATH_SHARE * paths
    together /= np.linalg.norm(together, axis=1, keepdims=True)
    assert with_paths(chunks @ query, chunks, paths, query).tolist() == pytest.approx((together @ query).tolist())


def test_distances_of_unit_vectors() -> None:
    assert [squared_l2(cosine) for cosine in (1, 0, -1)] == [0, 2, 4]


# --- the lines to show ---------------------------------------------------------------------------------------------

FILLER = [f"filler {i} xxxxxxxxxxxxxxxxxxxx" for i in range(40)]


def test_budgets_fall_with_the_place() -> None:
    assert [budget_for(place) for place in range(6)] == [*BUDGETS, LATER_BUDGET, LATER_BUDGET]


def test_the_lines_that_answer_are_shown() -> None:
    text = "\n".join([*FILLER, "def retry():", *FILLER])
    assert "def retry():" in focus(text, Finder({"retri": 1.0}), 100).text


def test_the_head_wins_over_a_minor_match_only() -> None:
    text = "\n".join(["class Policy:", *FILLER, "retry", *FILLER])
    assert focus(text, Finder({"retri": 0.3, "polici": 0.7}), 100).first == 0
    assert focus(text, Finder({"retri": 0.6, "polici": 0.4}), 100).first == 0, "its own .4 and .35 for being the head"
    assert focus(text, Finder({"retri": 0.8, "polici": 0.2}), 100).first == 41


def test_a_line_longer_than_the_budget_is_cut() -> None:
    assert focus("x" * 50, Finder({}), 10) == (0, 0, "x" * 9 + "…")


LINES = st.lists(st.text(alphabet="ab _retryPool\té", max_size=60), min_size=1, max_size=40)


@given(LINES, st.integers(1, 400))
def test_an_excerpt_is_whole_lines_within_its_budget(lines: list[str], budget: int) -> None:
    text = "\n".join(lines)
    first, last, shown = focus(text, Finder({"retri": 2.0, "pool": 1.0}), budget)
    assert 0 <= first <= last < len(lines)
    assert len(shown) <= budget
    assert shown == "\n".join(lines[first : last + 1]) or (first == last and shown.endswith("…"))
    assert len(text) > budget or shown == text, "what fits is shown whole"


# --- quality -------------------------------------------------------------------------------------------------------


def test_confidence_by_hand() -> None:
    query = read_query("retry policy of requests")
    sure = assess(AnswerFeatures(1, 1, 1, None, title=1, lead=0.5, spread=0.6, pointed=0.5, together=0.4), query)
    assert (sure.status, sure.reasons, sure.hint) == ("ok", (), "")
    expected = 2.9 + 1.5 * 0.5 + 2.6 * 0.6 + 2.1 * 0.5 + 0.8 * 0.4 - 4.25
    assert sure.confidence == pytest.approx(1 / (1 + math.exp(-expected)), abs=0.001)
    close = assess(AnswerFeatures(1, 1, 1, 0.6, agreed=1), query)
    assert close.confidence == pytest.approx(1 / (1 + math.exp(-(3.8 * 0.6 + 0.4 - 4.9))), abs=0.001)
    assert close.status == "low_confidence", "near, but no nearer than the rest"


def test_low_confidence_says_why_and_what_to_do() -> None:
    nothing = assess(AnswerFeatures(0, 0, 0, None), read_query("retry policy of requests"))
    assert nothing.status == "low_confidence"
    assert len(nothing.reasons) == 3
    assert "right folder" in nothing.hint
    assert "has that name" in assess(AnswerFeatures(0, 0, 0, None), read_query("RetryPolicy")).hint
    assert "name is here" in assess(AnswerFeatures(1, 0.8, 0.6, 0.1), read_query("reserve")).hint
    assert assess(AnswerFeatures(1, 1, 1, 0.1), read_query("reserve")).status == "ok", (
        "a name that is there, whatever it means"
    )
    dotted = read_query("repo.issues.new")
    assert assess(AnswerFeatures(1, 1, 1, 0.1), dotted).status == "low_confidence", "three words of any file"
    assert assess(AnswerFeatures(1, 1, 1, 0.1, defined=True), dotted).status == "ok"
    letter = assess(AnswerFeatures(1, 1, 1, 0.9, pointed=3, defined=True), read_query("x"))
    assert (letter.status, letter.confidence) == ("low_confidence", 0.3)
    assert letter.hint == "Search for a word, or see every line with it: `codeinfo grep x`"
    vague = assess(AnswerFeatures(1, 0.6, 0.2, 0.2), read_query("handling of many things"))
    assert (vague.status, len(vague.reasons)) == ("low_confidence", 1)
    assert "to some paths" in vague.hint
    assert not re.search("--|codeinfo", vague.hint + nothing.hint)  # pages and agents read it too


FIGURES = ("closest", "title", "lead", "spread", "pointed", "length", "together", "agreed")


@given(st.sampled_from(FIGURES), *[st.floats(0, 1)] * 2)
def test_more_grounds_never_lower_the_confidence(name: str, value: float, more: float) -> None:
    query = read_query("anything at all")
    some = replace(AnswerFeatures(1, 1, 1, 0.5), **{name: value})
    better = replace(some, **{name: min(value + more, 1)})
    assert assess(better, query).confidence >= assess(some, query).confidence


def test_grounds_are_shares_of_the_query() -> None:
    query = read_query("retry unknownword")
    keyword = known("retry unknownword", {"retri": math.log1p(10.5 / 0.5)}, {"retri": [1]}, STEM)
    shares = share_words(query, keyword, [0, 1], 10)
    share = 1 / (1 + 1 / 1.2)  # both are as rare as can be; the second word weighs 1/1.2
    assert shares == pytest.approx((share, share, share))
    assert share_words(query, keyword, [], 10).covered == 0


DOCUMENTED = re.compile(r"^\| `(\w+)` \|.*\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)


def test_the_documented_weights_are_the_shipped_ones() -> None:
    rows = DOCUMENTED.findall((Path(__file__).parents[2] / "docs" / "ranking.md").read_text())
    assert len(rows) == 34, "17 signals and 17 factors"
    for name, *documented in rows:
        assert [float(value) for value in documented] == [getattr(w, name) for w in (QUESTION, TASK, REPORT)], name


def test_a_folder_of_many_words_is_looked_at_in_linear_time() -> None:
    path = f"{'a_' * 60}b/c.py"
    assert is_quick(lambda: boost.Layout([path]).facts(0), 5)
