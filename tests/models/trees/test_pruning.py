"""Pruning leaves out trees that validation data can do without."""

import numpy as np
import pytest

import podium
from podium.learners.trees.scoring.forest import Forest
from podium.models.trees.named import LambdaMART

pytestmark = pytest.mark.usefixtures("large_sizes")


@pytest.fixture(scope="module")
def model(splits):
    return LambdaMART(n_estimators=30, max_leaf_nodes=8, learning_rate=0.3).fit(splits.train)


def test_a_tree_that_does_nothing_goes_first(model, splits):
    trees = model.forest_.split()
    padded = LambdaMART(n_estimators=30, max_leaf_nodes=8, learning_rate=0.3).fit(splits.train)
    padded.forest_ = Forest.join(
        [*trees[:5], trees[7].times(0.0), *trees[5:]], model.forest_.start, splits.train.n_features
    )
    pruned = padded.prune(splits.valid, tolerance=0.0).model
    assert pruned.forest_.n_trees < 31
    assert not any((tree.value == 0).all() for tree in pruned.forest_.split())


def test_quality_stays_within_the_tolerance(model, splits):
    before = podium.evaluate(model.predict(splits.valid), splits.valid, metrics=["map"])["map"]
    strict = model.prune(splits.valid, metric="map")
    loose = model.prune(splits.valid, metric="map", tolerance=0.05)
    for pruning, least in ((strict, before), (loose, before - 0.05)):
        after = podium.evaluate(pruning.model.predict(splits.valid), splits.valid, metrics=["map"])["map"]
        assert after >= least - 1e-12
        assert pruning.steps[-1].value == pytest.approx(after)
        assert pruning.steps[0].n_trees == 30
        assert [step.n_trees for step in pruning.steps] == sorted((s.n_trees for s in pruning.steps), reverse=True)
    assert loose.model.forest_.n_trees <= strict.model.forest_.n_trees < 30
    assert model.forest_.n_trees == 30


def test_the_table_can_be_read_and_the_model_saved(model, splits, tmp_path):
    pruning = model.prune(splits.valid, tolerance=0.02)
    lines = str(pruning).splitlines()
    assert lines[0].split()[:2] == ["trees", "ndcg@10"]
    assert len(lines) == len(pruning.steps) + 1
    assert pruning.as_dict()["steps"][0]["n_trees"] == 30
    pruning.model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(
        podium.load(tmp_path / "m.podium").predict(splits.test), pruning.model.predict(splits.test)
    )


def test_a_base_model_still_counts(splits):
    base = LambdaMART(n_estimators=5, max_leaf_nodes=4).fit(splits.train)
    model = LambdaMART(n_estimators=5, max_leaf_nodes=4, init=base).fit(splits.train)
    pruning = model.prune(splits.valid)
    value = podium.evaluate(pruning.model.predict(splits.valid), splits.valid, metrics=["ndcg@10"])["ndcg@10"]
    assert pruning.steps[-1].value == pytest.approx(value)
