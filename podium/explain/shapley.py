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

from podium._runtime.compiler import Array, fast_kernel, inlined_kernel, kernel, readonly
from podium._runtime.threads import map_slices
from podium.data.sparse import FeatureMatrix, as_dense, is_sparse
from podium.learners.trees.scoring.forest import Forest

_ROWS_A_BLOCK = 512  # enough to share the cost of a tree's tables
_LANES = 32  # documents that go through a tree in step

Arrays = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Paths:
    """What the ways down a forest have in common for all documents."""

    forest: Forest
    same: Array  # (nodes,) int64: the node after the last split of this one's feature above it, or the root
    share: Array  # (nodes,) float64: rows of the node / rows of its parent
    passed_share: Array  # (nodes,) float64: the product of all shares of the parent's feature; 1 in roots
    n_points: Array  # (trees,) int64: what the rule needs to be exact
    points: Array  # (most points + 1, most points) float64: row n has the rule with n points, on 0 to 1
    weights: Array

    @classmethod
    def of(cls, forest: Forest) -> Paths:
        n = len(forest.feature)
        same, share, passed_share = np.empty(n, np.int64), np.empty(n), np.empty(n)
        distinct = np.zeros(forest.n_trees, np.int64)
        _follow((forest.roots, forest.owner, forest.left, forest.count), same, share, passed_share, distinct)
        n_points = np.maximum(1, (distinct + 1) // 2)
        points, weights = _rules(n_points)
        return cls(forest, *map(readonly, (same, share, passed_share, n_points, points, weights)))

    def expected(self) -> float:
        """The score when no feature is known: the mean over the training rows, by their number in each leaf."""
        reached = np.empty(len(self.share))
        _reach(self.forest.roots, self.forest.left, self.share, reached)
        return float(self.forest.start + (reached * self.forest.value).sum())

    def values(self, X: FeatureMatrix, n_jobs: int | None = None) -> Array:
        """The Shapley value of each feature for each row of X (rows, features), float32, in C order or sparse."""
        forest = self.forest
        if X.shape[1] != forest.n_features:  # the kernel itself checks no bounds
            raise ValueError(f"the rows have {X.shape[1]} features, the model was trained on {forest.n_features}.")
        out = np.zeros(X.shape)
        if not is_sparse(X):
            X = readonly(np.ascontiguousarray(X, dtype=np.float32))

        def work(part: slice) -> None:
            self._add_values(as_dense(X[part]), out[part])

        map_slices(work, len(out), _ROWS_A_BLOCK, n_jobs)
        return out

    def _add_values(self, X: Array, out: Array) -> None:
        """FeatureMatrix as rows, and documents as columns up to a full batch, so that a batch is a run of memory."""
        forest = self.forest
        columns = np.zeros((forest.width, -(-len(X) // _LANES) * _LANES), np.float32)
        columns[:, : len(X)] = forest.sets.widen(X).T
        sums = np.zeros((forest.n_features, columns.shape[1]))
        nodes, most = int(np.diff(forest.roots).max(initial=1)), int(self.n_points.max(initial=1))
        splits = forest.roots, forest.feature, forest.owner, forest.threshold, forest.left, forest.missing_right
        ways = forest.value, self.same, self.share, self.passed_share
        buffers = np.empty((nodes, most)), np.empty((nodes, most, _LANES)), np.empty((nodes, _LANES))
        _add_values(columns, splits, ways, (self.n_points, self.points, self.weights), buffers, sums)
        out[:] = sums[:, : len(X)].T


def _rules(n_points: Array) -> tuple[Array, Array]:
    """Gauss and Legendre's points and weights on 0 to 1, for the numbers of points that are needed."""
    most = int(n_points.max(initial=1))
    points, weights = np.zeros((most + 1, most)), np.zeros((most + 1, most))
    for number in np.unique(n_points).tolist():
        x, w = np.polynomial.legendre.leggauss(number)
        points[number, :number], weights[number, :number] = (x + 1) / 2, w / 2
    return points, weights


@kernel
def _follow(trees: Arrays, same: Array, share: Array, passed_share: Array, distinct: Array) -> None:
    """Fill in `Paths`, and the largest number of distinct features on a way down each tree. Parents come first."""
    roots, feature, left, count = trees
    parent, passed = np.empty(len(left), np.int64), np.empty(len(left), np.int64)
    for tree in range(len(roots) - 1):
        root = roots[tree]
        parent[root], passed[root], share[root], passed_share[root] = root, 0, 1.0, 1.0
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
                passed_share[child] = passed_share[above] * share[child]


@kernel
def _reach(roots: Array, left: Array, share: Array, reached: Array) -> None:
    """reached[node] = the product of the shares on the way to it."""
    for tree in range(len(roots) - 1):
        reached[roots[tree]] = 1.0
        for node in range(roots[tree], roots[tree + 1]):
            if left[node] != node:
                for child in range(left[node], left[node] + 2):
                    reached[child] = reached[node] * share[child]


@fast_kernel
def _add_values(columns: Array, splits: Arrays, ways: Arrays, rule: Arrays, buffers: Arrays, sums: Array) -> None:
    """sums[f, i] += the Shapley value of f for document i, tree by tree; columns and sums are (features, documents).

    owner: whose value a split adds to; a set of categories has a column of its own, but belongs to a feature.

    inverse (nodes, points): 1 / D(passed_share). passes (nodes, lanes): 1.0 where the document passes all splits of the
    parent's feature down to the node. reach (nodes, points, lanes): on the way down, the product over the features
    above; on the way back, the sum over the leaves below of that product times their value.
    """
    roots, feature, owner, threshold, left, missing_right = splits
    (value, same, share, passed_share), (n_points, points, weights) = ways, rule
    inverse, total = buffers[0], np.empty(_LANES)
    for tree in range(len(roots) - 1):
        n = n_points[tree]
        t, w = points[n, :n], weights[n, :n]
        nodes = slice(roots[tree], roots[tree + 1])
        split_on, thresholds, to_right = feature[nodes], threshold[nodes], missing_right[nodes]
        leaf_value, added_to, tree_share, tree_passed = value[nodes], owner[nodes], share[nodes], passed_share[nodes]
        first_child, earlier = left[nodes] - roots[tree], same[nodes] - roots[tree]
        for node in range(len(split_on)):
            for q in range(n):
                inverse[node, q] = 1.0 / (t[q] + (1.0 - t[q]) * tree_passed[node])
        for start in range(0, columns.shape[1], _LANES):
            batch = slice(start, start + _LANES)
            tests = split_on, thresholds, to_right
            _go_down(columns[:, batch], tests, first_child, earlier, (leaf_value, tree_share, tree_passed), t, buffers)
            _come_back(added_to, first_child, earlier, t, w, buffers, total, sums[:, batch])


@inlined_kernel
def _go_down(
    columns: Array, tests: Arrays, left: Array, same: Array, shares: Arrays, t: Array, buffers: Arrays
) -> None:
    """Fill in `passes` and `reach` for one tree and one batch of documents; leaves are multiplied by their value."""
    (feature, threshold, missing_right), (value, share, passed_share) = tests, shares
    inverse, reach, passes = buffers
    for k in range(_LANES):
        passes[0, k] = 1.0
    for q in range(len(t)):
        for k in range(_LANES):
            reach[0, q, k] = 1.0
    for node in range(len(left)):
        one = left[node]
        if one == node:
            continue
        two, above = one + 1, same[node]
        before, at_left, at_right, column = passes[above], passes[one], passes[two], columns[feature[node]]
        limit, missing = threshold[node], np.uint32(missing_right[node])
        for k in range(_LANES):  # no branch: it would be guessed wrong every other time
            x = column[k]
            at_right[k] = before[k] * np.float64(np.uint32(x > limit) | (np.uint32(x != x) & missing))
            at_left[k] = before[k] - at_right[k]
        scale_left = value[one] if left[one] == one else 1.0
        scale_right = value[two] if left[two] == two else 1.0
        share_left, share_right = share[one] * scale_left, share[two] * scale_right
        passed_left, passed_right = passed_share[one] * scale_left, passed_share[two] * scale_right
        for q in range(len(t)):
            # The factor of the feature so far is replaced by the one with this split. A document that failed an
            # earlier split (before = 0) has lost all but the share of the training rows.
            lost, won = (1.0 - t[q]) * inverse[above, q], t[q] * inverse[above, q]
            more_left, more_right = lost * passed_left - share_left, lost * passed_right - share_right
            won_left, won_right = won * scale_left, won * scale_right
            here, down_left, down_right = reach[node, q], reach[one, q], reach[two, q]
            for k in range(_LANES):
                down_left[k] = here[k] * (share_left + before[k] * more_left + at_left[k] * won_left)
                down_right[k] = here[k] * (share_right + before[k] * more_right + at_right[k] * won_right)


@inlined_kernel
def _come_back(
    feature: Array, left: Array, same: Array, t: Array, w: Array, buffers: Arrays, total: Array, sums: Array
) -> None:
    """Add up the leaves below each split, and what the split makes of them.

    An earlier split of the same feature has counted all leaves below it with its own factor; that is taken back here.
    """
    inverse, reach, passes = buffers
    for back in range(1, len(left) + 1):
        node = len(left) - back
        one = left[node]
        if one == node:
            continue
        two, above = one + 1, same[node]
        before, at_left, at_right, sums_here = passes[above], passes[one], passes[two], sums[feature[node]]
        for k in range(_LANES):
            total[k] = 0.0
        for q in range(len(t)):
            weight = w[q] / (1.0 - t[q])
            for_left, for_right = weight * inverse[one, q], weight * inverse[two, q]
            for_both = weight * inverse[above, q]
            here, up_left, up_right = reach[node, q], reach[one, q], reach[two, q]
            for k in range(_LANES):
                here[k] = up_left[k] + up_right[k]
                total[k] += at_left[k] * for_left * up_left[k] + at_right[k] * for_right * up_right[k]
                total[k] -= before[k] * for_both * here[k]
        for k in range(_LANES):
            sums_here[k] += total[k]
