"""The interface of a language to the rest of CodeInfo: values that the families, the modules beside this one, fill in,
and the paths and configuration files of a codebase, arranged to look imports up."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate, takewhile
from pathlib import Path
from posixpath import commonprefix, dirname, normpath
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.model import Definition, FileKind, Import

WORD = r"[^\W\d]\w+"  # one-letter names are not worth a reference

# --- parsing -------------------------------------------------------------------------------------------------------


class Declared(NamedTuple):
    """What decides whether a definition is exported: its name, plain and as written, what precedes it in its header,
    and the enclosing definition."""

    name: str
    written: str
    before: str
    outer: Definition | None


class Syntax(Struct, frozen=True, kw_only=True):
    """How definitions are read from the syntax tree. The queries are in `queries/*.scm`. The capture on a whole
    definition names its kind (`@class`, `@function`, …); `@name` is its name, `@declarator` a C declarator that holds
    the name, `@scope` the type a method is attached to, `@base` what it implements, `@body` a node behind it that
    belongs to it, `@keyword` a word that must be listed in `definers`. `@comment`, `@doc`, `@string`, `@import` and
    `@exports` stand for themselves. A more specific pattern comes before a more general one."""

    grammar: str
    package: str = ""  # ships the grammar; `tree_sitter_<grammar>` by default
    entry: str = "language"  # the package's function that returns it: some ship several grammars
    queries: tuple[str, ...] = ()  # the grammar's own by default
    word: str = WORD
    members: tuple[str, ...] = (".",)  # between an object and its member
    exported: Callable[[Declared], bool] = lambda declared: True
    export_list: bool = False  # only listed names are exported; without a list, all are
    more_exports: str = ""  # expression for exports written as plain code
    definers: Mapping[str, str] = field(default_factory=dict)  # keyword → kind, for languages that define by call
    private_definers: frozenset[str] = frozenset()
    bases: Callable[[str, frozenset[str]], tuple[str, ...]] | None = None  # (header after a type's name, keywords)
    constants_by_name: bool = True  # an upper-case variable is a constant; otherwise only `const` makes one
    clauses: bool = False  # a function may be written as several neighbouring equations
    doc_attribute: bool = False  # documentation is an attribute above the definition
    body_beside: str = ""  # the node type of a body that is the next neighbour of its definition's head
    hide: Callable[[str], str] | None = None  # replaces what would break the parser with spaces
    embedded: bool = False  # a component: only what `hide` shows is code, and the file's name is a definition
    template: bool = False  # only what `hide` shows is code, and the file is chunked as text
    comments: re.Pattern[str] | None = None  # of a template
    in_strings: re.Pattern[str] | None = None  # code in the strings that `holding` stands before
    holding: re.Pattern[str] = re.compile("")
    names_in_strings: re.Pattern[str] | None = None  # whole strings that may name a definition: `"shop.cart.Cart"`
    needs_newline: bool = False  # its parser never returns from some texts whose last line has no end
    rescue: re.Pattern[str] | None = None  # functions, for files the grammar cannot parse completely

    @property
    def keywords(self) -> frozenset[str]:
        """Words that are never references."""
        return _keywords(self.queries or (self.grammar,))


@lru_cache
def _keywords(queries: tuple[str, ...]) -> frozenset[str]:
    listed = (Path(__file__).parent / "queries" / "keywords.txt").read_text(encoding="ascii").splitlines()
    by_grammar = dict(line.split(": ") for line in listed if not line.startswith("#"))
    return frozenset(word for name in queries for word in by_grammar.get(name, "").split())


class Markup(Struct, frozen=True):
    """How a document marks its headings. Without `mark` they are underlined titles."""

    mark: str = ""  # expression whose group has one character per level
    fence: str = ""  # expression for the fence of a block without headings
    is_markdown: bool = False


# --- imports -------------------------------------------------------------------------------------------------------


class FileFacts(Struct, frozen=True, array_like=True):
    """One file. `exports` are its top-level names, `hidden` those invisible to other files, `packages` the
    namespaces it declares."""

    file_id: int
    path: str
    language: str
    kind: str
    packages: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    inline_modules: tuple[tuple[int, int], ...] = ()  # line spans of modules written inside the file (Rust)
    hidden: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  # exports that only a type checker reads
    members: tuple[str, ...] = ()  # exports that are written behind a value: methods of Go, extensions

    @property
    def folder(self) -> str:
        return dirname(self.path)

    @property
    def is_test(self) -> bool:
        return self.kind == "tests"

    @property
    def rules(self) -> Language:
        return get_language(self.language)


class Target(NamedTuple):
    path: str
    names: tuple[str, ...] = ()  # what is imported from it; empty: the file as a whole


class Outcome(Struct, frozen=True):
    """Where one import leads. `package`: the targets are all files of a package, of which few may be needed."""

    targets: tuple[Target, ...] = ()
    status: str = "internal"  # "internal", "external" (not part of this codebase), "unresolved" (should be, is not)
    package: bool = False


def split_names(import_: Import, file: str, find_module: Callable[[str], str | None]) -> tuple[Target, ...]:
    """A name that is itself a module leads there, any other to the file it is imported from, if that is one."""
    modules = [(name, find_module(name)) for name in import_.names]
    targets = tuple(Target(path) for _, path in modules if path)
    inside = tuple(name for name, path in modules if not path)
    return (*targets, Target(file, inside)) if file and (inside or not import_.names) else targets


EXTERNAL = Outcome(status="external")
UNRESOLVED = Outcome(status="unresolved")


def last_name(import_: Import) -> tuple[str, ...]:
    """The names an import binds: those it lists, otherwise the last part of the module."""
    if import_.alias:
        return (import_.alias,)
    return import_.names or (re.split(r"[.\\:/]", import_.module)[-1],)


class ImportRules(Struct, frozen=True, kw_only=True):
    """How imports are written and where they lead. `calls` finds imports that call a function; its groups are
    `module` (what is loaded), `alias` and `names` (what it is bound to), `relative` (a keyword for "beside this
    file"), `lazy` (one for "on demand")."""

    read: Callable[[str, int], Iterator[Import]] | None = None  # (statement, its line)
    calls: str = ""
    call_words: tuple[str, ...] = ("",)  # every match of `calls`, which is slow, contains one of these
    table: tuple[re.Pattern[str], Callable[[str], Iterator[Import]]] | None = None  # (paths, text): routes name classes
    timed: bool = False  # imports may be lazy or type-only
    deferred: Literal["", "lazy", "types"] = ""  # imports load nothing: their use does, or a compiler reads everything
    types_elided: bool = False  # an import of nothing but types is left out when compiled
    types_block: str = ""  # the condition of a block that only a type checker reads
    resolver: Callable[[Tree], Resolver] | None = None
    bound: Callable[[Import], tuple[str, ...]] = last_name
    by_use: bool = False  # an import names a package, or none is needed: only used names tell which files are meant
    owned: bool = False  # what stands behind a value's dot belongs to the value, not to a package
    qualified: bool = False  # everything that another package exports is written behind the package's name
    whole_names: bool = False  # modules and classes are used by their full names, without an import
    full_names: bool = False  # a type may be written with its namespace, or with the end of one that an import names
    paths: bool = False  # other crates and modules are also used by path, without an import
    binds_last: bool = False  # the part after the last dot of an import is bound
    types_only: bool = False  # a package has types and few functions: a lower-case name is a member of something
    headers: bool = False  # what a file defines is used through the header of its name
    nested_packages: bool = False  # each package clause is nested in the previous one
    configs: tuple[str, ...] = ()  # files that configure imports
    configs_above: bool = False  # configurations in the folders above the root count as well
    manifest: str = ""  # names the module; one above the root also covers the root, see `nested_manifest`
    nested_manifest: Callable[[str, str], str] | None = None  # (text, path from there to the root) → text for the root


# --- names ---------------------------------------------------------------------------------------------------------


def is_package(definition: Definition) -> bool:
    return definition.kind in ("package", "namespace")


class NameRules(Struct, frozen=True, kw_only=True):
    """What a name may mean, by the step of the resolution (graph/names.py, graph/scopes.py) that reads the rule."""

    # a bare name, in its file (`resolve_bare`)
    explicit: bool = False  # a bare name that neither a scope nor an import explains is a local variable or a built-in
    implicit_self: bool = False  # members are in scope by their bare name; otherwise they need a receiver
    class_scope: bool = False  # the body of a class sees its own names, and the functions in it do not
    constants: bool = False  # a capitalised name is looked up in the enclosing modules, which any file may reopen
    tables: bool = False  # what a variable holds is written after its name, and a file exports the table it fills
    inline_modules: bool = False  # modules may be written inside a file
    inline_tests: bool = False  # tests may be written beside the code
    marked_variables: bool = False  # only `$name` means a variable, and one of the top level is its file's own
    linked: bool = False  # an exported function has one name in the whole program
    whole_modules: bool = False  # modules have full names; functions follow them or are the module's own
    symbols: str = ""  # context that makes a name a mere value, see `is_symbol` (graph/conventions.py)
    # imports (`resolve_imported`, `is_from_outside`)
    imports_show: bool = False  # an imported name is written in the import, in the same spelling
    imports_open: bool = False  # an import without names opens a namespace
    dotted_modules: bool = False  # `import a.b` binds the path a.b
    libraries: bool = False  # files that see each other share imports and private names; others see what is re-exported
    default_exports: bool = False  # a file may export something that those who import it name, or rename an export
    outside: Literal["", "types", "all"] = ""  # outside names that no variable shadows unseen
    # types and values (`find_member`, `evaluate`)
    open_types: bool = False  # members of a type may be in other files than the type itself
    named_extensions: bool = False  # an extension has a name of its own; what it extends is its base
    accessors: str = ""  # the package that gives the fields of files which import it methods, when they are compiled
    structural: bool = False  # a type implements an interface without naming it
    open_traits: bool = False  # a trait uses what its classes have, and a value what the subclasses of its type have
    split_members: bool = False  # behind a receiver only methods are called, and only fields are not
    inherited: frozenset[str] = frozenset()  # keywords for the base class; elsewhere variables
    decorators: bool = False  # a decorator may turn a function into something else
    overloads: Literal["", "marked", "bodyless"] = ""  # declarations of a function before its implementation
    settings: str = ""  # an import from outside that has the names of all of the project's settings
    links: bool = False  # web frameworks give routes names, see routes.py
    fixtures: str = ""  # the file whose fixtures the tests around and below it take as parameters
    # what a file offers to others (`facts_of`, `unused_exports`)
    package: Callable[[Definition], bool] = is_package  # whether a definition names a package
    private_to_file: bool = False  # `private` hides a name from other files; otherwise it means the package
    extensions: bool = False  # methods may be written at the top level of any file
    attribute_classes: bool = False  # a class `XAttribute` is used as `X`
    called_by_name: Callable[[Definition], bool] = lambda definition: False  # a member that needs no name of its type
    called_as: str = ""  # the method that a call of a value runs
    called_by_platform: bool = False  # module functions, many of which no code calls
    main_mark: str = ""  # what marks a type as the program
    # how something is called without a bracket after its name (`_mark_invoked`): `halt 404`, `transaction { … }`,
    # `<Name>`, `warn!(…)`; macros need no import below their definition, or where an attribute says so
    calls: Literal["", "bare", "block", "element", "macro", "reference"] = ""

    def needs_mark(self, definition: Definition) -> bool:
        """Whether a name alone never means a definition: `$cart = …`."""
        return self.marked_variables and definition.signature.startswith("$")


class Language(Struct, frozen=True):
    """Without syntax, files are chunked as text. Spaces separate extensions, file names and interpreters."""

    name: str
    extensions: str = ""  # lowercase, with the dot
    filenames: str = ""
    shebangs: str = ""  # interpreters, without version
    kind: FileKind = FileKind.CODE
    family: str = ""  # languages that use each other's files and definitions; the name by default
    syntax: Syntax | None = None
    markup: Markup | None = None  # for documents split at headings
    imports: ImportRules = ImportRules()
    names: NameRules = NameRules()

    @property
    def is_template(self) -> bool:
        return self.syntax is not None and self.syntax.template

    def as_template(
        self,
        name: str,
        extensions: str,
        hide: Callable[[str], str],
        comments: re.Pattern[str],
        entry: str = "language",
    ) -> Language:
        """Pages with code of this language in them: they use names, and define macros at most."""
        assert self.syntax is not None
        syntax = replace(self.syntax, hide=hide, comments=comments, entry=entry, template=True)
        return Language(name, extensions, family=self.name, syntax=syntax, imports=self.imports, names=self.names)


BY_NAME: dict[str, Language] = {}  # filled by the package
_UNKNOWN = Language(name="")


def get_language(name: str) -> Language:
    """The language with this name; one without rules if there is none, as for document formats."""
    return BY_NAME.get(name, _UNKNOWN)


def may_have_inline_tests(language: str) -> bool:
    return get_language(language).names.inline_tests


def is_inline_test(language: str, qualified: str) -> bool:
    """Whether a definition is a test beside the code: in a module of that name (Rust), or a `test` block (Zig)."""
    return may_have_inline_tests(language) and in_test_module(qualified)


# An attribute that marks a function of Rust as a test, a module of tests, or the head of a test in Zig.
INLINE_TEST = re.compile(
    r'(?m)^[^\S\n]*(?:#\[(?:\w+::)*(?:test|rstest)\b|(?:pub )?mod tests? \{|test(?: "[^"\n]*"| \w+)? \{)'
)


def in_test_module(qualified: str) -> bool:
    return not {"test", "tests"}.isdisjoint(qualified.split("."))


def attributes_above(lines: Mapping[int, str], line: int) -> list[str]:
    """The attributes of Rust directly above a line, the nearest first."""
    above = (lines.get(at, "").lstrip() for at in range(line - 1, 0, -1))
    return list(takewhile(lambda text: text.startswith("#["), above))


def is_marked_test(lines: Mapping[int, str], qualified: str, start_line: int) -> bool:
    """Whether a definition in a language with inline tests is one, or part of one."""
    return in_test_module(qualified) or any(map(INLINE_TEST.match, attributes_above(lines, start_line)))


def language_family(name: str) -> str:
    return get_language(name).family or name


COMMENT = re.compile(r"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)")
AS = re.compile(r"\s+as\s+|\s*=>\s*|\s+=\s+")
SIGIL = re.compile(r"(?<![\w$])\$(?=\w)")  # names are kept without it: `$total` is `total`
QUOTED = re.compile(r"""["'`]([^"'`\n]+)["'`]""")
DOTTED_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|\\)[^\W\d][\w$]*)*")
_DOTTED_START = re.compile(
    r"^(?:@\w+(?:\([^()]*\))?\s+)*(?:(?:global|public|package|internal|private|fileprivate)\s+)?"
    r"(?P<word>import|using|export)\s+(?P<static>static\s+)?"
    r"(?:(?:type|given|unsafe|typealias|struct|class|enum|protocol|let|var|func)\s+)*"
)
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_HERITAGE_WORD = re.compile(r"\b(?:extends|implements|with|on|permits|derives)\b")
_MODIFIERS = re.compile(r"\b(?:public|private|protected|internal|virtual|override|final|typename|class|unchecked)\b")

