"""Models that embed, rerank and answer: the built-in one, endpoints, local ones. `Models` are those in use."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from codeinfo.config import Config, expand_user
from codeinfo.errors import UsageError

if TYPE_CHECKING:
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
            from codeinfo.models.builtin import BuiltinEmbedder

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
