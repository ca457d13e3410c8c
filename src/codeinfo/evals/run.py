"""The evaluation, from a request to a report: read questions → ask the engine → score → compare → check gates → write.

Questions are asked over trees that lie in one folder, or over the commits of a repository; results are written to a
file. Figures are for all queries and by language, category and repository.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.engine import Engine
from codeinfo.errors import NotFound, UsageError
from codeinfo.evals import metrics
from codeinfo.evals.metrics import DEPTH, Answer, Dataset, Query, Result, Target
from codeinfo.files import read_user_file
from codeinfo.globs import match_globs
from codeinfo.knowledge.memory import is_bot
from codeinfo.languages import file_kind, language_of
from codeinfo.model import FileKind, convert, fill, json_decoder
from codeinfo.operations import answers as operations
from codeinfo.operations import search as ops
from codeinfo.operations.base import ProgressSink, Revision
from codeinfo.sources import git

Answers = Mapping[str, Answer]  # by the ids of queries
Scores = Mapping[str, ops.Score]
CODE_FILES = (FileKind.CODE.value, FileKind.TEST.value)  # a test is code too: leaving it out would flatter the ranking


class Run(Struct, frozen=True):
    answers: tuple[Answer, ...]
    files: int
    chunks: int
    index_ms: float
    model_id: str


def run(engine: Engine, dataset: Dataset, trees: Path, *, whole: bool = False, progress: ProgressSink = None) -> Run:
    """Index each repository and ask its questions. Unless `whole`, only the dataset's folder and only code files."""
    answers, reports = list[Answer](), list[ops.IndexReport]()
    for repo, queries in group_by_key((query.repo, query) for query in dataset.queries).items():
        folder = "" if whole else dataset.roots.get(repo, "")
        root = tree_of(repo, trees) / folder
        if not os.path.isdir(root):
            raise NotFound(f"the tree {root} is missing", f"Put the repository {repo} into {trees}.")
        reports.append(bring_up_to_date(engine, root, progress))
        answers += ask(engine, root, queries, () if whole else CODE_FILES, folder)
    return combine_reports(answers, reports, remaining=reports)


def combine_reports(
    answers: Sequence[Answer], reports: Sequence[ops.IndexReport], remaining: Sequence[ops.IndexReport]
) -> Run:
    """`reports` covers all indexing, `remaining` the indexes that exist at the end."""
    return Run(
        answers=tuple(answers),
        files=sum(report.files for report in remaining),
        chunks=sum(report.chunks for report in remaining),
        index_ms=round(sum(report.took_ms for report in reports), 1),
        model_id=remaining[0].model_id if remaining else "",
    )


def tree_of(repo: str, trees: Path) -> Path:
    """The repository's folder in `trees`; a fixture may come with the one repository it is about."""
    return trees / repo if repo and os.path.isdir(trees / repo) else trees


def bring_up_to_date(engine: Engine, root: Path, progress: ProgressSink = None) -> ops.IndexReport:
    engine.indexes.of(root)  # exactly the questions' folder, not the repository around it
    return engine.index(ops.IndexRequest(paths=(str(root),)), progress).reports[0]


def ask(
    engine: Engine,
    root: Path,
    queries: Iterable[Query],
    kinds: tuple[str, ...] = (),
    folder: str = "",
    at: Revision = "",
) -> Iterator[Answer]:
    """Each query's answer, timed on an open index. `folder` is the path from the repository to `root`."""
    prefix = f"{folder}/" if folder else ""
    request = ops.SearchRequest(query=root.name, paths=(str(root),), limit=1, refresh=False, at=at)
    engine.search(request)  # opens what is opened once
    for query in queries:
        request = replace(request, query=query.text, limit=DEPTH, kinds=kinds)
        started = time.perf_counter()
        result = engine.search(request)
        took_ms = 1000 * (time.perf_counter() - started)
        results = []
        for hit in result.hits:
            shown = (hit.text_line, hit.text_line + hit.text.count("\n"))
            results.append(Result(prefix + hit.path, hit.start_line, hit.end_line, len(hit.text), shown))
        yield Answer(query.id, tuple(results), round(took_ms, 3), result.quality.status)


