"""The review of a change: what changed, who calls it, and what is wrong with it."""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from codeinfo.cache import group_by_key, reachable
from codeinfo.graph.references import CONSTRUCTORS, INTERFACES
from codeinfo.knowledge.detectors import Detector, without_comments
from codeinfo.knowledge.history import BlameLine
from codeinfo.knowledge.memory import Memory, is_bot, is_in_scope
from codeinfo.knowledge.patterns import CONFLICT_ABOVE, key_of
from codeinfo.languages import language_of, may_be_test
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
    by_name = {one.qualified: at for at, one in enumerate(after)}
    inner = [_innermost(after, line) for line in _below_decorators(revision.after.lines, change.added)]
    for at in (_innermost(before, line) for line in _below_decorators(revision.before.lines, change.dropped)):
        name = before[at].qualified if at is not None else ""
        inner.append(by_name.get(name, by_name.get(name.rpartition(".")[0])))
    ordered = sorted(Counter(at for at in inner if at is not None).items(), key=lambda item: (-item[1], item[0]))
    return [
        ChangedSymbol(one.qualified, one.kind, f"{change.path}:{one.start_line}-{one.end_line}", lines)
        for one, lines in ((after[at], lines) for at, lines in ordered)
        if one.kind not in _AROUND and (declared or not _is_declared(one, revision.after))
    ]


def _below_decorators(texts: Sequence[str], lines: Iterable[int]) -> Iterator[int]:
    """Instead of the line of a decorator, that of what it decorates."""
    for line in lines:
        while line < len(texts) and texts[line - 1].lstrip().startswith("@"):
            line += 1
        yield line


def _is_declared(one: Definition, version: Version) -> bool:
    """Whether it has no body: an interface declares it, and its implementations do something."""
    owners = {owner.qualified: owner.kind for owner in version.definitions}
    is_held = one.is_function and owners.get(one.qualified.rpartition(".")[0], "") in INTERFACES
    return is_held and not any(re.search(r"[{=]", line) for line in version.lines[one.start_line - 1 : one.end_line])


def _innermost(definitions: Sequence[Definition], line: int) -> int | None:
    around = [at for at, one in enumerate(definitions) if one.start_line <= line <= one.end_line]
    return min(around, key=lambda at: definitions[at].end_line - definitions[at].start_line, default=None)


def is_code_to_run(symbol: ChangedSymbol) -> bool:
    return symbol.kind not in _DECLARING


def reviewers(blames: Mapping[str, Sequence[BlameLine]]) -> list[Reviewer]:
    """Who wrote these lines of each file. No bots. Spellings of a name that differ in case or punctuation are one
    person."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    files: dict[str, set[str]] = defaultdict(set)
    for path, blame in blames.items():
        for author in (line.author for line in blame if not is_bot(line.author)):
            person = re.sub(r"[^\w ]", "", author).lower()
            spellings[person][author] += 1
            files[person].add(path)
    people = [
        Reviewer(spelled.most_common(1)[0][0], spelled.total(), len(files[person]))
        for person, spelled in spellings.items()
    ]
    return sorted(people, key=lambda one: (-one.lines, one.name))


def unusual_patterns(
    uses: Mapping[str, Sequence[tuple[int, int]]],
    changes: Sequence[Difference],
    detectors: Sequence[Detector],
    patterns: Mapping[str, Collection[PatternUse]],
) -> list[str]:
    """New lines that use what the team avoids, or a rare or discouraged pattern where another is clearly preferred;
    `patterns` are those of each file's area. Moving with the language is never reported."""
    messages = []
    for change in changes:
        of_area = patterns.get(change.path, ())
        by_key = {key_of(pattern): pattern for pattern in of_area}
        preferred = {(p.language, p.question): p for p in of_area if p.guidance in ("use", "prefer")}
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
_DECLARATIONS = (".d.ts", ".d.cts", ".d.mts")  # a package's interface to its users, though it ships no code
_INTERNAL = re.compile(r"(?:\A|/)(?:_(?!_)|internal/)")  # modules marked as internal by their name
_API_KINDS = frozenset("class interface struct enum trait type function method constant".split())


class Version(Struct, frozen=True):
    """A parsed file on one side of a change; empty if it does not exist."""

    text: str = ""
    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()

    @property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    @property
    def names(self) -> set[str]:
        return {one.qualified for one in self.definitions}


