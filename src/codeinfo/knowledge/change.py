"""The review of a change: what changed, who calls it, and what is wrong with it."""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.cache import group_by_key, reachable
from codeinfo.graph.references import CONSTRUCTORS, INTERFACES
from codeinfo.knowledge.detectors import Detector, without_comments
from codeinfo.knowledge.history import BlameLine
from codeinfo.knowledge.memory import Memory, is_bot, is_in_scope
from codeinfo.knowledge.patterns import CONFLICT_ABOVE, key_of
from codeinfo.languages import has_outline, language_of, may_be_test
from codeinfo.languages.manifests import kind_of_manifest
from codeinfo.languages.model import is_marked_test, may_have_inline_tests
from codeinfo.model import Definition, FileKind, Import, Reference, split_lines
from codeinfo.operations.knowledge import ChangedSymbol, Dependency, Finding, PatternUse, Reviewer

PRECISELY_COMPARED = 2_000  # lines; among more of them, frequent ones such as `}` are no anchors: it would take seconds
MOST_NAMED = 6  # functions in one finding
RENAMED_AT = 0.8  # share of text that a removed and a new function have in common…
RENAMED_CHARS = 4000  # …of this many characters: comparing more takes long
NEAR_LINES = 10  # above and below what was added
MOST_RENAMED = 20  # new functions compared with a removed one, the nearest in the file


class Difference(Struct, frozen=True):
    """One file before and after; lines are 1-based."""

    path: str
    state: str
    added: frozenset[int]  # lines of the new version
    removed: frozenset[int]  # lines of the old version
    dropped: frozenset[int]  # the removed lines that nothing replaces
    near: frozenset[int]  # lines of the old version around those added


def compare(path: str, before: str | None, after: str | None) -> Difference:
    state = "added" if before is None else "removed" if after is None else "changed"
    old, new = (list(enumerate(split_lines(text or ""), 1)) for text in (before, after))
    return _compare(path, state, old, new)


def _compare(path: str, state: str, old: Sequence[tuple[int, str]], new: Sequence[tuple[int, str]]) -> Difference:
    """By lines with their numbers: some may have been left out."""
    added, removed, dropped, near = (set[int]() for _ in range(4))
    numbers = [[number for number, _ in side] for side in (old, new)]
    texts = [[text for _, text in side] for side in (old, new)]
    same = _count_alike(*texts)
    rest = _count_alike(*(text[same:][::-1] for text in texts))
    left, right = (text[same : len(text) - rest] for text in texts)
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=max(len(left), len(right)) > PRECISELY_COMPARED)
    for tag, *bounds in matcher.get_opcodes():
        if tag != "equal":
            start, end, new_start, new_end = (at + same for at in bounds)
            removed.update(numbers[0][start:end])
            added.update(numbers[1][new_start:new_end])
            dropped.update(numbers[0][start:end] if new_start == new_end else ())
            near.update(numbers[0][max(start - NEAR_LINES, 0) : start + NEAR_LINES])
    return Difference(path, state, frozenset(added), frozenset(removed), frozenset(dropped), frozenset(near))


def _count_alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines are the same from the start."""
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


# They surround definitions, but nobody names them: what stands between the definitions in them is attributes.
_AROUND = frozenset({"impl", "extension", "package", "namespace"})
# They only declare something: a test has nothing to run.
_DECLARING = frozenset({"module", "interface", "type", "property", "field", "constant", "enum_member"})


def find_changed_symbols(revision: Revision, *, declared: bool = True) -> list[ChangedSymbol]:
    """The innermost definitions with changed lines, those with the most first. Lines that nothing replaces changed
    what they were in: the definition around them or, if it went with them, its owner. Unless `declared`, without the
    functions that an interface only declares."""
    change, before, after = revision.code, revision.before.definitions, revision.after.definitions
    positions = {definition.qualified: at for at, definition in enumerate(after)}
    inner = [_innermost(after, line) for line in _below_decorators(revision.after.lines, change.added)]
    for at in (_innermost(before, line) for line in _below_decorators(revision.before.lines, change.dropped)):
        if at is not None:
            inner.append(positions.get(before[at].qualified, positions.get(before[at].owner)))
    counts = Counter(at for at in inner if at is not None)
    symbols = []
    for at, lines in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        definition = after[at]
        if definition.kind not in _AROUND and (declared or not _is_declared(definition, revision.after)):
            place = f"{change.path}:{definition.start_line}-{definition.end_line}"
            symbols.append(ChangedSymbol(definition.qualified, definition.kind, place, lines))
    return symbols


def _below_decorators(texts: Sequence[str], lines: Iterable[int]) -> Iterator[int]:
    """Instead of the line of a decorator, that of what it decorates."""
    for line in lines:
        while line < len(texts) and texts[line - 1].lstrip().startswith("@"):
            line += 1
        yield line


def _is_declared(definition: Definition, version: Version) -> bool:
    """Whether it is a function of an interface without a body, for its implementations to write."""
    kinds = {owner.qualified: owner.kind for owner in version.definitions}
    is_of_interface = definition.is_function and kinds.get(definition.owner, "") in INTERFACES
    return is_of_interface and re.search(r"[{=]", version.text_of(definition)) is None


def _innermost(definitions: Sequence[Definition], line: int) -> int | None:
    """The position of the shortest definition around a line."""
    around = [at for at, item in enumerate(definitions) if item.start_line <= line <= item.end_line]
    return min(around, key=lambda at: definitions[at].end_line - definitions[at].start_line, default=None)


def is_code_to_run(symbol: ChangedSymbol) -> bool:
    return symbol.kind not in _DECLARING


# They review nothing. `Claude`, `Devin` and `Jules` alone may be people.
_AGENT = re.compile(r"(?:github )?copilot|(?:openai )?codex|claude code|cursor agent|devin ai", re.IGNORECASE)


def rank_reviewers(blames: Mapping[str, Sequence[BlameLine]]) -> list[Reviewer]:
    """Who wrote these lines of each file, without bots and agents. Names that differ in case or punctuation only are
    one person."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    files: dict[str, set[str]] = defaultdict(set)
    for path, blame in blames.items():
        for author in (line.author for line in blame):
            if is_bot(author) or _AGENT.fullmatch(author):
                continue
            person = re.sub(r"[^\w ]", "", author).lower()
            spellings[person][author] += 1
            files[person].add(path)
    people = [
        Reviewer(names.most_common(1)[0][0], names.total(), len(files[person])) for person, names in spellings.items()
    ]
    return sorted(people, key=lambda reviewer: (-reviewer.lines, reviewer.name))


