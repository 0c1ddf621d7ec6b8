"""Exact Shapley values of a forest: TreeSHAP, with the cover of the training rows in place of absent features.

For a leaf that is reached through d features, let z_j be the share of the training rows that the splits of feature j
let through on the way, and a_j be 1 if the document passes all of them, else 0. With a set S of features known, the
leaf adds value * prod_{j in S} a_j * prod_{j not in S} z_j. The weight of S, |S|! (d - 1 - |S|)! / d!, is the integral
of t^|S| (1 - t)^(d - 1 - |S|), so that the sum over all sets is a product:

    phi_f = value * (a_f - z_f) * integral over t from 0 to 1 of prod_{j != f} (t a_j + (1 - t) z_j) dt

The integrand is a polynomial of degree d - 1, which the rule of Gauss and Legendre with ceil(d / 2) points integrates
exactly. At each point t, products are multiplied up on the way down a tree, and leaves added up on the way back; a
split then takes as many steps as there are points, where the usual recursion takes d^2 steps in every leaf. All factors
are positive, so nothing is lost to cancellation. (Linear TreeSHAP, Yu et al. 2022, has the same idea, other points.)

On the way back the factor of f is divided out again. With D(z) = t + (1 - t) z, what is left of it is

    (a_f - z_f) / (t a_f + (1 - t) z_f) = (a_f / D(z_f) - 1) / (1 - t)

also for a_f = 0, where z_f cancels: leaves that no training row came to do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._numba import fast_kernel, kernel, readonly
from podium._threads import map_blocks
from podium.learners.trees.forest import Forest

_ROWS_A_BLOCK = 512  # enough to share the cost of a tree's tables
_LANES = 16  # documents that go through a tree in step


@dataclass(frozen=True, eq=False)
class Paths:
    """What the ways down a forest have in common for all documents."""

    forest: Forest
    same: np.ndarray  # (nodes,) int64: the node behind the last split of this one's feature above it, or the root
    share: np.ndarray  # (nodes,) float64: rows of the node / rows of its parent
    kept: np.ndarray  # (nodes,) float64: the product of the shares of all splits of the parent's feature; 1 in roots
    n_points: np.ndarray  # (trees,) int64: what the rule needs to be exact
    points: np.ndarray  # (most points + 1, most points) float64: row n has the rule with n points, on 0 to 1
    weights: np.ndarray

    @classmethod
    def of(cls, forest: Forest) -> Paths:
        n = len(forest.feature)
        same, share, kept = np.empty(n, np.int64), np.empty(n), np.empty(n)
        distinct = np.zeros(forest.n_trees, np.int64)
        _follow(forest.roots, forest.feature, forest.left, forest.count, same, share, kept, distinct)
        n_points = np.maximum(1, (distinct + 1) // 2)
        points, weights = _rules(n_points)
        return cls(forest, *map(readonly, (same, share, kept, n_points, points, weights)))

    def expected(self) -> float:
        """The score when no feature is known: the mean over the training rows, by their number in each leaf."""
        reached = np.empty(len(self.share))
        _reach(self.forest.roots, self.forest.left, self.share, reached)
        return float(self.forest.start + (reached * self.forest.value).sum())

    def values(self, X: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """The Shapley value of each feature for each row of X (rows, features), float32 in C order."""
        forest = self.forest
        if X.shape[1] != forest.n_features:  # the kernel itself checks no bounds
            raise ValueError(f"the rows have {X.shape[1]} features, the model was trained on {forest.n_features}.")
        out = np.zeros(X.shape)
        X = readonly(np.ascontiguousarray(X, dtype=np.float32))

        def work(block: int) -> None:
            part = slice(block * _ROWS_A_BLOCK, min(len(X), (block + 1) * _ROWS_A_BLOCK))
            self._add_values(X[part], out[part])

        map_blocks(work, -(-len(X) // _ROWS_A_BLOCK), n_jobs)
        return out

    def _add_values(self, X: np.ndarray, out: np.ndarray) -> None:
        forest = self.forest
        nodes, most = int(np.diff(forest.roots).max(initial=1)), int(self.n_points.max(initial=1))
        _add_values(
            X,
            forest.roots,
            forest.feature,
            forest.threshold,
            forest.left,
            forest.missing_right,
            forest.value,
            self.same,
            self.share,
            self.kept,
            self.n_points,
            self.points,
            self.weights,
            np.empty((nodes, most)),
            np.empty((nodes, most, _LANES)),
            np.empty((nodes, _LANES)),
            out,
        )


def _rules(n_points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss and Legendre's points and weights on 0 to 1, for the numbers of points that are needed."""
    most = int(n_points.max(initial=1))
    points, weights = np.zeros((most + 1, most)), np.zeros((most + 1, most))
    for number in np.unique(n_points).tolist():
        x, w = np.polynomial.legendre.leggauss(number)
        points[number, :number], weights[number, :number] = (x + 1) / 2, w / 2
    return points, weights


