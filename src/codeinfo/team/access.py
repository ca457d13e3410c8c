"""Users, groups, grants, personal access tokens, sessions and the audit log of a team, and what projects are called.

`current_user` is the caller of the current request. Queries on a caller's behalf run as `request_user()`, and row
security decides what they see.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import NextStep, hide_keys, to_run
from codeinfo.sources.git import GitFailed, origin_of

if TYPE_CHECKING:
    from codeinfo.team.database import Connection, TeamDatabase

PREFIX = "cit_"  # of a token: secret scanners recognise it
READ, WRITE, ADMIN = SCOPES = ("read", "write", "admin")
TOKEN_DAYS = 90
MOST_TOKEN_DAYS = 366
SESSION_HOURS = 12  # then users have to sign in again
CLOCK_SKEW_S = 300.0  # tolerated difference between two clocks
EVERYONE = "everyone"
GROUP_MARK = "@"
_TOKEN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}\Z")
_NAME = re.compile(r"[\w.+@-]{1,100}\Z")  # without a slash: it is part of the names of work trees
NOBODY = 0  # a user who sees nothing
_MOST_NAME = 200  # characters of what a token is for


class Caller(Struct, frozen=True):
    """The sender of a request. `admin` and `scopes` are what the token or session allows; the user may have more."""

    user_id: int
    name: str
    admin: bool = False
    scopes: frozenset[str] = frozenset()
    token_id: int = 0


current_user: ContextVar[Caller | None] = ContextVar("current_user", default=None)
_servers: list[int] = []  # in this process


@contextmanager
def require_callers() -> Iterator[None]:
    """During the block this process is a server: code without a caller runs as nobody, not as the local operator."""
    _servers.append(1)
    try:
        yield
    finally:
        _servers.pop()


def request_user() -> int | None:
    """The user for database queries; None is the local operator, who types commands and sees everything."""
    caller = current_user.get()
    if caller is not None:
        return caller.user_id
    return NOBODY if _servers else None


class Refused(CodeInfoError):
    """The caller is known but not allowed to do this."""

    status = 403
    exit_code = 2
    code = "NOT_ALLOWED"


def require_scope(scope: str) -> None:
    caller = current_user.get()
    if caller is not None and scope not in caller.scopes:
        raise Refused(f"this needs a token with the scope {scope}", "Use one that has it, or ask an administrator")


# --- users, groups, grants -----------------------------------------------------------------------------------------


def create_user(database: TeamDatabase, name: str, *, email: str = "", admin: bool = False) -> int:
    """A user with tokens only: no sign-in service uses such a subject."""
    check_name(name)
    insert = """INSERT INTO users(subject, name, email, admin) VALUES (%s, %s, %s, %s)
                ON CONFLICT DO NOTHING RETURNING id"""
    with database.transaction() as db:
        row = db.execute(insert, (f"local {name}", name, email, admin)).fetchone()
        if row is None:
            raise UsageError(f"the user {name} already exists", "Choose another name", code="NAME_TAKEN")
        audit(db, "user added", detail={"user": name, "admin": admin})
        return int(row[0])


def check_name(name: str) -> str:
    if not _NAME.match(name) or name.casefold() == EVERYONE:
        raise UsageError(f"{name!r} cannot be a name", "Use letters, digits and . _ + @ -, 100 at most")
    return name


def user_id(db: Connection, name: str) -> int:
    step = NextStep(to_run("team user list"), " shows them")
    return _id_of(db, "SELECT id FROM users WHERE lower(name) = lower(%s)", "user", name, step)


def group_id(db: Connection, name: str) -> int:
    step = NextStep(to_run("team group list"), " shows them")
    return _id_of(db, "SELECT id FROM groups WHERE name = %s", "group", name, step)


def project_id(db: Connection, name: str) -> int:
    """The id of a project. Only for administrators, who may know whether it exists."""
    identity = name if "://" not in name and "@" not in name else identity_of(name)
    step = NextStep("Index it first; ", to_run("projects"), " lists them")
    return _id_of(db, "SELECT id FROM projects WHERE identity = %s", "project", identity, step)


def _id_of(db: Connection, query: str, kind: str, name: str, step: NextStep) -> int:
    row = db.execute(query.encode(), (name,)).fetchone()
    if row is None:
        raise NotFound(f"there is no {kind} {name}", step)
    return int(row[0])


def set_disabled(database: TeamDatabase, name: str, disabled: bool) -> None:
    """Takes effect at once: tokens are refused, sessions end, running streams are cut off."""
    update = "UPDATE users SET disabled = %s, sessions_after = clock_timestamp() WHERE id = %s"
    with database.transaction() as db:
        db.execute(update, (disabled, user_id(db, name)))
        audit(db, "user disabled" if disabled else "user enabled", detail={"user": name})


def add_members(database: TeamDatabase, group: str, users: Sequence[str]) -> None:
    """Creates the group if necessary."""
    check_name(group)
    insert = """INSERT INTO members(group_id, user_id) VALUES (%s, %s)
                ON CONFLICT (group_id, user_id) DO UPDATE SET claimed = false"""
    with database.transaction() as db:
        db.execute("INSERT INTO groups(name) VALUES (%s) ON CONFLICT DO NOTHING", (group,))
        for name in users:
            db.execute(insert, (group_id(db, group), user_id(db, name)))
        audit(db, "members added", detail={"group": group, "users": list(users)})


def remove_members(database: TeamDatabase, group: str, users: Sequence[str]) -> None:
    """Without users, remove the group itself and its grants."""
    with database.transaction() as db:
        identity = group_id(db, group)
        if users:
            members = [user_id(db, name) for name in users]
            db.execute("DELETE FROM members WHERE group_id = %s AND user_id = ANY(%s)", (identity, members))
        else:
            db.execute("DELETE FROM groups WHERE id = %s", (identity,))
        audit(db, "members removed" if users else "group removed", detail={"group": group, "users": list(users)})


def set_claimed_groups(db: Connection, user: int, names: Iterable[str]) -> None:
    """Set the groups that the sign-in service names now; memberships given by an administrator stay."""
    groups = [name for name in names if _NAME.match(name)]
    all_groups = "SELECT name FROM members JOIN groups ON groups.id = group_id WHERE user_id = %s ORDER BY 1"
    before = db.execute(all_groups, (user,)).fetchall()
    db.execute("DELETE FROM members WHERE user_id = %s AND claimed", (user,))
    db.execute("INSERT INTO groups(name) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING", (groups,))
    insert = """INSERT INTO members(group_id, user_id, claimed) SELECT id, %s, true FROM groups WHERE name = ANY(%s)
                ON CONFLICT DO NOTHING"""
    db.execute(insert, (user, groups))
    if (now := db.execute(all_groups, (user,)).fetchall()) != before:
        audit(db, "groups changed", user=user, detail={"groups": [name for (name,) in now]})


def grant(database: TeamDatabase, project: str, to: str, level: str = READ) -> None:
    """`to` is a user, an @group, or everyone who has signed in."""
    if level not in (READ, WRITE):
        raise UsageError(f"there is no level {level}", "One of: read, write")
    with database.transaction() as db:
        identity = project_id(db, project)
        if to == EVERYONE:
            if level != READ:
                raise UsageError("everyone can only be granted read", "Give a user or a @group")
            db.execute("UPDATE projects SET visibility = 'internal' WHERE id = %s", (identity,))
        else:
            insert = """INSERT INTO grants(project, user_id, group_id, level) VALUES (%s, %s, %s, %s)
                        ON CONFLICT (project, user_id, group_id) DO UPDATE SET level = excluded.level"""
            db.execute(insert, (identity, *_grantee(db, to), level))
        audit(db, "granted", project=identity, detail={"to": to, "level": level})


def revoke(database: TeamDatabase, project: str, to: str) -> None:
    with database.transaction() as db:
        identity = project_id(db, project)
        if to == EVERYONE:
            db.execute("UPDATE projects SET visibility = 'private' WHERE id = %s", (identity,))
        else:
            delete = """DELETE FROM grants WHERE project = %s AND user_id IS NOT DISTINCT FROM %s
                        AND group_id IS NOT DISTINCT FROM %s"""
            if not db.execute(delete, (identity, *_grantee(db, to))).rowcount:
                raise NotFound(f"{to} has no grant for {project}", NextStep(to_run("team grant list"), " shows them"))
        audit(db, "revoked", project=identity, detail={"to": to})


def _grantee(db: Connection, to: str) -> tuple[int | None, int | None]:
    if to.startswith(GROUP_MARK):
        return None, group_id(db, to.removeprefix(GROUP_MARK))
    return user_id(db, to), None


def visible_projects(database: TeamDatabase) -> list[str]:
    query = "SELECT identity FROM projects ORDER BY identity"
    return [row[0] for row in database.rows(query, (), request_user(), quick=True)]


def no_project(name: str) -> NotFound:
    """The same error for a project that does not exist and for one that the caller may not see."""
    return NotFound(f"no project {name} is indexed", "`projects` lists what you may see", code="REPO_NOT_FOUND")


# --- tokens --------------------------------------------------------------------------------------------------------


def create_token(
    database: TeamDatabase,
    user: str,
    name: str = "",
    scopes: Sequence[str] = (READ,),
    days: int = TOKEN_DAYS,
    *,
    made_with: int = 0,
) -> str:
    """The token itself, which is not stored. One created with another token expires with it at the latest."""
    if wrong := [scope for scope in scopes if scope not in SCOPES]:
        raise UsageError(f"there is no scope {wrong[0]}", f"One of: {', '.join(SCOPES)}")
    if not scopes or not 1 <= days <= MOST_TOKEN_DAYS:
        step = f"Give it 1 to {MOST_TOKEN_DAYS} days and one of {SCOPES}"
        raise UsageError("a token needs a scope and an expiry", step)
    token, name = PREFIX + secrets.token_urlsafe(32), name[:_MOST_NAME]
    with database.transaction() as db:
        identity = user_id(db, user)
        (is_admin,) = db.execute("SELECT admin FROM users WHERE id = %s", (identity,)).fetchall()[0]
        if ADMIN in scopes and not is_admin:
            raise UsageError(f"{user} is not an administrator", "Leave the scope admin out")
        insert = """INSERT INTO tokens(user_id, name, hash, scopes, expires_at, made_with) VALUES (%s, %s, %s, %s,
                    least(now() + make_interval(days => %s), (SELECT expires_at FROM tokens WHERE id = %s)),
                    nullif(%s, 0)) RETURNING id"""
        values = (identity, name, hash_of(token), sorted(set(scopes)), days, made_with, made_with)
        (number,) = db.execute(insert, values).fetchall()[0]
        audit(db, "token created", detail={"user": user, "token": number, "name": name, "scopes": list(scopes)})
    return token


def revoke_token(database: TeamDatabase, token: int, *, user: int | None = None) -> None:
    """Effective at once, also for tokens created with it; `user` limits it to their own."""
    update = """WITH RECURSIVE made(id) AS (
                  SELECT id FROM tokens WHERE id = %s AND revoked_at IS NULL AND user_id = coalesce(%s, user_id)
                  UNION SELECT t.id FROM tokens t JOIN made ON t.made_with = made.id)
                UPDATE tokens t SET revoked_at = now() FROM made WHERE t.id = made.id AND t.revoked_at IS NULL
                RETURNING t.id"""
    with database.transaction() as db:
        ended = db.execute(update, (token, user)).fetchall()
        if not ended:
            raise NotFound(f"there is no valid token {token}", NextStep(to_run("team token list"), " shows them"))
        for (number,) in sorted(ended):
            audit(db, "token revoked", detail={"token": number})


def hash_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# A token in constant use leaves one line a minute in the audit log.
_AUTHENTICATE = """
WITH used AS (
    UPDATE tokens t SET used_at = now() FROM users u
    WHERE t.hash = %(hash)s AND u.id = t.user_id AND NOT u.disabled AND t.revoked_at IS NULL AND t.expires_at > now()
      AND (t.used_at IS NULL OR t.used_at < now() - interval '1 minute')
    RETURNING t.id, t.user_id
), noted AS (
    INSERT INTO audit(user_id, action, detail) SELECT user_id, 'token used', jsonb_build_object('token', id) FROM used
)
SELECT u.id, u.name, u.admin, t.scopes, t.id, CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked'
       WHEN t.expires_at <= now() THEN 'expired' WHEN u.disabled THEN 'user disabled' ELSE '' END
