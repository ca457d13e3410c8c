"""What was inserted where, so that it can be taken out to the byte. Only our own text is kept, never a file's."""

from __future__ import annotations

import json
from pathlib import Path

from codeinfo.private_files import private_folder, replace_private


class Record:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "installed.json"

    def inserted(self, path: Path) -> str:
        """The text that was put into a file, "" where nothing was."""
        return self._read().get(str(path), "")

    def paths(self) -> list[Path]:
        return [Path(path) for path in self._read()]

    def keep(self, path: Path, inserted: str) -> None:
        self._write({**self._read(), str(path): inserted})

    def forget(self, path: Path) -> None:
        self._write({known: text for known, text in self._read().items() if known != str(path)})

    def _read(self) -> dict[str, str]:
        try:
            content = json.loads(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, content: dict[str, str]) -> None:
        private_folder(self._path.parent)
        replace_private(self._path, json.dumps(content, indent=1).encode())
