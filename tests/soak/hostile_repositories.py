"""Projects with names, links, sources, settings and lists that were made to do harm."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

from hostile_values import PIECES, text, value
from sandbox import Sandbox, Tally

Run = Callable[[Sandbox, list[str]], str]
LOOKS = ("index .", "search compute .", "search root .", "map .", "patterns .", "metadata .", "style .", "memory list",
         "docs list", "docs search root", "status .", "cycles .")  # fmt: skip


def in_repositories(sandbox: Sandbox, tally: Tally, count: int, rng: random.Random, run: Run) -> None:
    done = 0
    while done < count:
        made = write_repository(sandbox, rng)
        for look in LOOKS:
            what = f"{look} in a repository with {made}"
            tally.attempt("hostile: repositories", what[:900], lambda: run(sandbox, look.split()))  # noqa: B023
            done += 1
    sandbox.restore()


def write_repository(sandbox: Sandbox, rng: random.Random) -> list[str]:
    """A fresh project with a few of the things below in it."""
    sandbox.restore()
    ways: list[Callable[[Path, random.Random], str]] = [
        _odd_name, _link_out, _odd_source, _settings, _context, _memories, _manifest, _ignore, _notebook, _special
    ]  # fmt: skip
    return [way(sandbox.project, rng) for way in rng.sample(ways, 4)]


def _odd_name(project: Path, rng: random.Random) -> str:
    name = rng.choice(
        ("a\nb.py", "\x1b[31m.py", "\u202egnp.py", "-rf.py", "x" * 250 + ".py", "<img src=x>.md", "a'b\".py")
    )
    raw = os.fsencode(project / name) if rng.random() < 0.8 else os.fsencode(project) + b"/\xff\xfe.py"
    with open(raw, "w") as file:
        file.write("def odd():\n    return 1\n")
    return f"name {name!r}"


def _outside(project: Path) -> Path:
    """What links lead to. It begins like /etc/passwd, which must never be shown, and is ours: what is done to a project
    later may write through the links."""
    place = project.parent / "outside"
    place.write_text("root:x:0:0:root:/root:/bin/sh\n")
    return place


def _link_out(project: Path, rng: random.Random) -> str:
    where = rng.choice(
        (
            "steady_link.py",
            "README.md",
            "package.json",
            "pyproject.toml",
            ".gitignore",
            ".codeinfo.toml",
            ".editorconfig",
        )
    )
    (project / where).unlink(missing_ok=True)
    (project / where).symlink_to(_outside(project))
    return f"link {where}"


def _odd_source(project: Path, rng: random.Random) -> str:
    suffix = rng.choice((".py", ".js", ".md", ".json", ".yaml", ".html", ".rs", ".hs", ".unknown"))
    content = rng.choice(
        ("(" * 20_000, "[" * 50_000, "a" * 900_000, "if x:\n" * 5000, "{" * 30_000 + "}" * 30_000, "#" * 10_000 + " x",
         "\0" * 100, "&a [*a, *a]\n" * 500, "<div>" * 20_000, "\r" * 10_000, "x = '''" + "\\" * 9999, "```\n" * 5000)
    )  # fmt: skip
    (project / f"odd{suffix}").write_text(content)
    return f"{suffix} of {content[:8]!r} × {len(content)}"


def _settings(project: Path, rng: random.Random) -> str:
    content = rng.choice(
        ("[patterns]\nfoo = '" + "a?" * 45 + "a" * 45 + "'\n", 
         "[embedding]\nbase_url = 'http://169.254.169.254/'\nprovider = 'openai'\n",
         "[paths]\ncache_dir = '/etc'\n", "[" * 5000, "a.b" * 5000, "x = " + "[" * 3000, "[trust]\nprojects = ['/']\n",
         "[index]\nchunk_chars = 99999999999999999999\n", "[index]\nworkers = 500\nmax_file_bytes = -1\n",
         "\xff\0", "#" * 2_000_000)
    )  # fmt: skip
    (project / ".codeinfo.toml").write_text(content)
    return f"settings {content[:60]!r}"


def _folder(project: Path) -> Path:
    folder = project / ".codeinfo"
    folder.mkdir(exist_ok=True)
    return folder


def _context(project: Path, rng: random.Random) -> str:
    content = json.dumps(
        {
            "format": 1,
            "collections": [{"name": text(rng)[:40], "url": rng.choice(PIECES), "include": ["**/" * 60 + "z"]}],
        }
        if rng.random() < 0.7
        else value(rng)
    )
    (_folder(project) / "context.json").write_text(content)
    return f"context.json {content[:120]!r}"


def _memories(project: Path, rng: random.Random) -> str:
    one = {
        "id": "0" * 12,
        "type": "convention",
        "category": "tooling",
        "memory": text(rng),
        "reason": text(rng),
        "date": "x",
    }
    content = rng.choice((json.dumps({"format": 1, "memories": [one] * 50}), json.dumps(value(rng)), "[" * 100_000))
    path = _folder(project) / "memory.json"
    if rng.random() < 0.3:
        path.unlink(missing_ok=True)
        path.symlink_to(_outside(project))
        return "memory.json a link"
    path.write_text(content)
    return f"memory.json {content[:120]!r}"


def _manifest(project: Path, rng: random.Random) -> str:
    name = rng.choice(("package.json", "pyproject.toml", "Cargo.toml", "go.mod", "manifest.json", "tsconfig.json"))
    path = project / name
    if not path.is_symlink():
        path.write_text(
            rng.choice((json.dumps(value(rng)), "[" * 9000, '{"a":' * 9000, '{"workspaces": ["' + "**/" * 60 + 'z"]}'))
        )
    return name


def _ignore(project: Path, rng: random.Random) -> str:
    path = project / rng.choice((".codeinfoignore", ".ignored/.gitignore"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "\n".join(text(rng) for _ in range(20)) + "\n" + "**/" * 60 + "zzz\n" + "!" * 3000, errors="replace"
    )
    return path.name


def _notebook(project: Path, rng: random.Random) -> str:
    cells = [{"cell_type": "code", "source": value(rng), "outputs": value(rng)} for _ in range(5)]
    (project / "odd.ipynb").write_text(json.dumps({"cells": cells if rng.random() < 0.7 else value(rng)}))
    return "a notebook"


def _special(project: Path, rng: random.Random) -> str:
    if rng.random() < 0.5:
        name = rng.choice(("pipe.py", "index.scip", "package.json", ".git", "manifest.json", "go.mod"))
        if os.path.lexists(project / name):  # a folder, or what another way has made
            name = "pipe.py"
        os.mkfifo(project / name)
        return f"a pipe as {name}"
    deep = project
    for _ in range(100):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "deep.py").write_text("def deep():\n    return 1\n")
    return "a deep folder"
