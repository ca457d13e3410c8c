"""Where indexes lie: one folder per family in the user's cache; docs/architecture.md, "An index on disk", shows it. An
interrupted build is found again by its name, `v<schema>-<recipe>[-<n>]`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from codeinfo.errors import SEARCH_MEANWHILE, Busy, IndexTooNew, OutOfSpace
from codeinfo.files import (
    LOCK_PATIENCE_S,
    check_owner,
    is_at,
    open_private,
    private_folder,
    read_private,
    replace_file,
    try_lock,
)
from codeinfo.model import NextStep, to_run
from codeinfo.store.database import REVISION, SCHEMA_VERSION, translate_errors

_BUILD_NAME = re.compile(r"v(\d+)-[0-9a-f]{16}(?:-[0-9a-f]{8})?\Z")
_LOCK_RETRY_S = 0.05
COMMITS_FILE = "commits-2.npz"  # of a tree: its commit index; the number is the format version


class Tree(Struct, frozen=True):
    """One tree of a family: a work tree, or a commit that was searched without a checkout."""

    name: str
    root: Path | None
    used_at: float


class IndexFolder:
    """The location of one tree's index, in the folder of its family."""

    def __init__(self, cache: Path, root: Path, family: Path | None = None, commit: str = "") -> None:
        """`commit` names the tree of a revision; without it, it is the work tree at `root`."""
        self.root = root
        self.tree = REVISION + commit if commit else _readable(root)
        self._marker = ("commit", commit.encode()) if commit else ("root", os.fsencode(root))
        self._cache = cache
        self.path = cache / "indexes" / _readable(family or root)
        self.tree_path = self.path / "trees" / self.tree

    @classmethod
    def of_gone(cls, cache: Path, root: Path) -> IndexFolder | None:
        """The index of a folder that no longer exists, and so cannot say which family it belongs to."""
        for tree in (cache / "indexes").glob(f"*/trees/{_readable(root)}"):
            folder = cls(cache, root)
            folder.path, folder.tree_path = tree.parents[1], tree
            return folder
        return None

    def exists(self) -> bool:
        """Whether there is an index, or one was started."""
        return os.path.exists(self.tree_path / self._marker[0])

    def is_marked(self) -> bool:
        """Whether the folder of the tree says which tree it is: lists of projects go by that."""
        with suppress(OSError):
            return read_private(self.tree_path / self._marker[0]) == self._marker[1]
        return False

    def current(self) -> Path | None:
        """The build the tree is searched in, or None if there is none."""
        with translate_errors(self.path):
            try:
                for place in (self.path.parent, self.path):
                    check_owner(place, os.stat(place))
                build = self._build(_text(self.tree_path / "current"))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        return build if build is not None and os.path.exists(f"{build}/index.db") else None

    def _build(self, name: str) -> Path | None:
        match = _BUILD_NAME.match(name)
        if not match or int(match[1]) < SCHEMA_VERSION:
            return None
        if int(match[1]) > SCHEMA_VERSION:
            raise IndexTooNew(
                f"the index of {self.root} was written by a newer CodeInfo (schema {match[1]})",
                NextStep("Upgrade CodeInfo, or run ", to_run("clear"), " and index again"),
            )
        return self.path / name

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Inode and time of a file of the tree; None if there is none. A replaced file has another one."""
        try:
            status = os.stat(self.tree_path / name)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def build_path(self, recipe: str, *, fresh: bool = False) -> Path:
        """The family's build for `recipe`, or where one goes, so that an interrupted one is found again; `fresh`: a
        place where none has ever been."""
        plain = self.path / f"v{SCHEMA_VERSION}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
        if fresh:
            return plain.with_name(f"{plain.name}-{os.urandom(4).hex()}")
        with suppress(OSError, IndexTooNew):  # a tree's own pointer decides about that
            preferred = self._build(_text(self.path / "current"))
            if preferred is not None and preferred.name.startswith(plain.name) and preferred.is_dir():
                return preferred
        return plain

    def promote(self, build: Path) -> None:
        """Make a build the live one; searches finish on the old one, and other trees follow at their next refresh."""
        with translate_errors(self.path):
            replace_file(self.tree_path / "current", build.name.encode())
            replace_file(self.path / "current", build.name.encode())
        _remove_leftovers(self.path.parent)  # what a killed process was removing

    def trees(self) -> list[Tree]:
        """All trees of the family, including this one if it is indexed."""
        trees = []
        for folder in sorted(self.path.glob("trees/*")):
            with suppress(OSError):
                marker = folder / "root"
                root = Path(os.fsdecode(read_private(marker))) if marker.exists() else None
                trees.append(Tree(folder.name, root, folder.stat().st_mtime))
        return trees

    def mark_used(self) -> None:
        with suppress(OSError):
            os.utime(self.tree_path)

    def remove_tree(self, name: str) -> None:
        """Its build keeps its entries until it is tidied up."""
        with translate_errors(self.path):
            (self.path / "trees" / name / "current").unlink(missing_ok=True)  # first: then nobody opens it any more
            shutil.rmtree(self.path / "trees" / name, ignore_errors=True)
            for derived in self.path.glob(f"v*-*/{name}"):
                shutil.rmtree(derived, ignore_errors=True)

    def remove_other_builds(self, keep: Path) -> None:
        """Remove all builds that no tree is searched in, and what a crash left half removed. A build that is still
        being read stays until next time."""
        used = {keep.name}
        for current in self.path.glob("trees/*/current"):
            with suppress(OSError):
                used.add(_text(current))
        for build in self.path.glob("v*-*"):
            if build.name not in used:
                _rename_unused(build, [build], self.path / f"removed-{os.urandom(4).hex()}")
        for removed in self.path.glob("removed-*"):
            shutil.rmtree(removed, ignore_errors=True)
        for unused in self.path.glob(".*-*"):
            unused.unlink(missing_ok=True)

    def set_aside(self, build: Path) -> Path:
        """Move a damaged build away, in place of an older one, with a note for the other trees it was of."""
        with translate_errors(self.path):
            for old in self.path.glob("damaged-*"):
                shutil.rmtree(old, ignore_errors=True)
            aside = self.path / f"damaged-{build.name}"
            build.rename(aside)
            for current in self.path.glob("trees/*/current"):
                if _text(current) == build.name:
                    if current.parent != self.tree_path:
                        replace_file(current.with_name("damaged"), aside.name.encode())
                    current.unlink(missing_ok=True)
        return aside

    def take_damage_note(self) -> str:
        """The name under which a sibling's process set aside the build of this tree, once; "" if none did."""
        try:
            name = _text(self.tree_path / "damaged")
            (self.tree_path / "damaged").unlink()
        except OSError:
            return ""
        return name

    def clear(self) -> None:
        """Remove the whole family. The caller holds the lock: renamed at once, so that whoever waits for it makes a new
        folder and neither fills nor loses anything in this one."""
        with translate_errors(self.path):
            self.path.rename(_removal_path(self.path))
        _remove_leftovers(self.path.parent)

    @contextmanager
    def lock(
        self, patience_s: float = 0, waiting: Callable[[], None] = lambda: None, *, to_remove: bool = False
    ) -> Iterator[bool]:
        """Hold the right to write in this family, or raise Busy: at once if the holder is indexing this tree, which
        can be searched meanwhile, after `patience_s` if it is another one; `waiting` is called until then, and may
        raise to give up. Yields whether the last holder died. `to_remove`: a full disk does not matter."""
        handle = self._locked_file(patience_s, waiting)
        try:
            died = bool(os.pread(handle, 1, 0))
            with suppress(*(OutOfSpace,) if to_remove else ()), translate_errors(self.path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()} {self.tree}".encode(), 0)
                private_folder(self.tree_path, self._cache)
                if not self.is_marked():
                    replace_file(self.tree_path / self._marker[0], self._marker[1])
            yield died
        finally:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    def is_unfinished(self) -> bool:
        """Whether the last holder of the lock died at work, and nobody has checked since."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if not os.pread(handle, 1, 0):
                return False
            return try_lock(handle, self.path / "lock", shared=True) and bool(os.pread(handle, 1, 0))
        except OSError:  # a pipe: who takes the lock is told
            return True
        finally:
            os.close(handle)

    def _locked_file(self, patience_s: float, waiting: Callable[[], None]) -> int:
        waited_s = 0.0  # counted, as by `locked`
        while True:
            with translate_errors(self.path):
                try:
                    private_folder(self.path, self._cache)
                    handle = open_private(self.path / "lock", os.O_RDWR)
                except FileNotFoundError:  # another process clears it just now
                    if waited_s >= LOCK_PATIENCE_S:
                        raise
                    time.sleep(_LOCK_RETRY_S)
                    waited_s += _LOCK_RETRY_S
                    continue
            try:
                locked = try_lock(handle, self.path / "lock")
                pid, _, tree = ("" if locked else os.read(handle, 300).decode("utf-8", "replace")).partition(" ")
            except BaseException:
                os.close(handle)
                raise
            if locked and is_at(self.path / "lock", handle):
                return handle
            os.close(handle)  # if it was cleared between opening and locking, the lock means nothing
            if locked:
                continue
            if _is_gone(pid):  # a child that it was starting, or a look at the lock, holds it for a moment longer
                is_busy = waited_s >= max(patience_s, LOCK_PATIENCE_S)
            else:
                is_busy = tree == self.tree or waited_s >= patience_s
            if is_busy:
                what = self.root if tree in ("", self.tree) else f"{tree}, which shares its index with {self.root},"
                raise Busy(
                    f"{what} is being indexed by process {pid or 'unknown'}",
                    SEARCH_MEANWHILE,
                )
            waiting()
            time.sleep(_LOCK_RETRY_S)
            waited_s += _LOCK_RETRY_S


def _is_gone(pid: str) -> bool:
    """Whether the process that wrote its number into a lock was killed, or has erased it and released the lock."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OverflowError, OSError):  # OSError: another user's
        return not pid
    return False


