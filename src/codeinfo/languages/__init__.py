"""The languages CodeInfo knows: one row each. A grammar name means syntax-tree chunks; "" means chunks by text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from codeinfo.model import FileKind


class Language(NamedTuple):
    name: str
    extensions: tuple[str, ...]  # lowercase, with the dot
    grammar: str = ""  # tree-sitter grammar
    kind: FileKind = FileKind.CODE
    filenames: tuple[str, ...] = ()
    shebangs: tuple[str, ...] = ()  # interpreters, without version


_CODE, _DOCS, _CONFIG = FileKind.CODE, FileKind.DOCS, FileKind.CONFIG


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LANGUAGES: tuple[Language, ...] = (
    # --- with a grammar --------------------------------------------------------------------------------------------
    Language("python", _words(".py .pyi .pyw"), "python", _CODE, _words("SConstruct SConscript wscript"),
             _words("python pypy")),
    Language("javascript", _words(".js .mjs .cjs .jsx .es6"), "javascript", _CODE, _words("Jakefile"),
             _words("node deno bun")),
    Language("typescript", _words(".ts .mts .cts"), "typescript", _CODE, (), _words("ts-node tsx")),
    Language("tsx", _words(".tsx"), "tsx"),
    Language("go", _words(".go"), "go"),
    Language("rust", _words(".rs"), "rust"),
    Language("java", _words(".java"), "java"),
    Language("kotlin", _words(".kt .kts"), "kotlin"),
    Language("scala", _words(".scala .sc .sbt .mill"), "scala"),
    Language("c", _words(".c"), "c"),
    Language("cpp", _words(".cpp .cc .cxx .c++ .hpp .hh .hxx .h++ .h .ipp .tpp .inl .cu .cuh .ino"), "cpp"),
    Language("csharp", _words(".cs .csx"), "csharp"),
    Language("php", _words(".php .phtml .php5 .php7 .phpt"), "php", _CODE, (), _words("php")),
    Language("ruby", _words(".rb .rake .gemspec .ru .rbi .podspec .jbuilder"), "ruby", _CODE,
             _words("Rakefile Gemfile Guardfile Vagrantfile Podfile Fastfile Brewfile Capfile"),
             _words("ruby jruby rake")),
    Language("swift", _words(".swift"), "swift", _CODE, (), _words("swift")),
    Language("elixir", _words(".ex .exs"), "elixir", _CODE, (), _words("elixir")),
    Language("haskell", _words(".hs .hs-boot .hsc"), "haskell", _CODE, (), _words("runhaskell stack cabal")),
    Language("lua", _words(".lua .rockspec"), "lua", _CODE, _words(".luacheckrc"), _words("lua luajit")),
    Language("zig", _words(".zig .zon"), "zig"),
    Language("bash", _words(".sh .bash .zsh .ksh .bats .ebuild .command"), "bash", _CODE,
             _words(".bashrc .bash_profile .bash_aliases .profile .zshrc .zprofile .zshenv PKGBUILD"),
             _words("bash sh zsh dash ksh ash bats")),
    # --- code, by text ---------------------------------------------------------------------------------------------
    Language("objective-c", _words(".m .mm"), ""),
    Language("dart", _words(".dart"), "", _CODE, (), _words("dart")),
    Language("perl", _words(".pl .pm .pod .t"), "", _CODE, (), _words("perl")),
    Language("r", _words(".r .rmd"), "", _CODE, _words(".Rprofile"), _words("Rscript")),
    Language("julia", _words(".jl"), "", _CODE, (), _words("julia")),
    Language("clojure", _words(".clj .cljs .cljc .edn .bb"), "", _CODE, (), _words("clojure bb")),
    Language("erlang", _words(".erl .hrl .escript"), "", _CODE, _words("rebar.config"), _words("escript")),
    Language("ocaml", _words(".ml .mli .mll .mly"), "", _CODE, (), _words("ocaml")),
    Language("fsharp", _words(".fs .fsi .fsx"), ""),
    Language("visual-basic", _words(".vb .vbs .bas"), ""),
    Language("groovy", _words(".groovy .gradle .gvy"), "", _CODE, _words("Jenkinsfile"), _words("groovy")),
    Language("nim", _words(".nim .nims .nimble"), ""),
    Language("crystal", _words(".cr"), "", _CODE, (), _words("crystal")),
    Language("d", _words(".d .di"), ""),
    Language("pascal", _words(".pas .pp .dpr .lpr"), ""),
    Language("fortran", _words(".f .f90 .f95 .f03 .f08 .for"), ""),
    Language("ada", _words(".adb .ads"), ""),
    Language("cobol", _words(".cob .cbl .cpy"), ""),
    Language("lisp", _words(".lisp .lsp .cl .el .scm .ss .rkt .fnl .janet"), ""),
    Language("elm", _words(".elm"), ""),
    Language("purescript", _words(".purs"), ""),
    Language("literate-haskell", _words(".lhs"), ""),
    Language("haxe", _words(".hx"), ""),
    Language("gleam", _words(".gleam"), ""),
    Language("odin", _words(".odin"), ""),
    Language("v", _words(".v .vsh"), ""),
    Language("verilog", _words(".sv .svh .vh"), ""),
    Language("vhdl", _words(".vhd .vhdl"), ""),
    Language("assembly", _words(".s .asm .nasm"), ""),
    Language("solidity", _words(".sol"), ""),
    Language("gdscript", _words(".gd"), ""),
    Language("shader", _words(".glsl .vert .frag .comp .hlsl .wgsl .metal .shader"), ""),
    Language("tcl", _words(".tcl .tm"), "", _CODE, (), _words("tclsh wish expect")),
    Language("awk", _words(".awk"), "", _CODE, (), _words("awk gawk")),
    Language("fish", _words(".fish"), "", _CODE, (), _words("fish")),
    Language("powershell", _words(".ps1 .psm1 .psd1"), "", _CODE, (), _words("pwsh")),
    Language("batch", _words(".bat .cmd"), ""),
    Language("vim", _words(".vim"), "", _CODE, _words(".vimrc _vimrc")),
    Language("sql", _words(".sql .psql .ddl .dml"), ""),
    Language("graphql", _words(".graphql .gql .graphqls"), ""),
    Language("protobuf", _words(".proto"), ""),
    Language("thrift", _words(".thrift .avdl .capnp .fbs"), ""),
    Language("prisma", _words(".prisma"), ""),
    Language("vue", _words(".vue"), ""),
    Language("svelte", _words(".svelte"), ""),
    Language("astro", _words(".astro"), ""),
    Language("css", _words(".css"), ""),
    Language("scss", _words(".scss .sass .less .styl"), ""),
    Language("template",
             _words(".erb .eex .heex .leex .ejs .hbs .mustache .jinja .jinja2 .j2 .twig .haml .slim .pug "
                    ".liquid .tmpl .razor .cshtml .stub"),
             ""),
    Language("bazel", _words(".bzl .bazel .star"), "", _CODE, _words("BUILD WORKSPACE Tiltfile")),
    Language("make", _words(".mk .mak"), "", _CONFIG, _words("Makefile makefile GNUmakefile Makefile.am Makefile.in"),
             _words("make")),
    Language("cmake", _words(".cmake"), "", _CONFIG, _words("CMakeLists.txt")),
    Language("meson", (), "", _CONFIG, _words("meson.build meson_options.txt meson.options")),
    Language("autoconf", _words(".ac .m4"), "", _CONFIG),
    Language("dockerfile", _words(".dockerfile"), "", _CONFIG, _words("Dockerfile Containerfile")),
    Language("terraform", _words(".tf .tfvars .hcl"), "", _CONFIG),
    Language("nix", _words(".nix"), "", _CONFIG),
    Language("just", _words(".just"), "", _CONFIG, _words("justfile Justfile")),
    # --- documents -------------------------------------------------------------------------------------------------
    Language("markdown", _words(".md .markdown .mdx .mdc .mkd"), "", _DOCS),
    Language("rst", _words(".rst"), "", _DOCS),
    Language("asciidoc", _words(".adoc .asciidoc"), "", _DOCS),
    Language("org", _words(".org"), "", _DOCS),
    Language("tex", _words(".tex .sty .cls .bib .latex"), "", _DOCS),
    Language("typst", _words(".typ"), "", _DOCS),
    Language("html", _words(".html .htm .xhtml"), "", _DOCS),
    Language("text", _words(".txt .text .log .vimdoc"), "", _DOCS,
             _words("README LICENSE LICENCE COPYING NOTICE AUTHORS CONTRIBUTORS CHANGES CHANGELOG INSTALL TODO NEWS")),
    Language("notebook", _words(".ipynb"), "", _DOCS),
    # --- configuration and data ------------------------------------------------------------------------------------
    Language("json", _words(".json .jsonc .json5 .jsonl .ndjson .webmanifest .geojson .har"), "", _CONFIG,
             _words(".prettierrc .eslintrc .babelrc .jshintrc .swcrc composer.json")),
    Language("yaml", _words(".yml .yaml"), "", _CONFIG, _words(".clang-format .clang-tidy .yamllint")),
    Language("toml", _words(".toml"), "", _CONFIG),
    Language("ini", _words(".ini .cfg .conf .cnf .desktop .service .editorconfig .gitconfig"), "", _CONFIG,
             _words(".editorconfig .npmrc .gitmodules .flake8 .pylintrc .coveragerc")),
    Language("properties", _words(".properties"), "", _CONFIG),
    Language("xml",
             _words(".xml .xsd .xsl .xslt .plist .csproj .fsproj .vbproj .props .targets .nuspec .wsdl .resx "
                    ".storyboard .xib .pom"),
             "", _CONFIG),
    Language("dotenv", _words(".env"), "", _CONFIG, _words(".env.example .env.sample .env.template")),
    Language("ignore", (), "", _CONFIG,
             _words(".gitignore .dockerignore .npmignore .codeinfoignore .gitattributes .eslintignore")),
    Language("requirements", (), "", _CONFIG, _words("requirements.txt constraints.txt")),
    Language("gomod", _words(".mod .work"), "", _CONFIG),
    Language("cabal", _words(".cabal"), "", _CONFIG, _words("cabal.project")),
    Language("csv", _words(".csv .tsv .psv"), "", _CONFIG),
)  # fmt: skip

BY_NAME = {language.name: language for language in LANGUAGES}
_BY_EXTENSION = {extension: language for language in LANGUAGES for extension in language.extensions}
_BY_FILENAME = {filename: language for language in LANGUAGES for filename in language.filenames}
_BY_INTERPRETER = {shebang: language for language in LANGUAGES for shebang in language.shebangs}

_INTERPRETER = r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*(?:\w+=\S*\s+)*)?(?:\S*/)?([A-Za-z][A-Za-z-]*)"
# Expressions here are plain strings: most commands need none of them, and `re` keeps what it compiled.
# What only C++ has, at the start of a line or unmistakable anywhere. Without it a header is plain C.
_CPP_ONLY = (
    r"(?m)"
    r"^[ \t]*(?:class\s+\w|namespace\b|template\s*<|using\s+\w|public:|private:|protected:|#include\s*<[a-z_]+>)"
    r"|\b(?:std::|constexpr\b|nullptr\b|static_cast<|noexcept\b|typename\b)"
)
_HEADER_PROBE_CHARS = 20_000  # a C++ header shows itself early; reading on costs more than a wrong guess


@lru_cache(maxsize=4096)
def _by_extension(name: str) -> Language | None:
    """The longest known extension wins: `a.d.ts` is TypeScript, `Dockerfile.prod` a Dockerfile."""
    dot = name.rfind(".")
    if dot < 0:
        return None
    return _BY_EXTENSION.get(name[dot:].lower()) or _BY_FILENAME.get(name[: name.find(".", 1)])


def language_of(path: str, first_line: str = "") -> Language | None:
    """By file name, extension, then shebang. A `.h` counts as C++, whose grammar reads both; see `language_of_text`."""
    name = path[path.rfind("/") + 1 :]
    language = _BY_FILENAME.get(name) or _by_extension(name)
    if language is None and first_line.startswith("#!"):
        match = re.match(_INTERPRETER, first_line)
        return _BY_INTERPRETER.get(match[1].rstrip("-")) if match else None
    return language


def language_of_text(path: str, text: str) -> Language | None:
    """As `language_of`, with the content at hand: shebangs are seen and `.h` files told apart."""
    if path.endswith((".h", ".H")):
        return BY_NAME["cpp" if re.search(_CPP_ONLY, text[:_HEADER_PROBE_CHARS]) else "c"]
    return language_of(path, text[: max(text.find("\n"), 0) or 200] if text.startswith("#!") else "")


# Conventions of many ecosystems; `\w+Test` and `\w+Tests` need a capital so that `contest` and `latest` stay code.
_TEST_NAME = (
    r"test_.*|tests?\.\w+|conftest\.py|.*[_.-](?:test|tests|spec|specs|unittest|e2e)\.\w+"
    r"|[A-Za-z0-9]*(?:Test|Tests|TestCase|Spec|Suite|IT)\.(?:java|kt|kts|scala|groovy|cs|fs|php|swift|hs|m|mm|dart)"
    r"|Test[A-Z]\w*\.(?:java|kt|scala|cs|php|py)|.*\.(?:bats|phpt|t)"
)
_TEST_FOLDER = (
    r"[Tt]ests?|[Ss]pecs?|__tests__|__mocks__|__snapshots__|testdata|test[_-]\w+|e2e|cypress|androidTest"
    r"|.*[._-][Tt]ests?|(?:[A-Z]|[a-z]+[A-Z])?\w*[a-z](?:Test|Tests|Specs)"
)


@lru_cache(maxsize=20_000)
def _in_tests(folder: str) -> bool:
    return any(re.fullmatch(_TEST_FOLDER, part) for part in folder.split("/")) if folder else False


def kind_of(path: str, language: Language | None) -> FileKind:
    """What the file is for. Text of an unknown type is configuration when it is a dot file, else documentation."""
    folder, _, name = path.rpartition("/")
    unknown = FileKind.CONFIG if name.startswith(".") else FileKind.DOCS
    kind = language.kind if language else unknown
    if kind is FileKind.DOCS:
        return kind
    if _in_tests(folder) or (kind is FileKind.CODE and re.fullmatch(_TEST_NAME, name)):
        return FileKind.TEST
    return kind
