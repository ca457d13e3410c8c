"""Server mode: indexes of a process that answers many calls. One refresh of a root at a time, none while nothing has
changed, and no search that waits longer than it may."""

from __future__ import annotations

import logging
import threading
import time

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine import search as engine_search
from codeinfo.engine.index_manager import Fresh, Indexes, IndexManager, ProgressSink, Since
from codeinfo.errors import Busy
from codeinfo.operations.base import Progress
from codeinfo.serve.watch import Watch
from codeinfo.store.sqlite import SqliteStore

_LOOK_S = 0.1  # between looks at a running refresh: how fine its progress is reported
_LISTING_S = 30.0  # even a huge tree is listed by then; otherwise the caller learns that there is nothing yet
_GIVE_WAY_S = 0.5  # to those who waited for a refresh: they have searched by then
_CLOSE_S = 2.0  # a stopped refresh ends after the file at hand
_log = logging.getLogger(__name__)


def server_engine(config: Config) -> Engine:
    return Engine(config, ServerIndexes(config))


class ServerIndexes(Indexes):
    """Refreshes run in threads of their own, one a root, and are joined by every call that needs them. A search waits
    `mcp.patience_s` before it takes the index as it is."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._patience_s = config.mcp.patience_s
        self._roots_lock = threading.Lock()  # guards the roots, their jobs, and who waits for these
        self._roots: dict[int, _Root] = {}

    def refresh(self, index: IndexManager, *, full: bool = False, progress: ProgressSink | None = None) -> Fresh:
        fresh = self._refresh(index, progress, full=full, wait=True)
        assert fresh is not None  # whoever waits gets a report
        return fresh

    def refresh_for_search(self, index: IndexManager, progress: ProgressSink | None) -> Fresh | None:
        return self._refresh(index, progress, full=False, wait=False)

    def _refresh(self, index: IndexManager, progress: ProgressSink | None, *, full: bool, wait: bool) -> Fresh | None:
        """What a refresh did, or None where nothing changed since the last. With `wait` it is done in any case and to
        its end; without, Busy says that it goes on in the background."""
        root = self._root(index)
        arrived = time.monotonic()
        while True:
            with root.lock:
                job = root.job
                if job is None or job.done.is_set():  # while one runs, clean means only that it will have seen it all
                    if not full and not wait and root.watch.is_clean() and index.live_store() is not None:
                        return None
                    if job is not None:
                        job.is_latest = False
                    job = root.job = _Job(index, root.watch, full, None if full or wait else job)
            self._join(job, None if wait else arrived + self._patience_s, progress)
            if job.started >= arrived and job.full == full and not job.stopped and not (wait and job.before):
                return job.outcome()
            # It looked at the files before this call did, or another call has stopped it: once more.

    def progress_of(self, index: IndexManager) -> Progress | None:
        job = self._root(index).job
        return None if job is None or job.done.is_set() else job.latest

    def stop(self) -> None:
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
            return self._roots.setdefault(id(index), _Root(index))

    def _join(self, job: _Job, until: float | None, progress: ProgressSink | None) -> None:
        """Wait for a job. When the last one who does so is cancelled (`progress` raises), the job is stopped."""
        with self._roots_lock:
            job.waiting += 1
        try:
            while not job.done.wait(_LOOK_S):
                if progress is not None:
                    progress(job.latest)
                if until is not None and time.monotonic() > until and job.has_something():
                    raise Busy(f"{job.index.root} is being indexed ({_describe(job.latest)})")
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
        self.index = index  # also keeps its identity from being given to another
        self.lock = threading.Lock()
        self.watch = Watch(index.root)
        self.job: _Job | None = None


class _Job:
    """One refresh in a thread of its own, for all who wait for it. After one that looked at everything it looks at what
    has changed since, where that is known."""

    def __init__(self, index: IndexManager, watch: Watch, full: bool, before: _Job | None) -> None:
        self.index = index
        self.full = full
        self.before = before._fresh.seen if before is not None and before._fresh is not None else None
        self.started = time.monotonic()
        self.latest = Progress("walk", 0)
        self.waiting = 0
        self.stopped = False
        self.is_latest = True
        self.done = threading.Event()
        self._watch = watch
        self._fresh: Fresh | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="codeinfo refresh", daemon=True).start()

    def has_something(self) -> bool:
        """Whether there is an index to search meanwhile: a new one is there once the files have been listed."""
        return self.index.live_store() is not None or time.monotonic() - self.started > _LISTING_S

    def outcome(self) -> Fresh:
        if self._error is not None:
            raise self._error
        assert self._fresh is not None
        return self._fresh

    def _run(self) -> None:
        documents = self.index.source.documents  # a collection's files may lie in several places: nothing to watch
        try:
            events = None if documents else self._watch.start()
            since = Since(self.before, events) if self.before is not None and events is not None else None
            self._fresh = self.index.refresh(full=self.full, since=since, progress=self._report)
        except BaseException as error:
            self._watch.spoil()
            self._error = error
        finally:
            rest_s = _GIVE_WAY_S if self.waiting else 0.0
            self.done.set()
        if self._fresh is not None and not documents:
            time.sleep(rest_s)
            self._warm_up(self._fresh.store)

    def _warm_up(self, store: SqliteStore) -> None:
        """Nobody waits for this; what fails here fails again, and is reported, where somebody does."""
        try:
            if self.is_latest and not self.stopped:
                engine_search.warm_up(self.index, store)
        except Exception:
            _log.debug("warming up %s failed", self.index.root, exc_info=True)

    def _report(self, progress: Progress) -> None:
        if self.stopped:
            raise KeyboardInterrupt
        self.latest = progress


def _describe(progress: Progress) -> str:
    return f"{progress.done} of {progress.total} files" if progress.total else "looking for files"