# --- import statements ---------------------------------------------------------------------------------------------


def group_imports(
    module: str, line: int, taken: Sequence[tuple[str, str]], *, reexport: bool = False, timing: str = ""
) -> Iterator[Import]:
    """One import for all names that are kept, and one for each that is renamed."""
    unchanged = tuple(name for name, alias in taken if not alias)
    if unchanged:
        yield Import(module, line, unchanged, "", reexport, timing)
    for name, alias in taken:
        if alias:
            yield Import(module, line, (name,), alias, reexport, timing)


def items(listed: str) -> list[tuple[str, str]]:
    """`a, b as c` → (a, ""), (b, c)."""
    split = (AS.split(item.strip(), maxsplit=1) for item in listed.split(","))
    return [(name.strip(), alias[0].strip() if alias else "") for name, *alias in split if name]


def blank(match: re.Match[str]) -> str:
    """As many spaces as were matched: hides text from the parser."""
    return " " * len(match.group())


def plain(statement: str) -> str:
    """A statement on one line, without comments and its terminator."""
    return " ".join(COMMENT.sub("", statement).split()).rstrip("; ")


def dotted_import(statement: str, line: int) -> Iterator[Import]:
    """Java, Kotlin, Scala, Swift, C#: `import [static] a.b.C [as D]`, `a.b.*`, `a.b.{C, D => E}`, `using X = a.b`."""
    text = plain(statement)
    if (start := _DOTTED_START.match(text)) is None:
        return
    reexport, is_static = start["word"] == "export", start["static"] is not None
    text = text[start.end() :]
    # A comma inside braces or a type's brackets does not separate imports.
    for part in re.split(r",(?![^{]*\})(?![^<]*>)", text):
        path, brace, listed = part.strip().partition("{")
        if brace:
            taken = [("*" if name in {"_", "*"} else name, alias) for name, alias in items(listed.rstrip("} "))]
            yield from group_imports(
                path.rstrip(". "), line, [pair for pair in taken if pair[1] != "_"], reexport=reexport
            )
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
    while (shorter := _NESTED.sub(" ", text)) != text:
        text = shorter
    return text


