"""Vector search over indexed repositories, cut by the relevance policy: for clients that send the text to a model."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codeinfo.engine.upkeep import Upkeep, is_complete
from codeinfo.errors import CodeInfoError, IndexDamaged, NotFound, ProviderError, UsageError
from codeinfo.operations.clients import (
    Project,
    ProjectsResult,
    VectorFile,
    VectorMatch,
    VectorSearchRequest,
    VectorSearchResult,
)
from codeinfo.ports import Embedder
from codeinfo.search.meaning import squared_l2
from codeinfo.search.policy import PolicyItem, PolicySettings, apply_policy, best_distance
from codeinfo.settings import RetrievalSettings
from codeinfo.store.layout import indexed_roots

if TYPE_CHECKING:
    from codeinfo.engine.facade import Engine


CANDIDATES = 60  # rows looked at before the policy: it drops some, and a list is short only when there is no more
MAX_LIMIT = 20

log = logging.getLogger(__name__)


def policy_settings(retrieval: RetrievalSettings) -> PolicySettings:
    return PolicySettings(
        distance_cutoff=retrieval.distance_cutoff,
        cutoff_disabled=retrieval.cutoff_disabled,
        fallback_chunks=retrieval.fallback_chunks,
        chunk_max_chars=retrieval.chunk_max_chars,
        max_chars=retrieval.max_chars,
    )


def vector_search(engine: Engine, request: VectorSearchRequest) -> VectorSearchResult:
    if not request.query.strip():
        raise UsageError("query is required", next_step="Say what to look for")
    embedder = engine.embedder()
    if embedder is None:
        raise ProviderError(
            "no embedding model is set up",
            next_step="Set embedding.provider, or use `codeinfo search`, which needs none",
            code="EMBEDDING_MODEL_MISSING",
        )
    limit = min(max(request.limit, 1), MAX_LIMIT)
    items: list[PolicyItem] = []
    for keeper in _chosen(engine, request.repository):
        items += _closest(keeper, request.query, embedder)
    items.sort(key=lambda item: item.distance if item.distance is not None else float("inf"))
    settled = apply_policy(items[:CANDIDATES], policy_settings(engine.config.retrieval))
    log.info("vector search: score source %s, %d with a distance", settled.score_source, settled.with_distance)
    kept = settled.kept[:limit]
    matches = tuple(_match(item, embedder.model_id) for item in kept)
    return VectorSearchResult(matches, embedder.model_id if matches else None, _files(kept, embedder.model_id))


def projects(engine: Engine) -> ProjectsResult:
    return ProjectsResult(tuple(_project(engine, root) for root in indexed_roots(engine.config.paths.cache_dir)))


def _project(engine: Engine, root: Path) -> Project:
    try:
        keeper = engine.upkeep(root)
        store = keeper.live_store()
    except CodeInfoError as error:
        state = "damaged" if isinstance(error, IndexDamaged) else "gone"
        return Project(root.name, str(root), 0, 0, "", "", state)
    if store is None:
        return Project(root.name, str(root), 0, 0, "", "", "building")
    meta, counts = store.meta(), store.counts()
    state = "ready" if is_complete(store) else "building"
    model, when = meta.get("model_id", ""), meta.get("indexed_at", "")
    return Project(root.name, str(root), counts.files, counts.chunks, model, when, state)


def _chosen(engine: Engine, repository: str) -> list[Upkeep]:
    roots = [root for root in indexed_roots(engine.config.paths.cache_dir) if root.is_dir()]
    if not roots:
        raise UsageError("nothing is indexed yet", next_step="Run `codeinfo index` in a project", code="NOT_INGESTED")
    if not repository:
        return [engine.upkeep(root) for root in roots]
    found = [root for root in roots if repository in (root.name, str(root))]
    if not found:
        known = ", ".join(sorted(root.name for root in roots))
        raise NotFound(f"no repository {repository} is indexed", next_step=f"Known: {known}", code="REPO_NOT_FOUND")
    return [engine.upkeep(root) for root in found]


def _closest(keeper: Upkeep, query: str, embedder: Embedder) -> list[PolicyItem]:
    store = keeper.live_store()
    if store is None:
        return []
    if store.meta().get("model_id", embedder.model_id) != embedder.model_id:
        raise UsageError(
            f"{keeper.root} was indexed with another model than {embedder.model_id}",
            next_step="Run `codeinfo index` there",
            code="DIMENSION_MISMATCH",
        )
    with store.snapshot() as view:
        cosines = view.cosines(embedder.embed_query(query))
        if cosines is None:
            return []
        rows = np.argsort(-cosines, kind="stable")[:CANDIDATES].tolist()
        chunks = view.chunks(rows)
    return [
        PolicyItem(
            repo=keeper.root.name,
            rel_path=chunk.path,
            chunk_id=f"{keeper.folder.path.name}:{chunk.chunk_id}",
            text=chunk.text,
            distance=round(squared_l2(float(cosines[row])), 4),
            payload=str(keeper.root / chunk.path),
        )
        for row, chunk in zip(rows, chunks, strict=True)
    ]


def _match(item: PolicyItem, model_id: str) -> VectorMatch:
    return VectorMatch(
        repo=item.repo,
        relPath=item.rel_path,
        containerPath=item.payload,
        hostPath=item.payload,
        score=item.distance,
        chunk=item.text,
        chunkId=str(item.chunk_id),
        modelId=model_id,
        lineCount=item.text.count("\n") + 1 if item.text else None,
    )


def _files(items: Sequence[PolicyItem], model_id: str) -> tuple[VectorFile, ...]:
    by_path: dict[str, list[PolicyItem]] = {}
    for item in items:
        by_path.setdefault(item.payload, []).append(item)
    return tuple(_file(path, own, model_id) for path, own in sorted(by_path.items()))


def _file(path: str, items: list[PolicyItem], model_id: str) -> VectorFile:
    return VectorFile(path, best_distance(items), len(items), _line_count(items), items[0].repo, model_id)


def _line_count(items: Iterable[PolicyItem]) -> int | None:
    counts = [item.text.count("\n") + 1 for item in items if item.text]
    return sum(counts) if counts else None
