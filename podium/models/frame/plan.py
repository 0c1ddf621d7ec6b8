"""Training plans: how a model is trained. `Ranker.training_plan` returns one; `fitting.py` carries it out.

Objective, target metric, how the learner is made and what becomes of what it has learned are all that models differ in;
evaluation sets, early stopping, callbacks, checkpoints and interrupts are the same for every plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from podium._runtime.interrupts import deferred_interrupts, undisguised_interrupts
from podium._runtime.once import once
from podium.data.given_pairs import GivenPairs
from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.evaluation.evaluating import MetricLike
from podium.objectives.base import BoundObjective, Objective
from podium.objectives.registry import OBJECTIVES, parse_objective

if TYPE_CHECKING:
    from podium.learners.monitor import Curves
    from podium.learners.protocol import Learner
    from podium.models.frame.ranker import Ranker

TELLING_QUERIES = 100
"""With fewer queries that have an order, the best step on an evaluation set is a worse choice than the last one."""

LearnerT = TypeVar("LearnerT", bound="Learner")
_Fit = TypeVar("_Fit", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """What a learner is made of: the rows, with columns as the learner sees them, and what else `fit` was given."""

    ungrouped: RankingData  # in the order of `fit`
    init_scores: np.ndarray | None = None  # (rows,) of the grouped rows: what the model starts from
    eval_sets: Sequence[RankingData] = ()
    eval_names: Sequence[str] = ()
    eval_offsets: Sequence[np.ndarray | float] = ()  # what evaluation sets have from an init model
    early_stopping_rounds: int | None = None
    continued: bool = False  # further steps of the fitted model
    n_jobs: int | None = None
    pairs: GivenPairs | None = None  # in place of labels; rows as in `data`
    shard: Shard | None = None  # these are the rows of one rank of several that train together

    @once
    def data(self) -> RankingData:
        """Grouped: the rows of query 0, then those of query 1, ..."""
        return self.ungrouped.grouped()

    @property
    def local_shard(self) -> Shard:
        """Which of all rows these are: all, unless other ranks have the others."""
        return self.shard or Shard.whole(self.data.offsets)

    @property
    def order(self) -> np.ndarray:
        """(rows,) where each grouped row stands among those that `fit` was given."""
        return self.ungrouped.rows

    def bind(self, objective: Objective) -> BoundObjective:
        """The objective with the labels, or the given pairs, and the weights of the grouped rows."""
        data = self.data
        if self.pairs is not None:
            from podium.objectives.given_pairs import bind_pairs

            weights = data.sample_weight, data.query_weight
            return bind_pairs(objective, self.pairs, data.offsets, *weights, self.n_jobs, self.shard)
        arguments = data.labels_for("fit"), data.offsets, data.sample_weight, data.query_weight, self.n_jobs
        return objective.bind(*arguments, *([] if self.shard is None else [self.shard]))


@dataclass(frozen=True, eq=False)
class TrainingPlan(Generic[LearnerT]):
    """How a model is trained."""

    make_learner: Callable[[TrainingRows], LearnerT]
    keep: Callable[[LearnerT], None]  # makes what was learned the fitted state of the model
    n_steps: int | Callable[[], int]  # or a function, which is asked once there is a learner
    objective: Objective | None = None  # None: the learner has a loss of its own
    target_metric: MetricLike | None = None  # None: that of the objective, or ndcg@10
    needs_pairs: bool | None = None  # whether queries with one label teach nothing; None: as the objective says
    uses_labels: bool = True
    takes_pairs: bool = False  # whether `fit` may be given pairs, with their probabilities, in place of labels
    default_rounds: int | None = None  # early_stopping_rounds unless given, where the evaluation set can tell
    stops_itself: bool = False  # early stopping is the learner's affair, not that of the monitor
    explain: Callable[[LearnerT, int], None] | None = None  # warns of what went wrong in so many steps
    close: Callable[[LearnerT], None] | None = None  # called in the end, whatever happens

    @property
    def metric(self) -> MetricLike:
        """What evaluation sets are judged by unless `eval_metric` is given."""
        if self.target_metric is not None:
            return self.target_metric
        target: MetricLike = getattr(self.objective, "target", "ndcg@10")
        return target

    @property
    def learns_from_pairs(self) -> bool:
        if self.needs_pairs is not None:
            return self.needs_pairs
        return self.objective is None or self.objective.needs_pairs

    def patience(self, rows: TrainingRows) -> int | None:
        """After how many steps without progress the training ends; None for never."""
        if self.stops_itself:
            return None
        if rows.early_stopping_rounds is not None:
            return rows.early_stopping_rounds or None
        can_tell = bool(rows.eval_sets) and ordered_queries(rows.eval_sets[0]) >= TELLING_QUERIES
        return self.default_rounds if can_tell else None


def ordered_queries(data: RankingData) -> int:
    """How many queries have two different labels, and so an order to be found."""
    labels = data.labels_for("fit")[data.rows]
    low, high = (of.reduceat(labels, data.offsets[:-1]) for of in (np.minimum, np.maximum))
    return int((low < high).sum())


@dataclass(frozen=True)
class Progress:
    """What callbacks are given after each step; returning True stops the training."""

    model: Ranker
    iteration: int  # steps done
    total: int
    evals: Curves


Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True, eq=False)
class FitOptions:
    """The arguments of `fit` besides rows, labels and query ids."""

    group: Any = None
    sample_weight: Any = None
    query_weight: Any = None
    pairs: Any = None
    eval_set: Any = None
    early_stopping_rounds: int | None = None
    callbacks: Sequence[Callback] = ()
    verbose: int | None = None
    checkpoint: Any = None
    every: int = 10
    checkpoint_errors: str = "stop"

    @property
    def weights(self) -> dict[str, Any]:
        """What belongs to the training rows."""
        return {"group": self.group, "sample_weight": self.sample_weight, "query_weight": self.query_weight}


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a training: what was learned until then is kept on the model."""


