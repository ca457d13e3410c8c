"""Llm over any OpenAI-compatible `/chat/completions` endpoint: LM Studio, Ollama, llama.cpp, vLLM, OpenAI.

Before the first token a failure is an error, retried if that may help. After it there is a partial answer, which must
not be lost: a stream that breaks, stalls or sends garbage then ends with `finish="cut"`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from threading import Event
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from codeinfo.config import Config, expand_user
from codeinfo.errors import NotFound, ProviderError, UsageError
from codeinfo.model import NextStep, to_run
from codeinfo.models.endpoints import (
    ChatEndpoint,
    Connection,
    Fault,
    Key,
    Kind,
    Limits,
    Target,
    event_data,
    key_from_environment,
    key_from_file,
    parse_target,
    provider_error,
    status_kind,
    with_retries,
)
from codeinfo.operations.answers import Provider, ProviderList
from codeinfo.ports import Delta, Llm, Message, Messages, Schema, ToolCall, Tools, Usage

_LARGEST_REPLY = 16_000_000  # bytes of a reply that is not streamed
Json = dict[str, Any]
Part = TypeVar("Part", dict[str, Any], list[Any], str)


# --- requests --------------------------------------------------------------------------------------------------------


class OpenAIChat:
    """A chat model behind an endpoint. Holds no connection: each reply has its own, and can be cancelled separately."""

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self._endpoint = endpoint
        self._target = parse_target(endpoint.base_url)
        self._refused: set[str] = set()  # response formats that the endpoint does not support

    @property
    def model_id(self) -> str:
        return self._endpoint.model

    def stream(
        self, messages: Messages, *, tools: Tools = (), schema: Schema | None = None, max_tokens: int | None = None
    ) -> ChatStream:
        """Deltas as they arrive. The request starts with the first `next`, which is also where errors are raised. A
        schema format that the endpoint does not support fails once with LLM_REJECTED; the next call uses the next
        format, and finally none: the caller validates the reply."""
        payload = self._payload(messages, tools, max_tokens)
        if schema is not None:
            formats = (wanted for wanted in _formats(schema) if wanted["type"] not in self._refused)
            if response_format := next(formats, None):
                payload["response_format"] = response_format
        return ChatStream(self._endpoint, self._target, payload, self._refused)

    def _payload(self, messages: Messages, tools: Tools, max_tokens: int | None) -> Json:
        payload: Json = {
            "model": self._endpoint.model,
            "messages": list(map(_message, messages)),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._endpoint.temperature is not None:
            payload["temperature"] = self._endpoint.temperature
        if max_tokens is not None:
            # OpenAI's reasoning models refuse the old name, which is the only one most local servers accept.
            name = "max_completion_tokens" if self._target.host.endswith("openai.com") else "max_tokens"
            payload[name] = max_tokens
        if tools:
            payload["tools"] = [{"type": "function", "function": asdict(tool)} for tool in tools]
        return payload


class ChatStream(Iterator[Delta]):
    """One reply. `close` cancels it, from any thread and at any moment, even before the model's first word."""

    def __init__(self, endpoint: ChatEndpoint, target: Target, payload: Json, refused: set[str]) -> None:
        self._cancelled = Event()
        self._connection = Connection(target, endpoint.key, endpoint.limits)
        self._deltas = _deltas(endpoint, self._connection, payload, self._cancelled, refused)

    def __next__(self) -> Delta:
        return next(self._deltas)

    def close(self) -> None:
        self._cancelled.set()
        self._connection.abort()
        with contextlib.suppress(ValueError):  # running in another thread, which the abort has woken: it closes itself
            self._deltas.close()


def _deltas(
    endpoint: ChatEndpoint, connection: Connection, payload: Json, cancelled: Event, refused: set[str]
) -> Generator[Delta, None, None]:
    """Not a method: without a reference to its stream, dropping that closes the connection."""
    builder = ReplyBuilder(endpoint.max_chars)

    def begin() -> tuple[Iterator[Json], Json | None]:
        connection.post("/chat/completions", payload)
        events = _events(connection)
        return events, next(events, None)

    try:
        events, event = with_retries(begin, endpoint.limits, cancelled)
        while event is not None:
            if text := builder.add(event):
                yield Delta(text=text)
            if builder.full:
                break
            event = next(events, None)
        if not builder.begun and not builder.ended:
            raise Fault(Kind.BROKEN, "before the first word")
        yield builder.last()
    except Fault as fault:
        if fault.kind is Kind.CANCELLED:
            return
        if fault.kind is Kind.REJECTED and "response_format" in payload and "response_format" in fault.detail:
            refused.add(payload["response_format"]["type"])
        if fault.kind is Kind.BROKEN:
            fault.kind = Kind.SILENCED
        if not builder.begun:
            raise provider_error(fault, role="LLM", where=connection.target.address, model=endpoint.model) from fault
        yield builder.cut()
    finally:
        connection.close()


