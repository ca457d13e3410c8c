"""Debian, npm and PyPI: which packages there are, and one package with its licence and archive.

Hosts come from the configuration of the package managers on the machine; none is named here.
"""

from __future__ import annotations

import io
import json
import lzma
import random
import re
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import urljoin

import licences
import requests
from msgspec import Struct
from names import excluded

SEED = 20
# Packages that may give more than others, and the one language read of them.
LARGE = {
    "kotlin": "kotlin", "gradle-kotlin-dsl": "kotlin", "scala": "scala", "scala-pickling": "scala", "mono": "csharp",
    "swiftlang": "swift", "elixir-lang": "elixir", "ziglang": "zig",
}  # fmt: skip
# Of a package with several licences only the part under the named one is read.
PARTS = {"mono": ("MIT", re.compile(r"(mcs/class|external/corefx)/"))}
MAX_ARCHIVE = {"source": 9_000_000, "binary": 3_000_000, "npm": 4_000_000, "pypi": 12_000_000}


class Package(Struct, frozen=True):
    name: str
    version: str
    licence: str
    archive: bytes
    filename: str


_local = threading.local()


def fetch(url: str, limit: int) -> bytes | None:
    session = getattr(_local, "session", None)
    if session is None:
        session = _local.session = requests.Session()
    try:
        with session.get(url, timeout=30, stream=True) as reply:
            if reply.status_code != 200 or int(reply.headers.get("content-length") or 0) > limit:
                return None
            return reply.content
    except requests.RequestException:
        return None


# Debian ---------------------------------------------------------------------------------------------------------------
# Two ways in: source packages (C, C++, Java, Haskell, C#, shell …) and binary packages that consist of source (Go,
# Rust, Ruby, PHP, Python, C and C++ headers). A mirror may hold a part of the sources only;
# what is missing answers quickly.

SUITES = ("sid", "trixie", "bookworm")
_SOURCE_PREFIXES = ("haskell-", "lua-", "erlang-", "elixir-", "neovim-", "scala", "kotlin", "rust-", "golang-", "php-")
_C_SECTIONS = frozenset(
    "libs libdevel net utils sound graphics video science devel math admin text database electronics embedded otherosfs"
    " shells misc web comm hamradio games x11 httpd mail news vcs kernel interpreters java haskell".split()
)
BINARY_KINDS = ("librust-", "golang-", "ruby-", "php-", "python3-", "lib")
_BINARY = re.compile(r"(librust-[^+]*-dev|golang-.*-dev|ruby-.*|php-.*|python3-.*|lib.*-dev)$")


def _stanzas(suite: str, index: str) -> Iterator[dict[str, str]]:
    data = fetch(f"{debian_site()}/dists/{suite}/main/{index}", 90_000_000)
    for stanza in lzma.decompress(data or b"").decode().split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.+)$", stanza, re.M))
        if "Package" in fields:
            fields["files"] = "\n".join(re.findall(r"^ [0-9a-f]{64} (\d+ \S+)$", stanza, re.M))
            yield fields


@lru_cache(maxsize=1)
def debian_site() -> str:
    root = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True, check=True
    )
    return next(s for s in root.stdout.split() if s.rstrip("/").endswith("debian")).rstrip("/")


def _in_turn(groups: dict[str, list[dict[str, str]]], weight: dict[str, int]) -> list[dict[str, str]]:
    """Groups in turn, so that a stop at any time leaves a balanced set."""
    rng = random.Random(SEED)
    for group in groups.values():
        rng.shuffle(group)
    turn = [key for key in groups for _ in range(weight.get(key, 1))]
    queue: list[dict[str, str]] = []
    while any(groups.values()):
        queue += [groups[key].pop() for key in turn if groups[key]]
    return queue


def source_queue() -> list[dict[str, str]]:
    groups: dict[str, list[dict[str, str]]] = {}
    first: list[dict[str, str]] = []
    for suite in SUITES:
        for source in _stanzas(suite, "source/Sources.xz"):
            name = source["Package"]
            group = next((p for p in _SOURCE_PREFIXES if name.startswith(p)), "java" if name.endswith("-java") else "")
            if name in LARGE:
                first.append(source)
            elif group or (
                source.get("Section") in _C_SECTIONS and not name.startswith(("node-", "r-", "python-", "ruby-"))
            ):
                groups.setdefault(group or "other", []).append(source)
    return first + _in_turn(groups, {"other": 8, "java": 2})


def source_package(source: dict[str, str]) -> Package | None:
    name, folder = source["Package"], f"{debian_site()}/{source['Directory']}"
    files = [(int(line.split()[0]), line.split()[1]) for line in source["files"].split("\n") if line]
    rules = next((f for _, f in files if ".debian.tar." in f), None)
    orig = next(((s, f) for s, f in files if re.search(r"\.orig\.tar\.\w+$", f)), None)
    limit = 130_000_000 if name in LARGE else MAX_ARCHIVE["source"]
    if not rules or not orig or orig[0] > limit:
        return None
    packed = fetch(f"{folder}/{rules}", 20_000_000)
    if packed is None:
        return None
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        opened = tar.extractfile("debian/copyright")
        licence = licences.from_debian(opened.read().decode("utf-8", "replace")) if opened else None
    licence = PARTS[name][0] if name in PARTS else licence
    archive = fetch(f"{folder}/{orig[1]}", limit) if licence else None
    return Package(name, source["Version"], licence, archive, orig[1]) if licence and archive else None


