"""C, C++, Go, Rust, Dart, Ruby, Lua, Zig, shell, Elixir and Haskell: an import names one file or module, by path or
name. Also the pages that have Ruby or Elixir in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from posixpath import dirname

from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.errors import UsageError
from codeinfo.languages import model
from codeinfo.languages.ecmascript import show_code
from codeinfo.languages.manifests import package_name, read_cargo
from codeinfo.languages.model import Resolver, Tree, ancestors, join_path, nearest
from codeinfo.languages.routes import RAILS_TABLE, read_rails_routes
from codeinfo.model import Definition, Import

# --- C and C++: an include names a path from its file or from an include folder, which nothing here lists -------------
# Macros where the grammar expects none are hidden from the parser: `namespace a { A_NAMESPACE_BEGIN class B { … }` is
# one broken declaration to a parser without a preprocessor, and every definition inside is lost with it. Each such
# macro becomes spaces of the same length; only the parser sees them.

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


_OBJECTIVE_C_ONLY = re.compile(r"(?m)^[ \t]*(?:@(?:interface|protocol|class|import)\b|#[ \t]*import\b)")


def header_language(text: str) -> model.Language:
    if _OBJECTIVE_C_ONLY.search(text[:_HEADER_PROBE_CHARS]):
        return model.get_language("objective-c")
    return CPP if _CPP_ONLY.search(text[:_HEADER_PROBE_CHARS]) else C


# A macro around the name that a declaration defines: `typedef int A_CALLBACK(on_add)(cart *c);`.
_AROUND_NAME = re.compile(
    r"(?m)^([ \t]*(?!return\b|else\b|case\b|#)(?:\w+[ \t*]+)++)([A-Z][A-Z0-9_]{2,}\()(\w+)\)(?=\()"
)


_CONVENTION = re.compile(r"\(([A-Z][A-Z0-9_]+)(?=[ \t]+\*[ \t]*\w+\)[ \t]*\()")  # `(WINAPI *open_fn)(…)`
_MAY_BE_AROUND = re.compile(r"\((?<=[A-Z0-9_]\()\w+\)\(")  # the expression above tries every line


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
        found = self._tree.paths_ending_in(plain)
        found = found or tuple(path for path in self._tree.from_above(plain) if path in self._tree)
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
    if len(public) == 1:
        return public[0]
    top = min(folders, key=len)
    return folders[top] if all(folder.startswith(top) for folder in folders) else None


_C_SYNTAX = model.Syntax(grammar="c", members=(".", "->", "::"), exported=is_exported, hide=hide_macros)
_INCLUDES = model.ImportRules(read=read_include, resolver=CIncludes, headers=True)
C = model.Language("c", ".c", family="c", syntax=_C_SYNTAX, imports=_INCLUDES, names=model.NameRules(linked=True))
CPP = model.Language(
    "cpp",
    ".cpp .cc .cxx .c++ .hpp .hh .hxx .h++ .h .ipp .tpp .inl .cu .cuh .ino",
    family="c",
    syntax=replace(_C_SYNTAX, grammar="cpp", queries=("c", "cpp"), bases=model.bases_behind_colon),
    imports=_INCLUDES,
    names=model.NameRules(implicit_self=True, open_types=True),
)


# --- Go: an import names a folder below the path of a module in `go.mod`; a folder is a package ----------------------


_GO_MANIFEST = "go.mod"
_GO_VERSION, _NOT_IN_GO_NAMES = re.compile(r"v\d+"), re.compile(r"^go[-.]|[-.]go$|\.v\d+$")


def _go_bound(import_: Import) -> tuple[str]:
    """The package's conventional name in the importing file: the last part of its path that is not a version."""
    parts = [part for part in import_.module.split("/") if not _GO_VERSION.fullmatch(part)]
    return (import_.alias or _NOT_IN_GO_NAMES.sub("", parts[-1] if parts else import_.module),)


def _nested_go_manifest(manifest: str, inside: str) -> str:
    """The manifest a folder of a module would have if it were its own module."""
    name = package_name(_GO_MANIFEST, manifest)
    return f"module {name}/{inside}" if name else ""


def _go_imports(statement: str, line: int) -> Iterator[Import]:
    alias, _, _ = statement.strip().rpartition(" ")
    for module in model.QUOTED.findall(statement):
        yield Import(module, line, ("*",) if alias.strip() == "." else (), alias.strip(" ."))


class GoImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        manifests = (item for item in tree.configs.items() if item[0].rpartition("/")[2] == _GO_MANIFEST)
        modules = ((package_name(path, text), dirname(path)) for path, text in manifests)
        self._modules = [(name, folder) for name, folder in modules if name]
        self._modules.sort(key=lambda module: -len(module[0]))

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        for module, root in self._modules:
            if import_.module != module and not import_.module.startswith(module + "/"):
                continue
            folder = "/".join(filter(None, (root, import_.module[len(module) :].strip("/"))))
            files = self._package(folder)
            return model.Outcome(tuple(map(model.Target, files)), package=True) if files else model.UNRESOLVED
        return model.EXTERNAL

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        beside = self._package(source.folder, tests=source.path.endswith("_test.go"))
        return tuple(path for path in beside if self._tree.files[path].packages == source.packages)

    def _package(self, folder: str, *, tests: bool = False) -> tuple[str, ...]:
        files = self._tree.by_folder.get(folder, ())
        return tuple(path for path in files if path.endswith(".go") and (tests or not path.endswith("_test.go")))


