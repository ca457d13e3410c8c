"""The installer on configurations as people have them: comments, trailing commas, tabs, CRLF, other servers."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codeinfo import __version__
from codeinfo.config import Config, user_folders
from codeinfo.engine import Engine
from codeinfo.errors import UsageError
from codeinfo.operations.clients import InstallRequest, UninstallRequest
from codeinfo.shells import install as installing
from codeinfo.shells.install import CLIENTS, Client, Places, install, json_insertion, json_servers, uninstall

COMMAND = "/opt/codeinfo/bin/codeinfo"
PROGRAM = installing._program

PLAIN = """{
  "numStartups": 12,
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@example/github"]
    }
  },
  "theme": "dark"
}
"""
COMMENTED = """// my settings
{
    "theme": "One Dark", // not the light one
    /* servers */
    "KEY": { // all of them
        // the first
        "files": {"command": "npx", "args": ["a", "b",]},
    },
}
"""
TABS = '{\r\n\t"KEY": {\r\n\t\t"a": {"command": "x", "args": []}\r\n\t}\r\n}\r\n'
NO_SECTION = '{\n   "editor.fontSize": 13, // big enough\n   "files": ["}", "{"]\n}'
EMPTY_SECTION = '{"KEY": {}, "other": 1}\n'
BOM = '\ufeff{\n  "KEY": {\n    // nothing yet\n  }\n}\n'
TOML = """# Codex
model = "o3"  # the default

[mcp_servers.files]   # other server
command = "npx"
args = ["-y", "files"]

