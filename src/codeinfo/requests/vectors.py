"""Vector search as its clients know it: these results keep the contract's own field names."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class VectorSearchRequest:
    query: str = field(metadata={"help": "What to look for, in plain words.", "argument": True})
    repository: str = field(default="", metadata={"help": "Only this repository: its name or path; all unless named."})
    limit: int = field(default=5, metadata={"help": "At most this many results, 1 to 20."})


@dataclass(frozen=True, slots=True)
class VectorMatch:
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


@dataclass(frozen=True, slots=True)
class VectorFile:
    """`highestMatch` is the best match, which is the lowest distance."""

    hostPath: str
    highestMatch: float | None
    chunkCount: int
    lineCount: int | None
    repo: str
    modelId: str


@dataclass(frozen=True, slots=True)
class VectorSearchResult:
    results: tuple[VectorMatch, ...]
    modelId: str | None
    files: tuple[VectorFile, ...]  # sorted by hostPath


@dataclass(frozen=True, slots=True)
class ProjectsRequest:
    pass


@dataclass(frozen=True, slots=True)
class Project:
    """An indexed root."""

    name: str
    root: str
    files: int
    chunks: int
    modelId: str
    indexedAt: str
    state: str  # "ready", "building", "damaged" or "gone" (the folder no longer exists)


@dataclass(frozen=True, slots=True)
class ProjectsResult:
    projects: tuple[Project, ...]
