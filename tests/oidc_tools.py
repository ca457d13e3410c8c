"""A small OpenID Connect provider over HTTP on this machine, which can be made to answer wrongly."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "codeinfo", "the client's own secret"


class Provider:
    """`user` are the claims of who signs in; `spoil` changes the claims of an ID token before it is signed; `key`
    signs, `published` is what clients see; each reply takes `delay_s`."""

    def __init__(self) -> None:
        self.key = self.published = self.new_key()
        self.user: dict[str, Any] = {"sub": "1", "preferred_username": "ann", "email": "ann@example.org"}
        self.spoil: Callable[[dict[str, Any]], None] = lambda claims: None
        self.codes: dict[str, dict[str, str]] = {}
        self.issuer = ""
        self.delay_s = 0.0

    @staticmethod
    def new_key() -> RSAKey:
        return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig", "alg": "RS256"})

    def sign(self, claims: dict[str, Any], header: dict[str, Any] | None = None, key: Any = None) -> str:
        head = header or {"alg": "RS256", "kid": self.key.kid}
        return jwt.encode(head, claims, key or self.key, algorithms=[head["alg"]])

    def access_token(self, audience: str, **more: Any) -> str:
        claims = {"iss": self.issuer, "aud": audience, "exp": int(time.time()) + 300, "sub": self.user["sub"], **more}
        return self.sign(claims)

    # --- endpoints ---

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Somebody signs in: where their browser is sent back to."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        known = authorization.startswith("Basic ")
        if asked is None or not known or create_s256_code_challenge(form["code_verifier"]) != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": asked["nonce"], **self.user}
        self.spoil(claims)
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(claims)}


@contextlib.contextmanager
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(made.delay_s)
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            if path == "/authorize":
                self.send_response(302)
                self.send_header("Location", made.authorize({key: values[0] for key, values in query.items()}))
                self.end_headers()
                return
            pages: dict[str, Callable[[], Any]] = {
                "/.well-known/openid-configuration": made.metadata,
                "/keys": lambda: {"keys": [made.published.as_dict(private=False)]},
            }
            self._reply(200, pages[path]())

        def do_POST(self) -> None:
            body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            form = {key: values[0] for key, values in body.items()}
            self._reply(*made.token(form, self.headers.get("Authorization", "")))

        def _reply(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
