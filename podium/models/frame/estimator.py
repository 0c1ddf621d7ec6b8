"""Estimator: scikit-learn's conventions for a dataclass of parameters, without importing scikit-learn.

Importing it takes most of a second, more than loading a model and scoring a file. So models do not inherit from its
`BaseEstimator`; what its tools ask for besides (tags, metadata routing, HTML) is made by scikit-learn when needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from podium._runtime.markup import notebook_table
from podium.models.frame.parameters import value_of
from podium.models.other_names import attribute_hint, hint_for, with_hints

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.utils import Tags

    from podium.formats.names import Names
    from podium.learners.monitor import Curves
    from podium.models.frame.imputing import Imputation
    from podium.models.frame.transforms import Transform

_ROUTED = ("fit", "predict", "score")  # methods that take more than X and y
_HINTED = (*_ROUTED, "rank")
Model = TypeVar("Model")
Request = bool | str | None
Requests = Mapping[str, Request]


class Estimator:
    """Parameters by name, what every fitted model has, and what scikit-learn's tools ask of an estimator."""

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "n_features_in_": "Number of features of the training data.",
        "feature_names_in_": "Names of the features, where the training data has names.",
        "n_queries_": "Number of training queries.",
        "categories_": "Names of the categories of each categorical feature, by feature; empty where there is none.",
        "column_names_": "Names of the columns that the learner sees: features, and what transform and impute make.",
        "best_iteration_": "Number of steps (trees, rounds, epochs, members) that the model has.",
        "best_score_": "Value of the first metric on the first evaluation set after these steps; None without one.",
        "evals_": "Learning curves: for each evaluation set, a list of values for each metric, one per step.",
        "init_": "The fitted model whose scores are added; None where training started from nothing or from an array.",
        "transform_": "The fitted transform, or None.",
        "imputation_": "What missing values are filled with, or None where they are not filled.",
        "fitted_parameters_": "Values that fit had for the parameters that a fitted model still reads to score.",
    }

    n_features_in_: int
    feature_names_in_: np.ndarray  # of data with names
    n_queries_: int
    categories_: Names
    best_iteration_: int
    best_score_: float | None  # of the first metric on the first evaluation set, by the steps that were kept
    evals_: Curves
    fitted_parameters_: Mapping[str, Any]
    transform_: Transform | None = None
    imputation_: Imputation | None = None
    init: Any = None  # a model, scores or None, of models with that parameter
    init_: Any = None  # the fitted model that this one started from
    _requests: Mapping[str, Requests] = {}  # by method

    def __new__(cls, *arguments: Any, **parameters: Any) -> Self:
        """Refuse parameters that there are not, with a hint; `__init__` sets the others."""
        names: list[str] = cls._get_param_names() if hasattr(cls, "__dataclass_fields__") else []
        for name in parameters:
            if names and name not in names:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}.{hint_for(name, names)}")
        return super().__new__(cls)

    def __init_subclass__(cls, **more: Any) -> None:
        """Methods whose arguments other libraries call by other names refuse these with a hint."""
        super().__init_subclass__(**more)
        for name in _HINTED:
            if isinstance(method := vars(cls).get(name), FunctionType):
                setattr(cls, name, with_hints(method))

    if not TYPE_CHECKING:  # attributes that are misspelt are errors of types

        def __getattr__(self, name: str) -> Any:
            """What there is not; an attribute of another library is answered with ours."""
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # a property that has failed: its own error
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{attribute_hint(name)}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name; with `deep`, those of a model that is a parameter too, as `model__n_estimators`."""
        params = {name: value_of(self, name) for name in self._get_param_names()}
        models = {name: value for name, value in params.items() if deep and is_estimator(value)}
        inner = {f"{name}__{key}": value for name, one in models.items() for key, value in one.get_params().items()}
        return params | inner

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of a model that is a parameter by `model__n_estimators`."""
        names, nested = self._get_param_names(), dict[str, dict[str, Any]]()
        for key, value in params.items():
            name, _, inner = key.partition("__")
            if name not in names:
                message = f"Invalid parameter {name!r} for estimator {self}."
                raise ValueError(f"{message} Valid parameters are: {names!r}.{hint_for(name, names)}")
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            value_of(self, name).set_params(**values)
        return self

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Under scikit-learn's name, for its tools."""
        return sorted(one.name for one in fields(cls))  # type: ignore[arg-type]  # every model is a dataclass

    def __repr__(self) -> str:
        """The parameters that are not as by default."""
        changed = [f"{name}={value!r}" for name, value in self._changed_params().items()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _changed_params(self) -> dict[str, Any]:
        """The parameters that are not as by default."""
        known = {one.name: one.default for one in fields(self)}  # type: ignore[arg-type]
        shown = {name: value_of(self, name) for name in self._get_param_names()}
        return {name: value for name, value in shown.items() if repr(value) != repr(known[name])}

    def _repr_html_(self) -> str:
        """For notebooks: what the model was fitted to, and the parameters that differ from their defaults."""
        name, changed = type(self).__name__, self._changed_params()
        title = f"{name}, {'fitted' if is_fitted(self) else 'not fitted'}"
        if not changed:
            title += "; all parameters have their defaults"
        facts = [[word, str(value)] for word, value in self._fitted_facts().items()]
        rows = [[key, repr(value)] for key, value in changed.items()]
        parameters = notebook_table("Parameters that differ from their defaults", (), rows) if rows else ""
        return f"{notebook_table(title, (), facts)}{parameters}"

    def _fitted_facts(self) -> dict[str, Any]:
        """What notebooks show of a fitted model."""
        if not is_fitted(self):
            return {}
        resolved = getattr(self, "resolved_params_", {})
        facts: dict[str, Any] = {"features": self.n_features_in_, "training queries": self.n_queries_}
        facts |= {"steps": getattr(self, "best_iteration_", None)}
        score = getattr(self, "best_score_", None)
        facts |= {"score on the first evaluation set": None if score is None else f"{score:.4f}"}
        facts |= {f"{name}, chosen by the data": value for name, value in resolved.items()}
        return {name: value for name, value in facts.items() if value is not None}

    def __sklearn_is_fitted__(self) -> bool:
        return "n_features_in_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    def get_metadata_routing(self) -> Any:
        """Which arguments of `fit`, `predict` and `score` are asked of scikit-learn's tools."""
        return self._requester().get_metadata_routing()

    def set_fit_request(self, **requests: Request) -> Self:
        """Which arguments of `fit` scikit-learn's tools pass on: `set_fit_request(qid=True)`."""
        return self._request("fit", requests)

    def set_predict_request(self, **requests: Request) -> Self:
        """Which arguments of `predict` scikit-learn's tools pass on."""
        return self._request("predict", requests)

    def set_score_request(self, **requests: Request) -> Self:
        """Which arguments of `score` scikit-learn's tools pass on."""
        return self._request("score", requests)

    def _request(self, method: str, requests: Requests) -> Self:
        getattr(self._requester(), f"set_{method}_request")(**requests)  # refuses what the method does not take
        self._requests = {**self._requests, method: {**self._requests.get(method, {}), **requests}}
        return self

    def _requester(self) -> BaseEstimator:
        """An estimator of scikit-learn's own that has the same methods and requests."""
        from sklearn import config_context

        model: Any = type(self)
        requester = _requester_class(model)()
        with config_context(enable_metadata_routing=True):
            for method, requests in self._requests.items():
                getattr(requester, f"set_{method}_request")(**requests)
        return requester

    def __sklearn_clone__(self) -> Self:
        from sklearn.base import clone

        params = self.get_params(deep=False)
        copy = type(self)(**{name: clone(value, safe=False) for name, value in params.items()})
        if self._requests:
            copy._requests = self._requests
        return copy


@cache
def _requester_class(model: Any) -> type[BaseEstimator]:
    """scikit-learn reads the signatures of the methods when the class is made."""
    from sklearn.base import BaseEstimator

    return type(model.__name__, (BaseEstimator,), {name: getattr(model, name) for name in _ROUTED})


def is_estimator(value: Any) -> bool:
    """Whether a value has parameters of its own, as scikit-learn asks it."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def clone(model: Model) -> Model:
    """An unfitted copy, as scikit-learn makes it."""
    from sklearn.base import clone as sklearn_clone

    copy: Model = sklearn_clone(model)
    return copy


def check_fitted(
    model: Any, advice: str = "Call 'fit' with appropriate arguments before using this estimator."
) -> None:
    """Refuse a model that is not fitted, by scikit-learn's error."""
    if is_fitted(model):
        return
    from sklearn.exceptions import NotFittedError

    raise NotFittedError(f"This {type(model).__name__} instance is not fitted yet. {advice}")


def is_fitted(model: Any) -> bool:
    """Whether there is nothing to train before it can score; so what has no `fit` counts as fitted."""
    if isinstance(model, Estimator):
        return model.__sklearn_is_fitted__()
    if not hasattr(model, "fit"):
        return True
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True
