"""C and C++: an include names a path from the including file or from an include folder, which nothing here lists."""

from __future__ import annotations

from codeinfo.languages.tree import EXTERNAL, UNRESOLVED, FileFacts, Outcome, Target, Tree, joined, nearest
from codeinfo.model import Import

# Headers of the C library and of POSIX: an own file of this name is meant only by a quoted include beside it.
_STANDARD = frozenset(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic "
    "stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype unistd fcntl strings "
    "dirent dlfcn fnmatch ftw glob grp iconv langinfo libgen netdb poll pthread pwd regex sched semaphore spawn syslog "
    "termios utime windows".split()
)
_SYSTEM_FOLDERS = ("sys/", "net/", "netinet/", "arpa/", "linux/", "asm/", "bits/", "mach/")


class CIncludes:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def visible(self, source: FileFacts) -> tuple[str, ...]:
        return ()

    def resolve(self, source: FileFacts, written: Import) -> Outcome:
        system = written.module.startswith("<")
        name = written.module.strip("<>")
        beside = joined(source.folder, name)
        if not system and beside in self._tree:
            return Outcome((Target(str(beside)),))
        if name.removesuffix(".h") in _STANDARD or (system and ("." not in name or name.startswith(_SYSTEM_FOLDERS))):
            return EXTERNAL
        plain = "/".join(part for part in name.split("/") if part not in ("..", ".", ""))
        found = self._tree.having(plain) or tuple(path for path in self._tree.from_above(plain) if path in self._tree)
        if not found:
            return EXTERNAL if system or "/" in name else UNRESOLVED
        if system and len(found) > 1:  # who means the one beside writes quotes
            found = tuple(path for path in found if path != beside)
        chosen = found[0] if len(found) == 1 else nearest(found, source.folder) or _from_include_folder(found, plain)
        return Outcome((Target(chosen),)) if chosen else UNRESOLVED


def _from_include_folder(found: tuple[str, ...], name: str) -> str | None:
    """The one that lies directly in a folder called `include`, as public headers do."""
    public = [path for path in found if path.removesuffix(name).rstrip("/").rpartition("/")[2] == "include"]
    return public[0] if len(public) == 1 else None
