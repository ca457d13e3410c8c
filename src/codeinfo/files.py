"""Safe access to files: CodeInfo's own, and those of an untrusted repository.

Its own, in the user's cache and data folders, are private to this user, locked without endless waits, and replaced as a
whole. In a repository only regular files are opened, never through a symlink; folders that hold more than a project are
refused as roots.

Modes are set after creation, since a umask may open a new folder to others or close it to its owner.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile, zip_longest
from pathlib import Path
from urllib.parse import unquote

from codeinfo.errors import Busy, LocksUnsupported, NotFound, RootRefused, UsageError, environment_error

# --- CodeInfo's own --------------------------------------------------------------------------------------------------

FOLDER_MODE = 0o700
FILE_MODE = 0o600
LOCK_PATIENCE_S = 3.0  # for a lock that is only held for milliseconds; longer means a stopped process
_LOCK_RETRY_S = 0.02
_LARGEST_SECRET = 1_000_000  # characters; a key is a line, a credentials file has one per host
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_OWN_NAME = "codeinfo"  # of the default folders


def read_table(path: Path) -> list[list[str]]:
    """The rows of a table that ships with CodeInfo: tabs between cells, `-` for an empty one, `#` before a remark."""
    lines = path.read_text("utf-8").splitlines()
    return [["" if cell == "-" else cell for cell in line.split("\t")] for line in lines if not line.startswith("#")]


def private_folder(path: Path, base: Path | None = None) -> Path:
    """Create a folder and its missing parents. Existing ones are closed to others too, up to `base`, the folder the
    settings name: that one may be shared on purpose, unless it has CodeInfo's own name."""
    missing = takewhile(lambda place: not place.exists(), (path, *path.parents))
    for place in reversed([*missing]):
        with suppress(FileExistsError):  # created by another process meanwhile
            os.mkdir(place, FOLDER_MODE)
            os.chmod(place, FOLDER_MODE)
    if not path.is_dir():
        number = errno.EEXIST if os.path.lexists(path) else errno.ENOENT  # or it was removed meanwhile
        raise OSError(number, os.strerror(number), str(path))
    base = base or path
    for place in (path, *path.parents):
        if place == base and place.name != _OWN_NAME:
            break
        with suppress(OSError):  # removed meanwhile, or a file system without modes or read-only
            status = os.stat(place)
            check_owner(place, status)
            if stat.S_IMODE(status.st_mode) & 0o077 and status.st_uid == os.geteuid():
                os.chmod(place, FOLDER_MODE)
        if place == base:
            break
    return path


def open_private(path: str | Path, flags: int) -> int:
    """Open a file, which is created if necessary. What a link leads to is not ours to write or to close to others, and
    a pipe in its place must not hang the program."""
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _not_plain(path, *(["a link"] if error.errno == errno.ELOOP else [])) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _not_plain(path)
        check_owner(path, status)
        if stat.S_IMODE(status.st_mode) != FILE_MODE and status.st_uid == os.geteuid():
            os.fchmod(handle, FILE_MODE)
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_owner(path: str | Path, status: os.stat_result) -> None:
    """Refuses what another user has put into a folder that several share: they could read what is written there, and
    replace what is read. Root's is accepted, and what only its owner may open: we then have the owner's rights."""
    if status.st_uid not in (os.geteuid(), 0) and stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(f"{path} belongs to another user", "Remove it, or set CODEINFO_HOME to a folder of your own")


def _not_plain(path: str | Path, found: str = "not a plain file") -> UsageError:
    return UsageError(f"{path} is {found}", "Remove it; a plain file is created instead")


def touch_private(path: Path) -> None:
    """Create an empty file, for libraries that would give it another mode. SQLite's other files inherit it."""
    os.close(open_private(path, os.O_RDWR))


def write_private(path: Path, data: bytes) -> None:
    with open(open_private(path, os.O_WRONLY | os.O_TRUNC), "wb") as sink:
        sink.write(data)


def read_private(path: str | Path) -> bytes:
    """The content of a file; a pipe or a folder in its place is an OSError, as if it could not be read."""
    with open(open_regular(path), "rb") as source:
        return source.read()


