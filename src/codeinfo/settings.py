"""The settings, one row each: a field with its type, default, help and the check a value must pass.

A row's environment name is `CODEINFO_<SECTION>_<FIELD>` unless it says otherwise. `project=True` lets the
`.codeinfo.toml` of a repository set it: only where a hostile repository could do no more than spoil its own results.
`lenient=True` is the relevance policy's contract: an invalid value gives way to the default, and is noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from codeinfo.frozen import frozen


@frozen
class Row:
    """What the loader knows of one setting."""

    key: str  # "section.field"
    env: str
    kind: str  # the field's annotation, as written
    default: Any
    help: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    project: bool
    lenient: bool


def _row(
    default: Any,
    help: str,
    *,
    env: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    project: bool = False,
    lenient: bool = False,
) -> Any:
    metadata = {
        "help": help,
        "env": env,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
        "project": project,
        "lenient": lenient,
    }
    return field(default=default, metadata=metadata)


@frozen
class IndexSettings:
    max_file_bytes: int = _row(
        1_000_000, "A larger file is skipped and counted.", minimum=1, maximum=100_000_000, project=True
    )
    submodules: bool = _row(False, "Index git submodules too.", project=True)
    chunk_chars: int = _row(
        1200, "Code is cut at definitions into chunks of about this size.", minimum=100, maximum=20_000, project=True
    )
    section_chars: int = _row(
        1000,
        "Documents are cut at headings into chunks of at most this size.",
        minimum=100,
        maximum=20_000,
        project=True,
    )
    section_overlap: int = _row(
        200, "Characters that neighbouring document chunks share.", minimum=0, maximum=10_000, project=True
    )
    fallback_lines: int = _row(
        50, "Text of no known structure is cut after this many lines.", minimum=5, maximum=1000, project=True
    )
    workers: int = _row(0, "Parser processes; 0 means one for each processor.", minimum=0, maximum=256)


@frozen
class EmbeddingSettings:
    provider: str = _row(
        "builtin",
        "Where vectors come from; none means keyword search only.",
        choices=("builtin", "openai", "scripted", "none"),
    )
    model: str = _row("", "The model to ask an OpenAI-compatible endpoint for.")
    base_url: str = _row("http://localhost:1234/v1", "Address of the OpenAI-compatible embeddings endpoint.")
    api_key_env: str = _row("", "Name of the environment variable that holds the endpoint's key.")
    batch: int = _row(64, "Chunks sent to the endpoint at once.", minimum=1, maximum=2048)
    timeout_s: float = _row(60.0, "Seconds to wait for one batch.", minimum=0.1, maximum=3600)
    dimension: int = _row(0, "Ask the endpoint for vectors of this length; 0 takes the model's own.", minimum=0)


@frozen
class RerankSettings:
    provider: str = _row(
        "none",
        "Who reads the first results once more when their scores are close: an endpoint, a local model, or nobody.",
        choices=("none", "endpoint", "local"),
    )
    base_url: str = _row("", "Address of the reranking endpoint, without /rerank.")
    model: str = _row("", "The model to ask the endpoint for; empty for a server of one model that is asked as TEI is.")
    api_key_env: str = _row("", "Name of the environment variable that holds the endpoint's key.")
    model_path: str = _row("", "Folder of a local cross-encoder: model.onnx and tokenizer.json.")
    timeout_ms: int = _row(
        800, "Milliseconds one search waits for it; then the search's own order stays.", minimum=1, maximum=60_000
    )
    candidates: int = _row(10, "First results that are reranked.", minimum=3, maximum=100)
    closeness: float = _row(
        0.08, "Code results are reranked when the scores of the first three lie within this.", minimum=0, maximum=1
    )


@frozen
class SearchSettings:
    fusion: str = _row(
        "score",
        "How channels are combined: score adds weighted signals, rrf ranks (reciprocal rank fusion, k = 60).",
        choices=("score", "rrf"),
        project=True,
    )
    results_per_file: int = _row(
        0,
        "At most this many results of one file; 0 means one, and two for a report.",
        minimum=0,
        maximum=10,
        project=True,
    )


@frozen
class RetrievalSettings:
    distance_cutoff: float = _row(
        1.4,
        "Results farther away than this are dropped (squared L2: 0 is identical, 4 is opposite).",
        minimum=0,
        project=True,
        lenient=True,
    )
    cutoff_disabled: bool = _row(False, "Keep results at any distance; the size caps still apply.", project=True)
    fallback_chunks: int = _row(
        2, "When nothing passes the cutoff, this many of the closest are kept.", minimum=1, project=True, lenient=True
    )
    chunk_max_chars: int = _row(
        5000,
        "Each chunk is cut to this many characters.",
        env="CODEINFO_TOOL_CHUNK_MAX_CHARS",
        minimum=1,
        project=True,
        lenient=True,
    )
    max_chars: int = _row(
        40_000,
        "All chunks of one answer together stay within this many characters.",
        env="CODEINFO_TOOL_MAX_CHARS",
        minimum=1,
        project=True,
        lenient=True,
    )


@frozen
class LlmSettings:
    provider: str = _row(
        "auto",
        "auto asks base_url, or a local server that answers; none quotes passages and asks no model.",
        choices=("auto", "none"),
    )
    base_url: str = _row("", "Address of an OpenAI-compatible chat endpoint; empty looks at the usual local ports.")
    discover: bool = _row(True, "Look at the usual local ports for a server when no address is set.")
    model: str = _row("", "The chat model to ask; empty takes the first that the endpoint offers.")
    api_key_env: str = _row("", "Name of the environment variable that holds the endpoint's key.")
    api_key_file: str = _row("", "A file that holds the endpoint's key and that only its owner can read.")
    temperature: float = _row(0.0, "How freely the model chooses its words.", minimum=0, maximum=2)
    timeout_s: float = _row(
        120.0, "Seconds of silence after which the endpoint is given up.", minimum=0.1, maximum=3600
    )


@frozen
class AnswerSettings:
    rounds: int = _row(3, "At most this many searches before the answer is written.", minimum=1, maximum=10)
    items: int = _row(10, "Chunks that one search brings.", minimum=1, maximum=100)
    least_score: float = _row(
        0.6,
        "Beyond the first three, a passage is sent to the model from this share of the best one's score on.",
        minimum=0,
        maximum=1,
    )
    passage_chars: int = _row(
        900,
        "The best passage is sent whole, the others cut to this many characters around the lines that match.",
        minimum=100,
        maximum=100_000,
    )
    tool_calls: int = _row(6, "Tool calls the model may make for one answer.", minimum=0, maximum=100)
    max_tokens: int = _row(60_000, "Tokens one answer may cost, prompts and replies together.", minimum=1000)
    reply_tokens: int = _row(1200, "Tokens the answer itself may have.", minimum=50, maximum=100_000)
    timeout_s: float = _row(300.0, "Seconds one answer may take.", minimum=0.1, maximum=86_400)
    history_turns: int = _row(10, "Earlier turns of a conversation that the model is shown.", minimum=0, maximum=1000)


@frozen
class McpSettings:
    reply_tokens: int = _row(8000, "A tool's reply has at most about this many tokens.", minimum=500, maximum=1_000_000)
    patience_s: float = _row(
        15.0, "Seconds a tool waits for an index that is being built; then it uses what is there.", minimum=0
    )
    idle_s: float = _row(600.0, "Models and indexes are let go of after this many seconds without a call.", minimum=1)
    search_processes: int = _row(
        2,
        "Over HTTP searches are answered in up to so many processes of their own (some 50 MB each); none on one core.",
        minimum=0,
        maximum=16,
    )


@frozen
class PathSettings:
    cache_dir: Path = _row(None, "Indexes live here; they can be deleted at any time.", env="CODEINFO_CACHE_DIR")
    data_dir: Path = _row(None, "Conversations and your own agents live here.", env="CODEINFO_DATA_DIR")


@frozen
class TrustSettings:
    projects: tuple[str, ...] = _row((), "Folders whose .codeinfo.toml may set everything.")
    private_hosts: tuple[str, ...] = _row(
        (), "Hosts on this machine or a private network that a project's or package's documents may be fetched from."
    )


SECTIONS: Mapping[str, type] = {
    "index": IndexSettings,
    "embedding": EmbeddingSettings,
    "rerank": RerankSettings,
    "search": SearchSettings,
    "retrieval": RetrievalSettings,
    "llm": LlmSettings,
    "answers": AnswerSettings,
    "mcp": McpSettings,
    "paths": PathSettings,
    "trust": TrustSettings,
}


def rows() -> dict[str, Row]:
    """Every setting by its key."""
    table: dict[str, Row] = {}
    for section, kind in SECTIONS.items():
        for item in fields(kind):
            more = dict(item.metadata)
            env = more.pop("env") or f"CODEINFO_{section}_{item.name}".upper()
            key = f"{section}.{item.name}"
            table[key] = Row(key=key, env=env, kind=str(item.type), default=item.default, **more)
    return table
