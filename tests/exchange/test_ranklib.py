"""RankLib's files: the bits of RankLib's own sums, both ways, by a plain reader in float32."""

from dataclasses import replace

import numpy as np
import pytest
from exchange.forests import hostile_rows, random_form, random_model
from exchange.golden import add_scores, letor_like
from exchange.plain import ranklib as plain
from families import small_model

import podium
from podium.exchange import read, verify
from podium.exchange.engines import ranklib
from podium.exchange.exporting import write_form
from podium.exchange.forms import LinearSum, Trees, form_of
from podium.exchange.nodes import Nodes, forest_of
from podium.models.imported import ImportedForest


@pytest.mark.parametrize("seed", range(12))
def test_exported_trees_score_as_expected_and_are_imported_with_the_same_bits(seed):
    form = random_form(seed, missing="zero")
    X = hostile_rows(form.forest, seed=seed)
    written = ranklib.write(form)
    assert written.content.startswith(b"## LambdaMART\n")
    np.testing.assert_array_equal(plain.scores(written.content, X), written.expected(X))
    imported = ranklib.read(written.content)
    assert imported.claim.kind == "bits"
    np.testing.assert_array_equal(imported.model.predict(X), written.expected(X))
    again = write_form(form_of(imported.model), "ranklib")
    assert again.content == written.content
    assert again.claim.kind == "bits"


def trained_by_ranklib(seed, name="LambdaMART", bags=1, weight="0.1"):
    """A text as RankLib writes it: leaves with the digits of float64, and the learning rate as a weight."""
    forms = [random_form(seed + bag, missing="zero", start=0.0, n_trees=1 if bags > 1 else 5) for bag in range(bags)]
    text = "".join(ranklib._ensemble(form) for form in forms).replace('weight="1.0"', f'weight="{weight}"')
    return f"## {name}\n## No. of trees = 5\n\n{text}\n".encode(), forms[0].forest


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weight", ["0.1", "0.5"])
def test_trees_of_ranklib_score_here_as_there(seed, weight, tmp_path):
    content, forest = trained_by_ranklib(seed, weight=weight)
    X = hostile_rows(forest, seed=seed)
    (tmp_path / "theirs.txt").write_bytes(content)
    imported = read(tmp_path / "theirs.txt")
    assert imported.claim.kind == "bits"
    model, X = imported.model, X[:, : imported.model.n_features_in_]
    np.testing.assert_array_equal(model.predict(X), plain.scores(content, X))
    model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(X), model.predict(X))
    np.testing.assert_array_equal(model.scorer()(X), model.predict(X).astype(np.float32))


def test_random_forests_are_averaged_in_float64_both_ways():
    content, forest = trained_by_ranklib(3, "Random Forests", bags=5)
    X = hostile_rows(forest, seed=3)
    imported = ranklib.read(content)
    X = X[:, : imported.model.n_features_in_]
    assert imported.claim.kind == "bits"
    np.testing.assert_array_equal(imported.model.predict(X), plain.scores(content, X))
    again = ranklib.write(form_of(imported.model))
    assert again.content.startswith(b"## Random Forests\n")
    assert again.claim.kind == "bits"
    np.testing.assert_array_equal(plain.scores(again.content, X), imported.model.predict(X))


def test_bags_of_several_trees_are_near():
    one, forest = trained_by_ranklib(3, "Random Forests")
    content = one + trained_by_ranklib(4)[0].replace(b"## LambdaMART", b"##")
    imported = ranklib.read(content)
    X = hostile_rows(forest)[:, : imported.model.n_features_in_]
    assert imported.claim.kind == "tolerance"
    assert imported.claim.holds(imported.model.predict(X), np.array(plain.scores(content, X))).all()


def test_a_split_that_sends_missing_values_elsewhere_than_0_is_refused_unless_rows_are_complete():
    form = random_form(2, n_trees=3)
    with pytest.raises(
        ValueError, match=r"tree 1, node \d+ \(feature 'feature \d'\) sends missing values .*complete=True"
    ):
        ranklib.write(form)
    written = ranklib.write(replace(form, complete=True))
    X = hostile_rows(form.forest)
    np.testing.assert_array_equal(plain.scores(written.content, X), written.expected(X))
    assert "for rows without missing values" in written.claim.sentence()
    there = X[~np.isnan(X).any(axis=1)]
    np.testing.assert_array_equal(written.expected(there), form.in_single().scores(there))


def test_categories_are_refused_with_their_node_and_feature():
    with pytest.raises(ValueError, match=r"tree \d, node \d+: RankLib has no splits by categories, as of 'feature 2'"):
        ranklib.write(random_form(1, categorical=(1,), missing="zero"))


