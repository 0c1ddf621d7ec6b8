"""A mesh of ranks: each has a connection to every other one, by the transport of the Dask cluster.

Addresses, TLS and firewalls are those of the cluster. The event loop runs in the thread that waits for an exchange,
which saves two changes of thread per message (measured: 0.2 instead of 0.3 ms for 2 kB). Between exchanges another
thread lets it run for a moment every few seconds, to tell the other ranks that this one is alive and at work.

A rank that has not been heard of for `timeout` seconds is lost, and so is one whose connection has closed. Nothing is
repaired: the mesh is closed, which tells all others, and a new generation begins with a new mesh.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar

from podium._runtime.compiler import Array
from podium._runtime.threads import start_thread
from podium.data.sharding.collective import TIMEOUT, CollectiveError
from podium.distributed.messages import BEAT, Expected, MessageError, decode, encode, is_beat

_BEATS = 6  # messages of a rank at work within the timeout
_Result = TypeVar("_Result")


class RankLost(CollectiveError):
    """Another rank does not answer any more: the generation has ended."""

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(f"rank {rank} is lost ({reason})")
        self.rank = rank


class Mesh:
    """The connections of one rank in one generation."""

    def __init__(self, rank: int, generation: int, token: str, timeout: float = TIMEOUT) -> None:
        """token: a secret of the generation, without which nobody is let in."""
        self.rank, self.generation, self.timeout, self._token = rank, generation, timeout, token
        self.bytes_sent, self.exchanges = 0, 0
        self.is_at_work = True  # whether others may wait for this rank; one that does nothing does not say otherwise
        self._loop, self._lock = asyncio.new_event_loop(), threading.Lock()
        self._comms: dict[int, Any] = {}
        self._copies = False
        self._heard: dict[int, float] = {}
        self._silent: set[int] = set()  # who was given up because nothing was heard
        self._listener: Any = None
        self._watched: tuple[int, float] | None = None  # who is waited for, and since when
        self._closed = threading.Event()

    # --- beginning and end

    def listen(self, address: str, **security: Any) -> str:
        """Wait for other ranks at an address such as `tcp://10.0.0.7:0`; returns the one to connect to."""
        self._copies = address.startswith("inproc")  # within a process messages are handed over as they are
        return self._run(self._listen(address, security))

    def connect(self, addresses: Sequence[str], **security: Any) -> None:
        """Connect to ranks below, and wait until those above have connected."""
        self._run(self._connect(addresses, security))
        self._listener.stop()
        if len(addresses) > 1:
            start_thread(self._beat, "podium-beat")

    def close(self) -> None:
        """End all connections: a rank that waits for this one learns so at once."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            if self._listener is not None:
                self._listener.stop()
            for comm in self._comms.values():
                comm.abort()
            self._loop.run_until_complete(asyncio.sleep(0))  # closed sockets leave the loop
            self._loop.close()

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the generation ends, but not longer than this; whether it has ended."""
        return self._closed.wait(seconds)

    # --- exchanging

    def exchange(self, outgoing: Mapping[int, Sequence[Array]], expected: Mapping[int, Sequence[Expected]]) -> Any:
        """Send arrays to other ranks and receive, from each rank of `expected`, arrays like these: {rank: arrays}.

        All ranks call this in the same order.
        """
        if not outgoing and not expected:
            return {}
        number, self.exchanges = self.exchanges, self.exchanges + 1
        messages = {rank: encode(self.generation, number, arrays, self._copies) for rank, arrays in outgoing.items()}
        self.bytes_sent += sum(array.nbytes for arrays in outgoing.values() for array in arrays)
        answers = self._run(self._exchange(messages, expected))
        result = {}
        for rank, answer in answers.items():
            try:
                result[rank] = decode(answer, self.generation, number, expected[rank])
            except MessageError as error:
                self.close()
                raise RankLost(rank, str(error)) from error
        return result

    async def _exchange(self, messages: Mapping[int, Any], expected: Mapping[int, Any]) -> dict[int, Any]:
        for rank, message in messages.items():
            await self._write(rank, message)
        answers = {}
        for rank in expected:
            self._watched = rank, monotonic()
            watch = self._loop.call_later(self.timeout / _BEATS, self._refuse_silence, *self._watched)
            answers[rank] = await self._read(rank)
            self._watched = None
            watch.cancel()
        for rank in messages:
            await self._flush(rank, began=monotonic())
        return answers

    async def _write(self, rank: int, message: Any) -> None:
        try:
            await self._comms[rank].write(message)
        except OSError as error:
            raise RankLost(rank, f"its connection is closed: {error}") from error

    async def _read(self, rank: int) -> Any:
        """The next message of a rank, beats left out."""
        while True:
            try:
                message = await self._comms[rank].read(deserializers=())
            except OSError as error:
                raise RankLost(rank, self._reason(rank, error)) from error
            self._heard[rank] = monotonic()
            if not is_beat(message):
                return message

    def _refuse_silence(self, rank: int, began: float) -> None:
        """Close the connection to a rank that has been silent for too long; what waits for it is told so."""
        if self._watched != (rank, began):
            return
        if monotonic() - max(began, self._heard.get(rank, 0.0)) >= self.timeout:
            self._silent.add(rank)
            self._comms[rank].abort()
        else:
            self._loop.call_later(self.timeout / _BEATS, self._refuse_silence, rank, began)

    def _reason(self, rank: int, error: OSError) -> str:
        if rank in self._silent:
            return f"nothing was heard of it for {self.timeout:g} seconds"
        return f"its connection is closed: {error}"

    async def _flush(self, rank: int, began: float) -> None:
        """Let a message leave: no loop runs until the next exchange, and the other rank waits for it."""
        stream = getattr(self._comms[rank], "stream", None)
        while stream is not None and stream.writing() and not stream.closed():
            if monotonic() - began > self.timeout:
                raise RankLost(rank, f"it took nothing for {self.timeout:g} seconds")
            await asyncio.sleep(0.0002)

    # --- the loop

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run the loop in this thread until the work is done; whatever goes wrong ends the generation."""
        with self._lock:
            if self._closed.is_set():
                work.close()
                raise RankLost(self.rank, "its generation has ended")
            try:
                return self._loop.run_until_complete(work)
            except BaseException as error:
                failure = error
        self.close()
        if isinstance(failure, OSError):  # a timeout is one too
            raise RankLost(self.rank, f"not all ranks were there within {self.timeout:g} seconds") from failure
        raise failure

    def _beat(self) -> None:
        """Every few seconds in which no exchange runs, say that this rank is alive."""
        while not self._closed.wait(self.timeout / _BEATS):
            if self.is_at_work and self._lock.acquire(blocking=False):
                try:
                    if not self._closed.is_set():
                        self._loop.run_until_complete(self._send_beats())
                finally:
                    self._lock.release()

    async def _send_beats(self) -> None:
        for comm in self._comms.values():
            try:
                if not comm.closed():
                    await comm.write(BEAT)
            except OSError:
                continue  # the next exchange finds it closed

    # --- connecting

    async def _listen(self, address: str, security: Mapping[str, Any]) -> str:
        from distributed.comm import listen

        self._arrived: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        self._listener = await listen(address, self._welcome, deserialize=False, **security)
        return str(self._listener.contact_address)

    async def _welcome(self, comm: Any) -> None:
        """A connection from outside: it must know the token and say which rank it is."""
        hello = await asyncio.wait_for(comm.read(deserializers=()), self.timeout)
        if not isinstance(hello, Mapping) or hello.get("token") != self._token or type(hello.get("rank")) is not int:
            comm.abort()
            return
        await comm.write({"rank": self.rank, "token": self._token})
        self._arrived.put_nowait((hello["rank"], comm))

    async def _connect(self, addresses: Sequence[str], security: Mapping[str, Any]) -> None:
        async with asyncio.timeout(self.timeout):
            below = [self._reach(rank, addresses[rank], security) for rank in range(self.rank)]
            above = [self._await_rank() for _ in range(self.rank + 1, len(addresses))]
            for rank, comm in await asyncio.gather(*below, *above):
                self._comms[rank] = comm
        if sorted(self._comms) != [rank for rank in range(len(addresses)) if rank != self.rank]:
            raise RankLost(self.rank, f"the ranks {sorted(self._comms)} have connected to it")
        for comm in self._comms.values():
            comm.allow_offload = False  # messages are bytes: there is nothing to be done on other threads

    async def _await_rank(self) -> tuple[int, Any]:
        return await self._arrived.get()

    async def _reach(self, rank: int, address: str, security: Mapping[str, Any]) -> tuple[int, Any]:
        from distributed.comm import connect

        comm = await connect(address, timeout=self.timeout, deserialize=False, **security)
        await comm.write({"rank": self.rank, "token": self._token})
        hello = await comm.read(deserializers=())
        if not isinstance(hello, Mapping) or hello.get("rank") != rank or hello.get("token") != self._token:
            comm.abort()
            raise RankLost(rank, "another one answered at its address")
        return rank, comm
