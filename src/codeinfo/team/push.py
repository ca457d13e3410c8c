"""Developers' uploads: a tree `work/<user>/<name>` of a project that only its user sees.

A file that the user may already read in the project is taken from there. Everything else is uploaded, and stored under
a hash that contains the user's number: nobody else is ever given it, workers do not reuse it, and claiming the hash of
a file that one cannot read gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import NotFound, UsageError
from codeinfo.model import IndexedFile, SourceFile, iso_time
from codeinfo.sources.read import CONTENT_RULES
from codeinfo.team.access import Caller, Refused, audit
from codeinfo.team.database import TeamDatabase
from codeinfo.team.store import columns_of, create_tree, decode_file, finish_tree, set_entries, store_files

MOST_FILES = 500_000
MOST_CHUNKS = 20_000  # of one file
MOST_BYTES = 200_000_000  # of one file, unpacked
MOST_WEIGHT = 6000.0  # of a term in a chunk: what a segment can hold
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
    """The files of a developer's folder."""

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


class Answer(Struct, frozen=True):
    """`lacking` are paths of files to be uploaded first."""

    lacking: tuple[str, ...] = ()
    tree: str = ""


class Uploads(Struct, frozen=True):
    """What a server does for one caller. `recipe` is that of its own indexes, `meta` what they record about their
    vectors."""

    database: TeamDatabase
    caller: Caller
    recipe: str
    meta: Mapping[str, str]

    def list_missing_files(self, asked: PushedTree) -> Answer:
        self._check(asked)
        known = self._find_known(asked)
        return Answer(tuple(file.path for file in asked.files if file.path not in known))

    def store(self, given: PushedFiles) -> Answer:
        family = self._allow(given.project, given.recipe)
        files = [self._decode_upload(payload) for payload in given.payloads]
        with self.database.transaction() as db:
            store_files(db, family, given.recipe, sorted(files, key=lambda file: file.source.path))
        return Answer()

    def set_tree(self, asked: PushedTree) -> Answer:
        """Make the tree what was listed, in one transaction; if files are missing nothing is done."""
        self._check(asked)
        known = self._find_known(asked)
        if lacking := [file.path for file in asked.files if file.path not in known]:
            return Answer(tuple(lacking))
        name = f"work/{self.caller.name}/{asked.name}"
        listed = {file.path for file in asked.files}
        with self.database.transaction() as db:
            tree = create_tree(db, asked.project, name, asked.recipe, with_project=False)
            query = "SELECT path, file FROM entries WHERE tree = %s AND file IS NOT NULL"
            before = dict(db.execute(query, (tree.id,)).fetchall())
            placed = [(file.source, known[file.path]) for file in asked.files]
            changed = [(source, file) for source, file in placed if before.get(source.path) != file]
            set_entries(db, tree.id, changed, [path for path in before if path not in listed])
            meta = {**self.meta, "indexed_at": iso_time(), "root": asked.project, "lacking": "0"}
            finish_tree(db, tree.id, meta, asked.revision)
            query = "SELECT project FROM trees WHERE id = %s"
            project = db.execute(query, (tree.id,)).fetchall()[0][0]
            audit(db, "pushed", user=self.caller.user_id, project=project, detail={"tree": name})
        return Answer(tree=name)

    def _allow(self, project: str, recipe: str) -> str:
        """The family of a project the caller may push to. One they may not see does not exist for them."""
        query = "SELECT family, id IN (SELECT writable_projects()) FROM projects WHERE identity = %s"
        found = self.database.rows(query, (project,), self.caller.user_id)
        if not found:
            raise NotFound(f"the team has no project {project}", "Ask an administrator to add or grant it")
        if not found[0][1]:
            raise Refused(f"you may read {project}, but not push to it", "Ask an administrator for that")
        if recipe != self.recipe:
            raise UsageError(
                "this server indexes in another way: its release, chunk settings or embedding model differ from yours",
                "Use its release and leave the settings under index and embedding as they are there",
                code="RECIPE_DIFFERS",
            )
        return str(found[0][0])

    def _check(self, asked: PushedTree) -> None:
        if not _NAME.match(asked.name) or not _REVISION.match(asked.revision):
            raise UsageError(f"{asked.name!r} cannot be the name of a tree", "Use letters, digits and . _ + -")
        if len(asked.files) > MOST_FILES or len({file.path for file in asked.files}) != len(asked.files):
            raise UsageError(f"more than {MOST_FILES} files, or one is listed twice", "Push a part of it")
        for file in asked.files:
            _check_source(file.source, file.sha256)
        self._allow(asked.project, asked.recipe)

    def _find_known(self, asked: PushedTree) -> dict[str, int]:
        """The files of a list, by path, that the caller may read in this project, or has uploaded."""
        columns = columns_of(((file.path, file.sha256, file.brings_back) for file in asked.files), 3)
        wanted = """FROM unnest(%s::text[], %s::text[], %s::boolean[]) AS n(path, sha256, brings_back)
                    JOIN files f ON f.recipe = %s AND f.path = n.path
                    AND (f.brought_back = n.brings_back OR NOT (f.brought_back OR f.skip = ANY(%s)))"""
        values = (*columns, asked.recipe, list(CONTENT_RULES))
        # As the caller: row security leaves out what they may not read.
        visible = f"""SELECT DISTINCT ON (n.path) n.path, f.id {wanted} AND f.sha256 = n.sha256
                      JOIN entries e ON e.file = f.id JOIN trees t ON t.id = e.tree
                      JOIN projects p ON p.id = t.project AND p.identity = %s"""
        own = f"""SELECT n.path, f.id {wanted} AND f.sha256 = %s || n.sha256
                  JOIN projects p ON p.family = f.family AND p.identity = %s"""
        prefix = _mark(self.caller)
        uploaded = self.database.rows(own, (*values, prefix, asked.project))
        seen = self.database.rows(visible, (*values, asked.project), self.caller.user_id)
        return dict(uploaded) | dict(seen)

    def _decode_upload(self, payload: bytes) -> IndexedFile:
        """An uploaded file, under the caller's own hash; raises UsageError for a malformed one."""
        try:
            file = decode_file(payload, MOST_BYTES)
        except (ValueError, msgspec.MsgspecError, OverflowError) as error:
            raise UsageError(f"an uploaded file cannot be read: {error}", "Push again") from error
        _check_source(file.source, file.sha256)
        chunks, terms, vectors = file.parsed.chunks, file.parsed.terms, file.vectors
        weights = [weight for weighted in terms for weight in weighted.values()]
        dimension = int(self.meta["dimension"])
        is_sound = (
            len(chunks) <= MOST_CHUNKS
            and len(terms) == len(chunks)
            and all(0 <= weight <= MOST_WEIGHT for weight in weights)
            and all(0 < chunk.start_line <= chunk.end_line < 1 << 31 for chunk in chunks)
            and (vectors is None) == (dimension == 0 or not chunks)
            and (vectors is None or (vectors.shape == (len(chunks), dimension) and bool((abs(vectors) <= 1.01).all())))
        )
        if not is_sound:
            raise UsageError(
                f"{file.source.path} was not uploaded in the format of this server's release", "Push again"
            )
        return replace(file, sha256=f"{_mark(self.caller)}{file.sha256}")


