"""The settings, one row each: a field with its type, default, help and validation.

A row's environment name is `CODEINFO_<SECTION>_<FIELD>` unless it says otherwise. A `project_setting` may be set by a
repository's `.codeinfo.toml`: only where a hostile repository could do no more than spoil its own results. A
`policy_setting` also follows the relevance policy's contract: an invalid value is replaced by the default, with a note.
"""

# Annotations are values here, not text to be evaluated at every start.
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, fields


class Setting(Struct, frozen=True):
    default: Any
    help: str
    minimum: float | None
    maximum: float | None
    env: str = ""
    choices: tuple[str, ...] = ()
    project: bool = False
    lenient: bool = False

    def __call__(self) -> Any:
        """As the factory of a field's default: so a field knows its setting."""
        return self.default


def setting(default: Any, help: str, *, between: tuple[float | None, float | None] = (None, None), **more: Any) -> Any:
    return field(default_factory=Setting(default, help, *between, **more))


project_setting = partial(setting, project=True)
policy_setting = partial(setting, project=True, lenient=True)


class Row(Setting, frozen=True):
    key: str = ""  # "section.field"
    kind: str = ""  # the field's annotation, as written


class IndexSettings(Struct, frozen=True):
    max_file_bytes: int = project_setting(1_000_000, "A larger file is skipped and counted.", between=(1, 100_000_000))
    submodules: bool = project_setting(False, "Index git submodules too.")
    chunk_chars: int = project_setting(
        1200, "Code is cut at definitions into chunks of about this size.", between=(100, 20_000)
    )
    section_chars: int = project_setting(
        1000, "Documents are cut at headings into chunks of at most this size.", between=(100, 20_000)
    )
    section_overlap: int = project_setting(200, "Characters that adjacent document chunks share.", between=(0, 10_000))
    fallback_lines: int = project_setting(50, "Unstructured text is cut after this many lines.", between=(5, 1000))
    keep_days: int = setting(
        14, "Days to keep content that no work tree of a repository has now: a branch may come back.", between=(0, 3650)
    )
    keep_share: float = setting(1.0, "Limit for that content, as a share of the content in use.", between=(0, 100))
    workers: int = setting(0, "Parser processes; 0 means one per processor, at most 6.", between=(0, 256))


class EmbeddingSettings(Struct, frozen=True):
    provider: str = setting(
        "builtin", "Source of vectors; none: keyword search only.", choices=("builtin", "openai", "scripted", "none")
    )
    model: str = setting("", "Model to request from an OpenAI-compatible endpoint.")
    base_url: str = setting("http://localhost:1234/v1", "Address of the OpenAI-compatible embeddings endpoint.")
    api_key_env: str = setting("", "Name of the environment variable that holds the endpoint's key.")
    batch: int = setting(64, "Chunks per request to the endpoint.", between=(1, 2048))
    timeout_s: float = setting(60.0, "Seconds to wait for one batch.", between=(0.1, 3600))
    dimension: int = setting(0, "Vector length to ask the endpoint for; 0 means the model's own.", between=(0, None))


class RerankSettings(Struct, frozen=True):
    provider: str = setting(
        "none",
        "Reranks the first results when their scores are close: an endpoint, a local model, or none.",
        choices=("none", "endpoint", "local"),
    )
    base_url: str = setting("", "Address of the reranking endpoint, without /rerank.")
    model: str = setting("", "Model to request; empty for a single-model server with TEI's request format.")
    api_key_env: str = setting("", "Name of the environment variable that holds the endpoint's key.")
    model_path: str = setting("", "Folder of a local cross-encoder: model.onnx and tokenizer.json.")
    timeout_ms: int = setting(
        800, "Milliseconds a search waits for the reranker; after that it keeps its own order.", between=(1, 60_000)
    )
    candidates: int = setting(10, "Number of first results to rerank.", between=(3, 100))
    closeness: float = setting(
        0.08, "Code results are reranked if the first three scores are within this of each other.", between=(0, 1)
    )


class SearchSettings(Struct, frozen=True):
    fusion: str = project_setting(
        "score",
        "How channels are combined: score adds weighted signals, rrf ranks (reciprocal rank fusion, k = 60).",
        choices=("score", "rrf"),
    )
    results_per_file: int = project_setting(0, "Most results per file; 0 means one, two for a report.", between=(0, 10))


