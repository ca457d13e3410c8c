"""Which files belong to the index of a root, and why.

    walk   every file of a root, sorted, and what was left out
    walk_from   the same, from an earlier walk: names are checked again only if one has changed
    rewalk   the same, after some of these files were written
    why    the rule that decided about one path

Precedence: `.codeinfoignore` (both ways), then the default rules, then git's ignore files; what cannot be read safely
(links, special files) or sensibly (too large) stays out whatever an ignore file says.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from posixpath import dirname

from msgspec import Struct, field
from msgspec.structs import replace

from codeinfo.files import resolve_links, resolve_root, state_of
from codeinfo.languages import kind_of, language_of, language_of_text
from codeinfo.model import UNREADABLE, FileKind, Skip, SourceFile, Walk, source_file
from codeinfo.sources import git, ignore
from codeinfo.sources.ignore import NO_OVERRIDES, OVERRIDES_NAME, IgnoreFile, Match, Overrides
from codeinfo.sources.read import FolderFiles, Loaded, read_text


class WalkSettings(Struct, frozen=True):
    max_file_bytes: int = 1_000_000
    submodules: bool = False
    documents: bool = False  # only documents, including those that must be converted


MAX_UNKNOWN_BYTES = 100_000  # text of an unknown type: notes and scripts are small, data dumps are not
MOST_FOLDERS = 200  # around a file: what goes through them one by one may call itself for each
MOST_PATH_BYTES = 2000  # a team's database has paths in indexes, whose rows have 2,704 bytes at most
NEEDS_LIBRARY = "needs-library"  # the rule for files that only an extra of the package can read


class Decision(Struct, frozen=True):
    """`rule` decided; `source` is its location: `.gitignore:3`, a setting, or the built-in rules."""

    included: bool
    rule: str
    detail: str
    source: str


DEFAULTS = WalkSettings()


def walk(root: Path, settings: WalkSettings = DEFAULTS) -> Walk:
    base = resolve_root(root)
    listing = candidates(base, submodules=settings.submodules)
    return filter_all(listing, FileFilter(base, settings, listing))


def filter_all(listing: Listing, filters: FileFilter) -> Walk:
    passed, skipped = _filter_names(listing, filters)
    return Walk(*_filter_states(passed, skipped, filters))


def _filter_names(listing: Listing, filters: FileFilter) -> tuple[list[str], list[Skip]]:
    """The candidates whose file states decide, and what was left out before that."""
    passed: list[str] = []
    skipped = {skip.path: skip for skip in listing.skipped}
    for path in dict.fromkeys(sorted(listing.paths)):  # git sorts them, and a set would not
        if (skip := filters.check_name(path)) is None:
            passed.append(path)
        else:
            skipped[skip.path] = skip
    for file in listing.overrides.files:
        path = f"{file.folder}{file.name}"
        for line in file.refused_lines:
            skipped[path] = Skip(path, "ignore-line", f"line {line} was not understood", matters=True)
    return passed, list(skipped.values())


def _filter_states(
    paths: Iterable[str], skipped: Iterable[Skip], filters: FileFilter
) -> tuple[tuple[SourceFile, ...], tuple[Skip, ...]]:
    """The candidates by their file states, besides what was `skipped` before."""
    results = list(map(filters.check_status, paths))
    files = sorted(result for result in results if isinstance(result, SourceFile))
    left_out = {skip.path: skip for skip in skipped}
    for skip in sorted((result for result in results if isinstance(result, Skip)), key=_path_of):
        left_out.setdefault(skip.path, skip)
    return tuple(files), tuple(left_out.values())


class Memo(Struct, array_like=True):
    """What a walk found by names, and everything it depends on. File states are never taken from it, only compared."""

    rules: str  # the settings and the code that decided
    digest: str  # of git's list; "" if the folders themselves were listed
    folders: dict[str, list[str]]  # the listed folders with their names, or those of git's list
    read: dict[str, bytes | None]  # contents of ignore files and the like
    skipped: list[Skip]
    files: tuple[SourceFile, ...]
    others: list[str]  # candidates whose file states exclude them
    indexed_as: str = ""  # the state of the index that has exactly these files


class KnownWalk(Walk, frozen=True):
    """A walk the next one can start from."""

    memo: Memo


def walk_from(memo: Memo | None, root: Path, settings: WalkSettings = DEFAULTS) -> Walk:
    """What `walk` would find now. If all names and ignore files equal those of `memo`, only file states are checked."""
    base = resolve_root(root)
    rules, filters = _rules(settings), FileFilter(base, settings)
    earlier = memo if memo is not None and memo.rules == rules else None
    is_plain = git.work_tree_of(base) is None
    if earlier is None or not is_plain or not _is_listed_alike(base, earlier):
        listing = candidates(base, submodules=settings.submodules)
        names = os.fsencode("\0".join((*listing.paths, "", *sorted(listing.own_folders))))
        digest = hashlib.sha256(names).hexdigest() if listing.by_git else ""
        if earlier is None or not digest or not _is_git_alike(base, earlier, digest, listing.read):
            filters = FileFilter(base, settings, listing)
            passed, skipped = _filter_names(listing, filters)
            folders = filters.real_folders() if digest else listing.folders if is_plain else None
            if folders is None:
                return Walk(*_filter_states(passed, skipped, filters))
            earlier = Memo(rules, digest, folders, listing.read, skipped, (), passed)
    paths = [*map(_path_of, earlier.files), *earlier.others]
    files, left_out = _filter_states(paths, earlier.skipped, filters)
    if files != earlier.files:
        others = sorted(set(paths).difference(map(_path_of, files)))
        earlier = replace(earlier, files=files, others=others, indexed_as="")
    return KnownWalk(files, left_out, earlier)


def _rules(settings: WalkSettings) -> str:
    """Changes with whatever decides about names: after an upgrade all of them are checked again."""
    return repr((settings, [os.stat(module).st_mtime_ns for module in (__file__, ignore.__file__)]))


def _is_listed_alike(root: str, memo: Memo) -> bool:
    """Whether each folder listed by a plain walk has the same names in it, and each file it read the same content."""
    if memo.digest:
        return False
    try:
        same = all(_names_in(f"{root}/{folder}") == names for folder, names in memo.folders.items())
    except OSError:
        return False
    return same and all(ignore.content(root, path) == data for path, data in memo.read.items())


def _is_git_alike(root: str, memo: Memo, digest: str, read: Mapping[str, bytes | None]) -> bool:
    """Whether git lists the same paths, including our own files, and none leads through a link now."""
    return (
        memo.digest == digest and memo.read == read and all(_is_folder(f"{root}/{folder}") for folder in memo.folders)
    )


def rewalk(root: Path, before: Walk, changed: Mapping[str, bool], settings: WalkSettings = DEFAULTS) -> Walk | None:
    """What `walk` would find now, from the changed files alone; None if that is not enough. Each comes with whether it
    may have been created or deleted: a new file has to pass rules that only git knows."""
    files, filters = list(before.files), FileFilter(str(root), settings)
    for path, is_new in changed.items():
        if path.rpartition("/")[2] in IGNORE_FILES:
            return None
        at = bisect_left(files, path, key=_path_of)
        if at < len(files) and files[at].path == path:
            result = filters.check_status(path)
            if not isinstance(result, SourceFile):
                return None
            files[at] = result
        elif any(skip.path == path for skip in before.skipped) or (is_new and os.path.lexists(f"{root}/{path}")):
            return None
    return Walk(tuple(files), before.skipped)


_path_of = attrgetter("path")

_READABLE = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH  # by anybody


def is_too_deep(path: str) -> bool:
    return path.count("/") > MOST_FOLDERS or len(path.encode("utf-8", "surrogatepass")) > MOST_PATH_BYTES


class FileFilter:
    """Decides about candidates one by one; remembers what it learned about their folders."""

    def __init__(self, root: str, settings: WalkSettings, listing: Listing | None = None) -> None:
        self._root = root
        self._settings = settings
        self._small_bytes = min(MAX_UNKNOWN_BYTES, settings.max_file_bytes)  # any text this small is accepted
        self._overrides = listing.overrides if listing else NO_OVERRIDES
        self._own_folders = listing.own_folders if listing else frozenset()
        self._folders: dict[str, tuple[Skip | None, Skip | None]] = {"": (None, None)}

    def check(self, path: str) -> SourceFile | Skip:
        return self.check_name(path) or self.check_status(path)

    def check_name(self, path: str) -> Skip | None:
        """None if only its file state can tell."""
        folder, _, name = path.rpartition("/")
        if not name:
            return None
        if is_too_deep(path):
            why = f"in more than {MOST_FOLDERS} folders, or its path has more than {MOST_PATH_BYTES:,} bytes"
            return Skip(path, "too-deep", why, matters=True)
        match = self._overrides.decide(path)
        if match and not match.negated:
            return Skip(path, "codeinfoignore", f"{match.source}: {match.text}")
        link, left_out = self._folders.get(folder) or self.check_folder(folder)
        if link:
            return link
        if left_out and not match:
            return left_out
        rule = ignore.name_rule(name)
        if rule and self._applies(rule, path, match):
            return Skip(path, rule.name, rule.reason)
        return None

    def _applies(self, rule: ignore.Rule, path: str, match: Match | None) -> bool:
        if rule is ignore.SECRET:
            return match is None or not ignore.brings_back_secret(match, path)
        if self._settings.documents and rule.name == "binary":
            return False  # whether it can be converted is decided later
        return match is None

    def check_folder(self, folder: str) -> tuple[Skip | None, Skip | None]:
        """A link among the folders, and the topmost folder that a default rule excludes."""
        is_next = dirname(folder) in self._folders  # as for most, in the order of paths
        # No recursion: a hostile path may be deep.
        for above in (folder,) if is_next else accumulate(folder.split("/"), "{}/{}".format):
            if above in self._folders:
                continue
            parent, _, name = above.rpartition("/")
            link, left_out = self._folders[parent]
            if link or not self.is_real_folder(above):
                link = Skip(above + "/", "symlink", "reached through a link, or gone")
            if not left_out and (rule := ignore.folder_rule(name, parent)) and above not in self._own_folders:
                left_out = Skip(above + "/", rule.name, rule.reason)
            self._folders[above] = link, left_out
        return self._folders[folder]

    def is_real_folder(self, folder: str) -> bool:
        """Whether it is a folder itself, not a link to one; those above it are known to be."""
        return _is_folder(f"{self._root}/{folder}")

    def real_folders(self) -> dict[str, list[str]] | None:
        """The folders of what was checked; None if a link is among them."""
        if any(link for link, _ in self._folders.values()):
            return None
        return {folder: [] for folder in self._folders if folder}

    def check_status(self, path: str) -> SourceFile | Skip:
        try:
            status = os.lstat(f"{self._root}/{path}")
        except FileNotFoundError:
            return Skip(path, "missing", "listed by git, but not in the work tree")
        except OSError as error:
            return Skip(path, UNREADABLE, error.strerror or "", matters=True)
        if not stat.S_ISREG(status.st_mode):
            return self._not_a_file(path, status.st_mode)
        if not status.st_mode & _READABLE and not os.access(f"{self._root}/{path}", os.R_OK):
            return Skip(path, UNREADABLE, os.strerror(errno.EACCES), matters=True)
        if self._settings.documents:
            return check_document(path, status, self._settings.max_file_bytes)
        return self.check_size(path, *state_of(status))

    def check_size(self, path: str, size: int, mtime_ns: int) -> SourceFile | Skip:
        if size > self._small_bytes:
            language = language_of(path)
            if size > self._settings.max_file_bytes:
                is_data = language is None or language.kind is FileKind.CONFIG
                return too_large(path, size, self._settings.max_file_bytes, matters=not is_data)
            if language is None:
                return Skip(path, "unknown-type", f"{size:,} bytes of an unknown type")
        return source_file((path, size, mtime_ns))

    def _not_a_file(self, path: str, mode: int) -> Skip:
        if stat.S_ISLNK(mode):
            target = resolve_links(f"{self._root}/{path}")
            if target != self._root and not target.startswith(self._root.rstrip("/") + "/"):
                return Skip(path, "symlink", "its target is outside the root")
            there = "belongs to the project itself" if os.path.exists(target) else "does not exist"
            return Skip(path, "symlink", f"its target {there}")
        if path.endswith("/"):  # how git lists a nested repository
            if is_worktree(self._root, path):
                return Skip(path, "nested-worktree", "another work tree of a repository")
            return Skip(path, "nested-repository", "a separate repository: index it on its own")
        if stat.S_ISDIR(mode):
            return Skip(path + "/", "submodule", "submodules are not indexed, or this one is not checked out")
        return Skip(path, "special-file", "a FIFO, device or socket")


def too_large(path: str, size: int, most: int, *, matters: bool = True) -> Skip:
    return Skip(path, "too-large", f"{size:,} bytes, and the limit is {most:,}", matters=matters)


def check_document(path: str, status: os.stat_result, max_bytes: int) -> SourceFile | Skip:
    from codeinfo.sources.documents import document_language, missing_library

    if not document_language(path):
        return Skip(path, "not-a-document", "of no format that documents have")
    if status.st_size > max_bytes:
        return too_large(path, status.st_size, max_bytes)
    if command := missing_library(path):
        return Skip(path, NEEDS_LIBRARY, f"to read it, install what is missing: {command}", matters=True)
    return SourceFile(path, *state_of(status))


# --- why -----------------------------------------------------------------------------------------------------------

_SETTING_OF_RULE = {"too-large": "setting index.max_file_bytes", "submodule": "setting index.submodules"}
_BUILT_IN = "built-in rules"


def why(root: Path, path: str, settings: WalkSettings = DEFAULTS) -> Decision:
    """Decided by the same steps as `walk`, then by the content if it matters."""
    base = resolve_root(root)
    relative = os.path.relpath(os.path.join(base, path), base).replace(os.sep, "/")
    if relative == ".." or relative.startswith("../"):
        return Decision(False, "outside-root", f"not below {base}", _BUILT_IN)
    listing = candidates(base, submodules=settings.submodules)
    filters = FileFilter(base, settings, listing)
    if relative not in listing.paths:
        return _why_not_listed(base, relative, listing, filters)
    result = filters.check(relative)
    match = listing.overrides.decide(relative)
    if isinstance(result, Skip):
        source = match.source if match and not match.negated else _SETTING_OF_RULE.get(result.rule, _BUILT_IN)
        return Decision(False, result.rule, result.detail, source)
    return _by_content(base, result, match, listing.by_git)


def _by_content(root: str, file: SourceFile, match: Match | None, by_git: bool) -> Decision:
    text = read_text(FolderFiles(Path(root)), file)
    if isinstance(text, Skip):
        return Decision(False, text.rule, text.detail, "its content")
    language = language_of_text(file.path, text.content)
    detail = f"{language.name if language else 'text of an unknown type'}, {kind_of(file.path, language).value}"
    if match:
        return Decision(True, "codeinfoignore", f"{detail}; included again by {match.text}", match.source)
    return Decision(True, "included", detail, "git lists it" if by_git else "plain walk, no rule against it")


def _why_not_listed(root: str, path: str, listing: Listing, filters: FileFilter) -> Decision:
    if path == "." or any(listed.startswith(f"{path}/") and listed != f"{path}/" for listed in listing.paths):
        return _why_folder(path, filters)
    if not os.path.lexists(f"{root}/{path}"):
        return Decision(False, "missing", "there is no such file", _BUILT_IN)
    folders = [path[:at] for at, character in enumerate(path) if character == "/"]
    for folder in [*folders, path]:
        if f"{folder}/" in listing.paths:
            skip = filters.check(f"{folder}/")
            if isinstance(skip, Skip):
                return Decision(False, skip.rule, skip.detail, _BUILT_IN)
            return _why_folder(path, filters)
        for skip in listing.skipped:
            if skip.path == f"{folder}/" and skip.rule not in ("gitignore", "codeinfoignore"):
                return Decision(False, skip.rule, skip.detail, _BUILT_IN)
        if os.path.islink(f"{root}/{folder}"):
            return Decision(False, "symlink", f"{folder} is a link", _BUILT_IN)
        if folder != path and folder in listing.paths:
            return Decision(False, "submodule", f"{folder} is a submodule", _SETTING_OF_RULE["submodule"])
    result = filters.check(path)
    if isinstance(result, Skip) and result.rule == "special-file":  # git does not list them at all
        return Decision(False, result.rule, result.detail, _BUILT_IN)
    override = listing.overrides.decide(path)
    if override and not override.negated:
        return Decision(False, "codeinfoignore", override.text, override.source)
    if match := find_git_rule(root, path) if listing.by_git else find_plain_rule(root, path):
        return Decision(False, "gitignore", match.text, match.source)
    return Decision(False, "not-listed", "an empty folder, or git's own data", _BUILT_IN)


def _why_folder(path: str, filters: FileFilter) -> Decision:
    if path != "." and (left_out := filters.check_folder(path)[1]):
        return Decision(False, left_out.rule, left_out.detail, _BUILT_IN)
    return Decision(True, "included", "a folder; its files are decided one by one", _BUILT_IN)


IGNORE_FILES = (".gitignore", OVERRIDES_NAME)
_LIST_FILES = ("ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard")


class Listing(Struct):
    """`paths` may repeat; a nested repository is one entry with a trailing slash."""

    paths: list[str] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)
    overrides: Overrides = NO_OVERRIDES
    by_git: bool = False
    read: dict[str, bytes | None] = field(default_factory=dict)  # contents that affect the decision
    folders: dict[str, list[str]] | None = None  # with the names in them, without git
    own_folders: frozenset[str] = frozenset()  # tracked by git, although their names mean output or copies elsewhere


def candidates(root: str, *, submodules: bool) -> Listing:
    """Git's view if there is one. A root that git cannot or will not list is walked plainly, and reported."""
    if (work_tree := git.work_tree_of(root)) is None:
        return list_plainly(root)
    try:
        listing = list_by_git(root, submodules=submodules)
    except git.GitFailed as error:
        note = Skip(".", "git-unavailable", f"{error.what}: walked without git", matters=True)
    else:
        if listing.paths or work_tree == root:
            return listing
        note = Skip(".", "git-ignored-root", f"the repository at {work_tree} ignores this folder: walked without git")
    listing = list_plainly(root)
    listing.skipped.insert(0, note)
    return listing


