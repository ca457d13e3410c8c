"""Named signals of a file besides its keyword score: how its name, folder and definitions relate to the query, and
what the layout of the tree says about it: packages, tests, older copies, translations."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from posixpath import dirname
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codeinfo.languages import (
    is_generated,
    is_migration,
    is_product,
    is_stylesheet,
    kind_of,
    language_of,
    sources_of_header,
    without_package_folders,
)
from codeinfo.model import PLAIN_KIND, FileKind, Intent, symbol_kind
from codeinfo.ports import Extent, StoredSymbol
from codeinfo.search.channels import ANYWHERE, FOLDER, STEM, Floats, Ints, KeywordScores
from codeinfo.search.query import SYNONYMS, Query, Shape
from codeinfo.search.weights import Weights
from codeinfo.tokens import identifier_terms, stem_terms, terms

MANIFESTS = frozenset(
    "package.json pyproject.toml setup.py go.mod cargo.toml pom.xml build.gradle build.gradle.kts composer.json "
    "mix.exs package.swift build.zig build.sbt".split()
)
_MANIFEST_ENDINGS = (".csproj", ".fsproj", ".cabal", ".gemspec", ".rockspec")
DEEPEST = 4  # folders below a package; deeper files are no worse
REPEATED_NAMES = 0.5  # of a folder's names of code that its parent has too: then it is an older or another edition
LEAST_REPEATED = 3  # files
_PACKAGE_FILE = re.compile(r"(?:__init__\.py|index\.\w+|mod\.rs)\Z")  # every package has one
LANGUAGE_FOLDERS = 0.1  # least share of the folders beside a translation: coreutils has a command `tr` among 100

# The matching group is the word that says so; the rest of a file's name is its subject.
_SECONDARY = re.compile(
    r"(?:^|/)(?i:(tests?|specs?|__tests__|testdata|integration[_-]tests?|e2e|fixtures?|mocks?|samples?|demos?|"
    r"bench(?:es|marks?)?|docs?|docs?_src|single_include|amalgamat\w+)|"
    r"_?(examples?)(?:-\w+)?|(?:[\w-]+[.-])?(playgrounds?)|\.?(storybook))(?:/|$)|"
    r"^(t|testing|integration|man|website|documentation[\w-]*|tools?|scripts?|sandbox|project|hack|fuzz(?:ing)?|\.[\w-]+)/|"
    r"(?:^|/)(?:(test)_[^/]*|(conftest)\.py|"
    r"[^/]*[_.-](test|tests|spec|bench|example)\.(?!ex$)[^/.]+|[^/]*\.(story|stories)\.[^/.]+|[^/]*(Test|Tests|Spec|IT)\.[a-z]+)$",
)
_TEST_HELPERS = re.compile(
    r"(?i)(?:/testing|(?:\A|/)(?:\w[\w-]*[_-])?test(?:ing)?[_-]?(?:support|utils?|helpers?|harness))/"
)
_EXAMPLES = re.compile(r"(?i)samples?|demos?|playgrounds?|docs?_src")  # other names for them
_BENCHMARK = re.compile(r"(?i)bench(?:mark)?")  # `benchmarks_test.go`
_TEST_PACKAGE = re.compile(r"(?:\A|/)src/main/\w+(?:/.*)?/tests?/")
_VENDORED = re.compile(r"(?:^|/)(?:vendor|vendored|_vendor|third[_-]?party|external|extern|deps|node_modules)/")
_VERSIONED = re.compile(r"-\d+\.\d+(?:\.\d+)?(?:[.-]\w+)?\.(?:js|css)\Z")  # `jquery-3.5.1.js`
_STUB = re.compile(r"\.(?:d\.[cm]?ts|pyi)$")
CHANGELOG = re.compile(r"(?:(?i:change[-_]?log|changes|release[-_]?notes)|HISTORY|NEWS)(?:[-_.]|\Z)")
# Folders whose files each say what one change does.
_CHANGE_NOTES = re.compile(
    r"(?i)(?:\A|.*/)(?:\.?changesets?|changelog(?:s|\.d)?|changes|news(?:fragments|\.d)|(?:\w+-)*release[-_]?notes)/.*"
)
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta|rc)(\d*))?\Z")
_STAGES = {"alpha": 0, "beta": 1, "rc": 2, "": 3}
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_](?:[A-Za-z]{2}|[Hh]ans|[Hh]ant))?\Z")
_LANGUAGES = frozenset(
    "ar az bg bn ca cs da de el en eo es et eu fa fi fr gl he hi hr hu id is it ja ka kk ko lt lv mk ml mn ms my nb ne "
    "nl no pl pt ro ru sk sl sq sr sv sw ta te th tl tr uk ur uz vi zh".split()
)
_NAMED_LANGUAGE = re.compile(r"[._-]([a-z]{2}(?:[-_][A-Za-z]{2,4})?)\Z")


class Facts(NamedTuple):
    path: str
    depth: int  # folders between the file and its package, at most DEEPEST
    secondary: tuple[str, ...]  # terms of the word that makes it a test, an example…; empty if none does
    test_helper: bool  # part of the product or not, it serves those who write tests
    migration: bool  # it says how a database's schema came about, not how anything works
    vendored: bool  # third-party code, or built from sources elsewhere
    stub: bool
    stylesheet: bool
    header: bool  # it declares what a source beside it does
    older: bool  # a newer edition lies beside it
    translated: bool  # a page in a language other than English, beside others
    changelog: bool  # lists changes: it mentions everything and explains nothing
    tiny: bool  # contains next to nothing


class Layout:
    """The facts about the files of one tree, computed on first use."""

    def __init__(
        self,
        paths: Sequence[str],
        roots: Sequence[str] = (),
        tiny: NDArray[np.bool_] | None = None,
        sizes: Ints | None = None,
    ) -> None:
        """`roots` tell files of several trees apart, one per path; `tiny` marks those with next to nothing in them, and
        `sizes` are their numbers of chunks."""
        self._paths = paths
        self._tiny = tiny
        self._places = [f"{root}\0/{path}" for root, path in zip(roots, paths, strict=True)] if roots else paths
        self._facts: dict[int, Facts] = {}
        self._files: defaultdict[str, list[str]] = defaultdict(list)  # positions in each folder
        for place in self._places:
            self._files[dirname(place)].append(place)
        self._folders: dict[str, set[str]] = {"": set()}  # subfolders of each folder
        for folder in self._files:
            self._add_folder(folder)
        self._sizes = sizes
        self._names: dict[str, frozenset[str]] = {}
        self._depth_of: dict[str, int] = {"": 0} | {f"{root}\0": 0 for root in set(roots)}
        self._older_folders: dict[str, bool] = {"": False}
        self._translated_folders: dict[str, bool] = {"": False}

    def _add_folder(self, folder: str) -> None:
        if folder not in self._folders:
            self._folders[folder] = set()
            parent, _, name = folder.rpartition("/")
            self._add_folder(parent)
            self._folders[parent].add(name)

    def _names_in(self, folder: str) -> frozenset[str]:
        """The names of its files. Few folders are asked for."""
        if folder not in self._names:
            self._names[folder] = frozenset(place.rpartition("/")[2] for place in self._files.get(folder, ()))
        return self._names[folder]

    def facts(self, file: int) -> Facts:
        facts = self._facts.get(file)
        if facts is None:
            tiny = self._tiny is not None and bool(self._tiny[file])
            facts = self._facts[file] = self._facts_of(self._paths[file], self._places[file], tiny)
        return facts

    def _facts_of(self, path: str, place: str, tiny: bool) -> Facts:
        folder, _, name = place.rpartition("/")
        path_folder, slash, _ = path.rpartition("/")
        about_folder = _folder_facts(path_folder + slash)  # shared by many files
        return Facts(
            path,
            depth=min(self._depth(folder), DEEPEST),
            secondary=about_folder.secondary or _secondary_terms(slash + name),
            test_helper=about_folder.test_helper,
            migration=is_migration(path),
            vendored=about_folder.vendored or is_generated(path) or _VERSIONED.search(name) is not None,
            stub=_STUB.search(name) is not None,
            stylesheet=is_stylesheet(name),
            header=self._is_header(folder, name),
            older=self._is_older(folder),
            translated=self._is_translated(folder) or self._is_translated_file(folder, name),
            changelog=lists_changes(path),
            tiny=tiny,
        )

    def _depth(self, folder: str) -> int:
        if folder not in self._depth_of:
            parent = dirname(folder)
            is_package = any(map(_is_manifest, self._names_in(folder)))
            self._depth_of[folder] = 0 if is_package else self._depth(parent) + 1
        return self._depth_of[folder]

    def _is_header(self, folder: str, name: str) -> bool:
        """Beside a larger source of its name, since headers of C++ may contain all there is."""
        beside = self._names_in(folder).intersection(sources_of_header(name))
        prefix = f"{folder}/" if folder else ""
        return any(self._size_of(prefix + other) > self._size_of(prefix + name) for other in beside)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {place: number for number, place in enumerate(self._places)}

    def _size_of(self, place: str) -> int:
        return 0 if self._sizes is None else int(self._sizes[self._numbers[place]])

    def _is_older(self, folder: str) -> bool:
        """`v1beta1` beside `v1`, or a folder that repeats the file names of its parent."""
        if folder not in self._older_folders:
            parent, _, name = folder.rpartition("/")
            version = _version(name)
            newer = version and any((_version(other) or version) > version for other in self._folders[parent])
            names = self._names_in(folder)
            shared = names & self._names_in(parent)
            if len(shared) >= LEAST_REPEATED:  # of code: every package has a manifest and a README
                names, shared = (frozenset(filter(_names_edition, some)) for some in (names, shared))
            repeats = len(shared) >= LEAST_REPEATED and len(shared) >= REPEATED_NAMES * len(names)
            self._older_folders[folder] = bool(newer) or repeats or self._is_older(parent)
        return self._older_folders[folder]

    def _is_translated(self, folder: str) -> bool:
        """`docs/pt` beside `docs/en` and `docs/es`; beside `en`, any other code is taken for a language."""
        if folder not in self._translated_folders:
            parent, _, name = folder.rpartition("/")
            siblings = self._folders[parent]
            foreign = _is_language(name) or ("en" in siblings and _LANGUAGE.match(name) is not None)
            languages = sum(map(_is_language, siblings)) if foreign and not name.lower().startswith("en") else 0
            beside = languages >= max(3, LANGUAGE_FOLDERS * len(siblings))
            self._translated_folders[folder] = beside or self._is_translated(parent)
        return self._translated_folders[folder]

    def _is_translated_file(self, folder: str, name: str) -> bool:
        """`README.zh-CN.md` beside `README.md`."""
        stem, dot, extension = name.rpartition(".")
        match = _NAMED_LANGUAGE.search(stem)
        if match is None or not _is_language(match[1]) or match[1].lower().startswith("en"):
            return False
        return f"{stem[: match.start()]}{dot}{extension}" in self._names_in(folder)


class _FolderFacts(NamedTuple):
    secondary: tuple[str, ...]  # the terms that make its files tests, examples…
    test_helper: bool
    vendored: bool


@lru_cache(maxsize=65_536)
def _folder_facts(folder: str) -> _FolderFacts:
    distinctive = without_package_folders(folder)  # without `com/example/demo`, but a package called tests is one
    secondary = _secondary_terms(distinctive) or (("test",) if _TEST_PACKAGE.search(folder) else ())
    is_helper, is_vendored = (pattern.search(distinctive) is not None for pattern in (_TEST_HELPERS, _VENDORED))
    return _FolderFacts(secondary, is_helper, is_vendored)


def _secondary_terms(path: str) -> tuple[str, ...]:
    match = _SECONDARY.search(path)
    if match is None:
        return ()
    word = match[match.lastindex or 0]
    also = "example" if _EXAMPLES.fullmatch(word) else " ".join(_BENCHMARK.findall(path))
    return (*terms(word), *terms(also)) or ("tool",)


def _names_edition(name: str) -> bool:
    """Whether a file of code that is called the same in two folders may be the same."""
    return _PACKAGE_FILE.match(name) is None and is_product(name, kind_of(name, language_of(name)))


def _is_manifest(name: str) -> bool:
    lowered = name.lower()
    return lowered in MANIFESTS or lowered.endswith(_MANIFEST_ENDINGS)


def _version(folder: str) -> tuple[int, int, int] | None:
    match = _VERSION.match(folder)
    return (int(match[1]), _STAGES[match[2] or ""], int(match[3] or 0)) if match else None


def _is_language(name: str) -> bool:
    return _LANGUAGE.match(name) is not None and name[:2].lower() in _LANGUAGES


LATER_FRAME = 0.3  # how much the first path of a text loses relative to the last
ASKED_VALUE = 0.11  # a constant or a field: `response` may as well be a file; a member of another owner
ASKED_MEMBER = 2.0  # `Session.send` itself, where a type of any name is 1
NESTED = 0.25  # how much less a set-up file counts per folder: that of the project before those of its packages
LONGEST_SIGNATURE = 3  # lines: a longer function does something
IN_FOLDER = 0.5  # of a mention: that of a folder, as in "pkg/apis/core: …"


def coverage(keyword: KeywordScores, field: int, files: int) -> Floats:
    """Share of the query's weight, by rarity, that a file has in one field: its name, its folders, its definitions…"""
    total = np.zeros(files)
    for uses, share in zip(keyword.uses.values(), keyword.shares, strict=True):
        total[uses.files_with(field)] += share
    return total.astype(np.float32)


