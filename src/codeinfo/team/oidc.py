"""Sign-in with the team's OpenID Connect service: the authorization code flow with PKCE, and that service's access
tokens brought by clients.

A sign-in in progress is stored in the database for ten minutes, so that any server can finish it, once.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from authlib.oauth2.rfc6749.errors import OAuth2Error
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import OpenIDProviderMetadata, get_well_known_url
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from codeinfo.config import LOOPBACK
from codeinfo.errors import ProviderError, UsageError
from codeinfo.settings import AuthSettings
from codeinfo.team import access
from codeinfo.team.access import Caller, Refused
from codeinfo.team.database import TeamDatabase

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")  # no secrets
LEEWAY_S = 60  # tolerated clock difference between the service and this server
_BEGUN_MINUTES = 10
_MOST_BEGUN = 10_000  # at a time; the latest are kept: strangers may begin any number, and must not fill the disk
_SWEEP_S = 1.0  # between two removals of the others
_KNOWN_S = 3600.0  # how long addresses and keys of the service are cached
_KEYS_S = 10.0  # before an unknown key is looked up again: the service may have changed them
_TIMEOUT_S = 10.0
_MOST_BYTES = 1_000_000

log = logging.getLogger(__name__)


class SignInService:
    """`redirect` is where the service sends browsers back to, `audience` what its access tokens must be issued for."""

    def __init__(
        self, database: TeamDatabase, settings: AuthSettings, secret: str, *, redirect: str, audience: str
    ) -> None:
        issuer = urlsplit(settings.issuer)
        if issuer.scheme != "https" and issuer.hostname not in LOOPBACK:
            raise UsageError(f"auth.issuer = {settings.issuer!r} is not secure", "Use an https:// address")
        if not settings.client_id:
            step = "Set it to the client id of this server at the service"
            raise UsageError("auth.issuer needs auth.client_id", step)
        self.issuer = settings.issuer.rstrip("/")
        self._database = database
        self._settings = settings
        self._secret = secret
        self._redirect = redirect
        self._audience = audience
        self._metadata: tuple[float, Mapping[str, Any]] = (float("-inf"), {})
        self._keys: tuple[float, KeySet | None] = (float("-inf"), None)
        self._swept = float("-inf")

    def begin(self, back: str) -> tuple[str, str]:
        """Where to send the browser, and what it must bring back in a cookie."""
        address = str(self._describe_service("authorization_endpoint"))
        state, browser, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        insert = """INSERT INTO sign_ins(state, browser, nonce, verifier, back, expires_at)
                    VALUES (%s, %s, %s, %s, %s, now() + make_interval(mins => %s))"""
        with self._database.transaction() as db:
            if time.monotonic() - self._swept > _SWEEP_S:
                self._swept = time.monotonic()
                delete = """DELETE FROM sign_ins WHERE expires_at < now()
                            OR state IN (SELECT state FROM sign_ins ORDER BY expires_at DESC OFFSET %s)"""
                db.execute(delete, (_MOST_BEGUN,))
            hashes = (access.hash_of(state), access.hash_of(browser))
            db.execute(insert, (*hashes, nonce, verifier, back, _BEGUN_MINUTES))
        query = {
            "response_type": "code", "client_id": self._settings.client_id, "redirect_uri": self._redirect,
            "scope": self._settings.scope, "state": state, "nonce": nonce, "code_challenge_method": "S256",
            "code_challenge": create_s256_code_challenge(verifier),
        }  # fmt: skip
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", browser

    def finish(self, query: Mapping[str, str], browser: str) -> tuple[Caller, str]:
        """The user who returned, and the page they wanted. A sign-in can be finished once, by its own browser."""
        delete = "DELETE FROM sign_ins WHERE state = %s RETURNING browser, nonce, verifier, back, expires_at > now()"
        with self._database.transaction() as db:
            sign_in = db.execute(delete, (access.hash_of(query.get("state", "")),)).fetchone()
        if sign_in is None or not sign_in[4] or bytes(sign_in[0]) != access.hash_of(browser):
            raise _refusal("this sign-in was not started here, has expired, or was already finished")
        if "code" not in query:
            raise _refusal(f"the sign-in service refused: {_plain(query.get('error', 'no reason'))}")
        _, nonce, verifier, back, _ = sign_in
        tokens = self._tokens(query["code"], verifier)
        return self._update_user(self._check_claims(str(tokens.get("id_token", "")), nonce, tokens)), back

    def _tokens(self, code: str, verifier: str) -> Mapping[str, Any]:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self._redirect}
        form |= {"code_verifier": verifier, "client_id": self._settings.client_id}
        headers = {}
        methods = self._describe_service("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._secret and "client_secret_basic" in methods:
            pair = f"{quote(self._settings.client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        elif self._secret:
            form["client_secret"] = self._secret
        return _fetch(str(self._describe_service("token_endpoint")), urlencode(form).encode(), headers)

    def _check_claims(self, token: str, nonce: str, tokens: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims of an ID token that is from the service, for us, in force, and the answer to this sign-in."""
        decoded = self._decode(token)
        claims = CodeIDToken(
            decoded.claims,
            decoded.header,
            {"iss": {"value": self._describe_service("issuer")}, "aud": {"value": self._settings.client_id}},
            {"nonce": nonce, "client_id": self._settings.client_id, "access_token": tokens.get("access_token")},
        )
        try:
            claims.validate(leeway=LEEWAY_S)
        except (JoseError, OAuth2Error, ValueError) as error:
            raise _refusal(f"the sign-in service's answer is not valid: {_plain(error)}") from error
        return decoded.claims

    def by_access_token(self, token: str) -> Caller | None:
        """The caller of a client with a token from the service, for us; read-only unless its scope says more."""
        try:
            decoded = self._decode(token)
            claims = jwt.JWTClaimsRegistry(
                leeway=LEEWAY_S,
                iss={"essential": True, "value": self._describe_service("issuer")},
                aud={"essential": True, "value": self._audience},
                sub={"essential": True},
                exp={"essential": True},
            )
            claims.validate(decoded.claims)
        except (JoseError, Refused, ValueError):
            return None
        scopes = {scope for scope in str(decoded.claims.get("scope", "")).split() if scope in access.SCOPES}
        with self._database.transaction() as db:
            return access.subject_caller(db, self._subject(decoded.claims), scopes or {access.READ})

    def _subject(self, claims: Mapping[str, Any]) -> str:
        return f"{self.issuer} {claims['sub']}"

    def _update_user(self, claims: Mapping[str, Any]) -> Caller:
        """The user of these claims, created at the first sign-in, with the groups that the service names."""
        groups = claims.get(self._settings.groups_claim, ())
        names = [str(name).removeprefix("/") for name in groups] if isinstance(groups, list | tuple) else [str(groups)]
        preferred_name = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
        subject, name = self._subject(claims), re.sub(r"[^\w.+@-]+", "-", preferred_name).strip("-")[:80] or "user"
        with self._database.transaction() as db:
            access.add_subject(db, subject, name, str(claims.get("email", ""))[:200])
            if self._settings.admin_group:
                is_admin = self._settings.admin_group in names
                update = "UPDATE users SET admin = %s WHERE subject = %s AND admin <> %s RETURNING id"
                for (changed,) in db.execute(update, (is_admin, subject, is_admin)).fetchall():
                    access.audit(db, "made administrator" if is_admin else "no longer administrator", user=changed)
            caller = access.subject_caller(db, subject, access.SCOPES)
            if caller is None:
                raise _refusal("this user is disabled")
            access.set_claimed_groups(db, caller.user_id, names)
        return caller

    def _describe_service(self, name: str, default: Any = None) -> Any:
        read, metadata = self._metadata  # replaced as a whole: two concurrent requests do no harm
        while not metadata and time.monotonic() - read < 1:  # somebody is asking: usually it answers within a second
            time.sleep(0.02)
            metadata = self._metadata[1]
        if time.monotonic() - read > (_KNOWN_S if metadata else _KEYS_S):
            self._metadata = time.monotonic(), metadata  # first: strangers may begin any number of sign-ins
            metadata = OpenIDProviderMetadata(_fetch(get_well_known_url(self.issuer, external=True)))
            if str(metadata.get("issuer", "")).rstrip("/") != self.issuer:
                step = "Correct auth.issuer"
                raise ProviderError(f"{self.issuer} identifies itself as {_plain(metadata.get('issuer'))}", step)
            self._metadata = time.monotonic(), metadata
        if not metadata:
            raise ProviderError(f"{self.issuer} did not answer", "Try again in a moment, or check auth.issuer")
        value = metadata.get(name, default)
        if value is None:
            raise ProviderError(f"{self.issuer} does not provide {name}", "Check that it speaks OpenID Connect")
        return value

    def _decode(self, token: str) -> jwt.Token:
        """A token signed by the service. Its keys are fetched again if this one is unknown."""
        for at_most in (_KNOWN_S, _KEYS_S):
            try:
                return jwt.decode(token, self._key_set(at_most), algorithms=list(ALGORITHMS))
            except (JoseError, ValueError, TypeError, RecursionError) as error:  # a header may hold anything
                failed = error
        raise _refusal(f"the sign-in service's signature is not valid: {_plain(failed)}") from failed

    def _key_set(self, at_most: float) -> KeySet:
        read, keys = self._keys
        if keys is None or time.monotonic() - read > at_most:
            self._keys = time.monotonic(), keys  # first: while the service does not answer, others must not wait for it
            keys = KeySet.import_key_set(_fetch(str(self._describe_service("jwks_uri"))))  # type: ignore[arg-type]
            self._keys = time.monotonic(), keys
        return keys


