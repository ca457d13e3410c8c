"""The language table and the kinds of files."""

from __future__ import annotations

import json

import pytest
from patience import is_quick

from codeinfo.index.syntax import query, query_text
from codeinfo.languages import LANGUAGES, is_product, kind_of, language_of, language_of_text
from codeinfo.languages.model import get_language, strict_json
from codeinfo.languages.routes import Route, links_to, requested_paths, served_paths
from codeinfo.model import FileKind
from codeinfo.ports import FileLines

GRAMMARS = (
    "python javascript typescript tsx go rust dart java kotlin scala c cpp csharp php ruby swift elixir haskell lua "
    "zig bash"
)


def test_the_table_is_wide_and_unambiguous() -> None:
    assert {language.syntax.grammar for language in LANGUAGES if language.syntax} == set(GRAMMARS.split())
    assert sum(not language.syntax for language in LANGUAGES) >= 30
    for field in ("extensions", "filenames", "shebangs"):
        values = [value for language in LANGUAGES for value in getattr(language, field).split()]
        assert len(values) == len(set(values)), field
    assert len({language.name for language in LANGUAGES}) == len(LANGUAGES)


def test_every_grammar_is_installed() -> None:
    for language in LANGUAGES:
        if language.syntax:
            assert query(language.name), language.name


def test_no_pattern_of_a_language_is_written_twice() -> None:
    """Each match of one would be stored twice, and languages share files of patterns."""
    for name in (language.name for language in LANGUAGES if language.syntax):
        patterns, found = query_text(name).encode(), query(name)
        spans = [
            (found.start_byte_for_pattern(at), found.end_byte_for_pattern(at)) for at in range(found.pattern_count)
        ]
        written = [b" ".join(patterns[start:end].split()) for start, end in spans]
        assert sorted(set(written)) == sorted(written), name


@pytest.mark.parametrize(
    ("path", "first_line", "name"),
    [
        ("a/b.py", "", "python"),
        ("B.PY", "", "python"),
        ("x.d.ts", "", "typescript"),
        ("app.tsx", "", "tsx"),
        ("lib.mjs", "", "javascript"),
        ("Rakefile", "", "ruby"),
        ("deploy/Dockerfile", "", "dockerfile"),
        ("Dockerfile.prod", "", "dockerfile"),
        (".bashrc", "", "bash"),
        ("CMakeLists.txt", "", "cmake"),
        ("run", "#!/usr/bin/env python3", "python"),
        ("run", "#!/bin/bash -e", "bash"),
        ("run", "#!/usr/bin/env -S node --flag", "javascript"),
        ("run", "#! /usr/local/bin/ruby2.7", "ruby"),
        ("include/x.h", "", "cpp"),
    ],
)
def test_language_of(path: str, first_line: str, name: str) -> None:
    language = language_of(path, first_line)
    assert language is not None
    assert language.name == name


@pytest.mark.parametrize("path", ["unknown", "a.unknown", "a.", ".", "", "trailing/"])
def test_unknown_languages(path: str) -> None:
    assert language_of(path) is None
    assert language_of(path, "#!") is None
    assert language_of(path, "#!/opt/nothing-known") is None


def test_headers_are_distinguished_by_content() -> None:
    def name(text: str) -> str:
        language = language_of_text("x.h", text)
        assert language
        return language.name

    assert name("#include <stdio.h>\nstruct a { int class_id; };\n") == "c"
    assert name("#include <vector>\n") == "cpp"
    assert name("namespace a {\nclass B {};\n}\n") == "cpp"
    assert name("") == "c"


def test_shebang_of_a_whole_text() -> None:
    language = language_of_text("tool", "#!/bin/sh\necho x\n")
    assert language
    assert language.name == "bash"
    assert language_of_text("tool", "plain words\n") is None


