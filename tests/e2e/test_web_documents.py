"""The Documents page in a real browser: collections, sync, outline, search, ask."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser_tools import Site, check_accessible
from browser_tools import browser as browser
from browser_tools import entered as entered
from browser_tools import page as page
from browser_tools import site as site
from playwright.sync_api import Page, expect

HANDBOOK = """# Moorings { #moorings }

Boats are moored at the north quay.

## Fees

A night costs nine crowns, paid to the `harbour_master`.

## Storms

Double the lines before a storm. See [knots](knots.md).
"""
KNOTS = "# Knots\n\nA bowline holds a mooring line. " + "It can be untied after hours of strain. " * 20 + "\n"


@pytest.fixture(scope="module")
def handbook(site: Site) -> Path:
    folder = site.project.parent / "handbook"
    folder.mkdir()
    (folder / "moorings.md").write_text(HANDBOOK)
    (folder / "knots.md").write_text(KNOTS)
    return folder


def test_collections_are_added_synced_read_searched_asked_and_removed(page: Page, handbook: Path) -> None:
    page.goto("/ui/documents")
    expect(page.locator("#content")).to_contain_text("There are no collections yet")
    page.get_by_text("Add a collection").click()
    page.get_by_label("Folder or git address").fill("/etc")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("not below an allowed folder")
    page.get_by_label("Folder or git address").fill(str(handbook))
    page.get_by_role("button", name="Add").click()
    card = page.locator("[data-collection]")
    expect(card).to_contain_text("handbook")
    expect(page.locator(".notice")).to_contain_text("2 added")
    check_accessible(page)

    (handbook / "anchors.md").write_text("# Anchors\n\nAn anchor is dropped from the bow.\n")
    card.get_by_role("button", name="Sync").click()
    expect(page.locator(".notice")).to_contain_text("1 added, 0 changed, 0 removed, 2 unchanged")

    card.get_by_role("link", name="handbook").click()
    page.get_by_role("link", name="moorings.md").click()
    panel = page.locator("#panel")
    expect(panel.locator(".outlined a")).to_have_text(["Moorings", "Fees", "Storms"])
    expect(panel.locator(".prose h1")).to_have_text("Moorings")  # not its anchor
    expect(panel).to_contain_text("knots.md links to")
    check_accessible(page)
    panel.locator(".outlined").get_by_role("link", name="Fees").click()
    expect(panel.locator(".prose")).to_contain_text("nine crowns")
    expect(panel.locator(".prose")).not_to_contain_text("Double the lines")
    page.reload()
    expect(panel.locator(".prose")).to_contain_text("nine crowns")
    page.keyboard.press("Escape")
    expect(panel).to_be_empty()

    page.goto("/ui/documents?q=bowline")
    long = page.locator(".hit", has_text="bowline")
    long.get_by_role("button", name="all of it").click()
    expect(long.get_by_role("button", name="less")).to_be_visible()
    page.goto("/ui/documents")
    page.get_by_role("searchbox").fill("what does a night at the quay cost")
    page.keyboard.press("Enter")
    hit = page.locator(".hit").first
    expect(hit).to_contain_text("nine crowns")
    expect(hit).to_contain_text(re.compile(r"distance \d\.\d{3}"))
    assert hit.locator("code").inner_text() == "harbour_master"  # rendered, not raw
    check_accessible(page)
    page.locator("#main").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("nine crowns")
    page.keyboard.press("Escape")

    page.locator(".summary").get_by_role("link", name="Ask about this").click()
    expect(page.get_by_label("Question")).to_have_value("what does a night at the quay cost")
    expect(page.get_by_label("Project or documents").locator("option:checked")).to_have_text("handbook")
    page.get_by_label("Model and provider").select_option("none|")
    page.get_by_role("button", name="Ask").click()
    answer = page.locator(".turn.assistant[data-status=ok]")
    expect(answer).to_contain_text("nine crowns")
    answer.locator(".sources .place").first.click()
    expect(panel.locator(".prose")).to_contain_text("nine crowns")

    page.goto("/ui/documents")
    page.on("dialog", lambda dialog: dialog.accept())
    card.get_by_role("button", name="Remove").click()
    expect(card).to_have_count(0)
    assert (handbook / "moorings.md").exists()
