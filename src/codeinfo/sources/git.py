"""Running git on untrusted repositories.

A repository's own configuration names programs: the file-system monitor, hooks, diff and text-conversion drivers,
signature checkers, upload commands for objects it claims to miss. None of them may run here, so every call goes through
`run`: switches that could start a program are off, the network and local transports are closed, only subcommands that
leave the work tree's content alone are allowed (comparing it would run clean filters), and the caller's GIT_*
variables do not reach git.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import select
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from codeinfo.cache import batches
from codeinfo.errors import CodeInfoError, LocksUnsupported, NotFound, ProviderError, UsageError
from codeinfo.files import Reader, read_regular, resolve_links, state_of, try_lock
from codeinfo.model import SourceFile, hide_keys

if TYPE_CHECKING:
    import subprocess

TIMEOUT_S = 30.0
MOST_OUTPUT_BYTES = 500_000_000  # a list of a million files has 200 MB

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
    # What is read from a log is the same whatever else a repository says about logs.
    "i18n.logOutputEncoding=UTF-8",
    "log.diffMerges=separate",
    "log.follow=false",
    "log.showRoot=true",
    f"diff.orderFile={os.devnull}",
    f"mailmap.file={os.devnull}",
    # Git maps packs whole, which takes 330 MB for the messages of kubernetes; with this it takes 150, and a fifth more
    # time.
    "core.packedGitWindowSize=4m",
    "core.packedGitLimit=96m",
    # Another owner's repository is as harmless as any other one here: nothing in its configuration runs.
    "safe.directory=*",
)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",  # a repository may claim to miss objects, to have its own commands fetch them
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # without it git has SSH_ASKPASS, a window on most desktops, ask for a password
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


class GitFailed(CodeInfoError):
    """Git is missing, too slow, or returned an error."""

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
    """The output of `git arguments` in `root`, with more `name=value` settings; `accept` are the accepted statuses."""
    command = arguments[0]
    reads_work_tree = (command == "diff-index" and "--cached" not in arguments) or (
        command == "blame" and (list(arguments[-2:-1]) != ["--"] or arguments[-3].startswith("-"))
    )
    if command not in _SAFE_COMMANDS or reads_work_tree:
        raise ValueError(f"git {command} may run programs that the repository names")
    literal = ("--literal-pathspecs",) if command != "check-ignore" else ()  # which rejects the switch
    diffing = ("--no-ext-diff", "--no-textconv") if command in _DIFFING_COMMANDS else ()
    line = [_program(), "--no-optional-locks", "--no-pager", *literal, *_configure(settings), command, *diffing]
    return _execute([*line, *arguments[1:]], root, _environment() | _ENVIRONMENT, stdin, accept, timeout)


def _configure(settings: Iterable[str]) -> list[str]:
    return [part for setting in (*_SETTINGS, *settings) for part in ("-c", setting)]


def excludes_setting() -> str:
    """`core.excludesFile=…` with the user's own value. On the command line it overrides the repository's."""
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    default = os.path.join(base, "git", "ignore")
    if not any(map(os.path.exists, (os.path.join(home, ".gitconfig"), os.path.join(base, "git", "config")))):
        return f"core.excludesFile={default}"
    # Run at home: only the user's own files are read there.
    arguments = ("--global", "--includes", "--type=path", "--get", "core.excludesFile")
    return f"core.excludesFile={_read_config(home, *arguments, GIT_CONFIG_NOSYSTEM='1').rstrip(chr(10)) or default}"


# What git's index records about a file as of its last check: blob, path, seconds and nanoseconds of mtime, size, flags.
_INDEX_ENTRY = rb"1\d{5} (\w+) 0\t([^\0]+)\0[^\0]*?mtime: (\d+):(\d+)\n[^\0]*?size: (\d+)\tflags: (\w+)\n"
_SKIPPED = 0x40000000  # flag: excluded by a sparse checkout
_MOST_NAMED = 100  # paths per command line, whose length is limited
_MOST_HASHED_BYTES = 50_000_000  # a larger file counts as changed if its time differs


def _index_entries(root: str | os.PathLike[str]) -> Iterator[tuple[SourceFile, bytes]]:
    """The tracked files below `root` that are checked out, as of git's last check, each with its staged blob."""
    entries = re.findall(_INDEX_ENTRY, run(root, ("ls-files", "-z", "--stage", "--debug")))
    for blob, path, seconds, nanoseconds, size, flags in entries:
        if not int(flags, 16) & _SKIPPED:
            yield SourceFile(os.fsdecode(path), int(size), int(seconds) * 1_000_000_000 + int(nanoseconds)), blob


