"""Rows and scores go in and come out in the order of the caller: the same numbers for every kind of input and order.

The oracle is the order itself: what is known of a row, by its number in the first list of rows, and dictionaries.
"""

import json
import math
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

import podium
from podium import LambdaMART, RankingData, compare, evaluate, read_data, write_data
from podium.cli import app
from podium.explain import partial_dependence, shap_values, why
from podium.formats.scores import read_scores, write_scores
from podium.formats.trec import Qrels, Run

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*interleaved", "ignore:.*feature names", "ignore:.*written query by query", "ignore:.*no place for"
)

N, F = 90, 4
RNG = np.random.default_rng(7)
X = np.round(RNG.standard_normal((N, F)), 3).astype(np.float32)
QID = np.repeat(np.arange(9) * 3 + 5, RNG.permutation([4, 6, 8, 9, 10, 12, 13, 14, 14]))
Y = np.clip(np.round(1 + X[:, 1] + 0.5 * RNG.standard_normal(N)), 0, 3)
WEIGHT = np.round(RNG.random(N) + 0.5, 2)
QUERY_WEIGHT = {int(query): 1 + 0.25 * place for place, query in enumerate(dict.fromkeys(QID.tolist()))}
NAMES = [f"f{number}" for number in range(1, F + 1)]


def stable_interleaving() -> np.ndarray:
    """An order in which queries are mixed and the rows of each keep theirs, so that ties fall as before."""
    shuffled, rows = RNG.permutation(QID), {query: iter(np.flatnonzero(query == QID)) for query in QUERY_WEIGHT}
    return np.array([next(rows[query]) for query in shuffled.tolist()])


ORDERS = {"contiguous": np.arange(N), "interleaved": stable_interleaving(), "shuffled": RNG.permutation(N)}
STABLE = ["contiguous", "interleaved"]


def first_seen(order: np.ndarray) -> list[int]:
    return list(dict.fromkeys(QID[order].tolist()))


def arrays_of(order, sparse=False):
    return csr_array(X[order]) if sparse else X[order], Y[order], QID[order]


def columns(order) -> dict:
    table = {"label": Y[order], "qid": QID[order], "docid": [f"d{row}" for row in order]}
    table |= {"sample_weight": WEIGHT[order], "query_weight": [QUERY_WEIGHT[query] for query in QID[order].tolist()]}
    return table | {name: X[order, place] for place, name in enumerate(NAMES)}


def from_arrays(order, tmp_path=None, sparse=False) -> RankingData:
    rows, y, qid = arrays_of(order, sparse)
    own = {"docids": [f"d{row}" for row in order], "sample_weight": WEIGHT[order]}
    return RankingData.from_arrays(rows, y, qid, query_weight=[QUERY_WEIGHT[q] for q in first_seen(order)], **own)


def through(name):
    def source(order, tmp_path) -> RankingData:
        write_data(from_arrays(order), tmp_path / name)
        return read_data(tmp_path / name)

    return source


SOURCES = {
    "arrays": from_arrays,
    "sparse": lambda order, _: from_arrays(order, sparse=True),
    "pandas": lambda order, _: RankingData.from_frame(pd.DataFrame(columns(order))),
    "polars": lambda order, _: RankingData.from_frame(pl.DataFrame(columns(order))),
    "pyarrow": lambda order, _: RankingData.from_frame(pa.table(columns(order))),
    "letor": through("data.txt"),
    "csv": through("data.csv"),
    "parquet": through("data.parquet"),
    "cache": through("data.podium-data"),
    "subset": lambda order, _: from_arrays(order).subset(slice(None)),
    "concat": lambda order, _: RankingData.concat([from_arrays(order)]),
}
every_source = pytest.mark.parametrize("source", SOURCES)
every_order = pytest.mark.parametrize("order", ORDERS)


@pytest.fixture(scope="module")
def model():
    return LambdaMART(n_estimators=8, max_leaf_nodes=6, min_samples_leaf=3, n_jobs=1).fit(X, Y, QID)


