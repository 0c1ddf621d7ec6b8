"""Tables in and out: the same arrays for every kind of table, and an error that names the column and the row."""

import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from podium.data.ranking import RankingData
from podium.formats.frames import BACKENDS

MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def columns(**more) -> dict:
    return {"label": [1.0, 0.0, 2.0], "qid": [5, 5, 7], "a": [0.5, 1.5, 2.5], **more}


def assert_same(left: RankingData, right: RankingData) -> None:
    for name in ("X", "y", "qid", "offsets"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert left.docid_texts == right.docid_texts
    for name in ("sample_weight", "query_weight"):
        one, other = getattr(left, name), getattr(right, name)
        assert (one is None and other is None) or np.array_equal(one, other)


@every_backend
@pytest.mark.parametrize("ids", [[7, 7, 2**63 - 1, 2**63 - 2], [2**64 - 1, 2**64 - 2, 1, 1], list("baab")])
def test_a_round_trip_keeps_everything(backend, ids):
    data = RankingData.from_arrays(
        np.array([[1, np.nan], [-0.0, 1e-45], [3.4e38, 0.1], [5, 6]], dtype=np.float32),
        [0, 1.5, 2, 3],
        qid=ids,
        docids=["d1", "", "é #", "d 4"],
        feature_names=["bm25", "with, comma"],
        sample_weight=[1, 2, 0.5, 4],
        query_weight=[1, 0.25, 3][: len(set(ids))],
    )
    again = RankingData.from_frame(data.to_frame(backend))
    assert_same(data, again)
    assert again.feature_names == data.feature_names
    assert again.query_ids.dtype == data.query_ids.dtype


@every_backend
@given(matrix=arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 20)), elements=st.floats(width=32)))
def test_any_features_survive_bit_for_bit(backend, matrix):
    matrix = np.where(np.isinf(matrix), np.float32(np.nan), matrix)
    data = RankingData.from_arrays(matrix, np.zeros(len(matrix)), qid=np.arange(len(matrix)))
    again = RankingData.from_frame(data.to_frame(backend))
    np.testing.assert_array_equal(again.X, matrix)
    np.testing.assert_array_equal(np.signbit(again.X[matrix == 0]), np.signbit(matrix[matrix == 0]))
    assert again.feature_names == tuple(f"f{number}" for number in range(1, matrix.shape[1] + 1))


@every_backend
def test_columns_come_in_a_fixed_order(backend):
    data = RankingData.from_arrays(np.eye(2), [0, 1], qid=[1, 2], docids=["x", "y"], query_weight=[1, 2])
    assert list(data.to_frame(backend).columns if backend != "pyarrow" else data.to_frame(backend).column_names) == [
        *("label", "qid", "docid", "query_weight", "f1", "f2")
    ]


NULLABLE = {
    "pandas": pd.DataFrame(
        {
            "label": pd.array([1, 0, 2], dtype="Int64"),
            "qid": pd.array([2**53 + 1, 2**53, 2**53 + 1], dtype="Int64"),
            "float": pd.array([0.5, None, 2.5], dtype="Float64"),
            "int": pd.array([1, None, 3], dtype="Int64"),
            "bool": pd.array([True, None, False], dtype="boolean"),
            "decimal": [Decimal("1.25"), None, Decimal(3)],
            "nothing": [None, None, None],
            "arrow": pd.array([4, None, 6], dtype="int64[pyarrow]"),
        },
        index=[9, 9, 3],
    ),
    "polars": pl.DataFrame(
        {
            "label": [1, 0, 2],
            "qid": [2**53 + 1, 2**53, 2**53 + 1],
            "float": [0.5, None, 2.5],
            "int": [1, None, 3],
            "bool": [True, None, False],
            "decimal": [Decimal("1.25"), None, Decimal(3)],
            "nothing": [None, None, None],
            "arrow": pl.Series([4, None, 6], dtype=pl.Int128),
        }
    ),
    "pyarrow": pa.table(
        {
            "label": pa.array([1, 0, 2], pa.decimal128(5, 2)),
            "qid": [2**53 + 1, 2**53, 2**53 + 1],
            "float": [0.5, None, 2.5],
            "int": [1, None, 3],
            "bool": [True, None, False],
            "decimal": [Decimal("1.25"), None, Decimal(3)],
            "nothing": pa.nulls(3),
            "arrow": pa.array([4, None, 6], pa.uint8()),
        }
    ),
}


