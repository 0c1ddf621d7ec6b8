"""Objectives by name: `parse_objective("lambda", metric="ndcg@10")`, with a hint for a typing slip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from podium._runtime.words import check_choice, did_you_mean
from podium.objectives.base import Objective

if TYPE_CHECKING:
    from podium.objectives.custom import Derivatives

_HOME = {
    "squared": ("pointwise", "Squared"),
    "logistic": ("pointwise", "Logistic"),
    "ordinal": ("pointwise", "Ordinal"),
    "query_rmse": ("centred", "QueryRMSE"),
    "ranknet": ("pairwise", "RankNet"),
    "hinge": ("pairwise", "Hinge"),
    "squared_hinge": ("pairwise", "SquaredHinge"),
    "exponential": ("pairwise", "Exponential"),
    "lambda": ("lambdas", "Lambda"),
    "listnet": ("listwise", "ListNet"),
    "listmle": ("likelihood", "ListMLE"),
    "xendcg": ("listwise", "XENDCG"),
    "approxndcg": ("approximate", "ApproxNDCG"),
    "bayesrank": ("bayesrank", "BayesRank"),
}  # name -> module and class


class _Classes(Mapping[str, type[Objective]]):
    """The classes by name; each is imported when it is asked for, as scoring needs none."""

    def __getitem__(self, name: str) -> type[Objective]:
        module, class_name = _HOME[name]
        found: type[Objective] = getattr(import_module(f"podium.objectives.{module}"), class_name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOME)

    def __len__(self) -> int:
        return len(_HOME)

    def __contains__(self, name: object) -> bool:
        return name in _HOME


OBJECTIVES = _Classes()


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
