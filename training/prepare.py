"""Collected records → the training bundle: exclusions applied and reported, words numbered, arrays packed.

    python training/prepare.py COLLECTED_DIR... --trees BENCHMARK_TREES --out BUNDLE_DIR

Writes BUNDLE_DIR/{words.txt, languages.txt, arrays.npz.xz}, and beside this script packages.tsv.gz (what was used, with
licences) and excluded.tsv (what was left out and why).
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from names import excluded
from overlap import numbers, shares, tree_shingles

from codeinfo.tokens import words

HERE = Path(__file__).parent
WORDS = 65_000  # fits two bytes; rarer words are split into known pieces
MAX = {"doc": 24, "more": 24, "name": 10, "container": 6, "path": 12, "code": 150}
COPIED_RECORD, COPIED_PACKAGE = 0.25, 0.10
PER_LANGUAGE = 50_000
FIELDS = ("doc", "more", "name", "container", "path", "code")


def read(folders: list[Path]) -> Iterator[dict[str, str]]:
    """All records; a file whose writer was stopped ends early, and that is fine."""
    for folder in folders:
        for file in sorted(folder.glob("*.jsonl.gz")):
            try:
                with gzip.open(file, "rt") as lines:
                    yield from map(json.loads, lines)
            except (EOFError, json.JSONDecodeError):
                continue


def first_sentence(doc: str) -> tuple[str, str]:
    cut = re.search(r"(?<=[a-z\)])[.!?;:]\s", doc)
    return (doc[: cut.end()], doc[cut.end() :]) if cut else (doc, "")


def fields(record: dict[str, str]) -> dict[str, str]:
    doc, more = first_sentence(record["doc"])
    path = PurePosixPath(record["path"])
    folders = [part for part in path.parts[:-1] if part not in ("src", "lib", "main", "java", "com", "org", "io", ".")]
    return {"doc": doc, "more": more, "name": record["name"], "container": record["container"],
            "path": " ".join([*folders[-4:], path.stem]), "code": record["code"]}  # fmt: skip


def select(records: list[dict[str, str]]) -> list[dict[str, str]]:
    """No excluded names, no code twice, at most PER_LANGUAGE records of a language (documented ones first)."""
    seen: set[int] = set()
    names: dict[str, bool] = {}
    out: list[dict[str, str]] = []
    taken: Counter[str] = Counter()
    for r in sorted(records, key=lambda r: not r["doc"]):
        package = r["pkg"]
        if package not in names:
            names[package] = excluded(package.split(":", 1)[1], "")
        key = hash((r["code"][:300], r["name"]))
        if names[package] or key in seen or taken[r["lang"]] >= PER_LANGUAGE:
            continue
        seen.add(key)
        taken[r["lang"]] += 1
        out.append(r)
    with open(HERE / "excluded.tsv", "w") as report:
        for package in sorted(p for p, gone in names.items() if gone):
            print(package, "listed by name", sep="\t", file=report)
    return out


def without_copies(records: list[dict[str, str]], trees: Path) -> list[dict[str, str]]:
    """Drop records that repeat benchmark text, and whole packages where many do."""
    listed = np.load(trees) if trees.suffix == ".npy" else tree_shingles(trees)
    share = shares((numbers(r["code"] + "\n" + r["doc"]) for r in records), listed)
    copied: defaultdict[str, list[float]] = defaultdict(list)
    for r, part in zip(records, share, strict=True):
        copied[r["pkg"]].append(float(part))
    gone = {
        p for p, parts in copied.items() if sum(x > COPIED_RECORD for x in parts) > max(2, COPIED_PACKAGE * len(parts))
    }
    distinct = [r for r, part in zip(records, share, strict=True) if part <= COPIED_RECORD and r["pkg"] not in gone]
    with open(HERE / "excluded.tsv", "a") as report:
        for package in sorted(gone):
            print(package, "repeats text of the benchmark", sep="\t", file=report)
        single = sum(part > COPIED_RECORD and r["pkg"] not in gone for r, part in zip(records, share, strict=True))
        print(f"# {single} further records repeat text of the benchmark", file=report)
    print(f"{len(listed):,} shingles; {len(gone)} packages and {single} records dropped as copies")
    return distinct


def pack(records: list[dict[str, str]], out: Path) -> None:
    rows = [{key: words(text)[: MAX[key]] for key, text in fields(r).items()} for r in records]
    packages = {p: i for i, p in enumerate(sorted({r["pkg"] for r in records}))}
    used: defaultdict[str, set[int]] = defaultdict(set)
    count: Counter[str] = Counter()
    for r, row in zip(records, rows, strict=True):
        for key in FIELDS:
            count.update(row[key])
            for word in row[key]:
                used[word].add(packages[r["pkg"]])
    # by how many packages use a word: a package's own jargon does not help elsewhere
    ranked = sorted(used, key=lambda w: (-len(used[w]), -count[w], w))
    vocabulary = [w for w in ranked if len(w) <= 24][:WORDS]
    index = {w: i for i, w in enumerate(vocabulary)}
    arrays: dict[str, np.ndarray] = {}
    for key in FIELDS:
        ids = [[index[w] for w in row[key] if w in index] for row in rows]
        arrays[key] = np.fromiter((i for row in ids for i in row), np.uint16)
        arrays[key + "_n"] = np.fromiter(map(len, ids), np.uint8)
    languages = sorted({r["lang"] for r in records})
    arrays["package"] = np.array([packages[r["pkg"]] for r in records], np.uint16)
    arrays["language"] = np.array([languages.index(r["lang"]) for r in records], np.uint8)
    arrays["packages_using"] = np.array([len(used[w]) for w in vocabulary], np.uint32)
    out.mkdir(parents=True, exist_ok=True)
    (out / "words.txt").write_text("\n".join(vocabulary))
    (out / "languages.txt").write_text("\n".join(languages))
    raw = io.BytesIO()
    np.savez(raw, **arrays)
    (out / "arrays.npz.xz").write_bytes(lzma.compress(raw.getvalue(), preset=3))


def list_packages(folders: list[Path], used: set[str]) -> int:
    lines: dict[str, str] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.tsv")):
            for line in file.read_text().split("\n"):
                parts = line.split("\t")
                if len(parts) == 5 and f"{parts[3]}:{parts[0]}" in used:
                    lines[f"{parts[3]}:{parts[0]}"] = "\t".join(parts[:4])
    with gzip.GzipFile(HERE / "packages.tsv.gz", "wb", mtime=0) as sink:
        sink.write(("name\tversion\tlicence\tregistry\n" + "\n".join(lines[k] for k in sorted(lines)) + "\n").encode())
    return len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collected", type=Path, nargs="+")
    parser.add_argument(
        "--trees",
        type=Path,
        required=True,
        help="the benchmark's work trees, or their saved shingles (.npy): only to stay away from them",
    )
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    records = select(list(read(args.collected)))
    records = without_copies(records, args.trees)
    pack(records, args.out)
    listed = list_packages(args.collected, {r["pkg"] for r in records})
    counts = Counter(r["lang"] for r in records)
    documented = Counter(r["lang"] for r in records if r["doc"])
    print(f"{len(records):,} records of {listed:,} packages")
    for lang, n in counts.most_common():
        print(f"{lang:12} {n:7,} {documented[lang]:7,} documented")


if __name__ == "__main__":
    main()
