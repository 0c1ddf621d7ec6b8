"""Collectives: every rank gets the same numbers, and whatever goes wrong on one ends all."""

import threading

import numpy as np
import pytest

from podium.data.sharding.collective import CollectiveError, SoloCollective, ThreadGroup


def test_what_each_operation_gives():
    def work(ranks):
        mine = np.array([ranks.rank + 1, 10 * ranks.rank], np.int64)
        largest = ranks.largest(np.array([0.5, -float(ranks.rank)]))
        part = ranks.scatter_sum(np.array([1, 2, 3, 4], np.int64) + ranks.rank, np.array([0, 3, 3, 4]))
        return (
            ranks.sum(mine).tolist(),
            largest.tolist(),
            part.tolist(),
            [a.tolist() for a in ranks.gather(mine[: ranks.rank])],
        )

    results = ThreadGroup(3).run(work)
    assert [result[:2] for result in results] == [([1 + 2 + 3, 0 + 10 + 20], [0.5, 0.0])] * 3
    assert [result[2] for result in results] == [[3 * 1 + 3, 3 * 2 + 3, 3 * 3 + 3], [], [3 * 4 + 3]]
    assert [result[3] for result in results] == [[[], [2], [3, 20]]] * 3


def test_one_rank_is_a_collective_too():
    alone, values = SoloCollective(), np.array([3, 1], np.int64)
    assert alone.sum(values) is alone.largest(values) is alone.scatter_sum(values, np.array([0, 2])) is values
    assert alone.gather(values)[0] is values


def test_an_array_may_be_changed_once_it_was_passed():
    def work(ranks):
        values, sums = np.ones(1_000, np.int64), []
        for turn in range(50):
            values[:] = turn
            sums.append(int(ranks.sum(values).sum()))
        return sums

    assert ThreadGroup(4).run(work) == [[4 * 1_000 * turn for turn in range(50)]] * 4


def test_a_rank_that_fails_ends_the_others():
    seen = []

    def work(ranks):
        if ranks.rank == 1:
            raise KeyError("lost")
        try:
            ranks.sum(np.zeros(1, np.int64))
        except CollectiveError as error:
            seen.append(str(error))
            raise

    with pytest.raises(KeyError, match="lost"):
        ThreadGroup(3).run(work)
    assert len(seen) == 2
    assert all("another rank has failed" in text for text in seen)


def test_no_rank_waits_for_ever():
    def work(ranks):
        if ranks.rank == 1:
            ended.wait(10)
            return
        try:
            ranks.gather(np.zeros(1))
        finally:
            ended.set()

    ended = threading.Event()
    with pytest.raises(CollectiveError, match=r"has not answered within 0\.05 s"):
        ThreadGroup(2, timeout=0.05).run(work)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("sum", np.zeros(2, np.int64)), ("sum", np.zeros(3, np.int64))),
        (("sum", np.zeros(2, np.int64)), ("largest", np.zeros(2, np.int64))),
        (("largest", np.zeros(2, np.int64)), ("largest", np.zeros(2))),
        (("gather", np.zeros(2, np.int64)), ("gather", np.zeros(2))),
    ],
    ids=["shapes", "operations", "types", "types of what is gathered"],
)
def test_ranks_that_do_not_agree_get_an_error(one, other):
    def work(ranks):
        operation, values = (one, other)[ranks.rank]
        getattr(ranks, operation)(values)

    with pytest.raises(CollectiveError, match="they do not agree"):
        ThreadGroup(2).run(work)


def test_arrays_that_an_operation_does_not_take():
    ranks = ThreadGroup(1).collective(0)
    with pytest.raises(ValueError, match="sum takes arrays of int64; got float64"):
        ranks.sum(np.zeros(2))
    with pytest.raises(ValueError, match="gather takes flat arrays"):
        ranks.gather(np.zeros((2, 2)))