[tui]
theme = "dark"
"""
GOLDEN = """{
  "numStartups": 12,
  "mcpServers": {
    "codeinfo": {
      "type": "stdio",
      "command": "/opt/codeinfo/bin/codeinfo",
      "args": [
        "mcp"
      ]
    },
    "github": {
      "command": "npx",
      "args": ["-y", "@example/github"]
    }
  },
  "theme": "dark"
}
"""


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.shells.install._program", lambda: [COMMAND])
    monkeypatch.setattr("shutil.which", lambda name: None)


def places(home: Path) -> Places:
    return Places(home, home / "config", home / "config")


def put(client: Client, home: Path, text: str) -> Path:
    path = client.file(places(home))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.replace("KEY", client.key).encode())
    return path


def actions(name: str) -> list[str]:
    return [change.action for change in install(Engine(Config.load()), InstallRequest((name,))).changes]


def servers(client: Client, text: str) -> dict[str, object]:
    if client.format == "toml":
        found: dict[str, object] = tomllib.loads(text)[client.key]
        return found
    return json_servers(text, client.key)


def cases(client: Client) -> list[str]:
    if client.format == "toml":
        return [TOML, TOML.replace("\n", "\r\n"), "", "model = 'x'"]
    return [PLAIN, COMMENTED, TABS, NO_SECTION, EMPTY_SECTION, BOM, "{}", "", "{}\n// end\n"]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_adding_twice_is_once_and_removing_restores_the_bytes(client: Client, own_folders: Path) -> None:
    for text in cases(client):
        path = put(client, own_folders, text)
        before = path.read_bytes()
        assert actions(client.name) == ["added"]
        after = path.read_bytes()
        assert actions(client.name) == ["unchanged"]
        assert path.read_bytes() == after
        entry = client.entry([COMMAND, "mcp"])
        found = servers(client, after.decode())
        assert found["codeinfo"] == entry
        extra = len(after) - len(before)
        assert any(after[:at] + after[at + extra :] == before for at in range(len(before) + 1))  # one insertion
        (removed,) = uninstall(Engine(Config.load()), UninstallRequest((client.name,))).changes
        assert removed.action == "removed"
        if text:
            assert path.read_bytes() == before
        else:
            assert not path.exists()  # nothing was in it
            path.parent.mkdir(exist_ok=True)


def test_the_result_reads_as_if_written_by_hand(own_folders: Path) -> None:
    path = put(CLIENTS[0], own_folders, PLAIN)
    actions("claude-code")
    assert path.read_text() == GOLDEN
    empty = put(CLIENTS[0], own_folders, "{}")
    actions("claude-code")
    assert empty.read_text() == json.dumps(json.loads(empty.read_text()), indent=2)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_file_that_does_not_exist_is_made_and_deleted(client: Client, own_folders: Path) -> None:
    assert actions(client.name) == ["added"]
    path = client.file(places(own_folders))
    assert servers(client, path.read_text())["codeinfo"] == client.entry([COMMAND, "mcp"])
    uninstall(Engine(Config.load()), UninstallRequest((client.name,)))
    assert not path.exists()


def test_what_the_user_changed_meanwhile_stays(own_folders: Path) -> None:
    path = put(CLIENTS[0], own_folders, PLAIN)
    actions("claude-code")
    path.write_text(path.read_text().replace('"dark"', '"light"'))
    uninstall(Engine(Config.load()), UninstallRequest(("claude-code",)))
    assert path.read_text() == PLAIN.replace('"dark"', '"light"')
    actions("claude-code")
    edited = path.read_text().replace('"mcp"\n', '"mcp", "--tools", "all"\n')  # our own entry, by the user's hand
    path.write_text(edited)
    uninstall(Engine(Config.load()), UninstallRequest(("claude-code",)))
    assert path.read_text() == PLAIN.replace('"dark"', '"light"')


def test_another_choice_of_tools_updates_the_entry(own_folders: Path) -> None:
    path = put(CLIENTS[0], own_folders, PLAIN)
    actions("claude-code")
    (change,) = install(Engine(Config.load()), InstallRequest(("claude-code",), tools="search,edit")).changes
    assert change.action == "updated"
    assert json.loads(path.read_text())["mcpServers"]["codeinfo"]["args"] == ["mcp", "--tools", "search,edit"]
    uninstall(Engine(Config.load()), UninstallRequest(("claude-code",)))
    assert path.read_text() == PLAIN


def test_somebody_elses_server_of_that_name_is_kept(own_folders: Path) -> None:
    text = '{"mcpServers": {"codeinfo": {"command": "mine"}}}'
    path = put(CLIENTS[0], own_folders, text)
    assert actions("claude-code") == ["kept"]
    assert path.read_text() == text


@pytest.mark.parametrize("text", ['{"mcpServers": [', "[1]", '{"mcpServers": 3}', '{"a" 1}', "{} {}"])
def test_a_broken_file_is_left_alone_and_others_go_on(own_folders: Path, text: str) -> None:
    path = put(CLIENTS[0], own_folders, text)
    done = install(Engine(Config.load()), InstallRequest(("claude-code", "cursor"))).changes
    assert [change.action for change in done] == ["failed", "added"]
    assert path.read_text() == text


def test_inline_tables_cannot_be_added_to(own_folders: Path) -> None:
    text = 'mcp_servers = { files = { command = "x" } }\n'
    path = put(CLIENTS[1], own_folders, text)
    assert actions("codex") == ["failed"]
    assert path.read_text() == text


def test_a_dry_run_writes_nothing_and_shows_the_difference(own_folders: Path) -> None:
    path = put(CLIENTS[2], own_folders, PLAIN)
    (change,) = install(Engine(Config.load()), InstallRequest(("cursor",), dry_run=True)).changes
    assert '+    "codeinfo": {' in change.diff
    assert path.read_text() == PLAIN


def test_only_clients_that_are_there_are_found(own_folders: Path) -> None:
    put(CLIENTS[2], own_folders, PLAIN)
    assert [change.client for change in install(Engine(Config.load()), InstallRequest()).changes] == ["cursor"]


def test_without_a_client_their_names_are_listed(own_folders: Path) -> None:
    (note,) = install(Engine(Config.load()), InstallRequest()).notes
    assert all(client.name in note for client in CLIENTS)


def test_files_on_macos(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zed and OpenCode look into ~/.config on every system, VS Code and Claude Desktop do not."""
    monkeypatch.setattr(sys, "platform", "darwin")
    found = {client.name: client.file(Places(*user_folders())).relative_to(own_folders) for client in CLIENTS}
    assert found["zed"] == Path(".config/zed/settings.json")
    assert found["opencode"] == Path(".config/opencode/opencode.json")
    assert found["vscode"] == Path("Library/Application Support/Code/User/mcp.json")
    assert found["claude-desktop"] == Path("Library/Application Support/Claude/claude_desktop_config.json")


