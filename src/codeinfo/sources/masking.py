"""Secrets inside text, masked before anything is stored, embedded or sent. Line breaks stay where they are.

Found by their format (`secret_formats`), by what stands around them (assignments, addresses, headers, command lines,
key blocks), and behind another encoding (JSON escapes, notebooks, base64 in Kubernetes secrets). Every expression is
bounded or starts at a border, so that time grows with the length of the text whatever it holds. Plain substrings are
looked for first: most files have few and cost nothing more.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote_to_bytes

from codeinfo.sources.secret_formats import Span, find_keys, looks_random, looks_random_bare


def find_in_context(data: bytes) -> Iterator[Span]:
    lower = data.lower()
    yield from _assignments(data, lower)
    phrases = (*_PHRASES, (b"://", _IN_URL, _is_random_in_url, "password")) if b"@" in data else _PHRASES
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

# Possessive: what a part has taken it keeps, so that a failing match costs one pass. Control characters end a value:
# they separate the fields of a log.
_ASSIGNED = re.compile(
    rb"""(?P<rest>[\w.-]{0,40}+) (?P<closed>\\{0,3}+["'`])?+ [\])]?+ [ \t]{0,8}+
    (?: :[ \t]?+ [A-Za-z_.<>?|]{1,24}+ [ \t]?+ (?==[ \t]?+[rbuf@$]?["'`]) )?+  # the type of a variable
    (?: (?: =>|:=|\?=|={1,3}+|:|> | (?(closed),|(?!)) ) [ \t]{0,8}+  # a comma in setdefault("KEY", "...")
    |   (?(closed)(?!)|(?<=[ \t])) )  # --token VALUE, and a line of .netrc
    (?:
        [rbuf@$]{0,2}+
        (?: " (?P<double>(?:[^"\\\0- ]|\\[^"\0- ]){8,4096}+) "
        |   ' (?P<single>(?:[^'\\\0- ]|\\[^'\0- ]){8,4096}+) '
        |   ` (?P<back>[^`\0- ]{8,4096}+) `
        |   \\{1,3}+["'] (?P<escaped>[^"'\\\0- ]{8,4096}+) \\{1,3}+["'] )
    |
        (?: [|>][-+0-9]{0,2}+ [ \t]*+\n[ \t]*+ )?+  # a block scalar of YAML
        (?P<bare>[^\0- "'`,;<>(){}\[\]|\\]{8,4096}+) (?![(\[{|>])
    )""",
    re.VERBOSE,
)
# Names that end so hold what belongs to a secret, never the secret itself.
_ABOUT = re.compile(
    rb"(?:name|url|uri|path|file|type|prefix|suffix|header|field|length|size|regex|pattern|class|label|title|text|message"
    rb"|error|hint|version|format|env|var|ref|arn|store|manager|hash|digest|checksum|sha256|sha1|md5|algorithm|endpoint"
    rb"|expir\w*|count|_at|kind|scope|param|parameter|column|public\w*|pub|sid)s?\Z",
    re.IGNORECASE,
)
_PUBLIC = (b"public", b"public_", b"publickey")
_FOREIGN_LETTER = re.compile(rb"\\u(?!00[0-7])")  # a translation, as JSON writes it


def _scan(
    data: bytes, lower: bytes, literal: bytes, pattern: re.Pattern[bytes], offset: int = 0, behind: Sequence[bytes] = ()
) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Where a literal is followed by a pattern, and the match `offset` bytes on. A match is looked at once, however
    often it repeats the literal. With `behind`, one of these must stand before it."""
    at = lower.find(literal)
    while at >= 0:
        fits = not behind or lower.endswith(tuple(behind), max(0, at - _LONGEST_BEFORE), at)
        match = pattern.match(data, at + offset) if fits else None
        if match:
            yield at, match
        at = lower.find(literal, match.end() if match else at + len(literal))


def _assignments(data: bytes, lower: bytes) -> Iterator[Span]:
    """Values given to names that contain a telling word."""
    for word in _WORDS:
        for at, match in _scan(data, lower, word, _ASSIGNED, len(word)):
            if not lower.endswith(_PUBLIC, 0, at):
                yield from _assigned(match)
    for _, match in _scan(data, lower, _KEY, _ASSIGNED, len(_KEY), _KEY_OF):
        yield from _assigned(match)


def _assigned(match: re.Match[bytes]) -> Iterator[Span]:
    if _ABOUT.search(match["rest"]):
        return
    group = match.lastgroup or ""
    value = match[group]
    is_secret = looks_random_bare if group == "bare" else looks_random
    if _FOREIGN_LETTER.search(value) is None and is_secret(value.replace(b"\\/", b"/")):
        yield *match.span(group), "secret"


# --- phrases -------------------------------------------------------------------------------------------------------


def _is_encoded_login(value: bytes) -> bool:
    """Base64 of `user:password`, as Basic headers, Docker's configuration and .npmrc have it."""
    try:
        decoded = base64.b64decode(value.replace(b"\\/", b"/") + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    _, colon, password = decoded.partition(b":")
    return bool(colon) and looks_random(password)


def _is_random_in_url(value: bytes) -> bool:
    return looks_random(unquote_to_bytes(value))


_BASE64 = rb"(?P<value>(?:[A-Za-z0-9+]|\\?/){8,2048}+={0,2})"
_PHRASES: tuple[tuple[bytes, re.Pattern[bytes], Callable[[bytes], bool], str], ...] = tuple(
    (literal, re.compile(pattern, re.IGNORECASE), is_secret, kind)
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
    """Only what looks like base64 between the lines, so that code which handles keys stays readable."""
    at = 0
    while begin := _KEY_BEGIN.search(data, at):
        end = data.find(_KEY_END, begin.end(), begin.end() + _KEY_MAX_CHARS)
        at = end if end >= 0 else min(begin.end() + _KEY_MAX_CHARS, len(data))
        for body in _KEY_BODY.finditer(data, begin.end(), at):
            yield *body.span(), "private-key"


# --- JSON ----------------------------------------------------------------------------------------------------------

_JSON_START = re.compile(rb"\s*[\[{]")
# An escape, or the seam between two lines of a list: notebooks keep each cell as one.
_ESCAPE = re.compile(rb'\\n",\s{0,64}"|\\(?:["\\/bfnrt]|u00[0-7][0-9a-fA-F])')
_SHORT_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b" ", b"f": b" "}


def find_in_json(data: bytes, find: Callable[[bytes], Iterator[Span]]) -> Iterator[Span]:
    """What `find` sees once the strings of a JSON text are decoded, as places in the text as it is written."""
    if b"\\" not in data or not _JSON_START.match(data):
        return
    pieces: list[bytes] = []
    plain_ends, raw_ends = [0], [0]  # of the text before each escape, and after it
    at = length = 0
    for escape in _ESCAPE.finditer(data):
        before, decoded = data[at : escape.start()], _decoded(escape[0])
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


def _decoded(escape: bytes) -> bytes:
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
    rb"(?P<body>(?:(?P=indent)[ \t]++\S[^\n]*+(?:\n|\Z)|[ \t]*+\n)++)",
    re.MULTILINE,
)
_JSON_DATA = re.compile(rb"\"(?P<name>stringData|data)\"\s{0,8}:\s{0,8}\{(?P<body>[^{}]*+)\}")
_VALUE = re.compile(rb"(?:^|:)[ \t]*+[\"']?(?P<value>[^\s\"'{}$<>]{8,}+)[\"']?[ \t]*+(?=\n|,|\Z)", re.MULTILINE)
_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/]{4,}={0,2}")


def find_in_kubernetes(data: bytes) -> Iterator[Span]:
    """The values of a Secret's `data`, which are base64 and secret by what they are; those of its `stringData` that
    look random."""
    at = 0
    while kind := _SECRET_KIND.search(data, at):
        start = data.rfind(_DOCUMENT_BORDER, at, kind.start())
        end = data.find(_DOCUMENT_BORDER, kind.end())
        end = len(data) if end < 0 else end + 1
        for pattern in (_YAML_DATA, _JSON_DATA):
            for block in pattern.finditer(data, max(start, at), end):
                is_secret = _is_base64 if block["name"] == b"data" else looks_random
                for value in _VALUE.finditer(data, *block.span("body")):
                    if is_secret(value["value"]):
                        yield *value.span("value"), "kubernetes-secret"
        at = end


def _is_base64(value: bytes) -> bool:
    return len(value) % 4 == 0 and _BASE64_RUN.fullmatch(value) is not None


def mask(text: str) -> tuple[str, int]:
    """The text with each secret replaced by `[masked:kind]`, and how many there were."""
    data = text.encode("utf-8", "surrogatepass")  # bytes search as fast as ASCII text whatever else the text holds
    spans = find_secrets(data)
    if not spans:
        return text, 0
    pieces: list[bytes] = []
    at = 0
    for start, end, kind in spans:
        pieces += (data[at:start], b"[masked:%s]" % kind.encode())
        at = end
    pieces.append(data[at:])
    return b"".join(pieces).decode("utf-8", "surrogatepass"), len(spans)


def find_secrets(data: bytes) -> list[Span]:
    """Where the secrets of a text are, in order, none overlapping another."""
    return _joined(sorted([*_find(data), *find_in_json(data, _find)]))


_ALL_BUT_LINE_ENDS = bytes(code if code == ord("\n") else 0 for code in range(256))


def blanked(data: bytes) -> bytes:
    """The text with each secret overwritten by NULs: whatever else is in it keeps its place. Lines end with `\\n`."""
    spans = find_secrets(data.replace(b"\r", b"\n"))
    if not spans:
        return data
    hidden = bytearray(data)
    for start, end, _ in spans:
        hidden[start:end] = hidden[start:end].translate(_ALL_BUT_LINE_ENDS)
    return bytes(hidden)


def _find(data: bytes) -> Iterator[Span]:
    yield from find_keys(data)
    yield from find_in_context(data)
    yield from find_in_kubernetes(data)


def _joined(spans: list[Span]) -> list[Span]:
    """Those that overlap as one, called what the first by name of a service is called."""
    joined: list[Span] = []
    for start, end, kind in spans:
        if joined and start < joined[-1][1]:
            first, last, named = joined[-1]
            joined[-1] = first, max(last, end), kind if named in _GENERAL else named
        else:
            joined.append((start, end, kind))
    return joined


_GENERAL = ("secret", "token", "password")
