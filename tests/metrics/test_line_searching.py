"""Line search: the curve is that of evaluating each alpha, its best value exact, for every metric and policy."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import exact_line, plateau_of

import podium
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate
from podium.metrics import METRICS, POLICIES, Metric, Policy, line_search, parse_metric
from podium.metrics.line_searching import LONGEST_LINE

VARIANTS = [*METRICS, "rbp(0.5, graded)", "map(relevant=2)", "auc(pooled)", "ndcg(gain=linear)"]
SPELLINGS = [*VARIANTS, *(f"{name}@3" for name in METRICS)]
POINTS = np.linspace(0, 1, 101)
RULES = {**POLICIES, "best": Policy("best", ties="best", precision="list")}


class SecondPlace(Metric):
    """A user's metric: the label at the second place."""

    base_name = "second"

    def value(self, ranked_labels, judged=None):
        return float(ranked_labels[1]) if len(ranked_labels) > 1 else 0.0


def make_lines(rng, kind):
    """Few queries of a few documents; integer scores tie and cross at the same points, some documents are twins."""
    lengths = rng.integers(1, 7, 4)
    qid, n = np.repeat(np.arange(4), lengths), int(lengths.sum())
    if kind == "integers":
        s, s2 = rng.integers(-2, 3, (2, n)).astype(float)
    else:
        s, s2 = rng.standard_normal((2, n)) * [[1.0], [3.0]]
        s[1::3], s2[1::3] = s[0::3][: len(s[1::3])], s2[0::3][: len(s2[1::3])]
    return s, s2, rng.integers(0, 4, n).astype(float), qid


def evaluated(ranks, y, qid, metric, policy, **more):
    """The metric of each row of ranks; higher is better."""
    return np.array([evaluate(row, y, qid=qid, metrics=[metric], policy=policy, **more)[str(metric)] for row in ranks])


def outcome(work, *args, **options):
    try:
        return work(*args, **options)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("policy", RULES)
@pytest.mark.parametrize("spelling", [*SPELLINGS, "second"])
def test_the_curve_is_that_of_evaluating_every_crossing_and_every_middle(spelling, policy):
    metric, rules = SecondPlace() if spelling == "second" else spelling, RULES[policy]
    rng = np.random.default_rng([*spelling.encode(), *policy.encode()])
    for kind in ("integers", "floats"):
        s, s2, y, qid = make_lines(rng, kind)
        if rules.single_precision:
            s, s2 = np.float32(s).astype(float), np.float32(s2).astype(float)
        alphas, ranks = exact_line(s, s2, 0 * qid if spelling == "auc(pooled)" else qid)
        expected = outcome(evaluated, ranks, y, qid, metric, rules)
        found = outcome(line_search, s, s2, y, qid=qid, metric=metric, policy=rules)
        if isinstance(expected, str):
            assert found == expected
            continue
        if np.isnan(expected[0]):
            assert "undefined for all queries" in found
            continue
        where = np.array([float(alpha) for alpha in alphas])
        if kind == "floats":  # a crossing may be a few units in the last place beside its nearest double
            snap = np.searchsorted(found.curve.alpha, where - 1e-14)
            near = found.curve.alpha[np.minimum(snap, len(found.curve) - 1)]
            where = np.where(np.abs(near - where) < 1e-14, near, where)
        np.testing.assert_allclose(found.curve(where), expected, atol=1e-12)
        sign = 1 if parse_metric(metric).higher_is_better else -1
        best, first, last = plateau_of(alphas, sign * expected)
        assert found.value == pytest.approx(sign * best, abs=1e-12)
        np.testing.assert_allclose(found.plateau, [float(first), float(last)], atol=1e-14)
        assert found.alpha == pytest.approx(float(first + last) / 2, abs=1e-14)


