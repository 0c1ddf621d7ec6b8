"""Each policy gives the numbers of the tool it is named after."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import dcg

from podium.evaluation.evaluating import evaluate
from podium.metrics import POLICIES, get_policy, parse_metric

SIZES = [6, 3, 5, 8, 1, 4]  # ties everywhere, one query with nothing relevant, one with a single document
LABELS = np.concatenate(
    [[0, 1, 2, 0, 3, 1], [0, 0, 0], [1, 0, 0, 2, 0], [0, 0, 1, 3, 0, 1, 0, 2], [2], [1, 1, 0, 0]], dtype=float
)
SCORES = np.concatenate(
    [
        [0.5, 0.2, 0.5, 0.9, 0.2, 0.1],
        [0.3, 0.3, 0.1],
        [0.7, 0.7, 0.7, 0.2, 0.9],
        [0.1, 0.2, 0.3, 0.3, 0.5, 0.5, 0.6, 0.2],
        [0.4],
        [0.9, 0.1, 0.9, 0.1],
    ]
)

# Made once with catboost 1.2.10: catboost.utils.eval_metric(LABELS, SCORES, name, group_id=...), the names being NDCG,
# NDCG:top=3, DCG:top=3, MAP, MAP:top=3, MRR, MRR:top=3, PrecisionAt:top=3, RecallAt:top=3.
CATBOOST = {
    "ndcg": 0.7012429527251496,
    "ndcg@3": 0.45030930014424797,
    "dcg@3": 0.6884882922619097,
    "map": 0.47519841269841273,
    "map@3": 0.24537037037037038,
    "rr": 0.40277777777777773,
    "rr@3": 0.3611111111111111,
    "p@3": 1 / 3,
    "recall@3": 0.5,
    # NDCG:type=Exp, NDCG:top=3;type=Exp, DCG:top=3;type=Exp
    "ndcg(gain=exponential)": 0.6783045704167163,
    "ndcg@3(gain=exponential)": 0.4332970171212902,
    "dcg@3(gain=exponential)": 0.9384882922619097,
}


def test_recorded_numbers_of_a_tool_that_is_not_installed():
    result = evaluate(SCORES, LABELS, group=SIZES, metrics=list(CATBOOST), policy="catboost")
    for name, value in CATBOOST.items():
        assert result[name] == pytest.approx(value, abs=1e-9), name


def xgboost_values(names, scores, labels, sizes, weights, **settings):
    """What XGBoost itself reports: no trees, and the scores as its margins."""
    import xgboost

    data = xgboost.DMatrix(np.zeros((len(labels), 1)), labels, group=sizes, base_margin=scores, weight=weights)
    found = {}
    for name in names:
        rules = {"objective": "rank:ndcg", "base_score": 0.0, "nthread": 1, "eval_metric": name, "verbosity": 0}
        shown = xgboost.Booster(rules | settings, [data]).eval_set([(data, "data")], 0)
        found[name] = float(shown.rsplit(":", 1)[1])
    return found


CUTS = ["", "@1", "@3", "@10", "@32", "@33", "@100"]


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), longest=st.sampled_from([3, 32, 33, 80]), gain=st.sampled_from([None, "linear"]))
@example(seed=1, longest=80, gain=None)
def test_xgboost_reports_the_same_numbers(seed, longest, gain):
    """Lists shorter and longer than its 32 places, ties, also as float32 only, empty queries, weights of queries."""
    draws = np.random.default_rng(seed)
    sizes = draws.integers(1, longest + 1, draws.integers(1, 8))
    n = int(sizes.sum())
    labels = draws.integers(0, 4, n) * (draws.random(n) < draws.choice([0.0, 0.05, 0.5]))
    scores = draws.integers(0, draws.choice([2, 9, 1000]), n) + draws.integers(0, 2, n) * 1e-12
    empty = np.add.reduceat(labels, np.cumsum(sizes) - sizes) == 0
    # XGBoost counts a query with nothing relevant as 1, whatever its weight; docs/metrics.md says so.
    weights = np.where(empty, 1.0, draws.integers(1, 5, len(sizes))) if seed % 2 else None
    ours = {"gain": gain, "group": sizes, "policy": "xgboost", "query_weight": weights}
    names = [f"ndcg{cut}{minus}" for cut in CUTS for minus in ("", "-")]
    theirs = xgboost_values(names, scores, labels, sizes, weights, ndcg_exp_gain=gain is None)
    found = evaluate(scores, labels, metrics=names, **ours)
    assert dict(found) == pytest.approx(theirs, abs=1e-6)
    binary = np.minimum(labels, 1)  # XGBoost wants these for map and pre
    names = [f"map{cut}{minus}" for cut in CUTS for minus in ("", "-")] + [f"pre{cut}" for cut in CUTS]
    theirs = xgboost_values(names, scores, binary, sizes, weights)
    found = evaluate(scores, binary, metrics=[name.replace("pre", "p") for name in names], **ours)
    assert list(found.values()) == pytest.approx(list(theirs.values()), abs=1e-6)


def test_what_xgboost_cuts_without_a_cutoff_is_reported():
    labels, scores = np.arange(40) % 2, -np.arange(40)
    result = evaluate(scores, labels, group=[40], metrics=["p", "ndcg", "map@40", "rr"], policy="xgboost")
    assert result.notes == tuple(
        f"{name}: the first 32 places count (policy 'xgboost' without a cutoff)." for name in ("p", "ndcg")
    )
    assert result["p"] == 16 / 32
    assert evaluate(scores, labels, group=[40], metrics=["p"])["p"] == 20 / 40
    assert parse_metric("ndcg", POLICIES["xgboost"]) == parse_metric("ndcg@32", POLICIES["xgboost"])
    assert parse_metric("recall", POLICIES["xgboost"]).cutoff is None


def random_run(rng, n_queries=40, longest=30, scores=8):
    lengths = rng.integers(1, longest, n_queries)
    n = int(lengths.sum())
    labels = rng.integers(0, 4, n) * (rng.random(n) < 0.4)
    labels[: lengths[0]] = 0
    return rng.integers(0, scores, n) / 7 + rng.integers(0, 2, n) * 1e-9, labels.astype(float), lengths


TREC_NAMES = {
    "ndcg": "ndcg",
    "map": "map",
    "rr": "recip_rank",
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in (5, 10, 100)},
    **{f"map@{k}": f"map_cut_{k}" for k in (5, 10, 100)},
    **{f"p@{k}": f"P_{k}" for k in (5, 10, 100)},
    **{f"recall@{k}": f"recall_{k}" for k in (5, 10, 100)},
}


def test_trec_equals_pytrec_eval_on_random_runs_with_ties(rng):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    for _ in range(10):
        scores, labels, lengths = random_run(rng)
        queries = np.repeat(np.arange(len(lengths)), lengths)
        docids = np.array([f"d{number}" for number in rng.permutation(len(labels))], dtype=object)
        qrels, run = {}, {}
        for query, name, label, score in zip(queries, docids, labels, scores):
            qrels.setdefault(str(query), {})[name] = int(label)
            run.setdefault(str(query), {})[name] = float(score)
        theirs = pytrec_eval.RelevanceEvaluator(
            qrels, {"ndcg", "map", "recip_rank", "ndcg_cut", "map_cut", "P", "recall"}
        ).evaluate(run)
        ours = evaluate(scores, labels, qid=queries, docids=docids, metrics=list(TREC_NAMES), policy="trec")
        for name, their_name in TREC_NAMES.items():
            expected = [theirs[str(query)][their_name] for query in ours.queries]
            np.testing.assert_allclose(ours.per_query[name], expected, atol=1e-12, err_msg=name)


def test_trec_compares_scores_in_single_precision():
    scores, labels = [1.0 + 1e-9, 1.0], [1, 0]  # equal as float32, so the larger document id comes first
    result = evaluate(scores, labels, qid=[1, 1], docids=["a", "b"], metrics=["rr"], policy="trec")
    assert result["rr"] == 1 / 2


def test_trec_without_document_ids_says_that_ties_fall_to_input_order():
    result = evaluate([1, 1], [1, 0], qid=[1, 1], metrics=["rr"], policy="trec")
    assert result["rr"] == 1
    assert "no document ids" in result.notes[0]


def test_trec_refuses_fractional_labels():
    with pytest.raises(ValueError, match=r"label 0\.5 is not an integer"):
        evaluate([1.5, 2], [0.5, 1], qid=[1, 1], policy="trec")


def test_sklearn_equals_ndcg_score_dcg_score_and_average_precision_score(rng):
    from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score

    scores, labels, lengths = random_run(rng)
    result = evaluate(
        scores, labels, group=lengths, metrics=["ndcg", "ndcg@5", "dcg@5", "map", "auc"], policy="sklearn"
    )
    ends = np.cumsum(lengths)
    for q, (start, end) in enumerate(zip(ends - lengths, ends)):
        truth, guess = labels[None, start:end], scores[None, start:end]
        if end - start > 1:
            assert result.per_query["ndcg"][q] == pytest.approx(ndcg_score(truth, guess))
            assert result.per_query["ndcg@5"][q] == pytest.approx(ndcg_score(truth, guess, k=5))
            assert result.per_query["dcg@5"][q] == pytest.approx(dcg_score(truth, guess, k=5))
        relevant = truth[0] >= 1
        if relevant.any():
            assert result.per_query["map"][q] == pytest.approx(average_precision_score(relevant, guess[0]))
    binary = (labels >= 1).astype(float)
    pooled = evaluate(scores, binary, group=lengths, metrics=["auc(pooled)"], policy="sklearn")
    assert pooled["auc(pooled)"] == pytest.approx(roc_auc_score(binary, scores))


@pytest.mark.parametrize("name", ["rr", "err", "map@3"])
def test_metrics_without_an_average_over_ties_are_refused_under_sklearn(name):
    with pytest.raises(ValueError, match="ties"):
        evaluate([1, 2], [0, 1], qid=[1, 1], metrics=[name], policy="sklearn")


def test_lightgbm_equals_its_own_ndcg_and_map(rng):
    lightgbm = pytest.importorskip("lightgbm")
    scores, labels, lengths = random_run(rng)
    weights = rng.random(len(labels))
    ours = evaluate(
        scores, labels, group=lengths, policy="lightgbm", metrics=["ndcg@1", "ndcg@3", "ndcg@10", "map@3", "map@10"]
    )
    # A model of one tree per distinct score would do; an initial score and a tree that cannot split is simpler.
    data = lightgbm.Dataset(
        np.zeros((len(labels), 1)), labels, group=lengths, init_score=scores, weight=weights * 0 + 1
    )
    record = {}
    lightgbm.train(
        {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": [1, 3, 10], "verbose": -1, "num_threads": 1},
        data,
        num_boost_round=1,
        valid_sets=[data],
        callbacks=[lightgbm.record_evaluation(record)],
    )
    for name in ours:
        assert ours[name] == pytest.approx(record["training"][name][0], abs=1e-9), name


def test_letor4_counts_short_lists_as_zero_and_keeps_the_order_of_equal_scores():
    result = evaluate(
        [1, 1, 1], [0, 1, 2], qid=[1, 1, 1], metrics=["ndcg@2", "ndcg@3", "ndcg@4", "p@4"], policy="letor4"
    )
    old = {"kind": "letor"}
    assert result["ndcg@2"] == pytest.approx(dcg([0, 1], **old) / dcg([2, 1], **old))
    assert result["ndcg@3"] == pytest.approx(dcg([0, 1, 2], **old) / dcg([2, 1, 0], **old))
    assert result["ndcg@4"] == 0
    assert result["p@4"] == 2 / 4


@pytest.mark.parametrize(
    ("policy", "order"),
    [("standard", [0, 1, 2]), ("catboost", [0, 1, 2]), ("ranklib", [1, 2, 0]), ("letor4", [1, 2, 0])],
)
def test_equal_scores_are_ordered_as_the_policy_says(policy, order):
    labels = [1, 2, 0]
    result = evaluate([5, 5, 5], labels, qid=[1, 1, 1], metrics=["ndcg"], policy=policy)
    assert result["ndcg"] == pytest.approx(parse_metric("ndcg", POLICIES[policy]).value(order))


@pytest.mark.parametrize(
    ("policy", "value"), [("standard", 0), ("letor4", 0), ("trec", 0), ("lightgbm", 1), ("xgboost", 1)]
)
def test_a_query_with_nothing_relevant_scores_what_the_policy_says(policy, value):
    result = evaluate([2, 1], [0, 0], qid=[1, 1], metrics=["ndcg@10", "map"], policy=policy)
    assert dict(result) == {"ndcg@10": value, "map": value}


def test_an_unknown_policy_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'lightgbm'"):
        get_policy("lightgmb")


def test_large_labels_are_refused_by_the_exponential_gain_and_the_way_out_is_named():
    with pytest.raises(ValueError, match=r'label 32 is too large .* Use gain="linear" or give label_gain'):
        evaluate([1, 2], [0, 32], qid=[1, 1], metrics=["dcg@1"])
    assert evaluate([1, 2], [0, 31], qid=[1, 1], metrics=["dcg@1"])["dcg@1"] == 2**31 - 1
    assert evaluate([1, 2], [0, 947], qid=[1, 1], metrics=["ndcg"], gain="linear")["ndcg"] == 1


def test_label_gain_is_a_table():
    result = evaluate([3, 2, 1], [2, 0, 1], qid=[1, 1, 1], metrics=["dcg"], label_gain=[0, 10, 11])
    assert result["dcg"] == pytest.approx(11 + 10 / 2)
    assert result.policy == "standard, own label_gain"


@pytest.mark.parametrize(
    ("table", "message"),
    [([0, 1], "label 2 has no gain; label_gain has 2 entries"), ([0, 2, 1], "falls"), ([0, 1, float("inf")], "finite")],
)
def test_a_bad_label_gain_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        evaluate([1, 2], [2, 1], qid=[1, 1], metrics=["ndcg"], label_gain=table)
