"""Bare mirrors of the team's repositories, in a worker's cache: fetched from the project's address and nowhere else.
Nothing in a repository is ever executed or checked out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from codeinfo.downloads import HostPolicy
from codeinfo.errors import NotFound, ProviderError
from codeinfo.files import LOCK_PATIENCE_S, locked, open_private, private_folder, read_secret, try_lock
from codeinfo.sources import git
from codeinfo.store.layout import bytes_under
from codeinfo.team.access import identity_of

_LOCK = "lock"  # held while a mirror is fetched
_USE = "use"  # shared by readers of a mirror; its time is that of the last use
_KEPT = (_LOCK, _USE)  # what stays of a removed mirror: others may hold them open


class Mirrors(Struct, frozen=True):
    """The location of mirrors and how repositories are reached. `credentials` names a file of
    `https://user:token@host` lines, the only ones that are ever sent; ssh uses the keys of the worker's user."""

    folder: Path
    policy: HostPolicy
    credentials: str = ""
    most_bytes: int = 1 << 62

    def of(self, url: str) -> Mirror:
        return Mirror(self.folder / _folder_name(identity_of(url)), url, self)  # refuses other addresses

    def make_room(self) -> None:
        """Remove mirrors, least recently used first, until the others take at most `most_bytes`. One in use stays."""
        by_use = sorted((_used_at(mirror), mirror, bytes_under(mirror)) for mirror in self._mirrors())
        total = sum(size for _, _, size in by_use)
        for _, mirror, size in by_use:
            if total <= self.most_bytes:
                return
            if _remove(mirror):
                total -= size

    def keep_only(self, identities: Iterable[str]) -> None:
        names = {_folder_name(identity) for identity in identities}
        for mirror in self._mirrors():
            if mirror.name not in names:
                _remove(mirror)

    def _mirrors(self) -> list[Path]:
        return [head.parent for head in self.folder.glob("*/HEAD")]

    def remote(self, url: str) -> git.Remote:
        return git.Remote(url, self.policy.pin(url), self._authorization(url))

    def _authorization(self, url: str) -> str:
        """For an http(s) URL whose scheme, host and port match a line of the file."""
        parts = urlsplit(url)
        if not self.credentials or parts.scheme not in ("https", "http"):
            return ""
        text = read_secret(Path(self.credentials), "Correct store.git_credentials, or the file's owner")
        for line in text.split():
            credential = urlsplit(line)
            if (credential.scheme, credential.hostname, credential.port) == (parts.scheme, parts.hostname, parts.port):
                return git.login_of(line)
        return ""


class Mirror(Struct, frozen=True):
    folder: Path
    url: str
    mirrors: Mirrors

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps the mirror from being removed during the block."""
        with self._lock(_USE, shared=True) as handle:
            os.utime(handle)
            yield

    def fetch(self) -> None:
        """Fetch all branches and tags. A mirror that cannot be updated although its remote answers is recreated."""
        with self._lock(_LOCK, git.FETCH_TIMEOUT_S) as lock:  # the workers of one machine share a mirror
            remote = self.mirrors.remote(self.url)
            try:
                try:
                    git.fetch_mirror(self.folder, remote, lock)
                except git.GitFailed:
                    git.remote_head(remote)
                    _clear(self.folder)
                    git.fetch_mirror(self.folder, remote, lock)
            except git.GitFailed as error:
                raise ProviderError(
                    f"{identity_of(self.url)} cannot be fetched: {remote.hide(error.what)}",
                    "Check its address and that the worker may read it (store.git_credentials, ssh keys)",
                    code=git.GitFailed.code,
                ) from error

    def has(self, commit: str) -> bool:
        """Whether a commit was already fetched completely."""
        if not (self.folder / "HEAD").exists():
            return False
        try:
            return git.commit_of(self.folder, commit) == commit
        except NotFound:
            return False

    def ensure(self, commit: str) -> None:
        if not self.has(commit):
            self.fetch()
            git.commit_of(self.folder, commit)  # raises NotFound: force-pushed away meanwhile

    def refs(self) -> dict[str, str]:
        """The commit of each branch and tag, as of the last fetch."""
        return git.list_refs(self.folder)

    def default_ref(self) -> str:
        """What its remote calls HEAD."""
        return git.remote_head(self.mirrors.remote(self.url))

    def _lock(
        self, name: str, patience_s: float = LOCK_PATIENCE_S, *, shared: bool = False
    ) -> AbstractContextManager[int]:
        private_folder(self.folder, self.mirrors.folder)
        return locked(open_private(self.folder / name, os.O_RDWR), self.folder, patience_s, shared=shared)


def _folder_name(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:24]


def _used_at(mirror: Path) -> float:
    try:
        return (mirror / _USE).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _remove(mirror: Path) -> bool:
    """Whether it was removed: not while a worker fetches or reads it."""
    with ExitStack() as opened:
        for name in _KEPT:
            handle = open_private(mirror / name, os.O_RDWR)
            opened.callback(os.close, handle)
            if not try_lock(handle, mirror):
                return False
        _clear(mirror)
    return True


def _clear(mirror: Path) -> None:
    (mirror / "HEAD").unlink(missing_ok=True)  # first: without it the rest does not count as a mirror
    for entry in mirror.iterdir():
        if entry.name not in _KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
