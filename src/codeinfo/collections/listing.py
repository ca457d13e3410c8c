"""The files that name collections, as text and values.

A project's `context.json` comes with a repository and is not trusted: it may name what lies inside the project and
public addresses that a sync then asks for, never other folders or repositories of this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from codeinfo.collections.model import Collection, Kind, collection_of
from codeinfo.errors import UsageError

CONTEXT_FILE = "context.json"
_MEND = "Mend the file or remove it"


def read_user_list(text: str, where: str) -> list[Collection]:
    entries = _object(text, where).get("collections", [])
    try:
        return [
            Collection(
                name=str(entry["name"]),
                kind=Kind(entry["kind"]),
                url=str(entry["url"]),
                files=tuple(map(str, entry.get("files", ()))),
                ref=str(entry.get("ref", "")),
                globs=tuple(map(str, entry.get("globs", ()))),
            )
            for entry in entries
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{where} has an entry that is no collection: {error}", next_step=_MEND) from error


def write_user_list(collections: Iterable[Collection]) -> str:
    entries = []
    for item in collections:
        entry: dict[str, Any] = {"id": item.id, "name": item.name, "kind": item.kind.value, "url": item.url}
        more = {"files": list(item.files), "ref": item.ref, "globs": list(item.globs)}
        entries.append(entry | {key: value for key, value in more.items() if value})
    return json.dumps({"collections": entries}, indent=2, ensure_ascii=False) + "\n"


def read_context(text: str, folder: str) -> tuple[list[Collection], list[str]]:
    """The collections of a project, and why some that it names are not taken."""
    where = os.path.join(folder, CONTEXT_FILE)
    named = _object(text, where).get("collections", {})
    if not isinstance(named, Mapping):
        raise UsageError(f'"collections" in {where} is no object', next_step=_MEND)
    found, notes = list[Collection](), list[str]()
    for alias, entry in named.items():
        url = entry.get("url") if isinstance(entry, Mapping) else None
        if not isinstance(url, str) or not url:
            raise UsageError(f"collection {alias!r} in {where} has no url", next_step=_MEND)
        try:
            collection = _in_project(str(alias), url, str(entry.get("ref", "")), folder)
        except UsageError as error:
            notes.append(f"{CONTEXT_FILE}: {alias} is not taken: {error.what}")
        else:
            found.append(collection)
    return found, notes


def _in_project(alias: str, url: str, ref: str, folder: str) -> Collection:
    plain = url.removeprefix("pkg:").removeprefix("file:")
    collection = collection_of([plain], name=alias, ref=ref, base=folder)
    if not collection.remote:
        if collection.kind is Kind.GIT:  # a repository may point to others outside, by links and alternates
            raise UsageError(f"{url} is a repository of this machine: add it yourself with `codeinfo docs add`")
        inside = os.path.realpath(collection.url)
        if inside != os.path.realpath(folder) and not inside.startswith(os.path.realpath(folder) + os.sep):
            raise UsageError(f"{url} lies outside of the project: add it yourself with `codeinfo docs add`")
    return Collection(
        collection.name, collection.kind, collection.url, collection.files, collection.ref, origin="project"
    )


def add_to_context(text: str, folder: str, alias: str, url: str, ref: str) -> str:
    """The project's file with one more collection; whatever else it holds stays."""
    content = _object(text or "{}", os.path.join(folder, CONTEXT_FILE))
    named = dict(content.get("collections") or {})
    named[alias] = {"url": url} | ({"ref": ref} if ref else {})
    return json.dumps({**content, "collections": named}, indent=2, ensure_ascii=False) + "\n"


def remove_from_context(text: str, folder: str, alias: str) -> str:
    content = _object(text, os.path.join(folder, CONTEXT_FILE))
    kept = {name: entry for name, entry in content["collections"].items() if name != alias}
    return json.dumps({**content, "collections": kept}, indent=2, ensure_ascii=False) + "\n"


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}", next_step=_MEND) from error
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no JSON object", next_step=_MEND)
    return value