def _events(connection: Connection) -> Iterator[Json]:
    """The chunks of a streamed reply, or the single body of an endpoint that does not stream."""
    content_type = str(connection.headers.get("Content-Type", "")) if connection.headers else ""
    if content_type.startswith("application/json"):
        yield _event(connection.read_json(_LARGEST_REPLY))
        yield {"done": True}
        return
    for data in event_data(connection.read):
        if data.strip() == "[DONE]":
            yield {"done": True}
            return
        try:
            yield _event(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise Fault(Kind.BAD_REPLY, f"not JSON: {data[:80]}") from error


def _event(event: Any) -> Json:
    if not isinstance(event, dict):
        raise Fault(Kind.BAD_REPLY, "an event that is not an object")
    if event.get("error"):
        error = event["error"]
        words = error.get("message") if isinstance(error, dict) else error
        raise Fault(status_kind(500, str(words)), str(words or "an error without a message"))
    return event


def _formats(schema: Schema) -> tuple[Json, ...]:
    """The schema formats of endpoints: OpenAI's, which most support, and llama-cpp-python's."""
    # "strict" is left out: it refuses schemas with optional fields, and local servers enforce any schema anyway.
    return (
        {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}},
        {"type": "json_object", "schema": schema},
    )


def _message(message: Message) -> Json:
    sent: Json = {"role": message.role, "content": message.content}
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        sent["tool_call_id"] = message.tool_call_id
    return sent


# --- replies ---------------------------------------------------------------------------------------------------------

_MOST_CALLS = 64  # tool calls in one reply; more means the model has lost its way

# Endpoints' finish reasons, mapped to the port's. A filtered answer is a partial one.
_FINISH = {"length": "length", "tool_calls": "tool_calls", "function_call": "tool_calls", "content_filter": "cut"}


class _Call(Struct):
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyBuilder:
    """Takes chunks one by one. Reasoning counts towards the size, but is not text."""

    def __init__(self, max_chars: int) -> None:
        self.begun = False  # part of an answer has arrived
        self.full = False
        self._left = max_chars
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._finish = ""
        self._done = False
        self._usage: Usage | None = None

    def add(self, event: Json) -> str:
        """The text of one chunk, truncated where the reply reaches its maximum size."""
        self._done = self._done or event.get("done") is True
        if usage := _part(event, "usage", dict):
            self._usage = Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
        choice = next(iter(_part(event, "choices", list)), None)
        delta = _part(choice, "delta", dict) or _part(choice, "message", dict)
        if reason := _part(choice, "finish_reason", str):
            self._finish = _FINISH.get(reason, "stop")
        self._take(_part(delta, "reasoning_content", str) or _part(delta, "reasoning", str))
        for fragment in _part(delta, "tool_calls", list):
            self._add_call(fragment)
        return self._take(_part(delta, "content", str))

    @property
    def ended(self) -> bool:
        """The endpoint said that the reply is complete."""
        return self._done or bool(self._finish)

    def last(self) -> Delta:
        """The final delta of a stream that ended by itself or by its size."""
        if self.full:
            return Delta(finish="length", usage=self._usage)
        if not self.ended:
            return self.cut()
        finish = self._finish or "stop"
        if finish in ("stop", "tool_calls") and self._calls:
            # Some servers say "stop" although there are calls. On "length" the arguments may be incomplete: no calls.
            calls = (ToolCall(call.id, call.name, "".join(call.arguments) or "{}") for call in self._calls)
            return Delta(tool_calls=tuple(calls), finish="tool_calls", usage=self._usage)
        return Delta(finish="stop" if finish == "tool_calls" else finish, usage=self._usage)

    def cut(self) -> Delta:
        """The final delta of a stream that broke off."""
        return Delta(finish="cut", usage=self._usage)

    def _take(self, text: str) -> str:
        if text:
            self.begun = True
        taken = text[: self._left]
        self._left -= len(taken)
        self.full = self.full or len(taken) < len(text)
        return taken

    def _add_call(self, fragment: Any) -> None:
        if not isinstance(fragment, dict):
            return
        function = _part(fragment, "function", dict)
        call = self._call(fragment.get("index"), _part(fragment, "id", str))
        if name := _part(function, "name", str):
            call.name = name
            self._take(name)
        if arguments := _part(function, "arguments", str):
            call.arguments.append(self._take(arguments))

    def _call(self, index: Any, given_id: str) -> _Call:
        """The call a fragment belongs to. Some servers number every call 0, or none: a new id is a new call."""
        place = len(self._calls) if given_id else max(0, len(self._calls) - 1)
        if isinstance(index, int):
            place = index
        call = self._by_index.get(place)
        if call is None or (given_id and call.id != given_id and call.name):
            call = _Call(given_id or f"call_{len(self._calls)}")
            self._by_index[place] = call
            self._calls.append(call)
            self.begun = True
            self.full = self.full or len(self._calls) > _MOST_CALLS
        return call


