"""Running: the process from its start to its end.

Everything is loaded, warm and compiled before the port opens. At SIGTERM or Ctrl-C: /readyz says 503, no connection is
accepted any more, requests under way are answered, the log is written, and the process ends with 0.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from podium.server.http.application import Application
from podium.server.http.protocol import make_protocol
from podium.server.service import Service
from podium.server.settings import Settings

HEADERS = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("content-security-policy", "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"),
]
_SWITCH_SECONDS = 0.0005  # after which a thread lets the loop go on


class _Server(uvicorn.Server):
    """uvicorn, with our end: it returns where uvicorn would kill the process by the signal that it got."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        for number in caught:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self.force_exit = self._service.is_draining  # the second time
        self._service.is_draining = True
        self.should_exit = True


def run(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready(address)` is called when requests are taken."""
    listener = _listen(settings)  # a port that is taken is found out before minutes of loading
    try:
        service = Service(settings)
    except BaseException:
        listener.close()
        raise
    try:
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what was loaded lives as long as the process; looking at it again and again takes milliseconds
        lane = service.workers.loop_lane
        connection = make_protocol(
            lane.admits,
            lambda: service.measures.answered("rank", 429, 0.0),
            service.limits.connections,
            service.limits.read_seconds,
        )
        config = uvicorn.Config(
            Application(service),
            loop=_loop(),
            http=connection,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            headers=HEADERS,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(service.limits.drain_seconds) or 1,
            backlog=2048,
        )
        server = _Server(config, service, lambda: ready(_address(listener, settings)))
        server.run(sockets=[listener])
    finally:
        service.close()


def _loop() -> Any:
    try:
        import uvloop  # noqa: F401
    except ImportError:  # Windows
        return "asyncio"
    return "uvloop"


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        problem = f"{settings.host}, port {settings.port}, cannot be listened on: {error.strerror}"
        raise OSError(f"{problem}. Give another --port; 0 is any that is free.") from None
    listener.setblocking(False)
    return listener


def _address(listener: socket.socket, settings: Settings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}"