def list_tracked(root: str | os.PathLike[str]) -> dict[str, tuple[int, int]]:
    """Size and mtime of every tracked file below `root` that is checked out, as of git's last check."""
    return {file.path: (file.size, file.mtime_ns) for file, _ in _index_entries(root)}


def blob_number(blob: str | bytes) -> int:
    """The start of a blob's id: used for the files of a commit in place of a time."""
    return int(blob[:15], 16)


def clean_blobs(root: str | os.PathLike[str]) -> dict[SourceFile, int]:
    """The blob numbers of files in a work tree, with size and mtime as of git's last check. Empty if a configured
    filter may give one blob several contents of one size; git's own filters do not."""
    # The repository does not decide which filters exist: attributes only name configured ones.
    filters = _read_config(root, "--name-only", "--get-regexp", r"^filter\.").split()
    if any(not name.startswith("filter.lfs.") for name in filters):
        return {}
    index = os.fsdecode(run(root, ("rev-parse", "--git-path", "index"))).rstrip("\n")
    written = os.stat(os.path.join(root, index)).st_mtime_ns  # files as recent as git's check may have changed since
    return {file: blob_number(blob) for file, blob in _index_entries(root) if file.mtime_ns < written}


def find_unstaged(root: str | os.PathLike[str], paths: Sequence[str]) -> Iterator[str]:
    """Those of these files whose content differs from what git has staged."""
    few = ("--", *paths) if len(paths) <= _MOST_NAMED else ()
    entries = run(root, ("ls-files", "-z", "--stage", *few)).split(b"\0") if paths else ()
    staged = {name: entry.split()[1].decode() for entry, _, name in (line.partition(b"\t") for line in entries) if name}
    with Reader(os.fspath(root)) as reader:
        for path in paths:
            place = os.path.join(root, path)
            try:
                content = (
                    os.fsencode(os.readlink(place)) if os.path.islink(place) else reader.read(path, _MOST_HASHED_BYTES)
                )
            except OSError:
                yield path
                continue
            blob = staged.get(os.fsencode(path), "")
            kind = hashlib.sha256 if len(blob) == 64 else hashlib.sha1
            if blob != kind(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest():
                yield path


def list_changed(root: str | os.PathLike[str], reference: str) -> frozenset[str]:
    """Paths below `root` that differ from the commit `reference`: committed, staged, edited or new since. Files whose
    size or mtime differs from git's record are compared by content: in a copied work tree all have another mtime.
    Asking git to compare them would run the repository's filters."""
    commit = commit_of(root, reference)
    committed = run(root, ("diff-index", "--cached", "--relative", "--name-only", "--no-renames", "-z", commit))
    new = run(root, ("ls-files", "-z", "--others", "--exclude-standard"), settings=(excludes_setting(),))
    paths = {*committed.split(b"\0"), *new.split(b"\0")} - {b""}
    changed = {os.fsdecode(path) for path in paths}
    others = (file for file, _ in _index_entries(root) if file.path not in changed)
    suspects = [file.path for file in others if stamp(root, file.path) != file[1:]]
    return frozenset(changed).union(find_unstaged(root, suspects))


def stamp(root: str | os.PathLike[str], name: str) -> tuple[int, int]:
    """Size and time of a file, which change when it is written; zeros if there is none."""
    try:
        return state_of(os.lstat(os.path.join(root, name)))
    except OSError:
        return 0, 0


def work_tree_of(root: str) -> str | None:
    """The closest folder, from `root` upwards, that has a `.git`; no process is started."""
    folders = (root, *map(str, Path(root).parents))
    return next((folder for folder in folders if os.path.lexists(os.path.join(folder, ".git"))), None)


def is_repository(folder: str) -> bool:
    """Whether a folder is the top of a work tree; submodules and linked work trees have a file there."""
    place = os.path.join(folder, ".git")
    return os.path.isfile(place) or os.path.isfile(os.path.join(place, "HEAD"))


_ADDRESS = re.compile(r"(?:https?|ssh|git(?:\+ssh)?)://|[\w.-]+@(?:[\w.-]+|\[[\da-fA-F:.]+\]):")
_IDENTITY = re.compile(r"//[^/]|(?:(?:[\w-]+(?:\.[\w-]+)+|\[[\da-f:.]+\])(?::\d+)?|local)/[^/]")  # begins with a host


def is_address(name: str) -> bool:
    """Whether it has the form of a repository address on a server."""
    return _ADDRESS.match(name) is not None


def names_repository(name: str) -> bool:
    """Whether it names a repository on a server, by address or as in github.com/owner/name, and nothing local."""
    return is_address(name) or (_IDENTITY.match(name) is not None and not os.path.lexists(name))


def origin_of(root: Path) -> str:
    """The address of the remote that the repository around `root` was cloned from; "" if there is none."""
    if work_tree_of(str(root)) is None:
        return ""
    return _read_config(root, "--local", "--no-includes", "--get", "remote.origin.url", **_ENVIRONMENT).strip()


def family_of(root: Path) -> Path:
    """What the work trees of one repository have in common, as a path: the main one's, or that of the bare
    repository. A folder that is not a work tree is its own family. No process is started."""
    marker = root / ".git"
    if marker.is_dir():
        return root
    folder = Path(resolve_links(root / read_pointer(marker).removeprefix("gitdir: ")))
    shared = read_pointer(folder / "commondir")
    common = Path(resolve_links(folder / shared))
    # Git records the work tree inside the repository as well: a folder that only claims to belong to one, with such
    # files of its own, does not. Trees of a family take over each other's contents.
    recorded = resolve_links(folder / read_pointer(folder / "gitdir"))
    if not shared or folder.parent != common / "worktrees" or recorded != resolve_links(marker):
        return root
    return common.parent if common.name == ".git" else common


def read_pointer(path: Path) -> str:
    """A path from one of git's own files; "" if there is none."""
    try:
        return os.fsdecode(read_regular(str(path.parent), path.name, 4096)).rstrip("\n")
    except OSError:
        return ""


def _program() -> str:
    program = shutil.which("git")
    # A relative entry in PATH could name a program inside the repository.
    if program is None or not os.path.isabs(program):
        raise GitFailed("git was not found", "Install git, or put its absolute folder on PATH")
    return program


NO_COMMITS = "this repository has no commits yet"
_UNBORN = re.compile(r"does not have any commits yet|(?:ambiguous argument|bad revision) 'HEAD'")


# What git opens in its own folder, or in the one that work trees share, whatever it is asked.
_OPENED = (
    "HEAD", "commondir", "config", "config.worktree", "index", "info/attributes", "info/exclude", "info/grafts",
    "objects/info/alternates", "packed-refs", "shallow",
)  # fmt: skip


def _refuse_pipes(folder: str | os.PathLike[str]) -> None:
    """Git waits for the other end of a pipe that lies in the place of a file, and reads a device without end."""
    if (top := work_tree_of(os.path.abspath(folder))) is None:
        return
    marker = Path(top, ".git")
    own = marker if marker.is_dir() else Path(top, read_pointer(marker).removeprefix("gitdir: "))
    opened = {place / name for place in (own, own / read_pointer(own / "commondir")) for name in _OPENED}
    for path in (*(Path(top, name) for name in (".gitattributes", ".gitignore", ".mailmap")), *opened):
        with suppress(OSError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise GitFailed(f"{path} is not a plain file")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _read_config(folder: str | os.PathLike[str], *arguments: str, **environment: str) -> str:
    """What `git config` prints; nothing for what is not set: it then exits with 1."""
    line = [_program(), "config", *arguments]
    return os.fsdecode(_execute(line, folder, _environment() | environment, b"", (0, 1), TIMEOUT_S))


def _execute(
    line: list[str],
    folder: str | os.PathLike[str],
    environment: dict[str, str],
    stdin: bytes,
    accept: Sequence[int],
    timeout: float,
    keep_open: Sequence[int] = (),
) -> bytes:
    from subprocess import PIPE, Popen

    _refuse_pipes(folder)
    try:
        process = Popen(line, cwd=folder, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, pass_fds=keep_open)
    except OSError as error:
        raise GitFailed(f"git could not be started: {error.strerror}") from error
    except ValueError as error:  # a NUL in an argument
        raise GitFailed(f"git cannot be asked for that: {error}") from error
    with process:
        try:
            output, errors = _exchange(process, stdin, timeout)
        except BaseException:
            process.kill()
            raise
    if process.returncode not in accept:
        message = errors.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {process.returncode}"]
        reason = next((line for line in message if line.startswith("fatal: ")), message[0]).removeprefix("fatal: ")
        raise GitFailed(NO_COMMITS if _UNBORN.search(reason) else reason)
    return output


def _exchange(process: subprocess.Popen[bytes], stdin: bytes, timeout: float) -> tuple[bytes, bytes]:
    """What a process writes after it was sent `stdin`. `communicate` would accept output without end: a commit of a
    few kilobytes can list billions of files, by folders that are one and the same."""
    import selectors

    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    until, unsent, room = time.monotonic() + timeout, memoryview(stdin), MOST_OUTPUT_BYTES
    received = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as streams:
        streams.register(process.stdout, selectors.EVENT_READ)
        streams.register(process.stderr, selectors.EVENT_READ)
        streams.register(process.stdin, selectors.EVENT_WRITE)
        while streams.get_map():
            if not (ready := streams.select(max(0.0, until - time.monotonic()))):
                raise GitFailed(f"git did not answer within {timeout:g} s")
            for stream, _ in ready:
                if stream.fileobj is process.stdin:
                    unsent = _send(stream.fd, unsent)
                    is_done = not unsent
                else:
                    piece = os.read(stream.fd, 1 << 16)
                    received[stream.fd] += piece
                    room -= len(piece)
                    is_done = not piece
                if room < 0:
                    raise GitFailed(f"git answered with more than {MOST_OUTPUT_BYTES:,} bytes")
                if is_done:
                    streams.unregister(stream.fileobj)
                if is_done and stream.fileobj is process.stdin:
                    process.stdin.close()
    output, errors = received.values()
    return bytes(output), bytes(errors)


def _send(descriptor: int, text: memoryview) -> memoryview:
    """What is left of a text after as much was sent as fits; nothing if the process reads no more."""
    try:
        return text[os.write(descriptor, text[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return text[:0]


# --- logs ----------------------------------------------------------------------------------------------------------


_COMMIT = re.compile("\0\0+(?=\x1f)")  # between commits; no field is empty, thanks to its sign, and no name is


def log_format(*fields: str) -> str:
    """The switch that produces what `read_log` reads, with `-z` and file names."""
    return f"--format=%x00%x00{'%x00'.join(f'%x1f{field}' for field in fields)}"


def read_log(log: str, fields: int) -> Iterator[tuple[list[str], list[str]]]:
    """The fields of each commit, and its listed files. Messages and names may hold anything but a NUL."""
    for record in _COMMIT.split(log)[1:]:
        *values, names = f"{record}\0".split("\0", fields)
        yield [value[1:] for value in values], [name for name in names.removeprefix("\n").split("\0") if name]


# --- fetching --------------------------------------------------------------------------------------------------------

FETCH_TIMEOUT_S = 600.0
FETCH_MEMORY_BYTES = 4_000_000_000  # a pack of kilobytes can unpack to any size
SILENCE_S = 60  # without a byte from a web host; one that prepares a large pack sends some every 5 s
_REMOTE_TRANSPORTS = "https:http:ssh"
REGULAR = ("100644", "100755")
_FETCH = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
_BATCH = 500
_CLONE_PREFIX = "codeinfo-git-"
_JUST_MADE_S = 2.0

_REDIRECT = re.compile(r"returned error: 3\d\d")
_LIMITED = re.compile(r"out of memory|invalid index-pack output", re.IGNORECASE)


class Redirected(ProviderError):
    """The address leads to another one, which was not followed."""


@contextmanager
def fetch_files(
    url: str, ref: str, is_wanted: Callable[[str], bool], limit: int, whole_limit: int, *, local: bool, pinned: str = ""
) -> Iterator[tuple[str, Iterator[tuple[str, bytes]]]]:
    """The commit of `ref`, and (path, content) of each wanted regular file within `limit`, of `whole_limit` in all;
    `local` allows repositories on this machine. Git connects to `pinned`, `host:port:address`, without redirects."""
    if url.startswith("-") or ref.startswith("-"):
        raise UsageError(f"{url} {ref} is not a repository and revision")
    remote = Remote(url, pinned)
    with _temporary_clone() as folder:
        try:
            settings = ["fetch.unpackLimit=1", "http.followRedirects=false"]  # one pack: only files can be limited
            settings += [f"http.curloptResolve={pinned}"] if pinned else []
            transports = f"{_REMOTE_TRANSPORTS}:file" if local else _REMOTE_TRANSPORTS
            variables = remote.header if local else remote.variables  # ssh would resolve the host again
            git = partial(_git, folder, transports, settings, variables=variables, most_bytes=whole_limit)
            git("init", "--bare", "--quiet", "--template=", ".")
            git(*_FETCH, "--", remote.address, ref or "HEAD")
            commit = run(folder, ("rev-parse", "--verify", "FETCH_HEAD^{commit}")).decode().strip()
        except GitFailed as error:
            kind = Redirected if _REDIRECT.search(error.what) else ProviderError
            step = "Check the address, the branch or tag, and that git may read it"
            limits = f"more than {whole_limit:,} bytes, takes more than {FETCH_MEMORY_BYTES:,} to unpack"
            why = f"it has {limits}, or is damaged" if _LIMITED.search(error.what) else remote.hide(error.what)
            raise kind(f"{hide_keys(url)} cannot be fetched: {why}", step, code=GitFailed.code) from error
        yield commit, _blobs(folder, commit, is_wanted, limit)


@contextmanager
def _temporary_clone() -> Iterator[Path]:
    """A folder that is locked while in use. The kernel releases the lock of a killed process, so that the next fetch
    can tell such a folder from one in use, and remove it."""
    import tempfile  # imported late, as wherever something is fetched: a walk does not need it

    remove_abandoned_clones()
    folder = Path(tempfile.mkdtemp(prefix=_CLONE_PREFIX))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(LocksUnsupported):  # then nobody takes it for abandoned: they cannot lock it either
            try_lock(handle, folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned_clones() -> None:
    import tempfile

    for folder in Path(tempfile.gettempdir()).glob(f"{_CLONE_PREFIX}*"):
        with suppress(OSError, LocksUnsupported):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(handle)
                is_settled = time.time() - status.st_ctime > _JUST_MADE_S  # one just created may not be locked yet
                if status.st_uid == os.geteuid() and is_settled and try_lock(handle, folder):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _git(
    folder: Path,
    transports: str,
    settings: Sequence[str],
    *arguments: str,
    variables: dict[str, str] | None = None,
    keep_open: Sequence[int] = (),
    most_bytes: int = 1 << 62,
) -> bytes:
    fixed = ("fetch.fsckObjects=true", "protocol.ext.allow=never", "credential.helper=")
    silence = ("http.lowSpeedLimit=1", f"http.lowSpeedTime={SILENCE_S}")
    # In units of 1,024 and 512 bytes. One that cannot be set is lower already, or not known to this system.
    limits = f'for limit in "-d {FETCH_MEMORY_BYTES >> 10}" "-f {most_bytes >> 9}"; do'
    limits += ' (ulimit $limit) 2>/dev/null && ulimit $limit; done; exec "$@"'
    line = ["/bin/sh", "-c", limits, "sh", _program(), "--no-pager", *_configure((*fixed, *silence, *settings))]
    environment = _environment() | _ENVIRONMENT | {"GIT_ALLOW_PROTOCOL": transports} | (variables or {})
    return _execute([*line, *arguments], folder, environment, b"", (0,), FETCH_TIMEOUT_S, keep_open)


# --- mirrors -------------------------------------------------------------------------------------------------------

_MIRRORED = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
# Harmless faults in old commits: histories of well-known projects have them.
_TOLERATED = "badDate badEmail badTimezone missingEmail missingNameBeforeEmail missingSpaceBeforeDate"
_TOLERATED += " missingSpaceBeforeEmail zeroPaddedDate zeroPaddedFilemode"


class Remote(Struct, frozen=True):
    """A repository elsewhere. `pinned` is `host:port:address`, as in `fetch_files`; `authorization` is the value of
    that header, for its host alone; by default it is the user and password of the URL."""

    url: str
    pinned: str = ""
    authorization: str = ""

    @property
    def address(self) -> str:
        """The URL for a command line, which everyone on the machine can read."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if self._login else self.url

    @property
    def _login(self) -> str:
        """A user alone stays in the address: git looks for the password elsewhere."""
        return login_of(self.url) if urlsplit(self.url).password else ""

    @property
    def settings(self) -> tuple[str, ...]:
        tolerated = (f"fetch.fsck.{fault}=ignore" for fault in _TOLERATED.split())
        pinned = (f"http.curloptResolve={self.pinned}",) if self.pinned else ()
        return (*tolerated, *pinned, "http.followRedirects=false", "gc.autoDetach=false")

    @property
    def variables(self) -> dict[str, str]:
        """The header; no prompts from ssh; and a home without the `.netrc` whose passwords git would send. Ssh finds
        its keys without this variable."""
        host, _, address = self.pinned.partition(":")
        ssh = ["ssh", "-oBatchMode=yes"]
        if address := address.partition(":")[2].partition(",")[0].strip("[]"):
            ssh += [f"-oHostName={address}", f"-oHostKeyAlias={host}"]
        return {"GIT_SSH_COMMAND": shlex.join(ssh), "GIT_SSH_VARIANT": "ssh", "HOME": os.devnull, **self.header}

    @property
    def header(self) -> dict[str, str]:
        authorization, parts = self.authorization or self._login, urlsplit(self.address)
        key, header = f"http.{parts.scheme}://{parts.netloc}/.extraHeader", f"Authorization: {authorization}"
        setting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": header}
        return setting if authorization else {}

    def hide(self, text: str) -> str:
        """What git says, without what may be a key in the address."""
        return text.replace(self.address, hide_keys(self.address))


def login_of(url: str) -> str:
    """The header that stands for the user and password of a web address; "" for one without a user."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def fetch_mirror(folder: Path, remote: Remote, lock: int) -> None:
    """Fetch all branches and tags of a repository into a bare one, created if needed. The caller holds `lock`, an
    open file: git inherits it, so that the lock of a killed process lasts as long as its git."""
    git = partial(_git, folder, _REMOTE_TRANSPORTS, remote.settings, variables=remote.variables, keep_open=(lock,))
    for left in (*folder.glob("*.lock"), *folder.glob("refs/**/*.lock"), *folder.glob("objects/pack/tmp_*")):
        left.unlink(missing_ok=True)  # left by a killed git
    if not (folder / "HEAD").exists():
        git("init", "--bare", "--quiet", "--template=", ".")
    git("fetch", "--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--", remote.address, *_MIRRORED)


def remote_head(remote: Remote) -> str:
    """The branch that a repository's HEAD names, as in refs/heads/main; "" if it names none."""
    import tempfile

    with tempfile.TemporaryDirectory() as outside:  # outside any repository, whose settings would apply
        settings, variables = remote.settings, remote.variables | {"GIT_CEILING_DIRECTORIES": os.path.dirname(outside)}
        arguments = ("ls-remote", "--symref", "--", remote.address, "HEAD")
        output = _git(Path(outside), _REMOTE_TRANSPORTS, settings, *arguments, variables=variables)
    match = re.match(r"ref: (refs/heads/[^\t]+)\tHEAD\n", output.decode("utf-8", "replace"))
    return match[1] if match else ""


def list_refs(root: str | os.PathLike[str]) -> dict[str, str]:
    """The commit of each branch and tag; tags of anything else are left out. Databases take only UTF-8."""
    form = "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)"
    refs = {}
    output = run(root, ("for-each-ref", form, "refs/heads/", "refs/tags/")).decode("utf-8", "replace")
    for line in output.split("\n")[:-1]:
        kind, commit, peeled_kind, peeled, name = line.split(" ", 4)
        if "commit" in (kind, peeled_kind):
            refs[name] = commit if kind == "commit" else peeled
    return refs


def _blobs(folder: Path, commit: str, is_wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    blobs = (blob for blob in list_commit(folder, commit) if blob.mode in REGULAR and is_wanted(blob.path))
    for blob, data in read_blobs(folder, [blob for blob in blobs if blob.size is None or blob.size <= limit]):
        if data is None:
            raise GitFailed(f"{blob.path} could not be read from the repository")
        yield blob.path, data


# --- revisions -----------------------------------------------------------------------------------------------------

_BATCH_BYTES = 32_000_000  # of contents read at once


class Blob(NamedTuple):
    """A file of a commit; `size` is None if the clone lacks its content."""

    path: str
    mode: str
    id: str
    size: int | None


def commit_of(root: str | os.PathLike[str], revision: str) -> str:
    verify = ("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
    try:
        return run(root, verify).decode().strip()
    except GitFailed as error:
        if revision == "HEAD":
            raise NotFound(NO_COMMITS, "Commit something first") from error
        raise NotFound(f"{revision!r} is not a commit of this repository", "Give a branch, tag or commit") from error


def list_commit(
    root: str | os.PathLike[str], commit: str, paths: Sequence[str] = (), *, whole: bool = False
) -> list[Blob]:
    """The files of a commit below `root`, some of them, or all of them, submodules included."""
    switches = ("--full-tree",) if whole else ()
    arguments = ("ls-tree", "-r", "-l", "-z", *switches, commit, *(("--", *paths) if paths else ()))
    entries = os.fsdecode(run(root, arguments)).split("\0")[:-1]
    blobs = []
    for entry in entries:
        description, _, path = entry.partition("\t")
        mode, _, blob, size = description.split()
        blobs.append(Blob(path, mode, blob, int(size) if size.isdigit() else None))
    return blobs


def read_blobs(root: str | os.PathLike[str], blobs: Iterable[Blob]) -> Iterator[tuple[Blob, bytes | None]]:
    """Each with its content, None if the clone lacks it; some at a time, without a work tree."""
    for batch in batches(blobs, lambda blob: blob.size or 0, _BATCH_BYTES, _BATCH):
        ids = "".join(f"{blob.id}\n" for blob in batch).encode()
        output = io.BytesIO(run(root, ("cat-file", "--batch"), stdin=ids, timeout=FETCH_TIMEOUT_S))
        for blob in batch:
            header = output.readline().split()
            if len(header) != 3:  # "<id> missing"
                yield blob, None
                continue
            yield blob, output.read(int(header[2]))
            output.readline()
