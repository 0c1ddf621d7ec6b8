"""Solr's Learning to Rank module: what it makes of an exported model, by a plain walk in float32."""

import json
from dataclasses import replace

import numpy as np
import pytest
from exchange.forests import hostile_rows, random_form
from exchange.golden import add_scores, letor_like
from exchange.plain import solr as plain
from families import small_model

from podium.exchange import verify
from podium.exchange.engines import solr
from podium.exchange.forms import LinearSum

SLACK = np.float32(1e-6)


def reachable(form):
    """The same trees with thresholds that Solr can have: those that it makes of the ones given."""
    forest = form.forest
    with np.errstate(over="ignore"):
        return replace(form, forest=replace(forest, threshold=forest.threshold + SLACK))


@pytest.mark.parametrize("seed", range(20))
def test_exported_trees_score_as_expected(seed):
    form = reachable(random_form(seed))
    X = hostile_rows(form.forest, seed=seed)
    written = solr.write(form)
    np.testing.assert_array_equal(plain.scores(written.content, X, form.names), written.expected(X))
    np.testing.assert_array_equal(written.expected(X), form.in_single().scores(X))


def test_a_number_is_found_wherever_there_is_one():
    random = np.random.default_rng(0)
    given = (random.standard_normal(20_000) * 10.0 ** random.integers(-12, 12, 20_000)).astype(np.float32)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, 3.4028235e38, -1e-6, 1e-6, 1e-45], np.float32)
    wanted = np.concatenate([given, ends]) + SLACK
    written, is_reached = solr.without_slack(wanted)
    assert is_reached.all()
    np.testing.assert_array_equal(written + SLACK, wanted)


@pytest.mark.parametrize(("scale", "least", "most"), [(1.0, 1.0, 1.0), (3e-7, 0.2, 0.6), (1e-8, 0.0, 0.02)])
def test_thresholds_near_the_slack_are_reached_now_and_then(scale, least, most):
    wanted = (np.random.default_rng(1).random(5_000) * scale + scale / 2).astype(np.float32)
    written, is_reached = solr.without_slack(wanted)
    assert least <= is_reached.mean() <= most
    np.testing.assert_array_equal((written + SLACK == wanted), is_reached)


def test_a_threshold_that_cannot_be_reached_is_refused_with_its_node():
    form = random_form(1, n_trees=3)
    split = form.forest.left != np.arange(len(form.forest.left))
    small = np.where(split, np.float32(1.2345678e-8), form.forest.threshold)
    with pytest.raises(
        ValueError, match=r"tree 1, node 0 \(feature 'feature \d'\) has the threshold 1.23456\d+e-08.*Multiply"
    ):
        solr.write(replace(form, forest=replace(form.forest, threshold=small)))


def test_a_file_has_what_solr_needs():
    written = solr.write(reachable(random_form(1, names=list("abcdef"))))
    model = json.loads(written.content)
    assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    assert model["params"]["isNullSameAsZero"] is False
    assert model["params"]["trees"][0] == {"weight": "1", "root": {"value": "0.25"}}  # the start
    assert '"defaultValue": "NaN"' in written.claim.sentence()
    assert "defaultValue" not in solr.write(replace(reachable(random_form(1)), complete=True)).claim.sentence()


@pytest.mark.parametrize("n_trees", [0, 1])
def test_few_trees_and_single_leaves_are_written(n_trees):
    form = random_form(1, n_trees=1, depth=0, start=0.0)
    form = replace(form, forest=form.forest.first(n_trees))
    written, X = solr.write(form), np.zeros((2, 6), np.float32)
    np.testing.assert_array_equal(plain.scores(written.content, X, form.names), written.expected(X))


def test_categories_are_refused():
    with pytest.raises(ValueError, match=r"Solr has no splits by categories, as of 'feature 2'"):
        solr.write(random_form(1, categorical=(1,)))


@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_weights_are_added_up_in_float32(intercept):
    weights = np.random.default_rng(1).standard_normal(6) * 10.0 ** np.arange(-2, 4)
    form = LinearSum(weights, intercept, [f"f{number}" for number in range(6)])
    X = np.random.default_rng(2).standard_normal((60, 6)).astype(np.float32)
    written = solr.write(form)
    np.testing.assert_array_equal(plain.scores(written.content, X, form.names), written.expected(X))
    assert ("intercept" in written.claim.sentence()) == bool(intercept)


@pytest.mark.parametrize("name", ["LambdaMART", "RankBoost", "RankSVM"])
def test_golden_rows_with_the_scores_of_the_engine_are_verified(name, tmp_path):
    X, y, qid = letor_like(0 if name == "RankSVM" else np.nan)
    model = small_model(name).fit(X, y, qid)
    names = [f"feature {number}" for number in range(1, 6)]
    path, golden = tmp_path / "model.json", tmp_path / "golden.jsonl"
    report = model.export(path, "solr", golden=golden)
    np.testing.assert_array_equal(plain.scores(path.read_bytes(), X, names), report.expected(X))
    np.testing.assert_allclose(np.diff(report.expected(X)), np.diff(model.predict(X)), rtol=1e-4, atol=1e-5)
    add_scores(golden, lambda rows: plain.scores(path.read_bytes(), rows, names))
    verified = verify(model, path, golden=golden)
    assert verified.holds
    add_scores(golden, lambda rows: plain.scores(path.read_bytes(), rows, names), wrong=7)
    assert verify(model, path, golden=golden).n_equal == verified.n_rows - 1
