"""Data without labels, by every way that data comes in: it is ranked and explained as with labels, and refused wherever
labels are needed. The oracle is the labelled data."""

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from typer.testing import CliRunner

import podium
from podium import LambdaMART, Linear, RankingData, check, compare, evaluate, read_data, write_data
from podium.cli import app
from podium.explain import partial_dependence, permutation_importance, shap_values, why
from podium.formats.errors import FormatError
from podium.formats.tables import read_table
from podium.formats.trec import Qrels, Run

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*feature names", "ignore:.*written query by query", "ignore:.*no place"
)

RNG = np.random.default_rng(11)
X = np.round(RNG.standard_normal((60, 3)), 3).astype(np.float32)
QID = np.repeat([7, 3, 9, 4], [20, 10, 15, 15])
Y = np.clip(np.round(1 + X[:, 1] + 0.5 * RNG.standard_normal(60)), 0, 3)
DOCIDS = [f"d{row}" for row in range(60)]
NAMES = ["f1", "f2", "f3"]
SMALL = {"n_estimators": 4, "max_leaf_nodes": 4, "min_samples_leaf": 2, "n_jobs": 1}
LABELLED = RankingData.from_arrays(X, Y, QID, docids=DOCIDS, feature_names=NAMES)
COLUMNS = {"qid": QID, "docid": DOCIDS, **dict(zip(NAMES, X.T))}
BARE = RankingData.from_arrays(X, qid=QID, docids=DOCIDS, feature_names=NAMES)


def through_file(name, data=BARE, **options):
    def read(folder):
        write_data(data, folder / name, format=options.get("format"))
        return read_data(folder / name, labels="optional" if data.y is None else "ignored", **options)

    return read


WAYS = {
    "arrays": lambda folder: BARE,
    "group": lambda folder: RankingData.from_arrays(X, group=[20, 10, 15, 15], feature_names=NAMES),
    "sparse": lambda folder: RankingData.from_arrays(csr_array(X), qid=QID, feature_names=NAMES).to_dense(),
    "pandas": lambda folder: RankingData.from_frame(pd.DataFrame(COLUMNS), label=None),
    "polars": lambda folder: RankingData.from_frame(pl.DataFrame(COLUMNS), label=None),
    "pyarrow": lambda folder: RankingData.from_frame(pa.table(COLUMNS), label=None),
    "labelled frame": lambda folder: RankingData.from_frame(LABELLED.to_frame(), label=None),
    "to_frame": lambda folder: RankingData.from_frame(BARE.to_frame("polars"), label=None),
    "csv": through_file("data.csv"),
    "tsv": through_file("data.tsv.gz"),
    "parquet": through_file("data.parquet"),
    "cache": through_file("data.podium-data"),
    "labelled csv": through_file("data.csv", LABELLED),
    "labelled parquet": through_file("data.parquet", LABELLED),
    "labelled cache": through_file("data.podium-data", LABELLED),
    "labelled letor": through_file("data.txt", LABELLED),
    "labelled lightgbm": through_file("data", LABELLED, format="lightgbm"),
    "pickle": lambda folder: pickle.loads(pickle.dumps(BARE)),
    "grouped": lambda folder: RankingData.from_arrays(X, qid=QID).grouped(),
    "subset": lambda folder: BARE.subset([True] * 4),
    "concat": lambda folder: RankingData.concat([BARE.subset([0, 1]), BARE.subset([2, 3])]),
}


@pytest.fixture(scope="module")
def model():
    return LambdaMART(**SMALL).fit(LABELLED)


@pytest.mark.parametrize("way", WAYS)
def test_data_without_labels_is_ranked_and_explained_as_with_labels(way, model, tmp_path):
    data = WAYS[way](tmp_path)
    assert data.y is None
    assert "no labels" in repr(data)
    assert (data.n_rows, data.n_queries, data.n_features) == (60, 4, 3)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.rows, np.arange(60))
    np.testing.assert_array_equal(data.offsets, LABELLED.offsets)
    np.testing.assert_array_equal(model.predict(data), model.predict(LABELLED))
    np.testing.assert_array_equal(model.rank(data), model.rank(LABELLED))
    np.testing.assert_array_equal(shap_values(model, data).values, shap_values(model, LABELLED).values)
    assert why(model, data, 0, 1).as_dict() == why(model, LABELLED, 0, 1).as_dict()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("written", ["csv", "tsv.xz", "parquet", "podium-data"])
