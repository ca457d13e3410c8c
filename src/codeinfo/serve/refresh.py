"""Fresh indexes in a server: one refresh per root at a time, none while the kernel reports no change.

The events are read when a question is asked. The kernel queues them before the write that causes them returns, so a
file saved before a call is noticed by that call, however soon it comes: there is no thread that could lag behind.
"""

from __future__ import annotations

import ctypes
import logging
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine.index_manager import Baseline, Events, IndexManager, RefreshResult, Since
from codeinfo.engine.indexes import Indexes, Place
from codeinfo.errors import SEARCH_MEANWHILE, Busy, CodeInfoError
from codeinfo.operations.base import Progress, ProgressSink
from codeinfo.sources.ignore import OVERRIDES_NAME, folder_rule
from codeinfo.sources.walk import own_folders

WALK_AGAIN_S = 30.0  # for what the kernel misses: network folders, memory-mapped writes, git's own ignore files

MOST_CHANGED = 200  # files compared one by one: after a checkout or a build a walk is faster

MEMORIES = ".codeinfo"  # not indexed, but its content takes part in answers

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x02, 0x04, 0x08, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_CHANGES = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_COMES_OR_GOES = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 1 << 16


class Watch:
    """One root. `is_clean` answers from the events since `start`; if nothing can be watched it is always False."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._handle = -1
        self._folders: dict[int, str] = {}  # by the kernel's watch number, relative to the root
        self._folders_changed = True
        self._clean = False
        self._walked = -WALK_AGAIN_S
        self._changed: dict[str, bool] = {}
        self._knows_all = False
        self._lock = threading.RLock()

    def start(self) -> Events:
        """Call before comparing files: whatever happens from now on makes the root unclean again.

        Returns what happened since the last start; incomplete if that is unknown, or if the last full comparison was
        long ago.
        """
        with self._lock:
            if self._handle < 0:
                self._handle = _notify_init()
                self._folders_changed = True
            self._drain()
            events = Events(self._changed, self._knows_all and self._is_recent() and not self._folders_changed)
            if not events.are_all:
                self._walked = time.monotonic()
            if self._handle >= 0 and self._folders_changed:
                self._folders_changed = False
                if not all(self._add(folder) for folder in _list_folders(self._root)):
                    self.close()  # too many folders for this user's limit: part of a tree must not pass for all of it
            self._clean = self._knows_all = self._handle >= 0
            self._changed = {}
            return events

    def is_clean(self) -> bool:
        with self._lock:
            self._drain()
            return self._clean and self._is_recent()

    def invalidate(self) -> None:
        """The walk that followed `start` was not completed."""
        with self._lock:
            self._clean = self._knows_all = False

    def close(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, -1
            self._folders.clear()
            self.invalidate()
            if handle >= 0:
                os.close(handle)

    def _is_recent(self) -> bool:
        return time.monotonic() - self._walked < WALK_AGAIN_S

    def _add(self, folder: str) -> bool:
        """False if the folder cannot be watched; one that is already gone needs no watch."""
        number: int = _libc().inotify_add_watch(self._handle, os.fsencode(folder), _CHANGES | _ONLY_FOLDERS | _NO_LINKS)
        if number >= 0:
            self._folders[number] = folder[len(self._root) + 1 :]
        return number >= 0 or not os.path.isdir(folder)

    def _drain(self) -> None:
        if self._handle < 0:
            return
        with suppress(BlockingIOError):
            while data := os.read(self._handle, _READ_BYTES):
                for number, mask, name in _decode_events(data):
                    self._record(number, mask, name)

    def _record(self, number: int, mask: int, name: str) -> None:
        if mask & _IGNORED:
            return
        self._clean = False
        is_other_folder = mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO | _MOVED_FROM)
        if mask & _OVERFLOW or is_other_folder or name == OVERRIDES_NAME:
            self._folders_changed = True
        folder = self._folders.get(number)
        if not name or folder is None or mask & _IS_FOLDER or len(self._changed) >= MOST_CHANGED:
            self._knows_all = False
        else:
            path = f"{folder}/{name}" if folder else name
            self._changed[path] = self._changed.get(path, False) or bool(mask & _COMES_OR_GOES)


def _decode_events(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(data):
        number, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield number, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


def _list_folders(root: str) -> Iterator[str]:
    """Every folder whose files could belong to the index. Those that git ignores are included: an extra event costs
    one walk, a missing one a wrong answer."""
    waiting, own = [(root, False)], own_folders(root)
    while waiting:
        folder, keeps_all = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        inside = folder[len(root) + 1 :]
        keeps_all = keeps_all or OVERRIDES_NAME in names  # it may re-include what the default rules exclude
        for name in (name for name, is_folder in names.items() if is_folder):
            path = f"{inside}/{name}" if inside else name
            is_kept = keeps_all or path in own or folder_rule(name, inside) is None
            if name == MEMORIES or (name != ".git" and is_kept):
                waiting.append((f"{folder}/{name}", keeps_all))


def _notify_init() -> int:
    if not sys.platform.startswith("linux"):
        return -1
    handle: int = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return handle


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# --- refreshes -------------------------------------------------------------------------------------------------------

_LOOK_S = 0.1  # between checks of a running refresh: the granularity of its progress
_LISTING_S = 30.0  # even a huge tree is listed by then; otherwise the caller learns that there is nothing yet
_CLOSE_S = 2.0  # a stopped refresh ends after the current file
_log = logging.getLogger(__name__)


def server_engine(config: Config) -> Engine:
    return Engine(config, ServerIndexes(config))


class ServerIndexes(Indexes):
    """Refreshes run in threads of their own, one per root, and are shared by every call that needs them. A search
    waits `mcp.patience_s` before it uses the index as it is."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._stopped = threading.Event()
        self._listening = False
        self._patience_s = config.mcp.patience_s
        self._roots_lock = threading.Lock()  # guards the roots, the latest job of each, and who waits for it
        self._roots: dict[IndexManager, _Root] = {}

    def refresh(
        self, index: IndexManager, progress: ProgressSink, *, full: bool = False, wait: bool = False
    ) -> RefreshResult | None:
        """With `wait` it always runs to its end; without, Busy says that it continues in the background."""
        root = self._root(index)
        arrived = time.monotonic()
        while True:
            job = root.job
            if job is None or job.done.is_set():
                job = self._begin(index, job, full=full, wait=wait)
            if job is None:
                return None
            self._join(job, None if wait else arrived + self._patience_s, progress)
            if job.started >= arrived and job.full == full and not job.stopped and not (wait and job.before):
                return job.outcome()
            # It looked at the files before this call began, or another call has stopped it: try again.

    def _begin(self, index: IndexManager, ended: _Job | None, *, full: bool, wait: bool) -> _Job | None:
        """A new job after the one that has ended, or what another call has begun meanwhile; None if nothing changed."""
        root = self._root(index)
        clean = not full and not wait and root.watch.is_clean() and index.live_store() is not None
        with self._roots_lock:
            if root.job is ended:  # otherwise one has begun: clean means only that it will have seen everything
                if clean:
                    return None
                root.job = _Job(index, root.watch, full, None if full or wait else ended)
            return root.job

    def progress_of(self, index: IndexManager) -> Progress | None:
        job = self._root(index).job
        return None if job is None or job.done.is_set() else job.latest

    def is_current(self, index: IndexManager) -> bool:
        job = self._root(index).job
        return job is None or job.succeeded

    def find(self, path: str | Path, root: str = "", at: str = "") -> Place:
        place = super().find(path, root, at)
        if place.index.team is not None and not self._listening:
            self._listening = True
            threading.Thread(target=self._follow_team, name="codeinfo team", daemon=True).start()
        return place

    def _follow_team(self) -> None:
        """Pull what others have written as soon as they are done, so that the next question need not wait for it. A
        notice missed here is caught by that question."""
        from codeinfo.team.store import DROPPED

        assert self.team is not None
        for notice in self.team.changes(self._stopped):
            tree, _, generation = notice.partition(" ")
            if not tree or int(generation) == DROPPED:
                self._drop_copies()
            trees = self.trees.open_indexes()
            for number in trees if not tree else {int(tree)} & trees.keys():
                try:
                    trees[number].confirm(None)
                    trees[number].refresh()
                except CodeInfoError:
                    _log.debug("pulling %s failed", trees[number].root, exc_info=True)

    def _drop_copies(self) -> None:
        """Remove local copies of trees that the team has dropped; one in use is removed next time."""
        from codeinfo.team.store import list_dropped_trees

        try:
            assert self.team is not None
            for row in list_dropped_trees(self.team):
                self.trees.drop_copy(row)
        except CodeInfoError as error:
            _log.warning("copies of dropped trees stay for now: %s", error)

    def stop(self) -> None:
        self._stopped.set()
        with self._roots_lock:
            roots, self._roots = list(self._roots.values()), {}
        jobs = [root.job for root in roots if root.job is not None]
        for job in jobs:
            job.stopped = True
        for job in jobs:
            job.done.wait(_CLOSE_S)
        for root in roots:
            root.watch.close()

    def _root(self, index: IndexManager) -> _Root:
        with self._roots_lock:
            return self._roots.setdefault(index, _Root(index))

    def _join(self, job: _Job, until: float | None, progress: ProgressSink) -> None:
        """Wait for a job. When its last waiting caller is cancelled (`progress` raises), the job is stopped."""
        with self._roots_lock:
            job.waiting += 1
        try:
            while not job.done.wait(_LOOK_S):
                if progress is not None:
                    progress(job.latest)
                if until is not None and time.monotonic() > until and job.can_be_searched():
                    done, total = job.latest.done, job.latest.total
                    far = f"{done} of {total} files" if total else "looking for files"
                    raise Busy(f"{job.index.root} is being indexed ({far})", SEARCH_MEANWHILE)
        except Busy:
            raise
        except BaseException:
            job.stopped = job.waiting == 1
            raise
        finally:
            with self._roots_lock:
                job.waiting -= 1


