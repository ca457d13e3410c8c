"""A project's style guide: what its tools enforce and what its documents ask for, with the lines."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from posixpath import dirname
from typing import Any
from xml.parsers import expat

import yaml
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.config import parse_toml
from codeinfo.errors import UsageError
from codeinfo.files import read_table
from codeinfo.languages import is_shipped_folder
from codeinfo.languages.manifests import lines_of_keys
from codeinfo.languages.model import strict_json
from codeinfo.operations.knowledge import StyleReport, StyleRule
from codeinfo.sources.documents import Fences
from codeinfo.tokens import terms

# --- configuration files as entries with their lines -----------------------------------------------------------------


class Entry(Struct, frozen=True):
    line: int
    section: str
    key: str
    value: str


MAX_VALUE = 300
_MAX_DEPTH = 12
_MOST_NODES = 100_000  # of one file; the largest settings of linters have some thousand
_UNREADABLE = (ValueError, TypeError, KeyError, UsageError, RecursionError, yaml.YAMLError, configparser.Error)


def yaml_entries(text: str) -> Iterator[Entry]:
    """YAML and JSON: a key's section is the path of keys around it; items of a list are entries of their key."""
    yield from _mapping(_compose(text), (), _MAX_DEPTH)


def _compose(text: str) -> yaml.Node | None:
    """The syntax tree of YAML, or of JSON with comments and trailing commas: JSON's own parser keeps no lines, and
    without comments JSON is YAML."""
    is_json = text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[", "/")
    root = yaml.compose(strict_json(text) if is_json else text, Loader=yaml.SafeLoader)
    if root and _count_nodes(root, {}) > _MOST_NODES:
        raise ValueError("too large")
    return root


def _count_nodes(node: yaml.Node, counts: dict[yaml.Node, int]) -> int:
    """The nodes to be read: those behind an alias count again, so that a few lines of aliases can be billions."""
    if node not in counts:
        counts[node] = _MOST_NODES  # until it is counted: it may contain itself
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        children = node.value if isinstance(node, yaml.SequenceNode) else chain.from_iterable(pairs)
        counts[node] = 1 + sum(_count_nodes(child, counts) for child in children)
    return counts[node]


def _mapping(node: yaml.Node | None, around: tuple[str, ...], depth: int) -> Iterator[Entry]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) and depth else ():
        if not isinstance(key, yaml.ScalarNode):
            continue
        name = str(key.value)
        if isinstance(value, yaml.MappingNode):
            yield from _mapping(value, (*around, name), depth - 1)
        elif isinstance(value, yaml.SequenceNode) and not value.flow_style:
            for item in value.value:
                if isinstance(item, yaml.MappingNode) and not _is_flat(item):
                    yield from _mapping(item, (*around, name), depth - 1)
                else:
                    yield Entry(item.start_mark.line + 1, ".".join(around), name, _format_value(item, depth))
        else:
            yield Entry(key.start_mark.line + 1, ".".join(around), name, _format_value(value, depth))


def _is_flat(item: yaml.MappingNode) -> bool:
    """Whether an item of a list says one thing, such as `name: function-length` with `disabled: true`."""
    return all(isinstance(value, yaml.ScalarNode) for _, value in item.value)


def _format_value(node: yaml.Node, depth: int) -> str:
    """A value on one line, written as JSON; unquoted YAML values stay unquoted."""
    if isinstance(node, yaml.SequenceNode):
        return f"[{', '.join(_format_value(item, depth - 1) for item in node.value)}]" if depth else "[…]"
    if isinstance(node, yaml.MappingNode):
        pairs = (f"{_format_value(key, depth - 1)}: {_format_value(value, depth - 1)}" for key, value in node.value)
        return f"{{{', '.join(pairs)}}}" if depth else "{…}"
    return json.dumps(node.value, ensure_ascii=False) if node.style in ('"', "'") else str(node.value)


# Files of the project, which are read as well.
_OWN_PATHS = re.compile(r"[\[\"',\s]*(?:\.{1,2}/[\w./-]+(?:[\"',\s]+|(?=\]?$)))+\]?")


def eslint_entries(text: str) -> Iterator[Entry]:
    return _eslint(_compose(text), "")