_RELEASE = re.compile(r"([\"'])v?\d+\.\d+\.\d+[\w.+-]*\1")


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
        """The change without what no program sees: comments, documentation and blank lines. Nor does the number of a
        release change what the product does."""
        language = language_of(self.path)
        sides = [without_comments(one.text, language.name if language else "") for one in (self.before, self.after)]
        if not self.is_test:
            sides = [[_RELEASE.sub("", line) for line in texts] for texts in sides]
        old, new = ([(number, line) for number, line in enumerate(texts, 1) if line.strip()] for texts in sides)
        return _compare(self.path, self.change.state, old, new)

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"

    def added_lines(self) -> list[tuple[int, str]]:
        return [pair for pair in enumerate(self.after.lines, 1) if pair[0] in self.change.added]


class ApiChange(Struct, frozen=True):
    finding: Finding
    name: str = ""  # qualified, of a definition
    is_gone: bool = False


def api_changes(revisions: Sequence[Revision]) -> list[ApiChange]:
    """Exported definitions that are gone or are now called differently, and exports that are gone. What only moved to
    another changed file is not gone."""
    anywhere = {one.qualified for revision in revisions for one in revision.after.definitions}
    changes: list[ApiChange] = []
    for revision in revisions:
        if _INTERNAL.search(revision.path) or not (revision.is_product or revision.path.endswith(_DECLARATIONS)):
            continue
        after = group_by_key((one.qualified, one) for one in revision.after.definitions)
        counts = Counter(one.qualified for one in revision.before.definitions)
        for one in _public(revision.before.definitions):
            same_name = after.get(one.qualified, [])
            owner = one.qualified.rpartition(".")[0]
            if owner in counts and owner not in after:
                continue  # gone with its container
            # An implementation must accept what the interface does; callers may leave out what has a default.
            is_implemented = any(held.kind in INTERFACES for held in after.get(owner, ()))
            is_alike = str.__eq__ if is_implemented else _takes_the_same
            if not same_name and one.qualified not in anywhere:
                message = f"{one.qualified} ({one.kind}) is gone: {_short(one.signature)}"
                finding = Finding("api", revision.at(one.start_line), message)
                changes.append(ApiChange(finding, one.qualified, is_gone=True))
            elif (
                one.kind != "constant"
                and len(same_name) == 1 == counts[one.qualified]
                and not is_alike(_shape(one, revision.path), _shape(same_name[0], revision.path))
            ):
                was, now = _shorten_both(one.signature, same_name[0].signature)
                message = f"{one.qualified} was {was}, is {now}"
                finding = Finding("api", revision.at(same_name[0].start_line), message)
                changes.append(ApiChange(finding, one.qualified))
        offered = {(written.module, written.names) for written in revision.after.imports if written.reexport}
        for written in revision.before.imports:
            if written.reexport and (written.module, written.names) not in offered:
                names = ", ".join(written.names) or "everything"
                message = f"{names} of {written.module} is no longer exported from here"
                changes.append(ApiChange(Finding("api", revision.at(written.line), message)))
    return changes


def _public(definitions: Sequence[Definition]) -> list[Definition]:
    """What others can name: exported, and not inside a function or hidden type."""
    by_name = {one.qualified: one for one in definitions}
    owners = {one.qualified: by_name.get(one.qualified.rpartition(".")[0]) for one in definitions}
    return [
        one
        for one in definitions
        if one.exported and one.kind in _API_KINDS and not _HIDDEN.search(one.signature.partition(one.name)[0])
        if (owner := owners[one.qualified]) is None or (owner.exported and not owner.is_function)
    ]


def _shape(one: Definition, path: str) -> str:
    """A signature without what makes no difference to callers: whitespace, trailing separators, `override`, `async` if
    the task or promise is written as the result, what a type derives from, and what a function takes out of an object
    whose type is written."""
    text = _without_bases(one.signature, path) if one.kind in HOLDING else one.signature
    text = _ASYNC.sub("", text) if _PROMISED.search(text) else text
    text = _UNPACKED.sub("", re.sub(r"\s+", "", _OVERRIDES.sub("", text)))
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
_OPTIONAL = re.compile(r"(?<![=!<>])=(?![=>])|\w\?:")
_ASYNC = re.compile(r"\basync\b")
_PROMISED = re.compile(r"\basync\s+(?:Value)?Task\b|\)\s*:\s*Promise<")
_OVERRIDES = re.compile(r"\boverride\b|@Override\b")
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
    texts = [" ".join(one.split()) for one in (before, now)]
    start = texts[0].rfind(",", 0, _count_alike(*texts)) + 1
    return f"…{_short(texts[0][start:])}", f"…{_short(texts[1][start:])}"


