"""`install` and `uninstall`: CodeInfo as an MCP server of the clients on this machine.

One insertion in each file, recorded, so that removing it restores the file byte for byte.
"""

from __future__ import annotations

import difflib
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo import __version__
from codeinfo.config import parse_toml, user_folders
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.files import NotRegular, private_folder, read_private, read_user_file, replace_file, resolve_links
from codeinfo.languages.model import strict_json, without_json_comments
from codeinfo.model import decode_stored
from codeinfo.operations.clients import FileChange, InstallReport, InstallRequest, UninstallRequest
from codeinfo.operations.search import Check, DoctorReport, DoctorRequest

SERVER = "codeinfo"
STARTUP_S = 30  # Codex waits 10 s, which a busy machine may need; a server that is ready earlier is used earlier
_LARGEST_RECORD = 10_000_000  # bytes
MADE_FOLDER = "folder"  # in the record: a folder that did not exist before


class Places(Struct, frozen=True):
    home: Path
    config: Path  # ~/.config, on macOS ~/Library/Application Support
    dot_config: Path  # ~/.config on macOS too, where some clients look on every system


def _plain_entry(command: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:])}


def _stdio_entry(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain_entry(command)}


class Client(Struct, frozen=True):
    """`files` in order of preference, each below one of the `Places`: the first existing one is written, otherwise
    the first. `key` holds the servers."""

    name: str
    files: tuple[str, ...]
    programs: tuple[str, ...] = ()  # one of these on the PATH shows that the client is installed
    key: str = "mcpServers"
    entry: Callable[[Sequence[str]], dict[str, Any]] = _plain_entry
    format: str = "json"
    instructions: str = "AGENTS.md"  # the file in a project that it reads
    folders: tuple[str, ...] = ()  # its own, besides the one the file is in
    skills: str = ""  # where its user keeps skills
    eager: Mapping[str, Any] = field(default_factory=dict)  # of an entry: tools are shown without a search for them

    def file(self, places: Places) -> Path:
        files: list[Path] = [getattr(places, name.partition("/")[0]) / name.partition("/")[2] for name in self.files]
        return next((path for path in files if path.exists()), files[0])

    def is_there(self, places: Places) -> bool:
        """Its file, the file's own folder, or its program exists."""
        file = self.file(places)
        shared = (places.home, places.config, places.dot_config)
        own_folder = file.parent not in shared and file.parent.is_dir()
        named_folder = any((places.home / name).is_dir() for name in self.folders)
        return file.exists() or own_folder or named_folder or any(map(shutil.which, self.programs))


OPENCODE_FILES = ("dot_config/opencode/opencode.json", "dot_config/opencode/opencode.jsonc")
CLIENTS = (
    Client(
        "claude-code",
        ("home/.claude.json",),
        ("claude",),
        entry=_stdio_entry,
        instructions="CLAUDE.md",
        folders=(".claude",),
        skills=".claude/skills",
        eager={"alwaysLoad": True},
    ),
    Client(
        "codex",
        ("home/.codex/config.toml",),
        ("codex",),
        "mcp_servers",
        lambda command: {**_plain_entry(command), "startup_timeout_sec": STARTUP_S},
        format="toml",
        skills=".codex/skills",
    ),
    Client("cursor", ("home/.cursor/mcp.json",), ("cursor",), skills=".cursor/skills"),
    Client("vscode", ("config/Code/User/mcp.json",), ("code",), "servers", _stdio_entry),
    Client(
        "opencode",
        OPENCODE_FILES,
        ("opencode",),
        "mcp",
        lambda command: {"type": "local", "command": list(command), "enabled": True},
    ),
    Client("gemini", ("home/.gemini/settings.json",), ("gemini",), instructions="GEMINI.md", skills=".gemini/skills"),
    Client("windsurf", ("home/.codeium/windsurf/mcp_config.json",), ("windsurf",)),
    Client("zed", ("dot_config/zed/settings.json",), ("zed", "zeditor"), "context_servers"),
    Client("claude-desktop", ("config/Claude/claude_desktop_config.json",)),
    Client("qwen", ("home/.qwen/settings.json",), ("qwen",)),
    Client(
        "copilot",
        ("home/.copilot/mcp-config.json",),
        ("copilot",),
        entry=lambda command: {"type": "local", **_plain_entry(command), "tools": ["*"]},
        skills=".copilot/skills",
        eager={"deferTools": "never"},
    ),
    Client("lm-studio", ("home/.lmstudio/mcp.json",), ("lms",)),
)


