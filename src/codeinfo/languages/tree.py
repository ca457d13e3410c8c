"""The paths of a codebase and what its configuration files say, arranged for looking imports up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, TypeVar

from msgspec.structs import replace

from codeinfo.languages.model import BY_NAME, FileFacts, Outcome, family
from codeinfo.model import Import

Key = TypeVar("Key")

# A string, a comment, a tab, or a comma that only a closing bracket follows.
_RELAXED = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|\t|,(?=\s*[}\]])')

MOST_ABOVE = 4  # folders above the files that imports may start from


@cache
def _config_names() -> re.Pattern[str]:
    known = {name for language in BY_NAME.values() for name in language.imports.configs}
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in known))


def is_config(path: str) -> bool:
    """Whether a file says how imports are to be read."""
    return _config_names().fullmatch(path.rpartition("/")[2]) is not None


class Tree:
    """`root` is the folder that the paths start from, `configs_above` what lies in the folders around it, by the path
    from the root (`../package.json`). `left_out` says of a path that it is the work of others or of a tool, so that
    no index holds it."""

    def __init__(
        self,
        files: Iterable[FileFacts],
        configs: Mapping[str, str],
        root: str = "",
        configs_above: Mapping[str, str] | None = None,
        left_out: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.files = {facts.path: facts for facts in files}
        self.configs = configs
        self.above = root.strip("/").split("/")[-MOST_ABOVE:]
        self.configs_above = configs_above or {}
        self.left_out = left_out
        self._read: dict[str, dict[str, Any]] = {}

    def __contains__(self, path: str | None) -> bool:
        return path in self.files

    @cached_property
    def folders(self) -> frozenset[str]:
        known: set[str] = {""}
        for path in self.files:
            folder = path.rpartition("/")[0]
            while folder not in known:
                known.add(folder)
                folder = folder.rpartition("/")[0]
        return frozenset(known)

    @cached_property
    def by_folder(self) -> Mapping[str, tuple[str, ...]]:
        return _grouped((facts.folder, path) for path, facts in self.files.items())

    @cached_property
    def by_name(self) -> Mapping[str, tuple[str, ...]]:
        """Paths by the file's name without its folder."""
        return _grouped((path.rpartition("/")[2], path) for path in self.files)

    @cached_property
    def by_package(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """(family, package) → files that add to it."""
        return _grouped(
            ((family(facts.language), package), path)
            for path, facts in self.files.items()
            for package in (packages_of(facts)[-1:] if facts.rules.imports.nested_packages else facts.packages)
        )

    @cached_property
    def definers(self) -> Mapping[tuple[str, str, str], tuple[str, ...]]:
        """(family, package, top-level name) → files that define it."""
        return _grouped(
            ((family(facts.language), package, name), path)
            for path, facts in self.files.items()
            for package in packages_of(facts)[-1:]
            for name in facts.exports
        )

    def having(self, suffix: str) -> tuple[str, ...]:
        """Paths that equal a relative path or end with it, at a folder's border."""
        return tuple(
            path
            for path in self.by_name.get(suffix.rpartition("/")[2], ())
            if path == suffix or path.endswith("/" + suffix)
        )

    def from_above(self, path: str) -> Iterator[str]:
        """What a path may mean that starts above the root: in a folder `absl`, `absl/base/log.h` is `base/log.h`."""
        for at in range(len(self.above) - 1, -1, -1):
            start = "/".join(self.above[at:])
            if start and f"{path}/".startswith(f"{start}/"):
                yield path[len(start) + 1 :]

    def from_top(self) -> tuple[str, Tree]:
        """The same files as the topmost configuration above the root sees them, and what all their paths start with."""
        depth = max((path.count("../") for path in self.configs_above), default=0)
        inside = self.above[-depth:] if depth else []
        if not inside:
            return "", self
        prefix = "/".join(inside) + "/"
        configs = {prefix + path: text for path, text in self.configs.items()}
        for path, text in self.configs_above.items():
            configs["/".join((*inside[: depth - path.count("../")], path.rpartition("../")[2]))] = text
        files = (replace(facts, path=prefix + facts.path) for facts in self.files.values())
        return prefix, Tree(files, configs, left_out=self.left_out)

    def config(self, path: str) -> dict[str, Any]:
        """A JSON configuration, comments and trailing commas allowed; {} when it is broken."""
        if path not in self._read:
            text = self.configs.get(path, "")
            read = _json(text)
            if read is None:  # looking for comments takes ten times as long as reading a file without them
                read = _json(strict_json(text))
            self._read[path] = read if isinstance(read, dict) else {}
        return self._read[path]


def strict_json(text: str) -> str:
    """JSON without comments, tabs and trailing commas; lines stay where they are."""
    return _RELAXED.sub(lambda found: found[1] or "\n" * found[0].count("\n") or " ", text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class Resolver:
    """Where the imports of one language lead in a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        raise NotImplementedError

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()


def packages_of(facts: FileFacts) -> tuple[str, ...]:
    """The packages a file lies in: where clauses nest, `package a`, `package b` is a.b inside a."""
    if not facts.rules.imports.nested_packages:
        return facts.packages
    joined: list[str] = []
    for package in facts.packages:
        joined.append(f"{joined[-1]}.{package}" if joined else package)
    return tuple(joined)


def joined(folder: str, relative: str) -> str | None:
    """`relative` seen from `folder`, or None when it leaves the codebase."""
    parts = folder.split("/") if folder else []
    for part in relative.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def ancestors(folder: str) -> list[str]:
    """The folder, then those around it, up to the root."""
    chain = [folder]
    while folder:
        folder = folder.rpartition("/")[0]
        chain.append(folder)
    return chain


def nearest(paths: Iterable[str], folder: str) -> str | None:
    """The path that shares most folders with `folder`; None when two are equally near."""
    found = nearest_all(list(paths), folder)
    return found[0] if len(found) == 1 else None


def nearest_all(paths: Sequence[str], folder: str) -> Sequence[str]:
    """The paths that share most folders with `folder`."""
    if len(paths) < 2:
        return paths
    wanted = folder.split("/")

    def shared(path: str) -> int:
        count = 0
        for mine, theirs in zip(wanted, path.split("/"), strict=False):
            if mine != theirs:
                break
            count += 1
        return count

    depths = [shared(path) for path in paths]
    return [path for path, depth in zip(paths, depths, strict=True) if depth == max(depths)]


def _grouped(pairs: Iterable[tuple[Key, str]]) -> dict[Key, tuple[str, ...]]:
    groups: dict[Key, list[str]] = {}
    for key, path in pairs:
        groups.setdefault(key, []).append(path)
    return {key: tuple(paths) for key, paths in groups.items()}
