"""Ensemble: the frame of models that are made of models. Members are trained side by side; their scores are combined.

A member is a model of Podium with its own parameters. It is trained on what the ensemble is given (after the ensemble's
own transform), scores the same rows, and is saved in the ensemble's file as a child, `member 1`, `member 2`, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from podium._runtime.threads import usable_threads
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.models.frame.inspection import EnsembleInspection, shown_parameters
from podium.models.frame.nested import MODELS
from podium.models.frame.parameters import parameter, parametrized
from podium.models.frame.ranker import Ranker
from podium.models.frame.starting import copy_unfitted
from podium.models.frame.transforms import Queries, without_source
from podium.pipelines.ensembles.normalizing import NORMALIZATIONS, normalize
from podium.pipelines.ensembles.training import MembersTraining, Task, Trained


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

    step_word: ClassVar[str] = "member"
    _FITTED_PARAMETERS: ClassVar[tuple[str, ...]] = ("normalization",)

    # --- what members define

    def _tasks(self, data: RankingData, eval_sets: Sequence[RankingData], rounds: int | None) -> list[Task]:
        """One per member: a function that trains it."""
        raise NotImplementedError

    def _finish(
        self,
        trained: Sequence[Trained],
        scores: Sequence[np.ndarray],
        data: RankingData,
        eval_sets: Sequence[RankingData],
    ) -> None:
        """After the last member, `members_`: what else is to be learned, such as weights.

        scores: (members, rows) normalized, one array per evaluation set.
        """

    def _combined(self, scores: np.ndarray, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """(rows,) from the normalized scores of the members, (members, rows)."""
        return np.asarray(scores.mean(axis=0))

    # --- training

    def _run(self, *what: Any) -> None:
        try:
            super()._run(*what)
        finally:  # a training that fails leaves no threads at work
            training = self.__dict__.pop("_training", None)
            if training is not None:
                training.close()

    def _start(
        self,
        data: RankingData,
        eval_sets: list[RankingData],
        early_stopping_rounds: int | None,
        *,
        continued: bool,
        **own: Any,
    ) -> MembersTraining:
        """Members stop early, each for itself; the ensemble always has all of them."""
        self.members_: list[Ranker] = []
        data, eval_sets = without_source(data), [without_source(part) for part in eval_sets]
        tasks = self._tasks(data, eval_sets, early_stopping_rounds)
        self._training = MembersTraining(self, tasks, data, eval_sets, usable_threads(self.n_jobs))
        return self._training

    def _patience(self, early_stopping_rounds: int | None) -> None:
        return None

    def _set_fitted(self, learner: MembersTraining) -> None:
        self.members_ = learner.members
        if not learner.is_complete:  # interrupted
            learner.finish()

    def _copy(self, model: Ranker, n_members: int, **changed: Any) -> Ranker:
        """An unfitted copy of a model that shares the threads with the other members."""
        together = usable_threads(self.n_jobs)
        made = copy_unfitted(model)
        made.set_params(n_jobs=max(1, together // min(together, n_members)), **changed)
        return made

    # --- scoring

    def _row_scores(self, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        columns = self._columns(rows, queries)
        return self._combined(self._member_scores(columns, queries), columns, queries)

    def _member_scores(self, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """(members, rows) float64, normalized."""
        return np.stack([self._normalized(member, columns, queries) for member in self.members_])

    def _normalized(self, member: Ranker, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        scores = member._score_rows(columns, queries)
        return normalize(scores, self._fitted_parameter("normalization"), queries, self.n_jobs)

    def _needs_qid(self) -> bool:
        normalized, fitted = self._fitted_parameter("normalization") is not None, getattr(self, "members_", [])
        return super()._needs_qid() or normalized or any(one._needs_qid() for one in fitted)

    def _reason_for_qid(self) -> str:
        return "the scores of its members are normalized within the query, or its transform looks at the query"

    def _unfitted(self) -> list[Ranker]:
        """The models that are to be trained."""
        raise NotImplementedError

    def _supported(self, X: FeatureMatrix, where: str, fitted: bool = False) -> FeatureMatrix:
        for member in self.members_ if fitted else self._unfitted():
            member._supported(X, where, fitted)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = all(member._ALLOWS_MISSING for member in self._unfitted())
        tags.input_tags.sparse = all(member._ALLOWS_SPARSE for member in self._unfitted())
        return tags

    def _aim(self) -> Any:
        return self._unfitted()[0]._judging_metric()

    def _needs_pairs(self) -> bool:
        return all(member._needs_pairs() for member in self._unfitted())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for member in self._unfitted():
            member._check_parameters()
        self._judging_metric()

    # --- the file

    def _children(self) -> dict[str, Ranker]:
        return {f"member {number}": member for number, member in enumerate(self.members_, 1)}

    def _set_child(self, name: str, child: Ranker) -> None:
        if "members_" not in self.__dict__:
            self.members_ = []
        if name != f"member {len(self.members_) + 1}":
            super()._set_child(name, child)
        self.members_.append(child)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        members = getattr(self, "members_", [])
        if not members or len(members) != self.best_iteration_:
            raise ValueError(f"there are {len(members)} members, not {self.best_iteration_}")
        for model in self._unfitted():
            Ranker._check_parameters(model)
        for member in members:
            self._check_member(member)

    def _check_member(self, member: Ranker, width: int | None = None) -> None:
        width = self._n_columns if width is None else width
        if member.n_features_in_ != width or member.categories_:
            raise ValueError(f"{type(member).__name__} was trained on other features than the ensemble has")

    def inspect(self) -> EnsembleInspection:
        """What the model is made of: its members and its parameters. Print it."""
        about = type(self).__name__, self.n_features_in_, *shown_parameters(self)
        return EnsembleInspection(*about, [member.inspect() for member in self._children().values()], self._weights())

    def _weights(self) -> list[float]:
        return [1 / len(self.members_)] * len(self.members_)


@parametrized
class MembersParameter:
    """The models that an ensemble of several is made of."""

    members: Any = parameter(
        None,
        "The models: a list of models with their parameters. None: a LambdaMART and a Linear.",
        kind=MODELS,
        optional=True,
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
        found: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        if deep and isinstance(self.members, (list, tuple)):
            for number, member in enumerate(self.members):
                own = {} if not hasattr(member, "get_params") else member.get_params(deep=True)
                found |= {f"members__{number}__{name}": value for name, value in own.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of members by `members__0__n_estimators`."""
        inner = {name: value for name, value in params.items() if name.startswith("members__")}
        super().set_params(**{name: value for name, value in params.items() if name not in inner})  # type: ignore[misc]
        for name, value in inner.items():
            _, number, own = name.split("__", 2)
            there = len(self.members) if isinstance(self.members, (list, tuple)) else 0
            if not number.isdecimal() or int(number) >= there:
                raise ValueError(f"{type(self).__name__}: {name} names a member that is not there.")
            self.members[int(number)].set_params(**{own: value})
        return self