_EXPECTATION = re.compile(
    r"\b(?:assert\w*|expect\w*|should\w*|require\.\w+|verify\w*|t\.(?:Error|Fatal)\w*|pytest\.raises|to(?:Be|Equal)\w*)\b"
)


def _is_expectation(line: str) -> bool:
    """Whether it checks something, and not only has a name in backticks that says so, as tests in Kotlin do."""
    return _EXPECTATION.search(re.sub(r"`[^`]*`", "", line)) is not None


_FAILING = re.compile(r"\bt\.(?:Error|Fatal|Log)\w*\(")  # in Go: its text only says what the condition before it means
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\b\d+(?:\.\d+)?\b")
_CALLED = re.compile(rf"{_LITERAL.pattern}|([^\W\d]\w*)(?=\()")


_MARK_LINES = 4  # around the start of a test


def _is_test_case(one: Definition, language: str, lines: Sequence[str], used: Collection[str]) -> bool:
    """Whether a framework runs a function of a test file as a test. A helper is called or passed by its name, and
    what sets a class up is a constructor or has a name that frameworks know."""
    above = "\n".join(lines[max(one.start_line - _MARK_LINES, 0) : one.start_line + 1])
    return (
        one.name not in used
        and not _is_constructor(one)
        and one.name != "setUp"
        and not _is_callback(one)
        and may_be_test(language, one.qualified, above)
    )


def _is_callback(one: Definition) -> bool:
    """Whether it is a function of an object that is passed on, as in `head({ title: () => … })`."""
    return one.kind == "method" and "." not in one.qualified and not one.exported


def find_changed_expectations(revisions: Sequence[Revision]) -> list[Finding]:
    """Removed tests, changed assertions and test data: behaviour somebody relied on. A line that only uses a new
    name still expects the same."""
    sides = (one.before.text for one in revisions), (one.after.text for one in revisions)
    old, new = ({name for text in side for name in _CALLED.findall(text) if name} for side in sides)
    renamed = old ^ new

    def strip_names(line: str) -> str:
        return _strip_spaces(_CALLED.sub(lambda match: "" if match[1] in renamed else match[0], line))

    remaining = {strip_names(line) for revision in revisions if revision.is_test for line in revision.after.lines}
    names = {one.qualified for revision in revisions for one in revision.after.definitions}
    used = {use.name for revision in revisions for use in revision.before.references}
    used |= {name for revision in revisions for written in revision.before.imports for name in written.names}
    findings = []
    for revision in revisions:
        if not revision.is_test or kind_of_manifest(revision.path):
            continue
        language = language_of(revision.path)
        before = {one.qualified: one for one in revision.before.definitions if one.is_function}
        gone = [one for name, one in before.items() if name not in names and name.rpartition(".")[0] not in before]
        renamed_tests = _find_renamed(revision)
        gone = [one for one in gone if one.qualified not in renamed_tests]
        lines = revision.before.lines
        gone = [one for one in gone if _is_test_case(one, language.name if language else "", lines, used)]
        findings += [Finding("expectation", revision.at(d.start_line), f"the test {d.qualified} is gone") for d in gone]
        elsewhere = {one.line for one in revision.before.imports}
        elsewhere.update(one.start_line for one in before.values() if one.end_line > one.start_line)
        elsewhere.update(line for one in gone for line in range(one.start_line, one.end_line + 1))
        reworded = {
            _strip_spaces(_LITERAL.sub("", line)) for _, line in revision.added_lines() if _FAILING.search(line)
        }
        removed = [
            (number, line)
            for number, line in enumerate(revision.before.lines, 1)
            if number in revision.code.removed and number not in elsewhere and strip_names(line) not in remaining
            if not (_FAILING.search(line) and _strip_spaces(_LITERAL.sub("", line)) in reworded)
        ]
        expected = [(number, line.strip()) for number, line in removed if _is_expectation(line)]
        if expected:
            message = f"no longer expected: {expected[0][1][:160]}"
            message += f"; and {len(expected) - 1} more in this file" if len(expected) > 1 else ""
            findings.append(Finding("expectation", revision.at(expected[0][0]), message))
        findings += _find_changed_data(revision, [pair for pair in removed if not _is_expectation(pair[1])])
    return findings


