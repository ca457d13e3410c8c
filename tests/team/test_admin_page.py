"""The administrators' page in a real browser, at a server of a team."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_tools import browser as browser
from browser_tools import check_accessible, new_context
from playwright.sync_api import Browser, Page, expect
from postgres_tools import caller_of
from team_server_tools import add_projects
from web_tools import served

from codeinfo.team import access
from codeinfo.team.database import TeamDatabase

ONE = "git.example/a/one"


def sign_in(page: Page, address: str, token: str, path: str) -> None:
    page.goto(f"{address}{path}")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Personal access token").wait_for()  # the page of the link is gone
    check_accessible(page)
    page.get_by_label("Personal access token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{address}{path}")


def test_an_administrator_manages_the_team(
    postgres: str, project: Path, tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = TeamDatabase(postgres)
    add_projects(database, ONE)
    access.create_user(database, "root", admin=True)
    access.create_user(database, "ann")
    admin = access.create_token(database, "root", "browser", access.SCOPES)
    plain = access.create_token(database, "ann", "laptop")
    with served(project, tmp_path / "home", CODEINFO_STORE_URL=postgres) as address:
        context = new_context(browser)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        sign_in(page, address, admin, "/ui/admin")
        expect(page.get_by_role("heading", name="Admin")).to_be_visible()
        check_accessible(page)
        page.set_viewport_size({"width": 390, "height": 800})
        button = page.get_by_role("button", name="Disable ann").bounding_box()
        assert button is not None
        assert button["height"] < 60  # its word is not broken
        check_accessible(page)
        page.set_viewport_size({"width": 1280, "height": 800})
        page.get_by_label("The user's name").fill("cleo")
        page.get_by_label("The user's e-mail address").fill("cleo@example.org")
        page.get_by_role("button", name="Add a user").click()
        expect(page.get_by_role("button", name="Disable cleo")).to_be_visible()
        page.get_by_label("The group").fill("core")
        page.get_by_label("The users").fill("cleo, ann")
        page.get_by_role("button", name="Add to the group").click()
        expect(page.get_by_role("button", name="Take out cleo, core")).to_be_visible()
        page.get_by_role("button", name="Take out ann, core").click()
        expect(page.get_by_role("button", name="Take out ann, core")).to_have_count(0)
        check_accessible(page)
        page.get_by_label("The project, as github.com/owner/name").fill(ONE)
        page.get_by_label("A user, a group as @NAME, or everyone").fill("ann")
        page.get_by_role("button", name="Grant", exact=True).click()
        expect(page.get_by_role("button", name=f"Take back {ONE}, ann")).to_be_visible()
        page.get_by_label("Whose token it is").fill("nobody")
        page.get_by_role("button", name="Create a token").click()
        expect(page.get_by_role("alert")).to_contain_text("no user nobody")
        expect(page.get_by_role("alert")).to_be_in_viewport()  # though the form is far below it
        page.get_by_label("Whose token it is").fill("ann")
        page.get_by_role("button", name="Create a token").click()
        expect(page.locator("#new-token")).to_be_in_viewport()
        shown = page.locator("#new-token").inner_text()
        page.get_by_text("user ann, token", exact=False).first.wait_for()  # among the events, for people
        made = caller_of(database, shown)
        assert made is not None
        assert made.name == "ann"
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Remove core").click()
        expect(page.get_by_role("button", name="Remove core")).to_have_count(0)
        page.get_by_role("button", name=f"Take back {ONE}, ann").click()
        expect(page.get_by_role("button", name=f"Take back {ONE}, ann")).to_have_count(0)
        page.get_by_role("button", name=f"Revoke {made.token_id}").click()
        expect(page.get_by_role("button", name=f"Revoke {made.token_id}")).to_have_count(0)
        assert caller_of(database, shown) is None
        page.get_by_role("button", name="Disable ann").click()
        expect(page.get_by_role("button", name="Enable ann")).to_be_visible()
        assert caller_of(database, plain) is None
        page.get_by_role("button", name="Enable ann").click()
        expect(page.get_by_role("button", name="Disable ann")).to_be_visible()
        check_accessible(page)
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("link", name="Sign in").wait_for()
        other = new_context(browser).new_page()
        sign_in(other, address, plain, "/ui/map")
        assert other.get_by_role("link", name="Admin").count() == 0
        other.goto(f"{address}/")
        assert other.locator('a[href="/ui/projects"]').count() == 0
        assert other.goto(f"{address}/ui/admin").status == 403  # type: ignore[union-attr]
        context.close()
    assert not problems
    database.close()


def test_users_make_and_revoke_their_own_tokens(postgres: str, project: Path, tmp_path: Path, browser: Browser) -> None:
    database = TeamDatabase(postgres)
    access.create_user(database, "ann")
    access.create_user(database, "bob")
    first = access.create_token(database, "ann", "first", ("read", "write"), days=30)
    others = caller_of(database, access.create_token(database, "bob"))
    assert others is not None
    with served(project, tmp_path / "home", CODEINFO_STORE_URL=postgres) as address:
        context = new_context(browser)
        page = context.new_page()
        page.on("dialog", lambda dialog: dialog.accept())
        sign_in(page, address, first, "/ui/account")
        expect(page.get_by_role("heading", name="Tokens of ann")).to_be_visible()
        expect(page.get_by_role("button", name=f"Revoke {others.token_id}")).to_have_count(0)
        check_accessible(page)
        assert page.get_by_label("scopes").locator("option").all_inner_texts() == ["read", "read,write"]
        page.get_by_label("What it is for").fill("editor")
        page.get_by_label("days").select_option("366")
        page.get_by_role("button", name="Create a token").click()
        made = page.locator("#new-token").inner_text()
        caller = caller_of(database, made)
        assert caller is not None
        assert (caller.name, caller.scopes) == ("ann", frozenset({"read"}))
        check_accessible(page)
        page.get_by_role("button", name=f"Revoke {caller.token_id}").click()
        expect(page.get_by_role("button", name=f"Revoke {caller.token_id}")).to_have_count(0)
        assert caller_of(database, made) is None
        for path in ("/", "/ui/map"):
            page.goto(f"{address}{path}")
            expect(page.locator("main")).to_contain_text("codeinfo team grant add PROJECT ann")
            assert project.name not in page.content()  # the folder of the server is not theirs
        page.set_viewport_size({"width": 360, "height": 740})
        rows = [page.locator(one).bounding_box() for one in ("#theme", ".brand")]
        assert len({round(box["y"] + box["height"] / 2) // 20 for box in rows if box}) == 1, "the bar has a second row"
        context.close()
    with database.transaction() as db:
        ends = db.execute("SELECT count(DISTINCT expires_at) FROM tokens t WHERE t.user_id <> %s", (others.user_id,))
        assert ends.fetchall() == [(1,)]  # no later than the token that it was made with
    database.close()
