"""The README's commands run, in the sample repository it names, and its Python too; the pages agree with the tables."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from terminal_tools import WIDTHS, readme_commands, shop_transcript, transcript

from codeinfo.settings import SETTINGS
from codeinfo.shells.cli import cli
from codeinfo.shells.install import CLIENTS
from codeinfo.shells.mcp_tools import SETS, choose_tools

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shutil.copytree(REPOSITORY / "examples" / "shop", tmp_path / "shop")
    return tmp_path / "shop"


def test_python_runs_as_written(shop: Path) -> None:
    (block,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=shop, capture_output=True, text=True, timeout=120, check=True
    )
    assert "orders/payment.py:" in done.stdout


PAGES = [REPOSITORY / "README.md", REPOSITORY / "training" / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The names that headings can be linked to by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        target, _, anchor = link.partition("#")
        if not target.startswith(("http:", "https:")):
            found = page.parent / target if target else page
            assert found.exists(), link
            assert not anchor or anchor in anchors(found), link


def test_make_targets_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)`?", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def shown_commands(page: Path) -> list[str]:
    """The command lines of a page, in its text or set apart, without comments and with quoted words as one."""
    found = re.findall(r"`(codeinfo [^`]+)`|^(?: {4}|\$ )(codeinfo .+)$", page.read_text(), re.MULTILINE)
    lines = [re.sub(r"\s#.*", "", inline or apart) for inline, apart in found]
    return [re.sub(r"""(["']).*?\1""", "X", line) for line in lines if not re.match(r"codeinfo (-|…|COMMAND)", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_pages_show_exist(page: Path) -> None:
    for line in shown_commands(page):
        words, found = line.split()[1:], cli
        words = words if re.fullmatch(r"[a-z-]+", words[0]) else ["search", *words]  # no command is called so
        rest = words
        while rest and isinstance(found, click.Group):
            _, command, rest = found.resolve_command(click.Context(found), rest)
            assert command is not None, line
            found = command  # type: ignore[assignment]
        known = {flag for option in found.params for flag in (*option.opts, *option.secondary_opts)}
        typed = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert typed <= known | {"--help"}, line


def cells(page: str, first: str) -> list[list[str]]:
    """The rows of a page's table whose head begins with `first`."""
    text = (REPOSITORY / "docs" / page).read_text()
    rows = text.partition(f"\n| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_tools_of_each_set_are_listed() -> None:
    listed = {row[0].split("`")[1]: set(re.findall(r"`(\w+)`", row[1])) for row in cells("mcp.md", "set")}
    assert list(listed) == list(SETS)
    for name in SETS:
        offered = {tool.name for tool in choose_tools([name])}
        assert listed[name] <= offered if name == "all" else listed[name] == offered


def test_the_clients_of_the_installer_are_listed() -> None:
    assert [row[1] for row in cells("mcp.md", "client")] == [f"`{one.name}`" for one in CLIENTS]


def test_defaults_are_those_of_the_settings() -> None:
    text = (REPOSITORY / "docs" / "configuration.md").read_text()
    rows = re.findall(r"^\| `\w+` \| ([^|]+) \| `(CODEINFO_\w+)`", text, re.MULTILINE)
    shown = {variable: default for default, variable in rows}
    for row in SETTINGS.values():
        if row.default is not None:  # the folders depend on the system
            written = {"": "empty", "()": "`[]`"}.get(str(row.default), f"`{str(row.default).lower()}`")
            assert shown[row.env] == written, row.key


@pytest.mark.parametrize("columns", WIDTHS)
def test_commands_look_as_they_were_reviewed(columns: int) -> None:
    """After a change: `python tools/transcripts.py`, and read the difference."""
    text = shop_transcript(columns)
    assert len(readme_commands()) == 20
    assert "[exit" not in text
    assert text == (REPOSITORY / "tests" / "golden" / f"shop-{columns}.txt").read_text()


@pytest.mark.parametrize("columns", WIDTHS)
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    lines = (REPOSITORY / "tests" / "golden" / f"shop-{columns}.txt").read_text().splitlines()
    assert sum(line.startswith("$ codeinfo") for line in lines) == 20
    as_json = re.compile(r'^\s*"')  # what a program reads is not broken
    shown = lines[lines.index("$ codeinfo index") :]
    assert [line for line in shown if len(line) > columns and not as_json.match(line)] == []


def test_the_demo_shows_its_sample_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert "orders/payment.py" in done.stdout
    assert "codeinfo/shells" not in done.stdout  # files of the repository itself
    assert "node_modules/left-pad/index.js" in done.stdout


def test_a_transcript_ignores_the_settings_of_its_maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEINFO_CACHE_DIR", str(tmp_path / "elsewhere"))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "a.py").write_text("def alpha():\n    return 1\n")
    assert "elsewhere" not in transcript(
        ["codeinfo index", "codeinfo status"], tmp_path / "shop", tmp_path / "home", 80
    )
