"""The sizes of "auto", against the table that docs/trees.md shows and one written here by hand."""

import re
from pathlib import Path

import pytest

from podium.models.trees.sizes import SIZES, size_words, sizes_for

PAGE = Path(__file__).parents[3] / "docs" / "trees.md"
NAMES = ("max_leaf_nodes", "min_samples_leaf", "learning_rate", "feature_fraction", "extra_trees", "max_depth")
FEW, SOME = (5, 20, 0.05, 1.0, True, 2), (15, 20, 0.05, 1.0, True, 4)
MORE, MANY = (22, 20, 0.1, 1.0, True, 4), (31, 20, 0.1, 1.0, False, 6)


@pytest.mark.parametrize(
    ("n_queries", "expected"),
    [
        (2, FEW),
        (149, FEW),
        (150, SOME),
        (1499, SOME),
        (1500, MORE),
        (2999, MORE),
        (3000, MANY),
        (10**6, MANY),
    ],
)
def test_sizes_follow_the_number_of_queries(n_queries, expected):
    assert sizes_for(n_queries, 1000 * n_queries) == dict(zip(NAMES, expected))


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [(2999, FEW), (3000, SOME), (29_999, SOME), (30_000, MORE), (59_999, MORE), (60_000, MANY)],
)
def test_one_list_counts_as_a_query_per_twenty_rows(n_rows, expected):
    assert sizes_for(1, n_rows) == dict(zip(NAMES, expected))


@pytest.mark.parametrize(
    ("n_rows", "least"), [(1, 1), (7, 1), (39, 1), (40, 2), (300, 300 // 20), (399, 19), (400, 20), (5000, 20)]
)
def test_leaves_hold_no_more_than_a_twentieth_of_tiny_data(n_rows, least):
    assert sizes_for(3, n_rows)["min_samples_leaf"] == least


@pytest.mark.parametrize(("n_queries", "n_rows", "drawn"), [(3, 399, False), (3, 400, True), (500, 399, False)])
def test_thresholds_are_not_drawn_on_tiny_data(n_queries, n_rows, drawn):
    assert sizes_for(n_queries, n_rows)["extra_trees"] is drawn


def test_the_page_has_the_same_table():
    rows = re.findall(r"^\| ((?:below|from) [\d,]+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    limits, last = list(SIZES)[:-1], list(SIZES)[-2]
    assert [limit for limit, _ in rows] == [*(f"below {limit:,}" for limit in limits), f"from {last:,}"]
    assert [cells.split(" | ") for _, cells in rows] == [[str(row[name]) for name in NAMES] for row in SIZES.values()]


def test_the_words_say_what_the_table_says():
    words = '"auto" is 5 below 150 training queries, 15 below 1,500, 22 below 3,000, and 31 from there on.'
    assert size_words("max_leaf_nodes") == words
    assert size_words("min_samples_leaf") == '"auto" is 20, but never above a twentieth of the rows.'
    assert size_words("feature_fraction") == '"auto" is 1.0.'
    drawn = (
        '"auto" is True below 3,000 training queries, and False from there on; with fewer than 400 rows it is False.'
    )
    assert size_words("extra_trees") == drawn
