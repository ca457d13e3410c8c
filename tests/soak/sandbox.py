"""A small user with a project, documents, memories and a conversation, and what must hold after anything was done to
them. Commands run as real processes, or in a forked copy of this process where thousands of them are needed."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from durability_tools import STEADY, Done, cli, make_project, shown_texts_are_true

FORK = multiprocessing.get_context("fork")
DOCUMENTED = frozenset({0, 2, 3, 4, 5, 6, 7, 130})  # docs/cli.md; 1 is a bug in CodeInfo
ENDLESS_S = 60.0  # whatever takes longer is killed and counted as a hang
SLOW_S = 5.0
LINGERING_S = 6.0  # the server that `doctor` starts ends five seconds after its last client
QUERIES = (STEADY, "compute numbers left", "compute_3_1", "module numbers")
MARK = "CODEINFO_SOAK_WORLD"  # in the environment of every process that is started, so that none is overlooked


class Failed(Exception):
    """What was promised does not hold."""


class Tally:
    """Counts by class, and the failures with what is needed to repeat them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.done: Counter[str] = Counter()
        self.outcomes: dict[str, Counter[str]] = {}
        self.failures: list[str] = []
        self.failed: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        self.figures: list[str] = []

    def attempt(self, kind: str, what: str, function: Callable[[], str]) -> None:
        """Call, and count what it returns: how it ended, or "" where nothing was met, which does not count."""
        started = time.monotonic()
        try:
            outcome = function()
        except Failed as failure:
            outcome = "FAILED"
            self.fail(kind, f"{what}: {failure}")
        if outcome:
            self.done[kind] += 1
            self.outcomes.setdefault(kind, Counter())[outcome] += 1
            seconds = time.monotonic() - started
            self.slowest[kind] = max(self.slowest.get(kind, 0.0), seconds)
            if seconds > SLOW_S:
                self.figures.append(f"slow: {kind}: {seconds:.1f} s for {what[:200]}")
            if (total := sum(self.done.values())) % 200 == 0:
                print(f"{total} done, {len(self.failures)} failures; at {kind}", flush=True)

    def fail(self, kind: str, what: str) -> None:
        self.failed[kind] += 1
        self.failures.append(f"{kind}: {what}")
        print(f"FAILED {self.failures[-1][:3000]}", flush=True)

    def table(self) -> str:
        rows = [f"{'class':<28}{'done':>8}{'failed':>8}{'slowest':>10}  how they ended"]
        for kind, done in self.done.items():
            ended = ", ".join(f"{outcome} {count}" for outcome, count in self.outcomes[kind].most_common(6))
            rows.append(f"{kind:<28}{done:>8}{self.failed[kind]:>8}{self.slowest[kind]:>9.1f}s  {ended}")
        return "\n".join([*rows, *self.figures])


class State(NamedTuple):
    """What a user has: texts of memories, conversations with their turns, collections."""

    memories: frozenset[str]
    conversations: frozenset[tuple[str, str]]
    collections: frozenset[str]

    def holds(self, other: State) -> bool:
        return all(mine >= theirs for mine, theirs in zip(self, other, strict=True))


class Sandbox:
    def __init__(self, folder: Path, files: int = 12) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = make_project(folder / "project", files)
        self.documents = folder / "documents"
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "PYTHONHASHSEED": "0",  # the same system calls in every run
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "HOME": str(folder / "user"),
            "CODEINFO_HOME": str(self.home),
            "CODEINFO_EMBEDDING_PROVIDER": "scripted",
            "CODEINFO_LLM_PROVIDER": "none",
            "CODEINFO_LLM_DISCOVER": "false",
            "CODEINFO_INDEX_WORKERS": "1",
            MARK: str(folder),
        }
        (folder / "user").mkdir()
        self.documents.mkdir()
        for at in range(4):
            (self.documents / f"note{at}.md").write_text(f"# Note {at}\n\nShips of kind {at} anchor in the harbour.\n")
        path = str(self.project)
        for arguments in (
            ("index", path),
            ("remember", "Ships anchor in the harbour", "-r", "It is deep", "--path", path),
            ("remember", "Numbers are multiplied first", "-r", "They overflow", "--path", path),
            ("ask", "where is the landmark?", path),
            ("docs", "add", str(self.documents)),
        ):
            done = self.run(*arguments)
            assert done.code == 0, done
        self._pristine = folder / "pristine"
        shutil.copytree(self.home, self._pristine / "home")
        shutil.copytree(self.project, self._pristine / "project")
        shutil.copytree(self.documents, self._pristine / "documents")
        for name in self.inside(loaded_modules):  # once here instead of once in every copy of this process
            importlib.import_module(name)
        self.state = self.inside(state)
        assert all(self.state), self.state

    def restore(self) -> None:
        """Everything as it was in the beginning, times of files included."""
        for name in ("home", "project", "documents"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self._pristine / name, self.folder / name)

    # --- running ---

    def command(self, *arguments: str) -> list[str]:
        return [
            sys.executable,
            "-P",
            "-m",
            "codeinfo",
            *arguments,
        ]  # as the command: nothing is imported from a project

    def start(self, *arguments: str, before: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[str]:
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*before, *self.command(*arguments)], cwd=self.project, env=self.environment, text=True, errors="replace",
            **(given | options),
        )  # fmt: skip

    def run(self, *arguments: str, before: tuple[str, ...] = (), **options: Any) -> Done:
        return finished(self.start(*arguments, before=before, **options))

    def inside(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function returns in a copy of this process that is this user's."""
        ours, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_in_child, args=(theirs, self, function, arguments))
        process.start()
        theirs.close()
        try:
            if not ours.poll(ENDLESS_S):
                raise Failed(f"no answer after {ENDLESS_S:.0f} s")
            value = ours.recv()
        except EOFError:
            process.join()
            raise Failed(f"the process died with {process.exitcode}") from None
        finally:
            if ours.closed or process.is_alive():
                process.join(0.5)
            if process.is_alive():
                process.kill()
            process.join()
            ours.close()
        if isinstance(value, Exception):
            raise value
        return value

    def ask(self, *arguments: str) -> Done:
        """One command in such a copy."""
        done: Done = self.inside(checked, *arguments)
        return done

    # --- what must hold ---

    def check_nothing_lost(self) -> None:
        now: State = self.inside(state)
        if not now.holds(self.state):
            raise Failed(f"lost: {[sorted(was - is_) for was, is_ in zip(self.state, now, strict=True)]}")

    def check_nothing_left(self) -> None:
        """No process of ours runs on, and nobody else can read what is ours."""
        until = time.monotonic() + LINGERING_S
        while left := processes_of(str(self.folder)):
            if time.monotonic() > until:
                raise Failed(f"processes left: {left}")
            time.sleep(0.1)
        for path in (self.home / "cache", self.home / "data"):
            for place in (path, *path.rglob("*")):
                mode = stat.S_IMODE(place.lstat().st_mode)
                if mode & 0o077 and not place.is_symlink():
                    raise Failed(f"others may read {place} ({mode:o})")


