"""step="line_search": each tree takes the step that the training metric likes best, whatever else is set."""

import io

import numpy as np
import pytest
from scipy.sparse import csr_array

import podium
from podium.metrics import line_search
from podium.models.trees.named import MART, Boosted, LambdaMART, LambdaSMART, MatrixNet, RandomForest

pytestmark = pytest.mark.usefixtures("large_sizes")

SMALL = {"n_estimators": 6, "max_leaf_nodes": 6, "min_samples_leaf": 5, "step": "line_search"}
ENDED = "ignore:.*training ended after:UserWarning"

COMBINATIONS = {
    "plain": (LambdaMART, {}),
    "map": (LambdaMART, {"metric": "map"}),
    "rows": (LambdaMART, {"row_fraction": 0.5, "feature_fraction": 0.5}),
    "queries": (LambdaMART, {"query_fraction": 0.6, "random_state": 4}),
    "goss": (LambdaMART, {"goss": (0.3, 0.3)}),
    "bundles": (LambdaMART, {"bundle_features": True, "max_conflicts": 0.5}),
    "categories": (LambdaMART, {"categorical": [2], "monotone": {0: 1}}),
    "level": (LambdaMART, {"growth": "level"}),
    "oblivious": (Boosted, {"growth": "oblivious", "objective": "ranknet"}),
    "bounded": (LambdaMART, {"max_delta_step": 0.05}),
    "matrixnet": (MatrixNet, {"max_depth": 3}),
    "squared": (MART, {"eval_metric": "ndcg@5"}),
    "base": (LambdaSMART, {"init": "scores"}),
}


def saved(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


@pytest.fixture(scope="module")
def parts(splits):
    return splits.train.subset(np.arange(12)), splits.valid


def make(name, data, **more):
    kind, given = COMBINATIONS[name]
    given = SMALL | given | more
    if given.get("init") == "scores":
        given["init"] = np.cos(np.arange(data.n_rows))
    return kind(**{key: value for key, value in given.items() if key in kind().get_params()})


def training_curve(model, data, metric):
    base = 0.0 if isinstance(model.init, (type(None), podium.Boosted)) else np.asarray(model.init)
    scores = [np.full(data.n_rows, model.forest_.start) + base, *(s + base for s in model.staged_predict(data))]
    return [podium.evaluate(own, data, metrics=[metric])[metric] for own in scores]


@pytest.mark.parametrize("name", COMBINATIONS)
@pytest.mark.filterwarnings(ENDED)
def test_without_shrinkage_every_tree_improves_the_training_metric(name, parts):
    data, _ = parts
    model = make(name, data, learning_rate=1.0).fit(data)
    metric = getattr(model, "metric", model.eval_metric)
    curve = training_curve(model, data, metric)
    assert len(curve) > 1
    assert (np.diff(curve) > 0).all()
    if name == "bounded":
        assert np.abs(model.forest_.value).max() <= 0.05 * (1 + 1e-12)


@pytest.mark.parametrize("name", COMBINATIONS)
@pytest.mark.filterwarnings(ENDED)
def test_a_killed_training_ends_in_the_same_bytes_for_any_number_of_threads(name, parts, tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 3:
            raise Killed

    data, valid = parts
    options = {"eval_set": valid, "early_stopping_rounds": 5}
    whole = make(name, data, n_jobs=1).fit(data, **options)
    assert whole.best_iteration_ > 0
    kept = {"checkpoint": tmp_path / "run.check", "every": 2}
    with pytest.raises(Killed):
        make(name, data).fit(data, **options, **kept, callbacks=[kill])
    assert saved(make(name, data, n_jobs=2).fit(data, **options, **kept)) == saved(whole)


def test_the_step_is_that_of_the_line_search(parts):
    data, _ = parts
    base = np.cos(np.arange(data.n_rows))
    common = {"n_estimators": 1, "max_leaf_nodes": 6, "min_samples_leaf": 5, "init": base}
    newton = LambdaMART(**common, learning_rate=1.0).fit(data)
    found = line_search(base, newton.predict(data), data, high=0.9)
    searched = LambdaMART(**common, learning_rate=0.1, step="line_search").fit(data)
    assert found.plateau[0] > 0
    np.testing.assert_allclose(searched.forest_.value, 0.1 * found.beta * newton.forest_.value, rtol=1e-12)


def test_weights_are_those_of_the_training_data(parts):
    data, _ = parts
    weight = np.linspace(0, 1, data.n_queries)
    given = {"query_weight": weight, "qid": data.qid}
    base = np.cos(np.arange(data.n_rows))
    common = {"n_estimators": 1, "min_samples_leaf": 5, "init": base, "learning_rate": 1.0}
    newton = LambdaMART(**common).fit(data.X, data.y, **given)
    found = line_search(base, newton.predict(data.X), data.y, high=0.9, metric="ndcg@10", **given)
    searched = LambdaMART(**common, step="line_search").fit(data.X, data.y, **given)
    np.testing.assert_allclose(searched.forest_.value, found.beta * newton.forest_.value, rtol=1e-12)


def test_sparse_rows_give_the_trees_of_dense_ones(parts):
    data, _ = parts
    X = np.nan_to_num(data.X)
    dense = make("plain", data, bundle_features=False).fit(X, data.y, data.qid)
    sparse = make("plain", data, bundle_features=False).fit(csr_array(X), data.y, data.qid)
    assert saved(dense) == saved(sparse)


@pytest.mark.parametrize("trees", [0, 1])
def test_no_improvement_ends_the_training_with_a_warning(trees, rng, tmp_path):
    """One feature that is the label: the first tree ranks perfectly, or the base model has done so already."""
    X = np.repeat(np.arange(4.0), 50)[:, None]
    y, qid = X[:, 0], np.tile(np.arange(50), 4)
    init = None if trees else y
    steps = []
    model = LambdaMART(step="line_search", min_samples_leaf=5, learning_rate=1.0, init=init)
    with pytest.warns(UserWarning, match=rf"ended after {trees} tree.*tree {trees + 1} improves ndcg@10 on the train"):
        model.fit(X, y, qid, eval_set=(X, y, qid), callbacks=[lambda progress: steps.append(progress.iteration)])
    assert steps == list(range(1, trees + 1))
    assert model.best_iteration_ == model.forest_.n_trees == trees
    assert len(model.evals_["eval_0"]["ndcg@10"]) == trees
    if trees:
        model.save(tmp_path / "model.podium")
        np.testing.assert_array_equal(podium.load(tmp_path / "model.podium").predict(X), model.predict(X))
        assert model.score(X, y, qid) == 1.0


def test_what_does_not_go_with_a_line_search_is_refused(parts):
    data, _ = parts
    with pytest.raises(ValueError, match=r"LambdaMART: step='line_search' does not support DART.*set drop_rate=0"):
        LambdaMART(**SMALL, drop_rate=0.1).fit(data)
    with pytest.raises(ValueError, match="RandomForest: step='line_search' is for trees that are added"):
        RandomForest(step="line_search").fit(data)


def test_more_trees_continue_the_search(parts):
    data, _ = parts
    half = make("plain", data, n_estimators=3).fit(data).fit_more(data, n_estimators=3)
    assert half.forest_.value.tobytes() == make("plain", data).fit(data).forest_.value.tobytes()
