"""Go: an import names a folder below the path of a module in `go.mod`; a folder is a package."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeinfo.languages import model
from codeinfo.languages.model import Resolver, Tree
from codeinfo.model import Import

MANIFEST = "go.mod"
_VERSION, _NOT_IN_NAMES = re.compile(r"v\d+"), re.compile(r"^go[-.]|[-.]go$|\.v\d+$")
_MODULE = re.compile(r'^module\s+"?([^\s"]+)', re.MULTILINE)


def module_name(manifest: str) -> str:
    found = _MODULE.search(manifest)
    return found[1] if found else ""


def local_name(written: Import) -> str:
    """What the importing file calls the package, as custom has it: the last part of its path that is no version."""
    parts = [part for part in written.module.split("/") if not _VERSION.fullmatch(part)]
    return written.alias or _NOT_IN_NAMES.sub("", parts[-1] if parts else written.module)


def nested_manifest(manifest: str, inside: str) -> str:
    """A manifest as a folder of a module would have it if it were a module of its own."""
    name = module_name(manifest)
    return f"module {name}/{inside}" if name else ""


def read_import(statement: str, line: int) -> Iterator[Import]:
    alias, _, _ = statement.strip().rpartition(" ")
    for module in model.QUOTED.findall(statement):
        yield Import(module, line, ("*",) if alias.strip() == "." else (), alias.strip(" ."))


def is_exported(declared: model.Declared) -> bool:
    return declared.name[:1].isupper()


class GoImports(Resolver):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._modules = [
            (name, path.rpartition("/")[0])
            for path, text in tree.configs.items()
            if path.rpartition("/")[2] == MANIFEST and (name := module_name(text))
        ]
        self._modules.sort(key=lambda module: -len(module[0]))

    def resolve(self, source: model.FileFacts, written: Import) -> model.Outcome:
        for module, root in self._modules:
            if written.module != module and not written.module.startswith(module + "/"):
                continue
            folder = "/".join(filter(None, (root, written.module[len(module) :].strip("/"))))
            files = self._package(folder)
            return model.Outcome(tuple(map(model.Target, files)), package=True) if files else model.UNRESOLVED
        return model.EXTERNAL

    def visible(self, source: model.FileFacts) -> tuple[str, ...]:
        beside = self._package(source.folder, tests=source.path.endswith("_test.go"))
        return tuple(path for path in beside if self._tree.files[path].packages == source.packages)

    def _package(self, folder: str, *, tests: bool = False) -> tuple[str, ...]:
        files = self._tree.by_folder.get(folder, ())
        return tuple(path for path in files if path.endswith(".go") and (tests or not path.endswith("_test.go")))


LANGUAGES = (
    model.Language(
        name="go",
        extensions=model.words(".go"),
        syntax=model.Syntax(
            grammar="go",
            exported=is_exported,
        ),
        imports=model.ImportRules(
            read=read_import,
            resolver=GoImports,
            bound=lambda written: (local_name(written),),
            by_use=True,
            qualifier=local_name,
            configs=(MANIFEST,),
            manifest=MANIFEST,
            nested_manifest=nested_manifest,
        ),
        names=model.NameRules(
            explicit=True,
            open_types=True,
            imports_show=True,
            outside="all",
        ),
    ),
)
