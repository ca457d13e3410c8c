"""Code intelligence against tools that nobody here wrote, on real projects.

    definitions   against Universal Ctags (the `ctags` program must be installed)
    outlines      the same in languages without a syntax tree, of the projects in outlines.tsv
    imports       of Python packages against grimp
    cycles        while files are loaded: JavaScript and TypeScript against madge (needs node), Python against grimp
    references    of sampled Python symbols against jedi
    speed         of graph, patterns and card, of `refs`, of enrichment, and of an update after one edit

grimp, jedi and madge are installed into a folder of their own.

    python benchmarks/code_intelligence.py TREES                      # a folder with projects; everything
    python benchmarks/code_intelligence.py TREES --only cycles --tools some/folder   # kept for the next time
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from code_speed import measure_all

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.graph.code_index import refresh_graph
from codeinfo.graph.model import Graph, components
from codeinfo.model import Definition
from codeinfo.operations.code import RefsRequest
from codeinfo.sources.read import FolderFiles
from codeinfo.store.sqlite import code_facts

# Language of ctags → (project, kinds that count: what other code can name).
DEFINITIONS = {
    "Python": ("fastapi", "cfm"),
    "JavaScript": ("axios", "cfmg"),
    "TypeScript": ("trpc", "cfimeg"),
    "Go": ("gin", "fstincv"),
    "Rust": ("tokio", "fsigteMPnc"),
    "Java": ("commons-lang", "cimeg"),
    "C": ("redis", "fstued"),
    "C++": ("abseil-cpp", "fcsgn"),
    "C#": ("newtonsoft-json", "cimsgE"),
    "PHP": ("laravel-framework", "cfit"),
    "Ruby": ("rack", "cmfS"),
}
# The same for languages without a syntax tree.
OUTLINES = {
    "Clojure": ("ring", "fn"),
    "EmacsLisp": ("magit", "fsmcvV"),
    "Erlang": ("cowboy", "fmrdt"),
    "Fortran": ("fpm", "fmpst"),
    "Julia": ("DataFrames.jl", "fsmn"),
    "ObjectiveC": ("AFNetworking", "iIPmcpf"),
    "OCaml": ("ocaml-cohttp", "tfpe"),
    "Perl": ("mojo", "ps"),
    "Protobuf": ("memos", "mgsr"),
    "R": ("dplyr", "f"),
    "Tcl": ("redis", "pn"),
}
NEAR_LINES = 3  # the two may point at a decorator, a return type or the name

PYTHON_PACKAGES = {"click": "src", "requests": "src", "starlette": ".", "aiohttp": ".", "fastapi": "."}
MADGE_FOLDERS = {
    "axios": "lib",
    "trpc": "packages/server/src",
    "vitest": "packages/vitest/src",
    "angular-spotify": "libs",
}
REFERENCE_PROJECTS = {"click": "src/click", "requests": "src/requests", "starlette": "starlette", "aiohttp": "aiohttp"}
SAMPLE = 100
SEED = 11  # a sample that nothing was tuned on

GRIMP = """
import json, sys, grimp
sys.path.insert(0, sys.argv[2])
graph = grimp.build_graph(sys.argv[1], cache_dir=None)
print(json.dumps([[a, b] for a in graph.modules for b in graph.find_modules_directly_imported_by(a)]))
"""

GRIMP_CYCLES = """
import ast, json, pathlib, sys, grimp
sys.path.insert(0, sys.argv[2])
graph = grimp.build_graph(sys.argv[1], cache_dir=None, exclude_type_checking_imports=True)
lazy = {}  # module -> lines inside of functions
for module in graph.modules:
    path = pathlib.Path(sys.argv[2], *module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = ast.walk(ast.parse(path.read_bytes()))
    functions = (n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    lazy[module] = {line for n in functions for line in range(n.lineno, n.end_lineno + 1)}
pairs = []
for a in graph.modules:
    for b in graph.find_modules_directly_imported_by(a):
        if any(detail["line_number"] not in lazy[a] for detail in graph.get_import_details(importer=a, imported=b)):
            pairs.append([a, b])
print(json.dumps(pairs))
"""

JEDI = """
import json, sys, jedi
from jedi.inference import recursion, references
# Made for an editor, jedi gives up early; asked at leisure, it finds more.
references._PARSED_FILE_LIMIT = references._OPENED_FILE_LIMIT = 100_000
recursion.total_function_execution_limit = 100_000
recursion.per_function_execution_limit = 10_000
root, asked = sys.argv[1], json.load(sys.stdin)
project = jedi.Project(root)
for path, line, name in asked:
    source = open(f"{root}/{path}", encoding="utf-8").read()
    column = source.split("\\n")[line - 1].find(name)
    found = []
    try:
        for one in jedi.Script(source, path=f"{root}/{path}", project=project).get_references(line, column):
            leaf = one._name.tree_name
            defined = leaf.get_definition() if leaf else None
            if one.module_path and not (defined and not defined.type.startswith("import")):
                found.append([str(one.module_path.relative_to(root)), one.line])
    except Exception as error:
        found = str(error)
    print(json.dumps(found), flush=True)
"""


class Bench:
    def __init__(self, trees: Path, tools: Path, cache: Path) -> None:
        self.trees = trees
        self.tools = tools
        self.config = Config.load({"paths.cache_dir": str(cache), "embedding.provider": "none"}, trees)

    @contextmanager
    def project(self, name: str) -> Iterator[tuple[Engine, Path]]:
        with Engine(self.config) as engine:
            root = (self.trees / name).resolve()
            engine.indexes.of(root).refresh()
            yield engine, root

    def graph(self, engine: Engine, root: Path) -> Graph:
        store = engine.indexes.of(root).live_store()
        assert store is not None
        with code_facts(store) as facts:
            return refresh_graph(None, facts, root, FolderFiles(root))[0]

    def python_tool(self) -> str:
        """An environment with grimp and jedi."""
        program = self.tools / "venv" / "bin" / "python"
        if not program.exists():
            subprocess.run([sys.executable, "-m", "venv", self.tools / "venv"], check=True)
            subprocess.run([program, "-m", "pip", "install", "-q", "grimp", "jedi"], check=True)
        return str(program)

    def madge(self) -> str:
        program = self.tools / "node_modules" / ".bin" / "madge"
        if not program.exists():
            (self.tools / "package.json").write_text("{}")
            subprocess.run(["npm", "install", "--silent", "madge", "typescript"], cwd=self.tools, check=True)
        return str(program)


# --- definitions ---------------------------------------------------------------------------------------------------


def definitions(bench: Bench) -> None:
    print("definitions against Universal Ctags: share of its tags that CodeInfo has, by name and place")
    _compare_definitions(bench, DEFINITIONS)


def outlines(bench: Bench) -> None:
    """Equations of one function that follow each other are one definition here, and several tags."""
    print("definitions without a syntax tree against Universal Ctags: share of its tags that CodeInfo has")
    _compare_definitions(bench, OUTLINES, is_inside=True)


def _compare_definitions(bench: Bench, projects: Mapping[str, tuple[str, str]], *, is_inside: bool = False) -> None:
    for language, (project, kinds) in projects.items():
        with bench.project(project) as (engine, root):
            ours = _our_definitions(engine, root, is_inside=is_inside)
            tags = [tag for tag in _ctags(root, language, kinds) if tag[0] in ours]
        missed = [tag for tag in tags if not _has(ours[tag[0]], tag[1], tag[2])]
        recall = 1 - len(missed) / len(tags)
        print(f"  {language:<12}{project:<20}{len(tags):>7} tags  recall {recall:.4f}")
        for kind, count in Counter(tag[3] for tag in missed).most_common(3):
            examples = [f"{path}:{line} {name}" for path, name, line, k in missed if k == kind][:4]
            print(f"      {count} × {kind}: {'; '.join(examples)}")


def _our_definitions(engine: Engine, root: Path, *, is_inside: bool) -> dict[str, dict[str, list[range]]]:
    """Of each file, where tags of a name may be: at the definition, or also inside it."""
    store = engine.indexes.of(root).live_store()
    assert store is not None
    definitions: dict[str, dict[str, list[range]]] = {}
    with code_facts(store) as facts:
        for file in facts.files():
            names: dict[str, list[range]] = definitions.setdefault(file.path, {})
            for definition in facts.definitions(file.file_id):
                start = definition.start_line
                lines = range(start - NEAR_LINES, (definition.end_line if is_inside else start + NEAR_LINES) + 1)
                for name in {definition.name, definition.qualified, definition.qualified.rpartition(".")[2]}:
                    names.setdefault(name, []).append(lines)
    return definitions


def _ctags(root: Path, language: str, kinds: str) -> Iterator[tuple[str, str, int, str]]:
    command = [
        "ctags",
        "--output-format=json",
        "--fields=+nKsZ",
        f"--languages={language}",
        f"--kinds-{language}={kinds}",
    ]
    command += ["-R", "-f", "-", "."]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, errors="replace", check=True).stdout
    for line in output.splitlines():
        tag = json.loads(line)
        if tag.get("_type") == "tag" and tag.get("name") and not _is_mistake(tag, language):
            yield tag["path"].removeprefix("./"), tag["name"], tag["line"], tag.get("kind", "")


def _is_mistake(tag: dict[str, str], language: str) -> bool:
    """Tags that define nothing: names ctags made up, calls of macros it takes for functions, and local variables."""
    name, kind, text = tag["name"], tag.get("kind", ""), tag.get("pattern", "")
    if name.startswith(("__anon", "Anonymous", "anonymous")) or not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
        return True
    if language in ("C", "C++") and kind == "function":
        return re.fullmatch(r"[A-Z][A-Z0-9_]+", name) is not None
    if language in ("JavaScript", "TypeScript"):
        is_local = tag.get("scopeKind") in ("function", "method", "generator")
        return is_local or (kind == "class" and not re.search(r"\b(?:class|function)\b", text))
    return language == "C#" and "." in name


def _has(names: dict[str, list[range]], name: str, line: int) -> bool:
    plain = name.replace("::", ".").rpartition(".")[2] or name
    selector = name.partition(":")[0]  # `add:to:` of Objective-C
    spans = chain.from_iterable(names.get(spelling, ()) for spelling in {name, plain, selector, name.strip("`")})
    return any(line in span for span in spans)


# --- imports -------------------------------------------------------------------------------------------------------


def imports(bench: Bench) -> None:
    print("Python imports against grimp: edges between the modules of a package")
    for package, folder in PYTHON_PACKAGES.items():
        with bench.project(package) as (engine, root):
            graph = bench.graph(engine, root)
        home = f"{folder}/" if folder != "." else ""
        ours = {
            (_module(path, home), _module(edge.target, home))
            for path in graph.files
            if path.startswith(f"{home}{package}/") and path.endswith(".py")
            for edge in graph.edges_from(path)
            if edge.target.startswith(f"{home}{package}/")
        }
        line = [bench.python_tool(), "-c", GRIMP, package, str(root / folder)]
        theirs = {(a, b) for a, b in json.loads(subprocess.run(line, capture_output=True, check=True).stdout)}
        _print_agreement(package, ours, theirs)


def _module(path: str, home: str) -> str:
    return path.removeprefix(home).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _print_agreement(name: str, ours: set[tuple[str, str]], theirs: set[tuple[str, str]]) -> None:
    both = len(ours & theirs)
    precision, recall = both / max(1, len(ours)), both / max(1, len(theirs))
    print(f"  {name:<22}{len(theirs):>6} edges  precision {precision:.4f}  recall {recall:.4f}")
    for label, odd in (("only here", ours - theirs), ("only there", theirs - ours)):
        for edge in sorted(odd)[:5]:
            print(f"      {label}: {' → '.join(edge)}")


# --- cycles --------------------------------------------------------------------------------------------------------


def cycles(bench: Bench) -> None:
    print("runtime cycles against madge (without type and async imports): groups of files that reach each other")
    for project, folder in MADGE_FOLDERS.items():
        with bench.project(project) as (engine, root):
            graph = bench.graph(engine, root)
        theirs = _madge(bench, root, folder)
        _print_groups(project, folder, _loaded(graph, theirs), theirs)
    print("runtime cycles against grimp (without type-checking imports and those inside of functions)")
    for package, folder in PYTHON_PACKAGES.items():
        with bench.project(package) as (engine, root):
            graph = bench.graph(engine, root)
        home = f"{folder}/" if folder != "." else ""
        line = [bench.python_tool(), "-c", GRIMP_CYCLES, package, str(root / folder)]
        pairs = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
        files = {_module(path, home): path for path in graph.files if path.startswith(f"{home}{package}/")}
        theirs = {path: set[str]() for path in files.values()}
        for importer, imported in pairs:
            theirs[files[importer]].add(files[imported])
        _print_groups(package, folder, _loaded(graph, theirs), theirs)


def _loaded(graph: Graph, paths: Collection[str]) -> dict[str, set[str]]:
    return {path: {e.target for e in graph.edges_from(path) if not e.timing and e.target in paths} for path in paths}


def _print_groups(project: str, folder: str, ours: dict[str, set[str]], theirs: dict[str, set[str]]) -> None:
    mine, others = (
        {frozenset(group) for group in components({path: sorted(to) for path, to in edges.items()})}
        for edges in (ours, theirs)
    )
    same = "the same" if mine == others else "NOT the same"
    print(f"  {project:<16}{folder:<24}{len(mine)} groups here, {len(others)} there, {same}")
    mine_only, others_only = (sorted(min(group) for group in some) for some in (mine - others, others - mine))
    if mine != others:
        print(f"      only here: {mine_only}; only there: {others_only}")
    pairs = [{(path, to) for path, targets in edges.items() for to in targets} for edges in (ours, theirs)]
    _print_agreement("edges", *pairs)


def _madge(bench: Bench, root: Path, folder: str) -> dict[str, set[str]]:
    """In a folder of our own, where it finds how to read the files."""
    program = bench.madge()
    skipped = {"skipTypeImports": True, "skipAsyncImports": True, "mixedImports": True}
    options = {"ts": skipped, "tsx": skipped, "es6": {"skipAsyncImports": True}}
    (bench.tools / ".madgerc").write_text(json.dumps({"detectiveOptions": options}))
    command = [program, "--extensions", "ts,tsx,js,mjs,cjs", "--no-spinner", "--json"]
    names = (f"{folder}/../tsconfig.json", "tsconfig.json", "tsconfig.base.json")
    config = next((root / name for name in names if (root / name).exists()), None)
    command += ["--ts-config", str(config)] if config else []
    found = bench.tools / "madge.json"  # through a pipe it ends at 64 KB
    with found.open("w") as out:
        subprocess.run([*command, str(root / folder)], stdout=out, cwd=bench.tools, check=True)

    def named(path: str) -> str:
        return (root / folder / path).resolve().relative_to(root).as_posix()

    return {named(path): {named(to) for to in targets} for path, targets in json.loads(found.read_text()).items()}


# --- references ----------------------------------------------------------------------------------------------------


def references(bench: Bench) -> None:
    print(f"Python references of {SAMPLE} sampled symbols against jedi: lines, definitions left out")
    totals: Counter[str] = Counter()
    each: list[tuple[float, float]] = []
    for project, package in REFERENCE_PROJECTS.items():
        with bench.project(project) as (engine, root):
            sample = _sample(engine, root, package, SAMPLE // len(REFERENCE_PROJECTS))
            answers = _jedi(bench, root, [(path, d.start_line, d.name) for path, d in sample])
            for (path, definition), theirs in zip(sample, answers, strict=True):
                request = RefsRequest(f"{path}::{definition.qualified}", str(root), limit=1000, refresh=False)
                usages = engine.code.references(request).usages
                ours = {(usage.file, usage.line) for usage in usages}
                _count(totals, each, ours, theirs)
                if ours != theirs:
                    odd = f"+{sorted(ours - theirs)[:3]} −{sorted(theirs - ours)[:3]}"
                    print(f"      {path}::{definition.qualified}: {odd}")
    both = totals["both"]
    print(f"  {totals['symbols']} symbols, {totals['theirs']} uses by jedi, {totals['ours']} by CodeInfo")
    print(f"  precision {both / totals['ours']:.4f}  recall {both / totals['theirs']:.4f}  (over all uses)")
    precision, recall = statistics.mean(p for p, _ in each), statistics.mean(r for _, r in each)
    print(f"  precision {precision:.4f}  recall {recall:.4f}  (mean of symbols)")


def _count(
    totals: Counter[str], each: list[tuple[float, float]], ours: set[tuple[str, int]], theirs: set[tuple[str, int]]
) -> None:
    both = len(ours & theirs)
    totals.update(symbols=1, both=both, ours=len(ours), theirs=len(theirs))
    each.append((both / len(ours) if ours else 1.0, both / len(theirs) if theirs else 1.0))


def _sample(engine: Engine, root: Path, package: str, count: int) -> list[tuple[str, Definition]]:
    store = engine.indexes.of(root).live_store()
    assert store is not None
    with code_facts(store) as facts:
        candidates = [
            (file.path, definition)
            for file in facts.files()
            if file.path.startswith(f"{package}/") and file.language == "python"
            for definition in facts.definitions(file.file_id)
            if definition.kind in ("function", "class", "method") and not definition.name.startswith("__")
        ]
    return random.Random(SEED).sample(candidates, count)


def _jedi(bench: Bench, root: Path, places: Sequence[tuple[str, int, str]]) -> list[set[tuple[str, int]]]:
    done = subprocess.run(
        [bench.python_tool(), "-c", JEDI, str(root)],
        cwd=bench.tools,  # a `src` or `tests` where it starts, or on its path, would mislead it
        env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        input=json.dumps(places),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [set() if isinstance(row, str) else {(path, line) for path, line in row} for row in rows]


# --- all of it -------------------------------------------------------------------------------------------------------


def speed(bench: Bench) -> None:
    measure_all(bench.trees)


PARTS = {part.__name__: part for part in (definitions, outlines, imports, cycles, references, speed)}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path, help="a folder with the projects")
    arguments.add_argument("--only", choices=PARTS, action="append", help="one part; may be given several times")
    arguments.add_argument("--tools", type=Path, help="a folder to keep the tools and indexes in")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = options.tools or Path(scratch)
        home.mkdir(parents=True, exist_ok=True)
        bench = Bench(options.trees.resolve(), home.resolve(), home.resolve() / "cache")
        for name in options.only or PARTS:
            PARTS[name](bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
