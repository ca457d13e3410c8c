"""For measurements: trees of any size whose words are spread as in real code, copies of indexes, and what processes
take of the machine."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import NamedTuple
from zlib import crc32

import numpy as np

from codeinfo.models import MODEL, read_safetensors
from codeinfo.store.database import Block, _block_checksum, chunk_id
from codeinfo.store.layout import IndexFolder
from codeinfo.store.segments import VectorRows, dequantize, quantize, rows_checksum, write_vectors

VOCABULARY = 6000
COMPOUND = 0.5  # of the identifiers, made of two words
IDENTIFIERS_PER_CHUNK = 90  # about 1,000 characters: a chunk each
ASKED_RANKS = (15, 1500)  # of words in queries: in 50 % down to 1 % of the chunks, as those of real questions are


def words() -> list[str]:
    """Words of real code, the most frequent first."""
    tensors, _ = read_safetensors(MODEL)
    vocabulary = tensors["vocabulary"].tobytes().decode().split("\n")
    return [word for word in vocabulary if word.isalpha() and word.isascii() and 3 <= len(word) <= 12][:VOCABULARY]


def write_tree(root: Path, files: int, chunks_per_file: int, seed: int = 1) -> None:
    """Words by Zipf's law, so that a query meets about .8 postings a chunk, as on the benchmark's trees."""
    chance = random.Random(seed)
    vocabulary = words()
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(vocabulary))))
    for at in range(files):
        drawn = iter(chance.choices(vocabulary, cum_weights=weights, k=2 * chunks_per_file * IDENTIFIERS_PER_CHUNK + 2))
        folder = root / f"package{at // 50}"
        folder.mkdir(parents=True, exist_ok=True)
        bodies = []
        for part in range(chunks_per_file):
            names_here = [
                f"{next(drawn)}_{next(drawn)}" if chance.random() < COMPOUND else next(drawn)
                for _ in range(IDENTIFIERS_PER_CHUNK)
            ]
            bodies.append(_function(f"{names_here[0]}_{at}_{part}", names_here[1:]))
        (folder / f"{next(drawn)}_{at}.py").write_text("\n\n".join(bodies))


def _function(name: str, body: list[str]) -> str:
    lines = ["    " + ", ".join(body[at : at + 6]) for at in range(0, len(body), 6)]
    return f"def {name}(self):\n" + "\n".join(lines) + "\n"


def queries(count: int, seed: int = 2) -> list[str]:
    """Names and questions in turn."""
    chance = random.Random(seed)
    frequent = words()[slice(*ASKED_RANKS)]
    ranks = [1 / (rank + 1) for rank in range(*ASKED_RANKS)]  # even over orders of magnitude
    names = ["_".join(chance.choices(frequent, ranks, k=2)) for _ in range(count)]
    questions = [f"where does the {' '.join(chance.choices(frequent, ranks, k=4))} happen" for _ in range(count)]
    return [name if at % 2 else question for at, (name, question) in enumerate(zip(names, questions, strict=True))]


# --- copies of indexes: a million chunks without indexing them ----------------------------------------------------

OTHER_TERMS = 5  # one of so many is another one in each copy
MOVED = 0.3  # how far the vector of a chunk is moved in each copy, at random


def copy_index(cache: Path, source: Path, target: Path, copy: int, rounds: int = 1) -> int:
    """The index of `source` as that of the folder `target`, in which some words and all vectors are other ones; with
    several `rounds` it holds as many copies side by side. Returns its chunks. Only what a search reads is copied."""
    build = IndexFolder(cache, source).current()
    assert build is not None, f"{source} is not indexed in {cache}"
    target.mkdir(parents=True, exist_ok=True)
    place = IndexFolder(cache, target)
    folder = place.path / build.name
    folder.mkdir(parents=True)
    shutil.copy(build / "index.db", folder / "index.db")
    place.tree_path.mkdir(parents=True)
    (place.tree_path / "root").write_bytes(str(target).encode())
    for pointer in (place.tree_path / "current", place.path / "current"):
        pointer.write_text(f"{build.name}\n")
    with sqlite3.connect(folder / "index.db") as db:
        db.create_function("other", 2, other_term, deterministic=True)
        db.execute("UPDATE trees SET name = ?", (place.tree,))
        db.execute("UPDATE meta SET value = ? WHERE key = 'root'", (str(target),))
        segments = db.execute(
            "SELECT id, row_count, file_ids, lengths, vector_file, dimension FROM segments"
        ).fetchall()
        step = db.execute("SELECT max(id) FROM files").fetchone()[0]
        blocks: list[Block] = db.execute("SELECT * FROM chunks").fetchall()
        paths = dict(db.execute("SELECT id, path FROM files"))
        for round_ in range(rounds):
            if round_:
                _add_rows(db, round_, step, blocks, paths)
            for segment, count, owners, lengths, vector_file, dimension in segments:
                vectors = write_vectors(
                    folder, _moved(VectorRows(build / vector_file, count, dimension).all(), copy + round_)
                )
                file_ids = (np.frombuffer(owners, np.int32) + np.int32(round_ * step)).tobytes()
                checksum = rows_checksum(file_ids, lengths)
                row = (count, file_ids, lengths, checksum, vectors.name, dimension, vectors.checksum)
                added = db.execute("INSERT INTO segments VALUES(NULL, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
                terms = "INSERT OR IGNORE INTO postings SELECT ?, other(term, ?), data FROM postings WHERE segment = ?"
                db.execute(terms, (added, copy + round_, segment))
        db.executemany("DELETE FROM postings WHERE segment = ?", ((segment[0],) for segment in segments))
        db.executemany("DELETE FROM segments WHERE id = ?", ((segment[0],) for segment in segments))
    return rounds * sum(int(segment[1]) for segment in segments)


def _add_rows(db: sqlite3.Connection, copy: int, step: int, blocks: list[Block], paths: dict[int, str]) -> None:
    """Files, chunks and definitions once more, in a folder of their own."""
    prefix, first = f"copy{copy}/", copy * step
    db.execute(
        """INSERT INTO files SELECT id + ?, ? || path, sha256, language, kind, chunk_count, notes, skip, brought_back,
           checksum FROM files WHERE id <= ?""",
        (first, prefix, step),
    )
    db.execute(
        """INSERT INTO definitions SELECT file_id + ?, ordinal, name_key, name, qualified, kind, signature, doc,
           start_line, end_line, exported, bases FROM definitions WHERE file_id <= ?""",
        (first, step),
    )
    db.execute(
        """INSERT INTO entries SELECT tree, ? || path, file_id + ?, size, mtime_ns FROM entries
           WHERE file_id <= ?""",
        (prefix, first, step),
    )
    db.executemany("INSERT INTO chunks VALUES(?, ?, ?, ?)", _moved_blocks(blocks, first, prefix, paths))


def _moved_blocks(blocks: list[Block], first: int, prefix: str, paths: dict[int, str]) -> Iterator[Block]:
    file_step = chunk_id(first, 0)
    per_file = chunk_id(1, 0)
    for block, start_line, end_line, data in blocks:
        moved = (block + file_step, start_line, end_line)
        yield (*moved, _block_checksum(prefix + paths[block // per_file], *moved, data[4:]) + data[4:])


def other_term(term: str, copy: int) -> str:
    seed = crc32(term.encode("utf-8", "surrogatepass"), copy)
    if not copy or seed % OTHER_TERMS:
        return term
    return f"{term[:3]}{chr(97 + seed // 7 % 26)}{chr(97 + seed // 191 % 26)}{term[3:]}"


def _moved(vectors: np.ndarray, copy: int) -> Iterator[np.ndarray]:
    chance = np.random.default_rng(copy)
    for start in range(0, len(vectors), 8192):
        block = dequantize(vectors[start : start + 8192])
        if copy:
            block += MOVED / block.shape[1] ** 0.5 * chance.standard_normal(block.shape, np.float32)
        yield quantize(block)


class Cost(NamedTuple):
    """Of one command: wall time, and processor time, which a busy machine blurs less."""

    wall_ms: float
    cpu_ms: float


def cost(command: list[str], environment: dict[str, str]) -> Cost:
    before, started = children_cpu_s(), time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return Cost(1000 * (time.perf_counter() - started), 1000 * (children_cpu_s() - before))


def cpu_s() -> float:
    """The processor time of this process and of those it started that have ended, such as parsers and git."""
    return time.process_time() + children_cpu_s()


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def process_cpu_s(pid: int) -> float:
    """The processor time of a running process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, field: str) -> float:
    """The memory of a process by the kernel's name for it, such as VmRSS or Pss; 0 if it has ended."""
    file = "smaps_rollup" if field == "Pss" else "status"
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) / 1000
    return 0.0


def typical(costs: list[Cost]) -> Cost:
    return Cost(median(spent.wall_ms for spent in costs), median(spent.cpu_ms for spent in costs))


def shown(spent: Cost) -> str:
    return f"{spent.wall_ms:.0f} ms (processor {spent.cpu_ms:.0f})"
