"""What pages show, without a browser: citations, tool rows, the picture of the map."""

from __future__ import annotations

from typing import Any

from codeinfo.requests.answers import Citation, ToolUse, Turn
from codeinfo.requests.code import CodeMap, MapArea
from codeinfo.shells.http_html import _environment
from codeinfo.shells.http_text import citation_link
from codeinfo.shells.http_views import picture_of, shown_citations, tool_rows, turn_view
from codeinfo.types import Distance


def citation(number: int, path: str, start: int, distance: float | None, root: str = "/r") -> Citation:
    return Citation(number, root, path, start, start + 5, "", None if distance is None else Distance(distance))


def test_citations_are_deduplicated_within_a_file_and_the_two_closest_stay() -> None:
    given = [
        citation(1, "a.py", 1, 0.9),
        citation(2, "a.py", 1, 0.9),  # the same lines again
        citation(3, "a.py", 10, 0.5),
        citation(4, "a.py", 20, 0.9),  # as close as the first, but later
        citation(5, "b.py", 1, None),
        citation(6, "a.py", 1, 0.1, root="/other"),  # another repository's file
    ]
    assert [one.number for one in shown_citations(given)] == [1, 3, 5, 6]


def test_malformed_tool_entries_are_rows_too() -> None:
    odd: tuple[Any, ...] = (None, {"name": 5}, "text", ToolUse("search", "{}", "3 passages"))
    rows = tool_rows(odd)
    assert [row.failed for row in rows] == [True, True, True, False]
    turn = Turn(1, "c", "assistant", "text", "ok", "now", tool_calls=odd)
    html = _environment().get_template("turns.html").render(turns=[turn_view(turn)], link=citation_link)
    assert html.count("malformed entry") == 3


def test_a_turn_without_anything_is_shown() -> None:
    html = (
        _environment()
        .get_template("turns.html")
        .render(
            turns=[turn_view(Turn(1, "c", "assistant", "", "failed", "now", error="it <broke>"))], link=citation_link
        )
    )
    assert "it &lt;broke&gt;" in html


def test_the_map_puts_what_is_needed_below_and_marks_cycles() -> None:
    areas = (
        MapArea("core", 0, 3, 0.9),
        MapArea("store", 1, 2, 0.5, {"core": 4, "net": 1}, in_cycle=True),
        MapArea("net", 1, 2, 0.4, {"core": 12, "store": 1}, in_cycle=True),
        MapArea("app", 2, 1, 0.1, {"store": 1, "gone": 1}),
    )
    picture = picture_of(CodeMap("/r", 8, 9, {}, (), (), areas, (), (), 1, 0, 0))
    height = {box.area.name: box.y for box in picture.boxes}
    assert height["app"] < height["store"] == height["net"] < height["core"]
    assert len(picture.edges) == 5
    assert [edge.title for edge in picture.edges if edge.cycle] == ["store → net: 1", "net → store: 1"]
    assert all(box.x >= 0 and box.x + box.width <= picture.width for box in picture.boxes)