@given(st.integers(0, 2**32), st.sampled_from(["ndcg", "map", "err@3", "rr", "auc", "p@2", "inversions"]))
@settings(max_examples=25, deadline=None)
def test_no_grid_finds_more_and_some_grids_find_less(seed, metric):
    rng = np.random.default_rng(seed)
    s, s2, y, qid = make_lines(rng, "floats")
    if metric == "auc":
        y[:2], qid[:2] = [0, 1], qid[0]  # a query with two labels
    found = outcome(line_search, s, s2, y, qid=qid, metric=metric)
    if isinstance(found, str):
        assert "undefined" in found
        return
    sign = -1 if metric == "inversions" else 1
    for n in (3, 50):
        grid = [evaluate((1 - a) * s + a * s2, y, qid=qid, metrics=[metric])[metric] for a in np.linspace(0, 1, n)]
        assert sign * found.value >= max(sign * np.array(grid)) - 1e-12
    at = evaluate((1 - found.alpha) * s + found.alpha * s2, y, qid=qid, metrics=[metric])[metric]
    assert at == pytest.approx(found.value, abs=1e-12)


def test_it_beats_a_grid_between_its_points():
    """Scores 1 - a, 2 a and 0.5 + 0.51 a: the last, which is relevant, leads between 0.5/1.51 and 0.5/1.49 only."""
    s, s2 = [1.0, 0.0, 0.5], [0.0, 2.0, 1.01]
    found = line_search(s, s2, [0, 0, 1], qid=[1, 1, 1], metric="rr")
    assert found.value == 1.0
    assert found.plateau == (pytest.approx(0.5 / 1.51), pytest.approx(0.5 / 1.49))
    grid = [evaluate([1 - a, 2 * a, 0.5 + 0.51 * a], [0, 0, 1], group=[3], metrics=["rr"])["rr"] for a in POINTS]
    assert max(grid) == 0.5
    assert found.beta == pytest.approx(found.alpha / (1 - found.alpha))


def test_two_documents_tie_at_their_crossing_as_the_policy_says():
    """s = (1, 0), s2 = (0, 1): they cross at 1/2. The relevant one leads before it, or at it if ties are best."""
    given_ = {"qid": [7, 7], "metric": "rr"}
    values = {}
    for ties in ("worst", "best", "input", "docid"):
        found = line_search([1, 0], [0, 1], [0, 1], policy=Policy(ties, ties=ties), docids=["a", "b"], **given_)
        assert found.curve.alpha.tolist() == [0.0, 0.5, 1.0]
        assert found.curve.between.tolist() == [0.5, 1.0]
        values[ties] = found.curve(0.5).item()
    assert values == {"worst": 0.5, "best": 1.0, "input": 0.5, "docid": 1.0}
    averaged = line_search([1, 0], [0, 1], [0, 1], qid=[7, 7], metric="dcg", policy="sklearn")
    assert averaged.curve(0.5) == pytest.approx((1 + 1 / np.log2(3)) / 2)


def test_a_single_point_can_be_the_best():
    """Two queries cross at 1/2 in opposite directions; by input order both are right there, and only there."""
    s, s2 = [0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]
    found = line_search(s, s2, [1, 0, 1, 0], qid=[1, 1, 2, 2], metric="rr", policy="ranklib")
    assert (found.alpha, found.value, found.plateau) == (0.5, 1.0, (0.5, 0.5))
    assert found.curve.between.tolist() == [0.75, 0.75]