def stem_precision(keyword: KeywordScores, paths: Sequence[str], sizes: NDArray[np.int32]) -> Floats:
    """Share of the file's name that the query has: `background.py` for "background tasks" is all of it.

    `sizes` caches how many terms each name has, 0 until computed.
    """
    matched = np.zeros(len(paths), np.int32)
    for uses in keyword.uses.values():
        matched[uses.files_with(STEM)] += 1
    for file in ((matched > 0) & (sizes == 0)).nonzero()[0].tolist():
        sizes[file] = len(stem_terms(paths[file]))
    return (matched / np.maximum(sizes, 1)).astype(np.float32)


def both(first: Floats, second: Floats) -> Floats:
    """The harmonic mean: nearly as low as the lower of the two."""
    mean: Floats = 2 * first * second / np.maximum(first + second, np.float32(1e-9))
    return mean


def definition_scores(query: Query, definitions: Iterable[StoredSymbol], paths: Sequence[str]) -> tuple[Floats, Floats]:
    """(exact, named): files that define the bare name asked for, and files that define a name a sentence mentions.

    A type counts fully, functions less, other values hardly, a member asked for with its owner most; a name that a
    sentence mentions says little if many files define it.
    """
    exact, mentioned = np.zeros(len(paths), np.float32), np.zeros(len(paths), np.float32)
    by_name: dict[str, dict[int, float]] = {}
    values_of: dict[tuple[str, str], tuple[dict[int, float], float]] = {}  # a common name has thousands of definitions
    names_owner, lowered = query.names_owner, [name.lower() for name in query.names]
    for symbol in definitions:
        spelled = symbol.name, symbol.kind
        if spelled not in values_of:
            kind = symbol_kind(symbol.kind)
            is_value = kind is PLAIN_KIND and query.bare_name
            value = 1.0 if kind.ranks_as_type else ASKED_VALUE if is_value else 0.7
            if symbol.name not in query.names:
                value *= 0.5  # same letters, different case: `session` for `Session`
            values_of[spelled] = by_name.setdefault(symbol.name.lower(), {}), value
        places, value = values_of[spelled]
        if names_owner and query.asks_for(symbol.qualified):
            value = ASKED_MEMBER
        elif names_owner and symbol.name.lower() == lowered[0] and not is_definition_of(query, symbol, paths):
            value *= ASKED_VALUE
        if value > places.get(symbol.file, 0.0):
            places[symbol.file] = value
    for key in sorted(by_name):  # sums must not depend on the order of discovery
        places = by_name[key]
        files, values = np.array(list(places), np.intp), np.array(list(places.values()))
        if query.bare_name:
            exact[files] = np.maximum(exact[files], values if key == lowered[0] else 0.5 * values)
        else:
            mentioned[files] += values / np.sqrt(len(places))
    return exact, mentioned


