"""A table of few rows gets the scores that its rows have in a large table, which a general reader reads."""

import pickle
import re
import warnings
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

import podium
from podium.data.small_tables import SmallTables

MANY = 300  # rows, more than are read as a small table
NAMES = ["x", "kind", "n"]


def training(text, with_names=True):
    """A table of a number, a category and a count; the category as text or as numbers."""
    draws = np.random.default_rng(7)
    kind = draws.choice(["a", "b", "c"] if text else [3, 5, 2**40], 120)
    columns = {"x": draws.standard_normal(120), "kind": pd.Categorical(kind), "n": draws.integers(0, 9, 120)}
    y = (columns["x"] > 0) + 2 * (kind == kind[0])
    return pd.DataFrame({name: columns[name] for name in NAMES if with_names or name != "kind"}), y


@pytest.fixture(scope="module")
def models():
    """With categories of text, of numbers, and without."""
    result = {}
    for name, (text, with_names) in {"text": (True, True), "numbers": (False, True), "none": (True, False)}.items():
        X, y = training(text, with_names)
        model = podium.LambdaMART(n_estimators=5, max_leaf_nodes=6, min_samples_leaf=3, extra_trees=False)
        result[name] = model.fit(X, y, qid=np.repeat(np.arange(6), 20))
    return result


def outcome(model, table):
    """Scores, or the first line of an error; and what was warned of."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            scores = model.predict(table)
        except (ValueError, TypeError) as error:
            return type(error), str(error).splitlines()[0].split(" at row")[0]
    return scores, [re.sub("[0-9,]+ of [0-9,]+", "some", str(warning.message)) for warning in noted]


def repeated(table):
    """The rows again and again; the types of columns stay what they are."""
    times = MANY // len(table) + 1
    return (
        pd.concat([table] * times, ignore_index=True) if isinstance(table, pd.DataFrame) else pl.concat([table] * times)
    ), times


def assert_as_in_a_large_table(model, table):
    large, times = repeated(table)
    ours, theirs = outcome(model, table), outcome(model, large)
    if isinstance(theirs[0], np.ndarray):
        np.testing.assert_array_equal(np.tile(ours[0], times).view(np.int64), theirs[0].view(np.int64))
        assert ours[1] == theirs[1]
    else:
        assert ours == theirs


X_TYPES = ("float64", "float32", "float16", "int64", "uint64", "bool", "object", "Float64", "Int64")
KINDS = {
    "text": (["a", "c"], ["b", None], ["new", "a"], ["new", "other"], [None, None]),
    "numbers": ([3, 2**40], [5, None], [4, 3], [4, 6], [2**40 + 1, 3]),
}


@pytest.mark.parametrize("dtype", X_TYPES)
@pytest.mark.parametrize("categories", ["text", "numbers"])
def test_pandas_tables_of_every_type(models, categories, dtype):
    for values, as_category in product(KINDS[categories], (True, False)):
        kind = pd.Series(pd.Categorical(values)) if as_category else pd.Series(values)
        table = pd.DataFrame({"x": pd.Series([1, 0]).astype(dtype), "kind": kind, "n": [3, 8]})
        assert_as_in_a_large_table(models[categories], table)
        assert_as_in_a_large_table(models[categories], table.iloc[1:])


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32, pl.Int8, pl.UInt64, pl.Int64, pl.Boolean, pl.String])
@pytest.mark.parametrize("categories", ["text", "numbers"])
def test_polars_tables_of_every_type(models, categories, dtype):
    for values, column_type in product(KINDS[categories], (None, pl.Categorical)):
        if column_type is not None and categories == "numbers":
            continue
        table = pl.DataFrame(
            {"x": pl.Series([1, 0]).cast(dtype), "kind": pl.Series(values, dtype=column_type), "n": [3, None]}
        )
        assert_as_in_a_large_table(models[categories], table)
        assert_as_in_a_large_table(models[categories], table[1:])


NUMBERS = (1e39, -1e39, np.inf, np.nan, 1e-50, 16777217.0, 0.1)


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("categories", ["text", "none"])
def test_numbers_at_the_limits_of_float32(models, library, categories):
    for number in NUMBERS:
        columns = {"x": [0.5, number], "kind": ["a", "b"], "n": [1, 2]}
        if categories == "none":
            del columns["kind"]
        assert_as_in_a_large_table(models[categories], library.DataFrame(columns))


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("columns", [["kind", "x", "n"], ["x", "kind"], ["x", "kind", "n", "more"], ["x", "sort", "n"]])
def test_other_columns_are_refused_in_the_same_words(models, library, columns):
    table = library.DataFrame({name: ["a"] if name == "kind" else [1.0] for name in columns})
    assert_as_in_a_large_table(models["text"], table)
    with pytest.raises(ValueError, match="feature names"):
        models["text"].predict(table)


def test_a_model_that_is_fitted_again_reads_its_new_columns():
    X, y = training(text=True)
    model = podium.LambdaMART(n_estimators=3, min_samples_leaf=3)
    qid = np.repeat(np.arange(6), 20)
    model.fit(X, y, qid=qid).predict(X[:1])
    renamed = X.rename(columns={"x": "z"}).assign(kind=pd.Categorical(np.where(X["kind"] == "a", "new", "old")))
    model.fit(renamed, y, qid=qid)
    np.testing.assert_array_equal(model.predict(renamed[:5]), model.predict(renamed)[:5].copy())
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[:1].assign(kind=pd.Categorical(["new"])))


def test_a_copy_of_the_model_reads_tables_too(models):
    table = training(text=True)[0][:3]
    scores = models["text"].predict(table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(models["text"])).predict(table), scores)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_plain_tables_do_not_need_a_general_reader(library):
    reader = SmallTables(np.array(NAMES, dtype=object), {"kind": ["a", "b"]})
    table = pd.DataFrame({"x": [0.5, 1.5], "kind": pd.Categorical(["b", None]), "n": [3, 4]})
    table = table if library == "pandas" else pl.from_pandas(table)
    rows = reader.rows(table)
    np.testing.assert_array_equal(rows, np.array([[0.5, 1, 3], [1.5, np.nan, 4]], np.float32))
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
