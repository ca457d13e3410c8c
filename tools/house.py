"""Figures of the house, for the table in docs/contributing.md: how much a reader has to know.

python tools/house.py                # of this checkout
python tools/house.py FOLDER         # of another one; a query is followed in this one only
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

REPOSITORY = Path(__file__).resolve().parent.parent
CACHES = ("lru_cache", "cache", "cached_property", "Cache")
LOCKS = ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")
THREADS = ("Thread", "Timer", "ThreadPoolExecutor")
IDIOMS = ("Struct", "NamedTuple", "dataclass", "frozen", "Enum", "StrEnum")


# --- what is written -------------------------------------------------------------------------------------------------


def modules_of(source: Path) -> dict[str, ast.Module]:
    parts = {path: path.relative_to(source).with_suffix("").parts for path in sorted(source.rglob("*.py"))}
    names = {
        path: ".".join(folders if name == "__init__" else (*folders, name)) for path, (*folders, name) in parts.items()
    }
    return {name: ast.parse(path.read_text()) for path, name in names.items()}


def imported(tree: ast.Module) -> set[str]:
    """Every module that is named, in functions and for type checkers too."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def cycles(needs: dict[str, set[str]]) -> int:
    """Modules that import themselves by way of others."""
    # A package is named to reach a module in it.
    left = {
        name: {module for module in needed if not any(more.startswith(f"{module}.") for more in needed)}
        for name, needed in needs.items()
    }
    while free := [name for name, needed in left.items() if not needed & left.keys()]:
        for name in free:
            del left[name]
    return len(left)


def uses(trees: Iterable[ast.Module], names: tuple[str, ...], *, bare: bool = False) -> int:
    """Calls of these names and, with `bare`, other mentions: a decorator, a base class."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    if bare:
        for node in nodes:
            called += (*getattr(node, "decorator_list", ()), *getattr(node, "bases", ()))
    return sum(getattr(node, "id", getattr(node, "attr", "")) in names for node in called)


def naming(trees: Iterable[ast.Module], text: str) -> int:
    """Files that have this text as a constant."""
    return sum(any(getattr(node, "value", None) == text for node in ast.walk(tree)) for tree in trees)


def written(folder: Path) -> dict[str, object]:
    trees = modules_of(folder / "src")
    needs = {name: (imported(tree) & trees.keys()) - {name} for name, tree in trees.items()}
    importers = [sum(name in needed for needed in needs.values()) for name in trees]
    lines = sum(len(path.read_text().splitlines()) for path in (folder / "src").rglob("*.py"))
    idioms = {name: uses(trees.values(), (name,), bare=True) for name in IDIOMS}
    return {
        "Python files": len(trees),
        "lines": lines,
        "modules with one importer": importers.count(1),
        'files that name the operation "refs"': naming(trees.values(), "refs"),
        'files that name the language "csharp"': naming(trees.values(), "csharp"),
        "caches": uses(trees.values(), CACHES, bare=True),
        "locks": uses(trees.values(), LOCKS),
        "thread starts": uses(trees.values(), THREADS),
        "value idioms": ", ".join(f"{count} {name}" for name, count in idioms.items() if count),
        "modules in import cycles": cycles(needs),
    }


# --- what a query passes ---------------------------------------------------------------------------------------------


def followed(ask: Callable[[], object]) -> str:
    """The files on the way to the ranking, and those in which anything ran."""
    ran, way = set[str](), list[str]()

    def look(frame: FrameType, event: str, argument: object) -> None:
        match = re.search(r"src/codeinfo/(.+\.py)$", frame.f_code.co_filename)
        if event != "call" or match is None or frame.f_code.co_name == "<module>":
            return
        ran.add(match[1])
        if match[1] == "search/line.py" and frame.f_code.co_name == "search" and not way:
            above: FrameType | None = frame
            while above is not None:
                if caller := re.search(r"src/codeinfo/(.+\.py)$", above.f_code.co_filename):
                    way.append(caller[1])
                above = above.f_back

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        ask()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type, unused-ignore]
    return f"{len(ran)} files, {len(set(way))} of them on the way: {' ← '.join(dict.fromkeys(way))}"


def queries() -> dict[str, str]:
    """Of a search by each shell, once the project is indexed."""
    sys.path.insert(0, str(REPOSITORY / "src"))
    from starlette.testclient import TestClient

    from codeinfo.config import Config
    from codeinfo.serve.auth import Access
    from codeinfo.shells import cli
    from codeinfo.shells.http import make_app, make_state
    from codeinfo.shells.mcp import make_service
    from codeinfo.shells.mcp_protocol import Exchange, Message
    from codeinfo.shells.mcp_tools import choose_tools

    with tempfile.TemporaryDirectory() as place:
        project = Path(place, "shop")
        project.mkdir()
        (project / "cart.py").write_text("def total(prices):\n    return sum(prices)\n")
        folders = {"paths.cache_dir": f"{place}/cache", "paths.data_dir": f"{place}/data"}
        flags = [part for name, value in folders.items() for part in ("--set", f"{name}={value}")]
        config = Config.load(folders, project)
        with contextlib.redirect_stdout(io.StringIO()):
            cli.run(["index", str(project), *flags])
            ways = {"command line": followed(lambda: cli.run(["search", "total", str(project), *flags]))}
        (tool,) = choose_tools(["search_codebase"])
        service = make_service(config, [tool])
        arguments = {"name": tool.name, "arguments": {"query": "total", "project": str(project)}}
        exchange = Exchange(Message("2.0", 1, "tools/call", arguments), is_stateless=False, notify=lambda message: None)
        ways["MCP"] = followed(lambda: asyncio.run(service.call_tool(exchange)))
        service.lease.close()
        app = make_app(make_state(config, (project,)), Access(frozenset({"testserver"}), "x" * 32))
        with TestClient(app) as web:
            arguments = {"query": "total", "paths": [str(project)]}
            ways["HTTP"] = followed(lambda: web.post("/api/v1/search", json=arguments).raise_for_status())
    return ways


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY
    for name, figure in written(folder).items():
        print(f"{name}: {figure}")
    for name, figure in queries().items() if folder == REPOSITORY else ():
        print(f"a query by {name}: {figure}")


if __name__ == "__main__":
    main()