# --- git -----------------------------------------------------------------------------------------------------------


def list_by_git(root: str, *, submodules: bool) -> Listing:
    excludes = git.excludes_setting()
    entries = _split(git.run(root, _LIST_FILES, settings=(excludes,)))
    paths = [entry[2:] for entry in entries]
    own_folders = ignore.own_folders([entry[2:] for entry in entries if not entry.startswith("?")])
    if submodules:
        paths += _submodule_paths(root, "", excludes)
    read: dict[str, bytes | None] = {}
    overrides = _load_overrides(root, paths, read)
    if overrides.has_negation:
        only_ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
        paths += filter(overrides.brings_back, _split(git.run(root, only_ignored, settings=(excludes,))))
    return Listing(paths, [], overrides, by_git=True, read=read, own_folders=own_folders)


def own_folders(root: str) -> frozenset[str]:
    """As in `Listing`; none without git."""
    with suppress(git.GitFailed):
        if git.work_tree_of(root) is not None:
            return list_by_git(root, submodules=False).own_folders
    return frozenset()


def find_git_rule(root: str, path: str) -> Match | None:
    """The line of an ignore file that makes git exclude `path`."""
    arguments = ("check-ignore", "--verbose", "-z", "--stdin")
    stdin = b"./%s\0" % os.fsencode(path)  # with "./" a name like ":(top)" is a name
    fields = _split(git.run(root, arguments, settings=(git.excludes_setting(),), stdin=stdin, accept=(0, 1)))
    if len(fields) < 3:
        return None
    source, line, text = fields[:3]
    return Match(text.startswith("!"), f"{source}:{line}", text)


