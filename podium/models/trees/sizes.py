"""Sizes of boosted trees by the training data: what `"auto"` stands for.

Few queries say little about a large tree: small trees with drawn thresholds generalise better. With thousands of
queries large trees pay. The table has one row per range of numbers of queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import inf
from typing import Any

# Values below so many training queries; max_depth is for oblivious trees, whose size it is.
SIZES: Mapping[float, Mapping[str, Any]] = {
    100: {
        "max_leaf_nodes": 4,
        "min_samples_leaf": 50,
        "learning_rate": 0.05,
        "feature_fraction": 0.6,
        "extra_trees": True,
        "max_depth": 2,
    },
    700: {
        "max_leaf_nodes": 4,
        "min_samples_leaf": 20,
        "learning_rate": 0.1,
        "feature_fraction": 1.0,
        "extra_trees": True,
        "max_depth": 2,
    },
    2000: {
        "max_leaf_nodes": 7,
        "min_samples_leaf": 20,
        "learning_rate": 0.1,
        "feature_fraction": 0.3,
        "extra_trees": True,
        "max_depth": 3,
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
ROWS_PER_QUERY = 20  # what one list of rows is worth: rows without query ids are as many queries of this size


def sizes_for(n_queries: int, n_rows: int) -> dict[str, Any]:
    """The values for training data of so many queries and rows."""
    queries = n_rows / ROWS_PER_QUERY if n_queries == 1 else n_queries
    sizes = dict(next(values for below, values in SIZES.items() if queries < below))
    return sizes | {"min_samples_leaf": max(1, min(sizes["min_samples_leaf"], n_rows // LEAST_LEAVES))}


def size_words(name: str) -> str:
    """`"auto" is 4 below 700 training queries, 7 below 2,000, and 31 from there on.`"""
    rows = [(below, values[name]) for below, values in SIZES.items()]
    ends = [(below, value) for (below, value), (_, after) in pairwise(rows) if value != after]
    first, *others = (f"{value} below {below:,}" for below, value in ends)
    words = ", ".join([f'"auto" is {first} training queries', *others, f"and {rows[-1][1]} from there on"])
    return words + (", but never above a twentieth of the rows." if name == "min_samples_leaf" else ".")
