"""The shipped table trained again on histories: what committers wrote → the code that they changed (PyTorch).

    python training/retrain.py BUNDLE_DIR OUT_DIR [--settings all|NAME,...] [--keep-teacher FILE] [--tiny]

BUNDLE_DIR is what `histories.py pack` wrote, with what base.py wrote where a setting asks for a teacher. OUT_DIR gets
NAME.npz for each setting. The table starts where it was and is pulled back towards it; steps with commits take turns
with steps with doc comments and names, so that what it knew stays. Eight repositories are held aside to choose by.
"""

from __future__ import annotations

import argparse
import io
import lzma
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pairs
import student as students
import teacher as teachers
import torch
import torch.nn.functional as F
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor

SEED = 20
ASIDE = 8  # repositories
GROUP = 128  # rows of one repository in a batch: the negatives that teach most
QUERY_TOKENS, DOCUMENT_TOKENS = 48, 160
TEACHER_EPOCHS, TEACHER_BATCH, TEACHER_LR, TEACHER_TEMPERATURE = 4, 2048, 1.5e-4, 0.05


class Settings(Struct, frozen=True):
    name: str
    epochs: int = 6  # over the commits
    batch: int = 2048
    lr: float = 2e-3
    temperature: float = 0.05
    commits: float = 0.5  # part of the steps that see commits; the others see comments and names
    pull: float = 0.1  # towards the start
    path_share: float = 0.5  # part of the steps that join the path
    body_share: float = 0.4  # part of the commits' steps that read the body as well
    dropped: float = 0.1  # words of a query
    within: float = 0.0  # weight of a second softmax over the repository's own rows
    taught: float = 0.0  # weight of the teacher's distribution; the rest is InfoNCE
    seed: int = SEED


PATH_WEIGHT = 0.4  # as the search joins it
# The first ships. The others show what each choice is worth.
SETTINGS = [
    Settings("taught", taught=1.0, pull=0.01, temperature=0.04, epochs=8),
    Settings("taught-fast", taught=1.0, pull=0.01, temperature=0.04, epochs=8, lr=5e-3),
    Settings("taught-cold", taught=1.0, pull=0.01, temperature=0.03, epochs=8, lr=5e-3),
    Settings("taught-content", taught=1.0, pull=0.01, temperature=0.04, epochs=8, lr=5e-3, path_share=0.1),
    Settings("taught-long", taught=1.0, pull=0.01, temperature=0.03, epochs=16, lr=1e-2),
    Settings("half", taught=0.5, pull=0.03, temperature=0.04, lr=3e-3),
    Settings("plain"),
    Settings("slow", lr=7e-4),
    Settings("fast", lr=5e-3, pull=0.03),
    Settings("loose", pull=0.01),
    Settings("tight", pull=1.0),
    Settings("cold", temperature=0.03),
    Settings("warm", temperature=0.1),
    Settings("commits8", commits=0.8),
    Settings("path9", path_share=0.9),
    Settings("within", within=1.0),
    Settings("bodies", body_share=0.7),
]

_began = time.time()


def say(text: str) -> None:
    print(f"[{time.time() - _began:6.1f} s] {text}", flush=True)


class Bundle(Struct):
    words: list[str]
    start: dict[str, np.ndarray]
    repos: list[str]
    rows: dict[str, list[np.ndarray]]
    commit_repo: np.ndarray
    hunk_commit: np.ndarray
    record_repo: np.ndarray


def load(folder: Path) -> Bundle:
    packed = np.load(io.BytesIO(lzma.decompress((folder / "histories.npz.xz").read_bytes())))
    start = np.load(folder / "start.npz")
    rows = {}
    for key in packed.files:
        if key + "_n" in packed.files:
            lengths = packed[key + "_n"].astype(np.int64)
            rows[key] = np.split(packed[key].astype(np.int32), np.cumsum(lengths)[:-1])
    return Bundle(
        start["vocabulary"].tobytes().decode().split("\n"),
        {name: start[name] for name in start.files},
        (folder / "repos.txt").read_text().split("\n"),
        rows,
        packed["commit_repo"].astype(np.int64),
        packed["hunk_commit"].astype(np.int64),
        packed["record_repo"].astype(np.int64),
    )


