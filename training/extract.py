"""Source text → training records (doc comment, name, container, code).

A line scanner, not a syntax tree: a doc comment and the declaration under it look alike in all twenty languages, the
scanner reads several megabytes a second, and a missed declaration costs nothing where there are millions. What has to
agree with the product is the words, and those come from ``codeinfo.tokens``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

CODE_CHARS = 720  # about one chunk of the product's chunker
DOC_CHARS = 320
MAX_FILE_CHARS = 400_000
PER_FILE = 40


class Record(Struct, frozen=True):
    lang: str
    path: str
    name: str
    container: str
    doc: str
    code: str


EXTENSIONS = {
    ".py": "python", ".pyx": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "typescript", ".mts": "typescript", ".go": "go",
    ".rs": "rust", ".java": "java", ".kt": "kotlin", ".kts": "kotlin", ".scala": "scala", ".swift": "swift",
    ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp",
    ".cs": "csharp", ".php": "php", ".rb": "ruby", ".lua": "lua", ".ex": "elixir", ".exs": "elixir",
    ".hs": "haskell", ".zig": "zig", ".sh": "bash", ".bash": "bash", ".zsh": "bash", ".md": "markdown",
}  # fmt: skip

SLASH = frozenset(
    "javascript typescript go rust java kotlin scala swift c cpp csharp php zig".split()
)  # languages whose comments are // and /* */
HASH = frozenset("python ruby bash elixir".split())
DASH = frozenset("lua haskell".split())

_MODS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|async|override|open|sealed"
    r"|inline|virtual|const|extern|unsafe|partial|readonly|suspend|data|implicit|case|lazy|fileprivate|mutating|noinline"
    r"|inout|operator|infix|tailrec|value|annotation|inner|companion|pub(?:\([^)]*\))?|\"C\"|threadlocal|comptime"
    r"|synchronized|native|explicit|constexpr|friend|typedef|template\s*<[^>]*>)\s+)*"
)
_TYPES = (
    r"(?:class|interface|enum(?:\s+class|\s+struct)?|struct|record|object|trait|protocol|extension|actor|module|union)"
)
_FUNCS = r"(?:function\*?|func|fun|fn|def|macro_rules!|type|typealias|delegate)"
_CALLS = (
    r"(?:if|for|while|switch|return|else|catch|throw|new|await|typeof|elif|until|case|do|try|sizeof|assert|delete|print"
    r"|using|defined)"
)
_STATEMENT = re.compile(_CALLS + r"\b(?! class| object)")
_C_HEAD = re.compile(r"[\w\s:<>,\[\]*&.?~@]+$")
_LAST_NAME = re.compile(r"(~?\w+)\s*(?:<[^<>]*>)?\s*$")
_METHOD = re.compile(
    _MODS + r"(?:get\s+|set\s+|\*)?(?!" + _CALLS + r"\b)([A-Za-z_$][\w$]*)\s*(?:<[^>]*>)?\([^;]*\{\s*$"
)
_ARROW = re.compile(_MODS + r"(?:const|let|var)\s+([\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function|\(|[\w$]+\s*=>)")
_KEYED = re.compile(
    _MODS
    + r"(?:"
    + _TYPES
    + r"|"
    + _FUNCS
    + r")\s+(?:<[^>]*>\s*)?(?:\([^)]*\)\s*)?(?:[\w<>]+\.)?(?:self\.)?`?([A-Za-z_$][\w$]*[?!]?)"
)
_MEMBER = re.compile(
    r"(?:exports|module\.exports|[A-Z]\w*\.prototype|[A-Za-z_]\w*)\.([\w$]+)\s*=\s*(?:async\s*)?(?:function|\()"
)
_GO = re.compile(r"(?:func\s+(?:\([^)]*\)\s*)?|type\s+)(\w+)")
_LUA = re.compile(r"(?:local\s+)?function\s+(?:\w+[.:])*(\w+)|(?:local\s+)?(?:\w+\.)*(\w+)\s*=\s*function")
_BASH = re.compile(r"function\s+([\w:.-]+)|([\w:.-]+)\s*\(\)\s*\{?\s*$")
_HASKELL = re.compile(r"([a-z_][\w']*)\s*::|(?:data|newtype|class|type)\s+(?:[^=]*=>\s*)?([A-Z]\w*)")
_ELIXIR = re.compile(r"(?:def|defp|defmacro|defmodule|defguard|defprotocol)\s+([\w.]+[?!]?)")
_ZIG = re.compile(
    r"(?:pub\s+|export\s+|inline\s+|extern\s+)*(?:fn|const)\s+(\w+)\s*(?:\(|=\s*(?:struct|enum|union|packed|extern|opaque))"
)
_PYTHON = re.compile(r"(?:async\s+)?(?:def|class|cdef|cpdef)\s+(\w+)")
_RUBY = re.compile(r"(?:def\s+(?:self\.)?|class\s+(?:\w+::)*|module\s+(?:\w+::)*)(\w+[?!]?)")
_RUST = re.compile(_MODS + r"(?:fn|struct|enum|trait|type|union|macro_rules!|mod|impl(?:<[^>]*>)?)\s+(\w+)")

_ONE = {"go": (_GO,), "lua": (_LUA,), "bash": (_BASH,), "haskell": (_HASKELL,), "elixir": (_ELIXIR,), "zig": (_ZIG,),
        "python": (_PYTHON,), "ruby": (_RUBY,), "rust": (_RUST,), "c": (_KEYED,), "cpp": (_KEYED,),
        "java": (_KEYED, _METHOD), "csharp": (_KEYED, _METHOD), "php": (_KEYED,),
        "javascript": (_KEYED, _ARROW, _MEMBER, _METHOD), "typescript": (_KEYED, _ARROW, _MEMBER, _METHOD),
        "kotlin": (_KEYED,), "scala": (_KEYED,), "swift": (_KEYED, re.compile(_MODS + r"(init)\b"))}  # fmt: skip
_CONTAINER = re.compile(
    _MODS
    + r"(?:class|interface|struct|object|trait|protocol|extension|actor|module|impl(?:<[^>]*>)?|defmodule|enum)\s+"
    r"(?:[\w:<>]+\s+for\s+)?([\w.:]+)"
)

_SKIP_PATH = re.compile(
    r"(^|/)(tests?|testing|__tests__|specs?|testdata|fixtures?|vendor|vendored|third[-_]?party|node_modules|dist|build|bundles?"
    r"|umd|esm|cjs|coverage|deps|extern|externals?|gen|generated|locale|i18n|examples?|samples?|demos?|bench(marks?)?)(/|$)"
    r"|\.min\.|_test\.|\.test\.|\.spec\.|\.d\.[cm]?ts$|_pb2?\.|\.pb\.|/parser\.c$|-bundle|\.bundle\.|\.prod\.|\.generated\.",
    re.I,
)
_LICENCE = re.compile(
    r"copyright|licen[sc]e|spdx|all rights reserved|generated by|auto-?generated|do not edit|warranty|permission is",
    re.I,
)
_NOISE = re.compile(
    r"^(todo|fixme|xxx|hack|eslint|tslint|istanbul|ts-ignore|@ts-|noqa|pylint|type:|nolint|clang-format|region|endregion"
    r"|go:|mark:|pragma|include|ifdef|ifndef|endif|define|import|vim:|-\*-|shellcheck|rubocop|see https?:|=+$|-+$)",
    re.I,
)
_TAG = re.compile(
    r"^\s*(@\w+|\\(?:param|return|brief)|:param|:returns?|:rtype|:raises|:type|Args:|Arguments:|Parameters:?$"
    r"|Returns:|Raises:|Examples?:|>>>|```|# Examples?|# Errors|# Panics|# Safety|#+ |<summary>\s*$)",
    re.I,
)
_MARKUP = (
    (re.compile(r"\{@\w+\s+([^}]*)\}"), r"\1"), (re.compile(r"<see cref=\"(?:\w:)?([^\"]*)\"\s*/>"), r"\1"),
    (re.compile(r"<[^>]{1,80}>"), " "), (re.compile(r":\w+:`~?([^`]*)`"), r"\1"),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"https?://\S+"), " "), (re.compile(r"[`*]{1,3}"), ""), (re.compile(r"\s+"), " "),
)  # fmt: skip


def language_of(path: str) -> str | None:
    """The language of a file worth reading, or None for tests, builds, bundles and unknown kinds."""
    if _SKIP_PATH.search(path):
        return None
    return EXTENSIONS.get(PurePosixPath(path).suffix.lower())


def clean_doc(lines: list[str]) -> str:
    """The describing part of a doc comment: up to the first tag, markup removed; '' where it says nothing useful."""
    described: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith(("@brief", "\\brief", "@summary", "@description", "@doc ", "@desc")):
            text = text.split(None, 1)[1] if " " in text else ""
        elif described and _TAG.match(text):
            break
        elif _TAG.match(text):
            continue
        if not text and sum(map(len, described)) > 40:
            break
        if text and not _NOISE.match(text):
            described.append(text)
    doc = " ".join(described)
    if _LICENCE.search(doc):
        return ""
    for pattern, replacement in _MARKUP:
        doc = pattern.sub(replacement, doc)
    doc = doc.strip(" -:*/#!|^<")[:DOC_CHARS]
    ascii_chars = sum(c.isascii() for c in doc)
    words = re.findall(r"[A-Za-z]{2,}", doc)
    if len(words) < 3 or ascii_chars < 0.95 * len(doc) or sum(map(len, words)) < 0.6 * len(doc):
        return ""
    return doc


def _declared(lang: str, stripped: str) -> str | None:
    if _STATEMENT.match(stripped):
        return None
    for pattern in _ONE.get(lang, ()):
        match = pattern.match(stripped)
        if match:
            return next((group for group in match.groups() if group), None)
    return _c_function(stripped) if lang in ("c", "cpp", "java", "csharp") else None


def _c_function(stripped: str) -> str | None:
    """`static int name(…`: a type, a name, a bracket. By splitting: one expression for it backtracks for hours."""
    head, bracket, _ = stripped.partition("(")
    if not bracket or len(head.split()) < 2 or not _C_HEAD.match(head):
        return None
    match = _LAST_NAME.search(head)
    return match[1] if match and not _STATEMENT.match(match[1]) else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _body(lines: list[str], start: int) -> str:
    """The declaration and what belongs to it: until the next line that is no deeper and opens something else."""
    depth, size, out = _indent(lines[start]), 0, []
    for i in range(start, min(start + 60, len(lines))):
        line = lines[i]
        if i > start + 1 and line.strip() and _indent(line) <= depth and line.strip()[0] not in "{}])|=":
            break
        out.append(line[:200])
        size += len(line) + 1
        if size > CODE_CHARS:
            break
    return "\n".join(out)[:CODE_CHARS].rstrip()


def _block_comment(lines: list[str], i: int, end: str) -> tuple[list[str], int]:
    out: list[str] = []
    while i < len(lines) and len(out) < 80:
        line = lines[i]
        i += 1
        done = end in line
        out.append(line.split(end, 1)[0].strip().lstrip("/*{-|").lstrip())
        if done:
            break
    return out, i


def _comment_at(lang: str, lines: list[str], i: int) -> tuple[list[str], int] | None:
    """The comment that starts on line i and the line after it, or None."""
    s = lines[i].lstrip()
    if lang in SLASH and s.startswith("/*"):
        return _block_comment(lines, i, "*/")
    if lang == "haskell" and s.startswith("{-"):
        return _block_comment(lines, i, "-}")
    if lang == "elixir" and s.startswith(('@doc """', '@moduledoc """', '@doc ~S"""')):
        return _block_comment(lines, i + 1, '"""')
    mark = next((sign for sign, langs in (("//", SLASH), ("#", HASH), ("--", DASH)) if lang in langs), None)
    if mark is None or not s.startswith(mark) or s.startswith("#!"):
        return None
    out = []
    while i < len(lines) and lines[i].lstrip().startswith(mark) and len(out) < 80:
        out.append(lines[i].strip().lstrip("/#-!|^").strip())
        i += 1
    return out, i


