"""Base models: a model that starts from the scores of another one, and adds to them.

`init` is what the next training starts from: a model that is not fitted, which `fit` trains on its own training rows, a
fitted one, which stays as it is, or one score per training row. `init_` is the base model of a fitted model, or None.

Which rows a fitted base model has seen is not known. Whoever trains on some queries and judges by others refuses it
(`refuse_fitted_bases`), because it may have seen the labels of those others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, cast

import numpy as np

from podium._runtime.words import did_you_mean
from podium.data.columns import SAME_COLUMNS, first_difference
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.learners.rows import finite_scores
from podium.models.frame.estimator import clone, is_estimator, is_fitted
from podium.models.frame.nested import read_model
from podium.models.frame.parameters import Kind, parameter, parametrized
from podium.models.frame.ranker import Interrupted, Ranker
from podium.models.frame.transforms import Queries, queries_of, source_of
from podium.models.registry import catalogue


def _is_base(value: Any) -> bool:
    return not isinstance(value, (str, bytes, type))


def read_base(text: str) -> Any:
    """A fitted model by its file, or one to be trained, written as `linear(max_iter=50)`."""
    from podium.persistence.saving import load

    names = [entry.name for entry in catalogue()]
    name = text.partition("(")[0].strip().lower()
    if name in names and not os.path.isfile(text):
        return read_model(text)
    if not os.path.exists(text):
        problem = f"there is no file {text!r}, and no model of this name.{did_you_mean(name, names)}"
        raise ValueError(f"init must be the file of a saved model, or a model such as linear(max_iter=50); {problem}")
    return load(text)


BASE = Kind("a base model", _is_base, read_base, explains=True)


@parametrized
class InitParameter:
    """What training starts from."""

    init: Any = parameter(
        None,
        "Base model: what is learned is added to its scores. One that is not fitted is trained first, on the same "
        "rows.",
        kind=BASE,
        optional=True,
        words='a model (as text: "linear(max_iter=50)", or the file of a fitted one), one score per training row, or '
        "None",
    )


@parametrized
class StartingRanker(Ranker):
    """A ranker that may have an `init`; `_scores` are what it adds. The base model sees the rows as they came."""

    init = cast(Any, None)  # of models without the parameter

    def _fit_base(self, X: Any, y: Any, qid: Any, **more: Any) -> None:
        """`init_`: the base model, trained here unless it is fitted; a copy, as what is given may be fitted again."""
        self.init_ = copy(self.init) if hasattr(self.init, "predict") else None
        if self.init_ is None or is_fitted(self.init):
            return
        if not isinstance(self.init, Ranker):
            name = type(self.init).__name__
            raise ValueError(
                f"{type(self).__name__}: init is a {name} that is not fitted, and only models of Podium are trained "
                f"here. Give init=Pointwise({name}(...)), or a fitted {name}."
            )
        try:
            self.init_ = copy_unfitted(self.init).set_params(n_jobs=self.n_jobs).fit(X, y, qid, **more)
        except Interrupted as interrupt:  # without a base model there is nothing to keep
            raise KeyboardInterrupt(str(interrupt)) from interrupt

    def _supported(self, X: FeatureMatrix, where: str, fitted: bool = False) -> FeatureMatrix:
        """Rows go to the base model as they are, so it must support them too."""
        base = self._base_model() if fitted else self.init
        if isinstance(base, Ranker):
            base._supported(X, where, is_fitted(base))
        return super()._supported(X, where, fitted)

    def _row_scores(self, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        return self._with_base(super()._row_scores(rows, queries), rows, queries)

    def _with_base(self, scores: np.ndarray, rows: FeatureMatrix, queries: Queries | None) -> np.ndarray:
        """What was learned, with the scores of the base model if there is one."""
        return scores if self._base_model() is None else scores + self._base_predictions(rows, queries)

    def _offset(self, data: RankingData) -> np.ndarray | float:
        source = source_of(data)
        return 0.0 if self._base_model() is None else self._base_predictions(source.X, queries_of(source))

    def _needs_qid(self) -> bool:
        base = self._base_model()
        return super()._needs_qid() or (isinstance(base, Ranker) and base._needs_qid())

    def _base_model(self) -> Any:
        return self.__dict__.get("init_")

    def _base_predictions(self, X: FeatureMatrix, queries: Queries | None = None) -> np.ndarray:
        """The base model's scores of rows that this model has checked already."""
        base = self._base_model()
        if isinstance(base, Ranker):
            return np.asarray(base._score_rows(X, queries), dtype=np.float64)
        return finite_scores(np.asarray(base.predict(X), dtype=np.float64), f"init ({type(base).__name__})")

    def _base_scores(self, data: RankingData) -> np.ndarray | None:
        """What training starts from, for the grouped rows; also further training, whatever `init` is by then."""
        data, base = source_of(data), self._base_model()
        if base is not None:
            if getattr(base, "categories_", {}) != getattr(self, "categories_", {}):
                raise ValueError(
                    "init was trained on a table with other names in its columns of categories; "
                    "give both the same categories."
                )
            self._refuse_other_base(base, data)
            return np.asarray(self._base_predictions(data.X, queries_of(data))[data.rows])
        if self.init is None or hasattr(self.init, "predict"):
            return None
        try:
            scores = np.asarray(self.init, dtype=np.float64)
        except (TypeError, ValueError):
            expected = f"{type(self).__name__}: init must be a model, one score per training row, or None"
            raise ValueError(f"{expected}; got {self.init!r}.") from None
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
        self.init = self.init_ = child

    def _unsaved_parameters(self) -> tuple[str, ...]:
        """`init` is in the file where the next training starts from something else than this one did.

        A fitted model is saved as the base model that it is, and scores belong to the rows they were given for.
        """
        base, unsaved = self._base_model(), super()._unsaved_parameters()
        if self.init is None:
            return unsaved if base is not None else (*unsaved, "init")
        return unsaved if isinstance(self.init, Ranker) and not is_fitted(self.init) else (*unsaved, "init")

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


