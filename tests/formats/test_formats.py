"""The table of formats: a row has the reader and the writer, and a user's module adds rows."""

from pathlib import Path

import numpy as np
import pytest

from podium.data.ranking import RankingData
from podium.formats import _FORMATS, read_data, register_format, write_data

DATA = RankingData.from_arrays([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 1, 2], ["a", "a", "b"])


def read_pipes(path):
    rows = [line.split("|") for line in Path(path).read_text().split()]
    return RankingData.from_arrays(
        np.array([row[2:] for row in rows], float), [float(row[0]) for row in rows], [row[1] for row in rows]
    )


def write_pipes(data, path):
    with open(path, "w") as stream:
        for label, name, row in zip(data.y, ["a", "a", "b"], data.X):
            stream.write("|".join(map(str, [label, name, *row])) + "\n")


@pytest.fixture
def registered():
    register_format("pipes", suffixes=[".pipes"], reader=read_pipes, writer=write_pipes, keeps=["query_ids"])
    yield
    del _FORMATS["pipes"]


def test_a_registered_format_is_read_and_written_by_its_suffix(registered, tmp_path):
    write_data(DATA, tmp_path / "data.pipes")
    data = read_data(tmp_path / "data.pipes")
    np.testing.assert_array_equal(data.X, DATA.X)
    assert list(data.query_ids) == ["a", "b"]
    assert read_data(tmp_path / "data.pipes", labels="ignored").y is None
    write_data(DATA, tmp_path / "named", format="pipes")
    assert (tmp_path / "named").read_text() == (tmp_path / "data.pipes").read_text()


def test_a_name_and_a_suffix_stand_for_one_format(registered):
    register_format("pipes", suffixes=[".pipes"], reader=read_pipes, writer=write_pipes, keeps=["query_ids"])
    for name in ("pipes", "letor"):
        with pytest.raises(ValueError, match=f"'{name}' is the name of a format already, podium"):
            register_format(name, suffixes=[".other"], reader=read_pipes)
    with pytest.raises(ValueError, match=r"format 'bars': names that end in '.csv' are those of 'csv'"):
        register_format("bars", suffixes=[".csv"], reader=read_pipes)


def test_a_format_without_a_writer_is_only_read(tmp_path):
    register_format("bars", suffixes=[".bars"], reader=read_pipes)
    try:
        with pytest.raises(ValueError, match="format 'bars' has no writer"):
            write_data(DATA, tmp_path / "data.bars")
    finally:
        del _FORMATS["bars"]
