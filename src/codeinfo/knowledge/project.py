"""What a project is made of, by its manifests: dependencies with versions, frameworks, how its tests are run."""

from __future__ import annotations

import re
from collections import ChainMap, Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from posixpath import dirname

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from codeinfo.errors import UsageError
from codeinfo.languages import GRAMMARS, is_shipped_folder, is_test_data, language_of, manifests
from codeinfo.languages.manifests import CRATES, FROM_CATALOG, GEMS, MANIFESTS, kind_of_manifest, package_name
from codeinfo.languages.model import language_family
from codeinfo.operations.knowledge import Dependency, Framework, LanguageSize, MetadataReport, TestSetup

MOST_DEPENDENCIES = 3000  # of one manifest: each is looked up in its text
_CENTRAL = "Directory.Packages.props"  # has the versions of what projects of .NET refer to
_ESCAPED = re.compile(r"\\([\"\\/])")  # in a text of JSON
_PROPERTY = re.compile(r"<(?P<name>[\w.-]+)>(?P<value>[^<$]+)</(?P=name)>")
_REFERENCE = re.compile(r"\$[({]([\w.-]+(?:\(\))?)[)}]")
_GO_MAJOR = re.compile(r"(?<=\w)/v\d+$")  # at the end of a module's path
_NO_NAME = re.compile(r"(?:@[\w.-]+/)?(?:root|monorepo|workspace)")  # as the packages of many workspaces are called

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
    own_names = set(project_names(texts).values())
    declared = tuple(sorted(declared, key=lambda item: (item.name in own_names, not _is_of_main(item, sizes))))
    return MetadataReport(
        name=_choose_name(texts, sizes) or root.name,
        root=str(root),
        files=sum(size.files for size in sizes.values()),
        lines=sum(size.lines for size in sizes.values()),
        languages=dict(sorted(sizes.items(), key=lambda item: (-item[1].lines, item[0]))),
        frameworks=frameworks(declared, imported, own_names),
        dependencies=declared,
        tests=test_setup(declared, texts, test_files, sizes, tested_with or {}, inline_tests),
        notes=notes,
    )


def _choose_name(texts: Mapping[str, str], sizes: Mapping[str, LanguageSize]) -> str:
    """As a manifest at the top says, unless it is only for a tool in another language."""
    kinds = {path: kind_of_manifest(path) for path in texts if "/" not in path}
    ours = [path for path, kind in kinds.items() if kind and (not kind.family or _is_main(kind.family, sizes))]
    names = project_names({path: texts[path] for path in ours})
    names = {path: name for path, name in names.items() if not _NO_NAME.fullmatch(name)}
    return next((names[path] for path in ("pyproject.toml", "package.json", *names) if path in names), "")


def project_names(texts: Mapping[str, str]) -> dict[str, str]:
    """The declared names of packages, by the path of the manifest."""
    return {path: name for path, text in texts.items() if (name := package_name(path, text))}


def is_manifest(path: str) -> bool:
    return kind_of_manifest(path) is not None and not is_test_data(path)


def dependencies(texts: Mapping[str, str]) -> tuple[tuple[Dependency, ...], tuple[str, ...]]:
    """What the manifests declare, once per file, and notes on those that could not be read. The product's come
    first, then those of tests and examples, shallow ones before deep ones, and last its own packages."""
    declared: list[Dependency] = []
    notes: list[str] = []
    for path in sorted(texts, key=lambda path: (not is_shipped_folder(dirname(path)), path.count("/"), path)):
        kind = kind_of_manifest(path)
        try:
            listed = list(islice(kind.read(path, texts[path]), MOST_DEPENDENCIES + 1)) if kind else []
        except (ValueError, TypeError, AttributeError, UsageError, RecursionError, yaml.YAMLError):
            notes.append(f"{path} could not be read as a manifest")
            continue
        declared += listed[:MOST_DEPENDENCIES]
        if len(listed) > MOST_DEPENDENCIES:
            notes.append(f"only the first {MOST_DEPENDENCIES:,} dependencies of {path} are listed")
    of_files = {path: {name: value.strip() for name, value in _PROPERTY.findall(text)} for path, text in texts.items()}
    properties = {name: value for table in of_files.values() for name, value in table.items()}
    properties |= manifests.catalog_values(texts)
    central: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for item in filter(_is_central, declared):
        folder = item.source[: item.source.rfind("/") + 1]
        central[folder].setdefault((_list_of(item.group), item.name.lower()), item.version)
    distinct: dict[tuple[str, str, str, str], Dependency] = {}
    for item in declared:
        if _is_central(item):
            continue
        path, version = item.source.rpartition(":")[0], item.version
        if not version or version.startswith(FROM_CATALOG):
            version = _central_version(item, central)
        version = _fill_in(version, ChainMap(of_files[path], properties))
        distinct.setdefault((item.name, version, path, item.group), replace(item, version=version))
    own_names = set(project_names(texts).values())
    return tuple(sorted(distinct.values(), key=lambda item: item.name in own_names)), tuple(notes)


