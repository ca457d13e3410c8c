"""The context of search results (who uses them, whether they are tested) and the card before a change: whether the
results are about the task, and enough to proceed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from posixpath import dirname

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.graph.model import Graph
from codeinfo.knowledge.detectors import detector_language
from codeinfo.knowledge.patterns import FileHints, Key, advice_line, can_be_example, key_of
from codeinfo.languages import STYLESHEETS, is_migration, is_product
from codeinfo.model import (
    Card,
    CardImpact,
    CardPatterns,
    CardPoint,
    FileKind,
    Hit,
    HitContext,
    NextStep,
    Quality,
    RelatedMemory,
    to_run,
)
from codeinfo.operations.knowledge import PatternReport, PatternUse
from codeinfo.search.query import CHANGE_VERBS, read_query
from codeinfo.tokens import identifiers, split_identifier, stem, terms

# --- around a result -------------------------------------------------------------------------------------------------


MOST_LISTED = 3


# The role of a file by the last word of its name or by a folder of such files, and their layer.
_ROLES = (
    ("controller controllers endpoint endpoints", "controller", "api"),
    ("route routes router routers routing urls", "route", "api"),
    ("guard guards interceptor interceptors middleware middlewares", "middleware", "api"),
    ("cli cmd", "command", "api"),
    ("command commands", "command", ""),  # of a shell, or a step of the application
    ("view views page pages screen screens", "view", "presentation"),
    ("viewmodel viewmodels uistate presenter presenters", "view model", "presentation"),
    ("component components widget widgets", "component", "presentation"),
    ("form forms", "form", "presentation"),
    ("directive directives pipe pipes template templates layout layouts", "template", "presentation"),
    ("hook hooks composable composables", "hook", "presentation"),
    ("handler handlers listener listeners subscriber subscribers", "handler", "application"),
    ("service services usecase usecases interactor interactors manager managers", "service", "application"),
    ("store stores reducer reducers slice slices", "store", "application"),
    ("repository repositories dao daos", "repository", "data"),
    ("model models entity entities schema schemas dto dtos", "model", "domain"),
    ("client clients gateway gateways adapter adapters", "adapter", "infrastructure"),
    ("config configuration settings", "configuration", "configuration"),
    ("util utils helper helpers", "helper", "shared"),
)
_ROLE_OF = {word: (type_, layer) for words, type_, layer in _ROLES for word in words.split()}
# A folder `models` holds models, but a folder or file `repository` may be about the user's repositories.
_HOLDING = {word for word in _ROLE_OF if word.endswith("s")} | {"cli", "cmd", "config", "configuration", "middleware"}
# What words mean in some files only: a page of a wiki, a hook of a program or its store are something else, as are the
# settings that a page shows, and the template of a document.
_MARKED = (".tsx", ".jsx", ".vue", ".svelte")
_SCRIPTS = (*_MARKED, ".ts", ".js", ".mjs", ".cjs")
_PAGES = (".html", ".kt", ".swift", ".dart", ".cshtml", ".razor", ".xaml", ".haml", ".erb")
_SCREENS = (*_SCRIPTS, *_PAGES)
_ONLY_IN = {
    **dict.fromkeys("page pages screen screens".split(), _SCREENS),
    **dict.fromkeys("hook hooks composable composables store stores reducer reducers slice slices".split(), _SCRIPTS),
    **dict.fromkeys("template templates layout layouts".split(), (*_MARKED, *_PAGES, ".js", ".php", ".heex", ".hbs")),
    "settings": (".py", ".rb", ".php", ".go", ".rs", ".java", ".cs", ".ex", ".exs"),
}
_OF_OTHERS = frozenset({"settings", "config", "configuration"})
_TRANSLATIONS = frozenset("lang langs locale locales i18n l10n translations".split())
_FRONT = frozenset("client frontend javascript dashboard assets ui".split())  # whose controllers and routes are shown
_BESIDE_DATA = frozenset(  # what lies beside models and repositories, but is none
    "builder comparer converter evaluator factory fetcher finder formatter generator iterator loader mapper parser "
    "processor provider query reader resolver serializer transformer validator writer".split()
)
_MARKUP = frozenset("components widgets views pages screens templates layouts".split())
_COMPOUNDS = re.compile(r"\b(view(?= model)|use(?= case)|ui(?= state)) ")  # mean something else
_KINDS = {
    FileKind.TEST: ("test", "tests"),
    FileKind.DOCS: ("document", "documents"),
    FileKind.CONFIG: ("configuration", "configuration"),
}


def file_context(graph: Graph, path: str, tests: tuple[str, ...]) -> HitContext:
    """The context of a file, whichever part of it is a result."""
    return HitContext(
        imported_by_count=len({edge.source for edge in graph.edges_to(path)}),
        has_tests=bool(tests),
        consumers=tuple(f"{edge.source}:{edge.line}" for edge in graph.users(path)[:MOST_LISTED]),
        tests=tests[:MOST_LISTED],
    )


LEAST_REGISTERED, REGISTERED_SHARE = 4, 0.7  # neighbours that one file imports if new ones are added to it


class Registry(Struct, frozen=True):
    """A file that imports most of the files of a folder, such as a list of commands or routes."""

    path: str
    imported: int
    files: int  # that it could import


def find_registry(graph: Graph, path: str) -> Registry | None:
    """The registry of what lies beside a file. If a folder is one package, as in Go, the folders beside it count."""
    facts, folder = graph.files[path], dirname(path)
    is_package = facts.rules.imports.qualified
    around = dirname(folder) if is_package else folder
    places: dict[str, set[str]] = {}  # of each neighbour, the files that import it
    for neighbour, other in graph.files.items():
        unit = dirname(neighbour) if is_package else neighbour
        is_beside = dirname(unit) == around and unit not in (folder if is_package else path, around)
        if is_beside and other.language == facts.language and not other.is_test:
            users = {edge.source for edge in graph.users(neighbour) if not edge.implicit}
            shipped = (user for user in users if is_product(user, FileKind(graph.files[user].kind)))
            places.setdefault(unit, set()).update(user for user in shipped if not user.startswith(f"{unit}/"))
    counts = Counter(user for users in places.values() for user in users)
    best, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if best == path or count < max(LEAST_REGISTERED, REGISTERED_SHARE * len(places)):
        return None
    return Registry(best, count, len(places))


def role(hit: Hit) -> tuple[str, str]:
    """Type and layer: by the purpose of the file, by the words of its path, otherwise by the kind of definition."""
    if hit.kind in _KINDS:
        return _KINDS[hit.kind]
    if hit.language in STYLESHEETS:
        return "style sheet", "presentation"
    type_, layer = path_role(hit.path)
    return type_ or hit.symbol_kind, layer


def path_role(path: str) -> tuple[str, str]:
    """The file's own name says more than its folders, and a near folder more than a far one."""
    if is_migration(path):
        return "migration", "data"
    *folders, name = path.split("/")
    # `UserService.spec.ts` → user, service, spec: the extension is ignored.
    parts = [word for token in identifiers(name.rpartition(".")[0] or name) for word in _words(token)]
    # `UserSettings` are a user's, not the program's; nor is `TermsOfService` a service, nor `toast.client.ts` a client.
    is_telling = (len(parts) == 1 and parts[0] in _HOLDING) or (
        len(parts) > 1 and parts[-1] not in _OF_OTHERS and parts[-2] != "of" and ".client." not in name
    )
    around = [folder.lower() for folder in reversed(folders)]
    # A `.ts` beside components has no markup: it helps them.
    holding = [folder for folder in around if folder in _HOLDING and not (folder in _MARKUP and name.endswith(".ts"))]
    words = (word for word in (*(parts[-1:] if is_telling else ()), *holding) if word in _ROLE_OF)
    roles = [_ROLE_OF[word] for word in words if name.endswith(_ONLY_IN.get(word, ""))]
    is_beside_data = len(parts) > 1 and parts[-1] in _BESIDE_DATA and roles and roles[0][1] in ("domain", "data")
    if not roles or is_beside_data or not _TRANSLATIONS.isdisjoint(around):
        return "", ""
    is_shown = name.endswith(_MARKED) or (name.endswith(_SCRIPTS) and not _FRONT.isdisjoint(around))
    return (roles[0][0], "presentation") if roles[0][1] == "api" and is_shown else roles[0]


