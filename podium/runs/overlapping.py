"""How alike two runs are: rank-biased overlap, Kendall's tau and the share of common documents, per query.

    RBO = (1 - p) sum over d of p^(d - 1) A_d, A_d being the share of common documents among the d best of both

RBO is extrapolated behind the end of the lists, also of lists of different length (equation 32 of Webber, Moffat and
Zobel, A similarity measure for indefinite rankings, TOIS 28, 2010). Tau is tau-b, which allows for ties, on the
documents of both lists together; those that a list lacks tie behind all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.formats.trec import Run
from podium.runs.fusing import cut
from podium.runs.joining import JoinedRuns, join_runs, named_runs

MEASURES = ("rbo", "tau", "common")


@dataclass(frozen=True, eq=False)
class Overlap:
    """Values per query of each pair of runs; NaN where a measure is undefined, which is left out of means."""

    query_ids: Array
    p: float
    per_query: Mapping[tuple[str, str], Mapping[str, Array]]

    @property
    def means(self) -> dict[tuple[str, str], dict[str, float]]:
        return {
            pair: {name: _mean(values) for name, values in measures.items()}
            for pair, measures in self.per_query.items()
        }

    def as_dict(self, per_query: bool = False) -> dict[str, Any]:
        pairs = []
        for (one, other), means in self.means.items():
            row: dict[str, Any] = {"runs": [one, other]} | {name: _number(value) for name, value in means.items()}
            if per_query:
                measures = self.per_query[one, other]
                row["per_query"] = {
                    str(query): {name: _number(values[q]) for name, values in measures.items()}
                    for q, query in enumerate(self.query_ids)
                }
            pairs.append(row)
        return {"queries": len(self.query_ids), "p": self.p, "pairs": pairs}

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Two runs and the means, as a table shows them."""
        for pair, means in self.means.items():
            yield (*pair, *(f"{means[name]:.4f}" for name in MEASURES))


def overlap(runs: Sequence[Run] | Mapping[str, Run], *, p: float = 0.9, depth: int | None = None) -> Overlap:
    """Compare each pair of runs, or the best `depth` documents per query of each.

    With p = 0.9 the first ten documents have 86 % of the weight of RBO. A query that one of two runs lacks has RBO 0
    and no tau; one that both lack has neither.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 < p < 1:
        raise ValueError(f"p must be a number between 0 and 1, such as 0.9; got {p!r}.")
    joined = join_runs(cut(named_runs(runs, "overlap"), depth), warns=False)
    pairs = list(combinations(range(joined.n_runs), 2))
    values = np.full((len(pairs), len(MEASURES), len(joined.query_ids)), np.nan)
    for q in range(len(joined.query_ids)):
        scores, ranks = _of_query(joined, q)
        for number, (i, j) in enumerate(pairs):
            values[number, :, q] = _measure(scores[[i, j]], ranks[[i, j]], p)
    names = joined.names
    per_query = {(names[i], names[j]): dict(zip(MEASURES, values[k])) for k, (i, j) in enumerate(pairs)}
    return Overlap(joined.query_ids, float(p), per_query)


def _of_query(joined: JoinedRuns, q: int) -> tuple[Array, Array]:
    """(runs, documents): scores, -inf where a run lacks a document, and ranks from 0, -1 there."""
    n = int(joined.offsets[q + 1] - joined.offsets[q])
    scores, ranks = np.full((joined.n_runs, n), -np.inf), np.full((joined.n_runs, n), -1)
    for run, (first, last) in enumerate(joined.segments[q].tolist()):
        documents = joined.documents[first:last]
        scores[run, documents], ranks[run, documents] = joined.scores[first:last], joined.ranks[first:last]
    return scores, ranks


def _measure(scores: Array, ranks: Array, p: float) -> tuple[float, float, float]:
    either, both = (ranks >= 0).any(axis=0), (ranks >= 0).all(axis=0)
    if not either.any():
        return np.nan, np.nan, np.nan
    lengths = (ranks >= 0).sum(axis=1)
    rbo = rank_biased_overlap(ranks[:, both].max(axis=0, initial=-1), int(lengths.min()), int(lengths.max()), p)
    tau = kendall_tau(*scores[:, either]) if lengths.min() else np.nan
    return rbo, tau, float(both.sum() / either.sum())


def rank_biased_overlap(deeper: Array, shorter: int, longer: int, p: float) -> float:
    """RBO of lists of these lengths; `deeper` has the larger of both ranks, from 0, of each common document."""
    if shorter == 0:
        return 0.0
    common = np.cumsum(np.bincount(deeper, minlength=longer))  # X_d, of d = 1 ... longer
    d = np.arange(1.0, longer + 1)
    in_shorter, in_longer = common[shorter - 1], common[-1]
    beyond = np.where(d > shorter, in_shorter * (d - shorter) / (shorter * d), 0.0)
    total = float(((common / d + beyond) * p**d).sum())
    last = (in_longer - in_shorter) / longer + in_shorter / shorter
    return float((1.0 - p) / p * total + last * p**longer)


def kendall_tau(one: Array, other: Array) -> float:
    """Tau-b of two lists of numbers; NaN where one of them has no order."""
    from scipy.stats import kendalltau

    if len(one) < 2 or np.all(one == one[0]) or np.all(other == other[0]):
        return float("nan")
    places = [np.unique(values, return_inverse=True)[1] for values in (one, other)]  # infinities become numbers
    return float(kendalltau(*places).statistic)


def _mean(values: Array) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
