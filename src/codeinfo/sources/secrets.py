"""Secrets inside text, masked before anything is stored or embedded. Line breaks stay where they are.

Every pattern is bounded or starts at a border, so that time grows with the length of the text whatever it holds. The
markers are looked for as plain substrings first: most files have none and cost nothing more.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

# Each pattern begins with one of its prefixes, at a border, and spans 20 word characters or more. They stay plain
# strings: few texts need one, and `re` keeps what it compiled.
_START = r"(?<![A-Za-z0-9_-])"
_TOKENS: tuple[tuple[str, tuple[bytes, ...], bytes], ...] = tuple(
    (kind, tuple(prefixes.encode().split()), (_START + pattern).encode())
    for kind, prefixes, pattern in (
        ("aws-key", "AKIA ASIA", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
        ("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
        ("gitlab-token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,255}"),
        ("slack-token", "xoxa- xoxb- xoxp- xoxr- xoxs-", r"xox[abprs]-[A-Za-z0-9-]{15,255}"),
        ("google-key", "AIza", r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
        ("google-secret", "GOCSPX-", r"GOCSPX-[0-9A-Za-z_-]{20,64}"),
        ("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[sr]k_(?:live|test)_[0-9A-Za-z]{16,255}"),
        ("webhook-secret", "whsec_", r"whsec_[0-9A-Za-z]{24,255}"),
        (
            "api-key",
            "sk-",
            r"sk-(?:[a-z0-9]{2,8}-){0,2}(?=[A-Za-z]{0,48}\d)(?=[a-z0-9]{0,48}[A-Z])[A-Za-z0-9_]{16}[A-Za-z0-9_-]{0,255}",
        ),
        ("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
        ("pypi-token", "pypi-AgE", r"pypi-AgE[A-Za-z0-9_-]{50,512}"),
        ("hugging-face-token", "hf_", r"hf_[A-Za-z0-9]{34}(?![A-Za-z0-9])"),
        ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
        ("jwt", "eyJ", r"eyJ[A-Za-z0-9_-]{17,4096}\.eyJ[A-Za-z0-9_-]{10,8192}\.[A-Za-z0-9_-]{16,4096}"),
    )
)
_PREFIXES = tuple(prefix for _, prefixes, _ in _TOKENS for prefix in prefixes)
_TOKEN_LENGTH = 20
_WORD_BYTES = b"_-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_WORD_OR_BLANK = bytes(119 if byte in _WORD_BYTES else 32 for byte in range(256))  # 119 is "w"

# Tokens that other characters break into shorter words: found by a literal of their own.
_BROKEN_TOKENS: tuple[tuple[str, bytes, bytes], ...] = (
    ("slack-hook", b"hooks.slack.com/", rb"hooks\.slack\.com/services/T\w{6,20}/B\w{6,20}/\w{16,64}"),
    ("sendgrid-key", b"SG.", _START.encode() + rb"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"),
    ("azure-key", b"AccountKey=", rb"AccountKey=[A-Za-z0-9+/]{40,128}={0,2}"),
)

_KEY_BEGIN = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = b"-----END "
_KEY_MAX_CHARS = 16_384  # an RSA key of 16,384 bits takes about 13,000
_KEY_BODY = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}|(?<=\n)[A-Za-z0-9+/]{1,15}={0,2}(?=\r?\n)")

_WORDS = (b"passw", b"secret", b"token", b"api_key", b"apikey", b"api-key", b"access_key", b"accesskey")
# Possessive: what a part has taken it keeps, so that a failing match costs one pass over at most 600 bytes.
_ASSIGNED = re.compile(
    rb"""[A-Za-z0-9_]{0,32}+["'\]]{0,2}+[ \t]{0,8}+(?::[ \t]?+[A-Za-z_.<>?|]{1,24}+[ \t]?+(?==))?(?:=>|:=|=|:)"""
    rb"""[ \t]{0,8}+[rbuf@$]{0,2}+(?P<quote>["'`])(?P<value>[^"'`\s]{12,256}+)(?P=quote)"""
)
_ENVIRONMENT = re.compile(rb"[A-Z0-9_]{0,32}+=(?P<value>[A-Za-z0-9+/=_.~!@#%^&*-]{16,256}+)[ \t]*+(?:\n|\Z)")
_PLACEHOLDER = re.compile(
    rb"\$\{|\{\{|\{\w*\}|%[sd(]|<|>|\.\.\.|\*\*\*|://|xxx|example|change|your|dummy|placeholder", re.IGNORECASE
)
_IN_URL = re.compile(rb"://[^\s:/@\"'<>{}$]{1,64}:([^\s:/@\"'<>{}$]{8,128})@")
# Random strings of 16 letters and digits carry 3.6 bits a character on average, English words about 3.
_MIN_ENTROPY_BITS = 3.3

