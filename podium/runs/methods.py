"""Methods of fusion: what a run says about a document (its points), and how the points of several runs are combined.

In formulas, r is the rank of a document in a run from 1, n the documents of the run, c those of all runs together, m
the runs that retrieved the document, w the weight of a run and s the normalized score. Every method is one of a few
ways to combine points, with its own points and its own factor of m; kernels know only those.

References: Fox and Shaw, TREC-2 (CombSUM and its kin); Aslam and Montague, SIGIR 2001 (Borda); Cormack, Clarke and
Buettcher, SIGIR 2009 (reciprocal rank); Mourao, Martins and Magalhaes, TREC 2013 (ISR); Wu and Crestani, CIKM 2002
(wmnz); Bailey, Moffat, Scholer and Thomas, SIGIR 2017 (rbc).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.words import check_choice

# How points are combined; of these, sums are linear in the weights.
SUM, LEAST, MOST, MIDDLE, SUM_OF_WEIGHTS = range(5)
# What points are made from.
PLAIN, MIN_MAX, Z_SCORE, SHARE, MAXIMUM, RANK, BORDA, BORDA_SHARE, TABLE = range(9)
USES_RANKS = (RANK, BORDA, BORDA_SHARE, TABLE)

NORMALIZATIONS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "none": (PLAIN, "the score itself"),
        "min-max": (MIN_MAX, "(score - min) / (max - min)"),
        "z-score": (Z_SCORE, "(score - mean) / standard deviation"),
        "sum": (SHARE, "(score - min) / sum of (score - min)"),
        "max": (MAXIMUM, "score / max"),
        "rank": (RANK, "1 - (r - 1) / n"),
        "borda": (BORDA_SHARE, "1 - (r - 1) / c; of a document that is not in the run, 1/2 - (n - 1) / (2 c)"),
    }
)
_OTHER_NORMALIZATIONS = {"zscore": "z-score", "zmuv": "z-score", "minmax": "min-max", "min_max": "min-max"}


@dataclass(frozen=True)
class Method:
    """One row of the table: points, how they are combined, and at most one parameter."""

    name: str
    formula: str
    points: int = PLAIN  # PLAIN: those of a normalization
    combine: int = SUM
    factor: Callable[[Array, float], Array] | None = None  # of m, for sums
    table: Callable[[Array, float], Array] | None = None  # points of the ranks from 1
    parameter: str = ""
    value: float = 0.0
    limits: tuple[float, float] = (0.0, np.inf)

    def __str__(self) -> str:
        return f"{self.name}({self.parameter}={self.value:g})" if self.parameter else self.name

    @property
    def uses_scores(self) -> bool:
        return self.points == PLAIN

    @property
    def is_linear(self) -> bool:
        """Whether the fused score is a sum of points times weights."""
        return self.combine == SUM

    @property
    def takes_weights(self) -> bool:
        return self.combine in (SUM, SUM_OF_WEIGHTS)

    def factors(self, n_runs: int) -> Array:
        """The factor of a sum, by the number of runs that retrieved a document, from 0."""
        if self.factor is None:
            return np.ones(n_runs + 1)
        return np.concatenate([np.zeros(1), self.factor(np.arange(1.0, n_runs + 1), self.value)])

    def rank_points(self, longest: int) -> Array:
        ranks = np.arange(1.0, longest + 1)
        return np.empty(0) if self.table is None else np.asarray(self.table(ranks, self.value))


def _power(m: Array, gamma: float) -> Array:
    return np.asarray(m**gamma)


def _logarithm(m: Array, sigma: float) -> Array:
    return np.asarray(np.log(m + sigma))


def _inverse_square(ranks: Array, _: float) -> Array:
    return np.asarray(1.0 / (ranks * ranks))


_ROWS = (
    Method(
        "rrf",
        "sum of w / (k + r)",
        TABLE,
        table=lambda ranks, k: 1.0 / (k + ranks),
        parameter="k",
        value=60.0,
    ),
    Method("combsum", "sum of w s"),
    Method("combmnz", "m x sum of w s", factor=lambda m, _: m),
    Method("combanz", "sum of w s / m", factor=lambda m, _: 1.0 / m),
    Method("combgmnz", "m^gamma x sum of w s", factor=_power, parameter="gamma", value=1.0, limits=(-10.0, 10.0)),
    Method("mixed", "sqrt(m) x sum of w s", factor=lambda m, _: np.sqrt(m)),
    Method("wmnz", "sum of w x sum of s, over the runs that retrieved the document", combine=SUM_OF_WEIGHTS),
    Method("combmin", "the smallest s", combine=LEAST),
    Method("combmax", "the largest s", combine=MOST),
    Method("combmed", "the median s", combine=MIDDLE),
    Method("borda", "sum of w (c - r + 1), of a run without the document w (c - n + 1) / 2", BORDA),
    Method("isr", "m x sum of w / r^2", TABLE, factor=lambda m, _: m, table=_inverse_square),
    Method("log-isr", "ln m x sum of w / r^2", TABLE, factor=lambda m, _: np.log(m), table=_inverse_square),
    Method(
        "logn-isr",
        "ln(m + sigma) x sum of w / r^2",
        TABLE,
        factor=_logarithm,
        table=_inverse_square,
        parameter="sigma",
        value=0.01,
        limits=(0.0, 1.0),
    ),
    Method(
        "rbc",
        "sum of w (1 - phi) phi^(r - 1)",
        TABLE,
        table=lambda ranks, phi: (1.0 - phi) * phi ** (ranks - 1.0),
        parameter="phi",
        value=0.8,
        limits=(0.0, 1.0),
    ),
)
METHODS: Mapping[str, Method] = MappingProxyType({row.name: row for row in _ROWS})
_OTHER_METHODS = {
    **{"wsum": "combsum", "bordafuse": "borda", "w-bordafuse": "borda", "reciprocal-rank": "rrf"},
    **{short: f"comb{short}" for short in ("sum", "mnz", "anz", "gmnz", "min", "max", "med")},
}
_CALL = re.compile(r"\s*([A-Za-z_-]+)\s*(?:\(\s*(?:(\w+)\s*=)?\s*([^\s=()]+)\s*\))?\s*")


def parse_method(text: str | Method) -> Method:
    """`rrf`, `rrf(k=10)`, `rbc(0.9)`, ..., or a Method itself. Names of ranx are known too."""
    if isinstance(text, Method):
        return text
    call = _CALL.fullmatch(text) if isinstance(text, str) else None
    name = call[1].lower().replace("_", "-") if call else text
    name = _OTHER_METHODS.get(name, name)
    check_choice("method", name, METHODS)
    method = METHODS[name]
    if call is None or call[3] is None:
        return method
    if not method.parameter:
        raise ValueError(f"method {name} has no parameter; got {text!r}.")
    check_choice(f"parameter of {name}", call[2] or method.parameter, [method.parameter])
    return replace(method, value=_number(method, call[3], text))


def _number(method: Method, word: str, text: str) -> float:
    low, high = method.limits
    try:
        number = float(word)
    except ValueError:
        raise ValueError(f"expected a method such as '{method}'; got {text!r}.") from None
    if not (low <= number <= high and np.isfinite(number)):
        wanted = f"{low:g} or larger" if high == np.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{method.parameter} of {method.name} must be a number {wanted}; got {number:g}.")
    return number


def points_of(method: Method, normalization: str | None) -> int:
    """Which points are added up; "min-max" is the default of methods that use scores."""
    if normalization is not None:
        normalization = _OTHER_NORMALIZATIONS.get(normalization, normalization)
        check_choice("normalization", normalization, NORMALIZATIONS)
    if method.uses_scores:
        return NORMALIZATIONS[normalization or "min-max"][0]
    if normalization not in (None, "none"):
        raise ValueError(f"method {method.name} uses ranks, which need no normalization. Leave {normalization!r} out.")
    return method.points
