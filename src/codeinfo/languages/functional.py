"""Elixir and Haskell: a module is known by the name it declares, wherever its file lies."""

from __future__ import annotations

from codeinfo.languages.tree import EXTERNAL, UNRESOLVED, FileFacts, Outcome, Target, Tree
from codeinfo.model import Import


class NamedModules:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        known = self._tree.by_package
        listed = written.names if source.language == "elixir" else ()  # `alias Shop.{Cart, Price}` names modules
        modules = [f"{written.module}.{name}" for name in listed] or [written.module]
        files = dict.fromkeys(path for module in modules for path in known.get((source.language, module), ()))
        if files:
            return Outcome(tuple(Target(path, written.names if len(files) == 1 else ()) for path in files))
        # Packages share their first name (Phoenix.PubSub is none of Phoenix's modules), seldom a longer one.
        around = written.module.rpartition(".")[0]
        is_own = source.language == "elixir" and "." in around and (source.language, around) in known
        return UNRESOLVED if is_own else EXTERNAL
