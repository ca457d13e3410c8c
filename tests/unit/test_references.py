"""References, definitions, calls and what nobody uses, on a small codebase where every answer is known."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeinfo import Config, Engine
from codeinfo.engine import index_manager
from codeinfo.errors import NotFound, UsageError
from codeinfo.graph import scopes
from codeinfo.graph import uses as packed_uses
from codeinfo.graph.code_index import CodeIndex
from codeinfo.graph.model import SymbolId
from codeinfo.graph.scip import Compiler
from codeinfo.graph.scopes import find_own_member
from codeinfo.graph.uses import UsedNames, pack_code, references_to, unpack
from codeinfo.index.chunk import ChunkSettings
from codeinfo.model import Reference
from codeinfo.operations.code import (
    CallsRequest,
    DefsRequest,
    ExploreRequest,
    ImpactRequest,
    ImportsRequest,
    MapRequest,
    RefsRequest,
    SymbolsRequest,
    UnusedRequest,
)
from codeinfo.operations.search import IndexRequest, SearchRequest, StatusRequest
from codeinfo.tokens import blank_signs

SOURCES = {
    "shop/__init__.py": "from .cart import Cart as Cart\nfrom .cart import total\n",
    "shop/cart.py": '''"""Carts; total is mentioned here."""

class Base:
    def price(self) -> int:
        return 1


class Cart(Base):
    def __init__(self, owner: "User | None" = None) -> None:
        self.owner = owner

    def add(self, item):  # add an item: add
        return self.price() + total([item])

    @classmethod
    def make(cls) -> "Cart":
        return cls()


def total(items):
    print("total of", items)
    return sum(items)
''',
    "shop/user.py": """class User:
    def add(self, name):
        return name


def total():
    return 0


def unused_helper():
    return total()
""",
    "app.py": """import shop
import shop.user as people
from shop import Cart, total
from shop.cart import total as sum_up


def main(total_price, total_count=0):
    cart = Cart()
    cart.add(total([1]))
    other = Cart.make()
    other.add(sum_up([2]))
    people.total()
    shop.total([3])
    unknown().add(1)


def shadow(total):
    return total + 1


def keyword():
    return dict(total=1)
