"""SelfAttentionRanker: a net that scores each document in the light of the others of its query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.learners.net.attention import AttentionFunction, AttentionShape
from podium.learners.net.scoring import Inputs
from podium.models.frame.inspection import NetInspection, shown_parameters
from podium.models.frame.parameters import MetricParameter, ObjectiveParameter, PairExponent, parameter, parametrized
from podium.models.frame.transforms import Queries, queries_of
from podium.models.nets import TRAINING_SPACE, TrainedNet, require_jax
from podium.objectives.base import Objective
from podium.persistence.validation import Fact

_MOST = {"width": 2**14, "n_layers": 1000, "n_heads": 2**14}


def _is_size(name: str) -> Fact:
    return Fact(f"an integer from 1 to {_MOST[name]}", lambda value: type(value) is int and 1 <= value <= _MOST[name])


@parametrized
class SelfAttentionRanker(ObjectiveParameter, MetricParameter, PairExponent, TrainedNet):
    """A small transformer over the documents of a query: scores depend on the whole list, not on its order.

    `predict` needs query ids.
    """

    objective: Any = "lambda"
    embedding_size: int = parameter(32, "Numbers per document inside the net.", low=1, high=_MOST["width"])
    n_layers: int = parameter(1, "Number of layers of attention.", low=1, high=_MOST["n_layers"])
    n_heads: int = parameter(
        2, "Number of heads per layer; embedding_size must be a multiple.", low=1, high=_MOST["n_heads"]
    )

    search_space: ClassVar[Mapping[str, Any]] = TRAINING_SPACE | {"embedding_size": [16, 32, 64], "n_layers": [1, 2]}
    _FACTS: ClassVar[Mapping[str, Fact]] = {name: _is_size(name) for name in _MOST}

    def _objective(self) -> Any:
        return self._named_objective(self.objective)

    def _aim(self) -> Any:
        return super()._aim() if isinstance(self.objective, Objective) else self.metric

    def _start(
        self,
        data: RankingData,
        eval_sets: list[RankingData],
        early_stopping_rounds: int | None,
        *,
        continued: bool,
        **own: Any,
    ) -> Any:
        learner = self._learner(data, continued)
        for part in eval_sets:
            learner.follow_lists(part.X, queries_of(part), self._offset(part))
        return learner

    def _learner(self, data: RankingData, continued: bool) -> Any:
        require_jax(type(self).__name__)
        from podium.learners.net.training import AttentionTraining, DeviceEpochs, ListRunner

        base, data, rules = self._base_scores(data), data.grouped(), self._rules()
        inputs, target = Inputs.of(data.X), self._bind(data)
        shape = AttentionShape(inputs.width, int(self.embedding_size), int(self.n_layers), int(self.n_heads))
        rows = inputs.columns(data.X), data.offsets, target, shape, rules, base
        runner = (DeviceEpochs if self._on_device(target) else ListRunner)(*rows)
        return AttentionTraining(inputs, shape, rules, runner, target.start() if base is None else 0.0)

    def _needs_qid(self) -> bool:
        return True

    def _reason_for_qid(self) -> str:
        return "it scores each document in the light of the others of its query"

    def _row_scores(self, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        assert queries is not None
        order, offsets = queries
        scores = np.empty(len(order))
        scores[order] = self.net_.scores(self._columns(rows, queries)[order], offsets, self.n_jobs)
        return self._with_base(scores, rows, queries)

    def _scores(self, X: FeatureMatrix) -> np.ndarray:
        raise ValueError(f"{type(self).__name__}: scores need query ids, because {self._reason_for_qid()}.")

    def inspect(self) -> NetInspection:
        """What the model is made of. Print it."""
        shape, nets = self.net_.shape, len(self.net_.weights)
        about = type(self).__name__, self.n_features_in_, *shown_parameters(self)
        return NetInspection(*about, nets, [shape.n_inputs, *[shape.width] * (shape.n_layers + 1), 1], shape.n_weights)

    def _fitted_meta(self) -> dict[str, Any]:
        return {name: getattr(self.net_.shape, name) for name in _MOST}

    def _restore_fitted(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        inputs = Inputs(arrays["centre"], arrays["scale"], arrays["flagged"])
        shape = AttentionShape(inputs.width, meta["width"], meta["n_layers"], meta["n_heads"])
        self.net_ = AttentionFunction(shape, inputs, arrays["weights"])

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if self.net_.shape.width % self.net_.shape.n_heads:
            raise ValueError("width must be a multiple of n_heads")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.embedding_size % self.n_heads:
            found = f"got embedding_size={self.embedding_size} and n_heads={self.n_heads}"
            raise ValueError(f"{type(self).__name__}: embedding_size must be a multiple of n_heads; {found}.")
