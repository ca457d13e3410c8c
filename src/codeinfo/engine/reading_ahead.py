"""Reading ahead while an engine lasts: in slices of a few milliseconds, with rests between them for whoever asks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from codeinfo.engine import ahead_file
from codeinfo.engine.ahead import Ahead
from codeinfo.engine.world import Contents, IndexWorld
from codeinfo.graph.model import Graph
from codeinfo.graph.resolve import Resolver
from codeinfo.ports import CodeFacts
from codeinfo.store.sqlite import SqliteStore, read_beside, write_beside

_QUIET_S = 1.0  # the first questions of a process, and those after an edit, come together
_SLICE_S = 0.003  # a question waits no longer than this for the slice at hand
_REST = 3  # times as long as the slice before it: a quarter of one processor at most
_REST_WHILE_BUSY = 30  # while the process has enough to do for those who ask now
_BUSY = 0.5  # of a processor
_CLOSE_S = 2.0
_KEPT_UNITS, _KEPT_CHARACTERS = 1500, 8_000_000  # while reading file by file: far less than questions keep
_log = logging.getLogger(__name__)


class CommonNames:
    """What was read ahead of one index, and the reading of what is missing."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._ahead: Ahead | None = None
        self._contents = Contents(_KEPT_UNITS, _KEPT_CHARACTERS)
        self._steps: Iterator[None] = iter(())
        self._world: IndexWorld | None = None  # that the steps read
        self._resolver: Resolver | None = None  # that is prepared for all languages

    def known(self, graph: Graph, resolver: Resolver) -> Ahead:
        """What holds in this generation."""
        if self._ahead is None:
            data = read_beside(self._store, ahead_file.NAME)
            self._ahead = (ahead_file.loads(data, graph) if data else None) or Ahead(graph)
        elif self._ahead.graph is not graph:
            self._ahead.follow(graph, resolver.visible)
        return self._ahead

    def read(self, facts: CodeFacts, graph: Graph, resolver: Resolver, seconds: float) -> bool:
        """Read on for so long. Says whether nothing is missing any more; then what is known was written down."""
        self._prepare(graph, resolver)
        ahead = self.known(graph, resolver)
        if self._world is None or self._world.graph is not graph:
            if ahead.is_chosen and not ahead.missing(graph):
                return True
            self._world = IndexWorld(facts, graph, resolver, self._contents)
            self._steps = ahead.steps(self._world)
        self._world.facts = facts
        end = time.perf_counter() + seconds
        for _ in self._steps:
            if time.perf_counter() > end:
                return False
        self._world, self._contents = None, Contents(_KEPT_UNITS, _KEPT_CHARACTERS)
        if ahead.rows:
            write_beside(self._store, ahead_file.NAME, ahead_file.dumps(ahead))
        return True

    def _prepare(self, graph: Graph, resolver: Resolver) -> None:
        """What resolves the imports of a language is made with its first file: no search should wait for that."""
        if resolver is not self._resolver:
            for file in {file.language: file for file in graph.files.values()}.values():
                resolver.visible(file)
            self._resolver = resolver


class ReadingAhead:
    """Threads, one for each root that is asked about; `read` goes on for some seconds and says whether it is done."""

    def __init__(self, read: Callable[[Path, float], bool]) -> None:
        self._read = read
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: dict[Path, threading.Thread] = {}

    def notice(self, root: Path) -> None:
        """Somebody asks about this root and may ask for more."""
        with self._lock:
            known = self._threads.get(root)
            if self._stop.is_set() or (known is not None and known.is_alive()):
                return
            thread = threading.Thread(target=self._run, args=(root,), name="codeinfo reading ahead", daemon=True)
            self._threads[root] = thread
            thread.start()

    def _run(self, root: Path) -> None:
        wait = _QUIET_S
        try:
            while True:
                used = time.process_time()
                if self._stop.wait(wait):
                    return
                is_busy = time.process_time() - used > _BUSY * wait
                started = time.perf_counter()
                if self._read(root, _SLICE_S):
                    return
                wait = (_REST_WHILE_BUSY if is_busy else _REST) * (time.perf_counter() - started)
        except Exception:  # nobody waits for this: whoever asks for the same finds out, and is told
            _log.debug("reading ahead in %s ended", root, exc_info=True)

    def close(self) -> None:
        self._stop.set()
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(_CLOSE_S)
