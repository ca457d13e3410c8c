"""The channels of evidence: keywords (BM25 over chunks with fields, then over whole files), meaning and history."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.ports import IN_FOLDER, IN_STEM, Posting, Snapshot
from codeinfo.search.query import STOP_WORDS, Query
from codeinfo.search.weights import Weights
from codeinfo.tokens import stem, terms, words

Floats = NDArray[np.float32]
Ints = NDArray[np.integer]

STEM, FOLDER, DEFINED = IN_STEM, IN_FOLDER, 4  # bits of `TermUses.fields`
ANYWHERE = 0
_ALL_BITS = 0xFFFF_FFFF


class Runs(NamedTuple):
    """Rows of one file are contiguous: where each run starts, which file it is, and which run a row is in."""

    starts: Ints
    owners: Ints
    run_of_row: Ints


class Norms(NamedTuple):
    """The frequency at which a term reaches half its value: higher in long texts."""

    rows: Floats
    files: Floats


class TermUses(NamedTuple):
    """Where a term occurs and how often it counts there: independent of the query's other terms."""

    rows: Ints
    uses: Floats
    files: Ints
    firsts: Ints  # which of the rows is the first of each file, and their end
    file_gains: Floats  # how much it says about each file, from 0 to 1
    fields: NDArray[np.uint8]  # where in the file: bits

    def files_with(self, fields: int) -> Ints:
        """The files that have it in one of these fields; ANYWHERE: all of its files."""
        return self.files if fields == ANYWHERE else self.files[(self.fields & np.uint8(fields)) > 0]

    def within(self, is_wanted: NDArray[np.bool_]) -> TermUses:
        """Restricted to these files."""
        positions = is_wanted.take(self.files).nonzero()[0]
        starts, ends = self.firsts.take(positions), self.firsts.take(positions + 1)
        rows, firsts = spans(starts, ends), np.append(0, (ends - starts).cumsum())
        files, gains, fields = self.files.take(positions), self.file_gains.take(positions), self.fields.take(positions)
        return TermUses(self.rows.take(rows), self.uses.take(rows), files, firsts, gains, fields)


_NONE, _NOWHERE = np.zeros(0, np.float32), np.zeros(0, np.int32)
NO_USES = TermUses(_NOWHERE, _NONE, _NOWHERE, np.zeros(1, np.int32), _NONE, np.zeros(0, np.uint8))


class Frequency(NamedTuple):
    """How many rows and files contain a term."""

    rows: float
    files: float

    @classmethod
    def of(cls, uses: TermUses) -> Frequency:
        return cls(len(uses.rows), len(uses.files))


class KeywordScores(Struct, frozen=True):
    files: Floats  # BM25 of every file as one text
    idf: Mapping[str, float]  # of the terms that occur, by chunks
    uses: Mapping[str, TermUses]  # of the same terms, in the same order
    term_weights: NDArray[np.float64]  # weight in the query times rarity, of each
    row_norms: Floats

    @property
    def shares(self) -> NDArray[np.float64]:
        """Share of the query's weight, by rarity, for each term."""
        return self.term_weights / (math.fsum(self.term_weights) or 1.0)

    def rows(self, files: Ints | None = None, *, in_file: bool = False) -> Floats:
        """BM25 of every chunk; if the terms have many, at least of the chunks of some files. `in_file`: to compare
        chunks of one file, where having more of the query's terms says more than repeating one in a few lines."""
        scores = np.zeros(len(self.row_norms))
        for uses, weight in zip(self._uses_in(files), self.term_weights.astype(np.float32), strict=True):
            norms = self.row_norms.take(uses.rows)
            if in_file:
                norms = LEAST_NORM_IN_FILE + NORM_IN_FILE * norms
            scores[uses.rows] += uses.uses / (uses.uses + norms) * weight
        return scores.astype(np.float32)

    def row_coverage(self, files: Ints | None = None) -> Floats:
        """Share of the query's weight, by rarity, that every chunk has, or at least the chunks of some files."""
        covered = np.zeros(len(self.row_norms))
        for uses, share in zip(self._uses_in(files), self.shares, strict=True):
            covered[uses.rows] += share
        return covered.astype(np.float32)

    def _uses_in(self, files: Ints | None) -> Iterable[TermUses]:
        every = self.uses.values()
        if files is None or sum(len(uses.rows) for uses in every) <= CHOSEN_FROM:
            return every
        is_wanted = np.zeros(len(self.files), bool)
        is_wanted[files] = True
        return [uses.within(is_wanted) for uses in every]


