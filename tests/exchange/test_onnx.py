"""ONNX of trees and linear models: the bits that are claimed, by onnxruntime."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from exchange.forests import hostile_rows, on_grid, plain_scores, random_form, random_model
from families import small_model

import podium
from podium.exchange import import_model, verify
from podium.exchange.claims import BITS, DOUBLE, ROUNDED, SINGLE
from podium.exchange.engines import onnx as engine
from podium.exchange.forms import LinearSum, Trees, form_of
from podium.exchange.nodes import Nodes, forest_of
from podium.learners.trees.scoring.categories import CategorySets
from podium.models.frame.inspection import NumberedNames
from podium.models.imported import AS_IS, ZERO_MISSING, ImportedLinear

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(content, X, threads=1):
    """(rows, 1), in the type that the file gives."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(["Y"], {"X": X})[0]


def assert_same_bits(written, X, threads=1):
    onnx.checker.check_model(written.content, full_check=True)
    np.testing.assert_array_equal(run(written.content, X, threads)[:, 0], written.expected(X))


SHAPES = {
    "numbers": {},
    "categories": {"categorical": (1, 4)},
    "categories only": {"categorical": (0, 1, 2), "n_features": 3, "depth": 8},
    "leaves alone": {"depth": 0},
    "one leaf": {"depth": 0, "n_trees": 1, "start": 0.0},
    "many trees": {"n_trees": 200, "depth": 3},
    "no start": {"start": 0.0},
    "no trees": {},
    "nothing": {"start": 0.0},
}


def form_of_shape(shape, seed, single):
    form = random_form(seed, single=single, **SHAPES[shape])
    return replace(form, forest=form.forest.first(0)) if shape in ("no trees", "nothing") else form


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("shape", SHAPES)
def test_onnxruntime_gives_trees_the_bits_of_predict(shape, single):
    categorical = SHAPES[shape].get("categorical", ())
    for seed in range(8):
        form = form_of_shape(shape, seed, single)
        X = hostile_rows(form.forest, seed=seed, categorical=categorical)
        written = engine.write(form)
        assert_same_bits(written, X)
        assert written.claim.kind == BITS
        np.testing.assert_array_equal(
            written.expected(X), plain_scores(form.forest, X, np.float32 if single else np.float64)
        )
        scores = run(written.content, X)
        assert (scores.shape, scores.dtype) == ((len(X), 1), np.float64)
        np.testing.assert_array_equal(run(written.content, X[:1]), scores[:1])


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("shape", [name for name, options in SHAPES.items() if "categorical" not in options])
def test_older_versions_of_onnxruntime_get_the_sum_rounded_to_float32(shape, single):
    for seed in range(8):
        form = form_of_shape(shape, seed, single)
        X = hostile_rows(form.forest, seed=seed)
        written = engine.write(form, "1.17")
        assert_same_bits(written, X)
        assert written.claim.kind == (BITS if single else ROUNDED)
        plain = plain_scores(form.forest, X, np.float32 if single else np.float64)
        np.testing.assert_array_equal(written.expected(X), plain.astype(np.float32))
        assert run(written.content, X).dtype == np.float32
        model = onnx.load_from_string(written.content)
        assert [node.op_type for node in model.graph.node if node.domain] == ["TreeEnsembleRegressor"]


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("version", [None, "1.17"])
def test_any_number_of_threads_is_claimed_where_sums_are_exact_and_only_there(version, single):
    for seed in range(5):
        form = random_form(seed, n_trees=300, depth=4, single=single)
        X = hostile_rows(form.forest, seed=seed, n_rows=600)
        assert "intra_op_num_threads=1" in engine.write(form, version).claim.engine
        exact = engine.write(replace(form, forest=on_grid(form.forest, 24 if single else 53)), version)
        assert "any number of threads" in exact.claim.engine
        for threads in (1, 2, 4):
            assert_same_bits(exact, X, threads)
            assert_same_bits(exact, X[:1], threads)


def forest_of_set(known, sides, missing_right):
    """One split by a set of categories; leaves 1 and 2."""
    known, sides = np.array(known, np.float32), np.array(sides, np.uint8)
    sets = CategorySets(np.zeros(1, np.int64), np.array([0, len(known)]), known, sides)
    nodes = Nodes(
        sizes=np.array([3]), left=np.array([1, -1, -1]), right=np.array([2, -1, -1]), feature=np.zeros(3, np.int64),
        threshold=np.zeros(3, np.float32), missing_right=np.array([missing_right, False, False]),
        value=np.array([0.0, 1.0, 2.0]), of_set=np.array([0, -1, -1]), sets=sets,
    )  # fmt: skip
    return forest_of(nodes, 0.0, 1)