class _Root:
    def __init__(self, index: IndexManager) -> None:
        self.watch = Watch(index.root)
        self.job: _Job | None = None


class _Job:
    """One refresh in its own thread, shared by all callers that wait for it. After a full one it only compares what
    has changed since, if that is known."""

    def __init__(self, index: IndexManager, watch: Watch, full: bool, before: _Job | None) -> None:
        self.index = index
        self.full = full
        self.before: Baseline | None = before._result.baseline if before is not None and before._result else None
        self.started = time.monotonic()
        self.latest = Progress("walk", 0)
        self.waiting = 0
        self.stopped = False
        self.done = threading.Event()
        self._watch = watch
        self._result: RefreshResult | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="codeinfo refresh", daemon=True).start()

    def can_be_searched(self) -> bool:
        """Whether there is an index to search meanwhile: a new one exists once the files have been listed."""
        return self.index.live_store() is not None or time.monotonic() - self.started > _LISTING_S

    @property
    def succeeded(self) -> bool:
        return self._result is not None and self.done.is_set()

    def outcome(self) -> RefreshResult:
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        documents = self.index.source.documents  # a collection's files may lie in several places: nothing to watch
        try:
            events = None if documents else self._watch.start()
            since = Since(self.before, events) if self.before is not None and events is not None else None
            self._result = self.index.refresh(full=self.full, since=since, progress=self._report)
        except BaseException as error:
            self._watch.invalidate()
            # Only a fault needs its frames: they hold this job, and with it a list of all files.
            self._error = error.with_traceback(None) if isinstance(error, CodeInfoError) else error
        finally:
            self.done.set()

    def _report(self, progress: Progress) -> None:
        if self.stopped:
            raise KeyboardInterrupt
        self.latest = progress
