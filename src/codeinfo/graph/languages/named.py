"""Elixir and Haskell: a module is known by the name it declares, wherever its file lies."""

from __future__ import annotations

from collections import Counter

from codeinfo.graph.facts import EXTERNAL, UNRESOLVED, FileFacts, Outcome, Target
from codeinfo.graph.tree import Tree
from codeinfo.types import Import

_OWN_SHARE = 5


class NamedModules:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        tops = Counter((language, name.partition(".")[0]) for language, name in tree.by_package)
        # A project adds a task or two to the platform's modules: only a name that it uses much is its own.
        self._tops = {top for top, count in tops.items() if count * _OWN_SHARE >= tops.total()}

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        known = self._tree.by_package
        names = [f"{written.module}.{name}" for name in written.names] if source.language == "elixir" else []
        files: dict[str, None] = {}
        for name in (*names, written.module):
            files.update(dict.fromkeys(known.get((source.language, name), ())))
        if files:
            return Outcome(tuple(Target(path, written.names if len(files) == 1 else ()) for path in files))
        is_own = (source.language, written.module.partition(".")[0]) in self._tops
        return UNRESOLVED if is_own and source.language == "elixir" else EXTERNAL
