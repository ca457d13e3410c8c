"""What the graph knows of a file, and what resolving its imports yields."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from codeinfo.languages.tree import EXTERNAL as EXTERNAL
from codeinfo.languages.tree import UNRESOLVED as UNRESOLVED
from codeinfo.languages.tree import FileFacts as FileFacts
from codeinfo.languages.tree import Outcome as Outcome
from codeinfo.languages.tree import Target as Target
from codeinfo.types import Import


class Edge(NamedTuple):
    """`source` needs `target`. Implicit: without an import, since both belong to one package."""

    source: str
    target: str
    line: int
    names: tuple[str, ...] = ()
    implicit: bool = False


class Loose(NamedTuple):
    """An import that leads to no file of this codebase."""

    module: str
    line: int
    external: bool


class Links(Struct, frozen=True):
    """Everything that the imports of one file come to."""

    edges: tuple[Edge, ...] = ()
    loose: tuple[Loose, ...] = ()


class FileImports(Struct, frozen=True):
    """A file with its imports, as they are read when its links are computed."""

    facts: FileFacts
    imports: tuple[Import, ...]