def _split(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


def _load_overrides(root: str, paths: list[str], read: dict[str, bytes | None]) -> Overrides:
    """Those git lists, and the root's own even if git ignores it."""
    names = {path for path in paths if path.endswith(OVERRIDES_NAME)}
    if os.path.lexists(f"{root}/{OVERRIDES_NAME}"):
        names.add(OVERRIDES_NAME)
    folders = (path.removesuffix(OVERRIDES_NAME) for path in names)
    named = (folder for folder in folders if folder[-1:] in ("", "/"))
    return Overrides(file for folder in named if (file := ignore.load(root, folder, OVERRIDES_NAME, read)))


def _submodule_paths(root: str, prefix: str, excludes: str) -> list[str]:
    """The files of every submodule that is checked out, including nested ones."""
    paths: list[str] = []
    staged = _split(git.run(f"{root}/{prefix}", ("ls-files", "-z", "--stage"), settings=(excludes,)))
    for entry in staged:
        mode_and_more, _, name = entry.partition("\t")
        folder = prefix + name
        if not mode_and_more.startswith("160000") or not is_real_folder(root, folder):
            continue
        if os.path.lexists(f"{root}/{folder}/.git"):
            entries = _split(git.run(f"{root}/{folder}", _LIST_FILES, settings=(excludes,)))
            paths += [f"{folder}/{entry[2:]}" for entry in entries]
            paths += _submodule_paths(root, f"{folder}/", excludes)
    return paths


def is_real_folder(root: str, folder: str) -> bool:
    """Whether every step from the root to `folder` is a real folder, not a link to one."""
    return all(map(_is_folder, accumulate(folder.split("/"), "{}/{}".format, initial=root)))


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_worktree(root: str, folder: str, read: dict[str, bytes | None] | None = None) -> bool:
    """Whether `folder` is a linked work tree of some repository: its `.git` is a file that points to `worktrees`."""
    return b"/worktrees/" in (ignore.content(root, f"{folder.rstrip('/')}/.git", read) or b"")


# --- without git ---------------------------------------------------------------------------------------------------


class _Folder(Struct, frozen=True):
    path: str  # "" or ending with a slash
    ignores: tuple[IgnoreFile, ...] = ()
    overrides: tuple[IgnoreFile, ...] = ()
    ignored: bool = False  # excluded by a .gitignore, entered only to look for what an override re-includes


def list_plainly(root: str) -> Listing:
    listing, folders, overrides = Listing(), dict[str, list[str]](), list[IgnoreFile]()
    listing.folders = folders
    waiting = [_Folder("")]
    while waiting:
        folder = waiting.pop()
        try:
            names = _names_in(f"{root}/{folder.path}")
        except OSError as error:
            listing.skipped.append(Skip(folder.path or ".", UNREADABLE, error.strerror or "", matters=True))
            listing.folders = None
            continue
        folders[folder.path] = names
        if folder.path and ".git" in names and is_worktree(root, folder.path, listing.read):
            listing.skipped.append(Skip(folder.path, "nested-worktree", "another work tree of a repository"))
            continue
        if not folder.ignored:
            folder = _with_ignore_files(root, folder, names, overrides, listing.read)
        for name in names:
            if name.endswith("/"):
                _consider_folder(folder, name[:-1], listing, waiting)
            elif not _is_ignored(folder, folder.path + name):
                listing.paths.append(folder.path + name)
    listing.overrides = Overrides(overrides)
    return listing


def _names_in(folder: str) -> list[str]:
    """The names in a folder, in file system order; folders end with a slash."""
    with os.scandir(folder) as entries:
        return [f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries]


def _with_ignore_files(
    root: str, folder: _Folder, names: list[str], overrides: list[IgnoreFile], read: dict[str, bytes | None]
) -> _Folder:
    ignores, overriding = folder.ignores, folder.overrides
    if ".gitignore" in names and (file := ignore.load(root, folder.path, ".gitignore", read)):
        ignores = (*ignores, file)
    if OVERRIDES_NAME in names and (file := ignore.load(root, folder.path, OVERRIDES_NAME, read)):
        overriding = (*overriding, file)
        overrides.append(file)
    return _Folder(folder.path, ignores, overriding, folder.ignored)


def _consider_folder(folder: _Folder, name: str, listing: Listing, waiting: list[_Folder]) -> None:
    path = f"{folder.path}{name}/"
    if name == ".git":
        return
    ignored = folder.ignored or _excludes(ignore.decide(folder.ignores, path))
    if not any(file.has_negation for file in folder.overrides):  # otherwise something below may be brought back
        if rule := ignore.folder_rule(name, folder.path):
            listing.skipped.append(Skip(path, rule.name, rule.reason))
            return
        for files, rule_name in ((folder.overrides, "codeinfoignore"), (folder.ignores, "gitignore")):
            match = ignore.decide(files, path)
            if match and not match.negated:
                listing.skipped.append(Skip(path, rule_name, f"{match.source}: {match.text}"))
                return
    waiting.append(_Folder(path, folder.ignores, folder.overrides, ignored))


def _excludes(match: Match | None) -> bool:
    return match is not None and not match.negated


def _is_ignored(folder: _Folder, path: str) -> bool:
    if not folder.ignored and not _excludes(ignore.decide(folder.ignores, path)):
        return False
    override = ignore.decide(folder.overrides, path)
    return override is None or not override.negated


def find_plain_rule(root: str, path: str) -> Match | None:
    """The line of a `.gitignore` that excludes `path` or a folder above it."""
    ignores: list[IgnoreFile] = []
    folder = ""
    for part in path.rstrip("/").split("/"):
        if file := ignore.load(root, folder, ".gitignore"):
            ignores.append(file)
        step = f"{folder}{part}"
        folder = f"{step}/"
        match = ignore.decide(ignores, step if step == path else folder)
        if match and not match.negated:
            return match
    return None


# --- the files of a commit -------------------------------------------------------------------------------------------
# Read from git's objects: nothing is checked out, and the rules are those of `walk`. Git's ignore files do not apply,
# since what they exclude is not committed; `.codeinfoignore` is taken from the commit.

LACKING = "not-in-clone"  # the rule for files that a shallow or partial clone does not have
_LINK, _SUBMODULE = "120000", "160000"


class RevisionFiles:
    """Lists a commit once, and loads contents."""

    exact = True

    def __init__(self, root: Path, commit: str) -> None:
        self.root = root
        self.commit = commit
        self._walked: tuple[WalkSettings, Walk] | None = None

    @cached_property
    def blobs(self) -> dict[str, git.Blob]:
        try:
            return {blob.path: blob for blob in git.list_commit(self.root, self.commit)}
        except git.GitFailed as error:
            step = "Fetch what is missing: `git fetch --refetch`, or `--unshallow` for a shallow clone"
            raise git.GitFailed(f"this clone cannot list {self.commit[:12]}: {error.what}", step) from error

    @cached_property
    def overrides(self) -> Overrides:
        named = [blob for blob in self.blobs.values() if blob.path.rpartition("/")[2] == OVERRIDES_NAME]
        return Overrides(
            ignore.parse_bytes(blob.path.removesuffix(OVERRIDES_NAME), OVERRIDES_NAME, data)
            for blob, data in git.read_blobs(self.root, named)
            if data is not None
        )

    def walk(self, settings: WalkSettings) -> Walk:
        """The same each time: a commit does not change."""
        if self._walked is None or self._walked[0] != settings:
            paths = list(self.blobs)
            listing = Listing(paths, overrides=self.overrides, by_git=True, own_folders=ignore.own_folders(paths))
            self._walked = settings, filter_all(listing, _RevisionFilter(self, settings, listing))
        return self._walked[1]

    @contextmanager
    def open(self, paths: Iterable[str]) -> Iterator[RevisionReader]:
        yield RevisionReader(self.root, [self.blobs[path] for path in paths])

    def find(self, path: str) -> SourceFile | None:
        blob = self.blobs.get(path)
        return _source(blob, blob.size) if blob and blob.mode in git.REGULAR and blob.size is not None else None

    def load(self, files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, Loaded | Skip]]:
        sources = {file.path: file for file in files}
        blobs = (self.blobs[path] for path in sources if path in self.blobs)
        for blob, data in git.read_blobs(self.root, blobs):
            if data is None:
                yield sources[blob.path], _skip_lacking(blob.path)
            else:
                yield sources[blob.path], Loaded(data, hashlib.sha256(data).hexdigest())

    def brings_back(self, path: str) -> bool:
        return self.overrides.brings_back(path)


