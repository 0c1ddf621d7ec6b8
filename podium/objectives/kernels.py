"""The pair frame: one row of pairs, whatever the loss.

All pair losses are functions of a margin `o = s_i - s_j`, so the gradients of the two documents are equal and
opposite, and one loop serves all losses: a row pairs document i with documents 0 .. count - 1, each pair with a
weight whose sign is positive where i is the better document, and a loss is a formula for `-dC/do` and `d2C/do2`.

Documents are kept worst first (by score for lambdas, by label for plain pairs). A row is then always the beginning of
the arrays: loops start at 0, which Numba needs to vectorise them, and no slice is made. Rows are rounded up to whole
blocks whose spare pairs have weight 0.

The order of every sum is fixed, and no product is contracted into one: a document takes its rows one by one, and the
sum of its own row is made in lanes. So the bits are those of every other processor, and of a GPU.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, copied_kernel, kernel
from podium._runtime.numeric.lanes import lane_sizes, lane_sums
from podium.objectives.pair_losses import (
    BELL,
    EVEN,
    EXPONENTIAL,
    FLATTEST,
    HINGE,
    LOGISTIC,
    SQUARED_HINGE,
    exp32,
    pair_cost,
    pair_terms32,
)

BLOCK = 8
FARTHEST = 1e30  # differences of scores are clipped here, so that they fit float32 with room for sums

# scores, weights of the row, negative gradients (sums of -dC/ds), hessians (sums of d2C/ds2): float32; exact scores:
# float64; both terms of the pairs of a row: float32.
# Rows take the arrays one by one: taking them out of the tuple counts references, which costs more than a short row.
PairWorkspace = tuple[Array, Array, Array, Array, Array, Array, Array]

_F4 = np.float32


def make_pair_workspace(longest: int) -> PairWorkspace:
    """Working arrays for lists of up to `longest` documents, with room for the last block."""
    n = longest + BLOCK
    return (
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.float64),
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
    )


@copied_kernel
def formula_row(
    loss: int,
    i: int,
    count: int,
    scores: Array,
    weights: Array,
    gradient_sums: Array,
    hessian_sums: Array,
    row_gradients: Array,
    row_hessians: Array,
) -> None:
    """`pair_row` for one formula, known where this is copied to."""
    score, size = scores[i], (count + BLOCK - 1) // BLOCK * BLOCK
    for j in range(size):
        distance, weight = score - scores[j], weights[j]
        slope, bend = pair_terms32(loss, distance if weight > _F4(0.0) else -distance)
        gradient, hessian = weight * slope, abs(weight) * bend
        gradient_sums[j] -= gradient
        hessian_sums[j] += hessian
        row_gradients[j], row_hessians[j] = gradient, hessian
    gradient, hessian = lane_sums(row_gradients, row_hessians, size)
    gradient_sums[i] += gradient
    hessian_sums[i] += hessian


@copied_kernel
def logistic_row(
    summed: bool,
    i: int,
    scores: Array,
    powers: Array,
    weights: Array,
    gradient_sums: Array,
    hessian_sums: Array,
    row_gradients: Array,
    row_hessians: Array,
    nearest: np.float32,
    inverse: np.float32,
) -> np.float32:
    """`formula_row` of the logistic loss for all documents before i, from `powers`, which are e^score.

    rho is the share of the worse document in the sum of both: one division per pair and no exponential. `summed` says
    whether each pair's weight is divided by `nearest + inverse |o|`, by the same division, and the absolute
    gradients are added up.
    """
    score, power, size = scores[i], powers[i], (i + BLOCK - 1) // BLOCK * BLOCK
    for j in range(size):
        weight, other = weights[j], powers[j]
        share = power + other
        if summed:
            far = nearest + inverse * abs(score - scores[j])
            both = _F4(1.0) / (share * far)
            weight *= both * share
            share = both * far
        else:
            share = _F4(1.0) / share
        gradient = weight * (share * (other if weight > _F4(0.0) else power))
        hessian = abs(weight) * ((share * power) * (share * other))
        gradient_sums[j] -= gradient
        hessian_sums[j] += hessian
        row_gradients[j], row_hessians[j] = gradient, hessian
    gradient, hessian = lane_sums(row_gradients, row_hessians, size)
    gradient_sums[i] += gradient
    hessian_sums[i] += hessian
    return lane_sizes(row_gradients, size) if summed else _F4(0.0)


@copied_kernel
def load_powers(n: int, middle: np.float32, scores: Array, powers: Array) -> None:
    """e^(score - middle) of n documents; sigmoids stay as they are where that is larger than e^FLATTEST."""
    for k in range(n):
        powers[k] = exp32(min(max(scores[k] - middle, _F4(-FLATTEST)), _F4(FLATTEST)))


@copied_kernel
def pair_row(
    loss: int,
    i: int,
    count: int,
    scores: Array,
    weights: Array,
    gradient_sums: Array,
    hessian_sums: Array,
    row_gradients: Array,
    row_hessians: Array,
) -> None:
    """Add the pairs of document i with documents 0 .. count - 1 to the negative gradients and hessians.

    `weights[:count]` hold the pairs' signed weights, and 0 from there to the end of the block. Each branch is a loop of
    its own with only its formula in it: a choice inside the loop would keep it from vectorising.
    """
    if loss == LOGISTIC:
        formula_row(LOGISTIC, i, count, scores, weights, gradient_sums, hessian_sums, row_gradients, row_hessians)
    elif loss == EVEN:
        formula_row(EVEN, i, count, scores, weights, gradient_sums, hessian_sums, row_gradients, row_hessians)
    elif loss == HINGE:
        formula_row(HINGE, i, count, scores, weights, gradient_sums, hessian_sums, row_gradients, row_hessians)
    elif loss == SQUARED_HINGE:
        formula_row(SQUARED_HINGE, i, count, scores, weights, gradient_sums, hessian_sums, row_gradients, row_hessians)
    elif loss == EXPONENTIAL:
        formula_row(EXPONENTIAL, i, count, scores, weights, gradient_sums, hessian_sums, row_gradients, row_hessians)
    else:
        formula_row(BELL, i, count, scores, weights, gradient_sums, hessian_sums, row_gradients, row_hessians)


@kernel
def cost_row(loss: int, i: int, count: int, scores: Array, weights: Array) -> float:
    """The weighted costs of the pairs of document i with documents 0 .. count - 1; scores are the exact ones."""
    total = 0.0
    for j in range(count):
        if weights[j] != 0.0:
            o = scores[i] - scores[j]
            total += abs(np.float64(weights[j])) * pair_cost(loss, o if weights[j] > 0.0 else -o)
    return total


@kernel
def load_scores(
    scores: Array, places: Array, largest: float, sigma: float, exactly: bool, workspace: PairWorkspace
) -> None:
    """`sigma * (scores[places] - largest)` of one query into the workspace; sums of gradients and hessians begin at 0.

    Only differences count: taking them from the largest score in float64 first keeps small ones from being lost. The
    float64 copy is made only if asked for. Places are unsigned: Numba guards signed ones against being negative.
    """
    single, gradient_sums, hessian_sums, exact = workspace[0], workspace[2], workspace[3], workspace[4]
    for k in range(len(places)):
        single[k] = _F4(max((scores[places[k]] - largest) * sigma, -FARTHEST))
    for k in range(len(places) + BLOCK):
        gradient_sums[k] = _F4(0.0)
        hessian_sums[k] = _F4(0.0)
    if exactly:
        for k in range(len(places)):
            exact[k] = max((scores[places[k]] - largest) * sigma, -FARTHEST)


@kernel
def store_derivatives(
    places: Array, first: float, second: float, workspace: PairWorkspace, gradients: Array, hessians: Array
) -> None:
    """Gradients are `-first * gradient_sums`, hessians `second * hessian_sums`, in the order of the query's rows."""
    gradient_sums, hessian_sums = workspace[2], workspace[3]
    for k in range(len(places)):
        gradients[places[k]] = _F4(-first * gradient_sums[k])
        hessians[places[k]] = _F4(second * hessian_sums[k])
