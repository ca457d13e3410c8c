"""Imports of a file, as written.

Statements come from the syntax tree and are read as text, one reader for each family of languages; languages that
import by calling a function (`require`, `@import`, `source`) are searched in their code, comments left out.

Modules are as written, without quotes. What the writing alone would lose is kept in the language's own way: a C system
header keeps its angle brackets, Ruby's `require_relative` gets a leading `./`, Rust's `mod x;` is `self::x`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from codeinfo.index.syntax import Scan, Source
from codeinfo.model import Import

_MAX_STATEMENT = 20_000  # characters; a longer "import" is data
_COMMENT = re.compile(r"//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/")
_HASH_COMMENT = re.compile(r"#[^\n]*")
_AS = re.compile(r"\s+as\s+|\s*=>\s*|\s+=\s+")
_ECMASCRIPT_FRAME = re.compile(r"\bfrom\b[^}]*$|^(?:import|export)\b(?:\s+type\b(?!\s*from))?")
_DOTTED_START = re.compile(
    r"^(?:@\w+\s+)*(?:global\s+)?(?P<word>import|using|export)\s+(?P<static>static\s+)?"
    r"(?:(?:type|given|unsafe|typealias|struct|class|enum|protocol|let|var|func)\s+)*"
)
_FROM = re.compile(r"""\bfrom\s*["'`]([^"'`\n]+)["'`]""")
_QUOTED = re.compile(r"""["'`]([^"'`\n]+)["'`]""")


def imports_of(found: Scan, source: Source, code: Sequence[str], language: str) -> tuple[Import, ...]:
    imports: list[Import] = []
    read = _STATEMENTS.get(language)
    if read is not None:
        for start, end in sorted(found.imports):
            statement = source.text[start : min(end, start + _MAX_STATEMENT)]
            imports.extend(read(statement, source.line_of(start)))
    search = _CALLS.get(language)
    if search is not None:
        stated = {(entry.module, entry.line) for entry in imports}
        called = _called(search, "\n".join(code))
        imports.extend(entry for entry in called if (entry.module, entry.line) not in stated)
        imports.sort(key=lambda entry: entry.line)
    return tuple(imports)


def _grouped(module: str, line: int, taken: Sequence[tuple[str, str]], *, reexport: bool = False) -> Iterator[Import]:
    """One import for all names that keep their name, one more for each that gets another."""
    kept = tuple(name for name, alias in taken if not alias)
    if kept:
        yield Import(module, line, kept, reexport=reexport)
    for name, alias in taken:
        if alias:
            yield Import(module, line, (name,), alias, reexport)


def _items(listed: str) -> list[tuple[str, str]]:
    """`a, b as c` → (a, ""), (b, c)."""
    pairs = []
    for item in listed.split(","):
        name, *alias = _AS.split(item.strip(), maxsplit=1)
        if name:
            pairs.append((name.strip(), alias[0].strip() if alias else ""))
    return pairs


def _python(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(_HASH_COMMENT.sub("", statement).replace("\\", " ").replace("(", " ").replace(")", " ").split())
    if text.startswith("from"):
        module, _, names = text[4:].partition(" import ")
        yield from _grouped(module.replace(" ", ""), line, _items(names))
    else:
        for module, alias in _items(text.removeprefix("import ")):
            yield Import(module, line, (), alias)


def _ecmascript(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(_COMMENT.sub("", statement).split())
    written = _FROM.search(text) or _QUOTED.search(text)
    if not written:
        return
    module, reexport = written.group(1), text.startswith("export")
    bound = _QUOTED.sub("", _ECMASCRIPT_FRAME.sub("", text)).strip("; ")
    required = re.fullmatch(r"(\w+)\s*=\s*require\(.*", bound)
    if required:
        yield Import(module, line, (), required.group(1))
        return
    outside, brace, listed = bound.partition("{")
    taken: list[tuple[str, str]] = []
    for item in filter(None, (part.strip() for part in outside.split(","))):
        if item.startswith("*"):
            alias = item.partition(" as ")[2].strip()
            yield Import(module, line, () if alias else ("*",), alias, reexport)
        else:
            taken.append(("default", item))
    if brace:
        taken += [(name.removeprefix("type "), alias) for name, alias in _items(listed.partition("}")[0])]
    yield from _grouped(module, line, taken, reexport=reexport)
    if not bound:
        yield Import(module, line)


def _go(statement: str, line: int) -> Iterator[Import]:
    alias, _, _ = statement.strip().rpartition(" ")
    for module in _QUOTED.findall(statement):
        yield Import(module, line, ("*",) if alias.strip() == "." else (), alias.strip(" ."))


def _rust(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(_COMMENT.sub("", statement).split()).rstrip("; ")
    match = re.match(r"(pub(?:\s*\([^)]*\))?\s+)?(?:use|extern crate|mod)\s+", text)
    if not match:
        return
    reexport, rest = bool(match.group(1)), text[match.end() :]
    if match.group().endswith("mod "):
        yield Import(f"self::{rest}", line)
        return
    if match.group().endswith("crate "):
        for module, alias in _items(rest):
            yield Import(module, line, (), alias, reexport)
        return
    for path, alias in _expanded(rest):
        module, _, name = path.rpartition("::")
        if name == "self" or not module:
            yield Import(module or name, line, (), alias, reexport)
        else:
            yield Import(module, line, (name,), alias, reexport)


def _expanded(written: str) -> Iterator[tuple[str, str]]:
    """The single paths of `a::{b, c::{d, e as f}}`."""
    prefixes = [""]
    current = ""
    for token in re.findall(r"[{},]|[^{},]+", written):
        if token == "{":
            prefixes.append(prefixes[-1] + current.strip())
            current = ""
        elif token in {",", "}"}:
            if current.strip():
                yield _path(prefixes[-1], current)
            current = ""
            if token == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            current = token
    if current.strip():
        yield _path(prefixes[-1], current)


def _path(prefix: str, item: str) -> tuple[str, str]:
    name, *alias = _AS.split(item.strip(), maxsplit=1)
    return (prefix + name).removeprefix("::"), alias[0].strip() if alias else ""


def _dotted(statement: str, line: int) -> Iterator[Import]:
    """Java, Kotlin, Scala, Swift, C#: `import [static] a.b.C [as D]`, `a.b.*`, `a.b.{C, D => E}`, `using X = a.b`."""
    text = " ".join(_COMMENT.sub("", statement).split()).rstrip("; ")
    start = _DOTTED_START.match(text)
    if start is None:
        return
    reexport, is_static = start["word"] == "export", start["static"] is not None
    text = text[start.end() :]
    # A comma inside of braces or of a type's brackets parts no imports.
    for part in re.split(r",(?![^{]*\})(?![^<]*>)", text):
        path, brace, listed = part.strip().partition("{")
        if brace:
            taken = [("*" if name in {"_", "*"} else name, alias) for name, alias in _items(listed.rstrip("} "))]
            yield from _grouped(path.rstrip(". "), line, [pair for pair in taken if pair[1] != "_"], reexport=reexport)
            continue
        if re.match(r"\w+ = ", path):
            alias, _, path = path.partition(" = ")
        else:
            path, *renamed = _AS.split(path, maxsplit=1)
            alias = renamed[0].strip() if renamed else ""
        head, _, last = path.rpartition(".")
        if last in {"*", "_"}:
            yield Import(head, line, ("*",), "", reexport)
        elif is_static and head and start["word"] == "import":
            yield Import(head, line, (last,), alias, reexport)
        elif path:
            yield Import(path, line, ("*",) if is_static else (), alias, reexport)


def _include(statement: str, line: int) -> Iterator[Import]:
    match = re.search(r'"([^"\n]+)"|(<[^>\n]+>)', statement)
    if match:
        yield Import(match.group(1) or match.group(2), line)


def _php(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(_COMMENT.sub("", statement).split()).rstrip("; ")
    text = re.sub(r"^use\s+(?:(?:function|const)\s+)?", "", text)
    prefix, brace, listed = text.partition("{")
    if brace:
        yield from _grouped(prefix.strip().strip("\\"), line, _items(listed.rstrip("} ")))
        return
    for module, alias in _items(text):
        yield Import(module.strip("\\"), line, (), alias)


def _haskell(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(re.sub(r"--[^\n]*", "", statement).split())
    match = re.match(r'import (?:safe )?(?:qualified )?(?:"[^"]*" )?([\w.]+)(?: qualified)?(?: as ([\w.]+))?(.*)', text)
    if not match:
        return
    module, alias, rest = match.groups()
    names: tuple[str, ...] = ()
    if rest.strip().startswith("("):
        flat = re.sub(r"(?<=\w)\s?\([^()]*\)", "", rest.strip()[1:].rstrip().removesuffix(")"))
        names = tuple(name.strip("() ") for name in flat.split(",") if name.strip("() "))
    elif "qualified" not in text and not alias:
        names = ("*",)
    yield Import(module, line, names, alias or "")


_STATEMENTS: dict[str, Callable[[str, int], Iterator[Import]]] = {
    "python": _python,
    **dict.fromkeys(("javascript", "typescript", "tsx"), _ecmascript),
    "go": _go,
    "rust": _rust,
    **dict.fromkeys(("java", "kotlin", "scala", "swift", "csharp"), _dotted),
    **dict.fromkeys(("c", "cpp"), _include),
    "php": _php,
    "haskell": _haskell,
}

# Compiled on first use, since a process rarely meets more than a few languages.
# Groups: `module` what is loaded; `alias` and `names` what it is bound to; `relative` a keyword that means "beside me".
_CALLS: dict[str, str] = {
    **dict.fromkeys(
        ("javascript", "typescript", "tsx"),
        (
            r"(?:\b(?:const|let|var)\s+(?:(?P<alias>[\w$]+)|\{(?P<names>[^}]{0,2000})\})\s*=\s*(?:await\s+)?)?"
            r"\b(?:require|import)\(\s*[\"'`](?P<module>[^\"'`\n$]+)[\"'`]\s*\)"
        ),
    ),
    "php": r"\b(?:require|include)(?:_once)?\b[^;'\"\n]*[\"'](?P<module>[^\"'\n]+)[\"']",
    "ruby": (
        r"^[ \t]*(?:require|(?P<relative>require_relative)|load|autoload[ (]+:(?P<alias>\w+),)[ (]+"
        r"[\"'](?P<module>[^\"'\n#]+)[\"']"
    ),
    "elixir": (
        r"^[ \t]*(?:alias|import|use|require)[ \t]+(?P<module>[A-Z]\w*(?:\.\w+)*)"
        r"(?:\.\{(?P<names>[^}]{0,2000})\}|[^\n]*?\bas:[ \t]*(?P<alias>\w+))?"
    ),
    "lua": r"(?:\blocal[ \t]+(?P<alias>\w+)[ \t]*=[ \t]*)?\brequire[ \t]*[(,]?[ \t]*[\"'](?P<module>[^\"'\n]+)[\"']",
    "zig": r"(?:\bconst[ \t]+(?P<alias>\w+)[ \t]*=[ \t]*)?@import\([ \t]*\"(?P<module>[^\"\n]+)\"",
    "bash": r"^[ \t]*\\?(?:source|\.)[ \t]+[\"']?(?P<module>[^\s\"';|&<][^\s\"';|&]*)",
}


def _called(search: str, code: str) -> Iterator[Import]:
    line, position = 1, 0
    for match in re.finditer(search, code, re.MULTILINE):
        groups = match.groupdict()
        start = match.start("module")
        line += code.count("\n", position, start)
        position = start
        module = ("./" if groups.get("relative") else "") + match["module"]
        if groups.get("names"):
            parts = (item.partition(":") for item in groups["names"].split(",") if item.strip())
            yield from _grouped(module, line, [(name.strip(), alias.strip()) for name, _, alias in parts])
        else:
            yield Import(module, line, (), groups.get("alias") or "")
