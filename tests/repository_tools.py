"""Scripted git repositories for tests of histories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


class Repository:
    """Commits with fixed dates and authors, so that a run can be repeated to the byte."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = 1_700_000_000
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main", ".")

    def git(self, *arguments: str, author: str = "Ada <ada@example.org>", stdin: str = "") -> str:
        name, _, mail = author.rstrip(">").partition(" <")
        self.clock += 60
        date = f"{self.clock} +0000"
        who = {"AUTHOR_NAME": name, "AUTHOR_EMAIL": mail, "COMMITTER_NAME": name, "COMMITTER_EMAIL": mail}
        env = os.environ | {f"GIT_{key}": value for key, value in who.items()}
        env |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        return subprocess.run(
            ["git", *arguments], cwd=self.folder, env=env, check=True, capture_output=True, text=True, input=stdin
        ).stdout.strip()

    def commit(self, subject: str, files: dict[str, str], author: str = "Ada <ada@example.org>") -> str:
        write(self.folder, files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject, author=author)
        return self.git("rev-parse", "HEAD")

    def lose(self, path: str) -> None:
        """Delete the content of a file of the last commit, as a clone that was cut down lacks it."""
        blob = self.git("rev-parse", f"HEAD:{path}")
        (self.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
