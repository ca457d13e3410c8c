"""Distances of right and wrong chunks: where the cutoff belongs, and the curve that shows it.

    python training/distances.py MODEL --bench BENCH_DIR --trees TREES_DIR --cache FILE --svg docs/model-distances.svg

Right: the best chunk of a target file that ranks among the first 20 files. Wrong: the best chunks of the other files
there. Clearly wrong: chunks drawn at random from the same repository, target files left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from evaluate import Repo, best_per_file, load, path_vectors
from numpy.typing import NDArray
from tables import Table

CUTOFF = 1.4  # squared L2: the default of retrieval.distance_cutoff

Floats = NDArray[np.float32]
ALPHA = 0.5
TOP = 20
DRAWN = 40
SEED = 20


def distances(repos: list[Repo], table: Table) -> dict[str, Floats]:
    rng = np.random.default_rng(SEED)
    values_of: dict[str, list[float]] = {"right": [], "wrong in the first 20": [], "clearly wrong": []}
    for repo in repos:
        content = table.documents(repo.texts)
        paths = path_vectors(repo, table)
        overlap = np.einsum("ij,ij->i", content, paths[repo.chunk_file])
        for query in repo.queries:
            q = table.query(str(query["query"]))
            cosines = content @ q
            joint = (cosines + ALPHA * (paths @ q)[repo.chunk_file]) / np.sqrt(1 + ALPHA**2 + 2 * ALPHA * overlap)
            targets = {t["path"] for t in query["targets"]}  # type: ignore[attr-defined, index]
            nearest = best_per_file(repo, cosines)
            for file in np.argsort(-best_per_file(repo, joint), kind="stable")[:TOP]:
                kind = "right" if repo.paths[file] in targets else "wrong in the first 20"
                values_of[kind].append(2 - 2 * float(nearest[file]))
            others = [
                i for i in rng.integers(len(cosines), size=DRAWN) if repo.paths[repo.chunk_file[i]] not in targets
            ]
            values_of["clearly wrong"] += [2 - 2 * float(cosines[i]) for i in others]
    return {kind: np.sort(np.array(values, np.float32)) for kind, values in values_of.items()}


def at_most(values: Floats, distance: float) -> float:
    return float(np.searchsorted(values, distance, side="right")) / max(len(values), 1)


COLOURS = {"right": "#1a7f37", "wrong in the first 20": "#bf8700", "clearly wrong": "#cf222e"}


def draw(values_of: dict[str, Floats], border: float) -> str:
    """Cumulative shares over the raw distance, the border as a dashed line."""
    width, height, left, bottom = 720, 360, 56, 44
    low, high = 0.4, 2.4

    def x(distance: float) -> float:
        return left + (distance - low) / (high - low) * (width - left - 16)

    def y(share: float) -> float:
        return height - bottom - share * (height - bottom - 20)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
           ' font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']  # fmt: skip
    for tick in np.arange(low, high + 0.01, 0.2):
        out.append(f'<text x="{x(tick):.0f}" y="{height - bottom + 16}" text-anchor="middle">{tick:.1f}</text>')
        out.append(f'<line x1="{x(tick):.0f}" y1="{y(0):.0f}" x2="{x(tick):.0f}" y2="{y(1):.0f}" stroke="#eee"/>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<text x="{left - 8}" y="{y(share) + 4:.0f}" text-anchor="end">{share:.0%}</text>')
        out.append(f'<line x1="{left}" y1="{y(share):.0f}" x2="{width - 16}" y2="{y(share):.0f}" stroke="#ddd"/>')
    for row, (kind, values) in enumerate(values_of.items()):
        points = " ".join(f"{x(d):.1f},{y(at_most(values, d)):.1f}" for d in np.linspace(low, high, 161))
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[kind]}" stroke-width="2"/>')
        out.append(f'<text x="{left + 12}" y="{36 + 18 * row}" fill="{COLOURS[kind]}">{kind} ({len(values):,})</text>')
    at = f"{x(border):.1f}"
    out.append(f'<line x1="{at}" y1="{y(0):.0f}" x2="{at}" y2="{y(1):.0f}" stroke="#555" stroke-dasharray="5 4"/>')
    out.append(f'<text x="{x(border) + 6:.0f}" y="{y(0.06):.0f}" fill="#555">raw {border:.2f} = cutoff 1.4</text>')
    middle, title = f"{(left + width) / 2:.0f}", "raw distance (squared L2 of unit vectors)"
    out.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{title}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--border", type=float, default=CUTOFF, help="distance at which the curves are read")
    args = parser.parse_args()
    values_of = distances(load(args.bench, args.trees, args.cache), Table.load(args.model))
    border = args.border
    print(f"border {border:.3f}; 98.5 % of right chunks are within {np.quantile(values_of['right'], 0.985):.3f}")
    for kind, values in values_of.items():
        shown = " ".join(f"{q:.0%} {np.quantile(values, q):.2f}" for q in (0.02, 0.1, 0.5, 0.9, 0.98))
        print(f"{kind:24} n {len(values):6,}  kept {at_most(values, border):.3f}   {shown}")
    if args.svg:
        args.svg.write_text(draw(values_of, border))


if __name__ == "__main__":
    main()
