"""Collections of documents."""

from __future__ import annotations

from functools import partial
from typing import Any

from codeinfo.requests import documents as requests
from codeinfo.shells.operations import Operation

_RENDER = "codeinfo.shells.render_documents:render"


def _skips(response: Any) -> int:
    """3: done, but a document was left out that the user would want to know of."""
    return 3 if any(skip.matters for report in response.reports for skip in report.skipped) else 0


_Operation = partial(Operation, group="documents", renderer=_RENDER)

OPERATIONS = (
    _Operation(
        name="docs add",
        request=requests.DocsAddRequest,
        handler=lambda engine, request, progress: engine.documents.add(request, progress),
        summary="Add a collection of documents and index it.",
        help="A folder, files, a package (folder or tar.gz with a manifest), or a git repository at a revision.",
        read_only=False,
        exit_code=_skips,
    ),
    _Operation(
        name="docs list",
        request=requests.DocsListRequest,
        handler=lambda engine, request, progress: engine.documents.list(request),
        summary="List collections, or the documents of some.",
        help="",
    ),
    _Operation(
        name="docs sync",
        request=requests.DocsSyncRequest,
        handler=lambda engine, request, progress: engine.documents.sync(request, progress),
        summary="Fetch what is elsewhere and index what changed, by content.",
        help="The only command that goes to the network for a collection, beside adding one.",
        read_only=False,
        exit_code=_skips,
    ),
    _Operation(
        name="docs remove",
        request=requests.DocsRemoveRequest,
        handler=lambda engine, request, progress: engine.documents.remove(request),
        summary="Forget collections and delete their indexes.",
        help="Your own files are not touched.",
        read_only=False,
        confirm="Remove {collections}?",
    ),
    _Operation(
        name="docs search",
        request=requests.DocsSearchRequest,
        handler=lambda engine, request, progress: engine.documents.search(request, progress),
        summary="Find the passages that answer one to ten questions.",
        help="Each result says where it opens: page, sheet, slide, heading or line.",
    ),
    Operation(
        name="docs ask",
        request=requests.DocsAskRequest,
        handler=lambda engine, request, progress: engine.answers.ask(request, progress=progress),
        summary="Answer a question from collections of documents, with citations that were checked.",
        help="As `codeinfo ask` does from code. Each source says where it opens: page, sheet, slide, heading or line.",
        read_only=False,
        group="answers",
        renderer="codeinfo.shells.render_answers:render",
        live="codeinfo.shells.chat:ask",
    ),
    _Operation(
        name="docs outline",
        request=requests.DocsOutlineRequest,
        handler=lambda engine, request, progress: engine.documents.outline(request),
        summary="Show the headings, pages, sheets or slides of a document.",
        help="",
    ),
    _Operation(
        name="docs section",
        request=requests.DocsSectionRequest,
        handler=lambda engine, request, progress: engine.documents.section(request),
        summary="Show one section of a document, or all of it.",
        help="",
    ),
    _Operation(
        name="docs related",
        request=requests.DocsRelatedRequest,
        handler=lambda engine, request, progress: engine.documents.related(request),
        summary="Show the documents that a document links to, is linked from, or resembles.",
        help="",
    ),
    _Operation(
        name="docs pack",
        request=requests.DocsPackRequest,
        handler=lambda engine, request, progress: engine.documents.pack(request),
        summary="Write a folder's documents as a package that anyone can add.",
        help="A tar.gz with a manifest that lists every document with its hash.",
        read_only=False,
        group="local",
    ),
)