def is_definition_of(query: Query, symbol: StoredSymbol, paths: Sequence[str]) -> bool:
    """Whether a dotted name is this definition, by its owner or its module; otherwise it may be a key in a string."""
    if not query.names_owner or symbol.name != query.names[0]:
        return False
    return query.asks_for(symbol.qualified) or query.names[-1].lower() in re.split("[/.]", paths[symbol.file].lower())


def title_coverage(query: Query, keyword: KeywordScores, files: int) -> Floats:
    """Share of the distinct words of the first line that a file has, each with equal weight. For a question a
    synonym counts; the verbs of a task ("resolve", "delete") say what was done rather than what the code does."""
    synonyms = SYNONYMS if query.shape is Shape.QUESTION else {}
    return _share_of_sets(keyword, [{term, *synonyms.get(term, ())} for term in query.title], files)


def scope_match(query: Query, keyword: KeywordScores, files: int) -> Floats:
    """Share of the scope a task opens with ("http client: …") that is found in a file's path."""
    return _share_of_sets(keyword, [{term} for term in query.scope], files, STEM | FOLDER)


def _share_of_sets(keyword: KeywordScores, term_sets: Sequence[set[str]], files: int, fields: int = ANYWHERE) -> Floats:
    """Share of those sets of terms that occur in this index of which each file has a term in one of these fields."""
    occurring = [terms & keyword.uses.keys() for terms in term_sets if not terms.isdisjoint(keyword.uses)]
    shares = np.zeros(files, np.float32)
    for terms_here in occurring:
        has = np.zeros(files, bool)
        for term in terms_here:
            has[keyword.uses[term].files_with(fields)] = True
        shares += has
    return shares / np.float32(max(len(occurring), 1))