class Record:
    """Records what was inserted where: only the inserted text, never the file's own."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "installed.json"
        self._read()  # raises before anything is written

    def inserted_text(self, path: Path) -> str:
        return self._read().get(str(path), "")

    def paths(self) -> list[Path]:
        """The files, without the folders made for them."""
        return [Path(path) for path, inserted in self._read().items() if inserted != MADE_FOLDER]

    def keep(self, path: Path, inserted: str) -> None:
        self._write({**self._read(), str(path): inserted})

    def forget(self, path: Path) -> None:
        self._write({name: text for name, text in self._read().items() if name != str(path)})

    def _read(self) -> dict[str, str]:
        text = read_user_file(self._path, _LARGEST_RECORD, follow=False)
        content = {} if text is None else decode_stored(text.encode(), dict[str, str])
        if content is None:
            step = "Remove it: entries of servers are found by their structure, other files are then yours to remove"
            raise UsageError(f"{self._path} is damaged", step)
        return content

    def _write(self, content: dict[str, str]) -> None:
        private_folder(self._path.parent)
        replace_file(self._path, json.dumps(content, indent=1).encode())


_MARKS = ("<!-- codeinfo -->", "<!-- /codeinfo -->")
_ADVICE = """{0}
This project is indexed by CodeInfo. Use its MCP tools before grep or reading files: `search_codebase` finds code by
name or meaning, `explore` shows all about one symbol or file. Before changing code call `search_codebase` with intent
`edit` and follow its `preflight`.
{1}
"""

# From its mark to the next one, and to no later: what people wrote between two of them is theirs.
_ADVISED = re.compile("{0}(?:(?!{0}).)*?{1}\\n?".format(*map(re.escape, _MARKS)), re.DOTALL)

SKILL = Path(__file__).with_name("SKILL.md").read_text(encoding="utf-8")
HOOKS = Path(__file__).parent / "plugin" / "hooks"


def plugin_files(command: Sequence[str], always_load: bool) -> dict[str, str]:
    """A Claude Code plugin: path in its folder → content."""
    description = "Search this codebase locally, and see callers, tests and history of what was found."
    about = {"name": SERVER, "version": __version__, "description": description}
    entry = _plain_entry(command) | ({"alwaysLoad": True} if always_load else {})
    return {
        ".claude-plugin/plugin.json": _json_text(about),
        ".mcp.json": _json_text({"mcpServers": {SERVER: entry}}),
        **{f"hooks/{file.name}": file.read_text(encoding="utf-8") for file in sorted(HOOKS.iterdir())},
        f"skills/{SERVER}/SKILL.md": SKILL,
    }


def _json_text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def install(engine: Engine, request: InstallRequest) -> InstallReport:
    places = Places(*user_folders())
    record = Record(engine.config.paths.data_dir)
    clients = _choose(request.agents, lambda client: client.is_there(places))
    command = [*_program(), "mcp", *(["--tools", request.tools] if request.tools else [])]
    if request.tools:
        from codeinfo.shells.mcp_tools import choose_tools

        choose_tools(request.tools.split(","))  # refuses unknown names
    eager = request.always_load
    plan_addition = partial(_plan_addition, places=places, record=record, command=command, eager=eager)
    changes = [_try_plan(client, places, plan_addition) for client in clients]
    advice = [*_plan_instructions(clients)] if request.instructions else []
    if request.skill:
        skills = {client.name: places.home / client.skills / SERVER / "SKILL.md" for client in clients if client.skills}
        advice += [_plan_own_file(name, path, SKILL, record) for name, path in skills.items()]
    if request.plugin:
        folder = Path(os.path.abspath(os.path.expanduser(request.plugin)))
        files = plugin_files(command, eager)
        advice += [_plan_own_file("plugin", folder / name, text, record) for name, text in files.items()]
    choices = ", ".join(client.name for client in CLIENTS)
    notes = [] if clients else [f"no client was found on this machine; name one with --agent: {choices}"]
    if request.plugin:
        notes.append(f"try the plugin with `claude --plugin-dir {folder}`")
    if request.skill and not any(client.skills for client in clients):
        notes.append("no skill was written: none of these clients has a folder for them")
    if request.instructions and clients and not any(plan.client == "instructions" for plan in advice):
        names = ", ".join(dict.fromkeys(client.instructions for client in clients))
        notes.append(f"no instructions were written: {names} does not exist in this folder")
    done = _apply_plans(changes + advice, record, request.dry_run)
    return InstallReport(done, request.dry_run, tuple(notes))


def uninstall(engine: Engine, request: UninstallRequest) -> InstallReport:
    places = Places(*user_folders())
    record = Record(engine.config.paths.data_dir)
    clients = _choose(request.agents, lambda client: client.file(places).exists())
    plan_uninstall = partial(_plan_uninstall, places=places, record=record)
    changes = [_try_plan(client, places, plan_uninstall) for client in clients]
    client_of = {client.file(places): client for client in CLIENTS}
    skill_folders = {places.home / client.skills for client in clients if client.skills} if request.agents else None
    for path in record.paths():
        if path not in client_of and (skill_folders is None or path.parent.parent in skill_folders):
            changes.append(_plan_removal("instructions" if path.parent.name != SERVER else "skill", path, record))
    notes = () if changes else ("no client has CodeInfo: there is nothing to remove",)
    return InstallReport(_apply_plans(changes, record, request.dry_run), request.dry_run, notes)


class Plan(Struct, frozen=True):
    """What a file would become: `after` is None if it would be deleted, `before` if it does not exist."""

    client: str
    path: Path
    action: str
    before: str | None = None
    after: str | None = None
    inserted: str = ""
    detail: str = ""


# --- planning ------------------------------------------------------------------------------------------------------


def _plan_addition(client: Client, places: Places, record: Record, command: Sequence[str], eager: bool) -> Plan:
    path = client.file(places)
    entry = {**client.entry(command), **(client.eager if eager else {})}
    before = _text(path)
    text, current = before or "", _read_entry(client, before or "", path)
    if current == entry:
        return Plan(client.name, path, "unchanged")
    if current is not None and not record.inserted_text(path):
        detail = f"it already has another server {SERVER}: {json.dumps(current)}"
        return Plan(client.name, path, "kept", detail=detail)
    if current is not None:
        text = _cut_entry(client, text, record.inserted_text(path))
    insertion = toml_insertion if client.format == "toml" else json_insertion
    at, inserted = insertion(text, client.key, entry)
    after = text[:at] + inserted + text[at:]
    try:
        written = _read_entry(client, after, path)
    except UsageError:
        written = None
    if written != entry:
        raise UsageError(f"{client.key} has a format that does not allow adding to it", "Add the server by hand")
    return Plan(client.name, path, "added" if current is None else "updated", before, after, inserted)


def _plan_uninstall(client: Client, places: Places, record: Record) -> Plan:
    path = client.file(places)
    before = _text(path)
    if before is None or _read_entry(client, before, path) is None:
        return Plan(client.name, path, "unchanged")
    after = _cut_entry(client, before, record.inserted_text(path))
    return Plan(client.name, path, "removed", before, after or None)


def _cut_entry(client: Client, text: str, inserted: str) -> str:
    """The file without our server: by the exact text that was inserted, otherwise by its structure."""
    if inserted and text.count(inserted) == 1:
        return text.replace(inserted, "")
    return toml_without(text, client.key) if client.format == "toml" else json_without(text, client.key)


def _plan_instructions(clients: Sequence[Client]) -> Iterator[Plan]:
    """A few lines for agents in the current project, in each of the files that these clients read."""
    advice = _ADVICE.format(*_MARKS)
    for name in dict.fromkeys(client.instructions for client in clients):
        path = Path.cwd() / name
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(Path.cwd())):
            yield Plan("instructions", path, "kept", detail="it is a link that leads out of this folder")
            continue
        before = _text(path)
        if before and advice in before:
            yield Plan("instructions", path, "unchanged")
        elif before and (block := _ADVISED.search(before)):
            after = before[: block.start()] + advice + before[block.end() :]
            yield Plan("instructions", path, "updated", before, after, advice)
        elif before is not None or name == "AGENTS.md":
            inserted = ("" if not before else "\n" if before.endswith("\n") else "\n\n") + advice
            yield Plan("instructions", path, "added", before, (before or "") + inserted, inserted)


def _plan_own_file(client: str, path: Path, text: str, record: Record) -> Plan:
    """A file that only we write; one that was changed, or is somebody else's, is kept."""
    before = _text(path)
    if before == text:
        return Plan(client, path, "unchanged")
    if before is not None and before != record.inserted_text(path):
        return Plan(client, path, "kept", detail="CodeInfo did not write it, or it was edited since")
    return Plan(client, path, "added" if before is None else "updated", before, text, text)


