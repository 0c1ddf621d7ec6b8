"""The worked numbers of the lecture notes, under `standard` unless another policy is named."""

from math import log2

import numpy as np
import pytest

from podium.evaluation.evaluating import evaluate
from podium.metrics import POLICIES, parse_metric

LETOR = POLICIES["letor4"]


def test_ndcg_of_five_binary_labels():
    labels = [0, 1, 0, 1, 1]
    gained = 1 / log2(3) + 1 / log2(5) + 1 / log2(6)
    ideal = 1 + 1 / log2(3) + 1 / log2(4)
    assert gained == pytest.approx(1.4485, abs=5e-5)
    assert ideal == pytest.approx(2.1309, abs=5e-5)
    for gain in ("exponential", "linear"):
        assert parse_metric(f"dcg(gain={gain})").value(labels) == pytest.approx(gained)
        assert parse_metric(f"ndcg(gain={gain})").value(labels) == pytest.approx(gained / ideal)
    assert gained / ideal == pytest.approx(0.6797, abs=5e-5)
    assert parse_metric("ndcg").swaps(labels, 0)[0] == pytest.approx(0.8529 - 0.6797, abs=1e-4)
    assert parse_metric("ndcg").swaps(labels, 2)[0] == pytest.approx(0.7123 - 0.6797, abs=1e-4)
    assert parse_metric("ndcg", LETOR).value(labels) == pytest.approx(0.7338, abs=5e-5)


def test_average_precision_of_four_relevant_documents():
    relevant, ranking = {"d1", "d2", "d3", "d4"}, ["d1", "d4", "d3", "d5", "d2"]
    labels = [int(name in relevant) for name in ranking]
    expected = [1, 1, 1, 3 / 4, 4 / 5, 4 / 6]
    assert [parse_metric(f"p@{k}").value(labels) for k in range(1, 7)] == pytest.approx(expected)
    assert parse_metric("map").value(labels) == pytest.approx((1 + 1 + 1 + 4 / 5) / 4)
    assert parse_metric("map").value(labels[:3], judged=[1, 1, 1, 1, 0]) == pytest.approx(3 / 4)


def test_ndcg_of_grades_five_two_four_four_four():
    labels = [5, 2, 4, 4, 4]
    dcgs = [parse_metric(f"dcg@{k}").value(labels) for k in range(1, 6)]
    assert dcgs == pytest.approx([31, 32.89, 40.39, 46.85, 52.66], abs=0.01)
    values = [parse_metric(f"ndcg@{k}").value(labels) for k in range(1, 6)]
    assert values == pytest.approx([1, 0.813, 0.842, 0.861, 0.947], abs=5e-4)
    letor = [parse_metric(f"ndcg@{k}", LETOR).value(labels) for k in range(1, 6)]
    assert letor == pytest.approx([1, 0.7391, 0.7836, 0.8094, 0.8937], abs=5e-5)


def test_auc_counts_pairs_in_order():
    assert parse_metric("auc").value([1, 0, 1, 0, 0]) == pytest.approx(5 / 6)
    assert parse_metric("inversions").value([1, 0, 1, 0, 0]) == 1


def test_auc_gives_half_a_point_for_equal_scores():
    result = evaluate([1, 1, 0], [1, 0, 0], qid=[1, 1, 1], metrics=["auc", "inversions"])
    assert result["auc"] == (0.5 + 1) / 2
    assert result["inversions"] == 0.5


def test_pooled_auc_pairs_documents_across_queries():
    scores, labels, queries = [3, 1, 2, 0], [1, 0, 0, 1], [1, 1, 2, 2]
    result = evaluate(scores, labels, qid=queries, metrics=["auc", "auc(pooled)"])
    assert result["auc"] == (1 + 0) / 2
    assert result["auc(pooled)"] == 2 / 4  # in order: (3, 1) and (3, 2); out of order: (0, 1) and (0, 2)


def test_err_of_a_perfect_and_a_bad_document():
    # R = 3/4 and 0: the user stops at rank 1 or never.
    assert parse_metric("err").value([2, 0]) == pytest.approx(3 / 4)
    assert parse_metric("err(rmax=4)").value([2, 1]) == pytest.approx(3 / 16 + 13 / 16 * 1 / 16 / 2)


def test_rbp_sums_a_geometric_series():
    assert parse_metric("rbp(0.5)").value([1, 0, 1]) == pytest.approx(0.5 * (1 + 0.25))
    assert parse_metric("rbp(0.5, graded)").value([1, 0, 2]) == pytest.approx(0.5 * (0.5 + 0.25))


def test_mean_ndcg_is_the_mean_over_the_lists_own_length():
    labels = [0, 1, 2]
    values = [parse_metric(f"ndcg@{k}", LETOR).value(labels) for k in (1, 2, 3)]
    assert parse_metric("meanndcg", LETOR).value(labels) == pytest.approx(np.mean(values))