class RetrievalSettings(Struct, frozen=True):
    distance_cutoff: float = policy_setting(
        1.4, "Results farther away are dropped (squared L2: 0 is identical, 4 is opposite).", between=(0, None)
    )
    cutoff_disabled: bool = project_setting(False, "Keep results at any distance; the size caps still apply.")
    fallback_chunks: int = policy_setting(
        2, "If nothing passes the cutoff, this many of the closest chunks are kept.", between=(1, None)
    )
    chunk_max_chars: int = policy_setting(
        5000, "Each chunk is truncated to this many characters.", env="CODEINFO_TOOL_CHUNK_MAX_CHARS", between=(1, None)
    )
    max_chars: int = policy_setting(
        40_000, "Total characters of all chunks in one answer.", env="CODEINFO_TOOL_MAX_CHARS", between=(1, None)
    )


class CodeSettings(Struct, frozen=True):
    language_servers: bool = setting(
        False, "Ask an installed language server where a definition is used; the server may run code of the project."
    )
    server_timeout_s: float = setting(
        30.0, "Seconds a question waits for a language server; the rest is resolved without it.", between=(0.1, 600)
    )
    server_memory_mb: int = setting(
        2048, "A language server that takes more memory than this is stopped.", between=(100, 1_000_000)
    )


class LlmSettings(Struct, frozen=True):
    provider: str = setting(
        "auto",
        "auto uses base_url, or a local server that answers; none uses no model and quotes passages.",
        choices=("auto", "none"),
    )
    base_url: str = setting("", "Address of an OpenAI-compatible chat endpoint; empty tries the usual local ports.")
    discover: bool = setting(True, "Try the usual local ports if no address is set.")
    model: str = setting("", "Chat model; empty means the first one the endpoint offers.")
    api_key_env: str = setting("", "Name of the environment variable that holds the endpoint's key.")
    api_key_file: str = setting("", "File with the endpoint's key, readable by its owner only.")
    temperature: float = setting(0.0, "Sampling temperature of the model.", between=(0, 2))
    timeout_s: float = setting(120.0, "Seconds of silence after which a request fails.", between=(0.1, 3600))


class AnswerSettings(Struct, frozen=True):
    rounds: int = setting(3, "Most searches before the answer is written.", between=(1, 10))
    items: int = setting(10, "Chunks per search.", between=(1, 100))
    least_score: float = setting(
        0.6, "After the first three, the model gets no passage below this share of the best score.", between=(0, 1)
    )
    passage_chars: int = setting(
        900,
        "The best passage is sent whole; the others are cut to this many characters around matching lines.",
        between=(100, 100_000),
    )
    tool_calls: int = setting(6, "Most tool calls per answer.", between=(0, 100))
    max_tokens: int = setting(60_000, "Most tokens per answer, prompts and replies together.", between=(1000, None))
    reply_tokens: int = setting(1200, "Most tokens of the answer itself.", between=(50, 100_000))
    timeout_s: float = setting(300.0, "Most seconds per answer.", between=(0.1, 86_400))
    history_turns: int = setting(10, "Earlier turns of a conversation shown to the model.", between=(0, 1000))


class McpSettings(Struct, frozen=True):
    reply_tokens: int = setting(8000, "Approximate limit for the tokens of a tool's reply.", between=(500, 1_000_000))
    patience_s: float = setting(
        15.0, "Seconds a tool waits for an index being built; after that it uses what is there.", between=(0, None)
    )
    idle_s: float = setting(600.0, "Seconds without a call until models and indexes are released.", between=(1, None))
    shared: bool = setting(True, "All agents of a user share one background server, which ends with the last of them.")
    memory_mb: int = setting(
        1024, "A shared server that uses more memory releases models and indexes between calls.", between=(100, None)
    )


class WebSettings(Struct, frozen=True):
    editor: str = setting(
        "vscode",
        "Editor for files on the pages: vscode, cursor, zed, idea, none, or an address with {path} and {line}.",
    )
    public_url: str = setting("", "Public address of this server behind a proxy, as in https://code.example.com.")


