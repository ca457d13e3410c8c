"""Bundle → teacher → students, in one go on one accelerator.

    python training/train.py BUNDLE_DIR OUT_DIR [--teacher-epochs 4] [--students all|NAME,...] [--tiny]

BUNDLE_DIR is what prepare.py and base.py wrote. OUT_DIR gets NAME.npz for each student (int8 tables).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pairs
import student as students
import teacher as teachers
import torch

SEED = 20
QUERY_TOKENS, DOCUMENT_TOKENS = 32, 160
TEACHER_BATCH, TEACHER_LR, TEACHER_TEMPERATURE = 2048, 1.5e-4, 0.05
PATH_SHARE = 0.5

# The first ships: best on held-out packages. The others show what each choice is worth.
STUDENTS = [
    students.Settings("content20", words=20_000, epochs=12, lr=1e-2, content_share=0.9),
    students.Settings("long20", words=20_000, epochs=12, lr=1e-2, content_share=0.7),
    students.Settings("long24", words=24_000, epochs=12, lr=1e-2, content_share=0.7),
    students.Settings("warm20", words=20_000, epochs=12, lr=1e-2, content_share=0.7, temperature=0.04),
    students.Settings("longer20", words=20_000, epochs=24, lr=7e-3, content_share=0.7),
    students.Settings("half20", words=20_000, epochs=12, lr=1e-2, content_share=0.7, path_weight=0.5),
    students.Settings("seed20", words=20_000, epochs=12, lr=1e-2, content_share=0.7, seed=21),
    students.Settings("large20", words=20_000, epochs=12, lr=1e-2, content_share=0.7, batch=8192),
]

_began = time.time()


def say(text: str) -> None:
    print(f"[{time.time() - _began:6.1f} s] {text}", flush=True)


def flat(rows: list[np.ndarray] | list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([np.asarray(r, np.int64) for r in rows]), np.fromiter(map(len, rows), np.int64, len(rows))


def check(name: str, q: torch.Tensor, d: torch.Tensor) -> None:
    """Held-out packages: how often the right document is first among a thousand."""
    score = q.float() @ d.float().T
    hit = (score.argmax(1) == torch.arange(len(q), device=q.device)).float().mean()
    say(f"held out, {name}: first of {len(q)} in {hit:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--teacher-epochs", type=int, default=4)
    parser.add_argument("--students", default="all")
    parser.add_argument("--keep-teacher", type=Path, help="save or reuse the teacher's weights here")
    parser.add_argument("--tiny", action="store_true", help="a few steps, to see that everything runs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")

    corpus = pairs.load(args.bundle, 300 if args.tiny else None)
    n = len(corpus)
    held = np.random.default_rng(SEED).random(int(corpus.package.max()) + 1) < 0.02
    chosen, aside = np.flatnonzero(~held[corpus.package]), np.flatnonzero(held[corpus.package])[:1000]
    if args.tiny:
        aside = chosen[:100]
    say(f"{n:,} records, {len(chosen):,} to train on, {device}")
    questions = pairs.queries(corpus, SEED)
    views = {(p, c): pairs.documents(corpus, path=p, comment=c) for p in (False, True) for c in (False, True)}
    say("queries and documents made")

    pieces = teachers.pieces_of(corpus.words, (args.bundle / "wordpieces.txt").read_text().split("\n"))
    query_tokens = [teachers.padded(*flat(rows), pieces, QUERY_TOKENS) for rows in questions]
    document_tokens = {key: teachers.padded(*flat(rows), pieces, DOCUMENT_TOKENS) for key, rows in views.items()}
    say("tokens made")

    batch_size = 32 if args.tiny else TEACHER_BATCH
    steps = 2 if args.tiny else args.teacher_epochs * (len(chosen) // batch_size)
    model = teachers.Teacher(args.bundle / "base.npz").to(device)
    rng = np.random.default_rng(SEED)

    def pair(batch: np.ndarray, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        variant = rng.integers(pairs.VARIANTS, size=len(batch))
        path, comment = (
            rng.random(len(batch)) < PATH_SHARE,
            np.isin(variant, (1, 2, 5)) & (rng.random(len(batch)) < 0.5),
        )
        q = np.stack([query_tokens[v][i] for v, i in zip(variant, batch, strict=True)])
        d = np.stack([document_tokens[bool(p), bool(c)][i] for p, c, i in zip(path, comment, batch, strict=True)])
        return torch.from_numpy(q).to(device), torch.from_numpy(d).to(device)

    saved = args.keep_teacher
    if saved and saved.exists():
        model.load_state_dict(torch.load(saved, map_location=device))
        model.eval()
    else:
        source = pairs.batches(corpus.package, chosen, batch_size, args.teacher_epochs, SEED)
        teachers.train(
            model, (b for b, _ in zip(source, range(steps), strict=False)), pair, steps, TEACHER_LR, TEACHER_TEMPERATURE
        )
        if saved:
            torch.save({k: v.half() for k, v in model.state_dict().items()}, saved)
    say("teacher trained")
    targets = students.Targets(
        [teachers.encode(model, t, device) for t in query_tokens],
        {key: teachers.encode(model, t, device) for key, t in document_tokens.items()},
    )
    single = [[i] for i in range(64 if args.tiny else min(len(corpus.words), 32_000))]
    word_vectors = teachers.encode(model, teachers.padded(*flat(single), pieces, 16), device)
    say("teacher's vectors made")
    rows = torch.from_numpy(aside).to(device)
    for variant in range(pairs.VARIANTS):
        check(f"teacher, variant {variant}", targets.queries[variant][rows], targets.documents[False, False][rows])

    packages = int(corpus.package.max()) + 1
    prepared: dict[int, dict[str, object]] = {}
    for settings in STUDENTS:
        if args.students != "all" and settings.name not in args.students.split(","):
            continue
        if settings.words not in prepared:
            split = pairs.split_unknown(corpus.words, settings.words)
            rarity = np.log(1 + packages / np.maximum(corpus.packages_using, 1)).astype(np.float32)
            prepared[settings.words] = {
                "queries": [students.Bags(rows_, split, device, root=False) for rows_ in questions],
                "documents": {c: students.Bags(views[False, c], split, device, root=True) for c in (False, True)},
                "path": students.Bags(corpus.rows["path"], split, device, root=False, weight=rarity),
            }
        bags = prepared[settings.words]
        size = 64 if args.tiny else settings.batch
        total = 4 if args.tiny else settings.epochs * (len(chosen) // size)
        source = pairs.batches(corpus.package, chosen, size, settings.epochs, settings.seed)
        start = word_vectors if settings.from_teacher and not args.tiny else None
        vectors = students.start_vectors(settings, start, corpus.packages_using, packages, device)
        trained = students.distil(
            settings, (b for b, _ in zip(source, range(total), strict=False)), bags, targets, vectors.clone(), total
        )
        with torch.no_grad():
            for variant in range(pairs.VARIANTS):
                q = trained.bag(bags["queries"][variant].take(rows), query=True)  # type: ignore[index]
                check(f"{settings.name}, variant {variant}", q, trained.bag(bags["documents"][False].take(rows)))  # type: ignore[index]
        np.savez_compressed(args.out / f"{settings.name}.npz", **students.export(trained, corpus.words))
        say(f"{settings.name} exported")


if __name__ == "__main__":
    main()
