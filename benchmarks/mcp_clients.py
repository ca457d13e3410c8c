"""Clients that others wrote, against the real server: MCP Inspector, the conformance suite, Claude Code, mcporter.

    npm install --prefix DIR node@22 @modelcontextprotocol/inspector @modelcontextprotocol/conformance@0.2.0-alpha.12 \\
        mcporter @anthropic-ai/claude-code
    python benchmarks/mcp_clients.py --modules DIR/node_modules

Each runs in a scratch home on a small project. Exit code 1 when one of them does not get what it asks for, or when a
conformance scenario fails that needs no fixture of the suite's own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REVISIONS = ("2026-07-28", "2025-11-25")
CODE = '"""Headers."""\n\n\ndef parse_header(line):\n    """Split a header line."""\n    return line.split(":", 1)\n'
SERVER = [sys.executable, "-m", "codeinfo", "mcp"]
FAILED: list[str] = []

# A scenario that fails because the server lacks something of the suite's own, which no real server has, or does not
# offer a capability that the protocol leaves to it.
FIXTURE = re.compile(
    r"test_\w+|test://|test-\w+|not testable|unknown tool|no such prompt|no resource|Method not found|"
    r"json_schema_2020_12_tool|resource template|x-mcp-header|InputRequiredResult",
    re.IGNORECASE,
)


def show(name: str, good: bool, detail: str) -> None:
    print(f"{'ok  ' if good else 'FAIL'} {name:<42} {detail}", flush=True)
    if not good:
        FAILED.append(name)


class Tools:
    """Programs of node packages, run by the node that was installed beside them."""

    def __init__(self, modules: Path, home: Path) -> None:
        self.modules = modules
        self.node = str(modules / "node" / "bin" / "node")
        self.environment = {**os.environ, "HOME": str(home), "CODEINFO_HOME": str(home / "codeinfo")}
        self.environment |= {"XDG_CONFIG_HOME": str(home / "config"), "NO_COLOR": "1"}

    def run(self, package: str, program: str, *arguments: str, cwd: Path, timeout: float = 120) -> str:
        about = json.loads((self.modules / package / "package.json").read_text())
        file = about["bin"] if isinstance(about["bin"], str) else about["bin"][program]
        path = self.modules / package / file
        start = [str(path)] if path.suffix in ("", ".exe") else [self.node, str(path)]
        done = subprocess.run(
            [*start, *arguments],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return done.stdout + done.stderr

    def version(self, package: str) -> str:
        return str(json.loads((self.modules / package / "package.json").read_text())["version"])


@contextmanager
def served(project: Path, environment: dict[str, str]) -> Iterator[str]:
    """`codeinfo serve`'s application; the token, which the suite cannot send, is added on the way in."""
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(project)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(10)


def serve(project: Path) -> None:
    import socket
    from typing import Any

    import uvicorn

    from codeinfo.config import Config
    from codeinfo.serve.auth import TOKEN_HEADER, Access, hosts_for
    from codeinfo.shells.http import make_app, make_state

    os.chdir(project)
    listener = socket.create_server(("127.0.0.1", 0))
    port, token = listener.getsockname()[1], "t" * 32
    app = make_app(make_state(Config.load()), Access(hosts_for("127.0.0.1", port), token))

    async def with_token(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (TOKEN_HEADER.encode(), token.encode())]}
        await app(scope, receive, send)

    print(f"http://127.0.0.1:{port}/mcp/", flush=True)
    uvicorn.Server(uvicorn.Config(with_token, log_level="error", ws="none")).run(sockets=[listener])


# --- the clients ---------------------------------------------------------------------------------------------------


