"""The folder of a project: resolved, and refused if it must not be indexed."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from codeinfo.errors import NotFound, RootRefused, UsageError, environment_error

_SYSTEM_FOLDERS = frozenset(
    "/bin /boot /dev /etc /home /lib /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var "
    "/Applications /Library /System /Users /Volumes /private".split()
)


def check_root(root: str | os.PathLike[str]) -> Path:
    return Path(resolve_root(root))


def resolve_existing(path: str | os.PathLike[str]) -> str:
    """A path without links and dots; "" is the current folder."""
    try:
        return os.path.realpath(path, strict=True)
    except (OSError, ValueError) as error:  # a name no file can have does not exist
        known = environment_error(error, str(path))
        raise known or NotFound(
            f"{path} does not exist", next_step="Give the path of a file or folder that exists"
        ) from error


def resolve_root(root: str | os.PathLike[str]) -> str:
    """The resolved root. Home, `/` and the like are refused: they hold far more than a project, secrets included."""
    try:
        resolved = os.path.realpath(root, strict=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UsageError(f"{root} does not exist", next_step="Give an existing folder") from error
    if not os.path.isdir(resolved):
        raise UsageError(f"{root} is not a folder", next_step="Give the folder that contains the project")
    if not os.access(resolved, os.R_OK | os.X_OK):
        step = "Make it readable, or run this as its owner"
        raise UsageError(f"{root} cannot be read: permission denied", next_step=step)
    if reason := refusal(resolved):
        raise RootRefused(f"{resolved} is not indexed: {reason}", next_step="Give the folder of one project")
    return resolved


def refusal(resolved: str) -> str:
    """Why a folder must not be indexed; "" if it may be."""
    home = _home(os.path.expanduser("~"))
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


@lru_cache(maxsize=4)
def _home(named: str) -> str:
    return os.path.realpath(named)
