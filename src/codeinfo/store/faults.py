"""What the database and the disk complain about, said in our own errors. One place, so that no shell sees SQLite's."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from codeinfo.errors import Busy, IndexDamaged, OutOfSpace, UsageError
from codeinfo.store.segments import Damage

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_WRITE = {errno.EROFS, errno.EACCES, errno.EPERM}


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
        raise IndexDamaged(
            f"the index in {folder} is damaged: {error}", next_step="Run `codeinfo index` to build it anew"
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        raise _no_write(folder, error) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Busy("the index is being written by another process", next_step="Try again in a moment") from error
    except apsw.IOError as error:
        raise OutOfSpace(
            f"the disk under {folder} failed: {error}",
            next_step="Check the disk, or set CODEINFO_CACHE_DIR to a folder on another one",
            code="IO_FAILED",
        ) from error
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
