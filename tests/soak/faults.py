"""Processes that are killed, and system calls that fail, at every place where CodeInfo touches its own files.

A baseline run under strace lists the calls that touch the user's folders; each fault is then injected at one of them,
the run's end is looked at, and afterwards everything must be there and be found as by a run that met no fault.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from durability_tools import Done, make_project
from sandbox import Failed, Sandbox, Tally, check_end, finished, processes_of, settled

PATIENCE_S = 5.0  # beyond the time of a baseline run, times SLACK for a busy machine
SLACK = 4
ERRORS = {
    "write": ("ENOSPC", "EIO"),
    "pwrite64": ("ENOSPC", "EIO"),
    "ftruncate": ("ENOSPC", "EIO"),
    "fsync": ("EIO", "ENOSPC"),
    "fdatasync": ("EIO", "ENOSPC"),
    "renameat": ("ENOSPC", "EIO"),
    "renameat2": ("ENOSPC", "EIO"),
    "rename": ("ENOSPC", "EIO"),
    "openat": ("EMFILE", "ENOMEM", "EIO", "ENOSPC"),
    "mkdirat": ("ENOSPC", "EIO"),
    "mkdir": ("ENOSPC", "EIO"),
    "unlinkat": ("EIO",),
    "unlink": ("EIO",),
    "flock": ("ENOLCK", "EIO"),
    "mmap": ("ENOMEM",),
    "pread64": ("EIO",),
    "read": ("EIO",),
}
TRACE = ("strace", "-f", "-y", "-qq")
QUICK = "--seccomp-bpf"  # stops at the named calls only; strace does not send signals then
_WORKING_FOLDER = re.compile(r"AT_FDCWD<[^>]*>")
_CALL = re.compile(r"^(\d+)\s+(\w+)\(")


class Workload(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    prepare: Callable[[Sandbox], None]  # after everything was put back


class Baseline(NamedTuple):
    """A run without faults: what it does to our files, how long it takes, what is found after it."""

    calls: list[tuple[str, int]]  # the name, and which one of its thread's calls of that name it is
    seconds: float
    answers: tuple[Any, ...]


def workloads(sandbox: Sandbox) -> list[Workload]:
    path = str(sandbox.project)
    return [
        Workload("index", ("index", path), lambda sandbox: shutil.rmtree(sandbox.home / "cache" / "indexes")),
        Workload("update", ("index", path), _edit),
        Workload("search", ("search", "compute_3_1", path), _edit),
        Workload("docs sync", ("docs", "sync"), _edit_documents),
        Workload("remember", ("remember", "A third thing", "-r", "It matters", "--path", path), lambda sandbox: None),
        Workload("ask", ("ask", "which numbers are multiplied?", path), lambda sandbox: None),
    ]


def _edit(sandbox: Sandbox) -> None:
    for at in range(0, 9, 3):
        (sandbox.project / f"module{at:04}.py").write_text(f"def changed_{at}(left):\n    return left + {at}\n" * 20)
    (sandbox.project / "module0001.py").unlink()


def _edit_documents(sandbox: Sandbox) -> None:
    (sandbox.documents / "note1.md").write_text("# Note 1\n\nNo ships any more in this harbour.\n")
    (sandbox.documents / "note9.md").write_text("# Note 9\n\nA new harbour for ships.\n")


def inject_faults(sandbox: Sandbox, tally: Tally, wanted: int, rng: random.Random) -> None:
    """About half are errors and kills at system calls; the rest are kills at random moments and low limits."""
    if shutil.which("strace") is None:
        raise SystemExit("strace is needed to inject faults: install it, or leave this part out")
    known = [(workload, run_undisturbed(sandbox, workload)) for workload in workloads(sandbox)]
    for workload, baseline in known:
        tally.figures.append(
            f"{workload.name}: {len(baseline.calls)} calls on our files, {baseline.seconds:.1f} s under strace"
        )
    for number in range(2 * wanted):
        if sum(tally.done.values()) >= wanted:
            break
        workload, baseline = known[number % len(known)]
        manner = rng.choice((fail_call, fail_call, kill_at_call, kill_at_moment, lower_limit))
        kind = f"fault: {workload.name}"
        draw = random.Random(f"{tally.seed} {number}")
        tally.attempt(kind, f"number {number}", lambda: manner(sandbox, workload, baseline, draw))  # noqa: B023  called now
    for number in range(max(1, wanted // 40)):
        tally.attempt("fault: queue", f"number {number}", lambda: kill_server(sandbox, rng))


def run_undisturbed(sandbox: Sandbox, workload: Workload) -> Baseline:
    sandbox.restore()
    workload.prepare(sandbox)
    log = sandbox.folder / "strace.log"
    names = ",".join(ERRORS)
    started = time.monotonic()
    before = (*TRACE, QUICK, "-o", str(log), "-e", f"trace=?{names.replace(',', ',?')}")
    done = sandbox.run(*workload.arguments, before=before)
    seconds = time.monotonic() - started
    assert done.code == 0, done
    return Baseline(_calls(log, str(sandbox.folder)), seconds, sandbox.inside(settled))


def _calls(log: Path, folder: str) -> list[tuple[str, int]]:
    counts: dict[tuple[str, str], int] = {}
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        counts[match[1], match[2]] = number = counts.get((match[1], match[2]), 0) + 1
        if _is_ours(line, folder) and "ENOENT" not in line:
            found.append((match[2], number))
    return found


def _is_ours(line: str, folder: str) -> bool:
    """Whether a call touches the user's folders; that one of them is the working folder does not make it one."""
    return folder in _WORKING_FOLDER.sub("", line)


