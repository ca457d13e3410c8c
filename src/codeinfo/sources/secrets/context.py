"""Values that their surroundings give away: assignments, addresses, headers, command lines, key blocks.

A value also has to look random: names such as `token` stand before many things that are no secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote_to_bytes

from codeinfo.sources.secrets.formats import Span
from codeinfo.sources.secrets.randomness import looks_random, looks_random_bare


def find_in_context(data: bytes) -> Iterator[Span]:
    lower = data.lower()
    for word in _WORDS:
        yield from _assignments(data, lower, word)
    yield from _key_assignments(data, lower)
    for literal, pattern, is_secret, kind in _PHRASES:
        yield from _phrases(data, lower, literal, pattern, is_secret, kind)
    if b"@" in data:
        yield from _phrases(data, data, b"://", _IN_URL, _is_random_in_url, "password")
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


def _assignments(data: bytes, lower: bytes, word: bytes) -> Iterator[Span]:
    """Values given to names that contain a telling word. A value is looked at once, however often it repeats it."""
    at = lower.find(word)
    while at >= 0:
        at += len(word)
        match = _ASSIGNED.match(data, at)
        if match:
            if not lower.endswith(_PUBLIC, 0, at - len(word)):
                yield from _assigned(match)
            at = match.end()
        at = lower.find(word, at)


def _key_assignments(data: bytes, lower: bytes) -> Iterator[Span]:
    at = lower.find(_KEY)
    while at >= 0:
        match = _ASSIGNED.match(data, at + len(_KEY)) if lower.endswith(_KEY_OF, max(0, at - 13), at) else None
        if match:
            yield from _assigned(match)
        at = lower.find(_KEY, match.end() if match else at + len(_KEY))


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


def _phrases(
    data: bytes, lower: bytes, literal: bytes, pattern: re.Pattern[bytes], is_secret: Callable[[bytes], bool], kind: str
) -> Iterator[Span]:
    at = lower.find(literal)
    while at >= 0:
        match = pattern.match(data, at)
        if match and is_secret(match["value"]):
            yield *match.span("value"), kind
        at = lower.find(literal, match.end() if match else at + len(literal))


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
