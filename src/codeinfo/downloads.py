"""Downloads from addresses that nobody vouches for.

An address that comes with a project, a package or a redirect is untrusted. It must not lead to this machine, its
network or a cloud's metadata service, which answer any request from here. At each hop of a redirect the host is
resolved and checked, and the connection goes to the address that was checked. Downloads are bounded in size and time.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import IO, Any
from urllib.parse import urlsplit

from msgspec import Struct

from codeinfo.cache import start_timer
from codeinfo.errors import ProviderError, UsageError
from codeinfo.model import hide_keys

_PORTS = {"http": 80, "https": 443, "ssh": 22}
_NAT64 = 0x64FF9B << 96  # 64:ff9b::/96 carries an IPv4 address in its last 32 bits, as ::/96 does
_LOCAL_NAT64 = 0x64FF9B0001  # 64:ff9b:1::/48, of a network's own
_TRANSLATED = 0xFFFF << 48  # ::ffff:0:0:0/96, the same of stateless translators


class AddressRefused(UsageError):
    status = 403
    code = "ADDRESS_REFUSED"


class Host(Struct, frozen=True):
    name: str
    port: int


class HostPolicy(Struct, frozen=True):
    """`hosts` are allowed wherever they are; all others must be public."""

    hosts: frozenset[str] = frozenset()

    def resolve(self, host: Host) -> tuple[str, ...]:
        """The addresses of a host, all of them allowed. Connect to one of these, not to the name: resolving the name
        again may give another address."""
        try:
            entries = socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            step = "Check the address and the network"
            raise DownloadFailed(f"{host.name} cannot be looked up: {error}", step) from error
        addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
        if host.name.lower() not in self.hosts:
            for address in addresses:
                if not is_public(address):
                    what = f"{host.name} ({address}) is not a public address, which needs your permission"
                    step = "If you trust it, add the host to trust.private_hosts in your own settings"
                    raise AddressRefused(what, step)
        return addresses

    def pin(self, url: str) -> str:
        """`host:port:address,…` for a git address, for a program that would resolve the host again; "" for an IPv6
        address, which is never resolved."""
        host = host_of(url)
        if not host.name.isascii() or "%" in host.name:
            step = "Write it in ASCII letters, as in xn--bcher-kva.example"
            raise AddressRefused(f"{host.name} is a host that programs read in different ways", step)
        addresses = [f"[{address}]" if ":" in address else address for address in self.resolve(host)]
        return "" if ":" in host.name else f"{host.name}:{host.port}:{','.join(addresses)}"


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet, including any address embedded in it."""
    parsed = ip_address(address.partition("%")[0])
    is_local = parsed.is_multicast or (isinstance(parsed, IPv6Address) and parsed.is_site_local)
    return parsed.is_global and not is_local and all(inner.is_global for inner in _embedded_addresses(parsed))


