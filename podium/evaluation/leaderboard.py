"""The order of a leaderboard, for models of an experiment and trials of tuning alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

Name = TypeVar("Name")


def best_first(values: Mapping[Name, float], higher_is_better: bool) -> list[Name]:
    """Names by their values, the best first; equal ones in their order, those without a value (NaN) last."""
    sign = -1 if higher_is_better else 1
    return sorted(values, key=lambda name: (math.isnan(values[name]), sign * values[name]))
