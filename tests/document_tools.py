"""Shared by the tests of documents: the folder of real files, and an engine with folders of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.documents import DocsAddRequest, DocsSearchRequest, DocumentHit, SyncReport

FIXTURES = Path(__file__).parent / "fixtures" / "documents"


def engine(provider: str = "scripted") -> Engine:
    return Engine(Config.load({"embedding.provider": provider, "index.workers": 1}))


def harbour(place: Path) -> Path:
    """A folder with one document of each format."""
    folder = place / "harbour"
    shutil.copytree(FIXTURES, folder, ignore=shutil.ignore_patterns("*.fod*", "make.sh"))
    return folder


def add(facade: Engine, *sources: Path | str, **options: object) -> SyncReport:
    request = DocsAddRequest(tuple(map(str, sources)), **options)  # type: ignore[arg-type]
    (report,) = facade.documents.add(request).reports
    return report


def ask(facade: Engine, query: str, **options: object) -> list[DocumentHit]:
    (found,) = facade.documents.search(DocsSearchRequest((query,), **options)).searches  # type: ignore[arg-type]
    return list(found.results)
