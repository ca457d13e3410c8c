"""The packet for a review, from the two sides of a change."""

from __future__ import annotations

from pathlib import Path

import pytest
from team_tools import build_team, engine_of

from codeinfo.errors import NotFound, UsageError
from codeinfo.knowledge.change import changed_symbols, compare, reviewers
from codeinfo.knowledge.dates import BlameLine, LastChange, dates_after_edit, last_changes, read_blame
from codeinfo.model import Definition
from codeinfo.operations.knowledge import RememberRequest, ReviewRequest


def test_a_difference_knows_both_sides() -> None:
    found = compare("a.py", "one\ntwo\nthree\n", "one\n2\nthree\nfour\n")
    assert found.state == "changed"
    assert (set(found.added), set(found.removed)) == ({2, 4}, {2})
    assert compare("a.py", None, "x\n").state == "added"
    gone = compare("a.py", "x\ny\n", None)
    assert gone.state == "removed"
    assert (set(gone.removed), set(gone.added)) == ({1, 2}, set())
    assert compare("a.py", "one\ntwo\n", "one\n").touched == {2}  # where the removed line stood


def test_the_innermost_definition_changed() -> None:
    outer = Definition("A", "A", "class", "", "", 1, 9)
    inner = Definition("b", "A.b", "method", "", "", 2, 4)
    change = compare(
        "a.py", "class A:\n  def b():\n    1\n    2\n  x = 1\n", "class A:\n  def b():\n    1\n    3\n  x = 1\n"
    )
    assert [(s.name, s.place, s.lines) for s in changed_symbols(change, [outer, inner])] == [("A.b", "a.py:2-4", 1)]


def test_reviewers_wrote_what_was_changed() -> None:
    change = compare("a.py", "1\n2\n3\n", "1\nx\ny\n")
    blame = [BlameLine(1, author, "") for author in ("Ann", "Ben", "Cem")]
    assert [(r.name, r.lines) for r in reviewers({"a.py": blame}, [change])] == [("Ben", 1), ("Cem", 1)]
    grown = compare("b.py", "1\n2\n", "1\n2\n3\n")
    assert [(r.name, r.lines) for r in reviewers({"b.py": blame[:2]}, [grown])] == [("Ann", 1), ("Ben", 1)]


def test_blame_and_log_are_read() -> None:
    porcelain = (
        "aaa 1 1 2\nauthor Ann\nauthor-time 100\nsummary x\nfilename f\n\tone\naaa 2 2\n\ttwo\n"
        "bbb 3 3 1\nauthor Ben\nauthor-time 50\nboundary\nfilename f\n\tthree\n"
    )
    lines = read_blame(porcelain)
    assert [(line.time, line.author, line.text) for line in lines] == [
        (100, "Ann", "one"),
        (100, "Ann", "two"),
        (0, "Ben", "three"),
    ]
    assert dates_after_edit(["one", "new"], lines, 200) == [100, 200]
    log = "\x01300\x1fc2\x1fann@x\0\na.py\0b.py\0\x01100\x1fc1\x1fben@x\0\nb.py\0c.py\0"
    assert last_changes(log) == {
        "a.py": LastChange(300, "c2", {"ann@x"}),
        "b.py": LastChange(300, "c2", {"ann@x", "ben@x"}),
        "c.py": LastChange(100, "c1", {"ben@x"}),
    }


def test_the_teams_packet(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    store, reports = root / "shop" / "store.py", root / "shop" / "reports.py"
    store.write_text(store.read_text().replace("return order", "return [order]"))
    reports.write_text(reports.read_text() + "\n\ndef again():\n    print('again')\n")
    with engine_of(root) as engine:
        engine.knowledge.remember(RememberRequest("Stores are slow", scope="file:shop/store.py", path=str(root)))
        packet = engine.knowledge.review(ReviewRequest(path=str(root)))
        assert [(f.path, f.state, f.added, f.removed) for f in packet.files] == [
            ("shop/reports.py", "changed", 4, 0),
            ("shop/store.py", "changed", 1, 1),
        ]
        by_name = {symbol.name: symbol for symbol in packet.symbols}
        assert set(by_name) == {"Store.save", "again"}
        # reports.py uses the store as well, but is part of the change.
        assert set(by_name["Store.save"].callers) == {"shop/shipping.py:11", "tests/test_store.py:5"}
        assert packet.missing_tests == ("shop/reports.py",)
        # With the new line print stays at 2 of 5 files, and is of today.
        assert packet.patterns == (
            "shop/reports.py:10: print (how messages are written) is at 40 %; logging module is at 60 %",
        )
        assert [memory.memory for memory in packet.memories] == ["Stores are slow"]
        # Ben wrote the line that was changed, and all six lines of the file that only grew.
        assert [(r.name, r.lines, r.files) for r in packet.reviewers] == [("Ben", 7, 2)]
        cut = engine.knowledge.review(ReviewRequest(path=str(root), limit=1))
        assert (len(cut.files), cut.totals["files"]) == (1, 2)


def test_a_branch_is_compared_with_where_it_left(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    with engine_of(root) as engine:
        against = engine.knowledge.review(ReviewRequest("HEAD~1", path=str(root)))
        assert [f.path for f in against.files] == ["main.go"]
        assert engine.knowledge.review(ReviewRequest(path=str(root))).files == ()
        with pytest.raises(NotFound):
            engine.knowledge.review(ReviewRequest("--output=x", path=str(root)))


def test_without_a_history_there_is_no_review(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with engine_of(tmp_path) as engine, pytest.raises(UsageError, match="no history"):
        engine.knowledge.review(ReviewRequest(path=str(tmp_path)))
