"""Every failure CodeInfo raises on purpose, as one tree:

CodeInfoError                 base; carries what happened, what to do next, and the exit code
├── UsageError                bad input: argument, setting, query, path             exit 2
│   ├── RootRefused           a folder that must not be indexed (home, /)
│   ├── LocksUnsupported      a file system without file locks
│   └── NotFound              an unknown project, symbol, conversation, collection…
├── Busy                      another process is indexing, a run is in progress      exit 4
├── IndexDamaged              the index is broken and was not repaired               exit 5
│   └── IndexTooNew           written by a newer version
├── ProviderError             an embedding or language-model endpoint failed         exit 6
│   └── StoreUnavailable      the team's database cannot be reached
├── OutOfSpace                disk, memory or processes ran out, or the disk failed  exit 7
└── Interrupted               Ctrl-C or SIGTERM                                      exit 130
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

_STATUS_OF_CODE = {  # where the code decides, not the class
    "DUPLICATE_HEADER": 400,
    "TOKEN_REQUIRED": 401,
    **dict.fromkeys(("FOLDER_REFUSED", "ORIGIN_REFUSED"), 403),
    "REPO_NOT_FOUND": 404,
    "TIMEOUT": 408,
    **dict.fromkeys(("NOT_INGESTED", "DIMENSION_MISMATCH", "RUN_IN_PROGRESS"), 409),
    "CONVERSATION_ARCHIVED": 410,
    "BODY_TOO_LARGE": 413,
    "MEDIA_TYPE": 415,
    "HOST_REFUSED": 421,
    "CANCELLED": 499,
    **dict.fromkeys(("EMBEDDING_MODEL_MISSING", "EMBEDDING_UNAVAILABLE"), 503),
    **dict.fromkeys(("CODE_INFO_LLM_UNAVAILABLE", "OVERLOADED"), 503),
    "TOOK_TOO_LONG": 504,
}


class CodeInfoError(Exception):
    """`what` happened and what to do `next`; `code` is stable for programs, `exit_code` for shells, `status` is that
    over HTTP."""

    exit_code = 1
    status = 500
    code = "INTERNAL"

    def __init__(self, what: str, next_step: str = "", *, code: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step
        if code is not None:
            self.code = code
            self.status = _STATUS_OF_CODE.get(code, self.status)

    def __str__(self) -> str:
        return f"{self.what}. {self.next_step}" if self.next_step else self.what


def error_json(code: str, what: str, next_step: str) -> dict[str, dict[str, str]]:
    """An error as programs get it, on a terminal and over HTTP."""
    return {"error": {"code": code, "message": what, "next": next_step}}


class UsageError(CodeInfoError):
    exit_code = 2
    status = 400
    code = "VALIDATION_FAILED"


class RootRefused(UsageError):
    status = 403
    code = "ROOT_REFUSED"


class LocksUnsupported(UsageError):
    """The file system of `path` has no file locks, as some network mounts have none."""

    code = "NO_LOCKS"

    def __init__(self, path: str, reason: str | None) -> None:
        step = "Use a file system that has locks (flock): move the project there, or set CODEINFO_HOME"
        super().__init__(f"{path} cannot be locked: {reason}", step)


class NotFound(UsageError):
    status = 404
    code = "NOT_FOUND"


SEARCH_MEANWHILE = "Wait for it to finish; searches continue with the index as it is"


class Busy(CodeInfoError):
    exit_code = 4
    status = 429
    code = "BUSY"


class IndexDamaged(CodeInfoError):
    exit_code = 5
    status = 502
    code = "INDEX_DAMAGED"


class IndexTooNew(IndexDamaged):
    code = "INDEX_TOO_NEW"


class ProviderError(CodeInfoError):
    exit_code = 6
    status = 503
    code = "PROVIDER_FAILED"


class StoreUnavailable(ProviderError):
    code = "STORE_UNAVAILABLE"


class OutOfSpace(CodeInfoError):
    exit_code = 7
    status = 507
    code = "OUT_OF_SPACE"


class Interrupted(CodeInfoError):
    exit_code = 130
    status = 499
    code = "INTERRUPTED"


# --- errors of the machine -----------------------------------------------------------------------------------------

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}
_UNMAPPED = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")  # from the dynamic loader


def environment_error(error: BaseException, where: str = "") -> CodeInfoError | None:
    """An error caused by the machine as one of ours, None for others; `where` is the file it concerns."""
    if isinstance(error, CodeInfoError):
        return error
    if isinstance(error, MemoryError) or any(text in str(cause) for cause in _causes(error) for text in _UNMAPPED):
        return _out_of_memory()
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return _no_processes("thread")
    return _os_error(error, where or error.filename) if isinstance(error, OSError) else None


def _os_error(error: OSError, where: object) -> CodeInfoError | None:
    what = f"{os.fsdecode(where)}: {error.strerror}" if isinstance(where, str | bytes) else str(error.strerror)
    if error.errno in _FULL:
        step = "Free some space there (CODEINFO_HOME moves CodeInfo's own files to another disk)"
        return OutOfSpace(f"the disk is full: {what}", step)
    if error.errno == errno.EFBIG:
        return too_large(what)
    if error.errno == errno.EIO:
        step = "Check the disk; what was written last may be missing, so run it again"
        return OutOfSpace(f"the disk failed: {what}", step, code="IO_FAILED")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        step = "Raise the limit (`ulimit -n`), or end programs that hold many"
        return OutOfSpace("too many files are open", step, code="NO_DESCRIPTORS")
    if error.errno == errno.ENOMEM:
        return _out_of_memory()
    if error.errno == errno.EAGAIN:
        return _no_processes("process")
    if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
        return LocksUnsupported(os.fsdecode(where) if isinstance(where, str | bytes) else "a file", error.strerror)
    if error.errno in _REFUSED:
        step = "Allow it, or choose another place (CODEINFO_HOME for CodeInfo's own files)"
        return UsageError(f"access is refused: {what}", step, code="READ_ONLY")
    if error.errno == errno.ENOENT and not _has_working_folder():
        step = "Change to one that exists, or name a folder by a path that begins with /"
        return UsageError("the current folder was removed", step, code="NO_WORKING_FOLDER")
    return None


def too_large(what: object) -> OutOfSpace:
    step = "Raise the limit (`ulimit -f`), then run it again"
    return OutOfSpace(f"a file may not grow any larger: {what}", step, code="FILE_LIMIT")


def _out_of_memory() -> OutOfSpace:
    step = "Lower index.workers or index.max_file_bytes, or raise the limit (`ulimit -v`)"
    return OutOfSpace("out of memory", step)


def _no_processes(kind: str) -> OutOfSpace:
    step = "Raise the limit (`ulimit -u`), end other programs, or set index.workers to 1"
    return OutOfSpace(f"the system refuses to start another {kind}", step, code="NO_PROCESSES")


def _has_working_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


@contextmanager
def requires(extras: str) -> Iterator[None]:
    """For imports of optional packages: if one is missing, name the extras that install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", f"pip install 'codeinfo[{extras}]'") from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An import that failed for lack of memory, with the exceptions it was raised from."""
    while error is not None:
        if isinstance(error, ImportError):
            yield error
        error = error.__cause__ or error.__context__
