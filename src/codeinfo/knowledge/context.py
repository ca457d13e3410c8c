"""Results → context: what a result is, who uses it, whether it is tested, and whether such code is still written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from codeinfo.graph.model import Relations
from codeinfo.knowledge.patterns import FileHints
from codeinfo.model import FileKind, Hit, HitContext
from codeinfo.tokens import identifiers, split_identifier

MOST_LISTED = 3


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


def file_context(path: str, relations: Mapping[str, Relations]) -> HitContext:
    """What surrounds a file, whichever part of it is a result. `relations` are those of the file and of the first files
    that use it."""
    own = relations[path]
    return HitContext(
        imported_by_count=len({importer for importer, _ in own.imported_by}),
        has_tests=bool(own.tests),
        consumers=_consumers(path, own.used_by, relations),
        tests=tuple(own.tests[:MOST_LISTED]),
    )


def _consumers(path: str, users: Sequence[tuple[str, int]], relations: Mapping[str, Relations]) -> tuple[str, ...]:
    """Files that reach a file through those that use it, the ones that need most of these first."""
    direct = {user for user, _ in users} | {path}
    counts: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for user, _ in users[:MOST_LISTED]:
        for consumer, line in relations[user].used_by if user in relations else ():
            if consumer not in direct:
                counts[consumer] += 1
                lines.setdefault(consumer, line)
    best = sorted(counts, key=lambda consumer: (-counts[consumer], consumer))[:MOST_LISTED]
    return tuple(f"{consumer}:{lines[consumer]}" for consumer in best)


def hit_context(
    hit: Hit, around: HitContext, hint: tuple[str, str] = ("", ""), callers: Sequence[str] = ()
) -> HitContext:
    """`callers` are definitions that call the result; `hint` is how its way to write code is going, and a warning."""
    (kind, layer), (trend, warning) = role(hit), hint
    listed = tuple(callers[:MOST_LISTED])
    return replace(around, type=kind, layer=layer, callers=listed, trend=trend, pattern_warning=warning)


def role(hit: Hit) -> tuple[str, str]:
    """Type and layer: by what the file is for, by the words of its path, else by the kind of definition alone."""
    if hit.kind in _KINDS:
        return _KINDS[hit.kind]
    type_, layer = path_role(hit.path)
    return type_ or hit.symbol_kind, layer


@lru_cache(maxsize=4096)
def path_role(path: str) -> tuple[str, str]:
    """The file's own name says more than its folders, and a near folder more than a far one."""
    # `UserService.spec.ts` → user, service, spec: the extension says nothing.
    names = [part.rpartition(".")[0] or part for part in reversed(path.split("/"))]
    words = (word for name in names for token in identifiers(name)[::-1] for word in split_identifier(token)[::-1])
    return next((_ROLE_OF[word] for word in words if word in _ROLE_OF), ("", ""))


def add_context(
    hits: Sequence[Hit],
    files: Mapping[str, HitContext],
    hints: Mapping[str, FileHints],
    callers: Mapping[tuple[str, str], Sequence[str]],
) -> tuple[Hit, ...]:
    """`files` and `hints` are by path, `callers` by path and qualified name."""
    return tuple(
        replace(
            hit,
            context=hit_context(
                hit,
                files.get(hit.path, HitContext()),
                hints[hit.path].of_lines(hit.start_line, hit.end_line) if hit.path in hints else ("", ""),
                callers.get((hit.path, hit.symbol), ()),
            ),
        )
        for hit in hits
    )
