"""Explanations of models: importances, attributions, why one document is ranked above another, dependence, drawings."""

import json
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy.sparse import csr_array

import podium
from podium import explain
from podium.data.ranking import RankingData
from podium.explain.queries import explain_pair, explain_top
from podium.models.trees.named import MART, LambdaMART, LambdaSMART, MatrixNet, RegressionTree

pytestmark = pytest.mark.usefixtures("large_sizes")

NAMES = ("bm25", "pagerank", "age")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    X[::7, 2] = np.nan
    y = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 1), 0, 4)
    docids = [f"d{row}" for row in range(400)]
    return RankingData.from_arrays(X, y, qid=np.arange(400) // 20, docids=docids, feature_names=NAMES)


@pytest.fixture(scope="module")
def model(data):
    made = LambdaMART(n_estimators=10, max_leaf_nodes=8, min_samples_leaf=5, n_jobs=1)
    return made.fit(data, eval_set=data)


@pytest.fixture(scope="module")
def stump():
    """x <= 5 gives the mean of 1 and 2, above it is 4: nine rows of each."""
    X = np.array([[2, 0]] * 6 + [[4, 0]] * 3 + [[6, 0]] * 9, dtype=np.float32)
    y = np.array([1] * 6 + [2] * 3 + [4] * 9)
    made = RegressionTree(max_leaf_nodes=2, min_samples_leaf=1, n_jobs=1)
    return made.fit(X, y, qid=np.zeros(18, int))


def test_importance_counts_gain_splits_and_rows(stump):
    assert explain.importance(stump, "split").as_dict() == {"feature 1": 1.0, "feature 2": 0.0}
    assert explain.importance(stump, "cover").as_dict() == {"feature 1": 18.0, "feature 2": 0.0}
    gain = explain.importance(stump)
    assert gain.kind == "gain"
    assert gain.values[0] == stump.forest_.gain[0]
    assert explain.importance(stump, normalize=True).top(5) == [("feature 1", 1.0)]


def test_importance_sorts_prints_and_agrees_with_scikit_learns_attribute(model):
    found = explain.importance(model, normalize=True)
    np.testing.assert_allclose(found.values, model.feature_importances_)
    assert list(found.sorted().values) == sorted(found.values, reverse=True)
    assert found.top(1)[0][0] == "bm25"
    assert str(found).splitlines()[1].split()[0] == "bm25"
    assert len(found) == 3
    with pytest.raises(ValueError, match=r"kind must be one of gain, split, cover; got 'gian'. Did you mean 'gain'"):
        explain.importance(model, "gian")


def test_attributions_of_a_stump_are_the_distance_from_the_mean(stump):
    found = explain.shap_values(stump, np.array([[0, 7], [9, 7]], np.float32))
    low, high = (6 * 1 + 3 * 2) / 9, 4
    mean = (low + high) / 2
    assert found.base == pytest.approx(mean)
    np.testing.assert_allclose(found.values, [[low - mean, 0], [high - mean, 0]], atol=1e-6)
    assert found.top(1) == [("feature 1", pytest.approx(high - mean))]


def test_attributions_add_up_to_the_score(model, data):
    found = explain.shap_values(model, data)
    assert found.names == NAMES
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, model.predict(data), atol=1e-9)
    assert found.importance().top(1)[0][0] == "bm25"


def test_centred_attributions_add_up_to_the_distance_from_the_querys_mean(model, data, rng):
    order = rng.permutation(data.n_rows)  # queries interleaved
    rows, qid = data.X[order], data.qid[order]
    nameless = LambdaMART(n_estimators=5, max_leaf_nodes=8, n_jobs=1).fit(rows, data.y[order], qid=qid)
    found, scores = explain.shap_values(nameless, rows, qid=qid), nameless.predict(rows)
    means = np.array([scores[qid == query].mean() for query in qid])
    assert found.base == 0
    np.testing.assert_allclose(found.values.sum(axis=1), scores - means, atol=1e-9)
    np.testing.assert_allclose(found.values[qid == 3].sum(axis=0), 0, atol=1e-9)


