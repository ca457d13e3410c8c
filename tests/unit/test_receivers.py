"""What stands before a name tells whose it is: each language's own words for it, on small codebases."""

from __future__ import annotations

from pathlib import Path

import pytest
from patience import is_quick

from codeinfo import Config, Engine
from codeinfo.operations.code import RefsRequest

# Sources, the name asked for, its uses as file:line, with a mark where only the name fits.
_ROUTES = """Rails.application.routes.draw do
  root to: "carts#show"  # resources :carts
  resources :carts, except: :show do
    member do
      get :preview
    end
    post "pay", on: :collection
  end
  namespace :admin do
    resources :carts, only: %i[show index],
      path: "baskets" do
      get :preview if Rails.env.test?
    end
  end
  scope module: :v1 do
    controller :carts do
      get "old", action: :preview
    end
  end
end
"""
_CONTROLLER = "class CartsController\n  def show = 1\n\n  def preview = 2\nend\n"
CASES = {
    "an extension is the type it extends": (
        {
            "Cart.swift": "class Cart {}\n",
            **{f"Cart{n}.swift": f"extension Cart {{\n    func part{n}(_ cart: Cart) {{}}\n}}\n" for n in range(4)},
            "Use.swift": "func use(cart: Cart) {}\n",
        },
        "Cart2.swift::Cart",
        {"Use.swift:1", *(f"Cart{n}.swift:2" for n in range(4))},
        0,
    ),
    "a module of Swift with a type of its name": (
        {
            "Sources/Cart/Cart.swift": "public enum Cart<Item> {\n    case empty\n}\n",
            "Tests/CartTests/CartTests.swift": "@testable import Cart\n\nlet one: Cart<Int> = .empty\n"
            "let two = Cart<Int>.empty\n",
        },
        "Cart",
        {"Tests/CartTests/CartTests.swift:3", "Tests/CartTests/CartTests.swift:4"},
        0,
    ),
    "methods of Rust in other files than their type": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": "mod add;\nmod pay;\nmod run;\n\npub struct Cart;\n\npub struct Other;\n",
            "src/add.rs": "use crate::Cart;\n\nimpl Cart {\n    pub fn add(&self) {}\n}\n",
            "src/pay.rs": "use crate::Cart;\n\nimpl Cart {\n    fn pay(&self) {\n        self.add();\n    }\n}\n"
            "impl crate::Other {\n    fn add(&self) {}\n\n    fn pay(&self) {\n        self.add();\n    }\n}\n",
            "src/run.rs": "use super::*;\n\nfn run(cart: &Cart, other: &Other) {\n    cart.add();\n"
            "    other.add();\n}\n",
        },
        "Cart.add",
        {"src/pay.rs:5", "src/run.rs:4"},
        0,
    ),
    "a class of C# in many files": (
        {
            "Cart.cs": "namespace Shop;\npublic partial class Cart\n{\n    public Cart Next() => this;\n}\n",
            **{
                f"Cart{n}.cs": f"namespace Shop;\npartial class Cart\n{{\n    int Part{n}() => Next().Part0();\n}}\n"
                for n in range(4)
            },
            "Other.cs": "namespace Far;\npublic class Cart { public int Part0() => 1; }\n",
            "Use.cs": "using Shop;\nclass Use\n{\n    int Run() => new Cart().Part0();\n}\n",
        },
        "Cart3.cs::Cart",
        {"Cart.cs:4", "Use.cs:4"},
        0,
    ),
    "variables of Swift inside of properties": (
        {
            "Rule.swift": "struct Rule {\n    static let first = Rule { cart in\n        let total = cart.sum\n"
            "        return total + 1\n    }\n    var shown: Int {\n"
            "        guard let total = Int(name) else { return 0 }\n        return total\n    }\n"
            "    let name: String\n}\n",
            "Cart.swift": "struct Cart {\n    let total: Int\n    func go() { print(total) }\n}\n",
        },
        "total",
        {"Cart.swift:3"},
        0,
    ),
    "types of Swift in their forms": (
        {
            "Cart.swift": "protocol Priced {\n    func total()\n}\n",
            "Other.swift": "class Other {\n    func total() {}\n}\n",
            "Use.swift": "class Use {\n    let some: any Priced\n    let many: [Priced]\n"
            "    func find() -> Priced? { nil }\n"
            "    func use() {\n        some.total()\n        for one in many { one.total() }\n"
            "        if let found = find() {\n            found.total()\n        }\n"
            "        guard let here = find() else { return }\n        here.total()\n    }\n}\n",
        },
        "Priced.total",
        {"Use.swift:6", "Use.swift:7", "Use.swift:9", "Use.swift:12"},
        0,
    ),
    "a parameter of a closure of Swift called like its receiver": (
        {
            "Cart.swift": "struct State {\n    var total: Int\n}\nstruct Locked<Value> {\n    func read() {}\n}\n",
            "Use.swift": "class Use {\n    let state = Locked(State(total: 0))\n    func use() {\n"
            "        state.read { state in\n            state.total = 1\n        }\n    }\n}\n",
        },
        "total",
        {"Use.swift:5 ?"},
        0,
    ),
    "a variable of Swift passed to its own method": (
        {
            "Use.swift": "class Use {\n    let state = Locked()\n    func use() {\n        state.read { state in\n"
            "            print(state)\n        }\n        switch self {\n        case let .open(state): print(state)\n"
            "        }\n    }\n}\n",
        },
        "state",
        {"Use.swift:4"},
        0,
    ),
    "what extensions of Swift add to containers, and protocols ask of them": (
        {
            "Cart.swift": "struct Cart {}\nprotocol Counted {\n    var count: Int { get }\n}\n"
            "extension Collection<Cart> {\n    var total: Int { 1 }\n}\nextension Array: Counted {}\n",
            "Other.swift": "struct Other {\n    let total: Int\n}\n",
            "Use.swift": "func use(carts: [Cart], other: Array<Cart>) {\n    print(carts.total)\n"
            "    print(carts.count, other.count)\n}\n",
        },
        "Cart.swift::Collection.total",
        set(),
        1,
    ),
    "members that an attribute of Swift adds": (
        {
            "Locked.swift": "@dynamicMemberLookup\nstruct Locked<Value> {}\n\nstruct State {\n    var total: Int\n}\n",
            "Use.swift": "func use(state: Locked<State>) {\n    print(state.total)\n}\n",
        },
        "State.total",
        {"Use.swift:2 ?"},
        0,
    ),
    "strings of Swift that start like a comment": (
        {
            "Cart.swift": 'class Cart {\n    func open() { take("/*") }\n    func total() { take("*/") }\n}\n'
            "class Other {\n    func total() {}\n}\n",
            "Use.swift": "func use(cart: Cart) {\n    cart.total()\n}\n",
        },
        "Cart.total",
        {"Use.swift:2"},
        0,
    ),
    "methods added to strings": (
        {
            "Text.swift": "extension String {\n    func slug() -> String { self }\n}\n",
            "Use.swift": 'func use() {\n    print("a b".slug())\n}\n',
            "Text.kt": "package shop\n\nfun String.slug() = this\n",
            "Use.kt": 'package shop\n\nfun use() = "a b".slug()\n',
            "Cart.kt": "package shop\n\nclass Cart {\n    fun slug() = 1\n}\n",
        },
        "slug",
        {"Use.swift:2", "Use.kt:3"},
        0,
    ),
    "records of C#": (
        {
            "Item.cs": "namespace Shop;\npublic record Item(int Id, string Name);\npublic record Other(int Id);\n",
            "Use.cs": "using Shop;\nclass Use\n{\n    int Run(Item item) => item.Id;\n"
            "    int Far(Other other) => other.Id;\n}\n",
        },
        "Item.Id",
        {"Use.cs:4"},
        0,
    ),
    "arguments of Kotlin by name": (
        {
            "Cart.kt": "package shop\n\nclass Cart(val title: String) {\n    class Item(val title: String)\n}\n",
            "Use.kt": "package shop\n\nclass Use {\n    fun make(title: String) = Cart(title = title)\n"
            '    fun use() {\n        make(title = "a")\n        Cart.Item(title = "b")\n    }\n}\n',
        },
        "title",
        {"Use.kt:4", "Use.kt:7"},
        0,
    ),
    "a variable of Go made by the package of its name": (
        {
            "go.mod": "module shop\n\ngo 1.22\n",
            "cart/cart.go": "package cart\n\nfunc New() int { return 1 }\n",
            "use.go": 'package main\n\nimport "shop/cart"\n\nfunc main() {\n\tcart := cart.New()\n\tprint(cart)\n}\n',
        },
        "New",
        {"use.go:6"},
        0,
    ),
    "a cast inside of a value": (
        {
            "cart.ts": "export class Cart {\n  total() {}\n}\n",
            "use.ts": 'import { Cart } from "./cart"\n\nexport function use(cart: Cart) {\n'
            "  const many = cart.map((one) => {\n    const shown = one as Item\n    return [shown]\n  })\n"
            "  many.total()\n}\n",
        },
        "Cart.total",
        {"use.ts:8 ?"},
        0,
    ),
    "types from outside called like ours": (
        {
            "src/Cart.java": "package shop;\nclass Cart {\n  static class Context {}\n  Context own;\n}\n",
            "src/Use.java": "package app;\nimport org.far.Context;\nclass Use {\n  Context a = new Context();\n}\n",
            "src/Same.java": "package app;\nimport org.far.*;\nclass Same {\n  Context a;\n}\n",
            "src/Named.java": "package app;\nimport shop.Cart;\nclass Named {\n  Cart.@Nullable Context a;\n}\n",
            "List.kt": "package shop\n\nclass Screen {\n    object Context : Screen()\n}\n\nval one: Context = 1\n",
            "Cart.swift": "struct Screen {\n    struct Context {}\n    let own: Context\n}\nlet far: Context\n",
            "Cart.cs": "namespace Shop;\nclass Screen\n{\n    class Context {}\n    Context own;\n}\n"
            "class Use { Context far; }\n",
        },
        "Context",
        {"src/Cart.java:4", "src/Named.java:4", "Cart.swift:3", "Cart.cs:5"},
        0,
    ),
    "members of types from outside": (
        {
            "src/Cart.java": "package shop;\nclass Cart {\n  static int max(int a) { return Math.max(a, 1); }\n}\n",
            "src/Use.java": "package app;\nimport static java.lang.Math.max;\nclass Use {\n  int a = max(1, 2);\n}\n",
        },
        "max",
        set(),
        0,
    ),
    "names of Kotlin in backticks": (
        {
            "Test.kt": "package shop\n\nclass T {\n    @Test\n    fun `counts the total of a cart`() = total()\n}\n",
            "Cart.kt": "package shop\n\nfun total() = 1\n",
        },
        "total",
        {"Test.kt:5"},
        0,
    ),
    "packages in imports": (
        {
            "src/Cart.java": "package shop.user;\nclass Cart {\n  String user;\n  int f() { return this.user; }\n}\n",
            "src/Use.java": "package app;\nimport shop.user.Cart;\nimport org.user.service.Far;\nimport org.user.*;\n"
            "class Use {}\n",
        },
        "user",
        {"src/Cart.java:4"},
        0,
    ),
    "what a container of Kotlin gives": (
        {
            "Cart.kt": "package shop\n\nclass Cart {\n    fun total() {}\n}\n",
            "Other.kt": "package shop\n\nclass Other {\n    fun total() {}\n}\n",
            "Use.kt": "package shop\n\nclass Use {\n    private val one: Cart by inject()\n"
            "    private val two by injectLazy<Cart>()\n    private val three by lazy { Injekt.get<Cart>() }\n"
            "    private val four by lazy { Cart() }\n\n    fun use() {\n        one.total()\n        two.total()\n"
            "        three.total()\n        four.total()\n        val five = koin.get<Cart>()\n        five.total()\n"
            "    }\n}\n",
        },
        "Cart.total",
        {"Use.kt:10", "Use.kt:11", "Use.kt:12", "Use.kt:13", "Use.kt:15"},
        0,
    ),
    "annotations of Kotlin": (
        {
            "Debug.kt": "package core\n\nimport di.Qualifier\n\n@Qualifier\n@Target(Kind.FIELD)\n"
            "@Retention(Keep.RUNTIME)\nannotation class Debug\n",
            "Use.kt": "package far\n\nimport core.Debug\n\nclass Use(@Debug val isDebug: Boolean)\n",
        },
        "Debug",
        {"Use.kt:3", "Use.kt:5"},
        0,
    ),
    "components of Vue in both spellings, and known to all files": (
        {
            "src/UserCard.vue": "<template>\n  <p />\n</template>\n",
            "src/Page.vue": '<script setup>\nimport UserCard from "./UserCard.vue"\n</script>\n\n<template>\n'
            "  <user-card />\n  <UserCard></UserCard>\n</template>\n",
            "src/Far.vue": "<template>\n  <UserCard />\n</template>\n",
        },
        "UserCard",
        {"src/Page.vue:2", "src/Page.vue:6", "src/Page.vue:7", "src/Far.vue:2 ?"},
        0,
    ),
    "objects that variables of TypeScript hold": (
        {
            "auth.ts": "export const auth = {\n  login: async () => {\n    return 1\n  },\n\n  logout() {\n"
            "    return { login: 2 }\n  },\n}\n",
            "query.ts": "export const query = {\n  login() {},\n}\n",
            "use.ts": 'import { auth } from "./auth"\nimport { query } from "./query"\n\n'
            "export const run = () => {\n  auth.login()\n  query.login()\n}\n",
        },
        "auth.ts::login",
        {"use.ts:5"},
        0,
    ),
    "C with a calling convention before a name": (
        {
            "map.h": "typedef LONG (WINAPI *open_fn)(\n    HANDLE /* A_HANDLE */ *handle, int n);\n",
            "use.c": '#include "map.h"\nint use(open_fn open) { return 1; }\n',
        },
        "map.h::open_fn",
        {"use.c:2"},
        0,
    ),
    "C with a function for each platform": (
        {
            "map.h": "int p_map(int n);\n",
            "unix/map.c": '#include "map.h"\nint p_map(int n) { return n; }\n',
            "win32/map.c": '#include "map.h"\nint p_map(int n) { return n; }\n',
            "use.c": '#include "map.h"\nint use() { return p_map(1); }\n',
        },
        "map.h::p_map",
        {"use.c:2"},
        0,
    ),
    "C with a macro around the name of a type": (
        {
            "map.h": "typedef int A_CALLBACK(map_cb)(int n);\n",
            "use.c": '#include "map.h"\nint use(map_cb cb) { return 1; }\n',
        },
        "map.h::map_cb",
        {"use.c:2"},
        0,
    ),
    "records of Java, and variables called like methods": (
        {
            "Bucket.java": "package shop;\n\nrecord Bucket(String name, Size size) {}\n\nrecord Size(int width) {}\n",
            "Other.java": "package shop;\n\nclass Other {\n    int width() { return 1; }\n}\n",
            "Use.java": "package shop;\n\nclass Use {\n    int use(Bucket bucket) {\n"
            "        var width = width(bucket);\n        return width;\n    }\n\n    int width(Bucket bucket) {\n"
            "        return bucket.size().width();\n    }\n}\n",
        },
        "Size.width",
        {"Use.java:10"},
        0,
    ),
    "a variable that is bound to what a method of its name returns": (
        {
            "Use.java": "package shop;\n\nclass Use {\n    int use() {\n        var width = width();\n"
            "        return width + width();\n    }\n\n    int width() {\n        return 1;\n    }\n}\n",
            "Use.kt": "package shop\n\nclass Open {\n    fun use(): Int {\n        val width = width()\n"
            "        return width\n    }\n\n    fun width() = 1\n}\n",
        },
        "width",
        {"Use.java:5", "Use.java:6", "Use.kt:5"},
        0,
    ),
    "routes of Phoenix": (
        {
            "lib/web/router.ex": 'defmodule Web.Router do\n  scope "/", Web do\n'
            '    live "/", HomeLive, :page\n  end\nend\n',
            "lib/web/home_live.ex": "defmodule Web.HomeLive do\nend\n",
            "lib/other/home_live.ex": "defmodule Other.HomeLive do\nend\n",
        },
        "lib/web/home_live.ex::Web.HomeLive",
        {"lib/web/router.ex:3"},
        0,
    ),
    "the function that a used module is told to run": (
        {
            "lib/web.ex": "defmodule Web do\n  def html, do: 1\n\n"
            "  defmacro __using__(which), do: apply(__MODULE__, which, [])\nend\n",
            "lib/web/home.ex": "defmodule Web.Home do\n  use Web, :html\nend\n",
            "lib/other/home.ex": "defmodule Other.Home do\n  def html, do: 2\nend\n",
        },
        "Web.html",
        {"lib/web/home.ex:2"},
        0,
    ),
    "a function of TypeScript that makes what its argument names": (
        {
            "di.ts": "export function get<T extends Made>(service: T): InstanceType<T> {\n"
            "  return box.bind(service)\n}\n",
            "jar.ts": "export class Jar {\n  fill() {}\n}\n",
            "other.ts": "export class Other {\n  fill() {}\n}\n",
            "use.ts": 'import { get } from "./di"\nimport { Jar } from "./jar"\n\nconst lazy = () => get(Jar)\n'
            "const jar = get(Jar)\njar.fill()\nlazy().fill()\nlet made: InstanceType<typeof Jar>\nmade.fill()\n",
        },
        "Jar.fill",
        {"use.ts:6", "use.ts:7", "use.ts:9"},
        0,
    ),
    "texts of Kotlin with names in them": (
        {
            "Keys.kt": 'package shop\n\nconst val TAG = 1\n\nval url = "x/$TAG/y"\nval more = """$TAG ${TAG}"""\n'
            'val no = "\\$TAG"\n'
        },
        "TAG",
        {"Keys.kt:5", "Keys.kt:6"},
        0,
    ),
    "traits of PHP": (
        {
            "src/Concerns/HasTax.php": "<?php\n\nnamespace App\\Concerns;\n\ntrait HasTax\n{\n"
            "    public function tax() {}\n}\n",
            "src/Other.php": "<?php\n\nnamespace App;\n\nclass Other\n{\n    public function tax() {}\n}\n",
            "src/Cart.php": "<?php\n\nnamespace App;\n\nclass Cart\n{\n    use Concerns\\HasTax;\n\n"
            "    public function total()\n    {\n        return $this->tax();\n    }\n}\n",
        },
        "HasTax.tax",
        {"src/Cart.php:11"},
        0,
    ),
    "facades of Laravel": (
        {
            "src/CartManager.php": "<?php\n\nnamespace App;\n\nclass CartManager\n{\n    public function low() {}\n}\n",
            "src/Other.php": "<?php\n\nnamespace App;\n\nclass Other\n{\n    public function low() {}\n}\n",
            "src/Facades/Cart.php": "<?php\n\nnamespace App\\Facades;\n\nuse App\\CartManager;\n"
            "use Illuminate\\Support\\Facades\\Facade;\n\n/**\n * @see CartManager\n */\nclass Cart extends Facade\n{\n"
            "    protected static function getFacadeAccessor()\n    {\n        return 'cart';\n    }\n}\n",
            "src/Use.php": "<?php\n\nnamespace App;\n\nuse App\\Facades\\Cart;\n\nfunction run()\n{\n"
            "    return Cart::low();\n}\n",
        },
        "CartManager.low",
        {"src/Use.php:9"},
        0,
    ),
    "methods that Lombok writes": (
        {
            "Device.java": "package shop;\n\nimport lombok.*;\n\n@Data @Builder\nclass Device {\n"
            "    private Spec spec;\n    private boolean isOpen;\n\n    @Data @Builder\n    static class Spec {\n"
            "        private String name;\n        private String ip;\n    }\n}\n",
            "Util.java": "package shop;\n\nclass Util {\n    static String getIp() { return null; }\n}\n",
            "Use.java": "package shop;\n\nclass Use {\n    String use(Device device) {\n"
            '        device.getSpec().setIp("a");\n        Util.getIp();\n        var spec = Device.Spec.builder()\n'
            '            .name("b")\n            .ip("c")\n            .build();\n        print(spec.getIp());\n'
            "        return device.getSpec().getIp();\n    }\n}\n",
        },
        "Spec.ip",
        {"Use.java:5", "Use.java:9 ?", "Use.java:11", "Use.java:12"},
        0,
    ),
    "a block or a cast before the dot": (
        {
            "Cart.kt": "package shop\n\nclass Cart {\n    fun total() {}\n}\n\nclass Page {\n    fun turn() {}\n}\n",
            "Use.kt": "package shop\n\nfun use(all: List<Cart>, page: Any) {\n    all.filter { it.a }.first().total()\n"
            "    when (all) {\n        1 -> 2\n    }\n        .total()\n"
            "    val cart = (page as? Page)?.let(::open)\n    cart.total()\n}\n",
        },
        "Cart.total",
        {"Use.kt:4", "Use.kt:8 ?", "Use.kt:10 ?"},
        0,
    ),
    "extensions of Kotlin": (
        {
            "Row.kt": "package shop\n\nfun Modifier.padded(): Modifier = this\n\nfun Cart.padded() = 1\n\n"
            "val Shop.padded get() = 2\n",
            "Types.kt": "package shop\n\nclass Cart\n\nobject Shop\n\nclass Box {\n    fun padded() {}\n}\n",
            "Use.kt": "package shop\n\nimport ui.Modifier\n\nfun use(cart: Cart, box: Box) {\n    Modifier.padded()\n"
            "    Modifier\n        .size(1)\n        .padded()\n    cart.padded()\n    box.padded()\n"
            "    Shop.padded\n}\n",
            "far/Far.kt": "package far\n\nimport shop.padded\n\nfun far() {\n    Modifier.size(2).padded()\n}\n",
        },
        "Modifier.padded",
        {"Use.kt:6", "Use.kt:9", "far/Far.kt:6"},
        0,
    ),
    "an extension of Kotlin for a type of several arguments": (
        {
            "Set.kt": "package core\n\nfun <T> Set<T>.mutate(action: (T) -> Unit): Set<T> = this\n",
            "Other.kt": "package other\n\nclass Other {\n    fun mutate() {}\n}\n",
            "Use.kt": "package far\n\nimport core.mutate\n\nclass Use(private val all: Set<Int>) {\n"
            "    fun use() = all.mutate { it }\n}\n",
        },
        "Set.mutate",
        {"Use.kt:3", "Use.kt:6"},
        0,
    ),
    "components and functions that a bundler imports": (
        {
            "package.json": "{}",
            "src/components.d.ts": "declare module 'vue' {\n  export interface GlobalComponents {\n"
            "    UserCard: typeof import('./components/user/Card.vue')['default']\n  }\n}\n",
            "src/components/user/Card.vue": "<template>\n  <p />\n</template>\n",
            "src/pages/Home.vue": "<template>\n  <UserCard />\n</template>\n",
        },
        "UserCard",
        {"src/pages/Home.vue:2"},
        0,
    ),
    "components that Nuxt calls by their folders": (
        {
            "nuxt.config.ts": "export default {}\n",
            "components/user/Card.vue": "<template>\n  <p />\n</template>\n",
            "components/shop/Card.vue": "<template>\n  <UserCard />\n  <ShopCard />\n</template>\n",
        },
        "components/user/Card.vue::Card",
        {"components/shop/Card.vue:2"},
        0,
    ),
    "names of JavaScript that end with a dollar sign": (
        {
            "cart.ts": "export const cart$ = 1;\nexport const cart = 2;\n",
            "use.ts": 'import { cart$ } from "./cart";\nexport const sum = cart$ + 1;\n',
        },
        "cart.ts::cart$",
        {"use.ts:1", "use.ts:2"},
        0,
    ),
    "what is new in Kotlin": (
        {
            "Cart.kt": "package shop\n\nclass Cart {\n    fun total() {}\n}\n",
            "Field.kt": "package shop\n\nclass Screen(\n    private val cart: Cart,\n) : Model() {\n\n"
            "    val state: Flow<Int>\n        field = MutableFlow<Int>(1)\n\n    fun show() {\n        cart.total()\n"
            '        log { "on ${cart.name}" }\n    }\n}\n',
            "Name.kt": "package shop\n\nclass Names(private val cart: Cart) : Model() {\n    context(_: Log)\n"
            '    fun load() {\n        val query = $$"""\n            |query Load($id: Int!) { "a" }\n        """\n'
            "        val first = none { it }\n        set(first, query)\n        first.apply {\n"
            '            private = 1\n        }\n        cart.total()\n        log("on ${cart.name}")\n    }\n}\n',
        },
        "Cart.total",
        {"Field.kt:11", "Name.kt:14"},
        0,
    ),
    "parameters of Kotlin that are functions or may be null": (
        {
            "Model.kt": "package shop\n\nclass Model {\n    fun onTap(name: String) {}\n}\n",
            "Screen.kt": 'package shop\n\nfun Bar(onTap: (String) -> Unit) {\n    onTap("a")\n}\n\n'
            'fun Screen(model: Model?) {\n    Bar(onTap = model::onTap)\n    model.onTap("b")\n'
            "    Bar(\n        onTap = {},\n    )\n}\n",
        },
        "Model.onTap",
        {"Screen.kt:8", "Screen.kt:9"},
        0,
    ),
    "parameters of Swift that are functions or may be nil": (
        {
            "Model.swift": "class Model {\n    func onTap(_ name: String) {}\n}\n",
            "Screen.swift": 'func bar(onTap: (String) -> Void) {\n    onTap("a")\n}\n\n'
            'func screen(model: Model?) {\n    model.onTap("b")\n}\n',
        },
        "Model.onTap",
        {"Screen.swift:6"},
        0,
    ),
    "variables of C++ with plain types": (
        {
            "shop.h": "#pragma once\nnamespace shop {\nbool equal(int a);\n}\n",
            "shop.cc": '#include "shop.h"\nnamespace shop {\nbool equal(int a) { return a; }\n'
            "bool one(int a, bool equal = true) { return equal; }\n"
            "bool two(int a) {\n  const bool equal = a;\n  return equal;\n}\n"
            "bool three(int a) { return equal(a); }\n}\n",
            "shop_test.cc": '#include "shop.h"\nusing namespace shop;\nTEST(Shop, equal) {\n  EXPECT(equal(1));\n}\n',
        },
        "shop.cc::shop.equal",
        {"shop.cc:9", "shop_test.cc:4"},
        0,
    ),
    "C++ with values of inferred types": (
        {
            "cart.h": "class Cart {\n public:\n  static Cart* make();\n  void add(int n);\n};\n",
            "use.cc": '#include "cart.h"\nvoid use() {\n  auto* cart = Cart::make();\n  cart->add(1);\n}\n'
            "void more(int old) {\n  Cart cart(old);\n  cart.add(2);\n}\n",
        },
        "Cart.add",
        {"use.cc:4", "use.cc:8"},
        0,
    ),
    "overloads have variables of their own": (
        {
            "Form.swift": "class Form {\n    func append(_ url: URL, mimeType: String) {}\n"
            "    func append(_ url: URL) {\n        append(url, mimeType: mimeType(of: url))\n    }\n"
            "    private func mimeType(of url: URL) -> String {}\n}\n",
            "Use.swift": 'func use(form: Form) {\n    form.append(url, mimeType: "a/b")\n'
            "    form.each { mimeType in print(mimeType) }\n}\n",
        },
        "Form.mimeType",
        {"Form.swift:4"},
        0,
    ),
    "Swift's existential types": (
        {
            "Model.swift": "protocol Tapped {\n    func onTap()\n}\n",
            "Use.swift": "func use(_ model: any Tapped) {\n    model.onTap()\n}\n",
        },
        "Tapped.onTap",
        {"Use.swift:2"},
        0,
    ),
    "properties that C# sets where it makes an object": (
        {
            "Cart.cs": "class Cart {\n    public int Count { get; set; }\n}\nclass Other {\n    public int Count;\n}\n",
            "Use.cs": "class Use {\n    int Count;\n    void Run(object o, List<Cart> carts, int Count) {\n"
            "        var cart = new Cart { Count = 1 };\n        Log(Count: 3);\n"
            "        if (o is Cart made) { Log(made.Count); }\n"
            "        foreach (var one in carts) { Log(one.Count); }\n"
            "        Take(out Cart taken); Log(taken.Count);\n    }\n}\n",
        },
        "Cart.Count",
        {"Use.cs:4", "Use.cs:6", "Use.cs:7", "Use.cs:8"},
        0,
    ),
    "constructors without brackets": (
        {
            "Cart.cs": "class Cart {\n    public Cart() { }\n    public int Count;\n}\n",
            "Use.cs": "class Use {\n    Cart last = new Cart { Count = 1 };\n    object Run() => new Cart\n    {\n"
            "        Count = 2,\n    };\n    Cart[] all = new Cart[3];\n}\n",
        },
        "Cart.Cart",
        {"Use.cs:2", "Use.cs:3"},
        0,
    ),
    "variables of Java": (
        {
            "Cart.java": "class Cart extends RuntimeException {\n    int total() { return 1; }\n    String names;\n"
            "    void list(String... names) { print(names); }\n"
            "    void use(Object o) {\n        if (o instanceof Cart other) { other.total(); }\n"
            "        try { run(); } catch (Cart failed) { failed.total(); }\n    }\n}\n",
            "Other.java": "class Other {\n    int total() { return 2; }\n}\n",
        },
        "Cart.total",
        {"Cart.java:6", "Cart.java:7"},
        0,
    ),
    "parameters of Java that may be many": (
        {
            "Cart.java": "class Cart {\n    String names;\n    void list(String... names) { print(names); }\n"
            "    void show() { print(names); }\n}\n",
        },
        "Cart.names",
        {"Cart.java:4"},
        0,
    ),
    "properties of C# that are called like their types": (
        {
            "Range.cs": "enum Range { Low, High }\n",
            "Stream.cs": "class Stream {\n    public Range Range { get; set; }\n    Range Pick(bool low) {\n"
            "        var first = Range == null;\n        return low ? Range.Low : Range;\n    }\n"
            "    List<Range> All = new();\n}\n",
        },
        "Range.cs::Range",
        {"Stream.cs:2", "Stream.cs:3", "Stream.cs:5", "Stream.cs:7"},
        0,
    ),
    "fields of PHP and Java are not called": (
        {
            "Kernel.php": "<?php\nclass Kernel {\n    protected $layers = [];\n}\n",
            "Use.php": "<?php\nfunction use_it($one) {\n    $one->layers('web');\n    return $one->layers;\n}\n",
            "Use.java": "class Use {\n    void run(Object one) {\n        one.layers();\n    }\n}\n",
        },
        "Kernel.layers",
        {"Use.php:4 ?"},
        0,
    ),
    "types that PHP checks for": (
        {
            "Plugin.php": "<?php\nnamespace Shop;\ninterface Plugin {}\ninterface Capable {\n    function list();\n}\n",
            "Other.php": "<?php\nnamespace Shop;\nclass Other {\n    function list() {}\n}\n",
            "Use.php": "<?php\nnamespace Shop;\nclass Manager {\n    function run(Plugin $plugin, $other) {\n"
            "        if (!($plugin instanceof Capable)) {\n            return;\n        }\n        $plugin->list();\n"
            "        $other->list();\n    }\n    function more(Plugin $plugin) {\n        $plugin->list();\n    }\n}\n",
        },
        "Capable.list",
        {"Use.php:8"},
        2,  # what another Plugin has may be meant in `more`
    ),
    "types that Python checks for": (
        {
            "shop.py": "class Item: ...\n\n\nclass Gift(Item):\n    def wrap(self): ...\n\n\n"
            "class Other:\n    def wrap(self): ...\n",
            "use.py": "from shop import Gift, Item, Other\n\n\ndef use(item: Item, other):\n"
            "    if isinstance(item, Gift):\n        item.wrap()\n    if isinstance(other, (Other, Gift)):\n"
            "        other.wrap()\n",
        },
        "Gift.wrap",
        {"use.py:6"},
        1,
    ),
    "dart": (
        {
            "cart.dart": "class Cart {\n  Cart.of(Shop shop);\n  void add() {}\n  Cart next() => this;\n"
            "  void twice() {\n    add();\n    this\n      ..add()\n      ..next();\n  }\n}\n",
            "big.dart": "import 'cart.dart';\n\nclass Big extends Cart {\n  void more(List<Cart> all, add) {\n"
            "    super.add();\n    add();\n    for (final one in all) {\n      one?.add();\n    }\n"
            "    all.first.add();\n  }\n}\n",
            "use.dart": "import 'cart.dart' as shop;\n\nshop.Cart? last;\nfinal made = shop.Cart.of(x);\n\n"
            "void use(shop.Cart cart, Other other) {\n  cart.next().add();\n  made.add();\n  last!.next();\n"
            "  final c = const shop.Cart.of(x);\n  c.add();\n  other.add();\n  print('${cart.add()}');\n"
            "  run(add: 1);\n}\n",
            "apart.dart": "void add() {}\n\nvoid all() {\n  add();\n}\n",
        },
        "Cart.add",
        {
            *("cart.dart:6", "big.dart:5", "big.dart:8"),
            *("use.dart:7", "use.dart:8", "use.dart:11", "use.dart:13"),
        },
        3,  # a cascade, the first element of a list, and something of an unknown type
    ),
    "extensions of Dart": (
        {
            "cart.dart": "class Cart {}\nclass Big extends Cart {}\n",
            "prices.dart": "import 'cart.dart';\n\nextension Prices on Cart {\n  int get total => 1;\n"
            "  int twice() => 2 * total;\n}\n",
            "use.dart": "import 'cart.dart';\nimport 'prices.dart';\n\nint use(Big cart) {\n  return cart.total;\n}\n",
            "other.dart": "class Other {\n  int total = 1;\n}\nint use(Other other) => other.total;\n",
        },
        "Prices.total",
        {"prices.dart:5", "use.dart:5"},
        0,
    ),
    "parts of a library of Dart": (
        {
            "state.dart": "import 'base.dart';\npart 'done.dart';\n\nclass _Hidden {}\nfinal first = Done();\n",
            "done.dart": "part of 'state.dart';\n\nclass Done extends Base {\n  final _Hidden it = _Hidden();\n}\n",
            "base.dart": "export 'src/base.dart';\nimport 'other.dart';\n",
            "src/base.dart": "class Base {}\n",
            "other.dart": "class _Hidden {}\nclass Base2 {}\n",
        },
        "state.dart::_Hidden",
        {"done.dart:4"},
        0,
    ),
    "what a library of Dart imports and exports": (
        {
            "state.dart": "import 'base.dart';\npart 'done.dart';\n",
            "done.dart": "part of 'state.dart';\n\nclass Done extends Base {}\n",
            "base.dart": "export 'src/base.dart';\n",
            "src/base.dart": "class Base {}\n",
            "user.dart": "import 'state.dart';\n\nBase? flutter;\n",
        },
        "Base",
        {"done.dart:3"},
        0,
    ),
    "php": (
        {
            "Base.php": "<?php\nnamespace Shop; class Base {\n    function build() {}\n    function run() {\n"
            "        $this->build();\n        $other->build();\n    }\n}\n",
            "Sub.php": "<?php\nnamespace Shop; class Sub extends Base {\n    function build() {\n"
            "        parent::build();\n    }\n}\n",
            "Mixed.php": "<?php\nnamespace Shop; trait Mixed {\n    function go() {\n"
            "        $this->build();\n    }\n}\n",
        },
        "Base.build",
        {"Base.php:5", "Sub.php:4"},
        2,
    ),
    "csharp": (
        {
            "Base.cs": "namespace Shop; class Base {\n    public virtual void Build() {}\n}\n",
            "Sub.cs": "namespace Shop; class Sub : Base {\n    public override void Build() {\n"
            "        base.Build();\n    }\n}\n",
        },
        "Base.Build",
        {"Sub.cs:3"},
        0,
    ),
    "lua": (
        {
            "lua/shop/util.lua": "local M = {}\nfunction M.norm(x)\n  return x\nend\nfunction M.other(y)\n"
            "  local norm = M.name(y)\n  return norm\nend\nreturn M\n",
            "lua/shop/use.lua": "local Util = require('shop.util')\nlocal function f(x)\n  return Util.norm(x)\nend\n",
            "lua/shop/more.lua": "return setmetatable({}, { __index = require('shop.util') })\n",
            "lua/shop/far.lua": "local More = require('shop.more')\nMore.norm(1)\n",
        },
        "M.norm",
        {"lua/shop/use.lua:3", "lua/shop/far.lua:2 ?"},
        0,
    ),
    "a line that rebinds its receiver": (
        {
            "walk.py": "class Leaf:\n    def next(self) -> 'Leaf': ...\n\n\nclass Node:\n"
            "    def next(self) -> Leaf: ...\n\n\ndef walk():\n    x = Node()\n    x = x.next()\n    x.next()\n"
            "\n\ndef pass_on():\n    x = Node()\n    x = print(x.next())\n",
        },
        "Node.next",
        {"walk.py:11", "walk.py:17"},
        0,
    ),
    "types that extend each other": (
        {
            "loop.py": "class A(B):\n    pass\n\n\nclass B(A):\n    pass\n\n\ndef go(one: A):\n    one.run()\n",
            "own.py": "class Own:\n    def run(self): ...\n",
        },
        "Own.run",
        set(),
        0,
    ),
    "helpers in templates of Rails": (
        {
            "app/helpers/cart_helper.rb": "module CartHelper\n  def total_of(cart)\n    label_of(cart)\n  end\n\n"
            "  def label_of(cart) = cart\nend\n",
            "app/views/cart/show.html.erb": "<h1>total_of</h1>\n<%# total_of(@cart) %>\n<%= total_of(@cart) %>\n"
            "<% if total_of @cart %>\n  <p>total_of(1)</p>\n<% end %>\n",
            "lib/total.rb": "def total_of(cart) = 1\n",
        },
        "CartHelper.total_of",
        {"app/views/cart/show.html.erb:3", "app/views/cart/show.html.erb:4"},
        0,
    ),
    "methods that a controller hands to templates": (
        {
            "app/controllers/carts_controller.rb": "class CartsController\n  helper_method :caption\n\n"
            "  private\n\n  def caption = 1\nend\n",
            "app/views/carts/show.html.erb": "<%= caption %>\n",
            "app/models/cart.rb": "class Cart\n  def caption = 2\nend\n",
        },
        "CartsController.caption",
        {"app/views/carts/show.html.erb:1", "app/controllers/carts_controller.rb:2"},
        0,
    ),
    "methods that a class of Ruby hands on by their names": (
        {
            "app/base.rb": "class Base\n  def guard = 1\nend\n",
            "app/carts.rb": "class Carts < Base\n  before_action :guard, only: [:show]\n  validates :a, if: :guard\n\n"
            "  def show\n    fetch(:guard)\n  end\nend\n",
            "app/far.rb": "class Far\n  before_action :guard\nend\n",
        },
        "Base.guard",
        {"app/carts.rb:2", "app/carts.rb:3", "app/carts.rb:6 ?", "app/far.rb:2 ?"},
        0,
    ),
    "components and functions in templates of Phoenix": (
        {
            "lib/web/parts.ex": "defmodule Web.Parts do\n  def badge(assigns), do: 1\n  def busy?(job), do: job\nend\n",
            "lib/web/page_html.ex": "defmodule Web.PageHTML do\n  import Web.Parts\n  alias Web.Parts\n"
            '  embed_templates "page_html/*"\nend\n',
            "lib/web/page_html/home.html.heex": "<.badge :if={busy?(@job)} />\n<Parts.badge>\n  badge\n"
            "</Parts.badge>\n<p title={@badge}>badge()</p>\n",
        },
        "Web.Parts.badge",
        {"lib/web/page_html/home.html.heex:1", "lib/web/page_html/home.html.heex:2"},
        0,
    ),
    "templates of Blade": (
        {
            "app/helpers.php": "<?php\n\nfunction can_buy($cart) { return true; }\n",
            "app/Cart.php": "<?php\n\nnamespace App;\n\nclass Cart\n{\n    public function buy()\n    {\n"
            "        return can_buy($this);\n    }\n}\n",
            "resources/views/cart.blade.php": "<p>can_buy(1)</p>\n{{-- can_buy(1) --}}\n@if(can_buy($cart))\n"
            '    {{ can_buy($cart) }} @can_buy\n@endif\n<x-card :open="can_buy($cart)" />\n'
            '<div :class="can_buy(cart)"></div>\n',
        },
        "can_buy",
        {"app/Cart.php:9", *(f"resources/views/cart.blade.php:{line}" for line in (3, 4, 6))},
        0,
    ),
    "methods of a component that its template of Blade calls like variables": (
        {
            "Field.php": "<?php\n\nnamespace App;\n\nclass Field\n{\n    public function getMask() {}\n}\n",
            "field.blade.php": '<input x-mask="{{ $getMask() }}" />\n',
        },
        "Field.getMask",
        {"field.blade.php:1 ?"},
        0,
    ),
    "classes of PHP in no namespace": (
        {
            "cart.php": "<?php\nclass Cart { function add() {} }\n",
            "page.php": "<?php\nfunction show(Cart $cart) { $cart->add(); }\n$cart = new Cart();\n",
            "far.php": "<?php\nnamespace Far;\nfunction show(Cart $cart) { return new \\Cart(); }\n",
        },
        "Cart",
        {"page.php:2", "page.php:3", "far.php:3"},
        0,
    ),
    "constants that a class of Ruby inherits": (
        {
            "app/base.rb": "class Base\n  LIMIT = 3\n\n  def total = 1\nend\n",
            "app/cart.rb": "class Cart < Base\n  def show\n    limit = 1\n    LIMIT\n  end\nend\n",
        },
        "Base.LIMIT",
        {"app/cart.rb:4"},
        0,
    ),
    "variables of an object that are called like a method": (
        {
            "app/cart.rb": "class Cart\n  def total\n    @total ||= 1\n  end\nend\n",
            "app/views/cart/show.html.erb": "<%= @total %>\n",
        },
        "Cart.total",
        set(),
        0,
    ),
    "actions and classes that strings of Rails name": (
        {
            "app/controllers/line_items_controller.rb": "class LineItemsController\n  def show\n  end\n\n"
            "  def edit\n  end\nend\n",
            "config/routes.rb": 'get "/a" => "line_items#show"\nget "/b", to: "line_items#edit"\n',
        },
        "LineItemsController.show",
        {"config/routes.rb:1"},
        0,
    ),
    "classes of Ruby whose name is a whole string": (
        {
            "app/models/line_item.rb": "class LineItem\nend\n",
            "lib/use.rb": 'where(type: "LineItem")\nraise "no LineItem"\n',
        },
        "LineItem",
        {"lib/use.rb:1"},
        0,
    ),
    "actions that routes of Laravel name": (
        {
            "app/Http/PageController.php": "<?php\n\nnamespace App\\Http;\n\nclass PageController\n{\n"
            "    public function show() {}\n\n    public function edit() {}\n}\n",
            "routes/web.php": "<?php\n\nuse App\\Http\\PageController;\nuse App\\Http as H;\n\n"
            "Route::get('/a', [PageController::class, 'show']);\n"
            "Route::get('/b', [H\\PageController::class, 'show']);\n"
            "Route::get('/c', [PageController::class, 'edit']);\nRoute::get('/d', [Other::class, 'show']);\n",
        },
        "PageController.show",
        {"routes/web.php:6", "routes/web.php:7"},
        0,
    ),
    "settings of Django": (
        {
            "site/settings.py": "LIMIT = 1\n",
            "site/other.py": "LIMIT = 2\n",
            "shop/cart.py": "from django.conf import settings\n\n\ndef total():\n    return settings.LIMIT\n",
            "shop/test_cart.py": "@override_settings(LIMIT=3)\ndef test_total():\n    make(LIMIT=1)\n",
        },
        "site/settings.py::LIMIT",
        {"shop/cart.py:5", "shop/test_cart.py:1"},
        0,
    ),
    "models of Django by their application and name": (
        {
            "shop/models.py": "class Cart:\n    pass\n",
            "far/models.py": "class Cart:\n    pass\n",
            "use.py": 'from django.apps import apps\n\nCart = apps.get_model("shop", "Cart")\n',
        },
        "shop/models.py::Cart",
        {"use.py:3"},
        0,
    ),
    "fixtures that a mark names": (
        {
            "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef cart():\n    return 1\n",
            "tests/test_cart.py": 'import pytest\n\n\n@pytest.mark.usefixtures("other", "cart")\n'
            "def test_total():\n    pass\n",
        },
        "cart",
        {"tests/test_cart.py:4"},
        0,
    ),
    "modules of Erlang": (
        {
            "lib/a.ex": "defmodule A do\n  def sleep(n), do: n\nend\n",
            "lib/b.ex": "defmodule B do\n  import A\n  def run, do: :timer.sleep(sleep(1))\n"
            "  def go, do: :timer.sleep(1)\nend\n",
        },
        "A.sleep",
        {"lib/b.ex:3"},
        0,
    ),
    "methods that the markup of a component of Vue calls": (
        {
            "List.vue": '<template>\n  <b @click="rename(1)">{{ rename() }}</b>\n</template>\n\n<script>\n'
            "export default {\n  methods: {\n    rename(x) {\n      rename(x);\n    },\n  },\n};\n</script>\n",
            "Other.vue": '<template>\n  <b @click="rename(1)" />\n</template>\n',
        },
        "rename",
        {"List.vue:2"},
        0,
    ),
    "filters and tags of Django": (
        {
            "shop/templatetags/shop_tags.py": "from django import template\n\nregister = template.Library()\n\n\n"
            '@register.filter("price")\ndef show_price(x): ...\n',
            "shop/templates/shop/cart.html": "{% load i18n shop_tags %}\n{{ cart.total|price }}\n{{ price }}\n"
            "{# {{ x|price }} #}\n{% comment %}{{ x|price }}{% endcomment %}\n{% if x|price:1 > 2 %}{% endif %}\n",
            "shop/templates/shop/plain.html": "{% if x|price %}{% endif %}\n",
        },
        "show_price",
        {"shop/templates/shop/cart.html:2", "shop/templates/shop/cart.html:6"},
        0,
    ),
    "what an environment of Jinja is given": (
        {
            "app.py": "from prices import show_price\n\n\ndef make(app):\n"
            '    app.jinja_env.filters["price"] = show_price\n',
            "prices.py": "def show_price(x): ...\n",
            "templates/cart.jinja": "{%- set price = 2 -%}\n{{ (cart.total + price)|round|price }}\n",
        },
        "show_price",
        {"app.py:1", "app.py:5", "templates/cart.jinja:2"},
        0,
    ),
    "macros of Jinja": (
        {
            "web/templates/forms.html": "{% macro field(x, size='s') -%}\n  {{ x.label }}\n{%- endmacro %}\n",
            "web/templates/cart.html": '{% from "forms.html" import field as row %}\n{{ row(form.name) }}\n',
            "web/templates/user.html": '{% import "forms.html" as forms with context %}\n'
            "{{ forms.field(form.name, size=field) }}\n{{ field }}\n",
            "web/field.py": "def field(x): ...\n",
        },
        "web/templates/forms.html::field",
        {"web/templates/cart.html:1", "web/templates/cart.html:2", "web/templates/user.html:2"},
        0,
    ),
    "links to a route of Django": (
        {
            "shop/views.py": "def cart(request): ...\n",
            "shop/urls.py": 'from django.urls import path\n\nfrom . import views\n\napp_name = "shop"\n'
            'urlpatterns = [\n    path(\n        "cart/",\n        views.cart,\n        name="cart-page",\n    ),\n'
            '    path("pay/", views.pay, name="pay"),\n]\n',
            "shop/templates/shop/list.html": "{% url 'shop:cart-page' 1 as link %}\n{% url 'cart-page' %}\n"
            "{% url 'shop:pay' %}\n{% include 'cart-page' %}\n",
            "shop/pay.py": 'from django.urls import reverse\n\nA = reverse("shop:cart-page")\nB = reverse(\n'
            '    "blog:cart-page"\n)\nC = reverse(\n    "shop:cart-page",\n)\nD = "cart.html"\n',
        },
        "cart",
        {"shop/urls.py:9", "shop/templates/shop/list.html:1", "shop/pay.py:3", "shop/pay.py:8"},
        0,
    ),
    "links to a route of Flask": (
        {
            "shop.py": 'from flask import Blueprint\n\npages = Blueprint("shop", __name__)\n\n\n'
            '@pages.route("/cart")\n@guard\ndef cart(): ...\n',
            "app.py": '@app.route("/pay")\ndef pay():\n    url_for("blog.cart")\n    url_for("shop.cart")\n',
            "templates/list.html": '{% if x %}{{ url_for("shop.cart") }}{% endif %}\n{{ url_for("cart") }}\n',
        },
        "cart",
        {"app.py:4", "templates/list.html:1"},
        0,
    ),
    "a route whose name another one has": (
        {
            "a/urls.py": 'from .views import one\n\nurlpatterns = [path("a/", one, name="list")]\n',
            "a/views.py": "def one(request): ...\n",
            "b/urls.py": 'from .views import two\n\nurlpatterns = [path("a/", two, name="list")]\n',
            "b/views.py": 'def two(request): ...\n\n\nA = reverse("list")\n',
        },
        "one",
        {"a/urls.py:1", "a/urls.py:3"},
        0,
    ),
    **{
        f"routes of Rails in blocks, {asked}": (
            {
                "config/routes.rb": _ROUTES,
                "app/controllers/carts_controller.rb": _CONTROLLER,
                "app/controllers/admin/carts_controller.rb": f"module Admin\n{_CONTROLLER}end\n",
                "app/controllers/v1/carts_controller.rb": f"module V1\n{_CONTROLLER}end\n",
            },
            f"app/controllers/{asked}",
            {f"config/routes.rb:{line}" for line in lines},
            unattributed,
        )
        for asked, lines, unattributed in (
            ("carts_controller.rb::CartsController", (2, 3, 5, 7), 0),
            ("carts_controller.rb::CartsController.show", (2,), 2),
            ("carts_controller.rb::CartsController.preview", (5,), 2),
            ("admin/carts_controller.rb::Admin.CartsController", (10, 12), 0),
            ("admin/carts_controller.rb::Admin.CartsController.show", (10,), 1),
            ("v1/carts_controller.rb::V1.CartsController.preview", (17,), 2),
        )
    },
    "symbols that a list of Ruby hands on": (
        {
            "app/base.rb": "class Base\n  before_action :log, only: %i[show]\n  before_action %i[\n    guard\n  ]\n\n"
            "  def show = %i[guard log]\n\n  def guard = 1\nend\n",
        },
        "guard",
        {"app/base.rb:4", "app/base.rb:7 ?"},
        0,
    ),
    "what Twig is given": (
        {
            "src/Twig/Prices.php": "<?php\n\nnamespace App\\Twig;\n\nclass Prices\n{\n"
            "    public function getFilters(): array\n    {\n"
            "        return [new TwigFilter('price', [$this, 'showPrice'])];\n    }\n\n"
            "    public function showPrice($x) { }\n}\n",
            "templates/cart.html.twig": "{% set price = 1 %}\n{{ cart.total|price }} {{ price }}\n",
        },
        "showPrice",
        {"templates/cart.html.twig:2"},
        0,
    ),
    "links to a route of Symfony": (
        {
            "src/CartController.php": "<?php\n\nnamespace App;\n\n#[Route('/cart', name: 'cart_')]\n"
            "class CartController\n{\n    #[Route('/{id}', name: 'show')]\n    public function show() { }\n\n"
            "    public function pay()\n    {\n"
            "        return $this->redirectToRoute('cart_show');\n    }\n}\n",
            "templates/list.html.twig": "{{ path('cart_show', {id: 1}) }}\n{{ path('show') }} {% if x %}{% endif %}\n",
        },
        "CartController.show",
        {"src/CartController.php:13", "templates/list.html.twig:1"},
        0,
    ),
    "what a template uses of a value": (
        {
            "cart.py": "class Cart:\n    def discount(self): ...\n",
            "templates/cart.html": "{% for x in carts %}\n{{ x.discount }} {{ discount }}\n{% endfor %}\n",
            "app/cart.component.html": "{{ x.discount }}\n",
        },
        "discount",
        {"templates/cart.html:2 ?"},
        0,
    ),
    "what a key of TypeScript chooses": (
        {
            "kernel.ts": "export interface Kernel {\n  io: Io\n}\n\nexport interface Io {\n  save(): void\n}\n\n"
            "export const pick = <K extends keyof Kernel>(name: K): NonNullable<Kernel[K]> => kernel[name]\n",
            "use.ts": 'import { pick } from "./kernel"\n\nconst io = () => pick("io")\n\n'
            "export const run = () => io().save()\n",
        },
        "Io.save",
        {"use.ts:5 ?"},
        0,
    ),
    "the same import in many functions": (
        {
            "item.py": "class Item: ...\n",
            "other.py": "class Item: ...\n",
            "use.py": "".join(f"def f{n}():\n    from item import Item\n    return Item()\n" for n in range(4)),
        },
        "item.py::Item",
        {f"use.py:{3 * n + line}" for n in range(4) for line in (2, 3)},
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_receiver_tells_whose_a_name_is(name: str, tmp_path: Path) -> None:
    sources, asked, expected, unattributed = CASES[name]
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        report = engine.code.references(RefsRequest(asked, str(tmp_path)))
    found = {f"{use.file}:{use.line}{'' if use.confidence == 'resolved' else ' ?'}" for use in report.usages}
    assert (found, report.unattributed) == (expected, unattributed)


def test_files_that_templates_render(tmp_path: Path) -> None:
    """`refs` of a file lists where others render it, and a component is used where its tag is."""
    sources = {
        "app/views/shop/_cart.html.erb": "<p></p>\n",
        "app/views/shop/show.html.erb": '<%= render "cart", cart: @cart %>\n<%= render partial: "shop/cart" %>\n',
        "app/controllers/shop_controller.rb": "class ShopController\n  def show\n  end\nend\n",
        "app/View/Components/PriceTag.php": "<?php\n\nnamespace App\\View\\Components;\n\nclass PriceTag {}\n",
        "app/Pages.php": "<?php\n\nnamespace App;\n\nclass Pages\n{\n    public function show()\n    {\n"
        "        return view('shop.list');\n    }\n}\n",
        "resources/views/shop/list.blade.php": "@extends('layouts.app')\n@include('shop.item', ['a' => 1])\n"
        "<x-price-tag/>\n",
        "resources/views/shop/item.blade.php": "<p></p>\n",
        "resources/views/layouts/app.blade.php": "<p></p>\n",
        "src/CartController.php": "<?php\n\n$this->render('cart/show.html.twig', []);\n",
        "templates/cart/show.html.twig": "{% import 'macros.html.twig' as macros %}\n{{ macros.row(cart.name) }}\n",
        "templates/macros.html.twig": "{% if x %}{{ y.z }}{% endif %}\n{% macro row(name) %}{{ name }}{% endmacro %}\n",
        "web/views.py": 'def show(request):\n    return render(request, "shop/cart.html")\n\n\nclass Pay:\n'
        '    template_name = "pay.html"\n    about = "cart.html"\n',
        "web/templates/base.html": "<p></p>\n",
        "web/templates/pay.html": "{% extends 'base.html' %}\n{# {% include 'shop/cart.html' %} #}\n",
        "web/templates/shop/cart.html": "<i></i>\n{% extends 'base.html' %}\n{% include './row.html' %}\n",
        "web/templates/shop/row.html": "<p></p>\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:

        def uses(name: str) -> set[str]:
            report = engine.code.references(RefsRequest(name, str(tmp_path)))
            assert report.is_complete
            return {f"{one.file}:{one.line}" for one in report.usages}

        assert uses("app/views/shop/_cart.html.erb") == {f"app/views/shop/show.html.erb:{line}" for line in (1, 2)}
        assert uses("app/views/shop/show.html.erb") == {"app/controllers/shop_controller.rb:1"}
        assert uses("resources/views/shop/item.blade.php") == {"resources/views/shop/list.blade.php:2"}
        assert uses("resources/views/layouts/app.blade.php") == {"resources/views/shop/list.blade.php:1"}
        assert uses("resources/views/shop/list.blade.php") == {"app/Pages.php:9"}
        assert uses("PriceTag") == {"resources/views/shop/list.blade.php:3"}
        assert uses("web/templates/base.html") == {"web/templates/pay.html:1", "web/templates/shop/cart.html:2"}
        assert uses("web/templates/pay.html") == {"web/views.py:6"}
        assert uses("web/templates/shop/cart.html") == {"web/views.py:2"}
        assert uses("templates/cart/show.html.twig") == {"src/CartController.php:3"}
        assert uses("templates/macros.html.twig") == {"templates/cart/show.html.twig:1"}
        assert uses("templates/macros.html.twig::row") == {"templates/cart/show.html.twig:2"}
        assert uses("web/templates/shop/row.html") == {"web/templates/shop/cart.html:3"}


def test_texts_made_to_do_harm_hold_no_question_up(tmp_path: Path) -> None:
    sources, asked, *_ = CASES["filters and tags of Django"]
    harm = f"\n\n@register.filter('total'){' @a' * 60}\n"
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}{harm if path.endswith('.py') else ''}")
    with Engine(Config.load({"embedding.provider": "none"}, tmp_path)) as engine:
        assert is_quick(lambda: engine.code.references(RefsRequest(asked, str(tmp_path))), 5)
