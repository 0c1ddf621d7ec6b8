"""Admission: how many requests are worked on at once, how many wait, and how long.

A lane has slots. A request that finds none waits in a queue of bounded length; if that is full, it is answered 429 with
Retry-After at once, and 503 when its deadline passes before its turn. A burst may fill the queue. A queue that was not
empty for a tenth of a second is no burst: from then on only few may wait, so that those that are accepted are answered
soon, whatever arrives.

The event loop is a lane whose slots are free again with each pass: between short computations it reads its sockets, and
so knows what has arrived before it works on. Threads are a lane with one slot each.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from podium._runtime.threads import make_threads
from podium.server.errors import Refusal

Result = TypeVar("Result")
_LONGEST_BURST = 0.1  # seconds
_FEW = 2  # times the slots
_SLOTS_PER_PASS = 8  # short computations, until the loop reads its sockets again


class Lane:
    """Slots and a queue. Used by the thread of one event loop."""

    def __init__(self, slots: int, most_waiting: int) -> None:
        self.slots, self.most_waiting = slots, most_waiting
        self.free = slots
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._was_empty = 0.0  # when the queue was last seen empty, in the time of loops

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether nobody more may wait."""
        n_waiting = len(self._waiting)
        if n_waiting == 0:
            self._was_empty = time.monotonic()
            return False
        return n_waiting >= self.most_waiting or (
            n_waiting >= _FEW * self.slots and time.monotonic() - self._was_empty > _LONGEST_BURST
        )

    async def enter(self, deadline: float) -> None:
        """Wait for a slot, until `deadline` (the loop's time). Whoever enters must `leave`."""
        if self.free and not self._waiting:
            self.free -= 1
            return
        if self.is_full:
            raise Refusal(429, f"busy: {len(self._waiting)} requests are waiting. Try again later.", retry_after=1)
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        late = loop.call_at(deadline, _expire, turn)
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()  # its turn came while it was cancelled
            raise
        finally:
            late.cancel()

    def leave(self) -> None:
        """Give the slot to the next one that waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


def _expire(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(Refusal(503, "the deadline passed before the request had its turn.", retry_after=1))


class Workers:
    """Both lanes: `run` chooses by what the work costs."""

    def __init__(self, threads: int, most_waiting: int, inline_seconds: float) -> None:
        self.inline_seconds = inline_seconds
        self.loop_lane, self.thread_lane = Lane(_SLOTS_PER_PASS, most_waiting), Lane(threads, most_waiting)
        self._threads: ThreadPoolExecutor = make_threads(threads, "podium-serve")

    async def run(self, work: Callable[[], Result], seconds: float, deadline: float) -> Result:
        """`work()`, on the loop if it takes few `seconds`: handing it to a thread costs more; else on a thread.

        Work on a thread that is not ready at the deadline is answered 503; its slot is free when it has ended.
        """
        loop = asyncio.get_running_loop()
        if seconds <= self.inline_seconds:
            await self.loop_lane.enter(deadline)
            loop.call_soon(self.loop_lane.leave)
            return work()
        await self.thread_lane.enter(deadline)
        running = loop.run_in_executor(self._threads, work)
        running.add_done_callback(self._ended)
        left = max(0.0, deadline - loop.time())
        try:
            return await asyncio.wait_for(asyncio.shield(running), left)
        except TimeoutError:
            late = f"the request took longer than its deadline, {math.ceil(left * 1000):,} ms after its turn came."
            raise Refusal(503, late, retry_after=1) from None

    def _ended(self, running: asyncio.Future[Result]) -> None:
        self.thread_lane.leave()
        if not running.cancelled():
            running.exception()  # seen, also where nobody waits any more

    @property
    def waiting(self) -> int:
        return self.loop_lane.waiting + self.thread_lane.waiting

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