@pytest.mark.parametrize("most", [2, 30, 31, 32, 33, 63, 64, 65, 2000, 2**24])
def test_sets_of_any_size_send_each_category_where_the_model_does(most):
    random = np.random.default_rng(most)
    for _ in range(12):
        known = np.unique(random.integers(0, most, random.integers(1, 60)))
        forest = forest_of_set(known, random.integers(0, 2, len(known)), bool(random.integers(2)))
        values = np.concatenate([known, known + 1, np.arange(-3, 70), [np.nan, 1e6]])
        written = engine.write(Trees.of(forest, NumberedNames(1)))
        assert_same_bits(written, values.astype(np.float32)[:, None])
        assert any("categories are integers" in condition for condition in written.claim.conditions)


def test_factors_are_applied_to_the_sum_and_zeros_that_are_missing_are_missing():
    form = replace(random_form(3, missing="any"), factor=0.3, divisor=7.0)
    form.prepared[:] = ZERO_MISSING
    form.prepared[2] = AS_IS
    X = hostile_rows(form.forest)
    written = engine.write(form)
    assert_same_bits(written, X)
    assert written.claim.kind == BITS
    np.testing.assert_array_equal(written.expected(X), form.scores(X))
    older = engine.write(form, "1.20.1")
    assert_same_bits(older, X)
    assert older.claim.kind == ROUNDED
    np.testing.assert_allclose(older.expected(X), form.scores(X), rtol=1e-6)


def test_sums_of_an_init_model_are_those_of_all_trees_from_left_to_right():
    for single, kind in ((False, DOUBLE), (True, SINGLE)):
        assert engine.write(replace(random_form(1, single=single), is_one_sum=False)).claim.kind == kind


def ranking(seed=5, n_features=6):
    random = np.random.default_rng(seed)
    X = random.standard_normal((800, n_features)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] / 2 + random.standard_normal(len(X))), 0, 3).astype(int)
    return X, y, np.repeat(np.arange(40), 20)


def test_a_trained_lambdamart_with_categories_is_verified_by_onnxruntime(tmp_path):
    random, (X, y, qid) = np.random.default_rng(5), ranking()
    X[random.random(X.shape) < 0.1] = np.nan
    X[:, 3] = random.integers(0, 60, len(X))
    y = y + np.isin(X[:, 3], [1, 5, 8, 40])
    model = podium.LambdaMART(n_estimators=20, min_samples_leaf=5, categorical=[3], random_state=1).fit(X, y, qid)
    report = model.export(tmp_path / "m.onnx", to="onnx")
    assert len(model.forest_.sets) > 0
    assert report.claim.kind == BITS
    rows = X.copy()
    rows[:, 3] = random.integers(-1, 70, len(X))
    checked = verify(model, tmp_path / "m.onnx", rows)
    assert checked.holds
    assert checked.is_same_file
    assert checked.program == f"onnxruntime {onnxruntime.__version__}, intra_op_num_threads=1"
    np.testing.assert_array_equal(report.expected(rows), model.predict(rows))


def test_a_file_is_verified_by_its_report_by_its_format_and_by_its_content(tmp_path):
    model, path = random_model(2), tmp_path / "m.onnx"
    model.export(path, to="onnx", engine="1.17")
    assert json.loads((tmp_path / "m.onnx.report.json").read_text())["engine"] == "1.17"
    assert verify(model, path).holds
    (tmp_path / "m.onnx.report.json").unlink()
    assert verify(model, path, to="onnx", engine="1.17").holds
    model.export(path, to="onnx")
    (tmp_path / "m.onnx.report.json").unlink()
    assert verify(model, path).holds
    with pytest.raises(ValueError, match="begins as ONNX, which is written here and not read"):
        import_model(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"begins as none of the models that are written: .*ONNX"):
        verify(model, path)


LINEAR = ["Linear", "BayesRank", "RankSVM", "CoordinateAscent", "AdaRank"]