def _words(token: str) -> list[str]:
    return _COMPOUNDS.sub(r"\1", " ".join(split_identifier(token))).split()


LINES_ABOVE, LINES_INSIDE = 40, 60  # of a definition: its documentation and attributes, or its first statements
NOTICE_CHARS = 120
DEPRECATED = "deprecated"
_DEPRECATED = re.compile(
    r"^[\s/*#;!-]*(?:[@\\](?:\w+\.)*[Dd]eprecated?\b|(?<=[/*#-] )(?:Deprecated|DEPRECATED):"
    r"|@available\([^)\n]*\bdeprecated\b|(?:#\[\\?|\[\[?)(?:[\w.]+,\s*)*(?:System\.)?(?:Obsolete|[Dd]eprecated)(?:Attribute)?\b)(?P<notice>.*)",
    re.MULTILINE,
)
_QUOTED = re.compile(r"([\"'])((?:(?!\1).)*)\1")
_OF_PARAMETER = re.compile(r"\b(?:argument|keyword|parameter|passing)\b", re.IGNORECASE)


def deprecation(lines: Mapping[int, str], start: int, end: int) -> str:
    """That a definition is deprecated, with what is said about it, by the attributes and documentation above it or, in
    Python, by its first statements; "" if it is not."""
    above = [lines.get(start, "")]
    for number in range(start - 1, max(start - LINES_ABOVE, 0), -1):
        line = lines.get(number, "").strip()
        if not line or (line.endswith((";", "{", "}")) and line[0] not in "/*#"):
            break
        above.insert(0, line)
    head = "\n".join(above)
    notices = [_read_notice(head, match.start("notice")) for match in _DEPRECATED.finditer(head)]
    if not notices:
        inside = " " * (len(above[-1]) - len(above[-1].lstrip()) + 4)
        for number in range(start + 1, min(end, start + LINES_INSIDE) + 1):
            line, rest = lines.get(number, ""), "\n".join(lines.get(number + more, "") for more in range(5))
            if line.startswith(f"{inside}.. deprecated::"):
                notices.append(lines.get(number + 1, ""))
            elif line.startswith(f"{inside}warnings.warn(") and "DeprecationWarning" in rest:
                notices.append(_read_notice(rest, rest.index("(")))
        notices = [notice for notice in notices if not _OF_PARAMETER.search(notice)]
    text = " ".join(re.sub(r"\{@\w+ #?([^}]*)\}", r"\1", next(filter(None, notices), "")).split()).strip(" :-*/\"'")
    return f"{DEPRECATED}: {text[:NOTICE_CHARS]}".rstrip(": ") if notices else ""


