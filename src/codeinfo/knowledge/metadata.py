"""What a project is made of: dependencies with versions from its manifests, frameworks, and how its tests are run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from codeinfo.config import parse_toml
from codeinfo.errors import UsageError
from codeinfo.languages import is_shipped_folder
from codeinfo.operations.knowledge import Dependency, Framework, LanguageSize, MetadataReport, TestSetup

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?P<version>[^;#\s][^;#]*)?")
_GO = re.compile(
    r"\s*(?:require\s+)?(?P<name>[\w.-]+\.[\w./~-]+)\s+(?P<version>v[\w.+-]+)(?P<indirect>\s*// indirect)?"
)
_POM = re.compile(
    r"<dependency>\s*<groupId>(?P<group>[^<]+)</groupId>\s*<artifactId>(?P<name>[^<]+)</artifactId>"
    r"(?:\s*<version>(?P<version>[^<]+)</version>)?(?:\s*<scope>(?P<scope>[^<]+)</scope>)?"
)
_GRADLE = re.compile(
    r"^\s*(?P<group>\w*(?:implementation|api|compileOnly|runtimeOnly|Implementation|Only|kapt|classpath))\s*\(?\s*"
    r"[\"'](?P<name>[\w.-]+:[\w.-]+)(?::(?P<version>[^\"'@]+))?[\"']",
    re.MULTILINE,
)
_NUGET = re.compile(r"<PackageReference\s+[^>]*?Include=\"(?P<name>[^\"]+)\"(?:[^>]*?Version=\"(?P<version>[^\"]+)\")?")
_GEM = re.compile(r"^\s*gem\s+[\"'](?P<name>[^\"']+)[\"'](?:\s*,\s*[\"'](?P<version>[^\"']+)[\"'])?", re.MULTILINE)
_PROJECT_NAME = re.compile(r"^\s*\{?\s*\"?name\"?\s*[=:]\s*\"([^\"\n]+)\"", re.MULTILINE)
_NAMES = dict.fromkeys(("pyproject.toml", "package.json", "Cargo.toml", "composer.json"), _PROJECT_NAME)
_NAMES["go.mod"] = re.compile(r"^module\s+(\S+)", re.MULTILINE)

# A dependency's name → the framework it stands for. Those for building are declared for development by nature; any
# other counts only if it ships with the product or the product's code imports it.
_BUILDS = {
    "vite": "Vite", "webpack": "webpack", "typescript": "TypeScript", "nx": "Nx", "@nx/workspace": "Nx",
    "@nrwl/workspace": "Nx", "@nrwl/cli": "Nx", "turbo": "Turborepo", "lerna": "Lerna", "electron": "Electron",
}  # fmt: skip
FRAMEWORKS = {
    "django": "Django", "flask": "Flask", "fastapi": "FastAPI", "starlette": "Starlette", "aiohttp": "aiohttp",
    "tornado": "Tornado", "sqlalchemy": "SQLAlchemy", "pydantic": "Pydantic", "celery": "Celery", "click": "Click",
    "typer": "Typer", "torch": "PyTorch", "tensorflow": "TensorFlow", "numpy": "NumPy", "pandas": "pandas",
    "react": "React", "next": "Next.js", "vue": "Vue", "nuxt": "Nuxt", "@angular/core": "Angular", "svelte": "Svelte",
    "express": "Express", "fastify": "Fastify", "@nestjs/core": "NestJS", "koa": "Koa", "hono": "Hono",
    "prisma": "Prisma", "@prisma/client": "Prisma", "@ngrx/store": "NgRx", "@ngrx/component-store": "NgRx",
    "@ngrx/signals": "NgRx", "@ngrx/effects": "NgRx", "rxjs": "RxJS", "@trpc/server": "tRPC", "astro": "Astro",
    "solid-js": "Solid", "@remix-run/react": "Remix", "tailwindcss": "Tailwind CSS",
    "github.com/gin-gonic/gin": "Gin", "github.com/go-chi/chi/v5": "chi", "github.com/labstack/echo/v4": "Echo",
    "gorm.io/gorm": "GORM", "github.com/spf13/cobra": "Cobra", "google.golang.org/grpc": "gRPC",
    "axum": "Axum", "actix-web": "Actix Web", "rocket": "Rocket", "tokio": "Tokio", "serde": "Serde", "clap": "clap",
    "org.springframework.boot:spring-boot-starter": "Spring Boot", "org.springframework.boot:spring-boot-starter-web":
    "Spring Boot", "io.quarkus:quarkus-core": "Quarkus", "io.micronaut:micronaut-core": "Micronaut",
    "microsoft.entityframeworkcore": "Entity Framework Core", "microsoft.aspnetcore.app": "ASP.NET Core",
    "laravel/framework": "Laravel", "symfony/framework-bundle": "Symfony", "rails": "Rails", "sinatra": "Sinatra",
    **_BUILDS,
}  # fmt: skip
_NOT_SHIPPED = re.compile(r"dev|test|lint|doc|build|ci\b|bench|typing", re.IGNORECASE)  # groups of dependencies
TEST_FRAMEWORKS = {
    "pytest": "pytest", "hypothesis": "Hypothesis", "nose2": "nose2", "tox": "tox", "jest": "Jest", "vitest": "Vitest",
    "mocha": "Mocha", "ava": "AVA", "jasmine-core": "Jasmine", "karma": "Karma", "cypress": "Cypress",
    "@playwright/test": "Playwright", "@testing-library/react": "Testing Library",
    "github.com/stretchr/testify": "testify", "github.com/onsi/ginkgo/v2": "Ginkgo",
    "org.junit.jupiter:junit-jupiter": "JUnit 5", "org.junit.jupiter:junit-jupiter-api": "JUnit 5",
    "junit:junit": "JUnit 4", "org.testng:testng": "TestNG", "org.mockito:mockito-core": "Mockito", "xunit": "xUnit",
    "nunit": "NUnit", "mstest.testframework": "MSTest", "moq": "Moq", "phpunit/phpunit": "PHPUnit", "rspec": "RSpec",
    "minitest": "Minitest", "proptest": "proptest", "rstest": "rstest", "criterion": "Criterion",
}  # fmt: skip
# How tests are run where the manifest itself says nothing better.
_COMMANDS = (("go.mod", "go test ./..."), ("Cargo.toml", "cargo test"), ("pom.xml", "mvn test"),
             ("build.gradle", "gradle test"), ("build.gradle.kts", "gradle test"))  # fmt: skip


def describe_project(
    root: Path,
    texts: Mapping[str, str],
    sizes: Mapping[str, LanguageSize],
    test_files: int,
    imported: Mapping[str, str],
) -> MetadataReport:
    """`texts` are the manifests by path, `sizes` those of the index by language, `imported` the modules that product
    code imports, each with a place."""
    declared, notes = dependencies(texts)
    return MetadataReport(
        name=_name(texts) or root.name,
        root=str(root),
        files=sum(size.files for size in sizes.values()),
        lines=sum(size.lines for size in sizes.values()),
        languages=dict(sorted(sizes.items(), key=lambda item: (-item[1].lines, item[0]))),
        frameworks=frameworks(declared, imported, set(project_names(texts).values())),
        dependencies=declared,
        tests=test_setup(declared, texts, test_files),
        notes=notes,
    )


def _name(texts: Mapping[str, str]) -> str:
    names = project_names({path: text for path, text in texts.items() if "/" not in path})
    return next((names[path] for path in ("pyproject.toml", "package.json", *names) if path in names), "")


def project_names(texts: Mapping[str, str]) -> dict[str, str]:
    """What packages call themselves, by the path of the manifest."""
    found = {}
    for path, text in texts.items():
        expression = _NAMES.get(path.rpartition("/")[2])
        if expression is not None and (match := expression.search(text)):
            found[path] = match[1]
    return found


def is_manifest(path: str) -> bool:
    return _reader(path.rpartition("/")[2]) is not None


def _reader(name: str) -> Callable[[str, str], Iterator[Dependency]] | None:
    if re.fullmatch(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)", name):
        return _requirements
    if name.endswith((".csproj", ".fsproj", "Directory.Packages.props")):
        return _nuget
    return _READERS.get(name)


def dependencies(texts: Mapping[str, str]) -> tuple[tuple[Dependency, ...], tuple[str, ...]]:
    """What the manifests declare, shallow ones first, and notes on those that could not be read."""
    found: list[Dependency] = []
    notes: list[str] = []
    for path in sorted(texts, key=lambda path: (path.count("/"), path)):
        read = _reader(path.rpartition("/")[2])
        if read is None:
            continue
        try:
            found += read(path, texts[path])
        except (ValueError, TypeError, AttributeError, UsageError, RecursionError):
            notes.append(f"{path} could not be read as a manifest")
    return tuple(dict.fromkeys(found)), tuple(notes)


def frameworks(
    declared: Sequence[Dependency], imported: Mapping[str, str] | None = None, own: Collection[str] = ()
) -> tuple[Framework, ...]:
    """What the product is built on: dependencies that ship with it, those that its code imports, and what builds it.
    Manifests of tests and examples say nothing about the product, and it is not built on itself."""
    used = {package.lower(): place for module, place in (imported or {}).items() for package in _packages(module)}
    found: dict[str, Framework] = {}
    for item in declared:
        name, folder = item.name.lower(), item.source.rpartition("/")[0]
        counts = is_shipped(item) or name in _BUILDS or name.replace("-", "_") in used or name in used
        if name in FRAMEWORKS and counts and item.name not in own and is_shipped_folder(folder):
            found.setdefault(FRAMEWORKS[name], Framework(FRAMEWORKS[name], item.version, item.source))
    for package, place in used.items():
        if package in FRAMEWORKS and package not in own:
            found.setdefault(FRAMEWORKS[package], Framework(FRAMEWORKS[package], "", place))
    return tuple(found.values())


def is_shipped(item: Dependency) -> bool:
    return _NOT_SHIPPED.search(item.group) is None


def _packages(module: str) -> tuple[str, ...]:
    """The names of packages that a module may belong to: `a.b` to `a`, `@a/b/c` to `@a/b`, `a::b` to `a`."""
    parts = module.split("/")
    return module, "/".join(parts[: 2 if module.startswith("@") else 1]), re.split(r"[.:\\]", module)[0]


def test_setup(declared: Sequence[Dependency], texts: Mapping[str, str], test_files: int) -> TestSetup:
    tools: dict[str, str] = {}
    for item in declared:
        if name := TEST_FRAMEWORKS.get(item.name.lower()):
            tools.setdefault(name, item.source)
    return TestSetup(test_files, tuple(tools), _command(texts, tools), tuple(tools.values()))


def _command(texts: Mapping[str, str], tools: Mapping[str, str]) -> str:
    at_top = {path: text for path, text in texts.items() if "/" not in path}
    if re.search(r"^test\s*:", at_top.get("Makefile", ""), re.MULTILINE):
        return "make test"
    script = re.search(r"\"test\"\s*:\s*\"([^\"]+)\"", at_top.get("package.json", ""))
    if script and "no test specified" not in script[1]:
        return f"npm test ({script[1]})"
    if "pytest" in tools or "[tool.pytest" in at_top.get("pyproject.toml", ""):
        return "pytest"
    return next((command for name, command in _COMMANDS if name in at_top), "")


# --- readers -------------------------------------------------------------------------------------------------------


def _line(text: str, *words: str) -> int:
    """The first line that holds the words; 1 where none does."""
    return next((n for n, line in enumerate(text.split("\n"), 1) if all(word in line for word in words)), 1)


def _requirement(text: str, spec: object, path: str, group: str) -> Iterator[Dependency]:
    if isinstance(spec, str) and (match := _REQUIREMENT.match(spec.strip())):
        version = (match["version"] or "").strip()
        yield Dependency(match["name"], version, f"{path}:{_line(text, spec.split(';')[0].strip())}", group)


def _requirements(path: str, text: str) -> Iterator[Dependency]:
    group = "dev" if re.search(r"dev|test|lint|doc", path.rpartition("/")[2]) else ""
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith(("#", "-")):
            yield from _requirement(text, line, path, group)


def _pyproject(path: str, text: str) -> Iterator[Dependency]:
    parsed = parse_toml(text, Path(path))
    project = parsed.get("project", {})
    for spec in project.get("dependencies", []):
        yield from _requirement(text, spec, path, "")
    groups = {**project.get("optional-dependencies", {}), **parsed.get("dependency-groups", {})}
    for group, specs in groups.items():
        for spec in specs:
            yield from _requirement(text, spec, path, str(group))
    poetry = parsed.get("tool", {}).get("poetry", {})
    tables = {"": poetry.get("dependencies", {}), "dev": poetry.get("dev-dependencies", {})}
    tables |= {str(name): table.get("dependencies", {}) for name, table in poetry.get("group", {}).items()}
    for group, table in tables.items():
        for name, value in table.items():
            if name != "python":
                yield Dependency(name, _version(value), f"{path}:{_line(text, name)}", group)


def _version(value: object) -> str:
    found = value.get("version", "") if isinstance(value, Mapping) else value
    return found if isinstance(found, str) else ""


def _json_tables(groups: Mapping[str, str]) -> Callable[[str, str], Iterator[Dependency]]:
    def read(path: str, text: str) -> Iterator[Dependency]:
        parsed = json.loads(text)
        for key, group in groups.items():
            for name, version in parsed.get(key, {}).items():
                if name != "php" and not name.startswith("ext-"):
                    yield Dependency(name, _version(version), f"{path}:{_line(text, json.dumps(name), ':')}", group)

    return read


def _cargo(path: str, text: str) -> Iterator[Dependency]:
    parsed = parse_toml(text, Path(path))
    for table in (parsed, parsed.get("workspace", {})):
        for key, group in (("dependencies", ""), ("dev-dependencies", "dev"), ("build-dependencies", "build")):
            for name, value in table.get(key, {}).items():
                yield Dependency(name, _version(value), f"{path}:{_line(text, name, '=')}", group)


def _go_mod(path: str, text: str) -> Iterator[Dependency]:
    for number, line in enumerate(text.split("\n"), 1):
        if (match := _GO.match(line)) and not line.startswith(("module", "replace")):
            group = "indirect" if match["indirect"] else ""
            yield Dependency(match["name"], match["version"], f"{path}:{number}", group)


def _expression(
    expression: re.Pattern[str], group: Callable[[re.Match[str]], str] = lambda match: ""
) -> Callable[[str, str], Iterator[Dependency]]:
    def read(path: str, text: str) -> Iterator[Dependency]:
        for match in expression.finditer(text):
            line = text.count("\n", 0, match.start("name")) + 1
            name = f"{match['group']}:{match['name']}" if expression is _POM else match["name"]
            yield Dependency(name, match["version"] or "", f"{path}:{line}", group(match))

    return read


_nuget = _expression(_NUGET)
_gradle = _expression(_GRADLE, lambda match: "test" if match["group"].startswith("test") else "")
_READERS: Mapping[str, Callable[[str, str], Iterator[Dependency]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _json_tables(
        {"dependencies": "", "devDependencies": "dev", "peerDependencies": "peer", "optionalDependencies": "optional"}
    ),
    "composer.json": _json_tables({"require": "", "require-dev": "dev"}),
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "pom.xml": _expression(_POM, lambda match: match["scope"] or ""),
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
    "Gemfile": _expression(_GEM),
}
