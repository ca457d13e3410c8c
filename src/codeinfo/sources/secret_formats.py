"""What a secret looks like: keys that a prefix or a shape gives away, and whether a value was drawn at random."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

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


LOWEST_BITS = 3.0

Span = tuple[int, int, str]  # start, end and kind


class Format(NamedTuple):
    kind: str
    rest: bytes  # the pattern of what follows the prefix; few texts need it, and `re` keeps what it compiled
    lowest_bits: float  # entropy of a character of the whole key: below it, somebody wrote an example


# Keys without a prefix: a mark in the middle or at the end of a long word gives them away.
_MARKED = re.compile(
    rb"(?P<mailchimp_key>[0-9a-f]{32}-us\d{1,2})(?![\w-])"
    rb"|(?P<maxmind_key>[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)(?!\w)"
    rb"|(?P<azure_devops_token>[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})(?!\w)"
    rb"|(?P<discord_token>[MNO][\w-]{23,27}\.[\w-]{6,7}\.[\w-]{27,40})(?![\w-])"
    rb"|(?P<terraform_token>[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70})"
    rb"|(?P<telegram_token>\d{6,10}:AA[\w-]{33})(?![\w-])"
)
# Keys that other characters break into short words: a literal, how far before it they begin, and the whole.
_BROKEN = (
    ("slack-hook", b"hook", 0, rb"hooks\.slack\.com/(?:services|workflows|triggers)/(?:\w{6,24}/){1,3}\w{16,64}"),
    ("discord-hook", b"hook", 0, rb"hooks/\d{16,20}/[\w-]{60,80}"),
    ("teams-hook", b"hook", 0, rb"hook\.office\.com/webhookb2/[0-9a-f@-]{60,80}/\w{1,24}/[\w/-]{60,150}"),
    ("azure-secret", b"Q~", 4, rb"[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
)

_KEY_LENGTH = 20
_LONG_WORD = b"w" * _KEY_LENGTH
_WORD_BYTES = b"_-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_WORD_OR_BLANK = bytes(119 if byte in _WORD_BYTES else 32 for byte in range(256))  # 119 is "w"
_JOINTS = b".:~"  # between the words of one key
_MOST_JOINTS = 3
_ESCAPES = {0x5C: (b"nrtbf", 1), 0x25: (b"0123456789", 2)}  # "\nKEY" in a string literal, "%3DKEY" in an address

_START_BYTES = 3  # formats are found by as many bytes of their prefix
_BY_START: dict[bytes, list[tuple[bytes, Format]]] = {}
for _line in Path(__file__).with_suffix(".tsv").read_text(encoding="ascii").splitlines():
    if _line and not _line.startswith("#"):
        _kind, _prefixes, _rest, *_bits = _line.split("\t")
        _format = Format(_kind, _rest.encode(), float(_bits[0]) if _bits else LOWEST_BITS)
        for _prefix in _prefixes.encode().split():
            _BY_START.setdefault(_prefix[:_START_BYTES], []).append((_prefix, _format))


def find_keys(data: bytes) -> Iterator[Span]:
    """Only the start of each long word is looked at: a search for each prefix would take ten times as long."""
    shape = data.translate(_WORD_OR_BLANK)
    at = shape.find(_LONG_WORD)
    while at >= 0:
        before = data[at - 1] if at else 0
        if before in _JOINTS or before in _ESCAPES:
            starts: Iterable[int] = _starts(data, shape, at)
        else:
            starts = (at,)
        at += _KEY_LENGTH
        for start in starts:
            if span := _key_at(data, start):
                yield span
                at = max(at, span[1])
                break
        end = shape.find(b" ", at)
        at = shape.find(_LONG_WORD, end) if end >= 0 else -1
    for kind, literal, before, pattern in _BROKEN:
        at = data.find(literal)
        while at >= 0:
            match = re.compile(pattern).match(data, at - before) if at >= before else None
            if match and entropy_bits(match[0][-_KEY_LENGTH:]) >= LOWEST_BITS:
                yield *match.span(), kind
            at = data.find(literal, match.end() if match else at + len(literal))


def _starts(data: bytes, shape: bytes, at: int) -> Iterator[int]:
    """Where a key with a long word at `at` may begin: there, after an escape, or some joints before."""
    for _ in range(_MOST_JOINTS + 1):
        before = data[at - 1] if at else 0
        letters, length = _ESCAPES.get(before, (b"", 0))
        if data[at] in letters:
            yield at + length
        yield at
        if before not in _JOINTS:
            return
        end, at = at - 1, shape.rfind(b" ", max(0, at - 1 - _KEY_LENGTH), at - 1) + 1
        if end - at >= _KEY_LENGTH:
            return  # a long word of its own, which was looked at already


def _key_at(data: bytes, at: int) -> Span | None:
    for prefix, format in _BY_START.get(data[at : at + _START_BYTES], ()):
        if data.startswith(prefix, at):
            match = re.compile(format.rest).match(data, at + len(prefix))
            if match and entropy_bits(data[at : match.end()]) >= format.lowest_bits:
                return at, match.end(), format.kind
    match = _MARKED.match(data, at)
    if match and match.lastgroup:
        return *match.span(), match.lastgroup.replace("_", "-")
    return None
