"""The command line: parsing, JSON, exit codes and manners, with a scripted engine."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from codeinfo import errors
from codeinfo.model import Distance, Dropped, Hit, Intent, Quality, SearchResult, Signal, Skip
from codeinfo.operations import OPERATIONS, search
from codeinfo.operations.answers import AgentRunRequest
from codeinfo.operations.base import EmptyRequest
from codeinfo.operations.knowledge import MemoryList
from codeinfo.shells import cli

HIT = Hit(
    root="/repo",
    path="src/a.py",
    start_line=3,
    end_line=4,
    text="def parse_header(line):\n    return line.split(':')",
    text_line=3,
    score=0.9,
    chunk_id=1,
    symbol="parse_header",
    distance=Distance(0.8123),
    signals=(Signal("definition", 1.0, 0.4), Signal("depth", 2.0, 0.94, factor=True)),
    ranks={"keyword": 1},
    more=((20, 30),),
)
FOUND = SearchResult(
    query="parse header",
    intent=Intent.CONCEPTUAL,
    hits=(HIT,),
    quality=Quality("low_confidence", 0.3, ("one weak match",), "Name a symbol."),
    dropped=(Dropped("src/b.py", 1, 9, "cutoff", "1.61 > 1.4"),),
    notes=("keyword search only",),
    took_ms=3.2,
)


class Scripted:
    """Stands in for the engine: returns or raises what it is given, and keeps the request."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.request: Any = None
        self.closed = False
        self.indexes = types.SimpleNamespace(locate=os.path.abspath)

    def __call__(self, config: Any) -> Scripted:
        return self

    def __getattr__(self, name: str) -> Any:
        def answer(request: Any, progress: Any = None) -> Any:
            self.request = request
            if isinstance(self.outcome, BaseException):
                raise self.outcome
            return self.outcome

        return answer

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scripted:
    scripted = Scripted(FOUND)
    module = types.ModuleType("codeinfo.engine")
    module.Engine = scripted  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "codeinfo.engine", module)
    monkeypatch.chdir(tmp_path)
    return scripted


# --- arguments -----------------------------------------------------------------------------------------------------


