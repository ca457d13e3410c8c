"""A collection of documents: a folder, some files, a package, or a git repository at a revision; the files that name
collections, what a package says about itself, and the links between documents.

A project's `context.json` comes with a repository and is not trusted: it may name what lies inside the project and
public addresses that a sync then asks for, never other folders or repositories of this machine. So does a package's
manifest, `{name, version, description?, baseUrl?, sources}`: `sources` is `{glob: []}` or
`{files: [path | {path|url, hash?}]}`, whose paths are relative to the package and stay inside it; a hash is SHA-256,
`sha256:` in front or not.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from codeinfo.errors import UsageError
from codeinfo.globs import check_globs
from codeinfo.model import Import, NextStep, to_run

_ARCHIVES = (".tar.gz", ".tgz")
_WEB = ("https://", "http://")
_GIT = ("git+https://", "git+http://", "git+ssh://", "git+file://", "git@", "ssh://")


class Kind(StrEnum):
    FOLDER = "folder"
    FILES = "files"
    PACKAGE = "package"  # a folder or archive with a manifest
    GIT = "git"
    WRITTEN = "written"  # documents that were written into it one by one


class Collection(Struct, frozen=True, omit_defaults=True):
    """`url` is a path or an address; `id` follows from it: `file:<id>` for what lies here, else `pkg:<url>`."""

    name: str
    kind: Kind
    url: str
    files: tuple[str, ...] = ()  # of Kind.FILES: absolute paths
    ref: str = ""  # of Kind.GIT; "" is the default branch
    globs: tuple[str, ...] = ()  # which of its documents; a leading "!" leaves out
    origin: str = "user"  # or "project": named by a context.json

    @property
    def id(self) -> str:
        if self.kind in (Kind.FOLDER, Kind.FILES, Kind.WRITTEN):
            key = "\n".join((self.url, *self.files))
            return f"file:{hashlib.sha256(os.fsencode(key)).hexdigest()[:12]}"
        return f"pkg:{self.url}" + (f"@{self.ref}" if self.ref else "")

    @property
    def slug(self) -> str:
        """A folder name of its own."""
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)[:40].strip(".") or "collection"
        return f"{readable}-{hashlib.sha256(os.fsencode(self.id)).hexdigest()[:12]}"

    @property
    def remote(self) -> bool:
        return self.url.startswith((*_WEB, *_GIT))

    @property
    def fetched(self) -> bool:
        """Whether its documents lie in the user's data, where they were copied before they could be indexed."""
        return self.kind in (Kind.GIT, Kind.WRITTEN) or (
            self.kind is Kind.PACKAGE and (self.remote or is_archive(self.url))
        )


def written_collection(name: str) -> Collection:
    if not name.strip():
        raise UsageError("the collection has no name", next_step="Name one; a new name makes one")
    return Collection(name, Kind.WRITTEN, f"written:{name}")


def is_archive(url: str) -> bool:
    return url.lower().endswith(_ARCHIVES)


def collection_of(
    sources: Sequence[str], *, name: str = "", ref: str = "", globs: Sequence[str] = (), base: str = "."
) -> Collection:
    """What was typed, understood; relative paths count from `base`. Only looks at the disk, never at the network."""
    if not sources:
        raise UsageError("no source is named", next_step="Name a folder, files, a package or a git repository")
    check_globs(globs, "globs")
    if len(sources) > 1:
        return _files(sources, name, globs, base)
    source = sources[0]
    if source.startswith(_GIT) or (source.startswith(_WEB) and (source.endswith(".git") or ref)):
        url = source.removeprefix("git+")
        return Collection(name or _stem(url), Kind.GIT, url, ref=ref, globs=tuple(globs))
    if source.startswith(_WEB):
        return Collection(name or _stem(source), Kind.PACKAGE, source, globs=tuple(globs))
    path = os.path.abspath(os.path.join(base, os.path.expanduser(source.removeprefix("file://"))))
    if not os.path.exists(path):
        raise UsageError(f"{source} does not exist", next_step="Name an existing folder, file or address")
    if os.path.isdir(path):
        if ref:
            return Collection(name or _stem(path), Kind.GIT, path, ref=ref, globs=tuple(globs))
        kind = Kind.PACKAGE if os.path.isfile(os.path.join(path, "manifest.json")) else Kind.FOLDER
        return Collection(name or _stem(path), kind, path, globs=tuple(globs))
    if is_archive(path):
        return Collection(name or _stem(path), Kind.PACKAGE, path, globs=tuple(globs))
    return _files(sources, name, globs, base)


