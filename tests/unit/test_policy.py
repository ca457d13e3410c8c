"""The relevance policy, one test for each promise: cutoff, fallback, dedupe, two per file, caps, order."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codeinfo.model import Distance, Passage
from codeinfo.search.policy import PolicyResult, apply_policy, distance_of
from codeinfo.settings import RetrievalSettings

DEFAULTS = RetrievalSettings()
LINES: dict[str, int] = {}  # the first line of each chunk, by its name


def item(name: str, distance: Any = 0.5, *, repo: Any = "repo", path: Any = None, text: Any = None) -> Passage:
    """A chunk in a file of its own, unless said otherwise. Its first line tells it from others in what was dropped."""
    return Passage(
        repo,
        f"{name}.py" if path is None else path,
        start_line=LINES.setdefault(name, len(LINES)),
        end_line=10**6,
        text=name if text is None else text,
        chunk_id=name,
        distance=None if distance is None else Distance(distance),
    )


def kept(result: PolicyResult) -> list[str]:
    return [entry.chunk_id for entry in result.kept]


def rules(result: PolicyResult) -> dict[str, str]:
    names = {line: name for name, line in LINES.items()}
    return {names[drop.start_line]: drop.rule for drop in result.dropped}


# --- cutoff --------------------------------------------------------------------------------------------------------


def test_cutoff_keeps_distances_up_to_and_including_it() -> None:
    result = apply_policy([item("near", 0.2), item("edge", 1.4), item("far", 1.4000001)], DEFAULTS)
    assert kept(result) == ["near", "edge"]
    assert rules(result) == {"far": "cutoff"}
    assert not result.fell_back


def test_cutoff_can_be_set() -> None:
    assert kept(apply_policy([item("a", 0.2), item("b", 0.5)], RetrievalSettings(distance_cutoff=0.3))) == ["a"]


def test_cutoff_of_zero_keeps_identical_only() -> None:
    assert kept(apply_policy([item("a", 0.0), item("b", 0.1)], RetrievalSettings(distance_cutoff=0))) == ["a"]


def test_cutoff_drop_says_by_how_much() -> None:
    (drop,) = apply_policy([item("a", 1.0), item("b", 2.5)], DEFAULTS).dropped
    assert drop.detail == "distance 2.5 > 1.4"


def test_cutoff_bypass_makes_everything_eligible() -> None:
    items = [item("a", 0.1), item("far", 3.9), item("none", None)]
    assert kept(apply_policy(items, RetrievalSettings(cutoff_disabled=True))) == ["a", "far", "none"]


def test_cutoff_bypass_still_obeys_the_caps() -> None:
    settings = RetrievalSettings(cutoff_disabled=True, chunk_max_chars=4, max_chars=8)
    result = apply_policy([item(name, 3.0, text=name * 9) for name in "abc"], settings)
    assert [entry.text for entry in result.kept] == ["aaaa", "bbbb"]
    assert rules(result) == {"c": "max_chars"}


def test_fallback_keeps_the_closest_in_the_stores_order() -> None:
    result = apply_policy([item("c", 2.0), item("a", 1.6), item("b", 1.5)], DEFAULTS)
    assert kept(result) == ["a", "b"]
    assert rules(result) == {"c": "fallback"}
    assert result.fell_back


def test_fallback_count_can_be_set() -> None:
    items = [item(str(number), 2 + number / 10) for number in range(5)]
    assert kept(apply_policy(items, RetrievalSettings(fallback_chunks=1))) == ["0"]
    assert kept(apply_policy(items, RetrievalSettings(fallback_chunks=9))) == ["0", "1", "2", "3", "4"]


def test_fallback_ties_go_to_the_earlier() -> None:
    assert kept(apply_policy([item("a", 2.0), item("b", 2.0), item("c", 2.0)], DEFAULTS)) == ["a", "b"]


def test_no_fallback_when_one_passes() -> None:
    assert kept(apply_policy([item("a", 2.0), item("b", 1.0)], DEFAULTS)) == ["b"]


def test_missing_distance_does_not_pass_the_cutoff() -> None:
    result = apply_policy([item("none", None), item("a", 1.0)], DEFAULTS)
    assert kept(result) == ["a"]
    assert result.dropped[0].detail == "no distance > 1.4"


def test_missing_distance_has_lowest_priority_in_the_fallback() -> None:
    items = [item("none", None), item("a", 3.0), item("b", 2.0)]
    assert kept(apply_policy(items, DEFAULTS)) == ["a", "b"]
    assert kept(apply_policy(items, RetrievalSettings(fallback_chunks=3))) == ["none", "a", "b"]


def test_all_distances_missing_falls_back_in_original_order() -> None:
    result = apply_policy([item("c", None), item("a", None), item("b", None)], DEFAULTS)
    assert kept(result) == ["c", "a"]
    assert result.fell_back


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "0.1", True, [], None])
def test_non_numeric_distance_counts_as_missing(bad: Any) -> None:
    result = apply_policy([item("bad", bad), item("a", 1.0)], DEFAULTS)
    assert kept(result) == ["a"]
    assert result.with_distance == 1
    assert kept(apply_policy([item("bad", bad)], DEFAULTS)) == ["bad"]


def test_no_results_is_an_empty_list_and_no_error() -> None:
    result = apply_policy([], DEFAULTS)
    assert result == PolicyResult((), (), "none", 0)
    assert apply_policy([], RetrievalSettings(cutoff_disabled=True)).kept == ()


# --- score source --------------------------------------------------------------------------------------------------


def test_score_source_and_count() -> None:
    items = [item("a", 0.1), item("b", None), item("c", 3.0)]
    result = apply_policy(items, DEFAULTS)
    assert (result.score_source, result.with_distance) == ("distances", 2)
    assert apply_policy([item("b", None)], DEFAULTS).score_source == "none"


# --- dedupe --------------------------------------------------------------------------------------------------------


def test_same_chunk_id_within_a_file_collapses_to_the_first() -> None:
    first, second = item("x", 0.5, path="f", text="one"), item("x", 0.1, path="f", text="two")
    result = apply_policy([first, second], DEFAULTS)
    assert result.kept == (first,)
    assert [drop.rule for drop in result.dropped] == ["duplicate"]


def test_same_text_within_a_file_collapses_to_the_first() -> None:
    assert kept(apply_policy([item("x", path="f", text="t"), item("y", path="f", text="t")], DEFAULTS)) == ["x"]


def test_same_text_in_two_files_stays_twice() -> None:
    assert kept(apply_policy([item("x", path="f", text="t"), item("y", path="g", text="t")], DEFAULTS)) == ["x", "y"]


def test_same_path_and_text_in_two_repositories_stays_twice() -> None:
    items = [item("x", path="f", text="t", repo="one"), item("x", path="f", text="t", repo="two")]
    assert kept(apply_policy(items, DEFAULTS)) == ["x", "x"]


def test_file_identity_is_a_pair_and_not_a_joined_text() -> None:
    items = [item("x", repo="a:b", path="c", text="t"), item("y", repo="a", path="b:c", text="t")]
    assert kept(apply_policy(items, DEFAULTS)) == ["x", "y"]


def test_items_without_chunk_id_are_no_duplicates_of_each_other() -> None:
    items = [Passage("r", "f", 1, 1, text, distance=Distance(0.5)) for text in ("one", "two")]
    assert len(apply_policy(items, DEFAULTS).kept) == 2


def test_duplicates_do_not_use_up_the_two_places_of_a_file() -> None:
    items = [item("a", 0.1, path="f", text="t"), item("b", 0.2, path="f", text="t"), item("c", 0.3, path="f")]
    assert kept(apply_policy(items, DEFAULTS)) == ["a", "c"]


# --- two per file --------------------------------------------------------------------------------------------------


def test_two_closest_per_file_in_the_stores_order() -> None:
    result = apply_policy([item(name, d, path="f") for name, d in (("a", 0.9), ("b", 0.3), ("c", 0.6))], DEFAULTS)
    assert kept(result) == ["b", "c"]
    assert rules(result) == {"a": "per_file"}


def test_two_per_file_ties_go_to_the_earlier() -> None:
    assert kept(apply_policy([item(name, 0.5, path="f") for name in "abc"], DEFAULTS)) == ["a", "b"]


def test_two_per_file_prefers_items_with_a_distance() -> None:
    items = [item("none", None, path="f"), item("a", 3.0, path="f"), item("b", 2.0, path="f")]
    assert kept(apply_policy(items, RetrievalSettings(cutoff_disabled=True))) == ["a", "b"]


def test_two_per_file_leaves_other_files_alone() -> None:
    items = [item(name, path=path) for name, path in (("a", "f"), ("b", "g"), ("c", "f"), ("d", "g"), ("e", "f"))]
    assert kept(apply_policy(items, DEFAULTS)) == ["a", "b", "c", "d"]


# --- caps ----------------------------------------------------------------------------------------------------------


def test_each_chunk_is_cut_to_its_cap() -> None:
    (entry,) = apply_policy([item("a", text="x" * 5001)], DEFAULTS).kept
    assert len(entry.text) == 5000


def test_a_cut_chunk_has_only_the_lines_it_shows() -> None:
    (entry,) = apply_policy([Passage("r", "f", 3, 5, "one\ntwo\nthree")], RetrievalSettings(chunk_max_chars=6)).kept
    assert (entry.text, entry.start_line, entry.end_line) == ("one\ntw", 3, 4)


def test_total_counts_the_cut_texts() -> None:
    settings = RetrievalSettings(chunk_max_chars=10, max_chars=20)
    assert kept(apply_policy([item(name, text=name * 99) for name in "abc"], settings)) == ["a", "b"]


def test_total_cap_may_be_filled_exactly() -> None:
    assert kept(apply_policy([item("a", text="12345"), item("b", text="12345")], RetrievalSettings(max_chars=10))) == [
        "a",
        "b",
    ]


def test_nothing_comes_after_the_first_chunk_past_the_cap() -> None:
    items = [item("a", text="1234"), item("b", text="123456789"), item("c", text="1")]
    result = apply_policy(items, RetrievalSettings(max_chars=10))
    assert kept(result) == ["a"]
    assert rules(result) == {"b": "max_chars", "c": "max_chars"}


def test_too_small_a_cap_gives_zero_results() -> None:
    result = apply_policy([item("a", text="1234"), item("b", text="123")], RetrievalSettings(max_chars=2))
    assert result.kept == ()
    assert (result.score_source, result.with_distance) == ("distances", 2)


def test_dedupe_comes_before_the_cut() -> None:
    """Two chunks that begin alike are two chunks."""
    items = [item("a", path="f", text="same1"), item("b", path="f", text="same2")]
    assert [e.text for e in apply_policy(items, RetrievalSettings(chunk_max_chars=4)).kept] == ["same", "same"]


# --- malformed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [item("bad", repo=""), item("bad", repo=None), item("bad", path=""), item("bad", text=7)]
)
def test_malformed_items_are_skipped(bad: Passage) -> None:
    result = apply_policy([bad, item("a")], DEFAULTS)
    assert kept(result) == ["a"]
    assert rules(result) == {"bad": "malformed"}


def test_malformed_items_do_not_use_up_the_fallback() -> None:
    items = [item("x", 1.5, path=""), item("y", 1.5, repo=""), item("a", 2.0)]
    assert kept(apply_policy(items, DEFAULTS)) == ["a"]


def test_only_malformed_items_give_no_result() -> None:
    assert apply_policy([item("a", repo="")], DEFAULTS).kept == ()


# --- properties ----------------------------------------------------------------------------------------------------

values = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 4))
messy = st.builds(
    Passage,
    root=st.sampled_from(["r", "s", ""]),
    path=st.sampled_from(["a", "b", "c", ""]),
    start_line=st.just(1),
    end_line=st.just(12),
    text=st.text(max_size=12),
    chunk_id=st.sampled_from(["", *"012345"]),
    distance=st.one_of(st.none(), st.builds(Distance, values)),
)
lists = st.lists(messy, max_size=12)
settings_values = st.builds(
    RetrievalSettings,
    distance_cutoff=st.floats(0, 4),
    cutoff_disabled=st.booleans(),
    fallback_chunks=st.integers(1, 4),
    chunk_max_chars=st.integers(1, 12),
    max_chars=st.integers(1, 40),
)


def tagged(items: list[Passage]) -> list[Passage]:
    """Each item's first line is its place in the store's order."""
    return [replace(one, start_line=place) for place, one in enumerate(items)]


@given(lists, settings_values)
def test_never_more_than_the_caps(items: list[Passage], settings: RetrievalSettings) -> None:
    texts = [entry.text for entry in apply_policy(items, settings).kept]
    assert sum(map(len, texts)) <= settings.max_chars
    assert all(len(text) <= settings.chunk_max_chars for text in texts)


@given(lists, settings_values)
def test_order_is_kept(items: list[Passage], settings: RetrievalSettings) -> None:
    places = [entry.start_line for entry in apply_policy(tagged(items), settings).kept]
    assert places == sorted(places)


@given(lists, settings_values)
def test_nothing_is_fabricated_and_nothing_lost_silently(items: list[Passage], settings: RetrievalSettings) -> None:
    """Every item is kept, cut at most, or dropped by a named rule; never both, never a new one."""
    given_items = tagged(items)
    result = apply_policy(given_items, settings)
    for entry in result.kept:
        original = given_items[entry.start_line]
        assert original.text.startswith(entry.text)
        assert replace(entry, text=original.text, end_line=original.end_line) == original
    places = [entry.start_line for entry in result.kept] + [drop.start_line for drop in result.dropped]
    assert sorted(places) == list(range(len(items)))


@given(lists, settings_values)
def test_at_most_two_per_file(items: list[Passage], settings: RetrievalSettings) -> None:
    files = [(entry.root, entry.path) for entry in apply_policy(items, settings).kept]
    assert all(files.count(file) <= 2 for file in files)


@given(lists, settings_values)
def test_what_is_kept_passes_or_is_a_fallback(items: list[Passage], settings: RetrievalSettings) -> None:
    result = apply_policy(items, settings)
    if result.fell_back:
        assert len(result.kept) <= settings.fallback_chunks
    elif not settings.cutoff_disabled:
        assert all(distance_of(entry) <= settings.distance_cutoff for entry in result.kept)


@given(lists, settings_values)
def test_once_more_changes_nothing(items: list[Passage], settings: RetrievalSettings) -> None:
    """Where no text was cut: cut texts of one file may have become equal, and would be duplicates."""
    once = apply_policy(items, settings)
    if all(len(entry.text) < settings.chunk_max_chars for entry in once.kept):
        assert apply_policy(once.kept, settings).kept == once.kept
