"""The project's memory file, `.codeinfo/memory.json`: read, and changed by whoever holds its lock.

People read it and merge it in git: memories are sorted by id, so that two branches that each add one seldom touch the
same lines. It comes with a repository nobody vouches for, so links are not followed, not for the folder nor the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from codeinfo.errors import UsageError, environment_error
from codeinfo.knowledge.memory import Memory, from_record, to_record
from codeinfo.private_files import replace_file, wait_for_lock

FOLDER = ".codeinfo"
NAME = "memory.json"
MAX_BYTES = 10_000_000
_FORMAT = 1
_MODE = 0o644  # it belongs to the project


class MemoryFileDamaged(UsageError):
    """The file cannot be read as memories; it is left as it is, for a person to mend."""

    code = "MEMORY_DAMAGED"


def read_memories(root: Path) -> tuple[Memory, ...]:
    """The project's memories, none where there is no file."""
    folder = _open_folder(root)
    if folder is None:
        return ()
    try:
        return _read(folder, root)
    finally:
        os.close(folder)


def change_memories(root: Path, edit: Callable[[tuple[Memory, ...]], Sequence[Memory]]) -> tuple[Memory, ...]:
    """Replace the memories by `edit` of them while no other process can; a reader sees the old file or the new one.
    The lock is that of the folder, so that no lock file lies about in the project."""
    (root / FOLDER).mkdir(exist_ok=True)
    folder = _open_folder(root)
    assert folder is not None
    try:
        wait_for_lock(folder, root / FOLDER)
        before = _read(folder, root)
        after = tuple(sorted(set(edit(before)), key=lambda memory: (memory.id, memory.date, memory.memory)))
        if after != before:
            _write(folder, root, after)
    finally:
        os.close(folder)
    return after


def _write(folder: int, root: Path, memories: Sequence[Memory]) -> None:
    content = {"format": _FORMAT, "memories": [to_record(memory) for memory in memories]}
    text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    try:
        replace_file(NAME, text.encode("utf-8", "backslashreplace"), mode=_MODE, folder=folder)
    except OSError as error:
        raise environment_error(error, str(root / FOLDER / NAME)) or error from error


def parse_memories(text: str, name: str) -> tuple[Memory, ...]:
    """Memories of a file's text, or of the bare list that other tools write; errors point at line and column."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise _damaged(name, error.lineno, error.colno, error.msg) from None
    except RecursionError:
        raise _damaged(name, 1, 1, "nested too deeply") from None
    records = content.get("memories") if isinstance(content, dict) else content
    if not isinstance(records, list):
        raise _damaged(name, 1, 1, 'there is no list of "memories"')
    memories = []
    for number, record in enumerate(records):
        try:
            memories.append(from_record(record))
        except UsageError as error:
            raise _damaged(name, *_position(text, number), str(error)) from None
    return tuple(memories)


def _position(text: str, number: int) -> tuple[int, int]:
    """Line and column of the memory with that number."""
    start = re.search(r'"memories"\s*:\s*\[|\[', text)
    assert start is not None  # it was just parsed
    decoder = json.JSONDecoder()
    at = _skip(text, start.end())
    for _ in range(number):
        _, end = decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, end) + 1)  # past the comma
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _damaged(name: str, line: int, column: int, why: str) -> MemoryFileDamaged:
    return MemoryFileDamaged(
        f"{name}, line {line}, column {column}: {why}", next_step="Fix it there; the file was left as it is"
    )


def _open_folder(root: Path) -> int | None:
    try:
        return os.open(root / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"{root / FOLDER} cannot be used: {error.strerror}", next_step="It must be a folder"
        ) from error


def _read(folder: int, root: Path) -> tuple[Memory, ...]:
    name = str(root / FOLDER / NAME)
    try:
        handle = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}", next_step="It must be a plain file") from error
    with open(handle, "rb") as source:
        data = source.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES:,} bytes", next_step="Remove memories nobody needs")
    try:
        return parse_memories(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise _damaged(name, line, column, "not UTF-8") from None
