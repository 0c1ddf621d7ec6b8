"""The LTR plugins of Elasticsearch and OpenSearch: what they make of an exported model, by a plain walk in float32."""

import json
from dataclasses import replace

import numpy as np
import pytest
from exchange.forests import hostile_rows, random_form, random_model
from exchange.golden import add_scores, letor_like
from exchange.plain import ltr as plain
from families import small_model

from podium.exchange import verify
from podium.exchange.engines import ltr
from podium.exchange.forms import LinearSum

RULES = {"elasticsearch": "stated", "opensearch-3.8": "stated", "opensearch-3.5": "right", "opensearch-3.1": "zero"}


def all_right(form):
    """The same trees, whose missing values go right at every split, also of numbers that no value exceeds."""
    forest = form.forest
    split = (forest.left != np.arange(len(forest.left))) & (forest.threshold < np.finfo(np.float32).max)
    return replace(form, forest=replace(forest, missing_right=split.astype(np.uint8)))


def form_for(engine, seed):
    rule = RULES[engine]
    form = random_form(seed, missing="zero" if rule == "zero" else "any")
    return all_right(form) if rule == "right" else form


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("engine", RULES)
def test_exported_trees_score_as_expected(engine, seed):
    form = form_for(engine, seed)
    X = hostile_rows(form.forest, seed=seed)
    written = ltr.write(form, engine)
    scores = plain.scores(written.content, X, form.names, RULES[engine])
    np.testing.assert_array_equal(scores, written.expected(X))
    np.testing.assert_array_equal(written.expected(X), form.in_single().scores(X))


@pytest.mark.parametrize("engine", ["opensearch-3.5", "opensearch-2.19.1", "elasticsearch-2023"])
def test_a_split_that_sends_missing_values_elsewhere_than_the_engine_is_refused_unless_rows_are_complete(engine):
    form = random_form(2)
    with pytest.raises(ValueError, match=r"tree 1, node \d+ \(feature 'feature \d'\) sends missing .*complete=True"):
        ltr.write(form, engine)
    written = ltr.write(replace(form, complete=True), engine)
    X = hostile_rows(form.forest)
    rule = "right" if engine == "opensearch-3.5" else "zero"
    np.testing.assert_array_equal(plain.scores(written.content, X, form.names, rule), written.expected(X))
    there = X[~np.isnan(X).any(axis=1)]
    np.testing.assert_array_equal(written.expected(there), form.in_single().scores(there))


def test_the_engine_is_asked_for_where_an_answer_depends_on_it():
    with pytest.raises(ValueError, match=r"tree 1, node \d+ .*depends on the plugin.*engine="):
        ltr.write(random_form(2))
    complete = replace(random_form(2), complete=True)
    assert ltr.write(complete).content
    forest = complete.forest
    below = np.where(np.isposinf(forest.threshold), np.float32(np.inf), np.float32(-1))  # 0 goes right, as all do
    agreed = all_right(replace(complete, complete=False, forest=replace(forest, threshold=below)))
    assert ltr.write(agreed).content


@pytest.mark.parametrize("engine", ["opensearch", "opensearch-3", "solr", "elasticsearch-8.11", ""])
def test_engines_that_are_not_known_are_refused(engine):
    with pytest.raises(ValueError, match="engine must be"):
        ltr.write(random_form(1), engine)


@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_weights_are_added_up_in_float32(intercept):
    weights = np.random.default_rng(1).standard_normal(6) * 10.0 ** np.arange(-2, 4)
    form = LinearSum(weights, intercept, [f"f{number}" for number in range(6)], missing_is_zero=True)
    X = np.random.default_rng(2).standard_normal((60, 6)).astype(np.float32)
    X[::5, 1] = np.nan
    written = ltr.write(form)
    np.testing.assert_array_equal(plain.scores(written.content, X, form.names), written.expected(X))
    assert ("intercept" in written.claim.sentence()) == bool(intercept)


def test_a_file_can_be_posted_as_it_is():
    written = ltr.write(random_form(1, names=[f'a "name" {number}' for number in range(6)]), "elasticsearch")
    body = json.loads(written.content)
    assert set(body) == {"model"}
    assert set(body["model"]) == {"name", "model"}
    assert body["model"]["model"]["type"] == "model/xgboost+json"
    assert isinstance(body["model"]["model"]["definition"], str)
    first = json.loads(body["model"]["model"]["definition"])[0]
    assert first == {"nodeid": 0, "leaf": 0.25}  # the start


