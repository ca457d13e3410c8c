"""Metadata and style of a project, from its index and the few files that state them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from codeinfo.engine.index_manager import IndexManager
from codeinfo.knowledge import metadata as facts
from codeinfo.knowledge.style import is_style_file, style_rules
from codeinfo.model import FileKind
from codeinfo.operations.knowledge import LanguageSize, MetadataReport, StyleReport
from codeinfo.sources.files import read_regular
from codeinfo.sources.read import decode
from codeinfo.store.sqlite import SqliteStore

MAX_FILE_BYTES = 1_000_000
MOST_FILES = 500  # manifests of a monorepository; the shallow ones come first
_PROJECT_NAME = re.compile(r"^\s*\"?name\"?\s*[=:]\s*\"([^\"\n]+)\"", re.MULTILINE)


def metadata(keeper: IndexManager, store: SqliteStore) -> MetadataReport:
    rows = store.manifest()
    texts = _texts(keeper, (path for path in rows if facts.is_manifest(path) or path == "Makefile"))
    declared, notes = facts.dependencies(texts)
    sizes = _sizes(store)
    tests = sum(row.kind is FileKind.TEST for row in rows.values())
    return MetadataReport(
        name=_name(texts) or keeper.root.name,
        root=str(keeper.root),
        files=sum(size.files for size in sizes.values()),
        lines=sum(size.lines for size in sizes.values()),
        languages=dict(sorted(sizes.items(), key=lambda item: (-item[1].lines, item[0]))),
        frameworks=facts.frameworks(declared),
        dependencies=declared,
        tests=facts.test_setup(declared, texts, tests),
        notes=notes,
    )


def style(keeper: IndexManager, store: SqliteStore, query: str) -> StyleReport:
    rules, total = style_rules(_texts(keeper, filter(is_style_file, store.manifest())), query)
    more = total - len(rules)
    return StyleReport(rules, (f"{more} more rules were left out: name what they should be about",) if more > 0 else ())


def _texts(keeper: IndexManager, paths: Iterable[str]) -> dict[str, str]:
    texts = {}
    for path in sorted(paths, key=lambda path: (path.count("/"), path))[:MOST_FILES]:
        try:
            text = decode(read_regular(str(keeper.root), path, MAX_FILE_BYTES))
        except OSError:
            continue  # gone since it was indexed, or grown beyond what a manifest has
        if text is not None:
            texts[path] = text.content
    return texts


def _sizes(store: SqliteStore) -> dict[str, LanguageSize]:
    files: dict[str, int] = defaultdict(int)
    lines: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    rows = store.manifest()
    with store.snapshot() as view:
        for file, path in enumerate(view.paths):
            language = view.languages[file] or "text"
            files[language] += 1
            sizes[language] += rows[path].size if path in rows else 0
            if view.file_rows[file]:
                last = int(view.file_first[file] + view.file_rows[file]) - 1
                lines[language] += view.chunks([last])[0].end_line
    return {language: LanguageSize(count, lines[language], sizes[language]) for language, count in files.items()}


def _name(texts: dict[str, str]) -> str:
    for path in ("pyproject.toml", "package.json", "Cargo.toml", "composer.json"):
        if found := _PROJECT_NAME.search(texts.get(path, "")):
            return found[1]
    module = re.search(r"^module\s+(\S+)", texts.get("go.mod", ""), re.MULTILINE)
    return module[1] if module else ""