""",
    "page.jl": 'include("x.jl")\n\nshow() = total()\n',
    "page.vue": "<script>\nimport { total } from './x'\ntotal()\n</script>\n",  # which can use no Python
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        yield engine


@contextmanager
def indexed(root: Path, sources: dict[str, str]) -> Iterator[Engine]:
    for path, text in sources.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, root)) as engine:
        yield engine


def uses(engine: Engine, root: Path, name: str, limit: int = 50) -> set[tuple[str, int, str]]:
    report = engine.code.references(RefsRequest(name, str(root), limit))
    return {(usage.file, usage.line, usage.confidence) for usage in report.usages}


def test_same_named_functions_stay_apart(engine: Engine, tmp_path: Path) -> None:
    assert uses(engine, tmp_path, "shop/cart.py::total") == {
        ("shop/__init__.py", 2, "resolved"),
        ("shop/cart.py", 13, "resolved"),
        ("app.py", 3, "resolved"),
        ("app.py", 4, "resolved"),
        ("app.py", 9, "resolved"),
        ("app.py", 11, "resolved"),  # by its other name
        ("app.py", 13, "resolved"),
    }
    assert uses(engine, tmp_path, "shop/user.py::total") == {
        ("shop/user.py", 11, "resolved"),
        ("app.py", 12, "resolved"),
    }


def test_methods_are_distinguished_by_their_receiver(engine: Engine, tmp_path: Path) -> None:
    report = engine.code.references(RefsRequest("Cart.add", str(tmp_path)))
    assert {(usage.file, usage.line) for usage in report.usages} == {("app.py", 9), ("app.py", 11)}
    assert report.unattributed == 1  # unknown().add(1)
    assert uses(engine, tmp_path, "Base.price") == {("shop/cart.py", 13, "resolved")}


def test_a_plain_name_asks_for_all_and_the_count_is_true(engine: Engine, tmp_path: Path) -> None:
    report = engine.code.references(RefsRequest("total", str(tmp_path), limit=3))
    assert report.usage_count == 9
    assert len(report.usages) == 3
    assert len(report.definitions) == 2
    assert not report.is_complete
    assert report.notes[0].endswith("not looked into: page.jl")
    whole = engine.code.references(RefsRequest("Cart.make", str(tmp_path)))
    assert (whole.usage_count, whole.is_complete, whole.confidence) == (1, True, "resolved")


def test_each_use_names_its_edge(engine: Engine, tmp_path: Path) -> None:
    def edges(name: str) -> dict[tuple[str, int], str]:
        report = engine.code.references(RefsRequest(name, str(tmp_path)))
        return {(usage.file, usage.line): usage.edge for usage in report.usages}

    assert edges("Base") == {("shop/cart.py", 8): "EXTENDS"}
    assert edges("Cart")["app.py", 3] == "IMPORTS"
    assert edges("Cart")["app.py", 8] == "CALLS"
    assert edges("Cart")["app.py", 10] == "REFERENCES_TYPE"


@pytest.mark.parametrize("name", ["", " ", ".", "()", "total.", "shop/cart.py::", "cart::"])
def test_a_name_that_is_missing_is_refused(engine: Engine, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="has no name at its end"):
        uses(engine, tmp_path, name)
    with pytest.raises(UsageError, match="has no name at its end"):
        engine.code.definitions(DefsRequest(name=name, path=str(tmp_path)))


def test_a_name_may_be_written_as_a_call(engine: Engine, tmp_path: Path) -> None:
    assert uses(engine, tmp_path, "total()") == uses(engine, tmp_path, "total") != set()
    (tmp_path / "apply.cpp").write_text("struct F {\n  int operator()(int a) { return a; }\n};\n")
    found = engine.code.definitions(DefsRequest(name="F.operator()", path=str(tmp_path)))
    assert [one.path for one in found.definitions] == ["apply.cpp"]


QUALIFIED_SOURCES = {
    "shop/__init__.py": "",
    "shop/cart.py": "class Base:\n    def price(self): ...\n\n\nclass Cart(Base):\n    def add(self, item): ...\n",
    "shop/user.py": "class Cart:\n    def add(self, item): ...\n",
    "java/src/org/shop/Order.java": "package org.shop;\n\npublic class Order {\n    public enum Source { WEB }\n}\n",
    "java/src/org/shop/late/Order.java": "package org.shop.late;\n\npublic class Order {\n    enum Source { FAX }\n}\n",
    "java/src/org/bank/Order.java": "package org.bank;\n\npublic class Order {\n    public enum Source { APP }\n}\n",
    "Cargo.toml": '[workspace]\nmembers = ["core"]\n',
    "core/Cargo.toml": '[package]\nname = "tea-pot"\n',
    "core/src/lib.rs": "pub mod brew;\n",
    "core/src/brew.rs": "pub struct Pot;\n\nimpl Pot {\n    pub fn pour(&self) {}\n}\n",
    "lib/Services/Upload.php": "<?php\nnamespace App\\Services;\nclass Upload {\n    public function send() {}\n}\n",
    "app/(group)/page.js": "class Page {}\n",
    "lib/Ops.hs": "module Ops where\n\n(#) :: Int -> Int\n(#) a = a\n",
    "till.h": "namespace shop {\nclass Drawer {\n  int open() { return 1; }\n};\n}\n",
    "go.mod": "module example.com/kit/v2\n",
    "mux/mux.go": "package mux\n\ntype Mux struct{}\n\nfunc (m *Mux) Serve() {}\n",
    "lib/till.ex": "defmodule Shop.Till do\n  def total(a, b), do: a + b\nend\n",
}


def test_a_name_may_be_written_in_full(tmp_path: Path) -> None:
    with indexed(tmp_path, QUALIFIED_SOURCES) as engine:

        def find(name: str) -> list[str]:
            return [one.id for one in engine.code.definitions(DefsRequest(name, str(tmp_path))).definitions]

        pour, send, serve = (
            "core/src/brew.rs::Pot.pour",
            "lib/Services/Upload.php::Upload.send",
            "mux/mux.go::Mux.Serve",
        )
        for name, found in {
            "shop.cart.Cart.add": "shop/cart.py::Cart.add",
            "shop.user.Cart.add(item, f(2))": "shop/user.py::Cart.add",
            "shop.cart.Cart.price": "shop/cart.py::Base.price",  # inherited
            "org.shop.Order.Source": "java/src/org/shop/Order.java::Order.Source",
            "org.shop.Order$Source": "java/src/org/shop/Order.java::Order.Source",
            "org.bank.Order#Source": "java/src/org/bank/Order.java::Order.Source",
            "tea_pot::brew::Pot::pour": pour,
            "tea_pot.brew.Pot.pour": pour,
            "crate::brew::Pot::pour()": pour,
            "core/src/brew.rs::Pot::pour": pour,
            "App\\Services\\Upload": "lib/Services/Upload.php::Upload",
            "\\App\\Services\\Upload::send": send,
            "Upload->send($file)": send,
            "$this->send": send,
            "example.com/kit/v2/mux.(*Mux).Serve": serve,
            "mux.Mux.Serve": serve,
            "(*Mux).Serve": serve,
            "Shop.Till.total/2": "lib/till.ex::Shop.Till.total",
            "shop::Drawer::open(1)": "till.h::shop.Drawer.open",
            "#total": "lib/till.ex::Shop.Till.total",
            "#": "lib/Ops.hs::#",  # an operator
            "app/(group)/page.js::Page": "app/(group)/page.js::Page",
        }.items():
            assert find(name) == [found], name
        explored = engine.knowledge.explore(ExploreRequest("shop.user.Cart.add(item)", str(tmp_path)))
        assert explored.place == "shop/user.py:2-2"


def test_a_name_in_full_is_no_namesake_from_elsewhere(tmp_path: Path) -> None:
    with indexed(tmp_path, QUALIFIED_SOURCES) as engine:
        for name, near in {
            "shop.bank.Cart.add": "Cart.add",
            "requests.cart.Cart.add": "Cart.add",
            "com.other.shop.Order.Source": "Order.Source",
            "tokio::brew::Pot::pour": "Pot.pour",
            "tokio.brew.Pot.pour": "Pot.pour",
            "Other\\Services\\Upload::send": "Upload.send",
            "example.com/other/mux.Mux.Serve": "Mux.Serve",
            "other::shop::Drawer::open": "Drawer.open",
            "Shop.Desk.total/2": "Shop.Till.total",
            f"{'a.' * 1_500}pour": "Pot.pour",
        }.items():
            with pytest.raises(NotFound, match="is defined here") as caught:
                engine.code.definitions(DefsRequest(name, str(tmp_path)))
            assert str(caught.value.next_step) == f"Did you mean {near}?", name
            with pytest.raises(NotFound, match="is defined here"):
                engine.code.calls(CallsRequest(name, str(tmp_path)))


def test_a_member_is_found_as_documentation_writes_it_and_methods_before_fields(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "arg.rs").write_text("struct Arg {\n    pub env: u8,\n}\n\nimpl Arg {\n    pub fn env(&self) {}\n}\n")
    for name in ("Arg#env", "Arg::env", "Arg.env"):
        found = engine.code.definitions(DefsRequest(name=name, path=str(tmp_path))).definitions
        assert [one.kind for one in found] == ["method", "field"]
    with pytest.raises(NotFound) as caught:
        engine.code.definitions(DefsRequest(name="Args#env", path=str(tmp_path)))
    assert "Arg.env" in str(caught.value.next_step)


def test_uses_by_other_names_come_in_the_same_order_each_time(engine: Engine, tmp_path: Path) -> None:
    """A set of the names would give them in another order in each process."""
    names = [f"sum_{number}" for number in range(8)]
    imports = "\n".join(f"from shop.cart import total as {name}" for name in names)
    (tmp_path / "many.py").write_text(f"{imports}\n" + "\n".join(f"{name}([])" for name in names) + "\n")
    report = engine.code.references(RefsRequest("shop/cart.py::total", str(tmp_path)))
    lines = [usage.line for usage in report.usages if usage.file == "many.py" and usage.edge == "CALLS"]
    assert lines == list(range(9, 17))


def test_calls_both_ways(engine: Engine, tmp_path: Path) -> None:
    graph = engine.code.calls(CallsRequest("shop/cart.py::total", str(tmp_path), depth=2))
    callers = {(edge.source, edge.target) for edge in graph.callers}
    assert ("shop/cart.py::Cart.add", "shop/cart.py::total") in callers
    assert ("app.py::main", "shop/cart.py::Cart.add") in callers  # two calls away
    add = engine.code.calls(CallsRequest("Cart.add", str(tmp_path)))
    assert {edge.target for edge in add.callees} == {"shop/cart.py::Base.price", "shop/cart.py::total"}
    cart = engine.code.calls(CallsRequest("Cart", str(tmp_path)))
    kinds = {(edge.kind, edge.target) for edge in cart.related}
    assert {("DEFINES", "shop/cart.py::Cart"), ("EXTENDS", "shop/cart.py::Base")} <= kinds


def test_symbols_and_definitions(engine: Engine, tmp_path: Path) -> None:
    listed = engine.code.symbols(SymbolsRequest(str(tmp_path / "shop/cart.py"), root=str(tmp_path)))
    assert [s.qualified for s in listed.symbols][:3] == ["Base", "Base.price", "Cart"]
    assert listed.is_complete
    short = engine.code.symbols(SymbolsRequest("shop", root=str(tmp_path), limit=2))
    assert (short.total > 2, len(short.symbols), short.is_complete) == (True, 2, False)
    found = engine.code.definitions(DefsRequest("add", str(tmp_path)))
    assert {one.id for one in found.definitions} == {"shop/cart.py::Cart.add", "shop/user.py::User.add"}
    with pytest.raises(NotFound):
        engine.code.definitions(DefsRequest("nothing_like_it", str(tmp_path)))


def test_a_default_that_others_name_as_they_like_is_used(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "box.ts").write_text("export default function PlainBox() {}\n")
    (tmp_path / "lost.ts").write_text("export default function LostBox() {}\n")
    (tmp_path / "page.ts").write_text("import Box from './box'\nBox()\n")
    names = {one.symbol.name for one in engine.code.unused(UnusedRequest(str(tmp_path))).symbols}
    assert names & {"PlainBox", "LostBox"} == {"LostBox"}


def test_unused_exports(engine: Engine, tmp_path: Path) -> None:
    report = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert {one.symbol.name for one in report.symbols} >= {"unused_helper"}
    everything = engine.code.unused(UnusedRequest(str(tmp_path), own_file=True))
    names = {one.symbol.name: one.used_here for one in everything.symbols}
    assert names["unused_helper"] is False
    assert names["Base"] is True  # only its own file needs it
    assert "Cart" not in names
    assert (everything.total, everything.own_file) == (report.total + report.own_file, 0)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "tour.py").write_text("def tour():\n    pass\n")
    (tmp_path / "gradlew").write_text("#!/bin/sh\napp_home=1\n")
    assert engine.code.unused(UnusedRequest(str(tmp_path))).symbols == report.symbols  # nobody imports an example


def test_what_a_framework_or_a_string_finds_is_not_unused(tmp_path: Path) -> None:
    sources = {
        "shop/auth.py": "from web import Backend\n\nclass OwnBackend(Backend): ...\nclass SmsBackend(OwnBackend): ...\n"
        "class TokenCheck: ...\nclass Lost: ...\nclass LostError(Exception): ...\n_hidden = 1\n",
        "shop/settings.py": 'CHECKS = ["shop.auth.TokenCheck"]\n',
        "shop/urls.py": "urlpatterns = []\nhandler404 = 'shop.views.lost'\n",
        "app/Policies/VaultPolicy.php": "<?php\nclass VaultPolicy { function view() {} }\n",
        "app/Listeners/Greeter.php": "<?php\nclass Greeter { function handle(Login $event) {} }\n",
        "shop/0001_first.py": "def forgotten(): ...\n",
        "shop/migrations/0001_first.py": "def fill(): ...\n",
        "packaging/hook-shop.py": "datas = []\ndef lost_hook(): ...\n",
        "cli/Program.cs": "namespace Shop;\n\npublic class Program\n{\n    static void Main() { }\n}\n\n"
        "public class Idle\n{\n    void Go() { }\n}\n",
        "shop/gunicorn_conf.py": "def pre_fork(server, worker): ...\n",
        "shop/fuzz.go": "package shop\n\nfunc Fuzz(data []byte) int { return 0 }\n\nfunc Lot() int { return 1 }\n",
        "shop/lot.go": "package shop\n\nvar lot = Lot()\n",
        "shop/fast.py": "class FastCart: ...\n",
        "shop/loop.pyx": "from shop.fast import FastCart\n",
        "ChangeLog": "The class Lost is new, and so is forgotten.\n",
        "pkgs/shop-9999.ebuild": "EAPI=7\nsrc_install() {\n  emake\n}\n",
        "web/instrumentation-client.ts": "export function onRouterTransitionStart() {}\n",
        "kit/src/hooks.server.ts": "export function handle() {}\n",
        "shop/page.py": "def shown_in_page(): ...\n",
        "shop/page.html": "{{ shown_in_page }}\n",
        "README.md": "`Lost` and `forgotten` are described here.\n",
        "features/environment.py": "def before_all(context): ...\ndef after_scenario(context, scenario): ...\n"
        "def before_lunch(context): ...\n",
        "asv.conf.json": '{\n    // what runs\n    "benchmark_dir": "./shop_speed"\n}\n',
        "shop_speed/carts.py": "class TimeCart:\n    def time_total(self): ...\n\ndef track_size(): ...\n",
        "other_speed/carts.py": "class OtherCart:\n    def time_total(self): ...\n",
        "app/cart/page.tsx": "export const dynamic = 'force-static'\nexport default function Cart() { return 1 }\n",
        "run.py": "def main():\n    step()\n\ndef step(): ...\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    found = {one.symbol.name: one.used_here for one in report.symbols}
    lost = ("Idle", "Lost", "LostError", "OtherCart", "before_lunch", "forgotten", "lost_hook")
    assert found == dict.fromkeys(lost, False)
    assert [note.partition(" that ")[0] for note in report.notes] == ["not listed: 2 classes"]


def test_a_type_is_not_the_method_of_its_name_in_whose_signature_it_is(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module example.com/shop\n",
        "store.go": "package shop\n\ntype Store struct{}\n",
        "cart.go": "package shop\n\ntype DeleteCart struct{ ID int }\n\n"
        "func (s *Store) DeleteCart(one *DeleteCart) error { return nil }\n",
        "use.go": "package shop\n\nfunc use(s *Store) { s.DeleteCart(nil) }\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Store.DeleteCart") == {("use.go", 3, "resolved")}
        assert ("cart.go", 5, "resolved") in uses(engine, tmp_path, "cart.go::DeleteCart")


def test_uses_of_a_name_that_require_binds_are_listed(tmp_path: Path) -> None:
    sources = {
        "lib/utils.js": "exports.compileTag = function (value) { return value }\n",
        "lib/view.js": "module.exports = View\nfunction View() {}\n",
        "lib/app.js": "var compileTag = require('./utils').compileTag\nvar View = require('./view')\n"
        "app.set = function (value) { this.tag = compileTag(value); this.view = View }\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert ("lib/app.js", 3, "resolved") in uses(engine, tmp_path, "compileTag")
        assert ("lib/app.js", 3, "resolved") in uses(engine, tmp_path, "View")


COMMONJS = {
    "lib/cart.js": "class Cart {\n  add(item) { return this.total() }\n  total() {}\n}\nmodule.exports = Cart\n",
    "lib/tax.js": "function addTax(sum) {}\nfunction hidden() {}\nmodule.exports = { addTax, other: hidden }\n",
    "lib/store.js": "const Cart = require('./cart')\nmodule.exports = new Cart()\n",
    "lib/pot.js": "module.exports = class Pot extends Base {\n  brew() { this.pour() }\n  pour() {}\n}\n",
    "lib/view.js": "exports = module.exports = View\nfunction View(name) { this.lookup() }\n"
    "View.prototype.lookup = function lookup() { return this.render() }\nView.prototype.render = function () {}\n",
    "lib/index.js": "module.exports = require('./tax')\nexports.View = require('./view')\n",
    "lib/list.js": "function join() {}\nexports.join = join\nexports.fresh = 1\n"
    "const fresh = require('fresh')\nfresh(join)\n",
    "lib/util.js": "module.exports = {\n  size() { return this.count() },\n  count() {},\n}\n",
}


def test_common_js_modules_are_followed(tmp_path: Path) -> None:
    sources = COMMONJS | {
        "app.js": "var fs = require('fs')\n  , Basket = require('./lib/cart'), tax = require('./lib/tax');\n"
        "const { addTax: taxed, other } = require('./lib');\n"
        "const basket = new Basket(); basket.add(1);\n"
        "tax.addTax(1); taxed(2); other(3);\n"
        "require('./lib/store').add(4);\n"
        "const pot = new (require('./lib/pot'))(); pot.brew();\n"
        "const { View } = require('./lib/index');\nconst view = new View(); view.lookup();\n"
        "function late() { const Later = require('./lib/cart'); return new Later().add(5) }\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Cart") == {
            *(("app.js", line, "resolved") for line in (2, 4, 10)),
            ("lib/cart.js", 5, "resolved"),
            *(("lib/store.js", line, "resolved") for line in (1, 2)),
        }
        assert uses(engine, tmp_path, "Cart.add") == {("app.js", line, "resolved") for line in (4, 6, 10)}
        assert uses(engine, tmp_path, "Cart.total") == {("lib/cart.js", 2, "resolved")}
        assert uses(engine, tmp_path, "addTax") == {
            *(("app.js", line, "resolved") for line in (3, 5)),
            ("lib/tax.js", 3, "resolved"),
        }
        assert ("app.js", 7, "resolved") in uses(engine, tmp_path, "Pot.brew")
        assert uses(engine, tmp_path, "Pot.pour") == {("lib/pot.js", 2, "resolved")}
        assert {("app.js", 9, "resolved"), ("lib/view.js", 2, "resolved")} <= uses(engine, tmp_path, "View.lookup")
        assert uses(engine, tmp_path, "View.render") == {("lib/view.js", 3, "resolved")}
        assert uses(engine, tmp_path, "count") == {("lib/util.js", 2, "resolved")}
        assert {one.source for one in engine.code.calls(CallsRequest("View", str(tmp_path))).callers} == {"app.js"}
        assert {one.target for one in engine.code.calls(CallsRequest("late", str(tmp_path))).callees} == {
            "lib/cart.js::Cart",
            "lib/cart.js::Cart.add",
        }


def test_a_declaration_that_names_an_imported_type_is_no_import(tmp_path: Path) -> None:
    sources = {
        "user.ts": "export class User {}\n",
        "app.ts": "import { User } from './user'\nexport function greet(user: User) {}\nlet last: User;\n",
        "index.ts": "import { User } from './user'\nexport { User }\n",
        "main.ts": "import {\n  User,\n} from './user'\nexport default User\n",
    }
    with indexed(tmp_path, sources) as engine:
        usages = engine.code.references(RefsRequest("User", str(tmp_path))).usages
    edges = {(use.file, use.line): use.edge for use in usages}
    assert edges[("app.ts", 2)] == edges[("app.ts", 3)] == "REFERENCES_TYPE"
    assert {edges[place] for place in (("app.ts", 1), ("index.ts", 1), ("main.ts", 2))} == {"IMPORTS"}


def test_a_variable_that_stands_for_an_import_is_no_definition(tmp_path: Path) -> None:
    sources = COMMONJS | {
        "app.js": "const fs = require('fs'), { addTax } = require('./lib/tax'), log = require('log')('app');\n"
        "export const kept = require('./lib/tax');\nfs.open(addTax);\n",
    }
    with indexed(tmp_path, sources) as engine:
        defined = [one.id for one in engine.code.symbols(SymbolsRequest(str(tmp_path))).symbols]
        assert [one for one in defined if one.startswith("app.js")] == ["app.js::log", "app.js::kept"]
        assert [one for one in defined if one.startswith(("lib/index", "lib/list"))] == [
            "lib/list.js::join",
            "lib/list.js::fresh",
        ]
        assert uses(engine, tmp_path, "fs") == {("app.js", 1, "syntactic"), ("app.js", 3, "syntactic")}
        assert uses(engine, tmp_path, "addTax") >= {("app.js", 1, "resolved"), ("app.js", 3, "resolved")}
        assert uses(engine, tmp_path, "lib/list.js::fresh") == set()  # the package is called, not what is exported
        unused = engine.code.unused(UnusedRequest(str(tmp_path)))
        assert not {"Cart", "View", "addTax"} & {one.symbol.name for one in unused.symbols}


def test_default_exports_are_followed_whatever_their_users_call_them(tmp_path: Path) -> None:
    sources = {
        "src/cart.ts": "class Cart {\n  add() {}\n}\nexport default Cart\n",
        "src/helpers.ts": "function merge() {}\nfunction split() {}\n"
        "export default { merge }\nexport { split as cut }\n",
        "src/legacy.ts": "class Legacy {\n  run() {}\n}\nexport = Legacy\n",
        "src/index.ts": "export { default } from './cart'\n",
        "app.ts": "import Basket from './src'\nimport tools from './src/helpers'\nimport { cut } from './src/helpers'\n"
        "import old = require('./src/legacy')\nnew Basket().add()\ntools.merge()\ncut()\nnew old().run()\n"
        "export const route = async () => (await import('./src/helpers')).cut()\n"
        "export const path = () => import('./src/index').then((found) => new found.default().add())\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert {("app.ts", 1, "resolved"), ("app.ts", 5, "resolved")} <= uses(engine, tmp_path, "Cart")
        assert uses(engine, tmp_path, "add") == {("app.ts", 5, "resolved"), ("app.ts", 10, "resolved")}
        assert ("app.ts", 6, "resolved") in uses(engine, tmp_path, "merge")
        assert uses(engine, tmp_path, "run") == {("app.ts", 8, "resolved")}
        found = engine.code.calls(CallsRequest("route", str(tmp_path)))
        assert [one.target for one in found.callees] == ["src/helpers.ts::split"]


def test_a_name_that_only_re_exports_give_is_known(tmp_path: Path) -> None:
    sources = {
        "package.json": '{"name": "@tea/ui", "main": "src/index.ts"}',
        "src/button/Button.vue": '<script setup lang="ts">\nconst size = 1\n</script>\n',
        "src/button/index.ts": "import TeaButton from './Button.vue'\nexport default TeaButton\n",
        "src/index.ts": "export { default as TeaButton } from './button'\n",
        "app/Home.vue": "<script setup>\nimport { TeaButton } from '@tea/ui'\n</script>\n"
        "<template>\n  <TeaButton />\n</template>\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "TeaButton") >= {("app/Home.vue", 2, "resolved"), ("app/Home.vue", 5, "resolved")}
        assert uses(engine, tmp_path, "Button") == uses(engine, tmp_path, "TeaButton")
        found = engine.code.calls(CallsRequest("TeaButton", str(tmp_path)))
        assert [one.path for one in found.definitions] == ["src/button/Button.vue"]
        assert [one.source for one in found.callers] == ["app/Home.vue"]


def test_namespaces_and_private_members_are_followed(tmp_path: Path) -> None:
    sources = {
        "src/tea.ts": "export class Tea {}\nexport namespace Tea {\n  export interface Leaf {}\n}\n"
        "export namespace Pots {\n  export function fill() {}\n}\n",
        "src/cup.ts": "import { Pots, Tea } from './tea'\nclass Lid {\n  open() {}\n}\nexport class Cup {\n"
        "  #lid = new Lid()\n  #leaf: Tea.Leaf\n  use() {\n    Pots.fill()\n    this.#lid?.open()\n    this.#rinse()\n"
        "  }\n  #rinse() {}\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Leaf") == {("src/cup.ts", 7, "resolved")}
        assert uses(engine, tmp_path, "fill") == {("src/cup.ts", 9, "resolved")}
        assert uses(engine, tmp_path, "Lid.open") == {("src/cup.ts", 10, "resolved")}
        assert uses(engine, tmp_path, "Cup.rinse") == {("src/cup.ts", 11, "resolved")}


def test_what_a_published_package_exports_may_be_used_by_others(tmp_path: Path) -> None:
    sources = {
        "web/package.json": '{"private": true, "main": "site.js"}',
        "web/site.ts": "export const lost = 1\n",
        "kit/package.json": '{"name": "@acme/kit", "exports": {".": "./src/kit.ts"}}',
        "kit/src/kit.ts": "export const offered = 1\n",
        "kit/src/deep.ts": "export const deep = 1\nexport interface Options { a: string }\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert [one.symbol.name for one in report.symbols] == ["lost", "deep", "Options"]
    assert report.notes == (
        "2 of them, listed last, can be imported or included by other projects, which may use them",
    )


def test_what_a_header_declares_may_be_used_by_others(tmp_path: Path) -> None:
    sources = {
        "src/shop.h": "typedef int price_t;\nprice_t shop_total(price_t a);\n",
        "src/cart.c": '#include "shop.h"\n\nint shop_total(int a) { return a; }\n\nint shop_lost(int a) {}\n',
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert [one.symbol.name for one in report.symbols] == ["shop_lost", "shop_total"]
    assert report.notes[0].startswith("1 of them, listed last, can be imported or included by other projects")


def test_what_is_public_in_a_library_of_swift_may_be_used_by_others(tmp_path: Path) -> None:
    manifest = 'let package = Package(products: [.%s(name: "Shop", targets: ["Shop"])])\n'
    sources = {
        "Package.swift": manifest % "library",
        "Sources/Shop/Cart.swift": "public struct Cart {}\nstruct Lost {}\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
        assert [one.symbol.name for one in report.symbols] == ["Lost", "Cart"]
        assert report.notes[0].startswith("1 of them, listed last, can be imported or included by other projects")
        (tmp_path / "Package.swift").write_text(manifest % "executable")
        assert engine.code.unused(UnusedRequest(str(tmp_path))).notes == ()


def test_what_a_library_of_rust_offers_may_be_used_by_others(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[workspace]\nmembers = ["kit", "app", "own"]\n[workspace.package]\npublish = false\n',
        "kit/Cargo.toml": '[package]\nname = "kit"\n',
        "kit/src/lib.rs": "pub mod cart;\n",
        "kit/src/cart.rs": "#[derive(Debug)]\npub struct Offered;\n",
        "app/Cargo.toml": '[package]\nname = "app"\n',
        "app/src/main.rs": "fn main() {}\npub mod cart;\n",
        "app/src/cart.rs": "pub fn lost() {}\n#[route]\npub fn page() {}\n",
        "own/Cargo.toml": '[package]\nname = "own"\npublish.workspace = true\n',
        "own/src/lib.rs": "pub mod cart;\n",
        "own/src/cart.rs": "pub fn kept() {}\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert [one.symbol.name for one in report.symbols] == ["lost", "kept", "Offered"]
    assert report.notes[0].startswith("1 of them, listed last, can be imported or included by other projects")


def test_types_that_code_may_take_from_a_list_of_types_are_not_unused(tmp_path: Path) -> None:
    sources = {
        "ITask.cs": "namespace Shop;\npublic interface ITask {}\n",
        "CleanTask.cs": "namespace Shop;\npublic class CleanTask : ITask {}\n",
        "LostException.cs": "namespace Shop;\npublic class LostException : Exception {}\n",
        "Host.cs": "namespace Shop;\npublic class Host { static void Main() { Find(typeof(ITask)); } }\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert [one.symbol.name for one in report.symbols] == ["LostException"]
    assert report.notes[0].startswith("not listed: 1 class that no code names but that extend or implement something")


def test_what_is_registered_renamed_or_added_to_others_is_not_unused(tmp_path: Path) -> None:
    sources = {
        "shop/views.py": '@router.post(\n    "/cart",\n    tags=["cart"],\n)\ndef create_cart():\n    pass\n\n\n'
        "ROWS = [\n    1,\n]\ndef lost_view():\n    pass\n",
        "shop/alembic/versions/2021_ab12.py": "down_revision = None\n",
        "web/kit.ts": "const own = 1\nexport const twice = own * 2\nexport { own as shared }\n"
        'declare module "kit" {\n  export interface Props { cart: string }\n}\n'
        'declare module "@acme/kit" {\n  export interface Slots {\n    cart: string\n  }\n}\n',
        "web/use.ts": "import { shared, twice } from './kit'\nshared + twice\n",
        "App.swift": "struct Cart_Previews: PreviewProvider {}\nstruct Lost: View {}\n",
        "api.ts": "/**\n * NOTE: This class is auto generated by a generator.\n */\nexport class Api {}\n",
        "page.xaml": '<Page x:Class="Shop.Row"><t:Row /></Page>\n',
        "Row.cs": "namespace Shop;\npublic partial class Row {}\n",
        "log.h": "#define LOG_INFO 1\n#define LOG(level) LOG_##level\n",
        "log.c": '#include "log.h"\nint main(void) { return LOG(INFO); }\n',
        "elf.c": "int from_elf(void) { return 1; }\n",
        "elf.inc": "int start() { return from_elf(); }\n",
        "limits.h": "#if A\n#define LIMIT 1\n#else\n#define LIMIT 2\n#endif\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    listed = sorted((one.symbol.path, one.symbol.name) for one in report.symbols)
    assert listed == [
        ("App.swift", "Lost"),
        ("limits.h", "LIMIT"),
        ("shop/views.py", "ROWS"),
        ("shop/views.py", "lost_view"),
    ]
    assert report.notes[0].startswith("1 of them, listed last, can be imported or included by other projects")
    assert report.notes[1].startswith("not listed: 1 class that")


def test_calls_of_an_interface_of_go_reach_the_types_that_have_its_methods(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module example.com/shop\n",
        "db/db.go": "package db\n\ntype Disk struct{}\n\nfunc (d *Disk) Save(n int) (err error) { return nil }\n",
        "db/more.go": "package db\n\nfunc (d *Disk) Load() int { return 1 }\n",
        "api/api.go": "package api\n\ntype Store interface {\n\tSave(n int) error\n\tLoad() int\n}\n\n"
        "type Cloud interface {\n\tSave(n int) error\n\tSync()\n}\n\n"
        "type Pair interface {\n\tSave(n, m int) error\n}\n\ntype Silent interface {\n\tSave(int)\n}\n\n"
        'type Named interface {\n\tSave(name string) error\n}\n\nfunc Call(n Named) { n.Save("a") }\n\n'
        "func Put(s Store) { s.Save(1) }\n\nfunc Send(c Cloud) { c.Save(1) }\n\n"
        "func Both(p Pair) { p.Save(1, 2) }\n\nfunc Hush(s Silent) { s.Save(1) }\n",
    }
    with indexed(tmp_path, sources) as engine:
        graph = engine.code.calls(CallsRequest("Disk.Save", str(tmp_path)))
    assert [(edge.source, edge.confidence) for edge in graph.callers] == [("api/api.go::Put", "syntactic")]
    assert graph.notes == ("calls of api/api.go::Store.Save, which it overrides, may mean it",)


def test_types_of_go_that_may_be_the_same_are_compared_as_one(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module example.com/shop\n",
        "db/db.go": 'package db\n\nimport "example.com/shop/api"\n\ntype Disk struct{}\n\n'
        "func (d *Disk) Save(to, by api.Name, made func(n int) error, more ...interface{}) (api.Text, error) {\n"
        "\treturn api.Text{}, nil\n}\n",
        "api/api.go": "package api\n\ntype Name struct{}\n\ntype Text struct{}\n\ntype Words = Text\n\n"
        "type Store interface {\n\tSave(Name, Name, func(int) error, ...any) (Words, error)\n}\n\n"
        "type Keeper[T any] interface {\n\tSave(T, T, func(int) error, ...any) (Text, error)\n}\n\n"
        "type Other interface {\n\tSave(Name, Text, func(int) error, ...any) (Text, error)\n}\n\n"
        "func Put(s Store) { s.Save(Name{}, Name{}, nil) }\n\n"
        "func Keep(k Keeper[Name]) { k.Save(Name{}, Name{}, nil) }\n\n"
        "func Lose(o Other) { o.Save(Name{}, Text{}, nil) }\n",
    }
    with indexed(tmp_path, sources) as engine:
        graph = engine.code.calls(CallsRequest("Disk.Save", str(tmp_path)))
    assert {edge.source for edge in graph.callers} == {"api/api.go::Put", "api/api.go::Keep"}


KOTLIN = """open class Base {
    open fun start() {
    }
}

class One : Base() {
    override fun start() {
    }
}

class Two : Base() {
    override fun start() {
        super.start()
    }
}

class Three : Base()

fun three() {
    Three().start()
}

fun run(it: Base) {
    it.start()
}
"""
PYTHON = """class Base:
    def start(self):
        pass


class One(Base):
    def start(self):
        pass


class Two(Base):
    def start(self):
        super().start()


class Three(Base):
    pass


def three():
    Three().start()


def run(it: Base):
    it.start()
