"""Keeps one root's index fresh: finds what changed, takes the lock, builds, mends what is damaged, swaps builds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from codeinfo.config import Config
from codeinfo.errors import IndexDamaged, IndexTooNew
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.diff import Changes, compare
from codeinfo.ports import Embedder
from codeinfo.requests import IndexReport, Progress
from codeinfo.settings import IndexSettings
from codeinfo.sources.walk import WalkSettings, walk
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore
from codeinfo.types import Skip, Walk

TOKENS_VERSION = 1  # raise when tokens.py or the field weights change what is stored
KEYWORD_ONLY = (
    "no embedding model is set up, so this is keyword search only: set embedding.provider to use meaning as well"
)

ProgressSink = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Fresh:
    """An opened index and what was done to bring it up to date."""

    store: SqliteStore
    report: IndexReport
    announcements: tuple[str, ...] = ()  # what a search must pass on: a mended index, a missing model


class Upkeep:
    """One root: its folder in the cache, its settings, its open store."""

    def __init__(self, root: Path, config: Config, embedder: Embedder | None) -> None:
        self.root = root
        self.config = config
        self.embedder = embedder
        self.folder = IndexFolder(config.paths.cache_dir, root)
        self._store: SqliteStore | None = None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    # --- what there is ---

    def recipe(self) -> str:
        """Everything that makes an index another one; a changed recipe means a rebuild."""
        model = f"{self.embedder.model_id}/{self.embedder.dimension}" if self.embedder else "none"
        return json.dumps([TOKENS_VERSION, chunk_settings(self.config.index).fingerprint(), model])

    def walk(self) -> Walk:
        index = self.config.index
        found = walk(self.root, WalkSettings(max_file_bytes=index.max_file_bytes, submodules=index.submodules))
        odd = tuple(file for file in found.files if not _is_unicode(file.path))
        if not odd:
            return found
        skips = (Skip(file.path, "odd-name", "its name is not UTF-8, which JSON needs", matters=True) for file in odd)
        return Walk(tuple(file for file in found.files if file not in odd), (*found.skipped, *skips))

    def live_store(self) -> SqliteStore | None:
        """The live build, opened once and kept while it stays the live one."""
        build = self.folder.current()
        if self._store is not None and (build is None or self._store.folder != build):
            self.close()
        if self._store is None and build is not None:
            self._store = SqliteStore(build)
        return self._store

    def standing_notes(self) -> tuple[str, ...]:
        """What every answer from this index must say."""
        return (KEYWORD_ONLY, *self.config.notes) if self.embedder is None else self.config.notes

    def pending(self) -> tuple[Walk, Changes | None]:
        """What the next run would do; None where it would build everything."""
        walked, store = self.walk(), self.live_store()
        if store is None or store.meta().get("recipe") != self.recipe():
            return walked, None
        return walked, compare(store.manifest(), walked.files)

    # --- bringing it up to date ---

    def refresh(self, *, full: bool = False, progress: ProgressSink | None = None) -> Fresh:
        """Do what is needed, nothing more. A damaged index is set aside, built anew, and announced."""
        started = time.monotonic()
        try:
            return self._refresh(started, full, progress, [])
        except IndexTooNew:
            raise
        except IndexDamaged as damage:
            return self._refresh(started, full, progress, [self._set_aside(damage)])

    def _refresh(self, started: float, full: bool, progress: ProgressSink | None, notes: list[str]) -> Fresh:
        if progress is not None:
            progress(Progress("walk", 0))
        walked, changes = self.pending()
        store = self._store
        if store is not None and changes is not None and not changes and not full and is_complete(store):
            report = self._report(store, walked, started, notes)
            announced = (*notes, *self.standing_notes())
            return Fresh(store, replace(report, unchanged=changes.unchanged), announced)
        with self.folder.lock():
            return self._build(walked, full, progress, started, notes)

    def _build(
        self, walked: Walk, full: bool, progress: ProgressSink | None, started: float, notes: list[str]
    ) -> Fresh:
        from codeinfo.index.build import build  # a search that finds nothing changed does not need the parser

        live = self.live_store()  # again, under the lock: another process may just have finished
        target, store = self._target(live, full)
        if live is None:
            self.folder.promote(target)  # a first search may then already read what is there
        changes = compare(store.manifest(), walked.files)
        outcome = build(
            self.root,
            store,
            changes,
            chunk_settings(self.config.index),
            self.embedder,
            workers=self.config.index.workers or available_processors(),
            progress=progress,
        )
        store.finish(self._meta())
        if store is not live:
            self.folder.promote(target)
            self.close()
            self._store = store
        self.folder.remove_other_builds(target)
        unread = tuple(skip for skip in outcome.skipped if skip.matters)
        report = self._report(store, walked, started, [*notes, *outcome.notes], unread)
        return Fresh(
            store,
            replace(
                report,
                added=outcome.added,
                changed=outcome.changed,
                renamed=outcome.renamed,
                removed=len(changes.removed),
                unchanged=report.files - outcome.added - outcome.changed,
                rebuilt=live is not None and store is not live,
            ),
            (*notes, *self.standing_notes()),
        )

    def _target(self, live: SqliteStore | None, full: bool) -> tuple[Path, SqliteStore]:
        """The build to fill: the live one, or one beside it when the recipe changed or everything is to be redone."""
        recipe = self.recipe()
        if live is not None and not full and live.meta().get("recipe") == recipe:
            return live.folder, live
        target = self.folder.build_path(recipe, beside=live.folder if live else None)
        if full:
            self.folder.remove_build(target)
        return target, SqliteStore(target, recipe=recipe)

    def _set_aside(self, damage: IndexDamaged) -> str:
        self.close()
        with self.folder.lock():
            build = self.folder.current()
            if build is None:
                return f"{damage.what}; it was built anew"
            aside = self.folder.set_aside(build)
        return f"{damage.what}; it was set aside as {aside.name} and built anew"

    def _meta(self) -> dict[str, str]:
        return {
            "indexed_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "root": str(self.root),
            "model_id": self.embedder.model_id if self.embedder else "",
            "dimension": str(self.embedder.dimension if self.embedder else 0),
            "metric": "squared_l2",
        }

    def _report(
        self, store: SqliteStore, walked: Walk, started: float, notes: list[str], unread: tuple[Skip, ...] = ()
    ) -> IndexReport:
        counts = store.counts()
        return IndexReport(
            root=str(self.root),
            files=counts.files,
            chunks=counts.chunks,
            skipped=(*walked.skipped, *counts.skipped, *unread),
            notes=(*notes, *self.standing_notes()),
            took_ms=round(1000 * (time.monotonic() - started), 1),
            model_id=self.embedder.model_id if self.embedder else "",
        )


def _is_unicode(path: str) -> bool:
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def is_complete(store: SqliteStore) -> bool:
    return store.meta().get("complete") == "1"


def available_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chunk_settings(index: IndexSettings) -> ChunkSettings:
    return ChunkSettings(
        code_chars=index.chunk_chars,
        doc_chars=index.section_chars,
        doc_overlap=index.section_overlap,
        fallback_lines=index.fallback_lines,
    )