def all_or_nothing(fit: _Fit) -> _Fit:
    """A `fit` that leaves the fitted state as it was where it fails; parameters are the caller's affair.

    Its signature, which scikit-learn reads, has the fields of `FitOptions` in place of `**options`.
    """

    @wraps(fit)
    def whole_fit(self: Ranker, *args: Any, **options: Any) -> Any:
        parameters, before = {f.name for f in fields(self)}, dict(self.__dict__)
        with deferred_interrupts(), undisguised_interrupts():
            try:
                return fit(self, *args, **options)
            except Interrupted:
                raise
            except BaseException:
                now = {name: value for name, value in self.__dict__.items() if name in parameters}
                self.__dict__ = {name: value for name, value in before.items() if name not in parameters} | now
                raise

    accepted = signature(fit)
    shown = [one for one in accepted.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    if len(shown) < len(accepted.parameters):
        shown += [
            Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type) for f in fields(FitOptions)
        ]
    whole_fit.__signature__ = accepted.replace(parameters=shown)  # type: ignore[attr-defined]
    return cast(_Fit, whole_fit)


def named_objective(model: object, chosen: Any, **settings: Any) -> Objective:
    """An objective. One that is given by name has the model's seed and metric, where it takes them, and `settings`.

    A pair_exponent of the model is that of the objective; it is refused where the objective has none.
    """
    kind = OBJECTIVES.get(chosen.strip().lower()) if isinstance(chosen, str) else None
    if kind is not None:
        shared = {"seed": getattr(model, "random_state", None), "metric": getattr(model, "metric", None)}
        values = {name: value for name, value in shared.items() if value is not None} | settings
        objective = parse_objective(chosen, **{f.name: values[f.name] for f in fields(kind) if f.name in values})
    else:
        objective = parse_objective(chosen)
    exponent = getattr(model, "pair_exponent", 0.0)
    if not exponent:
        return objective
    if "pair_exponent" not in {field.name for field in fields(objective)}:
        problem = f"pair_exponent={exponent:g} is for pairwise objectives and lambda; got objective {objective.name!r}"
        raise ValueError(f"{type(model).__name__}: {problem}. Leave it at 0.")
    return parse_objective(objective, pair_exponent=float(exponent))


def target_parameter(model: object) -> MetricLike | None:
    """The parameter `metric` of a model, unless it has an Objective, which knows its own target."""
    return None if isinstance(getattr(model, "objective", None), Objective) else getattr(model, "metric", None)