def test_crossings_of_equal_labels_leave_no_breakpoint(rng):
    s, s2 = rng.standard_normal((2, 30))
    found = line_search(s, s2, np.ones(30), qid=np.arange(30) // 10, metric="ndcg")
    assert found.curve.alpha.tolist() == [0.0, 1.0]
    assert (found.alpha, found.value) == (0.5, 1.0)


@pytest.mark.parametrize("metric", ["ndcg@5", "map", "err", "auc", "meanndcg", "auc@3"])
def test_weights_of_queries_and_documents_are_those_of_evaluate(metric, rng):
    s, s2 = rng.standard_normal((2, 40))
    y, qid = rng.integers(0, 3, 40), np.arange(40) // 8
    y[::8], y[1::8] = 0, 2
    given_ = {"qid": qid, "metric": metric, "query_weight": rng.random(5)}
    if metric != "err":
        given_["sample_weight"] = rng.random(40)
    found = line_search(s, s2, y, **given_)
    weights = {name: given_[name] for name in given_ if name.endswith("weight")}
    for a in rng.random(20):
        expected = evaluate((1 - a) * s + a * s2, y, qid=qid, metrics=[metric], **weights)[metric]
        assert found.curve(a) == pytest.approx(expected, abs=1e-12)


def test_rows_come_in_any_order_and_as_ranking_data(rng):
    s, s2 = rng.standard_normal((2, 60))
    y, qid, shuffled = rng.integers(0, 3, 60), np.arange(60) // 6, rng.permutation(60)
    grouped = line_search(s, s2, y, qid=qid)
    mixed = line_search(s[shuffled], s2[shuffled], y[shuffled], qid=qid[shuffled])
    data = RankingData.from_arrays(np.zeros((60, 1)), y[shuffled], qid[shuffled])
    given_ = line_search(s[shuffled], s2[shuffled], data)
    for found in (mixed, given_):
        assert (found.alpha, found.plateau) == (grouped.alpha, grouped.plateau)
        assert found.value == pytest.approx(grouped.value, abs=1e-15)
        np.testing.assert_array_equal(found.curve.alpha, grouped.curve.alpha)


@pytest.mark.parametrize("metric", ["ndcg", "err", "auc@3"])
def test_the_same_bytes_for_any_number_of_threads(metric, rng):
    n = 3000 if metric == "auc@3" else 60_000
    s, s2 = rng.standard_normal((2, n))
    y, qid = rng.integers(0, 5, n), np.arange(n) // 150
    one, two = (line_search(s, s2, y, qid=qid, metric=metric, n_jobs=jobs) for jobs in (1, 2))
    assert (one.alpha, one.value) == (two.alpha, two.value)
    for name in ("alpha", "at", "between"):
        assert getattr(one.curve, name).tobytes() == getattr(two.curve, name).tobytes()
    assert (np.diff(one.curve.alpha) > 0).all()
    end = evaluate(s2, y, qid=qid, metrics=[metric])[metric]
    assert one.curve.at[-1] == pytest.approx(end, abs=1e-11)  # after millions of crossings


def test_long_lists_are_ranked_again_in_batches(rng, monkeypatch):
    monkeypatch.setattr("podium.metrics.reranking._BATCH", 64)
    s, s2 = rng.standard_normal((2, 25))
    y = rng.integers(0, 3, 25)
    found = line_search(s, s2, y, qid=np.zeros(25), metric="auc@7")
    for a in rng.random(30):
        expected = evaluate((1 - a) * s + a * s2, y, qid=np.zeros(25), metrics=["auc@7"])["auc@7"]
        assert found.curve(a) == pytest.approx(expected, abs=1e-9)


def test_the_line_can_end_early(rng):
    s, s2 = rng.standard_normal((2, 60))
    y, qid = rng.integers(0, 3, 60), np.arange(60) // 6
    whole, part = (line_search(s, s2, y, qid=qid, high=high) for high in (1.0, 0.3))
    inside = whole.curve.alpha < 0.3
    np.testing.assert_array_equal(part.curve.alpha[:-1], whole.curve.alpha[inside])
    assert part.curve.alpha[-1] == 0.3
    np.testing.assert_array_equal(part.curve(part.curve.alpha), whole.curve(part.curve.alpha))
    assert part.value == max(part.curve.at.max(), part.curve.between.max())


def test_scores_of_any_size_have_their_order_at_the_other_end():
    """Differences that vanish or round: the last order is still that of s2."""
    rng = np.random.default_rng(8)
    sizes = np.array([1e300, 1e-16, 1.0, 1e-300, 5e-324, 0.0, -1e300, -1.0])
    for _ in range(30):
        s, s2, y = rng.permutation(sizes), rng.permutation(sizes), rng.integers(0, 4, 8)
        found = line_search(s, s2, y, qid=np.zeros(8), metric="dcg")
        assert found.curve.at[-1] == pytest.approx(evaluate(s2, y, qid=np.zeros(8), metrics=["dcg"])["dcg"])
    nearly = 1.0 + np.arange(12) * 2.0**-52
    found = line_search(nearly, nearly[::-1], np.arange(12) % 3, qid=np.zeros(12), metric="dcg")
    at_end = evaluate(nearly[::-1], np.arange(12) % 3, qid=np.zeros(12), metrics=["dcg"])["dcg"]
    assert found.curve.at[-1] == pytest.approx(at_end)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s": [np.inf, 0, 0]}, r"s\[0\] is inf; a line needs numbers from -1e300 to 1e300"),
        ({"s2": [0, np.nan, 0]}, r"scores\[1\] is NaN"),
        ({"s2": [0, 1]}, r"scores has shape \(2,\)"),
        ({"high": 0.0}, "high must be above 0 and at most 1; got 0.0"),
        ({"high": 1.5}, "high must be above 0"),
        ({"qid": None}, "qid is missing"),
        ({"metric": "ndgc"}, "Did you mean 'ndcg'"),
        ({"metric": parse_metric("ndcg", POLICIES["trec"]), "policy": "letor4"}, "Evaluate one policy at a time"),
        ({"y": [0, 1.5, 1], "policy": "trec"}, "label 1.5 is not an integer"),
        ({"docids": ["a"]}, r"docids has shape \(1,\)"),
        ({"metric": "auc", "y": [1, 1, 1]}, "undefined for all queries"),
    ],
)
def test_what_has_no_answer_is_refused(change, message):
    arguments = {"s": [1, 0, 2], "s2": [0, 1, 2], "y": [0, 1, 1], "qid": [1, 1, 1]} | change
    with pytest.raises(ValueError, match=message):
        line_search(arguments.pop("s"), arguments.pop("s2"), arguments.pop("y"), **arguments)


