"""Over the network, only where a collection asks for it: web addresses, bounded in size and time, no other scheme."""

from __future__ import annotations

from urllib.parse import urlsplit

from codeinfo.errors import CodeInfoError, UsageError

TIMEOUT_S = 30.0


class DownloadFailed(CodeInfoError):
    code = "DOWNLOAD_FAILED"


def download(url: str, limit: int) -> bytes:
    import http.client
    import urllib.error
    import urllib.request

    if urlsplit(url).scheme not in ("https", "http"):
        raise UsageError(f"{url} is no address of the web")
    # A redirect to file: or ftp: finds no handler here.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
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
