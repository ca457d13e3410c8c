"""The settings, one row each: a field with its type, default, help and validation.

A row's environment name is `CODEINFO_<SECTION>_<FIELD>` unless it says otherwise. A `ProjectSetting` may be set by a
repository's `.codeinfo.toml`: only where a hostile repository could do no more than spoil its own results. A
`PolicySetting` also follows the relevance policy's contract: an invalid value is replaced by the default, with a note.
"""

# Annotations are values here, not text to be evaluated at every start.
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

from msgspec import Struct
from msgspec.structs import asdict


class Setting(Struct, frozen=True):
    help: str
    env: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    project: bool = False
    lenient: bool = False


ProjectSetting = partial(Setting, project=True)
PolicySetting = partial(Setting, project=True, lenient=True)


class Row(Setting, frozen=True):
    """What the loader knows about one setting."""

    key: str = ""  # "section.field"
    kind: str = ""  # the field's annotation, as written
    default: Any = None


class IndexSettings(Struct, frozen=True):
    max_file_bytes: Annotated[
        int, ProjectSetting("A larger file is skipped and counted.", minimum=1, maximum=100_000_000)
    ] = 1_000_000
    submodules: Annotated[bool, ProjectSetting("Index git submodules too.")] = False
    chunk_chars: Annotated[
        int, ProjectSetting("Code is cut at definitions into chunks of about this size.", minimum=100, maximum=20_000)
    ] = 1200
    section_chars: Annotated[
        int,
        ProjectSetting("Documents are cut at headings into chunks of at most this size.", minimum=100, maximum=20_000),
    ] = 1000
    section_overlap: Annotated[
        int, ProjectSetting("Characters that neighbouring document chunks share.", minimum=0, maximum=10_000)
    ] = 200
    fallback_lines: Annotated[
        int, ProjectSetting("Text of no known structure is cut after this many lines.", minimum=5, maximum=1000)
    ] = 50
    keep_days: Annotated[
        int,
        Setting(
            "Days to keep content that no work tree of a repository has any more: a branch may come back.",
            minimum=0,
            maximum=3650,
        ),
    ] = 14
    keep_share: Annotated[
        float, Setting("Limit for that content, as a share of the content in use.", minimum=0, maximum=100)
    ] = 1.0
    workers: Annotated[
        int, Setting("Parser processes; 0 means one per processor, at most 6.", minimum=0, maximum=256)
    ] = 0


class EmbeddingSettings(Struct, frozen=True):
    provider: Annotated[
        str,
        Setting(
            "Source of vectors; none means keyword search only.", choices=("builtin", "openai", "scripted", "none")
        ),
    ] = "builtin"
    model: Annotated[str, Setting("Model to request from an OpenAI-compatible endpoint.")] = ""
    base_url: Annotated[str, Setting("Address of the OpenAI-compatible embeddings endpoint.")] = (
        "http://localhost:1234/v1"
    )
    api_key_env: Annotated[str, Setting("Name of the environment variable that holds the endpoint's key.")] = ""
    batch: Annotated[int, Setting("Chunks per request to the endpoint.", minimum=1, maximum=2048)] = 64
    timeout_s: Annotated[float, Setting("Seconds to wait for one batch.", minimum=0.1, maximum=3600)] = 60.0
    dimension: Annotated[
        int, Setting("Vector length to request from the endpoint; 0 means the model's own.", minimum=0)
    ] = 0


class RerankSettings(Struct, frozen=True):
    provider: Annotated[
        str,
        Setting(
            "Reranks the first results when their scores are close: an endpoint, a local model, or none.",
            choices=("none", "endpoint", "local"),
        ),
    ] = "none"
    base_url: Annotated[str, Setting("Address of the reranking endpoint, without /rerank.")] = ""
    model: Annotated[
        str, Setting("Model to request from the endpoint; empty for a single-model server with TEI's request format.")
    ] = ""
    api_key_env: Annotated[str, Setting("Name of the environment variable that holds the endpoint's key.")] = ""
    model_path: Annotated[str, Setting("Folder of a local cross-encoder: model.onnx and tokenizer.json.")] = ""
    timeout_ms: Annotated[
        int,
        Setting(
            "Milliseconds a search waits for the reranker; after that it keeps its own order.",
            minimum=1,
            maximum=60_000,
        ),
    ] = 800
    candidates: Annotated[int, Setting("Number of first results to rerank.", minimum=3, maximum=100)] = 10
    closeness: Annotated[
        float,
        Setting(
            "Code results are reranked if the scores of the first three are within this of each other.",
            minimum=0,
            maximum=1,
        ),
    ] = 0.08


