"""Faults of the machine: each has an error of its own with an exit code, and none is called a bug in CodeInfo."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import RunCli
from durability_tools import make_project

from codeinfo.errors import CodeInfoError, environment_error
from codeinfo.serve.auth import own_token

NO_USER = 54_321  # an id that no user has
STARTS = "clone,clone3,fork,vfork"
traced = pytest.mark.skipif(shutil.which("strace") is None, reason="strace injects the fault")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codeinfo: RunCli) -> Path:
    monkeypatch.setenv("CODEINFO_HOME", str(tmp_path / "codeinfo"))
    monkeypatch.setenv("CODEINFO_EMBEDDING_PROVIDER", "scripted")
    project = make_project(tmp_path / "project", 2)
    (project / "harbour.md").write_text("# “Häfen” 😀\n\nHarbour of ships.\n", "utf-8")
    assert codeinfo("index", str(project)).returncode == 0
    return project


COMMAND = [sys.executable, "-m", "codeinfo"]


def started(*arguments: str | Path, before: tuple[str, ...] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    command = [*before, *COMMAND, *map(str, arguments)]
    return subprocess.run(command, text=True, encoding="utf-8", timeout=120, check=False, **(given | options))


def injected(calls: str, fault: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The program with system calls that fail."""
    tracing = ("-e", f"trace={calls}", "-e", f"inject={calls}:error={fault}")
    return started(*arguments, before=("strace", "-f", "-qq", "-o", os.devnull, *tracing))


def check_error(done: subprocess.CompletedProcess[str], exit_code: int, code: str) -> None:
    assert done.returncode == exit_code, done
    assert "Traceback" not in done.stderr
    assert "bug in CodeInfo" not in done.stderr
    if code:
        error = json.loads(done.stderr.splitlines()[-1])["error"]
        assert error["code"] == code
        assert error["message"]
        assert error["next"]


# --- locks, disk, processes, memory --------------------------------------------------------------------------------


@traced
@pytest.mark.parametrize("fault", ["ENOLCK", "EOPNOTSUPP"])
def test_a_file_system_without_locks(project: Path, fault: str) -> None:
    path = str(project)
    for arguments in (["index", path], ["search", "x", path], ["remember", "a", "-r", "b", "--path", path]):
        check_error(injected("flock", fault, *arguments, "--json"), 2, "NO_LOCKS")
    check_error(injected("flock", fault, "ask", "x", path, "--json"), 2, "NO_LOCKS")


@traced
def test_a_sync_that_fails_while_remembering(project: Path) -> None:
    arguments = ("remember", "Ships anchor here", "-r", "Deep water", "--path", project, "--json")
    done = injected("fsync,fdatasync", "EIO", *arguments)
    check_error(done, 7, "IO_FAILED")
    assert "memory.json" in done.stderr
    assert not list((project / ".codeinfo").iterdir())
    assert started(*arguments).returncode == 0


@traced
def test_memories_that_the_disk_no_longer_gives(project: Path) -> None:
    assert started("remember", "Ships anchor here", "-r", "Deep water", "--path", project).returncode == 0
    path = project / ".codeinfo" / "memory.json"
    failing = ("strace", "-f", "-qq", "-o", os.devnull, "-P", str(path), "-e", "inject=read:error=EIO")
    check_error(started("memory", "list", "--path", project, "--json", before=failing), 7, "IO_FAILED")


@traced
@pytest.mark.parametrize("command", ["index", "search", "serve", "mcp"])
def test_no_more_threads_or_processes(project: Path, command: str) -> None:
    (project / "new.py").write_text("def newcomer():\n    return 1\n")
    known: dict[str, list[str]] = {
        "index": ["index", str(project), "--json"],
        "search": ["search", "newcomer", str(project), "--json"],
        "serve": ["serve", "--port", "0"],
        "mcp": ["mcp", str(project)],
    }
    done = injected(STARTS, "EAGAIN", *known[command])
    check_error(done, 7, "NO_PROCESSES" if "--json" in known[command] else "")
    assert "ulimit -u" in done.stderr


@pytest.mark.parametrize("megabytes", [60, 90, 120])
def test_little_address_space(project: Path, megabytes: int) -> None:
    limit = megabytes << 20
    done = started(
        "search", "x", project, "--json", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    )
    check_error(done, 7, "OUT_OF_SPACE")


