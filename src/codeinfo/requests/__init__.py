"""What every shell asks of the engine and what it answers: frozen dataclasses, standard library only.

A request's fields carry their help in `metadata`; the shells derive arguments, schemas and routes from it. `argument`
marks what a command line takes by position, `short` an extra one-letter option, `choices` the only values allowed.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from codeinfo.frozen import frozen
from codeinfo.types import FileKind, Intent, SearchResult, Skip

SearchResponse = SearchResult

MAX_TEXT_CHARS = 10_000  # of a query or any other text that a server is sent: a long stack trace, some 0.2 s of work


def _arg(default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"help": help, "argument": True, **more})


def _opt(default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"help": help, **more})


def _required(help: str, **more: Any) -> Any:
    return field(metadata={"help": help, "argument": True, **more})


_PATHS = "Folders to work on; the current one unless named."


# --- index ---------------------------------------------------------------------------------------------------------


@frozen
class IndexRequest:
    paths: tuple[str, ...] = _arg((".",), _PATHS)
    full: bool = _opt(False, "Build everything anew instead of only what changed.")


@frozen
class Progress:
    """One step of a long job; `total` is 0 while unknown, `rate` is files a second."""

    phase: str
    done: int
    total: int = 0
    skipped: int = 0
    rate: float = 0.0


@frozen
class IndexReport:
    """What one index run did to one root."""

    root: str
    files: int
    chunks: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    renamed: int = 0
    skipped: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0
    rebuilt: bool = False
    model_id: str = ""  # "" for a keyword-only index


@frozen
class IndexResponse:
    reports: tuple[IndexReport, ...]


# --- search --------------------------------------------------------------------------------------------------------


@frozen
class SearchRequest:
    query: str = _required("What to look for: a name, a path, or a question in plain words.")
    paths: tuple[str, ...] = _arg((".",), _PATHS)
    limit: int = _opt(10, "At most this many results.", short="n", minimum=1, maximum=1000)
    intent: str = _opt(
        "", "Read the query as this kind instead of guessing it.", choices=tuple(intent.value for intent in Intent)
    )
    purpose: str = _opt(
        "",
        "Search on behalf of such a change: a card says whether enough has been seen to go ahead.",
        choices=("edit", "refactor", "migrate"),
    )
    languages: tuple[str, ...] = _opt((), "Only files of this language; may be given several times.", short="l")
    globs: tuple[str, ...] = _opt((), "Only paths that match; a leading ! leaves them out.", short="g")
    kinds: tuple[str, ...] = _opt((), "Only files of this kind.", short="k", choices=tuple(k.value for k in FileKind))
    symbol_kinds: tuple[str, ...] = _opt((), "Only chunks of such definitions: function, class, method…")
    changed_since: str = _opt("", "Only files that differ from this git revision.", metavar="REV")
    max_tokens: int = _opt(0, "Pack the best results into about this many tokens; 0 for no limit.", minimum=0)
    explain: bool = _opt(False, "Show why each result has its place, and what was left out by which rule.", short="e")
    snippets: bool = _opt(True, "Show the text of the results.")
    context: bool = _opt(False, "Add who calls each result, its tests, the team's patterns and memories.", short="c")
    full_text: bool = _opt(False, "Show whole chunks instead of the lines that answer.")
    refresh: bool = _opt(True, "Look for changed files before searching.")


@frozen
class SimilarRequest:
    place: str = _required("Where to look: FILE:LINE, as in src/app.py:42.")
    path: str = _opt(".", "The project's folder; the current one unless named.")
    limit: int = _opt(10, "At most this many results.", short="n", minimum=1, maximum=1000)
    explain: bool = _opt(False, "Show why each result has its place.", short="e")


# --- status, why, clear --------------------------------------------------------------------------------------------


@frozen
class StatusRequest:
    paths: tuple[str, ...] = _arg((".",), _PATHS)


@frozen
class IndexStatus:
    """The state of one root's index: `ready`, `stale` (something changed since), `missing`, `building` or `damaged`."""

    root: str
    state: str
    location: str  # the folder that holds the index
    files: int = 0
    chunks: int = 0
    bytes: int = 0  # on disk
    generation: int = 0
    indexed_at: str = ""  # ISO 8601, UTC; "" when never
    model_id: str = ""  # "" for a keyword-only index
    dimension: int = 0
    added: int = 0  # files that the next run would add, do again or remove
    changed: int = 0
    removed: int = 0
    languages: dict[str, int] = field(default_factory=dict)  # language → files
    notes: tuple[str, ...] = ()


@frozen
class StatusReport:
    indexes: tuple[IndexStatus, ...]


@frozen
class WhyRequest:
    path: str = _required("The file or folder in question.")


@frozen
class WhyReport:
    """Whether a path belongs to the index, and the rule that decided."""

    path: str
    root: str
    included: bool
    rule: str
    detail: str = ""
    language: str = ""
    kind: str = ""
    chunks: int = 0  # 0 when the index does not have it (yet)


@frozen
class ClearRequest:
    paths: tuple[str, ...] = _arg((".",), "Folders whose index to delete; the current one unless named.")


@frozen
class Cleared:
    root: str
    location: str
    existed: bool
    bytes: int = 0  # freed


@frozen
class ClearReport:
    cleared: tuple[Cleared, ...]


# --- doctor --------------------------------------------------------------------------------------------------------


@frozen
class DoctorRequest:
    paths: tuple[str, ...] = _arg((".",), "Folders whose index to look at; the current one unless named.")


@frozen
class Check:
    """One thing that was looked at; `state` is `ok`, `warn` (works, but less well) or `fail`."""

    name: str
    state: str
    detail: str
    next_step: str = ""


@frozen
class DoctorReport:
    checks: tuple[Check, ...]