def _find_changed_data(revision: Revision, removed: Sequence[tuple[int, str]]) -> list[Finding]:
    """One finding for lines of a test that reappear with other values, such as rows of a table of cases."""
    added = [line for _, line in revision.added_lines() if _LITERAL.search(line)]
    for number, line in removed:
        values = _LITERAL.findall(line)
        for other in added if values else ():
            same_frame = _strip_spaces(_LITERAL.sub("", line)) == _strip_spaces(_LITERAL.sub("", other))
            if same_frame and values != _LITERAL.findall(other) and values[:1] == _LITERAL.findall(other)[:1]:
                message = f"test data changed: {line.strip()[:80]} became {other.strip()[:80]}"
                return [Finding("expectation", revision.at(number), message)]
    return []


def _strip_spaces(line: str) -> str:
    return re.sub(r"\s+", "", line)


def find_untested(revisions: Sequence[Revision], in_tests: Callable[[str, str], bool]) -> list[Finding]:
    """New functions that no test names, once per file, and changed ones if the change has no test, once. `in_tests`
    says whether a test is known to use a definition, given its path and qualified name; a test in the change that calls
    something of that name may mean it as well."""
    products = [revision for revision in revisions if revision.is_product]
    touched = {
        revision.path: {symbol.name: symbol.lines for symbol in find_changed_symbols(revision, declared=False)}
        for revision in products
    }
    inline = {revision.path: find_inline_tests(revision) for revision in revisions}
    has_tests = any(revision.is_test and revision.code.added for revision in revisions) or any(
        not inline[path].isdisjoint(lines) for path, lines in touched.items()
    )
    called = {
        use.name
        for revision in revisions
        for use in revision.after.references
        if use.line in revision.code.added and (revision.is_test or use.within in inline[revision.path])
    }
    calling = group_by_key(
        (use.within.rpartition(".")[2], use.name)
        for one in products
        for use in one.after.references
        if use.role == "call"
    )
    called = set(reachable(called, lambda name: calling.get(name, ())))  # what a test calls may call it
    moved = {name for revision in revisions for name in revision.before.names - revision.after.names}

    def lacks_test(revision: Revision, one: Definition) -> bool:
        in_use = _names_in_tests(one, revision.after.definitions, revision.before.names)
        return not any(used.rpartition(".")[2] in called or in_tests(revision.path, used) for used in in_use)

    findings = []
    changed: list[tuple[int, str, str]] = []  # minus lines, place and name
    for revision in products:
        lines, tests = touched[revision.path], inline[revision.path]
        functions = [one for one in revision.after.definitions if one.is_function and not _is_callback(one)]
        functions = [one for one in functions if one.qualified in lines and one.qualified not in tests]
        renamed = set(_find_renamed(revision).values())
        for one in functions:
            is_edited = lines[one.qualified] > 1  # and has not only another name
            if one.qualified in revision.before.names or (one.qualified in renamed and is_edited):
                changed.append((-lines[one.qualified], revision.at(one.start_line), one.qualified))
        # What moved is not new, and a constructor comes with its class.
        known, offered = revision.before.names | renamed | moved, _find_offered(revision, has_tests=has_tests)
        added = [one for one in functions if one.qualified not in known and not _is_constructor(one)]
        added = [one for one in added if one.qualified in offered]
        if new := [one for one in added if lacks_test(revision, one)]:
            what = ("is new, and no test names it", "are new, and no test names them")
            findings.append(_list_functions(revision.at(new[0].start_line), [one.qualified for one in new], what))
    if changed and not has_tests:
        changed.sort()
        what = ("was changed, and no test was", "were changed, and no test was")
        findings.append(_list_functions(changed[0][1], [name for _, _, name in changed], what))
    return findings


def find_inline_tests(revision: Revision) -> set[str]:
    """The functions of a new version in a test module or below an attribute that marks a test, and the module."""
    language = language_of(revision.path)
    if language is None or not may_have_inline_tests(language.name):
        return set()
    lines = dict(enumerate(revision.after.lines, 1))
    tests = (one for one in revision.after.definitions if is_marked_test(lines, one.qualified, one.start_line))
    return {one.qualified for one in tests}