@pytest.mark.parametrize("impute", [None, "zero"])
@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_have_the_bits_of_a_sum_from_left_to_right(name, impute):
    X, y, qid = ranking()
    model = small_model(name, impute=impute).fit(X, y, qid)
    if impute:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    written = engine.write(form_of(model))
    for threads in (1, 4):
        assert_same_bits(written, X, threads)
    assert run(written.content, X).shape == (len(X), 1)
    np.testing.assert_allclose(written.expected(X), model.predict(X), rtol=1e-12, atol=1e-12)
    total = np.zeros(len(X))
    for weight, column in zip(model.coef_.tolist(), np.nan_to_num(X).T):
        total += weight * column.astype(np.float64)
    np.testing.assert_array_equal(written.expected(X), total + model.intercept_)


@pytest.mark.parametrize("n_features", [1, 2, 7, 64, 700])
def test_weights_of_any_size_are_added_up_in_order(n_features):
    for seed in range(5):
        random = np.random.default_rng([seed, n_features])
        weights = random.standard_normal(n_features) * 10.0 ** random.integers(-8, 9, n_features)
        form = LinearSum(weights, float(random.standard_normal()), NumberedNames(n_features))
        X = (random.standard_normal((300, n_features)) * 10.0 ** random.integers(-30, 30, (300, 1))).astype(np.float32)
        written = engine.write(form)
        for threads in (1, 4):
            assert_same_bits(written, X, threads)
        assert written.claim.kind == DOUBLE


def test_rows_with_missing_values_have_no_score_where_the_model_refuses_them():
    X = np.array([[1, np.nan], [2, 3]], np.float32)
    refuses = engine.write(LinearSum(np.array([2.0, 3.0]), 1.0, NumberedNames(2)))
    np.testing.assert_array_equal(run(refuses.content, X)[:, 0], [np.nan, 2 * 2 + 3 * 3 + 1])
    assert any("have the score NaN" in condition for condition in refuses.claim.conditions)
    zero = engine.write(form_of(ImportedLinear.of(np.array([2.0, 3.0]), 1.0, "test")))
    np.testing.assert_array_equal(run(zero.content, X)[:, 0], [2 * 1 + 1, 2 * 2 + 3 * 3 + 1])
    np.testing.assert_array_equal(zero.expected(X), [2 * 1 + 1, 2 * 2 + 3 * 3 + 1])


def test_names_the_claim_and_a_digest_are_in_the_file():
    names = [f"field {number}" for number in range(6)]
    form = replace(random_form(1, names=names), categories={"field 2": ["red", "blue"]})
    written = engine.write(form)
    model = onnx.load_from_string(written.content)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(facts["feature_names"]) == names
    assert json.loads(facts["categories"]) == {"field 2": ["red", "blue"]}
    assert facts["claim"] == written.claim.sentence()
    assert len(facts["graph_sha256"]) == 64
    assert model.producer_name == "podium"
    assert "feature_names" not in {
        entry.key for entry in onnx.load_from_string(engine.write(random_form(1)).content).metadata_props
    }
    assert engine.write(form).content == written.content
    assert not any(tensor.external_data for tensor in model.graph.initializer)


REFUSED = {
    "sets before 1.21": (
        lambda: engine.write(random_form(1, categorical=range(6)), "1.17"),
        r"tree 1, node 0: ONNX for onnxruntime before 1\.21 has no splits by categories, as of 'feature \d'",
    ),
    "sets before 1.23": (
        lambda: engine.write(random_form(1, categorical=range(6)), "1.22.0"),
        r"ONNX for onnxruntime before 1\.23 has no splits by categories",
    ),
    "an old version": (lambda: engine.write(random_form(1), "1.4"), r'"1\.15" or a later one; got \'1\.4\''),
    "no version": (lambda: engine.write(random_form(1), "newest"), r"engine is the version of onnxruntime"),
    "halves": (
        lambda: engine.write(Trees.of(forest_of_set([0.5], [0], True), ["colour"])),
        r"feature 'colour' has the category 0\.5; ONNX takes integers from 0 only\. Number",
    ),
    "negative": (
        lambda: engine.write(Trees.of(forest_of_set([-1], [0], True), ["colour"])),
        r"the category -1; ONNX takes integers from 0 only",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_cannot_express_is_refused_with_what_to_do(name):
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"^Writing ONNX needs .* Install it with: pip install 'podium\[onnx\]'$"):
        engine.write(random_form(1))
