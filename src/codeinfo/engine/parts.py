"""Providers, made once from the configuration, when something first needs them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from codeinfo.config import Config
from codeinfo.errors import UsageError

if TYPE_CHECKING:
    from codeinfo.ports import Embedder
    from codeinfo.providers.endpoints import Limits


class Parts:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None

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
        from codeinfo.providers.endpoints import Limits

        return self._make_embedder(Limits(seconds, seconds, seconds, attempts=1))

    def _make_embedder(self, limits: Limits | None = None) -> Embedder:
        settings = self._config.embedding
        if settings.provider == "builtin":
            from codeinfo.providers.builtin.embedder import BuiltinEmbedder

            return BuiltinEmbedder()
        from codeinfo.providers import make_embedder
        from codeinfo.providers.endpoints import EmbeddingEndpoint, Limits, ScriptedModel
        from codeinfo.providers.keys import Key

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
