"""The application: HTTP in front of the service.

Ranking has a path of its own, because there the frame would take longer than the scores; everything else is FastAPI.
Both share the guard, the ids of requests, the measures and the one shape of errors.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson
from fastapi import FastAPI

from podium.server.errors import FAILED, Refusal
from podium.server.http.bodies import ARROW, JSON, RAW, ranked_arrow, ranked_json
from podium.server.http.guarding import Guard
from podium.server.http.routes import make_routes
from podium.server.page.rendering import HTML, error_page, prefers_html
from podium.server.service import Ranking, Service

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

logger = logging.getLogger("podium.serve")
_MODELS, _RANK = "/v1/models/", ":rank"
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")


class Gone(Exception):
    """The caller has closed the connection; nobody waits for an answer."""


class Application:
    """An ASGI application."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.guard = Guard(service.settings)
        self.routes: FastAPI = make_routes(service, self.guard)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        loop = asyncio.get_running_loop()
        arrived = scope.get("state", {}).get("arrived") or loop.time()
        headers = dict(scope["headers"])
        theirs = headers.get(b"x-request-id", b"")
        request = theirs.decode() if _REQUEST_ID.fullmatch(theirs) else self.service.request_id()
        sent = _Sent(send, request)
        path = scope["path"]
        is_rank = path.startswith(_MODELS) and path.endswith(_RANK) and scope["method"] == "POST"
        try:
            self.guard.check(path, headers)
            if is_rank:
                deadline = arrived + self._deadline(headers)
                await self._rank(path[len(_MODELS) : -len(_RANK)], headers, receive, sent, arrived, deadline)
            else:
                scope["podium"] = {"request": request, "arrived": arrived, "deadline": self._deadline(headers)}
                limited = _Limited(receive, self._refused_length(headers), self.service.limits.read_seconds)
                await self.routes(scope, limited, sent)
        except Refusal as refusal:
            await answer_refusal(sent, refusal, request, headers)
        except Gone:
            pass
        except Exception:
            logger.exception("request %s failed", request)
            await answer_refusal(sent, Refusal(500, FAILED), request, headers)
        route = "rank" if is_rank else route_of(scope)
        self.service.measures.answered(route, sent.status, loop.time() - arrived)

    async def _rank(
        self, name: str, headers: dict[bytes, bytes], receive: Receive, send: _Sent, arrived: float, deadline: float
    ) -> None:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
        limited = _Limited(receive, self._refused_length(headers), self.service.limits.read_seconds)
        body = await limited.body()
        user = headers.get(b"x-user")
        ranking = await self.service.rank(
            name, kind, body, send.request, arrived, deadline, None if user is None else user.decode("latin-1")
        )
        accepted = headers.get(b"accept", b"*/*").decode("latin-1")
        wanted = next((known for known in (RAW, ARROW, JSON) if known in accepted), kind)
        await send.answer(200, wanted, _ranked_body(wanted, ranking), _rank_headers(ranking))

    def _refused_length(self, headers: dict[bytes, bytes]) -> int:
        """The most bytes that a body may have; a longer one that says so is refused before it comes."""
        most = self.service.limits.body_bytes
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            raise _too_long(most)
        return most

    def _deadline(self, headers: dict[bytes, bytes]) -> float:
        """Seconds that the caller waits, at most those of the service."""
        most = self.service.limits.deadline_seconds
        text = headers.get(b"x-deadline-ms")
        if text is None:
            return most
        if not text.isdigit() or not 0 < int(text) < 10**9:
            value = text[:20].decode("latin-1")
            expected = "milliseconds, an integer from 1"
            raise Refusal(400, f"x-deadline-ms: expected {expected}; got {value!r}.", "x-deadline-ms", expected)
        return min(most, int(text) / 1000)


class _Sent:
    """Sends, and remembers the status."""

    def __init__(self, send: Send, request: str) -> None:
        self._send, self.request, self.status = send, request, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), (b"x-request-id", self.request.encode())]
        await self._send(message)

    async def answer(self, status: int, kind: str, body: bytes, more: list[tuple[bytes, bytes]]) -> None:
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *more]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


class _Limited:
    """Receives a body, up to a number of bytes and within a time."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive, self._most, self._seconds = receive, most, seconds
        self._got, self._is_whole = 0, False
        self._until = asyncio.get_running_loop().time() + seconds

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout_at(None if self._is_whole else self._until):
                message = await self._receive()
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {self._seconds:g} seconds.", "body") from None
        self._got += len(message.get("body", b""))
        if self._got > self._most:
            raise _too_long(self._most)
        self._is_whole = not message.get("more_body")
        return message

    async def body(self) -> bytes:
        parts = []
        while not self._is_whole:
            message = await self()
            if message["type"] == "http.disconnect":
                raise Gone
            parts.append(message.get("body", b""))
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(most: int) -> Refusal:
    return Refusal(413, f"body: expected at most {most:,} bytes. Send several requests.", "body", f"{most:,} bytes")


def _ranked_body(kind: str, ranking: Ranking) -> bytes:
    if kind == RAW:
        return ranking.scores.astype("<f8", copy=False).tobytes()
    if kind == ARROW:
        return ranked_arrow(ranking.scores, ranking.order)
    version = ranking.version
    facts: dict[str, Any] = {"request": ranking.request, "version": version.label, "role": ranking.role}
    facts |= {"model": version.digest}
    facts |= {"microseconds": ranking.microseconds}
    if version.generation is not None:
        facts["generation"] = version.generation
    return ranked_json(facts, ranking.scores, ranking.order, ranking.asked.ids)


def _rank_headers(ranking: Ranking) -> list[tuple[bytes, bytes]]:
    """What the JSON says, for answers that are only numbers."""
    stages = ", ".join(f"{name};dur={value / 1000:g}" for name, value in ranking.microseconds.items())
    version = ranking.version
    return [(b"x-model-sha256", version.digest.encode()), (b"server-timing", stages.encode())]


async def answer_refusal(send: _Sent, refusal: Refusal, request: str, headers: dict[bytes, bytes]) -> None:
    """The one shape of errors, or a page for people; not where an answer has begun."""
    if send.status:
        return
    more = [] if refusal.retry_after is None else [(b"retry-after", str(refusal.retry_after).encode())]
    if refusal.status in (408, 413):
        more.append((b"connection", b"close"))  # what is left of the body is not read
    if refusal.status == 401:
        more.append((b"www-authenticate", b"Bearer"))
    if prefers_html(headers.get(b"accept", b"").decode("latin-1")):
        await send.answer(refusal.status, HTML, error_page(refusal, request), more)
        return
    await send.answer(refusal.status, JSON, orjson.dumps(refusal.as_dict(request)), more)


def route_of(scope: Message) -> str:
    """The name of the route, of which there are few, for the measures."""
    route = scope.get("route")
    return getattr(route, "path", "none")
