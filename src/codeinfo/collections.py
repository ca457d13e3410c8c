"""A collection of documents (a folder, some files, a package, or a git repository at a revision): the files that name
collections, package manifests, links between documents, packing.

A project's `context.json` comes with a repository and is not trusted: it may name what lies inside the project and
public addresses for a sync to fetch, never other folders or repositories on this machine. The same holds for a
package's manifest, `{name, version, description?, baseUrl?, sources}`: `sources` is `{glob: []}` or `{files: [path |
{path|url, hash?}]}`, whose paths are relative to the package and stay inside it; a hash is SHA-256, with or without a
leading `sha256:`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import posixpath
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec import Struct, ValidationError, to_builtins
from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.errors import UsageError
from codeinfo.files import path_of_address
from codeinfo.globs import check_globs
from codeinfo.model import Import, NextStep, convert, hide_keys, hide_user, to_run

_ARCHIVES = (".tar.gz", ".tgz")
_WEB = ("https://", "http://")
_GIT = ("git+https://", "git+http://", "git+ssh://", "git+file://", "git@", "ssh://")


# --- collections -----------------------------------------------------------------------------------------------------


class Kind(StrEnum):
    FOLDER = "folder"
    FILES = "files"
    PACKAGE = "package"  # a folder or archive with a manifest
    GIT = "git"
    WRITTEN = "written"  # documents written into it one by one


class Collection(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`url` is a path or an address, which may hold a key; `source` is what to show. `id` is `file:<id>` for local
    sources, otherwise `pkg:<source>`, followed by `#` and a digest if the source does not show all of the address."""

    name: str
    kind: Kind
    url: str
    files: tuple[str, ...] = ()  # for Kind.FILES: absolute paths
    ref: str = ""  # for Kind.GIT; "" is the default branch
    globs: tuple[str, ...] = ()  # which documents to include; a leading "!" excludes
    origin: str = "user"  # or "project": named by a context.json

    @property
    def key(self) -> str:
        """What tells it from all others, for the user's own files: it may hold a key."""
        if self.kind in (Kind.FOLDER, Kind.FILES, Kind.WRITTEN):
            return f"file:{_digest(chr(10).join((self.url, *self.files)))}"
        return f"pkg:{hide_user(self.url)}{f'@{self.ref}' if self.ref else ''}"

    @property
    def id(self) -> str:
        if self.source == hide_user(self.url):
            return self.key
        return f"pkg:{self.source}#{_digest(self.key)}"

    @property
    def source(self) -> str:
        return hide_keys(self.url) if self.remote else hide_user(self.url)

    @property
    def slug(self) -> str:
        """A unique folder name."""
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)[:40].strip(".") or "collection"
        return f"{readable}-{_digest(self.key)}"

    @property
    def remote(self) -> bool:
        return self.url.startswith((*_WEB, *_GIT))

    @property
    def fetched(self) -> bool:
        """Whether its documents are a fetched copy in the user's data folder."""
        return self.kind in (Kind.GIT, Kind.WRITTEN) or (
            self.kind is Kind.PACKAGE and (self.remote or is_archive(self.url))
        )


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:12]


def make_written_collection(name: str) -> Collection:
    if not name.strip():
        raise UsageError("the collection has no name", "Give a name; a new name creates a collection")
    return Collection(name, Kind.WRITTEN, f"written:{name}")


def is_address(source: str) -> bool:
    """Whether a source is elsewhere, not a path of this machine however it is written."""
    return source.startswith((*_WEB, *_GIT)) and not source.startswith("git+file://")


def is_archive(url: str) -> bool:
    """Also of an address whose path is followed by a token."""
    return url.lower().endswith(_ARCHIVES) or (is_address(url) and urlsplit(url).path.lower().endswith(_ARCHIVES))


