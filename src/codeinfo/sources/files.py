"""Opening files of a repository that nobody vouches for: only regular ones, never through a symlink."""

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
    try:
        descriptor = _open_beneath(root, path) if _RELATIVE else os.open(os.path.join(root, path), _FILE_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.EISDIR):
            raise NotRegular(error.errno, "a link or a special file") from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, "not a regular file")
    with open(descriptor, "rb", buffering=0) as file:
        if status.st_size > limit:
            raise TooLarge(errno.EFBIG, f"{status.st_size:,} bytes")
        return file.read() if status.st_size else b""  # size 0: empty, or a kernel file without end


def _open_beneath(root: str, path: str) -> int:
    *folders, name = path.split("/")
    if ".." in folders:
        raise NotRegular(errno.EINVAL, "leaves the root")
    at = os.open(root, _FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        for folder in folders:
            below = os.open(folder, _FOLDER_FLAGS, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, _FILE_FLAGS, dir_fd=at)
    finally:
        os.close(at)
