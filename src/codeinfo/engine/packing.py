"""Writing a package of documents."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from codeinfo.collections.package import pack
from codeinfo.engine.collecting import CollectionUpkeep
from codeinfo.errors import UsageError
from codeinfo.model import Skip
from codeinfo.operations.documents import DocsPackRequest, DocsPackResponse
from codeinfo.sources.read import load


def pack_folder(request: DocsPackRequest, keeper: CollectionUpkeep) -> DocsPackResponse:
    walked = keeper.walk()
    files, skipped = dict[str, bytes](), list(walked.skipped)
    for file in walked.files:
        loaded = load(keeper.root, file)
        if isinstance(loaded, Skip):
            skipped.append(loaded)
        else:
            files[file.path] = loaded.data
    if not files:
        raise UsageError(f"{request.source} has no documents", next_step="Name a folder that holds some")
    name = request.name or keeper.root.name
    data, manifest = pack(name, request.version, request.description, files)
    target = Path(request.out or f"{name}-{request.version}.tar.gz")
    temporary = target.with_name(f".{target.name}-{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, target)
    return DocsPackResponse(
        file=str(target),
        name=manifest.name,
        version=manifest.version,
        documents=len(manifest.files),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        skipped=tuple(skip for skip in skipped if skip.matters),
    )
