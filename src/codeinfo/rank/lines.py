"""What a line of code is, by how it begins and ends: enough to choose lines by, in any language, without a parser."""

from __future__ import annotations

from enum import Enum

LINE_READ = 200  # characters of a line that tell what it is
MODIFIERS_READ = 6  # words before the one that says what is defined


class LineKind(Enum):
    BLANK = "blank"
    IMPORT = "import"
    COMMENT = "comment"
    ATTRIBUTE = "attribute"  # belongs to the definition below it: a decorator, an annotation
    DEFINITION = "definition"  # the first line of one
    OTHER = "other"


_ATTRIBUTES = ("@", "#[", "#![", "template<", "template <")
_COMMENTS = ("//", "/*", "* ", "*/", "#", "--", ";", "%", '"""', "'''", "<!--", "{-")
_IMPORTS = frozenset("import use require require_relative require_once include package alias #include".split())
_MAY_IMPORT = frozenset("from using const let var export".split())
_DEFINERS = frozenset(
    """
    class def defmacro defmodule defp enum extension fn fun func function impl instance interface macro_rules! module
    namespace newtype object proc protocol record struct sub trait type union #define
    """.split()
)
_MODIFIERS = frozenset(
    """
    abstract async case const constexpr data declare default explicit export extern final implicit indirect inline
    internal lazy local mutating open override partial private protected pub public readonly sealed static suspend
    typedef unsafe virtual
    """.split()
)
_CONTROL = frozenset(
    """
    if for while switch catch else elif elsif return match when foreach with do try unless until case loop select
    synchronized using lock guard defer throw yield await new
    """.split()
)


def line_kind(line: str) -> LineKind:
    bare = line[:LINE_READ].strip()
    if not bare:
        return LineKind.BLANK
    if bare.startswith(_ATTRIBUTES):
        return LineKind.ATTRIBUTE
    first = _word(bare.split(None, 1)[0])
    if first in _IMPORTS or (first in _MAY_IMPORT and _imports(first, bare)):
        return LineKind.IMPORT
    if bare == "*" or (bare.startswith(_COMMENTS) and first != "#define"):
        return LineKind.COMMENT
    return LineKind.DEFINITION if _defines(first, bare, line[0].isspace()) else LineKind.OTHER


def _word(word: str) -> str:
    """`pub(crate)` → pub, `impl<T>` → impl."""
    return word if word.isalpha() else word.partition("(")[0].partition("<")[0]


def _imports(first: str, bare: str) -> bool:
    if first == "from":
        return " import " in bare
    if first == "using":
        return bare.endswith(";") and "(" not in bare
    return "= require(" in bare or " from " in bare


def _defines(first: str, bare: str, indented: bool) -> bool:
    if first in _DEFINERS:
        return True
    if first in _MODIFIERS:
        for word in map(_word, bare.split(None, MODIFIERS_READ)[1:MODIFIERS_READ]):
            if word in _DEFINERS:
                return True
            if word not in _MODIFIERS:
                break
    # `int main(void) {`, `send(body) {`, `exports.send = function (body) {`; in C the brace may be on the next line.
    if bare.endswith(("{", "=>")):
        opens = True
    else:
        opens = not indented and bare.endswith(")") and " " in bare and "=" not in bare
    return opens and "(" in bare and (first.lstrip("}") or "else") not in _CONTROL
