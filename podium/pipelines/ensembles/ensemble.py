"""Ensemble: the frame of models that are made of models. Members are trained side by side; their scores are combined.

A member is a model of Podium with its own parameters. It is trained on what the ensemble is given (after the ensemble's
own transform), scores the same rows, and is saved in the ensemble's file as a child, `member 1`, `member 2`, ...
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from podium._runtime.threads import usable_threads
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.evaluation.evaluating import MetricLike
from podium.models.frame.estimator import is_estimator
from podium.models.frame.init_model import copy_unfitted
from podium.models.frame.inspection import EnsembleInspection, about_model
from podium.models.frame.nested import MODELS
from podium.models.frame.parameters import check_values, parameter, parametrized
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.transforms import Queries, without_source
from podium.pipelines.ensembles.normalizing import NORMALIZATIONS, normalize
from podium.pipelines.ensembles.training import MembersTraining, Task, Trained

if TYPE_CHECKING:
    from sklearn.utils import Tags

_MEMBER = "member {}"  # what members are called in the file


@parametrized
class Ensemble(Ranker):
    """Members and how their scores are combined."""

    normalization: str | None = parameter(
        "zscore",
        "How the scores of members are made comparable within the query before they are combined; None takes them as "
        "they are. All but None need qid in predict.",
        choices=NORMALIZATIONS,
        optional=True,
    )

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "members_": "The fitted models, in their order.",
    }
    step_word: ClassVar[str] = "member"
    default_patience: ClassVar[int] = True  # of each member its own
    scoring_parameters: ClassVar[tuple[str, ...]] = ("normalization",)

    def _tasks(self, data: RankingData, eval_sets: Mapping[str, RankingData], rounds: int | None) -> list[Task]:
        """One per member: a function that trains it."""
        options = {"eval_set": dict(eval_sets) or None, "early_stopping_rounds": rounds}
        return [partial(self._train_member, number, data, options) for number in range(self._n_members())]

    def _train_member(self, number: int, data: RankingData, options: dict[str, Any]) -> Trained:
        """Member `number`, from 0, with these options of `fit`."""
        raise NotImplementedError

    def finish(self, training: MembersTraining) -> None:
        """After the last member, `members_`: what else is to be learned, such as weights."""

    def combined(self, scores: np.ndarray, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """(rows,) from the normalized scores of the members, (members, rows)."""
        return np.asarray(scores.mean(axis=0))

    def training_plan(self) -> TrainingPlan[MembersTraining]:
        """Members stop early, each for itself; the ensemble always has all of them."""
        return TrainingPlan(
            self._make_learner,
            self._keep,
            n_steps=self._n_members,
            target_metric=self._target_metric(),
            needs_pairs=self._needs_pairs(),
            stops_itself=True,
            close=MembersTraining.close,  # a training that fails leaves no threads at work
        )

    def _n_members(self) -> int:
        return len(self._unfitted())

    def _target_metric(self) -> MetricLike:
        return self._unfitted()[0].evaluation_metric()

    def _needs_pairs(self) -> bool:
        return all(member.training_plan().learns_from_pairs for member in self._unfitted())

    def _make_learner(self, rows: TrainingRows) -> MembersTraining:
        self.members_: list[Ranker] = []
        data, parts = without_source(rows.ungrouped), map(without_source, rows.eval_sets)
        eval_sets = dict(zip(rows.eval_names, parts, strict=True))
        tasks = self._tasks(data, eval_sets, rows.early_stopping_rounds)
        return MembersTraining(self, tasks, data, usable_threads(self.n_jobs))

    def _keep(self, learner: MembersTraining) -> None:
        self.members_ = learner.members
        if not learner.is_complete:  # interrupted
            self.finish(learner)

    def _copy(self, model: Ranker, n_members: int, **changed: Any) -> Ranker:
        """An unfitted copy of a model that shares the threads with the other members."""
        together = usable_threads(self.n_jobs)
        made = copy_unfitted(model)
        made.set_params(n_jobs=max(1, together // min(together, n_members)), **changed)
        return made

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        scores = np.stack([self.normalized_scores(member, X, queries) for member in self.members_])
        return self.combined(scores, X, queries)

    def normalized_scores(self, member: Ranker, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        scores = member.score_rows(columns, queries)
        return normalize(scores, self.scoring_parameter("normalization"), queries, self.n_jobs)

    def needs_queries(self) -> bool:
        normalized, members = self.scoring_parameter("normalization") is not None, getattr(self, "members_", [])
        return super().needs_queries() or normalized or any(member.needs_queries() for member in members)

    def reason_for_queries(self) -> str:
        return "the scores of its members are normalized within the query, or its transform looks at the query"

    def _unfitted(self) -> list[Ranker]:
        """The models that are to be trained."""
        raise NotImplementedError

    def refuse_unsupported(self, X: FeatureMatrix, where: str, fitted: bool = False) -> None:
        for member in self.members_ if fitted else self._unfitted():
            member.refuse_unsupported(X, where, fitted)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = all(member.takes_missing(fitted=False) for member in self._unfitted())
        tags.input_tags.sparse = all(member.allows_sparse for member in self._unfitted())
        return tags

    def check_parameters(self) -> None:
        check_values(self)
        for member in self._unfitted():
            member.check_parameters()
        super().check_parameters()

    def fitted_state(self) -> FittedState:
        return FittedState(parts={_MEMBER.format(number): member for number, member in enumerate(self.members_, 1)})

    def restore_state(self, state: FittedState) -> None:
        numbers = range(1, len(state.parts) + 1)
        self.members_ = [state.parts[name] for name in map(_MEMBER.format, numbers) if name in state.parts]

    def check_state(self) -> None:
        super().check_state()
        members = getattr(self, "members_", [])
        if not members or len(members) != self.best_iteration_:
            raise ValueError(f"there are {len(members)} members, not {self.best_iteration_}")
        for model in self._unfitted():
            check_values(model)
        for member in members:
            self.check_member(member)

    def check_member(self, member: Ranker, width: int | None = None) -> None:
        width = self.n_columns if width is None else width
        if member.n_features_in_ != width or member.categories_:
            raise ValueError(f"{type(member).__name__} was trained on other features than the ensemble has")

    def inspect(self) -> EnsembleInspection:
        """What the model is made of: its members and its parameters. Print it."""
        parts = self.fitted_state().parts.values()
        return EnsembleInspection(*about_model(self), [part.inspect() for part in parts], self.member_weights())

    def member_weights(self) -> list[float]:
        """Of the members in their sum; none where it is no weighted sum."""
        return [1 / len(self.members_)] * len(self.members_)


@parametrized
class MembersParameter:
    """The models that an ensemble of several is made of."""

    members: Any = parameter(
        None,
        "The models: a list of models with their parameters. None: a LambdaMART and a Linear.",
        kind=MODELS,
        positional=True,
        words='a list of models such as [LambdaMART(), Linear()] (as text: "lambdamart, linear(max_iter=50)"), or None',
    )

    def _unfitted(self) -> list[Ranker]:
        if self.members is not None:
            return list(self.members)
        from podium.models.linear import Linear
        from podium.models.trees.named import LambdaMART

        return [LambdaMART(), Linear()]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with `deep` also those of the members, such as `members__0__n_estimators`."""
        params: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        if deep and isinstance(self.members, (list, tuple)):
            for number, member in enumerate(self.members):
                inner = member.get_params(deep=True) if is_estimator(member) else {}
                params |= {f"members__{number}__{name}": value for name, value in inner.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of members by `members__0__n_estimators`."""
        inner = {name: value for name, value in params.items() if name.startswith("members__")}
        super().set_params(**{name: value for name, value in params.items() if name not in inner})  # type: ignore[misc]
        for name, value in inner.items():
            _, number, parameter_name = name.split("__", 2)
            n_members = len(self.members) if isinstance(self.members, (list, tuple)) else 0
            if not number.isdecimal() or int(number) >= n_members:
                raise ValueError(f"{type(self).__name__}: {name} names a member that is not there.")
            self.members[int(number)].set_params(**{parameter_name: value})
        return self
