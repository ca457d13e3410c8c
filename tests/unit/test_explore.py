"""One symbol or file with its surroundings."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeinfo import Config, Engine
from codeinfo.errors import NotFound, UsageError
from codeinfo.operations.code import (
    DefsRequest,
    Exploration,
    ExploreRequest,
    ImpactRequest,
    ImportsRequest,
    RefsRequest,
    SymbolsRequest,
)
from codeinfo.operations.knowledge import RememberRequest

PARSER = '''"""Headers."""


def parse_header(line):
    """Split a header line."""
    return clean(line).split(":", 1)


def clean(line):
    return line.strip()
'''


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "headers.py").write_text(PARSER.replace("clean(line)", "line", 1))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Split headers")
    (tmp_path / "headers.py").write_text(PARSER)
    git(tmp_path, "commit", "-qam", "Clean headers first")
    (tmp_path / "client.py").write_text(
        "from headers import parse_header\n\n\ndef read(lines):\n    return [parse_header(line) for line in lines]\n"
    )
    (tmp_path / "tests" / "test_headers.py").write_text(
        "from headers import parse_header\n\n\ndef test_split():\n    assert parse_header('a:b') == ['a', 'b']\n\n\n"
        "def clean():\n    return 0\n"
    )
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Read headers")
    return tmp_path


@pytest.fixture
def engine(project: Path) -> Iterator[Engine]:
    engine = Engine(Config.load())
    yield engine
    engine.close()


def explore(engine: Engine, project: Path, target: str, limit: int = 8) -> Exploration:
    return engine.knowledge.explore(ExploreRequest(target, str(project), limit))


def test_a_symbol_comes_with_all_that_surrounds_it(engine: Engine, project: Path) -> None:
    engine.knowledge.remember(
        RememberRequest("parse_header must keep colons of the value", scope="symbol:parse_header", path=str(project))
    )
    found = explore(engine, project, "parse_header")
    assert (found.kind, found.place) == ("symbol", "headers.py:4-6")
    assert found.code.startswith("def parse_header(line):")
    assert found.callers == ("client.py:5 read",)
    assert found.callees == ("headers.py::clean",)
    assert found.tests == ("tests/test_headers.py:5 test_split",)
    assert [commit.split(" ", 2)[2] for commit in found.history] == ["Clean headers first", "Split headers"]
    assert [memory.memory for memory in found.memories] == ["parse_header must keep colons of the value"]
    assert found.totals == {}


def test_a_line_means_the_definition_around_it(engine: Engine, project: Path) -> None:
    for written in ("headers.py:10", "headers.py:10:5", "headers.py:10:5:", "headers.py#L10", "headers.py#L9-L10"):
        assert explore(engine, project, written).place == "headers.py:9-10"
    found = explore(engine, project, "headers.py:10")
    assert found.callers == ("headers.py:6 parse_header",)
    assert explore(engine, project, "headers.py:1").kind == "file"  # between definitions
    with pytest.raises(NotFound, match="no code at line 99"):
        explore(engine, project, "headers.py:99")


def test_a_long_definition_says_how_much_of_it_is_shown(engine: Engine, project: Path) -> None:
    lines = ["def long():", *(f"    step_{number} = '{number * 10_000}'" for number in range(60))]
    (project / "long.py").write_text("\n".join(lines))
    found = explore(engine, project, "long")
    assert found.code == "\n".join(lines[:30])
    assert found.notes == ("code: only the first 30 of 61 lines; `codeinfo explore long.py:46` shows more",)
    more = explore(engine, project, "long.py:46")
    assert (more.code, more.code_line) == ("\n".join(lines[30:60]), 31)
    assert more.notes == ("code: only lines 31 to 60 of 61 lines; `codeinfo explore long.py:61` shows more",)
    assert explore(engine, project, "long.py:61").code.splitlines()[-1] == lines[-1]
    wide = [f"    {name} = '{name * 1_400}'" for name in "xy"]
    (project / "long.py").write_text("\n".join([lines[0], *wide]))
    found = explore(engine, project, "long")
    assert found.code.endswith("xx'"), "lines are whole"
    assert found.notes == ("code: only the first 2 of 3 lines; `codeinfo explore long.py:3` shows more",)
    assert explore(engine, project, "long.py:3").code == wide[1]


def test_the_lines_of_a_result_stand_for_the_definition_below_its_comment(engine: Engine, project: Path) -> None:
    read = "    /// Reads all,\n    /// slowly.\n    pub fn read(&self) {\n        go();\n    }\n"
    (project / "store.rs").write_text(f"pub struct Store;\n\nimpl Store {{\n    pub fn count(&self) {{}}\n\n{read}}}\n")
    assert explore(engine, project, "store.rs:6-10").place == "store.rs:8-10"
    assert explore(engine, project, "store.rs:9").place == "store.rs:8-10"
    assert explore(engine, project, "store.rs:4-4").place == "store.rs:4-4"


def test_the_commits_of_a_file_are_not_taken_for_those_of_lines(engine: Engine, project: Path) -> None:
    (project / "headers.py").write_text(PARSER + "\n\ndef added():\n    return 1\n")
    found = explore(engine, project, "added")  # git knows no such lines
    assert [line.split(" ", 2)[2] for line in found.history] == ["Clean headers first", "Split headers"]
    assert found.notes == ("history: of the whole file; git could not follow these lines",)


def test_a_definition_that_calls_another_of_its_name_is_a_caller(engine: Engine, project: Path) -> None:
    (project / "store.py").write_text("class Store:\n    def get_item(self, key):\n        return key\n")
    (project / "view.py").write_text(
        "from store import Store\n\n\nclass View:\n    def __init__(self):\n        self.store = Store()\n\n"
        "    def get_item(self, key):\n        return self.store.get_item(key)\n"
    )
    found = explore(engine, project, "get_item")
    assert found.callers == ("view.py:9 View.get_item",)
    assert found.notes[0].startswith("2 definitions: code and callees are of the first, callers and tests of all")


def test_a_class_is_not_used_by_itself_or_its_constructor(engine: Engine, project: Path) -> None:
    (project / "Mailer.java").write_text(
        "package shop;\nclass Mailer {\n  Logger<Mailer> log;\n\n  Mailer(Logger<Mailer> log) { this.log = log; }\n}\n"
    )
    (project / "Post.java").write_text("package shop;\nclass Post {\n  void send() { new Mailer(null); }\n}\n")
    assert explore(engine, project, "Mailer").callers == ("Post.java:3 Post.send",)


def test_uses_outside_of_definitions_are_one_per_file(engine: Engine, project: Path) -> None:
    """Tests in callbacks, as JavaScript has them, would fill the list with lines of one file."""
    (project / "size.ts").write_text("export function size(a: string) { return a.length }\n")
    checks = "".join(f'it("{number}", () => expect(size("{number}")).toBe(1))\n' for number in range(9))
    (project / "size.test.ts").write_text(f'import {{ size }} from "./size"\n{checks}')
    assert explore(engine, project, "size").tests == ("size.test.ts:2",)


def test_a_file_lists_functions_before_variables(engine: Engine, project: Path) -> None:
    (project / "headers.py").write_text("A = 1\nB = 2\n" + PARSER)
    assert [one.name for one in explore(engine, project, "headers.py").definitions] == [
        "parse_header",
        "clean",
        "A",
        "B",
    ]


def test_what_only_holds_definitions_is_not_listed(engine: Engine, project: Path) -> None:
    (project / "pot.rs").write_text("pub struct Pot;\n\nimpl Pot {\n    pub fn pour(&self) {}\n}\n")
    assert [one.qualified for one in explore(engine, project, "pot.rs").definitions] == ["Pot", "Pot.pour"]


def test_a_kind_that_no_definition_has_is_answered_with_those_that_exist(engine: Engine, project: Path) -> None:
    found = engine.code.symbols(SymbolsRequest("headers.py", kinds=("fn",), root=str(project)))
    assert (found.symbols, found.notes) == ((), ("the kinds of definitions there are function",))
    assert not engine.code.symbols(SymbolsRequest("headers.py", kinds=("function",), root=str(project))).notes


def test_a_misspelt_file_is_named(engine: Engine, project: Path) -> None:
    (project / "tests" / "headers.py").write_text("KNOWN = 1\n")
    for written in ("header.py", "header.py:4", "./haeders.py"):
        with pytest.raises(NotFound, match="there is no file") as raised:
            explore(engine, project, written)
        assert str(raised.value.next_step).startswith("Did you mean headers.py, tests/headers.py")
    with pytest.raises(NotFound, match=r"Did you mean tests/headers\.py"):
        explore(engine, project, "tests/header.py")


def test_a_file_comes_with_what_it_defines_and_who_imports_it(engine: Engine, project: Path) -> None:
    found = explore(engine, project, "headers.py")
    assert (found.kind, found.place, found.code) == ("file", "headers.py", "")
    assert [one.name for one in found.definitions] == ["parse_header", "clean"]
    assert found.callers == ("client.py:1",)
    assert found.tests == ("tests/test_headers.py",)
    assert explore(engine, project, "test_headers.py").place == "tests/test_headers.py"
    for written in (f"{project}/client.py", (project / "client.py").as_uri()):
        assert explore(engine, project, written).callees == ("headers.py",)


def test_code_comes_before_tests_and_what_is_cut_is_counted(engine: Engine, project: Path) -> None:
    found = explore(engine, project, "clean", limit=1)
    assert found.definitions[0].path == "headers.py"
    assert found.totals == {"definitions": 2}
    assert "2 definitions" in found.notes[0]


def test_what_is_not_there_is_said(engine: Engine, project: Path) -> None:
    with pytest.raises(NotFound, match="nothing called nowhere"):
        explore(engine, project, "nowhere")
    with pytest.raises(NotFound, match="Did you mean parse_header"):
        explore(engine, project, "parse_haeder")
    with pytest.raises(NotFound, match="Did you mean parse_header"):
        explore(engine, project, "ParseHeader")
    (project / "other").mkdir()
    (project / "other" / "headers.py").write_text("X = 1\n")
    (project / "third").mkdir()
    (project / "third" / "client.py").write_text("X = 1\n")
    (project / "other" / "client.py").write_text("X = 1\n")
    assert explore(engine, project, "client.py").place == "client.py"  # the very path
    (project / "client.py").unlink()
    with pytest.raises(UsageError, match="2 files end in client"):
        explore(engine, project, "client.py")


def test_the_product_comes_before_its_examples(engine: Engine, project: Path) -> None:
    (project / "examples").mkdir()
    (project / "examples" / "headers.py").write_text("import headers\n\n\ndef clean():\n    headers.clean('')\n")
    assert explore(engine, project, "clean").place == "headers.py:9-10"
    listed = engine.code.definitions(DefsRequest("clean", str(project))).definitions
    assert [one.path for one in listed] == ["headers.py", "examples/headers.py", "tests/test_headers.py"]


def test_of_several_definitions_the_one_in_the_central_file_is_shown(engine: Engine, project: Path) -> None:
    (project / "client_stub.py").write_text("def parse_header(line):\n    raise NotImplementedError\n")
    found = explore(engine, project, "parse_header")
    assert found.place == "headers.py:4-6"
    assert [one.path for one in found.definitions] == ["headers.py", "client_stub.py"]


def test_a_document_lists_its_headings(engine: Engine, project: Path) -> None:
    (project / "guide.md").write_text("# Guide\n\nText.\n\n## Set-up 2.0\n\nMore.\n")
    assert [one.signature or one.name for one in explore(engine, project, "guide.md").definitions] == [
        "Guide",
        "Set-up 2.0",
    ]


def test_an_example_of_the_same_name_takes_no_tests_away(engine: Engine, project: Path) -> None:
    files = {
        "src/pkg/__init__.py": "from .terminal import pause\n",
        "src/pkg/terminal.py": "def pause():\n    return 1\n",
        "examples/terminal/terminal.py": "import pkg\n\npkg.pause()\n",
        "docs/terminal.md": "# Terminal\n",
        "tests/test_terminal.py": "import pkg\n\n\ndef test_pause():\n    assert pkg.pause()\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    assert explore(engine, project, "src/pkg/terminal.py").tests == ("tests/test_terminal.py",)
    assert explore(engine, project, "examples/terminal/terminal.py").tests == ()


def test_a_class_comes_before_variables_that_stand_for_it(engine: Engine, project: Path) -> None:
    (project / "apis.py").write_text("Page = load_model('core', 'Page')\n\n\ndef show():\n    return Page()\n")
    (project / "pages.py").write_text("class Page:\n    pass\n")
    assert explore(engine, project, "Page").place == "pages.py:1-2"
    found = engine.code.definitions(DefsRequest("Page", str(project)))
    assert [one.path for one in found.definitions] == ["pages.py", "apis.py"]


def test_what_is_asked_of_a_folder_names_the_mistake(engine: Engine, project: Path) -> None:
    with pytest.raises(UsageError, match="tests is a folder"):
        engine.code.imports(ImportsRequest(str(project / "tests")))
    with pytest.raises(UsageError, match="tests is a folder"):
        engine.code.references(RefsRequest("tests/", str(project)))
    with pytest.raises(UsageError, match=r"^\. is a folder"):
        engine.code.impact(ImpactRequest(str(project)))
    with pytest.raises(UsageError, match="tests is a folder") as refused:
        explore(engine, project, "tests/")
    assert refused.value.next_step == "Give one of its files, as in tests/test_headers.py"
