"""Guarding: a request from another origin, without the token or with a forged form is refused."""

from pathlib import Path

import pytest

from podium.server.errors import Refusal
from podium.server.http.guarding import COOKIE, Guard
from podium.server.settings import Entry, Settings

TOKEN = "0123456789abcdef"


def guard_of(**settings):
    return Guard(Settings({"m": Entry(Path("m.podium"))}, **settings))


def status_of(guard, path="/v1/models", **headers):
    try:
        guard.check(path, {name.encode(): value.encode("latin-1") for name, value in headers.items()})
    except Refusal as refusal:
        return refusal.status
    return 200


HOSTS = {"localhost": 200, "localhost:8080": 200, "127.0.0.1:1": 200, "[::1]:80": 200, "LOCALHOST": 200, "": 403}
HOSTS |= {
    "evil.example": 403,
    "localhost.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "0x7f.1": 403,
    "[::2]": 403,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
def test_a_local_service_answers_to_local_names_only(host, status):
    assert status_of(guard_of(), host=host) == status


def test_further_names_are_those_of_the_settings():
    guard = guard_of(hosts=("search.example",), host="0.0.0.0", token=TOKEN)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert status_of(guard, host="search.example:443", **bearer) == 200
    assert status_of(guard, host="other.example", **bearer) == 403
    anywhere = guard_of(host="0.0.0.0", token=TOKEN)
    assert status_of(anywhere, host="other.example", **bearer) == 200


def test_a_token_is_needed_everywhere_but_where_there_is_nothing_to_see():
    guard = guard_of(token=TOKEN)
    local = {"host": "localhost"}
    for authorization in (
        "",
        "Bearer",
        "Bearer ",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer ü",
    ):
        assert status_of(guard, authorization=authorization, **local) == 401
    assert status_of(guard, authorization=f"bearer  {TOKEN} ", **local) == 200
    for path in ("/healthz", "/readyz", "/login", "/static/page.css"):
        assert status_of(guard, path, **local) == 200
    for path in ("/healthz/", "/metrics", "/", "/staticx", "/openapi.json"):
        assert status_of(guard, path, **local) == 401


def test_a_cookie_is_as_good_as_the_token_it_was_given_for():
    guard = guard_of(token=TOKEN)
    for cookie, status in [
        (f"{COOKIE}={guard.session}", 200),
        (f"a=b; {COOKIE}={guard.session}", 200),
        (f"{COOKIE}={TOKEN}", 401),
        (f"{COOKIE}=", 401),
        ("\x01;;=", 401),
    ]:
        assert status_of(guard, host="localhost", cookie=cookie) == status
    assert TOKEN not in guard.session
    assert guard.session != guard_of(token=TOKEN[::-1]).session


def test_forms_are_of_this_service_and_of_this_visitor():
    guard, other = guard_of(), guard_of()
    value = guard.csrf_of("ann")
    assert guard.is_csrf("ann", value)
    assert not guard.is_csrf("bob", value)
    assert not guard.is_csrf("", guard.csrf_of(""))
    assert not other.is_csrf("ann", value)
    assert not guard.is_csrf("ann", "")
    assert not guard.is_csrf("ann", "ü")
