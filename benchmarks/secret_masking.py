"""Runs the masking of secrets over public trees and prints how many values it masks in 10,000 lines, and its speed.

    python benchmarks/secret_masking.py TREES                       # every folder below TREES is a tree
    python benchmarks/secret_masking.py TREES --only aiohttp redis  # these
    python benchmarks/secret_masking.py TREES --show                # every masked line: read them, most are fixtures
    python benchmarks/secret_masking.py TREES --reviewed FILE       # leaves out what a review found to be real

Files are those that an index would hold. Public code has few secrets and many fixtures that are real keys (private
keys of test servers, example tokens), so the figure is an upper bound: what is false has to be read. The lines of one
private key count as one value. A review is a file of digests, one a line, as `--show` prints them before each line;
those are left out of the figure.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from codeinfo.model import Skip
from codeinfo.sources.masking import mask
from codeinfo.sources.read import FolderFiles, decode, skip_unless_overridden
from codeinfo.sources.walk import walk

MOST_IN_10_000_LINES = 1.0
DIGEST_CHARS = 16
MASKED = re.compile(r"\[masked:([\w-]+)\]")


class Found(NamedTuple):
    path: str
    line: int
    kind: str
    text: str  # the line as it is written
    digest: str


class Tree(NamedTuple):
    name: str
    lines: int
    chars: int
    seconds: float
    found: tuple[Found, ...]


def texts(root: Path) -> Iterator[tuple[str, str]]:
    contents = FolderFiles(root)
    for file, loaded in contents.load(walk(root).files):
        if isinstance(loaded, Skip):
            continue
        text = decode(loaded.data, mask=False)
        if text is not None and skip_unless_overridden(contents, file.path, text.content) is None:
            yield file.path, text.content


def examine(root: Path) -> Tree:
    lines = chars = 0
    seconds = 0.0
    masked_parts: list[Found] = []
    for path, text in texts(root):
        lines += text.count("\n") + 1
        chars += len(text)
        started = time.perf_counter()
        masked, count = mask(text)
        seconds += time.perf_counter() - started
        if count:
            masked_parts.extend(differences(path, text, masked))
    return Tree(root.name, lines, chars, seconds, tuple(masked_parts))


def differences(path: str, text: str, masked: str) -> Iterator[Found]:
    """One for each masked value; the lines of a private key that follow each other are one value."""
    in_key = False
    for number, (before, after) in enumerate(zip(text.split("\n"), masked.split("\n"), strict=True), 1):
        kinds = MASKED.findall(after) if before != after else []
        if kinds and not (in_key and set(kinds) == {"private-key"}):
            digest = hashlib.sha256(before.strip().encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
            for kind in kinds if "private-key" not in kinds else kinds[:1]:
                yield Found(path, number, kind, before.strip(), digest)
        in_key = "private-key" in kinds


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path, nargs="+", help="folders of trees")
    arguments.add_argument("--only", nargs="+", default=[], help="names of trees")
    arguments.add_argument("--show", action="store_true", help="print each masked line with its digest")
    arguments.add_argument("--reviewed", type=Path, help="digests of lines that hold real keys")
    options = arguments.parse_args()
    real = set(options.reviewed.read_text().split()) if options.reviewed else set()
    roots = [path for folder in options.trees for path in sorted(folder.iterdir()) if path.is_dir()]
    trees = []
    for root in roots:
        if options.only and root.name not in options.only:
            continue
        tree = examine(root)
        trees.append(tree)
        print(f"{tree.name:28} {tree.lines:9,} lines  {len(tree.found):4} masked", flush=True)
        if options.show:
            for item in tree.found:
                print(f"    {item.digest} {item.kind:18} {item.path}:{item.line}: {item.text[:160]}")
    return report(trees, real)


def report(trees: list[Tree], real: set[str]) -> int:
    lines, chars = sum(tree.lines for tree in trees), sum(tree.chars for tree in trees)
    masked_parts = [item for tree in trees for item in tree.found]
    false = [item for item in masked_parts if item.digest not in real]
    seconds = sum(tree.seconds for tree in trees)
    print(f"{len(trees)} trees, {lines:,} lines, {seconds / chars * 1e9:.1f} ms for a million characters")
    print(f"masked: {len(masked_parts)}, of them reviewed and real: {len(masked_parts) - len(false)}")
    print(", ".join(f"{kind} {count}" for kind, count in Counter(item.kind for item in masked_parts).most_common()))
    figure = len(false) / lines * 10_000
    print(f"in 10,000 lines: {figure:.2f} (at most {MOST_IN_10_000_LINES:g})")
    return 1 if figure > MOST_IN_10_000_LINES else 0


if __name__ == "__main__":
    sys.exit(main())
