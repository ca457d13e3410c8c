"""Embedders and rerankers other than the built-in model.

Embeddings come from any OpenAI-compatible `/embeddings` endpoint, or in tests from a hash. Relevance comes from a
`/rerank` endpoint (Jina, Cohere, vLLM and llama.cpp share one shape, TEI has its own), or from a cross-encoder on this
machine, in a folder named by the user; nothing is downloaded. The local one needs the `rerank` extra: onnxruntime runs
the model, tokenizers reads `tokenizer.json`.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from codeinfo.cache import batches
from codeinfo.errors import ProviderError, UsageError
from codeinfo.models.endpoints import EmbeddingEndpoint, EndpointClient, Fault, Kind, RerankEndpoint
from codeinfo.tokens import stem, words

if TYPE_CHECKING:
    from codeinfo.ports import Vectors


# --- embeddings ------------------------------------------------------------------------------------------------------

_TEXT_CHARS = 16_000  # longer texts are truncated: endpoints refuse the whole batch for one text over their context
_BATCH_CHARS = 100_000  # keeps a request small enough for local servers and their timeouts
_LARGEST_EMBEDDINGS = 256_000_000  # bytes; 2,048 vectors of 4,096 numbers, written out in full

_RETRIEVAL = "Represent this sentence for searching relevant passages: "

# Instructions that models were trained with, by part of the model's name: (query, document). The first match counts.
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
    """Calls the endpoint in batches; safe to share between threads."""

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        if not endpoint.model:
            step = "Set embedding.model (CODEINFO_EMBEDDING_MODEL) to one it serves"
            raise UsageError("no embedding model is set", step)
        self._endpoint = endpoint
        self._client = EndpointClient("EMBEDDING", endpoint)
        self._dimension = endpoint.dimension
        self._query_prefix, self._document_prefix = known_prefixes(endpoint.model)

    @property
    def model_id(self) -> str:
        """`openai:<model>@<dimension>`, plus a mark of the prefix if documents are not embedded as they are."""
        prefix = self._document_prefix
        mark = f"+{zlib.crc32(prefix.encode()):08x}" if prefix else ""
        return f"openai:{self._endpoint.model}@{self.dimension}{mark}"

    @property
    def dimension(self) -> int:
        """As configured; otherwise found once by embedding a word."""
        if not self._dimension:
            self._embed(["dimension"])
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        sent = (self._cut(self._document_prefix + text) for text in texts)
        rows = [self._embed(batch) for batch in batches(sent, len, _BATCH_CHARS, self._endpoint.batch_count)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        row: Vectors = self._embed([self._cut(self._query_prefix + text)])[0]
        return row

    def _cut(self, text: str) -> str:
        return text[:_TEXT_CHARS] or " "  # endpoints refuse the empty string

    def _embed(self, batch: list[str]) -> Vectors:
        payload: dict[str, Any] = {"model": self._endpoint.model, "input": batch, "encoding_format": "float"}
        if self._endpoint.dimension:
            payload["dimensions"] = self._endpoint.dimension

        def read(reply: Any) -> Vectors:
            sent = reply.get("data") if isinstance(reply, dict) else None
            entries = _in_order(sent, len(batch), "vectors", ordered=True)
            return _unit_rows([entry.get("embedding") for entry in entries], self._dimension)

        vectors = self._client.ask("/embeddings", payload, read, _LARGEST_EMBEDDINGS)
        self._dimension = vectors.shape[1]
        return vectors


def _in_order(sent: Any, count: int, what: str, *, ordered: bool) -> list[dict[str, Any]]:
    """The entries of a reply by their `index`: endpoints may answer in any order. `ordered`: one may have none, and is
    then where it belongs."""
    if not isinstance(sent, list):
        raise Fault(Kind.BAD_REPLY, f"no list of {what} in it")
    entries: dict[int, dict[str, Any]] = {}
    for position, item in enumerate(sent):
        index = item.get("index", position if ordered else None) if isinstance(item, dict) else None
        if type(index) is not int or index in entries or not 0 <= index < count:
            raise Fault(Kind.BAD_REPLY, f"entry {position} has no index of its own within 0..{count - 1}")
        entries[index] = item
    if len(entries) != count:
        raise Fault(Kind.BAD_REPLY, f"{len(entries)} {what} for {count} texts")
    return [entries[index] for index in range(count)]


def _unit_rows(rows: list[Any], dimension: int) -> Vectors:
    """Float32 rows of unit length; a row that cannot be normalised is refused, never repaired."""
    if not all(isinstance(row, list) for row in rows):
        raise Fault(Kind.BAD_REPLY, "an embedding is not a list of numbers")
    expected = dimension or len(rows[0])
    for index, row in enumerate(rows):
        if any(isinstance(number, list) for number in row):
            raise Fault(Kind.BAD_REPLY, f"vector {index} is one vector for each token: the model does not pool them")
        if len(row) != expected or not expected:
            raise Fault(Kind.BAD_REPLY, f"vector {index} has {len(row)} numbers where {expected} are expected")
    try:
        vectors = np.asarray(rows, dtype=np.float64)  # in double precision: squares of large numbers overflow in single
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
    """Hashed bag of stemmed words: texts that share words are close. For tests, and to try things without a model."""

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension
        self.model_id = f"scripted:words@{dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.array([self.embed_query(text) for text in texts], np.float32).reshape(-1, self.dimension)

    def embed_query(self, text: str) -> Vectors:
        row = np.zeros(self.dimension, np.float32)
        for word in words(text):
            code = zlib.crc32(stem(word).encode())
            row[code % self.dimension] += 1.0 if code & 0x8000_0000 else -1.0
        if not row.any():
            row[0] = 1.0  # a text without words still has a vector, the same for all of them
        return row / np.float32(np.linalg.norm(row))


# --- rerankers -------------------------------------------------------------------------------------------------------


def sigmoid(logit: float) -> float:
    """In the form that does not overflow for either sign."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    power = math.exp(logit)
    return power / (1 + power)