def collection_of(
    sources: Sequence[str], *, name: str = "", ref: str = "", globs: Sequence[str] = (), base: str = "."
) -> Collection:
    """Parse what was typed; relative paths are resolved against `base`. Reads the disk, never the network."""
    if not sources:
        raise UsageError("no source was given", "Give a folder, files, a package or a git repository")
    check_globs(globs, "globs")
    if len(sources) > 1:
        return _files(sources, name, globs, base)
    source = sources[0]
    if source.startswith(_GIT) or (source.startswith(_WEB) and (source.endswith(".git") or ref)):
        kind, url = Kind.GIT, source.removeprefix("git+")
    elif source.startswith(_WEB):
        kind, url = Kind.PACKAGE, source
    else:
        url = os.path.abspath(os.path.join(base, os.path.expanduser(path_of_address(source))))
        if not os.path.exists(url):
            raise UsageError(f"{source} does not exist", "Give an existing folder, file or address")
        if os.path.isdir(url):
            is_package = os.path.isfile(os.path.join(url, MANIFEST))
            kind = Kind.GIT if ref else Kind.PACKAGE if is_package else Kind.FOLDER
        elif is_archive(url):
            kind = Kind.PACKAGE
        else:
            return _files(sources, name, globs, base)
    return Collection(name or _stem(url), kind, url, ref=ref if kind is Kind.GIT else "", globs=tuple(globs))


def _files(sources: Sequence[str], name: str, globs: Sequence[str], base: str) -> Collection:
    paths = [os.path.abspath(os.path.join(base, os.path.expanduser(source))) for source in sources]
    for path, source in zip(paths, sources, strict=True):
        if not os.path.isfile(path):
            raise UsageError(f"{source} is not a file", "Give one folder, or several files")
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    default = _stem(paths[0]) if len(paths) == 1 else os.path.basename(folder)
    return Collection(name or default, Kind.FILES, folder, files=tuple(sorted(set(paths))), globs=tuple(globs))


def _stem(url: str) -> str:
    path = re.split(r"[?#]", url)[0] if is_address(url) else url
    last = path.rstrip("/").rpartition("/")[2]
    for ending in (*_ARCHIVES, ".git", ".json", ".md"):
        last = last.removesuffix(ending)
    return last or "documents"


# --- the files that name collections ---------------------------------------------------------------------------------

CONTEXT_FILE = "context.json"
_CORRECT_FILE = "Correct the file or remove it"
_ADD_YOURSELF = NextStep("Add it to your own list with ", to_run("docs add"))


class _UserList(Struct, forbid_unknown_fields=True):
    collections: list[dict[str, Any]]


def read_user_list(text: str, where: str) -> list[Collection]:
    """Refuses what it does not know: a newer CodeInfo wrote that, and the next change here would lose it."""
    try:
        entries = convert(_object(text, where), _UserList).collections
        ids = [entry.pop("id", None) for entry in entries]
        collections = convert(entries, list[Collection])
    except ValidationError as error:
        raise UsageError(
            f"{where} is not a list of collections: {error}", "Correct the file or upgrade CodeInfo"
        ) from error
    for identity, collection in zip(ids, collections, strict=True):
        if identity not in (None, collection.key):  # a flipped bit would point it at something else
            raise UsageError(f"{where}: {collection.name!r} has the id of another collection", _CORRECT_FILE)
    return collections


def write_user_list(collections: Iterable[Collection]) -> str:
    return _as_file({"collections": [{"id": item.key, **to_builtins(item)} for item in collections]})


def read_context(text: str, folder: str) -> tuple[list[Collection], list[str]]:
    """A project's collections, and why some that it names are refused."""
    where = os.path.join(folder, CONTEXT_FILE)
    urls = _object(text, where).get("collections", {})
    if not isinstance(urls, Mapping):
        raise UsageError(f'"collections" in {where} is not an object', _CORRECT_FILE)
    collections, notes = list[Collection](), list[str]()
    for alias, entry in urls.items():
        url = entry.get("url") if isinstance(entry, Mapping) else None
        if not isinstance(url, str) or not url:
            raise UsageError(f"collection {alias!r} in {where} has no url", _CORRECT_FILE)
        plain = url.removeprefix("pkg:").removeprefix("file:")
        try:
            collection = collection_of([plain], name=str(alias), ref=str(entry.get("ref", "")), base=folder)
            url_in_project(collection, url, folder)
            collections.append(replace(collection, origin="project"))
        except UsageError as error:
            notes.append(NextStep(f"{CONTEXT_FILE}: {alias} is not used: {error.what}. ", error.next_step))
    return collections, notes


