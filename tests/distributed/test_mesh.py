"""The mesh: ranks of one process that are connected over loopback, and what happens when one is lost."""

import asyncio
import threading

import numpy as np
import pytest

pytest.importorskip("distributed")

from podium.data.sharding.collective import CollectiveError, ThreadGroup
from podium.distributed.collective import DaskCollective
from podium.distributed.mesh import Mesh, RankLost

LOOPBACK = "tcp://127.0.0.1:0"


def run(meshes, work, address=LOOPBACK):
    """`work(collective)` on a thread per rank; results, or the errors in their place."""
    addresses = [mesh.listen(address) for mesh in meshes]
    results = [None] * len(meshes)

    def rank(number):
        try:
            meshes[number].connect(addresses)
            results[number] = work(DaskCollective(meshes[number], len(meshes)))
        except CollectiveError as error:
            results[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(len(meshes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mesh in meshes:
        mesh.close()
    return results


def ranks(size, **options):
    return [Mesh(rank, 1, "secret", **options) for rank in range(size)]


def every_operation(collective):
    """What a training asks for, with arrays that are small, large, empty and of different lengths."""
    rng, answers = np.random.default_rng(collective.rank), []
    for n in (0, 1, 255, 30_000):
        values = rng.integers(-(2**40), 2**40, n)
        answers += [collective.sum(values), collective.largest(values), collective.largest(rng.normal(size=n))]
        ends = np.linspace(0, n, collective.size + 1).astype(np.int64)
        answers += [collective.scatter_sum(values, ends), *collective.gather(values[: n // (1 + collective.rank)])]
    answers.append(collective.sum(np.arange(6).reshape(2, 3) + collective.rank))
    return answers


@pytest.mark.parametrize("address", [LOOPBACK, "inproc://"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_operation_answers_as_among_threads(size, address):
    expected = ThreadGroup(size).run(every_operation)
    for wanted, got in zip(expected, run(ranks(size), every_operation, address), strict=True):
        for one, other in zip(wanted, got, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def test_results_are_the_callers():
    def change(collective):
        mine = np.arange(5)
        for result in (collective.sum(mine), *collective.gather(mine)):
            result += 1
        mine += 1
        return collective.sum(mine)

    for result in run(ranks(2), change, "inproc://"):
        np.testing.assert_array_equal(result, 2 * np.arange(1, 6))


def test_a_rank_that_ends_ends_the_others_at_once():
    def work(collective):
        collective.sum(np.ones(3, np.int64))
        if collective.rank == 1:
            collective.mesh.close()
        return [collective.sum(np.ones(3, np.int64)) for _ in range(3)]

    first, second, third = run(ranks(3), work)
    assert all(isinstance(error, RankLost) for error in (first, second, third))


def test_a_rank_at_work_is_waited_for_and_a_silent_one_is_not():
    def work(collective):
        if collective.rank == 1:
            if silent:  # as if the process had been stopped
                collective.mesh._lock.acquire()
            threading.Event().wait(0.9)
            if silent:
                collective.mesh._lock.release()
        return [collective.sum(np.ones(1, np.int64))[0] for _ in range(2)]

    silent = False
    assert run(ranks(2, timeout=0.6), work) == [[2, 2], [2, 2]]
    silent = True
    answers = run(ranks(2, timeout=0.6), work)
    assert "nothing was heard of it for 0.6 seconds" in str(answers[0])
    assert isinstance(answers[1], RankLost)


def test_ranks_that_disagree_stop():
    def work(collective):
        return collective.sum(np.ones(2 + collective.rank, np.int64))

    for error in run(ranks(2), work):
        assert isinstance(error, RankLost)


def test_another_generation_is_refused():
    meshes = [Mesh(0, 1, "secret", 1.0), Mesh(1, 2, "secret", 1.0)]
    errors = run(meshes, lambda collective: collective.sum(np.ones(1, np.int64)))
    assert all(isinstance(error, RankLost) for error in errors)
    assert any("generation" in str(error) for error in errors)


def test_nobody_without_the_token_is_let_in():
    answers = run([Mesh(0, 1, "secret", 0.5), Mesh(1, 1, "guess", 0.5)], lambda collective: collective.size)
    assert all(isinstance(error, RankLost) for error in answers)


def test_strangers_at_the_door_do_not_stop_a_training():
    first, second = ranks(2, timeout=5.0)
    address = first.listen(LOOPBACK)
    host, port = address.removeprefix("tcp://").split(":")

    async def knock():
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\xff" * 64)
        await writer.drain()
        return writer

    loop = asyncio.new_event_loop()
    stranger = loop.run_until_complete(knock())
    addresses = [address, second.listen(LOOPBACK)]
    threads = [threading.Thread(target=mesh.connect, args=(addresses,)) for mesh in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(first._comms) == [1]
    assert sorted(second._comms) == [0]
    stranger.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    first.close()
    second.close()
