"""The answer loop: rounds, grades, caps; with a scripted model in place of a real one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from loop_tools import FIVE, Scenario, interrupt, passage
from msgspec.structs import replace
from scripted import Reply, Request, ScriptedLlm

from codeinfo.answers.loop import BATCH, NOT_GRADED, Research
from codeinfo.answers.model import Budget, Model, Spent
from codeinfo.ports import Delta, Message
from codeinfo.serve.dispatch import Call

# --- grading and rounds -------------------------------------------------------------------------------------------


def test_every_passage_is_graded_by_itself() -> None:
    """The lumped-array fault: five chunks in one item slipped past the grading as if they were one."""
    scenario = Scenario([FIVE])
    reply = scenario.ask()
    assert scenario.graded == [5]
    assert len(reply.trace.rounds[0].items) == 5
    assert reply.status == "ok"
    assert reply.citations[0].path == "src/part1.py"


@pytest.mark.parametrize("count", [21, 50])
def test_more_than_twenty_passages_work(count: int) -> None:
    scenario = Scenario([[passage(n) for n in range(1, count + 1)]])
    reply = scenario.ask()
    assert sum(scenario.graded) == count
    assert max(scenario.graded) <= BATCH
    assert [item.score for item in reply.trace.rounds[0].items] == [1.0] * count


@pytest.mark.parametrize("count", [1, 2])
def test_two_passages_are_not_graded(count: int) -> None:
    scenario = Scenario([FIVE[:count]])
    reply = scenario.ask()
    assert scenario.graded == []
    assert reply.trace.rounds[0].verdict == "answer"


def test_zeros_are_dropped_before_the_average() -> None:
    scenario = Scenario([FIVE], grades=[[0, 0, 0.9, 0.8, 0]])
    reply = scenario.ask()
    assert reply.trace.rounds[0].average == pytest.approx(0.85)
    assert reply.trace.rounds[0].verdict == "answer"
    written = scenario.llm.requests[-1].messages[-1].content
    assert "src/part3.py" in written
    assert "src/part1.py" not in written


def test_a_middling_average_refines_and_keeps_what_was_found() -> None:
    scenario = Scenario([FIVE, [passage(n) for n in range(6, 10)]], grades=[0.5, 0.9])
    reply = scenario.ask()
    assert [entry.verdict for entry in reply.trace.rounds] == ["refine", "answer"]
    assert scenario.queries == ["how is the total computed?", "query 2"]
    written = scenario.llm.requests[-1].messages[-1].content
    assert "src/part1.py" in written
    assert "src/part9.py" in written


def test_a_poor_average_rewrites() -> None:
    scenario = Scenario([FIVE, [passage(n) for n in range(6, 10)]], grades=[0.1, 0.9])
    assert [entry.verdict for entry in scenario.ask().trace.rounds] == ["rewrite", "answer"]


@pytest.mark.parametrize("rounds", [1, 3])
def test_rounds_are_capped_and_thin_evidence_is_said(rounds: int) -> None:
    searches = [[passage(10 * turn + n) for n in range(1, 6)] for turn in range(9)]
    scenario = Scenario(searches, grades=[0.2], rounds=rounds)
    reply = scenario.ask()
    assert len(scenario.queries) == len(reply.trace.rounds) == rounds
    assert f"{rounds} rounds are the limit" in reply.trace.rounds[-1].verdict
    assert "The evidence is thin. Missing:" in reply.text
    assert reply.missing


def test_a_search_that_brings_nothing_new_ends_the_rounds() -> None:
    scenario = Scenario([FIVE], grades=[0.4])
    reply = scenario.ask()
    assert len(scenario.queries) == 2
    assert reply.trace.rounds[-1].verdict == "nothing new was found"


def test_nothing_relevant_abstains_without_writing() -> None:
    scenario = Scenario([FIVE], grades=[0.0])
    reply = scenario.ask()
    assert reply.status == "abstained"
    assert not reply.citations
    assert "Missing: the caller" in reply.text


def test_an_empty_tree_abstains() -> None:
    assert Scenario([[]]).ask().status == "abstained"


def test_a_model_that_cannot_grade_is_said_and_the_answer_goes_on() -> None:
    scenario = Scenario([FIVE], grades=[Reply("I like them all!")])
    reply = scenario.ask()
    assert "could not grade" in reply.notes[0]
    assert reply.text.startswith("The total")


def test_the_policy_is_applied_and_its_drops_are_in_the_trace() -> None:
    far = [passage(1), passage(2, 1.9), passage(1, 0.6)]
    reply = Scenario([far]).ask()
    rules = {(drop.path, drop.rule) for drop in reply.trace.rounds[0].dropped}
    assert rules == {("src/part2.py", "cutoff"), ("src/part1.py", "duplicate")}
    assert reply.trace.rounds[0].score_source == "distances"


def test_the_best_and_the_definition_that_a_question_names_pass_the_cutoff() -> None:
    found = [
        replace(passage(1, 1.57), symbol="other"),
        replace(passage(2, 1.57), symbol="Console.echo"),
        passage(3, 0.9),
        passage(4, 1.6),
    ]
    reply = Scenario([found]).ask("explain echo")
    assert [item.path for item in reply.trace.rounds[0].items] == ["src/part1.py", "src/part2.py", "src/part3.py"]
    unnamed = Scenario([found]).ask("explain the console output")
    assert [item.path for item in unnamed.trace.rounds[0].items] == ["src/part1.py", "src/part3.py"]


def test_a_passage_with_more_of_the_words_than_the_best_passes_the_cutoff() -> None:
    found = [
        replace(passage(1, 1.5), text="def blocks():\n    return 1\n"),
        replace(passage(2, 1.5), text="def check():\n    # bots are blocked here\n    return 2\n"),
        replace(passage(3, 1.5), text="def count_blocks():\n    return 3\n"),
        passage(4, 0.9),
    ]
    reply = Scenario([found]).ask("where are bots blocked")
    assert [item.path for item in reply.trace.rounds[0].items] == ["src/part1.py", "src/part2.py", "src/part4.py"]


# --- what goes to the model ---------------------------------------------------------------------------------------


def test_passages_far_below_the_best_are_left_out_and_reported() -> None:
    passages = [passage(n, score=score) for n, score in enumerate((1.0, 0.9, 0.2, 0.6, 0.59), 1)]
    scenario = Scenario([passages])
    reply = scenario.ask()
    (round_,) = reply.trace.rounds
    # The first three go along whatever their score: with fewer there would be nothing to grade.
    assert [item.path for item in round_.items] == [f"src/part{n}.py" for n in range(1, 5)]
    (drop,) = round_.dropped
    assert (drop.path, drop.rule, drop.detail) == ("src/part5.py", "least_score", "0.59 of the best score")
    everything = Scenario([passages], least_score=0.0).ask()
    assert len(everything.trace.rounds[0].items) == 5


def body(number: int, lines: int) -> str:
    filler = [f"    step_{number}_{line} = {line}" for line in range(lines)]
    filler[lines // 2] = f"    total = computed_{number}"
    return "\n".join([f"def part{number}():", *filler])


def test_the_best_passage_is_whole_and_the_others_cut_around_what_matches() -> None:
    passages = [passage(1, text=body(1, 100)), passage(2, text=body(2, 100)), passage(3, text=body(3, 10))]
    seen: list[str] = []

    class Listener(Scenario):
        def _play(self, request: Request) -> Reply:
            seen.append("\n".join(message.content for message in request.messages))
            return super()._play(request)

    scenario = Listener([passages], passage_chars=400)
    reply = scenario.ask("how is computed total")
    graded, written = seen[0], seen[-1]
    assert "step_1_0 " in written
    assert "step_1_99 " in written
    assert "computed_2" in written
    assert "step_2_99 " not in written
    assert "def part3" in written
    assert "step_3_9 " in written
    first, second, third = reply.trace.rounds[0].items
    assert (first.start_line, first.end_line) == (1, 101)
    assert second.start_line > 1
    assert second.end_line - second.start_line < 30
    assert (third.start_line, third.end_line) == (1, 11)
    assert "computed_1" in graded
    assert "step_1_99 " not in graded


# --- budgets ------------------------------------------------------------------------------------------------------


def test_the_token_budget_ends_the_search_and_is_said() -> None:
    long = [passage(n, text="word " * 600) for n in range(1, 6)]
    after = [passage(n) for n in range(6, 10)]
    scenario = Scenario([long, after], grades=[0.5], max_tokens=4_000, reply_tokens=100, passage_chars=5_000)
    reply = scenario.ask()
    assert any("tokens for one answer (4,000) are used up" in note for note in reply.notes)
    assert reply.status == "partial"
    assert len(scenario.queries) == 1


def test_the_evidence_is_cut_to_the_tokens_that_are_left() -> None:
    long = [passage(n, text=f"{n} word " * 500) for n in range(1, 3)]
    scenario = Scenario([long], max_tokens=2_000, reply_tokens=100, passage_chars=5_000)
    reply = scenario.ask()
    assert reply.usage.evidence_tokens < 2_000
    assert any(drop.rule == "max_chars" for drop in reply.trace.rounds[0].dropped)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class SlowLlm(ScriptedLlm):
    """Takes a second of its clock for each piece."""

    clock = Clock()

    def stream(self, *args: Any, **more: Any) -> Any:
        for delta in super().stream(*args, **more):
            self.clock.seconds += 1
            yield delta


def test_the_time_budget_keeps_the_partial_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.answers.model.time", SlowLlm.clock)
    scenario = Scenario([FIVE[:2]], replies=["word " * 200], timeout_s=60)
    scenario.llm = SlowLlm(scenario._play)
    reply = scenario.ask()
    assert reply.status == "partial"
    assert "the time for one answer (60 s) is used up" in reply.notes[0]
    assert reply.text.startswith("word word")
    assert reply.text.count("word") <= 60


class SilentLlm(ScriptedLlm):
    """Says nothing until somebody hangs up."""

    def stream(self, *args: Any, **more: Any) -> Any:
        return self

    def __iter__(self) -> Any:
        self.closed = threading.Event()
        return self

    def __next__(self) -> Delta:
        assert self.closed.wait(120)
        raise StopIteration

    def close(self) -> None:
        self.closed.set()


def test_the_time_budget_ends_a_silent_model_that_a_server_follows() -> None:
    model = Model(SilentLlm([]), Budget(1000, 0.2), Call().follow)
    with pytest.raises(Spent, match=r"0\.2 s"):
        list(model.stream([Message("user", "hi")]))


def test_a_run_stopped_while_it_grades_leaves_its_search() -> None:
    scenario, found = Scenario([FIVE]), Research()
    scenario.llm = ScriptedLlm(interrupt)
    with pytest.raises(KeyboardInterrupt):
        scenario.ask("how?", research=found)
    assert [(entry.query, len(entry.items), entry.verdict) for entry in found.rounds] == [("how?", 5, NOT_GRADED)]
