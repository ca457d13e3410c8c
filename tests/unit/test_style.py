"""Style rules and metadata, with the lines that state them."""

from __future__ import annotations

from pathlib import Path

import pytest
from team_tools import build_team, engine_of

from codeinfo.knowledge.metadata import dependencies
from codeinfo.knowledge.style import is_style_file, style_report
from codeinfo.operations.knowledge import MetadataRequest, StyleRequest


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (".editorconfig", "root = true\n[*.py]\nindent_size = 4\n", [("[*.py] indent_size = 4", 3)]),
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
    assert not any("outDir" in rule or "tool.other" in rule or "Tea" in rule for rule, _ in seen)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("requirements.txt", "# x\nflask==3.0 # web\n-r more.txt\n", [("flask", "==3.0", 2, "")]),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3"\nflask = "^3.0"\n', [("flask", "^3.0", 3, "")]),
        ("package.json", '{"dependencies": {\n"react": "^19"}}', [("react", "^19", 2, "")]),
        (
            "go.mod",
            "module x\n\nrequire (\n\tgithub.com/a/b v1.2.3\n\tgithub.com/c/d v0.1.0 // indirect\n)\n",
            [("github.com/a/b", "v1.2.3", 4, ""), ("github.com/c/d", "v0.1.0", 5, "indirect")],
        ),
        (
            "Cargo.toml",
            '[dependencies]\nserde = { version = "1" }\n[dev-dependencies]\nrstest = "0.2"\n',
            [("serde", "1", 2, ""), ("rstest", "0.2", 4, "dev")],
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


def test_a_broken_manifest_is_noted() -> None:
    found, notes = dependencies({"package.json": "{", "go.mod": "require x.y/z v1.0.0\n"})
    assert len(found) == 1
    assert notes == ("package.json could not be read as a manifest",)


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
        ".editorconfig:1",
        ".editorconfig:4",
        "CONTRIBUTING.md:5",
        "pyproject.toml:9",
        "pyproject.toml:10",
    ]
    assert [rule.source for rule in some.rules] == ["CONTRIBUTING.md:5"]
