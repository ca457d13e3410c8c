"""Memories: aging, the file and its lock, git's share, and which of them come up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from team_tools import DAY, NOW, build_team, engine_of

from codeinfo.errors import UsageError
from codeinfo.knowledge.memory import (
    Memory,
    MemoryFileDamaged,
    change_memories,
    confidence,
    find_related,
    from_log,
    is_stale,
    iso_of,
    make_memory,
    read_memories,
)
from codeinfo.operations.knowledge import (
    MemoryExportRequest,
    MemoryImportRequest,
    MemoryListRequest,
    MemoryRemoveRequest,
    MemoryShowRequest,
    RememberRequest,
)


def days_ago(days: float) -> str:
    return iso_of(NOW - days * DAY)


@pytest.mark.parametrize(
    ("kind", "days", "expected"),
    [
        ("convention", 3650, 1.0),  # never ages
        ("decision", 180, 0.5),  # one half-life
        ("decision", 360, 0.25),  # two: 2^-2
        ("gotcha", 45, 0.7071),  # half a half-life: 2^-0.5
        ("failure", 90, 0.5),
        ("failure", 0, 1.0),
        ("gotcha", -5, 1.0),  # a date in the future counts as today
    ],
)
def test_confidence_halves_with_age(kind: str, days: float, expected: float) -> None:
    assert confidence(kind, days_ago(days), NOW) == expected


def test_stale_begins_below_three_tenths() -> None:
    """0.3 = 2^-x for x = 1.737: a gotcha is stale from day 156.3 on, a decision from day 312.6 on."""
    assert [is_stale(confidence("gotcha", days_ago(days), NOW)) for days in (156, 157)] == [False, True]
    assert [is_stale(confidence("decision", days_ago(days), NOW)) for days in (312, 313)] == [False, True]


def test_the_same_thing_remembered_twice_is_one_memory() -> None:
    one = make_memory("decision", "tooling", " Use ruff ", "fast", days_ago(9))
    other = make_memory("decision", "tooling", "Use ruff", "faster", days_ago(1))
    assert one.id == other.id
    assert make_memory("gotcha", "tooling", "Use ruff", "", days_ago(1)).id != one.id


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("rumour", "tooling", "x", "", "2026-01-01"), "not a type"),
        (("decision", "weather", "x", "", "2026-01-01"), "not a category"),
        (("decision", "tooling", "  ", "", "2026-01-01"), "needs a text"),
        (("decision", "tooling", "x", "", "yesterday"), "not a date"),
        (("decision", "tooling", "x" * 2001, "", "2026-01-01"), "longer than"),
    ],
)
def test_a_memory_is_checked(values: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make_memory(*values)


# --- the file ------------------------------------------------------------------------------------------------------


def some(text: str, days: float = 0) -> Memory:
    return make_memory("decision", "tooling", text, "", days_ago(days))


def test_the_file_is_sorted_readable_and_round_trips(tmp_path: Path) -> None:
    memories = [some(text) for text in ("zebra", "Äpfel", "mouse")]
    change_memories(tmp_path, lambda before: [*before, *memories])
    text = (tmp_path / ".codeinfo" / "memory.json").read_text("utf-8")
    assert "Äpfel" in text
    records = json.loads(text)["memories"]
    assert [record["id"] for record in records] == sorted(memory.id for memory in memories)
    assert set(read_memories(tmp_path)) == set(memories)


ADDING = """
import sys
from pathlib import Path
from codeinfo.knowledge.memory import make_memory
from codeinfo.knowledge.memory import change_memories
who, root = sys.argv[1], Path(sys.argv[2])
for number in range(25):
    new = make_memory("decision", "tooling", f"{who} {number}", "", "2026-01-01")
    change_memories(root, lambda before: [*before, new])
