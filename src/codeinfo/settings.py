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
            "What no work tree of a repository has any more is kept this many days: a branch may come back.",
            minimum=0,
            maximum=3650,
        ),
    ] = 14
    keep_share: Annotated[
        float, Setting("Of that, at most this share of what is in use is kept.", minimum=0, maximum=100)
    ] = 1.0
    workers: Annotated[
        int, Setting("Parser processes; 0 means one for each processor, at most 6.", minimum=0, maximum=256)
    ] = 0


class EmbeddingSettings(Struct, frozen=True):
    provider: Annotated[
        str,
        Setting(
            "Where vectors come from; none means keyword search only.",
            choices=("builtin", "openai", "scripted", "none"),
        ),
    ] = "builtin"
    model: Annotated[str, Setting("The model to ask an OpenAI-compatible endpoint for.")] = ""
    base_url: Annotated[str, Setting("Address of the OpenAI-compatible embeddings endpoint.")] = (
        "http://localhost:1234/v1"
    )
    api_key_env: Annotated[str, Setting("Name of the environment variable that holds the endpoint's key.")] = ""
    batch: Annotated[int, Setting("Chunks sent to the endpoint at once.", minimum=1, maximum=2048)] = 64
    timeout_s: Annotated[float, Setting("Seconds to wait for one batch.", minimum=0.1, maximum=3600)] = 60.0
    dimension: Annotated[
        int, Setting("Ask the endpoint for vectors of this length; 0 takes the model's own.", minimum=0)
    ] = 0


class RerankSettings(Struct, frozen=True):
    provider: Annotated[
        str,
        Setting(
            "Who reads the first results once more when their scores are close: an endpoint, a local model, or nobody.",
            choices=("none", "endpoint", "local"),
        ),
    ] = "none"
    base_url: Annotated[str, Setting("Address of the reranking endpoint, without /rerank.")] = ""
    model: Annotated[
        str, Setting("The model to ask the endpoint for; empty for a server of one model that is asked as TEI is.")
    ] = ""
    api_key_env: Annotated[str, Setting("Name of the environment variable that holds the endpoint's key.")] = ""
    model_path: Annotated[str, Setting("Folder of a local cross-encoder: model.onnx and tokenizer.json.")] = ""
    timeout_ms: Annotated[
        int,
        Setting("Milliseconds one search waits for it; then the search's own order stays.", minimum=1, maximum=60_000),
    ] = 800
    candidates: Annotated[int, Setting("First results that are reranked.", minimum=3, maximum=100)] = 10
    closeness: Annotated[
        float,
        Setting("Code results are reranked when the scores of the first three lie within this.", minimum=0, maximum=1),
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
        int,
        ProjectSetting(
            "At most this many results of one file; 0 means one, and two for a report.", minimum=0, maximum=10
        ),
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
        int, PolicySetting("When nothing passes the cutoff, this many of the closest are kept.", minimum=1)
    ] = 2
    chunk_max_chars: Annotated[
        int, PolicySetting("Each chunk is cut to this many characters.", env="CODEINFO_TOOL_CHUNK_MAX_CHARS", minimum=1)
    ] = 5000
    max_chars: Annotated[
        int,
        PolicySetting(
            "All chunks of one answer together stay within this many characters.",
            env="CODEINFO_TOOL_MAX_CHARS",
            minimum=1,
        ),
    ] = 40_000


class CodeSettings(Struct, frozen=True):
    language_servers: Annotated[
        bool,
        Setting(
            "Ask an installed language server where a definition is used; it may run code of the project that it reads."
        ),
    ] = False
    server_timeout_s: Annotated[
        float, Setting("Seconds one question waits for it; the rest is found without it.", minimum=0.1, maximum=600)
    ] = 30.0
    server_memory_mb: Annotated[
        int, Setting("A language server that takes more memory is ended.", minimum=100, maximum=1_000_000)
    ] = 2048


class LlmSettings(Struct, frozen=True):
    provider: Annotated[
        str,
        Setting(
            "auto asks base_url, or a local server that answers; none quotes passages and asks no model.",
            choices=("auto", "none"),
        ),
    ] = "auto"
    base_url: Annotated[
        str, Setting("Address of an OpenAI-compatible chat endpoint; empty looks at the usual local ports.")
    ] = ""
    discover: Annotated[bool, Setting("Look at the usual local ports for a server when no address is set.")] = True
    model: Annotated[str, Setting("The chat model to ask; empty takes the first that the endpoint offers.")] = ""
    api_key_env: Annotated[str, Setting("Name of the environment variable that holds the endpoint's key.")] = ""
    api_key_file: Annotated[str, Setting("A file that holds the endpoint's key and that only its owner can read.")] = ""
    temperature: Annotated[float, Setting("How freely the model chooses its words.", minimum=0, maximum=2)] = 0.0
    timeout_s: Annotated[
        float, Setting("Seconds of silence after which the endpoint is given up.", minimum=0.1, maximum=3600)
    ] = 120.0


