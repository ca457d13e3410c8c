"""What a team's store costs for a million chunks: disk in PostgreSQL and in a server's cache, time to index, memory,
searches.

    python benchmarks/team_sizing.py FOLDER...
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import psycopg
from postgres_tools import new_database
from synthetic import cpu_s

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.search import IndexRequest, SearchRequest

QUERIES = ("parse the configuration file", "retry a failed request", "where are errors logged", "open a connection",
           "escape a string", "validate input", "close all resources", "compare versions", "read a header")  # fmt: skip
SEARCHES = 20  # of each project


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def database_bytes(url: str) -> int:
    with psycopg.connect(url) as db:
        return int(db.execute("SELECT pg_database_size(current_database())").fetchall()[0][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+")
    folders = [str(Path(folder).resolve()) for folder in parser.parse_args().folders]
    url = new_database()
    with tempfile.TemporaryDirectory() as place:
        flags = {"store.url": url, "paths.cache_dir": f"{place}/one", "paths.data_dir": f"{place}/data"}
        empty = database_bytes(url)
        with Engine(Config.load(flags)) as engine:
            started, used, chunks, files = time.monotonic(), cpu_s(), 0, 0
            for folder in folders:
                (report,) = engine.index(IndexRequest((folder,))).reports
                chunks, files = chunks + report.chunks, files + report.files
        took, used = time.monotonic() - started, cpu_s() - used  # with the parser processes, which have ended now
        with Engine(Config.load(flags)) as engine:
            before, latencies = resident_bytes(), []
            for folder in folders:
                for at in range(SEARCHES):
                    began = time.thread_time()
                    engine.search(SearchRequest(QUERIES[at % len(QUERIES)], (folder,)))
                    latencies.append(time.thread_time() - began)
            memory = resident_bytes() - before
        stored, cached = database_bytes(url) - empty, bytes_below(Path(place) / "one")
    million = 1_000_000 / chunks
    print(f"{len(folders)} projects, {files} files, {chunks} chunks; for a million chunks:")
    print(f"  PostgreSQL {stored * million / 1e9:.1f} GB, a server's cache {cached * million / 1e9:.1f} GB")
    print(f"  indexing {used * million / 3600:.2f} processor hours ({took * million / 3600:.2f} h here)")
    print(f"  memory {memory * million / 1e9:.1f} GB with all of it in use")
    median = statistics.median(latencies)
    print(f"  searches: {1000 * median:.1f} ms of a processor, {1 / median:.0f} a second for each")


if __name__ == "__main__":
    main()
