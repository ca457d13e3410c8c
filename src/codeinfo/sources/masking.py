"""Secrets inside text, masked before anything is stored, embedded or sent. Line breaks stay where they are.

Found by their format (`masking.tsv`), by their context (assignments, addresses, headers, command lines, key blocks),
and inside other encodings (JSON escapes, notebooks, base64 in Kubernetes secrets). Every expression is bounded or
anchored, so that time grows linearly with the text whatever it contains. Plain substrings are searched first: most
files have few and cost nothing more.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from codeinfo.model import quantity

# Placeholders: templates, references to the environment, words of documentation.
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
# In between, the closer to random letters, the more often a place holds something other than a value.
_MOST_COMMON = 0.65
_MOST_COMMON_QUOTED = 0.5
_MOST_COMMON_BARE = 0.45
_MOST_COMMON_BARE_LETTERS = 0.34  # without a digit, and capitalised like names
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
    """Shannon entropy per character."""
    length = len(value)
    return -sum(count / length * math.log2(count / length) for count in Counter(value).values())


def looks_random(value: bytes) -> bool:
    """For a value in quotes, or in another place that only holds values: what is not a word is a secret."""
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
        return _MOST_COMMON_QUOTED  # no name contains signs
    if _DIGIT.search(value):
        return _MOST_COMMON_BARE
    capitals = len(_CAPITAL.findall(value)) / len(value)
    return _MOST_COMMON_BARE if _FEWEST_CAPITALS <= capitals <= 1 - _FEWEST_CAPITALS else _MOST_COMMON_BARE_LETTERS


def _is_varied(value: bytes) -> bool:
    if len(value) < SHORTEST or _PLACEHOLDER.search(value):
        return False
    enough = _ENOUGH_BITS_HEX if _HEX.fullmatch(value.replace(b"-", b"")) else _ENOUGH_BITS
    return entropy_bits(value) >= min(enough, math.log2(len(value)) - _SHORT_OF_MAXIMUM_BITS)


def _count_classes(value: bytes) -> int:
    """Small letters, capitals, digits, signs."""
    return sum(pattern.search(value) is not None for pattern in (_SMALL, _CAPITAL, _DIGIT, _SIGN))


def _mixes_digits(piece: bytes) -> bool:
    return _DIGIT.search(piece) is not None and (_SMALL.search(piece) or _CAPITAL.search(piece)) is not None


def _common_share(value: bytes) -> float:
    """How much a value reads like words: the share of its letter pairs that are common in words. A capital after a
    small letter is not such a pair, nor is a digit beside a letter."""
    pairs = _LETTER_PAIR.findall(value)
    count = len(pairs) + len(_KIND_CHANGE.findall(value))
    if count < _FEW_PAIRS:
        return 0.0 if len(_SIGN.findall(value)) >= _MANY_SIGNS else 1.0
    return sum(pair.lower() in _COMMON_PAIRS for pair in pairs if not _CAPITAL_AFTER_SMALL.match(pair)) / count


LOWEST_BITS = 3.0

Span = tuple[int, int, str]  # start, end and kind


class Format(NamedTuple):
    kind: str
    rest: bytes  # the pattern of what follows the prefix; few texts need it, and `re` caches what it compiled
    lowest_bits: float  # entropy per character of the whole key: below it, somebody wrote an example


# Keys without a prefix: recognised by a mark in the middle or at the end of a long word.
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
    """Only the start of each long word is examined: searching for each prefix would take ten times as long."""
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
            return  # a long word of its own, which was already examined


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


# --- secrets by what stands around them -------------------------------------------------------------------------------


def _find_in_context(data: bytes) -> Iterator[Span]:
    lower = data.lower()
    yield from _assignments(data, lower)
    phrases = (*_PHRASES, _Phrase(b"://", _IN_URL, _is_random_in_url, "password")) if b"@" in data else _PHRASES
    for literal, pattern, is_secret, kind in phrases:
        for _, match in _scan(data, lower, literal, pattern):
            if is_secret(match["value"]):
                yield *match.span("value"), kind
    if b"PRIVATE KEY" in data:
        yield from _private_keys(data)


# --- assignments ---------------------------------------------------------------------------------------------------

_WORDS = (b"pass", b"pwd", b"secret", b"token", b"credential")
# "key" alone names an entry of a table; these words before it make it a secret.
_KEY = b"key"
_KEY_OF = tuple(
    word + joint
    for word in (
        b"api app access account auth private secret shared encryption encrypt signing master license subscription "
        b"consumer client deploy admin"
    ).split()
    for joint in (b"", b"_", b"-", b".")
)

_LONGEST_BEFORE = 13  # bytes: "subscription_"

# Possessive characters: hardly any backtracking, so that a failing match costs about one pass. Groups are not: before
# 3.11.5 Python fails to match possessive groups. Control characters end a value: they separate the fields of a log.
_ASSIGNED = re.compile(
    rb"""(?P<rest>[\w.-]{0,40}+) (?P<closed>\\{0,3}+["'`])? [\])]?+ [ \t]{0,8}+
    (?: :[ \t]?+ [A-Za-z_.<>?|]{1,24}+ [ \t]?+ (?==[ \t]?+[rbuf@$]?["'`]) )?  # the type of a variable
    (?: (?: =>|:=|\?=|={1,3}+|:|> | (?(closed),|(?!)) ) [ \t]{0,8}+  # a comma in setdefault("KEY", "...")
    |   (?(closed)(?!)|(?<=[ \t])) )  # --token VALUE, and a line of .netrc
    (?:
        [rbuf@$]{0,2}+
        (?: " (?P<double>(?:[^"\\\0- ]|\\[^"\0- ]){8,4096}) "
        |   ' (?P<single>(?:[^'\\\0- ]|\\[^'\0- ]){8,4096}) '
        |   ` (?P<back>[^`\0- ]{8,4096}+) `
        |   \\{1,3}+["'] (?P<escaped>[^"'\\\0- ]{8,4096}+) \\{1,3}+["'] )
    |
        (?: [|>][-+0-9]{0,2}+ [ \t]*+\n[ \t]*+ )?  # a block scalar of YAML
        (?P<bare>[^\0- "'`,;<>(){}\[\]|\\]{8,4096}+) (?![(\[{|>])
    )""",
    re.VERBOSE,
)
# Names with these endings hold what belongs to a secret, never the secret itself.
_ABOUT = re.compile(
    rb"(?:name|url|uri|path|file|type|prefix|suffix|header|field|length|size|regex|pattern|class|label|title|text|message"
    rb"|error|hint|version|format|env|var|ref|arn|store|manager|hash|digest|checksum|sha256|sha1|md5|algorithm|endpoint"
    rb"|expir\w*|count|_at|kind|scope|param|parameter|column|public\w*|pub|sid)s?\Z",
    re.IGNORECASE,
)
_PUBLIC = (b"public", b"public_", b"publickey")
_FOREIGN_LETTER = re.compile(rb"\\u(?!00[0-7])")  # a translation, as written in JSON


def _scan(
    data: bytes, lower: bytes, literal: bytes, pattern: re.Pattern[bytes], offset: int = 0, behind: Sequence[bytes] = ()
) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Where a literal is followed by a pattern, and the match `offset` bytes later. A match is examined once,
    however often it repeats the literal. With `behind`, one of these must precede it."""
    at = lower.find(literal)
    while at >= 0:
        fits = not behind or lower.endswith(tuple(behind), max(0, at - _LONGEST_BEFORE), at)
        match = pattern.match(data, at + offset) if fits else None
        if match:
            yield at, match
        at = lower.find(literal, match.end() if match else at + len(literal))


def _assignments(data: bytes, lower: bytes) -> Iterator[Span]:
    """Values assigned to names that contain a telling word."""
    for word in _WORDS:
        for at, match in _scan(data, lower, word, _ASSIGNED, len(word)):
            if not lower.endswith(_PUBLIC, 0, at):
                yield from _find_assigned(match)
    for _, match in _scan(data, lower, _KEY, _ASSIGNED, len(_KEY), _KEY_OF):
        yield from _find_assigned(match)


def _find_assigned(match: re.Match[bytes]) -> Iterator[Span]:
    if _ABOUT.search(match["rest"]):
        return
    group = match.lastgroup or ""
    value = match[group]
    is_secret = looks_random_bare if group == "bare" else looks_random
    if _FOREIGN_LETTER.search(value) is None and is_secret(value.replace(b"\\/", b"/")):
        yield *match.span(group), "secret"


# --- phrases -------------------------------------------------------------------------------------------------------


def _is_encoded_login(value: bytes) -> bool:
    """Base64 of `user:password`, as in Basic headers, Docker's configuration and .npmrc."""
    try:
        decoded = base64.b64decode(value.replace(b"\\/", b"/") + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    _, colon, password = decoded.partition(b":")
    return bool(colon) and looks_random(password)


def _is_random_in_url(value: bytes) -> bool:
    return looks_random(unquote_to_bytes(value))


_BASE64 = rb"(?P<value>(?:[A-Za-z0-9+]|\\?/){8,2048}={0,2})"


class _Phrase(NamedTuple):
    """What stands before a secret. The pattern is only tried where the literal occurs."""

    literal: bytes
    pattern: re.Pattern[bytes]
    is_secret: Callable[[bytes], bool]
    kind: str


_PHRASES = tuple(
    _Phrase(literal, re.compile(pattern, re.IGNORECASE), is_secret, kind)
    for literal, pattern, is_secret, kind in (
        (b"bearer ", rb"bearer[ ]{1,4}(?P<value>[\w.~+/=-]{16,2048}+)(?![(\[])", looks_random_bare, "token"),
        (b"basic ", rb"basic[ ]{1,4}" + _BASE64, _is_encoded_login, "password"),
        (b"auth", rb"auth\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?" + _BASE64, _is_encoded_login, "password"),
        # curl -u user:password, --user=user:password
        (
            b"-u",
            rb"(?:(?<=[\s\"'`(,\[])|(?<=[\s\"'`(,\[]-))-u(?:ser)?[\"']?,?[ \t=]{0,4}\\{0,3}[\"']?"
            rb"[^\0- :\"'\\/]{1,64}:(?!/)(?P<value>[^\0- \"'\\]{8,128}+)",
            looks_random,
            "password",
        ),
        (b"sig=", rb"sig=(?P<value>[\w%+/-]{40,128}+={0,2})", _is_random_in_url, "signature"),
    )
)
_IN_URL = re.compile(rb"://[^\0- :/@\"'<>{}$]{0,64}+:(?P<value>[^\0- :/@\"'<>{}]{8,256}+)@")


# --- key blocks ----------------------------------------------------------------------------------------------------

_KEY_BEGIN = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = b"-----END "
_KEY_MAX_CHARS = 16_384  # an RSA key of 16,384 bits takes about 13,000
_KEY_BODY = re.compile(
    rb"(?<!\\)(?:[A-Za-z0-9+]|\\?/){16,}={0,2}"
    rb"|(?:(?<=\n)|(?<=\\n))[ \t]{0,32}+[\"']?(?:[A-Za-z0-9+]|\\?/){1,15}={0,2}(?=[\"'\r]{0,4}(?:\n|\\n))"
)


def _private_keys(data: bytes) -> Iterator[Span]:
    """Only what looks like base64 between the markers, so that code that handles keys stays readable."""
    at = 0
    while begin := _KEY_BEGIN.search(data, at):
        end = data.find(_KEY_END, begin.end(), begin.end() + _KEY_MAX_CHARS)
        at = end if end >= 0 else min(begin.end() + _KEY_MAX_CHARS, len(data))
        for body in _KEY_BODY.finditer(data, begin.end(), at):
            yield *body.span(), "private-key"


# --- JSON ----------------------------------------------------------------------------------------------------------

_JSON_START = re.compile(rb"\s*[\[{]")
# An escape, or the boundary between two lines of a list: notebooks store each cell as one.
_ESCAPE = re.compile(rb'\\n",\s{0,64}"|\\(?:["\\/bfnrt]|u00[0-7][0-9a-fA-F])')
_SHORT_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b" ", b"f": b" "}


def find_in_json(data: bytes, find: Callable[[bytes], Iterator[Span]]) -> Iterator[Span]:
    """What `find` sees in the decoded strings of a JSON text, as positions in the text as written."""
    if b"\\" not in data or not _JSON_START.match(data):
        return
    pieces: list[bytes] = []
    plain_ends, raw_ends = [0], [0]  # of the text before each escape, and after it
    at = length = 0
    for escape in _ESCAPE.finditer(data):
        before, decoded = data[at : escape.start()], _decode_escape(escape[0])
        pieces += (before, decoded)
        length += len(before)
        plain_ends += (length, length + len(decoded))
        raw_ends += (escape.start(), escape.end())
        length += len(decoded)
        at = escape.end()
    pieces.append(data[at:])

    def raw(place: int) -> int:
        near = bisect_right(plain_ends, place) - 1
        return raw_ends[near] + place - plain_ends[near]

    for start, end, kind in find(b"".join(pieces)):
        yield raw(start), raw(end), kind


def _decode_escape(escape: bytes) -> bytes:
    if escape.startswith(b'\\n",'):
        return b"\n"
    if escape[1:2] == b"u":
        return bytes((int(escape[2:], 16),))
    return _SHORT_ESCAPES.get(escape[1:], escape[1:])


# --- Kubernetes ----------------------------------------------------------------------------------------------------

_SECRET_KIND = re.compile(rb"kind[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?Secret\b")
_DOCUMENT_BORDER = b"\n---"
_YAML_DATA = re.compile(
    rb"^(?P<indent>[ \t]*+)(?P<name>stringData|data):[ \t]*+\n"
    rb"(?P<body>(?:(?P=indent)[ \t]++\S[^\n]*+(?:\n|\Z)|[ \t]*+\n)+)",
    re.MULTILINE,
)
_JSON_DATA = re.compile(rb"\"(?P<name>stringData|data)\"\s{0,8}:\s{0,8}\{(?P<body>[^{}]*+)\}")
_VALUE = re.compile(rb"(?:^|:)[ \t]*+[\"']?(?P<value>[^\s\"'{}$<>]{8,}+)[\"']?[ \t]*+(?=\n|,|\Z)", re.MULTILINE)
_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/]{4,}={0,2}")


def find_in_kubernetes(data: bytes) -> Iterator[Span]:
    """The values of a Secret's `data`, which are base64 and secret by definition; those of its `stringData` that
    look random."""
    at = 0
    while kind := _SECRET_KIND.search(data, at):
        start = data.rfind(_DOCUMENT_BORDER, at, kind.start())
        end = data.find(_DOCUMENT_BORDER, kind.end())
        end = len(data) if end < 0 else end + 1
        for block in chain.from_iterable(
            pattern.finditer(data, max(start, at), end) for pattern in (_YAML_DATA, _JSON_DATA)
        ):
            is_secret = _is_base64 if block["name"] == b"data" else looks_random
            values = _VALUE.finditer(data, *block.span("body"))
            yield from ((*value.span("value"), "kubernetes-secret") for value in values if is_secret(value["value"]))
        at = end


def _is_base64(value: bytes) -> bool:
    return len(value) % 4 == 0 and _BASE64_RUN.fullmatch(value) is not None


def mask(text: str) -> tuple[str, int]:
    """The text with each secret replaced by `[masked:kind]`, and how many there were."""
    data = text.encode("utf-8", "surrogatepass")  # bytes are searched as fast as ASCII text whatever the text contains
    if not (spans := find_secrets(data)):
        return text, 0
    pieces: list[bytes] = []
    at = 0
    for start, end, kind in spans:
        pieces += (data[at:start], b"[masked:%s]" % kind.encode())
        at = end
    pieces.append(data[at:])
    return b"".join(pieces).decode("utf-8", "surrogatepass"), len(spans)


def mask_notes(count: int) -> tuple[str, ...]:
    return (f"{quantity(count, 'secret')} masked",) if count else ()


def has_masked_secrets(notes: str) -> bool:
    """Whether a file's stored notes say that secrets were masked, so that its stored text is not its content."""
    return re.search(r"^\d+ secrets? masked$", notes, re.MULTILINE) is not None


def find_secrets(data: bytes) -> list[Span]:
    """The positions of the secrets in a text, in order, without overlaps."""
    return _merge_spans(sorted([*_find(data), *find_in_json(data, _find)]))


_ALL_BUT_LINE_ENDS = bytes(code if code == ord("\n") else 0 for code in range(256))


def blank_secrets(data: bytes) -> bytes:
    """The text with each secret overwritten by NULs: everything else keeps its position. Lines end with `\\n`."""
    if not (spans := find_secrets(data.replace(b"\r", b"\n"))):
        return data
    hidden = bytearray(data)
    for start, end, _ in spans:
        hidden[start:end] = hidden[start:end].translate(_ALL_BUT_LINE_ENDS)
    return bytes(hidden)


def _find(data: bytes) -> Iterator[Span]:
    yield from find_keys(data)
    yield from _find_in_context(data)
    yield from find_in_kubernetes(data)


def _merge_spans(spans: list[Span]) -> list[Span]:
    """Merge overlapping ones, keeping the name of the first service."""
    joined: list[Span] = []
    for start, end, kind in spans:
        if joined and start < joined[-1][1]:
            first, last, named = joined[-1]
            joined[-1] = first, max(last, end), kind if named in _GENERAL else named
        else:
            joined.append((start, end, kind))
    return joined


_GENERAL = ("secret", "token", "password")
