"""Languages whose imports are paths: Ruby, Lua, Zig, shell."""

from __future__ import annotations

import re

from codeinfo.languages.tree import EXTERNAL, UNRESOLVED, FileFacts, Outcome, Target, Tree, ancestors, joined, nearest
from codeinfo.model import Import

_ZIG_MODULE = re.compile(r'\baddModule\(\s*"([^"]+)"\s*,\s*\.\{[^}"]*root_source_file\s*=\s*b\.path\("([^"]+)"\)')
_VARIABLE_PART = re.compile(r"^[\"']?(?:\$\{?[^/]*|\$\([^)]*\)|`[^`]*`)/")


class RubyImports:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._roots = [*sorted(f for f in tree.folders if f.rpartition("/")[2] in ("lib", "app")), ""]

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        name = written.module.removesuffix(".rb") + ".rb"
        if written.module.startswith("."):
            path = joined(source.folder, name)
            return _one(path) if path in self._tree else UNRESOLVED
        above = ancestors(source.folder)
        near = [root for folder in above for root in (f"{folder}/lib".lstrip("/"), f"{folder}/test".lstrip("/"))]
        near += [folder for folder in above if folder.rpartition("/")[2] in ("lib", "test", "spec")]
        paths = (*(joined(root, name) for root in (*near, *self._roots)), *self._tree.from_above(name))
        found = next((path for path in paths if path in self._tree), None)
        return _one(found) if found else EXTERNAL


class LuaImports:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        base = written.module.replace(".", "/")
        found = self._tree.having(base + ".lua") or self._tree.having(base + "/init.lua")
        rooted = [path for path in found if path.startswith(base) or f"lua/{base}" in path or f"src/{base}" in path]
        chosen = nearest(rooted, source.folder) if len(rooted) > 1 else next(iter(rooted), self._from_above(base))
        return _one(chosen) if chosen else EXTERNAL

    def _from_above(self, base: str) -> str | None:
        paths = [
            path for start in self._tree.from_above(base) for path in (f"{start}.lua", f"{start}/init.lua".lstrip("/"))
        ]
        return next((path for path in paths if path in self._tree), None)


class ZigImports:
    """By path, or by the name of a module that a `build.zig` adds."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._modules: dict[tuple[str, str], str] = {}  # (folder of the build.zig, name) → file
        for path, text in tree.configs.items():
            folder, _, file = path.rpartition("/")
            for name, root in _ZIG_MODULE.findall(text) if file == "build.zig" else ():
                self._modules[folder, name] = joined(folder, root) or ""

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        if not written.module.endswith((".zig", ".zon")):
            added = (self._modules.get((folder, written.module)) for folder in ancestors(source.folder))
            found = next((path for path in added if path in self._tree), None)
            return _one(found) if found else EXTERNAL
        path = joined(source.folder, written.module)
        return _one(path) if path in self._tree else UNRESOLVED


class BashImports:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        fixed = _VARIABLE_PART.sub("", written.module)
        if "$" in fixed or fixed.startswith(("/", "~")):
            return EXTERNAL
        beside = joined(source.folder, fixed)
        if beside in self._tree:
            return _one(beside)
        found = self._tree.having(fixed)
        if len(found) == 1:
            return _one(found[0])
        return UNRESOLVED if fixed == written.module else EXTERNAL  # a variable may lead anywhere


def _one(path: str | None) -> Outcome:
    return Outcome((Target(path),)) if path else UNRESOLVED
