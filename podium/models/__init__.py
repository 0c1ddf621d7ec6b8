"""Models: the frame, the families, and their registry. The names below are what a model of your own is made with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from podium.models.registry import register_model

if TYPE_CHECKING:
    from podium.models.frame.parameters import parameter as parameter
    from podium.models.frame.parameters import parametrized as parametrized
    from podium.models.frame.plan import TrainingPlan as TrainingPlan
    from podium.models.frame.plan import TrainingRows as TrainingRows
    from podium.models.frame.ranker import FittedState as FittedState
    from podium.models.frame.ranker import Ranker as Ranker
    from podium.models.linear import LinearScores as LinearScores

_HOME = {
    "LinearScores": "podium.models.linear",
    "FittedState": "podium.models.frame.ranker",
    "Ranker": "podium.models.frame.ranker",
    "TrainingPlan": "podium.models.frame.plan",
    "TrainingRows": "podium.models.frame.plan",
    "parameter": "podium.models.frame.parameters",
    "parametrized": "podium.models.frame.parameters",
}

__all__ = ["register_model", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'podium.models' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
