"""The memories of one project: its file and its git history together."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from codeinfo.engine.history import History
from codeinfo.engine.index_manager import IndexManager
from codeinfo.errors import NotFound, UsageError
from codeinfo.knowledge import memory_file
from codeinfo.knowledge.memory import (
    Memory,
    described,
    from_log,
    from_record,
    iso_of,
    make,
    related,
    relevance,
    to_record,
)
from codeinfo.model import RelatedMemory
from codeinfo.sources.git import GitFailed
from codeinfo.store.sqlite import read_beside, write_beside

if TYPE_CHECKING:
    from codeinfo.operations.knowledge import MemoryImported, MemoryList, MemoryListRequest, Remembered, RememberRequest


GIT_NAME = "git-memories.json"
MOST_MEANT = 500  # memories whose meaning is compared: an endpoint is asked for each of them
_DAY = 86_400


class Memories:
    def __init__(self, keeper: IndexManager, history: History) -> None:
        self._keeper = keeper
        self._history = history
        self._from_git: tuple[str, tuple[Memory, ...]] | None = None
        self._vectors: dict[str, Sequence[float]] = {}

    @property
    def root(self) -> Path:
        return self._keeper.root

    # --- reading ---

    def all(self, now: float) -> tuple[Memory, ...]:
        """Those of the file, then those of the history; one that both hold counts once, as the file has it."""
        kept = memory_file.read(self.root)
        said = {memory.memory for memory in kept}
        return (*kept, *(memory for memory in self._git(now) if memory.memory not in said))

    def related(
        self, query: str, paths: Collection[str], symbols: Collection[str], now: float
    ) -> tuple[tuple[RelatedMemory, ...], tuple[str, ...]]:
        """At most three, and a note where the file cannot be read: a search goes on without them."""
        try:
            memories = self.all(now)
        except UsageError as error:
            return (), (f"memories are left out: {error}",)
        if not memories:
            return (), ()
        meaning = self._meaning(query, memories) if self._keeper.config.embedding.provider == "builtin" else {}
        return related(query, memories, paths=paths, symbols=symbols, meaning=meaning, now=now), ()

    def list(self, request: MemoryListRequest, now: float) -> MemoryList:
        from codeinfo.operations.knowledge import MemoryList

        memories = [
            memory
            for memory in self.all(now)
            if request.type in ("", memory.type) and request.category in ("", memory.category)
        ]
        if request.query:
            scored = relevance(request.query, memories, meaning=self._meaning(request.query, memories))
            scored = sorted(((m, score) for m, score in scored if score > 0), key=lambda pair: (-pair[1], pair[0].id))
            memories = [memory for memory, _ in scored]
        else:
            memories.sort(key=lambda memory: (memory.date, memory.id), reverse=True)
        shown = tuple(described(memory, now) for memory in memories[: request.limit])
        return MemoryList(shown, len(memories))

    def one(self, prefix: str, now: float) -> Memory:
        found = [memory for memory in self.all(now) if memory.id.startswith(prefix)]
        exact = [memory for memory in found if memory.id == prefix]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not found or not prefix:
            raise NotFound(f"no memory {prefix!r}", next_step="`codeinfo memory list` shows their ids")
        raise UsageError(f"{prefix!r} begins {len(found)} ids", next_step="Write more of the id")

    def _git(self, now: float) -> tuple[Memory, ...]:
        if not self._history.known:
            return ()
        key = f"{self._history.key()} {int(now // _DAY)}"
        if self._from_git is None or self._from_git[0] != key:
            self._from_git = key, self._git_kept(key, now)
        return self._from_git[1]

    def _git_kept(self, key: str, now: float) -> tuple[Memory, ...]:
        """Starting git takes longer than a whole search, so what it said is kept beside the index."""
        store = self._keeper.live_store()
        data = read_beside(store, GIT_NAME) if store is not None else None
        try:
            content = json.loads(data or b"{}")
            if content.get("key") == key:
                return tuple(Memory(**record) for record in content["memories"])
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
        try:
            found = from_log(self._history.memory_log(now), now)
        except GitFailed:
            return ()
        if store is not None:
            records = [asdict(memory) for memory in found]
            write_beside(store, GIT_NAME, json.dumps({"key": key, "memories": records}).encode())
        return found

    def _meaning(self, query: str, memories: Sequence[Memory]) -> dict[str, float]:
        """The cosine of each memory with the query, where there is a model to tell."""
        embedder = self._keeper.embedder
        considered = memories[:MOST_MEANT]
        if embedder is None or not considered:
            return {}
        new = [memory for memory in considered if memory.id not in self._vectors]
        if new:
            rows = embedder.embed_documents([f"{memory.memory} {memory.reason}" for memory in new])
            self._vectors.update(zip((memory.id for memory in new), rows, strict=True))
        wanted = embedder.embed_query(query).ravel()
        return {memory.id: float(wanted @ self._vectors[memory.id]) for memory in considered}

    # --- writing ---

    def remember(self, request: RememberRequest, now: float) -> Remembered:
        from codeinfo.operations.knowledge import Remembered

        memory = make(
            request.type,
            request.category,
            request.memory,
            request.reason,
            iso_of(now),
            scope=request.scope,
            author=request.author,
        )
        known = False

        def add(before: tuple[Memory, ...]) -> list[Memory]:
            nonlocal known
            others = [one for one in before if one.id != memory.id]
            known = len(others) < len(before)
            return [*others, memory]

        memory_file.change(self.root, add)
        return Remembered(described(memory, now), known)

    def remove(self, prefix: str, now: float) -> RelatedMemory:
        memory = self.one(prefix, now)
        if memory.source == "git":
            raise UsageError(
                f"{memory.id} is a commit's message",
                next_step="It goes when the commit is 90 days old; nothing to remove",
            )
        memory_file.change(self.root, lambda before: [one for one in before if one != memory])
        return described(memory, now)

    def export(self) -> tuple[dict[str, str], ...]:
        return tuple(to_record(memory) for memory in memory_file.read(self.root))

    def take_in(self, text: str, name: str) -> MemoryImported:
        from codeinfo.operations.knowledge import MemoryImported

        given = memory_file.parsed(text, name)
        own = [from_record(to_record(memory)) for memory in given if memory.source != "git"]
        added = 0

        def merge(before: tuple[Memory, ...]) -> list[Memory]:
            nonlocal added
            ids = {memory.id for memory in before}
            new = [memory for memory in own if memory.id not in ids]
            added = len({memory.id for memory in new})
            return [*before, *new]

        memory_file.change(self.root, merge)
        return MemoryImported(added, len(own) - added, len(given) - len(own))
