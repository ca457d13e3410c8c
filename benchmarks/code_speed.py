"""What code intelligence costs: graph, patterns and card on top of indexing, an update after one edit, `refs`, context.

    python benchmarks/code_speed.py TREES              # a folder with the projects
    python benchmarks/code_speed.py TREES exposed      # one of them

On a busy machine look at the time of the processor, which is shown beside that on the clock, and run it again.
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace
from synthetic import cpu_s

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import NotFound
from codeinfo.graph.model import Graph
from codeinfo.graph.uses import UsedNames
from codeinfo.operations.code import CyclesRequest, RefsRequest
from codeinfo.operations.knowledge import PatternsRequest
from codeinfo.operations.search import SearchRequest
from codeinfo.store.sqlite import code_facts

MIXED = ("vitest", "jackson-databind", "tokio", "aiohttp")  # 5,000 files in the languages that detectors speak
QUERIES = ("open a connection", "parse header", "write result to file", "error handling", "load settings", "run tests")
IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
NO_USES = ("package", "namespace", "heading")  # what is imported or read, not used
SEED = 11


def measure_all(trees: Path, projects: Sequence[str] = ()) -> None:
    print("speed: milliseconds")
    chosen: list[tuple[str, ...]] = [(project,) for project in projects] or [
        ("exposed",),
        ("laravel-framework",),
        ("vitest",),
        MIXED,
    ]
    for together in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            measure(trees, together, Path(scratch))


def measure(trees: Path, projects: Sequence[str], scratch: Path) -> None:
    """Everything in a copy, with a history of one commit: dating the lines of patterns belongs to their cost."""
    root = (scratch / "+".join(projects)).resolve()
    for project in projects:
        shutil.copytree(
            trees / project, root / project, symlinks=True, ignore=shutil.ignore_patterns(".git", ".codeinfo*")
        )
    for arguments in (["init", "-q"], ["add", "-A"], [*IDENTITY, "commit", "-qm", "all of it"]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    config = Config.load({"paths.cache_dir": str(scratch / "cache")}, root)
    indexing = _timed(lambda: _index(config, root))
    with Engine(config) as engine:
        _costs(engine, root, indexing)
        _context(engine, root)
        _names(engine, root)


def _index(config: Config, root: Path) -> None:
    """In an engine of its own: the time of its parsers is known once they have ended."""
    with Engine(config) as engine:
        engine.indexes.of(root).refresh()


def _costs(engine: Engine, root: Path, indexing: Spent) -> None:
    """What is paid once for each content, as a share of indexing, and what an edit costs."""
    keeper = engine.indexes.of(root)
    card = SearchRequest("open a connection", (str(root),), purpose="edit", refresh=False)
    parts = {
        "graph": _timed(lambda: engine.code.cycles(CyclesRequest(str(root), refresh=False))),
        "patterns": _timed(lambda: engine.knowledge.patterns(PatternsRequest(str(root)))),
        "card": _timed(lambda: engine.search(card)),
    }
    listed = ", ".join(f"{name} {cost.wall:.0f}" for name, cost in parts.items())
    share = sum(cost.wall for cost in parts.values()) / indexing.wall
    work = sum(cost.cpu for cost in parts.values()) / indexing.cpu
    print(f"  {root.name}: {len(_graph(engine, root).files)} files, {len(_graph(engine, root).edges)} edges")
    print(f"      index {indexing.wall:.0f}; {listed}: {share:.1%} of the clock on top, {work:.1%} of the processor")
    edited = root / random.Random(SEED).choice(sorted(_graph(engine, root).files))
    edited.write_text(edited.read_text(errors="replace") + "\n")
    keeper.refresh()
    again = _timed(lambda: engine.code.cycles(CyclesRequest(str(root), refresh=False))).wall
    patterns = _timed(lambda: engine.knowledge.patterns(PatternsRequest(str(root)))).wall
    print(f"      after one edit: graph {again:.0f}, patterns {patterns:.0f}")


def _names(engine: Engine, root: Path) -> None:
    """Names by chance and those used most; each is asked for twice, so that the second time it is warm."""
    graph, chooser = _graph(engine, root), random.Random(SEED)
    gc.collect()  # the engines before this one have left much behind, which is not for this one to walk over
    names = {
        name for path in graph.files if graph.edges_to(path) for name in graph.files[path].exports if len(name) > 3
    }
    for label, chosen in (
        ("by chance", chooser.sample(sorted(names), min(60, len(names)))),
        ("most used", _most_used(engine, root, 60)),
    ):
        for when in ("first", "again"):
            times = [_timed(lambda name=name: _ask(engine, root, name)) for name in chosen]  # type: ignore[misc]
            print(f"      refs, names {label}, {when}: {_told(times)}")


def _context(engine: Engine, root: Path) -> None:
    searches = [SearchRequest(query, (str(root),), context=True, refresh=False) for query in QUERIES]
    results = [engine.search(replace(search, context=False)) for search in searches]
    for when in ("first", "again"):
        pairs = list(zip(searches, results, strict=True))
        times = [_timed(lambda pair=pair: engine.knowledge.enrich(*pair)) for pair in pairs]  # type: ignore[misc]
        print(f"      context of 10 results, {when}: {_told(times[1:] if when == 'first' else times)}")
    keeper, graph = engine.indexes.of(root), _graph(engine, root)
    imported = [path for path in graph.files if graph.edges_to(path)]
    ten = random.Random(SEED).sample(imported, min(10, len(imported)))
    print(f"      tests of 10 files: {_told([_timed(lambda: engine.code.tests_of(keeper, ten)) for _ in range(20)])}")


def _told(times: Sequence[Spent]) -> str:
    """On the clock, and of the processor: the clock also counts what others do on a busy machine."""
    lines = []
    for kind, values in (("clock", [cost.wall for cost in times]), ("cpu", [cost.cpu for cost in times])):
        ordered = sorted(values)
        high = ordered[int(0.95 * len(ordered))]
        lines.append(f"{kind} median {statistics.median(ordered):.1f}, p95 {high:.1f}, worst {ordered[-1]:.1f}")
    return "; ".join(lines)


def _graph(engine: Engine, root: Path) -> Graph:
    store = engine.indexes.of(root).live_store()
    assert store is not None
    with engine.code.open(engine.indexes.of(root), store) as index:
        return index.graph


def _most_used(engine: Engine, root: Path, count: int) -> list[str]:
    store = engine.indexes.of(root).live_store()
    assert store is not None
    files: Counter[str] = Counter()
    with code_facts(store) as facts:
        for _, packed in facts.references([file.file_id for file in facts.files()]):
            files.update(UsedNames(packed).keys())
        definitions_of = ((name, facts.definitions_named(name)) for name, _ in files.most_common())
        defined = (name for name, definitions in definitions_of if any(d.kind not in NO_USES for _, d in definitions))
        return list(islice(defined, count))


def _ask(engine: Engine, root: Path, name: str) -> None:
    with suppress(NotFound):
        engine.code.references(RefsRequest(name, str(root), refresh=False))


class Spent(NamedTuple):
    """Milliseconds."""

    wall: float
    cpu: float


def _timed(work: Callable[[], object]) -> Spent:
    wall, cpu = time.perf_counter(), cpu_s()
    work()
    return Spent(1000 * (time.perf_counter() - wall), 1000 * (cpu_s() - cpu))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path, help="a folder with the projects")
    arguments.add_argument("names", nargs="*", help="only these projects")
    given = arguments.parse_args()
    measure_all(given.trees.resolve(), given.names)
