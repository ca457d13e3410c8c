"""What tests of a team's server share: its application in this process, and people with tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from codeinfo.config import Config
from codeinfo.serve.auth import Access, hosts_for, public_origin
from codeinfo.serve.team import TeamGuard
from codeinfo.shells.http import make_app, make_state
from codeinfo.team import access
from codeinfo.team.database import TeamDatabase

PORT = 5011
ADDRESS = f"http://127.0.0.1:{PORT}"


def team_app(url: str, folder: Path, *, public: str = "", **settings: str) -> TeamGuard:
    """`public` is the address of a proxy in front."""
    flags = {"store.url": url, "llm.discover": "false", "llm.provider": "none"}
    flags |= {key.replace("__", "."): value for key, value in settings.items()}
    hosts = hosts_for("127.0.0.1", PORT) | public_origin(public)[1]
    app = make_app(make_state(Config.load(flags, folder)), Access(hosts, "unused", public=public))
    assert isinstance(app, TeamGuard)
    return app


@contextlib.contextmanager
def team_client(url: str, folder: Path, **settings: str) -> Iterator[TestClient]:
    with TestClient(team_app(url, folder, **settings), base_url=ADDRESS, raise_server_exceptions=False) as made:
        yield made


def add_projects(database: TeamDatabase, *identities: str) -> None:
    with database.transaction() as db:
        for identity in identities:
            db.execute("INSERT INTO projects(identity) VALUES (%s)", (identity,))


def person(database: TeamDatabase, name: str, scopes: Sequence[str] = ("read",), **options: Any) -> dict[str, str]:
    """A new user, as the headers that they send."""
    access.create_user(database, name, **options)
    return bearer(access.create_token(database, name, scopes=scopes))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