def test_files_keep_that_there_are_no_labels(way, written, tmp_path):
    data, path = WAYS[way](tmp_path), tmp_path / f"again.{written}"
    write_data(data, path)
    again = read_data(path, labels="optional")
    assert again.y is None
    np.testing.assert_array_equal(again.X, X)
    np.testing.assert_array_equal(again.query_numbers, data.query_numbers)
    with pytest.raises(FormatError, match="label"):
        read_data(path)
    assert read_data(path, labels="ignored").y is None


NEEDS_LABELS = {
    "fit": lambda model, folder: LambdaMART(**SMALL).fit(BARE),
    "fit linear": lambda model, folder: Linear().fit(BARE),
    "fit arrays": lambda model, folder: LambdaMART(**SMALL).fit(X, qid=QID),
    "eval_set": lambda model, folder: LambdaMART(**SMALL).fit(LABELLED, eval_set=BARE),
    "eval_set arrays": lambda model, folder: LambdaMART(**SMALL).fit(X, Y, QID, eval_set=(X, None, QID)),
    "fit_more": lambda model, folder: model.fit_more(BARE, n_estimators=1),
    "refit": lambda model, folder: model.refit(BARE),
    "prune": lambda model, folder: model.prune(BARE),
    "score": lambda model, folder: model.score(BARE),
    "score arrays": lambda model, folder: model.score(X, qid=QID),
    "evaluate": lambda model, folder: evaluate(X[:, 0], BARE),
    "evaluate arrays": lambda model, folder: evaluate(X[:, 0], None, qid=QID),
    "compare": lambda model, folder: compare({"a": X[:, 0], "b": X[:, 1]}, BARE),
    "compare arrays": lambda model, folder: compare({"a": X[:, 0], "b": X[:, 1]}, None, qid=QID),
    "permutation_importance": lambda model, folder: permutation_importance(model, BARE),
    "write LightGBM": lambda model, folder: write_data(BARE, folder / "data", format="lightgbm"),
    "qrels": lambda model, folder: Qrels.from_data(BARE),
}


@pytest.mark.parametrize("name", NEEDS_LABELS)
def test_what_needs_labels_refuses_data_without_them(name, model, tmp_path):
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"needs labels|requires y"):  # the latter are scikit-learn's words
        NEEDS_LABELS[name](model, tmp_path)
    assert not list(tmp_path.iterdir())  # nothing is written
    np.testing.assert_array_equal(model.predict(X), before)


def test_runs_partial_dependence_folds_and_checks_need_no_labels(model):
    scores = model.predict(BARE)
    assert Run.from_scores(BARE, scores).to_dict() == Run.from_scores(LABELLED, scores).to_dict()
    with_labels = partial_dependence(model, LABELLED, "f2").as_dict()
    assert partial_dependence(model, BARE, "f2").as_dict() == with_labels
    for train, test in BARE.folds(2):
        assert train.y is None
        assert test.y is None
    report = check({"new.csv": BARE})
    assert report.exit_code == 0
    assert "no-labels" in [finding.code for finding in report.findings]


def test_labelled_and_unlabelled_parts_are_not_mixed():
    for parts, words in (([0, 1], "part 2 has no labels, part 1 has some"), ([1, 0], "part 2 has labels, part 1 has")):
        halves = [LABELLED.subset([0]), BARE.subset([1])]
        with pytest.raises(ValueError, match=words):
            RankingData.concat([halves[part] for part in parts])


