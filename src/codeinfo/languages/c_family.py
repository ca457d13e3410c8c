"""C and C++: an include names a path from the including file or from an include folder, which nothing here lists.

Macros where the grammar expects none are hidden from the parser: `namespace a { A_NAMESPACE_BEGIN class B { … }` is one
broken declaration to a parser without a preprocessor, and every definition inside is lost with it. Each such macro
becomes spaces of the same length; only the parser sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from codeinfo.languages import model
from codeinfo.languages.model import Resolver, ancestors, join_path, nearest
from codeinfo.model import Import

# Headers of the C library and of POSIX: a local file of this name is meant only by a quoted include beside it.
_STANDARD = frozenset(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic "
    "stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype unistd fcntl strings "
    "dirent dlfcn fnmatch ftw glob grp iconv langinfo libgen netdb poll pthread pwd regex sched semaphore spawn syslog "
    "termios utime windows".split()
)
_SYSTEM_FOLDERS = ("sys/", "net/", "netinet/", "arpa/", "linux/", "asm/", "bits/", "mach/")
# C++ only, at the start of a line or unmistakable anywhere. Without it a header is plain C.
_CPP_ONLY = re.compile(
    r"^[ \t]*(?:class\s+\w|namespace\b|template\s*<|using\s+\w|public:|private:|protected:|#include\s*<[a-z_]+>)"
    r"|\b(?:std::|constexpr\b|nullptr\b|static_cast<|noexcept\b|typename\b)",
    re.MULTILINE,
)
_HEADER_PROBE_CHARS = 20_000  # a C++ header reveals itself early; reading on costs more than a wrong guess
_MACRO = re.compile(r"[A-Z][A-Z0-9_]{3,}(?:\([\w.,>&*-]*\))?(?=[ \t]*(?:;|=|\r?\n|\w))")
_SCAFFOLD = re.compile(r"Q_OBJECT|Q_GADGET|\w*(?:_BEGIN|BEGIN_|_END|END_|NAMESPACE|DECLS)\w*")
_DECORATION = re.compile(r"\w+(?:_API|_EXPORT|_EXTERN|_INLINE|_ATTRIBUTE_\w+)|\w*(?:CONSTEXPR|NODISCARD|DEPRECATED)\w*")
# Attributes to compilers, wherever they stand: `void f() A_ATTRIBUTE_COLD {`, `char* a_nonnull name`.
_ATTRIBUTE = re.compile(
    r"\b(?:[A-Z]\w*_ATTRIBUTE_[A-Z0-9_]+(?:\([\w.,>&* -]{0,200}\))?"
    r"|[a-z]\w*_(?:nonnull|nullable|nullability_unknown)|_Nonnull|_Nullable"
    r"|(?<=[)] )[A-Z][A-Z0-9]*_(?:EXCLUSIVE|SHARED|LOCKS|UNLOCK|NO_THREAD|GUARDED)\w*(?:\([\w.,>&* ()-]{0,200}\))?)"
    r"(?=[\s,;)&*{])"
)
# Each contains one of these: the expression tries every word of a file, so it is only run if one is found.
_ATTRIBUTE_PARTS = tuple(
    "_ATTRIBUTE_ _nonnull _null _Nonnull _Nullable _EXCLUSIVE _SHARED _LOCKS _UNLOCK _NO_THREAD _GUARDED".split()
)


def header_language(text: str) -> model.Language:
    return CPP if _CPP_ONLY.search(text[:_HEADER_PROBE_CHARS]) else C


# A macro around the name that a declaration defines: `typedef int A_CALLBACK(on_add)(cart *c);`.
_AROUND_NAME = re.compile(
    r"(?m)^([ \t]*(?!return\b|else\b|case\b|#)(?:\w+[ \t*]+)++)([A-Z][A-Z0-9_]{2,}\()(\w+)\)(?=\()"
)


_CONVENTION = re.compile(r"\(([A-Z][A-Z0-9_]+)(?=[ \t]+\*[ \t]*\w+\)[ \t]*\()")  # `(WINAPI *open_fn)(…)`
_MAY_BE_AROUND = re.compile(r"[A-Z0-9_]\(\w+\)\(")  # the expression above tries every line


def hide_macros(text: str) -> str:
    text = _CONVENTION.sub(lambda found: f"({' ' * len(found[1])}", text)
    if _MAY_BE_AROUND.search(text):
        text = _AROUND_NAME.sub(lambda found: f"{found[1]}{' ' * len(found[2])}{found[3]} ", text)
    if any(part in text for part in _ATTRIBUTE_PARTS):
        # The definition of such a macro keeps its name.
        text = _ATTRIBUTE.sub(_hide_use if "#define" in text else model.blank, text)
    return _MACRO.sub(_hide_macro, text)


def _hide_use(match: re.Match[str]) -> str:
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return match.group() if line.lstrip().startswith("#") else model.blank(match)


def _hide_macro(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    before, after = text[max(0, start - 8) : start], text[end : end + 3]
    macro = match.group()
    called = macro.endswith(")")
    hide = False
    if before[-1:] in {"", "\n"} or before.isspace() or before.rpartition("\n")[2].isspace():
        alone = after.lstrip(" \t;\r")[:1] in {"", "\n"}
        hide = (_SCAFFOLD if alone else _DECORATION).fullmatch(macro) is not None
    elif before.endswith((" class ", "\nclass ", " struct ", "\nstruct ")):
        hide = after[:1] == " " and after[1:2].isidentifier()  # class A_EXPORT Name
    elif called:
        hide = before[-1] == " " and before[-2:-1].isidentifier() and after.lstrip(" ")[:1] in {";", "="}  # guarded_by
    else:
        hide = before.endswith(") ") and after[:1] == ";"
    return model.blank(match) if hide else macro


def read_include(statement: str, line: int) -> Iterator[Import]:
    if match := re.search(r'"([^"\n]+)"|(<[^>\n]+>)', statement):
        yield Import(match.group(1) or match.group(2), line)


def is_exported(declared: model.Declared) -> bool:
    return declared.outer is not None or "static" not in declared.before


class CIncludes(Resolver):
    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        system = import_.module.startswith("<")
        name = import_.module.strip("<>")
        beside = join_path(source.folder, name)
        if not system and beside in self._tree:
            return self._first([beside], model.UNRESOLVED)
        if name.removesuffix(".h") in _STANDARD or (system and ("." not in name or name.startswith(_SYSTEM_FOLDERS))):
            return model.EXTERNAL
        plain = "/".join(part for part in name.split("/") if part not in ("..", ".", ""))
        found = self._tree.paths_ending_in(plain) or tuple(
            path for path in self._tree.from_above(plain) if path in self._tree
        )
        if not found:
            return model.EXTERNAL if system or "/" in name else model.UNRESOLVED
        if system and len(found) > 1:  # a local header would be written in quotes
            found = tuple(path for path in found if path != beside)
        # What is deeper in a folder called `include` is written with its folders: `"shop/cart.h"`.
        found = tuple(path for path in found if f"/{path}".rpartition("/include/")[2] in (plain, f"/{path}")) or found
        around = [path for path in found if path.removesuffix(plain).rstrip("/") in ancestors(source.folder)]
        chosen = max(around or found, key=len) if around or len(found) == 1 else nearest(found, source.folder)
        return self._first([chosen or _from_include_folder(found, plain)], model.UNRESOLVED)


def _from_include_folder(found: tuple[str, ...], name: str) -> str | None:
    """The one directly in a folder called `include`, where public headers are; otherwise the one whose folder has all
    the others below it: `posix.h` beside `unix/posix.h`."""
    folders = {path.removesuffix(name): path for path in found}
    public = [path for folder, path in folders.items() if folder.rstrip("/").rpartition("/")[2] == "include"]
    top = min(folders, key=len)
    return (
        public[0] if len(public) == 1 else folders[top] if all(folder.startswith(top) for folder in folders) else None
    )


_C_SYNTAX = model.Syntax(grammar="c", members=(".", "->", "::"), exported=is_exported, hide=hide_macros)
_IMPORTS = model.ImportRules(read=read_include, resolver=CIncludes, headers=True)
C = model.Language("c", ".c", family="c", syntax=_C_SYNTAX, imports=_IMPORTS, names=model.NameRules(linked=True))
CPP = model.Language(
    "cpp",
    ".cpp .cc .cxx .c++ .hpp .hh .hxx .h++ .h .ipp .tpp .inl .cu .cuh .ino",
    family="c",
    syntax=replace(_C_SYNTAX, grammar="cpp", queries=("c", "cpp"), bases=model.bases_behind_colon),
    imports=_IMPORTS,
    names=model.NameRules(implicit_self=True, open_types=True),
)
LANGUAGES = (C, CPP)
