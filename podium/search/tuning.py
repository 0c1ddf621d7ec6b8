"""Tuning of a weighting: its parameters chosen from a small grid, by the mean of a metric over judged queries.

The grid is tried in two steps: k1 and b, then those of feedback with the best k1 and b. What is given is tried too, and
stays if nothing is better. The mean of the choice over the same queries is optimistic, so it is also cross-validated:
the queries of each fold are searched with what is chosen on all other queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.words import counted
from podium.evaluation.evaluating import evaluate_run
from podium.formats.trec import Qrels
from podium.metrics.base import Metric
from podium.metrics.registry import parse_metric
from podium.search.queries import as_queries, search_run
from podium.search.retrieval.weightings import Weighting, parse_weighting

if TYPE_CHECKING:
    from podium.search.reading import Index
    from podium.search.searcher import Fields

STEPS: tuple[dict[str, tuple[float, ...]], ...] = (
    {"k1": (0.6, 0.9, 1.2, 1.6, 2.0), "b": (0.2, 0.4, 0.6, 0.75, 0.9)},
    {"fb_docs": (5, 10, 20), "fb_terms": (10, 20, 40), "original_query_weight": (0.3, 0.5, 0.7, 0.9)},
)
_DEPTH = 1000  # documents per query

Values = Callable[[Weighting], np.ndarray]  # one per query; NaN: undefined, left out


@dataclass(frozen=True)
class Fold:
    """What was chosen without some queries, and its mean over them."""

    n_queries: int
    weighting: Weighting
    value: float


@dataclass(frozen=True)
class TunedWeighting:
    """The choice on all queries, and means of the metric: over all weightings that were tried, and cross-validated."""

    weighting: Weighting
    start: Weighting
    metric: str
    n_queries: int
    tried: Mapping[Weighting, float]
    folds: Sequence[Fold]
    cross_validated: float  # over all queries, each in its fold

    def as_dict(self) -> dict[str, Any]:
        folds = [{"queries": one.n_queries, "weighting": str(one.weighting), "value": one.value} for one in self.folds]
        return {
            "weighting": str(self.weighting),
            "metric": self.metric,
            "queries": self.n_queries,
            "value": self.tried[self.weighting],
            "start": {"weighting": str(self.start), "value": self.tried[self.start]},
            "cross_validated": self.cross_validated,
            "folds": folds,
            "tried": [{"weighting": str(weighting), "value": value} for weighting, value in self.tried.items()],
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """What, which weighting and its mean, as a table shows them."""
        yield "given", str(self.start), f"{self.tried[self.start]:.4f}"
        for number, fold in enumerate(self.folds, 1):
            yield f"fold {number}, {fold.n_queries} queries", str(fold.weighting), f"{fold.value:.4f}"
        yield "cross-validated", "as chosen without the fold", f"{self.cross_validated:.4f}"
        yield "chosen on all queries", str(self.weighting), f"{self.tried[self.weighting]:.4f}"


def tune_weighting(
    index: Index,
    queries: Mapping[str, str],
    qrels: Qrels | Mapping[str, Mapping[str, float]],
    weighting: str | Weighting = "bm25",
    *,
    fields: Fields = "whole",
    metric: str | Metric = "ndcg@10",
    folds: int = 5,
    random_state: int = 0,
) -> TunedWeighting:
    """Choose k1 and b of a weighting, and the parameters of feedback if it has these, on judged queries.

    `queries` are {id: text}; those without judgements are left out. `folds` divides the others, by `random_state`.
    """
    start = parse_weighting(weighting)
    if not {"k1", "b"} <= set(start.parameters()):
        raise ValueError(f"expected a weighting with k1 and b, such as bm25 or bm25-rm3; got {start.name}.")
    judged = (qrels if isinstance(qrels, Qrels) else Qrels.from_dict(qrels)).to_dict()
    texts = {query: text for query, text in as_queries(queries).items() if query in judged}
    if len(texts) < 2:
        raise ValueError(
            f"tuning needs two judged queries or more; found {len(texts)}. Are the ids those of the qrels?"
        )
    if type(folds) is not int or not 2 <= folds <= len(texts):
        raise ValueError(
            f"folds must be an integer from 2 to {len(texts)}, the number of judged queries; got {folds!r}."
        )
    if type(random_state) is not int or random_state < 0:
        raise ValueError(f"random_state must be an integer from 0; got {random_state!r}.")
    judgements = Qrels.from_dict({query: judged[query] for query in texts})
    values = _values_of(index, texts, judgements, fields, metric)
    everywhere = np.ones(len(texts), bool)
    chosen = _choose(values, start, everywhere)
    numbers = np.random.default_rng(random_state).permutation(len(texts)) % folds
    parts, held_out = _folds(values, start, numbers)
    tried = {one: _mean(values(one), everywhere) for one in _candidates(values, start, everywhere)}
    if not any(tried.values()):
        problem = f"{counted(len(texts), 'judged query', 'judged queries')}, and no weighting gets more than 0"
        raise ValueError(f"{problem}. Are queries, judgements and documents those of one collection?")
    name = parse_metric(metric).name
    return TunedWeighting(chosen, start, name, len(texts), tried, parts, _mean(held_out, everywhere))


def _values_of(index: Index, texts: Mapping[str, str], qrels: Qrels, fields: Fields, metric: str | Metric) -> Values:
    """The metric per query, higher is better for choices; each weighting is searched with once."""
    memo: dict[Weighting, np.ndarray] = {}

    def values(weighting: Weighting) -> np.ndarray:
        if weighting not in memo:
            run = search_run(index, texts, _DEPTH, weighting=weighting, fields=fields)
            result = evaluate_run(qrels, run, metrics=metric, missing="zero")
            (per_query,) = result.per_query.values()
            by_query = dict(zip(result.queries.tolist(), per_query.tolist()))
            memo[weighting] = np.array([by_query[query] for query in texts])
        return memo[weighting]

    parsed = parse_metric(metric)
    if not parsed.higher_is_better or parsed.pools_queries:
        expected = "expected a metric with a value per query of which more is better, such as ndcg@10"
        raise ValueError(f"{expected}; got {parsed.name}.")
    return values


def _candidates(values: Values, start: Weighting, queries: np.ndarray) -> list[Weighting]:
    """All that are tried for a choice on these queries; the best of a step is where the next one starts."""
    tried, best = [start], start
    for step in STEPS:
        names = [name for name in step if name in start.parameters()]
        grid = product(*(step[name] for name in names)) if names else ()
        tried += [best.make({**best.settings, **dict(zip(names, point))}) for point in grid]
        best = _best(values, tried, queries)
    return list(dict.fromkeys(tried))


def _choose(values: Values, start: Weighting, queries: np.ndarray) -> Weighting:
    return _best(values, _candidates(values, start, queries), queries)


def _best(values: Values, tried: Sequence[Weighting], queries: np.ndarray) -> Weighting:
    """The best on these queries; of equal ones the first, and what differs by rounding is equal."""
    return max(tried, key=lambda one: round(_mean(values(one), queries), 12))


def _folds(values: Values, start: Weighting, numbers: np.ndarray) -> tuple[list[Fold], np.ndarray]:
    """Each fold, and the value of each query in its fold."""
    folds, held_out = [], np.empty(len(numbers))
    for number in range(int(numbers.max()) + 1):
        inside = numbers == number
        chosen = _choose(values, start, ~inside)
        held_out[inside] = values(chosen)[inside]
        folds.append(Fold(int(inside.sum()), chosen, _mean(held_out, inside)))
    return folds, held_out


def _mean(values: np.ndarray, queries: np.ndarray) -> float:
    defined = values[queries & ~np.isnan(values)]
    return float(defined.mean()) if len(defined) else 0.0
