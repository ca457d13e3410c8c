"""Python: packages, relative imports, `src` layouts, namespace packages, a package that is itself the root; and pages
of Django and Jinja with code of Python in them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from keyword import kwlist
from posixpath import dirname

from msgspec.structs import replace

from codeinfo.cache import group_by_key
from codeinfo.languages import model
from codeinfo.languages.ecmascript import show_code
from codeinfo.languages.model import Resolver, Tree, ancestors, join_path, nearest_all
from codeinfo.model import FileKind, Import

_HASH_COMMENT = re.compile(r"#[^\n]*")
_USUAL_ROOTS = ("", "src", "lib", "python")
# A page of Django or Jinja, by its path below a folder of templates: any string with a folder in it may be one, another
# where one is expected.
_PAGE_END = r"\.(?:html?|txt|xml|svg|mjml|jinja2?|j2)[\"']"
_EXPECTED = (
    r"(?:\brender|[tT]emplate)\w*(?:\(\s*(?:[\w.]+,\s*)?|[\"']?\]?(?:: ?\w+)?\s*[=:]\s*)[(\[]?"
    r"|\{%[-+]?\s*(?:extends|include)\b[^%\"'\n]*"
)
_PAGE = rf"[\"'](?=[\w.-]+/[\w./-]*{_PAGE_END})|(?:{_EXPECTED})[\"'](?=[\w.-]+{_PAGE_END})"
_PAGE_WORDS = (".html", ".htm", ".txt", ".xml", ".svg", ".mjml", ".jinja", ".j2")
_PAGE_FOLDER = re.compile(r"(?:\A|(?<=/))(?:templates|jinja2|Resources/views)/")


def read_import(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(_HASH_COMMENT.sub("", statement).replace("\\", " ").replace("(", " ").replace(")", " ").split())
    if text.startswith("from"):
        module, _, names = text[4:].partition(" import ")
        yield from model.group_imports(module.replace(" ", ""), line, model.items(names))
    else:
        for module, alias in model.items(text.removeprefix("import ")):
            yield Import(module, line, (), alias)


def bound_names(import_: Import) -> tuple[str, ...]:
    """`import a.b` binds a."""
    is_path = not import_.alias and not import_.names
    return (import_.module.partition(".")[0],) if is_path else model.last_name(import_)


def bases(rest: str, keywords: frozenset[str]) -> tuple[str, ...]:
    if not rest.lstrip().startswith("("):
        return ()
    inside = model.without_brackets(rest.strip().removeprefix("(").rstrip(": \n").removesuffix(")"))
    names = (model.DOTTED_NAME.match(part.strip()) for part in inside.split(",") if "=" not in part)
    return tuple(match.group() for match in names if match)


class Pages:
    """The pages of a codebase by their paths below folders of templates."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        folders = ((path, folder.end()) for path in tree.files for folder in _PAGE_FOLDER.finditer(path))
        self._by_name = group_by_key((path[end:], path) for path, end in folders)

    def find(self, source: model.FileFacts, import_: Import) -> tuple[model.Target, ...]:
        """The pages that a path means, of several the nearest, or the library of tags that a page loads. A page may
        extend another one that has its own path."""
        name = import_.module
        paths = self._by_name.get(name, [])
        if source.rules.is_template:
            beside = join_path(source.folder, name) if name.startswith(("./", "../")) else None
            tags = f"templatetags/{name.replace('.', '/')}.py"
            paths = [beside] if beside in self._tree.files else paths or list(self._tree.paths_ending_in(tags))
        others = [path for path in paths if path != source.path]
        return tuple(model.Target(path, import_.names) for path in nearest_all(others, source.folder))


class PythonImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        packages = {dirname(path) for path in tree.by_name.get("__init__.py", ())}
        tops = {dirname(folder) for folder in packages if folder}
        self._packages = packages
        self._roots = (*_USUAL_ROOTS, *sorted(tops - packages - set(_USUAL_ROOTS)))
        self._memo: dict[tuple[str, str], tuple[str, str] | None] = {}
        self._named: dict[tuple[str, bool, str], tuple[model.Target, ...]] = {}
        self._pages = Pages(tree)

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        if pages := self._pages.find(source, import_):
            return model.Outcome(pages)
        if "/" in import_.module:  # the path of something else
            return model.Outcome()
        if source.rules.is_template:
            return model.EXTERNAL
        module = import_.module.lstrip(".")
        if level := len(import_.module) - len(module):
            folder = join_path(source.folder, "../" * (level - 1))
            base = None if folder is None else self._module(folder, module)
        else:
            base = self._find_absolute(source, module)
        if base is None:
            return model.UNRESOLVED if level or self._is_own(source, module.partition(".")[0]) else model.EXTERNAL
        return self._targets_of(base, import_)

    def quoted(self, source: model.FileFacts, name: str) -> tuple[model.Target, ...]:
        """`"shop.cart.Cart"`, `"shop.cart.Cart.add"`; `"shop.Cart"` is also a model of Django. A mere module may be the
        name of a logger, and a migration names models as they were."""
        if source.folder.endswith("migrations"):
            return ()
        key = (source.folder, source.is_test, name)
        if key not in self._named:
            self._named[key] = self._find_quoted(source, name)
        return self._named[key]

    def _find_quoted(self, source: model.FileFacts, name: str) -> tuple[model.Target, ...]:
        parts = name.split(".")
        cuts = (cut for cut in (len(parts) - 1, len(parts) - 2) if cut > 0)
        imports = (Import(".".join(parts[:cut]), 0, (parts[cut],)) for cut in cuts)
        found = [target for import_ in imports for target in self.resolve(source, import_).targets]
        if len(parts) == 2:
            ends = (f"{parts[0]}/models.py", f"{parts[0]}/models/__init__.py")
            models = [path for end in ends for path in self._tree.paths_ending_in(end)]
            found += [model.Target(path, (parts[1],)) for path in models if len(models) == 1]
        defining = [target for target in found if set(target.names).intersection(self._tree.files[target.path].exports)]
        # A package may re-export a class.
        packages = (target for target in found if "/__init__.py" in f"/{target.path}")
        passing = [target for target in packages if target.names and target.names[0][0].isupper()]
        # A test may replace what a module has imported.
        replaced = [target for target in found if target.names and source.is_test]
        return tuple((defining or passing[-1:] or replaced)[:1])

    def _is_own(self, source: model.FileFacts, first: str) -> bool:
        """Whether a package or module of this codebase has the name; a mere folder may share a library's name."""
        found = self._find_absolute(source, first)
        return found is not None and bool(found[0])

    def _targets_of(self, base: tuple[str, str], import_: Import) -> model.Outcome:
        file, folder = base

        def find_module(name: str) -> str | None:
            inner = self._module(folder, name) if name != "*" and folder != "-" else None
            return inner[0] if inner else None

        if targets := model.split_names(import_, file, find_module):
            return model.Outcome(targets)
        return model.UNRESOLVED if file or import_.module.startswith(".") else model.EXTERNAL

    def _find_absolute(self, source: model.FileFacts, module: str) -> tuple[str, str] | None:
        own = source.folder
        while own in self._packages:
            own = dirname(own) if own else "-"
        key = (own, module)
        if key not in self._memo:
            self._memo[key] = self._search(own, module)
        return self._memo[key]

    def _search(self, own: str, module: str) -> tuple[str, str] | None:
        """A real module anywhere on the path wins over a mere folder, as at run time."""
        first = module.partition(".")[0]
        folder: tuple[str, str] | None = None
        for root in self._search_path(own, first):
            found = self._module(root, module)
            if found and found[0]:
                return found
            folder = folder or found
        if first in sys.stdlib_module_names:
            return None
        return self._in_own_package(module) or folder

    def _in_own_package(self, module: str) -> tuple[str, str] | None:
        """For a root that is itself a package, and so is imported by its name."""
        paths = self._tree.from_above(module.replace(".", "/")) if "" in self._packages else ()
        found = (self._module("", path.replace("/", ".")) for path in paths)
        return next((pair for pair in found if pair and pair[0]), None)

    def _search_path(self, own: str, first: str) -> Iterator[str]:
        if own != "-":
            yield own
        if first in sys.stdlib_module_names:
            return
        yield from self._roots
        if own != "-":  # a namespace package holds the importing file as well
            yield from (root for root in ancestors(own)[1:] if join_path(root, first) in self._tree.folders)

    def _module(self, root: str, module: str) -> tuple[str, str] | None:
        """(file, folder) of a module: file is "" for a namespace package, folder "-" for a plain module."""
        base = "/".join(filter(None, (root, *module.split("."))))
        for suffix in (".py", ".pyi"):
            package = f"{base}/__init__{suffix}" if base else f"__init__{suffix}"
            if package in self._tree:
                return package, base
        for suffix in (".py", ".pyi"):
            if base + suffix in self._tree:
                return base + suffix, "-"
        return ("", base) if base in self._tree.folders else None


