"""The candidates of a root: what git lists, or a plain walk that honours `.gitignore` files by itself.

Both apply the ignore files only. Which candidates belong to the index is decided in `walk`.
"""

from __future__ import annotations

import os
import stat

from msgspec import Struct, field

from codeinfo.sources import git, rules
from codeinfo.sources.files import read_regular
from codeinfo.sources.ignore import OVERRIDES_NAME, IgnoreFile, Match, Overrides, decide, load
from codeinfo.types import Skip

IGNORE_FILES = (".gitignore", OVERRIDES_NAME)
_LIST_FILES = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")


class Listing(Struct):
    """`paths` may repeat; a nested repository is one entry with a slash at its end."""

    paths: list[str] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)
    overrides: Overrides | None = None
    by_git: bool = False


def candidates(root: str, *, submodules: bool) -> Listing:
    """Git's view where there is one. A root that git cannot or will not list is walked plainly, and that is said."""
    work_tree = git.work_tree_of(root)
    if work_tree is None:
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
    paths = _split(git.run(root, _LIST_FILES, settings=(excludes,)))
    if submodules:
        paths += _submodule_paths(root, "", excludes)
    overrides = _load_overrides(root, paths)
    if overrides and overrides.has_negation:
        ignored = _split(
            git.run(root, (*_LIST_FILES[:2], "--others", "--ignored", "--exclude-standard"), settings=(excludes,))
        )
        paths += [path for path in ignored if (match := overrides.decide(path)) and match.negated]
    return Listing(paths, [], overrides, by_git=True)


def ignored_by_git(root: str, path: str) -> Match | None:
    """The line of an ignore file that makes git leave out `path`."""
    arguments = ("check-ignore", "--verbose", "-z", "--stdin")
    stdin = b"./%s\0" % os.fsencode(path)  # with "./" a name like ":(top)" is a name
    fields = _split(git.run(root, arguments, settings=(git.excludes_setting(),), stdin=stdin, accept=(0, 1)))
    if len(fields) < 3:
        return None
    source, line, text = fields[:3]
    return Match(text.startswith("!"), f"{source}:{line}", text)


def _split(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


def _load_overrides(root: str, paths: list[str]) -> Overrides | None:
    """Those git lists, and the root's own even when git ignores it."""
    found = {path for path in paths if path.endswith(OVERRIDES_NAME)}
    if os.path.lexists(f"{root}/{OVERRIDES_NAME}"):
        found.add(OVERRIDES_NAME)
    folders = (path.removesuffix(OVERRIDES_NAME) for path in found)
    files = [file for folder in folders if folder[-1:] in ("", "/") and (file := load(root, folder, OVERRIDES_NAME))]
    return Overrides(files) if files else None


def _submodule_paths(root: str, prefix: str, excludes: str) -> list[str]:
    """The files of every submodule that is checked out, submodules of submodules included."""
    paths: list[str] = []
    staged = _split(git.run(f"{root}/{prefix}", ("ls-files", "-z", "--stage"), settings=(excludes,)))
    for entry in staged:
        mode_and_more, _, name = entry.partition("\t")
        folder = prefix + name
        if not mode_and_more.startswith("160000") or not is_real_folder(root, folder):
            continue
        if os.path.lexists(f"{root}/{folder}/.git"):
            listed = _split(git.run(f"{root}/{folder}", _LIST_FILES, settings=(excludes,)))
            paths += [f"{folder}/{path}" for path in listed]
            paths += _submodule_paths(root, f"{folder}/", excludes)
    return paths


def is_real_folder(root: str, folder: str) -> bool:
    """Whether every step from the root to `folder` is a folder itself, not a link to one."""
    at = root
    for part in folder.split("/"):
        at = f"{at}/{part}"
        try:
            if not stat.S_ISDIR(os.lstat(at).st_mode):
                return False
        except OSError:
            return False
    return True


def is_worktree(root: str, folder: str) -> bool:
    """Whether `folder` is a second work tree of some repository: its `.git` is a file that points among worktrees."""
    try:
        return b"/worktrees/" in read_regular(root, f"{folder.rstrip('/')}/.git", 4096)
    except OSError:
        return False


# --- without git ---------------------------------------------------------------------------------------------------


class _Folder(Struct, frozen=True):
    path: str  # "" or ending with a slash
    ignores: tuple[IgnoreFile, ...] = ()
    overrides: tuple[IgnoreFile, ...] = ()
    ignored: bool = False  # left out by a .gitignore, entered only to look for what an override brings back

    @property
    def can_bring_back(self) -> bool:
        return any(file.has_negation for file in self.overrides)


def list_plainly(root: str) -> Listing:
    listing = Listing()
    overrides: list[IgnoreFile] = []
    waiting = [_Folder("")]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(f"{root}/{folder.path}") as found:
                entries = list(found)
        except OSError as error:
            listing.skipped.append(Skip(folder.path or ".", "unreadable", error.strerror or "", matters=True))
            continue
        names = {entry.name for entry in entries}
        if folder.path and ".git" in names and is_worktree(root, folder.path):
            listing.skipped.append(Skip(folder.path, "nested-worktree", "another work tree of a repository"))
            continue
        if not folder.ignored:
            folder = _with_ignore_files(root, folder, names, overrides)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _consider_folder(folder, entry.name, listing, waiting)
            elif not _file_ignored(folder, folder.path + entry.name):
                listing.paths.append(folder.path + entry.name)
    listing.overrides = Overrides(overrides) if overrides else None
    return listing


def _with_ignore_files(root: str, folder: _Folder, names: set[str], overrides: list[IgnoreFile]) -> _Folder:
    ignores, own = folder.ignores, folder.overrides
    if ".gitignore" in names and (file := load(root, folder.path, ".gitignore")):
        ignores = (*ignores, file)
    if OVERRIDES_NAME in names and (file := load(root, folder.path, OVERRIDES_NAME)):
        own = (*own, file)
        overrides.append(file)
    return _Folder(folder.path, ignores, own, folder.ignored)


def _consider_folder(folder: _Folder, name: str, listing: Listing, waiting: list[_Folder]) -> None:
    path = f"{folder.path}{name}/"
    if name == ".git":
        return
    ignored = folder.ignored or _excludes(decide(folder.ignores, path))
    if not folder.can_bring_back:
        if rule := rules.folder_rule(name, set(folder.path.split("/"))):
            listing.skipped.append(Skip(path, rule.name, rule.reason))
            return
        for files, rule_name in ((folder.overrides, "codeinfoignore"), (folder.ignores, "gitignore")):
            match = decide(files, path)
            if match and not match.negated:
                listing.skipped.append(Skip(path, rule_name, f"{match.source}: {match.text}"))
                return
    waiting.append(_Folder(path, folder.ignores, folder.overrides, ignored))


def _excludes(match: Match | None) -> bool:
    return match is not None and not match.negated


def _file_ignored(folder: _Folder, path: str) -> bool:
    if not folder.ignored and not _excludes(decide(folder.ignores, path)):
        return False
    override = decide(folder.overrides, path)
    return override is None or not override.negated


def ignored_plainly(root: str, path: str) -> Match | None:
    """The line of a `.gitignore` that leaves out `path` or a folder above it."""
    ignores: list[IgnoreFile] = []
    folder = ""
    for part in path.rstrip("/").split("/"):
        if file := load(root, folder, ".gitignore"):
            ignores.append(file)
        step = f"{folder}{part}"
        folder = f"{step}/"
        match = decide(ignores, step if step == path else folder)
        if match and not match.negated:
            return match
    return None
