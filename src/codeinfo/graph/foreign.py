"""Names that imports bind to something outside of the codebase: what stands behind their dot is none of its own."""

from __future__ import annotations

import re

from codeinfo.graph.languages import golang
from codeinfo.graph.scopes import World
from codeinfo.graph.unit import Unit
from codeinfo.model import Import

# Where local variables are known, so that one of the same name is told from the import.
_ANY_NAME = frozenset({"python", "javascript", "typescript", "tsx", "go", "rust"})
_TYPES = frozenset({"java", "kotlin", "scala", "php"})  # elsewhere only types, which no variable is called like
_LAST = re.compile(r"[.\\:/]")


class Foreign:
    def __init__(self, world: World) -> None:
        self._world = world
        self._names: dict[str, frozenset[str]] = {}

    def only(self, name: str) -> bool:
        """Whether nothing of the codebase has the name, so that each use of it means something outside."""
        return not self._world.defining(name)

    def has(self, unit: Unit, name: str) -> bool:
        language = unit.facts.language
        if language not in _ANY_NAME and not (language in _TYPES and name[:1].isupper()):
            return False
        if unit.facts.path not in self._names:
            self._names[unit.facts.path] = self._bound(unit)
        return name in self._names[unit.facts.path]

    def _bound(self, unit: Unit) -> frozenset[str]:
        """A name that another import brings from here, as behind a `try`, is left out."""
        outside: set[str] = set()
        inside: set[str] = set()
        for written in unit.imports:
            is_external = self._world.outcome(unit.facts, written).status == "external"
            (outside if is_external else inside).update(_names(written, unit.facts.language))
        return frozenset(outside - inside - unit.by_qualified.keys())


def _names(written: Import, language: str) -> tuple[str, ...]:
    if language == "go":
        return (golang.local_name(written),)
    if written.alias:
        return (written.alias,)
    if written.names:
        return written.names
    if language == "python":  # `import a.b` binds a
        return (written.module.partition(".")[0],)
    return (_LAST.split(written.module)[-1],)
