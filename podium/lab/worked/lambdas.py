"""RankNet's pairs, the lambdas of LambdaRank and the leaves of LambdaMART; Plackett-Luce and the line search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import numpy as np

from podium.lab.worked.example import DERIVATIVES, RANKNET, SURVEY, Example, formula, number
from podium.metrics import line_search
from podium.models.trees.named import LambdaMART
from podium.objectives import Lambda, ListMLE, Objective, RankNet

_SECOND_SUM = (
    "The lambda of a document adds the lambdas of pairs in which it is better and subtracts those in which it is "
    "worse. The second sum is printed with the indices of the first, lambda_ij; for pairs (j, i) of I it is lambda_ji."
)
_SIGN_OF_STEP = (
    "The step is printed as + eta dC/dw, to maximise NDCG. But the lambda is the derivative of a cost to be minimised, "
    "so + eta pushes the better document down; the step is - eta dC/dw."
)
_SIGN_OF_LEAF = (
    "Lambda points where the score is to go, and its derivative w is negative, so sum of lambda / sum of w has the "
    "wrong sign. The weights are to be minus that derivative, which is positive."
)
_SIGN_OF_RESIDUAL = (
    "The trees are fitted to lambdas that are the gradient of the cost, and called its negative. Then the leaf of the "
    "better document is negative. The residual is minus this lambda."
)
_SIGN_OF_COST = (
    "The cost is called a target to be maximised, and -C minimised. C is a cross entropy: it falls when the better "
    "document rises."
)


def lambda_examples() -> Iterator[Example]:
    yield from _ranknet()
    yield from _middle_document()
    yield from _lambdarank()
    yield from _lambdamart()
    yield from _cost_of_the_notes()
    yield from _lists()


def _derivatives(objective: Objective, scores: Sequence[float], labels: Sequence[float]) -> np.ndarray:
    """Gradients and hessians of one query, (2, documents)."""
    pair = np.empty((2, len(scores)), np.float32)
    objective.bind(labels, [0, len(scores)]).derivatives(np.array(scores, dtype=np.float64), *pair)
    return pair


def _loss(objective: Objective, scores: Sequence[float], labels: Sequence[float]) -> float:
    return objective.bind(labels, [0, len(scores)]).loss(np.array(scores, dtype=np.float64))


def _ranknet() -> Iterator[Example]:
    ties = RankNet(ties=True)
    cases = (("better", "1", (1.0, 0.0)), ("worse", "0", (0.0, 1.0)), ("as good", "0.5", (1.0, 1.0)))
    for relation, target, labels in cases:
        # At equal scores the model says 1/2, and the derivative is 1/2 minus the target.
        ours = 0.5 - _derivatives(ties, [0.0, 0.0], labels)[0, 0]
        yield number(RANKNET, f"target of a pair whose first document is {relation}", target, target, ours)
    plain = _loss(RankNet(), [0.5, 0.0], [1.0, 0.0])
    yield formula(
        RANKNET, "RankNet's cost at o = 0.5, target 1", "-1 * 0.5 + ln(1 + exp(0.5))", "ln(1 + exp(-0.5))", plain
    )
    yield formula(SURVEY, "LambdaMART's cost at o = 0.5", "-0.5 + ln(1 + exp(0.5))", "ln(1 + exp(-0.5))", plain)
    o = log(0.2 / 0.8)  # where the model says 0.2
    ours = _derivatives(ties, [o, 0.0], [1.0, 0.0])[0]
    yield number(RANKNET, "RankNet's lambda, predicted 0.2, target 1", "-0.8", "0.2 - 1", ours[0])
    what = "predicted of the two documents in the other order, and their lambda, target 0"
    yield number(RANKNET, what, "0.8", "1 - 0.2 - 0", ours[1])
    alpha = RankNet(sigma=1.7, ties=True)
    inputs = "at o = 0.37, alpha = 1.7"
    cost = "(1 - 0)/2 * 1.7 * 0.37 + ln(1 + exp(-1.7*0.37))"
    yield formula(SURVEY, f"RankNet's cost {inputs}, S = 0", cost, cost, _loss(alpha, [0.37, 0.0], [1.0, 1.0]))
    cost, reverse = "(1 + 1)/2 * 1.7 * 0.37 + ln(1 + exp(-1.7*0.37))", "ln(1 + exp(1.7*0.37))"
    yield formula(SURVEY, f"RankNet's cost {inputs}, S = -1", cost, reverse, _loss(alpha, [0.37, 0.0], [0.0, 1.0]))
    for s, labels in ((1, (1.0, 0.0)), (0, (1.0, 1.0)), (-1, (0.0, 1.0))):
        by_hand = f"1.7 * ((1 - {s})/2 - 1/(1 + exp(1.7*0.37)))".replace("- -", "+ ")
        ours = _derivatives(alpha, [0.37, 0.0], labels)[0, 0]
        yield formula(SURVEY, f"derivative of RankNet's cost {inputs}, S = {s}", by_hand, by_hand, ours)


def _middle_document() -> Iterator[Example]:
    """Labels 2 1 0 and scores 1 0 0: the middle document is worse than the first and better than the last."""
    ours = _derivatives(RankNet(), [1.0, 0.0, 0.0], [2.0, 1.0, 0.0])[0, 1]
    what = "lambda of the middle document: labels 2 1 0, scores 1 0 0"
    correct = "-1/(1 + exp(0)) + 1/(1 + exp(1))"
    # The first lecture's lambda_ij is the predicted minus the target probability, the second's -1/(1 + exp(s_i - s_j)).
    yield formula(RANKNET, what, "(1/2 - 1) - (1/(1 + exp(1)) - 0)", correct, ours, _SECOND_SUM)
    yield formula(SURVEY, what, "-1/(1 + exp(0)) + 1/(1 + exp(-1))", correct, ours, _SECOND_SUM)
    positive = "1/(1 + exp(0)) - 1/(1 + exp(1))"
    yield formula(DERIVATIVES, f"{what}; minus the gradient", positive, positive, -ours)


_DELTA = "(1 - 1/log2(3))"  # of NDCG, two documents of which one is relevant
_RHO = "1/(1 + exp(0.5))"


def _lambdarank() -> Iterator[Example]:
    gradients, hessians = _derivatives(Lambda("ndcg"), [0.5, 0.0], [1.0, 0.0])
    what = "labels 1 0, scores 0.5 0, NDCG"
    first, second = f"-{_DELTA} * {_RHO}", f"{_DELTA} * {_RHO} * (1 - {_RHO})"
    yield formula(RANKNET, f"LambdaRank's lambda of the better document: {what}", first, first, gradients[0])
    yield formula(DERIVATIVES, f"first derivative of the better document: {what}", first, first, gradients[0])
    upwards = f"{_DELTA} * {_RHO}"
    yield formula(DERIVATIVES, f"first derivative of the worse document: {what}", upwards, upwards, gradients[1])
    yield formula(DERIVATIVES, f"second derivative of either document: {what}", second, second, hessians[0])
    what = f"LambdaRank's step of the better document, eta = 1: {what}"
    yield formula(SURVEY, what, first, f"{_DELTA} * {_RHO}", -gradients[0], _SIGN_OF_STEP)


def _lambdamart() -> Iterator[Example]:
    """One tree on two documents with equal scores: each leaf has one."""
    stump: dict[str, Any] = {"max_leaf_nodes": 2, "min_samples_leaf": 1, "feature_fraction": 1.0, "extra_trees": False}
    model = LambdaMART(n_estimators=1, learning_rate=1.0, min_hessian=0, normalize=None, **stump)
    leaf = model.fit(np.array([[0.0], [1.0]]), [0, 1], qid=[1, 1]).forest_.value[2]
    lam, weight = f"{_DELTA} / 2", f"{_DELTA} / 4"
    what = "LambdaMART: leaf of the better of two documents with equal scores"
    printed, correct = f"({lam}) / (-{weight})", f"({lam}) / ({weight})"
    yield formula(RANKNET, what, f"(-{lam}) / ({weight})", correct, leaf, _SIGN_OF_RESIDUAL)
    for source in (SURVEY, DERIVATIVES):
        yield formula(source, what, printed, correct, leaf, _SIGN_OF_LEAF)


def _cost_of_the_notes() -> Iterator[Example]:
    pair = Lambda("ndcg")
    by_hand = f"{_DELTA} * ln(1 + exp(-0.5))"
    before, after = (_loss(pair, [score, 0.0], [1.0, 0.0]) for score in (0.5, 1.0))
    yield formula(DERIVATIVES, "cost of the pair: labels 1 0, scores 0.5 0, NDCG", by_hand, by_hand, before)
    cost, printed = (
        f"{_DELTA} * (ln(1 + exp(-1)) - ln(1 + exp(-0.5)))",
        f"{_DELTA} * (ln(1 + exp(-0.5)) - ln(1 + exp(-1)))",
    )
    what = "change of what is minimised, when the better document rises from 0.5 to 1"
    yield formula(DERIVATIVES, what, printed, cost, after - before, _SIGN_OF_COST)


def _lists() -> Iterator[Example]:
    likelihood = np.exp(-_loss(ListMLE(), np.log([2.0, 1.0, 1.0]).tolist(), [2.0, 1.0, 0.0]))
    by_hand = "2/(2 + 1 + 1) * 1/(1 + 1)"
    yield formula(SURVEY, "Plackett-Luce probability of the order of weights 2, 1, 1", by_hand, by_hand, likelihood)
    search = line_search([2, 1], [0, 3], [0, 1], qid=[1, 1], metric="ndcg")
    what = "line search: scores 2 1 and 0 3, labels 0 1: where they cross"
    yield formula(SURVEY, what, "(2 - 1) / ((2 - 1) + (3 - 0))", "1 / 4", search.plateau[0])
    yield formula(SURVEY, "line search: NDCG behind the crossing", "1", "1", search.value)