FROM tokens t JOIN users u ON u.id = t.user_id WHERE t.hash = %(hash)s
"""


class RefusedToken(Struct, frozen=True):
    """Why a token was refused; `token` is its id, 0 if there never was such a token."""

    reason: str
    user_id: int | None = None
    token: int = 0


def identify(database: TeamDatabase, token: str) -> Caller | RefusedToken:
    """The caller of a personal access token, or why it is refused."""
    if not _TOKEN.match(token):
        return RefusedToken("malformed")
    row = database.read(lambda db: db.execute(_AUTHENTICATE, {"hash": hash_of(token)}).fetchone(), quick=True)
    if row is None:
        return RefusedToken("unknown")
    *caller, reason = row
    return RefusedToken(reason, row[0], row[4]) if reason else _caller(*caller)


def audit_refusal(database: TeamDatabase, refused: RefusedToken, count: int) -> None:
    """`count` is how often it was refused since its last line in the log."""
    detail = {"reason": refused.reason, "count": count} | ({"token": refused.token} if refused.token else {})
    with database.transaction() as db:
        audit(db, "token refused", user=refused.user_id, detail=detail)


def _caller(user: int, name: str, admin: bool, scopes: Iterable[str], token: int = 0) -> Caller:
    allowed = frozenset(scopes) if admin else frozenset(scopes) - {ADMIN}
    return Caller(user, name, admin and ADMIN in allowed, allowed, token)


def add_subject(db: Connection, subject: str, name: str, email: str) -> None:
    """Create the user of a first sign-in; a name that is taken gets a number."""
    insert = "INSERT INTO users(subject, name, email) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
    for number in range(1, 1000):
        free_name = name if number == 1 and _NAME.match(name) and name.casefold() != EVERYONE else f"{name}-{number}"
        if db.execute("SELECT 1 FROM users WHERE subject = %s", (subject,)).fetchone():
            return
        if db.execute(insert, (subject, free_name, email)).rowcount:
            audit(db, "user added", detail={"user": free_name, "subject": subject})
            return
    raise UsageError(f"there are a thousand users called {name}", "Give them other names")


def subject_caller(db: Connection, subject: str, scopes: Iterable[str]) -> Caller | None:
    row = db.execute("SELECT id, name, admin FROM users WHERE subject = %s AND NOT disabled", (subject,)).fetchone()
    return None if row is None else _caller(row[0], row[1], row[2], scopes)


# --- sessions ------------------------------------------------------------------------------------------------------


def session_key(database: TeamDatabase) -> bytes:
    """The key with which all servers of the team sign sessions."""
    ((key,),) = database.rows("SELECT value FROM secrets WHERE name = 'sessions'")
    return bytes(key)


def new_session(database: TeamDatabase, user: int, token: int = 0) -> str:
    """The name of a session, to be signed: when it began by the database's clock, for whom, and by which token."""
    with database.transaction() as db:
        began = db.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchall()[0][0]
        audit(db, "signed in", user=user, detail={"token": token} if token else {})
    return f"{began}.{user}.{token}.{secrets.token_urlsafe(16)}"