def _files(sources: Sequence[str], name: str, globs: Sequence[str], base: str) -> Collection:
    paths = [os.path.abspath(os.path.join(base, os.path.expanduser(source))) for source in sources]
    for path, source in zip(paths, sources, strict=True):
        if not os.path.isfile(path):
            raise UsageError(f"{source} is not a file", next_step="Name one folder, or several files")
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    default = _stem(paths[0]) if len(paths) == 1 else os.path.basename(folder)
    return Collection(name or default, Kind.FILES, folder, files=tuple(sorted(set(paths))), globs=tuple(globs))


def _stem(url: str) -> str:
    last = url.rstrip("/").rpartition("/")[2]
    for ending in (*_ARCHIVES, ".git", ".json", ".md"):
        last = last.removesuffix(ending)
    return last or "documents"


CONTEXT_FILE = "context.json"
_CORRECT_FILE = "Correct the file or remove it"
_ADD_YOURSELF = NextStep("Add it yourself with ", to_run("docs add"))


def read_user_list(text: str, where: str) -> list[Collection]:
    entries = _object(text, where).get("collections", [])
    try:
        return convert(entries, list[Collection])
    except ValidationError as error:
        raise UsageError(f"{where} has an entry that is not a collection: {error}", next_step=_CORRECT_FILE) from error


def write_user_list(collections: Iterable[Collection]) -> str:
    entries = [{"id": item.id, **to_builtins(item)} for item in collections]
    return json.dumps({"collections": entries}, indent=2, ensure_ascii=False) + "\n"


def read_context(text: str, folder: str) -> tuple[list[Collection], list[str]]:
    """The collections of a project, and why some that it names are not taken."""
    where = os.path.join(folder, CONTEXT_FILE)
    named = _object(text, where).get("collections", {})
    if not isinstance(named, Mapping):
        raise UsageError(f'"collections" in {where} is not an object', next_step=_CORRECT_FILE)
    found, notes = list[Collection](), list[str]()
    for alias, entry in named.items():
        url = entry.get("url") if isinstance(entry, Mapping) else None
        if not isinstance(url, str) or not url:
            raise UsageError(f"collection {alias!r} in {where} has no url", next_step=_CORRECT_FILE)
        try:
            collection = _in_project(str(alias), url, str(entry.get("ref", "")), folder)
        except UsageError as error:
            notes.append(NextStep(f"{CONTEXT_FILE}: {alias} is not taken: {error.what}. ", error.next_step))
        else:
            found.append(collection)
    return found, notes


def _in_project(alias: str, url: str, ref: str, folder: str) -> Collection:
    plain = url.removeprefix("pkg:").removeprefix("file:")
    collection = collection_of([plain], name=alias, ref=ref, base=folder)
    if not collection.remote:
        if collection.kind is Kind.GIT:  # a repository may point to others outside, by links and alternates
            raise UsageError(f"{url} is a repository of this machine", next_step=_ADD_YOURSELF)
        inside = os.path.realpath(collection.url)
        if inside != os.path.realpath(folder) and not inside.startswith(os.path.realpath(folder) + os.sep):
            raise UsageError(f"{url} lies outside of the project", next_step=_ADD_YOURSELF)
    return replace(collection, globs=(), origin="project")


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
        raise UsageError(f"{where} is not valid JSON: {error}", next_step=_CORRECT_FILE) from error
    if not isinstance(value, dict):
        raise UsageError(f"{where} is not a JSON object", next_step=_CORRECT_FILE)
    return value


MANIFEST = "manifest.json"
MAX_FILES = 50_000
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
_CORRECT_MANIFEST = "Correct the manifest; docs/documents.md describes it"


class PackageFile(Struct, frozen=True):
    path: str
    url: str = ""  # "" for a file of the package itself
    sha256: str = ""  # "" where the manifest gives none


class Manifest(Struct, frozen=True):
    name: str
    version: str
    description: str = ""
    base_url: str = ""
    globs: tuple[str, ...] = ()
    files: tuple[PackageFile, ...] = ()


class _ListedFile(Struct):
    path: str = ""
    url: str = ""
    hash: str = ""


class _Sources(Struct):
    glob: tuple[str, ...] | None = None
    files: tuple[str | _ListedFile, ...] | None = None


