"""Monotone constraints on a finished tree whose leaves get new values.

A tree that is grown keeps bounds for its leaves; a tree that is refitted has only its splits. Below a split on a
constrained feature, no value on the lower side may exceed one on the upper side. Splits are visited from the root
down: where the two sides overlap, both are clipped at a value between their means. What a split further down changes
stays between the values it finds, so the splits above it stay satisfied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from podium.learners.trees.scoring.forest import TreeArrays


def clip_to_constraints(tree: TreeArrays, values: np.ndarray, signs: Sequence[int]) -> np.ndarray:
    """One value per node, changed only where a split on a feature with a sign demands it.

    signs: per feature, 1 where the score may not fall as it grows, -1 where it may not rise, 0 where it is free.
    """
    values = values.copy()
    splits = np.flatnonzero(tree.left != np.arange(len(tree.left)))
    for node in splits.tolist():  # parents stand before their children
        feature = int(tree.feature[node])
        sign = signs[feature] if feature < len(signs) else 0
        if sign != 0:
            left, right = _leaves_below(tree, int(tree.left[node])), _leaves_below(tree, int(tree.left[node]) + 1)
            _separate(values, tree.count, *((left, right) if sign > 0 else (right, left)))
    return values


def _leaves_below(tree: TreeArrays, node: int) -> list[int]:
    waiting, leaves = [node], []
    while waiting:
        node = waiting.pop()
        left = int(tree.left[node])
        if left == node:
            leaves.append(node)
        else:
            waiting += [left, left + 1]
    return leaves


def _separate(values: np.ndarray, count: np.ndarray, lower: list[int], upper: list[int]) -> None:
    """Clip so that no value of `lower` exceeds one of `upper`; count: rows per node, as weights."""
    if values[lower].max() <= values[upper].min():
        return
    both = values[lower + upper]
    means = [np.average(values[side], weights=np.maximum(count[side], 1)) for side in (lower, upper)]
    middle = np.clip(0.5 * means[0] + 0.5 * means[1], both.min(), both.max())  # also after rounding
    values[lower], values[upper] = np.minimum(values[lower], middle), np.maximum(values[upper], middle)
