"""THE search line: query → intent → candidates → fuse → boost → choose chunks → quality."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codeinfo.ports import ChunkRow, Embedder, Snapshot, StoredSymbol
from codeinfo.rank import boost, meaning
from codeinfo.rank.focus import Finder, budget_for, excerpt, focus
from codeinfo.rank.keyword import FOLDER, STEM, Floats, KeywordScores, file_scores, score_keywords, wanted_terms
from codeinfo.rank.query import Query, read_query
from codeinfo.rank.weights import DEFAULT, Weights
from codeinfo.types import Distance, FileKind, Hit, Intent, Quality, SearchResult, Signal

CANDIDATES = 120  # files that get the per-path signals
ROWS_PER_FILE = 3  # fetched for each file: the best, its second, and one to spare for filters
MEANING_IN_FILE = 0.5  # a cosine's worth beside the relative keyword score when chunks of one file compete
DEFINED_HERE = 3.0  # the chunk where a bare name is defined wins over any that uses it
NAMED_HERE = 0.3


@dataclass(frozen=True, slots=True)
class SearchOptions:
    limit: int = 10
    intent: Intent | None = None
    project_words: frozenset[str] = frozenset()
    allowed: NDArray[np.bool_] | None = None  # by file; None: all
    symbol_kinds: frozenset[str] = frozenset()
    weights: Weights = DEFAULT


@dataclass(slots=True)
class Evidence:
    """What the channels say about every file and row, by name, before anything is decided."""

    keyword: KeywordScores
    rows: Floats
    cosines: Floats | None
    files: dict[str, Floats] = field(default_factory=dict)  # signal → value of every file, 0..1 or so
    definitions: Sequence[StoredSymbol] = ()


def search(text: str, view: Snapshot, embedder: Embedder | None, options: SearchOptions) -> SearchResult:
    started = time.perf_counter()
    query = read_query(text, project_words=options.project_words, intent=options.intent)
    evidence = gather(query, view, embedder, options.weights)
    scores = fuse(query, evidence, options.weights)
    if options.allowed is not None:
        scores = np.where(options.allowed, scores, 0)
    ranked, factors = boosted(query, scores, view, options.weights)
    hits = choose(query, evidence, view, ranked, factors, options)
    return SearchResult(
        query=text,
        intent=query.intent,
        hits=tuple(hits),
        quality=Quality("ok", 1.0),
        took_ms=round(1000 * (time.perf_counter() - started), 2),
    )


def gather(query: Query, view: Snapshot, embedder: Embedder | None, w: Weights) -> Evidence:
    """Candidates and signals from the keyword, vector and symbol channels."""
    files = len(view.paths)
    postings = view.postings(wanted_terms(query.terms)) if query.terms else {}
    keyword = score_keywords(query.terms, postings, view.row_file, view.row_length, files, w)
    cosines = view.cosines(embedder.embed_query(query.text)) if embedder is not None else None
    found = view.definitions(query.names) if query.names else []
    position = {path: at for at, path in enumerate(view.paths)} if found else {}
    exact, named = boost.definition_scores(
        query, [(position[s.path], s.definition.name, s.definition.kind) for s in found], files
    )
    evidence = Evidence(keyword, keyword.rows, cosines, definitions=found)
    evidence.files = {
        "chunks": relative(file_scores(keyword.rows, view.row_file, files, w.chunk_decay)),
        "file_bm25": relative(keyword.files),
        "exact_definition": relative(exact),
        "named_definition": relative(named),
        "stem_coverage": relative(boost.coverage(query, keyword, STEM, files)),
        "stem_precision": relative(boost.stem_precision(query, keyword, view.paths, files)),
        "folder_match": relative(boost.coverage(query, keyword, FOLDER, files)),
        "path_mention": boost.path_mentions(query, view.paths),
    }
    if cosines is not None:
        evidence.files["meaning"] = meaning.file_meaning(cosines, view.row_file, files)
    return evidence


def relative(values: Floats) -> Floats:
    """Divided by the query's best, so that signals of different scales can be added."""
    best = float(values.max()) if len(values) else 0.0
    return values / best if best > 0 else values


def fuse(query: Query, evidence: Evidence, w: Weights) -> Floats:
    total = evidence.files["chunks"].copy()
    for name, values in evidence.files.items():
        if name not in ("chunks", "meaning"):
            total += np.float32(getattr(w, name)) * values
    if "meaning" in evidence.files:
        total += np.float32(w.meaning) * evidence.files["meaning"]
    return total


