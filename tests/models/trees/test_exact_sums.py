"""Exact sums: leaves that add up to the same bits in every order, of a model that is trained as it is without."""

import math
from dataclasses import replace

import numpy as np
import pytest
from families import TREE_MODELS, small_model

import podium
from podium.learners.trees.scoring.exact import has_exact_sums, with_exact_sums
from podium.models.trees.exact_sums import trained_forest
from podium.models.trees.named import MART, Boosted, LambdaMART, LambdaSMART, MatrixNet, RandomForest, RegressionTree
from podium.persistence.saving import from_parts, to_parts

SMALL = {"n_estimators": 24, "max_leaf_nodes": 8, "min_samples_leaf": 3, "extra_trees": False}
DART = SMALL | {"drop_rate": 0.4, "skip_drop": 0.2}
TRAININGS = {
    "lambdas": (LambdaMART, SMALL),
    "squares": (MART, SMALL),
    "ordinal": (MART, SMALL | {"objective": "ordinal"}),
    "oblivious": (MatrixNet, {"n_estimators": 12, "max_depth": 3}),
    "level": (Boosted, SMALL | {"objective": "xendcg", "growth": "level", "row_fraction": 0.6}),
    "dart": (LambdaMART, DART),
    "mean": (RandomForest, {"n_estimators": 9, "max_leaf_nodes": 30}),
    "one tree": (RegressionTree, {}),
    "line search": (LambdaMART, SMALL | {"n_estimators": 6, "step": "line_search", "learning_rate": 1.0}),
    "exact step": (MART, SMALL | {"step": "exact", "objective": "ordinal"}),
    "bounded": (LambdaMART, SMALL | {"max_delta_step": 0.3, "monotone": {0: 1, 1: -1}}),
    "categories": (LambdaMART, SMALL | {"categorical": [2]}),
    "goss and bundles": (LambdaMART, SMALL | {"goss": (0.3, 0.3), "bundle_features": True, "max_conflicts": 0.2}),
    "init model": (LambdaSMART, SMALL | {"init": MART(n_estimators=5, max_leaf_nodes=4)}),
    "init linear": (Boosted, SMALL | {"init": podium.Linear(max_iter=5, impute="mean")}),
}


@pytest.fixture(scope="module")
def parts(splits):
    unnamed = [replace(part, feature_names=None) for part in (splits.train, splits.valid, splits.test)]
    return unnamed[0].subset(np.arange(14)), *unnamed[1:]


def bits(scores):
    return np.asarray(scores, np.float64).tobytes()


def pairwise_sum(terms):
    """Neighbours first, then pairs of neighbours, and so on."""
    while terms.shape[1] > 1:
        even = terms if terms.shape[1] % 2 == 0 else np.hstack([terms, np.zeros((len(terms), 1))])
        terms = even[:, ::2] + even[:, 1::2]
    return terms[:, 0]


def one_by_one(terms, order):
    total = np.zeros(len(terms))
    for number in order:
        total = total + terms[:, number]
    return total


def check_sums(model, X, n_trees=None):
    """Every order of the terms, and every grouping, gives the bits of the forest."""
    forest = model.forest_
    assert has_exact_sums(forest)
    added = forest.contributions(X)[:, :n_trees]
    terms = np.hstack([np.full((len(X), 1), forest.start), added])
    expected, random = bits(forest.scores(X, n_trees)), np.random.default_rng(0)
    for _ in range(5):
        order = random.permutation(terms.shape[1])
        assert bits(one_by_one(terms, order)) == expected
        assert bits(pairwise_sum(terms[:, order])) == expected
        half = len(order) // 2
        assert bits(one_by_one(terms, order[:half]) + one_by_one(terms, order[half:])) == expected
    assert bits(one_by_one(terms, range(terms.shape[1])[::-1])) == expected
    assert bits([math.fsum(row) for row in terms.tolist()]) == expected
    if model.init_ is None and n_trees is None:
        assert bits(model.predict(X)) == expected


