"""Arguments of fit, predict and score: rows, labels and query ids, checked and made RankingData.

scikit-learn checks shapes and names, and remembers them on the model; what it does not know (numbers that float32
merges, sparse indices, categories as text) is checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from podium._runtime.warn import warn
from podium.data.categories import called
from podium.data.columns import SAME_COLUMNS, first_difference, with_columns_of
from podium.data.precision import merged_columns, warn_of_merged
from podium.data.query_ids import as_query_ids
from podium.data.ranking import RankingData, as_features, refuse_beside_data
from podium.data.small_tables import SmallTables
from podium.data.sparse import FeatureMatrix, as_sparse, is_sparse
from podium.formats.frames import merged_in_frame
from podium.formats.names import encode, refuse_other_types
from podium.learners.rows import are_scorable
from podium.models.frame.estimator import check_fitted
from podium.models.other_names import CALLBACKS

if TYPE_CHECKING:
    from podium.models.frame.plan import FitOptions
    from podium.models.frame.ranker import Ranker

_VALIDATION: dict[str, Any] = {
    "dtype": [np.float64, np.float32],  # the first for lists and objects: what float32 makes infinite is still seen
    "ensure_all_finite": "allow-nan",
    "accept_sparse": "csr",
}

_readers: WeakKeyDictionary[Ranker, SmallTables] = WeakKeyDictionary()  # not in the model, which is saved and compared


def refuse_unsupported(model: Ranker, X: FeatureMatrix, where: str, takes_missing: bool) -> None:
    """Refuse rows that hold what a model does not support, and say what to do."""
    name = type(model).__name__
    if is_sparse(X):
        if not model.allows_sparse:
            raise ValueError(f"{name} does not support sparse rows ({where}). Use X.toarray(), or a model of trees.")
        return
    missing = np.zeros(1, bool) if takes_missing else np.isnan(X).any(axis=0)
    if missing.any():
        column = int(missing.argmax())
        problem = f"feature {column + 1}, X[:, {column}], of {where} has NaN"
        advice = "Fill them first, for example with scikit-learn's SimpleImputer, or use a model of trees."
        if "impute" in model.get_params(deep=False):
            advice = 'Train it with impute="mean" or impute="zero", which fill them, or use a model of trees.'
        raise ValueError(f"{name} does not support missing values; {problem}. {advice}")


def rows_for(model: Ranker, X: Any) -> FeatureMatrix:
    """Rows for a fitted model: float32 in C order or sparse, as wide as in training, none infinite."""
    check_fitted(model)
    if isinstance(X, RankingData):
        return with_columns_of(model, X, "the data").X
    plain = None
    if hasattr(model, "feature_names_in_"):
        plain = _small_tables(model).rows(X)
    elif not model.categories_:
        plain = _plain_rows(X, model.n_features_in_)
    return plain if plain is not None else _as_float32(_validated(model, X))


def _small_tables(model: Ranker) -> SmallTables:
    """The reader of small tables for this model, made anew after a fit."""
    names, reader = model.feature_names_in_, _readers.get(model)
    if reader is None or not reader.is_of(names, model.categories_):
        reader = _readers[model] = SmallTables(names, model.categories_)
    return reader


def _validated(model: Ranker, X: Any, *more: Any, **options: Any) -> Any:
    """What scikit-learn makes of rows for a fitted model; where names differ, the error also says which."""
    from sklearn.utils.validation import validate_data

    trained = getattr(model, "feature_names_in_", None)
    X = _known_to_sklearn(model, X, trained)
    try:
        return validate_data(model, X, *more, reset=False, **options, **_VALIDATION)
    except (TypeError, ValueError) as error:
        refuse_other_types(X)
        names = getattr(X, "columns", None)
        if names is None or trained is None:
            raise
        difference = first_difference(list(names), trained, "the model")
        if difference is None:
            raise
        raise ValueError(f"{error}\n{difference[0].upper()}{difference[1:]}. {SAME_COLUMNS}") from error


def _known_to_sklearn(model: Ranker, X: Any, columns: Any) -> Any:
    """scikit-learn knows pandas and polars, but no names of categories; an Arrow table becomes pandas on its way.

    It trusts the indices of a sparse matrix, so these are checked before. `columns`: the names of the features in
    training, None where there are none yet.
    """
    names = getattr(model, "categories_", {})
    if is_sparse(X):
        if names:
            column = next(iter(names))
            raise ValueError(
                f"the model numbers the categories of {called(column, columns)}; give dense rows or a table."
            )
        return as_sparse(X)
    X = encode(X, names, columns)
    X = X.to_pandas() if type(X).__module__.startswith("pyarrow") else X
    if type(X) is np.ndarray and X.dtype.kind in "biu":
        return X.astype(np.float32)  # directly: float64 on the way would take twice the memory
    return X


def training_data(model: Ranker, X: Any, y: Any, qid: Any, options: FitOptions, known: bool = False) -> RankingData:
    """What `fit` is given, with weights as they are.

    The model takes note of the columns or, where they are `known`, they must be its own.
    """
    if isinstance(X, RankingData):
        refuse_beside_data("fit", y=y, qid=qid, **options.weights)
        _refuse_empty(X)
        data: RankingData = X if options.pairs is None else replace(X, y=None)
        if options.pairs is None:
            data.labels_for("fit")
        if known:
            data = with_columns_of(model, data, "the data")
        else:
            _note_columns(model, data)
        return data
    refuse_other_types(X)
    _warn_of_merged(model, X)
    X, y = _rows_and_labels(model, X, y, known) if options.pairs is None else (_rows(model, X, known), None)
    weights = options.weights
    if qid is None and options.group is None:
        warn(one_query_warning(X.shape[0]))
        weights |= {"group": [X.shape[0]]}
    return RankingData.from_arrays(_as_float32(X), y, qid, **weights)


def _rows_and_labels(model: Ranker, X: Any, y: Any, known: bool) -> tuple[Any, Any]:
    from sklearn.utils.validation import validate_data

    if known:
        X, y = _validated(model, X, y, y_numeric=True)
    else:
        X, y = validate_data(model, _known_to_sklearn(model, X, None), y, y_numeric=True, **_VALIDATION)
    return X, y


def _rows(model: Ranker, X: Any, known: bool) -> Any:
    """Rows whose labels are not looked at, because pairs take their place."""
    from sklearn.utils.validation import validate_data

    return _validated(model, X) if known else validate_data(model, _known_to_sklearn(model, X, None), **_VALIDATION)


def _warn_of_merged(model: Ranker, X: Any) -> None:
    """Of numbers that float32 merges, in columns whose categories are not numbered here."""
    coded = getattr(model, "categories_", {})
    if isinstance(X, (np.ndarray, list, tuple)) or is_sparse(X):
        pairs = merged_columns(np.asarray(X) if isinstance(X, (list, tuple)) else X)
        warn_of_merged({column: pair for column, pair in pairs.items() if str(column) not in coded})
    else:
        warn_of_merged(merged_in_frame(X, coded))


def _note_columns(model: Ranker, data: RankingData) -> None:
    model.n_features_in_ = data.n_features
    model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if data.feature_names is not None:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)


def eval_data(model: Ranker, part: Any, where: str) -> RankingData:
    """An evaluation set, grouped: nothing that is made of it comes back to the caller by rows."""
    if isinstance(part, RankingData):
        data = with_columns_of(model, part, where)
    elif isinstance(part, (tuple, list)) and len(part) == 3 and not isinstance(part[0], RankingData):
        data = RankingData.from_arrays(_as_float32(_validated(model, part[0])), part[1], part[2])
    else:
        raise ValueError(f"{where} must be (X, y, qid) or a RankingData.")
    data.labels_for(where)
    return data.grouped()


def one_query_warning(n_rows: int) -> str:
    """scikit-learn's tools hand on what they are asked to; `groups` alone never reaches `fit`."""
    routed = (
        "sklearn.set_config(enable_metadata_routing=True), "
        "model.set_fit_request(qid=True).set_score_request(qid=True), "
        "and cross_val_score(model, X, y, cv=GroupKFold(), params={'qid': qid, 'groups': qid})"
    )
    state = f"qid not given: all {n_rows} rows are treated as one query."
    return f"{state} Give one query id per row; to cross-validate: {routed}."


