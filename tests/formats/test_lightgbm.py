"""LightGBM's files: what is written here is the same data there, and what is read here is what LightGBM reads."""

import lzma
from dataclasses import replace

import lightgbm
import numpy as np
import pytest

import podium
from podium.data.ranking import RankingData
from podium.formats import lightgbm as layout
from podium.formats import read_data, write_data
from podium.formats.errors import FormatError
from podium.formats.lightgbm import read_lightgbm, write_lightgbm
from podium.formats.scores import write_scores

BINS = {"verbosity": -1, "min_data_in_bin": 1, "min_data_in_leaf": 1, "feature_pre_filter": False, "max_bin": 255}


def written(folder, content: str, query: str | None = None, weight: str | None = None, name: str = "rank.train"):
    for suffix, text in (("", content), (".query", query), (".weight", weight)):
        if text is not None:
            (folder / (name + suffix)).write_text(text)
    return folder / name


def sample(rng: np.random.Generator, **more) -> RankingData:
    features = np.round(rng.normal(size=(120, 6)), 3).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = 0
    features[rng.random(features.shape) < 0.1] = np.nan
    features[:, 5] = 0  # a last column that a sparse file would lose
    return RankingData.from_arrays(features, rng.integers(0, 4, 120), qid=np.arange(120) // 7, **more)


def columns_in_lightgbm(source, folder, **more) -> list[str]:
    """The bins of all rows as LightGBM sees them."""
    dataset = lightgbm.Dataset(source, params=BINS, **more).construct()
    dataset._dump_text(folder / "dump.txt")
    return (folder / "dump.txt").read_text().splitlines()


@pytest.mark.parametrize("weighted", [False, True])
def test_lightgbm_loads_what_is_written(tmp_path, rng, weighted):
    data = sample(rng, sample_weight=rng.integers(1, 5, 120) / 2 if weighted else None)
    write_lightgbm(data, tmp_path / "rank.train")
    dataset = lightgbm.Dataset(str(tmp_path / "rank.train"), params=BINS).construct()
    np.testing.assert_array_equal(dataset.get_label(), data.y)
    np.testing.assert_array_equal(dataset.get_group(), data.group)
    assert (dataset.num_data(), dataset.num_feature()) == data.X.shape
    if weighted:
        np.testing.assert_array_equal(dataset.get_weight(), data.sample_weight)
    else:
        assert dataset.get_weight() is None


def test_the_columns_in_lightgbm_hold_the_same_values(tmp_path, rng):
    data = sample(rng)
    write_lightgbm(data, tmp_path / "rank.train")
    ours = columns_in_lightgbm(np.array(data.X, np.float64), tmp_path, label=data.y, group=data.group)
    assert columns_in_lightgbm(str(tmp_path / "rank.train"), tmp_path) == ours


def test_a_model_scores_the_written_file_as_it_scores_the_array(tmp_path, rng):
    data = sample(rng)
    write_lightgbm(data, tmp_path / "rank.train")
    dataset = lightgbm.Dataset(np.array(data.X, np.float64), data.y, group=data.group, params=BINS)
    model = lightgbm.train({**BINS, "objective": "lambdarank", "num_threads": 1}, dataset, num_boost_round=5)
    np.testing.assert_array_equal(model.predict(str(tmp_path / "rank.train")), model.predict(data.X))


def test_lightgbm_counts_features_from_0(tmp_path):
    path = written(tmp_path, "".join(f"{row % 2} 2:{row}\n" for row in range(30)), "30\n")
    dataset = lightgbm.Dataset(str(path), params=BINS).construct()
    assert dataset.num_feature() == 3
    data = read_lightgbm(path)
    np.testing.assert_array_equal(data.X, np.stack([np.zeros(30), np.zeros(30), np.arange(30)], axis=1))
    assert read_lightgbm(path, zero_based=False).n_features == 2


@pytest.mark.parametrize("name", ["rank.train", "rank.train.xz", "rank.train.gz"])
def test_a_round_trip_keeps_rows_groups_and_weights(tmp_path, rng, name):
    data = sample(rng, sample_weight=rng.random(120))
    write_lightgbm(data, tmp_path / name)
    again = read_lightgbm(tmp_path / name)
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.y, data.y)
    np.testing.assert_array_equal(again.offsets, data.offsets)
    np.testing.assert_array_equal(again.sample_weight, data.sample_weight)
    assert {path.name for path in tmp_path.iterdir()} == {name, "rank.train.query", "rank.train.weight"}


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("header", [None, ["rel", "bm25", "len"]])
def test_tables_with_the_label_first_are_read(tmp_path, delimiter, header):
    rows = [["1", "0.5", ""], ["0", "nan", "3"], ["2", "1e-3", "4"]]
    content = "".join(delimiter.join(row) + "\n" for row in ([header] if header else []) + rows)
    data = read_lightgbm(written(tmp_path, content, "1\n2\n", "1\n1\n0.5\n"))
    np.testing.assert_array_equal(data.X, np.array([[0.5, np.nan], [np.nan, 3], [1e-3, 4]], np.float32))
    assert data.y.tolist() == [1, 0, 2]
    assert data.group.tolist() == [1, 2]
    assert data.sample_weight.tolist() == [1, 1, 0.5]
    assert data.feature_names == (None if header is None else ("bm25", "len"))


