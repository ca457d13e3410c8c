"""Do searches for a text on a screen find the code that shows it by its key?

    python benchmarks/labels.py TREES              every tree below TREES that has English texts in JSON, YAML or XML

The texts are read by parsers, and the files that use a key are those with it between signs that are no part of a
name: both independent of what the search does. Texts with one key that one to four files of code use are asked for, at
random.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import yaml

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.search import IndexRequest, SearchRequest

QUESTIONS = 20  # a tree
MOST_FILES = 4
ENGLISH = re.compile(r"(?:^|/)(?:[\w.-]*[._-])?en(?:[_-]US)?\.(?:json|ya?ml)$|(?:^|/)(?:values|base)/strings\.xml$")
TEXTS = (".json", ".yml", ".yaml", ".xml", ".md", ".po")


def read_labels(path: Path) -> Iterator[tuple[str, str]]:
    """The keys of a file of texts, each with its text."""
    content = path.read_text(errors="replace")
    if path.suffix == ".xml":
        yield from ((f"string.{e.get('name')}", e.text or "") for e in ElementTree.fromstring(content).iter("string"))
        return
    parsed = json.loads(content) if path.suffix == ".json" else yaml.safe_load(content)
    if isinstance(parsed, dict) and set(parsed) == {"en"}:
        parsed = parsed["en"]
    yield from _flatten("", parsed)


def _flatten(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key.removeprefix("."), value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _flatten(f"{key}.{name}", inner)


def find_questions(tree: Path) -> list[tuple[str, set[str]]]:
    """Texts, each with the files that show it."""
    listed = subprocess.run(["git", "-C", tree, "ls-files"], capture_output=True, text=True, check=True).stdout
    paths = listed.splitlines()
    keys = defaultdict(set)
    for path in filter(ENGLISH.search, paths):
        for key, text in read_labels(tree / path):
            if re.fullmatch(r"[A-Z][\w ,'-]{6,60}[.?!]?", text) and " " in text:
                keys[text].add(key)
    code = {path: (tree / path).read_text(errors="replace") for path in paths if is_code(tree / path)}
    texts = sorted(text for text, names in keys.items() if len(names) == 1)
    random.Random(7).shuffle(texts)
    questions = []
    for text in texts:
        (key,) = keys[text]
        use = re.compile(rf"(?<![\w-]){re.escape(key)}(?![\w-]|\.\w)".replace(r"string\.", r"strings?\."))
        files = {path for path, content in code.items() if use.search(content)}
        if 1 <= len(files) <= MOST_FILES:
            questions.append((text, files))
        if len(questions) == QUESTIONS:
            break
    return questions


def is_code(path: Path) -> bool:
    return path.is_file() and path.suffix not in TEXTS and path.stat().st_size < 300_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path)
    options = arguments.parse_args()
    print("| tree | questions | first | in the first three |")
    with tempfile.TemporaryDirectory() as cache, Engine(Config.load({"paths.cache_dir": cache})) as engine:
        for tree in sorted(path for path in options.trees.iterdir() if path.is_dir()):
            questions = find_questions(tree)
            if not questions:
                continue
            engine.index(IndexRequest((str(tree),)))
            ranks = []
            for text, files in questions:
                request = SearchRequest(f'where is the text "{text}" shown', (str(tree),), limit=3, refresh=False)
                paths = [hit.path for hit in engine.search(request).hits]
                ranks.append(next((at for at, path in enumerate(paths) if path in files), 3))
            first, three = ranks.count(0) / len(ranks), 1 - ranks.count(3) / len(ranks)
            print(f"| {tree.name} | {len(ranks)} | {first:.2f} | {three:.2f} |", flush=True)


if __name__ == "__main__":
    main()
