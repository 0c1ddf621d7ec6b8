"""Admission: whatever arrives, few are worked on, few wait, the others are told so, and no slot is ever lost."""

import asyncio
import random
import threading
import time

import pytest

from podium.server import admission
from podium.server.admission import Lane, LoopLane, Workers
from podium.server.errors import Refusal


def soon(seconds=30.0):
    return asyncio.get_running_loop().time() + seconds


def test_those_who_find_no_slot_wait_in_order_and_those_beyond_are_refused():
    async def main():
        lane, entered = Lane(2, 3), []

        async def one(number):
            await lane.enter(soon())
            entered.append(number)

        tasks = [asyncio.ensure_future(one(number)) for number in range(6)]
        await asyncio.sleep(0)
        assert entered == [0, 1]
        assert lane.waiting == 3
        assert lane.is_full()
        with pytest.raises(Refusal) as refused:
            await tasks[5]
        assert refused.value.status == 429
        assert refused.value.retry_after == 1
        for _ in range(5):
            lane.leave()
        await asyncio.gather(*tasks[:5])
        assert entered == [0, 1, 2, 3, 4]
        assert lane.free == 2
        assert not lane.is_full()

    asyncio.run(main())


def test_who_waits_until_the_deadline_is_answered_503_and_takes_no_slot():
    async def main():
        lane = Lane(1, 5)
        await lane.enter(soon())
        with pytest.raises(Refusal) as late:
            await lane.enter(soon(0.0))
        assert late.value.status == 503
        lane.leave()
        assert lane.free == 1
        await lane.enter(soon())

    asyncio.run(main())


def test_a_queue_that_is_never_empty_is_shorter_than_that_of_a_burst(monkeypatch):
    now = 100.0
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)

    async def main():
        nonlocal now
        lane = Lane(1, 50)
        assert not lane.is_full()
        tasks = [asyncio.ensure_future(lane.enter(soon())) for _ in range(41)]
        await asyncio.sleep(0)
        assert lane.waiting == 40
        assert not lane.is_full()
        now += 0.2
        assert lane.is_full()
        for _ in range(40):
            lane.leave()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_while_many_are_refused_few_may_wait_and_calm_comes_back(monkeypatch):
    now = 100.0
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)

    async def main():
        nonlocal now
        lane = Lane(1, 10)
        assert not lane.is_full()
        tasks = [asyncio.ensure_future(lane.enter(soon())) for _ in range(11)]
        await asyncio.sleep(0)
        assert lane.waiting == 10
        assert lane.is_full()  # the overload begins
        for _ in range(8):
            lane.leave()
        assert lane.waiting == 2
        assert lane.is_full()
        lane.leave()
        assert not lane.is_full()
        now += 0.3  # two of two were refused in the window: it goes on
        tasks.append(asyncio.ensure_future(lane.enter(soon())))
        await asyncio.sleep(0)
        assert lane.waiting == 2
        assert lane.is_full()
        for _ in range(30):  # most are answered
            lane.leave()
            tasks.append(asyncio.ensure_future(lane.enter(soon())))
            await asyncio.sleep(0)
        now += 0.3
        tasks += [asyncio.ensure_future(lane.enter(soon())) for _ in range(3)]
        await asyncio.sleep(0)
        assert lane.waiting == 5
        assert not lane.is_full()
        for _ in range(6):
            lane.leave()
        await asyncio.gather(*tasks)
        assert (lane.free, lane.waiting) == (1, 0)

    asyncio.run(main())


def test_an_overload_of_long_ago_is_forgotten(monkeypatch):
    now = 100.0
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)

    async def main():
        nonlocal now
        lane = Lane(1, 3)
        tasks = [asyncio.ensure_future(lane.enter(soon())) for _ in range(9)]
        await asyncio.sleep(0)
        outcomes = [task.exception() for task in tasks if task.done()]
        assert sum(isinstance(one, Refusal) for one in outcomes) == 5
        for _ in range(4):
            lane.leave()
        await asyncio.gather(*tasks, return_exceptions=True)
        now += 60
        tasks = [asyncio.ensure_future(lane.enter(soon())) for _ in range(4)]
        await asyncio.sleep(0)
        assert lane.waiting == 3
        for _ in range(4):
            lane.leave()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_requests_whose_heads_are_read_in_one_pass_count_as_waiting_until_it_ends():
    async def main():
        lane = Lane(2, 3)
        assert [lane.admits() for _ in range(6)] == [True] * 5 + [False]
        await asyncio.sleep(0)
        assert lane.admits()

    asyncio.run(main())


def test_the_loop_takes_as_many_per_pass_as_fit_into_its_time_and_loses_no_slot():
    async def main():
        for seconds, slots in [(0.0, 3), (0.0002, 1), (0.002, 1)]:
            lane, entered = LoopLane(1_000), []

            async def one(number, lane=lane, seconds=seconds, entered=entered):
                await lane.enter_for(seconds, soon())
                entered.append(number)

            for _ in range(20):
                await asyncio.gather(*(one(number) for number in range(20)))
            assert entered == [*range(20)] * 20
            for _ in range(3):
                await asyncio.sleep(0)
            assert (lane.slots, lane.free, lane.waiting) == (slots, slots, 0)

    asyncio.run(main())


def test_no_slot_is_lost_in_any_order_of_entering_leaving_cancelling_and_lateness():
    draw = random.Random(3)

    async def main():
        for _ in range(200):
            lane, inside = Lane(draw.randint(1, 3), draw.randint(1, 4)), 0
            tasks: list[asyncio.Task[None]] = []
            most = 0

            async def one(deadline, lane=lane):
                nonlocal inside, most
                await lane.enter(deadline)
                inside += 1
                most = max(most, inside)
                try:
                    for _ in range(draw.randint(0, 3)):
                        await asyncio.sleep(0)
                finally:
                    inside -= 1
                    lane.leave()

            for _ in range(draw.randint(1, 30)):
                action = draw.choice(["enter", "enter", "late", "cancel", "pass"])
                if action == "cancel" and tasks:
                    draw.choice(tasks).cancel()
                elif action == "pass":
                    await asyncio.sleep(0)
                else:
                    tasks.append(asyncio.ensure_future(one(soon(0.0 if action == "late" else 30.0))))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, (type(None), Refusal, asyncio.CancelledError)) for one in outcomes)
            assert (lane.free, lane.waiting, inside) == (lane.slots, 0, 0)
            assert most <= lane.slots

    asyncio.run(main())


def test_short_work_is_done_on_the_loop_and_long_work_on_a_thread():
    async def main():
        workers = Workers(2, 10, inline_seconds=0.001)
        here = threading.get_ident()
        assert await workers.run(threading.get_ident, 0.0001, soon()) == here
        assert await workers.run(threading.get_ident, 1.0, soon()) != here
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0, 1.0, soon())
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0, 0.0, soon())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert workers.loop_lane.free == workers.loop_lane.slots
        assert workers.thread_lane.free == 2
        workers.close()

    asyncio.run(main())


def test_work_that_outlives_its_deadline_keeps_its_slot_until_it_ends():
    async def main():
        workers, goes_on = Workers(1, 1, 0.001), threading.Event()
        with pytest.raises(Refusal) as late:
            await workers.run(goes_on.wait, 1.0, soon(0.01))
        assert late.value.status == 503
        assert "longer than its deadline" in late.value.message
        assert workers.thread_lane.free == 0
        goes_on.set()
        until = time.monotonic() + 10
        while workers.thread_lane.free == 0 and time.monotonic() < until:
            await asyncio.sleep(0)
        assert workers.thread_lane.free == 1
        workers.close()

    asyncio.run(main())
