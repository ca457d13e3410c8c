"""Uses of names in code, found line by line once comments, strings and the names of definitions are masked.

References outnumber everything else in a file, so they travel and rest packed: one line of text for each line of code
(its number, position of the enclosing definition, the names; a name with `(` behind it is called), under a first line
with the qualified names of the enclosing definitions, compressed. A row says everything by itself, so that one name can
be looked up without reading the rows before it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

from codeinfo.languages import GRAMMARS

_SPACE_BEFORE_PAREN = re.compile(r"(?<=[\w'?!])[ \t]+\(")
_FASTEST = 1
_NAMES_PER_LINE = 2000  # a minified line does not need more


@lru_cache(maxsize=64)
def _word(language: str) -> re.Pattern[str]:
    return re.compile(GRAMMARS[language].word + r"\(?")


@lru_cache(maxsize=64)
def _ignored(language: str) -> frozenset[str]:
    keywords = GRAMMARS[language].keywords
    return keywords | {f"{keyword}(" for keyword in keywords}


def _header(qualified: Iterable[str]) -> str:
    """Names in a row. One written over two lines, as C++ operators are, must not look like a row of its own."""
    return "\t".join(" ".join(name.split()) for name in qualified)


def pack_code(masked: str, language: str, within: Sequence[int], qualified: Sequence[str]) -> bytes:
    """The packed references of a file. `within[line - 1]` is a position in `qualified`, -1 outside of any."""
    find, ignored = _word(language).findall, _ignored(language)
    rows = [_header(qualified)]
    for number, line in enumerate(_SPACE_BEFORE_PAREN.sub("(", masked).split("\n"), 1):
        found = find(line)
        if not found:
            continue
        names = [name for name in dict.fromkeys(found) if name not in ignored]
        if names:
            rows.append(f"{number}\t{within[number - 1]}\t{' '.join(names[:_NAMES_PER_LINE])}")
    return zlib.compress("\n".join(rows).encode("utf-8", "replace"), _FASTEST) if len(rows) > 1 else b""
