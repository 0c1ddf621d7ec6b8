"""Sorting: the order of strings by their bytes is that of Python's sort by code points."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podium.data.texts import Texts
from podium.search.index.sorting import sorted_order, taken

# Few characters, so that strings share long beginnings; zeros, which stand for nothing where a string has ended.
SOME = st.text(st.sampled_from("ab\0é\U0001f600"), max_size=20)


@given(st.lists(SOME | st.text(st.characters(codec="utf-8"), max_size=12), max_size=40))
def test_the_order_is_that_of_code_points_and_equal_strings_stay_in_order(strings):
    assert sorted_order(Texts.of(strings)).tolist() == sorted(range(len(strings)), key=strings.__getitem__)


def test_many_strings_with_a_long_common_beginning():
    rng = np.random.default_rng(0)
    strings = ["https://example.org/a/long/path/" + str(number) for number in rng.integers(0, 10**9, 500)]
    assert list(Texts.of(strings).take(sorted_order(Texts.of(strings)))) == sorted(strings)


@given(st.lists(SOME, min_size=1, max_size=20), st.data())
def test_taken_rows_are_those_of_take(strings, data):
    rows = np.array(data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=30)), np.int64)
    assert list(taken(Texts.of(strings), rows)) == list(Texts.of(strings).take(rows))