PYTHON = model.Language(
    "python",
    ".py .pyi .pyw",
    filenames="SConstruct SConscript wscript",
    shebangs="python pypy",
    syntax=model.Syntax(
        grammar="python",
        exported=model.without_underscore,
        bases=bases,
        names_in_strings=re.compile(r"[^\W\d]\w*(?:\.(?!(?:html?|txt|xml|json|py)\b)[^\W\d]\w*){1,8}"),  # no files
    ),
    imports=model.ImportRules(
        read=read_import,
        calls=(
            r"(?=[\"'irtT{])(?:\b(?:include\(\s*\(?|import_module\()\s*[\"'](?=\.*[^\W\d][\w.]*[\"'])"  # URLs of a site
            rf"|{_PAGE})(?P<module>[^\"'\n]+)[\"']"
        ),
        call_words=("include(", "import_module(", *_PAGE_WORDS),
        timed=True,
        types_block="TYPE_CHECKING",
        resolver=PythonImports,
        bound=bound_names,
    ),
    names=model.NameRules(
        explicit=True,
        class_scope=True,
        imports_show=True,
        outside="all",
        dotted_modules=True,
        decorators=True,
        overloads="marked",
        called_as="__call__",
        settings="django.conf.settings",
        links=True,
        fixtures="conftest.py",
    ),
)


# --- Django and Jinja: pages with code of Python in them -----------------------------------------------------------

_COMMENT = r"\{#.*?#\}|\{%[-+]?\s*(?P<raw>comment|verbatim|raw)\b.*?\{%[-+]?\s*end(?P=raw)\b.*?%\}"
_TAG = re.compile(
    rf"{_COMMENT}|\{{%(?P<tag>(?:[^%]++|%(?!\}}))*+)%\}}|\{{\{{(?P<value>(?:[^}}]++|\}}(?!\}}))*+)\}}\}}", re.DOTALL
)
_START = r"(?<![\w.|\])])"
_NAME = rf"(?!(?:{'|'.join(kwlist)})\b)[^\W\d]\w*"
# What uses names: filters, tests, paths, what stands behind a bracket, calls, and the name of a tag. A plain name is a
# variable of the page, and so are what is set and mostly the first name of a path.
_USE = re.compile(
    rf"\"[^\"]*\"|'[^']*'|\|\s*(?P<filter>{_NAME})|\bis\s+(?:not\s+)?(?P<test>{_NAME})|(?P<of>[\])]\.{_NAME}(?:\.\w+)*)"
    rf"|{_START}(?!loop\.|forloop\.){_NAME}(?:\.\w+)*\s*=(?!=)|{_START}(?P<path>(?!(?:for)?loop\.){_NAME}(?:\.\w+)+)"
    rf"|{_START}(?P<called>{_NAME})(?=\()|\{{%[-+]?\s*(?P<name>{_NAME})"
)
_FIRST_SIGN = re.compile(r"(?m)^[ \t]*;")
_MACRO = re.compile(rf"\{{%[-+]?\s*(?P<macro>macro\s+)(?P<name>{_NAME}\s*\()[^\n]*(?P<closed>\)\s*[-+]?%\}})")
_LOADING = re.compile(
    r"\{%[-+]?\s*(?:load\s+(?P<libraries>[^%\n]+?)"
    r"|(?:from|import)\s+(?:\w+\(\s*)?[\"'](?P<page>[^\"'\n]+)[\"']\s*\)?"  # or `theme("forms.html")`
    r"\s+(?:as\s+(?P<alias>\w+)|import\s+(?P<names>[^%\n]+?)))(?:\s+with(?:out)?\s+context)?\s*[-+]?%\}"
)


