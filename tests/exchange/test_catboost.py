"""CatBoost's JSON: the bits of CatBoost's own model, whatever the shape of its trees and the side of missing values."""

import json

import numpy as np
import pytest
from exchange.forests import hostile_rows
from exchange.plain import catboost as plain

import podium
from podium.exchange import read
from podium.exchange.engines import catboost as engine

POLICIES = "SymmetricTree", "Depthwise", "Lossguide"
TRAININGS = {
    "ranking": {"loss_function": "YetiRank"},
    "pairs": {"loss_function": "PairLogit", "nan_mode": "Max"},
    "bias": {"loss_function": "RMSE"},
    "missing last": {"loss_function": "RMSE", "nan_mode": "Max"},
    "raw of two classes": {"loss_function": "Logloss"},
    "single splits": {"loss_function": "RMSE", "depth": 1},
    "features left out": {"loss_function": "RMSE", "ignored_features": [1, 5]},
}


def trained(options, n_trees=40, names=None):
    catboost = pytest.importorskip("catboost", reason="CatBoost is not installed; it is a large wheel")
    random = np.random.default_rng(5)
    X = random.standard_normal((500, 6)).astype(np.float32)
    X[random.random(X.shape) < 0.1], X[random.random(X.shape) < 0.1] = np.nan, 0
    X[:, 4] = random.integers(0, 5, len(X))  # nothing is missing
    y = random.integers(0, 2 if options["loss_function"] == "Logloss" else 4, len(X))
    ranks = options["loss_function"] in ("YetiRank", "PairLogit", "QueryRMSE")
    pool = catboost.Pool(X, y, group_id=np.arange(len(X)) // 20 if ranks else None, feature_names=names)
    settings = {"iterations": n_trees, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return catboost.CatBoost({**settings, **options}).fit(pool), X


def as_json(theirs, tmp_path):
    theirs.save_model(tmp_path / "theirs.json", format="json")
    return tmp_path / "theirs.json"


@pytest.mark.parametrize("options", TRAININGS.values(), ids=TRAININGS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_model_of_catboost_scores_here_as_there(policy, options, tmp_path):
    if policy != "SymmetricTree" and options["loss_function"] in ("PairLogit", "YetiRank"):  # oblivious trees alone
        options = {**options, "loss_function": "QueryRMSE"}
    theirs, X = trained({**options, "grow_policy": policy})
    path = as_json(theirs, tmp_path)
    imported = read(path)
    rows = hostile_rows(imported.model.forest_, 1000)
    rows[:, 4] = np.nan_to_num(rows[:, 4])
    for values in (X, rows):
        expected = theirs.predict(values, prediction_type="RawFormulaVal", thread_count=1)
        np.testing.assert_array_equal(imported.model.predict(values), expected)
    single = [theirs.predict(row[None], prediction_type="RawFormulaVal")[0] for row in rows[:50]]
    np.testing.assert_array_equal(imported.model.predict(rows[:50]), single)
    np.testing.assert_array_equal(np.array(plain.scores(path.read_bytes(), rows[:50]))[:, 0], single)
    imported.model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(rows), imported.model.predict(rows))


@pytest.mark.parametrize(("scale", "bias"), [(0.5, 0.0), (-3.0, 0.0), (2.5, 0.75)])
def test_scale_and_bias_are_those_of_the_model(scale, bias, tmp_path):
    theirs, X = trained({"loss_function": "RMSE"})
    theirs.set_scale_and_bias(scale, bias)
    imported = read(as_json(theirs, tmp_path))
    expected = theirs.predict(X, prediction_type="RawFormulaVal")
    assert imported.claim.holds(imported.model.predict(X), expected).all()
    assert imported.claim.kind == ("bits" if bias == 0 else "tolerance")


def test_names_of_features_are_kept(tmp_path):
    theirs, _ = trained({"loss_function": "RMSE"}, names=list("abcdef"))
    imported = read(as_json(theirs, tmp_path))
    assert list(imported.model.feature_names_in_) == list("abcdef")
    assert imported.model.inspect().source == "CatBoost JSON"


def test_categories_are_refused_with_what_to_do(tmp_path):
    catboost = pytest.importorskip("catboost", reason="CatBoost is not installed; it is a large wheel")
    random = np.random.default_rng(3)
    X = [[float(a), str(b)] for a, b in zip(random.standard_normal(200), random.integers(0, 9, 200))]
    y = [float(one[1]) for one in X]
    for options, kind in (({"one_hot_max_size": 20}, "OneHotFeature"), ({"one_hot_max_size": 1}, "OnlineCtr")):
        theirs = catboost.CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False, **options)
        theirs.fit(X, y, cat_features=[1])
        with pytest.raises(ValueError, match=f"tree 1: has a split of the type '{kind}': splits by categories.*encode"):
            read(as_json(theirs, tmp_path))


def test_models_of_several_classes_are_refused(tmp_path):
    theirs, _ = trained({"loss_function": "MultiClass"})
    with pytest.raises(ValueError, match="4 scores per row; models of several classes rank nothing"):
        read(as_json(theirs, tmp_path))


SMALL = {
    "features_info": {
        "float_features": [
            {"feature_id": "", "feature_index": 0, "flat_feature_index": 1, "nan_value_treatment": "AsTrue"},
            {"feature_id": "", "feature_index": 1, "flat_feature_index": 0, "nan_value_treatment": "AsIs"},
        ]
    },
    "oblivious_trees": [
        {
            "leaf_values": [1, 2, 4, 8],
            "splits": [
                {"border": 0.5, "float_feature_index": 0, "split_type": "FloatFeature"},
                {"border": 0, "float_feature_index": 1, "split_type": "FloatFeature"},
            ],
        }
    ],
    "scale_and_bias": [1, [0.25]],
}


def test_split_d_sets_bit_d_and_missing_values_follow_their_feature():
    model = engine.read(json.dumps(SMALL).encode()).model
    X = np.array([[0, 0.5], [0, 0.6], [1, 0.5], [1, 0.6], [np.nan, np.nan]], np.float32)
    np.testing.assert_array_equal(model.predict(X), [1.25, 2.25, 4.25, 8.25, 2.25])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("features_info"), "features_info: expected an object; found 'None'"),
        (lambda d: d.pop("oblivious_trees"), 'expected either "oblivious_trees" or "trees"'),
        (lambda d: d["oblivious_trees"][0]["leaf_values"].pop(), "2 splits have 4 leaves; found 3 leaf_values"),
        (lambda d: d["oblivious_trees"][0]["splits"][0].update(float_feature_index=2), "from 0 to 1; found '2'"),
        (lambda d: d["oblivious_trees"][0]["splits"][0].update(border="x"), "tree 1: expected a number; found 'x'"),
        (lambda d: d["oblivious_trees"][0]["splits"][0].update(border=float("nan")), "its border is not a number"),
        (lambda d: d["oblivious_trees"][0].update(leaf_values=[0, 0, 10**400, 0]), "expected a number"),
        (lambda d: d.update(scale_and_bias=[1]), "scale_and_bias must have two members"),
        (lambda d: d["features_info"]["float_features"][0].update(flat_feature_index=0), "the flat_feature_index 0"),
        (lambda d: d["features_info"]["float_features"][0].update(nan_value_treatment="Left"), "AsIs, AsFalse, AsTrue"),
    ],
)  # fmt: skip
def test_errors_name_what_was_expected_and_where(change, message):
    document = json.loads(json.dumps(SMALL))
    change(document)
    with pytest.raises(ValueError, match=message):
        engine.read(json.dumps(document).encode())


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"1" * 5000, b"[]", b"null"])
def test_what_is_no_document_is_refused(content):
    with pytest.raises(ValueError, match=r"expected (JSON|an object)"):
        engine.read(content)
