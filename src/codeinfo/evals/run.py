"""Asks the engine every question of a dataset, over trees that lie in one folder, and keeps what it found in a file."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import NotFound, UsageError
from codeinfo.evals.datasets import Dataset, Query, Target
from codeinfo.evals.metrics import DEPTH, Answer, Found
from codeinfo.languages import kind_of, language_of
from codeinfo.model import FileKind, Hit
from codeinfo.operations.base import Progress, ProgressSink
from codeinfo.operations.search import ClearRequest, IndexReport, IndexRequest, SearchRequest
from codeinfo.sources import git

if TYPE_CHECKING:
    from codeinfo.engine import Engine

CODE_FILES = (FileKind.CODE.value, FileKind.TEST.value)  # a test is code too: leaving it out would flatter the ranking


class Run(Struct, frozen=True):
    """What a run found, and what its indexes hold and cost."""

    answers: tuple[Answer, ...]
    files: int
    chunks: int
    index_ms: float
    model_id: str


def run(
    engine: Engine, dataset: Dataset, trees: Path, *, whole: bool = False, progress: ProgressSink | None = None
) -> Run:
    """Index each repository and ask its questions. Not `whole`: only the dataset's folder of it, only code files."""
    by_repo: dict[str, list[Query]] = {}
    for query in dataset.queries:
        by_repo.setdefault(query.repo, []).append(query)
    answers: list[Answer] = []
    reports = []
    for repo, queries in by_repo.items():
        folder = "" if whole else dataset.roots.get(repo, "")
        root = tree_of(repo, trees) / folder
        if not os.path.isdir(root):
            raise NotFound(f"the tree {root} is missing", next_step=f"Put the repository {repo} into {trees}.")
        reports.append(bring_up_to_date(engine, root, progress))
        answers += ask(engine, root, queries, () if whole else CODE_FILES, folder)
    return combine_reports(answers, reports, held=reports)


def combine_reports(answers: Sequence[Answer], reports: Sequence[IndexReport], held: Sequence[IndexReport]) -> Run:
    """`reports` tell what all indexing took; `held`, what there is of it in the end."""
    return Run(
        answers=tuple(answers),
        files=sum(report.files for report in held),
        chunks=sum(report.chunks for report in held),
        index_ms=round(sum(report.took_ms for report in reports), 1),
        model_id=held[0].model_id if held else "",
    )


def tree_of(repo: str, trees: Path) -> Path:
    """The repository's folder in `trees`; a fixture may come with the one repository it is about."""
    return trees / repo if repo and os.path.isdir(trees / repo) else trees


def bring_up_to_date(engine: Engine, root: Path, progress: ProgressSink | None = None) -> IndexReport:
    engine.indexes.of(root)  # exactly the folder that the questions are about, not the repository around it
    return engine.index(IndexRequest(paths=(str(root),)), progress).reports[0]


def ask(
    engine: Engine, root: Path, queries: Iterable[Query], kinds: tuple[str, ...] = (), folder: str = ""
) -> Iterator[Answer]:
    """Each query's answer, timed on an open index. `folder` leads from the repository to `root`."""
    prefix = f"{folder}/" if folder else ""
    place = (str(root),)
    engine.search(SearchRequest(query=root.name, paths=place, limit=1, refresh=False))  # opens what is opened once
    for query in queries:
        request = SearchRequest(query=query.text, paths=place, limit=DEPTH, kinds=kinds, refresh=False)
        started = time.perf_counter()
        result = engine.search(request)
        took_ms = 1000 * (time.perf_counter() - started)
        found = tuple(_found(prefix, hit) for hit in result.hits)
        yield Answer(query.id, found, round(took_ms, 3), result.quality.status)


def _found(prefix: str, hit: Hit) -> Found:
    shown = (hit.text_line, hit.text_line + hit.text.count("\n"))
    return Found(prefix + hit.path, hit.start_line, hit.end_line, len(hit.text), shown)


# --- results in a file ---------------------------------------------------------------------------------------------


class _Line(Struct):
    id: str | int
    results: tuple[Found, ...]
    took_ms: float | None = None
    status: str = ""


def write_results(path: Path, answers: Iterable[Answer]) -> None:
    """One object a line: id, results [{path, start, end, chars, shown}], took_ms, status."""
    lines = (_Line(one.id, one.found, one.took_ms, one.status) for one in answers)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def read_results(path: Path) -> dict[str, Answer]:
    """What `write_results`, or another system in the same format, wrote: by query id."""
    if not os.path.isfile(path):
        raise NotFound(f"there is no results file {path}", next_step="Write one with `codeinfo eval … --out FILE`.")
    try:
        lines = msgspec.json.Decoder(_Line).decode_lines(path.read_bytes())
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path} is not a results file: {error}", next_step="It has one JSON object a line."
        ) from error
    return {str(line.id): Answer(str(line.id), line.results, line.took_ms, line.status) for line in lines}


