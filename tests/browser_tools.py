"""What tests in a real browser share: a server with a scripted model, a tab that fails on any error, axe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import ScriptedServer, Trouble
from msgspec import Struct
from web_tools import SLOW, Address, commit, first_search, make_project, script, served

CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    pytest.skip("Chromium is not installed: `make test` installs it where it may", allow_module_level=True)

from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect, sync_playwright  # noqa: E402

SERIOUS = ("serious", "critical")
TIMEOUT_MS = 120_000


class Site(Struct):
    """A server with one project, and another folder to add."""

    address: Address
    project: Path
    other: Path


class Model(ScriptedServer):
    """Stops in the middle of an answer to a question that has SLOW in it."""

    def next_trouble(self) -> Trouble | None:
        body = self.requests[-1].body
        return Trouble.STALL if SLOW in json.dumps(body) and "response_format" not in body else None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pages")
    project, other = make_project(folder / "bank"), make_project(folder / "other")
    (project / "tests" / "test_sums.py").write_text("def test_sums():\n    assert 1 + 1 == 2\n")
    commit(project, days_ago=120, paths=("notes.md",))  # trends need 60 days before the last commit
    commit(project, days_ago=40)
    (other / "huge.py").write_text("x = 1\n" * 300_000)
    with Model(script) as model:
        options = ("--allow", str(folder), "--set", f"llm.base_url={model.url}", "--set", "llm.discover=false")
        with served(project, folder / "home", *options) as address:
            first_search(address)
            yield Site(address, project, other)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        # Containers have no user namespaces for the sandbox; the pages are our own.
        made = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield made
        made.close()


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Without this, pages wait for half a minute only."""
    context = browser.new_context(**options)
    context.set_default_timeout(TIMEOUT_MS)
    return context


@pytest.fixture(scope="module")
def entered(site: Site, browser: Browser) -> StorageState:
    """What a browser keeps that has opened the link."""
    context = new_context(browser, base_url=site.address)
    page = context.new_page()
    page.goto(site.address.link())
    page.wait_for_url(f"{site.address}/")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def page(site: Site, browser: Browser, entered: StorageState) -> Iterator[Page]:
    """A fresh tab that fails the test on any script error or policy violation."""
    context = new_context(browser, base_url=site.address, storage_state=entered)
    made = context.new_page()
    problems: list[str] = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    yield made
    context.close()
    unexpected = [text for text in problems if "status of 4" not in text]  # refusals on purpose
    assert not unexpected, unexpected


def check_accessible(page: Page) -> None:
    from axe_core_python.sync_playwright import Axe

    violations = Axe().run(page, options={"resultTypes": ["violations"]})["violations"]
    shown = [
        (violation["id"], [node["html"][:150] for node in violation["nodes"][:2]])
        for violation in violations
        if violation["impact"] in SERIOUS
    ]
    assert shown == []


def search(page: Page, query: str) -> None:
    page.goto("/")
    page.get_by_role("searchbox").fill(query)
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_be_visible()
