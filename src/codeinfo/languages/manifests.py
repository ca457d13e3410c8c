"""Package manifests: what each format says about a package, for the rules of imports, the map and the metadata."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.config import parse_toml
from codeinfo.errors import UsageError
from codeinfo.operations.knowledge import Dependency

_CARGO_TABLE = r"[ \t]*\[(?:target\..+\.)?((?:dev-|build-)?dependencies)(?:\.\"?([^\"\]]+))?\"?\]"
_CARGO_ROOTS = ("bin", "test", "example", "bench")  # tables of files that are roots of crates
_REQUIREMENT = r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?P<version>[^;#\s][^;#]*)?"
# Where dependencies are in a text. Expressions are compiled at their first use: most processes read no manifest.
_GO = (
    r"^(?!module|replace)[ \t]*(?:require[ \t]+)?(?P<name>[\w-]+\.[\w./~-]+)[ \t]+(?P<version>v[\w.+-]+)"
    r"(?P<indirect>[ \t]*// indirect)?"
)
_POM = (
    r"<dependency>\s*<groupId>(?P<owner>[^<]+)</groupId>\s*<artifactId>(?P<name>[^<]+)</artifactId>"
    r"(?:\s*<version>(?P<version>[^<]+)</version>)?(?:\s*<scope>(?P<group>[^<]+)</scope>)?"
)
_GRADLE = (
    r"^[^\S\n]*(?P<test>test)?\w*(?:implementation|api|compileOnly|runtimeOnly|Implementation|Only|kapt|classpath)\s*\(?\s*"
    r"[\"'](?P<name>[\w.-]+:[\w.-]+)(?::(?P<version>[^\"'@]+))?[\"']"
)
_GEM = (
    r"^[^\S\n]*(?:gem|\w+\.add_(?:(?P<dev>development_)|runtime_)?dependency)[\s(]+[\"'](?P<name>[^\"']+)[\"']"
    r"(?:\s*,\s*[\"'](?P<version>[^\"']+)[\"'])?"
)
_BAZEL = (
    r"^bazel_dep\(\s*name\s*=\s*\"(?P<name>[^\"]+)\"(?:\s*,\s*version\s*=\s*\"(?P<version>[^\"]+)\")?"
    r"(?P<dev>[^)]*dev_dependency)?"
)
_CMAKE = r"(?i)^[^\S\n]*find_package\(\s*(?P<name>[\w-]+)(?:\s+(?P<version>\d[\w.]*))?"
_MIX = (
    r"^[^\S\n]*\[?\{\s*:(?P<name>\w+),\s*(?:\"(?P<version>[^\"]+)\"|(?=\w+:))"
    r"(?:[^}\n]*?\bonly:\s*(?P<group>:\w+|\[[^\]]*\]))?"
)
_SWIFT = (
    r"\.package\(\s*(?:name:[^,]+,\s*)?url:\s*\"(?:[^\"]*/)?(?P<name>[^\"/]+?)(?:\.git)?/?\"\s*,[^\"\n]*"
    r"\"(?P<version>[^\"]+)\""
)
_SBT = (
    r"(?P<dev>addSbtPlugin\(\s*)?\"(?P<owner>[\w.-]+)\"\s*%{1,3}\s*\"(?P<name>[\w.-]+)\"\s*%\s*(?:\"(?P<version>[^\"]+)\"|\w+)"
    r"(?P<test>\s*%\s*\"?[Tt]est)?"
)
_NUGET = (
    r"<Package(?:Reference|Version)\s+[^<>]*?Include=\"(?P<name>[^\"]+)\"(?:[^<>]*?Version=\"(?P<version>[^\"]+)\")?"
    r"|<Project\s+Sdk=\"(?P<kit>(?i:Microsoft\.NET\.Sdk\.Web|Aspire\.AppHost\.Sdk|MSTest\.Sdk))(?:/(?P<release>[^\"]+))?\""
)
FROM_CATALOG = "catalog:"  # as a version: it is in this list of the workspace; the usual list has no name
CRATES, GEMS = "\0crates", "\0gems"  # lists of Cargo and Bundler
_TERRAFORM = (  # an address of another kind is no package: `./modules/cart`, `git::https://…`
    r'(?m)^[ \t]*(?:(?P<itself>required_version)|source\s*=\s*"(?P<name>\w[\w.-]*/[\w./-]+)"(?:\s+version)?)'
    r'(?:\s*=\s*"(?P<version>[^"\n]*)")?'
)
_LOCKED_GEM = r"(?m)^ {4}(?P<name>[\w.-]+) \((?P<version>[^)\s-]+)(?:-[^)\s]+)?\)$"
_GEM_GROUP = (
    r"(?m)^[^\S\n]*group[\s(]+(?P<groups>:\w++(?:\s*,\s*:\w++)*+)[^\n]*\bdo\b"
    r"(?P<gems>(?:[^\n]*\n(?![^\S\n]*group\b))+?)[^\S\n]*end\b"
)


def _line(text: str, first: str, *others: str, after: int = 0) -> int:
    """The first line that contains the words, behind a position; 1 if none does."""
    start = text.find(first, after)
    while start >= 0:
        end = text.find("\n", start)
        line = text[text.rfind("\n", 0, start) + 1 : end if end >= 0 else len(text)]
        if all(word in line for word in others):
            return text.count("\n", 0, start) + 1
        start = text.find(first, end) if end >= 0 else -1
    return 1


def _requirement(spec: str, place: str, group: str) -> Iterator[Dependency]:
    if match := re.match(_REQUIREMENT, spec.strip()):
        yield Dependency(match["name"], (match["version"] or "").strip(), place, group)


def _requirements(path: str, text: str) -> Iterator[Dependency]:
    group = "dev" if re.search(r"dev|test|lint|doc", path.rpartition("/")[2]) else ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith(("#", "-")):
            yield from _requirement(line, f"{path}:{number}", group)


def _pyproject(path: str, text: str) -> Iterator[Dependency]:
    parsed = parse_toml(text, Path(path))
    project = parsed.get("project", {})
    groups = {"": project.get("dependencies", []), **project.get("optional-dependencies", {})}
    groups |= parsed.get("dependency-groups", {})
    for group, specs in groups.items():
        key = re.search(rf"^[ \t]*[\"']?{re.escape(str(group) or 'dependencies')}[\"']?[ \t]*=", text, re.MULTILINE)
        for spec in filter(lambda spec: isinstance(spec, str), specs):
            start, condition, _ = spec.partition(";")
            quoted = [f"{quote}{start}{condition or quote}" for quote in ('"', "'")]
            line = max(_line(text, name, after=key.start() if key else 0) for name in quoted)
            yield from _requirement(spec, f"{path}:{line}", str(group))
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
            before, inside = text[: (start := text.find(f'"{key}"'))].count("\n"), text[start:]
            for name, version in parsed.get(key, {}).items():
                if name != "php" and not name.startswith("ext-"):
                    line = before + _line(inside, json.dumps(name), ":")
                    yield Dependency(name, _version(version), f"{path}:{line}", group)

    return read


def _package_json(path: str, text: str) -> Iterator[Dependency]:
    yield from _json_tables(_NODE)(path, text)
    parsed = json.loads(text)
    workspaces = parsed.get("workspaces")
    for table in (parsed, workspaces if isinstance(workspaces, Mapping) else {}):
        yield from _versions(path, table)


def _pnpm_workspace(path: str, text: str) -> Iterator[Dependency]:
    import yaml  # no search needs it

    yield from _versions(path, yaml.safe_load(text) or {})


def _versions(path: str, table: Mapping[str, Any]) -> Iterator[Dependency]:
    """The lists of versions that the packages of a workspace refer to."""
    for name, versions in {"": table.get("catalog"), **(table.get("catalogs") or {})}.items():
        for package, version in (versions or {}).items():
            # Lists in YAML may hold one another many times: 1 KB of them is a text of any length.
            written = str(version) if isinstance(version, str | int | float) else ""
            yield Dependency(str(package), written, f"{path}:1", f"{FROM_CATALOG}{name}")


class Cargo(Struct, frozen=True):
    """A crate as its code and its files see it: names as code writes them, and the paths of its roots."""

    name: str
    library: str
    programs: list[str]
    others: list[str]  # tests, examples and benchmarks
    crates: dict[str, str]  # name here → name of the package


def read_cargo(text: str) -> Cargo:
    """Raises UsageError, TypeError or AttributeError if it is broken."""
    parsed = parse_toml(text, Path("Cargo.toml"))
    library, shared = parsed.get("lib", {}), parsed.get("workspace", {}).get("dependencies", {})
    declared = {**{name: value for _, _, name, value in _crates(parsed)}, **shared}
    renamed = {name: value.get("package", name) for name, value in declared.items() if isinstance(value, Mapping)}
    listed = ([row for row in parsed.get(kind, ()) if "path" in row] for kind in _CARGO_ROOTS)
    programs, *others = ([str(row["path"]) for row in rows] for rows in listed)
    return Cargo(
        name=(library.get("name") or parsed.get("package", {}).get("name", "")).replace("-", "_"),
        library=library.get("path", "src/lib.rs"),
        programs=programs,
        others=[path for paths in others for path in paths],
        crates={name.replace("-", "_"): renamed.get(name, name).replace("-", "_") for name in declared},
    )


def _crates(parsed: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """What a crate depends on: the table, the group, the name and how it is specified."""
    for table in (parsed, *parsed.get("target", {}).values()):
        for key, group in (("dependencies", ""), ("dev-dependencies", "dev"), ("build-dependencies", "build")):
            yield from ((key, group, name, value) for name, value in table.get(key, {}).items())


def _cargo(path: str, text: str) -> Iterator[Dependency]:
    """A workspace only lists versions: its crates say what they depend on, and what for."""
    parsed, lines = parse_toml(text, Path(path)), _cargo_lines(text)
    for key, group, name, value in _crates(parsed):
        inherited = isinstance(value, Mapping) and value.get("workspace") is True
        version = f"{FROM_CATALOG}{CRATES}" if inherited else _version(value)
        package = value.get("package", name) if isinstance(value, Mapping) else name
        yield Dependency(package, version, f"{path}:{lines.get((key, name), 1)}", group)
    for name, value in parsed.get("workspace", {}).get("dependencies", {}).items():
        yield Dependency(name, _version(value), f"{path}:1", f"{FROM_CATALOG}{CRATES}")


def _cargo_lines(text: str) -> dict[tuple[str, str], int]:
    """The line of each `name = …` in a table of dependencies, or of a table of its own."""
    found: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("["):
            header = re.match(_CARGO_TABLE, line)
            table, name = (header[1], header[2]) if header else ("", "")
        else:
            name = line.strip(' \t"').partition("=")[0].partition(".")[0].strip(' \t"')
        if table and name:
            found.setdefault((table, name), number)
    return found


def _by_expression(expression: str) -> Callable[[str, str], Iterator[Dependency]]:
    """What an expression finds: `name`, with its `owner` before it, `version` and `group`, or one of the groups that
    are called so if it matches."""

    def read(path: str, text: str) -> Iterator[Dependency]:
        for match in re.finditer(expression, text, re.MULTILINE):
            found = match.groupdict("")
            name = f"{found['owner']}:{found['name']}" if "owner" in found else found["name"]
            group = next((kind for kind in ("dev", "test", "indirect") if found.get(kind)), found.get("group", ""))
            yield Dependency(name, found["version"], f"{path}:{text.count(chr(10), 0, match.start('name')) + 1}", group)

    return read


def _nuget(path: str, text: str) -> Iterator[Dependency]:
    """What is referred to, and the kit that a project is built with where that stands for a framework."""
    group = "test" if re.search(r"Test|(?<![a-z])test", path) else ""
    for found in re.finditer(_NUGET, text):
        name, version = found["name"] or found["kit"], found["version"] or found["release"] or ""
        yield Dependency(name, version, f"{path}:{text.count(chr(10), 0, found.start()) + 1}", group)


def _gemfile(path: str, text: str) -> Iterator[Dependency]:
    """A gem in a group belongs to it: the first of the group's names that is not shipped."""
    spans = [(match.start("gems"), match.end("gems"), match["groups"]) for match in re.finditer(_GEM_GROUP, text)]
    lines = [(text.count("\n", 0, start), text.count("\n", 0, end), names) for start, end, names in spans]
    for gem in _by_expression(_GEM)(path, text):
        line = int(gem.source.rpartition(":")[2]) - 1
        at = bisect_left(lines, (line, 0, ""))
        _, last, names = lines[at - 1] if at else (0, -1, "")
        group = ", ".join(re.findall(r"\w+", names)) if line <= last else gem.group
        yield replace(gem, group=group, version=gem.version or f"{FROM_CATALOG}{GEMS}")


