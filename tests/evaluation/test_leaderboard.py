"""The order of a leaderboard."""

import math

from podium.evaluation.leaderboard import best_first


def test_the_best_comes_first_equal_ones_keep_their_order_and_those_without_a_value_come_last():
    values = {"none": math.nan, "a": 0.5, "b": 0.5, "c": 0.9}
    assert best_first(values, higher_is_better=True) == ["c", "a", "b", "none"]
    assert best_first(values, higher_is_better=False) == ["a", "b", "c", "none"]
