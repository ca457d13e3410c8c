"""Imports as real codebases write them: each leads to what is meant, or nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from graph_tools import Codebase

# What real codebases do beyond the plain import, and what must not be taken for a file of theirs.
CASES: dict[str, Any] = {
    "a package from which nothing is used leads nowhere": (
        {
            "A.cs": "using Shop.Cart;\nusing Xunit.Abstractions;\nusing Alias = Shop.Cart.Item;\n"
            "using Gone = Shop.Cart.Gone;\nnamespace Shop { class A { } }\n",
            "Item.cs": "namespace Shop.Cart;\npublic class Item {}\n",
            "Other.cs": "namespace Shop.Cart;\npublic class Other {}\n",
            "Xunit.cs": "namespace Xunit;\npublic class Extra {}\n",
            "go.mod": "module example.com/shop\n",
            "main.go": 'package main\nimport _ "example.com/shop/driver"\nfunc main() {}\n',
            "driver/driver.go": "package driver\nfunc init() {}\n",
        },
        {
            "A.cs": ({"Item.cs"}, {"external:Xunit.Abstractions", "unresolved:Shop.Cart.Gone"}),
            "main.go": ({"driver/driver.go"}, set()),
        },
    ),
    "go": (
        {
            "go.mod": "module example.com/shop\n",
            "main.go": 'package main\nimport (\n\t"errors"\n\t"example.com/shop/store/v2"\n\t"lib.org/go-made"\n)\n'
            'func main() { json := store.Open(); errors.New("x"); print(json, made.New()) }\n',
            "new.go": "package main\nfunc New() int { return 1 }\n",
            "store/v2/open.go": "package store\nfunc Open() int { return 1 }\n",
            "store/v2/json.go": "package store\nvar json = 1\n",
        },
        {"main.go": ({"store/v2/open.go"}, {"external:errors", "external:lib.org/go-made"})},
    ),
    "what stands behind a value's dot is the value's": (
        {
            "go.mod": "module example.com/shop\n",
            "main.go": 'package main\nimport "example.com/shop/db"\n'
            "func main() { db.Open().CloseAll(); print(config.Driver, config.Mode) }\n",
            "config.go": 'package main\nvar config = Config{Driver: "x"}\n',
            "mode.go": "package main\ntype Mode int\n",
            "db/open.go": "package db\nfunc Open() *Pool { return nil }\ntype Pool struct{}\n",
            "db/pool.go": "package db\nfunc (p *Pool) CloseAll() {}\n",
            "db/driver.go": "package db\ntype Driver interface{}\nfunc (d *other) driver() {}\n",
            "A.cs": "using Shop.Cart;\nnamespace Shop;\nclass A {\n  Shop.Cart.Shelf shelf;\n"
            "  void F(Box box) { box.Item = box.Names.Take().ToPrettyName(); }\n}\n",
            "Box.cs": "namespace Shop;\nclass Box { public object Item; }\n",
            "Item.cs": "namespace Shop.Cart;\npublic class Item {}\n",
            "Shelf.cs": "namespace Shop.Cart;\npublic class Shelf {}\n",
            "Text.cs": "namespace Shop.Cart;\npublic static class Text\n{\n"
            "  public static string ToPrettyName(this string s) => s;\n}\n",
            "a/Use.java": "package a;\nclass Use { Outer.Inner one; a.Whole two; }\n",
            "a/Outer.java": "package a;\nclass Outer { static class Inner {} }\n",
            "a/Inner.java": "package a;\nclass Inner {}\n",
            "a/Whole.java": "package a;\nclass Whole {}\n",
            "k/Use.kt": "package k\nfun f(a: List<Int>) = a.map(::toName).whole_text()\n",
            "k/Name.kt": "package k\nfun toName(a: Int) = a.toString()\n",
            "k/Joined.kt": "package k\nfun List<String>.whole_text() = joinToString()\n",
        },
        {
            "main.go": ({"db/open.go", "db/pool.go", "config.go"}, set()),
            "A.cs": ({"Box.cs", "Shelf.cs", "Text.cs"}, set()),
            "a/Use.java": ({"a/Outer.java", "a/Whole.java"}, set()),
            "k/Use.kt": ({"k/Name.kt", "k/Joined.kt"}, set()),
        },
    ),
    "a name of one letter before a dot": (
        {
            "go.mod": "module example.com/shop\n",
            "main.go": "package main\nfunc main() { cipher.H.Close() }\n",
            "cipher.go": "package main\nvar cipher Cipher\n",
            "sum.go": "package main\nfunc H() {}\n",
        },
        {"main.go": ({"cipher.go"}, set())},
    ),
    "of two types of one name the nearer": (
        {
            "one/A.cs": "namespace Shop;\nclass A { Item item; }\n",
            "one/Item.cs": "namespace Shop;\npublic class Item {}\n",
            "two/Item.cs": "namespace Shop;\npublic class Item {}\n",
        },
        {"one/A.cs": ({"one/Item.cs"}, set())},
    ),
    "a name that an import settles is not looked for beside": (
        {
            "a/Job.php": "<?php\nnamespace App\\Tests;\nclass Job {}\n",
            "a/Queue.php": "<?php\nnamespace App\\Tests;\nclass Queue {}\nfunction now() {}\n",
            "a/Use.php": "<?php\nnamespace App\\Tests;\nuse Lib\\Job;\nuse Lib\\Queue\\Factory as Made;\n"
            "class Used { function f(Job $job) { return Clock::now(); } }\n",
            "b/One.kt": "package one\nimport lib.date.Clock\nfun f() = Clock.start() + hidden()\n",
            "b/Two.kt": "package one\nfun date() = 1\nprivate fun hidden() = 2\n",
            "b/Three.kt": "package one\nprivate fun date() = 3\nfun g() = date()\n",
        },
        {
            "a/Use.php": (set(), {"external:Lib\\Job", "external:Lib\\Queue\\Factory"}),
            "b/One.kt": (set(), {"external:lib.date.Clock"}),
            "b/Three.kt": (set(), set()),
        },
    ),
    "scala": (
        {
            "a/Above.scala": "package shop\n\nclass Above { def f(x: List[Int]) = x.traverse; val p: Price }\n",
            "a/package.scala": "package shop\n\npackage object cart extends Inherited {\n  type Price = Int\n"
            "  object traverse\n}\n",
            "a/Item.scala": "package shop.cart\n\nclass Item\n",
            "a/Keyword.scala": "package shop.`export`\n\nclass Sent\n",
            "a/Use.scala": "package shop.cart\n\nimport cats.data.Chain\nimport java.io.File\n"
            "class Use { val i: Item }\n",
            "b/Other.scala": "package other\n\nimport shop.cart.Price\nimport shop.cart.inherited\n"
            "import shop.cart\nimport shop.export.Sent\nimport shop.kernel._\nclass Other\n",
        },
        {
            "a/Above.scala": (set(), set()),
            "a/Use.scala": ({"a/Item.scala"}, {"external:cats.data.Chain", "external:java.io.File"}),
            "b/Other.scala": ({"a/package.scala", "a/Keyword.scala"}, {"external:shop.kernel"}),
        },
    ),
    "kotlin": (
        {
            "a/Cart.kt": "package shop\nclass Cart { fun size() = 1 }\nfun Cart.twice() = 2\n",
            "b/Use.kt": "package other\nimport shop.twice\nimport shop.size\n",
        },
        {"b/Use.kt": ({"a/Cart.kt"}, {"unresolved:shop.size"})},
    ),
    "elixir": (
        {
            "lib/a.ex": "defmodule Shop.A do\n  use Mix.Task\n  alias Shop.Store.{Price, Tax}\n  alias Shop.PubSub\n"
            "  alias Shop.Store.Gone\n  alias Shop.Named\n  def f(x), do: Shop.Full.Name.call(x)\n"
            "  def g(x), do: Named.name(Alone.first(x))\nend\n",
            "lib/alone.ex": "defmodule Alone do\nend\n",
            "lib/short.ex": "defmodule Named do\nend\n",
            "lib/store.ex": "defmodule Shop.Store do\nend\n",
            "lib/price.ex": "defmodule Shop.Store.Price do\nend\n",
            "lib/tax.ex": "defmodule Shop.Store.Tax do\nend\n",
            "lib/named.ex": "defprotocol Shop.Named do\n  def name(x)\nend\n",
            "lib/full.ex": "defmodule Shop.Full do\nend\n",
            "lib/name.ex": "defmodule Shop.Full.Name do\nend\n",
            "lib/task.ex": "defmodule Mix.Tasks.Shop do\nend\n",
        },
        {
            "lib/a.ex": (
                {"lib/price.ex", "lib/tax.ex", "lib/named.ex", "lib/name.ex", "lib/alone.ex"},
                {"external:Mix.Task", "external:Shop.PubSub", "unresolved:Shop.Store.Gone"},
            )
        },
    ),
    "c": (
        {
            "src/main.c": '#include "limits.h"\n#include <strings.h>\n#include <sys/time.h>\n#include <sds.h>\n',
            "src/sds.h": "",
            "deps/client/sds.h": "",
            "compat/strings.h": "",
            "compat/sys/time.h": "",
        },
        {
            "src/main.c": (
                {"deps/client/sds.h"},
                {"external:limits.h", "external:<strings.h>", "external:<sys/time.h>"},
            )
        },
    ),
    "python": (
        {
            "scripts/playwright/shot.py": "from playwright.sync_api import x\nfrom playwright import y\n",
            "scripts/playwright/other.py": "",
        },
        {"scripts/playwright/shot.py": (set(), {"external:playwright.sync_api", "external:playwright"})},
    ),
    "typescript": (
        {
            "tsconfig.json": '{"compilerOptions": {"paths": {"#utils": ["./web/utils.ts"]}}}',
            "web/utils.ts": "export const a = 1\n",
            "web/index.ts": "import a from '#utils'\nimport b from './vendor/promise'\n"
            "import c from '../dist/index.js'\n",
        },
        {"web/index.ts": ({"web/utils.ts"}, {"external:./vendor/promise", "external:../dist/index.js"})},
    ),
    "names of elixir that start with an alias": (
        {
            "lib/cell.ex": "defmodule Shop.Cell do\nend\n",
            "lib/cell/code.ex": "defmodule Shop.Cell.Code do\nend\n",
            "lib/page.ex": "defmodule Page do\n  alias Shop.{Cell, Other}\n  def new(), do: %Cell.Code{}\nend\n",
            "lib/shop.ex": "defmodule Shop do\n  alias __MODULE__.{\n    Cell\n  }\n  def a(), do: Cell.Code\nend\n",
        },
        {
            "lib/page.ex": ({"lib/cell.ex", "lib/cell/code.ex"}, set()),
            "lib/shop.ex": ({"lib/cell.ex", "lib/cell/code.ex"}, set()),
        },
    ),
    "extensions of swift": (
        {
            "App/Cart.swift": "struct Cart {\n  var rules: Rules\n  func countItems() {}\n}\n",
            "App/Cart+Rules.swift": "extension Cart {\n  struct Rules {}\n  func checkRules() {}\n}\n",
            "App/Cart+List.swift": "extension Cart: List {\n  func listItems() {}\n}\n",
            "App/String+Lines.swift": "extension String {\n  func firstLines() {}\n  var size: Int { 1 }\n"
            "  func countItems() {}\n}\n",
            "App/Shop.swift": "class Shop {\n  var cart: Cart\n  func open() { cart.checkRules() }\n}\n",
            "App/Other.swift": "func other(it: Rules) { it.checkRules(); it.listItems(); it.size; it.countItems() }\n",
            "App/Text.swift": "func text(it: Page) { it.title.firstLines() }\n",
        },
        {
            "App/Cart.swift": ({"App/Cart+Rules.swift"}, set()),
            "App/Shop.swift": ({"App/Cart.swift", "App/Cart+Rules.swift"}, set()),
            "App/Other.swift": (set(), set()),
            "App/Text.swift": ({"App/String+Lines.swift"}, set()),
        },
    ),
    "zig and swift": (
        {
            "build.zig": 'const m = b.addModule("clap", .{\n    .root_source_file = b.path("src/clap.zig"),\n});\n',
            "src/clap.zig": "pub const a = 1;\n",
            "example/one.zig": 'const clap = @import("clap");\nconst std = @import("std");\n',
            "Package.swift": 'let p = Package(targets: [\n.target(name: "Kit", path: "Sources", resources: []),\n'
            '.testTarget(name: "KitTests", dependencies: ["Kit"])])\n',
            "Sources/Cart.swift": "struct Cart {}\n",
            "Tests/KitTests/CartTests.swift": "import Kit\nlet cart = Cart()\n",
        },
        {
            "example/one.zig": ({"src/clap.zig"}, {"external:std"}),
            "Tests/KitTests/CartTests.swift": ({"Sources/Cart.swift"}, set()),
        },
    ),
    "lua and shell": (
        {
            "lua/shop/init.lua": "local ok, cart = pcall(require, 'shop.cart')\n",
            "lua/shop/cart.lua": "return {}\n",
            "test/run.sh": "\\. ../shop.sh\nsource <(kubectl completion bash)\n",
            "shop.sh": "x() { :; }\n",
        },
        {"lua/shop/init.lua": ({"lua/shop/cart.lua"}, set()), "test/run.sh": ({"shop.sh"}, set())},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_import_leads_to_what_is_meant_or_nowhere(name: str) -> None:
    sources, expected = CASES[name]
    codebase = Codebase(sources)
    for path, links in expected.items():
        assert codebase.links(path) == links, path
