"""Scoring at scale: the bits of `model.predict`, however rows are divided and in whatever kind of column they are."""

import pickle
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from partitions import divided
from small_worlds import small_model, world

import podium
from podium.distributed.scoring import sending
from podium.distributed.scoring.sending import SentModel

dask = pytest.importorskip("dask")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

NAMES = ["bm25", "length", "age", "clicks", "links"]
ALONE = ["MART", "LambdaSMART", "RandomForest", "Linear", "RankSVM", "AdaRank", "RankBoost", "Pointwise"]
TOGETHER = ["Blend", "Stack", "SelfAttentionRanker", "zscore"]
PARTITIONS = {"one": [], "many": [7, 8, 100, 101], "empty": [0, 50, 50, 240], "by query": [20, 50, 180]}


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def rows():
    """Rows of 24 queries, with an index of their own; columns beside the features."""
    data = world()
    frame = pd.DataFrame(data.X, columns=NAMES, index=np.arange(len(data.X)) * 3)
    return frame.assign(qid=data.qid, label=data.y)


@pytest.fixture(scope="module")
def models(rows):
    made = {}

    def trained(name):
        if name not in made:
            model = (
                small_model("LambdaMART").set_params(transform=["zscore"]) if name == "zscore" else small_model(name)
            )
            made[name] = model.fit(rows[NAMES], rows["label"], qid=rows["qid"])
        return made[name]

    return trained


def divided_array(values, cuts):
    import dask.array as da

    return da.from_array(values, chunks=(tuple(np.diff([0, *cuts, len(values)]).tolist()), *values.shape[1:]))


def batches_of(table, sizes=(1, 30, 0, 64, 200)):
    start, parts = 0, []
    for size in sizes:
        parts += table.slice(start, size).to_batches() if size else [table.to_batches()[0].slice(0, 0)]
        start += size
    return [*parts, *table.slice(start).to_batches()]


def scores_of(batches, name="score"):
    return np.concatenate([batch.column(name).to_numpy() for batch in batches])


# --- DataFrames and arrays


@pytest.mark.parametrize("cuts", PARTITIONS.values(), ids=PARTITIONS)
@pytest.mark.parametrize("name", ALONE)
def test_a_frame_gets_the_bits_of_predict(models, rows, name, cuts):
    model = models(name)
    shuffled = rows[["links", "qid", "bm25", "label", "age", "length", "clicks"]]
    scores = podium.distributed.predict(model, divided(shuffled, cuts)).compute()
    expected = pd.Series(model.predict(rows[NAMES]), index=rows.index, name="score")
    pd.testing.assert_series_equal(scores, expected, check_exact=True)


@pytest.mark.parametrize("cuts", PARTITIONS.values(), ids=PARTITIONS)
@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("seed", [None, 3], ids=["in order", "mixed"])
def test_queries_that_lie_in_several_partitions_are_scored_whole(models, rows, name, cuts, seed):
    model = models(name)
    if seed is not None:  # all queries in all partitions
        rows = rows.sample(frac=1, random_state=seed)
    scores = podium.distributed.predict(model, divided(rows, cuts), "qid").compute()
    expected = pd.Series(model.predict(rows[NAMES], rows["qid"]), index=rows.index, name="score")
    pd.testing.assert_series_equal(scores, expected, check_exact=True)


@pytest.mark.parametrize("name", ["MART", "Linear", "Blend"])
def test_an_array_gets_the_bits_of_predict(rows, name):
    X, qid = rows[NAMES].to_numpy(np.float64), rows["qid"].to_numpy()
    model = small_model(name).fit(X, rows["label"], qid=qid)
    cuts, needed = [7, 8, 100], model.needs_queries()
    columns = divided_array(X, cuts)
    for collection in (columns, columns.rechunk({1: 2}), divided(rows, cuts)[NAMES].astype(float).to_dask_array()):
        ids = (
            (divided_array(qid, cuts) if collection is not columns else divided(rows, cuts)["qid"]) if needed else None
        )
        scores = podium.distributed.predict(model, collection, ids)
        assert scores.ndim == 1
        np.testing.assert_array_equal(scores.compute(), model.predict(X, qid if needed else None))


@pytest.mark.parametrize(
    "kind", ["float64", "float32", "float16", "int64", "uint8", "bool", "Int32", "double[pyarrow]"]
)
@pytest.mark.parametrize("name", ["LambdaMART", "Linear"])
def test_columns_of_every_kind_of_number_are_read_as_predict_reads_them(models, rows, name, kind):
    model, integers = models(name), "int" in kind.lower()
    frame = (rows[NAMES].abs() * 3).round(0 if integers else 3) if kind != "bool" else rows[NAMES] > 0
    frame = frame.astype(kind)
    expected = model.predict(frame)
    assert len(np.unique(expected)) > 3
    with dask.config.set({"dataframe.convert-string": False}):
        np.testing.assert_array_equal(podium.distributed.predict(model, divided(frame, [7, 100])).compute(), expected)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    np.testing.assert_array_equal(scores_of(podium.distributed.arrow_scorer(model)(batches_of(table))), expected)


