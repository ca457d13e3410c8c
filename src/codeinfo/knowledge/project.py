"""What a project is made of, by its manifests: dependencies with versions, frameworks, how its tests are run."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.config import parse_toml
from codeinfo.errors import UsageError
from codeinfo.knowledge.style import lines_of_keys
from codeinfo.languages import GRAMMARS, is_shipped_folder, is_test_data, language_of
from codeinfo.languages.model import language_family
from codeinfo.operations.knowledge import (
    Dependency,
    Framework,
    LanguageSize,
    MetadataReport,
    TestSetup,
)

MOST_DEPENDENCIES = 3000  # of one manifest: each is looked up in its text
_CARGO_TABLE = re.compile(r"[ \t]*\[(?:target\..+\.)?((?:dev-|build-)?dependencies)(?:\.\"?([^\"\]]+))?\"?\]")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?P<version>[^;#\s][^;#]*)?")
# Where dependencies are in a text, for `_by_expression`.
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
_NUGET = re.compile(
    r"<Package(?:Reference|Version)\s+[^<>]*?Include=\"(?P<name>[^\"]+)\"(?:[^<>]*?Version=\"(?P<version>[^\"]+)\")?"
    r"|<Project\s+Sdk=\"(?P<sdk>[^\"/]+)(?:/(?P<release>[^\"]+))?\""
)
_CENTRAL = "Directory.Packages.props"  # has the versions of what projects of .NET refer to
_ESCAPED = re.compile(r"\\([\"\\/])")  # in a text of JSON
_FROM_CATALOG = "catalog:"  # as a version: it is in this list of the workspace; the usual list has no name
_CRATES, _GEMS = "\0crates", "\0gems"  # lists of Cargo and Bundler
_LOCKED_GEM = re.compile(r"^ {4}(?P<name>[\w.-]+) \((?P<version>[^)\s-]+)(?:-[^)\s]+)?\)$", re.MULTILINE)
_GEM_GROUP = re.compile(
    r"^[^\S\n]*group[\s(]+(?P<groups>:\w+(?:\s*,\s*:\w+)*)[^\n]*\bdo\b"
    r"(?P<gems>(?:[^\n]*\n(?![^\S\n]*group\b))+?)[^\S\n]*end\b",
    re.MULTILINE,
)
_PROPERTY = re.compile(r"<(?P<name>[\w.-]+)>(?P<value>[^<$]+)</(?P=name)>")
_REFERENCE = re.compile(r"\$[({]([\w.-]+(?:\(\))?)[)}]")
_GO_MAJOR = re.compile(r"(?<=\w)/v\d+$")  # at the end of a module's path
_NO_NAME = re.compile(r"(?:@[\w.-]+/)?(?:root|monorepo|workspace)")  # as the packages of many workspaces are called
_PROJECT_NAME = r"^[^\S\n]*(?:\{\s*)?\"?name\"?\s*[=:]\s*[\"']([^\"'\n]+)[\"']"

_NOT_SHIPPED = re.compile(r"dev|test|lint|doc|build|ci\b|bench|typing|indirect", re.IGNORECASE)  # groups
_SPRING_TEST = re.compile(r"(?<=^org\.springframework\.boot:)spring-boot-(?:starter-)?[\w-]+-test$")  # brings the rest


class _Known(Struct, frozen=True):
    """The tables in `frameworks.toml`, which says what they mean."""

    builds: dict[str, str]
    frameworks: dict[str, dict[str, str]]
    test_frameworks: dict[str, str]
    test_modules: dict[str, dict[str, str]]
    built_on: dict[str, set[str]]
    test_commands: dict[str, str]


@lru_cache(maxsize=1)
def _known() -> _Known:
    return msgspec.toml.decode(Path(__file__).with_name("frameworks.toml").read_bytes(), type=_Known)


def describe_project(
    root: Path,
    texts: Mapping[str, str],
    sizes: Mapping[str, LanguageSize],
    test_files: int,
    imported: Mapping[str, str],
    tested_with: Mapping[tuple[str, str], str] | None = None,
    inline_tests: int = 0,
) -> MetadataReport:
    """`texts` maps manifests to their text, `sizes` gives the index size by language, `imported` the modules that
    product code imports, each with a place, `tested_with` those that tests import, by language, and `inline_tests` the
    number of files with tests beside the code."""
    declared, notes = dependencies(texts)
    own = set(project_names(texts).values())
    declared = tuple(sorted(declared, key=lambda one: (one.name in own, not _is_of_main(one, sizes))))
    return MetadataReport(
        name=_name(texts, sizes) or root.name,
        root=str(root),
        files=sum(size.files for size in sizes.values()),
        lines=sum(size.lines for size in sizes.values()),
        languages=dict(sorted(sizes.items(), key=lambda item: (-item[1].lines, item[0]))),
        frameworks=frameworks(declared, imported, own),
        dependencies=declared,
        tests=test_setup(declared, texts, test_files, sizes, tested_with or {}, inline_tests),
        notes=notes,
    )


def _name(texts: Mapping[str, str], sizes: Mapping[str, LanguageSize]) -> str:
    """As a manifest at the top says, unless it is only for a tool in another language."""
    kinds = {path: kind_of_manifest(path) for path in texts if "/" not in path}
    ours = [path for path, kind in kinds.items() if kind and (not kind.family or _is_main(kind.family, sizes))]
    names = project_names({path: texts[path] for path in ours})
    names = {path: name for path, name in names.items() if not _NO_NAME.fullmatch(name)}
    return next((names[path] for path in ("pyproject.toml", "package.json", *names) if path in names), "")


def project_names(texts: Mapping[str, str]) -> dict[str, str]:
    """The declared names of packages, by the path of the manifest."""
    found = {}
    for path, text in texts.items():
        kind = kind_of_manifest(path)
        if kind is not None and kind.name and (match := re.search(kind.name, text, re.MULTILINE)):
            found[path] = match[1]
    return found


def is_manifest(path: str) -> bool:
    return kind_of_manifest(path) is not None and not is_test_data(path)


def kind_of_manifest(path: str) -> Manifest | None:
    name = path.rpartition("/")[2]
    return next((kind for kind in _MANIFESTS if re.fullmatch(kind.files, name)), None)


def dependencies(texts: Mapping[str, str]) -> tuple[tuple[Dependency, ...], tuple[str, ...]]:
    """What the manifests declare, once per file, and notes on those that could not be read. The product's come
    first, then those of tests and examples, shallow ones before deep ones, and last its own packages."""
    found: list[Dependency] = []
    notes: list[str] = []
    for path in sorted(texts, key=lambda path: (not is_shipped_folder(path.rpartition("/")[0]), path.count("/"), path)):
        kind = kind_of_manifest(path)
        try:
            listed = list(islice(kind.read(path, texts[path]), MOST_DEPENDENCIES + 1)) if kind else []
        except (ValueError, TypeError, AttributeError, UsageError, RecursionError, yaml.YAMLError):
            notes.append(f"{path} could not be read as a manifest")
            continue
        found += listed[:MOST_DEPENDENCIES]
        if len(listed) > MOST_DEPENDENCIES:
            notes.append(f"only the first {MOST_DEPENDENCIES:,} dependencies of {path} are listed")
    of_files = {path: {name: value.strip() for name, value in _PROPERTY.findall(text)} for path, text in texts.items()}
    properties = {name: value for table in of_files.values() for name, value in table.items()} | _catalog_values(texts)
    central: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for one in filter(_is_central, found):
        folder = one.source[: one.source.rfind("/") + 1]
        central[folder].setdefault((_list_of(one.group), one.name.lower()), one.version)
    found = [
        replace(one, version=_central_version(one, central))
        if not one.version or one.version.startswith(_FROM_CATALOG)
        else one
        for one in found
        if not _is_central(one)
    ]
    once: dict[tuple[str, str, str, str], Dependency] = {}
    for one in found:
        version = _insert(one.version, ChainMap(of_files[one.source.rpartition(":")[0]], properties))
        key = (one.name, version, one.source.rpartition(":")[0], one.group)
        once.setdefault(key, replace(one, version=version))
    own = set(project_names(texts).values())
    return tuple(sorted(once.values(), key=lambda one: one.name in own)), tuple(notes)


def _insert(version: str, properties: Mapping[str, str]) -> str:
    """A version with what it refers to; nothing if the manifests do not say what that is."""
    version = _REFERENCE.sub(lambda named: properties.get(named[1], named[0]), version)
    return "" if "$" in version else version


def _is_central(one: Dependency) -> bool:
    """Whether it is no dependency, but the version for those that refer to it or state none."""
    return _CENTRAL in one.source or one.group.startswith(_FROM_CATALOG)


def _list_of(written: str) -> str:
    """The name of the list that a version is in or taken from; the usual one has none."""
    name = written.removeprefix(_FROM_CATALOG) if written.startswith(_FROM_CATALOG) else ""
    return "" if name == "default" else name


def _central_version(one: Dependency, central: Mapping[str, Mapping[tuple[str, str], str]]) -> str:
    """The version in the nearest list above a project that has the name."""
    key = _list_of(one.version), one.name.lower()
    above = [folder for folder, versions in central.items() if one.source.startswith(folder) and key in versions]
    written = "" if key[0] in (_CRATES, _GEMS) else one.version
    return central[max(above, key=len)][key] if above else written


def frameworks(
    declared: Sequence[Dependency], imported: Mapping[str, str] | None = None, own: Collection[str] = ()
) -> tuple[Framework, ...]:
    """What the product is built on: dependencies that ship with it, those its code imports, and what builds it.
    Manifests of tests and examples do not count, and a product is not built on itself."""
    used = {package.lower(): place for module, place in (imported or {}).items() for package in _packages(module)}
    own = {name.lower() for name in own}
    builds = _known().builds
    known = dict(ChainMap(builds, *_known().frameworks.values()))
    found: dict[str, Framework] = {}
    shipped = {item.name for item in declared if is_shipped(item)}
    for item in declared:
        name, folder = _GO_MAJOR.sub("", item.name.lower()), item.source.rpartition("/")[0]
        if item.name in shipped and not is_shipped(item) and name not in builds:
            continue  # another line declares what the product needs
        group = name.partition(":")[0]  # a Maven group: everything it publishes is one framework
        name = group if group in known else name
        counts = is_shipped(item) or name in builds or name.replace("-", "_") in used or name in used
        is_ours = is_shipped_folder(folder) or "Dependencies.scala" in item.source  # beside the build of sbt
        if name in known and counts and name not in own and is_ours:
            found.setdefault(known[name], Framework(known[name], item.version, item.source))
    for package, place in used.items():
        language = language_of(place.rpartition(":")[0])
        family = language_family(language.name) if language else ""
        meant = _known().frameworks.get(family, {}).get(package)
        if meant and package not in own:
            found.setdefault(meant, Framework(meant, "", place))
    return tuple(found.values())


def is_shipped(item: Dependency) -> bool:
    return _NOT_SHIPPED.search(item.group) is None


def _packages(module: str) -> tuple[str, ...]:
    """The names of packages a module may belong to: `a.b` to `a`, `@a/b/c` to `@a/b`, `a::b` to `a`."""
    parts = module.split("/")
    return module, "/".join(parts[: 2 if module.startswith("@") else 1]), re.split(r"[.:\\]", module)[0]


def test_setup(
    declared: Sequence[Dependency],
    texts: Mapping[str, str],
    test_files: int,
    sizes: Mapping[str, LanguageSize],
    tested_with: Mapping[tuple[str, str], str],
    inline: int,
) -> TestSetup:
    tools: dict[str, str] = {}
    for item in declared:
        starter = _SPRING_TEST.sub("spring-boot-starter-test", _GO_MAJOR.sub("", item.name.lower()))
        if (name := _known().test_frameworks.get(starter)) and item.group != "indirect":
            tools.setdefault(name, item.source)
    if "mix.exs" in texts and test_files:
        tools.setdefault("ExUnit", "mix.exs")  # comes with the language
    for (language, module), place in tested_with.items():
        name = _known().test_modules.get(language, {}).get(module.strip("<>"), "")
        if name and _known().built_on.get(name, set()).isdisjoint(tools):
            tools.setdefault(name, place)
    # In a project of another language, `npm test` covers only its pages, and pytest one of its parts.
    of_scripts = _is_main("javascript", sizes) and bool(test_files or tools)
    command = _command(texts, tools, of_scripts, of_python=_is_main("python", sizes))
    return TestSetup(test_files, tuple(tools), command, tuple(tools.values()), inline)


def _is_main(language: str, sizes: Mapping[str, LanguageSize]) -> bool:
    """Whether no other language has more than twice as much code."""
    lines = Counter[str]()
    for name, size in sizes.items():
        lines[language_family(name)] += size.lines if name in GRAMMARS else 0
    return lines[language_family(language)] >= max(lines.values(), default=0) / 2


def _is_of_main(one: Dependency, sizes: Mapping[str, LanguageSize]) -> bool:
    kind = kind_of_manifest(one.source.rpartition(":")[0])
    return kind is None or not kind.family or _is_main(kind.family, sizes)


def _command(texts: Mapping[str, str], tools: Mapping[str, str], of_scripts: bool, of_python: bool) -> str:
    at_top = {path: text for path, text in texts.items() if "/" not in path}
    if re.search(r"^test\s*:", at_top.get("Makefile", ""), re.MULTILINE):
        return "make test"
    manager = re.search(r"\"packageManager\"\s*:\s*\"(\w+)@", at_top.get("package.json", ""))
    of_node = {"bun": "bun run test"}.get(manager[1], f"{manager[1]} test") if manager else "npm test"
    scripts = {"composer.json": "composer test", **({"package.json": of_node} if of_scripts else {})}
    found = {
        command: re.search(r"\"test\"\s*:\s*\"((?:[^\"\\]|\\.)+)\"", at_top.get(path, ""))
        for path, command in scripts.items()
    }
    written = {command: _ESCAPED.sub(r"\1", script[1]) for command, script in found.items() if script}
    named = [f"{command} ({script})" for command, script in written.items() if "no test specified" not in script]
    kinds = [kind for kind in _MANIFESTS if kind.command and any(re.fullmatch(kind.files, path) for path in at_top)]
    if ("pytest" in tools and of_python) or "[tool.pytest" in at_top.get("pyproject.toml", ""):
        kinds = [_PYTEST, *(kind for kind in kinds if kind.family != _PYTEST.family)]
    known = _known().test_commands
    by_tool = [known[name] for name, place in tools.items() if name in known and not _is_of_part(place)]
    if named:  # the scripts cover their own language
        return " and ".join((*named, *(kind.command for kind in kinds if kind.family), *by_tool[:1]))
    commands = (*(kind.command for kind in kinds[:1]), *by_tool)
    commands = tuple(_use_wrapper(command, at_top) for command in commands)
    return next(filter(None, commands), "")


def _is_of_part(place: str) -> bool:
    """Whether a manifest below the top names it, where its command runs; those of .NET belong to a solution."""
    path = place.rpartition(":")[0]
    kind = kind_of_manifest(path) if "/" in path else None
    return kind is not None and kind.family != "csharp"


def _use_wrapper(command: str, at_top: Collection[str]) -> str:
    """With the project's own copy of a build tool, where it has one."""
    tool, _, rest = command.partition(" ")
    wrapper = {"gradle": "gradlew", "mvn": "mvnw"}.get(tool, "")
    return f"./{wrapper} {rest}" if wrapper in at_top else command


