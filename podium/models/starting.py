"""Base models: a model that starts from the scores of another one, and adds to them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from podium.data.columns import SAME_COLUMNS, first_difference
from podium.data.ranking import RankingData
from podium.data.sparse import Features
from podium.models.parameters import parametrized
from podium.models.ranker import Ranker
from podium.models.transforms import Queries, queries_of, source_of


@parametrized
class StartingRanker(Ranker):
    """A ranker that may have an `init`; `_scores` are what it adds. The base model sees the rows as they came."""

    init = cast(Any, None)  # of models without the parameter

    def _score_rows(self, rows: Features, queries: Queries | None) -> np.ndarray:
        return self._with_base(super()._score_rows(rows, queries), rows, queries)

    def _with_base(self, scores: np.ndarray, rows: Features, queries: Queries | None) -> np.ndarray:
        """What was learned, with the scores of the base model if there is one."""
        return scores if self._base_model() is None else scores + self._base_predictions(rows, queries)

    def _offset(self, data: RankingData) -> np.ndarray | float:
        source = source_of(data)
        return 0.0 if self._base_model() is None else self._base_predictions(source.X, queries_of(source))

    def _needs_qid(self) -> bool:
        base = self._base_model()
        return super()._needs_qid() or (isinstance(base, Ranker) and base._needs_qid())

    def _base_model(self) -> Any:
        return self.init if hasattr(self.init, "predict") else None

    def _base_predictions(self, X: Features, queries: Queries | None = None) -> np.ndarray:
        """The base model's scores of rows that this model has checked already."""
        base = self._base_model()
        scores = base._score_rows(X, queries) if isinstance(base, Ranker) else base.predict(X)
        return np.asarray(scores, dtype=np.float64)

    def _base_scores(self, data: RankingData) -> np.ndarray | None:
        """What training starts from, for the grouped rows."""
        data = source_of(data)
        if self.init is None:
            return None
        base = self._base_model()
        if base is not None:
            if getattr(base, "categories_", {}) != getattr(self, "categories_", {}):
                raise ValueError(
                    "init was trained on a table with other names in its columns of categories; "
                    "give both the same categories."
                )
            self._refuse_other_base(base, data)
            return np.asarray(self._base_predictions(data.X, queries_of(data))[data.rows])
        scores = np.asarray(self.init, dtype=np.float64)
        if scores.shape != (data.n_rows,):
            raise ValueError(f"init has shape {scores.shape}, the training data {data.n_rows} rows.")
        return np.asarray(scores[data.rows])

    def _refuse_other_base(self, base: Any, data: RankingData) -> None:
        """The rows of this model go to its base model unseen, so both must have the same columns."""
        trained = getattr(base, "feature_names_in_", None)
        names = data.feature_names or getattr(self, "feature_names_in_", None)
        width = getattr(base, "n_features_in_", data.n_features)
        if width != data.n_features:
            raise ValueError(f"init was trained on {width} features, the training data have {data.n_features}.")
        if trained is not None and names is not None:
            found = first_difference(list(names), list(trained), "init")
            if found:
                raise ValueError(f"{type(self).__name__}: {found}. {SAME_COLUMNS} Train both on the same columns.")

    def _children(self) -> dict[str, Ranker]:
        base = self._base_model()
        return {} if base is None else {"init": base}

    def _set_child(self, name: str, child: Ranker) -> None:
        if name != "init":
            super()._set_child(name, child)
        self.init = child

    def _check_base(self) -> None:
        """Refuse a base model of a file that does not fit this one."""
        base = self._base_model()
        if base is None:
            return
        if "init" not in self.get_params(deep=False):
            raise ValueError(f"{type(self).__name__} takes no init")
        if base.n_features_in_ != self.n_features_in_ or base.categories_ != self.categories_:
            raise ValueError("the model and its init were trained on other features")
        if not np.isfinite(self._largest_score()):
            raise ValueError("the scores of the model and its init could be infinite together")