def test_lists_too_long_for_memory_are_refused_with_their_size():
    n = LONGEST_LINE + 1
    with pytest.raises(ValueError, match="a list has 16,385 documents, so up to 134,225,920 pairs"):
        line_search(np.zeros(n), np.ones(n), np.zeros(n), qid=np.zeros(n))


def test_a_curve_answers_only_on_its_line():
    found = line_search([1, 0], [0, 1], [0, 1], qid=[1, 1], high=0.7)
    with pytest.raises(ValueError, match=r"alpha must be from 0 to 0\.7; got 0\.8"):
        found.curve(0.8)
    assert found.curve([0.1, 0.6]).shape == (2,)


def test_the_oracle_knows_where_lines_cross():
    alphas, ranks = exact_line([1, 0], [0, 2], [5, 5])
    assert alphas == [0, Fraction(1, 6), Fraction(1, 3), Fraction(2, 3), 1]
    assert ranks == [[1, 0], [1, 0], [0, 0], [0, 1], [0, 1]]
    assert podium.metrics.line_search is line_search
    assert replace(POLICIES["standard"], ties="best").ties == "best"


@pytest.mark.parametrize("n", [40, 4000])
def test_curves_are_drawn_step_by_step_or_as_a_band(n, rng, tmp_path):
    pytest.importorskip("matplotlib")
    s, s2 = rng.standard_normal((2, n))
    found = line_search(s, s2, rng.integers(0, 3, n), qid=np.arange(n) // 20, metric="map")
    assert (len(found.curve) > 2000) == (n == 4000)
    for name in ("one.svg", "two.svg"):
        podium.explain.draw_line_search(found, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    text = (tmp_path / "one.svg").read_text()
    assert f"alpha {found.alpha:.4g}: {found.value:.4f}" in text
    assert "map (standard)" in text