def read_secret(path: Path, next_step: str) -> str:
    """The text of a user's own file that nobody else may be able to read or change."""
    try:
        # Non-blocking: a FIFO in the file's place must not hang the program.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as source:
            status = os.fstat(source.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is not a plain file", next_step)
            if status.st_uid not in (os.geteuid(), 0):
                raise UsageError(f"{path} belongs to another user", "Use a file of your own")
            if status.st_mode & 0o077:
                raise UsageError(f"others can read {path}", f"Run: chmod 600 {path}")
            return source.read(_LARGEST_SECRET)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {why}", next_step) from error


def read_user_file(path: Path, most_bytes: int, *, follow: bool = True) -> str | None:
    """The text of a file written by a user, without a byte order mark; None if there is no file. Without `follow` it
    may not be a link."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        with open(os.open(path, flags), "rb") as source:
            if stat.S_ISFIFO(os.fstat(source.fileno()).st_mode):
                raise _not_plain(path)
            data = source.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise UsageError(f"{path} has more than {most_bytes:,} bytes", "Shorten the file or remove it")
        return data.decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = "it is a link" if isinstance(error, OSError) and error.errno == errno.ELOOP else error
        refused = UsageError(f"cannot read {path}: {why}", "Correct the file or remove it")
        raise environment_error(error, str(path)) or refused from error


def replace_file(path: str | Path, data: bytes, *, mode: int = FILE_MODE, folder: int | None = None) -> None:
    """Write a small file so that readers see the old content or the new, also after a crash. With `folder`, an open
    descriptor, `path` is a name in that folder, even if it is moved meanwhile."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}-{os.getpid()}-{os.urandom(4).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, mode, dir_fd=folder), "wb") as sink:
            if mode == FILE_MODE:
                os.fchmod(sink.fileno(), mode)
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if folder is not None:
        os.fsync(folder)


def sweep_temporary(folder: int, name: str = "") -> None:
    """Remove what killed processes left of `name`, or of any file, in an open folder whose lock the caller holds."""
    for entry in os.listdir(folder):
        if re.fullmatch(rf"\.{re.escape(name) or '.+'}-\d+-[0-9a-f]{{8}}", entry):
            with suppress(OSError):
                os.unlink(entry, dir_fd=folder)


def try_lock(handle: int, path: str | Path, *, shared: bool = False) -> bool:
    """Try to lock an open file or folder; closing it, or the end of the process, releases the lock."""
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise LocksUnsupported(str(path), error.strerror) from error
        raise
    return True


def is_at(path: str | Path, handle: int) -> bool:
    """Whether an open file or folder is still the one at its path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextmanager
def locked(
    handle: int, path: str | Path, patience_s: float = LOCK_PATIENCE_S, *, shared: bool = False
) -> Iterator[int]:
    """Lock an open file or folder, which others hold only for moments, and close it after the block. A holder that was
    stopped (Ctrl-Z) may never release it."""
    waited_s = 0.0  # counted: on a busy machine, or one that stood still, the holder is as late as we are
    try:
        while not try_lock(handle, path, shared=shared):
            if waited_s >= patience_s:
                step = "Try again; if it stays locked, end the process that holds the lock"
                raise Busy(f"{path} is locked by another process", step)
            time.sleep(_LOCK_RETRY_S)
            waited_s += _LOCK_RETRY_S
        yield handle
    finally:
        os.close(handle)


# --- the folder of a project -----------------------------------------------------------------------------------------

_SYSTEM_FOLDERS = frozenset(
    "/bin /boot /dev /etc /home /lib /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var "
    "/Applications /Library /System /Users /Volumes /private".split()
)


def path_of_address(text: str) -> str:
    """The path behind `file://`, as editors and agents write one; any other text as it is."""
    return unquote(text.removeprefix("file://")) if text.startswith("file://") else text


def resolve_existing(path: str | os.PathLike[str]) -> str:
    """A path without links and dots; "" is the current folder."""
    try:
        return os.path.realpath(path, strict=True)
    except (OSError, ValueError) as error:  # a name no file can have does not exist
        reason = environment_error(error, str(path))
        raise reason or NotFound(f"{path} does not exist", "Give the path of a file or folder that exists") from error


def resolve_links(path: str | os.PathLike[str]) -> str:
    """A path without links and dots, whether it exists or not. A link that cannot be read, as some in /proc, stays."""
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.abspath(path)


def resolve_root(root: str | os.PathLike[str]) -> str:
    """The resolved root. Home, `/` and the like are refused: they hold far more than a project, secrets included."""
    try:
        resolved = os.path.realpath(root, strict=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UsageError(f"{root} does not exist", "Give an existing folder") from error
    if not os.path.isdir(resolved):
        raise UsageError(f"{root} is not a folder", "Give the folder that contains the project")
    if not os.access(resolved, os.R_OK | os.X_OK):
        step = "Make it readable, or run this as its owner"
        raise UsageError(f"{root} cannot be read: permission denied", step)
    if reason := refusal(resolved):
        raise RootRefused(f"{resolved} is not indexed: {reason}", "Give the folder of one project")
    return resolved


def refusal(resolved: str) -> str:
    """Why a folder must not be indexed; "" if it may be."""
    home = os.path.realpath(os.path.expanduser("~"))
    if resolved == os.path.dirname(resolved):
        return "it is the root of the file system"
    if resolved == home:
        return "it is your home folder"
    if home.startswith(resolved + os.sep):
        return "it contains your home folder"
    if os.path.basename(resolved) == ".git":
        return "it is git's own folder"
    if all(os.path.exists(f"{resolved}/{name}") for name in ("HEAD", "objects", "refs")):
        return "it is a bare git repository, which has no files; a clone of it has"
    return "it is a folder of the system" if resolved in _SYSTEM_FOLDERS else ""


# --- of a repository -------------------------------------------------------------------------------------------------

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


_MOST_TIME_NS = 1 << 62  # 2116: archives and broken clocks set dates that no database takes


def state_of(status: os.stat_result) -> tuple[int, int]:
    """Size and time of a file in nanoseconds, which change when it is written."""
    time_ns = status.st_mtime_ns
    return status.st_size, time_ns if -_MOST_TIME_NS < time_ns < _MOST_TIME_NS else time_ns % _MOST_TIME_NS


class NotRegular(OSError):
    """A symlink, FIFO, device, socket or folder in place of a file."""


class TooLarge(OSError):
    """The file has more bytes than the caller accepts."""


def open_regular(path: str | Path) -> int:
    """The descriptor of a file that stays open; for all others there is `read_regular`."""
    descriptor = os.open(path, _FILE_FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, f"{path} is not a plain file")
    return descriptor


def read_regular(root: str, path: str, limit: int) -> bytes:
    """The bytes of `root`/`path`. Every folder on the way is opened without following links, so that a link swapped in
    after the walk leads nowhere; opening a FIFO does not block."""
    with Reader(root) as reader:
        return reader.read(path, limit)


class Reader:
    """Reads files as `read_regular` does; the folders of one stay open for the next, which is often beside it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._names: list[str] = []  # of the folders that are open, from the root down
        self._handles: list[int] = []  # of the root and these folders

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_below(-1)

    def read(self, path: str, limit: int) -> bytes:
        try:
            descriptor = self._open(path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.EISDIR):
                raise NotRegular(error.errno, "a link or a special file") from error
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotRegular(errno.EINVAL, "not a regular file")
            if status.st_size > limit:
                raise TooLarge(errno.EFBIG, f"{status.st_size:,} bytes")
            # Size 0: empty, or an endless kernel file.
            return _read_all(descriptor, status.st_size) if status.st_size else b""
        finally:
            os.close(descriptor)

    def _open(self, path: str) -> int:
        *folders, name = path.split("/")
        if ".." in folders:
            raise NotRegular(errno.EINVAL, "leaves the root")
        if not self._handles:
            self._handles.append(os.open(self._root, _FOLDER_FLAGS & ~os.O_NOFOLLOW))
        if folders != self._names:
            pairs = enumerate(zip_longest(folders, self._names))
            self._close_below(next(at for at, (folder, opened) in pairs if folder != opened))
            for folder in folders[len(self._names) :]:
                self._handles.append(os.open(folder, _FOLDER_FLAGS, dir_fd=self._handles[-1]))
                self._names.append(folder)
        return os.open(name, _FILE_FLAGS, dir_fd=self._handles[-1])

    def _close_below(self, depth: int) -> None:
        """Close the folders below the first `depth` ones; -1 closes the root as well."""
        for handle in self._handles[depth + 1 :]:
            os.close(handle)
        del self._handles[depth + 1 :], self._names[max(depth, 0) :]


def _read_all(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    pieces = [data]  # it has grown or shrunk meanwhile
    while pieces[-1]:
        pieces.append(os.read(descriptor, size))
    return b"".join(pieces)
