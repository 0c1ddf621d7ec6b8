"""The choice of AutoRanker: which candidates, with how many trees, in one blend.

Every candidate scores every query by models that have not seen it. The best of each group are then blended with equal
weights, groups in all combinations, and the blend is chosen by the criterion. Where the data cannot tell a blend of
more groups from the best one, it is taken: it varies less. One division into folds is a matter of luck, so the best
candidates are tried on further ones.

The budget decides at planned points only: before a candidate, and before a division. With enough of it the choice
depends on the data and the seed alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from podium._runtime.interrupts import check_interrupts
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate
from podium.metrics.base import Metric
from podium.models.frame.estimator import clone
from podium.models.frame.transforms import queries_of
from podium.pipelines.auto.candidates import Candidate, with_batches
from podium.pipelines.auto.cross_validation import divide_queries, over_folds
from podium.pipelines.ensembles.normalizing import normalize

_KEPT = {"linear": 2, "trees": 2, "nets": 1}  # candidates of each group that further divisions try, by family
_DOUBT = 1.0  # standard errors of a difference that does not count as one: the one-standard-error rule
_CHOOSING = 0.75  # the share of the budget that may be spent before the final training

Report = Callable[[int, int, str], None]
Option = tuple[int, int]  # the number of a candidate, and the place of its step


@dataclass(frozen=True)
class Member:
    """A candidate with its number of trees (0: nothing to choose)."""

    candidate: Candidate
    step: int


@dataclass
class Choice:
    """The members of the blend, and a record of everything that was tried."""

    members: list[Member]
    tried: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def choose(trying: Trying, divisions: int) -> Choice:
    """The blend for data, all of which may be looked at."""
    if trying.data.n_queries < 2:
        return _unjudged(trying.candidates)
    trying.divide(range(len(trying.candidates)), 0)
    for division in range(1, divisions):
        if not trying.divide(trying.survivors(), division):
            break
    return trying.conclude()


def _unjudged(candidates: Sequence[Candidate]) -> Choice:
    """The first candidate of each group; nets, which can diverge on so few rows, only where there is nothing else."""
    first = {one.group: one for one in reversed(candidates)}
    sure = [one for one in candidates if first[one.group] is one and one.family != "nets"] or [candidates[0]]
    members = [Member(one, one.steps[len(one.steps) // 2]) for one in sure]
    return Choice(members, [], ["There is a single query, so nothing could be compared: one candidate per group."])


@dataclass(eq=False)
class Trying:
    """Out-of-fold scores by division and candidate."""

    data: RankingData
    candidates: Sequence[Candidate]
    metric: Metric
    folds: int
    limit: float  # seconds
    seed: int
    n_jobs: int | None
    report: Report | None = None
    started: float = field(default_factory=perf_counter)
    scores: list[dict[int, np.ndarray]] = field(default_factory=list)  # division: candidate: (steps, rows) standardised
    cost: dict[int, float] = field(default_factory=dict)
    tried: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def n_folds(self) -> int:
        return min(self.folds, self.data.n_queries)

    def divide(self, numbers: Sequence[int], division: int) -> bool:
        """Try candidates on one more division; whether the budget was enough for it."""
        if division and self._elapsed() + sum(self.cost[number] for number in numbers) > self.limit:
            self.notes.append(f"Division {division + 1} was left out: the budget was spent.")
            return False
        fold_of = divide_queries(self.data, self.n_folds, self.seed + division)
        self.scores.append({})
        for done, number in enumerate(numbers):
            check_interrupts()
            candidate = self.candidates[number]
            if not division and done and self._elapsed() + self._expected(candidate) > self.limit:
                self.notes.append(f"{candidate.name}: left out, because the budget was spent.")
                continue
            self._try(number, division, fold_of)
            if self.report is not None:
                self.report(done + 1, len(numbers), candidate.name)
        if self.scores[-1]:
            return True
        if not division:
            raise ValueError(f"AutoRanker: no candidate could be trained. {' '.join(self.notes)}")
        self.scores.pop()
        return False

    def _try(self, number: int, division: int, fold_of: np.ndarray) -> None:
        """A candidate that cannot be trained on these data is left out, and the others go on."""
        candidate, started = self.candidates[number], perf_counter()
        try:
            self.scores[-1][number] = self._out_of_fold(candidate, fold_of)
        except ValueError as error:
            self.notes.append(f"{candidate.name}: left out, because it failed: {error}")
            return
        self.cost[number] = perf_counter() - started
        self._record(number, division)

    def survivors(self) -> list[int]:
        """The best candidates of each group, in their order."""
        best: list[int] = []
        for group in self._groups():
            ranked = sorted(self._of(group), key=lambda number: -max(self._values(number)))
            best += ranked[: _KEPT[self.candidates[ranked[0]].family]]
        return sorted(best)

    def conclude(self) -> Choice:
        best = {group: max(self._options(group), key=lambda one: self._blend_value((one,))) for group in self._groups()}
        blends = [
            tuple(best[group] for group in together)
            for size in range(len(best), 0, -1)
            for together in itertools.combinations(best, size)
        ]
        chosen = self._fullest(blends)
        if len(chosen) > 1:
            chosen = self._refined(chosen)
        self.tried.append(self._blend_record(chosen, self._blend_value(chosen)) | {"kind": "chosen"})
        members = [Member(self.candidates[n], self.candidates[n].steps[step]) for n, step in chosen]
        return Choice(members, self.tried, self.notes)

    def _fullest(self, blends: list[tuple[Option, ...]]) -> tuple[Option, ...]:
        """The best blend, or the first one before it that does not differ clearly from it."""
        per_query = [self._blend_values(blend) for blend in blends]
        means = [float(np.nanmean(values)) for values in per_query]
        best = int(np.argmax(means))
        self.tried += [self._blend_record(blend, mean) for blend, mean in zip(blends, means)]
        for blend, values in zip(blends[:best], per_query):
            if not _is_better(per_query[best], values):
                return blend
        return blends[best]

    def _refined(self, chosen: tuple[Option, ...]) -> tuple[Option, ...]:
        """One member after the other is exchanged for the option of its group that blends best, if that is clear."""
        for member, (number, _) in enumerate(chosen):
            options = self._options(self.candidates[number].group)
            blends = [(*chosen[:member], option, *chosen[member + 1 :]) for option in options]
            best = max(blends, key=self._blend_value)
            if _is_better(self._blend_values(best), self._blend_values(chosen)):
                chosen = best
        return chosen

    def _elapsed(self) -> float:
        return perf_counter() - self.started

    def _expected(self, candidate: Candidate) -> float:
        """What a candidate will cost: as much as the dearest of its group so far."""
        costs = [self.cost[n] for n in self.cost if self.candidates[n].group == candidate.group]
        return max(costs, default=0.0)

    def _out_of_fold(self, candidate: Candidate, fold_of: np.ndarray) -> np.ndarray:
        """(steps, rows) scores by models that have not seen the query, standardised within it."""
        data, out_of_fold = self.data, np.empty((len(candidate.steps), self.data.n_rows), np.float32)
        in_fold = fold_of[data.query_numbers]

        def work(fold: int, threads: int) -> None:
            train, held = data.subset(fold_of != fold), data.subset(fold_of == fold)
            model = with_batches(clone(candidate.model), train.n_rows)
            model.set_params(n_jobs=threads)
            model.fit(train)
            rows = np.flatnonzero(in_fold == fold)
            for step, scores in enumerate(_staged(model, candidate, held)):
                out_of_fold[step, rows] = normalize(scores, "zscore", queries_of(held), threads)

        over_folds(work, self.n_folds, self.n_jobs)
        return out_of_fold

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(self.candidates[number].group for number in sorted(self.scores[-1])))

    def _of(self, group: str) -> list[int]:
        """Candidates that every division so far has tried."""
        return [n for n in sorted(self.scores[-1]) if self.candidates[n].group == group]

    def _options(self, group: str) -> list[Option]:
        return [(n, step) for n in self._of(group) for step in range(len(self.candidates[n].steps))]

    def _values(self, number: int) -> list[float]:
        return [self._blend_value(((number, step),)) for step in range(len(self.candidates[number].steps))]

    def _blend_value(self, blend: tuple[Option, ...]) -> float:
        return float(np.nanmean(self._blend_values(blend)))

    def _blend_values(self, blend: tuple[Option, ...]) -> np.ndarray:
        """(queries,) the criterion, more being better, as the mean over divisions."""
        totals = [
            np.sum([by_candidate[n][step].astype(np.float64) for n, step in blend], axis=0)
            for by_candidate in self.scores
        ]
        values: np.ndarray = np.mean([self._per_query(total) for total in totals], axis=0)
        return values

    def _per_query(self, scores: np.ndarray) -> np.ndarray:
        """(queries,) the criterion, more being better; NaN where it is undefined."""
        evaluation = evaluate(scores, self.data, metrics=[self.metric], n_jobs=self.n_jobs)
        values = np.asarray(evaluation.per_query[self.metric.name])
        if np.isnan(values).all():
            raise ValueError(f"AutoRanker: {self.metric.name} is undefined for all queries, so nothing can be chosen.")
        return values if self.metric.higher_is_better else -values

    def _record(self, number: int, division: int) -> None:
        candidate = self.candidates[number]
        values = [float(np.nanmean(self._per_query(scores))) for scores in self.scores[-1][number]]
        best = int(np.argmax(values))
        record = {"what": candidate.name, "kind": "candidate", "division": division + 1}
        self.tried.append(record | {"trees": candidate.steps[best] or None, "value": self._shown(values[best])})

    def _blend_record(self, blend: tuple[Option, ...], value: float) -> dict[str, Any]:
        names = [self._option_name(option) for option in blend]
        record = {"what": " + ".join(names), "kind": "blend" if len(blend) > 1 else "single"}
        return record | {"division": None, "trees": None, "value": self._shown(value)}

    def _option_name(self, option: Option) -> str:
        candidate = self.candidates[option[0]]
        step = candidate.steps[option[1]]
        return candidate.name + (f" x {step}" if step else "")

    def _shown(self, value: float) -> float:
        return value if self.metric.higher_is_better else -value


def _is_better(values: np.ndarray, others: np.ndarray) -> bool:
    """Whether the mean over queries is larger by more than the doubt about it."""
    gain = values - others
    known = gain[~np.isnan(gain)]
    if len(known) < 2:
        return bool(known.sum() > 0)
    return bool(known.mean() > _DOUBT * known.std(ddof=1) / np.sqrt(len(known)))


def _staged(model: Any, candidate: Candidate, held: RankingData) -> Any:
    """Scores after so many trees each, or the scores; a training that ended before has its last ones again."""
    if not candidate.every:
        yield model.predict(held)
        return
    staged = list(itertools.islice(model.staged_predict(held), candidate.every - 1, None, candidate.every))
    last = model.predict(held)
    for number in range(len(candidate.steps)):
        yield staged[number] if number < len(staged) else last
