"""Closed forms have the values of their metrics, and a class that computes values in another way has none."""

from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import pytest

from podium.metrics import METRICS, POLICIES, RankedLists, line_search, parse_metric
from podium.metrics.closed_forms import ADDITIVE, CASCADE, FIRST, PAIRS, PRECISION
from podium.objectives import Lambda

LISTS = [[0, 0, 1, 2], [3, 1, 0, 2, 2], [1, 0, 0], [4, 4]]
OFFSETS = np.cumsum([0, *map(len, LISTS)])
VALUE_METHODS = ["value", "values", "swaps"]


def form_of(metric, rows, **more):
    return metric.closed_form(RankedLists(np.concatenate(rows).astype(float), OFFSETS, **more))


def sum_of_terms(form, query):
    """The value of the documents in their order, but for a constant of the query."""
    values = form.values[OFFSETS[query] : OFFSETS[query + 1]].tolist()
    top = values[: form.cutoff]
    if form.kind == ADDITIVE:
        terms = [value * form.table[form.starts[query] + rank] for rank, value in enumerate(top)]
    elif form.kind == PRECISION:
        terms = [value * sum(values[: rank + 1]) / (rank + 1) for rank, value in enumerate(top)]
    elif form.kind == FIRST:
        terms = [1 / (top.index(1.0) + 1)] if 1.0 in top else [0.0]
    elif form.kind == CASCADE:
        terms = [value * np.prod(1 - np.array(values[:rank])) / (rank + 1) for rank, value in enumerate(top)]
    else:
        assert form.kind == PAIRS
        terms = [np.sign(a - b) / 2 for k, a in enumerate(values) for b in values[k + 1 :]]
    return form.scales[query] * sum(terms)


@pytest.mark.parametrize("policy", ["standard", "letor4", "lightgbm", "trec"])
@pytest.mark.parametrize("cutoff", [None, 1, 3, 4, 9])
@pytest.mark.parametrize("name", METRICS)
def test_values_differ_by_what_the_closed_form_says(name, cutoff, policy):
    metric = replace(parse_metric(name), cutoff=cutoff).under(POLICIES[policy]).resolve(4.0)
    for query, labels in enumerate(LISTS):
        orders = sorted(set(permutations(labels)))
        values = [metric.value(order) for order in orders]
        forms = [form_of(metric, [*LISTS[:query], order, *LISTS[query + 1 :]]) for order in orders]
        if forms[0] is None:
            assert name in ("auc", "inversions")
            assert metric.cutoff is not None
            return
        if np.isnan(values).all():
            assert forms[0].scales[query] == 0.0
            continue
        terms = [sum_of_terms(form, query) for form in forms]
        np.testing.assert_allclose(np.subtract(values, values[0]), np.subtract(terms, terms[0]), atol=1e-12)
        assert max(np.abs(values)) <= forms[0].largest + 1e-12 or forms[0].scales[query] == 0.0


@pytest.mark.parametrize("name", METRICS)
def test_weights_and_averaged_ties_have_a_form_where_the_metric_adds_up(name):
    metric = parse_metric(name).resolve(4.0)
    adds_up = form_of(metric, LISTS).kind == ADDITIVE
    weighted = form_of(metric, LISTS, weights=np.linspace(0.5, 2.0, OFFSETS[-1]))
    averaged = form_of(metric, LISTS, average_ties=True)
    assert (weighted is not None) == (adds_up and name != "meanndcg")
    assert (averaged is not None) == (adds_up or name in ("auc", "inversions"))


@pytest.mark.parametrize("method", VALUE_METHODS)
@pytest.mark.parametrize("name", METRICS)
def test_a_class_with_values_or_swaps_of_its_own_loses_the_form_of_its_base(name, method):
    base = type(parse_metric(name))
    overrides = {method: lambda self, *arguments: None}
    overriding = type("Overriding", (base,), overrides)
    mixed = type("Mixed", (type("Mixin", (), overrides), base), {})
    inheriting = type("Inheriting", (base,), {})
    assert form_of(overriding().resolve(4.0), LISTS) is None
    assert form_of(mixed().resolve(4.0), LISTS) is None
    assert form_of(inheriting().resolve(4.0), LISTS).kind == form_of(base().resolve(4.0), LISTS).kind


@pytest.mark.parametrize("method", ["value", "values"])
@pytest.mark.parametrize("name", METRICS)
def test_a_class_with_values_of_its_own_has_the_swaps_of_these_values(name, method):
    base = type(parse_metric(name))
    twice = {method: lambda self, *arguments: 2.0 * getattr(base, method)(self, *arguments)}
    doubled = type("Doubled", (base,), twice)(3)
    for labels in LISTS:
        for i in range(len(labels)):
            np.testing.assert_allclose(doubled.swaps(labels, i), 2.0 * base(3).swaps(labels, i), atol=1e-12)


@dataclass(frozen=True)
class Doubled(type(parse_metric("map"))):
    """Values of its own, twice those of its base; so its swaps are found by swapping."""

    def values(self, lists):
        return 2.0 * super().values(lists)


def test_without_a_form_objectives_and_line_search_take_swaps_and_values(rng):
    labels, scores, other = rng.integers(0, 2, 9).astype(float), *rng.standard_normal((2, 9))
    gradients = [np.empty((2, 9), np.float32) for _ in range(2)]
    for metric, out in zip((Doubled(), parse_metric("map")), gradients):
        Lambda(metric).bind(labels, [0, 9]).derivatives(scores, *out)
    np.testing.assert_allclose(gradients[0], 2.0 * gradients[1], rtol=1e-5, atol=1e-6)
    doubled, plain = (line_search(scores, other, labels, group=[9], metric=m) for m in (Doubled(), "map"))
    assert doubled.value == pytest.approx(2.0 * plain.value)
    assert doubled.alpha == pytest.approx(plain.alpha)
