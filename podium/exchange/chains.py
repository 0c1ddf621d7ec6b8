"""Chains: sums from left to right, rounded after each step, as RankLib and the search engines take them.

These programs are written in Java, whose floats are float32 and whose sums keep their order. They have no categories,
and each has a rule of its own for missing values, which a model must follow, unless its rows are complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import BITS, DOUBLE, SINGLE, Claim
from podium.exchange.forms import Form, LinearSum, Trees, as_trees

COMPLETE = "for rows without missing values"
AS_ZERO = "takes a missing value for 0"
LARGEST = float(np.finfo(np.float32).max) / 2  # of sums, however they are rounded


def single_trees(form: Form, where: str) -> Trees:
    """The trees of a form, for a program that adds up in float32 and has no sets of categories; not yet rounded."""
    trees = as_trees(form, where, sets=False, takes=(Trees, LinearSum))
    if not trees.forest.largest_score <= LARGEST:
        problem = f"scores may reach {trees.forest.largest_score:.3g}, and {where} adds up in float32"
        raise ValueError(f"{problem}. Train it with labels or a learning rate of ordinary size.")
    return trees


def is_split(trees: Trees) -> Array:
    """Whether each node is a split."""
    return np.asarray(trees.forest.left != np.arange(len(trees.forest.left)))


def node_name(trees: Trees, node: int) -> str:
    """`tree 3, node 5 (feature 'bm25')`: trees count from 1, nodes from 0."""
    forest = trees.forest
    tree = int(np.searchsorted(forest.roots, node, side="right"))
    return f"tree {tree}, node {node - int(forest.roots[tree - 1])} (feature {trees.names[int(forest.owner[node])]!r})"


def zero_goes_right(trees: Trees) -> Array:
    """Whether each node sends 0 to the right."""
    return np.asarray(~(trees.forest.threshold >= 0))


def other_sides(trees: Trees, right: Array) -> Array:
    """The splits that send missing values to another side than `right` says, one bool per node."""
    return np.flatnonzero(is_split(trees) & (right != (trees.forest.missing_right == 1)))


def send_missing(trees: Trees, right: Array, where: str, rule: str) -> Trees:
    """The trees with missing values on the sides where a program sends them: `right`, one bool per node.

    rule: what the program does with them. Refused where the model does something else, unless its rows are complete.
    """
    others = other_sides(trees, right)
    if len(others) and not trees.complete:
        raise ValueError(refusal(trees, others, f"{where} {rule}"))
    sides = (is_split(trees) & right).astype(np.uint8)
    return replace(trees, forest=replace(trees.forest, missing_right=sides))


def refusal(trees: Trees, others: Array, rule: str) -> str:
    """The error about splits that send missing values elsewhere than a program does."""
    node = int(others[0])
    side = "right" if trees.forest.missing_right[node] else "left"
    threshold, further = float(trees.forest.threshold[node]), len(others) - 1
    more = f" ({further:,} more splits differ too)" if further else ""
    problem = f"{node_name(trees, node)} sends missing values to the {side} of {threshold:.9g}; {rule}{more}"
    advice = "If the rows to be scored have no missing values, export with complete=True (--complete)"
    return f"{problem}. {advice}; else fill them in the data, train again, and then export so."


def used_names(trees: Trees) -> dict[int, str]:
    """The features that splits ask for, by number; refused where two have the same name."""
    names = {feature: trees.names[feature] for feature in trees.forest.used_features()[0].tolist()}
    refuse_same_names(list(names.values()), "a search engine")
    return names


def refuse_same_names(names: Sequence[str], where: str) -> None:
    """Features go by their names there."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            problem = f"two features are called {name!r}, and {where} tells them by name"
            raise ValueError(f"{problem}. Rename one, and train again.")
        seen.add(name)


def java_number(value: float) -> str:
    """A float32 as Java reads it: digits that are exactly it, so that no reader rounds twice."""
    return repr(value) if np.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def chain_claim(trees: Trees, engine: str, conditions: Sequence[str]) -> Claim:
    """What holds of the sum in float32; of trees that are not rounded yet."""
    return trees.claim(np.float32, engine, [COMPLETE, *conditions] if trees.complete else conditions)


def missing_as_zero(X: Array) -> Array:
    """Rows with 0 in place of missing values."""
    return np.where(np.isnan(X), X.dtype.type(0), X)


def linear_chain(form: LinearSum, X: Array, first: float, sums: type[np.floating[Any]]) -> Array:
    """first + weights[0] * X[:, 0] + weights[1] * X[:, 1] + ..., each product and each sum rounded to `sums`."""
    total = np.full(len(X), first, sums)
    for feature, weight in enumerate(form.weights.astype(sums)):
        total += weight * X[:, feature].astype(sums)
    return total.astype(np.float64)


def single_weights(form: LinearSum, where: str) -> Array:
    """The weights in float32, as float64."""
    with np.errstate(over="ignore"):
        single = form.weights.astype(np.float32)
    if not np.isfinite(single).all():
        feature = int(np.argmin(np.isfinite(single)))
        problem = f"the weight of {form.names[feature]!r} is {form.weights[feature]:.3g}, and {where} has float32 only"
        raise ValueError(f"{problem}. Give the feature another unit, and train again.")
    return single.astype(np.float64)


def linear_claim(form: LinearSum, sums: type[np.floating[Any]], engine: str, conditions: Sequence[str]) -> Claim:
    """What holds of a dot product from the first feature to the last."""
    missing = () if form.missing_is_zero else ("a missing value counts as 0 there; the model refuses it",)
    kind = (BITS if form.is_one_sum else DOUBLE) if sums is np.float64 else SINGLE
    return Claim(kind, engine, (*conditions, *missing))