GO = model.Language(
    "go",
    ".go",
    syntax=model.Syntax(grammar="go", exported=lambda declared: declared.name[:1].isupper(), constants_by_name=False),
    imports=model.ImportRules(
        read=_go_imports,
        resolver=GoImports,
        bound=_go_bound,
        by_use=True,
        owned=True,
        qualified=True,
        configs=(_GO_MANIFEST,),
        manifest=_GO_MANIFEST,
        nested_manifest=_nested_go_manifest,
    ),
    names=model.NameRules(
        explicit=True,
        open_types=True,
        structural=True,
        imports_show=True,
        outside="all",
        called_by_name=lambda definition: definition.kind == "method",  # of a type in another file
    ),
)


# --- Rust: `mod x;`, `use crate::…`, `super::`, `self::`, and the crates of one workspace ----------------------------


_RUST_ROOTS = ("lib.rs", "main.rs", "mod.rs")
_NOT_NEWLINE = re.compile(r"[^\n]")


def _rust_imports(statement: str, line: int) -> Iterator[Import]:
    text = model.COMMENT.sub(lambda comment: _NOT_NEWLINE.sub(" ", comment[0]), statement).rstrip("; \n")
    match = re.match(r"(pub(?:\s*\([^)]*\))?\s+)?(?:use|extern crate|mod)\s+", text)
    if not match:
        return
    reexport, rest = bool(match.group(1)), text[match.end() :]
    if match.group().split()[-1] == "mod":
        yield Import(f"self::{rest.strip()}", line)
        return
    if match.group().split()[-1] == "crate":
        for module, alias in model.items(rest):
            yield Import(module, line, (), alias, reexport)
        return
    for path, alias, below in _rust_paths(rest):
        module, _, name = path.rpartition("::")
        if name == "self" or not module:
            yield Import(module or name, line + below, (), alias, reexport)
        else:
            yield Import(module, line + below, (name,), alias, reexport)


def _rust_paths(written: str) -> Iterator[tuple[str, str, int]]:
    """The individual paths of `a::{b, c::{d, e as f}}`, each with the lines above it."""
    prefixes = [""]
    current, below = "", 0
    for match in re.finditer(r"[{},]|[^{},]+", written):
        token = match[0].strip()
        if token == "{":
            prefixes.append(prefixes[-1] + current)
            current = ""
        elif token in {",", "}"}:
            if current:
                yield *_rust_path(prefixes[-1], current), below
            current = ""
            if token == "}" and len(prefixes) > 1:
                prefixes.pop()
        elif token:
            current = token
            below = written.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip()))
    if current:
        yield *_rust_path(prefixes[-1], current), below


def _rust_path(prefix: str, item: str) -> tuple[str, str]:
    name, *alias = model.AS.split(item.strip(), maxsplit=1)
    return (prefix + name).removeprefix("::"), alias[0].strip() if alias else ""


def longer_path(written: Import, imports: Iterable[Import]) -> Import | None:
    """An import whose path starts with what another one binds, with the whole path: `use kit::cart; use cart::MOST`."""
    first, _, rest = written.module.partition("::")
    for import_ in imports:
        start = "::".join((import_.module, *import_.names))
        bound = import_.alias or start.rpartition("::")[2]
        if bound == first and import_ is not written and start != first:
            return replace(written, module="::".join(filter(None, (start, rest))))
    return None


class RustImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._roots: dict[str, tuple[str, ...]] = {}  # folder of a Cargo.toml → its root files
        self._crates: dict[str, str] = {}  # crate name → root file of its library
        self._known: dict[str, set[str]] = {}  # folder of a Cargo.toml → its own crate and dependencies
        self._renamed: dict[tuple[str, str], str] = {}  # folder of a Cargo.toml, name of a crate there → its own name
        for path in tree.by_name.get("Cargo.toml", ()):
            self._read_manifest(path, dirname(path))

    def _read_manifest(self, path: str, folder: str) -> None:
        self._known[folder], self._roots[folder] = set(), ()
        with suppress(UsageError, TypeError, AttributeError):  # a broken one
            cargo = read_cargo(self._tree.configs.get(path, ""))
            self._known[folder] = {cargo.name, *cargo.crates}
            self._renamed |= {(folder, name): package for name, package in cargo.crates.items() if name != package}
            roots = (cargo.library, "src/main.rs", *cargo.programs, *cargo.others)
            paths = dict.fromkeys(f"{folder}/{root}".lstrip("/") for root in roots)
            self._roots[folder] = tuple(file for file in paths if file in self._tree)
            if cargo.name and (library := f"{folder}/{cargo.library}".lstrip("/")) in self._tree:
                self._crates[cargo.name] = library

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        if _is_rust_file(import_):  # what is not text is in no index
            return self._first([join_path(source.folder, import_.module)], model.EXTERNAL)
        segments = [part.removeprefix("r#") for part in import_.module.split("::") if part]
        if not segments:
            return model.UNRESOLVED
        inline = sum(first < import_.line <= last for first, last in source.inline_modules)
        starts, rest, is_own = self._starts(source, segments, inline)
        for start in starts:
            file, items = self._walk(start, rest)
            if len(items) < len(rest) or not rest or is_own:
                return self._targets_of(file, items, import_)
        return model.UNRESOLVED if is_own else model.EXTERNAL

    def _starts(self, source: model.FileFacts, segments: list[str], inline: int) -> tuple[list[str], list[str], bool]:
        """Files to start from, the rest of the path, and whether it must lie in this crate."""
        first = segments[0]
        if first == "crate":
            return self._crate_roots(source), segments[1:], True
        if first in ("self", "super"):
            file: str | None = source.path
            while segments and segments[0] in ("self", "super"):
                if segments[0] == "super":
                    inline -= 1
                    if inline < 0 and file is not None:
                        file = self._parent(file)
                segments = segments[1:]
            return ([file] if file else []), segments, True
        # A file of tests is a crate: another one beside it is a module only where `mod` says so.
        may_have = first in source.exports or "/src/" in f"/{source.path}"
        if may_have and self._child(source.path, first):
            return [source.path], segments, False
        renamed = (self._renamed.get((folder, first)) for folder in ancestors(source.folder))
        crate = next(filter(None, renamed), first)
        # Cargo must offer the crate to the file: in others, `hir::Type` is a module called like it.
        known = (self._known[folder] for folder in ancestors(source.folder) if folder in self._known)
        if crate in self._crates and first in next(known, {first}):
            return [self._crates[crate]], segments[1:], True
        is_own = first in source.exports  # an enum or a module written in the file: `use Shape::*`
        return [source.path] if is_own else [], segments, is_own

    def _targets_of(self, file: str, items: list[str], import_: Import) -> model.Outcome:
        if items:
            return model.Outcome((model.Target(file, (items[0],)),))
        return model.Outcome(model.split_names(import_, file, partial(self._child, file)))

    def _walk(self, file: str, segments: list[str]) -> tuple[str, list[str]]:
        """As far as the path names modules with files of their own; the rest are items inside the last one."""
        for position, segment in enumerate(segments):
            if (inner := self._child(file, segment)) is None:
                return file, segments[position:]
            file = inner
        return file, []

    def _crate_roots(self, source: model.FileFacts) -> list[str]:
        for folder in ancestors(source.folder):
            if folder in self._roots:
                known = self._roots[folder]
                around = [root for root in known if source.path.startswith(root[: root.rfind("/") + 1])]
                if source.path in known:
                    return [source.path]
                inside = source.path.removeprefix(f"{folder}/" if folder else "")
                if inside.startswith("src/bin/") or not around:
                    return [source.path, *known]
                deepest = max(root.count("/") for root in around)
                return [root for root in around if root.count("/") == deepest]
        above = ancestors(source.folder)  # the manifest may lie above the root
        roots = (f"{folder}/{name}".lstrip("/") for folder in above for name in ("lib.rs", "main.rs"))
        return [path for path in roots if path in self._tree][:1]

    def _child(self, file: str, name: str) -> str | None:
        folder, _, last = file.rpartition("/")
        is_root = self._is_root(file)
        parts = [folder] if is_root else [folder, last.removesuffix(".rs")]
        base = "/".join(filter(None, (*parts, name)))
        candidates = [f"{base}.rs", f"{base}/mod.rs"]
        if not is_root:  # tests, examples and binaries are roots with their modules beside them
            beside = "/".join(filter(None, (folder, name)))
            if "/src/" not in f"/{file}" or "/src/bin/" in f"/{file}":  # not part of the module tree
                candidates += [f"{beside}.rs", f"{beside}/mod.rs"]
        return next((path for path in candidates if path in self._tree and path != file), None)

    def _is_root(self, file: str) -> bool:
        """Whether the modules of a file lie beside it."""
        folder, _, last = file.rpartition("/")
        is_script = last == "build.rs" and folder in self._roots
        return last in _RUST_ROOTS or is_script or any(file in roots for roots in self._roots.values())

    def _parent(self, file: str) -> str | None:
        folder, _, last = file.rpartition("/")
        if last == "mod.rs":
            folder = dirname(folder)
        elif last in _RUST_ROOTS or (last == "build.rs" and folder in self._roots):
            return None
        prefix = f"{folder}/" if folder else ""
        roots = (root for roots in self._roots.values() for root in roots if dirname(root) == folder)
        candidates = (f"{prefix}mod.rs", f"{prefix}lib.rs", f"{prefix}main.rs", f"{folder}.rs", *roots)
        return next((path for path in candidates if path in self._tree and path != file), None)


def _is_rust_file(import_: Import) -> bool:
    """Whether an import is a file that `include_str!("page.html")` or the like inserts."""
    return "." in import_.module


def _rust_bound(import_: Import) -> tuple[str, ...]:
    return () if _is_rust_file(import_) else model.last_name(import_)


RUST = model.Language(
    "rust",
    ".rs",
    syntax=model.Syntax(
        grammar="rust",
        members=(".", "::"),
        exported=model.marked_pub,
        bases=model.bases_behind_colon,
        in_strings=re.compile(r"(?<!\{)\{\w*(?::[^{}\n]*)?\}"),  # "{NAME} {total:>WIDTH$}"
        holding=re.compile(r"\w!\s*[(\[{](?:[^;{}]|\{(?:[^;{}]|\{[^;{}]*\})*\})*\Z"),  # of a macro
    ),
    imports=model.ImportRules(
        read=_rust_imports,
        calls=r"\binclude(?:_str|_bytes)?!\s*\(\s*\"(?P<module>[^\"\n]*\.[^\"\n]+)\"",
        call_words=("include",),
        resolver=RustImports,
        bound=_rust_bound,
        configs=("Cargo.toml",),
        deferred="types",
        paths=True,
    ),
    names=model.NameRules(
        explicit=True,
        open_types=True,
        imports_show=True,
        outside="all",
        inline_modules=True,
        inline_tests=True,
        calls="macro",
    ),
)


