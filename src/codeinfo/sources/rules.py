"""What is left out by default, each with its reason. `.codeinfoignore` brings files back with `!`."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Rule(Struct, frozen=True):
    name: str
    reason: str


_PACKAGES = Rule("vendor-folder", "installed or copied packages of others")
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
_FOLDER_ENDINGS = (".egg-info", ".dSYM", ".xcassets")

# Words that also name ordinary packages: below a folder of sources (`src/main/java/…/build`) they are code.
_AMBIGUOUS = frozenset({"build", "target", "out", "coverage"})
_SOURCE_FOLDERS = frozenset({"src", "internal", "cmd", "pkg"})


def folder_rule(name: str, parents: frozenset[str] | set[str] = frozenset()) -> Rule | None:
    """The rule that leaves out a folder called `name` below folders called `parents`."""
    rule = FOLDERS.get(name)
    if rule is None:
        return _OUTPUT if name.startswith(_FOLDER_STARTS) or name.endswith(_FOLDER_ENDINGS) else None
    if name in _AMBIGUOUS and not _SOURCE_FOLDERS.isdisjoint(parents):
        return None
    return rule


def excluded_folder(folder: str) -> tuple[str, Rule] | None:
    """The topmost folder on the path `folder` that a rule leaves out, and that rule."""
    parents: set[str] = set()
    parts = folder.split("/")
    for depth, part in enumerate(parts):
        if rule := folder_rule(part, parents):
            return "/".join(parts[: depth + 1]), rule
        parents.add(part)
    return None


SECRET = Rule("secret", "a file that usually holds keys or passwords")
_LOCK = Rule("lock-file", "versions pinned by a package manager")
_GENERATED = Rule("generated", "written by a tool, by its name")
_MINIFIED = Rule("minified", "minified, by its name")
_BINARY = Rule("binary", "not text, by its extension")

_LOCK_NAMES = names(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml go.sum go.work.sum bun.lockb packages.lock.json "
    "gradle.lockfile package.resolved cartfile.resolved cabal.project.freeze project.assets.json "
    ".terraform.lock.hcl"
)

# Sets and endings instead of expressions: compiling those would cost each search more than the whole walk does.
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


def _by_extension() -> dict[str, list[tuple[Rule, str]]]:
    found: dict[str, list[tuple[Rule, str]]] = {}
    for rule, endings in ((_MINIFIED, _MINIFIED_ENDINGS), (_GENERATED, _GENERATED_ENDINGS)):
        for ending in endings:
            found.setdefault(ending[ending.rindex(".") :], []).append((rule, ending))
    return found


_ENDINGS = _by_extension()  # few have any: a walk asks of every file


@lru_cache(maxsize=20_000)
def name_rule(name: str) -> Rule | None:
    """The rule that leaves out a file called `name`, wherever it lies."""
    name = name.lower()
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
    return _GENERATED if ".generated." in name else None


def _is_secret(name: str, extension: str) -> bool:
    if extension in _SECRET_EXTENSIONS or name in _SECRET_NAMES or name.startswith(_KEY_COPIES):
        return True
    return name.startswith(".env.") and not name.endswith(_ENV_TEMPLATES)