@pytest.mark.parametrize("n_trees", [0, 1])
def test_few_trees_and_single_leaves_are_written(n_trees):
    form = random_form(1, n_trees=1, depth=0, start=0.0)
    form = replace(form, forest=form.forest.first(n_trees))
    written, X = ltr.write(form), np.zeros((2, 6), np.float32)
    np.testing.assert_array_equal(plain.scores(written.content, X, form.names), written.expected(X))


def test_thresholds_at_the_ends_of_float32_are_written():
    form = random_form(5, n_trees=20)
    ends = np.array([np.inf, -np.inf, np.finfo(np.float32).max, -np.finfo(np.float32).max, -0.0, -1e-45], np.float32)
    split = form.forest.left != np.arange(len(form.forest.left))
    threshold = np.where(split, np.resize(ends, len(split)), form.forest.threshold)
    form = replace(form, forest=replace(form.forest, threshold=threshold))
    X = hostile_rows(form.forest)
    written = ltr.write(form, "elasticsearch")
    np.testing.assert_array_equal(plain.scores(written.content, X, form.names), written.expected(X))
    np.testing.assert_array_equal(written.expected(X), form.in_single().scores(X))


@pytest.mark.parametrize("options", [{"categorical": (1,)}, {"n_trees": 1, "depth": 2}], ids=["sets", "deep"])
def test_what_the_plugin_cannot_hold_is_refused(options):
    form = random_form(1, **options)
    if "depth" in options:
        form = replace(form, forest=replace(form.forest, depths=form.forest.depths + 1_000))
    with pytest.raises(ValueError, match=r"no splits by categories, as of 'feature 2'|has 1,00\d levels"):
        ltr.write(form, "elasticsearch")


def test_features_of_the_same_name_are_refused():
    with pytest.raises(ValueError, match="two features are called 'a'"):
        ltr.write(random_form(1, names=["a"] * 6), "elasticsearch")
    with pytest.raises(ValueError, match="two features are called 'a'"):
        ltr.write(LinearSum(np.ones(2), 0.0, ["a", "a"]))


def test_weights_beyond_float32_are_refused():
    with pytest.raises(ValueError, match="the weight of 'b' is 1e\\+300"):
        ltr.write(LinearSum(np.array([1.0, 1e300]), 0.0, ["a", "b"]))


@pytest.mark.parametrize("name", ["LambdaMART", "RankBoost", "Linear"])
def test_golden_rows_with_the_scores_of_the_engine_are_verified(name, tmp_path):
    X, y, qid = letor_like(0 if name == "Linear" else np.nan)
    model = small_model(name).fit(X, y, qid)
    names = [f"feature {number}" for number in range(1, 6)]
    path, golden = tmp_path / "model.json", tmp_path / "golden.jsonl"
    report = model.export(path, "ltr", engine="opensearch-3.8", golden=golden)
    assert report.as_dict()["engine"] == "opensearch-3.8"
    np.testing.assert_array_equal(plain.scores(path.read_bytes(), X, names), report.expected(X))
    np.testing.assert_allclose(np.diff(report.expected(X)), np.diff(model.predict(X)), rtol=1e-4, atol=1e-5)
    add_scores(golden, lambda rows: plain.scores(path.read_bytes(), rows, names))
    verified = verify(model, path, golden=golden)
    assert verified.holds
    assert verified.is_same_file
    add_scores(golden, lambda rows: plain.scores(path.read_bytes(), rows, names), wrong=7)
    assert verify(model, path, golden=golden).n_equal == verified.n_rows - 1


def test_the_claim_is_the_bits_of_predict_for_trees_of_float32():
    model = random_model(3, single=True)
    claim = ltr.write(replace(random_form(3, single=True)), "elasticsearch").claim
    assert claim.kind == "bits"
    assert ltr.write(random_form(3), "elasticsearch").claim.kind == "single"
    X = hostile_rows(model.forest_)
    np.testing.assert_array_equal(ltr.write(random_form(3, single=True), "elasticsearch").expected(X), model.predict(X))
