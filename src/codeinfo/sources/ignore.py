"""Ignore files in gitignore syntax: parsed by pathspec, with the deciding line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter

from msgspec import Struct

from codeinfo.cache import group_by_key
from codeinfo.files import read_regular
from codeinfo.globs import compile_linear

OVERRIDES_NAME = ".codeinfoignore"
_MAX_BYTES = 1_000_000
_FEW_STARS = 3  # each multiplies the work of a failing match by `re`; a hostile line with twenty would stall for years
_MAX_CHARS = 4096  # of a line: no path is longer
_PLAIN_LINE = re.compile(r"(?P<not>!?)(?P<key>[\w.-]+|\*\.[\w-]+)(?P<folder>/?)[ ]*")


class Pattern(Struct, frozen=True):
    line: int
    text: str
    negated: bool
    folders_only: bool = False
    matches: Callable[[str], object] = bool  # not called for plain names, which are looked up instead


class Match(Struct, frozen=True):
    """The deciding line; `source` is `folder/.gitignore:3`."""

    negated: bool
    source: str
    text: str


class IgnoreFile(Struct, frozen=True):
    """One ignore file; `folder` is relative to the root, "" or ending with a slash. Most lines are `name`, `name/` or
    `*.extension`: a lookup each, which avoids compiling and trying hundreds of expressions for every path. The others
    are expressions by pathspec, tried one by one."""

    folder: str
    name: str
    plain: dict[str, list[Pattern]]
    expressions: tuple[Pattern, ...]  # the last line first
    refused_lines: tuple[int, ...] = ()

    @property
    def has_negation(self) -> bool:
        patterns = [*self.expressions, *(pattern for same in self.plain.values() for pattern in same)]
        return any(pattern.negated for pattern in patterns)

    def match(self, path: str) -> Match | None:
        """The last line that matches `path` (relative to the root; folders end with a slash)."""
        if not path.startswith(self.folder):
            return None
        below = path[len(self.folder) :]
        last = self._last_plain(below)
        for line in self.expressions:
            if last and last.line > line.line:
                break
            if line.matches(below):
                last = line
                break
        return Match(last.negated, f"{self.folder}{self.name}:{last.line}", last.text) if last else None

    def _last_plain(self, path: str) -> Pattern | None:
        """The last plain line that names the path or a folder above it."""
        *folders, name = path.split("/")
        lines = [line for part in folders for line in self._named(part)]
        lines += (line for line in self._named(name) if not line.folders_only)
        return max(lines, key=attrgetter("line"), default=None)

    def _named(self, part: str) -> Sequence[Pattern]:
        dot = part.rfind(".")
        same = self.plain.get(part, ())
        return same if dot < 0 else [*same, *self.plain.get(f"*{part[dot:]}", ())]


def parse(folder: str, name: str, content: str) -> IgnoreFile:
    plain: dict[str, list[Pattern]] = {}
    expressions: list[Pattern] = []
    refused: list[int] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if simple := _PLAIN_LINE.fullmatch(line):
            pattern = Pattern(number, line.strip(), bool(simple["not"]), bool(simple["folder"]))
            plain.setdefault(simple["key"], []).append(pattern)
        elif expression := _expression(line, number):
            expressions.append(expression)
        else:
            refused.append(number)
    return IgnoreFile(folder, name, plain, tuple(reversed(expressions)), tuple(refused))


def _expression(line: str, number: int) -> Pattern | None:
    """None for a line that cannot be parsed, which git never matches either, or that no path is as long as."""
    from pathspec import GitIgnoreSpec

    if len(line) > _MAX_CHARS:
        return None
    try:
        parsed = GitIgnoreSpec.from_lines([line]).patterns[0]
        if (regex := getattr(parsed, "regex", None)) is None:
            return None
        matches = regex.match if line.count("*") <= _FEW_STARS else _match_linearly(regex.pattern)
    except (ValueError, re.error):
        return None
    return Pattern(number, line.strip(), not parsed.include, matches=matches)


def _match_linearly(expression: str) -> Callable[[str], object]:
    """Slower than `re` for most lines. By bytes, since a name need not be UTF-8."""
    compiled = compile_linear(os.fsencode(expression))
    return lambda path: compiled.match(os.fsencode(path))


def load(root: str, folder: str, name: str, read: dict[str, bytes | None] | None = None) -> IgnoreFile | None:
    """The ignore file `name` in `folder`, or None if there is none that may be read."""
    data = content(root, folder + name, read)
    return parse_bytes(folder, name, data) if data is not None else None


def content(root: str, path: str, read: dict[str, bytes | None] | None = None) -> bytes | None:
    """The content of a file that affects others, None if it cannot be read; also recorded in `read`."""
    try:
        data = read_regular(root, path, _MAX_BYTES)
    except OSError:
        data = None
    if read is not None:
        read[path] = data
    return data


def parse_bytes(folder: str, name: str, data: bytes) -> IgnoreFile:
    return parse(folder, name, data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape"))


def decide(files: Sequence[IgnoreFile], path: str) -> Match | None:
    """The match in the deepest file that has one; `files` run from the root downwards."""
    for file in reversed(files):
        if match := file.match(path):
            return match
    return None


class Overrides:
    """The `.codeinfoignore` files of a root. Whole paths are matched, so that `!vendor/ours/` works below `vendor/`."""

    def __init__(self, files: Iterable[IgnoreFile]) -> None:
        self.files = sorted(files, key=lambda file: file.folder.count("/"))
        self.has_negation = any(file.has_negation for file in self.files)

    def decide(self, path: str) -> Match | None:
        return decide(self.files, path)

    def brings_back(self, path: str) -> bool:
        match = self.decide(path)
        return match is not None and match.negated


NO_OVERRIDES = Overrides(())


def overrides_above(root: str, path: str, read: dict[str, IgnoreFile | None]) -> Overrides:
    """The `.codeinfoignore` files that apply to `path`, from the root down to it. `read` caches those of folders."""
    parts = path.split("/")[:-1]
    folders = ["".join(f"{part}/" for part in parts[:depth]) for depth in range(len(parts) + 1)]
    for folder in folders:
        if folder not in read:
            read[folder] = load(root, folder, OVERRIDES_NAME)
    return Overrides(file for folder in folders if (file := read[folder]))


def brings_back_secret(match: Match, path: str) -> bool:
    """A secret is re-included only if a line names it in full: `!certs/` and `!*` do not mean the keys."""
    return match.negated and match.text.lstrip("!").rpartition("/")[2] == path[path.rfind("/") + 1 :]


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Rule(Struct, frozen=True):
    name: str
    reason: str


_PACKAGES = Rule("vendor-folder", "installed or copied third-party packages")
_OUTPUT = Rule("build-folder", "build output")
_CACHE = Rule("cache-folder", "a tool's cache or state")
_CONTROL = Rule("version-control", "a version-control system's own data")

FOLDERS: dict[str, Rule] = {
    name: rule
    for rule, folders in (
        (
            _PACKAGES,
            "node_modules bower_components jspm_packages vendor vendored third_party third-party thirdparty 3rdparty "
            "site-packages .venv venv virtualenv .virtualenv Pods Carthage .bundle .pnpm-store .yarn .cargo elm-stuff "
            ".eggs",
        ),
        (
            _OUTPUT,
            "dist build target out _build __pycache__ .next .nuxt .output .svelte-kit .vercel .netlify .build "
            "DerivedData dist-newstyle .stack-work zig-cache .zig-cache zig-out .dart_tool .gradle .terraform "
            ".serverless .aws-sam coverage htmlcov .nyc_output storybook-static",
        ),
        (
            _CACHE,
            ".cache .tox .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis .ipynb_checkpoints .parcel-cache "
            ".turbo .nx .idea .vs .sass-cache .direnv .angular .docusaurus .elixir_ls .bloop .metals .codeinfo",
        ),
        (_CONTROL, ".git .hg .svn .bzr .jj CVS"),
    )
    for name in folders.split()
}
_FOLDER_STARTS = ("cmake-build-", "bazel-bin", "bazel-out", "bazel-testlogs")
_PACKAGE_FOLDER = re.compile(r"libs?(?:[_-].*)?")  # in ASP.NET's folder of what browsers get
_FOLDER_ENDINGS = (".egg-info", ".dSYM", ".xcassets", ".docset")

# Words that also name ordinary packages: below a source folder (`src/main/java/…/build`) they are code.
_AMBIGUOUS = frozenset({"build", "target", "out", "coverage"})
_SOURCE_FOLDERS = frozenset({"src", "internal", "cmd", "pkg"})


def folder_rule(name: str, parent: str) -> Rule | None:
    if _PACKAGE_FOLDER.fullmatch(name) and parent.rpartition("/")[2] == "wwwroot":
        return _PACKAGES
    if (rule := FOLDERS.get(name)) is None:
        return _OUTPUT if name.startswith(_FOLDER_STARTS) or name.endswith(_FOLDER_ENDINGS) else None
    if name in _AMBIGUOUS and not _SOURCE_FOLDERS.isdisjoint(parent.split("/")):
        return None
    return rule


# What git tracks in folders of these names belongs to the project, unless the files say where they come from; but a
# `vendor` at the root holds copies.
_SHARED_FOLDER = re.compile(r"/(?:build|coverage|dist|out|target|(?<!\0/)vendor)(?=/)")
_MADE_ENDINGS = (".map", ".d.ts", ".class", ".o", ".obj", ".pyc", ".jar", ".whl", ".exe", ".dll", ".so", ".dylib")
_BUNDLE_ENDINGS = (".js", ".mjs", ".cjs", ".css", ".html")
_MADE_NAMES = names("CMakeCache.txt lcov.info clover.xml coverage-final.json")
_MANIFESTS = names("go.mod composer.json Gemfile package.json Cargo.toml pyproject.toml Package.swift")
_LICENSES = ("license", "licence", "copying", "modules.txt", "installed.json")


def own_folders(tracked: Sequence[str]) -> frozenset[str]:
    """The folders among tracked paths that a rule would exclude by a name which people use for their own code too."""
    below: dict[str, list[str]] = {}
    text = "\0/".join(("", *tracked, ""))  # as one text: every search of a huge repository looks at all of its paths
    for match in _SHARED_FOLDER.finditer(text):
        start = text.rindex("\0", 0, match.start() + 1) + 2
        path = text[start : text.index("\0", match.end())]
        below.setdefault(text[start : match.end()], []).append(path[path.rindex("/") + 1 :])
    everything = frozenset(tracked) if below else frozenset()
    return frozenset(folder for folder, files in below.items() if not _is_output_or_copy(folder, files, everything))


def _is_output_or_copy(folder: str, files: Sequence[str], tracked: frozenset[str]) -> bool:
    parent, _, name = folder.rpartition("/")
    if name == "vendor":  # package managers put copies beside their manifest
        is_beside = any(f"{parent}/{manifest}" in tracked for manifest in _MANIFESTS)
        return is_beside or any(file.lower().startswith(_LICENSES) for file in files)
    endings = _MADE_ENDINGS + _BUNDLE_ENDINGS if name == "dist" else _MADE_ENDINGS
    return any(
        file.endswith(endings) or file in _MADE_NAMES or name_rule(file) in (_MINIFIED, _GENERATED) for file in files
    )


def excluded_folder(folder: str) -> tuple[str, Rule] | None:
    """The topmost folder on the path `folder` that a rule excludes, and that rule."""
    parts = folder.split("/")
    for depth, part in enumerate(parts):
        if rule := folder_rule(part, "/".join(parts[:depth])):
            return "/".join(parts[: depth + 1]), rule
    return None


SECRET = Rule("secret", "a file that usually contains keys or passwords")
_LOCK = Rule("lock-file", "versions pinned by a package manager")
_GENERATED = Rule("generated", "written by a tool, by its name")
_MINIFIED = Rule("minified", "minified, by its name")
_BINARY = Rule("binary", "not text, by its extension")

_LOCK_NAMES = names(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml go.sum go.work.sum bun.lockb packages.lock.json "
    "gradle.lockfile package.resolved cartfile.resolved cabal.project.freeze project.assets.json "
    ".terraform.lock.hcl"
)

# Sets and endings instead of expressions: compiling those would cost each search more than the whole walk.
_SECRET_NAMES = names(
    ".htpasswd .netrc _netrc .pgpass .my.cnf .git-credentials .dockercfg .pypirc .vault-token "
    ".envrc .s3cfg .boto id_rsa id_dsa id_ecdsa id_ed25519 credentials secrets.yml secrets.yaml secrets.json "
    "secrets.toml credentials.json credentials.yml credentials.yaml credentials.xml service-account.json "
    "client_secret.json terraform.tfstate.backup"
)
# Public certificates are as useless to a reader as private keys.
_SECRET_EXTENSIONS = names(
    ".env .pem .key .p12 .pfx .p8 .jks .keystore .bks .ppk .gpg .pgp .asc .kdbx .ovpn .crt .cer .der .csr .tfstate "
    ".agekey .jceks"
)
_KEY_COPIES = tuple(f"{key}{mark}" for key in ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519") for mark in ".-")
_ENV_TEMPLATES = (".example", ".sample", ".template", ".dist", ".default", ".defaults", ".schema")
_GENERATED_ENDINGS = names(
    ".pb.go .pb.h .pb.cc .pb.cpp .pb.dart .pb.swift .pb.validate.go _pb2.py _pb2.pyi _pb2_grpc.py _pb2_grpc.pyi _pb.js "
    "_pb.d.ts .g.dart .freezed.dart .gr.dart .mocks.dart .g.cs .designer.cs .designer.vb .snap .ambr .js.map .mjs.map "
    ".cjs.map .css.map .ts.map"
)
_MINIFIED_ENDINGS = names(
    ".min.js .min.mjs .min.cjs .min.css .min.html -min.js -min.mjs -min.cjs -min.css -min.html "
    ".bundle.js .bundle.mjs .bundle.cjs .bundle.css .bundle.html"
)
# What bundlers append: `index-6QP2X9AB.js`, `main.3f2a1b4c.chunk.js`. A date has no letters.
_BUNDLED = re.compile(r"[.-](?=\w*\d)(?=\w*[A-Za-z])(?:[A-Z\d]{8}|[a-f\d]{8,20})(?:\.chunk)?\.(?:js|css)")

BINARY_EXTENSIONS = names(
    ".png .jpg .jpeg .gif .bmp .ico .icns .webp .avif .tif .tiff .psd .ai .eps .svg .svgz .xcf .sketch .fig .heic "
    ".mp3 .mp4 .m4a .m4v .wav .flac .ogg .oga .ogv .webm .avi .mov .mkv .aac .wma .mid "
    ".ttf .otf .woff .woff2 .eot .pfb "
    ".zip .gz .tgz .bz2 .xz .zst .lz4 .br .7z .rar .tar .cab .dmg .iso .deb .rpm .apk .ipa .msi .whl .egg .gem .crate "
    ".jar .war .ear .aar .class .dex .nupkg .pyc .pyo .pyd .so .dll .dylib .exe .bin .o .obj .a .lib .ko .elf .wasm "
    ".pdb .ilk .exp .lo .la .gch .pch .beam .hi .rlib .rmeta .node .dat .db .sqlite .sqlite3 .mdb .rdb .aof .parquet "
    ".arrow .feather .avro .orc .npy .npz .h5 .hdf5 .pkl .pickle .pt .pth .onnx .safetensors .gguf .ckpt .pb .tflite "
    ".pdf .doc .docx .xls .xlsx .ppt .pptx .odt .ods .odp .epub .mobi .rtf .pages .numbers .key "
    ".blend .fbx .glb .stl .dae .unitypackage .uasset .swf .mo .gmo .ds_store .pack .idx .lockb"
)

# By extension: few have any, and a walk checks every file.
_ENDINGS = group_by_key(
    (ending[ending.rindex(".") :], (rule, ending))
    for rule, endings in ((_MINIFIED, _MINIFIED_ENDINGS), (_GENERATED, _GENERATED_ENDINGS))
    for ending in endings
)


@lru_cache(maxsize=20_000)
def name_rule(name: str) -> Rule | None:
    name, written = name.lower(), name
    dot = name.rfind(".")
    extension = name[dot:] if dot >= 0 else ""
    if _is_secret(name, extension):
        return SECRET
    if extension in BINARY_EXTENSIONS:
        return _BINARY
    if extension == ".lock" or name in _LOCK_NAMES:
        return _LOCK
    for rule, ending in _ENDINGS.get(extension, ()):
        if name.endswith(ending):
            return rule
    if extension in (".js", ".css") and _BUNDLED.search(written):
        return _MINIFIED
    return _GENERATED if ".generated." in name else None


def _is_secret(name: str, extension: str) -> bool:
    if extension in _SECRET_EXTENSIONS or name in _SECRET_NAMES or name.startswith(_KEY_COPIES):
        return True
    return name.startswith(".env.") and not name.endswith(_ENV_TEMPLATES)
