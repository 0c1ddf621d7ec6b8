"""Training on a Dask cluster: the model of one machine, byte for byte, whatever the workers, partitions and faults."""

import os
import signal
from functools import cache
from io import BytesIO

import numpy as np
import pytest

import podium
from podium import MART, LambdaMART, Linear, MatrixNet, RandomForest, RankingData, cli

pytest.importorskip("distributed")

import dask
import dask.array as da
import pandas as pd
from distributed import Client, LocalCluster

pytestmark = [
    # What Dask says of its own affairs, as it starts and stops.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Port .* is already in use:UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SMALL = {"n_estimators": 4, "min_samples_leaf": 2, "max_leaf_nodes": 6}


def local_cluster(n, scratch, processes=False, reachable=False):
    """Workers in this process, which others can reach or cannot, or processes of their own."""
    with dask.config.set({"temporary-directory": str(scratch)}):
        return LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=processes,
            host="127.0.0.1" if processes or reachable else None,
            protocol="tcp://" if processes or reachable else None,
            dashboard_address=None,
            silence_logs=100,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with local_cluster(3, tmp_path_factory.mktemp("scratch")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster, set_as_default=False) as client:
        yield client


@cache
def world(seed=0, n_queries=40):
    """Queries whose rows are interleaved, with missing values, ties and weights of 0."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(rng.permutation(10_000)[:n_queries], rng.integers(2, 12, n_queries)))
    X = rng.normal(size=(len(qid), 5)).astype(np.float32).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.clip(np.nan_to_num(X[:, 0]) + rng.normal(size=len(qid)) + 1, 0, 4).round()
    weight = rng.integers(0, 3, len(qid)).astype(float)
    for array in (X, y, qid, weight):
        array.flags.writeable = False
    return X, y, qid, weight


def arrays(X, *columns, chunk=37):
    """The same as Dask arrays, divided without regard to queries."""
    return da.from_array(X, chunks=(chunk, -1)), *(da.from_array(one, chunks=chunk) for one in columns)


def content(model):
    target = BytesIO()
    model.save(target)
    return target.getvalue()


VALID = world(seed=5, n_queries=15)[:3]
KINDS = {
    "leaf": (LambdaMART(**SMALL), {}),
    "level": (LambdaMART(**SMALL, growth="level"), {}),
    "oblivious": (MatrixNet(n_estimators=4, max_depth=3), {}),
    "goss": (LambdaMART(**SMALL, goss=(0.3, 0.3)), {}),
    "sampling": (MART(**SMALL, row_fraction=0.7, query_fraction=0.8, feature_fraction=0.6, extra_trees=True), {}),
    "early stopping": (LambdaMART(**SMALL | {"n_estimators": 30}), {"eval_set": VALID, "early_stopping_rounds": 3}),
    "categories": (LambdaMART(**SMALL, categorical=[1]), {}),
    "bootstrap": (RandomForest(n_estimators=3), {}),
    "dropout": (MART(**SMALL, drop_rate=0.5), {}),
    "within the query": (LambdaMART(**SMALL, transform=("raw", "zscore", "rank")), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_that_of_one_machine(kind, client):
    model, options = KINDS[kind]
    X, y, qid, _ = world()
    alone = type(model)(**model.get_params(deep=False)).fit(X, y, qid, **options)
    if "eval_set" in options:
        options = options | {"eval_set": arrays(*VALID, chunk=29)}
    together = type(model)(**model.get_params(deep=False)).fit(*arrays(X, y, qid), client=client, **options)
    assert content(together) == content(alone)
    assert together.evals_ == alone.evals_
    np.testing.assert_array_equal(together.predict(X, qid), alone.predict(X, qid))


def test_sparse_rows_and_weights_too(client):
    from scipy.sparse import csr_array

    X, y, qid, weight = world()
    X = csr_array(np.where(np.abs(X) > 1, X, 0))
    alone = LambdaMART(**SMALL).fit(X, y, qid, sample_weight=weight, query_weight=np.arange(1.0, 41.0))
    options = {"sample_weight": weight, "query_weight": np.arange(1.0, 41.0)}
    assert content(LambdaMART(**SMALL).fit(X, y, qid, client=client, **options)) == content(alone)


@pytest.fixture(scope="module")
def table():
    X, y, qid, _ = world()
    named = pd.DataFrame(X, columns=list("abcde")).assign(
        colour=pd.Categorical(np.array(["red", "blue", "ash"])[qid % 3])
    )
    return named, pd.Series(y), pd.Series([f"query {number}" for number in qid])


def test_tables_keep_names_categories_and_queries_called_by_text(client, table):
    import dask.dataframe as dd

    X, y, qid = table
    alone = LambdaMART(**SMALL).fit(X, y, qid)
    whole = X.assign(label=y, qid=qid)
    whole["colour"] = whole["colour"].astype(object)  # so that each partition numbers the names that it has
    frame = dd.from_pandas(whole, npartitions=5, sort=False)
    features = frame[list(X.columns)].map_partitions(lambda part: part.assign(colour=part["colour"].astype("category")))
    together = LambdaMART(**SMALL).fit(features, frame["label"], frame["qid"], client=client)
    assert content(together) == content(alone)
    assert list(together.feature_names_in_) == list(X.columns)


def test_files_are_read_by_the_workers(client, tmp_path):
    X, y, qid, _ = world()
    data = RankingData.from_arrays(X, y, qid, feature_names=list("abcde"))
    podium.write_data(data, tmp_path / "train.parquet")
    parts = [data.subset(slice(0, 17)), data.subset(slice(17, None))]
    for number, part in enumerate(parts):
        podium.write_data(part, tmp_path / f"part-{number}.podium-data")
    whole = LambdaMART(**SMALL).fit(data)
    assert content(LambdaMART(**SMALL).fit(tmp_path / "train.parquet", client=client)) == content(whole)
    files = sorted(tmp_path.glob("*.podium-data"))
    one_by_one = LambdaMART(**SMALL).fit(RankingData.concat(parts))
    assert content(LambdaMART(**SMALL).fit(files, client=client)) == content(one_by_one)


def test_rows_of_one_query_leave_workers_without_any(client):
    X, y, _, _ = world()
    qid = np.zeros(len(y), np.int64)
    model = MART(n_estimators=2, min_samples_leaf=5)
    assert content(model.fit(*arrays(X, y, qid), client=client)) == content(MART(**model.get_params()).fit(X, y, qid))


def test_callbacks_are_called_after_each_tree_and_can_stop(client):
    X, y, qid, _ = world()
    seen = []

    def stop_at_three(progress):
        seen.append((progress.iteration, progress.total))
        return progress.iteration == 3

    model = LambdaMART(**SMALL).fit(*arrays(X, y, qid), client=client, callbacks=[stop_at_three])
    assert seen == [(1, 4), (2, 4), (3, 4)]
    assert content(model) == content(LambdaMART(**SMALL).fit(X, y, qid, callbacks=[lambda p: p.iteration == 3]))


class Stop(Exception):
    pass


def test_a_checkpoint_continues_with_another_number_of_workers(client, tmp_path, tmp_path_factory):
    X, y, qid, _ = world()
    path, rows = tmp_path / "run.check", arrays(X, y, qid)
    valid = {"eval_set": VALID, "every": 1, "checkpoint": path}

    def fail(progress):
        if progress.iteration == 3:
            raise Stop

    with pytest.raises(Stop):
        LambdaMART(**SMALL).fit(*rows, client=client, callbacks=[fail], **valid)
    assert path.exists()
    with pytest.raises(ValueError, match="checkpoint of another training"):
        LambdaMART(**SMALL, l2_regularization=1.0).fit(*rows, client=client, **valid)
    with local_cluster(1, tmp_path_factory.mktemp("other")) as alone, Client(alone, set_as_default=False) as other:
        seen = []
        model = LambdaMART(**SMALL)
        model.fit(*rows, client=other, callbacks=[lambda p: seen.append(p.iteration)], **valid)
    assert seen == [3, 4]
    assert content(model) == content(LambdaMART(**SMALL).fit(X, y, qid, eval_set=VALID))
    assert not path.exists()


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_byte(tmp_path):
    X, y, qid, _ = world()
    killed = []

    def kill(progress):
        if progress.iteration == 2 and not killed:
            killed.append(sorted(client.run(os.getpid).values())[0])
            os.kill(killed[0], signal.SIGKILL)

    with (
        local_cluster(2, tmp_path, processes=True) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.warns(UserWarning, match="is lost"),
    ):
        model = LambdaMART(**SMALL).fit(*arrays(X, y, qid), client=client, callbacks=[kill])
    assert content(model) == content(LambdaMART(**SMALL).fit(X, y, qid))


def bad(X, y, qid, **changes):
    values = {"X": X, "y": y, "qid": qid} | changes
    return values.pop("X"), values.pop("y"), values.pop("qid"), values


REFUSED = {
    "another model": (lambda X, y, q: (Linear(), arrays(X, y, q), {}), "Linear is trained on one machine; fit takes"),
    "a step for all rows": (lambda X, y, q: (MART(step="tree"), arrays(X, y, q), {}), "step='tree' searches"),
    "a function": (
        lambda X, y, q: (podium.Boosted(objective=lambda s, y, o: (s, s)), arrays(X, y, q), {}),
        "function",
    ),
    "held-out queries": (
        lambda X, y, q: (LambdaMART(validation_fraction=0.2), arrays(X, y, q), {}),
        "validation_fraction holds out",
    ),
    "an init to be trained": (
        lambda X, y, q: (LambdaMART(init=Linear()), arrays(X, y, q), {}),
        "init must be a fitted",
    ),
    "pairs": (lambda X, y, q: (MART(objective="ranknet"), arrays(X, y, q), {"pairs": ([0], [1])}), "pairs name rows"),
    "scaling": (lambda X, y, q: (LambdaMART(transform=("standard",)), arrays(X, y, q), {}), "'standard' needs all"),
    "no labels": (lambda X, y, q: (LambdaMART(), (arrays(X)[0], None, da.from_array(q)), {}), "y is missing"),
    "bad labels": (
        lambda X, y, q: (LambdaMART(), arrays(X, np.where(np.arange(len(y)) == 40, np.nan, y), q), {}),
        "fit, partition 2: .*NaN",
    ),
    "other lengths": (
        lambda X, y, q: (LambdaMART(), (*arrays(X), *arrays(y[:-1, None])[:1], *arrays(X)), {}),
        "dimensions",
    ),
    "other partitions": (
        lambda X, y, q: (LambdaMART(), (*arrays(X), da.from_array(y, chunks=50), da.from_array(q, chunks=37)), {}),
        "partitions, y",
    ),
    "no client": (
        lambda X, y, q: (LambdaMART(), arrays(X, y, q), {"client": "tcp://127.0.0.1:1"}),
        "distributed.Client",
    ),
    "fractional labels": (
        lambda X, y, q: (LambdaMART(), arrays(X, y - 3, q), {}),
        "labels must be finite numbers, 0 or",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_trained_is_refused_with_the_reason(kind, client):
    make, sentence = REFUSED[kind]
    X, y, qid, _ = world()
    model, rows, options = make(X, y, qid)
    with pytest.raises((TypeError, ValueError), match=sentence):
        model.fit(*rows, **{"client": client} | options)
    assert not hasattr(model, "n_features_in_")


def test_the_command_trains_on_a_scheduler(tmp_path, monkeypatch, capsys):
    X, y, qid, _ = world()
    data = RankingData.from_arrays(X, y, qid).grouped()
    podium.write_data(data, tmp_path / "train.txt")
    podium.write_data(data, tmp_path / "train.podium-data")
    podium.write_data(RankingData.from_arrays(*VALID).grouped(), tmp_path / "valid.txt")
    settings = ["--set", "n_estimators=3", "--set", "min_samples_leaf=2", "--valid", "valid.txt"]
    monkeypatch.chdir(tmp_path)

    def run(source, out, *more):
        monkeypatch.setattr("sys.argv", ["podium", "train", "lambdamart", source, "--out", out, *settings, *more])
        try:
            cli.main()
        except SystemExit as end:
            return end.code, capsys.readouterr()
        return 0, capsys.readouterr()

    code, printed = run("train.txt", "alone.podium")
    assert code == 0, printed.err
    with local_cluster(2, tmp_path, reachable=True) as cluster:
        for source in ("train.txt", "train.podium-data"):
            code, printed = run(source, "together.podium", "--scheduler", cluster.scheduler_address)
            assert code == 0, printed.err
            assert (tmp_path / "together.podium").read_bytes() == (tmp_path / "alone.podium").read_bytes()
        assert "trained on" in printed.out
    code, printed = run("train.txt", "none.podium", "--scheduler", "nowhere")
    assert (code, (tmp_path / "none.podium").exists()) == (1, False)
    assert "no Dask scheduler answers at nowhere" in printed.err
