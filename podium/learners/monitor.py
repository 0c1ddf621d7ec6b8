"""Monitor: watches evaluation sets after each step of any learner, keeps the curves, and decides when to stop.

The first metric on the first evaluation set decides: after `early_stopping_rounds` steps without a new best value,
training ends, and the parameters of the best step are the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from podium._runtime.interrupts import check_interrupts
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate
from podium.learners.protocol import Learner
from podium.metrics.base import Metric

Curves = dict[str, dict[str, list[float]]]


class Monitor:
    """Early stopping, curves and callbacks of one training."""

    def __init__(
        self,
        learner: Learner,
        eval_sets: Mapping[str, RankingData],
        metrics: Sequence[Metric],
        early_stopping_rounds: int | None,
        report: Callable[[int, Curves], bool],
        n_jobs: int | None,
    ) -> None:
        """eval_sets: by name, in the order in which the learner follows them. metrics: with different names.

        `report(steps, curves)` is called after each step; True ends the training.
        """
        self.learner, self.eval_sets, self.metrics, self.n_jobs = learner, list(eval_sets.values()), metrics, n_jobs
        self.early_stopping_rounds, self._report = early_stopping_rounds, report
        self.curves: Curves = {name: {metric.name: [] for metric in metrics} for name in eval_sets}
        self.best, self.best_value, self.best_snapshot = 0, -np.inf, learner.snapshot()
        self._steps_before = learner.n_steps
        self.settle()

    def after_step(self) -> bool:
        """Evaluate, remember, report; whether training ends here."""
        values = [self._evaluate(number, metric) for number in range(len(self.eval_sets)) for metric in self.metrics]
        for curve, value in zip(self._all_curves(), values, strict=True):
            curve.append(value)
        if values:
            self._compare(values[0])
        self.settle()
        stops = self._report(self.learner.n_steps, self.curves)
        check_interrupts()
        rounds = self.early_stopping_rounds
        waited = rounds is not None and bool(values) and self.learner.n_steps - self.best >= rounds
        return stops or waited or self.learner.is_done

    def settle(self) -> None:
        """The step is done: one assignment, so that an interrupt finds it done or not begun."""
        self._settled = self.learner.n_steps, self.learner.snapshot(), self.best_snapshot

    @property
    def steps(self) -> int:
        """Completed steps, in this training and in the one that it was resumed from."""
        return int(self._settled[0]) - self._steps_before

    def result(self) -> tuple[Any, Curves]:
        """The snapshot that becomes the model, and one value per completed step of each curve."""
        _, last, best = self._settled
        curves = {
            part: {name: curve[: self.steps] for name, curve in known.items()} for part, known in self.curves.items()
        }
        return best if self.early_stopping_rounds is not None and self.eval_sets else last, curves

    def score_after(self, steps: int) -> float | None:
        """The value that decides, after so many steps; None where there is none."""
        curve, step = next(iter(self._all_curves()), []), steps - self._steps_before
        return curve[step - 1] if 0 < step <= len(curve) and np.isfinite(curve[step - 1]) else None

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What early stopping remembers, and the curves."""
        arrays = dict(zip(self.curve_names(), (np.array(curve, np.float64) for curve in self._all_curves())))
        return {"best": int(self.best)}, arrays | {"best_value": np.array([self.best_value], np.float64)}

    def restore(self, best: int, best_value: float, best_snapshot: Any, curves: Mapping[str, Sequence[float]]) -> None:
        """Continue from what `state` returned, after the learner did."""
        self.best, self.best_value, self.best_snapshot = best, best_value, best_snapshot
        for curve, name in zip(self._all_curves(), self.curve_names()):
            curve[:] = curves[name]
        self.settle()

    def curve_names(self) -> list[str]:
        return [f"eval_{i}/curve_{j}" for i, curves in enumerate(self.curves.values()) for j in range(len(curves))]

    def _all_curves(self) -> list[list[float]]:
        return [curve for curves in self.curves.values() for curve in curves.values()]

    def _compare(self, value: float) -> None:
        value *= 1 if self.metrics[0].higher_is_better else -1
        if self.early_stopping_rounds is not None and np.isnan(value):
            name, metric = next(iter(self.curves)), self.metrics[0].name
            raise ValueError(f"eval_set[{name!r}]: {metric} is undefined for all of its queries.")
        if value > self.best_value:
            self.best, self.best_value, self.best_snapshot = self.learner.n_steps, value, self.learner.snapshot()

    def _evaluate(self, number: int, metric: Metric) -> float:
        """By one metric at a time, as each has its own policy."""
        scores = self.learner.followed[number]
        return evaluate(scores, self.eval_sets[number], metrics=[metric], n_jobs=self.n_jobs)[metric.name]