# --- models that hold such models ----------------------------------------------------------------------------------


def _held(value: Any) -> Iterator[Any]:
    """What a model is made of, one level down: parameters, and items of lists and mappings."""
    if is_estimator(value):
        yield from value.get_params(deep=False).values()
    elif isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value


def starting_models(model: Any) -> Iterator[StartingRanker]:
    """All models with an `init`: the model itself, members, and base models of base models."""
    if isinstance(model, StartingRanker) and model.init is not None:
        yield model
    for inner in _held(model):
        yield from starting_models(inner)


def refuse_fitted_bases(model: Any, where: str = "") -> None:
    """Refuse a fitted `init`, of the model or inside it, where a model is judged by rows that it must not have seen."""
    for one in starting_models(model):
        if hasattr(one.init, "predict") and is_fitted(one.init):
            name = type(one.init).__name__
            unfitted = f"init=sklearn.base.clone(base) (as text: init={name.lower()})"
            if not isinstance(one.init, Ranker):
                unfitted = "as a model of Podium, such as init=Pointwise(estimator)"
            raise ValueError(
                f"{_prefix(where)}the init of {type(one).__name__} is a fitted {name}, and may have been trained on "
                f"the rows that it would be judged by. Give it unfitted, {unfitted}: then every fit trains it on its "
                "own training rows."
            )


def refuse_given_scores(model: Any, where: str = "") -> None:
    """Refuse one score per training row as `init`, where training rows are a part or a sample of what is given."""
    for one in starting_models(model):
        if not hasattr(one.init, "predict"):
            raise ValueError(
                f"{_prefix(where)}{type(one).__name__} starts from one score per training row (init), which parts of "
                "the data do not have. Give a model that is not fitted as init."
            )


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""


def copy_unfitted(model: Ranker) -> Ranker:
    """An unfitted copy, as scikit-learn's `clone` makes it, but with the same `init`, here and in models inside it."""
    made = clone(model)
    for old, new in zip(starting_models(model), starting_models(made), strict=True):
        if not isinstance(old.init, Ranker) or is_fitted(old.init):
            new.init = old.init
    return made
