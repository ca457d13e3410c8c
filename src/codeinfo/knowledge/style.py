"""The style guide a project already has: what its tools enforce and what its documents ask for, with the lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from codeinfo.knowledge.entries import Entry, ini_entries, json_entries, xml_entries, yaml_entries
from codeinfo.operations.knowledge import StyleRule
from codeinfo.tokens import terms

MOST_RULES = 300
_MAX_RULE = 300


class _Tool(NamedTuple):
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


def style_rules(texts: Mapping[str, str], query: str = "") -> tuple[tuple[StyleRule, ...], int]:
    """The rules in some files by path, shallow ones first, and how many there were before the cap."""
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
    return tuple(rules[:MOST_RULES]), len(rules)


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
