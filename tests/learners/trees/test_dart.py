"""DART: trees are left out while a new one is grown, and come back smaller."""

import numpy as np
import pytest

from podium.learners.trees.training.boosting import BoostingRules, draw_dropped
from podium.models.trees.named import MART, LambdaMART

pytestmark = pytest.mark.usefixtures("large_sizes")


def test_how_many_trees_are_left_out(rng):
    assert len(draw_dropped(10, BoostingRules(), rng)) == 0
    assert len(draw_dropped(0, BoostingRules(drop_rate=0.5), rng)) == 0
    assert len(draw_dropped(10, BoostingRules(drop_rate=1.0, skip_drop=1.0), rng)) == 0
    assert len(draw_dropped(10, BoostingRules(drop_rate=1.0, skip_drop=0.0), rng)) == 10
    assert len(draw_dropped(10, BoostingRules(drop_rate=1.0, skip_drop=0.0, max_drop=3), rng)) == 3
    assert len(draw_dropped(10, BoostingRules(drop_rate=1e-9, skip_drop=0.0), rng)) == 1  # one at least


def test_two_trees_of_one_leafs_work_by_hand():
    """Squared error, two values, labels 0 and 1: one split tells all.

    The start is 1/2. The first tree asks for -1/2 and 1/2, all of it. The second is grown without the first, so it asks
    for the same, and gets half of it; the first comes back with half.
    """
    X, y = np.array([[0.0]] * 20 + [[1.0]] * 20), np.array([0.0] * 20 + [1.0] * 20)
    settings = {"n_estimators": 2, "learning_rate": 1.0, "max_leaf_nodes": 2, "drop_rate": 1.0, "skip_drop": 0.0}
    model = MART(**settings).fit(X, y, group=[40])
    leaves = model.forest_.left == np.arange(len(model.forest_.left))
    np.testing.assert_allclose(model.forest_.value[leaves], [-0.25, 0.25, -0.25, 0.25])
    np.testing.assert_allclose(model.predict(X), y)


def test_training_scores_and_curves_are_those_of_the_forest(splits):
    """What is left out and brought back again must be kept in step everywhere: also in the evaluation sets."""
    curves = []
    model = LambdaMART(n_estimators=15, max_leaf_nodes=8, drop_rate=0.3, skip_drop=0.2)
    model.fit(splits.train, eval_set=splits.test, callbacks=[lambda p: curves.append(p.evals["eval_0"]["ndcg@10"][-1])])
    assert model.score(splits.test) == pytest.approx(curves[-1], abs=1e-9)


def test_early_stopping_keeps_the_trees_as_they_were_at_the_best_step(splits):
    model = LambdaMART(n_estimators=60, max_leaf_nodes=8, drop_rate=0.3, skip_drop=0.2, learning_rate=0.5)
    model.fit(splits.train, eval_set=splits.test, early_stopping_rounds=5)
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert model.best_iteration_ == int(np.argmax(curve)) + 1 < len(curve)
    assert model.score(splits.test) == pytest.approx(max(curve), abs=1e-9)


def test_the_same_bytes_for_any_number_of_threads(splits, tmp_path):
    for n_jobs in (1, 2):
        model = LambdaMART(n_estimators=12, max_leaf_nodes=8, drop_rate=0.3, skip_drop=0.2, n_jobs=n_jobs)
        model.fit(splits.train).save(tmp_path / f"{n_jobs}.podium")
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()
