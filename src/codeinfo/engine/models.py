"""The models in use: the embedder and the reranker, created on first use, and the choice of the chat model."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.config import Config
from codeinfo.errors import NotFound, ProviderError, UsageError
from codeinfo.model import NextStep, to_run
from codeinfo.operations.answers import Provider, ProviderList

if TYPE_CHECKING:
    from codeinfo.models.endpoints import Key, Limits
    from codeinfo.ports import Embedder, Llm, Reranker

CONFIGURED = "configured"
NONE = "none"
LOOK_S = 2.0  # for an endpoint's list of models: a slower one is used without the list
NO_CHAT_MODEL = NextStep(
    "no chat model is configured or was found on this machine: ", to_run("providers"), " says where it looked"
)


# --- embedder and reranker -------------------------------------------------------------------------------------------


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
                raise UsageError(
                    "no folder of a reranking model is set",
                    next_step="Set rerank.model_path (CODEINFO_RERANK_MODEL_PATH) to one",
                )
            return LocalReranker(Path(settings.model_path).expanduser(), seconds)
        if not settings.base_url:
            raise UsageError(
                "no reranking endpoint is set",
                next_step="Set rerank.base_url (CODEINFO_RERANK_BASE_URL) to its address",
            )
        name = settings.api_key_env
        key = key_from_environment(name, self.config.secret(name)) if name else None
        limits = Limits(seconds, seconds, seconds, retry_seconds=seconds, backoff_seconds=seconds / 10)
        return EndpointReranker(RerankEndpoint(settings.base_url, settings.model, key, limits=limits))


# --- the chat model --------------------------------------------------------------------------------------------------


class ChatModel(Struct, frozen=True):
    """`llm` is None if no model is to be used; `note` says why, unless the user chose so."""

    provider: str
    llm: Llm | None
    note: str = ""


def choose_chat_model(config: Config, provider: str, model: str, seconds: float) -> ChatModel:
    """`provider` and `model` are the caller's choice and may be empty; `seconds` bounds one request."""
    if provider == NONE or (not provider and config.llm.provider == NONE):
        return ChatModel(NONE, None)
    if config.llm.base_url and provider in ("", CONFIGURED):
        if model:
            _check_offered(config, model)
        return ChatModel(
            CONFIGURED, _llm(config, config.llm.base_url, model or config.llm.model, seconds, _key(config))
        )
    servers = _discover(config)
    for server in servers:
        if server.state == "ok" and provider in ("", server.name) and (wanted := _model_of(server, config, model)):
            return ChatModel(server.name, _llm(config, server.base_url, wanted, seconds, None))
    answering = [server.name for server in servers if server.state == "ok"]
    if provider and provider not in answering:
        raise NotFound(
            f"no provider {provider!r} answers",
            next_step=NextStep(f"Those that do: {', '.join(answering) or 'none'}. See ", to_run("providers")),
        )
    wanted = model or config.llm.model
    if wanted and (answering or model):
        raise NotFound(
            f"the model {wanted!r} is not offered by {provider or 'any server on this machine'}",
            next_step=NextStep(to_run("providers"), " lists them"),
        )
    return ChatModel(NONE, None, NO_CHAT_MODEL)


def _check_offered(config: Config, wanted: str) -> None:
    """Refuse a model the endpoint does not list: the endpoint itself may take a minute to say so. An endpoint that
    lists nothing is tried."""
    from codeinfo.models.chat import look

    offered = look(CONFIGURED, config.llm.base_url, _key(config), _limits(config, LOOK_S)).models
    if offered and wanted not in offered:
        raise NotFound(
            f"{config.llm.base_url} offers no model {wanted!r}", next_step=f"Those it has: {', '.join(offered[:10])}"
        )


def list_providers(config: Config) -> ProviderList:
    from codeinfo.models.chat import chat_models

    found = list(_discover(config))
    if config.llm.base_url:
        found.insert(0, replace(_look_at_configured(config), configured=True))
    listed = [replace(one, models=chat_models(one.models)) for one in found]
    notes = [] if config.llm.discover else ["local ports are not tried (llm.discover is off)"]
    if config.llm.provider == NONE:
        notes.append("llm.provider is none: passages are quoted and no model is used")
    else:
        usable = (at for at, one in enumerate(listed) if one.configured or (one.state == "ok" and one.models))
        first = next(usable, None)
        if first is not None:
            listed[first] = replace(listed[first], chosen=True)
    return ProviderList(tuple(listed), tuple(notes))


def _look_at_configured(config: Config) -> Provider:
    from codeinfo.models.chat import look
    from codeinfo.models.endpoints import parse_target

    try:
        key = _key(config)
    except UsageError as error:
        return Provider(CONFIGURED, parse_target(config.llm.base_url).shown, "LLM_NO_KEY", detail=str(error))
    return look(CONFIGURED, config.llm.base_url, key, _limits(config, 10))


def unavailable(error: ProviderError) -> ProviderError:
    """The endpoint's failure under the one code that clients of answers know."""
    if not error.code.startswith("LLM_"):
        return error
    return ProviderError(error.what, next_step=error.next_step, code="CODE_INFO_LLM_UNAVAILABLE")


def _discover(config: Config) -> tuple[Provider, ...]:
    from codeinfo.models.chat import discover

    return discover() if config.llm.discover else ()


def _model_of(server: Provider, config: Config, wish: str) -> str:
    from codeinfo.models.chat import chat_models

    wanted = wish or config.llm.model
    if wanted:
        return wanted if wanted in server.models else ""
    return next(iter(chat_models(server.models)), "")


def _llm(config: Config, base_url: str, model: str, seconds: float, key: Key | None) -> Llm:
    from codeinfo.models.chat import make_llm
    from codeinfo.models.endpoints import ChatEndpoint

    endpoint = ChatEndpoint(
        base_url, model, key, temperature=config.llm.temperature, limits=_limits(config, max(seconds, 1))
    )
    return make_llm(endpoint)


def _limits(config: Config, seconds: float) -> Limits:
    from codeinfo.models.endpoints import Limits

    silence = config.llm.timeout_s
    return Limits(read_seconds=min(silence, seconds), total_seconds=seconds, retry_seconds=min(60.0, seconds))


def _key(config: Config) -> Key | None:
    from codeinfo.models.endpoints import key_from_environment, key_from_file

    if name := config.llm.api_key_env:
        return key_from_environment(name, config.secret(name))
    if path := config.llm.api_key_file:
        return key_from_file(Path(path).expanduser())
    return None
