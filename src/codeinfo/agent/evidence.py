"""What an answer stands on: numbered passages, each an item of its own, and how they are shown to a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.model import Distance, Dropped
from codeinfo.operations.answers import Citation, GradedItem
from codeinfo.search.policy import PolicyItem, PolicyResult, PolicySettings, apply_policy

PREVIEW_LINES, PREVIEW_CHARS = 6, 400  # of a passage, for those who look at what was found
CHARS_PER_TOKEN = 4  # a rule of thumb for English and code, used only where no endpoint counts


def estimated_tokens(text: str) -> int:
    return -(-len(text) // CHARS_PER_TOKEN)


class Item(Struct, frozen=True):
    """One passage. `number` is what the answer cites; `score` is its grade, None where it was not graded."""

    number: int
    root: str
    path: str
    start_line: int
    end_line: int
    text: str
    symbol: str = ""
    distance: Distance | None = None
    score: float | None = None
    section: str = ""  # of a document: its page, sheet, slide or heading

    @property
    def place(self) -> str:
        lines = f"{self.path}:{self.start_line}-{self.end_line}"
        return f"{lines} ({self.section})" if self.section else lines

    def graded(self) -> GradedItem:
        preview = "\n".join(self.text.split("\n", PREVIEW_LINES)[:PREVIEW_LINES])[:PREVIEW_CHARS]
        return GradedItem(
            self.path, self.start_line, self.end_line, self.score, self.distance, root=self.root, preview=preview
        )

    def citation(self, problem: str = "") -> Citation:
        return Citation(
            number=self.number,
            root=self.root,
            path=self.path,
            start_line=self.start_line,
            end_line=self.end_line,
            symbol=self.symbol,
            distance=self.distance,
            problem=problem,
            section=self.section,
        )


class Evidence(Struct):
    """The passages of one run: `kept` while the search goes on, `items` by number once the model is shown them."""

    kept: list[Item] = field(default_factory=list)
    items: dict[int, Item] = field(default_factory=dict)
    _seen: set[tuple[str, str, int, int]] = field(default_factory=set)

    def fresh(self, found: Iterable[Item]) -> tuple[Item, ...]:
        """Those that no earlier search brought."""
        new = tuple(item for item in found if _key(item) not in self._seen)
        self._seen.update(map(_key, new))
        return new

    def show(self, found: Iterable[Item]) -> tuple[Item, ...]:
        """Number the passages that go to the model. One that it has seen keeps its number."""
        numbers = {_key(item): item.number for item in self.items.values()}
        shown_now = []
        for item in found:
            number = numbers.setdefault(_key(item), len(self.items) + 1)
            self.items.setdefault(number, replace(item, number=number))
            shown_now.append(self.items[number])
        return tuple(dict.fromkeys(shown_now))


def _key(item: Item) -> tuple[str, str, int, int]:
    return item.root, item.path, item.start_line, item.end_line


def payload(
    evidence: Evidence, settings: PolicySettings, max_chars: int
) -> tuple[tuple[Item, ...], tuple[Dropped, ...]]:
    """What the answer is written from: the kept passages of all rounds, best first, under the policy's other rules once
    more, since two rounds may bring three chunks of a file or more characters than one payload may have."""
    best = sorted(evidence.kept, key=lambda item: -(1.0 if item.score is None else item.score))
    entries = [
        PolicyItem(item.root, item.path, None, item.text, item.distance.value if item.distance else None, item)
        for item in best
    ]
    limits = replace(settings, cutoff_disabled=True, max_chars=min(settings.max_chars, max_chars))
    result = apply_policy(entries, limits)
    return tuple(kept.payload for kept in result.kept), dropped_by(result)


def dropped_by(result: PolicyResult) -> tuple[Dropped, ...]:
    return tuple(
        Dropped(drop.item.rel_path, drop.item.payload.start_line, drop.item.payload.end_line, drop.rule, drop.detail)
        for drop in result.dropped
    )


def shown(items: Sequence[Item]) -> str:
    """The passages as data: each between marks that its own text cannot forge, with its number and source."""
    mark = fence(item.text for item in items)
    blocks = [f"<<<source {item.number} {item.place} {mark}>>>\n{item.text}\n<<<end {mark}>>>" for item in items]
    return "\n\n".join(blocks)


def fence(texts: Iterable[str]) -> str:
    """A word made of all the texts, which therefore none of them can contain on purpose."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:12]
