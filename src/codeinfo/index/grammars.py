"""What is known of each language with a syntax tree: its grammar, its queries and its customs, as data.

The queries lie in `queries/*.scm`. The capture on a whole definition names its kind (`@class`, `@function`, …); `@name`
is what it is called, `@declarator` a C declarator that holds the name, `@scope` the type a method is attached to,
`@base` what it implements, `@keyword` a word that must be listed in `Grammar.definers`. `@comment`, `@doc`, `@string`
and `@import` stand for themselves. A more specific pattern comes before a more general one.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Query

WORD = r"[^\W\d]\w+"  # names of one letter are not worth a reference


class Grammar(Struct, frozen=True):
    """One language. `keywords` are never references; `public` decides what counts as exported (see symbols)."""

    binding: str
    queries: tuple[str, ...]
    keywords: frozenset[str]
    public: str
    word: str = WORD
    definers: Mapping[str, str] = field(default_factory=dict)  # keyword → kind, for languages that define by call
    private_definers: frozenset[str] = frozenset()
    heritage: str = "words"  # how bases are written: "words" (extends …), "colon", "parens", "less", "none"
    clauses: bool = False  # a function may be written as several neighbouring equations
    doc_attribute: bool = False  # documentation is an attribute above the definition
    macros: bool = False  # has a preprocessor, whose words can break the syntax
    rescue: re.Pattern[str] | None = None  # functions, for files the grammar cannot read to the end


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false NULL define ifdef ifndef endif include undef pragma elif defined"
)
_CPP = _C + (
    " alignas alignof catch class concept const_cast constexpr consteval constinit decltype delete dynamic_cast "
    "explicit export final friend mutable namespace new noexcept nullptr operator override private protected public "
    "reinterpret_cast requires static_assert static_cast template this throw try typeid typename using virtual"
)
_JS = (
    "async await break case catch class const continue debugger default delete do else export extends false finally "
    "for from function get if import in instanceof let new null of return set static super switch this throw true "
    "try typeof undefined var void while with yield"
)
_TS = _JS + (
    " abstract any as asserts boolean declare enum implements infer interface is keyof namespace never number object "
    "private protected public readonly satisfies string symbol type unknown"
)
_SWIFT = (
    "actor any as associatedtype async await break case catch class continue convenience default defer deinit do "
    "dynamic else enum extension fallthrough false fileprivate final for func get guard if import in indirect init "
    "inout internal is lazy let mutating nil nonisolated open operator optional override private protocol public "
    "repeat required rethrows return self Self set some static struct subscript super switch throw throws true try "
    "typealias unowned var weak where while"
)
_PHP = (
    "abstract and array as bool break callable case catch class clone const continue declare default do echo else "
    "elseif empty enum extends false final finally float fn for foreach function global if implements include "
    "include_once instanceof insteadof int interface isset iterable list match mixed namespace never new null "
    "object or parent print private protected public readonly require require_once return self static string "
    "switch this throw trait true try unset use var void while xor yield php"
)
_KOTLIN = (
    "abstract actual annotation as break by catch class companion const constructor continue crossinline data do else "
    "enum expect external false final finally for fun get if import in infix init inline inner interface internal is "
    "it lateinit noinline null object open operator out override package private protected public reified return "
    "sealed set super suspend tailrec this throw true try typealias val value var vararg when where while"
)
_JAVA = (
    "abstract assert boolean break byte case catch char class const continue default do double else enum extends false "
    "final finally float for goto if implements import instanceof int interface long native new null package permits "
    "private protected public record return sealed short static strictfp super switch synchronized this throw throws "
    "transient true try var void volatile while yield"
)
_CSHARP = (
    "abstract as async await base bool break byte case catch char checked class const continue decimal default "
    "delegate do double dynamic else enum event explicit extern false finally fixed float for foreach get global goto "
    "if implicit in init int interface internal is lock long nameof namespace new null object operator out override "
    "params partial private protected public readonly record ref return sbyte sealed set short sizeof stackalloc "
    "static string struct switch this throw true try typeof uint ulong unchecked unsafe ushort using value var "
    "virtual void volatile when where while yield"
)

GRAMMARS: Mapping[str, Grammar] = {
    "python": Grammar(
        "python",
        ("python",),
        _words(
            "False None True and as assert async await break class continue def del elif else except finally for from "
            "global if import in is lambda nonlocal not or pass raise return self try while with yield cls"
        ),
        public="underscore",
        heritage="parens",
    ),
    "javascript": Grammar(
        "javascript", ("ecmascript", "jsx", "javascript"), _words(_JS), "export", word=r"[^\W\d][\w$]+"
    ),
    "typescript": Grammar("typescript", ("ecmascript", "typescript"), _words(_TS), "export", word=r"[^\W\d][\w$]+"),
    "tsx": Grammar("tsx", ("ecmascript", "jsx", "typescript"), _words(_TS), "export", word=r"[^\W\d][\w$]+"),
    "go": Grammar(
        "go",
        ("go",),
        _words(
            "any append bool break byte cap case chan close const continue copy default defer delete else error "
            "fallthrough false float32 float64 for func go goto if import int int32 int64 interface iota len make map "
            "new nil package panic range return rune select string struct switch true type uint uint64 uintptr var"
        ),
        public="capital",
        heritage="none",
    ),
    "rust": Grammar(
        "rust",
        ("rust",),
        _words(
            "Self as async await bool break const continue crate dyn else enum extern f32 f64 false fn for i16 i32 i64 "
            "i8 if impl in isize let loop match mod move mut pub ref return self static str struct super trait true "
            "type u16 u32 u64 u8 union unsafe use usize where while"
        ),
        public="pub",
        heritage="colon",
    ),
    "java": Grammar("java", ("java",), _words(_JAVA), "not-private"),
    "kotlin": Grammar("kotlin", ("kotlin",), _words(_KOTLIN), "not-private", heritage="colon"),
    "scala": Grammar(
        "scala",
        ("scala",),
        _words(
            "abstract case catch class def do else enum export extends extension false final finally for given if "
            "implicit import lazy match new null object override package private protected return sealed super then "
            "this throw trait true try type using val var while with yield"
        ),
        public="not-private",
    ),
    "c": Grammar("c", ("c",), _words(_C), "not-static", heritage="none", macros=True),
    "cpp": Grammar("cpp", ("c", "cpp"), _words(_CPP), "not-static", heritage="colon", macros=True),
    "csharp": Grammar("csharp", ("csharp",), _words(_CSHARP), "csharp", heritage="colon"),
    # `$name` is a local variable: never a use of something defined elsewhere.
    "php": Grammar("php", ("php",), _words(_PHP), "not-private", word=r"(?<![\w$])[^\W\d]\w+"),
    "ruby": Grammar(
        "ruby",
        ("ruby",),
        _words(
            "alias and begin break case class def defined do else elsif end ensure false for if in module next nil not "
            "or redo rescue retry return self super then true undef unless until when while yield"
        ),
        public="underscore",
        word=r"[^\W\d]\w+(?:[?!](?![=~]))?",
        definers={
            "attr_accessor": "property",
            "attr_reader": "property",
            "attr_writer": "property",
            "alias_method": "method",
            "define_method": "method",
        },
        heritage="less",
    ),
    "swift": Grammar("swift", ("swift",), _words(_SWIFT), "not-private", heritage="colon"),
    "elixir": Grammar(
        "elixir",
        ("elixir",),
        _words(
            "after alias and case catch cond def defdelegate defexception defguard defguardp defimpl defmacro "
            "defmacrop defmodule defoverridable defp defprotocol defstruct do doc else end false fn for if import in "
            "moduledoc nil not or quote raise receive require rescue spec true try unless unquote "
            "use when with"
        ),
        public="definer",
        word=r"[^\W\d]\w+(?:[?!](?![=~]))?",
        definers={
            "defmodule": "module",
            "defprotocol": "protocol",
            "defimpl": "impl",
            "def": "function",
            "defp": "function",
            "defdelegate": "function",
            "defguard": "function",
            "defguardp": "function",
            "defmacro": "macro",
            "defmacrop": "macro",
            "type": "type",
            "typep": "type",
            "opaque": "type",
            "callback": "method",
            "macrocallback": "method",
            "doc": "doc",
            "moduledoc": "doc",
            "typedoc": "doc",
        },
        private_definers=_words("defp defmacrop defguardp typep"),
        heritage="none",
        clauses=True,
        doc_attribute=True,
    ),
    "haskell": Grammar(
        "haskell",
        ("haskell",),
        _words(
            "as case class data default deriving do else family forall foreign hiding if import in infix infixl infixr "
            "instance let mdo module newtype of pattern proc qualified rec then type where"
        ),
        public="export-list",
        word=r"[^\W\d][\w']+",
        heritage="none",
        clauses=True,
    ),
    "lua": Grammar(
        "lua",
        ("lua",),
        _words(
            "and break do else elseif end false for function goto if in local nil not or repeat return self then true "
            "until while"
        ),
        public="not-local",
        heritage="none",
    ),
    "zig": Grammar(
        "zig",
        ("zig",),
        _words(
            "addrspace align allowzero and anyframe anytype asm async await bool break callconv catch comptime const "
            "continue defer else enum errdefer error export extern false fn for if inline linksection noalias noinline "
            "nosuspend null opaque or orelse packed pub resume return struct suspend switch test threadlocal true try "
            "type undefined union unreachable usingnamespace usize var void volatile while"
        ),
        public="pub",
        heritage="none",
    ),
    "bash": Grammar(
        "bash",
        ("bash",),
        _words(
            "break case continue declare do done echo elif else esac eval exit export false fi for function if in "
            "local printf read readonly return set shift test then true typeset unset until while"
        ),
        public="always",
        word=r"[^\W\d][\w-]*\w",
        definers={"alias": "alias"},
        heritage="none",
        rescue=re.compile(r"^[ \t]*(?:function[ \t]+)?([\w:.-]+)[ \t]*\(\)[ \t]*\{", re.MULTILINE),
    ),
}


@lru_cache(maxsize=64)
def language(name: str) -> Language:
    from tree_sitter import Language

    return Language(_binding(GRAMMARS[name].binding))


@lru_cache(maxsize=64)
def parser(name: str) -> Parser:
    from tree_sitter import Parser

    return Parser(language(name))


@lru_cache(maxsize=64)
def query(name: str) -> Query:
    from tree_sitter import Query

    folder = Path(__file__).with_name("queries")
    text = "\n".join((folder / f"{part}.scm").read_text("utf-8") for part in GRAMMARS[name].queries)
    return Query(language(name), text)


# The pack has no C#, and its Haskell (0.23) corrupts memory on real files: most of pandoc's sources killed the parser.
_OWN_PACKAGES = {"csharp": "tree_sitter_c_sharp", "haskell": "tree_sitter_haskell"}


def _binding(name: str) -> object:
    """The grammar's pointer, from the one shared library that holds it.

    Importing the language pack itself takes 40 ms, more than everything else a worker imports, and loads modules that
    are not needed here.
    """
    if package := _OWN_PACKAGES.get(name, ""):
        relative, module = "_binding", f"{package}._binding"
    else:
        package, relative, module = "tree_sitter_language_pack", f"bindings/{name}", f"{name}"
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations or ()) if found else ():
        for library in Path(folder).glob(f"{relative}.*"):
            if library.suffix in {".so", ".pyd"}:
                spec = ModuleSpec(module, ExtensionFileLoader(module, str(library)), origin=str(library))
                loaded = importlib.util.module_from_spec(spec)
                return loaded.language()
    raise LookupError(f"no grammar for {name} in {package}: install {package.replace('_', '-')} again")