# --- ways to fail --------------------------------------------------------------------------------------------------


def fail_call(sandbox: Sandbox, workload: Workload, baseline: Baseline, rng: random.Random) -> str:
    name, number = rng.choice(baseline.calls)
    error = rng.choice(ERRORS[name])
    after = rng.choice(("", "+"))  # this one, or every one from here on: a disk that stays full
    return _injected(sandbox, workload, baseline, name, f"error={error}:when={number}{after}", error)


def kill_at_call(sandbox: Sandbox, workload: Workload, baseline: Baseline, rng: random.Random) -> str:
    name, number = rng.choice(baseline.calls)
    return _injected(sandbox, workload, baseline, name, f"signal=KILL:when={number}", "kill")


def _injected(sandbox: Sandbox, workload: Workload, baseline: Baseline, call: str, fault: str, short: str) -> str:
    sandbox.restore()
    workload.prepare(sandbox)
    log = sandbox.folder / "strace.log"
    tracing = ("-e", f"trace={call}", "-e", f"inject={call}:{fault}")
    started = time.monotonic()
    quick = () if "signal" in fault else (QUICK,)
    process = sandbox.start(*workload.arguments, before=(*TRACE, *quick, "-o", str(log), *tracing))
    where = f"{' '.join(workload.arguments)} with {call} {fault}"
    done = _ended(process, where)
    lines = log.read_text(errors="replace").splitlines()
    folder = str(sandbox.folder)
    injected = [line for line in lines if "INJECTED" in line]
    met = any(_is_ours(line, folder) for line in injected)
    killed = done.code == -signal.SIGKILL and any(_is_ours(line, folder) for line in lines[-3:])
    if not met and not killed:
        return ""  # the run took another way this time and never came there, or it hit a library
    if any(" write(2<" in line for line in injected):
        done = done._replace(err=f"{done.err} (stderr failed too)")
    return _look(sandbox, workload, baseline, done, time.monotonic() - started, where, short)


def kill_at_moment(sandbox: Sandbox, workload: Workload, baseline: Baseline, rng: random.Random) -> str:
    """SIGKILL, or SIGTERM, at a moment of the second half of a run: the first is the start of Python."""
    sandbox.restore()
    workload.prepare(sandbox)
    how = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    started = time.monotonic()
    process = sandbox.start(*workload.arguments)
    time.sleep(rng.uniform(0.1, 0.6) * baseline.seconds)
    process.send_signal(how)
    done = _ended(process, f"{' '.join(workload.arguments)} and {how.name}")
    if done.code == 0:
        return ""  # it was done already
    return _look(sandbox, workload, baseline, done, time.monotonic() - started, how.name, how.name)


