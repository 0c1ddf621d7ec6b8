"""Arguments that say a thing twice, or nothing that can be done, are refused: nothing is ignored."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from podium import LambdaMART, RankingData, compare, evaluate
from podium.cli import main
from podium.explain import shap_values
from podium.models.trees.named import MART, Boosted

RNG = np.random.default_rng(5)
X, Y, QID = RNG.standard_normal((40, 2)).astype(np.float32), RNG.integers(0, 3, 40), np.repeat(np.arange(4), 10)
DATA = RankingData.from_arrays(X, Y, QID)
SMALL = {"n_estimators": 3, "max_leaf_nodes": 4, "min_samples_leaf": 2, "n_jobs": 1}
VALUES = {
    "y": Y,
    "qid": QID,
    "group": [10] * 4,
    "sample_weight": np.ones(40),
    "query_weight": np.ones(4),
    "docids": [str(row) for row in range(40)],
}
FIT = ["y", "qid", "group", "sample_weight", "query_weight"]
JUDGE = ["qid", "group", "docids", "query_weight", "sample_weight"]
CALLS = {
    "fit": (FIT, lambda model, **given: model.fit(DATA, **given)),
    "refit": (FIT, lambda model, **given: model.refit(DATA, **given)),
    "fit_more": (FIT, lambda model, **given: model.fit_more(DATA, n_estimators=1, **given)),
    "score": (FIT[:4], lambda model, **given: model.score(DATA, **given)),
    "prune": (FIT[:2], lambda model, **given: model.prune(DATA, **given)),
    "rank": (["qid"], lambda model, **given: model.rank(DATA, **given)),
    "evaluate": (JUDGE, lambda model, **given: evaluate(X[:, 0], DATA, **given)),
    "compare": (JUDGE, lambda model, **given: compare({"a": X[:, 0], "b": X[:, 1]}, DATA, **given)),
}


@pytest.fixture
def model():
    return LambdaMART(**SMALL).fit(DATA)


@pytest.mark.parametrize(("call", "name"), [(call, name) for call, (names, _) in CALLS.items() for name in names])
def test_what_ranking_data_bring_is_refused_beside_them(model, call, name):
    before = model.predict(DATA)
    with pytest.raises(ValueError, match=rf"got {name} together with a RankingData, which has its own"):
        CALLS[call][1](model, **{name: VALUES[name]})
    np.testing.assert_array_equal(model.predict(DATA), before)


def test_all_that_is_too_much_is_named():
    with pytest.raises(ValueError, match="fit: got y, qid, sample_weight together with a RankingData"):
        LambdaMART(**SMALL).fit(DATA, Y, QID, sample_weight=np.ones(40))


@pytest.mark.parametrize("rounds", [0, -1, 2.0, 1.5, "3", np.nan])
def test_rounds_that_are_no_integer_from_1_are_refused(rounds):
    with pytest.raises(ValueError, match="early_stopping_rounds must be an integer from 1, True"):
        LambdaMART(**SMALL).fit(DATA, eval_set=DATA, early_stopping_rounds=rounds)


@pytest.mark.parametrize("eval_set", [None, [], ()], ids=str)
def test_early_stopping_without_an_evaluation_set_is_refused(eval_set):
    with pytest.raises(ValueError, match="early_stopping_rounds needs an eval_set to look at; got none"):
        LambdaMART(**SMALL).fit(DATA, eval_set=eval_set, early_stopping_rounds=2)
    assert LambdaMART(**SMALL).fit(DATA, eval_set=eval_set).evals_ == {}


@pytest.mark.parametrize("rounds", [1, np.int64(2)])
def test_rounds_that_are_integers_are_taken(rounds):
    LambdaMART(**SMALL).fit(DATA, eval_set=DATA, early_stopping_rounds=rounds)


@pytest.mark.parametrize("part", [(DATA, None, None), (X, Y), DATA.X, "x"], ids=["data", "two", "rows", "text"])
def test_an_evaluation_set_of_another_shape_is_refused(part):
    with pytest.raises(ValueError, match=r"eval_set\[0\] must be \(X, y, qid\) or a RankingData"):
        LambdaMART(**SMALL).fit(DATA, eval_set=[part])


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("--policy", "eval d --scores s --policy trec --policy standard"),
        ("--scores", "eval d --scores s --scores t"),
        ("--json", "eval d --scores s --json --json"),
        ("--to", "convert a b --to csv --to tsv"),
        ("--out", "train mart d --out a --out=b"),
        ("--seed", "train mart d --out a --seed 1 --seed 1"),
        ("--top", "rank m d --top 3 --top 4"),
        ("--documents", "explain m d --query 1 --documents a b --documents c d"),
    ],
)
def test_options_given_twice_where_one_is_taken_are_refused(monkeypatch, capsys, option, arguments):
    assert refusal(monkeypatch, capsys, arguments) == f"podium: {option} is given 2 times; give it once.\n"


def refusal(monkeypatch, capsys, arguments) -> str:
    monkeypatch.setattr("sys.argv", ["podium", *arguments.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    return capsys.readouterr().err


def test_settings_given_twice_are_refused(monkeypatch, capsys):
    arguments = "train mart d --out o --set n_estimators=1 --set n_estimators=2 --valid v --valid w"
    found = refusal(monkeypatch, capsys, arguments)
    assert found == "podium: --set n_estimators=... is given twice (1 and 2); give it once.\n"


# --- data that cannot be learned from, and numbers that float32 cannot hold ---


@pytest.mark.parametrize("rows", [np.empty((4, 0)), csr_array((4, 0), dtype=np.float32)], ids=["dense", "sparse"])
def test_data_without_features_are_refused(rows):
    data = RankingData.from_arrays(rows, [0, 1, 2, 0], [1, 1, 2, 2])
    with pytest.raises(ValueError, match="the data have no features, so there is nothing to learn from"):
        MART(**SMALL).fit(data)
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        MART(**SMALL).fit(rows, [0, 1, 2, 0], [1, 1, 2, 2])


def test_data_without_rows_are_refused():
    data = RankingData.from_arrays(np.empty((0, 2)), [], [])
    with pytest.raises(ValueError, match="the data have no rows, so there is nothing to learn from"):
        MART(**SMALL).fit(data)


ROWS = {
    "predict": lambda model, X: model.predict(X),
    "rank": lambda model, X: model.rank(X, QID),
    "score": lambda model, X: model.score(X, Y, QID),
    "staged_predict": lambda model, X: list(model.staged_predict(X)),
    "shap_values": lambda model, X: shap_values(model, X),
    "fit": lambda model, X: MART(**SMALL).fit(X, Y, QID),
    "refit": lambda model, X: model.refit(X, Y, QID),
    "fit_more": lambda model, X: model.fit_more(X, Y, QID, n_estimators=1),
    "prune": lambda model, X: model.prune(X, Y, QID),
    "eval_set": lambda model, X: MART(**SMALL).fit(DATA, eval_set=(X, Y, QID)),
    "data": lambda model, X: RankingData.from_arrays(X, Y, QID),
}


@pytest.mark.parametrize("path", ROWS)
@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, csr_array], ids=["array", "list", "sparse"])
@pytest.mark.parametrize("value", [1e39, -1e300, 3.5e38])
def test_numbers_that_float32_makes_infinite_are_refused(model, path, kind, value):
    wide = X.astype(np.float64)
    wide[7, 1] = value
    with pytest.raises(ValueError, match=r"X\[7, 1\] is .*e\+.*; features must be finite as float32"):
        ROWS[path](model, kind(wide))


@pytest.mark.parametrize("objective", ["squared", "ordinal", "ranknet", "lambda"])
def test_queries_with_a_single_label_each_are_warned_of_by_objectives_that_compare_documents(objective):
    rows, y, qid = np.arange(40.0).reshape(40, 1), np.repeat([0, 1], 20), np.repeat([1, 2], 20)
    model = Boosted(objective=objective, n_estimators=1, min_samples_leaf=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = model.fit(rows, y, qid).predict(rows)
    learns = objective in ("squared", "ordinal")  # each document by itself
    assert any("have two different labels" in str(one.message) for one in caught) is not learns
    assert bool(np.ptp(scores) > 0) is learns