"""


@pytest.mark.parametrize(("name", "source"), [("a.kt", KOTLIN), ("a.py", PYTHON)])
def test_a_call_through_super_or_on_a_sibling_reaches_no_sibling(tmp_path: Path, name: str, source: str) -> None:
    with indexed(tmp_path, {name: source}) as engine:
        one = engine.code.calls(CallsRequest("One.start", str(tmp_path)))
        base = engine.code.calls(CallsRequest("Base.start", str(tmp_path)))
    assert [edge.source for edge in one.callers] == [f"{name}::run"]
    assert {f"{name}::Two.start", f"{name}::three"} < {edge.source for edge in base.callers}


def test_a_function_marked_as_a_test_is_no_caller(tmp_path: Path) -> None:
    source = (
        "pub fn parse() {}\n\npub fn run() {\n    parse();\n}\n\n"
        "#[test]\n#[should_panic]\nfn parses() {\n    parse();\n}\n\n#[inline]\nfn again() {\n    parse();\n}\n"
    )
    with indexed(tmp_path, {"src/lib.rs": source}) as engine:
        found = engine.knowledge.explore(ExploreRequest("parse", str(tmp_path)))
        calls = engine.code.callers(engine.indexes.of(tmp_path), {("src/lib.rs", "parse")})
    assert [one.partition(" ")[0] for one in found.callers] == ["src/lib.rs:4", "src/lib.rs:15"]
    assert [one.partition(" ")[0] for one in found.tests] == ["src/lib.rs:10"]
    assert calls == {("src/lib.rs", "parse"): [("src/lib.rs", 4), ("src/lib.rs", 15)]}


def test_calls_of_a_trait_reach_the_types_that_implement_it(tmp_path: Path) -> None:
    source = (
        "pub trait Printer {\n    fn print(&self);\n}\n\npub struct Plain;\n\nimpl Plain {\n    fn new() -> Self {\n"
        "        Plain\n    }\n}\n\nimpl Printer for Plain {\n    fn print(&self) {}\n}\n\n"
        "pub fn run(printer: &dyn Printer) {\n    printer.print();\n}\n"
    )
    with indexed(tmp_path, {"src/lib.rs": source}) as engine:
        found = engine.code.calls(CallsRequest("Plain.print", str(tmp_path)))
    assert [(edge.source, edge.confidence) for edge in found.callers] == [("src/lib.rs::run", "syntactic")]


def test_what_new_makes_in_ruby_is_followed_and_constants_from_outside_are_not_ours(tmp_path: Path) -> None:
    sources = {
        "lib/sponge.rb": "class Sponge\n  def fetch(url)\n    @fetch = url\n  end\nend\n",
        "lib/job.rb": "class Job\n  def run\n    Sponge.new.fetch('a')\n    s = Sponge.new(1)\n    s.fetch('b')\n"
        "    ENV.fetch('HOME')\n    Net::HTTP.fetch('c')\n    Factory.make(:sponge).fetch('d')\n  end\nend\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("Sponge.fetch", str(tmp_path)))
    found = [(one.file.rpartition("/")[2], one.line, one.edge, one.confidence) for one in report.usages]
    assert found == [
        ("job.rb", 3, "CALLS", "resolved"),
        ("job.rb", 5, "CALLS", "resolved"),
        ("job.rb", 8, "CALLS", "syntactic"),  # what something outside returns may be ours
    ]  # `@fetch` is a variable


def test_what_is_passed_as_a_whole_renamed_or_set_for_others_is_not_unused(tmp_path: Path) -> None:
    sources = {
        "web/schema/index.ts": "export * from './carts'\nexport const users = 1\n",
        "web/schema/carts.ts": "export const carts = 1\n",
        "web/kit.ts": "export function one() {}\nexport function two() {}\n",
        "web/db.ts": "import * as schema from './schema'\nimport * as kit from './kit'\n"
        "export const db = connect({ schema })\nkit.one()\n",
        "web/kit.test.ts": "import * as kit from './kit'\nspyOn(kit, 'one')\n",
        "web/store.ts": "const made = make()\nconst lost = make()\nexport { made as store, lost as nothing }\n",
        "web/use.ts": "import { db } from './db'\nimport { store } from './store'\ndb(store)\n",
        "index.php": "<?php\n$kernel = make();\n$kernel->run();\nfunction lost_step() {}\n",
        "bin/start": "#!/usr/bin/env ruby\nAPP_PATH = 1\nrequire 'tea'\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert [(one.symbol.path, one.symbol.name) for one in report.symbols] == [
        ("index.php", "lost_step"),
        ("web/kit.ts", "two"),
        ("web/store.ts", "lost"),
    ]


def test_what_a_package_offers_to_other_projects_is_not_unused(tmp_path: Path) -> None:
    package = '{"name": "tea"%s, "exports": {"./easing": "./src/easing/index.js", "./lid": "./src/lid.js"}}'
    sources = {
        "package.json": package % "",
        "src/easing/index.js": "export * from './quad.js'\nexport function linear() {}\n",
        "src/easing/quad.js": "export function quadIn() {}\n",
        "src/lid.js": "export function lift() {}\n",
        "src/inner.js": "export function lost() {}\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
        assert [one.symbol.name for one in report.symbols] == ["lost"]
        (tmp_path / "package.json").write_text(package % ', "private": true')
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
        assert {one.symbol.name for one in report.symbols} == {"linear", "quadIn", "lift", "lost"}


def test_types_of_php_are_used_by_their_full_names(tmp_path: Path) -> None:
    sources = {
        "src/Cart.php": "<?php\nnamespace Shop\\Models;\n"
        "class Cart {\n  const MOST = 9;\n  static function make() {}\n}\n",
        "routes.php": "<?php\nuse Shop\\Models as M;\n"
        "route(M\\Cart::class);\n\\Shop\\Models\\Cart::make();\nM\\Cart::MOST;\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Cart") == {("routes.php", line, "resolved") for line in (3, 4, 5)}
        assert uses(engine, tmp_path, "Cart.make") == {("routes.php", 4, "resolved")}


def test_texts_of_macros_of_rust_use_the_names_in_braces(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "shop"\n',
        "src/main.rs": "mod names;\nuse names::{FIRST, INNER, LAST, PATH, WIDTH};\n"
        "fn main() {\n"
        '    println!("{FIRST}: {{PATH}}\\n{INNER:?}");\n'
        '    write!(\n        out,\n        "{:>WIDTH$}", 1\n    );\n'
        '    route("/{PATH}");\n'
        '    panic!(r#"{LAST}"#);\n}\n',
        "src/names.rs": "".join(
            f"pub const {name}: usize = 1;\n" for name in ("FIRST", "INNER", "LAST", "PATH", "WIDTH")
        ),
    }
    with indexed(tmp_path, sources) as engine:
        used = {
            name: {line for _, line, _ in uses(engine, tmp_path, name)} - {2} for name in ("FIRST", "INNER", "LAST")
        }
        assert used == {"FIRST": {4}, "INNER": {4}, "LAST": {10}}
        assert uses(engine, tmp_path, "WIDTH") == {("src/main.rs", line, "resolved") for line in (2, 7)}
        assert uses(engine, tmp_path, "PATH") == {("src/main.rs", 2, "resolved")}


def test_a_call_of_php_means_no_variable(tmp_path: Path) -> None:
    sources = {
        "public/index.php": "<?php\n$app = require 'start.php';\n$total = total();\n",
        "src/Cart.php": "<?php\nnamespace Shop;\nclass Cart { function open() { return app()->make(total()); } }\n",
        "src/sum.php": "<?php\nfunction total() { return 1; }\n",
    }
    with indexed(tmp_path, sources) as engine:
        imports = engine.code.imports(ImportsRequest("public/index.php", root=str(tmp_path)))
        assert not imports.imported_by
        assert [target for import_ in imports.imports for target in import_.targets] == ["src/sum.php"]
        assert uses(engine, tmp_path, "app") == set()
        assert uses(engine, tmp_path, "src/sum.php::total") == {
            ("public/index.php", 3, "resolved"),
            ("src/Cart.php", 3, "resolved"),
        }


def test_a_file_of_data_or_comments_is_read(tmp_path: Path) -> None:
    texts = "".join(f"  'key{line}' => 'Don\\'t update the total',\n" for line in range(40))
    sources = {
        "src/sum.php": "<?php\nfunction total() { return 1; }\n",
        "lang/en.php": f"<?php\nreturn [\n{texts}];\n",
        "lang/de.php": "<?php\n" + "// total()\n" * 40,
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("total", str(tmp_path)))
        assert report.is_complete
        assert not report.notes


def test_a_name_may_be_asked_for_with_its_sign(tmp_path: Path) -> None:
    sources = {"a.ts": "export function $open() {}\n", "b.ts": "import { $open } from './a'\n$open()\n"}
    with indexed(tmp_path, sources) as engine:
        assert {use[:2] for use in uses(engine, tmp_path, "$open")} == {("b.ts", 1), ("b.ts", 2)}


def test_what_could_not_be_parsed_is_not_taken_for_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_manager, "chunk_settings", lambda settings: ChunkSettings(syntax_max_chars=400))
    sources = {
        "a.ts": "export function total() { return 1 }\n",
        "b.ts": "import { total } from './a'\n" + "const lines = [\n" + "  'line',\n" * 40 + "]\ntotal()\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("total", str(tmp_path)))
        assert not report.is_complete
        assert "b.ts" in report.notes[0]
        assert not engine.code.unused(UnusedRequest(str(tmp_path))).symbols


def test_what_a_generated_file_uses_is_not_unused(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module example.com/shop\n",
        "v1/conversion.go": "package v1\n\nfunc Convert_Cart(in int) int { return in }\n\nfunc Lost() {}\n",
        "v1/zz_generated.go": "// Code generated by conversion-gen. DO NOT EDIT.\n\npackage v1\n\n"
        "func register() { add(Convert_Cart) }\n",
    }
    with indexed(tmp_path, sources) as engine:
        named, lost = (engine.code.references(RefsRequest(name, str(tmp_path))) for name in ("Convert_Cart", "Lost"))
        assert (named.is_complete, lost.is_complete) == (False, True)
        assert named.notes == ("generated files that are not indexed name it: v1/zz_generated.go",)
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
        assert [one.symbol.name for one in report.symbols] == ["Lost"]
        assert report.notes == (
            "1 of them, listed last, can be imported or included by other projects, which may use them",
        )
        (tmp_path / "v1/zz_generated.go").unlink()
        assert len(engine.code.unused(UnusedRequest(str(tmp_path))).symbols) == 2


OTHERS = {
    "go.mod": "module example.com/shop\n",
    "store/store.go": "package store\n\ntype Store struct{}\n\n"
    "func (s *Store) Close() {}\n\nfunc Open() *Store { return nil }\n",
    "main.go": 'package main\n\nimport "example.com/shop/store"\n\n'
    "func main() {\n\ts := store.Open()\n\ts.Close()\n}\n",
    "web/a.ts": "export function render(x: number) { return x }\nexport interface Shape { area(): number }\n",
    "web/b.ts": "import { render as draw, Shape } from './a'\n"
    "class Box implements Shape { area() { return draw(1) } }\n",
    "web/c.ts": "function render() { return 2 }\nconst o = { render: 1 }\nrender()\n",
}


def test_an_attribute_is_used_without_the_end_of_its_name(tmp_path: Path) -> None:
    sources = {
        "Web/GuardAttribute.cs": "namespace Shop.Web;\npublic sealed class GuardAttribute : Attribute\n{\n"
        "    public GuardAttribute(int level) { }\n}\n",
        "Cart.cs": "using Shop.Web;\nnamespace Shop;\n[Guard(1)]\npublic class Cart\n{\n    [Guard(2)]\n"
        "    public int Total;\n    int Guard;\n}\n",
        "Other.cs": "namespace Shop.Other;\npublic class Guard { }\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Web/GuardAttribute.cs::GuardAttribute") == {
            ("Cart.cs", 3, "resolved"),
            ("Cart.cs", 6, "resolved"),
        }
        impact = engine.code.impact(ImpactRequest("Web/GuardAttribute.cs", root=str(tmp_path)))
        assert [affected.path for affected in impact.files] == ["Cart.cs"]


def test_what_a_namespace_holds_may_be_unused_and_what_is_used_without_its_name_is_not(tmp_path: Path) -> None:
    sources = {
        "Cart.cs": "namespace Shop\n{\n    public class Cart {}\n    public class Lost {}\n"
        "    public class MarkAttribute {}\n    public static class More\n    {\n"
        "        public static int Twice(this Cart cart) => 2;\n    }\n}\n",
        "Use.cs": "namespace Shop\n{\n    class Used { [Mark] Cart cart; int n => cart.Twice(); }\n}\n",
        "cart.h": "#ifndef CART_H_\n#define CART_H_\nnamespace shop {\nint gone();\nstruct Price {};\n"
        "bool operator<(Price a, Price b) { return true; }\nint lost_too() { return 1; }\n}\n#endif\n",
        "use.cc": '#include "cart.h"\nint main() { shop::Price price; return 0; }\n',
        "one.c": "int only(void) { return 1; }\nstatic int mine(void) { return 2; }\nint near(void) { return 1; }\n"
        "enum mode { FAST };\nint at(void) { return near() + FAST; }\n",
        "win.h": "#define NOGDI\n#define LIMIT 3\n#include <windows.h>\n",
        "deploy": "#!/bin/bash\nTARGET=prod\nlog() { echo $TARGET; }\ngone_step() { echo; }\n"
        'sign() { log; }\n[ "sign" == "$1" ] && $1\n',
        "two.c": "int two(void) { return only() + mine(); }\n",
    }
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
        assert {one.symbol.name for one in report.symbols} == {
            "Lost",
            "Used",
            "lost_too",
            "two",
            "at",
            "LIMIT",
            "gone_step",
        }
        assert uses(engine, tmp_path, "only") == {("two.c", 1, "resolved")}
        assert uses(engine, tmp_path, "mine") == {("two.c", 1, "syntactic")}


def test_includes_lead_to_the_types_of_c_plus_plus(tmp_path: Path) -> None:
    sources = {
        "core/Merger.h": "class Database;\nclass Merger {\npublic:\n    Merger(Database* db);\n    int merge();\n};\n",
        "core/Merger.cpp": '#include "core/Merger.h"\nMerger::Merger(Database* db) {}\n'
        "int Merger::merge() { return 1; }\n",
        "core/Database.h": "class Database {\npublic:\n    int root();\n};\nDatabase* database();\n"
        "inline Database* opened() { return database(); }\n",
        "core/All.h": '#include "core/Merger.h"\n#include "core/Database.h"\n#include "core/Price.h"\n',
        "core/Price.h": "namespace shop {\nclass Price {\npublic:\n    int net();\n};\n}\n",
        "cli/Pay.cpp": '#include "core/All.h"\nint pay(shop::Price price) { return price.net(); }\n',
        "cli/Merge.cpp": '#include "core/All.h"\nint run() {\n    Merger merger(1);\n'
        "    opened()->root();\n    return merger.merge();\n}\n",
        "other/Merger.cpp": "#include <lib.h>\nint run(lib::Merger* merger) { return merger->merge(); }\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        merger = uses(engine, tmp_path, "core/Merger.h::Merger")
        assert ("cli/Merge.cpp", 3, "resolved") in merger  # through another header
        assert not any(path.startswith("other/") for path, _, _ in merger)
        assert ("core/Merger.h", 4, "resolved") in uses(engine, tmp_path, "Database")  # declared there, not included
        assert ("cli/Merge.cpp", 4, "resolved") in uses(engine, tmp_path, "Database.root")
        assert ("cli/Merge.cpp", 5, "resolved") in uses(engine, tmp_path, "Merger.merge")
        assert uses(engine, tmp_path, "Price") == {("cli/Pay.cpp", 2, "resolved")}
        assert uses(engine, tmp_path, "Price.net") == {("cli/Pay.cpp", 2, "resolved")}


def test_other_languages(tmp_path: Path) -> None:
    for path, text in OTHERS.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "Open") == {("main.go", 6, "resolved")}
        assert uses(engine, tmp_path, "web/a.ts::render") == {("web/b.ts", 1, "resolved"), ("web/b.ts", 2, "resolved")}
        assert uses(engine, tmp_path, "web/c.ts::render") == {("web/c.ts", 3, "resolved")}
        shape = engine.code.references(RefsRequest("Shape", str(tmp_path)))
        assert {(usage.line, usage.edge) for usage in shape.usages} == {(1, "IMPORTS"), (2, "IMPLEMENTS")}


def test_what_stands_behind_a_name_from_outside_is_none_of_ours(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module example.com/shop\n",
        "new.go": "package shop\n\nfunc New() int { return 1 }\n",
        "use.go": 'package shop\n\nimport "errors"\n\nfunc Use() {\n\terrors.New("x")\n\tNew()\n}\n\n'
        "func Hidden(errors Maker) {\n\terrors.New()\n\tstrange.Itoa(1)\n}\n",
        "pipe.py": "class Pipe:\n    def dumps(self):\n        return 1\n",
        "app.py": "import json\nfrom lib import made\n\n\ndef run(pipe):\n    json.dumps(1)\n    made.dumps()\n"
        "    pipe.dumps()\n    json.loads('1')\n    made()\n",
    }
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "New") == {("use.go", 7, "resolved"), ("use.go", 11, "syntactic")}
        assert uses(engine, tmp_path, "dumps") == {("app.py", 8, "syntactic")}
        assert uses(engine, tmp_path, "loads") == {("app.py", 9, "syntactic")}  # nothing here has the name
        assert uses(engine, tmp_path, "made") == {("app.py", line, "syntactic") for line in (2, 7, 10)}


def test_elixir_knows_modules_by_their_whole_names(tmp_path: Path) -> None:
    sources = {
        "scope.ex": "defmodule Shop.Scope do\n  def push(x), do: x\n  def pop(x) do\n    push = x\n    push(push)\n"
        "    Other.Scope.push(x)\n  end\nend\n",
        "router.ex": "defmodule Shop.Router do\n  alias Shop.{Scope, Plug}\n  import Shop.Helper\n"
        "  def run(x) do\n    Scope.push(x)\n    Shop.Scope.Inner.push(x)\n    x.push()\n    help(x)\n"
        "    x.push\n  end\nend\n",
        "full.ex": "defmodule Shop.Full do\n  def run(x), do: Shop.Scope.push(x)\nend\n",
        "helper.ex": "defmodule Shop.Helper do\n  def help(x), do: x\nend\n",
        "java/Cart.java": "package shop;\n\nclass Cart {}\n",
        "java/Use.java": "package other;\n\nimport shop.Cart;\n\nclass Use {}\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "Shop.Scope") == {
            ("router.ex", 2, "resolved"),
            ("router.ex", 5, "resolved"),
            ("full.ex", 2, "resolved"),
        }
        assert uses(engine, tmp_path, "Shop.Scope.push") == {
            ("scope.ex", 5, "resolved"),
            ("router.ex", 5, "resolved"),
            ("router.ex", 7, "syntactic"),
            ("full.ex", 2, "resolved"),
        }
        assert uses(engine, tmp_path, "help") == {("router.ex", 8, "resolved")}
        called = engine.code.calls(CallsRequest("Shop.Scope.push", str(tmp_path)))
        assert {edge.source for edge in called.callers} >= {"router.ex::Shop.Router.run", "full.ex::Shop.Full.run"}
        imported = engine.code.references(RefsRequest("Cart", str(tmp_path)))
        assert [(usage.file, usage.edge) for usage in imported.usages] == [("java/Use.java", "IMPORTS")]


def test_elixir_calls_without_brackets_what_use_imports(tmp_path: Path) -> None:
    sources = {
        "router.ex": "defmodule Web.Router do\n  defmacro __using__(_) do\n    quote do\n      import Web.Router\n"
        "    end\n  end\n\n  defmacro scope(path, do: block) do\n    {path, block}\n  end\n  def halt(x), do: x\nend\n",
        "shop.ex": 'defmodule Shop do\n  use Web.Router\n\n  scope "/" do\n    scope = 1\n'
        "    x = scope and scope.default\n    x |> halt\n    %{scope: scope}\n  end\nend\n",
        "other.ex": 'defmodule Other do\n  scope "/" do\n  end\nend\n',
    }
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "Web.Router.scope") == {("shop.ex", 4, "resolved")}
        assert uses(engine, tmp_path, "halt") == {("shop.ex", 7, "resolved")}
        callers = engine.code.calls(CallsRequest("Web.Router.scope", str(tmp_path))).callers
        assert [(edge.path, edge.line) for edge in callers if edge.confidence == "resolved"] == [("shop.ex", 4)]


def test_names_that_come_from_inside_of_types_and_modules(tmp_path: Path) -> None:
    sources = {
        "ruby/users.rb": "class Shop::Users < Shop::Base\n  def all\n    Shop::Base.find\n  end\nend\n",
        "ruby/base.rb": "class Shop::Base\n  def self.find\n  end\nend\n",
        "hex/shared.ex": "defmodule Hex.Shared do\n  defmacro __using__(_) do\n    quote do\n"
        "      alias Hex.{Accounts.Auth, Emails}\n    end\n  end\nend\n",
        "hex/schema.ex": "defmodule Hex.Schema do\n  defmacro __using__(_) do\n    quote do\n"
        "      use Hex.Shared\n    end\n  end\nend\n",
        "hex/auth.ex": "defmodule Hex.Accounts.Auth do\n  def hash(x), do: x\nend\n",
        "hex/user.ex": "defmodule Hex.User do\n  use Hex.Schema\n  def make(x), do: update(x, &Auth.hash/1)\nend\n",
        "jvm/Prices.scala": "package shop\nobject Prices {\n  val lowest = 1\n  object tax { def rate = 2 }\n}\n",
        "jvm/Bill.scala": "package bill\nimport shop.Prices.lowest\nimport shop.Prices.tax.*\n"
        "object Bill { def all = lowest + rate }\n",
        "jvm/Outer.java": "package shop;\npublic class Outer {\n  public static class Inner {}\n"
        "  public static int shared() { return 1; }\n}\n",
        "jvm/Use.java": "package use;\nimport shop.Outer.Inner;\nimport static shop.Outer.*;\n"
        "class Use {\n  Inner inner;\n  int all() { return shared(); }\n}\n",
        "Sources/Web/Filter.swift": "public protocol Filter {}\n",
        "Tests/WebTests/Own.swift": "import Web\nstruct Own: Filter {}\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = {
        "Shop.Base": {("ruby/users.rb", 1), ("ruby/users.rb", 3)},
        "Shop.Base.find": {("ruby/users.rb", 3)},
        "hash": {("hex/user.ex", 3)},
        "Prices": {("jvm/Bill.scala", 2), ("jvm/Bill.scala", 3)},
        "lowest": {("jvm/Bill.scala", 2), ("jvm/Bill.scala", 4)},
        "rate": {("jvm/Bill.scala", 4)},
        "Inner": {("jvm/Use.java", 2), ("jvm/Use.java", 5)},
        "shared": {("jvm/Use.java", 6)},
        "Filter": {("Tests/WebTests/Own.swift", 2)},
    }
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        for name, places in found.items():
            assert uses(engine, tmp_path, name) == {(*place, "resolved") for place in places}, name


def test_names_that_look_like_something_else(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module x\n",
        "static/files.go": 'package static\n\nvar Example = "x"\n\nconst keyName = "a"\n\nconst KeyOS = "b"\n\n'
        "type Fields map[string]any\n\nvar fields = Fields{keyName: 1, KeyOS: 2}\n",
        "main.go": 'package main\n\nimport "x/static"\n\nfunc main() { println(static.Example) }\n',
        "ack.h": "enum ack { ACK_ARG, ACK_SYSTEM };\nenum class Scoped { ACK_OTHER };\n",
        "ack.cpp": '#include "ack.h"\nint code() { return ACK_ARG; }\nint other() { return (int)Scoped::ACK_OTHER; }\n',
        "Names.cs": "namespace Shop { public static class Names { public static class Env {\n"
        '  public const string ExitCode = "x"; } } }\n',
        "Use.cs": "using static Shop.Names;\nnamespace Web { class Use {\n  string F() { return Env.ExitCode; } } }\n",
        "Cargo.toml": '[package]\nname = "x"\n',
        "src/lib.rs": "pub struct Store { tree_cache: u32 }\nimpl Store {\n"
        "  pub fn new() -> Self { Self { tree_cache: 1 } }\n}\n",
        "cart.spec.js": "describe('cart', () => {\n  const total = 1\n  it('adds', () => {\n    use(total)\n  })\n})\n",
        "total.js": "export const total = 1\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    found = {
        "Example": {("main.go", 5)},  # `static` is a package here, not the class around
        "keyName": {("static/files.go", 11)},  # the key of a map, not a field
        "KeyOS": {("static/files.go", 11)},
        "ACK_ARG": {("ack.cpp", 2)},
        "ExitCode": {("Use.cs", 3)},
        "tree_cache": {("src/lib.rs", 3)},
        "total": set[tuple[str, int]](),  # the test's own
    }
    (tmp_path / "Rule.php").write_text(
        "<?php\nclass Rule {}\nclass Choice extends Rule { public function labels() {} }\n"
        "class Page { public function rule(): Rule { return new Choice(); }\n"
        "  public function show() { return $this->rule()->labels(); } }\n"
    )
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        # A value may be of a subclass of its type: that is not claimed, and not denied.
        assert uses(engine, tmp_path, "labels") == {("Rule.php", 5, "syntactic")}
        for name, places in found.items():
            assert uses(engine, tmp_path, name) == {(*place, "resolved") for place in places}, name
        assert engine.code.definitions(DefsRequest("total", str(tmp_path))).total == 1


def test_a_method_of_go_in_another_file_than_its_type_affects_its_callers(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module x\n",
        "shop/cart.go": "package shop\n\ntype Cart struct{}\n\nfunc New() *Cart { return &Cart{} }\n",
        "shop/price.go": "package shop\n\nfunc (c *Cart) addPrice() {}\n\nfunc (c *Cart) TotalPrice() {}\n",
        "shop/order.go": "package shop\n\nfunc order(c *Cart) { c.addPrice() }\n",
        "main.go": 'package main\n\nimport "x/shop"\n\nfunc main() { c := shop.New(); c.TotalPrice() }\n',
        "other.go": 'package main\n\nimport "x/shop"\n\nvar addPrice = shop.New()\n',
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        report = engine.code.impact(ImpactRequest("shop/price.go", root=str(tmp_path)))
    assert {one.path for one in report.files} == {"main.go", "shop/order.go"}


def test_elixir_names_functions_by_atoms(tmp_path: Path) -> None:
    sources = {
        "web.ex": "defmodule Web do\n  def controller do\n    quote do\n      alias Web.{Auth, Other}\n"
        "      import Web.{Auth, Helpers}\n    end\n  end\nend\n",
        "auth.ex": "defmodule Web.Auth do\n  def allow(x), do: x\n  def check(x, _), do: x\nend\n",
        "keys.ex": "defmodule Web.API.KeyController do\n  use Web, :controller\n  plug :check\n"
        "  plug :guard, fun: {Auth, :allow, [1]}\n  def show(x), do: apply(Web.Auth, :allow, [x])\n"
        "  def other(x), do: {Away, :allow, [x, :allow]}\nend\n",
        "router.ex": 'defmodule Web.Router do\n  scope "/", Web do\n    get "/", PageController, :show\n'
        '    scope "/api", API, as: :api do\n      get "/keys", KeyController, :show\n    end\n  end\n'
        "  scope private: 1 do\n    get '/', Web.PageController, :show\n  end\n"
        '  scope "/other", Other do\n    get "/keys", KeyController, :show\n  end\nend\n',
        "pages.ex": "defmodule Web.PageController do\n  def show(x), do: x\nend\n",
    }
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "allow") == {("keys.ex", 4, "resolved"), ("keys.ex", 5, "resolved")}
        assert uses(engine, tmp_path, "check") == {("keys.ex", 3, "resolved")}
        assert uses(engine, tmp_path, "Web.API.KeyController.show") == {("router.ex", 5, "resolved")}
        pages = {("router.ex", 3, "resolved"), ("router.ex", 9, "resolved")}
        assert uses(engine, tmp_path, "Web.PageController.show") == pages


def test_ruby_knows_constants_by_the_modules_around(tmp_path: Path) -> None:
    sources = {
        "base.rb": "module Rack\n  module Guard\n    class Base\n      def drop(env)\n        throw :drop, env\n"
        "      end\n    end\n  end\nend\n",
        "other.rb": "class Base\nend\n",
        "helpers.rb": "module Rack\n  module Helpers\n    def stop(code)\n      code\n    end\n  end\nend\n",
        "token.rb": "module Rack\n  module Guard\n    class Token < Base\n      include Helpers\n\n"
        "      def call(env)\n        drop env\n        stop 404\n        react(drop: :drop)\n"
        "      end\n    end\n  end\nend\n",
        "app.rb": "Rack::Guard::Base.new.drop(1)\nBase.new\n",
    }
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "Rack::Guard::Base") == {("token.rb", 3, "resolved"), ("app.rb", 1, "resolved")}
        assert uses(engine, tmp_path, "other.rb::Base") == {("app.rb", 2, "resolved")}
        assert uses(engine, tmp_path, "stop") == {("token.rb", 8, "resolved")}
        symbols = {("base.rb", 5, "syntactic"), ("token.rb", 9, "syntactic")}
        called = {("token.rb", 7, "resolved"), ("app.rb", 1, "resolved")}
        assert uses(engine, tmp_path, "drop") == symbols | called
        callers = engine.code.calls(CallsRequest("drop", str(tmp_path))).callers
        assert ("token.rb", 7) in {(edge.path, edge.line) for edge in callers}
        assert not {5, 9} & {edge.line for edge in callers}


def test_an_implicit_member_of_swift_is_nobodys_for_certain(tmp_path: Path) -> None:
    (tmp_path / "Routes.swift").write_text(
        "class Routes {\n  func load() {}\n  func all() {\n    on(.load, 1)\n    load()\n    self.load()\n  }\n}\n"
    )
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "Routes.load") == {
            ("Routes.swift", 4, "syntactic"),
            ("Routes.swift", 5, "resolved"),
            ("Routes.swift", 6, "resolved"),
        }


def test_what_a_class_implements_may_stand_below_its_parameters(tmp_path: Path) -> None:
    parameters = "".join(f"  val p{number}: Int,\n" for number in range(8))
    (tmp_path / "A.kt").write_text(
        f"interface Shape\n\nclass Box(\n{parameters}) : Shape {{\n  val s: Shape = this\n}}\n"
    )
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        found = engine.code.references(RefsRequest("Shape", str(tmp_path))).usages
    assert [(use.line, use.edge) for use in found] == [(12, "IMPLEMENTS"), (13, "REFERENCES_TYPE")]


def test_two_projects_of_one_engine_stay_apart(tmp_path: Path) -> None:
    """File ids count from one in every index."""
    for project, name in (("one", "first"), ("two", "second")):
        (tmp_path / project).mkdir()
        (tmp_path / project / "a.py").write_text(f"def {name}():\n    return 1\n\n\n{name}()\n")
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert uses(engine, tmp_path / "one", "first") == {("a.py", 5, "resolved")}
        assert uses(engine, tmp_path / "two", "second") == {("a.py", 5, "resolved")}


def test_an_edit_is_seen_by_the_next_question(engine: Engine, tmp_path: Path) -> None:
    before = uses(engine, tmp_path, "Cart.make")
    assert uses(engine, tmp_path, "Cart.make") == before
    (tmp_path / "more.py").write_text("from shop import Cart\n\nCart.make()\n")
    assert uses(engine, tmp_path, "Cart.make") == before | {("more.py", 3, "resolved")}


def test_a_chain_of_re_exports_in_a_circle_ends(tmp_path: Path) -> None:
    for number in range(1500):  # longer than any stack
        (tmp_path / f"m{number}.py").write_text(f"from m{(number + 1) % 1500} import *\n")
    (tmp_path / "m1400.py").write_text("from m1401 import *\n\n\ndef deep():\n    return 1\n")
    (tmp_path / "use.py").write_text("from m0 import *\n\ndeep()\n")
    with Engine(Config.load({"embedding.provider": "none", "index.workers": "1"}, tmp_path)) as engine:
        assert uses(engine, tmp_path, "deep") == {("use.py", 3, "resolved")}


def test_packed_references_are_read_in_part() -> None:
    code = "\n\nget get_all()\nforget" + "\n" * 116 + "get()"
    text, _ = unpack(pack_code(code, "python", [-1, -1, 0, *[-1] * 117], ["A.run"]))
    assert references_to(text, "get") == [Reference("get", 3, "use", "A.run"), Reference("get", 120, "call")]
    assert references_to(text, "A.run") == []
    assert references_to("", "get") == []
    assert references_to(text, "") == []
    names = UsedNames(pack_code("get\n\nget()", "python", [0, -1, -1], ["f"]))
    assert dict(names) == {"get": 1}
    assert "f" not in names
    assert not UsedNames(b"")


@pytest.mark.parametrize("language", ["python", "typescript", "ruby", "bash", "haskell"])
@given(line=st.text(st.one_of(st.sampled_from("abIF_$10.( )?!=~'-\t"), st.characters(exclude_characters="\n"))))
def test_the_tokens_of_a_line_have_the_uses_of_the_line(language: str, line: str) -> None:
    tokens = blank_signs(line.replace("(", "( "), packed_uses._words_of(language).gaps).split()
    found = [use for token in tokens for use in packed_uses._words_of(language).of_token[token]]
    ignored = packed_uses._words_of(language).ignored
    assert found == ["" if use in ignored else use for use in packed_uses._words_of(language).uses.findall(line)]


def test_a_heading_of_the_same_name_takes_no_uses_away(tmp_path: Path) -> None:
    """A name from outside that a document has a section about is used all the same."""
    (tmp_path / "Check.java").write_text("class Check {\n  void run() {\n    Assertions.assertTrue(true);\n  }\n}\n")
    (tmp_path / "guide.md").write_text("# Guide\n\n## Assertions\n\nHow to write them.\n")
    config = Config.load({"paths.cache_dir": str(tmp_path / ".cache")}, tmp_path)
    with Engine(config) as engine:
        report = engine.code.references(RefsRequest("Assertions", str(tmp_path)))
    assert [(use.file, use.line) for use in report.usages] == [("Check.java", 3)]


def written_in(folder: Path, sources: dict[str, str]) -> Config:
    for path, text in sources.items():
        (folder / path).write_text(text)
    return Config.load({"embedding.provider": "none", "index.workers": "1"}, folder)


def test_overloads_belong_to_what_implements_them(tmp_path: Path) -> None:
    config = written_in(
        tmp_path,
        {
            "a.py": "import typing as t\n\n\n@t.overload\ndef ask(x: int) -> int: ...\n@t.overload\n"
            "def ask(x: str) -> str: ...\ndef ask(x):\n    return help(x)\n\n\ndef help(x):\n    return x\n",
            "b.ts": "export function make(a: string): void;\nexport function make(a: number): void;\n"
            "export function make(a: any): void {\n  build(a);\n}\nfunction build(a: any) {}\n",
        },
    )
    with Engine(config) as engine:
        asked = engine.code.calls(CallsRequest("ask", str(tmp_path)))
        made = engine.code.calls(CallsRequest("make", str(tmp_path)))
        defined = engine.code.definitions(DefsRequest("ask", str(tmp_path))).definitions
    assert [edge.target for edge in asked.callees] == ["a.py::help"]
    assert [edge.target for edge in made.callees] == ["b.ts::build"]
    assert [(one.start_line, one.signature) for one in defined] == [(8, "def ask(x)")]


def test_overloads_that_do_something_are_all_shown_and_followed(tmp_path: Path) -> None:
    java = """package shop;

