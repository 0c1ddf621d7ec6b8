"""Bodies: what comes in is what `predict` would see, or an error that says where; both ways of reading agree."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.server.errors import Refusal
from podium.server.http.bodies import ARROW, JSON, RAW, read_request


class Rows:
    """What a version says of its rows."""

    def __init__(self, n_features=3, categories=None):
        self.names = tuple(f"f{number}" for number in range(n_features))
        self.n_features, self.categories = n_features, categories or {}


def read(text, n_features=3, kind=JSON, most=100, categories=None):
    return read_request(kind, text if isinstance(text, bytes) else text.encode(), Rows(n_features, categories), most)


def by_python(text):
    """An oracle: Python's json, each number rounded to float32 by itself; None where it is not read."""
    try:
        values = json.loads(text, parse_constant=lambda _: 1 / 0)
        cells = [[math.nan if cell is None else float(cell) for cell in row] for row in values["features"]]
    except (ValueError, TypeError, KeyError, ZeroDivisionError, OverflowError):
        return None
    rows = np.array(cells, np.float64) if cells and all(len(row) == 3 for row in cells) else None
    if rows is None or rows.ndim != 2:
        return None
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    return None if np.isinf(single).any() else single


def same(found, expected):
    """Equal values; -0 is an integer in JSON for some readers, so that its sign is not compared."""
    return np.array_equal(found, expected, equal_nan=True)


def as_read(text):
    try:
        return read(text).rows
    except Refusal:
        return None


NUMBERS = st.one_of(st.none(), st.integers(-(10**25), 10**25), st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=4))
def test_numbers_are_those_of_python_whichever_key_comes_first(rows):
    plain, general = json.dumps({"features": rows, "user": "u"}), json.dumps({"user": "u", "features": rows})
    expected = by_python(plain)
    for text in (plain, general):
        found = as_read(text)
        assert (found is None) == (expected is None)
        if expected is not None:
            assert same(found, expected)
            assert found.dtype == np.float32


PIECES = ["0", "01", "-0", "+1", ".5", "5.", "1.e3", "1e", "1e+", "-", "--1", "nan", "null", "nul", "true", "Infinity"]
PIECES += ["3.4028235e38", "3.4028236e38", "-3.5e38", "1e-46", "1e400", '"1"', "[1]", "{}", "1 2", "0x1", "1_0", "१"]
PIECES += ["16777217", "0.1", "1E5", "123456789012345678901234567890", "1.17549435e-38", "8.5e-46", ""]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("before", ["", " ", "\n\t"])
def test_a_cell_is_read_as_json_reads_it_or_refused(piece, before):
    text = f'{{"features": [[1, {before}{piece}, 2.5]]}}'
    expected, found = by_python(text), as_read(text)
    if piece in ("true", '"1"'):  # which Python's float takes
        expected = None
    assert (found is None) == (expected is None)
    assert expected is None or same(found, expected)


