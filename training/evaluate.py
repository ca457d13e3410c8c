"""How well a table finds the benchmark's files: content alone, with path, with BM25; per language.

    python training/evaluate.py MODEL [MODEL…] --bench BENCH_DIR --trees TREES_DIR [--cache FILE] [--verbose]

MODEL is an exported .npz or the packaged .safetensors. A file's score is that of its best chunk, each file is listed
once. Weights that are fitted are chosen on the other repositories (leave one out).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray
from tables import Table

from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.languages import language_of_text
from codeinfo.model import FileKind
from codeinfo.tokens import terms, words

Floats = NDArray[np.float32]
K1, B = 1.2, 0.75


class Repo(Struct):
    name: str
    language: str
    paths: list[str]
    chunk_file: NDArray[np.int32]
    texts: list[str]  # breadcrumb and content of each chunk
    queries: list[dict[str, object]] = field(default_factory=list)


def load(bench: Path, trees: Path, cache: Path | None) -> list[Repo]:
    if cache and cache.exists():
        return list(pickle.loads(cache.read_bytes()))
    repos: list[Repo] = []
    queries_of = defaultdict(list)
    for line in (bench / "queries.jsonl").read_text().splitlines():
        query = json.loads(line)
        queries_of[query["repo"]].append(query)
    for row in (bench / "repos.tsv").read_text().splitlines()[1:]:
        name, language, _, _, _, root, _ = row.split("\t")
        repos.append(_read(name, language, trees / name, root, queries_of[name]))
        print(name, len(repos[-1].paths), len(repos[-1].texts), flush=True)
    if cache:
        cache.write_bytes(pickle.dumps(repos))
    return repos


def _read(name: str, language: str, tree: Path, root: str, queries: list[dict[str, object]]) -> Repo:
    paths: list[str] = []
    of_file: list[int] = []
    texts: list[str] = []
    for folder, folders, files in os.walk(tree if root == "-" else tree / root):
        folders[:] = sorted(f for f in folders if not f.startswith(".git"))
        for file in sorted(files):
            full = Path(folder, file)
            path = full.relative_to(tree).as_posix()
            if full.is_symlink():
                continue
            text = full.read_text(errors="replace")
            language_here = language_of_text(path, text)
            if language_here is None or language_here.kind is not FileKind.CODE or not text.strip():
                continue
            parsed, _ = parse_file(path, text, language_here.name, ChunkSettings(), syntax=len(text) < 1_500_000)
            paths.append(path)
            for chunk in parsed.chunks:
                of_file.append(len(paths) - 1)
                texts.append(f"{chunk.breadcrumb}\n{chunk.text}" if chunk.breadcrumb else chunk.text)
    return Repo(name, language, paths, np.array(of_file, np.int32), texts, queries)


def path_words(path: str) -> list[str]:
    return words(path.rsplit(".", 1)[0])


def path_vectors(repo: Repo, table: Table) -> Floats:
    """Σ rarity · word over the distinct words of a path; rarity is how few files of the repository share the word."""
    rows = [list(dict.fromkeys(path_words(p))) for p in repo.paths]
    count = Counter(w for row in rows for w in row)
    weight = {w: math.log(1 + len(rows) / n) for w, n in count.items()}
    return table.weighted([[(w, weight[w]) for w in row] for row in rows])


def best_per_file(repo: Repo, scores: Floats) -> Floats:
    out = np.full(len(repo.paths), -np.inf, np.float32)
    np.maximum.at(out, repo.chunk_file, scores)
    return np.where(np.isfinite(out), out, -1.0)


class Bm25:
    """Plain BM25 over chunks, the path's terms included."""

    def __init__(self, repo: Repo) -> None:
        own = [terms(p.rsplit(".", 1)[0]) for p in repo.paths]
        rows = [Counter(terms(t) + own[f]) for t, f in zip(repo.texts, repo.chunk_file, strict=True)]
        self.length = np.array([sum(r.values()) for r in rows], np.float32)
        self.posting: dict[str, tuple[list[int], list[int]]] = {}
        for i, row in enumerate(rows):
            for term, n in row.items():
                at = self.posting.setdefault(term, ([], []))
                at[0].append(i)
                at[1].append(n)

    def __call__(self, query: str) -> Floats:
        out = np.zeros(len(self.length), np.float32)
        norm = K1 * (1 - B + B * self.length / max(float(self.length.mean()), 1.0))
        for term in dict.fromkeys(terms(query)):
            if term in self.posting:
                rows, number = (np.array(x) for x in self.posting[term])
                idf = math.log(1 + (len(out) - len(rows) + 0.5) / (len(rows) + 0.5))
                out[rows] += idf * number * (K1 + 1) / (number + norm[rows])
        return out


def ndcg(query: dict[str, object], paths: list[str], scores: Floats) -> float:
    order = [paths[i] for i in np.argsort(-scores, kind="stable")[:10]]
    targets = [t["path"] for t in query["targets"]]  # type: ignore[attr-defined, union-attr, index, misc]
    ranks = {order.index(t) + 1 for t in targets if t in order}
    ideal = sum(1 / math.log2(r + 1) for r in range(1, min(10, len(targets)) + 1))
    return sum(1 / math.log2(r + 1) for r in ranks) / ideal if ideal else 0.0


