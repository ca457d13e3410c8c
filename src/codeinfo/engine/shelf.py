"""The collections that are known: the user's own list, and what the project's context.json names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codeinfo.collections.model import (
    CONTEXT_FILE,
    Collection,
    add_to_context,
    read_context,
    read_user_list,
    remove_from_context,
    write_user_list,
)
from codeinfo.errors import NotFound, UsageError
from codeinfo.private_files import open_private, private_folder, replace_private, wait_for_lock

_MAX_LIST_BYTES = 5_000_000


class Shelf:
    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "collections"
        self._list = data_dir / "collections.json"

    def all(self, project: Path) -> tuple[list[Collection], list[str]]:
        """The project's collections first, then the user's; a name belongs to whoever comes first."""
        found, notes = self._of_project(project)
        taken = {item.id for item in found}
        return [*found, *(item for item in self._own() if item.id not in taken)], notes

    def named(self, project: Path, names: tuple[str, ...]) -> tuple[list[Collection], list[str]]:
        """Those with these names or ids; all of them where none is named."""
        known, notes = self.all(project)
        if not names:
            return known, notes
        chosen = []
        for name in dict.fromkeys(names):
            match = next((item for item in known if name in (item.id, item.name)), None)
            if match is None:
                listed = ", ".join(item.name for item in known) or "none yet"
                raise NotFound(f"there is no collection {name!r}", next_step=f"Known are: {listed}")
            chosen.append(match)
        return chosen, notes

    def lists(self, collection: Collection) -> bool:
        """Whether the user's own list has it, whoever else names it."""
        return any(item.id == collection.id for item in self._own())

    def add(self, collection: Collection) -> None:
        with self._changing() as write:
            known = self._own()
            clash = next((i for i in known if i.name == collection.name and i.id != collection.id), None)
            if clash is not None:
                raise UsageError(f"{collection.name!r} names {clash.url} already", next_step="Give it another name")
            write([*(item for item in known if item.id != collection.id), collection])

    def add_to_project(self, collection: Collection, project: Path, written: str) -> None:
        """`written` is the source as typed, so that the file means the same for everyone who clones the project."""
        path = project / CONTEXT_FILE
        text = _read(path)
        _replace(path, add_to_context(text, str(project), collection.name, written, collection.ref))

    def remove(self, collection: Collection, project: Path) -> None:
        if collection.origin == "project":
            path = self._context_of(project)
            if path is not None:
                _replace(path, remove_from_context(_read(path), str(path.parent), collection.name))
            return
        with self._changing() as write:
            write([item for item in self._own() if item.id != collection.id])

    def _own(self) -> list[Collection]:
        text = _read(self._list)
        return read_user_list(text, str(self._list)) if text else []

    def _of_project(self, project: Path) -> tuple[list[Collection], list[str]]:
        path = self._context_of(project)
        return read_context(_read(path), str(path.parent)) if path is not None else ([], [])

    def _context_of(self, project: Path) -> Path | None:
        """The nearest one from the folder upwards, not past the top of its repository."""
        folder = Path(os.path.abspath(project))
        for place in (folder, *folder.parents):
            if os.path.isfile(place / CONTEXT_FILE):
                return place / CONTEXT_FILE
            if os.path.exists(place / ".git"):
                break
        return None

    @contextmanager
    def _changing(self) -> Iterator[Callable[[list[Collection]], None]]:
        """Reading and writing the user's list as one step, also beside other processes."""
        private_folder(self._list.parent)
        lock = self._list.with_suffix(".lock")
        handle = open_private(lock, os.O_RDWR)
        try:
            wait_for_lock(handle, lock)
            yield lambda collections: replace_private(self._list, write_user_list(collections).encode())
        finally:
            os.close(handle)


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_LIST_BYTES:
            raise UsageError(f"{path} is far too large", next_step="Mend the file or remove it")
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", next_step="Mend the file or remove it") from error


def _replace(path: Path, text: str) -> None:
    """A reader sees the old content or the new, also after a crash."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as sink:
        sink.write(text)
        sink.flush()
        os.fsync(sink.fileno())
    os.replace(temporary, path)
