"""What a language is to the rest of CodeInfo: values that the families fill in, and the values that resolving its
imports takes and returns. A family is one module beside this one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from codeinfo.model import Definition, FileKind, Import

WORD = r"[^\W\d]\w+"  # names of one letter are not worth a reference

# --- parsing -------------------------------------------------------------------------------------------------------


class Declared(NamedTuple):
    """What decides whether a definition is exported: its name, plain and as written, what stands before it on the
    lines of its header, and the definition around it."""

    name: str
    written: str
    before: str
    outer: Definition | None


class Syntax(Struct, frozen=True, kw_only=True):
    """How definitions are read off the syntax tree.

    The queries lie in `queries/*.scm`. The capture on a whole definition names its kind (`@class`, `@function`, …);
    `@name` is what it is called, `@declarator` a C declarator that holds the name, `@scope` the type a method is
    attached to, `@base` what it implements, `@keyword` a word that must be listed in `definers`. `@comment`, `@doc`,
    `@string`, `@import` and `@exports` stand for themselves. A more specific pattern comes before a more general one.
    """

    grammar: str
    package: str = ""  # that ships the grammar: `tree_sitter_<grammar>` unless named
    entry: str = "language"  # the package's function that returns it: some ship several grammars
    queries: tuple[str, ...] = ()  # the grammar's own unless named
    word: str = WORD
    members: tuple[str, ...] = (".",)  # what stands between a thing and its member
    exported: Callable[[Declared], bool] = lambda declared: True
    export_list: bool = False  # only listed names are exported, and all of them where there is no list
    more_exports: str = ""  # expression for exports that are written as plain code
    definers: Mapping[str, str] = field(default_factory=dict)  # keyword → kind, for languages that define by call
    private_definers: frozenset[str] = frozenset()
    bases: Callable[[str, frozenset[str]], tuple[str, ...]] | None = None  # (header behind a type's name, keywords)
    clauses: bool = False  # a function may be written as several neighbouring equations
    doc_attribute: bool = False  # documentation is an attribute above the definition
    hide: Callable[[str], str] | None = None  # replaces what would break the parser by as many spaces
    rescue: re.Pattern[str] | None = None  # functions, for files the grammar cannot read to the end

    @property
    def keywords(self) -> frozenset[str]:
        """Words that are never references."""
        return _keywords(self.queries or (self.grammar,))


@lru_cache
def _keywords(queries: tuple[str, ...]) -> frozenset[str]:
    listed = (Path(__file__).parent / "queries" / "keywords.txt").read_text(encoding="ascii").splitlines()
    known = dict(line.split(": ") for line in listed if not line.startswith("#"))
    return frozenset(word for name in queries for word in known.get(name, "").split())


class Markup(Struct, frozen=True):
    """How a document marks its headings. Without `mark` they are underlined titles."""

    mark: str = ""  # expression whose group has one sign for each level
    fence: str = ""  # expression for the border of a block in which there are no headings
    is_markdown: bool = False


# --- imports -------------------------------------------------------------------------------------------------------


class FileFacts(Struct, frozen=True):
    """One file. `exports` are its top-level names, `hidden` those that no other file sees, `packages` the namespaces
    it declares."""

    file_id: int
    path: str
    language: str
    kind: str
    packages: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    inline_modules: tuple[tuple[int, int], ...] = ()  # line spans of modules written inside the file (Rust)
    hidden: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def is_test(self) -> bool:
        return self.kind == "tests"

    @property
    def rules(self) -> Language:
        return named(self.language)


class Target(NamedTuple):
    path: str
    names: tuple[str, ...] = ()  # what is taken from it; empty: the file as a whole


class Outcome(Struct, frozen=True):
    """Where one import leads. `package`: the targets are all files of a package, of which few may be needed."""

    targets: tuple[Target, ...] = ()
    status: str = "internal"  # "internal", "external" (not part of this codebase), "unresolved" (should be, is not)
    package: bool = False


EXTERNAL = Outcome(status="external")
UNRESOLVED = Outcome(status="unresolved")


class LanguageResolver(Protocol):
    def resolve(self, source: FileFacts, written: Import) -> Outcome: ...

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        """Files whose names can be used without an import."""
        ...


def last_name(written: Import) -> tuple[str, ...]:
    """The names an import binds: those that it lists, else the last part of the module."""
    if written.alias:
        return (written.alias,)
    return written.names or (re.split(r"[.\\:/]", written.module)[-1],)


class ImportRules(Struct, frozen=True, kw_only=True):
    """How imports are written and where they lead. `calls` finds imports that call a function; its groups are `module`
    (what is loaded), `alias` and `names` (what it is bound to), `relative` (a keyword that means "beside me")."""

    read: Callable[[str, int], Iterator[Import]] | None = None  # (statement, its line)
    calls: str = ""
    timed: bool = False  # imports may be lazy or for types only
    deferred: Literal["", "lazy", "types"] = (
        ""  # imports load nothing: classes are when first used, or a compiler reads all
    )
    types_block: str = ""  # the condition of a block that only a type checker reads
    resolver: Callable[..., LanguageResolver] | None = None  # takes a Tree
    bound: Callable[[Import], tuple[str, ...]] = last_name
    by_use: bool = False  # an import names a package, or none is needed: which files are meant, only used names tell
    qualifier: Callable[[Import], str] | None = None  # the name that is written before all that a package offers
    whole_names: bool = False  # modules are used by their whole names, which needs no import
    binds_last: bool = False  # what stands behind the last dot of an import is known by that name
    types_only: bool = False  # a package has types and few functions: a name in small letters is a member of something
    nested_packages: bool = False  # each package clause lies inside of the one before
    configs: tuple[str, ...] = ()  # names of files that say how imports are to be read
    configs_above: bool = False  # configurations in the folders above the root count, too
    manifest: str = ""  # names the module; one above the root holds for the root as well, see `nested_manifest`
    nested_manifest: Callable[[str, str], str] | None = None  # (text, path from there to the root) → text for the root


# --- names ---------------------------------------------------------------------------------------------------------


def is_package(definition: Definition) -> bool:
    return definition.kind in ("package", "namespace")


class NameRules(Struct, frozen=True, kw_only=True):
    """What a name may mean: scopes, receivers, visibility beyond the file."""

    explicit: bool = False  # a bare name that neither a scope nor an import explains is a local variable or a built-in
    implicit_self: bool = False  # members are in scope by their bare name; elsewhere they need a receiver
    open_types: bool = False  # members of a type may be written in other files than the type itself
    imports_show: bool = False  # a name that an import brings is written in it, in the same spelling
    imports_open: bool = False  # an import without names opens a namespace
    outside: Literal["", "types", "all"] = (
        ""  # names that no variable hides unseen, if an import brings them from outside
    )
    whole_modules: bool = False  # modules are known by whole names, functions stand behind them or are the own ones
    dotted_modules: bool = False  # `import a.b` gives a name to the path a.b
    tables: bool = False  # what a variable holds is written behind its name, and a file offers the table that it fills
    linked: bool = False  # an exported function has one name in the whole program
    open_traits: bool = False  # a trait uses what the classes have that take it
    inherited: frozenset[str] = frozenset()  # words for what is inherited; variables elsewhere
    decorators: bool = False  # a decorator may make a function into something else
    package: Callable[[Definition], bool] = is_package  # whether a definition names a package
    overloads: Literal["", "marked", "bodyless"] = ""  # declarations of a function before the one that has its body
    inline_modules: bool = False  # modules may be written inside of a file
    private_to_file: bool = False  # `private` hides a name from other files; elsewhere it means the package
    extensions: bool = False  # methods may be written at the top level of any file
    attribute_classes: bool = False  # a class `XAttribute` is used as `X`, one with extension methods by those
    called_by_platform: bool = False  # functions of modules, many of which no code calls


class Language(Struct, frozen=True, kw_only=True):
    """One language; without syntax its files are chunked by text."""

    name: str
    extensions: tuple[str, ...] = ()  # lowercase, with the dot
    kind: FileKind = FileKind.CODE
    filenames: tuple[str, ...] = ()
    shebangs: tuple[str, ...] = ()  # interpreters, without version
    family: str = ""  # of languages that use each other's files and definitions; the name where there is no other
    syntax: Syntax | None = None
    markup: Markup | None = None  # for documents that are cut at headings
    imports: ImportRules = ImportRules()
    names: NameRules = NameRules()


BY_NAME: dict[str, Language] = {}  # filled by the package
_UNKNOWN = Language(name="")


def named(name: str) -> Language:
    """The language of a name; one without rules where there is none, as for formats of documents."""
    return BY_NAME.get(name, _UNKNOWN)


def family(name: str) -> str:
    return named(name).family or name


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMMENT = re.compile(r"//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/")
AS = re.compile(r"\s+as\s+|\s*=>\s*|\s+=\s+")
QUOTED = re.compile(r"""["'`]([^"'`\n]+)["'`]""")
DOTTED_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|\\)[^\W\d][\w$]*)*")
_DOTTED_START = re.compile(
    r"^(?:@\w+\s+)*(?:global\s+)?(?P<word>import|using|export)\s+(?P<static>static\s+)?"
    r"(?:(?:type|given|unsafe|typealias|struct|class|enum|protocol|let|var|func)\s+)*"
)
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_HERITAGE_WORD = re.compile(r"\b(?:extends|implements|with|permits|derives)\b")
_MODIFIERS = re.compile(r"\b(?:public|private|protected|internal|virtual|override|final|typename|class|unchecked)\b")

# --- import statements ---------------------------------------------------------------------------------------------


def grouped(
    module: str, line: int, taken: Sequence[tuple[str, str]], *, reexport: bool = False, timing: str = ""
) -> Iterator[Import]:
    """One import for all names that keep their name, one more for each that gets another."""
    unchanged = tuple(name for name, alias in taken if not alias)
    if unchanged:
        yield Import(module, line, unchanged, "", reexport, timing)
    for name, alias in taken:
        if alias:
            yield Import(module, line, (name,), alias, reexport, timing)


def items(listed: str) -> list[tuple[str, str]]:
    """`a, b as c` → (a, ""), (b, c)."""
    pairs = []
    for item in listed.split(","):
        name, *alias = AS.split(item.strip(), maxsplit=1)
        if name:
            pairs.append((name.strip(), alias[0].strip() if alias else ""))
    return pairs


def blank(match: re.Match[str]) -> str:
    """As many spaces as were matched: for what the parser must not see."""
    return " " * len(match.group())


def plain(statement: str) -> str:
    """A statement on one line, without comments and its end."""
    return " ".join(COMMENT.sub("", statement).split()).rstrip("; ")


def dotted_import(statement: str, line: int) -> Iterator[Import]:
    """Java, Kotlin, Scala, Swift, C#: `import [static] a.b.C [as D]`, `a.b.*`, `a.b.{C, D => E}`, `using X = a.b`."""
    text = plain(statement)
    start = _DOTTED_START.match(text)
    if start is None:
        return
    reexport, is_static = start["word"] == "export", start["static"] is not None
    text = text[start.end() :]
    # A comma inside of braces or of a type's brackets parts no imports.
    for part in re.split(r",(?![^{]*\})(?![^<]*>)", text):
        path, brace, listed = part.strip().partition("{")
        if brace:
            taken = [("*" if name in {"_", "*"} else name, alias) for name, alias in items(listed.rstrip("} "))]
            yield from grouped(path.rstrip(". "), line, [pair for pair in taken if pair[1] != "_"], reexport=reexport)
            continue
        if re.match(r"\w+ = ", path):
            alias, _, path = path.partition(" = ")
        else:
            path, *renamed = AS.split(path, maxsplit=1)
            alias = renamed[0].strip() if renamed else ""
        head, _, last = path.rpartition(".")
        if last in {"*", "_"}:
            yield Import(head, line, ("*",), "", reexport)
        elif is_static and head and start["word"] == "import":
            yield Import(head, line, (last,), alias, reexport)
        elif path:
            yield Import(path, line, ("*",) if is_static else (), alias, reexport)


# --- headers of definitions ----------------------------------------------------------------------------------------


def without_brackets(text: str) -> str:
    """Without anything in brackets."""
    while True:
        shorter = _NESTED.sub(" ", text)
        if shorter == text:
            return text
        text = shorter


def bases_behind_words(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    """`class A extends B implements C`."""
    return _base_names(_HERITAGE_WORD.split(without_brackets(rest))[1:], keywords)


def bases_behind_colon(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    """`class A : B, C`."""
    _, colon, after = without_brackets(rest).partition(":")
    return _base_names([re.split(r"\bwhere\b", after)[0]] if colon else [], keywords)


def _base_names(pieces: Sequence[str], keywords: frozenset[str]) -> tuple[str, ...]:
    names = (DOTTED_NAME.search(_MODIFIERS.sub(" ", part)) for piece in pieces for part in re.split(r"[,+&]", piece))
    return tuple(dict.fromkeys(match.group() for match in names if match and match.group() not in keywords))


def without_underscore(declared: Declared) -> bool:
    name = declared.name
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def marked_pub(declared: Declared) -> bool:
    outer = declared.outer
    return "pub" in declared.before or (outer is not None and (outer.kind in {"trait", "enum"} or bool(outer.bases)))


def not_private(declared: Declared) -> bool:
    return not re.search(r"\b(?:private|fileprivate|protected)\b", declared.before)
