"""Definitions, imports and references of real parses, one small file for each language that has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeinfo.graph.uses import all_references, pack_code, unpack
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.languages import GRAMMARS, LANGUAGES, has_outline
from codeinfo.languages.model import bases_behind_colon
from codeinfo.model import Definition, ParsedFile, Reference

# A file for each language: the source, then its definitions as `qualified kind first-last`, a `-` before those that
# are not exported.
SNIPPETS: dict[str, tuple[str, list[str]]] = {}
for file in sorted((Path(__file__).parents[1] / "snippets").glob("*.txt")):
    source, _, listed = file.read_text("utf-8").partition("=== definitions\n")
    SNIPPETS[file.stem] = (source, listed.splitlines())


def parse(language: str, text: str, path: str = "file") -> ParsedFile:
    return parse_file(path, text, language, ChunkSettings())[0]


def definition(language: str, qualified: str) -> Definition:
    found = parse(language, SNIPPETS[language][0]).definitions
    return next(entry for entry in found if entry.qualified == qualified)


def shown(entry: Definition) -> str:
    return f"{'' if entry.exported else '-'}{entry.qualified} {entry.kind} {entry.start_line}-{entry.end_line}"


def test_every_language_that_defines_something_has_a_snippet() -> None:
    parsed = {name for name, syntax in GRAMMARS.items() if not syntax.template}
    assert SNIPPETS.keys() == parsed | {language.name for language in LANGUAGES if has_outline(language.name)}


@pytest.mark.parametrize("language", SNIPPETS)
def test_definitions(language: str) -> None:
    text, expected = SNIPPETS[language]
    assert [shown(entry) for entry in parse(language, text).definitions] == expected


@pytest.mark.parametrize("language", SNIPPETS)
def test_windows_line_ends_and_letters_beyond_ascii_change_nothing(language: str) -> None:
    text, expected = SNIPPETS[language]
    for variant in (text.replace("\n", "\r\n"), text.replace("Says hello", "Sagt „grüß dich“ 👋")):
        found = parse(language, variant).definitions
        assert [shown(entry) for entry in found] == expected


def test_classes_of_dart_may_have_their_constructor_in_the_header() -> None:
    text = (
        "class const Cart({super.key, final int most = (2)}) extends Base with Priced {\n  int total() => most;\n}\n"
        "final class const Money<T>._(final int amount);\nclass Late(Money money) extends Base;\n"
        "enum Size(final int rank) { small(1), large(2); }\nclass Mixed = Base with Priced;\nclass Plain {}\n"
    )
    for source in (text, text.replace("\n", "\r\n")):
        found = parse("dart", source).definitions
        assert [(entry.qualified, entry.kind, entry.bases, entry.start_line) for entry in found] == [
            ("Cart", "class", ("Base", "Priced"), 1),
            ("Cart.total", "method", (), 2),
            ("Money", "class", (), 4),
            ("Late", "class", ("Base",), 5),
            ("Size", "enum", (), 6),
            ("Size.small", "enum_member", (), 6),
            ("Size.large", "enum_member", (), 6),
            ("Mixed", "class", ("Base", "Priced"), 7),
            ("Plain", "class", (), 8),
        ]


def test_tests_of_cpp_are_known_by_their_macro_beside_letters_beyond_ascii() -> None:
    text = "TEST_P(Cart, Adds) { int x = 1; }\nCHECK(Cart, Adds) { int x = 1; }\n// "
    plain, other = (parse_file("cart.cpp", f"{text}{end}\n", "cpp", ChunkSettings())[1] for end in ("size", "Größe"))
    assert unpack(plain) == unpack(other)


@pytest.mark.parametrize(
    ("language", "qualified", "signature"),
    [
        ("python", "Shape.area", "def area(self) -> float"),
        ("python", "main", "async def main(argv: list[str]) -> int"),
        ("javascript", "hello", "function hello(name)"),
        ("typescript", "Options.visit", "visit(node: T): void"),
        ("go", "Point.Scale", "func (p *Point) Scale(f int)"),
        ("rust", "Point.new", "pub fn new() -> Self"),
        ("java", "UserRepository.find", "public T find(int id) throws E"),
        ("kotlin", "User", "data class User(val name: String, age: Int) : Base(), Named"),
        ("scala", "Box.map", "def map[B](f: A => B): Box[B]"),
        ("c", "add", "static int add(int a, int b)"),
        ("cpp", "shapes.Circle.operator==", "bool operator==(const Circle& other) const"),
        ("csharp", "Shop.Core.Cart", "public class Cart<T> : Base<T>, ICart where T : Item"),
        ("php", "User.find", "public function find(int $id): ?User"),
        ("php", "Loader", "final class Loader"),
        ("ruby", "Shop.Cart.add", "def add(item)"),
        ("swift", "User.greet", "func greet(to other: User) -> String"),
        ("dart", "Cart.load", "Future<List<T>> load({int page = 1})"),
        ("dart", "Cart.of", "factory Cart.of(Map<String, io.File> json)"),
        ("dart", "sizes", "const List<int> sizes = [1]"),
        ("elixir", "Shop.Cart.add", "def add(cart, item) when is_map(cart)"),
        ("haskell", "open", "open :: Box a -> Maybe a"),
        ("lua", "M.run", "M.run = function(x)"),
        ("zig", "Point.init", "pub fn init(x: i32) Point"),
        ("bash", "hello", "hello()"),
    ],
)
def test_signatures(language: str, qualified: str, signature: str) -> None:
    assert definition(language, qualified).signature == signature


@pytest.mark.parametrize(
    ("language", "qualified", "doc"),
    [
        ("python", "Shape", "A shape."),
        ("python", "Shape.area", "Its area."),
        ("python", "Shape.sides", ""),
        ("javascript", "hello", "Says hello."),
        ("go", "Point", "Point is a point."),
        ("rust", "Point", "A point."),  # above an attribute
        ("java", "UserRepository", "A repository."),
        ("kotlin", "User", "A user."),
        ("scala", "Box", "A box."),
        ("c", "add", "Adds."),
        ("csharp", "Shop.Core.Cart", "A cart."),
        ("php", "User", "A user."),
        ("ruby", "Shop", "The app."),
        ("swift", "User", "A user."),
        ("dart", "Cart", "A cart."),
        ("elixir", "Shop.Cart.add", "Adds an item."),
        ("haskell", "open", "Opens it."),
        ("lua", "M.add", "Adds."),
        ("zig", "Point", "A point."),
        ("bash", "hello", "Says hello."),
    ],
)
def test_first_line_of_the_documentation(language: str, qualified: str, doc: str) -> None:
    assert definition(language, qualified).doc == doc


@pytest.mark.parametrize(
    ("language", "qualified", "bases"),
    [
        ("python", "Shape", ("Base",)),
        ("javascript", "Cart", ("Base",)),
        ("typescript", "Walker", ("Options", "Other")),
        ("rust", "Area", ("Sized",)),
        ("java", "UserRepository", ("Base", "Repository", "Closeable")),
        ("kotlin", "User", ("Base", "Named")),
        ("scala", "Box", ("Base", "Named")),
        ("cpp", "shapes.Circle", ("Shape", "Named")),
        ("csharp", "Shop.Core.Cart", ("Base", "ICart")),
        ("php", "User", ("Model", "Named")),
        ("ruby", "Shop.Cart", ("Base::Model",)),
        ("swift", "User", ("Model", "Named")),
        ("dart", "Cart", ("Base", "Priced", "Named", "Shown")),
        ("dart", "Priced", ("Base", "Named")),
        ("dart", "Both", ("Base", "Priced")),
        ("dart", "Words", ("String",)),
    ],
)
def test_bases(language: str, qualified: str, bases: tuple[str, ...]) -> None:
    assert definition(language, qualified).bases == bases


def test_what_a_parameter_must_be_is_no_base() -> None:
    assert bases_behind_colon("<T> where T : Info, new()", frozenset()) == ()
    assert bases_behind_colon("<T> : Base<T>, IHas where T : Info", frozenset()) == ("Base", "IHas")


def test_a_rust_impl_says_which_trait_it_implements() -> None:
    impls = [entry for entry in parse("rust", SNIPPETS["rust"][0]).definitions if entry.kind == "impl"]
    assert [(entry.name, entry.bases) for entry in impls] == [("Shape", ("Area",)), ("Point", ())]


def test_functions_a_broken_bash_file_hides_from_the_grammar_are_found() -> None:
    broken = 'first() {\n  echo "${out:+${out};}7"\n}\n# not_me() {\nsecond() {\n  true\n}\n'
    names = [(entry.name, entry.start_line, entry.end_line) for entry in parse("bash", broken * 3).definitions]
    assert ("first", 8, 10) in names
    assert ("second", 19, 21) in names
    assert not any(name == "not_me" for name, _, _ in names)


IMPORTS = {
    "python": (
        "import a.b as c, d\nfrom .x import (a,  # why\n  b as q)\nfrom y import *\nfrom . import z\n",
        ["1 a.b () c", "1 d ()", "2 .x (a)", "2 .x (b) q", "4 y (*)", "5 . (z)"],
    ),
    "typescript": (
        "import d, {a as b, type c} from 'm';\nimport * as ns from './n';\nimport 'side';\nimport type {T} from 't';\n"
        "export * from './e';\nexport {x as y, z} from './f';\nexport * as q from 'g';\nimport k = require('kk');\n"
        "const lazy = () => import('dyn');\n",
        [
            "1 m (c)",
            "1 m (default) d",
            "1 m (a) b",
            "2 ./n () ns",
            "3 side ()",
            "4 t (T)",
            "5 ./e (*) re",
            "6 ./f (z) re",
            "6 ./f (x) y re",
            "7 g () q re",
            "8 kk () k",
            "9 dyn ()",
        ],
    ),
    "javascript": (
        "const r = require('h');\nconst {u, v: w} = require('./i');\n// require('no')\n",
        ["1 h () r", "2 ./i (u)", "2 ./i (v) w"],
    ),
    "go": (
        'package a\nimport (\n\t"fmt"\n\tx "a/b"\n\t. "c"\n)\nimport "z"\n',
        ["3 fmt ()", "4 a/b () x", "5 c (*)", "7 z ()"],
    ),
    "rust": (
        "use a::b::{c, d as e, f::*, self};\npub use x::y;\nextern crate q as r;\nmod sub;\nmod inner { }\n",
        ["1 a::b (c)", "1 a::b (d) e", "1 a::b::f (*)", "1 a::b ()", "2 x (y) re", "3 q () r", "4 self::sub ()"],
    ),
    "java": (
        "import a.b.C;\nimport static a.b.C.d;\nimport a.b.*;\nclass X {}\n",
        ["1 a.b.C ()", "2 a.b.C (d)", "3 a.b (*)"],
    ),
    "kotlin": ("import a.b.C as D\nimport a.*\nclass X\n", ["1 a.b.C () D", "2 a (*)"]),
    "scala": (
        "import a.b.{C, D => E, _}\nimport x.Y, z.W\nimport q._\nclass A\n",
        ["1 a.b (C *)", "1 a.b (D) E", "2 x.Y ()", "2 z.W ()", "3 q (*)"],
    ),
    "c": ('#include <stdio.h>\n#include "x/y.h"\n', ["1 <stdio.h> ()", "2 x/y.h ()"]),
    "cpp": ('#include <vector>\n#include "x.hpp"\n', ["1 <vector> ()", "2 x.hpp ()"]),
    "csharp": (
        "using A.B;\nusing static A.C;\nusing X = A.D;\nglobal using E;\nclass Q {}\n",
        ["1 A.B ()", "2 A.C (*)", "3 A.D () X", "4 E ()"],
    ),
    "php": (
        '<?php\nuse A\\B\\C as D;\nuse A\\{B, C as E};\nuse function F\\g;\nrequire_once __DIR__ . "/x.php";\n',
        ["2 A\\B\\C () D", "3 A (B)", "3 A (C) E", "4 F\\g ()", "5 /x.php ()"],
    ),
    "ruby": (
        "require 'a'\nrequire_relative \"b/c\"\nautoload :X, 'x'\n# require 'no'\n",
        ["1 a ()", "2 ./b/c ()", "3 x () X"],
    ),
    "swift": (
        "import Foundation\n@testable import Vapor\nimport struct A.B\n"
        "public import Logging\n@_spi(Kit) internal import Kit\n",
        ["1 Foundation ()", "2 Vapor ()", "3 A.B ()", "4 Logging ()", "5 Kit ()"],
    ),
    "dart": (
        "import 'dart:io';\nimport 'a.dart' as a show A;\nimport \"b.dart\" show B, C hide D;\n"
        "import 'c.dart' if (dart.library.io == 'true') 'd.dart' hide E; // 'no'\n"
        "import 'f.dart' deferred as f;\nexport 'g.dart' show G;\npart 'h.g.dart';\n",
        [
            *("1 dart:io (*)", "2 a.dart () a", "3 b.dart (B C)", "4 c.dart (*)", "4 d.dart (*)", "5 f.dart () f"),
            *("6 g.dart (G) re", "7 h.g.dart (*) re"),
        ],
    ),
    "elixir": (
        "defmodule A do\n  alias B.C\n  alias D.{E, F}\n  alias G.H, as: I\n  import J\n  use K, opt: 1\nend\n",
        ["2 B.C ()", "3 D (E F)", "4 G.H () I", "5 J ()", "6 K ()"],
    ),
    "haskell": (
        "module A where\nimport qualified Data.Map as M\nimport X (a, B(..), (<+>))\nimport Y hiding (z)\n"
        "import Z (C(..))\nf = 1\n",
        ["2 Data.Map () M", "3 X (a B <+>)", "4 Y (*)", "5 Z (C)"],
    ),
    "lua": ('local a = require("x.y")\nrequire "z"\nhelp([[\n  require("no")\n]])\n', ["1 x.y () a", "2 z ()"]),
    "zig": ('const std = @import("std");\n', ["1 std () std"]),
    "bash": ('source ./a.sh\n. "$DIR/b.sh"\n', ["1 ./a.sh ()", "2 $DIR/b.sh ()"]),
}


@pytest.mark.parametrize("language", IMPORTS)
def test_imports(language: str) -> None:
    text, expected = IMPORTS[language]
    found = [
        f"{entry.line} {entry.module} ({' '.join(entry.names)}) {entry.alias} {'re' if entry.reexport else ''}"
        for entry in parse(language, text).imports
    ]
    assert [" ".join(line.split()) for line in found] == expected


def uses(language: str, text: str) -> list[str]:
    return [
        f"{use.line} {use.name}{'()' if use.role == 'call' else ''} {use.within}".strip()
        for use in all_references(unpack(parse_file("file", text, language, ChunkSettings())[1])[0])
    ]


def test_references_leave_out_comments_strings_keywords_and_the_names_being_defined() -> None:
    text = (
        'def outer(value):\n    """Calls ghost()."""\n    # ghost()\n    return helper(value) + f"ghost {see(value)}"\n'
    )
    assert uses("python", text) == ["1 value outer", "4 helper() outer", "4 value outer", "4 see() outer"]


def test_a_reference_names_the_innermost_definition_around_it() -> None:
    text = "class Box:\n    size = LIMIT\n    def f(self):\n        return go (self)\n\nstart(Box)\n"
    assert uses("python", text) == ["2 LIMIT Box", "4 go() Box.f", "6 start()", "6 Box"]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("javascript", "const $el = find(`a ${inner} b`); // gone\n", ["1 find()", "1 inner"]),
        ("php", "<?php\n$name = $this->load($id);\n", ["2 load()"]),
        ("ruby", "x = list.empty? && save!(1) # no\n", ["1 list", "1 empty?", "1 save!()"]),
        ("haskell", "go' = step' (start)\n", ["1 step'() go'", "1 start go'"]),
        ("dart", "final xs = '$one ${two.of(\"no $three\")} no'; // no\n", ["1 one", "1 two", "1 of()", "1 three"]),
        ("tsx", "const A = () => <b>plain words {value}</b>;\n", ["1 value A"]),
    ],
)
def test_references_follow_the_language(language: str, text: str, expected: list[str]) -> None:
    assert [line for line in uses(language, text) if not line.startswith(("1 name", "1 x"))] == expected


def test_packed_references_come_back_as_they_were() -> None:
    code = "load() größe\ntop\n\nlast(1)"
    references = (
        Reference("load", 1, "call", "A.f"),
        Reference("größe", 1, "use", "A.f"),
        Reference("top", 2, "use", ""),
        Reference("last", 4, "call", "B"),
    )
    packed = pack_code(code, "python", [0, -1, -1, 1], ["A.f", "B"])
    assert tuple(all_references(unpack(packed)[0])) == references
    assert pack_code("1 + 2\n", "python", [-1, -1], []) == b""
    assert not list(all_references(unpack(b"")[0]))


def test_a_condition_that_the_grammar_takes_for_a_function_is_none() -> None:
    branch = "#if NEW\n      else if (b != null) { return b.Count; }\n#endif\n      else { return 0; }"
    text = (
        "class A {\n  public int Count {\n    get {\n      if (a != null) { return 1; }\n"
        + branch
        + "\n    }\n  }\n}\n"
    )
    names = [entry.name for entry in parse("csharp", text).definitions]
    assert "Count" in names
    assert "if" not in names


def test_the_signature_of_a_long_type_of_c_is_its_beginning() -> None:
    members = "".join(f"    A_{number} = {number},\n" for number in range(100))
    found = [one for one in parse("c", f"typedef enum {{\n{members}}} colour;\n").definitions if one.name == "colour"]
    assert [one.signature for one in found] == ["typedef enum colour;"]


def test_annotations_are_no_part_of_a_signature_however_long_they_are() -> None:
    columns = ",\n".join(f'        @Persistent(name = "column{number}")' for number in range(60))
    written = f"@FetchGroup(members = {{\n{columns}\n}})\n@Unique\npublic class Finding implements Rated {{}}\n"
    assert parse("java", written).definitions[0].signature == "public class Finding implements Rated"


def test_a_keyword_of_c_behind_a_macro_is_no_name() -> None:
    found = parse("c", "attr struct type *\nrun(struct name *head)\n{\n\treturn 1;\n}\n").definitions
    assert [(one.kind, one.name) for one in found] == [("function", "run")]


def test_a_variable_of_go_is_a_variable_in_upper_case_too() -> None:
    """Go has `const`; elsewhere upper case is all there is to mark a constant."""
    kinds = {one.name: one.kind for one in parse("go", "package a\n\nconst MAX = 3\nvar JSON = 4\n").definitions}
    assert (kinds["MAX"], kinds["JSON"]) == ("constant", "variable")
    assert {one.kind for one in parse("python", "MAX = 3\n").definitions} == {"constant"}


def test_a_bit_field_of_cpp_without_a_name_leaves_the_others() -> None:
    parsed = parse(
        "cpp", "class Flags {\n  unsigned ready : 1;\n  unsigned : 0;\n  int size() const { return 1; }\n};\n"
    )
    assert [one.qualified for one in parsed.definitions] == ["Flags", "Flags.ready", "Flags.size"]


@pytest.mark.parametrize(
    ("language", "text", "signature"),
    [
        (
            "python",
            "def total(\n    cart,  # with prices\n    tax=0,\n) -> int:  # cents\n    return 1\n",
            "def total( cart, tax=0, ) -> int",
        ),
        ("ruby", "def total(cart)\n  # Adds up.\n  cart.sum\nend\n", "def total(cart)"),
        (
            "typescript",
            "function total(cart: Cart, // with prices\n  tax = 0): number {\n  return 1;\n}\n",
            "function total(cart: Cart, tax = 0): number",
        ),
    ],
)
def test_comments_are_no_part_of_a_signature(language: str, text: str, signature: str) -> None:
    assert parse(language, text).definitions[0].signature == signature
