"""Indexing runs that wait in a queue, as shells show them."""

from __future__ import annotations

from msgspec import Struct, field

from codeinfo.model import Skip
from codeinfo.requests import Progress


class IngestRun(Struct, frozen=True):
    """`state` is queued, running, done, failed or cancelled; `position` counts from 1 for what waits, else 0."""

    id: str
    root: str
    full: bool
    state: str
    position: int
    created_at: str
    started_at: str = ""
    finished_at: str = ""
    progress: Progress | None = None
    files: int = 0
    chunks: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    took_ms: float = 0.0
    skipped: tuple[Skip, ...] = ()  # what a user would want to know of first, at most SHOWN
    skipped_total: int = 0
    notes: tuple[str, ...] = ()
    error: str = ""
    error_code: str = ""


class IngestStatus(Struct, frozen=True):
    waiting: tuple[IngestRun, ...]  # the running one first
    finished: tuple[IngestRun, ...] = field(default=())  # the latest first


SHOWN = 100  # skipped files that a run keeps
