"""Extremely randomised trees: one drawn threshold per feature and node, whatever else is asked of the trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import leaf_score
from scipy.sparse import csr_array

import podium
from podium._runtime.random import stream_of, uniform
from podium.learners.trees.scoring.forest import FOREST_ARRAYS

pytestmark = pytest.mark.usefixtures("large_sizes")


def grow_slowly(X, gradients, max_leaves, seed, tree):
    """Best leaf first, with unit hessians; X holds the numbers of its bins. Returns the leaf values of the rows."""
    stream, n = stream_of(seed, tree), len(X)

    def split_of(node, rows):
        best = (0.0, None)
        for f in range(X.shape[1]):
            own = X[rows, f]
            count = int(own.max() - own.min())
            if count == 0:
                continue
            at = int(own.min()) + min(int(uniform(stream, (node << 32) + f) * count), count - 1)
            left, right = rows[own <= at], rows[own > at]
            gain = leaf_score(gradients, np.ones(n), left, 0.0) + leaf_score(gradients, np.ones(n), right, 0.0)
            gain -= leaf_score(gradients, np.ones(n), rows, 0.0)
            if gain > best[0] + 1e-9:
                best = (gain, (left, right))
        return best

    leaves = [(0, np.arange(n))]
    found = {0: split_of(0, np.arange(n))}
    while len(leaves) < max_leaves:
        k = max(range(len(leaves)), key=lambda number: found[leaves[number][0]][0])
        _, sides = found[leaves[k][0]]
        if sides is None:
            break
        child = 2 * len(leaves) - 1
        leaves[k : k + 1] = [(child, sides[0]), (child + 1, sides[1])]
        found |= {node: split_of(node, rows) for node, rows in leaves[k : k + 2]}
    values = np.empty(n)
    for _, rows in leaves:
        values[rows] = -gradients[rows].mean()
    return values


@pytest.mark.parametrize("seed", range(4))
def test_trees_equal_those_of_the_plain_loop(seed):
    draws = np.random.default_rng(seed)
    X = draws.integers(0, 9, (60, 4)).astype(np.float32)
    X[:9] = np.arange(9)[:, None]  # every value has a bin
    y = np.abs(np.round(8 * (X[:, 0] + X[:, 1] * X[:, 2] + draws.random(60)))) / 8
    model = podium.RegressionTree(extra_trees=True, max_leaf_nodes=8, min_samples_leaf=1, random_state=seed)
    model.fit(X, y, group=[60])
    gradients = y.mean() - y
    np.testing.assert_allclose(model.predict(X), y.mean() + grow_slowly(X, gradients, 8, seed, 0), atol=1e-6)


def make_rows(seed, n=160):
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n, 7)).astype(np.float32)
    X[:, 3] = draws.integers(0, 9, n)  # categories
    X[:, 4:] *= draws.random((n, 3)) < 0.2  # sparse
    y = np.clip(np.round(X[:, 0] + np.cos(X[:, 3]) + X[:, 4] + draws.standard_normal(n) / 2 + 1), 0, 4)
    return X, y, np.arange(n) // 16


def forest_of(X, y, qid, **more):
    given = {"n_estimators": 4, "max_leaf_nodes": 8, "min_samples_leaf": 4, "extra_trees": True} | more
    model = podium.Boosted(objective="ranknet", **given).fit(X, y, qid=qid)
    return [getattr(model.forest_, name).tobytes() for name in FOREST_ARRAYS], model


COMBINATIONS = st.fixed_dictionaries(
    {
        "growth": st.sampled_from(["leaf", "level", "oblivious"]),
        "monotone": st.sampled_from([None, {0: 1, 1: -1}]),
        "categorical": st.sampled_from([None, [3]]),
        "query_fraction": st.sampled_from([1.0, 0.6]),
        "random_state": st.integers(0, 3),
    }
)


@given(COMBINATIONS, st.integers(0, 5), st.booleans())
@settings(max_examples=20, deadline=None)
def test_any_combination_gives_the_same_trees_for_any_threads_and_storage(combination, seed, with_missing):
    X, y, qid = make_rows(seed)
    if with_missing:
        X[::7, 2] = np.nan
    expected, model = forest_of(X, y, qid, **combination, n_jobs=1, bundle_features=False)
    assert model.forest_.n_trees == 4
    assert forest_of(X, y, qid, **combination, n_jobs=2, bundle_features=False)[0] == expected
    if not with_missing:
        assert forest_of(csr_array(X), y, qid, **combination, n_jobs=2, bundle_features=False)[0] == expected
    bundled = forest_of(X, y, qid, **combination, bundle_features=True)[1]
    np.testing.assert_allclose(bundled.predict(X), model.predict(X), atol=1e-12)
    if combination["monotone"]:
        low, high = np.tile(X[:40], (2, 1, 1))
        high[:, 0], high[:, 1] = low[:, 0] + 1, low[:, 1] - 1
        assert (model.predict(high) >= model.predict(low)).all()


@pytest.mark.parametrize("growth", ["leaf", "oblivious"])
def test_a_killed_training_ends_in_the_same_bytes(growth, tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 5:
            raise Killed

    X, y, qid = make_rows(1)
    options = {"extra_trees": True, "n_estimators": 8, "growth": growth, "min_samples_leaf": 4, "max_leaf_nodes": 8}
    whole = podium.LambdaMART(**options).fit(X, y, qid=qid)
    kept = {"checkpoint": tmp_path / "run.check", "every": 2}
    with pytest.raises(Killed):
        podium.LambdaMART(**options).fit(X, y, qid=qid, **kept, callbacks=[kill])
    resumed = podium.LambdaMART(**options).fit(X, y, qid=qid, **kept)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))


def test_the_seed_and_the_switch_change_the_trees_and_every_split_leaves_enough_rows():
    X, y, qid = make_rows(2)
    plain, _ = forest_of(X, y, qid, extra_trees=False)
    one, model = forest_of(X, y, qid, min_samples_leaf=10)
    assert one not in (plain, forest_of(X, y, qid, min_samples_leaf=10, random_state=1)[0])
    leaf = model.tree_contributions(X)
    assert all(np.unique(leaf[:, tree], return_counts=True)[1].min() >= 10 for tree in range(leaf.shape[1]))


def test_a_forest_of_random_trees_learns(splits):
    train, test = splits.train, splits.test
    model = podium.RandomForest(extra_trees=True, n_estimators=30, n_jobs=1).fit(train)
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg@10"])["ndcg@10"]
    assert model.score(test) > constant + 0.1
