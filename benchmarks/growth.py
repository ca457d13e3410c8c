"""How an index grows: rate, memory, disk, cold, warm and edit at 20,000, 200,000 and 1,000,000 chunks of real code.

    export OPENBLAS_NUM_THREADS=1                                      # as codeinfo itself has it
    python benchmarks/growth.py TREES… --work FOLDER                   # 20,000 and 200,000 chunks
    python benchmarks/growth.py TREES… --work FOLDER --chunks 1000000
    python benchmarks/growth.py --draw FOLDER/growth.json --svg docs/growth.svg

A tree of the size is made of the given ones: their files, over and over, in folders that mix all of them. In each
further copy every fifth name is another one, so that no content is known and words spread as in different projects.
All times are of the processor, over all processes: the machine may be busy. Memory is the sum of what a process and its
children have for themselves and their share of the rest (PSS), looked at every half second.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from zlib import crc32

import msgspec
from index_speed import family
from msgspec import Struct
from synthetic import cost, memory_mb, queries

import codeinfo
from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.model import json_decoder
from codeinfo.operations.search import SearchRequest
from codeinfo.sources.walk import walk

CHARS_PER_CHUNK = 900  # of what is indexed, about
NAME = re.compile(r"[A-Za-z_]{5,}")
OTHER_NAMES = 5  # one of so many is another one in each copy
COLD_ROUNDS = 5
ASKED = 60
LOOK_EVERY_S = 0.5


class Figures(Struct, frozen=True):
    chunks: int
    files: int
    source_mb: float
    index_cpu_s: float
    index_peak_mb: float
    disk_mb: float
    cold_cpu_ms: float
    warm_p50_ms: float
    warm_p95_ms: float
    serving_mb: float
    edit_cpu_ms: float

    @property
    def rate(self) -> float:
        return self.chunks / self.index_cpu_s


# --- trees ---------------------------------------------------------------------------------------------------------


def write_tree(root: Path, sources: list[Path], chunks: int) -> float:
    """A tree of about so many chunks; its size in MB."""
    listed = [(tree, file.path) for tree in sources for file in walk(tree).files]
    written, copy = 0, 0
    while written < chunks * CHARS_PER_CHUNK:
        for at, (tree, path) in enumerate(listed):
            if written >= chunks * CHARS_PER_CHUNK:
                break
            data = (tree / path).read_bytes()
            with contextlib.suppress(UnicodeDecodeError):
                text = renamed(data.decode(), copy) if copy else data.decode()
                target = root / f"part{(at + copy) % 97}" / f"{tree.name}{copy}" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                written += target.write_text(text)
        copy += 1
    return written / 1e6


def renamed(text: str, copy: int) -> str:
    def other(match: re.Match[str]) -> str:
        name = match.group()
        seed = crc32(name.encode(), copy)
        return (
            name
            if seed % OTHER_NAMES
            else f"{name[:3]}{chr(97 + seed // 7 % 26)}{chr(97 + seed // 191 % 26)}{name[3:]}"
        )

    return NAME.sub(other, text)


# --- measuring -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def peak_of(pid: int) -> Iterator[list[float]]:
    peak, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(LOOK_EVERY_S):
            peak[0] = max(peak[0], sum(memory_mb(member, "Pss") for member in family(pid)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def measure(work: Path, sources: list[Path], chunks: int) -> Figures:
    root, cache = work / f"tree{chunks}", work / f"cache{chunks}"
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(cache, ignore_errors=True)
    source_mb = write_tree(root, sources, chunks)
    compileall.compile_dir(str(Path(codeinfo.__file__).parent), quiet=2)
    environment = {**os.environ, "CODEINFO_CACHE_DIR": str(cache), "CODEINFO_DATA_DIR": str(work / "data")}
    run = [sys.executable, "-m", "codeinfo"]
    index = [*run, "index", "--root", str(root)]
    with peak_of(os.getpid()) as peak:
        index_cost = cost(index, environment)
    disk_mb = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / 1e6
    status = subprocess.run([*run, "status", str(root), "--json"], env=environment, capture_output=True, check=True)
    counted = json.loads(status.stdout)
    cold = [cost([*run, "search", "connection pool header", str(root)], environment) for _ in range(COLD_ROUNDS)]
    warm, serving = ask(root, cache, work)
    edited = next(path for path in sorted(root.rglob("*.py")) if path.stat().st_size > 2000)
    edited.write_text(edited.read_text() + "\n\ndef appended_by_growth():\n    return 1\n")
    edit = cost(index, environment)
    figures = Figures(
        chunks=first_number(counted, "chunks"),
        files=first_number(counted, "files"),
        source_mb=round(source_mb, 1),
        index_cpu_s=round(index_cost.cpu_ms / 1000, 1),
        index_peak_mb=round(peak[0]),
        disk_mb=round(disk_mb, 1),
        cold_cpu_ms=round(median(run_cost.cpu_ms for run_cost in cold)),
        warm_p50_ms=round(median(warm), 1),
        warm_p95_ms=round(sorted(warm)[int(len(warm) * 0.95)], 1),
        serving_mb=round(serving),
        edit_cpu_ms=round(edit.cpu_ms),
    )
    shutil.rmtree(root)
    shutil.rmtree(cache)
    return figures


def first_number(value: object, key: str) -> int:
    """The first number of this name in a report."""
    if isinstance(value, dict):
        if isinstance(value.get(key), int):
            return int(value[key])
        value = list(value.values())
    if isinstance(value, list):
        return next((number for item in value if (number := first_number(item, key))), 0)
    return 0


def ask(root: Path, cache: Path, work: Path) -> tuple[list[float], float]:
    """Processor time of questions that are new to a process with the index at hand, and its memory afterwards."""
    settings = {"paths.cache_dir": str(cache), "paths.data_dir": str(work / "data")}
    times = []
    with Engine(Config.load(settings, root)) as engine:
        engine.search(SearchRequest("search", (str(root),), refresh=False))
        for query in queries(ASKED):
            started = time.process_time()
            engine.search(SearchRequest(query, (str(root),), refresh=False))
            times.append(1000 * (time.process_time() - started))
        return times, memory_mb(os.getpid(), "Pss")


# --- what is shown -------------------------------------------------------------------------------------------------

COLUMNS = {
    "chunks per CPU-second": "rate",
    "index, peak MB": "index_peak_mb",
    "disk MB": "disk_mb",
    "cold search, CPU ms": "cold_cpu_ms",
    "warm p50, CPU ms": "warm_p50_ms",
    "warm p95, CPU ms": "warm_p95_ms",
    "serving MB": "serving_mb",
    "one edit, CPU ms": "edit_cpu_ms",
}
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5")


def table(all_figures: list[Figures]) -> str:
    head = ["chunks", "files", "source MB", *COLUMNS]
    rows = [head, ["---"] * len(head)]
    for figures in all_figures:
        values = [f"{getattr(figures, name):,.0f}" for name in COLUMNS.values()]
        rows.append([f"{figures.chunks:,}", f"{figures.files:,}", f"{figures.source_mb:,.0f}", *values])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def svg(all_figures: list[Figures]) -> str:
    """Both axes logarithmic: a line that rises as steeply as the chunks do is growth in proportion."""
    width, height, left, top = 620, 380, 60, 20
    xs = [math.log10(figures.chunks) for figures in all_figures]
    values = {
        label: [math.log10(max(getattr(figures, name), 0.1)) for figures in all_figures]
        for label, name in COLUMNS.items()
    }
    low, high = math.floor(min(map(min, values.values()))), math.ceil(max(map(max, values.values())))

    def x(value: float) -> float:
        return left + (value - xs[0]) / ((xs[-1] - xs[0]) or 1) * (width - left - 200)

    def y(value: float) -> float:
        return top + (high - value) / (high - low) * (height - top - 40)

    style = 'font-family="sans-serif" font-size="11"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>']
    for power in range(low, high + 1):
        parts.append(f'<line x1="{left}" x2="{width - 200}" y1="{y(power):.0f}" y2="{y(power):.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(power) + 4:.0f}" text-anchor="end" fill="#666">{10**power:,g}</text>')
    for figures, at in zip(all_figures, xs, strict=True):
        parts.append(
            f'<text x="{x(at):.0f}" y="{height - 18}" text-anchor="middle" fill="#666">{figures.chunks:,}</text>'
        )
    parts.append(f'<text x="{left}" y="{height - 4}" fill="#666">chunks</text>')
    ends = sorted((y(line[-1]), label) for label, line in values.items())
    placed = -100.0
    for end, label in ends:
        colour = COLOURS[list(COLUMNS).index(label)]
        points = " ".join(f"{x(at):.0f},{y(value):.0f}" for at, value in zip(xs, values[label], strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        placed = max(placed + 13, end)
        parts.append(f'<text x="{width - 192}" y="{placed + 4:.0f}" fill="{colour}">{label}</text>')
    return "\n".join((*parts, "</svg>", ""))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path, nargs="*", help="real trees, the more different the better")
    arguments.add_argument("--work", type=Path, help="a folder with room for trees and indexes")
    arguments.add_argument("--chunks", type=int, action="append", help="a size; 20,000 and 200,000 by default")
    arguments.add_argument("--draw", type=Path, help="figures of earlier runs, to be shown only")
    arguments.add_argument("--svg", type=Path, help="write the curve there")
    options = arguments.parse_args()
    if options.draw:
        figures = json_decoder(list[Figures]).decode(options.draw.read_bytes())
    elif options.trees and options.work:
        options.work.mkdir(parents=True, exist_ok=True)
        figures = []
        for chunks in sorted(options.chunks or [20_000, 200_000]):
            figures.append(measure(options.work, options.trees, chunks))
            print(figures[-1], flush=True)
            (options.work / "growth.json").write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    else:
        arguments.error("name some trees and --work, or --draw")
    print(table(figures))
    if options.svg:
        options.svg.write_text(svg(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