class _Written(Struct, rename="camel"):
    name: str
    version: str
    sources: _Sources
    description: str = ""
    base_url: str = ""


def read_manifest(text: str) -> Manifest:
    try:
        written = convert(json.loads(text), _Written)
    except (ValueError, RecursionError) as error:
        raise _bad(str(error)) from error
    if not written.name or not written.version:
        raise _bad("name and version are empty")
    globs, files, base_url = written.sources.glob, written.sources.files, written.base_url
    if (globs is None) == (files is None):
        raise _bad('sources must have either "glob" or "files"')
    if base_url and urlsplit(base_url).scheme not in ("https", "http"):
        raise _bad("baseUrl must be a web address")
    check_globs(globs or (), "the manifest is not valid")
    if files and len(files) > MAX_FILES:
        raise _bad(f'"files" must be a list of at most {MAX_FILES:,}')
    listed = tuple(_package_file(_ListedFile(one) if isinstance(one, str) else one, base_url) for one in files or ())
    if len({file.path for file in listed}) != len(listed):
        raise _bad("a path is listed twice")
    return Manifest(written.name, written.version, written.description, base_url, globs or (), listed)


def write_manifest(manifest: Manifest) -> str:
    files = [{"path": file.path, "hash": f"sha256:{file.sha256}"} for file in manifest.files]
    value: dict[str, Any] = {"name": manifest.name, "version": manifest.version}
    if manifest.description:
        value["description"] = manifest.description
    return json.dumps(value | {"sources": {"files": files}}, indent=2, ensure_ascii=False) + "\n"


def safe_path(path: str) -> str:
    """The path, once it is certain that it stays below whatever it is joined to."""
    parts = path.replace("\\", "/").split("/")
    if not path or path.startswith(("/", "\\")) or ":" in parts[0] or ".." in parts or "\0" in path:
        raise _bad(f"{path!r} leaves the package")
    return "/".join(part for part in parts if part not in ("", "."))


def _package_file(entry: _ListedFile, base_url: str) -> PackageFile:
    digest = _HASH.fullmatch(entry.hash) if entry.hash else None
    if entry.hash and digest is None:
        raise _bad(f"{entry.hash!r} is not a SHA-256")
    sha256 = digest.group(1).lower() if digest else ""
    if not entry.url:
        return PackageFile(safe_path(entry.path), "", sha256)
    full = urljoin(base_url, entry.url)
    parts = urlsplit(full)
    if parts.scheme not in ("https", "http"):
        raise _bad(f"{entry.url!r} is not a web address")
    path = entry.path or f"{parts.netloc}{parts.path}".rstrip("/").replace(":", "_")
    return PackageFile(safe_path(path), full, sha256)


def _bad(reason: str) -> UsageError:
    return UsageError(f"the manifest is not valid: {reason}", next_step=_CORRECT_MANIFEST)


_IMPLIED = ("", ".md", ".mdx", ".html", "/index.md", "/README.md", "/index.html")


class LinkMap:
    """Finds the document that a link means; `paths` are all documents of the collection."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_name.setdefault(_name_key(path), []).append(path)

    def target(self, source: str, link: Import) -> str | None:
        """Relative to the document, then to the collection; a wiki link by its name wherever the page lies."""
        if link.alias == "wiki":
            found = self._by_name.get(_name_key(link.module + ".md"), [])
            near = [path for path in found if posixpath.dirname(path) == posixpath.dirname(source)]
            return next(iter(near or found), None)
        written = link.module.strip()
        folder = "" if written.startswith("/") else posixpath.dirname(source)
        for base in dict.fromkeys((folder, "")):
            plain = posixpath.normpath(posixpath.join(base, written.lstrip("/")))
            for ending in _IMPLIED:
                if plain + ending in self._paths:
                    return plain + ending
        return None


def edges(links: Mapping[str, Iterable[Import]]) -> set[tuple[str, str]]:
    """(from, to) for every link between two documents of the collection."""
    known = LinkMap(links)
    return {
        (path, target)
        for path, written in links.items()
        for link in written
        if (target := known.target(path, link)) is not None and target != path
    }


def _name_key(path: str) -> str:
    name = path.rpartition("/")[2]
    stem = name[: name.rfind(".")] if "." in name[1:] else name
    return stem.lower().replace(" ", "-").replace("_", "-")
