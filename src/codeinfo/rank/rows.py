"""Which chunks of a file: the one nearest to the query, and those to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from codeinfo.ports import Snapshot, StoredSymbol
from codeinfo.rank.keyword import Floats, Ints
from codeinfo.rank.query import Query
from codeinfo.types import Definition, symbol_kind

MEANING_IN_FILE = 1.0  # a cosine's worth beside the relative keyword score when chunks of one file compete
DEFINED_HERE = 3.0  # the chunk where a bare name is defined wins over any that uses it
NAMED_HERE = 0.3


def best_rows(
    view: Snapshot,
    files: Sequence[int],
    keyword: Floats,
    cosines: Floats | None,
    defined: dict[int, float],
    most: int | None,
) -> list[list[int]]:
    """Each file's best rows, best first: by words and meaning, and by where a name asked for is defined."""
    rows, starts, counts = _rows_of(view, files)
    words = keyword[rows]
    score = words / np.maximum(np.maximum.reduceat(words, starts), 1e-6).repeat(counts)
    if cosines is not None:
        score = score + MEANING_IN_FILE * cosines[rows]
    for row, worth in defined.items():
        score[rows == row] += worth
    order = rows[np.lexsort((-score, np.arange(len(files)).repeat(counts)))].tolist()
    spans = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
    return [order[start : end if most is None else min(end, start + most)] for start, end in spans]


def defined_rows(
    query: Query, definitions: Iterable[StoredSymbol], view: Snapshot, files: Sequence[int]
) -> dict[int, float]:
    """Rows of these files where a name of the query is defined, with what that is worth."""
    worths: dict[int, float] = {}
    among = set(files)
    for symbol in definitions:
        if symbol.file in among and (row := view.row_at(symbol.file, symbol.definition.start_line)) is not None:
            worths[row] = max(worths.get(row, 0.0), _worth_of_definition(query, symbol.definition))
    return worths


def _worth_of_definition(query: Query, definition: Definition) -> float:
    """Several constructors of one name in a chunk are worth no more than one; the type itself is worth the most."""
    worth = DEFINED_HERE if query.bare_name else NAMED_HERE
    if symbol_kind(definition.kind).ranks_as_type:
        worth *= 1.5
    return worth if definition.name in query.names else worth / 2


def closest_rows(view: Snapshot, cosines: Floats, files: Sequence[int]) -> NDArray[np.intp]:
    """Of each file, which has some, the first row that is nearest."""
    rows, starts, counts = _rows_of(view, files)
    near = cosines[rows]
    nearest = (near == np.maximum.reduceat(near, starts).repeat(counts)).nonzero()[0]
    found: NDArray[np.intp] = rows[nearest[nearest.searchsorted(starts)]]
    return found


def _rows_of(view: Snapshot, files: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """The rows of these files end to end, where each file's start in that, and how many they are."""
    wanted = np.array(files)
    counts = view.file_rows[wanted]
    ends = counts.cumsum()
    starts = ends - counts
    return (view.file_first[wanted] - starts).repeat(counts) + np.arange(ends[-1]), starts, counts