def test_ten_thousand_damaged_bodies_give_what_python_reads_or_a_refusal():
    draw = random.Random(5)
    good = '{"features": [[1.5, -2e3, null], [0.25, 7, 3.125e-2]], "ids": ["a", "b"], "user": "u"}'
    for _ in range(10_000):
        text = list(good)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(text))
            change = draw.choice(["drop", "double", "set"])
            letter = draw.choice('0123456789.eE+-[]{},:" nultrfas\\')
            text[place : place + 1] = {"drop": "", "double": text[place] * 2, "set": letter}[change]
        body = "".join(text)
        found = as_read(body)
        if found is not None:
            expected = by_python(body)
            assert expected is not None, body
            assert same(found, expected), body


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("", "body", "got nothing"),
        ("[1]", "body", "expected an object"),
        ('{"features": [[1,2,3]', "body", "expected JSON"),
        ("{}", "features", "expected a list with one list of numbers per document"),
        ('{"features": []}', "features", "at least one document"),
        ('{"features": 3}', "features", "expected a list"),
        ('{"features": [[1,2,3],[1,2]]}', "features[1]", "expected 3 numbers, one per feature of the model; got 2"),
        ('{"features": [[1,2,3],[1,"x",3]]}', "features[1][1]", "expected a number, null for a missing value; got 'x'"),
        ('{"features": [[1,2,true]]}', "features[0][2]", "got True"),
        ('{"features": [[1,2,1e39]]}', "features[0][2]", "a number within float32"),
        ('{"features": [[1,2,3]], "ids": ["a","b"]}', "ids", "a list of 1 texts or integers"),
        ('{"features": [[1,2,3]], "ids": [1.5]}', "ids[0]", "an integer"),
        ('{"features": [[1,2,3]], "usr": "u"}', "usr", "Did you mean 'user'?"),
        ('{"features": [[1,2,3]], "user": 5}', "user", "a text"),
        ('{"features": [[1,2,3]], "features": [[4,5,6]]}', "features", "given twice"),
    ],
)
def test_errors_name_the_field_and_what_was_expected(text, field, words):
    with pytest.raises(Refusal) as caught:
        read(text)
    assert caught.value.field == field
    assert words in caught.value.message


def test_more_documents_than_allowed_are_refused_in_every_way():
    rows = [[1, 2, 3]] * 4
    bodies = {JSON: json.dumps({"features": rows}).encode(), RAW: np.ones((4, 3), "<f4").tobytes()}
    general = json.dumps({"user": "u", "features": rows})
    for kind, body in [*bodies.items(), (JSON, general)]:
        with pytest.raises(Refusal, match="at most 3 documents; got 4") as caught:
            read(body, kind=kind, most=3)
        assert caught.value.status == 413


def test_raw_float32_are_rows_and_nan_is_missing():
    rows = np.array([[1, np.nan, 3], [4, 5, -0.0]], "<f4")
    found = read(rows.tobytes(), kind=RAW).rows
    assert found.tobytes() == rows.tobytes()
    assert found.flags.writeable
    assert found.flags.c_contiguous
    for body, words in [
        (b"12345", "a multiple of 12 bytes"),
        (np.array([1, np.inf, 2], "<f4").tobytes(), "within float32"),
    ]:
        with pytest.raises(Refusal, match=words):
            read(body, kind=RAW)


def test_arrow_columns_go_by_name_where_names_are_those_of_the_model():
    pyarrow = pytest.importorskip("pyarrow")

    def stream(columns):
        table = pyarrow.table(columns)
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        return bytes(sink.getvalue())

    columns = {"f2": [3.0, 6.0], "id": ["a", "b"], "f0": [1, 4], "f1": [2.0, None]}
    found = read(stream(columns), kind=ARROW)
    assert np.array_equal(found.rows, np.array([[1, 2, 3], [4, np.nan, 6]], np.float32), equal_nan=True)
    assert found.ids == ["a", "b"]
    by_place = read(stream({"x": [1.0], "y": [2.0], "z": [3.0]}), kind=ARROW)
    assert by_place.rows.tolist() == [[1, 2, 3]]
    for body, words in [(stream({"x": [1.0]}), "3 columns"), (b"ARROW1", "an Arrow stream")]:
        with pytest.raises(Refusal, match=words):
            read(body, kind=ARROW)
    with pytest.raises(Refusal, match="expected numbers; got 'string'"):
        read(stream({"x": ["1"], "y": [2.0], "z": [3.0]}), kind=ARROW)


def test_names_of_categories_become_their_numbers_and_unknown_ones_are_missing():
    known = {1: {"red": 0.0, "blue": 1.0}}
    found = read('{"features": [[1, "blue", 3], [1, "green", 3], [1, null, 3], [1, 0, 3]]}', categories=known)
    assert np.array_equal(found.rows[:, 1], np.array([1, np.nan, np.nan, 0], np.float32), equal_nan=True)


def test_another_content_type_is_refused():
    with pytest.raises(Refusal, match="expected application/json") as caught:
        read("{}", kind="text/plain")
    assert caught.value.status == 415
