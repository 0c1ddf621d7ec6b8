"""SelfAttentionRanker: a net that scores each document in the light of the others of its query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from podium.data.sparse import FeatureMatrix
from podium.learners.net.attention import AttentionFunction, AttentionShape
from podium.learners.net.scoring import Inputs
from podium.models.frame.parameters import AnyObjectiveParameters, parameter, parametrized
from podium.models.frame.ranker import FittedState
from podium.models.frame.transforms import Queries
from podium.models.nets import TRAINING_SPACE, TrainedNet
from podium.persistence.validation import RESOLVED, Fact

_MOST = {"width": 2**14, "n_layers": 1000, "n_heads": 2**14}


def _is_size(name: str) -> Fact:
    return Fact(f"an integer from 1 to {_MOST[name]}", lambda value: type(value) is int and 1 <= value <= _MOST[name])


@parametrized
class SelfAttentionRanker(AnyObjectiveParameters, TrainedNet):
    """A small transformer over the documents of a query: scores depend on the whole list, not on its order.

    `predict` needs query ids.
    """

    objective: Any = "lambda"
    learning_rate: float = 3e-3
    embedding_size: int = parameter(32, "Numbers per document inside the net.", low=1, high=_MOST["width"])
    n_layers: int = parameter(1, "Number of layers of attention.", low=1, high=_MOST["n_layers"])
    n_heads: int = parameter(
        2, "Number of heads per layer; embedding_size must be a multiple.", low=1, high=_MOST["n_heads"]
    )

    search_space: ClassVar[Mapping[str, Any]] = TRAINING_SPACE | {"embedding_size": [16, 32, 64], "n_layers": [1, 2]}
    state_facts: ClassVar[Mapping[str, Fact]] = {name: _is_size(name) for name in _MOST} | {"resolved": RESOLVED}

    def _learner_kinds(self) -> tuple[Any, Any]:
        from podium.learners.net.training import AttentionTraining, ListRunner

        return AttentionTraining, ListRunner

    def _shape(self, inputs: Inputs) -> AttentionShape:
        return AttentionShape(inputs.width, int(self.embedding_size), int(self.n_layers), int(self.n_heads))

    def needs_queries(self) -> bool:
        return True

    def reason_for_queries(self) -> str:
        return "it scores each document in the light of the others of its query"

    def score_columns(self, X: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        assert queries is not None
        order, offsets = queries
        scores = np.empty(len(order))
        scores[order] = self.net_.scores(X[order], offsets, self.n_jobs)
        return scores

    def _hidden_widths(self) -> list[int]:
        return [self.net_.shape.width] * (self.net_.shape.n_layers + 1)

    def fitted_state(self) -> FittedState:
        facts = {name: getattr(self.net_.shape, name) for name in _MOST}
        return FittedState(facts | self.resolved_state(), self._net_arrays())

    def restore_state(self, state: FittedState) -> None:
        self.restore_resolved(state.facts)
        facts, arrays = state.facts, state.arrays
        inputs = Inputs(arrays["centre"], arrays["scale"], arrays["flagged"])
        shape = AttentionShape(inputs.width, facts["width"], facts["n_layers"], facts["n_heads"])
        self.net_ = AttentionFunction(shape, inputs, arrays["weights"])

    def check_state(self) -> None:
        super().check_state()
        if self.net_.shape.width % self.net_.shape.n_heads:
            raise ValueError("width must be a multiple of n_heads")

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.embedding_size % self.n_heads:
            sizes = f"got embedding_size={self.embedding_size} and n_heads={self.n_heads}"
            raise ValueError(f"{type(self).__name__}: embedding_size must be a multiple of n_heads; {sizes}.")
