"""C#: imports open namespaces, to which any file may add."""

from __future__ import annotations

import re

from codeinfo.languages import model
from codeinfo.languages.jvm import JvmImports
from codeinfo.model import Import


def is_exported(declared: model.Declared) -> bool:
    outer, before = declared.outer, declared.before
    open_by_default = outer is None or outer.kind in {"interface", "enum", "namespace"}
    return bool(re.search(r"\b(?:public|protected|internal)\b", before)) or (
        open_by_default and "private" not in before
    )


class CsharpImports(JvmImports):
    """A namespace is open to itself and to all that it contains."""

    names_packages = True

    def _open(self, source: model.FileFacts) -> tuple[str, ...]:
        around: dict[str, None] = {}
        for package in source.packages:
            parts = package.split(".")
            around.update(dict.fromkeys(".".join(parts[:length]) for length in range(len(parts), 0, -1)))
        return tuple(around)

    def _missing(self, source: model.FileFacts, written: Import) -> model.Outcome:
        """Most imports name a namespace, and others add to the same ones: only the missing type of an alias
        (`using Cart = Shop.Cart`) is known to be gone."""
        platform = written.module.partition(".")[0] in ("System", "Microsoft", "Windows")
        return super()._missing(source, written) if written.alias and not platform else model.EXTERNAL


LANGUAGES = (
    model.Language(
        name="csharp",
        extensions=model.words(".cs .csx"),
        syntax=model.Syntax(
            grammar="csharp",
            members=(".", "::"),
            package="tree_sitter_c_sharp",
            exported=is_exported,
            bases=model.bases_behind_colon,
        ),
        imports=model.ImportRules(read=model.dotted_import, resolver=CsharpImports, by_use=True, deferred="types"),
        names=model.NameRules(
            implicit_self=True,
            open_types=True,
            imports_show=True,
            imports_open=True,
            inherited=frozenset({"base"}),
            attribute_classes=True,
        ),
    ),
)