class SearchSettings(Struct, frozen=True):
    fusion: Annotated[
        str,
        ProjectSetting(
            "How channels are combined: score adds weighted signals, rrf ranks (reciprocal rank fusion, k = 60).",
            choices=("score", "rrf"),
        ),
    ] = "score"
    results_per_file: Annotated[
        int, ProjectSetting("Most results from one file; 0 means one, and two for a report.", minimum=0, maximum=10)
    ] = 0


class RetrievalSettings(Struct, frozen=True):
    distance_cutoff: Annotated[
        float,
        PolicySetting(
            "Results farther away than this are dropped (squared L2: 0 is identical, 4 is opposite).", minimum=0
        ),
    ] = 1.4
    cutoff_disabled: Annotated[bool, ProjectSetting("Keep results at any distance; the size caps still apply.")] = False
    fallback_chunks: Annotated[
        int, PolicySetting("If nothing passes the cutoff, this many of the closest chunks are kept.", minimum=1)
    ] = 2
    chunk_max_chars: Annotated[
        int,
        PolicySetting(
            "Each chunk is truncated to this many characters.", env="CODEINFO_TOOL_CHUNK_MAX_CHARS", minimum=1
        ),
    ] = 5000
    max_chars: Annotated[
        int, PolicySetting("Total characters of all chunks in one answer.", env="CODEINFO_TOOL_MAX_CHARS", minimum=1)
    ] = 40_000


class CodeSettings(Struct, frozen=True):
    language_servers: Annotated[
        bool,
        Setting("Ask an installed language server where a definition is used; the server may run code of the project."),
    ] = False
    server_timeout_s: Annotated[
        float,
        Setting(
            "Seconds a question waits for a language server; the rest is resolved without it.", minimum=0.1, maximum=600
        ),
    ] = 30.0
    server_memory_mb: Annotated[
        int, Setting("A language server that takes more memory than this is stopped.", minimum=100, maximum=1_000_000)
    ] = 2048


class LlmSettings(Struct, frozen=True):
    provider: Annotated[
        str,
        Setting(
            "auto uses base_url, or a local server that answers; none uses no model and quotes passages.",
            choices=("auto", "none"),
        ),
    ] = "auto"
    base_url: Annotated[
        str, Setting("Address of an OpenAI-compatible chat endpoint; if empty, the usual local ports are tried.")
    ] = ""
    discover: Annotated[bool, Setting("Try the usual local ports if no address is set.")] = True
    model: Annotated[str, Setting("Chat model; empty means the first one the endpoint offers.")] = ""
    api_key_env: Annotated[str, Setting("Name of the environment variable that holds the endpoint's key.")] = ""
    api_key_file: Annotated[str, Setting("File with the endpoint's key, readable by its owner only.")] = ""
    temperature: Annotated[float, Setting("Sampling temperature of the model.", minimum=0, maximum=2)] = 0.0
    timeout_s: Annotated[
        float, Setting("Seconds of silence after which a request to the endpoint fails.", minimum=0.1, maximum=3600)
    ] = 120.0


class AnswerSettings(Struct, frozen=True):
    rounds: Annotated[int, Setting("Most searches before the answer is written.", minimum=1, maximum=10)] = 3
    items: Annotated[int, Setting("Chunks per search.", minimum=1, maximum=100)] = 10
    least_score: Annotated[
        float,
        Setting(
            "Beyond the first three, passages below this share of the best score are not sent to the model.",
            minimum=0,
            maximum=1,
        ),
    ] = 0.6
    passage_chars: Annotated[
        int,
        Setting(
            "The best passage is sent whole; the others are cut to this many characters around matching lines.",
            minimum=100,
            maximum=100_000,
        ),
    ] = 900
    tool_calls: Annotated[int, Setting("Most tool calls per answer.", minimum=0, maximum=100)] = 6
    max_tokens: Annotated[int, Setting("Most tokens per answer, prompts and replies together.", minimum=1000)] = 60_000
    reply_tokens: Annotated[int, Setting("Most tokens of the answer itself.", minimum=50, maximum=100_000)] = 1200
    timeout_s: Annotated[float, Setting("Most seconds per answer.", minimum=0.1, maximum=86_400)] = 300.0
    history_turns: Annotated[
        int, Setting("Earlier turns of a conversation shown to the model.", minimum=0, maximum=1000)
    ] = 10


class McpSettings(Struct, frozen=True):
    reply_tokens: Annotated[
        int, Setting("Approximate limit for the tokens of a tool's reply.", minimum=500, maximum=1_000_000)
    ] = 8000
    patience_s: Annotated[
        float,
        Setting("Seconds a tool waits for an index that is being built; after that it uses what is there.", minimum=0),
    ] = 15.0
    idle_s: Annotated[
        float, Setting("Models and indexes are released after this many seconds without a call.", minimum=1)
    ] = 600.0
    shared: Annotated[
        bool, Setting("All agents of a user share one background server, which ends with the last of them.")
    ] = True
    memory_mb: Annotated[
        int, Setting("A shared server that uses more memory releases models and indexes between calls.", minimum=100)
    ] = 1024