# --- Dart: by path, or by the name of a package in a `pubspec.yaml`; a library may have parts in other files ---------


_PUBSPEC = "pubspec.yaml"
_SHOWN = re.compile(r" show (.+?)(?: hide |$)")
_DART_AS = re.compile(r" as (\w+)")
# Generated files, which no index holds.
_DART_BUILT = re.compile(r"\.(?:g|gr|freezed|mocks|config|drift|mapper|pb\w*)\.dart$")


def _dart_imports(statement: str, line: int) -> Iterator[Import]:
    """One import for each file that a condition may choose. What a part defines is the library's own."""
    text = re.sub(r"\([^()]*\)", "", model.plain(statement))
    alias, shown = _DART_AS.search(text), _SHOWN.search(text)
    names = tuple(shown[1].replace(",", " ").split()) if shown else ("*",)
    timing = "lazy" if " deferred as " in text else ""
    is_passed_on = not text.startswith("import")
    for module in model.QUOTED.findall(text):
        yield Import(module, line, () if alias else names, alias[1] if alias else "", is_passed_on, timing)


class DartImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        self._prefix, self._tree = tree.from_top()
        manifests = ((path, text) for path, text in self._tree.configs.items() if path.endswith(_PUBSPEC))
        self._packages = group_by_key((package_name(path, text), dirname(path)) for path, text in manifests)
        own = (facts for facts in self._tree.files.values() if facts.language == "dart")
        self._libraries = group_by_key((library, facts.path) for facts in own for library in self._libraries_of(facts))

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        path = self._path(self._prefix + source.folder, import_.module)
        if path is None or not f"{path}/".startswith(self._prefix):
            return model.EXTERNAL
        inside = path.removeprefix(self._prefix)
        if path in self._tree:
            return model.Outcome((model.Target(inside, import_.names),))
        return model.EXTERNAL if _DART_BUILT.search(path) or self._tree.left_out(inside) else model.UNRESOLVED

    def _path(self, folder: str, uri: str) -> str | None:
        """The file that a URI means; None if it is in another package."""
        scheme, colon, rest = uri.partition(":")
        if not colon:
            return join_path(folder.rstrip("/"), uri)
        package, _, inside = rest.partition("/")
        home = nearest(self._packages.get(package, ()), folder) if scheme == "package" else None
        return None if home is None else join_path(home, f"lib/{inside}")

    def _libraries_of(self, facts: model.FileFacts) -> list[str]:
        """What the parts of a library have in common: its file, or a name and a folder."""
        named = (package if package.endswith(".dart") else f"{package} in {facts.folder}" for package in facts.packages)
        return [facts.path, *(self._path(facts.folder, path) or "" for path in named)]

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        """The library and its other parts."""
        own = replace(source, path=self._prefix + source.path)
        files = [path for library in self._libraries_of(own) for path in self._libraries.get(library, ())]
        return tuple(path.removeprefix(self._prefix) for path in dict.fromkeys(files) if path != own.path)


_DART_PARAMETERS = r"\((?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+\)"
_DART_HEADER = re.compile(
    r"(?m)^(?P<before>[ \t]*(?:(?:abstract|augment|base|final|interface|mixin|sealed)\s+)*(?:class|enum)\s+)"
    r"(?P<const>const\s+)?(?P<name>\w+\s*(?:<[^(){};=]*>\s*)?)"
    rf"(?P<constructor>(?:\.\w+\s*)?{_DART_PARAMETERS})(?P<bases>[^(){{}};=]*)(?P<body>\{{|;\s)"
)


def _hide_primary_constructors(text: str) -> str:
    """The grammar knows no constructor in the header of a class, and no class without a body: `class const Cart(final
    int total);`."""

    def hide(header: re.Match[str]) -> str:
        const, constructor = (re.sub(r"\S", " ", header[part] or "") for part in ("const", "constructor"))
        body = "{}" if header["body"].startswith(";") else header["body"]
        return header["before"] + const + header["name"] + constructor + header["bases"] + body

    return _DART_HEADER.sub(hide, text)


DART = model.Language(
    "dart",
    ".dart",
    shebangs="dart",
    syntax=model.Syntax(
        grammar="dart",
        members=(".", ".."),
        word=r"[^\W\d][\w$]+",
        exported=lambda declared: not declared.name.startswith("_"),
        bases=model.bases_behind_words,
        body_beside="function_body",
        hide=_hide_primary_constructors,
        in_strings=re.compile(r"\$(?:\w+|\{(?:[^{}]|\{[^{}]*\})*\})"),
    ),
    imports=model.ImportRules(
        read=_dart_imports, resolver=DartImports, timed=True, deferred="types", configs=(_PUBSPEC,), configs_above=True
    ),
    names=model.NameRules(
        explicit=True,
        implicit_self=True,
        imports_show=True,
        outside="all",
        private_to_file=True,
        libraries=True,
        named_extensions=True,
        called_as="call",
        symbols=r"(?<![\w)\]}?!\"'.])\.\0",  # `.name` is a member of the expected type, whichever that is
    ),
)


# --- Ruby, Lua, Zig and shell: by paths ------------------------------------------------------------------------------


_ZIG_MODULE = re.compile(r'\baddModule\(\s*"([^"]+)"\s*,\s*\.\{[^}"]*root_source_file\s*=\s*b\.path\("([^"]+)"\)')
_VARIABLE_PART = re.compile(r"^[\"']?(?:\$\{?[^/]*|\$\([^)]*\)|`[^`]*`)/")

