"""Rust: `mod x;`, `use crate::…`, `super::`, `self::`, and the crates of one workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeinfo.languages import model
from codeinfo.languages.model import Resolver, Tree, ancestors, items
from codeinfo.model import Import

_ROOT_FILES = ("lib.rs", "main.rs", "mod.rs", "build.rs")
_SECTION = re.compile(r"^\s*\[(\w[\w.-]*)\]", re.MULTILINE)
_VALUE = re.compile(r'^\s*(name|path)\s*=\s*"([^"]+)"', re.MULTILINE)


def read_import(statement: str, line: int) -> Iterator[Import]:
    text = model.plain(statement)
    match = re.match(r"(pub(?:\s*\([^)]*\))?\s+)?(?:use|extern crate|mod)\s+", text)
    if not match:
        return
    reexport, rest = bool(match.group(1)), text[match.end() :]
    if match.group().endswith("mod "):
        yield Import(f"self::{rest}", line)
        return
    if match.group().endswith("crate "):
        for module, alias in items(rest):
            yield Import(module, line, (), alias, reexport)
        return
    for path, alias in _expanded(rest):
        module, _, name = path.rpartition("::")
        if name == "self" or not module:
            yield Import(module or name, line, (), alias, reexport)
        else:
            yield Import(module, line, (name,), alias, reexport)


def _expanded(written: str) -> Iterator[tuple[str, str]]:
    """The single paths of `a::{b, c::{d, e as f}}`."""
    prefixes = [""]
    current = ""
    for token in re.findall(r"[{},]|[^{},]+", written):
        if token == "{":
            prefixes.append(prefixes[-1] + current.strip())
            current = ""
        elif token in {",", "}"}:
            if current.strip():
                yield _path(prefixes[-1], current)
            current = ""
            if token == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            current = token
    if current.strip():
        yield _path(prefixes[-1], current)


def _path(prefix: str, item: str) -> tuple[str, str]:
    name, *alias = model.AS.split(item.strip(), maxsplit=1)
    return (prefix + name).removeprefix("::"), alias[0].strip() if alias else ""


class RustImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._roots: dict[str, tuple[str, ...]] = {}  # folder of a Cargo.toml → its root files
        self._crates: dict[str, str] = {}  # crate name → root file of its library
        for path in tree.by_name.get("Cargo.toml", ()):
            self._read_manifest(path, path.rpartition("/")[0])

    def _read_manifest(self, path: str, folder: str) -> None:
        values: dict[tuple[str, str], str] = {}
        pieces = _SECTION.split(self._tree.configs.get(path, ""))
        for section, body in zip(pieces[1::2], pieces[2::2], strict=False):
            for key, value in _VALUE.findall(body):
                values.setdefault((section, key), value)
        prefix = f"{folder}/" if folder else ""
        library = prefix + values.get(("lib", "path"), "src/lib.rs")
        self._roots[folder] = tuple(file for file in (library, f"{prefix}src/main.rs") if file in self._tree)
        name = values.get(("lib", "name")) or values.get(("package", "name"), "")
        if name and library in self._tree:
            self._crates[name.replace("-", "_")] = library

    def resolve(self, source: model.FileFacts, written: Import) -> model.Outcome:
        segments = [part.removeprefix("r#") for part in written.module.split("::") if part]
        if not segments:
            return model.UNRESOLVED
        inline = sum(first < written.line <= last for first, last in source.inline_modules)
        starts, rest, own = self._starts(source, segments, inline)
        for start in starts:
            file, items = self._walk(start, rest)
            if len(items) < len(rest) or not rest or own:
                return self._taken(file, items, written)
        return model.UNRESOLVED if own else model.EXTERNAL

    def _starts(self, source: model.FileFacts, segments: list[str], inline: int) -> tuple[list[str], list[str], bool]:
        """Files to start from, what remains to be walked, and whether the path must lie in this crate."""
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
        if self._child(source.path, first):
            return [source.path], segments, False
        if first in self._crates:
            return [self._crates[first]], segments[1:], True
        return [], segments, False

    def _taken(self, file: str, items: list[str], written: Import) -> model.Outcome:
        if items:
            return model.Outcome((model.Target(file, (items[0],)),))
        targets: list[model.Target] = []
        own: list[str] = []
        for name in written.names:
            inner = self._child(file, name)
            if inner:
                targets.append(model.Target(inner))
            else:
                own.append(name)
        if own or not written.names:
            targets.append(model.Target(file, tuple(own)))
        return model.Outcome(tuple(targets))

    def _walk(self, file: str, segments: list[str]) -> tuple[str, list[str]]:
        """As far as the path names modules with files of their own; the rest are items inside the last one."""
        for position, segment in enumerate(segments):
            inner = self._child(file, segment)
            if inner is None:
                return file, segments[position:]
            file = inner
        return file, []

    def _crate_roots(self, source: model.FileFacts) -> list[str]:
        for folder in ancestors(source.folder):
            if folder in self._roots:
                inside = source.path.removeprefix(f"{folder}/" if folder else "")
                if inside.startswith("src/bin/") or not inside.startswith("src/"):
                    return [source.path, *self._roots[folder]]
                return list(self._roots[folder])
        roots = (
            f"{folder}/{name}".lstrip("/") for folder in ancestors(source.folder) for name in ("lib.rs", "main.rs")
        )
        return [path for path in roots if path in self._tree][:1]  # the manifest may lie above the root

    def _child(self, file: str, name: str) -> str | None:
        folder, _, last = file.rpartition("/")
        is_root = last in _ROOT_FILES or any(file in roots for roots in self._roots.values())
        parts = [folder] if is_root else [folder, last.removesuffix(".rs")]
        base = "/".join(filter(None, (*parts, name)))
        candidates = [f"{base}.rs", f"{base}/mod.rs"]
        if not is_root:  # tests, examples and binaries are roots whose modules lie beside them
            beside = "/".join(filter(None, (folder, name)))
            if "/src/" not in f"/{file}" or "/src/bin/" in f"/{file}":  # no part of the module tree
                candidates += [f"{beside}.rs", f"{beside}/mod.rs"]
        return next((path for path in candidates if path in self._tree and path != file), None)

    def _parent(self, file: str) -> str | None:
        folder, _, last = file.rpartition("/")
        if last == "mod.rs":
            folder = folder.rpartition("/")[0]
        elif last in _ROOT_FILES:
            return None
        prefix = f"{folder}/" if folder else ""
        candidates = (f"{prefix}mod.rs", f"{prefix}lib.rs", f"{prefix}main.rs", f"{folder}.rs")
        return next((path for path in candidates if path in self._tree and path != file), None)


LANGUAGES = (
    model.Language(
        name="rust",
        extensions=model.words(".rs"),
        syntax=model.Syntax(
            grammar="rust",
            members=(".", "::"),
            exported=model.marked_pub,
            bases=model.bases_behind_colon,
        ),
        imports=model.ImportRules(read=read_import, resolver=RustImports, configs=("Cargo.toml",), deferred="types"),
        names=model.NameRules(
            explicit=True,
            open_types=True,
            imports_show=True,
            outside="all",
            inline_modules=True,
        ),
    ),
)