def _docstring(lines: list[str], i: int) -> list[str]:
    """Python: the docstring under the declaration on line i."""
    while i < len(lines) and not lines[i].rstrip().endswith(":"):
        i += 1
        if i >= len(lines) or not lines[i].strip():
            return []
    for quote in ('"""', "'''"):
        first = lines[i + 1].strip() if i + 1 < len(lines) else ""
        body = first.lstrip("rRuUbB")
        if body.startswith(quote):
            rest = body[3:]
            if quote in rest:
                return [rest.split(quote, 1)[0]]
            return [rest, *_block_comment(lines, i + 2, quote)[0]]
    return []


def _without_docstring(code: str) -> str:
    return re.sub(r'[rRuU]?("""|\'\'\')[\s\S]*?(\1|$)', "", code, count=1)


def _code_records(lang: str, path: str, lines: list[str]) -> Iterator[Record]:
    containers: list[tuple[int, str]] = []
    doc_lines: list[str] = []
    outline: list[str] = []
    head: str | None = None
    count = i = 0
    while i < len(lines) and count < PER_FILE:
        line = lines[i]
        stripped = line.strip()
        comment = _comment_at(lang, lines, i) if stripped else None
        if comment:
            if head is None or not head:
                head = clean_doc(comment[0]) if not outline else ""
            doc_lines, i = comment[0], max(comment[1], i + 1)
            continue
        if not stripped or len(line) > 240:
            i += 1
            continue
        if stripped.startswith(("@", "#[", "[", "template", "{-#")) and not (
            lang == "elixir" and stripped.startswith("@doc")
        ):
            i += 1  # annotations and attributes stand between a comment and what it describes
            continue
        name = _declared(lang, stripped)
        if not name:
            doc_lines = []
            i += 1
            continue
        depth = _indent(line)
        containers = [c for c in containers if c[0] < depth]
        doc = clean_doc(doc_lines)
        code = _body(lines, i)
        if lang == "python":
            doc = clean_doc(_docstring(lines, i)) or doc
            # a query is made from the docstring, so leaving it in would teach to match text with itself
            code = _body([ln for ln in _without_docstring("\n".join(lines[i : i + 120])).split("\n") if ln.strip()], 0)
        outline.append(stripped[:120])
        if len(code) > 60 and (doc or len(name) > 5):
            yield Record(lang, path, name, containers[-1][1] if containers else "", doc, code)
            count += 1
        opened = _CONTAINER.match(stripped)
        if opened:
            containers.append((depth, opened[1].split("::")[-1].split(".")[-1]))
        doc_lines = []
        i += 1
    if lang == "python" and lines and lines[0].strip().startswith(('"""', 'r"""', "'''")):
        head = clean_doc(_docstring(["x:", *lines[:60]], 0)) or head
    if head and len(outline) > 2:
        yield Record(lang, path, PurePosixPath(path).stem, "", head, "\n".join(outline)[:CODE_CHARS])


