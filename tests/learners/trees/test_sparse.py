"""Sparse rows: whatever is done with them has the bits of what is done with the same rows written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from podium.data.ranking import RankingData
from podium.data.sparse import as_sparse
from podium.learners.trees.scoring.forest import FOREST_ARRAYS
from podium.learners.trees.scoring.sparse import NarrowForest
from podium.learners.trees.training.binning import bin_rows, find_bin_edges
from podium.learners.trees.training.bundling import LayoutRules, find_bundles, make_layout
from podium.models.trees.named import MART, LambdaMART, MatrixNet, RandomForest

pytestmark = pytest.mark.usefixtures("large_sizes")

numbers = st.sampled_from([0.0, 0.0, 0.0, -0.0, 1.0, -1.0, 2.0, np.nan, 1.4e-45, -1.4e-45]) | st.floats(-4, 4, width=32)
shapes = st.tuples(st.integers(1, 40), st.integers(1, 12))


def written_out(X, store=0.0):
    """A matrix that stores some of the zeros as well: every one whose number is below `store`."""
    kept = (X != 0) | (np.random.default_rng(0).random(X.shape) < store)
    rows, columns = np.nonzero(kept)
    ends = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return as_sparse(csr_array((X[rows, columns], columns, ends), shape=X.shape))


def make_rows(rng, n=900):
    """One-hot blocks, numbers, missing values, two columns of categories, one of zeros; labels and queries."""
    X = np.zeros((n, 30), np.float32)
    for block in range(3):
        X[np.arange(n), 8 * block + rng.integers(0, 8, n)] = rng.integers(-2, 4, n)
    X[:, 24:26] = rng.standard_normal((n, 2))
    X[rng.random(n) < 0.1, 25] = np.nan
    X[:, 26], X[:, 27] = rng.integers(0, 5, n), rng.integers(3, 6, n)
    X[rng.random((n, 30)) < 0.05] = 0
    y = 2 * (X[:, 0] > 0) + (X[:, 9] > 1) + (X[:, 24] > 0) + (X[:, 26] == 3)
    return X, y.astype(np.int64), np.arange(n) // 25


@given(arrays(np.float32, shapes, elements=numbers), st.integers(2, 9) | st.just(255), st.floats(0, 1), st.booleans())
@settings(max_examples=150)
def test_borders_and_bins_are_those_of_the_rows_written_out(X, max_bins, store, named):
    matrix, categorical = written_out(X, store), np.arange(X.shape[1]) % 3 == (0 if named else 3)
    dense = find_bin_edges(X, max_bins, categorical=categorical)
    found = find_bin_edges(matrix, max_bins, categorical=categorical)
    assert found.upper.tobytes() == dense.upper.tobytes()
    np.testing.assert_array_equal(found.n_bins, dense.n_bins)
    np.testing.assert_array_equal(found.has_missing, dense.has_missing)
    for rules in (LayoutRules(), LayoutRules(max_conflicts=0.3)):
        layout = make_layout(find_bundles(matrix, found, rules, 0, 1), found, rules)
        ours, theirs = bin_rows(matrix, found, 1, layout), bin_rows(X, found, 1, layout)
        for name in ("rows", "columns", "n_slots"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        np.testing.assert_array_equal(ours.edges.has_missing, theirs.edges.has_missing)


def test_rows_of_many_blocks_and_threads_are_binned_alike(rng):
    X = np.where(rng.random((40_000, 6)) < 0.1, rng.integers(-3, 4, (40_000, 6)), 0).astype(np.float32)
    matrix = as_sparse(csr_array(X))
    edges = find_bin_edges(X)
    for n_jobs in (1, 3):
        np.testing.assert_array_equal(bin_rows(matrix, edges, n_jobs).rows, bin_rows(X, edges, n_jobs).rows)


def test_the_same_sample_is_drawn(rng, monkeypatch):
    monkeypatch.setattr("podium.learners.trees.training.binning.LARGEST_SAMPLE", 300)
    X, _, _ = make_rows(rng)
    matrix = as_sparse(csr_array(X))
    edges = find_bin_edges(X, 20, seed=3)
    assert find_bin_edges(matrix, 20, seed=3).upper.tobytes() == edges.upper.tobytes()
    assert find_bin_edges(X, 20, seed=4).upper.tobytes() != edges.upper.tobytes()
    rules = LayoutRules(bundle_features=True)
    ours, theirs = (make_layout(find_bundles(rows, edges, rules, 3, 1), edges, rules) for rows in (matrix, X))
    np.testing.assert_array_equal(ours.column[:24], theirs.column[:24])


def test_a_category_that_is_only_absent_counts_as_missing_if_there_are_enough_others():
    X = np.array([[1], [1], [2], [2], [0]], np.float32)
    matrix, categorical = as_sparse(csr_array(X)), np.array([True])
    binned = bin_rows(matrix, find_bin_edges(matrix, 2, categorical=categorical))
    assert binned.columns.tolist() == [[0, 0, 1, 1, 255]]
    assert binned.edges.has_missing.tolist() == [True]
    assert not bin_rows(matrix[:4], find_bin_edges(matrix, 2, categorical=categorical)).edges.has_missing.any()


def test_sparse_rows_are_bundled_unless_told_not_to(rng):
    X, y, qid = make_rows(rng)
    model = LambdaMART(n_estimators=1)
    assert len(model.fit(csr_array(X), y, qid).bundles_) == 3
    assert model.fit(X, y, qid).bundles_ == []
    assert model.set_params(bundle_features=False).fit(csr_array(X), y, qid).bundles_ == []


def assert_same_trees(one, other):
    for name in FOREST_ARRAYS:
        assert getattr(one.forest_, name).tobytes() == getattr(other.forest_, name).tobytes(), name
    assert one.forest_.start == other.forest_.start


SETTINGS = {
    "plain": (LambdaMART, {}),
    "one thread": (LambdaMART, {"n_jobs": 1}),
    "no bundles": (LambdaMART, {"bundle_features": False}),
    "DART": (LambdaMART, {"drop_rate": 0.4, "skip_drop": 0.0}),
    "GOSS": (LambdaMART, {"goss": (0.2, 0.2)}),
    "sampled": (LambdaMART, {"row_fraction": 0.6, "feature_fraction": 0.6}),
    "categorical": (LambdaMART, {"categorical": [26, 27, 0]}),
    "monotone": (LambdaMART, {"monotone": {24: 1, 0: -1}}),
    "by level": (LambdaMART, {"growth": "level"}),
    "oblivious": (MatrixNet, {"max_depth": 3, "categorical": [26]}),
    "forest": (RandomForest, {}),
    "few bins": (MART, {"max_bins": 4}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_trees_and_curves_are_those_of_the_rows_written_out(rng, name):
    X, y, qid = make_rows(rng)
    kind, options = SETTINGS[name]
    leaves = {} if kind is MatrixNet else {"max_leaf_nodes": 8}
    options = {"n_estimators": 8, "n_jobs": 2} | leaves | options
    models = []
    for rows in (X, csr_array(X)):
        valid = rows[:200], y[:200], qid[:200]
        model = kind(**options).fit(rows[200:], y[200:], qid[200:], eval_set=valid, early_stopping_rounds=4)
        models.append(model)
    dense, found = models
    assert_same_trees(found, dense)
    assert found.evals_ == dense.evals_
    assert found.predict(csr_array(X)).tobytes() == dense.predict(X).tobytes()


@pytest.fixture(scope="module")
def fitted():
    """Rows, labels, queries, and a model with categories."""
    X, y, qid = make_rows(np.random.default_rng(5))
    options = {"n_estimators": 12, "max_leaf_nodes": 8, "categorical": [26], "n_jobs": 2}
    return X, y, qid, LambdaMART(**options).fit(X, y, qid)


@pytest.mark.parametrize("n", [1, 5, 16, 900])
def test_scores_have_the_same_bits(fitted, n):
    X, _, qid, model = fitted
    X, matrix = X[:n], csr_array(X[:n])
    assert model.predict(matrix).tobytes() == model.predict(X).tobytes()
    assert model.predict(matrix, n_trees=5).tobytes() == model.predict(X, n_trees=5).tobytes()
    assert model.tree_contributions(matrix).tobytes() == model.tree_contributions(X).tobytes()
    for ours, theirs in zip(model.staged_predict(matrix), model.staged_predict(X), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    np.testing.assert_array_equal(model.rank(matrix, qid[:n]), model.rank(X, qid[:n]))


def test_large_trees_and_many_blocks_have_the_same_bits(rng, monkeypatch):
    monkeypatch.setattr("podium.learners.trees.scoring.sparse._BLOCK_VALUES", 10)  # 64 rows a block
    X, _, qid = make_rows(rng)
    model = MART(n_estimators=2, max_leaf_nodes=400, min_samples_leaf=1).fit(X, rng.random(len(X)), qid)
    assert model.forest_.bit_tables is None
    assert model.predict(csr_array(X)).tobytes() == model.predict(X).tobytes()


def test_a_narrow_forest_asks_for_what_the_trees_ask_for(fitted):
    X, _, _, model = fitted
    forest = model.forest_
    for first, last in ((0, forest.n_trees), (3, 4), (5, 5)):
        narrow = NarrowForest.of(forest, first, last)
        nodes = slice(forest.roots[first], forest.roots[last])
        splits = forest.left[nodes] != np.arange(nodes.start, nodes.stop)
        used = np.unique(forest.owner[nodes][splits])
        np.testing.assert_array_equal(np.flatnonzero(narrow.number >= 0), used)
        assert narrow.forest.n_features == max(1, len(used))
        narrow.forest.check()
        if len(used):
            np.testing.assert_array_equal(narrow.take(as_sparse(csr_array(X)), slice(10, 20)), X[10:20][:, used])


def test_long_indices_give_the_same_scores(fitted):
    X, _, _, model = fitted
    matrix = csr_array(X)
    long = csr_array(X)
    long.indices, long.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    assert model.forest_.scores(long).tobytes() == model.forest_.scores(matrix).tobytes()
    edges = find_bin_edges(matrix)
    np.testing.assert_array_equal(bin_rows(long, edges).rows, bin_rows(matrix, edges).rows)


def test_training_goes_on_from_trees_and_from_base_models(rng):
    X, y, qid = make_rows(rng)
    models = []
    for rows in (X, csr_array(X)):
        base = MART(n_estimators=3, max_leaf_nodes=6).fit(rows, y, qid)
        model = LambdaMART(n_estimators=4, max_leaf_nodes=6, init=base).fit(rows, y, qid)
        both = [(X, y, qid), (csr_array(X), y, qid)]
        models.append(model.fit_more(rows, y, qid, n_estimators=3, eval_set=both))
    assert models[0].forest_.n_trees == 7
    assert_same_trees(*models)
    assert models[0].evals_ == models[1].evals_
    assert models[0].evals_["eval_0"] == models[0].evals_["eval_1"]
    assert models[1].predict(csr_array(X)).tobytes() == models[0].predict(X).tobytes()


def test_a_base_model_of_another_kind_gets_sparse_rows(rng):
    class Counting:
        def predict(self, rows):
            assert rows.format == "csr"
            return np.diff(rows.indptr)

    X, y, qid = make_rows(rng)
    model = LambdaMART(n_estimators=2, init=Counting()).fit(csr_array(X), y, qid)
    np.testing.assert_array_equal(model.predict(csr_array(X)), model.forest_.scores(X) + np.count_nonzero(X, axis=1))


def test_refit_and_prune_take_sparse_rows(fitted):
    X, y, qid, model = fitted
    matrix = csr_array(X)
    assert_same_trees(model.refit(matrix, y, qid, decay=0.3), model.refit(X, y, qid, decay=0.3))
    ours, theirs = model.prune(matrix, y, qid, tolerance=0.02), model.prune(X, y, qid, tolerance=0.02)
    assert_same_trees(ours.model, theirs.model)
    assert [(step.n_trees, step.value) for step in ours.steps] == [(step.n_trees, step.value) for step in theirs.steps]
    assert ours.model.forest_.n_trees < model.forest_.n_trees


def test_a_training_on_sparse_rows_is_resumed_and_knows_its_rows(rng, tmp_path):
    X, y, qid = make_rows(rng)
    matrix, path = csr_array(X), tmp_path / "run.checkpoint"

    def stop(progress):
        if progress.iteration == 5:
            raise RuntimeError

    model = LambdaMART(n_estimators=8, max_leaf_nodes=6, drop_rate=0.3)
    with pytest.raises(RuntimeError):
        model.fit(matrix, y, qid, checkpoint=path, every=2, callbacks=[stop])
    other = matrix.copy()
    other.data[7] += 1
    with pytest.raises(ValueError, match=r"the training data is .* checksum"):
        model.fit(other, y, qid, checkpoint=path, every=2)
    model.fit(matrix, y, qid, checkpoint=path, every=2)
    assert_same_trees(model, LambdaMART(n_estimators=8, max_leaf_nodes=6, drop_rate=0.3).fit(X, y, qid))


def test_every_way_in_takes_sparse_rows(fitted):
    X, y, qid, model = fitted
    matrix = csr_array(X)
    data = RankingData.from_arrays(matrix, y, qid=qid)
    assert model.score(matrix, y, qid) == model.score(X, y, qid) == model.score(data)
    one = MART(n_estimators=1).fit(matrix, y, group=[len(y)])
    assert one.score(matrix, y, group=[len(y)]) == one.score(X, y, group=[len(y)])
    for name in ("csc", "coo", "lil"):
        assert model.predict(matrix.asformat(name)).tobytes() == model.predict(X).tobytes()
    twin = LambdaMART(**model.get_params()).fit(data)
    assert_same_trees(twin, model)


WAYS_IN = {
    "fit": lambda model, X, y, qid: LambdaMART(n_estimators=1).fit(X, y, qid),
    "eval_set": lambda model, X, y, qid: model.fit_more(X, y, qid, n_estimators=1, eval_set=(X, y, qid)),
    "predict": lambda model, X, y, qid: model.predict(X),
    "from_arrays": lambda model, X, y, qid: RankingData.from_arrays(X, y, qid=qid),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_broken_and_infinite_rows_are_refused_everywhere(fitted, way):
    X, y, qid, model = fitted
    broken, infinite = csr_array(X), csr_array(X)
    broken.indices[5], infinite.data[0] = 10**6, np.inf
    for matrix, message in ((broken, r"indices\[5\] is 1000000"), (infinite, r"X\[0, .*\] is inf")):
        with pytest.raises(ValueError, match=message):
            WAYS_IN[way](model, matrix, y, qid)


def test_rows_of_another_width_are_refused(fitted):
    X, y, qid, model = fitted
    narrow = csr_array(X[:, :7])
    with pytest.raises(ValueError, match="7 features"):
        model.predict(narrow)
    with pytest.raises(ValueError, match="7 features"):
        LambdaMART(n_estimators=1).fit(X, y, qid, eval_set=(narrow, y, qid))


def test_a_scorer_says_what_to_do_with_sparse_rows(fitted):
    X, _, _, model = fitted
    with pytest.raises(ValueError, match=r"got a sparse matrix. Use rows.toarray\(\), or predict"):
        model.scorer()(csr_array(X))


@pytest.mark.filterwarnings("ignore:MART. each of the 3 features is constant:UserWarning")
def test_a_model_without_a_split_scores_sparse_rows():
    matrix = csr_array((4, 3), dtype=np.float32)
    model = MART(n_estimators=2).fit(matrix, [0, 1, 2, 1], group=[4])
    assert model.predict(matrix).tolist() == [1, 1, 1, 1]


def test_no_matrix_of_rows_times_features_is_made(rng):
    """20,000 rows x 100,000 columns would be 8 GB."""
    n, width = 20_000, 100_000
    columns = np.sort(rng.integers(0, 50, (n, 3)) + np.array([0, 50, width - 50]), axis=1)
    matrix = csr_array((np.ones(3 * n), columns.ravel(), np.arange(0, 3 * n + 1, 3)), shape=(n, width))
    y, qid = (columns[:, 0] % 3).astype(np.int64), np.arange(n) // 50
    model = LambdaMART(n_estimators=3, drop_rate=0.5).fit(matrix, y, qid, eval_set=(matrix, y, qid))
    assert sum(map(len, model.bundles_)) == 150
    scores = model.predict(matrix)
    np.testing.assert_array_equal(scores[:3], model.predict(matrix[:3].toarray()))
