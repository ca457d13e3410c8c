"""From links as written to documents of the same collection."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from codeinfo.model import Import

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
