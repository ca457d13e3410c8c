"""Embedder over any OpenAI-compatible `/embeddings` endpoint, and one that needs no model."""

from __future__ import annotations

import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from codeinfo.errors import UsageError
from codeinfo.models.endpoints import TEXT_CHARS, EmbeddingEndpoint
from codeinfo.models.http import Connection, Fault, Kind, parse_target, provider_error, with_retries
from codeinfo.tokens import stem, words

if TYPE_CHECKING:
    from codeinfo.ports import Vectors


_LARGEST_REPLY = 256_000_000  # bytes; 2,048 vectors of 4,096 numbers, written out in full

_RETRIEVAL = "Represent this sentence for searching relevant passages: "

# Instructions that models were trained with, by a part of the model's name: (query, document). The first match counts.
PREFIXES: tuple[tuple[str, str, str], ...] = (
    ("nomic-embed-code", "Represent this query for searching relevant code: ", ""),
    ("nomic-embed", "search_query: ", "search_document: "),
    ("multilingual-e5-large-instruct", "Instruct: Find the passages that answer the query\nQuery: ", ""),
    ("e5-", "query: ", "passage: "),
    ("bge-m3", "", ""),
    ("bge-", _RETRIEVAL, ""),
    ("mxbai-embed", _RETRIEVAL, ""),
    ("snowflake-arctic-embed2", "query: ", ""),
    ("arctic-embed-l-v2", "query: ", ""),
    ("arctic-embed-m-v2", "query: ", ""),
    ("arctic-embed", _RETRIEVAL, ""),
    ("qwen3-embedding", "Instruct: Given a search query, retrieve relevant passages that answer it\nQuery: ", ""),
    ("embeddinggemma", "task: search result | query: ", "title: none | text: "),
)


def known_prefixes(model: str) -> tuple[str, str]:
    name = model.lower()
    return next(((query, document) for part, query, document in PREFIXES if part in name), ("", ""))


class OpenAIEmbedder:
    """Asks the endpoint in batches, over one open connection; safe to share between threads (they take turns)."""

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        if not endpoint.model:
            raise UsageError("no embedding model is named", next_step="Set embedding.model to one the endpoint offers.")
        self._endpoint = endpoint
        self._target = parse_target(endpoint.base_url)
        self._connection = Connection(self._target, endpoint.key, endpoint.limits)
        self._close = weakref.finalize(self, self._connection.close)
        self._lock = threading.Lock()
        self._dimension = endpoint.dimension
        self._query_prefix, self._document_prefix = known_prefixes(endpoint.model)

    @property
    def model_id(self) -> str:
        """`openai:<model>@<dimension>`, and a mark of the recipe where documents are not embedded as they are."""
        recipe = self._document_prefix
        if self._endpoint.text_chars != TEXT_CHARS:
            recipe += f"|{self._endpoint.text_chars}"
        mark = f"+{zlib.crc32(recipe.encode()):08x}" if recipe else ""
        return f"openai:{self._endpoint.model}@{self.dimension}{mark}"

    @property
    def dimension(self) -> int:
        """As set; else asked of the endpoint once, by embedding a word."""
        if not self._dimension:
            self._embed(["dimension"])
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        batches = [self._embed(batch) for batch in self._batches([self._document_prefix + text for text in texts])]
        if not batches:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.concatenate(batches)

    def embed_query(self, text: str) -> Vectors:
        row: Vectors = self._embed([self._cut(self._query_prefix + text)])[0]
        return row

    def close(self) -> None:
        """Give the connection up; the next call would open another."""
        with self._lock:
            self._connection.close()

    def _cut(self, text: str) -> str:
        return text[: self._endpoint.text_chars] or " "  # endpoints refuse the empty string

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        chars = 0
        for text in map(self._cut, texts):
            full = len(batch) >= self._endpoint.batch_count or chars + len(text) > self._endpoint.batch_chars
            if batch and full:
                yield batch
                batch, chars = [], 0
            batch.append(text)
            chars += len(text)
        if batch:
            yield batch

    def _embed(self, batch: list[str]) -> Vectors:
        payload: dict[str, Any] = {"model": self._endpoint.model, "input": batch, "encoding_format": "float"}
        if self._endpoint.dimension:
            payload["dimensions"] = self._endpoint.dimension
        try:
            with self._lock:
                reply = with_retries(lambda: self._ask(payload), self._endpoint.limits)
                vectors = _unit_rows(_rows_in_order(reply, len(batch)), self._dimension)
                self._dimension = vectors.shape[1]
        except Fault as fault:
            raise provider_error(
                fault, role="EMBEDDING", where=self._target.shown, model=self._endpoint.model
            ) from fault
        return vectors

    def _ask(self, payload: dict[str, Any]) -> Any:
        self._connection.post("/embeddings", payload)
        return self._connection.read_json(_LARGEST_REPLY)


def _rows_in_order(reply: Any, count: int) -> list[list[Any]]:
    """The vectors by their `index`: endpoints may answer in any order."""
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list):
        raise Fault(Kind.BAD_REPLY, "no list of embeddings in it")
    rows: dict[int, list[Any]] = {}
    for position, item in enumerate(data):
        vector = item.get("embedding") if isinstance(item, dict) else None
        index = item.get("index", position) if isinstance(item, dict) else None
        if not isinstance(vector, list) or not isinstance(index, int) or index in rows:
            raise Fault(Kind.BAD_REPLY, f"entry {position} is not one vector with an index of its own")
        rows[index] = vector
    missing = [index for index in range(count) if index not in rows]
    if missing or len(rows) != count:
        raise Fault(Kind.BAD_REPLY, f"{len(rows)} vectors for {count} texts, text {missing[0] if missing else count}")
    return [rows[index] for index in range(count)]


def _unit_rows(rows: list[list[Any]], dimension: int) -> Vectors:
    """Float32 rows of unit length; a row that could not be one is refused, never repaired."""
    import numpy as np

    wanted = dimension or len(rows[0])
    for index, row in enumerate(rows):
        if any(isinstance(number, list) for number in row):
            raise Fault(Kind.BAD_REPLY, f"vector {index} is one vector for each token: the model does not pool them")
        if len(row) != wanted or not wanted:
            raise Fault(Kind.BAD_REPLY, f"vector {index} has {len(row)} numbers where {wanted} are expected")
    try:
        vectors = np.asarray(rows, dtype=np.float64)  # in double: squares of large numbers overflow in single
    except (TypeError, ValueError) as error:
        raise Fault(Kind.BAD_REPLY, "a vector holds something that is not a number") from error
    norms = np.linalg.norm(vectors, axis=1)
    for index, norm in enumerate(norms):
        if not np.isfinite(norm):
            raise Fault(Kind.BAD_REPLY, f"vector {index} holds NaN or infinity")
        if norm < 1e-12:
            raise Fault(Kind.BAD_REPLY, f"vector {index} is zero")
    unit: Vectors = (vectors / norms[:, None]).astype(np.float32)
    return unit


class ScriptedEmbedder:
    """Hashed bag of stemmed words: texts that share words are close. Deterministic, for tests and for trying things out
    without a model."""

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension
        self.model_id = f"scripted:words@{dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in words(text):
                code = zlib.crc32(stem(word).encode())
                row[code % self.dimension] += 1.0 if code & 0x8000_0000 else -1.0
            if not row.any():
                row[0] = 1.0  # a text without words still has a place, the same for all of them
            row /= np.linalg.norm(row)
        return rows

    def embed_query(self, text: str) -> Vectors:
        row: Vectors = ScriptedEmbedder(self.dimension).embed_documents([text])[0]
        return row
