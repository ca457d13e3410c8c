"""PHP: namespaces, PSR-4, and `require` by path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeinfo.languages import model
from codeinfo.languages.jvm import JvmImports
from codeinfo.languages.tree import Tree, ancestors, joined
from codeinfo.model import Import


def read_import(statement: str, line: int) -> Iterator[Import]:
    text = re.sub(r"^use\s+(?:(?:function|const)\s+)?", "", model.plain(statement))
    prefix, brace, listed = text.partition("{")
    if brace:
        yield from model.grouped(prefix.strip().strip("\\"), line, model.items(listed.rstrip("} ")))
        return
    for module, alias in model.items(text):
        yield Import(module.strip("\\"), line, (), alias)


class PhpImports(JvmImports):
    """Classes by their declared namespace, else by PSR-4; `require` by path."""

    separator = "\\"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._prefixes = sorted(_psr4(tree), key=lambda pair: -len(pair[0]))

    def resolve(self, source: model.FileFacts, written: Import) -> model.Outcome:
        if written.module.endswith((".php", ".inc")) or "/" in written.module:
            return self._required(source, written.module)
        found = self._look(source, written.module, written.names)
        if found:
            return found
        names = written.names or ("",)
        whole = [self.separator.join(filter(None, (written.module, name))) for name in names]
        targets = tuple(model.Target(path) for name in whole if (path := self._by_prefix(name)))
        if targets:
            return model.Outcome(targets)
        own = any(name.startswith(prefix) for name in whole for prefix, _ in self._prefixes)
        return model.UNRESOLVED if own else model.EXTERNAL

    def _by_prefix(self, name: str) -> str | None:
        for prefix, folder in self._prefixes:
            if name.startswith(prefix):
                path = joined(folder, name[len(prefix) :].replace("\\", "/") + ".php")
                if path in self._tree:
                    return path
        return None

    def _required(self, source: model.FileFacts, written: str) -> model.Outcome:
        for folder in ancestors(source.folder):
            path = joined(folder, written)
            if path in self._tree:
                return model.Outcome((model.Target(str(path)),))
        return model.EXTERNAL if "vendor" in written else model.UNRESOLVED


def _psr4(tree: Tree) -> list[tuple[str, str]]:
    pairs = []
    for path in tree.by_name.get("composer.json", ()):
        home, read = path.rpartition("/")[0], tree.config(path)
        for section in ("autoload", "autoload-dev"):
            listed = read.get(section, {})
            table = listed.get("psr-4", {}) if isinstance(listed, dict) else {}
            for prefix, folders in table.items() if isinstance(table, dict) else ():
                for folder in folders if isinstance(folders, list) else [folders]:
                    where = joined(home, str(folder))
                    if where is not None:
                        pairs.append((str(prefix), where))
    return pairs


LANGUAGES = (
    model.Language(
        name="php",
        extensions=model.words(".php .phtml .php5 .php7 .phpt"),
        shebangs=model.words("php"),
        syntax=model.Syntax(
            grammar="php",
            entry="language_php",
            members=("->", "::", "\\"),
            word=r"(?<![\w$])[^\W\d]\w+",  # `$name` is a local variable: never a use of something defined elsewhere
            exported=model.not_private,
            bases=model.bases_behind_words,
        ),
        imports=model.ImportRules(
            read=read_import,
            calls=r"\b(?:require|include)(?:_once)?\b[^;'\"\n]*[\"'](?P<module>[^\"'\n]+)[\"']",
            resolver=PhpImports,
            by_use=True,
            binds_last=True,
            types_only=True,
            deferred="lazy",
            configs=("composer.json",),
        ),
        names=model.NameRules(
            explicit=True,
            imports_show=True,
            outside="types",
            open_traits=True,
            inherited=frozenset({"parent"}),
        ),
    ),
)
