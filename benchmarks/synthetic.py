"""For measurements: trees of any size whose words are spread as in real code, and a clock for whole commands."""

from __future__ import annotations

import random
import resource
import subprocess
import time
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import NamedTuple

from codeinfo.models.builtin import MODEL, read_safetensors

VOCABULARY = 6000
COMPOUND = 0.5  # of the identifiers, made of two words
IDENTIFIERS_PER_CHUNK = 90  # about 1,000 characters: a chunk each
ASKED_RANKS = (15, 1500)  # of words in queries: in 50 % down to 1 % of the chunks, as those of real questions are


def words() -> list[str]:
    """Words of real code, the most frequent first."""
    tensors, _ = read_safetensors(MODEL)
    known = tensors["vocabulary"].tobytes().decode().split("\n")
    return [word for word in known if word.isalpha() and word.isascii() and 3 <= len(word) <= 12][:VOCABULARY]


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
            own = [
                f"{next(drawn)}_{next(drawn)}" if chance.random() < COMPOUND else next(drawn)
                for _ in range(IDENTIFIERS_PER_CHUNK)
            ]
            bodies.append(_function(f"{own[0]}_{at}_{part}", own[1:]))
        (folder / f"{next(drawn)}_{at}.py").write_text("\n\n".join(bodies))


def _function(name: str, body: list[str]) -> str:
    lines = ["    " + ", ".join(body[at : at + 6]) for at in range(0, len(body), 6)]
    return f"def {name}(self):\n" + "\n".join(lines) + "\n"


def queries(count: int, seed: int = 2) -> list[str]:
    """Names and questions in turn."""
    chance = random.Random(seed)
    asked = words()[slice(*ASKED_RANKS)]
    ranks = [1 / (rank + 1) for rank in range(*ASKED_RANKS)]  # even over orders of magnitude
    names = ["_".join(chance.choices(asked, ranks, k=2)) for _ in range(count)]
    questions = [f"where does the {' '.join(chance.choices(asked, ranks, k=4))} happen" for _ in range(count)]
    return [name if at % 2 else question for at, (name, question) in enumerate(zip(names, questions, strict=True))]


class Cost(NamedTuple):
    """Of one command: wall time, and processor time, which a busy machine blurs less."""

    wall_ms: float
    cpu_ms: float


def cost(command: list[str], environment: dict[str, str]) -> Cost:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(1000 * wall, 1000 * cpu)


def typical(costs: list[Cost]) -> Cost:
    return Cost(median(one.wall_ms for one in costs), median(one.cpu_ms for one in costs))


def shown(one: Cost) -> str:
    return f"{one.wall_ms:.0f} ms (processor {one.cpu_ms:.0f})"
