"""Init models: a model may start from the scores of another one, and add to them.

`init` is what the next training starts from: a model that is not fitted, which `fit` trains on its own training rows, a
fitted one, which stays as it is, or one score per training row. `init_` is the init model of a fitted model, or None.

Which rows a fitted init model has seen is not known. Whoever trains on some queries and judges by others refuses it
(`refuse_fitted_inits`), because it may have seen the labels of those others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from podium._runtime.warn import warn
from podium._runtime.words import did_you_mean
from podium.data.columns import SAME_COLUMNS, first_difference
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.learners.rows import finite_scores
from podium.models.frame.estimator import clone, is_estimator, is_fitted
from podium.models.frame.nested import read_model
from podium.models.frame.parameters import UNSAVED, Kind, parameter, parametrized
from podium.models.frame.plan import Interrupted
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import Queries, queries_of, source_of
from podium.models.registry import catalogue


def read_init(text: str) -> Any:
    """A fitted model by its file, or one to be trained, written as `linear(max_iter=50)`."""
    from podium.persistence.saving import load

    names = [entry.name for entry in catalogue()]
    name = text.partition("(")[0].strip().lower()
    if name in names and not os.path.isfile(text):
        return read_model(text)
    if not os.path.exists(text):
        problem = f"there is no file {text!r}, and no model of this name.{did_you_mean(name, names)}"
        raise ValueError(f"init must be the file of a saved model, or a model such as linear(max_iter=50); {problem}")
    if os.path.isdir(text):
        raise IsADirectoryError(f"init must be the file of a saved model; {text} is a folder.")
    return load(text)


INIT = Kind("an init model", lambda value: not isinstance(value, (str, bytes, type)), read_init, explains=True)


@parametrized
class InitParameter:
    """What training starts from."""

    init: Any = parameter(
        None,
        "Init model: what is learned is added to its scores. One that is not fitted is trained first, on the same "
        "rows.",
        kind=INIT,
        words='a model (as text: "linear(max_iter=50)", or the file of a fitted one), one score per training row, or '
        "None",
    )


def fit_init(model: Ranker, X: Any, y: Any, qid: Any, options: Mapping[str, Any]) -> None:
    """Set `init_`, trained here unless it is fitted; a copy, as what is given may be fitted again.

    options: weights, sizes of queries and pairs; an init model that takes no pairs refuses them.
    """
    init, name = model.init, type(model).__name__
    model.init_ = copy(init) if hasattr(init, "predict") else None
    if model.init_ is None or is_fitted(init):
        return
    if not isinstance(init, Ranker):
        kind = type(init).__name__
        problem = f"init is a {kind} that is not fitted, and only models of Podium are trained here"
        raise ValueError(f"{name}: {problem}. Give init=Pointwise({kind}(...)), or a fitted {kind}.")
    try:
        model.init_ = copy_unfitted(init).set_params(n_jobs=model.n_jobs).fit(X, y, qid, **options)
    except Interrupted as interrupt:  # without an init model there is nothing to keep
        raise KeyboardInterrupt(str(interrupt)) from interrupt


def init_offset(model: Ranker, data: RankingData) -> np.ndarray | float:
    """The scores that rows of an evaluation set have before the first step."""
    source = source_of(data)
    start = 0.0 if source.init_score is None else source.init_score
    return start if model.init_ is None else start + init_predictions(model, source.X, queries_of(source))


def check_init_scores(model: Ranker, data: RankingData, eval_sets: Sequence[RankingData]) -> None:
    """Refuse scores that data brings to start from (`init_score`), where the model starts from none or from others."""
    name, scored = type(model).__name__, [one for one in (data, *eval_sets) if one.init_score is not None]
    if not scored:
        return
    without = "leave it out: dataclasses.replace(data, init_score=None), or move the .init file"
    if "init" not in model.get_params(deep=False):
        raise ValueError(f"{name} does not start from scores, and the data has an init_score. Use trees, or {without}.")
    if model.init is not None and not hasattr(model.init, "predict"):
        raise ValueError(f"{name} has an init, and the data an init_score. Give one of them: to {without}.")
    if len(scored) <= len(eval_sets):
        warn("only some of the training and evaluation data have an init_score; the others start from 0.")


def init_predictions(model: Ranker, X: FeatureMatrix, queries: Queries | None = None) -> np.ndarray:
    """The init model's scores of rows that the model has checked already, as they came."""
    init = model.init_
    if isinstance(init, Ranker):
        return np.asarray(init.score_rows(X, queries), dtype=np.float64)
    return finite_scores(np.asarray(init.predict(X), dtype=np.float64), f"init ({type(init).__name__})")


def init_scores(model: Ranker, data: RankingData, scores: np.ndarray | None = None) -> np.ndarray | None:
    """What training starts from, for the grouped rows; also further training, whatever `init` is by then.

    scores: those that `init` holds for these rows, where the rows are a part of what `fit` was given.
    """
    data, init = source_of(data), model.init_
    if init is not None:
        if getattr(init, "categories_", {}) != getattr(model, "categories_", {}):
            problem = "init was trained on a table with other names in its columns of categories"
            raise ValueError(f"{problem}; give both the same categories.")
        _refuse_other_columns(model, data)
        start = 0.0 if data.init_score is None else data.init_score
        return np.asarray((start + init_predictions(model, data.X, queries_of(data)))[data.rows])
    scores = scores_per_row(model, data.n_rows) if scores is None else scores
    scores = data.init_score if scores is None else scores
    return None if scores is None else np.asarray(scores[data.rows])