def _refusal(what: str) -> Refused:
    return Refused(what, "Sign in again", code="SIGN_IN_REFUSED")


def _plain(text: object) -> str:
    """Text from the service, made safe for a message."""
    return re.sub(r"[^\x20-\x7e]+", " ", str(text))[:200]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect would lead away from the configured service."""


_opener = urllib.request.build_opener(_NoRedirects)


def _fetch(address: str, form: bytes | None = None, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """A JSON object of the sign-in service."""
    parts = urlsplit(address)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in LOOPBACK):
        raise ProviderError(f"{address} is not secure", "The sign-in service has to use https")
    request = urllib.request.Request(address, form, {"Accept": "application/json", **(headers or {})})
    try:
        with _opener.open(request, timeout=_TIMEOUT_S) as reply:
            content = json.loads(reply.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            detail = _plain(error.read(1000).decode("utf-8", "replace"))
        step = "Sign in again; check auth.client_id"
        raise ProviderError(f"the sign-in service answered {error.code}: {detail}", step) from error
    except (OSError, ValueError) as error:
        raise ProviderError(f"the sign-in service does not answer: {_plain(error)}", "Check auth.issuer") from error
    if not isinstance(content, dict):
        raise ProviderError("the sign-in service did not answer with an object", "Check auth.issuer")
    return content