_SESSION = """
SELECT u.id, u.name, u.admin, CASE WHEN %(token)s = 0 THEN %(scopes)s ELSE t.scopes END, coalesce(t.id, 0)
FROM users u
LEFT JOIN tokens t ON t.id = %(token)s AND t.user_id = u.id AND t.revoked_at IS NULL AND t.expires_at > now()
WHERE u.id = %(user)s AND NOT u.disabled AND (%(token)s = 0 OR t.id IS NOT NULL)
  AND to_timestamp(%(began)s / 1000000.0) > greatest(u.sessions_after, now() - make_interval(hours => %(hours)s))
  AND to_timestamp(%(began)s / 1000000.0) < now() + make_interval(secs => %(skew)s)
"""


def session_caller(database: TeamDatabase, name: str) -> Caller | None:
    """The caller of a session with a verified signature. One opened with a token has its rights, and ends with it. One
    that began while the clock was ahead is over: no sign-out would end it."""
    parts = name.split(".")
    if len(parts) != 4 or not all(part.isdecimal() and len(part) < 19 for part in parts[:3]):
        return None
    began, user, token = map(int, parts[:3])
    values = {"began": began, "user": user, "token": token, "scopes": list(SCOPES)}
    values |= {"hours": SESSION_HOURS, "skew": CLOCK_SKEW_S}
    row = database.read(lambda db: db.execute(_SESSION, values).fetchone(), quick=True)
    return None if row is None else _caller(*row)


