"""What the database and the disk complain about, said in our own errors. One place, so that no shell sees SQLite's."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from codeinfo.errors import Busy, IndexDamaged, OutOfSpace, UsageError
from codeinfo.private_files import write_private


class Damage(Exception):
    """Stored bytes that do not match their checksum or size: a flipped bit, a truncated file."""


class VectorsGone(Damage):
    """A vector file that the database lists is not there."""


# What reading damaged rows can end in, besides what SQLite itself notices: another type, another length, no UTF-8.
ODD: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    apsw.SQLError,
    apsw.TooBigError,
)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_WRITE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
_MARK = "damaged"  # a file in a build that some process found damaged: whoever opens it next need not find out again


class BuildDamaged(IndexDamaged):
    """Names the build, so that it is set aside and no other."""

    def __init__(self, folder: Path, problem: object) -> None:
        super().__init__(f"the index in {folder} is damaged: {problem}", next_step="Run `codeinfo index` to rebuild it")
        self.folder = folder
        self.problem = str(problem)


class Replaced(Busy):
    """The build was removed while it was being opened: another one is current now."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the index in {folder} was just replaced", next_step="Try again in a moment")


def mark_damaged(folder: Path, problem: str) -> None:
    with suppress(OSError):
        write_private(folder / _MARK, problem.encode("utf-8", "replace"))


def refuse_marked(folder: Path) -> None:
    try:
        problem = (folder / _MARK).read_text("utf-8", "replace")
    except OSError:
        return
    raise BuildDamaged(folder, problem)


def check_vector_file(path: Path, size: int) -> None:
    try:
        if path.stat().st_size != size:
            raise Damage(f"{path.name} has the wrong size")
    except FileNotFoundError as error:
        raise VectorsGone(f"{path.name} is gone") from error


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Turn database and file errors raised inside into CodeInfo's, naming the index folder."""
    try:
        yield
    except apsw.FullError as error:
        raise _no_room(folder) from error
    except apsw.NoMemError as error:
        raise OutOfSpace(
            "memory ran out while working on the index", next_step="Close other programs and retry"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SchemaChangeError, Damage) as error:
        raise BuildDamaged(folder, error) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        if isinstance(error, apsw.ReadOnlyError) and is_writable(folder):
            raise BuildDamaged(folder, error) from error  # the header claims a format from the future
        raise _no_write(folder, error) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Busy("the index is being written by another process", next_step="Try again in a moment") from error
    except apsw.IOError as error:
        raise OutOfSpace(
            f"the disk under {folder} failed: {error}",
            next_step="Check the disk, or set CODEINFO_CACHE_DIR to a folder on another one",
            code="IO_FAILED",
        ) from error
    except ConnectionError:
        raise  # of a pipe or a socket that was used while reading: the disk is not to blame
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise _no_room(folder) from error
        if error.errno in _NO_WRITE:
            raise _no_write(folder, error) from error
        raise OutOfSpace(
            f"the disk under {folder} failed: {error.strerror}",
            next_step="Check the disk, or set CODEINFO_CACHE_DIR to a folder on another one",
            code="IO_FAILED",
        ) from error


def is_writable(folder: Path) -> bool:
    return all(os.access(path, os.W_OK) for path in (folder, folder / "index.db"))


def _no_room(folder: Path) -> OutOfSpace:
    return OutOfSpace(
        f"the disk under {folder} is full; what was committed before is kept",
        next_step="Free some space, or set CODEINFO_CACHE_DIR to a folder on another disk, and run it again",
    )


def _no_write(folder: Path, error: Exception) -> UsageError:
    return UsageError(
        f"the index folder {folder} cannot be written: {error}",
        next_step="Make it writable, or set CODEINFO_CACHE_DIR to a folder that is",
        code="READ_ONLY",
    )