_LARGEST_SCORES = 8_000_000  # bytes; some endpoints send the documents back


class EndpointReranker:
    """Safe to share between threads. Most endpoints return relevances from 0 to 1, llama.cpp returns logits, and no
    field says which. A reply with a score outside 0..1 can only be logits; from then on every reply of the endpoint is
    read as logits. The order is the same either way, since the sigmoid keeps it."""

    def __init__(self, endpoint: RerankEndpoint) -> None:
        self._endpoint = endpoint
        self._client = EndpointClient("RERANK", endpoint, "/v1" if endpoint.model else "")
        self._sends_logits = False

    @property
    def model_id(self) -> str:
        return f"endpoint:{self._endpoint.model or self._client.target.address}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        payload = self._payload(query, [text[: self._endpoint.text_chars] or " " for text in texts])
        scores = self._client.ask("/rerank", payload, partial(_read_scores, len(texts)), _LARGEST_SCORES)
        self._sends_logits = self._sends_logits or any(not 0 <= score <= 1 for score in scores)
        return [sigmoid(score) for score in scores] if self._sends_logits else scores

    def close(self) -> None:
        self._client.close()

    def _payload(self, query: str, texts: list[str]) -> dict[str, Any]:
        query = query[: self._endpoint.text_chars]
        if not self._endpoint.model:
            return {"query": query, "texts": texts, "truncate": True}
        return {"model": self._endpoint.model, "query": query, "documents": texts, "top_n": len(texts)}


def _read_scores(count: int, reply: Any) -> list[float]:
    """TEI sends a bare list and names a score `score`."""
    entries = _in_order(reply.get("results") if isinstance(reply, dict) else reply, count, "scores", ordered=False)
    return [_number(entry.get("relevance_score", entry.get("score")), index) for index, entry in enumerate(entries)]


def _number(score: Any, index: int) -> float:
    try:
        number = float(score) if type(score) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Fault(Kind.BAD_REPLY, f"the score of text {index} is not a finite number")
    return number


MODEL_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"
_ONLY_ERRORS = 3  # of onnxruntime's log levels: its warnings about a model's graph do not help a user


