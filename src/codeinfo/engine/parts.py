"""Providers, made once from the configuration, when something first needs them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from codeinfo.config import Config
from codeinfo.errors import UsageError

if TYPE_CHECKING:
    from codeinfo.models.endpoints import CrossEncoderFolder, Limits, RerankEndpoint
    from codeinfo.ports import Embedder, Reranker


class Parts:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._reranker: Reranker | None = None

    def close(self) -> None:
        with self._lock:
            reranker, self._reranker = self._reranker, None
        if reranker is not None:
            reranker.close()

    def reranker(self) -> Reranker:
        """The configured reranker; only for those who know that there is one."""
        with self._lock:
            if self._reranker is None:
                from codeinfo.models import make_reranker

                self._reranker = make_reranker(self._reranker_settings())
            return self._reranker

    def embedder(self) -> Embedder | None:
        """The configured embedder, or None where the user chose keyword search only."""
        with self._lock:
            if self._embedder is None and self._config.embedding.provider != "none":
                self._embedder = self._make_embedder()
            return self._embedder

    def impatient_embedder(self, seconds: float) -> Embedder | None:
        """The same for one look: an endpoint is asked once and given up after `seconds`."""
        if self._config.embedding.provider != "openai":
            return self.embedder()
        from codeinfo.models.endpoints import Limits

        return self._make_embedder(Limits(seconds, seconds, seconds, attempts=1))

    def _make_embedder(self, limits: Limits | None = None) -> Embedder:
        settings = self._config.embedding
        if settings.provider == "builtin":
            from codeinfo.models.builtin import BuiltinEmbedder

            return BuiltinEmbedder()
        from codeinfo.models import make_embedder
        from codeinfo.models.endpoints import EmbeddingEndpoint, Key, Limits, ScriptedModel

        if settings.provider == "scripted":
            return make_embedder(ScriptedModel(settings.dimension or 256))
        if not settings.model:
            raise UsageError(
                "no embedding model is named",
                next_step="Set embedding.model (CODEINFO_EMBEDDING_MODEL) to one it serves",
            )
        secret = self._config.secret(settings.api_key_env)
        return make_embedder(
            EmbeddingEndpoint(
                base_url=settings.base_url,
                model=settings.model,
                key=Key(secret, settings.api_key_env) if secret else None,
                dimension=settings.dimension,
                batch_count=settings.batch,
                limits=limits or Limits(read_seconds=settings.timeout_s),
            )
        )

    def _reranker_settings(self) -> RerankEndpoint | CrossEncoderFolder:
        from codeinfo.models.endpoints import CrossEncoderFolder, Limits, RerankEndpoint, key_from_environment

        settings = self._config.rerank
        seconds = settings.timeout_ms / 1000
        if settings.provider == "local":
            if not settings.model_path:
                raise UsageError(
                    "no folder of a reranking model is named",
                    next_step="Set rerank.model_path (CODEINFO_RERANK_MODEL_PATH) to one",
                )
            return CrossEncoderFolder(Path(settings.model_path).expanduser(), seconds)
        if not settings.base_url:
            raise UsageError(
                "no reranking endpoint is named",
                next_step="Set rerank.base_url (CODEINFO_RERANK_BASE_URL) to its address",
            )
        name = settings.api_key_env
        return RerankEndpoint(
            base_url=settings.base_url,
            model=settings.model,
            key=key_from_environment(name, {name: self._config.secret(name)}) if name else None,
            limits=Limits(seconds, seconds, seconds, retry_seconds=seconds, backoff_seconds=seconds / 10),
        )
