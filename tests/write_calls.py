"""Counting the calls that change the disk, and dying (-9) at one of them: for a process that is killed on purpose."""

from __future__ import annotations

import builtins
import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

import apsw


class WriteCalls:
    """Counts every call that changes the disk. The one to die at is done by half, or not at all, or wholly."""

    def __init__(self, kill_at: int) -> None:
        self.count = 0
        self._kill_at = kill_at

    def make(self, call: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if self.count == self._kill_at:
            if half is not None:
                half()
            elif self.count % 2:
                call()
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1
        return call()

    def install(self) -> None:
        self._vfs = CountingVfs(self)
        for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir", "pwrite", "ftruncate"):
            setattr(os, name, self._wrapped(getattr(os, name)))
        plain_open = builtins.open

        def counted_open(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            opened = plain_open(file, mode, *rest, **named)
            return CountedFile(opened, self) if mode in ("xb", "wb") else opened

        setattr(builtins, "open", counted_open)  # noqa: B010  a plain assignment would need an ignore for mypy

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: self.make(lambda: function(*arguments, **named))


class CountedFile:
    """A file opened for writing, as far as CodeInfo uses one."""

    def __init__(self, opened: Any, calls: WriteCalls) -> None:
        self._opened = opened
        self._calls = calls

    def write(self, data: bytes) -> Any:
        return self._calls.make(lambda: self._opened.write(data), lambda: self._half(data))

    def _half(self, data: bytes) -> None:
        self._opened.write(data[: len(data) // 2])
        self._opened.flush()

    def flush(self) -> None:
        self._opened.flush()

    def fileno(self) -> Any:
        return self._opened.fileno()

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


class CountingVfs(apsw.VFS):
    def __init__(self, calls: WriteCalls) -> None:
        super().__init__("counting", "unix", makedefault=True)
        self._calls = calls

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return CountingFile(name, flags, self._calls)


class CountingFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], calls: WriteCalls) -> None:
        super().__init__("unix", name, flags)
        self._calls = calls

    def xWrite(self, data: Any, offset: int) -> None:
        half = bytes(data[: len(data) // 2])
        write = super().xWrite
        self._calls.make(lambda: write(data, offset), lambda: write(half, offset))

    def xSync(self, flags: int) -> None:
        sync = super().xSync
        self._calls.make(lambda: sync(flags))

    def xTruncate(self, size: int) -> None:
        truncate = super().xTruncate
        self._calls.make(lambda: truncate(size))


def count_write_calls(action: Callable[[], object], kill_at: int = -1) -> int | None:
    """How many write calls an action makes in a process of its own; None if it was killed at the one with this number.
    Raises if it fails."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        try:
            calls = WriteCalls(kill_at)
            calls.install()
            action()
            os.write(writable, str(calls.count).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writable)
    with open(readable) as pipe:
        counted = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL:
        return None
    assert status == 0, f"the action ended with {status}"
    return int(counted)


def kill_after(action: Callable[[], object], seconds: float) -> bool:
    """Whether an action in a process of its own was still running after this time, and was killed."""
    child = os.fork()
    if not child:
        action()
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
