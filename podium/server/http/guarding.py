"""Guarding: who may ask. Checked for every request before anything of it is read.

Without a token only this machine can connect, and a page of another origin that a browser shows cannot ask either: its
requests name another host (DNS rebinding), or have a content type that a browser asks permission for, which is never
given (no CORS). With a token, everything but /healthz and /readyz needs it: `Authorization: Bearer TOKEN`, or the
cookie that the page sets after a person has entered it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from podium.server.errors import Refusal
from podium.server.settings import Settings

OPEN_PATHS = frozenset(["/healthz", "/readyz", "/login"])
OPEN_FOLDER = "/static/"
COOKIE = "podium_session"
_LOCAL_NAMES = frozenset(["localhost", "127.0.0.1", "[::1]"])

Headers = Mapping[bytes, bytes]


class Guard:
    """Decides by path and headers."""

    def __init__(self, settings: Settings) -> None:
        self._token = None if settings.token is None else settings.token.encode()
        self._secret = secrets.token_bytes(32)
        self._names = _LOCAL_NAMES | {settings.host, *settings.hosts} if settings.is_local or settings.hosts else None

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def check(self, path: str, headers: Headers) -> None:
        """Refuse a request from elsewhere, or without the token."""
        if self._names is not None:
            host = _name_of(headers.get(b"host", b"").decode("latin-1"))
            if host not in self._names:
                known = ", ".join(sorted(self._names))
                advice = "Start the service with hosts = [...] if it has another name."
                raise Refusal(403, f"host: expected one of {known}; got {host[:60]!r}. {advice}", "host", known)
        if self._token is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            return
        if not self.is_token(_bearer(headers)) and not self._is_session(headers):
            expected = "Authorization: Bearer TOKEN"
            raise Refusal(401, f"expected {expected}, with the token of the service.", "authorization", expected)

    def is_token(self, token: bytes) -> bool:
        return self._token is not None and hmac.compare_digest(token, self._token)

    @property
    def session(self) -> str:
        """The value of the cookie; who has it has had the token."""
        return hmac.new(self._token or b"", b"podium page", hashlib.sha256).hexdigest()

    def csrf_of(self, visitor: str) -> str:
        """What a form must carry that a page of ours has shown to this visitor."""
        return hmac.new(self._secret, visitor.encode(), hashlib.sha256).hexdigest()

    def is_csrf(self, visitor: str, value: str) -> bool:
        return bool(visitor) and hmac.compare_digest(self.csrf_of(visitor).encode(), value.encode())

    def _is_session(self, headers: Headers) -> bool:
        value = cookie_of(headers, COOKIE)
        return value is not None and hmac.compare_digest(value.encode(), self.session.encode())


def cookie_of(headers: Headers, name: str) -> str | None:
    """A cookie of a request."""
    text = headers.get(b"cookie")
    if text is None:
        return None
    try:
        morsel = SimpleCookie(text.decode("latin-1")).get(name)
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def _bearer(headers: Headers) -> bytes:
    kind, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if kind.lower() == b"bearer" else b""


def _name_of(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
