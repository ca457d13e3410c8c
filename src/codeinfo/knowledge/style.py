"""The style guide a project already has: what its tools enforce and what its documents ask for, with the lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from codeinfo.operations.knowledge import StyleReport, StyleRule
from codeinfo.tokens import terms

# --- configuration files as entries with their lines, which parsers do not keep --------------------------------------


class Entry(Struct, frozen=True):
    line: int
    section: str
    key: str
    value: str


_SECTION = re.compile(r"\s*\[+\s*(?P<name>[^\]\n]+?)\s*\]+\s*(?:[#;].*)?")
_ASSIGNMENT = re.compile(r"\s*(?P<key>[\w.\-/\"'@]+)\s*[=:]\s*(?P<value>.*)")
_YAML = re.compile(r"(?P<indent>\s*)(?P<dash>-\s+)?(?P<key>[\w.\-/\"'@]+):(?:\s+(?P<value>.*))?")
_YAML_ITEM = re.compile(r"(?P<indent>\s*)-\s+(?P<value>[^\s#].*)")
_JSON = re.compile(r"\s*\"?(?P<key>[\w.\-/@ $]+)\"?\s*:\s*(?P<value>[^\n]*)")
_PROPERTY = re.compile(r"<(?:property|module)\s+name=\"(?P<key>[^\"]+)\"(?:\s+value=\"(?P<value>[^\"]*)\")?")
_MAX_VALUE = 300
_MAX_JOINED = 60  # lines of one list


def ini_entries(text: str) -> Iterator[Entry]:
    """INI and TOML: sections and assignments; a list over several lines is one entry."""
    section = ""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        if found := _SECTION.fullmatch(line):
            section = found["name"]
        elif found := _ASSIGNMENT.fullmatch(line):
            value, first = found["value"].strip(), number
            while _is_open(value) and number < len(lines) and number - first < _MAX_JOINED:
                value = f"{value} {_without_comment(lines[number])}"
                number += 1
            yield Entry(first, section, found["key"].strip("\"'"), value[:_MAX_VALUE])


def _is_open(value: str) -> bool:
    return value.startswith(("[", "{")) and value.count("[") + value.count("{") > value.count("]") + value.count("}")


def _without_comment(line: str) -> str:
    return line.partition(" #")[0].strip() if not line.lstrip().startswith("#") else ""


def yaml_entries(text: str) -> Iterator[Entry]:
    """YAML: a key's section is the path of keys around it; items of a list are entries of their key."""
    around: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if found := _YAML.fullmatch(line):
            indent = len(found["indent"]) + len(found["dash"] or "")
            while around and around[-1][0] >= indent:
                around.pop()
            key, value = found["key"].strip("\"'"), (found["value"] or "").partition(" #")[0].strip()
            if value:
                yield Entry(number, ".".join(name for _, name in around), key, value[:_MAX_VALUE])
            else:
                around.append((indent, key))
        elif (found := _YAML_ITEM.fullmatch(line)) and around:
            section = ".".join(name for _, name in around[:-1])
            yield Entry(number, section, around[-1][1], found["value"].partition(" #")[0].strip()[:_MAX_VALUE])


def json_entries(text: str) -> Iterator[Entry]:
    """JSON and the objects of JavaScript configurations, one key a line as people write them."""
    around: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        code = line.split("//")[0] if '"' not in line else line
        found = _JSON.match(code)
        value = found["value"].strip().rstrip(",") if found else ""
        if found and value and value not in ("{", "["):
            yield Entry(number, ".".join(filter(None, around)), found["key"].strip(), value[:_MAX_VALUE])
        opened = code.count("{") - code.count("}")
        around += [found["key"].strip() if found else ""] * max(opened, 0)
        del around[len(around) + min(opened, 0) :]


def xml_entries(text: str) -> Iterator[Entry]:
    """Checkstyle: modules, and their properties."""
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        for found in _PROPERTY.finditer(line):
            if found["value"] is None:
                section = found["key"]
                yield Entry(number, "", section, "on")
            else:
                yield Entry(number, section, found["key"], found["value"][:_MAX_VALUE])


# --- rules -----------------------------------------------------------------------------------------------------------

MOST_RULES = 300
_MAX_RULE = 300


class _Tool(Struct, frozen=True):
    """`files` matches a file's name, `section` the sections of it that matter ("" for all), `keys` what is a rule."""

    name: str
    files: str
    read: Callable[[str], Iterator[Entry]]
    section: str = ""
    keys: str = ""


