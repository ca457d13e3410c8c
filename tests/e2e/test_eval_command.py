"""`codeinfo eval` as a program, on a small tree and on a small scripted history."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import RunCli
from repository_tools import Repository, write

from codeinfo.errors import UsageError
from codeinfo.evals.run import Layout, read_history, spread

TREE = {
    "src/billing.py": "class Invoice:\n    def total(self):\n        '''Add up what the customer owes.'''\n",
    "src/parser.py": "def parse_header(line):\n    '''Split a header line into name and value.'''\n",
    "src/cache.py": "class LruCache:\n    '''Keep what was used last and evict the rest.'''\n",
    "tests/test_parser.py": "def test_parse_header():\n    assert parse_header('a: b')\n",
    "README.md": "# Shop\n\nInvoices, header parsing and a cache.\n",
}


# --- a dataset -----------------------------------------------------------------------------------------------------


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    write(tmp_path / "trees" / "shop", TREE)
    rows = [
        {"id": "1", "query": "add up the invoice", "targets": [{"path": "src/billing.py"}]},
        {"id": "2", "query": "parse_header", "targets": [{"path": "src/parser.py"}]},
    ]
    more = {"repo": "shop", "language": "python", "category": "semantic"}
    lines = "".join(json.dumps(row | more) + "\n" for row in rows)
    write(tmp_path, {"bench/queries.jsonl": lines, "bench/repos.tsv": "name\troot\nshop\tsrc\n"})
    return tmp_path


def test_eval_writes_paths_from_the_repositorys_root(codeinfo: RunCli, benchmark: Path) -> None:
    done = codeinfo("eval", "bench", "--trees", "trees", "--out", "out.jsonl", "--json", cwd=benchmark)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["groups"][0]["summary"]["ndcg10"] == 1.0
    lines = [json.loads(line) for line in (benchmark / "out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["1", "2"]
    best = lines[0]["results"][0]
    assert best["path"] == "src/billing.py"
    assert best["chars"] > 0
    assert best["start"] >= 1
    assert lines[0]["status"] in ("ok", "low_confidence")
    assert result["groups"][0]["summary"]["ok"] is not None


def test_eval_of_whole_trees_sees_what_lies_outside_the_folder(codeinfo: RunCli, benchmark: Path) -> None:
    assert codeinfo("eval", "bench", "--trees", "trees", "--whole", "--out", "out.jsonl", cwd=benchmark).returncode == 0
    lines = (benchmark / "out.jsonl").read_text().splitlines()
    found = {hit["path"] for line in lines for hit in json.loads(line)["results"]}
    assert "src/billing.py" in found
    assert found & {"README.md", "tests/test_parser.py"}


def test_gate_decides_the_exit_code(codeinfo: RunCli, benchmark: Path) -> None:
    command = ("eval", "bench", "--trees", "trees")
    passed = codeinfo(*command, "--gate", "ndcg10=0.5", cwd=benchmark)
    assert (passed.returncode, "gate ndcg10 ≥ 0.5: 1.0000  passed" in passed.stdout) == (0, True)
    failed = codeinfo(*command, "--gate", "chars=1", cwd=benchmark)
    assert failed.returncode == 3
    assert "FAILED" in failed.stdout
    assert codeinfo(*command, "--gate", "ndcg10=high", cwd=benchmark).returncode == 2


def test_compare(codeinfo: RunCli, benchmark: Path) -> None:
    (benchmark / "older.jsonl").write_text('{"id": "1", "results": []}\n{"id": "2", "results": []}\n')
    done = codeinfo("eval", "bench", "--trees", "trees", "--compare", "older.jsonl", cwd=benchmark)
    assert done.returncode == 0, done.stderr
    assert "against older  ndcg10 0.0000 → 1.0000: +1.0000" in done.stdout
    assert "2 won, 0 lost, 0 even" in done.stdout


def test_fixture_of_one_codebase_with_its_own_gate(codeinfo: RunCli, benchmark: Path) -> None:
    rows = [{"id": 1, "query": "parse_header", "category": "exact", "expectedPatterns": ["cache"]}]
    (benchmark / "fixture.json").write_text(json.dumps({"queries": rows}))
    done = codeinfo("eval", "fixture.json", "--trees", "trees/shop", cwd=benchmark)
    assert done.returncode == 3
    assert "gate top1 ≥ 0.7: 0.0000  FAILED" in done.stdout


def test_missing_things_are_named(codeinfo: RunCli, benchmark: Path) -> None:
    assert "a dataset and its trees are needed" in codeinfo("eval", "bench", cwd=benchmark).stderr
    assert "there is no dataset" in codeinfo("eval", "none", "--trees", "trees", cwd=benchmark).stderr
    assert "is missing" in codeinfo("eval", "bench", "--trees", "bench", cwd=benchmark).stderr


# --- a history -----------------------------------------------------------------------------------------------------


@pytest.fixture
def history(tmp_path: Path) -> Repository:
    shop = Repository(tmp_path / "shop")
    shop.commit("Start the shop with its first files", TREE)
    shop.commit("Round the invoice total to cents (#12)", {"src/billing.py": TREE["src/billing.py"] + "# cents\n"})
    shop.commit("Bump requests from 1.0 to 2.0", {"src/cache.py": TREE["src/cache.py"] + "# 2\n"})
    shop.commit("Keep the header parser from failing", {"src/parser.py": "# robot\n"}, "renovate[bot] <bot@x.org>")
    shop.commit("Explain the shop in the README", {"README.md": "# Shop\n"})
    shop.commit("Add a module for shipping parcels", {"src/shipping.py": "def ship(parcel): ...\n"})
    shop.commit("Fix it", {"src/cache.py": "# three\n"})
    shop.commit("Sweep through all of the code", {f"src/many{number}.py": "x = 1\n" for number in range(11)})
    shop.commit("Send parcels by the cheapest carrier", {"src/shipping.py": "def ship(parcel, carrier): ...\n"})
    return shop


def test_only_telling_commits_are_asked_about(history: Repository) -> None:
    read = read_history(history.folder, 30)
    assert [(commit.subject, commit.files) for commit in read.commits] == [
        ("Round the invoice total to cents", ("src/billing.py",)),
        ("Send parcels by the cheapest carrier", ("src/shipping.py",)),
    ]
    assert read.looked_at == 9
    assert read.left_out == {
        "first commit": 1,
        "chore": 2,
        "bot": 1,
        "no code file that was there before": 1,
        "too short": 1,
        "too many files": 1,
    }


@pytest.mark.parametrize(
    ("subject", "asked"),
    [
        ("Fix a typo in the parser", False),
        ("start version 8.1.2", False),
        ("chore(deps): update all of it", False),
        ("add tests for the invoice total", False),
        ("Rework method documentation a little", False),
        ("fix(parser): keep empty header values", True),
        ("Make the test client follow redirects", True),
        ("Latest invoice wins over older ones", True),
    ],
)
def test_subjects_that_say_nothing_about_code_are_left_out(tmp_path: Path, subject: str, asked: bool) -> None:
    shop = Repository(tmp_path / "shop")
    shop.commit("Start the shop with its first files", TREE)
    shop.commit(subject, {"src/cache.py": "# changed\n"})
    shop.commit("Round the invoice total to cents", {"src/billing.py": "# cents\n"})
    assert (subject in [commit.subject for commit in read_history(shop.folder, 30).commits]) == asked


def test_merges_are_left_out(history: Repository) -> None:
    history.git("checkout", "--quiet", "-b", "side")
    history.commit("Evict what is older than a day", {"src/cache.py": "# day\n"})
    history.git("checkout", "--quiet", "main")
    history.commit("Sort the invoice lines by date", {"src/billing.py": "# sorted\n"})
    history.git("merge", "--quiet", "--no-ff", "-m", "Join both of the lines of work", "side")
    subjects = [commit.subject for commit in read_history(history.folder, 30).commits]
    assert "Evict what is older than a day" in subjects
    assert "Join both of the lines of work" not in subjects


def test_spread_is_even_and_takes_all_of_few() -> None:
    assert spread(range(10), 5) == [0, 2, 4, 6, 8]
    assert spread(range(3), 5) == [0, 1, 2]


def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no history to read"):
        read_history(tmp_path, 30)


def test_layout_moves_from_tree_to_tree(tmp_path: Path) -> None:
    shop = Repository(tmp_path / "shop")
    first = shop.commit("one", {"a": "", "b/c.py": "old\n", "d.py": "same\n"})
    (shop.folder / "b" / "c.py").unlink()
    (shop.folder / "b").rmdir()
    os.symlink("/etc/passwd", shop.folder / "link")
    second = shop.commit("two", {"b": "a file now", "e/f.py": "same\n"})
    folder = tmp_path / "out"
    folder.mkdir()
    layout = Layout(shop.folder, folder)

    def content() -> dict[str, str]:
        return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}

    layout.move_to(first)
    assert content() == {"a": "", "b/c.py": "old\n", "d.py": "same\n"}
    untouched = (folder / "d.py").stat().st_mtime_ns
    layout.move_to(second)
    assert content() == {"a": "", "b": "a file now", "d.py": "same\n", "e/f.py": "same\n"}
    assert (folder / "d.py").stat().st_mtime_ns == untouched
    layout.move_to(first)
    assert content() == {"a": "", "b/c.py": "old\n", "d.py": "same\n"}


def test_layout_takes_no_forged_paths(tmp_path: Path) -> None:
    shop = Repository(tmp_path / "shop")
    shop.commit("one", {"a.py": "x\n"})
    blob = shop.git("rev-parse", "HEAD:a.py")
    tree = subprocess.run(
        ["git", "mktree"],
        cwd=shop.folder,
        input=f"100644 blob {blob}\t..\n",
        text=True,
        capture_output=True,
        check=False,
    )
    if tree.returncode:
        pytest.skip("this git makes no such trees")
    folder = tmp_path / "out"
    folder.mkdir()
    Layout(shop.folder, folder).move_to(tree.stdout.strip())
    assert list(folder.iterdir()) == []


def test_eval_from_git_asks_the_tree_before_each_commit(
    codeinfo: RunCli, history: Repository, own_folders: Path
) -> None:
    done = codeinfo("eval", "--from-git", str(history.folder), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["dataset"] == "history of shop"
    outcomes = {outcome["query"]: outcome for outcome in result["outcomes"]}
    assert outcomes["Round the invoice total to cents"]["first"] == "src/billing.py"
    assert outcomes["Send parcels by the cheapest carrier"]["score"]["recall10"] == 1.0
    assert result["notes"][0].startswith("asked about 2 of 9 commits")
    assert not list((own_folders / "cache").rglob("*.sqlite*"))  # the indexes of old trees are gone


def test_eval_from_git_leaves_out_blobs_that_the_clone_lacks(codeinfo: RunCli, history: Repository) -> None:
    history.lose("src/many0.py")  # all eleven share the blob
    done = codeinfo("eval", "--from-git", str(history.folder), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [outcome["score"]["recall10"] for outcome in result["outcomes"]] == [1.0, 1.0]
    assert result["notes"][1] == "blobs that the repository lacks, whose files were not indexed: 1"


def test_eval_from_git_works_in_the_current_folder_and_leaves_it_alone(codeinfo: RunCli, history: Repository) -> None:
    before = history.git("status", "--porcelain")
    done = codeinfo("eval", "--from-git", "--commits", "1", cwd=history.folder)
    assert done.returncode == 0, done.stderr
    assert "history of shop" in done.stdout
    assert history.git("status", "--porcelain") == before