def find_unusual_patterns(
    uses: Mapping[str, Sequence[tuple[int, int]]],
    changes: Sequence[Difference],
    detectors: Sequence[Detector],
    patterns: Mapping[str, Collection[PatternUse]],
) -> list[str]:
    """New lines that use what the team avoids, or a rare or discouraged pattern where another is clearly preferred;
    `patterns` are those of each file's area. Moving with the language is never reported."""
    messages = []
    for change in changes:
        area_patterns = patterns.get(change.path, ())
        by_key = {key_of(pattern): pattern for pattern in area_patterns}
        preferred = {(p.language, p.question): p for p in area_patterns if p.guidance in ("use", "prefer")}
        first_lines = {at: line for at, line in reversed(uses.get(change.path, ())) if line in change.added}
        for position, line in sorted(first_lines.items()):
            detector = detectors[position]
            pattern = by_key.get(key_of(detector))
            better = preferred.get((detector.language, detector.question))
            if pattern is None or pattern.guidance in ("use", "prefer"):
                continue
            is_worse = detector.poor or (pattern.adoption <= CONFLICT_ABOVE and not detector.modern)
            if pattern.guidance == "avoid" or (better is not None and is_worse):
                instead = f"; {better.name} is at {better.adoption} %" if better else ""
                state = "declining" if pattern.guidance == "avoid" else f"at {pattern.adoption} %"
                messages.append(f"{change.path}:{line}: {pattern.name} ({pattern.question}) is {state}{instead}")
    return messages


# --- findings ------------------------------------------------------------------------------------------------------

KINDS = ("contradiction", "api", "expectation", "dependency", "untested", "unused", "callers", "risk")  # by severity
MOST_OF_A_KIND = 10
WIDELY_USED = 5  # files outside the change
SIGNATURE_CHARS = 120
_MAY_BE_CUT = 180  # characters of a signature: parsing keeps the first 200, without open signs at their end
_DECLARATIONS = (".d.ts", ".d.cts", ".d.mts")  # a package's interface to its users, though it ships no code
_INTERNAL = re.compile(r"(?:\A|/)(?:_(?!_)|internal/)")  # modules marked as internal by their name
_API_KINDS = frozenset("class interface struct enum trait type function method constant".split())


class Version(Struct, frozen=True, dict=True):
    """A parsed file on one side of a change; empty if it does not exist."""

    text: str = ""
    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    @property
    def names(self) -> set[str]:
        return {definition.qualified for definition in self.definitions}

    def text_of(self, definition: Definition) -> str:
        return "\n".join(self.lines[definition.start_line - 1 : definition.end_line])


_RELEASE = re.compile(r"([\"'])v?\d++\.\d++\.\d++[\w.+-]*+\1")


