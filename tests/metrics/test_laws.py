"""Laws that every metric keeps, written once."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import METRIC_ORACLES

from podium.evaluation.evaluating import evaluate
from podium.metrics import METRICS, POLICIES, Metric, RankedLists, parse_metric

SHORT_LISTS = [[0, 0, 1, 2], [0, 1, 1, 0], [3, 1, 0, 2, 2], [0, 0, 0], [1], [4, 4], [0, 3, 1, 2]]
CUTOFFS = [None, 1, 2, 3, 4, 5, 7]
VARIANTS = [*METRICS, "rbp(0.5, graded)", "map(relevant=2)", "ndcg(gain=linear)", "p(relevant=2)", "rr(relevant=2)"]

grades = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def lists_of(rows):
    """Many short lists as one value."""
    return RankedLists(
        np.concatenate([np.asarray(row, float) for row in rows]), np.cumsum([0, *map(len, rows)], dtype=np.int64)
    )


def variants(labels):
    for spelling in VARIANTS:
        for cutoff in CUTOFFS:
            yield replace(parse_metric(spelling), cutoff=cutoff).resolve(max(labels))


def test_every_metric_has_an_oracle():
    assert set(METRIC_ORACLES) == set(METRICS)


@pytest.mark.parametrize("spelling", METRICS)
@pytest.mark.parametrize("cutoff", CUTOFFS)
def test_value_equals_the_plain_loop(spelling, cutoff):
    metric = replace(parse_metric(spelling), cutoff=cutoff)
    for labels in SHORT_LISTS:
        for ranked in set(permutations(labels)):
            expected = METRIC_ORACLES[spelling](list(ranked), cutoff)
            assert metric.value(ranked) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("labels", SHORT_LISTS, ids=str)
def test_swaps_equal_really_swapping_for_every_permutation_and_cutoff(labels):
    for metric in variants(labels):
        for policy in ("standard", "letor4", "lightgbm"):
            check_swaps(metric.under(POLICIES[policy]), sorted(set(permutations(labels))))


def check_swaps(metric, rankings):
    pairs = [(row, i, j) for row in rankings for i in range(len(row)) for j in range(i + 1, len(row))]
    if not pairs:
        return
    before = metric.values(lists_of([row for row, _, _ in pairs]))
    after = metric.values(lists_of([swapped(row, i, j) for row, i, j in pairs]))
    rows = {(row, i): metric.swaps(row, i) for row, i, _ in pairs}
    found = np.array([rows[row, i][j - i - 1] for row, i, j in pairs])
    np.testing.assert_allclose(found, after - before, atol=1e-12, err_msg=f"{metric} under {metric.policy.name}")


def swapped(row, i, j):
    row = list(row)
    row[i], row[j] = row[j], row[i]
    return row


@pytest.mark.parametrize("spelling", VARIANTS)
def test_swaps_of_a_longer_list_equal_the_brute_force_of_the_base_class(spelling, rng):
    labels = rng.integers(0, 5, 30).astype(float)
    for cutoff in (None, 10):
        metric = replace(parse_metric(spelling), cutoff=cutoff).resolve(4.0)
        for i in (0, 3, 9, 10, 28, 29):
            np.testing.assert_allclose(metric.swaps(labels, i), Metric.swaps(metric, labels, i), atol=1e-12)


@pytest.mark.parametrize("labels", SHORT_LISTS, ids=str)
def test_the_best_order_scores_highest(labels):
    best = sorted(labels, reverse=True)
    rankings = sorted(set(permutations(labels)))
    for metric in variants(labels):
        values = metric.values(lists_of([best, *rankings]))
        if np.isnan(values).all():
            continue
        others = values[1:] if metric.higher_is_better else -values[1:]
        assert (values[0] if metric.higher_is_better else -values[0]) >= others.max() - 1e-12, metric


@given(grades, st.integers(1, 15))
@settings(max_examples=40, deadline=None)
def test_two_queries_together_equal_each_alone(labels, cutoff):
    for spelling in METRICS:
        metric = replace(parse_metric(spelling), cutoff=cutoff).resolve(4.0)
        together = metric.values(lists_of([labels, labels[::-1]]))
        np.testing.assert_array_equal(together[0], metric.values(lists_of([labels]))[0])
        np.testing.assert_array_equal(together[1], metric.values(lists_of([labels[::-1]]))[0])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30), st.randoms()
)
@settings(max_examples=40, deadline=None)
def test_row_order_changes_nothing_under_standard(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    names = [*(f"{name}@3" for name in METRICS), *METRICS, "auc(pooled)"]

    def run(table):
        labels, scores, queries = (np.array(column) for column in zip(*table))
        result = evaluate(scores, labels, qid=queries, metrics=names)
        order = np.argsort(result.queries)
        return {name: values[order] for name, values in result.per_query.items()}

    first, second = run(rows), run(shuffled)
    for name in names:
        np.testing.assert_allclose(first[name], second[name], atol=1e-12)


@pytest.mark.parametrize("spelling", METRICS)
def test_the_name_is_a_spelling_that_reads_back(spelling):
    for metric in (parse_metric(spelling), replace(parse_metric(spelling), cutoff=10)):
        assert parse_metric(metric.name) == metric


class SecondPlace(Metric):
    """A user's metric: the label at the second place."""

    base_name = "second"

    def value(self, ranked_labels, judged=None):
        return float(ranked_labels[1]) if len(ranked_labels) > 1 else 0.0


def test_a_user_writes_only_value_and_gets_swaps_and_evaluation():
    metric = SecondPlace()
    np.testing.assert_array_equal(metric.swaps([3.0, 1.0, 2.0], 0), [2.0, 0.0])
    result = evaluate([3, 2, 1, 1, 2], [0, 4, 1, 2, 0], qid=[1, 1, 1, 2, 2], metrics=[metric, "ndcg"])
    assert result["second"] == (4 + 2) / 2


def test_brute_force_says_where_it_ends():
    with pytest.raises(ValueError, match="bounded at 2000"):
        SecondPlace().swaps(np.zeros(2001), 0)


def test_a_metric_without_a_name_is_called_after_its_class():
    class Nothing(Metric):
        def value(self, ranked_labels, judged=None):
            return 0.0

    assert Nothing(cutoff=5).name == "nothing@5"
    assert type("Mine", (METRICS["ndcg"],), {})(10).name == "ndcg@10"
