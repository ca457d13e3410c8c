"""What has changed below a root, as the kernel reports it, so that a long-lived process need not walk each time.

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

from codeinfo.engine.index_manager import Events
from codeinfo.sources.ignore import OVERRIDES_NAME, folder_rule

WALK_AGAIN_S = 30.0  # for what the kernel does not tell: network folders, memory-mapped writes, git's own ignore files

MOST_CHANGED = 200  # files that are looked at one by one: a checkout or a build is better walked

MEMORIES = ".codeinfo"  # not indexed, but what is written there takes part in answers

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x02, 0x04, 0x08, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_CHANGES = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_COMES_OR_GOES = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 1 << 16


class Watch:
    """One root. `is_clean` answers from the events since `start`; where nothing can be watched it is always False."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._handle = -1
        self._folders: dict[int, str] = {}  # by the kernel's number for it, relative to the root
        self._folders_changed = True
        self._clean = False
        self._walked = -WALK_AGAIN_S
        self._changed: dict[str, bool] = {}
        self._knows_all = False
        self._lock = threading.RLock()

    def start(self) -> Events:
        """Call before looking at the files: whatever happens from now on makes the root unclean again.

        Says what happened since the last start; not all of it where that is not known, or where everything was last
        looked at long ago.
        """
        with self._lock:
            if self._handle < 0:
                self._handle = _notify_init()
                self._folders_changed = True
            self._drain()
            events = Events(self._changed, self._knows_all and self._is_recent() and not self._folders_changed)
            if not events.are_all:
                self._walked = time.monotonic()
            if self._handle >= 0 and self._folders_changed:
                self._folders_changed = False
                if not all(self._add(folder) for folder in _folders(self._root)):
                    self.close()  # too many folders for this user's limit: part of a tree must not pass for all of it
            self._clean = self._knows_all = self._handle >= 0
            self._changed = {}
            return events

    def is_clean(self) -> bool:
        with self._lock:
            self._drain()
            return self._clean and self._is_recent()

    def spoil(self) -> None:
        """The look at the files that followed `start` did not come to its end."""
        with self._lock:
            self._clean = self._knows_all = False

    def close(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, -1
            self._folders.clear()
            self.spoil()
            if handle >= 0:
                os.close(handle)

    def _is_recent(self) -> bool:
        return time.monotonic() - self._walked < WALK_AGAIN_S

    def _add(self, folder: str) -> bool:
        """False where the folder cannot be watched; one that is gone by now needs no watching."""
        number: int = _libc().inotify_add_watch(self._handle, os.fsencode(folder), _CHANGES | _ONLY_FOLDERS | _NO_LINKS)
        if number >= 0:
            self._folders[number] = folder[len(self._root) + 1 :]
        return number >= 0 or not os.path.isdir(folder)

    def _drain(self) -> None:
        if self._handle < 0:
            return
        with suppress(BlockingIOError):
            while data := os.read(self._handle, _READ_BYTES):
                for number, mask, name in _events(data):
                    self._note(number, mask, name)

    def _note(self, number: int, mask: int, name: str) -> None:
        if mask & _IGNORED:
            return
        self._clean = False
        is_other_folder = mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO | _MOVED_FROM)
        if mask & _OVERFLOW or is_other_folder or name == OVERRIDES_NAME:
            self._folders_changed = True
        folder = self._folders.get(number)
        if not name or folder is None or mask & _IS_FOLDER or len(self._changed) >= MOST_CHANGED:
            self._knows_all = False
        else:
            path = f"{folder}/{name}" if folder else name
            self._changed[path] = self._changed.get(path, False) or bool(mask & _COMES_OR_GOES)


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(data):
        number, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield number, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


def _folders(root: str) -> Iterator[str]:
    """Every folder whose files could belong to the index. Those that git ignores are among them: an event too many
    costs one walk, one too few a wrong answer."""
    waiting = [(root, frozenset[str](), False)]
    while waiting:
        folder, parents, keeps_all = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        inside = parents | {os.path.basename(folder)} if folder != root else parents
        keeps_all = keeps_all or OVERRIDES_NAME in names  # it may bring back what the default rules leave out
        for name in (name for name, is_folder in names.items() if is_folder):
            if name == MEMORIES or (name != ".git" and (keeps_all or folder_rule(name, inside) is None)):
                waiting.append((f"{folder}/{name}", inside, keeps_all))


def _notify_init() -> int:
    if not sys.platform.startswith("linux"):
        return -1
    handle: int = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return handle


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
