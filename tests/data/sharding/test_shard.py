"""Shards: rows of several ranks have the numbers that they have on one machine."""

import numpy as np
import pytest

from podium._runtime.exact import exact_sum
from podium.data.sharding.collective import ThreadGroup
from podium.data.sharding.shard import Shard

LENGTHS = np.array([3, 1, 4, 2, 5])  # of five queries
OWNERS = np.array([1, 0, 1, 3, 0])  # rank 2 has none


def shard_of(ranks):
    queries = np.flatnonzero(np.equal(OWNERS, ranks.rank))
    return Shard.join(ranks, np.concatenate([[0], np.cumsum(LENGTHS[queries])]), queries)


def test_rows_are_numbered_as_on_one_machine():
    shards = ThreadGroup(4).run(shard_of)
    assert [shard.rows.tolist() for shard in shards] == [[3, 10, 11, 12, 13, 14], [0, 1, 2, 4, 5, 6, 7], [], [8, 9]]
    assert {(shard.n_queries, shard.n_rows) for shard in shards} == {(5, 15)}
    whole = Shard.whole(np.concatenate([[0], np.cumsum(LENGTHS)]))
    assert whole.is_whole
    assert whole.rows.tolist() == list(range(15))


def test_what_all_ranks_have_together(rng):
    values, mask = rng.normal(size=15) * 10.0 ** rng.integers(-8, 8, 15), rng.random((4, 3)) < 0.3

    def work(ranks):
        shard = shard_of(ranks)
        own = values[shard.rows]
        return shard.exact_sum(own), shard.gather_rows(own), shard.total(len(own)), shard.any(mask[ranks.rank])

    for total, gathered, count, somewhere in ThreadGroup(4).run(work):
        assert total == exact_sum(values)
        assert gathered.tolist() == values.tolist()
        assert count == 15
        assert somewhere.tolist() == mask.any(axis=0).tolist()


def test_a_sum_that_is_not_finite_is_infinite_on_all_ranks():
    def work(ranks):
        return shard_of(ranks).exact_sum(np.array([1.0, np.inf if ranks.rank == 3 else 0.0]))

    assert ThreadGroup(4).run(work) == [np.inf] * 4


@pytest.mark.parametrize(
    ("queries", "message"),
    [([[0, 1], [1]], "each on one rank"), ([[0, 3], [1]], "each on one rank"), ([[1, 0], [2]], "in the order")],
)
def test_numbers_that_do_not_fit_are_refused(queries, message):
    def work(ranks):
        own = queries[ranks.rank]
        return Shard.join(ranks, np.arange(len(own) + 1), own)

    with pytest.raises(ValueError, match=message):
        ThreadGroup(2).run(work)