def _in_child(pipe: Any, sandbox: Sandbox, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(sandbox.environment)
    os.chdir(sandbox.project)
    try:
        pipe.send(function(*arguments) if function is checked else function(sandbox, *arguments))
    except Failed as failure:
        pipe.send(failure)
    except BaseException as error:  # the harness reports it as a failure of the run, whatever it is
        pipe.send(Failed(f"{type(error).__name__}: {error}"[:2000]))


def finished(process: subprocess.Popen[str]) -> Done:
    try:
        out, err = process.communicate(timeout=ENDLESS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(f"no end after {ENDLESS_S:.0f} s") from None
    return Done(process.returncode, out, err)


def checked(*arguments: str) -> Done:
    try:
        done = cli(*arguments)
    except AssertionError as error:
        raise Failed(f"a bug in CodeInfo: {error}"[:3000]) from None
    check_end(done)
    return done


def check_end(done: Done, *others: int) -> None:
    """A documented exit code, a reason where it is not 0, and no traceback."""
    if done.code not in DOCUMENTED and done.code not in others:
        raise Failed(f"exit {done.code}: {done.err[-1500:]}")
    if "Traceback" in done.err or "bug in CodeInfo" in done.err:
        raise Failed(f"exit {done.code} with a traceback: {done.err[-1500:]}")
    if done.code in (2, 4, 5, 6, 7) and not done.err.strip():
        raise Failed(f"exit {done.code} without a reason")


def processes_of(folder: str) -> dict[int, str]:
    """The commands of all that were started in a sandbox's environment, by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{MARK}={folder}\0".encode() in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = command[:200]
        except OSError:  # gone meanwhile, or another user's
            continue
    return found


# --- looked at in a copy of this process ---------------------------------------------------------------------------


def run_json(*arguments: str) -> Any:
    done = checked(*arguments, "--json")
    if done.code not in (0, 3):
        raise Failed(f"{' '.join(arguments)} ended with {done.code}: {done.err[-800:]}")
    return done.json


def state(sandbox: Sandbox) -> State:
    memories = run_json("memory", "list", "--path", str(sandbox.project))["memories"]
    known = [one["id"] for one in run_json("conversations", "list")["conversations"]]
    collections = run_json("docs", "list")["collections"]
    return State(
        frozenset(f"{one['memory']} because {one['reason']}" for one in memories),
        frozenset((one, json.dumps(run_json("conversations", "show", one), sort_keys=True)) for one in known),
        frozenset(f"{one['id']} {one['url']}" for one in collections),
    )


def answers(sandbox: Sandbox) -> tuple[Any, ...]:
    """What is found now, in order, without what differs from run to run."""
    return answers_with_notes(sandbox)[0]


def answers_with_notes(sandbox: Sandbox) -> tuple[tuple[Any, ...], list[str]]:
    found: list[Any] = []
    notes: list[str] = []
    for query in QUERIES:
        reply = run_json("search", query, str(sandbox.project))
        if not shown_texts_are_true(sandbox.project, reply["hits"]):
            raise Failed(f"a text that is in no file: {query}")
        found.append([(hit["path"], hit["start_line"], hit["end_line"]) for hit in reply["hits"]])
        notes += reply["notes"]
    defined = run_json("defs", STEADY, str(sandbox.project))
    found.append([(one["path"], one["start_line"]) for one in defined["definitions"]])
    passages = run_json("docs", "search", "ships in the harbour")
    results = passages["searches"][0]["results"]
    found.append([(one["document"], one["content"]) for one in results])
    notes += passages["notes"]
    return tuple(json.dumps(one) for one in found), notes


def loaded_modules(sandbox: Sandbox) -> list[str]:
    before = set(sys.modules)
    state(sandbox)
    settled(sandbox)
    return sorted(name for name in sys.modules.keys() - before if name.partition(".")[0] in ("codeinfo", "numpy"))


def settled(sandbox: Sandbox) -> tuple[Any, ...]:
    """Do what is left, then the answers."""
    for arguments in (("index", str(sandbox.project)), ("docs", "sync")):
        done = checked(*arguments)
        if done.code == 5:  # damage that is found while working is repaired by the next command
            done = checked(*arguments)
        if done.code != 0:
            raise Failed(f"{arguments[0]} after it ended with {done.code}: {done.err[-1000:]}")
    return answers(sandbox)