def receive_upload(
    database: TeamDatabase, caller: Caller, recipe: str, meta: Mapping[str, str], step: str, body: bytes
) -> bytes:
    """The encoded answer to a step of an upload."""
    uploads = Uploads(database, caller, recipe, meta)
    try:
        if step == "files":
            answer = uploads.store(msgspec.msgpack.decode(body, type=PushedFiles))
        else:
            asked = msgspec.msgpack.decode(body, type=PushedTree)
            answer = uploads.list_missing_files(asked) if step == "lacking" else uploads.set_tree(asked)
    except msgspec.MsgspecError as error:
        raise UsageError(f"this is not an upload: {error}", "Push with the server's own release") from error
    return msgspec.msgpack.encode(answer)


def _mark(caller: Caller) -> str:
    """The prefix of the hashes of a user's uploads, which no file's hash begins with."""
    return f"user-{caller.user_id}-"


def _check_source(source: SourceFile, sha256: str) -> None:
    path = source.path
    plain = path and len(path) <= 4000 and "\0" not in path and not path.startswith("/")
    numbers = 0 <= source.size < 1 << 40 and abs(source.mtime_ns) < 1 << 62
    if not plain or ".." in path.split("/") or not numbers or not _HASH.match(sha256):
        raise UsageError(f"{path[:100]!r} cannot be a file of a tree", "Push again")