class Cart {
    int total() { return total(true); }

    int total(boolean net) { return tax() + 1; }

    private int tax() { return 1; }
}
"""
    user = "package app;\n\nimport shop.Cart;\n\nclass Main { int run(Cart cart) { return cart.total(); } }\n"
    with indexed(tmp_path, {"shop/Cart.java": java, "app/Main.java": user}) as engine:
        defined = engine.code.definitions(DefsRequest("Cart.total", str(tmp_path))).definitions
        assert [one.start_line for one in defined] == [4, 6]
        graph = engine.code.calls(CallsRequest("Cart.total", str(tmp_path)))
        assert {edge.target.rpartition("::")[2] for edge in graph.callees} == {"Cart.total", "Cart.tax"}
        found = engine.code.references(RefsRequest("Cart", str(tmp_path))).usages
        assert [(use.line, use.edge, use.confidence) for use in found] == [
            (3, "IMPORTS", "resolved"),
            (5, "REFERENCES_TYPE", "resolved"),
        ]


def test_what_a_class_inherits_is_found_by_its_name(engine: Engine, tmp_path: Path) -> None:
    assert [one.qualified for one in engine.code.definitions(DefsRequest("Cart.price", str(tmp_path))).definitions] == [
        "Base.price"
    ]
    assert uses(engine, tmp_path, "Cart.price") == uses(engine, tmp_path, "Base.price")
    with pytest.raises(NotFound, match=r"nothing called User\.price is defined here") as caught:
        engine.code.references(RefsRequest("User.price", str(tmp_path)))
    assert caught.value.next_step == "Did you mean Base.price?"


def test_a_function_is_found_by_its_module(engine: Engine, tmp_path: Path) -> None:
    for name in ("cart.total", "shop.cart.total", "cart::total"):
        found = engine.code.definitions(DefsRequest(name, str(tmp_path))).definitions
        assert [one.path for one in found] == ["shop/cart.py"]
    for name in ("net_linux.go", "net.go"):
        (tmp_path / "net").mkdir(exist_ok=True)
        (tmp_path / "net" / name).write_text("package net\n\nfunc Dial() {}\n")
    for name, paths in (("shop.total", ["cart.py", "user.py"]), ("net.Dial", ["net.go", "net_linux.go"])):
        found = engine.code.definitions(DefsRequest(name, str(tmp_path))).definitions
        assert [one.path.rpartition("/")[2] for one in found] == paths


def test_a_path_of_rust_needs_no_import(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "tea"\n\n[[bin]]\nname = "tea"\npath = "crates/core/main.rs"\n\n'
        '[[test]]\nname = "all"\npath = "tests/all.rs"\n[dependencies.leaf]\npath = "crates/leaf"\n',
        "crates/core/main.rs": "mod flags;\nmod brew;\n\nfn main() {\n    let args = flags::parse();\n"
        "    args.pot();\n}\n\npub fn stir() {}\n\nfn brew(args: &flags::Args) {\n    args.pot();\n}\n",
        "crates/core/flags.rs": "pub struct Args;\n\nimpl Args {\n    pub fn pot(&self) -> leaf::Pot {\n"
        "        leaf::Pot::new()\n            .warm()\n    }\n}\n\npub fn parse() -> Args { Args }\n",
        "crates/core/brew.rs": "fn go(args: &crate::flags::Args) {\n    args.pot().warm();\n    crate::stir();\n"
        "    let leaf = 1;\n    leaf.warm();\n}\n",
        "crates/leaf/Cargo.toml": '[package]\nname = "leaf"\n',
        "crates/leaf/src/lib.rs": "mod pot;\npub use crate::{\n    pot::Pot,\n};\n",
        "crates/leaf/src/pot.rs": "pub struct Pot { size: u8 }\n\nimpl Pot {\n    pub fn new() -> Pot { make() }\n"
        "    pub fn warm(self) -> Pot { self }\n    pub fn size(&mut self, size: u8) -> &mut Pot { self }\n}\n\n"
        "fn large() {\n    Pot::new().size(9).warm();\n}\n",
        "tests/all.rs": "mod util;\nmod one;\n",
        "tests/util.rs": "pub fn help() {}\n",
        "tests/one.rs": "use crate::util::help;\n\nfn works() {\n    help();\n}\n",
    }
    with indexed(tmp_path, sources) as engine:

        def resolved(name: str) -> list[str]:
            found = engine.code.references(RefsRequest(name, str(tmp_path))).usages
            return [f"{use.file}:{use.line}" for use in found if use.confidence == "resolved" and use.edge == "CALLS"]

        assert resolved("stir") == ["crates/core/brew.rs:3"]
        # A function may be called like a module of its file.
        assert resolved("Args.pot") == ["crates/core/brew.rs:2", "crates/core/main.rs:6", "crates/core/main.rs:12"]
        # A method may be called like a field, too.
        assert resolved("Pot.warm") == ["crates/core/brew.rs:2", "crates/core/flags.rs:6", "crates/leaf/src/pot.rs:10"]
        sizes = engine.code.definitions(DefsRequest("Pot.size", str(tmp_path))).definitions
        assert {one.kind for one in sizes} == {"field", "method"}
        assert resolved("help") == ["tests/one.rs:4"]
        edges = {use.line: use.edge for use in engine.code.references(RefsRequest("Pot", str(tmp_path))).usages}
        assert edges[3] == "EXPORTS"
        hit = engine.code.impact(ImpactRequest("crates/leaf/src/pot.rs", root=str(tmp_path)))
        assert [(one.path, one.hops) for one in hit.files] == [
            ("crates/core/flags.rs", 1),
            ("crates/core/brew.rs", 2),
            ("crates/core/main.rs", 2),
        ]
        assert engine.code.map(MapRequest(str(tmp_path))).unresolved == 0


def test_macros_and_components_are_called_without_brackets(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "tea"\n',
        "src/lib.rs": "#[macro_use]\n#[doc(hidden)]\nmod words;\n\n\n"
        "pub fn brew() {\n    say!(1);\n    hidden!(1);\n}\n",
        "src/words/mod.rs": "#[macro_use]\nmod loud;\n",
        "src/words/loud.rs": "macro_rules! say {\n    () => {};\n}\n",
        "tools/Cargo.toml": '[package]\nname = "tools"\n',
        "tools/src/other.rs": "macro_rules! hidden {\n    () => {};\n}\n",
        "web/Button.tsx": "export type Props = { a: number };\nexport const Button = (props: Props) => <b />;\n"
        "export const Menu = { Item: Button };\n",
        "web/Page.tsx": 'import { Button, type Props } from "./Button";\n\nexport function Page() {\n'
        "  const p = make<Props>();\n  return (\n    <Button a={1}>\n    </Button>\n  );\n}\n",
        "web/style.css": ".Button { color: red }\n",
    }
    with indexed(tmp_path, sources) as engine:

        def callers(name: str) -> list[str]:
            return [edge.source for edge in engine.code.calls(CallsRequest(name, str(tmp_path))).callers]

        assert callers("say") == ["src/lib.rs::brew"]
        assert callers("hidden") == []  # nothing shows it outside of its crate
        assert callers("Button") == ["web/Page.tsx::Page"]
        assert callers("Props") == []
        page = engine.code.calls(CallsRequest("Page", str(tmp_path)))
        assert "web/Button.tsx::Button" in [edge.target for edge in page.callees if edge.kind == "CALLS"]
        assert engine.code.references(RefsRequest("Button", str(tmp_path))).notes == ()  # a stylesheet uses no code


def test_a_macro_is_named_by_its_mark_or_an_import(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "tea"\n',
        "src/lib.rs": "#[macro_export]\nmacro_rules! say {\n    () => {};\n}\n",
        "src/main.rs": "use tea::{\n    say,\n};\n\n#[say(loud)]\nstruct Pot;\n\nfn main() {\n    say!();\n"
        "    for (say, times) in heard() {\n        print(say, times);\n    }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("say", str(tmp_path)))
    assert [usage.line for usage in report.usages] == [2, 9]
    assert report.unattributed == 0


def test_a_static_import_uses_the_type_of_the_member(tmp_path: Path) -> None:
    sources = {
        "shop/Prices.java": "package shop;\n\npublic class Prices {\n    public static int total() { return 1; }\n}\n",
        "cart/Cart.java": "package cart;\n\nimport static shop.Prices.total;\n\nclass Cart {\n"
        "    int sum() { return total(); }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("Prices", str(tmp_path)))
    assert [(usage.line, usage.confidence) for usage in report.usages] == [(3, "resolved")]


def test_data_among_tests_is_no_code_that_was_not_looked_into(tmp_path: Path) -> None:
    sources = {
        "shop/cart.py": "def total():\n    return 1\n\n\nprint(total())\n",
        "tests/expected.toml": 'stdout = "total"\n',
        "tests/page.jl": "total()\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("total", str(tmp_path)))
        assert report.notes[0] == "1 file has no syntax tree and was not looked into: tests/page.jl"


def test_a_parameter_of_a_constructor_may_be_a_field(tmp_path: Path) -> None:
    sources = {
        "Cart.php": "<?php\nnamespace Shop;\n\nclass Cart\n{\n    public function __construct(\n"
        "        private readonly Price $price,\n        Price $other,\n    ) {\n        check($price);\n    }\n\n"
        "    public function sum(): int\n    {\n        return $this->price->total();\n    }\n}\n",
        "Price.php": "<?php\nnamespace Shop;\n\nclass Price\n{\n    public function total(): int { return 1; }\n}\n",
        "box.ts": "export class Lid {\n  open() {}\n}\n\nexport class Box {\n"
        "  constructor(private readonly lid: Lid, size: number, public side = 1) {\n    lid.open();\n  }\n\n"
        "  use() {\n    this.lid.open();\n  }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:

        def lines(name: str) -> list[tuple[int, str]]:
            report = engine.code.references(RefsRequest(name, str(tmp_path)))
            return [(usage.line, usage.confidence) for usage in report.usages]

        assert lines("Cart.price") == [(15, "resolved")]
        assert lines("Price.total") == [(15, "resolved")]
        assert lines("Box.lid") == [(11, "resolved")]
        assert lines("Lid.open") == [(7, "resolved"), (11, "resolved")]
        symbols = engine.code.symbols(SymbolsRequest(str(tmp_path))).symbols
        assert [one.exported for one in symbols if one.qualified in ("Box.lid", "Box.side")] == [False, True]
        kinds = {one.qualified: one.kind for one in symbols}
        assert (kinds["Cart.price"], kinds["Box.lid"]) == ("property", "field")
        assert {"Cart.other", "Box.size"}.isdisjoint(kinds)


def test_a_function_of_php_may_be_written_with_its_namespace(tmp_path: Path) -> None:
    sources = {
        "total.php": "<?php\nnamespace Shop\\Prices;\n\nfunction total(): int { return 1; }\n",
        "cart.php": "<?php\n\n\\Shop\\Prices\\total();\n\\Other\\total();\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("total", str(tmp_path)))
    assert [usage.line for usage in report.usages if usage.confidence == "resolved"] == [3]


def test_a_function_declared_above_is_the_one_with_a_body(tmp_path: Path) -> None:
    sources = {
        "cart.c": "static int add(int a);\nstatic int total(int a);\n\nint sum(int a) { return total(a); }\n\n"
        "static int total(int a) {\n    return add(a);\n}\n\nstatic int add(int a) {\n    return a;\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        graph = engine.code.calls(CallsRequest("total", str(tmp_path)))
    assert [one.start_line for one in graph.definitions] == [6]
    assert [edge.target for edge in graph.callees] == ["cart.c::add"]


def test_definitions_of_a_common_name_are_limited(tmp_path: Path) -> None:
    sources = {f"cops/cop_{number}.rb": f"class Cop{number}\n  MSG = 'no'\nend\n" for number in range(4)}
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("MSG", str(tmp_path), limit=3))
        graph = engine.code.calls(CallsRequest("MSG", str(tmp_path), limit=3))
    for found in (report, graph):
        assert len(found.definitions) == 3
        assert "1 more definition of the name; raise --limit to see them" in found.notes


def test_a_macro_without_an_import_is_one_of_its_crate_or_exported(tmp_path: Path) -> None:
    macro = "macro_rules! {} {{\n    () => {{}};\n}}\n"
    sources = {
        "crates/tea/Cargo.toml": '[package]\nname = "tea"\n',
        "crates/tea/src/lib.rs": "mod words;\n\npub fn brew() {\n    say!();\n    hidden!();\n    shown!();\n}\n",
        "crates/tea/src/words.rs": macro.format("say"),
        "crates/pot/Cargo.toml": '[package]\nname = "pot"\n',
        "crates/pot/src/lib.rs": macro.format("hidden") + "#[macro_export]\n" + macro.format("shown"),
    }
    with indexed(tmp_path, sources) as engine:
        calls = {
            name: engine.code.calls(CallsRequest(name, str(tmp_path))).callers for name in ("say", "hidden", "shown")
        }
    called = [
        name for name, edges in calls.items() if [edge.source for edge in edges] == ["crates/tea/src/lib.rs::brew"]
    ]
    assert called == ["say", "shown"]


def test_tests_beside_the_code_are_tests(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "tea"\n',
        "src/lib.rs": "pub fn brew() {}\n\npub fn serve() {\n    brew();\n}\n\n#[cfg(test)]\nmod tests {\n"
        "    use super::*;\n\n    #[test]\n    fn brews() {\n        brew();\n    }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        explored = engine.knowledge.explore(ExploreRequest("brew", str(tmp_path)))
        assert (explored.callers, explored.tests) == (("src/lib.rs:4 serve",), ("src/lib.rs:13 tests.brews",))
        found = engine.search(SearchRequest("brew", paths=(str(tmp_path),), context=True)).hits
        (callers,) = (hit.context.callers for hit in found if hit.symbol == "brew" and hit.context)
        assert callers == ("src/lib.rs:4 serve",)
        assert engine.code.callers(engine.indexes.of(tmp_path), {("src/lib.rs", "brew")}) == {
            ("src/lib.rs", "brew"): [("src/lib.rs", 4)]
        }


def test_what_the_answer_lacks_is_said(tmp_path: Path) -> None:
    sources = {
        "text.py": "def translate(text):\n    return text\n",
        "page.py": 'from text import translate as _\n\nprint(_("a"))\n',
        "state.ts": "class A extends Outer {\n  go() {\n    this.change();\n  }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        found = engine.code.references(RefsRequest("translate", str(tmp_path)))
        assert found.notes == ("imported as _ in 1 files: uses of a name of one letter are not listed",)
        assert not found.is_complete
        found = engine.code.references(RefsRequest("A.change", str(tmp_path)))
        assert found.notes == ("A.change is not defined here: these are all uses of the name change",)


def test_calls_that_cannot_be_attributed_are_counted(tmp_path: Path) -> None:
    config = written_in(
        tmp_path,
        {
            "a.py": "class A:\n    def run(self): ...\n\n\nclass B:\n    def run(self): ...\n",
            "b.py": "from a import A\n\n\ndef f(x, y):\n    A().run()\n    x.run()\n    y.run\n    len(x)\n",
        },
    )
    with Engine(config) as engine:
        run = engine.code.calls(CallsRequest("A.run", str(tmp_path)))
        caller = engine.code.calls(CallsRequest("b.py::f", str(tmp_path)))
    assert ([edge.line for edge in run.callers], run.unattributed) == ([5], 1)
    assert ({edge.target for edge in caller.callees}, caller.unattributed_callees) == ({"a.py::A.run"}, 1)


SCIP = Path(__file__).parents[1] / "fixtures" / "scip"


@pytest.mark.parametrize(
    ("project", "name", "lines"),
    [
        ("py", "Cart.total", {("app.py", 11, "compiler")}),
        ("py", "Order.total", {("app.py", 11, "compiler")}),
        ("ts", "Store.load", {("app.ts", 4, "compiler"), ("app.ts", 6, "compiler")}),
        ("ts", "Other.load", {("app.ts", 5, "compiler")}),
        ("ts", "Store", {("app.ts", 1, "compiler"), ("app.ts", 6, "compiler"), ("store.ts", 14, "compiler")}),
    ],
)
def test_an_index_of_the_compiler_is_believed(
    project: str, name: str, lines: set[tuple[str, int, str]], tmp_path: Path
) -> None:
    root = tmp_path / project
    shutil.copytree(SCIP / project, root)
    (root / "index.scip").touch()
    with Engine(Config.load({"embedding.provider": "none", "index.workers": "1"}, root)) as engine:
        assert uses(engine, root, name) == lines


def test_a_file_that_is_newer_than_the_compilers_index_is_resolved_without_it(tmp_path: Path) -> None:
    root = tmp_path / "ts"
    shutil.copytree(SCIP / "ts", root)
    with Engine(Config.load({"embedding.provider": "none", "index.workers": "1"}, root)) as engine:

        def proofs() -> set[str]:
            return {proof for _, _, proof in uses(engine, root, "Store")}

        def note() -> str:
            return engine.index(IndexRequest((str(root),))).reports[0].notes[-1]

        os.utime(root / "index.scip", (1, 1))
        assert proofs() == {"resolved"}
        assert "covers 2 files, 2 of which were changed since" in note()
        (root / "index.scip").touch()
        assert proofs() == {"compiler"}
        assert note().endswith("covers 2 files")
        assert engine.status(StatusRequest((str(root),))).indexes[0].notes[-1] == note()
        (root / "index.scip").write_bytes(b"no protocol buffer")
        assert proofs() == {"resolved"}
        assert "index.scip is not used" in note()
        (root / "index.scip").unlink()
        os.mkfifo(root / "index.scip")  # which must not be waited for
        assert proofs() == {"resolved"}
        assert "index.scip is not used" in note()


def test_a_compilers_index_that_is_cut_or_broken_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "index.scip"
    good = (SCIP / "ts" / "index.scip").read_bytes()
    broken = b"\x0a\x06bad.ts\x12\x05" + b"\xff" * 5  # a document whose only occurrence is none
    nameless = b"\x08\x05"  # a number in the place of a document's name
    path.write_bytes(good + b"".join(b"\x12" + bytes([len(one)]) + one for one in (broken, nameless)))
    index = Compiler(path, tmp_path)
    assert index.occurrences("store.ts")
    assert index.occurrences("bad.ts") == ()
    os.truncate(path, 0)  # as an indexer does that writes it again: reading a mapped file would end the process
    assert index.occurrences("app.ts") == ()


def test_a_field_that_may_be_null_and_what_is_made_in_place_have_their_types(tmp_path: Path) -> None:
    sources = {
        "Cup.php": "<?php\nnamespace Tea;\nclass Cup {\n    public function fill() {}\n}\n",
        "Pot.php": "<?php\nnamespace Tea;\nclass Pot {\n    public function __construct(private ?Cup $cup = null) {}\n"
        "    public function pour() { $this->cup->fill(); }\n}\n",
        "Use.php": "<?php\nnamespace Tea;\nfunction brew() {\n    return (new Pot(\n        cup: new Cup(),\n"
        "    ))->pour();\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Cup.fill") == {("Pot.php", 5, "resolved")}
        assert uses(engine, tmp_path, "Pot.pour") == {("Use.php", 6, "resolved")}


def test_functions_of_haskell_are_called_without_brackets_but_not_by_a_list_of_exports(tmp_path: Path) -> None:
    sources = {
        "Tea.hs": "module Tea (brew) where\n\nbrew :: Int -> Int\nbrew n = n\n",
        "Cup.hs": "module Cup (fill, brew) where\n\nimport Tea (brew)\n\nfill :: Int\nfill = brew 3\n",
    }
    with indexed(tmp_path, sources) as engine:
        graph = engine.code.calls(CallsRequest("brew", str(tmp_path)))
        assert [(edge.path, edge.line) for edge in graph.callers] == [("Cup.hs", 6)]


def test_components_use_what_their_scripts_and_their_markup_name(tmp_path: Path) -> None:
    sources = {
        "src/price.ts": "export function format(amount: number) { return amount }\nexport const rate = 2\n",
        "src/Tag.vue": """<template>
  <!-- format() -->
  <b :title="format(rate)" @click="format(1); count++">rate {{ format(2) }}</b>
