"""CodeInfo: the few pieces of evidence in a codebase that matter, found locally, explained and cited.

    from codeinfo import Config, Engine, SearchRequest

    engine = Engine(Config.load())
    result = engine.search(SearchRequest("where are retries configured?", paths=("path/to/repo",)))

The names below are the whole public surface; each is imported when it is first used, so that `import codeinfo` is free.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeinfo.config import Config as Config
    from codeinfo.engine import Engine as Engine
    from codeinfo.errors import CodeInfoError as CodeInfoError
    from codeinfo.model import Hit as Hit
    from codeinfo.model import SearchResult as SearchResult
    from codeinfo.operations.search import ClearRequest as ClearRequest
    from codeinfo.operations.search import DoctorRequest as DoctorRequest
    from codeinfo.operations.search import GrepRequest as GrepRequest
    from codeinfo.operations.search import GrepResult as GrepResult
    from codeinfo.operations.search import IndexRequest as IndexRequest
    from codeinfo.operations.search import SearchRequest as SearchRequest
    from codeinfo.operations.search import StatusRequest as StatusRequest
    from codeinfo.operations.search import WhyRequest as WhyRequest


__version__ = "0.1.0"

_HOMES = {"Config": "config", "Engine": "engine", "CodeInfoError": "errors", "Hit": "model", "SearchResult": "model"}
_HOMES |= dict.fromkeys(
    "ClearRequest DoctorRequest GrepRequest GrepResult IndexRequest SearchRequest StatusRequest WhyRequest".split(),
    "operations.search",
)

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'codeinfo' has no attribute {name!r}")
    return getattr(import_module(f"codeinfo.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
