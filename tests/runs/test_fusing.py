"""Fusion: every method and normalization against plain loops, arithmetic that a reader can repeat, ranx, and laws."""

import warnings

import numpy as np
import oracles
import pytest

from podium.formats.trec import Run
from podium.runs import METHODS, NORMALIZATIONS, fuse, sums
from podium.runs.fusing import as_run
from podium.runs.joining import join_runs
from podium.runs.methods import parse_method, points_of
from podium.runs.points import PointsOfRuns

BY_SCORES = [name for name, method in METHODS.items() if method.uses_scores]
BY_RANKS = [name for name in METHODS if name not in BY_SCORES]


def some_runs(rng, n_runs=3, n_queries=4, grid=None, every=False):
    """Runs of documents that overlap, some with ties, queries in another order in each."""
    runs = []
    for number in range(n_runs):
        run = {}
        for query in rng.permutation(n_queries).tolist():
            if not every and number == 1 and query == 0:
                continue  # a run that lacks a query
            names = [f"d{k}" for k in range(12) if rng.random() < 0.7] or ["d0"]
            scores = rng.standard_normal(len(names)) + 3 if grid is None else rng.integers(1, grid, len(names))
            run[f"q{query}"] = dict(zip(names, map(float, scores)))
        runs.append(run)
    return runs


def fused(runs, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "of the .* of all runs")
        return fuse([Run.from_dict(run) for run in runs], **options)


