"""Documents that come from elsewhere: which hosts may be asked, downloads, and packages.

An address that comes with a project, a package or a redirect was chosen by somebody else. It must not lead to this
machine, its network or a cloud's metadata, which answer any request from here. Each hop of a redirect is a request of
its own: its host is resolved and checked, and the connection goes to the address that was checked. Downloads are
bounded in size and time, packages are packed and unpacked without trusting either side.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import socket
import tarfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from codeinfo.collections.model import MANIFEST, Manifest, PackageFile, safe_path, write_manifest
from codeinfo.errors import ProviderError, UsageError
from codeinfo.model import NextStep, to_run

SETTING = "trust.private_hosts"
_PORTS = {"http": 80, "https": 443, "ssh": 22}
_NAT64 = 0x64FF9B << 96  # 64:ff9b::/96 carries an IPv4 address in its last 32 bits


class AddressRefused(UsageError):
    code = "ADDRESS_REFUSED"


class Host(Struct, frozen=True):
    """Where an address leads: a name or number, and a port."""

    name: str
    port: int


class Reach(Struct, frozen=True):
    """`hosts` may be asked wherever they are; all others must be public."""

    hosts: frozenset[str] = frozenset()

    def resolve(self, host: Host) -> tuple[str, ...]:
        """The addresses of a host, all of which may be asked. Connect to one of these, not to the name: a second look
        at the name may give another address."""
        try:
            found = socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise AddressRefused(
                f"{host.name} cannot be looked up: {error}", next_step="Check the address and the network"
            ) from error
        addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
        if host.name.lower() not in self.hosts:
            for address in addresses:
                if not is_public(address):
                    raise AddressRefused(
                        f"{host.name} is {address}, which is not public: only you can have it asked",
                        next_step=NextStep(
                            f"Add its host to {SETTING} in your own settings, or add the documents yourself with ",
                            to_run("docs add"),
                        ),
                    )
        return addresses

    def pin(self, url: str) -> str:
        """`host:port:address,…` of an address of git, for a program that would look the host up once more."""
        host = host_of(url)
        addresses = (f"[{address}]" if ":" in address else address for address in self.resolve(host))
        return f"{host.name}:{host.port}:{','.join(addresses)}"


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet, also where it carries another one inside."""
    found = ip_address(address.partition("%")[0])
    return found.is_global and not found.is_multicast and all(inner.is_global for inner in _carried(found))


def _carried(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if int(address) >> 32 == _NAT64 >> 32:
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in inside if one is not None]


def host_of(url: str) -> Host:
    """The host that a web address or a git address (`ssh://…`, `git@host:path`) leads to."""
    if "://" not in url:
        name = url.partition(":")[0].rpartition("@")[2]
        return Host(name, _PORTS["ssh"])
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise AddressRefused(f"{url} is not an address: {error}", next_step="Check it") from error
    if not name or not port:
        raise AddressRefused(f"{url} names no host", next_step="Check the address")
    return Host(name, port)


TIMEOUT_S = 30.0


class DownloadFailed(ProviderError):
    """The host did not send what was asked for."""


def download(url: str, limit: int, reach: Reach) -> bytes:
    if urlsplit(url).scheme not in ("https", "http"):
        raise UsageError(f"{url} is not a web address")
    # A redirect to file: or ftp: finds no handler here.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _CheckedHandler(reach),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers={"User-Agent": "codeinfo"})
    try:
        with opener.open(request, timeout=TIMEOUT_S) as reply:
            data: bytes = reply.read(limit + 1)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise DownloadFailed(
            f"{url} could not be fetched: {error}", next_step="What was synced before stays"
        ) from error
    if len(data) > limit:
        raise DownloadFailed(f"{url} has more than {limit:,} bytes")
    return data


class _CheckedHandler(urllib.request.HTTPSHandler):
    """Opens http and https. A proxy that the user has set is asked as it is; the host behind it is checked all the
    same."""

    def __init__(self, reach: Reach) -> None:
        super().__init__()
        self._reach = reach

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        self._reach.resolve(host_of(request.full_url))
        return self.do_request_(request)

    https_request = http_request

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(http.client.HTTPConnection if request.has_proxy() else self._plain, request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        tunnel = request.has_proxy() or getattr(request, "_tunnel_host", None)
        return self.do_open(http.client.HTTPSConnection if tunnel else self._encrypted, request)

    def _plain(self, host: str, **more: Any) -> http.client.HTTPConnection:
        return _checked(_CheckedConnection(host, **more), self._reach)

    def _encrypted(self, host: str, **more: Any) -> http.client.HTTPConnection:
        return _checked(_CheckedEncryptedConnection(host, **more), self._reach)


class _CheckedConnection(http.client.HTTPConnection):
    reach = Reach()

    def connect(self) -> None:
        problem: OSError | None = None
        for address in self.reach.resolve(Host(self.host, self.port)):
            try:
                self.sock = socket.create_connection((address, self.port), self.timeout)
            except OSError as error:
                problem = error
            else:
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return
        raise problem or OSError(f"{self.host} has no address")


class _CheckedEncryptedConnection(http.client.HTTPSConnection, _CheckedConnection):
    """`HTTPSConnection.connect` begins with the connection of the class behind it, which is the checked one."""


def _checked(connection: _CheckedConnection, reach: Reach) -> http.client.HTTPConnection:
    connection.reach = reach
    return connection


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
    raise UsageError(f"the package has no {MANIFEST}", next_step=NextStep("Make one with ", to_run("docs pack")))