def folders_of(paths: list[np.ndarray], repo: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number for each path and for each folder, within its repository."""
    seen: dict[tuple[int, bytes], int] = {}
    whole = [seen.setdefault((int(r), p.tobytes()), len(seen)) for r, p in zip(repo, paths, strict=True)]
    seen = {}
    folder = [seen.setdefault((int(r), p[: max(1, len(p) // 2)].tobytes()), len(seen))
              for r, p in zip(repo, paths, strict=True)]  # fmt: skip
    return np.array(whole), np.array(folder)


def draw(
    repo: np.ndarray, folder: np.ndarray, rows: np.ndarray, size: int, epochs: int, seed: int
) -> Iterator[np.ndarray]:
    """Batches of groups of one repository; every second group of neighbours in one folder."""
    rng = np.random.default_rng(seed)
    while epochs:
        epochs -= 1
        near = rng.random(int(repo.max()) + 1) < 0.5
        place = rng.permutation(int(folder.max()) + 1)
        noise = rng.random(len(rows))
        key = np.where(near[repo[rows]], place[folder[rows]] + 0.5 * noise, noise * len(place))
        order = rows[np.lexsort((key, repo[rows]))]
        runs = np.split(order, np.flatnonzero(np.diff(repo[order])) + 1)
        groups = [run[i : i + GROUP] for run in runs for i in range(0, len(run), GROUP)]
        flat = np.concatenate([groups[i] for i in rng.permutation(len(groups))])
        for start in range(0, len(flat) - size + 1, size):
            yield flat[start : start + size]


class Commits:
    """Queries: the subject, or subject and body. Documents: one of the changed places, drawn anew each time."""

    def __init__(self, bundle: Bundle, device: str) -> None:
        one = [[i] for i in range(len(bundle.words))]
        self.repo = bundle.commit_repo
        hunk_repo = self.repo[bundle.hunk_commit]
        self.first = np.searchsorted(bundle.hunk_commit, np.arange(len(self.repo)))
        self.number = np.bincount(bundle.hunk_commit, minlength=len(self.repo))
        self.path, self.folder = folders_of(bundle.rows["hunk_path"], hunk_repo)
        subject, body = bundle.rows["subject"], bundle.rows["body"]
        self.asked = [subject, [np.concatenate([s, b]) for s, b in zip(subject, body, strict=True)]]
        self.documents = bundle.rows["hunk"]
        self.queries = [students.Bags(rows, one, device, root=False) for rows in self.asked]
        self.bags = students.Bags(self.documents, one, device, root=True)
        self.paths = students.Bags(bundle.rows["hunk_path"], one, device, root=False)

    def batches(self, chosen: np.ndarray, size: int, epochs: int, seed: int) -> Iterator[np.ndarray]:
        return draw(self.repo, self.folder[self.first], chosen, size, epochs, seed)

    def take(self, batch: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.first[batch] + (rng.random(len(batch)) * self.number[batch]).astype(np.int64)


class Comments:
    """Queries: the six of pairs.py. Documents: the code, without the comment that the query was made of."""

    def __init__(self, bundle: Bundle, device: str) -> None:
        one = [[i] for i in range(len(bundle.words))]
        self.repo = bundle.record_repo
        rows = {key: bundle.rows[key] for key in pairs.FIELDS}
        none = np.zeros(0)
        corpus = pairs.Corpus(bundle.words, rows, self.repo, none, [], none)
        self.path, self.folder = folders_of(rows["path"], self.repo)
        self.asked = [[np.asarray(q, np.int32) for q in variant] for variant in pairs.queries(corpus, SEED)]
        self.documents = pairs.documents(corpus, path=False, comment=False)
        self.queries = [students.Bags(variant, one, device, root=False) for variant in self.asked]
        self.bags = students.Bags(self.documents, one, device, root=True)
        self.paths = students.Bags(rows["path"], one, device, root=False)

    def batches(self, chosen: np.ndarray, size: int, epochs: int, seed: int) -> Iterator[np.ndarray]:
        return draw(self.repo, self.folder, chosen, size, epochs, seed)

    def take(self, batch: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return batch


Source = Commits | Comments


def started(bundle: Bundle, device: str) -> students.Student:
    table = bundle.start["vectors"].astype(np.float32) * bundle.start["scales"][:, None]
    model = students.Student(torch.from_numpy(table).to(device))
    weights = torch.from_numpy(bundle.start["query_weights"].astype(np.float32)).to(device)
    model.query_weight.data = weights + torch.log(-torch.expm1(-weights))  # softplus undone
    return model


def thinned(taken: tuple[Tensor, Tensor, Tensor], dropped: float) -> tuple[Tensor, Tensor, Tensor]:
    ids, value, offsets = taken
    return ids, value * (torch.rand_like(value) >= dropped), offsets


def join(model: students.Student, source: Source, rows: Tensor, path: bool) -> Tensor:
    d = model.bag(source.bags.take(rows))
    return F.normalize(d + PATH_WEIGHT * model.bag(source.paths.take(rows), query=True), dim=-1) if path else d


@torch.no_grad()
def judge(model: students.Student, source: Source, aside: np.ndarray, device: str) -> float:
    """Reciprocal rank of the changed file among all of its repository, or of a record; repositories held aside."""
    ranks: list[float] = []
    for repo in aside:
        if isinstance(source, Commits):
            chosen = np.flatnonzero(source.repo == repo)[:400]
            rows = np.flatnonzero(np.repeat(source.repo, source.number) == repo)
            right = source.path[rows][None] == source.path[source.first[chosen]][:, None]
        else:
            chosen = rows = np.flatnonzero(source.repo == repo)[:1000]
            right = np.eye(len(rows), dtype=bool)
        if not len(chosen):
            continue
        d = join(model, source, torch.from_numpy(rows).to(device), True)
        for variant in (0, 1) if isinstance(source, Commits) else (0, 4):
            q = model.bag(source.queries[variant].take(torch.from_numpy(chosen).to(device)), query=True)
            score, good = q @ d.T, torch.from_numpy(right).to(device)
            best = score.masked_fill(~good, -2).amax(1, keepdim=True)
            if isinstance(source, Commits):  # a file once, by its best place
                files = torch.from_numpy(np.unique(source.path[rows], return_inverse=True)[1]).to(device)
                score = torch.full((len(chosen), int(files.max()) + 1), -2.0, device=device).scatter_reduce_(
                    1, files[None].expand(len(chosen), -1), score, "amax"
                )
            ranks += (1 / (1 + (score > best).sum(1)).float()).tolist()
    return float(np.mean(ranks))


class Taught(Struct):
    """The teacher's vectors for one source."""

    queries: list[Tensor]
    documents: Tensor


def train(
    settings: Settings, bundle: Bundle, sources: list[Source], chosen: list[np.ndarray], aside: np.ndarray,
    device: str, taught: list[Taught] | None, steps: int | None = None,
) -> students.Student:  # fmt: skip
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    model = started(bundle, device)
    start, start_weight = model.vectors.detach().clone(), model.query_weight.detach().clone()
    length = (start**2).sum(1).mean()
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    an_epoch = int(len(chosen[0]) // settings.batch / settings.commits)
    steps = steps or settings.epochs * an_epoch
    feeds = [s.batches(c, settings.batch, 10**6, settings.seed) for s, c in zip(sources, chosen, strict=True)]
    best, best_state = -1.0, {k: v.clone() for k, v in model.state_dict().items()}
    for step in range(steps + 1):
        if step % max(1, an_epoch) == 0 or step == steps:
            on = [judge(model, s, aside, device) for s in sources]
            say(f"{settings.name} step {step}/{steps}: held out commits {on[0]:.4f}, comments {on[1]:.4f}")
            if sum(on) > best:
                best, best_state = sum(on), {k: v.clone() for k, v in model.state_dict().items()}
            if step == steps:
                break
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * (1 - step / steps) + 1e-5
        which = int(rng.random() >= settings.commits)
        source = sources[which]
        batch = next(feeds[which])
        rows = source.take(batch, rng)
        variant = int(rng.integers(len(source.queries)) if which else rng.random() < settings.body_share)
        query_rows, hunk_rows = torch.from_numpy(batch).to(device), torch.from_numpy(rows).to(device)
        q = model.bag(thinned(source.queries[variant].take(query_rows), settings.dropped), query=True)
        d = join(model, source, hunk_rows, rng.random() < settings.path_share)
        scores = q @ d.T / settings.temperature
        target = torch.arange(len(rows), device=device)
        if not which:  # another place of the same file is no wrong answer
            path = torch.from_numpy(source.path[rows]).to(device)
            same = (path[:, None] == path[None]) & ~torch.eye(len(rows), dtype=torch.bool, device=device)
            scores = scores.masked_fill(same, -1e4)
        loss = torch.zeros((), device=device)
        if settings.taught < 1:
            hard = F.cross_entropy(scores, target)
            if settings.within:
                repo = torch.from_numpy(source.repo[batch]).to(device)
                same_repo = scores.masked_fill(repo[:, None] != repo[None], -1e4)
                hard = hard + settings.within * F.cross_entropy(same_repo, target)
            loss = loss + (1 - settings.taught) * hard
        if settings.taught and taught:
            teacher = taught[which]
            teacher_scores = teacher.queries[variant][query_rows].float() @ teacher.documents[hunk_rows].float().T
            teacher_scores = teacher_scores / settings.temperature
            if not which:
                teacher_scores = teacher_scores.masked_fill(same, -1e4)
            soft = F.kl_div(F.log_softmax(scores, 1), F.softmax(teacher_scores, 1), reduction="batchmean")
            loss = loss + settings.taught * soft
        moved = ((model.vectors - start) ** 2).sum(1).mean() / length
        moved = moved + ((model.query_weight - start_weight) ** 2).mean()
        loss = loss + settings.pull * moved
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            say(f"{settings.name} step {step} loss {float(loss.detach()):.3f} moved {float(moved.detach()):.3f}")
    model.load_state_dict(best_state)
    return model


def teach(
    folder: Path, bundle: Bundle, sources: list[Source], chosen: list[np.ndarray], device: str, saved: Path | None,
    steps: int | None,
) -> list[Taught]:  # fmt: skip
    """MiniLM fine-tuned on both sources; its vectors of all queries and documents."""
    pieces = teachers.pieces_of(bundle.words, (folder / "wordpieces.txt").read_text().split("\n"))

    def tokens(rows: list[np.ndarray], limit: int) -> np.ndarray:
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return teachers.padded(np.concatenate(rows).astype(np.int64), lengths, pieces, limit)

    short, long = (8, 8) if steps else (QUERY_TOKENS, DOCUMENT_TOKENS)
    tokens_of = [[tokens(v, long if v is s.asked[-1] else short) for v in s.asked] for s in sources]
    documents = [tokens(s.documents, long) for s in sources]
    say("tokens made")
    model = teachers.Teacher(folder / "base.npz").to(device)
    if saved and saved.exists():
        model.load_state_dict(torch.load(saved, map_location=device))
        model.eval()
    else:
        rng = np.random.default_rng(SEED)
        size = 32 if steps else TEACHER_BATCH
        total = steps or TEACHER_EPOCHS * sum(len(c) // size for c in chosen)
        feeds = [s.batches(c, size, 10**6, SEED) for s, c in zip(sources, chosen, strict=True)]
        turns = [int(rng.random() >= 0.5) for _ in range(total)]

        def pair(batch: np.ndarray, step: int) -> tuple[Tensor, Tensor]:
            which = turns[step]
            variant = int(rng.integers(len(tokens_of[which])) if which else rng.random() < 0.4)
            q, d = tokens_of[which][variant][batch], documents[which][sources[which].take(batch, rng)]
            return torch.from_numpy(q).to(device), torch.from_numpy(d).to(device)

        teachers.train(model, (next(feeds[w]) for w in turns), pair, total, TEACHER_LR, TEACHER_TEMPERATURE)
        if saved:
            torch.save({k: v.half() for k, v in model.state_dict().items()}, saved)
    say("teacher trained")
    out = [Taught([teachers.encode(model, t, device) for t in q], teachers.encode(model, d, device))
           for q, d in zip(tokens_of, documents, strict=True)]  # fmt: skip
    say("teacher's vectors made")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--settings", default="all")
    parser.add_argument("--keep-teacher", type=Path, help="save or reuse the teacher's weights here")
    parser.add_argument("--tiny", action="store_true", help="a few steps, to see that everything runs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    bundle = load(args.bundle)
    aside = np.random.default_rng(SEED).permutation(len(bundle.repos))[: 1 if args.tiny else ASIDE]
    sources: list[Source] = [Commits(bundle, device), Comments(bundle, device)]
    chosen = [np.flatnonzero(~np.isin(s.repo, aside)) for s in sources]
    say(f"{len(chosen[0]):,} commits, {len(chosen[1]):,} comments and names, {device}; "
        f"held aside: {' '.join(bundle.repos[i] for i in aside)}")  # fmt: skip
    names = args.settings.split(",")
    run = [s for s in SETTINGS if args.settings == "all" or s.name in names]
    taught = None
    if any(s.taught for s in run):
        taught = teach(args.bundle, bundle, sources, chosen, device, args.keep_teacher, 2 if args.tiny else None)
    for settings in run:
        if args.tiny:
            settings = replace(settings, batch=64)
        model = train(settings, bundle, sources, chosen, aside, device, taught, 4 if args.tiny else None)
        np.savez_compressed(args.out / f"{settings.name}.npz", **students.export(model, bundle.words))
        say(f"{settings.name} exported")


if __name__ == "__main__":
    main()
