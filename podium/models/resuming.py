"""Resuming: boosted trees under way, into a checkpoint and back.

It holds all that the next step depends on: the trees, the scores they have given (with DART these are not the sum of
the trees to the last bit), the curves, and what early stopping remembers. Random draws depend on the seed and the
number of the tree alone. So the resumed run ends in the same bytes as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from podium._runtime.words import counted
from podium.formats.kinds import CHECKPOINT
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest, TreeArrays
from podium.learners.trees.training.boosting import Boosting
from podium.persistence.checkpoints import Checkpoints, checksum


class Watch(Protocol):
    """What a training remembers beside its trees."""

    scores: list[np.ndarray]  # of the evaluation sets
    evals: dict[str, dict[str, list[float]]]
    best: int
    best_value: float
    best_trees: list[TreeArrays]

    def after(self, iteration: int, changes: list[TreeArrays]) -> bool: ...


class Keeper:
    """Writes what `boosting` and `watch` have come to, every few steps, and puts them back there."""

    def __init__(
        self, checkpoints: Checkpoints, boosting: Boosting, watch: Watch, n_trees: int, facts: dict[str, str]
    ) -> None:
        self.checkpoints, self.boosting, self.watch = checkpoints, boosting, watch
        self.n_trees = n_trees
        forest = boosting.forest()
        self.n_before = forest.n_trees
        arrays = [getattr(forest, name) for name in FOREST_ARRAYS]
        start = checksum([*arrays, boosting.scores, *watch.scores], boosting.n_threads)
        self.facts = facts | {"what it starts from": f"{counted(forest.n_trees, 'tree')}, checksum {start}"}

    def after(self, iteration: int, changes: list[TreeArrays]) -> bool:
        """Let the watch look, then write; but not behind the last step, as the model follows at once."""
        stops = self.watch.after(iteration, changes)
        if not stops and iteration % self.checkpoints.every == 0 and iteration < self.n_trees:
            self.checkpoints.write(*self._parts())
        return stops

    def resume(self) -> None:
        """Go on from the file, if there is one and it is of this run."""
        path, found = self.checkpoints.path, self.checkpoints.read()
        if found is None:
            return
        meta, arrays = found
        self.checkpoints.refuse_other_run(self.facts, meta["run"])
        try:
            self._restore(meta, arrays)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CHECKPOINT.damaged(path, f"its content is not understood: {error}") from error
        done = len(self.boosting.trees)
        self.checkpoints.say(f"{path}: {done:,} of {self.n_trees:,} trees are there; the training goes on from them.")

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        boosting, watch = self.boosting, self.watch
        forest = boosting.forest()
        arrays = {name: getattr(forest, name) for name in FOREST_ARRAYS}
        arrays |= {"scores": boosting.scores, "best_value": np.array([watch.best_value], np.float64)}
        if any(best is not tree for best, tree in zip(watch.best_trees, boosting.trees)):
            # DART has changed trees since the best step: their values, never their shape
            arrays["best_leaves"] = np.concatenate([tree.value for tree in watch.best_trees])
        curves = [np.array(curve, np.float64) for curves in watch.evals.values() for curve in curves.values()]
        arrays |= dict(zip(self._names("scores"), watch.scores)) | dict(zip(self._names("curve"), curves))
        return {"run": self.facts, "best": int(watch.best), "best_trees": len(watch.best_trees)}, arrays

    def _restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Check all of it, then put it back: a file that is refused changes nothing."""
        boosting, watch = self.boosting, self.watch
        curves = [curve for curves in watch.evals.values() for curve in curves.values()]
        self._refuse_other_keys(meta, arrays)
        forest = Forest(
            **{name: arrays[name] for name in FOREST_ARRAYS}, start=boosting.start, n_features=boosting.X.shape[1]
        )
        forest.check()
        best, n_best = _count(meta, "best", self.n_trees), _count(meta, "best_trees", forest.n_trees)
        best_value = float(_numbers(arrays, "best_value", 1, unset=-np.inf)[0])
        scores = _numbers(arrays, "scores", len(boosting.scores))
        eval_scores = [_numbers(arrays, name, len(own)) for name, own in zip(self._names("scores"), watch.scores)]
        steps = forest.n_trees - self.n_before
        points = [_numbers(arrays, name, steps, unset=np.nan).tolist() for name in self._names("curve")]
        leaves = _numbers(arrays, "best_leaves", int(forest.roots[n_best])) if "best_leaves" in arrays else None

        boosting.restore(forest, scores)
        watch.best, watch.best_value, watch.scores[:] = best, best_value, eval_scores
        watch.best_trees = boosting.trees[:n_best]
        if leaves is not None:
            watch.best_trees = _with_values(watch.best_trees, leaves)
        for curve, found in zip(curves, points):
            curve[:] = found

    def _names(self, what: str) -> list[str]:
        """The arrays of the evaluation sets: of each its scores, and a curve for each metric."""
        if what == "scores":
            return [f"eval_{number}/scores" for number in range(len(self.watch.scores))]
        return [f"eval_{i}/curve_{j}" for i, curves in enumerate(self.watch.evals.values()) for j in range(len(curves))]

    def _refuse_other_keys(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        required = {*FOREST_ARRAYS, "scores", "best_value", *self._names("scores"), *self._names("curve")}
        wrong = (required ^ arrays.keys()) - {"best_leaves"} | (meta.keys() ^ {"run", "best", "best_trees"})
        if wrong:
            raise ValueError(f"{min(wrong)[:60]!r} is missing, or not known")


def _count(meta: Mapping[str, Any], key: str, most: int) -> int:
    value = meta[key]
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{key} must be an integer from 0 to {most}")
    return value


def _numbers(arrays: Mapping[str, np.ndarray], name: str, length: int, unset: float | None = None) -> np.ndarray:
    """A copy of stored numbers that training can change; all are finite, or `unset`."""
    found = arrays[name]
    if found.dtype != np.float64 or found.shape != (length,):
        raise ValueError(f"{name} has dtype {found.dtype} and shape {found.shape}, not float64 and ({length},)")
    other = found[~np.isfinite(found)]
    if len(other) and (unset is None or not np.array_equal(other, np.full(len(other), unset), equal_nan=True)):
        raise ValueError(f"{name} holds a number that is not finite")
    return found.copy()


def _with_values(trees: Sequence[TreeArrays], values: np.ndarray) -> list[TreeArrays]:
    ends = np.cumsum([len(tree.value) for tree in trees])
    return [replace(tree, value=values[end - len(tree.value) : end]) for tree, end in zip(trees, ends.tolist())]
