"""Call edges and references against compilers: every use of a name in real projects, not a sample.

    python benchmarks/references.py TREES                                   # a folder with the projects
    python benchmarks/references.py TREES --only click --tools some/folder --misses 20

The oracles are scip-python (pyright), scip-typescript (the TypeScript compiler) and go/types (`go_uses.go`, which needs
`go`). They are installed into the tools' folder by npm, and what they found stays there.

A place is a line and a name on it. An edge leads from a place to a definition that CodeInfo lists, so local variables
are none. Precision: of the edges found here those that the oracle has, where it knows the name at all. Recall: of the
oracle's edges those found here. `calls` are the edges whose place has a parenthesis behind the name. An edge is
`syntactic` where only the name leads to the one definition that has it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import SymbolId
from codeinfo.graph.names import resolve
from codeinfo.graph.scip import Compiler
from codeinfo.graph.uses import all_references
from codeinfo.languages.model import get_language, language_family

PACKAGES = ("@sourcegraph/scip-python", "@sourcegraph/scip-typescript", "typescript")
# Project → (oracle, folder that it is run in, further arguments). Only what lies below the folder is compared.
PROJECTS = {
    "click": ("python", ".", ()),
    "requests": ("python", ".", ()),
    "starlette": ("python", ".", ()),
    "aiohttp": ("python", ".", ()),
    "angular-spotify": ("typescript", ".", ("tsconfig.base.json",)),
    "codebase-context-mcp": ("typescript", ".", ()),
    "trpc": ("typescript", "packages/server", ()),
    "vitest": ("typescript", "packages/vitest", ()),
    "express": ("javascript", ".", ("--infer-tsconfig",)),  # of CommonJS, as the next one
    "nodemailer": ("javascript", ".", ("--infer-tsconfig",)),
    "chi": ("go", ".", ()),
    "cobra": ("go", ".", ()),
    "gin": ("go", ".", ()),
}
FAMILIES = {"python": "python", "typescript": "ecmascript", "javascript": "ecmascript", "go": "go"}
_CALLED = re.compile(r"\s*(?:\?\.)?\s*(?:<[\w\s,.<>\[\]|]*>)?\(")
_NAME = re.compile(r"[\w$]+")
_NO_DEFINITIONS = frozenset({"package", "namespace", "heading"})


class Place(NamedTuple):
    path: str
    line: int
    name: str


# What a place means: where that is defined, and by what name; nothing where that is outside of the project.
Truth = Mapping[Place, frozenset[Place]]


# --- oracles -------------------------------------------------------------------------------------------------------


def oracle(project: str, root: Path, tools: Path) -> Truth:
    kind, folder, arguments = PROJECTS[project]
    home = root / folder
    if kind == "go":
        output = tools / f"{project}.uses"
        if not output.exists():
            program = Path(__file__).with_name("go_uses.go")
            command = ["go", "run", str(program), str(home)]
            done = subprocess.run(command, env={**os.environ, "GO111MODULE": "off"}, capture_output=True, check=True)
            output.write_bytes(done.stdout)
        return _go_truth(output)
    output = tools / f"{project}.scip"
    if not output.exists():
        _run_indexer(kind, project, home, output, arguments, tools)
    return _scip_truth(Compiler(output, home), home, "" if folder == "." else f"{folder}/")


def _run_indexer(kind: str, project: str, home: Path, output: Path, arguments: tuple[str, ...], tools: Path) -> None:
    programs = tools / "node_modules" / ".bin"
    if not (programs / "scip-python").exists():
        (tools / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--silent", *PACKAGES], cwd=tools, check=True)
    written = output.with_suffix(".part")  # what a failed run leaves is not taken for its result
    program = "scip-python" if kind == "python" else "scip-typescript"
    command = [str(programs / program), "index", *arguments, "--output", str(written)]
    if kind == "python":  # asks git for a version otherwise, which a plain tree does not have
        command += ["--project-name", project, "--project-version", "0"]
    subprocess.run(command, cwd=home, check=True, stdout=subprocess.DEVNULL)
    written.rename(output)


def _go_truth(output: Path) -> Truth:
    definitions_of: dict[Place, set[Place]] = defaultdict(set)
    for row in output.read_text("utf-8").splitlines():
        path, line, _, name, *defined = row.split("\t")
        places = definitions_of[Place(path, int(line), name)]
        if defined:
            places.add(Place(defined[0], int(defined[1]), name))
    return {place: frozenset(defined) for place, defined in definitions_of.items()}


def _scip_truth(index: Compiler, home: Path, prefix: str) -> Truth:
    """A local symbol without a definition is one that the oracle could not find out."""
    defined: dict[str, set[Place]] = defaultdict(set)
    used: list[tuple[Place, str]] = []
    for path in index.paths:
        if not (home / path).is_file():
            continue
        lines = (home / path).read_text("utf-8", "replace").split("\n")
        for occurrence in index.occurrences(path):
            text = lines[occurrence.line - 1] if occurrence.line <= len(lines) else ""
            place = Place(prefix + path, occurrence.line, text[occurrence.start : occurrence.end])
            if occurrence.defines:
                defined[_known_as(occurrence.symbol, path)].add(place)
            elif _NAME.fullmatch(place.name):
                used.append((place, _known_as(occurrence.symbol, path)))
    definitions_of: dict[Place, set[Place]] = defaultdict(set)
    for place, symbol in used:
        if symbol in defined or not symbol.startswith("local "):
            definitions_of[place] |= defined.get(symbol, set())
    return {place: frozenset(where) for place, where in definitions_of.items()}


def _known_as(symbol: str, path: str) -> str:
    """Without version, and without the source folder that scip-python takes for a package in some places."""
    if symbol.startswith("local "):
        return f"{symbol} {path}"
    scheme, _, rest = symbol.partition(" ")
    manager, _, rest = rest.partition(" ")
    package, _, rest = rest.partition(" ")
    name = rest.partition(" ")[2].removeprefix("`").removeprefix("src.").replace("`", "", 1)
    return " ".join((scheme, manager, package, name))


# --- comparison ----------------------------------------------------------------------------------------------------


class Figures:
    """Edges found here by proof level and whether they are calls, and those of the oracle."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.wrong: list[str] = []
        self.missed: list[str] = []

    def add(self, level: str, is_call: bool, outcome: str) -> None:
        self.counts[level, "references", outcome] += 1
        if is_call:
            self.counts[level, "calls", outcome] += 1

    def __iadd__(self, other: Figures) -> Figures:
        self.counts += other.counts
        return self

    def row(self, what: str) -> str:
        count = self.counts
        truth = count["oracle", what, "edges"]
        right, wrong = count["resolved", what, "right"], count["resolved", what, "wrong"]
        guessed, amiss = count["syntactic", what, "right"], count["syntactic", what, "wrong"]
        return (
            f"{what:<11}{truth:>7} edges  resolved P {_share(right, right + wrong)} R {_share(right, truth)}"
            f"  syntactic P {_share(guessed, guessed + amiss)} R {_share(guessed, truth)}"
            f"  both R {_share(right + guessed, truth)}  unjudged {count['resolved', what, 'unjudged']}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.4f}" if whole else "   -  "


def compare(index: CodeIndex, truth: Truth, spoken: str) -> Figures:
    figures = Figures()
    symbols = _symbols_by_place(index, spoken)
    covered = {place.path for place in truth} | {at.path for where in truth.values() for at in where}
    by_path: dict[str, list[Place]] = defaultdict(list)
    for place in truth:
        by_path[place.path].append(place)
    for path, places in by_path.items():
        if path not in index.graph.files or language_family(index.graph.files[path].language) != spoken:
            continue
        unit = index.unit(path)
        lines = index.lines(unit.path)
        syntax = get_language(unit.facts.language).syntax
        skipped = syntax.keywords if syntax else frozenset()
        resolved, possible = _found(index, path)
        defining = {(d.start_line, d.name) for d in unit.definitions}
        for place in {*places, *resolved}:
            if place.name in skipped or len(place.name) < 2 or (place.line, place.name) in defining:
                continue
            line = lines.get(place.line, "")
            is_call = any(
                _CALLED.match(line, match.end()) for match in re.finditer(rf"\b{re.escape(place.name)}\b", line)
            )
            expected = truth.get(place)
            ours = resolved.get(place, set())
            theirs = {symbol for at in expected or () if (symbol := _at(symbols, at, place.name))}
            theirs |= ours.intersection(_listed(at) for at in expected or ())
            if ours and not ours & theirs and _is_shorthand(line, place):
                expected, theirs = None, set()
            for symbol in ours:
                outcome = "right" if symbol in theirs else "wrong"
                if expected is None or (symbol.path not in covered and spoken != "go"):
                    outcome = "unjudged"
                figures.add("resolved", is_call, outcome)
                if outcome == "wrong":
                    figures.wrong.append(_shown(place, f"{symbol}; {sorted(map(str, theirs))}", line))
            missing = theirs - ours
            guess = possible.get(place) if not ours else None
            if guess is not None and expected is not None:
                figures.add("syntactic", is_call, "right" if guess in theirs else "wrong")
            for _ in theirs:
                figures.add("oracle", is_call, "edges")
            if missing and not ours:
                figures.missed.append(_shown(place, str(min(missing)), line))
    return figures


def _shown(place: Place, meant: str, line: str) -> str:
    return f"{place.path}:{place.line} {place.name} -> {meant} | {line.strip()[:110]}"


def _found(index: CodeIndex, path: str) -> tuple[dict[Place, set[SymbolId]], dict[Place, SymbolId]]:
    """What is resolved at each place, and what the name alone means there where one definition has it."""
    unit = index.unit(path)
    assert unit is not None
    symbols_at: dict[Place, set[SymbolId]] = defaultdict(set)
    possible: dict[Place, SymbolId] = {}
    for use in all_references(index.uses(unit.path)):
        place = Place(path, use.line, use.name)
        resolution = resolve(index, unit, use)
        symbols_at[place].update(
            _variant(symbol, language_family(unit.facts.language)) for symbol in resolution.symbols
        )
        if resolution.possible and not resolution.symbols:
            defining = [index.unit(other_unit) for other_unit in index.files_defining(use.name)]
            having = {
                _variant(
                    SymbolId(other_unit.path, other_unit.without_namespace(d.qualified)),
                    language_family(unit.facts.language),
                )
                for other_unit in defining
                if other_unit is not None
                and language_family(other_unit.facts.language) == language_family(unit.facts.language)
                for d in other_unit.by_name.get(use.name, ())
            }
            if len(having) == 1:
                possible[place] = having.pop()
    return {place: symbols for place, symbols in symbols_at.items() if symbols}, possible


Symbols = dict[tuple[str, int], dict[str, SymbolId]]
_CONSTRUCTORS = ("constructor", "__init__")


def _is_shorthand(line: str, place: Place) -> bool:
    """`{ name }` means a variable and a field; scip-typescript has only one of both."""
    return place.path.endswith((".ts", ".tsx")) and any(
        re.search(r"(?:^|[{,])\s*\Z", line[: match.start()]) and re.match(r"\s*(?:[,}]|$)", line[match.end() :])
        for match in re.finditer(rf"\b{re.escape(place.name)}\b", line)
    )


def _variant(symbol: SymbolId, spoken: str) -> SymbolId:
    """In Go several files of a package may define a name, each for another platform: that is one definition."""
    return SymbolId(symbol.path.rpartition("/")[0], symbol.qualified) if spoken == "go" else symbol


def _at(symbols: Symbols, place: Place, written: str) -> SymbolId | None:
    """The definition at a place; its constructor stands for a class."""
    symbol = symbols.get((place.path, place.line), {}).get(place.name)
    if symbol is not None and place.name in _CONSTRUCTORS and written != place.name:
        return SymbolId(symbol.path, symbol.qualified.rpartition(".")[0])
    return symbol


def _listed(place: Place) -> SymbolId | None:
    """What `module.exports = { add }` lists: to the oracle, that is another `add`."""
    return SymbolId(place.path, place.name) if place.path.endswith((".js", ".cjs")) else None


def _symbols_by_place(index: CodeIndex, spoken: str) -> Symbols:
    symbols: Symbols = defaultdict(dict)
    for path in index.graph.files:
        unit = index.unit(path)
        for definition in unit.definitions if unit else ():
            if unit and definition.kind not in _NO_DEFINITIONS:
                symbol = SymbolId(path, unit.without_namespace(definition.qualified))
                symbols[path, definition.start_line][definition.name] = _variant(symbol, spoken)
    return symbols


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path, help="a folder with the projects")
    arguments.add_argument("--only", choices=PROJECTS, action="append", help="one project; may be given several times")
    arguments.add_argument("--tools", type=Path, help="a folder to keep the tools, their output and the indexes in")
    arguments.add_argument(
        "--misses", type=int, default=0, help="show this many wrong and missing edges of each project"
    )
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tools = (options.tools or Path(scratch)).resolve()
        tools.mkdir(parents=True, exist_ok=True)
        measure(options.trees.resolve(), tools, options.only or list(PROJECTS), options.misses)
    return 0


def measure(trees: Path, tools: Path, projects: list[str], misses: int) -> None:
    config = Config.load({"paths.cache_dir": str(tools / "cache"), "embedding.provider": "none"}, trees)
    totals: dict[str, Figures] = defaultdict(Figures)
    for project in projects:
        kind, root = PROJECTS[project][0], (trees / project).resolve()
        truth = oracle(project, root, tools)
        with Engine(config) as engine:
            manager = engine.indexes.of(root)
            manager.refresh()
            store = manager.live_store()
            assert store is not None
            with engine.code.open(manager, store) as index:
                figures = compare(index, truth, FAMILIES[kind])
        totals[kind] += figures
        _print(f"{project} ({kind})", figures)
        for listed, mark in ((figures.wrong, "wrong"), (figures.missed, "missed")):
            for row in random.Random(11).sample(listed, min(misses, len(listed))):
                print(f"    {mark} {row}")
    for kind, figures in totals.items():
        _print(f"all {kind}", figures)


def _print(title: str, figures: Figures) -> None:
    print(title)
    for what in ("calls", "references"):
        print(f"  {figures.row(what)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
