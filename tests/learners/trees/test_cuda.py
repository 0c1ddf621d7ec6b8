"""Trees on a GPU have the bytes of the CPU. Kernels run thread by thread on the CPU (`cuda_on_host.py`).

With PODIUM_TEST_DEVICE=cuda, as `make test-gpu` sets it, they run on the GPU of this machine.
"""

import os
import warnings

import numpy as np
import pytest
from cuda_on_host import COMPILER, Host

import podium
from podium.learners.trees.cuda import boosting, device, scoring, trees
from podium.learners.trees.training import growing
from podium.objectives import Lambda, parse_objective

ON_GPU = os.environ.get("PODIUM_TEST_DEVICE") == "cuda"
needs_compiler = pytest.mark.skipif(not ON_GPU and COMPILER is None, reason="no C++ compiler, or no x86-64")


@pytest.fixture
def on_device(monkeypatch):
    """device="cuda" is the GPU, or kernels run by the CPU."""
    if not ON_GPU:
        monkeypatch.setattr(device, "why_not", lambda: None)
        for module in (boosting, scoring):
            monkeypatch.setattr(module, "Gpu", Host)


@pytest.fixture
def ranking(rng):
    """Lists of one to many documents, missing values, few and many values per feature."""
    n = 260
    X = rng.standard_normal((n, 5)).astype(np.float32)
    X[rng.random((n, 5)) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 6, n)
    y = np.clip(np.round(np.nan_to_num(X[:, 0]) + (X[:, 3] == 4) + 0.5 * rng.standard_normal(n) + 1), 0, 3)
    return X, y, np.repeat(np.arange(7), [1, 39, 50, 1, 9, 100, 60])


def saved_bytes(model, tmp_path):
    model.save(tmp_path / "model.podium")
    return (tmp_path / "model.podium").read_bytes()


def check_equal_bytes(kind, data, tmp_path, fit=None, **parameters):
    """The same file from both devices; returns the model of the device."""
    X, y, qid = data
    small = {"n_estimators": 3, "max_leaf_nodes": 8, "min_samples_leaf": 5, "extra_trees": False, "random_state": 3}
    small = {name: value for name, value in small.items() if name in kind().get_params(deep=False)}
    files = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for where in ("cpu", "cuda"):
            model = kind(**small | parameters, device=where, n_jobs=1).fit(X, y, qid=qid, **fit or {})
            files[where] = saved_bytes(model, tmp_path)
    assert files["cpu"] == files["cuda"]
    assert model.forest_.feature.size > 3, "no tree has split"
    return model