# About k1 = 2, b = .25, measured by the lines that commits changed.
LEAST_NORM_IN_FILE = np.float32(1.5)
NORM_IN_FILE = np.float32(0.1)
CHOSEN_FROM = 250_000  # rows of all terms: scoring fewer is as fast as choosing some of them


def spans(starts: Ints, ends: Ints) -> Ints:
    """All numbers from each start to its end, one span after the other."""
    counts = ends - starts
    offsets = counts.cumsum() - counts
    numbers: Ints = (starts - offsets).repeat(counts) + np.arange(int(counts.sum()))
    return numbers


def runs_of(row_file: Ints) -> Runs:
    starts = first_of_runs(row_file)
    lengths = np.diff(starts, append=len(row_file))
    return Runs(starts, row_file[starts], np.repeat(np.arange(len(starts)), lengths))


def norms_of(row_file: Ints, row_length: Floats, files: int, w: Weights) -> Norms:
    file_length = np.bincount(row_file, row_length, files).astype(np.float32)
    return Norms(_norm(row_length, w), _norm(file_length, w))


def _norm(lengths: Floats, w: Weights) -> Floats:
    mean = max(float(lengths.mean()), 1e-6) if len(lengths) else 1.0
    return (w.k1 * (1 - w.b + w.b * lengths / mean)).astype(np.float32)


def read_terms(postings: Mapping[str, Posting], row_file: Ints, norms: Norms, w: Weights) -> dict[str, TermUses]:
    return {term: _read_term(posting, row_file, norms, w) for term, posting in postings.items()}


def _read_term(posting: Posting, row_file: Ints, norms: Norms, w: Weights) -> TermUses:
    uses, fields = _uses(posting, w)
    owners = row_file.take(posting.rows)
    starts = first_of_runs(owners)
    files = owners.take(starts)
    in_files: Floats = np.add.reduceat(uses, starts)
    file_gains: Floats = in_files / (in_files + norms.files.take(files))
    firsts = np.append(starts, len(owners)).astype(np.int32)
    # A copy: terms are cached, and this one would keep everything that was read with it in memory.
    return TermUses(posting.rows.copy(), uses, files, firsts, file_gains, np.bitwise_or.reduceat(fields, starts))


def score_keywords(
    terms: Mapping[str, float],
    uses_of: Mapping[str, TermUses],
    norms: Norms,
    frequencies: Mapping[str, Frequency] | None = None,
) -> KeywordScores:
    """`uses_of` has the terms that occur in the index whose rows and files have these norms. `frequencies` are theirs
    if it does not have all of their uses."""
    rows, files = len(norms.rows), len(norms.files)
    occurring = {term: uses_of[term] for term in terms if term in uses_of}
    idf: dict[str, float] = {}
    scores = np.zeros(files)
    for term, uses in occurring.items():
        frequency = frequencies[term] if frequencies else Frequency.of(uses)
        idf[term] = rarity(frequency.rows, rows)
        scores[uses.files] += np.float64(terms[term] * rarity(frequency.files, files)) * uses.file_gains
    weights = np.array([terms[term] * value for term, value in idf.items()])
    return KeywordScores(scores.astype(np.float32), idf, occurring, weights, norms.rows)


def _uses(posting: Posting, w: Weights) -> tuple[Floats, NDArray[np.uint8]]:
    """How often a term counts in each row, in the text, and more if a name or the path has it; and the bits that say
    which. Most rows have it only in the text."""
    _, tenths, types, names, path = posting
    uses: Floats = np.divide(tenths, np.float32(10), dtype=np.float32)
    fields: NDArray[np.uint8] = path | (((types | names) > 0) * np.uint8(DEFINED))
    in_names = (fields > 0).nonzero()[0]
    weights = uses.take(in_names)
    weights += np.float32(w.type_field) * types.take(in_names)
    weights += np.float32(w.name_field) * names.take(in_names)
    weights += _path_weights(w).take(path.take(in_names))
    uses[in_names] = weights
    return uses, fields


