"""The student: one vector a word, one weight a query word, distilled from the teacher's similarities (PyTorch)."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from msgspec import Struct
from torch import Tensor, nn


class Settings(Struct, frozen=True):
    name: str
    words: int = 16_000
    dimension: int = 256
    epochs: int = 6
    batch: int = 4096
    lr: float = 2e-2
    temperature: float = 0.03
    content_share: float = 0.6  # part of the steps that see no path
    path_weight: float = 1.0
    comment_share: float = 0.5
    from_teacher: bool = True  # start from the teacher's view of single words
    hard: float = 0.0  # weight of plain InfoNCE beside the distillation
    seed: int = 20


class Bags:
    """Rows of (word id, weight) as flat arrays on the device."""

    def __init__(self, rows: list[np.ndarray] | list[list[int]], pieces: list[list[int]], device: str, *,
                 root: bool, weight: np.ndarray | None = None) -> None:  # fmt: skip
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = np.concatenate([np.asarray(r, np.int64) for r in rows]) if len(rows) else np.empty(0, np.int64)
        piece_n = np.array([len(p) for p in pieces], np.int64)
        piece_at = np.concatenate([[0], np.cumsum(piece_n)])[:-1]
        piece_flat = np.array([i for p in pieces for i in p], np.int64)
        counts = piece_n[flat]
        row = np.repeat(np.repeat(np.arange(len(rows)), lengths), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        ids = piece_flat[np.repeat(piece_at[flat], counts) + within]
        if root:  # count each word once with the root of how often it occurs
            keys, number = np.unique(row * 100_000 + ids, return_counts=True)
            row, ids, value = keys // 100_000, keys % 100_000, np.sqrt(number).astype(np.float32)
        else:
            value = np.ones(len(ids), np.float32)
        if weight is not None:
            value = value * weight[ids]
        self.start = torch.from_numpy(np.searchsorted(row, np.arange(len(rows)))).to(device)
        self.length = torch.from_numpy(np.bincount(row, minlength=len(rows))).to(device)
        self.ids, self.value = torch.from_numpy(ids).to(device), torch.from_numpy(value).to(device)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Flat ids, their weights and the offsets of the chosen rows."""
        length = self.length[rows]
        offsets = torch.cumsum(length, 0) - length
        at = torch.arange(int(length.sum()), device=rows.device) + torch.repeat_interleave(
            self.start[rows] - offsets, length
        )
        return self.ids[at], self.value[at], offsets


class Student(nn.Module):
    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors)
        self.query_weight = nn.Parameter(torch.ones(len(vectors), device=vectors.device))

    def bag(self, taken: tuple[Tensor, Tensor, Tensor], *, query: bool = False) -> Tensor:
        ids, value, offsets = taken
        weights = value * F.softplus(self.query_weight[ids]) if query else value
        return F.normalize(F.embedding_bag(ids, self.vectors, offsets, mode="sum", per_sample_weights=weights), dim=-1)


def start_vectors(settings: Settings, words: Tensor | None, using: np.ndarray, packages: int, device: str) -> Tensor:
    """The teacher's single-word vectors in their main directions, longer the rarer the word; or random numbers."""
    generator = torch.Generator(device="cpu").manual_seed(settings.seed)
    if words is None:
        return (torch.randn(settings.words, settings.dimension, generator=generator) * 0.1).to(device)
    table = words[: settings.words].float()
    table = table - table.mean(0)
    _, _, axes = torch.linalg.svd(table, full_matrices=False)
    rarity = torch.from_numpy(np.log(packages / np.maximum(using[: settings.words], 1)).astype(np.float32)).to(device)
    return table @ axes[: settings.dimension].T * (0.2 + rarity / rarity.mean()).unsqueeze(1) * 0.5


class Targets(Struct):
    """The teacher's vectors: queries by variant, documents by (path, comment)."""

    queries: list[Tensor]
    documents: dict[tuple[bool, bool], Tensor]


def distil(settings: Settings, batches, bags, targets: Targets, vectors: Tensor, steps: int) -> Student:  # type: ignore[no-untyped-def]
    """KL from the teacher's distribution over the batch to the student's."""
    student = Student(vectors)
    device = vectors.device
    optimizer = torch.optim.Adam(student.parameters(), lr=settings.lr)
    rng = np.random.default_rng(settings.seed)
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * (1 - step / steps) + 1e-4
        rows = torch.from_numpy(batch).to(device)
        variant = int(rng.integers(len(targets.queries)))
        path = rng.random() >= settings.content_share
        # a query made of the comment must not find that comment in the document
        comment = variant in (1, 2, 5) and rng.random() < settings.comment_share
        q = student.bag(bags["queries"][variant].take(rows), query=True)
        d = student.bag(bags["documents"][comment].take(rows))
        if path:
            d = F.normalize(d + settings.path_weight * student.bag(bags["path"].take(rows)), dim=-1)
        scores = q @ d.T / settings.temperature
        taught = targets.queries[variant][rows].float() @ targets.documents[path, comment][rows].float().T
        loss = F.kl_div(F.log_softmax(scores, 1), F.softmax(taught / settings.temperature, 1), reduction="batchmean")
        if settings.hard:
            loss = loss + settings.hard * F.cross_entropy(scores, torch.arange(len(rows), device=device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{settings.name} step {step}/{steps} loss {float(loss.detach()):.3f}", flush=True)
    return student


@torch.no_grad()
def export(student: Student, words: list[str]) -> dict[str, np.ndarray]:
    """int8 with one scale a word; the query weight as float32."""
    table = student.vectors.cpu().numpy()
    scale = np.abs(table).max(1) / 127 + 1e-9
    return {
        "vectors": np.round(table / scale[:, None]).astype(np.int8),
        "scales": scale.astype(np.float32),
        "query_weights": F.softplus(student.query_weight).cpu().numpy().astype(np.float32),
        "vocabulary": np.frombuffer("\n".join(words[: len(table)]).encode(), np.uint8),
    }