class _Model(Struct, frozen=True):
    session: Any
    tokenizer: Any
    inputs: tuple[tuple[str, str], ...]  # name and type, as the model declares them


class LocalReranker:
    """Calls from several threads take turns, since each uses every core. The first call loads the model. Pairs are
    scored one at a time: no padding is computed, models with a fixed batch size work as well, and a call that runs out
    of time stops at the next pair."""

    def __init__(self, folder: Path, seconds: float, max_tokens: int = 512) -> None:
        """`folder` holds `model.onnx` and `tokenizer.json`. No further text is scored `seconds` after a call, loading
        included; `max_tokens` are those of query and text together."""
        self._folder, self._seconds, self._max_tokens = folder, seconds, max_tokens
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._model: _Model | None = None

    @property
    def model_id(self) -> str:
        return f"local:{self._folder.name}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        deadline = time.monotonic() + self._seconds
        if not self._turn.acquire(timeout=self._seconds):
            raise self._timeout()
        try:
            self._model = self._model or self._load()
            return [sigmoid(self._logit(self._model, query, text, deadline)) for text in texts]
        finally:
            self._turn.release()

    def close(self) -> None:
        """Waits for a running call: the runtime must not be torn down under it."""
        self._closed.set()
        with self._turn:
            self._model = None

    def _load(self) -> _Model:
        folder = self._folder
        missing = [name for name in (MODEL_FILE, TOKENIZER_FILE) if not (folder / name).is_file()]
        if missing:
            step = "Set rerank.model_path to the folder of a cross-encoder that was exported to ONNX"
            raise ProviderError(f"{folder} has no {' and no '.join(missing)}", step, code="RERANK_MODEL_MISSING")
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            what = f"a local reranking model needs a package that is not installed ({error.name})"
            step = "Install it: pip install 'codeinfo[rerank]'"
            raise ProviderError(what, step, code="RERANK_UNAVAILABLE") from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ONLY_ERRORS
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
            model = str(folder / MODEL_FILE)
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # both libraries raise their own types for a damaged file
            raise self._unusable(f"cannot be loaded ({_first_line(error)})") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._max_tokens)
        return _Model(session, tokenizer, tuple((item.name, item.type) for item in session.get_inputs()))

    def _logit(self, model: _Model, query: str, text: str, deadline: float) -> float:
        if self._closed.is_set():
            raise ProviderError(f"the model in {self._folder} was closed", code="RERANK_CANCELLED")
        if time.monotonic() > deadline:
            raise self._timeout()
        try:
            outputs = model.session.run(None, self._inputs(model, model.tokenizer.encode(query, text)))
        except ProviderError:
            raise
        except Exception as error:  # the libraries' own types
            raise self._unusable(f"fails on a pair of texts ({_first_line(error)})") from error
        return self._read_logit(outputs[0])

    def _inputs(self, model: _Model, pair: Any) -> dict[str, NDArray[np.integer[Any]]]:
        values = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        unknown = [name for name, _ in model.inputs if name not in values]
        if unknown:
            raise self._unusable(f"wants the input {unknown[0]!r}, which no cross-encoder for text has")
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
        return {name: np.array([values[name]], kinds.get(kind, np.int64)) for name, kind in model.inputs}

    def _read_logit(self, output: Any) -> float:
        """One number for the pair; for a model with two classes the difference, which is the logit of the second."""
        numbers = np.asarray(output, np.float64).ravel()
        if len(numbers) not in (1, 2) or not np.isfinite(numbers).all():
            raise self._unusable(f"gives {len(numbers)} numbers for a pair where one logit is expected")
        return float(numbers[-1] - (numbers[0] if len(numbers) == 2 else 0.0))

    def _unusable(self, why: str) -> ProviderError:
        step = "Set rerank.model_path to a cross-encoder that was exported to ONNX with its tokenizer"
        return ProviderError(f"the model in {self._folder} {why}", step, code="RERANK_BAD_MODEL")

    def _timeout(self) -> ProviderError:
        what = f"the model in {self._folder} did not answer within {self._seconds:g} s"
        return ProviderError(what, "Allow more in rerank.timeout_ms, or use a smaller model", code="RERANK_TIMEOUT")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