def url_in_project(collection: Collection, written: str, folder: str) -> str:
    """How the project in `folder` names a source that was `written` somewhere; raises if it may not name it."""
    if collection.remote:
        return written
    if collection.kind is Kind.GIT:  # a repository may point outside through links and alternates
        raise UsageError(f"{written} is a repository on this machine", _ADD_YOURSELF)
    path = os.path.relpath(os.path.realpath((*collection.files, collection.url)[0]), os.path.realpath(folder))
    if path == os.pardir or path.startswith(os.pardir + os.sep):
        raise UsageError(f"{written} is outside the project", _ADD_YOURSELF)
    return path


def add_to_context(text: str, folder: str, alias: str, url: str, ref: str) -> str:
    """Add a collection to the project's file; everything else in it stays."""
    content = _object(text or "{}", os.path.join(folder, CONTEXT_FILE))
    named = dict(content.get("collections") or {})
    named[alias] = {"url": url} | ({"ref": ref} if ref else {})
    return _as_file({**content, "collections": named})


def remove_from_context(text: str, folder: str, alias: str) -> str:
    content = _object(text, os.path.join(folder, CONTEXT_FILE))
    content["collections"].pop(alias, None)
    return _as_file(content)


def _as_file(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}", _CORRECT_FILE) from error
    if not isinstance(value, dict):
        raise UsageError(f"{where} is not a JSON object", _CORRECT_FILE)
    return value


# --- package manifests -----------------------------------------------------------------------------------------------

MANIFEST = "manifest.json"
MAX_FILES = 50_000
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
_CORRECT_MANIFEST = "Correct the manifest; docs/documents.md describes it"


class PackageFile(Struct, frozen=True):
    path: str
    url: str = ""  # "" for a file of the package itself
    sha256: str = ""  # "" if the manifest has none


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


class _WrittenManifest(Struct, rename="camel"):
    name: str
    version: str
    sources: _Sources
    description: str = ""
    base_url: str = ""


def read_manifest(text: str) -> Manifest:
    try:
        content = json.loads(text)
        _as_file(content).encode()  # raises for what no file can be called
        written = convert(content, _WrittenManifest)
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
    entries = (_ListedFile(entry) if isinstance(entry, str) else entry for entry in files or ())
    listed = tuple(_package_file(entry, base_url) for entry in entries)
    if len({file.path for file in listed}) != len(listed):
        raise _bad("a path is listed twice")
    return Manifest(written.name, written.version, written.description, base_url, globs or (), listed)


def safe_path(path: str) -> str:
    """Return the path after checking that it stays below whatever it is joined to."""
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
    path = entry.path or f"{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/").replace(":", "_")
    return PackageFile(safe_path(path), full, sha256)


def _bad(reason: str) -> UsageError:
    return UsageError(f"the manifest is not valid: {reason}", _CORRECT_MANIFEST)


# --- links between documents -----------------------------------------------------------------------------------------

_IMPLIED = ("", ".md", ".mdx", ".html", "/index.md", "/README.md", "/index.html")


def edges(links: Mapping[str, Iterable[Import]]) -> set[tuple[str, str]]:
    """(from, to) for every link between two documents of the collection. A link is relative to its document, then to
    the collection; a wiki link names a page anywhere."""
    by_name = group_by_key((_name_key(path), path) for path in sorted(links))

    def target_of(source: str, link: Import) -> str | None:
        if link.alias == "wiki":
            pages = by_name.get(_name_key(link.module + ".md"), [])
            beside = [path for path in pages if posixpath.dirname(path) == posixpath.dirname(source)]
            return next(iter(beside or pages), None)
        written = link.module.strip()
        folder = "" if written.startswith("/") else posixpath.dirname(source)
        bases = (posixpath.normpath(posixpath.join(base, written.lstrip("/"))) for base in (folder, ""))
        return next((path for base in bases for ending in _IMPLIED if (path := base + ending) in links), None)

    targets = ((path, target_of(path, link)) for path, written in links.items() for link in written)
    return {(path, target) for path, target in targets if target is not None and target != path}


