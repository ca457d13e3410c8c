"""Every failure CodeInfo raises on purpose, as one tree:

CodeInfoError                 base; carries what happened, what to do next, and the exit code
├── UsageError                bad input: argument, setting, query, path             exit 2
│   ├── RootRefused           a folder that must not be indexed (home, /)
│   ├── LocksUnsupported      a file system without file locks
│   └── NotFound              an unknown project, symbol, conversation, collection…
├── Busy                      another process is indexing, a run is in progress      exit 4
├── IndexDamaged              the index is broken and could not be mended            exit 5
│   └── IndexTooNew           written by a newer version
├── ProviderError             an embedding or language-model endpoint failed         exit 6
├── OutOfSpace                disk or memory ran out                                 exit 7
└── Interrupted               Ctrl-C or SIGTERM                                      exit 130
"""

from __future__ import annotations


class CodeInfoError(Exception):
    """`what` happened and what to do `next`; `code` is stable for programs, `exit_code` for shells."""

    exit_code = 1
    code = "INTERNAL"

    def __init__(self, what: str, *, next_step: str = "", code: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.what}. {self.next_step}" if self.next_step else self.what


class UsageError(CodeInfoError):
    exit_code = 2
    code = "VALIDATION_FAILED"


class RootRefused(UsageError):
    code = "ROOT_REFUSED"


class LocksUnsupported(UsageError):
    """The file system of `path` has no file locks, as some network mounts have none."""

    code = "NO_LOCKS"

    def __init__(self, path: str, reason: str | None) -> None:
        super().__init__(
            f"{path} cannot be locked: {reason}",
            next_step="Use a file system that has locks (flock): move the project there, or set CODEINFO_HOME",
        )


class NotFound(UsageError):
    code = "NOT_FOUND"


class Busy(CodeInfoError):
    exit_code = 4
    code = "BUSY"


class IndexDamaged(CodeInfoError):
    exit_code = 5
    code = "INDEX_DAMAGED"


class IndexTooNew(IndexDamaged):
    code = "INDEX_TOO_NEW"


class ProviderError(CodeInfoError):
    exit_code = 6
    code = "PROVIDER_FAILED"


class OutOfSpace(CodeInfoError):
    exit_code = 7
    code = "OUT_OF_SPACE"


class Interrupted(CodeInfoError):
    exit_code = 130
    code = "INTERRUPTED"