def _gemfile_lock(path: str, text: str) -> Iterator[Dependency]:
    for found in re.finditer(_LOCKED_GEM, text):
        yield Dependency(found["name"], found["version"], f"{path}:1", f"{FROM_CATALOG}{GEMS}")


def _cabal(path: str, text: str) -> Iterator[Dependency]:
    """The lists of each section; what a test or benchmark section needs is not shipped."""
    group, inside = "", False
    for number, line in enumerate(text.split("\n"), 1):
        if section := re.match(r"(library|executable|test-suite|benchmark|common)\b", line):
            group = {"test-suite": "test", "benchmark": "bench"}.get(section[1], "")
        field = re.match(r"\s*([\w-]+):(.*)", line)
        inside = field[1].lower() == "build-depends" if field else inside and bool(line.strip())
        listed = field[2] if field else line
        for part in listed.partition("--")[0].split(",") if inside else ():
            if match := re.match(r"\s*([A-Za-z][\w-]*)\s*((?:[\^<>=].*)?)", part):
                yield Dependency(match[1], " ".join(match[2].split()), f"{path}:{number}", group)


def _pubspec(path: str, text: str) -> Iterator[Dependency]:
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    tables = {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    for table, group in (("dependencies", ""), ("dev_dependencies", "dev")):
        for key, value in getattr(tables.get(table), "value", None) or ():
            version = value.value if isinstance(value, yaml.ScalarNode) else ""
            yield Dependency(key.value, version, f"{path}:{key.start_mark.line + 1}", group)


def _mix(path: str, text: str) -> Iterator[Dependency]:
    """Only the pairs in `deps` are dependencies."""
    start = re.search(r"\bdefp? deps\b", text)
    before, inside = (text[: start.start()], text[start.start() :].partition("\n  end")[0]) if start else ("", "")
    for dependency in _by_expression(_MIX)(path, re.sub(r"[^\n]", "", before) + inside):
        yield replace(dependency, group=re.sub(r"[^\w,]", "", dependency.group))


def _catalog(path: str, text: str) -> Iterator[Dependency]:
    """Gradle's version catalog."""
    parsed = parse_toml(text, Path(path))
    versions = parsed.get("versions", {})
    for alias, value in parsed.get("libraries", {}).items():
        if isinstance(value, str):
            name, _, version = value.rpartition(":")
        else:
            name = value.get("module") or f"{value.get('group', '')}:{value.get('name', '')}"
            version = value.get("version", "")
            version = versions.get(version.get("ref"), "") if isinstance(version, Mapping) else version
        line = lines_of_keys(text).get(("libraries", alias.lower()), 1)
        yield Dependency(name, _version(version), f"{path}:{line}")


def catalog_values(texts: Mapping[str, str]) -> dict[str, str]:
    """The versions of Gradle's catalogs, by how build files write them: `libs.versions.kotlin.test.get()`."""
    found: dict[str, str] = {}
    for path in (path for path in texts if path.endswith(".versions.toml")):
        name = path.rpartition("/")[2].removesuffix(".versions.toml")
        with suppress(UsageError, AttributeError):
            versions = parse_toml(texts[path], Path(path)).get("versions", {})
            found |= {f"{name}.versions.{re.sub('[-_]', '.', key)}.get()": _version(versions[key]) for key in versions}
    return found


_SECTION = r"\s*\[+\s*(?P<name>[^\[\]\s][^\]\n]*)\]+\s*(?:[#;].*)?"
_ASSIGNMENT = r"\s*(?P<key>\"[^\"]+\"|'[^']+'|[\w.\-/@]+)\s*(?:[=:].*)?"


def _terraform(path: str, text: str) -> Iterator[Dependency]:
    """Terraform itself, its providers and modules from registries."""
    for found in re.finditer(_TERRAFORM, text):
        line = text.count("\n", 0, found.start(found.lastgroup or 0)) + 1
        yield Dependency(
            "terraform" if found["itself"] else found["name"], found["version"] or "", f"{path}:{line}", ""
        )


def lines_of_keys(text: str) -> dict[tuple[str, str], int]:
    """The lines of sections and keys in INI and TOML, which their parsers do not report."""
    section = ""
    found: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.fullmatch(_SECTION, line):
            section = match["name"].strip().replace('"', "")
        elif match := re.fullmatch(_ASSIGNMENT, line):
            found.setdefault((section, match["key"].strip("\"'").lower()), number)
    return found


class Manifest(Struct, frozen=True):
    """A file that describes a package. `files` matches its name, `name` finds the package's declared name, `family`
    is its language family, and `command` runs its tests unless something else is configured."""

    files: str
    read: Callable[[str, str], Iterator[Dependency]]
    name: str = ""
    family: str = ""
    command: str = ""


_NODE = {"dependencies": "", "devDependencies": "dev", "peerDependencies": "peer", "optionalDependencies": "optional"}
_NAME = r"^[^\S\n]*(?:\{\s*)?\"?name\"?\s*[=:]\s*[\"']([^\"'\n]+)[\"']"
_GEM_NAME = r"(?:Specification\.new|\.name\s*=)[\s(]*[\"']([\w-]+)"
MANIFESTS = (
    Manifest(r"pyproject\.toml", _pyproject, _NAME, "python"),
    Manifest(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)", _requirements),
    Manifest(r"package\.json", _package_json, _NAME, "javascript"),
    Manifest(r"pnpm-workspace\.yaml", _pnpm_workspace),
    Manifest(r"go\.mod", _by_expression(_GO), r'^module\s+"?([^\s"]+)', "go", "go test ./..."),
    Manifest(r"Cargo\.toml", _cargo, _NAME, "rust", "cargo test"),
    Manifest(r"pom\.xml", _by_expression(_POM), family="java", command="mvn test"),
    Manifest(r"build\.gradle(?:\.kts)?", _by_expression(_GRADLE), family="java", command="gradle test"),
    Manifest(r".+\.versions\.toml", _catalog),
    Manifest(r".*\.csproj", _nuget, family="csharp"),
    Manifest(r".*\.fsproj|Directory\.(?:Packages|Build)\.props", _nuget),
    Manifest(r"composer\.json", _json_tables({"require": "", "require-dev": "dev"}), _NAME, "php"),
    Manifest(r"mix\.exs", _mix, r"\bapp:\s*:(\w+)", command="mix test"),
    Manifest(r"Gemfile", _gemfile, family="ruby"),
    Manifest(r"Gemfile\.lock", _gemfile_lock),
    Manifest(r".*\.gemspec", _by_expression(_GEM), _GEM_NAME, "ruby"),
    Manifest(r"Package\.swift", _by_expression(_SWIFT), r"\bname:\s*\"([^\"]+)\"", command="swift test"),
    Manifest(r"build\.sbt", _by_expression(_SBT), command="sbt test"),
    Manifest(r"Dependencies\.scala|plugins\.sbt", _by_expression(_SBT)),
    Manifest(r".*\.cabal", _cabal, r"^name:\s*(\S+)", command="cabal test"),
    Manifest(r"pubspec\.yaml", _pubspec, r"^name:[ \t]*[\"']?(\w+)"),
    Manifest(
        r"MODULE\.bazel",
        _by_expression(_BAZEL),
        r"^module\(\s*name\s*=\s*\"([^\"]+)",
        command="bazel test //...",
    ),
    Manifest(r"(?:versions|terraform|providers)\.(?:tf|tofu)", _terraform),
    Manifest(r"CMakeLists\.txt", _by_expression(_CMAKE), command="ctest"),
    Manifest(r"manage\.py", lambda path, text: iter(()), family="python", command="python manage.py test"),  # Django
)
PYTEST = Manifest(r"pyproject\.toml", _pyproject, family="python", command="pytest")


_ANY = re.compile("|".join(f"(?:{kind.files})" for kind in MANIFESTS))


def kind_of_manifest(path: str) -> Manifest | None:
    name = path.rpartition("/")[2]
    kinds = MANIFESTS if _ANY.fullmatch(name) else ()  # a project has thousands of other files
    return next((kind for kind in kinds if re.fullmatch(kind.files, name)), None)


def package_name(path: str, text: str) -> str:
    """The declared name; "" if there is none."""
    kind = kind_of_manifest(path)
    found = re.search(kind.name, text, re.MULTILINE) if kind is not None and kind.name else None
    return found[1] if found else ""