def _path_weights(w: Weights) -> Floats:
    """By the bits of a path: the bonus for a term in the file's name, in its folders, or in both."""
    bits = range((IN_STEM | IN_FOLDER) + 1)
    return np.array([w.stem_field * bool(b & IN_STEM) + w.folder_field * bool(b & IN_FOLDER) for b in bits], np.float32)


def rarity(having: float, total: int) -> float:
    return math.log1p((total - having + 0.5) / (having + 0.5))


def first_of_runs(values: Ints) -> NDArray[np.intp]:
    """Where neighbours differ, including the start."""
    changes = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes.nonzero()[0]


def file_scores(rows: Floats, runs: Runs, files: int, decay: tuple[float, ...]) -> Floats:
    """A file's score: its best chunks, each next one weighing less."""
    result = np.zeros(files, np.float32)
    hit = (rows > 0).nonzero()[0]  # eight times as fast as on floats
    if not len(hit):
        return result
    run = runs.run_of_row[hit]
    # Integers that sort by run, then best first (the bits of positive floats sort like them): faster to sort than
    # indices. Runs are already in order, which a stable sort exploits.
    order = (run << 32) | (_ALL_BITS - rows[hit].view(np.uint32))
    order.sort(kind="stable")
    values = (_ALL_BITS - (order & _ALL_BITS)).astype(np.uint32).view(np.float32)
    starts = first_of_runs(run)
    places = np.arange(len(run)) - starts.repeat(np.append(starts[1:], len(run)) - starts)
    first = (places < len(decay)).nonzero()[0]
    gains = values.take(first) * np.array(decay, np.float32).take(places.take(first))
    result[runs.owners] = np.bincount(run.take(first), gains, len(runs.starts))
    return result


def best_coverage(covered: Floats, runs: Runs, files: int) -> Floats:
    """Of each file's chunks the one that has most of the query, squared: words that are together say more than words
    all over a long file, and nearly all of them more than twice as much as half."""
    result = np.zeros(files, np.float32)
    if len(runs.starts):
        result[runs.owners] = np.square(np.maximum.reduceat(covered, runs.starts))
    return result


LEAST_REACH = 0.05  # if all files are about equally near, the nearest is no answer either
MOST = 1.3  # a path may bring a file nearer than any content
SURVEYED, COMPARED = 8_000, 2_000  # files: their mean is off by .001
PATH_SHARE = 0.4  # of a path's vector relative to a chunk's: from .3 to .5 it makes no difference


def weigh_words(query: Query, idf: Mapping[str, float]) -> list[tuple[str, float]]:
    """The words of a query in order, each with its weight as a term times the root of its rarity in this index.

    Words in no file and words such as "how" are assumed to be as rare as the others on average: the first are what
    meaning is for, and the model itself knows how little the second say.
    """
    stems = [(word, stem(word)) for word in words(query.text)]
    rarities = [idf[term] for _, term in stems if term in idf]
    usual = math.sqrt(sum(rarities) / len(rarities)) if rarities else 1.0
    return [
        (word, query.terms.get(term, 1.0) * (math.sqrt(idf[term]) if term in idf else usual)) for word, term in stems
    ]


class Scale(NamedTuple):
    """The mean of the best cosines of all files, and how far the nearest file is above it."""

    mean: float
    reach: float

    def __call__(self, cosines: Floats) -> Floats:
        """0 at the mean, 1 at the nearest file: the same in an index of 200 files and in one of 20,000.

        Cut at 0, so that the channel lifts files that words cannot reach and pushes none down.
        """
        values: Floats = np.clip((cosines - np.float32(self.mean)) / np.float32(self.reach), 0, MOST)
        return values


def file_meaning(cosines: Floats, runs: Runs, files: int, usual: float | None = None) -> tuple[Floats, Scale]:
    """Each file's best cosine on the common scale, and that scale. `usual` is the mean over all files if `cosines`
    covers only some."""
    result = np.zeros(files, np.float32)
    if not len(runs.starts):
        return result, Scale(0.0, 1.0)
    best = np.maximum.reduceat(cosines, runs.starts)
    mean = float(np.add.reduce(best) / np.float32(len(best))) if usual is None else usual
    scale = Scale(mean, max(float(best.max()) - mean, LEAST_REACH))
    result[runs.owners] = scale(best)
    return result, scale