def test_links_and_modes_survive(own_folders: Path) -> None:
    real = own_folders / "dotfiles.json"
    real.write_text(PLAIN)
    real.chmod(0o640)
    link = own_folders / ".claude.json"
    link.symlink_to(real)
    actions("claude-code")
    assert link.is_symlink()
    assert "codeinfo" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(own_folders / ".claude.json")
    (change,) = install(Engine(Config.load()), InstallRequest(("claude-code",))).changes
    assert (change.action, "is not a plain file" in change.detail) == ("failed", True)
    monkeypatch.chdir(tmp_path)
    os.mkfifo("AGENTS.md")
    with pytest.raises(UsageError, match=r"AGENTS.md is not a plain file"):
        install(Engine(Config.load()), InstallRequest(("codex",), instructions=True))


def everything_in(folder: Path) -> dict[str, bytes | None]:
    """All but CodeInfo's own data, by path; None for folders."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    own = {name: path for name, path in found.items() if not name.startswith("data")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in own.items()}


def test_a_skill_a_plugin_and_eager_tools_come_and_go(own_folders: Path, tmp_path: Path) -> None:
    home = user_folders()[0]
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text("{}")
    (home / ".copilot").mkdir()
    before, plugin = everything_in(home), tmp_path / "made" / "plugin"
    request = InstallRequest(skill=True, always_load=True, plugin=str(plugin))
    report = install(Engine(Config.load()), request)
    assert {change.client for change in report.changes} == {"claude-code", "copilot", "plugin"}  # without .claude.json
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["codeinfo"]
    assert entry["alwaysLoad"] is True
    assert (
        json.loads((home / ".copilot" / "mcp-config.json").read_text())["mcpServers"]["codeinfo"]["deferTools"]
        == "never"
    )
    skill = (home / ".claude" / "skills" / "codeinfo" / "SKILL.md").read_text()
    assert skill.startswith("---\nname: codeinfo\ndescription: ")
    assert (plugin / "skills" / "codeinfo" / "SKILL.md").read_text() == skill
    assert json.loads((plugin / ".claude-plugin" / "plugin.json").read_text())["name"] == "codeinfo"
    assert json.loads((plugin / ".mcp.json").read_text())["mcpServers"]["codeinfo"]["args"] == ["mcp"]
    (hook,) = json.loads((plugin / "hooks" / "hooks.json").read_text())["hooks"]["SessionStart"]
    said = hook["hooks"][0]["command"].replace("${CLAUDE_PLUGIN_ROOT}", str(plugin))
    shown = subprocess.run(["bash", "-c", said], capture_output=True, text=True, check=True).stdout
    assert "search_codebase" in json.loads(shown)["hookSpecificOutput"]["additionalContext"]
    assert all(change.action == "unchanged" for change in install(Engine(Config.load()), request).changes)
    uninstall(Engine(Config.load()), UninstallRequest())
    assert everything_in(home) == before
    assert not plugin.parent.exists()


def test_a_skill_that_was_edited_is_kept(own_folders: Path) -> None:
    home = user_folders()[0]
    (home / ".codex").mkdir()
    install(Engine(Config.load()), InstallRequest(("codex",), skill=True))
    skill = home / ".codex" / "skills" / "codeinfo" / "SKILL.md"
    skill.write_text(skill.read_text() + "\nOurs.\n")
    actions = {
        change.path: change.action
        for change in install(Engine(Config.load()), InstallRequest(("codex",), skill=True)).changes
    }
    assert actions[str(skill)] == "kept"
    uninstall(Engine(Config.load()), UninstallRequest())
    assert skill.read_text().strip() == "Ours."


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may become longer, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_installation_that_finds_no_room_leaves_nothing(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, request = Engine(Config.load()), InstallRequest(("claude-code",), skill=True)
    skill = own_folders / ".claude/skills/codeinfo/SKILL.md"
    recorded = Config.load().paths.data_dir / "installed.json"
    with room_for(len(installing.SKILL)):  # the record has the skill, quoted
        added, failed = install(engine, request).changes
    assert (added.action, failed.action) == ("added", "failed")
    assert not (own_folders / ".claude").exists()
    assert [*json.loads(recorded.read_bytes())] == [added.path]

    assert [change.action for change in install(engine, request).changes] == ["unchanged", "added"]
    monkeypatch.setattr(installing, "SKILL", installing.SKILL + "More.\n" * 2000)
    with room_for(len(installing.SKILL)):
        assert [change.action for change in install(engine, request).changes] == ["unchanged", "failed"]
    assert [change.action for change in install(engine, request).changes] == ["unchanged", "updated"]
    assert [change.action for change in uninstall(engine, UninstallRequest()).changes] == ["removed", "removed"]
    assert not skill.exists()
    assert not (own_folders / ".claude").exists()


def test_what_was_removed_is_reported_though_the_record_finds_no_room(own_folders: Path) -> None:
    client = next(client for client in CLIENTS if client.name == "cursor")
    path = put(client, own_folders, before := '{"mcpServers": {}}\n')
    engine = Engine(Config.load())
    install(engine, InstallRequest(("cursor",), skill=True))
    with room_for(len(before)):
        changes = uninstall(engine, UninstallRequest()).changes
    assert [change.action for change in changes] == ["removed", "removed"]
    assert path.read_text() == before
    assert not (own_folders / ".cursor/skills/codeinfo/SKILL.md").exists()


@pytest.mark.parametrize("damage", ["cut", "link", "pipe", "folder"])
def test_a_damaged_record_is_named_and_nothing_is_written(own_folders: Path, damage: str) -> None:
    client = next(client for client in CLIENTS if client.name == "cursor")
    path = put(client, own_folders, '{"mcpServers": {}}\n')
    engine = Engine(Config.load())
    install(engine, InstallRequest(("cursor",), skill=True))
    before, record = path.read_bytes(), Config.load().paths.data_dir / "installed.json"
    content = record.read_bytes()
    record.unlink()
    if damage == "cut":
        record.write_bytes(content[:-9])
    elif damage == "link":
        (own_folders / "elsewhere").write_bytes(content)
        record.symlink_to(own_folders / "elsewhere")
    elif damage == "pipe":
        os.mkfifo(record)
    else:
        record.mkdir()
    with pytest.raises(UsageError, match=r"installed\.json"):
        uninstall(engine, UninstallRequest())
    with pytest.raises(UsageError, match=r"installed\.json"):
        install(engine, InstallRequest(("zed",)))
    assert path.read_bytes() == before
    assert not (own_folders / "config/zed").exists()


def test_codex_may_take_its_time(own_folders: Path) -> None:
    install(Engine(Config.load()), InstallRequest(("codex",)))
    entry = tomllib.loads((user_folders()[0] / ".codex" / "config.toml").read_text())["mcp_servers"]["codeinfo"]
    assert entry["startup_timeout_sec"] == 30


def test_instructions_come_and_go(own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CLAUDE.md").write_text("# Rules\n\nBe kind.")
    for _ in range(2):
        install(Engine(Config.load()), InstallRequest(("claude-code", "codex"), instructions=True))
    assert (tmp_path / "CLAUDE.md").read_text().count("search_codebase") == 2  # one block names it twice
    assert "search_codebase" in (tmp_path / "AGENTS.md").read_text()
    uninstall(Engine(Config.load()), UninstallRequest())
    assert (tmp_path / "CLAUDE.md").read_text() == "# Rules\n\nBe kind."
    assert not (tmp_path / "AGENTS.md").exists()
    (tmp_path / "CLAUDE.md").unlink()
    (note,) = install(Engine(Config.load()), InstallRequest(("claude-code",), instructions=True)).notes
    assert "CLAUDE.md does not exist" in note


def test_old_instructions_are_renewed_and_nothing_between_two_of_them_is_lost(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a merge, or with half of them cut."""
    monkeypatch.chdir(tmp_path)
    own, old = "\n## Ours\n\nNever on a Friday.\n\n", "<!-- codeinfo -->\nold\n<!-- /codeinfo -->\n"
    for text in (f"# Rules\n{old}{own}{old}end\n", f"# Rules\n<!-- codeinfo -->\ncut{own}{old}end\n"):
        (tmp_path / "AGENTS.md").write_text(text)
        install(Engine(Config.load()), InstallRequest(("codex",), instructions=True))
        written = (tmp_path / "AGENTS.md").read_text()
        assert own in written
        assert written.count("search_codebase") == 2  # one block names it twice
        assert written.count("old") == text.count("old") - 1
        uninstall(Engine(Config.load()), UninstallRequest(()))
        written = (tmp_path / "AGENTS.md").read_text()
        assert own in written
        assert "search_codebase" not in written


