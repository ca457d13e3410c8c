"""The wheel: built, installed beside nothing of ours, used from a folder it has never seen."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, check=True, cwd=REPOSITORY, capture_output=True)
    return next(folder.glob("*.whl"))


def test_an_installed_wheel_searches_a_new_folder(wheel: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this environment, found behind its own packages."""
    venv.create(tmp_path / "venv", with_pip=False)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    # With a target, pip leaves what is installed in this environment alone.
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(packages)]
    subprocess.run([sys.executable, *install, str(wheel)], check=True, capture_output=True)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "payments.py").write_text("def refund_payment(order):\n    return order.total\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CODEINFO_CACHE_DIR": str(tmp_path / "cache")}
    python = str(tmp_path / "venv" / "bin" / "python")
    origin = [python, "-c", "import codeinfo; print(codeinfo.__file__)"]
    found = subprocess.run(origin, check=True, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(packages)
    search = [python, "-m", "codeinfo", "search", "refund", "--json"]
    reply = subprocess.run(search, check=True, capture_output=True, text=True, env=environment, cwd=project)
    assert json.loads(reply.stdout)["hits"][0]["path"] == "payments.py"


def test_the_wheel_carries_completions_for_each_shell(wheel: Path) -> None:
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], check=True, capture_output=True, text=True
    ).stdout
    for path in ("bash-completion/completions/codeinfo", "zsh/site-functions/_codeinfo", "codeinfo.fish"):
        assert path in listing


def test_the_man_page_names_every_command() -> None:
    subprocess.run([sys.executable, "tools/release.py", "share"], check=True, cwd=REPOSITORY)
    page = (REPOSITORY / "packaging/share/man/man1/codeinfo.1").read_text()
    for command in ("search", "refs", "docs add", "memory", "mcp", "serve"):
        assert f".SS codeinfo {command} ".replace("-", r"\-") in page, command
    assert "\b" not in page


def test_what_is_published_names_the_same_version() -> None:
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    server = json.loads((REPOSITORY / "server.json").read_text())
    assert {server["version"], *(package["version"] for package in server["packages"])} == {project["version"]}
    assert f"mcp-name: {server['name']}" in (REPOSITORY / "README.md").read_text()
    compose = yaml.safe_load((REPOSITORY / "deploy/compose.yaml").read_text())
    assert f"ARG VERSION={project['version']}\n" in (REPOSITORY / "deploy/Dockerfile").read_text()
    assert compose["services"]["codeinfo"]["build"]["dockerfile"] == "deploy/Dockerfile"
