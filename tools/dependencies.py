"""The packages that CodeInfo depends on: hashes to install them by, and a bill of materials.

    python tools/dependencies.py hashes   # requirements-hashed.txt from constraints.txt; asks pip
    python tools/dependencies.py sbom     # build/sbom.json, CycloneDX, from what is installed here; needs no network

To install what the hashes name and nothing else:

    pip install --require-hashes --no-deps -r requirements-hashed.txt && pip install --no-deps .
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parent.parent
# What CodeInfo runs on: a file of each version is hashed for each of these.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
LINUX = ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")


def main() -> None:
    if sys.argv[1:] == ["hashes"]:
        write_hashes()
    elif sys.argv[1:] == ["sbom"]:
        write_sbom()
    else:
        sys.exit(__doc__)


def pins() -> list[tuple[str, str]]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return [(name.strip(), version.strip()) for name, version in pairs]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def write_hashes() -> None:
    digests_of: dict[str, set[str]] = {canonical(name): set() for name, _ in pins()}
    for python in PYTHONS:
        for machine in MACHINES:
            for name, digest in wheel_hashes(python, machine):
                digests_of[name].add(digest)
    text = "# Written by tools/dependencies.py from constraints.txt.\n"
    for name, version in pins():
        digests = sorted(digests_of[canonical(name)])
        text += " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in digests)]) + "\n"
    (REPOSITORY / "requirements-hashed.txt").write_text(text)


def wheel_hashes(python: str, machine: str) -> Iterator[tuple[str, str]]:
    """What pip would install there, as the package index that it is set up for says; nothing is installed."""
    with TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", f"--target={folder}"]
        command += [f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")]
        command += [f"--platform={linux}_{machine}" for linux in LINUX]
        subprocess.run([*command, f"--report={report}", "-r", REPOSITORY / "constraints.txt"], check=True)
        for item in json.loads(report.read_text())["install"]:
            yield canonical(item["metadata"]["name"]), item["download_info"]["archive_info"]["hashes"]["sha256"]


def write_sbom() -> None:
    pinned = {canonical(name) for name, _ in pins()}
    installed = {canonical(part.name): part for part in distributions()}
    version = installed["codeinfo"].version if "codeinfo" in installed else "unknown"
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "codeinfo", "version": version}},
        "components": [component(installed[name]) for name in sorted(pinned & installed.keys())],
    }
    path = REPOSITORY / "build" / "sbom.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(bill, indent=2) + "\n")
    missing = ", ".join(sorted(pinned - installed.keys())) or "none"
    print(f"{len(pinned & installed.keys())} parts in {path}; not installed here: {missing}")


def component(part: Distribution) -> dict[str, object]:
    licence = next((part.metadata[key] for key in ("License-Expression", "License") if key in part.metadata), "")
    return {
        "type": "library",
        "name": part.name,
        "version": part.version,
        "purl": f"pkg:pypi/{canonical(part.name)}@{part.version}",
        **({"licenses": [{"license": {"name": licence.splitlines()[0][:100]}}]} if licence.strip() else {}),
    }


if __name__ == "__main__":
    main()