def test_a_column_of_labels_with_another_name_is_left_out_where_it_is_ignored(tmp_path):
    table = LABELLED.to_frame().rename(columns={"label": "grade"})
    table.loc[3, "grade"] = np.nan  # not looked at
    table.to_csv(tmp_path / "data.csv", index=False)
    data = read_data(tmp_path / "data.csv", label="grade", labels="ignored")
    assert (data.y, data.feature_names) == (None, tuple(NAMES))
    assert read_table(tmp_path / "data.csv", label=None).feature_names == ("grade", *NAMES)
    with pytest.raises(FormatError, match="'grade'"):
        read_data(tmp_path / "data.csv", label="grade", labels="optional")
    with pytest.raises(FormatError, match=r"no column 'label'.*label=None"):
        read_data(tmp_path / "data.csv")
    with pytest.raises(ValueError, match="labels must be one of"):
        read_data(tmp_path / "data.csv", labels="none")


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.sampled_from(["csv", "podium-data"]), st.booleans())
def test_any_order_of_queries_reads_back_without_labels(tmp_path_factory, qid, suffix, labelled):
    rows = np.arange(2.0 * len(qid)).reshape(-1, 2)
    data = RankingData.from_arrays(rows, np.ones(len(qid)) if labelled else None, qid)
    path = tmp_path_factory.mktemp("data") / f"data.{suffix}"
    write_data(data, path)
    again = read_data(path, labels="optional")
    assert (again.y is None) is not labelled
    assert again.qid.tolist() == qid
    np.testing.assert_array_equal(again.X, rows)


def command(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, found.output, found.exception


UNLABELLED = ["new.csv", "new.parquet", "new.podium-data", "new.txt", "new.txt.gz", "new.tsv.zst"]


@pytest.mark.parametrize("name", UNLABELLED)
def test_the_command_line_ranks_and_explains_files_without_labels(name, model, tmp_path):
    path, saved = tmp_path / name, tmp_path / "model.podium"
    write_data(BARE, path)
    model.save(saved)
    code, out, _ = command("rank", saved, path, "--json")
    assert code == 0
    assert json.loads(out)["scores"] == model.predict(X).tolist()
    code, out, _ = command("explain", saved, path, "--query", "3", "--json")
    assert code == 0
    assert json.loads(out)["top"][0]["label"] is None
    assert command("explain", saved, path, "--query", "3")[0] == 0
    code, out, _ = command("check", path)
    assert code == 0
    assert "[no-labels]" in out
    assert command("convert", path, tmp_path / "again.parquet")[0] == 0
    assert podium.read_data(tmp_path / "again.parquet", labels="optional").y is None
    code, _, error = command("train", "mart", path, "--out", tmp_path / "m")
    assert code == 1  # main() makes it 2, with the sentence
    assert isinstance(error, ValueError)
    assert "label" in str(error)
    assert not (tmp_path / "m").exists()


def test_lightgbms_and_yandexs_text_need_no_labels_either(model, tmp_path):
    queries = np.diff(BARE.offsets)
    rows = BARE.grouped().X
    (tmp_path / "new").write_text("".join(" ".join(f"{k}:{v}" for k, v in enumerate(row)) + "\n" for row in rows))
    (tmp_path / "new.query").write_text("".join(f"{n}\n" for n in queries))
    data = read_data(tmp_path / "new", labels="optional")
    assert data.y is None
    np.testing.assert_array_equal(data.X, rows)
    (tmp_path / "yandex").write_text("1:0.5 2:1 # 7\n2:3 # 8\n")
    data = read_data(tmp_path / "yandex", format="letor-comments", labels="optional")
    assert (data.y, data.qid.tolist(), data.X.tolist()) == (None, [7, 8], [[0.5, 1], [0, 3]])
    with pytest.raises(FormatError, match=r"line 1: expected a label .* found '1:0.5'"):
        read_data(tmp_path / "yandex", format="letor-comments")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qid:1 1:5\n2 qid:1 1:6\n", "line 2: expected 'qid:<id>' as 1st field, found '2'. The first row has no label"),
        ("2 qid:1 1:5\nqid:1 1:6\n", "line 2: expected a label .* found 'qid:1'"),
    ],
)
def test_letor_text_has_labels_in_all_rows_or_in_none(tmp_path, text, message):
    (tmp_path / "mixed.txt").write_text(text)
    with pytest.raises(FormatError, match=message):
        read_data(tmp_path / "mixed.txt", labels="optional")
