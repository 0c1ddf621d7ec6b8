"""From any format to any other: the format is chosen by name, and nothing that both can hold is lost."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from podium.data.ranking import RankingData
from podium.formats import format_of, formats, read_data, write_data

NAMES = {
    "letor": "x.txt",
    "csv": "x.csv.gz",
    "tsv": "x.tsv",
    "parquet": "x.parquet",
    "lightgbm": "x.train",
    "cache": "x.podium-data",
}
every_format = pytest.mark.parametrize("name", NAMES)


def sample() -> RankingData:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(30, 4)).astype(np.float32)
    features[3, 2] = np.nan
    return RankingData.from_arrays(
        features,
        rng.integers(0, 4, 30),
        qid=np.repeat([7, 3, 12], 10),
        docids=[f"d{row}" for row in range(30)],
        feature_names=["a", "b", "c", "d"],
        sample_weight=rng.random(30),
        query_weight=[1, 2, 0.5],
    )


def write_quietly(data: RankingData, path, name: str) -> None:
    """Write without the warning about what the format has no place for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        write_data(data, path, format=name)


def assert_kept(data: RankingData, again: RankingData, dropped: list[str]) -> None:
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.y, data.y)
    np.testing.assert_array_equal(again.offsets, data.offsets)
    for name in ("query_ids", "docids", "feature_names", "sample_weight", "query_weight"):
        if name not in dropped and getattr(data, name) is not None:
            np.testing.assert_array_equal(getattr(again, name), getattr(data, name), err_msg=name)


@every_format
@pytest.mark.parametrize("other", NAMES)
def test_data_goes_from_every_format_to_every_other(tmp_path, name, other):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    write_quietly(sample(), tmp_path / "one" / NAMES[name], name)
    first = read_data(tmp_path / "one" / NAMES[name])
    assert_kept(sample(), first, format_of("", name).drops(sample()))
    write_quietly(first, tmp_path / "two" / NAMES[other], other)
    second = read_data(tmp_path / "two" / NAMES[other])
    assert_kept(first, second, format_of("", other).drops(first))


@every_format
def test_what_a_format_drops_is_really_gone(tmp_path, name):
    write_quietly(sample(), tmp_path / NAMES[name], name)
    again = read_data(tmp_path / NAMES[name])
    for dropped in format_of("", name).drops(sample()):
        if dropped == "query_ids":
            assert again.query_ids.tolist() == [0, 1, 2]
        else:
            assert getattr(again, dropped) is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("train.txt", "letor"),
        ("train", "letor"),
        ("train.letor.xz", "letor"),
        ("t.csv", "csv"),
        ("t.CSV.gz", "csv"),
        ("t.tsv.zst", "tsv"),
        ("t.parquet", "parquet"),
        ("t.podium-data", "cache"),
    ],
)
def test_the_name_of_a_file_says_its_format(tmp_path, path, name):
    assert format_of(tmp_path / path).name == name
    assert format_of(tmp_path / path, reading=False).name == name


@pytest.mark.parametrize("path", ["rank.train", "rank.train.xz", "t.csv", "t.tsv"])
def test_a_query_file_beside_means_lightgbm(tmp_path, path):
    (tmp_path / path.removesuffix(".xz")).with_name(path.removesuffix(".xz") + ".query").write_text("1\n")
    assert format_of(tmp_path / path).name == "lightgbm"
    if not path.startswith("rank"):
        assert format_of(tmp_path / path, reading=False).name != "lightgbm"


@pytest.mark.parametrize("path", ["t.parqet", "t.podium-dat", "t.foo", "t.train", "t.csv.zip", "t.foo.gz", "t.json"])
def test_a_suffix_that_no_format_has_is_refused_when_writing(tmp_path, path):
    with pytest.raises(ValueError, match=rf"{path}: no format has names that end in .*--to in podium convert"):
        write_data(sample(), tmp_path / path)
    assert list(tmp_path.iterdir()) == []
    write_quietly(sample(), tmp_path / path, "letor")
    assert read_data(tmp_path / path).n_rows == 30


def test_an_unknown_format_is_named_with_the_nearest_one(tmp_path):
    with pytest.raises(ValueError, match=r"got 'parket'\. Did you mean 'parquet'"):
        read_data(tmp_path / "x", format="parket")
    with pytest.raises(ValueError, match="format must be one of letor, csv, tsv, parquet, lightgbm, cache"):
        write_data(sample(), tmp_path / "x", format="zip")


@every_format
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises((OSError, ValueError), match="missing"):
        read_data(tmp_path / "missing", format=name)


def test_the_list_of_formats_is_complete():
    listed = {item.name: item for item in formats()}
    assert set(listed) == set(NAMES) | {"letor-comments"}  # which is only read
    assert listed["cache"].suffixes == (".podium-data",)
    assert listed["cache"].drops(sample()) == []
    assert listed["lightgbm"].drops(sample()) == ["query_ids", "docids", "feature_names", "query_weight"]
    assert all(item.about for item in formats())


def test_options_reach_the_reader(tmp_path):
    write_data(sample(), tmp_path / "x.csv")
    assert read_data(tmp_path / "x.csv", features=["b"]).n_features == 1
    with pytest.raises(TypeError, match="colour"):
        read_data(tmp_path / "x.csv", colour="red")


def test_importing_the_formats_is_cheap():
    code = "import sys, podium.formats; print([name for name in ('numpy', 'numba', 'narwhals') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_real_data_survives_every_format(tmp_path, real_data):
    data = read_data(real_data / "MQ2008" / "S1.txt.xz")
    assert (data.n_rows, data.n_queries, data.n_features) == (2933, 157, 46)
    for name, path in NAMES.items():
        write_data(data, tmp_path / path, format=name)
        assert_kept(data, read_data(tmp_path / path), format_of("", name).drops(data))
