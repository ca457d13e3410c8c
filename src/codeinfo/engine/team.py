"""The operations of a team's administrators, where the store's row security does the rest, and `codeinfo push`."""

from __future__ import annotations

import http.client
import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from codeinfo.cache import batches
from codeinfo.config import LOOPBACK, Config
from codeinfo.downloads import HostPolicy, host_of
from codeinfo.engine.index_manager import IndexManager, model_meta, refresh_commits
from codeinfo.engine.indexes import Indexes
from codeinfo.errors import CodeInfoError, NotFound, ProviderError, UsageError
from codeinfo.index.line import Changes, update
from codeinfo.model import Chunk, IndexedFile, Skip, SourceFile, Walk, convert, hide_keys, msgpack_decoder
from codeinfo.models.endpoints import key_from_file
from codeinfo.operations import team as ops
from codeinfo.operations.base import ProgressSink
from codeinfo.ports import IndexTarget, Placed, Retention
from codeinfo.sources.git import GitFailed, commit_of, origin_of
from codeinfo.sources.read import Files
from codeinfo.store.layout import COMMITS_FILE
from codeinfo.team import access, receiving
from codeinfo.team.database import Connection, TeamDatabase
from codeinfo.team.jobs import Tools, defer_index, queue_state, run_worker
from codeinfo.team.mirror import Mirrors
from codeinfo.team.store import drop_project, drop_user, encode_file

if TYPE_CHECKING:
    from codeinfo.ports import Vectors

log = logging.getLogger(__name__)
Row = TypeVar("Row")

_SHOWN_TREES = 500
BODY_BYTES = 8_000_000  # per upload, unless a single file is larger
TIMEOUT_S = 120.0
TRIES = 3
UPLOADS = 3  # attempts per file: an uploaded file stays, unless it is being changed
_USERS = """
SELECT u.name, u.email, u.admin, u.disabled,
       coalesce((SELECT array_agg(g.name ORDER BY 1) FROM members m JOIN groups g ON g.id = m.group_id
                 WHERE m.user_id = u.id), '{}') AS groups,
       (SELECT count(*) FROM tokens t WHERE t.user_id = u.id AND t.revoked_at IS NULL AND t.expires_at > now())
       AS tokens, u.created_at
FROM users u WHERE %(name)s = '' OR lower(u.name) = lower(%(name)s) ORDER BY lower(u.name)
"""
_GROUPS = """
SELECT g.name, coalesce(array_agg(u.name ORDER BY u.name) FILTER (WHERE u.id IS NOT NULL), '{}') AS users
FROM groups g LEFT JOIN members m ON m.group_id = g.id LEFT JOIN users u ON u.id = m.user_id
WHERE %(name)s = '' OR g.name = %(name)s GROUP BY g.name ORDER BY g.name
"""
_GRANTS = """
SELECT p.identity AS project, coalesce(u.name, '@' || g.name) AS to, a.level
FROM grants a JOIN projects p ON p.id = a.project
LEFT JOIN users u ON u.id = a.user_id LEFT JOIN groups g ON g.id = a.group_id
WHERE %(project)s = 0 OR p.id = %(project)s
UNION ALL
SELECT identity, 'everyone', 'read' FROM projects
WHERE visibility = 'internal' AND (%(project)s = 0 OR id = %(project)s) ORDER BY 1, 2
"""
_TOKENS = """
SELECT t.id, u.name AS user, t.name, t.scopes, CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked'
       WHEN t.expires_at <= now() THEN 'expired' ELSE 'valid' END AS state, t.expires_at, t.used_at
FROM tokens t JOIN users u ON u.id = t.user_id
WHERE (%(user)s = 0 OR u.id = %(user)s) AND (%(token)s = 0 OR t.id = %(token)s) ORDER BY lower(u.name), t.id
"""
_TREES = """
SELECT p.identity AS project, p.visibility = 'internal' AS everyone, coalesce(t.name, '') AS ref,
       coalesce(t.revision, '') AS revision, count(e.file) AS files, coalesce(sum(e.size), 0)::bigint AS bytes,
       t.indexed_at
FROM projects p LEFT JOIN trees t ON t.project = p.id LEFT JOIN entries e ON e.tree = t.id AND e.file IS NOT NULL
GROUP BY p.id, t.id ORDER BY p.identity, t.indexed_at DESC NULLS LAST LIMIT %(limit)s
"""
_AUDIT = """
SELECT a.at, coalesce(u.name, 'user ' || a.user_id || ', removed', '') AS user, a.action,
       coalesce(p.identity, '') AS project, a.detail
FROM audit a LEFT JOIN users u ON u.id = a.user_id LEFT JOIN projects p ON p.id = a.project
WHERE a.at > now() - make_interval(days => %(days)s) AND (%(user)s = 0 OR a.user_id = %(user)s)
  AND (%(project)s = 0 OR a.project = %(project)s) ORDER BY a.id DESC LIMIT %(limit)s
"""