def _part(value: Any, name: str, kind: type[Part]) -> Part:
    """A field of a reply; empty if it is missing or of another type, as some servers send it."""
    part = value.get(name) if isinstance(value, dict) else None
    return part if isinstance(part, kind) else kind()


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


# --- models that endpoints offer -------------------------------------------------------------------------------------

_LARGEST_LIST = 8_000_000  # bytes; public services list hundreds of models
LOCAL_PORTS = {"LM Studio": 1234, "Ollama": 11434, "llama.cpp": 8080, "vLLM": 8000}  # default ports of local servers
_EMBEDDING_NAMES = ("embed", "bge-", "e5-", "minilm", "gte-", "rerank")


def chat_models(models: Sequence[str]) -> tuple[str, ...]:
    """The models whose names do not suggest embedding or reranking: the list itself does not say."""
    return tuple(model for model in models if not any(part in model.lower() for part in _EMBEDDING_NAMES))


def discover(ports: Mapping[str, int] = LOCAL_PORTS, seconds: float = 1.0) -> tuple[Provider, ...]:
    """Probe the usual local ports. Every port is reported, answering or not."""
    limits = Limits(connect_seconds=seconds, read_seconds=seconds, total_seconds=seconds)
    return tuple(look(name, f"http://127.0.0.1:{port}/v1", None, limits) for name, port in ports.items())


def look(name: str, base_url: str, key: Key | None, limits: Limits) -> Provider:
    """Probe one address, configured or guessed, and list its models; a failure is a state, not an error."""
    address = parse_target(base_url).address
    try:
        models = list_models(base_url, key, limits)
    except ProviderError as error:
        return Provider(name, address, error.code, detail=str(error))
    return Provider(name, address, "ok", models)


def list_models(base_url: str, key: Key | None, limits: Limits) -> tuple[str, ...]:
    target = parse_target(base_url)
    connection = Connection(target, key, limits)
    try:
        connection.get("/models")
        return _names(connection.read_json(_LARGEST_LIST))
    except Fault as fault:
        raise provider_error(fault, role="LLM", where=target.address, model="") from fault
    finally:
        connection.close()


def make_llm(settings: ChatEndpoint) -> OpenAIChat:
    """Without a model's name, the endpoint's first chat model is used."""
    if not settings.model:
        offered = chat_models(list_models(settings.base_url, settings.key, settings.limits))
        if not offered:
            raise ProviderError("the chat endpoint offers no chat model", "Load one there.", code="LLM_MODEL_MISSING")
        settings = replace(settings, model=offered[0])
    return OpenAIChat(settings)


def _names(reply: Any) -> tuple[str, ...]:
    data = reply.get("data") if isinstance(reply, dict) else None
    if data is None and isinstance(reply, dict) and reply.get("object") == "list":
        data = []  # Ollama without a model
    if not isinstance(data, list):
        raise Fault(Kind.BAD_REPLY, "no list of models in it")
    return tuple(str(item["id"]) for item in data if isinstance(item, dict) and item.get("id"))


