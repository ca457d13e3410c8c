"""Languages whose imports name packages and types: Java, Kotlin, Scala, C#, PHP, Swift."""

from __future__ import annotations

import re

from codeinfo.languages.tree import (
    EXTERNAL,
    UNRESOLVED,
    FileFacts,
    Outcome,
    Target,
    Tree,
    ancestors,
    family,
    joined,
    packages_of,
)
from codeinfo.model import Import

_SWIFT_TARGET = re.compile(r'\.(?:\w+T|t)arget\(\s*name:\s*"([^"]+)",[^()]*?\bpath:\s*"([^"]+)"')


class JvmImports:
    """A type is found by the package its file declares; folders need not agree with it."""

    separator = "."

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        module = written.module.replace("`", "")  # Scala and Kotlin quote a name that is a keyword
        return self._look(source, module, written.names) or self._missing(source, written)

    def _look(self, source: FileFacts, module: str, names: tuple[str, ...]) -> Outcome | None:
        group = family(source.language)
        for around in self._readings(source):
            package = self.separator.join(filter(None, (around, module)))
            files = self._tree.by_package.get((group, package))
            if files and names and names != ("*",):
                found = [self._type(group, package, name) for name in names]
                if any(found):
                    return Outcome(tuple(dict.fromkeys(t for targets in found for t in targets)))
            if files and (names == ("*",) or source.language == "csharp"):
                return Outcome(tuple(map(Target, files)), package=True)
            if files and not names and source.language == "scala":
                return Outcome(_package_objects(files))
            targets = self._within(group, around, module)
            if targets:
                return Outcome(targets)
        return None

    def _readings(self, source: FileFacts) -> list[str]:
        """The packages that a path may start from: Scala also reads it from inside those around it."""
        return ["", *reversed(packages_of(source))] if source.language == "scala" else [""]

    def _within(self, group: str, around: str, module: str) -> tuple[Target, ...]:
        """The longest part of the path that is a package, with the top-level name behind it."""
        parts = module.split(self.separator)
        for cut in range(len(parts) - 1, -1, -1):
            package = self.separator.join(filter(None, (around, *parts[:cut])))
            if targets := self._type(group, package, parts[cut]):
                return targets
        return ()

    def _type(self, group: str, package: str, name: str) -> tuple[Target, ...]:
        return tuple(Target(path, (name,)) for path in self._tree.definers.get((group, package, name), ()))

    def _missing(self, source: FileFacts, written: Import) -> Outcome:
        package, _, last = written.module.rpartition(self.separator)
        if written.names and last[:1].islower():
            return EXTERNAL  # taken from a package, which may well lie in another part of the project
        known = self._tree.by_package.get((family(source.language), package), ()) if package else ()
        # What a package has beyond the definitions of its files, its package object inherits.
        if objects := _package_objects(known, last):
            return Outcome(objects)
        return UNRESOLVED if known else EXTERNAL

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        group = family(source.language)
        return tuple(path for package in self._open(source) for path in self._tree.by_package.get((group, package), ()))

    def _open(self, source: FileFacts) -> tuple[str, ...]:
        return packages_of(source)


def _package_objects(files: tuple[str, ...], *names: str) -> tuple[Target, ...]:
    return tuple(Target(path, names) for path in files if path.endswith("/package.scala"))


class CsharpImports(JvmImports):
    """A namespace is open to itself and to all that it contains."""

    def _open(self, source: FileFacts) -> tuple[str, ...]:
        around: dict[str, None] = {}
        for package in source.packages:
            parts = package.split(".")
            around.update(dict.fromkeys(".".join(parts[:length]) for length in range(len(parts), 0, -1)))
        return tuple(around)

    def _missing(self, source: FileFacts, written: Import) -> Outcome:
        """Most imports name a namespace, and others add to the same ones: only the missing type of an alias
        (`using Cart = Shop.Cart`) is known to be gone."""
        platform = written.module.partition(".")[0] in ("System", "Microsoft", "Windows")
        return super()._missing(source, written) if written.alias and not platform else EXTERNAL


class PhpImports(JvmImports):
    """Classes by their declared namespace, else by PSR-4; `require` by path."""

    separator = "\\"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._prefixes = sorted(_psr4(tree), key=lambda pair: -len(pair[0]))

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        if written.module.endswith((".php", ".inc")) or "/" in written.module:
            return self._required(source, written.module)
        found = self._look(source, written.module, written.names)
        if found:
            return found
        names = written.names or ("",)
        whole = [self.separator.join(filter(None, (written.module, name))) for name in names]
        targets = tuple(Target(path) for name in whole if (path := self._by_prefix(name)))
        if targets:
            return Outcome(targets)
        own = any(name.startswith(prefix) for name in whole for prefix, _ in self._prefixes)
        return UNRESOLVED if own else EXTERNAL

    def _by_prefix(self, name: str) -> str | None:
        for prefix, folder in self._prefixes:
            if name.startswith(prefix):
                path = joined(folder, name[len(prefix) :].replace("\\", "/") + ".php")
                if path in self._tree:
                    return path
        return None

    def _required(self, source: FileFacts, written: str) -> Outcome:
        for folder in ancestors(source.folder):
            path = joined(folder, written)
            if path in self._tree:
                return Outcome((Target(str(path)),))
        return EXTERNAL if "vendor" in written else UNRESOLVED


def _psr4(tree: Tree) -> list[tuple[str, str]]:
    pairs = []
    for path in tree.by_name.get("composer.json", ()):
        home, read = path.rpartition("/")[0], tree.config(path)
        for section in ("autoload", "autoload-dev"):
            listed = read.get(section, {})
            table = listed.get("psr-4", {}) if isinstance(listed, dict) else {}
            for prefix, folders in table.items() if isinstance(table, dict) else ():
                for folder in folders if isinstance(folders, list) else [folders]:
                    where = joined(home, str(folder))
                    if where is not None:
                        pairs.append((str(prefix), where))
    return pairs


class SwiftImports:
    """Files of a target see each other without imports; an import names another target of the package."""

    def __init__(self, tree: Tree) -> None:
        self._above = tree.above
        self._declared = sorted(_swift_targets(tree), key=lambda pair: -len(pair[0]))
        self._targets: dict[str, list[str]] = {}
        for path, facts in tree.files.items():
            if facts.language == "swift":
                self._targets.setdefault(self._target(path), []).append(path)

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        files = self._targets.get(written.module.partition(".")[0])
        return Outcome(tuple(map(Target, files)), package=True) if files else EXTERNAL

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return tuple(self._targets.get(self._target(source.path), ()))

    def _target(self, path: str) -> str:
        """As the package says; else the folder below `Sources` or `Tests`, which may lie above the root; else the
        topmost one here."""
        for folder, name in self._declared:
            if path.startswith(f"{folder}/"):
                return name
        own = path.split("/")
        for parts in (own, [*self._above, *own]):
            for position, part in enumerate(parts[:-2]):
                if part in ("Sources", "Tests"):
                    return parts[position + 1]
        return own[0] if len(own) > 1 else ""


def _swift_targets(tree: Tree) -> list[tuple[str, str]]:
    """(folder, name) of the targets that lie where their package says."""
    pairs = []
    for path, text in tree.configs.items():
        home, _, file = path.rpartition("/")
        for name, folder in _SWIFT_TARGET.findall(text) if file == "Package.swift" else ():
            if where := joined(home, folder):
                pairs.append((where, name))
    return pairs
