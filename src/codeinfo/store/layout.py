"""Where indexes lie: one folder per indexed root in the user's cache, mode 0700.

    <cache>/<name>-<hash of the root's path>/
        root            the root's path, so that indexes can be listed
        lock            held while indexing; the kernel lets go of it when the holder dies
        current         the name of the live build, replaced atomically
        v4-<recipe>/    one build: index.db and its vector files; the name holds schema version and recipe
        damaged-<n>/    a build that could not be read, kept for a look

A build's recipe is everything that makes an index another one: chunk settings, model, tokens. A changed recipe gives
another folder, filled beside the live one and made current when it is whole; an interrupted one is found again by name.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codeinfo.errors import Busy, IndexTooNew
from codeinfo.private_files import open_private, private_folder, replace_private, try_lock
from codeinfo.store.database import SCHEMA_VERSION, translate_errors

_BUILD_NAME = re.compile(r"v(\d+)-[0-9a-f]{16}\Z")


class IndexFolder:
    """The place of one root's index."""

    def __init__(self, cache: Path, root: Path) -> None:
        self.root = root
        self._cache = cache
        digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", root.name)[:40] or "root"
        self.path = cache / "indexes" / f"{readable}-{digest}"
        self._current = str(self.path / "current")
        self._seen: tuple[tuple[int, int], Path | None] = ((0, 0), None)  # the file read last, and the build it named

    def exists(self) -> bool:
        """Whether there is an index, or one was begun."""
        return os.path.exists(self.path / "root")

    def current(self) -> Path | None:
        """The live build, or None where there is none (any more)."""
        with translate_errors(self.path):
            try:
                status = os.stat(self._current)
                written = (status.st_ino, status.st_mtime_ns)
                if written != self._seen[0]:  # it is only ever replaced as a whole, so another file says another name
                    named = Path(self._current).read_bytes()
                    self._seen = (written, self._build(named.decode("utf-8", "replace").strip()))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        build = self._seen[1]
        return build if build is not None and os.path.exists(f"{build}/index.db") else None

    def _build(self, name: str) -> Path | None:
        match = _BUILD_NAME.match(name)
        if not match or int(match[1]) < SCHEMA_VERSION:
            return None
        if int(match[1]) > SCHEMA_VERSION:
            raise IndexTooNew(
                f"the index of {self.root} was written by a newer CodeInfo (schema {match[1]})",
                next_step="Upgrade CodeInfo, or run `codeinfo clear` and index again",
            )
        return self.path / name

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Inode and time of a file beside the builds; None where there is none. A replaced file has another one."""
        try:
            status = os.stat(self.path / name)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def build_path(self, recipe: str) -> Path:
        """Where a build by `recipe` goes, so that an interrupted one is found again."""
        return self.path / f"v{SCHEMA_VERSION}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"

    def fresh_build_path(self) -> Path:
        """A place where no build has ever been."""
        return self.path / f"v{SCHEMA_VERSION}-{os.urandom(8).hex()}"

    def promote(self, build: Path) -> None:
        """Make a build the live one; searches that hold the old one finish on it."""
        with translate_errors(self.path):
            replace_private(self.path / "current", build.name.encode())

    def remove_other_builds(self, keep: Path) -> None:
        """All but one, and what a crash left half removed. A build that somebody still reads stays until next time."""
        for build in self.path.glob("v*-*"):
            if build != keep:
                self._remove_build(build)
        for removed in self.path.glob("removed-*"):
            shutil.rmtree(removed, ignore_errors=True)
        for unused in self.path.glob(".*-*"):
            unused.unlink(missing_ok=True)

    def _remove_build(self, build: Path) -> None:
        """Renamed first: nobody may open a build of which only half is left."""
        try:
            handle = os.open(build, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if try_lock(handle, build):
                build.rename(self.path / f"removed-{os.urandom(4).hex()}")
        except OSError:
            return
        finally:
            os.close(handle)

    def set_aside(self, build: Path) -> Path:
        """Move a damaged build out of the way, keeping only the newest such."""
        with translate_errors(self.path):
            for old in self.path.glob("damaged-*"):
                shutil.rmtree(old, ignore_errors=True)
            aside = self.path / f"damaged-{os.urandom(4).hex()}"
            build.rename(aside)
        return aside

    def clear(self) -> None:
        with self.lock(), translate_errors(self.path):
            shutil.rmtree(self.path)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the right to write this index, or say at once who has it. Yields whether the last holder died at it."""
        handle = self._locked_file()
        try:
            died = bool(os.pread(handle, 1, 0))
            with translate_errors(self.path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
                if not (self.path / "root").exists():
                    replace_private(self.path / "root", os.fsencode(self.root))
            yield died
        finally:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    def is_unfinished(self) -> bool:
        """Whether the last holder of the lock died at its work, and nobody has looked after it yet."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if not os.pread(handle, 1, 0):
                return False
            return try_lock(handle, self.path / "lock", shared=True) and bool(os.pread(handle, 1, 0))
        finally:
            os.close(handle)

    def _locked_file(self) -> int:
        while True:
            with translate_errors(self.path):
                private_folder(self.path, self._cache)
                handle = open_private(self.path / "lock", os.O_RDWR)
            try:
                locked = try_lock(handle, self.path / "lock")
                holder = "" if locked else os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
            except BaseException:
                os.close(handle)
                raise
            if locked and os.fstat(handle).st_nlink:
                return handle
            os.close(handle)  # where it was cleared between opening and locking it locks nothing any more
            if not locked:
                raise Busy(
                    f"{self.root} is being indexed by process {holder}",
                    next_step="Wait for it to finish; searches go on from the index as it is",
                )


def indexed_roots(cache: Path) -> list[Path]:
    """The roots that have an index in this cache."""
    roots = []
    for marker in sorted((cache / "indexes").glob("*/root")):
        roots.append(Path(os.fsdecode(marker.read_bytes())))
    return roots