</template>
<script setup lang="ts">
import { format, rate } from '@/price'
import Other from './Other.vue'
defineProps({ items: { default: () => [] } })
</script>
<style>.rate { color: red }</style>
""",
        "src/Other.vue": "<template><i /></template>\n<script>export default { name: 'Other' }</script>\n",
        "src/List.vue": "<script setup>\nimport Tag from './Tag.vue'\n</script>\n<template>\n"
        '  <Tag v-for="a of tags" />\n</template>\n',
        "src/Named.vue": "<script setup>\nimport Badge from './Tag.vue'\n</script>\n<template><Badge /></template>\n",
        "src/index.ts": "export { default as VTag } from './Tag.vue'\n",
        "src/List.svelte": "<script>\nimport { format } from './price'\n</script>\n{#each tags as tag}\n"
        "<i on:click={() => format(1)}>{format(tag)} format</i>\n{/each}\n",
        "src/Menu.svelte": "<script>\nimport { hold, slide } from './focus'\n</script>\n"
        "<div use:hold={tags}\n  in:slide|local>use:hold</div>\n",
        "src/focus.ts": "export function hold(node) {}\nexport function slide(node) {}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "format") == {
            ("src/Tag.vue", 3, "resolved"),
            ("src/Tag.vue", 6, "resolved"),
            ("src/List.svelte", 2, "resolved"),
            ("src/List.svelte", 5, "resolved"),
        }
        assert uses(engine, tmp_path, "rate") == {("src/Tag.vue", 3, "resolved"), ("src/Tag.vue", 6, "resolved")}
        assert uses(engine, tmp_path, "hold") == {
            ("src/Menu.svelte", 2, "resolved"),
            ("src/Menu.svelte", 4, "resolved"),
        }
        assert uses(engine, tmp_path, "slide") == {
            ("src/Menu.svelte", 2, "resolved"),
            ("src/Menu.svelte", 5, "resolved"),
        }
        assert uses(engine, tmp_path, "Tag") == {
            ("src/List.vue", 2, "resolved"),
            ("src/List.vue", 5, "resolved"),
            ("src/Named.vue", 2, "resolved"),  # by another name
            ("src/Named.vue", 4, "resolved"),
            ("src/index.ts", 1, "resolved"),
        }
        assert engine.code.references(RefsRequest("format", str(tmp_path))).is_complete
        callers = engine.code.calls(CallsRequest("Tag", str(tmp_path))).callers
        assert [(one.path, one.line) for one in callers] == [("src/List.vue", 5), ("src/Named.vue", 4)]


def test_a_constructor_is_called_by_the_name_of_its_class(tmp_path: Path) -> None:
    sources = {
        "Cart.cs": "namespace Shop;\npublic class Cart\n{\n    public Cart(int size) {}\n    public void Add() {}\n}\n",
        "Use.cs": "namespace Shop;\nclass Use\n{\n    Cart kept;\n    void Run() { new Cart(1).Add(); }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Cart.Cart") == {("Use.cs", 5, "resolved")}
        assert uses(engine, tmp_path, "Cart.Add") == {("Use.cs", 5, "resolved")}


def test_nuxt_imports_by_itself(tmp_path: Path) -> None:
    sources = {
        "nuxt.config.ts": "export default {}\n",
        "app/composables/cart.ts": "const store = 1\nexport function useCart() { return store }\n",
        "app/components/list/Item.vue": "<template><i /></template>\n",
        "app/components/cart/CartRow.vue": "<script setup>\nconst cart = useCart()\n</script>\n",
        "app/pages/index.vue": "<template>\n  <CartRow /> {{ Item }} {{ store }}\n</template>\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "useCart") == {("app/components/cart/CartRow.vue", 2, "resolved")}
        imports = engine.code.imports(ImportsRequest(str(tmp_path / "app/pages/index.vue"))).imports
        assert [one.targets for one in imports] == [("app/components/cart/CartRow.vue",)]


def test_functions_are_called_with_a_block_alone_or_without_anything(tmp_path: Path) -> None:
    sources = {
        "Tea.kt": "package tea\n\nfun brew(step: () -> Unit) { step() }\n\nopen class Pot\n",
        "Use.kt": "package tea\n\nfun run() {\n    brew { println(1) }\n    val other = ::brew\n}\n\n"
        "class Mug : Pot() {}\n",
        "Cup.scala": "package cup\n\nclass Cup {\n  def full: Int = 1\n  def fill(): Int = full\n}\n",
    }
    with indexed(tmp_path, sources) as engine:

        def callers(name: str) -> list[tuple[str, int]]:
            return [(edge.path, edge.line) for edge in engine.code.calls(CallsRequest(name, str(tmp_path))).callers]

        assert callers("brew") == [("Use.kt", 4)]
        assert callers("Cup.full") == [("Cup.scala", 5)]


def test_an_export_is_no_use_and_names_that_are_put_together_are_used(tmp_path: Path) -> None:
    sources = {
        "ui/card.tsx": "function Card() { return <Inner /> }\nfunction Inner() {}\nexport {\n  Card,\n  Inner,\n}\n",
        "Web/Results.cs": "public static class Extensions\n{\n  public static int Ok(\n    this Result x) => 1;\n}\n",
        "suite/run.py": "def bench_one():\n    pass\n\n\ndef plain():\n    pass\n\n\nglobals()['bench_' + 'one']()\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({}, tmp_path)) as engine:
        found = engine.code.unused(UnusedRequest(str(tmp_path), own_file=True)).symbols
    assert {(one.symbol.name, one.used_here) for one in found} == {("Card", False), ("Inner", True), ("plain", False)}


def test_what_a_string_of_its_own_file_names_may_be_looked_up(tmp_path: Path) -> None:
    sources = {
        "shop/child.py": '__all__ = ["listed", "run_child"]\n\n\ndef run_child(): ...\n\n\ndef listed(): ...\n\n\n'
        'Point = make("Point")\nstart(__name__, "run_child")\n',
    }
    with indexed(tmp_path, sources) as engine:
        found = engine.code.unused(UnusedRequest(str(tmp_path))).symbols
    assert {one.symbol.name for one in found} == {"listed", "Point"}


def test_who_uses_a_function_without_calling_it_and_who_calls_its_interface(tmp_path: Path) -> None:
    sources = {
        "deps.py": "def user():\n    return 1\n\n\nCurrent = Depends(user)\n",
        "src/IStore.cs": "namespace Tea;\npublic interface IStore\n{\n  int All();\n}\n",
        "src/Store.cs": "namespace Tea;\npublic class Store : IStore\n{\n  public int All() => 1;\n}\n",
        "src/Handler.cs": "namespace Tea;\npublic class Handler(IStore store)\n{\n"
        "  public int Handle() => store.All();\n}\n",
        "Web.java": 'class Web {\n    @GetMapping("/")\n    public String home() {\n        return null;\n    }\n}\n',
        "Cup.scala": "package cup\n\nclass Pot {\n  def pour(): Int = 1\n}\n\nclass Cup(pot: Pot) {\n"
        "  def fill(): Int = pot.pour()\n}\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({}, tmp_path)) as engine:
        passed = engine.code.calls(CallsRequest("user", path=str(tmp_path)))
        injected = engine.code.calls(CallsRequest("Store.All", path=str(tmp_path)))
        given = engine.code.calls(CallsRequest("Pot.pour", path=str(tmp_path)))
        served = engine.code.calls(CallsRequest("Web.home", path=str(tmp_path)))
    assert [(edge.source, edge.line, edge.kind) for edge in passed.callers] == [("deps.py", 5, "REFERENCES")]
    assert [(edge.source, edge.confidence) for edge in injected.callers] == [
        ("src/Handler.cs::Handler.Handle", "syntactic")
    ]
    assert [(edge.source, edge.confidence) for edge in given.callers] == [("Cup.scala::Cup.fill", "resolved")]
    assert served.notes == ("a decorator or an attribute stands before it: a framework may call it",)
    assert injected.notes == ("calls of src/IStore.cs::IStore.All, which it overrides, may mean it",)


def test_a_hidden_name_is_not_seen_by_other_files_of_nuxt(tmp_path: Path) -> None:
    sources = {
        "nuxt.config.ts": "export default {}\n",
        "components/NoteCard.vue": '<script setup lang="ts">\ntype Note = { id: string }\n'
        "const note: Note = { id: '' }\n</script>\n<template><p>{{ note }}</p></template>\n",
        "composables/push.ts": "export function push() {\n  return Note.permission\n}\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({}, tmp_path)) as engine:
        found = engine.code.references(RefsRequest("components/NoteCard.vue::Note", path=str(tmp_path)))
    assert {use.file for use in found.usages} == {"components/NoteCard.vue"}


def test_a_function_of_c_plus_plus_is_one_with_its_declaration(tmp_path: Path) -> None:
    sources = {
        "cart.h": "namespace shop {\nclass Base {\npublic:\n    void close();\n};\n"
        "class Cart : public Base {\npublic:\n    Cart(int size);\n    static Cart *instance();\n"
        "    void add(int item);\nprivate:\n    Cart *m_next;\n};\nint rate(int of);\n}\n",
        "cart.cpp": '#include "cart.h"\nusing namespace shop;\nCart::Cart(int size) {}\n'
        "Cart *Cart::instance() { return new Cart(1); }\nvoid Cart::add(int item) { m_next->add(item); close(); }\n"
        "int shop::rate(int of) { return of; }\n",
        "other.h": "namespace bank {\nclass Cart {\npublic:\n    static Cart *instance();\n};\n}\n",
        "main.cpp": '#include "cart.h"\n#include "other.h"\nint main() {\n    shop::Cart::instance()->add(1);\n'
        "    Cart::Mode mode;\n    std::add(2);\n    return shop::rate(1);\n}\n",
        "bank.cpp": '#include "cart.h"\n#include "other.h"\nusing namespace bank;\nvoid pay() { Cart::instance(); }\n',
        "form.h": "namespace Ui {\nclass Form;\n}\nclass Form {\npublic:\n    Form();\n};\n",
        "form.cpp": '#include "form.h"\nForm::Form() : m_ui(new Ui::Form()) {}\nvoid open() { new Form(); }\n',
    }
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        added = {("cart.cpp", 5, "resolved"), ("main.cpp", 4, "resolved")}
        assert uses(engine, tmp_path, "cart.h::Cart.add") == added == uses(engine, tmp_path, "cart.cpp::Cart.add")
        assert uses(engine, tmp_path, "cart.cpp::Cart.instance") == {("main.cpp", 4, "resolved")}
        assert uses(engine, tmp_path, "other.h::Cart.instance") == {("bank.cpp", 4, "resolved")}
        assert uses(engine, tmp_path, "cart.h::Base.close") == {("cart.cpp", 5, "resolved")}
        assert uses(engine, tmp_path, "cart.cpp::rate") == {("main.cpp", 7, "resolved")}
        made = engine.code.calls(CallsRequest("cart.cpp::Cart.Cart", str(tmp_path))).callers
        assert [(edge.path, edge.line) for edge in made] == [("cart.cpp", 4)]  # and not `Cart::Mode`
        made = engine.code.calls(CallsRequest("form.h::Form.Form", str(tmp_path))).callers
        assert [(edge.path, edge.line) for edge in made] == [("form.cpp", 3)]


def test_making_an_object_calls_its_constructor(tmp_path: Path) -> None:
    sources = {
        "cart.py": "class Cart:\n    def __init__(self): ...\n    def __call__(self): ...\n\ndef fill():\n    Cart()\n",
        "Base.scala": "package shop\nobject Base {\n  def apply(): Int = 1\n}\n",
        "Use.scala": "package shop\nobject Use {\n  def run() = Base()\n}\n",
    }
    with indexed(tmp_path, sources) as engine:

        def callers(name: str) -> list[str]:
            return [edge.source for edge in engine.code.calls(CallsRequest(name, str(tmp_path))).callers]

        assert callers("cart.py::Cart.__init__") == ["cart.py::fill"]
        assert callers("cart.py::Cart.__call__") == []
        assert callers("Base.scala::Base.apply") == ["Use.scala::Use.run"]


def test_a_method_of_an_object_in_a_function_needs_a_receiver(tmp_path: Path) -> None:
    (tmp_path / "mocks.ts").write_text("export function reset() {}\n")
    (tmp_path / "vi.ts").write_text(
        'import { reset } from "./mocks";\nexport function create() {\n  const vi = {\n    reset() {\n      reset();\n'
        "    },\n  };\n  return vi;\n}\n"
    )
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert ("vi.ts", 5, "resolved") in uses(engine, tmp_path, "mocks.ts::reset")


def test_each_part_of_a_type_has_the_bases_that_another_part_names(tmp_path: Path) -> None:
    sources = {
        "App/Request.swift": "class Request {\n    func cancel() {}\n}\n",
        "App/DataRequest.swift": "class DataRequest: Request {}\n",
        "App/Stream.swift": "class Stream {\n    func cancel() {}\n}\n",
        "App/Publish.swift": "extension DataRequest {\n    func publish() { self.cancel() }\n}\n"
        "class Publisher {\n    let request: DataRequest\n    func stop() { request.cancel() }\n}\n",
        "Shop/Base.cs": "namespace Shop;\npublic class Base { protected void Save() {} }\n",
        "Shop/Cart.cs": "namespace Shop;\npublic partial class Cart : Base { }\n",
        "Shop/Cart.Items.cs": "namespace Shop;\npublic partial class Cart {\n    void Add() { this.Save(); }\n}\n",
        "Shop/Store.cs": "namespace Shop;\npublic class Store { public void Save() {} }\n",
        "lib/record.rb": "class Record\n  def store; end\nend\n",
        "lib/disk.rb": "class Disk\n  def store; end\nend\n",
        "lib/order.rb": "class Order < Record\nend\n",
        "lib/order_mail.rb": "class Order\n  def mail\n    self.store\n  end\nend\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Request.cancel") == {
            ("App/Publish.swift", 2, "resolved"),
            ("App/Publish.swift", 6, "resolved"),
        }
        assert uses(engine, tmp_path, "Base.Save") == {("Shop/Cart.Items.cs", 3, "resolved")}
        assert uses(engine, tmp_path, "Record.store") == {("lib/order_mail.rb", 3, "resolved")}


def test_a_module_that_many_files_open_is_looked_into_once_for_each_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spree opens `Spree::Api` in 390 of 3,000 files that open `Spree`."""
    asked: list[SymbolId] = []

    def counted(index: CodeIndex, owner: SymbolId, name: str) -> Sequence[SymbolId]:
        asked.append(owner)
        return find_own_member(index, owner, name)

    monkeypatch.setattr(scopes, "find_own_member", counted)
    many = 40
    sources = {
        f"lib/part{n}.rb": f"module Shop\n  module Api\n    class Part{n}\n    end\n  end\nend\n" for n in range(many)
    }
    users = {f"lib/use{n}.rb": f"def make{n}\n  Shop::Api::Part{n}.new\nend\n" for n in range(many)}
    with indexed(tmp_path, {**sources, **users}) as engine:
        found = uses(engine, tmp_path, "Api")
    assert found == {(f"lib/use{n}.rb", 2, "resolved") for n in range(many)}
    assert len(asked) <= 4 * many