def end_sessions(database: TeamDatabase, caller: Caller) -> None:
    """Sign a user out, everywhere."""
    with database.transaction() as db:
        db.execute("UPDATE users SET sessions_after = clock_timestamp() WHERE id = %s", (caller.user_id,))
        audit(db, "signed out", user=caller.user_id)


# --- the audit log -------------------------------------------------------------------------------------------------


def audit(
    db: Connection, action: str, *, user: int | None = None, project: int | None = None, detail: Any = None
) -> None:
    """One line, in the transaction it belongs to; `user` is the current caller by default."""
    caller = current_user.get()
    who = user if user is not None else caller.user_id if caller is not None else None
    insert = "INSERT INTO audit(user_id, action, project, detail) VALUES (%s, %s, %s, %s)"
    db.execute(insert, (who, action, project, json.dumps(detail or {})))


class Use(Struct):
    """What the current request does, for the audit log; `query` is kept only if the settings say so."""

    operation: str
    query: str = ""
    keeps_query: bool = False
    noted: set[str] = field(default_factory=set)


current_use: ContextVar[Use | None] = ContextVar("current_use", default=None)


def describe_use(operation: str, query: str) -> None:
    use = current_use.get()
    if use is not None:
        use.operation, use.query = operation, query if use.keeps_query else ""


