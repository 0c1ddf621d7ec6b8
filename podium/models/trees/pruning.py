"""Pruning: a trained model without the trees that do not pay, and what each step costs and saves.

Trees are tried in order of how much they move documents of a query against each other, the least first. A tree is left
out if the metric on other data than the training's stays within the tolerance of what the whole model reaches. Every
tree is tried once, so the time is trees x evaluation.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.evaluation.evaluating import evaluate
from podium.learners.trees.scoring.forest import Forest
from podium.learners.trees.scoring.walking import Scorer
from podium.metrics.base import Metric

if TYPE_CHECKING:
    from podium.models.trees.boosted import BoostedTrees

_STEPS_SHOWN = 10
_ROWS_TIMED = 2_000
_ROUNDS_TIMED = 5
_DECIMALS = 10


@dataclass(frozen=True)
class Step:
    """A model with fewer trees: its quality, and its time for a document on one thread."""

    n_trees: int
    value: float
    microseconds: float


@dataclass(frozen=True, eq=False)
class Pruning:
    """The pruned model and the steps to it. Print it for a table."""

    model: BoostedTrees
    metric: str
    steps: list[Step]

    def as_dict(self) -> dict[str, Any]:
        return {"metric": self.metric, "steps": [asdict(step) for step in self.steps]}

    def __str__(self) -> str:
        lines = [f"{'trees':>7}  {self.metric:>10}  us per document"]
        lines += [f"{step.n_trees:>7,}  {step.value:>10.4f}  {step.microseconds:>13.2f}" for step in self.steps]
        return "\n".join(lines)


def prune_forest(
    forest: Forest, data: RankingData, base: np.ndarray | float, metric: Metric, tolerance: float, n_jobs: int | None
) -> tuple[Forest, list[Step]]:
    """The forest without trees that do not pay, and the steps there."""
    scores = forest.scores(data.X, n_jobs=n_jobs) + base
    sign = 1 if metric.higher_is_better else -1

    def judge(candidate: np.ndarray) -> float:
        return float(evaluate(candidate, data, metrics=[metric], n_jobs=n_jobs)[metric.name])

    def step(trees: list[int]) -> Step:
        part = _take(forest, trees)
        return Step(part.n_trees, judge(part.scores(data.X, n_jobs=n_jobs) + base), _time_per_document(part, data.X))

    value = judge(scores)
    if np.isnan(value):
        raise ValueError(f"prune: {metric.name} is undefined for all queries of these data; nothing to judge by.")
    least = sign * value - tolerance
    trees = list(range(forest.n_trees))
    steps, interval = [step(trees)], max(1, forest.n_trees // _STEPS_SHOWN)
    for number in _least_moving(forest, data):
        trial = scores - _added(forest, number, data.X)
        # What was added and taken away again leaves rounding behind; equal scores must stay equal.
        if sign * judge(np.round(trial, _DECIMALS)) < least or len(trees) == 1:
            continue
        trees.remove(number)
        scores = trial
        if (forest.n_trees - len(trees)) % interval == 0:
            steps.append(step(trees))
    if steps[-1].n_trees != len(trees):
        steps.append(step(trees))
    return _take(forest, trees), steps


def _take(forest: Forest, numbers: list[int]) -> Forest:
    trees = forest.split()
    return Forest.join([trees[number] for number in numbers], forest.start, forest.n_features)


def _added(forest: Forest, number: int, X: FeatureMatrix) -> np.ndarray:
    """What one tree adds to each score."""
    added = np.zeros(X.shape[0])
    forest.add_scores(X, number, number + 1, added)
    return added


def _least_moving(forest: Forest, data: RankingData) -> list[int]:
    """The trees by how far they spread the documents of a query, the least first."""
    spread = []
    sizes = np.diff(data.offsets)
    for number in range(forest.n_trees):
        added = _added(forest, number, data.X)
        means = np.add.reduceat(added, data.offsets[:-1]) / sizes
        spread.append(float(((added - np.repeat(means, sizes)) ** 2).mean()))
    return [int(number) for number in np.argsort(spread, kind="stable")]


def _time_per_document(forest: Forest, X: FeatureMatrix) -> float:
    """Microseconds on one thread, the best of some rounds; picking features out of sparse rows is not counted."""
    part = slice(0, _ROWS_TIMED)
    if is_sparse(X):
        scorer, rows = Scorer(forest.narrowed.forest), forest.narrowed.take(X, part)
    else:
        scorer, rows = Scorer(forest), np.ascontiguousarray(X[part])
    best = np.inf
    for _ in range(_ROUNDS_TIMED):
        started = time.perf_counter()
        scorer.exact(rows)
        best = min(best, time.perf_counter() - started)
    return float(best / max(len(rows), 1) * 1e6)