def test_scores_beyond_float32_are_refused():
    form = random_form(1, missing="zero")
    large = replace(form, forest=replace(form.forest, value=form.forest.value * 1e40))
    with pytest.raises(ValueError, match="adds up in float32"):
        ranklib.write(large)


@pytest.mark.parametrize("n_trees", [0, 1])
@pytest.mark.parametrize("start", [0.0, 0.75])
def test_few_trees_and_single_leaves_are_written(n_trees, start):
    form = random_form(1, n_trees=1, depth=0, start=start)
    form = replace(form, forest=form.forest.first(n_trees))
    written, X = ranklib.write(form), np.zeros((2, 6), np.float32)
    np.testing.assert_array_equal(plain.scores(written.content, X), written.expected(X))
    np.testing.assert_array_equal(ranklib.read(written.content).model.predict(X), written.expected(X))


# --- weights


def weights_form(intercept=0.0, seed=0, **more):
    weights = np.random.default_rng(seed).standard_normal(7) * 10.0 ** np.arange(-3, 4)
    return LinearSum(weights, intercept, [f"f{number}" for number in range(7)], **more)


def rows_of(n_features, seed=0):
    X = np.random.default_rng(seed).standard_normal((50, n_features)).astype(np.float32)
    X[::7, 2] = np.nan
    return X


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("intercept", [0.0, 0.375])
def test_weights_go_out_and_in(intercept):
    form, X = weights_form(intercept), rows_of(7)
    written = ranklib.write(form)
    np.testing.assert_array_equal(plain.scores(written.content, X, in_order=True), written.expected(X))
    imported = ranklib.read(written.content)
    assert list(imported.model.feature_names_in_) == list(form.names)
    np.testing.assert_array_equal(imported.model.predict(X), plain.scores(written.content, X))
    assert imported.claim.kind == ("tolerance" if intercept else "bits")
    assert imported.claim.holds(imported.model.predict(X), written.expected(X)).all()


def test_weak_rankers_of_adarank_on_the_same_feature_are_added_up():
    content = b"## AdaRank\n## Iteration = 500\n3:0.5 1:0.25 3:0.125"
    model = ranklib.read(content).model
    np.testing.assert_array_equal(model.coef_, [0.25, 0, 0.625])
    np.testing.assert_array_equal(model.predict(np.array([[1, 2, 3]], np.float32)), [0.25 + 3 * 0.625])


def test_the_constant_of_linear_regression_is_feature_0():
    model = ranklib.read(b"## Linear Regression\n## Lambda = 1.0E-10\n0:0.5 1:2.0 2:-1.0").model
    np.testing.assert_array_equal(model.predict(np.array([[1, 3]], np.float32)), [0.5 + 2 * 1 - 3])


# --- RankBoost


def test_rankboost_goes_out_and_in_with_its_bits(tmp_path):
    random = np.random.default_rng(0)
    X, y, qid = (
        np.abs(random.standard_normal((120, 4))).astype(np.float32),
        random.integers(0, 3, 120),
        np.arange(120) // 10,
    )
    model = small_model("RankBoost", n_estimators=8).fit(X, y, qid)
    report = model.export(tmp_path / "m.txt", "ranklib", complete=True)
    content = (tmp_path / "m.txt").read_bytes()
    assert content.startswith(b"## RankBoost\n")
    assert report.claim.kind == "bits"
    np.testing.assert_array_equal(plain.scores(content, X), model.predict(X))
    np.testing.assert_array_equal(podium.exchange.import_model(tmp_path / "m.txt").predict(X), model.predict(X))


def test_thresholds_of_weak_rankers_are_float64_there():
    content = b"## RankBoost\n2:0.1:0.5 1:-1.0E8:0.25 2:-1e-60:0.125"
    imported = ranklib.read(content)
    values = np.array([0.1, -1e-45, 0, 1e-45, np.nan, -1], np.float32)
    around = np.concatenate([values, np.nextafter(values, np.float32(1)), np.nextafter(values, np.float32(-1))])
    X = np.stack([around, around], axis=1)
    np.testing.assert_array_equal(imported.model.predict(X), plain.scores(content, X))


# --- what is trained here


TRAINED = ["LambdaMART", "MART", "RandomForest", "Linear", "RankSVM", "CoordinateAscent", "AdaRank", "RankBoost"]