def unit(scores: Floats) -> Floats:
    """Onto 0..1 within one query, as score fusion needs it."""
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / (high - low) if high > low else scores * 0


JOINED_ALPHA = 0.5
ALPHAS = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5)
SHARES = (0.4, 0.5, 0.6, 0.7)


def measure(repos: list[Repo], table: Table, keyword: dict[str, Bm25]) -> dict[str, dict[tuple[str, str], float]]:
    """Channel → (repository, query id) → ndcg10.

    "joint α" is the cosine with content + α · path; "sum α" is the cosine with the content + α · that with the path.
    """
    out: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for repo in repos:
        content = table.documents(repo.texts)
        paths = path_vectors(repo, table)
        overlap = np.einsum("ij,ij->i", content, paths[repo.chunk_file])
        for query in repo.queries:
            key = (repo.name, str(query["id"]))
            q = table.query(str(query["query"]))
            bm25 = unit(best_per_file(repo, keyword[repo.name](str(query["query"]))))
            out["bm25"][key] = ndcg(query, repo.paths, bm25)
            on_content, on_path = content @ q, paths @ q
            nearest = best_per_file(repo, on_content)
            for a in ALPHAS:
                length = np.sqrt(1 + a * a + 2 * a * overlap)
                joint = best_per_file(repo, (on_content + a * on_path[repo.chunk_file]) / length)
                for kind, scores in (("joint", joint), ("sum", nearest + a * on_path)):
                    out[f"{kind} {a}"][key] = ndcg(query, repo.paths, scores)
                    for share in SHARES:
                        fused = share * unit(scores) + (1 - share) * bm25
                        out[f"{kind} {a} + bm25 {share}"][key] = ndcg(query, repo.paths, fused)
    return out


def mean(values: dict[tuple[str, str], float], language: dict[str, str] | None = None, only: str = "") -> float:
    chosen = [v for (r, _), v in values.items() if not language or language[r] == only]
    return sum(chosen) / max(len(chosen), 1)


def left_out(out: dict[str, dict[tuple[str, str], float]], prefix: str, fused: bool) -> float:
    """The figure with the weight of each repository's queries chosen on all other repositories."""
    names = [n for n in out if n.startswith(prefix) and (" + " in n) == fused]
    repos = sorted({r for r, _ in out[names[0]]})
    table = {n: {r: [v for (rr, _), v in out[n].items() if rr == r] for r in repos} for n in names}
    total = {n: sum(sum(v) for v in table[n].values()) for n in names}
    values: list[float] = []
    for r in repos:
        best = max(names, key=lambda n: total[n] - sum(table[n][r]))
        values += table[best][r]
    return sum(values) / len(values)


def report(repos: list[Repo], out: dict[str, dict[tuple[str, str], float]], verbose: bool) -> None:
    print(f"  bm25 {mean(out['bm25']):.4f}   content alone {mean(out['joint 0.0']):.4f}")
    best = {}
    for kind in ("joint", "sum"):
        for fused in (False, True):
            names = [n for n in out if n.startswith(kind) and (" + " in n) == fused]
            top = max(names, key=lambda n: mean(out[n]))
            best[kind, fused] = top
            print(f"  {top:26} {mean(out[top]):.4f}   leave-one-repository-out {left_out(out, kind, fused):.4f}")
    content = [n for n in out if n.startswith("joint 0.0 + ")]
    print(f"  content + bm25 (best)      {max(mean(out[n]) for n in content):.4f}")
    if verbose:
        language = {r.name: r.language for r in repos}
        chosen = max((best["joint", False], best["sum", False]), key=lambda n: mean(out[n]))
        fused = max((best["joint", True], best["sum", True]), key=lambda n: mean(out[n]))
        print(f"  {'language':12} {'bm25':>6} {'content':>7} {'path too':>8} {'fused':>6}")
        for name in sorted(set(language.values())):
            row = [mean(out[n], language, name) for n in ("bm25", "joint 0.0", chosen, fused)]
            print(f"  {name:12} {row[0]:6.3f} {row[1]:7.3f} {row[2]:8.3f} {row[3]:6.3f}")


def write_results(repos: list[Repo], table: Table, out: Path) -> None:
    """The joined cosine's files for the benchmark's own scorer."""
    with open(out, "w") as sink:
        for repo in repos:
            paths = path_vectors(repo, table)
            joined = table.documents(repo.texts) + JOINED_ALPHA * paths[repo.chunk_file]
            joined /= np.linalg.norm(joined, axis=1, keepdims=True)
            for query in repo.queries:
                scores = best_per_file(repo, joined @ table.query(str(query["query"])))
                best = np.argsort(-scores, kind="stable")[:10]
                print(json.dumps({"id": query["id"], "results": [{"path": repo.paths[i]} for i in best]}), file=sink)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="keep the parsed trees here")
    parser.add_argument("--verbose", action="store_true", help="per language")
    parser.add_argument("--results", type=Path, help="only write the joined cosine's files here, for the scorer")
    args = parser.parse_args()
    repos = load(args.bench, args.trees, args.cache)
    if args.results:
        write_results(repos, Table.load(args.models[0]), args.results)
        return
    keyword = {repo.name: Bm25(repo) for repo in repos}
    for path in args.models:
        print(path.name, flush=True)
        report(repos, measure(repos, Table.load(path), keyword), args.verbose)


if __name__ == "__main__":
    main()
