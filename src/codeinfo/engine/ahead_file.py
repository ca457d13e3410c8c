"""What was judged ahead, as a file beside the index: the next process goes on from it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from codeinfo.engine.ahead import Ahead
from codeinfo.engine.judging import Column, Judged, Rows
from codeinfo.graph.model import Graph
from codeinfo.graph.scopes import SymbolId

NAME = "common-names.bin"
FORMAT = 2  # raise when the form changes, or what a use is judged to mean
_NUMBER = np.dtype("<i4")


def dumps(ahead: Ahead) -> bytes:
    """A line of JSON, then the columns. Paths are written once; symbols name them by position."""
    paths: dict[str, int] = {}
    names, columns = [], [_bytes(sorted(ahead.read))]
    for name, rows in ahead.rows.items():
        judged = rows.columns()
        symbols = [
            [(paths.setdefault(one.path, len(paths)), one.qualified) for one in meaning] for meaning in judged.symbols
        ]
        names.append((name, sorted(ahead.families[name]), len(rows), symbols))
        columns += [_bytes(judged.files), _bytes(judged.lines), _bytes(judged.meanings)]
    header = (FORMAT, ahead.graph.generation, len(ahead.read), list(paths), names)
    return b"".join((json.dumps(header, separators=(",", ":")).encode("ascii"), b"\n", *columns))


def loads(data: bytes, graph: Graph) -> Ahead | None:
    """What holds for this graph, or None when the bytes are of another generation or damaged: it is then made again."""
    head, _, body = data.partition(b"\n")
    try:
        version, generation, read, paths, names = json.loads(head)
        if (version, generation) != (FORMAT, graph.generation):
            return None
        numbers, at = np.frombuffer(body, _NUMBER), read
        if len(numbers) != read + 3 * sum(count for _, _, count, _ in names):
            return None
        ahead = Ahead(graph)
        ahead.read = set(numbers[:read].tolist())
        for name, families, count, symbols in names:
            meanings = tuple(tuple(SymbolId(paths[at], qualified) for at, qualified in one) for one in symbols)
            files, lines, positions = numbers[at : at + 3 * count].reshape(3, count)
            at += 3 * count
            ahead.families[name] = frozenset(families)
            ahead.rows[name] = Rows.of(Judged(files, lines, positions, meanings))
    except (ValueError, TypeError, IndexError, KeyError):
        return None
    ahead.is_chosen = True
    return ahead


def _bytes(numbers: Sequence[int] | Column) -> bytes:
    return np.asarray(numbers, _NUMBER).tobytes()