def _fill_in(version: str, properties: Mapping[str, str]) -> str:
    """A version with what it refers to; nothing if the manifests do not say what that is."""
    version = _REFERENCE.sub(lambda reference: properties.get(reference[1], reference[0]), version)
    return "" if "$" in version else version


def _is_central(item: Dependency) -> bool:
    """Whether it is no dependency, but the version for those that refer to it or state none."""
    return _CENTRAL in item.source or item.group.startswith(FROM_CATALOG)


def _list_of(written: str) -> str:
    """The name of the list that a version is in or taken from; the usual one has none."""
    name = written.removeprefix(FROM_CATALOG) if written.startswith(FROM_CATALOG) else ""
    return "" if name == "default" else name


def _central_version(item: Dependency, central: Mapping[str, Mapping[tuple[str, str], str]]) -> str:
    """The version in the nearest list above a project that has the name."""
    key = _list_of(item.version), item.name.lower()
    above = [folder for folder, versions in central.items() if item.source.startswith(folder) and key in versions]
    if above:
        return central[max(above, key=len)][key]
    return "" if key[0] in (CRATES, GEMS) else item.version


def frameworks(
    declared: Sequence[Dependency], imported: Mapping[str, str] | None = None, own_names: Collection[str] = ()
) -> tuple[Framework, ...]:
    """What the product is built on: dependencies that ship with it, those its code imports, and what builds it.
    Manifests of tests and examples do not count, and a product is not built on itself."""
    used = {package.lower(): place for module, place in (imported or {}).items() for package in _packages(module)}
    own_names = {name.lower() for name in own_names}
    builds = _known().builds
    names = dict(ChainMap(builds, *_known().frameworks.values()))
    by_name: dict[str, Framework] = {}
    shipped = {item.name for item in declared if is_shipped(item)}
    for item in declared:
        name, folder = _GO_MAJOR.sub("", item.name.lower()), dirname(item.source)
        if item.name in shipped and not is_shipped(item) and name not in builds:
            continue  # another line declares what the product needs
        group = name.partition(":")[0]  # a Maven group: everything it publishes is one framework
        name = group if group in names else name
        counts = is_shipped(item) or name in builds or name.replace("-", "_") in used or name in used
        is_ours = is_shipped_folder(folder) or "Dependencies.scala" in item.source  # beside the build of sbt
        if name in names and counts and name not in own_names and is_ours:
            by_name.setdefault(names[name], Framework(names[name], item.version, item.source))
    for package, place in used.items():
        language = language_of(place.rpartition(":")[0])
        family = language_family(language.name) if language else ""
        meant = _known().frameworks.get(family, {}).get(package)
        if meant and package not in own_names:
            by_name.setdefault(meant, Framework(meant, "", place))
    return tuple(by_name.values())


def is_shipped(item: Dependency) -> bool:
    return _NOT_SHIPPED.search(item.group) is None


# A program, on which no other project's code depends, has such a file, or a manifest that says so, for itself or for
# everything that is built with it…
_PROGRAM_FILES = frozenset("manage.py artisan config.ru main.go".split())
_PROGRAMS = (
    (r"package\.json", r'"private"\s*:\s*true', False),
    (r"Cargo\.toml", r"(?m)^publish\s*=\s*false", False),
    (r"build\.gradle(?:\.kts)?", r"\bandroid\.application\b|springframework\.boot[\"')]", True),
    (r"pom\.xml", r"spring-boot-maven", True),
    (r".*\.csproj", r'Sdk="Microsoft\.NET\.Sdk\.(?:Web|Worker)"|<OutputType>(?:Win)?Exe', True),
)
# …unless it is published all the same.
_PUBLISHED = re.compile(
    r"(?m)^\[build-system\]|\bmaven-?publish\b|<(?:PackageId|PackageTags|GeneratePackageOnBuild)>|<IsPackable>true",
    re.IGNORECASE,
)


