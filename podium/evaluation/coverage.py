"""Coverage of judgements: how much of what a value of a run depends on is judged at all.

Beside a value of a measure with cutoff k stands judged@k, else the share of the whole list that is judged: what is not
judged counts as not relevant, so that a low coverage makes the value untrustworthy, the more so for systems that did
not contribute to the pool.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.base import Metric
from podium.metrics.lists import UNJUDGED, RankedLists
from podium.metrics.measures.judgements import Judged

_WHOLE = np.iinfo(np.int64).max


def judged_shares(lists: RankedLists, metrics: Mapping[str, Metric]) -> dict[str, Array]:
    """Per metric the share of the documents it looks at that is judged, one per query; none for counts and texts."""
    covered = {name: metric for name, metric in metrics.items() if _has_coverage(metric)}
    if not covered or lists.codes is None:
        return {}
    depths = sorted({metric.cutoff or _WHOLE for metric in covered.values()})
    shares = np.empty((len(depths), lists.n_queries))
    codes, offsets, ends = readonly(lists.codes), readonly(lists.offsets), readonly(np.array(depths, dtype=np.int64))
    over_queries(lambda first, last: _share_judged(codes, offsets, ends, first, last, shares), offsets)
    return {name: shares[depths.index(metric.cutoff or _WHOLE)] for name, metric in covered.items()}


def mean_judged(shares: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, float]:
    """The mean share over the queries that have a value; queries that the run lacks, at the end, count as 0."""
    means = {}
    for name, share in shares.items():
        column = values[name]
        share = np.concatenate([share, np.zeros(len(column) - len(share))])
        defined = ~np.isnan(column)
        if defined.any():
            means[name] = float(np.mean(share[defined]))
    return means


def _has_coverage(metric: Metric) -> bool:
    return metric.summary in ("mean", "geometric") and not isinstance(metric, Judged)


@kernel
def _share_judged(codes: Array, offsets: Array, depths: Array, first: int, last: int, out: Array) -> None:
    """out[d, q]: the share of the first depths[d] documents of query q that is judged; depths rise."""
    for q in range(first, last):
        n, judged, rank = offsets[q + 1] - offsets[q], 0, 0
        for d in range(len(depths)):
            while rank < min(n, depths[d]):
                judged += codes[offsets[q] + rank] != UNJUDGED
                rank += 1
            out[d, q] = judged / rank if rank else 0.0