def test_long_integers_are_rounded_as_predict_rounds_them(models, rows):
    """2**60 + 2**36 + 1 is nearest to 2**60 + 2**37 in float32; by way of float64, which drops the 1, to 2**60."""
    frame = pd.DataFrame(2**60 + 2**36 + 1, index=range(4), columns=NAMES)
    assert np.float32(frame.iloc[0, 0]) != np.float32(np.float64(frame.iloc[0, 0]))
    expected = models("Linear").predict(frame)
    batches = [pa.RecordBatch.from_pandas(frame)]
    np.testing.assert_array_equal(podium.distributed.predict(models("Linear"), divided(frame, [1])).compute(), expected)
    np.testing.assert_array_equal(scores_of(podium.distributed.arrow_scorer(models("Linear"))(batches)), expected)


def test_a_model_without_names_takes_named_columns(rows):
    model = small_model("MART").fit(rows[NAMES].to_numpy(), rows["label"], qid=rows["qid"])
    expected = model.predict(rows[NAMES].to_numpy())
    scores = podium.distributed.predict(model, divided(rows, [9]), features=NAMES).compute()
    np.testing.assert_array_equal(scores, expected)
    renamed = rows[NAMES].set_axis(["f1", "f2", "f3", "f4", "f5"], axis=1)
    np.testing.assert_array_equal(podium.distributed.predict(model, divided(renamed, [9])).compute(), expected)
    batches = batches_of(pa.Table.from_pandas(rows))
    np.testing.assert_array_equal(scores_of(podium.distributed.arrow_scorer(model, features=NAMES)(batches)), expected)


# --- Arrow


@pytest.mark.parametrize("name", ALONE)
def test_record_batches_get_the_bits_of_predict(models, rows, name, tmp_path):
    model, table = models(name), pa.Table.from_pandas(rows.sort_index(axis=1), preserve_index=False)
    model.save(tmp_path / "m.podium")
    for source in (model, tmp_path / "m.podium"):
        scorer = pickle.loads(pickle.dumps(podium.distributed.arrow_scorer(source, keep=["qid"], score="rank score")))
        batches = list(scorer(iter(batches_of(table))))
        assert batches[0].schema.names == ["qid", "rank score"]
        np.testing.assert_array_equal(scores_of(batches, "qid"), rows["qid"])
        np.testing.assert_array_equal(scores_of(batches, "rank score"), model.predict(rows[NAMES]))
        assert sorted(scorer.columns) == sorted(["qid", *NAMES])


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("sizes", [(1, 30, 0, 64), (240,), (5,) * 40, (10,) * 24])
def test_batches_may_end_within_a_query(models, rows, name, sizes):
    model, table = models(name), pa.Table.from_pandas(rows, preserve_index=False)
    batches = list(podium.distributed.arrow_scorer(model, qid="qid")(batches_of(table, sizes)))
    np.testing.assert_array_equal(scores_of(batches), model.predict(rows[NAMES], rows["qid"]))
    assert pa.Table.from_batches(batches).drop_columns("score").equals(table.combine_chunks())


def test_missing_values_and_dictionaries_of_numbers(models, rows):
    frame = rows[NAMES].copy()
    frame.iloc[::3, 1], frame.iloc[::7, 4] = np.nan, np.nan
    model = models("LambdaMART")
    columns = {name: pa.array(frame[name], from_pandas=True) for name in NAMES}
    assert columns["length"].null_count == 80
    columns |= {"age": columns["age"].dictionary_encode(), "links": columns["links"].dictionary_encode()}
    columns["clicks"] = pa.nulls(len(frame))
    frame["clicks"] = np.nan
    scores = scores_of(podium.distributed.arrow_scorer(model)(batches_of(pa.table(columns))))
    np.testing.assert_array_equal(scores, model.predict(frame))