def _name_key(path: str) -> str:
    name = path.rpartition("/")[2]
    stem = name[: name.rfind(".")] if "." in name[1:] else name
    return stem.lower().replace(" ", "-").replace("_", "-")


# --- packing ---------------------------------------------------------------------------------------------------------
#
# Archives are unpacked without trusting them.

MAX_PACKED_BYTES = 500_000_000
MAX_UNPACKED_BYTES = 1_000_000_000
MAX_MEMBERS = 50_000
MAX_HEADER_BYTES = 1_000_000  # of one that holds long names
_LONG_HEADERS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, b"X")


def pack(name: str, version: str, description: str, files: Mapping[str, bytes]) -> tuple[bytes, Manifest]:
    """An archive of `files` (path → content) with a manifest that lists them and their hashes."""
    if len(files) >= MAX_MEMBERS or sum(map(len, files.values())) > MAX_PACKED_BYTES:  # nobody could read it
        what = f"a package has fewer than {MAX_MEMBERS:,} documents, of {MAX_PACKED_BYTES:,} bytes together"
        raise UsageError(what, "Pack parts of the folder")
    listed = tuple(PackageFile(path, "", hashlib.sha256(files[path]).hexdigest()) for path in sorted(files))
    written: dict[str, Any] = {"name": name, "version": version} | ({"description": description} if description else {})
    written["sources"] = {"files": [{"path": file.path, "hash": f"sha256:{file.sha256}"} for file in listed]}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in ((MANIFEST, _as_file(written).encode()), *((f.path, files[f.path]) for f in listed)):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0), Manifest(name, version, description, files=listed)


class _Member(tarfile.TarInfo):
    """Refuses the headers that are read into memory before anybody can look at them, and maps of holes in files."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo | tarfile.TarFile:
        # Called for each header by every release of Python; newer ones bypass `frombuf`.
        if self.type in _LONG_HEADERS and self.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a file with holes")
        return super()._proc_member(archive)  # type: ignore[misc, no-any-return]

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise tarfile.ReadError("a file with holes")


def unpack(data: bytes) -> dict[str, bytes]:
    """Path → content of the regular files of an archive. Links, devices and names that lead outside are refused."""
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|gz", tarinfo=_Member) as archive:
            for count, member in enumerate(archive):
                if count >= MAX_MEMBERS:
                    raise UsageError(f"the package has more than {MAX_MEMBERS:,} entries")
                if member.isdir():
                    continue
                if not member.isreg():
                    raise UsageError(f"the package contains a link or a special file: {member.name!r}")
                total += member.size
                if total > MAX_UNPACKED_BYTES:
                    raise UsageError(f"the package unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
                content = archive.extractfile(member)
                files[safe_path(member.name)] = content.read() if content else b""
    except (tarfile.TarError, EOFError, OSError, RecursionError, ValueError) as error:
        raise UsageError(f"the package is broken: {error}", "Get it again") from error
    return _strip_wrapper(files)


def _strip_wrapper(files: dict[str, bytes]) -> dict[str, bytes]:
    """Many archives wrap everything in one folder."""
    if MANIFEST in files:
        return files
    tops = {path.partition("/")[0] for path in files}
    if len(tops) == 1 and f"{(top := tops.pop())}/{MANIFEST}" in files:
        return {path.removeprefix(f"{top}/"): content for path, content in files.items()}
    raise UsageError(f"the package has no {MANIFEST}", NextStep("Make one with ", to_run("docs pack")))
