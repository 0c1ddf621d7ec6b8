"""Shapley values: equal to the definition, to shap and to LightGBM, on the same trees."""

import numpy as np
import pytest
from oracles import shapley_values

from podium.explain.shapley import Paths
from podium.learners.trees.scoring.forest import Forest, TreeArrays

ARRAYS = ("feature", "threshold", "left", "missing_right", "value", "count")


def tree_of(nodes):
    """A tree from (feature, threshold, left, missing goes right, count) for splits and (value, count) for leaves."""
    columns = {name: [] for name in ARRAYS}
    depth = {0: 0}
    for number, node in enumerate(nodes):
        leaf = len(node) == 2
        feature, threshold, left, missing = (0, np.inf, number, 0) if leaf else node[:4]
        entries = (feature, threshold, left, missing, node[0] if leaf else 0.0, node[-1])
        for name, entry in zip(ARRAYS, entries):
            columns[name].append(entry)
        if not leaf:
            depth[left] = depth[left + 1] = depth[number] + 1
    arrays = {name: np.array(column) for name, column in columns.items()}
    return TreeArrays(**arrays, gain=np.zeros(len(nodes)), depth=max(depth.values()))


def forest_of(trees, n_features, start=0.0):
    forest = Forest.join([tree_of(nodes) for nodes in trees], start, n_features)
    forest.check()
    return forest


def random_tree(rng, n_features, leaves):
    """Splits at any leaf, features repeated at will, rows shared out at will."""
    nodes, splittable = [(0.0, 1000 * leaves)], [0]
    while len(nodes) < 2 * leaves - 1 and splittable:
        number = splittable.pop(int(rng.integers(len(splittable))))
        rows, child = nodes[number][1], len(nodes)
        to_left = int(rng.integers(1, rows))
        nodes[number] = (int(rng.integers(n_features)), float(rng.normal()), child, int(rng.integers(2)), rows)
        nodes += [(float(rng.normal()), to_left), (float(rng.normal()), rows - to_left)]
        splittable += [leaf for leaf in (child, child + 1) if nodes[leaf][1] > 1]
    return nodes


def rows_with_gaps(rng, n, n_features, share=0.2):
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    X[rng.random(X.shape) < share] = np.nan
    return X


def test_a_stump_gives_its_feature_the_distance_from_the_mean():
    forest = forest_of([[(1, 0.5, 1, 0, 4), (2.0, 1), (6.0, 3)]], n_features=2, start=1.0)
    paths = Paths.of(forest)
    mean = 1 / 4 * 2.0 + 3 / 4 * 6.0
    assert paths.expected() == 1.0 + mean
    values = paths.values(np.array([[9, 0], [9, 1], [9, np.nan]], np.float32))
    np.testing.assert_allclose(values, [[0, 2 - mean], [0, 6 - mean], [0, 2 - mean]])


def test_two_features_share_what_they_do_together():
    """Only documents with both get 8: half of them have the first, a quarter of those the second too."""
    forest = forest_of([[(0, 0, 1, 0, 8), (0.0, 4), (1, 0, 3, 0, 4), (0.0, 3), (8.0, 1)]], n_features=2)
    # Known alone, the first gives 8 * 1/4 instead of 8 * 1/8, the second 8 * 1/2.
    first, second = ((2 - 1) + (8 - 4)) / 2, ((4 - 1) + (8 - 2)) / 2
    np.testing.assert_allclose(Paths.of(forest).values(np.ones((1, 2), np.float32)), [[first, second]])


@pytest.mark.parametrize("leaves", [1, 2, 3, 5, 12, 24])
@pytest.mark.parametrize("n_features", [1, 4])
def test_values_are_those_of_the_definition(rng, leaves, n_features):
    tree = random_tree(rng, n_features, leaves)
    forest, X = forest_of([tree], n_features), rows_with_gaps(rng, 19, n_features)
    plain = {name: getattr(forest, name).tolist() for name in ARRAYS}
    expected = [shapley_values(plain, row) for row in X.tolist()]
    np.testing.assert_allclose(Paths.of(forest).values(X), expected, atol=1e-12)


def test_leaves_without_training_rows_do_no_harm():
    forest = forest_of([[(0, 0, 1, 0, 5), (1.0, 5), (1, 0, 3, 0, 0), (2.0, 0), (4.0, 0)]], n_features=2)
    paths, X = Paths.of(forest), np.array([[1, 1], [1, 0], [0, 0]], np.float32)
    np.testing.assert_allclose(paths.values(X).sum(axis=1) + paths.expected(), forest.scores(X), atol=1e-12)


@pytest.mark.parametrize("leaves", [31, 200])
def test_values_add_up_to_the_scores_also_in_deep_trees(rng, leaves):
    forest = forest_of([random_tree(rng, 40, leaves) for _ in range(20)], 40, start=0.3)
    X = rows_with_gaps(rng, 1_100, 40)
    paths = Paths.of(forest)
    assert paths.n_points.max() >= 5
    np.testing.assert_allclose(paths.values(X).sum(axis=1) + paths.expected(), forest.scores(X), atol=1e-9)


