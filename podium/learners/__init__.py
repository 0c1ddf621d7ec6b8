"""Learners: how models are fitted. The names below are what a learner of your own is made with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.learners.linear.weighted import WeightedFeatures as WeightedFeatures
    from podium.learners.protocol import Learner as Learner

_HOME = {"Learner": "podium.learners.protocol", "WeightedFeatures": "podium.learners.linear.weighted"}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'podium.learners' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
