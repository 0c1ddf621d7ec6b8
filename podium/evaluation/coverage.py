"""Coverage of judgements: how much of what a value of a run depends on is judged at all.

Beside a value of a measure with cutoff k stands judged@k, else the share of the whole list that is judged: what is not
judged counts as not relevant, so that a low coverage makes the value untrustworthy, the more so for systems that did
not contribute to the pool.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podium._runtime.compiler import Array
from podium.metrics.base import Metric
from podium.metrics.lists import RankedLists
from podium.metrics.measures.judgements import Judged
from podium.metrics.measures.profiles import ratio


def judged_shares(lists: RankedLists, metrics: Mapping[str, Metric]) -> dict[str, Array]:
    """Per metric the share of the documents it looks at that is judged, one per query; none for counts and texts."""
    covered = {name: metric for name, metric in metrics.items() if _has_coverage(metric)}
    if not covered or (not lists.is_sparse and lists.codes is None):
        return {}
    depths = {name: min(metric.cutoff or lists.longest, lists.longest) for name, metric in covered.items()}
    shares = {depth: ratio(lists.places.below(depth), np.minimum(lists.lengths, depth)) for depth in {*depths.values()}}
    return {name: shares[depth] for name, depth in depths.items()}


def mean_judged(shares: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, float]:
    """The mean share over the queries that have a value; queries that the run lacks, at the end, count as 0."""
    means = {}
    for name, share in shares.items():
        column = values[name]
        if len(share) < len(column):
            share = np.concatenate([share, np.zeros(len(column) - len(share))])
        undefined = np.isnan(column)
        if undefined.any():
            share = share[~undefined]
        if len(share):
            means[name] = float(np.mean(share))
    return means


def _has_coverage(metric: Metric) -> bool:
    return metric.summary in ("mean", "geometric") and not isinstance(metric, Judged)