def inspector(tools: Tools, project: Path, url: str) -> None:
    package = "@modelcontextprotocol/inspector"
    print(f"\nMCP Inspector {tools.version(package)}, command line")
    call = ["--method", "tools/call", "--tool-name", "search_codebase", "--tool-arg", "query=parse_header"]
    for name, target in (("stdio", SERVER), ("HTTP", [url, "--transport", "http"])):
        for method, options, expected in (
            ("tools/list", ["--method", "tools/list"], "search_codebase"),
            ("tools/call", call, "headers.py"),
            ("resources/list", ["--method", "resources/list"], "codebase://context"),
            ("prompts/list", ["--method", "prompts/list"], "plan_change"),
        ):
            out = tools.run(package, "mcp-inspector", "--cli", *target, *options, cwd=project)
            show(
                f"{name} {method}",
                expected in out,
                f"{len(out):,} characters, with {expected}" if expected in out else out[-300:],
            )


def mcporter(tools: Tools, project: Path, url: str) -> None:
    print(f"\nmcporter {tools.version('mcporter')}")
    (project / "mcporter.json").write_text(json.dumps({"mcpServers": {"codeinfo": {"baseUrl": url}}}))
    listed = tools.run("mcporter", "mcporter", "--config", "mcporter.json", "list", "codeinfo", cwd=project)
    show("HTTP list", "search_codebase" in listed, last_line(listed))
    arguments = ("--config", "mcporter.json", "call", "codeinfo.search_codebase", "query=parse_header")
    called = tools.run("mcporter", "mcporter", *arguments, cwd=project)
    show(
        "HTTP call",
        "headers.py" in called,
        f"{len(called):,} characters, with headers.py" if "headers.py" in called else called[-300:],
    )
    (project / "mcporter.json").unlink()


def claude(tools: Tools, project: Path) -> None:
    package = "@anthropic-ai/claude-code"
    print(f"\nClaude Code {tools.version(package)}")
    installer = [sys.executable, "-m", "codeinfo", "install", "--agent", "claude-code"]
    subprocess.run(installer, env=tools.environment, cwd=project, check=True, capture_output=True)
    out = tools.run(package, "claude", "mcp", "list", cwd=project)
    status = next((line.strip() for line in out.splitlines() if line.startswith("codeinfo")), out[-300:])
    show("claude mcp list", "onnected" in status, re.sub(r"\S*/", "…/", status))


def conformance(tools: Tools, project: Path, url: str) -> None:
    package = "@modelcontextprotocol/conformance"
    print(f"\nConformance suite {tools.version(package)}, server scenarios")
    for revision in REVISIONS:
        folder = project.parent / revision
        options = ("server", "--url", url, "--spec-version", revision, "--suite", "all", "-o", str(folder))
        tools.run(package, "conformance", *options, cwd=project, timeout=400)
        passed, excused = list[str](), list[str]()
        for name, checks in scenarios(folder):
            broken = [
                str(check.get("errorMessage") or check["id"]) for check in checks if check.get("status") == "FAILURE"
            ]
            real = [words for words in broken if not FIXTURE.search(words)]
            if real:
                show(f"{revision} {name}", False, real[0][:200])
            elif broken:
                excused.append(f"     {name:<48} {broken[0].splitlines()[0][:110]}")
            else:
                passed.append(name)
        show(f"{revision}: {len(passed)} scenarios", bool(passed), ", ".join(passed))
        print(f"     need fixtures of the suite's own or a capability that is not offered: {len(excused)}")
        print("\n".join(excused))


def scenarios(folder: Path) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Each scenario's name and checks, from the files that the suite writes."""
    for file in sorted(folder.glob("server-*/checks.json")):
        yield re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name), json.loads(file.read_text())


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with tempfile.TemporaryDirectory() as scratch:
        home, project = Path(scratch) / "home", Path(scratch) / "project"
        home.mkdir()
        project.mkdir()
        (project / "headers.py").write_text(CODE)
        tools = Tools(options.modules.resolve(), home)
        claude(tools, project)
        with served(project, tools.environment) as url:
            inspector(tools, project, url)
            mcporter(tools, project, url)
            conformance(tools, project, url)
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
