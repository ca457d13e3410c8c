"""`benchmarks/quality.py` as a program: its table, what it lays out, and when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from repository_tools import Repository, write

REPOSITORY = Path(__file__).resolve().parents[2]
TREE = {
    "src/billing.py": "class Invoice:\n    def total(self):\n        '''Add up what the customer owes.'''\n",
    "src/parser.py": "def parse_header(line):\n    '''Split a header line into name and value.'''\n",
    "README.md": "# Shop\n\nInvoices and header parsing.\n",
}
INVOICE = {"id": "1", "query": "add up the invoice", "category": "subject", "targets": [{"path": "src/billing.py"}]}
PARSER = {
    "id": "2",
    "query": "parse_header loses the value of a header",
    "category": "report",
    "targets": [{"path": "src/parser.py", "spans": [[1, 1]], "functions": [[1, 2]]}],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A clone whose README's content is lost, and a benchmark about it."""
    shop = Repository(tmp_path / "made")
    pin = shop.commit("Start the shop with its first files", TREE)
    shop.clock += 24 * 60 * 60
    shop.commit("Forget what was there", {"src/billing.py": "pass\n"})
    shop.lose("README.md")
    (tmp_path / "clones" / "ada+shop").mkdir(parents=True)
    (shop.folder / ".git").rename(tmp_path / "clones" / "ada+shop" / "repo")
    lines = "".join(json.dumps(row | {"repo": "shop", "language": "python"}) + "\n" for row in (INVOICE, PARSER))
    repos = f"name\tlanguage\tmirror\tcommit\texact\troot\tsplit\nshop\tpython\tada+shop\t{pin}\t1\tsrc\tdev\n"
    write(tmp_path, {"bench/queries.jsonl": lines, "bench/repos.tsv": repos})
    return tmp_path


def quality(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(REPOSITORY / "benchmarks" / "quality.py")
    command = [sys.executable, script, "--cache", "cache", "--clones", "clones", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)


def table(output: str) -> dict[str, dict[str, str]]:
    head, _, *rows = (
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in output.splitlines() if line[:1] == "|"
    )
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def test_one_table_of_every_set(place: Path) -> None:
    (place / "semble.jsonl").write_text('{"id": "1", "results": [{"path": "src/billing.py"}]}\n')
    sets = ("--roots", "bench", "plain", "--history-git", "bench", "git", "--bugs", "bench", "plain")
    done = quality(place, *sets, "--semble", "bugs=semble.jsonl")
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    named = ["roots", "history (git)", "history (git), reports", "history (git), subjects", "bugs"]
    assert list(rows) == named
    assert {row["top1"] for row in rows.values()} == {"1.0000"}
    assert rows["bugs"]["function10"] == "1.0000"
    assert rows["history (git), subjects"]["function10"] == "–"
    assert (rows["bugs"]["semble"], rows["bugs"]["beside"], rows["roots"]["semble"]) == ("1.0000", "1.0000", "–")
    assert (place / "plain" / "shop" / "src" / "billing.py").read_text() == TREE["src/billing.py"]
    assert not (place / "plain" / "shop" / "README.md").exists()
    assert done.stderr.count("without 1 files whose content the clone lacks") == 2


def test_work_trees_have_the_history_before_the_pinned_commit(place: Path) -> None:
    assert quality(place, "--history-git", "bench", "git").returncode == 0
    shop = place / "git" / "shop"
    command = ["git", "log", "--format=%s"]
    log = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=True).stdout
    assert log == "Start the shop with its first files\n"
    assert (shop / "src" / "billing.py").read_text() == TREE["src/billing.py"]
    assert not (shop / "README.md").exists()


def test_a_figure_that_fell_fails_the_run(place: Path) -> None:
    sets = ("--bugs", "bench", "plain", "--roots", "bench", "plain")
    assert quality(place, *sets, "--out", "old.json").returncode == 0
    same = quality(place, *sets, "--compare", "old.json")
    assert (same.returncode, "FELL" in same.stdout) == (0, False)
    bench = place / "bench" / "queries.jsonl"
    bench.write_text(bench.read_text().replace("src/parser.py", "src/none.py"))  # as if it were found no more
    worse = quality(place, *sets[:3], "--compare", "old.json")
    assert worse.returncode == 3
    fallen = [line.split("|")[2].strip() for line in worse.stdout.splitlines() if "FELL" in line]
    assert fallen == ["top1", "top5", "top10"]
    assert "roots: not measured now" in worse.stdout


def test_fixtures_have_a_gate(place: Path) -> None:
    rows = [{"id": 1, "query": "add up the invoice", "expectedPatterns": ["billing"]}]
    fixture = {"codebase": "shop", "frozenDate": "2023-11-14", "queries": rows}  # the day of the first commit
    write(place, {"fixtures/eval-shop.json": json.dumps(fixture)})
    named = ("--fixtures", "fixtures", "--fixture-trees", "fixed")
    passed = quality(place, *named)
    assert passed.returncode == 0, passed.stderr
    assert "fixture shop: gate top1 0.7, 1.0000: passed" in passed.stdout
    rows[0]["expectedPatterns"] = ["shipping"]
    write(place, {"fixtures/eval-shop.json": json.dumps(fixture)})
    assert quality(place, *named).returncode == 3


def test_what_is_missing_is_named(place: Path) -> None:
    (place / "clones" / "ada+shop").rename(place / "clones" / "gone")
    assert "and so is the clone" in quality(place, "--roots", "bench", "plain").stderr
    assert "name at least one set" in quality(place).stderr
    assert "--semble names no set: x" in quality(place, "--roots", "bench", "plain", "--semble", "x=y").stderr