@every_source
@every_order
def test_data_are_in_the_order_of_the_caller(tmp_path, source, order):
    rows, data = ORDERS[order], SOURCES[source](ORDERS[order], tmp_path)
    np.testing.assert_array_equal(data.to_dense().X, X[rows])
    assert data.y.tolist() == Y[rows].tolist()
    assert data.qid.tolist() == QID[rows].tolist()
    assert data.docids.tolist() == [f"d{row}" for row in rows]
    assert data.query_ids.tolist() == first_seen(rows)
    if data.sample_weight is not None:
        assert data.sample_weight.tolist() == WEIGHT[rows].tolist()
        assert data.query_weight.tolist() == [QUERY_WEIGHT[query] for query in first_seen(rows)]
    for query, (start, end) in zip(data.query_ids, pairwise(data.offsets)):
        assert data.rows[start:end].tolist() == np.flatnonzero(QID[rows] == query).tolist()
    if source != "sparse":
        for backend in ("pandas", "polars", "pyarrow"):
            frame = data.to_frame(backend)
            assert list(frame["label"].to_numpy()) == Y[rows].tolist()
            assert list(frame["qid"].to_numpy()) == QID[rows].tolist()
            assert list(frame["f3"].to_numpy()) == X[rows, 2].tolist()


@every_source
@every_order
def test_scores_and_what_explains_them_follow_the_rows(tmp_path, model, source, order):
    rows, data = ORDERS[order], SOURCES[source](ORDERS[order], tmp_path)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(data), expected[rows])
    for ours, whole in zip(model.staged_predict(data), model.staged_predict(X), strict=True):
        np.testing.assert_array_equal(ours, whole[rows])
    np.testing.assert_array_equal(model.tree_contributions(data), model.tree_contributions(X)[rows])
    np.testing.assert_allclose(shap_values(model, data).values, shap_values(model, X).values[rows], atol=1e-12)
    centred = shap_values(model, data, qid=data.qid).values
    np.testing.assert_allclose(centred, shap_values(model, X, qid=QID).values[rows], atol=1e-12)
    np.testing.assert_array_equal(
        partial_dependence(model, data, 1, grid=[0, 1]).curves,
        partial_dependence(model, X, 1, grid=[0, 1]).curves[rows],
    )
    assert why(model, data, 3, 5).scores == tuple(expected[rows[[3, 5]]])
    best_first = []
    for query in first_seen(rows):
        own = [row for row in range(N) if QID[rows[row]] == query]
        best_first += sorted(own, key=lambda row: -expected[rows[row]])
    assert model.rank(data).tolist() == best_first
    assert model.rank(X[rows], qid=QID[rows]).tolist() == best_first


def ndcg(scores, labels, cutoff: int) -> float:
    gains = [2**label - 1 for label in labels]
    ranked = [gain for _, gain in sorted(zip(scores, gains), key=lambda pair: -pair[0])]
    ideal = sorted(gains, reverse=True)
    dcg, best = (sum(g / math.log2(2 + i) for i, g in enumerate(part[:cutoff])) for part in (ranked, ideal))
    return dcg / best if best else 0.0


FEW = {"permutations": 1000, "resamples": 1000}
SCORES = RNG.permutation(N) * 1.0
OTHER = RNG.permutation(N) * 1.0


@every_source
@every_order
def test_a_ranking_is_judged_alike_in_any_order(tmp_path, model, source, order):
    rows, data = ORDERS[order], SOURCES[source](ORDERS[order], tmp_path)
    by_query = {query: ndcg(SCORES[query == QID], Y[query == QID], 5) for query in QUERY_WEIGHT}
    bare = RankingData(data.X, data.y, data.offsets, data.query_ids, data.rows)
    found = evaluate(SCORES[rows], bare, metrics=["ndcg@5"])
    assert dict(zip(found.queries.tolist(), found.per_query["ndcg@5"])) == pytest.approx(by_query)
    assert found["ndcg@5"] == pytest.approx(sum(by_query.values()) / len(by_query))
    if data.sample_weight is not None:
        given = {"sample_weight": WEIGHT, "query_weight": list(QUERY_WEIGHT.values())}
        weighted = evaluate(SCORES, Y, qid=QID, metrics=["p@3"], **given)["p@3"]
        assert evaluate(SCORES[rows], data, metrics=["p@3"])["p@3"] == pytest.approx(weighted)
    ours = compare({"a": SCORES[rows], "b": OTHER[rows]}, bare, metrics=["ndcg@5"], **FEW)
    theirs = compare({"a": SCORES, "b": OTHER}, Y, qid=QID, metrics=["ndcg@5"], **FEW)
    assert ours.rows[0].difference == pytest.approx(theirs.rows[0].difference)
    assert model.score(bare) == pytest.approx(model.score(X, Y, QID))
    assert model.score(X[rows], Y[rows], QID[rows]) == pytest.approx(model.score(X, Y, QID))


