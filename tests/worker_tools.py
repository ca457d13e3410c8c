"""What tests of workers share: a served repository, a team's database, workers in this process and in others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from git_server import GitServer
from repository_tools import Repository
from store_digest import digest_of

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.team import TeamProjectAddRequest
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import TeamStore, TeamTree

HEARTBEAT_S = 0.2


class Team:
    """A machine of a team, with its own cache."""

    def __init__(self, url: str, home: Path) -> None:
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "CODEINFO_STORE_URL": url,
            "CODEINFO_STORE_HEARTBEAT_S": str(HEARTBEAT_S),
            "CODEINFO_TRUST_PRIVATE_HOSTS": "127.0.0.1",
            "CODEINFO_CACHE_DIR": str(home / "cache"),
            "CODEINFO_DATA_DIR": str(home / "data"),
            "CODEINFO_INDEX_WORKERS": "1",
        }
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.engine = Engine(Config.load(cwd=home, env=self.environment))

    @property
    def database(self) -> TeamDatabase:
        return self.engine.team.database

    def close(self) -> None:
        self.engine.close()

    def add(self, server: GitServer, name: str, **more: object) -> str:
        return self.engine.team.add_project(TeamProjectAddRequest(server.url(name), **more)).project  # type: ignore[arg-type]

    def work(self) -> None:
        """Do all that is queued."""
        self.engine.team.work(until_idle=True)

    def start_worker(self, *arguments: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "codeinfo", "worker", *arguments]
        return subprocess.Popen(line, env=self.environment, cwd=self.home, start_new_session=True)

    def digest(self, identity: str, ref: str = "refs/heads/main") -> str:
        """Of what the team has, pulled into an index of its own."""
        recipe = self.engine.team.tools().recipe
        folder = self.home / f"pulled-{os.urandom(4).hex()}"
        store = TeamStore(folder, "tree", TeamTree(self.database, identity, ref), recipe=recipe)
        try:
            store.pull()
            return digest_of(store)
        finally:
            store.close()


def clean_digest(repository: Repository, home: Path, revision: str = "HEAD") -> str:
    """Of an index of a commit that this machine alone has made."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "CODEINFO_HOME": str(home / f"own-{revision[:8]}")}
    with Engine(Config.load(cwd=home, env=environment)) as engine:
        index = engine.indexes.find(str(repository.folder), at=revision).index
        return digest_of(index.refresh().store)
