r"""Exact search against ripgrep: the same lines, and how long they take.

    python benchmarks/exact.py TREE... [--patterns 500] [--seed 1]       # none missing, none extra
    python benchmarks/exact.py TREE --latency 200 [--commands 10]        # p50 of both, taken by turns

Patterns come from the trees themselves: pieces of lines, words, and expressions made from lines by rules. ripgrep
searches the same files (`--no-ignore --hidden`, cut to those that CodeInfo lists) with `--crlf`; lines and columns are
compared; of an expression with `-w` only lines, since ripgrep 13 names the column behind a first character that is of
no word. A match within a secret is one that CodeInfo must not have: these are counted apart, each checked.
Latency: the warm call as a server makes it, against `rg PATTERN .` with its output read.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from codeinfo import Config, Engine, GrepRequest, IndexRequest
from codeinfo.engine.grep import MAX_BYTES, Corpus, list_files
from codeinfo.files import read_regular
from codeinfo.serve.refresh import server_engine
from codeinfo.sources.masking import blank_secrets
from codeinfo.sources.read import searchable

MOST_COMPARED = 10_000  # lines of one pattern whose places are compared; beyond, the count is
Place = tuple[str, int, int]  # path, line, column


class Query(Struct, frozen=True):
    pattern: str
    regex: bool = False
    word: bool = False
    ignore_case: bool = False

    def arguments(self) -> list[str]:
        flags = [flag for flag, given in (("-F", not self.regex), ("-w", self.word), ("-i", self.ignore_case)) if given]
        return [*flags, "-e", self.pattern]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--patterns", type=int, default=500, help="of all trees together")
    parser.add_argument("--latency", type=int, default=0, metavar="N", help="time N patterns instead of comparing")
    parser.add_argument("--commands", type=int, default=0, metavar="N", help="of these, also as commands")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with server_engine(Config.load()) as engine:
        if options.latency:
            for tree in options.trees:
                time_patterns(engine, tree.resolve(), options.latency, options.commands, options.seed)
            return
        wrong = 0
        for at, tree in enumerate(options.trees):
            count = options.patterns * (at + 1) // len(options.trees) - options.patterns * at // len(options.trees)
            wrong += compare_tree(engine, tree.resolve(), count, options.seed)
    sys.exit(1 if wrong else 0)


# --- patterns --------------------------------------------------------------------------------------------------------


def corpus_of(engine: Engine, root: Path) -> Corpus:
    engine.index(IndexRequest((str(root),)))
    index = engine.indexes.of(root)
    store = engine.indexes.open(index).store
    assert index.baseline is not None
    return list_files(index.source.contents, store, index.baseline.walk)


def patterns(root: Path, corpus: Corpus, count: int, seed: int) -> list[Query]:
    chooser = random.Random(f"{seed} {root.name}")
    made: list[Query] = []
    while len(made) < count:
        line = random_line(root, corpus, chooser)
        if line and (query := chooser.choice(WAYS)(line, chooser)):
            made.append(query)
    return made


def random_line(root: Path, corpus: Corpus, chooser: random.Random) -> str:
    text = blank_secrets(searchable(read_regular(str(root), chooser.choice(corpus.paths), MAX_BYTES)) or b"")
    lines = [line for line in text.split(b"\n") if b"\0" not in line and len(line.strip()) > 4]
    return chooser.choice(lines).decode("utf-8", "replace").strip("\r") if lines else ""


def cut(line: str, chooser: random.Random, longest: int = 40) -> str:
    length = chooser.randint(3, longest)
    start = chooser.randrange(max(1, len(line) - length))
    return line[start : start + length]


def literal(line: str, chooser: random.Random) -> Query | None:
    piece = cut(line, chooser)
    return Query(piece, ignore_case=chooser.random() < 0.2) if piece.strip() else None


def word(line: str, chooser: random.Random) -> Query | None:
    words = re.findall(r"\w{2,}", line)
    return Query(chooser.choice(words), word=True, ignore_case=chooser.random() < 0.3) if words else None


def expression(line: str, chooser: random.Random) -> Query | None:
    words = re.findall(r"[A-Za-z_]\w{2,}", line)
    if not words or "\ufffd" in line:
        return None
    first, second = chooser.choice(words), chooser.choice(words)
    start, end = sorted((line.find(first), line.find(second)))
    made = chooser.choice(
        (
            escaped(cut(line, chooser)),
            re.sub(r"\d+", lambda _: r"\d+", escaped(cut(line, chooser))),
            re.sub(r"[ ]+", lambda _: r"\s+", escaped(cut(line, chooser))),
            rf"\b{first}\b",
            rf"{first[:3]}\w+{first[-1]}",
            rf"{escaped(line[start : start + 3])}.*{escaped(line[end : end + 4])}",
            rf"^\s*{escaped(line.strip()[:12])}",
            rf"{escaped(line[-10:])}$",
            rf"({first}|{second})\W",
            rf"(?:{first}|no_such_{second})[^a-z]",
            rf"[A-Z]\w*{first[-4:]}\(",
            rf"(?i){first[:4]}[a-z]{{1,3}}",
            rf"{first[:-1]}{first[-1]}+\S?",
            rf"^[^\s]+\s{first}",
            rf"[\w.]+{escaped(first[-3:])}\s*[=(:]",
        )
    )
    return Query(made, regex=True, word=chooser.random() < 0.1, ignore_case=chooser.random() < 0.1)


def escaped(text: str) -> str:
    """Only what needs it: ripgrep refuses a backslash before anything else."""
    return re.sub(r"[\\.+*?()|\[\]{}^$]", lambda match: "\\" + match[0], text)


WAYS: tuple[Callable[[str, random.Random], Query | None], ...] = (literal, literal, word, expression, expression)


# --- the same lines --------------------------------------------------------------------------------------------------


def compare_tree(engine: Engine, root: Path, count: int, seed: int) -> int:
    corpus = corpus_of(engine, root)
    listed = set(corpus.paths)
    wrong = lines = in_secrets = 0
    for query in patterns(root, corpus, count, seed):
        theirs = {place for place in ripgrep(root, query) if place[0] in listed}
        ours, total = codeinfo(engine, root, query)
        if query.regex and query.word:
            theirs, ours = without_columns(theirs), without_columns(ours)
        missing, extra = theirs - ours, ours - theirs
        if total > MOST_COMPARED:
            first = max(ours)
            missing = {place for place in missing if place < first}
        hidden = {place for place in missing if is_secret(root, place)}
        missing -= hidden
        in_secrets += len(hidden)
        lines += len(theirs)
        counted_wrong = total != len(theirs) - (len(hidden) if total <= MOST_COMPARED else 0)
        if missing or extra or (counted_wrong and total <= MOST_COMPARED):
            wrong += 1
            print(f"  {query}: {len(missing)} missing, {len(extra)} extra, {total} counted for {len(theirs)}")
            print(f"    missing {sorted(missing)[:3]}, extra {sorted(extra)[:3]}")
    print(
        f"{root.name}: {count} patterns, {len(listed):,} files, {lines:,} lines; {wrong} patterns differ, "
        f"{in_secrets} lines match within secrets",
        flush=True,
    )
    return wrong


def codeinfo(engine: Engine, root: Path, query: Query) -> tuple[set[Place], int]:
    result = engine.grep(request_of(root, query, MOST_COMPARED))
    return {(match.path, match.line, match.column) for match in result.matches}, result.total


def without_columns(places: set[Place]) -> set[Place]:
    return {(path, line, 0) for path, line, _ in places}


def request_of(root: Path, query: Query, limit: int) -> GrepRequest:
    return GrepRequest(
        query.pattern,
        (str(root),),
        regex=query.regex,
        word=query.word,
        ignore_case=query.ignore_case,
        limit=limit,
    )


def ripgrep(root: Path, query: Query) -> Iterator[Place]:
    options = ("--no-config", "--no-ignore", "--hidden", "--crlf", "--null", "--no-heading", "-n", "--column")
    done = subprocess.run(["rg", *options, *query.arguments(), "."], cwd=root, capture_output=True, check=False)
    if done.returncode > 1 and not done.stdout:
        raise SystemExit(f"ripgrep refuses {query}: {done.stderr.decode()}")
    for line in done.stdout.split(b"\n"):
        path, _, rest = line.partition(b"\0")
        if rest and not path.startswith(b"Binary"):
            number, column, text = rest.split(b":", 2)
            before = text[: int(column) - 1].decode("utf-8", "replace")
            yield os.fsdecode(path).removeprefix("./"), int(number), len(before) + 1


def is_secret(root: Path, place: Place) -> bool:
    """Whether something in a line is masked, which may keep it from matching."""
    text = blank_secrets(searchable(read_regular(str(root), place[0], MAX_BYTES)) or b"")
    return b"\0" in text.split(b"\n")[place[1] - 1]


# --- how long --------------------------------------------------------------------------------------------------------


def time_patterns(engine: Engine, root: Path, count: int, commands: int, seed: int) -> None:
    corpus = corpus_of(engine, root)
    chosen = patterns(root, corpus, count, seed)
    engine.grep(GrepRequest("warm up", (str(root),)))
    ours, theirs, typed = list[tuple[float, float]](), list[tuple[float, float]](), list[tuple[float, float]]()
    for at, query in enumerate(chosen):
        wall, cpu = time.perf_counter(), time.process_time()
        engine.grep(request_of(root, query, 100))
        ours.append((time.perf_counter() - wall, time.process_time() - cpu))
        theirs.append(timed(["rg", "--no-config", "-n", *query.arguments(), "."], root))
        if at < commands:
            request = request_of(root, query, 100)
            flags = [
                f"--{name.replace('_', '-')}" for name in ("regex", "word", "ignore_case") if getattr(request, name)
            ]
            typed.append(timed([sys.executable, "-m", "codeinfo", "grep", *flags, "--", query.pattern], root))
    print(f"{root.name}: {len(corpus.paths):,} files, {count} patterns, milliseconds: wall p50 / p95, CPU p50 / p95")
    for name, figures in (("codeinfo, warm call", ours), ("ripgrep", theirs), ("codeinfo, command", typed)):
        if figures:
            walls, cpus = (sorted(1000 * seconds for seconds in column) for column in zip(*figures, strict=True))
            print(f"  {name:<20} {row(walls)}   {row(cpus)}")
    for name, at in (("wall", 0), ("CPU", 1)):
        ratio = statistics.median(pair[at] for pair in ours) / statistics.median(pair[at] for pair in theirs)
        print(f"  p50 of the warm call is {ratio:.2f} of ripgrep's, {name}")


def row(ordered: list[float]) -> str:
    return f"{statistics.median(ordered):8.0f} / {ordered[int(len(ordered) * 0.95)]:6.0f}"


def timed(command: list[str], cwd: Path) -> tuple[float, float]:
    before = os.times()
    wall = time.perf_counter()
    subprocess.run(command, cwd=cwd, capture_output=True, check=False)
    wall = time.perf_counter() - wall
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


if __name__ == "__main__":
    main()
