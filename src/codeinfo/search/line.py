"""The search pipeline: query → evidence → fuse → boost → choose chunks → quality."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from posixpath import dirname

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from codeinfo.cache import Cache
from codeinfo.languages.model import is_inline_test, may_have_inline_tests
from codeinfo.model import (
    Distance,
    Dropped,
    FileKind,
    Hit,
    Intent,
    SearchResult,
    Signal,
    plain_headings,
    symbol_kind,
)
from codeinfo.ports import ChunkRow, Embedder, Extent, Posting, Snapshot, StoredSymbol, WordEmbedder, is_word_embedder
from codeinfo.search import boost, channels
from codeinfo.search.boost import Layout
from codeinfo.search.channels import (
    ANYWHERE,
    DEFINED,
    FOLDER,
    NO_USES,
    STEM,
    CommitIndex,
    Floats,
    Frequency,
    Ints,
    KeywordScores,
    Norms,
    PastChanges,
    QueryVectors,
    Survey,
    TermUses,
    file_scores,
    first_of_runs,
    norms_of,
    past_changes,
    rarity,
    read_terms,
    rows_of,
    runs_of,
    score_changes,
    score_keywords,
)
from codeinfo.search.focus import (
    IN_FUNCTION,
    QUOTED_HERE,
    SHORT_ROW,
    Finder,
    Shown,
    answering_definition,
    best_rows,
    budget_for,
    closest_rows,
    find_defined_rows,
    focus,
    line_asked_for,
    lines_of_functions,
    share_of_functions,
)
from codeinfo.search.quality import (
    AnswerFeatures,
    assess,
    filtered_out,
    is_about,
    nothing_found,
    read_as,
    respell,
    share_words,
    suggestions,
)
from codeinfo.search.query import REPORT_WORDS, Query, Shape, extract_definition_target, read_query
from codeinfo.search.quotations import NOT_QUOTED, Quoted, find_quoted
from codeinfo.search.weights import WITH_VECTORS, WITHOUT_VECTORS, Weights
from codeinfo.tokens import identifier_terms, stem

# The share of meaning relative to words by intent, for fusion by rank; and how an intent named by the caller changes
# the weights.
RRF_SEMANTIC = {
    Intent.EXACT_NAME: 0.4,
    Intent.CONFIG: 0.5,
    Intent.WIRING: 0.5,
    Intent.FLOW: 0.6,
    Intent.CONCEPTUAL: 0.7,
}
INTENT_MEANING = {intent: share / 0.6 for intent, share in RRF_SEMANTIC.items()}


class SearchOptions(Struct, frozen=True):
    root: str = ""  # of what is searched, shown with every hit
    roots: Sequence[str] = ()  # of each file, if several roots are searched as one
    limit: int = 10
    intent: Intent | None = None
    project_words: frozenset[str] = frozenset()
    allowed: NDArray[np.bool_] | None = None  # by file; None: all
    symbol_kinds: frozenset[str] = frozenset()
    full_text: bool = False
    max_chars: int = 0  # pack the best results into this many characters; 0: no limit
    explain: bool = False
    commits: Sequence[tuple[str, CommitIndex]] = ()  # commit messages, by root
    fusion: str = "score"  # or "rrf": channels are combined by rank instead
    per_file: int = 0  # at most so many results per file; 0: one, and two for a report
    weights: Weights | None = None  # None: the measured ones

    def root_of(self, file: int) -> str:
        return self.roots[file] if self.roots else self.root


class Context(Struct, frozen=True):
    """A query, what is searched, and how: what every step that gathers evidence needs."""

    query: Query
    view: Snapshot
    embedder: Embedder | None
    weights: Weights
    options: SearchOptions

    @property
    def is_large(self) -> bool:
        """Whether to examine only likely files. Ranks and kinds of symbols need all of them."""
        options = self.options
        needs_all = options.symbol_kinds or options.fusion != "score" or options.limit > MOST_LISTED
        return len(self.view.row_file) >= LARGE and not needs_all

    @property
    def is_spread(self) -> bool:
        """Whether these are many indexes, in each of which every word is looked up."""
        return self.view.part_count >= MANY_PARTS and self.is_large


class Evidence(Struct, frozen=True):
    """What the channels say about every file and row, by name, before anything is decided."""

    keyword: KeywordScores
    definitions: Sequence[StoredSymbol]
    quoted: Quoted
    files: dict[str, Floats]  # signal → value for every file, about 0..1
    likely: Ints | None = None  # files whose chunks were examined; None: all of them
    vectors: channels.VectorScores | None = None


class Ranked(Struct, frozen=True, gc=False):
    """A ranked file, with the product of the factors that moved it."""

    file: int
    score: float
    factor: float
    meaning: float | None = None  # with its path, if that was read
    closest: float | None = None  # cosine of its best chunk, for a model whose scale is known


def search(text: str, view: Snapshot, embedder: Embedder | None, options: SearchOptions) -> SearchResult:
    """A question for a definition ("fields of struct Document") is searched by the name alone. A question with typing
    errors is searched as it would be spelt here if that is more likely to answer it; the quality says so."""
    name = extract_definition_target(text)
    bare_name = next(iter(read_query(name).names), "") if name else ""  # without its owner
    if bare_name and any(symbol.name == bare_name for symbol in view.definitions((bare_name,))):
        return replace(_search(name, view, embedder, options)[0], query=text)
    result, respelt = _search(text, view, embedder, options)
    if respelt == text:
        return result
    respelt_result, _ = _search(respelt, view, embedder, options)
    if respelt_result.quality.confidence <= result.quality.confidence:
        return result
    took_ms = round(result.took_ms + respelt_result.took_ms, 2)
    quality = read_as(respelt, respelt_result.quality)
    return replace(respelt_result, query=text, quality=quality, suggestions=result.suggestions, took_ms=took_ms)


def _search(text: str, view: Snapshot, embedder: Embedder | None, options: SearchOptions) -> tuple[SearchResult, str]:
    """What is found, and the text as it would be spelt here."""
    started = time.perf_counter()
    query = read_query(text, project_words=options.project_words, intent=options.intent)
    weights = options.weights or weights_for(query, embedder, options.intent)
    context = Context(query, view, embedder, weights, options)
    if context.is_spread:
        query = replace(query, terms=query.heaviest(MOST_TERMS))
        context = replace(context, query=query)
    gathered = evidence = gather(context)
    if gathered.quoted.label_uses or gathered.quoted.lines:
        quoted = gathered.quoted
        query = replace(query, quotations=(*quoted.lines, *query.quotations, *quoted.label_uses.values()))
    if options.fusion == "rrf":
        evidence, weights = rank_channels(gathered, query, weights)
    scores = fuse(evidence, weights)
    ranked = rank_files(query, apply_filter(scores, options), view, weights, options)
    if is_word_embedder(embedder):
        ranked = read_paths(ranked, evidence, view, embedder, weights)
    features = features_of(query, gathered, view, ranked)
    is_understood = _understood(query, gathered, embedder)
    is_relevant = is_about(features, query, understood=is_understood) or _is_named(ranked, gathered)
    chooser = Chooser(query, evidence, view, options, weights)
    hits, dropped = choose(chooser, ranked if is_relevant else ())
    quality = assess(features, query) if is_relevant else nothing_found(features, query)
    if not hits and (dropped or (options.allowed is not None and not options.allowed.any())):
        quality = filtered_out(dropped)
    if options.explain and options.allowed is not None:
        dropped += _find_filtered_out(scores, view, options)
    is_unknown = not is_relevant or is_misspelt(query, evidence, features)
    result = SearchResult(
        query=text,
        intent=query.intent,
        hits=tuple(hits),
        quality=quality,
        suggestions=suggestions(query, evidence.keyword.idf, view) if is_unknown else (),
        dropped=tuple(dropped[:EXPLAINED_DROPS]) if options.explain else (),
        took_ms=round(1000 * (time.perf_counter() - started), 2),
    )
    may_respell = bool(result.suggestions) and not query.bare_name  # an unknown name is reported, not replaced
    return result, respell(text, query, evidence.keyword.idf, view) if may_respell else text


def weights_for(query: Query, embedder: Embedder | None, intent: Intent | None = None) -> Weights:
    """By the shape of the query. An intent named by the caller shifts the balance of words and meaning."""
    weights = (WITHOUT_VECTORS if embedder is None else WITH_VECTORS)[query.shape]
    return weights if intent is None else weights._replace(meaning=weights.meaning * INTENT_MEANING[intent])


# --- evidence ---------------------------------------------------------------------------------------------------------

KEPT_USES = 4_000_000  # rows of terms that stay in memory, some 12 bytes each
KEPT_SHARE = 6  # the same for each row of the index, where that is more


def gather(context: Context) -> Evidence:
    """Candidates and signals from the keyword, vector, symbol and history channels."""
    query, view, w = context.query, context.view, context.weights
    files = len(view.paths)
    later = _later_terms(query, view) if context.is_spread else {}
    uses = _known_terms([term for term in query.terms if term not in later], view, w)
    keyword = score_keywords(query.terms, uses, _norms_of(view, w))
    is_long = query.shape is Shape.REPORT and context.is_spread
    names = _distinctive_names(query, keyword, later) if is_long else query.names
    definitions = view.definitions(names) if names else []
    exact, mentioned = boost.definition_scores(query, definitions, view.paths)
    may_quote = w.exact_text and not any(boost.is_definition_of(query, symbol, view.paths) for symbol in definitions)
    quoted = find_quoted(query, keyword, view) if may_quote else NOT_QUOTED
    signals = {
        "exact_definition": exact / max(1.0, float(exact.max(initial=0.0))),
        "named_definition": relative(mentioned),
        "path_mention": boost.path_mentions(query, view.paths, _files_by_name(view) if query.paths else {}),
        "project_file": boost.project_files(query, view.paths),
        **signals_of_words(context, keyword),
    }
    if query.updates_dependency:  # those that mention it
        signals["project_file"] *= boost.coverage(keyword, ANYWHERE, files)
    if quoted.scores is not None:
        signals["exact_text"] = quoted.scores
    if context.options.commits:
        signals["history"] = _past_changes(context)
    evidence = Evidence(keyword, definitions, quoted, signals)
    return _with_likely_chunks(context, evidence, later) if context.is_large else _with_chunks(context, evidence)


def signals_of_words(context: Context, keyword: KeywordScores) -> dict[str, Floats]:
    """What whole files say, and places for what their chunks will: the sums of signals depend on their order."""
    query, view = context.query, context.view
    needs_coverage = context.weights.text_coverage or context.options.explain
    files = len(view.paths)
    none = np.zeros(files, np.float32)
    return {
        "chunks": none,
        "chunk_coverage": none,
        "file_bm25": relative(keyword.files),
        "stem_match": boost.both(
            relative(boost.coverage(keyword, STEM, files)),
            relative(boost.stem_precision(keyword, view.paths, _stem_sizes(view))),
        ),
        "folder_match": relative(boost.coverage(keyword, FOLDER, files)),
        "definition_coverage": relative(boost.coverage(keyword, DEFINED, files)),
        "text_coverage": boost.coverage(keyword, ANYWHERE, files) if needs_coverage else none,
        "title_coverage": boost.title_coverage(query, keyword, files),
        "named_in_text": boost.named_in_text(query, keyword, files),
        "scope_match": boost.scope_match(query, keyword, files),
    }


def relative(values: Floats) -> Floats:
    """Divided by the query's best, so that signals of different scales can be added."""
    best = float(values.max()) if len(values) else 0.0
    return values / best if best > 0 else values