def test_a_base_model_is_explained_too(data):
    base = MART(n_estimators=5, max_leaf_nodes=4, n_jobs=1).fit(data)
    model = LambdaSMART(n_estimators=5, max_leaf_nodes=4, init=base, n_jobs=1).fit(data)
    found = explain.shap_values(model, data)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, model.predict(data), atol=1e-9)
    assert model.inspect().base.model == "MART"
    assert "started from:\n  MART: 5 trees" in str(model.inspect())


def test_other_models_are_refused():
    from sklearn.linear_model import LinearRegression

    with pytest.raises(ValueError, match=r"expected a model of Podium.*got LinearRegression"):
        explain.shap_values(LinearRegression(), np.zeros((1, 2)))


def test_why_names_the_feature_from_the_side_of_the_upper_document(stump):
    X = np.array([[2, 0], [6, 0], [4, 0]], np.float32)
    low, high = 4 / 3, 4
    for i, j in ((1, 0), (0, 1)):
        found = explain.why(stump, X, i, j, names=["bm25", "age"])
        text = "Document 1 is ranked above document 0 by 2.667, mainly because bm25 is 6 against 2 (+2.67)."
        assert found.text == text
        assert found.difference == pytest.approx((high - low) * (1 if i else -1))
        assert [reason.feature for reason in found.reasons] == ["bm25"]
        assert found.reasons[0].contribution == pytest.approx(found.difference)
    same = explain.why(stump, X, 0, 2)
    assert str(same) == "Documents 0 and 2 have the same score, 1.333: the model sees no difference between them."


def test_why_tells_what_speaks_against_and_what_is_missing():
    reasons = (
        explain.Reason("bm25", 0.5, 12.1, 8.3),
        explain.Reason("age", -0.2, np.nan, 3.0),
        explain.Reason("links", 0.1, 7.0, 7.0),
        explain.Reason("dust", -0.001, 1.0, 2.0),
    )
    found = explain.Why(("3", "7"), (1.4, 1.001), reasons)
    assert found.text == (
        "Document 3 is ranked above document 7 by 0.399, mainly because bm25 is 12.1 against 8.3 (+0.5), links is 7 in "
        "both (+0.1). Against that, age is missing against 3 (-0.2)."
    )
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["reasons"][1]["value"] is None
    assert found.table().row_count == 5


def test_reasons_add_up_to_the_difference(model, data):
    scores = model.predict(data)
    for i, j in ((0, 1), (5, 300)):
        found = explain.why(model, data, i, j)
        assert found.difference == scores[i] - scores[j]
        assert sum(reason.contribution for reason in found.reasons) == pytest.approx(found.difference, abs=1e-9)
        sizes = [abs(reason.contribution) for reason in found.reasons]
        assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(ValueError, match="j must be a row of X, from 0 to 399; got 400"):
        explain.why(model, data, 0, 400)


def test_partial_dependence_moves_one_feature_and_keeps_the_others(model, data):
    found = explain.partial_dependence(model, data, "bm25", grid=[-1.0, 1.0])
    for place, value in enumerate((-1.0, 1.0)):
        X = data.X.copy()
        X[:, 0] = value
        np.testing.assert_allclose(found.curves[:, place], model.score_columns(X, None))
    assert found.mean[1] > found.mean[0]
    by_column = explain.partial_dependence(model, data, 0, grid=5)
    assert by_column.feature == "bm25"
    assert by_column.grid[0] == data.X[:, 0].min()
    assert by_column.grid[-1] == data.X[:, 0].max()
    assert str(by_column).startswith("mean score by bm25:")
    with pytest.raises(ValueError, match=r"feature must be one of .* got 'bm52'. Did you mean 'bm25'"):
        explain.partial_dependence(model, data, "bm52")
    with pytest.raises(ValueError, match="a column from 0 to 2; got 3"):
        explain.partial_dependence(model, data, 3)


