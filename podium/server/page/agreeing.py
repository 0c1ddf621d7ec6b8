"""Agreement of raters: Krippendorff's alpha for ordered labels.

alpha = 1 - observed / expected disagreement: 1 if raters always agree, 0 if labels go with documents by chance, below 0
if they contradict each other. Any number of raters, each of whom may have judged only a part. The distance of two
labels is ordinal: the number of labels between them on the scale, as often as each was given, squared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np


def krippendorff_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """`units`: the labels of each document, one per rater.

    None where it is not defined: no document has two labels, or all labels are the same one.

    >>> round(krippendorff_alpha([(4, 4), (0, 0), (3, 1)]), 4)
    0.9495
    """
    units_of = Counter(tuple(sorted(unit)) for unit in units if len(unit) > 1)  # few are different
    if not units_of:
        return None
    scale = np.unique([label for unit in units_of for label in unit])
    coincidences = np.zeros((len(scale), len(scale)))
    for unit, number in units_of.items():
        counts = np.bincount(np.searchsorted(scale, unit), minlength=len(scale))
        coincidences += number * (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    totals = coincidences.sum(axis=1)
    distances = _ordinal_distances(totals)
    expected = (np.outer(totals, totals) - np.diag(totals)) * distances
    if expected.sum() == 0:
        return None
    return float(1.0 - (totals.sum() - 1.0) * (coincidences * distances).sum() / expected.sum())


def _ordinal_distances(totals: np.ndarray) -> np.ndarray:
    """(labels, labels): (n_c / 2 + n_between + n_k / 2)^2."""
    middles = np.cumsum(totals) - totals / 2
    distances: np.ndarray = (middles[:, None] - middles[None, :]) ** 2
    return distances
