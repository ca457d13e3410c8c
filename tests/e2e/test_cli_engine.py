"""The real program on real folders: what people and scripts see from start to end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "headers.py").write_text(
        'def parse_header(line):\n    """Split a header line."""\n    return line.split(":")\n'
    )
    (folder / "notes.md").write_text("# Notes\n\nHeaders are split at the first colon.\n")
    return folder


def test_a_first_search_indexes_and_a_second_sees_changes(codeinfo: Any, project: Path) -> None:
    first = codeinfo("search", "parse_header", "--json", cwd=project)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["hits"][0]["path"] == "headers.py"
    (project / "cookies.py").write_text("def parse_cookie(line):\n    return line\n")
    second = json.loads(codeinfo("search", "parse_cookie", "--json", cwd=project).stdout)
    assert second["hits"][0]["path"] == "cookies.py"
    (project / "cookies.py").unlink()
    third = json.loads(codeinfo("search", "parse_cookie", "--json", cwd=project).stdout)
    assert "cookies.py" not in [hit["path"] for hit in third["hits"]]


def test_a_search_where_nothing_is_indexed_asks_about_the_folder(codeinfo: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for more in ((), ("--language", "go")):
        said = codeinfo("search", "parse_header", *more, cwd=tmp_path / "empty").stdout.splitlines()
        assert said[0].startswith("Nothing found: no file is indexed here")
        assert said[1].startswith("hint: Is this the right folder?")
        assert len(said) == 2


def test_what_is_asked_for_whole_is_shown_whole(codeinfo: Any, project: Path) -> None:
    lines = [f"    step_{number} = {number}" for number in range(40)]
    (project / "long.py").write_text("def many_steps():\n" + "\n".join(lines) + "\n")

    def shown(*options: str) -> str:
        text: str = codeinfo("search", "many_steps", "-n", "1", *options, cwd=project).stdout
        return text

    assert lines[-1] not in shown()
    for options in (("--full-text",), ("--max-tokens", "2000")):
        whole = shown(*options)
        assert all(line in whole for line in lines), options


def test_context_names_callers_and_tests(codeinfo: Any, project: Path) -> None:
    (project / "reader.py").write_text(
        "from headers import parse_header\n\n\ndef read():\n    return parse_header('a')\n"
    )
    (project / "test_headers.py").write_text(
        "from headers import parse_header\n\n\ndef test_it():\n    parse_header('a')\n"
    )
    shown = codeinfo("search", "parse_header", "-n", "1", "--context", cwd=project).stdout
    assert "called by reader.py:5 read" in shown
    assert "tested in test_headers.py" in shown


def test_where_it_is_typed_does_not_matter(codeinfo: Any, project: Path, tmp_path: Path) -> None:
    """A project file counts for its project also when the command names the folder from elsewhere."""
    (project / ".codeinfo.toml").write_text("[index]\nchunk_chars = 300\n")
    assert codeinfo("index", str(project), cwd=tmp_path).returncode == 0
    (report,) = json.loads(codeinfo("index", "--json", cwd=project).stdout)["reports"]
    assert not report["rebuilt"]
    assert report["added"] == 0


def test_status_why_clear(codeinfo: Any, project: Path) -> None:
    for path in project.iterdir():
        os.utime(path, (1, 1))  # what was written just before it is indexed counts as changed for a moment

    def state() -> Any:
        return json.loads(codeinfo("status", "--json", cwd=project).stdout)["indexes"][0]["state"]

    (project / ".env").write_text("TOKEN=1\n")
    seen = [state()]
    assert codeinfo("index", cwd=project).returncode == 0
    seen.append(state())
    (project / "more.py").write_text("x = 1\n")
    seen.append(state())
    assert codeinfo("clear", cwd=project).returncode == 0
    seen.append(state())
    assert seen == ["missing", "ready", "stale", "missing"]
    assert "a first search indexes it, or `codeinfo index`" in codeinfo("status", cwd=project).stdout
    assert json.loads(codeinfo("why", "headers.py", "--json", cwd=project).stdout)["included"] is True
    assert json.loads(codeinfo("why", ".env", "--json", cwd=project).stdout)["included"] is False
    folder = codeinfo("why", ".", cwd=project).stdout
    assert "a folder" in folder
    assert "read as" not in folder


def test_a_file_that_is_too_large_is_3(codeinfo: Any, project: Path) -> None:
    done = codeinfo("index", "--set", "index.max_file_bytes=60", cwd=project)
    assert done.returncode == 3
    assert "skipped headers.py" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("search", ""), "empty"),
        (("search", "parse", "no/header"), "no/header does not exist"),
        (("index", "/"), "/"),
        (("why", "nowhere.py"), "does not exist"),
        (("search", "x", "--set", "index.max_file_bytes=no"), "whole number"),
        (("search", "x", "-l", "pyton"), "Did you mean python?"),
        (("search", "x", "-l", "nope"), "`codeinfo status` lists those of this project"),
        (("docs", "add", "nowhere"), "Give an existing folder, file or address"),
    ],
)
def test_refusals_say_why_and_write_nothing(
    arguments: tuple[str, ...], says: str, codeinfo: Any, project: Path
) -> None:
    done = codeinfo(*arguments, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [("search", "x", "owner/name"), ("symbols", "owner/name"), ("refs", "x", "owner/name")]
)
def test_a_project_of_the_team_without_its_host_is_refused_with_an_example(
    arguments: tuple[str, ...], codeinfo: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "github.com/owner/name" not in codeinfo(*arguments, cwd=project).stderr
    monkeypatch.setenv("CODEINFO_STORE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    done = codeinfo(*arguments, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert "owner/name does not exist" in done.stderr
    assert "named with its host, as in github.com/owner/name" in done.stderr


def test_a_folder_belongs_to_itself_and_not_to_its_parent(codeinfo: Any, project: Path, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def outside():\n    pass\n")
    for path, folder in ((".", project), (str(project), tmp_path / "elsewhere")):
        folder.mkdir(exist_ok=True)
        listed = json.loads(codeinfo("symbols", path, "--json", cwd=folder).stdout)["symbols"]
        assert [one["path"] for one in listed] == ["headers.py", "notes.md"]


def test_the_home_folder_is_refused(codeinfo: Any, own_folders: Path) -> None:
    assert codeinfo("index", cwd=own_folders).returncode == 2


def test_doctor_is_content(codeinfo: Any, project: Path) -> None:
    done = codeinfo("doctor", "--json", cwd=project)
    assert done.returncode == 0, done.stdout
    assert {check["name"] for check in json.loads(done.stdout)["checks"]} >= {
        "python",
        "sqlite",
        "git",
        "cache",
        "index",
    }


def test_hostile_text_cannot_reach_the_terminal(codeinfo: Any, project: Path) -> None:
    (project / "evil.md").write_text("# Evil\n\nzanzibar \x1b]0;owned\x07 \x1b[2J\n")
    done = codeinfo("search", "zanzibar", cwd=project)
    assert "evil.md" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_help_names_the_whole_command(codeinfo: Any) -> None:
    assert codeinfo("docs", "add", "--help").stdout.startswith("Usage: codeinfo docs add [OPTIONS]")
