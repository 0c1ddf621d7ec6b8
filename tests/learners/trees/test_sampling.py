"""Sampling: the shares are kept, and what GOSS draws stands for what it leaves out."""

import numpy as np
import pytest

from podium._runtime.random import stream_of
from podium.data.sharding.collective import ThreadGroup
from podium.data.sharding.shard import Shard
from podium.learners.trees.training.sampling import SamplingRules, draw_by_gradient, draw_features, draw_rows
from podium.models.trees.named import LambdaMART

pytestmark = pytest.mark.usefixtures("large_sizes")


def draw(sizes, goss, seed=0, by="row", offsets=None):
    gradients = np.asarray(sizes, np.float32).copy()
    hessians = np.ones_like(gradients)
    offsets = np.array([0, len(gradients)]) if offsets is None else np.asarray(offsets)
    rules = SamplingRules(goss=goss, goss_by=by)
    rows = draw_by_gradient(rules, Shard.whole(offsets), gradients, hessians, stream_of(seed, 0))
    return rows, gradients, hessians


def test_goss_keeps_the_largest_and_multiplies_the_others():
    sizes = [0.1, -9.0, 0.3, 8.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8]
    rows, gradients, hessians = draw(sizes, (0.2, 0.4))
    assert len(rows) == 6
    assert {1, 3} <= set(rows)
    assert (np.diff(rows) > 0).all()
    assert gradients[1] == -9
    assert gradients[3] == 8
    assert hessians[1] == 1
    for row in set(rows) - {1, 3}:  # each stands for two: (1 - 0.2) / 0.4
        assert gradients[row] == 2 * np.float32(sizes[row])
        assert hessians[row] == 2


def test_what_goss_draws_stands_for_the_rest_on_average(rng):
    sizes = rng.exponential(size=500).astype(np.float32)
    sums = []
    for seed in range(400):
        rows, gradients, hessians = draw(sizes, (0.1, 0.2), seed)
        assert hessians[rows].sum() == pytest.approx(500)
        sums.append(gradients[rows].astype(np.float64).sum())
    # the standard error of the mean of 400 draws of 100 rows, each weighted 4.5
    error = 4.5 * sizes.std() * np.sqrt(100) / np.sqrt(400)
    assert abs(np.mean(sums) - sizes.sum()) < 3 * error
    assert np.std(sums) > 0


def test_every_row_is_as_likely_to_be_drawn():
    hits = np.zeros(20)
    for seed in range(2_000):
        hits[draw([5.0] * 4 + [1.0] * 16, (0.2, 0.4), seed)[0]] += 1
    assert (hits[:4] == 2_000).all()
    assert abs(hits[4:] - 1_000).max() < 5 * np.sqrt(2_000 / 4)  # 8 of 16


def test_equal_gradients_fill_the_top_in_order_of_rows():
    rows, gradients, _ = draw([1.0] * 10, (0.3, 0.1))
    assert rows[:3].tolist() == [0, 1, 2]
    assert len(rows) == 4
    assert gradients[rows[3]] == 7  # the only one of seven


def test_goss_by_query_takes_whole_lists():
    sizes, offsets = [1.0] * 4 + [9.0] * 2 + [1.0] * 6, [0, 4, 6, 9, 12]  # sums 4, 18, 3, 3
    rows, gradients, _ = draw(sizes, (0.25, 0.25), by="query", offsets=offsets)
    assert {4, 5} <= set(rows)
    drawn = sorted(set(rows) - {4, 5})
    assert drawn in ([0, 1, 2, 3], [6, 7, 8], [9, 10, 11])
    assert (gradients[drawn] == 3).all()
    assert (gradients[[4, 5]] == 9).all()


def test_goss_without_a_top_or_without_a_rest():
    assert len(draw(np.arange(10.0), (0.0, 0.5))[0]) == 5
    rows, gradients, _ = draw(np.arange(10.0), (0.5, 0.5))
    assert len(rows) == 10
    assert gradients.tolist() == list(range(10))


