"""Documents that are not here yet: archives, addresses and repositories become a folder in the user's data.

<data>/collections/<slug>/
    current          the name of the live tree, replaced atomically
    tree-<hash>/     the documents; the hash is that of what was fetched
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from codeinfo.collections.addresses import Reach, host_of
from codeinfo.collections.manifest import MANIFEST, Manifest, read_manifest, safe_path
from codeinfo.collections.model import Collection, Kind, is_archive
from codeinfo.collections.package import MAX_PACKED_BYTES, unpack
from codeinfo.errors import UsageError
from codeinfo.private_files import private_folder, replace_private, write_private
from codeinfo.sources.documents.formats import document_language

MAX_DOCUMENT_BYTES = 50_000_000
MAX_FETCHED_BYTES = 2_000_000_000

Download = Callable[[str, int], bytes]  # address, most bytes → content


def fetched_tree(home: Path) -> Path | None:
    """The live tree of a collection, or None before its first sync."""
    try:
        name = (home / "current").read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    tree = home / name
    return tree if name.startswith("tree-") and "/" not in name and tree.is_dir() else None


def fetch(collection: Collection, home: Path, private_hosts: Iterable[str], *, own: bool) -> Path:
    """Bring the newest documents here. What was here before stays until the new ones are complete.

    The user's `own` collections may be on any host, and on this machine. Whatever else names an address (a project, a
    manifest, a redirect) reaches the public internet and the user's `private_hosts`.
    """
    from codeinfo.collections.download import download

    hosts = {host.lower() for host in private_hosts}
    if own and collection.remote:
        hosts.add(host_of(collection.url).name.lower())
    reach = Reach(frozenset(hosts))
    if collection.kind is Kind.GIT:
        with _fetched_repository(collection, reach, own=own) as (revision, files):
            return _store(home, revision, files)
    get = partial(download, reach=reach)
    if collection.remote and not is_archive(collection.url):
        text = get(collection.url, MAX_DOCUMENT_BYTES)
        contents = _listed(read_manifest(text.decode("utf-8", "replace")), collection.url, get)
    else:
        data = get(collection.url, MAX_PACKED_BYTES) if collection.remote else _read(Path(collection.url))
        contents = unpack(data)
        text = contents[MANIFEST]
        _add_remote_files(read_manifest(text.decode("utf-8", "replace")), contents, get)
    contents[MANIFEST] = text
    parts = b"".join(hashlib.sha256(path.encode() + contents[path]).digest() for path in sorted(contents))
    return _store(home, hashlib.sha256(parts).hexdigest(), contents.items())


def _fetched_repository(
    collection: Collection, reach: Reach, *, own: bool
) -> AbstractContextManager[tuple[str, Iterable[tuple[str, bytes]]]]:
    from codeinfo.sources.git import fetch_files

    pinned = ""
    if not own:
        host = host_of(collection.url)
        addresses = (f"[{address}]" if ":" in address else address for address in reach.resolve(host))
        pinned = f"{host.name}:{host.port}:{','.join(addresses)}"
    wanted = (lambda path: bool(document_language(path)), MAX_DOCUMENT_BYTES)
    return fetch_files(collection.url, collection.ref, *wanted, local=own, pinned=pinned)


def _read(path: Path) -> bytes:
    if path.stat().st_size > MAX_PACKED_BYTES:
        raise UsageError(f"{path} has more than {MAX_PACKED_BYTES:,} bytes")
    return path.read_bytes()


def _listed(manifest: Manifest, url: str, get: Download) -> dict[str, bytes]:
    """The files that a manifest on the web lists, each from its own address or beside the manifest."""
    from urllib.parse import quote, urljoin

    if manifest.globs:
        raise UsageError("a manifest on the web cannot use globs", next_step="List files, or publish a tar.gz")
    base = manifest.base_url or url
    return {file.path: get(file.url or urljoin(base, quote(file.path)), MAX_DOCUMENT_BYTES) for file in manifest.files}


def _add_remote_files(manifest: Manifest, contents: dict[str, bytes], get: Download) -> None:
    for file in manifest.files:
        if file.url:
            contents[file.path] = get(file.url, MAX_DOCUMENT_BYTES)


def _store(home: Path, revision: str, files: Iterable[tuple[str, bytes]]) -> Path:
    """Written beside the live tree, then made the live one; others are removed."""
    tree = home / f"tree-{revision[:16]}"
    if not tree.exists():
        partial = home / f".partial-{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        private_folder(partial, home.parent)
        total = 0
        for path, content in files:
            total += len(content)
            if total > MAX_FETCHED_BYTES:
                raise UsageError(f"the collection has more than {MAX_FETCHED_BYTES:,} bytes")
            target = partial / safe_path(path)
            write_private(private_folder(target.parent, partial) / target.name, content)
        partial.rename(tree)
    replace_private(home / "current", tree.name.encode("ascii"))
    for old in (*home.glob("tree-*"), *home.glob(".partial-*")):
        if old != tree:
            shutil.rmtree(old, ignore_errors=True)
    return tree
