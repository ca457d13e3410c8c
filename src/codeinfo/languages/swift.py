"""Swift: files of a target see each other without imports; an import names another target of the package."""

from __future__ import annotations

import re

from codeinfo.languages import model
from codeinfo.languages.tree import Resolver, Tree, joined
from codeinfo.model import Import

_TARGET = re.compile(r'\.(?:\w+T|t)arget\(\s*name:\s*"([^"]+)",[^()]*?\bpath:\s*"([^"]+)"')
_MANIFEST = "Package.swift"


class SwiftImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        self._above = tree.above
        self._declared = sorted(_swift_targets(tree), key=lambda pair: -len(pair[0]))
        self._targets: dict[str, list[str]] = {}
        for path, facts in tree.files.items():
            if facts.language == "swift":
                self._targets.setdefault(self._target(path), []).append(path)

    def resolve(self, source: model.FileFacts, written: Import) -> model.Outcome:
        files = self._targets.get(written.module.partition(".")[0])
        return model.Outcome(tuple(map(model.Target, files)), package=True) if files else model.EXTERNAL

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
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
        for name, folder in _TARGET.findall(text) if file == _MANIFEST else ():
            if where := joined(home, folder):
                pairs.append((where, name))
    return pairs


LANGUAGES = (
    model.Language(
        name="swift",
        extensions=model.words(".swift"),
        shebangs=model.words("swift"),
        syntax=model.Syntax(
            grammar="swift",
            exported=model.not_private,
            bases=model.bases_behind_colon,
        ),
        imports=model.ImportRules(
            read=model.dotted_import, resolver=SwiftImports, by_use=True, configs=(_MANIFEST,), deferred="types"
        ),
        names=model.NameRules(implicit_self=True, open_types=True, private_to_file=True),
    ),
)
