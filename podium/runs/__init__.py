"""Runs beside each other: several systems' answers to the same queries, fused, pooled and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium._runtime.lazy import lazy_names

if TYPE_CHECKING:
    from podium.runs.fusing import fuse as fuse
    from podium.runs.methods import METHODS as METHODS
    from podium.runs.methods import NORMALIZATIONS as NORMALIZATIONS
    from podium.runs.overlapping import Overlap as Overlap
    from podium.runs.overlapping import overlap as overlap
    from podium.runs.pooling import Pool as Pool
    from podium.runs.pooling import pool as pool
    from podium.runs.tuning import TunedFusion as TunedFusion
    from podium.runs.tuning import tune_fusion as tune_fusion

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "fusing": ("fuse",),
        "methods": ("METHODS", "NORMALIZATIONS"),
        "overlapping": ("Overlap", "overlap"),
        "pooling": ("Pool", "pool"),
        "tuning": ("TunedFusion", "tune_fusion"),
    },
)