@every_backend
def test_nulls_in_features_are_missing_and_large_query_ids_stay_apart(backend):
    data = RankingData.from_frame(NULLABLE[backend])
    assert data.query_ids.tolist() == [2**53 + 1, 2**53]
    assert data.y.tolist() == [1, 0, 2]
    nan = np.nan
    rows = [[0.5, 1, 1, 1.25, nan, 4], [nan] * 6, [2.5, 3, 0, 3, nan, 6]]
    np.testing.assert_array_equal(data.X, np.array(rows, dtype=np.float32))


@every_backend
@pytest.mark.parametrize("column", ["label", "qid", "docid", "sample_weight"])
def test_a_null_where_a_value_is_needed_is_refused_by_column_and_row(backend, column):
    table = columns(docid=["x", "y", "z"], sample_weight=[1.0, 1.0, 1.0])
    table[column] = [table[column][0], None, table[column][2]]
    with pytest.raises(ValueError, match=rf"column '{column}' is missing a value in row 2; every"):
        RankingData.from_frame(MAKE[backend](table))


@every_backend
def test_a_text_feature_has_categories_unless_some_of_it_are_numbers(backend):
    data = RankingData.from_frame(MAKE[backend](columns(site=["b.org", "a.org", None])))
    assert data.categories == {"site": ("a.org", "b.org")}
    np.testing.assert_array_equal(data.X[:, 1], [1, 0, np.nan])
    mixed = MAKE[backend](columns(site=["2", "a.org", None]))
    with pytest.raises(ValueError, match=r"column 'site' holds text such as '2' and 'a.org'; .*categorical=\['site'\]"):
        RankingData.from_frame(mixed)
    assert RankingData.from_frame(mixed, categorical=["site"]).categories == {"site": ("2", "a.org")}
    assert RankingData.from_frame(mixed, drop=["site"]).feature_names == ("a",)


def test_other_kinds_of_feature_are_refused_by_name():
    for values in (pd.to_datetime(["2020-01-01"] * 3), [1j, 2j, 3j], [[1], [2], [3]]):
        with pytest.raises(ValueError, match="column 'odd' holds"):
            RankingData.from_frame(pd.DataFrame(columns(odd=values)))


@every_backend
@pytest.mark.parametrize("value", [np.inf, 1e39])
def test_a_feature_that_is_no_float32_is_refused_by_column_and_row(backend, value):
    with pytest.raises(ValueError, match=r"column 'a' has .* in row 3; features must be finite"):
        RankingData.from_frame(MAKE[backend](columns(a=[1.0, 2.0, value])))


@every_backend
def test_a_missing_column_is_named_with_the_nearest_one(backend):
    table = columns()
    table["labl"] = table.pop("label")
    with pytest.raises(ValueError, match=r"no column 'label'; found: qid, a, labl. Did you mean 'labl'"):
        RankingData.from_frame(MAKE[backend](table))
    with pytest.raises(ValueError, match="no column 'b'"):
        RankingData.from_frame(MAKE[backend](columns()), features=["a", "b"])


@every_backend
def test_text_query_ids_stay_text(backend):
    data = RankingData.from_frame(MAKE[backend](columns(qid=["01", "1", "01"])))
    assert data.query_ids.tolist() == ["01", "1"]