@pytest.mark.parametrize("name", TRAINED)
def test_models_are_exported_and_score_as_expected(name, tmp_path):
    X, y, qid = letor_like(0)
    model = small_model(name).fit(X, y, qid)
    report = model.export(tmp_path / "m.txt", "ranklib", complete=True, golden=tmp_path / "golden.jsonl")
    content = (tmp_path / "m.txt").read_bytes()
    np.testing.assert_array_equal(plain.scores(content, X, in_order=True), report.expected(X))
    np.testing.assert_allclose(report.expected(X), model.predict(X), rtol=1e-5, atol=1e-5)
    imported = podium.exchange.import_model(tmp_path / "m.txt")
    np.testing.assert_allclose(imported.predict(X), model.predict(X), rtol=1e-5, atol=1e-5)


def test_a_model_whose_missing_values_are_on_the_side_of_0_needs_no_word_about_them(tmp_path):
    model = random_model(4, names=[f"f{number}" for number in range(6)], missing="zero")
    report = model.export(tmp_path / "m.txt", "ranklib", golden=tmp_path / "golden.jsonl")
    rows = add_scores(tmp_path / "golden.jsonl", lambda X: plain.scores((tmp_path / "m.txt").read_bytes(), X))
    assert np.isnan(rows).any()
    verified = verify(model, tmp_path / "m.txt", golden=tmp_path / "golden.jsonl")
    assert verified.holds
    assert verified.is_same_file
    add_scores(tmp_path / "golden.jsonl", report.expected, wrong=3)
    assert verify(model, tmp_path / "m.txt", golden=tmp_path / "golden.jsonl").n_equal == verified.n_rows - 1
    with pytest.raises(ValueError, match="Export with golden rows"):
        verify(model, tmp_path / "m.txt")


def test_a_report_says_whether_rows_are_complete_and_verify_reads_it(tmp_path):
    model = random_model(4)
    report = model.export(tmp_path / "m.txt", "ranklib", complete=True, golden=tmp_path / "golden.jsonl")
    assert report.as_dict()["complete"] is True
    rows = add_scores(tmp_path / "golden.jsonl", lambda X: plain.scores((tmp_path / "m.txt").read_bytes(), X))
    assert not np.isnan(rows).any()
    assert verify(model, tmp_path / "m.txt", golden=tmp_path / "golden.jsonl").holds


# --- what is refused


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"## RankNet\n## Epochs = 100\n", "is a net"),
        (b"## Nothing\n1:2", "none of"),
        (b"1:2", "first line"),
        (b'## LambdaMART\n<!DOCTYPE x [<!ENTITY a "b">]>\n<ensemble></ensemble>', "no element"),
        (b"## LambdaMART\n<ensemble>", "cut short"),
        (b"## LambdaMART\n<ensemble></ensemble><ensemble></ensemble>", "one ensemble"),
        (b"## LambdaMART\n<ensemble><split>", "out of order"),
        (b"## Coordinate Ascent\n1:0.5 2:nan", "must be a number"),
        (b"## Coordinate Ascent\n0:0.5 1:1", "an integer from 1"),
        (b"## Linear Regression\n1:0.5 2:1", "one constant"),
        (b"## Coordinate Ascent\n99999999:0.5", "an integer from 1"),
        (b"## Coordinate Ascent\n## Features = 1\n2:0.5", "an integer from 2"),
        (b"## Coordinate Ascent\n## Feature names = [1]\n1:0.5", "JSON list"),
        (b"## RankBoost\n1:0.5", "feature:threshold:weight"),
    ],
)  # fmt: skip
def test_what_is_no_model_is_refused_with_a_sentence(content, problem):
    with pytest.raises(ValueError, match=problem):
        ranklib.read(content)


def test_a_very_deep_tree_is_written_and_read_without_recursion():
    levels = 5_000
    splits = np.arange(levels)
    nodes = {"left": np.full(2 * levels + 1, -1), "right": np.full(2 * levels + 1, -1)}
    nodes["left"][splits], nodes["right"][splits] = levels + splits, np.append(splits[1:], 2 * levels)
    value = np.where(np.arange(2 * levels + 1) < levels, 0.0, np.arange(2 * levels + 1.0))
    feature, threshold = np.zeros(2 * levels + 1, np.int64), np.arange(2 * levels + 1, dtype=np.float32)
    made = Nodes(np.array([2 * levels + 1]), nodes["left"], nodes["right"], feature, threshold, threshold < 0, value)
    form = form_of(ImportedForest.of(forest_of(made, 0.0, 1), "test"))
    assert isinstance(form, Trees)
    X = np.array([[10.0], [4000.5], [9000.0], [np.nan]], np.float32)
    imported = ranklib.read(ranklib.write(form).content)
    np.testing.assert_array_equal(imported.model.predict(X), form.scores(X))
