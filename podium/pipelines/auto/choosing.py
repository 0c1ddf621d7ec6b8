"""The choice of AutoRanker: which candidates, with how many trees, in one blend.

Every candidate scores every query by models that have not seen it. The best of each group are then blended with equal
weights, groups in all combinations, and the blend is chosen by the criterion. Where the data cannot tell a blend of
more groups from the best one, it is taken: it varies less. One division into folds is a matter of luck, so the best
candidates are tried on further ones.

The budget decides before a candidate, between its steps, and before a division; whatever it leaves out is in the notes.
Of the time that is left, what the final training of the best blend so far takes is not spent. With enough of it the
choice depends on the data and the seed alone.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podium._runtime.interrupts import check_interrupts
from podium._runtime.threads import usable_threads
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate
from podium.metrics.base import Metric
from podium.models.frame.estimator import clone
from podium.models.frame.transforms import queries_of
from podium.pipelines.auto.budget import Budget, OutOfTime, Watch
from podium.pipelines.auto.candidates import AS_THEY_ARE, WITHIN_QUERY, Candidate, with_batches
from podium.pipelines.auto.costs import AVERAGED, LEAST, Costs
from podium.pipelines.auto.cross_validation import divide_queries, over_folds
from podium.pipelines.ensembles.normalizing import normalize

_KEPT = {"linear": 2, "trees": 2, "nets": 1}  # candidates of each group that further divisions try, by family
_DOUBT = 1.0  # standard errors of a difference that does not count as one: the one-standard-error rule
_WARM_ROWS, _WARM_STEPS = 1_000, 3  # of trainings that only compile kernels
_EVALUATIONS = 3  # of each option, by the blends that are compared in the end

Report = Callable[[int, int, str], None]
Option = tuple[int, int]  # the number of a candidate, and the place of its step


@dataclass(frozen=True)
class Member:
    """A candidate with its number of trees (0: nothing to choose)."""

    candidate: Candidate
    step: int


@dataclass(frozen=True)
class Best:
    """The best value of a candidate, more being better, and its number of trees."""

    value: float
    step: int


@dataclass
class Choice:
    """The members of the blend, and a record of everything that was tried."""

    members: list[Member]
    tried: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    averaged: tuple[int, int] = AVERAGED[0]  # forests and nets of the final training
    is_compared: bool = True


def choose(trying: Trying, divisions: int) -> Choice:
    """The blend for data, all of which may be looked at."""
    if trying.data.n_queries < 2:
        return _unjudged(trying.candidates)
    if not trying.divide(range(len(trying.candidates)), 0):
        return trying.first_untried()
    for division in range(1, divisions):
        if not trying.divide(trying.survivors(), division):
            break
    return trying.conclude()


def _unjudged(candidates: Sequence[Candidate]) -> Choice:
    """The first candidate of each group; nets, which can diverge on so few rows, only where there is nothing else."""
    first = {one.group: one for one in reversed(candidates)}
    sure = [one for one in candidates if first[one.group] is one and one.family != "nets"] or [candidates[0]]
    members = [Member(one, one.steps[len(one.steps) // 2]) for one in sure]
    note = "There is a single query, so nothing could be compared: one candidate per group."
    return Choice(members, [], [note], is_compared=False)


@dataclass(eq=False)
class Trying:
    """Out-of-fold scores by division and candidate."""

    data: RankingData
    candidates: Sequence[Candidate]
    metric: Metric
    folds: int
    budget: Budget
    seed: int
    n_jobs: int | None
    report: Report | None = None
    n_final_rows: int = 0  # of the final training; 0: as many as are judged by
    scores: list[dict[int, np.ndarray]] = field(default_factory=list)  # division: candidate: (steps, rows) standardised
    best: dict[int, Best] = field(default_factory=dict)  # of the candidates of the first division
    tried: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warm: set[str] = field(default_factory=set)  # families whose kernels are compiled

    def __post_init__(self) -> None:
        n_final, n_threads = self.n_final_rows or self.data.n_rows, usable_threads(self.n_jobs)
        sizes = self.data.n_rows, n_final, self.data.X.shape[1]
        self.costs = Costs(self.candidates, *sizes, max(2, self.n_folds), n_threads)

    @property
    def n_folds(self) -> int:
        return min(self.folds, self.data.n_queries)

    def divide(self, numbers: Sequence[int], division: int) -> bool:
        """Try candidates on one more division; whether there is a result."""
        if division and not self._has_time_for(numbers, division):
            return False
        fold_of = divide_queries(self.data, self.n_folds, self.seed + division)
        self.scores.append({})
        for done, number in enumerate(numbers):
            check_interrupts()
            if division or self._may_begin(number):
                try:
                    self._try(number, division, fold_of)
                except OutOfTime as reason:
                    if division:  # candidates are compared on the same divisions
                        self.scores.pop()
                        self._leave_out(f"Division {division + 1} was left out at {self._name(number)}", reason)
                        return False
                    self._leave_out(f"{self._name(number)}: left out", reason)
            if self.report is not None:
                self.report(done + 1, len(numbers), self._name(number))
        if not division:
            self._note_columns()
        if not self.scores[-1]:
            self.scores.pop()
            return False
        return True

    def _warm_up(self, candidate: Candidate) -> None:
        """Compile or load the kernels of a family by a few steps on a few queries, so that none is measured with them.

        Programs of nets are compiled for each number of rows, and so belong to what is measured.
        """
        if candidate.family in self.warm or candidate.family == "nets":
            return
        self.warm.add(candidate.family)
        n_queries = int(np.searchsorted(np.cumsum(self.data.group), _WARM_ROWS)) + 1
        few = self.data.subset(np.arange(self.data.n_queries) < n_queries)
        model = clone(candidate.model).set_params(n_jobs=self.n_jobs)
        with warnings.catch_warnings(), suppress(ValueError):  # which the candidate will say itself
            warnings.simplefilter("ignore")
            model.fit(few, callbacks=[lambda progress: progress.iteration >= _WARM_STEPS])
            self._per_query_of(model.predict(few), few)

    def _try(self, number: int, division: int, fold_of: np.ndarray) -> None:
        """A candidate that cannot be trained on these data is left out, and the others go on."""
        candidate = self.candidates[number]
        self._warm_up(candidate)
        watch = self._watch(number)
        try:
            scores = self._out_of_fold(candidate, fold_of, watch)
        except OutOfTime:
            self.costs.measured.setdefault(number, watch.needed)
            raise
        except ValueError as error:
            self.notes.append(f"{candidate.name}: left out, because it failed: {error}")
            return
        self.costs.measured[number] = max(watch.longest, self.costs.measured.get(number, 0.0))
        self.scores[-1][number] = scores
        self._record(number, division)

    def _may_begin(self, number: int) -> bool:
        """Whether the predictions leave enough time, and other columns were not better."""
        candidate = self.candidates[number]
        if candidate.columns and candidate.columns == self._worse_columns(candidate.family):
            return False
        watch = self._watch(number)
        needed, left = watch.needs(self.costs.training(number)), watch.allowed
        return self._is_enough(left, needed, f"{candidate.name}: left out")

    def _has_time_for(self, numbers: Sequence[int], division: int) -> bool:
        needed = sum(map(self.costs.trying, numbers))
        left = self.budget.left() - sum(self._reserved().values())
        return self._is_enough(left, needed, f"Division {division + 1} was left out")

    def _is_enough(self, left: float, needed: float, what: str) -> bool:
        if left > 0 and needed <= left:
            return True
        reason = f"it needs {needed:.2f} s by prediction, and there were {left:.2f} s for it"
        self._leave_out(what, reason if left > 0 else "no time was left for it")
        return False

    def _leave_out(self, what: str, reason: object) -> None:
        self.notes.append(f"{what}, because {reason} (budget {self.budget.limit:g} s).")

    def _watch(self, number: int) -> Watch:
        """The final training of a candidate, hardly averaged, may use what is reserved for its group."""
        reserved, group = self._reserved(), self.candidates[number].group
        of_group = reserved.pop(group, 0.0)
        finals = self.costs.finals(number, averaged=LEAST)
        others = sum(reserved.values()) + self._reserved_for_first(number)
        return Watch(self.budget, self.costs.rounds, finals, of_group, others)

    def _reserved_for_first(self, number: int) -> float:
        """As long as there is no result: seconds of the first candidate, which is trained if nothing can be compared.

        A family that has been measured needs no reserve: its predictions say beforehand whether there is enough time.
        """
        families = {self.candidates[n].family for n in self.costs.measured}
        if self.best or self.candidates[number].family in families or not families:
            return 0.0
        return self.costs.final([(0, 0)], LEAST)

    def _reserved(self) -> dict[str, float]:
        """Seconds of the final training of the best of each group so far, and of comparing blends."""
        best: dict[str, int] = {}
        for number, one in self.best.items():
            group = self.candidates[number].group
            if group not in best or one.value > self.best[best[group]].value:
                best[group] = number
        n_options = sum(len(self.candidates[number].steps) for number in self.best)
        comparing = _EVALUATIONS * n_options * max(1, len(self.scores)) * self.costs.evaluation
        finals = {group: self.costs.final([(number, self.best[number].step)]) for group, number in best.items()}
        return finals | {"": comparing}

    def _columns(self, family: str) -> dict[str, float]:
        """The best value by kind of columns."""
        values: dict[str, float] = {}
        for number, one in self.best.items():
            candidate = self.candidates[number]
            if candidate.family == family and candidate.columns:
                values[candidate.columns] = max(one.value, values.get(candidate.columns, -np.inf))
        return values

    def _worse_columns(self, family: str) -> str:
        """Of the two kinds, the worse one; none as long as not both have been tried."""
        values = self._columns(family)
        return min(values, key=lambda kind: (values[kind], kind == AS_THEY_ARE)) if len(values) == 2 else ""

    def _note_columns(self) -> None:
        """What cross-validation says about columns made within the query, and which candidates it left out."""
        for family in dict.fromkeys(one.family for one in self.candidates):
            values, worse = self._columns(family), self._worse_columns(family)
            if not worse:
                continue
            better = AS_THEY_ARE if worse == WITHIN_QUERY else WITHIN_QUERY
            numbers = f"{self._shown(values[better]):.4f} against {self._shown(values[worse]):.4f} of {worse}"
            named = [n for n, one in enumerate(self.candidates) if one.family == family and one.columns == worse]
            left_out = "; ".join(self._name(n) for n in named if n not in self.best)
            and_so = f" Left out for that: {left_out}." if left_out else ""
            were = "as good" if values[better] == values[worse] else "better"
            self.notes.append(f"{family}: {better} were {were} by cross-validation, {numbers}.{and_so}")

    def first_untried(self) -> Choice:
        """Where nothing could be compared in time, the first candidate, with the middle of its numbers of trees."""
        first = next((one for one in self.candidates if not self._has_failed(one)), None)
        if first is None:
            raise ValueError(f"AutoRanker: no candidate could be trained. {' '.join(self.notes)}")
        note = f"The budget of {self.budget.limit:g} s was too small to compare anything: {first.name} was trained."
        members = [Member(first, first.steps[len(first.steps) // 2])]
        return Choice(members, [], [note, *self.notes], LEAST, is_compared=False)

    def _has_failed(self, candidate: Candidate) -> bool:
        return any(note.startswith(f"{candidate.name}: left out, because it failed") for note in self.notes)

    def _name(self, number: int) -> str:
        return self.candidates[number].name

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
        averaged = self._averaged(members)
        return Choice(members, self.tried, self.notes, averaged)

    def _averaged(self, members: Sequence[Member]) -> tuple[int, int]:
        """As many forests and nets as there is time for."""
        numbers = [(list(self.candidates).index(one.candidate), one.step) for one in members]
        left = self.budget.left()
        fits = (averaged for averaged in AVERAGED if self.costs.final(numbers, averaged) <= left)
        averaged = next(fits, LEAST)
        if averaged != AVERAGED[0] and any(one.candidate.is_averaged for one in members):
            fewer = f"{averaged[0]} of {AVERAGED[0][0]} forests and {averaged[1]} of {AVERAGED[0][1]} nets"
            reason = f"{max(left, 0.0):.2f} s were left for it"
            self._leave_out(f"The final training averages {fewer} where it averages", reason)
        return averaged

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

    def _out_of_fold(self, candidate: Candidate, fold_of: np.ndarray, watch: Watch) -> np.ndarray:
        """(steps, rows) scores by models that have not seen the query, standardised within it."""
        data, out_of_fold = self.data, np.empty((len(candidate.steps), self.data.n_rows), np.float32)
        in_fold = fold_of[data.query_numbers]

        def work(fold: int, threads: int) -> None:
            training = watch.training()
            train, held = data.subset(fold_of != fold), data.subset(fold_of == fold)
            model = with_batches(clone(candidate.model), train.n_rows)
            model.set_params(n_jobs=threads)
            model.fit(train, callbacks=[training])
            rows = np.flatnonzero(in_fold == fold)
            for step, scores in enumerate(_staged(model, candidate, held)):
                out_of_fold[step, rows] = normalize(scores, "zscore", queries_of(held), threads)
            training.end()

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
        return self._per_query_of(scores, self.data)

    def _per_query_of(self, scores: np.ndarray, data: RankingData) -> np.ndarray:
        evaluation = evaluate(scores, data, metrics=[self.metric], n_jobs=self.n_jobs)
        values = np.asarray(evaluation.per_query[self.metric.name])
        if np.isnan(values).all():
            raise ValueError(f"AutoRanker: {self.metric.name} is undefined for all queries, so nothing can be chosen.")
        return values if self.metric.higher_is_better else -values

    def _record(self, number: int, division: int) -> None:
        candidate = self.candidates[number]
        began = self.budget.elapsed()
        values = [float(np.nanmean(self._per_query(scores))) for scores in self.scores[-1][number]]
        self.costs.evaluation = max(self.costs.evaluation, (self.budget.elapsed() - began) / len(values))
        best = int(np.argmax(values))
        if not division:
            self.best[number] = Best(values[best], candidate.steps[best])
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
