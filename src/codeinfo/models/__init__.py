"""Models that embed, rerank and answer: the built-in one, endpoints, local ones. `Models` are those in use."""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from codeinfo.config import Config, expand_user
from codeinfo.errors import ProviderError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codeinfo.models.encoder import Encoder, Floats
    from codeinfo.models.endpoints import Limits
    from codeinfo.ports import Embedder, Reranker


class Models:
    """Each is created once; nothing loads or connects before first use."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._reranker: Reranker | None = None

    def close(self) -> None:
        reranker, self._reranker = self._reranker, None
        if reranker is not None:
            reranker.close()

    def reranker(self) -> Reranker:
        """The configured reranker; call only if one is configured."""
        with self._lock:
            self._reranker = self._reranker or self._make_reranker()
            return self._reranker

    def embedder(self) -> Embedder | None:
        """The configured embedder, or None if the user chose keyword search."""
        if self.config.embedding.provider == "none":
            return None
        with self._lock:
            self._embedder = self._embedder or self._make_embedder()
            return self._embedder

    def embedder_within(self, seconds: float) -> Embedder | None:
        """The same for a single probe: an endpoint is called once, for at most `seconds`."""
        if self.config.embedding.provider != "openai":
            return self.embedder()
        from codeinfo.models.endpoints import Limits

        return self._make_embedder(Limits(seconds, seconds, seconds, attempts=1))

    def _make_embedder(self, limits: Limits | None = None) -> Embedder:
        settings = self.config.embedding
        if settings.provider == "builtin":
            return BuiltinEmbedder()
        from codeinfo.models.endpoints import EmbeddingEndpoint, Limits, key_from_environment
        from codeinfo.models.retrieval import OpenAIEmbedder, ScriptedEmbedder

        if settings.provider == "scripted":
            return ScriptedEmbedder(settings.dimension or 256)
        name, secret = settings.api_key_env, self.config.secret(settings.api_key_env)
        return OpenAIEmbedder(
            EmbeddingEndpoint(
                base_url=settings.base_url,
                model=settings.model,
                key=key_from_environment(name, secret) if secret else None,
                unset_key="" if secret else name,  # indexes are named and searched by words without a request
                dimension=settings.dimension,
                batch_count=settings.batch,
                limits=limits or Limits(read_seconds=settings.timeout_s),
            )
        )

    def _make_reranker(self) -> Reranker:
        from codeinfo.models.endpoints import Limits, RerankEndpoint, key_from_environment
        from codeinfo.models.retrieval import EndpointReranker, LocalReranker

        settings = self.config.rerank
        seconds = settings.timeout_ms / 1000
        if settings.provider == "local":
            if not settings.model_path:
                step = "Set rerank.model_path (CODEINFO_RERANK_MODEL_PATH) to one"
                raise UsageError("no folder of a reranking model is set", step)
            return LocalReranker(expand_user(settings.model_path), seconds)
        if not settings.base_url:
            step = "Set rerank.base_url (CODEINFO_RERANK_BASE_URL) to its address"
            raise UsageError("no reranking endpoint is set", step)
        name = settings.api_key_env
        key = key_from_environment(name, self.config.secret(name)) if name else None
        limits = Limits(seconds, seconds, seconds, retry_seconds=seconds, backoff_seconds=seconds / 10)
        return EndpointReranker(RerankEndpoint(settings.base_url, settings.model, key, limits=limits))


# --- the built-in model ----------------------------------------------------------------------------------------------

MODEL = Path(__file__).parent / "model.safetensors"
CHECKSUM = 0xDABBC501  # its CRC-32; comparing it on each start would cost 3 ms
_TYPES = {"I8": "int8", "U8": "uint8", "F32": "float32"}  # safetensors → numpy
MAX_PATHS = 20_000  # cached path vectors, 1 KB each


class BuiltinEmbedder:
    """Implements the `Embedder` port over the table that ships with the package. Its name and dimension are known
    without loading it: the table is mapped on first use."""

    def __init__(self, path: Path = MODEL) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                head, _ = read_head(file)
            self.dimension = int(head["vectors"]["shape"][1])
            self.model_id = f"{head['__metadata__']['id']}-{self.dimension}"
        except (FileNotFoundError, LookupError, TypeError, ValueError, struct.error) as error:
            raise _damaged_model(path, error) from error
        self._paths: dict[str, Floats] = {}

    @cached_property
    def _encoder(self) -> Encoder:
        from codeinfo.models.encoder import Encoder

        try:
            return Encoder(read_safetensors(self._path)[0])
        except ValueError as error:
            raise _damaged_model(self._path, error) from error

    def verify(self) -> None:
        """Compare every byte: most damage only makes results worse."""
        if zlib.crc32(self._path.read_bytes()) != CHECKSUM:
            raise _damaged_model(self._path, "its checksum does not match")

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        return self._encoder.documents(texts)

    def embed_query(self, text: str) -> Floats:
        return self._encoder.query(text)

    def embed_words(self, words: Sequence[tuple[str, float]]) -> tuple[Floats, Floats]:
        return self._encoder.weighted_query(words)

    def knows(self, word: str) -> bool:
        return self._encoder.knows(word)

    def embed_paths(self, paths: Sequence[str]) -> Floats:
        """What each path says, its words weighted as in a query: independent of the rest of the index."""
        import numpy as np  # imported late: the model's name is known without it

        cached = self._paths
        new = [path for path in paths if path not in cached]
        if new:
            if len(cached) > MAX_PATHS:  # replaced rather than cleared: another thread may be reading this one
                cached = self._paths = {path: cached[path] for path in paths if path in cached}
            cached.update(zip(new, self._encoder.paths(new), strict=True))
        return np.array([cached[path] for path in paths], np.float32).reshape(len(paths), self.dimension)


def _damaged_model(path: Path, reason: object) -> ProviderError:
    step = "Install CodeInfo again: pip install --force-reinstall codeinfo"
    return ProviderError(f"the built-in model {path} is damaged: {reason}", step, code="MODEL_DAMAGED")


def read_head(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The JSON header of a safetensors file, and the offset of its data. The format: a length, the header, the data.
    Raises ValueError, or an error of its reader, for a file that is cut or something else."""
    length = os.fstat(file.fileno()).st_size
    start = 8 + struct.unpack("<Q", file.read(8))[0]
    head = json.loads(file.read(min(start - 8, length)))  # a wrong length may be larger than the memory
    if start + max(about["data_offsets"][1] for name, about in head.items() if name != "__metadata__") != length:
        raise ValueError(f"{length:,} bytes are not what its header says")
    return head, start


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Tensors as views of the mapped file, and its metadata."""
    import numpy as np  # imported late: the model's name is known without it

    with open(path, "rb") as file:
        head, start = read_head(file)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    metadata: dict[str, str] = head.pop("__metadata__", {})
    tensors: dict[str, NDArray[Any]] = {}
    for name, about in head.items():
        first, end = about["data_offsets"]
        kind = np.dtype(_TYPES[about["dtype"]])
        flat = np.frombuffer(mapped, kind, (end - first) // kind.itemsize, start + first)
        tensors[name] = flat.reshape(about["shape"])
    return tensors, metadata
