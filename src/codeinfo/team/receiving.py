"""What a team's server receives: the push webhooks of code hosts, and what developers upload."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import (
    IndexedFile,
    NextStep,
    ParsedFile,
    SourceFile,
    hide_keys,
    iso_time,
    json_decoder,
    msgpack_decoder,
    to_run,
)
from codeinfo.operations.team import TeamProject
from codeinfo.sources.read import CONTENT_RULES
from codeinfo.sources.walk import is_too_deep
from codeinfo.store.sqlite import UPLOADED
from codeinfo.team.access import CLOCK_SKEW_S, Caller, Refused, audit, identity_of
from codeinfo.team.database import Connection, TeamDatabase, lock_key
from codeinfo.team.jobs import defer_index, is_followed
from codeinfo.team.store import (
    ENTRY_BYTES,
    TREE_BYTES,
    columns_of,
    count_entries,
    count_uploads,
    create_tree,
    drop_tree,
    drop_uploads,
    finish_tree,
    inflate,
    set_entries,
    store_files,
    unpack_file,
)

# --- webhooks -------------------------------------------------------------------------------------------------------
#
# Each is verified, accepted once, and turned into a job. A delivery only ever makes a worker fetch the repository from
# the project's own address; what was pushed is read there, not from the message. A message about an unknown project is
# answered like one with a wrong signature.

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
    return TeamProject(identity, hide_keys(url), default, tuple(follow), secrets_of(db, project)[0], until)


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
    """A kind of host's headers: `signature` is the body's HMAC-SHA-256 after `prefix`, `token` the secret itself."""

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
    signed = f"{timestamp}.{delivery}.".encode() + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def receive(database: TeamDatabase, kind: str, headers: Mapping[str, str], body: bytes) -> str:
    """What was done about a delivery: "queued", or why nothing was. Raises HookRefused, Replayed or UsageError."""
    scheme = SCHEMES[kind]
    try:
        push = json_decoder(_Push).decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        push = _Push()
    delivery = next((headers[name] for name in scheme.delivery if headers.get(name)), "")
    with database.transaction() as db:
        project = _project(db, push.address)
        accepted = [_is_genuine(scheme, headers, body, delivery, secret) for secret in secrets_of(db, project)]
        if not any(accepted) or not project:
            step = NextStep("Set the webhook up with what ", to_run("team project hook"), " shows")
            raise HookRefused("this is not signed with the secret of a project here", step)
        if not delivery or len(delivery) > _MOST_DELIVERY:
            raise UsageError(f"{scheme.delivery[0]} is missing or too long", "Send an id for each delivery")
        insert = "INSERT INTO deliveries(project, delivery) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        if not db.execute(insert, (project, f"{kind} {delivery}")).rowcount:
            raise Replayed("this delivery was received before", "There is nothing to do")
        if scheme.event and headers.get(scheme.event, "") not in scheme.pushes:
            return "ignored: not about a branch or tag"
        if push.ref and not push.ref.startswith("refs/"):
            push = replace(push, ref="")  # created or deleted: a short name, of a branch or a tag
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
    rows = db.execute("SELECT id FROM projects WHERE identity = ANY(%s) AND clone_url <> ''", (names,)).fetchall()
    return int(rows[0][0]) if rows else 0


def _is_genuine(scheme: _Scheme, headers: Mapping[str, str], body: bytes, delivery: str, secret: str) -> bool:
    if scheme.signature and (signature := headers.get(scheme.signature, "")):
        if scheme.timestamp:
            moment = headers.get(scheme.timestamp, "")
            if not moment.isdecimal() or abs(time.time() - int(moment[:15])) > CLOCK_SKEW_S:
                return False
            return hmac.compare_digest(signature.encode(), sign(secret, moment, delivery, body).encode())
        expected = scheme.prefix + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(signature.encode(), expected.encode())
    if scheme.token and (token := headers.get(scheme.token, "")):
        return hmac.compare_digest(hashlib.sha256(token.encode()).digest(), hashlib.sha256(secret.encode()).digest())
    return False


# --- uploads --------------------------------------------------------------------------------------------------------
#
# A tree `work/<user>/<name>` of a project, seen by its owner alone. A file the user may read in the project
# is taken from there. Everything else is uploaded, and stored under a hash that contains the user's number: nobody else
# is ever given it, workers do not reuse it, and claiming the hash of a file that one cannot read gives nothing.

MOST_FILES = 500_000
MOST_CHUNKS = 20_000  # of one file
MOST_LINES = 10_000_000  # of one file: a text that begins at line n is read with n empty lines before it
MOST_BYTES = 100_000_000  # of one request, unpacked
# Of one file, unpacked: decoding takes up to 30 times as much memory. A file has 6 times its size at most.
MOST_FILE_BYTES = 20_000_000
MOST_TEXTS = 5_000_000  # of one request, in lists and as terms: one of two bytes takes 70 in memory
MOST_WEIGHT = 6000.0  # of a term in a chunk: what a segment can hold
_decoding = threading.Lock()  # one at a time
_NAME = re.compile(r"[\w.+-]{1,100}\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_REVISION = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})?\Z")


class PushedFile(Struct, frozen=True, array_like=True):
    path: str
    size: int
    mtime_ns: int
    sha256: str
    brings_back: bool  # an ignore file wants it whatever its content

    @property
    def source(self) -> SourceFile:
        return SourceFile(self.path, self.size, self.mtime_ns)


class PushedTree(Struct, frozen=True):
    project: str
    name: str
    recipe: str
    files: tuple[PushedFile, ...]
    revision: str = ""


class PushedFiles(Struct, frozen=True):
    """Parsed and embedded, in the format of `encode_file`."""

    project: str
    recipe: str
    payloads: tuple[bytes, ...]


class _UploadedParse(ParsedFile, frozen=True):
    terms: Annotated[tuple[Mapping[str, float], ...], Meta(max_length=MOST_CHUNKS)] = ()  # one byte each, if empty


class _UploadedFile(IndexedFile, frozen=True):
    """Refuses what would take far more memory than it has bytes."""

    parsed: _UploadedParse
    vectors: None = None  # they come beside it


class Answer(Struct, frozen=True):
    """`lacking` are paths of files to be uploaded first."""

    lacking: tuple[str, ...] = ()
    tree: str = ""


class Uploads(Struct, frozen=True):
    """What a server does for one caller; `recipe` and `meta` are those of its own indexes."""

    database: TeamDatabase
    caller: Caller
    recipe: str
    meta: Mapping[str, str]
    most_bytes: int = 1 << 62  # of what the caller may have uploaded

    def receive(self, step: str, body: bytes) -> bytes:
        """The encoded answer to a step of an upload."""
        try:
            if step == "files":
                answer = self.store(msgpack_decoder(PushedFiles).decode(body))
            else:
                tree = msgpack_decoder(PushedTree).decode(body)
                steps = {"lacking": self.list_missing_files, "tree": self.set_tree, "remove": self.remove_tree}
                answer = steps[step](tree)
        except msgspec.MsgspecError as error:
            raise UsageError(f"this is not an upload: {error}", "Push with the server's own release") from error
        return msgspec.msgpack.encode(answer)

    def list_missing_files(self, tree: PushedTree) -> Answer:
        self._check(tree)
        file_ids = self._find_known(tree)
        return Answer(tuple(file.path for file in tree.files if file.path not in file_ids))

    def store(self, upload: PushedFiles) -> Answer:
        family = self._allow(upload.project, upload.recipe)
        files, room, texts = list[IndexedFile](), MOST_BYTES, MOST_TEXTS
        for payload in upload.payloads:
            with _decoding:
                file, size = self._decode_upload(payload, room)
            room -= size
            texts -= _count_texts(file)
            if texts < 0:
                raise UsageError(
                    f"the files have more than {MOST_TEXTS:,} names and terms together", "Push a part of it"
                )
            files.append(file)
        with self.database.transaction() as db:
            needed = self._reserve(db, sum(map(len, upload.payloads)))
            if needed <= self.most_bytes:
                store_files(db, family, upload.recipe, sorted(files, key=lambda file: file.source.path))
                return Answer()
            # This push ends here: what it has uploaded is of no use.
            drop_uploads(db, self.caller.user_id, unused_only=False)
        raise self._exceeded("uploads", needed)

    def _exceeded(self, things: str, needed: int) -> UsageError:
        step = NextStep("Remove a work tree that you no longer need with ", to_run("push", remove=True))
        what = f"your {things} would take {needed / 1e6:,.0f} of {self.most_bytes / 1e6:,.0f} MB"
        return UsageError(what, step, code="QUOTA_EXCEEDED")

    def _reserve(self, db: Connection, size: int) -> int:
        """The bytes that the caller's uploads would take. Until the transaction ends, no other upload of theirs is
        counted."""
        user = self._keep_caller(db)
        db.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(f"uploads of user {user}"),))
        needed = size + count_uploads(db, user)
        if needed > self.most_bytes and drop_uploads(db, user, unused_only=True):
            needed = size + count_uploads(db, user)
        return needed

    def _keep_caller(self, db: Connection) -> int:
        """The caller's number; until the transaction ends, nobody removes them."""
        user = self.caller.user_id
        if not db.execute("SELECT 1 FROM users WHERE id = %s FOR KEY SHARE", (user,)).fetchall():
            raise Refused("your account was removed", "Ask an administrator")
        return user

    def remove_tree(self, tree: PushedTree) -> Answer:
        """Remove a work tree of the caller with the uploads that no other one has."""
        name, user = f"work/{self.caller.name}/{tree.name}", self.caller.user_id
        query = """SELECT t.id, t.project FROM trees t JOIN projects p ON p.id = t.project
                   WHERE p.identity = %s AND t.name = %s AND t.owner = %s FOR UPDATE OF t"""
        with self.database.transaction() as db:
            rows = db.execute(query, (tree.project, name, user)).fetchall()
            if not rows:
                raise NotFound(f"you have no work tree {tree.name} of {tree.project}", "Check its name and project")
            for number, _ in rows:  # one for each recipe
                drop_tree(db, number)
            drop_uploads(db, user, unused_only=True)
            audit(db, "work tree removed", user=user, project=rows[0][1], detail={"tree": name})
        return Answer(tree=name)

    def set_tree(self, tree: PushedTree) -> Answer:
        """Make the tree what was listed, in one transaction; if files are missing nothing is done."""
        self._check(tree)
        file_ids = self._find_known(tree)
        if lacking := [file.path for file in tree.files if file.path not in file_ids]:
            return Answer(tuple(lacking))
        name = f"work/{self.caller.name}/{tree.name}"
        paths = {file.path for file in tree.files}
        with self.database.transaction() as db:
            owner = self._keep_caller(db)
            size = TREE_BYTES + sum(len(path.encode()) + ENTRY_BYTES for path in paths)
            needed = size + count_entries(db, owner, but=(tree.project, name))
            if needed > self.most_bytes:
                raise self._exceeded("lists of files", needed)
            row = create_tree(db, tree.project, name, tree.recipe, with_project=False, owner=owner)
            query = "SELECT path, file FROM entries WHERE tree = %s AND file IS NOT NULL"
            before = dict(db.execute(query, (row.id,)).fetchall())
            placed = [(file.source, file_ids[file.path]) for file in tree.files]
            changed = [(source, file) for source, file in placed if before.get(source.path) != file]
            set_entries(db, row.id, changed, [path for path in before if path not in paths])
            meta = {**self.meta, "indexed_at": iso_time(), "root": tree.project, "lacking": "0"}
            finish_tree(db, row.id, meta, tree.revision)
            query = "SELECT project FROM trees WHERE id = %s"
            project = db.execute(query, (row.id,)).fetchall()[0][0]
            audit(db, "pushed", user=owner, project=project, detail={"tree": name})
        return Answer(tree=name)

    def _allow(self, project: str, recipe: str) -> str:
        """The family of a project the caller may push to. One they may not see does not exist for them."""
        query = "SELECT family, id IN (SELECT writable_projects()) FROM projects WHERE identity = %s"
        rows = self.database.rows(query, (project,), self.caller.user_id)
        if not rows:
            raise NotFound(f"the team has no project {project}", "Ask an administrator to add or grant it")
        if not rows[0][1]:
            raise Refused(f"you may read {project}, but not push to it", "Ask an administrator for that")
        if recipe != self.recipe:
            raise UsageError(
                "this server indexes in another way: its release, chunk settings or embedding model differ from yours",
                "Use its release and leave the settings under index and embedding as they are there",
                code="RECIPE_DIFFERS",
            )
        return str(rows[0][0])

    def _check(self, tree: PushedTree) -> None:
        if not _NAME.match(tree.name) or not _REVISION.match(tree.revision):
            raise UsageError(f"{tree.name!r} cannot be the name of a tree", "Use letters, digits and . _ + -")
        if len(tree.files) > MOST_FILES or len({file.path for file in tree.files}) != len(tree.files):
            raise UsageError(f"more than {MOST_FILES} files, or one is listed twice", "Push a part of it")
        for file in tree.files:
            _check_source(file.source, file.sha256)
        self._allow(tree.project, tree.recipe)

    def _find_known(self, tree: PushedTree) -> dict[str, int]:
        """The files of a list, by path, that the caller may read in this project, or has uploaded."""
        columns = columns_of((file.path, file.sha256, file.brings_back) for file in tree.files)
        same_files = """FROM unnest(%s::text[], %s::text[], %s::boolean[]) AS n(path, sha256, brings_back)
                    JOIN files f ON f.recipe = %s AND f.path = n.path
                    AND (f.brought_back = n.brings_back OR NOT (f.brought_back OR f.skip = ANY(%s)))"""
        values = (*columns, tree.recipe, list(CONTENT_RULES))
        # As the caller: row security leaves out what they may not read.
        visible = f"""SELECT DISTINCT ON (n.path) n.path, f.id {same_files} AND f.sha256 = n.sha256
                      JOIN entries e ON e.file = f.id JOIN trees t ON t.id = e.tree
                      JOIN projects p ON p.id = t.project AND p.identity = %s"""
        own_uploads = f"""SELECT n.path, f.id {same_files} AND f.sha256 = %s || n.sha256
                  JOIN projects p ON p.family = f.family AND p.identity = %s"""
        prefix = _mark(self.caller)
        uploaded = self.database.rows(own_uploads, (*values, prefix, tree.project))
        readable = self.database.rows(visible, (*values, tree.project), self.caller.user_id)
        return dict(uploaded) | dict(readable)

    def _decode_upload(self, payload: bytes, most: int) -> tuple[IndexedFile, int]:
        """An uploaded file, under the caller's own hash, and its size; raises UsageError for a malformed one."""
        try:
            parsed, vectors = unpack_file(payload, min(most, MOST_FILE_BYTES))
            file = msgpack_decoder(_UploadedFile).decode(parsed)
            uses = inflate(file.references, most) if file.references else b""
        except (ValueError, msgspec.MsgspecError, OverflowError) as error:
            raise UsageError(f"an uploaded file cannot be read: {error}", "Push again") from error
        _check_source(file.source, file.sha256)
        chunks, terms = file.parsed.chunks, file.parsed.terms
        spans = [(span.start_line, span.end_line) for span in chunks]
        spans += [(span.start_line, span.end_line) for span in file.parsed.definitions]
        weights = [weight for weighted in terms for weight in weighted.values()]
        dimension = int(self.meta["dimension"])
        is_sound = (
            len(chunks) <= MOST_CHUNKS
            and len(terms) == len(chunks)
            and all(0 <= weight <= MOST_WEIGHT for weight in weights)
            and all(0 < start <= end <= MOST_LINES for start, end in spans)
            and (vectors is None) == (dimension == 0 or not chunks)
            and (vectors is None or (vectors.shape == (len(chunks), dimension) and bool((abs(vectors) <= 1.01).all())))
        )
        if not is_sound:
            step = "Push again"
            raise UsageError(f"{file.source.path} was not uploaded in the format of this server's release", step)
        marked = replace(file, vectors=vectors, sha256=f"{_mark(self.caller)}{file.sha256}")
        return marked, len(parsed) + len(uses)


def _count_texts(file: IndexedFile) -> int:
    parsed = file.parsed
    bases = (definition.bases for definition in parsed.definitions)
    named = (*bases, *(imported.names for imported in parsed.imports), *parsed.terms)
    return sum(map(len, (file.path_terms, file.notes, parsed.notes, *named)))


def _mark(caller: Caller) -> str:
    """The prefix of the hashes of a user's uploads, which no file's hash begins with."""
    return f"{UPLOADED}{caller.user_id}-"


def _check_source(source: SourceFile, sha256: str) -> None:
    path = source.path
    plain = path and "\0" not in path and not path.startswith("/") and not is_too_deep(path)
    numbers = 0 <= source.size < 1 << 40 and abs(source.mtime_ns) < 1 << 62
    if not plain or ".." in path.split("/") or not numbers or not _HASH.match(sha256):
        raise UsageError(f"{path[:100]!r} cannot be a file of a tree", "Push again")
