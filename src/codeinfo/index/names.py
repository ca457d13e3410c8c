"""Names as written in code, taken apart: `Outer::inner<T>` is `inner` of `Outer`."""

from __future__ import annotations

import re

_BRACKETS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_SEPARATOR = re.compile(r"::|\.|\\|->|:")
_REFERENCE_MARKS = re.compile(r"^(?:[&*?!\s]|'\w+\s|(?:mut|dyn|const|static|extern)\s)+")
# Objects that only stand for "what this module offers" or "the thing itself".
_TRANSPARENT = frozenset({"exports", "module", "prototype", "this", "self", "Self", "window", "global", "_G"})
_MAX_NAME = 200


def split_name(written: str, kind: str) -> tuple[tuple[str, ...], str]:
    """Qualifying names and the name itself; an empty name means there is nothing to define."""
    if written.isidentifier():
        return (), written
    if len(written) > _MAX_NAME:
        return (), ""
    text = written.strip('"`:$# \t\r\n')
    if text.startswith("'"):  # at the end it belongs to a Haskell name
        text = text.strip("'")
    if kind == "alias":
        text = text.rstrip("=")
    if kind == "package":
        return (), "".join(text.split())
    if "operator" in text:
        return _split_operator(text)
    if not re.search(r"\w", text):
        return (), text.strip("() ")
    text = _REFERENCE_MARKS.sub("", _without_brackets(text))
    parts = [part.strip() for part in _SEPARATOR.split(text)]
    parts = [part for part in parts if part and part not in _TRANSPARENT]
    if not parts or not all(re.fullmatch(r"[~#@]?[\w$'?!=-]+", part) for part in parts):
        head = re.match(r"[\w$']+", text) if kind in {"impl", "instance", "extension", "type"} else None
        return (), head.group() if head else ""
    return tuple(parts[:-1]), parts[-1]


def _split_operator(text: str) -> tuple[tuple[str, ...], str]:
    """C++ operators keep their signs: `Point::operator<<`."""
    qualifier, _, sign = text.partition("operator")
    parts = [part.strip() for part in _without_brackets(qualifier).split("::") if part.strip()]
    sign = " ".join(sign.split())
    if sign[:1].isalpha() or sign[:1] == ":":  # a conversion, `operator bool() const`, or `operator new[]`
        return tuple(parts), "operator " + sign.partition("(")[0].rstrip()
    return tuple(parts), "operator" + sign


def _without_brackets(text: str) -> str:
    while True:
        shorter = _BRACKETS.sub("", text)
        if shorter == text:
            return text
        text = shorter
