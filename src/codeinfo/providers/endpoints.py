"""What a provider needs to know, as small frozen values; importing them is cheap."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from codeinfo.providers.keys import Key


class Limits(Struct, frozen=True):
    """Bounds of one call. A local model may think for minutes before its first token; silence is what `read` bounds."""

    connect_seconds: float = 5.0
    read_seconds: float = 120.0  # silence between two pieces of a reply
    total_seconds: float = 600.0  # one request, from connecting to the last byte
    attempts: int = 4
    retry_seconds: float = 60.0  # all tries and waits of one call, after which no new try starts
    backoff_seconds: float = 0.5  # first wait where the endpoint names none; doubles with each try


TEXT_CHARS = 16_000  # a longer text is cut: endpoints refuse the whole batch for one text over their context


class EmbeddingEndpoint(Struct, frozen=True):
    """An OpenAI-compatible `/embeddings`."""

    base_url: str
    model: str
    key: Key | None = None
    dimension: int = 0  # asked of the endpoint and insisted on; 0 takes the model's own
    batch_count: int = 64
    batch_chars: int = 100_000  # keeps a request small enough for local servers and their timeouts
    text_chars: int = TEXT_CHARS
    query_prefix: str | None = None  # None: what the model is known to want
    document_prefix: str | None = None
    limits: Limits = field(default_factory=Limits)


class ChatEndpoint(Struct, frozen=True):
    """An OpenAI-compatible `/chat/completions`."""

    base_url: str
    model: str = ""  # "": the first chat model the endpoint offers
    key: Key | None = None
    temperature: float | None = None
    json_schema: bool = True  # False: never send `response_format`
    max_chars: int = 200_000  # an answer that goes on for ever ends here, as "length"
    limits: Limits = field(default_factory=Limits)


class RerankEndpoint(Struct, frozen=True):
    """A `/rerank` endpoint. A request that names a model has the shape of Jina, Cohere, vLLM and llama.cpp; one that
    names none has the shape of TEI, which serves a single model and knows no names."""

    base_url: str
    model: str = ""
    key: Key | None = None
    text_chars: int = 2000  # about 512 tokens of code: many servers refuse a longer pair instead of truncating it
    limits: Limits = field(default_factory=Limits)


class CrossEncoderFolder(Struct, frozen=True):
    """A cross-encoder on disk: `model.onnx` and `tokenizer.json`."""

    folder: Path
    seconds: float  # one call, loading included, after which no further text is scored
    max_tokens: int = 512  # of a query and a text together


class ScriptedModel(Struct, frozen=True):
    """The deterministic embedder, for tests and for trying things out without a model."""

    dimension: int = 256


class Discovery(Struct, frozen=True):
    """Where local servers usually listen. `seconds` bounds each look; they run side by side."""

    enabled: bool = True
    host: str = "127.0.0.1"
    seconds: float = 1.0
    ports: tuple[tuple[str, int], ...] = (("LM Studio", 1234), ("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000))
