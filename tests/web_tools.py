"""What tests of the server share: a small project, an application in this process, a server in another."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from answer_tools import ACCOUNT, before_writing
from answer_tools import ANSWER as ANSWER
from scripted import Reply, Request
from starlette.testclient import TestClient

from codeinfo.config import Config
from codeinfo.serve.auth import Access, Sessions, hosts_for
from codeinfo.shells.http import make_app, make_state

PORT = 5010
SLOW = "slowly"
TOKEN = "t" * 43
HOST = f"127.0.0.1:{PORT}"
BANK = (
    ACCOUNT
    + '''class InsufficientFunds(Exception):
    """There is less money than was asked for."""
'''
)


def make_project(folder: Path) -> Path:
    (folder / "tests").mkdir(parents=True)
    (folder / "bank.py").write_text(BANK)
    (folder / "teller.py").write_text("from bank import Account\n\n\ndef pay(a, b):\n    Account.transfer(a, b, 5)\n")
    (folder / "tests" / "test_bank.py").write_text(
        "from bank import Account\n\n\ndef test_transfer():\n    Account()\n"
    )
    (folder / "notes.md").write_text("# Notes\n\nThe bank opens at nine.\n")
    return folder


def commit(folder: Path, *, days_ago: int, paths: Sequence[str] = (".",)) -> None:
    """Put files of the folder into its repository, dated back."""
    date = f"@{int(time.time()) - days_ago * 86_400} +0000"
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Ann", f"GIT_{role}_EMAIL": "ann@example.org", f"GIT_{role}_DATE": date}
    for arguments in (("init", "-q"), ("add", *paths), ("commit", "-q", "-m", "feat: a bank")):
        subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, timeout=120)


def script(request: Request) -> Reply:
    """A model that grades everything well and answers with one citation, at length when asked to go SLOW."""
    written = Reply("\n\n".join([ANSWER] * 6) if SLOW in request.messages[-1].content else ANSWER)
    return before_writing(request) or written


@contextlib.contextmanager
def client(
    folder: Path, *, allowed: tuple[Path, ...] = (), private: bool = False, entered: bool = True, **settings: str
) -> Iterator[TestClient]:
    """The whole application, started and stopped, as a browser on this machine sees it that has opened the link, unless
    it is not to have `entered`."""
    flags = {"llm.discover": "false", "llm.provider": "none"} | {k.replace("__", "."): v for k, v in settings.items()}
    sessions = Sessions(TOKEN)
    access = Access(hosts_for("127.0.0.1", PORT), TOKEN, private=private, sessions=sessions)
    app = make_app(make_state(Config.load(flags, folder), allowed or (folder.parent,)), access)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as made:
        if entered:
            assert made.get(f"/?code={sessions.code}").status_code == 200
        yield made


def token() -> dict[str, str]:
    return {"X-CodeInfo-Token": TOKEN}


def index(made: TestClient, folder: Path) -> dict[str, Any]:
    """Add a project and wait until it is indexed."""
    started = made.post("/ingest/start", json={"path": str(folder)}, headers=token())
    assert started.status_code == 200, started.text
    return wait_for(made, started.json()["id"])


def wait_for(made: TestClient, run: str, seconds: float = 120) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        state: dict[str, Any] = made.get(f"/ingest/status/{run}").json()
        if state["state"] not in ("queued", "running"):
            return state
        time.sleep(0.02)
    raise AssertionError(f"{run} is still {state['state']}")


def first_search(address: str) -> None:
    """Have the folder that a server was started in indexed."""
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(f"{address}/api/v1/search", b'{"query": "transfer"}', headers)
    with urllib.request.urlopen(asked, timeout=120) as reply:
        assert reply.status == 200


def environment_of(home: Path) -> dict[str, str]:
    """The environment of a user who has nothing yet."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CODEINFO_", "XDG_"))}
    return env | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_DATA_HOME": str(home / "data")}


class Address(str):
    """The address of a server, and the links to its pages that it prints."""

    output: IO[str]

    def link(self) -> str:
        """The link that is open now. Taking it opens it, so that the next one is printed."""
        for line in self.output:
            if "?code=" in line:
                return line.split()[-1]
        raise AssertionError("the server printed no link")


@contextlib.contextmanager
def served(folder: Path, home: Path, *options: str, descriptors: int = 0, **environment: str) -> Iterator[Address]:
    """The real program on a free port, which may open so many files; yields its address."""
    env = environment_of(home)
    command = [sys.executable, "-m", "codeinfo", "serve", "--port", "0", *options]
    if descriptors:
        command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
    process = subprocess.Popen(
        command, cwd=folder, env=env | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "served at" in line, line + process.stdout.read()
        address = Address(line.split()[-1].rstrip("/"))
        address.output = process.stdout
        yield address
    finally:
        process.terminate()
        process.wait(120)
        assert process.stdout is not None
        process.stdout.close()
