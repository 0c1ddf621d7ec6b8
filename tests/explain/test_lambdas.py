"""The table of pairs of one query: numbers that can be redone by hand, and sums that are the gradients of training."""

import json
import math

import numpy as np
import pytest

from podium import explain
from podium.objectives import Lambda, parse_objective

LABELS, SCORES = [0, 1, 0, 1, 1], [5.0, 4.0, 3.0, 2.0, 1.0]  # the ranking [0, 1, 0, 1, 1] of the lectures


def pair(table, i, j):
    frame = table.to_frame()
    (row,) = frame[(frame["i"] == i) & (frame["j"] == j)].to_dict("records")
    return row


def rho(o):
    return 1 / (1 + math.exp(o))


def test_swap_deltas_are_those_of_the_lectures():
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    table = explain.lambdas(SCORES, LABELS, metric="ndcg@10")
    upper, lower = pair(table, "d2", "d1"), pair(table, "d4", "d3")
    assert upper["delta"] == pytest.approx((1 - 1 / math.log2(3)) / ideal)
    assert round(upper["delta"], 4) == 0.1732
    assert lower["delta"] == pytest.approx((1 / 2 - 1 / math.log2(5)) / ideal)
    assert upper["o"] == lower["o"] == -1
    assert upper["lambda"] == pytest.approx(upper["delta"] * rho(-1))
    assert upper["hessian"] == pytest.approx(upper["delta"] * rho(-1) * (1 - rho(-1)))


def test_ranknet_pushes_by_the_error_of_its_probability():
    table = explain.lambdas([math.log(0.2 / 0.8), 0.0], [1, 0], "ranknet")  # the model says 0.2, the target is 1
    assert pair(table, "d1", "d2")["lambda"] == pytest.approx(0.8)
    assert pair(table, "d1", "d2")["delta"] == 1
    np.testing.assert_allclose(table.lambdas, [0.8, -0.8])


def test_equal_labels_make_pairs_where_they_count():
    table = explain.lambdas([0.37, 0.0], [1, 1], "ranknet", sigma=1.7, ties=True)
    assert pair(table, "d2", "d1")["lambda"] == pytest.approx(1.7 * (rho(-1.7 * 0.37) - 0.5))
    assert round(table.lambdas[1], 4) == 0.2588
    assert len(explain.lambdas([0.37, 0.0], [1, 1], "ranknet").to_frame()) == 0


@pytest.mark.parametrize(
    "objective",
    [
        *("ranknet", "hinge", "squared_hinge", "exponential", Lambda("ndcg@3"), Lambda("map"), Lambda("rr@5")),
        *(Lambda("err(rmax=4)", sigma=2.0), Lambda("rbp(0.8)"), Lambda("ndcg", normalize="lightgbm")),
        *(Lambda("map", normalize="xgboost"), Lambda("dcg", pair_exponent=0.5), Lambda("ndcg", policy="letor4")),
    ],
    ids=str,
)
def test_sums_are_the_gradients_of_training(objective, rng):
    scores, labels = rng.standard_normal(12), rng.permutation(np.resize([0, 3, 1, 0, 4], 12))
    scores[7] = scores[3]
    table = explain.lambdas(scores, labels, objective)
    gradients, hessians = np.empty((2, 12), np.float32)
    parse_objective(objective).bind(labels, [0, 12]).derivatives(scores, gradients, hessians)
    np.testing.assert_allclose(-table.lambdas, gradients, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(table.hessians, hessians, rtol=1e-5, atol=1e-6)
    by_document = table.to_frame(documents=True)
    assert by_document["lambda"].sum() == pytest.approx(0, abs=1e-9)
    assert list(by_document["score"]) == sorted(scores, reverse=True)


def test_it_is_printed_with_its_formula():
    table = explain.lambdas([1.0, 2.0], [1, 0], documents=["<a>", "b"])
    delta = 1 - 1 / math.log2(3)
    assert str(table).splitlines() == [
        "lambda, ndcg@10 (policy standard): 2 documents, 1 pair",
        "o = s_i - s_j, rho = 1 / (1 + exp(o)), lambda = |dZ| rho; i is raised, j lowered",
        "",
        "i    j        o     rho    |dZ|   lambda",
        f"<a>  b  -1.0000  {rho(-1):.4f}  {delta:.4f}  {delta * rho(-1):+.4f}",
        "",
        "rank  document  label  score   lambda  hessian",
        f"   1  b             0      2  {-delta * rho(-1):+.4f}   {delta * rho(-1) * (1 - rho(-1)):.4f}",
        f"   2  <a>           1      1  {delta * rho(-1):+.4f}   {delta * rho(-1) * (1 - rho(-1)):.4f}",
    ]
    assert "&lt;a&gt;" in table._repr_html_()
    assert "<a>" not in table._repr_html_()
    assert json.loads(json.dumps(table.as_dict()))["pairs"][0]["i"] == "<a>"
    assert table.table().row_count == 1
    for backend in ("polars", "pyarrow"):
        pytest.importorskip(backend)
        assert str(table.to_frame(backend=backend)["i"][0]) == "<a>"
    assert table.documents_table().row_count == 2


def test_of_many_pairs_the_largest_are_printed(rng):
    table = explain.lambdas(rng.standard_normal(60), rng.integers(0, 3, 60), "ranknet")
    largest = table.to_frame()["lambda"].max()
    lines = str(table).splitlines()
    assert lines[4].endswith(f"{largest:+.4f}")
    assert f"and {len(table.to_frame()) - 20:,} more pairs" in str(table)
    assert "40 more documents" in str(table)


@pytest.mark.parametrize("n", [0, 1])
def test_without_pairs_the_table_is_empty(n, tmp_path):
    table = explain.lambdas(np.zeros(n), np.zeros(n))
    assert table.to_frame().empty
    assert f"{n} document" in str(table)
    pytest.importorskip("matplotlib")
    table.picture(tmp_path / "empty.svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "listnet"}, "objective 'listnet' are no sums over pairs.*Give one of ranknet, hinge"),
        ({"objective": "squared"}, "objective 'squared' are no sums over pairs"),
        ({"objective": "ranknet", "metric": "map"}, "objective 'ranknet' has no setting 'metric'"),
        ({"scores": [1.0]}, r"one number per document of one query; got scores \(1,\), labels \(2,\)"),
        ({"scores": [1.0, np.nan]}, "scores must be finite; that of row 2 is nan"),
        ({"labels": [0, -1]}, "labels must not be negative"),
        ({"documents": "ab"}, "documents must be one name per score, 2; got 'ab'"),
        ({"scores": np.zeros(3000), "labels": np.zeros(3000)}, "pairs of 3,000 documents.*2,000 at most"),
        ({"metric": "ndgc"}, "Did you mean 'ndcg'"),
    ],
)
def test_what_has_no_table_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        explain.lambdas(**({"scores": [1.0, 2.0], "labels": [0, 1]} | arguments))
