"""Stack: a second ranker on top of the scores of others.

A model scores the queries it was trained on too well. So the second ranker is trained on scores of unseen queries: the
queries are divided into folds, and those of a fold are scored by copies of the models that were trained on the others.
Then every model is trained on all queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix, as_dense
from podium.models.frame.holding_out import ValidationParameter
from podium.models.frame.init_model import refuse_fitted_inits, refuse_given_scores
from podium.models.frame.nested import MODEL
from podium.models.frame.parameters import SeedParameter, parameter, parametrized
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.transforms import Queries, queries_of
from podium.pipelines.ensembles.ensemble import Ensemble, MembersParameter
from podium.pipelines.ensembles.normalizing import normalize
from podium.pipelines.ensembles.training import MembersTraining, Task, Trained

_FINAL = "final"


@parametrized
class FoldsParameter:
    """The parts that queries are divided into."""

    folds: int = parameter(
        5, "Number of parts of the queries; each is scored by models of the others.", low=2, high=10**4
    )


@parametrized
class Stack(MembersParameter, FoldsParameter, SeedParameter, ValidationParameter, Ensemble):
    """A second ranker on top of the scores that models give to queries they have not seen.

    Members are trained side by side on `n_jobs` threads. If there is one query only, its documents are divided into
    folds.
    """

    final: Any = parameter(
        None,
        "The second ranker, with its parameters. None: a Linear.",
        kind=MODEL,
        words='a model such as Linear(objective="lambda") (as text: "linear(objective=lambda)"), or None',
    )
    passthrough: bool = parameter(False, "Whether the second ranker sees the features too, behind the scores.")

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "final_": "The fitted model on top, whose features are the scores of the members.",
    }
    search_space: ClassVar[Mapping[str, Any]] = {
        "folds": [3, 5, 10],
        "passthrough": [False, True],
        "normalization": ["zscore", "rank", None],
    }
    scoring_parameters: ClassVar[tuple[str, ...]] = (*Ensemble.scoring_parameters, "passthrough")

    def _last(self) -> Ranker:
        if self.final is not None:
            final: Ranker = self.final
            return final
        from podium.models.linear import Linear

        return Linear()

    def _tasks(self, data: RankingData, eval_sets: Mapping[str, RankingData], rounds: int | None) -> list[Task]:
        self._refuse_few(data)
        return super()._tasks(data, eval_sets, rounds)

    def _train_member(self, number: int, data: RankingData, options: dict[str, Any]) -> Trained:
        model, scores = self._unfitted()[number], np.empty(data.n_rows)
        part_of = divide_rows(data, self.folds, self.random_state)
        for fold in range(self.folds):
            unseen = take_rows(data, part_of == fold)
            member = self._copy(model, self._n_members()).fit(take_rows(data, part_of != fold), **options)
            scores[part_of == fold] = member.score_rows(unseen.X, queries_of(unseen))
        normalized = normalize(scores, self.normalization, queries_of(data), 1)
        return Trained(self._copy(model, self._n_members()).fit(data, **options), normalized)

    def _refuse_few(self, data: RankingData) -> None:
        """There must be something in each fold."""
        if data.n_queries == 1 and self.folds > data.n_rows:
            limit = f"the number of documents if there is one query, n_samples={data.n_rows}"
            raise ValueError(f"Stack: folds must be at most {limit}; got {self.folds}.")
        if 1 < data.n_queries < self.folds:
            raise ValueError(f"Stack: folds must be at most the number of queries, {data.n_queries}; got {self.folds}.")

    def finish(self, training: MembersTraining) -> None:
        unseen = np.stack([one.unseen for one in training.trained if one.unseen is not None])
        final: Ranker = self._copy(self._last(), 1)
        sets = [self._as_data(np.stack(scores), part) for scores, part in zip(training.scores, training.eval_sets)]
        self.final_ = final.fit(self._as_data(unseen, training.data), eval_set=sets or None)

    def _as_data(self, scores: np.ndarray, data: RankingData) -> RankingData:
        return replace(data, X=self._features(scores, data.X), feature_names=None)

    def _features(self, scores: np.ndarray, columns: FeatureMatrix) -> np.ndarray:
        """What the second ranker sees: one column per member and, if asked for, the features."""
        rows = np.ascontiguousarray(scores.T, dtype=np.float32)
        return np.hstack([rows, as_dense(columns)]) if self.scoring_parameter("passthrough") else rows

    def combined(self, scores: np.ndarray, columns: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return self.final_.score_rows(self._features(scores, columns), queries)

    def needs_queries(self) -> bool:
        final = getattr(self, "final_", None)
        return super().needs_queries() or (final is not None and final.needs_queries())

    def refuse_unsupported(self, X: FeatureMatrix, where: str, fitted: bool = False) -> None:
        super().refuse_unsupported(X, where, fitted)
        if self.scoring_parameter("passthrough") if fitted else self.passthrough:
            final = self.final_ if fitted else self._last()
            final.refuse_unsupported(X, where, fitted)

    def member_weights(self) -> list[float]:
        return []

    def fitted_state(self) -> FittedState:
        state = super().fitted_state()
        return replace(state, parts={**state.parts, _FINAL: self.final_})

    def restore_state(self, state: FittedState) -> None:
        super().restore_state(state)
        if _FINAL not in state.parts:
            raise ValueError("there is no second ranker")
        self.final_ = state.parts[_FINAL]

    def check_state(self) -> None:
        super().check_state()
        self.check_member(self.final_, len(self.members_) + self.scoring_parameter("passthrough") * self.n_columns)

    def check_parameters(self) -> None:
        super().check_parameters()
        self._last().check_parameters()
        refuse_fitted_inits(self._unfitted(), "Stack")
        refuse_given_scores(self._unfitted(), "Stack")


def divide_rows(data: RankingData, folds: int, seed: int) -> np.ndarray:
    """(rows,) the fold of each row: whole queries or, where there is one query only, its documents."""
    rng = np.random.default_rng(seed)
    if data.n_queries == 1:
        return np.asarray(rng.permutation(np.arange(data.n_rows) % folds))
    return np.asarray(rng.permutation(np.arange(data.n_queries) % folds)[data.query_numbers])


def take_rows(data: RankingData, chosen: np.ndarray) -> RankingData:
    """The chosen rows, in their order; of several queries, whole ones are chosen."""
    if data.n_queries > 1:
        return data.subset(np.unique(data.query_numbers[chosen]))
    taken = np.flatnonzero(chosen)
    return data._take(taken, rows=np.arange(len(taken)), offsets=np.array([0, len(taken)]))
