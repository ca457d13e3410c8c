"""Which chat model answers: the configured endpoint, or one that is found on this machine, or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import NotFound, ProviderError
from codeinfo.operations.answers import Provider, ProviderList

if TYPE_CHECKING:
    from codeinfo.config import Config
    from codeinfo.ports import Llm
    from codeinfo.providers.discover import Server
    from codeinfo.providers.endpoints import Limits
    from codeinfo.providers.keys import Key

CONFIGURED = "configured"
NONE = "none"
NOBODY = "no chat model is set up and none was found on this machine, so the best passages are quoted instead"


class Chosen(Struct, frozen=True):
    """`llm` is None where no model is to be asked; `note` says why, unless that was the wish."""

    provider: str
    llm: Llm | None
    note: str = ""


def choose(config: Config, provider: str, model: str, seconds: float) -> Chosen:
    """`provider` and `model` are the caller's wishes and may be empty; `seconds` bounds one request."""
    if provider == NONE or (not provider and config.llm.provider == NONE):
        return Chosen(NONE, None)
    if config.llm.base_url and provider in ("", CONFIGURED):
        return Chosen(CONFIGURED, _llm(config, config.llm.base_url, model or config.llm.model, seconds, _key(config)))
    servers = _found(config)
    for server in servers:
        if server.state == "ok" and provider in ("", server.name) and (wanted := _model_of(server, config, model)):
            return Chosen(server.name, _llm(config, server.base_url, wanted, seconds, None))
    if provider:
        known = ", ".join(server.name for server in servers if server.state == "ok") or "none"
        raise NotFound(
            f"no provider {provider!r} answers", next_step=f"Those that do: {known}. See `codeinfo providers`"
        )
    if model:
        raise NotFound(f"no server offers a model {model!r}", next_step="`codeinfo providers` lists them")
    return Chosen(NONE, None, NOBODY)


def list_providers(config: Config) -> ProviderList:
    from codeinfo.providers.discover import look

    servers: list[tuple[Server, bool]] = []
    if config.llm.base_url:
        servers.append((look(CONFIGURED, config.llm.base_url, _key(config), _limits(config, 10)), True))
    servers += [(server, False) for server in _found(config)]
    listed = [
        Provider(one.name, one.base_url, one.state, one.chat_models, one.detail, configured)
        for one, configured in servers
    ]
    notes = [] if config.llm.discover else ["local ports are not looked at (llm.discover is off)"]
    if config.llm.provider == NONE:
        notes.append("llm.provider is none: passages are quoted and no model is asked")
    else:
        usable = (at for at, one in enumerate(listed) if one.configured or (one.state == "ok" and one.models))
        first = next(usable, None)
        if first is not None:
            listed[first] = replace(listed[first], chosen=True)
    return ProviderList(tuple(listed), tuple(notes))


def unavailable(error: ProviderError) -> ProviderError:
    """The endpoint's failure under the one code that clients of answers know."""
    if not error.code.startswith("LLM_"):
        return error
    return ProviderError(error.what, next_step=error.next_step, code="CODE_INFO_LLM_UNAVAILABLE")


def _found(config: Config) -> tuple[Server, ...]:
    from codeinfo.providers.discover import discover
    from codeinfo.providers.endpoints import Discovery

    return discover(Discovery(enabled=config.llm.discover))


def _model_of(server: Server, config: Config, wish: str) -> str:
    wanted = wish or config.llm.model
    if wanted:
        return wanted if wanted in server.models else ""
    return server.chat_models[0] if server.chat_models else ""


def _llm(config: Config, base_url: str, model: str, seconds: float, key: Key | None) -> Llm:
    from codeinfo.providers import make_llm
    from codeinfo.providers.endpoints import ChatEndpoint

    endpoint = ChatEndpoint(
        base_url, model, key, temperature=config.llm.temperature, limits=_limits(config, max(seconds, 1))
    )
    return make_llm(endpoint)


def _limits(config: Config, seconds: float) -> Limits:
    from codeinfo.providers.endpoints import Limits

    silence = config.llm.timeout_s
    return Limits(read_seconds=min(silence, seconds), total_seconds=seconds, retry_seconds=min(60.0, seconds))


def _key(config: Config) -> Key | None:
    from codeinfo.providers.keys import key_from_environment, key_from_file

    if name := config.llm.api_key_env:
        return key_from_environment(name, {name: config.secret(name)})
    if path := config.llm.api_key_file:
        return key_from_file(Path(path).expanduser())
    return None
