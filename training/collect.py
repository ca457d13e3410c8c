"""Registries → records: download source packages by name, keep the permissive ones, extract, throw the archive away.

    python training/collect.py source|binary|npm|pypi OUT_DIR [--minutes N] [--only NAME…]

Writes OUT_DIR/<kind>.jsonl.gz (one record a line) and OUT_DIR/<kind>.tsv (name, version, licence, records).
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import random
import re
import signal
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import registries
from extract import Record, language_of, records
from msgspec.structs import asdict
from names import excluded
from registries import LARGE, PARTS, SEED, Package

PER_PACKAGE = 160
# Some languages live in few packages of the registries: their standard libraries may give more.
PER_LARGE_PACKAGE = 7000
# A package gives at most this many records of a language that is plentiful anyway.
PLENTY = {
    "markdown": 12,
    "ruby": 100,
    "csharp": 120,
    "javascript": 60,
    "java": 120,
    "python": 100,
    "php": 100,
    "haskell": 80,
    "go": 80,
}
UNDOCUMENTED_SHARE = 0.25


_INSTALLED = re.compile(
    r"^(\./)?usr/(share|lib|include)/(gocode/src/[^/]+/([^/]+/)?|cargo/registry/[^/]+/|rubygems-integration/all/gems/[^/]+/"
    r"|ruby/vendor_ruby/|php/|python3/dist-packages/|[\w-]+-linux-gnu/)?"
)


def members(filename: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """(path without the top folder, content) of the files of an archive that are in a known language."""
    if filename.endswith((".zip", ".whl")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.file_size < 500_000 and language_of(info.filename):
                    yield info.filename, archive.read(info)
        return
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as tar:
        for member in tar:
            path = _INSTALLED.sub("", member.name) if "usr/" in member.name[:6] else member.name.split("/", 1)[-1]
            if member.isfile() and member.size < 500_000 and language_of(path):
                opened = tar.extractfile(member)
                if opened:
                    yield path, opened.read()


def pick(records: list[Record], name: str) -> list[Record]:
    """A spread over the package: documented records first, plentiful languages capped."""
    cap = PER_LARGE_PACKAGE if name in LARGE else PER_PACKAGE
    rng = random.Random(f"{SEED}{name}")
    rng.shuffle(records)
    documented = [r for r in records if r.doc]
    bare = [r for r in records if not r.doc]
    taken: Counter[str] = Counter()
    out: list[Record] = []
    seen: set[str] = set()
    for r in documented + bare[: max(8, int(len(documented) * UNDOCUMENTED_SHARE))]:
        limit = PLENTY.get(r.lang, cap) if name not in LARGE else cap
        key = r.code[:200]
        if len(out) < cap and taken[r.lang] < limit and key not in seen:
            seen.add(key)
            taken[r.lang] += 1
            out.append(r)
    return out


def extract_all(package: Package) -> list[Record]:
    read: list[Record] = []
    budget = 60_000_000 if package.name in LARGE else 6_000_000
    signal.alarm(60 if package.name in LARGE else 15)  # no single package may hold up the rest
    try:
        for path, content in members(package.filename, package.archive):
            if package.name in PARTS and not PARTS[package.name][1].match(path):
                continue
            if package.name in LARGE and language_of(path) != LARGE[package.name]:
                continue
            budget -= len(content)
            if budget < 0:
                break
            read.extend(records(path, content.decode("utf-8", "replace")))
    except (tarfile.TarError, lzma.LZMAError, zipfile.BadZipFile, EOFError, OSError):
        pass
    finally:
        signal.alarm(0)
    return pick(read, package.name)


# The loop -------------------------------------------------------------------------------------------------------------


def run(kind: str, jobs: Iterable[Any], download: Callable[[Any], Package | None], out: Path, minutes: float) -> None:
    """Downloads overlap, extraction is serial: the archives never pile up."""
    stop = time.monotonic() + minutes * 60
    counts: Counter[str] = Counter()
    out.mkdir(parents=True, exist_ok=True)
    iterator = iter(jobs)
    with (
        gzip.open(out / f"{kind}.jsonl.gz", "wt", compresslevel=3) as sink,
        open(out / f"{kind}.tsv", "w") as table,
        ThreadPoolExecutor(24) as pool,
    ):
        pending = [pool.submit(download, job) for job, _ in zip(iterator, range(64), strict=False)]
        while pending and time.monotonic() < stop:
            future = pending.pop(0)
            pending += [pool.submit(download, job) for job, _ in zip(iterator, range(1), strict=False)]
            try:
                package = future.result()
            except Exception as problem:  # one broken package must not end the run
                counts["!" + type(problem).__name__] += 1
                continue
            counts["tried"] += 1
            if package is None or counts["=" + package.name]:
                continue
            counts["=" + package.name] += 1
            read = extract_all(package)
            for r in read:
                counts[r.lang] += 1
                sink.write(json.dumps({"pkg": f"{kind}:{package.name}", **asdict(r)}) + "\n")
            if read:
                counts["packages"] += 1
                licence = package.licence.replace("\n", " ")
                print(package.name, package.version, licence, kind, len(read), sep="\t", file=table, flush=True)
        for future in pending:
            future.cancel()
    print(kind, {k: n for k, n in counts.items() if k[0] != "="}, flush=True)


def _too_long(signum: int, frame: object) -> None:
    raise OSError("extraction takes too long")


def main() -> None:
    signal.signal(signal.SIGALRM, _too_long)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["source", "binary", "npm", "pypi"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=35)
    parser.add_argument("--only", nargs="*", help="PyPI, npm, source: package names; binary: kinds of packages")
    args = parser.parse_args()
    jobs, download = work(args.kind, args.only)
    run(args.kind, jobs, download, args.out, args.minutes)


def work(kind: str, only: list[str] | None) -> tuple[list[Any], Callable[[Any], Package | None]]:
    """What to try, in order, and how to get one."""
    if kind == "npm":
        registry = registries.npm_registry()
        names = only or registries.npm_queue(registry)
        return [n for n in names if not excluded(n, "")], lambda n: registries.npm_package(registry, n)
    if kind == "pypi":
        root = registries.pypi_root()
        return [n for n in only or registries.pypi_queue() if not excluded(n, "")], lambda n: registries.pypi_package(
            root, n
        )
    if kind == "source":
        queue = [p for p in registries.source_queue() if not only or p["Package"] in only]
    else:
        queue = registries.binary_queue(only or registries.BINARY_KINDS)
    packages = [p for p in queue if not excluded(p["Package"], p.get("Homepage", "") + " ")]
    return packages, registries.source_package if kind == "source" else registries.binary_package


if __name__ == "__main__":
    main()