def note_use(database: TeamDatabase, identity: str) -> None:
    """Record, once, that the request reads a project. Not synced: a crash of the database may lose the last moments."""
    use, caller = current_use.get(), current_user.get()
    if use is None or caller is None or identity in use.noted:
        return
    use.noted.add(identity)
    detail = {"operation": use.operation} | ({"query": use.query} if use.query else {})
    insert = """INSERT INTO audit(user_id, action, project, detail)
                SELECT %s, 'search', id, %s FROM projects WHERE identity = %s"""
    with database.transaction() as db:
        db.execute("SET LOCAL synchronous_commit = off")
        db.execute(insert, (caller.user_id, json.dumps(detail), identity))


# --- the identity of a project ---------------------------------------------------------------------------------------
#
# Its git remote, normalised, so that every clone of it has the same name.

_SCP = re.compile(r"(?:[^@/:]+@)?([^/:@\[]+|\[[^/@\]]+\]):(?!//)(.+)\Z")  # git@host:owner/name.git
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d+)?\Z")
_PART = re.compile(r"(?!\.{1,2}\Z)[\w.~+-]+\Z")  # neither . nor ..
_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}


def identity_of(remote: str) -> str:
    """`github.com/owner/name` for any address of that repository: scheme, user, password, default port, `.git` and
    the case of the host do not matter. Raises UsageError for anything that is not the address of a repository on a
    server."""
    remote = remote.strip()
    if "://" in remote:
        try:
            parts = urlsplit(remote)
            port = parts.port
        except ValueError:
            raise _refusal(remote) from None
        if parts.scheme not in ("https", "http", "ssh", "git", "git+ssh"):
            raise _refusal(remote)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        if port and port != _DEFAULT_PORTS[parts.scheme.removeprefix("git+")]:
            host += f":{port}"
        path = unquote(parts.path)
    elif match := _SCP.match(remote):
        host, path = match[1].lower(), match[2]
    else:
        raise _refusal(remote)
    names = [name for name in path.split("/") if name]
    if names:
        names[-1] = names[-1].removesuffix(".git")
    if not _HOST.match(host) or not names or not all(map(_PART.match, names)):
        raise _refusal(remote)
    return "/".join((host, *names))


def _refusal(remote: str) -> UsageError:
    address = hide_keys(remote)[:200]
    step = "Give a remote such as https://host/owner/name or git@host:owner/name"
    return UsageError(f"{address!r} does not name a repository on a server", step)


def folder_identity(root: Path) -> str:
    """The project that a folder is a checkout of; one without a remote on a server is a project of this machine."""
    try:
        return identity_of(origin_of(root))
    except (UsageError, GitFailed):
        # The ranking treats the last part as the project's name, so that is the folder's.
        return f"local/{socket.gethostname()}/{_digest(root)}/{_readable(root)}"


def work_tree_name(root: Path) -> str:
    """The tree of a folder, unique to user, machine and folder. An operator's: it has no owner among the users."""
    return f"work/{_user()}/{socket.gethostname()}/{_readable(root)}-{_digest(root)}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user id may have no name
        return str(os.getuid())


def _readable(root: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", root.name)[:60] or "root"


def _digest(root: Path) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
