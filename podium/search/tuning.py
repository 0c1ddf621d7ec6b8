"""Tuning of a first stage: parameters of a weighting, and weights of fields, from small grids.

Steps follow each other, each from the best of those before: k1 and b, then the weight of one field after the other,
then the parameters of feedback. The best is that of the largest mean of a metric over judged queries; what is given is
tried too, and stays if nothing is better. The mean of the choice over the same queries is optimistic, so it is also
cross-validated: the queries of each fold are searched with what is chosen on all other queries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.words import counted
from podium.evaluation.evaluating import evaluate_run
from podium.formats.trec import Qrels
from podium.metrics.base import Metric
from podium.metrics.registry import parse_metric
from podium.search.queries import as_queries, search_run
from podium.search.reading import field_weights
from podium.search.retrieval.weightings import RM3, Weighting, parse_weighting
from podium.search.weighting_files import write_weighting

if TYPE_CHECKING:
    from podium.search.reading import Index
    from podium.search.searcher import Fields

SATURATION_GRID: dict[str, tuple[float, ...]] = {
    "k1": (0.6, 0.9, 1.2, 1.6, 2.0),
    "b": (0.2, 0.4, 0.6, 0.75, 0.9),
}
FEEDBACK_GRID: dict[str, tuple[float, ...]] = {
    "fb_docs": (5, 10, 20),
    "fb_terms": (10, 20, 40),
    "original_query_weight": (0.3, 0.5, 0.7, 0.9),
}
FIELD_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of a field, relative to that of the first one
ADDED_FIELDS = ("title", "anchor", "url")  # to `whole`, which has title and body
_DEPTH = 1000  # documents per query


@dataclass(frozen=True)
class FirstStage:
    """A weighting, and the fields that it searches, with their weights."""

    weighting: Weighting
    fields: tuple[tuple[str, float], ...]

    def as_dict(self) -> dict[str, Any]:
        return {"weighting": str(self.weighting), "fields": dict(self.fields)}

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={weight:g}" for name, weight in self.fields)
        return str(self.weighting) if self.fields == (("whole", 1.0),) else f"{self.weighting} of {shown}"


Values = Callable[[FirstStage], np.ndarray]  # one per query; NaN: undefined, left out
Step = Callable[[FirstStage], Sequence[FirstStage]]  # what is tried next


@dataclass(frozen=True)
class Fold:
    """What was chosen without some queries, and its mean over them."""

    n_queries: int
    chosen: FirstStage
    value: float


@dataclass(frozen=True)
class TunedWeighting:
    """The choice on all queries, and means of the metric: over all that was tried, and cross-validated."""

    chosen: FirstStage
    start: FirstStage
    metric: str
    n_queries: int
    tried: Mapping[FirstStage, float]
    folds: Sequence[Fold]
    cross_validated: float  # over all queries, each in its fold

    @property
    def weighting(self) -> Weighting:
        return self.chosen.weighting

    @property
    def fields(self) -> dict[str, float]:
        return dict(self.chosen.fields)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the choice as a file that `--weighting` takes, and `podium.search.read_weighting` reads."""
        mean = f"{self.metric} {self.tried[self.chosen]:.4f} on {counted(self.n_queries, 'query', 'queries')}"
        note = f"chosen by podium tune-bm25, {mean}, cross-validated {self.cross_validated:.4f}"
        write_weighting(path, self.weighting, self.fields, note=note)

    def as_dict(self) -> dict[str, Any]:
        folds = [{"queries": one.n_queries, **one.chosen.as_dict(), "value": one.value} for one in self.folds]
        return {
            **self.chosen.as_dict(),
            "metric": self.metric,
            "queries": self.n_queries,
            "value": self.tried[self.chosen],
            "start": {**self.start.as_dict(), "value": self.tried[self.start]},
            "cross_validated": self.cross_validated,
            "folds": folds,
            "tried": [{**one.as_dict(), "value": value} for one, value in self.tried.items()],
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """What, which weighting and its mean, as a table shows them."""
        yield "given", str(self.start), f"{self.tried[self.start]:.4f}"
        for number, fold in enumerate(self.folds, 1):
            yield f"fold {number}, {fold.n_queries} queries", str(fold.chosen), f"{fold.value:.4f}"
        yield "cross-validated", "as chosen without the fold", f"{self.cross_validated:.4f}"
        yield "chosen on all queries", str(self.chosen), f"{self.tried[self.chosen]:.4f}"

    def surface(self) -> tuple[Sequence[float], Sequence[float], np.ndarray]:
        """Values of k1 and of b, and the mean of each pair (k1, b) of the first step."""
        points = _grid(SATURATION_GRID, self.start)
        k1, b = SATURATION_GRID["k1"], SATURATION_GRID["b"]
        return k1, b, np.array([self.tried[point] for point in points]).reshape(len(k1), len(b))

    def surface_rows(self) -> Iterator[Sequence[str]]:
        """The surface as a table shows it: one row per k1, one column per b."""
        k1, _, means = self.surface()
        for value, row in zip(k1, means):
            yield (f"k1 = {value:g}", *(f"{mean:.4f}" for mean in row))


def tune_weighting(
    index: Index,
    queries: Mapping[str, str],
    qrels: Qrels | Mapping[str, Mapping[str, float]],
    weighting: str | Weighting = "bm25",
    *,
    fields: Fields | None = None,
    metric: str | Metric = "ndcg@10",
    folds: int = 5,
    random_state: int = 0,
    report: Any = None,
) -> TunedWeighting:
    """Choose k1 and b of a weighting, weights of fields, and the parameters of feedback if it has these.

    `queries` are {id: text}; those without judgements are left out. `folds` divides the others, by `random_state`. Of
    several `fields`, all but the first get weights; by default `whole` is searched, and titles, anchor texts and
    addresses beside it are tried. `report(done, all)` is called after each that was tried, unless it is None.
    """
    start = _start(weighting, fields)
    steps = _steps(index, start, fields)
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
    values = _values_of(index, texts, judgements, metric)
    if report is not None:
        values = _reported(values, report, sum(len(step(start)) for step in steps))
    choice = _Choice(values, start, steps)
    everywhere = np.ones(len(texts), bool)
    numbers = np.random.default_rng(random_state).permutation(len(texts)) % folds
    parts, held_out = _folds(choice, numbers)
    tried = {one: _mean(values(one), everywhere) for one in choice.tried(everywhere)}
    if not any(tried.values()):
        problem = f"{counted(len(texts), 'judged query', 'judged queries')}, and no weighting gets more than 0"
        raise ValueError(f"{problem}. Are queries, judgements and documents those of one collection?")
    chosen = choice.best(everywhere)
    return TunedWeighting(chosen, start, str(metric), len(texts), tried, parts, _mean(held_out, everywhere))


def _start(weighting: str | Weighting, fields: Fields | None) -> FirstStage:
    start = parse_weighting(weighting)
    if not {"k1", "b"} <= set(start.parameters()):
        raise ValueError(f"expected a weighting with k1 and b, such as bm25 or bm25-rm3; got {start.name}.")
    return FirstStage(start, tuple(field_weights("whole" if fields is None else fields).items()))


def _steps(index: Index, start: FirstStage, fields: Fields | None) -> list[Step]:
    others = [name for name, _ in start.fields[1:]]
    if fields is None and not isinstance(start.weighting, RM3):  # feedback is from one field
        others = [name for name in ADDED_FIELDS if index.field(name).n_terms]
    weights = [partial(_weights, name, fields is None) for name in others]
    return [partial(_grid, SATURATION_GRID), *weights, partial(_grid, FEEDBACK_GRID)]


def _grid(grid: Mapping[str, tuple[float, ...]], best: FirstStage) -> list[FirstStage]:
    """All points of the grid, as far as the weighting has these parameters."""
    weighting = best.weighting
    names = [name for name in grid if name in weighting.parameters()]
    points = product(*(grid[name] for name in names)) if names else ()
    return [replace(best, weighting=weighting.make({**weighting.settings, **dict(zip(names, one))})) for one in points]


def _weights(name: str, may_be_absent: bool, best: FirstStage) -> list[FirstStage]:
    """The field with each weight; without it only if it was not asked for."""
    others = {field: weight for field, weight in best.fields if field != name}
    first = best.fields[0][1]
    tried = [tuple((others if may_be_absent else dict(best.fields)).items())] + [
        tuple((dict(best.fields) | {name: weight * first}).items()) for weight in FIELD_WEIGHTS
    ]
    return [replace(best, fields=fields) for fields in tried]


def _values_of(index: Index, texts: Mapping[str, str], qrels: Qrels, metric: str | Metric) -> Values:
    """The metric per query, higher is better for choices; each first stage is searched with once."""
    memo: dict[FirstStage, np.ndarray] = {}

    def values(one: FirstStage) -> np.ndarray:
        if one not in memo:
            run = search_run(index, texts, _DEPTH, weighting=one.weighting, fields=dict(one.fields))
            result = evaluate_run(qrels, run, metrics=metric, missing="zero")
            (per_query,) = result.per_query.values()
            by_query = dict(zip(result.queries.tolist(), per_query.tolist()))
            memo[one] = np.array([by_query[query] for query in texts])
        return memo[one]

    parsed = parse_metric(metric)
    if not parsed.higher_is_better or parsed.pools_queries:
        expected = "expected a metric with a value per query of which more is better, such as ndcg@10"
        raise ValueError(f"{expected}; got {parsed.name}.")
    return values


def _reported(values: Values, report: Any, expected: int) -> Values:
    """`expected`: how many are tried for one choice; those of folds may differ."""
    seen: set[FirstStage] = set()

    def reported(one: FirstStage) -> np.ndarray:
        result = values(one)
        seen.add(one)
        report(len(seen), max(expected, len(seen)))
        return result

    return reported


@dataclass(frozen=True)
class _Choice:
    """The best of all that is tried, for any of the queries."""

    values: Values
    start: FirstStage
    steps: Sequence[Step]

    def tried(self, queries: np.ndarray) -> list[FirstStage]:
        """All that are tried for a choice on these queries; the best of a step is where the next one starts."""
        tried, best = [self.start], self.start
        for step in self.steps:
            tried += step(best)
            best = self._best_of(tried, queries)
        return list(dict.fromkeys(tried))

    def best(self, queries: np.ndarray) -> FirstStage:
        return self._best_of(self.tried(queries), queries)

    def _best_of(self, tried: Sequence[FirstStage], queries: np.ndarray) -> FirstStage:
        """The best on these queries; of equal ones the first, and what differs by rounding is equal."""
        return max(tried, key=lambda one: round(_mean(self.values(one), queries), 12))


def _folds(choice: _Choice, numbers: np.ndarray) -> tuple[list[Fold], np.ndarray]:
    """Each fold, and the value of each query in its fold."""
    folds, held_out = [], np.empty(len(numbers))
    for number in range(int(numbers.max()) + 1):
        inside = numbers == number
        chosen = choice.best(~inside)
        held_out[inside] = choice.values(chosen)[inside]
        folds.append(Fold(int(inside.sum()), chosen, _mean(held_out, inside)))
    return folds, held_out


def _mean(values: np.ndarray, queries: np.ndarray) -> float:
    defined = values[queries & ~np.isnan(values)]
    return float(defined.mean()) if len(defined) else 0.0
