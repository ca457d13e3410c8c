"""How each language's imports lead to files: one module a family, each with `resolve(source, written)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from codeinfo.graph.facts import FileFacts, Outcome
from codeinfo.graph.languages.c import CIncludes
from codeinfo.graph.languages.ecmascript import EcmascriptImports
from codeinfo.graph.languages.golang import GoImports
from codeinfo.graph.languages.named import NamedModules
from codeinfo.graph.languages.packages import CsharpImports, JvmImports, PhpImports, SwiftImports
from codeinfo.graph.languages.paths import BashImports, LuaImports, RubyImports, ZigImports
from codeinfo.graph.languages.python import PythonImports
from codeinfo.graph.languages.rust import RustImports
from codeinfo.graph.tree import Tree
from codeinfo.model import Import


class Imports(Protocol):
    def resolve(self, source: FileFacts, written: Import) -> Outcome: ...

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        """Files whose names can be used without an import."""
        ...


IMPORTS: dict[str, Callable[[Tree], Imports]] = {
    "python": PythonImports,
    **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), EcmascriptImports),
    "go": GoImports,
    "rust": RustImports,
    **dict.fromkeys(("java", "kotlin", "scala"), JvmImports),
    **dict.fromkeys(("c", "cpp"), CIncludes),
    "csharp": CsharpImports,
    "php": PhpImports,
    "ruby": RubyImports,
    "swift": SwiftImports,
    **dict.fromkeys(("elixir", "haskell"), NamedModules),
    "lua": LuaImports,
    "zig": ZigImports,
    "bash": BashImports,
}