def _read_notice(text: str, start: int) -> str:
    """What stands behind a mark: the sentence in its brackets, which is no version, otherwise the rest of its line."""
    line = text[start:].partition("\n")[0].strip()
    if not line.startswith(("(", "=", "]")):
        return line
    quoted = (match[2] for match in _QUOTED.finditer(text[start : start + 2 * NOTICE_CHARS] if line[0] != "]" else ""))
    return next((sentence for sentence in quoted if " " in sentence), "")


def add_context(
    hits: Sequence[Hit],
    files: Mapping[str, HitContext],
    hints: Mapping[str, FileHints],
    callers: Mapping[tuple[str, str], Sequence[str]],
    deprecated: Mapping[tuple[str, str], str],
) -> tuple[Hit, ...]:
    """`files` and `hints` are by path, `callers` (definitions that call a result) and what is said about `deprecated`
    results by path and qualified name."""

    def with_context(hit: Hit) -> Hit:
        kind, layer = role(hit)
        trend, warning = hints[hit.path].of_lines(hit.start_line, hit.end_line) if hit.path in hints else ("", "")
        context = replace(
            files.get(hit.path, HitContext()),
            type=kind,
            layer=layer,
            callers=tuple(callers.get((hit.path, hit.symbol), ())[:MOST_LISTED]),
            trend=trend,
            pattern_warning=deprecated.get((hit.path, hit.symbol), warning),
        )
        return replace(hit, context=context)

    return tuple(map(with_context, hits))