@pytest.mark.parametrize("kind", ["dictionary", "text", "category"])
def test_categories_are_found_by_name(rows, kind):
    draws = np.random.default_rng(0)
    names = draws.choice(["red", "green", "blue", "none"], len(rows))
    frame = rows[NAMES].assign(
        colour=pd.Categorical(np.where(names == "none", None, names)), size=draws.integers(3, size=len(rows))
    )
    model = podium.LambdaMART(n_estimators=5, min_samples_leaf=2, categorical=["colour"])
    model.fit(frame, rows["label"] + (names == "red"), qid=rows["qid"])
    frame["colour"] = frame["colour"].cat.rename_categories({"blue": "ultramarine"})  # one that training did not know
    with pytest.warns(UserWarning, match="training did not know"):
        expected = model.predict(frame)
    if kind != "category":
        frame["colour"] = frame["colour"].astype(object)
    columns = {name: pa.array(frame[name], from_pandas=True) for name in frame}
    if kind == "dictionary":
        columns["colour"] = columns["colour"].dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    with pytest.warns(UserWarning, match="training did not know"):
        scores = scores_of(podium.distributed.arrow_scorer(model)([pa.record_batch(columns)]))
    np.testing.assert_array_equal(scores, expected)
    with pytest.warns(UserWarning, match="training did not know"):
        np.testing.assert_array_equal(podium.distributed.predict(model, divided(frame, [100])).compute(), expected)


def test_categories_of_an_array_are_found_by_place(rows):
    ids = 2**24 + np.random.default_rng(0).integers(0, 4, len(rows))
    X = np.column_stack([rows["bm25"], ids])
    model = podium.LambdaMART(n_estimators=5, min_samples_leaf=2, categorical=[1]).fit(X, ids % 3, qid=rows["qid"])
    frame = pd.DataFrame({"shop": ids, "bm25": rows["bm25"].to_numpy()})
    expected = model.predict(X)
    assert len(np.unique(expected)) > 2
    features = ["bm25", "shop"]
    scores = podium.distributed.predict(model, divided(frame, [100]), features=features).compute()
    np.testing.assert_array_equal(scores, expected)
    scorer = podium.distributed.arrow_scorer(model, features=features)
    np.testing.assert_array_equal(scores_of(scorer([pa.RecordBatch.from_pandas(frame)])), expected)


def test_batches_that_pandas_made_become_pandas_again(models, rows):
    batch = pa.RecordBatch.from_pandas(rows.rename_axis("row"))
    (scored,) = podium.distributed.arrow_scorer(models("MART"), keep=["qid"])([batch])
    assert scored.to_pandas().columns.tolist() == ["qid", "score"]
    (scored,) = podium.distributed.arrow_scorer(models("MART"))([batch])
    assert scored.to_pandas().index.tolist() == rows.index.tolist()


# --- how a model travels


def test_a_process_loads_a_model_once(models, monkeypatch):
    loads, load = [], sending.load
    monkeypatch.setattr(sending, "load", lambda stream: loads.append(1) or load(stream))
    sent = SentModel.of(models("MART"))
    monkeypatch.setattr(sending, "_loadings", {})
    barrier, models_by_thread = threading.Barrier(4), []

    def work():
        barrier.wait()
        models_by_thread.append(pickle.loads(pickle.dumps(sent)).load())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(loads) == 1
    assert len({id(model) for model in models_by_thread}) == 1


def test_old_models_are_forgotten(rows, monkeypatch):
    monkeypatch.setattr(sending, "_loadings", {})
    for seed in range(sending._MOST_MODELS + 3):
        SentModel.of(podium.Linear(max_iter=seed + 1).fit(rows[NAMES], rows["label"], qid=rows["qid"])).load()
    assert len(sending._loadings) == sending._MOST_MODELS


def test_another_file_under_the_path_is_refused(models, rows, tmp_path, monkeypatch):
    path = tmp_path / "m.podium"
    models("MART").save(path)
    scorer = podium.distributed.arrow_scorer(path)
    models("Linear").save(path)
    monkeypatch.setattr(sending, "_loadings", {})  # as in another process
    batch = pa.RecordBatch.from_pandas(rows)
    with pytest.raises(ValueError, match=r"m\.podium is not the model file that was sent: its sha256 begins with"):
        next(scorer([batch]))
    path.unlink()
    with pytest.raises(FileNotFoundError, match="Every process must see the file under this path"):
        next(scorer([batch]))


@pytest.mark.parametrize("kind", ["frame", "array", "queries"])
def test_one_task_of_the_graph_has_the_bytes_of_the_model(models, rows, kind):
    import cloudpickle

    model = models("zscore" if kind == "queries" else "MART")
    frame = divided(rows, [7, 8, 100])
    X = divided_array(rows[NAMES].to_numpy(), [7, 8, 100]) if kind == "array" else frame
    scores = podium.distributed.predict(model, X, "qid" if kind == "queries" else None)
    content = SentModel.of(model).content
    tasks = dict(scores.__dask_graph__())
    assert sum(content in cloudpickle.dumps(task) for task in tasks.values()) == 1


