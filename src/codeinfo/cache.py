"""Caches and batches of a bounded size, groups, what can be reached, a memo for questions in circles, and timers."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Content = TypeVar("Content")
Item = TypeVar("Item")


class Cache(Generic[Key, Content]):
    """Maps keys to immutable contents: keeps the most recently used ones, up to a total size."""

    def __init__(self, most: int, size: Callable[[Content], int]) -> None:
        self._most, self._size = most, size
        self._total = 0
        self._known: OrderedDict[Key, Content] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Key) -> Content | None:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def add(self, key: Key, content: Content) -> Content:
        with self._lock:
            before = self._known.pop(key, None)
            self._known[key] = content
            self._total += self._size(content) - (self._size(before) if before is not None else 0)
            while self._total > self._most and len(self._known) > 1:
                self._total -= self._size(self._known.popitem(last=False)[1])
        return content

    def once(self, key: Key, make: Callable[[], Content]) -> Content:
        cached = self.get(key)
        return cached if cached is not None else self.add(key, make())

    def discard(self, keys: AbstractSet[Key]) -> None:
        with self._lock:
            for key in self._known.keys() & keys:
                self._total -= self._size(self._known.pop(key))


class Memo:
    """Answers by question, each found once: for one thread, dropped as a whole. A question that comes up while it is
    being answered, as in a cycle of imports or of types, is cut: its answer is empty there. What was found with the
    help of that may be incomplete, so it is not kept before the question that was cut is answered. The same holds for
    questions nested deeper than `deepest`."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._open: dict[Hashable, int] = {}  # the questions being answered, with their depth
        self._cut = sys.maxsize  # the depth of the outermost of them that was cut

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable) -> Any:
        return self._known.get(key)

    def add(self, key: Hashable, answer: Item) -> Item:
        self._known[key] = answer
        return answer

    def once(self, key: Hashable, find: Callable[[], Sequence[Item]], deepest: int = sys.maxsize) -> Sequence[Item]:
        earlier: Sequence[Item] | None = self._known.get(key)
        if earlier is not None:
            return earlier
        depth = len(self._open)
        if key in self._open or depth >= deepest:
            self._cut = min(self._cut, self._open.get(key, 0))
            return []
        self._open[key] = depth
        cut_before, self._cut = self._cut, sys.maxsize
        try:
            answer = find()
        finally:
            del self._open[key]
        if self._cut >= depth:
            self._known[key] = answer
            self._cut = cut_before
        else:
            self._cut = min(self._cut, cut_before)
        return answer


def batches(
    items: Iterable[Item], size: Callable[[Item], int], most: int, count: int = sys.maxsize
) -> Iterator[list[Item]]:
    """Consecutive items together: at most `count`, and of at most the size `most` unless a single one is larger."""
    batch, total = list[Item](), 0
    for item in items:
        if batch and (len(batch) >= count or total + size(item) > most):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size(item)
    if batch:
        yield batch


def group_by_key(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of each key, in their order."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def reachable(starts: Iterable[Key], following: Callable[[Key], Iterable[Key]]) -> Iterator[Key]:
    """Some things and all that they lead to, each once, near ones first."""
    reached, waiting = set[Key](), deque(starts)
    while waiting:
        current = waiting.popleft()
        if current not in reached:
            reached.add(current)
            yield current
            waiting += following(current)


_PARTS = 4


class _Timer(threading.Timer):
    """While the machine stands still, as a laptop that is closed, no more than a part of the time passes."""

    def run(self) -> None:
        for _ in range(_PARTS):
            if self.finished.wait(self.interval / _PARTS):
                return
        self.function(*self.args)


def start_timer(seconds: float, work: Callable[..., object], *arguments: object) -> threading.Timer:
    """Does some work later, unless it is cancelled; the process does not wait for it."""
    timer = _Timer(seconds, work, arguments)
    timer.daemon = True
    timer.start()
    return timer


_LONGEST_KNOWN = 64  # characters: longer tokens rarely recur


class TokenCache(dict[str, tuple[Content, ...]]):
    """Caches what a function returns for each token of a text. Most tokens recur, and a hit needs no Python call:
    `map(cache.__getitem__, tokens)` runs at dictionary speed."""

    def __init__(self, read: Callable[[str], Iterable[Content]], most: int) -> None:
        super().__init__()
        self._read, self._most = read, most

    def __missing__(self, token: str) -> tuple[Content, ...]:
        contents = tuple(self._read(token))
        if len(token) <= _LONGEST_KNOWN:
            if len(self) >= self._most:
                self.clear()  # common tokens return at once, and a stream of random names cannot fill the memory
            self[token] = contents
        return contents
