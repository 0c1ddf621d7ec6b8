"""The derivatives that a device computes are those of the compiled objectives."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from podium.metrics.registry import METRICS
from podium.objectives import OBJECTIVES, Lambda, RankNet, parse_objective

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
        form = bound.on_device()
        if name in HOST_ONLY or any(f"lambda-{metric}" in name for metric in HOST_ONLY_METRICS):
            assert form is None
            return
        expected, hessians = np.zeros(len(labels), np.float32), np.zeros(len(labels), np.float32)
        bound.derivatives(scores.astype(np.float64), expected, hessians)
        mask = padded(np.ones(len(labels), bool), offsets)
        rows = {key: padded(values, offsets) for key, values in form.rows.items()}
        found = np.asarray(form.gradients(padded(scores, offsets), mask, rows, form.queries, form.table))
        assert not found[~mask].any()
        largest = np.abs(expected).max()
        np.testing.assert_allclose(found[mask], expected, rtol=1e-5, atol=1e-5 * max(largest, 1e-30))


def test_what_is_resampled_is_sent_again(rng):
    _, labels, offsets = lists(rng, "near")
    bound = parse_objective("xendcg").bind(labels, offsets)
    first = bound.on_device()
    bound.begin(1)
    assert first.resampled
    assert (first.rows["target"] != bound.on_device().rows["target"]).any()
    assert not parse_objective("listnet").bind(labels, offsets).on_device().resampled


def test_a_metric_of_the_users_own_stays_on_the_host(rng):
    from podium.metrics.base import Metric

    class Own(Metric):
        base_name = "own"

        def value(self, ranked_labels):
            return float(ranked_labels[0])

    _, labels, offsets = lists(rng, "near")
    assert Lambda(Own()).bind(labels, offsets).on_device() is None
    assert parse_objective(lambda s, y, o: (s, s)).bind(labels, offsets).on_device() is None


WITHOUT_NUMBA = """
import sys
for name in ("numba", "llvmlite", "scipy", "sklearn", "narwhals", "pandas"):
    sys.modules[name] = None
import numpy as np
from podium.objectives import approximate, lambdas, likelihood, listwise, pairwise, pointwise
from podium.objectives.device import ListGradients
scores, mask = np.array([[0.0, 1.0, 0.0]], np.float32), np.array([[True, True, False]])
rows = {name: np.array([[1.0, 0.0, 0.0]], np.float32) for name in ("label", "value", "target", "gain", "row_weight")}
rows |= {"lower": rows["label"], "upper": rows["label"] + 1}
queries, table = {"weight": np.ones(1), "scale": np.ones(1)}, np.array([1.0, 0.5], np.float32)
settings = {
    lambdas.lambda_gradients: {"kind": 0, "cutoff": 2, "sigma": 1.0, "normalised": False},
    pairwise.pair_gradients: {"loss": 2, "slope": 1.0, "even": False},
    pointwise.threshold_gradients: {"slope": 1.0},
    approximate.smooth_gradients: {"alpha": 1.0},
    pointwise.squared_gradients: {},
    pointwise.centred_gradients: {},
    listwise.softmax_gradients: {},
    likelihood.likelihood_gradients: {},
}
for function, given in settings.items():
    own = rows if function.__module__.endswith("pointwise") else {**rows}
    if own is not rows:
        del own["row_weight"]
    gradients = ListGradients(function, tuple(given.items()))(scores, mask, own, queries, table)
    print(function.__name__, [round(float(number), 4) for number in gradients[0]])
"""


def test_the_jax_half_of_every_objective_runs_without_numba():
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=True)
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    rho = 1 / (1 + np.exp(-1))  # the better document is 1 below the other
    assert json.loads(lines["pair_gradients"]) == [-1.0, 1.0, 0.0]  # hinge: inside the margin
    assert json.loads(lines["lambda_gradients"]) == pytest.approx([-rho / 2, rho / 2, 0.0], abs=1e-4)
    assert json.loads(lines["squared_gradients"]) == [-1.0, 0.0, 0.0]
    assert json.loads(lines["softmax_gradients"]) == pytest.approx([-rho, rho, 0.0], abs=1e-4)
    assert json.loads(lines["likelihood_gradients"]) == pytest.approx([-rho, rho, 0.0], abs=1e-4)
    assert len(lines) == 8
