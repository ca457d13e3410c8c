"""Evaluation: datasets, figures checked by hand, comparisons, gates, and the whole command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from patience import is_quick

from codeinfo.errors import NotFound, UsageError
from codeinfo.evals import run
from codeinfo.evals.metrics import (
    Answer,
    Dataset,
    Query,
    Result,
    Target,
    check_gates,
    compare,
    load_dataset,
    parse_gates,
    percentile,
    score,
    summarise,
)
from codeinfo.operations.search import Score

SECOND = 1 / math.log2(3)  # what a hit at rank 2 is worth
THIRD = 1 / math.log2(4)


def query(*targets: Target | str, id: str = "q") -> Query:
    return Query(id, "text", tuple(Target(t) if isinstance(t, str) else t for t in targets))


def answer(*found: str | Result, id: str = "q", took_ms: float | None = None) -> Answer:
    return Answer(id, tuple(Result(f, 1, 9, 100) if isinstance(f, str) else f for f in found), took_ms)


def one(ndcg10: float = 0.0, **more: Any) -> Score:
    named = ("file10", "recall10", "mrr10", "top1", "top3", "spec", "first_tokens", "recall500", "recall1000")
    figures = dict.fromkeys((*named, "recall2000", "top5", "top10"), 0.0) | {"chars": 0, "shown": None}
    return Score(ndcg10=ndcg10, **{**figures, **more})


# --- figures -------------------------------------------------------------------------------------------------------


def test_the_right_file_first() -> None:
    got = score(query("a.py"), answer("a.py", "b.py"))
    assert (got.ndcg10, got.file10, got.recall10, got.mrr10, got.top1, got.top3) == (1, 1, 1, 1, 1, 1)
    assert got.chars == 200


def test_the_right_file_second() -> None:
    got = score(query("a.py"), answer("b.py", "a.py"))
    assert got.ndcg10 == pytest.approx(SECOND)
    assert got.file10 == pytest.approx(SECOND)
    assert (got.recall10, got.mrr10, got.top1, got.top3) == (1, 0.5, 0, 1)


def test_a_repeated_file_uses_up_ranks_of_the_list_but_not_of_the_files() -> None:
    got = score(query("a.py"), answer("b.py", "b.py", "a.py"))
    assert got.ndcg10 == pytest.approx(THIRD)
    assert got.file10 == pytest.approx(SECOND)


def test_two_targets_of_which_one_is_found_at_rank_two() -> None:
    got = score(query("a.py", "c.py"), answer("b.py", "a.py"))
    assert got.ndcg10 == pytest.approx(SECOND / (1 + SECOND))
    assert (got.recall10, got.mrr10) == (0.5, 0.5)


def test_a_span_needs_an_overlap() -> None:
    wanted = query(Target("a.py", 20, 30))
    assert score(wanted, answer(Result("a.py", 1, 19))).ndcg10 == 0
    assert score(wanted, answer(Result("a.py", 1, 20))).ndcg10 == 1
    assert score(wanted, answer(Result("a.py", 30, 40))).ndcg10 == 1
    assert score(wanted, answer(Result("a.py", 31, 40))).ndcg10 == 0
    assert score(wanted, answer(Result("a.py"))).ndcg10 == 1  # a result without lines is the whole file
    assert score(wanted, answer(Result("a.py", 1, 19))).file10 == 1  # files do not look at spans


def test_two_spans_of_one_file_at_one_rank_count_once() -> None:
    got = score(query(Target("a.py", 1, 2), Target("a.py", 5, 6)), answer(Result("a.py", 1, 9)))
    assert got.ndcg10 == pytest.approx(1 / (1 + SECOND))
    assert got.file10 == 1


def test_only_ten_results_count() -> None:
    got = score(query("a.py"), answer(*(f"{number}.py" for number in range(10)), "a.py"))
    assert (got.ndcg10, got.file10, got.recall10, got.mrr10) == (0, 0, 0, 0)
    assert got.chars == 1000


def test_more_targets_than_ten_can_still_be_answered_in_full() -> None:
    names = [f"{number}.py" for number in range(12)]
    got = score(query(*names), answer(*names[:10]))
    assert got.ndcg10 == pytest.approx(1)
    assert got.recall10 == pytest.approx(10 / 12)


def test_no_results_and_no_answer_count_as_zero() -> None:
    assert score(query("a.py"), answer()) == score(query("a.py"), None) == one()


def test_tokens_are_counted_until_a_right_line_is_shown() -> None:
    wanted = query(Target("a.py", 20, 30), "c.py")
    found = answer(
        Result("b.py", 1, 9, 800),
        Result("a.py", 1, 40, 1200, (1, 19)),  # the chunk has the lines, its text does not show them
        Result("a.py", 1, 40, 400, (15, 22)),
        Result("c.py", 1, 9, 2000, (1, 5)),
    )
    got = score(wanted, found)
    assert got.first_tokens == 600
    assert (got.recall500, got.recall1000, got.recall2000) == (0, 0.5, 1)
    assert got.shown == 0, "the first result that has the lines decides"
    assert score(query("z.py"), found).first_tokens == 1100, "all is read in vain"
    assert score(query("a.py"), found).shown is None, "a target without lines has none to show"
    assert score(wanted, answer(Result("a.py", 1, 40, 400, (15, 22)))).shown == 1
    assert summarise([one(shown=None), one(shown=1.0), one(shown=0.0)]).shown == 0.5
    assert summarise([one()]).shown is None


def test_a_right_file_among_the_first_five_and_ten() -> None:
    names = [f"{number}.py" for number in range(1, 11)]
    fifth, sixth = (score(query(name), answer("1.py", *names)) for name in ("5.py", "6.py"))
    assert (fifth.top3, fifth.top5, fifth.top10) == (0, 1, 1), "a repeated file uses up no place"
    assert (sixth.top5, sixth.top10) == (0, 1)
    assert score(query("z.py"), answer(*names)).top10 == 0


def test_functions_are_found_by_changed_lines_or_the_definition_around_them() -> None:
    changed = Target("a.py", spans=((20, 22), (60, 60)))
    within = Target("b.py", spans=((5, 5),), functions=((1, 30),))
    wanted = query(changed, within, "c.py")  # the last tells no lines, and is not counted

    def found(*results: Result) -> tuple[int, int]:
        got = score(wanted, answer(*results))
        return got.functions, got.functions_found

    assert found(Result("a.py", 22, 40), Result("b.py", 30, 50)) == (2, 2)
    assert found(Result("a.py", 23, 59), Result("b.py", 31, 50), Result("c.py", 20, 22)) == (2, 0)
    assert found(*(Result("z.py", 1, 2) for _ in range(10)), Result("a.py", 20, 20)) == (2, 0), "only ten results count"
    assert score(wanted, answer(Result("a.py", 23, 59))).ndcg10 > 0, "any result of the file is right"
    assert summarise([one(functions=3, functions_found=1), one(functions=1, functions_found=1)]).function10 == 0.5
    assert summarise([one()]).function10 is None


def test_trusted_answers_and_how_many_of_them_are_right() -> None:
    assert score(query("a.py"), Answer("q", (Result("a.py"),), None, "ok")).ok is True
    assert score(query("a.py"), Answer("q", (), None, "low_confidence")).ok is False
    assert score(query("a.py"), answer("a.py")).ok is None
    summary = summarise([one(ok=True, top3=1.0), one(ok=True), one(ok=False, top3=1.0), one(ok=None, top3=1.0)])
    assert summary.ok == pytest.approx(2 / 3)
    assert summary.ok_top3 == 0.5
    assert (summarise([one(ok=False)]).ok_top3, summarise([one()]).ok) == (None, None)


def test_spec_contamination_is_two_tests_among_the_first_three_files() -> None:
    assert score(query("a.py"), answer("a.py", "tests/test_a.py", "b.py")).spec == 0
    assert score(query("a.py"), answer("a.py", "tests/test_a.py", "src/b.spec.ts")).spec == 1
    assert score(query("a.py"), answer("a.py", "b.py", "c.py", "tests/test_a.py", "d_test.go")).spec == 0


def test_patterns_take_any_file_they_fit_but_no_unwanted_one() -> None:
    wanted = query(Target(patterns=("auth", "login"), unwanted=("spec",)))
    got = score(wanted, answer("src/Auth.spec.ts", "src/LoginPage.ts", "src/auth.ts"))
    assert (got.top1, got.top3, got.recall10) == (0, 1, 1)
    assert got.ndcg10 == pytest.approx(SECOND)


def test_summary_means_and_percentiles() -> None:
    summary = summarise([one(1.0, chars=100, took_ms=1.0), one(0.5, chars=300, took_ms=3.0), one(0.0, took_ms=None)])
    assert (summary.n, summary.ndcg10) == (3, 0.5)
    assert summary.chars == pytest.approx(400 / 3)
    assert summary.tokens == pytest.approx(100 / 3)
    assert summary.p50_ms == 2.0
    assert summary.p95_ms == pytest.approx(2.9)
    assert summarise([]).p50_ms is None
    assert percentile([4.0], 0.95) == 4.0


# --- datasets and results ------------------------------------------------------------------------------------------

BENCHMARK = {"id": "r-1", "repo": "r", "language": "python", "category": "semantic", "query": "where is it"}


def write_benchmark(folder: Path) -> Path:
    folder.mkdir()
    targets = [{"path": "src/a.py", "grade": "relevant"}, {"path": "b.py", "start_line": 3, "end_line": 7}]
    (folder / "queries.jsonl").write_text(json.dumps(BENCHMARK | {"targets": targets}) + "\n\n")
    (folder / "repos.tsv").write_text("name\tlanguage\troot\tsplit\nr\tpython\tsrc\tdev\nwhole\tgo\t-\tdev\n")
    return folder


def test_benchmark_format(tmp_path: Path) -> None:
    dataset = load_dataset(write_benchmark(tmp_path / "bench"))
    assert dataset.name == "bench"
    assert dataset.roots == {"r": "src", "whole": ""}
    (only,) = dataset.queries
    assert only.targets == (Target("src/a.py"), Target("b.py", 3, 7))
    assert (only.id, only.repo, only.language, only.category, only.text) == tuple(BENCHMARK.values())
    assert load_dataset(tmp_path / "bench" / "queries.jsonl") == dataset
    assert dataset.gates == ()


def test_targets_may_tell_changed_lines_and_functions(tmp_path: Path) -> None:
    file = tmp_path / "bugs.jsonl"
    target = {"path": "a.py", "spans": [[3, 4], [9, 9]], "functions": [[1, 12]]}
    file.write_text(json.dumps(BENCHMARK | {"targets": [target]}))
    assert load_dataset(file).queries[0].targets == (Target("a.py", spans=((3, 4), (9, 9)), functions=((1, 12),)),)
    for wrong in (target | {"spans": [[3]]}, {"spans": [[3, 4]]}):
        file.write_text(json.dumps(BENCHMARK | {"targets": [wrong]}))
        with pytest.raises(UsageError, match="is not a dataset"):
            load_dataset(file)


def test_fixture_format(tmp_path: Path) -> None:
    file = tmp_path / "fixture.json"
    rows = [
        {
            "id": 1,
            "query": "log in",
            "category": "exact",
            "expectedPatterns": ["Auth"],
            "expectedNotPatterns": ["Spec"],
        },
        {"id": 2, "query": "wire up", "category": "wiring", "expectedTopFiles": ["main.ts"]},
    ]
    file.write_text(json.dumps({"description": "x", "codebase": "shop", "queries": rows}))
    dataset = load_dataset(file)
    assert [q.id for q in dataset.queries] == ["1", "2"]
    assert dataset.queries[0].targets == (Target(patterns=("auth",), unwanted=("spec",)),)
    assert dataset.queries[1].targets == (Target(patterns=("main.ts",)),)
    assert dataset.gates == (("top1", 0.7),)


def test_a_part_of_a_dataset(tmp_path: Path) -> None:
    dataset = load_dataset(write_benchmark(tmp_path / "bench"))
    assert dataset.of_repositories(("r",)).queries == dataset.queries
    with pytest.raises(NotFound, match="no repository 'x'"):
        dataset.of_repositories(("x",))


@pytest.mark.parametrize("content", ["{", "[]", '{"queries": [{}]}', '{"queries": 3}'])
def test_what_is_no_dataset_says_so(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(UsageError, match="is not a dataset"):
        load_dataset(file)


def test_results_file_is_what_scorers_read(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    answers = [answer("a.py", Result("b.py", 1, 9, 100, (3, 5)), took_ms=1.5), Answer("empty", (), None, "ok")]
    run.write_results(file, answers)
    first = json.loads(file.read_text().splitlines()[0])
    result = {"path": "a.py", "start": 1, "end": 9, "chars": 100, "shown": None}
    assert (first["id"], first["results"][0], first["took_ms"]) == ("q", result, 1.5)
    assert first["results"][1]["shown"] == [3, 5]
    assert run.read_results(file) == {"q": answers[0], "empty": answers[1]}


def test_results_of_another_system_may_lack_lines_and_times(tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text('{"id": 7, "results": [{"path": "a.py"}]}\n')
    assert run.read_results(file) == {"7": Answer("7", (Result("a.py"),))}
    file.write_text("nonsense\n")
    with pytest.raises(UsageError, match="is not a results file"):
        run.read_results(file)


# --- groups, comparison, gates -------------------------------------------------------------------------------------


def test_groups_by_language_category_and_repository() -> None:
    queries = (
        Query("1", "x", (Target("a"),), "r", "python", "symbol"),
        Query("2", "x", (Target("a"),), "s", "go", "symbol"),
    )
    dataset = Dataset("d", queries)
    scores = run.scores_of(dataset, {"1": answer("a", id="1")})
    means = {(g.by, g.name): g.summary.ndcg10 for g in run.groups_of(dataset, scores)}
    assert means[("all", "all")] == 0.5
    assert means[("category", "symbol")] == 0.5
    assert (means[("language", "python")], means[("repo", "s")]) == (1, 0)


def runs(old: list[float], new: list[float]) -> tuple[list[Query], dict[str, Score], dict[str, Score]]:
    queries = [query("a", id=str(number)) for number in range(len(old))]
    ids = [q.id for q in queries]
    return queries, dict(zip(ids, map(one, old), strict=True)), dict(zip(ids, map(one, new), strict=True))


def test_comparison_counts_wins_and_losses_by_size() -> None:
    result = compare("old", *runs([0.0, 0.5, 1.0, 0.3], [1.0, 0.6, 0.2, 0.3]))
    assert [change.id for change in result.wins] == ["0", "1"]
    assert [change.id for change in result.losses] == ["2"]
    assert result.ties == 1
    assert result.difference == pytest.approx(0.075)
    assert result.low < result.difference < result.high
    assert result.p_value > 0.3  # one large gain against one large loss is no evidence


def test_comparison_finds_a_steady_gain_significant_and_repeats_itself() -> None:
    arguments = runs([0.5] * 40, [0.6] * 40)
    result = compare("old", *arguments)
    assert result.p_value < 0.001
    assert result == compare("old", *arguments)


def test_exact_p_of_a_tiny_case() -> None:
    """Three equal gains: of the eight ways to set signs, two are as extreme, so p is a quarter."""
    assert compare("old", *runs([0.0] * 3, [0.5] * 3)).p_value == pytest.approx(0.25, abs=0.02)


def test_comparison_of_a_run_with_itself_is_no_difference() -> None:
    result = compare("old", *runs([0.1, 0.9], [0.1, 0.9]))
    assert (result.p_value, result.difference, result.ties) == (1.0, 0.0, 2)


def test_comparison_looks_only_at_queries_both_answered() -> None:
    queries, old, new = runs([0.5, 0.5], [0.5, 1.0])
    del old["1"]
    assert compare("old", queries, old, new).n == 1


def test_gates_ask_for_quality_at_least_and_costs_at_most() -> None:
    summary = summarise([one(0.8, chars=4000, took_ms=12.0)])
    verdicts = check_gates(parse_gates(["ndcg10=0.8", "ndcg10=0.81", "tokens=1000", "p95_ms=11.9"]), summary)
    assert [verdict.passed for verdict in verdicts] == [True, False, True, False]
    assert not check_gates((("p50_ms", 1e9),), summarise([one()]))[0].passed  # what was not measured does not pass


@pytest.mark.parametrize("text", ["ndcg10", "ndcg10=", "ndcg10=nan", "quality=1", "n=3", "=1"])
def test_what_is_no_gate_says_so(text: str) -> None:
    with pytest.raises(UsageError, match="is not a gate"):
        parse_gates([text])


def test_a_subject_made_to_do_harm_takes_no_time() -> None:
    for subject in (f"fix (#1{' and see a/b#1' * 40} x", f"fix{' ' * 50_000}x"):
        assert is_quick(lambda: run.strip_numbers(subject), 5)  # noqa: B023