def _eslint(node: yaml.Node | None, files: str) -> Iterator[Entry]:
    """What is extended, and each rule with its full value; rules of an override under the files it applies to."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == "rules" and isinstance(value, yaml.MappingNode):
            for name, setting in value.value:
                shown = _format_value(setting, _MAX_DEPTH)
                yield Entry(name.start_mark.line + 1, f"rules{files}", str(name.value), shown)
        elif key.value == "extends" and not _OWN_PATHS.fullmatch(_format_value(value, 2)):
            yield Entry(key.start_mark.line + 1, files.strip(), "extends", _format_value(value, _MAX_DEPTH))
        elif key.value == "overrides" and isinstance(value, yaml.SequenceNode):
            for item in value.value:
                patterns = [_format_value(setting, 2) for name, setting in item.value if name.value == "files"]
                yield from _eslint(item, f" for {patterns[-1].strip('[]')}" if patterns else "")


_NO_VALUE = re.compile(r"^[^\s#;\[][^=:\n]*$", re.MULTILINE)


def ini_entries(text: str) -> Iterator[Entry]:
    """INI; entries before the first section have none. A key without a value gets an empty one: otherwise the parser
    fails at an indented line below it, as in a block of Scalafmt."""
    parser = configparser.RawConfigParser(strict=False, comment_prefixes=("#", ";"))
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(_NO_VALUE.sub(r"\g<0> =", f"[\0]\n{text}"))
    lines = lines_of_keys(text)
    for section in parser.sections():
        name = section.strip("\0")
        for key, value in parser.items(section):
            shown = ", ".join(part.strip().rstrip(",") for part in value.split("\n") if part.strip())
            yield Entry(lines.get((name, key.lower()), 1), name, key, shown)


def toml_entries(text: str) -> Iterator[Entry]:
    yield from _table(parse_toml(text, Path("a TOML file")), (), lines_of_keys(text))


def _table(table: Mapping[str, Any], around: tuple[str, ...], lines: Mapping[tuple[str, str], int]) -> Iterator[Entry]:
    section = ".".join(around)
    for key, value in table.items():
        if isinstance(value, Mapping) and (section, key.lower()) not in lines:
            yield from _table(value, (*around, key), lines)
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for item in value:
                yield from _table(item, (*around, key), lines)
        else:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            yield Entry(lines.get((section, key.lower()), 1), section, key, shown)


def xml_entries(text: str) -> Iterator[Entry]:
    """Checkstyle: modules, and their properties; PHP_CodeSniffer: rules."""
    entries: list[Entry] = []
    modules: list[str] = []
    parser = expat.ParserCreate()

    def start(tag: str, given: Mapping[str, str]) -> None:
        if tag == "module":
            modules.append(given.get("name", ""))
            entries.append(Entry(parser.CurrentLineNumber, "", modules[-1], "on"))
        elif tag == "rule":
            entries.append(Entry(parser.CurrentLineNumber, "", "rule", given.get("ref", "")))
        elif tag == "property" and modules:
            entry = Entry(parser.CurrentLineNumber, modules[-1], given.get("name", ""), given.get("value", ""))
            entries.append(entry)

    def end(tag: str) -> None:
        if tag == "module" and modules:
            modules.pop()

    def refuse(*_: object) -> None:
        raise ValueError("entities are not read")

    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from error
    yield from entries


# Strings, comments, brackets and commas of JavaScript and PHP: what decides where an entry of an object ends. An open
# string ends with its line and an open comment with the file, so that nothing is read more than once.
_MARKS = re.compile(
    r"(?P<text>\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?|`(?:[^`\\]|\\.){0,1000}`)"
    r"|//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|(?s:/\*.*)|(?P<open>[{\[(])|(?P<close>[}\])])|(?P<comma>,)"
)
_PAIR = re.compile(r"\s*[\"']?(?P<key>[\w@$./-]+)[\"']?\s*(?::|=>)\s*(?P<value>\S.*)", re.DOTALL)
_RULES = re.compile(r"\brules[\"']?\s*:\s*(?=\{)")
_OBJECT = re.compile(
    r"(?:export\s+default\s|module\.exports\s*=|\breturn\b|\bconfig\b[^=\n]{0,80}=|setRules\(\s*)[^{\[;]{0,80}(?=[{\[])"
)


def script_entries(text: str) -> Iterator[Entry]:
    """The object exported by a configuration written as code, or all that it is. Nothing is run: computed values are
    left out."""
    begin = _OBJECT.search(text) or re.match(r"(?:\s*#.*\n)*\s*(?=\[)", text)  # `.formatter.exs`
    yield from _object(text, begin.end(), "") if begin else ()


def eslint_script_entries(text: str) -> Iterator[Entry]:
    """The rules of each object, under the files that it names."""
    rules = {match.end() for match in _RULES.finditer(text)}
    around: list[int] = []  # where the objects around begin
    files: dict[int, str] = {}  # that each of them names
    for mark in _MARKS.finditer(text):
        if mark["open"]:
            if around and len(around) <= _MAX_DEPTH and mark.start() in rules:
                if around[-1] not in files:
                    named = (entry.value for entry in _object(text, around[-1], "") if entry.key == "files")
                    files[around[-1]] = f" for {value.strip('[], ')}" if (value := next(named, "")) else ""
                yield from _object(text, mark.start(), f"rules{files[around[-1]]}")
            around.append(mark.start())
        elif mark["close"] and around:
            around.pop()


def _object(text: str, at: int, section: str) -> Iterator[Entry]:
    depth, start = 0, at + 1
    parts: list[str] = []
    last = at
    for mark in _MARKS.finditer(text, at):
        parts.append(text[last : mark.start()])
        last = mark.end()
        depth += (mark["open"] is not None) - (mark["close"] is not None)
        if depth == 0 or (depth == 1 and mark["comma"]):
            if pair := _PAIR.fullmatch("".join(parts)):
                before = text[start : mark.start()]
                line = text.count("\n", 0, start + before.find(pair["key"])) + 1
                yield Entry(line, section, pair["key"], " ".join(pair["value"].split()))
            parts, start = [], mark.end()
            if depth == 0:
                return
        elif mark.start() > at and not mark[0].startswith(("//", "/*")):
            parts.append(mark[0])


# --- rules -----------------------------------------------------------------------------------------------------------

MOST_RULES = 300
_MAX_RULE = 300
_MOST_LINE = 2000  # characters: no rule is longer


class _Tool(Struct, frozen=True):
    """A row of `style_tools.tsv`."""

    name: str
    files: str
    read: Callable[[str], Iterator[Entry]]
    section: str
    keys: str


_READERS: Mapping[str, Callable[[str], Iterator[Entry]]] = {
    "ini": ini_entries,
    "toml": toml_entries,
    "yaml": yaml_entries,
    "xml": xml_entries,
    "script": script_entries,
    "eslint": eslint_entries,
    "eslint_script": eslint_script_entries,
}
_TOOLS = tuple(
    _Tool(name, files, _READERS[reader], section, keys)
    for name, files, reader, section, keys in read_table(Path(__file__).with_name("style_tools.tsv"))
)
_TOOL_FILES = re.compile("|".join(f"(?:{tool.files})" for tool in _TOOLS))
_DOCUMENT = re.compile(
    r"(?:contributing|style|style[-_ ]?guide|coding[-_ ]?(?:style|standards?|guidelines?)|conventions?|code[-_ ]?style|"
    r"guidelines|hacking|development|agents|claude|\.cursorrules|copilot-instructions)(?:\.(?:md|markdown|rst|txt|adoc))?",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(#{1,6})\s+(?P<title>\S.*)")
_UNDERLINE = re.compile(r"([=\-~^\"'*+])\1{2,}\s*")  # of a heading, the line above
_STEPS = re.compile(
    r"\b(?:set(?:ting)?[ -]?up|install\w*|start(?:ing|ed)?|prerequisites?|environment(?! var)|seeds?"
    r"|docker|containers?|vagrant|running|building|debugging|commands|issues?|bugs?|report\w*)\b",
    re.IGNORECASE,
)
_WRITING = re.compile(
    r"\b(?:cod\w+|styl\w+|conventions?|rules?|pull|prs?|patch\w*|commit\w*|test\w*|fix\w*)\b", re.IGNORECASE
)
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?P<text>\S.*)")
# Words that ask for something wherever they stand, and those that do so only where a sentence or a part of it begins.
_DEMAND = re.compile(
    r"\b(?:must(?!:)|should|shall|always|never|do not|don't|avoid|prefer|require[sd]?|ensure|make sure|not allowed"
    r"|forbidden|at most|at least)\b"
    r"|(?:\A|[.:;,\u2014-]\s|\b(?:and|please|then)\s)\W*(?:use|keep|write|name|no|only|follow|run|add|put|place|limit"
    r"|indent)\b",
    re.IGNORECASE,
)
# An entry of a list of documents describes one.
_POINTER = re.compile(r"[`*]*(?:\[[^]]*\]\()?[`*]*[\w./-]+\.(?:md|mdx|rst)\b")
# A link within the page, a remark or a condition asks for nothing.
_ASIDE = re.compile(r"\[[^]]*\]\(#[^()]*\)|\([^()]*\)|\A(?:If|When)\b[^,:]*[,:]")


def is_style_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return _TOOL_FILES.fullmatch(name) is not None or _DOCUMENT.fullmatch(name) is not None


def style_report(texts: Mapping[str, str], query: str = "") -> StyleReport:
    """The rules in some files by path, shallow ones first; with a query, those that contain its words."""
    rules: list[StyleRule] = []
    notes: list[str] = []
    for path in sorted(texts, key=lambda path: (path.count("/"), path)):
        name = path.rpartition("/")[2]
        if _DOCUMENT.fullmatch(name):
            rules += document_rules(path, texts[path])
        for tool in _TOOLS:
            if re.fullmatch(tool.files, name) and is_shipped_folder(dirname(path)):
                try:
                    rules += list(_tool_rules(tool, path, texts[path]))
                except _UNREADABLE:
                    notes.append(f"{path} could not be read as a configuration of {tool.name}")
    rules = _merge_rules(rules)
    words = set(terms(query))
    if words:
        rules = [rule for rule in rules if words & set(terms(f"{rule.rule} {rule.origin}"))]
    more = len(rules) - MOST_RULES
    notes += [f"{more} more rules were left out: name what they should be about"] if more > 0 else []
    return StyleReport(tuple(rules[:MOST_RULES]), tuple(dict.fromkeys(notes)))


def _merge_rules(rules: Sequence[StyleRule]) -> list[StyleRule]:
    """Each rule once: packages of one repository often repeat each other's."""
    merged: dict[tuple[str, str], StyleRule] = {}
    for rule in rules:
        key = rule.rule, rule.origin
        first = merged.get(key)
        merged[key] = replace(first, also=(*first.also, rule.source)) if first else rule
    return list(merged.values())


