"""Style rules and metadata, with the lines that state them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from patience import is_quick
from team_tools import build_team, engine_of

from codeinfo.engine.project_knowledge import MOST_CHARS
from codeinfo.knowledge.project import MOST_DEPENDENCIES, dependencies, describe_project, frameworks, project_names
from codeinfo.knowledge.style import document_rules, is_style_file, style_report
from codeinfo.operations.code import MapRequest
from codeinfo.operations.knowledge import LanguageSize, MetadataRequest, StyleRequest


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            ".editorconfig",
            "root = true\n[*.py]\nindent_size = 4\ndotnet_naming_symbols.fields.applicable_kinds = field\n",
            [("[*.py] indent_size = 4", 3)],  # naming rules of .NET are spread over many keys that say nothing alone
        ),
        (
            "pyproject.toml",
            "[tool.black]\nline-length = 99\n[tool.other]\nx = 1\n",
            [("[tool.black] line-length = 99", 2)],
        ),
        ("setup.cfg", "[metadata]\nname = a\n[flake8]\nmax-line-length = 88\n", [("[flake8] max-line-length = 88", 4)]),
        (".eslintrc.json", '{\n  "rules": {\n    "semi": "error"\n  }\n}\n', [('[rules] semi = "error"', 3)]),
        (".prettierrc", '{\n  "singleQuote": true\n}\n', [("singleQuote = true", 2)]),
        ("biome.json", '{\n  "formatter": {\n    "lineWidth": 90\n  }\n}\n', [("[formatter] lineWidth = 90", 3)]),
        (".golangci.yml", "linters:\n  enable:\n    - errcheck\n", [("[linters] enable = errcheck", 3)]),
        (
            ".golangci.yaml",
            "linters:\n  settings:\n    revive:\n      rules:\n        - name: cyclomatic\n          disabled: true\n",
            [("[linters.settings.revive] rules = {name: cyclomatic, disabled: true}", 5)],
        ),
        ("rustfmt.toml", "max_width = 100\n", [("max_width = 100", 1)]),
        (
            "checkstyle.xml",
            '<module name="LineLength">\n  <property name="max" value="120"/>\n</module>',
            [("[LineLength] max = 120", 2)],
        ),
        (
            "tsconfig.json",
            '{\n  "compilerOptions": {\n    "strict": true,\n    "outDir": "x"\n  }\n}',
            [("[compilerOptions] strict = true", 3)],
        ),
        (
            ".eslintrc.json",
            '{\n\t// of the workspace\n\t"extends": ["../.eslintrc.json"],\n\t"overrides": [{\n\t\t"files": ["*.ts"],\n'
            '\t\t"extends": ["plugin:@nx/typescript"],\n\t\t"rules": {\n'
            '\t\t\t"@nx/enforce-module-boundaries": ["error", {\n'
            '\t\t\t\t"depConstraints": [{"sourceTag": "type:feature", "onlyDependOnLibsWithTags": ["type:ui"],}]\n'
            "\t\t\t}],\n\t\t},\n\t}],\n}",
            [
                ('[for "*.ts"] extends = ["plugin:@nx/typescript"]', 6),
                (
                    '[rules for "*.ts"] @nx/enforce-module-boundaries = ["error", {"depConstraints": '
                    '[{"sourceTag": "type:feature", "onlyDependOnLibsWithTags": ["type:ui"]}]}]',
                    8,
                ),
            ],
        ),
        (
            ".eslintrc.yml",
            "overrides:\n  - files: [src/**/*.ts, lib/**/*.ts]\n    rules:\n      semi: [error, always]\n",
            [("[rules for src/**/*.ts, lib/**/*.ts] semi = [error, always]", 4)],
        ),
        (
            "eslint.config.mjs",
            "export default [\n  ...base,\n  { files: ['*.ts'], rules: {\n    // why\n"
            "    'no-console': ['error', { allow: ['warn'] }],\n    ...shared,\n    semi: 'off', // never\n  } },\n]\n",
            [
                ("[rules for '*.ts'] no-console = ['error', { allow: ['warn'] }]", 5),
                ("[rules for '*.ts'] semi = 'off'", 7),
            ],
        ),
        ("prettier.config.js", "module.exports = {\n  semi: false,\n  plugins: [x('y')],\n}\n", [("semi = false", 2)]),
        (
            "pyproject.toml",
            '[tool.ruff.lint]\nselect = [\n    "E",  # all\n    "F",\n]\n'
            '[tool.ruff.lint.per-file-ignores]\n"a/*" = ["E1"]\n',
            [('[tool.ruff.lint] select = ["E", "F"]', 2), ('[tool.ruff.lint.per-file-ignores] a/* = ["E1"]', 7)],
        ),
        (
            "setup.cfg",
            "[flake8]\nextend-ignore =\n    E203,\n    W503\n",
            [("[flake8] extend-ignore = E203, W503", 2)],
        ),
        (".scalafmt.conf", "version = 3.11\nmaxColumn = 100\nalign.stripMargin = true\n", [("maxColumn = 100", 2)]),
        (
            ".scalafmt.conf",
            'fileOverride {\n  "glob:**/3/**" {\n    maxColumn = 80\n  }\n}\nindent = 2\n',
            [("indent = 2", 6)],
        ),
        (
            ".formatter.exs",
            '# Used by "mix format"\n[\n  inputs: ["*.{ex,exs}", "lib/**/*.ex"],\n  line_length: 120\n]\n',
            [('inputs = ["*.{ex,exs}", "lib/**/*.ex"]', 3), ("line_length = 120", 4)],
        ),
        (".oxlintrc.json", '{\n  "rules": {\n    "eqeqeq": "error"\n  }\n}\n', [('[rules] eqeqeq = "error"', 3)]),
        (".swiftlint.yml", "opt_in_rules:\n  - empty_count\n", [("opt_in_rules = empty_count", 2)]),
        (
            "config/detekt.yml",
            "style:\n  MaxLineLength:\n    active: true\n",
            [("[style.MaxLineLength] active = true", 3)],
        ),
        ("phpcs.xml", '<ruleset name="a">\n  <rule ref="PSR12"/>\n</ruleset>', [("rule = PSR12", 2)]),
        (
            "docs/STYLE.md",
            "# Names\n\n- Use nouns for classes,\n  verbs for functions.\n- Tea.\n",
            [("Use nouns for classes, verbs for functions.", 3)],
        ),
    ],
)
def test_rules_come_with_their_lines(path: str, text: str, expected: list[tuple[str, int]]) -> None:
    assert is_style_file(path)
    report = style_report({path: text})
    seen = [(rule.rule, rule.source) for rule in report.rules]
    for rule, line in expected:
        assert (rule, f"{path}:{line}") in seen
    assert not report.notes
    no_rules = ("outDir", "tool.other", "Tea", "root =", "version =")
    assert not any(word in rule for rule, _ in seen for word in no_rules)


def test_a_rule_that_packages_repeat_comes_once() -> None:
    text = '{\n  "rules": {"semi": "error"}\n}\n'
    report = style_report(
        {"a/.eslintrc.json": text, ".eslintrc.json": text, "b/c/.eslintrc.json": text, "tests/.eslintrc.json": text}
    )
    assert [(rule.name, rule.value, rule.source, rule.also) for rule in report.rules] == [
        ("semi", '"error"', ".eslintrc.json:2", ("a/.eslintrc.json:2", "b/c/.eslintrc.json:2"))
    ]


# Each list has the one before nine times: 9^11 items in 600 characters.
ALIASES = "a0: &a0 [x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 12)
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".eslintrc.json", '{"rules": {'),
        (".golangci.yml", "linters: [a\nb: c"),
        (".golangci.yml", "a: &a\n  b: *a\n"),
        (".golangci.yml", ALIASES),
        ("pyproject.toml", "[tool.black\nx=1\n"),
        ("checkstyle.xml", "<module name='A'>"),
        ("checkstyle.xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><module name='&b;'/>"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_noted(path: str, text: str) -> None:
    report = style_report({path: text, ".prettierrc": "semi: false\n"})
    assert any(note.startswith(f"{path} could not be read") for note in report.notes)
    assert "semi = false" in [rule.rule for rule in report.rules]


def test_frameworks_are_what_the_product_is_built_on() -> None:
    texts = {
        "pyproject.toml": "[project]\nname = 'fastapi'\n"
        'dependencies = ["starlette>=0.4"]\n'
        '[dependency-groups]\ntests = ["flask>=3", "sqlalchemy"]\ndev = ["click"]\n',
        "package.json": '{"name": "web", "dependencies": {"@angular/core": "19", "@ngrx/store": "19"},'
        ' "devDependencies": {"nx": "20", "react": "19"}}',
        "examples/app/package.json": '{"dependencies": {"vue": "3"}}',
    }
    declared, _ = dependencies(texts)
    imported = {"click.core": "fastapi/cli.py:1", "fastapi.routing": "fastapi/a.py:1", "./own": "web/a.ts:1"}
    own = set(project_names(texts).values())
    assert own == {"fastapi", "web"}
    found = [(one.name, one.version) for one in frameworks(declared, imported, own)]
    assert found == [("Angular", "19"), ("NgRx", "19"), ("Nx", "20"), ("Starlette", ">=0.4"), ("Click", "")]
    assert frameworks((), {"django.db": "django/db.py:1"}, {"Django"}) == ()
    gradle, _ = dependencies({"build.gradle": "implementation 'org.springframework.boot:spring-boot-starter-webmvc'\n"})
    assert [one.name for one in frameworks(gradle)] == ["Spring Boot"]
    built = {
        "package.json": '{"devDependencies": {"typescript": "~6.0"}}',
        "packages/a/package.json": '{"peerDependencies": {"typescript": "*"}}',
    }
    assert [one.version for one in frameworks(dependencies(built)[0])] == ["~6.0"]


def test_packages_of_the_project_itself_are_its_last_dependencies() -> None:
    texts = {
        "Cargo.toml": '[workspace.dependencies]\npot = { path = "pot" }\nserde = "1"\ninsta = "1"\n',
        "cup/Cargo.toml": "[dependencies]\npot.workspace = true\nserde.workspace = true\n",
        "pot/Cargo.toml": '[package]\nname = "pot"\n[dependencies]\nlog = "0.4"\n'
        "[dev-dependencies]\ninsta.workspace = true\n",
    }
    assert [(one.name, one.group) for one in dependencies(texts)[0]] == [
        ("serde", ""),
        ("log", ""),
        ("insta", "dev"),
        ("pot", ""),
    ]


@pytest.mark.parametrize(("python", "command"), [(9_000, ""), (100, "npm test (grunt)")])
def test_the_command_for_tests_is_that_of_the_main_language(python: int, command: str) -> None:
    texts = {"package.json": '{"scripts": {"test": "grunt"}}', "pyproject.toml": '[project]\nname = "shop"\n'}
    sizes = {
        "python": LanguageSize(9, python, 9),
        "javascript": LanguageSize(1, 500, 9),
        "text": LanguageSize(9, 99_999, 9),
    }
    assert describe_project(Path("shop"), texts, sizes, 3, {}).tests.command == command


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("requirements.txt", "# x\nflask==3.0 # web\n-r more.txt\n", [("flask", "==3.0", 2, "")]),
        ("requirements.txt", "# https://a.b/rq\ndjango-rq\nrq\n", [("django-rq", "", 2, ""), ("rq", "", 3, "")]),
        (
            "pyproject.toml",
            '[project]\n# rq\ndependencies = [\n  "django-rq",\n  "rq",\n  "six; python_version < \'3\'",\n]\n',
            [("django-rq", "", 4, ""), ("rq", "", 5, ""), ("six", "", 6, "")],
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3"\nflask = "^3.0"\n', [("flask", "^3.0", 3, "")]),
        ("package.json", '{"dependencies": {\n"react": "^19"}}', [("react", "^19", 2, "")]),
        (
            "go.mod",
            "module x\n\nrequire (\n\tgithub.com/a/b v1.2.3\n\tgithub.com/c/d v0.1.0 // indirect\n)\n",
            [("github.com/a/b", "v1.2.3", 4, ""), ("github.com/c/d", "v0.1.0", 5, "indirect")],
        ),
        (
            "Cargo.toml",
            '[dependencies]\nserde_json = "1"\nserde = { version = "1" }\n[dev-dependencies]\nrstest = "0.2"\n\n'
            '[dependencies.glob]\nversion = "3"\n',
            [("serde_json", "1", 2, ""), ("serde", "1", 3, ""), ("glob", "3", 7, ""), ("rstest", "0.2", 5, "dev")],
        ),
        (
            "pom.xml",
            "<dependency>\n<groupId>junit</groupId>\n<artifactId>junit</artifactId>\n<version>4.13</version>\n"
            "<scope>test</scope></dependency>",
            [("junit:junit", "4.13", 3, "test")],
        ),
        ("build.gradle", "dependencies {\n  testImplementation 'org.x:y:1.0'\n}", [("org.x:y", "1.0", 2, "test")]),
        (
            "App.csproj",
            '<Project>\n<PackageReference Include="Moq" Version="4.2" />\n</Project>',
            [("Moq", "4.2", 2, "")],
        ),
        (
            "composer.json",
            '{"require": {"php": "8", "laravel/framework": "^11"}}',
            [("laravel/framework", "^11", 1, "")],
        ),
        ("Gemfile", "source 'x'\ngem 'rails', '~> 7'\n", [("rails", "~> 7", 2, "")]),
        (
            "shop.gemspec",
            "Gem::Specification.new 'shop' do |s|\n  s.add_dependency 'rack', '>= 3'\n"
            "  s.add_development_dependency('rake')\nend",
            [("rack", ">= 3", 2, ""), ("rake", "", 3, "dev")],
        ),
        (
            "mix.exs",
            'def application, do: [env: [{:a, 1}]]\n  defp deps do\n    [\n      {:plug, "~> 1.14"},\n'
            '      {:mint, "~> 1", only: [:dev, :test]},\n      {:own, path: "../own"}\n    ]\n  end\n'
            '  defp other do\n    [\n      {:none, "1"}\n    ]\n  end\n',
            [("plug", "~> 1.14", 4, ""), ("mint", "~> 1", 5, "dev,test"), ("own", "", 6, "")],
        ),
        (
            "gradle/libs.versions.toml",
            '[versions]\nktor = "3.1"\n\n[libraries]\nktor = { module = "io.ktor:ktor-core", version.ref = "ktor" }\n'
            'h2 = "com.h2:h2:2.4"\nbare = { group = "org.x", name = "y" }\n',
            [("io.ktor:ktor-core", "3.1", 5, ""), ("com.h2:h2", "2.4", 6, ""), ("org.x:y", "", 7, "")],
        ),
        (
            "Package.swift",
            'dependencies: [\n  .package(url: "https://github.com/apple/swift-nio.git", from: "2.8.1"),\n]',
            [("swift-nio", "2.8.1", 2, "")],
        ),
        (
            "MODULE.bazel",
            'bazel_dep(name = "rules_cc", version = "0.2")\n\n'
            'bazel_dep(\n    name = "googletest",\n    dev_dependency = True,\n)\n',
            [("rules_cc", "0.2", 1, ""), ("googletest", "", 4, "dev")],
        ),
        (
            "CMakeLists.txt",
            "project(shop)\nfind_package(Boost 1.80 REQUIRED)\nif(TESTS)\n  find_package(GTest)\nendif()\n",
            [("Boost", "1.80", 2, ""), ("GTest", "", 4, "")],
        ),
        (
            "build.sbt",
            'libraryDependencies += "org.typelevel" %%% "cats-core" % "2.1"\n"org.scalameta" %% "munit" % v % Test\n',
            [("org.typelevel:cats-core", "2.1", 1, ""), ("org.scalameta:munit", "", 2, "test")],
        ),
    ],
)
def test_dependencies_come_with_versions_and_lines(
    path: str, text: str, expected: list[tuple[str, str, int, str]]
) -> None:
    found, notes = dependencies({path: text})
    assert [(d.name, d.version, d.source, d.group) for d in found] == [
        (name, version, f"{path}:{line}", group) for name, version, line, group in expected
    ]
    assert notes == ()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Cargo.toml", "[dependencies]\n" + "".join(f'a{number} = "1"\n' for number in range(20_000))),
        ("pyproject.toml", "[project]\ndependencies = [\n" + "".join(f'"a{n}>1",\n' for n in range(20_000)) + "]\n"),
        ("Gemfile", "".join(f"group :a do\ngem 'a{number}'\nend\n" for number in range(10_000))),
    ],
)
def test_manifests_made_to_be_slow_are_not(path: str, text: str) -> None:
    with ends_within(5):  # it was 14 to 50 seconds
        found, notes = dependencies({path: text})
    assert (len(found), notes) == (MOST_DEPENDENCIES, (f"only the first 3,000 dependencies of {path} are listed",))
    assert found[-1].source == f"{path}:{text[: text.index(found[-1].name)].count(chr(10)) + 1}"


def test_versions_of_gradle_come_from_its_catalog_and_frameworks_of_go_have_any_major_version() -> None:
    texts = {
        "gradle/libs.versions.toml": '[versions]\nspring-boot = "4.0.1"\n',
        "build.gradle.kts": 'implementation("org.springframework.boot:web:${libs.versions.spring.boot.get()}")\n'
        'api("org.acme:kit:$kitVersion")\n',
        "go.mod": "module shop\nrequire github.com/labstack/echo/v5 v5.3.1\n",
    }
    declared = dependencies(texts)[0]
    assert [(one.name, one.version) for one in declared] == [
        ("org.springframework.boot:web", "4.0.1"),
        ("org.acme:kit", ""),
        ("github.com/labstack/echo/v5", "v5.3.1"),
    ]
    assert [(one.name, one.version) for one in frameworks(declared)] == [("Spring Boot", "4.0.1"), ("Echo", "v5.3.1")]


def test_what_ships_is_declared_first_once_and_with_the_version_that_a_property_has() -> None:
    reference = '<PackageReference Include="Moq" Version="$(MoqVersion)" />'
    texts = {
        "samples/package.json": '{"dependencies": {"vue": "3"}}',
        "src/Latest/Shop.csproj": '<PackageReference Include="Json" Version="$(Unknown)" />',
        "src/Shop.Tests/Shop.Tests.csproj": f"<Project>\n{reference}\n{reference}\n</Project>",
        "src/Till/Till.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web"><PackageReference Include="Npgsql" /></Project>',
        "Directory.Packages.props": '<PackageVersion Include="Npgsql" Version="$(DataVersion)" />',
        "Directory.Build.props": "<Project>\n<MoqVersion>4.8.1</MoqVersion><DataVersion>9.0</DataVersion>\n</Project>",
    }
    found, notes = dependencies(texts)
    assert [(one.name, one.version, one.group) for one in found] == [
        ("Json", "", ""),  # nothing says which
        ("Microsoft.NET.Sdk.Web", "", ""),
        ("Npgsql", "9.0", ""),
        ("vue", "3", ""),
        ("Moq", "4.8.1", "test"),
    ]
    assert notes == ()


@pytest.mark.parametrize(
    ("texts", "tools", "command"),
    [
        ({"mix.exs": "def project, do: [app: :shop]\n"}, ("ExUnit",), "mix test"),
        ({"Gemfile": "gem 'minitest'\ngem 'sinatra'\n", "shop.gemspec": "Gem::Specification.new 'sinatra'\n"},
         ("Minitest",), "bundle exec rake test"),
        ({"Tests.csproj": '<PackageReference Include="xunit" />'}, ("xUnit",), "dotnet test"),
        ({"Tests.csproj": '<Project Sdk="MSTest.Sdk/4.0">'}, ("MSTest",), "dotnet test"),
        ({"Package.swift": 'let package = Package(name: "shop")'}, (), "swift test"),
        ({"Gemfile": "gem 'puma'\n\ngroup :test do\n  gem 'rspec-rails'\nend\n"}, ("RSpec",), "bundle exec rspec"),
        ({"CMakeLists.txt": "find_package(GTest)\n"}, ("GoogleTest",), "ctest"),
        ({"go.mod": "module shop\nrequire github.com/onsi/ginkgo v1.16.5 // indirect\n"}, (), "go test ./..."),
        ({"manage.py": "import os\n", "requirements.txt": "psycopg\n"}, (), "python manage.py test"),
        ({"shop.cabal": "library\n  build-depends: base\ntest-suite all\n  build-depends:\n    tasty >= 1\n"},
         ("Tasty",), "cabal test"),
        ({"pubspec.yaml": "name: shop\ndev_dependencies:\n  flutter_test:\n    sdk: flutter\n"},
         ("flutter_test",), "flutter test"),
        ({"composer.json": '{"scripts": {"test": "@php artisan test"}}', "package.json": '{"scripts": {"test": "vp"}}'},
         (), "composer test (@php artisan test) and npm test (vp)"),
    ],
)  # fmt: skip
def test_how_tests_are_run(texts: dict[str, str], tools: tuple[str, ...], command: str) -> None:
    found = describe_project(Path("shop"), texts, {"text": LanguageSize(1, 1, 1)}, 3, {})
    assert (found.tests.frameworks, found.tests.command, found.frameworks) == (tools, command, ())


@pytest.mark.parametrize(
    ("texts", "command"),
    [
        ({"package.json": '{"scripts": {"test": "vitest"}, "packageManager": "pnpm@10.1.0"}'}, "pnpm test (vitest)"),
        ({"package.json": '{"scripts": {"test": "vitest"}, "packageManager": "bun@1.1"}'}, "bun run test (vitest)"),
        ({"package.json": r'{"scripts": {"test": "jest \"a\\b\" \q"}}'}, r'npm test (jest "a\b" \q)'),
        ({"package.json": '{"scripts": {"test": "vp"}}', "pyproject.toml": "[tool.pytest.ini_options]\n"},
         "npm test (vp) and pytest"),
        ({"package.json": '{"scripts": {"test": "vp"}}', "requirements.txt": "pytest\n", "manage.py": "import os\n"},
         "npm test (vp) and pytest"),
        ({"package.json": '{"scripts": {"test": "vp"}}', "Cargo.toml": '[package]\nname = "a"\n'},
         "npm test (vp) and cargo test"),
        ({"package.json": '{"scripts": {"test": "vp"}}', "Gemfile": "gem 'rspec-rails'\n"},
         "npm test (vp) and bundle exec rspec"),
        ({"package.json": '{"scripts": {"test": "vp"}}', "CMakeLists.txt": "find_package(Z)\n"}, "npm test (vp)"),
        ({"composer.json": '{"scripts": {"test": ["@test:pest", "@test:phpstan"]}}'}, "composer test"),
        ({"pyproject.toml": "", "shop/manage.py": "import os\n"}, "python shop/manage.py test"),
        ({"build.gradle": "", "gradlew": "#!/bin/sh\n"}, "./gradlew test"),
        ({"pom.xml": "", "mvnw": "#!/bin/sh\n"}, "./mvnw test"),
        ({"pom.xml": ""}, "mvn test"),
    ],
)  # fmt: skip
def test_the_tests_of_each_language_have_their_command(texts: dict[str, str], command: str) -> None:
    assert describe_project(Path("shop"), texts, {"text": LanguageSize(1, 1, 1)}, 3, {}).tests.command == command


def test_frameworks_by_their_parts_and_not_of_documentation() -> None:
    packages = {
        "packages/forms/composer.json": '{"require": {"illuminate/support": "^11.0", "livewire/livewire": "^3.4"}}',
        "docs-assets/app/composer.json": '{"require": {"symfony/framework-bundle": "^7.0"}}',
        "ui/package.json": '{"devDependencies": {"ember-source": "^5.12.0", "express": "^5.1.0"}}',
    }
    found = [one.name for one in frameworks(dependencies(packages)[0])]
    assert sorted(found) == ["Ember", "Laravel", "Livewire"]


def test_a_kit_for_development_and_providers_are_what_a_product_is_built_on() -> None:
    terraform = """terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}
