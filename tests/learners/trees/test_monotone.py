"""Monotone constraints: the score never moves the wrong way along a feature, whatever else happens."""

from itertools import product

import numpy as np
import pytest

from podium.models.trees.named import MART, Boosted, LambdaMART, RandomForest, RegressionTree

pytestmark = pytest.mark.usefixtures("large_sizes")

GROWTHS, STEPS = ("leaf", "level", "oblivious"), ("newton", "mean", "exact", "tree")


def make_lists(rng, n=2_000):
    X = rng.random((n, 3)).astype(np.float32)
    y = 2 * X[:, 0] + np.sin(9 * X[:, 1]) + X[:, 2] + 0.3 * rng.standard_normal(n)
    return X, np.clip(np.round(y + 1), 0, 4), np.arange(n) // 20


def make_few_values(rng, n=60, missing=0.0):
    """Four features of few values, so that every split is tried and bounds bind often."""
    X = rng.integers(0, 5, (n, 4)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return X, rng.integers(0, 5, n).astype(float), np.sort(rng.integers(0, 6, n))


def worst_move(model, X, constraints, base=None):
    """The largest move in the wrong direction: each feature over all its values and between them, at all rows."""
    worst = 0.0
    for feature, sign in constraints.items():
        known = np.unique(X[~np.isnan(X[:, feature]), feature])
        along = np.unique(np.concatenate([known - 0.5, known, known + 0.5])).astype(np.float32)
        rows = np.repeat(X, len(along), axis=0)
        rows[:, feature] = np.tile(along, len(X))
        scores = model.predict(rows) - (0.0 if base is None else base.predict(rows))
        worst = max(worst, -np.diff(sign * scores.reshape(len(X), -1), axis=1).min(initial=0.0))
    return worst


def smallest_leaf(model):
    forest = model.forest_
    return forest.count[forest.left == np.arange(len(forest.left))].min()


def draw_constraints(rng):
    features = rng.permutation(4)[: rng.integers(1, 5)]
    return {int(feature): int(rng.choice([-1, 1])) for feature in features}


def test_the_example_where_bounds_make_every_side_worth_less_than_nothing():
    X = np.array([divmod(row, 10) for row in (33, 32, 30, 23, 23, 30, 3, 21, 13, 12, 13, 2, 32, 10)], np.float32)
    y = [3, 2, 2, 3, 3, 4, 3, 3, 0, 2, 0, 3, 4, 4]
    model = RegressionTree(max_leaf_nodes=4, min_samples_leaf=1, monotone={0: 1}).fit(X, y, group=[14])
    assert worst_move(model, X, {0: 1}) == 0
    assert smallest_leaf(model) >= 1


@pytest.mark.parametrize(("growth", "step"), list(product(GROWTHS, STEPS)))
def test_no_combination_moves_a_score_the_wrong_way(rng, growth, step):
    """Objectives, constraints, sampling, bounds of the step, DART, bundles and missing values, drawn together."""
    for _ in range(10):
        X, y, qid = make_few_values(rng, missing=rng.choice([0.0, 0.2]))
        constraints, least = draw_constraints(rng), int(rng.choice([1, 3, 8]))
        objective = str(rng.choice(["squared", "logistic", "ranknet", "lambda", "listmle"]))
        if step == "exact":
            objective = str(rng.choice(["squared", "logistic"]))  # of single documents
        elif step == "tree":
            objective = str(rng.choice(["squared", "ranknet", "listmle"]))  # with a loss
        options = [{}, {"row_fraction": 0.7}, {"query_fraction": 0.6}, {"drop_rate": 0.5, "skip_drop": 0.0}]
        options += [{"bundle_features": True, "max_conflicts": 0.3}, {"feature_fraction": 0.5}]
        options += (
            [{"goss": (0.3, 0.3)}, {"goss": (0.3, 0.3), "goss_by": "query"}] if step in ("newton", "mean") else []
        )
        drawn = options[rng.integers(len(options))] | {
            "max_delta_step": float(rng.choice([0.0, 0.05, 1.0])),
            "l2_regularization": float(rng.choice([0.0, 2.0])),
            "min_hessian": float(rng.choice([0.0, 1e-3, 2.0])),
        }
        settings = {"growth": growth, "step": step, "min_samples_leaf": least, "max_leaf_nodes": 8, "n_estimators": 4}
        model = Boosted(objective=objective, monotone=constraints, learning_rate=0.5, **settings, **drawn)
        model.fit(X, np.minimum(y, 1) if objective == "logistic" else y, qid=qid)
        assert worst_move(model, X, constraints) == 0, model
        assert np.abs(model.forest_.value).max() <= 0.5 * (drawn["max_delta_step"] or np.inf)
        if growth != "oblivious":
            assert smallest_leaf(model) >= least, model
        for decay in (0.0, 0.5, 1.0):
            X2, y2, qid2 = make_few_values(rng, n=25)
            again = model.refit(X2, np.minimum(y2, 1) if objective == "logistic" else y2, qid2, decay=decay)
            assert worst_move(again, X, constraints) == 0, (model, decay)
            assert np.abs(again.forest_.value).max() <= 0.5 * (drawn["max_delta_step"] or np.inf)


@pytest.mark.parametrize("growth", GROWTHS)
def test_three_constraints_that_bind_are_kept(rng, growth):
    """The case in which every model used to break one."""
    for _ in range(5):
        X = rng.random((300, 4)).astype(np.float32)
        y = np.clip(np.round(2 + rng.standard_normal(300) - X[:, 0] + X[:, 1]), 0, 4)
        constraints = {0: 1, 1: -1, 2: 1}  # the opposite of what the labels say
        model = MART(n_estimators=10, min_samples_leaf=5, growth=growth, monotone=constraints)
        model.fit(X, y, group=[300])
        assert worst_move(model, X[::10], constraints) == 0
        if growth != "oblivious":
            assert smallest_leaf(model) >= 5


def test_the_trees_on_top_of_a_base_model_and_the_mean_of_trees_keep_them_too(rng):
    X, y, qid = make_few_values(rng, n=100)
    base = MART(n_estimators=2, min_samples_leaf=2).fit(X, y, qid=qid)
    for growth in GROWTHS:
        settings = {"min_samples_leaf": 3, "growth": growth, "monotone": {0: 1, 2: -1}}
        on_top = LambdaMART(n_estimators=5, init=base, **settings).fit(X, y, qid=qid)
        assert worst_move(on_top, X, {0: 1, 2: -1}, base) <= 1e-12  # the difference of two scores is rounded
        mean = RandomForest(n_estimators=5, **settings).fit(X, y, qid=qid)
        assert worst_move(mean, X, {0: 1, 2: -1}) == 0


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("model", [MART, LambdaMART])
def test_scores_follow_the_sign_and_still_rank(rng, growth, sign, model):
    X, y, qid = make_lists(rng)
    settings = {"n_estimators": 20, "max_leaf_nodes": 16, "growth": growth, "learning_rate": 0.3}
    free = model(**settings).fit(X, y, qid=qid)
    held = model(**settings, monotone={1: sign}).fit(X, y, qid=qid)
    assert worst_move(free, X[:40], {1: sign}) > 0  # a wave goes both ways
    assert worst_move(held, X[:40], {1: sign}) == 0
    assert held.score(X, y, qid) > 0.6


def test_features_may_be_named(rng):
    pandas = pytest.importorskip("pandas")
    X, y, qid = make_lists(rng)
    table = pandas.DataFrame(X, columns=["price", "wave", "age"])
    by_name = LambdaMART(n_estimators=3, monotone={"wave": 1}).fit(table, y, qid=qid)
    by_number = LambdaMART(n_estimators=3, monotone={1: 1}).fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_name.forest_.value, by_number.forest_.value)
    with pytest.raises(ValueError, match="'size'; expected one of price, wave, age"):
        LambdaMART(monotone={"size": 1}).fit(table, y, qid=qid)


@pytest.mark.parametrize("wrong", [{0: 2}, [1, 0, 0], "up", {0: "up"}])
def test_signs_that_mean_nothing_are_refused(rng, wrong):
    X, y, qid = make_lists(rng, 40)
    with pytest.raises(ValueError, match="monotone must be a mapping"):
        LambdaMART(monotone=wrong).fit(X, y, qid=qid)


def test_the_same_bytes_for_any_number_of_threads(rng, tmp_path):
    X, y, qid = make_lists(rng, 40_000)
    for n_jobs in (1, 2):
        LambdaMART(n_estimators=3, monotone={0: 1, 1: -1}, n_jobs=n_jobs).fit(X, y, qid=qid).save(
            tmp_path / f"{n_jobs}.podium"
        )
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()