def _plan_removal(client: str, path: Path, record: Record) -> Plan:
    before, inserted = _text(path), record.inserted_text(path)
    if before is None or inserted not in before:
        return Plan(client, path, "unchanged")
    return Plan(client, path, "removed", before, before.replace(inserted, "") or None)


# --- carrying out --------------------------------------------------------------------------------------------------


def _apply_plans(plans: Sequence[Plan], record: Record, dry_run: bool) -> tuple[FileChange, ...]:
    changes = []
    for plan in plans:
        diff = _diff(plan) if plan.action in ("added", "updated", "removed") else ""
        if diff and not dry_run:
            try:
                _write(plan, record)
            except OSError as error:
                plan = Plan(plan.client, plan.path, "failed", detail=f"{error.strerror}: the file is unchanged")
                diff = ""
        changes.append(FileChange(plan.client, str(plan.path), plan.action, plan.detail, diff))
    return tuple(changes)


def _write(plan: Plan, record: Record) -> None:
    if _text(plan.path) not in (plan.before, plan.after):  # a client that is running may write its settings itself
        raise OSError(errno.EBUSY, "another program is changing it, so try again")
    target = Path(os.path.realpath(plan.path))  # a link to a file elsewhere stays a link
    if plan.after is None:
        target.unlink()
        _forget(plan.path, target.parent, record)
        return
    mode, recorded = target.stat().st_mode & 0o777 if target.exists() else 0o600, record.inserted_text(plan.path)
    try:
        _make_folders(target.parent, record)
        if plan.inserted:
            record.keep(plan.path, plan.inserted)  # before the file changes: a crash leaves at most a stale record
        replace_file(target, plan.after.encode("utf-8", "surrogateescape"), mode=mode)
    except OSError:  # nothing was written, so nothing is left behind
        if recorded:
            with suppress(OSError):
                record.keep(plan.path, recorded)
        else:
            _forget(plan.path, target.parent, record)
        raise
    os.chmod(target, mode)  # whatever the umask left of it
    if plan.action == "removed":
        _forget(plan.path, target.parent, record)


