"""Holding out: a share of the training queries that decides when training stops (`validation_fraction`).

What is left is trained on as if it were all that `fit` was given, and the held-out queries are its evaluation set. They
are drawn by `random_state` among the queries that have a weight; the same data and seed hold out the same queries, so a
training that is resumed or continued does not see them either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podium._runtime.once import once
from podium._runtime.words import counted
from podium.data.ranking import RankingData, as_labels
from podium.data.splitting import part_numbers
from podium.data.weights import row_weights, with_scaled_weights
from podium.models.frame.arguments import has_eval_sets, take_rows
from podium.models.frame.init_model import models_inside, refuse_fitted_inits
from podium.models.frame.parameters import ABOVE_0, NUMBER, parameter, parametrized, value_of
from podium.models.frame.plan import FitOptions

VALIDATION = "validation"  # what the held-out queries are called among the evaluation sets


def validation_parameter() -> Any:
    """The parameter, for models of many groups of parameters; others have the group below."""
    return parameter(
        None,
        "Share of the training queries that is held out, drawn by random_state (by 0 where there is none), to stop "
        "training after 50 trees or rounds, or 10 epochs, without progress on them; early_stopping_rounds sets another "
        "number. Not beside eval_set. None: none.",
        kind=NUMBER,
        low=ABOVE_0,
        high=1 - ABOVE_0,
        words="above 0 and below 1, or None",
    )


@parametrized
class ValidationParameter:
    """Whether a part of the training data decides when training stops."""

    validation_fraction: float | None = validation_parameter()


@dataclass(frozen=True, eq=False)
class Division:
    """What `fit` was given, and which of its queries are held out."""

    whole: RankingData
    is_held: np.ndarray | None = None  # (queries,) bool; None where nothing is held out

    @once
    def training(self) -> RankingData:
        """What is trained on, with the weights that training sees."""
        data = self.whole if self.is_held is None else self.whole.subset(~self.is_held)
        return with_scaled_weights(data)

    @once
    def rows(self) -> np.ndarray:
        """The rows of `fit` that are trained on, in their order."""
        if self.is_held is None:
            return np.arange(self.whole.n_rows)
        return np.flatnonzero(~self.is_held[self.whole.query_numbers])

    def validation(self, model: Any, X: Any, y: Any) -> RankingData:
        """The held-out queries, grouped, with their labels: X and y are those of `fit`."""
        labels = X.y if isinstance(X, RankingData) else y
        if labels is None:
            problem = "validation_fraction judges held-out queries by labels, also beside pairs, and there are none"
            raise ValueError(f"{type(model).__name__}: {problem}. Give y, or set validation_fraction=None.")
        return replace(self.whole, y=as_labels(labels, self.whole.n_rows)).subset(self.is_held).grouped()

    def held_scores(self, scores: np.ndarray) -> np.ndarray:
        """Of one score per row of `fit`, those of the grouped held-out rows."""
        held = np.setdiff1d(np.arange(self.whole.n_rows), self.rows)
        return np.asarray(scores[held][self.whole.subset(self.is_held).rows])

    def pairs(self, pairs: Any) -> Any:
        """The given pairs, checked before, of the queries that are trained on; rows are counted among these."""
        if pairs is None or self.is_held is None:
            return pairs
        position = np.full(self.whole.n_rows, -1)
        position[self.rows] = np.arange(len(self.rows))
        first, second, *numbers = (np.asarray(part) for part in pairs)
        inside = position[first] >= 0
        if not inside.any():
            raise ValueError("pairs: all are of queries that validation_fraction holds out. Give more, or an eval_set.")
        return position[first[inside]], position[second[inside]], *(part[inside] for part in numbers)

    def arguments(self, X: Any, y: Any, qid: Any, options: FitOptions) -> tuple[Any, Any, Any, dict[str, Any]]:
        """X, y, query ids and weights for another model that is to be trained on the same rows."""
        pairs = {} if options.pairs is None else {"pairs": self.pairs(options.pairs)}
        if self.is_held is None:
            return X, y, qid, options.weights | pairs
        if isinstance(X, RankingData):
            return X.subset(~self.is_held), None, None, pairs
        data = self.whole.subset(~self.is_held)
        weights = {"sample_weight": data.sample_weight, "query_weight": data.query_weight}
        labels = None if y is None else as_labels(y, self.whole.n_rows)[self.rows]
        return take_rows(X, self.rows), labels, data.qid, weights | pairs


def check_validation(model: Any, options: FitOptions) -> None:
    """Refuse what a share of held-out queries does not go with, before any work."""
    fraction = value_of(model, "validation_fraction")
    if fraction is None:
        return
    if has_eval_sets(options.eval_set):
        problem = f"validation_fraction={fraction:g} and eval_set are given, and one of them says when training stops"
        advice = "Leave eval_set out, or set validation_fraction=None."
        raise ValueError(f"{type(model).__name__}: {problem}. {advice}")
    refuse_fitted_inits(model, "validation_fraction")


def divide(model: Any, data: RankingData) -> Division:
    """Hold out queries by the parameters of the model."""
    fraction = value_of(model, "validation_fraction")
    if fraction is None:
        return Division(data)
    counting = _queries_that_count(data)
    shares, seed = [1 - float(fraction), float(fraction)], int(getattr(model, "random_state", 0))
    numbers = part_numbers(len(counting), shares, seed)
    sizes = np.bincount(numbers, minlength=2)
    if not sizes.all():
        queries = counted(len(counting), "query", "queries")
        problem = f"validation_fraction={fraction:g} divides whole queries, and of {queries} it leaves none"
        advice = "Give more queries (qid has one id per row), another fraction, or an eval_set instead."
        raise ValueError(f"{type(model).__name__}: {problem} to {_USES[int(sizes.argmin())]}. {advice}")
    is_held = np.zeros(data.n_queries, np.bool_)
    is_held[counting[numbers == 1]] = True
    return Division(data, is_held)


def refuse_held_out_copies(model: Any) -> None:
    """Refuse a member that holds out queries where these are drawn with replacement: it would see copies of them."""
    for one in models_inside(model):
        if value_of(one, "validation_fraction") is not None:
            problem = f"the {type(one).__name__} holds out queries, of which a bootstrap sample has copies to train on"
            advice = "Give validation_fraction to the Bagged instead, which holds out before it draws"
            raise ValueError(f'Bagged: {problem}. {advice}, or use sample="seeds".')


_USES: Sequence[str] = ("train on", "hold out")


def _queries_that_count(data: RankingData) -> np.ndarray:
    """Queries with a row of positive weight; others are as if they were not there, and are judged by nobody."""
    weights = row_weights(data)
    if weights is None:
        return np.arange(data.n_queries)
    return np.unique(data.query_numbers[weights > 0])
