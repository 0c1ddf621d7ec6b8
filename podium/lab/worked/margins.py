"""Pairs and margins: the pairs of a query, the Gaussian kernel, RankSVM's constraints and slack."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from podium.lab.worked.example import MARGINS, Example, formula, number
from podium.learners.kernel_functions import gaussian
from podium.metrics import parse_metric
from podium.models.svm import RankSVM
from podium.objectives import Hinge

_NO_MARGIN = (
    "The constraints of the hard margin are printed without the 1 of the page before, w.phi_i >= w.phi_j. Then w = 0 "
    "fulfils all of them."
)
_BRACKET = (
    "The bracket is closed behind w.phi_j, w.[phi_i - w.phi_j], a vector minus a number. It is w.phi_i - w.phi_j."
)


def margin_examples() -> Iterator[Example]:
    reverse = np.array([1.0, 2.0, 3.0, 4.0])
    what = "number of pairs of the labels 4 3 2 1"
    yield number(MARGINS, what, "6", "3 + 2 + 1", parse_metric("inversions").value(reverse))
    yield number(MARGINS, "0.04 times a Gaussian at 5, at x = 5", "0.04", "0.04 * exp(0)", 0.04 * gaussian(0.0, 0.5))
    half = "0.04 * exp(-(7 - 5)**2 / (2 * 2**2))"
    ours = 0.04 * gaussian((7.0 - 5.0) ** 2, 1 / (2 * 2.0**2))
    yield formula(MARGINS, "0.04 times a Gaussian at 5, at x = 7, sigma = 2", half, half, ours)
    yield from _ranksvm()


def _ranksvm() -> Iterator[Example]:
    model = RankSVM(C=1e6).fit(np.array([[2.0], [0.0]]), [1, 0], qid=[1, 1])
    weight = float(model.coef_[0])
    what = "RankSVM, one pair with x = 2 and 0, hard margin"
    yield formula(MARGINS, f"{what}: w", "0", "1 / (2 - 0)", weight, _NO_MARGIN)
    yield formula(MARGINS, f"{what}: margin 1/|w|", "1 / (1/2)", "1 / (1/2)", 1 / abs(weight))
    what = "slack of a pair with phi 2 and 1, w = 1/2"
    slack = Hinge().bind([1.0, 0.0], [0, 2]).loss(np.array([1.0, 0.5]))
    yield formula(MARGINS, what, "1 - 1/2 * (2 - 1/2 * 1)", "1 - (1/2 * 2 - 1/2 * 1)", slack, _BRACKET)
    swapped = Hinge().bind([1.0, 0.0], [0, 2]).loss(np.array([0.5, 1.0]))
    yield formula(MARGINS, "slack of this pair when it is swapped, above 1", "1 - (1/2 - 1)", "1 - (1/2 - 1)", swapped)
