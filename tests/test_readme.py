"""The README's commands run, in the sample repository it names, and its Python does too."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shutil.copytree(REPOSITORY / "examples" / "shop", tmp_path / "shop")
    return tmp_path / "shop"


def test_commands_run_as_written(shop: Path, codeinfo: Any) -> None:
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(lines) > 8
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "codeinfo"
        done = codeinfo(*arguments, cwd=shop)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert done.stdout, line


def test_python_runs_as_written(shop: Path) -> None:
    (block,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=shop, capture_output=True, text=True, timeout=60, check=True
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
