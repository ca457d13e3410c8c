"""For measurements: trees of any size whose words are spread as in real code, and a clock for whole commands."""

from __future__ import annotations

import random
import resource
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOTS = "connect pool header parse token cache index query result file path user session error retry batch write read"
ROOTS += " split merge graph node edge score rank filter build store vector chunk text line symbol import config render"
WORDS_PER_CHUNK = 110  # about 1,000 characters: a chunk each


def write_tree(root: Path, files: int, chunks_per_file: int, seed: int = 1) -> None:
    chance = random.Random(seed)
    stems = ROOTS.split()
    vocabulary = [*stems, *(f"{chance.choice(stems)}_{chance.choice(stems)}_{at}" for at in range(5000))]
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    for at in range(files):
        folder = root / f"package{at // 50}"
        folder.mkdir(parents=True, exist_ok=True)
        words = chance.choices(vocabulary, weights, k=chunks_per_file * WORDS_PER_CHUNK)
        bodies = [_function(at, part, words) for part in range(chunks_per_file)]
        (folder / f"module{at}.py").write_text("\n\n".join(bodies))


def _function(file: int, part: int, words: list[str]) -> str:
    own = words[part * WORDS_PER_CHUNK : (part + 1) * WORDS_PER_CHUNK]
    name = "_".join(own[:2])
    lines = ["    " + ", ".join(own[at : at + 6]) for at in range(2, len(own), 6)]
    return f"def {name}_{file}_{part}(self):\n" + "\n".join(lines) + "\n"


def queries(count: int, seed: int = 2) -> list[str]:
    """Names and questions in turn."""
    chance = random.Random(seed)
    stems = ROOTS.split()
    names = ["_".join(chance.sample(stems, 2)) for _ in range(count)]
    questions = [f"where does the {' '.join(chance.sample(stems, 3))} happen" for _ in range(count)]
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
