"""Ranked labels in, a number out; and what each swap would change.

Each name is imported on first use: who needs a formula only (`closed_forms.py`) needs no compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium._runtime.lazy import lazy_names

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

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "base": ("Metric",),
        "line_searching": ("LineSearch", "line_search"),
        "lists": ("RankedLists",),
        "policies": ("POLICIES", "Policy", "get_policy"),
        "registry": ("METRICS", "parse_metric", "register_metric"),
    },
)