@pytest.mark.parametrize(
    "path",
    [
        "tests/a.py", "test_a.py", "pkg/a_test.py", "conftest.py", "a_test.go", "a.spec.ts", "a.test.tsx",
        "src/__tests__/a.js", "src/test/java/A.java", "FooTest.java", "TestFoo.java", "FooTests.cs", "BarSpec.scala",
        "spec/a_spec.rb", "x/a_spec.lua", "Tests/VaporTests/A.swift", "a_test.exs", "UserTest.php", "x.bats",
        "Src/Newtonsoft.Json.Tests/A.cs", "tests/data/x.json", "core/src/androidTest/A.kt", "a_test.cc",
        "regress/window.sh", "ShopUITests/App.swift", "test/cart_test.dart", "integration_test/app.dart",
    ],
)  # fmt: skip
def test_tests_by_convention(path: str) -> None:
    assert kind_of(path, language_of(path)) is FileKind.TEST


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/latest/a.py", FileKind.CODE),
        ("contest.py", FileKind.CODE),
        ("attestation/Attest.java", FileKind.CODE),
        ("src/Illuminate/Testing/Assert.php", FileKind.CODE),
        ("src/Illuminate/Testing/TestResponse.php", FileKind.CODE),
        ("src/Framework/TestCase.php", FileKind.CODE),
        ("src/Framework/CartTest.php", FileKind.TEST),
        ("src/Cart/Tests/CartTestCase.php", FileKind.TEST),
        ("src/inspect/spectrum.go", FileKind.CODE),
        ("testify.go", FileKind.CODE),
        ("src/main/java/org/acme/test/web/Client.java", FileKind.CODE),  # a package of what ships may help tests
        ("lib/web/test/conn_test.ex", FileKind.CODE),  # tests of Elixir are scripts
        ("apps/shop/lib/test/case.ex", FileKind.CODE),
        ("lib/shop/test_helpers.rb", FileKind.CODE),  # Ruby loads `lib`
        ("spec/lib/shop/cart.rb", FileKind.TEST),
        ("lib/shop/cart_spec.rb", FileKind.TEST),
        ("django/test/client.py", FileKind.CODE),  # helps others to test
        ("django/test/test_client.py", FileKind.TEST),
        ("config/test.exs", FileKind.CODE),  # settings of an environment
        ("config/environments/test.rb", FileKind.CODE),
        ("test/config/test.exs", FileKind.TEST),
        ("test/helper.py", FileKind.TEST),
        ("src/test/helper.py", FileKind.TEST),
        ("tests/django/test/client.py", FileKind.TEST),
        ("README.md", FileKind.DOCS),
        ("tests/README.md", FileKind.DOCS),
        ("pyproject.toml", FileKind.CONFIG),
        ("Makefile", FileKind.CONFIG),
        ("shop-1.0-0.rockspec", FileKind.CONFIG),
        ("infra/main.tf", FileKind.CODE),
        ("src/parser.y", FileKind.CODE),
        ("src/lexer.l", FileKind.CODE),
        ("infra/prod.tfvars", FileKind.CONFIG),
        (".unknownrc", FileKind.CONFIG),
        ("NOTES", FileKind.DOCS),
    ],
)
def test_other_kinds(path: str, kind: FileKind) -> None:
    assert kind_of(path, language_of(path)) is kind


@pytest.mark.parametrize(
    ("path", "ships"),
    [
        ("src/main/java/org/acme/samples/clinic/Owner.java", True),  # a package may be called like anything
        ("shop/src/main/kotlin/org/acme/docs/Page.kt", True),
        ("examples/shop/src/main/java/org/acme/Owner.java", False),
        ("samples/clinic/Owner.java", False),
        ("dev-docs/src/theme/index.js", False),
        ("docs-assets/app/src/page.ts", False),
        ("docsets/reader.py", True),
        ("build.gradle", False),
        ("documentation-website/snippets/App.kt", False),
        ("doc_values/reader.py", True),
        ("deps/lua/src/lua.c", False),
        ("external-crates/client/src/lib.rs", False),
        ("app/api/deps/user.py", True),
        ("apps/shop/priv/static/app.js", False),
        ("public/build/app.js", False),
        ("public/page.js", True),
        ("shop.gemspec", False),
        ("mix.exs", False),
        ("Package.swift", False),
        ("src/api.min.js", False),
        ("setupTests.ts", False),
        ("db/migrate/20250818182728_add_fts.rb", False),
        ("shop/migrations/0001_initial.py", False),
        ("server/schema/migrations/1744910873969-InitialMigration.ts", False),
        ("django/db/migrations/writer.py", True),
        ("db/schema.rb", False),
        ("app/alembic/versions/2021_ab12.py", False),
        ("src/hash_benchmark.cc", False),
        ("src/redis-benchmark.c", True),  # a program
        ("src/hash-benchmark.js", False),
        ("src/benchmark.py", True),
        ("piptools/scripts/compile.py", True),  # commands of a package
        ("js/asteroid/scripts/NoiseBlob.ts", True),
        ("numpy/testing/decorators.py", True),
        ("scripts/release.py", False),
        ("_examples/rest/main.go", False),
        ("ui-test-hilt-manifest/src/main/kotlin/org/acme/Manifest.kt", False),  # helps tests
        ("internal/testutil/image.go", False),
        ("core/screenshot-testing/src/main/kotlin/org/acme/Shot.kt", False),
        ("src/ab-testing/variant.ts", True),
        ("backend/scripts/seed.py", False),
        ("packages/browser/scripts/build.js", False),
        ("docs/src/scripts/page.ts", False),
        ("dev/licensing/list.php", False),
        ("perf/load/config.js", False),
        ("src/dev/tools.ts", True),
        ("client/storybook/preview.js", False),
        ("runtests.py", False),
        ("sandbox/Perf/Program.cs", False),
        ("src/sandbox/runner.ts", True),
        ("shop-examples/src/main/java/org/acme/Client.java", False),
        ("example-apps/sync/page.ts", False),
        ("src/dto/ai-examples/list.ts", True),
        ("core/src/testFixtures/java/org/acme/Fake.java", False),
        ("src/Shop.Tests.Integration/CartSpecs.cs", False),
        ("src/Shop.Benchmarks/CartRuns.cs", False),
        ("src/Shop.Testing/Cart.cs", True),
    ],
)
def test_what_ships(path: str, ships: bool) -> None:
    assert is_product(path, kind_of(path, language_of(path))) is ships


