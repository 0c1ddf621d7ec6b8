"""What float32 cannot keep apart: numbers from 2**24 on are warned of, and told apart where they are categories."""

import io
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from podium import LambdaMART, RankingData, check, evaluate, load, read_data, write_data
from podium.cli import main
from podium.data.precision import merged_columns, merged_texts
from podium.formats.cache import read_cache
from podium.models.frame.inspection import tree_text
from podium.models.trees.named import MART

N = 60
QID = np.repeat(np.arange(6), 10)
Y = np.arange(N) % 3
SMALL = {"n_estimators": 3, "max_leaf_nodes": 4, "min_samples_leaf": 2, "n_jobs": 1}
STAMPS = 1_700_000_000 + np.arange(N) * 10
LARGE = {
    "time stamps": STAMPS,
    "ids": 2**24 + np.arange(N),
    "negative": -(2**30) - np.arange(N),
    "beyond doubles": 2**60 + np.arange(N),
    "time stamps with fractions": STAMPS + 0.25,
}
HARMLESS = {
    "small integers": np.arange(N),
    "just exact": 2**24 - np.arange(N),
    "multiples": 2**24 + 2 * np.arange(N),
    "decimals": np.linspace(0, 1, N) + 1e-12,
    "large decimals": np.linspace(0, 1e9, N) / 7,
    "far apart": 2.0**40 * (1 + np.arange(N)),
    "missing": np.where(np.arange(N) % 2, np.nan, 2.0**30),
}


def matrix(column, dtype) -> np.ndarray:
    return np.stack([Y, column], axis=1).astype(dtype)


def csv_of(rows, tmp_path):
    table = {"label": Y, "qid": QID, "first": rows[:, 0], "second": rows[:, 1]}
    pd.DataFrame(table).to_csv(tmp_path / "data.csv", index=False)
    return read_data(tmp_path / "data.csv")


def parquet_of(rows, tmp_path):
    table = {"label": Y, "qid": QID, "first": rows[:, 0], "second": rows[:, 1]}
    pd.DataFrame(table).to_parquet(tmp_path / "data.parquet")
    return read_data(tmp_path / "data.parquet")


def frame_of(kind, rows):
    return kind({"first": rows[:, 0], "second": rows[:, 1]})


def labelled(kind, rows):
    return kind({"label": Y, "qid": QID, "first": rows[:, 0], "second": rows[:, 1]})


WAYS = {
    "from_arrays": (lambda rows, _: RankingData.from_arrays(rows, Y, QID), "2, X[:, 1]"),
    "from sparse": (lambda rows, _: RankingData.from_arrays(csr_array(rows), Y, QID), "2, X[:, 1]"),
    "named arrays": (
        lambda rows, _: RankingData.from_arrays(rows, Y, QID, feature_names=["first", "second"]),
        "'second'",
    ),
    "pandas": (lambda rows, _: RankingData.from_frame(labelled(pd.DataFrame, rows)), "'second'"),
    "polars": (lambda rows, _: RankingData.from_frame(labelled(pl.DataFrame, rows)), "'second'"),
    "pyarrow": (lambda rows, _: RankingData.from_frame(labelled(pa.table, rows)), "'second'"),
    "csv": (csv_of, "'second'"),
    "parquet": (parquet_of, "'second'"),
    "fit an array": (lambda rows, _: MART(**SMALL).fit(rows, Y, QID), "2, X[:, 1]"),
    "fit a list": (lambda rows, _: MART(**SMALL).fit(rows.tolist(), Y, QID), "2, X[:, 1]"),
    "fit sparse": (lambda rows, _: MART(**SMALL).fit(csr_array(rows), Y, QID), "2, X[:, 1]"),
    "fit pandas": (lambda rows, _: MART(**SMALL).fit(frame_of(pd.DataFrame, rows), Y, QID), "'second'"),
    "fit polars": (lambda rows, _: MART(**SMALL).fit(frame_of(pl.DataFrame, rows), Y, QID), "'second'"),
    "fit pyarrow": (lambda rows, _: MART(**SMALL).fit(frame_of(pa.table, rows), Y, QID), "'second'"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("column", [*LARGE, *HARMLESS])
def test_merged_numbers_are_warned_of_once_with_their_column(tmp_path, way, column):
    values = (LARGE | HARMLESS)[column]
    rows = matrix(values, np.int64 if values.dtype.kind == "i" else np.float64)
    make, called = WAYS[way]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(rows, tmp_path)
    told = [str(one.message) for one in caught if "float32" in str(one.message)]
    assert len(told) == (1 if column in LARGE else 0)
    if told:
        assert f"column {called}: " in told[0]
        assert "Subtract a start" in told[0]
        one, other = re.search(r": (-?[\d.]+) and (-?[\d.]+) become one", told[0]).groups()
        assert one != other
        assert {Fraction(one), Fraction(other)} <= {Fraction(value) for value in values.tolist()}


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8, bool])
def test_types_that_float32_holds_are_not_looked_at(dtype):
    assert merged_columns(np.full((4, 2), 1, dtype=dtype)) == {}