_MIN_PIECE = 12
_SEPARATOR = re.compile(rb"[._/:-]")
_PUNCTUATION = re.compile(rb"[!@#$%^&*+=~]")
_DIGIT = re.compile(rb"\d")
_LETTER = re.compile(rb"[A-Za-z]")

Span = tuple[int, int, str]


def mask(text: str) -> tuple[str, int]:
    """The text with each secret replaced by `[masked:kind]`, and how many there were."""
    data = text.encode("utf-8", "surrogatepass")  # bytes search as fast as ASCII text whatever else the text holds
    spans = sorted(_spans(data))
    if not spans:
        return text, 0
    pieces: list[bytes] = []
    at = count = 0
    for start, end, kind in spans:
        if start < at:
            continue
        pieces += (data[at:start], b"[masked:%s]" % kind.encode())
        at = end
        count += 1
    pieces.append(data[at:])
    return b"".join(pieces).decode("utf-8", "surrogatepass"), count


def _spans(data: bytes) -> Iterator[Span]:
    if _has_token(data):
        for kind, prefixes, pattern in _TOKENS:
            if any(prefix in data for prefix in prefixes):
                yield from ((*match.span(), kind) for match in re.finditer(pattern, data))
    for kind, marker, pattern in _BROKEN_TOKENS:
        if marker in data:
            yield from ((*match.span(), kind) for match in re.finditer(pattern, data))
    if b"PRIVATE KEY" in data:
        yield from _private_keys(data)
    if b"@" in data:
        yield from _passwords_in_urls(data)
    lower = data.lower()
    for word in _WORDS:
        yield from _assignments(data, lower, word)


def _has_token(data: bytes) -> bool:
    """Looks at the start of each long word only: a search for each prefix would take five times as long."""
    shape = data.translate(_WORD_OR_BLANK)
    at = shape.find(b"w" * _TOKEN_LENGTH)
    while at >= 0:
        if data.startswith(_PREFIXES, at):
            return True
        at = shape.find(b" ", at + _TOKEN_LENGTH)
        at = shape.find(b"w" * _TOKEN_LENGTH, at) if at >= 0 else -1
    return False


def _private_keys(data: bytes) -> Iterator[Span]:
    """Only what looks like base64 between the lines, so that code which handles keys stays readable."""
    at = 0
    while begin := _KEY_BEGIN.search(data, at):
        end = data.find(_KEY_END, begin.end(), begin.end() + _KEY_MAX_CHARS)
        at = end if end >= 0 else min(begin.end() + _KEY_MAX_CHARS, len(data))
        for body in _KEY_BODY.finditer(data, begin.end(), at):
            yield *body.span(), "private-key"


def _passwords_in_urls(data: bytes) -> Iterator[Span]:
    at = data.find(b"://")
    while at >= 0:
        match = _IN_URL.match(data, at)
        if match and _looks_random(match[1]):
            yield *match.span(1), "password"
        at = data.find(b"://", match.end() if match else at + 3)


def _assignments(data: bytes, lower: bytes, word: bytes) -> Iterator[Span]:
    """Values given to names that contain a telling word. A value is looked at once, however often it repeats it."""
    at = lower.find(word)
    while at >= 0:
        at += len(word)
        match = _ASSIGNED.match(data, at)
        if match is None and data[at - 1 : at].isupper():
            match = _ENVIRONMENT.match(data, at)
        if match and _looks_random(match["value"]):
            yield *match.span("value"), "secret"
        at = lower.find(word, match.end() if match else at)


def _looks_random(value: bytes) -> bool:
    """Letters mixed with digits in one long piece or with punctuation; no path, template or dotted name."""
    if _PLACEHOLDER.search(value):
        return False
    pieces = [value] if _PUNCTUATION.search(value) else [p for p in _SEPARATOR.split(value) if len(p) >= _MIN_PIECE]
    if not any(_DIGIT.search(piece) and _LETTER.search(piece) for piece in pieces):
        return False
    length = len(value)
    entropy = -sum(count / length * math.log2(count / length) for count in Counter(value).values())
    return entropy >= _MIN_ENTROPY_BITS