class Revision(Struct, frozen=True, dict=True):
    """One changed file with both sides."""

    change: Difference
    before: Version
    after: Version
    kind: FileKind = FileKind.CODE
    is_product: bool = False

    @property
    def path(self) -> str:
        return self.change.path

    @property
    def is_test(self) -> bool:
        return self.kind is FileKind.TEST

    @cached_property
    def code(self) -> Difference:
        """The change without what no program sees: comments, documentation, blank lines and, outside of tests, numbers
        of releases."""
        old, new = self.code_lines(self.before), self.code_lines(self.after)
        return _compare(self.path, self.change.state, old, new)

    def code_lines(self, version: Version) -> list[tuple[int, str]]:
        lines = without_comments(version.text, self.language)
        if not self.is_test:
            lines = [_RELEASE.sub("", line) for line in lines]
        return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]

    @property
    def language(self) -> str:
        language = language_of(self.path)
        return language.name if language else ""

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"

    def complete(self, definition: Definition, version: Version) -> Definition:
        """A definition with all of its parameters, but without what follows them."""
        lines = without_comments(version.text, self.language)[definition.start_line - 1 : definition.end_line]
        text, name = " ".join(" ".join(lines).split()), f"{definition.name}("
        rest = text.partition(name)[2]
        depth = 1
        for at, sign in enumerate(rest):
            depth += (sign in "([{") - (sign in ")]}")
            if not depth:
                before = definition.signature.partition(name)[0]
                return replace(definition, signature=f"{before}{name}{rest[:at].rstrip(', ')})")
        return definition

    def added_lines(self) -> list[tuple[int, str]]:
        return [(number, line) for number, line in enumerate(self.after.lines, 1) if number in self.change.added]


class ApiChange(Struct, frozen=True):
    finding: Finding
    name: str = ""  # qualified, of a definition
    is_gone: bool = False


def find_api_changes(revisions: Sequence[Revision]) -> list[ApiChange]:
    """Exported definitions that are gone or are now called differently, and exports that are gone. What only moved to
    another changed file is not gone."""
    names_after = {name for revision in revisions for name in revision.after.names}
    changes: list[ApiChange] = []
    for revision in revisions:
        if _INTERNAL.search(revision.path) or not (revision.is_product or revision.path.endswith(_DECLARATIONS)):
            continue
        after = group_by_key((new.qualified, new) for new in revision.after.definitions)
        counts = Counter(old.qualified for old in revision.before.definitions)
        for old in _list_public(revision.before.definitions):
            same_name = after.get(old.qualified, [])
            if old.owner in counts and old.owner not in after:
                continue  # gone with its container
            # An implementation must accept what the interface does; callers may leave out what has a default.
            is_implemented = any(owner.kind in INTERFACES for owner in after.get(old.owner, ()))
            is_alike = str.__eq__ if is_implemented else _takes_the_same
            if not same_name and old.qualified not in names_after:
                message = f"{old.qualified} ({old.kind}) is gone: {_short(old.signature)}"
                finding = Finding("api", revision.at(old.start_line), message)
                changes.append(ApiChange(finding, old.qualified, is_gone=True))
            elif has_outline(revision.language):
                continue  # its signature is a line, which may have more than the head
            elif old.kind != "constant" and len(same_name) == 1 == counts[old.qualified]:
                (new,) = same_name
                if max(len(old.signature), len(new.signature)) > _MAY_BE_CUT:
                    old, new = revision.complete(old, revision.before), revision.complete(new, revision.after)
                if not is_alike(_shape(old, revision.path), _shape(new, revision.path)):
                    was, now = _shorten_both(old.signature, new.signature)
                    message = f"{old.qualified} was {was}, is {now}"
                    changes.append(ApiChange(Finding("api", revision.at(new.start_line), message), old.qualified))
        exports = {(statement.module, statement.names) for statement in revision.after.imports if statement.reexport}
        for statement in revision.before.imports:
            if statement.reexport and (statement.module, statement.names) not in exports:
                names = ", ".join(statement.names) or "everything"
                message = f"{names} of {statement.module} is no longer exported from here"
                changes.append(ApiChange(Finding("api", revision.at(statement.line), message)))
    return changes


def _list_public(definitions: Sequence[Definition]) -> list[Definition]:
    """What others can name: exported, and not inside a function or hidden type."""
    by_name = {definition.qualified: definition for definition in definitions}
    public = []
    for definition in definitions:
        is_hidden = _HIDDEN.search(definition.signature.partition(definition.name)[0]) is not None
        owner = by_name.get(definition.owner)
        is_within_reach = owner is None or (owner.exported and not owner.is_function)
        if definition.exported and definition.kind in _API_KINDS and is_within_reach and not is_hidden:
            public.append(definition)
    return public


def _shape(definition: Definition, path: str) -> str:
    """A signature without what makes no difference to callers: whitespace, trailing separators, `override`, `@Nullable`
    and the like, `async` if the task or promise is written as the result, what a type derives from, and what a function
    takes out of an object whose type is written."""
    text = _without_bases(definition.signature, path) if definition.kind in HOLDING else definition.signature
    text = _ASYNC.sub("", text) if _PROMISED.search(text) else text
    text = _UNPACKED.sub("", re.sub(r"\s+", "", _NULLNESS.sub("", _OVERRIDES.sub("", text))))
    return re.sub(r"[,;](?=[)\]}])", "", text)


def _without_bases(text: str, path: str) -> str:
    """The head of a type up to what it derives from, which in Python stands in brackets."""
    if path.endswith(".py"):
        return text.partition("(")[0]
    outside, count = text, 1
    while count:
        outside, count = re.subn(r"\([^()]*\)|<[^<>]*>", lambda match: " " * len(match[0]), outside)
    bases = _BASES.search(outside)
    return text[: bases.start()] if bases else text


