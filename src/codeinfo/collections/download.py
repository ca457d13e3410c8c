"""Over the network, only where a collection asks for it: web addresses, bounded in size and time, no other scheme.

Each hop of a redirect is a request of its own: its host is looked up and checked, and the connection goes to the
address that was checked.
"""

from __future__ import annotations

import http.client
import socket
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from codeinfo.collections.addresses import Host, Reach, host_of
from codeinfo.errors import CodeInfoError, UsageError

TIMEOUT_S = 30.0


class DownloadFailed(CodeInfoError):
    code = "DOWNLOAD_FAILED"


def download(url: str, limit: int, reach: Reach) -> bytes:
    if urlsplit(url).scheme not in ("https", "http"):
        raise UsageError(f"{url} is no address of the web")
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
