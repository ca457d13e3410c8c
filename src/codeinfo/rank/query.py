"""Reading a query: its terms and their weights, the names and paths it mentions, and what kind of question it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from codeinfo.frozen import frozen
from codeinfo.rank.words import EXPANSIONS, STOP_WORDS
from codeinfo.tokens import identifier_terms, split_identifier, stem
from codeinfo.types import Intent

# Earlier words of a question matter more: "connection pooling in the async client" is about pooling.
POSITION_DECAY = 0.2
LONG_POSITION_DECAY = 0.03  # a bug report names its subject anywhere
LONG_QUERY_WORDS = 25
MAX_TERMS = 80
MAX_NAMES = 200  # names and paths looked up: more are in no question, only in a pasted file
PROJECT_WORD_WEIGHT = 0.3  # the project's own name is in every file
PAIR_WEIGHT = 0.5  # two neighbouring words as one identifier
EXPANSION_WEIGHT = 0.25

_TOKEN = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#|/)[A-Za-z_$][\w$]*)*|\d+|[^\W\d_]+")
# Starts only where a run starts, and gives nothing back: reading stays linear in a line of 100,000 letters.
_PATH = re.compile(r"(?<![\w.-])[\w.-]++(?:/[\w.-]++)*")
_FROM_HERE = re.compile(r"\A(?:\.{1,2}/)+")
_EXTENSION = re.compile(r"[^.]\.[A-Za-z]{1,5}\Z")
_QUALIFIER = re.compile(r"\.|::|->|#|/")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]")
_BARE_NAME = re.compile(r"[`'\"]?[@$]?[A-Za-z_][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$!?]*)*(?:\(\))?[!?]?[`'\"]?\Z")


@frozen
class Query:
    """A query, read once; every step of the search line takes what it needs from here."""

    text: str
    intent: Intent
    terms: dict[str, float]  # index term → weight
    words: tuple[str, ...]  # content words, lowercased, in order, for meaning and for stem matches
    names: tuple[str, ...]  # identifiers mentioned: candidates for definitions
    paths: tuple[str, ...]  # file names and paths mentioned
    about_tests: bool
    about_docs: bool

    @property
    def bare_name(self) -> bool:
        return self.intent is Intent.EXACT_NAME


def read_query(text: str, *, project_words: frozenset[str] = frozenset(), intent: Intent | None = None) -> Query:
    """`project_words` are the stemmed words of the project's name. A query of stop words only is about these words."""
    tokens = _TOKEN.findall(text)
    bare = _is_bare_name(text)
    stop = frozenset() if bare or all(token.lower() in STOP_WORDS for token in tokens) else STOP_WORDS
    content = [token for token in tokens if token.lower() not in stop]
    words = tuple(part for token in content for part in _parts(token) if part not in stop)
    return Query(
        text=text,
        intent=intent or _classified(text, tokens, bare),
        terms=_weighted_terms(content, words, project_words, stop, bare),
        words=words,
        names=_names(tokens, bare),
        paths=_paths(text),
        about_tests=not _TEST_WORDS.isdisjoint(words),
        about_docs=not _DOCS_WORDS.isdisjoint(words),
    )


def _classified(text: str, tokens: Sequence[str], bare: bool) -> Intent:
    if bare:
        return Intent.EXACT_NAME
    words = {word.lower() for word in tokens}
    if words & _CONFIG_WORDS:
        return Intent.CONFIG
    if words & _WIRING_WORDS:
        return Intent.WIRING
    if words & _FLOW_WORDS or text.lower().startswith(("how does", "how do ", "what happens")):
        return Intent.FLOW
    return Intent.CONCEPTUAL


_TEST_WORDS = frozenset("test tests testing spec specs".split())
_DOCS_WORDS = frozenset("docs documentation readme changelog guide tutorial manual".split())
_CONFIG_WORDS = frozenset(
    "config configuration configure settings setting env environment option options flags".split()
)
_WIRING_WORDS = frozenset("register registration inject injection provider bootstrap wiring container module".split())
_FLOW_WORDS = frozenset("flow lifecycle pipeline sequence happens when after before through dispatch".split())


def _is_bare_name(text: str) -> bool:
    """One identifier and nothing else: a name to find, not a question."""
    return bool(_BARE_NAME.match(text.strip()))


def _names(tokens: list[str], bare: bool) -> tuple[str, ...]:
    """Identifiers to look up as definitions. In a sentence only those that look like code or a proper noun."""
    found: list[str] = []
    for at, token in enumerate(tokens):
        *qualifiers, last = _pieces(token)
        looks_like_code = qualifiers or "_" in token.strip("_") or _CAMEL.search(token)
        proper = at > 0 and token[:1].isupper()
        if bare or looks_like_code or proper:
            found.append(last)
            found.extend(qualifiers if bare else ())
    return tuple(dict.fromkeys(name for name in found if len(name) > 1))[:MAX_NAMES]


def _paths(text: str) -> tuple[str, ...]:
    """Paths and file names as an index has them: not from `./`, and without the full stop of a sentence."""
    found = (_FROM_HERE.sub("", match).rstrip(".") for match in _PATH.findall(text))
    return tuple(dict.fromkeys(path for path in found if _is_path(path)))[:MAX_NAMES]


def _is_path(text: str) -> bool:
    return "/" in text or (bool(_EXTENSION.search(text)) and not text[0].isdigit())


def _parts(token: str) -> list[str]:
    return [part for piece in _pieces(token) for part in split_identifier(piece)]


@lru_cache(maxsize=4096)
def _pieces(token: str) -> tuple[str, ...]:
    """`Session.send` → Session, send."""
    return tuple(_QUALIFIER.split(token))


def _weighted_terms(
    content: list[str], words: tuple[str, ...], project_words: frozenset[str], stop: frozenset[str], bare: bool
) -> dict[str, float]:
    decay = LONG_POSITION_DECAY if len(words) > LONG_QUERY_WORDS else POSITION_DECAY
    weights: dict[str, float] = {}
    for position, token in enumerate(content):
        weight = 1 / (1 + decay * position)
        for piece in _pieces(token):
            for term in identifier_terms(piece):
                if term in stop:
                    continue
                scale = PROJECT_WORD_WEIGHT if term in project_words else 1.0
                weights.setdefault(term, weight * scale)
    if not bare:
        _add_pairs(weights, words)
        _add_expansions(weights, words)
    return dict(list(weights.items())[:MAX_TERMS])


def _add_pairs(weights: dict[str, float], words: tuple[str, ...]) -> None:
    for first, second in pairwise(words):
        weight = min(weights.get(stem(first), 0.0), weights.get(stem(second), 0.0))
        weights.setdefault(first + second, PAIR_WEIGHT * weight)


def _add_expansions(weights: dict[str, float], words: tuple[str, ...]) -> None:
    for word in words:
        for other in EXPANSIONS.get(word, ()):
            weights.setdefault(stem(other), EXPANSION_WEIGHT * weights.get(stem(word), 0.0))