def bases_behind_words(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    """`class A extends B implements C`."""
    return _base_names(_HERITAGE_WORD.split(without_brackets(rest))[1:], keywords)


def bases_behind_colon(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    """`class A<T> : B, C where T : D`."""
    _, colon, after = re.split(r"\bwhere\b", without_brackets(rest))[0].partition(":")
    return _base_names([after] if colon else [], keywords)


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


# --- a codebase, arranged for looking imports up ---------------------------------------------------------------------

Key = TypeVar("Key", bound=Hashable)

# An open string or comment ends with its line or the file, so that nothing is read more than once.
_JSON_STRING = r'("(?:[^"\\\n]|\\.)*"?)'
_JSON_COMMENT = re.compile(rf"{_JSON_STRING}|//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|(?s:/\*.*)|\t")
_JSON_LAST_COMMA = re.compile(rf"{_JSON_STRING}|,(?=\s*[}}\]])")

MOST_ABOVE = 4  # folders above the files that imports may start from


@cache
def _config_names() -> re.Pattern[str]:
    names = {name for language in BY_NAME.values() for name in language.imports.configs}
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in names))


def is_config(path: str) -> bool:
    return _config_names().fullmatch(path.rpartition("/")[2]) is not None


class Tree:
    """The paths of a codebase and its configuration files. `root` is the folder that paths are relative to,
    `configs_above` holds the configurations in the folders around it, by their path from the root (`../package.json`).
    `left_out` says whether a path is third-party or generated, so that no index holds it."""

    def __init__(
        self,
        files: Iterable[FileFacts],
        configs: Mapping[str, str],
        root: str = "",
        configs_above: Mapping[str, str] | None = None,
        left_out: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.files = {facts.path: facts for facts in files}
        self.configs = configs
        self.above = root.strip("/").split("/")[-MOST_ABOVE:]
        self.configs_above = configs_above or {}
        self.left_out = left_out
        self._read: dict[str, dict[str, Any]] = {}

    def __contains__(self, path: str | None) -> bool:
        return path in self.files

    @cached_property
    def folders(self) -> frozenset[str]:
        return frozenset(above for folder in ("", *self.by_folder) for above in ancestors(folder))

    @cached_property
    def by_folder(self) -> Mapping[str, tuple[str, ...]]:
        return _paths_by((facts.folder, path) for path, facts in self.files.items())

    @cached_property
    def by_name(self) -> Mapping[str, tuple[str, ...]]:
        return _paths_by((path.rpartition("/")[2], path) for path in self.files)

    @cached_property
    def by_package(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """(family, package) → the files that contribute to it."""
        return _paths_by(
            ((language_family(facts.language), package), path)
            for path, facts in self.files.items()
            for package in (packages_of(facts)[-1:] if facts.rules.imports.nested_packages else facts.packages)
        )

    @cached_property
    def definers(self) -> Mapping[tuple[str, str, str], tuple[str, ...]]:
        """(family, package, top-level name) → the files that define it."""
        return _paths_by(
            ((language_family(facts.language), package, name), path)
            for path, facts in self.files.items()
            for package in packages_of(facts)[-1:] or ([""] if facts.rules.imports.full_names else [])
            for name in facts.exports
        )

    @cached_property
    def exported(self) -> frozenset[str]:
        return frozenset(name for facts in self.files.values() for name in facts.exports)

    @cached_property
    def shared_members(self) -> frozenset[str]:
        """Members that several files have, in a language whose types other files add to: any may be meant."""
        open_files = (facts for facts in self.files.values() if facts.rules.names.open_types)
        counts = Counter(name for facts in open_files for name in facts.members)
        return frozenset(name for name, count in counts.items() if count > 1)

    def paths_ending_in(self, suffix: str) -> tuple[str, ...]:
        """Paths that equal a relative path or end with it at a folder boundary."""
        same_name = self.by_name.get(suffix.rpartition("/")[2], ())
        return tuple(path for path in same_name if f"/{path}".endswith(f"/{suffix}"))

    def from_above(self, path: str) -> Iterator[str]:
        """What a path that starts above the root may mean: in a folder `absl`, `absl/base/log.h` is `base/log.h`."""
        for at in range(len(self.above) - 1, -1, -1):
            start = "/".join(self.above[at:])
            if start and f"{path}/".startswith(f"{start}/"):
                yield path[len(start) + 1 :]

    def from_top(self) -> tuple[str, Tree]:
        """The same files as seen by the topmost configuration above the root, and the common prefix of their paths."""
        depth = max((path.count("../") for path in self.configs_above), default=0)
        inside = self.above[-depth:] if depth else []
        if not inside:
            return "", self
        prefix = "/".join(inside) + "/"
        configs = {prefix + path: text for path, text in self.configs.items()}
        for path, text in self.configs_above.items():
            configs["/".join((*inside[: depth - path.count("../")], path.rpartition("../")[2]))] = text
        files = (replace(facts, path=prefix + facts.path) for facts in self.files.values())
        return prefix, Tree(files, configs, left_out=self.left_out)

    def config(self, path: str) -> dict[str, Any]:
        """A JSON configuration, comments and trailing commas allowed; {} if it is broken."""
        if path not in self._read:
            text = self.configs.get(path, "")
            read = _json(text)
            if read is None:  # stripping comments takes ten times as long as parsing a file without them
                read = _json(strict_json(text))
            self._read[path] = read if isinstance(read, dict) else {}
        return self._read[path]


def strict_json(text: str) -> str:
    """JSON without comments, tabs and trailing commas; everything else keeps its position."""
    return _blank(without_json_comments(text), _JSON_LAST_COMMA)


def without_json_comments(text: str) -> str:
    """JSON with spaces in place of comments and tabs."""
    return _blank(text, _JSON_COMMENT)


def _blank(text: str, parts: re.Pattern[str]) -> str:
    return parts.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class Resolver:
    """Resolves the imports of one language in a tree; this one, of languages that have none."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def resolve(self, source: FileFacts, import_: Import) -> Outcome:
        return Outcome()

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        """Files whose names can be used without an import."""
        return ()

    def shows(self, source: FileFacts) -> Iterable[str]:
        """Templates that a file shows without naming them."""
        return ()

    def auto_imports(self, source: FileFacts) -> Mapping[str, Import]:
        """What can be used without an import because a tool writes it, by the name it has in the file."""
        return {}

    def _first(self, paths: Iterable[str | None], otherwise: Outcome) -> Outcome:
        """The first of some paths that is a file."""
        return next((Outcome((Target(path),)) for path in paths if path is not None and path in self._tree), otherwise)

    def whole(self, source: FileFacts, name: str) -> tuple[str, ...]:
        """Files of the module used by its full name."""
        return self._tree.by_package.get((language_family(source.language), name), ())

    def full_name(self, source: FileFacts, imports: Iterable[Import], name: str) -> tuple[Target, ...]:
        """Where a type leads that is written with its namespace, or with the end of one that an import names."""
        return ()

    def quoted(self, source: FileFacts, name: str) -> tuple[Target, ...]:
        """Where a name leads that is written in a string."""
        return ()


def packages_of(facts: FileFacts) -> tuple[str, ...]:
    """The packages a file lies in: if clauses nest, `package a`, `package b` is a.b inside a."""
    if not facts.rules.imports.nested_packages:
        return facts.packages
    return tuple(accumulate(facts.packages, "{}.{}".format))


def join_path(folder: str, relative: str) -> str | None:
    """`relative` resolved from `folder`, or None if it leaves the codebase."""
    path = normpath(f"{folder or '.'}/{relative}")
    return None if f"{path}/".startswith("../") else "" if path == "." else path


def ancestors(folder: str) -> list[str]:
    """The folder, then its parents, up to the root."""
    chain = [folder]
    while chain[-1]:
        chain.append(chain[-1].rpartition("/")[0])
    return chain


def enclosing_names(qualified: str) -> Iterator[str]:
    """A qualified name, then those of what is around it, innermost first."""
    while qualified:
        yield qualified
        qualified = qualified.rpartition(".")[0]


def nearest(paths: Iterable[str], folder: str) -> str | None:
    """The path that shares most folders with `folder`; None if two are equally near."""
    closest = nearest_all(list(paths), folder)
    return closest[0] if len(closest) == 1 else None


def nearest_all(paths: Sequence[str], folder: str) -> Sequence[str]:
    """The paths that share most folders with `folder`."""
    if len(paths) < 2:
        return paths
    parts = folder.split("/")
    depths = [len(commonprefix([parts, path.split("/")])) for path in paths]
    return [path for path, depth in zip(paths, depths, strict=True) if depth == max(depths)]


def _paths_by(pairs: Iterable[tuple[Key, str]]) -> dict[Key, tuple[str, ...]]:
    return {key: tuple(paths) for key, paths in group_by_key(pairs).items()}