# --- results in a file ---------------------------------------------------------------------------------------------


def write_results(path: Path, answers: Iterable[Answer]) -> None:
    """One object a line: id, results [{path, start, end, chars, shown}], took_ms, status."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(answers))


def read_results(path: Path) -> dict[str, Answer]:
    """What `write_results`, or another system in the same format, wrote: by query id."""
    if not os.path.isfile(path):
        raise NotFound(f"there is no results file {path}", "Write one with `codeinfo eval … --out FILE`.")
    try:
        lines = json_decoder(dict[str, Any]).decode_lines(path.read_bytes())
        answers = convert([line | {"id": str(line.get("id", ""))} for line in lines], list[Answer])
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not a results file: {error}", "It must have one JSON object per line.") from error
    return {answer.id: answer for answer in answers}


# --- a repository's own history ---------------------------------------------------------------------------------------
#
# The query is what a commit says, the answer what it changed.
#
# Every query is asked of the tree as it was just before the commit. That tree is laid out in a folder of its own, from
# one commit to the next, so that only what changed between them is indexed again. Blobs are read, never checked out: a
# checkout would run the filters that the repository names. A clone may lack blobs (a partial one, or one
# that was cut down): their files are left out, and counted.


def evaluate_history(
    engine: Engine, path: Path, count: int, *, whole: bool, progress: ProgressSink
) -> tuple[Dataset, Run, History]:
    """Ask about `count` commits of a repository, each on the index of its parent; unless `whole`, only about code."""
    history = read_history(path, count)
    name = _project_name(path)
    queries = [_make_query(commit, name) for commit in history.commits]
    answers, reports = list[Answer](), list[ops.IndexReport]()
    with tempfile.TemporaryDirectory(prefix="codeinfo-eval-") as folder:
        root = Path(folder) / name  # the ranking treats the folder's name as the project's
        root.mkdir()
        layout = Layout(path, root)
        try:
            for commit, query in zip(history.commits, queries, strict=True):
                layout.move_to(commit.parent)
                reports.append(bring_up_to_date(engine, root, progress))
                answers += ask(engine, root, [query], () if whole else CODE_FILES)
        finally:
            engine.clear(ops.ClearRequest(paths=(str(root),)))
    done = combine_reports(answers, reports, remaining=reports[-1:])
    return Dataset(f"history of {name}", tuple(queries)), done, replace(history, missing_blobs=len(layout.missing))


def _project_name(path: Path) -> str:
    """The name of the work tree, whichever of its folders was given, or of a bare repository."""
    folder = os.path.abspath(path)
    return os.path.basename(git.work_tree_of(folder) or folder).removesuffix(".git")


def _make_query(commit: Commit, repo: str) -> Query:
    language = language_of(commit.files[0])
    return Query(
        id=commit.sha[:12],
        text=commit.subject,
        targets=tuple(Target(file) for file in commit.files),
        repo=repo,
        language=language.name if language else "",
        category="one file" if len(commit.files) == 1 else "several files",
    )


# --- choosing commits ------------------------------------------------------------------------------------------------

Item = TypeVar("Item")

HISTORY = 2000  # commits looked at, newest first: older code has little to do with today's


class History(Struct, frozen=True):
    """The commits to ask about, oldest first, and how many were left out by which rule."""

    commits: tuple[Commit, ...]
    looked_at: int
    left_out: dict[str, int]
    missing_blobs: int = 0  # blobs missing from the clone, whose files could not be found


def read_history(path: Path, count: int) -> History:
    """About `count` usable commits, evenly spread over the recent history."""
    if not os.path.isdir(path):
        raise NotFound(f"there is no folder {path}", "Give a git repository.")
    try:
        commits = list(read_commits(path, HISTORY))
    except git.GitFailed as error:
        raise UsageError(f"{path} has no history to read: {error.what}", "Give a git repository.") from error
    reasons = {commit.sha: reason_to_leave_out(commit) for commit in commits}
    left_out = Counter(filter(None, reasons.values()))
    usable = [commit for commit in commits if not reasons[commit.sha]]
    if not usable:
        step = "A commit counts when a person wrote three words or more and changed 1 to 10 code files."
        raise UsageError(f"none of the {len(commits)} commits of {path} can be asked about", step)
    return History(tuple(reversed(spread(usable, count))), len(commits), left_out)


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """`count` evenly spaced items, including the first."""
    if len(items) <= count:
        return list(items)
    return [items[place * len(items) // count] for place in range(count)]


MOST_FILES = 10  # a commit that changes more is a sweep, and ten results could not name all its files
FEWEST_WORDS = 3  # "fix tests" gives nothing to search for
LOG_TIMEOUT_S = 120.0  # thousands of commits of a large repository, with the files they changed

# Subjects of housekeeping commits, which do not describe code.
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
    rf"(?<!\s)\s*+[(\[](?:{_LEADING})?{_NUMBER}(?:[ ,;&]+(?:and )?(?:{_LEADING})?{_NUMBER})*+[)\]]"
    rf"|(?<![ ,.;:–-])[ ,.;:–-]*+\b{_LEADING}{_NUMBER}\.?$"
    rf"|(?:^|(?<!\s)\s++)\[?{_NUMBER}\]?(?:[:,]?(?=\s|$))?",
    re.IGNORECASE,
)


class Commit(Struct, frozen=True):
    sha: str
    parent: str  # "" for the first commit
    author: str
    time: int  # of the commit, in seconds since 1970
    subject: str  # without issue numbers
    body: str
    changed: int  # files, of every kind
    added: tuple[str, ...]  # code files it added
    files: tuple[str, ...]  # code files it changed that existed before


def read_commits(path: Path, count: int, revision: str = "HEAD") -> Iterator[Commit]:
    """The newest `count` commits up to the revision, without merges, whose changes belong to other commits."""
    form = git.log_format("%H", "%P", "%an <%ae>", "%ct", "%s", "%b")
    arguments = ("log", "--no-merges", f"--max-count={count}", form, "--name-status", "--no-renames")
    log = os.fsdecode(git.run(path, [*arguments, "-z", "--end-of-options", revision], timeout=LOG_TIMEOUT_S))
    for (sha, parents, author, seconds, subject, body), listed in git.read_log(log, 6):
        statuses = list(zip(listed[::2], listed[1::2], strict=False))
        code = [(status, changed) for status, changed in statuses if file_kind(changed) is FileKind.CODE]
        yield Commit(
            sha=sha,
            parent=parents.split(" ")[0],
            author=author,
            time=int(seconds),
            subject=strip_numbers(subject),
            body=body.strip(),
            changed=len(statuses),
            added=tuple(changed for status, changed in code if status == "A"),
            files=tuple(changed for status, changed in code if status != "A"),
        )


def strip_numbers(subject: str) -> str:
    return _NUMBERS.sub("", subject).strip(" ,;–-")


def reason_to_leave_out(commit: Commit, most_files: int = MOST_FILES) -> str:
    """The rule that excludes a commit, "" if it is a question."""
    if not commit.parent:
        return "first commit"
    if is_bot(commit.author):
        return "bot"
    if _CHORE.match(commit.subject):
        return "chore"
    if len(commit.subject.split()) < FEWEST_WORDS:
        return "too short"
    if commit.changed > most_files:
        return "too many files"
    return "" if commit.files else "no code file that was there before"


# --- laying commits out in a folder ----------------------------------------------------------------------------------

LARGEST = 1_000_000  # bytes; larger files are not indexed anyway
_PLAIN_MODES = ("100644", "100755", "100664")  # neither links, which could lead outside the folder, nor submodules


class Layout:
    """The folder, and which blob each of its files holds."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder
        self._present: dict[str, str] = {}
        self.missing: set[str] = set()  # blobs that the repository lacks, over all trees laid out so far

    def move_to(self, commit: str) -> None:
        """Make the folder hold the commit's tree: every plain file that is small enough and has a safe path."""
        listed = git.list_commit(self._repository, commit, whole=True)
        plain = [blob for blob in listed if blob.mode in _PLAIN_MODES and _is_safe(blob.path)]
        self.missing |= {blob.id for blob in plain if blob.size is None}
        blobs = {blob.path: blob for blob in plain if blob.size is not None and blob.size <= LARGEST}
        for path in self._present.keys() - blobs.keys():
            (self._folder / path).unlink()
        differing = [blob for path, blob in blobs.items() if self._present.get(path) != blob.id]
        for blob, content in git.read_blobs(self._repository, differing):
            target = self._folder / blob.path
            for place, _, _ in os.walk(target, topdown=False):  # empty folders in the place of a new file
                os.rmdir(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content or b"")
        self._present = {path: blob.id for path, blob in blobs.items()}


