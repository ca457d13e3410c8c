"""Opening files of an untrusted repository: only regular ones, never through a symlink."""

from __future__ import annotations

import errno
import os
import stat

# Absent on Windows, where neither FIFOs in folders nor dir_fd exist.
_FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_RELATIVE = os.open in os.supports_dir_fd


class NotRegular(OSError):
    """A symlink, FIFO, device, socket or folder stands where a file was expected."""


class TooLarge(OSError):
    """The file has more bytes than the caller wants."""


def read_regular(root: str, path: str, limit: int) -> bytes:
    """The bytes of `root`/`path`. Every folder on the way is opened without following links, so that a link swapped
    in after the walk leads nowhere; opening a FIFO does not block."""
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
            descriptor = self._open(path) if _RELATIVE else os.open(os.path.join(self._root, path), _FILE_FLAGS)
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
            # Size 0: empty, or a kernel file without end.
            return _read_all(descriptor, status.st_size) if status.st_size else b""
        finally:
            os.close(descriptor)

    def _open(self, path: str) -> int:
        *folders, name = path.split("/")
        if ".." in folders:
            raise NotRegular(errno.EINVAL, "leaves the root")
        if not self._handles:
            self._handles.append(os.open(self._root, _FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0)))
        if folders != self._names:
            same = next(
                (at for at, (one, other) in enumerate(zip(folders, self._names, strict=False)) if one != other), -1
            )
            self._close_below(same if same >= 0 else min(len(folders), len(self._names)))
            for folder in folders[len(self._names) :]:
                self._handles.append(os.open(folder, _FOLDER_FLAGS, dir_fd=self._handles[-1]))
                self._names.append(folder)
        return os.open(name, _FILE_FLAGS, dir_fd=self._handles[-1])

    def _close_below(self, depth: int) -> None:
        """Close the folders below the first `depth` ones; -1: the root as well."""
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
