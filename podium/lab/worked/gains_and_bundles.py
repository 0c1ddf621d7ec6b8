"""LightGBM's ideas: the variance gain, one-side sampling (GOSS) and feature bundles (EFB)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from podium._runtime.random import stream_of
from podium.data.sharding.shard import Shard
from podium.lab.worked.example import LIGHTGBM, Example, formula
from podium.learners.trees.training.binning import BinnedRows, find_bin_edges
from podium.learners.trees.training.bundling import LayoutRules, bin_bundled
from podium.learners.trees.training.sampling import SamplingRules, draw_by_gradient
from podium.models.trees.named import Boosted
from podium.objectives import Custom

_LEFT_TWICE = (
    "Both terms of the variance gain sum the gradients of the left child; the second one is to be that of the right "
    "child, x > d. (1/n multiplies both.)"
)
_OF_THE_REST = (
    "The text draws b times the number of the remaining rows, the algorithm beside it b times the number of all rows. "
    "The factor (1 - a)/b belongs to the second: 8 * 10 rows stand for 80."
)
_EMPTY_BIN = (
    "No mistake, but one bin stays empty: the algorithm counts bin 0 of both features, and rows with 0 of the second "
    "one are in bin 0 of the bundle. Podium counts it once."
)


def lightgbm_examples() -> Iterator[Example]:
    yield from _variance_gain()
    yield from _goss()
    yield from _efb()


def _variance_gain() -> Iterator[Example]:
    """Three rows with x = 1, 2, 3 and gradients 3, 1, -1; the gain of the split is V without the parent's part."""
    gradients = np.array([3.0, 1.0, -1.0], np.float32)
    objective = Custom(lambda scores, labels, offsets: (gradients, np.ones(3, np.float32)))
    stump: dict[str, Any] = {"n_estimators": 1, "max_leaf_nodes": 2, "min_samples_leaf": 1, "min_hessian": 0}
    stump |= {"learning_rate": 0.1, "feature_fraction": 1.0, "extra_trees": False}
    model = Boosted(objective=objective, split_by="gradients").set_params(**stump)
    gain = model.fit(np.array([[1.0], [2], [3]]), [0, 1, 2], qid=[1, 1, 1]).forest_.split()[0].gain[0]
    ours = (gain + gradients.sum() ** 2 / 3) / 3
    what, correct = "variance gain V of gradients 3 | 1, -1", "(3**2/1 + (1 - 1)**2/2) / 3"
    yield formula(LIGHTGBM, what, "(3**2/1 + 3**2/2) / 3", correct, ours, _LEFT_TWICE)


def _goss() -> Iterator[Example]:
    """GOSS of 100 rows, of which 20 have the gradient 2 and the others 1."""
    gradients, hessians = np.ones((2, 100), np.float32)
    gradients[:20] = 2
    shard = Shard.whole(np.array([0, 100]))
    rows = draw_by_gradient(SamplingRules(goss=(0.2, 0.1)), shard, gradients, hessians, stream_of(0, 0))
    drawn = rows[rows >= 20]
    what = "GOSS of 100 rows, a = 0.2, b = 0.1"
    n_top = len(rows) - len(drawn)
    yield formula(LIGHTGBM, f"{what}: rows with the largest gradients", "0.2 * 100", "0.2 * 100", n_top)
    yield formula(LIGHTGBM, f"{what}: rows drawn, by the algorithm", "0.1 * 100", "0.1 * 100", len(drawn))
    by_text = "0.1 * (100 - 0.2 * 100)"
    yield formula(LIGHTGBM, f"{what}: rows drawn, by the text", by_text, "0.1 * 100", len(drawn), _OF_THE_REST)
    factor = "(1 - 0.2) / 0.1"
    yield formula(LIGHTGBM, f"{what}: factor of a drawn row", factor, factor, gradients[drawn[0]])


def _efb() -> Iterator[Example]:
    """Two features with bins 0 to 2 and 0 to 3, rarely both outside bin 0."""
    what, bundle = "EFB of features with 3 and 4 bins", _bundled()
    slots = bundle.columns[0].tolist()
    first, second, both, none = slots[1], slots[5], slots[7], slots[-1]
    yield formula(LIGHTGBM, f"{what}: bin 2 of the first", "2", "2", first)
    yield formula(LIGHTGBM, f"{what}: bin 2 of the second", "2 + 3", "2 + 2", second, _EMPTY_BIN)
    yield formula(LIGHTGBM, f"{what}: bins of the bundle", "3 + 4", "1 + 2 + 3", bundle.n_slots[0], _EMPTY_BIN)
    yield formula(LIGHTGBM, f"{what}: both in bin 0", "0", "0", none)
    yield formula(LIGHTGBM, f"{what}: bins 1 and 2, the later wins", "2 + 3", "2 + 2", both, _EMPTY_BIN)


def _bundled() -> BinnedRows:
    X = np.zeros((24, 2), np.float32)
    X[:4, 0] = [1, 2, 1, 2]
    X[4:7, 1] = [1, 2, 3]
    X[7] = [1, 2]
    rules = LayoutRules(bundle_features=True, max_conflicts=0.1)
    return bin_bundled(X, find_bin_edges(X), rules, seed=0, n_jobs=1)
