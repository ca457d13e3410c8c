"""What the layout of a tree says of each file, whatever is asked: packages, tests, older copies, translations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.tokens import terms

MANIFESTS = frozenset(
    "package.json pyproject.toml setup.py go.mod cargo.toml pom.xml build.gradle build.gradle.kts composer.json "
    "mix.exs package.swift build.zig build.sbt".split()
)
_MANIFEST_ENDINGS = (".csproj", ".fsproj", ".cabal", ".gemspec", ".rockspec")
DEEPEST = 4  # folders below a package; what lies deeper is no worse
REPEATED_NAMES = 0.4  # of a folder's file names that its parent has too: then it is an older or another edition
LEAST_REPEATED = 3  # files

# The group that matches is the word that says so; the rest of a file's name is its subject.
_SECONDARY = re.compile(
    r"(?:^|/)(tests?|specs?|__tests__|testing|testdata|integration[_-]tests?|e2e|fixtures?|mocks?|examples?|samples?|demos?|"
    r"playgrounds?|bench(?:es|marks?)?|legacy|deprecated|compat|old|docs?|docs?_src|"
    r"single_include|amalgamat\w+)(?:/|$)|^(man|website|tools?|scripts?|project|hack|\.[\w-]+)/|"
    r"(?:^|/)(?:(test)_[^/]*|(conftest)\.py|"
    r"[^/]*[_.-](test|tests|spec|bench|example)\.[^/.]+|[^/]*(Test|Tests|Spec|IT)\.[a-z]+)$",
)
_VENDORED = re.compile(r"(?:^|/)(?:vendor|vendored|_vendor|third[_-]?party|external|extern|deps|node_modules)/")
_STUB = re.compile(r"\.(?:d\.[cm]?ts|pyi)$")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta|rc)(\d*))?\Z")
_STAGES = {"alpha": 0, "beta": 1, "rc": 2, "": 3}
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_](?:[A-Za-z]{2}|[Hh]ans|[Hh]ant))?\Z")
_LANGUAGES = frozenset(
    "ar az bg bn ca cs da de el en eo es et eu fa fi fr gl he hi hr hu id is it ja ka kk ko lt lv mk ml mn ms my nb ne "
    "nl no pl pt ro ru sk sl sq sr sv sw ta te th tl tr uk ur uz vi zh".split()
)
_NAMED_LANGUAGE = re.compile(r"[._-]([a-z]{2}(?:[-_][A-Za-z]{2,4})?)\Z")


class Facts(NamedTuple):
    depth: int  # folders between the file and the package it belongs to, at most DEEPEST
    secondary: tuple[str, ...]  # terms of the word that makes it a test, an example…; empty where none does
    vendored: bool
    stub: bool
    older: bool  # a newer edition of it lies beside it
    translated: bool  # a page in another language than English, beside others
    tiny: bool  # next to nothing is in it


class Layout:
    """The facts about the files of one tree, worked out when they are first asked for."""

    def __init__(self, paths: Sequence[str], roots: Sequence[str] = (), tiny: NDArray[np.bool_] | None = None) -> None:
        """`roots` tell files of several trees apart, one for each path; `tiny` marks those with next to nothing in."""
        self._paths = paths
        self._tiny = tiny
        self._places = [f"{root}\0/{path}" for root, path in zip(roots, paths, strict=True)] if roots else paths
        self._facts: dict[int, Facts] = {}
        self._names: dict[str, set[str]] = {}  # of the files in each folder
        self._folders: dict[str, set[str]] = {}  # below each folder
        for place in self._places:
            folder, _, name = place.rpartition("/")
            if folder not in self._names:
                self._add_folder(folder)
            self._names[folder].add(name)
        self._packages = {folder for folder, names in self._names.items() if any(map(_is_manifest, names))}
        self._packages.update(f"{root}\0" for root in set(roots))
        self._depth_of: dict[str, int] = {"": 0}
        self._older_folders: dict[str, bool] = {"": False}
        self._translated_folders: dict[str, bool] = {"": False}

    def _add_folder(self, folder: str) -> None:
        while folder not in self._names:
            self._names[folder] = set()
            if not folder:
                return
            parent, _, own = folder.rpartition("/")
            self._folders.setdefault(parent, set()).add(own)
            folder = parent

    def facts(self, file: int) -> Facts:
        found = self._facts.get(file)
        if found is None:
            tiny = self._tiny is not None and bool(self._tiny[file])
            found = self._facts[file] = self._facts_of(self._paths[file], self._places[file], tiny)
        return found

    def _facts_of(self, path: str, place: str, tiny: bool) -> Facts:
        folder, _, name = place.rpartition("/")
        told = _path_facts(path)
        return Facts(
            depth=min(self._depth(folder), DEEPEST),
            secondary=told.secondary,
            vendored=told.vendored,
            stub=told.stub,
            older=self._is_older(folder),
            translated=self._is_translated(folder) or self._is_translated_file(folder, name),
            tiny=tiny,
        )

    def _depth(self, folder: str) -> int:
        if folder not in self._depth_of:
            parent = folder.rpartition("/")[0]
            self._depth_of[folder] = 0 if folder in self._packages else self._depth(parent) + 1
        return self._depth_of[folder]

    def _is_older(self, folder: str) -> bool:
        """`v1beta1` beside `v1`, or a folder that repeats the file names of its parent."""
        if folder not in self._older_folders:
            parent, _, own = folder.rpartition("/")
            version = _version(own)
            newer = version and any((_version(other) or version) > version for other in self._folders[parent])
            names, above = self._names[folder], self._names[parent]
            shared = len(names & above)
            repeats = shared >= LEAST_REPEATED and shared >= REPEATED_NAMES * len(names)
            self._older_folders[folder] = bool(newer) or repeats or self._is_older(parent)
        return self._older_folders[folder]

    def _is_translated(self, folder: str) -> bool:
        """`docs/pt` beside `docs/en` and `docs/es`."""
        if folder not in self._translated_folders:
            parent, _, own = folder.rpartition("/")
            foreign = _is_language(own) and not own.lower().startswith("en")
            beside = sum(map(_is_language, self._folders[parent])) >= 3 if foreign else False
            self._translated_folders[folder] = beside or self._is_translated(parent)
        return self._translated_folders[folder]

    def _is_translated_file(self, folder: str, name: str) -> bool:
        """`README.zh-CN.md` beside `README.md`."""
        stem, dot, extension = name.rpartition(".")
        found = _NAMED_LANGUAGE.search(stem)
        if found is None or not _is_language(found[1]) or found[1].lower().startswith("en"):
            return False
        return f"{stem[: found.start()]}{dot}{extension}" in self._names[folder]


class _PathFacts(NamedTuple):
    secondary: tuple[str, ...]
    vendored: bool
    stub: bool


@lru_cache(maxsize=65_536)
def _path_facts(path: str) -> _PathFacts:
    found = _SECONDARY.search(path)
    return _PathFacts(
        secondary=tuple(terms(found[found.lastindex or 0])) or ("tool",) if found else (),
        vendored=_VENDORED.search(path) is not None,
        stub=_STUB.search(path) is not None,
    )


def _is_manifest(name: str) -> bool:
    lowered = name.lower()
    return lowered in MANIFESTS or lowered.endswith(_MANIFEST_ENDINGS)


def _version(folder: str) -> tuple[int, int, int] | None:
    found = _VERSION.match(folder)
    return (int(found[1]), _STAGES[found[2] or ""], int(found[3] or 0)) if found else None


def _is_language(name: str) -> bool:
    return _LANGUAGE.match(name) is not None and name[:2].lower() in _LANGUAGES