def boosted(
    query: Query, scores: Floats, view: Snapshot, w: Weights
) -> tuple[list[tuple[int, float]], Mapping[int, Mapping[str, float]]]:
    """The best files after the named multipliers, best first."""
    candidates = np.flatnonzero(scores > 0)
    if len(candidates) > CANDIDATES:
        candidates = candidates[np.argpartition(-scores[candidates], CANDIDATES)[:CANDIDATES]]
    lengths = np.log1p(view.file_rows.astype(np.float32))
    longest = float(lengths.max()) if len(lengths) else 1.0
    factors: dict[int, dict[str, float]] = {}
    final: list[tuple[int, float]] = []
    for file in candidates.tolist():
        named = boost.multipliers(query, view.paths[file], w)
        named["length"] = 1 + w.length * float(lengths[file]) / max(longest, 1e-6)
        factors[file] = named
        final.append((file, float(scores[file]) * math.prod(named.values())))
    final.sort(key=lambda item: (-item[1], view.paths[item[0]]))
    return final, factors


def choose(
    query: Query,
    evidence: Evidence,
    view: Snapshot,
    ranked: list[tuple[int, float]],
    factors: Mapping[int, Mapping[str, float]],
    options: SearchOptions,
) -> list[Hit]:
    """The best chunk of each file, its second as `more`; goes down the list until there are enough."""
    hits: list[Hit] = []
    idf = evidence.keyword.idf
    finder = Finder({term: weight * idf[term] for term, weight in query.terms.items() if term in idf})
    top = ranked[0][1] if ranked else 1.0
    for file, score in ranked:
        if len(hits) == options.limit:
            break
        rows = best_rows(query, evidence, view, file)
        chunks = view.chunks(rows)
        if options.symbol_kinds:
            kept = [at for at, chunk in enumerate(chunks) if chunk.kind in options.symbol_kinds]
            rows, chunks = [rows[at] for at in kept], [chunks[at] for at in kept]
        if chunks:
            signals = explain(file, evidence, factors[file], options.weights)
            hits.append(_hit(finder, score / top, chunks, rows, evidence, signals, len(hits)))
    return hits


def best_rows(query: Query, evidence: Evidence, view: Snapshot, file: int) -> list[int]:
    """A file's best rows, best first: by words and meaning, and by where a name asked for is defined."""
    first, count = int(view.file_first[file]), int(view.file_rows[file])
    own = slice(first, first + count)
    score = evidence.rows[own] / max(float(evidence.rows[own].max()), 1e-6)
    if evidence.cosines is not None:
        score = score + MEANING_IN_FILE * evidence.cosines[own]
    for symbol in evidence.definitions:
        if symbol.path == view.paths[file] and (row := view.row_at(file, symbol.definition.start_line)) is not None:
            exact = symbol.definition.name in query.names
            worth = DEFINED_HERE if query.bare_name else NAMED_HERE
            if symbol.definition.kind in boost.TYPE_KINDS:
                worth *= 1.5
            score[row - first] += worth if exact else worth / 2
    order = np.argsort(-score, kind="stable")[:ROWS_PER_FILE]
    return [first + int(at) for at in order]


def explain(file: int, evidence: Evidence, factors: Mapping[str, float], w: Weights) -> tuple[Signal, ...]:
    added = [
        Signal(name, round(float(values[file]), 4), round(float(values[file]) * getattr(w, name, 1.0), 4))
        for name, values in evidence.files.items()
        if values[file]
    ]
    return (*added, *(Signal(name, round(value, 4), round(value, 4), factor=True) for name, value in factors.items()))


def _hit(
    finder: Finder,
    score: float,
    chunks: list[ChunkRow],
    rows: list[int],
    evidence: Evidence,
    signals: tuple[Signal, ...],
    place: int,
) -> Hit:
    best = chunks[0]
    budget = budget_for(place)
    first, last = focus(best.text, finder, budget)
    distance = None
    if evidence.cosines is not None:
        distance = Distance(round(meaning.squared_l2(float(evidence.cosines[rows[0]])), 4))
    return Hit(
        root="",
        path=best.path,
        start_line=best.start_line,
        end_line=best.end_line,
        text=excerpt(best.text, first, last, budget),
        text_line=best.start_line + first,
        score=round(score, 4),
        chunk_id=best.chunk_id,
        language=best.language,
        kind=FileKind(best.file_kind),
        symbol=best.symbol,
        symbol_kind=best.kind,
        breadcrumb=best.breadcrumb,
        distance=distance,
        signals=signals,
        more=tuple((chunk.start_line, chunk.end_line) for chunk in chunks[1:2]),
    )