_RAILS_CONFIG = "application.rb"
_RAILS_CLASS = (  # what precedes an association, or the class of one
    r"^[ \t]*(?:belongs_to|has_one|has_many|has_and_belongs_to_many)[ (]+(?=:)"
    r"|^[ \t]*factory[ (]+(?:(?=:\w+\b(?![^\n]*\bclass:))|:[^\n]*\bclass:[ ]*(?=[\"'][A-Z]))"
    r"|\bclass_name:[ ]*(?=[\"'][A-Z])"
    r"|\brender[ (]+(?:(?:[\w:]*(?:partial|template|layout|action))(?::|[ ]*=>)[ ]*)?(?=[\"'][\w/]+[\"'])"
)
_NO_VIEWS = frozenset("php blade twig javascript typescript tsx vue svelte css scss".split())
_RAILS_PATHS = re.compile(r"(?:\broot\}/|\bjoin\(\s*[\"'])([\w/]+)")


class RubyImports(Resolver):
    """By path; and a constant by the file named after it, below `lib`, a folder of `app` or one that a Rails
    application adds: its classes are autoloaded, and nothing imports them."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._roots = [*sorted(f for f in tree.folders if f.rpartition("/")[2] in ("lib", "app")), ""]
        self._constants: dict[str, list[str]] = {}  # `shop/lineitem`: what Shop::LineItem may mean
        self._own: dict[str, str] = {}  # the inverse
        views = (path for path, facts in tree.files.items() if "/views/" in path and facts.language not in _NO_VIEWS)
        self._views = group_by_key((_view_name(path), path) for path in views)
        self._in_views = group_by_key((dirname(name), name) for name in self._views)
        added = {
            join_path(dirname(path), f"../{folder}") or ""
            for path, text in tree.configs.items()
            if path.endswith(f"config/{_RAILS_CONFIG}")
            for folder in _RAILS_PATHS.findall(text)
        }
        for path, facts in tree.files.items():
            for root in ancestors(facts.folder) if path.endswith(".rb") else ():
                if root in added or _is_ruby_root(root):
                    key = _ruby_key(path[len(root) + 1 : -len(".rb")])
                    if not {key, key.partition("/")[0]}.isdisjoint(map(_ruby_key, facts.exports)):
                        self._constants.setdefault(key, []).append(path)
                        self._own[path] = key
                    break

    def whole(self, source: model.FileFacts, name: str) -> tuple[str, ...]:
        """Looked up in the enclosing modules first, which the file's path gives; the longest part of a chain counts."""
        parts = _ruby_key(name).split("/")
        for outer in ancestors(self._own.get(source.path, "")):
            for length in range(len(parts), 0, -1):
                paths = self._constants.get("/".join(filter(None, (outer, *parts[:length]))), ())
                if path := nearest(paths, source.folder):
                    return (path,)
        return ()

    def quoted(self, source: model.FileFacts, name: str) -> tuple[model.Target, ...]:
        return tuple(model.Target(path, self._tree.files[path].exports) for path in self.whole(source, name))

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        if import_.module[0].isupper() or import_.module[0] == ":" or "#" in import_.module:
            classes = self._of_rails(source, import_.module)
            return model.Outcome(tuple(model.Target(path, self._tree.files[path].exports) for path in classes))
        name = import_.module.removesuffix(".rb") + ".rb"
        if import_.module.startswith("."):
            return self._first([join_path(source.folder, name)], model.UNRESOLVED)
        above = ancestors(source.folder)
        near = [root for folder in above for root in (f"{folder}/lib".lstrip("/"), f"{folder}/test".lstrip("/"))]
        near += [folder for folder in above if folder.rpartition("/")[2] in ("lib", "test", "spec")]
        paths = (*(join_path(root, name) for root in (*near, *self._roots)), *self._tree.from_above(name))
        folder = _views_of(source.path)
        views = self._views.get(import_.module, self._views.get(f"{folder}/{import_.module}", ()))
        return self._first(paths, model.Outcome(tuple(map(model.Target, views))) if views else model.EXTERNAL)

    def shows(self, source: model.FileFacts) -> Iterable[str]:
        """The pages of a controller or a mailer."""
        folder = _views_of(source.path) if "/views/" not in source.path else ""
        names = self._in_views.get(folder, ()) if folder else ()
        return [path for name in names for path in self._views[name] if not path.rpartition("/")[2].startswith("_")]

    def _of_rails(self, source: model.FileFacts, name: str) -> tuple[str, ...]:
        """The class of an association (`:line_items`, `"Shop::LineItem"`), which may be polymorphic, or the controller
        of a route (`admin/carts#`): of several, that in the namespace of the file (`config/routes/admin.rb`), if there
        is one, otherwise the nearest to the top."""
        plain, is_route, _ = name.lstrip(":").partition("#")
        if is_route:
            controller = _ruby_key(f"{plain}_controller")
            keys = {key for key in self._constants if f"/{key}".endswith(f"/{controller}")}
            drawn = _ruby_key(source.path.partition("config/routes/")[2].removesuffix(".rb"))
            keys = {key for key in keys if drawn and key == f"{drawn}/{controller}"} or keys
            depth = min((key.count("/") for key in keys), default=0)
            return tuple(path for key in sorted(keys) if key.count("/") == depth for path in self._constants[key])
        singular = (plain, plain.removesuffix("s"), plain.removesuffix("es"), re.sub(r"ies$", "y", plain))
        return next(filter(None, (self.whole(source, name.replace("::", ".")) for name in singular)), ())


