"""Whether anything below a root has changed, told by the kernel, so that a long-lived process need not walk each time.

The events are read when the question is asked. The kernel queues them before the write that causes them returns, so
a file saved before a call is noticed by that call, however soon it comes: there is no thread that could lag behind.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from codeinfo.sources.ignore import OVERRIDES_NAME
from codeinfo.sources.rules import folder_rule

WALK_AGAIN_S = 30.0  # for what the kernel does not tell: network folders, memory-mapped writes, git's own ignore files

MEMORIES = ".codeinfo"  # not indexed, but what is written there takes part in answers

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x02, 0x04, 0x08, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_CHANGES = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 1 << 16


class Watch:
    """One root. `is_clean` answers from the events since `start`; where nothing can be watched it is always False."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._handle = -1
        self._folders_changed = True
        self._clean = False
        self._started = 0.0
        self._lock = threading.RLock()

    def start(self) -> None:
        """Call before looking at the files: whatever happens from now on makes the root unclean again."""
        with self._lock:
            self._started = time.monotonic()
            if self._handle < 0:
                self._handle = _notify_init()
                self._folders_changed = True
            self._drain()
            if self._handle >= 0 and self._folders_changed:
                self._folders_changed = False
                if not all(_notify_add(self._handle, folder) for folder in _folders(self._root)):
                    self.close()  # too many folders for this user's limit: part of a tree must not pass for all of it
            self._clean = self._handle >= 0

    def is_clean(self) -> bool:
        with self._lock:
            self._drain()
            return self._clean and time.monotonic() - self._started < WALK_AGAIN_S

    def spoil(self) -> None:
        """The look at the files that followed `start` did not come to its end."""
        self._clean = False

    def close(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, -1
            self._clean = False
            if handle >= 0:
                os.close(handle)

    def _drain(self) -> None:
        if self._handle < 0:
            return
        with suppress(BlockingIOError):
            while data := os.read(self._handle, _READ_BYTES):
                for mask in _masks(data):
                    if mask & _OVERFLOW or (mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO | _MOVED_FROM)):
                        self._folders_changed = True
                    if not mask & _IGNORED:
                        self._clean = False


def _masks(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        _, mask, _, length = _HEADER.unpack_from(data, at)
        yield mask
        at += _HEADER.size + length


def _folders(root: str) -> Iterator[str]:
    """Every folder whose files could belong to the index. Those that git ignores are among them: an event too many
    costs one walk, one too few a wrong answer."""
    keep_all = os.path.exists(f"{root}/{OVERRIDES_NAME}")  # it may bring back what the default rules leave out
    waiting = [(root, frozenset[str]())]
    while waiting:
        folder, parents = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        inside = parents | {os.path.basename(folder)} if folder != root else parents
        for name in names:
            if name == MEMORIES or (name != ".git" and (keep_all or folder_rule(name, inside) is None)):
                waiting.append((f"{folder}/{name}", inside))


def _notify_init() -> int:
    if not sys.platform.startswith("linux"):
        return -1
    handle: int = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return handle


def _notify_add(handle: int, folder: str) -> bool:
    """False where the folder cannot be watched; one that is gone by now needs no watching."""
    mask = _CHANGES | _ONLY_FOLDERS | _NO_LINKS
    watched: int = _libc().inotify_add_watch(handle, os.fsencode(folder), mask)
    return watched >= 0 or not os.path.isdir(folder)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