def _plain_rows(X: Any, n_features: int) -> np.ndarray | None:
    """An array of numbers of the right width as float32 in C order; None where scikit-learn has something to say."""
    if not are_scorable(X, n_features):
        if type(X) is not np.ndarray or X.ndim != 2 or X.shape[1] != n_features or X.dtype.kind not in "fiub":
            return None
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(X, dtype=np.float32)
    return X if len(X) > 0 and not np.isinf(X).any() else None


def _as_float32(X: Any) -> FeatureMatrix:
    """What scikit-learn has looked at, which knows no numbers that only float32 makes infinite."""
    if is_sparse(X):  # made float32 before
        return X
    return np.ascontiguousarray(X) if X.dtype == np.float32 else as_features(X)


def _refuse_empty(data: RankingData) -> None:
    for number, what, advice in (
        (data.n_rows, "rows", "Check how the data were read."),
        (data.n_features, "features", "All documents look the same without any; add at least one column."),
    ):
        if number == 0:
            raise ValueError(f"fit: the data have no {what}, so there is nothing to learn from. {advice}")


def check_early_stopping(rounds: Any, is_evaluated: bool) -> None:
    """is_evaluated: whether there are evaluation sets, or queries to hold out as one."""
    if rounds is None or rounds is False:
        return
    if rounds is not True and (isinstance(rounds, (bool, np.bool)) or not isinstance(rounds, Integral) or rounds < 1):
        allowed = "an integer from 1, True (50 trees or rounds, 10 epochs), None or False (never)"
        raise ValueError(f"early_stopping_rounds must be {allowed}; got {rounds!r}.")
    if not is_evaluated:
        advice = "Add eval_set=(X, y, qid), or set validation_fraction=0.2 of the model."
        raise ValueError(f"early_stopping_rounds needs an eval_set to look at; got none. {advice}")


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows of what `fit` takes as X, and has checked: an array, a list, a sparse matrix or a table."""
    if type(X).__module__.startswith("pyarrow"):
        return X.take(rows)
    if is_sparse(X):
        return X.tocsr()[rows]
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, rows)


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is no list of functions, and say what replaces a callback of another library."""
    if callable(callbacks) or not isinstance(callbacks, Iterable) or isinstance(callbacks, str):
        what = type(callbacks).__name__
        raise TypeError(f"callbacks must be a list of functions of one Progress; got {what}. Put it in a list.")
    for callback in callbacks:
        kind = type(callback)
        library = (kind.__module__ or "").partition(".")[0]
        if library in CALLBACKS:
            word = kind.__name__.strip("_").removesuffix("Callback")
            ours = CALLBACKS[library].get(word, "callbacks are functions of one Progress here")
            raise TypeError(f"callbacks: {kind.__module__}.{kind.__name__} is for {library}; instead, {ours}.")
        if not callable(callback):
            raise TypeError(f"callbacks must be functions of one Progress; got {kind.__name__} {callback!r:.60}.")


