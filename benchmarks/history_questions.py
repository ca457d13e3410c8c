"""Makes a benchmark out of the histories of repositories: what somebody wrote, and the code that they changed.

    python benchmarks/history_questions.py LIST CLONES OUT            # subjects and reports
    python benchmarks/history_questions.py LIST CLONES OUT --bugs     # descriptions of bugs

LIST has one repository a line, `owner/name<TAB>commit`; its clone lies at CLONES/owner+name/repo, and its history is
read up to that commit (without one: up to HEAD, which another clone may have elsewhere). OUT gets queries.jsonl and
repos.tsv, in the format of `codeinfo eval`; `benchmarks/trees.py OUT/repos.tsv CLONES TREES` lays out the trees.

Each repository is pinned before the first commit that is asked about, so that no answer can be found in a change. A
commit is asked about when a person wrote it, it tells something, and it changed one to four code files, at least half
of which the pinned tree has: these are the answers. Questions are its first line (category `subject`), the whole
message where that is a text of sixty words or more (`report`), or what it says about a bug (`bug`). Answers tell the
lines that were changed and the functions around them, where the pinned file still has them as they were.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from commit_messages import BUG_SCORE, bug_score, bug_text_of, is_report, is_telling, question_of, text_of
from msgspec import Struct
from msgspec.structs import replace
from trees import COLUMNS

from codeinfo.evals.run import Commit, read_commits, reason_to_leave_out, spread
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.languages import file_kind, language_of
from codeinfo.model import FileKind
from codeinfo.sources import git

LOOKED_AT = 3000  # commits, newest first
MOST_CHANGED = 40  # files of every kind: with tests, documents and fixtures
MOST_ANSWERS = 4  # code files: a commit that changes more is about none of them
WINDOW = 400  # telling commits between the pinned tree and the end, at most: older trees answer worse
WINDOW_YEARS = 3
WINDOW_LEAST = 60  # where a project is slow, so many make the window longer than that
YEAR_S = 365.25 * 24 * 60 * 60
MOST_LINES = 20_000  # a longer file is not compared line by line
LONGEST_FUNCTION = 400  # lines: around a whole module there is nothing to find

# Code that nobody asks about: written elsewhere or by tools, shown as an example, or changed with every release.
_NO_ANSWER = re.compile(
    r"(?:^|/)(?:docs?|website|examples?|samples?|demos?|bench(?:marks?)?|vendor(?:ed)?|_vendor|third[-_]?party|external"
    r"|node_modules|dist|build|out|gen(?:erated)?|__generated__|migrations?|locales?|translations?|fuzz(?:ing)?"
    r"|\.\w+)/"
    r"|(?:\.min\.\w+|\.(?:generated|gen|pb|bundle|stories|bench|d)\.\w+|_pb2(?:_grpc)?\.pyi?|_generated\.\w+|\.g\.cs"
    r"|\.Designer\.cs|AssemblyInfo\.cs|_gen\.go|_string\.go|\.gradle\.kts|\.gemspec|\.podspec"
    r"|(?:^|/)(?:setup|_?_?version(?:_?_?|s|eer)|noxfile|conf|build|gulpfile|Gruntfile|Rakefile|mix|Package|Setup)\.\w+"
    r"|(?:^|/)[\w.-]+(?:\.config|\.conf|rc)\.\w+)$",
    re.IGNORECASE,
)

Span = tuple[int, int]


class Window(Struct, frozen=True):
    """The pinned tree, and the telling commits after it, newest first."""

    pin: str
    tree: dict[str, str]  # path → blob
    commits: tuple[Commit, ...]


class Wanted(Struct, frozen=True):
    """How many questions of each category a repository may give."""

    subjects: int
    reports: int
    bugs: int


# --- the commits ---------------------------------------------------------------------------------------------------


def read_window(clone: Path, revision: str) -> Window | None:
    """None where no commit tells anything."""
    telling = list(tellings(clone, revision))
    if not telling:
        return None
    recent = sum(commit.time >= telling[0].time - WINDOW_YEARS * YEAR_S for commit in telling)
    commits = telling[: min(WINDOW, max(recent, WINDOW_LEAST))]
    pin = commit_before(clone, commits[-1], revision)
    tree = tree_of(clone, pin)
    later = set(_lines(clone, "rev-list", "--no-merges", f"{pin}..{revision}"))
    return Window(pin, tree, tuple(c for c in commits if c.sha in later and is_answered(c, tree)))


def tellings(clone: Path, revision: str) -> Iterator[Commit]:
    """Commits that can be asked about, newest first, each subject once."""
    seen: set[str] = set()
    for commit in sorted(read_commits(clone, LOOKED_AT, revision), key=lambda commit: -commit.time):
        question = replace(commit, files=answers_in(commit.files), added=answers_in(commit.added))
        subject = question.subject.lower()
        if reason_to_leave_out(question, MOST_CHANGED) or not is_telling(question) or subject in seen:
            continue
        if len(question.files) + len(question.added) <= MOST_ANSWERS:
            seen.add(subject)
            yield question


def answers_in(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if not _NO_ANSWER.search(path))


def commit_before(clone: Path, commit: Commit, revision: str) -> str:
    """The main branch as it was before the commit; its parent where that branch is younger."""
    before = ("rev-list", "-1", "--first-parent", f"--before={commit.time - 1}", revision)
    return next(iter(_lines(clone, *before)), commit.parent)


def tree_of(clone: Path, commit: str) -> dict[str, str]:
    tree = {}
    for entry in os.fsdecode(git.run(clone, ["ls-tree", "-r", "-z", "--full-tree", commit])).split("\0"):
        facts, _, path = entry.partition("\t")
        if path and facts.startswith("100"):  # neither links nor submodules
            tree[path] = facts.split()[2]
    return tree


def is_answered(commit: Commit, tree: dict[str, str]) -> bool:
    answers = sum(path in tree for path in commit.files)
    return answers > 0 and 2 * answers >= len(commit.files) + len(commit.added)


def _lines(clone: Path, *arguments: str) -> list[str]:
    return git.run(clone, list(arguments)).decode().split()


# --- the questions -------------------------------------------------------------------------------------------------


def questions_of(window: Window, limits: Wanted) -> Iterator[tuple[str, str, Commit]]:
    """(category, text, commit), each commit at most once."""
    used: set[str] = set()
    for commit in best_bugs(window.commits, limits.bugs):
        used.add(commit.sha)
        yield "bug", f"{question_of(commit)}\n\n{bug_text_of(text_of(commit))}", commit
    reports = [commit for commit in window.commits if commit.sha not in used and is_report(text_of(commit))]
    for commit in spread(reports, limits.reports) if limits.reports else ():
        used.add(commit.sha)
        yield "report", f"{question_of(commit)}\n\n{text_of(commit)}", commit
    others = [commit for commit in window.commits if commit.sha not in used]
    for commit in spread(others, limits.subjects) if limits.subjects else ():
        yield "subject", question_of(commit), commit


def best_bugs(commits: Sequence[Commit], count: int) -> list[Commit]:
    """Those that read most like a report, newest first."""
    scored = []
    for commit in commits if count else ():
        points = bug_score(question_of(commit), bug_text_of(text_of(commit)), commit.files)
        if points is not None and points >= BUG_SCORE:
            scored.append((points, commit))
    best = sorted(scored, key=lambda pair: (-pair[0], pair[1].sha))[:count]
    return sorted((commit for _, commit in best), key=lambda commit: -commit.time)


def target_of(clone: Path, commit: Commit, path: str, blob: str) -> dict[str, Any]:
    """The file, with the changed lines and functions of the pinned tree that are known."""
    target: dict[str, Any] = {"path": path, "grade": "relevant"}
    versions = [text_of_blob(clone, name) for name in (f"{commit.parent}:{path}", f"{commit.sha}:{path}", blob)]
    old, new, pinned = (text.split("\n") if text else [] for text in versions)
    if not all((old, new, pinned)) or max(map(len, (old, new, pinned))) > MOST_LINES:
        return target
    spans = moved(changed_lines(old, new), old, pinned)
    if spans:
        target["spans"] = spans
    if functions := functions_around(spans, path, "\n".join(pinned)):
        target["functions"] = functions
    return target


def text_of_blob(clone: Path, name: str) -> str:
    """ "" where the clone lacks it, or where the commit deleted it."""
    try:
        return git.run(clone, ["cat-file", "blob", name]).decode("utf-8", "replace")
    except git.GitFailed:
        return ""


def changed_lines(old: Sequence[str], new: Sequence[str]) -> list[Span]:
    """Lines of `old` that were changed or deleted; of an insertion the line before it."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    changes = (opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal")
    return [(start + 1, end) if end > start else (max(start, 1), max(start, 1)) for _, start, end, _, _ in changes]