def small(**options):
    return LambdaMART(n_estimators=5, max_leaf_nodes=5, min_samples_leaf=3, n_jobs=1, **options)


@pytest.mark.parametrize("source", ["triple", "sparse triple", *SOURCES])
@pytest.mark.parametrize("order", STABLE)
def test_a_model_is_the_same_whatever_the_rows_come_in(tmp_path, source, order):
    """With scores to start from, weights, evaluation sets, more trees, new leaf values, and without needless trees."""
    rows = ORDERS[order]
    weighted = {"sample_weight": WEIGHT, "query_weight": [QUERY_WEIGHT[query] for query in first_seen(np.arange(N))]}
    if "triple" in source:
        given = {"sample_weight": WEIGHT[rows], "query_weight": [QUERY_WEIGHT[query] for query in first_seen(rows)]}
        data = arrays_of(rows, sparse="sparse" in source)
    else:
        table = SOURCES[source](rows, tmp_path)
        given, data = {}, (table,)
        weighted = {} if table.sample_weight is None else weighted
    whole = small(init=OTHER / N).fit(X, Y, QID, eval_set=(X, Y, QID), **weighted)
    model = small(init=OTHER[rows] / N).fit(*data, eval_set=data if len(data) == 3 else data[0], **given)
    np.testing.assert_allclose(model.forest_.scores(X), whole.forest_.scores(X), rtol=1e-12)
    if not weighted:  # a set of three arrays has no weights
        assert model.evals_["eval_0"]["ndcg@10"] == pytest.approx(whole.evals_["eval_0"]["ndcg@10"])
    pruned, kept = (one.prune(*part, tolerance=0.02).steps for one, part in ((model, data), (whole, (X, Y, QID))))
    if not weighted:
        assert [step.n_trees for step in pruned] == [step.n_trees for step in kept]
        assert [step.value for step in pruned] == pytest.approx([step.value for step in kept])
    again, refitted = model.refit(*data, decay=0.5, **given), whole.refit(X, Y, QID, decay=0.5, **weighted)
    np.testing.assert_allclose(again.forest_.scores(X), refitted.forest_.scores(X), rtol=1e-12)
    model.fit_more(*data, n_estimators=2, **given)
    whole.fit_more(X, Y, QID, n_estimators=2, **weighted)
    np.testing.assert_allclose(model.forest_.scores(X), whole.forest_.scores(X), rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_base_model_scores_the_rows_it_belongs_to(model, sparse):
    rows = ORDERS["interleaved"]
    whole = small(init=model).fit(X, Y, QID, eval_set=(X, Y, QID))
    mixed = small(init=model).fit(from_arrays(rows, sparse=sparse), eval_set=(X, Y, QID))
    plain = small(init=model).fit(*arrays_of(rows, sparse), eval_set=from_arrays(rows, sparse=sparse))
    bare = RankingData.from_arrays(*arrays_of(rows, sparse))
    np.testing.assert_allclose(plain.predict(bare), whole.predict(X)[rows], rtol=1e-12)
    np.testing.assert_allclose(plain.refit(bare).predict(X), whole.refit(X, Y, QID).predict(X), rtol=1e-12)
    assert [step.n_trees for step in plain.prune(bare).steps] == [step.n_trees for step in whole.prune(X, Y, QID).steps]
    assert mixed.evals_["eval_0"]["ndcg@10"][-1] == pytest.approx(mixed.score(X, Y, QID))


@pytest.mark.parametrize("target", ["copy.txt", "copy.csv", "copy.tsv", "copy.parquet", "copy.podium-data"])
@pytest.mark.parametrize("source", ["letor", "csv", "parquet", "cache"])
@every_order
def test_a_converted_file_keeps_the_order(tmp_path, source, target, order):
    rows = ORDERS[order]
    SOURCES[source](rows, tmp_path)
    (path,) = tmp_path.iterdir()
    assert CliRunner().invoke(app, ["convert", str(path), str(tmp_path / target)]).exit_code == 0
    again = read_data(tmp_path / target)
    assert again.docids.tolist() == [f"d{row}" for row in rows]
    np.testing.assert_array_equal(again.X, X[rows])
    assert again.y.tolist() == Y[rows].tolist()
    assert again.qid.tolist() == QID[rows].tolist()


@every_order
def test_lightgbm_files_hold_the_rows_query_by_query(tmp_path, order):
    rows, path = ORDERS[order], tmp_path / "data.lgb"
    write_data(from_arrays(rows), path, format="lightgbm")
    again = read_data(path, format="lightgbm")
    grouped = [row for query in first_seen(rows) for row in rows if QID[row] == query]
    np.testing.assert_array_equal(again.X, X[grouped])
    assert again.sample_weight.tolist() == WEIGHT[grouped].tolist()
    found = CliRunner().invoke(app, ["convert", str(path), str(tmp_path / "x.podium-data")])
    assert found.exit_code == 0


def test_converting_interleaved_rows_to_lightgbm_says_that_their_order_is_lost(tmp_path):
    write_data(from_arrays(ORDERS["shuffled"]), tmp_path / "a.txt")
    found = CliRunner().invoke(app, ["convert", str(tmp_path / "a.txt"), str(tmp_path / "b"), "--to", "lightgbm"])
    assert "no place for query_ids, docids, comments, the order of interleaved rows" in found.stdout


@every_order
def test_runs_and_judgements_name_the_right_documents(order):
    rows = ORDERS[order]
    data = from_arrays(rows)
    run, qrels = Run.from_scores(data, SCORES[rows]).to_dict(), Qrels.from_data(data).to_dict()
    for query in QUERY_WEIGHT:
        own = np.flatnonzero(query == QID)
        assert run[str(query)] == {f"d{row}": SCORES[row] for row in own}
        assert qrels[str(query)] == {f"d{row}": Y[row] for row in own}


@pytest.mark.parametrize("suffix", ["txt", "csv", "parquet", "podium-data"])
@every_order
def test_the_command_line_reads_and_writes_scores_in_the_order_of_the_file(tmp_path, model, suffix, order):
    rows, data, scores = ORDERS[order], tmp_path / f"data.{suffix}", tmp_path / "a.scores"
    bare = RankingData.from_arrays(*arrays_of(rows))
    write_data(bare, data)
    write_scores(SCORES[rows], scores)
    model.save(tmp_path / "m.podium")
    run = CliRunner().invoke

    def json_of(*arguments):
        return json.loads(run(app, [*map(str, arguments), "--json"]).stdout)

    expected = evaluate(SCORES, Y, qid=QID, metrics=["ndcg@10"])["ndcg@10"]
    assert json_of("eval", data, "--scores", scores)["metrics"]["ndcg@10"] == pytest.approx(expected)
    write_scores(OTHER[rows], tmp_path / "b.scores")
    compared = json_of("compare", data, "--scores", scores, "--scores", tmp_path / "b.scores", "--permutations", 1000)
    assert compared["metrics"]["ndcg@10"]["a.scores"] == pytest.approx(expected)
    assert run(app, ["rank", str(tmp_path / "m.podium"), str(data), "--out", str(tmp_path / "b.scores")]).exit_code == 0
    np.testing.assert_array_equal(read_scores(tmp_path / "b.scores"), model.predict(X)[rows])
    answers = json_of("rank", tmp_path / "m.podium", data, "--format", "trec")["run"].values()
    places = {document: score for answer in answers for document, score in answer.items()}
    assert places == {str(place + 1): score for place, score in enumerate(model.predict(X[rows]))}
    query = first_seen(rows)[2]
    told = json_of("explain", tmp_path / "m.podium", data, "--query", query)["top"][0]
    own = np.flatnonzero(QID[rows] == query)
    best = own[np.argmax(model.predict(X[rows])[own])]
    assert told["document"] == str(best + 1)
    assert told["label"] == Y[rows][best]


def test_a_shuffled_frame_judges_its_own_labels_as_perfect():
    rows = ORDERS["shuffled"]
    frame = pd.DataFrame(columns(rows)).drop(columns=["sample_weight", "query_weight"])
    data = RankingData.from_frame(frame)
    assert evaluate(frame["label"].to_numpy(), data)["ndcg@10"] == pytest.approx(1.0)
    assert podium.check({"shuffled": data}).findings  # it says which rows are interleaved