class AnswerSettings(Struct, frozen=True):
    rounds: Annotated[
        int, Setting("At most this many searches before the answer is written.", minimum=1, maximum=10)
    ] = 3
    items: Annotated[int, Setting("Chunks that one search brings.", minimum=1, maximum=100)] = 10
    least_score: Annotated[
        float,
        Setting(
            "Beyond the first three, a passage is sent to the model from this share of the best one's score on.",
            minimum=0,
            maximum=1,
        ),
    ] = 0.6
    passage_chars: Annotated[
        int,
        Setting(
            "The best passage is sent whole, the others cut to this many characters around the lines that match.",
            minimum=100,
            maximum=100_000,
        ),
    ] = 900
    tool_calls: Annotated[int, Setting("Tool calls the model may make for one answer.", minimum=0, maximum=100)] = 6
    max_tokens: Annotated[int, Setting("Tokens one answer may cost, prompts and replies together.", minimum=1000)] = (
        60_000
    )
    reply_tokens: Annotated[int, Setting("Tokens the answer itself may have.", minimum=50, maximum=100_000)] = 1200
    timeout_s: Annotated[float, Setting("Seconds one answer may take.", minimum=0.1, maximum=86_400)] = 300.0
    history_turns: Annotated[
        int, Setting("Earlier turns of a conversation that the model is shown.", minimum=0, maximum=1000)
    ] = 10


class McpSettings(Struct, frozen=True):
    reply_tokens: Annotated[
        int, Setting("A tool's reply has at most about this many tokens.", minimum=500, maximum=1_000_000)
    ] = 8000
    patience_s: Annotated[
        float, Setting("Seconds a tool waits for an index that is being built; then it uses what is there.", minimum=0)
    ] = 15.0
    idle_s: Annotated[
        float, Setting("Models and indexes are let go of after this many seconds without a call.", minimum=1)
    ] = 600.0
    shared: Annotated[
        bool, Setting("Whether all agents of a user share one background server, which ends with the last of them.")
    ] = True
    memory_mb: Annotated[
        int, Setting("A shared server that is larger lets go of models and indexes between calls.", minimum=100)
    ] = 1024


class WebSettings(Struct, frozen=True):
    editor: Annotated[
        str,
        Setting(
            "What the pages open files with: vscode, cursor, zed, idea, none, or an address with {path} and {line}."
        ),
    ] = "vscode"
    public_url: Annotated[
        str, Setting("Address under which a proxy in front offers this server, as in https://code.example.com.")
    ] = ""


class AuthSettings(Struct, frozen=True):
    issuer: Annotated[
        str, Setting("Address of the OpenID Connect service that a team signs in with; empty for tokens only.")
    ] = ""
    client_id: Annotated[str, Setting("What that service calls this server.")] = ""
    client_secret_env: Annotated[str, Setting("Name of the environment variable that holds the client's secret.")] = ""
    client_secret_file: Annotated[
        str, Setting("A file that holds the client's secret and that only its owner can read.")
    ] = ""
    scope: Annotated[str, Setting("What the service is asked for.")] = "openid profile email"
    groups_claim: Annotated[str, Setting("The claim that names a user's groups.")] = "groups"
    admin_group: Annotated[str, Setting("Who is in this group of the service is an administrator; empty for none.")] = (
        ""
    )
    audience: Annotated[
        str, Setting("Who the service's access tokens must be for; empty for this server's address with /mcp.")
    ] = ""
    audit_queries: Annotated[
        bool, Setting("Keep what users of a team's server looked for in its audit log, and not only where.")
    ] = False


class StoreSettings(Struct, frozen=True):
    url: Annotated[
        str, Setting("Address of the team's PostgreSQL, postgresql://user@host/database; empty keeps all of it here.")
    ] = ""
    cache_mb: Annotated[
        int, Setting("Copies of a team's indexes may take this much on disk; those used least recently go.", minimum=1)
    ] = 20_000
    mirrors_mb: Annotated[
        int,
        Setting(
            "A worker's mirrors of repositories may take this much on disk; those used least recently go.", minimum=1
        ),
    ] = 50_000
    git_credentials: Annotated[
        str,
        Setting("A file of https://user:token@host lines that workers fetch repositories with; private to its owner."),
    ] = ""
    server: Annotated[
        str, Setting("Address of the team's server that `push` sends to, as in https://code.example.com.")
    ] = ""
    token_file: Annotated[
        str, Setting("A file that holds your personal access token for it; private to its owner.")
    ] = ""
    heartbeat_s: Annotated[
        float,
        Setting(
            "Seconds between a worker's signs of life; after six that are missing others do its jobs.",
            minimum=0.1,
            maximum=600,
        ),
    ] = 5.0


class ServeSettings(Struct, frozen=True):
    drain_s: Annotated[
        float,
        Setting(
            "Seconds that requests in progress get at SIGTERM, while /ready says no; 0 ends the server at once.",
            minimum=0,
            maximum=3600,
        ),
    ] = 0.0
    log: Annotated[
        str, Setting("What `serve` writes to stderr: warnings as text, or all as JSON.", choices=("text", "json"))
    ] = "text"
    metrics_address: Annotated[
        str, Setting("Address host:port of /metrics, /health and /ready, for operators alone; empty serves none.")
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
