"""Identifier-aware tokens, the same for index and query.

`words` feeds the built-in model: plain lowercased words. `terms` feeds the keyword index: the same words stemmed, plus
every compound identifier as a whole, so that `parseHttpHeader` is found by its parts and by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from posixpath import dirname

from codeinfo.cache import Content, TokenCache

# ASCII first: most code; other letters are kept whole (no camel case is guessed for them).
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[^\W\d_]+|\d+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

MAX_TOKEN = 64  # longer runs are hashes, base64 and generated names: nobody searches for them


def gaps_for(signs: str) -> bytes:
    """A table for `blank_signs` that keeps letters, digits and these signs."""
    return bytes(code if code > 127 or chr(code).isalnum() or chr(code) in signs else 32 for code in range(256))


def blank_signs(text: str, gaps: bytes) -> str:
    """The text with spaces in place of ASCII signs. On bytes, which take a tenth of the time of characters."""
    return text.encode("utf-8", "surrogatepass").translate(gaps).decode("utf-8", "surrogatepass")


_GAPS = gaps_for("_")


def read_tokens(text: str, cache: TokenCache[Content]) -> Iterator[Content]:
    return chain.from_iterable(map(cache.__getitem__, blank_signs(text, _GAPS).split()))


def split_identifier(identifier: str) -> tuple[str, ...]:
    """`parseURLFast2` → parse, url, fast, 2; `snake_case` → snake, case."""
    return tuple(map(str.lower, _PART.findall(identifier)))


def identifiers(text: str) -> list[str]:
    """The identifiers and numbers in a text, as written."""
    if text.isascii() and text.isidentifier():  # the common case
        return [text] if len(text) <= MAX_TOKEN else []
    tokens = blank_signs(text, _GAPS).split() if text.isascii() else []  # in half the time
    if not tokens or min(tokens) < ":":  # one may begin with a digit: `0x1f` is 0 and x1f
        tokens = _IDENTIFIER.findall(text)
    return [token for token in tokens if len(token) <= MAX_TOKEN]


def words(text: str) -> list[str]:
    """Lowercased words, split at camel case, underscores and digits, not stemmed."""
    return [part for token in identifiers(text) for part in split_identifier(token)]


@lru_cache(maxsize=1)
def _stemmer() -> object:
    import Stemmer

    return Stemmer.Stemmer("english", 0)  # no cache of its own: it thrashes above 10,000 words, and `stem` has one


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Snowball's stem, with agent nouns folded into their verbs: `parser`, `logger` match parse, log."""
    if len(word) <= 3 or not word.isascii():
        return word
    root = str(_stemmer().stemWord(word))  # type: ignore[attr-defined]
    if len(root) >= 6 and root.endswith(("er", "or")):
        root = root[:-2]
    if len(root) >= 4 and root[-1] == root[-2] and root[-1] in "bdfgmnprt":
        root = root[:-1]
    return root[:-1] if len(root) > 3 and root[-1] == "e" else root


@lru_cache(maxsize=20_000)
def identifier_terms(identifier: str) -> tuple[str, ...]:
    """Index terms of one identifier: its stemmed parts and, if it has several, all of them joined. Joined without a
    separator, `ConnectionPool`, `connection_pool` and the words "connection pool" share one term."""
    parts = split_identifier(identifier)
    stems = tuple(stem(part) for part in parts)
    return (*stems, "".join(parts)) if len(parts) > 1 else stems


TERMS = TokenCache(lambda token: (term for name in identifiers(token) for term in identifier_terms(name)), 100_000)


def terms(text: str) -> list[str]:
    """Index terms of a text, in order, repeated as often as they occur."""
    return list(read_tokens(text, TERMS))


CHARS_PER_TOKEN = 4  # of English and code, on average: for limits, where the text is not available

# Approximates models' tokenizers: a part of a word is a token, long ones more, and so is a run of punctuation. Weights
# fitted to the mean of two real tokenizers (o200k, and one published for Claude) on 120 replies and 122 pieces of
# source code and Markdown in seven languages; off by 1.5 % on replies, 10 % at worst. See benchmarks/mcp_sizes.py.
_LONG_PART = 7  # letters that are one token
_NUMBERS = re.compile(r"\d{1,3}")
_MARKS = re.compile(r"[^\w\s]+")
_BREAKS = re.compile(r"_+|\n\s*")
_OTHER_LETTERS = re.compile(r"[^\W\d_A-Za-z]")
_WORD_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def estimate_tokens(text: str) -> int:
    parts, marks = _WORD_PARTS.findall(text), _MARKS.findall(text)
    return round(
        0.96 * len(parts)
        + 0.13 * sum(len(part) - _LONG_PART for part in parts if len(part) > _LONG_PART)
        + 1.18 * len(_NUMBERS.findall(text))
        + 0.9 * len(marks)
        + 0.07 * sum(map(len, marks))
        + 1.02 * len(_BREAKS.findall(text))
        + 0.9 * len(_OTHER_LETTERS.findall(text))
    )


# Fields of the keyword index besides the text itself. No word starts with \x01, so they cannot be confused with words.
STEM_MARK, FOLDER_MARK = "\x01s:", "\x01f:"  # the file's own name, its folders
TYPE_MARK, NAME_MARK = "\x01t:", "\x01n:"  # names of types and of other definitions

# Names that only say that a file stands for its folder, and folders that say as little.
_FOLDER_FILES = frozenset({"__init__", "index", "init", "lib", "main", "mod"})
_PLAIN_FOLDERS = frozenset({"src", "lib", "main", "source", "sources", "internal", "pkg", "core"})


@lru_cache(maxsize=65_536)
def _name_terms(name: str) -> dict[str, None]:
    return dict.fromkeys(terms(name))


def stem_terms(path: str) -> tuple[str, ...]:
    """Distinct terms of the file's name without its extension; `wheel/mod.rs` is named after its folder as well."""
    name = path.rpartition("/")[2]
    bare = name.lstrip(".").rsplit(".", 1)[0] or name
    distinct = _name_terms(bare)
    if bare.lower() in _FOLDER_FILES:
        folders = path.split("/")[:-1]
        telling = next((folder for folder in reversed(folders) if folder.lower() not in _PLAIN_FOLDERS), "")
        distinct = distinct | _name_terms(telling)
    return tuple(distinct)


def folder_terms(path: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms(dirname(path))))


def path_terms(path: str) -> tuple[str, ...]:
    """What the keyword index stores about a path, each term marked with its part."""
    stems = (STEM_MARK + term for term in stem_terms(path))
    return (*stems, *(FOLDER_MARK + term for term in folder_terms(path)))