def test_inspect_tells_what_a_model_is_made_of(model):
    found = model.inspect()
    assert found.n_trees == 10
    assert all(2 <= tree.leaves <= 8 for tree in found.trees)
    assert [tree.depth for tree in found.trees] == model.forest_.depths.tolist()
    assert found.top_features[0][0] == "bm25"
    assert found.parameters["max_leaf_nodes"] == 8
    assert found.changed == ["n_estimators", "max_leaf_nodes", "min_samples_leaf"]
    assert found.bundles == []
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["n_trees"] == 10
    assert plain["trees"][0]["leaves"] == found.trees[0].leaves
    assert str(found).startswith("LambdaMART: 10 trees with ")


def test_inspect_knows_an_oblivious_tree_by_its_levels(model):
    from podium.learners.trees.scoring.forest import Forest, TreeArrays

    left = np.array([1, 3, 5, 3, 4, 5, 6])
    feature, missing = np.array([0, 1, 1, 0, 0, 0, 0]), np.array([1, 0, 0, 0, 0, 0, 0])

    def inspected(second_threshold):
        threshold = np.array([2, 3, second_threshold, *[np.inf] * 4])
        tree = TreeArrays(feature, threshold, left, missing, np.zeros(7), np.zeros(7), np.full(7, 4), 2)
        twin = LambdaMART()
        twin.forest_, twin.n_features_in_ = Forest.join([tree], 0.0, 2), 2
        twin.bundles_, twin.categories_ = [], {}
        twin.transform_ = None
        return twin.inspect()

    assert inspected(3).trees[0].levels == ["feature 1 <= 2", "feature 2 <= 3 or missing"]
    assert "oblivious, one split per level: 1 of 1 tree\n  tree 1: feature 1 <= 2; feature 2 <= 3" in str(inspected(3))
    assert not inspected(4).trees[0].oblivious
    assert not any(tree.oblivious and tree.depth > 1 and tree.leaves < 4 for tree in model.inspect().trees)


def test_inspect_shows_what_was_grown_and_bundled(splits, tmp_path):
    grown = MatrixNet(n_estimators=3, max_depth=3).fit(splits.train).inspect()
    assert all(tree.oblivious and len(tree.levels) == 3 for tree in grown.trees)
    X = np.zeros((60, 3), np.float32)
    X[np.arange(60), np.arange(60) % 3] = 1
    bundled = LambdaMART(n_estimators=2, bundle_features=True).fit(X, np.arange(60) % 3, group=[60])
    bundled.save(tmp_path / "m.podium")
    for model in (bundled, podium.load(tmp_path / "m.podium")):
        assert model.inspect().bundles == [["feature 1", "feature 2", "feature 3"]]
        assert "bundled: 3 features in 1 bundle\n  3 features: feature 1 to feature 3\n" in str(model.inspect())


def parsed(path):
    return ElementTree.parse(path).getroot().tag.endswith("svg")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # matplotlib's own
