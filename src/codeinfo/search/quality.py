"""Search quality: how likely it is that the answer is among the first results, and what to do if it is not.

The confidence is a logistic model of how much of the query the first file covers, how far it leads and whether the
query points at it, fitted on questions, commit messages and questions about other projects together: an answer may look
clear and still be wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.model import Dropped, NextStep, Quality, to_run
from codeinfo.ports import Snapshot
from codeinfo.search.channels import DEFINED, STEM, KeywordScores, first_of_runs
from codeinfo.search.query import STOP_WORDS, Query
from codeinfo.tokens import split_identifier, stem

NAMES = STEM | DEFINED
ALL_OF_IT = 0.999
QUOTED = "the first result contains the exact text"
SHOWN_BY_KEY = "the first result shows the exact text, by its key"
SERVED = "the first result serves this path"
OK = 0.85  # at or above, nine of ten answers have a right file among the first three (.91 to .98 by set)
THERE = 0.97  # that a name or a text occurs is certain, whatever it means
UNSAID = 0.3  # nearly every file has a letter


class AnswerFeatures(Struct, frozen=True):
    """The evidence for an answer, each 0..1, but `pointed` up to 3."""

    known: float  # share of the query, by rarity, that occurs in this index at all
    covered: float  # share that the best of the first files has
    named: float  # share that the best file has in its own name or in the names it defines
    closest: float | None  # the highest cosine among the first files' chunks; None without vectors of a known scale
    title: float = 0.0  # share of the first line's words that the first file has; less if few words are known
    lead: float = 0.0  # by how much the first file's score exceeds the fourth's
    spread: float = 0.0  # and the tenth's
    pointed: float = 0.0  # how much the query points at the first file: its name, its folders, a mention, a definition
    length: float = 0.0  # of the query, relative to a report: the more it says, the less is due to chance
    together: float = 0.0  # share of the first five files that lie in the folder of the first
    agreed: float = 0.0  # 1 if words alone put the first file first as well
    alone: bool = False  # no other file matches at all
    quoted: bool = False  # the first file contains the query's text verbatim
    shown_by_key: bool = False  # or the key of that text
    served: bool = False  # or serves the route that is the query
    defined: bool = False  # the first file defines the name asked for


WITHOUT_VECTORS = {"title": 2.9, "lead": 1.5, "spread": 2.6, "pointed": 2.1, "length": 1.0, "together": 0.8}
WITHOUT_VECTORS_FROM = -4.25
WITH_VECTORS = {
    "closest": 3.8,
    "title": 1.8,
    "lead": 2.1,
    "spread": 2.3,
    "pointed": 1.4,
    "together": 0.9,
    "agreed": 0.4,
}
WITH_VECTORS_FROM = -4.9


class WordShares(NamedTuple):
    """How much of a query, by rarity, is known, covered and named: see `AnswerFeatures`."""

    known: float
    covered: float
    named: float


def share_words(query: Query, keyword: KeywordScores, best: Sequence[int], rows: int) -> WordShares:
    """`best` are the first files, `rows` the number of all chunks."""
    unknown = math.log1p((rows + 0.5) / 0.5)  # a word that occurs nowhere is as rare as possible
    core = {term: query.terms.get(term, 0.0) for term in (stem(word) for word in query.words)}
    weight_of = {term: weight * keyword.idf.get(term, unknown) for term, weight in core.items()}
    total = sum(weight_of.values()) or 1.0
    known = sum(value for term, value in weight_of.items() if term in keyword.idf) / total
    if not best or not keyword.idf:
        return WordShares(known, 0.0, 0.0)
    covered, named = np.zeros(len(keyword.files)), np.zeros(len(keyword.files))
    for term, uses in keyword.uses.items():
        if weight := weight_of.get(term, 0.0):
            covered[uses.files] += weight
            named[uses.files_with(NAMES)] += weight
    return WordShares(known, float(covered[list(best)].max()) / total, float(named[list(best)].max()) / total)


def assess(features: AnswerFeatures, query: Query) -> Quality:
    if len(text := query.text.strip()) == 1 and text.isascii():
        step = NextStep("Search for a word, or see every line with it: ", to_run("grep", text))
        return Quality("low_confidence", UNSAID, ("a single letter does not say what you look for",), step)
    weights, start = (WITHOUT_VECTORS, WITHOUT_VECTORS_FROM)
    if features.closest is not None:
        weights, start = (WITH_VECTORS, WITH_VECTORS_FROM)
    score = start + sum(weight * getattr(features, name) for name, weight in weights.items())
    is_name = query.bare_name and (
        features.defined or not query.names_owner
    )  # `repo.issues.new` may be any three words
    is_there = features.quoted or features.shown_by_key or features.served or (is_name and features.named >= ALL_OF_IT)
    confidence = max(round(1 / (1 + math.exp(-score)), 3), THERE if is_there else 0.0)
    if confidence >= OK:
        proofs = {QUOTED: features.quoted, SHOWN_BY_KEY: features.shown_by_key, SERVED: features.served}
        return Quality("ok", confidence, tuple(proof for proof, is_given in proofs.items() if is_given))
    reasons = _reasons(features)
    return Quality("low_confidence", confidence, reasons, _hint(features, query))


def _reasons(features: AnswerFeatures) -> tuple[str, ...]:
    reasons = []
    if features.known < 0.7:
        reasons.append("some of the query's words occur nowhere in this index")
    if features.covered < 0.6:
        reasons.append("no file has most of the query's words")
    if features.named < 0.2:
        reasons.append("no name of a file or definition matches")
    unclear = "only one file has anything of it" if features.alone else "the first results are about equally likely"
    return tuple(reasons) or (unclear,)


def _hint(features: AnswerFeatures, query: Query) -> str:
    if query.bare_name and features.named > 0.5:
        return "The name is here: add a word or two about what you look for"
    if query.bare_name:
        return "Nothing here has that name: try a part of it, or describe what it does"
    if features.known < 0.7:
        return "Try the words this code would use, or check that the right folder is indexed"
    return "Name a class, function or file if you can, or narrow the search to a language or to some paths"


# --- whether there is anything to show at all ----------------------------------------------------------------------

# On the development benchmark no question about its own repository has less than .33 of its words in the index, and
# none of 144 made-up questions has a chunk nearer than .392.
LEAST_KNOWN = 0.1
NEAR = 0.24  # cosine; meaningless words reach .4 in a large index, so it counts only for words the model knows


def is_about(features: AnswerFeatures, query: Query, *, understood: bool | None) -> bool:
    """Whether anything here is related to the query at all.

    `understood`: whether the model knows the query's words. None: there are vectors, but of a model with unknown scale
    and vocabulary, so nearness cannot be ruled out.
    """
    if understood is None:
        return True
    if STOP_WORDS.issuperset(query.words):
        return features.named >= ALL_OF_IT  # "main" and "find one" may be names; within a text such words say nothing
    is_near = understood and features.closest is not None and features.closest >= NEAR
    return is_near or features.known >= LEAST_KNOWN


def nothing_found(features: AnswerFeatures, query: Query) -> Quality:
    if STOP_WORDS.issuperset(query.words):
        reason = "the query has no word that says what it is about"
    else:
        reason = f"{'hardly any' if features.known else 'none'} of the query's words occurs in this index"
    return Quality("low_confidence", 0.0, (reason,), _hint(features, query))


def read_as(respelt: str, quality: Quality) -> Quality:
    """Of results for another spelling of the query: never `ok`, since nobody asked for it."""
    reason = f"some words occur nowhere in this index; the results are for: {respelt}"
    return Quality("low_confidence", min(quality.confidence, round(OK - 0.01, 2)), (reason,), quality.hint)


def filtered_out(dropped: Sequence[Dropped]) -> Quality:
    """Nothing is shown, but not for lack of an answer: `dropped` was found, or no file could be searched."""
    if not dropped:
        reason = "no indexed file passes the path and the filters"
        hint = "Widen the path or the filters; `codeinfo why PATH` says why a file is not indexed"
        return Quality("low_confidence", 0.0, (reason,), hint)
    details = ", ".join(dict.fromkeys(drop.detail for drop in dropped[:MOST]))
    rule = dropped[0].rule
    wider = "Ask for one of these kinds" if rule == "symbol_kind" else f"Widen {rule}"
    reason, hint = f"what was found is left out by {rule}: {details}", f"{wider}, or leave it out"
    return Quality("low_confidence", 0.0, (reason,), hint)


MOST = 5  # suggestions
MOST_WORDS = 3  # of a question that are looked up
SHORTEST = 4  # letters: shorter ones resemble everything
LONGEST = 64  # letters: longer names were generated
SHORT = 6  # letters; in shorter words a typo may leave no three in a row
LONG = 9  # letters from which pieces need not overlap to survive two typos
LEAST_RATIO = 0.75  # of matching letters, as in `difflib`: "sned" is this close to "send"
SLIP_RATIO = 0.85  # "paymnet" is this close to "payment"
COMPARED = 40  # candidates compared letter by letter
READ = 200  # names split into their words
SHARING = 1_000  # names considered, those with most pieces of the word first


def suggestions(query: Query, rarities: Mapping[str, float], view: Snapshot) -> tuple[str, ...]:
    """Names in this index similar to the requested name, otherwise words similar to those that occur nowhere, nearest
    first.

    `rarities` has the query's terms that occur.
    """
    if query.bare_name and query.names and (names := near_names(query.names[0], view)):
        return names
    unknown = [word for word in dict.fromkeys(query.words) if stem(word) not in rarities]
    words = (names for word in unknown[:MOST_WORDS] for names in _nearest_words(word, view))
    return tuple(dict.fromkeys(words))[:MOST]


def respell(text: str, query: Query, rarities: Mapping[str, float], view: Snapshot) -> str:
    """The text with words that occur nowhere here spelt as one that does, if they differ by a slip of the finger."""
    import difflib  # imported late: only for a search that finds nothing

    unknown = [word for word in dict.fromkeys(query.words) if stem(word) not in rarities]
    for word in unknown[:MOST_WORDS]:
        spelling = next(
            (spelling for spelling in _nearest_words(word, view) if spelling[0] == word[0]), ""
        )  # "oauth" is no "auth"
        if difflib.SequenceMatcher(None, word, spelling, autojunk=False).ratio() >= SLIP_RATIO:
            text = re.sub(rf"\b{re.escape(word)}\b", spelling, text, flags=re.IGNORECASE)
    return text


def near_names(letters: str, view: Snapshot) -> tuple[str, ...]:
    """Names of definitions spelt similarly, nearest first."""
    letters = _letters(letters)
    sharing = _names_of(view).names_sharing(letters, longest=2 * len(letters))
    # Headings of documents are definitions too, but nobody asks for one by name.
    closest = _closest(letters, {name: name.replace("_", "") for name in sharing if " " not in name})[:MOST]
    written: dict[str, dict[str, None]] = {name: {} for name in closest}
    definitions = view.definitions(closest) if closest else []
    for symbol in sorted(definitions, key=lambda symbol: (view.paths[symbol.file], symbol.start_line)):
        written[symbol.name.lower()][symbol.name] = None
    return tuple(name for spellings in written.values() for name in spellings)[:MOST]


def _nearest_words(word: str, view: Snapshot) -> list[str]:
    """Words from the names of definitions and files."""
    sharing = _names_of(view).names_sharing(word, longest=LONGEST)[:READ]
    written = (symbol.name for symbol in view.definitions(sharing)) if sharing else ()
    words = {part for name in dict.fromkeys(written) for part in split_identifier(name)}
    return _closest(word, {other: other for other in (words | _path_words(view)) - {word}})


def _letters(name: str) -> str:
    """`solveDependencies` and `solve_dependencies` are the same letters."""
    return "".join(split_identifier(name))


def _names_of(view: Snapshot) -> _Names:
    return view.once("names", lambda: _Names(view.definition_names()))


class _Names:
    """Names of definitions as one array of letters, so that 100,000 of them are searched in milliseconds."""

    def __init__(self, names: str) -> None:
        self._text = names.encode()
        self._letters = np.frombuffer(self._text, np.uint8)
        self._ends = np.append((self._letters == ord("\n")).nonzero()[0], len(self._letters))
        self._starts = np.minimum(np.append(0, self._ends[:-1] + 1), max(len(self._letters) - 1, 0))
        underscores = (self._letters == ord("_")).nonzero()[0]
        underscores_before = underscores.searchsorted(np.append(self._starts, len(self._text)))
        self._lengths = self._ends - self._starts - np.diff(underscores_before)

    def names_sharing(self, word: str, longest: int) -> list[str]:
        """The names that share a piece of `word`, those with most of them first, then those of equal length."""
        if not SHORTEST <= len(word) <= LONGEST or not self._text:
            return []
        having = np.zeros(len(self._ends), np.int32)
        for place in self._places(word):
            lines = self._ends.searchsorted(place)
            having[lines[first_of_runs(lines)]] += 1
        having[self._lengths > longest] = 0
        sharing = having.nonzero()[0]
        sharing = sharing[np.lexsort((abs(self._lengths[sharing] - len(word)), -having[sharing]))][:SHARING]
        spans = zip(self._starts[sharing].tolist(), self._ends[sharing].tolist(), strict=True)
        return list(dict.fromkeys(self._text[start:end].decode() for start, end in spans))

    def _places(self, word: str) -> Iterator[NDArray[np.intp]]:
        """Where each piece of a word occurs; for a short word, where a name begins with one of its first letters."""
        if len(word) < SHORT:
            for letter in dict.fromkeys(word[:2].encode()):
                yield self._starts[self._letters[self._starts] == letter]
            return
        for piece in _pieces(word):
            letters = piece.encode()
            last = max(0, len(self._letters) - len(letters) + 1)
            matches = np.ones(last, bool)
            for offset, letter in enumerate(letters):
                matches &= self._letters[offset : last + offset] == letter
            yield matches.nonzero()[0]


def _pieces(word: str) -> Iterable[str]:
    """Parts of a word, one of which survives a typo or two."""
    size, step = (3, 1) if len(word) < LONG else (len(word) // (3 if len(word) < 16 else 4),) * 2
    return dict.fromkeys(word[at : at + size] for at in range(0, len(word) - size + 1, step))


def _path_words(view: Snapshot) -> frozenset[str]:
    def read() -> frozenset[str]:
        names = {path.rpartition("/")[2].partition(".")[0] for path in view.paths}
        return frozenset(part for name in names for part in split_identifier(name))

    return view.once("path_words", read)


def _closest(word: str, candidates: Mapping[str, str]) -> list[str]:
    """Of the candidates, each with its letters, those close to `word`; most are ruled out by the letters they
    share."""
    import difflib  # imported late: only for a search that finds nothing

    letters = frozenset(word)
    parts = [word[at : at + 2] for at in range(len(word) - 1)]
    least, most = len(word) * LEAST_RATIO - 1, len(word) / LEAST_RATIO + 1
    similar = [
        (-sum(part in spelled for part in parts), len(spelled), name, spelled)
        for name, spelled in candidates.items()
        if least <= len(spelled) <= most and len(letters.intersection(spelled)) >= least / 2
    ]
    matcher = difflib.SequenceMatcher(b=word, autojunk=False)
    closest = []
    for _, _, name, spelled in sorted(similar)[:COMPARED]:
        matcher.set_seq1(spelled)
        if (ratio := matcher.ratio()) >= LEAST_RATIO:
            closest.append((-ratio, name))
    return [name for _, name in sorted(closest)]