def _takes_the_same(before: str, now: str) -> bool:
    """Whether existing calls stay valid: the only differences are optional parameters at the end, or before those that
    may have any name."""
    start = next((at for at, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), len(before))
    if not before[start:].startswith((")", "**")) or not now.endswith(before[start:]):
        return before == now
    added = now[start : len(now) - len(before) + start].strip(",")
    return not added.startswith(")") and all(part == "*" or _OPTIONAL.search(part) for part in _PARAMETERS.split(added))


_PARAMETERS = re.compile(r",(?![^\[({<]*[\])}>])")  # at a comma outside brackets
_OPTIONAL = re.compile(r"(?<![=!<])=(?![=>])|\w\?:")  # also behind a type: `Set<Version>=`
_ASYNC = re.compile(r"\basync\b")
_PROMISED = re.compile(r"\basync\s+(?:Value)?Task\b|\)\s*:\s*Promise<")
_OVERRIDES = re.compile(r"\boverride\b|@Override\b")
_NULLNESS = re.compile(r"@(?:\w+\.)*(?:Nullable|Non[Nn]ull|NotNull|CheckForNull)\b")
_UNPACKED = re.compile(r"(?<=[(,])\{[^{}]*\}(?=:)")  # `({ a, b }: Props)`
_HIDDEN = re.compile(r"\bpub\(|\binternal\s")  # visible within its own crate or module only
HOLDING = frozenset("class interface struct enum trait object".split())  # members, and derive from others
_BASES = re.compile(r"(?<!:):(?!:)|\b(?:extends|implements|where)\b|\s<\s")


def _short(signature: str) -> str:
    text = " ".join(signature.split()).rstrip(";")
    return text if len(text) <= SIGNATURE_CHARS else text[:SIGNATURE_CHARS] + "…"


def _shorten_both(before: str, now: str) -> tuple[str, str]:
    """Two signatures, without what they have in common if they would be the same where they are cut."""
    shorter = _short(before), _short(now)
    if shorter[0] != shorter[1]:
        return shorter
    texts = [" ".join(signature.split()) for signature in (before, now)]
    start = texts[0].rfind(",", 0, _count_alike(*texts)) + 1
    return f"…{_short(texts[0][start:])}", f"…{_short(texts[1][start:])}"


_EXPECTATION = re.compile(
    r"\b(?:assert\w*|expect\w*|should\w*|require\.\w+|verify\w*|t\.(?:Error|Fatal)\w*|pytest\.raises|to(?:Be|Equal)\w*)\b"
)


def _is_expectation(line: str) -> bool:
    """Whether a line checks something. Names in backticks, as tests in Kotlin have them, only sound like it."""
    return _EXPECTATION.search(re.sub(r"`[^`]*`", "", line)) is not None


_FAILING = re.compile(r"\bt\.(?:Error|Fatal|Log)\w*\(")  # in Go: its text only says what the condition before it means
_LITERAL = re.compile(r"(?<!\\)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|\b\d+(?:\.\d+)?\b")
_CALLED = re.compile(rf"{_LITERAL.pattern}|(?<!\w)([^\W\d]\w*+)(?=\()")


_MARK_LINES = 4  # around the start of a test


def _is_test_case(function: Definition, language: str, lines: Sequence[str], used: Collection[str]) -> bool:
    """Whether a framework runs a function of a test file as a test. A helper is called or passed by its name, and
    what sets a class up is a constructor or has a name that frameworks know."""
    above = "\n".join(lines[max(function.start_line - _MARK_LINES, 0) : function.start_line + 1])
    is_helper = function.name in used or function.name == "setUp" or _is_constructor(function) or _is_callback(function)
    return not is_helper and may_be_test(language, function.qualified, above)


def _is_callback(function: Definition) -> bool:
    """Whether it is a function of an object that is passed on, as in `head({ title: () => … })`."""
    return function.kind == "method" and not function.owner and not function.exported


