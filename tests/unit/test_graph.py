"""Cycles, impact, centrality, the map and its pictures, and that an edit recomputes only what it must."""

from __future__ import annotations

import io
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from codeinfo import Config, Engine
from codeinfo.engine import code
from codeinfo.engine.project_knowledge import RETRY_S
from codeinfo.graph import code_index
from codeinfo.graph.model import Edge, Graph, Links, centrality, components, cycles, dumps, loads
from codeinfo.graph.survey import code_map
from codeinfo.knowledge import history
from codeinfo.knowledge.history import hotspots
from codeinfo.languages.model import FileFacts
from codeinfo.operations.code import (
    CallsRequest,
    CyclesRequest,
    HotspotsRequest,
    ImpactRequest,
    ImportsRequest,
    MapRequest,
    RefsRequest,
    SymbolsRequest,
    UnusedRequest,
)
from codeinfo.operations.knowledge import MemoryListRequest, MetadataRequest
from codeinfo.operations.search import IndexRequest
from codeinfo.shells import render_code  # noqa: F401  (it registers)
from codeinfo.shells.render import render
from codeinfo.shells.terminal import Output

SOURCES = {
    "app/__init__.py": "",
    "app/main.py": "from app import web\nfrom app.db import connect\n",
    "app/web.py": "from app import db, views\n",
    "app/views.py": "from app import web\n",
    "app/db.py": "class Base: pass\nclass Table(Base): pass\ndef connect(): pass\n",
    "app/a.py": "from app import b\n",
    "app/b.py": "from app import c\n",
    "app/c.py": "from app import a\n",
    "tests/test_db.py": "from app.db import connect\n",
}


def written(tmp_path: Path, sources: dict[str, str]) -> Path:
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def opened(root: Path) -> Engine:
    return Engine(Config.load({"embedding.provider": "none"}, root))


def edges(*pairs: str) -> list[Edge]:
    return [Edge(pair[0], pair[1], 1) for pair in pairs]


def test_cycles_are_shortest_and_ranked_by_severity() -> None:
    found = cycles(edges("ab", "ba", "bc", "ca", "xy", "yz", "zx", "pq"))
    assert [(cycle.severity, cycle.files) for cycle in found] == [
        ("high", ("a", "b")),
        ("medium", ("a", "b", "c")),
        ("medium", ("x", "y", "z")),
    ]


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    names = [f"f{number:05}" for number in range(20_000)]
    ring = {name: [names[(number + 1) % len(names)]] for number, name in enumerate(names)}
    (group,) = components(ring)
    assert len(group) == len(names)


def test_implicit_edges_make_no_cycle() -> None:
    assert not cycles([Edge("a", "b", 1), Edge("b", "a", 1, implicit=True)])


def test_impact_is_two_hops_near_and_important_first(tmp_path: Path) -> None:
    sources = {f"{name}.py": f"import {needed}\n{needed}.x\n" for name, needed in ("ba", "ca", "db", "ed", "fc", "gc")}
    root = written(tmp_path, {"a.py": "x = 1\n"} | sources)
    with opened(root) as engine:
        reached = engine.code.impact(ImpactRequest("a.py", root=str(root))).files
    assert [(one.path, one.via, one.hops) for one in reached] == [
        ("c.py", "a.py", 1),
        ("b.py", "a.py", 1),
        ("d.py", "b.py", 2),
        ("f.py", "c.py", 2),
        ("g.py", "c.py", 2),
    ]


