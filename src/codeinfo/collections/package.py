"""Packages as tar.gz: written the same for the same content, read without trusting a name, a size or a link."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping

from codeinfo.collections.manifest import MANIFEST, Manifest, PackageFile, safe_path, write_manifest
from codeinfo.errors import UsageError

MAX_PACKED_BYTES = 500_000_000
MAX_UNPACKED_BYTES = 1_000_000_000
MAX_MEMBERS = 50_000


def pack(name: str, version: str, description: str, files: Mapping[str, bytes]) -> tuple[bytes, Manifest]:
    """An archive of `files` (path → content) with a manifest that lists them and their hashes."""
    listed = tuple(PackageFile(path, "", hashlib.sha256(files[path]).hexdigest()) for path in sorted(files))
    manifest = Manifest(name, version, description, files=listed)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in ((MANIFEST, write_manifest(manifest).encode()), *((f.path, files[f.path]) for f in listed)):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0), manifest


def unpack(data: bytes) -> dict[str, bytes]:
    """Path → content of the regular files of an archive. Links, devices and names that lead outside are refused."""
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|gz") as archive:
            for count, member in enumerate(archive):
                if count >= MAX_MEMBERS:
                    raise UsageError(f"the package has more than {MAX_MEMBERS:,} entries")
                if member.isdir():
                    continue
                if not member.isreg():
                    raise UsageError(f"the package holds a link or a special file: {member.name!r}")
                total += member.size
                if total > MAX_UNPACKED_BYTES:
                    raise UsageError(f"the package unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
                content = archive.extractfile(member)
                files[safe_path(member.name)] = content.read() if content else b""
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise UsageError(f"the package is broken: {error}", next_step="Get it again") from error
    return _without_wrapper(files)


def _without_wrapper(files: dict[str, bytes]) -> dict[str, bytes]:
    """Many archives hold one folder that holds everything."""
    if MANIFEST in files:
        return files
    tops = {path.partition("/")[0] for path in files}
    if len(tops) == 1 and f"{(top := tops.pop())}/{MANIFEST}" in files:
        return {path.removeprefix(f"{top}/"): content for path, content in files.items()}
    raise UsageError(f"the package has no {MANIFEST}", next_step="Make one with `codeinfo docs pack`")
