"""THE search line: query → evidence → fuse → boost → choose chunks → quality."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from codeinfo.ports import ChunkRow, Embedder, PathEmbedder, Snapshot, StoredSymbol
from codeinfo.rank import boost, meaning
from codeinfo.rank.focus import Finder, budget_for, excerpt, focus
from codeinfo.rank.keyword import (
    ANYWHERE,
    DEFINED,
    FOLDER,
    STEM,
    Floats,
    KeywordScores,
    file_scores,
    score_keywords,
    wanted_terms,
)
from codeinfo.rank.quality import assess, grounds
from codeinfo.rank.query import Query, read_query
from codeinfo.rank.weights import WITH_VECTORS, WITHOUT_VECTORS, Weights
from codeinfo.types import Definition, Distance, Dropped, FileKind, Hit, Intent, Quality, SearchResult, Signal

CANDIDATES = 80  # files that get the per-path signals, at least
CANDIDATES_PER_RESULT = 2  # the factors that follow may halve a score, so a long list needs files to choose from
PATHS_READ = 30  # of them, those whose paths are embedded: a right file is hardly ever farther down
ROWS_PER_FILE = 3  # fetched for each file: the best, its second, and one to spare
MEANING_IN_FILE = 0.5  # a cosine's worth beside the relative keyword score when chunks of one file compete
DEFINED_HERE = 3.0  # the chunk where a bare name is defined wins over any that uses it
NAMED_HERE = 0.3
WHOLE_CHUNK = 1_000_000  # characters: more than any chunk has
SHARE_OF_REST = 0.4  # of a token budget, for the next hit
LEAST_SHARE = 300
SMALLEST_EXCERPT = 40  # characters: less tells nothing
JUDGED = 3  # first files that the confidence is about
EXPLAINED_DROPS = 20  # candidates left out that an explanation names


@dataclass(frozen=True, slots=True)
class SearchOptions:
    limit: int = 10
    intent: Intent | None = None
    project_words: frozenset[str] = frozenset()
    allowed: NDArray[np.bool_] | None = None  # by file; None: all
    symbol_kinds: frozenset[str] = frozenset()
    full_text: bool = False
    max_chars: int = 0  # pack the best results into this many characters; 0: no limit
    explain: bool = False
    weights: Weights | None = None  # None: the measured ones


@dataclass(slots=True)
class Evidence:
    """What the channels say about every file and row, by name, before anything is decided."""

    keyword: KeywordScores
    cosines: Floats | None
    definitions: Sequence[StoredSymbol]
    files: dict[str, Floats] = field(default_factory=dict)  # signal → value of every file, 0..1 or so


@dataclass(frozen=True, slots=True)
class Ranked:
    """A file in its place, with the factors that moved it."""

    file: int
    score: float
    factors: Mapping[str, float]
    path_cosine: float = 0.0


def search(text: str, view: Snapshot, embedder: Embedder | None, options: SearchOptions) -> SearchResult:
    started = time.perf_counter()
    query = read_query(text, project_words=options.project_words, intent=options.intent)
    vector = embedder.embed_query(text) if embedder is not None else None
    weights = options.weights or (WITHOUT_VECTORS if vector is None else WITH_VECTORS)
    evidence = gather(query, view, vector, weights)
    scores = fuse(evidence, weights)
    ranked = boosted(query, filtered(scores, options), view, weights, candidates_for(options))
    if vector is not None and isinstance(embedder, PathEmbedder):
        ranked = told_by_path(ranked, vector, view, embedder, weights)
    hits, dropped = choose(query, evidence, view, ranked, options, weights)
    if options.explain and options.allowed is not None:
        dropped += _filtered_out(scores, view, options)
    return SearchResult(
        query=text,
        intent=query.intent,
        hits=tuple(hits),
        quality=quality_of(query, evidence, view, ranked, isinstance(embedder, PathEmbedder)),
        dropped=tuple(dropped[:EXPLAINED_DROPS]) if options.explain else (),
        took_ms=round(1000 * (time.perf_counter() - started), 2),
    )


def gather(query: Query, view: Snapshot, vector: Floats | None, w: Weights) -> Evidence:
    """Candidates and signals from the keyword, vector and symbol channels."""
    files = len(view.paths)
    postings = view.postings(wanted_terms(query.terms)) if query.terms else {}
    keyword = score_keywords(query.terms, postings, view.row_file, view.row_length, files, w)
    cosines = view.cosines(vector) if vector is not None else None
    found = view.definitions(query.names) if query.names else []
    position = {path: at for at, path in enumerate(view.paths)} if found else {}
    exact, named = boost.definition_scores(
        query, [(position[s.path], s.definition.name, s.definition.kind) for s in found], files
    )
    evidence = Evidence(keyword, cosines, found)
    evidence.files = {
        "chunks": relative(file_scores(keyword.rows, view.row_file, files, w.chunk_decay)),
        "file_bm25": relative(keyword.files),
        "exact_definition": relative(exact),
        "named_definition": relative(named),
        "stem_coverage": relative(boost.coverage(query, keyword, STEM, files)),
        "stem_precision": relative(boost.stem_precision(query, keyword, view.paths, files)),
        "folder_match": relative(boost.coverage(query, keyword, FOLDER, files)),
        "definition_coverage": relative(boost.coverage(query, keyword, DEFINED, files)),
        "text_coverage": boost.coverage(query, keyword, ANYWHERE, files),
        "path_mention": boost.path_mentions(query, view.paths),
    }
    if cosines is not None:
        evidence.files["meaning"] = meaning.file_meaning(cosines, view.row_file, files)
    return evidence


def relative(values: Floats) -> Floats:
    """Divided by the query's best, so that signals of different scales can be added."""
    best = float(values.max()) if len(values) else 0.0
    return values / best if best > 0 else values