def test_instructions_are_written_in_this_folder_alone(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may bring any link along; that one of these files is the other one is usual."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (tmp_path / "profile").write_text("export PATH\n")
    (project / "AGENTS.md").symlink_to("../profile")
    (project / "CLAUDE.md").write_text("# Rules\n")
    (project / "GEMINI.md").symlink_to("CLAUDE.md")
    request = InstallRequest(("codex", "claude-code", "gemini"), instructions=True)
    done = {Path(one.path).name: one.action for one in install(Engine(Config.load()), request).changes}
    assert (done["AGENTS.md"], done["CLAUDE.md"], done["GEMINI.md"]) == ("kept", "added", "added")
    assert (tmp_path / "profile").read_text() == "export PATH\n"
    assert (project / "CLAUDE.md").read_text().count("search_codebase") == 2  # one block names it twice
    uninstall(Engine(Config.load()), UninstallRequest())
    assert (project / "CLAUDE.md").read_text() == "# Rules\n"


def test_what_a_client_writes_at_that_moment_stays(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = own_folders / ".claude.json"
    path.write_text("{}")

    def insert_and_write(*arguments: Any) -> tuple[int, str]:
        path.write_text('{"of": "the client"}')
        return json_insertion(*arguments)

    monkeypatch.setattr("codeinfo.shells.install.json_insertion", insert_and_write)
    (change,) = install(Engine(Config.load()), InstallRequest(("claude-code",))).changes
    assert (change.action, "another program" in change.detail) == ("failed", True)
    assert path.read_text() == '{"of": "the client"}'


def test_the_command_imports_nothing_of_the_project_it_is_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pip puts programs into another folder than Python's, there is none beside it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    project = tmp_path / "project"
    (project / "codeinfo").mkdir(parents=True)
    for name in ("codeinfo/__init__.py", "codeinfo/__main__.py", "msgspec.py"):
        (project / name).write_text("print('hostile')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [*PROGRAM(), "--version"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"codeinfo {__version__}\n"), done.stderr


def test_uninstall_without_an_installation_says_so(codeinfo: Any, tmp_path: Path) -> None:
    done = codeinfo("uninstall", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "note: no client has CodeInfo: there is nothing to remove\n")
