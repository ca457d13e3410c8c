"""Which packages stay out of training: the benchmark's and the best-known projects, by package or repository name."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_AFFIXES = re.compile(
    r"^(python3?-|golang-|rust-|ruby-|node-|haskell-|php-|lua-|erlang-|elixir-|neovim-|lib|lib(?=.*-java$)|@)"
    r"|(-java|-dev|-rs|-js|\.js|js|-py|-go|-cpp|-php|\.nvim|-nvim|\.vim|[-.]?\d+(\.\d+)*)$"
)


@lru_cache(maxsize=1)
def listed() -> frozenset[str]:
    lines = (Path(__file__).parent / "exclude.txt").read_text().split("\n")
    return frozenset(n.lower() for line in lines if not line.startswith("#") for n in line.split())


def variants(name: str) -> set[str]:
    """Every reading of a package name that could be the project's: golang-github-spf13-cobra → cobra, spf13-cobra…"""
    name = name.lower()
    names = {name, *name.lstrip("@").split("/")}
    for _ in range(3):
        names |= {_AFFIXES.sub("", n) for n in names}
        names |= {n[3:] for n in names if n.startswith("lib")}
    hosted = re.match(r"golang-(?:github|gitlab|gopkg|golang|k8s|google|bitbucket|uber)(?:-[a-z]+)?-(.+)", name)
    if hosted:
        parts = hosted[1].split("-")
        names |= {"-".join(parts[i:]) for i in range(len(parts))} | {parts[0]}
    elif name.startswith("golang-"):
        parts = name.split("-")[1:]
        names |= {"-".join(parts[i:]) for i in range(len(parts))}
    return {n for n in names if n}


def excluded(name: str, repository: str) -> bool:
    """repository: any text with the project's address in it, or ''."""
    names = variants(name)
    for owner, project in re.findall(r"[\w.-]+\.\w+[/:]([\w.-]+)/([\w.-]+?)(?:\.git|[/\"#?\s]|$)", repository):
        names |= variants(project) | {owner.lower(), f"{owner}/{project}".lower()}
    return not names.isdisjoint(listed())