class TreeOverview(Struct, frozen=True):
    """A branch, tag, commit or work tree of a project; `ref` is "" if nothing of it is indexed."""

    project: str
    everyone: bool
    ref: str
    revision: str
    files: int
    bytes: int
    indexed_at: str


class TeamOverview(Struct, frozen=True):
    trees: tuple[TreeOverview, ...]
    bytes: int  # of the whole database


class TeamOperations:
    """For the local operator and administrators: nobody else gets here."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    @property
    def store(self) -> TeamDatabase:
        team = self._indexes.team
        if team is None:
            raise UsageError("there is no team store", "Set store.url to the team's PostgreSQL: docs/team.md says how")
        return team

    @property
    def database(self) -> TeamDatabase:
        """The store, for those who may manage it."""
        caller = access.current_user.get()
        if access.request_user() is not None and (caller is None or not caller.admin):
            raise access.Refused("only administrators may do this", "Ask an administrator")
        return self.store

    def _rows(self, query: str, kind: type[Row], **values: Any) -> tuple[Row, ...]:
        return self.database.read(lambda db: read_rows(db, query, kind, values))

    def users(self, name: str = "") -> ops.TeamUsers:
        """All of them, or the one with that name."""
        return ops.TeamUsers(self._rows(_USERS, ops.TeamUser, name=name))

    def add_user(self, request: ops.TeamUserAddRequest) -> ops.TeamUsers:
        access.create_user(self.database, request.name, email=request.email, admin=request.admin)
        return self.users(request.name)

    def disable_user(self, request: ops.TeamUserRequest) -> ops.TeamUsers:
        access.set_disabled(self.database, request.name, True)
        return self.users(request.name)

    def enable_user(self, request: ops.TeamUserRequest) -> ops.TeamUsers:
        access.set_disabled(self.database, request.name, False)
        return self.users(request.name)

    def remove_user(self, request: ops.TeamUserRequest) -> ops.RemovedTeamUser:
        with self.database.transaction() as db:
            number = access.user_id(db, request.name)
            removed = drop_user(db, number, request.name)
            access.audit(db, "user removed", detail={"number": number, **msgspec.structs.asdict(removed)})
        return removed

    def groups(self, name: str = "") -> ops.TeamGroups:
        return ops.TeamGroups(self._rows(_GROUPS, ops.TeamGroup, name=name))

    def add_members(self, request: ops.TeamGroupRequest) -> ops.TeamGroups:
        access.add_members(self.database, request.group, request.users)
        return self.groups(request.group)

    def remove_members(self, request: ops.TeamGroupRequest) -> ops.TeamGroups:
        access.remove_members(self.database, request.group, request.users)
        return self.groups(request.group)

    def grants(self, request: ops.TeamGrantListRequest) -> ops.TeamGrants:
        return ops.TeamGrants(self._rows(_GRANTS, ops.TeamGrant, project=self._project(request.project)))

    def add_grant(self, request: ops.TeamGrantAddRequest) -> ops.TeamGrants:
        access.grant(self.database, request.project, request.to, request.level)
        return self.grants(ops.TeamGrantListRequest(request.project))

    def remove_grant(self, request: ops.TeamGrantRemoveRequest) -> ops.TeamGrants:
        access.revoke(self.database, request.project, request.to)
        return self.grants(ops.TeamGrantListRequest(request.project))

    def _project(self, name: str) -> int:
        return self.database.read(lambda db: access.project_id(db, name)) if name else 0

    def _user(self, name: str) -> int:
        return self.database.read(lambda db: access.user_id(db, name)) if name else 0

    def tokens(self, request: ops.TeamTokenListRequest) -> ops.TeamTokens:
        return self._tokens(user=self._user(request.user))

    def add_token(self, request: ops.TeamTokenAddRequest) -> ops.NewTeamToken:
        scopes = request.scopes or (access.READ,)
        token = access.create_token(self.database, request.user, request.name, scopes, request.days)
        return ops.NewTeamToken(request.user, token, request.days)

    def revoke_token(self, request: ops.TeamTokenRevokeRequest) -> ops.TeamTokens:
        access.revoke_token(self.database, request.token)
        return self._tokens(token=request.token)

    def _tokens(self, *, user: int = 0, token: int = 0) -> ops.TeamTokens:
        return ops.TeamTokens(self._rows(_TOKENS, ops.TeamToken, user=user, token=token))

    # --- the current caller's own tokens ---

    def own_tokens(self) -> ops.TeamTokens:
        values = {"user": self._caller().user_id, "token": 0}
        return ops.TeamTokens(self.store.read(lambda db: read_rows(db, _TOKENS, ops.TeamToken, values)))

    def add_own_token(self, name: str, scopes: Sequence[str], days: int) -> ops.NewTeamToken:
        """With no more rights than the caller has now; one created in a token's session ends with that token."""
        caller = self._caller()
        if missing := sorted(set(scopes) - caller.scopes):
            step = "Sign in with a token that has it, or leave it out"
            raise access.Refused(f"you do not have the scope {missing[0]} here", step)
        token = access.create_token(self.store, caller.name, name, scopes, days, made_with=caller.token_id)
        return ops.NewTeamToken(caller.name, token, days)

    def revoke_own_token(self, token: int) -> None:
        access.revoke_token(self.store, token, user=self._caller().user_id)

    def _caller(self) -> access.Caller:
        caller = access.current_user.get()
        assert caller is not None  # the guard lets nobody else through
        return caller

    def add_project(self, request: ops.TeamProjectAddRequest) -> ops.TeamProject:
        identity = access.identity_of(request.url)
        with self.database.transaction() as db:
            forked = access.project_id(db, request.fork_of) if request.fork_of else None
            added = db.execute(
                """INSERT INTO projects(identity, family, clone_url, follow)
                   VALUES (%s, coalesce((SELECT family FROM projects WHERE id = %s), gen_random_uuid()::text), %s, %s)
                   ON CONFLICT (identity) DO UPDATE SET clone_url = excluded.clone_url, follow = excluded.follow
                   RETURNING id""",
                (identity, forked, request.url, list(request.follow)),
            ).fetchall()
            access.audit(db, "project added", project=added[0][0], detail={"url": identity})
            defer_index(db, added[0][0], "")
            return receiving.project_row(db, added[0][0])

    def project(self, request: ops.TeamProjectRequest) -> ops.TeamProject:
        with self.database.transaction() as db:
            return receiving.project_row(db, access.project_id(db, request.project))

    def rotate_hook(self, request: ops.TeamHookRotateRequest) -> ops.TeamProject:
        with self.database.transaction() as db:
            project = access.project_id(db, request.project)
            receiving.rotate_secret(db, project, request.hours)
            access.audit(db, "webhook secret replaced", project=project, detail={"old_valid_hours": request.hours})
            return receiving.project_row(db, project)

    def remove_project(self, request: ops.TeamProjectRequest) -> ops.RemovedTeamProject:
        with self.database.transaction() as db:
            removed = drop_project(db, access.project_id(db, request.project))
            access.audit(db, "project removed", detail=msgspec.structs.asdict(removed))
        return removed

    def index_project(self, request: ops.TeamProjectIndexRequest) -> ops.TeamJobs:
        with self.database.transaction() as db:
            defer_index(db, access.project_id(db, request.project), request.ref)
        return queue_state(self.database, 1)

    def receive_hook(self, kind: str, headers: Mapping[str, str], body: bytes) -> str:
        """What was done about a code host's message, which needs no caller since it is signed."""
        return receiving.receive(self.store, kind, headers, body)

    def push(self, request: ops.PushRequest, progress: ProgressSink = None) -> ops.PushReport:
        return _push(self._indexes, request, progress)

    def receive_push(self, step: str, body: bytes) -> bytes:
        """One step of an upload by the current caller."""
        meta = model_meta(self._indexes.models.embedder())
        most_bytes = self._indexes.config.store.upload_mb * 1_000_000
        uploads = receiving.Uploads(self.store, self._caller(), self._indexes.recipe(), meta, most_bytes)
        return uploads.receive(step, body)

    def jobs(self, request: ops.TeamJobsRequest) -> ops.TeamJobs:
        return queue_state(self.database, request.limit)

    def work(self, *, until_idle: bool) -> None:
        """Do workers' jobs until a signal ends it, or until none is left."""
        run_worker(self.tools(), self._indexes.config.store.heartbeat_s, until_idle=until_idle)

    def tools(self) -> Tools:
        """What a worker with this configuration indexes with."""
        config, indexes = self._indexes.config, self._indexes
        hosts = frozenset(host.lower() for host in config.trust.private_hosts)
        folder, most_bytes = config.paths.cache_dir / "mirrors", config.store.mirrors_mb * 1_000_000
        embedder = indexes.models.embedder()

        def walk(mirror: Path, commit: str) -> tuple[Files, Walk]:
            return indexes.at_commit(mirror, commit, config).source.walk(None)

        return Tools(
            database=self.database,
            mirrors=Mirrors(folder, HostPolicy(hosts), config.store.git_credentials, most_bytes),
            recipe=indexes.recipe(),
            walk=walk,
            parsers=indexes.at_commit(folder, "0" * 40, config).parsers,  # those of any commit
            embedder=embedder,
            commits=_update_commits,
            meta=model_meta(embedder),
            keep=Retention(config.index.keep_days, config.index.keep_share),
            audit_days=config.auth.audit_days,
        )

    # --- for the administrators' page ---

    def overview(self) -> TeamOverview:
        ((stored,),) = self.database.rows("SELECT pg_database_size(current_database())")
        return TeamOverview(self._rows(_TREES, TreeOverview, limit=_SHOWN_TREES), stored)

    def audit(self, request: ops.TeamAuditRequest) -> ops.TeamEvents:
        user, project = self._user(request.user), self._project(request.project)
        values = {"days": request.days, "user": user, "project": project, "limit": request.limit}
        return ops.TeamEvents(self._rows(_AUDIT, ops.TeamEvent, **values))


