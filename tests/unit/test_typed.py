"""How a line gives a variable its type, in the languages that write it differently."""

from __future__ import annotations

import pytest

from codeinfo.graph.receivers import copied_name, field_type, written_type
from codeinfo.ports import FileLines


@pytest.mark.parametrize(
    ("language", "line", "name", "expected"),
    [
        ("python", "pool: Optional[Pool] = None", "pool", "Pool"),
        ("python", "pool = await make.Pool(3)", "pool", "make.Pool"),
        ("python", "with open_pool(3) as pool:", "pool", "open_pool"),
        ("python", "with open_pool(3) as pools:", "pool", ""),
        ("python", "whirlpool: Water", "pool", ""),
        ("python", "self.pool: Pool", "pool", ""),
        ("python", "pool == Pool(3)", "pool", ""),
        ("java", "final Map<String, Pool> pool = null;", "pool", "Map"),
        ("php", "function run(Pool $pool, $other)", "pool", "Pool"),
        ("c", "static Pool* pool;", "pool", "Pool"),
        ("c", "return use(pool);", "pool", ""),
        ("go", "func run(pool *db.Pool, n int) {", "pool", "db.Pool"),
        ("go", "pool := db.Open(3)", "pool", "db.Open"),
        ("rust", "let pool: &mut Pool = other;", "pool", "Pool"),
        ("typescript", "const a: First = x, pool: Pool = y", "pool", "Pool"),
        ("java", "First pool = new Second()", "pool", "First"),  # what begins first decides
    ],
)
def test_a_line_gives_a_variable_its_type(language: str, line: str, name: str, expected: str) -> None:
    assert written_type(line, name, language) == expected


def test_a_field_gets_its_type_or_a_copy() -> None:
    assert field_type("self.pool: Pool = pool", "pool", "python") == "Pool"
    assert field_type("this.pool = new Pool()", "pool", "typescript") == "Pool"
    assert field_type("other.pool = Pool()", "pool", "python") == ""
    assert copied_name("self.pool = given  # kept", "pool") == "given"
    assert copied_name("this.pool = given;", "pool") == "given"
    assert copied_name("self.pool = given + 1", "pool") == ""


def test_a_giant_line_is_no_trap() -> None:
    assert written_type("X<" * 200_000 + " pool, " + "pool, " * 2000, "pool", "java") == ""


def test_lines_having_a_word_are_those_that_asking_one_by_one_finds() -> None:
    lines = FileLines([(1, "one\ntwo\nthree"), (3, "three again\nfour"), (9, "nine\nten\ntwo again")])
    for word in ("t", "two", "again", "e", "absent"):
        for first in range(12):
            for last in range(first, 13):
                asked = [(n, lines[n]) for n in range(first, last + 1) if word in lines.get(n, "")]
                assert list(lines.having(word, first, last)) == asked
