"""Six writers and six readers on one index: no error may reach a reader.

    python benchmarks/readers_writers.py                   # 30 s
    python benchmarks/readers_writers.py --seconds 5

Each writer edits files of its own and indexes, now and then everything again, which swaps builds under the readers; it
may be refused as busy. Each reader searches, one half through an engine that stays open, one half through a fresh one,
with and without a look for changes. A file that nobody touches must be found, with its own text, by every search. At
the end one more run must bring the index to the content of a clean build.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from store_digest import digest_of

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import Busy
from codeinfo.operations.search import IndexRequest, SearchRequest

FORK = multiprocessing.get_context("fork")
STEADY = "def steady_landmark():\n    return 'never touched'\n"


def engine(cache: Path) -> Engine:
    settings = {"paths.cache_dir": str(cache), "embedding.provider": "scripted", "index.workers": 1}
    return Engine(Config.load(settings, cache.parent, env={"HOME": str(cache.parent / "home")}))


def write_module(path: Path, words: int) -> None:
    path.write_text("\n\n".join(f"def compute_{words}_{part}(left):\n    return left * {words}\n" for part in range(5)))


def write_on(number: int, root: Path, cache: Path, until: float, results: Any) -> None:
    counts: Counter[str] = Counter()
    chance = random.Random(number)
    try:
        while time.monotonic() < until:
            path = root / f"writer{number}_{chance.randrange(4)}.py"
            if path.exists() and chance.random() < 0.2:
                path.unlink()
            else:
                write_module(path, chance.randrange(1000))
            try:
                with engine(cache) as opened:
                    opened.index(IndexRequest((str(root),), full=chance.random() < 0.1))
                counts["runs"] += 1
            except Busy:
                counts["busy"] += 1
                time.sleep(0.02)
    except Exception as error:
        counts[f"writer: {type(error).__name__}: {error}"] += 1
    results.put(counts)


def read_on(number: int, root: Path, cache: Path, until: float, results: Any) -> None:
    counts: Counter[str] = Counter()
    lasting = engine(cache) if number % 2 else None
    while time.monotonic() < until:
        request = SearchRequest("steady_landmark", (str(root),), refresh=number % 3 == 0)
        try:
            if lasting is not None:
                result = lasting.search(request)
            else:
                with engine(cache) as opened:
                    result = opened.search(request)
            counts["searches"] += 1
            best = result.hits[0] if result.hits else None
            if best is None or best.path != "steady.py" or best.text.strip() != STEADY.strip():
                counts[f"reader: a wrong answer, {best}"] += 1
        except Exception as error:
            counts[f"reader: {type(error).__name__}: {error}"] += 1
    results.put(counts)


def put_digest(root: Path, cache: Path, results: Any) -> None:
    with engine(cache) as opened:
        opened.index(IndexRequest((str(root),)))
        store = opened.indexes.of(root).live_store()
        assert store is not None
        results.put(digest_of(store))


def digest(root: Path, cache: Path) -> str:
    results = FORK.SimpleQueue()
    process = FORK.Process(target=put_digest, args=(root, cache, results))
    process.start()
    process.join()
    return str(results.get()) if process.exitcode == 0 else f"failed with {process.exitcode}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=30.0)
    arguments.add_argument("--writers", type=int, default=6)
    arguments.add_argument("--readers", type=int, default=6)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root, cache = Path(name) / "tree", Path(name) / "cache"
        root.mkdir()
        (root / "steady.py").write_text(STEADY)
        for at in range(30):
            write_module(root / f"module{at}.py", at)
        digest(root, cache)
        counts = together(root, cache, options.seconds, options.writers, options.readers)
        same = digest(root, cache) == digest(root, Path(name) / "clean")
    errors = {what: count for what, count in counts.items() if ": " in what}
    print(f"{counts['searches']} searches, {counts['runs']} index runs, {counts['busy']} refused as busy")
    print(f"{sum(errors.values())} errors; content as of a clean build: {'yes' if same else 'NO'}")
    for what, count in errors.items():
        print(f"  {count} × {what}")
    return 1 if errors or not same else 0


def together(root: Path, cache: Path, seconds: float, writers: int, readers: int) -> Counter[str]:
    results = FORK.SimpleQueue()
    until = time.monotonic() + seconds
    processes = [FORK.Process(target=write_on, args=(at, root, cache, until, results)) for at in range(writers)]
    processes += [FORK.Process(target=read_on, args=(at, root, cache, until, results)) for at in range(readers)]
    for process in processes:
        process.start()
    total: Counter[str] = Counter()
    for _ in processes:
        total.update(results.get())
    for process in processes:
        process.join()
    return total


if __name__ == "__main__":
    sys.exit(main())