@pytest.mark.parametrize("kilobytes", [1, 40])
def test_files_that_may_not_grow(project: Path, kilobytes: int) -> None:
    limit = kilobytes << 10
    assert started("clear", project, "--yes").returncode == 0
    done = started(
        "index", project, "--json", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit,) * 2)
    )
    check_error(done, 7, "FILE_LIMIT")
    assert "ulimit -f" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "NO_DESCRIPTORS"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "OUT_OF_SPACE"),
        (PermissionError(errno.EACCES, "Permission denied", "/root/x"), "READ_ONLY"),
        (ImportError("libopenblas.so: failed to map segment from shared object"), "OUT_OF_SPACE"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), None),
        (RuntimeError("something else"), None),
    ],
)
def test_which_errors_the_machine_is_to_blame_for(error: Exception, code: str | None) -> None:
    found = environment_error(error)
    assert (found.code if isinstance(found, CodeInfoError) else None) == code


# --- folders -------------------------------------------------------------------------------------------------------


def run_in_removed_folder(tmp_path: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    return started(*arguments, before=("sh", "-c", script, "sh", str(gone)))


def test_a_removed_working_folder_does_not_matter_where_a_path_is_named(project: Path, tmp_path: Path) -> None:
    for arguments in (["search", "steady_landmark"], ["ask", "what is steady_landmark?"]):
        done = run_in_removed_folder(tmp_path, *arguments, project)
        assert done.returncode == 0, done
        assert str(project / "steady.py") in done.stdout


@pytest.mark.parametrize("arguments", [["search", "x"], ["index"], ["docs", "list"]], ids=" ".join)
def test_a_removed_working_folder(project: Path, tmp_path: Path, arguments: list[str]) -> None:
    check_error(run_in_removed_folder(tmp_path, *arguments, "--json"), 2, "NO_WORKING_FOLDER")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("CODEINFO_HOME", "NO_HOME"),
        ("CODEINFO_CACHE_DIR", "VALIDATION_FAILED"),
        ("CODEINFO_LLM_API_KEY_FILE", "NO_HOME"),
    ],
)
def test_the_home_of_an_unknown_user(project: Path, name: str, code: str) -> None:
    environment = {**os.environ, name: "~nobody-here/x", "CODEINFO_LLM_BASE_URL": "http://127.0.0.1:1"}
    asked = "ask" if "LLM" in name else "search"
    check_error(started(asked, "account", str(project), "--json", env=environment), 2, code)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become a user that does not exist")
def test_a_user_without_home(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    # The effective user stays root, who alone may read this interpreter in some installations.
    done = started(
        "search", "x", "/", "--json", env=environment, cwd="/", preexec_fn=lambda: os.setresuid(NO_USER, 0, 0)
    )
    check_error(done, 2, "NO_HOME")


# --- standard streams ----------------------------------------------------------------------------------------------


def test_a_terminal_that_knows_only_ascii(project: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = started("search", "harbour", project, env=environment)
    assert done.returncode == 0, done
    assert "H\\xe4fen" in done.stdout
    found = started("search", "harbour", project, "--json", env=environment)
    assert "“Häfen” 😀" in json.loads(found.stdout)["hits"][0]["text"]
    check_error(started("search", "x", "/nicht/dä", "--json", env=environment), 2, "VALIDATION_FAILED")


def closing(*descriptors: int) -> dict[str, Any]:
    def close_all() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return {"preexec_fn": close_all}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_full_standard_streams(project: Path) -> None:
    with open("/dev/full", "w") as full:
        done = started("projects", cwd=project, stdout=full)
        assert (done.returncode, "the disk is full" in done.stderr) == (7, True)
        assert started("projects", cwd=project, stdout=full, stderr=full).returncode == 7


def test_closed_standard_streams(project: Path) -> None:
    check_error(started("search", "x", project, "--json", **closing(1)), 2, "STDOUT_CLOSED")
    assert started("search", "x", project, **closing(1, 2)).returncode == 2
    assert started("search", "x", project, **closing(0, 1, 2)).returncode == 2
    for descriptors in ((2,), (0,), (0, 2)):
        done = started("search", "steady_landmark", project, **closing(*descriptors))
        assert (done.returncode, "steady.py" in done.stdout) == (0, True)
    assert started("search", "x", "/nowhere", **closing(2)).returncode == 2


def test_what_is_printed_never_lands_in_a_file_of_ours(project: Path, tmp_path: Path) -> None:
    """The first file that is opened gets the lowest descriptor that is free."""
    (project / "new.py").write_text("def newcomer():\n    return 1\n")
    assert started("index", project, **closing(1, 2)).returncode == 2
    assert started("index", project, **closing(2)).returncode == 0
    assert started("doctor", project).returncode in (0, 3)
    assert started("search", "newcomer", project).returncode == 0


# --- the token -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [b"", b"abc", b"\xff\xfe"])
def test_a_token_that_a_full_disk_cut_heals(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "web-token").write_bytes(left)
    token = own_token(tmp_path)
    assert len(token) >= 32
    assert own_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "web-token").stat().st_mode) == 0o600
