"""Search quality: how likely it is that the answer is among the first results, and what to do when it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codeinfo.rank.keyword import Floats, KeywordScores
from codeinfo.rank.query import Query
from codeinfo.types import Quality

OK = 0.5


def assess(query: Query, keyword: KeywordScores, files: Mapping[str, Floats], best: Sequence[int]) -> Quality:
    if not best:
        unknown = "none of its words occurs in this index" if not keyword.idf else "nothing scored"
        return Quality("low_confidence", 0.0, (unknown,), "Try other words, or check `codeinfo status`")
    return Quality("ok", 1.0)