def test_comments_and_trailing_commas_of_json_are_blanked_in_place() -> None:
    text = '{"a": "// no /* comment */, ]",\t// first\n "b": [1, /* two\nlines */ ], // last\n}'
    strict = strict_json(text)
    assert json.loads(strict) == {"a": "// no /* comment */, ]", "b": [1]}
    assert len(strict) == len(text)
    assert [at for at, sign in enumerate(strict) if sign == "\n"] == [
        at for at, sign in enumerate(text) if sign == "\n"
    ]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        *((name, part) for name in ("a.vue", "a.svelte") for part in ("<!-- ", "<style ", "<script>", "<script ")),
        *(("a.vue", "{{ "), ("a.svelte", "{ a as b"), ("a.svelte", " as b"), ("a.heex", "<!-- ")),
        *(("a.blade.php", part) for part in ("{{-- ", "@verbatim ", "@php ", "<?php ", "{{ ", "{!! ", "@if(")),
        *(("a.erb", part) for part in ("<%!-- ", "<%# ", "<%= ")),
    ],
)
def test_a_page_is_read_in_linear_time_however_much_of_it_is_not_closed(name: str, part: str) -> None:
    language = language_of(name)
    hide = language and language.syntax and language.syntax.hide
    assert hide
    text = "{" + part * (120_000 // len(part))
    assert is_quick(lambda: hide(text), 2), "a quarter of a minute and more, where each part looks for its end"


@pytest.mark.parametrize(
    "piece", ["[", "(", "{", "<", "(a(b)", 'r.Get("/x", ', "prefix='/x', ", "scope '/x' ", "{a}", '{"}', " "]
)
def test_routes_are_read_in_linear_time_from_a_file_that_is_one_line(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    for begin in ("get(", 'get("', "get(path="):
        assert is_quick(lambda: list(served_paths(f"{begin}{text} .", "urls.py")), 5), "for ever, or hours"  # noqa: B023
    assert is_quick(lambda: list(requested_paths(f'"/{text} .')), 5)
    assert is_quick(lambda: list(served_paths(text, "urls.py")), 5)
    assert is_quick(lambda: list(requested_paths(f'"/{text}"')), 5), "minutes, where each bracket looks for its end"


def test_names_and_statements_that_were_made_to_do_harm_take_no_time() -> None:
    dotted = FileLines([(1, f'x = "{"a." * 40}" + "cart"')])
    assert is_quick(lambda: list(links_to(Route("cart", ""), dotted, is_alone=True)), 2)
    typed = "import {" + "type a as b " * 40 + "} from 'x'"
    read = get_language("typescript").imports.read
    assert read
    assert is_quick(lambda: list(read(typed, 1)), 2)
    assert is_quick(lambda: language_of_text("run", "#!" + "/" * 200_000 + "\n"), 2)