def _is_safe(path: str) -> bool:
    """A tree may be forged: no path may lead outside the folder or into git's own."""
    return all(part not in ("", ".", "..") and part.lower() != ".git" for part in path.split("/"))


# --- the report ------------------------------------------------------------------------------------------------------


def evaluate(engine: Engine, request: ops.EvalRequest, progress: ProgressSink = None) -> ops.EvalReport:
    named_gates = metrics.parse_gates(request.gates)
    older = {Path(file).stem: read_results(Path(file)) for file in request.compare}  # before any question is asked
    dataset, done, notes = _ask_all(engine, request, progress)
    answers = {answer.id: answer for answer in done.answers}
    scores = scores_of(dataset, answers)
    summary = metrics.summarise(list(scores.values()))
    result = fill(
        ops.EvalReport,
        done,
        dataset=dataset.name,
        groups=groups_of(dataset, scores),
        outcomes=tuple(outcomes_of(dataset, answers, scores)),
        comparisons=tuple(comparisons_of(dataset, scores, older)),
        verdicts=metrics.check_gates(named_gates or dataset.gates, summary),
        notes=notes,
    )
    if request.out:
        write_results(Path(request.out), done.answers)
    return result


def _ask_all(engine: Engine, request: ops.EvalRequest, progress: ProgressSink) -> tuple[Dataset, Run, tuple[str, ...]]:
    if request.from_git:
        path = Path(request.dataset or ".")
        dataset, done, history = evaluate_history(engine, path, request.commits, whole=request.whole, progress=progress)
        return dataset, done, tuple(_describe_choice(history))
    if not request.dataset or not request.trees:
        raise UsageError("a dataset and its trees are needed", "Give both, or --from-git for this repository's history")
    dataset = metrics.load_dataset(Path(request.dataset))
    if request.repos:
        dataset = dataset.of_repositories(request.repos)
    return dataset, run(engine, dataset, Path(request.trees), whole=request.whole, progress=progress), ()


