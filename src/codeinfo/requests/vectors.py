"""Vector search as its clients know it: these results keep the contract's own field names."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from codeinfo.requests import Arg, Opt


class VectorSearchRequest(Struct, frozen=True):
    query: Annotated[str, Arg("What to look for, in plain words.")]
    repository: Annotated[str, Opt("Only this repository: its name or path; all unless named.")] = ""
    limit: Annotated[int, Opt("At most this many results, 1 to 20.")] = 5


class VectorMatch(Struct, frozen=True):
    """`score` is the raw distance (squared L2, lower is closer)."""

    repo: str
    relPath: str
    containerPath: str
    hostPath: str
    score: float | None
    chunk: str
    chunkId: str
    modelId: str
    lineCount: int | None


class VectorFile(Struct, frozen=True):
    """`highestMatch` is the best match, which is the lowest distance."""

    hostPath: str
    highestMatch: float | None
    chunkCount: int
    lineCount: int | None
    repo: str
    modelId: str


class VectorSearchResult(Struct, frozen=True):
    results: tuple[VectorMatch, ...]
    modelId: str | None
    files: tuple[VectorFile, ...]  # sorted by hostPath


class ProjectsRequest(Struct, frozen=True):
    pass


class Project(Struct, frozen=True):
    """An indexed root."""

    name: str
    root: str
    files: int
    chunks: int
    modelId: str
    indexedAt: str
    state: str  # "ready", "building", "damaged" or "gone" (the folder no longer exists)


class ProjectsResult(Struct, frozen=True):
    projects: tuple[Project, ...]