COMBINATIONS = {
    "defaults": (podium.LambdaMART, {}),
    "lambdas of the papers, level by level": (
        podium.LambdaMART, {"normalize": None, "growth": "level", "max_depth": 3, "min_samples_leaf": 1}),
    "many rows per leaf": (podium.LambdaMART, {"min_samples_leaf": 45, "max_leaf_nodes": 31}),
    "two leaves": (podium.MART, {"max_leaf_nodes": 2}),
    "many leaves": (podium.MART, {"max_leaf_nodes": 40, "min_samples_leaf": 1}),
    "extra trees": (podium.LambdaMART, {"extra_trees": True, "feature_fraction": 0.6}),
    "rows and queries": (podium.LambdaMART, {"row_fraction": 0.6, "query_fraction": 0.7}),
    "GOSS": (podium.LambdaMART, {"goss": (0.2, 0.3)}),
    "GOSS by query": (podium.MART, {"goss": (0.3, 0.3), "goss_by": "query", "split_by": "gradients"}),
    "monotone": (podium.LambdaMART, {"monotone": {0: 1, 1: -1}, "max_delta_step": 0.5}),
    "categories": (podium.LambdaMART, {"categorical": [3], "category_smoothing": 1.0, "min_samples_leaf": 2}),
    "categories, extra trees, level": (
        podium.MART, {"categorical": [3], "extra_trees": True, "growth": "level", "monotone": {0: 1}}),
    "splits by gradients": (podium.LambdaMART, {"split_by": "gradients", "monotone": {0: 1}}),
    "forest": (podium.RandomForest, {"min_samples_leaf": 2}),
    "mean steps": (podium.MART, {"step": "mean", "l2_regularization": 1.0, "min_gain": 0.01}),
    "oblivious": (podium.MatrixNet, {"objective": "lambda", "max_depth": 4}),
    "oblivious, leaves without rows": (podium.MatrixNet, {"objective": "ranknet", "max_depth": 6, "max_bins": 3}),
    "oblivious, extra trees": (
        podium.LambdaMART, {"growth": "oblivious", "extra_trees": True, "row_fraction": 0.7, "monotone": {0: 1}}),
    "oblivious, categories and constraints": (
        podium.MART, {"growth": "oblivious", "categorical": [3], "monotone": {1: -1}, "max_leaf_nodes": 16}),
    "oblivious, by gradients": (podium.MART, {"growth": "oblivious", "split_by": "gradients", "max_leaf_nodes": 8}),
    "bins": (podium.LambdaMART, {"max_bins": 7, "l2_regularization": 3.0, "min_hessian": 0.5}),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_model_has_the_bytes_of_the_cpu(name, ranking, tmp_path, on_device):
    kind, parameters = COMBINATIONS[name]
    check_equal_bytes(kind, ranking, tmp_path, **parameters)


@needs_compiler
@pytest.mark.parametrize("parameters", [{}, {"split_by": "gradients"}, {"goss": (0.3, 0.2)}, {"categorical": [3]}])
def test_weights_of_which_some_are_zero(parameters, ranking, tmp_path, on_device, rng):
    weights = {"sample_weight": rng.integers(0, 3, 260), "query_weight": rng.random(7)}
    check_equal_bytes(podium.LambdaMART, ranking, tmp_path, weights, **parameters)


@needs_compiler
def test_sparse_rows_in_bundles(ranking, tmp_path, on_device, rng):
    from scipy.sparse import csr_array

    X, y, qid = ranking
    hot = np.eye(12, dtype=np.float32)[rng.integers(0, 12, len(y))] * rng.integers(1, 4, (len(y), 1))
    hot[:, 0] += y > 1
    data = csr_array(np.hstack([hot, np.nan_to_num(X[:, :1])]).astype(np.float32)), y, qid
    model = check_equal_bytes(podium.LambdaMART, data, tmp_path, min_samples_leaf=3)
    assert model.bundles_
    check_equal_bytes(podium.MART, data, tmp_path, monotone={0: 1}, categorical=[12], max_bins=20)
    check_equal_bytes(podium.MART, data, tmp_path, growth="oblivious", categorical=[12], max_bins=20)


@needs_compiler
def test_evaluation_sets_base_scores_and_early_stopping(ranking, tmp_path, on_device):
    X, y, qid = ranking
    base = podium.MART(n_estimators=2, max_leaf_nodes=3).fit(X, y, qid=qid)
    fit = {"eval_set": (X[:140], y[:140], qid[:140]), "early_stopping_rounds": 2}
    check_equal_bytes(podium.LambdaMART, ranking, tmp_path, fit, init=base, n_estimators=6)


@needs_compiler
def test_histograms_of_very_many_rows(ranking, tmp_path, on_device, monkeypatch):
    for module in (trees, growing):
        monkeypatch.setattr(module, "WIDE_ROWS", 100)
    check_equal_bytes(podium.LambdaMART, ranking, tmp_path, categorical=[3])
    check_equal_bytes(podium.LambdaMART, ranking, tmp_path, categorical=[3], growth="oblivious")


@needs_compiler
@pytest.mark.parametrize("turns", [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_checkpoint_continues_on_the_other_device(turns, ranking, tmp_path, on_device):
    X, y, qid = ranking
    rules = {"n_estimators": 5, "max_leaf_nodes": 6, "row_fraction": 0.8, "random_state": 1}
    whole = podium.LambdaMART(**rules).fit(X, y, qid=qid)

    def stop(progress):
        if progress.iteration == 3:
            raise RuntimeError("the machine went down")

    options = {"checkpoint": tmp_path / "c.podium", "every": 1}
    with pytest.raises(RuntimeError, match="went down"):
        podium.LambdaMART(**rules, device=turns[0]).fit(X, y, qid=qid, callbacks=[stop], **options)
    model = podium.LambdaMART(**rules, device=turns[1]).fit(X, y, qid=qid, **options)
    assert saved_bytes(model, tmp_path) == saved_bytes(whole, tmp_path)


@needs_compiler
def test_more_trees_on_the_other_device(ranking, tmp_path, on_device):
    X, y, qid = ranking
    more = {"n_estimators": 2}
    one = podium.LambdaMART(n_estimators=2).fit(X, y, qid=qid).fit_more(X, y, qid=qid, **more)
    two = podium.LambdaMART(n_estimators=2).fit(X, y, qid=qid).set_params(device="cuda").fit_more(X, y, qid=qid, **more)
    assert saved_bytes(one, tmp_path) == saved_bytes(two, tmp_path)


@needs_compiler
def test_the_reason_for_a_tree_without_splits_is_the_same(on_device, rng):
    X, y, messages = rng.random((40, 2), dtype=np.float32), rng.integers(0, 2, 40), []
    for where in ("cpu", "cuda"):
        model = podium.MART(n_estimators=1, min_samples_leaf=30, max_leaf_nodes=4, device=where)
        with pytest.warns(UserWarning, match="min_samples_leaf") as caught:
            model.fit(X, y, qid=np.zeros(40, int))
        messages.append([str(one.message) for one in caught])
    assert messages[0] == messages[1]


@needs_compiler
@pytest.mark.parametrize("parameters", [{}, {"categorical": [3]}, {"growth": "oblivious"}, {"transform": ("zscore",)}])
def test_scores_have_the_bits_of_the_cpu(parameters, ranking, on_device, monkeypatch):
    X, y, qid = ranking
    base = podium.MART(n_estimators=2, max_leaf_nodes=3).fit(X[:, :5], y, qid=qid)
    model = podium.LambdaMART(n_estimators=6, max_leaf_nodes=8, init=base, **parameters).fit(X, y, qid=qid)
    monkeypatch.setattr(scoring, "_BLOCK_BYTES", 2_000)
    for n_trees in (None, 0, 3):
        expected = model.predict(X, qid, n_trees=n_trees)
        np.testing.assert_array_equal(model.predict(X, qid, n_trees=n_trees, device="cuda"), expected)
    with pytest.raises(ValueError, match="device"):
        model.predict(X, qid, device="cudo")


@needs_compiler
def test_scores_of_sparse_rows_have_the_bits_of_the_cpu(on_device, rng):
    from scipy.sparse import random_array

    X, y, qid = (
        random_array((200, 30), density=0.1, rng=rng, format="csr"),
        rng.integers(0, 3, 200),
        np.arange(200) // 20,
    )
    model = podium.MART(n_estimators=4, min_samples_leaf=2).fit(X, y, qid=qid)
    np.testing.assert_array_equal(model.predict(X, device="cuda"), model.predict(X))


# --- objectives ------------------------------------------------------------------------------------------------------

OBJECTIVES = {
    "squared": {}, "logistic": {"alpha": 0.7}, "ordinal": {}, "query_rmse": {}, "hinge": {}, "squared_hinge": {},
    "exponential": {}, "ranknet": {"ties": True, "sigma": 1.5, "pair_exponent": 0.5},
}  # fmt: skip
LAMBDAS = [
    Lambda("ndcg@10", normalize="lightgbm"),
    Lambda("ndcg@50", normalize="xgboost", sigma=2.0),
    Lambda("ndcg", pair_exponent=0.5),
    Lambda("map"),
    Lambda("rr"),
    Lambda("err@5"),
]


@needs_compiler
@pytest.mark.parametrize("objective", [*OBJECTIVES, *LAMBDAS], ids=str)
@pytest.mark.parametrize("spread", [1.0, 60.0, 0.0])
def test_derivatives_have_the_bits_of_the_cpu(objective, spread, rng):
    """Also for scores so far apart that powers are made row by row, and for equal ones; with and without weights."""
    from podium.learners.trees.cuda.derivatives import Derivatives

    offsets = np.array([0, 1, 1, 34, 35, 100, 230])
    labels, n = rng.integers(0, 4, 230).astype(float), 230
    scores = np.round(rng.standard_normal(n) * spread * 8) / 8
    value = objective if isinstance(objective, Lambda) else parse_objective(objective, **OBJECTIVES[objective])
    for weights in (None, rng.integers(0, 3, n)):
        bound = value.bind(labels, offsets, weights, rng.random(6))
        g, h = np.empty((2, n), np.float32)
        bound.derivatives(scores, g, h)
        on = device.Gpu() if ON_GPU else Host()
        memory = Memory(on, scores)
        Derivatives(on, memory, bound.on_cuda()).fill()
        np.testing.assert_array_equal(on.download(memory.gradients), g)
        np.testing.assert_array_equal(on.download(memory.hessians), h)


class Memory:
    """The arrays that derivatives take of a `TreeBuilder`."""

    def __init__(self, on, scores):
        self.n, self.scores = len(scores), on.upload(scores)
        self.gradients, self.hessians = (on.empty(self.n, np.float32) for _ in range(2))
        self.scratch = on.empty(self.n, np.uint32), on.empty((self.n, 2), np.int32), on.empty(self.n, np.uint32)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"step": "exact", "objective": "squared"}, "step='exact'"),
        ({"drop_rate": 0.1}, "drop_rate=0.1"),
        ({"max_impurity": 0.5}, "max_impurity=0.5"),
        ({"max_conflicts": 0.1}, "max_conflicts=0.1"),
        ({"objective": "listnet"}, "this objective"),
        ({"objective": Lambda("auc")}, "this objective"),
    ],
)
def test_what_is_not_covered_is_refused_by_name(parameters, name, ranking, on_device):
    X, y, qid = ranking
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ValueError, match=f'device="cuda" does not support {name}'.replace("(", r"\(")):
            podium.Boosted(n_estimators=1, **{"objective": "squared"} | parameters, device="cuda").fit(X, y, qid=qid)
        model = podium.Boosted(n_estimators=1, **{"objective": "squared"} | parameters, device="auto")
        assert model.fit(X, y, qid=qid).forest_.n_trees == 1