def _view_name(path: str) -> str:
    """What renders a template of Rails: `shop/cart` for `app/views/shop/_cart.html.erb`."""
    folder, _, name = path.partition("/views/")[2].rpartition("/")
    return f"{folder}/{name.removeprefix('_').partition('.')[0]}".lstrip("/")


def _views_of(path: str) -> str:
    """The folder whose templates a file names without it."""
    inside = re.search(r"/(?:controllers|mailers)/(.+?)(?:_controller)?\.rb\Z|/views/(.+)/", path)
    return "".join(filter(None, inside.groups())) if inside else ""


def _is_ruby_root(folder: str) -> bool:
    above, _, name = folder.rpartition("/")
    return name in ("lib", "concerns") or (above.rpartition("/")[2] == "app" and name not in ("views", "assets"))


def _ruby_key(path: str) -> str:
    """A path or a constant in a common form, however it spells acronyms."""
    return path.replace("_", "").replace(".", "/").lower()


class LuaImports(Resolver):
    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        base = import_.module.replace(".", "/")
        paths = self._tree.paths_ending_in(base + ".lua") or self._tree.paths_ending_in(base + "/init.lua")
        rooted = [path for path in paths if path.startswith(base) or f"lua/{base}" in path or f"src/{base}" in path]
        above = (f"{start}{end}" for start in self._tree.from_above(base) for end in (".lua", "/init.lua"))
        chosen = [nearest(rooted, source.folder)] if rooted else (path.lstrip("/") for path in above)
        return self._first(chosen, model.EXTERNAL)