class AuthSettings(Struct, frozen=True):
    issuer: str = setting("", "Address of the team's OpenID Connect service; empty for tokens only.")
    client_id: str = setting("", "Client id of this server at that service.")
    client_secret_env: str = setting("", "Name of the environment variable that holds the client's secret.")
    client_secret_file: str = setting("", "File with the client's secret, readable by its owner only.")
    scope: str = setting("openid profile email", "Scopes to request from the service.")
    groups_claim: str = setting("groups", "Claim with a user's groups.")
    admin_group: str = setting("", "Members of this group of the service are administrators; empty for none.")
    audience: str = setting("", "Required audience of access tokens; empty for this server's address with /mcp.")
    audit_queries: bool = setting(False, "Record the text of searches in a team's audit log, not only their projects.")
    audit_days: int = setting(
        400, "Days for which workers keep lines of a team's audit log; 0 keeps all.", between=(0, 36_500)
    )


class StoreSettings(Struct, frozen=True):
    url: str = setting("", "The team's PostgreSQL, postgresql://user@host/database; empty keeps everything local.")
    cache_mb: int = setting(
        20_000, "Disk space for local copies of team indexes; the least recently used are removed.", between=(1, None)
    )
    mirrors_mb: int = setting(
        50_000, "Disk space for a worker's repository mirrors; the least recently used are removed.", between=(1, None)
    )
    upload_mb: int = setting(5000, "Disk space in the team's database for what one user pushes.", between=(1, None))
    git_credentials: str = setting(
        "", "File of https://user:token@host lines for workers to fetch repositories with; readable by its owner only."
    )
    server: str = setting("", "Address of the team's server that `push` sends to, as in https://code.example.com.")
    token_file: str = setting("", "File with your personal access token for it, readable by its owner only.")
    heartbeat_s: float = setting(
        5.0, "Seconds between a worker's heartbeats; after six missed ones others take its jobs.", between=(0.1, 600)
    )


class ServeSettings(Struct, frozen=True):
    drain_s: float = setting(
        0.0,
        "Seconds for requests in progress to finish at SIGTERM, while /ready fails; 0 stops the server at once.",
        between=(0, 3600),
    )
    log: str = setting(
        "text", "What `serve` logs to stderr: warnings as text, or everything as JSON.", choices=("text", "json")
    )
    metrics_address: str = setting(
        "", "Address host:port of /metrics, /health and /ready, for operators only; empty disables it."
    )


class PathSettings(Struct, frozen=True):
    # Without a value these are resolved from the environment.
    cache_dir: Path = setting(None, "Indexes live here; they can be deleted at any time.", env="CODEINFO_CACHE_DIR")
    data_dir: Path = setting(None, "Conversations and your own agents live here.", env="CODEINFO_DATA_DIR")


class TrustSettings(Struct, frozen=True):
    projects: tuple[str, ...] = setting((), "Folders, by absolute path, whose .codeinfo.toml may set everything.")
    private_hosts: tuple[str, ...] = setting(
        (),
        "Hosts on this machine or a private network that a project's or package's documents, and the"
        " repositories of a team, may be fetched from.",
    )


class Sections(Struct, frozen=True):
    index: IndexSettings
    embedding: EmbeddingSettings
    rerank: RerankSettings
    search: SearchSettings
    retrieval: RetrievalSettings
    code: CodeSettings
    llm: LlmSettings
    answers: AnswerSettings
    mcp: McpSettings
    web: WebSettings
    auth: AuthSettings
    store: StoreSettings
    serve: ServeSettings
    paths: PathSettings
    trust: TrustSettings


SECTIONS: Mapping[str, type[Any]] = Sections.__annotations__


def _rows() -> Iterator[Row]:
    for section, kind in SECTIONS.items():
        for setting in fields(kind):
            written = asdict(setting.default_factory)
            written["env"] = written["env"] or f"CODEINFO_{section}_{setting.name}".upper()
            type_name = setting.type.__name__ if isinstance(setting.type, type) else str(setting.type)
            yield Row(**written, key=f"{section}.{setting.name}", kind=type_name)


SETTINGS: Mapping[str, Row] = {row.key: row for row in _rows()}
