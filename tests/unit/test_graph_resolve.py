"""Imports lead to files: one small codebase a language, written here so that every edge can be checked by eye."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from graph_tools import Codebase

CASES: dict[str, tuple[dict[str, str], dict[str, tuple[set[str], set[str]]]]] = {
    "python": (
        {
            "src/app/__init__.py": "from .core import Engine\n",
            "src/app/core.py": "class Engine: pass\n",
            "src/app/json.py": "",
            "src/app/sub/__init__.py": "",
            "src/app/sub/tool.py": "import json\nfrom .. import core\nfrom ..core import Engine\n"
            "from app.sub import gone\nimport app.lost\n"
            "import requests\n",
            "ns/part/one.py": "from ns.part import two\n",
            "ns/part/two.py": "",
            "tests/helper.py": "",
            "tests/test_a.py": "import helper\nfrom app import Engine, core\n",
            "src/app/urls.py": "urlpatterns = [\n    path('a', include('app.sub.tool')),\n"
            "    path('b', include(\n        ('app.json', 'data'))),\n    path('c', include('other.urls')),\n]\n"
            "plugin = import_module('.core', 'app')\n",
        },
        {
            "src/app/__init__.py": ({"src/app/core.py"}, set()),
            "src/app/sub/tool.py": (
                {"src/app/core.py", "src/app/sub/__init__.py"},
                {"external:json", "unresolved:app.lost", "external:requests"},
            ),
            "ns/part/one.py": ({"ns/part/two.py"}, set()),
            "tests/test_a.py": ({"tests/helper.py", "src/app/__init__.py", "src/app/core.py"}, set()),
            "src/app/urls.py": (
                {"src/app/sub/tool.py", "src/app/json.py", "src/app/core.py"},
                {"external:other.urls"},
            ),
        },
    ),
    "typescript": (
        {
            "tsconfig.json": '{ // paths\n "compilerOptions": { "baseUrl": ".", "paths": { "@/*": ["web/*"], }, } }',
            "package.json": '{"workspaces": ["packages/*"], "imports": {"#config": "./web/config.ts"}}',
            "web/config.ts": "export const a = 1\n",
            "web/index.ts": "import { a } from './config.js'\nimport b from '@/lib'\n"
            "import { x } from '@acme/kit/extra'\n"
            "import kit from '@acme/kit'\nimport './from/style.css'\nimport c from '#config'\n"
            "import r from 'react'\nimport './gone'\nimport f from './Hand.woff2?url'\n",
            "web/lib/index.ts": "export default 1\n",
            "packages/kit/package.json": "\n"
            '{"name": "@acme/kit", "exports": {".": "./dist/index.js", "./*": "./dist/*.js"}}',
            "packages/kit/src/index.ts": "export * from './extra'\n",
            "packages/kit/src/extra.ts": "export const x = 1\n",
        },
        {
            "web/index.ts": (
                {"web/config.ts", "web/lib/index.ts", "packages/kit/src/extra.ts", "packages/kit/src/index.ts"},
                {"external:./from/style.css", "external:react", "unresolved:./gone", "external:./Hand.woff2?url"},
            ),
            "packages/kit/src/index.ts": ({"packages/kit/src/extra.ts"}, set()),
        },
    ),
    "svelte": (
        {
            "web/src/routes/+page.ts": "import { cart } from '$lib/cart.svelte'\n"
            "import Price from '$lib/ui/Price.svelte'\nimport { page } from '$app/state'\n",
            "web/src/lib/cart.svelte.ts": "export const cart = 1\n",
            "web/src/lib/ui/Price.svelte": "<b>1</b>\n",
        },
        {
            "web/src/routes/+page.ts": (
                {"web/src/lib/cart.svelte.ts", "web/src/lib/ui/Price.svelte"},
                {"external:$app/state"},
            ),
        },
    ),
    "go": (
        {
            "go.mod": "module example.com/shop\n",
            "main.go": 'package main\nimport (\n"fmt"\n'
            '"example.com/shop/store"\n)\nfunc main() { fmt.Println(store.Open(), local()) }\n',
            "other.go": "package main\nfunc local() int { return 1 }\n",
            "store/open.go": "package store\nfunc Open() int { return 1 }\n",
            "store/close.go": "package store\nfunc Close() int { return 1 }\n",
        },
        {"main.go": ({"store/open.go", "other.go"}, {"external:fmt"})},
    ),
    "rust": (
        {
            "Cargo.toml": '[package]\nname = "my-app"\n',
            "src/lib.rs": "mod net;\npub mod util;\n",
            "src/util.rs": "pub fn help() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n",
            "src/net/mod.rs": "mod pool;\nuse crate::util::help;\nuse std::io;\n",
            "src/net/pool.rs": "use super::Thing;\nuse crate::util;\n",
            "tests/all.rs": "use my_app::util::help;\nuse serde::Serialize;\n",
        },
        {
            "src/lib.rs": ({"src/net/mod.rs", "src/util.rs"}, set()),
            "src/util.rs": (set(), set()),
            "src/net/mod.rs": ({"src/net/pool.rs", "src/util.rs"}, {"external:std"}),
            "src/net/pool.rs": ({"src/net/mod.rs", "src/util.rs"}, set()),
            "tests/all.rs": ({"src/util.rs"}, {"external:serde"}),
        },
    ),
    "crates of a workspace": (  # only those that the manifest names: others are what an import binds
        {
            "Cargo.toml": '[workspace]\nmembers = ["*"]\n[workspace.dependencies]\nhir-def.path = "hir-def"\n',
            "hir/Cargo.toml": '[package]\nname = "hir"\n[dependencies]\nhir-def.workspace = true\n',
            "hir/src/lib.rs": "use hir_def::hir;\n",
            "hir-def/Cargo.toml": '[package]\nname = "hir-def"\n[target."cfg(unix)".dependencies.span]\n',
            "hir-def/src/lib.rs": "pub mod hir;\npub mod body;\n",
            "hir-def/src/hir.rs": "pub struct Type;\n",
            "hir-def/src/body.rs": "use crate::hir;\nuse span::Span;\nuse hir::Type;\n",
            "span/Cargo.toml": '[package]\nname = "span"\n',
            "span/src/lib.rs": "pub struct Span;\n",
        },
        {
            "hir/src/lib.rs": ({"hir-def/src/hir.rs"}, set()),
            "hir-def/src/body.rs": ({"hir-def/src/hir.rs", "span/src/lib.rs"}, set[str]()),
        },
    ),
    "jvm": (
        {
            "a/Main.java": "package shop;\nimport shop.cart.Cart;\n"
            "import static shop.cart.Prices.total;\nimport java.util.List;\n"
            "import shop.cart.Gone;\nimport shop.cart.R;\nclass Main { Helper h; Cart c; }\n",
            "a/Helper.java": "package shop;\nclass Helper {}\n",
            "b/Cart.java": "package shop.cart;\npublic class Cart {}\n",
            "b/Prices.java": "package shop.cart;\npublic class Prices { static int total() { return 1; } }\n",
            "k/use.kt": "package shop.k\nimport shop.cart.*\nimport shop.k2.twice\nfun f(c: Cart) = twice(c)\n",
            "k/ext.kt": "package shop.k2\nfun Cart.twice() = 2\n",
        },
        {
            "a/Main.java": (
                {"b/Cart.java", "b/Prices.java", "a/Helper.java"},
                {"external:java.util.List", "external:shop.cart.R", "unresolved:shop.cart.Gone"},
            ),
            "k/use.kt": ({"b/Cart.java", "k/ext.kt"}, set()),
        },
    ),
    "c": (
        {
            "src/main.c": '#include "util.h"\n#include <stdio.h>\n#include <lib/api.h>\n'
            '#include "missing.h"\n#include <version>\n',
            "src/util.h": "int help(void);\n",
            "include/lib/api.h": "int api(void);\n",
            "old/lib/api.h": "int api(void);\n",
            "data/version": "1\n",
            "include/modules/clock.h": '#include "bar.h"\n',
            "include/modules/sway/bar.h": "int sway_bar(void);\n",
            "include/bar.h": "int bar(void);\n",
        },
        {
            "src/main.c": (
                {"src/util.h", "include/lib/api.h"},
                {"external:<stdio.h>", "unresolved:missing.h", "external:<version>"},
            ),
            "include/modules/clock.h": ({"include/bar.h"}, set()),
        },
    ),
    "csharp": (
        {
            "A.cs": "using Shop.Cart;\nusing System.Linq;\nnamespace Shop { class A { Item item; Near n; } }\n",
            "Item.cs": "namespace Shop.Cart;\npublic class Item {}\n",
            "Other.cs": "namespace Shop.Cart;\npublic class Other {}\n",
            "Near.cs": "namespace Shop;\npublic class Near {}\n",
            "Till/Till.csproj": '<Project><ItemGroup><Using Include="Shop" /></ItemGroup></Project>',
            "Till/Properties/GlobalUsings.cs": "\ufeffglobal using Shop.Cart;\n",
            "Till/Till.cs": "namespace Till;\nclass Till { Other other; Near near; }\n",
            "Stock/Stock.cs": "namespace Stock;\nclass Stock { Other other; }\n",
        },
        {
            "A.cs": ({"Item.cs", "Near.cs"}, {"external:System.Linq"}),
            "Till/Till.cs": ({"Other.cs", "Near.cs"}, set()),
            "Stock/Stock.cs": (set(), set()),
        },
    ),
    "php": (
        {
            "composer.json": '{"autoload": {"psr-4": {"App\\\\": "src/"}}}',
            "src/Http/Kernel.php": "<?php\nnamespace App\\Http;\nuse App\\Models\\User;\n"
            "use App\\Gone;\nuse Psr\\Log;\n"
            "class Kernel extends Base { function f(User $u) {} }\n",
            "src/Http/Base.php": "<?php\nnamespace App\\Http;\nclass Base {}\n",
            "src/Models/User.php": "<?php\nnamespace App\\Models;\nclass User {}\n",
            "routes/web.php": "<?php\nuse App\\Http as Web;\nget('/', [Web\\Kernel::class, 'f']);\n"
            "bind(App\\Models\\User::class, \\Other\\User::class);\n",
        },
        {
            "src/Http/Kernel.php": (
                {"src/Models/User.php", "src/Http/Base.php"},
                {"unresolved:App\\Gone", "external:Psr\\Log"},
            ),
            "routes/web.php": ({"src/Http/Kernel.php", "src/Models/User.php"}, set()),
        },
    ),
    "ruby": (
        {
            "lib/shop.rb": "require 'shop/cart'\nrequire_relative 'shop/price'\n"
            "require 'json'\nautoload :User, 'shop/user'\n",
            "lib/shop/cart.rb": "",
            "lib/shop/price.rb": "",
            "lib/shop/user.rb": "",
        },
        {"lib/shop.rb": ({"lib/shop/cart.rb", "lib/shop/price.rb", "lib/shop/user.rb"}, {"external:json"})},
    ),
    "by name or path": (
        {
            "lib/a.ex": "defmodule Shop.A do\n  alias Shop.B\nend\n",
            "lib/b.ex": "defmodule Shop.B do\nend\n",
            "src/Main.hs": "module Main where\nimport Data.List\nimport Shop.Cart\n",
            "src/Shop/Cart.hs": "module Shop.Cart where\n",
            "lua/shop/init.lua": "local c = require('shop.cart')\n",
            "lua/shop/cart.lua": "return {}\n",
            "z/main.zig": 'const std = @import("std");\nconst c = @import("cart.zig");\n',
            "z/cart.zig": "pub const a = 1;\n",
            "bin/run.sh": 'source "$(dirname "$0")/common.sh"\n. ./env.sh\n',
            "bin/common.sh": "x() { :; }\n",
            "bin/env.sh": "y() { :; }\n",
        },
        {
            "lib/a.ex": ({"lib/b.ex"}, set()),
            "src/Main.hs": ({"src/Shop/Cart.hs"}, {"external:Data.List"}),
            "lua/shop/init.lua": ({"lua/shop/cart.lua"}, set()),
            "z/main.zig": ({"z/cart.zig"}, {"external:std"}),
        },
    ),
    "dart": (
        {
            "app/pubspec.yaml": "name: shop\ndependencies:\n  kit:\n    path: ../kit\n",
            "app/lib/main.dart": "import 'dart:io';\nimport 'package:flutter/material.dart';\n"
            "import 'package:shop/cart.dart' as cart;\nimport 'package:kit/kit.dart' show Kit;\n"
            "import 'src/gone.dart';\nimport 'src/io.dart' if (dart.library.html) 'src/web.dart';\n",
            "app/lib/cart.dart": "export 'src/price.dart';\npart 'cart.g.dart';\npart 'item.dart';\nclass Cart {}\n",
            "app/lib/item.dart": "part of 'cart.dart';\nclass Item { Cart? cart; }\n",
            "app/lib/src/price.dart": "library;\nclass Price {}\n",
            "app/lib/src/io.dart": "",
            "app/lib/src/web.dart": "",
            "app/lib/old.dart": "library shop.old;\npart 'older.dart';\nclass Old {}\n",
            "app/lib/older.dart": "part of shop.old;\nclass Older extends Old {}\n",
            "app/test/cart_test.dart": "import 'package:shop/cart.dart';\nimport '../lib/src/price.dart';\n",
            "kit/pubspec.yaml": "name: kit\n",
            "kit/lib/kit.dart": "class Kit {}\n",
        },
        {
            "app/lib/main.dart": (
                {"app/lib/cart.dart", "kit/lib/kit.dart", "app/lib/src/io.dart", "app/lib/src/web.dart"},
                {"external:dart:io", "external:package:flutter/material.dart", "unresolved:src/gone.dart"},
            ),
            "app/lib/cart.dart": ({"app/lib/src/price.dart", "app/lib/item.dart"}, {"external:cart.g.dart"}),
            "app/lib/item.dart": ({"app/lib/cart.dart"}, set()),
            "app/lib/older.dart": ({"app/lib/old.dart"}, set()),
            "app/test/cart_test.dart": ({"app/lib/cart.dart", "app/lib/src/price.dart"}, set()),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_imports_lead_where_they_should(name: str) -> None:
    sources, expected = CASES[name]
    codebase = Codebase(sources)
    for path, links in expected.items():
        assert codebase.links(path) == links, path


# What is searched may be a part of a project: its files name each other from above. Root, sources, a file's links.
PARTS: dict[str, Any] = {
    "python": (
        "/home/me/star/shop",
        {
            "__init__.py": "from shop.cart import Cart\n",
            "cart.py": "import json\nimport shop\nfrom shop import price\nfrom shop.gone import x\nimport shopping\n",
            "price.py": "",
            "json.py": "",
        },
        {
            "__init__.py": ({"cart.py"}, set()),
            "cart.py": ({"__init__.py", "price.py"}, {"external:json", "unresolved:shop.gone", "external:shopping"}),
        },
    ),
    "python, deeper": (
        "/home/me/acme/shop",
        {"__init__.py": "", "cart.py": "from acme.shop.price import x\n", "price.py": ""},
        {"cart.py": ({"price.py"}, set())},
    ),
    "python, no package": (
        "/home/me/django",
        {"db.py": "", "app.py": "from django.db import models\nimport db\n"},
        {"app.py": ({"db.py"}, {"external:django.db"})},
    ),
    "c++": (
        "/home/me/include/shop",
        {"base/log.h": "", "cart.h": '#include "shop/base/log.h"\n#include <shop/gone.h>\n#include <string>\n'},
        {"cart.h": ({"base/log.h"}, {"external:<shop/gone.h>", "external:<string>"})},
    ),
    "lua": (
        "/home/me/lua/shop",
        {"init.lua": "", "util/init.lua": "", "cart.lua": "require('shop')\nrequire('shop.util')\nrequire('other')\n"},
        {"cart.lua": ({"init.lua", "util/init.lua"}, {"external:other"})},
    ),
    "ruby": (
        "/home/me/lib/shop",
        {"cart.rb": "require 'shop/price'\nrequire 'json'\n", "price.rb": ""},
        {"cart.rb": ({"price.rb"}, {"external:json"})},
    ),
    "rust": (
        "/home/me/shop/src",
        {
            "lib.rs": "mod cart;\nmod price;\n",
            "cart/mod.rs": "use crate::price::Price;\nuse serde::de;\n",
            "price.rs": "",
        },
        {"cart/mod.rs": ({"price.rs"}, {"external:serde"})},
    ),
    "swift": (
        "/home/me/Sources/Shop",
        {"Cart/Cart.swift": "struct Cart { var price: Price }\n", "Price/Price.swift": "struct Price {}\n"},
        {"Cart/Cart.swift": ({"Price/Price.swift"}, set())},
    ),
    "swift, flat": (
        "/home/me/Sources",
        {"Cart.swift": "struct Cart { var price: Price }\n", "Price.swift": "struct Price {}\n"},
        {"Cart.swift": ({"Price.swift"}, set())},
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_project_knows_its_own_files(name: str) -> None:
    root, sources, expected = PARTS[name]
    codebase = Codebase(sources, root)
    for path, links in expected.items():
        assert codebase.links(path) == links, path


def test_a_part_of_a_package_is_read_as_its_configuration_above_says() -> None:
    above = {
        "../package.json": '{"name": "@acme/kit", "exports": {".": "./dist/index.js", "./*": "./dist/*.js"}}',
        "../tsconfig.json": '{"extends": "../../tsconfig.base.json"}',
        "../../../tsconfig.base.json": '{"compilerOptions": {"paths": {"~/*": ["./packages/kit/src/*"]}}}',
    }
    sources = {
        "index.ts": "import a from '@acme/kit/cart'\nimport b from '~/price'\nimport c from '@acme/other'\n"
        "import d from '../package.json'\nimport e from '@acme/kit/gone'\nimport f from './lost'\n",
        "cart.ts": "export default 1\n",
        "price.ts": "import kit from '@acme/kit'\n",
    }
    codebase = Codebase(sources, "/home/me/work/packages/kit/src", above)
    outside = {"external:@acme/other", "external:../package.json", "external:@acme/kit/gone", "unresolved:./lost"}
    assert codebase.links("index.ts") == ({"cart.ts", "price.ts"}, outside)
    assert codebase.links("price.ts") == ({"index.ts"}, set())


def test_a_folder_of_a_package_of_dart_knows_the_name_of_the_package() -> None:
    sources = {
        "cart.dart": "import 'package:shop/src/price.dart';\nimport 'package:shop/src/gone.dart';\n"
        "import '../bin/x.dart';\npart 'src/item.dart';\nclass Cart {}\n",
        "src/item.dart": "part of '../cart.dart';\nclass Item extends Cart {}\n",
        "src/price.dart": "",
    }
    codebase = Codebase(sources, "/home/me/shop/lib", {"../pubspec.yaml": "name: shop\n"})
    outside = {"unresolved:package:shop/src/gone.dart", "external:../bin/x.dart"}
    assert codebase.links("cart.dart") == ({"src/price.dart", "src/item.dart"}, outside)
    assert codebase.links("src/item.dart") == ({"cart.dart"}, set())


def test_configurations_are_looked_for_up_to_the_repository(tmp_path: Path) -> None:
    from codeinfo.graph.code_index import configs_above

    for folder in ("", "repo", "repo/packages/kit"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "package.json").write_text(f'{{"name": "{folder or "stray"}"}}')
    (tmp_path / "repo/.git").mkdir()
    root = tmp_path / "repo/packages/kit/src"
    root.mkdir()
    os.mkfifo(tmp_path / "repo/packages/tsconfig.json")  # which must not be waited for
    assert configs_above(root) == {
        "../../tsconfig.json": "",
        "../package.json": '{"name": "repo/packages/kit"}',
        "../../../package.json": '{"name": "repo"}',
    }


def test_of_several_headers_an_include_means_the_one_that_is_written_so() -> None:
    written = '#include "refs.h"\n#include "posix.h"\n'
    headers = "include/git2/refs.h src/lib/refs.h src/util/posix.h src/util/unix/posix.h src/util/win32/posix.h"
    codebase = Codebase({"tests/refs.c": written, **dict.fromkeys(headers.split(), "int a;\n")})
    assert codebase.links("tests/refs.c") == ({"src/lib/refs.h", "src/util/posix.h"}, set())


def test_routes_of_phoenix_lead_to_modules_below_their_scope() -> None:
    sources = {
        "lib/web/router.ex": 'defmodule Web.Router do\n  scope "/", Web do\n    live "/", HomeLive, :page\n'
        '    get "/cart", Shop.CartController, :show\n\n    scope "/admin", Admin do\n'
        '      live "/users", UserLive\n    end\n  end\nend\n',
        "lib/web/home_live.ex": "defmodule Web.HomeLive do\nend\n",
        "lib/web/cart_controller.ex": "defmodule Web.Shop.CartController do\nend\n",
        "lib/web/user_live.ex": "defmodule Web.Admin.UserLive do\nend\n",
        "lib/other/home_live.ex": "defmodule Other.HomeLive do\nend\n",
    }
    found, _ = Codebase(sources).links("lib/web/router.ex")
    assert found == {f"lib/web/{name}.ex" for name in ("home_live", "cart_controller", "user_live")}


def test_what_rust_inserts_into_its_code_is_needed() -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "shop"\n',
        "src/main.rs": 'const PAGE: &str = include_str!("../pages/cart.html");\n'
        'fn main() { include!("made.rs"); include_bytes!("logo.png"); html::show(); }\n',
        "src/made.rs": "1;\n",
        "src/html.rs": "pub fn show() {}\n",
        "pages/cart.html": "<p>\n",
    }
    edges, loose = Codebase(sources).links("src/main.rs")
    assert edges >= {"src/made.rs", "pages/cart.html"}
    assert loose == {"external:logo.png"}
