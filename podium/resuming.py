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

from podium._words import counted
from podium.checkpoints import Checkpoints, checksum
from podium.formats.kinds import CHECKPOINT
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest, TreeArrays
from podium.learners.trees.training.boosting import Boosting


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
        for number, (scores, curves) in enumerate(zip(watch.scores, watch.evals.values())):
            arrays[f"eval_{number}/scores"] = scores
            for place, curve in enumerate(curves.values()):
                arrays[f"eval_{number}/curve_{place}"] = np.array(curve, np.float64)
        return {"run": self.facts, "best": int(watch.best), "best_trees": len(watch.best_trees)}, arrays

    def _restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        boosting, watch = self.boosting, self.watch
        own = {name: arrays[name] for name in FOREST_ARRAYS}
        forest = Forest(**own, start=boosting.start, n_features=boosting.X.shape[1])
        forest.check()
        boosting.restore(forest, _like(boosting.scores, arrays["scores"]))
        watch.best, watch.best_value = int(meta["best"]), float(arrays["best_value"][0])
        watch.best_trees = boosting.trees[: int(meta["best_trees"])]
        if "best_leaves" in arrays:
            watch.best_trees = _with_values(watch.best_trees, arrays["best_leaves"])
        for number, curves in enumerate(watch.evals.values()):
            watch.scores[number] = _like(watch.scores[number], arrays[f"eval_{number}/scores"])
            for place, curve in enumerate(curves.values()):
                curve[:] = arrays[f"eval_{number}/curve_{place}"].tolist()


def _like(own: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """A copy of stored scores that training can add to."""
    if stored.shape != own.shape or stored.dtype != own.dtype:
        raise ValueError(f"scores of shape {stored.shape} instead of {own.shape}")
    return stored.copy()


def _with_values(trees: Sequence[TreeArrays], values: np.ndarray) -> list[TreeArrays]:
    ends = np.cumsum([len(tree.value) for tree in trees])
    if len(values) != ends[-1]:
        raise ValueError("the best trees have other leaves")
    return [replace(tree, value=values[end - len(tree.value) : end]) for tree, end in zip(trees, ends.tolist())]
