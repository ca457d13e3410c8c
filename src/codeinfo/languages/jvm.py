"""Java, Kotlin and Scala: imports name packages and types, which all three share."""

from __future__ import annotations

import re

from msgspec.structs import replace

from codeinfo.languages import model
from codeinfo.languages.tree import Resolver, packages_of
from codeinfo.model import Definition, Import


class JvmImports(Resolver):
    """A type is found by the package its file declares; folders need not agree with it."""

    separator = "."
    names_packages = False  # an import names a package, not a type

    def resolve(self, source: model.FileFacts, written: Import) -> model.Outcome:
        module = written.module.replace("`", "")  # Scala and Kotlin quote a name that is a keyword
        return self._look(source, module, written.names) or self._missing(source, written)

    def _look(self, source: model.FileFacts, module: str, names: tuple[str, ...]) -> model.Outcome | None:
        group = model.family(source.language)
        for around in self._readings(source):
            package = self.separator.join(filter(None, (around, module)))
            files = self._tree.by_package.get((group, package))
            if files and names and names != ("*",):
                found = [self._type(group, package, name) for name in names]
                if any(found):
                    return model.Outcome(tuple(dict.fromkeys(t for targets in found for t in targets)))
            if files and (names == ("*",) or self.names_packages):
                return model.Outcome(tuple(map(model.Target, files)), package=True)
            if files and not names and (whole := self._whole_package(files)):
                return whole
            targets = self._within(group, around, module)
            if targets:
                return model.Outcome(targets)
        return None

    def _readings(self, source: model.FileFacts) -> list[str]:
        """The packages that a path may start from."""
        return [""]

    def _whole_package(self, files: tuple[str, ...]) -> model.Outcome | None:
        """What an import of a package by its name alone leads to."""
        return None

    def _within(self, group: str, around: str, module: str) -> tuple[model.Target, ...]:
        """The longest part of the path that is a package, with the top-level name behind it."""
        parts = module.split(self.separator)
        for cut in range(len(parts) - 1, -1, -1):
            package = self.separator.join(filter(None, (around, *parts[:cut])))
            if targets := self._type(group, package, parts[cut]):
                return targets
        return ()

    def _type(self, group: str, package: str, name: str) -> tuple[model.Target, ...]:
        return tuple(model.Target(path, (name,)) for path in self._tree.definers.get((group, package, name), ()))

    def _missing(self, source: model.FileFacts, written: Import) -> model.Outcome:
        package, _, last = written.module.rpartition(self.separator)
        if written.names and last[:1].islower():
            return model.EXTERNAL  # taken from a package, which may well lie in another part of the project
        known = self._tree.by_package.get((model.family(source.language), package), ()) if package else ()
        # What a package has beyond the definitions of its files, its package object inherits.
        if objects := _package_objects(known, last):
            return model.Outcome(objects)
        return model.UNRESOLVED if known else model.EXTERNAL

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        group = model.family(source.language)
        return tuple(path for package in self._open(source) for path in self._tree.by_package.get((group, package), ()))

    def _open(self, source: model.FileFacts) -> tuple[str, ...]:
        return packages_of(source)


def _package_objects(files: tuple[str, ...], *names: str) -> tuple[model.Target, ...]:
    return tuple(model.Target(path, names) for path in files if path.endswith("/package.scala"))


class ScalaImports(JvmImports):
    """A path is also read from inside the packages around it; a package has what its package object holds."""

    def _readings(self, source: model.FileFacts) -> list[str]:
        return ["", *reversed(packages_of(source))]

    def _whole_package(self, files: tuple[str, ...]) -> model.Outcome | None:
        return model.Outcome(_package_objects(files))


def is_scala_package(definition: Definition) -> bool:
    """What a package object holds belongs to the package."""
    return model.is_package(definition) or (definition.kind == "object" and "package object " in definition.signature)


# What the grammar cannot read: `get`, `set`, `where` as names, guards of a `when`, strings with several dollar signs.
_KOTLIN_NAMES = re.compile(r"(?<=[})\w] )(?:get|set)(?= [\w(])|\bwhere(?= *(?:[?.,)!]|=[^=]))")
_KOTLIN_GUARD = re.compile(r"(?m)(?<= )if .*(?= ->)")
_KOTLIN_WHEN = re.compile(r"(?m)^\s*(?:!?is|!?in|[A-Z])\b.* if .* ->")
_KOTLIN_DOLLARS = re.compile(r'\$\$+"[^"\n]*"')


def hide_kotlin_news(text: str) -> str:
    text = _KOTLIN_NAMES.sub(lambda match: "x" * len(match.group()), text)
    text = _KOTLIN_WHEN.sub(lambda line: _KOTLIN_GUARD.sub(model.blank, line.group()), text)
    return _KOTLIN_DOLLARS.sub(lambda match: '"' + "x" * (len(match.group()) - 2) + '"', text)


FAMILY = "jvm"
_IMPORTS = model.ImportRules(
    read=model.dotted_import, resolver=JvmImports, by_use=True, binds_last=True, deferred="types"
)
LANGUAGES = (
    model.Language(
        name="java",
        extensions=model.words(".java"),
        family=FAMILY,
        syntax=model.Syntax(
            grammar="java",
            members=(".", "::"),
            exported=model.not_private,
            bases=model.bases_behind_words,
        ),
        imports=_IMPORTS,
        names=model.NameRules(explicit=True, implicit_self=True, imports_show=True, outside="types"),
    ),
    model.Language(
        name="kotlin",
        extensions=model.words(".kt .kts"),
        family=FAMILY,
        syntax=model.Syntax(
            grammar="kotlin",
            members=(".", "::"),
            hide=hide_kotlin_news,
            exported=model.not_private,
            bases=model.bases_behind_colon,
        ),
        imports=_IMPORTS,
        names=model.NameRules(
            implicit_self=True, imports_show=True, outside="types", private_to_file=True, extensions=True
        ),
    ),
    model.Language(
        name="scala",
        extensions=model.words(".scala .sc .sbt .mill"),
        family=FAMILY,
        syntax=model.Syntax(
            grammar="scala",
            exported=model.not_private,
            bases=model.bases_behind_words,
        ),
        imports=replace(
            _IMPORTS,
            resolver=ScalaImports,
            types_only=True,
            nested_packages=True,
        ),
        names=model.NameRules(implicit_self=True, outside="types", package=is_scala_package),
    ),
)
