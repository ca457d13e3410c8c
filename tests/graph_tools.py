"""A small codebase, written in a test, whose imports are resolved as those of an index are."""

from __future__ import annotations

from codeinfo.graph.code_index import ImportResolver, facts_of
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.languages.model import FileFacts, Tree
from codeinfo.ports import CodeFile
from codeinfo.sources.ignore import excluded_folder

LANGUAGES = {".py": "python", ".ts": "typescript", ".js": "javascript", ".go": "go", ".rs": "rust", ".java": "java"}
LANGUAGES |= {".kt": "kotlin", ".scala": "scala", ".c": "c", ".h": "cpp", ".cs": "csharp", ".php": "php", ".rb": "ruby"}
LANGUAGES |= {".swift": "swift", ".ex": "elixir", ".hs": "haskell", ".lua": "lua", ".zig": "zig", ".sh": "bash"}
LANGUAGES |= {".dart": "dart"}


class Codebase:
    def __init__(self, sources: dict[str, str], root: str = "", above: dict[str, str] | None = None) -> None:
        self.facts: dict[str, FileFacts] = {}
        self.imports = {}
        self.packed = {}
        for number, (path, text) in enumerate(sources.items()):
            language = LANGUAGES.get("." + path.rpartition(".")[2], "")
            parsed, packed = parse_file(path, text, language, ChunkSettings())
            file = CodeFile(number, path, language, "code", len(text), "")
            self.facts[path] = facts_of(file, [d for d in parsed.definitions if d.kind not in ("field", "prototype")])
            self.imports[path] = parsed.imports
            self.packed[path] = packed
        tree = Tree(self.facts.values(), sources, root, above, lambda path: excluded_folder(path) is not None)
        self.resolver = ImportResolver(tree)

    def links(self, path: str) -> tuple[set[str], set[str]]:
        """(files, what leads nowhere as `external:x` or `unresolved:x`)."""
        found = self.resolver.links(self.facts[path], self.imports[path], self.packed[path])
        loose = {f"{'external' if item.external else 'unresolved'}:{item.module}" for item in found.unlinked}
        return {edge.target for edge in found.edges}, loose