def _embedded_addresses(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if int(address) >> 32 in (_NAT64 >> 32, _TRANSLATED >> 32, 0) or int(address) >> 80 == _LOCAL_NAT64:
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [inner for inner in inside if inner is not None]


_SCP_IPV6 = re.compile(r"(?:[^@/:\[]+@)?\[([\da-fA-F:.]+)\]:")  # git@[::1]:path


def host_of(url: str) -> Host:
    """The host that a web address or a git address (`ssh://…`, `git@host:path`) leads to."""
    if "://" not in url:
        number = _SCP_IPV6.match(url)
        return Host(number[1] if number else url.partition(":")[0].rpartition("@")[2], _PORTS["ssh"])
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        shown = hide_keys(url).rpartition("@")[2]  # a password with a / is why it cannot be parsed
        raise AddressRefused(f"{shown} is not an address: {error}", "Check it") from error
    if not name or not port:
        raise AddressRefused(f"{hide_keys(url)} names no host", "Check the address")
    return Host(name, port)


TIMEOUT_S = 30.0  # without a byte
TOTAL_S = 600.0  # of one download: a host that sends a byte now and then would never end
_PIECE = 1 << 20


class DownloadFailed(ProviderError):
    """The host did not send what was requested."""


def download(url: str, limit: int, policy: HostPolicy) -> bytes:
    if urlsplit(url).scheme not in ("https", "http"):
        raise UsageError(f"{hide_keys(url)} is not a web address")
    if "@" in urlsplit(url).netloc:
        step = "Download it yourself and add the folder, or add a git repository"
        raise UsageError(f"{hide_keys(url)} is only fetched without user and password", step)
    data, until = bytearray(), time.monotonic() + TOTAL_S
    try:
        with _open(url, policy) as reply:
            while len(data) <= limit and time.monotonic() < until:
                if not (piece := reply.read1(min(_PIECE, limit + 1 - len(data)))):
                    break
                data += piece
        if time.monotonic() >= until:
            raise TimeoutError(f"it took more than {TOTAL_S:g} s")
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = error.reason if type(error) is urllib.error.URLError else error
        if isinstance(error, http.client.InvalidURL):  # which has the whole address in its message
            reason = "it has a space or a control character, or a port that is none"
        step = "Check the address and the network; what was synced before is kept"
        raise DownloadFailed(f"{hide_keys(url)} could not be fetched: {reason}", step) from error
    if len(data) > limit:
        raise DownloadFailed(f"{hide_keys(url)} has more than {limit:,} bytes")
    return bytes(data)


_GIT_REFS = "/info/refs?service=git-upload-pack"  # what git requests first


def follow_redirects(url: str, policy: HostPolicy) -> str:
    """Where the web address of a git repository leads. Git would follow redirects to any host."""
    if "@" in urlsplit(url).netloc:  # a password goes to its host alone
        return url
    try:
        with _open(url.rstrip("/") + _GIT_REFS, policy) as reply:
            address: str = reply.url
    except (http.client.HTTPException, OSError, DownloadFailed):
        return url  # git will say what is wrong
    return address.removesuffix(_GIT_REFS) if address.endswith(_GIT_REFS) else url


@contextmanager
def _open(url: str, policy: HostPolicy) -> Iterator[http.client.HTTPResponse]:
    """The reply of a host; after TOTAL_S all connections end, whatever is waited for."""
    # A redirect to file: or ftp: finds no handler here.
    opener, checked = urllib.request.OpenerDirector(), _CheckedHandler(policy)
    for handler in (
        urllib.request.ProxyHandler(),
        checked,
        _RedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    watchdog = start_timer(TOTAL_S, checked.disconnect)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "codeinfo"})
        with opener.open(request, timeout=TIMEOUT_S) as reply:
            yield reply
    except urllib.error.HTTPError as error:
        error.close()  # it is a reply as well
        raise
    finally:
        watchdog.cancel()
        checked.close_sockets()


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: urllib.request.Request, fp: IO[bytes], *more: Any) -> urllib.request.Request | None:
        fp.close()  # or the body, which may be endless, would be read into memory
        return super().redirect_request(req, fp, *more)


class _CheckedHandler(urllib.request.HTTPSHandler):
    """Opens http and https. A proxy set by the user is used as it is; the host behind it is still checked."""

    def __init__(self, policy: HostPolicy) -> None:
        super().__init__()
        self._policy = policy
        self._sockets: list[socket.socket] = []

    def disconnect(self) -> None:
        for opened in self._sockets:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def close_sockets(self) -> None:
        for opened in self._sockets:
            opened.close()

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        self._policy.resolve(host_of(request.full_url))
        return self.do_request_(request)

    https_request = http_request

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._connect, _CheckedConnection, request.has_proxy()), request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        tunnel = request.has_proxy() or bool(getattr(request, "_tunnel_host", None))
        return self.do_open(partial(self._connect, _CheckedEncryptedConnection, tunnel), request)

    def _connect(
        self, kind: type[_CheckedConnection], proxied: bool, host: str, **more: Any
    ) -> http.client.HTTPConnection:
        connection = kind(host, **more)
        connection.policy = None if proxied else self._policy
        connection.sockets = self._sockets
        return connection


class _CheckedConnection(http.client.HTTPConnection):
    policy: HostPolicy | None = HostPolicy()  # None: to the user's proxy
    sockets: list[socket.socket]  # A second handle of each: a reply takes over the socket, and encryption replaces it.

    def connect(self) -> None:
        if self.policy is None:
            super().connect()
        else:
            self.sock = self._dial(self.policy.resolve(Host(self.host, self.port)))
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sockets.append(self.sock.dup())

    def _dial(self, addresses: Iterable[str]) -> socket.socket:
        problem: OSError | None = None
        for address in addresses:
            try:
                return socket.create_connection((address, self.port), self.timeout)
            except OSError as error:
                problem = error
        raise problem or OSError(f"{self.host} has no address")


class _CheckedEncryptedConnection(http.client.HTTPSConnection, _CheckedConnection):
    """`HTTPSConnection.connect` starts with the connection of the next class, which is the checked one."""
