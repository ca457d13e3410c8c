"""Who sits in front of the pages: a link that works once turns into a cookie, the cookie into a token for one session.

The link is shown to the person who started the server and to nobody else. The server's own token never leaves it: what
a page sends with its requests is derived from that token and the session, and is worth nothing without the cookie.
Sessions are signed, not stored, so they outlive a restart; with another token all of them end.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

COOKIE = "codeinfo_session"
CODE_PARAMETER = "code"
SESSION_SECONDS = 30 * 86_400
LINK_FILE = "open-pages.html"


class Sessions:
    """`announce` is told each new code: at most one link is open at a time."""

    def __init__(self, token: str, announce: Callable[[str], None] = lambda code: None) -> None:
        self._token = token.encode()
        self._announce = announce
        self._lock = threading.Lock()
        self.code = secrets.token_urlsafe(24)

    def enter(self, code: str) -> str | None:
        """A session for whoever has the code, which is then used up; None for a wrong or used one."""
        with self._lock:
            if not hmac.compare_digest(code.encode(), self.code.encode()):
                return None
            self.code = secrets.token_urlsafe(24)
        self._announce(self.code)
        return self.begin()

    def begin(self) -> str:
        """The cookie of a new session."""
        name = f"{int(time.time())}.{secrets.token_urlsafe(16)}"
        return f"{name}.{self._signed('session', name)}"

    def page_token(self, cookie_header: str) -> str:
        """What the pages of this session send with a request that changes something; "" where there is no session."""
        name, _, signature = _cookie(cookie_header).rpartition(".")
        began = name.partition(".")[0]
        if not began.isdecimal() or len(began) > 12 or time.time() - int(began) > SESSION_SECONDS:
            return ""
        if not hmac.compare_digest(signature.encode(), self._signed("session", name).encode()):
            return ""
        return self._signed("page", name)

    def _signed(self, purpose: str, name: str) -> str:
        digest = hmac.digest(self._token, f"{purpose}:{name}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def set_cookie(value: str) -> str:
    return f"{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/"


# --- what a person sees of it --------------------------------------------------------------------------------------


def entered_page() -> str:
    """Leads on to the pages. A redirect would not do: a browser that came from elsewhere would follow it without the
    cookie, since it is for this site alone."""
    return _page(
        "Welcome", '<meta http-equiv="refresh" content="0; url=/">', '<p><a href="/">Go on to the pages</a></p>'
    )


def stranger_page(address: str, *, used: bool) -> str:
    """For a browser without a session; `address` is what it asked for, `used` whether with a link that no longer
    works."""
    first = "<p>This link has been used already, and works once only.</p>" if used else ""
    again = f'<p>If you have, and came here from elsewhere: <a href="{escape(address)}">go on</a>.</p>'
    told = "<p>Open the link that <code>codeinfo serve</code> shows in its terminal, a new one after each use.</p>"
    return _page("These pages belong to whoever started the server", "", first + told + ("" if used else again))


def _page(title: str, head: str, body: str) -> str:
    style = '<link rel="stylesheet" href="/static/app.css">'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · CodeInfo</title>{style}{head}'
        f'</head><body><main id="main"><h1>{title}</h1>{body}</main></body></html>'
    )


def write_link_file(folder: Path, link: str) -> Path:
    """A page of the user's own that leads to the link: a browser's command line can be read by everyone on the machine,
    so the link must not stand there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / LINK_FILE
    temporary = path.with_name(f".{LINK_FILE}-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        head = f'<meta http-equiv="refresh" content="0; url={escape(link)}">'
        file.write(
            f'<!doctype html><meta charset="utf-8"><title>CodeInfo</title>{head}<a href="{escape(link)}">Open</a>'
        )
    os.replace(temporary, path)
    return path
