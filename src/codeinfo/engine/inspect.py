"""Questions about one path or one index folder that no search asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from codeinfo.engine.upkeep import Upkeep
from codeinfo.errors import IndexDamaged, NotFound
from codeinfo.model import ManifestRow
from codeinfo.operations.search import WhyReport
from codeinfo.sources.walk import why


def bytes_under(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def why_path(path: Path, upkeep: Callable[[Path], Upkeep]) -> WhyReport:
    """Asked from the current folder's point of view when the path lies below it, else from its project's."""
    target = Path.cwd() / path
    if not os.path.lexists(target):
        raise NotFound(f"{path} does not exist", next_step="Name a file or folder that does")
    keeper = upkeep(project_of(target))
    relative = target.relative_to(keeper.root) if target.is_relative_to(keeper.root) else Path(path)
    decision = why(keeper.root, str(relative), keeper.walk_settings())
    known = _manifest(keeper).get(relative.as_posix())
    return WhyReport(
        path=relative.as_posix(),
        root=str(keeper.root),
        included=decision.included,
        rule=decision.rule,
        detail=f"{decision.detail} ({decision.source})" if decision.source else decision.detail,
        language=known.language if known else "",
        kind=known.kind.value if known else "",
        chunks=known.chunk_count if known else 0,
    )


def project_of(target: Path) -> Path:
    """The folder whose index a path belongs to: the current one when the path lies below it, else its repository."""
    here = Path.cwd().resolve()
    nearest = resolved(target if os.path.isdir(target) else target.parent)
    if nearest.is_relative_to(here):
        return here
    for folder in (nearest, *nearest.parents):
        if os.path.exists(folder / ".git"):
            return folder
    return nearest


def resolved(path: Path) -> Path:
    """Without links and dots. A path that no file can have, too long or with a NUL, is one that is not there."""
    try:
        return path.resolve()
    except (OSError, ValueError) as error:
        raise NotFound(f"{path} does not exist", next_step="Name a file that does") from error


def _manifest(keeper: Upkeep) -> Mapping[str, ManifestRow]:
    try:
        store = keeper.live_store()
        return store.manifest() if store is not None else {}
    except IndexDamaged:
        return {}