def lower_limit(sandbox: Sandbox, workload: Workload, baseline: Baseline, rng: random.Random) -> str:
    """Open files, the size of a file, or the address space."""
    sandbox.restore()
    workload.prepare(sandbox)
    which, least, most = rng.choice(
        (
            (resource.RLIMIT_NOFILE, 6, 30),
            (resource.RLIMIT_FSIZE, 1, 120_000),
            (resource.RLIMIT_AS, 60 << 20, 300 << 20),
        )
    )
    limit = rng.randint(least, most)
    name = {resource.RLIMIT_NOFILE: "nofile", resource.RLIMIT_FSIZE: "fsize", resource.RLIMIT_AS: "as"}[which]
    started = time.monotonic()
    process = sandbox.start(*workload.arguments, before=("prlimit", f"--{name}={limit}", "--"))
    where = f"prlimit --{name}={limit} -- codeinfo {' '.join(workload.arguments)}"
    done = _ended(process, where)
    ended = _look(sandbox, workload, baseline, done, time.monotonic() - started, where, f"limit of {name}")
    return ended if done.code else ""  # it was not low enough, or only what can be left out was not done


def _ended(process: subprocess.Popen[str], where: str) -> Done:
    try:
        return finished(process)
    except Failed as failure:
        raise Failed(f"{where}: {failure}") from None


def _look(
    sandbox: Sandbox, workload: Workload, baseline: Baseline, done: Done, seconds: float, where: str, short: str
) -> str:
    """After a fault: how it ended, what is there, what is found."""
    try:
        check_end(done, -signal.SIGKILL, -signal.SIGTERM)
        if seconds > SLACK * (PATIENCE_S + baseline.seconds):
            raise Failed(f"took {seconds:.1f} s")
        sandbox.check_nothing_lost()
        if done.code == 0 and workload.name == "remember":
            listed = sandbox.ask("memory", "list", "--path", str(sandbox.project))
            if "A third thing" not in listed.out:
                raise Failed("said that it remembered, and did not")
        if sandbox.inside(settled) != baseline.answers:
            raise Failed("other results than after a run without faults")
        sandbox.check_nothing_left()
    except Failed as failure:
        raise Failed(f"{where}: {failure} (exit {done.code}, {done.err.strip()[-300:]!r})") from None
    left = any(path.name.startswith(".memory.json-") for path in (sandbox.project / ".codeinfo").iterdir())
    return f"{short} {done.code}{', a temporary file left' if left else ''}"


# --- the queue of the server ---------------------------------------------------------------------------------------


def kill_server(sandbox: Sandbox, rng: random.Random) -> str:
    """A server that is killed while it indexes on request; the next one goes on with the run."""
    sandbox.restore()
    other = sandbox.folder / "asked"
    shutil.rmtree(other, ignore_errors=True)
    make_project(other, 60)
    identity = ""
    for wait_s in (rng.uniform(0.0, 0.6), None):
        process = sandbox.start("serve", "--port", "0", "--allow", str(other))
        try:
            assert process.stdout is not None
            host = process.stdout.readline().split()[-1].removeprefix("http://").rstrip("/")
            token = (sandbox.home / "data" / "web-token").read_text()
            if wait_s is not None:
                identity = _post(host, token, "/ingest/start", {"path": str(other)})["id"]
                time.sleep(wait_s)
            else:
                _wait_for(host, identity)
        finally:
            process.kill()
            process.communicate()
    sandbox.check_nothing_lost()
    if str(other) not in sandbox.ask("projects", "--json").out:
        raise Failed("what was asked for was forgotten")
    if processes_of(str(sandbox.folder)):
        time.sleep(2)
        if left := processes_of(str(sandbox.folder)):
            raise Failed(f"processes left: {left}")
    return "kill, gone on"


def _post(host: str, token: str, path: str, body: dict[str, Any]) -> Any:
    connection = http.client.HTTPConnection(host, timeout=30)
    headers = {"content-type": "application/json", "x-codeinfo-token": token}
    connection.request("POST", path, json.dumps(body), headers)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    if reply.status != 200:
        raise Failed(f"{path}: {reply.status} {text[:300]!r}")
    return json.loads(text)


def _wait_for(host: str, identity: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        connection = http.client.HTTPConnection(host, timeout=30)
        connection.request("GET", f"/ingest/status/{identity}")
        report = json.loads(connection.getresponse().read())
        connection.close()
        if report.get("state") not in ("queued", "running"):
            if report.get("state") not in ("done", "completed"):
                raise Failed(f"the run is {report}")
            return
        time.sleep(0.1)
    raise Failed("the run never ended")