def test_lightgbm_reads_the_same_table(tmp_path, rng):
    values = np.round(rng.normal(size=(40, 3)), 2)
    lines = [",".join(map(str, [row % 3, *values[row].tolist()])) for row in range(40)]
    path = written(tmp_path, "\n".join(lines) + "\n", "15\n25\n", name="t.csv")
    data = read_lightgbm(path)
    ours = columns_in_lightgbm(np.array(data.X, np.float64), tmp_path, label=data.y, group=data.group)
    assert columns_in_lightgbm(str(path), tmp_path) == ours


@pytest.mark.parametrize(
    ("content", "query", "weight", "message"),
    [
        ("1,2\n", None, None, r"rank\.train: there is no .*rank\.train\.query next to it"),
        ("1,2\n", "x\n", None, r"rank\.train\.query, line 1: expected one finite number, found 'x'"),
        ("1,2\n", "1\n0\n", None, r"rank\.train\.query, line 2: expected the number of rows of a query.* found 0"),
        ("1,2\n", "1.5\n", None, "found 1.5"),
        ("1,2\n", "-1\n", None, "found -1"),
        ("1,2\n1,3\n", "3\n", None, r"rank\.train: does not fit .*query: group sizes add up to 3, X has 2 rows"),
        ("1,2\n", "1\n", "1\n2\n", r"rank\.train\.weight: has 2 weights, .*rank\.train has 1 row"),
        ("1,2\n", "1\n", "-1\n", r"rank\.train\.weight, line 1: expected a weight, 0 or more"),
        ("1,2\n-1,3\n", "2\n", None, "line 2: the label must be 0 or larger; found -1"),
        ("1,2\n1,x\n", "2\n", None, "line 2: column 'column 2': expected a finite number or an empty cell, found 'x'"),
        ("1,2\n1\n", "2\n", None, "line 2: expected 2 columns, found 1"),
        ("a,b,b\n1,2,3\n", "1\n", None, "column names must differ"),
        ("a,b\n", "1\n", None, "X has 0 rows"),
        ("1 0:2\n1 0:3\n", "3\n", None, r"rank\.train: does not fit .*query: .* add up to 3, X has 2 rows"),
    ],
)
def test_bad_files_are_refused_by_name_and_line(tmp_path, content, query, weight, message):
    with pytest.raises(FormatError, match=message):
        read_lightgbm(written(tmp_path, content, query, weight))


@pytest.mark.parametrize("content", ["1 0:0.5\n0 qid:3 0:1\n", "1 0:0.5\n", "1 0:x\n0 0:1\n", ""])
def test_bad_svm_light_text_is_refused(tmp_path, content):
    with pytest.raises(ValueError, match=r"rank\.train"):
        read_lightgbm(written(tmp_path, content, "2\n"))


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_text_with_query_ids_is_sent_to_the_right_reader(tmp_path, separator):
    path = written(tmp_path, f"\n2{separator}qid:1{separator}1:0.5\n", "1\n")
    with pytest.raises(FormatError, match=r'its rows have a qid, .* Read it with format="letor"'):
        read_data(path)
    assert read_data(path, format="letor").n_rows == 1


def test_an_old_weight_file_does_not_survive_data_without_weights(tmp_path, rng):
    write_lightgbm(sample(rng, sample_weight=np.ones(120)), tmp_path / "rank.train")
    write_lightgbm(sample(rng), tmp_path / "rank.train")
    assert {path.name for path in tmp_path.iterdir()} == {"rank.train", "rank.train.query"}


