"""Running git on repositories that nobody vouches for.

A repository's own configuration names programs: the file-system monitor, hooks, diff and text-conversion drivers,
signature checkers, upload commands for objects it claims to miss. None of them may run here, so every call goes through
`run`: switches that could start a program are off, the network and local transports are closed, only subcommands that
leave the work tree's content alone are allowed (comparing it would run clean filters), and the caller's GIT_*
variables do not reach git.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from codeinfo.errors import CodeInfoError, NotFound

TIMEOUT_S = 30.0

_SAFE_COMMANDS = frozenset(
    # one line each: what may run on a repository is a list worth reading
    {
        "blame",  # of a commit only: without one git reads the work tree
        "cat-file",
        "check-ignore",
        "diff-index",  # with --cached only: without it git reads the work tree
        "diff-tree",
        "for-each-ref",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "rev-list",
        "rev-parse",
        "show",
    }
)
_DIFFING_COMMANDS = frozenset({"blame", "log", "show", "diff-index", "diff-tree"})
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.untrackedCache=false",
    f"core.attributesFile={os.devnull}",
    "core.quotePath=false",
    "log.showSignature=false",
    "log.mailmap=false",
    # Another owner's repository is as harmless as any other one here: nothing in its configuration runs.
    "safe.directory=*",
)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",  # a repository that claims to miss objects would have git fetch them, by its commands
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


class GitFailed(CodeInfoError):
    """Git is missing, too slow, or said no."""

    code = "GIT_FAILED"


def run(
    root: str | os.PathLike[str],
    arguments: Sequence[str],
    *,
    settings: Sequence[str] = (),
    stdin: bytes = b"",
    accept: Sequence[int] = (0,),
    timeout: float = TIMEOUT_S,
) -> bytes:
    """The output of `git arguments` in `root`; `settings` are more `name=value` pairs, `accept` the good statuses."""
    command = arguments[0]
    reads_work_tree = (command == "diff-index" and "--cached" not in arguments) or (
        command == "blame" and (list(arguments[-2:-1]) != ["--"] or arguments[-3].startswith("-"))
    )
    if command not in _SAFE_COMMANDS or reads_work_tree:
        raise ValueError(f"git {command} may run programs that the repository names")
    line = [_program(), "--no-optional-locks", "--no-pager"]
    if command != "check-ignore":  # which refuses the switch
        line.append("--literal-pathspecs")
    for setting in (*_SETTINGS, *settings):
        line += ("-c", setting)
    line.append(command)
    if command in _DIFFING_COMMANDS:
        line += ("--no-ext-diff", "--no-textconv")
    return _execute([*line, *arguments[1:]], root, _environment() | _ENVIRONMENT, stdin, accept, timeout)


def excludes_setting() -> str:
    """`core.excludesFile=…` with the user's own value. Given on the command line, it wins over the repository's."""
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    default = os.path.join(base, "git", "ignore")
    if not any(map(os.path.exists, (os.path.join(home, ".gitconfig"), os.path.join(base, "git", "config")))):
        return f"core.excludesFile={default}"
    line = [_program(), "config", "--global", "--includes", "--type=path", "--get", "core.excludesFile"]
    # Run at home: only the user's own files are read there. Exit 1 means not set.
    output = _execute(line, home, _environment() | {"GIT_CONFIG_NOSYSTEM": "1"}, b"", (0, 1), TIMEOUT_S)
    return f"core.excludesFile={os.fsdecode(output).rstrip(chr(10)) or default}"


# What the index remembers of each file when git last looked: path, seconds and nanoseconds of mtime, size.
_INDEX_ENTRY = rb"([^\0]+)\0[^\0]*?mtime: (\d+):(\d+)\n[^\0]*?size: (\d+)\t[^\n]*\n"


def changed_since(root: str | os.PathLike[str], reference: str) -> frozenset[str]:
    """Paths below `root` that differ from the commit `reference`: committed, staged, edited or new since.

    Edited files are told by size and mtime. Asking git to compare them would run the repository's filters.
    """
    try:
        verify = ("rev-parse", "--verify", "--quiet", "--end-of-options", reference + "^{commit}")
        commit = run(root, verify).decode().strip()
    except GitFailed as error:
        raise NotFound(
            f"{reference!r} is no commit of this repository", next_step="Name a branch, tag or commit"
        ) from error
    committed = run(root, ("diff-index", "--cached", "--relative", "--name-only", "--no-renames", "-z", commit))
    new = run(root, ("ls-files", "-z", "--others", "--exclude-standard"), settings=(excludes_setting(),))
    paths = {*committed.split(b"\0"), *new.split(b"\0")} - {b""}
    for path, seconds, nanoseconds, size in re.findall(_INDEX_ENTRY, run(root, ("ls-files", "-z", "--debug"))):
        try:
            status = os.lstat(os.path.join(os.fsencode(root), path))
        except OSError:
            paths.add(path)
            continue
        if (status.st_size, status.st_mtime_ns) != (int(size), int(seconds) * 1_000_000_000 + int(nanoseconds)):
            paths.add(path)
    return frozenset(os.fsdecode(path) for path in paths)


def work_tree_of(root: str) -> str | None:
    """The closest folder, from `root` upwards, that has a `.git`; no process is started."""
    folder = root
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _program() -> str:
    import shutil

    program = shutil.which("git")
    # A relative entry in PATH could name a program inside the repository.
    if program is None or not os.path.isabs(program):
        raise GitFailed("git was not found", next_step="Install git, or put its absolute folder on PATH")
    return program


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _execute(
    line: list[str],
    folder: str | os.PathLike[str],
    environment: dict[str, str],
    stdin: bytes,
    accept: Sequence[int],
    timeout: float,
) -> bytes:
    import subprocess

    try:
        done = subprocess.run(line, cwd=folder, env=environment, input=stdin, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git did not answer within {timeout:g} s") from error
    except OSError as error:
        raise GitFailed(f"git could not be started: {error.strerror}") from error
    except ValueError as error:  # a NUL in what was asked for
        raise GitFailed(f"git cannot be asked for that: {error}") from error
    if done.returncode not in accept:
        message = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(message[0] if message else f"git ended with status {done.returncode}")
    return done.stdout