@pytest.mark.skipif(device.why_not() is None, reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_is_missing(ranking):
    X, y, qid = ranking
    with pytest.raises(ValueError, match=r'device="cuda" needs an NVIDIA GPU and CuPy.*Use device="cpu", or "auto"'):
        podium.LambdaMART(n_estimators=1, device="cuda").fit(X, y, qid=qid)
    assert podium.LambdaMART(n_estimators=1, device="auto").fit(X, y, qid=qid).forest_.n_trees == 1


@needs_compiler
def test_data_larger_than_the_memory_are_refused_with_the_need(ranking, on_device, monkeypatch):
    X, y, qid = ranking
    monkeypatch.setattr(Host, "free_bytes", lambda self: 100_000)
    monkeypatch.setattr(device.Gpu, "free_bytes", lambda self: 100_000)
    with pytest.raises(ValueError, match=r"training 260 rows x 5 columns on the GPU needs 0.0 GB; 0.0 GB are free"):
        podium.LambdaMART(device="cuda").fit(X, y, qid=qid)


@needs_compiler
def test_infinite_derivatives_are_refused_as_on_the_cpu(ranking, on_device):
    X, y, qid = ranking
    for where in ("cpu", "cuda"):
        with pytest.raises(ValueError, match="a gradient of the objective is not finite; no tree can be grown"):
            podium.MART(n_estimators=2, device=where).fit(X, np.where(np.arange(len(y)) == 50, 1e45, y), qid=qid)


def test_the_device_is_not_saved(ranking, tmp_path):
    X, y, qid = ranking
    model = podium.MART(n_estimators=1, max_leaf_nodes=3).fit(X, y, qid=qid)
    before = saved_bytes(model, tmp_path)
    assert saved_bytes(model.set_params(device="auto"), tmp_path) == before
    assert podium.load(tmp_path / "model.podium").device == "cpu"


def test_a_tree_on_the_gpu_needs_no_numba():
    """What runs from bound arrays to the arrays of a forest, in a process that cannot import Numba."""
    import subprocess
    import sys

    code = """
import sys
for name in ("numba", "llvmlite"):
    sys.modules[name] = None
import podium.learners.trees.cuda.derivatives, podium.learners.trees.training.finishing
import podium.objectives.lambdas, podium.learners.trees.training.bundling
"""
    subprocess.run([sys.executable, "-c", code], check=True)
