"""AutoRanker: the recipe as one call. Linear models, trees and nets are cross-validated, and the best are blended.

`plan_` says what was chosen, as plain JSON: `AutoRanker(plan=fitted.plan_, random_state=1)` trains the same blend with
another seed, or on other data, without choosing again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from podium._runtime.progress import notebook_progress
from podium._runtime.threads import usable_threads
from podium._runtime.words import check_choice
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.evaluation.evaluating import MetricLike
from podium.metrics.base import Metric
from podium.metrics.policies import POLICIES
from podium.models.frame.init_model import copy_unfitted, refuse_fitted_inits
from podium.models.frame.parameters import NAME, NAMES, Kind, SeedParameter, parameter, parametrized
from podium.models.frame.plan import Progress
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.transforms import Queries
from podium.persistence.validation import Fact, is_number
from podium.persistence.values import from_plain, to_plain
from podium.pipelines.auto.budget import Budget
from podium.pipelines.auto.candidates import FAMILIES, make_candidates, nets_each, seeded, with_batches
from podium.pipelines.auto.choosing import Choice, Report, Trying, choose
from podium.pipelines.auto.criteria import criterion_words, parse_criterion
from podium.pipelines.ensembles.bagged import Bagged
from podium.pipelines.ensembles.ensemble import Ensemble
from podium.pipelines.ensembles.stack import FoldsParameter
from podium.pipelines.ensembles.training import MembersTraining, Task, Trained
from podium.pipelines.ensembles.weighting import weighted_sum

# Of the choice; larger data are judged by a sample of their queries, so that trees too are tried in little time.
_MOST_ROWS, _LEAST_ROWS = 100_000, 5_000
_VALUES_PER_SECOND = 60_000  # of the budget; a value is a feature of a row
_PLAN_KEYS = {"members", "weights"}


def _is_plan(value: Any) -> bool:
    try:
        read_plan(value)
    except (ValueError, TypeError, KeyError, IndexError):
        return False
    return True


def _are_families(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and len(set(map(str, value))) == len(value)


@parametrized
class AutoRanker(FoldsParameter, SeedParameter, Ensemble):
    """A blend of linear models, trees and nets that cross-validation chooses for the data.

    `fit(train, eval_set=valid)`: the queries of evaluation sets take part in the choice, and with refit="all" in the
    final training; early_stopping_rounds has no effect, because the number of trees is part of the choice. `tried_` has
    one record per candidate and blend, `notes_` what was left out and why, `plan_` what was chosen. `timing_`, which is
    not saved, has the seconds of choosing, of training and of compiling kernels on their first use.
    """

    budget: float = parameter(
        600.0,
        "Seconds of the choice and the final training together, without those of compiling kernels on their first use. "
        "Candidates for which it is not enough are left out; at least the first one is trained.",
        low=1e-6,
        high=1e9,
    )
    criterion: Any = parameter(
        "ndcg@10",
        "What the choice maximises: a metric, or a sum of metrics.",
        kind=NAME,
        words='a metric, or a sum such as "map+meanndcg"',
    )
    policy: str = parameter("standard", "Policy of the criterion.", choices=tuple(POLICIES))
    families: Any = parameter(
        FAMILIES,
        "Kinds of models to try.",
        kind=NAMES,
        holds=_are_families,
        words=f"names, each once, out of {', '.join(FAMILIES)}",
    )
    divisions: int = parameter(
        2, "Number of divisions of the queries into folds; further ones try the best candidates only.", low=1, high=100
    )
    refit: str = parameter(
        "train",
        'What the chosen blend is trained on: the "train" rows, or "all", those of evaluation sets too.',
        choices=("train", "all"),
    )
    plan: Any = parameter(
        None,
        "The plan_ of a fitted AutoRanker: nothing is chosen, the blend is trained.",
        kind=Kind("a plan", _is_plan, json.loads),
        words="the plan_ of a fitted AutoRanker, or None",
    )

    folds: int = 4

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "weights_": "Weight of each member of the blend.",
        "plan_": "What was chosen, as plain JSON: the parameters of each member and the weights.",
        "tried_": "A record per candidate and blend that was compared.",
        "notes_": "Sentences about what was left out, and why.",
        "timing_": "Seconds of choosing, training and compiling; not part of the model file.",
    }
    scoring_parameters: ClassVar[tuple[str, ...]] = (*Ensemble.scoring_parameters, "criterion", "policy")
    state_facts: ClassVar[Mapping[str, Fact]] = {
        "plan": Fact("members and weights", _is_plan),
        "tried": Fact("records", lambda value: isinstance(value, list) and all(map(_is_record, value))),
        "notes": Fact("sentences", lambda value: isinstance(value, list) and all(isinstance(n, str) for n in value)),
    }

    def _n_members(self) -> int:
        return len(self.plan_["members"])

    def _tasks(self, data: RankingData, eval_sets: Mapping[str, RankingData], rounds: int | None) -> list[Task]:
        budget = Budget(float(self.budget))
        self.timing_: dict[str, float] = {}
        pool = _pooled(data, list(eval_sets.values()))
        rows = pool if self.refit == "all" else data
        ends: float | None = None
        if self.plan is not None:
            self._set_choice(self.plan, [], ["The plan was given."])
        else:
            ends = budget.limit if self._choose(pool, rows.n_rows, budget) else None
        members, self.weights_ = read_plan(self.plan_)
        self._ending = [Ending(budget, ends) for _ in members]
        return [partial(self._train_planned, *one, len(members), rows) for one in zip(members, self._ending)]

    def _choose(self, pool: RankingData, n_final_rows: int, budget: Budget) -> bool:
        """Choose; whether candidates were compared within the budget."""
        candidates, notes = make_candidates(pool, tuple(self.families))
        data, sampled = _sample(pool, self.random_state, _most_rows(pool, budget.limit))
        with notebook_progress("choosing a model") as bar:
            report = getattr(self, "_report", None) or bar
            rules = self.folds, budget, self.random_state, self.n_jobs, report, n_final_rows
            choice = choose(Trying(data, candidates, self._criterion(), *rules), self.divisions)
        self._set_choice(make_plan(choice), choice.tried, [*notes, *sampled, *choice.notes])
        self.timing_["choosing"] = budget.elapsed()
        return choice.is_compared

    def _set_choice(self, plan: Mapping[str, Any], tried: Sequence[dict[str, Any]], notes: Sequence[str]) -> None:
        self.plan_, self.tried_, self.notes_ = dict(plan), list(tried), list(notes)

    def _train_planned(self, member: Ranker, ending: Ending, n_members: int, data: RankingData) -> Trained:
        model = seeded(with_batches(self._copy(member, n_members), data.n_rows), self.random_state)
        if isinstance(model, Bagged):  # the others are done long before
            model.set_params(n_jobs=usable_threads(self.n_jobs))
        return Trained(model.fit(data, callbacks=[ending]))

    def check_member(self, member: Ranker, width: int | None = None) -> None:
        """A member of a checkpoint must be one that was chosen: with little time, the next run may choose others."""
        super().check_member(member, width)
        if hasattr(self, "_ending") and not any(_is_trained_by(one, member) for one in read_plan(self.plan_)[0]):
            chosen = f"{type(member).__name__} is not among the members that were chosen this time"
            advice = (
                "a choice depends on time where the budget is small. Give a larger budget, or remove the checkpoint"
            )
            raise ValueError(f"{chosen}; {advice}")

    def finish(self, training: MembersTraining) -> None:
        """The plan says what was trained, also where the budget ended the training."""
        for number, (ending, member) in enumerate(zip(self._ending, training.members)):
            if ending.is_over:
                steps, total, word = member.best_iteration_, ending.total, member.step_word
                planned = self.plan_["members"][number]
                self.plan_["members"][number] = to_plain(shortened(from_plain(planned, "member"), steps))
                name = type(member).__name__
                self.notes_.append(
                    f"{name}: the final training ended after {steps:,} of {total:,} {word}s: no time left."
                )
        budget = self._ending[0].budget
        seconds = {"training": budget.elapsed() - self.timing_.get("choosing", 0.0), "compiling": budget.compiling()}
        self.timing_ |= seconds
        del self._ending

    def _criterion(self) -> Metric:
        return parse_criterion(self.criterion, self.policy)

    def combined(self, scores: np.ndarray, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return weighted_sum(self.weights_[: len(scores)], scores)

    def _weights(self) -> list[float]:
        return [float(weight) for weight in self.weights_]

    def _unfitted(self) -> list[Ranker]:
        return [] if self.plan is None else read_plan(self.plan)[0]

    def _needs_pairs(self) -> bool:
        return True

    def _target_metric(self) -> MetricLike:
        is_sum = not isinstance(self.criterion, Metric) and "+" in str(self.criterion)
        return "ndcg@10" if is_sum else self._criterion()

    def check_parameters(self) -> None:
        super().check_parameters()
        for family in self.families:
            check_choice("AutoRanker: a family", family, FAMILIES)
        refuse_fitted_inits(self.plan, "AutoRanker")
        self._criterion()

    def fitted_state(self) -> FittedState:
        return replace(super().fitted_state(), facts={"plan": self.plan_, "tried": self.tried_, "notes": self.notes_})

    def restore_state(self, state: FittedState) -> None:
        super().restore_state(state)
        self._set_choice(state.facts["plan"], state.facts["tried"], state.facts["notes"])
        self.weights_ = read_plan(self.plan_)[1]

    def check_state(self) -> None:
        super().check_state()
        if len(self.weights_) < len(self.members_):
            raise ValueError(f"there are {len(self.weights_)} weights for {len(self.members_)} members")

    def _fitted_criterion(self) -> Metric:
        """What the choice was made by."""
        return parse_criterion(self.scoring_parameter("criterion"), self.scoring_parameter("policy"))

    def watch(self, report: Report | None) -> None:
        """Call `report(done, of, what)` after each candidate of the next choice."""
        self._report = report

    def left_out(self) -> list[str]:
        """Which candidates and divisions were not tried, or not to the end, and why, in sentences."""
        words = ("left out", "Left out", "ended after", "averages", "too small")
        return [note for note in self.notes_ if any(word in note for word in words)]

    def why(self) -> list[str]:
        """What was chosen, and what was left out, in sentences."""
        if not self.tried_:
            return self.notes_ if self.plan is None else ["The members of the plan, with its weights.", *self.notes_]
        chosen, metric = self.tried_[-1], self._fitted_criterion()
        compared = [one for one in self.tried_ if one["kind"] != "candidate"]
        best = (max if metric.higher_is_better else min)(compared, key=lambda one: float(one["value"]))
        value = f"{criterion_words(metric)} {chosen['value']:.4f} on queries that were not trained on"
        beside = "" if best["value"] == chosen["value"] else f", the best was {best['value']:.4f} ({best['what']})"
        return [f"Chosen: {chosen['what']}.", f"{value}{beside}.", *self.notes_]


@dataclass(eq=False)
class Ending:
    """A callback that ends the training of a member when the budget is spent: predictions can be wrong."""

    budget: Budget
    ends: float | None  # None: never
    is_over: bool = False
    total: int = 0

    def __call__(self, progress: Progress) -> bool:
        done, self.total = progress.iteration, progress.total
        self.is_over = self.ends is not None and done < self.total and self.budget.elapsed() > self.ends
        return self.is_over


def shortened(model: Ranker, steps: int) -> Ranker:
    """A model whose training ends after so many steps. Nets stay as they are: their step sizes depend on all epochs."""
    for name in ("n_members", "n_estimators", "max_iter"):
        if hasattr(model, name):
            model.set_params(**{name: steps})
            break
    return model


def _is_trained_by(planned: Ranker, member: Ranker) -> bool:
    """Whether they have the same parameters, but for seeds, threads and batches, which are set for the training."""
    planned, member = (seeded(copy_unfitted(one), 0) for one in (planned, member))
    for one in (planned, member):
        several = {"n_jobs", "model__n_jobs", "batch_size"} & set(one.get_params())
        one.set_params(**dict.fromkeys(several - {"batch_size"}, 1), **dict.fromkeys(several & {"batch_size"}, 32))
    return bool(to_plain(planned) == to_plain(member))


def make_plan(choice: Choice) -> dict[str, Any]:
    """What was chosen, as plain JSON."""
    n_forests, n_nets = choice.averaged
    n_nets = nets_each([member.candidate for member in choice.members], n_nets)
    members = [to_plain(member.candidate.final(member.step, n_nets, n_forests)) for member in choice.members]
    return {"members": members, "weights": [1 / len(members)] * len(members)}


def read_plan(plan: Any) -> tuple[list[Ranker], np.ndarray]:
    """The unfitted members and their weights; ValueError for anything else."""
    if not isinstance(plan, Mapping) or set(plan) != _PLAN_KEYS:
        raise ValueError(f"a plan must have {' and '.join(sorted(_PLAN_KEYS))}")
    members, weights = plan["members"], plan["weights"]
    if not isinstance(members, (list, tuple)) or not isinstance(weights, (list, tuple)) or not members:
        raise ValueError("members and weights of a plan must be lists")
    if len(members) != len(weights) or not all(is_number(weight) and weight >= 0 for weight in weights):
        raise ValueError("a plan must have one weight per member, 0 or larger")
    models = [from_plain(member, f"member {number}") for number, member in enumerate(members, 1)]
    if not all(isinstance(member, Ranker) and not isinstance(member, AutoRanker) for member in models):
        raise ValueError("the members of a plan must be models")
    return models, np.array(weights, np.float64)


def _is_record(value: Any) -> bool:
    plain = (str, int, float, bool, type(None))
    return isinstance(value, Mapping) and all(isinstance(k, str) and isinstance(v, plain) for k, v in value.items())


def _pooled(data: RankingData, eval_sets: Sequence[RankingData]) -> RankingData:
    """All rows; queries of different sets are different queries, whatever their ids are."""
    if not eval_sets:
        return data
    parts, start = [], 0
    for part in (data, *eval_sets):
        ids = np.arange(start, start + part.n_queries)
        parts.append(replace(part, query_ids=ids, docid_texts=None, comment_texts=None))
        start += part.n_queries
    return RankingData.concat(parts)


def _most_rows(data: RankingData, seconds: float) -> int:
    """How many rows to choose by: more with a larger budget, fewer with more features (or stored values per row)."""
    n_values = data.X.nnz if is_sparse(data.X) else data.X.size
    rows = seconds * _VALUES_PER_SECOND * data.n_rows / max(1, n_values)
    return int(np.clip(rows, _LEAST_ROWS, _MOST_ROWS))


def _sample(data: RankingData, seed: int, most_rows: int) -> tuple[RankingData, list[str]]:
    """The data, or so many of the queries that there are few enough rows to choose by."""
    if data.n_rows <= most_rows:
        return data, []
    order = np.random.default_rng(seed).permutation(data.n_queries)
    enough = int(np.searchsorted(np.cumsum(data.group[order]), most_rows)) + 1
    note = f"The choice was made on {enough:,} of {data.n_queries:,} queries, drawn at random."
    return data.subset(np.sort(order[:enough])), [note]
