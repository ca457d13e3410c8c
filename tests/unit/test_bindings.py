"""What names are bound to: rows that a parse leaves, types and values as they are written, and where both lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeinfo import Config, Engine
from codeinfo.graph.uses import Bindings, WrittenType, all_references, unpack, value_links, written_types
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.operations.code import RefsRequest


def rows(language: str, code: str, name: str) -> list[tuple[int, str, str]]:
    """Line, mark and text of what a name is bound to."""
    uses, bound = unpack(parse_file("a", code, language, ChunkSettings())[1])
    return [(row.line, row.mark, row.text) for row in Bindings(bound, uses.partition("\n")[0]).of(name)]


@pytest.mark.parametrize(
    ("language", "code", "name", "expected"),
    [
        ("python", "def f(pool: Optional[Pool] = None): ...", "pool", [(1, ":", "Optional[Pool]")]),
        ("python", "def f():\n    pool = await make.Pool(3)", "pool", [(2, "=", "make.Pool(3)")]),
        ("python", "def f():\n    with open_pool(3) as pool:\n        pass", "pool", [(2, "^", "open_pool(3)")]),
        ("python", "class A:\n    def f(self, p):\n        self.pool = p", "this.pool", [(3, "=", "p")]),
        ("python", "def f():\n    other.pool = Pool()", "other.pool", []),
        ("python", "def f() -> Pool: ...", "()", [(1, ":", "Pool")]),
        ("typescript", "class A { constructor(private pool: Pool) {} }", "this.pool", [(1, ":", "Pool")]),
        ("typescript", "class A { pool = inject(Pool); }", "pool", [(1, "=", "inject(Pool)")]),
        ("typescript", "const { pool } = useAll();", "pool", [(1, "=", "useAll().pool")]),
        ("typescript", "pools.map((pool) => pool.x)", "pool", [(1, "~", "pools.map"), (1, "", "")]),
        ("go", "package a\nfunc run(pool *db.Pool) {}", "pool", [(2, ":", "*db.Pool")]),
        ("go", "package a\nfunc run() {\n\tpool := db.Open(3)\n}", "pool", [(3, "=", "db.Open(3)")]),
        ("go", "package a\ntype A struct {\n\t*Base\n}", "*", [(3, ":", "Base")]),
        ("rust", "fn f() { let pool: &mut Pool = other; }", "pool", [(1, ":", "&mut Pool")]),
        ("java", "class A { void f() { Map<String, Pool> pool = null; } }", "pool", [(1, ":", "Map<String, Pool>")]),
        ("php", "<?php\nfunction run(Pool $pool, $other) {}", "$pool", [(2, ":", "Pool")]),
        ("c", "void f(void) { Pool* pool; }", "pool", [(1, ":", "Pool")]),
        ("csharp", "class A { void F(Pool pool) {} }", "pool", [(1, ":", "Pool")]),
        ("kotlin", "fun f(pool: Pool) {}", "pool", [(1, ":", "Pool")]),
    ],
)
def test_a_parse_leaves_what_a_name_is_bound_to(
    language: str, code: str, name: str, expected: list[tuple[int, str, str]]
) -> None:
    found = rows(language, code, name)
    assert [(line, mark, text.removeprefix("await ")) for line, mark, text in found] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Optional[Pool]", [WrittenType("Pool")]),
        ("'Pool | None'", [WrittenType("Pool")]),
        ("*db.Pool", [WrittenType("db.Pool")]),
        ("(*Pool, error)", [WrittenType("Pool")]),
        ("[]*Pool", [WrittenType(element="*Pool")]),
        ("map[string]Pool", [WrittenType(element="Pool")]),
        ("Pool[]", [WrittenType(element="Pool")]),
        ("Promise<Pool | undefined>", [WrittenType("Pool")]),
        ("Omit<Required<Pool>, 'a'>", [WrittenType("Pool")]),
        ("&'a mut Pool", [WrittenType("Pool")]),
        ("dict[str, Pool]", [WrittenType("dict", "", ("str", "Pool"))]),
        ("A & B", [WrittenType("A"), WrittenType("B")]),
        ("{ a: string }", []),
    ],
)
def test_a_written_type_is_read(text: str, expected: list[WrittenType]) -> None:
    assert written_types(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("await make.Pool(3, (4))", [[("make", ""), ("Pool", "(3, (4))")]]),
        ("&Mux{tree: m.tree}", [[("Mux", "{}")]]),
        ("given or Pool()", [[("given", "")], [("Pool", "()")]]),
        ("a if b else c", [[("a", "")], [("c", "")]]),
        ("pools[0].name", [[("pools", "[]"), ("name", "")]]),
        ("Pool::new(3)?", [[("Pool", ""), ("new", "(3)")]]),
        ("first + 1", []),
        ("3", []),
    ],
)
def test_a_value_is_read(text: str, expected: list[list[tuple[str, str]]]) -> None:
    assert value_links(text) == expected


def test_a_use_has_its_receiver_over_several_lines() -> None:
    code = "this.api\n  .load(a, b(c))\n  .pipe(map((x) => x.name));\n(await api.stop()).now();\n''.trim();\n"
    uses, _ = unpack(parse_file("a", code, "typescript", ChunkSettings())[1])
    found = {(use.line, use.name): use.receiver for use in all_references(uses)}
    assert found[2, "load"] == "this.api"
    assert found[3, "pipe"] == "this.api.load()"
    assert found[4, "now"] == "api.stop()"
    assert found[5, "trim"] == '""'


def test_every_name_of_a_line_is_a_use() -> None:
    code = "point.x + a.b.cd(1) + runner?.cancel?.(2) + box.\n  load(3) + make<Box>(4) + xs[0].size\n"
    uses, _ = unpack(parse_file("a", code, "typescript", ChunkSettings())[1])
    found = {(use.name, use.role, use.receiver) for use in all_references(uses)}
    assert found == {
        ("point", "use", ""),
        ("cd", "call", "a.b"),
        ("runner", "use", ""),
        ("cancel", "call", "runner"),
        ("box", "use", ""),
        ("load", "call", "box"),
        ("make", "call", ""),
        ("Box", "use", ""),
        ("xs", "use", ""),
        ("size", "use", "xs[]"),
    }


def test_a_giant_line_is_no_trap() -> None:
    code = "x = " + "f(" * 20_000 + ")" * 20_000 + ".y\n" + "a.b(" * 3000
    assert parse_file("a", code, "python", ChunkSettings())[1]


# Sources, the name asked for, its uses as file:line, and how many more cannot be distinguished from those of others.
CASES: dict[str, tuple[dict[str, str], str, set[str], int]] = {
    "a parameter that is a field": (
        {
            "api.ts": "export class PlayerApi {\n  setVolume(v: number) {}\n}\n",
            "other.ts": "export class Other {\n  setVolume(v: number) {}\n}\n",
            "store.ts": "import { PlayerApi } from './api';\nexport class Store {\n"
            "  constructor(private playerApi: PlayerApi) {}\n  run = inject(PlayerApi);\n  go() {\n"
            "    this.playerApi\n      .setVolume(1);\n    this.run.setVolume(2);\n    unknown.setVolume(3);\n  }\n}\n",
        },
        "PlayerApi.setVolume",
        {"store.ts:7", "store.ts:8"},
        1,
    ),
    "a closure has its own names": (
        {
            "go.mod": "module example.com/a\n",
            "a.go": "package a\n\ntype Router interface {\n\tGet() Router\n}\n\ntype Mux struct {\n\t*Base\n}\n\n"
            "type Base struct{}\n\nfunc (b *Base) Close() {}\n\nfunc (m *Mux) Get() Router {\n\treturn m\n}\n\n"
            "func New() *Mux {\n\treturn &Mux{}\n}\n",
            "b.go": "package a\n\nfunc run() {\n\tr := New()\n\tr.Route(func(r Router) {\n\t\tr.Get()\n\t})\n"
            "\tr.Get()\n\tr.Close()\n}\n",
        },
        "Mux.Get",
        {"b.go:8"},
        0,
    ),
    "what a container holds": (
        {
            "a.py": "class Item:\n    def run(self):\n        pass\n\n\nclass Other:\n    def run(self): ...\n",
            "b.py": "from a import Item\n\n\nclass Box:\n    def __init__(self, items: list[Item]) -> None:\n"
            "        self.items = items\n\n    def go(self):\n        for item in self.items:\n            item.run()\n"
            "        [one.run() for one in self.items]\n        self.items[0].run()\n        self.items.run()\n",
        },
        "Item.run",
        {"b.py:10", "b.py:11", "b.py:12"},
        0,
    ),
    "an import inside of a function": (
        {
            "a.py": "def load():\n    pass\n",
            "b.py": "def load():\n    from a import load\n    return load()\n\n\ndef other():\n    return load()\n",
        },
        "a.py::load",
        {"b.py:2", "b.py:3"},
        0,
    ),
    "a type that is written as a string": (
        {
            "a.py": "class Item:\n    pass\n",
            "b.py": 'from a import Item\n\n\ndef f(x: "Item", y: dict[str, "Item"]) -> "Item":\n    return "Item"\n',
        },
        "Item",
        {"b.py:1", "b.py:4"},
        0,
    ),
    "a name that an import gives another one": (
        {
            "a.ts": "export function handle() {}\n",
            "b.ts": "export function handle() {}\n",
            "c.ts": "import { handle as first } from './a';\nimport { handle as second } from './b';\nsecond();\n",
        },
        "b.ts::handle",
        {"c.ts:2", "c.ts:3"},
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_value_is_followed_to_its_type(name: str, tmp_path: Path) -> None:
    sources, asked, expected, unattributed = CASES[name]
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none", "index.workers": "1"}, tmp_path)) as engine:
        report = engine.code.references(RefsRequest(asked, str(tmp_path)))
    assert {f"{use.file}:{use.line}" for use in report.usages if use.confidence == "resolved"} == expected
    assert report.unattributed == unattributed
