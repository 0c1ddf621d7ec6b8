"""Centres as users write them."""

import re

import numpy as np
import pytest

from podium.learners.linear.centres import MOST_NUMBERS, are_centres, as_centres


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4.0)),
        np.array([[1, 2], [3, 4]], np.float32),
        np.array([[1, 2], [3, 4]], np.int8),
        [np.array([1, 2]), (np.float32(3), np.int64(4))],
    ],
)
def test_centres_are_rows_of_numbers(value):
    assert are_centres(value)
    np.testing.assert_array_equal(as_centres(value), [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "expected one row of numbers per centre, such as [[0, 1], [2, 0.5]]; got 'x'"),
        ([], "expected one row of numbers per centre"),
        ({"a": [1]}, "expected one row of numbers per centre"),
        (np.zeros((0, 3)), "expected one row of numbers per centre"),
        ([[]], "centre 1 must be a row of numbers, one per column; got []"),
        ([1, 2], "centre 1 must be a row of numbers, one per column; got 1"),
        ([[1, 2], [3]], "all centres must have the same length; centre 1 has length 2, centre 2 has length 1"),
        ([[1, 2], [3, "4"]], "column 2 of centre 2 must be a finite number; got '4'"),
        ([[1, None]], "column 2 of centre 1 must be a finite number; got None"),
        ([[True, 2]], "column 1 of centre 1 must be a finite number; got True"),
        ([[float("nan")]], "column 1 of centre 1 must be a finite number; got nan"),
        ([[float("inf")]], "column 1 of centre 1 must be a finite number; got inf"),
        ([[1e39]], "column 1 of centre 1 must be a finite number; got 1e+39"),
        ([[10**400]], "column 1 of centre 1 must be a finite number; got 1000"),
        (np.zeros((2, 2, 2)), "column 1 of centre 1 must be a finite number; got [0.0, 0.0]"),
    ],
)
def test_what_are_no_centres_is_described(value, message):
    assert not are_centres(value)
    with pytest.raises(ValueError, match=re.escape(message)):
        as_centres(value)


def test_as_many_centres_as_a_model_file_has_room_for():
    assert as_centres(np.zeros((MOST_NUMBERS // 10, 10))).shape == (MOST_NUMBERS // 10, 10)
    with pytest.raises(ValueError, match="10,001 centres of 10 numbers are too many"):
        as_centres(np.zeros((MOST_NUMBERS // 10 + 1, 10)))
