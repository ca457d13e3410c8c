"""Packed references: how the uses of names in a file, and what names are bound to, are written and read.

Uses outnumber everything else in a file, so they travel and rest packed, as text of four parts, compressed:

    when imports take effect (line and a letter each), on one line;
    the qualified names of the definitions that are scopes, on one line;
    one row for each line of code: its number, position of the enclosing definition, the uses;
    behind an empty line, what names are bound to.

A use is written as in the code: `self.pool.get(` uses `pool` of `self` and calls `get` of `self.pool`. What stands
before a `|` is only there to say whose the rest is: `open_pool()|.get(`. A row says everything by itself, so that one
name can be looked up without reading the rows before it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, pairwise, takewhile
from typing import NamedTuple

from msgspec import Struct

from codeinfo.cache import TokenCache, group_by_key
from codeinfo.languages import GRAMMARS
from codeinfo.model import Import, Reference
from codeinfo.tokens import blank_signs, gaps_for

_BEFORE, _AFTER = "\t .", (" ", "\n", "(", ".", "")
# What stands before names in strings: whole paths, the names of exports, and what needs no file.
LITERAL, MENTIONED = '""', "''"
_SELF = frozenset({"self", "this", "cls", "super", "Self", "static", "parent", "base"})
_QUOTED = re.compile(rf"{LITERAL}\|\.(\w+(?:\.\w+)+)(?![^ \n])")
_NUMBER = "-0123456789"  # how those of lines and scopes begin
_FIRST_BYTES = 1000  # of the text, which hold the import timings


class UsedNames(Mapping[str, int]):
    """Every name used in a file, with its first line. The names are known at once; a line is looked up on demand,
    which is rare. Lines in `without`, such as imports, are no uses. If names behind a dot are `owned`, they are known
    with the dot alone and with what stands before it: `.New` and `errors.New`."""

    def __init__(self, packed: bytes, without: Collection[int] = (), *, owned: bool = False) -> None:
        self._text = unpack(packed)[0]
        self._without = frozenset(without)
        _, _, rows = self._text.partition("\n")
        if self._without:
            rows = _rows_without(rows, self._without)
        rows = rows.replace("(", " ")
        uses = set((rows if owned else rows.replace(".", " ").replace("|", " ")).split())
        names = {use for use in uses if use[0] not in _NUMBER}
        if owned:
            plain = {name for name in names if "." not in name and "|" not in name}
            names = plain.union(*map(_owned_words, names - plain))
        self._words = frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name in self._words

    def __getitem__(self, name: str) -> int:
        """The first line with the name alone, otherwise with something before it."""
        last = name.rpartition(".")[2]
        references = [use for use in references_to(self._text, last) if use.line not in self._without]
        if not references:
            raise KeyError(name)
        return min(references, key=lambda use: (bool(use.receiver), use.line)).line

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)


def _owned_words(use: str) -> Iterator[str]:
    """`a.b.c` → `a`, `.b`, `a.b`, `.c`, `b.c`; a name behind a dot with nothing before it is a reference: `::a`."""
    owner, _, path = use.rpartition("|")
    first, *names = path.split(".")
    if first or owner in ("", _UNKNOWN_RECEIVER):
        yield first or names[0]
    for before, name in pairwise((first, *names)):
        yield from (f".{name}", f"{before}.{name}")


def _rows_without(rows: str, lines: Collection[int]) -> str:
    """Only the rows up to the last of those lines are examined: imports stand at the beginning."""
    others, start, last = [], 0, max(lines)
    while start < len(rows):
        end = rows.find("\n", start)
        end = len(rows) if end < 0 else end
        number = int(rows[start : rows.index("\t", start)])
        if number > last:
            break
        if number not in lines:
            others.append(rows[start:end])
        start = end + 1
    return "\n".join((*others, rows[start:]))


def unpack(packed: bytes) -> tuple[str, str]:
    """The uses, by the names of their scopes, and what names are bound to."""
    if not packed:
        return "", ""
    _, _, text = zlib.decompress(packed).decode("utf-8").partition("\n")
    header, _, rest = text.partition("\n")
    if rest.startswith("\n"):  # nothing is used
        return header, rest[1:]
    rows, _, bound = rest.partition("\n\n")
    return f"{header}\n{rows.removesuffix(chr(10))}" if rows else header, bound


def declared_types(packed: bytes) -> Iterator[str]:
    """The types of variables, parameters, fields and results, as written."""
    return (row.rpartition("\t:")[2] for row in unpack(packed)[1].split("\n") if "\t:" in row)


def import_timing(packed: bytes) -> dict[int, str]:
    """When the imports on some lines take effect: `lazy`, for `types` only, or never, since they are `dropped`. All
    others do when the file is loaded."""
    if not packed:
        return {}
    first, _, _ = zlib.decompressobj().decompress(packed, _FIRST_BYTES).partition(b"\n")
    marked = first.decode("utf-8", "replace").split()
    names = {"l": "lazy", "t": "types", "d": "dropped"}
    return {int(mark[:-1]): names[mark[-1]] for mark in marked if mark[:-1].isdecimal() and mark[-1] in names}


def dotted_names(text: str, imports: Collection[int]) -> dict[str, int]:
    """Names of capitalised parts, as Elixir writes its modules, each with its first line. Names on a line of
    `imports` belong to the import: `alias Shop.Store.{Price, Tax}` does not use `Shop.Store`."""
    first_lines: dict[str, int] = {}
    for line, use in _uses_outside(text, imports):
        is_code = not use.startswith((f"{LITERAL}|", f"{MENTIONED}|"))
        parts = use.rpartition("|")[2].strip(".").split(".") if is_code else []
        capitalised = list(takewhile(lambda part: part[:1].isupper() and not part.endswith("("), parts))
        if capitalised:
            first_lines.setdefault(".".join(capitalised), line)
    return first_lines


def called_names(text: str) -> dict[str, int]:
    """Functions that are called without a receiver, each with its first line."""
    first_lines: dict[str, int] = {}
    for line, use in _uses_outside(text, ()):
        if use.endswith("(") and use[0].islower() and "." not in use:
            first_lines.setdefault(use[:-1], line)
    return first_lines


def path_imports(text: str, imports: Collection[int]) -> Iterator[Import]:
    """Paths to other modules, each as the equivalent import: `grep::printer::Sink::new()` takes `Sink` from
    `grep::printer`, or what follows the last module if nothing is capitalised. A path that starts with `self` may be
    a field; lines of `imports` are covered already."""
    first_lines: dict[tuple[str, str], int] = {}
    for line, use in _uses_outside(text, imports):
        parts = use.rstrip("(").split(".")
        if len(parts) > 1 and parts[0] and parts[0] != "self" and "|" not in use and "(" not in use[:-1]:
            last = next((at for at, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
            if last:
                first_lines.setdefault(("::".join(parts[:last]), parts[last]), line)
    return (Import(module, line, (name,)) for (module, name), line in first_lines.items())


def quoted_names(text: str) -> Iterator[tuple[str, int]]:
    """Names with dots that stand in strings, each with its line."""
    for quoted in _QUOTED.finditer(text):
        row = text.rfind("\n", 0, quoted.start()) + 1
        yield quoted[1], int(text[row : text.index("\t", row)])


def plain_names(bound: str) -> Iterator[tuple[str, int]]:
    """Names that are bound to nothing, or only to a type, each with its line, as parameters are."""
    for row in bound.split("\n") if bound else ():
        line, _, _, name, text = row.split("\t", 4)
        if text[:1] in ("", ":"):
            yield name, int(line)


def _uses_outside(text: str, lines: Collection[int]) -> Iterator[tuple[int, str]]:
    """Every use as written, with its line, except on some lines."""
    for row in text.split("\n")[1:]:
        line, _, uses = row.split("\t", 2)
        if int(line) not in lines:
            yield from ((int(line), use) for use in uses.split(" "))


def all_references(text: str) -> Iterator[Reference]:
    """One reference per name, receiver and line."""
    header, *rows = text.split("\n")
    qualified = header.split("\t")
    for row in rows:
        line, position, uses = row.split("\t")
        within = qualified[int(position)] if position != "-1" else ""
        roles: dict[tuple[str, str], str] = {}
        for use in uses.split(" "):
            receiver, _, chain = use.rpartition("|")
            names = chain.lstrip(".").split(".")
            for name in names:
                plain = name.removesuffix("(")
                if name != plain or roles.get((plain, receiver)) is None:
                    roles[plain, receiver] = "call" if name != plain else "use"
                receiver = f"{receiver}.{plain}" if receiver else plain
        for (name, receiver), role in roles.items():
            if len(name) > 1 and name not in _SELF and name[0] != "$":
                yield Reference(name, int(line), role, within, receiver)


def references_to(text: str, name: str) -> list[Reference]:
    """The references to one name in an unpacked text, one per line and receiver; rows without it are skipped."""
    references: dict[tuple[int, str], Reference] = {}
    body = text.find("\n")
    at = text.find(name, body) if name and body >= 0 else -1  # an empty name would be found everywhere, endlessly
    qualified: list[str] = []
    while at >= 0:
        end = at + len(name)
        if text[at - 1] not in _BEFORE or text[end : end + 1] not in _AFTER:
            at = text.find(name, end)
            continue
        row = text.rfind("\n", 0, at) + 1
        start = max(text.rfind(" ", row, at), text.rfind("\t", row, at)) + 1
        stop = min(place for place in (text.find(" ", end), text.find("\n", end), len(text)) if place >= 0)
        if text.find("|", end, stop) < 0:  # otherwise it only says whose the rest is
            line, position, _ = text[row:at].split("\t", 2)
            qualified = qualified or text[:body].split("\t")
            within = qualified[int(position)] if position != "-1" else ""
            receiver = text[start:at].replace("|", "").rstrip(".")
            role = "call" if text[end : end + 1] == "(" else "use"
            key = (int(line), receiver)
            if key not in references or role == "call":
                references[key] = Reference(name, int(line), role, within, receiver)
        at = text.find(name, end)
    return list(references.values())


# --- what names are bound to -----------------------------------------------------------------------------------------


RETURNS, EMBEDS, UNDERLYING, DECORATOR, FIELD = "()", "*", "=", "@", "this."


class Row(NamedTuple):
    """What a name is bound to, as found when the file was parsed. The mark says what `text` is:

        `:` a type          `=` a value         `@` the elements of a value      `^` what `with` makes of a value
        `~` what a method passes to the function it is called with
        nothing: only bound                     `!` the name of an outer scope

    The name is `this.x` for a field, `()` for what a function returns, `*` for a type whose members another one has,
    `=` for what a type is an alias of, and `@` for a decorator.
    """

    line: int
    end: int  # 0: as long as the scope
    scope: str
    name: str
    mark: str
    text: str


class Bindings(Struct, frozen=True, dict=True):
    """The rows of one file, read on first use."""

    packed: str
    header: str  # the names of the scopes

    @cached_property
    def _by_name(self) -> dict[str, list[Row]]:
        scopes = self.header.split("\t")
        by_name: dict[str, list[Row]] = {}
        for written in self.packed.split("\n") if self.packed else ():
            line, end, position, name, text = written.split("\t", 4)
            scope = scopes[int(position)] if position != "-1" else ""
            row = Row(int(line), int(end) if end else 0, scope, name, text[:1], text[1:])
            by_name.setdefault(name, []).append(row)
        return by_name

    def of(self, name: str) -> Sequence[Row]:
        return self._by_name.get(name, ())

    def names_holding(self, type_name: str) -> set[str]:
        """The names of what is declared with a type, or is made by calling it."""
        made = re.compile(rf"(?:new )?{re.escape(type_name)}\(")
        declared = re.compile(rf"\b{re.escape(type_name)}\b")
        return {
            name.removeprefix(FIELD)
            for name, rows in self._by_name.items()
            if name not in (RETURNS, EMBEDS, UNDERLYING, DECORATOR)
            and any((declared.search if row.mark == ":" else made.match)(row.text) for row in rows)
        }

    def other_names(self, name: str) -> set[str]:
        """What else a file calls a definition of its top level: `export { cart as basket }`, `{ add: cart }`."""
        rows = (row for named in self._by_name.values() for row in named if not row.scope and row.mark == "=")
        return {row.name for row in rows if row.text == name} - {name, RETURNS, EMBEDS, UNDERLYING, DECORATOR}

    def inside(self, name: str, scope: str) -> list[Row]:
        return [row for row in self.of(name) if row.scope == scope]

    def visible(self, name: str, line: int, scopes: Sequence[str], *, before: bool = False) -> list[Row]:
        """The rows of a name in the innermost of some scopes and blocks that has any. `scopes`: innermost first.
        `before`: what a multi-line block binds on its first line is not yet valid there."""
        rows = [row for row in self.of(name) if not (before and row.line == line < row.end)]
        best: list[Row] = []
        nearest: tuple[int, int] | None = None
        for row in rows:
            if row.end:
                if not row.line <= line <= row.end:
                    continue
                depth = scopes.index(row.scope) if row.scope in scopes else len(scopes)
                key = (depth, row.end - row.line)
            elif row.scope and row.scope in scopes:
                key = (scopes.index(row.scope), 1_000_000_000)
            else:
                continue
            if nearest is None or key < nearest:
                best, nearest = [row], key
            elif key[0] == nearest[0] and (key == nearest or row.end == best[0].end):
                best.append(row)
        return best


# --- types and values as they are written ---------------------------------------------------------------------------

Links = list[tuple[str, str]]  # (name, what it is called or indexed with)

_SHARED = re.compile(r"(?:Arc|Rc|Box|Mutex|RwLock|RefCell)::(?:clone|new|pin)\((.*)\)", re.DOTALL)  # the value in it
_PREFIX = re.compile(r"(?:await|new|const|yield from|yield|move|mut|ref|not|typeof|go|try[?!]?)\s+|[&*]+|<-\s*")
_POSTFIX = re.compile(r"(?:[?!]*(?:\.|::|->|\\))\s*([\w$]+)")
_NAME = re.compile(r"[$@]?[^\W\d][\w$]*")
_CASTS = re.compile(r"\s+(?:as[?!]?|satisfies)\s+")
_DELEGATE = re.compile(r"by\s+(?:lazy(?:\([^)]*\))?\s*\{\s*(.*?)\s*\}|(.*))", re.DOTALL)
# What a container of dependencies gives: `get<Cart>()`.
_FROM_CONTAINER = re.compile(
    r"(?:[\w.]+\.)?(?:get|inject|injectLazy|koinInject|(?:hilt|koin)?[vV]iewModel|resolve|Get(?:Required)?Service)"
    r"<([\w.]+)>\s*\(.*\)",
    re.DOTALL,
)
_FILLED = re.compile(r"[(,]\s*(?:\{\}|\[\]) as ([\w$.<>\[\]]+)\s*[,)]")
_EITHER = re.compile(r"\s+(?:or|\|\||\?\?)\s+")
_CONDITION = re.compile(r"\s+if\s+.*?\s+else\s+")
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
# Wrapper types that stand for one of their arguments, with its position.
_WRAPPERS = {
    **dict.fromkeys(
        "Optional Awaitable Promise PromiseLike Readonly Partial Required Type type Annotated Final ClassVar "
        "NotRequired Box Arc Rc Option Result RefCell Mutex RwLock Cow Ref Signal WritableSignal Task ValueTask Lazy "
        "Future CompletableFuture unique_ptr shared_ptr NonNullable Awaited Unpack ContextManager "
        "QSharedPointer QPointer QScopedPointer "
        "AbstractContextManager AsyncContextManager AbstractAsyncContextManager Pin Weak MutexGuard "
        "Omit Pick Exclude InstanceType".split(),
        0,
    ),
    "Coroutine": -1,
}
_TYPE_PREFIX = re.compile(
    r"(?:(?:mut|dyn|impl|any|some|inout|const|readonly|static|virtual|inline|unsafe|volatile|struct|type|typeof|final)\s+|'\w+\s+|[*&?]|\.\.\.)+"
)
_INNER_ANNOTATION = re.compile(r"\.@\w+\s+")  # `Cart.@Nullable Item` of Java
_ELEMENTS = re.compile(r"(?:\[\d*\]|chan\s+|<-chan\s+)")


def value_links(text: str) -> list[Links]:
    """The chains of names a value may come from; none if it is computed in another way."""
    text = text.strip()
    pieces = [piece for part in _EITHER.split(text) for piece in _CONDITION.split(part)]
    if len(pieces) > 1:
        return [links for piece in pieces for links in value_links(piece)]
    while shared := _SHARED.fullmatch(text):
        text = shared[1]
    while prefix := _PREFIX.match(text):
        text = text[prefix.end() :]
    if text.startswith("("):
        end = find_closing(text, 0)
        inner = text[1 : end - 1]
        cast = _CASTS.split(inner)
        if end >= len(text):
            return value_links(inner) if len(cast) == 1 else []
        first = value_links(inner) if len(cast) == 1 else []
        rest = _links(text, end, []) if len(first) == 1 else None
        return [[*first[0], *rest]] if rest is not None else []
    name = _NAME.match(text)
    if name is None:
        return []
    links = _links(text, name.end(), [(name.group(), "")])
    return [links] if links is not None else []


def cast_type(text: str) -> str:
    """The type a value is cast to: `value as Type`, also in brackets with something to fall back on. It says nothing of
    what is called on the value, `(value as Type).call()`, but an empty object is filled: `merge({} as Type, …)`. A
    container of dependencies gives what it is asked for."""
    return next(filter(None, map(_cast_of, _EITHER.split(text))), "")


def delegated_value(text: str) -> str:
    """What a property of Kotlin is, given what gets it: `by lazy { Cart() }`, `by inject<Cart>()`."""
    delegate = _DELEGATE.fullmatch(text)
    return (delegate[1] or delegate[2]) if delegate else text


def _cast_of(text: str) -> str:
    text = text.strip()
    if made := _FROM_CONTAINER.fullmatch(text):
        return made[1]
    while text.startswith("(") and find_closing(text, 0) >= len(text):
        text = text[1:-1].strip()
    parts = _CASTS.split(text)
    before = text[: -len(parts[-1])] if parts[-1] else text
    if sum(map(before.count, "([{")) > sum(map(before.count, ")]}")):
        filled = _FILLED.search(text)
        return filled[1] if filled else ""
    return parts[-1] if len(parts) > 1 and parts[-1] != "const" else ""


def _links(text: str, at: int, links: Links) -> Links | None:
    """The rest of a chain, up to the end of the text; None if an operator follows."""
    while at < len(text):
        sign = text[at]
        if sign in "!?" and text[at + 1 : at + 2] not in (".", ":", "-"):
            at += 1
        elif sign in "([{<":
            end = find_closing(text, at)
            if sign == "<" and text[end : end + 1] not in ("(", ""):
                return None
            if sign != "<" and links:
                inside = text[at + 1 : end - 1].strip()
                links[-1] = (links[-1][0], f"{links[-1][1]}{sign}{inside if sign == '(' else ''}{_CLOSING[sign]}")
            at = end
        elif member := _POSTFIX.match(text, at):
            links.append((member.group(1), ""))
            at = member.end()
        elif sign in " ;,":
            rest = text[at:].lstrip(" ;,")
            if rest.startswith((".", "?.", "{", "::", "->")) or not rest:
                at += len(text[at:]) - len(rest)
            else:
                return None
        else:
            return None
    return links


def find_closing(text: str, at: int) -> int:
    """The position after the bracket that closes the one given; the end of the text if it was cut off."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] in "([{" or (text[place] == "<" and text[at] == "<"):
            depth += 1
        elif text[place] in ")]}" or (text[place] == ">" and text[at] == "<" and text[place - 1] != "="):
            depth -= 1
            if depth <= 0:
                return place + 1
    return len(text)


class WrittenType(NamedTuple):
    """A type as written: its name, or its element type for a container."""

    name: str = ""
    element: str = ""  # of a container: the type of its elements
    arguments: tuple[str, ...] = ()


def written_types(text: str) -> list[WrittenType]:
    """The types a written one stands for, without wrappers."""
    text = _INNER_ANNOTATION.sub(".", text.strip().strip("'\"").strip())
    while prefix := _TYPE_PREFIX.match(text):
        text = text[prefix.end() :]
    if text.startswith("("):  # several results: the first one counts
        inner = split_outside_brackets(text[1 : find_closing(text, 0) - 1], ",")
        first = inner[0].strip() if inner else ""
        behind = text[find_closing(text, 0) :]
        if behind.startswith("[]"):
            return [WrittenType(element=first)]
        is_named = len(inner) > 1 or " *" in first
        return [] if behind else written_types(first.rpartition(" ")[2] if is_named else first)
    nothing = ("None", "null", "undefined", "")
    parts = [part for part in split_outside_brackets(text, "|&") if part.strip() not in nothing]
    if len(parts) > 1:
        return [written for part in parts for written in written_types(part)]
    text = parts[0].strip() if parts else ""
    if held := _ELEMENTS.match(text):
        return [WrittenType(element=text[held.end() :])]
    if text.startswith("map["):
        return [WrittenType(element=text[find_closing(text, 3) :])]
    if text.endswith("[]"):
        return [WrittenType(element=text[:-2])]
    if text.startswith("[") and text.endswith("]"):  # `[Item]` and `[Key: Item]` of Swift, `[Item; 4]` of Rust
        return [WrittenType(element=split_outside_brackets(text[1:-1].partition(";")[0], ":")[-1].strip())]
    name = re.match(r"[^\W\d][\w$]*(?:(?:\.|::|\\)[\w$]+)*", text.lstrip("\\"))
    if name is None:
        return []
    rest, arguments = text.lstrip("\\")[name.end() :], tuple[str, ...]()
    if rest[:1] in ("[", "<"):
        inside = rest[1 : find_closing(rest, 0) - 1]
        arguments = tuple(part.strip() for part in split_outside_brackets(inside, ","))
    last = name.group().replace("::", ".").rpartition(".")[2]
    if arguments and last in _WRAPPERS:
        return written_types(arguments[_WRAPPERS[last]])
    return [WrittenType(name.group(), "", arguments)]


def split_outside_brackets(text: str, signs: str) -> list[str]:
    """Split at signs outside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign in "([{<":
            depth += 1
        elif sign in ")]}" or (sign == ">" and text[at - 1] not in "=-"):
            depth -= 1
        elif not depth and sign in signs:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


# --- packing ---------------------------------------------------------------------------------------------------------

_FASTEST = 1
_NAMES_PER_LINE = 2000  # a minified line does not need more
# `new Cart { … }`, `new Cart;`. What begins with its text is found in a tenth of the time.
_BARE_NEW = re.compile(r"new (?<=\bnew )[\w$.]++(?=\s*[{;),\]]|\s*$)", re.MULTILINE)
_QUOTED_NAME = re.compile(r"`(\w+(?:[-+*/!?&:]\w*)+)`(\(?)")  # of Scala, Kotlin and Swift: `Content-Type`
_TYPED_CALL = re.compile(r"([\w$]+)<[\w$\s,.|&\[\]<>'\"]*>\(")
_MAX_RECEIVER = 120  # characters
_MAX_BRACKETS = 3000  # characters between two brackets
_OPENING_OF = {")": "(", "]": "[", "}": "{"}
_WORD = re.compile(r"[\w$@]+")
_SIMPLE = re.compile(r"(?:(?:await|new|yield)\s+|[&*])?([\w$.]+(?:\([\w$.]*\))?)(?:\{.*\})?", re.DOTALL)
_LOADED = re.compile(r"(?:await\s+)?(import\(|require\()\s*[\"'`].*", re.DOTALL)
_MADE = re.compile(r"new\s+([\w$.]+)(?:\(.*\))?", re.DOTALL)
_BEFORE_VALUES = frozenset({"return", "await", "yield", "throw", "echo", "case", "else"})  # none of these is a function
_UNKNOWN_RECEIVER = "?"
_BEHIND = re.compile(r"[)\]}\"'`]\.")  # a member of something that is not a plain name


_TOKENS_KNOWN = 50_000  # per language, some 10 MB


class _Words(NamedTuple):
    """How the uses of a language are found."""

    uses: re.Pattern[str]  # whole names, never parts of one: `point.x` is a use of `point` alone
    ignored: frozenset[str]  # keywords, with and without a bracket
    # The uses in each token of a text with `gaps`; empty in place of a keyword, which is no use but takes a position.
    of_token: TokenCache[str]
    gaps: bytes  # placeholders for signs that no use can cross


@lru_cache(maxsize=64)
def _words_of(language: str) -> _Words:
    word, keywords = GRAMMARS[language].word, GRAMMARS[language].keywords
    uses = re.compile(rf"\.?(?:[\w$]++\.)*{word}\(?")
    ignored = keywords | {f"{keyword}(" for keyword in keywords}
    of_token = TokenCache(lambda token: ("" if use in ignored else use for use in uses.findall(token)), _TOKENS_KNOWN)
    return _Words(uses, ignored, of_token, gaps_for("_$.(\n" + "".join(sign for sign in "?!=~'-" if sign in word)))


def pack_code(
    masked: str,
    language: str,
    within: Sequence[int],
    qualified: Sequence[str],
    keys: Mapping[int, list[str]] | None = None,
    bound: Sequence[str] = (),
    imports: Sequence[Import] = (),
) -> bytes:
    """The packed references of a file, whose comments, strings and names of definitions are masked. `within[line -
    1]` is a position in `qualified`, -1 outside any. `keys`: further uses by line."""
    finder = _words_of(language)
    uses_in = finder.of_token.__getitem__
    text = _with_dots(_without_gaps(masked), GRAMMARS[language].members)
    if "new " in text and "new" in GRAMMARS[language].keywords:
        text = _BARE_NEW.sub(r"\g<0>(", text)
    quoted = group_by_key(
        (text.count("\n", 0, match.start()), match[1] + match[2]) for match in _names_in_backticks(text)
    )
    text = _QUOTED_NAME.sub(" ; ", text) if quoted else text
    timing = _written_timing(imports)
    # A name written over two lines, as C++ operators are, must not look like a row of its own.
    rows = [timing, "\t".join(" ".join(name.split()) for name in qualified)]
    lines, goes_on, has_typed_calls = text.split("\n"), False, ">(" in text
    lengths = list(accumulate(map(len, lines), initial=0))  # lengths of the preceding lines, without their ends
    for at, words in enumerate(blank_signs(text.replace("(", "( "), finder.gaps).split("\n")):
        tokens = words.split()
        uses = list(chain.from_iterable(map(uses_in, tokens))) if tokens else []
        if uses:
            # Only a token that begins with a dot can follow something that is not a plain name.
            if goes_on or " ." in words or words[0] == ".":
                uses = _attach_receivers(text, lines[at], lengths[at] + at, finder, goes_on) or uses
            if has_typed_calls and ">(" in lines[at]:
                called = set(_TYPED_CALL.findall(lines[at]))
                uses = [f"{use}(" if use.rpartition(".")[2] in called else use for use in uses]
            goes_on = words[-1] == "."
        if keys and at + 1 in keys:
            uses += keys[at + 1]
        uses += quoted.get(at, ())
        if uses:
            names = dict.fromkeys(uses)
            names.pop("", None)
            if names:
                written = " ".join(names if len(names) <= _NAMES_PER_LINE else list(names)[:_NAMES_PER_LINE])
                rows.append(f"{at + 1}\t{within[at]}\t{written}")
    if len(rows) == 2 and not bound and not timing:
        return b""
    return zlib.compress("\n".join((*rows, "", *bound)).encode("utf-8", "replace"), _FASTEST)


def _names_in_backticks(text: str) -> Iterator[re.Match[str]]:
    return _QUOTED_NAME.finditer(text) if "`" in text else iter(())


def _written_timing(imports: Sequence[Import]) -> str:
    """The lines of imports that take effect late, each with the first letter of when."""
    loaded = {import_.line for import_ in imports if not import_.timing}
    late = (import_ for import_ in imports if import_.timing and import_.line not in loaded)
    return " ".join(dict.fromkeys(f"{import_.line}{import_.timing[0]}" for import_ in late))


def _without_gaps(text: str) -> str:
    """Remove the space between a name and its bracket: `call (x)` is a call. Five times as fast as a regular
    expression, which would stop at every space of an indentation."""
    *before, last = text.split("(")
    for at, part in enumerate(before):
        if part[-1:] in (" ", "\t"):
            bare = part.rstrip(" \t")
            if bare and (bare[-1].isalnum() or bare[-1] in "_'?!"):
                before[at] = bare
    return "(".join((*before, last))


def _with_dots(text: str, members: Sequence[str]) -> str:
    """Normalise member operators to a dot; ranges and spreads are not members."""
    if ".." in text:  # what a cascade of Dart calls belongs to something before, maybe many lines above
        cascade = ";[]." if ".." in members else "  "
        text = text.replace("...", "   ").replace("?..", "..").replace("..", cascade)
    if ".@" in text:
        text = _INNER_ANNOTATION.sub(".", text)
    if "?.(" in text:
        text = text.replace("?.(", "(")
    for written in (*members, "?.", "!."):
        if written != "." and written in text:
            text = text.replace(written, ".")
    return text


def _attach_receivers(text: str, line: str, offset: int, finder: _Words, goes_on: bool) -> list[str]:
    """The uses of a line, those after a call or an index with what they belong to; empty in place of a keyword.
    Nothing if there is nothing that a use could follow."""
    if not (goes_on or _BEHIND.search(line) or line.lstrip().startswith(".")):
        return []
    uses = []
    for match in finder.uses.finditer(line):
        use = match.group()
        if use[0] == ".":
            uses.append(f"{_receiver(text, offset + match.start())}|{use}")
        elif goes_on and not line[: match.start()].strip():
            uses.append(f"{_receiver(text, text.rindex('.', 0, offset))}|.{use}")
        else:
            uses.append("" if use in finder.ignored else use)
    return uses


def _receiver(text: str, end: int) -> str:
    """What precedes a dot, without the arguments of its calls; a lone name in brackets is kept."""
    parts: list[str] = []
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        if not end:
            break
        suffix = ""
        while end and text[end - 1] in _OPENING_OF:
            opened = _find_opening(text, end - 1)
            if opened < 0:
                return _UNKNOWN_RECEIVER
            inside = text[opened + 1 : end - 1].strip()
            suffix = f"{text[opened]}{inside if inside.isidentifier() else ''}{text[end - 1]}" + suffix
            end = opened
            while end and text[end - 1] in " \t":
                end -= 1
        word = _WORD.match(text[max(0, end - _MAX_RECEIVER) : end][::-1])
        name = word.group()[::-1] if word else ""
        if (not name or name in _BEFORE_VALUES) and suffix:
            loaded = _LOADED.fullmatch(inside)
            inner = _SIMPLE.fullmatch(inside) or _MADE.fullmatch(inside) if suffix.startswith("(") else None
            parts.append(inner.group(1) if inner else f"{loaded.group(1)})" if loaded else _UNKNOWN_RECEIVER)
            break
        if not name:
            parts.append('""' if text[end - 1] in "\"'`" else _UNKNOWN_RECEIVER)
            break
        parts.append(name + suffix)
        end -= len(name)
        if text[end - 1 : end] != ".":
            before = text[max(0, end - _MAX_RECEIVER) : end].rstrip()
            if not before.endswith("."):
                break
            end = end - (len(text[max(0, end - _MAX_RECEIVER) : end]) - len(before))
        end -= 1
    whole = ".".join(reversed(parts))
    return whole if parts and len(whole) <= _MAX_RECEIVER and _UNKNOWN_RECEIVER not in whole else _UNKNOWN_RECEIVER


def _find_opening(text: str, close: int) -> int:
    """The position of the bracket closed here; -1 if that is too far away."""
    sign, opening = text[close], _OPENING_OF[text[close]]
    first, at, inner = max(0, close - _MAX_BRACKETS), close, close
    while (at := text.rfind(opening, first, at)) >= 0:
        inner = text.rfind(sign, at, inner)  # each closing bracket in between takes an opening one
        if inner < 0:
            return at
    return -1
