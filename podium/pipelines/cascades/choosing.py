"""The choice of `Cascade.fit`: whether to re-rank, and by what, on queries that the models have not seen.

Every candidate orders the documents of each query by a model that was trained on the other folds, and the order is
evaluated as a search would return it: equal scores keep the order of the first stage. A candidate is taken only if its
mean gain over the first stage is more than one standard error of the gains per query, the one with the largest gain if
there are several. With few queries the standard error is large, so that little is changed without a good reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.interrupts import check_interrupts
from podium._runtime.words import counted
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate_run
from podium.formats.trec import Qrels, Run
from podium.metrics.base import Metric
from podium.models.frame.parameters import INTEGER
from podium.models.frame.ranker import Ranker
from podium.pipelines.auto.criteria import criterion_words, parse_criterion
from podium.pipelines.auto.cross_validation import divide_queries, over_folds
from podium.pipelines.cascades.candidates import FIRST_STAGE, Candidate, make_candidates, with_score
from podium.pipelines.cascades.cascade import Cascade, Stage
from podium.search.queries import as_queries

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMED_QUERIES = 20
_COLUMNS = ("candidate", "mean", "gain", "standard error", "seconds", "microseconds more per query")


@dataclass(frozen=True)
class Tried:
    """A candidate: its mean over queries, its gain over the first stage, and what it costs."""

    name: str
    settings: str  # the model as it would be written in Python
    mean: float | None = None  # None: it could not be trained
    gain: float | None = None  # above 0 where it is better, also if lower values are
    error: float | None = None  # the standard error of the gain
    seconds: float | None = None  # of one training, the median over folds: the first one of a process compiles
    microseconds: float | None = None  # more per query, for features and scores; the median of some queries
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        numbers = zip(
            (self.mean, self.gain, self.error, self.seconds, self.microseconds), (".4f", "+.4f", ".4f", ".2f", ",.0f")
        )
        return (self.name, *("" if number is None else format(number, how) for number, how in numbers))


@dataclass(frozen=True, eq=False)
class CascadeChoice:
    """What `Cascade.fit` tried and chose. Print it."""

    metric: Metric
    n_folds: int
    chosen: str
    tried: tuple[Tried, ...]
    notes: tuple[str, ...]
    queries: tuple[str, ...]  # that it was chosen by
    per_query: Mapping[str, np.ndarray]  # the metric by candidate
    scores: Mapping[str, np.ndarray]  # out of fold, by candidate: one per candidate document, query by query

    def __str__(self) -> str:
        head = f"{criterion_words(self.metric)} on {counted(len(self.queries), 'query', 'queries')} that the models"
        lines = [f"{head} had not seen, {self.n_folds} folds", *_table([one.cells() for one in self.tried])]
        return "\n".join([*lines, self.sentence(), *self.notes])

    def sentence(self) -> str:
        """What was chosen, and why."""
        chosen = next(one for one in self.tried if one.name == self.chosen)
        if chosen.gain is None or chosen.error is None:
            return "Chosen: the first stage. No candidate gains more than one standard error."
        return f"Chosen: {chosen.name}, whose gain of {chosen.gain:.4f} is more than one standard error."

    def as_dict(self) -> dict[str, Any]:
        about = {"metric": self.metric.name, "policy": self.metric.policy.name, "queries": len(self.queries)}
        tried = [{key: value for key, value in vars(one).items() if key != "note" or value} for one in self.tried]
        return about | {"folds": self.n_folds, "chosen": self.chosen, "tried": tried, "notes": list(self.notes)}


@dataclass(frozen=True)
class Rules:
    """What is maximised, and how the queries are divided."""

    metric: Any
    policy: Any
    folds: int
    random_state: int
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("folds", self.folds, 2), ("random_state", self.random_state, 0)):
            if not INTEGER.holds(value) or value < least:
                raise ValueError(f"{name} must be an integer from {least}; got {value!r}.")

    def criterion(self) -> Metric:
        metric = parse_criterion(self.metric, self.policy)
        if metric.pools_queries:
            raise ValueError(f"metric must have a value per query; got {metric.name}, which pools them. Try ndcg@10.")
        return metric


def fit_cascade(
    cascade: Cascade, queries: Mapping[str, str], qrels: Any, rules: Rules, report: Callable[..., None] | None
) -> Cascade:
    """The same index with the best order that the judgements can tell from that of the first stage."""
    if len(cascade.stages) > 1:
        problem = f"fit chooses the model of the only stage; the cascade has {len(cascade.stages)}"
        advice = "The models before it may have been trained on the same queries. Begin with Cascade(index, Stage())"
        raise ValueError(f"{problem}. {advice}.")
    metric = rules.criterion()
    features, column = with_score(replace(cascade.stages[0].features, n=None))  # a model is trained at this stage's n
    stage = Stage(features=features, n=cascade.stages[0].n)
    scored = Cascade(cascade.index, stage, weighting=cascade.weighting, fields=cascade.fields)
    queries, judged = as_queries(queries), (qrels if isinstance(qrels, Qrels) else Qrels.from_dict(qrels)).to_dict()
    data, notes = _training_data(scored, queries, judged, rules, report)
    candidates = make_candidates(data, column, rules.random_state)
    trying = Trying(data, Qrels.from_dict({q: judged[q] for q in data.query_ids}), metric, rules)
    for number, candidate in enumerate(candidates):
        check_interrupts()
        trying.attempt(candidate)
        if report is not None:
            report(number + 1, len(candidates), candidate.name)
    chosen = candidates[trying.choose()]
    choice = trying.conclude(chosen.name, notes, _Timing(scored, [queries[str(q)] for q in data.query_ids]))
    return _with_choice(cascade, scored, None if chosen.model is None else chosen.fit(data, rules.n_jobs), choice)


def _with_choice(cascade: Cascade, scored: Cascade, model: Ranker | None, choice: CascadeChoice) -> Cascade:
    if model is not None:
        model.set_params(n_jobs=None)
        fitted = scored.with_model(model)
    else:
        stage = replace(cascade.stages[0], model=None)
        fitted = Cascade(cascade.index, stage, weighting=cascade.weighting, fields=cascade.fields)
    fitted.choice_ = choice
    return fitted


def _training_data(
    cascade: Cascade, queries: Mapping[str, str], judged: dict[str, dict[str, float]], rules: Rules, report: Any
) -> tuple[RankingData, list[str]]:
    """The candidates of queries that tell orders apart, and sentences about the others."""
    whole = cascade.training_data(queries, judged, n_jobs=rules.n_jobs, report=report)
    labels, numbers = whole.labels_for("Cascade.fit"), whole.query_numbers
    low, high = np.full(whole.n_queries, np.inf), np.full(whole.n_queries, -np.inf)
    np.minimum.at(low, numbers, labels)
    np.maximum.at(high, numbers, labels)
    telling = low < high
    left_out = {
        "without judgements": sum(not judged.get(name) for name in queries),
        "without any candidate": sum(bool(judged.get(name)) for name in queries) - whole.n_queries,
        "without a relevant document among the candidates": int((high <= 0).sum()),
        "whose candidates are all equally relevant": int(((low == high) & (high > 0)).sum()),
    }
    notes = [f"{counted(n, 'query', 'queries')} {which}: left out." for which, n in left_out.items() if n]
    if telling.sum() < 2:
        problem = f"Cascade.fit needs 2 queries with relevant and other candidates; got {int(telling.sum())}"
        raise ValueError(" ".join([f"{problem} of {counted(len(queries), 'query', 'queries')}.", *notes]))
    if telling.sum() < rules.folds:
        notes.append(f"There are fewer queries than folds: {int(telling.sum())} folds instead of {rules.folds}.")
    return whole.subset(telling), notes


@dataclass
class Trying:
    """Out-of-fold scores by candidate, and what they are worth."""

    data: RankingData
    qrels: Qrels  # of the same queries, in the same order
    metric: Metric
    rules: Rules
    tried: list[Tried] = field(default_factory=list)
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    per_query: dict[str, np.ndarray] = field(default_factory=dict)
    models: dict[str, Ranker] = field(default_factory=dict)  # of the first fold, to be timed

    @property
    def n_folds(self) -> int:
        return min(self.rules.folds, self.data.n_queries)

    def attempt(self, candidate: Candidate) -> None:
        """One that cannot be trained on these data is left out, and the others go on."""
        seconds = None
        try:
            if candidate.model is None:
                scores = np.zeros(self.data.n_rows)
            else:
                scores, seconds = self._out_of_fold(candidate)
        except ValueError as error:
            note = f"{candidate.name}: left out, because it failed: {error}"
            self.tried.append(Tried(candidate.name, candidate.settings, note=note))
            return
        self.scores[candidate.name], self.per_query[candidate.name] = scores, self.values(scores)
        self.tried.append(Tried(candidate.name, candidate.settings, *self._compared(candidate.name), seconds))

    def _out_of_fold(self, candidate: Candidate) -> tuple[np.ndarray, float]:
        """One score per row by models that have not seen its query, and the median of the seconds of a training."""
        fold_of = divide_queries(self.data, self.n_folds, self.rules.random_state)
        row_fold, scores = fold_of[self.data.query_numbers], np.empty(self.data.n_rows)
        _refuse_few_rows(candidate, row_fold)

        def work(fold: int, threads: int) -> tuple[Ranker, float]:
            started = perf_counter()
            model = candidate.fit(self.data.subset(fold_of != fold), threads)
            seconds = perf_counter() - started
            scores[row_fold == fold] = model.predict(self.data.subset(fold_of == fold))
            return model, seconds

        results = over_folds(work, self.n_folds, self.rules.n_jobs)
        self.models[candidate.name] = results[0][0]
        return scores, float(np.median([seconds for _, seconds in results]))

    def values(self, scores: np.ndarray) -> np.ndarray:
        """(queries,) the metric of what a search would return, more being better; NaN where it is undefined."""
        ranks = np.empty(len(scores))
        for start, stop in pairwise(self.data.offsets.tolist()):
            rows = self.data.rows[start:stop]
            ranks[rows[np.argsort(-scores[rows], kind="stable")]] = np.arange(len(rows))
        run, policy = Run.from_scores(self.data, -ranks), self.metric.policy
        evaluation = evaluate_run(self.qrels, run, metrics=[self.metric], policy=policy, n_jobs=self.rules.n_jobs)
        values = np.asarray(evaluation.per_query[self.metric.name])
        if np.isnan(values).all():
            raise ValueError(f"{self.metric.name} is undefined for all queries, so nothing can be chosen by it.")
        return values if self.metric.higher_is_better else -values

    def _compared(self, name: str) -> tuple[float, float | None, float | None]:
        values = self.per_query[name]
        mean = float(np.nanmean(values if self.metric.higher_is_better else 0.0 - values))
        return (
            (mean, None, None) if name == FIRST_STAGE else (mean, *gain_and_error(values, self.per_query[FIRST_STAGE]))
        )

    def choose(self) -> int:
        """The number of the candidate: 0 is the first stage."""
        clear = [n for n, one in enumerate(self.tried) if one.gain is not None and one.gain > (one.error or 0.0)]
        return max(clear, key=lambda n: self.tried[n].gain or 0.0, default=0)

    def conclude(self, chosen: str, notes: Sequence[str], timing: _Timing) -> CascadeChoice:
        tried = [
            replace(one, microseconds=timing.of(self.models[one.name])) if one.name in self.models else one
            for one in self.tried
        ]
        notes = [*notes, *(one.note for one in tried if one.note)]
        queries = tuple(str(query) for query in self.data.query_ids)
        rest = queries, self.per_query, self.scores
        return CascadeChoice(self.metric, self.n_folds, chosen, tuple(tried), tuple(notes), *rest)


def gain_and_error(values: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """The mean of the differences per query, and its standard error."""
    differences = values - before
    known = differences[~np.isnan(differences)]
    if len(known) < 2:
        return 0.0, 0.0
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))


def _refuse_few_rows(candidate: Candidate, row_fold: np.ndarray) -> None:
    fewest = len(row_fold) - int(np.bincount(row_fold).max())
    if fewest < candidate.least_rows:
        problem = f"a training has only {counted(fewest, 'candidate document')}, its trees need {candidate.least_rows}"
        raise ValueError(f"{problem}. Judge more queries, or raise n.")


class _Timing:
    """The time that re-ranking takes per query: features, and scores of a model."""

    def __init__(self, cascade: Cascade, texts: Sequence[str]) -> None:
        self.stage, self.rows, seconds = cascade.stages[0], list[np.ndarray](), list[float]()
        for text in [texts[0], *texts[:_TIMED_QUERIES]]:  # the first one is not counted: it looks up its terms
            ranked = cascade._ranked(text, self.stage.n).top(self.stage.n)
            started = perf_counter()
            self.rows.append(cascade.rows(0, text, ranked))
            seconds.append(perf_counter() - started)
        self.features = float(np.median(seconds[1:]))

    def of(self, model: Ranker) -> float:
        stage, seconds = replace(self.stage, model=model), list[float]()
        for rows in self.rows:
            started = perf_counter()
            stage.scores(rows)
            seconds.append(perf_counter() - started)
        return 1e6 * (self.features + float(np.median(seconds[1:])))


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of columns, the first one to the left, numbers to the right."""
    cells = [_COLUMNS, *rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    first, *others = widths
    return [
        "  ".join([row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others))]).rstrip()
        for row in cells
    ]
