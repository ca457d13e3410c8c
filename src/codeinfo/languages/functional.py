"""Elixir and Haskell: a module is known by the name it declares, wherever its file lies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeinfo.languages import model
from codeinfo.languages.tree import Resolver
from codeinfo.model import Definition, Import


class HaskellImports(Resolver):
    def resolve(self, source: model.FileFacts, written: Import) -> model.Outcome:
        return self._of_modules(source, written, [written.module]) or model.EXTERNAL

    def _of_modules(self, source: model.FileFacts, written: Import, modules: list[str]) -> model.Outcome | None:
        known = self._tree.by_package
        files = dict.fromkeys(path for module in modules for path in known.get((source.language, module), ()))
        if not files:
            return None
        return model.Outcome(tuple(model.Target(path, written.names if len(files) == 1 else ()) for path in files))


class ElixirImports(HaskellImports):
    def resolve(self, source: model.FileFacts, written: Import) -> model.Outcome:
        modules = [f"{written.module}.{name}" for name in written.names]  # `alias Shop.{Cart, Price}` names modules
        if found := self._of_modules(source, written, modules or [written.module]):
            return found
        # Packages share their first name (Phoenix.PubSub is none of Phoenix's modules), seldom a longer one.
        around = written.module.rpartition(".")[0]
        return (
            model.UNRESOLVED if "." in around and (source.language, around) in self._tree.by_package else model.EXTERNAL
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
    name="elixir",
    extensions=model.words(".ex .exs"),
    shebangs=model.words("elixir"),
    syntax=model.Syntax(
        grammar="elixir",
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
        private_definers=model.word_set("defp defmacrop defguardp typep"),
        clauses=True,
        doc_attribute=True,
    ),
    imports=model.ImportRules(
        calls=(
            r"^[ \t]*(?:alias|import|use|require)[ \t]+(?P<module>[A-Z]\w*(?:\.\w+)*)"
            r"(?:\.\{(?P<names>[^}]{0,2000})\}|[^\n]*?\bas:[ \t]*(?P<alias>\w+))?"
        ),
        resolver=ElixirImports,
        by_use=True,
        whole_names=True,
        binds_last=True,
    ),
    names=model.NameRules(whole_modules=True, package=is_elixir_package, called_by_platform=True),
)
HASKELL = model.Language(
    name="haskell",
    extensions=model.words(".hs .hs-boot .hsc"),
    shebangs=model.words("runhaskell stack cabal"),
    syntax=model.Syntax(
        grammar="haskell",
        word=r"[^\W\d][\w']+",
        export_list=True,
        clauses=True,
    ),
    imports=model.ImportRules(read=read_haskell_import, resolver=HaskellImports),
)
LANGUAGES = (ELIXIR, HASKELL)