@pytest.mark.parametrize("name", TRAININGS)
def test_leaves_add_up_to_the_same_bits_in_any_order(name, parts, tmp_path):
    data, valid, test = parts
    kind, settings = TRAININGS[name]
    model = kind(**settings).fit(data)
    check_sums(model, test.X)
    check_sums(model, test.X, n_trees=max(1, model.forest_.n_trees // 2))
    check_sums(model.refit(valid, decay=0.4), test.X)
    check_sums(model.prune(valid, tolerance=0.02).model, test.X)
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    check_sums(loaded, test.X)
    assert bits(loaded.predict(test)) == bits(model.predict(test))
    if kind is not RandomForest:
        check_sums(loaded.fit_more(data, n_estimators=4), test.X)


@pytest.mark.parametrize("name", TRAININGS)
def test_the_training_is_that_without(name, parts):
    """The same splits, the same curves, and leaves that differ by rounding only."""
    data, valid, _ = parts
    kind, settings = TRAININGS[name]
    exact, plain = (kind(**settings, exact_sums=on).fit(data, eval_set=valid) for on in (True, False))
    assert exact.evals_ == plain.evals_
    assert exact.best_score_ == plain.best_score_
    for array in ("roots", "feature", "threshold", "left", "missing_right", "gain", "count", "set_sides"):
        np.testing.assert_array_equal(getattr(exact.forest_, array), getattr(plain.forest_, array))
    rounding = np.abs(exact.forest_.value - plain.forest_.value)
    assert rounding.max() <= 2.0**-52 * plain.forest_.largest_score
    assert (np.abs(exact.forest_.value) <= np.abs(plain.forest_.value)).all()
    assert bits(trained_forest(exact).value) == bits(plain.forest_.value)
    assert trained_forest(plain) is plain.forest_


@pytest.mark.parametrize("name", [name for name in TRAININGS if name != "mean"])
def test_more_trees_give_the_model_of_one_long_training(name, parts, tmp_path):
    """Also with DART, whose scores in training are then only the same to the last bits, and by way of a file."""
    data, _, _ = parts
    kind, settings = TRAININGS[name]
    start = kind(**settings | {"n_estimators": 3}).fit(data)
    start.save(tmp_path / "start.podium")
    models = [one.fit_more(data, n_estimators=2) for one in (start, podium.load(tmp_path / "start.podium"))]
    for number, model in enumerate(models):
        model.save(tmp_path / f"{number}.podium")
    assert (tmp_path / "0.podium").read_bytes() == (tmp_path / "1.podium").read_bytes()
    whole = kind(**settings | {"n_estimators": 5}).fit(data)
    np.testing.assert_array_equal(start.forest_.threshold, whole.forest_.threshold)
    if name not in ("dart", "line search"):
        assert bits(start.forest_.value) == bits(whole.forest_.value)
        assert start.forest_.start == whole.forest_.start


def test_early_stopping_and_ctrl_c_give_the_model_of_a_shorter_training(parts):
    data, valid, test = parts

    def ctrl_c(progress):
        if progress.iteration == 7:
            raise KeyboardInterrupt

    for settings in (SMALL, DART):
        stopped = LambdaMART(**settings | {"n_estimators": 60, "learning_rate": 0.5})
        stopped.fit(data, eval_set=valid, early_stopping_rounds=4)
        shorter = LambdaMART(**settings | {"n_estimators": stopped.best_iteration_, "learning_rate": 0.5}).fit(data)
        assert len(stopped.evals_["eval_0"]["ndcg@10"]) > stopped.best_iteration_
        assert bits(stopped.predict(test)) == bits(shorter.predict(test))
        check_sums(stopped, test.X)
        for n, stage in enumerate(stopped.staged_predict(test), start=1):
            assert bits(stage) == bits(stopped.predict(test, n_trees=n))
        interrupted = LambdaMART(**settings)
        with pytest.raises(KeyboardInterrupt):
            interrupted.fit(data, callbacks=[ctrl_c])
        assert bits(interrupted.predict(test)) == bits(
            LambdaMART(**settings | {"n_estimators": 7}).fit(data).predict(test)
        )


def test_a_resumed_training_has_the_same_bytes(parts, tmp_path):
    data, valid, _ = parts

    def stop(progress):
        if progress.iteration == 9:
            raise RuntimeError("dark")

    for number, (settings, on) in enumerate([(SMALL, True), (DART, True), (SMALL, False)]):
        model, check = LambdaMART(**settings, exact_sums=on), tmp_path / f"{number}.check"
        with pytest.raises(RuntimeError, match="dark"):
            model.fit(data, eval_set=valid, checkpoint=check, every=4, callbacks=[stop])
        with pytest.raises(ValueError, match="exact_sums"):
            LambdaMART(**settings, exact_sums=not on).fit(data, eval_set=valid, checkpoint=check)
        model.fit(data, eval_set=valid, checkpoint=check).save(tmp_path / "resumed")
        LambdaMART(**settings, exact_sums=on).fit(data, eval_set=valid).save(tmp_path / "whole")
        assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("on", [True, False])
def test_a_parameter_that_is_set_after_fit_is_for_the_next_training(on, parts, tmp_path):
    data, _, test = parts
    model = LambdaMART(**SMALL, exact_sums=on).fit(data)
    before = bits(model.predict(test))
    model.set_params(exact_sums=not on)
    assert bits(model.predict(test)) == before
    model.save(tmp_path / "m.podium")
    for one in (model, podium.load(tmp_path / "m.podium")):
        assert one.exact_sums is not on
        assert bits(one.predict(test)) == before
        assert has_exact_sums(one.forest_) == on
        more = one.fit_more(data, n_estimators=2)
        assert has_exact_sums(more.forest_) is not on
        whole = LambdaMART(**SMALL | {"n_estimators": SMALL["n_estimators"] + 2}, exact_sums=not on).fit(data)
        assert bits(more.predict(test)) == bits(whole.predict(test))
    assert has_exact_sums(model.set_params(exact_sums=True).refit(data).forest_)


def test_files_without_the_fact_hold_leaves_as_they_are(parts):
    data, _, test = parts
    model = LambdaMART(**SMALL).fit(data)
    kind, meta, arrays = to_parts(model, False)
    assert meta.pop("exact_sums") is True
    meta["parameters"].pop("exact_sums")
    old = from_parts(kind, meta, arrays)
    plain = LambdaMART(**SMALL, exact_sums=False).fit(data)
    assert bits(old.predict(test)) == bits(plain.predict(test))
    with pytest.raises(ValueError, match="exact_sums must be true or false"):
        from_parts(kind, meta | {"exact_sums": 1}, arrays)


@pytest.mark.parametrize("name", TREE_MODELS)
def test_every_model_of_trees_has_the_parameter(name, parts):
    settings = {"init": small_model("MART")} if name == "LambdaSMART" else {}
    assert has_exact_sums(small_model(name, **settings).fit(parts[0]).forest_)
    with pytest.raises(ValueError, match="exact_sums must be True or False; got 'yes'"):
        small_model(name, exact_sums="yes", **settings).fit(parts[0])


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-20, 1.0, 1e20, 1e150, 1e290])
def test_scores_of_any_size_add_up(scale, parts):
    forest = LambdaMART(**SMALL, exact_sums=False).fit(parts[0]).forest_
    scaled = replace(forest, value=forest.value * scale, start=-0.3 * scale)
    exact = with_exact_sums(scaled)
    assert has_exact_sums(exact)
    assert not has_exact_sums(scaled)
    np.testing.assert_allclose(exact.value, scaled.value, rtol=0, atol=2.0**-52 * scaled.largest_score)
    again = with_exact_sums(exact)
    assert (bits(again.value), again.start) == (bits(exact.value), exact.start)


def test_no_value_is_minus_zero(parts):
    forest = LambdaMART(**SMALL, exact_sums=False).fit(parts[0]).forest_
    exact = with_exact_sums(replace(forest, value=np.where(forest.value > 0, -1e-300, -0.0), start=1.0))
    assert not np.signbit(exact.value).any()


def test_a_forest_without_trees_and_one_of_zeros_add_up(parts):
    forest = LambdaMART(**SMALL).fit(parts[0]).forest_
    for one in (forest.first(0), replace(forest, value=np.zeros_like(forest.value))):
        assert has_exact_sums(with_exact_sums(one))