def program_folders(paths: Collection[str], manifest_texts: Mapping[str, str]) -> dict[str, bool]:
    """Whether the nearest of these folders around a file has a program, on which nobody else's code depends."""
    folders = {dirname(path): True for path in paths if path.rpartition("/")[2] in _PROGRAM_FILES}
    for path, text in manifest_texts.items():
        folder, _, name = path.rpartition("/")
        for files, sign, is_whole in _PROGRAMS if is_shipped_folder(folder) else ():
            is_program = re.fullmatch(files, name) is not None and re.search(sign, text) is not None
            if is_program or (re.fullmatch(files, name) and not is_whole):
                top = "" if is_whole else folder
                folders[top] = is_program or folders.get(top, False)
    published = [path for path, text in manifest_texts.items() if path.endswith(".gemspec") or _PUBLISHED.search(text)]
    return folders | dict.fromkeys((dirname(path) for path in published), False)


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
    command = _find_command(texts, tools, of_scripts, of_python=_is_main("python", sizes))
    return TestSetup(test_files, tuple(tools), command, tuple(tools.values()), inline)


def _is_main(language: str, sizes: Mapping[str, LanguageSize]) -> bool:
    """Whether no other language has more than twice as much code."""
    lines = Counter[str]()
    for name, size in sizes.items():
        lines[language_family(name)] += size.lines if name in GRAMMARS else 0
    return lines[language_family(language)] >= max(lines.values(), default=0) / 2


def _is_of_main(item: Dependency, sizes: Mapping[str, LanguageSize]) -> bool:
    kind = kind_of_manifest(item.source.rpartition(":")[0])
    return kind is None or not kind.family or _is_main(kind.family, sizes)


def _find_command(texts: Mapping[str, str], tools: Mapping[str, str], of_scripts: bool, of_python: bool) -> str:
    at_top = {path: text for path, text in texts.items() if "/" not in path}
    if re.search(r"^test\s*:", at_top.get("Makefile", ""), re.MULTILINE):
        return "make test"
    manager = re.search(r"\"packageManager\"\s*:\s*\"(\w+)@", at_top.get("package.json", ""))
    of_node = {"bun": "bun run test"}.get(manager[1], f"{manager[1]} test") if manager else "npm test"
    scripts = {"composer.json": "composer test", **({"package.json": of_node} if of_scripts else {})}
    matches = {
        command: re.search(r"\"test\"\s*:\s*(?:\"((?:[^\"\\]|\\.)+)\"|\[)", at_top.get(path, ""))
        for path, command in scripts.items()
    }
    written = {command: _ESCAPED.sub(r"\1", script[1] or "") for command, script in matches.items() if script}
    real = {command: script for command, script in written.items() if "no test specified" not in script}
    named = [f"{command} ({script})" if script else command for command, script in real.items()]  # no list of scripts
    kinds = [kind for kind in MANIFESTS if kind.command and any(re.fullmatch(kind.files, path) for path in at_top)]
    if ("pytest" in tools and of_python) or "[tool.pytest" in at_top.get("pyproject.toml", ""):
        kinds = [manifests.PYTEST, *(kind for kind in kinds if kind.family != manifests.PYTEST.family)]
    test_commands = _known().test_commands
    by_tool = [test_commands[name] for name, place in tools.items() if name in test_commands and not _is_of_part(place)]
    if named:  # the scripts cover their own language
        return " and ".join((*named, *(kind.command for kind in kinds if kind.family), *by_tool[:1]))
    commands = (*(kind.command for kind in kinds[:1]), *by_tool)
    commands = tuple(_use_wrapper(command, at_top) for command in commands)
    of_django = (f"python {path} test" for path in sorted(texts, key=len) if path.endswith("/manage.py"))
    return next(filter(None, (*commands, *of_django)), "")


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
