"""The identity of a project: its git remote, normalised, so that every clone of it has the same name."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit

from codeinfo.errors import UsageError
from codeinfo.sources.git import GitFailed, origin_of

_SCP = re.compile(r"(?:[^@/:]+@)?([^/:@]+):(?!//)(.+)\Z")  # git@host:owner/name.git
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\Z")
_PART = re.compile(r"[\w.~+-]+\Z")
_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}


def identity_of(remote: str) -> str:
    """`github.com/owner/name` for any address of that repository: scheme, user, password, default port, `.git` and
    the case of the host do not matter. Raises UsageError for anything that is not the address of a repository on a
    server."""
    remote = remote.strip()
    if "://" in remote:
        parts = urlsplit(remote)
        if parts.scheme not in ("https", "http", "ssh", "git", "git+ssh"):
            raise _refusal(remote)
        try:
            port = parts.port
        except ValueError:
            raise _refusal(remote) from None
        scheme = parts.scheme.removeprefix("git+")
        host = (parts.hostname or "") + (f":{port}" if port and port != _DEFAULT_PORTS[scheme] else "")
        path = unquote(parts.path)
    elif match := _SCP.match(remote):
        host, path = match[1].lower(), match[2]
    else:
        raise _refusal(remote)
    names = [name for name in path.split("/") if name]
    if names:
        names[-1] = names[-1].removesuffix(".git")
    if not _HOST.match(host.partition(":")[0]) or not names or not all(map(_is_name, names)):
        raise _refusal(remote)
    return "/".join((host, *names))


def _is_name(part: str) -> bool:
    return bool(_PART.match(part)) and part not in (".", "..")


def _refusal(remote: str) -> UsageError:
    shown = re.sub(r"//[^/@]*@", "//", remote)[:200]  # without user and password
    return UsageError(
        f"{shown!r} does not name a repository on a server",
        next_step="Give a remote such as https://host/owner/name or git@host:owner/name",
    )


def folder_identity(root: Path) -> str:
    """The project that a folder is a checkout of; one without a remote on a server is a project of this machine."""
    try:
        return identity_of(origin_of(root))
    except (UsageError, GitFailed):
        # The ranking treats the last part as the project's name, so that is the folder's.
        return f"local/{socket.gethostname()}/{_digest(root)}/{_readable(root)}"


def work_tree_name(root: Path) -> str:
    """The tree of a folder, unique to user, machine and folder. Row security goes by the user."""
    return f"work/{_user()}/{socket.gethostname()}/{_readable(root)}-{_digest(root)}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user id may have no name
        return str(os.getuid())


def _readable(root: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", root.name)[:60] or "root"


def _digest(root: Path) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