# --- readers -------------------------------------------------------------------------------------------------------


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
    if match := _REQUIREMENT.match(spec.strip()):
        yield Dependency(match["name"], (match["version"] or "").strip(), place, group)


def _requirements(path: str, text: str) -> Iterator[Dependency]:
    group = "dev" if re.search(r"dev|test|lint|doc", path.rpartition("/")[2]) else ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith(("#", "-")):
            yield from _requirement(line, f"{path}:{number}", group)


def _pyproject(path: str, text: str) -> Iterator[Dependency]:
    parsed = parse_toml(text, Path(path))
    project = parsed.get("project", {})
    groups = {
        "": project.get("dependencies", []),
        **project.get("optional-dependencies", {}),
        **parsed.get("dependency-groups", {}),
    }
    for group, specs in groups.items():
        key = re.search(rf"^[ \t]*[\"']?{re.escape(str(group) or 'dependencies')}[\"']?[ \t]*=", text, re.MULTILINE)
        for spec in filter(lambda spec: isinstance(spec, str), specs):
            start, condition, _ = spec.partition(";")
            quoted = [f"{quote}{start}{condition or quote}" for quote in ('"', "'")]
            line = max(_line(text, one, after=key.start() if key else 0) for one in quoted)
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
    yield from _versions(path, yaml.safe_load(text) or {})