def assert_same(run, expected):
    found = run.to_dict()
    assert found.keys() == expected.keys()
    for query in expected:
        assert found[query].keys() == expected[query].keys()
        assert found[query] == pytest.approx(expected[query], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("grid", [None, 4])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("method", BY_SCORES)
def test_methods_of_scores_are_those_of_plain_loops(method, normalization, grid, rng):
    runs = some_runs(rng, grid=grid)
    weights = [0.5, 2.0, 1.25] if METHODS[method].takes_weights else None
    result = fused(runs, method=method, normalization=normalization, weights=weights)
    assert_same(result, oracles.fuse_slowly(runs, method, normalization, weights))


@pytest.mark.parametrize("grid", [None, 4])
@pytest.mark.parametrize("method", BY_RANKS)
def test_methods_of_ranks_are_those_of_plain_loops(method, grid, rng):
    runs, weights = some_runs(rng, grid=grid), [0.5, 2.0, 1.25]
    assert_same(fused(runs, method=method, weights=weights), oracles.fuse_slowly(runs, method, weights=weights))


@pytest.mark.parametrize(
    ("text", "name", "value"), [("rrf(k=3)", "rrf", 3), ("rbc(0.5)", "rbc", 0.5), ("gmnz(gamma=2)", "combgmnz", 2)]
)
def test_a_method_can_have_a_parameter(text, name, value, rng):
    runs = some_runs(rng)
    assert_same(fused(runs, method=text), oracles.fuse_slowly(runs, name, value=value))
    assert str(parse_method(text)) == f"{name}({METHODS[name].parameter}={value})"


def test_reciprocal_ranks_by_hand():
    one, other = {"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"b": 30, "d": 20, "a": 10}}
    scores = {"b": 1 / 62 + 1 / 61, "a": 1 / 61 + 1 / 63, "d": 1 / 62, "c": 1 / 63}
    result = fused([one, other])
    assert list(result.docids) == ["b", "a", "d", "c"]  # best first
    assert result.scores.tolist() == pytest.approx(list(scores.values()), rel=1e-15)


def test_equal_scores_are_ranked_by_document_id_descending_before_and_after():
    result = fused([{"q": {"a": 1, "c": 1, "b": 1}}, {"q": {"x": 1}}], method="rrf")
    assert result.to_dict()["q"] == {"x": 1 / 61, "c": 1 / 61, "b": 1 / 62, "a": 1 / 63}
    assert list(result.docids) == ["x", "c", "b", "a"]


def test_a_fused_run_is_in_the_order_that_ranked_and_files_have(rng):
    runs = some_runs(rng, grid=3)
    result = fused(runs, method="combsum", normalization="none")
    assert result == result.ranked()
    assert fused(runs, method="combsum", normalization="none", top=4) == result.ranked(4)


def test_many_equal_scores_are_ordered_too(rng):
    names = [f"{k}" for k in rng.permutation(3000).tolist()]
    result = fused([{"q": dict.fromkeys(names, 1.0)}, {"q": {"0": 1.0}}], method="combmax")
    assert list(result.docids) == sorted(names, reverse=True)


def test_depth_reads_the_best_documents_of_each_run_only(rng):
    runs = some_runs(rng, grid=4)
    cut = [Run.from_dict(run).ranked(3).to_dict() for run in runs]
    assert fused(runs, depth=3, method="borda") == fused(cut, method="borda")


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_runs_queries_and_documents_is_immaterial(method, rng):
    runs = some_runs(rng, n_runs=4, grid=5)
    turned = [{query: dict(reversed(inner.items())) for query, inner in reversed(run.items())} for run in runs]
    assert_same(fused(turned[::-1], method=method), fused(runs, method=method).to_dict())


@pytest.mark.parametrize("method", METHODS)
def test_two_queries_together_equal_each_alone(method, rng):
    runs = some_runs(rng, every=True)
    whole = fused(runs, method=method).to_dict()
    for query in whole:
        assert fused([{query: run[query]} for run in runs], method=method).to_dict() == {query: whole[query]}


@pytest.mark.parametrize("method", METHODS)
def test_any_number_of_threads_gives_the_same_bits(method, rng):
    runs = [{f"q{q}": {f"d{k}": float(s) for k, s in enumerate(rng.random(500))} for q in range(150)} for _ in range(2)]
    assert fused(runs, method=method, n_jobs=1) == fused(runs, method=method, n_jobs=3)


def test_ids_that_begin_alike_or_are_no_ascii_stay_apart():
    names = ["", "a", "aa", "a" * 40, "a" * 40 + "b", "ä", "\ud7ff", "日本", "a\udcff"]
    run = {"q": {name: float(number) for number, name in enumerate(names)}}
    result = fused([run, run], method="combsum", normalization="none")
    assert result.to_dict() == {"q": {name: 2.0 * number for name, number in reversed(run["q"].items())}}


def test_a_query_that_a_run_lacks_is_fused_of_the_others_and_warned_of():
    one, other = Run.from_dict({"q": {"a": 1}, "r": {"b": 1}}), Run.from_dict({"q": {"a": 1}})
    with pytest.warns(UserWarning, match=r"of the 2 queries of all runs other lacks 1\. A run says nothing"):
        result = fuse({"one": one, "other": other})
    assert result.to_dict() == {"q": {"a": 2 / 61}, "r": {"b": 1 / 61}}


def test_runs_without_documents_are_fused():
    empty, one = Run.from_dict({"q": {}}), Run.from_dict({"q": {"a": 2.0}})
    for method in METHODS:
        assert len(fuse([empty, empty], method=method)) == 0
        assert list(fuse([empty, one], method=method).docids) == ["a"]


def test_large_scores_do_not_pass_for_missing_ones():
    run = Run.from_dict({"q": {"a": 1e308, "b": -1e308}})
    with pytest.raises(ValueError, match=r"document .[ab]. of query 'q' .* too large to add up. Use a method of ranks"):
        fuse([run, run], method="combsum")
    assert len(fuse([run, run], method="rrf")) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "rff"}, r"method must be one of rrf, .*; got 'rff'. Did you mean 'rrf'\?"),
        ({"method": "rrf(c=1)"}, r"parameter of rrf must be one of k; got 'c'"),
        ({"method": "rrf(k=-1)"}, r"k of rrf must be a number 0 or larger; got -1"),
        ({"method": "rrf(k=x)"}, r"expected a method such as 'rrf\(k=60\)'; got 'rrf\(k=x\)'"),
        ({"method": "isr(3)"}, r"method isr has no parameter"),
        ({"normalization": "z-score"}, r"method rrf uses ranks, which need no normalization. Leave 'z-score' out"),
        ({"method": "combsum", "normalization": "zs"}, r"normalization must be one of none, min-max, .*; got 'zs'"),
        ({"weights": [1]}, r"weights must be 2 finite numbers, one per run; got \[1\]"),
        ({"weights": [1, float("nan")]}, r"weights must be 2 finite numbers"),
        ({"weights": [0, 0]}, r"must not all be 0"),
        ({"weights": {"a": 1, "run 2": 1}}, r"weights must name the runs run 1, run 2; got a, run 2"),
        ({"method": "combmax", "weights": [1, 2]}, r"method combmax takes no weights"),
        ({"top": 0}, r"top must be an integer from 1, documents per query; got 0"),
        ({"depth": 1.5}, r"depth must be an integer from 1"),
        (
            {"method": "combsum", "normalization": "max"},
            r"best score above 0; that of query 'q' of run 2 is -1. Use min",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(options, message):
    runs = [Run.from_dict({"q": {"a": 1.0}}), Run.from_dict({"q": {"b": -1.0}})]
    with pytest.raises(ValueError, match=message):
        fuse(runs, **options)


def test_one_run_and_other_types_are_refused():
    run = Run.from_dict({"q": {"a": 1.0}})
    with pytest.raises(ValueError, match="fuse needs 2 runs or more; got 1"):
        fuse([run])
    with pytest.raises(TypeError, match="fuse needs several runs; got one"):
        fuse(run)
    with pytest.raises(TypeError, match=r"fuse: run 2 must be a podium.Run; got dict. Use podium.Run.from_dict"):
        fuse([run, {"q": {"a": 1.0}}])


# --- ranx

OF_RANX = {
    "rrf": ("rrf", {}),
    "combsum": ("sum", {}),
    "combmnz": ("mnz", {}),
    "combanz": ("anz", {}),
    "combmin": ("min", {}),
    "combmax": ("max", {}),
    "combmed": ("med", {}),
    "combgmnz(2)": ("gmnz", {"gamma": 2.0}),
    "borda": ("bordafuse", {}),
    "isr": ("isr", {}),
    "log-isr": ("log_isr", {}),
    "logn-isr(0.25)": ("logn_isr", {"sigma": 0.25}),
    "rbc(0.9)": ("rbc", {"phi": 0.9}),
}
WEIGHTED = {"combsum": "wsum", "wmnz": "wmnz", "mixed": "mixed", "borda": "w_bordafuse"}
NORMS = {"none": None, "z-score": "zmuv", **{name: name for name in ("min-max", "sum", "max", "rank", "borda")}}


def assert_ranx_agrees(runs, ours, method, norm, params):
    ranx = pytest.importorskip("ranx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = ranx.fuse([ranx.Run(run) for run in runs], norm=norm, method=method, params=params).to_dict()
    assert_same(ours, theirs)


@pytest.mark.parametrize("method", OF_RANX)
def test_methods_equal_those_of_ranx(method, rng):
    runs, (name, params) = some_runs(rng, every=True), OF_RANX[method]
    norm = "min-max" if points_of(parse_method(method), None) == points_of(METHODS["combsum"], None) else None
    assert_ranx_agrees(runs, fused(runs, method=method), name, norm, params)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_normalizations_equal_those_of_ranx(normalization, rng):
    runs = some_runs(rng, every=True)
    ours = fused(runs, method="combsum", normalization=normalization)
    assert_ranx_agrees(runs, ours, "sum", NORMS[normalization], {})


@pytest.mark.parametrize("method", WEIGHTED)
def test_weighted_methods_equal_those_of_ranx(method, rng):
    runs, weights = some_runs(rng, every=True), [0.25, 1.5, 0.75]
    norm = None if method == "borda" else "min-max"
    ours = fused(runs, method=method, weights=weights)
    assert_ranx_agrees(runs, ours, WEIGHTED[method], norm, {"weights": weights})


# --- sums in one pass


@pytest.mark.parametrize("top", [None, 3])
@pytest.mark.parametrize("grid", [None, 3])
@pytest.mark.parametrize("method", ["rrf", "combsum", "combmnz", "logn-isr"])
def test_sums_are_those_of_the_points_of_all_runs_in_the_same_order(method, grid, top, rng, monkeypatch):
    monkeypatch.setattr(sums, "_ROWS_OF_BLOCK", 20)  # several blocks
    runs = {str(k): Run.from_dict(run) for k, run in enumerate(some_runs(rng, n_queries=9, grid=grid))}
    runs["ranked"] = runs["0"].ranked()
    joined, chosen, weights = join_runs(runs, warns=False), parse_method(method), np.array([1.0, 0.5, 2.0, 0.25])
    points = points_of(chosen, None)
    expected = as_run(joined, PointsOfRuns(joined, chosen, points).fused(weights), top)
    for n_jobs in (1, 2):
        assert sums.sum_runs(joined, chosen, points, weights, top, n_jobs) == expected


def test_runs_in_order_need_no_sorting_for_their_ranks(rng):
    runs = {str(k): Run.from_dict(run) for k, run in enumerate(some_runs(rng))}
    ranked = {name: run.ranked() for name, run in runs.items()}
    assert not join_runs(runs, warns=False).is_ranked
    assert join_runs(ranked, warns=False).is_ranked
    tied = {**ranked, "tied": Run.from_dict({"q1": {"a": 1.0, "b": 1.0}})}
    assert not join_runs(tied, warns=False).is_ranked
    assert join_runs(ranked, warns=False).ranks.tolist() == [
        k for run in ranked.values() for n in np.diff(run.offsets) for k in range(n)
    ]


def test_no_runs_of_any_query_fuse_into_an_empty_one():
    assert len(fuse([Run.from_dict({}), Run.from_dict({})])) == 0
    assert fuse([Run.from_dict({"q": {}}), Run.from_dict({"q": {}})]).to_dict() == {"q": {}}
