"""Public histories → what committers wrote, with the code that they then changed; and the bundle to train on.

    python training/histories.py collect REPOS.tsv COLLECTED_DIR --mirrors MIRRORS --without LIST.tsv...
    python training/histories.py shingles AVOID.npy TREES...
    python training/histories.py pack COLLECTED_DIR BUNDLE_DIR --trees TREES --model MODEL --avoid AVOID.npy

REPOS.tsv has the columns of the benchmark's own list (name, language, mirror as owner+name, …); MIRRORS holds a bare
clone of each at owner+name/repo. A repository that a --without list names, or exclude.txt, or whose licence is not
permissive, is left out. `collect` writes NAME.jsonl.gz a repository, and beside this script histories.tsv with what was
used. `pack` adds doc comments of the work trees (TREES/NAME) and numbers the words as the packaged table does; what
repeats the text of the trees that are judged by, whose shingles `shingles` saves, is dropped.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import extract
import licences
import numpy as np
from names import excluded
from overlap import numbers, shares, tree_shingles
from prepare import COPIED_RECORD, first_sentence

from codeinfo.models import read_safetensors
from codeinfo.models.encoder import Vocabulary

HERE = Path(__file__).parent
SEED = 20
COMMITS, LOOKED_AT = 1500, 6000  # of one repository: kept, and drawn over all its time to choose from
MAX_CODE_FILES, MAX_FILES = 4, 15
AROUND = 12  # lines beside a change: with them it is about as long as a chunk
HUNKS = 6  # of one commit
RECORDS, FILES = 1000, 400  # doc comments of one repository, and files to look for them in
WORDS = {"subject": 30, "body": 120, "path": 16, "document": 150}

_BOT = re.compile(r"\bbot\b|dependabot|renovate|pre-commit-ci|github-actions|greenkeeper|weblate|crowdin", re.I)
_CHORE = re.compile(
    r"\W*(merge|revert|bump|releas|prepare|version|v?\d+\.\d+|wip\b|fixup!|squash!|initial commit|changelog|typo|lint"
    r"|(docs?|tests?|ci|style|build|deps|chore)(\([^)]*\))?!?:|(re)?format|update (change|read|dep|version|copyright)"
    r"|(fix|correct)\w* (\w+ )?(typos?|lint|formatting|whitespace|tests?|docs?|comments?|build|ci|spelling|style)\b"
    r"|(add|improve|update|more)\w* (\w+ ){0,2}(tests?|specs?|docs?|docstrings?|comments?|translations?)\b"
    r"|clean ?up$|address review|run (black|prettier|ruff|gofmt|rustfmt))",
    re.I,
)
_ASIDE = re.compile(  # folders and files that the question is seldom about
    r"(^|/)(tests?|testing|testdata|fixtures?|__tests__|__mocks__|specs?|e2e|docs?|website|examples?|samples?|demos?"
    r"|benchmarks?|vendor(ed)?|third[-_]?party|external|deps|node_modules|dist|build|generated|gen|migrations?|locales?"
    r"|snapshots?|[\w.]*tests?)/|(^|/)test_|[._-](test|spec|generated|gen|pb|min)\.|_pb2\.|(Tests?|Spec|Suite)\.\w+$",
    re.I,
)
_TRAILER = re.compile(
    r"^\s*(signed-off|co-?authored|reviewed|tested|acked|reported|suggested|approved|cc|change-id|git-svn-id|piperorigin"
    r"|changelog|\(?cherry[- ]picked|differential|test plan|generated|link|ref|pr|pull request|issue)[\w -]*:.*$"
    r"|^\s*[-*]\s*\[[ xX]\].*$|^\s*[-=_*]{3,}\s*$"
    r"|^\s*[-*]?\s*(fix(es|ed)?|clos(es|ed|ing)|resolv(es|ed)|refs?|see|part of|related to)?:?\s*"
    r"([\w./-]*#\d+[,\s]*)+\.?$",
    re.I | re.M,
)


_TICKET = re.compile(
    r"\s*[\[(]?(?:\b(?:fix(?:es)?|closes?|refs?|see|pr|gh|issue)[ :]*)?(?:[\w./-]*#|\bGH-)\d+[\])]?", re.I
)


def run_git(repo: Path, *arguments: str, stdin: str = "") -> str:
    command = ["git", "--git-dir", str(repo), "-c", "core.quotePath=false", *arguments]
    done = subprocess.run(command, input=stdin.encode(), capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace")


def read_licence(repo: Path) -> str | None:
    """By the licence files at the root of the newest tree; None where they say anything that is not permissive."""
    names = run_git(repo, "ls-tree", "--name-only", "HEAD").split("\n")
    files = [n for n in names if re.match(r"(UN)?LICEN[CS]E|COPYING|MIT-LICENSE", n, re.I)]
    texts = [run_git(repo, "show", f"HEAD:{n}") for n in files]
    identifiers = [licences.from_text(text) for text in texts if text.strip() and not text.startswith("tree HEAD")]
    return " OR ".join(sorted(set(identifiers))) if identifiers and all(identifiers) else None  # type: ignore[arg-type]


def clean_subject(text: str) -> str:
    text = _TICKET.sub("", text)
    text = re.sub(r"\(\s*\)|\[\s*\]", "", text)
    text = re.sub(r"^\W*(feat|fix|chore|refactor|perf|feature|bugfix|hotfix)(?=\(|!?:)", "", text, flags=re.I)
    return text.strip(" \t-–,;:!")


def clean_body(text: str) -> str:
    text = re.sub(r"<!--.*?-->|https?://\S+", " ", text.replace("\r", ""), flags=re.S)
    return _TRAILER.sub("", text).strip()


def is_code(path: str) -> bool:
    language = extract.language_of(path)
    return language is not None and language != "markdown" and not _ASIDE.search(path)


def choose(repo: Path, commits: int) -> dict[str, dict[str, object]]:
    """Commits of any time that changed one to four code files, by hash."""
    rng = random.Random(SEED)
    log = run_git(repo, "log", "--no-merges", "--format=%H%x02%an%x02%B%x03", "HEAD")
    messages: dict[str, tuple[str, str]] = {}
    for entry in log.split("\x03"):
        digest, _, rest = entry.strip().partition("\x02")
        author, _, message = rest.partition("\x02")
        raw, _, body = message.strip().partition("\n")
        subject = clean_subject(raw)
        plain = len(raw) < 220 and not _BOT.search(author) and not _CHORE.match(raw) and not _CHORE.match(subject)
        if plain and len(re.findall(r"[A-Za-z]{2,}", subject)) >= 3 and subject.isascii():
            messages[digest] = (subject, clean_body(body))
    drawn = rng.sample(sorted(messages), min(LOOKED_AT, len(messages)))
    listed = run_git(repo, "diff-tree", "--stdin", "-r", "--no-renames", "--name-status", stdin="\n".join(drawn) + "\n")
    chosen: dict[str, dict[str, object]] = {}
    subjects: set[str] = set()
    for part in re.split(r"^(?=[0-9a-f]{40}$)", listed, flags=re.M)[1:]:
        digest, *rows = part.rstrip("\n").split("\n")
        files = [row.split("\t", 1) for row in rows if "\t" in row]
        code = [f for f in files if is_code(f[1])]
        changed = [path for status, path in code if status == "M"]
        subject, body = messages[digest]
        if changed and len(code) <= MAX_CODE_FILES and len(files) <= MAX_FILES and subject.lower() not in subjects:
            subjects.add(subject.lower())
            chosen[digest] = {"subject": subject, "body": body[:2000], "paths": changed}
        if len(chosen) == commits:
            break
    return chosen


_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")


def old_sides(patch: str) -> Iterator[tuple[str, str, list[str], int]]:
    """Path, line of the function around, old lines and the first changed one of each hunk of one commit."""
    path, head, lines, first = "", "", [], -1
    for line in [*patch.split("\n"), "diff --git end"]:
        start = _HUNK.match(line)
        if start or line.startswith("diff --git "):
            if path and lines and first >= 0:
                yield path, head, lines, first
            head, lines, first = start[1] if start else "", [], -1
            path = path if start else ""
        elif line.startswith("--- a/") and not path:
            path = line[6:].rstrip("\t")
        elif path and line[:1] in (" ", "-"):
            first = len(lines) if line[0] == "-" and first < 0 else first
            lines.append(line[1:])
        elif path and line[:1] == "+" and not line.startswith("+++ b/") and first < 0:
            first = len(lines)


def read_changes(repo: Path, chosen: dict[str, dict[str, object]]) -> Iterator[dict[str, object]]:
    digests = list(chosen)
    for start in range(0, len(digests), 300):
        some = digests[start : start + 300]
        paths = sorted({p for d in some for p in chosen[d]["paths"]})  # type: ignore[attr-defined]
        text = run_git(repo, "diff-tree", "--stdin", "-r", "-p", f"-U{AROUND}", "--no-renames", "--no-color",
                       "--no-ext-diff", "--diff-filter=M", "--", *paths, stdin="\n".join(some) + "\n")  # fmt: skip
        for part in re.split(r"^(?=[0-9a-f]{40}$)", text, flags=re.M)[1:]:
            digest, _, patch = part.partition("\n")
            mine = chosen.get(digest)
            if mine is None or len(patch) > 400_000:
                continue
            hunks = []
            for path, head, lines, first in old_sides(patch):
                if path in mine["paths"]:  # type: ignore[operator]
                    # more than fits is cut around the first change, with what stands before it
                    around = lines[max(0, first - AROUND) : first + 2 * AROUND + 16]
                    hunks.append({"path": path, "code": "\n".join([head, *(ln[:200] for ln in around)])[:2400]})
            if hunks:
                rng = random.Random(digest)
                some_hunks = rng.sample(hunks, min(HUNKS, len(hunks)))
                yield {"subject": mine["subject"], "body": mine["body"], "hunks": some_hunks}


def read_list(path: Path) -> list[dict[str, str]]:
    head, *rows = (line.split("\t") for line in path.read_text().splitlines() if line)
    return [dict(zip(head, row, strict=False)) for row in rows]


def collect(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    barred = {row[key].lower() for path in args.without for row in read_list(path) for key in ("name", "mirror")}
    used: list[str] = []
    dropped: Counter[str] = Counter()
    for row in read_list(args.repos):
        owner, _, project = row["mirror"].partition("+")
        repo = args.mirrors / row["mirror"] / "repo"
        file = args.out / f"{row['name']}.jsonl.gz"
        if row["name"].lower() in barred or row["mirror"].lower() in barred:
            dropped["kept aside to judge by"] += 1
        elif excluded(project, f"github.com/{owner}/{project} ") or excluded(row["name"], ""):
            dropped["listed by name"] += 1
        elif not repo.exists():
            dropped["not at hand"] += 1
        elif not (licence := read_licence(repo)):
            dropped["licence not permissive, or not known"] += 1
            print(f"{row['name']}: licence", flush=True)
        else:
            if not file.exists():
                records = list(read_changes(repo, choose(repo, args.commits)))
                part = file.with_suffix(".part")
                with gzip.open(part, "wt", compresslevel=3) as sink:
                    sink.writelines(json.dumps(record) + "\n" for record in records)
                part.rename(file)
                print(row["name"], len(records), sum(len(r["hunks"]) for r in records), flush=True)  # type: ignore[arg-type, misc]
            with gzip.open(file, "rt") as lines:
                n = sum(1 for _ in lines)
            commit = run_git(repo, "rev-parse", "HEAD").strip()
            used.append(f"{row['name']}\t{owner}/{project}\t{commit}\t{row['language']}\t{licence}\t{n}")
            continue
        file.unlink(missing_ok=True)
    head = "name\trepository\tcommit\tlanguage\tlicence\tcommits"
    (HERE / "histories.tsv").write_text("\n".join([head, *sorted(used)]) + "\n")
    print(f"{len(used)} repositories; left out: {dict(dropped)}")


def read_comments(tree: Path) -> list[extract.Record]:
    """Records of one work tree, tests and the like aside, in a fixed order, no code twice."""
    rng = random.Random(SEED)
    first_of: dict[str, extract.Record] = {}
    whole: list[str] = []
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted(f for f in folders if f != ".git")
        whole += [path for name in sorted(files) if is_code(path := Path(folder, name).relative_to(tree).as_posix())]
    for path in rng.sample(whole, min(len(whole), FILES)):
        full = tree / path
        if not full.is_symlink() and full.stat().st_size <= extract.MAX_FILE_CHARS:
            for record in extract.records(path, full.read_text(errors="replace")):
                first_of.setdefault(record.code[:300], record)
    records = sorted(first_of.values(), key=lambda r: not r.doc)
    documented = sum(1 for r in records if r.doc)
    some = rng.sample(records[:documented], min(documented, RECORDS))
    rest = records[documented:]
    return some + rng.sample(rest, min(len(rest), RECORDS - len(some), RECORDS // 3))


class Packer:
    """Fields of rows as flat arrays of word ids, as the packaged table numbers them."""

    def __init__(self, model: Path) -> None:
        tensors, _ = read_safetensors(model)
        self.start = {name: np.array(value) for name, value in tensors.items()}
        self.known = Vocabulary(tensors["vocabulary"].tobytes().decode().split("\n"))
        self.columns: dict[str, tuple[list[int], list[int]]] = {}

    def add(self, field: str, text: str, limit: int) -> None:
        flat, lengths = self.columns.setdefault(field, ([], []))
        row = list(self.known.ids_in(text))[:limit]
        flat += row
        lengths.append(len(row))

    def arrays(self) -> dict[str, np.ndarray]:
        out: dict[str, np.ndarray] = {}
        for field, (flat, lengths) in self.columns.items():
            out[field], out[field + "_n"] = np.array(flat, np.uint16), np.array(lengths, np.uint8)
        return out


def pack(args: argparse.Namespace) -> None:
    avoided = np.load(args.avoid) if args.avoid else np.empty(0, np.uint64)
    packer = Packer(args.model)
    repos, commit_repo, hunk_commit, record_repo, copied = [], [], [], [], 0
    for name in (row["name"] for row in read_list(HERE / "histories.tsv")):
        file = args.collected / f"{name}.jsonl.gz"
        repos.append(name)
        with gzip.open(file, "rt") as lines:
            commits = list(map(json.loads, lines))
        for commit in commits:
            commit["hunks"] = commit["hunks"][: args.hunks]
        share = iter(shares((numbers(h["code"]) for c in commits for h in c["hunks"]), avoided))
        for commit in commits:
            hunks = [h for h in commit["hunks"] if next(share) <= COPIED_RECORD]
            copied += len(commit["hunks"]) - len(hunks)
            if not hunks:
                continue
            packer.add("subject", commit["subject"], WORDS["subject"])
            packer.add("body", commit["body"], WORDS["body"])
            for hunk in hunks:
                packer.add("hunk_path", str(PurePosixPath(hunk["path"]).with_suffix("")), WORDS["path"])
                packer.add("hunk", hunk["code"], WORDS["document"])
                hunk_commit.append(len(commit_repo))
            commit_repo.append(len(repos) - 1)
        records = read_comments(args.trees / name)
        share = iter(shares((numbers(r.code + "\n" + r.doc) for r in records), avoided))
        for record in records:
            if next(share) > COPIED_RECORD:
                copied += 1
                continue
            doc, more = first_sentence(record.doc)
            path = str(PurePosixPath(record.path).with_suffix(""))
            for field, text, limit in (("doc", doc, 24), ("more", more, 24), ("name", record.name, 10),
                                       ("container", record.container, 6), ("path", path, WORDS["path"]),
                                       ("code", record.code, WORDS["document"])):  # fmt: skip
                packer.add(field, text, limit)
            record_repo.append(len(repos) - 1)
        print(name, len(commit_repo), len(hunk_commit), len(record_repo), flush=True)
    arrays = packer.arrays()
    arrays["commit_repo"], arrays["record_repo"] = np.array(commit_repo, np.int16), np.array(record_repo, np.int16)
    arrays["hunk_commit"] = np.array(hunk_commit, np.int32)
    args.out.mkdir(parents=True, exist_ok=True)
    raw = io.BytesIO()
    np.savez(raw, **arrays)
    (args.out / "histories.npz.xz").write_bytes(lzma.compress(raw.getvalue(), preset=2))
    np.savez(args.out / "start.npz", **packer.start)
    (args.out / "repos.txt").write_text("\n".join(repos))
    print(f"{len(commit_repo):,} commits with {len(hunk_commit):,} hunks, {len(record_repo):,} comments and names, "
          f"{copied:,} dropped as copies of what is judged by")  # fmt: skip


def save_shingles(args: argparse.Namespace) -> None:
    shingles_of = [tree_shingles(tree) for tree in args.trees]
    np.save(args.out, np.unique(np.concatenate(shingles_of)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("collect")
    one.add_argument("repos", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("--mirrors", type=Path, required=True)
    one.add_argument("--without", type=Path, nargs="*", default=[], help="lists of repositories to judge by")
    one.add_argument("--commits", type=int, default=COMMITS)
    one.set_defaults(run=collect)
    two = commands.add_parser("pack")
    two.add_argument("collected", type=Path)
    two.add_argument("out", type=Path)
    two.add_argument("--trees", type=Path, required=True)
    two.add_argument("--model", type=Path, required=True, help="the table that is trained again")
    two.add_argument("--avoid", type=Path, help="shingles of the trees to judge by")
    two.add_argument("--hunks", type=int, default=2, help="kept of one commit")
    two.set_defaults(run=pack)
    three = commands.add_parser("shingles")
    three.add_argument("out", type=Path)
    three.add_argument("trees", type=Path, nargs="+")
    three.set_defaults(run=save_shingles)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
