"""The HTTP protocol of uvicorn, with the time of arrival, bounds on what is incomplete, and errors in our shape.

When the queue of the loop is full, ranking is refused here, as soon as the head of a request is read: a service that
has too much to do must not spend its time on saying so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from podium.server.errors import Refusal

_MOST_HEAD = 32_000  # bytes of the address and the headers
_RANK = b":rank"


def _answer(refusal: Refusal, head: bytes) -> bytes:
    body = orjson.dumps(refusal.as_dict("none"))
    lines = [head, b"content-type: application/json", b"content-length: %d" % len(body)]
    return b"\r\n".join([*lines, b"x-content-type-options: nosniff", b"", body])


_BUSY = _answer(
    Refusal(429, "busy: too many requests are waiting. Try again later.", retry_after=1),
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1",
)
_BAD = _answer(
    Refusal(400, "expected a request in HTTP/1.1.", "request", "HTTP/1.1"),
    b"HTTP/1.1 400 Bad Request\r\nconnection: close",
)
_LONG = _answer(
    Refusal(413, f"expected at most {_MOST_HEAD:,} bytes of headers.", "headers"),
    b"HTTP/1.1 413 Content Too Large\r\nconnection: close",
)
_MANY = _answer(
    Refusal(503, "too many connections. Try again later.", retry_after=1),
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1",
)


def make_protocol(admits: Callable[[], bool], note_busy: Callable[[], None], connections: int, seconds: float) -> type:
    """The class of connections, for uvicorn."""

    class Connection(HttpToolsProtocol):
        """One connection."""

        _head_bytes = 0
        _is_refused = False  # the request whose body comes in was answered already
        _incomplete: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections:
                transport.write(_MANY)
                transport.close()
            self._wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_head(self) -> None:
            """A connection that sends no whole head within the time is closed."""
            self._stop_waiting()
            self._incomplete = self.loop.call_later(seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._incomplete is not None:
                self._incomplete.cancel()
                self._incomplete = None

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["state"]["arrived"] = self.loop.time()
            self._wait_for_head()
            self._head_bytes, self._is_refused = 0, False

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._stop_waiting()
            if self.url.endswith(_RANK) and (self.cycle is None or self.cycle.response_complete) and not admits():
                self._is_refused = True
                note_busy()
                self.transport.write(_BUSY)
                self._wait_for_head()  # of the next one; the body of this one may never come
                return
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            if not self._is_refused:
                super().on_body(body)

        def on_message_complete(self) -> None:
            if not self._is_refused:
                super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            self.transport.write(_LONG if self._head_bytes > _MOST_HEAD else _BAD)
            self.transport.close()

        def _count(self, n_bytes: int) -> None:
            self._head_bytes += n_bytes
            if self._head_bytes > _MOST_HEAD:
                raise ValueError("the head of the request is too long")  # httptools makes a parser error of it

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return Connection
