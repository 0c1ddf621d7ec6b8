"""Closed forms: what the sweep over crossings (`crossings.py`) needs to know of a metric on one data set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium.metrics.additive import DCG, NDCG, AdditiveMetric, MeanNDCG
from podium.metrics.base import Metric
from podium.metrics.cascade import ERR, ReciprocalRank
from podium.metrics.crossings import ADDITIVE, CASCADE, FIRST, PAIRS, PRECISION
from podium.metrics.lists import RankedLists
from podium.metrics.pairs import AUC, Inversions, pair_counts
from podium.metrics.precision import AveragePrecision


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A metric as numbers per document, per rank and per query."""

    kind: int
    values: np.ndarray  # (n,) gain, relevance 0/1, probability to stop, or label of each document
    scales: np.ndarray  # (queries,) what a term counts; 0 where no order changes the value
    largest: float  # no value of a query is larger
    table: np.ndarray  # weights of ranks
    starts: np.ndarray  # (queries,) where the weights of a query begin in the table
    average: bool = False  # ties share the mean of their values


def closed_form(metric: Metric, lists: RankedLists) -> ClosedForm | None:
    """The form of a resolved metric, or None; the labels of `lists` in any order."""
    averaged = metric.policy.ties == "average"
    if isinstance(metric, AdditiveMetric):
        return _additive(metric, lists, averaged) if _adds_up(metric, lists) else None
    if lists.weights is not None:
        return None
    if type(metric) in (AUC, Inversions) and metric.cutoff is None:
        return _pairs(metric, lists)  # ties count one half, whatever the policy
    if averaged:
        return None
    ones = np.ones(lists.n_queries)
    if type(metric) is AveragePrecision:
        return _form(PRECISION, lists.labels >= metric.threshold, _inverse(metric.divisors(lists)), 1.0)
    if type(metric) is ReciprocalRank:
        return _form(FIRST, lists.labels >= metric.threshold, ones, 1.0)
    if type(metric) is ERR:
        return _form(CASCADE, metric.stops(lists.labels), ones, 1.0)
    return None


def _form(kind: int, values: np.ndarray, scales: np.ndarray, largest: float) -> ClosedForm:
    return ClosedForm(kind, values.astype(np.float64), scales, largest, np.zeros(1), np.zeros(len(scales), np.int64))


def _adds_up(metric: AdditiveMetric, lists: RankedLists) -> bool:
    """Whether the value is that of the class, and not one that a subclass computes in another way."""
    kind = type(metric)
    if isinstance(metric, MeanNDCG) and (lists.weights is not None or kind.weights is not MeanNDCG.weights):
        return False
    known = AdditiveMetric.values, NDCG.values, MeanNDCG.values
    return kind.values in known and kind.ranked_gains in (AdditiveMetric.ranked_gains, DCG.ranked_gains)


def _additive(metric: AdditiveMetric, lists: RankedLists, averaged: bool) -> ClosedForm:
    gains = np.asarray(metric.gains(lists.labels) * (1.0 if lists.weights is None else lists.weights), np.float64)
    starts = np.zeros(lists.n_queries, np.int64)
    if isinstance(metric, MeanNDCG):  # weights of ranks that depend on the query
        own = [metric.weights(lists.query(q)) for q in range(lists.n_queries)]
        table, starts, scales = np.concatenate([np.zeros(0), *own]), lists.offsets[:-1], np.ones(lists.n_queries)
    else:
        table, scales = metric.place_weights(int(lists.lengths.max(initial=1))), _inverse(metric.normalisers(lists))
    if isinstance(metric, NDCG):
        scales = np.where(metric.too_short(lists.lengths), 0.0, scales)
    sums = np.add.reduceat(np.abs(gains), lists.offsets[:-1]) * scales
    largest = float(sums.max(initial=0.0) * np.abs(table).max(initial=0.0))
    return ClosedForm(ADDITIVE, gains, scales, largest or 1.0, table, np.ascontiguousarray(starts), averaged)


def _pairs(metric: Metric, lists: RankedLists) -> ClosedForm:
    pairs = pair_counts(lists, None)[1]
    largest = 1.0 if isinstance(metric, AUC) else max(1.0, float(pairs.max(initial=0.0)))
    scales = _inverse(pairs) if isinstance(metric, AUC) else np.full(lists.n_queries, -1.0)
    return _form(PAIRS, lists.labels, scales, largest)


def _inverse(divisors: np.ndarray) -> np.ndarray:
    inverse: np.ndarray = np.divide(1.0, divisors, out=np.zeros(len(divisors)), where=divisors > 0)
    return inverse
