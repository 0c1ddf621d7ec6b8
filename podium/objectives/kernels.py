"""The pair frame: one row of pairs, whatever the loss.

All pair losses are functions of a margin `o = s_i - s_j`, so the gradients of the two documents are equal and
opposite, and one loop serves all losses: a row pairs document i with documents 0 .. count - 1, each pair with a
weight whose sign is positive where i is the better document, and a loss is a formula for `-dC/do` and `d2C/do2`.

Documents are kept worst first (by score for lambdas, by label for plain pairs). A row is then always the beginning of
the arrays: loops start at 0, which Numba needs to vectorise them, and no slice is made. Rows are rounded up to whole
blocks whose spare pairs have weight 0.
"""

from __future__ import annotations

import math

import numpy as np

from podium._runtime.compiler import fast_kernel, inlined_kernel, kernel

LOGISTIC, EVEN, HINGE, SQUARED_HINGE, EXPONENTIAL, BELL = range(6)

BLOCK = 8
STEEPEST = 60.0  # the exponential loss goes on as a straight line where -o is larger: sums of e^60 still fit float32
FLATTEST = 35.0  # sigmoids stay as they are where |o| is larger, 6e-16 from their ends
FARTHEST = 1e30  # differences of scores are clipped here, so that they fit float32 with room for sums

# scores, weights of the row, negative gradients (sums of -dC/ds), hessians (sums of d2C/ds2): float32; exact scores:
# float64.
# Rows take the arrays one by one: taking them out of the tuple counts references, which costs more than a short row.
PairWorkspace = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

_F4, _I4 = np.float32, np.int32


def make_pair_workspace(longest: int) -> PairWorkspace:
    """Working arrays for lists of up to `longest` documents, with room for the last block."""
    n = longest + BLOCK
    return (
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.float64),
    )


@fast_kernel
def exp32(x: np.float32) -> np.float32:
    """`e^x` in float32 for |x| <= 87, with relative error 2e-7: `2^k` by the exponent bits, `2^f` by a polynomial.

    `math.exp` is a call and stops a loop from vectorising. The degree-5 coefficients are the minimax fit of `2^f` for
    |f| <= 1/2.
    """
    power = x * _F4(1.4426950408889634)
    biased = _I4(power + _F4(127.5))  # rounds to the nearest: the sum is positive
    f = power - _F4(_I4(biased - _I4(127)))
    p = _F4(1.3276471979e-3)
    for coefficient in (9.6755413342e-3, 5.5507132735e-2, 0.24022119724, 0.69314696706, 1.0000000717):
        p = p * f + _F4(coefficient)
    return p * _I4(biased << _I4(23)).view(np.float32)


@inlined_kernel
def pair_terms(form: int, o: np.float32) -> tuple[np.float32, np.float32]:
    """(-dC/do, d2C/do2) of one pair, with `rho = 1 / (1 + e^o)`.

    logistic: C = log(1 + e^-o); even (equal labels): C = o/2 + log(1 + e^-o); hinge: C = max(0, 1 - o), whose second
    derivative is 0 and replaced by 1 inside the margin; squared hinge: its square; exponential: C = e^-o;
    bell: C = rho, with `|d2C/do2| <= rho (1 - rho)` in place of the second derivative.
    """
    one, zero = _F4(1.0), _F4(0.0)
    if form == HINGE:
        inside = one if o < one else zero
        return inside, inside
    if form == SQUARED_HINGE:
        gap = max(one - o, zero)
        return gap + gap, _F4(2.0) if gap > zero else zero
    if form == EXPONENTIAL:
        cost = exp32(min(max(-o, _F4(-87.0)), _F4(STEEPEST)))
        return cost, cost
    rise = exp32(min(max(o, _F4(-FLATTEST)), _F4(FLATTEST)))
    rho = one / (one + rise)
    second = rho * (rho * rise)  # rho rise = 1 - rho, without the difference of two numbers near 1
    if form == EVEN:
        return rho - _F4(0.5), second
    if form == BELL:
        return second, second
    return rho, second