def _readable(path: Path) -> str:
    """A readable folder name that is unique to this path."""
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', path.name)[:40] or 'root'}-{digest}"


def _text(path: Path) -> str:
    return read_private(path).decode("utf-8", "replace").strip()


def indexed_roots(cache: Path) -> list[Path]:
    """The work trees with an index in this cache, without those whose `root` is damaged."""
    roots = []
    for marker in sorted(cache.glob("indexes/[!.]*/trees/*/root")):
        with suppress(OSError):
            root = Path(os.fsdecode(read_private(marker)))
            if marker.parent.name == _readable(root):
                roots.append(root)
    return roots


def make_room(cache: Path, most_bytes: int, keep: Path) -> None:
    """Remove the indexes of whole families, least recently used first, until the rest takes at most this much.
    `keep` stays, and so does what is being read or written."""
    families = []
    for family in (cache / "indexes").glob("*"):
        used_at = max((tree.stat().st_mtime for tree in family.glob("trees/*")), default=0.0)
        families.append((used_at, family, bytes_under(family)))
    total = sum(size for _, _, size in families)
    for _, family, size in sorted(families):
        if total <= most_bytes:
            return
        if family != keep and _remove_family(family):
            total -= size


def bytes_under(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _remove_family(family: Path) -> bool:
    """False if one of its builds is open, or being written."""
    if not _rename_unused(family, (family / "lock", *family.glob("v*-*")), _removal_path(family)):
        return False
    _remove_leftovers(family.parent)
    return True


def _removal_path(family: Path) -> Path:
    """What it is called until it is removed, if necessary by another process."""
    return family.with_name(f".removed-{os.urandom(4).hex()}")


def _remove_leftovers(indexes: Path) -> None:
    for removed in indexes.glob(".removed-*"):
        shutil.rmtree(removed, ignore_errors=True)


def _rename_unused(folder: Path, locks: Iterable[Path], target: Path) -> bool:
    """Rename a folder before it is removed: nobody may open half of it. False if somebody holds one of `locks`."""
    with ExitStack() as handles:
        try:
            for path in locks:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                handles.callback(os.close, handle)
                if not try_lock(handle, path):
                    return False
            folder.rename(target)
        except OSError:
            return False
    return True
