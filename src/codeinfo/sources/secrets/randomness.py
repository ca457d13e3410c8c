"""Whether a value was drawn at random, or is a word, a placeholder or a reference to the real one."""

from __future__ import annotations

import math
import re
from collections import Counter

# What stands for a secret instead of being one: templates, references to the environment, words of documentation.
_PLACEHOLDER = re.compile(
    rb"""\$\{ | \$\( | \A\$ | \{\{ | \{[\w.]*\} | \A\{[^{}]*\}\Z | %\( | \A%\w+%?\Z | <[^>]*> | \A<  # templates
    | \A[*&][A-Za-z_]\w*\Z | \A[&?] | \A-- | :// | process\.env | environ | getenv | secrets\. | vault:  # references
    | (.)\1{5} | \.\.\. | \*\*\* | xxxx | \bxxx | abcdef | qwerty | 12345678 | 0123456  # fillings
    | example | change | dummy | placehold | redacted | masked | sample | p[a@]ssw[o0]rd | lorem | foobar
    | (?:\b|_)(?:test|fake|your|insert) | (?:test|fake)(?:\b|_)""",
    re.IGNORECASE | re.VERBOSE,
)
_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(rb"[0-9a-f]+|[0-9A-F]+")
_PIECE = re.compile(rb"[A-Za-z0-9]+")
_LETTER_PAIR = re.compile(rb"(?=([A-Za-z]{2}))")
_CAPITAL_AFTER_SMALL = re.compile(rb"[a-z][A-Z]")
_KIND_CHANGE = re.compile(rb"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
_SMALL, _CAPITAL, _DIGIT = (re.compile(pattern) for pattern in (rb"[a-z]", rb"[A-Z]", rb"[0-9]"))
_SIGN = re.compile(rb"[!-,;-@\[-^`{-~]")  # not those that join the parts of a name or a path

# The pairs of letters that make up 82 % of the words and identifiers of 26 public repositories in 14 languages, by
# their first letter. Random letters have 24 % of them.
_COMMON_AFTER = (
    "abcdgilmnprstu baelu caehklortu daeio eacdeflmnprstvx faeio geir haeio iacdefglmnorstz ke ladeilotuy maeiop "
    "nacdefginost ocdlmnoprstuw paeiloprt qu radeimorsty sacehiopstu tacehioprstuy uelmnprst vaei yp"
)
_COMMON_PAIRS = frozenset((entry[0] + letter).encode() for entry in _COMMON_AFTER.split() for letter in entry[1:])
# Between the two, the nearer to random letters the more often a place holds something else than a value.
_MOST_COMMON = 0.65
_MOST_COMMON_QUOTED = 0.5
_MOST_COMMON_BARE = 0.45
_MOST_COMMON_BARE_LETTERS = 0.34  # without a digit, and with capitals as names have them
_FEWEST_CAPITALS = 0.3
_FEW_PAIRS = 4  # below this the share says nothing
_MANY_SIGNS = 3

SHORTEST = 8
_LONG = 12  # from here on letters with digits are enough
_LONG_HEX = 20
_SHORT_OF_MAXIMUM_BITS = 0.75  # n random characters carry up to log2(n) bits each; repetitions take less than this
_ENOUGH_BITS = 3.3  # of a long value; English words carry about 3
_ENOUGH_BITS_HEX = 3.0


def entropy_bits(value: bytes) -> float:
    """Shannon entropy of a character."""
    length = len(value)
    return -sum(count / length * math.log2(count / length) for count in Counter(value).values())


def is_placeholder(value: bytes) -> bool:
    return _PLACEHOLDER.search(value) is not None


def looks_random(value: bytes) -> bool:
    """For a value in quotes, or in another place that only holds values: what is no word is a secret."""
    if not _is_varied(value):
        return False
    if _UUID.fullmatch(value) or (_count_classes(value) >= 3 and _common_share(value) <= _MOST_COMMON_QUOTED):
        return True
    if len(value) < _LONG:
        return False
    if _SIGN.search(value):
        return _mixes_digits(value) and _common_share(value) <= _MOST_COMMON
    pieces = [piece for piece in re.split(rb"[._/:-]", value) if len(piece) >= _LONG]
    return any(_mixes_digits(piece) or _common_share(piece) <= _MOST_COMMON_QUOTED for piece in pieces)


def looks_random_bare(value: bytes) -> bool:
    """For a value without quotes, where code would have a name or an expression."""
    if len(value) < _LONG or not _is_varied(value):
        return False
    if _UUID.fullmatch(value):
        return True
    if _HEX.fullmatch(value):
        return len(value) >= _LONG_HEX and _mixes_digits(value)
    longest = max(map(len, _PIECE.findall(value)), default=0)
    if _count_classes(value) < (2 if longest >= SHORTEST else 3):
        return False
    return _common_share(value) <= _most_common_bare(value)


def _most_common_bare(value: bytes) -> float:
    if _SIGN.search(value):
        return _MOST_COMMON_QUOTED  # no name has signs
    if _DIGIT.search(value):
        return _MOST_COMMON_BARE
    capitals = len(_CAPITAL.findall(value)) / len(value)
    return _MOST_COMMON_BARE if _FEWEST_CAPITALS <= capitals <= 1 - _FEWEST_CAPITALS else _MOST_COMMON_BARE_LETTERS


def _is_varied(value: bytes) -> bool:
    if len(value) < SHORTEST or is_placeholder(value):
        return False
    enough = _ENOUGH_BITS_HEX if _HEX.fullmatch(value.replace(b"-", b"")) else _ENOUGH_BITS
    return entropy_bits(value) >= min(enough, math.log2(len(value)) - _SHORT_OF_MAXIMUM_BITS)


def _count_classes(value: bytes) -> int:
    """Small letters, capitals, digits, signs."""
    return sum(pattern.search(value) is not None for pattern in (_SMALL, _CAPITAL, _DIGIT, _SIGN))


def _mixes_digits(piece: bytes) -> bool:
    return _DIGIT.search(piece) is not None and (_SMALL.search(piece) or _CAPITAL.search(piece)) is not None


def _common_share(value: bytes) -> float:
    """How much of a value reads like words: the share of its pairs of letters that words have. A capital after a small
    letter is no such pair, nor is a digit beside a letter."""
    pairs = _LETTER_PAIR.findall(value)
    count = len(pairs) + len(_KIND_CHANGE.findall(value))
    if count < _FEW_PAIRS:
        return 0.0 if len(_SIGN.findall(value)) >= _MANY_SIGNS else 1.0
    return sum(pair.lower() in _COMMON_PAIRS for pair in pairs if not _CAPITAL_AFTER_SMALL.match(pair)) / count
