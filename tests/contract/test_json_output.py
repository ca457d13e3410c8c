"""JSON that a terminal may show: text from a repository can neither steer it nor change the order of reading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import RunCli

from codeinfo.model import dumps

STEERING = ["\x1b", "\x7f", *map(chr, range(0x80, 0xA0)), "\u061c", "\u200e", "\u200f", "\u2028", "\u2029"]
STEERING += [*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))]


@pytest.mark.parametrize("character", STEERING, ids=lambda character: f"U+{ord(character):04X}")
@pytest.mark.parametrize("beside", ["", "é", "\udc80"], ids=["alone", "with-letters", "with-bytes"])
def test_steering_characters_are_escaped_and_come_back(character: str, beside: str) -> None:
    value = {f"key{character}": [f"{beside}a{character}b"]}
    text = dumps(value)
    assert character not in text
    assert json.loads(text) == value


def test_a_search_shows_none_of_them(tmp_path: Path, codeinfo: RunCli) -> None:
    line = f"def landmark():  # {''.join(STEERING[1:])} überall"
    (tmp_path / "hostile.py").write_text(f"{line}\n    return 1\n", "utf-8")
    done = codeinfo("search", "landmark", str(tmp_path), "--json", "--set", "embedding.provider=none")
    assert done.returncode == 0, done.stderr
    assert "überall" in done.stdout
    assert not set(done.stdout) & set(STEERING)
    assert json.loads(done.stdout)["hits"][0]["text"].split("\n")[0] == line