# --- the card --------------------------------------------------------------------------------------------------------


CODE_POINTS, PATTERN_POINTS, MEMORY_POINTS = 45.0, 30.0, 25.0
NEEDED = 40.0
# Relevance is a logistic model of how much of the task the first results cover. It was fitted on 201 commits of five
# repositories, each asked of its own repository before it was made, and 300 asked of another one.
WITH_VECTORS, WITH_VECTORS_FROM = {"meaning": 6.8, "words": 3.4, "names": 2.6}, -5.5
WITHOUT_VECTORS, WITHOUT_VECTORS_FROM = {"words": 4.7, "names": 3.5}, -3.7
RELEVANT = 0.45  # seven of ten tasks reach it in their own repository, one of eight in another
SURE = 0.35  # confidence of the search: below, the first results are a guess
THIN_BELOW = 2  # code results: a single place may be the wrong one
TARGETS = 3  # results that the change is likely to touch
COVERED_AT = 0.5  # share of the callers that must be among the results if a change affects them
MOST_HELP = 4

Place = tuple[str, int]  # path and line


class Coverage(Struct, frozen=True):
    """How much of a task the first results cover, each 0..1, and its words that none of them has."""

    meaning: float = 0.0  # the nearest cosine
    words: float = 0.0  # share of the task's words in one result
    names: float = 0.0  # share in one result's path and names
    missing: tuple[str, ...] = ()
    is_vague: bool = False  # the task has no word about a subject


class Evidence(Struct, frozen=True, dict=True):
    """What is known around a search for a change."""

    query: str
    purpose: str
    hits: Sequence[Hit]
    quality: Quality
    patterns: PatternReport  # of the package of the first result
    memories: Sequence[RelatedMemory]
    targets: Sequence[Hit]  # code that the change is likely to touch, with the symbol that the task names
    callers: Mapping[tuple[str, str], Sequence[Place]] = {}  # path and symbol of a target → its calls; no tests
    files: Mapping[str, int] = {}  # code of the project, with its bytes
    near: Collection[Key] = ()  # patterns used in the files of the first results
    together: str = ""  # see `companions`
    registry: Registry | None = None  # of the folder of the first result
    has_vectors: bool = False  # distances are from the built-in model, whose scale is known
    changed_since_index: int = 0  # files whose current state the index does not know

    @cached_property
    def code(self) -> list[Hit]:
        return [hit for hit in self.hits if hit.kind is FileKind.CODE]

    @cached_property
    def relevance(self) -> tuple[float, Coverage]:
        return relevance(self.query, self.code, has_vectors=self.has_vectors)

    @property
    def is_about_task(self) -> bool:
        return self.relevance[0] >= RELEVANT

    @property
    def place(self) -> str:
        """The file to be changed: of what the task names, otherwise the first; "" without code."""
        return next((hit.path for hit in _find_named(self.query, self.targets) or self.code), "")

    @cached_property
    def patterns_near(self) -> list[PatternUse]:
        """What is done in the files of the first results: how others make HTTP calls is no help for a tooltip."""
        families = {detector_language(hit.language) for hit in self.code[:TARGETS]}
        near = (item for item in self.patterns.patterns if item.language in families and key_of(item) in self.near)
        return sorted(near, key=lambda pattern: (-pattern.adoption, -pattern.files, pattern.name))

    @property
    def first_word(self) -> str:
        return next(iter(identifiers(self.query.lower())), "")

    @property
    def adds_something(self) -> bool:
        return self.first_word in _ADDING


class _Doubt(Struct, frozen=True):
    name: str
    reason: str
    help: tuple[str, ...]