# --- a repository's own history ---------------------------------------------------------------------------------------
#
# The query is what a commit says, the answer what it changed.
#
# Every query is asked of the tree as it was just before the commit. That tree is laid out in a folder of its own, from
# one commit to the next, so that only what changed between them is indexed again. Blobs are read, never checked out: a
# checkout would run the filters that the repository names. A clone may lack blobs (a partial one, or one
# that was cut down): their files are left out, and counted.

Item = TypeVar("Item")

HISTORY = 2000  # commits looked at, newest first: older code has little to do with today's


class History(Struct, frozen=True):
    """The commits to ask about, oldest first, and how many were left out by which rule."""

    commits: tuple[Commit, ...]
    looked_at: int
    left_out: dict[str, int]
    missing_blobs: int = 0  # of the trees that were asked: their files could not be found


def evaluate_history(
    engine: Engine,
    path: Path,
    count: int,
    *,
    whole: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Dataset, Run, History]:
    """Ask about `count` commits of the repository at `path`, each on the index of its parent. Not `whole`: of code."""
    history = read_history(path, count)
    name = _project(path)
    queries = [_query(commit, name) for commit in history.commits]
    answers: list[Answer] = []
    reports = []
    with tempfile.TemporaryDirectory(prefix="codeinfo-eval-") as folder:
        root = Path(folder) / name  # ranking takes the folder's name for the project's own word
        root.mkdir()
        layout = Layout(path, root)
        try:
            for commit, query in zip(history.commits, queries, strict=True):
                layout.move_to(commit.parent)
                reports.append(bring_up_to_date(engine, root, progress))
                answers += ask(engine, root, [query], () if whole else CODE_FILES)
        finally:
            engine.clear(ClearRequest(paths=(str(root),)))
    done = combine_reports(answers, reports, held=reports[-1:])
    return Dataset(f"history of {name}", tuple(queries)), done, replace(history, missing_blobs=layout.missing_blobs)


def _project(path: Path) -> str:
    """The name of the work tree, whichever folder of it was named, or of a bare repository."""
    folder = os.path.abspath(path)
    return os.path.basename(git.work_tree_of(folder) or folder).removesuffix(".git")


def _query(commit: Commit, repo: str) -> Query:
    language = language_of(commit.files[0])
    return Query(
        id=commit.sha[:12],
        text=commit.subject,
        targets=tuple(Target(file) for file in commit.files),
        repo=repo,
        language=language.name if language else "",
        category="one file" if len(commit.files) == 1 else "several files",
    )


# --- choosing commits ----------------------------------------------------------------------------------------------


