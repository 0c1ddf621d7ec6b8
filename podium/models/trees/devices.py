"""Devices: which learner grows the trees, by the parameter `device`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from podium._runtime.words import check_choice
from podium.models.frame.parameters import parameter

if TYPE_CHECKING:
    import numpy as np

    from podium.learners.trees.scoring.forest import Forest
    from podium.learners.trees.training.boosting import Boosting, BoostingRules

DEVICES = ("cpu", "cuda", "auto")


def device_parameter() -> Any:
    """Where trees are grown."""
    return parameter(
        "cpu",
        'Where trees are grown: on the "cpu", on an NVIDIA GPU ("cuda", extra `gpu`) with the same bytes, or "auto", '
        "on a GPU if there is one that does all that is asked. It is not saved.",
        choices=DEVICES,
    )


def learner_on(device: str, rows: Any, shard: Any, target: Any, rules: BoostingRules, **options: Any) -> Boosting:
    """Boosting on the CPU or on a GPU. "cuda" refuses by name what a GPU does not do, "auto" leaves it to the CPU."""
    from podium.learners.trees.training.boosting import Boosting

    if device == "cpu":
        return Boosting(rows, shard, target, rules, **options)
    from podium.learners.trees.cuda.device import NoGPU, why_not

    objective = target.on_cuda() if hasattr(target, "on_cuda") else None
    refused, missing = _why_refused(rules, objective, shard.is_whole), why_not()
    if device == "auto" and (refused or missing):
        return Boosting(rows, shard, target, rules, **options)
    if missing:
        raise NoGPU(missing)
    if refused or objective is None:
        raise ValueError(f'device="cuda" does not support {refused}. Use device="cpu", or "auto", which chooses.')
    from podium.learners.trees.cuda.boosting import CudaBoosting

    return CudaBoosting(rows, shard, target, rules, objective=objective, **options)


def _why_refused(rules: BoostingRules, objective: Any, is_whole: bool) -> str | None:
    from podium.learners.trees.cuda.boosting import why_refused

    return why_refused(rules, objective, is_whole)


def scores_on(device: str, forest: Forest, X: Any, n_trees: int | None, n_jobs: int | None) -> np.ndarray:
    """The scores of a forest, on the CPU or on a GPU."""
    check_choice("predict: device", device, DEVICES)
    if device == "cpu":
        return forest.scores(X, n_trees, n_jobs)
    from podium.learners.trees.cuda.device import NoGPU, why_not

    missing = why_not()
    if missing and device == "auto":
        return forest.scores(X, n_trees, n_jobs)
    if missing:
        raise NoGPU(missing)
    from podium.learners.trees.cuda.scoring import forest_scores

    return forest_scores(forest, X, n_trees)
