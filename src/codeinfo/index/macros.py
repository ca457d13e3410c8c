"""C and C++ macros that stand where the grammar expects none, hidden from the parser.

`namespace a { A_NAMESPACE_BEGIN class B { … }` reads as one broken declaration to a parser without a preprocessor, and
with it every definition inside is lost. Each such macro becomes spaces of the same length; only the parser sees them.
"""

from __future__ import annotations

import re

_MACRO = re.compile(r"[A-Z][A-Z0-9_]{3,}(?:\([\w.,>&*-]*\))?(?=[ \t]*(?:;|=|\r?\n|\w))")
_SCAFFOLD = re.compile(r"Q_OBJECT|Q_GADGET|\w*(?:_BEGIN|BEGIN_|_END|END_|NAMESPACE|DECLS)\w*")
_DECORATION = re.compile(r"\w+(?:_API|_EXPORT|_EXTERN|_INLINE|_ATTRIBUTE_\w+)|\w*(?:CONSTEXPR|NODISCARD|DEPRECATED)\w*")
# What compilers understand as attributes, wherever it stands: `void f() A_ATTRIBUTE_COLD {`, `char* a_nonnull name`.
_ATTRIBUTE = re.compile(
    r"\b(?:[A-Z]\w*_ATTRIBUTE_[A-Z0-9_]+(?:\([\w.,>&* -]{0,200}\))?"
    r"|[a-z]\w*_(?:nonnull|nullable|nullability_unknown)|_Nonnull|_Nullable"
    r"|(?<=[)] )[A-Z][A-Z0-9]*_(?:EXCLUSIVE|SHARED|LOCKS|UNLOCK|NO_THREAD|GUARDED)\w*(?:\([\w.,>&* ()-]{0,200}\))?)"
    r"(?=[\s,;)&*{])"
)


def hide_macros(text: str) -> str:
    if "#define" in text:  # the definition of such a macro keeps its name
        return _MACRO.sub(_hidden, _ATTRIBUTE.sub(_hidden_use, text))
    return _MACRO.sub(_hidden, _ATTRIBUTE.sub(_spaces, text))


def _spaces(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _hidden_use(match: re.Match[str]) -> str:
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return match.group() if line.lstrip().startswith("#") else _spaces(match)


def _hidden(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    before, after = text[max(0, start - 8) : start], text[end : end + 3]
    macro = match.group()
    called = macro.endswith(")")
    hide = False
    if before[-1:] in {"", "\n"} or before.isspace() or before.rpartition("\n")[2].isspace():
        alone = after.lstrip(" \t;\r")[:1] in {"", "\n"}
        hide = (_SCAFFOLD if alone else _DECORATION).fullmatch(macro) is not None
    elif before.endswith((" class ", "\nclass ", " struct ", "\nstruct ")):
        hide = after[:1] == " " and after[1:2].isidentifier()  # class A_EXPORT Name
    elif called:
        hide = before[-1] == " " and before[-2:-1].isidentifier() and after.lstrip(" ")[:1] in {";", "="}  # guarded_by
    else:
        hide = before.endswith(") ") and after[:1] == ";"
    return " " * len(macro) if hide else macro