def _forget(path: Path, folder: Path, record: Record) -> None:
    """The file is as it should be; what cannot be forgotten on a full disk only makes the record longer."""
    with suppress(OSError):
        record.forget(path)
    with suppress(OSError):
        _remove_folders(folder, record)


def _make_folders(folder: Path, record: Record) -> None:
    """Created folders are recorded, so that they can be removed."""
    for parent in (folder, *folder.parents):
        if parent.exists():
            break
        record.keep(parent, MADE_FOLDER)
    folder.mkdir(parents=True, exist_ok=True)


def _remove_folders(folder: Path, record: Record) -> None:
    for parent in (folder, *folder.parents):
        if record.inserted_text(parent) != MADE_FOLDER:
            return
        try:
            parent.rmdir()
        except FileNotFoundError:
            pass  # it was only recorded
        except OSError:
            return  # other files are in it by now
        record.forget(parent)


def _diff(plan: Plan) -> str:
    before, after = ((text or "").splitlines(keepends=True) for text in (plan.before, plan.after))
    lines = difflib.unified_diff(before, after, str(plan.path), str(plan.path), n=2)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


# --- what is there -------------------------------------------------------------------------------------------------


def _choose(names: Sequence[str], there: Callable[[Client], bool]) -> list[Client]:
    by_name = {client.name: client for client in CLIENTS}
    for name in names:
        if name not in by_name:
            raise NotFound(f"no client is called {name}", f"Known: {', '.join(by_name)}")
    return [by_name[name] for name in dict.fromkeys(names)] if names else [c for c in CLIENTS if there(c)]


