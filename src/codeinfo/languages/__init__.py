"""The supported languages, one module per kind of imports, and detection of a file's language and kind.

A language says how its files are named, parsed and imported, and what a name in them may mean: see `model` for the
questions. No other package mentions a language by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct

from codeinfo.cache import group_by_key
from codeinfo.errors import UsageError
from codeinfo.files import read_table
from codeinfo.languages import ecmascript, modules, namespaces, python
from codeinfo.languages.model import BY_NAME, Language, Markup, Syntax
from codeinfo.languages.model import get_language as get_language
from codeinfo.languages.model import language_family as language_family
from codeinfo.model import FileKind, NextStep, to_run

# --- languages without a syntax tree: most are rows of a table; documents that are split at their headings ------------


_PLAIN = read_table(Path(__file__).with_name("plain.tsv"))
_WITHOUT_SYNTAX = (
    *(
        Language(name, extensions, names, shebangs, FileKind(kind))
        for kind, name, extensions, names, shebangs in _PLAIN
    ),
    Language(
        "markdown",
        ".md .markdown .mdx .mdc .mkd",
        kind=FileKind.DOCS,
        markup=Markup(fence=r" {0,3}(`{3,}|~{3,})", is_markdown=True),
    ),
    Language("rst", ".rst", kind=FileKind.DOCS, markup=Markup()),
    Language(
        "asciidoc",
        ".adoc .asciidoc",
        kind=FileKind.DOCS,
        markup=Markup(r"(={1,6})[ \t]+(?=\S)", r"(-{4,}|\.{4,})[ \t\r]*$"),
    ),
    Language("org", ".org", kind=FileKind.DOCS, markup=Markup(r"(\*{1,8})[ \t]+(?=\S)")),
    Language(
        "text",
        ".txt .text .log .vimdoc",
        filenames="README LICENSE LICENCE COPYING NOTICE AUTHORS CONTRIBUTORS CHANGES CHANGELOG INSTALL TODO NEWS",
        kind=FileKind.DOCS,
        markup=Markup(),
    ),
    Language(
        "json",
        ".json .jsonc .json5 .jsonl .ndjson .webmanifest .geojson .har .arb .xcstrings",
        filenames=".prettierrc .eslintrc .babelrc .jshintrc .swcrc composer.json",
        kind=FileKind.CONFIG,
        family="ecmascript",
    ),
)


_NEXT = "next"
_SPACE = re.compile(r"(?<!\[\^)\\s")
_BLANKS = r"[^\\S\\n]"  # across lines, a thousand modifiers before no definition would be tried from each of them
_STRING = r'"(?:\\.|[^"\\\n])*"'


class OutlineRule(Struct, frozen=True):
    """One kind of definition: how it begins, and how it ends if its indentation does not tell."""

    kind: str
    start: re.Pattern[str]
    end: re.Pattern[str] | None
    is_to_next: bool  # it ends where the next one of its kind begins


class OutlineRules(Struct, frozen=True):
    comment: re.Pattern[str] | None  # or a string: only a comment is a group
    definitions: tuple[OutlineRule, ...]


@cache
def _outlines() -> Mapping[str, Sequence[Sequence[str]]]:
    rows = read_table(Path(__file__).with_name("outlines.tsv"))
    return group_by_key((name, row) for name, *row in rows)


def has_outline(language: str) -> bool:
    """Whether definitions are found without a syntax tree."""
    return language in _outlines()


SCHEMAS = frozenset({"graphql", "prisma", "protobuf", "thrift"})  # code of any language uses what they define


def find_comments(text: str, language: str) -> Iterator[tuple[int, int]]:
    """The spans of comments, in a language without a syntax tree."""
    rules = outline_rules(language)
    found = rules.comment.finditer(text) if rules is not None and rules.comment is not None else ()
    return (match.span() for match in found if match.lastindex is not None)  # others are strings


_MAX_DOC = 200
_COMMENT_MARKS = re.compile(r'^[\s/*#!;%|^<>"\'{-]+|[\s*/"\'}-]+$')
_MARKUP = re.compile(r"</?(?:summary|remarks|para|p|inheritdoc)\b[^>]*>|[@\\](?:brief|dev|notice)\b")


def first_words(comment: str) -> str:
    """The first meaningful line of a comment, without its markers."""
    for line in comment.splitlines():
        words = "" if line.startswith("#!") else _COMMENT_MARKS.sub("", _MARKUP.sub("", line))
        if words and not words.startswith(("@", "doc ", "moduledoc", "autoload")):
            return words[:_MAX_DOC]
    return ""


@cache
def outline_rules(language: str) -> OutlineRules | None:
    """How to find definitions in a language without a syntax tree."""
    if not has_outline(language):
        return None
    comment, definitions = None, []
    for kind, pattern, *end in _outlines()[language]:
        if kind == "comment":
            comment = re.compile(rf"({pattern})|{_STRING}", re.MULTILINE)
        else:
            start = _SPACE.sub(_BLANKS, pattern if pattern.startswith("^") else rf"^\s*(?:{pattern})")
            is_to_next = end == [_NEXT]
            ending = re.compile(_SPACE.sub(_BLANKS, end[0])) if end and not is_to_next else None
            definitions.append(OutlineRule(kind, re.compile(start, re.MULTILINE), ending, is_to_next))
    return OutlineRules(comment, tuple(definitions))


# --- all of them -----------------------------------------------------------------------------------------------------

_FAMILIES = (python, ecmascript, namespaces, modules)
_READ = (language for family in _FAMILIES for language in family.LANGUAGES)
LANGUAGES: tuple[Language, ...] = (*_READ, *_WITHOUT_SYNTAX)
BY_NAME.update({language.name: language for language in LANGUAGES})
STYLESHEETS = frozenset({"css", "scss"})  # code by kind, but without logic
GRAMMARS: Mapping[str, Syntax] = {row.name: row.syntax for row in LANGUAGES if row.syntax is not None}
_BY_EXTENSION = {extension: language for language in LANGUAGES for extension in language.extensions.split()}
_BY_FILENAME = {filename: language for language in LANGUAGES for filename in language.filenames.split()}
_BY_INTERPRETER = {shebang: language for language in LANGUAGES for shebang in language.shebangs.split()}

_INTERPRETER = r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*(?:\w+=\S*\s+)*)?(?:\S*/)?([A-Za-z][A-Za-z-]*)"


def language_of(path: str, first_line: str = "") -> Language | None:
    """By file name, extension, then shebang. `Dockerfile.prod` is a Dockerfile, and a `.h` counts as C++, whose grammar
    parses both; see `language_of_text`."""
    name = path[path.rfind("/") + 1 :]
    language = _BY_FILENAME.get(name)
    if language is None and (dot := name.rfind(".")) >= 0:
        endings = (name[max(name.rfind(".", 0, dot), 0) :].lower(), name[dot:].lower())  # `.blade.php`, `.php`
        language = next(filter(None, map(_BY_EXTENSION.get, endings)), None) or _BY_FILENAME.get(
            name[: name.find(".", 1)]
        )
    if language is None and first_line.startswith("#!"):
        match = re.match(_INTERPRETER, first_line)
        return _BY_INTERPRETER.get(match[1].rstrip("-")) if match else None
    return language


_OTHER_NAMES = {"c++": "cpp", "c#": "csharp", "f#": "fsharp", "golang": "go", "shell": "bash", "objc": "objective-c"}


def language_named(name: str) -> str:
    """The language a person means, by its name or a file extension: `py` is python."""
    asked = name.strip().lower()
    asked = _OTHER_NAMES.get(asked, asked)
    if (found := BY_NAME.get(asked) or _BY_EXTENSION.get(f".{asked}")) is None:
        from difflib import get_close_matches

        near = get_close_matches(asked, BY_NAME, n=1, cutoff=0.7)
        step = f"Did you mean {near[0]}?" if near else NextStep(to_run("status"), " lists those of this project")
        raise UsageError(f"{name} is not a language that CodeInfo knows", step)
    return found.name


def language_of_text(path: str, text: str) -> Language | None:
    """Like `language_of`, given the content: shebangs are read, and C and C++ headers distinguished."""
    if path.endswith((".h", ".H")):
        return modules.header_language(text)
    return language_of(path, text[:200].partition("\n")[0] if text.startswith("#!") else "")


# Conventions of many ecosystems; `\w+Test` and `\w+Tests` need a capital so that `contest` and `latest` stay code.
_TEST_NAME = (
    r"test_.*|tests?\.\w+|conftest\.py|.*[_.-](?:test|tests|spec|specs|unittest|e2e)\.\w+"
    r"|[A-Za-z0-9]*(?:Test|Tests|TestCase|Spec|Suite|IT)\.(?:java|kt|kts|scala|groovy|cs|fs|php|swift|hs|m|mm|dart)"
    r"|Test[A-Z]\w*\.(?:java|kt|scala|cs|py)|.*\.(?:bats|phpt|t)"
)
_TEST_HELPER = r"(?:test|spec)[_-]?(?:helpers?|utils?|support|case)\.\w+|conftest\.py"
FOR_TESTS = re.compile(r"(?:^|/)test(?:utils?|support|helpers?)/(?:.*/)?test_[^/]*$")  # testutils/src/test_backend.rs
# Elixir and Ruby load what is in `lib`, whatever its name: tests are in folders beside it.
_LOADED = re.compile(r"(?P<before>(?:.*?/)?)lib/.*(?:\.ex|(?<!_spec|_test)\.rb)")
# Settings of Phoenix, Rails and Node; and what helps to test in PHP, where only a name that ends with Test is one.
_NAMED_LIKE_TEST = re.compile(r"(?:.*/)?config/(?:env(?:ironment)?s?/)?test\.\w+|(?:.*/)?src/.*(?<!Test)\.php")
# May be a part of a package: `django/test` and `numpy/testing` help others to test, `piptools/scripts` has commands.
_MAYBE_PART = re.compile(r"(?P<before>.+?)/(?P<part>test|testing|scripts?)/.*")
_SOURCES = frozenset("app assets js resources source sources src".split())
_APPLICATION_PARTS = frozenset("api backend client frontend server web".split())  # no packages
_TEST_FOLDER = (
    r"[Tt]ests?|[Ss]pecs?|regress|__tests__|__mocks__|__snapshots__|testdata|test[_-]\w+|e2e|cypress|androidTest|testFixtures"
    r"|.*[._-][Tt]ests?|.*\.[Tt]ests?\.\w+|(?:[A-Z]|[a-z]+[A-Z])?\w*[a-z](?:UI)?(?:Test|Tests|Specs)"
)

_PACKAGE_FOLDERS = re.compile(r"(?:\A|/)src/main/(?:java|kotlin|scala|groovy)(?:/.*)?")  # of a Maven or Gradle project


def without_package_folders(folder: str) -> str:
    """Without the folders that spell a package: `org/acme/samples` says nothing about the purpose of its code."""
    return _PACKAGE_FOLDERS.sub("", folder)


@lru_cache(maxsize=20_000)
def _in_tests(folder: str) -> bool:
    return any(re.fullmatch(_TEST_FOLDER, part) for part in folder.split("/")) if folder else False


def is_test_data(path: str) -> bool:
    """Whether a manifest lies two folders or more below a folder of tests: it describes no part of the project."""
    folders = path.split("/")[:-1]
    return _in_tests("/".join(folders[:-2])) and not _in_tests("/".join(folders[-2:]))


def is_test_name(path: str) -> bool:
    """Whether a file is named like a test, wherever it lies, and not like a mere test helper."""
    is_named = re.fullmatch(_TEST_NAME, path.rpartition("/")[2]) is not None and not _NAMED_LIKE_TEST.fullmatch(path)
    return is_named and not is_test_helper(path)


def _is_loaded(path: str) -> bool:
    found = _LOADED.fullmatch(path)
    return found is not None and not _in_tests(found["before"].rstrip("/"))


@lru_cache(maxsize=20_000)
def _is_in_package(path: str) -> bool:
    """Whether `test`, `testing` or `scripts` in a path names a part of a package: below the sources, and in Python
    below any other folder, unless the file is named like a test."""
    found = _MAYBE_PART.fullmatch(path)
    if found is None or not is_shipped_folder(found["before"]):
        return False
    around = found["before"].split("/")
    if path.endswith((".py", ".pyi")):
        is_test = re.fullmatch(_TEST_NAME, path.rpartition("/")[2]) is not None
        return not is_test and around[-1] not in _APPLICATION_PARTS | _SOURCES
    return found["part"].startswith("script") and not _SOURCES.isdisjoint(around)


def is_test_helper(path: str) -> bool:
    return re.fullmatch(_TEST_HELPER, path.rpartition("/")[2]) is not None or FOR_TESTS.search(path) is not None


# Functions that test frameworks find by their names, or by what is written above them.
_TEST_FUNCTIONS = {"python": re.compile(r"test|Test"), "go": re.compile(r"Test|Benchmark|Fuzz|Example")}
_TEST_FUNCTIONS |= dict.fromkeys(("java", "kotlin", "csharp", "php", "swift"), re.compile(r"(?:.*\.)?test"))
_TEST_MARKS = re.compile(r"[@[](?:\w+\.)*(?:\w*[tT]est\w*|Fact|Theory|Property|Scenario)\b")


def may_be_test(language: str, qualified: str, above: str) -> bool:
    """Whether the name of a function or a mark above it lets it be run as a test; in most languages any name does."""
    if language not in _TEST_FUNCTIONS or _TEST_FUNCTIONS[language].match(qualified):
        return True
    return language not in ("python", "go") and _TEST_MARKS.search(above) is not None


_PACKAGE_LISTS = (".gemspec", ".podspec", ".rockspec")  # in a programming language, but they list names and files


def kind_of(path: str, language: Language | None) -> FileKind:
    """The purpose of the file. Text of an unknown type is configuration in a dot file, otherwise documentation."""
    folder, _, name = path.rpartition("/")
    unknown = FileKind.CONFIG if name.startswith(".") else FileKind.DOCS
    kind = language.kind if language else unknown
    if name.endswith(_PACKAGE_LISTS):
        kind = FileKind.CONFIG
    if kind is FileKind.DOCS or _is_loaded(path) or _is_in_package(path):
        return kind
    is_named = kind is FileKind.CODE and re.fullmatch(_TEST_NAME, name) and not _NAMED_LIKE_TEST.fullmatch(path)
    if is_named or _in_tests(without_package_folders(folder)):
        return FileKind.TEST
    return kind


def file_kind(path: str) -> FileKind:
    """The same by the path alone."""
    return kind_of(path, language_of(path))


_HEADER = re.compile(r"(.+)\.(?:h|hh|hpp)")


def sources_of_header(name: str) -> tuple[str, ...]:
    """The files beside a header of C or C++ that may do what it declares: `url.c` for `url.h`."""
    found = _HEADER.fullmatch(name)
    return tuple(f"{found[1]}.{extension}" for extension in ("c", "cc", "cpp", "cxx")) if found else ()


def is_stylesheet(name: str) -> bool:
    language = language_of(name)
    return language is not None and language.name in STYLESHEETS


# What a repository holds besides the code it ships: how the product is used, tested and built.
_AROUND_FOLDER = (
    r"(?:\w+[_-])?docs?|(?:docs?|documentation)(?:[_-](?:src|site|web|website|pages|theme|assets))?|_?examples?|samples?|demos?|tutorials?|playgrounds?|\.?storybook|(?:[\w.]+\.)?[Bb]ench(?:es|marks?|marking|suite)?"
    r"|test(?:[Uu]tils?|[Ss]upport|[Hh]elpers?)|\w+[_-]tests?[_-][\w-]+"  # helps tests: `ui-test-hilt-manifest`
    r"|(?:ui|unit|integration|functional|acceptance|screenshot|snapshot)[_-]testing"
    r"|_?_?(?:fixtures?|mocks?|stubs)_?_?|scripts?|buildSrc|build-(?:logic|conventions)|testing|vendor(?:s|ed)?|_vendor|third[_-]?party|node_modules|generated|fuzz"
    r"|\..+"
)
_AROUND_TOP_FOLDER = (
    r"website|www|site|tools?|hack|man|ci|contrib|dev(?:env)?|perf|sandbox|project|stress[-_]?test"
    r"|[\w-]+-(?:examples?|samples?|demos?)|(?:examples?|samples?|demos?)-[\w-]+"
    r"|deps|externals?(?:[-_]\w+)?|extern|3rd[_-]?party|subprojects"  # third-party code
)
_AROUND_NAME = (
    # A source of C with a hyphen is called after a program: `redis-benchmark.c` is shipped.
    r".*[_.]bench(?:mark)?s?\.\w+|.*-bench(?:mark)?s?\.(?!(?:c|cc|cpp)$)\w+|.*\.(?:config|conf|setup|preset|stories|story)\.\w+|(?:jest|karma|vitest|webpack|rollup|gulp|grunt|babel|esbuild)[.-].*"
    r"|(?:[Gg]ulp|[Gg]runt|[Rr]ake|[Jj]ake)file(?:\.\w+)?|setup\.py|run[-_]?tests?\.\w+|[Ss]etup[-_]?[Tt]ests?\.\w+|(?:nox|fab|locust)file\.py|build\.(?:rs|zig)|\..*"
    r"|.*\.d\.[cm]?ts"
    r"|.*\.(?:css|scss|sass|less|sh|bash|ps1|psm1|bat|cmd|sql|exs|gemspec|podspec|rockspec|sbt)|.*\.gradle(?:\.kts)?|gradlew|mvnw"
    r"|(?:Gem|Pod|Guard|Vagrant|Fast|Brew|Cap)file|Package(?:@swift-.*)?\.swift"
)
_GENERATED_NAME = (
    r".*\.min\.\w+|.*[._]pb(?:2(?:_grpc)?)?\.\w+|zz_generated.*|.*[._-]generated\.\w+|.*\.gen\.(?:[jt]sx?|go)"
    r"|.*\.g\.(?:dart|cs|kt|swift)"
)
_BUILT_FOLDERS = re.compile(r"(?:\A|.*/)(?:priv/static|public/(?:build|packs))(?:/.*)?")  # from the sources


@lru_cache(maxsize=20_000)
def _is_around(folder: str) -> bool:
    parts = without_package_folders(folder).split("/")
    return bool(re.fullmatch(_AROUND_TOP_FOLDER, parts[0])) or any(re.fullmatch(_AROUND_FOLDER, part) for part in parts)


# A database migration, and the resulting schema: nobody calls or changes them.
_MIGRATION = re.compile(
    r"(?:.*/)?\w*[Mm]igrat(?:e|ions?|or)/(?:.*/)?(?:\d{3,}[_-].*|[Vv]\d+(?:[_-].*|\.go))"
    r"|(?:.*/)?(?:alembic|migrations?|revisions)/(?:.*/)?versions/[^/]+\.py"
)
_SCHEMA_DUMP = re.compile(r"(?:.*/)?db/\w*schema\.rb|(?:.*/)?Migrations/(?:.*/)?\w*ModelSnapshot\.cs")


def is_migration(path: str) -> bool:
    return _MIGRATION.fullmatch(path) is not None


def is_product(path: str, kind: FileKind) -> bool:
    """Whether a file is code that the project ships: no test, example, script, build or tool configuration."""
    folder, _, name = path.rpartition("/")
    is_around = re.fullmatch(_AROUND_NAME, name) or is_derived(path)
    return kind is FileKind.CODE and not is_around and (not _is_around(folder) or _is_in_package(path))


def is_derived(path: str) -> bool:
    """Whether nobody works on a file: it is generated, or says how a database's schema came about."""
    return is_generated(path) or is_migration(path) or _SCHEMA_DUMP.fullmatch(path) is not None


def is_generated(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return bool(_BUILT_FOLDERS.fullmatch(folder) or re.fullmatch(_GENERATED_NAME, name))


def is_shipped_folder(folder: str) -> bool:
    """Whether code in a folder belongs to the product: not below tests, examples and the like."""
    return not _in_tests(folder) and not (folder and _is_around(folder))