def moved(spans: Iterable[Span], old: Sequence[str], pinned: Sequence[str]) -> list[Span]:
    """Where the pinned file has these lines of a later one; without those that were changed in between."""
    blocks = difflib.SequenceMatcher(None, old, pinned, autojunk=False).get_matching_blocks()
    return [
        (first - old_start + pinned_start, last - old_start + pinned_start)
        for first, last in spans
        for old_start, pinned_start, size in blocks
        if old_start < first and last <= old_start + size
    ]


def functions_around(spans: Iterable[Span], path: str, text: str) -> list[Span]:
    """The smallest function around each span, else the smallest that it reaches into."""
    language = language_of(path)
    if language is None:
        return []
    parsed, _ = parse_file(path, text, language.name, ChunkSettings())
    functions = [(d.start_line, d.end_line) for d in parsed.definitions if d.is_function or d.kind == "macro"]
    smallest_around: dict[Span, None] = {}
    for first, last in spans:
        around = [span for span in functions if span[0] <= first and last <= span[1]]
        around = around or [span for span in functions if span[0] <= last and first <= span[1]]
        if around and (smallest := min(around, key=lambda span: span[1] - span[0])):
            smallest_around[smallest] = None
    return [span for span in smallest_around if span[1] - span[0] < LONGEST_FUNCTION]


