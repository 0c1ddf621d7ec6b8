"""The derivatives that a device computes are those of the compiled objectives."""

from itertools import pairwise

import numpy as np
import pytest

from podium.learners.net.formulas import gradients
from podium.metrics.registry import METRICS
from podium.objectives import OBJECTIVES, Lambda, RankNet, parse_objective
from podium.objectives.device import device_form

HOST_ONLY = {"bayesrank"}
HOST_ONLY_METRICS = {"auc", "inversions"}  # whose swaps have no closed form
POINTS = {f"lambda-{name}{cut}": Lambda(f"{name}{cut}") for name in METRICS for cut in ("", "@3")}
POINTS |= {
    "sigma": Lambda("ndcg@5", sigma=2.5),
    "lightgbm": Lambda("ndcg@5", sigma=2.5, normalize="lightgbm"),
    "xgboost": Lambda("map", normalize="xgboost"),
    "letor4": Lambda("ndcg@10", policy="letor4"),
    "letor4-mean": Lambda("meanndcg", policy="letor4"),
    "linear": Lambda("ndcg", gain="linear"),
    "ranknet-exponent": RankNet(pair_exponent=0.5),
    "lambda-exponent": Lambda("ndcg@5", pair_exponent=0.5),
    "ranknet-ties": RankNet(sigma=1.7, ties=True),
}
POINTS |= {name: parse_objective(name) for name in OBJECTIVES if name != "lambda"}


def lists(rng, scores_like):
    lengths = np.array([1, 2, 5, 9, 16, 3, 30])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.integers(0, 4, offsets[-1]).astype(np.float64)
    labels[offsets[3] : offsets[4]] = 1.0  # nothing to choose from
    if scores_like == "equal":
        scores = np.zeros(offsets[-1])
    elif scores_like == "tied":
        scores = np.round(rng.standard_normal(offsets[-1]))
    else:
        scores = rng.standard_normal(offsets[-1]) * (30.0 if scores_like == "far" else 1.0)
    return scores.astype(np.float32), labels, offsets


def padded(values, offsets, width=32):
    return np.stack([np.pad(values[a:b], (0, width - (b - a))) for a, b in pairwise(offsets)])


@pytest.mark.parametrize("scores_like", ["near", "far", "tied", "equal"])
@pytest.mark.parametrize("name", POINTS)
@pytest.mark.filterwarnings("ignore:lambda. .*(counts a pair|ignores the order|is the same):UserWarning")
def test_every_objective_has_the_gradients_of_the_host(rng, name, scores_like):
    scores, labels, offsets = lists(rng, scores_like)
    for weights in (None, (rng.random(len(labels)) + 0.5, rng.random(len(offsets) - 1) + 0.5)):
        given = {} if weights is None else {"weights": weights[0], "query_weights": weights[1]}
        bound = POINTS[name].bind(labels, offsets, **given)
        bound.begin(3)
        form = device_form(bound)
        if name in HOST_ONLY or any(f"lambda-{metric}" in name for metric in HOST_ONLY_METRICS):
            assert form is None
            return
        expected, hessians = np.zeros(len(labels), np.float32), np.zeros(len(labels), np.float32)
        bound.derivatives(scores.astype(np.float64), expected, hessians)
        there = padded(np.ones(len(labels), bool), offsets)
        rows = {key: padded(values, offsets) for key, values in form.rows.items()}
        found = gradients(
            form.formula, dict(form.settings), padded(scores, offsets), there, rows, form.queries, form.table
        )
        assert not np.asarray(found)[~there].any()
        largest = np.abs(expected).max()
        np.testing.assert_allclose(np.asarray(found)[there], expected, rtol=1e-5, atol=1e-5 * max(largest, 1e-30))


def test_what_is_drawn_anew_is_sent_again(rng):
    _, labels, offsets = lists(rng, "near")
    bound = parse_objective("xendcg").bind(labels, offsets)
    first = device_form(bound)
    bound.begin(1)
    assert first.redrawn
    assert (first.rows["target"] != device_form(bound).rows["target"]).any()
    assert not device_form(parse_objective("listnet").bind(labels, offsets)).redrawn


def test_a_metric_of_the_users_own_stays_on_the_host(rng):
    from podium.metrics.base import Metric

    class Own(Metric):
        spelling = "own"

        def value(self, ranked_labels):
            return float(ranked_labels[0])

    _, labels, offsets = lists(rng, "near")
    assert device_form(Lambda(Own()).bind(labels, offsets)) is None
    assert device_form(parse_objective(lambda s, y, o: (s, s)).bind(labels, offsets)) is None
