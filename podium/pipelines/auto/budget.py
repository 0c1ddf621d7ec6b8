"""The budget of AutoRanker: seconds since the choice began, without those of compiling kernels on their first use.

A candidate that would not leave enough time for the final training is not begun. Its cost is predicted from that of
candidates of its family on the same data. Where there is none yet, the first steps of the training are the measurement,
and the training ends at the step at which it is clear that there is not enough time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from podium._runtime.kernels.compiling import compile_seconds

_SHARE = 0.05  # of the steps of a training that tell how long all of them take
_LEAST_STEPS = 3


class OutOfTime(Exception):
    """A candidate would take longer than the budget allows."""


@dataclass(eq=False)
class Budget:
    """Seconds that may be spent, and how many of them are left."""

    limit: float
    clock: Callable[[], float] = perf_counter
    compiled: Callable[[], float] = compile_seconds

    def __post_init__(self) -> None:
        self._compiled_before, self._started = self.compiled(), self.clock()

    def total(self) -> float:
        """Seconds since the budget began, with those of compiling."""
        return self.clock() - self._started

    def compiling(self) -> float:
        """Seconds of compiling since then."""
        return self.compiled() - self._compiled_before

    def elapsed(self) -> float:
        return self.total() - self.compiling()

    def left(self) -> float:
        return self.limit - self.elapsed()


@dataclass(eq=False)
class Watch:
    """The trainings of one candidate, one per fold, of which so many run at once.

    `rounds` trainings follow one another. The final training takes as long as `finals` of them, for which `of_group`
    seconds are set aside already; `reserved` seconds are needed for everything else that is still to be done.
    """

    budget: Budget
    rounds: int
    finals: float
    of_group: float
    reserved: float
    needed: float = 0.0  # seconds of one training, as predicted when the candidate was stopped
    longest: float = 0.0  # seconds of one training
    stopped: str = ""

    def __post_init__(self) -> None:
        self.allowed = self.budget.left() - self.reserved
        self._lock = threading.Lock()

    def needs(self, seconds: float) -> float:
        """Seconds of the candidate, where one training takes so many."""
        return self.rounds * seconds + max(self.finals * seconds, self.of_group)

    def training(self) -> FoldWatch:
        """Of the training that begins now; OutOfTime if the candidate was stopped meanwhile."""
        if self.stopped:
            raise OutOfTime(self.stopped)
        return FoldWatch(self, self.budget.elapsed())

    def refuse(self, seconds: float, steps: int, total: int) -> None:
        """OutOfTime if trainings of so many seconds each would not leave enough time."""
        needed = self.needs(seconds)
        with self._lock:
            if needed > self.allowed and not self.stopped:
                self.needed = seconds
                about = f"after {steps:,} of {total:,} steps it was clear that it needs {needed:.2f} s"
                self.stopped = f"{about}, and there were {max(self.allowed, 0.0):.2f} s for it"
        if self.stopped:
            raise OutOfTime(self.stopped)

    def ended(self, seconds: float) -> None:
        with self._lock:
            self.longest = max(self.longest, seconds)


@dataclass(eq=False)
class FoldWatch:
    """A callback of `fit` that stops one of these trainings."""

    watch: Watch
    began: float
    first: float | None = None  # seconds until the first step was done: transforms, bins, pairs

    def __call__(self, progress: Any) -> None:
        seconds, steps, total = self._seconds(), progress.iteration, progress.total
        self.first = seconds if self.first is None else self.first
        is_measured = steps >= max(_LEAST_STEPS, _SHARE * total) and progress.model.step_word != "round"
        if is_measured:  # solvers, whose steps are rounds, end when they have converged
            seconds += (total - steps) * (seconds - self.first) / (steps - 1)
        self.watch.refuse(seconds, steps, total)

    def end(self) -> None:
        self.watch.ended(self._seconds())

    def _seconds(self) -> float:
        return self.watch.budget.elapsed() - self.began