def _with_chunks(context: Context, evidence: Evidence) -> Evidence:
    """Adds what the chunks of every file say by words and meaning."""
    view = context.view
    files = len(view.paths)
    runs = view.once("runs", lambda: runs_of(view.row_file))
    signals = {
        "chunks": relative(file_scores(evidence.keyword.rows(), runs, files, context.weights.chunk_decay)),
        "chunk_coverage": channels.best_coverage(evidence.keyword.row_coverage(), runs, files),
    }
    vectors, scores = _embed(context, evidence.keyword), None
    cosines = None if vectors is None else view.cosines(vectors.weighted)
    if vectors is not None and cosines is not None:
        signals["meaning"], scale = channels.file_meaning(cosines, runs, files)
        scores = channels.VectorScores(*vectors, cosines, scale)
    return replace(evidence, files=evidence.files | signals, vectors=scores)


def _embed(context: Context, keyword: KeywordScores) -> QueryVectors | None:
    query, embedder = context.query, context.embedder
    if embedder is None:
        return None
    if is_word_embedder(embedder):
        return QueryVectors(*embedder.embed_words(channels.weigh_words(query, keyword.idf)))
    vector = embedder.embed_query(query.text)
    return QueryVectors(vector, vector)


def _known_terms(terms: Sequence[str], view: Snapshot, w: Weights) -> dict[str, TermUses]:
    """The terms that occur here. Questions about one project share many of them, so they are cached."""
    key = ("terms", w.k1, w.b, w.stem_field, w.folder_field, w.type_field, w.name_field)
    room = max(KEPT_USES, KEPT_SHARE * len(view.row_file))
    cache = view.once(key, lambda: Cache[str, TermUses](room, lambda uses: 1 + len(uses.rows)))
    uses_of = {term: uses for term in terms if (uses := cache.get(term)) is not None}
    if missing := [term for term in terms if term not in uses_of]:
        for term, uses in read_terms(view.postings(missing), view.row_file, _norms_of(view, w), w).items():
            uses_of[term] = cache.add(term, uses)
    return uses_of