numbers = st.integers(-(2**40), 2**40) | st.integers(2**24 - 4, 2**24 + 8) | st.integers(-(2**24) - 8, -(2**24) + 4)


@given(st.lists(numbers, min_size=1, max_size=12), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_column_of_integers_is_reported_if_and_only_if_two_of_them_become_one(values, as_float):
    single = {}
    for value in values:  # float32 has 24 bits: rounded by whole arithmetic, half to even
        shift = max(0, abs(value).bit_length() - 24)
        low, rest = divmod(abs(value), 2**shift)
        half = Fraction(rest, 2**shift) - Fraction(1, 2)
        rounded = (low + (half > 0 or (half == 0 and low % 2 == 1))) * 2**shift
        single.setdefault((value > 0, rounded), set()).add(value)
    merged = any(len(same) > 1 for same in single.values())
    column = np.array(values, dtype=np.float64 if as_float else np.int64)[:, None]
    assert bool(merged_columns(column)) == merged
    assert (merged_texts(map(str, values)) is not None) == merged


# --- categories ---

IDS = [2**24, 2**24 + 1, 2**24 + 2, 2**53, 2**53 + 1, -(2**40) - 1, -(2**40), 7]


def categorical_case(rng, dtype=np.int64):
    """Labels that follow from the exact id alone."""
    ids = rng.choice(np.array(IDS[:3] if dtype == np.float64 else IDS, dtype=dtype), 400)
    y = np.array([IDS.index(int(value)) % 2 * 2 for value in ids])
    return np.stack([rng.integers(0, 5, 400).astype(dtype), ids], axis=1), y, np.repeat(np.arange(20), 20)


def model_of(X, y, qid, listed):
    options = {"n_estimators": 3, "min_samples_leaf": 1, "learning_rate": 0.9, "category_smoothing": 0.0, "n_jobs": 1}
    return MART(**options, categorical=listed).fit(X, y, qid)


KINDS = {
    "array": (lambda X: X, [1]),
    "list": (lambda X: X.tolist(), ["1"]),
    "fortran": (np.asfortranarray, [1]),
    "pandas": (lambda X: frame_of(pd.DataFrame, X), ["second"]),
    "pandas by number": (lambda X: frame_of(pd.DataFrame, X), [1]),
    "polars": (lambda X: frame_of(pl.DataFrame, X), ["second"]),
    "pyarrow": (lambda X: frame_of(pa.table, X), ["second"]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_listed_numbers_are_reported_apart_exactly(tmp_path, rng, kind, dtype):
    X, y, qid = categorical_case(rng, dtype)
    make, listed = KINDS[kind]
    model = model_of(make(X), y, qid, listed)  # and no warning: these numbers are kept
    expected = np.where(y > 0, 2.0, 0.0)  # less what a rate of 0.9 leaves after three trees
    np.testing.assert_allclose(model.predict(make(X)), expected, atol=0.01)
    model.save(tmp_path / "m.podium")
    again = load(tmp_path / "m.podium")
    np.testing.assert_array_equal(again.predict(make(X)), model.predict(make(X)))
    assert again.categories_ == model.categories_
    for one in (model.refit(make(X), y, qid, decay=0.0), again.refit(make(X), y, qid)):
        np.testing.assert_allclose(one.predict(make(X)), expected, atol=0.01)
    model.fit_more(make(X), y, qid, n_estimators=1)
    np.testing.assert_allclose(model.predict(make(X)), expected, atol=0.01)
    assert model.prune(make(X), y, qid).model.forest_.n_trees >= 1
    assert str(2**24 + 1) in tree_text(model, 1)
    watched = MART(**SMALL, categorical=listed).fit(make(X), y, qid, eval_set=(make(X), y, qid))
    final = evaluate(watched.predict(make(X)), y, qid=qid, metrics=["ndcg@10"])["ndcg@10"]
    assert watched.evals_["eval_0"]["ndcg@10"][-1] == pytest.approx(final)


def test_values_that_training_did_not_see_are_missing_ones(rng):
    X, y, qid = categorical_case(rng)
    model = model_of(X, y, qid, [1])
    other = X[:2].copy()
    other[:, 1] = [2**24 + 3, 2**24]
    missing = X[:2].astype(np.float64)
    missing[:, 1] = [np.nan, 2**24]
    with pytest.warns(UserWarning, match=r"column 2, X\[:, 1\]: training did not know 1 of 2 values"):
        np.testing.assert_array_equal(model.predict(other), model.predict(missing))
    with pytest.warns(UserWarning, match=r"column 2, X\[:, 1\]: training knew none of these values"):
        model.predict(other[:1])
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.array([[1.0, np.inf]]))


def test_numbers_that_float32_keeps_are_taken_as_they_are(rng):
    X, y, qid = categorical_case(rng)
    X[:, 1] = rng.integers(0, 4, len(X))
    assert model_of(X, y, qid, [1]).categories_ == {}


def test_ranking_data_and_sparse_rows_are_refused_where_categories_are_numbered(rng):
    X, y, qid = categorical_case(rng)
    model = model_of(X, y, qid, [1])
    with pytest.warns(UserWarning, match="float32"):
        data = RankingData.from_arrays(X, y, qid)
    for call in (model.predict, model.score, model.prune, model.refit):
        with pytest.raises(ValueError, match=r"the model has categories in column 2, X\[:, 1\]"):
            call(data)
    with pytest.raises(ValueError, match=r"the model numbers the categories of column 2, X\[:, 1\]; give dense rows"):
        model.predict(csr_array(X))
    with pytest.raises(
        ValueError, match=r"column 2, X\[:, 1\], of the sparse X is categorical and has numbers that float32"
    ):
        model_of(csr_array(X), y, qid, [1])


def test_a_fit_on_an_array_forgets_the_names_of_an_earlier_table(rng):
    X, y, qid = categorical_case(rng)
    model = model_of(frame_of(pd.DataFrame, X), y, qid, [1])
    expected = model.predict(frame_of(pd.DataFrame, X))
    np.testing.assert_array_equal(model.fit(X, y, qid).predict(X), expected)


# --- podium check ---


def text_of(kind, column) -> str:
    lines = {
        "letor": lambda q, y, v: f"{y} qid:{q} 1:{y} 2:{v} # 2:{v}999",
        "csv": lambda q, y, v: f"{y},{q},{y},{v}",
        "tsv": lambda q, y, v: f"{y}\t{q}\t{y}\t{v}",
        "lightgbm": lambda q, y, v: f"{y} 0:{y} 1:{v}",
        "lightgbm table": lambda q, y, v: f"{y},{y},{v}",
    }
    header = {"csv": "label,qid,a,b\n", "tsv": "label\tqid\ta\tb\n"}.get(kind, "")
    return header + "".join(lines[kind](q, y, v) + "\n" for q, y, v in zip(QID, Y, column))


@pytest.mark.parametrize("kind", ["letor", "csv", "tsv", "lightgbm", "lightgbm table"])
@pytest.mark.parametrize("column", [*LARGE, *HARMLESS])
def test_check_finds_numbers_that_become_one(tmp_path, monkeypatch, capsys, kind, column):
    path = tmp_path / ("data." + kind if kind in ("csv", "tsv") else "data")
    path.write_text(text_of(kind, (LARGE | HARMLESS)[column].tolist()))
    if "lightgbm" in kind:
        (tmp_path / "data.query").write_text("10\n" * 6)
    monkeypatch.setattr("sys.argv", ["podium", "check", str(path)])
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    assert ("merged-numbers" in out) == (column in LARGE)
    assert err == ""


def test_check_looks_into_standard_input_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["podium", "check", "-"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text_of("letor", LARGE["ids"]).encode())))
    with pytest.raises(SystemExit):
        main()
    assert "merged-numbers" in capsys.readouterr().out