def test_arguments_become_the_request(engine: Scripted, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    line = (
        "search q one two -n 3 -l python --language go -g !x/** -k tests --intent flow --max-tokens 9 -e --no-snippets"
    )
    assert cli.run([*line.split(), "--no-refresh", "--changed-since", "main", "--symbol-kind", "class"]) == 0
    assert engine.request == search.SearchRequest(
        query="q",
        paths=("one", "two"),
        limit=3,
        intent="FLOW",
        languages=("python", "go"),
        globs=("!x/**",),
        kinds=("tests",),
        symbol_kinds=("class",),
        changed_since="main",
        max_tokens=9,
        explain=True,
        snippets=False,
        refresh=False,
    )
    assert engine.closed


def test_defaults_are_those_of_the_request(engine: Scripted) -> None:
    assert cli.run(["search", "q"]) == 0
    assert engine.request == search.SearchRequest("q")


@pytest.mark.parametrize(
    "line",
    [
        "search",
        "search q --limit 0",
        "search q --limit x",
        "search q --kind novel",
        "frobnicate",
        "why",
        "index --nope",
    ],
)
def test_wrong_usage_is_2(line: str, engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "--help`" in err
    assert ("Usage: codeinfo " in err) is (line != "frobnicate")


def test_wrong_usage_in_json(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["search", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["code"] == "VALIDATION_FAILED"


@pytest.mark.parametrize("line", ["help", "--help", "-h", "search --help", "clear -h", "config show -h"])
def test_help(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(line.split()) == 0
    assert capsys.readouterr().out.startswith("Usage: codeinfo")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == "codeinfo 0.1.0\n"


@pytest.mark.parametrize("shell", cli.SHELLS)
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", shell]) == 0
    assert "_CODEINFO_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize("typed", ["why READ", "index ", "search words READ", "impact --root p", "docs add ./d"])
def test_paths_are_completed(typed: str) -> None:
    words = {"COMP_WORDS": f"codeinfo {typed}", "COMP_CWORD": str(len(typed.split(" ")))}
    env = {**os.environ, **words, "_CODEINFO_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "codeinfo"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == f"file,{typed.rpartition(' ')[2]}\n", done.stderr


# --- errors and exit codes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (errors.UsageError("no"), 2, "VALIDATION_FAILED"),
        (errors.RootRefused("no"), 2, "ROOT_REFUSED"),
        (errors.Busy("no", next_step="Wait"), 4, "BUSY"),
        (errors.IndexDamaged("no"), 5, "INDEX_DAMAGED"),
        (errors.ProviderError("no"), 6, "PROVIDER_FAILED"),
        (errors.OutOfSpace("no"), 7, "OUT_OF_SPACE"),
        (MemoryError(), 7, "OUT_OF_SPACE"),
        (OSError(28, "No space left on device"), 7, "OUT_OF_SPACE"),
        (KeyboardInterrupt(), 130, "INTERRUPTED"),
        (RuntimeError("oh"), 1, "INTERNAL"),
    ],
)
def test_errors_have_exit_codes_and_json(
    error: BaseException, code: int, name: str, engine: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.outcome = error
    assert cli.run(["search", "q"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: " in err
    assert "Traceback" not in err
    assert cli.run(["search", "q", "--json"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["code"] == name
    assert engine.closed


def test_debug_shows_the_traceback(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    engine.outcome = RuntimeError("oh")
    assert cli.run(["search", "q", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_skips_that_matter_are_3(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    report = search.IndexReport(root="/r", files=1, chunks=2, added=1, skipped=(Skip("b", "vendor"),))
    engine.outcome = search.IndexResponse((report,))
    assert cli.run(["index"]) == 0
    assert "1 excluded by a rule" in capsys.readouterr().out
    report = search.IndexReport(root="/r", files=1, chunks=2, skipped=(Skip("a", "unreadable", matters=True),))
    engine.outcome = search.IndexResponse((report,))
    assert cli.run(["index"]) == 3
    assert "skipped a: unreadable" in capsys.readouterr().out


def test_a_failed_check_is_3(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    engine.outcome = search.DoctorReport((search.Check("git", "fail", "not found", "Install git."),))
    assert cli.run(["doctor"]) == 3
    assert "Install git." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("serach", "codeinfo search` To search for it: `codeinfo search serach`"),
        ("serach 'the limit'", "codeinfo search 'the limit'`"),
        ("conversations shwo abc", "codeinfo conversations show abc`"),
        ("search --limt 3 retry", "--limit`"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_right_one(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(shlex.split(typed)) == 2
    said = capsys.readouterr().err
    assert f"Did you mean `{meant}" in said.replace("?", "")
    assert said.count("To search for it") == meant.count("To search for it")


@pytest.mark.parametrize(
    "typed", ["SongStorage", "MAX_SONGS", "src/app.py:42", "Song::play", "App\\Song", "GET /songs", "v2"]
)
def test_what_no_command_is_called_is_searched_for(engine: Scripted, typed: str) -> None:
    assert cli.run([typed, "--limit", "3"]) == 0
    assert (engine.request.query, engine.request.limit) == (typed, 3)


def test_a_report_comes_from_a_pipe(engine: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Error: no route\n  at caf\xe9.py:3\n\n")))
    assert cli.run(["search", "-", "-n", "3"]) == 0
    assert engine.request.query == "Error: no route\n  at caf\ufffd.py:3"
    cli.run(["grep", "-"])
    assert engine.request.pattern == "-"


@pytest.mark.parametrize("typed", ["Search", "song", ".", "SERACH", "../"])
def test_a_single_word_that_may_be_a_mistyped_command_is_refused(engine: Scripted, typed: str) -> None:
    assert cli.run([typed]) == 2
    assert engine.request is None


def test_a_command_that_deletes_is_not_suggested_for_a_vague_likeness(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["card"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: no such command 'card'\n  To search for it: `codeinfo search card`")
    assert cli.run(["card", "--json"]) == 2
    assert "codeinfo search card" in json.loads(capsys.readouterr().err)["error"]["next"]
    cli.run(["claer", "."])
    assert "Did you mean `codeinfo clear .`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--json search retry", "codeinfo search --json retry"),
        ("-n 3 'the limit'", "codeinfo search -n 3 'the limit'"),
        ("--set index.workers=1 status", "codeinfo status --set index.workers=1"),
    ],
)
def test_an_option_before_the_command_is_answered_with_the_right_order(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(shlex.split(typed)) == 2
    said = capsys.readouterr().err
    assert f"Try `{meant}`" in said
    assert "belongs behind the command" in said


@pytest.mark.parametrize(("typed", "command"), [("", "search"), ("search", "search"), ("ask", "ask"), ("map", "")])
def test_an_option_of_the_project_can_be_searched_for(
    typed: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*typed.split(), "--no-build-isolation"]) == 2
    said = capsys.readouterr().err
    assert "no such option '--no-build-isolation'" in said
    assert (f"To search for it: `codeinfo {command} -- --no-build-isolation`" in said) == bool(command)


@pytest.mark.parametrize("typed", ["review --base main", "search retry --path src", "docs search --queries retry"])
def test_an_argument_given_as_an_option_is_explained(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(shlex.split(typed)) == 2
    problem, usage = capsys.readouterr().err.splitlines()
    assert "is not an option: give its value alone" in problem
    assert "Usage: codeinfo" in usage


def test_each_command_has_an_example_that_it_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    def commands(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        for name in group.list_commands(click.Context(group)):
            found = group.get_command(click.Context(group), name)
            assert found is not None
            here = (*words, *name.split())
            yield from commands(found, here) if isinstance(found, click.Group) else [(here, found)]

    lines = (Path(cli.__file__).parent / "examples.txt").read_text().splitlines()
    known = dict(commands(cli.cli, ()))
    known["eval", "answers"] = cli.command(OPERATIONS["eval answers"])
    shown = set()
    for line in lines:
        words = tuple(shlex.split(line.partition(" >")[0]))[1:]
        name = max((one for one in known if words[: len(one)] == one), key=len)
        known[name].make_context(" ".join(name), list(words[len(name) :]))
        shown.add(name)
    needed = {name for name, one in known.items() if any(item.required for item in one.params)}
    assert needed <= shown, "what needs an argument has an example"
    assert max(map(len, lines)) <= 78
    assert cli.run(["docs", "ask", "--help"]) == 0
    assert capsys.readouterr().out.endswith('\n\nExample:\n  codeinfo docs ask "how long is the warranty?"\n')


@pytest.mark.parametrize("typed", ["", "  "])
def test_an_empty_query_is_no_unknown_command(
    typed: str, own_folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([typed]) == 2
    assert "the query is empty" in capsys.readouterr().err
    assert not list(own_folders.glob("cache/**/index.db")), "something was indexed for it"


def test_the_choices_of_a_missing_argument_are_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion"]) == 2
    assert "Choose from: bash, zsh, fish\n" in capsys.readouterr().err


def test_what_must_be_named_is_asked_for_before_any_question(
    engine: Scripted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for typed, name in (("conversations delete", "ID…"), ("docs remove", "COLLECTION…"), ("docs search", "QUERY…")):
        assert cli.run(typed.split()) == 2
        assert f"missing argument '{name}'" in capsys.readouterr().err


def test_a_newcomer_sees_a_few_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    lines = capsys.readouterr().out.splitlines()
    typed = [line.split()[1] for line in lines if line.startswith("  codeinfo ")]
    assert len(lines) < 15
    assert max(map(len, lines)) <= 80
    assert [name for name in typed if not name.startswith('"')] == ["ask", "map", "explore", "install", "serve"]
    assert set(typed) - set(cli.cli.list_commands(None)) == {'"where'}  # type: ignore[arg-type]
    assert lines[-1] == "All commands: codeinfo --help"


def test_a_project_without_memories_says_how_to_write_one(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    vars(engine)["knowledge"] = types.SimpleNamespace(memory_list=lambda request, progress=None: MemoryList((), 0))
    assert cli.run(["memory", "list"]) == 0
    assert capsys.readouterr().out == "No memories yet: `codeinfo remember` writes one down.\n"


def test_help_shows_every_command_once_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    out = capsys.readouterr().out.partition("Exit codes:")[0]
    for name in cli.cli.list_commands(None):  # type: ignore[arg-type]
        assert out.count(f"\n  {name} ") == 1
    assert "..." not in out.partition("Search and ask:")[2]
    assert cli.run(["chat", "--help"]) == 0
    assert "--json" not in capsys.readouterr().out  # which it refuses
    assert cli.run(["refs", "--help"]) == 0
    assert "NAME [PATH]" in capsys.readouterr().out
    assert cli.run(["remember", "--help"]) == 0
    assert "[default: convention]" in capsys.readouterr().out
    assert cli.run(["vector-search", "--help"]) == 0
    assert "None" not in capsys.readouterr().out


def test_wrong_settings_are_refused(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["search", "q", "--set", "index.workers"]) == 2
    assert cli.run(["search", "q", "--set", "index.worker=1"]) == 2
    assert "Did you mean index.workers?" in capsys.readouterr().err


def test_numbers_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["team", "token", "revoke", "laptop"]) == 2
    assert cli.run(["search", "q", "--limit", "many"]) == 2
    said = capsys.readouterr().err
    assert "'laptop' is not a valid integer" in said
    assert "'many' is not a valid whole number" in said
    assert cli.run(["search", "q", "--limit", "0"]) == 2
    assert "0 is not in the range 1 to 1000" in capsys.readouterr().err


def test_clear_asks_only_people(
    engine: Scripted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.outcome = search.ClearReport((search.Cleared("/r", "/c", True, 5_000_000),))
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert cli.run(["clear"]) == 0  # no terminal: nobody to ask
    engine.request = None
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert cli.run(["clear"]) == 0
    said = capsys.readouterr().err
    assert f"Delete the index of {os.getcwd()}?" in said
    assert "Nothing was done." in said
    assert cli.run(["clear"]) == 130  # nobody answers any more
    assert engine.request is None
    assert cli.run(["clear", "--yes"]) == 0
    assert engine.request == search.ClearRequest()


# --- output --------------------------------------------------------------------------------------------------------


def test_json_has_every_field(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["search", "q", "--json"]) == 0
    out, err = capsys.readouterr()
    value = json.loads(out)
    assert err == ""
    assert value["intent"] == "CONCEPTUAL"
    assert value["hits"][0]["distance"] == {"value": 0.8123, "metric": "squared_l2"}
    assert value["hits"][0]["more"] == [[20, 30]]


def test_human_output(engine: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["search", "q", "--explain"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        " 1  /repo/src/a.py:3-4  parse_header",
        "    distance 0.812 (squared L2, lower is closer) · also lines 20-30",
        "    score 0.9000 · keyword #1",
        "      definition  1  +0.4",
        "      depth       2  ×0.94",
        "    3 │ def parse_header(line):",
        "    4 │     return line.split(':')",
        "",
        "",
        "Left out",
        "  src/b.py:1-9  cutoff  1.61 > 1.4",
        "30% sure · one weak match · 1 result · read as conceptual · 3 ms",
        "hint: Name a symbol.",
        "reranker: off",
        "note: keyword search only",
    ]


# --- as a process --------------------------------------------------------------------------------------------------


def test_config_show(codeinfo: Any, tmp_path: Path) -> None:
    (tmp_path / ".codeinfo.toml").write_text('[index]\nchunk_chars = 600\n[embedding]\nmodel = "x"\n')
    done = codeinfo("config", "show", "--json", "--set", "index.workers=2", cwd=tmp_path)
    value = json.loads(done.stdout)
    origins = {row["key"]: (row["value"], row["origin"].split()[0]) for row in value["settings"]}
    assert origins["index.chunk_chars"] == (600, "project")
    assert origins["index.workers"] == (2, "flag")
    assert origins["embedding.model"] == ("", "default")
    assert "may not decide" in value["notes"][0]
    shown = codeinfo("config", "show", cwd=tmp_path).stdout
    assert "chunk_chars = 600  # project file" in shown
    settings = tomllib.loads(shown.partition("note:")[0])  # a line of it can be copied into a settings file
    assert settings["index"]["submodules"] is False
    assert settings["embedding"]["provider"] == "builtin"
    assert settings["trust"]["projects"] == []


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "codeinfo", "config", "show", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["team user list", "worker", "push", "search x --set store.url=postgresql://h/d"])
def test_a_missing_extra_is_named(command: str, tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None; from codeinfo.shells.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    called = [sys.executable, "-c", program, *command.split()]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: psycopg is not installed\n  pip install 'codeinfo[server]'\n"


def test_workers_that_cannot_start_are_not_started_again(tmp_path: Path) -> None:
    called = [sys.executable, "-m", "codeinfo", "worker", "--processes", "2"]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.count("there is no team store")) == (2, 2)


def test_sigterm_is_like_ctrl_c(engine: Scripted) -> None:
    def killed(request: Any, progress: Any = None) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal should have ended this")

    engine.__dict__["search"] = killed
    before = signal.getsignal(signal.SIGTERM)
    assert cli.run(["search", "q"]) == 130
    assert signal.getsignal(signal.SIGTERM) is before


def test_settings_come_from_the_project_that_a_request_names(tmp_path: Path) -> None:
    assert cli._project_folder(AgentRunRequest("reviewer", working_folder=str(tmp_path))) == tmp_path
    assert cli._project_folder(search.SearchRequest("x", (str(tmp_path), "elsewhere"))) == tmp_path
    assert cli._project_folder(search.WhyRequest(str(tmp_path / "a.py"))) == tmp_path
    assert cli._project_folder(EmptyRequest()) == Path(".")


def test_a_note_about_settings_is_printed_once(codeinfo: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def alpha(): pass\n")
    (tmp_path / ".codeinfo.toml").write_text('[llm]\nbase_url = "http://elsewhere.example"\n')
    for command in (
        ("index",),
        ("status",),
        ("search", "alpha"),
        ("refs", "alpha"),
        ("why", "a.py"),
        ("symbols", "a.py"),
    ):
        done = codeinfo(*command, cwd=tmp_path)
        assert (done.stdout + done.stderr).count("may not decide") == 1, command