def _versions(path: str, table: Mapping[str, Any]) -> Iterator[Dependency]:
    """The lists of versions that the packages of a workspace refer to."""
    for name, versions in {"": table.get("catalog"), **(table.get("catalogs") or {})}.items():
        for package, version in (versions or {}).items():
            yield Dependency(package, str(version), f"{path}:1", f"{_FROM_CATALOG}{name}")


def _cargo(path: str, text: str) -> Iterator[Dependency]:
    """A workspace only lists versions: its crates say what they depend on, and what for."""
    parsed, lines = parse_toml(text, Path(path)), _cargo_lines(text)
    for table in (parsed, *parsed.get("target", {}).values()):
        for key, group in (("dependencies", ""), ("dev-dependencies", "dev"), ("build-dependencies", "build")):
            for name, value in table.get(key, {}).items():
                inherited = isinstance(value, Mapping) and value.get("workspace") is True
                version = f"{_FROM_CATALOG}{_CRATES}" if inherited else _version(value)
                yield Dependency(name, version, f"{path}:{lines.get((key, name), 1)}", group)
    for name, value in parsed.get("workspace", {}).get("dependencies", {}).items():
        yield Dependency(name, _version(value), f"{path}:1", f"{_FROM_CATALOG}{_CRATES}")


def _cargo_lines(text: str) -> dict[tuple[str, str], int]:
    """The line of each `name = …` in a table of dependencies, or of a table of its own."""
    found: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("["):
            header = _CARGO_TABLE.match(line)
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
    for found in _NUGET.finditer(text):
        name, version = found["name"] or found["sdk"], found["version"] or found["release"] or ""
        if found["name"] or name.lower() in (_known().frameworks["csharp"] | _known().test_frameworks):
            yield Dependency(name, version, f"{path}:{text.count(chr(10), 0, found.start()) + 1}", group)


