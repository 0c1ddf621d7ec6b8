"""Runs by the ranks of judged documents: the same values as whole lists, in which every document has its label."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.evaluation.evaluating import evaluate_run
from podium.formats.trec import Qrels, Run
from podium.metrics import POLICIES, RankedLists, parse_metric
from podium.metrics.additive import Precision
from podium.metrics.lists import UNJUDGED, UNLABELLED, Places
from podium.metrics.measures.prefixes import PrefixSums

NAMES = [
    "ndcg",
    "ndcg@2",
    "dcg@3",
    "ndcg(gain=exponential)@2",
    "meanndcg@3",
    "p",
    "p@2",
    "recall",
    "recall@3",
    "rbp(0.5)@2",
    "rbp",
    "map",
    "map@2",
    "rr",
    "rr@2",
    "err",
    "compat",
    "rprec",
    "rprec_mult(0.4)",
    "iprec(0.5)",
    "11pt_avg",
    "relative_p@2",
    "success@1",
    "bing",
    "bpref",
    "infap",
    "judged@2",
    "g",
    "g@3",
    "ndcg_rel",
    "ndcg_rel@2",
    "rndcg",
    "rndcg@2",
    "num_ret",
    "num_rel_ret",
    "num_nonrel_judged_ret",
    "set_f",
    "gm_map",
    "map(relevant=2)",
    "p(relevant=0)@3",
    "recall(relevant=0)",
    "map(relevant=0)",
    "rr(relevant=0)",
    "rr(relevant=3)@2",
]
RULES = {"as it is": {}, "a gain without a label": {"label_gain": (0.5, 1, 1, 7)}, "relevant from 2": {"relevant": 2.0}}


def ordered(retrieved, ties):
    """Documents by falling score as float32; equal ones by falling id, or as in the file."""
    rows = list(retrieved.items())
    if ties == "docid":
        rows.sort(key=lambda row: row[0].encode(), reverse=True)
    return [name for name, _ in sorted(rows, key=lambda row: -np.float32(row[1]))]


def code_of(name, known):
    if name not in known:
        return UNJUDGED
    return known[name] if known[name] >= 0 else UNLABELLED


def whole_lists(qrels, run, depth, ties):
    """Every retrieved document with its code, made by plain sorting."""
    ranked = [ordered(run[query], ties)[:depth] for query in qrels if query in run]
    labels = [inner for query, inner in qrels.items() if query in run]
    codes = np.array([code_of(name, known) for one, known in zip(ranked, labels) for name in one], float)
    pool = [[label for label in known.values() if label >= 0] for known in labels]
    return RankedLists(
        np.maximum(codes, 0.0),
        np.cumsum([0, *map(len, ranked)]),
        np.zeros(len(codes), bool),
        judged=np.array([label for one in pool for label in one], float),
        judged_offsets=np.cumsum([0, *map(len, pool)]),
        codes=codes,
    )


names = st.sampled_from([f"d{k}" for k in range(9)] + ["a-much-longer-name-1", "a-much-longer-name-2", "ä"])
scores = st.sampled_from([2.0, 1.0, 1.0 + 1e-12, 0.5, -3.0])  # the second and the third are equal as float32
documents = st.dictionaries(names, scores, min_size=1, max_size=9)
labels = st.dictionaries(names, st.sampled_from([-1, 0, 0, 1, 2, 3]), min_size=1, max_size=9)
queries = st.sampled_from(["1", "2", "3", "10"])


@pytest.mark.parametrize("rules", RULES)
@given(
    qrels=st.dictionaries(queries, labels, min_size=1),
    run=st.dictionaries(queries, documents, min_size=1),
    depth=st.sampled_from([None, 1, 3]),
    ties=st.sampled_from(["docid", "input"]),
)
@settings(max_examples=40, deadline=None)
def test_values_are_those_of_whole_lists(rules, qrels, run, depth, ties):
    if not qrels.keys() & run.keys():
        run = {**run, next(iter(qrels)): {"d0": 1.0}}
    policy = replace(POLICIES["trec"], ties=ties, name="test").vary(**RULES[rules])
    result = evaluate_run(Qrels.from_dict(qrels), Run.from_dict(run), metrics=NAMES, policy=policy, depth=depth)
    lists = whole_lists(qrels, run, depth, ties)
    for name in NAMES:
        metric = parse_metric(name, policy, runs=True).resolve(lists.largest_label)
        np.testing.assert_allclose(result.per_query[name], metric.values(lists), rtol=1e-12, atol=1e-12, err_msg=name)


def test_sums_end_at_the_cutoff():
    places = Places(np.array([0, 3, 4, 1], np.int32), np.ones(4), np.array([0, 3, 3, 4]))
    sums = PrefixSums.of_weighted(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.5, 0.0, 2.0, 3.0]), places)
    assert sums.down_to(None).tolist() == [1 + 2 * 2 + 3 * 3, 0, 4 * 0.5]
    assert sums.down_to(4).tolist() == [1 + 2 * 2, 0, 4 * 0.5]
    assert sums.down_to(1).tolist() == [1, 0, 0]


def test_a_metric_with_weights_of_its_own_takes_every_rank():
    class Halved(Precision):
        def place_weights(self, n):
            return np.full(n, 0.5)

    qrels, run = Qrels.from_dict({"q": {"a": 1, "b": 1}}), Run.from_dict({"q": {"a": 3, "x": 2, "b": 1}})
    assert evaluate_run(qrels, run, metrics=[Halved(3)]).per_query["p@3"].tolist() == [pytest.approx(1 / 3)]