module "own" {
  source = "./modules/own"
}
"""
    declared, _ = dependencies({"versions.tf": terraform})
    assert [(one.name, one.version, one.source) for one in declared] == [
        ("terraform", ">= 1.5", "versions.tf:2"),
        ("hashicorp/aws", "~> 6.0", "versions.tf:6"),
    ]
    assert [(one.name, one.version) for one in frameworks(declared)] == [("Terraform", ">= 1.5")]
    kit = {"package.json": '{"devDependencies": {"svelte": "^5.0.0", "@sveltejs/kit": "^2.0.0"}}'}
    assert [one.name for one in frameworks(dependencies(kit)[0])] == ["Svelte", "SvelteKit"]


def test_frameworks_for_tests_that_no_manifest_names(tmp_path: Path) -> None:
    for path, text in {
        "shop/cart.py": "def add(): ...\n",
        "tests/test_cart.py": "from unittest import TestCase\n",
        "tests/test_mock.py": "from unittest import mock\n",
        "Tests/CartTests.swift": "import XCTest\n",
        "cart_test.go": 'package shop\n\nimport "testing"\n',
        "Tests/CartTests.cs": "using NUnit.Framework;\n\nclass CartTests { }\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with engine_of(tmp_path) as engine:
        found = engine.knowledge.metadata(MetadataRequest(str(tmp_path))).tests
        assert dict(zip(found.frameworks, found.evidence, strict=True)) == {
            "NUnit": "Tests/CartTests.cs:1",
            "XCTest": "Tests/CartTests.swift:1",
            "testing": "cart_test.go:3",
            "unittest": "tests/test_cart.py:1",
        }
        (tmp_path / "web.test.js").write_text('import { after } from "node:test"\n')
        (tmp_path / "package.json").write_text('{"devDependencies": {"jest": "29"}}')
        assert "node:test" not in engine.knowledge.metadata(MetadataRequest(str(tmp_path))).tests.frameworks
        (tmp_path / "requirements-dev.txt").write_text("pytest\n")
        assert "unittest" not in engine.knowledge.metadata(MetadataRequest(str(tmp_path))).tests.frameworks


def test_the_first_place_that_names_a_framework_is_the_first_by_path(tmp_path: Path) -> None:
    """Not the first that was indexed: which parser ends first is chance."""
    with engine_of(tmp_path) as engine:
        for name in ("b", "a"):
            (tmp_path / f"{name}.py").write_text("import flask\n")
            (tmp_path / f"test_{name}.py").write_text("import unittest\n")
            found = engine.knowledge.metadata(MetadataRequest(str(tmp_path)))
    assert [one.evidence for one in found.frameworks] == ["a.py:1"]
    assert found.tests.evidence == ("test_a.py:1",)


def test_a_catalog_of_versions_that_are_none_is_read_all_the_same() -> None:
    lists = ["a0: &a0 [x]", *(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 10))]
    text = "\n".join([*lists, "catalog: {1: 2, null: 1.5, 2020-01-01: x, bomb: *a9}\n"])
    declared = {one.name: one.version for one in dependencies({"pnpm-workspace.yaml": text})[0]}
    assert declared == {}
    texts = {"pnpm-workspace.yaml": text, "package.json": '{"dependencies": {"1": "catalog:", "bomb": "catalog:"}}'}
    assert {one.name: one.version for one in dependencies(texts)[0]} == {"1": "2", "bomb": ""}


@pytest.mark.parametrize(
    "lists",
    [
        {"pnpm-workspace.yaml": "packages: [apps/*]\ncatalog:\n  react: ^19\ncatalogs:\n  old:\n    react: ^18\n"},
        {"package.json": '{"workspaces": {"catalog": {"react": "^19"}, "catalogs": {"old": {"react": "^18"}}}}'},
    ],
)
def test_versions_come_from_the_catalog_of_the_workspace(lists: dict[str, str]) -> None:
    texts = {
        **lists,
        "apps/web/package.json": '{"dependencies": {"react": "catalog:"}}',
        "apps/old/package.json": '{"dependencies": {"react": "catalog:old", "vue": "catalog:"}}',
        "apps/own/package.json": '{"dependencies": {"react": "catalog:default"}}',
    }
    found = {(one.source.rpartition("/")[0], one.name): one.version for one in dependencies(texts)[0]}
    assert found == {
        ("apps/web", "react"): "^19",
        ("apps/old", "react"): "^18",
        ("apps/old", "vue"): "catalog:",  # in no list
        ("apps/own", "react"): "^19",
    }


def test_versions_come_from_the_workspace_of_cargo_and_the_lock_of_bundler() -> None:
    texts = {
        "Cargo.toml": '[workspace.dependencies]\nserde = { version = "1.2", features = ["derive"] }\n',
        "crates/a/Cargo.toml": "[dependencies]\nserde.workspace = true\nlost = { workspace = true }\n"
        "[target.'cfg(unix)'.dependencies]\nnix = \"0.3\"\n",
        "Gemfile": "gem 'rails'\ngem 'puma', '~> 6'\ngem 'lost'\n",
        "Gemfile.lock": "GEM\n  specs:\n    puma (6.4.2)\n      nio4r (~> 2.0)\n    rails (8.0.1-x86_64-linux)\n",
    }
    assert [(one.name, one.version, one.source) for one in dependencies(texts)[0]] == [
        ("rails", "8.0.1", "Gemfile:1"),
        ("puma", "~> 6", "Gemfile:2"),
        ("lost", "", "Gemfile:3"),
        ("serde", "1.2", "crates/a/Cargo.toml:2"),
        ("lost", "", "crates/a/Cargo.toml:3"),
        ("nix", "0.3", "crates/a/Cargo.toml:5"),
    ]


def test_dependencies_are_found_where_their_group_and_their_build_list_them() -> None:
    texts = {
        "pyproject.toml": '[dependency-groups]\ndev = [\n    "flask",\n]\n'
        '[project]\ndependencies = ["flask"]\n[project.optional-dependencies]\nweb = ["flask", "click>=8"]\n',
        "project/Dependencies.scala": 'val cats = "org.typelevel" %% "cats-effect" % "3.7.0"\n'
        'val http = "org.http4s" %% "http4s-core" % cats.revision\nval t = "org.scalameta" %% "munit" % "1.3"\n',
        "project/plugins.sbt": 'addSbtPlugin("com.eed3si9n" % "sbt-assembly" % "2.4.1")\n',
    }
    declared = dependencies(texts)[0]
    assert [(one.name, one.version, one.group, one.source) for one in declared] == [
        ("flask", "", "", "pyproject.toml:6"),
        ("flask", "", "web", "pyproject.toml:8"),
        ("click", ">=8", "web", "pyproject.toml:8"),
        ("flask", "", "dev", "pyproject.toml:3"),
        ("org.typelevel:cats-effect", "3.7.0", "", "project/Dependencies.scala:1"),
        ("org.http4s:http4s-core", "", "", "project/Dependencies.scala:2"),
        ("org.scalameta:munit", "1.3", "", "project/Dependencies.scala:3"),
        ("com.eed3si9n:sbt-assembly", "2.4.1", "dev", "project/plugins.sbt:1"),
    ]
    assert [one.name for one in frameworks(declared)] == ["Flask", "Click", "Cats Effect", "http4s"]


def test_the_main_language_comes_first_and_a_workspace_has_no_name_of_its_own(tmp_path: Path, codeinfo: Any) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "shop.py").write_text("import django\n" * 100)
    (tmp_path / "package.json").write_text('{"name": "root", "dependencies": {"react": "19"}}')
    (tmp_path / "web" / "package.json").write_text('{"name": "web", "dependencies": {"react": "19"}}')
    (tmp_path / "requirements.txt").write_text("django==5.2\n")
    (tmp_path / "cart.ts").write_text("export const a = 1;\n" * 80)
    with engine_of(tmp_path) as engine:
        found = engine.knowledge.metadata(MetadataRequest(str(tmp_path)))
    assert found.name == tmp_path.name
    (tmp_path / "cart.ts").unlink()
    with engine_of(tmp_path) as engine:
        found = engine.knowledge.metadata(MetadataRequest(str(tmp_path)))
    assert [one.name for one in found.dependencies] == ["django", "react", "react"]
    assert [one.name for one in found.frameworks] == ["Django", "React"]
    shown = codeinfo("metadata", str(tmp_path)).stdout
    assert "package.json:1  (and in 1 more place)" in shown
    assert shown.count("react") == 1


def test_another_language_may_call_something_like_a_framework() -> None:
    imported = {"next::Next": "src/a.rs:1", "React\\Promise": "src/A.php:2", "axum::Router": "src/b.rs:1"}
    assert [(one.name, one.evidence) for one in frameworks((), imported)] == [("Axum", "src/b.rs:1")]


def test_metadata_reads_the_lock_and_counts_tests_beside_the_code(tmp_path: Path) -> None:
    sources = {
        "Cargo.toml": '[package]\nname = "tea"\n',
        "src/lib.rs": "pub fn brew() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn brews() {}\n}\n",
        "src/cup.rs": "pub fn fill() {}\n",
        "Gemfile": "gem 'rails'\n",
        "Gemfile.lock": "GEM\n  specs:\n    rails (8.0.1)\n",
        "tests/brew.rs": "#[test]\nfn brews() {}\n",
        "tests/cups.csv": "size\n1\n",  # data
    }
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    for path, text in sources.items():
        (tmp_path / path).write_text(text)
    with engine_of(tmp_path) as engine:
        found = engine.knowledge.metadata(MetadataRequest(str(tmp_path)))
    assert (found.tests.files, found.tests.inline) == (1, 1)
    assert [(one.name, one.version) for one in found.dependencies] == [("rails", "8.0.1")]


def test_a_part_in_another_language_gives_neither_the_name_nor_the_command() -> None:
    texts = {
        "pyproject.toml": '[project]\nname = "shop-docs"\n',
        "ml/pyproject.toml": '[project]\nname = "ml"\n[dependency-groups]\ntest = ["pytest"]\n',
        "app/pubspec.yaml": "name: app\ndev_dependencies:\n  flutter_test:\n    sdk: flutter\n",
    }
    sizes = {"rust": LanguageSize(9, 9_000, 9), "python": LanguageSize(1, 500, 9)}
    found = describe_project(Path("shop"), texts, sizes, 3, {})
    assert (found.name, found.tests.frameworks, found.tests.command) == ("shop", ("flutter_test", "pytest"), "")
    assert describe_project(Path("shop"), texts, {"python": sizes["python"]}, 3, {}).name == "shop-docs"


def test_what_tests_include_or_import_names_their_framework(tmp_path: Path) -> None:
    sources = {
        "src/cart.cpp": "int total() { return 1; }\n",
        "test/test_cart.cpp": "#include <gtest/gtest.h>\nTEST(Cart, Total) { total(); }\n",
        "go.mod": "module example.com/shop\nrequire github.com/stretchr/testify v1.9.0\n",
        "cart.go": "package shop\n\nfunc Total() int { return 1 }\n",
        "lib/cart.rb": "def total = 1\n",
        "spec/spec_helper.rb": "require 'rspec/rails'\n",
        "cart_test.go": 'package shop\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) { Total() }\n',
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with engine_of(tmp_path) as engine:
        found = engine.knowledge.metadata(MetadataRequest(str(tmp_path)))
    assert set(found.tests.frameworks) == {"testify", "testing", "GoogleTest", "RSpec"}


def test_dependencies_of_gems_haskell_and_dart() -> None:
    texts = {
        "Gemfile": "gem 'puma'\n\ngroup :test, :development do\n  gem 'vcr'\nend\ngem 'json'\n",
        "shop.cabal": "name: shop\nlibrary\n  build-depends:  base >= 4.18 && < 5,\n    text -- of letters\n\n"
        "  other-modules: Shop\ntest-suite all\n  build-depends: hspec\n",
        "pubspec.yaml": "name: shop\ndependencies:\n  flutter:\n    sdk: flutter\n  intl: ^1.0\n",
    }
    assert [(one.name, one.version, one.group, one.source) for one in dependencies(texts)[0]] == [
        ("puma", "", "", "Gemfile:1"),
        ("vcr", "", "test, development", "Gemfile:4"),
        ("json", "", "", "Gemfile:6"),
        ("flutter", "", "", "pubspec.yaml:3"),
        ("intl", "^1.0", "", "pubspec.yaml:5"),
        ("base", ">= 4.18 && < 5", "", "shop.cabal:3"),
        ("text", "", "", "shop.cabal:4"),
        ("hspec", "", "test", "shop.cabal:8"),
    ]


def test_a_script_of_the_name_is_not_where_a_dependency_is_declared() -> None:
    text = '{\n "scripts": {"prettier": "prettier ."},\n "devDependencies": {\n  "prettier": "3"\n }\n}'
    assert [one.source for one in dependencies({"package.json": text})[0]] == ["package.json:4"]


def test_a_script_that_tests_nothing_is_no_command() -> None:
    texts = {"package.json": '{"scripts": {"test": "prettier --check ."}}'}
    assert describe_project(Path("shop"), texts, {"javascript": LanguageSize(1, 9, 9)}, 0, {}).tests.command == ""


def test_a_broken_manifest_is_noted() -> None:
    found, notes = dependencies({"package.json": "{", "go.mod": "require x.y/z v1.0.0\n"})
    assert len(found) == 1
    assert notes == ("package.json could not be read as a manifest",)


def test_a_file_of_its_own_is_no_framework(tmp_path: Path) -> None:
    (tmp_path / "clap.zig").write_text("pub const x = 1;\n")
    (tmp_path / "main.zig").write_text('const clap = @import("clap.zig");\n')
    with engine_of(tmp_path) as engine:
        assert engine.knowledge.metadata(MetadataRequest(str(tmp_path))).frameworks == ()


def test_the_teams_metadata_and_style(tmp_path: Path) -> None:
    root = build_team(tmp_path / "team")
    with engine_of(root) as engine:
        metadata = engine.knowledge.metadata(MetadataRequest(str(root)))
        style = engine.knowledge.style(StyleRequest(str(root)))
        some = engine.knowledge.style(StyleRequest(str(root), query="logging"))
    assert metadata.name == "shop"
    assert [(f.name, f.version) for f in metadata.frameworks] == [
        ("FastAPI", ">=0.110"),
        ("SQLAlchemy", "==2.0.1"),
        ("Angular", "^19.0.0"),
        ("RxJS", "7.8.1"),
    ]
    assert (metadata.tests.files, metadata.tests.frameworks, metadata.tests.command) == (
        1,
        ("pytest", "Vitest"),
        "pytest",
    )
    assert metadata.languages["typescript"].files == 2
    assert [rule.source for rule in style.rules] == [
        ".editorconfig:4",
        "CONTRIBUTING.md:5",
        "pyproject.toml:9",
        "pyproject.toml:10",
    ]
    assert [rule.source for rule in some.rules] == ["CONTRIBUTING.md:5"]


def test_steps_to_set_something_up_are_no_rules() -> None:
    text = (
        "# Getting started\n- Run `make`.\n# Reporting issues\n- Add a log.\n# Starting a pull request\n- Add tests.\n"
    )
    assert [rule.source for rule in document_rules("CONTRIBUTING.md", text)] == ["CONTRIBUTING.md:6"]
    underlined = f"Getting started\n---------------\n\n- Run `make`.\n\nCode\n====\n\n- Use {'short ' * 60}names.\n"
    (rule,) = document_rules("CONTRIBUTING.rst", underlined)
    assert (rule.origin, rule.source, len(rule.rule), rule.rule[-1]) == ("Code", "CONTRIBUTING.rst:9", 300, "…")


def test_remarks_and_conditions_ask_for_nothing() -> None:
    text = (
        "# Code\n- PostgreSQL (required)\n- If you only built the programs with:\n  ```\n  make\n  ```\n"
        "- If you add a flag, add a test:\n  ```\n  make\n  ```\n- [Is a test required?](#tests)\n"
    )
    found = [(rule.rule, rule.source) for rule in document_rules("CONTRIBUTING.md", text)]
    assert found == [("If you add a flag, add a test:", "CONTRIBUTING.md:7")]


def test_advice_and_steps_are_no_rules() -> None:
    text = (
        "# Code\n- You may want to run it in debug mode, which is only slower\n- To read the log, you must:\n"
        "- **Logs**: no secrets\n- Use tabs\n- Names should be short; there is no limit\n"
        "## Development using Docker\n- Run `docker compose up`\n"
    )
    found = [rule.source for rule in document_rules("CONTRIBUTING.md", text)]
    assert found == ["CONTRIBUTING.md:4", "CONTRIBUTING.md:5", "CONTRIBUTING.md:6"]


def test_an_entry_of_a_list_of_documents_is_no_rule() -> None:
    text = (
        "# Plans\n- `6.0-carts.md` — the cart must never be an order\n- [Roles](docs/roles.md): no roles\n"
        "- **docs/api.mdx**, always up to date\n- Always read `6.0-carts.md`\n"
    )
    assert [rule.source for rule in document_rules("CLAUDE.md", text)] == ["CLAUDE.md:5"]


def test_what_tests_are_tried_on_says_nothing_about_the_project(tmp_path: Path) -> None:
    """The manifests and sources below `tests/syntax` are data."""
    sources = {
        "Cargo.toml": '[package]\nname = "cat"\n[dependencies]\nserde = "1"\n',
        "src/main.rs": "fn main() {}\n",
        "tests/requirements.txt": "six\n",
        "tests/syntax/source/Haskell/tea.cabal": "library\n  build-depends: hspec\n",
        "tests/syntax/source/Python/arrays.py": "import pytest\n",
        "tests/syntax/plan/main.tf": "module {}\n",
        "src/testdata/plan/main.rs": "fn main() {}\n",
    }
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with engine_of(tmp_path) as engine:
        report = engine.knowledge.metadata(MetadataRequest(str(tmp_path)))
        assert (report.tests.files, report.tests.frameworks, report.tests.command) == (1, (), "cargo test")
        assert [one.name for one in report.dependencies] == ["serde", "six"]
        (tmp_path / "tests" / "test_cat.py").write_text("import pytest\n")
        assert engine.knowledge.metadata(MetadataRequest(str(tmp_path))).tests.frameworks == ("pytest",)


def test_a_version_comes_from_the_nearest_file_of_versions() -> None:
    central = '<Project><ItemGroup><PackageVersion Include="Mail" Version="{}" /></ItemGroup></Project>'
    project = '<Project Sdk="Microsoft.NET.Sdk"><ItemGroup><PackageReference Include="Mail" /></ItemGroup></Project>'
    texts = {
        "Directory.Packages.props": central.format("2.0"),
        "small/Directory.Packages.props": central.format("1.0"),
        "src/Web/Web.csproj": project,
        "small/src/Web/Web.csproj": project,
    }
    found, _ = dependencies(texts)
    assert {one.source: one.version for one in found} == {
        "src/Web/Web.csproj:1": "2.0",
        "small/src/Web/Web.csproj:1": "1.0",
    }


def test_what_only_others_need_is_no_framework_and_starters_for_tests_name_theirs(tmp_path: Path) -> None:
    manifests = {
        "go.mod": "module example.org/tea\n\nrequire (\n\tgithub.com/gin-gonic/gin v1.9.1 // indirect\n)\n",
        "Cargo.toml": '[package]\nname = "a"\n[dev-dependencies]\nserde = "1.0.1"\n',
        "crates/b/Cargo.toml": '[package]\nname = "b"\n[dependencies]\nserde = "1.0.2"\n',
        "build.gradle": "dependencies {\n"
        "  testImplementation 'org.springframework.boot:spring-boot-starter-webmvc-test'\n}\n",
    }
    declared, _ = dependencies(manifests)
    assert [(one.name, one.version) for one in frameworks(declared)] == [("Serde", "1.0.2")]
    found = describe_project(tmp_path, manifests, {}, 3, {})
    assert found.tests.frameworks == ("JUnit 5",)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (".eslintrc.json", "/* "),
        (".eslintrc.json", '\\"'),
        (".pylintrc", "["),
        ("CONTRIBUTING.md", " "),
        ("Cargo.toml", "\n"),
        ("Gemfile", "\n"),
        ("Gemfile", "group :a do\n"),
        ("a.csproj", "<PackageReference "),
        ("build.gradle", "\n "),
        ("eslint.config.js", "rules: {a:"),
        ("eslint.config.js", "config "),
        ("go.mod", "a."),
        ("package.json", " "),
    ],
)
def test_a_hostile_file_is_read_in_time(path: str, part: str) -> None:
    """Expressions hold the interpreter: one that takes minutes would stop a server for everybody."""
    text = f"# a{part * (MOST_CHARS // len(part))}\1!\n"
    with ends_within(20):
        style_report({path: text})
        dependencies({path: text})
        project_names({path: text})


def test_imports_and_tests_of_hostile_files_are_read_in_time(tmp_path: Path) -> None:
    lines = {
        "Cargo.toml": "\n",
        "b/Cargo.toml": "a]\n",
        "src/lib.rs": "\n",
        "a.cs": "\n",
        "a.csproj": "\n",
        "a.kt": "\n",
    }
    for name, line in lines.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"x{line * 100_000}!\n")
    (tmp_path / "src/main.rs").write_text("use crate::a;\n")
    (tmp_path / "b.cs").write_text("using A;\nclass B {}\n")
    with engine_of(tmp_path) as engine, ends_within(20):
        engine.code.map(MapRequest(str(tmp_path)))
        engine.knowledge.metadata(MetadataRequest(str(tmp_path)))


def test_paths_that_are_extended_are_recognised_in_time() -> None:
    with ends_within(20):
        assert style_report({".eslintrc.yml": f"extends: ['{'./' * 500}!']\n"}).rules
    assert not style_report({".eslintrc.yml": "extends: ['./a.js', '../b/c.js']\n"}).rules


@contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    """Of processor time: the machine may be busy."""

    def refuse(*_: object) -> None:
        raise AssertionError(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, refuse)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    ("path", "text"),
    [("main.tf", "\n" * 100_000), ("Gemfile", f"group :a{', :a' * 100_000}\n"), ("Gemfile", "group :a\n" * 100_000)],
)
def test_manifests_made_to_do_harm_are_read_in_linear_time(path: str, text: str) -> None:
    assert is_quick(lambda: dependencies({path: text}), 5)


def test_a_rule_as_long_as_a_file_is_read_in_linear_time() -> None:
    text = f"# Code style\n\n- {'[' * 100_000} must\n- {'. ' * 100_000}\n"
    assert is_quick(lambda: list(document_rules("CONTRIBUTING.md", text)), 5)
