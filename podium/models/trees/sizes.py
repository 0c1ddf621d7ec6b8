"""Sizes of boosted trees by the training data: what `"auto"` stands for.

Few queries say little about a large tree: small trees with drawn thresholds generalise better. With thousands of
queries large trees pay. The table has one row per range of numbers of queries.
"""

from __future__ import annotations

from math import inf
from typing import Any

from podium.models.frame.resolving import SizeTable, row_of, table_words

# Values below so many training queries; max_depth is for oblivious trees, whose size it is.
SIZES: SizeTable = {
    150: {
        "max_leaf_nodes": 5,
        "min_samples_leaf": 20,
        "learning_rate": 0.05,
        "feature_fraction": 1.0,
        "extra_trees": True,
        "max_depth": 2,
    },
    1500: {
        "max_leaf_nodes": 15,
        "min_samples_leaf": 20,
        "learning_rate": 0.05,
        "feature_fraction": 1.0,
        "extra_trees": True,
        "max_depth": 4,
    },
    5000: {
        "max_leaf_nodes": 22,
        "min_samples_leaf": 20,
        "learning_rate": 0.1,
        "feature_fraction": 1.0,
        "extra_trees": True,
        "max_depth": 4,
    },
    inf: {
        "max_leaf_nodes": 31,
        "min_samples_leaf": 20,
        "learning_rate": 0.1,
        "feature_fraction": 1.0,
        "extra_trees": False,
        "max_depth": 6,
    },
}
LEAST_LEAVES = 20  # min_samples_leaf leaves room for so many leaves: tiny data need splits too
DRAWN_ROWS = 400  # thresholds are drawn from so many rows on: with fewer, most drawn ones leave too little on one side


def sizes_for(n_queries: int, n_rows: int) -> dict[str, Any]:
    """The values for training data of so many queries and rows."""
    sizes = row_of(SIZES, n_queries, n_rows)
    least = max(1, min(sizes["min_samples_leaf"], n_rows // LEAST_LEAVES))
    return {**sizes, "min_samples_leaf": least, "extra_trees": sizes["extra_trees"] and n_rows >= DRAWN_ROWS}


def size_words(name: str) -> str:
    """`"auto" is 5 below 150 training queries, 15 below 1,500, 22 below 5,000, and 31 from there on.`"""
    return table_words(SIZES, name) + _EXCEPTIONS.get(name, "") + "."


_EXCEPTIONS = {
    "min_samples_leaf": ", but never above a twentieth of the rows",
    "extra_trees": f"; with fewer than {DRAWN_ROWS} rows it is False",
}
