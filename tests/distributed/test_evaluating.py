"""Evaluation of scores in Dask collections: the numbers of `podium.evaluate` on computed arrays, to the last bit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitions import divided

import podium
from podium.metrics.policies import POLICIES

dask = pytest.importorskip("dask")
pytest.importorskip("dask.dataframe")

METRICS = ["ndcg@3", "ndcg", "map", "err@5", "rr", "p@5", "rbp", "auc", "bpref"]


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set({"scheduler": "sync", "dataframe.convert-string": False}):
        yield


def table(seed, n_queries=13, fractions=False):
    """Few different scores, so that many are equal; some queries have one label only."""
    draws = np.random.default_rng(seed)
    qid = np.repeat(draws.permutation(n_queries), draws.integers(1, 12, n_queries))
    n = len(qid)
    labels = draws.integers(0, 4, n) * (qid % 3 > 0)
    return pd.DataFrame(
        {
            "qid": qid,
            "label": labels / 2 if fractions else labels,
            "score": draws.integers(0, 6, n) / 4,
            "other": draws.standard_normal(n),
            "docid": [f"d{number}" for number in draws.permutation(n)],
            "weight": draws.uniform(0.5, 2, n),
        }
    )


def assert_same(found, expected):
    assert found.as_dict(per_query=True) == expected.as_dict(per_query=True)
    assert dict(found) == dict(expected) or any(np.isnan(value) for value in expected.values())
    assert found.queries.tolist() == expected.queries.tolist()
    assert found.queries.dtype == expected.queries.dtype
    for name, values in expected.per_query.items():
        np.testing.assert_array_equal(found.per_query[name], values)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=5).map(sorted),
    policy=st.sampled_from([*POLICIES]),
    order=st.sampled_from(["grouped", "mixed", "by number"]),
    names=st.sampled_from(["integers", "text"]),
    weights=st.sets(st.sampled_from(["docids", "sample_weight", "query_weight"])),
    bracket=st.booleans(),
    fractions=st.sampled_from([False, False, True]),
)
def test_the_numbers_are_those_of_evaluate(seed, cuts, policy, order, names, weights, bracket, fractions):
    frame = table(seed, fractions=fractions)
    frame = {"grouped": frame, "mixed": frame.sample(frac=1, random_state=seed), "by number": frame.sort_values("qid")}[
        order
    ]
    if names == "text":
        frame = frame.assign(qid="q" + frame["qid"].astype(str))
    collection = divided(frame, [min(cut, len(frame)) for cut in cuts])
    columns = {"docids": "docid", "sample_weight": "weight"}
    ours = {name: collection[columns[name]] for name in weights if name in columns}
    theirs = {name: frame[columns[name]].to_numpy() for name in weights if name in columns}
    both = {"query_weight": np.arange(1, 14)} if "query_weight" in weights else {}
    metrics = METRICS if policy != "sklearn" else ["ndcg@3", "map", "auc"]
    options = {"metrics": metrics, "policy": policy, "bracket": bracket}
    expected = outcome(podium.evaluate, frame["score"], frame["label"], qid=frame["qid"], **theirs, **both, **options)
    columns = [collection[name] for name in ("score", "label", "qid")]
    found = outcome(podium.distributed.evaluate, *columns, **ours, **both, **options)
    if isinstance(expected, str):
        assert found == expected
    else:
        assert_same(found, expected)


def outcome(function, *arguments, **options):
    """What it returns, or the words with which it refuses."""
    try:
        return function(*arguments, **options)
    except ValueError as error:
        return str(error)


def test_arrays_and_scores_of_predict(rng):
    frame = table(3)
    model = podium.Linear().fit(frame[["score", "other"]], frame["label"], qid=frame["qid"])
    collection = divided(frame, [5, 6, 30])
    scores = podium.distributed.predict(model, collection)
    expected = podium.evaluate(model.predict(frame[["score", "other"]]), frame["label"], qid=frame["qid"])
    assert_same(podium.distributed.evaluate(scores, collection["label"], collection["qid"]), expected)
    arrays = [collection[name].to_dask_array() for name in ("label", "qid")]
    assert_same(podium.distributed.evaluate(scores.to_dask_array(), *arrays), expected)


def test_the_largest_label_may_be_in_another_partition():
    """ERR and linear gains are relative to the largest label of all queries."""
    frame = pd.DataFrame({"qid": [1, 1, 2, 2], "label": [0, 1, 0, 4], "score": [2.0, 1.0, 2.0, 1.0]})
    expected = podium.evaluate(frame["score"], frame["label"], qid=frame["qid"], metrics=["err"])
    whole = divided(frame, [2])
    found = podium.distributed.evaluate(whole["score"], whole["label"], whole["qid"], metrics=["err"])
    assert found["err"] == expected["err"]
    # (2**1 - 1) / 2**4 / 2 at rank 2 of query 1, (2**4 - 1) / 2**4 / 2 of query 2
    assert found.per_query["err"].tolist() == [1 / 32, 15 / 32]


@pytest.mark.parametrize(
    "options", [{}, {"pairs": "all", "test": "t"}, {"baseline": "b", "policy": "trec", "level": 0.9}]
)
def test_compare_is_that_of_the_arrays(options):
    frame = table(5)
    collection, metrics = divided(frame, [5, 30, 31]), ["ndcg@3", "map"]
    systems = {"a": "score", "b": "other"}
    found = podium.distributed.compare(
        {name: collection[column] for name, column in systems.items()},
        collection["label"],
        collection["qid"],
        metrics=metrics,
        permutations=1000,
        resamples=1000,
        **options,
    )
    expected = podium.compare(
        {name: frame[column] for name, column in systems.items()},
        frame["label"],
        qid=frame["qid"],
        metrics=metrics,
        permutations=1000,
        resamples=1000,
        **options,
    )
    assert str(found.as_dict()) == str(expected.as_dict())


def test_collections_are_computed_once():
    frame, computed = table(1), []
    collection = divided(frame, [20])
    scores = collection["score"].map_partitions(lambda part: computed.append(len(part)) or part, meta=("score", float))
    podium.distributed.evaluate(scores, collection["label"], collection["qid"])
    assert sorted(computed) == sorted([20, len(frame) - 20])


def test_wrong_inputs_are_refused():
    frame = table(1)
    whole, evaluate = divided(frame, [20]), podium.distributed.evaluate
    with pytest.raises(TypeError, match=r"scores must be a Dask collection; got Series.*podium.evaluate"):
        evaluate(frame["score"], whole["label"], whole["qid"])
    with pytest.raises(TypeError, match="qid must be a Dask collection; got NoneType"):
        evaluate(whole["score"], whole["label"], None)
    with pytest.raises(ValueError, match=r"the same partitions; scores has 2, y has 3"):
        evaluate(whole["score"], divided(frame, [20, 21])["label"], whole["qid"])
    with pytest.raises(ValueError, match=r"the labels have \d+ rows; expected one score per row"):
        evaluate(whole["score"], divided(frame, [25])["label"], whole["qid"])
    with pytest.raises(ValueError, match="ndgc"):
        evaluate(whole["score"], whole["label"], whole["qid"], metrics="ndgc@10")
    with pytest.raises(ValueError, match=r"auc\(pooled\) is one value for all queries together"):
        evaluate(whole["score"], whole["label"], whole["qid"], metrics="auc(pooled)")
    with pytest.raises(ValueError, match="query_weight"):
        evaluate(whole["score"], whole["label"], whole["qid"], query_weight=[1.0])
    empty = divided(frame.iloc[:0], [0])
    with pytest.raises(ValueError, match="There are no rows to evaluate"):
        evaluate(empty["score"], empty["label"], empty["qid"])
    mixed = frame.assign(qid=[*map(str, frame["qid"][:20]), *frame["qid"][20:]])
    with pytest.raises(ValueError, match="qid must hold integers or text, not a mix"):
        evaluate(whole["score"], whole["label"], divided(mixed, [20])["qid"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'polcy'"):
        podium.distributed.compare(
            {"a": whole["score"], "b": whole["other"]}, whole["label"], whole["qid"], polcy="trec"
        )