def named_in_text(query: Query, keyword: KeywordScores, files: int) -> Floats:
    """Share of the query, by rarity, made of code names that a file has: `readHeader`, `max_age`."""
    names = {identifier_terms(name)[-1] for name in query.names if identifier_terms(name)}
    total = np.zeros(files)
    for (term, uses), share in zip(keyword.uses.items(), keyword.shares, strict=True):
        if term in names:
            total[uses.files] += share
    return total.astype(np.float32)


def files_by_name(paths: Sequence[str]) -> dict[str, list[int]]:
    """The positions of the files with each name and, as "/src/app/", directly in each folder, in lower case."""
    positions: dict[str, list[int]] = {}
    for file, path in enumerate(paths):
        folder, slash, name = path.lower().rpartition("/")
        positions.setdefault(name, []).append(file)
        positions.setdefault(f"/{folder}{slash}", []).append(file)
    return positions


def project_files(query: Query, paths: Sequence[str]) -> Floats:
    """1 for a file at the top that sets up what is asked about, less for one in folders below."""
    result = np.zeros(len(paths), np.float32)
    if query.project_files:
        for file, path in enumerate(paths):
            if query.is_set_up_by(path):
                result[file] = 1 / (1 + NESTED * path.count("/"))
    return result


def path_mentions(query: Query, paths: Sequence[str], by_name: Mapping[str, Sequence[int]]) -> Floats:
    """Files that the text names: by file name, by path, by a longer path that ends in theirs, or by one of their
    folders. A name that many files have says little about each.

    A traceback says `/usr/lib/python3/site-packages/pkg/a.py` where the index has `src/pkg/a.py`: what counts is how
    much of the two they share from the end. Of several frames the later ones are nearer to the fault.
    """
    result = np.zeros(len(paths), np.float32)
    for place, mention in enumerate(map(str.lower, query.paths)):
        parts = mention.split("/")
        shared = {file: _compare_tails(paths[file].lower().split("/"), parts) for file in by_name.get(parts[-1], ())}
        rivals = list(shared.values()).count(max(shared.values(), default=0))
        weight = (1 - LATER_FRAME * (1 - (place + 1) / len(query.paths))) / math.sqrt(max(rivals, 1))
        for file, share in shared.items():
            result[file] = max(result[file], weight * share)
        if len(parts) > 1 and parts[-1] not in by_name:
            below = f"/{mention}/"
            for folder in (name for name in by_name if below in name):
                result[by_name[folder]] = np.maximum(result[by_name[folder]], IN_FOLDER)
    return result


