"""Languages without a syntax tree: code, documents, configuration and data, chunked by text or at headings."""

from __future__ import annotations

from functools import partial
from typing import Any

from codeinfo.languages.model import Language, Markup, words
from codeinfo.model import FileKind

_MARKDOWN = Markup(fence=r" {0,3}(`{3,}|~{3,})", is_markdown=True)


def _language(name: str, extensions: str, filenames: str = "", shebangs: str = "", **more: Any) -> Language:
    more |= {"filenames": words(filenames), "shebangs": words(shebangs)}
    return Language(name=name, extensions=words(extensions), **more)


_docs, _config = partial(_language, kind=FileKind.DOCS), partial(_language, kind=FileKind.CONFIG)


LANGUAGES = (
    _language("objective-c", ".m .mm"),
    _language("dart", ".dart", shebangs="dart"),
    _language("perl", ".pl .pm .pod .t", shebangs="perl"),
    _language("r", ".r .rmd", filenames=".Rprofile", shebangs="Rscript"),
    _language("julia", ".jl", shebangs="julia"),
    _language("clojure", ".clj .cljs .cljc .edn .bb", shebangs="clojure bb"),
    _language("erlang", ".erl .hrl .escript", filenames="rebar.config", shebangs="escript"),
    _language("ocaml", ".ml .mli .mll .mly", shebangs="ocaml"),
    _language("fsharp", ".fs .fsi .fsx"),
    _language("visual-basic", ".vb .vbs .bas"),
    _language("groovy", ".groovy .gradle .gvy", filenames="Jenkinsfile", shebangs="groovy"),
    _language("nim", ".nim .nims .nimble"),
    _language("crystal", ".cr", shebangs="crystal"),
    _language("d", ".d .di"),
    _language("pascal", ".pas .pp .dpr .lpr"),
    _language("fortran", ".f .f90 .f95 .f03 .f08 .for"),
    _language("ada", ".adb .ads"),
    _language("cobol", ".cob .cbl .cpy"),
    _language("lisp", ".lisp .lsp .cl .el .scm .ss .rkt .fnl .janet"),
    _language("elm", ".elm"),
    _language("purescript", ".purs"),
    _language("literate-haskell", ".lhs"),
    _language("haxe", ".hx"),
    _language("gleam", ".gleam"),
    _language("odin", ".odin"),
    _language("v", ".v .vsh"),
    _language("verilog", ".sv .svh .vh"),
    _language("vhdl", ".vhd .vhdl"),
    _language("assembly", ".s .asm .nasm"),
    _language("solidity", ".sol"),
    _language("gdscript", ".gd"),
    _language("shader", ".glsl .vert .frag .comp .hlsl .wgsl .metal .shader"),
    _language("tcl", ".tcl .tm", shebangs="tclsh wish expect"),
    _language("awk", ".awk", shebangs="awk gawk"),
    _language("fish", ".fish", shebangs="fish"),
    _language("powershell", ".ps1 .psm1 .psd1", shebangs="pwsh"),
    _language("batch", ".bat .cmd"),
    _language("vim", ".vim", filenames=".vimrc _vimrc"),
    _language("sql", ".sql .psql .ddl .dml"),
    _language("graphql", ".graphql .gql .graphqls"),
    _language("protobuf", ".proto"),
    _language("thrift", ".thrift .avdl .capnp .fbs"),
    _language("prisma", ".prisma"),
    _language("astro", ".astro"),
    _language("css", ".css"),
    _language("scss", ".scss .sass .less .styl"),
    _language(
        "template",
        ".erb .eex .heex .leex .ejs .hbs .mustache .jinja .jinja2 .j2 .twig .haml .slim .pug .liquid .tmpl .razor "
        ".cshtml .stub",
    ),
    _language("bazel", ".bzl .bazel .star", filenames="BUILD WORKSPACE Tiltfile"),
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
