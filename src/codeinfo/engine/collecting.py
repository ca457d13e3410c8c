"""Keeps one collection's index fresh: the same upkeep as for code, over documents and by content."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from codeinfo.collections.manifest import MANIFEST, Manifest, read_manifest
from codeinfo.collections.model import Collection, Kind
from codeinfo.config import Config
from codeinfo.engine.fetching import MAX_DOCUMENT_BYTES, fetched_tree
from codeinfo.engine.upkeep import Upkeep
from codeinfo.errors import CodeInfoError, NotFound
from codeinfo.globs import match_globs
from codeinfo.index.diff import Changes
from codeinfo.model import ManifestRow, Skip, SourceFile, Walk
from codeinfo.operations.documents import SyncPlan
from codeinfo.ports import Embedder
from codeinfo.sources.documents.formats import document_language, missing_library
from codeinfo.sources.read import load
from codeinfo.sources.walk import WalkSettings, check_root, walk
from codeinfo.store.layout import IndexFolder
from codeinfo.store.sqlite import SqliteStore

CONVERTERS_VERSION = 1  # raise when a converter gives other text: indexes are then built anew


class CollectionUpkeep(Upkeep):
    """`thorough` compares contents, so that a change is found that left size and time as they were."""

    documents = True

    def __init__(self, collection: Collection, home: Path, config: Config, embedder: Embedder | None) -> None:
        super().__init__(Path(collection.url), config, embedder)
        self.collection = collection
        self.home = home
        self.folder = IndexFolder(config.paths.cache_dir / "documents", Path(collection.slug))
        self.thorough = False

    def recipe(self) -> str:
        return json.dumps([CONVERTERS_VERSION, *json.loads(super().recipe())])

    # --- what belongs to it ---

    def walk(self) -> Walk:
        self.root = self._place()
        if self.collection.kind is Kind.FILES:
            return _listed_files(self.root, self.collection.files)
        walked = walk(self.root, WalkSettings(max_file_bytes=MAX_DOCUMENT_BYTES, documents=True))
        if self.collection.kind is Kind.PACKAGE:
            walked = _of_package(self.root, walked, {} if self.thorough else self._known())
        return _chosen(walked, self.collection.globs, "glob", "the collection's patterns leave it out")

    def _known(self) -> Mapping[str, ManifestRow]:
        store = self.live_store()
        return store.manifest() if store is not None else {}

    def _place(self) -> Path:
        if not self.collection.fetched:
            return check_root(Path(self.collection.url))
        tree = fetched_tree(self.home)
        if tree is None:
            raise NotFound(
                f"{self.collection.name} was never fetched",
                next_step=f"Run `codeinfo docs sync {self.collection.name}`",
            )
        return tree

    # --- by content ---

    def changes(self, store: SqliteStore, walked: Walk) -> Changes:
        found = super().changes(store, walked)
        if not self.thorough:
            return found
        doubtful = {file.path for file in (*found.added, *found.suspects)}
        alike = [file for file in walked.files if file.path not in doubtful]
        hashes = store.hashes([file.path for file in alike])
        edited = [file for file in alike if self._sha256(file) != hashes[file.path]]
        return Changes(found.added, (*found.suspects, *edited), found.removed, found.unchanged - len(edited))

    def plan(self) -> SyncPlan:
        """What a sync would do now."""
        self.thorough = True
        walked, changes = self.pending()
        if changes is None:
            return SyncPlan(added=tuple(file.path for file in walked.files))
        manifest = self._known()
        changed = tuple(f.path for f in changes.suspects if self._sha256(f) != manifest[f.path].sha256)
        same = changes.unchanged + len(changes.suspects) - len(changed)
        return SyncPlan(tuple(file.path for file in changes.added), changed, changes.removed, same)

    def _sha256(self, file: SourceFile) -> str:
        loaded = load(self.root, file)
        return "" if isinstance(loaded, Skip) else loaded.sha256


def _listed_files(root: Path, files: tuple[str, ...]) -> Walk:
    found, skipped = list[SourceFile](), list[Skip]()
    for full in files:
        path = os.path.relpath(full, root).replace(os.sep, "/")
        try:
            status = os.lstat(full)
        except OSError as error:
            skipped.append(Skip(path, "missing", error.strerror or "", matters=True))
            continue
        command = missing_library(path)
        if not document_language(path):
            skipped.append(Skip(path, "not-a-document", "of no format that documents have", matters=True))
        elif status.st_size > MAX_DOCUMENT_BYTES:
            skipped.append(Skip(path, "too-large", f"{status.st_size:,} bytes", matters=True))
        elif command:
            skipped.append(Skip(path, "needs-library", f"to read it, install what is missing: {command}", matters=True))
        else:
            found.append(SourceFile(path, status.st_size, status.st_mtime_ns))
    return Walk(tuple(found), tuple(skipped))


def read_package(root: Path) -> Manifest:
    try:
        return read_manifest((root / MANIFEST).read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise CodeInfoError(f"{root / MANIFEST} cannot be read: {error}") from error


def _of_package(root: Path, walked: Walk, known: Mapping[str, ManifestRow]) -> Walk:
    """What the manifest selects. A listed file whose content is not what its hash says is left out, and that is said;
    `known` spares reading those that look as they did when they were indexed."""
    manifest = read_package(root)
    if manifest.globs:
        return _chosen(walked, manifest.globs, "manifest", "the package's manifest does not select it")
    listed = {file.path: file for file in manifest.files}
    files, skipped = list[SourceFile](), list[Skip](walked.skipped)
    for file in walked.files:
        if file.path not in listed:
            skipped.append(Skip(file.path, "manifest", "the package's manifest does not list it"))
        elif wrong := _wrong_hash(root, file, listed[file.path].sha256, known.get(file.path)):
            skipped.append(Skip(file.path, "hash-mismatch", wrong, matters=True))
        else:
            files.append(file)
    present = {file.path for file in walked.files} | {skip.path for skip in walked.skipped}
    for path, wanted in listed.items():
        if path not in present:
            where = "a folder's package holds no addresses: add the manifest's own" if wanted.url else "not there"
            skipped.append(Skip(path, "missing", f"the manifest lists it; {where}", matters=True))
    return Walk(tuple(files), tuple(skipped))


def _wrong_hash(root: Path, file: SourceFile, wanted: str, known: ManifestRow | None) -> str:
    if not wanted:
        return ""
    if known is not None and (known.size, known.mtime_ns, known.sha256) == (file.size, file.mtime_ns, wanted):
        return ""
    loaded = load(root, file)
    if isinstance(loaded, Skip):
        return loaded.detail
    found = loaded.sha256
    return "" if found == wanted else f"its content has {found[:12]}…, the manifest says {wanted[:12]}…"


def _chosen(walked: Walk, globs: tuple[str, ...], rule: str, reason: str) -> Walk:
    if not globs:
        return walked
    fitting = match_globs([file.path for file in walked.files], globs)
    kept = tuple(file for file, fits in zip(walked.files, fitting, strict=True) if fits)
    left = (Skip(file.path, rule, reason) for file, fits in zip(walked.files, fitting, strict=True) if not fits)
    return Walk(kept, (*walked.skipped, *left))