def _names_in_tests(one: Definition, definitions: Sequence[Definition], before: Collection[str]) -> tuple[str, ...]:
    """The names of what a test of a function uses: the class, if a new one has no other function: a framework may call
    that of a job or a command."""
    owner = one.qualified.rpartition(".")[0]
    offered = [other for other in definitions if other.is_function and other.exported and not _is_constructor(other)]
    beside = {other.name for other in offered if other.qualified.rpartition(".")[0] == owner}
    is_by_class = owner and owner not in before and beside == {one.name}
    return (one.qualified, owner) if is_by_class else (one.qualified,)


def _is_constructor(one: Definition) -> bool:
    return "." in one.qualified and one.name in (one.qualified.split(".")[-2], *CONSTRUCTORS)


def _find_offered(revision: Revision, *, has_tests: bool) -> set[str]:
    """The definitions that tests can be expected to name: an override, an operator, or in Rust a function of a trait,
    is reached by what it implements. A change without any tests lacks one of everything that is not marked as
    private."""

    def is_implementing(one: Definition) -> bool:
        is_of_trait = "." in one.qualified and revision.path.endswith(".rs") and "pub " not in one.signature
        is_override = _OVERRIDES.search(one.signature.partition(one.name)[0]) is not None
        return is_of_trait or is_override or one.name.startswith("__")

    lines, is_ruby, after = revision.after.lines, revision.path.endswith(".rb"), revision.after.definitions
    offered = [one for one in _public(after) if not is_implementing(one)] if has_tests else after
    hidden = {one.qualified for one in offered if is_ruby and _is_private_in_ruby(lines, one.start_line)}
    return {one.qualified for one in offered if has_tests or not _PRIVATE.match(one.name)} - hidden


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
    every = list(dict.fromkeys(names))  # overloads have one name
    return ", ".join(every[:MOST_NAMED]) + (f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else "")


def _find_renamed(revision: Revision) -> dict[str, str]:
    """Removed functions, each with a new one that does nearly the same, by their texts without names."""
    present = revision.after.names
    names_before = revision.before.names
    new = [one for one in revision.after.definitions if one.is_function and one.qualified not in names_before]
    gone = [one for one in revision.before.definitions if one.is_function and one.qualified not in present]
    before, after = revision.before.lines, revision.after.lines
    renamed: dict[str, str] = {}
    for other in gone if new else ():
        compared = difflib.SequenceMatcher()
        compared.set_seq2(_text_without_name(before, other))
        owner = other.qualified.rpartition(".")[0]
        alike = [one for one in new if one.kind == other.kind and one.qualified.rpartition(".")[0] == owner]
        for one in sorted(alike, key=lambda one: abs(one.start_line - other.start_line))[:MOST_RENAMED]:
            compared.set_seq1(_text_without_name(after, one))
            if compared.real_quick_ratio() >= RENAMED_AT <= compared.quick_ratio() and compared.ratio() >= RENAMED_AT:
                renamed[other.qualified] = one.qualified
                break
    return renamed


def _text_without_name(lines: Sequence[str], one: Definition) -> str:
    return "\n".join(lines[one.start_line - 1 : one.end_line]).replace(one.name, "")[:RENAMED_CHARS]


def new_dependencies(
    before: Collection[Dependency],
    after: Collection[Dependency],
    imported: Iterable[tuple[str, str]],
    used_elsewhere: Collection[str],
    project_packages: Collection[str],
) -> list[Finding]:
    """Packages that no manifest named before, versions with which something may break or of which an earlier one is
    taken again, and outside modules that nothing imported before: `imported` are the new ones with their places,
    `used_elsewhere` the unchanged files'. The packages of the repository itself are no news."""
    old, new = _by_manifest(before), _by_manifest(after)
    names_before = {one.name for one in before}
    findings = []
    updates: dict[tuple[str, str], dict[str, str]] = {}  # by both versions, the place of each package
    for one in (one for one in after if one.name not in project_packages):
        key = _key(one)
        gone = old.get(key, set()) - new[key]
        if one.name not in names_before:
            message = f"{one.name} {one.version}".strip() + " is a new dependency"
            findings.append(Finding("dependency", one.source, message))
        elif one.version not in old.get(key, ()) and any(_may_break(version, one.version) for version in gone):
            was = " or ".join(sorted(version or "any version" for version in gone))
            updates.setdefault((was, one.version or "any version"), {}).setdefault(one.name, one.source)
    for (was, now), sources in updates.items():
        first, *more = sources
        names = f"{first} and {len(more)} more were {was}, are" if more else f"{first} was {was}, is"
        findings.append(Finding("dependency", sources[first], f"{names} {now}"))
    declared = {package_of(one.name): one.name in names_before for one in after}
    for module, place in imported:
        package = package_of(module)
        first = re.split(r"[./:\\]", module)[0]
        is_standard = module.startswith("node:") or first in sys.stdlib_module_names or first.lower() in _STANDARD
        if package and package not in used_elsewhere and not is_standard and declared.get(package, True):
            # Elsewhere modules have other names than the packages that bring them.
            is_missing = package not in declared and place.rpartition(":")[0].endswith(_SCRIPTS)
            what = "is imported, and no manifest names it" if is_missing else "is imported for the first time"
            findings.append(Finding("dependency", place, f"{module} {what}"))
    return list({finding.message: finding for finding in reversed(findings)}.values())[::-1]