def test_a_cluster_of_processes_gives_the_same_scores(models, rows, tmp_path):
    distributed = pytest.importorskip("distributed")
    models("MART").save(tmp_path / "m.podium")
    with (
        distributed.LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        for name, source in (("MART", tmp_path / "m.podium"), ("zscore", models("zscore"))):
            ids = "qid" if name == "zscore" else None
            scores = podium.distributed.predict(source, divided(rows, [7, 95, 100]), ids).compute(scheduler=None)
            np.testing.assert_array_equal(
                scores, models(name).predict(rows[NAMES], None if ids is None else rows["qid"])
            )


# --- wrong inputs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.drop(columns="age"), "a feature of the model is missing: there is no column 'age'"),
        (lambda rows: rows.rename(columns={"age": "agee"}), "Did you mean 'agee'"),
        (lambda rows: rows.assign(age=np.inf), "column 'age' has inf in row 1"),
        (lambda rows: rows.assign(age=1e300), "column 'age' has inf in row 1"),
        (
            lambda rows: rows.assign(age="old"),
            "column 'age' holds text such as 'old', and the model needs numbers there",
        ),
    ],
)
def test_wrong_columns_are_named(models, rows, change, message):
    model, frame = models("MART"), change(rows)
    with pytest.raises(ValueError, match=message):
        podium.distributed.predict(model, divided(frame, [100])).compute()
    with pytest.raises(ValueError, match=message):
        list(podium.distributed.arrow_scorer(model)([pa.RecordBatch.from_pandas(frame)]))


def test_missing_values_are_refused_by_models_that_take_none(models, rows):
    frame = rows.assign(age=rows["age"].where(rows["age"] > 0))
    for scores in (
        lambda: podium.distributed.predict(models("Linear"), divided(frame, [9])).compute(),
        lambda: list(podium.distributed.arrow_scorer(models("Linear"))([pa.RecordBatch.from_pandas(frame)])),
    ):
        with pytest.raises(ValueError, match="Linear does not support missing values; feature 3"):
            scores()


def test_what_cannot_be_scored_is_refused_before_the_work(models, rows):
    frame, predict, scorer = divided(rows, [9]), podium.distributed.predict, podium.distributed.arrow_scorer
    with pytest.raises(TypeError, match=r"X must be a Dask collection; got DataFrame.*model.predict"):
        predict(models("MART"), rows)
    with pytest.raises(TypeError, match="expected a fitted model, or the path of a model file; got int"):
        predict(3, frame)
    with pytest.raises(FileNotFoundError, match="there is no such model file"):
        predict("nothing.podium", frame)
    with pytest.raises(ValueError, match="Blend: predict needs qid, one query id per row, because"):
        predict(models("Blend"), frame)
    with pytest.raises(ValueError, match="there is no column 'query'"):
        predict(models("Blend"), frame, "query")
    with pytest.raises(ValueError, match="the collections must have the same partitions; X has 2, qid has 3"):
        predict(models("Blend"), frame, divided(rows, [9, 10])["qid"])
    with pytest.raises(ValueError, match="features is for models that were trained without names"):
        predict(models("MART"), frame, features=NAMES[::-1])
    with pytest.raises(ValueError, match=r"Blend needs qid='...', the column of query ids, because"):
        scorer(models("Blend"))
    with pytest.raises(ValueError, match="keep has 'score'"):
        scorer(models("MART"), keep=["score"])
    with pytest.raises(TypeError, match=r"keep must be a list of columns, such as \['qid'\]"):
        scorer(models("MART"), keep="qid")
    batch = pa.RecordBatch.from_pandas(rows.assign(score=0.0))
    with pytest.raises(ValueError, match="the batches have a column 'score' already"):
        list(scorer(models("MART"))([batch]))
    with pytest.raises(ValueError, match="there is no column 'id'"):
        list(scorer(models("MART"), keep=["id"])([batch]))


def test_without_dask_or_pyarrow_the_extra_is_named(models, rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"podium\[dask\]"):
        podium.distributed.predict(models("MART"), rows)
    with pytest.raises(ImportError, match=r"podium\[arrow\]"):
        podium.distributed.arrow_scorer(models("MART"))


def test_a_query_that_comes_back_is_refused(models, rows):
    scorer = podium.distributed.arrow_scorer(models("Blend"), qid="qid")
    batches = [pa.RecordBatch.from_pandas(rows.iloc[part]) for part in (slice(0, 15), slice(15, 40), slice(5, 8))]
    with pytest.raises(ValueError, match="query 0 comes back after the rows of others"):
        list(scorer(batches))
    ids = pa.array([None, *rows["qid"][1:]], pa.int64())
    with pytest.raises(ValueError, match="a query id is missing in row 1"):
        list(scorer([pa.RecordBatch.from_pandas(rows.drop(columns="qid")).append_column("qid", ids)]))