def decide(evidence: Evidence) -> Card:
    code, points = evidence.code, _count_points(evidence)
    score = round(sum(point.points for point in points), 1)
    shown, callers = _split_callers(evidence)
    doubts = [*_doubts_on_results(evidence), *_doubts_around(evidence, callers, callers[shown:])]
    if score < NEEDED:
        steps = _suggest_searches(evidence, code if evidence.is_about_task else ())
        doubts.append(_Doubt("too few points", f"{score:g} of the {NEEDED:g} points needed", steps))
    failures = [f"{memory.memory} ({memory.label})" for memory in evidence.memories if memory.type == "failure"]
    warnings = ((hit, hit.context.pattern_warning) for hit in (*evidence.targets, *code) if hit.context)
    deprecated = [f"{hit.path} {hit.symbol} is {text}" for hit, text in warnings if text.startswith(DEPRECATED)]
    return Card(
        ready=not doubts,
        score=score,
        next_action=NextStep(f"{doubts[0].reason}: ", doubts[0].help[0]) if doubts else "",
        warnings=(*failures[:MOST_LISTED], *list(dict.fromkeys(deprecated))[:MOST_LISTED]),
        patterns=_advise(evidence) if evidence.is_about_task else None,
        best_example=best_example(code, evidence.files) if evidence.is_about_task else "",
        impact=_describe_impact(shown, callers) if evidence.is_about_task else None,
        what_would_help=tuple(dict.fromkeys(step for doubt in doubts for step in doubt.help))[:MOST_HELP],
        breakdown=(*points, *(CardPoint(doubt.name, 0.0, 0.0, doubt.reason) for doubt in doubts)),
    )


def _count_points(evidence: Evidence) -> tuple[CardPoint, ...]:
    share, coverage = evidence.relevance
    about = f"the first results are about the task by {share:.0%}, {RELEVANT:.0%} give all points"
    near = evidence.patterns_near
    preferred = sum(pattern.guidance in ("use", "prefer") for pattern in near)
    used = 1.0 if preferred else 0.5 if near else 0.0
    best = max((memory.confidence for memory in evidence.memories), default=0.0)
    related = f"best of {len(evidence.memories)} related memories counts {best:.0%}" if best else "no related memory"
    code_points = round(CODE_POINTS * min(1.0, share / RELEVANT), 1)
    return (
        CardPoint("code", code_points, CODE_POINTS, about + _describe_missing(coverage)),
        CardPoint("patterns", PATTERN_POINTS * used, PATTERN_POINTS, f"{preferred} preferred of {len(near)} near"),
        CardPoint("memory", round(MEMORY_POINTS * best, 1), MEMORY_POINTS, related),
    )


# --- whether the results are about the task --------------------------------------------------------------------------

# Words of a task that say nothing about its subject, besides the usual stop words.
_EMPTY = frozenset(
    """
    app application behavior behaviour bug bugs change changes feature issue issues new package problem problems
    project quality repo repository system work works wrong
    """.split()
)


def relevance(query: str, code: Sequence[Hit], *, has_vectors: bool) -> tuple[float, Coverage]:
    """How likely it is, 0..1, that the first results are what the task is about."""
    coverage = _measure_coverage(query, code[:TARGETS])
    if any(query.strip("`'\"() ") in (hit.symbol, hit.symbol.rpartition(".")[2]) for hit in code[:TARGETS] if query):
        return 1.0, coverage  # requested by name
    if coverage.is_vague or not code:
        return 0.0, coverage
    weights, start = (WITH_VECTORS, WITH_VECTORS_FROM) if has_vectors else (WITHOUT_VECTORS, WITHOUT_VECTORS_FROM)
    score = start + sum(weight * getattr(coverage, name) for name, weight in weights.items())
    return round(1 / (1 + math.exp(-score)), 3), coverage