def _try_plan(client: Client, places: Places, plan: Callable[[Client], Plan]) -> Plan:
    try:
        return plan(client)
    except CodeInfoError as error:
        return Plan(client.name, client.file(places), "failed", detail=str(error))
    except OSError as error:
        return Plan(client.name, client.file(places), "failed", detail=f"it cannot be read: {error.strerror}")


def _text(path: Path) -> str | None:
    """Lossless: keeps line ends as they are, and bytes that are not UTF-8. A pipe in its place is not waited for."""
    try:
        return read_private(resolve_links(path)).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except NotRegular as error:
        raise UsageError(f"{path} is not a plain file", "Remove it, or correct the link") from error


def _program() -> list[str]:
    """This installation, by its full path: the PATH may lead to another version."""
    script = Path(sys.executable).with_name("codeinfo")
    if script.is_file() and os.access(script, os.X_OK):
        return [str(script)]
    return [sys.executable, "-P", "-m", "codeinfo"]  # clients start it in projects, whose modules are not imported


# --- an entry in a file: read, inserted, taken out, nothing else touched ---------------------------------------------

# JSON may have comments and trailing commas, as editors allow them. An insertion is a position and a text, which are
# recorded so that removing it restores the file byte for byte.

_BETWEEN = re.compile(r"[\s,:]*")  # the members of an object, and a key and its value
_DECODER = json.JSONDecoder()


class Member(NamedTuple):
    """Where a member of an object starts, and where its value starts and ends."""

    start: int
    value: int
    end: int


def _read_entry(client: Client, text: str, path: Path) -> object:
    if client.format == "toml":
        servers = parse_toml(text, path).get(client.key)
        return servers.get(SERVER) if isinstance(servers, dict) else None
    return json_servers(text, client.key).get(SERVER)


def json_servers(text: str, key: str) -> dict[str, Any]:
    strict = _strict(text)
    try:
        content = json.loads(strict) if strict.strip() else {}
        if not isinstance(content, dict):
            raise ValueError
    except (ValueError, RecursionError) as error:
        start = len(strict) - len(strict.lstrip())
        line = getattr(error, "lineno", strict.count("\n", 0, start) + 1)
        raise UsageError(f"line {line} is not valid JSON", "Correct it, or add the server by hand") from None
    servers = content.get(key, {})
    if not isinstance(servers, dict):
        raise UsageError(f"{key} is not an object", "Correct the file, or add the server by hand")
    return servers


def _strict(text: str) -> str:
    """A file as strict JSON, everything at its position."""
    return strict_json(text.replace("\ufeff", " ", 1))


def _members(strict: str, brace: int) -> dict[str, Member]:
    members, at = dict[str, Member](), _skip(strict, brace + 1)
    while strict[at] != "}":
        key, end = _DECODER.raw_decode(strict, at)
        value = _skip(strict, end)
        members[key] = Member(at, value, _DECODER.raw_decode(strict, value)[1])
        at = _skip(strict, members[key].end)
    return members


def _skip(strict: str, at: int) -> int:
    match = _BETWEEN.match(strict, at)
    assert match is not None
    return match.end()


