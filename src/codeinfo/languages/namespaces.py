"""Java, Kotlin, Scala, C#, PHP with Blade and Twig, and Swift: languages whose files belong to packages, namespaces or
targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import chain
from posixpath import dirname

from msgspec.structs import replace

from codeinfo.cache import group_by_key, reachable
from codeinfo.languages import model
from codeinfo.languages.ecmascript import pascal_case, show_code
from codeinfo.languages.model import (
    Resolver,
    Tree,
    ancestors,
    enclosing_names,
    join_path,
    nearest_all,
    packages_of,
)
from codeinfo.languages.python import Pages, page_language
from codeinfo.model import Definition, Import

# --- Java, Kotlin and Scala: imports name packages and types, which all three share ----------------------------------


_GENERATED = frozenset({"BuildConfig", "R"})  # by a build for Android


class JvmImports(Resolver):
    """A type is found by the package its file declares, whatever the folders are."""

    separator = "."
    names_packages = False  # an import names a package, not a type

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        module = import_.module.replace("`", "")  # Scala and Kotlin quote a name that is a keyword
        return self._find(source, module, import_.names) or self._outcome_of_missing(source, import_)

    def _find(self, source: model.FileFacts, module: str, names: tuple[str, ...]) -> model.Outcome | None:
        group = model.language_family(source.language)
        for around in self._readings(source):
            package = self.separator.join(filter(None, (around, module)))
            files = self._tree.by_package.get((group, package))
            if files and names and names != ("*",):
                found = [self._type(group, package, name) for name in names]
                if any(found):
                    return model.Outcome(tuple(dict.fromkeys(t for targets in found for t in targets)))
            if files and (names == ("*",) or self.names_packages):
                return model.Outcome(tuple(map(model.Target, files)), package=True)
            if files and not names and (whole := self._whole_package(files)):
                return whole
            if targets := self._within(group, around, module):
                return model.Outcome(targets)
        return None

    def _readings(self, source: model.FileFacts) -> list[str]:
        """The packages a path may start from."""
        return [""]

    def _whole_package(self, files: tuple[str, ...]) -> model.Outcome | None:
        """What an import of a package by its name alone leads to."""
        return None

    def _within(self, group: str, around: str, module: str) -> tuple[model.Target, ...]:
        """The longest part of the path that is a package, with the top-level name after it."""
        parts = module.split(self.separator)
        for cut in range(len(parts) - 1, -1, -1):
            package = self.separator.join(filter(None, (around, *parts[:cut])))
            if targets := self._type(group, package, parts[cut]):
                return targets
        return ()

    def _type(self, group: str, package: str, name: str) -> tuple[model.Target, ...]:
        return tuple(model.Target(path, (name,)) for path in self._tree.definers.get((group, package, name), ()))

    def _outcome_of_missing(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        package, _, last = import_.module.rpartition(self.separator)
        if (import_.names and last[:1].islower()) or last in _GENERATED:
            return model.EXTERNAL  # imported from a package, which may well lie in another part of the project
        known = self._tree.by_package.get((model.language_family(source.language), package), ()) if package else ()
        # What a package has beyond the definitions in its files is inherited by its package object.
        if objects := _package_objects(known, last):
            return model.Outcome(objects)
        return model.UNRESOLVED if known else model.EXTERNAL

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        group = model.language_family(source.language)
        return tuple(path for package in self._open(source) for path in self._tree.by_package.get((group, package), ()))

    def _open(self, source: model.FileFacts) -> tuple[str, ...]:
        return packages_of(source)


def _package_objects(files: tuple[str, ...], *names: str) -> tuple[model.Target, ...]:
    return tuple(model.Target(path, names) for path in files if path.endswith("/package.scala"))


class ScalaImports(JvmImports):
    """A path is also resolved from inside the enclosing packages; a package has the members of its package object."""

    def _readings(self, source: model.FileFacts) -> list[str]:
        return ["", *reversed(packages_of(source))]

    def _whole_package(self, files: tuple[str, ...]) -> model.Outcome | None:
        return model.Outcome(_package_objects(files))


def is_scala_package(definition: Definition) -> bool:
    """Members of a package object belong to the package."""
    return model.is_package(definition) or (definition.kind == "object" and "package object " in definition.signature)


# What the grammar cannot parse: `get`, `set`, `where`, `private` as names, guards of a `when`, context parameters,
# fields of properties, strings with several dollar signs.
_KOTLIN_NAMES = re.compile(
    r"\b(?=[gspw])(?:(?<=[})\w] )[gs]et(?= [\w(])|set(?=\([^()\n]*,)|get(?=\([^)\s])|private(?=: | = )"
    r"|where(?= *(?:[?.,)!]|=[^=])))"
)
_KOTLIN_GUARD = re.compile(r"(?m)(?<= )if .*(?= ->)")
_KOTLIN_WHEN = re.compile(r"(?m)^[^\S\n]*(?:!?is|!?in|[A-Z])\b.* if .* ->")
_KOTLIN_DOLLARS = re.compile(r'\$\$+(?:"""[\s\S]*?"""|"[^"\n]*")')
# Context parameters, on a line before a function; an annotation of a function type in brackets; `annotation class`.
_KOTLIN_BEFORE = re.compile(r"(?m)^[^\S\n]*context\([^()\n]*\)[^\S\n]*$|(?<=: )@\w+(?= \()|\bannotation(?= class\b)")
_KOTLIN_BEFORE_PARTS = ("context(", ": @", "annotation class")  # each contains one of these
# The field behind a property, on a line of its own: what remains is a value of the property.
_KOTLIN_FIELD = re.compile(r"(?m)^([^\S\n]*(?:\w+ )*val [^={}\n]+\n[^\S\n]+)field(?:: [^=\n]+?)?(?= = )")


def hide_kotlin_news(text: str) -> str:
    text = _KOTLIN_NAMES.sub(lambda match: "x" * len(match.group()), text)
    text = _KOTLIN_WHEN.sub(lambda line: _KOTLIN_GUARD.sub(model.blank, line.group()), text)
    if " field" in text:
        text = _KOTLIN_FIELD.sub(lambda match: match[1] + " " * (len(match.group()) - len(match[1])), text)
    if any(part in text for part in _KOTLIN_BEFORE_PARTS):
        text = _KOTLIN_BEFORE.sub(model.blank, text)
    return _KOTLIN_DOLLARS.sub(_hide_dollars, text)


def _hide_dollars(match: re.Match[str]) -> str:
    written = match.group()
    quote = '"""' if written.endswith('"""') else '"'
    inside = len(written) - len(quote)
    return quote + re.sub(r"[^\n]", "x", written[len(quote) : inside]) + quote


_IMPORTS = model.ImportRules(
    read=model.dotted_import, resolver=JvmImports, by_use=True, owned=True, binds_last=True, deferred="types"
)
_language = partial(model.Language, family="jvm", imports=_IMPORTS)
_JVM = (
    _language(
        "java",
        ".java",
        syntax=model.Syntax(
            grammar="java", members=(".", "::"), exported=model.not_private, bases=model.bases_behind_words
        ),
        names=model.NameRules(
            implicit_self=True,
            imports_show=True,
            outside="types",
            split_members=True,
            calls="reference",
            accessors="lombok",
        ),
    ),
    _language(
        "kotlin",
        ".kt .kts",
        syntax=model.Syntax(
            grammar="kotlin",
            members=(".", "::"),
            hide=hide_kotlin_news,
            in_strings=re.compile(r"(?<!\\\$)(?<=\$)[^\W\d]\w*"),
            needs_newline=True,
            exported=model.not_private,
            bases=model.bases_behind_colon,
        ),
        names=model.NameRules(
            implicit_self=True,
            imports_show=True,
            outside="types",
            private_to_file=True,
            extensions=True,
            calls="block",
            called_as="invoke",
        ),
    ),
    _language(
        "scala",
        ".scala .sc .sbt .mill",
        syntax=model.Syntax(
            grammar="scala",
            exported=model.not_private,
            bases=model.bases_behind_words,
            in_strings=re.compile(r"\$(?:\w+|\{(?:[^{}]|\{[^{}]*\})*\})"),
            holding=re.compile(r"\w\Z"),
        ),
        imports=replace(_IMPORTS, resolver=ScalaImports, owned=False, types_only=True, nested_packages=True),
        names=model.NameRules(
            implicit_self=True, outside="types", package=is_scala_package, calls="bare", called_as="apply"
        ),
    ),
)


# --- C#: imports open namespaces, to which any file may add ----------------------------------------------------------


_EXTENSION = re.compile(r"\(\s*this\s")


def is_csharp_extension(definition: Definition) -> bool:
    """Whether a method is called on its first parameter: by its name alone, without that of its class."""
    return definition.kind == "method" and _EXTENSION.search(definition.signature) is not None


def is_csharp_exported(declared: model.Declared) -> bool:
    outer, before = declared.outer, declared.before
    if re.search(r"\b(?:public|protected|internal)\b", before):
        return True
    return (outer is None or outer.kind in {"interface", "enum", "namespace"}) and "private" not in before


_GLOBAL = re.compile(r'(?m)^\ufeff?[^\S\n]*global\s+using\s+([\w.]+)\s*;|<Using\s+Include="([\w.]+)"\s*/>')

_REFERRED = re.compile(r'<ProjectReference\s+Include="([^"]+)"')
# Namespaces that web projects and those with `ImplicitUsings` see everywhere, and that others add extensions to.
_IMPLICIT = (
    *(f"Microsoft.AspNetCore.{name}" for name in ("Builder", "Hosting", "Http", "Routing")),
    *(f"Microsoft.Extensions.{name}" for name in ("Configuration", "DependencyInjection", "Hosting", "Logging")),
)


class CsharpImports(JvmImports):
    """A namespace is open to itself and to all that it contains."""

    names_packages = True

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._everywhere: dict[str, list[str]] = {}  # folder of a project → namespaces that all its files see
        texts = {path: text for path, text in tree.configs.items() if path.endswith(".csproj")}
        self._projects = {dirname(path) for path in texts}
        self._needs: dict[str, set[str]] = {}  # folder of a project → folders of those it refers to
        for path, text in tree.configs.items():
            home = self._home(path)
            self._everywhere.setdefault(home, []).extend(found[1] or found[2] for found in _GLOBAL.finditer(text))
            referred = (join_path(home, found.replace("\\", "/")) for found in _REFERRED.findall(text))
            self._needs.setdefault(home, set()).update(dirname(path) for path in referred if path)

    def _home(self, path: str) -> str:
        """The folder of the project a file belongs to; its own folder if it belongs to none."""
        folder = dirname(path)
        return next((above for above in ancestors(folder) if above in self._projects), folder)

    def _open(self, source: model.FileFacts) -> tuple[str, ...]:
        around = (outer for package in source.packages for outer in enclosing_names(package))
        everywhere = (name for folder in ancestors(source.folder) for name in self._everywhere.get(folder, ()))
        return tuple(dict.fromkeys((*around, *everywhere, *_IMPLICIT)))

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        """What is in no namespace is open to the projects that refer to its own."""
        reached = set(reachable([self._home(source.path)], lambda home: self._needs.get(home, ())))
        homes = (home for home in self._global if home in reached or home not in self._projects)
        return *super().visible(source), *(path for home in homes for path in self._global[home])

    @cached_property
    def _global(self) -> dict[str, list[str]]:
        files = self._tree.files.items()
        nowhere = (path for path, facts in files if facts.language == "csharp" and not facts.packages)
        return group_by_key((self._home(path), path) for path in nowhere)

    def _outcome_of_missing(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        """Most imports name a namespace, which other projects may extend: only the missing type of an alias (`using
        Cart = Shop.Cart`) is known to be unresolved."""
        platform = import_.module.partition(".")[0] in ("System", "Microsoft", "Windows")
        return super()._outcome_of_missing(source, import_) if import_.alias and not platform else model.EXTERNAL


_CSHARP_CONFIGS = ("*.csproj", "*GlobalUsings.cs", "Usings.cs", "*Imports.cs")
CSHARP = model.Language(
    "csharp",
    ".cs .csx",
    syntax=model.Syntax(
        grammar="csharp",
        members=(".", "::"),
        package="tree_sitter_c_sharp",
        exported=is_csharp_exported,
        bases=model.bases_behind_colon,
    ),
    imports=model.ImportRules(
        read=model.dotted_import,
        resolver=CsharpImports,
        by_use=True,
        owned=True,
        deferred="types",
        configs=_CSHARP_CONFIGS,
    ),
    names=model.NameRules(
        implicit_self=True,
        open_types=True,
        imports_show=True,
        imports_open=True,
        inherited=frozenset({"base"}),
        attribute_classes=True,
        called_by_name=is_csharp_extension,
    ),
)


# --- PHP: namespaces, PSR-4, and `require` by path -------------------------------------------------------------------


def read_php_use(statement: str, line: int) -> Iterator[Import]:
    text = re.sub(r"^use\s+(?:(?:function|const)\s+)?", "", model.plain(statement))
    prefix, brace, listed = text.partition("{")
    if brace:
        yield from model.group_imports(prefix.strip().strip("\\"), line, model.items(listed.rstrip("} ")))
        return
    for module, alias in model.items(text):
        yield Import(module.strip("\\"), line, (), alias)


class PhpImports(JvmImports):
    """Classes by their declared namespace, otherwise by PSR-4; `require` by path."""

    separator = "\\"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._prefixes = sorted(_psr4(tree), key=lambda pair: -len(pair[0]))
        self._pages = Pages(tree)

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        if import_.module.endswith(".twig"):
            return model.Outcome(self._pages.find(source, import_))
        if targets := self._views(source, import_.module):
            return model.Outcome(targets)
        if import_.module.endswith((".php", ".inc")) or "/" in import_.module:
            near = (join_path(folder, import_.module) for folder in ancestors(source.folder))
            return self._first(near, model.EXTERNAL if "vendor" in import_.module else model.UNRESOLVED)
        if found := self._find(source, import_.module, import_.names):
            return found
        names = import_.names or ("",)
        whole = [self.separator.join(filter(None, (import_.module, name))) for name in names]
        if targets := tuple(model.Target(path) for name in whole if (path := self._by_prefix(name))):
            return model.Outcome(targets)
        if (model.language_family(source.language), import_.module) in self._tree.by_package:
            return model.Outcome()  # a namespace, as the start of longer names
        own = any(name.startswith(prefix) for name in whole for prefix, _ in self._prefixes)
        return model.UNRESOLVED if own else model.EXTERNAL

    def full_name(self, source: model.FileFacts, imports: Iterable[Import], name: str) -> tuple[model.Target, ...]:
        first, *rest = name.split(".")
        bound = [
            "\\".join((import_.module, *(import_.names if import_.alias else import_.names and (first,))))
            for import_ in imports
            if first in model.last_name(import_)
        ]
        for start in bound or [*(f"{package}\\{first}" for package in source.packages), first]:
            targets = self.resolve(source, Import("\\".join((start, *rest)), 0)).targets
            # `Cart::MOST` leads to a member of a type.
            if targets and all(not rest or rest[-1] in target.names or not target.names for target in targets):
                return targets
        return ()

    def _views(self, source: model.FileFacts, name: str) -> tuple[model.Target, ...]:
        """A template of Blade, `shop.cart`, or a component, `x-cart.total`, which is a class or a template."""
        inside = name.rpartition(":")[2].removeprefix("x-").replace(".", "/")
        paths = [f"views/{inside}.blade.php"]
        if name.startswith(("x-", "livewire:")):
            pascal = "/".join(map(pascal_case, inside.split("/")))
            views = (f"components/{inside}{end}.blade.php" for end in ("", "/index"))
            paths = [f"View/Components/{pascal}.php", f"Livewire/{pascal}.php", *views]
        found = (nearest_all(self._tree.paths_ending_in(path), source.folder) for path in paths)
        return tuple(model.Target(path, self._tree.files[path].exports) for path in next(filter(None, found), ()))

    def _by_prefix(self, name: str) -> str | None:
        for prefix, folder in self._prefixes:
            if name.startswith(prefix):
                path = join_path(folder, name[len(prefix) :].replace("\\", "/") + ".php")
                if path in self._tree:
                    return path
        return None


def _psr4(tree: Tree) -> Iterator[tuple[str, str]]:
    """(prefix, folder) of namespaces."""
    for path in tree.by_name.get("composer.json", ()):
        home, read = dirname(path), tree.config(path)
        sections = (read.get(section) for section in ("autoload", "autoload-dev"))
        tables = (section.get("psr-4") for section in sections if isinstance(section, dict))
        for prefix, folders in chain.from_iterable(table.items() for table in tables if isinstance(table, dict)):
            for folder in folders if isinstance(folders, list) else [folders]:
                if (where := join_path(home, str(folder))) is not None:
                    yield str(prefix), where


PHP = model.Language(
    "php",
    ".php .phtml .php5 .php7 .phpt",
    shebangs="php",
    syntax=model.Syntax(
        grammar="php",
        entry="language_php",
        members=("->", "::", "\\"),
        word=r"(?<![\w$])[^\W\d]\w+",  # `$name` is a local variable: never a use of something defined elsewhere
        exported=model.not_private,
        bases=model.bases_behind_words,
    ),
    imports=model.ImportRules(
        read=read_php_use,
        calls=(
            r"(?=[ri\"'vVR@<])"  # most places fail here
            r"(?:\b(?:require|include)(?:_once)?\b[^;'\"\n]*[\"']|\b(?:view\(|View::make\(|Route::view\([^,\n]*,)\s*[\"']"
            r"|[\"'](?=[\w./-]+\.twig[\"'])|@(?:extends|component|each|include(?:If|When|Unless|First))[^\S\n]*\([^\"'\n]*[\"']|@?<(?=x-|livewire:))"
            r"(?P<module>(?<=<)(?:x-[\w.:-]+|livewire:[\w.-]+)|(?<=[\"'])[^\"'\n]+(?=[\"']))"
        ),
        call_words=("require", "include", "view", "extends", "component", "each", "<x-", "<livewire:", ".twig"),
        resolver=PhpImports,
        by_use=True,
        binds_last=True,
        types_only=True,
        full_names=True,
        deferred="lazy",
        configs=("composer.json",),
    ),
    names=model.NameRules(
        explicit=True,
        marked_variables=True,
        imports_show=True,
        outside="types",
        open_traits=True,
        links=True,
        split_members=True,
        inherited=frozenset({"parent"}),
    ),
)


# --- Blade: pages with code of PHP in them -------------------------------------------------------------------------

_ARGUMENTS = r"(?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+"
_BLADE = re.compile(
    r"\{\{--.*?(?:--\}\}|\Z)|@verbatim\b.*?(?:@endverbatim|\Z)|@php(?!\s*\()(?P<php>.*?)(?:@endphp|\Z)"
    r"|<\?(?:php|=)(?P<code>.*?)(?:\?>|\Z)"
    r"|\{\{(?P<value>(?:[^{}]++|\}(?!\})|\{(?!\{))*+)\}\}|\{!!(?P<raw>(?:[^!{]++|!(?!!\})|\{(?!!!))*+)!!\}"
    rf"|@[a-z]\w*\s*\((?P<bound>{_ARGUMENTS})\)",
    re.DOTALL,
)
_BLADE_METHOD = re.compile(r"(?<![\w$>:])\$(?=[a-z]\w+\()")
_BLADE_TAG = re.compile(r"""<(?:x[-:]|livewire:)[\w.:-]+(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
_BLADE_ATTRIBUTE = re.compile(r"""\s:[\w.:-]+=(?P<quote>["'])(?P<bound>.*?)(?P=quote)""", re.DOTALL)


def _show_blade(text: str) -> str:
    """What follows `:name=` is code in components alone: elsewhere it is a script of the page. `$total()` calls a
    method of the component that the template belongs to."""
    text = _BLADE_METHOD.sub(" ", text)
    tags = (
        attribute for tag in _BLADE_TAG.finditer(text) for attribute in _BLADE_ATTRIBUTE.finditer(text, *tag.span())
    )
    return show_code(text, (*_BLADE.finditer(text), *tags))


_BLADE_COMMENT = re.compile(r"\{\{--.*?(?:--\}\}|\Z)", re.DOTALL)
BLADE = PHP.as_template("blade", ".blade.php", _show_blade, _BLADE_COMMENT, "language_php_only")

# Twig: pages like those of Jinja, for code of PHP.
TWIG = page_language("twig", ".twig")
TWIG = replace(
    TWIG,
    family="php",
    imports=replace(TWIG.imports, resolver=PhpImports, calls=PHP.imports.calls, call_words=(".twig",)),
)

# --- Swift: files of a target see each other; an import names another target of the package --------------------------


def hide_comment_signs(text: str) -> str:
    """A string that starts like a comment is one to the parser: `"/*"`."""
    return text.replace('"/*', '"xx')


_TARGET = re.compile(r'\.(?:\w+T|t)arget\(\s*name:\s*"([^"]+)",[^()]*?\bpath:\s*"([^"]+)"')
_MANIFEST = "Package.swift"


class SwiftImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        self._above = tree.above
        self._declared = sorted(_swift_targets(tree), key=lambda pair: -len(pair[0]))
        own = (path for path, facts in tree.files.items() if facts.language == "swift")
        self._targets = group_by_key((self._target(path), path) for path in own)

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        files = self._targets.get(import_.module.partition(".")[0])
        return model.Outcome(tuple(map(model.Target, files)), package=True) if files else model.EXTERNAL

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        return tuple(self._targets.get(self._target(source.path), ()))

    def _target(self, path: str) -> str:
        """As the package declares; otherwise the folder below `Sources` or `Tests`, which may lie above the root;
        otherwise the topmost one here."""
        for folder, name in self._declared:
            if path.startswith(f"{folder}/"):
                return name
        own = path.split("/")
        for parts in (own, [*self._above, *own]):
            for position, part in enumerate(parts[:-2]):
                if part in ("Sources", "Tests"):
                    return parts[position + 1]
        return own[0] if len(own) > 1 else ""


def _swift_targets(tree: Tree) -> Iterator[tuple[str, str]]:
    """(folder, name) of the targets that lie where their package declares them."""
    for path, text in tree.configs.items():
        home, _, file = path.rpartition("/")
        for name, folder in _TARGET.findall(text) if file == _MANIFEST else ():
            if where := join_path(home, folder):
                yield where, name


SWIFT = model.Language(
    "swift",
    ".swift",
    shebangs="swift",
    syntax=model.Syntax(
        grammar="swift", hide=hide_comment_signs, exported=model.not_private, bases=model.bases_behind_colon
    ),
    imports=model.ImportRules(
        read=model.dotted_import, resolver=SwiftImports, by_use=True, owned=True, configs=(_MANIFEST,), deferred="types"
    ),
    names=model.NameRules(
        implicit_self=True,
        imports_open=True,
        open_types=True,
        private_to_file=True,
        extensions=True,
        main_mark=r"@(?:main|UIApplicationMain|NSApplicationMain)\b",
        calls="block",
        symbols=r"(?<![\w)\]}?!\"`])\.\0",  # `.name` is a member of the expected type, whichever that is
    ),
)

LANGUAGES = (*_JVM, CSHARP, PHP, BLADE, TWIG, SWIFT)