def _gemfile(path: str, text: str) -> Iterator[Dependency]:
    """A gem in a group belongs to it: the first of the group's names that is not shipped."""
    spans = [(match.start("gems"), match.end("gems"), match["groups"]) for match in _GEM_GROUP.finditer(text)]
    lines = [(text.count("\n", 0, start), text.count("\n", 0, end), names) for start, end, names in spans]
    for one in _by_expression(_GEM)(path, text):
        line = int(one.source.rpartition(":")[2]) - 1
        at = bisect_left(lines, (line, 0, ""))
        _, last, names = lines[at - 1] if at else (0, -1, "")
        group = ", ".join(re.findall(r"\w+", names)) if line <= last else one.group
        yield replace(one, group=group, version=one.version or f"{_FROM_CATALOG}{_GEMS}")


def _gemfile_lock(path: str, text: str) -> Iterator[Dependency]:
    for found in _LOCKED_GEM.finditer(text):
        yield Dependency(found["name"], found["version"], f"{path}:1", f"{_FROM_CATALOG}{_GEMS}")


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
    for one in _by_expression(_MIX)(path, re.sub(r"[^\n]", "", before) + inside):
        yield replace(one, group=re.sub(r"[^\w,]", "", one.group))


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


def _catalog_values(texts: Mapping[str, str]) -> dict[str, str]:
    """The versions of Gradle's catalogs, by how build files write them: `libs.versions.kotlin.test.get()`."""
    found: dict[str, str] = {}
    for path in (path for path in texts if path.endswith(".versions.toml")):
        name = path.rpartition("/")[2].removesuffix(".versions.toml")
        with suppress(UsageError, AttributeError):
            versions = parse_toml(texts[path], Path(path)).get("versions", {})
            found |= {f"{name}.versions.{re.sub('[-_]', '.', key)}.get()": _version(versions[key]) for key in versions}
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
_GEM_NAME = r"(?:Specification\.new|\.name\s*=)[\s(]*[\"']([\w-]+)"
_MANIFESTS = (
    Manifest(r"pyproject\.toml", _pyproject, _PROJECT_NAME, "python"),
    Manifest(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)", _requirements),
    Manifest(r"package\.json", _package_json, _PROJECT_NAME, "javascript"),
    Manifest(r"pnpm-workspace\.yaml", _pnpm_workspace),
    Manifest(r"go\.mod", _by_expression(_GO), r"^module\s+(\S+)", "go", "go test ./..."),
    Manifest(r"Cargo\.toml", _cargo, _PROJECT_NAME, "rust", "cargo test"),
    Manifest(r"pom\.xml", _by_expression(_POM), family="java", command="mvn test"),
    Manifest(r"build\.gradle(?:\.kts)?", _by_expression(_GRADLE), family="java", command="gradle test"),
    Manifest(r".+\.versions\.toml", _catalog),
    Manifest(r".*\.csproj", _nuget, family="csharp"),
    Manifest(r".*\.fsproj|Directory\.(?:Packages|Build)\.props", _nuget),
    Manifest(r"composer\.json", _json_tables({"require": "", "require-dev": "dev"}), _PROJECT_NAME, "php"),
    Manifest(r"mix\.exs", _mix, r"\bapp:\s*:(\w+)", command="mix test"),
    Manifest(r"Gemfile", _gemfile, family="ruby"),
    Manifest(r"Gemfile\.lock", _gemfile_lock),
    Manifest(r".*\.gemspec", _by_expression(_GEM), _GEM_NAME, "ruby"),
    Manifest(r"Package\.swift", _by_expression(_SWIFT), r"\bname:\s*\"([^\"]+)\"", command="swift test"),
    Manifest(r"build\.sbt", _by_expression(_SBT), command="sbt test"),
    Manifest(r"Dependencies\.scala|plugins\.sbt", _by_expression(_SBT)),
    Manifest(r".*\.cabal", _cabal, r"^name:\s*(\S+)", command="cabal test"),
    Manifest(r"pubspec\.yaml", _pubspec, r"^name:\s*(\S+)"),
    Manifest(
        r"MODULE\.bazel",
        _by_expression(_BAZEL),
        r"^module\(\s*name\s*=\s*\"([^\"]+)",
        command="bazel test //...",
    ),
    Manifest(r"CMakeLists\.txt", _by_expression(_CMAKE), command="ctest"),
    Manifest(r"manage\.py", lambda path, text: iter(()), family="python", command="python manage.py test"),  # Django
)
_PYTEST = Manifest(r"pyproject\.toml", _pyproject, family="python", command="pytest")
