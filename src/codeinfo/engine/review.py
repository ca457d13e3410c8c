"""The review of a change: the working files compared with a revision, and what the project knows about them."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from posixpath import dirname
from typing import Any

from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.engine.code import CodeOperations
from codeinfo.engine.index_sources import walk_settings
from codeinfo.engine.project_knowledge import ProjectKnowledge
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.globs import lies_below
from codeinfo.graph.model import tested_folder
from codeinfo.graph.references import is_registered
from codeinfo.graph.uses import all_references, unpack
from codeinfo.index.pool import ParseTask
from codeinfo.knowledge import change as diff
from codeinfo.knowledge.card import find_registry, path_role
from codeinfo.knowledge.history import History
from codeinfo.knowledge.memory import ID_LENGTH
from codeinfo.knowledge.project import dependencies, is_manifest, program_folders, project_names
from codeinfo.languages import file_kind, is_product, language_of, language_of_text
from codeinfo.languages.model import INLINE_TEST, ancestors, language_family
from codeinfo.model import FileKind, NextStep, ParsedFile, quantity, to_run
from codeinfo.operations.code import DefsRequest, RefsRequest, SymbolInfo, Usage
from codeinfo.operations.knowledge import ChangedFile, ChangedSymbol, Finding, Reviewer, ReviewPacket, ReviewRequest
from codeinfo.ports import FileSymbols
from codeinfo.sources.git import GitFailed, commit_of
from codeinfo.sources.read import decode, skip_by_content
from codeinfo.sources.walk import RevisionFiles
from codeinfo.store.sqlite import SqliteStore
from codeinfo.tokens import split_identifier

MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
MOST_FILES = 200  # compared line by line; larger changes are reviewed in part
LEFT_OUT_SHOWN = 3  # files that the index does not have, shortest paths first: pictures have long ones
MOST_BLAMED = 20
MOST_REVIEWERS = 5  # further ones wrote only a line or two
MOST_SYMBOLS = 40  # symbols whose callers are looked up
CALLERS_SHOWN = 5
MOST_DROPPED = 20  # names whose other calls are looked up
MOST_UNTESTED = 20  # files of code for each with tests, where new code is expected to have some
MOST_RISKY = 30  # files whose history is read
RISK_DAYS = 180
_COMMAND = re.compile(r"(?:^|/)(?:management|[Cc]onsole)/[Cc]ommands/")  # of Django and Laravel
HELPS_TESTS = re.compile(r"(?:\A|/)test(?:ing)?_?(?:support|utils?|helpers?)/")
COMPILED = tuple(".rs .go .java .kt .scala .cs .swift .c .h .cc .cpp .hpp .ts .tsx .dart .zig".split())  # with types


def review_change(
    project: ProjectKnowledge, store: SqliteStore, code: CodeOperations, request: ReviewRequest, now: float
) -> ReviewPacket:
    base = find_base(project.history, request.base)
    change = Change(project, store, code, base)
    symbols, notes = change.symbols(), change.notes
    is_same = not (change.differences or notes)
    names = {symbol.name for symbol in symbols}
    reviewed = {commit[:ID_LENGTH] for commit in project.history.commits_since(base)}
    memories, memory_notes = project.related_memories(" ".join(sorted(names)), change.paths, names, now, reviewed)
    findings, left_out = diff.choose_most_severe(change.findings(now))
    notes += left_out
    if project.history.shallow:
        notes.append("the clone is shallow: reviewers and earlier fixes are not known; `git fetch --unshallow` helps")
    if is_same:
        notes.append(f"nothing differs from {base[:12]}; to compare with another commit, name it as the base")
    if change.has_product and not change.tested_endings:
        notes.append("files like those that changed have no or few tests here, so none is missed")
    # The list is cut: of a large change, scripts, workflows and documents would leave no room for its code.
    product_first = sorted(change.differences, key=lambda d: not is_product(d.path, file_kind(d.path)))
    lists: dict[str, Sequence[Any]] = {
        "files": [ChangedFile(d.path, d.state, len(d.added), len(d.removed)) for d in product_first],
        "symbols": symbols,
        "missing_tests": change.files_without_tests(),
        "patterns": change.unusual_patterns(now),
        "reviewers": change.reviewers(change.code) or change.reviewers(change.differences),
        "findings": findings,
    }
    return ReviewPacket(
        base=base,
        memories=memories,
        totals={name: len(listed) for name, listed in lists.items()},
        notes=(*notes, *memory_notes),
        **{name: tuple(listed[: request.limit]) for name, listed in lists.items()},
    )


# --- the two sides of a change ---------------------------------------------------------------------------------------


def find_base(history: History, revision: str) -> str:
    """The commit to compare with."""
    if not history.known and not history.shallow:
        raise UsageError("there is no history to compare with", "A review needs a git repository")
    first, dots, last = revision.partition("..")
    if dots:
        step = NextStep(f"Check {last.strip('.') or 'its end'} out and run ", to_run("review", first or "REVISION"))
        raise UsageError(f"{revision!r} is a range; a review compares the current files with one revision", step)
    if revision:
        return commit_of(history.root, revision)
    head, point = commit_of(history.root, "HEAD"), history.branch_point(MAIN_BRANCHES)
    return point if point and point != head else head


def compare_with(project: ProjectKnowledge, store: SqliteStore, base: str) -> tuple[list[diff.Revision], list[str]]:
    """Every changed file known to the index, with its definitions, imports and calls on both sides, and notes."""
    listed = store.manifest().keys() - {skip.path for skip in store.counts().skipped}
    changed = sorted(project.history.changed_from(base))
    gone = {path for path in changed[:MOST_FILES] if not os.path.lexists(os.path.join(project.root, path))}
    listed_before = _list_files(project, base) if gone else frozenset()
    present = [path for path in changed[:MOST_FILES] if path in (listed_before if path in gone else listed)]
    committed = project.history.committed(base, present)
    texts: dict[str, tuple[str, str]] = {}
    changes: list[diff.Difference] = []
    for path in present:  # files left out of the index are not reviewed either
        old_text, after = decode(committed[path]) if path in committed else None, project.text(path)
        before = old_text.content if old_text is not None else None
        if path in gone and (before is None or skip_by_content(path, before)):
            continue
        change = diff.compare(path, before, after)
        if change.added or change.removed:
            changes.append(change)
            texts[path] = before or "", after or ""
    old, unread = _parse_versions(project, {path: before for path, (before, _) in texts.items() if before})
    moved = _find_moved(texts)
    revisions = []
    for change in changes:
        path, symbols = change.path, store.symbols(change.path)
        kind, source = file_kind(path), moved.get(path, path)
        was, now = old.get(source, diff.Version(texts[source][0])), diff.Version(texts[path][1])
        if symbols is not None and change.state != "removed":
            now = _make_version(now.text, symbols, symbols.references)
        if path in unread:  # then nothing counts as new or gone
            was = replace(now, text=was.text)
        revisions.append(diff.Revision(change, was, now, kind, is_product(path, kind)))
    notes = [f"the old {path} could not be parsed: what it defined before is unknown" for path in sorted(unread)]
    if left_out := sorted({*changed[:MOST_FILES]}.difference(present), key=len):
        more = f" and {len(left_out) - LEFT_OUT_SHOWN} more" if len(left_out) > LEFT_OUT_SHOWN else ""
        named = ", ".join(left_out[:LEFT_OUT_SHOWN])
        notes.append(f"not compared, since the index leaves them out: {named}{more}")
    if len(changed) > MOST_FILES:
        notes.append(f"{len(changed)} files changed; the first {MOST_FILES} are compared")
    return revisions, notes


def _find_moved(texts: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The new files that continue a removed one: each has most of the other's lines."""
    gone = {path: set(before.splitlines()) for path, (before, after) in texts.items() if before and not after}
    moved = {}
    for path, (before, after) in texts.items():
        lines = set(after.splitlines()) if gone and not before else set()
        source = max(gone, key=lambda removed: len(lines & gone[removed]), default="")
        if lines and 2 * len(lines & gone[source]) >= max(len(lines), len(gone[source])):
            moved[path] = source
    return moved


