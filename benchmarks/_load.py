"""A load generator: many connections in one thread, requests made beforehand, answers taken as bytes.

`closed`: each connection sends its next request when it has its answer, so that the rate is what the service can do.
`arrivals`: requests are due at random times (a Poisson process), whether the service keeps up or not, and are timed
from when they were due, so that the wait for a free connection counts.
"""

from __future__ import annotations

import gc
import random
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Load:
    """What came back."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    milliseconds: list[float] = field(default_factory=list)  # of the answers with status 200
    failed: int = 0  # connections that were closed
    answers: list[bytes] = field(default_factory=list)  # if they were asked for
    due: int = 0  # requests that were due, of open arrivals
    unsent: int = 0  # of these, those that were not sent because no connection was free

    @property
    def rate(self) -> float:
        """Answers with status 200 per second."""
        return self.statuses.get(200, 0) / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def http_request(method: str, path: str, kind: str = "", body: bytes = b"", more: Sequence[str] = ()) -> bytes:
    """A whole request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *more]
    lines += [f"Content-Type: {kind}"] if kind else []
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection:
    """A socket, and the answer that comes in."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.received = b""
        self.left = b""  # of the request
        self.since = 0.0

    def send(self, request: bytes, since: float) -> None:
        self.since = since
        self.left = request
        self.push()

    def push(self) -> None:
        try:
            sent = self.socket.send(self.left)
            self.left = self.left[sent:] if sent < len(self.left) else b""
        except BlockingIOError:
            pass

    def take(self) -> tuple[int, bytes] | None:
        """The status and body of an answer that is complete."""
        content = self.socket.recv(1 << 18)
        if not content:
            raise ConnectionError
        self.received += content
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return None
        place = self.received.lower().find(b"content-length:", 0, end)
        stop = self.received.find(b"\r\n", place)
        length = int(self.received[place + 15 : stop])
        if len(self.received) < end + 4 + length:
            return None
        status, body = int(self.received[9:12]), self.received[end + 4 : end + 4 + length]
        self.received = self.received[end + 4 + length :]
        return status, body


class _Generator:
    """Sends and takes. What it makes is no garbage: looking for some would only make answers late."""

    def __init__(self, address: tuple[str, int], requests: Sequence[bytes], connections: int, keep: bool) -> None:
        self.address, self.requests, self.keep = address, requests, keep
        self.result, self.number = Load(), 0
        gc.disable()
        self.poll = select.epoll()
        self.connections: dict[int, _Connection] = {}
        self.free: deque[_Connection] = deque(self._connect() for _ in range(connections))

    def _connect(self) -> _Connection:
        connection = _Connection(self.address)
        self.connections[connection.socket.fileno()] = connection
        self.poll.register(connection.socket, select.EPOLLIN)
        return connection

    def _send(self, since: float) -> None:
        connection = self.free.popleft()
        connection.send(self.requests[self.number % len(self.requests)], since)
        self.number += 1
        if connection.left:
            self.poll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    def _take(self, seconds: float) -> None:
        """Take what comes within the time."""
        for number, event in self.poll.poll(seconds):
            connection = self.connections[number]
            if event & select.EPOLLOUT:
                connection.push()
                if not connection.left:
                    self.poll.modify(connection.socket, select.EPOLLIN)
            if not event & ~select.EPOLLOUT:
                continue
            try:
                answer = connection.take()
            except (ConnectionError, OSError):
                self.result.failed += 1
                self._close(connection)
                self.free.append(self._connect())
                continue
            if answer is not None:
                self._note(connection, *answer)

    def _note(self, connection: _Connection, status: int, body: bytes) -> None:
        result = self.result
        result.statuses[status] = result.statuses.get(status, 0) + 1
        if status == 200:
            result.milliseconds.append(1000 * (time.perf_counter() - connection.since))
            if self.keep:
                result.answers.append(body)
        if connection.left:  # answered before it had read all of the request
            self._close(connection)
            connection = self._connect()
        self.free.append(connection)

    def _close(self, connection: _Connection) -> None:
        del self.connections[connection.socket.fileno()]
        self.poll.unregister(connection.socket)
        connection.socket.close()

    def close(self) -> Load:
        for connection in self.connections.values():
            connection.socket.close()
        self.poll.close()
        gc.enable()
        return self.result


def closed(
    address: tuple[str, int], requests: Sequence[bytes], seconds: float, connections: int = 16, keep: bool = False
) -> Load:
    """As many requests as are answered."""
    generator = _Generator(address, requests, connections, keep)
    started = time.perf_counter()
    end = started + seconds
    while time.perf_counter() < end:
        while generator.free:
            generator._send(time.perf_counter())
        generator._take(0.1)
    generator.result.seconds = time.perf_counter() - started
    return generator.close()


def arrivals(
    address: tuple[str, int],
    requests: Sequence[bytes],
    rate: float,
    seconds: float,
    connections: int = 256,
    patient: bool = True,
    keep: bool = False,
) -> Load:
    """Requests at a rate per second, whatever the service does; who is not patient does not wait for a connection."""
    generator, draw = _Generator(address, requests, connections, keep), random.Random(0)
    started = time.perf_counter()
    due = started + draw.expovariate(rate)
    waiting: deque[float] = deque()
    while (now := time.perf_counter()) < started + seconds:
        while due <= now:
            waiting.append(due)
            generator.result.due += 1
            due += draw.expovariate(rate)
        while waiting and generator.free:
            generator._send(waiting.popleft())
        if not patient:
            generator.result.unsent += len(waiting)
            waiting.clear()
        generator._take(0.0 if waiting and generator.free else max(0.0, min(due - now, 0.01)))
    generator.result.unsent += len(waiting)
    generator.result.seconds = time.perf_counter() - started
    return generator.close()