def _tool_rules(tool: _Tool, path: str, text: str) -> Iterator[StyleRule]:
    for entry in tool.read(text):
        if tool.section and not re.fullmatch(tool.section, entry.section):
            continue
        if tool.keys and not re.fullmatch(tool.keys, entry.key):
            continue
        scope = f"[{entry.section}] " if entry.section else ""
        value = entry.value if len(entry.value) <= MAX_VALUE else f"{entry.value[: MAX_VALUE - 1]}…"
        yield StyleRule(f"{scope}{entry.key} = {value}", f"{path}:{entry.line}", tool.name, entry.key, value)


def document_rules(path: str, text: str) -> Iterator[StyleRule]:
    """Items and sentences that ask for something, under their heading; code blocks are skipped."""
    heading, fences = path.rpartition("/")[2], Fences()
    lines = [line[:_MOST_LINE] for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if fences.cover(line) or (line.startswith(("    ", "\t")) and not _ITEM.fullmatch(line)):
            continue
        elif match := _HEADING.fullmatch(line):
            heading = match["title"].rstrip("#").rstrip()
        elif line.strip() and number < len(lines) and _UNDERLINE.fullmatch(lines[number]):
            heading = line.strip()
        elif _is_about_steps(heading) or not (match := _ITEM.fullmatch(line)) or _POINTER.match(match["text"]):
            continue
        elif _DEMAND.search(_ASIDE.sub("", match["text"]).strip()):
            rule = _join_continued(lines, number, match["text"])
            cut = rule if len(rule) <= _MAX_RULE else f"{rule[: _MAX_RULE - 1]}…"
            yield StyleRule(cut, f"{path}:{number}", heading)


def _is_about_steps(heading: str) -> bool:
    """Whether a section says how to get something to run or how to report something, and not how to write code."""
    return _STEPS.search(heading) is not None and _WRITING.search(heading) is None


def _join_continued(lines: list[str], number: int, text: str) -> str:
    """An item with the indented lines that continue it."""
    parts = [text]
    for line in lines[number : number + 5]:
        if not line.startswith("  ") or _ITEM.fullmatch(line) or not line.strip() or "```" in line:
            break
        parts.append(line.strip())
    return " ".join(parts)