def _compare_tails(path_parts: Sequence[str], mentioned: Sequence[str]) -> float:
    """1 if the path has everything mentioned, in this order: `milli/write.rs` is `crates/milli/src/write.rs`; otherwise
    1/2, 2/3, 3/4… by how many parts the two share from the end."""
    remaining = iter(path_parts)
    if all(part in remaining for part in mentioned):
        return 1.0
    shared = 0
    for part, mentioned_part in zip(reversed(path_parts), reversed(mentioned), strict=False):
        if part != mentioned_part:
            break
        shared += 1
    return shared / (shared + 1)


def lists_changes(path: str) -> bool:
    """Whether a document is a changelog or a part of one."""
    return CHANGELOG.match(path.rpartition("/")[2]) is not None or _CHANGE_NOTES.match(path) is not None


def multipliers(query: Query, facts: Facts, kind: str, w: Weights) -> dict[str, float]:
    """Named factors from a file's location and kind; each is bounded."""
    if query.is_set_up_by(facts.path):
        return {}
    factors = {"depth": math.exp(-w.depth * facts.depth)}
    if kind == FileKind.DOCS and query.asks_usage and not facts.changelog:
        factors["guide"] = w.guide
    elif kind == FileKind.DOCS and not query.about_docs:
        factors["docs"] = w.docs
    if kind == FileKind.CONFIG and query.intent is not Intent.CONFIG:
        factors["config"] = w.config
    # A query about mocks, examples or benchmarks wants them; one about retries does not want `retry_test.go`.
    if (facts.secondary or kind == FileKind.TEST) and kind != FileKind.DOCS:
        if query.about_tests and not query.wants_tests:
            factors["test_topic"] = w.test_topic
        elif query.about_tests or any(term in query.title for term in facts.secondary):
            factors["asked_secondary"] = w.asked_secondary
        else:
            factors["secondary"] = w.secondary
    elif facts.test_helper and not query.about_tests and kind != FileKind.DOCS:
        factors["secondary"] = w.secondary
    elif query.wants_tests:
        factors["no_test"] = w.no_test
    applies = {
        "migration": facts.migration and not query.about_schema,
        "stylesheet": facts.stylesheet and not query.about_looks,
        "vendored": facts.vendored,
        "type_stub": facts.stub,
        "header": facts.header,
        "older_copy": facts.older and not query.names_version,
        "translation": facts.translated and query.is_english,
        "tiny": facts.tiny,
    }
    return factors | {name: getattr(w, name) for name, is_true in applies.items() if is_true}


def only_declares(definitions: Sequence[Extent]) -> bool:
    """Whether they are types that do nothing: interfaces, settings, records."""
    has_types = any(symbol_kind(definition.kind).ranks_as_type for definition in definitions)
    return has_types and all(map(_is_declaration, definitions, [*definitions[1:], None]))


def _is_declaration(definition: Extent, following: Extent | None) -> bool:
    kind, lines = symbol_kind(definition.kind), definition.end_line - definition.start_line + 1
    if definition.kind == "type":  # another name for a type, however long
        return True
    if kind.ranks_as_type:  # a body without members does something, as that of a class of Ruby may
        return lines <= LONGEST_SIGNATURE or (following is not None and following.start_line <= definition.end_line)
    return lines <= (LONGEST_SIGNATURE if kind.is_callable else 1)
