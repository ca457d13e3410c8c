"""The search page in a real browser: facets, more results, what a result offers, keys, addresses, progress."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from browser_tools import Site, check_accessible, new_context, search
from browser_tools import browser as browser
from browser_tools import entered as entered
from browser_tools import page as page
from browser_tools import site as site
from playwright.sync_api import Browser, Page, expect
from web_tools import make_project, served

HEIGHT = 900
NOTICE_MS = 5_000
TRIES = 5
DESKS = 24


@pytest.fixture(scope="module", autouse=True)
def desks(site: Site) -> None:
    """Enough files that a search has more results than are shown at first."""
    folder = site.project / "desks" / "front"
    folder.mkdir(parents=True)
    for number in range(DESKS):
        body = "\n".join(f"    step_{line} = account.balance + {line}" for line in range(12))
        head = f'def open_desk_{number}(account):\n    """A desk where accounts are opened."""\n'
        (folder / f"desk{number}.py").write_text(f"{head}{body}\n    return account\n")
    (site.project / "desks" / "opening.md").write_text("# Opening a desk\n\nIt is opened for an account at nine.\n")


def opened(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator(".hit").first).to_be_visible()


def asked(page: Page) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}


def facet(page: Page, title: str, label: str) -> str:
    """The count beside a value."""
    value = page.locator(".facets section", has_text=title).get_by_role("link", name=label)
    return value.locator(".count").inner_text()


# --- facets and more results ------------------------------------------------------------------------------------------


def test_facets_count_and_narrow_and_the_address_says_so(page: Page) -> None:
    search(page, "open a desk for an account")
    total = int(re.findall(r"\d+", page.locator(".summary strong").inner_text())[0])
    assert int(facet(page, "Language", "python")) + int(facet(page, "Language", "markdown")) == total
    assert int(facet(page, "Folder", "desks")) > DESKS
    assert int(facet(page, "Symbol", "function")) >= DESKS
    check_accessible(page)
    page.locator(".facets").get_by_role("link", name="docs").click()
    expect(page.locator("#chosen .chip")).to_contain_text("docs")
    expect(page.locator(".hit .place").first).to_contain_text(".md")
    assert asked(page)["kind"] == "docs"
    # What was chosen holds for the next search, and in another tab.
    page.get_by_role("searchbox").fill("at nine")
    page.keyboard.press("Enter")
    expect(page).to_have_title("at nine · CodeInfo")
    assert asked(page) == {"q": "at nine", "kind": "docs", "project": asked(page)["project"]}
    page.reload()
    expect(page.locator("#chosen .chip")).to_contain_text("docs")
    expect(page.locator(".hit .place").first).to_contain_text(".md")
    page.locator("#chosen .chip").click()
    expect(page.locator("#chosen .chip")).to_have_count(0)
    assert "kind" not in asked(page)


def test_a_folder_opens_into_its_folders(page: Page) -> None:
    opened(page, "/?q=open+a+desk")
    page.locator(".facets").get_by_role("link", name="desks").click()
    inner = page.locator(".facets").get_by_role("link", name="desks/front")
    assert int(inner.locator(".count").inner_text()) == DESKS
    inner.click()
    expect(page.locator(".hit .place").first).to_contain_text("desks/front/")
    expect(page.locator(".summary strong")).to_have_text(f"{DESKS} files")
    assert asked(page)["folder"] == "desks/front"
    page.locator(".facets a[aria-current]").first.click()  # back out, one level
    expect(page.locator("#chosen .chip")).not_to_contain_text("front")
    assert asked(page)["folder"] == "desks"


def test_more_results_follow_the_first_and_stay_in_the_address(page: Page) -> None:
    opened(page, "/?q=open+a+desk&folder=desks/front")
    first = page.locator(".hit .place").all_inner_texts()
    assert len(first) == 10
    page.get_by_role("link", name="10 more results").click()
    expect(page.locator(".hit")).to_have_count(20)
    assert page.locator(".hit .place").all_inner_texts()[:10] == first
    page.get_by_role("link", name="4 more results").click()
    expect(page.locator(".hit")).to_have_count(DESKS)
    assert asked(page)["n"] == "30"
    assert "from" not in asked(page)
    page.reload()
    expect(page.locator(".hit")).to_have_count(DESKS)


def test_three_to_five_results_fit_and_each_can_be_expanded(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": HEIGHT})
    opened(page, "/?q=account+balance+step&folder=desks/front")
    whole = [
        box for hit in page.locator(".hit").all() if (box := hit.bounding_box()) and box["y"] + box["height"] <= HEIGHT
    ]
    assert 3 <= len(whole) <= 5
    hit = page.locator(".hit").first
    rows = hit.locator("tr:visible")
    before = rows.count()
    assert before <= 5
    hit.locator("[data-expand]").click()
    assert rows.count() >= 12
    expect(hit.locator("[data-expand]")).to_have_attribute("aria-expanded", "true")
    hit.locator("[data-expand]").click()
    assert rows.count() == before
    assert hit.locator("mark").count()  # the words that were searched for


# --- exactly ----------------------------------------------------------------------------------------------------------


def test_a_toggle_finds_every_line_that_has_a_text_or_matches(page: Page) -> None:
    opened(page, "/?q=account.balance+%2B+3")
    page.locator(".modes label", has_text="Exact").click()
    expect(page.locator(".summary strong")).to_have_text(f"{DESKS} lines in {DESKS} files")
    assert "".join(page.locator(".hit tr").first.locator("mark").all_inner_texts()) == "account.balance + 3"
    expect(page.locator(".hit .around").first).to_have_text(re.compile(r"open_desk_\d+"))
    assert asked(page)["mode"] == "exact"
    check_accessible(page)
    page.get_by_role("link", name="10 more files").click()
    expect(page.locator(".hit")).to_have_count(20)
    page.reload()
    expect(page.locator(".hit")).to_have_count(20)
    expect(page.get_by_role("radio", name="Exact")).to_be_checked()
    page.get_by_role("searchbox").fill(r"step_1[01] =")
    page.locator(".modes label", has_text="Regex").click()
    expect(page.locator(".summary strong")).to_have_text(f"{2 * DESKS} lines in {DESKS} files")
    page.get_by_role("searchbox").fill("STEP_10")
    page.keyboard.press("Enter")
    expect(page.locator(".list")).to_contain_text("No line matches STEP_10")
    page.locator(".modes label", has_text="any case").click()
    expect(page.locator(".summary strong")).to_have_text(f"{DESKS} lines in {DESKS} files")
    page.locator(".modes label", has_text="whole words").click()
    expect(page.locator(".summary strong")).to_have_text(f"{DESKS} lines in {DESKS} files")
    page.get_by_role("searchbox").fill("step_1[")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()  # what is wrong with the expression


def test_a_query_in_quotes_is_found_as_it_is(page: Page) -> None:
    opened(page, "/?q=%22account.balance+%2B+3%22")
    expect(page.locator(".summary strong")).to_have_text(f"{DESKS} lines in {DESKS} files")
    opened(page, "/?q=/step_1[01]+=/&folder=desks")
    expect(page.locator(".summary strong")).to_have_text(f"{2 * DESKS} lines in {DESKS} files")
    page.get_by_role("link", name="best match instead").click()
    expect(page.locator(".summary")).to_contain_text("read as")


# --- what can be done with a result -----------------------------------------------------------------------------------


def copy_until_noticed(page: Page, copy: Callable[[], None], notice: str) -> None:
    """Copies again when the notice was not seen: a machine may stall for longer than it stays."""
    for left in reversed(range(TRIES)):
        copy()
        try:
            expect(page.locator("#toast")).to_contain_text(notice, timeout=NOTICE_MS)
            return
        except AssertionError:
            if not left:
                raise


def clipboard(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_path_and_lines_are_copied_and_the_editor_is_opened(page: Page, site: Site) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, "/?q=InsufficientFunds")
    hit = page.locator(".hit", has_text="bank.py").first
    copy_until_noticed(page, hit.get_by_role("button", name="Copy path").click, "Copied bank.py:")
    assert re.fullmatch(r"bank\.py:\d+", clipboard(page))
    copy_until_noticed(page, hit.get_by_role("button", name="Copy lines").click, "lines")
    copied = clipboard(page)
    assert "class InsufficientFunds" in copied
    assert all(line in (site.project / "bank.py").read_text() for line in copied.split("\n"))
    editor = hit.get_by_role("link", name="in editor").get_attribute("href")
    assert re.fullmatch(rf"vscode://file{re.escape(str(site.project))}/bank\.py:\d+", str(editor))
    hit.locator(".place").click()
    page.locator("#panel").get_by_role("button", name="Copy path").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('bank.py:')")


def test_a_question_about_a_result_waits_to_be_sent(page: Page) -> None:
    opened(page, "/?q=transfer")
    page.locator(".hit").first.get_by_role("link", name="Ask about").click()
    expect(page.get_by_label("Question")).to_have_value(re.compile(r"What does .*bank\.py:\d+-\d+ do\?"))
    opened(page, "/?q=how+does+transfer+work")
    page.locator(".summary").get_by_role("link", name="Ask about this").click()
    expect(page.get_by_label("Question")).to_have_value("how does transfer work")
    expect(page.get_by_label("Question")).to_be_focused()


def test_a_word_that_does_not_occur_is_corrected_by_a_click(page: Page) -> None:
    opened(page, "/?q=InsuficientFunds&kind=code")
    page.get_by_role("link", name="InsufficientFunds", exact=True).click()
    expect(page).to_have_title("InsufficientFunds · CodeInfo")
    assert asked(page)["kind"] == "code"


def test_a_doubtful_search_says_how_sure_it_is_and_an_empty_one_why(page: Page) -> None:
    opened(page, "/?q=balance+of+the+kubernetes+scheduler")
    expect(page.locator(".summary")).to_contain_text(re.compile(r"\d+ % sure"))
    expect(page.locator(".notice.warn")).to_contain_text("The right file may not be among the first three.")
    page.goto("/?q=transfr+of+the+acount")
    expect(page.locator(".notice.warn")).to_have_text(re.compile(r"; the results are for: [^.]+\.\s*$"))
    page.goto("/?q=asdkjhasd+qwoieu")
    expect(page.locator(".notice.warn")).to_have_text(re.compile(r"^\s*Nothing found\. None of .*\.\s*$"))
    expect(page.locator(".summary")).not_to_contain_text("sure")


def test_an_empty_page_shows_recent_searches_and_projects(page: Page, site: Site) -> None:
    search(page, "transfer")
    search(page, "open a desk")
    page.goto("/")
    recent = page.locator("#recent li")
    expect(recent).to_have_text([re.compile("open a desk"), re.compile("transfer")])
    expect(page.locator(".start")).to_contain_text("bank")
    expect(page.locator(".start")).to_contain_text("files, indexed")
    check_accessible(page)
    recent.nth(1).get_by_role("link").click()
    expect(page.get_by_role("searchbox")).to_have_value("transfer")
    expect(page.locator(".hit").first).to_be_visible()
    page.goto("/")
    page.get_by_role("button", name="Forget").click()
    expect(page.locator("#recent")).to_be_hidden()


# --- addresses --------------------------------------------------------------------------------------------------------


def test_an_address_holds_what_is_open_beside_the_list(page: Page) -> None:
    opened(page, "/?q=transfer&kind=code")
    page.locator(".hit .place").first.click()
    expect(page.locator("#panel h2")).to_contain_text("bank.py")
    other = page.context.new_page()
    other.goto(page.url)  # as somebody who was sent it
    expect(other.locator("#panel h2")).to_contain_text("bank.py")
    expect(other.locator("#chosen .chip")).to_contain_text("code")
    other.keyboard.press("Escape")
    expect(other.locator("#panel")).to_be_empty()
    assert "panel" not in asked(other)
    other.reload()
    expect(other.locator(".hit").first).to_be_visible()
    expect(other.locator("#panel")).to_be_empty()
    # Only addresses that belong beside a page are opened there.
    other.goto("/?q=transfer&panel=https://example.org/")
    expect(other.locator(".hit").first).to_be_visible()
    assert other.locator("#panel[data-beside]").count() == 0


def test_beside_means_beside_on_a_wide_screen(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": HEIGHT})
    opened(page, "/?q=transfer")
    page.locator(".hit .place").first.click()
    expect(page.locator("#panel h2")).to_be_visible()
    hit, panel = page.locator(".hit").first.bounding_box(), page.locator("#panel").bounding_box()
    assert hit is not None
    assert panel is not None
    assert hit["x"] + hit["width"] <= panel["x"]


# --- keys -------------------------------------------------------------------------------------------------------------


def test_every_key_does_what_the_list_says(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_viewport_size({"width": 1280, "height": HEIGHT})
    opened(page, "/?q=account+balance+step&folder=desks/front")
    page.locator("#main").focus()
    page.keyboard.press("?")
    listed = page.locator("dialog kbd").all_inner_texts()
    assert listed == ["/", "j", "k", "Enter", "f", "x", "c", "y", "e", "a", "Esc", "?", "+", "−", "0"]
    check_accessible(page)
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    hits = page.locator(".hit")
    page.locator("#main").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(hits.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(hits.first).to_be_focused()
    page.keyboard.press("x")
    expect(hits.first.locator("[data-expand]")).to_have_attribute("aria-expanded", "true")
    copy_until_noticed(page, lambda: page.keyboard.press("c"), "Copied desks/front/")
    copy_until_noticed(page, lambda: page.keyboard.press("y"), "lines")
    page.evaluate(
        "document.addEventListener('click', (event) => { const link = event.target.closest('[data-editor]');"
        "if (link) { document.title = link.href; event.preventDefault(); } })"
    )
    page.keyboard.press("e")
    expect(page).to_have_title(re.compile("^vscode://file/"))
    page.keyboard.press("Enter")
    expect(page.locator("#panel h2")).to_contain_text("desks/front/")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_empty()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("j")  # typed, not obeyed
    expect(page.get_by_role("searchbox")).to_have_value("j")
    hits.first.focus()
    page.keyboard.press("f")
    page.wait_for_url("**/ui/file?**")
    page.go_back()
    expect(hits.first).to_be_visible()
    hits.first.focus()
    page.keyboard.press("a")
    page.wait_for_url("**/ui/chat?**")


# --- a whole file -----------------------------------------------------------------------------------------------------


def test_a_whole_file_with_outline_and_the_uses_of_a_name(page: Page) -> None:
    opened(page, "/?q=transfer&kind=code")
    page.locator(".hit", has_text="bank.py").first.get_by_role("link", name="Whole file").click()
    expect(page.locator("h1")).to_have_text("bank.py")
    code = page.locator(".whole-code")
    expect(code).to_contain_text("class InsufficientFunds")
    assert code.locator("tr.here").count() == 1  # the line of the result
    check_accessible(page)
    page.set_viewport_size({"width": 1000, "height": 300})
    code.locator("tr").last.scroll_into_view_if_needed()
    expect(page.locator("h1")).to_be_in_viewport(ratio=1)  # the name stays above the lines
    page.set_viewport_size({"width": 1280, "height": 720})
    page.locator(".outline").get_by_role("link", name="transfer").click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("teller.py:5")
    assert "%2Fui%2Fname" in page.url
    page.keyboard.press("Escape")
    expect(panel).to_be_empty()
    code.locator(".src span", has_text=re.compile("^InsufficientFunds$")).first.click()
    expect(panel.locator("h2")).to_have_text("InsufficientFunds")
    expect(panel.locator("h3").first).to_have_text("Defined")
    page.reload()
    expect(panel.locator("h2")).to_have_text("InsufficientFunds")
    panel.get_by_role("link", name="bank.py").first.click()
    expect(panel.locator("h2")).to_contain_text("bank.py")


# --- a project that is not indexed yet --------------------------------------------------------------------------------


def test_a_first_search_shows_how_far_indexing_is_and_then_its_results(tmp_path: Path, browser: Browser) -> None:
    project = make_project(tmp_path / "bank")
    for number in range(400):
        (project / f"m{number}.py").write_text(
            "".join(f"def work_{number}_{one}(x):\n    return x\n" for one in range(40))
        )
    page = new_context(browser).new_page()
    with served(project, tmp_path / "home", "--set", "llm.discover=false", "--set", "index.workers=1") as address:
        page.goto(address.link())
        page.wait_for_url(f"{address}/")
        expect(page.locator("main")).to_contain_text("Nothing is indexed yet")
        page.get_by_role("searchbox").fill("transfer money")
        page.keyboard.press("Enter")
        card = page.get_by_role("region", name="Indexing")
        expect(card).to_contain_text(re.compile(r"Looking for files|\d+ of \d+ files"))
        expect(page.locator("progress")).to_be_visible()
        check_accessible(page)
        expect(card).to_have_count(0)
        expect(page.locator(".hit").first).to_contain_text("bank.py")
        assert page.locator(".notice", has_text="being built").count() == 0
    page.context.close()


def test_an_editor_is_chosen_in_the_settings(tmp_path: Path, browser: Browser) -> None:
    project = make_project(tmp_path / "bank")
    page = new_context(browser).new_page()
    option = "web.editor=myedit://open?at={path}#{line}"
    with served(project, tmp_path / "home", "--set", "llm.discover=false", "--set", option) as address:
        page.goto(address.link())
        page.wait_for_url(f"{address}/")
        opened(page, f"{address}/?q=transfer")
        link = page.locator("[data-editor]").first.get_attribute("href")
    page.context.close()
    assert re.fullmatch(rf"myedit://open\?at={re.escape(str(project))}/\w+\.py#\d+", str(link))
