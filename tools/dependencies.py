"""The packages that CodeInfo stands on, for whoever installs or audits it.

    python tools/dependencies.py hashes   # requirements-hashed.txt from constraints.txt; asks the package index
    python tools/dependencies.py sbom     # build/sbom.json, CycloneDX, from what is installed here; needs no network

To install what the hashes name and nothing else:

    pip install --require-hashes --no-deps -r requirements-hashed.txt && pip install --no-deps .
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import Distribution, distributions
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
INDEX = "https://pypi.org/simple"
_LINK = re.compile(r'href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')
# Platforms and interpreters that CodeInfo does not run on; their wheels would triple the file.
_ELSEWHERE = re.compile(
    r"win32|win_|musllinux|pyodide|wasm|ios_|android|i686|armv|ppc64|s390x|riscv|loongarch|-pp\d|cp3\d+t"
)
_OLDER = re.compile(r"-cp(?:2\d|3\d|310)-(?!abi3)")


def main() -> None:
    if sys.argv[1:] == ["hashes"]:
        write_hashes()
    elif sys.argv[1:] == ["sbom"]:
        write_sbom()
    else:
        sys.exit(__doc__)


def pins() -> list[tuple[str, str]]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    found = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return [(name.strip(), version.strip()) for name, version in found]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def write_hashes() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pin: hashes(*pin), pins()))
    text = "# Written by tools/dependencies.py from constraints.txt.\n"
    for (name, version), known in zip(pins(), found, strict=True):
        if not known:
            sys.exit(f"{name} {version} has no file on {INDEX}")
        text += " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in known)]) + "\n"
    (REPOSITORY / "requirements-hashed.txt").write_text(text)


def hashes(name: str, version: str) -> list[str]:
    """Of every file of a version that could be installed here."""
    with urllib.request.urlopen(f"{INDEX}/{canonical(name)}/", timeout=60) as reply:
        files = _LINK.findall(reply.read().decode())
    wanted = re.compile(rf"(?i){canonical(name).replace('-', '[-_.]+')}-{re.escape(version)}(?:-|\.tar\.gz$|\.zip$)")
    return sorted(
        digest
        for file, digest in files
        if wanted.match(file) and not _ELSEWHERE.search(file) and not _OLDER.search(file) and not file.endswith(".egg")
    )


def write_sbom() -> None:
    known = {canonical(name) for name, _ in pins()}
    here = {canonical(one.name): one for one in distributions()}
    version = here["codeinfo"].version if "codeinfo" in here else "unknown"
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "codeinfo", "version": version}},
        "components": [component(here[name]) for name in sorted(known & here.keys())],
    }
    path = REPOSITORY / "build" / "sbom.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(bill, indent=2) + "\n")
    missing = ", ".join(sorted(known - here.keys())) or "none"
    print(f"{len(known & here.keys())} parts in {path}; not installed here: {missing}")


def component(one: Distribution) -> dict[str, object]:
    licence = next((one.metadata[key] for key in ("License-Expression", "License") if key in one.metadata), "")
    return {
        "type": "library",
        "name": one.name,
        "version": one.version,
        "purl": f"pkg:pypi/{canonical(one.name)}@{one.version}",
        **({"licenses": [{"license": {"name": licence.splitlines()[0][:100]}}]} if licence.strip() else {}),
    }


if __name__ == "__main__":
    main()
