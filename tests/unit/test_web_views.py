"""What pages show, without a browser: citations, tool rows, the picture of the map."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from markupsafe import Markup
from web_tools import client, index, make_project

from codeinfo.errors import NotFound, UsageError
from codeinfo.model import Distance, Hit, HitContext, Intent, NextStep, Quality, SearchResult, to_run
from codeinfo.operations.answers import Citation, GradedItem, Round, ToolUse, Turn
from codeinfo.operations.code import CodeMap, CycleReport, MapArea
from codeinfo.operations.knowledge import PatternHistory
from codeinfo.operations.team import TeamFailure, TeamJobs
from codeinfo.shells.http_api import error_body
from codeinfo.shells.http_team import ADMIN_ACTIONS
from codeinfo.shells.http_views import (
    ENVIRONMENT,
    ChartView,
    area_detail,
    area_label,
    area_name,
    decay_chart,
    editor_address,
    editor_template,
    mark_spans,
    markdown_html,
    picture_of,
    result_lines,
    sentence_html,
    shown_citations,
    trend_chart,
)
from codeinfo.shells.render import render
from codeinfo.shells.render_answers import strip_site_markup
from codeinfo.shells.terminal import Output


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


def test_a_turn_without_anything_is_shown() -> None:
    html = ENVIRONMENT.get_template("turns.html").render(
        turns=[Turn(1, "c", "assistant", "", "failed", "now", error="it <broke>")], root=""
    )
    assert "It &lt;broke&gt;" in html


def test_tool_rows_tell_each_search_each_file_and_each_match() -> None:
    items = (
        GradedItem("a.py", 1, 5, 0.9, Distance(0.8), "/r", "def a():"),
        GradedItem("b.py", 1, 2, None, None, "/r", "b = <script>"),
        GradedItem("a.py", 9, 12, None, Distance(0.3), "/r", "def b():"),
    )
    turn = Turn(
        1, "c", "assistant", "text", "ok", "now",
        rounds=(Round("how?", items, (), None, "answer"),),
        tool_calls=(ToolUse("search", "{}", "1 passage", items=items[:1]), ToolUse("outline", "{}", "no", failed=True)),
    )  # fmt: skip
    html = ENVIRONMENT.get_template("turns.html").render(turns=[turn], root="/elsewhere")
    assert "b = &lt;script&gt;" in html
    _, *calls = html.split('<details class="call')
    named = [(re.findall("<code>(.*?)</code>", call)[0], call.startswith(" failed")) for call in calls]
    assert named == [("search", False), ("search", False), ("outline", True)]
    assert "3 passages, 0 dropped, enough to answer" in calls[0]
    files = [re.findall(r"<summary>(\S+) .*? (\d) match", call) for call in calls]
    assert files == [[("a.py", "2"), ("b.py", "1")], [("a.py", "1")], []]
    lowest = [part.partition("</summary>")[0] for part in calls[0].split("lowest")[1:]]
    assert "distance 0.300" in lowest[0]
    assert "no distance" in lowest[1]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("no project is indexed", "No project is indexed"),
        ("bank.py is not in the index", "bank.py is not in the index"),
        ("run `codeinfo <x>`", "Run <code>codeinfo &lt;x&gt;</code>"),
        ("`a`: <script>", "<code>a</code>: &lt;script&gt;"),
        ("a ` alone", "A ` alone"),
        ("http://127.0.0.1:1/v1 failed", "http://127.0.0.1:1/v1 failed"),
        ("refused: not now", "Refused: not now"),
        ("", ""),
    ],
)
def test_messages_are_sentences_and_never_html(text: str, html: str) -> None:
    assert sentence_html(text) == html


def test_a_long_name_keeps_its_end() -> None:
    area = MapArea("a/an_area_with_a_long_name.py", 0, 1, 0.9)
    assert (area_label(area), area_detail(area)) == ("…ith_a_long_name.py", "a")
    assert area_detail(MapArea("config.ru", 0, 1, 0.9)) == "the top folder"


def test_an_area_has_a_name() -> None:
    assert [area_name(one) for one in ("*/*", "src/*", "src")] == ["the top folder", "src", "src"]
    areas = {
        "src/(parse … read)": ("src", "9 files: parse … read"),
        "src/(* … read)": ("src", "9 files: … read"),
        "(parse_all … read_everything)": ("the top folder", "9 files: parse_all … read…"),
        "modules/(markup, timeutil, …)": ("modules", "9 files: markup, timeutil…"),
        "modules/(templates, repository, …)": ("modules", "9 files: templates, repos…"),
        "app/(main)/(admin, settings, …)": ("app/(main)", "9 files: admin, settings…"),
        "app/(collect)": ("app/(collect)", "9 files"),
        "packages/sync-server": ("sync-server", "9 files"),
        "packages/component-library/src": ("…ponent-library/src", "9 files"),
    }
    assert {
        name: (area_label(area), area_detail(area)) for name in areas if (area := MapArea(name, 0, 9, 0.9))
    } == areas
    assert area_name("src/(* … read)") == "src/(… read)"


def test_what_is_for_the_generator_of_a_site_is_not_read() -> None:
    text = "---\ntitle: A release\ntags: [news]\n---\n# Tasks { #tasks }\n\nOne\n\n---\n\nTwo\n\n---\n"
    assert strip_site_markup(text) == "# Tasks\n\nOne\n\n---\n\nTwo\n\n---\n"


def test_boxes_and_components_of_a_site_are_read_as_text() -> None:
    text = (
        "import Tabs from '@theme/Tabs';\n\n:::tip[Use it]\n<Tabs id=\"a\">List<String>, `<Tabs>`</Tabs>\n:::\n:::note"
    )
    assert strip_site_markup(text) == "\n\n**Use it**\n\nList<String>, `<Tabs>`\n\n**Note**\n"
    code = "```jsx\nimport Tabs from '@theme/Tabs';\n<Tabs>\n:::\n```"
    assert strip_site_markup(code) == code


def test_how_a_query_was_read_and_what_a_trend_is_about_are_said_in_words() -> None:
    read = [ENVIRONMENT.filters["reading"](intent.value) for intent in Intent]
    assert read[:2] == ["a name", "a description"]
    assert len(set(read)) == len(Intent)
    out, hit = io.StringIO(), Hit("/r", "a.py", 1, 1, "one", 1, 1.0, 1, context=HitContext(trend="Rising"))
    render(SearchResult("one", Intent.CONCEPTUAL, (hit,), Quality("ok", 0.9)), Output(out))
    assert "uses a rising pattern" in out.getvalue()


def test_advice_leads_to_the_page_that_follows_it() -> None:
    advice = NextStep("run ", to_run("refs", "a<b"), " or ", to_run("index"))
    link = "/ui/name?project=%2Fr&amp;name=a%3Cb"
    assert sentence_html(advice, "/r") == (
        f'Run <a href="{link}" hx-get="{link}" hx-target="#panel"><code>codeinfo refs &#x27;a&lt;b&#x27;</code></a>'
        " or <code>codeinfo index</code>"
    )
    assert "<a " not in sentence_html(advice)
    exact = sentence_html(NextStep(to_run("grep", "x")), "/r")
    assert exact == '<a href="/?project=%2Fr&amp;q=x&amp;mode=exact"><code>codeinfo grep x</code></a>'


def test_administrators_see_why_jobs_fail() -> None:
    of_project = '{"ref": "", "project": "a/b"}'
    failure = TeamFailure("index_ref", of_project, 2, "2026-01-01T00:00:00Z", "the host does not answer")
    jobs = TeamJobs(1, 0, 1, (), (), (failure,))
    empty = dict.fromkeys(("problem", "made", "grants", "users", "groups", "tokens", "events"), ())
    shown = {**empty, "overview": {"bytes": 0, "trees": ()}, "actions": ADMIN_ACTIONS}
    html = ENVIRONMENT.get_template("admin_content.html").render(jobs=jobs, **shown)
    assert "Will be retried:</strong> index_ref: project a/b, 2 attempts<br>The host does not answer" in html


def test_a_stopped_answer_marks_what_it_could_not_check() -> None:
    html = markdown_html("It moves [1: unverified] and stays [2].")
    assert html == '<p>It moves [1]<span class="unverified">unverified</span> and stays [2].</p>\n'


def test_the_map_puts_what_is_needed_below_and_marks_cycles() -> None:
    areas = (
        MapArea("core", 0, 3, 0.9),
        MapArea("store", 1, 2, 0.5, {"core": 4, "net": 1}, in_cycle=True),
        MapArea("net", 1, 2, 0.4, {"core": 12, "store": 1}, in_cycle=True),
        MapArea("app", 2, 1, 0.1, {"store": 1, "gone": 1}),
    )
    code_map = CodeMap("/r", 8, 9, {}, (), (), areas, (), (), 1, 0, 0)
    picture = picture_of(code_map)
    boxes = picture.boxes
    assert boxes["app"].y < boxes["store"].y == boxes["net"].y < boxes["core"].y
    assert all(box.x >= 0 and box.x + box.width <= picture.width for box in boxes.values())
    assert all(box.y >= 0 and box.y + box.height <= picture.height for box in boxes.values())
    html = ENVIRONMENT.get_template("map_content.html").render(
        code_map=code_map,
        pictures={"wide": picture},
        cycles=CycleReport(0, (), (), 8, 9, 0, 0, True),
        project="/r",
    )
    edges = re.findall(r'<path class="edge w(\d)( loop)?" d="([^"]*)".*?<title>(.*?)</title>', html)
    assert len(edges) == 5
    assert {title: weight for weight, _, _, title in edges}["net → core: 12"] == "3"
    within_row = {title: path for _, is_cycle, path, title in edges if is_cycle}
    assert list(within_row) == ["store → net: 1", "net → store: 1"]
    top = boxes["store"].y
    assert all(f" {top} C" in path and path.endswith(f" {top - 2}") for path in within_row.values())
    assert re.findall(r'class="box( hub)?( loop)?"', html) == [
        (" hub", ""),
        (" hub", " loop"),
        (" hub", " loop"),
        ("", ""),
    ]


# --- pages without a browser ------------------------------------------------------------------------------------------


def test_before_anything_is_indexed_every_page_says_what_to_do(project: Path) -> None:
    with client(project) as web:
        assert f"indexes <code>{project}</code>, the folder" in web.get("/").text
        assert '<option value="' + str(project) in web.get("/").text
        assert "No language model was found" in web.get("/ui/models").text
        assert "no conversations yet" in web.get("/ui/chat").text
        assert "a first <a" in web.get("/ui/projects").text
        assert "Nothing is indexed yet" in web.get("/ui/map").text


def test_what_is_shown_first_is_the_folder_of_the_server_and_never_indexes_another(project: Path) -> None:
    first, second = (make_project(project.parent / name) for name in ("a_first", "second"))
    with client(project) as web:
        for folder in (first, second):
            index(web, folder)
        assert chosen(web.get("/ui/map").text) == "a_first"
        assert not any(one["root"] == str(project) for one in web.get("/ingest/roots").json()["projects"])
        index(web, project)
        web.get("/ui/projects")  # reads the list again
        for path in ("/", "/ui/chat", "/ui/agents", "/ui/map"):
            assert chosen(web.get(path).text) == "bank", path


def chosen(html: str) -> str:
    (found,) = re.findall(
        r"<option [^>]*selected[^>]*>([^<]*)<", html.partition('name="project"')[2].partition("</select>")[0]
    )
    return str(found)


def test_a_file_of_a_project_that_is_being_indexed_waits_for_that(project: Path) -> None:
    with client(project) as web:
        fragment, of_file = {"hx-request": "true"}, {"project": str(project), "path": "bank.py"}
        waiting = web.get("/ui/file", params=of_file, headers=fragment)
        assert (waiting.status_code, 'aria-label="Indexing"' in waiting.text) == (200, True)
        index(web, project)
        assert "transfer" in web.get("/ui/file", params=of_file, headers=fragment).text


def test_an_area_of_the_map_lists_its_files(project: Path) -> None:
    for number in range(30):  # more than the map has boxes for
        (project / "desks").mkdir(exist_ok=True)
        (project / "desks" / f"desk{number}.py").write_text("import bank\n\n\ndef open_desk():\n    bank.Account()\n")
    with client(project) as web:
        index(web, project)
        drawn = web.get("/ui/map", headers={"hx-request": "true"}).text
        areas = {parse_qs(found)["area"][0] for found in re.findall(r"/ui/area\?([^\"]*area=[^\"]*)", unescape(drawn))}
        desks = [area for area in areas if area.startswith("desks/(")]
        listed = [web.get("/ui/area", params={"area": area}, headers={"hx-request": "true"}).text for area in desks]
        assert len(desks) > 1  # no area has more than a quarter of the files
        assert all("most imported first" in html and "teller.py" not in html for html in listed)
        assert len(set(re.findall(r"desks/desk\d+\.py", "".join(listed)))) == 30
        refused = web.get("/ui/area", params={"area": "nowhere"})
        assert (refused.status_code, "has no area nowhere" in refused.text) == (404, True)
        assert web.get("/ui/area").status_code == 404


# --- charts -----------------------------------------------------------------------------------------------------------


WIDTH, HEIGHT = 132, 34  # pixels


def draw(view: ChartView) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """The points of the line and the dot, in pixels."""
    html = str(ENVIRONMENT.from_string('{% from "macros.html" import chart %}{{ chart(view) }}').render(view=view))
    (line,), (area,) = re.findall('class="line" d="(.*?)"', html), re.findall('class="area" d="(.*?)"', html)
    found = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", line)]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in found)
    assert area.startswith(line)
    ((x, y),) = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', html)
    return found, (float(x), float(y))


def test_a_trend_is_drawn_month_by_month_and_described_in_words() -> None:
    view = trend_chart(PatternHistory("2025-11", (0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2), older=7, undated=3))
    points, dot = draw(view)
    heights = [y for _, y in points]
    assert len(heights) == 13
    assert heights[1] == min(heights)  # up is more
    assert dot == points[-1]
    assert view.title == (
        "Lines in use by the month they were written, Nov 2025 to Nov 2026: Dec 2025 4, Oct 2026 1, Nov 2026 2; "
        "7 older; 3 not dated yet"
    )
    assert view.caption == "7 lines since Nov 2025, 7 older, 3 not dated yet"


def test_a_pattern_that_nobody_wrote_of_late_is_a_flat_line() -> None:
    view = trend_chart(PatternHistory("2025-01", (0,) * 13, older=2))
    assert len({y for _, y in draw(view)[0]}) == 1
    assert "none; 2 older" in view.title


@pytest.mark.parametrize("confidence", [1.0, 0.5, 0.01, 0.0])
def test_a_memory_fades_along_its_curve(confidence: float) -> None:
    view = decay_chart("gotcha", confidence)
    points, dot = draw(view)
    heights = [y for _, y in points]
    assert heights == sorted(heights)
    assert 0 <= dot[0] <= WIDTH
    assert heights[0] <= dot[1] <= HEIGHT
    assert view.level is not None
    assert "halves in 90 days" in view.title


def test_a_convention_does_not_fade() -> None:
    view = decay_chart("convention", 1.0)
    assert len({y for _, y in draw(view)[0]}) == 1
    assert "does not fade" in view.title


# --- search -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("See __init__.py and src/__main__.py.", "<p>See __init__.py and src/__main__.py.</p>"),
        ("a _private_ name, **loud** and *soft*", "<p>a _private_ name, <strong>loud</strong> and <em>soft</em></p>"),
    ],
)
def test_underscores_belong_to_names(text: str, html: str) -> None:
    assert markdown_html(text).strip() == html


@pytest.mark.parametrize("fence", ["```python\n", "```py\n", "[1] src/a.py:1-2\n```\n", "[1] a.py:7 (A.b)\n\n```\n"])
def test_code_in_an_answer_is_coloured(fence: str) -> None:
    assert '<span class="k">def</span>' in markdown_html(f"{fence}def f():\n    pass\n```\n")


@pytest.mark.parametrize("fence", ["```\n", "```nonsense\n", "Some words.\n```\n"])
def test_code_of_no_known_language_is_plain(fence: str) -> None:
    assert "<span" not in markdown_html(f"{fence}def f():\n    pass\n```\n")


def test_marks_keep_tags_and_entities_whole() -> None:
    line = Markup('<span class="s">a &lt; bc</span>d')
    assert mark_spans(line, [(2, 7)]) == ('<span class="s">a <mark>&lt; bc</mark></span><mark>d</mark>')
    assert mark_spans(line, []) is line


def test_a_result_is_cut_to_the_lines_that_answer() -> None:
    text = "\n".join(("def a():", *(f"    x{n} = {n}" for n in range(9)), "    copyAccount(x)", "    return 1"))
    lines = result_lines(Hit("/r", "a.py", 1, 12, text, 1, 1.0, 1), "copy accounts")
    shown = [line for line in lines if not line.is_rest]
    assert (len(shown), len(lines)) == (4, 12)
    assert any("<mark>copyAccount</mark>" in re.sub(r"</?span[^>]*>", "", line.html) for line in shown)


def test_a_result_shows_the_line_that_names_it() -> None:
    text = "\n".join(("def copy_account(", *(f"    account{n}," for n in range(9)), "):", "    account(account)"))
    lines = result_lines(Hit("/r", "a.py", 1, 12, text, 1, 1.0, 1), "copy_account")
    assert [line.number for line in lines if not line.is_rest] == [1, 2, 3, 4, 5]
    text = "class Accounts:\n    pass\n\n\n" + text + "\n    count(account, accounts)"
    named = Hit("/r", "a.py", 1, 17, text, 1, 1.0, 1, symbol="Bank.copy_account")
    for query in ("copy accounts", "count accounts"):
        shown = [line.number for line in result_lines(named, query) if not line.is_rest]
        assert shown[0] == 5, query  # not the first line of the chunk, which defines something else


@pytest.mark.parametrize("setting", ["javascript:alert({path})", "vscode", "data:{path}", "code", "{path}"])
def test_an_editor_is_an_address_that_names_the_file(setting: str) -> None:
    if setting == "vscode":
        assert editor_address(editor_template(setting), "/r", "a b.py", 3) == "vscode://file/r/a%20b.py:3"
    else:
        with pytest.raises(UsageError, match=r"web\.editor cannot be"):
            editor_template(setting)


def test_advice_of_the_api_names_its_own_routes() -> None:
    refused = NotFound("no", next_step=NextStep("Run ", to_run("index", "/a b", full=True), " first"))
    body = {"paths": ["/a b"], "full": True}
    assert error_body(refused)["error"]["next"] == f"Run `POST /api/v1/index {json.dumps(body)}` first"
    assert str(refused) == "no. Run `codeinfo index '/a b' --full` first"
    local = NotFound("no", next_step=NextStep("Run ", to_run("docs add", "FOLDER")))
    assert error_body(local)["error"]["next"] == "Run `codeinfo docs add FOLDER`"


def test_a_project_s_figures_can_be_read() -> None:
    counts = {"files": 12345, "chunks": 98765}
    project = {"root": "/big", "name": "big", "state": "ready", "indexedAt": "", "modelId": "", **counts}
    languages = {name: count for count, name in enumerate("abcdefghij", start=1)}
    sizes = {"/big": {"state": "ready", "bytes": 1, "languages": languages}}
    html = ENVIRONMENT.get_template("project_list.html").render(projects=[project], sizes=sizes, served=Path("/big"))
    assert "<dd>12,345</dd>" in html
    assert "<dd>98,765</dd>" in html
    assert "<br>j, i, h, g, f, e, d, c<" in html  # the most common, the rest left out