# --- the benchmark -------------------------------------------------------------------------------------------------


def make(clone: Path, name: str, revision: str, limits: Wanted) -> tuple[str, str, list[dict[str, Any]]]:
    """A repository's language, pinned commit and questions; without any where its history tells nothing."""
    window = read_window(clone, revision)
    if window is None:
        return "", "", []
    language = main_language(window.tree)
    counts: Counter[str] = Counter()
    rows = []
    for category, text, commit in questions_of(window, limits):
        targets = [target_of(clone, commit, path, window.tree[path]) for path in commit.files if path in window.tree]
        facts = {"id": f"{name}-{category}-{counts[category]:02d}", "repo": name, "language": language}
        rows.append({**facts, "category": category, "query": text, "targets": targets, "commit": commit.sha})
        counts[category] += 1
    return language, window.pin, rows


def main_language(tree: Iterable[str]) -> str:
    """Of most code files; a tie goes to the first by name."""
    code = (path for path in tree if file_kind(path) is FileKind.CODE)
    languages = Counter(language.name for path in code if (language := language_of(path)))
    return min(languages, key=lambda name: (-languages[name], name), default="")


def read_list(path: Path) -> Iterator[tuple[str, str]]:
    """(owner/name, revision) pairs."""
    for line in path.read_text(encoding="utf-8").splitlines():
        repository, _, revision = line.strip().partition("\t")
        if repository and not repository.startswith("#"):
            if repository.count("/") != 1:
                raise SystemExit(f"{path}: {repository!r} is not owner/name")
            yield repository, revision.strip() or "HEAD"


def name_all(repositories: Iterable[str]) -> dict[str, str]:
    """Repository → a folder's name: its own, with the owner where two share it."""
    listed = list(repositories)
    shared = Counter(repository.partition("/")[2].lower() for repository in listed)
    names = {}
    for repository in listed:
        owner, _, name = repository.lower().partition("/")
        names[repository] = name if shared[name] == 1 else f"{owner}-{name}"
    return names


def write_benchmark(folder: Path, repos: Sequence[Sequence[str]], queries: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(query, ensure_ascii=False) + "\n" for query in queries]
    (folder / "queries.jsonl").write_text("".join(lines), encoding="utf-8")
    table = ["\t".join(row) + "\n" for row in (COLUMNS, *repos)]
    (folder / "repos.tsv").write_text("".join(table), encoding="utf-8")


def main() -> int:
    options = read_options()
    limits = Wanted(0, 0, options.most) if options.bugs else Wanted(options.subjects, options.reports, 0)
    listed = dict(read_list(options.list))
    names = name_all(listed)
    repos: list[tuple[str, ...]] = []
    queries: list[dict[str, Any]] = []
    for repository, revision in listed.items():
        mirror = repository.replace("/", "+")
        clone = options.clones / mirror / "repo"
        if not clone.is_dir():
            raise SystemExit(f"there is no clone {clone}")
        name = names[repository]
        language, pin, rows = make(clone, name, revision, limits)
        print(f"{repository}: {len(rows)} questions", file=sys.stderr, flush=True)
        if rows:
            repos.append((name, language, mirror, pin, "1", "-", options.split))
            queries += rows
    write_benchmark(options.out, repos, queries)
    print(f"{len(queries)} questions about {len(repos)} repositories in {options.out}")
    return 0 if queries else 1


def read_options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("list", type=Path, help="owner/name, a tab and the last commit to read, a line each")
    arguments.add_argument("clones", type=Path, help="a clone is CLONES/owner+name/repo")
    arguments.add_argument("out", type=Path, help="the folder to write")
    arguments.add_argument("--subjects", type=int, default=30, help="at most, of a repository (%(default)s)")
    arguments.add_argument("--reports", type=int, default=15, help="at most, of a repository (%(default)s)")
    arguments.add_argument("--bugs", action="store_true", help="bug reports instead")
    arguments.add_argument("--most", type=int, default=12, help="bug reports of a repository (%(default)s)")
    arguments.add_argument("--split", default="dev", help="the column of that name in repos.tsv (%(default)s)")
    return arguments.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