@kernel
def _follow(
    roots: np.ndarray,
    feature: np.ndarray,
    left: np.ndarray,
    count: np.ndarray,
    same: np.ndarray,
    share: np.ndarray,
    kept: np.ndarray,
    distinct: np.ndarray,
) -> None:
    """Fill in `Paths`, and the largest number of distinct features on a way down each tree. Parents come first."""
    parent, passed = np.empty(len(left), np.int64), np.empty(len(left), np.int64)
    for tree in range(len(roots) - 1):
        root = roots[tree]
        parent[root], passed[root], share[root], kept[root] = root, 0, 1.0, 1.0
        for node in range(root, roots[tree + 1]):
            distinct[tree] = max(distinct[tree], passed[node])
            same[node] = root
            if left[node] == node:
                continue
            above = node
            while above != root and feature[parent[above]] != feature[node]:
                above = parent[above]
            same[node] = above
            for child in range(left[node], left[node] + 2):
                parent[child] = node
                passed[child] = passed[node] + (1 if above == root else 0)
                # Where no row came by, both ways count alike.
                share[child] = count[child] / count[node] if count[node] > 0 else 0.5
                kept[child] = kept[above] * share[child]


@kernel
def _reach(roots: np.ndarray, left: np.ndarray, share: np.ndarray, reached: np.ndarray) -> None:
    """reached[node] = the product of the shares on the way to it."""
    for tree in range(len(roots) - 1):
        reached[roots[tree]] = 1.0
        for node in range(roots[tree], roots[tree + 1]):
            if left[node] != node:
                for child in range(left[node], left[node] + 2):
                    reached[child] = reached[node] * share[child]


@fast_kernel
def _add_values(
    X: np.ndarray,
    roots: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    left: np.ndarray,
    missing_right: np.ndarray,
    value: np.ndarray,
    same: np.ndarray,
    share: np.ndarray,
    kept: np.ndarray,
    n_points: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    inverse: np.ndarray,
    reach: np.ndarray,
    passes: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[i, f] += the Shapley value of f for row i, tree by tree.

    inverse (nodes, points): 1 / D(kept). passes (nodes, lanes): 1.0 where the document passes all splits of the
    parent's feature down to the node. reach (nodes, points, lanes): on the way down, the product over the features
    above; on the way up, the sum over the leaves below of that product times their value.
    """
    total = np.empty(_LANES)
    row = np.empty(_LANES, np.int64)
    for tree in range(len(roots) - 1):
        first, size, n = roots[tree], roots[tree + 1] - roots[tree], n_points[tree]
        t, w = points[n, :n], weights[n, :n]
        for node in range(size):
            for q in range(n):
                inverse[node, q] = 1.0 / (t[q] + (1.0 - t[q]) * kept[first + node])
        for start in range(0, len(X), _LANES):
            lanes = min(_LANES, len(X) - start)
            for k in range(_LANES):  # the last lanes of a short batch go with the last row
                row[k] = start + min(k, lanes - 1)
                passes[0, k] = 1.0
            for q in range(n):
                reach[0, q, :] = 1.0
            for node in range(size):
                own = first + node
                if left[own] == own:
                    reach[node, :n] *= value[own]
                    continue
                child, above = left[own] - first, same[own] - first
                before, at_left, at_right = passes[above], passes[child], passes[child + 1]
                cut, missing = threshold[own], missing_right[own] != 0
                for k in range(_LANES):
                    x = X[row[k], feature[own]]
                    at_right[k] = before[k] if x > cut or (missing and x != x) else 0.0
                for k in range(_LANES):
                    at_left[k] = before[k] - at_right[k]
                share_left, share_right = share[first + child], share[first + child + 1]
                kept_left, kept_right = kept[first + child], kept[first + child + 1]
                for q in range(n):
                    # The feature's factor so far is replaced by the one with this split; a failed one stays failed.
                    lost, won = (1.0 - t[q]) * inverse[above, q], t[q] * inverse[above, q]
                    more_left, more_right = lost * kept_left - share_left, lost * kept_right - share_right
                    here, down_left, down_right = reach[node, q], reach[child, q], reach[child + 1, q]
                    for k in range(_LANES):
                        down_left[k] = here[k] * (share_left + before[k] * more_left + at_left[k] * won)
                        down_right[k] = here[k] * (share_right + before[k] * more_right + at_right[k] * won)
            for back in range(size):
                node = size - 1 - back
                own = first + node
                if left[own] == own:
                    continue
                child, above = left[own] - first, same[own] - first
                before, at_left, at_right = passes[above], passes[child], passes[child + 1]
                total[:] = 0.0
                for q in range(n):
                    weight = w[q] / (1.0 - t[q])
                    weight_left, weight_right = weight * inverse[child, q], weight * inverse[child + 1, q]
                    weight_before = weight * inverse[above, q]
                    here, up_left, up_right = reach[node, q], reach[child, q], reach[child + 1, q]
                    for k in range(_LANES):
                        below = up_left[k] + up_right[k]
                        here[k] = below
                        total[k] += (
                            at_left[k] * weight_left * up_left[k]
                            + at_right[k] * weight_right * up_right[k]
                            - before[k] * weight_before * below
                        )
                for k in range(lanes):
                    out[start + k, feature[own]] += total[k]