def _list_files(project: ProjectKnowledge, commit: str) -> Collection[str]:
    """What an index of a commit has, before it looks into the files."""
    settings = walk_settings(project.index.config.index)
    return {file.path for file in RevisionFiles(project.root, commit).walk(settings).files}


def _parse_versions(project: ProjectKnowledge, texts: dict[str, str]) -> tuple[dict[str, diff.Version], set[str]]:
    """Old versions of files, which no index has, and those that the parser, busy or gone, returned as mere text."""
    languages = {path: language_of_text(path, text) for path, text in texts.items()}
    tasks = [ParseTask(path, texts[path], language.name) for path, language in languages.items() if language]
    with project.index.parsers() as pool:
        files = list(pool.run(tasks))
    versions = {file.path: _make_version(texts[file.path], file.parsed, file.references) for file in files}
    unread = {
        file.path for file in files if file.refusal or any("indexed as text" in note for note in file.parsed.notes)
    }
    return versions, unread


def _make_version(text: str, parsed: ParsedFile | FileSymbols, references: bytes) -> diff.Version:
    return diff.Version(text, parsed.definitions, parsed.imports, tuple(all_references(unpack(references)[0])))


class Change:
    """A change, compared file by file, and the project around it."""

    def __init__(self, project: ProjectKnowledge, store: SqliteStore, code: CodeOperations, base: str) -> None:
        self._project, self._store, self._code, self._base = project, store, code, base
        self._open_index = partial(code.open, project.index, store)
        self._revisions, self.notes = compare_with(project, store, base)
        self._used: dict[str, tuple[Usage, ...]] = {}  # each name is looked up once
        self.paths = {revision.path for revision in self._revisions}
        self._names_before = {item.name for revision in self._revisions for item in revision.before.definitions}
        remaining_tests = (item for item in self._revisions if item.is_test and item.change.state != "removed")
        self._changed_tests = {test.path for test in remaining_tests}
        self.differences = [revision.change for revision in self._revisions]
        self.code = [item.change for item in self._revisions if item.kind in (FileKind.CODE, FileKind.TEST)]
        self.has_product = any(revision.is_product for revision in self._revisions)

    @cached_property
    def tested_endings(self) -> set[str]:
        """The endings of changed code whose like the team tests: elsewhere no test is missed."""
        endings = {_ending(revision.path) for revision in self._revisions if revision.is_product}
        tested = set()
        with self._open_index() as index:
            files = index.graph.files.items()
            product = [path for path, facts in files if is_product(path, FileKind(facts.kind))]
            for ending, paths in group_by_key((_ending(path), path) for path in product).items():
                needed = math.ceil(len(paths) / MOST_UNTESTED)
                if ending in endings and len(list(islice(filter(index.tests_of, paths), needed))) == needed:
                    tested.add(ending)
        return tested

    def _needs_tests(self, path: str) -> bool:
        """Whether the team tests code like a file's. What a package ships to help others test is tried out by tests."""
        return _ending(path) in self.tested_endings and HELPS_TESTS.search(path) is None

    @cached_property
    def _manifest_texts(self) -> dict[str, str]:
        return self._project.texts(path for path in self._store.manifest() if is_manifest(path))

    @cached_property
    def _programs(self) -> dict[str, bool]:
        return program_folders(self._store.manifest(), self._manifest_texts)

    def _uses(self, name: str) -> tuple[Usage, ...]:
        """None for a name that nothing can refer to, such as a block of a configuration."""
        if name not in self._used:
            request = RefsRequest(name=name, path=str(self._project.root), limit=200, refresh=False)
            try:
                self._used[name] = self._code.references(request).usages
            except CodeInfoError:
                self._used[name] = ()
        return self._used[name]

    def _definitions(self, name: str) -> tuple[SymbolInfo, ...]:
        request = DefsRequest(name=name, path=str(self._project.root), limit=CALLERS_SHOWN, refresh=False)
        try:
            return self._code.definitions(request).definitions
        except CodeInfoError:
            return ()  # defined elsewhere

    def _is_new(self, qualified: str) -> bool:
        """Whether only the change can use a definition by its name: others mean something else with it."""
        return qualified.rpartition(".")[2] not in self._names_before

    def _is_tested(self, path: str, qualified: str) -> bool:
        uses = () if self._is_new(qualified) else self._uses(f"{path}::{qualified}")
        if any(file_kind(use.file) is FileKind.TEST for use in uses):
            return True
        through_base = self._code.dispatched_callers(self._project.index, self._store, path, qualified)
        return any(file_kind(caller) is FileKind.TEST for caller, _ in through_base)

    def _is_reached(self, path: str, qualified: str) -> bool:
        """Whether a test uses a definition, or may reach what an earlier class overrides, or what only requests,
        pages and the names of commands lead to."""
        is_in_new = self._is_new(qualified.rpartition(".")[0])
        if not is_in_new and self._code.is_override(self._project.index, self._store, path, qualified):
            return True
        from_outside = path_role(path)[1] in ("api", "presentation") or _COMMAND.search(path) is not None
        return self._is_tested(path, qualified) or (from_outside and self._has_changed_test(path))

    def _has_changed_test(self, path: str) -> bool:
        """Whether the change has a test of a file, or of a file that uses it."""
        with self._open_index() as index:
            using = (edge.source for edge in index.graph.users(path))
            behind = (test for user in using for test in index.graph.tests_named_after(user))
            return path in index.graph.files and not self._changed_tests.isdisjoint((*index.tests_of(path), *behind))

    def _uses_outside(self, path: str, qualified: str) -> list[Usage]:
        """What is known by its name only counts if the name has several words and is called as a function:
        `session.delete`, or a field called `content_type`, may mean anything. In Ruby a column of a table looks like
        a call without brackets."""
        name, language = qualified.rpartition(".")[2], language_of(path)
        is_function = any(item.kind in ("function", "method") for item in self._definitions(f"{path}::{qualified}"))
        is_distinctive = is_function and len(split_identifier(name)) > 1
        is_bare = language is not None and language.names.calls == "bare"

        def counts(use: Usage) -> bool:
            is_call = use.edge == "CALLS" and (not is_bare or f"{name}(" in use.preview)
            return use.confidence != "syntactic" or (is_distinctive and is_call)

        return [use for use in self._uses(f"{path}::{qualified}") if use.file not in self.paths and counts(use)]

    def _files_outside(self, path: str, qualified: str, kind: str) -> dict[str, int]:
        """The files outside the change that use a definition, or call a method through its interface, each with the
        first line that does more than import it; tests come last."""
        uses = () if self._is_new(qualified) else self._uses_outside(path, qualified)
        used = [(use.file, use.line) for use in sorted(uses, key=lambda use: use.edge in ("IMPORTS", "EXPORTS"))]
        if kind == "method":
            used += self._code.dispatched_callers(self._project.index, self._store, path, qualified)
        files: dict[str, int] = {}
        for file, line in used:
            files.setdefault(file, line)
        outside = (file for file in files if file not in self.paths)
        return {file: files[file] for file in sorted(outside, key=lambda file: file_kind(file) is FileKind.TEST)}

    def symbols(self) -> list[ChangedSymbol]:
        changed: list[tuple[str, ChangedSymbol]] = []
        for revision in self._revisions:
            if revision.kind is FileKind.CODE:
                tests, symbols_here = diff.find_inline_tests(revision), diff.find_changed_symbols(revision)
                changed += ((revision.path, symbol) for symbol in symbols_here if symbol.name not in tests)
        changed.sort(key=lambda entry: (not diff.is_code_to_run(entry[1]), -entry[1].lines))
        symbols: list[ChangedSymbol] = []
        for path, symbol in changed:
            outside = self._files_outside(path, symbol.name, symbol.kind) if len(symbols) < MOST_SYMBOLS else {}
            places = [f"{file}:{line}" for file, line in outside.items()]
            symbols.append(replace(symbol, callers=tuple(places[:CALLERS_SHOWN])))
        return sorted(symbols, key=lambda symbol: (-len(symbol.callers), -symbol.lines, symbol.place))

    def files_without_tests(self) -> list[str]:
        """Changed code that no test imports, uses, requests or is named after, and that has no tests in its own file or
        in a folder beside it; nor has the change a test of a file that uses it. Templates and other files without
        definitions are covered by the tests of their users, and declarations need none. If the change has tests of the
        package around a file, these may be about it, as those of a page are."""
        test_folders = {dirname(path) for path in self._changed_tests}
        covered = [package for folder in test_folders if (package := tested_folder(folder)) not in ("", folder)]
        changed: dict[str, list[ChangedSymbol]] = {}
        for revision in self._revisions:
            path, after = revision.path, revision.after
            if revision.change.state == "removed" or not revision.is_product or INLINE_TEST.search(after.text):
                continue
            if not self._needs_tests(path) or any(lies_below(path, folder) for folder in covered):
                continue
            symbols = list(filter(diff.is_code_to_run, diff.find_changed_symbols(revision, declared=False)))
            if symbols and any(definition.is_function for definition in after.definitions):
                changed[path] = symbols
        tests = self._code.tests_of(self._project.index, list(changed))
        # A test may get from a helper what it calls, and import nothing of the package.
        return [
            path
            for path, symbols in changed.items()
            if path in tests and not tests[path] and not self._has_changed_test(path)
            if dirname(path) not in self._folders_with_tests
            if not any(self._is_tested(path, symbol.name) for symbol in symbols)
        ]

    @cached_property
    def _folders_with_tests(self) -> set[str]:
        """The folders beside whose files lies a folder of tests, which may be about any of them."""
        with self._open_index() as index:
            homes = {dirname(test) for test in index.graph.tests}
        return {folder for home in homes if (folder := tested_folder(home)) not in ("", home)}

    def unusual_patterns(self, now: float) -> list[str]:
        patterns = self._project.patterns
        texts, near = {}, {}
        for path in (change.path for change in self.differences):
            if (text := self._project.text(path)) is not None:
                texts[path] = text
                if language := language_of(path):
                    near[path] = patterns.around(self._store, now, path, language.name)[0].patterns
        return diff.find_unusual_patterns(patterns.uses_in(texts), self.differences, patterns.detectors, near)

    def reviewers(self, changes: Iterable[diff.Difference]) -> list[Reviewer]:
        if not self._project.history.known:
            return []  # its oldest commit would be blamed for everything before it
        edited = (change for change in changes if change.state != "added")
        largest = sorted(edited, key=lambda change: (-len(change.removed), change.path))[:MOST_BLAMED]
        blames = {}
        for change in largest:
            try:
                lines = change.removed or change.near
                blames[change.path] = self._project.history.blame(change.path, revision=self._base, lines=lines)
            except GitFailed:
                continue  # git cannot blame the file, so it has no author to propose
        return diff.rank_reviewers(blames)[:MOST_REVIEWERS]

    def findings(self, now: float) -> list[Finding]:
        try:
            memories = [item for item in self._project.memories(now) if item.type != "gotcha" or item.source != "git"]
        except UsageError:
            memories = []  # a note reports this already
        tested = [item for item in self._revisions if not item.is_product or self._needs_tests(item.path)]
        return [
            *diff.find_contradictions(self._revisions, memories),
            *self._find_api_changes(),
            *diff.find_changed_expectations(self._revisions),
            *self._find_new_dependencies(),
            *diff.find_untested(tested, self._is_reached),
            *self._find_unregistered(),
            *self._find_unused(),
            *self._find_widely_used(),
            *self._find_risks(),
        ]

    def _find_api_changes(self) -> list[Finding]:
        """Changes to what others can name, with their users in this project. In a program these are all users, and a
        compiler finds them."""
        findings = []
        gone: dict[str, list[diff.ApiChange]] = defaultdict(list)  # by path, what nothing here uses
        for change in diff.find_api_changes(self._revisions):
            path = change.finding.place.rpartition(":")[0]
            users = dict.fromkeys(use.file for use in self._uses_of_api(path, change.name))
            programs = (self._programs[folder] for folder in ancestors(path) if folder in self._programs)
            is_in_program = next(programs, False)
            if is_in_program and (not users or path.endswith(COMPILED)):
                continue
            if change.is_gone and not users:
                gone[path].append(change)
            else:
                also = f"; used outside the change in {_join_paths(users)}" if users else ""
                findings.append(replace(change.finding, message=change.finding.message + also))
        for first, *more in gone.values():
            names = diff.list_names(change.name for change in (first, *more))
            findings.append(replace(first.finding, message=f"{names} are gone") if more else first.finding)
        return findings

    def _uses_of_api(self, path: str, qualified: str) -> list[Usage]:
        """The uses of what others can name. A removed name is looked up alone, if nothing else has it."""
        name = qualified.rpartition(".")[2]
        if not name:
            return []
        if self._definitions(f"{path}::{qualified}"):
            return self._uses_outside(path, qualified)
        return [] if self._definitions(name) else [use for use in self._uses(name) if use.file not in self.paths]

    def _find_new_dependencies(self) -> list[Finding]:
        manifests = self._manifest_texts
        edited = [revision for revision in self._revisions if is_manifest(revision.path)]
        before = dependencies({**manifests, **{revision.path: revision.before.text for revision in edited}})[0]
        after = dependencies({**manifests, **{revision.path: revision.after.text for revision in edited}})[0]
        changed = {revision.path: revision for revision in self._revisions if revision.is_product}
        old_imports = (statement for revision in changed.values() for statement in revision.before.imports)
        used_elsewhere = {diff.package_of(statement.module) for statement in old_imports}
        imported: list[tuple[str, str]] = []
        with self._open_index() as index:
            for path, links in index.graph.links.items():
                external = [link for link in links.unlinked if link.external]
                if path in changed:
                    added = changed[path].change.added
                    imported += [(link.module, f"{path}:{link.line}") for link in external if link.line in added]
                else:
                    used_elsewhere.update(diff.package_of(link.module) for link in external)
            # An import map, as in Rails, gives files of the project the names of packages.
            for path, file in index.graph.files.items():
                if language_family(file.language) == "ecmascript":
                    used_elsewhere.add(diff.package_of(path.rpartition("/")[2].partition(".")[0]))
        packages = set(project_names(manifests).values())
        return diff.find_new_dependencies(before, after, imported, used_elsewhere, packages)

    def _find_unregistered(self) -> list[Finding]:
        """New files that nothing imports although one file imports most of their neighbours."""
        added = [item.path for item in self._revisions if item.is_product and item.change.state == "added"]
        findings = []
        with self._open_index() as index:
            for path in added:
                is_unused = path in index.graph.files and not index.graph.users(path)
                if is_unused and (registry := find_registry(index.graph, path)):
                    where = f"{registry.path} imports {registry.imported} of its {registry.files} neighbours"
                    findings.append(Finding("unused", path, f"nothing imports this new file; {where}"))
        return findings

    def _find_unused(self) -> list[Finding]:
        """Exported functions whose last caller the change removed: dead code, or a hook that is no longer reached."""
        findings = []
        for name, path in list(diff.find_dropped_calls(self._revisions).items())[:MOST_DROPPED]:
            defined = [item for item in self._definitions(name) if is_product(item.path, FileKind.CODE)]
            is_used = any(file_kind(use.file) is not FileKind.TEST for use in self._uses(name))
            if len(defined) != 1 or not defined[0].exported or is_used:
                continue
            (definition,) = defined
            with self._open_index() as index:
                file = index.graph.files.get(definition.path)
                is_hook = file is not None and is_registered(index, file.path, definition.start_line)
            if not is_hook:
                message = f"{definition.qualified} is no longer called anywhere; {path} was the last caller"
                findings.append(Finding("unused", f"{definition.path}:{definition.start_line}", message))
        return findings

    def _find_widely_used(self) -> list[Finding]:
        ranked: dict[tuple[str, str], tuple[int, str, Finding]] = {}  # of several overloads the most changed one
        for revision in self._revisions:
            changed = diff.find_changed_symbols(revision) if revision.is_product else ()
            before = {definition.qualified: definition.signature for definition in revision.before.definitions}
            after = {definition.qualified: definition.signature for definition in revision.after.definitions}
            for symbol in changed[:MOST_SYMBOLS]:
                # What uses a class or a struct does not notice another member.
                is_same_type = symbol.kind in diff.HOLDING and before.get(symbol.name) == after[symbol.name]
                if symbol.name not in before or is_same_type:
                    continue
                outside = self._files_outside(revision.path, symbol.name, symbol.kind)
                files = [path for path in outside if is_product(path, file_kind(path))]
                if len(files) >= diff.WIDELY_USED:
                    direct = {use.file for use in self._uses_outside(revision.path, symbol.name)}
                    through = "" if direct.issuperset(files) else ", or may be called through what it overrides,"
                    where = f"outside the change in {_join_paths(files)}"
                    message = f"{symbol.name} was changed and is used{through} {where}"
                    place = symbol.place.rpartition("-")[0]
                    finding = Finding("callers", place, message)
                    ranked.setdefault((revision.path, symbol.name), (-len(files), place, finding))
        return [finding for *_, finding in sorted(ranked.values(), key=lambda entry: entry[:2])]

    def _find_risks(self) -> list[Finding]:
        if not self._project.history.known:
            return []
        changed = (item for item in self._revisions if item.is_product and (item.code.added or item.code.removed))
        paths = [item.path for item in changed if item.change.state != "added"]
        try:
            subjects = self._project.history.subjects(paths[:MOST_RISKY], self._base, RISK_DAYS)
            return diff.find_risks(subjects, RISK_DAYS)
        except GitFailed:
            return []  # the rest of the review is still valid


def _ending(path: str) -> str:
    return path.rpartition(".")[2]


def _join_paths(paths: Collection[str]) -> str:
    shown = ", ".join(list(paths)[:CALLERS_SHOWN])
    return shown if len(paths) <= CALLERS_SHOWN else f"{shown} and {quantity(len(paths) - CALLERS_SHOWN, 'more file')}"
