"""Scores, labels and queries in, the first and second derivative of a loss out.

Each name is imported on first use: a model that only scores needs no objective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium._runtime.lazy import lazy_names

if TYPE_CHECKING:
    from podium.objectives.approximate import ApproxNDCG as ApproxNDCG
    from podium.objectives.base import BoundObjective as BoundObjective
    from podium.objectives.base import Objective as Objective
    from podium.objectives.bayesrank import BayesRank as BayesRank
    from podium.objectives.custom import Custom as Custom
    from podium.objectives.lambdas import Lambda as Lambda
    from podium.objectives.likelihood import ListMLE as ListMLE
    from podium.objectives.listwise import XENDCG as XENDCG
    from podium.objectives.listwise import ListNet as ListNet
    from podium.objectives.pairwise import Exponential as Exponential
    from podium.objectives.pairwise import Hinge as Hinge
    from podium.objectives.pairwise import RankNet as RankNet
    from podium.objectives.pairwise import SquaredHinge as SquaredHinge
    from podium.objectives.pointwise import Logistic as Logistic
    from podium.objectives.pointwise import Ordinal as Ordinal
    from podium.objectives.pointwise import QueryRMSE as QueryRMSE
    from podium.objectives.pointwise import Squared as Squared
    from podium.objectives.registry import OBJECTIVES as OBJECTIVES
    from podium.objectives.registry import parse_objective as parse_objective
    from podium.objectives.registry import register_objective as register_objective

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "approximate": ("ApproxNDCG",),
        "base": ("BoundObjective", "Objective"),
        "bayesrank": ("BayesRank",),
        "custom": ("Custom",),
        "lambdas": ("Lambda",),
        "likelihood": ("ListMLE",),
        "listwise": ("ListNet", "XENDCG"),
        "pairwise": ("Exponential", "Hinge", "RankNet", "SquaredHinge"),
        "pointwise": ("Logistic", "Ordinal", "QueryRMSE", "Squared"),
        "registry": ("OBJECTIVES", "parse_objective", "register_objective"),
    },
)
