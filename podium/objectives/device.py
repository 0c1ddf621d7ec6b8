"""Objectives for another device: a bound objective as data, for whoever computes its derivatives there.

A `DeviceForm` names a formula of `learners/net/formulas.py` and holds what it needs per row and per query. What is
computed once when an objective is bound (targets, thresholds, gains, weights of places) stays on this side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.metrics.closed_forms import ADDITIVE
from podium.objectives.approximate import BoundApproxNDCG
from podium.objectives.base import BoundObjective
from podium.objectives.centred import BoundQueryRMSE
from podium.objectives.kernels import EXPONENTIAL, HINGE, LOGISTIC, SQUARED_HINGE
from podium.objectives.lambdas import BoundLambda
from podium.objectives.likelihood import BoundListMLE
from podium.objectives.listwise import BoundSoftmax, BoundXENDCG
from podium.objectives.pairwise import BoundPairwise
from podium.objectives.pointwise import BoundSquared, BoundThresholds

_PAIR_FORMS = {LOGISTIC: "logistic", HINGE: "hinge", SQUARED_HINGE: "squared_hinge", EXPONENTIAL: "exponential"}


@dataclass(frozen=True, eq=False)
class DeviceForm:
    """One objective on one data set."""

    formula: str
    settings: tuple[tuple[str, Any], ...]  # names and plain values, which can be hashed
    rows: dict[str, np.ndarray]  # (n,) float32 each
    queries: dict[str, np.ndarray]  # (queries,) float32 each
    table: np.ndarray  # (longest,) float32, weights of places; or empty
    redrawn: bool = False  # rows are others in every iteration


def device_form(bound: BoundObjective) -> DeviceForm | None:
    """The form of a bound objective at its current iteration; None if its derivatives are computed on the host only."""
    make = _FORMS.get(type(bound))
    return None if make is None else make(bound)


def _form(
    bound: Any,
    formula: str,
    rows: dict[str, np.ndarray],
    settings: dict[str, Any] | None = None,
    table: np.ndarray | None = None,
    queries: dict[str, np.ndarray] | None = None,
    redrawn: bool = False,
) -> DeviceForm:
    weights = getattr(bound, "query_weights", bound.judged.query_weights)
    per_query = {"weight": weights} | (queries or {})
    return DeviceForm(
        formula,
        tuple(sorted((settings or {}).items())),
        {name: np.asarray(values, np.float32) for name, values in rows.items()},
        {name: np.asarray(values, np.float32) for name, values in per_query.items()},
        np.asarray(np.empty(0) if table is None else table, np.float32),
        redrawn,
    )


def _squared(bound: BoundSquared) -> DeviceForm:
    return _form(bound, "squared", {"label": bound.labels, "row_weight": bound.row_weights})


def _centred(bound: BoundQueryRMSE) -> DeviceForm:
    return _form(bound, "centred", {"label": bound.labels, "row_weight": bound.row_weights})


def _thresholds(bound: BoundThresholds) -> DeviceForm:
    rows = {"lower": bound.lower, "upper": bound.upper, "row_weight": bound.row_weights}
    return _form(bound, "thresholds", rows, {"slope": float(bound.slope)})


def _document_weights(bound: BoundObjective) -> dict[str, np.ndarray]:
    weights = bound.judged.weights
    return {"document_weight": weights} if len(weights) else {}


def _pairwise(bound: BoundPairwise) -> DeviceForm | None:
    kind = bound.objective
    if kind.form not in _PAIR_FORMS:
        return None
    settings = {"form": _PAIR_FORMS[kind.form], "slope": float(kind.slope), "even": bool(kind.even_pairs)}
    return _form(bound, "pairwise", {"label": bound.labels, **_document_weights(bound)}, settings)


def _lambda(bound: BoundLambda) -> DeviceForm | None:
    """Metrics that have a closed form; weights of places that differ from query to query lie at its rows."""
    form = bound.form
    if form is None:
        return None
    rows, table = {"value": form.values, **_document_weights(bound)}, form.table
    if form.kind == ADDITIVE and form.starts.any():
        rows["place_weight"], table = form.table, np.empty(0)
    settings = {
        "kind": form.kind,
        "cutoff": int(form.cutoff),
        "sigma": float(bound.objective.sigma),
        "normalised": bound.objective.normalize is not None,
    }
    queries = {"weight": bound._lists[1], "scale": form.scales}
    return _form(bound, "lambda", rows, settings, table, queries)


def _softmax(bound: BoundSoftmax) -> DeviceForm:
    return _form(bound, "softmax", {"target": bound.targets}, redrawn=isinstance(bound, BoundXENDCG))


def _likelihood(bound: BoundListMLE) -> DeviceForm:
    return _form(bound, "likelihood", {"label": bound.labels, **_document_weights(bound)})


def _approximate(bound: BoundApproxNDCG) -> DeviceForm:
    return _form(bound, "smooth_ndcg", {"gain": bound.gains}, {"alpha": float(bound.objective.alpha)})


_FORMS: dict[type, Callable[[Any], DeviceForm | None]] = {
    BoundSquared: _squared,
    BoundQueryRMSE: _centred,
    BoundThresholds: _thresholds,
    BoundPairwise: _pairwise,
    BoundLambda: _lambda,
    BoundSoftmax: _softmax,
    BoundXENDCG: _softmax,
    BoundListMLE: _likelihood,
    BoundApproxNDCG: _approximate,
}