def find_changed_expectations(revisions: Sequence[Revision]) -> list[Finding]:
    """Removed tests, changed assertions and test data: behaviour somebody relied on. A line that only uses a new
    name still expects the same."""
    called_before = {name for revision in revisions for name in _CALLED.findall(revision.before.text) if name}
    called_after = {name for revision in revisions for name in _CALLED.findall(revision.after.text) if name}
    changed_names = called_before ^ called_after

    def strip_names(line: str) -> str:
        return _strip_spaces(_CALLED.sub(lambda match: "" if match[1] in changed_names else match[0], line))

    tests = [revision for revision in revisions if revision.is_test]
    remaining = {strip_names(line) for revision in tests for _, line in revision.code_lines(revision.after)}
    names_after = {name for revision in revisions for name in revision.after.names}
    used = {use.name for revision in revisions for use in revision.before.references}
    used |= {name for revision in revisions for statement in revision.before.imports for name in statement.names}
    findings = []
    for revision in tests:
        if kind_of_manifest(revision.path):
            continue
        lines, renamed = revision.before.lines, _find_renamed(revision)
        functions = {item.qualified: item for item in revision.before.definitions if item.is_function}
        elsewhere = {
            statement.line for statement in revision.before.imports
        }  # lines about which something else is said
        for name, function in functions.items():
            if function.end_line > function.start_line:
                elsewhere.add(function.start_line)
            is_gone = name not in names_after and name not in renamed and function.owner not in functions
            if is_gone and _is_test_case(function, revision.language, lines, used):
                finding = Finding("expectation", revision.at(function.start_line), f"the test {name} is gone")
                findings.append(finding)
                elsewhere.update(range(function.start_line, function.end_line + 1))
        reworded = {_without_values(line) for _, line in revision.added_lines() if _FAILING.search(line)}
        expectations, others = list[tuple[int, str]](), list[tuple[int, str]]()
        text = _join_lines(strip_names(line) for _, line in revision.code_lines(revision.after))
        for number, line in revision.code_lines(revision.before):
            if number not in revision.code.removed or number in elsewhere or strip_names(line) in remaining:
                continue
            if _is_part(_join_lines([strip_names(line)]), text):  # with other line breaks
                continue
            if not (_FAILING.search(line) and _without_values(line) in reworded):
                (expectations if _is_expectation(line) else others).append((number, line))
        if expectations:
            (number, line), *more = expectations
            message = f"no longer expected: {line.strip()[:160]}"
            message += f"; and {len(more)} more in this file" if more else ""
            findings.append(Finding("expectation", revision.at(number), message))
        findings += _find_changed_data(revision, others)
    return findings


def _find_changed_data(revision: Revision, removed: Sequence[tuple[int, str]]) -> list[Finding]:
    """One finding for lines of a test that reappear with other values, such as rows of a table of cases."""
    added = [line for _, line in revision.added_lines() if _LITERAL.search(line)]
    for number, before in removed:
        values = _LITERAL.findall(before)
        for after in added if values else ():
            new_values = _LITERAL.findall(after)
            is_same_case = _without_values(before) == _without_values(after) and values[:1] == new_values[:1]
            if is_same_case and values != new_values:
                message = f"test data changed: {before.strip()[:80]} became {after.strip()[:80]}"
                return [Finding("expectation", revision.at(number), message)]
    return []


def _without_values(line: str) -> str:
    return _strip_spaces(_LITERAL.sub("", line))


def _join_lines(lines: Iterable[str]) -> str:
    """Lines without spaces, also without the commas that only follow from where the lines end."""
    return re.sub(r",(?=[)\]}]|\Z)", "", "".join(lines))


def _is_part(line: str, text: str) -> bool:
    """Whether a text has a line that cuts no word: `a == 1` is no part of `a == 10`."""
    before = r"(?<!\w)" if line[:1].isalnum() else ""
    behind = r"(?!\w)" if line[-1:].isalnum() else ""
    return bool(line) and re.search(f"{before}{re.escape(line)}{behind}", text) is not None


def _strip_spaces(line: str) -> str:
    return re.sub(r"\s+", "", line)


def find_untested(revisions: Sequence[Revision], in_tests: Callable[[str, str], bool]) -> list[Finding]:
    """New functions that no test names, once per file, and changed ones if the change has no test, once. `in_tests`
    says whether a test is known to use a definition, given its path and qualified name; a test in the change that calls
    something of that name may mean it as well."""
    products = [revision for revision in revisions if revision.is_product]
    touched = {revision.path: _count_touched(revision) for revision in products}
    inline = {revision.path: find_inline_tests(revision) for revision in revisions}
    has_tests = any(revision.is_test and revision.code.added for revision in revisions) or any(
        not inline[path].isdisjoint(lines) for path, lines in touched.items()
    )
    called = _find_called_in_tests(revisions, inline)
    moved = {name for revision in revisions for name in revision.before.names - revision.after.names}

    def has_test(revision: Revision, function: Definition) -> bool:
        names = _names_in_tests(function, revision)
        return any(name.rpartition(".")[2] in called or in_tests(revision.path, name) for name in names)

    findings = []
    changed: list[tuple[int, str, str]] = []  # minus lines, place and name
    for revision in products:
        lines, tests = touched[revision.path], inline[revision.path]
        names_before, renamed = revision.before.names, set(_find_renamed(revision).values())
        expected = _find_offered(revision, has_tests=has_tests)
        untested: list[Definition] = []
        for function in revision.after.definitions:
            name = function.qualified
            if not function.is_function or _is_callback(function) or name not in lines or name in tests:
                continue
            if name in names_before or (name in renamed and lines[name] > 1):  # more than its name changed
                changed.append((-lines[name], revision.at(function.start_line), name))
            # What moved is not new, and a constructor comes with its class.
            is_new = name not in names_before and name not in renamed and name not in moved
            if is_new and not _is_constructor(function) and name in expected and not has_test(revision, function):
                untested.append(function)
        if untested:
            what = ("is new, and no test names it", "are new, and no test names them")
            place = revision.at(untested[0].start_line)
            findings.append(_list_functions(place, [function.qualified for function in untested], what))
    has_less_tests = any(revision.is_test and revision.code.removed for revision in revisions)
    if changed and not has_tests and not has_less_tests:
        changed.sort()
        what = ("was changed, and no test was", "were changed, and no test was")
        findings.append(_list_functions(changed[0][1], [name for _, _, name in changed], what))
    return findings


