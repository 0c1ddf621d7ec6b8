"""Objectives by name: `parse_objective("lambda", metric="ndcg@10")`, with a hint for a typing slip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from podium._runtime.registry import Registry
from podium._runtime.words import check_choice, did_you_mean
from podium.objectives.base import Objective

if TYPE_CHECKING:
    from podium.objectives.custom import Derivatives

Registered = TypeVar("Registered", bound=Callable[..., Any])

OBJECTIVES: Registry[type[Objective]] = Registry(
    "an objective",
    {
        "squared": "podium.objectives.pointwise:Squared",
        "logistic": "podium.objectives.pointwise:Logistic",
        "ordinal": "podium.objectives.pointwise:Ordinal",
        "query_rmse": "podium.objectives.pointwise:QueryRMSE",
        "ranknet": "podium.objectives.pairwise:RankNet",
        "hinge": "podium.objectives.pairwise:Hinge",
        "squared_hinge": "podium.objectives.pairwise:SquaredHinge",
        "exponential": "podium.objectives.pairwise:Exponential",
        "lambda": "podium.objectives.lambdas:Lambda",
        "listnet": "podium.objectives.listwise:ListNet",
        "listmle": "podium.objectives.likelihood:ListMLE",
        "xendcg": "podium.objectives.listwise:XENDCG",
        "approxndcg": "podium.objectives.approximate:ApproxNDCG",
        "bayesrank": "podium.objectives.bayesrank:BayesRank",
    },  # each is imported when it is asked for, as scoring needs none
)


def register_objective(objective: Registered) -> Registered:
    """Make an objective known by its name, from Python and on the command line; also as a decorator.

    A class of `Objective` has the name that it declares; a function of (scores, labels, offsets) that returns
    (gradients, hessians) has its own.
    """
    if isinstance(objective, type) and issubclass(objective, Objective):
        OBJECTIVES.register(objective.name, objective)
    elif callable(objective) and not isinstance(objective, type):
        from podium.objectives.custom import function_class

        OBJECTIVES.register(objective.__name__, function_class(objective))
    else:
        raise ValueError(f"an objective must be a class of Objective or a function; got {objective!r}.")
    return objective


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
        from podium.objectives.custom import Custom

        _check_settings(Custom, settings, allowed=[])
        return Custom(cast("Derivatives", objective))
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
