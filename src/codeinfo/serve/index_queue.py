"""Indexing on request, one root after the other: a durable queue and the thread that works on it.

One process works on the queue at a time (a lock decides); others may add to it and look. What a dead process left
running is done again: an index run goes on where it stopped. A team's server has none: workers index its projects.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from codeinfo.errors import Busy, CodeInfoError, NotFound
from codeinfo.jsonable import dumps
from codeinfo.model import Skip
from codeinfo.operations.base import Progress
from codeinfo.operations.clients import SHOWN, IngestRun, IngestStatus
from codeinfo.operations.search import IndexReport, IndexRequest
from codeinfo.store.user_data import WAITING, IngestRow, IngestStore

if TYPE_CHECKING:
    from codeinfo.engine.engine import Engine


MOST_WAITING = 64
FINISHED_SHOWN = 20
_LOOK_S = 1.0  # between looks at a queue that another process may have added to
_CLOSE_S = 10.0  # a stopped run ends after the file at hand

log = logging.getLogger(__name__)


class IndexQueue:
    """The queue of one data folder. `changed` is called, in any thread, whenever something about a run changed."""

    def __init__(self, engine: Engine, changed: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._changed = changed
        self._store = IngestStore(engine.config.paths.data_dir)
        self._wake = threading.Event()
        self._closing = False
        self._current = ""
        self._progress: Progress | None = None
        self._cancelled = False
        self._thread = threading.Thread(target=self._work, name="codeinfo ingest", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """The running run stops and stays in the queue for the next process."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)
        self._store.close()

    # --- asking ---

    def add(self, root: Path, *, full: bool = False) -> IngestRun:
        added = self._store.add(str(root), full=full, most=MOST_WAITING)
        if added is None:
            raise Busy(f"{MOST_WAITING} folders wait to be indexed already", next_step="Try again when some are done")
        self._wake.set()
        self._changed()
        return self.run(added[0].id)

    def cancel(self, identity: str) -> IngestRun:
        if not self._store.cancel_waiting(identity) and identity == self._current:
            self._cancelled = True
        self._changed()
        return self.run(identity)

    def run(self, identity: str) -> IngestRun:
        row = self._store.get(identity)
        if row is None:
            raise NotFound(f"there is no run {identity!r}", next_step="See the list of runs")
        places = [waiting.id for waiting in self._store.waiting()]
        return self._shown(row, places.index(identity) + 1 if identity in places else 0)

    def status(self) -> IngestStatus:
        waiting = [self._shown(row, place) for place, row in enumerate(self._store.waiting(), 1)]
        finished = [self._shown(row, 0) for row in self._store.finished(FINISHED_SHOWN)]
        return IngestStatus(tuple(waiting), tuple(finished))

    def is_busy(self, root: Path) -> bool:
        return any(row.root == str(root) for row in self._store.waiting())

    def _shown(self, row: IngestRow, position: int) -> IngestRun:
        outcome = json.loads(row.outcome) if row.outcome else {}
        skipped = tuple(Skip(**skip) for skip in outcome.pop("skipped", ()))
        run = IngestRun(
            row.id,
            row.root,
            row.full,
            row.state,
            position if row.state in WAITING else 0,
            row.created_at,
            row.started_at,
            row.finished_at,
            skipped=skipped,
            notes=tuple(outcome.pop("notes", ())),
            error=row.error,
            error_code=row.error_code,
            **outcome,
        )
        return replace(run, progress=self._progress) if row.id == self._current else run

    # --- working ---

    def _work(self) -> None:
        """Wait to be the one process that works on this queue, and do so."""
        while not self._closing:
            try:
                with self._store.worker() as held:
                    if held:
                        self._store.resume()
                        self._take_turns()
            except CodeInfoError:
                log.exception("the queue cannot be used any more")
                return
            self._rest()

    def _take_turns(self) -> None:
        while not self._closing:
            row = self._store.take()
            if row is None:
                self._rest()
            else:
                self._perform(row)

    def _rest(self) -> None:
        self._wake.wait(_LOOK_S)
        self._wake.clear()

    def _perform(self, row: IngestRow) -> None:
        self._cancelled, self._progress, self._current = False, Progress("walk", 0), row.id
        self._changed()
        try:
            self._engine.indexes.of(row.root)  # as it was added, whatever lies around it
            (report,) = self._engine.index(IndexRequest((row.root,), row.full), self._report).reports
            self._store.finish(row.id, "done", outcome=dumps(_outcome(report)))
        except KeyboardInterrupt:
            if not self._closing:  # else it stays running, and the next process does it again
                self._store.finish(row.id, "cancelled")
        except CodeInfoError as error:
            self._store.finish(row.id, "failed", error=str(error), error_code=error.code)
        except Exception as error:  # one folder's fault must not end the queue
            log.exception("indexing %s failed", row.root)
            self._store.finish(row.id, "failed", error=f"{type(error).__name__}: {error}", error_code="INTERNAL")
        finally:
            self._current, self._progress = "", None
            self._changed()

    def _report(self, progress: Progress) -> None:
        if self._cancelled or self._closing:
            raise KeyboardInterrupt
        if progress != self._progress:
            self._progress = progress
            self._changed()


def _outcome(report: IndexReport) -> dict[str, Any]:
    notable = sorted(report.skipped, key=lambda skip: not skip.matters)
    return {
        "files": report.files,
        "chunks": report.chunks,
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "took_ms": report.took_ms,
        "skipped": notable[:SHOWN],
        "skipped_total": len(report.skipped),
        "notes": report.notes,
    }
