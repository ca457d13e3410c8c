"""Where models are: endpoints as small frozen values, which are cheap to import, and the keys they take.

A key comes from an environment variable or from a file that only its owner can read. It travels as a `Key`, which
shows its origin and never its value; `redact` removes every key read by this process, and what looks like one, from a
text before it becomes an error, a log line or a reply.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct, field

from codeinfo.errors import UsageError


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
    limits: Limits = field(default_factory=Limits)


class ChatEndpoint(Struct, frozen=True):
    """An OpenAI-compatible `/chat/completions`."""

    base_url: str
    model: str = ""  # "": the first chat model the endpoint offers
    key: Key | None = None
    temperature: float | None = None
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


class Discovery(Struct, frozen=True):
    """Where local servers usually listen. `seconds` bounds each look; they run side by side."""

    enabled: bool = True
    host: str = "127.0.0.1"
    seconds: float = 1.0
    ports: tuple[tuple[str, int], ...] = (("LM Studio", 1234), ("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000))


MASK = "[key]"
_SHORTEST_SECRET = 6  # shorter ones are placeholders ("x", "none"): masking them would spoil ordinary words
_LARGEST_FILE = 16_384  # bytes; a key is a line, and anything larger is the wrong file

# What keys of well-known services look like, and whatever stands behind "Bearer" or "api_key=". No nested repetition.
_SHAPES = re.compile(
    r"(?:sk|pk|rk|gsk|hf|xai|nvapi)[-_][A-Za-z0-9_-]{16,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{6,}"
    r"|(?<=[Bb]asic )[A-Za-z0-9+/=]{6,}"
    r"|(?<=api_key=)[^\s&\"']{6,}"
    r"|(?<=api-key: )[^\s\"']{6,}"
)

# Filled as keys are read: an error may quote a key that another part of the process holds.
_known: set[str] = set()


class Key:
    """A secret with an origin. Printing it in any way shows the origin only."""

    __slots__ = ("_value", "origin")

    def __init__(self, value: str, origin: str) -> None:
        self._value = value
        self.origin = origin
        remember(value)

    def reveal(self) -> str:
        """The secret itself, for the request header and nothing else."""
        return self._value

    def __repr__(self) -> str:
        return f"Key({self.origin})"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written anywhere")


def remember(secret: str) -> None:
    """Have `redact` remove this secret, also as it looks inside JSON or an address."""
    if len(secret) >= _SHORTEST_SECRET:
        _known.update((secret, json.dumps(secret)[1:-1], quote(secret, safe="")))


def redact(text: str) -> str:
    """The text with every known key, and whatever is shaped like one, replaced by a mask."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _SHAPES.sub(MASK, text)


def key_from_environment(name: str, environ: Mapping[str, str]) -> Key:
    """The key that the environment variable `name` holds."""
    value = environ.get(name, "").strip()
    if not value:
        raise UsageError(
            f"the environment variable {name} should hold a key and is empty or unset",
            next_step=f"Set {name}, or remove the setting that names it.",
        )
    return Key(_checked(value, f"environment variable {name}"), f"environment variable {name}")


def key_from_file(path: Path) -> Key:
    """The key in a file, refused where anyone but its owner could read or change it."""
    try:
        # Not blocking: a FIFO in the file's place must not hang the program.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise UsageError(
            f"the key file {path} cannot be read ({error.strerror})", next_step="Check the path in the settings."
        ) from error
    try:
        _refuse_shared(path, os.fstat(handle))
        raw = os.read(handle, _LARGEST_FILE)
    finally:
        os.close(handle)
    return Key(_checked(raw.decode("utf-8", "replace").strip(), f"key file {path}"), f"key file {path}")


def _refuse_shared(path: Path, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise UsageError(f"the key file {path} is not a plain file", next_step="Name a file that holds only the key.")
    if os.name != "posix":
        return  # elsewhere the mode bits say nothing about who can read the file
    if info.st_uid not in (os.geteuid(), 0):
        raise UsageError(f"the key file {path} belongs to someone else", next_step="Use a file of your own.")
    if info.st_mode & 0o077:
        raise UsageError(
            f"the key file {path} can be read by others (mode {stat.S_IMODE(info.st_mode):04o})",
            next_step=f"Run: chmod 600 {path}",
        )


def _checked(value: str, origin: str) -> str:
    """A header carries visible ASCII only; anything else is the wrong file or a pasted mistake."""
    if not value or not all("!" <= char <= "~" for char in value):
        raise UsageError(
            f"the {origin} does not hold one key: it is empty, or has spaces, line breaks or other characters in it",
            next_step="Put the bare key there, on one line.",
        )
    return value
