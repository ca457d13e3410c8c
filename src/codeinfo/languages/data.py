"""Languages without a syntax tree: code, documents, configuration and data, chunked by text or at headings."""

from __future__ import annotations

from codeinfo.languages.model import Language, Markup, words
from codeinfo.model import FileKind

_MARKDOWN = Markup(fence=r" {0,3}(`{3,}|~{3,})", is_markdown=True)


def _code(
    name: str,
    extensions: str,
    filenames: str = "",
    shebangs: str = "",
    kind: FileKind = FileKind.CODE,
    family: str = "",
    markup: Markup | None = None,
) -> Language:
    return Language(
        name=name,
        extensions=words(extensions),
        kind=kind,
        filenames=words(filenames),
        shebangs=words(shebangs),
        family=family,
        markup=markup,
    )


def _docs(name: str, extensions: str, filenames: str = "", markup: Markup | None = None) -> Language:
    return _code(name, extensions, filenames, kind=FileKind.DOCS, markup=markup)


def _config(name: str, extensions: str, filenames: str = "", shebangs: str = "", family: str = "") -> Language:
    return _code(name, extensions, filenames, shebangs, FileKind.CONFIG, family)


LANGUAGES = (
    _code("objective-c", ".m .mm"),
    _code("dart", ".dart", shebangs="dart"),
    _code("perl", ".pl .pm .pod .t", shebangs="perl"),
    _code("r", ".r .rmd", filenames=".Rprofile", shebangs="Rscript"),
    _code("julia", ".jl", shebangs="julia"),
    _code("clojure", ".clj .cljs .cljc .edn .bb", shebangs="clojure bb"),
    _code("erlang", ".erl .hrl .escript", filenames="rebar.config", shebangs="escript"),
    _code("ocaml", ".ml .mli .mll .mly", shebangs="ocaml"),
    _code("fsharp", ".fs .fsi .fsx"),
    _code("visual-basic", ".vb .vbs .bas"),
    _code("groovy", ".groovy .gradle .gvy", filenames="Jenkinsfile", shebangs="groovy"),
    _code("nim", ".nim .nims .nimble"),
    _code("crystal", ".cr", shebangs="crystal"),
    _code("d", ".d .di"),
    _code("pascal", ".pas .pp .dpr .lpr"),
    _code("fortran", ".f .f90 .f95 .f03 .f08 .for"),
    _code("ada", ".adb .ads"),
    _code("cobol", ".cob .cbl .cpy"),
    _code("lisp", ".lisp .lsp .cl .el .scm .ss .rkt .fnl .janet"),
    _code("elm", ".elm"),
    _code("purescript", ".purs"),
    _code("literate-haskell", ".lhs"),
    _code("haxe", ".hx"),
    _code("gleam", ".gleam"),
    _code("odin", ".odin"),
    _code("v", ".v .vsh"),
    _code("verilog", ".sv .svh .vh"),
    _code("vhdl", ".vhd .vhdl"),
    _code("assembly", ".s .asm .nasm"),
    _code("solidity", ".sol"),
    _code("gdscript", ".gd"),
    _code("shader", ".glsl .vert .frag .comp .hlsl .wgsl .metal .shader"),
    _code("tcl", ".tcl .tm", shebangs="tclsh wish expect"),
    _code("awk", ".awk", shebangs="awk gawk"),
    _code("fish", ".fish", shebangs="fish"),
    _code("powershell", ".ps1 .psm1 .psd1", shebangs="pwsh"),
    _code("batch", ".bat .cmd"),
    _code("vim", ".vim", filenames=".vimrc _vimrc"),
    _code("sql", ".sql .psql .ddl .dml"),
    _code("graphql", ".graphql .gql .graphqls"),
    _code("protobuf", ".proto"),
    _code("thrift", ".thrift .avdl .capnp .fbs"),
    _code("prisma", ".prisma"),
    _code("astro", ".astro"),
    _code("css", ".css"),
    _code("scss", ".scss .sass .less .styl"),
    _code(
        "template",
        ".erb .eex .heex .leex .ejs .hbs .mustache .jinja .jinja2 .j2 .twig .haml .slim .pug .liquid .tmpl .razor "
        ".cshtml .stub",
    ),
    _code("bazel", ".bzl .bazel .star", filenames="BUILD WORKSPACE Tiltfile"),
    _config("make", ".mk .mak", filenames="Makefile makefile GNUmakefile Makefile.am Makefile.in", shebangs="make"),
    _config("cmake", ".cmake", filenames="CMakeLists.txt"),
    _config("meson", "", filenames="meson.build meson_options.txt meson.options"),
    _config("autoconf", ".ac .m4"),
    _config("dockerfile", ".dockerfile", filenames="Dockerfile Containerfile"),
    _config("terraform", ".tf .tfvars .hcl"),
    _config("nix", ".nix"),
    _config("just", ".just", filenames="justfile Justfile"),
    _docs("markdown", ".md .markdown .mdx .mdc .mkd", markup=_MARKDOWN),
    _docs("rst", ".rst", markup=Markup()),
    _docs("asciidoc", ".adoc .asciidoc", markup=Markup(r"(={1,6})[ \t]+(?=\S)", r"(-{4,}|\.{4,})[ \t\r]*$")),
    _docs("org", ".org", markup=Markup(r"(\*{1,8})[ \t]+(?=\S)")),
    _docs("tex", ".tex .sty .cls .bib .latex"),
    _docs("typst", ".typ"),
    _docs("html", ".html .htm .xhtml"),
    _docs(
        "text",
        ".txt .text .log .vimdoc",
        filenames="README LICENSE LICENCE COPYING NOTICE AUTHORS CONTRIBUTORS CHANGES CHANGELOG INSTALL TODO NEWS",
        markup=Markup(),
    ),
    _docs("notebook", ".ipynb"),
    _config(
        "json",
        ".json .jsonc .json5 .jsonl .ndjson .webmanifest .geojson .har",
        filenames=".prettierrc .eslintrc .babelrc .jshintrc .swcrc composer.json",
        family="ecmascript",
    ),
    _config("yaml", ".yml .yaml", filenames=".clang-format .clang-tidy .yamllint"),
    _config("toml", ".toml"),
    _config(
        "ini",
        ".ini .cfg .conf .cnf .desktop .service .editorconfig .gitconfig",
        filenames=".editorconfig .npmrc .gitmodules .flake8 .pylintrc .coveragerc",
    ),
    _config("properties", ".properties"),
    _config(
        "xml",
        ".xml .xsd .xsl .xslt .plist .csproj .fsproj .vbproj .props .targets .nuspec .wsdl .resx .storyboard .xib .pom",
    ),
    _config("dotenv", ".env", filenames=".env.example .env.sample .env.template"),
    _config("ignore", "", filenames=".gitignore .dockerignore .npmignore .codeinfoignore .gitattributes .eslintignore"),
    _config("requirements", "", filenames="requirements.txt constraints.txt"),
    _config("gomod", ".mod .work"),
    _config("cabal", ".cabal", filenames="cabal.project"),
    _config("csv", ".csv .tsv .psv"),
)
