"""The sizes of "auto", against the table that docs/trees.md shows and one written here by hand."""

import re
from pathlib import Path

import pytest

from podium.models.trees.sizes import SIZES, size_words, sizes_for

PAGE = Path(__file__).parents[3] / "docs" / "trees.md"
NAMES = ("max_leaf_nodes", "min_samples_leaf", "learning_rate", "feature_fraction", "extra_trees", "max_depth")
FEW, SOME, MORE = (4, 50, 0.05, 0.6, True, 2), (4, 20, 0.1, 1.0, True, 2), (7, 20, 0.1, 0.3, True, 3)
MANY = (31, 20, 0.1, 1.0, False, 6)


@pytest.mark.parametrize(
    ("n_queries", "expected"),
    [(2, FEW), (99, FEW), (100, SOME), (699, SOME), (700, MORE), (1999, MORE), (2000, MANY), (10**6, MANY)],
)
def test_sizes_follow_the_number_of_queries(n_queries, expected):
    assert sizes_for(n_queries, 1000 * n_queries) == dict(zip(NAMES, expected))


@pytest.mark.parametrize(
    ("n_rows", "expected"), [(1999, FEW), (2000, SOME), (13_999, SOME), (14_000, MORE), (39_999, MORE), (40_000, MANY)]
)
def test_one_list_counts_as_a_query_per_twenty_rows(n_rows, expected):
    assert sizes_for(1, n_rows) == dict(zip(NAMES, expected))


@pytest.mark.parametrize(
    ("n_rows", "least"), [(1, 1), (7, 1), (39, 1), (40, 2), (300, 300 // 20), (1000, 50), (5000, 50)]
)
def test_leaves_hold_no_more_than_a_twentieth_of_tiny_data(n_rows, least):
    assert sizes_for(3, n_rows)["min_samples_leaf"] == least


def test_the_page_has_the_same_table():
    rows = re.findall(r"^\| ((?:below|from) [\d,]+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    limits, last = list(SIZES)[:-1], list(SIZES)[-2]
    assert [limit for limit, _ in rows] == [*(f"below {limit:,}" for limit in limits), f"from {last:,}"]
    assert [cells.split(" | ") for _, cells in rows] == [[str(row[name]) for name in NAMES] for row in SIZES.values()]


def test_the_words_say_what_the_table_says():
    assert (
        size_words("max_leaf_nodes") == '"auto" is 4 below 700 training queries, 7 below 2,000, and 31 from there on.'
    )
    assert size_words("min_samples_leaf") == (
        '"auto" is 50 below 100 training queries, and 20 from there on, but never above a twentieth of the rows.'
    )