def test_impact_goes_on_from_the_definitions_that_it_reached(tmp_path: Path) -> None:
    sources = {
        "price.py": "class Price: ...\n",
        "cart.py": "from price import Price\n\nLIMIT = 3\n\n\ndef total():\n    return Price()\n\n\n"
        "def pay():\n    return total()\n",
        "shop.py": "from cart import pay\n\n\ndef sell():\n    pay()\n",
        "menu.py": "from cart import LIMIT\n\n\ndef show():\n    return LIMIT\n",
        "load.py": "import cart\n\n\ndef load():\n    return cart.total()\n",
        "go.mod": "module example.com/shop\n",
        "disk/open.go": "package disk\n\nfunc Open() int { return 1 }\n",
        "store/store.go": 'package store\n\nimport "example.com/shop/disk"\n\ntype Key struct{}\n\n'
        "type Disk struct{}\n\nvar _ any = &Disk{}\n\nfunc (d *Disk) Load() int { return disk.Open() }\n",
        "api/key.go": 'package api\n\nimport "example.com/shop/store"\n\nvar key store.Key\n',
        "api/load.go": 'package api\n\nimport "example.com/shop/store"\n\nvar from store.Disk\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        plain = engine.code.impact(ImpactRequest("price.py", root=str(root))).files
        typed = engine.code.impact(ImpactRequest("disk/open.go", root=str(root))).files
    assert {(one.path, one.hops) for one in plain} == {("cart.py", 1), ("shop.py", 2), ("load.py", 2)}
    assert {(one.path, one.hops) for one in typed} == {("store/store.go", 1), ("api/load.go", 2)}


def test_impact_follows_names_through_files_that_pass_them_on(tmp_path: Path) -> None:
    sources = {
        "lib/api.ts": "export class Api {}\nexport class Extra {}\n",
        "lib/other.ts": "export class Other {}\n",
        "lib/index.ts": "export * from './api';\nexport { Other } from './other';\n",
        "index.ts": "export { Api as Client } from './lib';\nexport { Other } from './lib';\n",
        "direct.ts": "import { Api } from './lib';\nnew Api();\n",
        "renamed.ts": "import type { Client } from './index';\nlet client: Client;\n",
        "whole.ts": "import * as lib from './lib';\nlib.Extra;\n",
        "elsewhere.ts": "import { Other } from './lib';\nnew Other();\n",
        "user.ts": "import './direct';\n",
        "pkg/__init__.py": "from .core import (\n    Core,\n)\nfrom .side import Side\n",
        "pkg/core.py": "class Core: ...\n",
        "pkg/side.py": "class Side: ...\n",
        "app.py": "from pkg import Core\n\nCore()\n",
        "far.py": "from pkg import Side\n\nSide()\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        typed = engine.code.impact(ImpactRequest("lib/api.ts", root=str(root))).files
        plain = engine.code.impact(ImpactRequest("pkg/core.py", root=str(root))).files
    assert {(one.path, one.via, one.hops, one.timing) for one in typed} == {
        ("direct.ts", "lib/index.ts", 1, ""),
        ("renamed.ts", "index.ts", 1, "types"),
        ("whole.ts", "lib/index.ts", 1, ""),
        ("user.ts", "direct.ts", 2, ""),
    }
    assert {(one.path, one.via, one.hops) for one in plain} == {("app.py", "pkg/__init__.py", 1)}


def test_layers_say_what_leads_upward(tmp_path: Path) -> None:
    sources = {
        "app/One.java": "package app;\nimport lib.Two;\nclass One { Two two; }\n",
        "lib/Two.java": "package lib;\nimport app.One;\nclass Two { One one; }\n",
    }
    for text, is_said in ((sources["lib/Two.java"], True), ("package lib;\nclass Two {}\n", False)):
        root = written(tmp_path, sources | {"lib/Two.java": text})
        with opened(root) as engine:
            render(engine.code.map(MapRequest(str(root))), Output(out := io.StringIO()))
        assert ("upper layers import lower ones; ↑ marks the exceptions" in out.getvalue()) == is_said
        assert ("app/One.java ↑" in out.getvalue() or "lib/Two.java ↑" in out.getvalue()) == is_said


def test_cycles_that_nothing_runs_into_are_counted_only(tmp_path: Path) -> None:
    sources = {
        "a.py": "import b\n",
        "b.py": "import a\n",
        "lazy.py": "import eager\n",
        "eager.py": "def f():\n    import lazy\n",
        "typed.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import user\nelse:\n    import a\n",
        "user.py": "import typed\n",
        "one.ts": "import type { B } from './two';\nexport type A = B;\n",
        "two.ts": "import { type A } from './one';\nexport type B = A;\n",
        "three.ts": "import { X, type Y } from './four';\nX();\n",
        "four.ts": "const later = import('./three');\n",
        "src/lib.rs": "mod empty;\npub struct Stream;\n",
        "src/empty.rs": "use crate::Stream;\n",
        "app/Job.php": "<?php\nnamespace App;\nuse App\\Queue\\Worker;\nclass Job { public Worker $w; }\n",
        "app/Queue/Worker.php": "<?php\nnamespace App\\Queue;\nuse App\\Job;\nclass Worker { public Job $j; }\n",
        "lib/shop.rb": "module Shop\n  autoload :Cart, 'shop/cart'\nend\n",
        "lib/shop/cart.rb": "require 'shop'\n",
        "five.ts": "import { Size } from './six';\nexport const five: Size = 5;\n",  # left out when compiled
        "six.ts": "import { five } from './five';\nexport type Size = number;\nexport const six = five + 1;\n",
        "pot.tsx": "import { Lid } from './lid';\nexport class Pot { lid: Lid; make: typeof Lid }\n",  # so is this
        "lid.ts": "import { Pot } from './pot';\nexport class Lid { pot = new Pot() }\n",
        "cup.ts": "import { Tray } from './tray';\n@Service()\nexport class Cup { constructor(tray: Tray) {} }\n",
        "tray.ts": "import type { Cup } from './cup';\nimport * as cups from './cup';\nexport const a = [...cups];\n",
        "lib/tea.ex": "defmodule Tea do\n  alias Tea.Bag\n  def brew, do: Bag.fill()\nend\n",
        "lib/tea/bag.ex": "defmodule Tea.Bag do\n  alias Tea\n  def fill, do: Tea.brew()\nend\n",
        "lua/tea.lua": "local Pot = require('pot')\n",
        "lua/tray.lua": "(function() return require('cup') end)()\n",
        "lua/cup.lua": "setup(1, function() return require('tray') end)\n",
        "lua/pot.lua": "local M = {}\nfunction M.brew()\n  require('tea').pour()\nend\nreturn M\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        report = engine.code.cycles(CyclesRequest(str(root)))
        every = engine.code.cycles(CyclesRequest(str(root), deferred=True))
        impact = engine.code.impact(ImpactRequest("lid.ts", root=str(root)))  # of a class whose methods are called
    assert [cycle.files for cycle in report.cycles] == [("a.py", "b.py"), ("cup.ts", "tray.ts")]
    assert report.cycles[1].lines == (1, 2)
    assert [(one.path, one.timing) for one in impact.files] == [("pot.tsx", "")]
    assert (report.total, report.lazy, report.types) == (2, 7, 5)
    for found, is_said in ((report, True), (every, False)):
        render(found, Output(out := io.StringIO()))
        said = "not counted: 7 closed by lazy imports, 5 by imports that only a compiler reads"
        assert (said in out.getvalue()) == is_said
    assert {(cycle.files, cycle.timing, cycle.severity) for cycle in every.cycles} == {
        (("a.py", "b.py"), "", "high"),
        (("cup.ts", "tray.ts"), "", "high"),
        (("lid.ts", "pot.tsx"), "types", "low"),
        (("eager.py", "lazy.py"), "lazy", "low"),
        (("four.ts", "three.ts"), "lazy", "low"),
        (("lib/shop.rb", "lib/shop/cart.rb"), "lazy", "low"),
        (("lua/cup.lua", "lua/tray.lua"), "lazy", "low"),
        (("lua/pot.lua", "lua/tea.lua"), "lazy", "low"),
        (("typed.py", "user.py"), "types", "low"),
        (("one.ts", "two.ts"), "types", "low"),
        (("five.ts", "six.ts"), "types", "low"),
        (("lib/tea.ex", "lib/tea/bag.ex"), "lazy", "low"),
        (("src/empty.rs", "src/lib.rs"), "types", "low"),
        (("app/Job.php", "app/Queue/Worker.php"), "lazy", "low"),
    }
    assert ("a.py", "b.py") in every.groups
    assert report.groups == (("a.py", "b.py"), ("cup.ts", "tray.ts"))


def test_a_function_that_repeats_the_path_of_an_import_does_not_make_it_lazy(tmp_path: Path) -> None:
    sources = {
        "lib/mug.rb": "require_relative 'jar'\nshow = ->() { puts './jar' }\n",
        "lib/jar.rb": "require_relative 'mug'\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        report = engine.code.cycles(CyclesRequest(str(root)))
    assert [cycle.files for cycle in report.cycles] == [("lib/jar.rb", "lib/mug.rb")]


def test_tests_of_a_file_are_those_named_after_it_and_those_behind_a_package(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module m\n",
        "render/json.go": "package render\n\nfunc JSON() int { return 1 }\n",
        "render/render_test.go": "package render\n\nfunc TestJSON() { JSON() }\n",
        "binding/json.go": "package binding\n\nfunc JSON() int { return 1 }\n",
        "binding/json_test.go": "package binding\n\nfunc TestJSON() { JSON() }\n",
        "binding/a_test.go": "package binding\n\nfunc TestA() { JSON() }\n",
        "pkg/__init__.py": "from pkg.term import ask as ask\n",
        "pkg/term.py": "def ask():\n    pass\n",
        "tests/test_term.py": "from pkg.term import ask\n",
        "tests/test_ask.py": "import pkg\n\npkg.ask()\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        tests = {
            path: engine.code.imports(ImportsRequest(path, root=str(root))).tests
            for path in ("render/json.go", "binding/json.go")
        }
        impact = engine.code.impact(ImpactRequest("pkg/term.py", root=str(root)))
    assert tests["render/json.go"] == ("render/render_test.go",)
    assert tests["binding/json.go"] == ("binding/json_test.go", "binding/a_test.go")
    assert impact.tests == ("tests/test_term.py", "tests/test_ask.py")


# For each framework a file with a route, what leads to it, a test that requests it, and one that requests another.
REQUESTED = {
    "django/shop/views.py": "def list_carts(request):\n    pass\n",
    "django/shop/urls.py": "from django.urls import path\nfrom shop import views\n\n"
    "urlpatterns = [path('carts/<int:pk>/lines/', views.list_carts)]\n",
    "django/shop/tests/test_pages.py": "def test_it(client):\n    client.get(f'/carts/{cart.pk}/lines/')\n",
    "django/shop/tests/test_other.py": "def test_it(client):\n    client.get('/other/carts/')\n",
    "fast/routers/orders.py": "from fastapi import APIRouter\n\nrouter = APIRouter()\n\n\n"
    "@router.get('/{order}')\ndef show(order):\n    pass\n",
    "fast/main.py": "from fast.routers import orders\n\napp.include_router(orders.router, prefix='/orders')\n",
    "fast/tests/test_api.py": "def test_it(client):\n    assert client.get('/orders/17').status == 200\n",
    "fast/tests/test_wrong.py": "def test_it(client):\n    client.get('/shop/orders/17')\n",
    "node/routes/prices.js": "const router = require('express').Router();\n\nrouter.post('/', (q, s) => s.end());\n"
    "module.exports = router;\n",
    "node/app.js": "const prices = require('./routes/prices');\n\napp.use('/api/prices', prices);\n",
    "node/test/http.test.js": "test('it', () => request(app).post('/api/prices').send({}));\n",
    "node/client/api.js": "export const load = () => axios.get('/api/prices');\n",
    "java/OwnerPages.java": '@RequestMapping("/owners")\nclass OwnerPages {\n  @GetMapping("/{id}/pets")\n'
    "  String show() { return null; }\n}\n",
    "java/WebTest.java": 'class WebTest {\n  void it() { mvc.perform(get("/owners/{id}/pets", 1)); }\n}\n',
    "net/CatalogController.cs": '[Route("api/[controller]")]\nclass CatalogController {\n'
    '  [HttpGet("items/{id:int}")]\n  public string Show(int id) => null;\n}\n',
    "net/ScenarioTests.cs": "class ScenarioTests {\n"
    '  void It() { client.GetAsync($"api/catalog/items/{id}?x=1"); }\n}\n',
    "rust/src/main.rs": 'async fn ping() {}\n\nfn main() { Router::new().route("/v1/ping", get(ping)); }\n',
    "rust/tests/serve.rs": '#[test]\nfn it() { Request::builder().uri("/v1/ping"); }\n',
    "php/routes/web.php": "<?php\nRoute::get('/stock/{id}', fn () => 1);\n",
    "php/tests/StockTest.php": "<?php\nclass StockTest { function it() { $this->get('/stock/1'); } }\n",
    "rails/app/controllers/admin/carts_controller.rb": "class Admin::CartsController\n  def pay; end\nend\n",
    "rails/spec/system/buying_spec.rb": "it { visit pay_admin_cart_path(1) }\n",
    "rails/spec/system/others_spec.rb": "it { visit cart_path(1) }\n",
}


def test_tests_that_request_a_path_are_tests_of_what_serves_it(tmp_path: Path) -> None:
    root = written(tmp_path, REQUESTED)
    serving = {path: "" for path in REQUESTED if "test" not in path.lower() and "spec" not in path}
    with opened(root) as engine:
        tests = {path: engine.code.impact(ImpactRequest(path, root=str(root))).tests for path in serving}
    assert {path: found for path, found in tests.items() if found} == {
        "django/shop/views.py": ("django/shop/tests/test_pages.py",),
        "django/shop/urls.py": ("django/shop/tests/test_pages.py",),
        "fast/routers/orders.py": ("fast/tests/test_api.py",),
        "fast/main.py": ("fast/tests/test_api.py",),
        "node/routes/prices.js": ("node/test/http.test.js",),
        "node/app.js": ("node/test/http.test.js",),
        "java/OwnerPages.java": ("java/WebTest.java",),
        "net/CatalogController.cs": ("net/ScenarioTests.cs",),
        "rust/src/main.rs": ("rust/tests/serve.rs",),
        "php/routes/web.php": ("php/tests/StockTest.php",),
        "rails/app/controllers/admin/carts_controller.rb": ("rails/spec/system/buying_spec.rb",),
    }


def test_centrality_is_between_nought_and_one() -> None:
    ranked = centrality(list("abcd"), edges("ac", "bc", "cd"))
    assert ranked["c"] == 1.0
    assert 0 < ranked["d"] < 1
    assert "a" not in ranked
    assert centrality([], []) == {}


def test_the_graph_survives_its_file_and_a_broken_one_is_refused() -> None:
    files = {path: FileFacts(number, path, "python", "code") for number, path in enumerate(("a", "b"))}
    graph = Graph(3, files, {"a": Links((Edge("a", "b", 2, ("x",)),))})
    assert loads(dumps(graph)) == graph
    assert loads(dumps(graph)[:-5]) is None
    assert loads(b'[1, 2, "no"]') is None
    odd = FileFacts(1, "caf\udce9.py", "python", "code")
    assert loads(dumps(Graph(3, {odd.path: odd}, {}))) is None  # JSON holds no such path


def test_questions_about_files(tmp_path: Path) -> None:
    root = written(tmp_path, SOURCES)
    with opened(root) as engine:
        report = engine.code.cycles(CyclesRequest(str(root)))
        assert [(cycle.severity, cycle.files) for cycle in report.cycles] == [
            ("high", ("app/views.py", "app/web.py")),
            ("medium", ("app/a.py", "app/b.py", "app/c.py")),
        ]
        near = engine.code.imports(ImportsRequest("app/db.py", root=str(root)))
        assert {one.path for one in near.imported_by} == {"app/main.py", "app/web.py", "tests/test_db.py"}
        assert near.tests == ("tests/test_db.py",)
        hit = engine.code.impact(ImpactRequest("app/db.py", root=str(root)))
        assert {(one.path, one.hops) for one in hit.files} == {
            ("app/main.py", 1),
            ("app/web.py", 1),
            ("tests/test_db.py", 1),
            ("app/views.py", 2),
        }
        assert engine.code.tests_of(engine.indexes.of(root), ["app/db.py"]) == {"app/db.py": ("tests/test_db.py",)}


def test_tests_of_a_common_name_are_those_that_are_about_the_file(tmp_path: Path) -> None:
    """Four files are called utils: a test of that name is about the one that it imports, or whose folders it shares."""
    sources = {
        **{f"app/{area}/utils.py": f"def {area}(): pass\n" for area in ("admin", "forms", "mail", "text")},
        "app/text/shape.py": "def shape(): pass\n",
        "tests/admin/test_utils.py": "def test_a(): pass\n",
        "tests/forms_tests/test_utils.py": "def test_a(): pass\n",
        "tests/other/test_utils.py": "from app.mail.utils import mail\n",
        "tests/views/test_utils.py": "def test_a(): pass\n",
        "tests/shapes/tests.py": "from app.text.shape import shape\n",
        "tests/helper.py": "from app.text.shape import shape\n",
        "tests/a/test_all.py": "from app.text.shape import shape\nimport tests.helper\n",
    }
    root = written(tmp_path, sources)
    paths = [*(f"app/{area}/utils.py" for area in ("admin", "forms", "mail", "text")), "app/text/shape.py"]
    with opened(root) as engine:
        impact = engine.code.impact(ImpactRequest("app/text/shape.py", root=str(root)))
        assert set(impact.tests) == {"tests/shapes/tests.py", "tests/a/test_all.py"}  # a helper is no test
        found = engine.code.tests_of(engine.indexes.of(root), paths)
        assert [found[path] for path in paths] == [
            ("tests/admin/test_utils.py",),
            ("tests/forms_tests/test_utils.py",),
            ("tests/other/test_utils.py",),
            (),
            ("tests/shapes/tests.py", "tests/a/test_all.py"),
        ]


def test_tests_inside_of_a_package_are_about_the_package(tmp_path: Path) -> None:
    sources = {
        "shop/admin/model.py": "class Model: ...\n",
        "shop/contrib/settings/views.py": "def show(): ...\n",
        "shop/contrib/settings/tests/plain/test_model.py": "def test_settings(): ...\n",
        "shop/tests/test_model.py": "def test_model(): ...\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = engine.code.imports(ImportsRequest("shop/admin/model.py", root=str(root))).tests
    assert found == ("shop/tests/test_model.py",)


def test_impact_through_a_namespace_or_an_object_reaches_those_who_use_the_names(tmp_path: Path) -> None:
    """Who imports a namespace of hundreds of types is not affected by each of them; who passes a module on is."""
    sources = {
        "types/cart.ts": "export interface Cart { id: string }\n",
        "types/order.ts": "export interface Order { id: string }\n",
        "types/all.ts": 'export * from "./cart"\nexport * from "./order"\n',
        "types/index.ts": 'export * as Http from "./all"\n',
        "sdk/index.ts": 'export { Http } from "../types"\n',
        "app/a.ts": 'import { Http } from "../types"\nexport const a: Http.Cart = make()\n',
        "app/b.ts": 'import { Http } from "../types"\nexport const b: Http.Order = make()\n',
        "app/c.ts": 'import { Http as H } from "../sdk"\nexport const c: H.Cart = make()\n',
        "ui/list.js": "export class List {}\n",
        "ui/index.js": 'export { List } from "./list"\n',
        "ui/start.js": 'import * as components from "."\nregister(components)\n',
        "ui/routes.js": 'export const routes = [{ lazy: () => import(".") }]\n',
        "ui/other.js": 'import * as components from "."\nopen(components.Table)\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        reached = {
            path: {one.path for one in engine.code.impact(ImpactRequest(path, hops=1, root=str(root))).files}
            for path in ("types/cart.ts", "ui/list.js")
        }
    assert reached["types/cart.ts"] == {"app/a.ts", "app/c.ts"}
    assert reached["ui/list.js"] == {"ui/start.js", "ui/routes.js"}


def test_impact_reaches_those_who_call_the_interface_of_what_changed(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "src/Prices.java": "package shop;\n\ninterface Prices {\n    int low();\n}\n",
            "src/PricesImpl.java": "package shop;\n\nclass PricesImpl implements Prices {\n"
            "    public int low() {\n        return 1;\n    }\n}\n",
            "src/Cart.java": "package shop;\n\nclass Cart {\n    private final Prices prices;\n}\n",
            "test/CartTest.java": "package shop;\n\nclass CartTest {\n    Cart cart;\n    Prices prices;\n}\n",
            **{f"src/Job{n}.java": f"package shop;\n\nclass Job{n} implements Runs {{}}\n" for n in range(4)},
            "src/Runs.java": "package shop;\n\ninterface Runs {}\n",
            "src/Pool.java": "package shop;\n\nclass Pool {\n    Runs runs;\n}\n",
        },
    )
    with opened(root) as engine:
        impact = engine.code.impact(ImpactRequest("src/PricesImpl.java", root=str(root)))
        one_of_many = engine.code.impact(ImpactRequest("src/Job1.java", root=str(root)))
    assert [one.path for one in impact.files] == ["src/Cart.java", "test/CartTest.java"]
    assert impact.tests == ("test/CartTest.java",)
    assert one_of_many.files == ()


def test_impact_through_a_crate_that_another_one_offers(tmp_path: Path) -> None:
    """`default` is a name of Rust as any other, and a crate may have another name where it is used."""
    sources = {
        "types/Cargo.toml": '[package]\nname = "shop-types"\n',
        "types/src/lib.rs": "mod cart;\npub use cart::*;\nmod tax;\npub use tax::*;\n",
        "types/src/cart.rs": "pub struct Cart;\n",
        "types/src/tax.rs": "pub struct Tax;\n",
        "core/Cargo.toml": '[package]\nname = "core-kit"\n[dependencies]\nshop-types = { path = "../types" }\n',
        "core/src/lib.rs": "pub use shop_types as types;\npub fn make() -> u8 { Default::default() }\n",
        "app/Cargo.toml": '[package]\nname = "app"\n[dependencies]\nkit = { path = "../core", package = "core-kit" }\n',
        "app/src/main.rs": "mod a;\nmod b;\nfn main() {}\n",
        "app/src/a.rs": "use kit::types::{Cart};\npub fn a(one: Cart) -> Cart { one }\n",
        "app/src/b.rs": "use kit::types;\npub fn b(one: types::Tax) {}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        reached = engine.code.impact(ImpactRequest("types/src/cart.rs", hops=1, root=str(root))).files
        used = engine.code.references(RefsRequest("Cart", str(root))).usages
    assert {one.path for one in reached} == {"app/src/a.rs"}
    assert {(one.file, one.line, one.confidence) for one in used} == {
        ("app/src/a.rs", 1, "resolved"),
        ("app/src/a.rs", 2, "resolved"),
    }


def test_impact_of_what_needs_no_import(tmp_path: Path) -> None:
    """Helpers of Rails in templates, filters of Jinja, and functions of PHP in no namespace."""
    sources = {
        "app/helpers/cart_helper.rb": "module CartHelper\n  def total_of(cart) = cart\nend\n",
        "app/views/carts/show.html.erb": "<%= total_of(@cart) %>\n",
        "app/views/carts/index.html.erb": "<p>total_of</p>\n",
        "src/helpers.php": "<?php\n\nfunction setting($key)\n{\n    return $key;\n}\n",
        "src/Cart.php": "<?php\n\nnamespace Shop;\n\nclass Cart\n{\n    public $name = 1;\n"
        "    public function name() { return setting('name'); }\n}\n",
        "src/Other.php": "<?php\n\nnamespace Shop;\n\nclass Other\n{\n"
        "    public function setting() { return $this->setting(); }\n}\n",
        "views/mail.blade.php": "<?php\necho setting('mail'), 1;\n",
        "web/app.py": 'from web.prices import show\n\napp.jinja_env.filters["price"] = show\n',
        "web/prices.py": "def show(x): ...\n",
        "web/templates/cart.html": "{% if x %}{{ x|price }}{% endif %}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:

        def reached(path: str) -> list[str]:
            report = engine.code.impact(ImpactRequest(path, root=str(root), hops=1))
            return sorted(one.path for one in report.files)

        assert reached("app/helpers/cart_helper.rb") == ["app/views/carts/show.html.erb"]
        assert reached("web/prices.py") == ["web/app.py", "web/templates/cart.html"]
        assert reached("src/helpers.php") == ["src/Cart.php", "views/mail.blade.php"]


def test_controllers_alone_show_templates_and_no_scripts(tmp_path: Path) -> None:
    scripts = "app/assets/javascripts/views/"
    sources = {
        "app/controllers/carts_controller.rb": "class CartsController\n  def show; end\nend\n",
        "app/models/cart.rb": "class Cart\nend\n",
        "app/views/carts/show.html.erb": "<p>cart</p>\n",
        "app/views/about.html.erb": "<p>about</p>\n",
        f"{scripts}state.js": "Shop.State = View.extend({ initialize: function() {} })\n",
        f"{scripts}carts/state.js": "Shop.Carts = View.extend({ initialize: function() {} })\n",
    }
    with opened(written(tmp_path, sources)) as engine:
        report = engine.code.references(RefsRequest("app/views/carts/show.html.erb", str(tmp_path)))
        assert [use.file for use in report.usages] == ["app/controllers/carts_controller.rb"]
        for path in ("app/views/about.html.erb", f"{scripts}state.js", f"{scripts}carts/state.js"):
            assert engine.code.references(RefsRequest(path, str(tmp_path))).usages == ()


def test_impact_of_methods_of_rust_in_another_file_than_their_type(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "shop"\n',
        "src/lib.rs": "mod add;\nmod pay;\nmod other;\npub struct Cart;\n",
        "src/add.rs": "use crate::Cart;\nimpl Cart {\n    pub fn add(&self) {}\n}\n",
        "src/pay.rs": "use crate::Cart;\nimpl Cart {\n    pub fn pay(&self) {\n        self.add();\n    }\n}\n",
        "src/other.rs": "use crate::Cart;\npub fn other(cart: &Cart) {\n    cart.pay();\n}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        reached = engine.code.impact(ImpactRequest("src/add.rs", root=str(root))).files
    assert [(one.path, one.line, one.hops) for one in reached] == [("src/pay.rs", 4, 1), ("src/other.rs", 3, 2)]


def test_a_test_shares_more_with_a_file_than_its_name(tmp_path: Path) -> None:
    """Sources that a highlighter is tried on are no tests, and a test of Python is about a file of Python."""
    sources = {
        "Cargo.toml": "[package]\nname = 'cat'\n",
        "src/output.rs": "pub fn write() {}\n",
        "src/pager.rs": "pub fn page() {}\n",
        "tests/syntax/source/Rust/output.rs": "fn main() {}\n",
        "tests/syntax/source/Ruby/output.rb": "puts 1\n",
        "tests/pager.rs": "#[test]\nfn pages() {}\n",
        "tests/test_output.py": "def test_a(): pass\n",
        "web/src/search.ts": "export const find = 1;\n",
        "web/search.py": "def find(): pass\n",
        "web/tests/test_search.py": "from web.search import find\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = {path: engine.code.imports(ImportsRequest(path, root=str(root))).tests for path in sources}
    assert found["src/output.rs"] == ("tests/test_output.py",)
    assert found["src/pager.rs"] == ("tests/pager.rs",)
    assert found["web/search.py"] == ("web/tests/test_search.py",)
    assert found["web/src/search.ts"] == ()


def test_what_only_lies_beside_a_file_or_is_called_alike_does_not_test_it(tmp_path: Path) -> None:
    sources = {
        "web/avatar.ts": "export const avatar = 1;\n",
        "web/__tests__/avatar.test.ts": "import { avatar } from '../avatar';\n",
        "web/gallery.ts": "export const gallery = 1;\n",
        "app/controllers/media_controller.rb": "class MediaController\nend\n",
        "app/controllers/api/v1/media_controller.rb": "class Api::V1::MediaController\nend\n",
        "app/controllers/redirect/media_controller.rb": "class Redirect::MediaController\nend\n",
        "spec/requests/media_spec.rb": "RSpec.describe 'media'\n",
        "spec/requests/api/v1/media_spec.rb": "RSpec.describe 'media'\n",
        "go.mod": "module tea\n",
        "models/tea/tea.go": "package tea\n\nfunc Brew() {}\n",
        "models/milk/main_test.go": 'package milk\n\nimport _ "tea/models/tea"\n\nfunc TestMain() {}\n',
        "models/cup/cup_test.go": 'package cup\n\nimport "tea/models/tea"\n\nfunc TestCup() { tea.Brew() }\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = {path: engine.code.imports(ImportsRequest(path, root=str(root))).tests for path in sources}
    assert found["web/avatar.ts"] == ("web/__tests__/avatar.test.ts",)
    assert found["web/gallery.ts"] == ()
    assert found["app/controllers/media_controller.rb"] == ("spec/requests/media_spec.rb",)
    assert found["app/controllers/api/v1/media_controller.rb"] == ("spec/requests/api/v1/media_spec.rb",)
    assert found["app/controllers/redirect/media_controller.rb"] == ()
    assert found["models/tea/tea.go"] == ("models/cup/cup_test.go",)


def test_tests_lie_in_the_file_itself_or_take_its_names_from_its_package(tmp_path: Path) -> None:
    sources = {
        "src/lib.rs": "mod range;\nmod style;\n",
        "src/range.rs": "pub fn parse() {}\n\n#[test]\nfn parses() {}\n",
        "src/style.rs": "pub fn plain() {}\n",
        "src/keys.zig": 'pub fn read() void {}\n\ntest "reads" {\n    read();\n}\n',
        "ipam/models/__init__.py": "from .ip import *\nfrom .vlan import *\nfrom .asn import *\n",
        "ipam/models/ip.py": "class Prefix: pass\n",
        "ipam/models/vlan.py": "class VLAN: pass\n",
        "ipam/models/asn.py": "class ASN: pass\n",
        "ipam/tests/test_views.py": "from ipam.models import Prefix\n",
        "ipam/tests/test_vlans.py": "from ipam.models import VLAN\n",
        "vpn/models/__init__.py": "from .key import *\n",
        "vpn/models/key.py": "class Key: pass\n",
        "vpn/tests/test_forms.py": "from vpn.models import *\n",
        "vpn/tests/test_models.py": "from vpn.models import *\n",
        "vpn/tests/test_api.py": "from vpn.models import Key\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = {path: engine.code.imports(ImportsRequest(path, root=str(root))).tests for path in sources}
        inline = engine.knowledge.metadata(MetadataRequest(str(root))).tests.inline
    assert found["src/range.rs"] == ("src/range.rs",)
    assert found["src/style.rs"] == ()
    assert found["src/keys.zig"] == ("src/keys.zig",)
    assert inline == 2
    assert found["ipam/models/ip.py"] == ("ipam/tests/test_views.py",)
    assert found["ipam/models/vlan.py"] == ("ipam/tests/test_vlans.py",)
    assert found["ipam/models/asn.py"] == ()
    assert found["vpn/models/key.py"] == tuple(f"vpn/tests/test_{name}.py" for name in ("models", "api", "forms"))


def test_a_file_that_only_declares_a_module_passes_no_change_on(tmp_path: Path) -> None:
    """What takes something else from the crate's root is not affected; a macro is taken from there."""
    sources = {
        "Cargo.toml": "[package]\nname = 'cat'\n",
        "src/lib.rs": "mod macros;\nmod printer;\nmod style;\nmod paging;\nmod app;\npub use style::Style;\n",
        "src/macros.rs": "#[macro_export]\nmacro_rules! warning {\n    () => {};\n}\n",
        "src/printer.rs": "use crate::Style;\n\npub struct Printer {\n    style: Style,\n}\n",
        "src/style.rs": "pub struct Style {}\n",
        "src/paging.rs": "pub fn page() {\n    crate::warning!();\n}\n",
        "src/app.rs": "use crate::printer::Printer;\n\npub fn run(printer: Printer) {}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        names = ("printer", "style", "macros")
        found = {
            name: {one.path for one in engine.code.impact(ImpactRequest(f"src/{name}.rs", root=str(root))).files}
            for name in names
        }
    assert found["printer"] == {"src/app.rs"}
    assert found["style"] == {"src/printer.rs", "src/app.rs"}
    assert found["macros"] == {"src/paging.rs"}


@pytest.mark.parametrize(("count", "listed"), [(2, 3), (13, 1)])
def test_tests_of_subtypes_are_to_be_run_if_they_are_few(tmp_path: Path, count: int, listed: int) -> None:
    sources = {"app/base.py": "class Base: pass\n", "tests/test_base.py": "from app.base import Base\n"}
    for number in range(count):
        sources[f"app/part{number}.py"] = f"from app.base import Base\n\nclass Part{number}(Base): pass\n"
        sources[f"tests/test_part{number}.py"] = f"from app.part{number} import Part{number}\n"
    root = written(tmp_path, sources)
    with opened(root) as engine:
        assert len(engine.code.impact(ImpactRequest("app/base.py", root=str(root))).tests) == listed


def test_tests_that_reach_a_file_by_a_helper_are_those_called_after_it(tmp_path: Path) -> None:
    sources = {
        "lib/tea/base.rb": "module Tea\nend\n",
        "lib/milk/base.rb": "",
        "test/test_helper.rb": "require 'tea/base'\n",
    }
    names = ("base", *(f"other{number}" for number in range(9)))
    sources |= {f"test/{name}_test.rb": "require_relative 'test_helper'\n" for name in names}
    root = written(tmp_path, sources)
    with opened(root) as engine:
        impact = engine.code.impact(ImpactRequest("lib/tea/base.rb", root=str(root)))
        assert impact.tests == ("test/base_test.rb",)
        found = engine.code.tests_of(engine.indexes.of(root), ["lib/tea/base.rb"])
        assert found["lib/tea/base.rb"] == ("test/base_test.rb",)


def test_a_change_of_c_reaches_who_includes_its_header(tmp_path: Path) -> None:
    sources = {
        "src/sds.h": "int sdslen(char *s);\n",
        "src/sds.c": '#include "sds.h"\n#include "zmalloc.h"\nint sdslen(char *s) { return 1; }\n',
        "src/zmalloc.h": "int zfree(void);\n",
        "src/server.c": '#include "sds.h"\nint main(void) { return sdslen(0); }\n',
        "src/other.c": '#include "zmalloc.h"\nint other(void) { return zfree(); }\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        impact = engine.code.impact(ImpactRequest("src/sds.c", root=str(root)))
        assert [one.path for one in impact.files] == ["src/server.c"]
        starts = engine.code.map(MapRequest(str(root))).entry_points
        assert [one.path for one in starts] == ["src/server.c"]


def test_a_change_of_c_reaches_users_of_what_a_common_header_declares(tmp_path: Path) -> None:
    sources = {
        "tea.h": "int brew(void);\nint pour(void);\n",
        "brew.c": '#include "tea.h"\nint brew(void) { return 1; }\n',
        "server.c": '#include "tea.h"\nint pour(void) { return 2; }\n',
        "tea.c": '#include "tea.h"\nint main(void) { return brew(); }\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        impact = engine.code.impact(ImpactRequest("brew.c", root=str(root)))
        assert [one.path for one in impact.files] == ["tea.c"]
        starts = engine.code.map(MapRequest(str(root))).entry_points
        assert [one.path for one in starts] == ["tea.c"]  # a name is no start if there is a `main`


def test_a_call_of_a_value_runs_its_method(tmp_path: Path) -> None:
    sources = {
        "find.kt": "package tea\n\nclass FindTea {\n    operator fun invoke(name: String) = name\n}\n",
        "model.kt": 'package tea\n\nclass TeaModel(findTea: FindTea) {\n    val found = findTea("green")\n}\n',
        "other.kt": "package tea\n\nclass Other(val p: FindTea) {\n    fun pour(findTea: () -> Unit) = findTea()\n}\n",
        "brew.py": "class Brew:\n    def __call__(self, leaf):\n        return leaf\n\n\n"
        "def serve(brew: Brew):\n    return brew(1)\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = [engine.code.calls(CallsRequest(one, str(root))).callers for one in ("FindTea.invoke", "Brew.__call__")]
    assert [[(one.path, one.line) for one in callers] for callers in found] == [[("model.kt", 4)], [("brew.py", 7)]]


def test_a_type_inside_of_another_is_meant_by_its_whole_name(tmp_path: Path) -> None:
    sources = {
        "Results.swift": "struct Results {\n  struct Codable {}\n}\nstruct A: Codable {}\nstruct B: Codable {}\n",
        "Op.kt": "class Op {\n  interface Bool\n}\nclass And : Op.Bool\n",
        "shop.rb": "module Shop\n  class Base\n  end\n  class Cart < Base\n  end\nend\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = engine.code.map(MapRequest(str(root))).interfaces
    assert {one.qualified for one in found} == {"Op.Bool", "Shop.Base"}


def test_key_types_are_those_that_others_implement(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "tea"\n',
        "src/lib.rs": "pub mod flags;\npub trait Sink { fn take(&self); }\n"
        "impl Sink for flags::Debug { fn take(&self) {} }\n",
        "src/flags.rs": "use std::fmt;\npub struct Debug;\npub struct Level;\n"
        "pub type Map = std::collections::Map<u8, u8>;\nimpl fmt::Debug for Debug {}\nimpl fmt::Debug for Level {}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        assert [one.name for one in engine.code.map(MapRequest(str(root))).interfaces] == ["Sink"]


def test_key_types_that_name_no_base_are_those_that_many_files_declare(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module example.org/tea\n",
        "model/cup.go": "package model\n\ntype Cup struct{ Size int }\n\ntype Spoon struct{}\n",
        "shop/sell.go": 'package shop\n\nimport "example.org/tea/model"\n\nfunc Sell(cup *model.Cup) {}\n',
        "shop/wash.go": 'package shop\n\nimport "example.org/tea/model"\n\nvar dirty []model.Cup\n',
        "pot.c": "struct pot { int size; };\nstatic int fill(struct pot *p) { return p->size; }\n",
        "tray.h": "typedef struct tray tray;\nstruct tray { int size; };\nint carry(tray *t);\n",
        "tray.c": '#include "tray.h"\nint carry(tray *t) { return t->size; }\n',
        "mail/client.go": "package mail\n\ntype Client struct{}\n",
        "shop/fetch.go": 'package shop\n\nimport "net/http"\n\nvar client http.Client\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = engine.code.map(MapRequest(str(root))).interfaces
    assert [one.name for one in found] == ["Cup", "tray", "pot"]


def test_of_types_of_one_name_the_key_type_is_what_the_others_import(tmp_path: Path) -> None:
    sources = {
        "lib/app/cop/base.rb": "module App\n  module Cop\n    class Base\n    end\n  end\nend\n",
        "lib/app/cop/cop.rb": "module App\n  module Cop\n    class Cop\n    end\n  end\nend\n",
        "lib/app/server/base.rb": "module App\n  module Server\n    class Base\n    end\n  end\nend\n",
        **{
            f"lib/app/cop/{name.lower()}.rb": "require_relative 'base'\nmodule App\n  module Cop\n"
            f"    class {name} < Base\n    end\n  end\nend\n"
            for name in ("Line", "Loop", "Name")
        },
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        assert [one.qualified for one in engine.code.map(MapRequest(str(root))).interfaces] == ["App.Cop.Base"]


def test_a_type_of_another_language_is_no_key_type(tmp_path: Path) -> None:
    sources = {
        "web/point.ts": "export interface Point { name: string }\n",
        "a/Mail.java": "package a;\nimport org.plugin.Point;\ninterface Mail extends Point {}\n",
        "a/Smtp.java": "package a;\nclass Smtp implements Mail {}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        assert [one.name for one in engine.code.map(MapRequest(str(root))).interfaces] == ["Mail"]


def test_a_file_lists_what_a_condition_chooses_once(tmp_path: Path) -> None:
    sources = {
        "pot.c": "static int fill(void);\nint pour(void);\n#ifdef BIG\nstatic int fill(void) { return 2; }\n"
        "#else\nstatic int fill(void) { return 1; }\n#endif\n",
        "tea.py": "try:\n    import fast\n    HAS_FAST = True\nexcept ImportError:\n    HAS_FAST = False\n\n\n"
        "class Tea:\n    @property\n    def hot(self): ...\n\n    @hot.setter\n    def hot(self, value): ...\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = [engine.code.symbols(SymbolsRequest(str(root / path))).symbols for path in sources]
    assert [(one.kind, one.name, one.start_line) for one in found[0]] == [
        ("prototype", "pour", 2),
        ("function", "fill", 4),
    ]
    assert [(one.name, one.start_line) for one in found[1]] == [("HAS_FAST", 3), ("Tea", 8), ("hot", 10), ("hot", 13)]


def test_equal_ranks_do_not_follow_the_order_of_indexing(tmp_path: Path) -> None:
    sources = {
        f"{name}/{name}.py": f"class {name.title()}: ...\n\nclass Own({name.title()}):\n    def start(self):\n"
        f"        return stop_{name}()\n\ndef stop_{name}(): ...\n"
        for name in ("tea", "pot", "lid", "cup", "mug")
    }
    found = []
    for number, order in enumerate((sorted(sources), sorted(sources, reverse=True))):
        root = tmp_path / str(number)
        root.mkdir()
        with opened(root) as engine:
            for path in order:
                written(root, {path: sources[path]})
                engine.code.map(MapRequest(str(root)))  # indexes it
            report = engine.code.map(MapRequest(str(root)))
            calls = engine.code.calls(CallsRequest("start", path=str(root)))
            found.append((report.interfaces, report.hubs, report.areas, calls.callees, calls.related))
    assert found[0] == found[1]
    assert [one.name for one in found[0][0]] == ["Cup", "Lid", "Mug", "Pot", "Tea"]


def test_map_and_its_pictures(tmp_path: Path) -> None:
    root = written(tmp_path, SOURCES | {"lib/deep/x.py": "import app.db\n", "lib/<odd>.py": "import app.web\n"})
    with opened(root) as engine:
        text = engine.code.map(MapRequest(str(root)))
        assert text.hubs[0].path in ("app/db.py", "app/web.py", "app/views.py")
        assert "app/main.py" in [file.path for file in text.entry_points]
        assert [symbol.name for symbol in text.interfaces] == ["Base"]
        drawn = engine.code.map(MapRequest(str(root), format="svg")).picture
        chart = engine.code.map(MapRequest(str(root), format="mermaid")).picture
    page = ElementTree.fromstring(drawn)
    assert page.tag.endswith("svg")
    assert "prefers-color-scheme: dark" in drawn
    assert "<script" not in drawn
    assert "loop" in drawn  # circles are red
    assert chart.startswith("flowchart TD")
    assert "<odd>" not in chart


def test_files_of_one_package_and_types_alone_are_no_mutual_areas(tmp_path: Path) -> None:
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b.two import B\nclass A: pass\n"
    sources = {
        "go.mod": "module example.org/shop\n",
        "queue/codec.go": "package queue\n\nfunc Encode(e Event) string { return e.Name }\n",
        "queue/queue.go": 'package queue\n\ntype Event struct{ Name string }\nfunc Put() { Encode(Event{"a"}) }\n',
        "a/one.py": types,
        "b/two.py": "from a.one import A\nclass B(A): pass\n",
        "c/three.py": "from d.four import D\nclass C: pass\n",
        "d/four.py": "import c.three\nclass D: pass\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        areas = engine.code.map(MapRequest(str(root))).areas
    assert {area.name for area in areas if area.in_cycle} == {"c/three.py", "d/four.py"}
    assert {area.name for area in areas if area.needs} >= {"a/one.py", "queue/codec.go", "queue/queue.go"}


def test_a_test_that_is_equally_near_to_several_files_belongs_to_none(tmp_path: Path) -> None:
    sources = {
        "nodes/a/v2/helpers.ts": "export const a = 1\n",
        "nodes/b/v2/helpers.ts": "export const b = 1\n",
        "nodes/b/v2/helpers.test.ts": "b()\n",
        "nodes/c/test/v2/helpers.test.ts": "c()\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        engine.code.map(MapRequest(str(root)))  # indexes it
        tests = engine.code.tests_of(engine.indexes.of(root), list(sources))
    assert tests["nodes/a/v2/helpers.ts"] == ()
    assert tests["nodes/b/v2/helpers.ts"] == ("nodes/b/v2/helpers.test.ts",)


def test_a_test_is_about_the_file_whose_whole_name_it_has(tmp_path: Path) -> None:
    sources = {
        "user/user.service.ts": "export class UserService {}\n",
        "user/user.controller.ts": "export class UserController {}\n",
        "user/user.service.spec.ts": "it()\n",
        "user/user.service.roles.spec.ts": "it()\n",
        "user/user.e2e-spec.ts": "it()\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        engine.code.map(MapRequest(str(root)))  # indexes it
        tests = engine.code.tests_of(engine.indexes.of(root), list(sources))
    own = ("user/user.service.roles.spec.ts", "user/user.service.spec.ts")
    assert set(tests["user/user.service.ts"]) == {*own, "user/user.e2e-spec.ts"}
    assert tests["user/user.controller.ts"] == ("user/user.e2e-spec.ts",)


def test_small_folders_are_merged_by_height_and_close_no_cycle_together(tmp_path: Path) -> None:
    above, below = [f"p{number:02}" for number in range(0, 16, 2)], [f"p{number:02}" for number in range(1, 16, 2)]
    needed = "".join(f"import packages.{name}.b\n" for name in below)
    sources = {f"packages/core/f{number}.py": needed for number in range(8)}
    for name in above:
        sources |= {f"packages/{name}/{part}.py": "import packages.core.f1\n" for part in "ab"}
    for name in below:
        sources |= {f"packages/{name}/a.py": f"import packages.{name}.b\n", f"packages/{name}/b.py": "x = 1\n"}
    root = written(tmp_path, sources)
    with opened(root) as engine:
        areas = {area.name: area for area in engine.code.map(MapRequest(str(root), limit=4)).areas}
    assert not [area.name for area in areas.values() if area.in_cycle]
    core = next(area for name, area in areas.items() if name.startswith("packages/core"))
    assert all(area.layer > core.layer for area in areas.values() if any("core" in name for name in area.needs))
    assert {areas[name].layer for name in core.needs} == {0}


def test_one_edit_recomputes_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = written(tmp_path, SOURCES)
    seen: list[str] = []
    links = code_index.ImportResolver.links

    def counted(self: Any, source: Any, imports: Any, packed: Any) -> Any:
        seen.append(source.path)
        return links(self, source, imports, packed)

    monkeypatch.setattr(code_index.ImportResolver, "links", counted)
    with opened(root) as engine:
        before = engine.code.cycles(CyclesRequest(str(root)))
        assert len(seen) == len(SOURCES)
        seen.clear()
        (root / "app/c.py").write_text("from app import db\n")
        after = engine.code.cycles(CyclesRequest(str(root)))
        assert seen == ["app/c.py"]
        assert (before.total, after.total) == (2, 1)
        seen.clear()
        (root / "app/new.py").write_text("from app import a\n")
        engine.code.cycles(CyclesRequest(str(root)))
        assert len(seen) == len(SOURCES) + 1  # a new file may be what others could not find
    with opened(root) as again:  # another process finds what was built
        seen.clear()
        assert again.code.cycles(CyclesRequest(str(root))).total == 1
        assert not seen


def test_hotspots_come_from_the_history(tmp_path: Path) -> None:
    changed_once = {"cold.py": "a = 1\n" * 50}
    without_logic = (
        "looks.css",
        "mix.exs",
        "lang/nl/shop.php",
        "lang/de_informal/shop.php",
        "shop.d.ts",
        "settings.gradle.kts",
        "shop/_vendor/six.py",
        "third_party/parse.py",
    )
    named = {"warm.py": "b = 1\n" * 40, "shop/lang/parser.py": "c = 1\n"}
    root = written(tmp_path, {"hot.py": "a = 1\n" * 50, **changed_once, **named})
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
        "GIT_COMMITTER_DATE": "2019-03-01T12:00:00Z",  # nobody committed since
    }

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, env=os.environ | identity)
        return done.stdout.decode().strip()

    git("init", "-q")
    for number in range(3):
        (root / "hot.py").write_text("a = 1\n" * (50 + number))
        (root / "warm.py").write_text("b = 1\n" * 40 + f"c = {number}\n")
        written(root, dict.fromkeys(without_logic, f"{number}\n" * 900) | {"shop/lang/parser.py": f"c = {number}\n"})
        git("add", "-A")
        git("commit", "-qm", f"change {number}")
    (root / "lib").mkdir()
    (root / "warm.py").rename(root / "lib" / "warm.py")
    (root / "lib" / "warm.py").write_text("b = 1\n" * 40 + "d = 1\n")
    git("add", "-A")
    git("commit", "-qm", "move a file")
    (root / "hot.py").write_text("a = 2\n" * 50)
    git("commit", "-qam", "format")
    (root / ".git-blame-ignore-revs").write_text("# format\n" + git("rev-parse", "HEAD") + "\n")
    git("add", "-A")
    git("commit", "-qm", "ignore a commit")
    with opened(root) as engine:
        report = engine.code.hotspots(HotspotsRequest(str(root)))
        assert engine.code.hotspots(HotspotsRequest(str(root), days=36_500)).commits == report.commits == 5
        found = [(one.path, one.commits) for one in report.hotspots]
        assert found == [("lib/warm.py", 4), ("hot.py", 3), ("shop/lang/parser.py", 3)]
        assert report.hotspots[0].score == 1.0
        lost = git("rev-parse", "HEAD~2:lib/warm.py")
        (root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()  # as in a partial clone: no rename can be found
        report = engine.code.hotspots(HotspotsRequest(str(root), days=300))
    assert [(one.path, one.commits) for one in report.hotspots] == [("hot.py", 3), ("shop/lang/parser.py", 3)]


def test_a_history_that_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    root = written(tmp_path, {"hot.py": "a = 1\n" * 50})
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    message = "Fix a race in hot\n\nTwo threads wrote the same file, so one of them must wait for the other."
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", message)):
        subprocess.run(["git", *identity, *command], cwd=root, check=True)
    objects, away, now = root / ".git" / "objects", tmp_path / "away", time.time()
    with opened(root) as engine:
        engine.index(IndexRequest((str(root),)))
        engine.knowledge.clock = lambda: now
        objects.rename(away)
        assert engine.code.hotspots(HotspotsRequest(str(root), refresh=False)).notes
        assert not engine.knowledge.memory_list(MemoryListRequest(path=str(root))).memories
        away.rename(objects)
        assert engine.code.hotspots(HotspotsRequest(str(root), refresh=False)).commits == 1
        engine.knowledge.clock = lambda: now + RETRY_S
        assert engine.knowledge.memory_list(MemoryListRequest(path=str(root))).memories


def test_no_history_is_said(tmp_path: Path) -> None:
    root = written(tmp_path, SOURCES)
    with opened(root) as engine:
        assert "no git history" in engine.code.hotspots(HotspotsRequest(str(root))).notes[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("symbols", "app/db.py"), "class Base"),
        (("defs", "connect"), "app/db.py:3"),
        (("refs", "connect"), "2 resolved"),
        (("calls", "connect"), "called by (0)"),
        (("calls", "begin"), "start.py:5  (top level)"),
        (("imports", "app/db.py"), "imported by (3)"),
        (("map",), "Hubs"),
        (("cycles",), "high"),
        (("impact", "app/db.py"), "may affect 4 files"),
        (("hotspots",), "no git history"),
        (("unused",), "exported definitions"),
    ],
)
def test_every_command_for_people(codeinfo: Any, tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    root = written(tmp_path, {**SOURCES, "start.py": "def begin():\n    pass\n\n\nbegin()\n"})
    done = codeinfo(*arguments, cwd=root)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_a_part_of_a_go_module_knows_its_own_packages(tmp_path: Path) -> None:
    sources = {
        "go.mod": "module example.org/shop\n",
        "api/main.go": 'package main\n\nimport "example.org/shop/api/cart"\n\nfunc main() { cart.New() }\n',
        "api/cart/cart.go": "package cart\n\nfunc New() {}\n",
    }
    root = written(tmp_path, sources) / "api"
    (tmp_path / ".git").mkdir()
    with opened(root) as engine:
        edges = engine.code.imports(ImportsRequest("main.go", root=str(root)))
    assert [one.targets for one in edges.imports] == [("cart/cart.go",)]


def test_areas_of_several_folders_are_called_by_their_whole_names(tmp_path: Path) -> None:
    sources = {
        f"Shop.{name}/{part}.cs": f"namespace Shop.{name};\nclass {name}{part} {{ Base{part} b; }}\n"
        for name, parts in {
            "Api": "ABCDEFGH",
            "Data": "ABCDE",
            "Mail": "A",
            "Print": "AB",
            "Tax": "A",
            "Web": "AB",
        }.items()
        for part in parts
    }
    base = {f"Core/{part}.cs": f"class Base{part} {{}}\n" for part in "ABCDEFGH"}
    with opened(written(tmp_path, sources | base)) as engine:
        names = [area.name for area in engine.code.map(MapRequest(str(tmp_path), limit=4)).areas]
    assert any(name.startswith("(Shop.") for name in names), names


def test_files_of_the_top_folder_are_areas_by_themselves_where_there_is_room(tmp_path: Path) -> None:
    sources = {f"{name}.py": "import lib.core\n" for name in ("one", "two", "three")} | {"lib/core.py": "x = 1\n"}
    root = written(tmp_path, sources)
    with opened(root) as engine:
        wide = {area.name for area in engine.code.map(MapRequest(str(root), limit=10)).areas}
        narrow = {area.name for area in engine.code.map(MapRequest(str(root), limit=2)).areas}
    assert wide == {"one.py", "two.py", "three.py", "lib/core.py"}
    assert narrow == {"*", "lib/core.py"}


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (
            {
                "pyproject.toml": '[project]\nname = "tea-shop"\n[project.scripts]\ntea = "tea_shop.cli:main"\n',
                "src/tea_shop/__init__.py": "from tea_shop import cli\n",
                "src/tea_shop/cli.py": "def main(): ...\n",
                "tests/test_cli.py": "from tea_shop import cli\n",
                "examples/main.py": "import tea_shop\n",
                "docs_src/app/main.py": "import tea_shop\n",
            },
            ["src/tea_shop/cli.py", "src/tea_shop/__init__.py"],
        ),
        (
            {
                "package.json": '{"name": "tea", "bin": {"tea": "./bin/tea.js"}, "main": "./dist/index.js"}',
                "bin/tea.js": "require('../src/index')\n",
                "src/index.ts": "import './pot'\n",
                "src/pot.ts": "export const a = 1\n",
                "jest.config.js": "require('./src/pot')\n",
            },
            ["bin/tea.js", "src/index.ts"],
        ),
        (
            {
                "go.mod": "module example.org/go-tea\n",
                "tea.go": "package tea\n",
                "pot.go": "package tea\n",
                "cmd/brew/main.go": "package main\n\nfunc main() {}\n",
                "cmd/brew/main_test.go": "package main\n",
                "cmd/brew/docs.go": "//go:build generate\n\npackage main\n\nfunc main() {}\n",
                "internal/table/main.go": "package main\n\nfunc main() {}\n",
                "leaf/leaf.go": "package leaf\n",
                "leaf/generate/main.go": "package main\n\nfunc main() {}\n",
            },
            ["tea.go", "cmd/brew/main.go"],
        ),
        (
            {
                "package.json": '{"private": true}',
                "src/pages/tea.ts": "import main from '../pots/main'\nexport const tea = main\n",
                "src/pots/main.ts": "import { pot } from '../pot'\nexport default function main() {}\n",
                "src/app/landing-pages/page.ts": "import { pot } from '../../pot'\nexport const land = pot\n",
                "src/app/shop/pages/page.ts": "import { pot } from '../../../pot'\nexport const all = pot\n",
                "src/modules/shop/pages/list.ts": "import { pot } from '../../../pot'\nexport const list = pot\n",
                "src/pot.ts": "export const pot = 1\n",
            },
            ["src/pages/tea.ts", "src/app/landing-pages/page.ts", "src/app/shop/pages/page.ts"],
        ),
        (
            {
                "Cargo.toml": '[package]\nname = "tea"\n[[bin]]\nname = "x"\npath = "src/x.rs"\n',
                "src/lib.rs": "pub mod pot;\n",
                "src/pot.rs": "pub fn a() {}\n",
                "src/x.rs": "fn main() {}\n",
                "src/bin/brew/main.rs": "mod leaf;\nfn main() { leaf::pick() }\n",
                "src/bin/brew/leaf.rs": "pub fn pick() {}\n",
                "src/bin/pour.rs": "fn main() {}\n",
                "examples/a.rs": "use tea::pot;\nfn main() {}\n",
            },
            ["src/bin/brew/main.rs", "src/bin/pour.rs", "src/x.rs", "src/lib.rs"],
        ),
        (
            {"composer.json": '{"autoload": {"files": ["src/helpers.php"]}}', "src/helpers.php": "<?php\n"},
            ["src/helpers.php"],
        ),
        (
            {
                "tea-pot.gemspec": "Gem::Specification.new 'tea-pot', '1' do |s|\n  s.executables = %w[brew]\nend\n",
                "lib/tea/pot.rb": "require 'tea/lid'\n",
                "lib/tea/lid.rb": "",
                "lib/tea/spoon.rb": "require 'tea/lid'\n",
                "exe/brew": "#!/usr/bin/env ruby\nrequire 'tea/pot'\n",
            },
            ["lib/tea/pot.rb", "exe/brew"],
        ),
        (
            {
                "mix.exs": "defmodule Tea.MixProject do\n  def project, do: [app: :tea]\n"
                "  def application, do: [mod: {Tea.Application, []}]\nend\n",
                "lib/tea.ex": "defmodule Tea do\nend\n",
                "lib/tea/application.ex": "defmodule Tea.Application do\n  alias Tea.Pot\nend\n",
                "lib/tea/pot.ex": "defmodule Tea.Pot do\nend\n",
                "lib/tea/unused.ex": "defmodule Tea.Unused do\n  alias Tea.Pot\nend\n",
                "lib/mix/tasks/tea.brew.ex": "defmodule Mix.Tasks.Tea.Brew do\nend\n",
                "priv/static/app.js": "import './x'\n",
            },
            ["lib/tea/application.ex", "lib/tea.ex", "lib/mix/tasks/tea.brew.ex"],
        ),
        (
            {
                "mix.exs": "defmodule Tea.MixProject do\n  def application, do: [mod: {Tea.Application, []}]\nend\n",
                "lib/tea/application.ex": "defmodule Tea.Application do\n  alias TeaWeb.Router\nend\n",
                "lib/tea_web/router.ex": "defmodule TeaWeb.Router do\nend\n",
                "lib/mix/tasks/tea.brew.ex": "defmodule Mix.Tasks.Tea.Brew do\nend\n",
            },
            ["lib/tea/application.ex", "lib/tea_web/router.ex"],
        ),
        (
            {
                "manage.py": 'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tea.settings")\n',
                "tea/urls.py": "from pot.views import pour\n",
                "pot/views.py": "def pour(): ...\n",
                "pot/admin.py": "from pot.views import pour\n",
            },
            ["manage.py", "tea/urls.py"],
        ),
        (
            {
                "Gemfile": "gem 'rails'\n",
                "config.ru": "require_relative 'config/environment'\n",
                "config/environment.rb": "",
                "config/routes.rb": "root to: 1\n",
                "bin/setup": "#!/usr/bin/env ruby\nrequire_relative '../config/environment'\n",
            },
            ["config.ru", "config/routes.rb"],
        ),
        (
            {
                "composer.json": '{"autoload": {"files": ["app/helpers.php"]}}',
                "app/helpers.php": "<?php\n",
                "public/index.php": "<?php\n",
                "artisan": "#!/usr/bin/env php\n<?php\n",
                "routes/web.php": "<?php\nRoute::get('/', 'Shop');\n",
            },
            ["public/index.php", "artisan", "routes/web.php"],
        ),
        (
            {
                "go.mod": "module example.org/tea/v3\n",
                "app.go": "package tea\n\nfunc Brew() Option { return Hot }\n",
                "options.go": "package tea\n\ntype Option int\n\nconst Hot Option = 1\n",
            },
            ["app.go"],
        ),
        (
            {  # compiled: only what has a `main` is a program
                "src/Main.hs": "module Main where\n\nimport Tea\n\nmain :: IO ()\nmain = brew\n",
                "src/Tea.hs": "module Tea where\n\nbrew = pure ()\n",
                "src/Unused.hs": "module Unused where\n\nimport Tea\n",
            },
            ["src/Main.hs"],
        ),
        (
            {  # a library of Kotlin: what nothing imports starts nothing
                "src/main/kotlin/tea/Pot.kt": "package tea\n\nclass Pot(val lid: Lid)\n",
                "src/main/kotlin/tea/Lid.kt": "package tea\n\nclass Lid\n",
            },
            [],
        ),
        (
            {
                "src/main/java/tea/Brewing.java": "package tea;\n\nclass Brewing {\n  Pot pot;\n\n"
                "  public static void main(String[] a) {}\n}\n",
                "src/main/java/tea/Pot.java": "package tea;\n\nclass Pot {}\n",
            },
            ["src/main/java/tea/Brewing.java"],
        ),
        (
            {  # the manifest speaks of its own language alone; a program may offer something besides
                "package.json": '{"main": "web/index.ts"}',
                "web/index.ts": "export const a = 1\n",
                "src/main/java/tea/Application.java": "package tea;\n\nclass Application {\n"
                "  public static void main(String[] a) {}\n}\n",
                "src/main/java/tea/Restart.java": "package tea;\n\nclass Restart { Application tea; }\n",
                "till/Program.cs": "builder.AddTea();\n",
            },
            ["web/index.ts", "till/Program.cs", "src/main/java/tea/Application.java"],
        ),
        (
            {  # what is marked, not what has the name; a component is no program, and what exports is no script
                "Tea/App.swift": "@main\nstruct TeaApp: App {\n  var pot = Pot.main\n}\n",
                "Tea/Pot.swift": "enum Pot {\n  case main\n}\n",
                "web/Main.tsx": 'import { a } from "./a"\nexport function Main() { return a }\n',
                "web/Other.tsx": 'import { a } from "./a"\nexport function Other() { return a }\n',
                "web/a.ts": "export const a = 1\n",
                "web/app/tea/page.tsx": 'import { a } from "../../a"\nexport default function Tea() { return a }\n',
            },
            ["Tea/App.swift", "web/app/tea/page.tsx"],
        ),
        (
            {
                "app/src/main/AndroidManifest.xml": '<manifest><application android:name=".Tea">\n<activity\n'
                '  android:exported="true"\n  android:name="org.tea.ui.Pot" /></application></manifest>\n',
                "app/src/main/kotlin/org/tea/Tea.kt": "package org.tea\n\nclass Tea\n",
                "app/src/main/kotlin/org/tea/ui/Pot.kt": "package org.tea.ui\n\nclass Pot\n",
            },
            ["app/src/main/kotlin/org/tea/Tea.kt", "app/src/main/kotlin/org/tea/ui/Pot.kt"],
        ),
        (
            {  # the packages of a site are not offered to anyone
                "pyproject.toml": '[project]\nname = "tea-shop"\n',
                "src/manage.py": 'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n',
                "src/shop/__init__.py": "",
                "src/shop/urls.py": "from cart import views\n",
                "src/cart/__init__.py": "",
                "src/cart/views.py": "x = 1\n",
            },
            ["src/manage.py", "src/shop/urls.py"],
        ),
        (
            {  # a file that can be compiled to try it out is no program
                "src/brew.c": '#ifdef LINUX\n#include "crc.h"\n#endif\n#ifdef A_DOMAIN\nint main(void) {}\n#endif\n',
                "src/crc.c": '#include "crc.h"\n#ifdef LINUX\n#endif\n'
                "#ifdef CRC_TEST\n#if 1\nint main(void) {}\n#endif\n#endif\n",
                "src/crc.h": "int crc(void);\n",
            },
            ["src/brew.c"],
        ),
        (
            {  # the program of a workspace before its libraries, the largest of them first
                "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
                "crates/leaf/Cargo.toml": '[package]\nname = "leaf"\n',
                "crates/leaf/src/lib.rs": "pub fn pick() {}\n",
                "crates/pot/Cargo.toml": '[package]\nname = "pot"\n',
                "crates/pot/src/lib.rs": "pub mod lid;\n",
                "crates/pot/src/lid.rs": "pub fn lift() {}\n",
                "crates/tea/Cargo.toml": '[package]\nname = "tea"\n[dependencies]\nleaf = { path = "../leaf" }\n',
                "crates/tea/src/lib.rs": "pub fn brew() { leaf::pick() }\n",
                "crates/tea/src/main.rs": "fn main() { tea::brew() }\n",
            },
            ["crates/tea/src/main.rs", "crates/tea/src/lib.rs", "crates/pot/src/lib.rs", "crates/leaf/src/lib.rs"],
        ),
        (
            {  # a macro called main is no program, and a package of tests is none of the product's
                "Cargo.toml": '[workspace]\nmembers = ["*"]\n',
                "macros/Cargo.toml": '[package]\nname = "macros"\n',
                "macros/src/lib.rs": "pub fn main(x: u8) {}\n",
                "tea/Cargo.toml": '[package]\nname = "tea"\n',
                "tea/src/lib.rs": "pub mod lid;\n",
                "tea/src/lid.rs": "pub fn lift() {}\n",
                "tests-integration/Cargo.toml": '[package]\nname = "tests-integration"\n',
                "tests-integration/src/bin/cat.rs": "fn main() { tea::lid::lift() }\n",
            },
            ["tea/src/lib.rs", "macros/src/lib.rs"],
        ),
        (
            {  # empty files are no entry points, nor is what is inside of the package `src`
                "ui/package.json": '{"name": "ui", "main": "index.js"}',
                "ui/index.js": "",
                "ui/src/main.ts": 'import { a } from "./a"\nrun(a)\n',
                "ui/src/a.ts": "export const a = 1\n",
                "run/pyproject.toml": '[project]\nname = "task-runner"\n',
                "run/src/__init__.py": '"""Runs tasks."""\n',
                "run/src/setup.py": "def setup(): ...\n",
                "run/src/errors/__init__.py": "from .own import Own\n",
                "run/src/errors/own.py": "class Own: ...\n",
                "run/src/main.py": "from .errors import Own\n\ndef main(): Own()\n",
            },
            ["run/src/main.py", "ui/src/main.ts"],
        ),
        (
            {  # pages of the applications before what they use of a private package, in turn
                "package.json": '{"private": true, "workspaces": ["apps/*", "packages/*"]}',
                "apps/shop/package.json": '{"name": "shop", "private": true}',
                "apps/shop/app/page.tsx": 'import { a } from "@tea/ui"\nexport default function Shop() { return a }\n',
                "apps/shop/app/cart/page.tsx": 'import { a } from "@tea/ui"\nexport default () => a\n',
                "apps/till/package.json": '{"name": "till", "private": true}',
                "apps/till/src/server.ts": 'import { a } from "@tea/ui"\nlisten(a)\n',
                "packages/ui/package.json": '{"name": "@tea/ui", "private": true, "exports": {".": "./a.ts"}}',
                "packages/ui/a.ts": "export const a = 1\n",
                "packages/ui/b.ts": "export const b = 1\n",
                "packages/ui/c.ts": "export const c = 1\n",
                "packages/cli/package.json": '{"name": "@tea/cli", "bin": "./run.ts"}',
                "packages/cli/run.ts": 'import { a } from "@tea/ui"\nrun(a)\n',
            },
            [
                "apps/shop/app/page.tsx",
                "apps/till/src/server.ts",
                "apps/shop/app/cart/page.tsx",
                "packages/cli/run.ts",
                "packages/ui/a.ts",
            ],
        ),
        (
            {  # pages, also beside a module that no manifest names; a library has none
                "package.json": '{"name": "shop", "version": "1.0.0"}',
                "src/index.ts": 'export { a } from "./a"\n',
                "src/a.ts": "export const a = 1\n",
                "src/app/(main)/cart/page.tsx": 'import { a } from "../../../a"\nexport default () => a\n',
                "src/app/api/carts/[id]/route.ts": 'import { a } from "../../../../a"\nexport const GET = () => a\n',
                "kit/package.json": '{"name": "kit", "main": "src/index.ts"}',
                "kit/src/index.ts": 'export { b } from "./b"\n',
                "kit/src/b.ts": "export const b = 1\n",
                "kit/src/pages/cart.ts": 'import { b } from "../b"\nexport const c = b\n',
            },
            ["src/index.ts", "src/app/(main)/cart/page.tsx", "src/app/api/carts/[id]/route.ts", "kit/src/index.ts"],
        ),
        (
            {  # nobody else can import a module below `internal`; what pages load is in a folder of its own
                "go.mod": "module example.com/tea\n",
                "main.go": 'package main\n\nimport "example.com/tea/internal/s3"\n\nfunc main() { s3.Open() }\n',
                "internal/s3/go.mod": "module example.com/tea/internal/s3\n",
                "internal/s3/s3.go": "package s3\n\nfunc Open() {}\n",
                "stream/package.json": '{"name": "stream", "main": "index.js"}',
                "stream/index.js": "listen()\n",
                "web/package.json": '{"name": "web", "private": true}',
                "web/app/entrypoints/admin.ts": 'import { a } from "../a"\na()\n',
                "web/app/a.ts": "export const a = 1\n",
            },
            ["main.go", "web/app/entrypoints/admin.ts", "stream/index.js"],
        ),
    ],
)
def test_entry_points_are_what_the_manifest_offers(
    tmp_path: Path, sources: dict[str, str], expected: list[str]
) -> None:
    root = written(tmp_path, sources)
    with opened(root) as engine:
        assert [file.path for file in engine.code.map(MapRequest(str(root))).entry_points] == expected


def test_classes_of_rails_need_the_files_that_are_called_like_what_they_use(tmp_path: Path) -> None:
    sources = {
        "config/application.rb": 'config.autoload_paths.push("#{root}/extras")\n',
        "app/models/story.rb": "class Story < ApplicationRecord\n  def show = Story::Cover.new\nend\n",
        "app/models/story/cover.rb": "class Story::Cover\nend\n",
        "app/models/application_record.rb": "class ApplicationRecord < ActiveRecord::Base\nend\n",
        "app/models/concerns/token.rb": "module Token\nend\n",
        "app/controllers/mod/base_controller.rb": "class Mod::BaseController\nend\n",
        "app/controllers/mod/stories_controller.rb": "module Mod\n  class StoriesController < BaseController\n"
        "    def show = Story.find(HTMLSponge.get)\n  end\nend\n",
        "app/controllers/base_controller.rb": "class BaseController\n  include Token\nend\n",
        "extras/html_sponge.rb": "class HTMLSponge\nend\n",
        "lib/tasks/other.rb": "x = Find\n",
        "lib/find.rb": "class Seek\nend\n",
        "lib/shop.rb": "require 'shop/main'\n",
        "lib/shop/run.rb": "Shop::Unknown.new\n",
        "spec/models/story_spec.rb": "describe Story do\nend\n",
        "spec/factories/story.rb": "FactoryBot.define { factory :story }\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:

        def needed(path: str) -> set[str]:
            found = engine.code.imports(ImportsRequest(path, root=str(root))).imports
            return {target for one in found for target in one.targets}

        assert needed("app/controllers/mod/stories_controller.rb") == {
            "app/controllers/mod/base_controller.rb",
            "app/models/story.rb",
            "extras/html_sponge.rb",
        }
        assert needed("app/models/story.rb") == {"app/models/application_record.rb", "app/models/story/cover.rb"}
        assert needed("app/controllers/base_controller.rb") == {"app/models/concerns/token.rb"}
        assert needed("lib/tasks/other.rb") == set()  # the file of that name defines something else
        assert needed("lib/shop/run.rb") == set()  # and that one nothing
        report = engine.code.impact(ImpactRequest("app/models/story.rb", root=str(root)))
        assert [one.path for one in report.files] == [
            "app/controllers/mod/stories_controller.rb",
            "spec/models/story_spec.rb",
        ]
        assert report.tests == ("spec/models/story_spec.rb",)


def test_associations_and_routes_of_rails_lead_to_classes(tmp_path: Path) -> None:
    sources = {
        "app/models/story.rb": "class Story\n  belongs_to :user\n  belongs_to :owner, polymorphic: true\n"
        "  has_many :suggested_titles, dependent: :destroy\n  has_many :categories\n  has_one :first,\n"
        '    class_name: "Shop::Entry"\nend\n',
        "app/models/user.rb": "class User\n  has_many :stories\n  def user = name\nend\n",
        "app/models/suggested_title.rb": "class SuggestedTitle\nend\n",
        "app/models/category.rb": "class Category\nend\n",
        "app/models/shop/entry.rb": "class Shop::Entry\nend\n",
        "app/controllers/stories_controller.rb": "class StoriesController\nend\n",
        "app/controllers/login_controller.rb": "class LoginController\nend\n",
        "app/controllers/mod/reparents_controller.rb": "class Mod::ReparentsController\nend\n",
        "app/controllers/admin/stories_controller.rb": "class Admin::StoriesController\nend\n",
        "config/routes/admin.rb": 'namespace :admin do\n  resources :stories\n  get "/", to: "/login#index"\nend\n',
        "config/routes.rb": "Rails.application.routes.draw do\n  resources :stories\n"
        '  get "/login" => "login#index"\n  namespace :mod do\n    post "/x", to: "reparents#create"\n  end\nend\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:

        def needed(path: str) -> set[str]:
            found = engine.code.imports(ImportsRequest(path, root=str(root))).imports
            return {target.rpartition("/")[2] for one in found for target in one.targets}

        assert needed("app/models/story.rb") == {"user.rb", "suggested_title.rb", "category.rb", "entry.rb"}
        stories, login = engine.code.imports(ImportsRequest("config/routes/admin.rb", root=str(root))).imports
        assert stories.targets == ("app/controllers/admin/stories_controller.rb",)
        assert login.targets == ("app/controllers/login_controller.rb",)
        assert needed("config/routes.rb") == {"stories_controller.rb", "login_controller.rb", "reparents_controller.rb"}
        report = engine.code.impact(ImpactRequest("app/models/suggested_title.rb", root=str(root)))
        assert "app/models/story.rb" in [one.path for one in report.files]
        cycles = engine.code.cycles(CyclesRequest(str(root)))
        assert (cycles.total, cycles.lazy) == (0, 1)  # a story has a user, who has stories: both load on first use
        assert (cycles.external, cycles.unresolved) == (0, 0)


def test_extension_calls_of_csharp_need_the_files_of_the_extensions(tmp_path: Path) -> None:
    def extending(name: str, kind: str, inside: str = "") -> str:
        return f"{inside}public static class {kind}\n{{\n    public static void {name}(this IHost host) {{ }}\n}}\n"

    hosting = "namespace Microsoft.Extensions.Hosting;\n"
    sources = {
        "src/Shop/Shop.csproj": '<Project><ProjectReference Include="..\\Base\\Base.csproj" /></Project>',
        "src/Shop/Program.cs": "var host = Host.Create(args);\nhost.AddCartServices();\nhost.AddDefaults();\n"
        "host.Build();\nhost.AddBus();\nhost.MapTill();\n",
        "src/Shop/Extensions.cs": extending("AddCartServices", "Extensions"),
        "src/Shop/Building.cs": extending("Build", "Building", hosting),  # a name that many types have
        "src/Base/Base.csproj": '<Project><ProjectReference Include="../Bus/Bus.csproj" /></Project>',
        "src/Base/Defaults.cs": extending("AddDefaults", "Defaults", hosting),
        "src/Bus/Bus.csproj": "<Project />",
        "src/Bus/Bus.cs": extending("AddBus", "BusExtensions"),
        "src/Till/Till.csproj": "<Project />",  # a project that the shop does not refer to
        "src/Till/Extensions.cs": extending("AddCartServices", "Extensions"),
        "src/Till/Till.cs": extending("MapTill", "TillExtensions"),
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = engine.code.imports(ImportsRequest("src/Shop/Program.cs", root=str(root))).imports
        assert {target for one in found for target in one.targets} == {
            "src/Shop/Extensions.cs",
            "src/Base/Defaults.cs",
            "src/Bus/Bus.cs",
        }


def test_what_is_tried_from_outside_has_the_tests_of_what_it_serves(tmp_path: Path) -> None:
    sources = {
        "app/Controllers/CartController.php": "<?php\nclass CartController {}\n",
        "app/Models/Cart.php": "<?php\nclass Cart {}\n",
        "tests/Feature/CartTest.php": "<?php\nclass CartTest {}\n",
        "tests/Unit/CartTest.php": "<?php\nclass CartTest {}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        request = ImpactRequest("app/Controllers/CartController.php", root=str(root))
        assert engine.code.impact(request).tests == ("tests/Feature/CartTest.php",)


def test_a_library_of_dart_and_its_parts_are_one(tmp_path: Path) -> None:
    sources = {
        "pubspec.yaml": "name: shop\n",
        "lib/shop.dart": "export 'src/cart.dart';\n",
        "lib/src/cart.dart": "import 'dart:io';\nimport 'price.dart';\npart 'item.dart';\npart 'cart.g.dart';\n"
        "class Cart { List<Item> items = []; }\n",
        "lib/src/cart.g.dart": "// GENERATED CODE - DO NOT MODIFY BY HAND\npart of 'cart.dart';\nclass _Made {}\n",
        "lib/src/item.dart": "part of 'cart.dart';\nclass Item { Cart? cart; Price? price; }\nclass Spare {}\n",
        "lib/src/price.dart": "import 'cart.dart';\nclass Price { Cart? cart; }\n",
        "lib/page.dart": "import 'package:shop/shop.dart';\nfinal item = Item();\n",
        "lib/other.dart": "import 'package:shop/shop.dart';\nfinal basket = Cart();\n",
        "lib/menu.dart": "import 'page.dart' deferred as page;\nopen() => page.item;\n",
        "test/item_test.dart": "import 'package:shop/shop.dart';\nvoid main() => Item();\n",
    }
    with opened(written(tmp_path, sources)) as engine:
        report = engine.code.impact(ImpactRequest("lib/src/item.dart", hops=1, root=str(tmp_path)))
        assert {one.path for one in report.files} == {"lib/src/cart.dart", "lib/page.dart", "test/item_test.dart"}
        assert report.tests == ("test/item_test.dart",)
        lazy = engine.code.impact(ImpactRequest("lib/page.dart", root=str(tmp_path))).files
        assert [(one.path, one.timing) for one in lazy] == [("lib/menu.dart", "lazy")]
        cycles = engine.code.cycles(CyclesRequest(str(tmp_path), deferred=True))
        assert [one.files for one in cycles.cycles] == [("lib/src/cart.dart", "lib/src/price.dart")]
        assert (cycles.cycles[0].timing, cycles.external, cycles.unresolved) == ("types", 2, 0)
        unused = engine.code.unused(UnusedRequest(str(tmp_path))).symbols
        assert {one.symbol.name for one in unused} == {"Spare", "basket", "open"}


def test_types_of_one_name_in_packages_of_one_name_are_not_told_apart(tmp_path: Path) -> None:
    store = "package shop\n\ntype Store interface {\n\tSave()\n}\n\nfunc Fill(store Store) {}\n"
    sources = {"go.mod": "module example.com/shop\n", "shop/store.go": store, "legacy/shop/store.go": store}
    sources["shop/cart.go"] = store.replace("Store", "Cart")
    root = written(tmp_path, sources)
    with opened(root) as engine:
        assert [one.qualified for one in engine.code.map(MapRequest(str(root))).interfaces] == ["Cart"]


def test_a_map_says_what_it_cannot_show(tmp_path: Path) -> None:
    root = written(tmp_path, {"lib/a.jl": "struct A end\n", "lib/b.jl": 'include("a.jl")\n', "run.py": "x = 1\n"})
    with opened(root) as engine:
        notes = engine.code.map(MapRequest(str(root))).notes
        assert notes[0] == "julia has no syntax tree here: its imports and types are not in this map"
        assert engine.code.cycles(CyclesRequest(str(root))).notes == ("imports of julia are not read",)
        assert engine.code.imports(ImportsRequest("lib/b.jl", root=str(root))).notes == (
            "imports of julia are not read",
        )
        assert not engine.code.imports(ImportsRequest("run.py", root=str(root))).notes
        unused = engine.code.unused(UnusedRequest(str(root)))
        assert "julia has no syntax tree here: its definitions are not looked at" in unused.notes
        assert not unused.is_complete


def test_no_area_has_more_than_a_quarter_of_the_files(tmp_path: Path) -> None:
    flat = {f"lib/m{number:02}.py": f"import lib.m{number + 1:02}\n" for number in range(40)} | {"lib/m40.py": ""}
    folders = {f"app/part{n:02}/a.py": "import lib.m00\n" for n in range(30)}
    docs = {f"docs_src/page{n}.py": "import lib.m00\n" for n in range(200)}
    root = written(tmp_path, flat | folders | docs)
    with opened(root) as engine:
        drawn = engine.code.map(MapRequest(str(root), limit=8))
    assert sum(area.files for area in drawn.areas) == len(flat) + len(folders)  # no documentation
    assert max(area.files for area in drawn.areas) <= (len(flat) + len(folders)) / 4
    assert len(drawn.areas) <= 16


def test_a_server_computes_map_and_hotspots_once_for_a_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path, SOURCES)
    for path in SOURCES:  # a file of this second is looked at again, which makes another generation
        os.utime(root / path, (1_700_000_000, 1_700_000_000))
    computed: list[str] = []

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            computed.append(name)
            return real(*given)

        return call

    monkeypatch.setattr(history, "_count_changes", lambda *_: (0, {}))
    monkeypatch.setattr(code, "code_map", watched("map", code_map))
    monkeypatch.setattr(code, "hotspots", watched("hotspots", hotspots))
    with opened(root) as engine:

        def answers() -> tuple[Any, Any]:
            return engine.code.map(MapRequest(str(root))), engine.code.hotspots(HotspotsRequest(str(root)))

        first = answers()
        assert answers() == first
        assert computed == ["map", "hotspots"]  # the map has the same hotspots
        (root / "app/new.py").write_text("from app import db\n")
        assert answers()[0].files == first[0].files + 1


def test_impact_says_where_imports_are_not_read_and_finds_the_tests_of_a_folder(tmp_path: Path) -> None:
    sources = {
        "infra/main.tf": 'module "net" {\n  source = "./net"\n}\n',
        "infra/net/main.tf": 'variable "name" {}\n',
        "web/cart/index.ts": "import { view } from './view'\nexport const cart = view\n",
        "web/cart/view.ts": "export const view = 1\n",
        "web/cart/index.spec.ts": "import { cart } from './index'\ncart\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        unread = engine.code.impact(ImpactRequest("infra/net/main.tf", root=str(root)))
        assert (unread.total, unread.is_complete) == (0, False)
        assert unread.notes == ("imports of terraform are not read: what uses this file is not known",)
        view = engine.code.impact(ImpactRequest("web/cart/view.ts", root=str(root)))
        assert (view.tests, view.notes) == (("web/cart/index.spec.ts",), ())


def test_the_map_lists_hotspots_of_shipped_code_only(tmp_path: Path) -> None:
    sources = {
        "src/Web/Shop.cs": "class Shop {}\n",
        "src/Web/Migrations/20260424000000_Ids.cs": "class Ids {}\n" * 9,
        "src/Web/Migrations/ShopContextModelSnapshot.cs": "class Snapshot {}\n" * 9,
        "sample/src/Other.cs": "class Other {}\n" * 9,
        "web/routeTree.gen.ts": "export const a = 1\n" * 9,
    }
    root = written(tmp_path, sources)
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        settings = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        subprocess.run(["git", *settings, *arguments], cwd=root, check=True, timeout=120)
    with opened(root) as engine:
        hotspots = engine.code.map(MapRequest(str(root))).hotspots
    assert [(one.path, one.score) for one in hotspots] == [("src/Web/Shop.cs", 1.0)]


def test_what_is_made_for_tests_is_no_test(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[workspace]\nmembers = ["lib", "lib/testutils"]\n',
        "lib/Cargo.toml": '[package]\nname = "shop"\n',
        "lib/src/lib.rs": "pub mod store;\n",
        "lib/src/store.rs": "pub struct Time;\n",
        "lib/testutils/Cargo.toml": '[package]\nname = "testutils"\n',
        "lib/testutils/src/lib.rs": "pub mod test_store;\n",
        "lib/testutils/src/test_store.rs": "use shop::store::Time;\npub fn make() -> Time { Time }\n",
        "lib/tests/test_time.rs": "use shop::store::Time;\n#[test]\nfn t() -> Time { testutils::test_store::make() }\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        assert engine.code.impact(ImpactRequest("lib/src/store.rs", root=str(root))).tests == (
            "lib/tests/test_time.rs",
        )


def test_tests_to_run_are_tests_and_reach_implementations_and_users(tmp_path: Path) -> None:
    sources = {
        "app/crud.py": "def create():\n    pass\n",
        "app/deps.py": "def current_user():\n    pass\n",
        "app/items.py": "from app.deps import current_user\n\n\ndef read(u=current_user):\n    pass\n",
        "tests/conftest.py": "from tests.utils.user import user\n",
        "tests/data/test_crud.json": "{}\n",
        "tests/utils/user.py": "from app.crud import create\n\n\ndef user():\n    return create()\n",
        "tests/utils/item.py": "from tests.utils.user import user\n\n\ndef item():\n    return user()\n",
        "tests/test_items.py": "from tests.utils.item import item\n\n\ndef test_item():\n    item()\n",
        "core/src/main/kotlin/tea/Store.kt": "package tea\n\ninterface Store {\n    fun all(): Int\n}\n",
        "core/src/main/kotlin/tea/Cellar.kt": "package tea\n\nclass Cellar : Store {\n    override fun all() = 1\n}\n",
        "core/src/test/kotlin/tea/CellarTest.kt": "package tea\n\nclass CellarTest {\n    val it = Cellar()\n}\n",
        "testing/src/main/kotlin/tea/TestStore.kt": "package tea\n\nclass TestStore : Store {\n"
        "    override fun all() = 2\n}\n",
        "Shop/Cart.cs": "namespace Shop;\npublic class Cart { }\n",
        "Shop.Tests/BaseShopTest.cs": "namespace Shop.Tests;\nusing Shop;\npublic class BaseShopTest { Cart cart; }\n",
        "Shop.Tests/TotalTests.cs": "namespace Shop.Tests;\npublic class TotalTests : BaseShopTest { }\n",
    }
    root = written(tmp_path, sources)
    expected = {
        "app/crud.py": ("tests/test_items.py",),
        "app/deps.py": ("tests/test_items.py",),
        "core/src/main/kotlin/tea/Store.kt": ("core/src/test/kotlin/tea/CellarTest.kt",),
        "Shop/Cart.cs": ("Shop.Tests/TotalTests.cs",),
    }
    with opened(root) as engine:
        found = {path: engine.code.impact(ImpactRequest(path, root=str(root))).tests for path in expected}
    assert found == expected


def test_impact_reaches_the_users_of_interfaces_and_the_senders_of_messages(tmp_path: Path) -> None:
    """Nothing but a container of dependencies and a mediator knows what implements them."""
    sources = {
        "Shop/ICarts.cs": "namespace Shop;\npublic interface ICarts { int Count(); }\n",
        "Shop/Carts.cs": "namespace Shop;\npublic class Carts : ICarts, IMark { public int Count() => 1; }\n",
        "Shop/IMark.cs": "namespace Shop;\npublic interface IMark { }\n",
        "Shop/Marks.cs": "namespace Shop;\npublic class Marks { List<IMark> marks; }\n",
        "Shop/Program.cs": "namespace Shop;\npublic class Program { void Run() { Add<ICarts, Carts>(); } }\n",
        "Shop/Page.cs": "namespace Shop;\npublic class Page(ICarts carts) { int All() => carts.Count(); }\n",
        "Shop/Pay.cs": "namespace Shop;\npublic record Pay(int Sum);\n",
        "Shop/PayHandler.cs": "namespace Shop;\npublic class PayHandler(Log log)\n"
        "    : IRequestHandler<Pay, bool>\n{\n}\n",
        "Shop/Desk.cs": "namespace Shop;\npublic class Desk { void Run() { mediator.Send(new Pay(1)); } }\n",
        "Tests/PageTests.cs": "using Shop;\npublic class PageTests { void Adds() { new Page(Fake<ICarts>()); } }\n",
        "Tests/DeskTests.cs": "using Shop;\npublic class DeskTests { void Sends() { new Desk(); } }\n",
        "till/base.py": "class Till(ABC):\n    def open(self): ...\n",
        "till/plain.py": "from .base import Till\n\n\nclass PlainTill(Till):\n    def open(self):\n        return 1\n",
        "till/page.py": "from .base import Till\n\n\ndef show(till: Till):\n    till.open()\n",
        "go.mod": "module shop\n",
        "disk/disk.go": "package disk\n\ntype Disk struct{}\n\nfunc (d *Disk) ReadAll() int { return 1 }\n",
        "store/store.go": "package store\n\ntype Reader interface {\n\tReadAll() int\n}\n",
        "page/page.go": 'package page\n\nimport "shop/store"\n\n'
        "func Show(r store.Reader) int {\n\treturn r.ReadAll()\n}\n",
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        carts = engine.code.impact(ImpactRequest("Shop/Carts.cs", hops=1, root=str(root)))
        handler = engine.code.impact(ImpactRequest("Shop/PayHandler.cs", hops=1, root=str(root)))
        till = engine.code.impact(ImpactRequest("till/plain.py", root=str(root)))
        disk = engine.code.impact(ImpactRequest("disk/disk.go", root=str(root)))
    assert [one.path for one in till.files] == ["till/page.py"]
    assert [one.path for one in disk.files] == ["page/page.go"]
    assert {one.path: one.via for one in carts.files} == {
        "Shop/Program.cs": "Shop/Carts.cs",
        "Shop/Page.cs": "Shop/ICarts.cs",
        "Tests/PageTests.cs": "Shop/ICarts.cs",
    }
    assert carts.tests == ("Tests/PageTests.cs",)
    assert [one.path for one in handler.files] == ["Shop/Desk.cs"]
    assert handler.tests == ("Tests/DeskTests.cs",)


def test_tests_in_folders_of_the_same_names_and_behind_files_that_pass_names_on(tmp_path: Path) -> None:
    view = "def show():\n    pass\n"
    sources = {
        "shop/users/views.py": view,
        "shop/users/api/views.py": view,
        "shop/users/tests/test_views.py": "def test():\n    pass\n",
        "app/controllers/api/labels_controller.rb": "class LabelsController\nend\n",
        "app/controllers/api/widget/labels_controller.rb": "class LabelsController\nend\n",
        "spec/controllers/api/labels_controller_spec.rb": "describe('a') { }\n",
        "Client/Carts/Basket.cs": "namespace Client;\npublic class Basket { }\n",
        "Web/Carts/Basket.cs": "namespace Web;\npublic class Basket { }\n",
        "tests/Client.UnitTests/BasketTests.cs": "public class BasketTests { }\n",
        "shop/serializers_/rack.py": "class RackSerializer:\n    pass\n",
        "shop/serializers_/__init__.py": "",
        "shop/serializers.py": "from .serializers_.rack import *\n",
        "shop/tests/test_api.py": "from shop.serializers import RackSerializer\n\nRackSerializer()\n",
        "shop/proxy.py": "def find_proxy():\n    pass\n",
        "shop/widgets.py": "from .proxy import find_proxy\n",
        "shop/tests/test_board.py": "def test():\n    patch('shop.widgets.find_proxy')\n",
    }
    expected = {
        "shop/users/views.py": ("shop/users/tests/test_views.py",),
        "app/controllers/api/labels_controller.rb": ("spec/controllers/api/labels_controller_spec.rb",),
        "Client/Carts/Basket.cs": ("tests/Client.UnitTests/BasketTests.cs",),
        "shop/serializers_/rack.py": ("shop/tests/test_api.py",),
        "shop/widgets.py": ("shop/tests/test_board.py",),
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        found = {path: engine.code.impact(ImpactRequest(path, root=str(root))).tests for path in expected}
        assert found == expected
        for path in ("app/controllers/api/widget/labels_controller.rb", "Web/Carts/Basket.cs"):
            unused = engine.code.impact(ImpactRequest(path, root=str(root)))
            assert unused.tests == ()
            note = "no code here names what it offers; a framework may find it by its name or place"
            assert unused.notes == (note,)


def test_impact_of_c_goes_through_headers_that_include_others(tmp_path: Path) -> None:
    sources = {
        "include/shop.h": '#include "shop/cart.h"\n#include "shop/price.h"\n',
        "include/shop/cart.h": "int cart_total(int n);\n",
        "include/shop/price.h": "int price_low(int n);\n",
        "src/cart.c": '#include "shop.h"\nint cart_total(int n) { return n; }\n',
        "src/price.c": '#include "shop.h"\nint price_low(int n) { return n; }\n',
        "src/use.c": '#include "shop.h"\nint use() { return cart_total(1); }\n',
        "src/other.c": '#include "shop.h"\nint other() { return price_low(1); }\n',
    }
    root = written(tmp_path, sources)
    with opened(root) as engine:
        reached = engine.code.impact(ImpactRequest("src/cart.c", hops=1, root=str(root))).files
        through_header = engine.code.impact(ImpactRequest("include/shop/cart.h", hops=1, root=str(root))).files
    assert [one.path for one in reached] == ["src/use.c"]
    assert "src/use.c" in {one.path for one in through_header}
