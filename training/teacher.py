"""The teacher: a small sentence transformer fine-tuned on the pairs (PyTorch; runs where the accelerator is)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

CLS, SEP = 101, 102


def shrink(weights: dict[str, np.ndarray], out: Path) -> None:
    """Save weights as int8 with one scale a row: as a starting point for training that loses nothing that matters."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in weights.items():
        matrix = value.reshape(value.shape[0], -1).astype(np.float32)
        if value.ndim < 2:
            arrays[name] = value.astype(np.float32)
            continue
        scale = np.abs(matrix).max(1, keepdims=True) / 127 + 1e-12
        arrays[name + ":q"] = np.round(matrix / scale).astype(np.int8)
        arrays[name + ":s"] = scale.astype(np.float32)
    np.savez_compressed(out, **arrays)


def unshrink(path: Path) -> dict[str, Tensor]:
    arrays = np.load(path)
    out = {n: torch.from_numpy(arrays[n]) for n in arrays.files if ":" not in n}
    for n in arrays.files:
        if n.endswith(":q"):
            out[n[:-2]] = torch.from_numpy(arrays[n].astype(np.float32) * arrays[n[:-2] + ":s"])
    return out


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.dense(mixed))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


_PARTS = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
          "dense": "attention.output.dense", "norm1": "attention.output.LayerNorm", "up": "intermediate.dense",
          "down": "output.dense", "norm2": "output.LayerNorm"}  # fmt: skip


class Teacher(nn.Module):
    """BERT's encoder with mean pooling, as the published MiniLM sentence models use it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        weights = unshrink(path)
        words = weights["embeddings.word_embeddings.weight"]
        width = words.shape[1]
        layers = 1 + max(int(n.split(".")[2]) for n in weights if n.startswith("encoder.layer."))
        inner = weights["encoder.layer.0.intermediate.dense.weight"].shape[0]
        self.words = nn.Embedding.from_pretrained(words, freeze=False)
        position = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][:1]
        )
        self.positions = nn.Parameter(position)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(Layer(width, width // 32, inner) for _ in range(layers))
        self.norm.load_state_dict({k: weights[f"embeddings.LayerNorm.{k}"] for k in ("weight", "bias")})
        for i, layer in enumerate(self.layers):
            for own, theirs in _PARTS.items():
                state = {k: weights[f"encoder.layer.{i}.{theirs}.{k}"] for k in ("weight", "bias")}
                getattr(layer, own).load_state_dict(state)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: padded with 0; unit-length rows."""
        real = tokens != 0
        length = int(real.sum(1).max())
        tokens, real = tokens[:, :length], real[:, :length]
        x = self.norm(self.words(tokens) + self.positions[:length])
        mask = real[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        weight = real.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * weight).sum(1).float() / weight.sum(1).float(), dim=-1)


def pieces_of(words: list[str], vocabulary: list[str]) -> list[list[int]]:
    """WordPiece of single lowercase words, longest match first."""
    index = {token: i for i, token in enumerate(vocabulary)}
    out: list[list[int]] = []
    for word in words:
        ids: list[int] = []
        start = 0
        while start < len(word):
            end = len(word)
            while end > start and (word[start:end] if start == 0 else "##" + word[start:end]) not in index:
                end -= 1
            if end == start:
                ids = [index["[UNK]"]]
                break
            ids.append(index[word[start:end] if start == 0 else "##" + word[start:end]])
            start = end
        out.append(ids)
    return out


def padded(rows: np.ndarray, lengths: np.ndarray, pieces: list[list[int]], limit: int) -> np.ndarray:
    """Flat word ids with row lengths → a matrix of piece ids with [CLS] and [SEP], padded with 0."""
    piece_n = np.array([len(p) for p in pieces], np.int64)
    piece_at = np.concatenate([[0], np.cumsum(piece_n)])[:-1]
    flat = np.array([i for p in pieces for i in p], np.int32)
    counts = piece_n[rows]
    row_of = np.repeat(np.repeat(np.arange(len(lengths)), lengths), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    tokens = flat[np.repeat(piece_at[rows], counts) + within]
    first = np.zeros(len(lengths) + 1, np.int64)
    np.add.at(first, row_of + 1, 1)
    column = np.arange(len(tokens)) - np.cumsum(first)[:-1][row_of] + 1
    out = np.zeros((len(lengths), limit), np.int32)
    out[:, 0] = CLS
    keep = column < limit - 1
    out[row_of[keep], column[keep]] = tokens[keep]
    last = np.minimum(first[1:] + 1, limit - 1)
    out[np.arange(len(lengths)), last] = SEP
    return out


def train(model: Teacher, batches, encode_pair, steps: int, lr: float, temperature: float) -> None:  # type: ignore[no-untyped-def]
    """InfoNCE in both directions. `encode_pair(batch, step)` gives the token matrices of queries and documents."""
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=lr
    )
    warmup = max(1, steps // 20)
    model.train()
    shown = 0.0
    for step, batch in enumerate(batches):
        scale = min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.01)
        for group in optimizer.param_groups:
            group["lr"] = lr * scale
        queries, documents = encode_pair(batch, step)
        with torch.autocast(queries.device.type, dtype=torch.bfloat16):
            q, d = model(queries), model(documents)
        logits = q @ d.T / temperature
        target = torch.arange(len(batch), device=logits.device)
        loss = F.cross_entropy(logits, target) + 0.5 * F.cross_entropy(logits.T, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        shown = 0.95 * shown + 0.05 * float(loss.detach()) if step else float(loss.detach())
        if step % 50 == 0:
            print(f"teacher step {step}/{steps} loss {shown:.3f}", flush=True)
    model.eval()


@torch.no_grad()
def encode(model: Teacher, tokens: np.ndarray, device: str, batch: int = 4096) -> Tensor:
    """All rows, sorted by length so that little is padding; half precision."""
    order = np.argsort((tokens != 0).sum(1))
    out = torch.empty(len(tokens), model.words.embedding_dim, dtype=torch.float16, device=device)
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        with torch.autocast(device, dtype=torch.bfloat16):
            out[torch.from_numpy(rows).to(device)] = model(torch.from_numpy(tokens[rows]).to(device)).half()
    return out
