"""Search quality: how likely it is that the answer is among the first results, and what to do when it is not.

The confidence is a logistic model of what the best file has of the query, fitted on the development benchmark with each
repository left out in turn, and with every question also asked of a repository that cannot answer it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from codeinfo.frozen import frozen
from codeinfo.rank.keyword import DEFINED, STEM, KeywordScores
from codeinfo.rank.query import Query
from codeinfo.rank.words import STOP_WORDS
from codeinfo.tokens import stem
from codeinfo.types import Quality

NAMES = STEM | DEFINED
ALL_OF_IT = 0.999
OK = 0.4  # at or above, 95 % of the answers have a right file among the first three; 14 % of foreign questions pass


@frozen
class Grounds:
    """What speaks for an answer, each 0..1."""

    known: float  # share of the query, by rarity, that occurs in this index at all
    covered: float  # share that the best of the first files has
    named: float  # share that the best file has in its own name or in the names it defines
    closest: float | None  # the highest cosine among the first files' chunks; None without vectors of a known scale


WITH_VECTORS = {"known": 0.73, "covered": 1.94, "named": 1.36, "closest": 12.96}
WITH_VECTORS_FROM = -8.47
WITHOUT_VECTORS = {"known": 1.0, "covered": 2.72, "named": 3.03}
WITHOUT_VECTORS_FROM = -3.95


def grounds(query: Query, keyword: KeywordScores, best: Sequence[int], rows: int, closest: float | None) -> Grounds:
    unknown = math.log1p((rows + 0.5) / 0.5)  # a word that occurs nowhere is as rare as can be
    core = {term: query.terms.get(term, 0.0) for term in (stem(word) for word in query.words)}
    worth = {term: weight * keyword.idf.get(term, unknown) for term, weight in core.items()}
    total = sum(worth.values()) or 1.0
    known = sum(value for term, value in worth.items() if term in keyword.idf)
    if not best or not keyword.idf:
        return Grounds(known / total, 0.0, 0.0, closest)
    met = np.array([worth.get(term, 0.0) for term in keyword.idf])[keyword.met_term]
    in_names = (keyword.met_fields & np.uint8(NAMES)) > 0
    covered, named = (
        float(np.bincount(keyword.met_file, values, len(keyword.files))[best].max()) for values in (met, met * in_names)
    )
    return Grounds(known / total, covered / total, named / total, closest)


def assess(found: Grounds, query: Query) -> Quality:
    worths, start = (WITHOUT_VECTORS, WITHOUT_VECTORS_FROM)
    # That a name is there is certain, whatever it means; a single word means too little to be near anything.
    if found.closest is not None and not (query.bare_name and found.named >= ALL_OF_IT):
        worths, start = (WITH_VECTORS, WITH_VECTORS_FROM)
    score = start + sum(worth * getattr(found, name) for name, worth in worths.items())
    confidence = round(1 / (1 + math.exp(-score)), 3)
    if confidence >= OK:
        return Quality("ok", confidence)
    reasons = _reasons(found)
    return Quality("low_confidence", confidence, reasons, _hint(found, query))


def _reasons(found: Grounds) -> tuple[str, ...]:
    reasons = []
    if found.known < 0.7:
        reasons.append("some of the query's words occur nowhere in this index")
    if found.covered < 0.6:
        reasons.append("no file has most of the query's words")
    if found.named < 0.2:
        reasons.append("no name of a file or definition matches")
    return tuple(reasons) or ("the first results are about equally likely",)


def _hint(found: Grounds, query: Query) -> str:
    if query.bare_name and found.named > 0.5:
        return "The name is here: add a word or two about what you look for"
    if query.bare_name:
        return "Nothing here has that name: try a part of it, or describe what it does"
    if found.known < 0.7:
        return "Try the words this code would use, or check that the right folder is indexed"
    return "Name a class, function or file if you can, or narrow the search to a language or to some paths"


# --- whether there is anything to show at all ----------------------------------------------------------------------

# On the development benchmark no question about its own repository has less than .33 of its words in the index, and
# none of 144 made-up questions has a chunk nearer than .392.
LEAST_KNOWN = 0.1
NEAR = 0.24  # cosine; meaningless words reach .4 in a large index, so it counts only for words that the model knows


def is_about(found: Grounds, query: Query, *, understood: bool | None) -> bool:
    """Whether anything here has to do with the query, however little.

    `understood`: whether the model knows the query's words. None: there are vectors, but of a model whose scale and
    vocabulary are unknown, so nearness cannot be ruled out.
    """
    if understood is None:
        return True
    if STOP_WORDS.issuperset(query.words):
        return found.named >= ALL_OF_IT  # "main" and "find one" may be names; in a text such words say nothing
    near = understood and found.closest is not None and found.closest >= NEAR
    return near or found.known >= LEAST_KNOWN


def nothing_found(found: Grounds, query: Query) -> Quality:
    if STOP_WORDS.issuperset(query.words):
        reason = "the query has no word that says what it is about"
    else:
        reason = f"{'hardly any' if found.known else 'none'} of the query's words occurs in this index"
    return Quality("low_confidence", 0.0, (reason,), _hint(found, query))
