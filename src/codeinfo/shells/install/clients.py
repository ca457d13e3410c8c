"""The clients: where each keeps its servers, and how it writes one down."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

SERVER = "codeinfo"


class Places(Struct, frozen=True):
    """The user's folders, as clients find them."""

    home: Path
    config: Path  # ~/.config, on macOS ~/Library/Application Support
    dot_config: Path  # ~/.config on macOS too, where some clients look on every system


class Client(Struct, frozen=True):
    """`files` in order of preference: the first that exists is written, else the first. `key` holds the servers."""

    name: str
    title: str
    files: Callable[[Places], Sequence[Path]]
    key: str
    entry: Callable[[Sequence[str]], dict[str, Any]]
    programs: tuple[str, ...] = ()  # one of these on the PATH tells that the client is there
    format: str = "json"
    instructions: str = "AGENTS.md"  # the file in a project that it reads

    def file(self, places: Places) -> Path:
        files = self.files(places)
        return next((path for path in files if path.exists()), files[0])

    def is_there(self, places: Places) -> bool:
        """Its file, the folder of its own that the file is in, or its program."""
        file = self.file(places)
        shared = (places.home, places.config, places.dot_config)
        own_folder = file.parent not in shared and file.parent.is_dir()
        return file.exists() or own_folder or any(shutil.which(program) for program in self.programs)


def _command(command: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:])}


def _typed(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio", **_command(command)}


def _opencode(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "local", "command": list(command), "enabled": True}


def _copilot(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "local", **_command(command), "tools": ["*"]}


CLIENTS = (
    Client(
        "claude-code",
        "Claude Code",
        lambda at: [at.home / ".claude.json"],
        "mcpServers",
        _typed,
        programs=("claude",),
        instructions="CLAUDE.md",
    ),
    Client("codex", "Codex", lambda at: [at.home / ".codex/config.toml"], "mcp_servers", _command, ("codex",), "toml"),
    Client("cursor", "Cursor", lambda at: [at.home / ".cursor/mcp.json"], "mcpServers", _command, ("cursor",)),
    Client("vscode", "VS Code", lambda at: [at.config / "Code/User/mcp.json"], "servers", _typed, ("code",)),
    Client(
        "opencode",
        "OpenCode",
        lambda at: [at.dot_config / "opencode/opencode.json", at.dot_config / "opencode/opencode.jsonc"],
        "mcp",
        _opencode,
        ("opencode",),
    ),
    Client(
        "gemini",
        "Gemini CLI",
        lambda at: [at.home / ".gemini/settings.json"],
        "mcpServers",
        _command,
        ("gemini",),
        instructions="GEMINI.md",
    ),
    Client(
        "windsurf",
        "Windsurf",
        lambda at: [at.home / ".codeium/windsurf/mcp_config.json"],
        "mcpServers",
        _command,
        ("windsurf",),
    ),
    Client(
        "zed",
        "Zed",
        lambda at: [at.dot_config / "zed/settings.json"],
        "context_servers",
        _command,
        ("zed", "zeditor"),
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        lambda at: [at.config / "Claude/claude_desktop_config.json"],
        "mcpServers",
        _command,
    ),
    Client("qwen", "Qwen Code", lambda at: [at.home / ".qwen/settings.json"], "mcpServers", _command, ("qwen",)),
    Client(
        "copilot",
        "Copilot CLI",
        lambda at: [at.home / ".copilot/mcp-config.json"],
        "mcpServers",
        _copilot,
        ("copilot",),
    ),
    Client("lm-studio", "LM Studio", lambda at: [at.home / ".lmstudio/mcp.json"], "mcpServers", _command, ("lms",)),
)