_HEADING = re.compile(r"^(#{1,4})\s+(.+?)\s*#*$")


def _document_records(path: str, lines: list[str]) -> Iterator[Record]:
    """Markdown: heading (with the heading above it) → the section's text."""
    above: dict[int, str] = {}
    title, level, body, fenced = "", 0, [], False
    for line in [*lines, "# end"]:
        fenced ^= line.startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if not heading:
            body.append(line)
            continue
        text = "\n".join(body).strip()
        words = re.findall(r"[A-Za-z]{2,}", text)
        if title and len(words) > 25 and not _LICENCE.search(title) and text.isascii():
            parent = next((above[k] for k in range(level - 1, 0, -1) if k in above), "")
            yield Record("markdown", path, title[:80], parent[:60], f"{title} {parent}"[:120], text[:CODE_CHARS])
        level = len(heading[1])
        title = re.sub(r"[^\w\s.()/-]", " ", _MARKUP[4][0].sub(r"\1", heading[2])).strip()
        above = {k: v for k, v in above.items() if k < level} | {level: title}
        body = []


def records(path: str, text: str) -> list[Record]:
    """All records of one file; [] for files that are generated, minified or in no known language."""
    lang = language_of(path)
    if lang is None or len(text) > MAX_FILE_CHARS:
        return []
    lines = text.replace("\r\n", "\n").split("\n")
    if len(text) / max(len(lines), 1) > 120 and lang != "markdown":
        return []
    if re.search(r"generated|DO NOT EDIT", text[:600]) and lang != "markdown":
        return []
    if lang == "markdown":
        return list(_document_records(path, lines))[:8]
    return list(_code_records(lang, path, lines))