def _describe_choice(history: History) -> Iterator[str]:
    left_out = ", ".join(f"{count} {rule}" for rule, count in sorted(history.left_out.items()))
    yield f"asked about {len(history.commits)} of {history.looked_at} commits; left out: {left_out or 'none'}"
    if history.missing_blobs:
        yield f"blobs that the repository lacks, whose files were not indexed: {history.missing_blobs}"


def scores_of(dataset: Dataset, answers: Answers) -> dict[str, ops.Score]:
    """Every query's score; unanswered queries count as zero."""
    return {query.id: metrics.score(query, answers.get(query.id)) for query in dataset.queries}


def groups_of(dataset: Dataset, scores: Scores) -> tuple[ops.Group, ...]:
    """All, then each language, category and repository by name."""
    groups = [ops.Group("all", "all", metrics.summarise([scores[query.id] for query in dataset.queries]))]
    for by in ("language", "category", "repo"):
        members = group_by_key((getattr(query, by), scores[query.id]) for query in dataset.queries)
        groups += [ops.Group(by, name, metrics.summarise(members[name])) for name in sorted(members) if name]
    return tuple(groups)


def outcomes_of(dataset: Dataset, answers: Answers, scores: Scores) -> Iterator[ops.Outcome]:
    for query in dataset.queries:
        first = next((result.path for result in answers[query.id].results), "") if query.id in answers else ""
        targets = tuple(target.path or " | ".join(target.patterns) for target in query.targets)
        yield ops.Outcome(query.id, query.text, targets, first, scores[query.id])


