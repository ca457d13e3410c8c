"""A package's manifest: `{name, version, description?, baseUrl?, sources}`.

`sources` is `{glob: []}` or `{files: [path | {path|url, hash?}]}`. Paths are relative to the package and stay inside
it; a hash is SHA-256, `sha256:` in front or not.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from codeinfo.errors import UsageError
from codeinfo.globs import check_globs

MANIFEST = "manifest.json"
MAX_FILES = 50_000
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
_MEND = "Mend the manifest; docs/documents.md describes it"


class PackageFile(Struct, frozen=True):
    path: str
    url: str = ""  # "" for a file of the package itself
    sha256: str = ""  # "" where the manifest gives none


class Manifest(Struct, frozen=True):
    name: str
    version: str
    description: str = ""
    base_url: str = ""
    globs: tuple[str, ...] = ()
    files: tuple[PackageFile, ...] = ()


def read_manifest(text: str) -> Manifest:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the manifest is not valid JSON: {error}", next_step=_MEND) from error
    if not isinstance(value, dict):
        raise _bad("it is no JSON object")
    name, version, sources = value.get("name"), value.get("version"), value.get("sources")
    if not isinstance(name, str) or not name or not isinstance(version, str) or not version:
        raise _bad("name and version must be texts")
    if not isinstance(sources, dict) or ("glob" in sources) == ("files" in sources):
        raise _bad('sources must have either "glob" or "files"')
    base_url = _text(value, "baseUrl")
    if base_url and urlsplit(base_url).scheme not in ("https", "http"):
        raise _bad("baseUrl must be an address of the web")
    return Manifest(
        name=name,
        version=version,
        description=_text(value, "description"),
        base_url=base_url,
        globs=_globs(sources["glob"]) if "glob" in sources else (),
        files=_files(sources["files"], base_url) if "files" in sources else (),
    )


def write_manifest(manifest: Manifest) -> str:
    files = [{"path": file.path, "hash": f"sha256:{file.sha256}"} for file in manifest.files]
    value: dict[str, Any] = {"name": manifest.name, "version": manifest.version}
    if manifest.description:
        value["description"] = manifest.description
    return json.dumps(value | {"sources": {"files": files}}, indent=2, ensure_ascii=False) + "\n"


def safe_path(path: str) -> str:
    """The path, once it is certain that it stays below whatever it is joined to."""
    parts = path.replace("\\", "/").split("/")
    if not path or path.startswith(("/", "\\")) or ":" in parts[0] or ".." in parts or "\0" in path:
        raise _bad(f"{path!r} leaves the package")
    return "/".join(part for part in parts if part not in ("", "."))


def _globs(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _bad('"glob" must be a list of texts')
    check_globs(value, "the manifest is not valid")
    return tuple(value)


def _files(value: Any, base_url: str) -> tuple[PackageFile, ...]:
    if not isinstance(value, list) or len(value) > MAX_FILES:
        raise _bad(f'"files" must be a list of at most {MAX_FILES:,}')
    files = [_file(entry, base_url) for entry in value]
    if len({file.path for file in files}) != len(files):
        raise _bad("a path is listed twice")
    return tuple(files)


def _file(entry: Any, base_url: str) -> PackageFile:
    if isinstance(entry, str):
        entry = {"path": entry}
    if not isinstance(entry, dict):
        raise _bad("a file must be a path or an object")
    given = _text(entry, "hash")
    digest = _HASH.fullmatch(given) if given else None
    if given and digest is None:
        raise _bad(f"{given!r} is no SHA-256")
    sha256 = digest.group(1).lower() if digest else ""
    url = _text(entry, "url")
    if url:
        full = urljoin(base_url, url)
        parts = urlsplit(full)
        if parts.scheme not in ("https", "http"):
            raise _bad(f"{url!r} is no address of the web")
        path = _text(entry, "path") or f"{parts.netloc}{parts.path}".rstrip("/").replace(":", "_")
        return PackageFile(safe_path(path), full, sha256)
    return PackageFile(safe_path(_text(entry, "path")), "", sha256)


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key, "")
    if not isinstance(found, str):
        raise _bad(f"{key} must be a text")
    return found


def _bad(reason: str) -> UsageError:
    return UsageError(f"the manifest is not valid: {reason}", next_step=_MEND)