def test_a_property_of_swift_is_not_the_method_of_its_name(tmp_path: Path) -> None:
    sources = {
        "App/List.swift": "class List {\n    var tableView = Table()\n}\n",
        "App/List+Source.swift": "extension List: Source {\n    func tableView(_ row: Int) -> Int { 1 }\n"
        "    func reload() { tableView.reload() }\n    func first() -> Int { tableView(1) }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "App/List+Source.swift::List.tableView") == {
            ("App/List+Source.swift", 4, "resolved")
        }
        assert uses(engine, tmp_path, "App/List.swift::List.tableView") == {("App/List+Source.swift", 3, "resolved")}


def test_markup_in_elixir_calls_components_and_functions(tmp_path: Path) -> None:
    sources = {
        "lib/shop_web.ex": "defmodule ShopWeb do\n  def html do\n    quote do\n      import ShopWeb.Core\n    end\n"
        "  end\nend\n",
        "lib/core.ex": "defmodule ShopWeb.Core do\n  def button(it), do: it\n  def send(a, b), do: {a, b}\nend\n",
        "lib/price.ex": "defmodule Shop.Price do\n  def net(price), do: price\nend\n",
        "lib/page.ex": "defmodule ShopWeb.Page do\n  use ShopWeb, :html\n  alias Shop.Price\n\n  def render(it) do\n"
        '    ~H"""\n    <.button title="net profit" value={Price.net(@price)}>\n      net <.row item={%{a: 1}} />\n'
        '    </.button>\n    """\n  end\n\n  defp row(assigns), do: assigns\nend\n',
        "lib/job.ex": "defmodule Shop.Job do\n  use GenServer\n  def run(pid), do: send(pid, :done)\nend\n",
        "lib/store.ex": "defprotocol Shop.Store do\n  def read(store)\nend\n",
        "lib/disk.ex": "defimpl Shop.Store, for: Shop.Disk do\n  def read(disk), do: disk\nend\n",
        "lib/use.ex": "defmodule Shop.Use do\n  alias Shop.Store\n  def go(it), do: Store.read(it)\nend\n",
    }
    with indexed(tmp_path, sources) as engine:

        def callers(name: str) -> list[tuple[str, int, str]]:
            found = engine.code.calls(CallsRequest(name, str(tmp_path))).callers
            return [(edge.path, edge.line, edge.confidence) for edge in found]

        assert callers("ShopWeb.Core.button") == [("lib/page.ex", 7, "resolved")]
        assert callers("ShopWeb.Page.row") == [("lib/page.ex", 8, "resolved")]
        assert callers("Shop.Price.net") == [("lib/page.ex", 7, "resolved")]
        assert callers("ShopWeb.Core.send") == []  # the one of Elixir is called
        assert callers("lib/disk.ex::Shop.Store.read") == [("lib/use.ex", 3, "syntactic")]


def test_text_between_the_code_in_a_string_of_scala_uses_nothing(tmp_path: Path) -> None:
    sources = {
        "Paths.scala": 'package shop\nobject Paths {\n  def assets(): String = s"/assets/${name()}"\n'
        '  def name(): String = "x"\n  def url: String = assets()\n  def other(it: Option[String]) = it match {\n'
        "    case Some(url) => url\n    case _ => name()\n  }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Paths.assets") == {("Paths.scala", 5, "resolved")}
        assert uses(engine, tmp_path, "Paths.name") == {("Paths.scala", 3, "resolved"), ("Paths.scala", 8, "resolved")}
        assert uses(engine, tmp_path, "Paths.url") == set()