def _find_called_in_tests(revisions: Sequence[Revision], inline: Mapping[str, Collection[str]]) -> set[str]:
    """The names that new lines of tests use, and those that functions of these names call. `inline`: the tests in each
    file beside the code."""
    used = {
        use.name
        for revision in revisions
        for use in revision.after.references
        if use.line in revision.code.added and (revision.is_test or use.within in inline[revision.path])
    }
    calls = group_by_key(
        (use.within.rpartition(".")[2], use.name)
        for revision in revisions
        if revision.is_product
        for use in revision.after.references
        if use.role == "call"
    )
    return set(reachable(used, lambda name: calls.get(name, ())))


def _count_touched(revision: Revision) -> Counter[str]:
    """The changed lines of definitions; those of a function inside another one, which no test can name, are the
    outer one's."""
    by_name = {definition.qualified: definition for definition in revision.after.definitions}
    lines: Counter[str] = Counter()
    for symbol in find_changed_symbols(revision, declared=False):
        definition = by_name[symbol.name]
        while (outer := by_name.get(definition.owner)) is not None and outer.is_function:
            if not outer.start_line <= definition.start_line <= outer.end_line:
                break  # `View.prototype.render` beside `function View`
            definition = outer
        lines[definition.qualified] += symbol.lines
    return lines


def find_inline_tests(revision: Revision) -> set[str]:
    """The functions of a new version in a test module or below an attribute that marks a test, and the module."""
    if not may_have_inline_tests(revision.language):
        return set()
    lines = dict(enumerate(revision.after.lines, 1))
    names = ((definition.qualified, definition.start_line) for definition in revision.after.definitions)
    return {name for name, start in names if is_marked_test(lines, name, start)}


def _names_in_tests(function: Definition, revision: Revision) -> tuple[str, ...]:
    """The names by which a test may use a function: its own and, if it is the only one of a new class, that of the
    class, since a framework may call it, as that of a job or a command."""
    owner = function.owner
    of_owner = (item for item in revision.after.definitions if item.is_function and item.owner == owner)
    offered = {item.name for item in of_owner if item.exported and not _is_constructor(item)}
    is_by_class = owner and owner not in revision.before.names and offered == {function.name}
    return (function.qualified, owner) if is_by_class else (function.qualified,)


def _is_constructor(function: Definition) -> bool:
    return bool(function.owner) and function.name in (function.owner.rpartition(".")[2], *CONSTRUCTORS)


def _find_offered(revision: Revision, *, has_tests: bool) -> set[str]:
    """The names of definitions that tests can be expected to use. In a change with tests, an override, an operator, or
    in Rust a function of a trait, is reached by what it implements. A change without any lacks a test of everything
    that is not marked as private."""

    def is_expected(definition: Definition) -> bool:
        if not has_tests:
            return _PRIVATE.match(definition.name) is None
        is_of_trait = definition.owner and revision.path.endswith(".rs") and "pub " not in definition.signature
        is_override = _OVERRIDES.search(definition.signature.partition(definition.name)[0]) is not None
        return not (is_of_trait or is_override or definition.name.startswith("__"))

    lines, is_ruby = revision.after.lines, revision.path.endswith(".rb")
    offered = _list_public(revision.after.definitions) if has_tests else revision.after.definitions
    hidden = {item.qualified for item in offered if is_ruby and _is_private_in_ruby(lines, item.start_line)}
    return {definition.qualified for definition in offered if is_expected(definition)} - hidden


_PRIVATE = re.compile(r"_(?!_)|#")
_RUBY_SECTION = re.compile(r"\s*(private|protected|public)\s*(?:#.*)?")


def _is_private_in_ruby(lines: Sequence[str], start: int) -> bool:
    """Whether a method stands behind a `private` of its class, or of a part of it that is indented further."""
    indent = _indent(lines[start - 1])
    for line in reversed(lines[: start - 1]):
        if line.strip() and _indent(line) <= indent and (section := _RUBY_SECTION.fullmatch(line)):
            return section[1] != "public"
        if re.match(r"\s*(?:class|module)\b", line) and _indent(line) < indent:
            return False
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _list_functions(place: str, names: Sequence[str], what: tuple[str, str]) -> Finding:
    return Finding("untested", place, f"{list_names(names)} {what[len(set(names)) > 1]}")


def list_names(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))  # overloads share a name
    more = f" and {len(distinct) - MOST_NAMED} more" if len(distinct) > MOST_NAMED else ""
    return ", ".join(distinct[:MOST_NAMED]) + more