def test_a_path_of_sixty_features_is_still_exact():
    """A chain: each split keeps half of the rows, and only documents that pass all of them get anything."""
    d = 60
    nodes = []
    for f in range(d):
        nodes += [(f, 0.0, 2 * f + 1, 0, 2.0 ** (d - f)), (0.0, 2.0 ** (d - f - 1))]
    # Node 2f is the split of feature f: its children are 2f + 1 (a leaf) and 2f + 2.
    forest = forest_of([[*nodes, (1.0, 1.0)]], d)
    values = Paths.of(forest).values(np.ones((1, d), np.float32))
    np.testing.assert_allclose(values, (1 - 0.5**d) / d, rtol=1e-9)  # all features are alike


def test_the_bits_do_not_depend_on_threads_or_on_the_company_of_a_row(rng):
    forest, X = forest_of([random_tree(rng, 8, 31) for _ in range(10)], 8), rows_with_gaps(rng, 1_200, 8)
    paths = Paths.of(forest)
    together = paths.values(X, n_jobs=2)
    np.testing.assert_array_equal(paths.values(X, n_jobs=1), together)
    np.testing.assert_array_equal(np.concatenate([paths.values(X[row : row + 1]) for row in range(30)]), together[:30])


def test_a_forest_without_trees_gives_nothing_to_anybody():
    paths = Paths.of(forest_of([], 2, start=0.5))
    assert paths.expected() == 0.5
    np.testing.assert_array_equal(paths.values(np.ones((3, 2), np.float32)), np.zeros((3, 2)))


def test_rows_of_another_width_are_refused(rng):
    paths = Paths.of(forest_of([random_tree(rng, 3, 4)], 3))
    with pytest.raises(ValueError, match="the rows have 2 features, the model was trained on 3"):
        paths.values(np.zeros((1, 2), np.float32))


def from_lightgbm(booster):
    """The same trees as a forest. A threshold becomes the largest float32 up to it, so no row changes sides."""
    dump = booster.dump_model()
    trees = [tree_of(_lightgbm_nodes(info["tree_structure"])) for info in dump["tree_info"]]
    return Forest.join(trees, 0.0, booster.num_feature())


def _lightgbm_nodes(root):
    nodes, waiting = [None], [(0, root)]
    for number, node in waiting:
        if "leaf_value" in node:
            nodes[number] = (node["leaf_value"], node.get("leaf_count", 1))
            continue
        threshold = np.float32(node["threshold"])
        if threshold > node["threshold"]:
            threshold = np.nextafter(threshold, np.float32(-np.inf))
        missing_right = node["missing_type"] == "NaN" and not node["default_left"]
        nodes[number] = (node["split_feature"], threshold, len(nodes), int(missing_right), node["internal_count"])
        waiting += [(len(nodes), node["left_child"]), (len(nodes) + 1, node["right_child"])]
        nodes += [None, None]
    return nodes


@pytest.fixture(scope="module")
def booster():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    rng = np.random.default_rng(5)
    X = rows_with_gaps(rng, 2_000, 12)
    filled = np.nan_to_num(X, nan=1.5)
    y = filled[:, 0] * filled[:, 1] + np.sin(filled[:, 2]) + 0.1 * rng.normal(size=len(X))
    parameters = {"num_leaves": 31, "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1, "deterministic": True}
    return lightgbm.train(parameters, lightgbm.Dataset(X, y), 12), X[:200]


def test_values_are_those_of_lightgbm_on_its_own_trees(booster):
    model, X = booster
    paths = Paths.of(from_lightgbm(model))
    np.testing.assert_allclose(paths.forest.scores(X), model.predict(X, num_threads=1), atol=1e-12)
    contributions = model.predict(X, pred_contrib=True, num_threads=1)
    np.testing.assert_allclose(paths.values(X), contributions[:, :-1], atol=1e-9)
    assert paths.expected() == pytest.approx(contributions[0, -1], abs=1e-9)


def for_shap(forest):
    """The same trees as shap takes them. (A LightGBM model would not do: shap lets LightGBM explain it.)"""
    trees = []
    for tree in forest.split():
        leaf = tree.left == np.arange(len(tree.left))
        left = np.where(leaf, -1, tree.left.astype(int))
        right = np.where(leaf, -1, left + 1)
        trees.append(
            {
                "children_left": left,
                "children_right": right,
                "children_default": np.where(tree.missing_right == 1, right, left),
                "features": np.where(leaf, -2, tree.feature.astype(int)),
                "thresholds": np.where(leaf, 0.0, tree.threshold),
                "values": tree.value.reshape(-1, 1),
                "node_sample_weight": tree.count.astype(float),
            }
        )
    return {"trees": trees}


@pytest.mark.filterwarnings("ignore")  # shap's own
def test_values_are_those_of_shap_on_the_same_trees(rng):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    forest, X = forest_of([random_tree(rng, 6, 31) for _ in range(12)], 6), rows_with_gaps(rng, 100, 6)
    explainer = shap.TreeExplainer(for_shap(forest), feature_perturbation="tree_path_dependent")
    paths = Paths.of(forest)
    np.testing.assert_allclose(paths.values(X), explainer.shap_values(X), atol=1e-12)
    assert paths.expected() == pytest.approx(float(np.ravel(explainer.expected_value)[0]), abs=1e-12)
