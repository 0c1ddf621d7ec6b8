"""Fitting: the steps of any learner, watched by a monitor, kept in checkpoints.

A checkpoint holds all that the next step depends on: the learner's state, the curves, and what early stopping
remembers. So the resumed run ends in the same bytes as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.formats.kinds import CHECKPOINT
from podium.learners.monitor import Monitor
from podium.learners.protocol import Learner
from podium.learners.stored import read_count, read_numbers, refuse_other_names
from podium.persistence.checkpoints import Checkpoints, checksum


def run_steps(learner: Learner, monitor: Monitor, n_steps: int, keeper: Keeper | None = None) -> None:
    """Take steps until there are `n_steps`, or the monitor or the learner ends it."""
    while learner.n_steps < n_steps and not learner.is_done:
        before = learner.n_steps
        learner.step()
        if learner.n_steps == before or monitor.after_step():  # no step was left to take, or it was the last
            return
        if keeper is not None:
            keeper.after_step()


class Keeper:
    """Writes the state of a training every few steps, and continues from it."""

    def __init__(
        self, checkpoints: Checkpoints, learner: Learner, monitor: Monitor, n_steps: int, description: dict[str, str]
    ) -> None:
        self.checkpoints, self.learner, self.monitor, self.n_steps = checkpoints, learner, monitor, n_steps
        self._steps_before = learner.n_steps
        _, arrays = learner.state(learner.snapshot())
        start = checksum([arrays[name] for name in sorted(arrays)])
        before = f"{counted(learner.n_steps, learner.unit)}, checksum {start}"
        self.description = description | {"what it starts from": before}

    def after_step(self) -> None:
        """Write; but not after the last step, as the model follows at once."""
        done = self.learner.n_steps
        if done % self.checkpoints.every == 0 and done < self.n_steps:
            self.checkpoints.write(*self._parts())

    def resume(self) -> None:
        """Continue from the file, if there is one and it is of this run."""
        path, found = self.checkpoints.path, self.checkpoints.read()
        if found is None:
            return
        meta, arrays = found
        self.checkpoints.refuse_other_run(self.description, meta["run"])
        try:
            self._restore(meta, arrays)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CHECKPOINT.damaged(path, f"its content is not understood: {error}") from error
        done, unit = self.learner.n_steps, self.learner.unit
        self.checkpoints.say(f"{path}: resuming after {done:,} of {counted(self.n_steps, unit)}.")

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        meta, arrays = self.learner.state(self.monitor.best_snapshot)
        watched, curves = self.monitor.state()
        return {"run": self.description} | meta | watched, arrays | curves

    def _restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Check the monitor's part, let the learner check its own and continue, then continue with the monitor."""
        names = {*self.monitor.curve_names(), "best_value"}
        refuse_other_names({"best", "run"}, meta.keys() & {"best", "run"})
        refuse_other_names(names, arrays.keys() & names)
        best, best_value = read_count(meta, "best", self.n_steps), read_numbers(arrays, "best_value", 1, unset=-np.inf)
        own = {name: array for name, array in arrays.items() if name not in names}
        steps = self.learner.checked_steps(own) - self._steps_before
        curves = {name: read_numbers(arrays, name, steps, unset=np.nan).tolist() for name in self.monitor.curve_names()}
        snapshot = self.learner.restore({key: meta[key] for key in meta.keys() - {"best", "run"}}, own)
        self.monitor.restore(best, float(best_value[0]), snapshot, curves)
