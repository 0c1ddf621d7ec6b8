"""Regression trees and boosting: impurity, MART on 17 points, and the start and leaf values of classification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from podium.lab.worked.example import DERIVATIVES, RANKNET, SURVEY, Example, formula, number
from podium.models.trees.named import MART, Boosted, RegressionTree
from podium.objectives import Logistic, Squared

# The lecture has its points in pictures only; these fall into the same groups.
POINTS = np.array(
    [
        *[(1, 4, 1), (1, 1, 1), (2, 8, 1), (4, 9, 1), (2, 8, 1)],
        *[(1, 1, 2), (4, 2, 2), (2, 7, 2), (3, 8, 2)],
        *[(6, 2, 3), (7, 3, 3), (9, 4, 3)],
        *[(7, 7, 4), (9, 8, 4), (6, 6, 4), (9, 9, 4), (8, 8, 4)],
    ],
    dtype=np.float64,
)
_ALL_SPLITS: dict[str, Any] = {"feature_fraction": 1.0, "extra_trees": False}
_ONE_STUMP: dict[str, Any] = {"max_leaf_nodes": 2, "min_samples_leaf": 1, **_ALL_SPLITS}

_ROUNDED_LEAF = "Rounded before subtracting: 1.444 - 2.471 is -1.027, but 13/9 - 42/17 is -1.0261."
_ROUNDED_RESIDUALS = (
    "The mean of residuals that were rounded before: (3 * -0.444 + 2 * 0.556 + 5 * 0.375) / 10 is 0.1655. "
    "Exactly it is 119/720 = 0.1653."
)
_SIGN_OF_GRADIENT = (
    "The derivative of the loss has a minus sign, which is missing; what the tree is fitted to is minus the "
    "derivative, and that is what is printed."
)
_SIGN_OF_NEWTON = (
    "First derivatives of the loss are divided by second ones, and the ratio is added: F - (-g'/g'') goes up the loss. "
    "Newton's step is minus the ratio."
)
_SIGN_IN_EXPONENT = (
    "The loss that a leaf minimises is printed as log(1 + exp(2 y alpha (F + gamma))), without the minus sign of the "
    "loss defined before it. Its Newton step goes the other way; the closed form that follows it is right."
)


def tree_examples() -> Iterator[Example]:
    yield from _impurity()
    yield from _mart()
    yield from _stump_of_the_survey()
    yield from _logistic_leaf()


def _stump() -> RegressionTree:
    return RegressionTree(**_ONE_STUMP).fit(POINTS[:, :2], POINTS[:, 2], qid=np.zeros(17, int))


def _impurity() -> Iterator[Example]:
    """The first split of the 17 labels: five 1, four 2 on the left, three 3, five 4 on the right."""
    scores = _stump().predict(POINTS[:, :2])
    what = "regression tree on 17 points: impurity G of the first split"
    left = "9/17 * (5/9 * (1 - 13/9)**2 + 4/9 * (2 - 13/9)**2) / 2"
    right = "8/17 * (3/8 * (3 - 29/8)**2 + 5/8 * (4 - 29/8)**2) / 2"
    yield number(RANKNET, what, "0.12", f"{left} + {right}", np.mean((POINTS[:, 2] - scores) ** 2) / 2)
    yield number(RANKNET, "regression tree on 17 points: mean on the left", "1.444", "(5*1 + 4*2) / 9", scores.min())
    yield number(RANKNET, "regression tree on 17 points: mean on the right", "3.625", "(3*3 + 5*4) / 8", scores.max())


def _mart() -> Iterator[Example]:
    model = MART(n_estimators=2, learning_rate=1.0, **_ONE_STUMP)
    model.fit(POINTS[:, :2], POINTS[:, 2], qid=np.zeros(17, int))
    yield from _first_tree(model)
    yield from _second_tree(model)


def _first_tree(model: MART) -> Iterator[Example]:
    forest, by_hand = model.forest_, "(5*1 + 4*2 + 3*3 + 5*4) / 17"
    yield number(RANKNET, "MART on 17 points: constant start F0", "2.471", by_hand, forest.start)
    residuals = -_squared_gradients(forest.start)
    for label, printed in ((1, "-1.471"), (2, "-0.471"), (3, "0.529"), (4, "1.529")):
        ours = residuals[POINTS[:, 2] == label][0]
        yield number(RANKNET, f"MART on 17 points: residual of label {label}", printed, f"{label} - 42/17", ours)
    lower, upper = forest.value[[1, 2]]
    yield number(RANKNET, "MART on 17 points: first tree, left leaf", "-1.027", "13/9 - 42/17", lower, _ROUNDED_LEAF)
    yield number(RANKNET, "MART on 17 points: first tree, right leaf", "1.154", "29/8 - 42/17", upper)
    first = np.unique(model.predict(POINTS[:, :2], n_trees=1))
    yield number(RANKNET, "MART on 17 points: F1 on the left", "2.471 - 1.027", "13/9", first[0])
    yield number(RANKNET, "MART on 17 points: F1 on the right", "2.471 + 1.154", "29/8", first[1])


def _second_tree(model: MART) -> Iterator[Example]:
    below = "(2*(1 - 13/9) + 2*(2 - 13/9) + 3*(3 - 29/8)) / 7"
    above = "(3*(1 - 13/9) + 2*(2 - 13/9) + 5*(4 - 29/8)) / 10"
    lower, upper = model.forest_.value[[4, 5]]
    yield number(RANKNET, "MART on 17 points: second tree, lower leaf", "-0.236", below, lower)
    yield number(RANKNET, "MART on 17 points: second tree, upper leaf", "0.166", above, upper, _ROUNDED_RESIDUALS)
    regions = (
        ("1.444 - 0.236", "13/9 - 17/72", ""),
        ("1.444 + 0.166", "13/9 + 119/720", ""),
        ("3.625 - 0.236", "29/8 - 17/72", ""),
        ("3.625 + 0.166", "29/8 + 119/720", _ROUNDED_RESIDUALS),
    )
    values = np.unique(model.predict(POINTS[:, :2]))
    for region, ((printed, by_hand, slip), ours) in enumerate(zip(regions, values), start=1):
        yield number(RANKNET, f"MART on 17 points: F2, region {region} of 4", printed, by_hand, ours, slip)


def _squared_gradients(score: float) -> np.ndarray:
    gradients, hessians = np.empty((2, 17), np.float32)
    Squared().bind(POINTS[:, 2], [0, 17]).derivatives(np.full(17, score), gradients, hessians)
    return gradients


def _stump_of_the_survey() -> Iterator[Example]:
    errors = POINTS[:, 2] - _stump().predict(POINTS[:, :2])
    by_hand = "5*(1 - 13/9)**2 + 4*(2 - 13/9)**2 + 3*(3 - 29/8)**2 + 5*(4 - 29/8)**2"
    yield formula(SURVEY, "stump on the same 17 points: sum of squares", by_hand, by_hand, np.sum(errors**2))


def _logistic_leaf() -> Iterator[Example]:
    """Two leaves of three documents, with labels 1 1 0 and 0 0 1, from scores 0: residuals 1, 1, -1 and -1, -1, 1."""
    model = Boosted(objective="logistic", n_estimators=1, learning_rate=1.0, min_hessian=0, **_ONE_STUMP)
    model.fit(np.array([[0.0], [0], [0], [1], [1], [1]]), [1, 1, 0, 0, 0, 1], qid=[1] * 6)
    leaf = model.forest_.value[1]
    gradient = _logistic_gradient()
    printed = "2 / (1 + exp(2 * 0.5))"
    what = "d log(1 + exp(-2 y F)) / dF at y = 1, F = 0.5"
    yield formula(SURVEY, what, printed, f"-{printed}", gradient, _SIGN_OF_GRADIENT)
    yield formula(RANKNET, "minus " + what, printed, printed, -gradient)
    what, newton = "leaf with labels +1 +1 -1, F = 0, alpha = 1", "(1 + 1 - 1) / (1*(2 - 1) + 1*(2 - 1) + 1*(2 - 1))"
    yield formula(SURVEY, f"{what}: closed form", newton, newton, leaf)
    backwards = "-(1 + 1 - 1) / (1 + 1 + 1)"
    yield formula(SURVEY, f"{what}: Newton step of the printed loss", backwards, newton, leaf, _SIGN_IN_EXPONENT)
    yield formula(DERIVATIVES, f"{what}: what a Newton step adds", backwards, newton, leaf, _SIGN_OF_NEWTON)
    start, by_hand = Logistic().bind([1.0, 1.0, 1.0, 0.0], [0, 4]).start(), "ln((3/4) / (1/4)) / 2"
    yield formula(SURVEY, "log odds at 3 of 4 positive labels, where boosting starts", by_hand, by_hand, start)


def _logistic_gradient() -> float:
    gradients, hessians = np.empty((2, 1), np.float32)
    Logistic().bind([1.0], [0, 1]).derivatives(np.array([0.5]), gradients, hessians)
    return float(gradients[0])