def scores_per_row(model: Ranker, n_rows: int) -> np.ndarray | None:
    """`init` where it is one score per row of what `fit` was given."""
    if model.init is None or model.init_ is not None or hasattr(model.init, "predict"):
        return None
    try:
        scores = np.asarray(model.init, dtype=np.float64)
    except (TypeError, ValueError):
        expected = f"{type(model).__name__}: init must be a model, one score per training row, or None"
        raise ValueError(f"{expected}; got {model.init!r}.") from None
    if scores.shape != (n_rows,):
        raise ValueError(f"init has shape {scores.shape}, the training data {n_rows} rows.")
    return scores


def _refuse_other_columns(model: Ranker, data: RankingData) -> None:
    """The rows of a model go to its init model unseen, so both must have the same columns."""
    init = model.init_
    trained = getattr(init, "feature_names_in_", None)
    names = data.feature_names or getattr(model, "feature_names_in_", None)
    width = getattr(init, "n_features_in_", data.n_features)
    if width != data.n_features:
        raise ValueError(f"init was trained on {width} features, the training data have {data.n_features}.")
    if trained is not None and names is not None:
        difference = first_difference(list(names), list(trained), "init")
        if difference:
            raise ValueError(f"{type(model).__name__}: {difference}. {SAME_COLUMNS} Train both on the same columns.")


def unsaved_parameters(model: Ranker) -> tuple[str, ...]:
    """Parameters that are not in the file: threads and devices are the machine's affair.

    `init` is in the file where the next training starts from something else than this one did. A fitted model is saved
    as the init model that it is, and scores belong to the rows they were given for.
    """
    unfitted = isinstance(model.init, Ranker) and not is_fitted(model.init)
    is_kept = unfitted or (model.init is None and model.init_ is not None)
    return tuple(sorted(UNSAVED)) if is_kept else (*sorted(UNSAVED), "init")


def check_init(model: Ranker) -> None:
    """Refuse an init model of a file that does not fit the model."""
    init = model.init_
    if init is None:
        return
    if "init" not in model.get_params(deep=False):
        raise ValueError(f"{type(model).__name__} takes no init")
    if init.n_features_in_ != model.n_features_in_ or init.categories_ != model.categories_:
        raise ValueError("the model and its init were trained on other features")
    if not np.isfinite(_largest_total(model)):
        raise ValueError("the scores of the model and its init could be infinite together")


def _largest_total(model: Ranker) -> float:
    return model.largest_score() + (0.0 if model.init_ is None else _largest_total(model.init_))


def _held(value: Any) -> Iterator[Any]:
    """What a model is made of, one level down: parameters, and items of lists and mappings."""
    if is_estimator(value):
        yield from value.get_params(deep=False).values()
    elif isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value


def models_inside(model: Any) -> Iterator[Ranker]:
    """The model itself, members, init models, and so on."""
    if isinstance(model, Ranker):
        yield model
    for inner in _held(model):
        yield from models_inside(inner)


def models_with_init(model: Any) -> Iterator[Ranker]:
    """All models with an `init`."""
    return (one for one in models_inside(model) if one.init is not None)


def refuse_fitted_inits(model: Any, where: str = "") -> None:
    """Refuse a fitted `init`, of the model or inside it, where a model is judged by rows that it must not have seen."""
    for one in models_with_init(model):
        if hasattr(one.init, "predict") and is_fitted(one.init):
            name = type(one.init).__name__
            unfitted = f"init=sklearn.base.clone(base) (as text: init={name.lower()})"
            if not isinstance(one.init, Ranker):
                unfitted = "as a model of Podium, such as init=Pointwise(estimator)"
            problem = f"the init of {type(one).__name__} is a fitted {name}, and may have been trained on the rows that"
            advice = f"Give it unfitted, {unfitted}: then every fit trains it on its own training rows."
            raise ValueError(f"{where}{': ' * bool(where)}{problem} it would be judged by. {advice}")


def refuse_given_scores(model: Any, where: str = "") -> None:
    """Refuse one score per training row as `init`, where training rows are a part or a sample of what is given."""
    for one in models_with_init(model):
        if not hasattr(one.init, "predict"):
            start = f"{where}{': ' * bool(where)}{type(one).__name__} starts from one score per training row (init)"
            raise ValueError(f"{start}, which parts of the data do not have. Give a model that is not fitted as init.")


def copy_unfitted(model: Ranker) -> Ranker:
    """An unfitted copy, as scikit-learn's `clone` makes it, but with the same `init`, here and in models inside it."""
    made = clone(model)
    for old, new in zip(models_with_init(model), models_with_init(made), strict=True):
        if not isinstance(old.init, Ranker) or is_fitted(old.init):
            new.init = old.init
    return made
