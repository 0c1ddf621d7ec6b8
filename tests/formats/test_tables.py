"""Tables in files: exact round trips, and errors that name the line and the column."""

import gzip
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import nearest_float32

from podium.data.ranking import RankingData
from podium.formats import lines
from podium.formats.errors import FormatError
from podium.formats.tables import feature_lines, read_table, write_table

KINDS = ("csv", "tsv", "csv.gz", "tsv.zst", "parquet")


def written(folder, content: str | bytes, name: str = "t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def sample() -> RankingData:
    return RankingData.from_arrays(
        np.array([[1, np.nan], [-0.0, 1e-45], [3.4028235e38, 0.1], [5, 16777217]], dtype=np.float32),
        [0, 1.5, 2, 3e-300],
        qid=["q,1", 'q"2', 'q"2', " q3"],
        docids=["d1", "", "é\r\nline", " #\t;"],
        feature_names=["bm25", 'with, "comma"'],
        sample_weight=[1, 2, 0.1, 4],
        query_weight=[1, 0.25, 1 / 3],
    )


def assert_same(left: RankingData, right: RankingData) -> None:
    for name in ("y", "qid", "offsets", "sample_weight", "query_weight"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    number = ~np.isnan(left.X)
    np.testing.assert_array_equal(left.X, right.X)
    np.testing.assert_array_equal(np.signbit(left.X[number]), np.signbit(right.X[number]))
    assert left.docid_texts == right.docid_texts
    assert left.feature_names == right.feature_names


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_keeps_everything(tmp_path, kind):
    write_table(sample(), tmp_path / f"t.{kind}")
    assert_same(sample(), read_table(tmp_path / f"t.{kind}"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ids", [[2**64 - 1, 2**64 - 2], [-7, 2**53 + 1], ["007", "7"], ["1", "x"]])
def test_query_ids_never_merge(tmp_path, kind, ids):
    data = RankingData.from_arrays(np.eye(2), [1, 0], qid=ids)
    write_table(data, tmp_path / f"t.{kind}")
    again = read_table(tmp_path / f"t.{kind}").query_ids
    assert again.tolist() == ids
    assert again.dtype == data.query_ids.dtype


def test_query_ids_that_are_all_written_as_whole_numbers_become_numbers(tmp_path):
    assert read_table(written(tmp_path, "label,qid,a\n1,7,0\n1,8,0\n")).query_ids.tolist() == [7, 8]
    big = "9" * 30
    assert read_table(written(tmp_path, f"label,qid,a\n1,7,0\n1,{big},0\n")).query_ids.tolist() == ["7", big]


texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=6)
floats32 = st.floats(width=32, allow_infinity=False)


@given(
    matrix=arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=floats32),
    names=st.lists(texts, min_size=4, max_size=4),
    kind=st.sampled_from(["csv", "tsv"]),
)
def test_any_text_and_any_float_survive(tmp_path_factory, matrix, names, kind):
    n = len(matrix)
    data = RankingData.from_arrays(matrix, np.arange(n) / 3, qid=[f"q{name}" for name in names[:n]], docids=names[:n])
    path = tmp_path_factory.mktemp("tables") / f"t.{kind}"
    write_table(data, path)
    again = read_table(path)
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.y, data.y)
    assert again.qid.tolist() == data.qid.tolist()
    assert again.docids.tolist() == data.docids.tolist()


@given(matrix=arrays(np.float32, st.tuples(st.integers(1, 40), st.integers(1, 12)), elements=floats32))
def test_numbers_are_written_as_the_shortest_text_that_reads_back(matrix):
    lines = [line for chunk in feature_lines(matrix, ",") for line in chunk]
    expected = [[float(np.format_float_scientific(value, unique=True)) for value in row] for row in matrix]
    found = [list(map(float, line.split(b","))) for line in lines]
    np.testing.assert_array_equal(np.array(found), np.array(expected))
    np.testing.assert_array_equal(np.array(found).astype(np.float32), matrix)


def test_features_can_be_numbered():
    lines = [
        line for chunk in feature_lines(np.array([[1, 0.5, np.nan]], np.float32), " ", numbered=True) for line in chunk
    ]
    assert lines == [b"0:1 1:0.5 2:nan"]


def test_pandas_reads_what_is_written(tmp_path):
    write_table(sample(), tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv", keep_default_na=False, na_values=["nan"])
    assert frame["bm25"].astype(np.float32).tolist() == sample().X[:, 0].tolist()
    assert frame["docid"].tolist() == ["d1", "", "é\r\nline", " #\t;"]


def test_pandas_tables_are_read(tmp_path):
    frame = pd.DataFrame({"label": [1, 0], "qid": ["a", "b"], "x": [0.1, None], "n": [2**31, 3]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for kind in ("csv", "parquet"):
        data = read_table(tmp_path / f"t.{kind}")
        np.testing.assert_array_equal(data.X, np.array([[0.1, 2**31], [np.nan, 3]], dtype=np.float32))
        assert data.feature_names == ("x", "n")


def test_quotes_crlf_a_byte_order_mark_blank_lines_and_blanks_are_fine(tmp_path):
    content = b'\xef\xbb\xbf"label", "qid",docid,"a, b", c\r\n\r\n2, 7,"x ""y"",\r\nz", 0.5 ,\r\n0,7,p,nan, 1e3\r\n\r\n'
    data = read_table(written(tmp_path, content))
    assert data.feature_names == ("a, b", "c")
    np.testing.assert_array_equal(data.X, np.array([[0.5, np.nan], [np.nan, 1000]], dtype=np.float32))
    assert data.docids.tolist() == ['x "y",\r\nz', "p"]
    assert data.qid.tolist() == [7, 7]


def test_columns_can_be_named(tmp_path):
    content = "rel\tquery\turl\tw\tv\ta\tb\n1\tq\tu1\t2\t3\t0\t5\n0\tq\tu2\t1\t3\t1\t6\n"
    data = read_table(
        written(tmp_path, content, "t.tsv"),
        **{"label": "rel", "qid": "query", "docid": "url", "sample_weight": "w", "query_weight": "v"},
        features=["b"],
    )
    assert data.X.tolist() == [[5], [6]]
    assert data.docids.tolist() == ["u1", "u2"]
    assert data.sample_weight.tolist() == [2, 1]
    assert data.query_weight.tolist() == [3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("label,qid,bm25\n1,1,0.5\n1,1,abc\n", r"t\.csv, line 3: column 'bm25': expected a finite number .* 'abc'"),
        ("label,qid,bm25\n1,1,inf\n", "line 2: column 'bm25'"),
        ("label,qid,bm25\n1,1,1e39\n", "line 2: column 'bm25'.*'1e39'"),
        ("label,qid,bm25\n1,1,1_0\n", "'1_0'"),
        ("label,qid,bm25\n1,1,\u0661\n", "column 'bm25'"),
        ('label,qid,bm25\n1,1,"0,5"\n', "'0,5'"),
        ("label,qid,bm25\n,1,1\n", "line 2: column 'label': expected a finite number, found ''"),
        ("label,qid,bm25\nnan,1,1\n", "column 'label'.*'nan'"),
        ("label,qid,bm25\n-1,1,1\n", "line 2: column 'label': expected 0 or larger, found -1"),
        ("label,qid,bm25\n1,,1\n", "line 2: column 'qid' is empty"),
        ("label,qid,bm25\n1,1,1,1\n", "line 2: expected 3 columns, found 4"),
        ("label,qid,bm25\n1,1\n", "line 2: expected 3 columns, found 2"),
        ('label,qid,docid,a\n1,1,"x\ny",1\n1,1,z,q\n', "line 4: column 'a'"),
        ('label,qid,bm25\n1,1,"1', "line 2: cannot be read as a table: unexpected end of data"),
        ('label,qid,bm25\n1,1,"1"2\n', "line 2: cannot be read as a table"),
        ("label,qid,bm25\r1,1,1\r", "line 1: cannot be read as a table"),
        ("labl,qid,bm25\n1,1,1\n", "no column 'label'; found: labl, qid, bm25. Did you mean 'labl'"),
        ("label,qid,a,a\n1,1,1,1\n", "line 1: column names must differ"),
        ("label,qid\n1,1\n", "no feature column"),
        ("label,qid,bm25\n", "no rows below the header"),
        ("", "is empty; expected a header line"),
        ("label,qid,query_weight,a\n1,1,2,0\n1,1,3,0\n", "query '1' has 2.0 and 3.0"),
        (b"label,qid,a\n1,1,1\n1,\xfc,1\n", "line 3: byte 0xfc is no UTF-8 text"),
        ("label,qid,a\n1,1,1\n".encode("utf-16"), "is it UTF-16 or binary"),
        (b"label,qid,a\n1,\x00,1\n", "line 2: not plain text"),
        ("label,qid,docid,a\n1,1," + "x" * 200_000 + ",1\n", "line 2: .*field limit"),
    ],
)
def test_a_bad_table_is_refused_by_line_and_column(tmp_path, content, message):
    with pytest.raises(FormatError, match=message):
        read_table(written(tmp_path, content))


def test_lines_are_numbered_right_in_later_blocks_and_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 20)
    monkeypatch.setattr("podium.formats.tables.records.CELLS_AT_ONCE", 6)
    rows = [f"1,{row // 3},{row}" for row in range(30)]
    path = written(tmp_path, "\n".join(["label,qid,a", *rows]))
    np.testing.assert_array_equal(read_table(path).X[:, 0], np.arange(30))
    rows[20] = "1,1,?"
    with pytest.raises(FormatError, match=r"line 22: column 'a'.*'\?'"):
        read_table(written(tmp_path, "\n".join(["label,qid,a", *rows])))


def test_missing_cells_are_read_the_same_with_and_without_odd_ones(tmp_path):
    plain = read_table(written(tmp_path, "label,qid,a,b\n1,1,,2\n1,1,nan,3\n"))
    odd = read_table(written(tmp_path, "label,qid,a,b\n1,1,  ,2\n1,1,NaN,\t3 \n"))
    np.testing.assert_array_equal(plain.X, odd.X)


@pytest.mark.parametrize("content", [b"PAR1 this is no parquet", b"", b"PAR1" + bytes(100) + b"\x10\0\0\0PAR1"])
def test_a_damaged_parquet_file_is_refused_by_name(tmp_path, content):
    with pytest.raises(FormatError, match=r"t\.parquet: cannot be read as Parquet"):
        read_table(written(tmp_path, content, "t.parquet"))


def test_a_parquet_file_without_the_columns_is_refused_by_name(tmp_path):
    pd.DataFrame({"label": [1], "a": [1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(FormatError, match=r"t\.parquet: there is no column 'qid'"):
        read_table(tmp_path / "t.parquet")


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (lambda: write_table(sample(), tmp_path / "t.parquet"), lambda: read_table(tmp_path / "t.parquet")):
        with pytest.raises(ImportError, match=r'pip install "podium\[arrow\]"'):
            call()
    assert not list(tmp_path.iterdir())


def test_the_kind_comes_from_the_name_or_is_given(tmp_path):
    write_table(sample(), tmp_path / "t.txt", kind="tsv")
    assert_same(sample(), read_table(tmp_path / "t.txt", kind="tsv"))
    with pytest.raises(ValueError, match=r"ends in \.csv, \.tsv or \.parquet"):
        read_table(tmp_path / "t.txt")
    with pytest.raises(ValueError, match=r"got 'parket'.* Did you mean 'parquet'"):
        write_table(sample(), tmp_path / "t", kind="parket")


def test_what_a_text_table_cannot_hold_is_not_written(tmp_path):
    for docid in ("a\0b", b"\xff".decode("utf-8", "surrogateescape")):
        data = RankingData.from_arrays([[1.0]], [1], qid=[1], docids=[docid])
        with pytest.raises(ValueError, match="hold"):
            write_table(data, tmp_path / "t.csv")
    with pytest.raises(ValueError, match="no features"):
        write_table(RankingData.from_arrays(np.empty((1, 0)), [1], qid=[1]), tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())


def test_equal_data_gives_equal_compressed_bytes(tmp_path):
    for name in ("one.csv.gz", "two.csv.gz"):
        write_table(sample(), tmp_path / name)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.csv.gz").read_bytes()).startswith(b"label,qid,docid,sample_weight,")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_cells_are_the_float32_nearest_to_their_texts(tmp_path, name):
    texts = ["1.00000005960464477539062500000000001", "1.0000000596046447753906249999999", "0.1", "", "16777217"]
    texts += ["340282356779733661637539395458142568447.9", "-7.0064923216240853e-46", " 16777219 ", "1e-400"]
    separator = "," if name.endswith("csv") else "\t"
    header, row = ["label", "qid", *(f"f{i}" for i in range(len(texts)))], ["1", "1", *texts]
    data = read_table(written(tmp_path, separator.join(header) + "\n" + separator.join(row) + "\n", name))
    wanted = [nearest_float32(text.strip()) if text else np.nan for text in texts]
    assert np.array_equal(data.X[0], np.array(wanted, dtype=np.float32), equal_nan=True)


def test_every_flipped_byte_of_a_parquet_file_is_an_error_or_changes_nothing(tmp_path, rng):
    path = tmp_path / "t.parquet"
    data = RankingData.from_arrays(
        np.array([[1, np.nan], [-0.0, 1e-45], [3, 0.1]], np.float32),
        [0, 1.5, 2],
        qid=["q1", "q2", "q2"],
        feature_names=["bm25", "length"],
    )
    write_table(data, path)
    good, wrong = path.read_bytes(), 0
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            found = read_table(path)
        except FormatError as error:
            assert "t.parquet" in str(error)  # noqa: PT017 (most are errors, and some change nothing)
            wrong += 1
            continue
        assert_same(found, data)
        assert found.feature_names == data.feature_names
    assert wrong > len(good) / 2


def test_a_parquet_file_is_one_for_other_tools_and_stays_one_when_they_write_it(tmp_path):
    import polars as pl
    from pyarrow import parquet

    data = sample()
    write_table(data, tmp_path / "t.parquet")
    assert parquet.ParquetFile(tmp_path / "t.parquet").metadata.num_rows == data.n_rows
    assert pd.read_parquet(tmp_path / "t.parquet")["bm25"].tolist()[3] == 5
    assert pl.read_parquet(tmp_path / "t.parquet")["bm25"].to_list()[3] == 5
    table = parquet.read_table(tmp_path / "t.parquet")
    parquet.write_table(table.slice(0, 2), tmp_path / "less.parquet")
    assert read_table(tmp_path / "less.parquet").n_rows == 2


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2", "zst"])
def test_a_compressed_parquet_file_is_read(tmp_path, suffix):
    write_table(sample(), tmp_path / f"t.parquet.{suffix}")
    assert_same(read_table(tmp_path / f"t.parquet.{suffix}"), sample())


def test_a_parquet_file_may_hold_both_zeros_and_any_nan(tmp_path):
    odd = np.array([0x7FC00001, 0xFFC00000, 0x7FC00000, 0, 0x80000000], np.uint32).view(np.float32)
    data = RankingData.from_arrays(np.tile(odd, 3)[:, None], np.zeros(15), qid=np.zeros(15, int))
    write_table(data, tmp_path / "t.parquet")
    assert np.array_equal(read_table(tmp_path / "t.parquet").X, data.X, equal_nan=True)
