"""Search quality: how likely it is that the answer is among the first results, and what to do when it is not.

The confidence is a logistic model of what the first file has of the query and how far it leads, fitted on questions,
commit messages and bug reports together: about code that is known well, an answer is often clear and still wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from codeinfo.rank.keyword import DEFINED, STEM, KeywordScores
from codeinfo.rank.query import Query
from codeinfo.rank.words import STOP_WORDS
from codeinfo.tokens import stem
from codeinfo.types import Quality

NAMES = STEM | DEFINED
ALL_OF_IT = 0.999
OK = 0.85  # at or above, nine of ten answers have a right file among the first three, on every set of questions


class Grounds(Struct, frozen=True):
    """What speaks for an answer, each 0..1."""

    known: float  # share of the query, by rarity, that occurs in this index at all
    covered: float  # share that the best of the first files has
    named: float  # share that the best file has in its own name or in the names it defines
    closest: float | None  # the highest cosine among the first files' chunks; None without vectors of a known scale
    title: float = 0.0  # share of the words of its first line that the first file has; less where little is known
    lead: float = 0.0  # how far, by score, the first file is ahead of the fourth
    spread: float = 0.0  # and of the tenth


MOSTLY_KNOWN = 0.6  # below this share of known words, to lead by them is no lead on the question
USUAL_LEAD, USUAL_SPREAD = 0.25, 0.4  # where there are too few files to tell
WITH_VECTORS = {"known": 0.45, "named": 0.25, "closest": 5.98, "title": 1.41, "lead": 2.8, "spread": 3.3}
WITH_VECTORS_FROM = -5.57
WITHOUT_VECTORS = {"known": 1.08, "named": 0.51, "title": 2.05, "lead": 3.03, "spread": 3.34}
WITHOUT_VECTORS_FROM = -3.8


def grounds(
    query: Query,
    keyword: KeywordScores,
    best: Sequence[int],
    rows: int,
    closest: float | None,
    title: float = 0.0,
    scores: Sequence[float] = (),
) -> Grounds:
    """`best` are the first files; `title` what the first of them covers; `scores` those of all files, best first."""
    unknown = math.log1p((rows + 0.5) / 0.5)  # a word that occurs nowhere is as rare as can be
    core = {term: query.terms.get(term, 0.0) for term in (stem(word) for word in query.words)}
    worth = {term: weight * keyword.idf.get(term, unknown) for term, weight in core.items()}
    total = sum(worth.values()) or 1.0
    known = sum(value for term, value in worth.items() if term in keyword.idf)
    if not best or not keyword.idf:
        return Grounds(known / total, 0.0, 0.0, closest)
    lead = 1 - scores[3] / scores[0] if len(scores) > 3 else USUAL_LEAD
    spread = 1 - scores[9] / scores[0] if len(scores) > 9 else USUAL_SPREAD
    met = np.array([worth.get(term, 0.0) for term in keyword.idf])[keyword.met_term]
    in_names = (keyword.met_fields & np.uint8(NAMES)) > 0
    covered, named = (
        float(np.bincount(keyword.met_file, values, len(keyword.files))[best].max()) for values in (met, met * in_names)
    )
    share = min(1.0, known / total / MOSTLY_KNOWN)
    return Grounds(known / total, covered / total, named / total, closest, title * share, lead * share, spread * share)


def assess(found: Grounds, query: Query) -> Quality:
    worths, start = (WITHOUT_VECTORS, WITHOUT_VECTORS_FROM)
    # That a name is there is certain, whatever it means; a single word means too little to be near anything.
    is_there = query.bare_name and found.named >= ALL_OF_IT
    if found.closest is not None and not is_there:
        worths, start = (WITH_VECTORS, WITH_VECTORS_FROM)
    score = start + sum(worth * getattr(found, name) for name, worth in worths.items())
    confidence = max(round(1 / (1 + math.exp(-score)), 3), OK if is_there else 0.0)
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