def _norms_of(view: Snapshot, w: Weights) -> Norms:
    make = partial(norms_of, view.row_file, view.row_length, len(view.paths), w)
    return view.once(("norms", w.k1, w.b), make)


def _stem_sizes(view: Snapshot) -> NDArray[np.int32]:
    return view.once("stem sizes", lambda: np.zeros(len(view.paths), np.int32))


def _files_by_name(view: Snapshot) -> dict[str, list[int]]:
    return view.once("files by name", lambda: boost.files_by_name(view.paths))


def _past_changes(context: Context) -> Floats:
    """What past commits say for each file; the root softens the lead of files that change all the time."""
    view, options, terms = context.view, context.options, context.query.terms
    changes = [(commits, _changes_in(root, commits, view, options)) for root, commits in options.commits]
    files = np.concatenate([changes_here.files for _, changes_here in changes])
    scores = np.concatenate([score_changes(commits, terms, changes_here) for commits, changes_here in changes])
    return np.sqrt(relative(np.bincount(files, scores, len(view.paths)).astype(np.float32)))


def _changes_in(root: str, commits: CommitIndex, view: Snapshot, options: SearchOptions) -> PastChanges:
    def find() -> PastChanges:
        position_of = {path: at for at, path in enumerate(view.paths) if not options.roots or options.roots[at] == root}
        return past_changes(commits, np.array([position_of.get(path, -1) for path in commits.paths], np.intp))

    return view.once(("past changes", root, commits.head), find)


# --- evidence in large indexes, and in many at once -------------------------------------------------------------------

LARGE = 60_000  # chunks: from here on only those of likely files are examined
MOST_LISTED = 300  # results: for more of them all files are examined
LIKELY, LIKELY_SHARE = 400, 150  # this many files, plus one in so many: in kubernetes the first ten are among 254
NEAREST = 100  # files that are likely by meaning alone
SIGNS_APART = 20  # one in so many signs: chunks of a file with more signs wrong than its best are no nearer
MANY_PARTS, SAMPLED_PARTS = 8, 8  # indexes searched as one
LONG_QUERY = 40  # terms of a query to many indexes; if it has more, only the first are read in every index
FIRST_TERMS, UNSEEN_TERMS = 20, 10  # those that say most, and those that a sample of the indexes does not have
MOST_TERMS = 150  # all terms that are read of a query to many indexes
BEST = 50  # files by the first terms: the other terms are read only in the indexes that have one of these
COMMON_NAME = 3_000  # files that define something with this word: then it is no name
COMMON_WORD = 10_000  # chunks that have it


def _with_likely_chunks(context: Context, evidence: Evidence, later: Mapping[str, float]) -> Evidence:
    """Adds what the chunks of likely files say. The signs of all vectors tell which files may be near, and which of
    their chunks; only those are compared."""
    view, w = context.view, context.weights
    files = len(view.paths)
    vectors, scores = _embed(context, evidence.keyword), None
    signs = None if vectors is None else view.differing_signs(vectors.weighted)
    survey = None if signs is None else Survey.of(view, signs)
    likely, best = _likely_files(context, evidence, survey)
    if later:
        keyword = _with_later_terms(context, evidence.keyword, later, likely, best)
        evidence = replace(evidence, keyword=keyword, files=evidence.files | signals_of_words(context, keyword))
        vectors = _embed(context, keyword)
    rows, starts, counts = rows_of(view, likely)
    runs = runs_of(view.row_file.take(rows))
    words, covered = evidence.keyword.rows(likely), evidence.keyword.row_coverage(likely)
    signals = {
        "chunks": relative(file_scores(words.take(rows), runs, files, w.chunk_decay)),
        "chunk_coverage": channels.best_coverage(covered.take(rows), runs, files),
    }
    if vectors is not None and signs is not None and survey is not None:
        differing = signs.take(rows)
        most = np.minimum.reduceat(differing, starts) + len(vectors.weighted) // SIGNS_APART
        near_rows = rows[differing <= most.repeat(counts)]
        cosines = view.cosines(vectors.weighted, near_rows)
        if cosines is not None:
            usual = survey.usual_cosine(vectors.weighted)
            runs = runs_of(view.row_file.take(near_rows))
            signals["meaning"], scale = channels.file_meaning(cosines, runs, files, usual)
            all_cosines = np.full(len(signs), np.nan, np.float32)
            all_cosines[near_rows] = cosines
            scores = channels.VectorScores(*vectors, all_cosines, scale)
    return replace(evidence, files=evidence.files | signals, likely=likely, vectors=scores)


