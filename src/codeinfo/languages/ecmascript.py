"""JavaScript and TypeScript: extensions, index files, tsconfig paths, package.json names, exports and imports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from posixpath import dirname
from typing import Any

from msgspec.structs import replace

from codeinfo.cache import reachable
from codeinfo.languages import model
from codeinfo.languages.model import Resolver, Tree, ancestors, join_path, nearest
from codeinfo.model import Import

_FRAME = re.compile(r"\bfrom\b[^}]*$|^(?:import|export)\b(?:\s+type\b(?!\s*from))?")
# `import type …`, and braces in which every name is marked as a type.
_TYPES = re.compile(
    r"(?:import|export)\s+type\b(?!\s*(?:from|,))|(?:import|export)\s*\{(?:\s*type\s+[\w$]+(?:\s+as\s+[\w$]+)?\s*(?:,|(?=\})))+\s*\}"
)
_FROM = re.compile(r"""\bfrom\s*["'`]([^"'`\n]+)["'`]""")
_EXTENSIONS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".json", ".vue", ".svelte")
# TypeScript is imported by the name of what it compiles to.
_WRITTEN_AS = {".js": (".ts", ".tsx", ".d.ts", ".jsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
_BUILT, _SOURCES = ("dist", "lib", "build", "out", "esm", "cjs", "es"), ("src", "source", "lib")
_NUXT_CONFIGS = ("nuxt.config.ts", "nuxt.config.js", "nuxt.config.mjs")
# What plugins of bundlers import by themselves, as they list it: `Cart: typeof import('./shop/Cart.vue')['default']`.
_LISTS = ("components.d.ts", "auto-imports.d.ts")
_GIVEN = re.compile(
    r"""(?<![\w$])([\w$]++)\??:\s*typeof import\(\s*["'](\.[^"'\n]+)["']\s*\)(?:\[["'](\w+)["']\]|\.(\w+))"""
)
_BY_NUXT = re.compile(r"(?:(?:app|src|server|shared|layers/[^/]+(?:/app)?)/)?(?:composables|components|utils|stores)/")
Patterns = list[tuple[str, list[str]]]
_CONDITIONS = ("source", "import", "module", "default", "require", "node", "browser", "development", "types")


def pascal_case(name: str) -> str:
    """What others call the component of a file: UserCard for `user-card`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("-"))


def kebab_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def read_import(statement: str, line: int) -> Iterator[Import]:
    text = " ".join(model.COMMENT.sub("", statement).split())
    if not (written := _FROM.search(text) or model.QUOTED.search(text)):
        return
    module, reexport = written.group(1), text.startswith("export")
    bound = model.SIGIL.sub("", model.QUOTED.sub("", _FRAME.sub("", text)).strip("; "))
    timing = "types" if _TYPES.match(text) else ""
    if required := re.fullmatch(r"(\w+)\s*=\s*require\(.*", bound):
        yield Import(module, line, (), required.group(1))
        return
    outside, brace, listed = bound.partition("{")
    taken: list[tuple[str, str]] = []
    for item in filter(None, (part.strip() for part in outside.split(","))):
        if item.startswith("*"):
            alias = item.partition(" as ")[2].strip()
            yield Import(module, line, () if alias else ("*",), alias, reexport, timing)
        else:
            taken.append(("default", item))
    if brace:
        taken += [(name.removeprefix("type "), alias) for name, alias in model.items(listed.partition("}")[0])]
    yield from model.group_imports(module, line, taken, reexport=reexport, timing=timing)
    if not bound:
        yield Import(module, line)


def is_exported(declared: model.Declared) -> bool:
    outer, written, before = declared.outer, declared.written, declared.before
    if outer is not None and outer.kind not in {"namespace", "module"}:
        return outer.exported and not written.startswith("#") and not re.search(r"\b(?:private|protected)\b", before)
    return "export" in before or written.startswith(("exports.", "module.exports"))


class EcmascriptImports(Resolver):
    """Part of a package is resolved as the configurations above it see it: their paths start there."""

    def __init__(self, tree: Tree) -> None:
        self._prefix, self._tree = tree.from_top()
        self._packages: dict[str, list[str]] = {}  # name → folders
        for path in self._tree.configs:
            folder, _, file = path.rpartition("/")
            name = self._tree.config(path).get("name") if file == "package.json" else None
            if isinstance(name, str) and name:
                self._packages.setdefault(name, []).append(folder)
        # By the path of a configuration: the folder that targets are relative to, and patterns.
        self._tables: dict[str, tuple[str, Patterns] | None] = {}
        self._aliases: dict[str, list[str]] = {}  # folder of a tsconfig → the configurations with its aliases
        self._by_alias: dict[tuple[str, str], str | None] = {}  # (configuration, module) → file
        self._read_aliases()
        self._memo: dict[tuple[str, str], str | None] = {}
        configs = (path for name in _NUXT_CONFIGS for path in self._tree.by_name.get(name, ()))
        self._auto_imports: dict[str, dict[str, Import]] = {}  # folder → name → the import that a bundler writes
        self._by_nuxt = {home: self._offered_by_nuxt(home) for home in (dirname(path) for path in configs)}
        for path in (path for name in _LISTS for path in self._tree.by_name.get(name, ())):
            self._read_auto_imports(path)

    def _offered_by_nuxt(self, home: str) -> tuple[str, ...]:
        start = f"{home}/" if home else ""
        paths = [path for path in self._tree.files if path.startswith(start) and _BY_NUXT.match(path, len(start))]
        for path in paths:
            if (name := _name_in_nuxt(path)) and path.endswith(".vue"):
                self._add_auto_import(home, name, path, "default")
        return tuple(path.removeprefix(self._prefix) for path in paths if _is_called_by_stem(path))

    def _read_auto_imports(self, path: str) -> None:
        """A list of automatic imports, written by Nuxt or a plugin, counts in the package around it."""
        folder = dirname(path)
        homes = (above for above in ancestors(folder) if f"{above}/package.json".lstrip("/") in self._tree.configs)
        home = next(homes, folder)
        for name, module, *members in _GIVEN.findall(self._tree.configs.get(path, "")):
            if target := join_path(folder, module):
                self._add_auto_import(home, name, target, "".join(members))

    def _add_auto_import(self, home: str, name: str, path: str, member: str) -> None:
        import_ = Import(f"/{path}", 0, (member,), "" if member == name else name)
        self._auto_imports.setdefault(home, {})[name] = import_

    def auto_imports(self, source: model.FileFacts) -> Mapping[str, Import]:
        homes = ancestors((self._prefix + source.folder).rstrip("/")) if self._auto_imports else ()
        return next((self._auto_imports[home] for home in homes if home in self._auto_imports), {})

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        """Nuxt imports what lies in some of its folders by itself."""
        homes = ancestors((self._prefix + source.folder).rstrip("/")) if self._by_nuxt else ()
        return next((self._by_nuxt[home] for home in homes if home in self._by_nuxt), ())

    def resolve(self, source: model.FileFacts, import_: Import) -> model.Outcome:
        module = import_.module.partition("?")[0].partition("!")[0]
        folder = (self._prefix + source.folder).rstrip("/")
        key = (folder, module)
        if key not in self._memo:
            self._memo[key] = self._resolve_module(folder, module)
        if path := self._memo[key]:
            # The types of `cart.js` may be declared in `cart.d.ts` beside it.
            declared = re.sub(r"\.([cm]?)js\Z", r".d.\1ts", path) if source.language in ("typescript", "tsx") else path
            paths = (path, declared) if declared != path and declared in self._tree else (path,)
            return model.Outcome(tuple(model.Target(path.removeprefix(self._prefix), import_.names) for path in paths))
        return model.UNRESOLVED if self._is_own(folder, module) and self._is_code(module) else model.EXTERNAL

    def _is_own(self, folder: str, module: str) -> bool:
        """Whether a file of this codebase is meant; files above its root are not part of it."""
        if module.startswith("."):
            path = join_path(folder, module)
            inside = path is not None and f"{path}/".startswith(self._prefix)
            return inside and not self._tree.left_out(str(path).removeprefix(self._prefix))
        if self._prefix or self._tree.left_out(self._package_of(module)[1]):
            return False
        return module.startswith("#") or self._package_of(module)[0] in self._packages

    def _is_code(self, module: str) -> bool:
        """Styles, fonts, images and sounds are not part of the graph, so they are not missing."""
        return module.partition("?")[0].rpartition(".")[2].lower() not in _ASSETS

    def _resolve_module(self, folder: str, module: str) -> str | None:
        if module in (".", "..") or module.startswith(("./", "../")):
            return self._file(join_path(folder, module))
        if module.startswith("/"):
            return self._file(module.lstrip("/"))
        for config in dict.fromkeys(alias for above in ancestors(folder) for alias in self._aliases.get(above, ())):
            if found := self._resolve_alias(config, module):
                return found
        if module.partition("/")[0] == "$lib":  # of SvelteKit
            module = "@/lib" + module.removeprefix("$lib")
        if module.startswith(("@/", "~/")):  # what a bundler's configuration says, which is a program
            places = (
                join_path(above, part + module[2:]) for above in ancestors(folder) for part in ("src/", "app/", "")
            )
            return next((found for place in places if place and (found := self._file(place))), None)
        return self._own_import(folder, module) if module.startswith("#") else self._resolve_package(folder, module)

    def _file(self, base: str | None) -> str | None:
        """The file a path means if its extension is left out or differs."""
        if base is None:
            return None
        if base in self._tree and base:
            return base
        for ending, replacements in _WRITTEN_AS.items():
            if base.endswith(ending):
                for replacement in replacements:
                    if (path := base.removesuffix(ending) + replacement) in self._tree:
                        return path
        for extension in _EXTENSIONS if base else ():
            if base + extension in self._tree:
                return base + extension
        if base not in self._tree.folders:
            return None
        prefix = f"{base}/" if base else ""
        if f"{prefix}package.json" in self._tree.configs and (main := self._resolve_entry(base, ".")):
            return main
        return next((path for e in _EXTENSIONS if (path := f"{prefix}index{e}") in self._tree), None)

    def _read_aliases(self) -> None:
        for path in sorted(self._tree.configs):
            home, _, name = path.rpartition("/")
            for current, options in _chain(self._tree, path) if name.startswith(("tsconfig", "jsconfig")) else ():
                if current not in self._tables:
                    self._tables[current] = _alias_table(dirname(current), options)
                if self._tables[current]:
                    self._aliases.setdefault(home, []).append(current)

    def _resolve_alias(self, config: str, module: str) -> str | None:
        """The file that an alias table gives for a name. Most folders share one table, so each is consulted once."""
        key = (config, module)
        if key not in self._by_alias:
            base, patterns = self._tables[config] or ("", [])
            matches = ((_match(pattern, module), targets) for pattern, targets in patterns)
            named = ((middle, target) for middle, targets in matches if middle is not None for target in targets)
            paths = (join_path(base, target.replace("*", middle, 1)) for middle, target in named)
            self._by_alias[key] = next((found for path in paths if (found := self._file(path))), None)
        return self._by_alias[key]

    def _own_import(self, folder: str, module: str) -> str | None:
        for above in ancestors(folder):
            manifest = f"{above}/package.json".lstrip("/")
            if manifest in self._tree.configs:
                table = self._tree.config(manifest).get("imports")
                return self._resolve_subpath(above, table, module) if isinstance(table, dict) else None
        return None

    def _package_of(self, module: str) -> tuple[str, str]:
        parts = module.split("/")
        length = 2 if module.startswith("@") else 1
        return "/".join(parts[:length]), "/".join(parts[length:])

    def _resolve_package(self, folder: str, module: str) -> str | None:
        name, inside = self._package_of(module)
        home = nearest(self._packages.get(name, ()), folder)
        return None if home is None else self._resolve_entry(home, f"./{inside}" if inside else ".")

    def _resolve_entry(self, home: str, subpath: str) -> str | None:
        manifest = self._tree.config(f"{home}/package.json".lstrip("/"))
        exports = manifest.get("exports")
        if isinstance(exports, dict) and any(key.startswith(".") for key in exports):
            if found := self._resolve_subpath(home, exports, subpath):
                return found
        elif exports and subpath == "." and (found := self._resolve_condition(home, exports, "")):
            return found
        if subpath != ".":
            return self.find_built(home, subpath) or self._file(join_path(home, f"src/{subpath}"))
        for key in ("source", "module", "main", "types"):
            if isinstance(manifest.get(key), str) and (found := self.find_built(home, manifest[key])):
                return found
        prefix = f"{home}/" if home else ""
        bases = (f"{prefix}src/index", f"{prefix}index", f"{prefix}lib/index")
        return next((path for base in bases for e in _EXTENSIONS if (path := base + e) in self._tree), None)

    def _resolve_subpath(self, home: str, table: dict[str, Any], subpath: str) -> str | None:
        for pattern, value in sorted(table.items(), key=lambda pair: -len(pair[0])):
            middle = _match(pattern, subpath)
            if middle is not None and (found := self._resolve_condition(home, value, middle)):
                return found
        return None

    def _resolve_condition(self, home: str, value: Any, middle: str) -> str | None:
        if isinstance(value, str):
            return self.find_built(home, value.replace("*", middle)) if value.startswith("./") else None
        choices = value if isinstance(value, list) else []
        if isinstance(value, dict):
            choices = [value[key] for key in (*_CONDITIONS, *value) if key in value]
        return next((found for choice in choices if (found := self._resolve_condition(home, choice, middle))), None)

    def find_built(self, home: str, target: str) -> str | None:
        """The file a manifest names, or the source it is built from."""
        if (path := join_path(home, target)) is None:
            return None
        if (exact := self._file(path)) and exact != f"{home}/package.json":
            return exact
        inside = path.removeprefix(f"{home}/" if home else "").split("/")
        if inside[0] in _BUILT:
            stem = "/".join(inside[1:])
            for ending in (".d.ts", ".d.mts", ".d.cts", ".mjs", ".cjs", ".js"):
                stem = stem.removesuffix(ending)
            for source in _SOURCES:
                if found := self._file(join_path(home, f"{source}/{stem}")):
                    return found
        return None


def _name_in_nuxt(path: str) -> str:
    """What Nuxt calls a component if that differs from the name of its file: ListAccount for `list/Account.vue`."""
    _, found, inside = f"/{path}".rpartition("/components/")
    *folders, stem = (pascal_case(part) for part in inside.partition(".")[0].split("/"))
    if folders and stem == "Index":
        stem = ""
    if folders and stem.startswith(folders[-1]):
        folders.pop()
    name = "".join((*folders, stem))
    return name if found and name != stem else ""


def _is_called_by_stem(path: str) -> bool:
    """To Nuxt `components/list/Account.vue` is ListAccount."""
    folder, _, name = path.rpartition("/")
    around = folder.rpartition("/")[2].replace("-", "").lower()
    return "/components/" not in f"/{folder}/" or around == "components" or name.lower().startswith(around)


def _match(pattern: str, module: str) -> str | None:
    """What the `*` matches, or None if the pattern does not."""
    before, star, after = pattern.partition("*")
    if not star:
        return "" if module == pattern else None
    if module.startswith(before) and module.endswith(after) and len(module) >= len(before) + len(after):
        return module[len(before) : len(module) - len(after)]
    return None


def _alias_table(folder: str, options: dict[str, Any]) -> tuple[str, Patterns] | None:
    """Aliases in compiler options: the folder targets are relative to, longest patterns first."""
    base_url, table = options.get("baseUrl"), options.get("paths")
    base = join_path(folder, base_url) if isinstance(base_url, str) else folder
    patterns = [
        (pattern, [target for target in targets if isinstance(target, str)])
        for pattern, targets in (table.items() if isinstance(table, dict) else ())
        if isinstance(targets, list)
    ]
    if isinstance(base_url, str):
        patterns.append(("*", ["*"]))
    return (base, sorted(patterns, key=lambda pair: -len(pair[0]))) if patterns and base is not None else None


def _chain(tree: Tree, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The compiler options of a tsconfig and of those it extends, each with its path, nearest first."""

    def extended_configs(current: str) -> Iterator[str]:
        listed = tree.config(current).get("extends", [])
        for other in listed if isinstance(listed, list) else [listed]:
            if isinstance(other, str) and (target := join_path(dirname(current), other)) is not None:
                yield from (target, f"{target}.json", f"{target}/tsconfig.json")

    for current in reachable([path], extended_configs):
        options = tree.config(current).get("compilerOptions")
        if isinstance(options, dict):
            yield current, options


# --- components: scripts, and markup with expressions in it ----------------------------------------------------------

# What is not closed reaches to the end of the file, as in browsers: a search for its end would fail again and again.
_MARKUP = (
    r"<!--.*?(?:-->|\Z)|<style\b.*?(?:</style>|\Z)|<script\b[^>]*+(?:>(?P<script>.*?)(?:</script>|\Z)|\Z)"
    r"|<(?P<tag>[A-Z][\w$]*)"
)
_VUE = re.compile(
    rf"""{_MARKUP}|<(?P<kebab>[a-z][a-z0-9]*(?:-[a-z0-9]+)+)|\{{\{{(?P<value>(?:[^{{}}]++|\}}(?!\}})|\{{(?!\{{))*+)\}}\}}"""
    r"""|\s(?:@|v-on:)[\w.:-]+=(?P<quote>["'])(?P<block>.*?)(?P=quote)"""
    r"""|\s(?:[:\#]|v-)[^\s="'<>]*=(?P<sign>["'])(?P<bound>.*?)(?P=sign)""",
    re.DOTALL,
)
_SVELTE = re.compile(
    rf"{_MARKUP}|\{{(?:[#:@]\w+\s(?:if\s)?|\.\.\.)?(?![#:/@])(?P<block>(?:[^{{}}]*+\{{[^{{}}]*+\}})*+"
    r"(?:(?!\s(?:as|then)\s)[^{}])*+)(?:\s(?:as|then)\s[^{}]*+)?\}|\s(?:use|transition|in|out|animate):(?P<action>[\w$.]+)",
    re.DOTALL,
)
_BRACKETS = {"value": ("(", ")"), "bound": ("(", ")"), "block": ("{", "}")}


def show_code(text: str, parts: Iterable[re.Match[str]]) -> str:
    """The scripts of a page and the expressions in its markup, each a statement of its own, where they stand; all else
    as spaces. The last group of each match is code."""
    seen = list(re.sub(r"[^\n]", " ", text))
    for found in parts:
        if (part := found.lastgroup) is None:
            continue
        start, end = found.span(part)
        code = text[start:end]
        if part == "kebab":  # `<user-card>` is UserCard
            code = pascal_case(code).ljust(end - start)
        seen[start:end] = code.replace(" of ", " in ") if part == "bound" else code  # `v-for`
        ends = start - 1
        if brackets := _BRACKETS.get(part):
            seen[start - 1], seen[end] = brackets
            ends -= 1
        if ends >= 0 and seen[ends] == " ":
            seen[ends] = ";"
    return "".join(seen)


_JAVASCRIPT = model.Syntax(
    grammar="javascript",
    queries=("ecmascript", "jsx", "javascript"),
    word=r"[^\W\d][\w$]+",
    members=(".", ".#"),
    exported=is_exported,
    more_exports=r"exports(?:(?<=\bmodule\.exports)\s*=\s*(\{[^}]*\}|[\w$]+)|\.([\w$]+)\s*=\s*\2(?![\w$.(]))",
    bases=model.bases_behind_words,
)
_TYPESCRIPT = replace(
    _JAVASCRIPT, grammar="typescript", entry="language_typescript", queries=("ecmascript", "typescript")
)
_TSX = replace(
    _TYPESCRIPT,
    grammar="tsx",
    package="tree_sitter_typescript",
    entry="language_tsx",
    queries=("ecmascript", "jsx", "typescript"),
)
_COMPONENT = replace(_TYPESCRIPT, package="tree_sitter_typescript", embedded=True)
_ASSETS = frozenset(
    "css scss sass less svg png jpg jpeg gif webp avif ico woff woff2 ttf otf eot mp3 mp4 webm ogg wav wasm txt md "
    "mdx".split()
)
_IMPORTS = model.ImportRules(
    resolver=EcmascriptImports,
    configs_above=True,
    configs=("package.json", "jsconfig.json", "tsconfig*.json", *_LISTS),
    read=read_import,
    timed=True,
    calls=(
        r"(?=[clv,emri])"  # most places fail here
        r"(?:(?:(?:\b(?:const|let|var)\s|,(?<=[)\s],))\s*(?:(?P<alias>[\w$]+)|\{(?P<names>[\w$\s,:=]{0,2000})\})"
        r"|\b(?P<reexport>(?:module\.)?exports)(?:\.(?P<given>[\w$]+))?)\s*=\s*(?:await\s+)?)?"
        r"\b(?:require|(?P<lazy>import))\(\s*[\"'`](?P<module>[^\"'`\n$]+)[\"'`]\s*\)"
        r"(?:\.(?P<member>[\w$]++))?(?P<value>[ \t]*[.(\[?])?"
    ),
    call_words=("require(", "import("),
)
_TYPED_IMPORTS = replace(_IMPORTS, types_elided=True)
_NAMES = model.NameRules(
    explicit=True, imports_show=True, outside="all", overloads="bodyless", private_to_file=True, default_exports=True
)
_ELEMENTS = replace(_NAMES, calls="element")
_language = partial(model.Language, family="ecmascript", imports=_IMPORTS)
LANGUAGES = (
    _language(
        "javascript",
        ".js .mjs .cjs .jsx .es6",
        filenames="Jakefile",
        shebangs="node deno bun",
        syntax=_JAVASCRIPT,
        names=_ELEMENTS,
    ),
    _language(
        "typescript", ".ts .mts .cts", shebangs="ts-node tsx", syntax=_TYPESCRIPT, imports=_TYPED_IMPORTS, names=_NAMES
    ),
    _language("tsx", ".tsx", syntax=_TSX, imports=_TYPED_IMPORTS, names=_ELEMENTS),
    _language(
        "vue",
        ".vue",
        syntax=replace(_COMPONENT, hide=lambda text: show_code(text, _VUE.finditer(text))),
        names=_ELEMENTS,
    ),
    _language(
        "svelte",
        ".svelte",
        syntax=replace(_COMPONENT, hide=lambda text: show_code(text, _SVELTE.finditer(text))),
        names=_ELEMENTS,
    ),
)
