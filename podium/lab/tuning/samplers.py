"""Samplers: which settings to try next. Optuna learns from the trials so far; random search needs nothing installed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from podium._runtime.words import check_choice
from podium.lab.tuning.spaces import Choices, Space

SAMPLERS = ("auto", "optuna", "random")
_STARTUP_TRIALS = 5  # complete before any other is compared with them


@dataclass(frozen=True, eq=False)
class Proposal:
    """Settings to be tried; `trial` is Optuna's, which compares them with earlier ones."""

    settings: dict[str, Any]
    trial: Any = None

    def is_hopeless(self, step: int, value: float) -> bool:
        """Whether to end the trial, which has reached `value` (more is better) after so many steps."""
        if self.trial is None:
            return False
        self.trial.report(value, step)
        return bool(self.trial.should_prune())


class Sampler(Protocol):
    """Proposes settings, and takes note of their results."""

    name: str

    def ask(self) -> Proposal: ...

    def tell(self, proposal: Proposal, value: float | None, pruned: bool) -> None:
        """value: more is better; None where the trial failed or was pruned."""
        ...


def make_sampler(name: str, space: Space, first: Mapping[str, Any] | None, seed: int, n_steps: int) -> Sampler:
    """`first`: settings to be tried first. n_steps: how many steps a training has."""
    check_choice("sampler", name, SAMPLERS)
    installed = find_spec("optuna") is not None
    if name == "optuna" and not installed:
        raise ValueError(
            'sampler="optuna" needs Optuna, which is not installed. '
            'Install it with: pip install "podium[tune]"; or use sampler="random".'
        )
    if name == "optuna" or (name == "auto" and installed):
        return OptunaSampler(space, first, seed, n_steps)
    return RandomSampler(space, first, seed)


class RandomSampler:
    """Independent draws."""

    name = "random"

    def __init__(self, space: Space, first: Mapping[str, Any] | None, seed: int) -> None:
        self._space, self._first = space, first
        self._rng = np.random.default_rng(seed)

    def ask(self) -> Proposal:
        first, self._first = self._first, None
        return Proposal(self._space.draw(self._rng) if first is None else dict(first))

    def tell(self, proposal: Proposal, value: float | None, pruned: bool) -> None:
        """Draws do not depend on results."""


class OptunaSampler:
    """A tree-structured Parzen estimator; trials below the median of the others at the same step are pruned."""

    name = "optuna"

    def __init__(self, space: Space, first: Mapping[str, Any] | None, seed: int, n_steps: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._space = optuna, space
        pruner = optuna.pruners.MedianPruner(n_startup_trials=_STARTUP_TRIALS, n_warmup_steps=n_steps // 5)
        sampler = optuna.samplers.TPESampler(seed=seed)
        self._study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        if first is not None:
            self._study.enqueue_trial({name: self._to_optuna(name, value) for name, value in first.items()})

    def ask(self) -> Proposal:
        trial = self._study.ask()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Optuna, about its values
            settings = {name: self._suggest(trial, name) for name in self._space.dimensions}
        return Proposal(settings, trial)

    def tell(self, proposal: Proposal, value: float | None, pruned: bool) -> None:
        state = self._optuna.trial.TrialState
        if value is not None:
            self._study.tell(proposal.trial, value)
        else:
            self._study.tell(proposal.trial, state=state.PRUNED if pruned else state.FAIL)

    def _to_optuna(self, name: str, value: Any) -> Any:
        dimension = self._space.dimensions[name]
        return dimension.index_of(value) if isinstance(dimension, Choices) else value

    def _suggest(self, trial: Any, name: str) -> Any:
        """Choices by their index: Optuna takes names and numbers only."""
        dimension = self._space.dimensions[name]
        if isinstance(dimension, Choices):
            return dimension.values[trial.suggest_categorical(name, list(range(len(dimension.values))))]
        suggest = trial.suggest_int if dimension.whole else trial.suggest_float
        return suggest(name, dimension.low, dimension.high, log=dimension.log)
