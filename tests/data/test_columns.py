"""The features of new data are those of the model, or an error: on every path, for every kind of data."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from podium import LambdaMART, RankingData, write_data
from podium.cli import app
from podium.explain import partial_dependence, shap_values, why
from podium.models.trees.named import MART, LambdaSMART

RNG = np.random.default_rng(3)
N = 80
X = RNG.standard_normal((N, 3)).astype(np.float32)
Y = np.clip(np.round(1 + 2 * X[:, 0]), 0, 3)
QID = np.repeat(np.arange(8), 10)
NAMES = ("a", "b", "c")
SMALL = {"n_estimators": 4, "max_leaf_nodes": 5, "min_samples_leaf": 3, "n_jobs": 1}


def data_of(names, columns=(0, 1, 2)) -> RankingData:
    return RankingData.from_arrays(X[:, list(columns)], Y, QID, feature_names=names)


def frame_of(kind, names, columns=(0, 1, 2)):
    return kind({name: X[:, column] for name, column in zip(names, columns)})


PATHS = {
    "predict": lambda model, data: model.predict(data),
    "rank": lambda model, data: model.rank(data),
    "score": lambda model, data: model.score(data),
    "staged_predict": lambda model, data: list(model.staged_predict(data)),
    "tree_contributions": lambda model, data: model.tree_contributions(data),
    "shap_values": lambda model, data: shap_values(model, data),
    "why": lambda model, data: why(model, data, 0, 1),
    "partial_dependence": lambda model, data: partial_dependence(model, data, 0),
    "refit": lambda model, data: model.refit(data),
    "fit_more": lambda model, data: model.fit_more(data, n_estimators=1),
    "prune": lambda model, data: model.prune(data),
    "eval_set": lambda model, data: LambdaMART(**SMALL).fit(data_of(NAMES), eval_set=data),
    "second eval_set": lambda model, data: LambdaMART(**SMALL).fit(data_of(NAMES), eval_set=[data_of(NAMES), data]),
    "init": lambda model, data: LambdaSMART(**SMALL, init=model).fit(data),
}
every_path = pytest.mark.parametrize("path", PATHS)


@pytest.fixture
def model():
    return LambdaMART(**SMALL).fit(data_of(NAMES))


@every_path
@pytest.mark.parametrize(
    ("names", "columns", "message"),
    [
        (("c", "b", "a"), (2, 1, 0), "feature 1 is 'c', that of (the model|init) 'a'"),
        (("a", "c", "b"), (0, 2, 1), "feature 2 is 'c', that of (the model|init) 'b'"),
        (("a", "b", "d"), (0, 1, 2), "feature 3 is 'd', that of (the model|init) 'c'"),
        (("a", "b"), (0, 1), "2"),
        (("a", "b", "c", "d"), (0, 1, 2, 0), "4"),
        (None, (0, 1), "2"),
        (None, (0, 1, 2, 0), "4"),
    ],
    ids=str,
)
def test_other_columns_are_refused_on_every_path(model, path, names, columns, message):
    before = model.predict(data_of(NAMES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=message):
            PATHS[path](model, data_of(names, columns))
    np.testing.assert_array_equal(model.predict(data_of(NAMES)), before)
    assert tuple(model.feature_names_in_) == NAMES


@every_path
def test_the_same_columns_are_taken_without_a_word(model, path):
    PATHS[path](model, data_of(NAMES))


@every_path
def test_names_on_one_side_only_are_taken_by_position_with_a_warning(model, path):
    if path == "init":  # the scores of the base model are of the same rows: there is nothing to mistake
        return
    with pytest.warns(UserWarning, match="has no feature names, but LambdaMART was fitted with feature names"):
        PATHS[path](model, data_of(None))
    if "eval_set" in path:
        return
    nameless = LambdaMART(**SMALL).fit(data_of(None))
    with pytest.warns(UserWarning, match="has feature names, but LambdaMART was fitted without feature names"):
        PATHS[path](nameless, data_of(NAMES))


def test_names_that_only_count_the_columns_need_no_warning():
    counted = data_of(("f1", "f2", "f3"))
    LambdaMART(**SMALL).fit(counted, eval_set=data_of(None)).predict(data_of(None))
    LambdaMART(**SMALL).fit(data_of(None), eval_set=counted).predict(counted)
    with pytest.warns(UserWarning, match="has feature names"):
        LambdaMART(**SMALL).fit(data_of(None)).predict(data_of(("f2", "f1", "f3")))
    with pytest.raises(ValueError, match="feature 1 is 'f2', that of the model 'f1'"):
        LambdaMART(**SMALL).fit(counted).predict(data_of(("f2", "f1", "f3")))


def test_more_trees_on_nameless_rows_leave_the_model_its_names(model):
    with pytest.warns(UserWarning, match="feature names"):
        model.fit_more(X, Y, QID, n_estimators=2)
    assert tuple(model.feature_names_in_) == NAMES
    with (
        pytest.raises(ValueError, match="X has 2 features, but LambdaMART is expecting 3"),
        pytest.warns(UserWarning, match="feature names"),
    ):
        model.fit_more(X[:, :2], Y, QID, n_estimators=2)


TRIPLES = {
    "predict": lambda model, X: model.predict(X),
    "rank": lambda model, X: model.rank(X, QID),
    "score": lambda model, X: model.score(X, Y, QID),
    "shap_values": lambda model, X: shap_values(model, X),
    "refit": lambda model, X: model.refit(X, Y, QID),
    "fit_more": lambda model, X: model.fit_more(X, Y, QID, n_estimators=1),
    "prune": lambda model, X: model.prune(X, Y, QID),
    "eval_set": lambda model, X: LambdaMART(**SMALL).fit(data_of(NAMES), eval_set=(X, Y, QID)),
}


@pytest.mark.parametrize("path", TRIPLES)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_tables_are_held_to_the_names_too(model, kind, path):
    TRIPLES[path](model, frame_of(kind, NAMES))
    with pytest.raises(ValueError, match=r"(?s)same order.*Feature 2 is 'c', that of the model 'b'"):
        TRIPLES[path](model, frame_of(kind, ("a", "c", "b"), (0, 2, 1)))


def test_a_base_model_of_a_table_with_other_columns_is_refused():
    base = MART(**SMALL).fit(frame_of(pd.DataFrame, ("c", "b", "a"), (2, 1, 0)), Y, QID)
    with pytest.raises(ValueError, match="feature 1 is 'a', that of init 'c'"):
        LambdaSMART(**SMALL, init=base).fit(frame_of(pd.DataFrame, NAMES), Y, QID)


@pytest.mark.filterwarnings("ignore:.*every query in it is in")  # the validation data are the training data
@pytest.mark.parametrize("command", ["rank", "explain", "train"])
def test_the_command_line_refuses_other_columns_and_tells_of_none(model, tmp_path, command):
    write_data(data_of(NAMES), tmp_path / "good.csv")
    write_data(data_of(("a", "c", "b"), (0, 2, 1)), tmp_path / "swapped.csv")
    write_data(data_of(None), tmp_path / "nameless.txt")
    model.save(tmp_path / "m.podium")

    def run(name):
        rows, out = str(tmp_path / name), str(tmp_path / "out")
        arguments = {
            "rank": ["rank", str(tmp_path / "m.podium"), rows, "--out", out],
            "explain": ["explain", str(tmp_path / "m.podium"), rows, "--query", "0"],
            "train": ["train", "mart", str(tmp_path / "good.csv"), "--valid", rows, "--out", f"{out}.podium"],
        }
        return CliRunner().invoke(app, arguments[command])

    assert run("good.csv").exit_code == 0
    assert "feature 2 is 'c', that of" in str(run("swapped.csv").exception)
    with pytest.warns(UserWarning, match="feature names") as caught:
        assert run("nameless.txt").exit_code == 0
    told = [str(one.message) for one in caught if "feature names" in str(one.message)]
    assert len(told) == 1
    assert "nameless.txt has no feature names; its columns are taken" in told[0]