def test_the_first_line_of_a_table_without_a_header_counts(tmp_path):
    (tmp_path / "data").write_text(f"1,0,{2**24}\n0,1,{2**24 + 1}\n")
    (tmp_path / "data.query").write_text("2\n")
    with pytest.warns(UserWarning, match=f"column 'column 3': {2**24} and {2**24 + 1} become one"):
        data = read_data(tmp_path / "data")
    assert "merged-numbers" in [one.code for one in check({"x": data}, {"x": tmp_path / "data"}).findings]


def test_check_looks_into_parquet_and_knows_nothing_of_a_cache(tmp_path):
    with pytest.warns(UserWarning, match="float32"):
        data = parquet_of(matrix(LARGE["ids"], np.int64), tmp_path)
    codes = [found.code for found in check({"x": data}, {"x": tmp_path / "data.parquet"}).findings]
    assert "merged-numbers" in codes
    write_data(data, tmp_path / "x.podium-data")
    codes = [
        found.code
        for found in check({"x": read_cache(tmp_path / "x.podium-data")}, {"x": tmp_path / "x.podium-data"}).findings
    ]
    assert "merged-numbers" not in codes


# --- query ids of 2**63 and more ---

ARRAYS = ("array", "list", "object", "concat")
FRAMES = ("pandas", "nullable", "polars", "pyarrow", "round trip")
FILES = ("txt", "csv", "tsv", "parquet", "podium-data")
HIGH = [2**63, 2**63 + 1, 2**64 - 1, 5]