def _find_renamed(revision: Revision) -> dict[str, str]:
    """Removed functions, each with a new one that does nearly the same, by their texts without names."""
    before, after = revision.before, revision.after
    names_before, names_after = before.names, after.names
    added = [item for item in after.definitions if item.is_function and item.qualified not in names_before]
    gone = [item for item in before.definitions if item.is_function and item.qualified not in names_after]
    renamed: dict[str, str] = {}
    for old in gone if added else ():
        matcher = difflib.SequenceMatcher()
        matcher.set_seq2(_text_without_name(before, old))
        alike = [new for new in added if (new.kind, new.owner) == (old.kind, old.owner)]
        for new in sorted(alike, key=lambda new: abs(new.start_line - old.start_line))[:MOST_RENAMED]:
            matcher.set_seq1(_text_without_name(after, new))
            if matcher.real_quick_ratio() >= RENAMED_AT <= matcher.quick_ratio() and matcher.ratio() >= RENAMED_AT:
                renamed[old.qualified] = new.qualified
                break
    return renamed


def _text_without_name(version: Version, function: Definition) -> str:
    return version.text_of(function).replace(function.name, "")[:RENAMED_CHARS]


def find_new_dependencies(
    before: Collection[Dependency],
    after: Collection[Dependency],
    imported: Iterable[tuple[str, str]],
    used_elsewhere: Collection[str],
    project_packages: Collection[str],
) -> list[Finding]:
    """Packages that no manifest named before, updates that may break something, downgrades, and outside modules that
    nothing imported before: `imported` are those of new lines with their places, `used_elsewhere` the packages of
    unchanged files. The packages of the repository itself are no news."""
    old_versions, new_versions = _versions_by_key(before), _versions_by_key(after)
    names_before = {dependency.name for dependency in before}
    findings = []
    updates: dict[tuple[str, str], dict[str, str]] = {}  # by both versions, the place of each package
    for dependency in after:
        name, version, place = dependency.name, dependency.version, dependency.source
        if name in project_packages:
            continue
        old = old_versions.get(_key(dependency), set())
        gone = old - new_versions[_key(dependency)]
        if name not in names_before:
            findings.append(Finding("dependency", place, f"{name} {version}".strip() + " is a new dependency"))
        elif version not in old and any(_may_break(earlier, version) for earlier in gone):
            was = " or ".join(sorted(earlier or "any version" for earlier in gone))
            updates.setdefault((was, version or "any version"), {}).setdefault(name, place)
    for (was, now), sources in updates.items():
        first, *more = sources
        names = f"{first} and {len(more)} more were {was}, are" if more else f"{first} was {was}, is"
        findings.append(Finding("dependency", sources[first], f"{names} {now}"))
    was_declared = {package_of(dependency.name): dependency.name in names_before for dependency in after}
    for module, place in imported:
        package = package_of(module)
        first = re.split(r"[./:\\]", module)[0]
        is_standard = module.startswith("node:") or first in sys.stdlib_module_names or first.lower() in _STANDARD
        if package and package not in used_elsewhere and not is_standard and was_declared.get(package, True):
            # Only scripts import packages by the names that manifests use.
            is_missing = package not in was_declared and place.rpartition(":")[0].endswith(_SCRIPTS)
            what = "is imported, and no manifest names it" if is_missing else "is imported for the first time"
            findings.append(Finding("dependency", place, f"{module} {what}"))
    return list({finding.message: finding for finding in reversed(findings)}.values())[::-1]


_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte")


def _may_break(before: str, after: str) -> bool:
    """Whether a version is another major one, an earlier one or none that can be compared."""
    old, new = (tuple(map(int, re.findall(r"\d+", version.partition("-")[0])[:3])) for version in (before, after))
    major = 1 if old and old[0] else 2  # below 1.0, each minor version may break
    return not old or not new or old[:major] != new[:major] or new < old


def _key(dependency: Dependency) -> tuple[str, str, str]:
    """The manifest, its group and the package: a workspace names one package in many manifests."""
    return dependency.source.rpartition(":")[0], dependency.group, dependency.name


def _versions_by_key(dependencies: Iterable[Dependency]) -> dict[tuple[str, str, str], set[str]]:
    pairs = ((_key(dependency), dependency.version) for dependency in dependencies)
    return {key: set(versions) for key, versions in group_by_key(pairs).items()}


def package_of(module: str) -> str:
    """The distribution a module may belong to: `requests.adapters` → requests, `@a/b/c` → @a/b."""
    name = module.lower().replace("_", "-")
    if name.startswith("@"):
        return "/".join(name.split("/")[:2])
    if "." in name.partition("/")[0] and "/" in name:
        return "/".join(name.split("/")[:3])  # github.com/owner/name
    return re.split(r"[./:\\]", name)[0]


_STANDARD = frozenset(
    """
    std core alloc assert buffer child_process crypto dns events fs http http2 https net os path perf_hooks process
    querystring readline stream string_decoder timers tls tty url util v8 vm worker_threads zlib java javax kotlin
    system
    """.split()
)


