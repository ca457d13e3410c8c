"""What the graph knows of a file, and what resolving its imports yields."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from codeinfo.model import Import


class FileFacts(Struct, frozen=True):
    """One file. `exports` are its top-level names, `hidden` those that no other file sees, `packages` the namespaces
    it declares."""

    file_id: int
    path: str
    language: str
    kind: str
    packages: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    inline_modules: tuple[tuple[int, int], ...] = ()  # line spans of modules written inside the file (Rust)
    hidden: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def is_test(self) -> bool:
        return self.kind == "tests"


class Target(NamedTuple):
    path: str
    names: tuple[str, ...] = ()  # what is taken from it; empty: the file as a whole


class Outcome(Struct, frozen=True):
    """Where one import leads. `package`: the targets are all files of a package, of which few may be needed."""

    targets: tuple[Target, ...] = ()
    status: str = "internal"  # "internal", "external" (not part of this codebase), "unresolved" (should be, is not)
    package: bool = False


EXTERNAL = Outcome(status="external")
UNRESOLVED = Outcome(status="unresolved")


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
