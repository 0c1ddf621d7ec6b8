"""Why no tree of a training could split, and what to change.

The reason is not guessed: one tree is grown again with one rule lifted at a time, and the rule whose absence lets it
split is named. It only costs something where a training has come to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from podium._runtime.random import stream_of
from podium.learners.trees.scoring.forest import TreeArrays
from podium.learners.trees.training.boosting import Boosting, draw_dropped
from podium.learners.trees.training.sampling import draw_features

_LIFTED: dict[str, Any] = {"min_samples_leaf": 1, "min_hessian": 0.0, "min_gain": 0.0, "max_impurity": 0.0}
_DRAWN = ("feature_fraction",)
_ADVICE = {"feature_fraction": "Raise feature_fraction", "extra_trees": "Set extra_trees=False"}


def without_splits(trees: Sequence[TreeArrays]) -> bool:
    """Whether there are trees, and each of them is a single leaf."""
    return len(trees) > 0 and all(len(tree.value) == 1 for tree in trees)


def has_gradients(boosting: Boosting) -> bool:
    """Whether the last tree had anything to fit."""
    return bool(boosting.shard.any(np.array([np.any(boosting._gradients != 0)]))[0])


def explain_no_splits(boosting: Boosting) -> str:
    """`"no tree could split: 30 rows are fewer than twice min_samples_leaf=20. Lower min_samples_leaf."`"""
    return f"no tree could split: {_reason(boosting)}"


def _reason(boosting: Boosting) -> str:
    if not has_gradients(boosting):
        return "the gradients of all rows are 0. Check that the labels differ and that weights are not 0."
    binding = _binding(boosting)
    if len(binding) == 1:
        return f"{_words(boosting, binding[0])}. {_ADVICE.get(binding[0], f'Lower {binding[0]}')}."
    if binding:
        named = ", ".join(f"{name}={_shown(_value(boosting, name))}" for name in binding)
        others = [advice[0].lower() + advice[1:] for name, advice in _ADVICE.items() if name in binding]
        return f"{named} allow none together. Lower them{' (' * bool(others)}{', '.join(others)}{')' * bool(others)}."
    if any(boosting.rules.layout.signs):
        return f"the monotone constraints allow none, or {_nothing_to_tell(boosting)}."
    return f"{_nothing_to_tell(boosting)}. Check the features."


def _nothing_to_tell(boosting: Boosting) -> str:
    if hasattr(boosting.target, "pairs"):
        return "no feature tells the documents of the pairs apart"
    return "no feature tells rows apart that differ in their labels"


def _binding(boosting: Boosting) -> list[str]:
    """The rules that must be lifted, all of them, to let the tree split; none where that does not help."""
    growth = boosting.rules.growth
    unused = [*(["min_samples_leaf", "max_impurity"] if growth.growth == "oblivious" else [])]
    unused += ["min_hessian"] if growth.split_by == "gradients" else []
    unused += [] if growth.extra_trees else ["extra_trees"]
    lifted = [name for name in (*_LIFTED, *_DRAWN, "extra_trees") if name not in unused]
    if not _splits(boosting, lifted):
        return []
    for name in list(lifted):
        fewer = [other for other in lifted if other != name]
        if _splits(boosting, fewer):
            lifted = fewer
    return lifted


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, bool) else f"{value:g}"


def _value(boosting: Boosting, name: str) -> Any:
    return getattr(boosting.rules.sampling if name in _DRAWN else boosting.rules.growth, name)


def _words(boosting: Boosting, name: str) -> str:
    value, n = _value(boosting, name), _n_rows(boosting)
    if name == "min_samples_leaf" and n < 2 * value:
        rows = f"the {n:,} rows that a tree sees" if n < boosting.shard.n_rows else f"{n:,} rows"
        return f"{rows} are fewer than twice min_samples_leaf={value}"
    return {
        "min_samples_leaf": f"every split leaves fewer rows than min_samples_leaf={value} on one side",
        "min_hessian": f"every split leaves a sum of second derivatives below min_hessian={value:g} on one side",
        "min_gain": f"no split gains more than min_gain={value:g}",
        "max_impurity": f"the impurity of all rows is not above max_impurity={value:g} as it is",
        "feature_fraction": f"the features drawn by feature_fraction={value:g} allow none",
        "extra_trees": f"the thresholds drawn by extra_trees={value} allow none",
    }[name]


def _splits(boosting: Boosting, lifted: Sequence[str]) -> bool:
    """Whether the last tree would have split without these rules."""
    sample = np.sort(boosting.grower.index[: boosting.grower.n_sampled])
    free = {name: _LIFTED[name] for name in lifted if name in _LIFTED}
    grower = boosting.make_grower(replace(boosting.rules.growth, **free), 1)
    allowed = np.ones(boosting.X.shape[1], np.bool_) if "feature_fraction" in lifted else _drawn_features(boosting)
    drawn = boosting.rules.growth.extra_trees and "extra_trees" not in lifted
    stream = stream_of(boosting.rules.seed, len(boosting.trees) - 1) if drawn else None
    derivatives, weights = (boosting._gradients, boosting._hessians), boosting.split_weights
    return len(grower.grow(*derivatives, sample, allowed, stream, weights).feature) > 1


def _drawn_features(boosting: Boosting) -> np.ndarray:
    """Those of the last tree: its draws are the first of a generator that knows its number."""
    number = len(boosting.trees) - 1
    rng = np.random.Generator(np.random.PCG64([boosting.rules.seed, number]))
    draw_dropped(number, boosting.rules, rng)
    return draw_features(boosting.rules.sampling, boosting.X.shape[1], rng)


def _n_rows(boosting: Boosting) -> int:
    return int(boosting.trees[-1].count[0])