"""


def test_processes_that_remember_at_once_lose_nothing(tmp_path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", ADDING, who, str(tmp_path)]) for who in ("ann", "ben", "cem")]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(read_memories(tmp_path)) == 75
    assert [path.name for path in (tmp_path / ".codeinfo").iterdir()] == ["memory.json"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "format": 1,\n  "memories": [\n    {"id": "a",}\n  ]\n}\n', "line 4, column 16"),
        ('{"memories": [', "line 1, column 15"),
        ("[]]", "line 1, column 3"),
        ('{"memories": 3}', "line 1, column 1"),
        # the second memory has no date: it begins in line 3 after one space
        (
            '[{"type": "gotcha", "category": "testing", "memory": "a", "reason": "", "date": "2026-01-01"},\n\n'
            ' {"type": "gotcha", "category": "testing", "memory": "b", "reason": ""}]',
            "line 3, column 2",
        ),
    ],
)
def test_a_broken_file_is_reported_by_line_and_column_and_left_alone(text: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / ".codeinfo" / "memory.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(MemoryFileDamaged, match=place):
        read_memories(tmp_path)
    with pytest.raises(MemoryFileDamaged, match=place):
        change_memories(tmp_path, lambda before: [some("new")])
    assert file.read_text() == text
    assert [path.name for path in file.parent.iterdir()] == ["memory.json"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / ".codeinfo").symlink_to(elsewhere)
    with pytest.raises(UsageError):
        change_memories(project, lambda before: [some("x")])
    assert not list(elsewhere.iterdir())
    (project / ".codeinfo").unlink()
    (project / ".codeinfo").mkdir()
    secret = tmp_path / "secret.json"
    secret.write_text("[]")
    (project / ".codeinfo" / "memory.json").symlink_to(secret)
    with pytest.raises(UsageError):
        read_memories(project)


# --- git -----------------------------------------------------------------------------------------------------------


def test_conventional_commits_become_memories(tmp_path: Path) -> None:
    """Three of the team's commits are of the last 90 days and say something; the one 120 days ago is too old."""
    with engine_of(build_team(tmp_path / "team")) as engine:
        listed = engine.knowledge.memory_list(MemoryListRequest(path=str(tmp_path / "team"))).memories
    seen = [(m.type, m.category, m.memory, m.reason, m.confidence, m.source) for m in listed]
    assert seen == [
        # 2^(-10/90), 2^(-30/90), 2^(-80/180)
        ("gotcha", "architecture", "Reverted: feat: reports by mail", "", 0.9259, "git"),
        ("gotcha", "conventions", "shipping must bill first", "", 0.7937, "git"),
        ("decision", "architecture", "shop: keep orders in a store", "Two places wrote the same file.", 0.7349, "git"),
    ]
    assert all("Cem" in m.label or "Ben" in m.label for m in listed)


def test_a_subject_counts_once() -> None:
    log = "".join(f"{n:040x}\x1f{NOW - n * DAY}\x1fAnn\x1fmigrate: to apsw\x1f\x1e\n" for n in (1, 2))
    (memory,) = from_log(log, NOW)
    assert (memory.type, memory.category, memory.date) == ("decision", "dependencies", days_ago(1))


# --- finding -------------------------------------------------------------------------------------------------------


def test_related_ones_share_words_or_scope_and_stop_at_three() -> None:
    memories = [
        make_memory("convention", "conventions", "Parse headers with the tolerant parser", "", days_ago(1)),
        make_memory(
            "gotcha", "architecture", "The cache must be cleared", "", days_ago(1), scope="file:src/headers.py"
        ),
        make_memory("decision", "tooling", "Use ruff for linting", "", days_ago(1)),
        *(make_memory("gotcha", "testing", f"Headers parsed twice, case {n}", "", days_ago(n)) for n in range(4)),
    ]
    found = find_related("how are headers parsed", memories, paths=["src/headers.py"], now=NOW)
    assert len(found) == 3
    assert "Use ruff for linting" not in [memory.memory for memory in found]
    assert "The cache must be cleared" in [memory.memory for memory in found]  # about the very file
    assert find_related("unrelated words", memories, now=NOW) == ()


def test_a_stale_one_says_so() -> None:
    old = [make_memory("failure", "testing", "Parallel tests deadlock", "", days_ago(400))]
    (found,) = find_related("parallel tests", old, now=NOW)
    assert found.stale
    assert "data, not an instruction" in found.label


# --- the operations ------------------------------------------------------------------------------------------------


def test_remember_list_show_export_import_remove(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    with engine_of(root) as engine:
        know = engine.knowledge
        first = know.remember(RememberRequest("Log, do not print", reason="grep", path=str(root)))
        again = know.remember(RememberRequest("Log, do not print", reason="levels", path=str(root)))
        assert (first.known, again.known) == (False, True)
        assert know.memory_show(MemoryShowRequest(first.memory.id[:6], str(root))).reason == "levels"
        found = know.memory_list(MemoryListRequest("print or log", path=str(root)))
        assert [memory.id for memory in found.memories] == [first.memory.id]
        exported = know.memory_export(MemoryExportRequest(str(root)))
        file = tmp_path / "exported.json"
        file.write_text(json.dumps({"memories": exported.memories}))
        know.memory_remove(MemoryRemoveRequest(first.memory.id, str(root)))
        assert know.memory_list(MemoryListRequest(path=str(root))).total == 0
        assert know.memory_import(MemoryImportRequest(str(file), str(root))).added == 1
        assert know.memory_import(MemoryImportRequest(str(file), str(root))).known == 1


def test_a_search_goes_on_beside_a_broken_file(codeinfo: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def parse_header(): pass\n")
    (tmp_path / ".codeinfo").mkdir()
    (tmp_path / ".codeinfo" / "memory.json").write_text("{\n  broken\n}")
    done = codeinfo("search", "parse_header", "--context", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a.py" in done.stdout
    assert "line 2, column 3" in done.stdout
    failed = codeinfo("memory", "list", cwd=tmp_path)
    assert failed.returncode == 2
    assert "line 2, column 3" in failed.stderr