def comparisons_of(dataset: Dataset, scores: Scores, older: Mapping[str, Answers]) -> Iterator[ops.Comparison]:
    """This run against each older one, on the queries the older one answered."""
    for name, answers in older.items():
        old = {query.id: metrics.score(query, answers[query.id]) for query in dataset.queries if query.id in answers}
        yield metrics.compare(name, dataset.queries, old, scores)


# --- answers ----------------------------------------------------------------------------------------------------------


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """A question of a suite in YAML and the requirements for its answer; a list with one item may be written as plain
    text:

    - question: How are redirects followed?
      must_cite: [src/requests/sessions.py]        # a file of the answer's verified citations; a glob works
      must_mention: [resolve_redirects]            # words of the answer or its citations' places, any case
      must_not_mention: [I think]
    - question: How is the payment provider configured?
      must_abstain: true
    """

    question: str
    must_cite: str | tuple[str, ...] = ()
    must_mention: str | tuple[str, ...] = ()
    must_not_mention: str | tuple[str, ...] = ()
    must_abstain: bool = False

    def __post_init__(self) -> None:
        if self.must_abstain and (self.must_cite or self.must_mention or self.must_not_mention):
            raise ValueError("must_abstain cannot be combined with other requirements")


def run_suites(engine: Engine, request: ops.AnswerEvalRequest) -> ops.AnswerEvalReport:
    """Ask every question of every suite, as `ask` does, in conversations that are deleted afterwards."""
    if not request.suites:
        raise UsageError("no suite was given", "Give a YAML file with questions")
    cases = [(suite, case) for suite in request.suites for case in read_suite(Path(suite))]  # all, before any is asked
    checks = []
    for suite, case in cases:
        question = operations.AskRequest(case.question, request.paths, "", request.provider, request.model)
        answer = engine.answers.ask(question, left_out=[Path(name) for name in request.suites])
        engine.conversations.delete(operations.ConversationIdsRequest((answer.conversation_id,)))
        failures = tuple(failures_of(case, answer))
        tokens = answer.usage.prompt_tokens + answer.usage.completion_tokens
        checks.append(ops.AnswerCheck(suite, case.question, not failures, failures, answer.status, tokens))
    passed = sum(check.passed for check in checks)
    return ops.AnswerEvalReport(tuple(checks), passed, len(checks) - passed)


def failures_of(case: Case, answer: operations.Answer) -> Iterator[str]:
    abstained = answer.status == "abstained"
    if abstained != case.must_abstain:
        yield "it abstained" if abstained else f"it should have abstained, and said: {answer.text[:120]}"
        return
    cited = [citation.path for citation in answer.citations if not citation.problem]
    for pattern in _as_texts(case.must_cite):
        by_glob = match_globs(cited, [pattern], f"must_cite of {case.question!r}")
        if not any(by_glob) and not any(path.endswith(f"/{pattern}") for path in cited):
            yield f"it does not cite {pattern}, but {', '.join(cited) or 'nothing'}"
    places = " ".join(f"{citation.path} {citation.symbol}" for citation in answer.citations)
    text = f"{answer.text}\n{places}".casefold()
    for words in _as_texts(case.must_mention):
        if words.casefold() not in text:
            yield f"it does not mention {words!r}"
    for words in _as_texts(case.must_not_mention):
        if words.casefold() in text:
            yield f"it mentions {words!r}"


_SUITE: Any = Annotated[tuple[Case, ...], msgspec.Meta(min_length=1)]


def read_suite(path: Path) -> tuple[Case, ...]:
    import yaml

    if (text := read_user_file(path, LARGEST)) is None:
        raise NotFound(f"there is no suite {path}", "Give a YAML file")
    try:
        parsed = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path} is not valid YAML: {error}", "Correct that line") from error
    try:
        cases: tuple[Case, ...] = convert(parsed, _SUITE)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path} is not a list of questions: {error}", "docs/answers.md shows one") from error
    return cases


def _as_texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
