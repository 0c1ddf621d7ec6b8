"""Weights of a fusion: no grid finds better ones, values are those of `evaluate_run`, and folds are held out."""

import numpy as np
import pytest

import podium
from podium.formats.trec import Qrels, Run
from podium.runs import fuse, tune_fusion


def a_world(rng, n_queries=12, n_documents=30, n_runs=2, most_judged=1.0):
    labels = {
        f"q{q}": {f"d{d}": int(rng.integers(0, 3)) * int(rng.random() < 0.3) for d in range(n_documents)}
        for q in range(n_queries)
    }
    labels = {query: {"d0": 1, **inner} for query, inner in labels.items()}
    runs = {}
    for number in range(n_runs):
        runs[f"run{number}"] = Run.from_dict(
            {
                query: {id: (number + 1) * label + 2 * rng.standard_normal() for id, label in inner.items() if
                        rng.random() < 0.7}
                for query, inner in labels.items()
            }
        )  # fmt: skip
    return runs, Qrels.from_dict(labels)


def value_of(runs, qrels, weights, metric, **options):
    return podium.evaluate_run(qrels, fuse(runs, weights=weights, **options), metrics=metric)[metric]


@pytest.mark.parametrize("metric", ["ndcg@10", "map", "rr", "err@5", "p@5"])
@pytest.mark.parametrize("method", ["combsum", "borda", "rrf", "isr"])
def test_no_point_of_a_grid_is_better(method, metric, rng):
    runs, qrels = a_world(rng)
    tuned = tune_fusion(runs, qrels, method=method, metric=metric, depth=1000)
    grid = [value_of(runs, qrels, [1 - a, a], metric, method=method) for a in np.linspace(0, 1, 51)]
    assert tuned.value >= max(grid) - 1e-12
    assert sum(tuned.weights.values()) == pytest.approx(1)


def test_values_are_those_of_the_fused_run(rng):
    runs, qrels = a_world(rng, n_runs=3)
    tuned = tune_fusion(runs, qrels)
    assert tuned.value == value_of(runs, qrels, tuned.weights, "ndcg@10", method="combsum")
    assert tuned.equal == value_of(runs, qrels, [1, 1, 1], "ndcg@10", method="combsum")
    assert tuned.alone == {
        name: podium.evaluate_run(qrels, run, metrics="ndcg@10")["ndcg@10"] for name, run in runs.items()
    }
    assert tuned.value >= max(tuned.equal, *tuned.alone.values()) - 1e-12


def test_each_fold_is_fused_with_weights_of_the_other_queries(rng):
    runs, qrels = a_world(rng, n_queries=9)
    tuned = tune_fusion(runs, qrels, folds=3, random_state=4)
    numbers = np.random.default_rng(4).permutation(9) % 3
    total = 0.0
    for fold, weights in enumerate(tuned.folds):
        inside = [f"q{q}" for q in np.flatnonzero(numbers == fold)]
        others = Qrels.from_dict({query: inner for query, inner in qrels.to_dict().items() if query not in inside})
        assert weights == pytest.approx(dict(tune_fusion(runs, others, folds=2).weights))
        part = Qrels.from_dict({query: inner for query, inner in qrels.to_dict().items() if query in inside})
        total += len(inside) * value_of(runs, part, weights, "ndcg@10", method="combsum")
    assert tuned.cross_validated == pytest.approx(total / 9)


def test_a_run_that_knows_the_answer_gets_all_weight_that_matters(rng):
    runs, qrels = a_world(rng)
    runs["oracle"] = Run.from_dict(qrels.to_dict())
    assert tune_fusion(runs, qrels, metric="ndcg").value == pytest.approx(1.0)


def test_unjudged_queries_say_nothing(rng):
    runs, qrels = a_world(rng)
    half = Qrels.from_dict(dict(list(qrels.to_dict().items())[:6]))
    fewer = {
        name: Run.from_dict({query: run.to_dict()[query] for query in half.to_dict()}) for name, run in runs.items()
    }
    assert tune_fusion(runs, half).as_dict() == tune_fusion(fewer, half).as_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "combmax"}, r"weights are tuned for sums of points \(rrf, combsum, .*\); got combmax"),
        ({"metric": "inversions"}, "of which more is better; got inversions"),
        ({"folds": 1}, "folds must be an integer from 2 to 12, the number of judged queries; got 1"),
        ({"depth": 0}, "depth must be an integer from 1"),
        ({"random_state": -1}, "random_state must be an integer from 0; got -1"),
    ],
)
def test_what_cannot_be_is_refused(options, message, rng):
    runs, qrels = a_world(rng)
    with pytest.raises(ValueError, match=message):
        tune_fusion(runs, qrels, **options)


def test_judgements_that_match_nothing_are_refused(rng):
    runs, qrels = a_world(rng)
    with pytest.raises(ValueError, match="two judged queries or more; found 0 in the runs"):
        tune_fusion(runs, Qrels.from_dict({"x": {"d0": 1}, "y": {"d0": 1}}))
    nothing = Qrels.from_dict({query: dict.fromkeys(inner, 0) for query, inner in qrels.to_dict().items()})
    with pytest.raises(ValueError, match="no run has a document that counts for ndcg@10"):
        tune_fusion(runs, nothing)
