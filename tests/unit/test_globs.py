"""Globs that somebody else wrote: what they mean, and that no list of them keeps anyone waiting."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec
from patience import is_quick
from web_tools import environment_of, first_search, make_project, served

from codeinfo.collections import collection_of, read_manifest
from codeinfo.errors import UsageError
from codeinfo.globs import MAX_GLOB_CHARS, MAX_GLOBS, match_globs
from codeinfo.sources import ignore

HOSTILE = "**/" * 60 + "zzz"
DEEP = "/".join(["a"] * 400)


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
        ("./a.py", ["a.py"], ["x/a.py"]),
        ("./src/**", ["src/a", "src/x/y"], ["src", "x/src/a"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "x/src/a"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "src/a.md"]),
        ("**/x/**/y", ["x/y", "a/x/b/c/y"], ["x", "y", "a/y/x"]),
        ("docs/", ["docs/a", "x/docs/y/a"], ["docs", "xdocs/a"]),
        ("/docs/", ["docs/a"], ["x/docs/a"]),
        ("a?c", ["abc", "x/abc"], ["a/c", "ac"]),
        ("[!a]b*[0-9]", ["cb9", "cbx9"], ["ab9", "cb"]),
        ("**", ["a", "a/b"], []),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("A.py", ["A.py"], ["a.py"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.t", "a.{ts,tsx}"]),
        ("{src,lib/{a,b}}/**", ["src/x", "lib/a/x", "lib/b/y/z"], ["lib/x", "x/src/y"]),
        ("{a}.{py", ["{a}.{py"], ["a.py"]),
        ("a*b*c*d", ["abcd", "axbxcxd"], ["abdc"]),
    ],
)
def test_what_a_glob_means(glob: str, matching: list[str], others: list[str]) -> None:
    assert match_globs(matching, [glob]) == [True] * len(matching)
    assert match_globs(others, [glob]) == [False] * len(others)
    assert match_globs([*matching, *others], [f"!{glob}"]) == [False] * len(matching) + [True] * len(others)


def test_globs_of_a_list_work_together() -> None:
    paths = ["a.py", "a.md", "tests/a.py", "b/c.md"]
    assert match_globs(paths, ["*.py", "b/*", "!tests/"]) == [True, False, False, True]
    assert match_globs(paths, []) == [True] * 4


_PARTS = st.lists(st.sampled_from(["a", "b", "ab", "*", "**", "a*", "?"]), min_size=1, max_size=6)
_NAMES = st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=6)


@given(_PARTS, _NAMES)
def test_globs_agree_with_trying_every_way(parts: list[str], names: list[str]) -> None:
    def fits(parts: list[str], names: list[str]) -> bool:
        if not parts:
            return not names
        if parts[0] == "**":
            least = 1 if len(parts) == 1 else 0  # what lies in a folder, not the folder itself
            return any(fits(parts[1:], names[count:]) for count in range(least, len(names) + 1))
        return bool(names) and match_globs([names[0]], [f"/{parts[0]}"])[0] and fits(parts[1:], names[1:])

    assert match_globs(["/".join(names)], ["/" + "/".join(parts)]) == [fits(parts, names)]


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        (HOSTILE, DEEP),
        ("**/a/" * 200 + "z", DEEP),
        ("**/a*/" * 200 + "z", DEEP),
        ("*a" * 1000 + "b", "a" * 4000),
        ("/".join(["*"] * 1000), DEEP),
        ("[!b]*" * 300 + "z", "a" * 4000),
    ],
)
def test_a_hostile_glob_takes_no_time(glob: str, path: str) -> None:
    matched = list[bool]()
    assert is_quick(lambda: matched.extend(match_globs([f"{path}/{number}" for number in range(100)], [glob])), 5)
    assert not any(matched)


def test_time_grows_with_the_length_of_a_path() -> None:
    def seconds(depth: int) -> float:
        path = "/".join(["a"] * depth)
        started = time.process_time()
        for number in range(3):
            match_globs([f"{path}/{number}"], ["**/a/**/a*/" * 100 + "z"])
        return time.process_time() - started

    seconds(100)
    assert min(seconds(2000) for _ in range(3)) < 60 * min(seconds(100) for _ in range(3))  # 20 times as long a path


def test_a_hostile_ignore_line_takes_no_time() -> None:
    def match() -> None:
        for line in ("**/a/" * 60 + "z", "**/a/**/a/**/a/**/a/**/a/**/z", "**/*a/**/*a/**/z", "*a" * 2000 + "z"):
            file = ignore.parse("", ".gitignore", line)
            assert not file.refused_lines
            assert file.match(DEEP) is None

    assert is_quick(match, 5)


@pytest.mark.parametrize(
    ("line", "matching", "others"),
    [
        ("**/x/**/y", ["x/y", "a/x/b/y", "a/x/b/y/z"], ["x", "y", "a/y"]),
        ("a/**/b/**/c/", ["a/b/c/", "a/1/b/2/c/d"], ["a/b/c", "x/a/b/c/"]),
        ("**/logs/**", ["logs/a", "x/logs/y/z", "logs/"], ["logs"]),
        (r"**/\*x/**/y", ["*x/y"], ["ax/y"]),
        ("*a*b*c*d", ["xa-b-cd", "é/abcd/e", "\udcffabcd"], ["abc", "a/bcd"]),
    ],
)
def test_ignore_lines_with_several_depths_mean_what_they_meant(
    line: str, matching: list[str], others: list[str]
) -> None:
    file = ignore.parse("", ".gitignore", line)
    assert [path for path in matching if not file.match(path)] == []
    assert [path for path in others if file.match(path)] == []


LINES = r"a a/ !a *.py x* !x? /x*/ a/* /a/b* **/b a/** !/a/bc [ab]c/ b/x*/c \!a".split()


def test_the_last_line_that_matches_decides_however_it_is_looked_up() -> None:
    drawn = random.Random(7)
    for _ in range(200):
        lines = [drawn.choice(LINES) for _ in range(drawn.randint(1, 6))]
        file, patterns = ignore.parse("", ".gitignore", "\n".join(lines)), GitIgnoreSpec.from_lines(lines).patterns
        for _ in range(50):
            names = [drawn.choice(("a", "b", "ac", "bc", "x", "x1", "c.py", "!a")) for _ in range(drawn.randint(1, 4))]
            path = "/".join(names) + drawn.choice(("", "/"))
            matching = [at for at, pattern in enumerate(patterns, 1) if pattern.regex and pattern.regex.match(path)]
            found = file.match(path)
            assert (found and found.source) == (f".gitignore:{matching[-1]}" if matching else None), (lines, path)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_lists_that_are_too_long_are_refused() -> None:
    for globs, says in (
        (["a"] * (MAX_GLOBS + 1), f"{MAX_GLOBS + 1} globs are too many"),
        (["a" * (MAX_GLOB_CHARS + 1)], "characters together"),
        (["!"], "a glob is empty"),
        (["{a,b}" * 500], "globs are too many"),
        (["{" * 900 + "a," + "}" * 900, "{" + "," * 2000 + "}"], "globs are too many"),
    ):
        with pytest.raises(UsageError, match=says) as refused:
            match_globs([], globs)
        assert refused.value.next_step
        with pytest.raises(UsageError, match=f"the manifest is not valid: .*{says}"):
            read_manifest(json.dumps({"name": "a", "version": "1", "sources": {"glob": globs}}))
        with pytest.raises(UsageError, match=says):
            collection_of(["."], globs=globs)


# --- a server ---------------------------------------------------------------------------------------------------------


def test_a_search_with_a_hostile_glob_does_not_stop_the_server(tmp_path: Path) -> None:
    project = make_project(tmp_path / "bank")
    deep = project.joinpath(*["a"] * 40)
    deep.mkdir(parents=True)
    (deep / "deep.py").write_text("def transfer_deep():\n    return 1\n")
    with served(project, tmp_path / "home") as address:
        first_search(address)

        def follow() -> None:
            headers = {"content-type": "application/json"}
            body = json.dumps({"query": "transfer", "globs": [HOSTILE]}).encode()
            urllib.request.urlopen(
                urllib.request.Request(f"{address}/api/v1/search", body, headers), timeout=120
            ).read()

        asking = threading.Thread(target=follow, daemon=True)
        asking.start()
        for _ in range(5):
            time.sleep(0.1)
            with urllib.request.urlopen(f"{address}/health", timeout=120) as reply:
                assert reply.status == 200
        asking.join(120)
        assert not asking.is_alive()


def test_a_package_with_hostile_globs_is_synced_or_refused(tmp_path: Path) -> None:
    package = tmp_path / "package"
    deep = package.joinpath(*["a"] * 60)
    deep.mkdir(parents=True)
    (deep / "deep.md").write_text("# Deep\n\nwords\n")
    manifest = {"name": "p", "version": "1", "sources": {"glob": [HOSTILE, "**/a/" * 60 + "*.md"]}}
    (package / "manifest.json").write_text(json.dumps(manifest))
    done = subprocess.run(
        [sys.executable, "-m", "codeinfo", "docs", "add", str(package), "--json"],
        env=environment_of(tmp_path / "home"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reports"][0]["plan"]["added"] == ["/".join(["a"] * 60) + "/deep.md"]
