"""What several families have in common: import statements, what a type extends, visibility, types of variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codeinfo.languages.model import Declared
from codeinfo.model import Import

COMMENT = re.compile(r"//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/")
AS = re.compile(r"\s+as\s+|\s*=>\s*|\s+=\s+")
QUOTED = re.compile(r"""["'`]([^"'`\n]+)["'`]""")
DOTTED_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|\\)[^\W\d][\w$]*)*")
_DOTTED_START = re.compile(
    r"^(?:@\w+\s+)*(?:global\s+)?(?P<word>import|using|export)\s+(?P<static>static\s+)?"
    r"(?:(?:type|given|unsafe|typealias|struct|class|enum|protocol|let|var|func)\s+)*"
)
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_HERITAGE_WORD = re.compile(r"\b(?:extends|implements|with|permits|derives)\b")
_MODIFIERS = re.compile(r"\b(?:public|private|protected|internal|virtual|override|final|typename|class|unchecked)\b")
_TYPE_FIRST = re.compile(r"\b([A-Z]\w*)(?:<[^<>]*>)?[&*\s]\s*\$?\Z")
_DECLARED = re.compile(r"\s*[=;,):]")
FAR = 400  # characters before a name: looking further would take for ever in a giant line

# --- import statements ---------------------------------------------------------------------------------------------


def grouped(module: str, line: int, taken: Sequence[tuple[str, str]], *, reexport: bool = False) -> Iterator[Import]:
    """One import for all names that keep their name, one more for each that gets another."""
    unchanged = tuple(name for name, alias in taken if not alias)
    if unchanged:
        yield Import(module, line, unchanged, reexport=reexport)
    for name, alias in taken:
        if alias:
            yield Import(module, line, (name,), alias, reexport)


def items(listed: str) -> list[tuple[str, str]]:
    """`a, b as c` → (a, ""), (b, c)."""
    pairs = []
    for item in listed.split(","):
        name, *alias = AS.split(item.strip(), maxsplit=1)
        if name:
            pairs.append((name.strip(), alias[0].strip() if alias else ""))
    return pairs


def plain(statement: str) -> str:
    """A statement on one line, without comments and its end."""
    return " ".join(COMMENT.sub("", statement).split()).rstrip("; ")


def dotted_import(statement: str, line: int) -> Iterator[Import]:
    """Java, Kotlin, Scala, Swift, C#: `import [static] a.b.C [as D]`, `a.b.*`, `a.b.{C, D => E}`, `using X = a.b`."""
    text = plain(statement)
    start = _DOTTED_START.match(text)
    if start is None:
        return
    reexport, is_static = start["word"] == "export", start["static"] is not None
    text = text[start.end() :]
    # A comma inside of braces or of a type's brackets parts no imports.
    for part in re.split(r",(?![^{]*\})(?![^<]*>)", text):
        path, brace, listed = part.strip().partition("{")
        if brace:
            taken = [("*" if name in {"_", "*"} else name, alias) for name, alias in items(listed.rstrip("} "))]
            yield from grouped(path.rstrip(". "), line, [pair for pair in taken if pair[1] != "_"], reexport=reexport)
            continue
        if re.match(r"\w+ = ", path):
            alias, _, path = path.partition(" = ")
        else:
            path, *renamed = AS.split(path, maxsplit=1)
            alias = renamed[0].strip() if renamed else ""
        head, _, last = path.rpartition(".")
        if last in {"*", "_"}:
            yield Import(head, line, ("*",), "", reexport)
        elif is_static and head and start["word"] == "import":
            yield Import(head, line, (last,), alias, reexport)
        elif path:
            yield Import(path, line, ("*",) if is_static else (), alias, reexport)


# --- headers of definitions ----------------------------------------------------------------------------------------


def without_brackets(text: str) -> str:
    """Without anything in brackets."""
    while True:
        shorter = _NESTED.sub(" ", text)
        if shorter == text:
            return text
        text = shorter


def bases_behind_words(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    """`class A extends B implements C`."""
    return _base_names(_HERITAGE_WORD.split(without_brackets(rest))[1:], keywords)


def bases_behind_colon(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    """`class A : B, C`."""
    _, colon, after = without_brackets(rest).partition(":")
    return _base_names([re.split(r"\bwhere\b", after)[0]] if colon else [], keywords)


def _base_names(pieces: Sequence[str], keywords: frozenset[str]) -> tuple[str, ...]:
    names = (DOTTED_NAME.search(_MODIFIERS.sub(" ", part)) for piece in pieces for part in re.split(r"[,+&]", piece))
    return tuple(dict.fromkeys(match.group() for match in names if match and match.group() not in keywords))


def without_underscore(declared: Declared) -> bool:
    name = declared.name
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def marked_pub(declared: Declared) -> bool:
    outer = declared.outer
    return "pub" in declared.before or (outer is not None and (outer.kind in {"trait", "enum"} or bool(outer.bases)))


def not_private(declared: Declared) -> bool:
    return not re.search(r"\b(?:private|fileprivate|protected)\b", declared.before)


# --- variables -----------------------------------------------------------------------------------------------------


def type_first(line: str, start: int, end: int) -> tuple[int, str] | None:
    """`Type name = …`, `Type& name,`."""
    before = line[start - 1 : start]
    if before.isalnum() or before == "_" or not _DECLARED.match(line, end):
        return None
    match = _TYPE_FIRST.search(line, max(0, start - FAR), start)
    return (match.start(), match.group(1)) if match else None