def binary_queue(kinds: Sequence[str]) -> list[dict[str, str]]:
    groups: dict[str, dict[str, dict[str, str]]] = {}
    for suite in reversed(SUITES):
        for package in _stanzas(suite, "binary-amd64/Packages.xz"):
            name = package["Package"]
            kind = next((p for p in BINARY_KINDS if name.startswith(p)), "")
            if (
                kind in kinds
                and _BINARY.match(name)
                and int(package["Size"]) < MAX_ARCHIVE["binary"]
                and "-doc" not in name
            ):
                groups.setdefault(kind, {})[name] = package
    return _in_turn(
        {k: list(v.values()) for k, v in groups.items()}, {"librust-": 4, "lib": 3, "golang-": 2, "ruby-": 2}
    )


def binary_package(package: dict[str, str]) -> Package | None:
    data = fetch(f"{debian_site()}/{package['Filename']}", MAX_ARCHIVE["binary"])
    if data is None:
        return None
    at = 8  # an ar archive: 60-byte heads, contents padded to even offsets
    while at < len(data):
        name, size = data[at : at + 16].decode().strip(" /"), int(data[at + 48 : at + 58])
        if name.startswith("data.tar"):
            inner = data[at + 60 : at + 60 + size]
            licence = _installed_licence(name, inner)
            return Package(package["Package"], package["Version"], licence, inner, name) if licence else None
        at += 60 + size + size % 2
    return None


def _installed_licence(filename: str, data: bytes) -> str | None:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            opened = (
                tar.extractfile(member)
                if re.search(r"/doc/[^/]+/copyright$", member.name) and member.isfile()
                else None
            )
            if opened:
                return licences.from_debian(opened.read().decode("utf-8", "replace"))
    return None


# npm ------------------------------------------------------------------------------------------------------------------

_NATIVE = re.compile(  # Kotlin, Swift, C#, C, Zig, Lua and shell reach npm in packages of these names
    r"^(@[\w-]+/)?(expo-|react-native-(nitro|turbo|kotlin|vision|skia|mmkv|compose|modal|map|video|audio|ble|camera|auth|pay)"
    r"|capacitor-|com\.\w+\.\w+|.*(kotlin|swift|-zig|zig-|unity-|neovim|nvim|lua-|-lua|bash-|-bash|zsh|elixir|scala|csharp)).*"
)


def npm_registry() -> str:
    shown = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, check=True)
    return shown.stdout.split()[-1].rstrip("/")


def npm_package(registry: str, name: str) -> Package | None:
    meta = fetch(f"{registry}/{name.replace('/', '%2f')}/latest", 2_000_000)
    if meta is None:
        return None
    package = json.loads(meta)
    repository = json.dumps(package.get("repository") or "")
    licence = licences.from_npm(package)
    if not licence or excluded(name, repository) or int(package.get("dist", {}).get("unpackedSize") or 0) > 30_000_000:
        return None
    archive = fetch(package["dist"]["tarball"], MAX_ARCHIVE["npm"])
    return Package(name, str(package["version"]), licence, archive, "p.tgz") if archive else None


def npm_queue(registry: str) -> list[str]:
    """Popular packages and, in turn, those that by name carry native code."""
    popular: list[str] = []
    for _, content in members_raw(registry, "npm-high-impact", r"lib/top\.js$"):
        popular += re.findall(r"^\s*'([^']+)'", content, re.M)
    every: list[str] = []
    for _, content in members_raw(registry, "all-the-package-names", r"names\.json$"):
        every = [n for n in json.loads(content) if _NATIVE.match(n)]
    rng = random.Random(SEED)
    rng.shuffle(every)
    rng.shuffle(popular)
    queue: list[str] = []
    while popular or every:
        queue += popular[:1] + every[:2]
        popular, every = popular[1:], every[2:]
        if len(queue) > 60_000:
            break
    return list(dict.fromkeys(queue))


def members_raw(registry: str, name: str, wanted: str) -> Iterator[tuple[str, str]]:
    package = json.loads(fetch(f"{registry}/{name}/latest", 2_000_000) or b"{}")
    data = fetch(package["dist"]["tarball"], 200_000_000) or b""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            opened = tar.extractfile(member) if re.search(wanted, member.name) else None
            if opened:
                yield member.name, opened.read().decode()


# PyPI -----------------------------------------------------------------------------------------------------------------


def pypi_root() -> str:
    from pip._internal.models.index import PyPI

    return str(PyPI.pypi_url)


def pypi_package(root: str, name: str) -> Package | None:
    meta = fetch(f"{root}/{name}/json", 8_000_000)
    if meta is None:
        return None
    package = json.loads(meta)
    info = package["info"]
    fields = [f"License-Expression: {info['license_expression']}"] if info.get("license_expression") else []
    fields += [f"Classifier: {c}" for c in info.get("classifiers") or []]
    fields += [f"License: {info['license']}"] if info.get("license") else []
    licence = licences.from_python("\n".join(fields))
    if not licence or excluded(name, json.dumps(info.get("project_urls") or "")):
        return None
    kinds = ("bdist_wheel",) if name in LARGE else ("sdist",)
    files = [u for u in package["urls"] if u["packagetype"] in kinds]
    limit = 130_000_000 if name in LARGE else MAX_ARCHIVE["pypi"]
    for file in files:  # an index may not serve every platform's wheel; the sources inside are the same
        archive = fetch(urljoin(f"{root}/{name}/", file["url"]), limit) if file["size"] <= limit else None
        if archive:
            return Package(name, info["version"], licence, archive, file["filename"])
    return None


def pypi_queue() -> list[str]:
    """Hand-picked names (Rust and C cores), then what Debian packages of Python, by its name there."""
    lines = (Path(__file__).parent / "pypi-names.txt").read_text().split("\n")
    return [n for line in lines if not line.startswith("#") for n in line.split()]
