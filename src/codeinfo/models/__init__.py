"""Embedders, rerankers and chat models. Each is imported when it is made: a search without them pays for none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from codeinfo.errors import ProviderError

if TYPE_CHECKING:
    from codeinfo.models.endpoints import (
        ChatEndpoint,
        CrossEncoderFolder,
        EmbeddingEndpoint,
        RerankEndpoint,
        ScriptedModel,
    )
    from codeinfo.ports import Embedder, Llm, Reranker


def make_embedder(settings: EmbeddingEndpoint | ScriptedModel) -> Embedder:
    from codeinfo.models.endpoints import ScriptedModel

    if isinstance(settings, ScriptedModel):
        from codeinfo.models.scripted import ScriptedEmbedder

        return ScriptedEmbedder(settings.dimension)
    from codeinfo.models.embeddings import OpenAIEmbedder

    return OpenAIEmbedder(settings)


def make_reranker(settings: RerankEndpoint | CrossEncoderFolder) -> Reranker:
    from codeinfo.models.endpoints import CrossEncoderFolder

    if isinstance(settings, CrossEncoderFolder):
        from codeinfo.models.rerank import LocalReranker

        return LocalReranker(settings)
    from codeinfo.models.rerank import EndpointReranker

    return EndpointReranker(settings)


def make_llm(settings: ChatEndpoint) -> Llm:
    """Without a model's name the endpoint is asked, and its first chat model taken."""
    from codeinfo.models.chat import OpenAIChat

    if not settings.model:
        from codeinfo.models.chat import Server, list_models

        models = list_models(settings.base_url, settings.key, settings.limits)
        offered = Server("", "", "ok", models).chat_models
        if not offered:
            raise ProviderError(
                "the chat endpoint offers no chat model", next_step="Load one there.", code="LLM_MODEL_MISSING"
            )
        settings = replace(settings, model=offered[0])
    return OpenAIChat(settings)