def fuse(evidence: Evidence, w: Weights) -> Floats:
    """The weighted sum of all signals, for every file."""
    total = np.zeros(len(evidence.files["chunks"]), np.float32)
    for name, values in evidence.files.items():
        total += np.float32(getattr(w, name)) * values
    return total


def filtered(scores: Floats, options: SearchOptions) -> Floats:
    return scores if options.allowed is None else np.where(options.allowed, scores, 0).astype(np.float32)


def candidates_for(options: SearchOptions) -> int | None:
    """How many files to look at so that a list is short only when there is nothing more; None: all of them.

    Kinds of symbols are known of chunks, not of files, so that filter may leave out any number of the best files.
    """
    return None if options.symbol_kinds else max(CANDIDATES, CANDIDATES_PER_RESULT * options.limit)


def boosted(query: Query, scores: Floats, view: Snapshot, w: Weights, most: int | None = CANDIDATES) -> list[Ranked]:
    """The best files after the named multipliers, best first."""
    candidates = np.flatnonzero(scores > 0)
    if most is not None and len(candidates) > most:
        candidates = candidates[np.argpartition(-scores[candidates], most)[:most]]
    lengths = np.log1p(view.file_rows.astype(np.float32))
    longest = max(float(lengths.max()), 1e-6) if len(lengths) else 1.0
    ranked = []
    for file in candidates.tolist():
        factors = boost.multipliers(query, view.paths[file], view.kinds[file], view.usual_depth, w)
        factors["length"] = 1 + w.length * float(lengths[file]) / longest
        ranked.append(Ranked(file, float(scores[file]) * math.prod(factors.values()), factors))
    ranked.sort(key=lambda item: (-item.score, view.paths[item.file]))
    return ranked


def told_by_path(
    ranked: list[Ranked], vector: Floats, view: Snapshot, embedder: PathEmbedder, w: Weights
) -> list[Ranked]:
    """The first files once more, with what their paths mean: "running work later" is near `background.py`."""
    first = []
    for item in ranked[:PATHS_READ]:
        cosine = max(float(embedder.embed_path(view.paths[item.file]) @ vector), 0.0)
        moved = item.score + w.path_meaning * cosine * math.prod(item.factors.values())
        first.append(Ranked(item.file, moved, item.factors, cosine))
    first.sort(key=lambda item: (-item.score, view.paths[item.file]))
    return first + ranked[PATHS_READ:]


def choose(
    query: Query, evidence: Evidence, view: Snapshot, ranked: Sequence[Ranked], options: SearchOptions, w: Weights
) -> tuple[list[Hit], list[Dropped]]:
    """The best chunk of each file, its second as `more`; goes down the list until there are enough."""
    hits: list[Hit] = []
    dropped: list[Dropped] = []
    idf = evidence.keyword.idf
    finder = Finder({term: weight * idf[term] for term, weight in query.terms.items() if term in idf})
    for item in ranked:
        if len(hits) == options.limit and not options.explain:
            break
        rows = best_rows(query, evidence, view, item.file, None if options.symbol_kinds else ROWS_PER_FILE)
        chunks = view.chunks(rows[:1] if len(hits) == options.limit else rows)
        if len(hits) == options.limit:
            dropped.append(_dropped(chunks[0], "limit", f"score {item.score / ranked[0].score:.3f}"))
            if len(dropped) >= EXPLAINED_DROPS:
                break
            continue
        kept = [at for at, chunk in enumerate(chunks) if not options.symbol_kinds or chunk.kind in options.symbol_kinds]
        if not kept:
            dropped.append(_dropped(chunks[0], "symbol_kind", f"it is a {chunks[0].kind}"))
            continue
        best = [(chunks[at], rows[at]) for at in kept]
        score = item.score / ranked[0].score
        budget = _budget(options, hits)
        if budget < SMALLEST_EXCERPT:
            dropped.append(_dropped(chunks[0], "max_tokens", "the token budget is used up"))
            break
        hit = _hit(finder, score, best, evidence, budget)
        hits.append(_explained(hit, item, evidence, w) if options.explain else hit)
    return hits, dropped