def test_shares_of_rows_queries_and_features(rng):
    shard = Shard.whole(np.array([0, 10, 20, 30, 40]))
    derivatives = np.ones((2, 40), np.float32)
    assert draw_rows(SamplingRules(), shard, *derivatives, 0, 0) is None
    assert len(draw_rows(SamplingRules(row_fraction=0.25), shard, *derivatives, 0, 0)) == 10
    rows = draw_rows(SamplingRules(query_fraction=0.5), shard, *derivatives, 0, 0)
    assert len(rows) == 20
    assert len(set(rows // 10)) == 2
    assert draw_features(SamplingRules(feature_fraction=0.3), 10, rng).sum() == 3


def test_a_bootstrap_draws_as_many_queries_as_there_are_with_replacement():
    shard, hits = Shard.whole(np.arange(0, 101, 5)), np.zeros(20)
    for tree in range(500):
        counts = np.ones((2, 100), np.float32)
        rows = draw_rows(SamplingRules(bootstrap=True), shard, *counts, 0, tree)
        times = counts[0, ::5]
        assert times.sum() == 20
        assert rows.tolist() == np.flatnonzero(np.repeat(times, 5)).tolist()
        hits += times
    assert abs(hits - 500).max() < 5 * np.sqrt(500 * (1 - 1 / 20))  # the standard deviation of a binomial sum


RULES = [
    SamplingRules(row_fraction=0.3),
    SamplingRules(query_fraction=0.4, row_fraction=0.5),
    SamplingRules(goss=(0.2, 0.3)),
    SamplingRules(goss=(0.1, 0.3), goss_by="query"),
    SamplingRules(bootstrap=True),
]


@pytest.mark.parametrize("rules", RULES, ids=["rows", "queries and rows", "goss", "goss by query", "bootstrap"])
def test_ranks_draw_together_what_one_machine_draws(rules, rng):
    lengths = rng.integers(1, 9, 40)
    offsets, owners = np.concatenate([[0], np.cumsum(lengths)]), rng.choice([0, 1, 3], 40)  # rank 2 has no query
    gradients = rng.integers(-3, 4, offsets[-1]).astype(np.float32)  # many are equal
    expected = np.zeros((3, offsets[-1]), np.float32)
    expected[1], expected[2] = gradients, 1
    expected[0, draw_rows(rules, Shard.whole(offsets), expected[1], expected[2], 7, 3)] = 1

    def work(ranks):
        queries = np.flatnonzero(np.equal(owners, ranks.rank))
        shard = Shard.join(ranks, np.concatenate([[0], np.cumsum(lengths[queries])]), queries)
        drawn = np.zeros((3, len(shard.rows)), np.float32)
        drawn[1], drawn[2] = gradients[shard.rows], 1
        drawn[0, draw_rows(rules, shard, drawn[1], drawn[2], 7, 3)] = 1
        return [shard.gather_rows(values) for values in drawn]

    for drawn in ThreadGroup(4).run(work):
        np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("goss", [(0.5, 0.6), (0.2, 0.0), (-0.1, 0.5), (0.2,), 0.3, "no"])
def test_shares_that_cannot_be_are_refused(goss):
    with pytest.raises(ValueError, match="goss must be two fractions"):
        LambdaMART(goss=goss).fit(np.zeros((4, 1)), [0, 1, 0, 1], group=[4])


def test_goss_and_other_draws_are_not_mixed():
    with pytest.raises(ValueError, match="leave row_fraction"):
        LambdaMART(goss=(0.2, 0.1), row_fraction=0.5).fit(np.zeros((4, 1)), [0, 1, 0, 1], group=[4])
    with pytest.raises(ValueError, match="goss goes with step"):
        LambdaMART(goss=(0.2, 0.1), step="exact").fit(np.zeros((4, 1)), [0, 1, 0, 1], group=[4])
