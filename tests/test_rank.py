"""Every step of the ranking by itself, with values worked out by hand. Reading a query: `test_read_query.py`."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeinfo.rank import boost
from codeinfo.rank.focus import BUDGETS, LATER_BUDGET, Finder, budget_for, excerpt, focus
from codeinfo.rank.keyword import (
    ANYWHERE,
    DEFINED,
    FOLDER,
    STEM,
    KeywordScores,
    file_scores,
    score_keywords,
    wanted_terms,
)
from codeinfo.rank.meaning import file_meaning, squared_l2
from codeinfo.rank.quality import Grounds, assess, grounds
from codeinfo.rank.query import read_query
from codeinfo.rank.weights import WITH_VECTORS, WITHOUT_VECTORS
from codeinfo.tokens import NAME_MARK, STEM_MARK, TYPE_MARK

W = WITH_VECTORS


# --- the keyword channel -------------------------------------------------------------------------------------------


def postings(**found: dict[int, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    marks = {"stem_": STEM_MARK, "type_": TYPE_MARK, "name_": NAME_MARK}
    result = {}
    for key, rows in found.items():
        mark = next((mark for start, mark in marks.items() if key.startswith(start)), "")
        term = mark + key.split("_")[-1]
        result[term] = (np.array(list(rows), np.int32), np.array(list(rows.values()), np.float32))
    return result


def scored(
    terms: dict[str, float], lengths: list[float], owners: list[int], **found: dict[int, float]
) -> KeywordScores:
    lengths_, owners_ = np.array(lengths, np.float32), np.array(owners, np.int32)
    return score_keywords(terms, postings(**found), owners_, lengths_, max(owners) + 1, W)


def test_bm25_by_hand() -> None:
    # Two chunks of mean length, so the norm is k1 = 5; one of two has the term: idf = ln(1 + 1.5 / 1.5) = ln 2.
    result = scored({"pool": 1.0}, [10, 10], [0, 1], pool={0: 5})
    assert result.rows.tolist() == pytest.approx([math.log(2) * 5 / 10, 0])
    assert result.idf == pytest.approx({"pool": math.log(2)})


def test_a_file_is_also_one_text() -> None:
    # File 0 has both chunks with the term: frequency 4, length 20 of mean 15, so norm = 5 (.15 + .85 · 20/15).
    result = scored({"pool": 1.0}, [10, 10, 10], [0, 0, 1], pool={0: 1, 1: 3})
    assert result.files.tolist() == pytest.approx([math.log(2) * 4 / (4 + 5 * (0.15 + 0.85 * 20 / 15)), 0])


def test_more_uses_shorter_chunks_and_rarer_terms_weigh_more() -> None:
    uses = scored({"a": 1.0}, [10, 10], [0, 1], a={0: 1, 1: 2}).rows
    assert uses[1] > uses[0]
    length = scored({"a": 1.0}, [10, 30], [0, 1], a={0: 1, 1: 1}).rows
    assert length[0] > length[1]
    rarity = scored({"a": 1.0, "b": 1.0}, [10, 10, 10], [0, 1, 2], a={0: 1}, b={1: 1, 2: 1}).rows
    assert rarity[0] > rarity[1] == rarity[2]


@given(st.floats(0.5, 50), st.floats(0.1, 50))
def test_bm25_never_falls_with_frequency(frequency: float, more: float) -> None:
    rows = scored({"a": 1.0}, [10, 10, 10], [0, 1, 2], a={0: frequency, 1: frequency + more}).rows
    assert rows[1] >= rows[0]


def test_a_name_counts_like_many_uses() -> None:
    fields = scored({"a": 1.0}, [10] * 4, [0, 1, 2, 3], a={0: 1}, name_a={1: 1}, type_a={2: 1}, stem_a={3: 1}).rows
    assert np.argsort(fields).tolist() == [0, 1, 2, 3]
    same = scored({"a": 1.0}, [10, 10], [0, 1], a={0: 20}, stem_a={1: 1}).rows
    assert same[0] == pytest.approx(same[1]), "a term in the file's name counts as 20 uses"


def test_every_term_is_looked_up_in_every_field() -> None:
    assert len(wanted_terms({"a": 1.0, "b": 1.0})) == 10


def test_a_files_best_chunks_each_weigh_less() -> None:
    rows = np.array([2, 4, 0, 1, 3], np.float32)
    scores = file_scores(rows, np.array([0, 0, 0, 0, 1], np.int32), 3, W.chunk_decay)
    assert scores.tolist() == pytest.approx([4 + 0.5 * 2 + 0.25 * 1, 3, 0])
    many = file_scores(np.ones(9, np.float32), np.zeros(9, np.int32), 1, W.chunk_decay)
    assert many.tolist() == pytest.approx([1.93]), "a long file is not better for being long"
    assert file_scores(np.zeros(2, np.float32), np.zeros(2, np.int32), 1, W.chunk_decay).tolist() == [0]


# --- signals of names, folders and definitions ---------------------------------------------------------------------


def known(idf: dict[str, float], **fields: dict[str, list[int]]) -> KeywordScores:
    empty: dict[str, dict[str, np.ndarray]] = {STEM: {}, FOLDER: {}, DEFINED: {}, ANYWHERE: {}}
    for field, owners in fields.items():
        empty[field] = {term: np.array(files, np.int64) for term, files in owners.items()}
    return KeywordScores(np.zeros(0, np.float32), np.zeros(0, np.float32), idf, empty)


def test_coverage_is_the_share_of_the_query_by_rarity() -> None:
    query = read_query("retry lines")  # weights 1 and 1/1.2; the pair `retrylines` occurs nowhere
    keyword = known({"retri": 2.0, "lin": 1.2}, stem={"retri": [0], "lin": [0, 1]})
    total = 2.0 + 1.2 / 1.2
    assert boost.coverage(query, keyword, STEM, 3).tolist() == pytest.approx([1, 1 / total, 0])
    assert boost.coverage(query, known({}), STEM, 1).tolist() == [0]


def test_stem_precision_is_the_share_of_the_name() -> None:
    paths = ["connection_pool.py", "pool.py", "other.py"]
    keyword = known({}, stem={"pool": [0, 1]})
    assert boost.stem_precision(read_query("pool"), keyword, paths, 3).tolist() == pytest.approx([1 / 3, 1, 0])
    whole = boost.stem_precision(read_query("the connection pool"), keyword, paths, 3)
    assert whole.tolist() == pytest.approx([1, 1, 0])


def test_definitions_of_a_bare_name() -> None:
    found = [
        (0, "Session", "class"),
        (1, "Session", "function"),
        (2, "session", "variable"),
        (2, "session", "function"),
    ]
    exact, named = boost.definition_scores(read_query("Session"), found, 4)
    assert exact.tolist() == pytest.approx([1, 0.7, 0.35, 0])
    assert not named.any()


def test_what_qualifies_a_name_is_worth_half() -> None:
    exact, _ = boost.definition_scores(read_query("Session.send"), [(0, "Session", "class"), (1, "send", "method")], 2)
    assert exact.tolist() == pytest.approx([0.5, 0.7])


def test_a_name_in_a_sentence_says_less_the_more_files_define_it() -> None:
    query = read_query("why does the RetryPolicy give up")
    exact, named = boost.definition_scores(query, [(file, "RetryPolicy", "class") for file in range(4)], 5)
    assert named.tolist() == pytest.approx([0.5, 0.5, 0.5, 0.5, 0])
    assert not exact.any()


def test_files_that_the_text_names() -> None:
    paths = ["src/app.py", "app.py", "src/webapp.py"]
    assert boost.path_mentions(read_query("error in app.py of mine"), paths).tolist() == [1, 1, 0]
    assert boost.path_mentions(read_query("see ./src/app.py."), paths).tolist() == [1, 0, 0]
    assert not boost.path_mentions(read_query("no path"), paths).any()


def factors(text: str, path: str, kind: str = "code", usual: float = 0.0) -> dict[str, float]:
    return boost.multipliers(read_query(text), path, kind, {kind: usual}, W)


def test_depth_counts_beyond_what_is_usual_for_the_kind() -> None:
    assert factors("retry", "a/b/c.py", usual=2.0)["depth"] == 1.0
    assert factors("retry", "README.md", "docs", usual=1.0)["depth"] == pytest.approx(math.exp(0.18))
    assert boost.usual_depths(["a.md", "a/b/c.py", "d/e.py"], ["docs", "code", "code"]) == {"docs": 0.0, "code": 1.5}


def test_documents_and_data_weigh_less_unless_asked_for() -> None:
    assert factors("retry policy", "guide.md", "docs")["docs"] == W.docs
    assert "docs" not in factors("guide to the retry policy", "guide.md", "docs")
    assert factors("retry policy", "a.yaml", "config")["config"] == W.config
    assert "config" not in factors("retry settings", "a.yaml", "config")


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("tests/a.py", "secondary"),
        ("pkg/retry_test.go", "secondary"),
        ("web/retry.spec.ts", "secondary"),
        ("app/RetryTest.java", "secondary"),
        ("test_retry.py", "secondary"),
        ("examples/a.py", "secondary"),
        ("benchmarks/a.py", "secondary"),
        ("vendor/a.go", "vendored"),
        ("third_party/a.c", "vendored"),
        ("a.d.ts", "type_stub"),
        ("a.pyi", "type_stub"),
    ],
)
def test_secondary_files_weigh_less(path: str, factor: str) -> None:
    assert factors("retry policy of requests", path) == pytest.approx(
        {"depth": math.exp(-0.18 * path.count("/")), factor: getattr(W, factor)}
    )


@pytest.mark.parametrize("path", ["src/retry.py", "contest.py", "latest/a.py", "src/protest.go", "goldfish.py"])
def test_ordinary_files_do_not(path: str) -> None:
    assert list(factors("retry policy", path)) == ["depth"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("tests of retries", "pkg/retry_test.go"),
        ("an example of streaming", "examples/stream.py"),
        ("mocks for the clock", "mocks/clock.ts"),
        ("run the benchmarks", "benchmarks/run.py"),
    ],
)
def test_who_asks_for_them_gets_them(text: str, path: str) -> None:
    assert "secondary" not in factors(text, path)


# --- meaning -------------------------------------------------------------------------------------------------------


def test_a_file_means_what_its_best_chunk_means() -> None:
    cosines = np.array([0.9, 0.1, 0.5, 0.5], np.float32)
    meaning = file_meaning(cosines, np.array([0, 0, 1, 2], np.int32), 4)  # the fourth file has no chunks
    assert meaning.tolist() == pytest.approx([math.sqrt(2) / 4, 0, 0, 0], abs=1e-5)


def test_files_of_equal_meaning_are_not_told_apart() -> None:
    assert not file_meaning(np.full(3, 0.4, np.float32), np.arange(3, dtype=np.int32), 3).any()
    assert not file_meaning(np.zeros(0, np.float32), np.zeros(0, np.int32), 2).any()


def test_distances_of_unit_vectors() -> None:
    assert [squared_l2(cosine) for cosine in (1, 0, -1)] == [0, 2, 4]


# --- the lines to show ---------------------------------------------------------------------------------------------

FILLER = [f"filler {i} xxxxxxxxxxxxxxxxxxxx" for i in range(40)]


def test_budgets_fall_with_the_place() -> None:
    assert [budget_for(place) for place in range(6)] == [*BUDGETS, LATER_BUDGET, LATER_BUDGET]


def test_the_lines_that_answer_are_shown() -> None:
    text = "\n".join([*FILLER, "def retry():", *FILLER])
    assert "def retry():" in excerpt(text, *focus(text, Finder({"retri": 1.0}), 100), 100)


def test_the_head_wins_over_a_minor_match_only() -> None:
    text = "\n".join(["class Policy:", *FILLER, "retry", *FILLER])
    assert focus(text, Finder({"retri": 0.3, "polici": 0.7}), 100)[0] == 0
    assert focus(text, Finder({"retri": 0.6, "polici": 0.4}), 100)[0] == 0, "its own .4 and .35 for being the head"
    assert focus(text, Finder({"retri": 0.8, "polici": 0.2}), 100)[0] == 41


def test_a_line_longer_than_the_budget_is_cut() -> None:
    assert excerpt("x" * 50, 0, 0, 10) == "x" * 9 + "…"


LINES = st.lists(st.text(alphabet="ab _retryPool\té", max_size=60), min_size=1, max_size=40)


@settings(deadline=None)
@given(LINES, st.integers(1, 400))
def test_an_excerpt_is_whole_lines_within_its_budget(lines: list[str], budget: int) -> None:
    text = "\n".join(lines)
    first, last = focus(text, Finder({"retri": 2.0, "pool": 1.0}), budget)
    shown = excerpt(text, first, last, budget)
    assert 0 <= first <= last < len(lines)
    assert len(shown) <= budget
    assert shown == "\n".join(lines[first : last + 1]) or (first == last and shown.endswith("…"))
    assert len(text) > budget or shown == text, "what fits is shown whole"


# --- quality -------------------------------------------------------------------------------------------------------


def test_confidence_by_hand() -> None:
    query = read_query("retry policy of requests")
    sure = assess(Grounds(1, 1, 1, None), query)
    assert (sure.status, sure.reasons, sure.hint) == ("ok", (), "")
    assert sure.confidence == pytest.approx(1 / (1 + math.exp(-(1.0 + 2.72 + 3.03 - 3.95))), abs=0.001)
    close = assess(Grounds(1, 1, 1, 0.6), query)
    assert close.confidence == pytest.approx(1 / (1 + math.exp(-(0.73 + 1.94 + 1.36 + 12.96 * 0.6 - 8.47))), abs=0.001)


def test_low_confidence_says_why_and_what_to_do() -> None:
    nothing = assess(Grounds(0, 0, 0, None), read_query("retry policy of requests"))
    assert nothing.status == "low_confidence"
    assert len(nothing.reasons) == 3
    assert "codeinfo status" in nothing.hint
    assert "has that name" in assess(Grounds(0, 0, 0, None), read_query("RetryPolicy")).hint
    vague = assess(Grounds(1, 0.6, 0.2, 0.2), read_query("handling of many things"))
    assert (vague.status, len(vague.reasons)) == ("low_confidence", 1)
    assert "--glob" in vague.hint


@given(*[st.floats(0, 1)] * 4)
def test_more_grounds_never_lower_the_confidence(a: float, b: float, c: float, more: float) -> None:
    query = read_query("anything at all")
    better = Grounds(min(a + more, 1), min(b + more, 1), min(c + more, 1), None)
    assert assess(better, query).confidence >= assess(Grounds(a, b, c, None), query).confidence


def test_grounds_are_shares_of_the_query() -> None:
    query = read_query("retry unknownword")
    keyword = known({"retri": math.log1p(10.5 / 0.5)}, anywhere={"retri": [1]}, stem={"retri": [1]})
    found = grounds(query, keyword, [0, 1], 10, None)
    share = 1 / (1 + 1 / 1.2)  # both are as rare as can be; the second word weighs 1/1.2
    assert (found.known, found.covered, found.named) == pytest.approx((share, share, share))
    assert grounds(query, keyword, [], 10, None).covered == 0


DOCUMENTED = re.compile(r"^\| `(\w+)` \|.*\| ([\d.]+) \| ([\d.]+|–) \|$", re.MULTILINE)


def test_the_documented_weights_are_the_shipped_ones() -> None:
    rows = DOCUMENTED.findall((Path(__file__).parent.parent / "docs" / "ranking.md").read_text())
    assert len(rows) == 12
    for name, with_vectors, without in rows:
        assert float(with_vectors) == getattr(WITH_VECTORS, name), name
        assert without == "–" or float(without) == getattr(WITHOUT_VECTORS, name), name