class _Sample(NamedTuple):
    """Files from all over a large index: the rows of many, and the vectors of some of those.

    Chosen by content, so that an index with its files in another order has the same sample.
    """

    rows: Ints
    starts: Ints  # of each file's rows
    compared: slice  # which of the files have vectors here
    vectors: Floats
    vector_starts: Ints

    @classmethod
    def of(cls, view: Snapshot) -> _Sample:
        having = (view.file_rows > 0).nonzero()[0]
        files = having[view.file_fingerprints()[having].argsort(kind="stable")[:SURVEYED]]
        compared = slice(None, None, max(1, len(files) // COMPARED))
        rows, starts, _ = rows_of(view, files)
        sampled_rows, sampled_starts, _ = rows_of(view, files[compared])
        return cls(rows, starts, compared, view.vectors(sampled_rows), sampled_starts)


class Survey(NamedTuple):
    """How near the files of a large index are to a query, by the signs of their vectors."""

    row_file: Ints
    signs: Ints  # for every row, how many differ from the query's
    fewest: Ints  # of the nearest row of each sampled file
    sample: _Sample

    @classmethod
    def of(cls, view: Snapshot, signs: Ints) -> Survey:
        sample = view.once("sample", lambda: _Sample.of(view))
        return cls(view.row_file, signs, np.minimum.reduceat(signs[sample.rows], sample.starts), sample)

    def rough_meaning(self) -> tuple[Ints, Floats]:
        """The nearest tenth of the files, and roughly how much `file_meaning` each has."""
        place = len(self.fewest) // 10
        most = int(np.partition(self.fewest, place)[place])
        rows = (self.signs <= most).nonzero()[0]
        files = self.row_file[rows]
        starts = first_of_runs(files)
        fewest = np.minimum.reduceat(self.signs[rows], starts)
        reach = max(float(self.fewest.mean()) - float(fewest.min()), 1.0)
        return files[starts], ((most - fewest.astype(np.float32)) / np.float32(reach))

    def usual_cosine(self, query: Floats) -> float:
        """Roughly the mean of all files' best cosines, estimated from their signs."""
        best = np.maximum.reduceat(self.sample.vectors @ query, self.sample.vector_starts)
        signs = self.fewest[self.sample.compared].astype(np.float64)
        apart = signs - signs.mean()
        slope = (apart @ best) / max(apart @ apart, 1.0)
        return float(best.mean(dtype=np.float64) + slope * (self.fewest.mean() - signs.mean()))


def rows_of(view: Snapshot, files: Sequence[int] | Ints) -> tuple[Ints, Ints, Ints]:
    """The rows of these files concatenated, where each file's start, and their number."""
    firsts, counts = view.file_first[files], view.file_rows[files]
    return spans(firsts, firsts + counts), counts.cumsum() - counts, counts


class QueryVectors(NamedTuple):
    """A query as vectors."""

    plain: Floats  # as its embedder reads it: distances are measured from it
    weighted: Floats  # with its words weighted for this index: chunks are ranked by it


class VectorScores(NamedTuple):
    """The vector channel's result for a query."""

    plain: Floats  # as in `QueryVectors`
    weighted: Floats
    cosines: Floats  # of every row with `weighted`; NaN in a large index where not needed yet
    scale: Scale


def read_cosines(view: Snapshot, vectors: VectorScores, rows: Ints) -> Floats:
    """The cosines of `rows`."""
    cosines = vectors.cosines.take(rows)
    missing = np.isnan(cosines).nonzero()[0]
    if len(missing) and (computed := view.cosines(vectors.weighted, rows.take(missing))) is not None:
        cosines[missing] = vectors.cosines[rows.take(missing)] = computed
    return cosines


def with_paths(cosines: Floats, chunks: Floats, paths: Floats, query: Floats) -> Floats:
    """The cosine of the query with each chunk and its path taken together.

    It is that of unit(chunk + share · path). Unlike a sum of two cosines it does not count twice what both say.
    """
    overlap = np.einsum("ij,ij->i", chunks, paths)
    joined: Floats = (cosines + PATH_SHARE * (paths @ query)) / np.sqrt(1 + PATH_SHARE**2 + 2 * PATH_SHARE * overlap)
    return joined


def squared_l2(cosine: float) -> float:
    """The distance between unit vectors: 0 identical, 4 opposite. Stored ones are rounded, so a cosine may exceed 1."""
    return max(0.0, 2 - 2 * cosine)


MOST_FILES = 15  # a commit that changed more is a sweep and says little about each file
SUBJECT_USES = 2  # a word in the subject counts as this many in the body
MOST_BODY_TERMS = 120
MOST_USES = 255
K1, B = 1.2, 0.6
_TRAILER = r"(?mi)^[A-Za-z][A-Za-z-]{1,30}-(?:by|id|commit|on|to)\s*:.*$"  # compiled when commits are read


class Commit(NamedTuple):
    id: str
    message: str
    paths: tuple[str, ...]  # relative to the root of the index


class CommitIndex(NamedTuple):
    """Messages as posting lists, and which commit changed which path."""

    head: str  # the commit whose history this is
    ids: Sequence[str]  # of all commits read, newest first; empty in an index from an earlier release
    indexed: NDArray[np.bool_]  # which of them are in the columns below, in the same order
    vocabulary: Mapping[str, int]
    starts: NDArray[np.int32]  # of each term's entries in the next two columns, and their end
    commits: NDArray[np.int32]
    uses: NDArray[np.uint8]
    lengths: Floats  # of each commit's message, in weighted terms
    changed: NDArray[np.int32]  # commit of each change …
    path_ids: NDArray[np.int32]  # … and its path
    shares: Floats  # … and the commit's weight for it: 1 / √files
    paths: Sequence[str]


def index_commits(
    head: str, ids: Sequence[str], commits: Iterable[Commit], previous: CommitIndex | None = None
) -> CommitIndex:
    """The index of the commits `ids`; `commits` holds those that `previous` does not have, in that order."""
    indexed = dict.fromkeys(ids, False) if previous is None else {}
    vocabulary, path_of = dict[str, int](), dict[str, int]()
    lengths: list[float] = []
    term_ids: list[int] = []
    owners: list[int] = []
    uses: list[int] = []
    changed: list[int] = []
    path_ids: list[int] = []
    shares: list[float] = []
    for commit in commits:
        if not 0 < len(commit.paths) <= MOST_FILES:
            continue
        indexed[commit.id] = True
        counts = _count_terms(commit.message)
        number = len(lengths)
        lengths.append(float(sum(counts.values())))
        for term, count in counts.items():
            term_ids.append(vocabulary.setdefault(term, len(vocabulary)))
            owners.append(number)
            uses.append(min(count, MOST_USES))
        for path in commit.paths:
            changed.append(number)
            path_ids.append(path_of.setdefault(path, len(path_of)))
            shares.append(1 / math.sqrt(len(commit.paths)))
    order = np.argsort(term_ids, kind="stable")
    index = CommitIndex(
        head,
        list(indexed),
        np.fromiter(indexed.values(), np.bool_, len(indexed)),
        vocabulary,
        np.searchsorted(np.array(term_ids)[order], np.arange(len(vocabulary) + 1)).astype(np.int32),
        np.array(owners, np.int32)[order],
        np.array(uses, np.uint8)[order],
        np.array(lengths, np.float32),
        np.array(changed, np.int32),
        np.array(path_ids, np.int32),
        np.array(shares, np.float32),
        tuple(path_of),
    )
    return index if previous is None else _join(head, ids, (index, previous))


def _join(head: str, ids: Sequence[str], parts: Sequence[CommitIndex]) -> CommitIndex:
    """One index of the commits `ids`, in that order, as far as a part has them."""
    place_of = {commit: place for place, commit in enumerate(ids)}
    lengths, indexed = np.zeros(len(ids), np.float32), np.zeros(len(ids), np.bool_)
    vocabulary, path_of = dict[str, int](), dict[str, int]()
    uses, changes = [], []
    for part in parts:
        positions = (
            place_of.get(commit, -1) for commit, is_indexed in zip(part.ids, part.indexed, strict=True) if is_indexed
        )
        places = np.fromiter(positions, np.int32, len(part.lengths))
        is_kept = places >= 0
        lengths[places[is_kept]], indexed[places[is_kept]] = part.lengths[is_kept], True
        mask = is_kept[part.commits]
        term_ids = np.repeat(np.arange(len(part.vocabulary)), np.diff(part.starts))[mask]
        uses.append((_renumber(term_ids, part.vocabulary, vocabulary), places[part.commits[mask]], part.uses[mask]))
        mask = is_kept[part.changed]
        path_ids = _renumber(part.path_ids[mask], part.paths, path_of)
        changes.append((places[part.changed[mask]], path_ids, part.shares[mask]))
    terms, owners, counts = map(np.concatenate, zip(*uses, strict=True))
    changed, paths, shares = map(np.concatenate, zip(*changes, strict=True))
    order, by_place = np.lexsort((owners, terms)), np.argsort(changed, kind="stable")
    row_of = (np.cumsum(indexed) - 1).astype(np.int32)
    return CommitIndex(
        head,
        ids,
        indexed,
        vocabulary,
        np.searchsorted(terms[order], np.arange(len(vocabulary) + 1)).astype(np.int32),
        row_of[owners[order]],
        counts[order],
        lengths[indexed],
        row_of[changed[by_place]],
        paths[by_place],
        shares[by_place],
        tuple(path_of),
    )


def _renumber(used: NDArray[np.integer], names: Iterable[str], numbers: dict[str, int]) -> NDArray[np.int32]:
    """`used`, which are positions in `names`, as positions in `numbers`; used names that have none are added."""
    is_used = np.zeros(int(used.max(initial=-1)) + 1, np.bool_)
    is_used[used] = True
    pairs = zip(names, is_used.tolist(), strict=False)  # names beyond the last one used do not matter
    moved = [numbers.setdefault(name, len(numbers)) if used_here else -1 for name, used_here in pairs]
    renamed: NDArray[np.int32] = np.array(moved, np.int32)[used]
    return renamed


@lru_cache(maxsize=1)
def _stopped_terms() -> frozenset[str]:
    return STOP_WORDS.union(map(stem, STOP_WORDS))


def _count_terms(message: str) -> dict[str, int]:
    subject, _, body = re.sub(_TRAILER, "", message).strip().partition("\n")
    counts: dict[str, int] = {}
    stopped = _stopped_terms()
    for counted, weight in ((terms(subject), SUBJECT_USES), (terms(body)[:MOST_BODY_TERMS], 1)):
        for term in counted:
            if term not in stopped:
                counts[term] = counts.get(term, 0) + weight
    return counts


class PastChanges(NamedTuple):
    """What scoring a history needs besides its words: changes to files that still exist, column by column."""

    norms: Floats  # of each commit: the frequency at which a term reaches half its value
    commits: Ints
    files: Ints
    shares: Floats


def past_changes(index: CommitIndex, file_of_path: NDArray[np.intp]) -> PastChanges:
    """`file_of_path` gives a file's position by path id, -1 if it is gone."""
    mean = max(float(index.lengths.mean()), 1e-6) if len(index.lengths) else 1.0
    files = file_of_path[index.path_ids]
    present = files >= 0
    norms: Floats = K1 * (1 - B + B * index.lengths / mean)
    return PastChanges(norms, index.changed[present], files[present], index.shares[present])


def score_changes(index: CommitIndex, query: Mapping[str, float], changes_here: PastChanges) -> Floats:
    """What each past change says for its file."""
    count = len(index.lengths)
    occurring = [(at, weight) for term, weight in query.items() if (at := index.vocabulary.get(term)) is not None]
    if not occurring:
        return np.zeros(len(changes_here.commits), np.float32)
    ids, weights = map(np.array, zip(*occurring, strict=True))
    starts, ends = index.starts[ids], index.starts[ids + 1]
    having = ends - starts
    gains_of = weights * np.log1p((count - having + 0.5) / (having + 0.5))
    entries = spans(starts, ends)
    commits, uses = index.commits.take(entries), index.uses.take(entries).astype(np.float32)
    gains = gains_of.repeat(having) * (uses / (uses + changes_here.norms.take(commits)))
    scores = np.bincount(commits, gains, count).astype(np.float32)
    changes: Floats = scores.take(changes_here.commits) * changes_here.shares
    return changes