_FORBIDDING = re.compile(
    r"\b(?:never|do not|don't|must not|mustn't|should not|avoid|stop|no longer|not|forbid(?:den)?|ban(?:ned)?|without"
    r"|instead of|rather than|over|away from|switch(?:ed)? from|migrated? from|drop(?:ped)?(?: support for)?"
    r"|deprecated?|replaced?|removed?)\s+"
    r"(?:(?:to|the|any|us(?:e|es|ing)|import(?:s|ing)?|call(?:s|ing)?|add(?:ing)?|rely on|depend on|with|from)\s+)*"
    r"[`'\"]?(?P<name>[A-Za-z_@][\w.@/:-]*\w)",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:in|under|inside|below|within)\s+[`'\"]?(?P<place>[\w.-]+(?:/[\w.-]*)+|[\w-]+\.\w{1,4})[`'\"]?"
)


def find_contradictions(revisions: Sequence[Revision], memories: Iterable[Memory]) -> list[Finding]:
    """New lines that do what a memory rules out: they import or call what it forbids, where it applies."""
    findings = []
    for memory in memories:
        forbidden = {match["name"].rstrip(".").lower() for match in _FORBIDDING.finditer(memory.memory)}
        places = [match["place"].rstrip("/.") for match in _PLACE.finditer(memory.memory)]
        for revision in revisions if forbidden else ():
            path = f"/{revision.path}"
            lies_there = any(path.startswith(f"/{place}/") or path.endswith(f"/{place}") for place in places)
            if revision.is_test or (places and not lies_there):
                continue
            if (memory.scope and not is_in_scope(memory.scope, [revision.path], ())) or not revision.change.added:
                continue
            for line, name in _new_names(revision):
                if name.lower() in forbidden:
                    whose = f"by {memory.author} " if memory.author else ""
                    message = f"{name} is used here; memory {memory.id} {whose}says: {memory.memory}"
                    findings.append(Finding("contradiction", revision.at(line), message))
                    break
    return findings


def _new_names(revision: Revision) -> list[tuple[int, str]]:
    """Modules that new lines import and names they call, the latter also with their receivers."""
    lines = dict(revision.added_lines())
    modules: list[tuple[int, str]] = []
    for statement in revision.after.imports:
        if statement.line in lines:
            members = (f"{statement.module}.{name}" for name in statement.names)
            names = (statement.module, package_of(statement.module), *members)
            modules += [(statement.line, name) for name in names]
    calls = [(number, name) for number, line in lines.items() for name in re.findall(r"(?<![\w.])[\w.]++(?=\()", line)]
    return [*modules, *calls, *((number, name.rpartition(".")[2]) for number, name in calls)]


def find_dropped_calls(revisions: Sequence[Revision]) -> dict[str, str]:
    """Names that removed lines called and no changed file calls or imports now, each with the path of the call."""
    remaining = {use.name for revision in revisions for use in revision.after.references if use.role == "call"}
    remaining |= {name for revision in revisions for statement in revision.after.imports for name in statement.names}
    dropped: dict[str, str] = {}
    for revision in revisions:
        for use in revision.before.references if revision.is_product else ():
            if use.role == "call" and use.line in revision.change.removed and use.name not in remaining:
                dropped.setdefault(use.name, revision.path)
    return dropped


_FIXING = re.compile(r"\b(?:fix(?:e[sd])?|bug|regress\w*|revert\w*|hotfix|crash\w*|broken?)\b", re.IGNORECASE)
_HARMLESS = re.compile(
    r"\b(?:typos?|docs?|documentation|comments?|lint\w*|format\w*|spelling|ci|tests?|deps|dependenc\w+|bump\w*)\b",
    re.IGNORECASE,
)
RISKY_FIXES, RISKY_SHARE = 3, 0.25  # of the commits: where much is done, some of it are fixes
MOST_RISKS = 3  # files that need a second look


def find_risks(subjects: Mapping[str, Sequence[str]], days: int) -> list[Finding]:
    """Files that needed several fixes recently, by the subjects of the commits that changed them, newest first."""
    ranked = []
    for path, commits in subjects.items():
        fixes = [subject for subject in commits if _FIXING.search(subject) and not _HARMLESS.search(subject)]
        if len(fixes) >= max(RISKY_FIXES, RISKY_SHARE * len(commits)):
            message = f"{len(commits)} commits in {days} days, {len(fixes)} of them fixes; the last: {fixes[0][:100]}"
            ranked.append((-len(fixes), path, Finding("risk", path, message)))
    return [finding for *_, finding in sorted(ranked, key=lambda entry: entry[:2])[:MOST_RISKS]]


def choose_most_severe(findings: Iterable[Finding]) -> tuple[list[Finding], list[str]]:
    """At most MOST_OF_A_KIND of each kind, and a note on each kind that has more."""
    by_kind = group_by_key((finding.kind, finding) for finding in findings)
    shown, notes = list[Finding](), list[str]()
    for kind in KINDS:
        of_kind = by_kind.get(kind, [])
        shown += of_kind[:MOST_OF_A_KIND]
        if (more := len(of_kind) - MOST_OF_A_KIND) > 0:
            notes.append(f"{more} more findings of the kind {kind} are not listed")
    return shown, notes