def show_jinja(text: str) -> str:
    """The names that a page uses, each a statement; a macro is shown as a function, and what loads others as an
    import. Nothing of pages of Angular and the like."""
    if "{%" not in text:
        return ""
    tags = [tag for tag in _TAG.finditer(text) if tag.lastgroup in ("tag", "value")]
    uses = [use for tag in tags for use in _USE.finditer(text, *tag.span())]
    seen = list(show_code(text, uses))
    loaded = {
        name for tag in _LOADING.finditer(text) for name in re.findall(r"\w+", tag["alias"] or tag["names"] or "")
    }
    for use in uses:
        first = use["path"].partition(".")[0] if use["path"] else ""
        if first and first not in loaded and not first[0].isupper():
            seen[use.start() : use.start() + len(first)] = "_".rjust(len(first))  # of an unknown value
        elif use["of"]:
            seen[use.start()] = "_"
    for tag in tags:
        start, end = tag.span()
        if macro := _MACRO.fullmatch(text, start, end):
            named, closed = macro.start("name"), macro.start("closed")
            seen[start:named] = "def".ljust(len(macro["macro"])).rjust(named - start)
            seen[named:end] = f"{macro['name'].ljust(closed - named)}):0".ljust(end - named)
        elif loading := _LOADING.fullmatch(text, start, end):
            seen[start:end] = "import x".ljust(end - start - 2) + ",x"
            if loading["names"]:
                seen[loading.start("names") - 1 : loading.end("names")] = f",{loading['names']}"
    return _FIRST_SIGN.sub(model.blank, "".join(seen))


def read_tag(statement: str, line: int) -> Iterator[Import]:
    """`{% load shop_tags %}`, `{% load total from shop_tags %}`, `{% from "forms.html" import field as row %}`."""
    if (tag := _LOADING.fullmatch(statement)) is None:
        return
    if tag["libraries"]:
        names, _, library = tag["libraries"].partition(" from ")
        for module in library.split() or names.split():
            yield Import(module, line, tuple(names.split()) if library else ("*",))
    elif tag["names"]:
        yield from model.group_imports(tag["page"], line, model.items(tag["names"]))
    else:
        yield Import(tag["page"], line, (), tag["alias"])


def page_language(name: str, extensions: str, kind: FileKind = FileKind.CODE) -> model.Language:
    page = PYTHON.as_template(name, extensions, show_jinja, comments=re.compile(_COMMENT, re.DOTALL))
    imports = replace(page.imports, read=read_tag, timed=False)
    return replace(page, kind=kind, imports=imports, names=replace(page.names, calls="bare", fixtures="", settings=""))


LANGUAGES = (
    PYTHON,
    page_language("html", ".html .htm .xhtml", FileKind.DOCS),
    page_language("jinja", ".jinja .jinja2 .j2"),
)