def json_insertion(text: str, key: str, entry: Mapping[str, Any]) -> tuple[int, str]:
    """Where and what to insert as our server, of which there is none yet. Comments keep their position."""
    strict, step, newline = _strict(text), _indent(text), _newline(text)
    if not strict.strip():
        content = json.dumps({key: {SERVER: entry}}, indent=step, ensure_ascii=False) + "\n"
        return len(text), content.replace("\n", newline)
    added: Mapping[str, Any] = {key: {SERVER: entry}}
    brace, depth = strict.index("{"), 1
    if key in (members := _members(strict, brace)):
        brace, depth, added = members[key].value, 2, {SERVER: entry}
    lines = json.dumps(added, indent=step, ensure_ascii=False).splitlines()[1:-1]
    written = (newline + step * depth).join(line.removeprefix(step) for line in lines)
    after, first, line_end = brace + 1, _skip(strict, brace + 1), text.find("\n", brace)
    if strict[first] == "}":
        closing = newline + step * (depth - 1) if "\n" not in text[after:first] else ""
        return after, newline + step * depth + written + closing
    if 0 <= line_end < first:
        return line_end + 1, step * depth + written + "," + newline
    return after, written + ", "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return match.group(1) if match and not match.group(1).startswith(" " * 9) else "  "


def json_without(text: str, key: str) -> str:
    """The file without our server, its comma and the white space before it."""
    strict, plain = _strict(text), without_json_comments(text)
    servers = _members(strict, _members(strict, strict.index("{"))[key].value)
    start, end = len(text[: servers[SERVER].start].rstrip()), servers[SERVER].end
    before = [member.end for member in servers.values() if member.end <= servers[SERVER].start]
    if plain[end:].lstrip().startswith(","):
        end = plain.index(",", end) + 1
    elif before:  # the last one: the comma before it goes as well
        start = plain.index(",", max(before))
    return text[:start] + text[end:]


def toml_insertion(text: str, key: str, entry: Mapping[str, Any]) -> tuple[int, str]:
    """The server's table, at the end of the file: the rest stays as its user wrote it."""
    newline = _newline(text)
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    # JSON strings and lists of strings are valid TOML.
    values = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in entry.items())
    return len(text), gap + newline.join((f"[{key}.{SERVER}]", *values)) + newline


def toml_without(text: str, key: str) -> str:
    import tomlkit

    document: Any = tomlkit.parse(text)
    del document[key][SERVER]
    return tomlkit.dumps(document)


# --- the server as a client starts it, for `doctor` ------------------------------------------------------------------

PATIENCE_S = 10.0  # it is ready after about one second, or several on a busy machine
_CLIENT = {"name": "codeinfo doctor", "version": "1"}
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}


def doctor(engine: Engine, request: DoctorRequest) -> DoctorReport:
    return with_server_checked(partial(engine.doctor, request))


def with_server_checked(examine: Callable[[], DoctorReport], patience_s: float = PATIENCE_S) -> DoctorReport:
    """The report, with a check, run in parallel, that the server starts in an empty folder."""
    with ThreadPoolExecutor(1) as pool:
        check = pool.submit(_check_server, patience_s)
        report = examine()
        return replace(report, checks=(*report.checks, check.result()))


def _check_server(patience_s: float) -> Check:
    introduction = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO}
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    written = f"{json.dumps(introduction)}\n{json.dumps(listing)}\n"
    command, started = [sys.executable, "-m", "codeinfo", "mcp"], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            server = subprocess.run(
                command, cwd=folder, input=written, capture_output=True, text=True, timeout=patience_s, check=False
            )
        except subprocess.TimeoutExpired:
            again = "Try again when the machine is less busy, or run `codeinfo mcp` by hand"
            return Check("mcp", "warn", f"the server was not ready within {patience_s:g} s", again)
    try:
        hello, listed = (json.loads(line)["result"] for line in server.stdout.splitlines())
    except (ValueError, KeyError):
        problem = (server.stderr.strip() or "the server did not answer").splitlines()[-1]
        return Check("mcp", "fail", problem, "Run `codeinfo mcp` by hand")
    took_s = time.monotonic() - started
    return Check(
        "mcp", "ok", f"protocol {hello['protocolVersion']}, {len(listed['tools'])} tools, ready after {took_s:.1f} s"
    )
