"""Calls of tools: an engine that is made when it is first needed and let go of when nobody calls, projects by name, and
calls that can be stopped."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from codeinfo.cache import Cache
from codeinfo.config import Config
from codeinfo.errors import NotFound
from codeinfo.jsonable import dumps, dumps_plain
from codeinfo.model import SearchResult
from codeinfo.serve.dispatch import Call
from codeinfo.shells.mcp_budget import fitted, most_chars
from codeinfo.shells.mcp_tools import Tool

if TYPE_CHECKING:
    from codeinfo.engine import Engine


Reply = dict[str, Any]
Key = tuple[str, str, str]  # tool, project, arguments


class Answered(NamedTuple):
    """A whole reply, also as text, and the files it comes from."""

    whole: Reply
    text: str
    files: tuple[str, ...]
    repeatable: bool = True  # False where something failed that may succeed when the same is asked again


class Asked(NamedTuple):
    """A call as it was understood. `key` and `mark` say what an answer may be kept for; `known` is one that was."""

    tool: Tool
    values: Reply
    project: str
    cursor: str
    key: Key | None
    mark: object | None
    known: Answered | None


def answered(tool: Tool, result: Any, values: Reply, project: str) -> Answered:
    whole = tool.shape(result, values)
    failed = isinstance(result, SearchResult) and result.quality.reranker_failed
    return Answered(whole, dumps_plain(whole), tuple(tool.files(result, project)), repeatable=not failed)


class Recent:
    """The latest replies, each with the mark of the project's state that it was made from. Only their texts stay, a
    quarter of the memory that they would take with the replies themselves."""

    def __init__(self, most_chars: int = 16_000_000) -> None:
        self._most_chars = most_chars
        self.clear()

    def get(self, key: Key, mark: object) -> Answered | None:
        found = self._known.get(key)
        if found is None or found[0] is not mark:
            return None
        _, text, files = found
        return Answered(json.loads(text), text, files)

    def put(self, key: Key, mark: object, answer: Answered) -> None:
        self._known.add(key, (mark, answer.text, answer.files))

    def clear(self) -> None:
        self._known = Cache[Key, tuple[object, str, tuple[str, ...]]](self._most_chars, _size)


def _size(remembered: tuple[object, str, tuple[str, ...]]) -> int:
    _, text, files = remembered
    return len(text) + sum(map(len, files))


class Hub:
    """All calls of one server, and the engine behind them."""

    def __init__(
        self,
        config: Config,
        make_engine: Callable[[], Engine] | None = None,
        place: Callable[[str], str] | None = None,
    ) -> None:
        self._config = config
        self._make = make_engine or self._own_engine
        self._owns = make_engine is None
        self._place = place
        self._recent = Recent()
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._active = 0
        self._last = time.monotonic()

    def perform(self, tool: Tool, arguments: Mapping[str, Any], call: Call) -> tuple[Reply, str]:
        """The reply within its budget, as JSON and as text."""
        asked = self.understood(tool, arguments)
        if asked.known is not None:
            return self.told(asked, asked.known)
        with self.engine() as engine:
            result = tool.handler()(engine, tool.request(asked.values, asked.project), call)
        return self.told(asked, answered(tool, result, asked.values, asked.project))

    def understood(self, tool: Tool, arguments: Mapping[str, Any]) -> Asked:
        values = tool.read(arguments)
        cursor = values.pop("cursor", "")
        with self.engine() as engine:
            project = self._project(engine, values.pop(tool.project.name, "")) if tool.project else ""
            if not tool.repeatable:
                return Asked(tool, values, project, cursor, None, None, None)
            key = (tool.name, project, dumps(values))
            mark = engine.mark(project or ".")
            return Asked(tool, values, project, cursor, key, mark, self._recent.get(key, mark) if mark else None)

    def told(self, asked: Asked, answer: Answered) -> tuple[Reply, str]:
        """One page. The pages of a long reply, and what several agents ask, are worked out once while nothing
        changes."""
        reply, text = answer.whole, answer.text
        tokens = self._config.mcp.reply_tokens
        if asked.cursor or len(text) > most_chars(tokens):
            reply = fitted(reply, tokens, asked.cursor)
            text = dumps_plain(reply)
        with self.engine() as engine:
            engine.savings.record(asked.tool.name, len(text), answer.files)
            new = asked.known is None and answer.repeatable
            if new and asked.key and asked.mark and asked.mark is engine.mark(asked.project or "."):
                self._recent.put(asked.key, asked.mark, answer)  # nothing changed while it was worked out
        return reply, text

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        with self._lock:
            if self._engine is None:
                self._engine = self._make()
            self._active += 1
            engine = self._engine
        try:
            yield engine
        finally:
            with self._lock:
                self._active -= 1
                self._last = time.monotonic()

    def warm(self) -> None:
        """Import what the first call needs, while the client is still reading the list of tools."""
        import codeinfo.engine.search  # noqa: F401

        with self.engine() as engine:
            engine.embedder()

    def release_if_idle(self) -> bool:
        """Let go of models and indexes when nobody has called for a while; the next call takes them up again."""
        with self._lock:
            idle = self._owns and not self._active and time.monotonic() - self._last > self._config.mcp.idle_s
            engine, self._engine = (self._engine, None) if idle else (None, self._engine)
        if engine is None:
            return False
        engine.close()
        self._recent.clear()
        del engine
        gc.collect()
        return True

    def close(self) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None and self._owns:
            engine.close()

    def _own_engine(self) -> Engine:
        from codeinfo.serve.refresh import server_engine

        return server_engine(self._config)

    def _project(self, engine: Engine, name: str) -> str:
        """The folder that a project's name or path means; "" stays the working folder."""
        if self._place is not None:
            return self._place(name)
        if not name:
            return ""
        folder = os.path.expanduser(name)
        if os.path.isdir(folder):
            return os.path.abspath(folder)
        from codeinfo.operations.clients import ProjectsRequest

        projects = engine.projects(ProjectsRequest()).projects
        found = [project.root for project in projects if name in (project.name, project.root)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(sorted(f"{project.name} ({project.root})" for project in projects)) or "none yet"
        what = f"{len(found)} projects are called {name}" if found else f"no project {name} is known"
        raise NotFound(what, next_step=f"Name a folder, or one of: {known}", code="REPO_NOT_FOUND")