def _budget(options: SearchOptions, hits: Sequence[Hit]) -> int:
    """Characters the next hit may show. Under a limit the best hits get the larger shares, and all of them some."""
    wanted = WHOLE_CHUNK if options.full_text or options.max_chars else budget_for(len(hits))
    if not options.max_chars:
        return wanted
    left = options.max_chars - sum(len(hit.text) for hit in hits)
    return min(wanted, left, max(int(left * SHARE_OF_REST), LEAST_SHARE))


def best_rows(
    query: Query, evidence: Evidence, view: Snapshot, file: int, most: int | None = ROWS_PER_FILE
) -> list[int]:
    """A file's best rows, best first: by words and meaning, and by where a name asked for is defined."""
    own = _rows_of(view, file)
    first = own.start
    words = evidence.keyword.rows[own]
    score = words / max(float(words.max()), 1e-6)
    if evidence.cosines is not None:
        score = score + MEANING_IN_FILE * evidence.cosines[own]
    bonus: dict[int, float] = {}
    for symbol in evidence.definitions:
        if symbol.path == view.paths[file] and (row := view.row_at(file, symbol.definition.start_line)) is not None:
            bonus[row] = max(bonus.get(row, 0.0), _worth_of_definition(query, symbol.definition))
    for row, worth in bonus.items():
        score[row - first] += worth
    order = np.argsort(-score, kind="stable")[:most]
    return [first + int(at) for at in order]


def _worth_of_definition(query: Query, definition: Definition) -> float:
    """Several constructors of one name in a chunk are worth no more than one; the type itself is worth the most."""
    worth = DEFINED_HERE if query.bare_name else NAMED_HERE
    if definition.kind in boost.TYPE_KINDS:
        worth *= 1.5
    return worth if definition.name in query.names else worth / 2


def _explained(hit: Hit, item: Ranked, evidence: Evidence, w: Weights) -> Hit:
    added = [
        Signal(name, round(float(values[item.file]), 4), round(float(values[item.file]) * getattr(w, name), 4))
        for name, values in evidence.files.items()
        if values[item.file]
    ]
    if item.path_cosine:
        worth = w.path_meaning * item.path_cosine
        added.append(Signal("path_meaning", round(item.path_cosine, 4), round(worth, 4)))
    factors = [Signal(name, round(value, 4), round(value, 4), factor=True) for name, value in item.factors.items()]
    return replace(hit, signals=(*added, *factors), ranks=_ranks(item.file, evidence))


def _ranks(file: int, evidence: Evidence) -> dict[str, int]:
    """The file's place in each channel by itself."""
    channels = {"keyword": "chunks", "vector": "meaning", "symbol": "exact_definition"}
    ranks = {}
    for channel, signal in channels.items():
        values = evidence.files.get(signal)
        if values is not None and values[file] > 0:
            ranks[channel] = int((values > values[file]).sum()) + 1
    return ranks


def _hit(
    finder: Finder,
    score: float,
    best: list[tuple[ChunkRow, int]],
    evidence: Evidence,
    budget: int,
) -> Hit:
    chunk, row = best[0]
    first, last = focus(chunk.text, finder, budget)
    distance = None
    if evidence.cosines is not None:
        distance = Distance(round(meaning.squared_l2(float(evidence.cosines[row])), 4))
    return Hit(
        root="",
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        text=excerpt(chunk.text, first, last, budget),
        text_line=chunk.start_line + first,
        score=round(score, 4),
        chunk_id=chunk.chunk_id,
        language=chunk.language,
        kind=FileKind(chunk.file_kind),
        symbol=chunk.symbol,
        symbol_kind=chunk.kind,
        breadcrumb=chunk.breadcrumb,
        distance=distance,
        more=tuple((other.start_line, other.end_line) for other, _ in best[1:2]),
    )


def quality_of(
    query: Query, evidence: Evidence, view: Snapshot, ranked: Sequence[Ranked], scale_known: bool
) -> Quality:
    """`scale_known`: the cosines are those of the built-in model, on which the confidence was fitted."""
    best = [item.file for item in ranked[:JUDGED]]
    closest = None
    if evidence.cosines is not None and best and scale_known:
        closest = max(float(evidence.cosines[_rows_of(view, file)].max()) for file in best)
    return assess(grounds(query, evidence.keyword, best, len(view.row_file), closest), query)


def _rows_of(view: Snapshot, file: int) -> slice:
    first = int(view.file_first[file])
    return slice(first, first + int(view.file_rows[file]))


def _dropped(chunk: ChunkRow, rule: str, detail: str) -> Dropped:
    return Dropped(chunk.path, chunk.start_line, chunk.end_line, rule, detail)


def _filtered_out(scores: Floats, view: Snapshot, options: SearchOptions) -> list[Dropped]:
    """The best files that only a filter keeps out."""
    assert options.allowed is not None
    outside = np.where(options.allowed, 0, scores)
    order = np.argsort(-outside)[:5]
    return [
        Dropped(view.paths[at], 0, 0, "filter", "a filter leaves it out") for at in order.tolist() if outside[at] > 0
    ]
