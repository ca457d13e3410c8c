"""Which OpenAI-compatible servers answer, and which models they offer. No key is ever sent to a guessed address."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct

from codeinfo.errors import ProviderError
from codeinfo.models.endpoints import Discovery, Key, Limits
from codeinfo.models.http import Connection, Fault, Kind, parse_target, provider_error

_LARGEST_LIST = 8_000_000  # bytes; public services list hundreds of models
_EMBEDDING_NAMES = ("embed", "bge-", "e5-", "minilm", "gte-", "rerank")


class Server(Struct, frozen=True):
    """One address and how it answered: `state` is "ok", or the code of the failure that `detail` describes."""

    name: str
    base_url: str
    state: str
    models: tuple[str, ...] = ()
    detail: str = ""

    @property
    def chat_models(self) -> tuple[str, ...]:
        """Those whose names do not say that they embed or rerank: the list itself does not tell."""
        return tuple(model for model in self.models if not any(part in model.lower() for part in _EMBEDDING_NAMES))


def discover(settings: Discovery) -> tuple[Server, ...]:
    """A quick look at the usual local ports, side by side. Every port is reported, answering or not."""
    if not settings.enabled or not settings.ports:
        return ()
    limits = Limits(connect_seconds=settings.seconds, read_seconds=settings.seconds, total_seconds=settings.seconds)
    addresses = [(name, f"http://{settings.host}:{port}/v1") for name, port in settings.ports]
    with ThreadPoolExecutor(len(addresses)) as pool:
        return tuple(pool.map(lambda address: look(address[0], address[1], None, limits), addresses))


def look(name: str, base_url: str, key: Key | None, limits: Limits) -> Server:
    """One address, configured or guessed; a failure is a state, not an error."""
    shown = parse_target(base_url).shown
    try:
        models = list_models(base_url, key, limits)
    except ProviderError as error:
        return Server(name, shown, error.code, detail=str(error))
    return Server(name, shown, "ok", models)


def list_models(base_url: str, key: Key | None, limits: Limits) -> tuple[str, ...]:
    """The names of the models an endpoint offers."""
    target = parse_target(base_url)
    connection = Connection(target, key, limits)
    try:
        connection.get("/models")
        return _names(connection.read_json(_LARGEST_LIST))
    except Fault as fault:
        raise provider_error(fault, role="LLM", where=target.shown, model="") from fault
    finally:
        connection.close()


def _names(reply: Any) -> tuple[str, ...]:
    data = reply.get("data") if isinstance(reply, dict) else None
    if data is None and isinstance(reply, dict) and reply.get("object") == "list":
        data = []  # Ollama without a model
    if not isinstance(data, list):
        raise Fault(Kind.BAD_REPLY, "no list of models in it")
    return tuple(str(item["id"]) for item in data if isinstance(item, dict) and item.get("id"))
