"""Results → context: what a result is, who uses it, whether it is tested, and whether such code is still written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from codeinfo.frozen import changed
from codeinfo.tokens import identifiers, split_identifier
from codeinfo.types import FileKind, Hit, HitContext

MOST_LISTED = 3


class Relations(Protocol):
    """How a file hangs together with others; `imported_by` has the important ones first, with the line."""

    @property
    def imported_by(self) -> Sequence[tuple[str, int]]: ...

    @property
    def tests(self) -> Sequence[str]: ...


# What a file is, by a word of its name or of a folder, and the layer such files belong to.
_ROLES = (
    ("controller controllers endpoint endpoints resource resources", "controller", "api"),
    ("route routes router routing urls", "route", "api"),
    ("guard guards interceptor interceptors middleware middlewares", "middleware", "api"),
    ("command commands cli cmd", "command", "api"),
    ("view views page pages screen screens", "view", "presentation"),
    ("component components widget widgets", "component", "presentation"),
    ("directive directives pipe pipes template templates layout layouts", "template", "presentation"),
    ("hook hooks composable composables", "hook", "presentation"),
    ("handler handlers listener listeners subscriber subscribers", "handler", "application"),
    ("service services usecase usecases interactor interactors manager managers", "service", "application"),
    ("store stores reducer reducers slice slices state", "store", "application"),
    ("repository repositories dao daos queries migration migrations", "repository", "data"),
    ("model models entity entities schema schemas domain dto dtos", "model", "domain"),
    ("client clients gateway gateways adapter adapters provider providers", "adapter", "infrastructure"),
    ("config configuration settings", "configuration", "configuration"),
    ("util utils helper helpers common shared lib", "helper", "shared"),
)
_ROLE_OF = {word: (type_, layer) for words, type_, layer in _ROLES for word in words.split()}
_KINDS = {
    FileKind.TEST: ("test", "tests"),
    FileKind.DOCS: ("document", "documents"),
    FileKind.CONFIG: ("configuration", "configuration"),
}


def context(
    hit: Hit,
    relations: Mapping[str, Relations],
    hints: Mapping[str, tuple[str, str]],
    tests: frozenset[str],
    callers: Sequence[str] = (),
) -> HitContext:
    """What surrounds a result. `relations` may also hold those of its callers; `tests` are the paths of test files.

    `callers` are definitions that call it. Where none is known, the files that import it stand for them.
    """
    type_, layer = role(hit)
    own = relations.get(hit.path)
    momentum, warning = hints.get(hit.path, ("", ""))
    if own is None:
        return HitContext(type=type_, layer=layer, trend=momentum, pattern_warning=warning)
    importers = [(path, line) for path, line in own.imported_by if path not in tests and path not in own.tests]
    return HitContext(
        type=type_,
        layer=layer,
        imported_by_count=len({path for path, _ in own.imported_by}),
        has_tests=bool(own.tests),
        callers=tuple(callers[:MOST_LISTED]) or tuple(f"{path}:{line}" for path, line in importers[:MOST_LISTED]),
        consumers=_consumers(hit.path, importers, relations, tests),
        tests=tuple(own.tests[:MOST_LISTED]),
        trend=momentum,
        pattern_warning=warning,
    )


def _consumers(
    path: str, callers: Sequence[tuple[str, int]], relations: Mapping[str, Relations], tests: frozenset[str]
) -> tuple[str, ...]:
    """Files that reach the result through its callers, those that use most of the callers first."""
    direct = {caller for caller, _ in callers} | {path}
    counts: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for caller, _ in callers[:MOST_LISTED]:
        for consumer, line in relations[caller].imported_by if caller in relations else ():
            if consumer not in direct and consumer not in tests:
                counts[consumer] += 1
                lines.setdefault(consumer, line)
    best = sorted(counts, key=lambda consumer: (-counts[consumer], consumer))[:MOST_LISTED]
    return tuple(f"{consumer}:{lines[consumer]}" for consumer in best)


def role(hit: Hit) -> tuple[str, str]:
    """Type and layer: by what the file is for, by the words of its path, else by the kind of definition alone."""
    if hit.kind in _KINDS:
        return _KINDS[hit.kind]
    type_, layer = path_role(hit.path)
    return type_ or hit.symbol_kind, layer


@lru_cache(maxsize=4096)
def path_role(path: str) -> tuple[str, str]:
    """The file's own name says more than its folders, and a near folder more than a far one."""
    words = [word for part in reversed(path.split("/")) for word in reversed(_words(part))]
    return next((_ROLE_OF[word] for word in words if word in _ROLE_OF), ("", ""))


def _words(part: str) -> list[str]:
    """`UserService.spec.ts` → user, service, spec: the extension is no word of it."""
    name = part.rpartition(".")[0] or part
    return [word for token in identifiers(name) for word in split_identifier(token)]


def enriched(
    hits: Sequence[Hit],
    relations: Mapping[str, Relations],
    hints: Mapping[str, tuple[str, str]],
    tests: frozenset[str],
    callers: Mapping[tuple[str, str], Sequence[str]],
) -> tuple[Hit, ...]:
    """`callers` are keyed by path and qualified name."""
    return tuple(
        changed(hit, context=context(hit, relations, hints, tests, callers.get((hit.path, hit.symbol), ())))
        for hit in hits
    )
