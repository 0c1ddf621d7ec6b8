"""Refit keeps the questions of the trees and takes other answers."""

import numpy as np
import pytest

from podium.models.trees.named import MART, LambdaMART, RandomForest, RegressionTree

pytestmark = pytest.mark.usefixtures("large_sizes")


def test_values_move_part_of_the_way_by_hand():
    X, y = np.array([[0.0]] * 20 + [[1.0]] * 20), np.array([0.0] * 20 + [2.0] * 20)
    model = RegressionTree(max_leaf_nodes=2).fit(X, y, group=[40])  # start 1, leaves -1 and 1
    other = np.array([2.0] * 20 + [4.0] * 20)
    np.testing.assert_allclose(model.refit(X, other, group=[40], decay=0.0).predict(X[[0, -1]]), [2, 4])
    np.testing.assert_allclose(model.refit(X, other, group=[40], decay=0.75).predict(X[[0, -1]]), [0.5, 2.5])
    np.testing.assert_allclose(model.predict(X[[0, -1]]), [0, 2])  # the old one is as it was
    same = model.refit(X[:20], other[:20], group=[20], decay=0.0)
    np.testing.assert_allclose(same.predict(X[[0, -1]]), [2, 2])  # nobody reached the right leaf


def test_all_of_the_old_data_gives_the_old_model(splits):
    for kind in (MART, LambdaMART):
        model = kind(n_estimators=6, max_leaf_nodes=6).fit(splits.train)
        again = model.refit(splits.train, decay=0.0)
        np.testing.assert_allclose(again.forest_.value, model.forest_.value, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(again.forest_.threshold, model.forest_.threshold)
    np.testing.assert_array_equal(model.refit(splits.test, decay=1.0).predict(splits.test), model.predict(splits.test))


def test_other_data_moves_the_scores_towards_it(splits):
    model = LambdaMART(n_estimators=10, max_leaf_nodes=8).fit(splits.train)
    assert model.refit(splits.valid, decay=0.5).score(splits.valid) > model.score(splits.valid)


def test_what_cannot_be_is_refused(splits):
    model = LambdaMART(n_estimators=2).fit(splits.train)
    with pytest.raises(ValueError, match="decay must be from 0 to 1; got 2"):
        model.refit(splits.train, decay=2)
    plain = RegressionTree(min_samples_leaf=1).fit(np.eye(4), [0, 1, 0, 1], group=[4])
    with pytest.raises(ValueError, match="2 features"):
        plain.refit(np.zeros((4, 2)), [0, 1, 0, 1], group=[4])


def test_a_random_forest_is_the_mean_of_its_trees(splits):
    model = RandomForest(n_estimators=8, max_leaf_nodes=8).fit(splits.train)
    assert model.score(splits.test) > 0.5
    trees = model.forest_.split()
    assert len({tuple(tree.feature) for tree in trees}) > 4  # each saw other queries and features
    alone = [RandomForest(n_estimators=k, max_leaf_nodes=8).fit(splits.train).predict(splits.test) for k in (1, 2)]
    start = model.forest_.start
    second = 2 * (alone[1] - start) - (alone[0] - start)
    assert np.ptp(second) > 0
    np.testing.assert_allclose(model.refit(splits.train, decay=1.0).predict(splits.test), model.predict(splits.test))


def test_a_random_forest_has_the_same_bytes_for_any_number_of_threads(splits, tmp_path):
    for n_jobs in (1, 2):
        RandomForest(n_estimators=4, n_jobs=n_jobs).fit(splits.train).save(tmp_path / f"{n_jobs}.podium")
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()


def test_a_random_forest_refuses_more_trees(splits):
    with pytest.raises(ValueError, match="fit_more is not supported; fit with a larger n_estimators"):
        RandomForest(n_estimators=2, max_leaf_nodes=4).fit(splits.train).fit_more(splits.train, n_estimators=1)