def read_history(path: Path, count: int) -> History:
    """About `count` telling commits, evenly spread over the recent history."""
    if not os.path.isdir(path):
        raise NotFound(f"there is no folder {path}", next_step="Name a git repository.")
    try:
        commits = list(read_commits(path, HISTORY))
    except git.GitFailed as error:
        raise UsageError(f"{path} has no history to read: {error.what}", next_step="Name a git repository.") from error
    commits_seen = [(commit, reason_to_leave_out(commit)) for commit in commits]
    telling = [commit for commit, rule in commits_seen if not rule]
    left_out = Counter(rule for _, rule in commits_seen if rule)
    if not telling:
        raise UsageError(
            f"none of the {len(commits_seen)} commits of {path} can be asked about",
            next_step="A commit counts when a person wrote three words or more and changed 1 to 10 code files.",
        )
    return History(tuple(reversed(spread(telling, count))), len(commits_seen), left_out)


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """`count` of them, evenly spaced, with the first."""
    if len(items) <= count:
        return list(items)
    return [items[place * len(items) // count] for place in range(count)]


MOST_FILES = 10  # a commit that changes more is a sweep, and no ten results could name them all
FEWEST_WORDS = 3  # "fix tests" says nothing to search for
LOG_TIMEOUT_S = 120.0  # thousands of commits of a large repository, with the files they changed

_BOT = re.compile(
    r"\[bot\]|\bbot\b|bot@|-bot|dependabot|renovate|greenkeeper|github-actions|pre-commit-ci|weblate|transifex|crowdin",
    re.IGNORECASE,
)
# Subjects that tell of housekeeping and name no code, however the commit went about it.
_CHORE = re.compile(
    r"(?:merge|revert|bump|release|prepare|version|update dependenc|fixup!|squash!|amend!|wip\b|v?\d+\.\d+)"
    r"|(?:chore|build|ci|docs?|style|tests?|release)(?:\([^)]*\))?!?:"
    r"|(?:(?:add|fix|update|improve|more|move|remove)\w* )?(?:an? |some |the |unit |missing )*tests?\b"
    r"|.*\b(?:typos?|spelling|whitespace|lint\w*|flake8|pep ?8|changelog|readme|copyright|licen[cs]e|docstrings?"
    r"|docs?|documentation|comments?|(?:start|next|new|set) version)\b",
    re.IGNORECASE,
)
# "(#123)", "(fixes #123, #124)", ", closes GH-7": numbers that the tree does not know, with the words before them.
_NUMBER = r"(?:(?:[\w.-]+/[\w.-]+)?#|gh-)\d+"
_LEADING = r"(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|issue|bug|pr)[: ]*"
_NUMBERS = re.compile(
    rf"\s*[(\[](?:{_LEADING})?{_NUMBER}(?:[ ,;&]+(?:and )?(?:{_LEADING})?{_NUMBER})*[)\]]"
    rf"|[ ,.;:–-]*\b{_LEADING}{_NUMBER}\.?$"
    rf"|(?:^|\s+)\[?{_NUMBER}\]?(?:[:,]?(?=\s|$))?",
    re.IGNORECASE,
)
_FIELDS = "%x01%H%x02%P%x02%an <%ae>%x02%ct%x02%s%x02%b%x02"


class Commit(Struct, frozen=True):
    sha: str
    parent: str  # "" of the first commit
    author: str
    time: int  # of the commit, in seconds since 1970
    subject: str  # without issue numbers
    body: str
    changed: int  # files, of every kind
    added: tuple[str, ...]  # code files that it brought
    files: tuple[str, ...]  # code files that it changed and that were there before


def read_commits(path: Path, count: int, revision: str = "HEAD") -> Iterator[Commit]:
    """The newest `count` commits up to the revision, without merges: their changes are those of other commits."""
    arguments = ("log", "--no-merges", f"--max-count={count}", f"--format={_FIELDS}", "--name-status", "--no-renames")
    log = os.fsdecode(git.run(path, [*arguments, "-z", "--end-of-options", revision], timeout=LOG_TIMEOUT_S))
    for record in log.split("\x01")[1:]:
        facts = record.split("\x02", 6)
        if len(facts) == 7:  # a message may hold any character, these separators as well
            yield _commit(*facts)


def _commit(sha: str, parents: str, author: str, time: str, subject: str, body: str, changes: str) -> Commit:
    changed = list(_changed(changes))
    code = [(status, path) for status, path in changed if is_code(path)]
    return Commit(
        sha=sha,
        parent=parents.split(" ")[0],
        author=author,
        time=int(time),
        subject=without_numbers(subject),
        body=body.strip(),
        changed=len(changed),
        added=tuple(path for status, path in code if status == "A"),
        files=tuple(path for status, path in code if status != "A"),
    )


def _changed(listing: str) -> Iterator[tuple[str, str]]:
    """(status, path) pairs of `--name-status -z`; git sets the list off with line breaks."""
    parts = [part for part in listing.strip("\n\x00").split("\x00") if part]
    for status, path in zip(parts[::2], parts[1::2], strict=False):
        yield status.strip("\n"), path


def without_numbers(subject: str) -> str:
    return _NUMBERS.sub("", subject).strip(" ,;–-")


def reason_to_leave_out(commit: Commit, most_files: int = MOST_FILES) -> str:
    """The rule by which a commit makes no question, "" for none."""
    if not commit.parent:
        return "first commit"
    if _BOT.search(commit.author):
        return "bot"
    if _CHORE.match(commit.subject):
        return "chore"
    if len(commit.subject.split()) < FEWEST_WORDS:
        return "too short"
    if commit.changed > most_files:
        return "too many files"
    return "" if commit.files else "no code file that was there before"


def is_code(path: str) -> bool:
    return kind_of(path, language_of(path)) is FileKind.CODE


LARGEST = 1_000_000  # bytes; what is larger is not indexed anyway
_PLAIN_MODES = ("100644", "100755", "100664")  # neither links, which could lead out of the folder, nor submodules


class Layout:
    """The folder, and which blob each of its files holds."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder
        self._present: dict[str, str] = {}
        self._missing: set[str] = set()

    @property
    def missing_blobs(self) -> int:
        """How many blobs of the trees laid out so far the repository does not have."""
        return len(self._missing)

    def move_to(self, commit: str) -> None:
        """Make the folder hold the commit's tree: every plain file that is small enough and has an honest path."""
        listed = git.list_commit(self._repository, commit, whole=True)
        plain = [blob for blob in listed if blob.mode in _PLAIN_MODES and _is_honest(blob.path)]
        self._missing |= {blob.id for blob in plain if blob.size is None}
        wanted = {blob.path: blob for blob in plain if blob.size is not None and blob.size <= LARGEST}
        for path in self._present.keys() - wanted.keys():
            (self._folder / path).unlink()
        differing = [blob for path, blob in wanted.items() if self._present.get(path) != blob.id]
        for blob, content in git.read_blobs(self._repository, differing):
            target = self._folder / blob.path
            _make_room(self._folder, target)
            target.write_bytes(content or b"")
        self._present = {path: blob.id for path, blob in wanted.items()}


def _make_room(folder: Path, target: Path) -> None:
    """The folders above `target`; one of them may have been a file in the tree before, which is gone by now."""
    if target.is_dir():  # a folder that lost its last file, where a file is to be
        for place, _, _ in os.walk(target, topdown=False):
            os.rmdir(place)
    target.parent.mkdir(parents=True, exist_ok=True)


def _is_honest(path: str) -> bool:
    """A tree may be forged: no path leads out of the folder or pretends to be git's own."""
    return all(part not in ("", ".", "..") and part.lower() != ".git" for part in path.split("/"))
