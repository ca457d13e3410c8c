"""Exact search: every line, where it is, what it is in; the same lines with and without signatures."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import RunCli
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import is_quick
from repository_tools import Repository, write

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.engine import grep as engine_grep
from codeinfo.errors import UsageError
from codeinfo.operations.search import GrepRequest, GrepResult
from codeinfo.search import literal
from codeinfo.search.literal import Pattern, decode_signatures, matching_lines, signatures_of

KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # of a form that masking knows, and nobody's
FILES = {
    "src/bank.py": (
        "class Account:\n    def deposit(self, cents):\n        # TODO(ada): check the limit\n"
        '        raise ValueError("There was an error parsing the body")\n\n\nLIMIT_CENTS = 100\n'
    ),
    "src/bank_test.py": 'def test_deposit():\n    assert "There was an error" in str(deposit)\n',
    "web/app.ts": "export function deposit() {\n  return 'naïve café' // grün\n}\n",
    "web/app.min.js": "x='There was an error parsing the body';\n",
    "windows.md": "# Title\r\nfirst line\r\nlast word\r\n",
    "latin.txt": "",
    "keys.py": f'import os\nAWS = "{KEY}"  # the limit\n',
    "package-lock.json": '{"name": "deposit"}\n',
    ".env": "LIMIT_CENTS=1\n",
    "picture.png": "LIMIT_CENTS\n",
    "vendor/lib/lib.go": "package lib // LIMIT_CENTS\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = Repository(tmp_path_factory.mktemp("grep") / "bank")
    repository.commit("first", FILES)
    (repository.folder / "latin.txt").write_bytes("Größe des Kontos".encode("latin-1") + b"\n")
    (repository.folder / "windows.md").write_bytes(FILES["windows.md"].encode())
    return repository.folder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    config = Config.load({"embedding.provider": "none", "paths.cache_dir": str(tmp_path / "cache")})
    with Engine(config) as engine:
        yield engine


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_grep, "FEW", 0)


def places(result: GrepResult) -> list[tuple[str, int, int]]:
    return [(match.path, match.line, match.column) for match in result.matches]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (['"There was an error"', "src"], ["src/bank.py:4", "src/bank_test.py:2"]),
        (["/LIMIT_[A-Z]+ = /"], ["src/bank.py:7"]),
        (["-E", "^def test"], ["src/bank_test.py:1"]),
        (["-w", "-i", "limit", "-l", "python"], ["keys.py:2", "src/bank.py:3"]),
    ],
)
def test_a_query_that_looks_exact_is_searched_exactly(
    codeinfo: RunCli, project: Path, query: list[str], expected: list[str]
) -> None:
    done = codeinfo("search", *query, "--json", "--set", "embedding.provider=none", cwd=project)
    found = json.loads(done.stdout)
    assert [f"{match['path']}:{match['line']}" for match in found["matches"]] == expected
    assert found["total"] == len(expected)


def test_options_of_ranked_search_are_refused_and_lines_are_shown(codeinfo: RunCli, project: Path) -> None:
    refused = codeinfo("search", '"deposit"', "--explain", cwd=project)
    assert refused.returncode == 2
    assert "--explain is for ranked search" in refused.stderr
    shown = codeinfo("grep", "There was", "--set", "embedding.provider=none", cwd=project).stdout
    assert "src/bank.py\n    Account.deposit\n      4:27   │" in shown
    assert "3 lines in 3 files" in shown


# --- one line --------------------------------------------------------------------------------------------------------


def columns(pattern: Pattern, text: str) -> list[tuple[int, int]]:
    return [(line.number, line.match_start - line.start) for line in matching_lines(pattern, text.encode())]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a\nb a\n", {}, [(0, 0), (1, 2)]),
        ("banana\nan", {"word": True}, [(1, 0)]),
        ("类client对\nclient 对\n", {"pattern": r"\bclient\b", "regex": True}, [(1, 0)]),
        ("中文 a\n中文a\n", {"pattern": r"\b(?:文|中文)\b", "regex": True}, [(0, 0)]),
        ("été t\n", {"pattern": r"\b[a-z]\b|x", "regex": True}, [(0, 2)]),  # of an alternative: by ASCII
        ("x an\nan, an\nban", {"word": True, "pattern": "an"}, [(0, 2), (1, 0)]),
        ("ÉCOLE\n", {"pattern": "école", "ignore_case": True}, [(0, 0)]),
        ("\u212aelvin\n", {"pattern": "kelvin", "ignore_case": True}, [(0, 0)]),
        ("été\n", {"pattern": "t", "word": True}, []),
        ("one\n\nthree\n", {"pattern": "^$", "regex": True}, [(1, 0)]),
        ("one\ntwo\n", {"pattern": "x*", "regex": True}, [(0, 0), (1, 0)]),
        ("a1\nb\n2c", {"pattern": r"[^a]\s?\d", "regex": True}, []),
        ("größe 1\n", {"pattern": r"^\w+ \d$", "regex": True}, [(0, 0)]),
        ("größe_1\n", {"pattern": r"^[^\W_]+_", "regex": True}, [(0, 0)]),
        ("a\u3000b\n", {"pattern": r"a\sb", "regex": True}, [(0, 0)]),
        # A text that every match has: found first, where no match is, and behind where the match begins.
        ("cost\nno\n1 cost 2 cost\ncost\n3 cost", {"pattern": r"\d cost", "regex": True}, [(2, 0), (4, 0)]),
        ("COST 1\ncost 2\n", {"pattern": r"(?i)cost \d", "regex": True}, [(0, 0), (1, 0)]),
        ("a\u3000b\n", {"pattern": r"a[\S]b", "regex": True}, []),
    ],
)
def test_a_line_matches(text: str, options: dict[str, str | bool], expected: list[tuple[int, int]]) -> None:
    given = {"pattern": "a", **options} if options.get("word") is not True else {"pattern": "an", **options}
    pattern = Pattern(str(given.pop("pattern")), **given)  # type: ignore[arg-type]
    assert columns(pattern, text) == expected


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(?=b)", "lookaround is not supported, at character 2"),
        ("(?<!a)b", "lookaround is not supported, at character 1"),
        (r"(a)\1", "backreferences are not supported, at character 4"),
        ("foo(bar", "not valid at character 4: missing )"),
        ("a[z-a]", "not valid at character 3: invalid character class range"),
        ("x**", "not valid at character 2: bad repetition operator"),
        (r"a\nb", r"has \n"),
        ("((((((((((x{1000}){9}){9}", "not valid"),
        (r"(\pL{500}\pL{500}\pL{500}){2}", "too large"),
        ("(" * 60 + "x" + ")" * 60, "more than 50 groups"),
        ("x" * 2001, "2,001 characters"),
        ("a\nb", "several lines"),
        ("", "empty"),
    ],
)
def test_what_is_refused_is_said_with_its_place(pattern: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        Pattern(pattern, regex=True)
    assert said in refused.value.what
    assert refused.value.next_step


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a+)+$", "(.*a){20}b", r"(\w+\s?)+x"])
def test_a_hostile_expression_takes_linear_time(pattern: str) -> None:
    text = b"a" * 200_000 + b"\n"

    def match() -> None:
        assert list(matching_lines(Pattern(pattern, regex=True), text)) in ([], [(0, 0, 0, len(text) - 1)])

    assert is_quick(match, 5)


# --- what a pattern needs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "runs", "alternatives"),
    [
        ("hello world", ["hello world"], 0),
        (r"hel+o w", ["hel", "lo w"], 0),
        (r"abc?def", ["def"], 0),
        (r"abcd{0,2}efg", ["abc", "efg"], 0),
        (r"func \w+Handler\(", ["func ", "Handler("], 0),
        (r"(?:foo|bar)baz", ["baz"], 1),
        (r"(abcd)+", ["abcd"], 0),
        (r"(abcd)*xyz", ["xyz"], 0),
        (r"abc|xyz", [], 1),
        (r"[abc]def\.", ["def."], 0),
        (r"a.b", [], 0),
        (r"(?i)größe", ["gr"][:0], 0),
    ],
)
def test_needs(pattern: str, runs: list[str], alternatives: int) -> None:
    needs = Pattern(pattern, regex=True).needs
    assert [run.decode() for run in needs.runs] == runs
    assert len(needs.one_of) == alternatives


_LINES = st.text(st.sampled_from("abAB k\u212a\u017fsß\n(.1"), max_size=60)
_PIECES = st.sampled_from(
    ["a", "b", "ab", "k", "ß", r"\(", r"\.", ".", "a*", "b+", "(ab|k)", "(?:a|)", "[^a]", "A?", r"\w+", "bab"]
)


@settings(max_examples=300)
@given(st.lists(_LINES, min_size=1, max_size=6), st.lists(_PIECES, min_size=1, max_size=7), st.booleans())
def test_signatures_never_leave_out_a_match(texts: list[str], pieces: list[str], ignore_case: bool) -> None:
    pattern = Pattern("".join(pieces), regex=True, ignore_case=ignore_case)
    signatures = signatures_of((str(at), text.encode(), True) for at, text in enumerate(texts))
    chosen = signatures.choose(pattern.needs)
    for at, text in enumerate(texts):
        if text and columns(pattern, text):
            assert chosen is None or chosen[signatures.first[str(at)]]


def test_signatures_are_read_as_written_and_damage_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal, "PAGE_BYTES", 64)
    contents = {str(at): b"".join(b"line %d of %d\n" % (line, at) for line in range(20)) for at in range(9)}
    some = signatures_of((key, contents[key], True) for key in "012345")
    more = signatures_of((key, contents[key], False) for key in "678")
    both = some.merge(more, set("1345"))
    data = both.encode()
    read = decode_signatures(memoryview(data))
    assert set(read.files) == set("1345678")
    assert not read.files["7"].plain
    pages = read.files["4"].pages
    assert b"".join(contents["4"][page.start : page.end] for page in pages) == contents["4"]
    assert [page.line for page in pages] == [contents["4"][: page.start].count(b"\n") for page in pages]
    found = read.choose(Pattern("19 of 4").needs)
    assert found is not None
    assert np.flatnonzero(found).tolist() == [read.first["4"] + len(pages) - 1]
    for at in (5, 40):
        with pytest.raises(ValueError):
            decode_signatures(memoryview(data[:at] + b"\x07" + data[at + 1 :]))
    with pytest.raises(ValueError):
        decode_signatures(memoryview(data[:-1]))
    blank = decode_signatures(memoryview(data[: -literal.BUCKETS * 3] + bytes(literal.BUCKETS * 3)))
    assert read.is_sound()
    assert not blank.is_sound()
    with pytest.raises(ValueError):
        blank.choose(Pattern("line 1 of 5, line 19 of 8").needs)


# --- a project -------------------------------------------------------------------------------------------------------


def test_every_line_with_its_place_and_definition(engine: Engine, project: Path) -> None:
    result = engine.grep(GrepRequest("There was an error", (str(project),)))
    assert [(match.path, match.line, match.column, match.symbol) for match in result.matches] == [
        ("src/bank.py", 4, 27, "Account.deposit"),
        ("src/bank_test.py", 2, 13, "test_deposit"),
        ("web/app.min.js", 1, 4, ""),
    ]
    assert (result.total, result.files) == (3, 3)
    assert result.matches[0].text.strip() == 'raise ValueError("There was an error parsing the body")'
    assert result.matches[0].length == len("There was an error")


def test_filters(engine: Engine, project: Path) -> None:
    def found(pattern: str, **filters: tuple[str, ...]) -> set[str]:
        return {match.path for match in engine.grep(GrepRequest(pattern, (str(project),), **filters)).matches}  # type: ignore[arg-type]

    assert found("deposit") == {"src/bank.py", "src/bank_test.py", "web/app.ts", "package-lock.json"}
    assert found("deposit", languages=("Python",)) == {"src/bank.py", "src/bank_test.py"}
    assert found("deposit", kinds=("tests",)) == {"src/bank_test.py"}
    assert found("deposit", globs=("web/**",)) == {"web/app.ts"}
    assert found("deposit", symbol_kinds=("method",)) == {"src/bank.py"}
    with pytest.raises(UsageError):
        found("deposit", globs=("",))


def test_the_limit_is_announced_and_the_count_exact(engine: Engine, project: Path) -> None:
    result = engine.grep(GrepRequest("e", (str(project),), limit=2))
    assert len(result.matches) == 2
    assert result.total > 9
    assert f"only 2 of {result.total} lines shown" in result.notes[0]


@pytest.mark.usefixtures("signed")
def test_copies_count_as_often_as_they_are_there(engine: Engine, tmp_path: Path) -> None:
    root = tmp_path / "copies"
    root.mkdir()
    for number in range(5):
        (root / f"{number}.py").write_text("def pay():\n    return 'copied'\n")
    (root / "other.py").write_text("'copied'\n'copied'\n")
    for _ in range(2):
        result = engine.grep(GrepRequest("copied", (str(root),), limit=1))
        assert (len(result.matches), result.total, result.files) == (1, 7, 6)
        functions = engine.grep(GrepRequest("copied", (str(root),), limit=1, symbol_kinds=("function",)))
        assert (functions.total, functions.files) == (5, 5)
        (root / "4.py").write_text("'gone'\n")
        assert engine.grep(GrepRequest("copied", (str(root),), limit=1)).total == 6
        (root / "4.py").write_text("def pay():\n    return 'copied'\n")


def test_what_is_not_searched_is_said(engine: Engine, project: Path) -> None:
    result = engine.grep(GrepRequest("LIMIT_CENTS", (str(project),)))
    assert places(result) == [("src/bank.py", 7, 1)]
    (note,) = result.notes
    assert "binary files (1), files that hold secrets (1), folders of installed packages (1)" in note


@pytest.mark.usefixtures("signed")
def test_secrets_are_neither_shown_nor_found(engine: Engine, project: Path) -> None:
    for _ in range(2):  # the second time by signature
        shown = engine.grep(GrepRequest("the limit", (str(project),)))
        assert [match.text for match in shown.matches if match.path == "keys.py"] == ['AWS = "[masked]"  # the limit']
        assert [match.column for match in shown.matches if match.path == "keys.py"] == [33]
        assert engine.grep(GrepRequest(KEY[:12], (str(project),))).total == 0
        assert engine.grep(GrepRequest("masked", (str(project),))).total == 0


def test_line_ends_and_encodings(engine: Engine, project: Path) -> None:
    def found(pattern: str) -> list[tuple[str, int, int]]:
        return places(engine.grep(GrepRequest(pattern, (str(project),), regex=True)))

    assert found("word$") == [("windows.md", 3, 6)]
    assert found("Größe") == [("latin.txt", 1, 1)]
    assert found("café' // gr") == [("web/app.ts", 2, 17)]


@pytest.mark.usefixtures("signed")
def test_changed_new_and_removed_files(engine: Engine, tmp_path: Path) -> None:
    root = tmp_path / "changing"
    write(root, {f"file_{at}.py": f"def number_{at}():\n    return 'old value {at}'\n" for at in range(6)})
    for path in root.iterdir():
        os.utime(path, (1, 1))  # what was written a moment ago gets no signature

    def found(pattern: str, *, refresh: bool = True) -> list[tuple[str, int, int]]:
        return places(engine.grep(GrepRequest(pattern, (str(root),), refresh=refresh)))

    assert len(found("old value")) == 6
    (root / "file_1.py").write_text("# new value\n")
    (root / "file_2.py").unlink()
    write(root, {"fresh.py": "x = 'new value'\n"})
    assert found("new value") == [("file_1.py", 1, 3), ("fresh.py", 1, 6)]
    assert [path for path, _, _ in found("old value")] == ["file_0.py", "file_3.py", "file_4.py", "file_5.py"]
    sidecar = next((tmp_path / "cache").rglob(engine_grep.SIGNATURES_FILE))
    whole = sidecar.read_bytes()
    sidecar.write_bytes(whole[:100])
    assert len(found("old value")) == 4
    sidecar.write_bytes(whole[: -len(whole) // 2] + bytes(len(whole) // 2))  # no file seems to have anything
    assert len(found("old value")) == 4
    assert len(found("old value")) == 4
    assert len(sidecar.read_bytes()) > 1000


def test_files_that_are_not_indexed_yet_are_searched(tmp_path: Path) -> None:
    """While another process indexes, what it has not come to is read as it is."""
    root = tmp_path / "busy"
    write(root, {"one.py": "def one():\n    return 'needle'\n"})
    config = Config.load({"embedding.provider": "none", "paths.cache_dir": str(tmp_path / "cache")})
    with Engine(config) as engine:
        engine.grep(GrepRequest("needle", (str(root),)))
        write(root, {"two.py": f"# needle\nAWS = '{KEY}'\n"})
        with engine.indexes.of(root).folder.lock():
            result = engine.grep(GrepRequest("needle|AWS", (str(root),), regex=True))
    assert [(match.path, match.symbol) for match in result.matches] == [
        ("one.py", "one"),
        ("two.py", ""),
        ("two.py", ""),
    ]
    assert KEY not in str(result.matches)
    assert any("files that are not indexed as they are now (1)" in note for note in result.notes)


def test_several_roots(engine: Engine, project: Path, tmp_path: Path) -> None:
    write(tmp_path / "other", {"note.md": "# Deposit\n\na deposit\n"})
    paths = (str(project), str(tmp_path / "other"), str(project))
    result = engine.grep(GrepRequest("deposit", paths, word=True))
    assert {match.root for match in result.matches} == {str(project), str(tmp_path / "other")}
    assert result.total == len(result.matches) == len(set(result.matches))


def test_long_lines_are_cut_around_the_match(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "long", {"data.txt": "a" * 5000 + "needle" + "b" * 5000 + "\n"})
    (match,) = engine.grep(GrepRequest("needle", (str(tmp_path / "long"),))).matches
    assert (match.column, match.length) == (5001, 6)
    assert "needle" in match.text
    assert len(match.text) == engine_grep.MAX_LINE_CHARS + 2


def test_the_same_lines_as_ripgrep(engine: Engine, project: Path) -> None:
    rg = next((folder for folder in os.environ["PATH"].split(":") if os.path.exists(f"{folder}/rg")), None)
    if rg is None:
        pytest.skip("ripgrep is not installed")
    for pattern in ("e", r"\w+_\w+", "^.{3,9}$", "[A-Z]", r"(error|limit)\b", "ü"):
        options = ("--no-config", "--no-ignore", "--hidden", "--crlf", "-n", "--no-heading", "--null")
        out = subprocess.run([f"{rg}/rg", *options, "-e", pattern, "."], cwd=project, capture_output=True, check=False)
        theirs = re.findall(rb"^\./(.*?)\0(\d+):", out.stdout, re.MULTILINE)
        searched = {path.encode() for path in FILES} - {b".env", b"picture.png", b"vendor/lib/lib.go", b"latin.txt"}
        expected = {(path.decode(), int(line)) for path, line in theirs if path in searched}
        result = engine.grep(GrepRequest(pattern, (str(project),), regex=True, limit=1000))
        assert {(match.path, match.line) for match in result.matches} - {("latin.txt", 1)} == expected