class RevisionReader:
    """Reads files in the given order, some at a time."""

    def __init__(self, root: Path, blobs: list[git.Blob]) -> None:
        self._stream = git.read_blobs(root, blobs)

    def read(self, path: str, limit: int) -> bytes:
        data = next((data for blob, data in self._stream if blob.path == path), None)
        if data is None or len(data) > limit:
            raise OSError(errno.ENOENT if data is None else errno.EFBIG, path)
        return data


class _RevisionFilter(FileFilter):
    def __init__(self, files: RevisionFiles, settings: WalkSettings, listing: Listing) -> None:
        super().__init__(str(files.root), settings, listing)
        self._blobs = files.blobs

    def is_real_folder(self, folder: str) -> bool:
        return True  # git cannot store anything below a link

    def check_status(self, path: str) -> SourceFile | Skip:
        blob = self._blobs[path]
        if blob.mode == _LINK:
            return Skip(path, "symlink", "a link")
        if blob.mode == _SUBMODULE:
            return Skip(f"{path}/", "submodule", "a repository of its own, which is not checked out")
        if blob.size is None:
            return _skip_lacking(path)
        return self.check_size(*_source(blob, blob.size))


def _source(blob: git.Blob, size: int) -> SourceFile:
    return SourceFile(blob.path, size, git.blob_number(blob.id))


def _skip_lacking(path: str) -> Skip:
    return Skip(path, LACKING, "this clone does not have its content", matters=True)