class ZigImports(Resolver):
    """By path, or by the name of a module that a `build.zig` adds."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._modules: dict[tuple[str, str], str] = {}  # (folder of the build.zig, name) → file
        for path, text in tree.configs.items():
            folder, _, file = path.rpartition("/")
            for name, root in _ZIG_MODULE.findall(text) if file == "build.zig" else ():
                self._modules[folder, name] = join_path(folder, root) or ""

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        if not import_.module.endswith((".zig", ".zon")):
            added = (self._modules.get((folder, import_.module)) for folder in ancestors(source.folder))
            return self._first(added, model.EXTERNAL)
        return self._first([join_path(source.folder, import_.module)], model.UNRESOLVED)


class BashImports(Resolver):
    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        fixed = _VARIABLE_PART.sub("", import_.module)
        if "$" in fixed or fixed.startswith(("/", "~")):
            return model.EXTERNAL
        named = self._tree.paths_ending_in(fixed)
        missing = model.UNRESOLVED if fixed == import_.module else model.EXTERNAL  # a variable may lead anywhere
        return self._first((join_path(source.folder, fixed), *(named if len(named) == 1 else ())), missing)


def ruby_bases(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    match = re.match(r"\s*<\s*([\w:]+)", rest)
    return (match.group(1),) if match else ()


def _by_word(**words: str) -> dict[str, str]:
    return {word: kind for kind, listed in words.items() for word in listed.split()}


_RUBY_SYMBOL = r"(?<!:):\0|\0:(?!:)|@\0"  # `:name` and `name:`, which may name a method, and `@name`, a variable

RUBY = model.Language(
    "ruby",
    ".rb .rake .gemspec .ru .rbi .podspec .jbuilder",
    filenames="Rakefile Gemfile Guardfile Vagrantfile Podfile Fastfile Brewfile Capfile",
    shebangs="ruby jruby rake",
    syntax=model.Syntax(
        grammar="ruby",
        members=(".", "::", "&."),
        word=r"[^\W\d]\w+(?:[?!](?![=~]))?",
        exported=model.without_underscore,
        definers=_by_word(
            property="attr_accessor attr_reader attr_writer delegate", method="alias_method define_method scope"
        ),
        bases=ruby_bases,
        names_in_strings=re.compile(r"(?:::)?[A-Z]\w*(?:::[A-Z]\w*)+|(?:[A-Z][a-z0-9]+){2,}"),
    ),
    imports=model.ImportRules(
        calls=(
            r"(?=[ \tabcfhlr])(?:^|\b(?=[cr]))"  # most places fail here
            r"(?:^[ \t]*(?:require|(?P<relative>require_relative)|load)[ (]+(?=[\"'])"
            rf"|(?P<lazy>^[ \t]*autoload[ (]+:(?P<alias>\w+),[ ]*|{_RAILS_CLASS}))"
            r"[\"']?(?P<module>:\w+|(?<=[\"'])[^\"'\n]+(?=[\"']))"
        ),
        timed=True,
        resolver=RubyImports,
        by_use=True,
        whole_names=True,
        configs=(_RAILS_CONFIG,),
        table=(RAILS_TABLE, read_rails_routes),
    ),
    names=model.NameRules(implicit_self=True, open_types=True, constants=True, calls="bare", symbols=_RUBY_SYMBOL),
)
LUA = model.Language(
    "lua",
    ".lua .rockspec",
    filenames=".luacheckrc",
    shebangs="lua luajit",
    syntax=model.Syntax(grammar="lua", members=(".", ":"), exported=lambda declared: "local" not in declared.before),
    imports=model.ImportRules(
        calls=(
            r"(?:\blocal[ \t]+(?P<alias>\w+)[ \t]*=[ \t]*)?"
            r"\brequire[ \t]*[(,]?[ \t]*[\"'](?P<module>[^\"'\n]+)[\"']"
        ),
        call_words=("require",),
        timed=True,
        resolver=LuaImports,
    ),
    names=model.NameRules(tables=True),
)
ZIG = model.Language(
    "zig",
    ".zig .zon",
    syntax=model.Syntax(grammar="zig", exported=model.marked_pub),
    imports=model.ImportRules(
        calls=r"(?:\bconst[ \t]+(?P<alias>\w+)[ \t]*=[ \t]*)?@import\([ \t]*\"(?P<module>[^\"\n]+)\"",
        resolver=ZigImports,
        deferred="types",
        configs=("build.zig",),
    ),
    names=model.NameRules(inline_tests=True),
)
BASH = model.Language(
    "bash",
    ".sh .bash .zsh .ksh .bats .ebuild .command",
    filenames=".bashrc .bash_profile .bash_aliases .profile .zshrc .zprofile .zshenv PKGBUILD",
    shebangs="bash sh zsh dash ksh ash bats",
    syntax=model.Syntax(
        grammar="bash",
        word=r"[^\W\d][\w-]*\w",
        definers={"alias": "alias"},
        rescue=re.compile(r"^[ \t]*(?:function[ \t]+)?([\w:.-]+)[ \t]*\(\)[ \t]*\{", re.MULTILINE),
    ),
    imports=model.ImportRules(
        calls=r"^[ \t]*\\?(?:source|\.)[ \t]+[\"']?(?P<module>[^\s\"';|&<][^\s\"';|&]*)", resolver=BashImports
    ),
)


# --- Elixir and Haskell: by the names of modules ---------------------------------------------------------------------


class HaskellImports(Resolver):
    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        return self._of_modules(source, import_, [import_.module]) or model.EXTERNAL

    def _of_modules(self, source: model.FileFacts, import_: Import, modules: list[str]) -> model.Outcome | None:
        family, known = model.language_family(source.language), self._tree.by_package
        files = dict.fromkeys(path for module in modules for path in known.get((family, module), ()))
        if not files:
            return None
        return model.Outcome(tuple(model.Target(path, import_.names if len(files) == 1 else ()) for path in files))


def whole_module(source: model.FileFacts, written: str) -> str:
    """The name of a module of Elixir: in a file, `__MODULE__.Price` is mostly one of the first module in it."""
    return written.replace("__MODULE__", source.packages[0]) if source.packages else written


class ElixirImports(HaskellImports):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        templates = (path for path, facts in tree.files.items() if facts.rules.is_template)
        self._templates = group_by_key((home, path) for path in templates for home in _template_homes(path))

    def shows(self, source: model.FileFacts) -> Iterable[str]:
        return self._templates.get(source.path, ())

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        import_ = replace(import_, module=whole_module(source, import_.module))
        modules = [f"{import_.module}.{name}" for name in import_.names]  # `alias Shop.{Cart, Price}` names modules
        if found := self._of_modules(source, import_, modules or [import_.module]):
            return found
        # Packages share their first name (Phoenix.PubSub is not one of Phoenix's modules), rarely a longer one.
        around = import_.module.rpartition(".")[0]
        is_own = "." in around and (model.language_family(source.language), around) in self._tree.by_package
        return model.UNRESOLVED if is_own else model.EXTERNAL


def _template_homes(path: str) -> tuple[str, ...]:
    """The modules that may have a template as a function: beside it or its folder, or a view as in older Phoenix."""
    folder, _, name = path.rpartition("/")
    return (
        f"{folder}/{name.partition('.')[0]}.ex",
        f"{folder}.ex",
        f"{folder.replace('/templates/', '/views/')}_view.ex",
    )


def read_haskell_import(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(re.sub(r"--[^\n]*", "", statement).split())
    match = re.match(r'import (?:safe )?(?:qualified )?(?:"[^"]*" )?([\w.]+)(?: qualified)?(?: as ([\w.]+))?(.*)', text)
    if not match:
        return
    module, alias, rest = match.groups()
    names: tuple[str, ...] = ()
    if rest.strip().startswith("("):
        flat = re.sub(r"(?<=\w)\s?\([^()]*\)", "", rest.strip()[1:].rstrip().removesuffix(")"))
        names = tuple(name.strip("() ") for name in flat.split(",") if name.strip("() "))
    elif "qualified" not in text and not alias:
        names = ("*",)
    yield Import(module, line, names, alias or "")


def is_elixir_package(definition: Definition) -> bool:
    """A protocol is a module."""
    return model.is_package(definition) or definition.kind in ("module", "protocol")


ELIXIR = model.Language(
    "elixir",
    ".ex .exs",
    shebangs="elixir",
    syntax=model.Syntax(
        grammar="elixir",
        word=r"[^\W\d]\w+(?:[?!](?![=~]))?",
        definers=_by_word(
            module="defmodule",
            protocol="defprotocol",
            impl="defimpl",
            function="def defp defdelegate defguard defguardp",
            macro="defmacro defmacrop",
            type="type typep opaque",
            method="callback macrocallback",
            doc="doc moduledoc typedoc",
        ),
        private_definers=frozenset("defp defmacrop defguardp typep".split()),
        clauses=True,
        doc_attribute=True,
        # In `~H` expressions and components: `<.button disabled={busy?(@job)}>`, `<Layout.page>`, `<%= call() %>`.
        in_strings=re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}|<%[^%]*%>|(?<=<\.)\w+|(?<=<)[A-Z][\w.]*"),
        holding=re.compile(r"~H\W{1,3}\Z"),
    ),
    imports=model.ImportRules(
        calls=(
            r"^[ \t]*(?:alias|import|use|require)[ \t]+(?P<module>(?:[A-Z]|__MODULE__)\w*(?:\.\w+)*)"
            r"(?:\.\{(?P<names>[^}]{0,2000})\}|[^\n]*?\bas:[ \t]*(?P<alias>\w+))?"
        ),
        resolver=ElixirImports,
        deferred="lazy",
        by_use=True,
        whole_names=True,
        binds_last=True,
    ),
    names=model.NameRules(whole_modules=True, package=is_elixir_package, called_by_platform=True, calls="bare"),
)
HASKELL = model.Language(
    "haskell",
    ".hs .hs-boot .hsc",
    shebangs="runhaskell stack cabal",
    syntax=model.Syntax(grammar="haskell", word=r"[^\W\d][\w']+", export_list=True, clauses=True),
    imports=model.ImportRules(read=read_haskell_import, resolver=HaskellImports),
    names=model.NameRules(calls="bare"),
)

# --- ERB, HEEx and Haml: pages with code of Ruby or Elixir in them --------------------------------------------------

_ERB_COMMENT = re.compile(r"<%!--.*?(?:--%>|\Z)|<%-?\s*#.*?(?:%>|\Z)", re.DOTALL)
_TAGS = r"<%%|<%!--.*?(?:--%>|\Z)|<%-?\s*#.*?(?:%>|\Z)|<%[-=|/]{0,2}(?P<code>(?:[^%<-]++|-(?!%>)|%(?!>)|<(?!%))*+)-?%>"
_ERB = re.compile(_TAGS, re.DOTALL)
# Expressions and components: `<.button disabled={busy?(@job)}>`, `<Layout.page>`.
_HEEX = re.compile(
    rf"<!--.*?(?:-->|\Z)|{_TAGS}|\{{(?P<block>(?:[^{{}}]++|\{{[^{{}}]*+\}})*+)\}}|<\.(?P<name>\w+)|<(?P<tag>[A-Z][\w.]*)",
    re.DOTALL,
)


def _show_erb(text: str) -> str:
    return show_code(text, _ERB.finditer(text))


_HAML_HIDDEN = re.compile(  # comments and texts in other languages, with what is indented below them
    r"(?m)^(?P<indent>[ \t]*)(?:-#|:\w+$)[^\n]*(?:\n(?:(?P=indent)[ \t]+[^\n]*|[ \t]*(?=\n|\Z)))*"
)
_HAML = re.compile(
    r"(?m)^[ \t]*(?:(?P<tag>[%.#][\w:-]+(?:[.#][\w:-]+)*(?P<attributes>\{(?:[^{}]|\{[^{}]*\})*\})?"
    r"(?:\([^()\n]*\))?(?:\[[^\]\n]*\])?[<>/]*))?"
    r"(?:(?:[!&]?==?|~|(?<![^ \t\n])-)(?P<code>[^\n]*(?:(?:(?<=,)|(?<= \|))\n[^\n]*)*)|(?P<text>[^\n]*))"
)
_INSERTED = re.compile(r"#\{([^{}\n]*)\}")
_HAML_BLOCK = re.compile(r"\bdo(?:[ \t]*\|(?P<names>[^|\n]*)\|)?[ \t]*\Z")
_HAML_KEYWORD = re.compile(r"\A([ \t]*)(?:if|unless|elsif|else|while|until|case|when|begin|rescue|ensure|end)\b")


def _show_haml(text: str) -> str:
    """The Ruby of a page, each line a statement: blocks end by indentation, so that what begins one is left out, and
    what a block is called with is an unknown value in it."""
    seen = list(re.sub(r"[^\n]", " ", text))
    blocks: list[tuple[int, str]] = []  # their indentation, and the names of their values
    text = _HAML_HIDDEN.sub(lambda hidden: re.sub(r"[^\n]", " ", hidden[0]), text)

    def show(start: int, code: str) -> None:
        names = [name for _, written in blocks for name in re.findall(r"\w+", written)]
        if names:
            code = re.sub(rf"(?<![\w.:@$])(?:{'|'.join(names)})\b(?!:)", lambda name: "_".rjust(len(name[0])), code)
        seen[start : start + len(code)] = code
        if start and seen[start - 1] == " ":
            seen[start - 1] = ";"

    for row in _HAML.finditer(text):
        indent = len(row[0]) - len(row[0].lstrip(" \t"))
        while row[0].strip() and blocks and blocks[-1][0] >= indent:
            blocks.pop()
        if attributes := row["attributes"]:
            show(row.start("attributes"), f"[{attributes[1:-1]}]")
        for inserted in _INSERTED.finditer(row["text"] or ""):
            show(row.start("text") + inserted.start(1), inserted[1])
        if code := row["code"]:
            block = _HAML_BLOCK.search(code)
            code = _HAML_KEYWORD.sub(model.blank, code.replace(" |\n", "  \n"))
            show(row.start("code"), _HAML_BLOCK.sub(model.blank, code))
            if block:
                blocks.append((indent, block["names"] or ""))
    return "".join(seen)


LANGUAGES = (
    *(C, CPP, GO, RUST, DART, RUBY, LUA, ZIG, BASH, ELIXIR, HASKELL),
    RUBY.as_template("erb", ".erb", _show_erb, _ERB_COMMENT),
    RUBY.as_template("haml", ".haml", _show_haml, _HAML_HIDDEN),
    ELIXIR.as_template("eex", ".eex .leex", _show_erb, _ERB_COMMENT),
    ELIXIR.as_template("heex", ".heex", lambda text: show_code(text, _HEEX.finditer(text)), _ERB_COMMENT),
)