@inlined_kernel
def formula_row(
    form: int,
    i: int,
    count: int,
    scores: np.ndarray,
    weights: np.ndarray,
    gradient_sums: np.ndarray,
    hessian_sums: np.ndarray,
) -> None:
    """`pair_row` for one formula, known where this is copied to."""
    own, gradient_sum, hessian_sum = scores[i], _F4(0.0), _F4(0.0)
    for j in range((count + BLOCK - 1) // BLOCK * BLOCK):
        distance, weight = own - scores[j], weights[j]
        slope, bend = pair_terms(form, distance if weight > _F4(0.0) else -distance)
        gradient, hessian = weight * slope, abs(weight) * bend
        gradient_sums[j] -= gradient
        hessian_sums[j] += hessian
        gradient_sum += gradient
        hessian_sum += hessian
    gradient_sums[i] += gradient_sum
    hessian_sums[i] += hessian_sum


@inlined_kernel
def logistic_row(
    summed: bool,
    i: int,
    scores: np.ndarray,
    powers: np.ndarray,
    weights: np.ndarray,
    gradient_sums: np.ndarray,
    hessian_sums: np.ndarray,
    nearest: np.float32,
    inverse: np.float32,
) -> np.float32:
    """`formula_row` of the logistic loss for all documents before i, from `powers`, which are e^score.

    rho is the share of the worse document in the sum of both: one division per pair and no exponential. `summed` says
    whether each pair's weight is divided by `nearest + inverse |o|`, by the same division, and the absolute
    gradients are added up.
    """
    own, power, gradient_sum, hessian_sum, strength = scores[i], powers[i], _F4(0.0), _F4(0.0), _F4(0.0)
    for j in range((i + BLOCK - 1) // BLOCK * BLOCK):
        weight, other = weights[j], powers[j]
        share = power + other
        if summed:
            far = nearest + inverse * abs(own - scores[j])
            both = _F4(1.0) / (share * far)
            weight *= both * share
            share = both * far
        else:
            share = _F4(1.0) / share
        gradient = weight * (share * (other if weight > _F4(0.0) else power))
        hessian = abs(weight) * ((share * power) * (share * other))
        gradient_sums[j] -= gradient
        hessian_sums[j] += hessian
        gradient_sum += gradient
        hessian_sum += hessian
        if summed:
            strength += abs(gradient)
    gradient_sums[i] += gradient_sum
    hessian_sums[i] += hessian_sum
    return strength


@inlined_kernel
def load_powers(n: int, middle: np.float32, scores: np.ndarray, powers: np.ndarray) -> None:
    """e^(score - middle) of n documents; sigmoids stay as they are where that is larger than e^FLATTEST."""
    for k in range(n):
        powers[k] = exp32(min(max(scores[k] - middle, _F4(-FLATTEST)), _F4(FLATTEST)))


@inlined_kernel
def pair_row(
    form: int,
    i: int,
    count: int,
    scores: np.ndarray,
    weights: np.ndarray,
    gradient_sums: np.ndarray,
    hessian_sums: np.ndarray,
) -> None:
    """Add the pairs of document i with documents 0 .. count - 1 to the negative gradients and hessians.

    `weights[:count]` hold the pairs' signed weights, and 0 from there to the end of the block. Each branch is a loop of
    its own with only its formula in it: a choice inside the loop would keep it from vectorising.
    """
    if form == LOGISTIC:
        formula_row(LOGISTIC, i, count, scores, weights, gradient_sums, hessian_sums)
    elif form == EVEN:
        formula_row(EVEN, i, count, scores, weights, gradient_sums, hessian_sums)
    elif form == HINGE:
        formula_row(HINGE, i, count, scores, weights, gradient_sums, hessian_sums)
    elif form == SQUARED_HINGE:
        formula_row(SQUARED_HINGE, i, count, scores, weights, gradient_sums, hessian_sums)
    elif form == EXPONENTIAL:
        formula_row(EXPONENTIAL, i, count, scores, weights, gradient_sums, hessian_sums)
    else:
        formula_row(BELL, i, count, scores, weights, gradient_sums, hessian_sums)


@kernel
def pair_cost(form: int, o: float) -> float:
    """The cost of one pair, in float64: the functions whose derivatives `pair_terms` gives."""
    if form == HINGE:
        return max(1.0 - o, 0.0)
    if form == SQUARED_HINGE:
        return max(1.0 - o, 0.0) ** 2
    if form == EXPONENTIAL:
        return math.exp(min(-o, STEEPEST)) * (1.0 + max(-o - STEEPEST, 0.0))
    if form == BELL:
        return 1.0 / (1.0 + math.exp(min(o, 700.0)))
    logistic = max(-o, 0.0) + math.log1p(math.exp(-abs(o)))
    return logistic + 0.5 * o if form == EVEN else logistic


@kernel
def cost_row(form: int, i: int, count: int, scores: np.ndarray, weights: np.ndarray) -> float:
    """The weighted costs of the pairs of document i with documents 0 .. count - 1; scores are the exact ones."""
    total = 0.0
    for j in range(count):
        if weights[j] != 0.0:
            o = scores[i] - scores[j]
            total += abs(np.float64(weights[j])) * pair_cost(form, o if weights[j] > 0.0 else -o)
    return total


@fast_kernel
def load_scores(
    scores: np.ndarray, places: np.ndarray, largest: float, sigma: float, exactly: bool, workspace: PairWorkspace
) -> None:
    """`sigma * (scores[places] - largest)` of one query into the workspace; sums of gradients and hessians begin at 0.

    Only differences count: taking them from the largest score in float64 first keeps small ones from being lost. The
    float64 copy is made only if asked for. Places are unsigned: Numba guards signed ones against being negative.
    """
    single, _, gradient_sums, hessian_sums, exact = workspace
    for k in range(len(places)):
        single[k] = _F4(max((scores[places[k]] - largest) * sigma, -FARTHEST))
    for k in range(len(places) + BLOCK):
        gradient_sums[k] = _F4(0.0)
        hessian_sums[k] = _F4(0.0)
    if exactly:
        for k in range(len(places)):
            exact[k] = max((scores[places[k]] - largest) * sigma, -FARTHEST)


@fast_kernel
def store_derivatives(
    places: np.ndarray,
    first: float,
    second: float,
    workspace: PairWorkspace,
    gradients: np.ndarray,
    hessians: np.ndarray,
) -> None:
    """Gradients are `-first * gradient_sums`, hessians `second * hessian_sums`, in the order of the query's rows."""
    gradient_sums, hessian_sums = workspace[2], workspace[3]
    for k in range(len(places)):
        gradients[places[k]] = _F4(-first * gradient_sums[k])
        hessians[places[k]] = _F4(second * hessian_sums[k])
