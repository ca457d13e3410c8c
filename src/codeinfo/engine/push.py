"""`codeinfo push`: what somebody has in a folder, uploaded to the team's server. Files that the server lacks go through
the same index line as everywhere, with the server as what it writes to.
"""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from codeinfo.config import Config
from codeinfo.engine.index_manager import IndexManager, ProgressSink
from codeinfo.engine.indexes import Indexes
from codeinfo.errors import CodeInfoError, NotFound, ProviderError, UsageError
from codeinfo.files import read_secret
from codeinfo.index.line import Changes, update
from codeinfo.model import IndexedFile, Skip, SourceFile
from codeinfo.operations.team import PushReport, PushRequest
from codeinfo.ports import StoredFile
from codeinfo.sources.git import GitFailed, commit_of, origin_of
from codeinfo.team.identity import identity_of
from codeinfo.team.push import Answer, PushedFile, PushedFiles, PushedTree
from codeinfo.team.store import encode_file

if TYPE_CHECKING:
    from codeinfo.ports import Vectors

BODY_BYTES = 8_000_000  # of one upload, unless a single file is larger
TIMEOUT_S = 120.0
TRIES = 3
UPLOADS = 3  # of one file: what was uploaded stays, unless the file is being changed
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def push(indexes: Indexes, request: PushRequest, progress: ProgressSink | None) -> PushReport:
    index = indexes.find(request.path).index
    server = Server(index.config, request.to)
    project = request.project or _project(index.root)
    files, walked = index.source.walk(index.live_store(), by_content=True)
    listed, notes = list[PushedFile](), list[str]()
    for source, loaded in files.load(walked.files):
        if isinstance(loaded, Skip):
            notes.append(f"{loaded.path}: {loaded.detail}")
        else:
            listed.append(PushedFile(*source, loaded.sha256, files.brings_back(source.path)))
    tree = PushedTree(project, request.name or index.root.name, index.recipe(), tuple(listed), _revision(index.root))
    lacking = server.ask("lacking", tree).lacking
    target = _Target(server, tree, index)
    uploads = Counter[str]()  # by path
    while not (changed := [path for path in lacking if uploads[path] == UPLOADS]):
        if wanted := set(lacking):
            changes = Changes(tuple(source for source in walked.files if source.path in wanted), (), (), 0)
            with index.parsers() as pool:
                outcome = update(files, target, changes, pool, index.embedder, progress=progress)
            notes += outcome.notes
            uploads.update(wanted)
        done = server.ask("tree", tree)
        if not done.lacking:
            return PushReport(project, done.tree, len(listed), target.uploaded, tuple(notes))
        lacking = done.lacking  # what the project had a moment ago, until its branch was indexed again
    raise CodeInfoError(
        f"{len(changed)} files changed while they were uploaded, {changed[0]} among them",
        next_step="Push again",
        code="CHANGED_MEANWHILE",
    )


def _project(root: Path) -> str:
    origin = origin_of(root)
    if not origin:
        raise UsageError(f"{root} has no git remote", next_step="Name the project with --project host/owner/name")
    return identity_of(origin)


def _revision(root: Path) -> str:
    try:
        return commit_of(root, "HEAD")
    except (GitFailed, NotFound):
        return ""


class _Target:
    """The index line writes to the server."""

    def __init__(self, server: Server, tree: PushedTree, index: IndexManager) -> None:
        self._server = server
        self._tree = tree
        self._local = index.live_store()  # of this machine, which may have embedded the same content
        if self._local is not None and self._local.recipe != tree.recipe:
            self._local = None
        self.uploaded = 0

    def hashes(self, paths: Sequence[str]) -> dict[str, str]:
        return {}

    def warm_up(self) -> None:
        pass

    def stored(self, paths: Sequence[str]) -> dict[tuple[str, str], list[StoredFile]]:
        return {}

    def vectors_by_hash(self, sha256: str) -> Vectors | None:
        return self._local.vectors_by_hash(sha256) if self._local is not None else None

    def apply(
        self,
        files: Sequence[IndexedFile],
        removed: Sequence[str],
        touched: Sequence[SourceFile],
        reused: Sequence[tuple[SourceFile, int]] = (),
    ) -> None:
        batch, size = list[bytes](), 0
        for payload in map(encode_file, files):
            if batch and size + len(payload) > BODY_BYTES:
                self._send(batch)
                batch, size = [], 0
            batch.append(payload)
            size += len(payload)
        if batch:
            self._send(batch)

    def _send(self, payloads: list[bytes]) -> None:
        self._server.ask("files", PushedFiles(self._tree.project, self._tree.recipe, tuple(payloads)))
        self.uploaded += len(payloads)


class Server:
    """The team's server, asked with the user's own token."""

    def __init__(self, config: Config, to: str) -> None:
        address = (to or config.store.server).rstrip("/")
        parts = urlsplit(address)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise UsageError(
                f"{address!r} is no address of a server" if address else "no server is named",
                next_step="Name it with --to https://code.example.com, or set store.server",
            )
        known = {*LOOPBACK, *(host.lower() for host in config.trust.private_hosts)}
        if parts.scheme == "http" and parts.hostname not in known:
            raise UsageError(
                f"{address} would be sent your token in the clear",
                next_step="Use https, or add the host to trust.private_hosts if its network is safe",
            )
        if not config.store.token_file:
            raise UsageError("no token is set", next_step="Put your personal access token into store.token_file")
        self._token = read_secret(Path(config.store.token_file), "Correct store.token_file").strip()
        self._parts = parts

    def ask(self, step: str, value: object) -> Answer:
        """Asked again where the server went away meanwhile: every step can be done twice."""
        body = msgspec.msgpack.encode(value)
        for attempt in range(TRIES):
            try:
                status, answer = self._exchange(step, body)
            except (OSError, http.client.HTTPException) as error:
                if attempt == TRIES - 1:
                    raise ProviderError(
                        f"{self._parts.hostname} cannot be reached: {error}",
                        next_step="Check the address and push again",
                    ) from error
            else:
                if status == 200:
                    return msgspec.msgpack.decode(answer, type=Answer)
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
            said = json.loads(answer)["error"]
            what, next_step, code = said["message"], said["next"], said["code"]
        except (ValueError, KeyError, TypeError):
            what, next_step, code = f"it answered {status}", "Check that it is a team's server", "SERVER_FAILED"
        kind = UsageError if 400 <= status < 500 else ProviderError
        return kind(f"{self._parts.hostname}: {what}", next_step=next_step, code=code)
