"""One request without a port: what the service would answer."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from podium.server.http.application import Application
from podium.server.service import Service
from podium.server.settings import Settings


def answer_once(settings: Settings, address: str) -> tuple[int, bytes]:
    """The status and body of a GET to an address such as "/v1/search?q=tea"."""
    if not address.startswith("/"):
        raise ValueError(f'expected an address such as "/v1/search?q=tea"; got {address!r}.')
    service = Service(settings)
    try:
        return asyncio.run(_get(Application(service), address, settings))
    finally:
        service.close()


async def _get(application: Application, address: str, settings: Settings) -> tuple[int, bytes]:
    parts = urlsplit(address)
    headers = [(b"host", b"localhost")]
    if settings.token is not None:
        headers.append((b"authorization", b"Bearer " + settings.token.encode()))
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": quote(parts.query, safe="=&%+").encode(),
        "root_path": "",
        "headers": headers,
        "server": ("localhost", 80),
        "client": ("localhost", 0),
        "state": {},
    }
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    await application(scope, receive, send)
    return status, body
