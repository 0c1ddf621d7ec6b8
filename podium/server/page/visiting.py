"""Visiting: what a browser carries (a visitor, a rater's name, a session) and what it sends in forms."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qsl, quote, unquote

from fastapi import Request, Response

from podium.server.errors import Refusal, wrong
from podium.server.http.guarding import COOKIE, Guard, cookie_of

VISITOR, RATER = "podium_visitor", "podium_rater"
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS, _LONGEST_NAME = 50, 60
_YEAR = 365 * 24 * 3600

Form = dict[str, list[str]]


class Visit:
    """One request of a browser. Without a cookie that says who it is, it gets one with the answer."""

    def __init__(self, request: Request, guard: Guard) -> None:
        self._guard = guard
        self._headers = dict(request.scope["headers"])
        self._is_https = request.url.scheme == "https"
        known = cookie_of(self._headers, VISITOR) or ""
        self.is_new = not (len(known) == 32 and known.isalnum())
        self.visitor = secrets.token_hex(16) if self.is_new else known

    @property
    def csrf(self) -> str:
        return self._guard.csrf_of(self.visitor)

    @property
    def rater(self) -> str:
        """The name of who judges, or nothing."""
        name = unquote(cookie_of(self._headers, RATER) or "")
        return name if name.isprintable() and len(name) <= _LONGEST_NAME else ""

    def refuse_forged(self, form: Form) -> None:
        """A form must come from a page that this service has shown to this visitor."""
        if self.is_new or not self._guard.is_csrf(self.visitor, first(form, "csrf")):
            expected = "a form of a page that this service has shown to you"
            raise Refusal(403, f"csrf: expected {expected}. Reload the page, then try again.", "csrf", expected)

    def remember(self, response: Response) -> Response:
        """Set the visitor's cookie, where it is new."""
        if self.is_new:
            self._set(response, VISITOR, self.visitor)
        return response

    def remember_rater(self, response: Response, name: str) -> None:
        self._set(response, RATER, quote(name), _YEAR)

    def open_session(self, response: Response) -> None:
        self._set(response, COOKIE, self._guard.session)

    def _set(self, response: Response, name: str, value: str, seconds: int | None = None) -> None:
        response.set_cookie(name, value, seconds, path="/", secure=self._is_https, httponly=True, samesite="strict")


async def form_of(request: Request) -> Form:
    """The fields of a form, in their order."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise Refusal(415, f"content-type: expected {_FORM}; got {kind[:60]!r}.", "content-type", _FORM)
    try:
        text = (await request.body()).decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise wrong("body", f"at most {_MOST_FIELDS} fields of a form in UTF-8", "something else") from None
    form: Form = {}
    for name, value in fields:
        form.setdefault(name, []).append(value)
    return form


def first(form: Form, name: str) -> str:
    return form.get(name, [""])[0]


def checked_rater(name: str) -> str:
    """A name that can stand in a list."""
    name = " ".join(name.split())
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise wrong("rater", f"a name of at most {_LONGEST_NAME} letters", name)
    return name
