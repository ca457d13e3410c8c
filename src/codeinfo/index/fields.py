"""Weighted terms of a chunk. The weights were tuned together with the ranking that reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from codeinfo.index.syntax import Scan, Source
from codeinfo.tokens import NAME_MARK, TYPE_MARK, identifier_terms, identifiers

CODE_WEIGHT = 1.0  # strings count as code: messages and keys are what people search for
COMMENT_WEIGHT = 0.7


def weighted_terms(
    code: str, comments: str = "", type_names: Iterable[str] = (), other_names: Iterable[str] = ()
) -> dict[str, float]:
    """Term → weighted count. Names defined here are fields of their own: the ranking decides what they are worth."""
    weights: dict[str, float] = {}
    _add(weights, Counter(identifiers(code)), CODE_WEIGHT)
    if comments:
        _add(weights, Counter(identifiers(comments)), COMMENT_WEIGHT)
    _add_field(weights, type_names, TYPE_MARK)
    _add_field(weights, other_names, NAME_MARK)
    return weights


def _add(weights: dict[str, float], counts: Counter[str], weight: float) -> None:
    get = weights.get
    for identifier, count in counts.items():
        amount = count * weight
        for term in identifier_terms(identifier):
            weights[term] = get(term, 0.0) + amount


def _add_field(weights: dict[str, float], names: Iterable[str], mark: str) -> None:
    for name in names:
        for term in identifier_terms(name):
            weights[mark + term] = weights.get(mark + term, 0.0) + 1.0


class Layers:
    """A file in three layers with the same lines: code with its strings, comments, and code where names may be used."""

    __slots__ = ("code", "comments", "names")

    def __init__(self, source: Source, found: Scan, name_spans: Iterable[tuple[int, int]]) -> None:
        text = source.text
        spans = [(start, -end, 0) for start, end in found.comments]
        spans += [(start, -end, 0) for start, end in found.docs]
        spans += [(start, -end, 1) for start, end in found.strings]
        spans += [(start, -end, 2) for start, end in name_spans]
        spans.sort()
        code: list[str] = []
        names: list[str] = []
        comments: list[str] = []
        position = commented = code_from = 0
        for start, minus_end, layer in spans:
            if start < position:
                continue  # inside of the one before: a string in a doc string, a name in a comment
            end = -minus_end
            lines = "\n" * text.count("\n", start, end)
            names.append(text[position:start])
            if layer == 0:
                code += (text[code_from:start], " ", lines)
                code_from = end
                comments += ("\n" * text.count("\n", commented, start), " ", text[start:end])
                commented = end
                names += (" ", lines)
            else:
                names += (_MASKS[layer], lines)
            position = end
        code.append(text[code_from:])
        names.append(text[position:])
        self.code = "".join(code).split("\n")
        self.names = "".join(names)
        comments.append("\n" * text.count("\n", commented))
        self.comments: Sequence[str] = "".join(comments).split("\n") if found.comments or found.docs else ()


# A string stays visible as one; a defined name becomes a sign that keeps its neighbours from looking like a call.
_MASKS = ("", '""', " ; ")
