"""Which models take given pairs in place of labels, and what the others answer."""

from __future__ import annotations

from typing import Any

from podium.data.given_pairs import GivenPairs
from podium.data.ranking import RankingData
from podium.models.frame.plan import TrainingPlan
from podium.models.frame.ranker import Ranker
from podium.models.registry import ModelEntry, catalogue


def check_takes_pairs(model: Ranker, plan: TrainingPlan[Any], pairs: Any) -> None:
    """Refuse pairs where they would be ignored."""
    if pairs is None or plan.takes_pairs:
        return
    name, objective = type(model).__name__, getattr(plan.objective, "name", None)
    problem = f"{name} takes no pairs" + ("" if objective is None else f" with the objective {objective!r}")
    listed = ", ".join(models_that_take_pairs())
    others = "models with a pairwise objective, such as MART(objective='ranknet')"
    raise ValueError(f"{problem}; those that do are {listed}, and other {others}.")


def read_pairs(pairs: Any, data: RankingData) -> GivenPairs | None:
    """Pairs of rows of the data, as the grouped rows have them."""
    return None if pairs is None else GivenPairs.read(pairs, data.rows, data.offsets)


def models_that_take_pairs() -> list[str]:
    """Names of models that take pairs as they are by default."""
    return [entry.class_name for entry in catalogue() if _takes_pairs(entry)]


def _takes_pairs(entry: ModelEntry) -> bool:
    try:
        return entry.kind().training_plan().takes_pairs
    except (TypeError, ValueError, ImportError, NotImplementedError):  # a plugin that needs parameters, or an extra
        return False
