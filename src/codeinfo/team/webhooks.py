"""Push webhooks of code hosts: verified, accepted once, and turned into a job.

A delivery only ever makes a worker fetch the repository from the project's own address; what was pushed is read there,
not from the message. A message about an unknown project is answered like one with a wrong signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct

from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.model import NextStep, to_run
from codeinfo.operations.team import TeamProject
from codeinfo.team.access import identity_of
from codeinfo.team.database import Connection, TeamDatabase
from codeinfo.team.jobs import defer_index, is_followed

CLOCK_SKEW_S = 300.0  # tolerated difference between the time of a plain message and ours
_MOST_DELIVERY = 200  # characters of an id


class HookRefused(CodeInfoError):
    status = 401
    code = "HOOK_REFUSED"


class Replayed(CodeInfoError):
    status = 409
    code = "REPLAYED"


def project_row(db: Connection, project: int) -> TeamProject:
    query = """SELECT identity, clone_url, default_ref, follow, CASE WHEN old_hook_until > now() THEN
               to_char(old_hook_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') ELSE '' END
               FROM projects WHERE id = %s"""
    identity, url, default, follow, until = db.execute(query, (project,)).fetchall()[0]
    return TeamProject(identity, url, default, tuple(follow), secrets_of(db, project)[0], until)


def rotate_secret(db: Connection, project: int, hours: int) -> None:
    """Use another secret from now on; the previous one is accepted for some hours."""
    update = """UPDATE projects SET hook_version = hook_version + 1, old_hook_until = now() + make_interval(hours => %s)
                WHERE id = %s"""
    db.execute(update, (hours, project))


def secrets_of(db: Connection, project: int) -> list[str]:
    """The accepted secrets, the current one first; for an unknown project, one that nobody can know."""
    query = """SELECT s.value, p.hook_version, coalesce(p.old_hook_until > now(), false)
               FROM secrets s LEFT JOIN projects p ON p.id = %s WHERE s.name = 'webhooks'"""
    key, version, has_old = db.execute(query, (project,)).fetchall()[0]
    return [_derive_secret(key, project, version), *([_derive_secret(key, project, version - 1)] if has_old else [])]


def _derive_secret(key: bytes, project: int, version: int | None) -> str:
    derived = hmac.digest(bytes(key), f"webhook {project} {version}".encode(), hashlib.sha256)
    return "cih_" + base64.urlsafe_b64encode(derived).decode().rstrip("=")


# --- what the hosts send -------------------------------------------------------------------------------------------


class _Repository(Struct):
    clone_url: str = ""  # GitHub, Gitea, Forgejo
    git_http_url: str = ""  # GitLab


class _Push(Struct):
    """A push, as reported by any of the hosts. A ref of "" means everything the project follows."""

    repository: _Repository = msgspec.field(default_factory=_Repository)
    project: _Repository | str = ""  # GitLab; by name in a plain message
    ref: str = ""

    @property
    def address(self) -> str:
        if isinstance(self.project, _Repository):
            return self.project.git_http_url
        return self.project or self.repository.clone_url or self.repository.git_http_url


class _Scheme(Struct, frozen=True):
    """The headers of one kind of host. `signature` is an HMAC-SHA-256 of the body in hex, after `prefix`; `token` is
    the secret itself."""

    delivery: tuple[str, ...]  # one of them
    event: str = ""
    pushes: frozenset[str] = frozenset()  # values of `event` that mean that a ref changed
    signature: str = ""
    prefix: str = ""
    token: str = ""
    timestamp: str = ""  # it and the delivery are signed too


_CHANGES = frozenset({"push", "create", "delete"})
SCHEMES = {
    "github": _Scheme(("x-github-delivery",), "x-github-event", _CHANGES, "x-hub-signature-256", "sha256="),
    "gitea": _Scheme(("x-gitea-delivery", "x-forgejo-delivery"), "x-gitea-event", _CHANGES, "x-gitea-signature"),
    "gitlab": _Scheme(
        ("idempotency-key", "x-gitlab-event-uuid"),
        "x-gitlab-event",
        frozenset({"Push Hook", "Tag Push Hook", "System Hook"}),
        token="x-gitlab-token",
    ),
    "push": _Scheme(
        ("x-codeinfo-delivery",),
        signature="x-codeinfo-signature",
        prefix="sha256=",
        timestamp="x-codeinfo-timestamp",
        token="x-codeinfo-token",
    ),
}


def sign(secret: str, timestamp: str, delivery: str, body: bytes) -> str:
    """The signature of a plain message."""
    signed = f"{timestamp}.{delivery}.".encode() + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def receive(database: TeamDatabase, kind: str, headers: Mapping[str, str], body: bytes) -> str:
    """What was done about a delivery: "queued", or why nothing was. Raises HookRefused, Replayed or UsageError."""
    scheme = SCHEMES[kind]
    try:
        push = msgspec.json.decode(body, type=_Push)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        push = _Push()
    delivery = next((headers[name] for name in scheme.delivery if headers.get(name)), "")
    with database.transaction() as db:
        project = _project(db, push.address)
        accepted = [_is_genuine(scheme, headers, body, delivery, secret) for secret in secrets_of(db, project)]
        if not any(accepted) or not project:
            raise HookRefused(
                "this is not signed with the secret of a project here",
                NextStep("Set the webhook up with what ", to_run("team project hook"), " shows"),
            )
        if not delivery or len(delivery) > _MOST_DELIVERY:
            raise UsageError(f"{scheme.delivery[0]} is missing or too long", "Send an id for each delivery")
        insert = "INSERT INTO deliveries(project, delivery) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        if not db.execute(insert, (project, f"{kind} {delivery}")).rowcount:
            raise Replayed("this delivery was received before", "There is nothing to do")
        if scheme.event and headers.get(scheme.event, "") not in scheme.pushes:
            return "ignored: not about a branch or tag"
        if push.ref and not push.ref.startswith("refs/"):
            push = msgspec.structs.replace(push, ref="")  # created or deleted: a short name, of a branch or a tag
        return _queue(db, project, push.ref)


def _queue(db: Connection, project: int, ref: str) -> str:
    query = """SELECT default_ref, follow, EXISTS (SELECT 1 FROM trees WHERE project = %s AND name = %s)
               FROM projects WHERE id = %s"""
    default, follow, is_indexed = db.execute(query, (project, ref, project)).fetchall()[0]
    if ref and ref != default and default and not is_indexed and not is_followed(ref, follow):
        return "ignored: the project does not follow it"
    defer_index(db, project, ref if default else "")
    return "queued"


def _project(db: Connection, address: str) -> int:
    """By its identity, which may have a port, or by any of its addresses; 0 if it is not here."""
    names = [address]
    with suppress(UsageError):
        names.append(identity_of(address))
    found = db.execute("SELECT id FROM projects WHERE identity = ANY(%s) AND clone_url <> ''", (names,)).fetchall()
    return int(found[0][0]) if found else 0


def _is_genuine(scheme: _Scheme, headers: Mapping[str, str], body: bytes, delivery: str, secret: str) -> bool:
    if scheme.signature and (given := headers.get(scheme.signature, "")):
        if scheme.timestamp:
            moment = headers.get(scheme.timestamp, "")
            if not moment.isdecimal() or abs(time.time() - int(moment[:15])) > CLOCK_SKEW_S:
                return False
            return hmac.compare_digest(given.encode(), sign(secret, moment, delivery, body).encode())
        wanted = scheme.prefix + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(given.encode(), wanted.encode())
    if scheme.token and (given := headers.get(scheme.token, "")):
        return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), hashlib.sha256(secret.encode()).digest())
    return False
