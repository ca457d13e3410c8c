"""What the header of a definition says: signature, bases, visibility. Headers are short, so they are read as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codeinfo.index.grammars import Grammar
from codeinfo.index.source import Source
from codeinfo.model import Definition

if TYPE_CHECKING:
    from tree_sitter import Node

Header = tuple[int, tuple[int, int], int]  # start of the node, span of the name, end of the header

MAX_SIGNATURE = 200
_MAX_HEADER = 1000  # characters looked at
_BODIES = frozenset({"class_body", "function_body", "enum_class_body", "do_block", "Block", "block", "template_body"})
_ATTRIBUTE = re.compile(r"^\s*(?:@|\[|#\[)")
_TAIL = re.compile(r"(?:[\s{:=]|=>|\bdo|\bwhere|,\s*do:)+$")
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_HERITAGE_WORD = re.compile(r"\b(?:extends|implements|with|permits|derives)\b")
_DOTTED = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|\\)[^\W\d][\w$]*)*")
_MODIFIERS = re.compile(r"\b(?:public|private|protected|internal|virtual|override|final|typename|class|unchecked)\b")


def header_end(node: Node, kind: str, source: Source) -> int | None:
    """Where the body starts, or None when there is none."""
    body = node.child_by_field_name("body")
    if body is None:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if value is not None:
            body = value.child_by_field_name("body")
    if body is None and kind != "macro":
        body = next((child for child in reversed(node.children) if child.type in _BODIES), None)
    return None if body is None else body.start_byte // source.unit_bytes


def signature_of(text: str, header: Header, *, has_body: bool, is_scope: bool) -> str:
    """The header on one line, without attributes and without the sign that opens the body."""
    start, (name_start, name_end), end = header
    before = text[max(start, name_start - _MAX_HEADER) : name_start]
    if "\n" in before:
        before = "\n".join(line for line in before.split("\n") if not _ATTRIBUTE.match(line))
    rest = text[name_start : min(end, name_end + _MAX_HEADER)]
    if not has_body and not (is_scope and "(" in rest.partition("\n")[0] and len(rest) < 2 * MAX_SIGNATURE):
        rest = rest.partition("\n")[0]
    return _TAIL.sub("", " ".join((before + rest).split())[:MAX_SIGNATURE])


def bases_of(text: str, header: Header, grammar: Grammar) -> tuple[str, ...]:
    """Names of what a type extends or implements."""
    if grammar.heritage == "none":
        return ()
    _, (_, name_end), end = header
    rest = text[name_end : min(end, name_end + _MAX_HEADER)]
    if grammar.heritage == "parens":
        return _python_bases(rest)
    if grammar.heritage == "less":
        match = re.match(r"\s*<\s*([\w:]+)", rest)
        return (match.group(1),) if match else ()
    rest = _flat(rest)
    if grammar.heritage == "words":
        pieces = _HERITAGE_WORD.split(rest)[1:]
    else:
        _, colon, after = rest.partition(":")
        pieces = [re.split(r"\bwhere\b", after)[0]] if colon else []
    names = (_DOTTED.search(_MODIFIERS.sub(" ", part)) for piece in pieces for part in re.split(r"[,+&]", piece))
    return tuple(dict.fromkeys(match.group() for match in names if match and match.group() not in grammar.keywords))


def _python_bases(rest: str) -> tuple[str, ...]:
    if not rest.lstrip().startswith("("):
        return ()
    inside = _flat(rest.strip().removeprefix("(").rstrip(": \n").removesuffix(")"))
    names = (_DOTTED.match(part.strip()) for part in inside.split(",") if "=" not in part)
    return tuple(match.group() for match in names if match)


def _flat(text: str) -> str:
    """Without anything in brackets."""
    while True:
        shorter = _NESTED.sub(" ", text)
        if shorter == text:
            return text
        text = shorter


def is_exported(source: Source, header: Header, name: str, rule: str, outer: Definition | None) -> bool:
    """By the language's custom; `before` is what stands on the header's lines in front of the name."""
    start, (name_start, _), _ = header
    line_start = source.line_start(source.line_of(start))
    before = source.text[max(line_start, name_start - _MAX_HEADER) : name_start]
    if rule == "underscore":
        return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))
    if rule == "capital":
        return name[:1].isupper()
    if rule == "export":
        written = source.text[header[1][0] : header[1][1]]
        if outer is not None and outer.kind not in {"namespace", "module"}:
            return (
                outer.exported and not written.startswith("#") and not re.search(r"\b(?:private|protected)\b", before)
            )
        return "export" in before or written.startswith(("exports.", "module.exports"))
    if rule == "pub":
        return "pub" in before or (outer is not None and (outer.kind in {"trait", "enum"} or bool(outer.bases)))
    if rule == "not-private":
        return not re.search(r"\b(?:private|fileprivate|protected)\b", before)
    if rule == "csharp":
        open_by_default = outer is None or outer.kind in {"interface", "enum", "namespace"}
        return bool(re.search(r"\b(?:public|protected|internal)\b", before)) or (
            open_by_default and "private" not in before
        )
    if rule == "not-static":
        return outer is not None or "static" not in before
    if rule == "not-local":
        return "local" not in before
    return True
