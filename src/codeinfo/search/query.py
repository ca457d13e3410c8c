"""Reading a query: its terms and their weights, the names and paths it mentions, and what kind of question it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import chain, pairwise, takewhile
from typing import NamedTuple

from msgspec import Struct

from codeinfo.model import FileKind, Intent
from codeinfo.tokens import identifier_terms, split_identifier, stem, terms

# Earlier words of a question matter more: "connection pooling in the async client" is about pooling.
POSITION_DECAY = 0.2
TASK_POSITION_DECAY = 0.05  # a title names its subject anywhere: "avoid a race when closing the connection pool"
REPORT_POSITION_DECAY = 0.03  # a bug report names its subject anywhere
REPORT_WORDS = 25  # content words from which a text is read as a report: a title, then details
TITLE_WEIGHT = 2.0  # the first line of a report says what it is about
QUOTED_WEIGHT = 1.5  # names in backticks are meant literally
MAX_TERMS = 300
MAX_NAMES = 200  # names and paths looked up: only a pasted file has more
MOST_ASKED = 3  # words: "adjust audio volume" asks for what does that, a task says more
CHANGE_VERB_WEIGHT = 0.3  # "Fix …", "Add …": the first word of a task
PROJECT_WORD_WEIGHT = 0.3  # the project's own name is in every file
PAIR_WEIGHT = 0.5  # two neighbouring words as one identifier
EXPANSION_WEIGHT = 0.25
MOST_ASKED_CHARS = 300  # of a first line that say what kind of question it is
MOST_QUOTED = 300  # characters of a quotation
SENTENCE = 4  # minimum words of one: fewer count only if a string of the code begins with them
LEAST_PART, MOST_PARTS = 3, 3  # words of a part of a message, and how many parts are looked for
STRING_MARKS = ("'", '"', "`")

_TOKEN = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#|/)[A-Za-z_$][\w$]*)*|\d+|[^\W\d_]+")
# Starts only where a run starts, and never backtracks: reading stays linear in a line of 100,000 letters.
_PATH = re.compile(r"(?<![\w.-])[\w.-]++(?:/[\w.-]++)*")
_FROM_HERE = re.compile(r"\A(?:\.{1,2}/)+")
_EXTENSION = re.compile(r"[^.]\.[A-Za-z]{1,5}\Z")
_ACRONYM = re.compile(r"\b([A-Z]{2,})(?:s|ed|ing)\b")  # `URLs`, `OCRed`: camel case would be `UR` and `Ls`
_QUALIFIER = re.compile(r"\.|::|->|#|/")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_BARE_NAME = re.compile(r"[`'\"]?[@$]?[A-Za-z_][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$!?]*)*(?:\(\))?[!?]?[`'\"]?\Z")


class Shape(StrEnum):
    """The form of a text: people ask for a name, ask a question, state a task, or report a fault."""

    NAME = "name"
    QUESTION = "question"
    TASK = "task"  # "Fix …", "http: allow …": the title of a commit or a ticket
    REPORT = "report"


class Quotation(NamedTuple):
    """Text that code may contain verbatim: an error message, a constant, a TODO. The index decides whether it does."""

    text: str
    is_guess: bool = False  # by its words alone: release notes contain tasks, and comments topics, word for word
    is_part: bool = False  # of a string of the code: of a message, between what was filled in; an option, a route

    def line_in(self, text: str) -> int | None:
        """The first line that has it, counted from 0."""
        start = text.lower().find(self.text.lower())
        return None if start < 0 else text.count("\n", 0, start)

    @property
    def is_name(self) -> bool:
        """Whether it may be the whole of a string, as the name of an environment variable is where it is read."""
        return (self.is_part and " " not in self.text) or _CONSTANT.fullmatch(self.text) is not None

    def is_string_in(self, text: str) -> bool:
        return re.search(rf"([\"'`])-{{0,2}}{re.escape(self.text)}\1", text) is not None

    def is_in(self, text: str, kind: str) -> bool:
        is_phrase = self.is_guess and len(self.text.split()) < SENTENCE
        if kind == FileKind.DOCS and (self.is_guess or self.is_part):
            return False
        if kind != FileKind.CODE and is_phrase:  # the title of a test, a translation
            return False
        if self.is_part and kind == FileKind.CONFIG and re.search(rf"(?m)^\s*{re.escape(self.text)}\s*[=:]", text):
            return True
        if self.is_part:
            is_option = "/" not in self.text and " " not in self.text  # a string begins with it
            before, after = (r"\s*-{0,2}", r"(?![\w-]|\.\w)") if is_option else (r"[^\"'`\n]*(?<!\w)", "")
            return re.search(rf"[\"'`]{before}{re.escape(self.text)}{after}", text, re.IGNORECASE) is not None
        if not self.is_guess:  # `GET /jobs` is not `GET /jobs/{id}`
            return re.search(re.escape(self.text) + r"(?!/\w|/\{)", text) is not None
        opening = STRING_MARKS if is_phrase else ("",)
        needle, text = self.text.lower(), text.lower()  # few people type a message's capital
        return any(mark + needle in text for mark in opening)


class Location(NamedTuple):
    """A line of a file that a text names: `src/app.py:42`."""

    path: str
    line: int


class Query(Struct, frozen=True):
    """A query, read once; every step of the pipeline takes what it needs from here."""

    text: str
    shape: Shape
    intent: Intent
    terms: dict[str, float]  # index term → weight
    words: tuple[str, ...]  # content words, lowercased, in order, for meaning and for stem matches
    names: tuple[str, ...]  # identifiers mentioned: candidates for definitions
    paths: tuple[str, ...]  # file names and paths mentioned
    locations: tuple[Location, ...]  # lines of files mentioned
    title: frozenset[str]  # index terms of the first line: what the text says about itself
    scope: frozenset[str]  # index terms of the part of the project it opens with, as in "http client: …"
    about_tests: bool
    wants_tests: bool  # not only as a topic: "tests of the client", not "the test client"
    about_docs: bool
    about_looks: bool  # it may ask for a stylesheet
    about_types: bool  # it may ask for what is declared rather than for what is done
    about_schema: bool  # of a database: it may ask for a migration
    asks_usage: bool  # "how do I …": a guide answers it as well as the code, and a test does not
    project_files: str  # pattern of the files that set up what it asks about: CI, images, supported versions…
    names_version: bool  # it names a version or an older edition
    quotations: tuple[Quotation, ...]  # the first that occurs counts
    route: str  # `POST /api/users/42`, if that is all of it
    is_english: bool  # as far as its letters tell

    @property
    def bare_name(self) -> bool:
        return self.intent is Intent.EXACT_NAME

    @property
    def names_owner(self) -> bool:
        return self.bare_name and len(self.names) > 1

    @property
    def updates_dependency(self) -> bool:
        return self.project_files == _LISTS_OF_VERSIONS

    @property
    def asks_entry_point(self) -> bool:
        """Its only name is then `main`."""
        return self.project_files == _ENTRY_POINTS

    @property
    def is_overview(self) -> bool:
        """Whether it asks what the project is."""
        return self.project_files == _PROJECT_FILES[0][1]

    def asks_for(self, qualified: str) -> bool:
        """Whether this definition is all that is asked for: `requests.Session.send` and `send` ask for Session.send."""
        if not self.bare_name or not self.names:
            return False
        owner = f".{self.names[-1]}" if self.names_owner else ""
        return f".{qualified}".lower().endswith(f"{owner}.{self.names[0]}".lower())

    def is_set_up_by(self, path: str) -> bool:
        """Whether it asks about the project, as in "where is the CI configured", and this file says so."""
        return bool(self.project_files) and re.search(self.project_files, path, re.IGNORECASE) is not None

    def line_in(self, path: str) -> int | None:
        """The last line of this file that it names, by at least the last two parts of a longer path."""
        path_parts = path.lower().split("/")[-2:]
        for location in reversed(self.locations):
            named_parts = location.path.lower().split("/")[-2:]
            shared = min(len(path_parts), len(named_parts))
            if path_parts[-shared:] == named_parts[-shared:]:
                return location.line
        return None

    def heaviest(self, most: int) -> dict[str, float]:
        """Of its terms."""
        return _heaviest(self.terms, most)


def read_query(text: str, *, project_words: frozenset[str] = frozenset(), intent: Intent | None = None) -> Query:
    """`project_words` are the stemmed words of the project's name. A query of stop words only is about these words."""
    paths = _paths(text)
    prose = _drop_boilerplate(text)
    bare = _is_bare_name(prose)
    tokens, title = (_TOKEN.findall(some if bare else _plain_words(some)) for some in (prose, _first_line(prose)))
    stop = frozenset() if bare or all(token.lower() in STOP_WORDS for token in tokens) else STOP_WORDS
    scope = _scope(_first_line(prose))
    opening = _first_line(prose)[:MOST_ASKED_CHARS]
    shape = _shape(_words(tokens, stop), title, scope, bare, _PREFIX.match(text) is not None)
    project_files = _project_files(opening) if shape is Shape.QUESTION else ""
    if shape in (Shape.TASK, Shape.QUESTION) and _UPDATE.search(opening):
        shape, project_files = Shape.TASK, _LISTS_OF_VERSIONS
    tokens, title = (_as_in_code(some, shape, project_files) for some in (tokens, title))
    if project_files == _ENTRY_POINTS:
        stop = frozenset()
    content = [token for token in tokens if token.lower() not in stop]
    words = _words(content, stop)
    title_words = {part for token in title for part in _parts(token)}
    about_tests = not _TEST_WORDS.isdisjoint(title_words)
    asks_usage = project_files not in ("", _ENTRY_POINTS, _LISTS_OF_VERSIONS) or _USAGE.match(opening) is not None
    weights = (
        _report_weights(content, prose, stop) if shape is Shape.REPORT else _question_weights(content, shape, prose)
    )
    return Query(
        text=prose,
        shape=shape,
        intent=intent or _classify(prose, title if shape is Shape.REPORT else tokens, bare),
        terms=_weigh_terms(weights, words, project_words, stop, bare, prose),
        words=words,
        names=_names(tokens, bare or project_files == _ENTRY_POINTS),
        paths=paths,
        locations=_locations(text) if paths else (),
        title=frozenset(term for token in title for piece in _pieces(token) for term in identifier_terms(piece)),
        scope=frozenset(terms(scope)),
        about_tests=about_tests,
        wants_tests=about_tests and not asks_usage and (bare or _asks_for_tests(_first_line(prose))),
        about_docs=not _DOCS_WORDS.isdisjoint(title_words),
        about_looks=not _LOOKS_WORDS.isdisjoint(title_words),
        about_types=bare or not _TYPE_WORDS.isdisjoint(title_words),
        about_schema=not _SCHEMA_WORDS.isdisjoint(title_words),
        asks_usage=asks_usage,
        project_files=project_files,
        names_version=_VERSION_WORD.search(_first_line(prose)) is not None,
        quotations=() if project_files else _quotations(prose),
        route=prose.strip() if _ROUTE.fullmatch(prose.strip()) else "",
        is_english=prose.isascii() or not any(letter.isalpha() and letter > "\u024f" for letter in prose),
    )


