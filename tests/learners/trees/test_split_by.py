"""Splits by gradients: every tree is a least-squares tree of the residuals, its leaves take Newton's steps."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from families import TREE_MODELS, small_model
from oracles import best_partition_gain, grow_oblivious_slowly, grow_tree_slowly, squares_saved
from scipy.sparse import csr_array
from sklearn.tree import DecisionTreeRegressor

from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.data.weights import row_weights, with_scaled_weights
from podium.learners.trees.scoring.forest import Forest
from podium.learners.trees.training import growing
from podium.learners.trees.training.boosting import Boosting
from podium.models.frame.plan import TrainingRows
from podium.models.trees.named import MART, Boosted, LambdaMART, MatrixNet, RandomForest, RegressionTree

pytestmark = pytest.mark.usefixtures("large_sizes")

GROWTHS = ("leaf", "level", "oblivious")
SAMPLINGS = [{}, {"goss": (0.3, 0.3)}, {"goss": (0.3, 0.3), "goss_by": "query"}, {"row_fraction": 0.6}]
SAMPLINGS += [{"query_fraction": 0.7}, {"drop_rate": 0.5, "skip_drop": 0.0}]


def make_lists(rng, n=120, missing=0.1, values=6):
    """Features of few values, the last of four categories."""
    X = rng.integers(0, values, (n, 4)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    X[:, 3] = rng.integers(0, 4, n)
    y = np.clip(np.nan_to_num(X[:, 0]) / 2 + (X[:, 3] == 2) + rng.integers(0, 3, n), 0, 4).round()
    return X, y, np.arange(n) // 8


def learner_of(model, X, y, qid, **weights):
    """The learner of a fitted model, before its first tree."""
    data = with_scaled_weights(RankingData.from_arrays(X, y, qid, **weights))
    rows = TrainingRows(data, None, n_jobs=1)
    target = rows.bind(model.make_objective())
    return Boosting(data.X, Shard.whole(data.offsets), target, model._rules(), weights=row_weights(data))


def rows_of_nodes(learner, tree):
    """The rows of the sample in every node of a tree, by the leaf that each of them reaches."""
    numbered = replace(tree, value=np.arange(len(tree.value), dtype=np.float64))
    leaf = Forest.join([numbered], 0.0, learner.X.shape[1]).scores(learner.X).astype(int)
    sample, rows = np.sort(learner.grower.index[: tree.count[0]]), [[] for _ in tree.value]
    for row in sample.tolist():
        rows[leaf[row]].append(row)
    for node in range(len(rows) - 1, -1, -1):  # children stand behind their parents
        if tree.left[node] != node:
            rows[node] = sorted(rows[tree.left[node]] + rows[tree.left[node] + 1])
    return rows


def drawn_settings(name, growth, rng):
    known = TREE_MODELS[name]().get_params(deep=False)
    wanted = {
        "growth": growth, "max_depth": 3, "min_samples_leaf": int(rng.choice([1, 5])), "feature_fraction": 1.0,
        "category_smoothing": 0.0, **SAMPLINGS[rng.integers(len(SAMPLINGS))],
    }  # fmt: skip
    if rng.random() < 0.5:
        wanted |= {"categorical": [3], "min_samples_leaf": 1}  # with more, the best partition may not follow the order
    if rng.random() < 0.3:
        wanted["monotone"] = {0: 1, 1: -1}
    if rng.random() < 0.2:
        wanted["extra_trees"] = True
    if rng.random() < 0.2:
        wanted["bundle_features"] = True
    if name in ("Boosted", "MatrixNet", "MART"):
        wanted["objective"] = str(rng.choice(["lambda", "logistic", "listmle", "ranknet"]))
    return {key: value for key, value in wanted.items() if key in known}


@pytest.mark.parametrize(("name", "growth"), list(product(TREE_MODELS, GROWTHS)))
def test_every_split_saves_the_squares_it_says_and_leaves_take_newtons_steps(name, growth):
    """Models, growth, sampling, constraints, categories, bundles and weights, drawn together."""
    rng = np.random.default_rng([list(TREE_MODELS).index(name), GROWTHS.index(growth)])
    if "growth" not in TREE_MODELS[name]().get_params(deep=False) and growth != "oblivious":
        growth = TREE_MODELS[name].growth
    for _ in range(6):
        X, y, qid = make_lists(rng)
        settings = drawn_settings(name, growth, rng)
        extra = {"init": MART(n_estimators=1)} if name == "LambdaSMART" else {}
        weights = {"sample_weight": rng.choice([0.5, 1.0, 2.0], len(y))} if rng.random() < 0.4 else {}
        model = small_model(name, split_by="gradients", **settings, **extra).fit(X, y, qid, **weights)
        learner = learner_of(model, X, y, qid, **weights)
        for _ in range(2):
            before = len(learner.trees)
            tree = learner.add_tree()[0]
            assert len(learner.trees) == before + 1
            check_tree(learner, tree, settings)


def check_tree(learner, tree, settings):
    g, h, w = (np.float64(values) for values in (learner._gradients, learner._hessians, learner.split_weights))
    rows, free = rows_of_nodes(learner, tree), "monotone" not in settings
    splits = [node for node in range(len(rows)) if tree.left[node] != node]
    for node in splits:
        left, right = rows[tree.left[node]], rows[tree.left[node] + 1]
        assert free is False or tree.gain[node] == pytest.approx(squares_saved(g, w, left, right), rel=1e-4, abs=1e-4)
        if settings.get("growth", "oblivious") != "oblivious":
            assert min(len(left), len(right)) >= settings["min_samples_leaf"]
            if free and not settings.get("extra_trees"):
                named = settings.get("categorical", [])
                best = best_partition_gain(learner.X, g, w, rows[node], settings["min_samples_leaf"], named)
                assert tree.gain[node] == pytest.approx(best, rel=1e-4, abs=1e-4)
    if free and settings.get("drop_rate", 0) == 0:
        rate = learner.rules.learning_rate
        for node in set(range(len(rows))) - set(splits):
            hessian = h[rows[node]].sum()
            step = -g[rows[node]].sum() / hessian * rate if hessian > 0 else 0.0
            assert tree.value[node] == pytest.approx(step, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("objective", ["lambda", "ranknet", "listmle", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_are_those_of_scikit_learn_on_the_same_gradients(objective, weighted, rng):
    """Best first, squared error of the residuals g / w with weights w; every distinct value has its own bin."""
    X = rng.integers(0, 200, (600, 4)).astype(np.float32)
    y, qid = np.clip(np.round(X[:, 0] / 80 + X[:, 1] / 100 + rng.normal(0, 0.7, 600)), 0, 4), np.arange(600) // 10
    rules = {"max_leaf_nodes": 9, "min_samples_leaf": 5}
    weights = {"sample_weight": rng.choice([0.5, 1.0, 2.0], 600)} if weighted else {}
    model = Boosted(objective=objective, split_by="gradients", n_estimators=1, **rules).fit(X, y, qid, **weights)
    learner = learner_of(model, X, y, qid, **weights)
    for _ in range(4):
        tree = learner.add_tree()[0]
        leaves = [rows for node, rows in enumerate(rows_of_nodes(learner, tree)) if tree.left[node] == node]
        weight = np.float64(learner.split_weights)
        residuals = -np.float64(learner._gradients) / weight
        theirs = DecisionTreeRegressor(**rules, random_state=0).fit(X, residuals, sample_weight=weight).apply(X)
        assert sorted(leaves) == sorted(np.flatnonzero(theirs == leaf).tolist() for leaf in np.unique(theirs))


@pytest.mark.parametrize("growth", ["leaf", "level"])
@pytest.mark.parametrize("l2", [0.0, 3.0])
def test_the_slow_search_with_weights_for_hessians_grows_the_same_tree(growth, l2, rng):
    X, y, qid = make_lists(rng, missing=0.2, values=12)
    weight = rng.choice([0.5, 1.0, 2.5], len(y))
    settings = {"max_leaf_nodes": 7, "min_samples_leaf": 4, "growth": growth, "l2_regularization": l2, "max_depth": 3}
    model = LambdaMART(n_estimators=1, split_by="gradients", **settings).fit(X, y, qid, sample_weight=weight)
    learner = learner_of(model, X, y, qid, sample_weight=weight)
    tree = learner.add_tree()[0]
    leaves = [rows for node, rows in enumerate(rows_of_nodes(learner, tree)) if tree.left[node] == node]
    scaled = learner.split_weights
    expected = grow_tree_slowly(X, learner._gradients, scaled, 7, 4, l2, growth == "level", 3)
    assert sorted(leaves) == sorted(map(sorted, expected))


@pytest.mark.parametrize("objective", ["lambda", "listmle", "logistic"])
def test_the_slow_search_with_weights_for_hessians_grows_the_same_oblivious_tree(objective, rng):
    X, y, qid = make_lists(rng, missing=0.0, values=12)
    weight = rng.choice([0.5, 1.0, 2.5], len(y))
    model = MatrixNet(n_estimators=1, max_depth=3, split_by="gradients", objective=objective, l2_regularization=2.0)
    learner = learner_of(model.fit(X, y, qid, sample_weight=weight), X, y, qid, sample_weight=weight)
    tree = learner.add_tree()[0]
    leaves = [rows for node, rows in enumerate(rows_of_nodes(learner, tree)) if tree.left[node] == node]
    derivatives = np.float64(learner._gradients), np.float64(learner.split_weights)
    assert sorted(leaves) == sorted(map(sorted, grow_oblivious_slowly(X, *derivatives, 3, l2=2.0)))


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("kind", [MART, RandomForest, RegressionTree])
@pytest.mark.parametrize("options", [{}, {"extra_trees": True}, {"max_impurity": 0.3}, {"min_samples_leaf": 15}])
def test_squared_error_without_a_least_hessian_gives_both_the_same_bytes(growth, kind, options, rng):
    """Its hessians are 1; so a minimum of rows that is found by counting and one that is found by weight agree."""
    X, y, qid = make_lists(rng, n=400, values=30)
    settings = {"n_estimators": 4, "growth": growth, "min_hessian": 0.0, **options}
    both = [kind(split_by=by, **settings).fit(X, y, qid).fitted_state().arrays for by in ("newton", "gradients")]
    assert all(np.array_equal(both[0][name], both[1][name]) for name in both[0])


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("wide", [False, True])
def test_threads_sparse_rows_and_saved_files_change_no_byte(growth, wide, rng, tmp_path, monkeypatch):
    if wide:
        monkeypatch.setattr(growing, "WIDE_ROWS", 0)
    X, y, qid = make_lists(rng, n=3000, missing=0.0)
    X[:, 1] = np.where(X[:, 1] > 4, X[:, 1], 0)
    settings = {"n_estimators": 4, "growth": growth, "split_by": "gradients", "goss": (0.3, 0.3), "categorical": [3]}
    files = []
    for n_jobs in (1, 2, 3):
        model = LambdaMART(n_jobs=n_jobs, bundle_features=True, **settings).fit(X, y, qid)
        model.save(tmp_path / "m.podium")
        files.append((tmp_path / "m.podium").read_bytes())
    sparse = LambdaMART(**settings).fit(csr_array(X), y, qid)
    assert files[0] == files[1] == files[2]
    assert np.array_equal(sparse.predict(X), model.predict(X))


@pytest.mark.parametrize("growth", GROWTHS)
def test_a_weight_of_two_is_a_row_twice(growth, rng):
    X, y, qid = make_lists(rng, missing=0.0)
    twice = rng.random(len(y)) < 0.5
    order = np.sort(np.concatenate([np.arange(len(y)), np.flatnonzero(twice)]))
    settings = {"objective": "logistic", "split_by": "gradients", "growth": growth, "min_samples_leaf": 1}
    settings |= {"n_estimators": 3, "max_leaf_nodes": 8}
    weighted = MART(**settings).fit(X, y, qid, sample_weight=1.0 + twice)
    repeated = MART(**settings).fit(X[order], y[order], qid[order])
    assert weighted.predict(X) == pytest.approx(repeated.predict(X), abs=1e-5)


@pytest.mark.filterwarnings("ignore:LambdaMART. training ended")  # by line search
@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("step", ["newton", "mean", "line_search"])
def test_no_score_moves_against_a_constraint(growth, step, rng):
    for _ in range(4):
        X, y, qid = make_lists(rng)
        settings = {"n_estimators": 4, "min_samples_leaf": 2, "max_leaf_nodes": 8, "growth": growth, "step": step}
        signs = {0: 1, 1: -1}
        model = LambdaMART(split_by="gradients", monotone=signs, **settings).fit(X, y, qid)
        for feature, sign in signs.items():
            rows = np.repeat(X, 8, axis=0)
            rows[:, feature] = np.tile(np.arange(-1, 7), len(X))
            moves = np.diff(sign * model.predict(rows).reshape(len(X), 8), axis=1)
            assert moves.min() >= 0


def test_min_hessian_is_not_used_and_the_checkpoint_knows_the_gain(rng, tmp_path):
    X, y, qid = make_lists(rng)
    model = LambdaMART(n_estimators=4, split_by="gradients", min_samples_leaf=2)
    plain = model.fit(X, y, qid).predict(X)
    assert np.array_equal(model.set_params(min_hessian=1e9).fit(X, y, qid).predict(X), plain)
    kept = {"checkpoint": tmp_path / "run.check", "every": 2}
    half = LambdaMART(n_estimators=4, split_by="gradients", min_samples_leaf=2)

    def stop(step):
        if step.iteration == 3:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        half.fit(X, y, qid, callbacks=[stop], **kept)
    with pytest.raises(ValueError, match="split_by"):
        LambdaMART(n_estimators=4, min_samples_leaf=2).fit(X, y, qid, **kept)
    assert np.array_equal(half.fit(X, y, qid, **kept).predict(X), plain)


def test_fit_more_goes_on_where_fit_would(rng):
    X, y, qid = make_lists(rng)
    settings = {"split_by": "gradients", "min_samples_leaf": 2, "goss": (0.4, 0.3)}
    whole = LambdaMART(n_estimators=5, **settings).fit(X, y, qid)
    parts = LambdaMART(n_estimators=2, **settings).fit(X, y, qid).fit_more(X, y, qid, n_estimators=3)
    assert np.array_equal(whole.predict(X), parts.predict(X))
    assert np.isfinite(whole.refit(X, y, qid).predict(X)).all()
