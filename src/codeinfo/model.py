"""Values that packages exchange: Structs and enums, and their JSON."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from functools import partial
from os import PathLike, fspath
from threading import Lock
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace


class FileKind(StrEnum):
    """The purpose of a file; decides chunking, filters and penalties."""

    CODE = "code"
    DOCS = "docs"
    CONFIG = "config"
    TEST = "tests"


# --- sources -------------------------------------------------------------------------------------------------------


class SourceFile(NamedTuple):
    """A file that belongs to the index, as the walk found it. `path` is relative to the root, with forward slashes."""

    path: str
    size: int
    mtime_ns: int


# From a tuple of its values, in a quarter of the time: walks and indexes have tens of thousands.
source_file: Callable[[tuple[str, int, int]], SourceFile] = partial(tuple.__new__, SourceFile)

UNREADABLE = "unreadable"  # the rule of what is there and cannot be looked at


class Skip(Struct, frozen=True):
    """A file or folder that was left out, and the rule that decided."""

    path: str
    rule: str
    detail: str = ""
    matters: bool = False  # True: the user should know (unreadable, too large, parser gave up)


class Walk(Struct, frozen=True):
    """Everything the walk decided about one root."""

    files: tuple[SourceFile, ...]
    skipped: tuple[Skip, ...]


class Text(Struct, frozen=True):
    """The decoded content of a file, with secrets masked; `notes` says what was replaced or masked."""

    content: str
    encoding: str
    notes: tuple[str, ...] = ()


# --- parse ---------------------------------------------------------------------------------------------------------


class Chunk(Struct, frozen=True):
    """A piece of one file: whole definitions where they fit. Lines are 1-based and inclusive."""

    start_line: int
    end_line: int
    text: str
    kind: str  # "function", "class", "module", "section", "text", …
    symbol: str = ""  # qualified name of the definition the chunk belongs to, "" outside any
    breadcrumb: str = ""  # "Class > method(signature)" or "Title > Section": embedded, never stored as text


class SymbolKind(Struct, frozen=True):
    """Properties of a kind of definition; variables, constants, fields and the like have none."""

    is_type: bool = False  # has members reached through it or its values
    is_container: bool = False  # definitions inside belong to it
    is_callable: bool = False
    ranks_as_type: bool = False  # probably what a search for its name wants

    @property
    def is_scope(self) -> bool:
        return self.is_container or self.is_callable


PLAIN_KIND = SymbolKind()
SYMBOL_KINDS: Mapping[str, SymbolKind] = {
    **dict.fromkeys(
        ("class", "interface", "struct", "enum", "trait", "protocol", "type", "object", "module"),
        SymbolKind(is_type=True, is_container=True, ranks_as_type=True),
    ),
    **dict.fromkeys(("impl", "extension"), SymbolKind(is_type=True, is_container=True)),
    **dict.fromkeys(("concept", "instance"), SymbolKind(is_container=True)),
    "namespace": SymbolKind(is_container=True, ranks_as_type=True),
    **dict.fromkeys(("function", "method", "macro", "component"), SymbolKind(is_callable=True)),
}


def symbol_kind(name: str) -> SymbolKind:
    return SYMBOL_KINDS.get(name, PLAIN_KIND)


MAX_SIGNATURE = 200  # characters of a definition's header; the rest is left out


class Definition(Struct, frozen=True):
    name: str
    qualified: str
    kind: str  # "class", "interface", "struct", "enum", "trait", "type", "function", "method", "constant", "module", …
    signature: str
    doc: str  # first line of the doc comment
    start_line: int
    end_line: int
    exported: bool = True
    bases: tuple[str, ...] = ()  # what it extends or implements, by name

    @property
    def is_type(self) -> bool:
        return symbol_kind(self.kind).is_type

    @property
    def is_function(self) -> bool:
        return self.kind in ("function", "method")

    @property
    def owner(self) -> str:
        """The qualified name of what it is a member of, or is defined in; "" at the top of a file."""
        return self.qualified.rpartition(".")[0]

    def continues(self, previous: Definition) -> bool:
        """Whether it is another equation of the function above, or belongs to the signature above."""
        is_same = previous.qualified == self.qualified and previous.kind == self.kind
        return is_same and symbol_kind(self.kind).is_callable


class Import(Struct, frozen=True):
    module: str  # as written, without quotes
    line: int
    names: tuple[str, ...] = ()  # what is imported from it ("*" for all); empty if the module itself is bound
    alias: str = ""
    reexport: bool = False
    # When it takes effect: "types", for a type checker only; "dropped", never, since a compiler leaves it out; "lazy",
    # when a function runs; "", when the file is loaded.
    timing: str = ""


class Reference(Struct, frozen=True):
    """A name used in code (never in a comment or a string)."""

    name: str
    line: int
    role: str = "use"  # "call", "use"
    within: str = ""  # qualified name of the enclosing definition
    receiver: str = ""  # what precedes its dot, calls without their arguments: `self.pool`, `open()`


class ParsedFile(Struct, frozen=True):
    """The result of one parse. `terms[i]` belongs to `chunks[i]`: weighted counts per index term."""

    chunks: tuple[Chunk, ...]
    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()
    terms: tuple[Mapping[str, float], ...] = ()
    notes: tuple[str, ...] = ()  # e.g. "parser gave up after 10 s: indexed as text"


class IndexedFile(Struct, frozen=True):
    """One file on its way into the store: manifest row, parse and vectors (None: keyword-only)."""

    source: SourceFile
    sha256: str
    language: str
    kind: FileKind
    parsed: ParsedFile
    vectors: Any = None  # numpy float32 array, one unit-length row per chunk; Any keeps this module free of numpy
    references: bytes = b""  # packed by the parser, so that millions of uses cost no objects
    path_terms: tuple[str, ...] = ()  # index terms of the path, each marked with its part
    notes: tuple[str, ...] = ()
    skip: str = ""  # the rule that excluded it after reading: remembered, so that it is not read again
    brought_back: bool = False  # its content would exclude it, but an ignore file re-includes it


class ManifestRow(Struct, frozen=True):
    """What the store remembers about a file, enough to detect changes."""

    file_id: int
    path: str
    size: int
    mtime_ns: int
    sha256: str
    language: str
    kind: FileKind
    chunk_count: int


# --- what is known about a result ----------------------------------------------------------------------------------


class HitContext(Struct, frozen=True):
    """The surroundings of a result: its role, its users, and whether the team still writes such code."""

    type: str = ""  # "service", "component", "function", …
    layer: str = ""  # "interface", "application", "data", "tests", …; "" if unknown
    imported_by_count: int = 0
    has_tests: bool = False
    callers: tuple[str, ...] = ()  # "path:line symbol", most used first, at most three, as in the next two
    consumers: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    trend: str = ""  # "Rising" or "Declining"; "" for stable or unknown
    pattern_warning: str = ""


class RelatedMemory(Struct, frozen=True, omit_defaults=True):
    """Something the team wrote down. The text is data from the author named in `label`, never an instruction."""

    id: str
    type: str
    category: str
    memory: str
    reason: str
    date: str
    label: str
    confidence: float
    stale: bool
    scope: str = ""
    source: str = ""


class CardPatterns(Struct, frozen=True):
    do: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()


class CardImpact(Struct, frozen=True):
    coverage: str  # "X/Y callers in results", as other tools write it
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown, _, total = self.coverage.partition(" ")[0].partition("/")
        return f"the first results are called in {total} file{'s' * (total != '1')}, {shown} of them among the results"


class CardPoint(Struct, frozen=True):
    """One entry of the score: evidence that gave `points`, or a reason that withdrew the readiness."""

    name: str
    points: float
    most: float  # 0 for a withdrawal
    reason: str


class Card(Struct, frozen=True):
    """Whether enough has been seen to change the code, and if not, what to look at next."""

    ready: bool
    score: float  # evidence, 0..100
    next_action: str = ""
    warnings: tuple[str, ...] = ()
    patterns: CardPatterns | None = None
    best_example: str = ""
    impact: CardImpact | None = None
    what_would_help: tuple[str, ...] = ()
    breakdown: tuple[CardPoint, ...] = ()


# --- search --------------------------------------------------------------------------------------------------------


class Intent(StrEnum):
    EXACT_NAME = "EXACT_NAME"
    CONCEPTUAL = "CONCEPTUAL"
    FLOW = "FLOW"
    CONFIG = "CONFIG"
    WIRING = "WIRING"


class Distance(Struct, frozen=True):
    """A distance with its metric; lower is closer."""

    value: float
    metric: str = "squared_l2"


class Signal(Struct, frozen=True):
    """One named contribution to a score. `effect` is added, or multiplied if `factor` is True."""

    name: str
    value: float
    effect: float
    factor: bool = False


class Hit(Struct, frozen=True):
    """One result: the best chunk of a file, with the reasons for its rank.

    `start_line` to `end_line` is the chunk; `text` is the part of it that answers, from `text_line` on.
    """

    root: str
    path: str
    start_line: int
    end_line: int
    text: str
    text_line: int
    score: float
    chunk_id: int
    language: str = ""
    kind: FileKind = FileKind.CODE
    symbol: str = ""
    symbol_kind: str = ""
    breadcrumb: str = ""
    distance: Distance | None = None
    signals: tuple[Signal, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)  # channel → rank in that channel, 1-based
    more: tuple[tuple[int, int], ...] = ()  # line spans of further good chunks of the same file
    context: HitContext | None = None


class Passage(Struct, frozen=True):
    """Lines of a file as evidence for an answer, with what the steps on the way to it found out about them."""

    root: str
    path: str
    start_line: int
    end_line: int
    text: str
    chunk_id: str = ""  # "" for a part of a chunk
    symbol: str = ""
    section: str = ""  # of a document: its page, sheet, slide or heading
    distance: Distance | None = None
    score: float = 0.0  # of the search, relative to its best result
    grade: float | None = None  # by a model; None: not graded
    number: int = 0  # by which the answer cites it; 0 until it is shown
    more: tuple[tuple[int, int], ...] = ()  # line spans of further good chunks of the same file

    @property
    def place(self) -> str:
        lines = f"{self.path}:{self.start_line}-{self.end_line}"
        return f"{lines} ({self.section})" if self.section else lines

    def cut(self, chars: int) -> Passage:
        """Its first characters, and the lines that they are of."""
        if len(self.text) <= chars:
            return self
        text = self.text[:chars]
        return replace(self, text=text, end_line=min(self.end_line, self.start_line + text.count("\n")))

    def as_dropped(self, rule: str, detail: str) -> Dropped:
        return Dropped(self.path, self.start_line, self.end_line, rule, detail)


class Dropped(Struct, frozen=True):
    """A candidate that is not in the result, and the rule that dropped it."""

    path: str
    start_line: int
    end_line: int
    rule: str
    detail: str = ""
    root: str = ""


class Quality(Struct, frozen=True):
    status: str  # "ok" or "low_confidence"
    confidence: float
    reasons: tuple[str, ...] = ()
    hint: str = ""
    reranker_status: str = "off"  # or "applied: MODEL", "not needed: …", "failed: …", "timed out after N ms"


TEAM = "//"  # prefix of a team's projects, which are not folders of this machine


def shown_root(root: object) -> str:
    """A project as people name it: a folder, or github.com/owner/name."""
    return str(root).removeprefix(TEAM)


class Step(Struct, frozen=True):
    """An operation to run: fields of its request that a command line takes by position, and others by name."""

    operation: str
    arguments: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def command(self) -> str:
        from shlex import quote

        words = ["codeinfo", self.operation, *map(quote, self.arguments)]
        for name, value in self.options.items():
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(quote(str(value)))
        return f"`{' '.join(words)}`"


def to_run(operation: str, *arguments: str, **options: Any) -> Step:
    return Step(operation, arguments, options)


class NextStep(str):
    """Advice that names operations. As text these are commands; each shell can phrase them in its own way."""

    parts: tuple[str | Step, ...]

    def __new__(cls, *parts: str | Step) -> Self:
        flat: list[str | Step] = []
        for part in parts:
            flat += part.parts if isinstance(part, NextStep) else (part,)
        advice = super().__new__(cls, "".join(part.command() if isinstance(part, Step) else part for part in flat))
        advice.parts = tuple(flat)
        return advice


class Note(NextStep):
    """A remark for people with a code for programs; in JSON it is its text."""

    code: str

    def __new__(cls, text: str, code: str) -> Self:
        note = super().__new__(cls, text)
        note.code = code
        return note


def phrase(text: str, write: Callable[[Step], str]) -> str:
    """A text phrased for a shell; `write` formats one operation."""
    parts = text.parts if isinstance(text, NextStep) else (str(text),)
    return "".join(write(part) if isinstance(part, Step) else part for part in parts)


class Reflects(Struct, frozen=True):
    """The state of the project that a reply is based on. Lines of files in `changed` may differ from those on disk."""

    generation: int  # of the index
    commit: str = ""  # "" without git
    dirty: bool | None = None  # indexed files differ from the commit; None: without git, or too many to compare
    behind: str = ""  # the commit that is checked out, if the index has yet to catch up
    changed: tuple[str, ...] = ()  # files in this reply that changed since they were indexed


class CollectionState(Struct, frozen=True):
    """The state of a collection of documents that a reply is based on."""

    collection: str
    generation: int  # of the index
    commit: str = ""  # of the fetched repository, or the one around the folder
    dirty: bool | None = None  # as for a project
    fetched_at: str = ""  # when a copy was last compared with its source; "" if documents are read in place
    changed: tuple[str, ...] = ()  # documents in this reply that changed since they were indexed


INDEXING = "INDEXING"  # note code: the results cover only part of the project, or miss its newest changes

NO_TRENDS = "NO_TRENDS"  # note code: a command would find the trends of patterns


class SearchResult(Struct, frozen=True):
    query: str
    intent: Intent
    hits: tuple[Hit, ...]
    quality: Quality
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()  # what is degraded, each with its fix
    suggestions: tuple[str, ...] = ()  # spellings that occur here, for a query whose words do not
    took_ms: float = 0.0
    preflight: Card | None = None  # for a search before a change
    memories: tuple[RelatedMemory, ...] = ()  # at most three, related to the query or the results


PASSAGE = "passage"  # the kind of a document's chunks
CRUMB = " > "
_IMAGE = re.compile(
    r"!\[[^\]]*\](?:\([^)]*(?:\)|\Z)|\[[^\]]*\])?|</?(?:a|br|center|div|h\d|img|p|picture|source|span|sub|sup)\b[^<>]*>"
)
_LINK = re.compile(r"\[([^\]]*)(?:\]\([^)]*(?:\)|\Z)|\Z)")


def plain_headings(breadcrumb: str) -> str:
    """Headings as they are read, without the badges, links and tags of `# Name [![build](…)](…)`; long ones are cut
    anywhere."""
    titles = (_LINK.sub(r"\1", _IMAGE.sub("", title)) for title in breadcrumb.split(CRUMB))
    return CRUMB.join(" ".join(title.split()) for title in titles)


def passage_text(chunk: Chunk) -> str:
    """The text a passage is embedded as."""
    title, _, section = chunk.breadcrumb.partition(CRUMB)
    where = f"Document: {title}\nSection: {section}" if section else f"Document: {title}"
    return f"{where}\n\n{chunk.text}"


def split_lines(text: str) -> list[str]:
    """The lines of a text as git and editors count them: a form feed ends none, nor does a separator of Unicode."""
    return text.removesuffix("\n").split("\n") if text else []


def quantity(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `12 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def iso_time(seconds: float | None = None) -> str:
    """A moment in UTC, now by default: `2026-01-31T12:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


# --- JSON ------------------------------------------------------------------------------------------------------------

_USER = re.compile(r"(?<!ssh)://[^/]*@|(?<=ssh)(://[^/:@]*):[^/]*@")


def hide_user(address: str) -> str:
    """An address without user and password, either of which may be a key; the user of ssh is none."""
    return _USER.sub(lambda match: f"{match[1]}@" if match[1] else "://", address)


def hide_keys(address: str) -> str:
    """An address as people see it: what follows its path may be a key as well."""
    path, *query = re.split(r"[?#]", hide_user(address), maxsplit=1)
    return f"{path}?…" if query else path


PLAIN = frozenset({str, int, float, bool, type(None)})  # native to JSON: by far most of what is written

# Characters that act on a terminal or change reading order: DEL, C1 controls, line and paragraph separators,
# bidirectional controls. JSON itself escapes only those below 32.
CONTROLS = (*range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
Decoded = TypeVar("Decoded")
Filled = TypeVar("Filled", bound=Struct)
_WORD_START = re.compile(r"_([a-z])")
_ESCAPED = {code: f"\\u{code:04x}" for code in CONTROLS}


def jsonable(value: object) -> Any:
    """Structs, enums, paths and containers of them as plain dicts, lists and scalars: keys are field names
    (snake_case), enums their values, tuples lists. Every shell writes results this way."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Struct):
        return {name: jsonable(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, PathLike):
        return fspath(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def fill(kind: type[Filled], source: object, /, **more: Any) -> Filled:
    """A value with the same-named fields of another, and more."""
    names = [name for name in kind.__struct_fields__ if name not in more and hasattr(source, name)]
    return kind(**{name: getattr(source, name) for name in names}, **more)


# msgspec inspects a type when it is first needed, and crashes if two threads make it do so at the same moment: threads
# take decoders from here instead of calling `decode` with a type.
_JSON_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_MSGPACK_DECODERS: dict[Any, msgspec.msgpack.Decoder[Any]] = {}
_DECODERS_LOCK = Lock()


def json_decoder(kind: type[Decoded]) -> msgspec.json.Decoder[Decoded]:
    with _DECODERS_LOCK:
        return _JSON_DECODERS.get(kind) or _JSON_DECODERS.setdefault(kind, msgspec.json.Decoder(kind))


def msgpack_decoder(kind: type[Decoded]) -> msgspec.msgpack.Decoder[Decoded]:
    with _DECODERS_LOCK:
        return _MSGPACK_DECODERS.get(kind) or _MSGPACK_DECODERS.setdefault(kind, msgspec.msgpack.Decoder(kind))


def convert(value: object, kind: type[Decoded], *, strict: bool = True) -> Decoded:
    """As `msgspec.convert`, in any thread."""
    json_decoder(kind)
    return msgspec.convert(value, kind, strict=strict)


def decode_stored(data: bytes | None, kind: type[Decoded]) -> Decoded | None:
    """Decode stored JSON; None if there is none, or if it is damaged or from another version."""
    try:
        return json_decoder(kind).decode(data or b"")
    except msgspec.DecodeError:
        return None


def camel(name: str) -> str:
    return _WORD_START.sub(lambda match: match[1].upper(), name)


def camel_json(value: object) -> Any:
    """As `jsonable`, with keys in camel case, as clients of other servers expect them."""
    return _camel_keys(jsonable(value))


def _camel_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {camel(key): _camel_keys(item) for key, item in value.items()}
    return [_camel_keys(item) for item in value] if isinstance(value, list) else value


def dumps(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON text; raises ValueError on NaN or infinity rather than write invalid JSON."""
    return dumps_plain(jsonable(value), indent=indent, ascii_only=ascii_only)


def dumps_plain(plain: Any, *, indent: int | None = None, ascii_only: bool = False, compact: bool = False) -> str:
    """The JSON text of what `jsonable` returned; `ascii_only` for streams that accept nothing else, `compact` for
    models, which pay for spaces."""
    marks = (",", ":") if compact else None
    text = json.dumps(plain, ensure_ascii=ascii_only, allow_nan=False, indent=indent, separators=marks)
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    try:
        text.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8 can only be written as an escape
        text = json.dumps(plain, allow_nan=False, indent=indent, separators=marks)
    # Only strings contain such characters, so an escape means the same to any parser.
    return text.translate(_ESCAPED)