# Before the text: the key of a ticket, whose letters occur all over, or the kind of change.
_PREFIX = re.compile(
    r"\A\s*(?:\[[A-Z][A-Z0-9]{1,9}[- ]\d+\][\s:-]*"
    r"|(?:BENCH|BLD|BUG|CLN|DEP|DEV|ENH|FEATURE|FIX|MAINT|PERF|REF|REL|REV|SECURITY|STY|TST|TYP|UX): )"
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ADDRESS = re.compile(r"\b(?:https?|ftp|git|ssh)://[^\s<>()\[\]\"'`]+")
# Lines of a report written by its template or tools: check lists, trailers, lists of versions. Runs of blanks are
# possessive, so that reading stays linear.
_TEMPLATE_LINE = (  # compiled for the first text with several lines
    r"(?mi)^[ \t]*+(?:[-*][ \t]++\[[ xX]\].*"
    r"|(?:signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|reported-by|change-id|cc)[ \t]*+:.*"
    r"|(?:[-*][ \t]*+)?[\w .()/-]{1,40}[:=][ \t]*+v?\d+(?:\.\d+)+[\w.+-]*[ \t]*"
    r"|[\w.-]{1,40}==\d[\w.]*[ \t]*"
    r"|\#{1,6}[^\w\n]*+(?:what|steps|expected|actual|environment|version|versions|additional|describe|description|"
    r"reproduc|to reproduce|how|summary|screenshots?|context|logs?|output|checklist|changes|why|type|related|"
    r"motivation|are there|is it|bug report|system)\b.*)$"
)


def _drop_boilerplate(text: str) -> str:
    """A text without what says nothing about code: the key of a ticket, comments, addresses, and what issue templates
    and tools add. Only texts of several lines have comments and the like."""
    text = _PREFIX.sub("", text) or text
    if "\n" not in text.strip():
        return text
    prose = re.sub(_TEMPLATE_LINE, "", _ADDRESS.sub(" ", _COMMENT.sub(" ", text)))
    return prose if prose.strip() else text


_CONTRACTION = re.compile(r"(?<=[a-z])['’](?:t|s|re|ve|ll|d|m)(?!\w)", re.IGNORECASE)


def _plain_words(text: str) -> str:
    """Without what is no word: the end of "couldn't", whose rest is a stop word, and of "user's"."""
    return _CONTRACTION.sub("", _ACRONYM.sub(r"\1", text))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


# Verbs that code writes as one word with their particle, which is a stop word: "logs in" is `login`, not logging.
_PHRASAL_VERBS = {
    (form, particle): verb + particle
    for particle, verbs in {
        "in": "log opt sign",
        "out": "check log opt roll sign time",
        "up": "back look sign",
        "down": "shut tear",
        "off": "back hand log",
        "over": "fail roll",
        "back": "call fall roll",
    }.items()
    for verb in verbs.split()
    for stemmed in (verb, verb.removesuffix("e"), verb + verb[-1])
    for form in (verb, f"{verb}s", f"{stemmed}ed", f"{stemmed}ing")
}
_BEFORE_NOUN = frozenset("a an each every its the this".split())  # "the log in the cache folder"


def _join_phrasal_verbs(tokens: Sequence[str]) -> list[str]:
    """Join phrasal verbs the way code writes them: `login`, `timeout`. For questions only: commits and reports use
    them to describe what happens."""
    joined: list[str] = []
    word_before = ""
    for token in tokens:
        verb = _PHRASAL_VERBS.get((joined[-1].lower(), token.lower())) if joined else None
        if verb is None or word_before in _BEFORE_NOUN:
            word_before = joined[-1].lower() if joined else ""
            joined.append(token)
        else:
            joined[-1] = verb
    return joined


def _as_in_code(tokens: list[str], shape: Shape, project_files: str) -> list[str]:
    """The words of a query as code has them."""
    if project_files == _ENTRY_POINTS:  # whatever it is called in the question
        return ["main"]
    if project_files == _LISTS_OF_VERSIONS:
        return [token for token in tokens if not token.isdigit()]
    return _join_phrasal_verbs(tokens) if shape is Shape.QUESTION else tokens


_SCOPE = re.compile(r"(?P<path>[\w./*@-]+)(?:\((?P<inner>[^)]{1,60})\))?(?: (?P<second>[\w./-]+))?!?: ")


def _scope(title: str) -> str:
    """`http client: retry on 503` is about the client, `fix(router): …` about the router; `Fix: …` names no part."""
    match = _SCOPE.match(title)
    if match is None:
        return ""
    scope = match["inner"] or " ".join(filter(None, (match["path"], match["second"])))
    return "" if scope.lower() in CHANGE_VERBS else scope


def _shape(words: Sequence[str], title: Sequence[str], scope: str, bare: bool, has_prefix: bool) -> Shape:
    if bare:
        return Shape.NAME
    if len(words) > REPORT_WORDS:
        return Shape.REPORT
    return Shape.TASK if scope or has_prefix or _is_task([word.lower() for word in title]) else Shape.QUESTION


def _is_task(title: Sequence[str]) -> bool:
    """It opens with a change, or states a fault. Three words ask for what does that, but nobody asks for "fix …"."""
    if len(title) <= MOST_ASKED:
        return len(title) == MOST_ASKED and title[0] in _REPAIR_VERBS
    opening = title[0] in _OPENINGS or title[:2] == ["do", "not"]
    return opening or (title[0] not in _ASKING and not _FAULTS.isdisjoint(title) and _CLAUSES.isdisjoint(title))


def _classify(text: str, tokens: Sequence[str], bare: bool) -> Intent:
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


# Quoted within a sentence, alone as a constant or an error code, or a whole line that asks nothing.
_QUOTED_PART = re.compile(r"(?<!\w)(?:\"([^\"]+)\"|`([^`]+)`|'([^\"'`]+)')(?!\w)")
# What a program says, and hardly the name of a topic.
_MESSAGE_WORDS = frozenset(
    "already can't cannot could couldn't denied didn't doesn't don't exceeded exists expected expired fail failed "
    "forbidden found illegal incorrect invalid is isn't lost malformed mismatch missing must no not only refused "
    "required too unable unexpected unknown unsupported wasn't won't wrong".split()
)
_LABEL = re.compile(r"\b(?:says|saying|labell?ed|titled|reads|with the (?:text|label|title)) ([A-Z][\w' -]{0,200}\w)\Z")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{3,}")
_MARKED = re.compile(rf"{_CONSTANT.pattern}|(?:TODO|FIXME|HACK|XXX)\b.+")
_OPTION = re.compile(r"-{0,2}(?P<text>[a-z][a-z0-9]*(?:-[a-z0-9]+)+)")  # `maxmemory-policy`
# `repo.issues.new` or `Cart.Coupon.Wrong`, unless it is the name of a definition.
_KEY = re.compile(r"(?P<text>[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*){2,})")
_ROUTE = re.compile(
    r"(?:(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) )?(?P<path>(?:/[\w{}:.*~<>$@%+=\[\]-]+)+)/?(?:\?\S*)?"
)
_PRONOUNS = frozenset("how what where which who whose why".split())
_CLAUSES = _PRONOUNS | {"that", "whether"}  # "keys from a file that others cannot read" asks
_ASKING = _PRONOUNS | frozenset("when is are does do can should show find explain list".split())
_QUESTION = re.compile(rf"(?:{'|'.join(sorted(_ASKING))})\b|.*\?\Z", re.IGNORECASE)


def _quotations(text: str) -> tuple[Quotation, ...]:
    line = text.strip()
    if "\n" in line:
        return _pasted_lines(line)
    if len(line) > MOST_QUOTED:
        return ()
    for part in _QUOTED_PART.finditer(line):
        text = part[1] or part[2] or part[3]
        if " " in text.strip():
            return (Quotation(text), *_message_parts(line))
    if label := _LABEL.search(line):
        return (Quotation(label[1]),)
    if _MARKED.fullmatch(line):
        return (Quotation(line),)
    if route := _ROUTE.fullmatch(line):
        # A group of routes may have the first parts: `Group("/api")`, `nest("/api", …)`, `use("/api", …)`.
        ends = (route["path"][at.start() :] for at in re.finditer("/", route["path"]))
        whole = line.partition("?")[0]
        return (
            *([Quotation(whole)] if route["path"] != whole else []),
            *(Quotation(end, is_part=True) for end in ends),
        )
    if option_or_key := _OPTION.fullmatch(line) or _KEY.fullmatch(line):
        return (Quotation(option_or_key["text"], is_part=True),)
    if " " not in line or _QUESTION.match(line) or _is_topic(line):
        return ()
    return (Quotation(line, is_guess=True), *_message_parts(line))


def _is_topic(line: str) -> bool:
    """ "rate limit", "LSP client" and "weekly email report", but not "Permission denied" or "token has expired"."""
    words = line.split()
    is_pasted = re.match("[A-Z][a-z]", line) is not None
    return len(words) < SENTENCE and not is_pasted and _MESSAGE_WORDS.isdisjoint(map(str.lower, words))


_CODE_LINE = re.compile(
    r".*(?:[{}();:,=>\]]|\b(?:do|then|end))"
    r"|(?:return|raise|throw|yield|await|const|let|var|def|func|fn|break|continue|pass)\b.*|[\w.]+ [-+:]?= .*"
)
SNIPPET = 0.7  # of its lines look like code: then a text is pasted code, not a report about it
LEAST_PASTED = 20  # characters


def _pasted_lines(text: str) -> tuple[Quotation, ...]:
    """The longest lines of pasted code: where one of them is, the others are."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if sum(_CODE_LINE.fullmatch(line) is not None for line in lines) < SNIPPET * len(lines):
        return ()
    telling = sorted((line for line in dict.fromkeys(lines) if len(line) >= LEAST_PASTED), key=len, reverse=True)
    return tuple(Quotation(line[:MOST_QUOTED]) for line in telling[:MOST_PARTS])


# What a program fills into a message: numbers, paths, addresses, names in quotes or brackets.
_FILLED_IN = re.compile(r"\S*\d\S*|\S*[/\\@]\S*|[][,;:(){}<>=\"`|]+|'\S+'|\.(?:\s|\Z)")


def _message_parts(line: str) -> list[Quotation]:
    """The longest parts of a message that the code may have as they are: "timed out after 5001 ms" has "timed out
    after". No program says "Add support for"."""
    parts = (part.split() for part in _FILLED_IN.split(line))
    phrases = (part for part in parts if len(part) >= LEAST_PART and part[0].lower() not in _OPENINGS)
    long = sorted(map(" ".join, phrases), key=len, reverse=True)
    return [Quotation(part, is_part=True) for part in long[:MOST_PARTS] if part != line]


_TEST_WORDS = frozenset("test tests tested testing spec specs".split())
_WANTED_TESTS = re.compile(  # what happens "in tests" is a question about what helps those who write them
    r"(?<!\bin )(?<!\bfor )(?<!\bbetween )(?<!\bduring )"
    r"\b(?:tests|tested|specs of|(?:unit|integration|e2e|regression)[ -]test"
    r"|test(?:ing)? (?:for|of|that|case|suite))\b",
    re.IGNORECASE,
)
_TEST_RUNS = re.compile(  # what a test framework does, not a test
    r"(?:collect|discover|execut|filter|mark|order|parametri[sz]|(?:re-?)?run|schedul|select|shard|shuffl|skip|sort)\w*"
    r" (?:\w+ )?tests?\b",
    re.IGNORECASE,
)
_SCHEMA_WORDS = frozenset("migrate migrates migrated migration migrations schema column columns table tables".split())
_LOOKS_WORDS = frozenset(
    "animation background border button buttons color colors colour colours css dark font fonts icon icons layout "
    "margin mixin padding responsive sass scss style styled styles stylesheet stylesheets styling theme themes".split()
)
_TYPE_WORDS = frozenset(
    "declaration declarations declared dto dtos enum enums field fields interface interfaces protocol protocols "
    "signature signatures struct structs trait traits type types typing typings".split()
)
_DOCS_WORDS = frozenset("docs documentation readme changelog guide tutorial manual".split())
# "How do requests end", "how do we retry" and "where do I find …" ask for the code instead.
_USAGE = re.compile(
    r"(?:how to|is it possible|is there (?:a|any) way"
    r"|(?:can|could|may|should) (?:i|you|one)|do (?:i|you) (?:need|have) to"
    r"|(?:how|what|when|why|which)(?: \w+){0,2} (?:do|can|could|should|would|must) (?:i|you|one)"
    r"|what does (?:--|.*\b(?:option|setting|flag|parameter|mean\b))|what is the difference)\b",
    re.IGNORECASE,
)
# What people ask about a project rather than its code, and the files that say it.
_PLATFORMS = r"(?:python|node(?:\.js)?|rust|java|jdk|go(?:lang)?|ruby|php|elixir|kotlin|scala|swift|dotnet|\.net)"
_WHOLE = r"(?:project|repo|repository|code|code ?base|library|package|tool)"
_PROGRAM = r"(?:app|application|binary|cli|command|program|server|service)"
_ENTRY_POINTS = (
    r"\A(?!.*(?:test|example|xtask|tools?/|scripts?/|(?:\A|/)\.))(?:(?:.*/)?"
    r"(?:__main__\.py|manage\.py|main\.(?:c|cc|cpp|cs|dart|go|hs|java|js|kt|py|rb|rs|scala|swift|ts|zig)"
    r"|program\.cs|cmd/[\w-]+/[\w-]+\.go|\w*application\.(?:java|kt)|config\.ru)"
    r"|(?:src/)?(?:index|server|app|cli)\.(?:[cm]?js|ts|php|py))\Z"
)
_MANIFESTS = (
    r"pyproject\.toml|setup\.(?:cfg|py)\Z|package\.json|\.nvmrc|cargo\.toml|rust-toolchain|go\.mod|pom\.xml|build\.gradle"
    r"|requirements[^/]*\.txt|pnpm-workspace|libs\.versions\.toml|gemfile|gemspec|composer\.json|mix\.exs"
    r"|package\.swift|global\.json|directory\.(?:build|packages)\.props|\.(?:tool|python|ruby)-version"
)
_LISTS_OF_VERSIONS = (
    rf"{_MANIFESTS}|\.(?:gradle|gradle\.kts|sbt|csproj|props|zon)\Z"
    r"|(?:dependencies|versions)\.(?:scala|kt|kts|properties|toml)\Z"
)
# Of a dependency: "Bump netty from 4.2.12 to 4.2.14", "Upgrade to Hibernate ORM 7.2.24", "netty 4.2.14 (was 4.2.12)".
_UPDATE = re.compile(
    r"\A(?:\S+: )?(?:bump(?:ed|s)?|up(?:grad|dat)e[ds]?)\b.*"
    r"\b(?:to|from|version)(?: (?!to\b)[\w.-]+){0,3} v?\d+(?:\.\d|\Z)"
    r"|\d\.\d\S* \(was v?\d",
    re.IGNORECASE,
)
_PROJECT_FILES = (
    (
        rf"\b(?:what(?:'s| does| is)|how does|about|describe|explain|summari[sz]e|overview of) (?:this|the) {_WHOLE}"
        r"(?: do| work| about| for)?\W*\Z"
        r"|\b(?:architecture|project|high[- ]level) overview|overview of the architecture"
        rf"|how is (?:the |this )?{_WHOLE} (?:organi[sz]ed|structured|laid out)",
        r"\Areadme|architecture[^/]*\Z|overview[^/]*\Z",
    ),
    (
        rf"\A(?:(?:what|where)(?:'s| is) )?(?:the )?(?:main |{_PROGRAM} )?(?:entry ?points?|main (?:file|function))"
        rf"(?: (?:of|to|for|in) (?:this|the) (?:{_PROGRAM}|{_WHOLE}))?\W*\Z"
        rf"|\A(?:where|how) does (?:this|the) (?:{_PROGRAM}|{_WHOLE}|execution) (?:start|begin)\W*\Z",
        _ENTRY_POINTS,
    ),
    (
        r"\bci\b|continuous integration|github actions",
        r"\.(?:github/workflows|circleci|buildkite|woodpecker)/|\b(?:gitlab-ci|travis|azure-pipelines|appveyor)\b|(?:\A|/)ci/",
    ),
    (
        r"dockerfile|docker (?:image|build|compose)|container image",
        r"(?:docker|container)file|compose[^/]*\.ya?ml\Z",
    ),
    (
        r"\b(?:is|are|make|cut|publish|do|prepare) (?:an? |the |new )?releases?\b|release process"
        r"|\bpublished (?:to|on) (?:pypi|npm|maven|nuget|crates|hex|rubygems)",
        r"/workflows/[^/]*(?:release|publish|deploy)|(?:release|publish)[^/]*\.(?:sh|py|[cm]?js|ts|md)\Z|goreleaser",
    ),
    (
        r"\b(?:which|what) (?:linter|code style|formatter|static analysis)|\blinters? (?:run|are|is)\b",
        r"pre-commit|eslint|biome|prettier|golangci|ruff|flake8|rubocop|phpstan|rustfmt|clippy|checkstyle|detekt|swiftlint"
        r"|clang-(?:format|tidy)|editorconfig|(?:\A|[/_-])lint",
    ),
    (
        r"\b(?:what|which) (?:is the )?licen[sc]e\b|\bhow is (?:it|this|the (?:project|code)) licensed",
        r"(?:\A|/)(?:un)?licen[sc]e|(?:\A|/)copying",
    ),
    (
        # All of the question: "which Python versions can parse this source" asks what the code does.
        rf"\b(?:supported|minimum|required|oldest|which|what|tested)\b.* {_PLATFORMS} versions?"
        r"(?: (?:are|be|by|ci|do|does|for|here|in|is|it|library|minimum|need(?:ed|s)?|on|package|project|required?"
        r"|runs?|supported|supports?|target(?:ed|s)?|tested|the|this|to|used?|we|works?|you))*\W*\Z|\bmsrv\b"
        r"|\b(?:which|what) version of|\b(?:main|direct|runtime|third[- ]party) dependencies\b",
        _MANIFESTS,
    ),
)


def _asks_for_tests(line: str) -> bool:
    return _WANTED_TESTS.search(line) is not None and _TEST_RUNS.match(line) is None


def _project_files(line: str) -> str:
    patterns = (files for question, files in _PROJECT_FILES if re.search(question, line, re.IGNORECASE))
    return "|".join(patterns)


_VERSION_WORD = re.compile(r"\b(?:v\d+\w*|version|versions|legacy|deprecated|older?|alpha\d*|beta\d*)\b", re.IGNORECASE)
_CONFIG_WORDS = frozenset(
    "config configuration configure settings setting env environment option options flags".split()
)
_WIRING_WORDS = frozenset("register registration inject injection provider bootstrap wiring container module".split())
_FLOW_WORDS = frozenset("flow lifecycle pipeline sequence happens when after before through dispatch".split())


def _is_bare_name(text: str) -> bool:
    """One identifier and nothing else: a name to find, not a question."""
    return bool(_BARE_NAME.match(text.strip()))


class UsageQuestion(NamedTuple):
    """A question about the uses of a name: who calls it, where it is used, what a change of it affects."""

    name: str  # as it is written: `Session.send`, `src/app.py`
    asks: str  # uses, calls, imports, subtypes or, for uses that a change would affect, change
    is_code: bool  # it is written as code; another word counts where something here is called so

    @property
    def last_name(self) -> str:
        return re.split(r"\W+", self.name)[-1]


_KINDS_OF_NAMES = (
    "function|method|class|struct|enum|interface|trait|protocol|type|module|file|constant|variable|field|macro|hook|"
    "component"
)
_USED_NAME = (
    rf"(?P<article>(?:the|our|my) )?(?P<before>(?:{_KINDS_OF_NAMES}) )?"
    r"(?:[`'\"](?P<quoted>[^`'\"]+)[`'\"]|(?P<name>[\w$@]+(?:(?:\.|::|->|[#/-])[\w$@]+)*)(?P<called>\(\))?)"
    rf"(?P<after> (?:{_KINDS_OF_NAMES}))?"
)
_WHERE_TO_LOOK = (
    r"(?: (?:in|from|inside|within|across|outside|throughout|directly|anywhere|elsewhere|here)\b.*)?[\s.?!]*"
)
# Compiled for the first text with one of these words, since that takes some milliseconds; `re` caches them.
_ABOUT_USES = re.compile(
    r"\b(?:call|use[ds]?\b|usage|invo|refer|import|instant|implement|exten|depend|rel[iy]|renam|render|subclass|inherit|"
    r"chang|remov|delet|modif|mov|edit|drop|replac)",
    re.IGNORECASE,
)
_USES = (
    r"(?i)(?:(?:\w+ (?:me )?(?:all )?)?(?:who|what|which|where)(?: [\w-]+){0,4}? (?P<verb>calls?|invokes?|imports?"
    r"|uses?|references?|refers? to|instantiates?|implements?|extends?|depends? (?:up)?on|rel(?:y|ies) on|renders?"
    r"|subclasses|inherits? from) "
    r"|(?:.{0,60} )?(?P<places>callers?|users|uses|usages?|references|call sites?|implementations|implementors"
    r"|subclasses|dependents) (?:of|to|for) "
    r"|(?:(?:what|which)\b.{0,60}\b(?:break|affect|depend|(?P<vague>happen)|impact|fail|update|adapt|need)\w*\b"
    r".{0,40}?"
    r"|(?:.{0,40} )?(?:impact|effects?|consequences) of"
    r"|is it safe to|(?:can|may|could|should) (?:I|we)(?: safely)?)"
    r" (?P<change>chang|renam|remov|delet|modify|edit|refactor|mov|drop|replac)(?:e|ing)?(?: of| to)? "
    r"(?:the (?:signature|name|type|arguments|parameters) of )?)"
    rf"{_USED_NAME}{_WHERE_TO_LOOK}"
)
_IS_USED = (
    rf"(?i)(?:(?:and )?(?:where|by what|by whom|how often)(?:'s| is| are| do| gets?)?(?: we| you)?|is) {_USED_NAME}"
    r"(?: \w+ly| still| ever| being| even)? "
    r"(?P<verb>used?|call(?:ed)?|invoked?|import(?:ed)?|referenced|instantiated|rendered)"
    rf"{_WHERE_TO_LOOK}"
)
_VERBS = {"calls": ("call", "invo"), "imports": ("import",), "subtypes": ("impl", "ext", "sub", "inh")}
_MOST_IN_QUESTION = 200  # characters
_POINTING = frozenset("all any anything everything her him it its nothing something that them these this those".split())


def read_usage_question(text: str) -> UsageQuestion | None:
    """What "who calls `send`", "where is Session used" and "what breaks if I change Session.send" are about. Search
    finds only a few uses."""
    text = " ".join(text.split())
    if len(text) > _MOST_IN_QUESTION or not _ABOUT_USES.search(text):
        return None
    match = re.fullmatch(_USES, text) or re.fullmatch(_IS_USED, text)
    if match is None:
        return None
    parts = match.groupdict()
    name, verb = parts["quoted"] or parts["name"], (parts["verb"] or parts.get("places") or "").lower()
    asks = next((asks for asks, verbs in _VERBS.items() if verb.startswith(verbs)), "uses")
    if parts.get("change"):
        asks = "change"
    is_written = parts["quoted"] or parts["called"] or re.search(r"\A[A-Z]|[_$@./:#>]|[a-z][A-Z]", name)
    # Of a plain word after an article it is not known whether it is a name: "who uses the cache".
    asks_for_code = asks in ("calls", "imports") or (asks == "change" and not parts["vague"])
    is_name = is_written or parts["before"] or parts["after"] or (asks_for_code and not parts["article"])
    name = name.removesuffix("()")
    return UsageQuestion(name, asks, bool(is_written)) if is_name and name.lower() not in _POINTING else None


_RUNS_TESTS = (
    r"(?i)(?:how (?:do|can|should|must|to)|(?:what|which) (?:is the )?command)\b.{0,30}\b(?:runs?|execute|start) "
    r"(?:[\w']+ ){0,3}tests?\W*"
    r"|how are (?:[\w']+ ){0,2}tests (?:run|executed|started)\W*|(?:what is the |the )?test command\W*"
)


def asks_test_command(text: str) -> bool:
    """A manifest says how tests are run, rarely a passage of a document."""
    return len(text) <= _MOST_IN_QUESTION and "test" in text and re.fullmatch(_RUNS_TESTS, text.strip()) is not None


_TYPES = "class|struct|enum|interface|trait|protocol|type|record|union|macro"
_DEFINITION = re.compile(
    r"(?:(?:show(?: me)?|find|open|what (?:is|are)|where(?:'s| is| are)) )?(?:the )?"
    r"(?:(?P<part>fields|members|variants|values|definition|declaration|constructor|signature|source) of (?:the )?)?"
    rf"(?:(?P<kind>{_TYPES}|function|method) )?"
    r"(?P<mark>`?)(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)(?:\(\)|!)?`?"
    rf"(?: (?P<after>{_TYPES}|function|method))?(?: (?:is )?(?P<defined>defined|declared))?\W*",
    re.IGNORECASE,
)


def extract_definition_target(text: str) -> str:
    """The name in a question for a definition, or "": "fields of struct Document", "where is `send` defined". A name
    that could be an ordinary word counts only with its kind: "the Mode enum", not "the Mode"."""
    match = _DEFINITION.fullmatch(text.strip())
    if match is None or match["name"] == text.strip():
        return ""
    name = match["name"]
    is_code = bool(match["mark"]) or "_" in name.strip("_") or _QUALIFIER.search(name) or re.search("[a-z][A-Z]", name)
    kinds = (match[part] or "" for part in ("kind", "after"))
    is_type = match["part"] or match["defined"] or any(kind.lower() in _TYPES.split("|") for kind in kinds)
    return name if is_code or (is_type and name[0].isupper() and not name.isupper()) else ""


def _names(tokens: list[str], bare: bool, owners: bool = True) -> tuple[str, ...]:
    """Identifiers to look up as definitions. In a sentence only those that look like code or a proper noun, and with
    `owners` the types that others are members of: `Session` of `Session.send`, but not `self` of `self.pool`."""
    names: list[str] = []
    for at, token in enumerate(tokens):
        *qualifiers, last = _pieces(token)
        looks_like_code = qualifiers or "_" in token.strip("_") or _CAMEL.search(token)
        proper = at > 0 and token[:1].isupper()
        if bare or looks_like_code or proper:
            names.append(last)
            names.extend(owner for owner in qualifiers if bare or (owners and owner[:1].isupper()))
    return tuple(dict.fromkeys(name for name in names if len(name) > 1))[:MAX_NAMES]


def _paths(text: str) -> tuple[str, ...]:
    """Paths and file names as in an index: without `./` and the full stop of a sentence."""
    paths = (_FROM_HERE.sub("", match).rstrip(".") for match in _PATH.findall(text))
    return tuple(dict.fromkeys(path for path in paths if _is_path(path)))[:MAX_NAMES]


_AT_LINE = re.compile(r"(?::|#L|\(|\"?,? (?:on |at )?lines? )(\d{1,7})")


def _locations(text: str) -> tuple[Location, ...]:
    """`src/app.py:42`, `app.py#L42`, `File "app.py", line 42`, `app.ts(42,5)`."""
    locations = []
    for match in _PATH.finditer(text):
        if (line := _AT_LINE.match(text, match.end())) and _is_path(match[0]):
            locations.append(Location(_FROM_HERE.sub("", match[0]), int(line[1])))
    return tuple(dict.fromkeys(locations))[:MAX_NAMES]


def _is_path(text: str) -> bool:
    return "/" in text or (bool(_EXTENSION.search(text)) and not text[0].isdigit())


def _words(tokens: Sequence[str], stop: frozenset[str]) -> tuple[str, ...]:
    parts = (part for token in tokens if token.lower() not in stop for part in _parts(token))
    return tuple(part for part in parts if part not in stop)


def _parts(token: str) -> list[str]:
    return [part for piece in _pieces(token) for part in split_identifier(piece)]


def _pieces(token: str) -> tuple[str, ...]:
    """`Session.send` → Session, send."""
    return tuple(_QUALIFIER.split(token))


def _question_weights(content: Sequence[str], shape: Shape, text: str) -> list[tuple[str, float]]:
    """Earlier words weigh more. The verb of a task weighs little, and its position goes to the next word. A question
    also asks for the verb of an irregular form: `send` for "sent"."""
    is_task = shape is Shape.TASK
    verbs = _leading_verbs(content, _OPENINGS) if is_task else 0
    decay = TASK_POSITION_DECAY if is_task else POSITION_DECAY
    weighted = [
        (token, CHANGE_VERB_WEIGHT if position < verbs else 1 / (1 + decay * (position - verbs)))
        for position, token in enumerate(content)
    ]
    forms = set() if is_task else {form.lower() for form in _IRREGULAR_FORM.findall(text)}
    return weighted + [(_IRREGULAR[token.lower()], weight) for token, weight in weighted if token.lower() in forms]


def _leading_verbs(content: Sequence[str], openings: frozenset[str]) -> int:
    """How many words say only that something changes, as in "Fix: add …"; at least two others must remain."""
    is_verb = (token.lower() in (CHANGE_VERBS if at else openings) for at, token in enumerate(content[:-2]))
    return sum(takewhile(bool, is_verb))


_QUOTED = re.compile(r"`([^`\n]{1,200})`")


def _report_weights(content: Sequence[str], text: str, stop: frozenset[str]) -> list[tuple[str, float]]:
    """The words of the title count twice, names in backticks half as much again, later ones a little less."""
    quoted = {token for quoted_text in _QUOTED.findall(text) for token in _TOKEN.findall(quoted_text)}
    title = sum(1 for token in _TOKEN.findall(_first_line(text)) if token.lower() not in stop)
    verbs = _leading_verbs(content[:title], CHANGE_VERBS)
    return [
        (
            token,
            (CHANGE_VERB_WEIGHT if position < verbs else TITLE_WEIGHT if position < title else 1.0)
            * (QUOTED_WEIGHT if token in quoted else 1.0)
            / (1 + REPORT_POSITION_DECAY * position),
        )
        for position, token in enumerate(content)
    ]


def _weigh_terms(
    weighted: Sequence[tuple[str, float]],
    words: tuple[str, ...],
    project_words: frozenset[str],
    stop: frozenset[str],
    bare: bool,
    text: str,
) -> dict[str, float]:
    weights: dict[str, float] = {}
    for token, weight in weighted:
        for term in chain.from_iterable(map(identifier_terms, _pieces(token))):
            scale = PROJECT_WORD_WEIGHT if term in project_words else 1.0
            if term not in stop:
                weights[term] = max(weights.get(term, 0.0), weight * scale)
    if not bare:
        _add_pairs(weights, words)
        _add_compounds(weights, text)
        _add_expansions(weights, words)
    return _heaviest(weights, MAX_TERMS)


def _heaviest(weights: dict[str, float], most: int) -> dict[str, float]:
    return weights if len(weights) <= most else dict(sorted(weights.items(), key=lambda item: -item[1])[:most])


def _add_pairs(weights: dict[str, float], words: tuple[str, ...]) -> None:
    for first, second in pairwise(words):
        weight = min(weights.get(stem(first), 0.0), weights.get(stem(second), 0.0))
        weights.setdefault(first + second, PAIR_WEIGHT * weight)


_COMPOUND = re.compile(r"(?<![\w-])[A-Za-z]+(?:-[A-Za-z]+)+(?![\w-])")


def _add_compounds(weights: dict[str, float], text: str) -> None:
    """`v-for` and `in-memory` as one word, as in `vFor`: a part of them is a stop word elsewhere."""
    for compound in _COMPOUND.findall(text):
        parts = compound.lower().split("-")
        if not STOP_WORDS.isdisjoint(parts):
            weights.setdefault("".join(parts), max(weights.get(stem(part), 0.0) for part in parts))


def _add_expansions(weights: dict[str, float], words: tuple[str, ...]) -> None:
    for word in words:
        for synonym in EXPANSIONS.get(word, ()):
            weights.setdefault(stem(synonym), EXPANSION_WEIGHT * weights.get(stem(word), 0.0))


STOP_WORDS = frozenset(
    """
    a about above across actually after all also am an and any are as at be because been before being below
    between both but by can cannot code codebase could defined defines definition definitions did do does doing
    done down during each either else etc every everything few file files find for from further get gets getting
    give given gives go goes going had handle handled handles handling happen happening happens has have having
    he her here hers him his how however i if implement implementation implementations implemented implementing
    implements in inside into is it its itself just know let like locate logic look looking made main make makes
    making many may me might mine more most much must my need needed needs no nor not now of off on once one
    only onto or other others our out over own part parts place please possible related responsible same see
    seem she should show since so some somewhere such than that the their theirs them then there these they
    thing things this those through thus to together too toward under until up upon us use used uses using
    various very via want was way ways we well were what whatever when where whether which while who whom whose
    why will with within without work working works would yet you your yours
    aren couldn didn doesn don hadn hasn haven isn shouldn wasn weren won wouldn
    """.split()  # the last line: what is left of "isn't" and the like
)

# What a task or a commit begins with: it says that something is to change, not what. `add` must not find `add.go`.
CHANGE_VERBS = frozenset(  # and what opens the subjects of commits in their place
    """
    chore feat feature perf pr
    add added adding adds adjust allow allowed allows avoid avoids bump change changed changes clarify clean cleanup
    convert correct correctly create deprecate disable drop dropped enable enhance ensure expose extend extract fix
    fixed fixes fixing force guard handle hide implement implemented improve improved improves increase introduce
    introduced keep limit make makes mark merge migrate modify move moved optimize optimized pass prefer prevent
    prevents print properly provide reduce refactor refactored reject remove removed removes removing rename renamed
    reorder replace replaced report require reset resolve restore restrict return revert rework reworked rewrite set
    simplify skip sort speed split stop support supports switch tweak unify update updated updates upgrade use used
    validate wait warn wrap
    """.split()
)
_OPENINGS = CHANGE_VERBS | frozenset(  # these as the first word only: "report check warnings" is about checks
    """
    accept adapt address also always apply assume automatically bypass check clamp consider decouple default defer
    discourage document don downgrade eliminate enforce exclude expand explicitly fall fully harden honor honour ignore
    increment initial leave maintain mention no normalise normalize only override preserve propagate raise re
    reimplement respect reuse rollback specify standardize streamline suppress tidy tolerate treat unsubscribe weaken
    """.split()
)
_REPAIR_VERBS = frozenset("avoid cleanup fix fixed fixes fixing improve improved refactor simplify".split())
# What the title of a report or a commit says of the code, and hardly anybody who asks where something is.
_FAULTS = frozenset(
    "aren broken bug cannot correctly crash crashes didn doesn fail failed failing fails failure fix fixes improvement "
    "improvements incorrect incorrectly instead isn longer minor missing must never not properly redundant refactoring "
    "regression should tweak tweaks unnecessary unused wasn won wrong".split()
)

# Pairs that a question says one way and code the other. Few on purpose: each costs precision.
_SYNONYMS = (
    ("authentication", "auth"),
    ("login", "signin"),
    ("signin", "login"),
    ("logout", "signout"),
    ("signup", "register"),
    ("authorization", "auth"),
    ("configuration", "config"),
    ("settings", "config"),
    ("database", "db"),
    ("directory", "dir"),
    ("folder", "dir"),
    ("environment", "env"),
    ("error", "exception"),
    ("errors", "exception"),
    ("delete", "remove"),
    ("initialize", "init"),
    ("initialization", "init"),
    ("message", "msg"),
    ("parameters", "params"),
    ("arguments", "args"),
    ("asynchronous", "async"),
    ("synchronization", "sync"),
    ("serialization", "serialize"),
    ("serializing", "encode"),
    ("deserialization", "deserialize"),
    ("deserializing", "decode"),
    ("encoding", "serialize"),
    ("decoding", "deserialize"),
    ("temporary", "temp"),
    ("utilities", "util"),
    ("utilities", "helpers"),
    ("helpers", "util"),
    ("regular", "regex"),
    ("concurrent", "parallel"),
    ("documentation", "docs"),
    ("repository", "repo"),
    ("generic", "template"),
    ("statistics", "stats"),
    ("specification", "spec"),
    ("command", "cmd"),
    ("connection", "conn"),
    ("context", "ctx"),
    ("request", "req"),
    ("response", "resp"),
    ("string", "str"),
    ("memory", "alloc"),
    ("allocation", "alloc"),
    ("previous", "prev"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("calculate", "compute"),
    ("attribute", "attr"),
    ("attributes", "attr"),
    ("property", "prop"),
    ("properties", "props"),
    ("resolve", "solve"),
    ("resolved", "solve"),
)

EXPANSIONS: dict[str, tuple[str, ...]] = {}
for _word, _other in _SYNONYMS:
    EXPANSIONS[_word] = (*EXPANSIONS.get(_word, ()), _other)
SYNONYMS = {stem(word): frozenset(map(stem, others)) for word, others in EXPANSIONS.items()}  # as index terms

# Forms that no stemmer knows: a question asks where a mail is sent, and code says `send`.
_IRREGULAR = {
    "bought": "buy",
    "bound": "bind",
    "broken": "break",
    "brought": "bring",
    "caught": "catch",
    "chosen": "choose",
    "drawn": "draw",
    "driven": "drive",
    "frozen": "freeze",
    "held": "hold",
    "hidden": "hide",
    "kept": "keep",
    "lost": "lose",
    "paid": "pay",
    "ran": "run",
    "sent": "send",
    "sold": "sell",
    "spent": "spend",
    "taken": "take",
    "thrown": "throw",
    "written": "write",
}
_IRREGULAR_FORM = re.compile(rf"(?<![\w-])(?:{'|'.join(_IRREGULAR)})(?![\w-])", re.IGNORECASE)  # not "server-sent"