class WebSettings(Struct, frozen=True):
    editor: Annotated[
        str,
        Setting(
            "Editor for files on the pages: vscode, cursor, zed, idea, none, or an address with {path} and {line}."
        ),
    ] = "vscode"
    public_url: Annotated[
        str, Setting("Public address of this server behind a proxy, as in https://code.example.com.")
    ] = ""


class AuthSettings(Struct, frozen=True):
    issuer: Annotated[str, Setting("Address of the team's OpenID Connect service; empty for tokens only.")] = ""
    client_id: Annotated[str, Setting("Client id of this server at that service.")] = ""
    client_secret_env: Annotated[str, Setting("Name of the environment variable that holds the client's secret.")] = ""
    client_secret_file: Annotated[str, Setting("File with the client's secret, readable by its owner only.")] = ""
    scope: Annotated[str, Setting("Scopes to request from the service.")] = "openid profile email"
    groups_claim: Annotated[str, Setting("Claim with a user's groups.")] = "groups"
    admin_group: Annotated[str, Setting("Members of this group of the service are administrators; empty for none.")] = (
        ""
    )
    audience: Annotated[
        str, Setting("Required audience of the service's access tokens; empty for this server's address with /mcp.")
    ] = ""
    audit_queries: Annotated[
        bool, Setting("Record the text of searches in a team's audit log, not only the projects searched.")
    ] = False


class StoreSettings(Struct, frozen=True):
    url: Annotated[
        str, Setting("Address of the team's PostgreSQL, postgresql://user@host/database; empty keeps everything local.")
    ] = ""
    cache_mb: Annotated[
        int, Setting("Disk space for local copies of a team's indexes; the least recently used are removed.", minimum=1)
    ] = 20_000
    mirrors_mb: Annotated[
        int,
        Setting("Disk space for a worker's mirrors of repositories; the least recently used are removed.", minimum=1),
    ] = 50_000
    git_credentials: Annotated[
        str,
        Setting(
            "File of https://user:token@host lines for workers to fetch repositories with; readable by its owner only."
        ),
    ] = ""
    server: Annotated[
        str, Setting("Address of the team's server that `push` sends to, as in https://code.example.com.")
    ] = ""
    token_file: Annotated[str, Setting("File with your personal access token for it, readable by its owner only.")] = ""
    heartbeat_s: Annotated[
        float,
        Setting(
            "Seconds between a worker's heartbeats; after six missing ones others take over its jobs.",
            minimum=0.1,
            maximum=600,
        ),
    ] = 5.0


class ServeSettings(Struct, frozen=True):
    drain_s: Annotated[
        float,
        Setting(
            "Seconds for requests in progress to finish at SIGTERM, while /ready fails; 0 stops the server at once.",
            minimum=0,
            maximum=3600,
        ),
    ] = 0.0
    log: Annotated[
        str, Setting("What `serve` logs to stderr: warnings as text, or everything as JSON.", choices=("text", "json"))
    ] = "text"
    metrics_address: Annotated[
        str, Setting("Address host:port of /metrics, /health and /ready, for operators only; empty disables it.")
    ] = ""


class PathSettings(Struct, frozen=True):
    cache_dir: Annotated[
        Path, Setting("Indexes live here; they can be deleted at any time.", env="CODEINFO_CACHE_DIR")
    ] = None  # type: ignore[assignment]  # resolved from the environment
    data_dir: Annotated[Path, Setting("Conversations and your own agents live here.", env="CODEINFO_DATA_DIR")] = None  # type: ignore[assignment]


class TrustSettings(Struct, frozen=True):
    projects: Annotated[tuple[str, ...], Setting("Folders whose .codeinfo.toml may set everything.")] = ()
    private_hosts: Annotated[
        tuple[str, ...],
        Setting(
            "Hosts on this machine or a private network that a project's or package's documents, and the"
            " repositories of a team, may be fetched from."
        ),
    ] = ()


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
        for name, default in zip(kind.__struct_fields__, kind.__struct_defaults__, strict=True):
            value_type, setting = get_args(kind.__annotations__[name])
            written = asdict(setting) | {"env": setting.env or f"CODEINFO_{section}_{name}".upper()}
            shown = value_type.__name__ if isinstance(value_type, type) else str(value_type)
            yield Row(**written, key=f"{section}.{name}", kind=shown, default=default)


SETTINGS: Mapping[str, Row] = {row.key: row for row in _rows()}
