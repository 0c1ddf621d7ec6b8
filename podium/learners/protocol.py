"""What every learner has in common: named steps, evaluation sets it keeps scored, and a state that can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from podium.data.ranking import RankingData


class Target(Protocol):
    """What a learner needs of an objective that is bound to the training rows."""

    @property
    def has_loss(self) -> bool: ...
    @property
    def is_smooth(self) -> bool: ...
    @property
    def is_random(self) -> bool: ...
    @property
    def adds_up(self) -> bool: ...
    @property
    def total_weight(self) -> float: ...
    def begin(self, iteration: int) -> None: ...
    def start(self) -> float: ...
    def derivatives(self, scores: np.ndarray, gradients: np.ndarray, hessians: np.ndarray) -> None: ...
    def loss(self, scores: np.ndarray) -> float: ...


class Learner(Protocol):
    """A model in training. A step that raises leaves `n_steps` and `snapshot()` as they were."""

    followed: list[np.ndarray]  # current scores of each evaluation set, float64

    @property
    def n_steps(self) -> int:
        """Steps done, with those of a model that training started from."""

    @property
    def is_done(self) -> bool:
        """Whether further steps would change nothing."""

    def step(self) -> None:
        """One more step, on the training rows and on the scores that are followed; none where that ends training."""

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        """Keep the scores of further rows up to date; `offset`: what they have from an init model."""

    def snapshot(self) -> Any:
        """The parameters after the last step; later steps do not change it."""

    def keep(self, snapshot: Any) -> None:
        """Return to the parameters of a snapshot; training ends here."""

    def state(self, best: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that the next step depends on, and the snapshot of the best step, as JSON values and arrays."""

    def checked_steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        """`n_steps` of a stored state, as far as it can be trusted to say so."""

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        """Continue from what `state` returned, checked before anything changes; returns the best snapshot."""
