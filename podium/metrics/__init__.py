"""Ranked labels in, a number out; and what each swap would change.

Each name is imported on first use: who needs a formula only (`closed_forms.py`) needs no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.metrics.base import Metric as Metric
    from podium.metrics.line_searching import LineSearch as LineSearch
    from podium.metrics.line_searching import line_search as line_search
    from podium.metrics.lists import RankedLists as RankedLists
    from podium.metrics.policies import POLICIES as POLICIES
    from podium.metrics.policies import Policy as Policy
    from podium.metrics.policies import get_policy as get_policy
    from podium.metrics.registry import METRICS as METRICS
    from podium.metrics.registry import parse_metric as parse_metric
    from podium.metrics.registry import register_metric as register_metric

_HOME = {
    "Metric": "base",
    "LineSearch": "line_searching",
    "line_search": "line_searching",
    "RankedLists": "lists",
    "POLICIES": "policies",
    "Policy": "policies",
    "get_policy": "policies",
    "METRICS": "registry",
    "parse_metric": "registry",
    "register_metric": "registry",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'podium.metrics' has no attribute {name!r}")
    value = getattr(import_module(f"podium.metrics.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
