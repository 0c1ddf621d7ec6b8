"""Admission: how many requests are worked on at once, how many wait, and how long.

A lane has slots. A request that finds none waits in a queue of bounded length; if that is full, it is answered 429 with
Retry-After at once, and 503 when its deadline passes before its turn. How long the queue may be depends on what came
before: a burst may fill it; one that was not empty for a tenth of a second is shorter; and while many requests are
refused only few may wait, so that those that are accepted are answered soon, whatever arrives.

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
_WINDOW = 0.25  # seconds, in which refusals are counted
_MOST_REFUSED = 0.1  # of the requests of a window; more is an overload, which a single refusal begins
_SECONDS_IN_OVERLOAD = 0.0007  # of work on the loop that may wait
_SECONDS_PER_BURST = 0.02  # of work on the loop
_STANDING = 24  # requests that may wait all the time
_SECONDS_PER_PASS = 0.0003  # of the loop, until it reads its sockets again
_SECONDS_PER_REQUEST = 0.0001  # besides the work: HTTP
_MOST_PER_PASS = 8


class Lane:
    """Slots and a queue. Used by the thread of one event loop."""

    def __init__(self, slots: int, most_waiting: int) -> None:
        self.slots, self.most_waiting = slots, most_waiting
        self.free = slots
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._coming = 0  # requests whose head was read in this pass of the loop
        self._was_empty = 0.0  # when the queue was last seen empty, in monotonic time
        self._is_overloaded = False
        self._entered, self._refused, self._window = 0, 0, 0.0  # in the window that began then

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def is_full(self) -> bool:
        """Whether nobody more may wait; who asks will refuse a request then."""
        n_waiting = len(self._waiting) + max(0, self._coming - self.free)
        now = time.monotonic()
        if n_waiting == 0:
            self._was_empty = now
        if now - self._window > _WINDOW:
            is_just_over = now - self._window < 2 * _WINDOW
            self._is_overloaded = is_just_over and self._refused > _MOST_REFUSED * (self._entered + self._refused)
            self._entered, self._refused, self._window = 0, 0, now
        if self._is_overloaded:
            most = self.most_in_overload
        else:
            most = self.most_in_a_burst if now - self._was_empty <= _LONGEST_BURST else _STANDING
        if n_waiting < min(most, self.most_waiting):
            return False
        self._refused += 1
        if not self._is_overloaded:
            self._is_overloaded = True
            self._entered, self._refused, self._window = 0, 1, now
        return True

    @property
    def most_in_overload(self) -> int:
        return 2 * self.slots

    @property
    def most_in_a_burst(self) -> int:
        return self.most_waiting

    def admits(self) -> bool:
        """Whether a request may come whose head was read. It counts as waiting for the rest of the loop's pass."""
        if self.is_full():
            return False
        if self._coming == 0:
            asyncio.get_running_loop().call_soon(self._forget_coming)
        self._coming += 1
        return True

    def _forget_coming(self) -> None:
        self._coming = 0

    async def enter(self, deadline: float) -> None:
        """Wait for a slot, until `deadline` (the loop's time). Whoever enters must `leave`."""
        self._entered += 1
        if self.free and not self._waiting:
            self.free -= 1
            return
        if self.is_full():
            self._entered -= 1
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


class LoopLane(Lane):
    """The loop itself. Its slots are as many as it can work on in half a millisecond, by what the last ones cost."""

    def __init__(self, most_waiting: int) -> None:
        super().__init__(_MOST_PER_PASS, most_waiting)
        self._seconds = _SECONDS_PER_PASS / _MOST_PER_PASS  # per request, of the last ones
        self._used = 0  # slots of this pass

    @property
    def most_in_a_burst(self) -> int:
        return max(_STANDING, int(_SECONDS_PER_BURST / self._seconds))

    @property
    def most_in_overload(self) -> int:
        return max(2 * self.slots, int(_SECONDS_IN_OVERLOAD / self._seconds))

    async def enter_for(self, seconds: float, deadline: float) -> None:
        """Enter with work that takes so long. The slot is left at the end of the pass."""
        await self.enter(deadline)
        self._seconds += 0.05 * (seconds + _SECONDS_PER_REQUEST - self._seconds)
        if self._used == 0:
            asyncio.get_running_loop().call_soon(self._end_pass)
        self._used += 1

    def _end_pass(self) -> None:
        used, self._used = self._used, 0
        slots = max(1, min(_MOST_PER_PASS, round(_SECONDS_PER_PASS / self._seconds)))
        change = max(slots - self.slots, -used)  # slots in use elsewhere go later
        self.slots += change
        for _ in range(used + change):
            self.leave()


def _expire(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(Refusal(503, "the deadline passed before the request had its turn.", retry_after=1))


class Workers:
    """Both lanes: `run` chooses by what the work costs."""

    def __init__(self, threads: int, most_waiting: int, inline_seconds: float) -> None:
        self.inline_seconds = inline_seconds
        self.loop_lane, self.thread_lane = LoopLane(most_waiting), Lane(threads, most_waiting)
        self._threads: ThreadPoolExecutor = make_threads(threads, "podium-serve")

    async def run(self, work: Callable[[], Result], seconds: float, deadline: float) -> Result:
        """`work()`, on the loop if it takes few `seconds`: handing it to a thread costs more; else on a thread.

        Work on a thread that is not ready at the deadline is answered 503; its slot is free when it has ended.
        """
        loop = asyncio.get_running_loop()
        if seconds <= self.inline_seconds:
            await self.loop_lane.enter_for(seconds, deadline)
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
