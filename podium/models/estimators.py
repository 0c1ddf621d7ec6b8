"""Estimators of scikit-learn that can be named, saved and loaded: linear ones, and support vector regression.

Others train and predict just as well, but a model file holds no code, and only these consist of arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from podium._runtime.words import check_choice

_LINEAR, _SVM = "sklearn.linear_model", "sklearn.svm"
REGRESSORS = {
    "linear_regression": (_LINEAR, "LinearRegression"),
    "ridge": (_LINEAR, "Ridge"),
    "lasso": (_LINEAR, "Lasso"),
    "elastic_net": (_LINEAR, "ElasticNet"),
    "bayesian_ridge": (_LINEAR, "BayesianRidge"),
    "huber": (_LINEAR, "HuberRegressor"),
    "linear_svr": (_SVM, "LinearSVR"),
    "svr": (_SVM, "SVR"),
}
CLASSIFIERS = {
    "logistic_regression": (_LINEAR, "LogisticRegression"),
    "ridge_classifier": (_LINEAR, "RidgeClassifier"),
    "linear_svc": (_SVM, "LinearSVC"),
}
ESTIMATORS = REGRESSORS | CLASSIFIERS


def make_estimator(name: str, what: str = "estimator", among: Any = None) -> Any:
    """The estimator with this name, with scikit-learn's defaults."""
    known = ESTIMATORS if among is None else among
    check_choice(what, name, known)
    module, kind = known[name]
    return getattr(import_module(module), kind)()


def name_of(estimator: Any) -> str | None:
    """What an estimator is called here; None where it is of another class."""
    kind = type(estimator)
    for name, (module, class_name) in ESTIMATORS.items():
        if kind.__name__ == class_name and kind.__module__.startswith(f"{module}."):
            return name
    return None
