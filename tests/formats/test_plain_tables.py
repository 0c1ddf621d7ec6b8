"""Plain tables, read by kernels, are read as the reader of all tables reads them, faults and warnings included."""

import csv
import gzip
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import nearest_float32

from podium.formats import lines
from podium.formats.tables import plain, read_table, records


@pytest.fixture(autouse=True)
def tables_of_any_size_in_blocks_of_a_few_rows(monkeypatch):
    monkeypatch.setattr(plain, "_FEWEST_BYTES", 0)
    for module, name, size in ((plain, "_BLOCK_BYTES", 64), (lines, "_BLOCK_BYTES", 64), (records, "CELLS_AT_ONCE", 8)):
        monkeypatch.setattr(module, name, size)


def outcome(path, **options):
    """What a table has, or what is said of it; and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            data = read_table(path, **options)
        except ValueError as error:
            return str(error), [str(warning.message) for warning in caught]
    arrays = [data.X.view(np.uint32) & np.where(np.isnan(data.X), np.uint32(0x7FFFFFFF), np.uint32(0xFFFFFFFF))]
    arrays += [data.y, data.qid, data.rows, data.sample_weight, data.query_weight]
    lists = [None if array is None else (array.dtype, array.tolist()) for array in arrays]
    texts = None if data.docid_texts is None else list(data.docid_texts)
    return (lists, texts, data.feature_names, data.categories), [str(warning.message) for warning in caught]


def outcome_of_the_general_reader(path, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_FEWEST_BYTES", 1 << 60)
        return outcome(path, **options)


def is_read_as_plain(path, delimiter=",", features=("a",), categorical=()):
    text = path.read_bytes().decode("utf-8-sig", "replace")
    header = next(row for row in csv.reader(text.splitlines(), delimiter=delimiter, skipinitialspace=True) if row)
    names = {"qid": "qid", "docid": "docid" if "docid" in header else None, "features": list(features)}
    return plain.read_plain(path, delimiter, header, names, ["label"], categorical) is not None


plain_numbers = st.one_of(
    st.integers(0, 9).map(str),
    st.integers(-(10**9), 10**9).map(str),
    st.floats(-1000, 1000).map(lambda number: f"{number:.4f}"),
    st.floats(width=32, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, max_value=1e38, min_value=-1e38).map(repr),
    st.sampled_from(
        ["", "nan", "-NaN", "+nan", "0", "-0", "+1.5", "1.", ".5", "1e5", "2E-3", "-1e-50", " 7", "\t7", "7 "]
    ),
    st.sampled_from(
        ["16777216", "16777217", "1.00000005960464477539062500000001", "0." + "3" * 40, "9" * 30, "1e-400"]
    ),
)
odd_numbers = st.sampled_from(
    ["x", "1_0", "1e", "inf", "1e39", "1,5", "0x1", "--1", ".", "-", "\u0661", "1e400", "na", '"3"']
)
labels = st.one_of(
    st.integers(0, 4).map(str),
    st.sampled_from(["0.5", " 1", "1e0", "-0", "2 ", "0.1000000000000000055511151231257828"]),
)
odd_labels = st.sampled_from(["", "nan", "-1", "inf", "1e400", "x"])
ids = st.sampled_from(["1", "2", "30", "q1", "é", " 4", "5 ", "6"])
odd_ids = st.sampled_from(["", " ", "007", "-3", "9" * 24, str(2**63), '"1"', "a\0b", "1\r2"])
texts = st.sampled_from(["red", "blue", "", " ", "nan", "über", "green tea", " red"])
odd_texts = st.sampled_from(["3", "1,5", '"red, dark"', '"two\nlines"', 're"d', '"open', "\udcff", "x" * 132_000])
KINDS = {
    "number": (plain_numbers, odd_numbers),
    "label": (labels, odd_labels),
    "id": (ids, odd_ids),
    "text": (texts, odd_texts),
}


@st.composite
def tables(draw):
    """A table as bytes, its delimiter and options for reading it: plain, or with one odd thing or another."""
    columns = [("label", "label"), ("qid", "id")]
    columns += draw(
        st.sampled_from([[], [("docid", "text")], [("sample_weight", "label")], [("query_weight", "label")]])
    )
    columns += [
        (name, draw(st.sampled_from(["number", "number", "text"]))) for name in "abc"[: draw(st.integers(1, 3))]
    ]
    columns = draw(st.permutations(columns))
    odd_thing = draw(st.sampled_from([None, None, None, "cell", "width", "text among numbers", "end"]))
    rows = [[draw(KINDS[kind][0]) for _, kind in columns] for _ in range(draw(st.integers(0, 12)))]
    if odd_thing and rows:
        row, column = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, len(columns) - 1))
        if odd_thing == "cell":
            rows[row][column] = draw(KINDS[columns[column][1]][1])
        elif odd_thing == "width":
            rows[row] = rows[row][:-1] if draw(st.booleans()) else [*rows[row], "1"]
        elif odd_thing == "text among numbers":
            rows[row][column] = "red"
    delimiter, newline = draw(st.sampled_from([",", "\t"])), draw(st.sampled_from(["\n", "\r\n"]))
    header = [f'"{name}"' if draw(st.integers(0, 9)) == 0 else name for name, _ in columns]
    written = [delimiter.join(cells) + newline * draw(st.sampled_from([1, 1, 1, 2])) for cells in [header, *rows]]
    content = "".join(written).removesuffix(draw(st.sampled_from(["", newline])))
    content += draw(st.sampled_from(["\r", "\n\r", " ", "\n,\n"])) if odd_thing == "end" else ""
    options = draw(st.sampled_from([{}, {}, {"label": None}, {"categorical": ["a"]}, {"qid": "a"}, {"docid": "qid"}]))
    content = draw(st.sampled_from(["", "", "\ufeff", "\n"])) + content
    return content.encode("utf-8", "surrogateescape"), delimiter, options


@settings(max_examples=400, deadline=None)
@given(tables(), st.booleans())
def test_a_table_is_read_as_the_general_reader_reads_it(tmp_path_factory, table, compressed):
    content, delimiter, options = table
    path = tmp_path_factory.mktemp("plain") / ("t.csv" if delimiter == "," else "t.tsv")
    path = path.with_name(path.name + ".gz") if compressed else path
    path.write_bytes(gzip.compress(content) if compressed else content)
    assert outcome(path, **options) == outcome_of_the_general_reader(path, **options)


@st.composite
def numbers_near_a_middle(draw):
    """A number halfway between two float32, or a little off, with 8 to 26 decimals."""
    middle = Decimal((2 * draw(st.integers(2**23, 2**24 - 1)) + 1) * 2.0 ** draw(st.integers(-34, -3)))
    number = middle + draw(st.integers(-3, 3)) * Decimal(10) ** -draw(st.integers(8, 26))
    return f"{number:.{draw(st.integers(8, 26))}f}"


decimal_texts = st.from_regex(r"-?[0-9]{1,9}\.[0-9]{0,26}", fullmatch=True)


@given(st.lists(st.one_of(numbers_near_a_middle(), st.floats(-1e30, 1e30).map(repr), decimal_texts)))
def test_numbers_are_the_nearest_float32(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("numbers") / "t.csv"
    path.write_text("label,qid,a\n0,1,0.5\n" + "".join(f"1,1,{number}\n" for number in numbers))
    assert is_read_as_plain(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = read_table(path).X
    assert X[:, 0].tolist() == [0.5, *map(nearest_float32, numbers)]


PLAIN = {
    "numbers": "label,qid,a\n1,7,0.5\n0,7,-3\n",
    "returns": "label,qid,a\r\n1,7,0.5\r\n0,7,-3\r\n",
    "no newline at the end": "label,qid,a\n1,7,0.5\n0,7,-3",
    "a byte order mark": "\ufefflabel,qid,a\n1,7,0.5\n",
    "blank lines": "\nlabel,qid,a\n\n1,7,0.5\r\n\r\n0,8,2\n\n",
    "a quoted header": '"label","qid","a"\n1,7,0.5\n',
    "spaces": "label, qid, a\n1, 7, 0.5 \n",
    "missing cells": "label,qid,a\n1,7,\n0,7,nan\n1,7,  \n1,8,-NaN\n",
    "long numbers": "label,qid,a\n1,7,0.1000000000000000055511151231257827\n1e0,7,12345678901234567890\n",
    "names": "label,qid,docid,a\n1,é,d1,red\n0,é,d2,\n0,x,d2,blue\n0,é,d 3,red\n",
    "other columns": "label,qid,b,a\n1,7,anything,0.5\n0,7,,1\n",
}


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_these_tables_are_plain(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode())
    assert is_read_as_plain(path)
    assert outcome(path) == outcome_of_the_general_reader(path)


NOT_PLAIN = {
    "a quote": 'label,qid,a\n1,"7",0.5\n',
    "a cell too many": "label,qid,a\n1,7,0.5,1\n",
    "a cell too few": "label,qid,a\n1,7\n",
    "no number": "label,qid,a\n1,7,0.5\n1,7,x\n",
    "a number among names": "label,qid,a\n1,7,x\n1,7,0.5\n",
    "no query": "label,qid,a\n1,,0.5\n",
    "a label below 0": "label,qid,a\n-1,7,0.5\n",
    "no rows": "label,qid,a\n",
    "a return within a line": "label,qid,a\n1,7,0.5\r1,7,0.5\n",
    "no text": b"label,qid,docid,a\n1,7,\xff,0.5\n",
    "a NUL": "label,qid,docid,a\n1,7,\0,0.5\n",
}


@pytest.mark.parametrize("content", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_these_tables_are_left_to_the_general_reader(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert not is_read_as_plain(path)
    assert outcome(path) == outcome_of_the_general_reader(path)


def test_the_longest_cell_is_that_of_the_csv_module(tmp_path):
    path = tmp_path / "t.csv"
    for length, fits in ((131_072, True), (131_073, False)):
        path.write_text(f"label,qid,docid,a\n1,7,{'x' * length},0.5\n")
        assert is_read_as_plain(path) == fits
        assert outcome(path) == outcome_of_the_general_reader(path)


def test_a_column_of_large_numbers_is_warned_of_in_both_ways(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,qid,a\n" + "".join(f"1,{row // 3},{16777216 + row}\n" for row in range(200)))
    _, messages = outcome(path)
    assert len(messages) == 1
    assert "16777216 and 16777217 become one number" in messages[0]
    assert messages == outcome_of_the_general_reader(path)[1]


def test_a_large_table_with_interleaved_queries_is_as_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "_FEWEST_BYTES", 1 << 18)
    monkeypatch.setattr(plain, "_BLOCK_BYTES", 1 << 16)
    rng = np.random.default_rng(0)
    n = 8_000
    frame = pd.DataFrame(rng.normal(0, 5, (n, 4)).astype(np.float32), columns=list("abcd"))
    frame["e"] = rng.choice(["red", "blue", "ä"], n)
    frame["label"], frame["qid"] = rng.integers(0, 5, n), rng.integers(0, 300, n)
    frame["docid"] = [f"document {number}" for number in rng.permutation(n)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert (tmp_path / "t.csv").stat().st_size > 1 << 18
    data = read_table(tmp_path / "t.csv")
    np.testing.assert_array_equal(data.X[:, :4], frame[list("abcd")].to_numpy())
    assert data.categories == {"e": ("blue", "red", "ä")}
    assert [data.categories["e"][int(place)] for place in data.X[:, 4]] == frame["e"].tolist()
    np.testing.assert_array_equal(data.y, frame["label"])
    np.testing.assert_array_equal(data.qid, frame["qid"])
    assert list(data.docid_texts) == frame["docid"].tolist()


def test_records_and_blocks_of_any_size_give_the_same_table(tmp_path, monkeypatch):
    path = tmp_path / "t.tsv"
    path.write_text("label\tqid\ta\tb\n" + "".join(f"1\t{row // 7}\t{row / 8}\tname {row % 5}\n" for row in range(100)))
    results = []
    for size in (20, 1000, 1 << 20):
        monkeypatch.setattr(plain, "_BLOCK_BYTES", size)
        monkeypatch.setattr(records, "CELLS_AT_ONCE", max(4, size // 10))
        results.append(outcome(path))
    assert results[0] == results[1] == results[2] == outcome_of_the_general_reader(path)
