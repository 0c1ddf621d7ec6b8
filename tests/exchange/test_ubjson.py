"""UBJSON: what is written is read again, and what is damaged is refused with its byte."""

import numpy as np
import pytest
from exchange.plain.xgboost_ubj import value as plain_value
from hypothesis import given
from hypothesis import strategies as st

from podium.exchange import ubjson

SCALARS = st.text(max_size=9) | st.integers(-(2**63) + 1, 2**63 - 1)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
)


@given(VALUES)
def test_what_is_written_is_read_again(value):
    content = ubjson.dumps(value)
    assert ubjson.loads(content) == value
    assert plain_value(content, 0) == (value, len(content))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "float64"])
def test_arrays_of_numbers_keep_their_type(dtype):
    numbers = np.array([0, 1, 100, 3], dtype)
    read = ubjson.loads(ubjson.dumps({"numbers": numbers, "none": numbers[:0]}))
    assert read["numbers"].dtype == numbers.dtype == read["none"].dtype
    np.testing.assert_array_equal(read["numbers"], numbers)
    assert len(read["none"]) == 0


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"[i\x01U\xffI\x01\x00]", [1, 255, 256]),
        (b"[#i\x02TF", [True, False]),
        (b"{i\x01aZ}", {"a": None}),
        (b"[Nd\x3f\x80\x00\x00ND\x3f\xf0\0\0\0\0\0\0N]", [1.0, 1.0]),
        (b"{Ni\x01a{}N}", {"a": {}}),
    ],
)
def test_values_of_other_writers_are_read(content, value):
    assert ubjson.loads(content) == value


WRONG = {
    "nothing": (b"", "byte 0: the file ends within a value"),
    "an open object": (b"{i\x01aT", "byte 5: the file ends within a value"),
    "an unknown marker": (b"[H]", "byte 1: no value begins with 'H'"),
    "a long text": (b"Si\x05abc", "byte 1: a length of 5 does not fit"),
    "a text below zero": (b"Si\xff", "byte 1: a length of -1 does not fit"),
    "a length that is a text": (b"SSi\x01a", "byte 1: expected a length, as an integer; found 'S'"),
    "a text that is not UTF-8": (b"Si\x01\xff", "byte 3: a text is not UTF-8"),
    "a long array": (b"[#l\x7f\xff\xff\xff", "byte 2: a length of 2,147,483,647 does not fit"),
    "a long array of numbers": (b"[$D#i\x02" + b"\0" * 15, "byte 4: a length of 2 does not fit"),
    "an array of constants": (b"[$Z#l\x7f\xff\xff\xff", "arrays of the type 'Z' are not supported"),
    "an array of a type without a count": (b"[$i]", "an array of one type must have a count"),
    "a key twice": (b"{i\x01aTi\x01aT}", "byte 5: the key 'a' stands twice"),
    "half a number": (b"L\0\0", "byte 1: 8 bytes should follow; 2 are left"),
    "more bytes": (b"TT", "byte 1: the document has ended"),
    "many levels": (b"[" * 1000, "more than 64 levels deep"),
    "a counted object": (b"{#i\x01i\x01aT", "byte 1: expected a length, as an integer; found '#'"),
}


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_a_file_is_refused_that_has(content, message):
    with pytest.raises(ValueError, match=message):
        ubjson.loads(content)


def test_other_objects_are_not_written():
    with pytest.raises(TypeError, match="no value of UBJSON: set"):
        ubjson.dumps({"a": set()})