def _measure_coverage(query: str, code: Sequence[Hit]) -> Coverage:
    # The leading verb only says that something is to be changed.
    words = read_query(query).words
    words = words[1:] if words and words[0] in CHANGE_VERBS else words
    subject = {stem(word): word for word in words if word not in _EMPTY and len(word) > 1}  # no `s` of `it's`
    if not subject:
        return Coverage(is_vague=True)
    names = [frozenset(terms(f"{hit.path} {hit.symbol} {hit.breadcrumb}")) for hit in code]
    texts = [bag | frozenset(terms(hit.text)) for bag, hit in zip(names, code, strict=True)]
    everywhere = frozenset().union(*texts)
    return Coverage(
        meaning=max((1 - hit.distance.value / 2 for hit in code if hit.distance), default=0.0),
        words=max((len(subject.keys() & bag) for bag in texts), default=0) / len(subject),
        names=max((len(subject.keys() & bag) for bag in names), default=0) / len(subject),
        missing=tuple(word for term, word in subject.items() if term not in everywhere),
    )


def _describe_missing(coverage: Coverage) -> str:
    listed = ", ".join(coverage.missing[:MOST_LISTED]) + ("…" if len(coverage.missing) > MOST_LISTED else "")
    return f"; nothing about {listed}" if listed else ""


# --- doubts ----------------------------------------------------------------------------------------------------------

_PROJECT = r"(?:app|application|repo|repository|code ?base|project|framework|library|product|system|stack)"
_EVERYWHERE = re.compile(
    r"\b(?:everywhere|everything|throughout|at once|in (?:one|a single) (?:go|pass|change|commit))\b"
    rf"|\b(?:across|all|every|whole|entire)\b(?:\W+\w+){{0,6}}?\W+{_PROJECT}\b"
    r"|\bacross (?:all|every|packages|modules)\b",
    re.IGNORECASE,
)
_SWEEPING = re.compile(
    r"\W*(?:convert|migrate|moderni[sz]e|port|redesign|refactor|rename|reorgani[sz]e|replace|restructure|rework|rewrite)"
    r"\b.*\b(?:all|every|each|any)\b",
    re.IGNORECASE | re.DOTALL,
)
_ADDING = frozenset("add create implement introduce support".split())  # begins what may need a new file
# A change that begins with one of these affects the callers.
_REACHING = frozenset("delete deprecate drop move remove rename replace".split())


def _doubts_on_results(evidence: Evidence) -> Iterator[_Doubt]:
    """Whether the search found what the task is about."""
    code, (share, coverage) = evidence.code, evidence.relevance
    if _EVERYWHERE.search(evidence.query) or _SWEEPING.match(evidence.query):
        steps = (
            NextStep("run ", to_run("map"), " and choose one area"),
            "search again for the first place to change, by its name",
        )
        yield _Doubt("wide scope", "the task spans many places, and one search shows a few of them", steps)
    if coverage.is_vague:
        yield _Doubt("vague task", "the task does not say what is to be changed", _suggest_searches(evidence, ()))
    elif not evidence.is_about_task:
        reason = f"the results have little to do with the task ({share:.0%}){_describe_missing(coverage)}"
        yield _Doubt("low relevance", reason, _suggest_searches(evidence, ()))  # the results are no basis for a change
    elif evidence.quality.confidence < SURE:
        why = "; ".join(evidence.quality.reasons) or f"confidence {evidence.quality.confidence:.2f}"
        yield _Doubt("low search quality", f"the search has low confidence ({why})", _suggest_searches(evidence, code))
    if evidence.changed_since_index:
        reason = f"{evidence.changed_since_index} files changed since they were indexed"
        yield _Doubt("stale index", reason, (NextStep("run ", to_run("index"), " and search again"),))
    if len(code) < THIN_BELOW:
        reason = f"only {len(code)} code result{'s' * (len(code) != 1)}"
        yield _Doubt("thin evidence", reason, _suggest_searches(evidence, code))


