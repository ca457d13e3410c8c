"""What a secret looks like: keys that a prefix or a shape gives away, and whether a value was drawn at random."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
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


# Kind, prefixes, what follows (`\w` is A-Z a-z 0-9 _), lowest entropy where it is not LOWEST_BITS. Every key has 20
# word characters in a row, no more than three dots after its start.
_TABLE: tuple[tuple[str, str, str] | tuple[str, str, str, float], ...] = (
    # Clouds
    ("aws-key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])", 2.5),
    ("aws-bedrock-key", "ABSK", r"[A-Za-z0-9+/]{100,300}={0,2}"),
    ("google-key", "AIza", r"[\w-]{35}(?![\w-])"),
    ("google-oauth-secret", "GOCSPX-", r"[\w-]{20,64}"),
    ("google-oauth-token", "ya29.", r"[\w-]{40,1024}"),
    ("alibaba-key", "LTAI", r"[A-Za-z0-9]{16,24}(?!\w)"),
    ("tencent-key", "AKID", r"[A-Za-z0-9]{32}(?!\w)"),
    ("yandex-key", "AQVN", r"[\w-]{35,38}(?![\w-])"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    ("heroku-key", "HRKU-AA", r"[\w-]{58}"),
    ("fly-token", "fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/]{60,2048}={0,3}"),
    ("fly-token", "fo1_", r"[\w-]{43}"),
    ("netlify-token", "nfp_", r"[A-Za-z0-9]{36,40}(?!\w)"),
    ("render-key", "rnd_", r"[A-Za-z0-9]{28,40}(?!\w)"),
    ("scalingo-token", "tk-us-", r"[\w-]{48}"),
    ("cloudflare-origin-key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{146}"),
    ("openshift-token", "sha256~", r"[\w-]{43}(?![\w-])"),
    # Code hosts, packages, builds
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,255}"),
    ("github-token", "github_pat_", r"\w{22,255}"),
    ("gitlab-token", "glpat- gldt- glrt- glrtr- glft- glimt- glagent-", r"[\w-]{20,300}(?:\.[0-9a-z]{9})?"),
    ("gitlab-token", "gloas- glsoat- glffct- glwt-", r"[\w-]{20,300}"),
    ("gitlab-token", "glptt-", r"[a-f0-9]{40}"),
    ("gitlab-token", "glcbt-", r"[A-Za-z0-9]{1,5}_[\w-]{20,255}"),
    ("gitlab-token", "GR1348941", r"[\w-]{20}"),
    ("bitbucket-token", "ATBB", r"[A-Za-z0-9]{28,36}(?!\w)"),
    ("npm-token", "npm_", r"[A-Za-z0-9]{36}(?!\w)"),
    ("pypi-token", "pypi-AgE pypi-AgN", r"[\w-]{50,1024}"),
    ("rubygems-key", "rubygems_", r"[a-f0-9]{48}"),
    ("nuget-key", "oy2", r"[a-z0-9]{43}(?!\w)", 3.5),
    ("crates-token", "cio", r"[A-Za-z0-9]{32}(?!\w)", 3.5),
    ("clojars-token", "CLOJARS_", r"[a-f0-9]{60}"),
    ("docker-token", "dckr_pat_ dckr_oat_", r"[\w-]{27,40}"),
    ("artifactory-key", "AKCp", r"[A-Za-z0-9]{69}(?!\w)"),
    ("artifactory-token", "cmVmd", r"[A-Za-z0-9]{59}(?!\w)"),
    ("buildkite-token", "bkua_ bkct_", r"[a-f0-9]{40}"),
    ("circleci-token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{20,24}_[a-f0-9]{40}"),
    ("sonar-token", "sqp_ squ_ sqa_", r"[a-f0-9]{40}"),
    ("sourcegraph-token", "sgp_", r"(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}"),
    ("postman-key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    ("octopus-key", "API-", r"[A-Z0-9]{25,27}(?![\w-])", 3.2),
    ("infracost-key", "ico-", r"[A-Za-z0-9]{32}(?!\w)"),
    ("pulumi-token", "pul-", r"[a-f0-9]{40}"),
    ("prefect-key", "pnu_", r"[A-Za-z0-9]{36}(?!\w)"),
    ("launchdarkly-key", "sdk- mob- api-", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])"),
    # Vaults
    ("vault-token", "hvs. hvb. hvr.", r"[\w-]{24,300}"),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("1password-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{100,2048}={0,3}"),
    ("1password-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    ("age-key", "AGE-SECRET-KEY-1", r"[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("jwt", "eyJ", r"[\w-]{17,4096}\.eyJ[\w-]{10,8192}\.[\w-]{16,4096}"),
    # Models
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{20,255}", 3.5),
    ("anthropic-key", "sk-ant-", r"[a-z]{3,8}\d\d-[\w-]{32,255}", 3.5),
    ("openrouter-key", "sk-or-v1-", r"[a-f0-9]{64}"),
    ("langfuse-key", "sk-lf-", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("api-key", "sk-", r"(?=[A-Za-z]{0,48}\d)[A-Za-z0-9]{32,128}(?![\w-])", 3.2),
    ("hugging-face-token", "hf_ api_org_", r"[A-Za-z0-9]{34}(?!\w)"),
    ("replicate-token", "r8_", r"[A-Za-z0-9]{37}(?!\w)"),
    ("groq-key", "gsk_", r"[A-Za-z0-9]{52}(?!\w)"),
    ("perplexity-key", "pplx-", r"[A-Za-z0-9]{48}"),
    ("xai-key", "xai-", r"[A-Za-z0-9]{70,90}(?!\w)"),
    ("nvidia-key", "nvapi-", r"[\w-]{60,80}"),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_", r"[a-f0-9]{32}_[a-f0-9]{10}"),
    ("pinecone-key", "pcsk_", r"\w{60,80}"),
    ("tavily-key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{24,40}(?!\w)"),
    ("jina-key", "jina_", r"[a-f0-9]{32}[\w-]{20,40}"),
    # Chat, mail, telephone
    ("slack-token", "xoxb- xoxp- xoxe-", r"(?=[A-Za-z-]{0,64}\d)[\w%-]{15,255}", 2.5),
    ("slack-token", "xoxa- xoxc- xoxd- xoxo- xoxr- xoxs-", r"(?=[A-Za-z-]{0,64}\d)[\w%-]{15,255}", 2.5),
    ("slack-token", "xapp-", r"\d-[A-Z0-9]{8,16}-\d{8,16}-[a-f0-9]{32,64}"),
    ("sendgrid-key", "SG.", r"[\w-]{16,64}\.[\w-]{16,128}"),
    ("mailgun-key", "key-", r"[a-f0-9]{32}(?![\w-])"),
    ("brevo-key", "xkeysib- xsmtpsib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("resend-key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{24}(?!\w)"),
    ("twilio-key", " ".join("SK" + digit for digit in "0123456789abcdef"), r"[a-f0-9]{31}(?![\w-])"),
    ("courier-key", "pk_prod_ pk_test_", r"[A-Z0-9]{28}(?!\w)"),
    # Money and shops
    ("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_", r"[A-Za-z0-9]{16,255}"),
    ("webhook-secret", "whsec_", r"[A-Za-z0-9+/]{24,255}={0,2}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"[a-fA-F0-9]{32}"),
    ("square-token", "sq0atp- sq0csp- sq0idp-", r"[\w-]{22,60}"),
    ("square-token", "EAAA", r"[\w-]{60}(?![\w-])", 3.5),
    ("facebook-token", "EAAM EAAC EAAG EAAB", r"[A-Za-z0-9]{90,400}", 3.5),
    ("flutterwave-key", "FLWSECK_TEST- FLWSECK-", r"[a-h0-9]{12,32}(?:-X)?"),
    ("easypost-key", "EZAK EZTK", r"[A-Za-z0-9]{54}(?!\w)"),
    ("duffel-token", "duffel_test_ duffel_live_", r"[\w=-]{43}"),
    ("shippo-token", "shippo_live_ shippo_test_", r"[a-f0-9]{40}"),
    ("plaid-token", "access-sandbox- access-development- access-production-", r"[0-9a-f]{8}-[0-9a-f-]{27}"),
    # Data, monitoring, work
    ("databricks-token", "dapi", r"[a-f0-9]{32}(?:-\d)?(?!\w)"),
    ("supabase-token", "sbp_ sb_secret_", r"[A-Za-z0-9][\w-]{30,48}(?!\w)"),
    ("planetscale-token", "pscale_tkn_ pscale_oauth_ pscale_pw_", r"[\w=.-]{32,64}"),
    ("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    ("grafana-token", "glc_ eyJrIjoi", r"[A-Za-z0-9+/]{32,400}={0,3}"),
    ("new-relic-key", "NRAK- NRII- NRJS- NRRA- NRAL-", r"[A-Za-z0-9-]{19,42}"),
    ("sentry-token", "sntryu_", r"[a-f0-9]{64}"),
    ("sentry-token", "sntrys_eyJ", r"[A-Za-z0-9+/=_-]{60,500}"),
    ("dynatrace-token", "dt0c01. dt0s01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("honeycomb-key", "hcaik_ hcxik_", r"[a-z0-9]{58}"),
    ("posthog-key", "phx_", r"[A-Za-z0-9]{40,48}(?!\w)"),
    ("atlassian-token", "ATATT3 ATCTT3", r"[\w=-]{60,300}"),
    ("linear-key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40,64}"),
    ("notion-token", "ntn_", r"\d{11}[A-Za-z0-9]{35}"),
    ("notion-token", "secret_", r"[A-Za-z0-9]{43}(?!\w)", 3.5),
    ("figma-token", "figd_ figo_", r"[\w-]{38,60}"),
    ("contentful-token", "CFPAT-", r"[\w-]{43}"),
    ("typeform-token", "tfp_", r"[\w.-]{40,64}"),
    ("readme-key", "rdme_", r"[a-z0-9]{70}"),
    ("adobe-secret", "p8e- p8_", r"[A-Za-z0-9-]{32}(?![\w-])", 3.3),
    ("frameio-token", "fio-u-", r"[\w=-]{64}"),
    ("dropbox-token", "sl.u. sl.B", r"[\w-]{60,2048}"),
    ("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("harness-token", "pat. sat.", r"[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}(?!\w)"),
)  # fmt: skip

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
for _row in _TABLE:
    _format = Format(_row[0], _row[2].encode(), _row[3] if len(_row) > 3 else LOWEST_BITS)
    for _prefix in _row[1].encode().split():
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