def _update_commits(mirror: Path, commit: str, before: bytes) -> bytes:
    """The commit index of a repository, as stored, updated from an earlier one."""
    with TemporaryDirectory() as place:
        file = Path(place, COMMITS_FILE)
        if before:
            file.write_bytes(before)
        if problem := refresh_commits(mirror, Path(place), commit):
            log.warning("%s", problem)
        return file.read_bytes() if file.exists() else b""


def read_rows(db: Connection, query: str, kind: type[Row], values: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows of a query as Structs whose fields are its columns."""
    cursor = db.execute(query.encode(), values)
    names = [column.name for column in cursor.description or ()]
    return tuple(convert(dict(zip(names, map(_to_plain, row), strict=True)), kind) for row in cursor)


def _to_plain(value: Any) -> Any:
    """Times and objects as text, "" for none."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, dict):
        return json.dumps(value) if value else ""
    return "" if value is None else value


# --- push ----------------------------------------------------------------------------------------------------------
# The files of a folder, uploaded to the team's server. Those that the server lacks go through the same index pipeline
# as everywhere, with the server as its target.


def _push(indexes: Indexes, request: ops.PushRequest, progress: ProgressSink) -> ops.PushReport:
    index = indexes.find(request.path).index
    server = Server(index.config, request.to)
    project = request.project or _identify(index.root)
    if request.remove:
        tree = receiving.PushedTree(project, request.name or index.root.name, "", ())
        return ops.PushReport(project, server.ask("remove", tree).tree, removed=True)
    files, walked = index.source.walk(index.live_store())
    listed, notes = list[receiving.PushedFile](), list[str]()
    for source, loaded in files.load(walked.files):
        if isinstance(loaded, Skip):
            notes.append(f"{loaded.path}: {loaded.detail}")
        else:
            listed.append(receiving.PushedFile(*source, loaded.sha256, files.brings_back(source.path)))
    name = request.name or index.root.name
    tree = receiving.PushedTree(project, name, index.recipe(), tuple(listed), _read_revision(index.root))
    lacking = server.ask("lacking", tree).lacking
    target = _Target(server, tree, index)
    uploads = Counter[str]()  # by path
    while not (changed := [path for path in lacking if uploads[path] == UPLOADS]):
        if requested := set(lacking):
            changes = Changes(tuple(source for source in walked.files if source.path in requested), (), (), 0)
            with index.parsers() as pool:
                outcome = update(files, target, changes, pool, index.embedder, progress=progress)
            notes += outcome.notes
            uploads.update(requested)
        done = server.ask("tree", tree)
        if not done.lacking:
            return ops.PushReport(project, done.tree, len(listed), target.uploaded, tuple(notes))
        lacking = done.lacking  # what the project had a moment ago, until its branch was indexed again
    what = f"{len(changed)} files changed while they were uploaded, {changed[0]} among them"
    raise CodeInfoError(what, "Push again", code="CHANGED_MEANWHILE")


def _identify(root: Path) -> str:
    try:
        return access.identity_of(origin_of(root))
    except UsageError as error:
        step = "Name the project with --project host/owner/name"
        raise UsageError(f"{root} has no git remote on a server", step) from error


def _read_revision(root: Path) -> str:
    try:
        return commit_of(root, "HEAD")
    except (GitFailed, NotFound):
        return ""


class _Target(IndexTarget):
    """The index pipeline writes to the server."""

    def __init__(self, server: Server, tree: receiving.PushedTree, index: IndexManager) -> None:
        self._server = server
        self._tree = tree
        self._local = index.live_store()  # this machine's, which may have embedded the same content
        if self._local is not None and self._local.recipe != tree.recipe:
            self._local = None
        self.uploaded = 0

    def vectors_by_hash(self, sha256: str) -> Vectors | None:
        return self._local.vectors_by_hash(sha256) if self._local is not None else None

    def earlier_version(self, path: str) -> tuple[Sequence[Chunk], Vectors] | None:
        return self._local.earlier_version(path) if self._local is not None else None

    def apply(
        self, files: Iterable[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile], reused: Placed = ()
    ) -> None:
        for payloads in batches(map(encode_file, files), len, BODY_BYTES):
            self._server.ask("files", receiving.PushedFiles(self._tree.project, self._tree.recipe, tuple(payloads)))
            self.uploaded += len(payloads)


class Server:
    """The team's server, accessed with the user's own token."""

    def __init__(self, config: Config, to: str) -> None:
        address = (to or config.store.server).rstrip("/")
        host_of(address)  # raises for what cannot be parsed
        parts = urlsplit(address)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            step = "Name it with --to https://code.example.com, or set store.server"
            what = f"{hide_keys(address)!r} is not the address of a server" if address else "no server is set"
            raise UsageError(what, step)
        hosts = {*LOOPBACK, *(host.lower() for host in config.trust.private_hosts)}
        if parts.scheme == "http" and parts.hostname not in hosts:
            step = "Use https, or add the host to trust.private_hosts if its network is safe"
            raise UsageError(f"your token would be sent to {hide_keys(address)} unencrypted", step)
        if not config.store.token_file:
            raise UsageError("no token is set", "Put your personal access token into store.token_file")
        self._token = key_from_file(Path(config.store.token_file)).reveal()
        self._parts = parts

    def ask(self, step: str, value: object) -> receiving.Answer:
        """Retried if the server goes away meanwhile: every step can be repeated."""
        body = msgspec.msgpack.encode(value)
        for attempt in range(TRIES):
            try:
                status, answer = self._exchange(step, body)
            except (OSError, http.client.HTTPException) as error:
                if attempt == TRIES - 1:
                    what = f"{self._parts.hostname} cannot be reached: {error}"
                    raise ProviderError(what, "Check the address and push again") from error
            else:
                with suppress(msgspec.MsgspecError):  # a page instead of an answer
                    if status == 200:
                        return msgpack_decoder(receiving.Answer).decode(answer)
                if status not in (429, 502, 503, 504) or attempt == TRIES - 1:
                    raise self._refusal(status, answer)
            time.sleep(2**attempt)
        raise AssertionError

    def _exchange(self, step: str, body: bytes) -> tuple[int, bytes]:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=TIMEOUT_S)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/msgpack"}
            connection.request("POST", f"{self._parts.path}/api/v1/team/push/{step}", body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def _refusal(self, status: int, answer: bytes) -> CodeInfoError:
        try:
            error = json.loads(answer)["error"]
            what, next_step, code = (str(error[name]) for name in ("message", "next", "code"))
        except (ValueError, KeyError, TypeError, RecursionError):
            what, next_step, code = f"it answered {status}", "Check that it is a team's server", "SERVER_FAILED"
        kind = UsageError if 400 <= status < 500 else ProviderError
        return kind(f"{self._parts.hostname}: {what}", next_step, code=code)