def _doubts_around(evidence: Evidence, callers: Sequence[Place], missing: Sequence[Place]) -> Iterator[_Doubt]:
    """Unseen callers (`missing`), competing patterns, old memories."""
    # Callers need to be read before changing how a function is called, not before changing what it does.
    is_reaching = evidence.purpose != "edit" or evidence.first_word in _REACHING
    if is_reaching and callers and 1 - len(missing) / len(callers) < COVERED_AT:
        steps = tuple(f"read {path}:{line}, which calls a result" for path, line in missing[:2])
        yield _Doubt("low caller coverage", f"{len(missing)} of {len(callers)} callers are not in the results", steps)
    subject = frozenset(terms(evidence.query))
    for conflict in evidence.patterns.conflicts:  # which one to follow is open
        if any(subject.issuperset(terms(name)) for name in conflict.patterns):
            (name, rival), (share, rest) = conflict.patterns, conflict.adoption
            reason = f"the team is divided on {conflict.question}: {name} {share} %, {rival} {rest} %"
            step = NextStep("run ", to_run("patterns", category=conflict.category))
            yield _Doubt("pattern conflict", reason, (step,))
    for memory in evidence.memories:
        if memory.stale:
            step = NextStep("run ", to_run("memory show", memory.id), " and remember it again if it still holds")
            reason = f"memory {memory.id} has decayed to a confidence of {memory.confidence:.0%}"
            yield _Doubt("stale memory", reason, (step,))


def _suggest_searches(evidence: Evidence, code: Sequence[Hit]) -> tuple[str, ...]:
    """Searches that could find more: the name of the best result, or more results."""
    if named := next((hit.symbol for hit in code if hit.symbol), ""):
        again = to_run("search", named, purpose=evidence.purpose)
        return NextStep("run ", to_run("refs", named)), NextStep("run ", again)
    if not evidence.hits:
        return "name a function or file that the task is about", NextStep("run ", to_run("map"), " to see what is here")
    return (NextStep("run ", to_run("search", evidence.query, limit=30), ", or name a function or file"),)


# --- what goes along -------------------------------------------------------------------------------------------------


def _split_callers(evidence: Evidence) -> tuple[int, list[Place]]:
    """How many callers of the likely targets are among the results, and all callers, those in the results first."""
    shown = {hit.path for hit in evidence.hits}
    callers: dict[str, int] = {}
    for hit in _find_named(evidence.query, evidence.targets) or evidence.targets:
        for path, line in evidence.callers.get((hit.path, hit.symbol), ()):
            callers.setdefault(path, line)
    # Examples that call it come after shipped code.
    ordered = sorted(callers.items(), key=lambda place: (place[0] not in shown, place[0] not in evidence.files))
    return len(shown & callers.keys()), ordered


def _find_named(query: str, code: Sequence[Hit]) -> list[Hit]:
    """The results whose definitions a task names, by their full names if it gives these: `Cart.total` is not
    `Order.total`."""
    names = frozenset(read_query(query).names)
    named = [hit for hit in code if not names.isdisjoint(hit.symbol.split("."))]
    written = query.replace("::", ".")
    return [hit for hit in named if re.search(rf"(?<!\w){re.escape(hit.symbol)}(?!\w)", written)] or named


def _describe_impact(shown: int, callers: Sequence[Place]) -> CardImpact | None:
    if not callers:
        return None
    files = [f"{path}:{line}" for path, line in (*callers[shown:], *callers[:shown])]
    return CardImpact(f"{shown}/{len(callers)} callers in results", tuple(files[:MOST_LISTED]))


def _advise(evidence: Evidence) -> CardPatterns | None:
    near = evidence.patterns_near
    # What nobody does otherwise needs no advice.
    do = [pattern for pattern in near if pattern.guidance in ("use", "prefer") and pattern.adoption < 100]
    avoid = [pattern for pattern in near if pattern.guidance == "avoid"]
    register = ""
    if (registry := evidence.registry) and evidence.adds_something:
        count = f"{registry.imported} of the {registry.files} there"
        register = f"for a new file beside the first result: {registry.path} imports {count}"
    lines = (*filter(None, (register, evidence.together)), *map(advice_line, do[:MOST_LISTED]))
    return CardPatterns(lines, tuple(map(advice_line, avoid[:MOST_LISTED]))) if lines or avoid else None