def _likely_files(context: Context, evidence: Evidence, survey: Survey | None) -> tuple[Ints, Ints]:
    """The files with the best rough scores, and the very best of them. A rough score is everything but the chunks'
    words, which the file as a whole stands in for, and meaning by signs. The files nearest by it give it its scale,
    whatever their words are."""
    w, options = context.weights, context.options
    scores = fuse(evidence, w) + np.float32(w.chunks) * evidence.files["file_bm25"]
    likely = np.zeros(len(scores), bool)
    if survey is not None:
        near_files, closeness = survey.rough_meaning()
        scores[near_files] += np.float32(w.meaning) * closeness
        likely[near_files[_among_best(closeness, NEAREST)]] = True
    allowed = apply_filter(scores, options)
    likely |= _among_best(allowed, max(LIKELY, len(scores) // LIKELY_SHARE))
    if options.explain:
        likely |= _among_best(scores, EXPLAINED_DROPS)  # what a filter leaves out
    files = (likely & (context.view.file_rows > 0)).nonzero()[0]
    return files, files[_among_best(allowed[files], BEST)]


def _among_best(scores: Floats, most: int) -> NDArray[np.bool_]:
    """Roughly the `most` best ones: of many, every sixteenth is examined."""
    step = 16 if len(scores) > 64 * most else 1
    some, place = scores[::step], most // step
    return scores >= (np.partition(some, -place)[-place] if len(some) > place else -np.inf)


def _later_terms(query: Query, view: Snapshot) -> dict[str, float]:
    """For a long query to many indexes, the terms that say least, by weight and by rarity in a sample of the
    indexes, with their row counts: reading them in every index would take longer than everything else. A term
    missing from the sample may be anything, from the one name that matters to a number."""
    if len(query.terms) <= LONG_QUERY:
        return {}
    sample = np.linspace(0, len(view.paths) - 1, SAMPLED_PARTS).astype(np.intp)
    counts = view.count_rows(list(query.terms), sample)
    having = {term: counts.get(term, 0.0) for term in query.terms}
    by_worth = sorted(having, key=lambda term: -query.terms[term] * rarity(having[term], len(view.row_file)))
    seen, unseen = ([term for term in by_worth if bool(having[term]) is is_seen] for is_seen in (True, False))
    return {term: having[term] for term in (*seen[FIRST_TERMS:], *unseen[UNSEEN_TERMS:])}


def _with_later_terms(
    context: Context, keyword: KeywordScores, later: Mapping[str, float], likely: Ints, best: Ints
) -> KeywordScores:
    """Adds what they say in the indexes that have one of the best files. From here on only likely files count, so
    that for the others only the number of rows is read."""
    view, w = context.view, context.weights
    norms = _norms_of(view, w)
    frequencies = {term: Frequency.of(uses) for term, uses in keyword.uses.items()}
    is_likely = np.zeros(len(view.paths), bool)
    is_likely[likely] = True
    uses_of = {term: uses.within(is_likely) for term, uses in keyword.uses.items()}
    postings = dict[str, Posting]()
    for term, posting in view.postings(list(later), best).items():
        owners = view.row_file.take(posting.rows)
        rows = max(later[term], len(owners))
        frequencies[term] = Frequency(rows, len(first_of_runs(owners)) * rows / len(owners))
        uses_of[term] = NO_USES
        if len(positions := is_likely.take(owners).nonzero()[0]):
            postings[term] = posting.at(positions)
    uses_of |= read_terms(postings, view.row_file, norms, w)
    return score_keywords(context.query.terms, uses_of, norms, frequencies)


def _distinctive_names(query: Query, keyword: KeywordScores, later: Mapping[str, float]) -> list[str]:
    """The names in a report, without words that thousands of files use in definitions: those would take longer to
    read than everything else. In a shorter text they say more: recall@10 of subjects is .985, without them .967."""

    def is_common(name: str) -> bool:
        term = "".join(identifier_terms(name)[-1:])  # the last one is all of it
        if term not in keyword.uses:
            return later.get(term, 0) > COMMON_WORD
        return len(keyword.uses[term].files_with(DEFINED)) > COMMON_NAME

    return [name for name in query.names if not is_common(name)]


# --- fuse -------------------------------------------------------------------------------------------------------------

RRF_K = 60


def fuse(evidence: Evidence, w: Weights) -> Floats:
    """The weighted sum of all signals, for every file; for the likely ones once they are known."""
    total = np.zeros(len(evidence.keyword.files), np.float32)
    chosen = slice(None) if evidence.likely is None else evidence.likely
    scores = total[chosen]
    for name, values in evidence.files.items():
        scores += np.float32(getattr(w, name)) * values[chosen]
    total[chosen] = scores
    return total


def rank_channels(evidence: Evidence, query: Query, w: Weights) -> tuple[Evidence, Weights]:
    """Reciprocal rank fusion: words together and meaning, each by rank, weighted by the query's intent."""
    meaning = evidence.files.get("meaning")
    words = fuse(replace(evidence, files={k: v for k, v in evidence.files.items() if k != "meaning"}), w)
    files = {"keyword_rank": reciprocal_ranks(words)}
    if meaning is not None:
        files["meaning_rank"] = reciprocal_ranks(meaning)
    semantic = RRF_SEMANTIC[query.intent]
    weights = w._replace(keyword_rank=1 - semantic, meaning_rank=semantic)
    return replace(evidence, files=files), weights


def reciprocal_ranks(values: Floats) -> Floats:
    """(k + 1) / (k + rank): 1 for the best, 0 for what has no value at all."""
    positions = values.nonzero()[0]
    ranks = np.empty(len(positions), np.float32)
    ranks[np.argsort(-values[positions], kind="stable")] = np.arange(1, len(positions) + 1)
    result = np.zeros(len(values), np.float32)
    result[positions] = (RRF_K + 1) / (RRF_K + ranks)
    return result


# --- boost ------------------------------------------------------------------------------------------------------------

CANDIDATES = 150  # files that get the per-path signals, at least: in a whole tree tests and documents come first
EXAMINED = 30  # and whose definitions are
PATHS_READ = 30  # of them, those whose paths are read for meaning: further down it changes nothing
TIE_DIGITS = 6  # beyond these, scores depend on the order of addition, which differs between indexes
TINY = 60  # weighted terms


def apply_filter(scores: Floats, options: SearchOptions) -> Floats:
    return scores if options.allowed is None else np.where(options.allowed, scores, 0).astype(np.float32)


def candidates_for(options: SearchOptions) -> int | None:
    """How many files to examine so that a list is short only when there is nothing more; None: all of them. The same
    for ten results as for a hundred, or the first ten would differ.

    Kinds of symbols are known for chunks, not files, so that filter may leave out any number of the best files.
    """
    return None if options.symbol_kinds else max(CANDIDATES, options.limit)


def rank_files(query: Query, scores: Floats, view: Snapshot, w: Weights, options: SearchOptions) -> list[Ranked]:
    """The best files after the named multipliers, best first."""
    candidates, most = ((scores > 0) & (view.file_rows > 0)).nonzero()[0], candidates_for(options)
    if most is not None and len(candidates) > most:
        candidates = candidates[np.argpartition(-scores[candidates], most)[:most]]
    layout, ranked = layout_of(view, options.roots), list[Ranked]()
    for file, score in zip(candidates.tolist(), scores[candidates].tolist(), strict=True):
        factor = math.prod(boost.multipliers(query, layout.facts(file), view.kinds[file], w).values())
        ranked.append(Ranked(file, score * factor, factor))
    return demote_declarations(best_first(ranked, view), query, view, w)


def demote_declarations(ranked: list[Ranked], query: Query, view: Snapshot, w: Weights) -> list[Ranked]:
    """Of the first files, those that only declare types do nothing that one could ask about."""
    factors = [declaration_factor(item.file, query, view, w) for item in ranked[:EXAMINED]]
    if all(factor == 1 for factor in factors):
        return ranked
    moved = [
        replace(item, score=item.score * factor, factor=item.factor * factor)
        for item, factor in zip(ranked, factors, strict=False)
    ]
    return best_first(moved, view) + ranked[EXAMINED:]


def declaration_factor(file: int, query: Query, view: Snapshot, w: Weights) -> float:
    if w.declarations == 1 or query.about_types or view.kinds[file] != FileKind.CODE:
        return 1.0
    declares = view.once("declaring files", dict[int, bool])
    if file not in declares:
        declares[file] = boost.only_declares(view.extents(file, 0, sys.maxsize))
    return w.declarations if declares[file] else 1.0


def layout_of(view: Snapshot, roots: Sequence[str]) -> Layout:
    return view.once("layout", lambda: Layout(view.paths, roots, tiny_files(view), view.file_rows))


def tiny_files(view: Snapshot) -> NDArray[np.bool_]:
    """Files of one chunk with next to nothing in it, such as those that only re-export others."""
    lengths = np.bincount(view.row_file, view.row_length, len(view.paths))
    tiny: NDArray[np.bool_] = (view.file_rows == 1) & (lengths < TINY)
    return tiny


def best_first(ranked: list[Ranked], view: Snapshot) -> list[Ranked]:
    scores = np.rint(np.array([-item.score for item in ranked]) * 10**TIE_DIGITS).tolist()
    order = sorted(zip(scores, [view.paths[item.file] for item in ranked], range(len(ranked)), strict=True))
    return [ranked[at] for _, _, at in order]


def read_paths(
    ranked: list[Ranked], evidence: Evidence, view: Snapshot, embedder: WordEmbedder, w: Weights, most: int = PATHS_READ
) -> list[Ranked]:
    """Rescore the first files with what their paths mean: "running work later" is near `background.py`."""
    first, scored, meaning = ranked[:most], evidence.vectors, evidence.files.get("meaning")
    if not first or scored is None:
        return ranked
    rows = closest_rows(view, scored, [item.file for item in first])
    vectors, paths = view.vectors(rows.tolist()), embedder.embed_paths([view.paths[item.file] for item in first])
    values = scored.scale(channels.with_paths(scored.cosines[rows], vectors, paths, scored.weighted)).tolist()
    moved = []
    for item, value, cosine in zip(first, values, (vectors @ scored.plain).tolist(), strict=True):
        gained = w.meaning * (value - float(meaning[item.file])) * item.factor if meaning is not None else 0.0
        moved.append(Ranked(item.file, max(0.0, item.score + gained), item.factor, value, cosine))
    return best_first(moved, view) + ranked[most:]


# --- choose chunks ----------------------------------------------------------------------------------------------------

REPORT_RESULTS = 2  # of one file: a fault is often in two places
NEXT_CHUNK = 0.6  # worth of a file's next chunk relative to its best, as a result of its own
ROWS_PER_FILE = 2  # of a file that are shown or named: the best and the second
COMPARED_ROWS = 4  # of a file: the functions among them are preferred; more change nothing
READ_PAST_TESTS = 16  # if tests stand beside the code
SHORT_PREFACE = 40  # terms
WHOLE_CHUNK = 1_000_000  # characters: more than any chunk has
SHARE_OF_REST = 0.4  # of a token budget, for the next hit
LEAST_SHARE = 300
SMALLEST_EXCERPT = 40  # characters: a shorter one says nothing


class Chooser(Struct, frozen=True, dict=True):
    """What a search knows when the chunks of its files are chosen."""

    query: Query
    evidence: Evidence
    view: Snapshot
    options: SearchOptions
    weights: Weights

    @cached_property
    def finder(self) -> Finder:
        idf = self.evidence.keyword.idf
        return Finder({term: weight * idf[term] for term, weight in self.query.terms.items() if term in idf})


def choose(chooser: Chooser, ranked: Sequence[Ranked]) -> tuple[list[Hit], list[Dropped]]:
    """The best chunk of each file, its second as `more`; continues down the list until there are enough."""
    view, options = chooser.view, chooser.options
    hits: list[Hit] = []
    dropped: list[Dropped] = []
    highest = (ranked[0].score if ranked else 0.0) or 1.0
    for item, best in _candidates(chooser, ranked):
        root = options.root_of(item.file)
        if len(hits) == options.limit:
            if not options.explain or len(dropped) >= EXPLAINED_DROPS:
                break
            dropped.append(_drop(root, best[0][0], "limit", f"score {item.score / highest:.3f}"))
            continue
        kinds = options.symbol_kinds
        shown = [entry for entry in best if _has_kind(view, item.file, entry[0], kinds)] if kinds else best
        if not shown:
            dropped.append(_drop(root, best[0][0], "symbol_kind", f"it is a {best[0][0].kind}"))
            continue
        budget = _budget(options, hits)
        if budget < SMALLEST_EXCERPT:
            dropped.append(_drop(root, best[0][0], "max_tokens", "the token budget is used up"))
            break
        hit = _hit(chooser, item, item.score / highest, shown, budget)
        hits.append(_explain(chooser, hit, item) if options.explain else hit)
    return hits, dropped


def _has_kind(view: Snapshot, file: int, chunk: ChunkRow, kinds: frozenset[str]) -> bool:
    """Whether a chunk is, or has, a definition of one of these kinds: a small class is one chunk with its methods."""
    if chunk.kind in kinds:
        return True
    extents = view.extents(file, chunk.start_line, chunk.end_line)
    return any(extent.kind in kinds and extent.start_line >= chunk.start_line for extent in extents)


ScoredChunk = tuple[ChunkRow, float | None]  # with its cosine


def _candidates(chooser: Chooser, ranked: Sequence[Ranked]) -> Iterator[tuple[Ranked, list[ScoredChunk]]]:
    """Files in order with their best chunks, read a page at a time: a plain search needs one."""
    query, evidence, view, options = chooser.query, chooser.evidence, chooser.view, chooser.options
    per_file = options.per_file or (REPORT_RESULTS if query.shape is Shape.REPORT else 1)
    most = None if options.symbol_kinds else max(ROWS_PER_FILE, per_file)
    page = max(options.limit, 1)
    last = len(ranked) if options.symbol_kinds or options.explain else options.limit
    for start in range(0, min(last, len(ranked)), page):
        items = ranked[start : start + page]
        files = [item.file for item in items]
        bonuses = find_defined_rows(query, evidence.definitions, view, files) | dict.fromkeys(
            (*evidence.quoted.rows, *_heads_of_project_files(query, view, files), *_rows_at(query, view, files)),
            QUOTED_HERE,
        )
        past_tests = not query.wants_tests and any(may_have_inline_tests(view.languages[file]) for file in files)
        most_read = most if most is None else max(most, READ_PAST_TESTS if past_tests else COMPARED_ROWS)
        rows = best_rows(view, files, evidence.keyword, evidence.vectors, bonuses, most_read)
        flat = [row for chunks in rows for row, _ in chunks]
        scored_chunks = zip(view.chunks(flat), _cosines_of(evidence, view, flat), strict=True)
        chosen = [(item, list(islice(scored_chunks, len(chunks)))) for item, chunks in zip(items, rows, strict=True)]
        for (item, chunks), scored in zip(chosen, rows, strict=True):
            if query.shape is Shape.QUESTION and not query.about_types:
                _put_answers_first(chunks, scored, view, item.file, chooser.finder)
            elif query.shape is Shape.REPORT:
                _put_functions_first(chunks, scored)
            if past_tests:
                chunks.sort(key=lambda entry: is_inline_test(entry[0].language, entry[0].symbol))
            del chunks[len(chunks) if most is None else most :]
        yield from _spread(chosen, per_file) if per_file > 1 else chosen


def _put_answers_first(
    chunks: list[ScoredChunk], scored: Sequence[tuple[int, float]], view: Snapshot, file: int, finder: Finder
) -> None:
    """Order a file's best chunks by how much of them is code of functions as well, or how much of the query is in the
    name of what a chunk defines."""
    if len(chunks) < 2 or chunks[0][0].file_kind not in (FileKind.CODE, FileKind.TEST):
        return
    lines_by_file = view.once("lines of functions", dict[int, list[tuple[int, int]]])
    if file not in lines_by_file:
        lines_by_file[file] = lines_of_functions(view.extents(file, 0, sys.maxsize))

    def worth(place: int) -> float:
        row, score = scored[place]
        chunk = chunks[place][0]
        share = max(share_of_functions(chunk, lines_by_file[file]), finder.share_of(chunk.symbol.rpartition(".")[2]))
        return score + IN_FUNCTION * share * min(float(view.row_length[row]) / SHORT_ROW, 1)

    chunks[:] = [chunks[place] for place in sorted(range(len(chunks)), key=worth, reverse=True)]


def _put_functions_first(chunks: list[ScoredChunk], scored: Sequence[tuple[int, float]]) -> None:
    """A fault is in what a function does, more often than in the head of a class with the same words."""
    worth = {
        chunk.chunk_id: score + IN_FUNCTION * symbol_kind(chunk.kind).is_callable
        for (chunk, _), (_, score) in zip(chunks, scored, strict=True)
    }
    chunks.sort(key=lambda entry: worth[entry[0].chunk_id], reverse=True)


def _heads_of_project_files(query: Query, view: Snapshot, files: Sequence[int]) -> list[int]:
    """The rows with which a README, a license begins: what it is about is said there, in other words than the
    question's. A few words above the first heading are none."""
    heads: list[int] = []
    for file in files:
        if view.kinds[file] == FileKind.DOCS and query.is_set_up_by(view.paths[file]):
            rows = range(int(view.file_first[file]), int(view.file_first[file] + view.file_rows[file]))
            heads += [row for row in rows if view.row_length[row] >= SHORT_PREFACE][:1] or rows[:1]
    return heads


def _rows_at(query: Query, view: Snapshot, files: Sequence[int]) -> list[int]:
    """The rows with the lines of these files that the query names."""
    lines = ((file, query.line_in(view.paths[file])) for file in files) if query.locations else ()
    rows = (view.row_at(file, line) for file, line in lines if line is not None)
    return [row for row in rows if row is not None]


def _spread(chosen: list[tuple[Ranked, list[ScoredChunk]]], per_file: int) -> list[tuple[Ranked, list[ScoredChunk]]]:
    """The next chunks of each file as results of their own, each worth less than the one before."""
    spread = [
        (
            replace(item, score=item.score * NEXT_CHUNK**place),
            chunks[place:] if place == 0 else chunks[place : place + 1],
        )
        for item, chunks in chosen
        for place in range(min(per_file, len(chunks)))
    ]
    return sorted(spread, key=lambda entry: -entry[0].score)


def _cosines_of(evidence: Evidence, view: Snapshot, rows: Sequence[int]) -> Sequence[float | None]:
    """With the query as it was asked, whatever its words are worth here: distances are on the model's own scale."""
    if evidence.vectors is None or not rows:
        return [None] * len(rows)
    cosines: list[float | None] = (view.vectors(rows) @ evidence.vectors.plain).tolist()
    return cosines


def _budget(options: SearchOptions, hits: Sequence[Hit]) -> int:
    """Characters the next hit may show. Under a limit the best hits get the larger shares, and all of them some."""
    room = WHOLE_CHUNK if options.full_text or options.max_chars else budget_for(len(hits))
    if not options.max_chars:
        return room
    remaining = options.max_chars - sum(len(hit.text) for hit in hits)
    return min(room, remaining, max(int(remaining * SHARE_OF_REST), LEAST_SHARE))


def _hit(chooser: Chooser, item: Ranked, score: float, best: Sequence[ScoredChunk], budget: int) -> Hit:
    """The first of a file's best chunks as a result that shows `budget` characters of it."""
    query, view, kinds, finder = chooser.query, chooser.view, chooser.options.symbol_kinds, chooser.finder
    chunk, cosine = best[0]
    is_prose = chunk.file_kind == FileKind.DOCS
    shows_head = is_prose and query.is_set_up_by(chunk.path)
    is_code = chunk.file_kind in (FileKind.CODE, FileKind.TEST)
    extents = view.extents(item.file, chunk.start_line, chunk.end_line) if is_code else []
    heads = (extent.start_line - chunk.start_line for extent in extents if query.asks_for(extent.qualified))
    is_cut = budget < WHOLE_CHUNK
    head = next((line for line in heads if line > 0), None) if is_cut else None
    at = line_asked_for(query, chunk.path, chunk.start_line, chunk.text)
    shown = focus(chunk.text, Finder({}) if shows_head else finder, budget, prose=is_prose, at=at, head=head)
    symbol, kind = chunk.symbol, chunk.kind
    if is_code:
        matching = [extent for extent in extents if extent.kind in kinds and extent.start_line >= chunk.start_line]
        if kinds and chunk.kind not in kinds:
            symbol, kind = matching[0].qualified, matching[0].kind
        if answering := answering_definition(query, matching or extents, chunk.start_line, chunk.text, shown, finder):
            symbol, kind = answering.qualified, answering.kind
            if is_cut and at is None and head is None:
                shown = _from_definition(answering, matching or extents, chunk, shown, finder)
        symbol = "" if kind == "package" else _without_namespace(symbol, extents)
    return Hit(
        root=chooser.options.root_of(item.file),
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        text=shown.text,
        text_line=chunk.start_line + shown.first,
        score=round(score, 4),
        chunk_id=chunk.chunk_id,
        language=chunk.language,
        kind=FileKind(chunk.file_kind),
        symbol=symbol,
        symbol_kind=kind,
        breadcrumb=plain_headings(chunk.breadcrumb) if chunk.file_kind == FileKind.DOCS else chunk.breadcrumb,
        distance=None if cosine is None else Distance(round(channels.squared_l2(cosine), 4)),
        more=tuple((other.start_line, other.end_line) for other, _ in best[1:2]),
    )


def _from_definition(named: Extent, extents: Sequence[Extent], chunk: ChunkRow, shown: Shown, finder: Finder) -> Shown:
    """As many characters from the definition on that a result is called after, without the others before it, unless
    these have more of the query."""
    top = chunk.start_line + shown.first
    if not any(top <= extent.end_line < named.start_line for extent in extents):
        return shown
    from_there = focus(chunk.text, finder, len(shown.text), head=named.start_line - chunk.start_line)
    terms_before, terms_after = ({term for _, term in finder.find_terms(part.text)} for part in (shown, from_there))
    return from_there if terms_before <= terms_after else shown


def _without_namespace(symbol: str, extents: Sequence[Extent]) -> str:
    """A type of C# or C++ as code inside its namespace writes it; nothing for the namespace itself."""
    path = f"{symbol}."
    around = (f"{extent.qualified}." for extent in extents if extent.kind == "namespace")
    outer = max((len(namespace) for namespace in around if path.startswith(namespace)), default=0)
    return path[outer:-1]


def _drop(root: str, chunk: ChunkRow, rule: str, detail: str) -> Dropped:
    return Dropped(chunk.path, chunk.start_line, chunk.end_line, rule, detail, root)


# --- explain ----------------------------------------------------------------------------------------------------------

EXPLAINED_DROPS = 20  # dropped candidates named in an explanation


def _explain(chooser: Chooser, hit: Hit, item: Ranked) -> Hit:
    """The result with the signals of its file, what each added to the score, and the file's ranks."""
    query, evidence, view, weights = chooser.query, chooser.evidence, chooser.view, chooser.weights
    values = {name: float(signal[item.file]) for name, signal in evidence.files.items()}
    if item.meaning is not None and "meaning" in values:
        values["meaning"] = item.meaning
    added = [
        Signal(name, round(value, 4), round(value * getattr(weights, name), 4))
        for name, value in values.items()
        if value
    ]
    facts = layout_of(view, chooser.options.roots).facts(item.file)
    factors_by_name = boost.multipliers(query, facts, view.kinds[item.file], weights)
    if (declares := declaration_factor(item.file, query, view, weights)) != 1:
        factors_by_name["declarations"] = declares
    factors = [Signal(name, round(value, 4), round(value, 4), factor=True) for name, value in factors_by_name.items()]
    return replace(hit, signals=(*added, *factors), ranks=_ranks(item.file, evidence))


def _ranks(file: int, evidence: Evidence) -> dict[str, int]:
    """The file's rank in each channel alone."""
    channels = {"keyword": "chunks", "vector": "meaning", "symbol": "exact_definition"}
    ranks = {}
    for channel, signal in channels.items():
        values = evidence.files.get(signal)
        if values is not None and values[file] > 0:
            ranks[channel] = int((values > values[file]).sum()) + 1
    return ranks


def _find_filtered_out(scores: Floats, view: Snapshot, options: SearchOptions) -> list[Dropped]:
    """The best files that only a filter excludes."""
    assert options.allowed is not None
    outside = np.where(options.allowed, 0, scores)
    order = np.argsort(-outside)[:5]
    return [
        Dropped(view.paths[at], 0, 0, "filter", "a filter leaves it out", options.root_of(at))
        for at in order.tolist()
        if outside[at] > 0
    ]


# --- quality ----------------------------------------------------------------------------------------------------------

JUDGED = 3  # first files that the confidence is about
TRUSTED_FROM = 0.6  # of a question, by rarity: if less is known, leading by that means little
USUAL_LEAD, USUAL_SPREAD = 0.25, 0.4  # with too few files to tell
COMPARED_FOLDERS = 5  # of the first files: an answer is more likely where others lie beside it
POINTING = {"stem_match": 0.5, "named_definition": 0.5, "scope_match": 1.0, "path_mention": 1.0}  # signals
MOSTLY_KNOWN = 0.5  # of a question, by rarity: if less occurs here, other spellings are suggested


def _understood(query: Query, evidence: Evidence, embedder: Embedder | None) -> bool | None:
    """Whether the model knows at least half of the query's words; None if its vocabulary is unknown."""
    if evidence.vectors is None:
        return False
    if not is_word_embedder(embedder):
        return None
    return 2 * sum(map(embedder.knows, query.words)) >= len(query.words)


def features_of(query: Query, evidence: Evidence, view: Snapshot, ranked: Sequence[Ranked]) -> AnswerFeatures:
    closest = max((item.closest for item in ranked[:JUDGED] if item.closest is not None), default=None)
    shares = share_words(query, evidence.keyword, [item.file for item in ranked[:JUDGED]], len(view.row_file))
    length = min(len(query.words) / REPORT_WORDS, 1.0)
    if not ranked:
        return AnswerFeatures(*shares, closest, length=length)
    first, files, quoted = ranked[0].file, evidence.files, evidence.quoted
    trust = min(1.0, shares.known / TRUSTED_FROM) if evidence.keyword.idf else 0.0
    lead, spread = (
        1 - ranked[place].score / ranked[0].score if len(ranked) > place else usual
        for place, usual in ((3, USUAL_LEAD), (9, USUAL_SPREAD))
    )
    folders = [dirname(view.paths[item.file]) for item in ranked[:COMPARED_FOLDERS]]
    shows_key = bool((view.row_file[list(quoted.label_uses)] == first).any())
    return AnswerFeatures(
        *shares,
        closest,
        title=trust * float(files["title_coverage"][first]),
        lead=trust * lead,
        spread=trust * spread,
        pointed=sum(weight * float(files[name][first]) for name, weight in POINTING.items()),
        length=length,
        together=folders.count(folders[0]) / COMPARED_FOLDERS,
        agreed=float(files["chunks"][first] >= files["chunks"].max()),
        alone=len(ranked) == 1,
        quoted=quoted.is_whole and not shows_key and bool((view.row_file[list(quoted.rows)] == first).any()),
        shown_by_key=shows_key,
        served=bool((view.row_file[list(quoted.served)] == first).any()),
        defined=any(symbol.file == first and symbol.name == query.names[0] for symbol in evidence.definitions),
    )


def _is_named(ranked: Sequence[Ranked], evidence: Evidence) -> bool:
    """Whether the query names the first file, asks for what that file sets up, or names something defined here."""
    pointing = (evidence.files[name] for name in ("path_mention", "project_file"))
    return bool(evidence.definitions) or (bool(ranked) and any(signal[ranked[0].file] > 0 for signal in pointing))


def is_misspelt(query: Query, evidence: Evidence, features: AnswerFeatures) -> bool:
    """Whether the essential part of the query occurs nowhere: a word of a name not defined here, or most of a
    question."""
    unknown = any(stem(word) not in evidence.keyword.idf for word in query.words)
    return unknown and (not evidence.definitions if query.bare_name else features.known < MOSTLY_KNOWN)
