"""How each language's imports lead to files: one module a family, each with `resolve(source, written)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from codeinfo.languages.c_family import CIncludes
from codeinfo.languages.ecmascript import EcmascriptImports
from codeinfo.languages.functional import NamedModules
from codeinfo.languages.go import GoImports
from codeinfo.languages.packages import CsharpImports, JvmImports, PhpImports, SwiftImports
from codeinfo.languages.python import PythonImports
from codeinfo.languages.rust import RustImports
from codeinfo.languages.scripting import BashImports, LuaImports, RubyImports, ZigImports
from codeinfo.languages.tree import FileFacts, Outcome, Tree
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