@pytest.mark.parametrize("failing", ["_write_rows", "feature_lines", "number_text"])
def test_a_failure_leaves_the_old_files(tmp_path, rng, monkeypatch, failing):
    write_lightgbm(sample(rng, sample_weight=np.ones(120)), tmp_path / "rank.train")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(layout, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        write_lightgbm(sample(rng), tmp_path / "rank.train")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_name_that_cannot_be_taken_leaves_the_old_files(tmp_path, rng):
    write_lightgbm(sample(rng), tmp_path / "rank.train")
    before = (tmp_path / "rank.train").read_bytes()
    (tmp_path / "rank.train.query").unlink()
    (tmp_path / "rank.train.query").mkdir()
    with pytest.raises(IsADirectoryError):
        write_lightgbm(RankingData.from_arrays([[1.0]], [1], qid=[1]), tmp_path / "rank.train")
    assert (tmp_path / "rank.train").read_bytes() == before


def test_what_trains_differently_is_not_dropped_in_silence(tmp_path, rng):
    with pytest.warns(UserWarning, match="rank.train: LightGBM's files have no place for query_weight, feature_names"):
        write_lightgbm(sample(rng, query_weight=np.ones(18), feature_names=list("abcdef")), tmp_path / "rank.train")
    assert read_lightgbm(tmp_path / "rank.train").n_queries == 18


def test_empty_data_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="LightGBM reads no empty data; got 0 rows"):
        write_lightgbm(RankingData.from_arrays(np.empty((0, 2)), [], qid=[]), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_the_real_example_is_read_as_lightgbm_reads_it(tmp_path, real_data):
    source = real_data / "lightgbm-lambdarank"
    data = read_lightgbm(source / "rank.train.xz")
    assert (data.n_rows, data.n_queries, data.n_features) == (3005, 201, 301)
    assert not data.X[:, 0].any()
    (tmp_path / "rank.train").write_bytes(lzma.decompress((source / "rank.train.xz").read_bytes()))
    (tmp_path / "rank.train.query").write_bytes((source / "rank.train.query").read_bytes())
    dataset = lightgbm.Dataset(str(tmp_path / "rank.train"), params=BINS).construct()
    np.testing.assert_array_equal(dataset.get_label(), data.y)
    np.testing.assert_array_equal(dataset.get_group(), data.group)
    assert dataset.num_feature() == data.n_features
    write_lightgbm(data, tmp_path / "again")
    model = lightgbm.train({**BINS, "objective": "lambdarank", "num_threads": 1}, dataset, num_boost_round=3)
    scores = model.predict(str(tmp_path / "rank.train"))
    np.testing.assert_array_equal(model.predict(str(tmp_path / "again")), scores)
    np.testing.assert_allclose(model.predict(data.X), scores, rtol=1e-12)
    write_scores(scores, tmp_path / "scores")


def test_scores_to_start_from_are_read_and_written_beside_the_rows(tmp_path, rng):
    """LightGBM adds `.init` while it trains; here the model is that of `init=scores`, and scores have no part of it."""
    X, y, qid = rng.random((60, 3)), rng.integers(0, 3, 60), np.arange(60) // 6
    start = rng.standard_normal(60)
    data = RankingData.from_arrays(X, y, qid, init_score=start)
    write_data(data, tmp_path / "rank", format="lightgbm")
    assert list(map(float, (tmp_path / "rank.init").read_text().split())) == start.tolist()
    again = read_data(tmp_path / "rank")
    np.testing.assert_array_equal(again.init_score, start)
    few = {"n_estimators": 4, "min_samples_leaf": 3}
    by_file = podium.MART(**few).fit(again, eval_set=again)
    by_scores = podium.MART(init=start, **few).fit(X, y, qid)
    np.testing.assert_array_equal(by_file.predict(X), by_scores.predict(X))
    value = podium.evaluate(by_file.predict(X) + start, again, metrics=["ndcg@10"])["ndcg@10"]
    assert by_file.evals_["eval_0"]["ndcg@10"][-1] == pytest.approx(value, abs=1e-12)
    write_data(again, tmp_path / "t.podium-data")
    np.testing.assert_array_equal(read_data(tmp_path / "t.podium-data").init_score, start)
    part = again.subset([3, 1])
    np.testing.assert_array_equal(part.init_score, np.concatenate([start[18:24], start[6:12]]))
    np.testing.assert_array_equal(RankingData.concat([again.subset([0]), part]).init_score[6:], part.init_score)
    write_data(replace(again, init_score=None), tmp_path / "rank", format="lightgbm")
    assert not (tmp_path / "rank.init").exists()


def test_scores_to_start_from_that_would_be_ignored_are_refused(tmp_path, rng):
    data = RankingData.from_arrays(rng.random((6, 2)), [0, 1, 2] * 2, [1] * 3 + [2] * 3, init_score=np.arange(6))
    with pytest.raises(ValueError, match="RankSVM does not start from scores, and the data has an init_score"):
        podium.RankSVM().fit(data)
    with pytest.raises(ValueError, match="MART has an init, and the data an init_score"):
        podium.MART(init=np.zeros(6)).fit(data)
    with pytest.raises(ValueError, match="part 2 has no init_score, and others have"):
        RankingData.concat([data.subset([0]), replace(data, init_score=None).subset([1])])
    with pytest.warns(UserWarning, match="only some of the training and evaluation data have an init_score"):
        podium.MART(n_estimators=1, min_samples_leaf=1).fit(data, eval_set=replace(data, init_score=None))
    write_data(data, tmp_path / "rank", format="lightgbm")
    (tmp_path / "rank.init").write_text("1\n")
    with pytest.raises(FormatError, match=r"rank.init: has 1 scores, .* has 6 rows"):
        read_data(tmp_path / "rank")
    (tmp_path / "rank.init").write_text("1\t2\n" * 6)
    with pytest.raises(FormatError, match="line 1: expected one finite number"):
        read_data(tmp_path / "rank")