MOST_TOGETHER = 40  # files: a commit that changed more shows nothing about one of them
LEAST_TOGETHER, LEAST_TOGETHER_SHARE = 3, 0.3  # commits that changed another file too


def companions(path: str, commits: Sequence[Mapping[str, str]], is_worked_on: Callable[[str], bool]) -> str:
    """What commits that changed a file also did, newest first: other files that they changed, and new ones of a kind
    that they added, such as migrations or notes on changes, but not more of its own kind."""
    telling = [changes for changes in commits if path in changes and len(changes) <= MOST_TOGETHER]
    least = max(LEAST_TOGETHER, LEAST_TOGETHER_SHARE * len(telling))
    edited = Counter(other for changes in telling for other, how in changes.items() if how == "M" and other != path)
    added: dict[str, list[str]] = {}  # by folder and extension, one per commit
    for changes in telling:
        gone = {other.rpartition("/")[2] for other, how in changes.items() if how == "D"}
        new = (other for other, how in changes.items() if how == "A" and other.rpartition("/")[2] not in gone)
        for kind, other in {_kind_of_added(other): other for other in new}.items():
            added.setdefault(kind, []).append(other)
    added.pop(_kind_of_added(path), None)
    often = [(other, count) for other, count in edited.most_common() if count >= least and is_worked_on(other)]
    phrases = [
        f"{count} {'' if at else 'also changed '}{other}" for at, (other, count) in enumerate(often[:MOST_LISTED])
    ]
    most_added = max(added.values(), key=len, default=[])
    if len(most_added) >= least and (like := next(filter(is_worked_on, most_added), "")):
        phrases.append(f"{len(most_added)} added a file like {like}")
    return f"of {len(telling)} commits that changed {path}, {', '.join(phrases)}" if phrases else ""


def _kind_of_added(path: str) -> str:
    """Its folder, in which what is numbered or dated counts as one, and its extension."""
    return re.sub(r"/[^/]*\d{6}[^/]*(?=/)", "/*", dirname(path) + "/") + path.rpartition(".")[2]


# --- the example -----------------------------------------------------------------------------------------------------

LONGEST_EXAMPLE = 30_000  # bytes, some 700 lines: nobody models a change on more


def best_example(code: Sequence[Hit], files: Mapping[str, int]) -> str:
    """A file to model the change on: the first other result that is of the same kind as the first one by its name, and
    lies beside it or in a parallel folder. `files` maps paths to bytes."""
    target = code[0].path if code else ""
    for hit in code:
        is_alike = _same_kind(hit.path, target) and _is_near(hit.path, target)
        is_deprecated = hit.context is not None and hit.context.pattern_warning.startswith(DEPRECATED)
        is_short = files.get(hit.path, math.inf) <= LONGEST_EXAMPLE
        if is_alike and is_short and not is_deprecated and can_be_example(hit.path):
            return hit.path
    return ""


def _is_near(path: str, target: str) -> bool:
    """Whether the folders of two files differ in one name at most: `libs/album/store` and `libs/player/store`."""
    folders, target_folders = path.split("/")[:-1], target.split("/")[:-1]
    return len(folders) == len(target_folders) and sum(map(str.__ne__, folders, target_folders)) <= 1


def _same_kind(path: str, target: str) -> bool:
    """`albums.reducer.ts` and `playlist.reducer.ts`, `lines_codec.rs` and `bytes_codec.rs`, but no two helpers. A file
    of the same name is the counterpart of the target in another layer, as is its interface in C#."""
    words, others = _name_words(path), _name_words(target)
    if min(len(words), len(others)) < 2 or words[-1] != others[-1] or words[-1] in ("help", "util"):  # stems
        return False
    is_pair = words == others or ("i", *words) == others or ("i", *others) == words
    return path.rpartition(".")[2] == target.rpartition(".")[2] and not is_pair


def _name_words(path: str) -> tuple[str, ...]:
    """`albums.reducer.ts` → album, reducer: the last word says what kind of file it is."""
    name = path.rpartition("/")[2].rpartition(".")[0]
    return tuple(stem(word) for token in identifiers(name) for word in split_identifier(token))
