"""Objectives by name: `parse_objective("lambda", metric="ndcg@10")`, with a hint for a typing slip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, cast

from podium._runtime.words import check_choice, did_you_mean
from podium.objectives.approximate import ApproxNDCG
from podium.objectives.base import Objective
from podium.objectives.bayesrank import BayesRank
from podium.objectives.centred import QueryRMSE
from podium.objectives.custom import Custom, Derivatives
from podium.objectives.lambdas import Lambda
from podium.objectives.likelihood import ListMLE
from podium.objectives.listwise import XENDCG, ListNet
from podium.objectives.pairwise import Exponential, Hinge, RankNet, SquaredHinge
from podium.objectives.pointwise import Logistic, Ordinal, Squared

OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective
    for objective in (
        Squared,
        Logistic,
        Ordinal,
        QueryRMSE,
        RankNet,
        Hinge,
        SquaredHinge,
        Exponential,
        Lambda,
        ListNet,
        ListMLE,
        XENDCG,
        ApproxNDCG,
        BayesRank,
    )
}


def parse_objective(objective: str | Objective | Callable[..., Any], **settings: Any) -> Objective:
    """The objective with this name and these settings.

    A value is returned as it is, or varied by the settings; a class is called with them; a function of (scores, labels,
    offsets) that returns (gradients, hessians) becomes a `Custom` objective.

    >>> parse_objective("ranknet", sigma=2.0)
    RankNet(pair_exponent=0.0, sigma=2.0, ties=False)
    """
    if isinstance(objective, Objective):
        _check_settings(type(objective), settings)
        return replace(objective, **settings)
    if isinstance(objective, type) and issubclass(objective, Objective):
        _check_settings(objective, settings)
        return objective(**settings)
    if callable(objective):
        _check_settings(Custom, settings, allowed=[])
        return Custom(cast(Derivatives, objective))
    if not isinstance(objective, str):
        raise ValueError(f"objective must be a name, an Objective or a function; got {objective!r}.")
    name = objective.strip().lower()
    check_choice("objective", name, OBJECTIVES)
    _check_settings(OBJECTIVES[name], settings)
    return OBJECTIVES[name](**settings)


def _check_settings(kind: type[Objective], settings: dict[str, Any], allowed: list[str] | None = None) -> None:
    known = [field.name for field in fields(kind)] if allowed is None else allowed
    for name in settings:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"objective {kind.name!r} has no setting {name!r}; {has}.{did_you_mean(name, known)}")