def test_a_reference_to_a_method_of_java_is_a_call(tmp_path: Path) -> None:
    sources = {
        "Shop.java": "package shop;\nclass Shop {\n    void publish(String it) {}\n}\n",
        "App.java": "package shop;\nclass App {\n    Shop shop = new Shop();\n"
        "    void run(List<String> all) { all.forEach(shop::publish); }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        found = engine.code.calls(CallsRequest("Shop.publish", str(tmp_path))).callers
    assert [(edge.source, edge.kind) for edge in found] == [("App.java::App.run", "CALLS")]


def test_members_of_types_from_outside_are_counted_apart(tmp_path: Path) -> None:
    """In Go the types of parameters, fields, results and variables say whose a method is."""
    source = (
        'package shop\n\nimport (\n\t"net/http"\n\t"os"\n\t"sync"\n)\n\n'
        "type Cart struct{ file *os.File }\n\nfunc (c *Cart) Close() error { return nil }\n\n"
        "type Other struct{}\n\nfunc (o *Other) Close() error { return nil }\n\n"
        "func run(r *http.Request, c *Cart, pool sync.Pool) error {\n\tr.Body.Close()\n\tc.file.Close()\n"
        '\tfile, _ := os.Open("a")\n\tfile.Close()\n\tx := unknown()\n\tx.Close()\n'
        "\ty := sync.OnceValue(c)\n\ty.Close()\n\treturn c.Close()\n}\n"
    )
    with indexed(tmp_path, {"go.mod": "module shop\n", "cart.go": source}) as engine:
        found = engine.code.references(RefsRequest("Cart.Close", str(tmp_path)))
    assert [use.line for use in found.usages] == [26]
    assert found.unattributed == 2
    outside = "3 more uses of the name on values of types from outside: http.Request, os.File, os.Open"
    assert outside in found.notes


def test_what_a_template_names_is_said_where_nothing_calls(tmp_path: Path) -> None:
    sources = {
        "view.py": "def shown(): ...\n",
        "page.html": "{{ shown() }}\n",
        "a.yml": "shown: 1\n",
        "a.md": "`shown`\n",
    }
    with indexed(tmp_path, sources) as engine:
        found = engine.code.calls(CallsRequest("shown", str(tmp_path)))
        (tmp_path / "first.html").write_text("{{ shown() }}\n")
        both = engine.code.calls(CallsRequest("shown", str(tmp_path)))
    assert found.notes == ("its name is in pages or in files without a syntax tree: page.html",)
    assert both.notes == ("its name is in pages or in files without a syntax tree: first.html and 1 more",)


def test_uses_of_a_type_that_xml_names_are_not_complete(tmp_path: Path) -> None:
    sources = {
        "app/SeekBar.java": "package app;\nclass ChapterSeekBar {\n    int seekTo;\n}\n",
        "app/Player.java": "package app;\nclass Player {\n    ChapterSeekBar bar;\n}\n",
        "res/layout/player.xml": "<Layout>\n  <app.ChapterSeekBar id='1' seekTo='2'/>\n</Layout>\n",
    }
    with indexed(tmp_path, sources) as engine:
        of_type, of_field, of_other = (
            engine.code.references(RefsRequest(name, str(tmp_path))) for name in ("ChapterSeekBar", "seekTo", "Player")
        )
    assert (of_type.is_complete, of_type.notes) == (
        False,
        ("1 file has no syntax tree and was not looked into: res/layout/player.xml",),
    )
    assert (of_field.is_complete, of_other.is_complete) == (True, True)


def test_no_use_of_what_a_framework_may_call_is_not_complete(tmp_path: Path) -> None:
    sources = {
        "views.py": "@app.route\ndef orders():\n    return 1\n\n\ndef idle(): ...\n\n\n"
        "@register\nclass OrderView:\n    pass\n\n\n@dataclass\nclass Order:\n    pass\n",
    }
    names = ("orders", "OrderView", "idle", "Order")
    with indexed(tmp_path, sources) as engine:
        found = [engine.code.references(RefsRequest(name, str(tmp_path))) for name in names]
    note = "a decorator or an attribute stands before it: a framework may call it"
    assert [(one.usage_count, one.is_complete) for one in found] == [(0, False), (0, False), (0, True), (0, True)]
    assert [one.notes for one in found] == [(note,), (note,), (), ()]


def test_the_type_of_a_key_of_typescript_is_unknown(tmp_path: Path) -> None:
    sources = {
        "file.ts": "const pathOf = (id: number) => id;\nexport default { pathOf };\n",
        "get.ts": "import type file from './file';\ntype Services = { file: typeof file; count: number };\n"
        "export const getService = <N extends keyof Services>(name: N): Services[N] => load(name);\n",
        "use.ts": "import { getService } from './get';\nconst service = getService('file');\n"
        "export const run = () => service.pathOf(1);\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert ("use.ts", 3, "syntactic") in uses(engine, tmp_path, "pathOf")


def test_what_c_plus_plus_uses_without_a_name_is_not_unused(tmp_path: Path) -> None:
    sources = {
        "cart.cpp": "const int CART_ID = registerType<Cart>();\nconst int LOST = 1;\n",
        "stack.h": "template <>\nstruct Stack<Cart> {\n    int size;\n};\n",
        "web/vendors/ace.js": "export function lost() {}\n",
        "modes.h": "typedef enum\n{\n  OPEN,\n  SHUT\n} modes_t;\ntypedef int lost_t;\n",
        "bridge.cpp": 'extern "C" void Java_org_shop_Bridge_run(void *env) { OPEN; }\n',
        "lock.h": "extern int lock_depth;\ninline int depth() { return lock_depth; }\n",
        "lock.cpp": '#include "lock.h"\nint lock_depth = depth();\n',
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert [one.symbol.name for one in report.symbols] == ["LOST", "lost_t"]


def test_a_call_of_c_means_no_function_of_another_language(tmp_path: Path) -> None:
    sources = {
        "print.lua": "function printf(text)\n  io.write(text)\nend\n",
        "main.c": 'int main(void) { printf("x"); return 0; }\n',
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "print.lua::printf") == set()


def test_no_uses_is_never_said_of_what_other_names_reach(tmp_path: Path) -> None:
    """Overridden members, constructors, behaviours, and methods of objects that a function makes."""
    sources = {
        "reply.js": "function Reply () {}\nReply.prototype.hijack = function () {}\nmodule.exports = Reply\n",
        "types.d.ts": "export interface FastifyReply {\n  hijack(): void\n}\n",
        "app.js": "app.get('/', (request, reply) => {\n  reply.hijack()\n})\n",
        "shop/driver.ts": "export abstract class Driver {\n  abstract trees: boolean\n}\n"
        "export function plan(driver: Driver) {\n  return driver.trees\n}\n",
        "shop/mongo.ts": "import { Driver } from './driver'\nexport class Mongo extends Driver {\n  trees = false\n}\n",
        "footer.h": "class Footer {\n public:\n  Footer() {}\n};\ninline void read() {\n  Footer footer;\n}\n",
        "Jar.java": "class Jar {\n    Jar() {}\n}\n",
        "lib/notifier.ex": "defmodule Shop.Notifier do\n  @callback listen(any) :: :ok\n"
        "  def listen(name), do: apply(conf(name).module, :listen, [name])\nend\n",
        "lib/local.ex": "defmodule Shop.Local do\n  @behaviour Shop.Notifier\n  def listen(_), do: :ok\nend\n",
        "lib/app.ex": "defmodule Shop.App do\n  def run, do: Shop.Notifier.listen(:a)\nend\n",
        "go.mod": "module shop\n",
        "option.go": "package shop\n\ntype option interface {\n\tApply(n int)\n\tIsTLS() bool\n}\n\n"
        "type noop struct{}\n\nfunc (n noop) IsTLS() bool { return false }\n\n"
        "type tags struct {\n\tnoop\n}\n\nfunc (t *tags) Apply(n int) {}\n\nfunc run(o option) {\n\to.Apply(1)\n}\n",
        "Socket.scala": "trait Socket {\n  def send(text: String): Unit\n}\nobject Socket {\n  def make() = {\n"
        "    new Socket {\n      def send(text: String): Unit = ()\n    }\n  }\n"
        '  def run(outer: Unknown) = outer.each(_.send("a"))\n}\n',
    }
    expected = {
        "Reply.hijack": "1 more use of the name may belong to other definitions",
        "Mongo.trees": "1 use of shop/driver.ts::Driver.trees, which it overrides, may mean it",
        "Footer.Footer": "calls of footer.h::Footer run it",
        "Shop.Local.listen": "1 use of lib/notifier.ex::Shop.Notifier.listen, which it overrides, may mean it",
        "tags.Apply": "1 use of option.go::option.Apply, which it overrides, may mean it",
        "Socket.make.send": "1 more use of the name may belong to other definitions",
    }
    with indexed(tmp_path, sources) as engine:
        for name, note in expected.items():
            report = engine.code.references(RefsRequest(name, str(tmp_path)))
            assert (report.usage_count, report.notes) == (0, (note,)), name
        assert engine.code.references(RefsRequest("Jar", str(tmp_path))).notes == ()  # both the type and what makes it


RUST = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/lib.rs": "mod cart;\nuse cart::Cart;\n\npub fn total() -> u32 { cart::count() }\n\n"
    "#[cfg(test)]\nmod tests {\n    fn assert_total(size: u32) { assert_eq!(size, super::total()) }\n\n"
    "    #[test]\n    fn adds() {\n        assert_total(1);\n    }\n}\n",
    "src/cart.rs": "pub enum Shape {\n    Round { size: u32, tint: u32 },\n    Flat,\n}\n\n"
    "pub struct Cart {\n    width: u32,\n    shapes: Arc<Shapes>,\n}\n\npub struct Shapes;\n\n"
    "impl Shapes {\n    fn sum(&self) -> u32 { 1 }\n}\n\npub fn count() -> u32 { 1 }\n\n"
    "impl Cart {\n    fn area(&self, shape: Shape) -> u32 {\n        let this = Arc::clone(&self.shapes);\n"
    "        match shape {\n            Shape::Round { size, tint: color } => size + color + this.sum(),\n"
    "            Shape::Flat => 0,\n        }\n    }\n}\n\n"
    "pub fn make(width: u32) -> Cart {\n    let Cart { width, .. } = old();\n    Cart { width, shapes: none() }\n}\n",
}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("tests.assert_total", {("src/lib.rs", 12)}),
        ("cart", {("src/lib.rs", 2), ("src/lib.rs", 4)}),
        ("Shape.size", {("src/cart.rs", 23)}),
        ("Shape.tint", {("src/cart.rs", 23)}),
        ("Cart.width", {("src/cart.rs", 30), ("src/cart.rs", 31)}),
        ("Shapes.sum", {("src/cart.rs", 23)}),
    ],
)
def test_uses_that_rust_writes_in_a_short_way(tmp_path: Path, name: str, lines: set[tuple[str, int]]) -> None:
    with indexed(tmp_path, RUST) as engine:
        assert {(path, line) for path, line, _ in uses(engine, tmp_path, name)} == lines


SCRIPTS = {
    "props.ts": "export interface Props {\n  size: number\n  color: string\n  shape: string\n}\n",
    "button.ts": 'import { Props } from "./props"\n\n'
    "export function Button({ size, color: tint, shape = 'a' }: Props) {\n  return size + tint + shape\n}\n\n"
    "export function make(shape: string): Props {\n  return { size: 1, color: 'b', shape }\n}\n\n"
    "export const run = (options: Props) => {\n  const { size, color: tint, shape = 'a' } = options\n"
    "  return size + tint + shape\n}\n\nexport function paint() {}\n\n"
    "export interface Tools {\n  paint: () => void\n}\n\nexport const tools: Tools = { paint }\n",
    "cart.js": "function addItem () {}\nmodule.exports = { add: addItem }\n",
    "shop.js": "const cart = require('./cart')\ncart.add()\nother.add()\n",
    "plain.js": "const box = require('./box')\nbox()\n",
    "box.js": "module.exports = function box () {}\n",
    "box.d.ts": "export interface BoxOptions {\n  size: number\n}\nexport default function box(): void\n",
    "typed.ts": "import { BoxOptions } from './box.js'\nexport const options: BoxOptions = { size: 1 }\n",
}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("Props.size", {("button.ts", 3), ("button.ts", 8), ("button.ts", 12)}),
        ("Props.color", {("button.ts", 3), ("button.ts", 8), ("button.ts", 12)}),
        ("Props.shape", {("button.ts", 3), ("button.ts", 8), ("button.ts", 12)}),
        ("button.ts::paint", {("button.ts", 22)}),
        ("addItem", {("cart.js", 2), ("shop.js", 2)}),
        ("BoxOptions", {("typed.ts", 1), ("typed.ts", 2)}),
    ],
)
def test_fields_taken_apart_and_names_given_at_an_export(
    tmp_path: Path, name: str, lines: set[tuple[str, int]]
) -> None:
    with indexed(tmp_path, SCRIPTS) as engine:
        assert {(path, line) for path, line, _ in uses(engine, tmp_path, name)} == lines


COMPONENTS = {
    "props.ts": "export interface Props {\n  size: number\n  tint?: string\n}\n",
    "button.tsx": 'import { FC, forwardRef, memo } from "react"\nimport type { Props } from "./props"\n\n'
    "export function Plain({ size }: Props) { return <b>{size}</b> }\n"
    "export const Whole = (props: Props & Other) => <b />\n"
    "export const Typed: FC<Props> = ({ size, tint = 'a' }) => <b>{size}{tint}</b>\n"
    "export const Kept = memo(Plain)\n"
    "export const Passed = forwardRef<HTMLElement, Props>((props, ref) => <b />)\n"
    "export function Untyped({ size }) { return <b>{size}</b> }\n",
    "page.tsx": 'import { Foreign } from "some-library"\n'
    'import { Kept, Passed, Plain, Typed, Untyped, Whole } from "./button"\n\n'
    "const size = 1\nexport const Page = () => (\n  <>\n    <Plain\n      size={size}\n    />\n"
    "    <Whole size={1}>a</Whole>\n    <Typed size={2} />\n    <Kept size={3} />\n    <Passed size={4} />\n"
    "    <Untyped size={5} />\n    <Foreign size={6} />\n    <img size={7} />\n  </>\n)\n",
}


def test_attributes_of_components_mean_the_members_of_their_props(tmp_path: Path) -> None:
    with indexed(tmp_path, COMPONENTS) as engine:
        places = {(path, line) for path, line, _ in uses(engine, tmp_path, "Props.size")}
        assert places == {("button.tsx", 4), ("button.tsx", 6), *(("page.tsx", line) for line in (8, 10, 11, 12, 13))}
        assert uses(engine, tmp_path, "Props.tint") == {("button.tsx", 6, "resolved")}
        assert uses(engine, tmp_path, "page.tsx::size") == {("page.tsx", 8, "resolved")}


def test_what_rails_delegates_and_the_scopes_of_a_model_are_defined(tmp_path: Path) -> None:
    sources = {
        "app/models/cart.rb": "class Cart < ApplicationRecord\n  delegate :total, :size,\n    to: :updater\n"
        "  delegate :email, to: :owner, prefix: true\n  scope :closed, -> { where(open: false) }\n\n"
        "  def close\n    total\n    Cart.closed.first\n  end\nend\n",
        "config/routes.rb": "Rails.application.routes.draw do\n  scope :shop do\n    resources :carts\n  end\nend\n",
    }
    with indexed(tmp_path, sources) as engine:
        defined = {info.qualified for info in engine.code.symbols(SymbolsRequest(str(tmp_path))).symbols}
        assert defined == {"Cart", "Cart.total", "Cart.size", "Cart.closed", "Cart.close"}
        assert uses(engine, tmp_path, "Cart.total") == {("app/models/cart.rb", 8, "resolved")}
        assert uses(engine, tmp_path, "Cart#closed") == {("app/models/cart.rb", 9, "resolved")}


def test_what_comes_from_outside_under_another_name_is_none_of_ours(tmp_path: Path) -> None:
    sources = {
        "menu.tsx": 'import { Menu as Primitive } from "some-library"\n\n'
        "const Menu = () => <Primitive.Root />\n\nexport { Menu }\n",
        "hooks.ts": "export function useMemo() {}\n",
        "page.tsx": 'import {\n  useMemo as useReactMemo,\n} from "react"\nimport { useMemo } from "./hooks"\n\n'
        "export function Page() {\n  useReactMemo()\n  return useMemo()\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Menu") == {("menu.tsx", 5, "resolved")}
        (exported,) = engine.code.references(RefsRequest("Menu", str(tmp_path))).usages
        assert exported.edge == "EXPORTS"
        assert uses(engine, tmp_path, "useMemo") == {("page.tsx", 4, "resolved"), ("page.tsx", 8, "resolved")}
        assert {line for _, line, _ in uses(engine, tmp_path, "useReactMemo")} == {2, 7}  # nothing here defines it


def test_javascript_loads_a_file_and_never_its_declarations(tmp_path: Path) -> None:
    with indexed(tmp_path, SCRIPTS) as engine:
        plain = engine.code.imports(ImportsRequest(str(tmp_path / "plain.js")))
        typed = engine.code.imports(ImportsRequest(str(tmp_path / "typed.ts")))
        assert [one.targets for one in plain.imports] == [("box.js",)]
        assert [one.targets for one in typed.imports] == [("box.js", "box.d.ts")]