def test_categories_and_decimals_serve_as_query_ids():
    assert RankingData.from_frame(pd.DataFrame(columns(qid=pd.Categorical(["x", "y", "x"])))).n_queries == 2
    assert RankingData.from_frame(pl.DataFrame(columns(qid=[Decimal(4), Decimal(5), Decimal(4)]))).qid[0] == 4


def test_floats_and_dates_as_query_ids_are_refused_where_they_could_merge():
    with pytest.raises(ValueError, match="may have merged already"):
        RankingData.from_frame(pd.DataFrame(columns(qid=[2.0**53, 1.0, 1.0])))
    with pytest.raises(ValueError, match="qid must hold integers or text"):
        RankingData.from_frame(pd.DataFrame(columns(qid=pd.to_datetime(["2020-01-01"] * 3))))


def test_named_columns_are_used_and_the_rest_are_features():
    table = pl.DataFrame({"rel": [1, 0], "query": ["q", "q"], "url": ["u", "v"], "w": [1, 2], "qid": [3, 4]})
    data = RankingData.from_frame(table, label="rel", qid="query", docid="url", sample_weight="w")
    assert data.feature_names == ("qid",)
    assert data.docids.tolist() == ["u", "v"]
    assert data.sample_weight.tolist() == [1, 2]


def test_known_names_are_features_when_named_so():
    table = pd.DataFrame(columns(sample_weight=[1.0, 2.0, 3.0]))
    assert RankingData.from_frame(table).sample_weight.tolist() == [1, 2, 3]
    data = RankingData.from_frame(table, features=["sample_weight", "a"])
    assert data.sample_weight is None
    assert data.X[:, 0].tolist() == [1, 2, 3]


def test_a_query_weight_must_be_constant_within_a_query():
    table = columns(qid=[5, 7, 5], query_weight=[0.5, 2.0, 0.5])
    assert RankingData.from_frame(pd.DataFrame(table)).query_weight.tolist() == [0.5, 2]
    table["query_weight"][2] = 0.75
    with pytest.raises(ValueError, match=r"query '5' has 0.5 and 0.75"):
        RankingData.from_frame(pd.DataFrame(table))


def test_document_ids_that_are_floats_are_refused():
    with pytest.raises(ValueError, match=r"column 'docid' has 1.0 in row 1; .* must be text or integers"):
        RankingData.from_frame(pd.DataFrame(columns(docid=[1.0, 2.0, 3.0])))


def test_a_lazy_table_is_collected():
    assert RankingData.from_frame(pl.LazyFrame(columns())).n_rows == 3


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([1, 2], "expected a pandas, polars or pyarrow table; got list"),
        (pd.DataFrame([[1, 2, 3, 4]], columns=["label", "qid", "a", "a"]), "unique column names"),
        (pd.DataFrame({"label": [1], "qid": [1]}), "no feature column"),
    ],
)
def test_what_is_no_proper_table_is_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        RankingData.from_frame(frame)


def test_features_named_twice_or_as_the_label_are_refused():
    for features in (["a", "a"], ["a", "label"]):
        with pytest.raises(ValueError, match="features must name each column once"):
            RankingData.from_frame(pd.DataFrame(columns()), features=features)


def test_a_feature_named_like_the_label_gives_no_frame():
    data = RankingData.from_arrays([[1.0]], [1], qid=[1], feature_names=["label"])
    with pytest.raises(ValueError, match="a feature is named 'label'"):
        data.to_frame()


def test_an_unknown_or_absent_backend_is_said_plainly(monkeypatch):
    data = RankingData.from_arrays([[1.0]], [1], qid=[1])
    with pytest.raises(ValueError, match=r"got 'panda'. Did you mean 'pandas'"):
        data.to_frame("panda")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "podium\[arrow\]"'):
        data.to_frame("pyarrow")


def test_document_ids_that_are_no_unicode_are_refused():
    data = RankingData.from_arrays([[1.0]], [1], qid=[1], docids=[b"\xff".decode("utf-8", "surrogateescape")])
    with pytest.raises(ValueError, match="no UTF-8 text"):
        data.to_frame()