def high_data(way, tmp_path) -> RankingData:
    ids = np.repeat(np.array(HIGH, dtype=np.uint64), 3)[[0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]]
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 3
    table = {"label": y, "qid": ids, "f1": X[:, 0], "f2": X[:, 1]}
    data = RankingData.from_arrays(X, y, ids)
    if way in FILES:
        write_data(data, tmp_path / f"data.{way}")
        return read_data(tmp_path / f"data.{way}")
    return {
        "array": lambda: data,
        "list": lambda: RankingData.from_arrays(X, y, ids.tolist()),
        "object": lambda: RankingData.from_arrays(X, y, ids.astype(object)),
        "pandas": lambda: RankingData.from_frame(pd.DataFrame(table)),
        "nullable": lambda: RankingData.from_frame(pd.DataFrame(table).astype({"qid": "UInt64"})),
        "polars": lambda: RankingData.from_frame(pl.DataFrame(table)),
        "pyarrow": lambda: RankingData.from_frame(pa.table(table)),
        "round trip": lambda: RankingData.from_frame(data.to_frame()),
        "concat": lambda: RankingData.concat([data.subset([0, 1, 2]), data.subset([3])]),
    }[way]()


@pytest.mark.filterwarnings("ignore:.*interleaved", "ignore:.*feature names")
@pytest.mark.parametrize("way", [*ARRAYS, *FRAMES, *FILES])
def test_query_ids_of_2_to_the_63_and_more_work_everywhere(tmp_path, way):
    data = high_data(way, tmp_path)
    assert data.query_ids.dtype == np.uint64
    assert data.query_ids.tolist() == HIGH
    assert sorted(set(data.qid.tolist())) == sorted(HIGH)
    assert data.n_queries == 4
    model = LambdaMART(n_estimators=2, max_leaf_nodes=3, min_samples_leaf=1, n_jobs=1).fit(data, eval_set=data)
    found = evaluate(model.predict(data), data)
    assert found.queries.tolist() == HIGH
    assert set(found.as_dict(per_query=True)["per_query"]) == set(map(str, HIGH))
    assert model.rank(data).tolist() == model.rank(data.X, qid=data.qid).tolist()
    assert model.score(data.X, data.y, data.qid) == pytest.approx(model.score(data))