def test_drawings_are_pictures(model, data, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    explain.draw_tree(model, 1, tmp_path / "tree.svg")
    explain.draw_curves(model, tmp_path / "curves.svg")
    explain.why(model, data, 0, 1).picture(tmp_path / "why.svg")
    explain.partial_dependence(model, data, "bm25", grid=5).picture(tmp_path / "dependence.svg")
    explain_top(model, data, "3", 3).picture(tmp_path / "top.svg")
    for name in ("tree", "curves", "why", "dependence", "top"):
        assert parsed(tmp_path / f"{name}.svg")
    text = (tmp_path / "tree.svg").read_text()
    assert text.count(" rows<") == len(model.forest_.split()[0].feature)
    assert "bm25" in text
    before = (tmp_path / "why.svg").read_bytes()
    explain.why(model, data, 0, 1).picture(tmp_path / "why.svg")
    assert (tmp_path / "why.svg").read_bytes() == before
    explain.draw_tree(model, 10, tmp_path / "tree.png")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_reported(model, stump, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"suffix of a picture must be one of .svg, .png; got '.jpg'"):
        explain.draw_tree(model, 1, tmp_path / "tree.jpg")
    with pytest.raises(ValueError, match="tree must be from 1 to 10; got 11"):
        explain.draw_tree(model, 11, tmp_path / "tree.svg")
    with pytest.raises(ValueError, match=r"no learning curves. Train it with an eval_set"):
        explain.draw_curves(stump, tmp_path / "curves.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'Drawing needs matplotlib. Install it with: pip install "podium\[report\]"'):
        explain.draw_tree(model, 1, tmp_path / "tree.svg")


def test_a_query_is_explained_by_its_best_documents(model, data):
    found = explain_top(model, data, "3", 4)
    part = data.subset([3])
    scores = model.predict(part)
    best = sorted(sorted(range(20), key=lambda row: part.docids[row], reverse=True), key=lambda row: -scores[row])[:4]
    assert [one.document for one in found.top] == [part.docids[row] for row in best]
    centred = explain.shap_values(model, part, qid=part.qid).values
    assert found.top[0].features[0].contribution == centred[best[0]][np.argmax(np.abs(centred[best[0]]))]
    assert found.sentences()[1].startswith(f"1. {found.top[0].document}, score {scores.max():.4f}: ")


def test_documents_and_queries_that_are_not_there_are_reported(model, data):
    with pytest.raises(
        ValueError, match=r"There is no query '33' among 0, 1, 2, 3, 4, ... \(20 in all\). Did you mean"
    ):
        explain_top(model, data, "33", 4)
    with pytest.raises(ValueError, match=r"Query 3 has no document 'd1'; it has d60, d61, .* \(20 in all\)"):
        explain_pair(model, data, "3", ("d60", "d1"))
    assert explain_pair(model, data, "3", ("d60", "d61")).documents == ("d60", "d61")


def test_explain_is_reached_from_podium():
    assert podium.explain is explain


@pytest.fixture(scope="module")
def sparse_data(data):
    """The same documents with many zeros, dense and sparse, in more than one block of rows."""
    X = np.tile(np.where(np.abs(data.X) < 1, 0, data.X), (2, 1))
    y, qid = np.tile(data.y, 2), np.arange(800) // 20
    docids = [f"d{row}" for row in range(800)]
    return [RankingData.from_arrays(rows, y, qid=qid, docids=docids) for rows in (X, csr_array(X))]


def test_explanations_of_sparse_rows_are_those_of_the_rows_written_out(sparse_data):
    dense, sparse = sparse_data
    base = MART(n_estimators=2, max_leaf_nodes=4).fit(sparse)
    model = LambdaSMART(n_estimators=5, max_leaf_nodes=8, init=base).fit(sparse)
    assert isinstance(sparse.X, csr_array)
    for ours, theirs in ((sparse, dense), (sparse.X, dense.X)):
        found, expected = (explain.shap_values(model, rows, qid=dense.qid) for rows in (ours, theirs))
        np.testing.assert_array_equal(found.values, expected.values)
        for feature in (0, 2):
            found, expected = (explain.partial_dependence(model, rows, feature) for rows in (ours, theirs))
            np.testing.assert_array_equal(found.grid, expected.grid)
            np.testing.assert_array_equal(found.curves, expected.curves)
    why = [explain.why(model, data, 30, 31).as_dict() for data in sparse_data]
    assert why[0] == why[1]
    top = [explain_top(model, data, "3", 4) for data in sparse_data]
    assert top[0] == top[1]
    with pytest.raises(ValueError, match="i must be a row of X, from 0 to 799; got 800"):
        explain.why(model, sparse, 800, 1)


def test_changing_one_feature_of_sparse_rows_leaves_them_as_they_were(sparse_data):
    sparse = sparse_data[1]
    model = MART(n_estimators=2, max_leaf_nodes=4).fit(sparse)
    before = sparse.X.toarray()
    found = explain.partial_dependence(model, sparse, 2, grid=[0.0, 2.5])
    np.testing.assert_array_equal(sparse.X.toarray(), before)
    before[:, 2] = 2.5
    np.testing.assert_array_equal(found.curves[:, 1], model.predict(before))