def test_quoted_names_and_operators(tmp_path: Path) -> None:
    sources = {
        "src/main/scala/shop/Headers.scala": "package shop\n\nobject `Content-Type` {\n  val name = 1\n}\n\n"
        "object Content\n\nobject +& {\n  def unapply(a: Int) = a\n}\n",
        "src/main/scala/shop/App.scala": "package shop\n\nobject App {\n  val header = `Content-Type`.name\n"
        "  def read(x: Any) = x match { case a +& b => a }\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert {line for _, line, _ in uses(engine, tmp_path, "Content-Type")} == {4}
        assert not uses(engine, tmp_path, "Content")
        sign = engine.code.references(RefsRequest("+&", str(tmp_path)))
        assert (sign.is_complete, sign.notes) == (False, ("uses of operators are not stored",))
        unused = engine.code.unused(UnusedRequest(str(tmp_path)))
        assert {one.symbol.name for one in unused.symbols} == {"App"}


def test_each_name_of_a_signature_of_haskell_is_its_own_function(tmp_path: Path) -> None:
    sources = {
        "Pad.hs": "module Pad (lpad, rpad) where\n\nlpad, rpad :: Int -> Int\nlpad n = n\nrpad n = lpad n\n",
        "App.hs": "module App where\n\nimport Pad (rpad)\n\nrun = rpad 3\n",
    }
    with indexed(tmp_path, sources) as engine:
        named = engine.code.symbols(SymbolsRequest(str(tmp_path / "Pad.hs"))).symbols
        assert {one.qualified for one in named if one.kind == "function"} == {"lpad", "rpad"}
        assert {(path, line) for path, line, _ in uses(engine, tmp_path, "rpad")} >= {("App.hs", 5)}


def test_a_module_is_not_the_function_of_its_name(tmp_path: Path) -> None:
    sources = {
        "orders.py": "def taxes(order):\n    return order\n",
        "hooks/__init__.py": "",
        "hooks/taxes.py": "def ask(order):\n    return order\n",
        "checkout.py": "from .hooks import taxes as checkout_taxes\n\n\ndef pay():\n    return checkout_taxes.ask(1)\n",
        "tests/test_taxes.py": "from ..hooks.taxes import (\n    ask,\n)\n\n\ndef test():\n    ask(1)\n",
        "hooks/pay.py": "from .taxes import ask\nfrom ..hooks.taxes import ask as again\n\nask(again(1))\n",
        "hooks/deep/pay.py": "from ...hooks.taxes import ask\nfrom ..taxes import ask as again\n\nask(again(1))\n",
        "hooks/prices.py": "def prices():\n    return 1\n",
        "show.py": "from .hooks import prices as shown\n\nprint(shown.prices())\n",
        "mixed.py": "from . import orders\nfrom .orders import taxes as own\n\nprint(own(1), orders.taxes(2))\n",
    }
    with indexed(tmp_path, sources) as engine:
        report = engine.code.references(RefsRequest("taxes", str(tmp_path)))
        inside = engine.code.references(RefsRequest("prices", str(tmp_path)))
    assert [(one.file, one.line) for one in report.usages] == [("mixed.py", 2), ("mixed.py", 4)]
    assert report.resolved_count == 2
    assert [(one.file, one.line) for one in inside.usages] == [("show.py", 3)]


def test_what_strings_name_by_its_whole_path_is_used(tmp_path: Path) -> None:
    """Settings, models of Django, and what a test replaces; a logger is no module."""
    sources = {
        "shop/__init__.py": "",
        "shop/settings.py": 'MIDDLEWARE = [\n    "shop.middleware.Guard",\n    "other.middleware.Guard",\n]\n',
        "shop/middleware.py": "class Guard:\n    def check(self):\n        return 1\n",
        "shop/orders/__init__.py": "",
        "shop/orders/models.py": "class Order:\n    pass\n",
        "shop/carts/migrations/0001_initial.py": 'order = ForeignKey(to="orders.Order")\n',
        "shop/carts/models.py": 'order = ForeignKey(to="orders.Order")\nlog = getLogger("shop.middleware")\n',
        "tests/test_guard.py": 'def test(mocker):\n    mocker.patch("shop.middleware.Guard.check")\n',
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Guard") == {
            ("shop/settings.py", 2, "resolved"),
            ("tests/test_guard.py", 2, "resolved"),
        }
        assert uses(engine, tmp_path, "Guard.check") == {("tests/test_guard.py", 2, "resolved")}
        assert uses(engine, tmp_path, "Order") == {("shop/carts/models.py", 1, "resolved")}
        impact = engine.code.impact(ImpactRequest(str(tmp_path / "shop/middleware.py")))
    assert [one.path for one in impact.files] == ["shop/settings.py", "tests/test_guard.py"]
    assert impact.tests == ("tests/test_guard.py",)


def test_parameters_of_tests_use_the_fixtures_of_their_names(tmp_path: Path) -> None:
    fixture = "\n\n@pytest.fixture\ndef client(app):\n    return app\n"
    sources = {
        "app.py": "def make():\n    return 1\n",
        "tests/conftest.py": "import pytest\nfrom app import make\n\n@pytest.fixture()\ndef app():\n    return make()\n"
        f"{fixture}",
        "tests/test_far.py": "def test_far(client, app):\n    client.get()\n\n\ndef helper(client):\n    pass\n\n\n"
        "def test_own():\n    client = 1\n",
        "tests/api/conftest.py": "import pytest\n\n\n@pytest.fixture()\ndef client(client):\n    return client\n",
        "tests/api/test_near.py": "class TestNear:\n    async def test_near(self, client):\n        pass\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "app") == {
            ("tests/conftest.py", 10, "resolved"),
            ("tests/test_far.py", 1, "resolved"),
        }
        assert uses(engine, tmp_path, "tests/api/conftest.py::client") == {("tests/api/test_near.py", 2, "resolved")}
        assert uses(engine, tmp_path, "tests/conftest.py::client") == {
            ("tests/api/conftest.py", 5, "resolved"),
            ("tests/test_far.py", 1, "resolved"),
        }
        impact = engine.code.impact(ImpactRequest(str(tmp_path / "tests/conftest.py"), hops=1))
        assert [one.path for one in impact.files] == ["tests/api/conftest.py", "tests/test_far.py"]
        impact = engine.code.impact(ImpactRequest(str(tmp_path / "app.py")))
        assert impact.tests == ("tests/api/test_near.py", "tests/test_far.py")


def test_types_in_annotations_of_several_lines_are_used(tmp_path: Path) -> None:
    source = (
        "class Color:\n    pass\n\n\nclass Filter:\n    tint: (\n"
        "        Lookup[Annotated['Color', lazy('shop.color')]] | None\n    ) = None\n    name = texts['Color']\n"
    )
    with indexed(tmp_path, {"shop.py": source}) as engine:
        assert {line for _, line, _ in uses(engine, tmp_path, "Color")} == {7}


def test_a_test_of_rust_is_no_module_of_the_test_beside_it(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "shop"\n',
        "src/lib.rs": "pub mod cart;\n",
        "src/cart.rs": "pub const MOST: u32 = 1;\n",
        "tests/cart.rs": "#[test]\nfn adds() { shop::cart::MOST; }\n",
        "tests/limits.rs": "use shop::cart::{self};\n\n#[test]\nfn limits() { cart::MOST; }\n",
    }
    with indexed(tmp_path, sources) as engine:
        imports = engine.code.imports(ImportsRequest("tests/cart.rs", root=str(tmp_path)))
        assert not imports.imported_by
        impact = engine.code.impact(ImpactRequest("src/cart.rs", root=str(tmp_path)))
    assert set(impact.tests) == {"tests/cart.rs", "tests/limits.rs"}


def test_imports_of_rust_are_followed_through_crates_lists_and_enums(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[workspace]\nmembers = ["kit", "shop", "app"]\n',
        "kit/Cargo.toml": '[package]\nname = "kit"\n',
        "kit/src/lib.rs": "pub mod cart;\n",
        "kit/src/cart.rs": "pub const MOST: u32 = 1;\n\n#[macro_export]\nmacro_rules! make { () => {} }\n",
        "shop/Cargo.toml": '[package]\nname = "shop"\n[dependencies]\nkit = { path = "../kit" }\n',
        "shop/src/lib.rs": "pub use kit;\nmod graph;\nmod order;\nmod till;\n",
        "shop/src/till.rs": "mod test {\n    #[test]\n    fn run() {}\n}\n",
        "app/Cargo.toml": '[package]\nname = "app"\n[dependencies]\nshop = { path = "../shop" }\n',
        "app/src/main.rs": "use shop::kit;\nuse kit::cart::MOST;\n\nfn main() { MOST; }\n",
        "shop/src/order.rs": "use crate::{\n    graph::build::Edge, // the\n    kit::cart::MOST,\n};\n"
        "use kit::make;\n\n"
        "pub enum Shape {\n    Round,\n}\n\nmod names {\n    pub const FIRST: u32 = 1;\n}\n\n"
        "fn most(_: Edge) -> u32 {\n    use names::*;\n    use Shape::*;\n    take(Round);\n    MOST + FIRST\n}\n",
        "shop/src/graph/mod.rs": "pub mod build;\npub struct Node;\n",
        "shop/src/graph/build.rs": "use super::Node;\n\npub struct Edge(Node);\n",
    }
    expected = {
        "MOST": {
            ("shop/src/order.rs", 3),
            ("shop/src/order.rs", 19),
            ("app/src/main.rs", 2),
            ("app/src/main.rs", 4),
        },
        "shop/src/till.rs::test": set(),
        "Edge": {("shop/src/order.rs", 2), ("shop/src/order.rs", 15)},
        "Node": {("shop/src/graph/build.rs", 1), ("shop/src/graph/build.rs", 3)},
        "make": {("shop/src/order.rs", 5)},
        "names.FIRST": {("shop/src/order.rs", 19)},
        "Shape.Round": {("shop/src/order.rs", 18)},
    }
    with indexed(tmp_path, sources) as engine:
        for name, lines in expected.items():
            assert uses(engine, tmp_path, name) == {(*place, "resolved") for place in lines}, name


def test_a_schedule_that_names_a_job_is_noted(tmp_path: Path) -> None:
    sources = {
        "app/jobs/clean_carts_job.rb": "class CleanCartsJob\n  def perform\n  end\nend\n",
        "config/schedule.yml": "clean:\n  cron: '0 1 * * *'\n  class: CleanCartsJob\n",
        "config/locales/en.yml": "en:\n  CleanCartsJob: Cleans carts\n",
        "web/cart.component.html": "@case (CartState.Paid) { paid }\n",
        "web/cart.ts": "export enum CartState { Paid }\n",
    }
    with indexed(tmp_path, sources) as engine:
        found = engine.code.references(RefsRequest("CleanCartsJob", str(tmp_path)))
        assert engine.code.references(RefsRequest("perform", str(tmp_path))).notes == ()
        state = engine.code.references(RefsRequest("CartState", str(tmp_path)))
    assert found.notes == ("named in configuration: config/schedule.yml:3",)
    assert state.notes == ("its name is in pages or in files without a syntax tree: web/cart.component.html",)
    assert not state.is_complete


def test_the_code_in_pages_of_haml_uses_helpers(tmp_path: Path) -> None:
    page = """-# price(old)
   price(older)
:javascript
  price(script)
.cart{ class: price(1),
  id: "cart" }
  %p.sum>= price(2)
  = form_for @cart do |money|
    - if price(3) > 1
      != price(4,
          tax: 1)
    Costs #{price(5)} today
    = money(1)
"""
    helper = "module CartHelper\n  def price(x)\n    x\n  end\n\n  def money(x)\n    x\n  end\nend\n"
    sources = {"app/helpers/cart_helper.rb": helper, "app/views/cart/show.html.haml": page}
    sources["app/views/cart/_price.html.haml"] = "= price.to_s\n"
    with indexed(tmp_path, sources) as engine:
        expected = {("app/views/cart/show.html.haml", line, "resolved") for line in (5, 7, 9, 10, 12)}
        assert {use for use in uses(engine, tmp_path, "price") if use[2] == "resolved"} == expected
        assert uses(engine, tmp_path, "money") == set()  # what the block is called with


def test_a_type_that_a_macro_of_rust_makes_has_no_method_of_another_one(tmp_path: Path) -> None:
    sources = {
        "src/lib.rs": "mod error;\nmod use_it;\nmake! { struct JsonError; }\n",
        "src/error.rs": "pub struct Plain;\n\nimpl Plain {\n    pub fn from_err(one: u8) -> Plain { Plain }\n}\n",
        "src/use_it.rs": "use crate::JsonError;\nuse crate::error::Plain as Simple;\n\n"
        "fn run() {\n    Simple::from_err(1);\n    JsonError::from_err(2);\n    wide.from_err(3);\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        found = {(line, proof) for _, line, proof in uses(engine, tmp_path, "from_err")}
    assert found == {(5, "resolved"), (7, "syntactic")}


def test_extensions_of_csharp_are_called_on_values_of_other_types(tmp_path: Path) -> None:
    sources = {
        "Bus/Extensions.cs": "namespace Shop.Bus;\npublic static class Extensions\n{\n"
        "    public static IBus AddHandler<T>(this IBus bus) { return bus; }\n"
        "    public static string ReadName(this Request request) { return request.Name; }\n"
        "    public static void Close(this ICart cart) { }\n    public static void Read(this Request one) { }\n}\n",
        "Bus/IBus.cs": "namespace Shop.Bus;\npublic interface IBus { }\n",
        "Api/Program.cs": "using Shop.Bus;\nnamespace Shop.Api;\npublic class Program\n{\n"
        "    void Run(IBus bus)\n    {\n        bus.AddHandler<Order>().AddHandler<Cart>();\n"
        "        Other.Make().ReadName();\n        bus.Close();\n        Other.Read();\n"
        "    }\n}\n",
        "Web/Page.cs": "namespace Shop.Web;\npublic class Page\n{\n    void Run(Reader one) { one.ReadName(); }\n}\n",
        "Bus/ICart.cs": "namespace Shop.Bus;\npublic interface ICart { }\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "AddHandler") == {("Api/Program.cs", 7, "resolved")}
        assert uses(engine, tmp_path, "ReadName") == {
            ("Api/Program.cs", 8, "resolved"),
            ("Web/Page.cs", 4, "syntactic"),
        }
        assert uses(engine, tmp_path, "Close") == set()
        assert uses(engine, tmp_path, "Read") == {("Api/Program.cs", 10, "syntactic")}


def test_ruby_finds_classes_by_convention_and_modules_in_the_files_that_open_them(tmp_path: Path) -> None:
    opened = {f"lib/shop/part{number}.rb": f"module Shop\n  class Part{number}; end\nend\n" for number in range(6)}
    sources = {
        **opened,
        "lib/shop/cart.rb": "class Shop::Cart\n  def run\n    Shop::Part1.new\n  end\nend\n",
        "app/models/user.rb": "class User\n  belongs_to :account\n  has_many :carts, class_name: 'Shop::Cart'\nend\n",
        "app/models/account.rb": "class Account\nend\n",
        "app/controllers/carts_controller.rb": "class CartsController\nend\n",
        "config/routes.rb": "Rails.application.routes.draw do\n  resources :carts\nend\n",
        "app/javascript/Till.vue": "<script>\nexport default {}\n</script>\n",
        "app/models/desk.rb": "class Desk\n  def run = Till::Pay.new\nend\n",
    }
    with indexed(tmp_path, sources) as engine:
        calls = engine.code.calls(CallsRequest("Desk.run", str(tmp_path))).callees
        assert calls == ()  # a component of Vue is no constant of Ruby
        assert uses(engine, tmp_path, "Shop") == {
            ("app/models/user.rb", 3, "resolved"),
            ("lib/shop/cart.rb", 1, "resolved"),
            ("lib/shop/cart.rb", 3, "resolved"),
        }
        assert uses(engine, tmp_path, "Account") == {("app/models/user.rb", 2, "resolved")}
        assert uses(engine, tmp_path, "CartsController") == {("config/routes.rb", 2, "resolved")}
        assert uses(engine, tmp_path, "Shop.Cart") == {("app/models/user.rb", 3, "resolved")}


def test_the_list_of_what_python_exports_names_it(tmp_path: Path) -> None:
    sources = {
        "shop/__init__.py": "from .cart import Cart\n\n__all__ = ['Cart']\n",
        "shop/cart.py": "__all__ = (\n    'Cart',\n    'lost',\n)\n\n\nclass Cart:\n    pass\n\n\n"
        "def lost():\n    return ''.lost()\n",
        "app.py": "from shop import Cart\n\n\ndef run():\n    return Cart()\n",
        "page.py": "from app import run\n",
    }
    with indexed(tmp_path, sources) as engine:
        found = engine.code.references(RefsRequest("Cart", str(tmp_path))).usages
        assert [(one.file, one.line) for one in found if one.edge == "EXPORTS"] == [
            ("shop/__init__.py", 3),
            ("shop/cart.py", 2),
        ]
        assert len(found) == 5
        lost = engine.code.unused(UnusedRequest(str(tmp_path))).symbols
        assert [(one.symbol.name, one.used_here) for one in lost] == [("lost", False)]
        assert uses(engine, tmp_path, "lost") == {("shop/cart.py", 3, "resolved")}
        impact = engine.code.impact(ImpactRequest("shop/cart.py", root=str(tmp_path)))
        assert [one.path for one in impact.files] == ["app.py", "page.py"]
        impact = engine.code.impact(ImpactRequest("page.py", root=str(tmp_path)))
        assert (impact.total, impact.notes) == (0, ())


def test_the_body_of_a_class_of_python_uses_its_names(tmp_path: Path) -> None:
    source = (
        "class Kinds:\n    GREEN = 1\n    ALL = (\n        GREEN,\n    )\n\n    def run(self):\n        return GREEN\n"
    )
    page = "from . import rows\n\n\nclass Page:\n    rows = rows.Row()\n"
    sources = {"shop/kinds.py": source, "shop/rows.py": "class Row:\n    pass\n", "shop/page.py": page}
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Kinds.GREEN") == {("shop/kinds.py", 4, "resolved")}
        assert uses(engine, tmp_path, "Row") == {("shop/page.py", 5, "resolved")}


def test_a_string_names_a_member_of_what_stands_before_it(tmp_path: Path) -> None:
    sources = {
        "shop/__init__.py": "",
        "shop/signals.py": "from .paths import make_paths\n\n\ndef run():\n    make_paths()\n",
        "shop/paths.py": "def make_paths():\n    return 1\n",
        "tests/test_shop.py": "from shop import signals\n\n\ndef test(monkeypatch, other):\n"
        "    with patch.object(signals, 'make_paths'):  # für\n        monkeypatch.setattr(signals, 'make_paths', 1)\n"
        "        getattr(other, 'make_paths')\n        other.find(signals, 'make_paths')\n",
    }
    with indexed(tmp_path, sources) as engine:
        found = {(path, line) for path, line, _ in uses(engine, tmp_path, "make_paths")}
    assert found == {
        ("shop/signals.py", 1),
        ("shop/signals.py", 5),
        ("tests/test_shop.py", 5),
        ("tests/test_shop.py", 6),
    }


def test_strings_of_ruby_name_constants_by_their_paths(tmp_path: Path) -> None:
    sources = {
        "app/models/channel/email.rb": "class Channel::Email\n  MOST = 1\nend\n",
        "app/models/inbox.rb": "class Inbox\n  def email? = channel_type == 'Channel::Email'\nend\n",
        "spec/requests/mail_spec.rb": "RSpec.describe '::Channel::Email' do\n"
        "  stub_const('Channel::Email::MOST', 2)\n  puts 'Email'\nend\n",
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "Channel.Email") == {
            ("app/models/inbox.rb", 2, "resolved"),
            ("spec/requests/mail_spec.rb", 1, "resolved"),
            ("spec/requests/mail_spec.rb", 2, "resolved"),
        }
        assert uses(engine, tmp_path, "MOST") == {("spec/requests/mail_spec.rb", 2, "resolved")}
        impact = engine.code.impact(ImpactRequest(str(tmp_path / "app/models/channel/email.rb")))
    assert impact.tests == ("spec/requests/mail_spec.rb",)


def test_what_comes_from_outside_has_uses_but_no_calls(tmp_path: Path) -> None:
    (tmp_path / "page.ts").write_text('import { useService } from "dioc"\n\nconst cart = useService(Cart)\n')
    with (
        Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine,
        pytest.raises(NotFound, match="useService is used here, but not defined") as caught,
    ):
        engine.code.calls(CallsRequest("useService", str(tmp_path)))
    assert "refs" in str(caught.value.next_step)


SCHEMA = {
    "api/orders.proto": 'syntax = "proto3";\n\n// Orders takes PlaceRequest.\nservice Orders {\n'
    "  rpc Place(PlaceRequest) returns (Order);\n}\n\nmessage PlaceRequest {\n  string id = 1;\n}\n\n"
    "message Order {}\n",
    "server/place.go": 'package server\n\nimport pb "example.org/gen"\n\n'
    "func place(request *pb.PlaceRequest) {\n\tOrder := 1\n\tprintln(Order)\n}\n",
    "db/schema.sql": "CREATE TABLE orders (\n  id int\n);\n",
    "db/seed.sql": "INSERT INTO orders VALUES (1); -- orders\n-- orders\n",
    "server/orders.go": "package server\n\nfunc list(orders []int) int { return len(orders) }\n",
}


def test_code_uses_what_a_schema_defines(tmp_path: Path) -> None:
    with indexed(tmp_path, SCHEMA) as engine:
        assert [
            found.id for found in engine.code.definitions(DefsRequest("PlaceRequest", str(tmp_path))).definitions
        ] == ["api/orders.proto::PlaceRequest"]
        assert uses(engine, tmp_path, "PlaceRequest") == {
            ("api/orders.proto", 5, "syntactic"),
            ("server/place.go", 5, "syntactic"),
        }
        assert uses(engine, tmp_path, "Order") == {("api/orders.proto", 5, "syntactic")}


def test_a_table_is_used_in_its_own_language(tmp_path: Path) -> None:
    with indexed(tmp_path, SCHEMA) as engine:
        assert uses(engine, tmp_path, "orders") == {("db/seed.sql", 1, "syntactic")}


def test_calls_of_a_language_without_a_syntax_tree_are_found_by_name(tmp_path: Path) -> None:
    sources = {
        "cart.pl": "package Cart;\n\nsub total {\n    return price(1);\n}\n\n# price(2)\n"
        "sub price {\n    return 1;\n}\n",
    }
    with indexed(tmp_path, sources) as engine:
        graph = engine.code.calls(CallsRequest("price", str(tmp_path)))
        unused = engine.code.unused(UnusedRequest(str(tmp_path)))
    assert [(edge.source, edge.line) for edge in graph.callers] == [("cart.pl::Cart.total", 4)]
    assert any("what code in perl calls is not known" in note for note in graph.notes)
    assert not unused.symbols


def test_what_is_written_behind_its_owner_is_resolved(tmp_path: Path) -> None:
    sources = {
        "main.tf": 'resource "bucket" "logs" {\n}\nresource "policy" "logs" {\n  of = bucket.logs.id\n}\n'
        'output "logs" { value = policy.logs.id } # bucket.logs\n',
        "shop/a.tf": 'resource "queue" "jobs" {\n}\n',
        "shop/b.tf": 'resource "x" "y" {\n  of = queue.jobs.id\n}\n',
        "cart/a.tf": 'resource "queue" "jobs" {\n}\n',
    }
    with indexed(tmp_path, sources) as engine:
        assert uses(engine, tmp_path, "bucket.logs") == {("main.tf", 4, "resolved")}
        assert uses(engine, tmp_path, "shop/a.tf::queue.jobs") == {("shop/b.tf", 2, "resolved")}
        assert uses(engine, tmp_path, "cart/a.tf::queue.jobs") == set()
        assert uses(engine, tmp_path, "policy.logs") == {("main.tf", 6, "resolved")}


def test_names_are_found_as_their_languages_write_them(tmp_path: Path) -> None:
    sources = {
        "util.pm": "package Shop::Util;\nsub round { 1 }\n",
        "cart.R": "print.cart <- function(x) {\n  x\n}\n",
        "cart.erl": "-module(cart).\nadd(X) ->\n    X.\n",
        "item.clj": "(ns shop.item)\n(defn price [item] 1)\n",
    }
    names = ("Shop::Util", "Shop::Util::round", "print.cart", "cart:add", "shop.item/price")
    with indexed(tmp_path, sources) as engine:
        found = {
            name: [symbol.id for symbol in engine.code.definitions(DefsRequest(name, str(tmp_path))).definitions]
            for name in names
        }
    assert found == {
        "Shop::Util": ["util.pm::Shop.Util"],
        "Shop::Util::round": ["util.pm::Shop.Util.round"],
        "print.cart": ["cart.R::print.cart"],
        "cart:add": ["cart.erl::cart.add"],
        "shop.item/price": ["item.clj::shop.item.price"],
    }
