"""The pages about documents: collections and their state, search in them, one document beside the page, asking them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codeinfo.collections.model import Collection
from codeinfo.errors import CodeInfoError, NotFound, UsageError
from codeinfo.model import CRUMB
from codeinfo.operations.documents import (
    DocsAddRequest,
    DocsAskRequest,
    DocsListRequest,
    DocsOutlineRequest,
    DocsRelatedRequest,
    DocsRemoveRequest,
    DocsSearchRequest,
    DocsSectionRequest,
    DocsSyncRequest,
    SyncReport,
)
from codeinfo.serve.dispatch import Values, check_length
from codeinfo.serve.runs import State
from codeinfo.serve.team import request_user
from codeinfo.shells.http_visit import Visit

DOCUMENTS = "docs:"  # before the name of a collection where a project could stand; alone: all of them
FOUND = 20
RELATED = 6
SHOWN_CHARS = 40_000  # of a document beside the page


def frame(visit: Visit) -> str:
    """The page around the collections or results, which come after it."""
    query = check_length(visit.given.get("q", "").strip(), "the query")
    return visit.render("documents.html", query=query, chosen=visit.given.get("collection", ""))


def content(visit: Visit) -> str:
    query = check_length(visit.given.get("q", "").strip(), "the query")
    chosen = visit.given.get("collection", "")
    return _results(visit, query, chosen) if query else _collections(visit, chosen)


def _collections(visit: Visit, chosen: str, reports: tuple[SyncReport, ...] = ()) -> str:
    found = visit.state.engine.documents.list(DocsListRequest((chosen,) if chosen else (), path=_here(visit.state)))
    return visit.render(
        "documents_content.html", collections=found.collections, notes=found.notes, chosen=chosen, reports=reports
    )


def _results(visit: Visit, query: str, chosen: str) -> str:
    asked = DocsSearchRequest((query,), (chosen,) if chosen else (), limit=FOUND, path=_here(visit.state))
    response = visit.state.engine.documents.search(asked, visit.call.progress)
    (found,) = response.searches
    names = {one.id: one.name for one in collections_of(visit.state)}
    return visit.render(
        "document_results.html", found=found, notes=response.notes, names=names, query=query, chosen=chosen, crumb=CRUMB
    )


def collections_of(state: State) -> tuple[Collection, ...]:
    """What is listed, without a look at its documents; a team's server has none for its callers."""
    if request_user() is not None:
        return ()
    return tuple(state.engine.documents.collections.all(Path(_here(state)))[0])


def document(visit: Visit) -> str:
    """One document, or a section of it, with its outline and what it is related to."""
    asked, documents, here = visit.given, visit.state.engine.documents, _here(visit.state)
    collection, name, section = (asked.get(key, "") for key in ("collection", "document", "section"))
    outline = documents.outline(DocsOutlineRequest(collection, name, here))
    try:
        shown = documents.section(DocsSectionRequest(collection, name, section, here))
    except NotFound:
        if not section:
            raise
        shown = documents.section(DocsSectionRequest(collection, name, "", here))  # the heading is gone
    try:
        related = documents.related(DocsRelatedRequest(collection, name, RELATED, here)).related
    except CodeInfoError:  # without vectors only links relate documents
        related = ()
    return visit.render(
        "document.html",
        shown=shown,
        text=shown.content[:SHOWN_CHARS],
        is_cut=len(shown.content) > SHOWN_CHARS,
        outline=outline.entries,
        section=section,
        related=related,
        scope=f"{DOCUMENTS}{collection}",
    )


def add(visit: Visit) -> str:
    given = visit.given.get("source", "").strip()
    if not given:
        raise UsageError("no source is named", next_step="Type a folder, or the address of a git repository")
    source = given if "://" in given or given.startswith("git@") else str(visit.state.addable(given))
    request = DocsAddRequest((source,), name=visit.given.get("name", "").strip(), path=_here(visit.state))
    added = visit.state.engine.documents.add(request, visit.call.progress)
    return _collections(visit, "", added.reports)


def sync(visit: Visit) -> str:
    wanted = visit.given.get("id", "")
    request = DocsSyncRequest((wanted,) if wanted else (), path=_here(visit.state))
    done = visit.state.engine.documents.sync(request, visit.call.progress)
    return _collections(visit, visit.given.get("collection", ""), done.reports)


def remove(visit: Visit) -> str:
    visit.state.engine.documents.remove(DocsRemoveRequest((visit.given.get("id", ""),), path=_here(visit.state)))
    return _collections(visit, "")


def ask_request(state: State, scope: str, values: Values) -> DocsAskRequest:
    """A question to the collections that a conversation's scope names."""
    chosen = scope.removeprefix(DOCUMENTS)
    named: dict[str, Any] = {key: values.get(key, "") for key in ("provider", "model")}
    return DocsAskRequest(
        values["message"],
        (chosen,) if chosen else (),
        values.get("conversationId", ""),
        path=_here(state),
        **named,
    )


def _here(state: State) -> str:
    """The project whose context.json counts."""
    return str(state.projects.here)
