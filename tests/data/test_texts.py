"""Texts: a column of strings in two arrays."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.data.texts import Texts


@given(st.lists(st.text(), max_size=20), st.data())
@settings(max_examples=60, deadline=None)
def test_a_column_behaves_like_the_list_it_was_made_of(strings, data):
    column = Texts.of(strings)
    assert list(column) == strings
    assert [column[k] for k in range(len(column))] == strings
    assert column.to_array().tolist() == strings
    if strings:
        rows = data.draw(st.lists(st.integers(0, len(strings) - 1)))
        assert list(column.take(np.array(rows, dtype=np.int64))) == [strings[row] for row in rows]
    assert list(column[1:]) == strings[1:]
    assert list(Texts.concat([column, column])) == strings * 2


def test_columns_are_equal_by_content():
    assert Texts.of(["a", "bc"]) == Texts.of(["a", "bc"])
    assert Texts.of(["ab", "c"]) != Texts.of(["a", "bc"])
    assert Texts.of(["a"]) != ["a"]


def test_bytes_that_are_no_utf8_survive():
    column = Texts(np.frombuffer(b"caf\xe9", np.uint8), np.array([0, 4]))
    assert Texts.of([column[0]]) == column