_JS_CONFIG = r"(?:js|mjs|cjs|ts|json|jsonc)"
_TOOLS = (
    _Tool("EditorConfig", r"\.editorconfig", ini_entries),
    _Tool("Ruff", r"pyproject\.toml", ini_entries, r"tool\.ruff(?:\.[\w.-]+)?"),
    _Tool("Black", r"pyproject\.toml", ini_entries, r"tool\.black"),
    _Tool("isort", r"pyproject\.toml", ini_entries, r"tool\.isort"),
    _Tool("mypy", r"pyproject\.toml", ini_entries, r"tool\.mypy"),
    _Tool("Ruff", r"\.?ruff\.toml", ini_entries),
    _Tool("Flake8", r"\.flake8|setup\.cfg|tox\.ini", ini_entries, r"flake8"),
    _Tool("isort", r"\.isort\.cfg|setup\.cfg|tox\.ini", ini_entries, r"isort|settings"),
    _Tool(
        "Pylint",
        r"\.pylintrc|pylintrc",
        ini_entries,
        r"FORMAT|BASIC|DESIGN|MESSAGES CONTROL",
        r"max-.*|disable|enable|.*naming.*",
    ),
    _Tool("mypy", r"mypy\.ini|setup\.cfg", ini_entries, r"mypy"),
    _Tool(
        "ESLint",
        rf"\.eslintrc(?:\.{_JS_CONFIG})?|eslint\.config\.{_JS_CONFIG}",
        json_entries,
        r"(?:.*\.)?rules|",
        r"(?!files$|import$|parser$|plugins$).+",
    ),
    _Tool("ESLint", r"\.eslintrc\.ya?ml", yaml_entries, r"(?:.*\.)?rules"),
    _Tool("Prettier", rf"\.prettierrc(?:\.{_JS_CONFIG})?|prettier\.config\.{_JS_CONFIG}", json_entries),
    _Tool("Prettier", r"\.prettierrc(?:\.ya?ml)?", yaml_entries),
    _Tool(
        "Biome", r"biome\.jsonc?", json_entries, r"(?:formatter|linter|javascript|organizeImports|assist|css|json)\b.*"
    ),
    _Tool(
        "TypeScript",
        r"tsconfig(?:\.base)?\.json",
        json_entries,
        r"compilerOptions",
        r"strict.*|no[A-Z].*|exactOptional.*|isolated.*|verbatim.*",
    ),
    _Tool("golangci-lint", r"\.golangci\.ya?ml", yaml_entries, r"(?:linters|linters-settings|formatters|issues)\b.*"),
    _Tool("rustfmt", r"\.?rustfmt\.toml", ini_entries),
    _Tool("Clippy", r"\.?clippy\.toml", ini_entries),
    _Tool("Cargo lints", r"Cargo\.toml", ini_entries, r"(?:workspace\.)?lints\..*"),
    _Tool("Checkstyle", r"checkstyle.*\.xml|.*_checks\.xml", xml_entries),
    _Tool("ClangFormat", r"\.clang-format", yaml_entries),
    _Tool("RuboCop", r"\.rubocop\.yml", yaml_entries),
    _Tool("PHP-CS-Fixer", r"\.php-cs-fixer(?:\.dist)?\.php", json_entries),
)
_TOOL_FILES = re.compile("|".join(f"(?:{tool.files})" for tool in _TOOLS))
_DOCUMENT = re.compile(
    r"(?:contributing|style|style[-_ ]?guide|coding[-_ ]?(?:style|standards?|guidelines?)|conventions?|code[-_ ]?style|"
    r"guidelines|hacking|development|agents|claude|\.cursorrules|copilot-instructions)(?:\.(?:md|markdown|rst|txt|adoc))?",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(#{1,6})\s+(?P<title>.+?)\s*#*")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?P<text>\S.*)")
_DEMAND = re.compile(
    r"\b(?:must|should|shall|always|never|do not|don't|avoid|prefer|use|require[sd]?|keep|write|name|ensure|make sure|"
    r"no|not allowed|forbidden|only|at most|at least|follow|run|add|put|place|limit|indent)\b",
    re.IGNORECASE,
)


def is_style_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return _TOOL_FILES.fullmatch(name) is not None or _DOCUMENT.fullmatch(name) is not None


def style_report(texts: Mapping[str, str], query: str = "") -> StyleReport:
    """The rules in some files by path, shallow ones first; those with words of the query where there is one."""
    rules: list[StyleRule] = []
    for path in sorted(texts, key=lambda path: (path.count("/"), path)):
        name = path.rpartition("/")[2]
        if _DOCUMENT.fullmatch(name):
            rules += document_rules(path, texts[path])
        for tool in _TOOLS:
            if re.fullmatch(tool.files, name):
                rules += _tool_rules(tool, path, texts[path])
    wanted = set(terms(query))
    if wanted:
        rules = [rule for rule in rules if wanted & set(terms(f"{rule.rule} {rule.origin}"))]
    more = len(rules) - MOST_RULES
    notes = (f"{more} more rules were left out: name what they should be about",) if more > 0 else ()
    return StyleReport(tuple(rules[:MOST_RULES]), notes)


def _tool_rules(tool: _Tool, path: str, text: str) -> Iterator[StyleRule]:
    for entry in tool.read(text):
        if tool.section and not re.fullmatch(tool.section, entry.section):
            continue
        if tool.keys and not re.fullmatch(tool.keys, entry.key):
            continue
        scope = f"[{entry.section}] " if entry.section else ""
        yield StyleRule(f"{scope}{entry.key} = {entry.value}"[:_MAX_RULE], f"{path}:{entry.line}", tool.name)


def document_rules(path: str, text: str) -> Iterator[StyleRule]:
    """Items and sentences that ask for something, under the heading they stand below; code blocks ask for nothing."""
    heading, fenced = path.rpartition("/")[2], False
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif fenced or (line.startswith(("    ", "\t")) and not _ITEM.fullmatch(line)):
            continue
        elif found := _HEADING.fullmatch(line):
            heading = found["title"]
        elif (found := _ITEM.fullmatch(line)) and _DEMAND.search(found["text"]):
            rule = _continued(lines, number, found["text"])
            yield StyleRule(rule[:_MAX_RULE], f"{path}:{number}", heading)


def _continued(lines: list[str], number: int, text: str) -> str:
    """An item with the indented lines that go on with it."""
    parts = [text]
    for line in lines[number : number + 5]:
        if not line.startswith("  ") or _ITEM.fullmatch(line) or not line.strip():
            break
        parts.append(line.strip())
    return " ".join(parts)