_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte")


def _may_break(before: str, after: str) -> bool:
    """Whether a version is another major one, an earlier one or none that can be compared."""
    old, new = (tuple(map(int, re.findall(r"\d+", version.partition("-")[0])[:3])) for version in (before, after))
    major = 1 if old and old[0] else 2  # below 1.0, each minor version may break
    return not old or not new or old[:major] != new[:major] or new < old


def _key(one: Dependency) -> tuple[str, str, str]:
    """The manifest, its group and the package: a workspace names one package in many manifests."""
    return one.source.rpartition(":")[0], one.group, one.name


def _by_manifest(listed: Iterable[Dependency]) -> dict[tuple[str, str, str], set[str]]:
    return {key: set(versions) for key, versions in group_by_key((_key(one), one.version) for one in listed).items()}


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


def contradictions(revisions: Sequence[Revision], memories: Iterable[Memory]) -> list[Finding]:
    """New lines that do what a memory rules out: they import or call what it forbids, where it applies."""
    findings = []
    for memory in memories:
        forbidden = {match["name"].rstrip(".").lower() for match in _FORBIDDING.finditer(memory.memory)}
        places = [match["place"].rstrip("/.") for match in _PLACE.finditer(memory.memory)]
        for revision in revisions if forbidden else ():
            path = f"/{revision.path}"
            lies_there = any(path.startswith(f"/{one}/") or path.endswith(f"/{one}") for one in places)
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
    modules = [
        (written.line, name)
        for written in revision.after.imports
        if written.line in lines
        for name in (written.module, package_of(written.module), *(f"{written.module}.{one}" for one in written.names))
    ]
    calls = [(number, called) for number, line in lines.items() for called in re.findall(r"[\w.]+(?=\()", line)]
    return [*modules, *calls, *((number, called.rpartition(".")[2]) for number, called in calls)]


def find_dropped_calls(revisions: Sequence[Revision]) -> dict[str, str]:
    """Names that removed lines called and no changed file calls or imports now, each with the path of the call."""
    remaining = {use.name for one in revisions for use in one.after.references if use.role == "call"}
    remaining |= {name for one in revisions for written in one.after.imports for name in written.names}
    dropped: dict[str, str] = {}
    for revision in (one for one in revisions if one.is_product):
        for use in revision.before.references:
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


def risks(subjects: Mapping[str, Sequence[str]], days: int) -> list[Finding]:
    """Files that needed several fixes recently, by the subjects of the commits that changed them, newest first."""
    ranked = []
    for path, of_file in subjects.items():
        fixes = [subject for subject in of_file if _FIXING.search(subject) and not _HARMLESS.search(subject)]
        if len(fixes) >= max(RISKY_FIXES, RISKY_SHARE * len(of_file)):
            message = f"{len(of_file)} commits in {days} days, {len(fixes)} of them fixes; the last: {fixes[0][:100]}"
            ranked.append((len(fixes), Finding("risk", path, message)))
    ranked.sort(key=lambda pair: (-pair[0], pair[1].place))
    return [finding for _, finding in ranked[:MOST_RISKS]]


def most_severe_first(findings: Iterable[Finding]) -> tuple[list[Finding], list[str]]:
    """At most MOST_OF_A_KIND of each kind, and a note on each kind that has more."""
    kinds: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
    for one in findings:
        kinds[one.kind].append(one)
    left_out = {kind: len(every) - MOST_OF_A_KIND for kind, every in kinds.items()}
    notes = [f"{more} more findings of the kind {kind} are not listed" for kind, more in left_out.items() if more > 0]
    return [one for every in kinds.values() for one in every[:MOST_OF_A_KIND]], notes
