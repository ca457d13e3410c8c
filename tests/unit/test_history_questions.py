"""`benchmarks/history_questions.py` on a scripted history: which commits ask, what answers, and where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from repository_tools import Repository, write

from codeinfo.evals.metrics import load_dataset
from codeinfo.evals.run import strip_numbers

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

PARSER = """def parse_header(line):
    name, value = line.split(":")
    return name, value


def parse_all(lines):
    return [parse_header(line) for line in lines]
"""
CARRIER = "def ship(parcel):\n    return 'post'\n"
REPORT = """When two carriers ask the same price for a parcel, the one that came first in the list was taken. For most
customers that is the slowest of them, because the list is sorted by name. Customers waited for days although a quicker
carrier would have cost them nothing more. The price is compared first and then the days, so that of two carriers at
one price the quicker is chosen.

Signed-off-by: Ada <ada@example.org>
Fixes #31
"""
BUG = """When the value of a header contains a colon, as every URL does, the parser fails with a ValueError because it
splits the line at each of them. This happens for about one in ten of the requests that were seen in the logs. The
whole request is lost then, and the client waits until it runs into its own limit.

## Test plan

Ran everything.
"""


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    shop = Repository(tmp_path / "made")
    shop.commit("Start the shop with its first files", {"src/parser.py": PARSER, "src/shipping.py": CARRIER})
    shop.commit("Explain in the module what a header is", {"src/parser.py": "# Headers.\n# Two lines.\n" + PARSER})
    shop.commit("Bump the version to 2.0", {"src/version.py": "VERSION = 2\n"})
    fixed = PARSER.replace('line.split(":")', 'line.split(":", 1)')
    shop.commit(
        f"fix(parser): keep colons in values (#12)\n\n{BUG}", {"src/parser.py": "# Headers.\n# Two lines.\n" + fixed}
    )
    chosen = {"src/shipping.py": CARRIER.replace("'post'", "min(parcel.carriers)"), "tests/test_ship.py": "assert 1\n"}
    shop.commit(f"Choose the quicker of two carriers\n\n{REPORT}", chosen)
    shop.commit("Pack each parcel in a box", {"src/boxes.py": "def pack(parcel): ...\n"})
    shop.commit("Run black over all of it", {"src/shipping.py": CARRIER})
    place = tmp_path / "clones" / "ada+shop"
    place.mkdir(parents=True)
    (shop.folder / ".git").rename(place / "repo")
    write(tmp_path, {"list": "ada/shop\n"})
    return tmp_path / "clones"


def make(clones: Path, *options: str) -> dict[str, dict[str, Any]]:
    """The questions by their first lines."""
    command = [sys.executable, str(BENCHMARKS / "history_questions.py"), "list", "clones", "out", *options]
    done = subprocess.run(command, cwd=clones.parent, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (clones.parent / "out" / "queries.jsonl").read_text().splitlines()]
    return {row["query"].partition("\n")[0]: row for row in rows}


def log(clones: Path) -> list[str]:
    """Commits, the oldest first."""
    command = ["git", "--git-dir", str(clones / "ada+shop" / "repo"), "rev-list", "--reverse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_subjects_and_reports_about_a_tree_that_is_older_than_all_of_them(clones: Path) -> None:
    rows = make(clones)
    asked = {question: row["category"] for question, row in rows.items()}
    assert asked == {
        "Choose the quicker of two carriers": "report",
        "keep colons in values": "report",
        "Explain in the module what a header is": "subject",
    }, "neither chores, nor formatting, nor what answers with new files only"
    dataset = load_dataset(clones.parent / "out")
    assert dataset.roots == {"shop": ""}
    assert {query.language for query in dataset.queries} == {"python"}
    table = (clones.parent / "out" / "repos.tsv").read_text().splitlines()
    assert table[1].split("\t") == ["shop", "python", "ada+shop", log(clones)[0], "1", "-", "dev"]
    report = rows["Choose the quicker of two carriers"]
    assert [target["path"] for target in report["targets"]] == ["src/shipping.py"], "tests answer nothing"
    assert "Signed-off-by" not in report["query"]
    assert "#31" not in report["query"]


def test_changed_lines_are_reported_as_the_pinned_tree_has_them(clones: Path) -> None:
    """Two lines were put above the function between the pinned tree and the fix."""
    (target,) = make(clones)["keep colons in values"]["targets"]
    assert target == {"path": "src/parser.py", "grade": "relevant", "spans": [[2, 2]], "functions": [[1, 3]]}


def test_bugs_end_where_the_fix_begins(clones: Path) -> None:
    rows = make(clones, "--bugs")
    (bug,) = rows.values()
    assert (bug["category"], bug["id"], bug["commit"]) == ("bug", "shop-bug-00", log(clones)[3])
    assert bug["query"].endswith("runs into its own limit.")


def test_history_is_read_up_to_the_named_commit(clones: Path) -> None:
    write(clones.parent, {"list": f"# one\nada/shop\t{log(clones)[3]}\n"})
    assert set(make(clones)) == {"keep colons in values", "Explain in the module what a header is"}


@pytest.mark.parametrize(
    ("subject", "cleaned"),
    [
        ("Round the total (#12)", "Round the total"),
        ("Round the total (fixes #12, closes ada/shop#14)", "Round the total"),
        ("Round the total, closes GH-7", "Round the total"),
        ("[#12] round the total", "round the total"),
        ("#12: round the total", "round the total"),
        ("Handle C#8 and F# code", "Handle C#8 and F# code"),
        ("Show the issue of a bug", "Show the issue of a bug"),
    ],
)
def test_issue_numbers_are_cut_off(subject: str, cleaned: str) -> None:
    assert strip_numbers(subject) == cleaned