def check_verbose(verbose: Any) -> None:
    if verbose is not None and (not isinstance(verbose, (Integral, np.bool)) or verbose < 0):
        raise ValueError(f"verbose must be an integer (a line every so many steps), 0 or None; got {verbose!r}.")


def refuse_number_as_qid(qid: Any) -> None:
    if isinstance(qid, (str, bytes)):
        as_query_ids(qid, None, 0)  # refuses it
    if isinstance(qid, Integral):
        advice = f"For the first trees only, give n_trees={qid}."
        raise ValueError(f"predict: qid must have one id per row; got {qid}. {advice}")


def has_eval_sets(eval_set: Any) -> bool:
    return len(as_eval_sets(eval_set)) > 0


def as_eval_sets(eval_set: Any) -> dict[str, Any]:
    """Evaluation sets by name: as the caller calls them, or `eval_0`, `eval_1`, ..."""
    if isinstance(eval_set, Mapping):
        for name in eval_set:
            if not isinstance(name, str) or not name:
                raise ValueError(f'eval_set must have names as keys, such as {{"valid": data}}; got {name!r}.')
        return dict(eval_set)
    return {f"eval_{number}": part for number, part in enumerate(_listed_sets(eval_set))}


def _listed_sets(eval_set: Any) -> Sequence[Any]:
    if eval_set is None or (isinstance(eval_set, tuple) and not eval_set):
        return []
    if isinstance(eval_set, list) and not (len(eval_set) == 3 and not isinstance(eval_set[0], (tuple, RankingData))):
        return eval_set
    return [eval_set]


def eval_sets_of(model: Ranker, eval_set: Any) -> dict[str, RankingData]:
    """The evaluation sets, checked and grouped, by name."""
    is_named, sets = isinstance(eval_set, Mapping), as_eval_sets(eval_set)
    checked = {}
    for number, (name, part) in enumerate(sets.items()):
        where = f"eval_set[{name!r}]" if is_named else f"eval_set[{number}]"
        checked[name] = eval_data(model, part, where)
        model.refuse_unsupported(checked[name].X, where)
    return checked
