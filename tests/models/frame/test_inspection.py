"""Inspection: long lists of names as ranges and counts, from which no name is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from podium.models.frame.inspection import Inspection, name_ranges
from podium.models.trees.named import MART

NAMES = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["feature ", "url_", "", "x1_"]), st.integers(0, 30)),
    st.sampled_from(["url_", "bm25", "bm", "f01", "f1", "f2", "title"]),
)


def expanded(one, known):
    """The names of a range, found by trying every number."""
    if " to " not in one:
        return [one]
    first, last = one.split(" to ")
    prefix = first.rstrip("0123456789")
    inside = range(int(first[len(prefix) :]), int(last[len(prefix) :]) + 1)
    return [f"{prefix}{number}" for number in inside if f"{prefix}{number}" in known or pytest.fail(one)]


@given(st.lists(NAMES, unique=True))
def test_ranges_hold_each_name_once_and_nothing_else(names):
    ranges = name_ranges(names)
    assert sorted(name for one in ranges for name in expanded(one, names)) == sorted(names)


@given(st.sets(st.integers(0, 60)), st.randoms())
def test_a_range_ends_only_where_a_number_is_missing(numbers, random):
    names = [f"feature {number}" for number in numbers]
    random.shuffle(names)
    assert len(name_ranges(names)) == sum(number + 1 not in numbers for number in numbers)


def test_a_model_of_hundreds_of_bundled_features_prints_ranges_and_counts():
    rng = np.random.default_rng(0)
    n, groups, width = 4_000, 7, 100
    columns = rng.integers(0, width, (n, groups)) + width * np.arange(groups)
    X = csr_array((np.ones(n * groups, np.float32), columns.ravel(), np.arange(0, n * groups + 1, groups)))
    model = MART(n_estimators=2).fit(X, columns[:, 0] % 4, group=[n])
    found = model.inspect()
    assert sum(map(len, found.bundles)) == groups * width  # the value has all names; the text has not
    lines = str(found).splitlines()
    start = lines.index("bundled: 700 features in 7 bundles")
    assert lines[start + 1] == "  100 features: feature 1 to feature 100"
    assert lines[start + 6] == "  and 2 more bundles of 100 features"
    assert lines[start + 7].startswith("score before the first tree")


def test_a_bundle_of_names_without_numbers_shows_the_first_ones():
    names = [f"{letter}{other}" for letter in "abcd" for other in "xyz"]
    empty = Inspection("MART", 12, {}, [], {}, [], 12, [], 0.0, 0, bundles=[names])
    assert "  12 features: ax, ay, az, bx, by, bz, ... (6 more)" in str(empty).splitlines()