# --- the model that answers ------------------------------------------------------------------------------------------

CONFIGURED = "configured"
NONE = "none"
LOOK_S = 2.0  # for an endpoint's list of models: a slower one is used without the list
NO_CHAT_MODEL = NextStep(
    "no chat model is configured or was found on this machine: ", to_run("providers"), " says where it looked"
)


class ChatModel(Struct, frozen=True):
    """`llm` is None if no model is to be used; `note` says why, unless the user chose so."""

    provider: str
    llm: Llm | None
    note: str = ""

    @property
    def model_id(self) -> str:
        return self.llm.model_id if self.llm is not None else ""


def choose_chat_model(config: Config, provider: str, model: str) -> ChatModel:
    """`provider` and `model` are the caller's choice and may be empty."""
    if provider == NONE or (not provider and config.llm.provider == NONE):
        return ChatModel(NONE, None)
    chosen_name = model or config.llm.model
    if config.llm.base_url and provider in ("", CONFIGURED):
        limits = _limits(config, LOOK_S)
        offered = look(CONFIGURED, config.llm.base_url, _key(config), limits).models if model else ()
        # The endpoint itself may take a minute to say so; without a list it is tried.
        if offered and model not in offered:
            step = f"Those it has: {', '.join(offered[:10])}"
            raise NotFound(f"{config.llm.base_url} offers no model {model!r}", step)
        return ChatModel(CONFIGURED, _llm(config, config.llm.base_url, chosen_name, _key(config)))
    servers = discover() if config.llm.discover else ()
    for server in servers:
        fitting = [name for name in server.models if name == chosen_name] if chosen_name else chat_models(server.models)
        if server.state == "ok" and provider in ("", server.name) and fitting:
            return ChatModel(server.name, _llm(config, server.base_url, fitting[0], None))
    answering = [server.name for server in servers if server.state == "ok"]
    if provider and provider not in answering:
        step = NextStep(f"Those that do: {', '.join(answering) or 'none'}. See ", to_run("providers"))
        raise NotFound(f"no provider {provider!r} answers", step)
    if chosen_name and (answering or model):
        step = NextStep(to_run("providers"), " lists them")
        raise NotFound(f"the model {chosen_name!r} is not offered by {provider or 'any server on this machine'}", step)
    return ChatModel(NONE, None, NO_CHAT_MODEL)


def list_providers(config: Config) -> ProviderList:
    probed = list(discover()) if config.llm.discover else []
    if config.llm.base_url:
        try:
            configured = look(CONFIGURED, config.llm.base_url, _key(config), _limits(config, 10))
        except UsageError as error:
            configured = Provider(
                CONFIGURED, parse_target(config.llm.base_url).address, "LLM_NO_KEY", detail=str(error)
            )
        probed.insert(0, replace(configured, configured=True))
    providers = [replace(provider, models=chat_models(provider.models)) for provider in probed]
    notes = [] if config.llm.discover else ["local ports are not tried (llm.discover is off)"]
    if config.llm.provider == NONE:
        notes.append("llm.provider is none: passages are quoted and no model is used")
    else:
        for at, server in enumerate(providers):
            if server.configured or (server.state == "ok" and server.models):
                providers[at] = replace(server, chosen=True)
                break
    return ProviderList(tuple(providers), tuple(notes))


def unavailable(error: ProviderError) -> ProviderError:
    """The endpoint's failure under the one code that clients of answers know."""
    if not error.code.startswith("LLM_"):
        return error
    return ProviderError(error.what, error.next_step, code="CODE_INFO_LLM_UNAVAILABLE")


def _llm(config: Config, base_url: str, model: str, key: Key | None) -> Llm:
    limits = _limits(config, max(config.answers.timeout_s, 1))
    return make_llm(ChatEndpoint(base_url, model, key, temperature=config.llm.temperature, limits=limits))


def _limits(config: Config, seconds: float) -> Limits:
    silence = min(config.llm.timeout_s, seconds)
    return Limits(read_seconds=silence, total_seconds=seconds, retry_seconds=min(60.0, seconds))


def _key(config: Config) -> Key | None:
    if name := config.llm.api_key_env:
        return key_from_environment(name, config.secret(name))
    if path := config.llm.api_key_file:
        return key_from_file(expand_user(path))
    return None
