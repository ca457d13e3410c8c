"""What a plain search imports, so that its start does not creep: a fresh process pays for each of these every time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Third-party packages a search on a built index may load.
ALLOWED = {"apsw", "click", "msgspec", "numpy", "Stemmer", "typing_extensions"}

# Heavy or needless ones, standard library included, each with what needs it instead.
REFUSED = {
    "rich": "a terminal",
    "platformdirs": "systems without XDG folders",
    "tomllib": "a settings file",
    "tree_sitter": "changed files",
    "multiprocessing.pool": "changed files",
    "concurrent.futures.process": "changed files",
    "asyncio": "servers",
    "http.client": "endpoints",
    "difflib": "mistakes in a setting's name",
    "traceback": "--debug",
    "numpy.ma": "nothing: np.unique loads it, which takes 20 ms",
    "subprocess": "git, changed files",
    "tempfile": "repositories that are fetched",
    "zipfile": "commits of a repository",
    "codeinfo.index.pool": "changed files",
    "codeinfo.index.syntax": "changed files",
    "codeinfo.graph.scip": "an index run",
    "codeinfo.sources.masking": "files that are read",
    "unittest": "tests",
}

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org")
LISTING = """
import json, sys
from codeinfo.shells.cli import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def modules_of(*arguments: str, cwd: Path) -> set[str]:
    command = [sys.executable, "-c", LISTING, *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


def test_a_search_imports_only_what_it_needs(codeinfo: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def parse_header(line):\n    return line\n")
    assert codeinfo("index", cwd=tmp_path).returncode == 0
    time.sleep(0.2)  # a file younger than a tenth of a second is looked at again
    assert codeinfo("index", cwd=tmp_path).returncode == 0
    modules = modules_of("search", "parse_header", "--json", cwd=tmp_path)
    shipped = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"codeinfo"}
    elsewhere = {"cython_runtime", "sitecustomize"}  # numpy's, made in memory, and the system's own
    foreign = {name for name in shipped if not name.startswith("_")} - elsewhere
    assert foreign <= ALLOWED
    assert not {name: REFUSED[name] for name in REFUSED if name in modules}


def test_an_index_without_changes_needs_no_arrays(codeinfo: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def parse_header(line):\n    return line\n")
    assert codeinfo("index", cwd=tmp_path).returncode == 0
    time.sleep(0.2)  # a file younger than a tenth of a second is looked at again
    assert codeinfo("index", cwd=tmp_path).returncode == 0
    assert not modules_of("index", "--json", cwd=tmp_path) & {"numpy", "tree_sitter"}
    assert not modules_of("projects", "--json", cwd=tmp_path) & {"numpy", "tree_sitter"}


def test_an_edit_in_a_repository_needs_no_knowledge_of_projects(codeinfo: Any, tmp_path: Path) -> None:
    """Indexing reads commits, but neither memories nor manifests: loading what they need takes 45 ms."""
    (tmp_path / "a.py").write_text("def parse_header(line):\n    return line\n")
    for arguments in (("init", "-q"), ("add", "-A"), (*AUTHOR, "commit", "-q", "-m", "Add a parser of headers")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    assert codeinfo("index", cwd=tmp_path).returncode == 0
    (tmp_path / "a.py").write_text("def parse_header(line):\n    return line.strip()\n")
    modules = modules_of("index", "--json", cwd=tmp_path)
    assert "codeinfo.knowledge.history" in modules
    assert not modules & {"yaml", "codeinfo.knowledge.memory", "codeinfo.knowledge.project"}


def test_a_server_imports_little_before_its_first_reply(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys, codeinfo.shells.mcp; print(*sys.modules)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    unwanted = {"mcp", "pydantic", "anyio", "click", "numpy", "apsw", "codeinfo.engine", "codeinfo.index", "starlette"}
    assert not unwanted & set(done.stdout.split())


def test_importing_the_package_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys, codeinfo; print(len([m for m in sys.modules if 'codeinfo' in m]))"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) <= 2  # an editable install may add a finder of its own


def test_help_needs_no_engine(tmp_path: Path) -> None:
    modules = modules_of("--help", cwd=tmp_path)
    assert not modules & {"numpy", "apsw", "rich", "codeinfo.engine"}


def test_a_program_that_uses_the_library_has_one_blas_thread(tmp_path: Path) -> None:
    """As the command has. It counts where numpy is not loaded yet."""
    program = """
import os, sys
os.environ.pop("OPENBLAS_NUM_THREADS", None)
from codeinfo import Config, Engine
with Engine(Config.load()):
    print("numpy" in sys.modules, os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "1"]
