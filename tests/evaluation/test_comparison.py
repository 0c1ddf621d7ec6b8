"""Comparisons: the numbers of a row, what is left out, the ways of writing them, and errors that say what to do."""

import dataclasses
import io
import json
import math
from html import escape

import numpy as np
import pytest
from rich.console import Console

from podium.data.ranking import RankingData
from podium.evaluation.comparing import compare, compare_evaluations, compare_values
from podium.evaluation.comparison import Comparison, Settings, _shown
from podium.evaluation.evaluating import evaluate
from podium.evaluation.intervals import INTERVALS, mean_interval
from podium.evaluation.significance import cohens_d, randomisation_test, t_test, wilcoxon_test
from podium.metrics.additive import NDCG

QUERIES = ["q1", "q2", "q3", "q4", "q5"]
A = np.array([0.1, 0.5, 0.3, 0.9, 0.2])
B = np.array([0.4, 0.4, 0.1 + 0.2, 1.0, 0.7])


def values_of(**systems: object) -> Comparison:
    return compare_values(systems, QUERIES, metric="ndcg@10", policy="standard")


@pytest.fixture
def many(rng: np.random.Generator) -> dict[str, np.ndarray]:
    base = rng.random(100)
    return {"a": base, "b": base + rng.normal(0.05, 0.1, 100), "c": base + rng.normal(0, 0.1, 100)}


def compared(many: dict[str, np.ndarray], *, policy: str = "standard", **options) -> Comparison:
    kept = {name: options.pop(name) for name in ("baseline", "pairs", "query_weight", "n_jobs") if name in options}
    settings = Settings(**({"permutations": 1_000, "resamples": 1_000} | options))  # few: fast uncompiled too
    return compare_values(many, np.arange(100), metric="ndcg@10", policy=policy, settings=settings, **kept)


# ------------------------------------------------------------------------------------------------ numbers


def test_a_row_by_hand() -> None:
    (row,) = values_of(a=A, b=B).rows
    differences = [0.3, -0.1, 0.0, 0.1, 0.5]
    assert (row.metric, row.baseline, row.system) == ("ndcg@10", "a", "b")
    assert row.baseline_mean == pytest.approx(2.0 / 5)
    assert row.system_mean == pytest.approx(2.8 / 5)
    assert row.difference == pytest.approx(0.8 / 5)
    assert (row.wins, row.losses, row.ties, row.queries, row.left_out) == (3, 1, 1, 5, 0)
    assert all(map(math.isnan, row.interval))  # four differences are not 0
    assert row.effect_size == pytest.approx(cohens_d(differences))
    # Signs of 0.3, 0.1, 0.1, 0.5 (the zero does not count) that sum to 0.8 or more: 1.0, 0.8, 0.8; twice by symmetry.
    assert row.p_values["randomisation"]["none"] == 2 * 3 / 16
    assert row.p_values["t"]["none"] == pytest.approx(t_test(differences))
    assert row.p_values["wilcoxon"]["none"] == pytest.approx(wilcoxon_test(differences))


def test_the_queries_that_moved_most_come_first() -> None:
    (row,) = values_of(a=A, b=B).rows
    assert [change.query for change in row.gained] == ["q5", "q1", "q4"]
    assert [change.query for change in row.lost] == ["q2"]
    assert (row.gained[0].baseline, row.gained[0].system, row.gained[0].difference) == (0.2, 0.7, 0.7 - 0.2)


def test_moved_bounds_the_list(many: dict[str, np.ndarray]) -> None:
    for moved in (0, 2, 1_000):
        row = compared(many, moved=moved).rows[0]
        assert len(row.gained) == min(moved, row.wins)
        assert len(row.lost) == min(moved, row.losses)


def test_lower_is_better_turns_wins_round() -> None:
    comparison = compare_values({"a": A, "b": B}, QUERIES, metric="inversions", policy="x", higher_is_better=False)
    (row,) = comparison.rows
    assert (row.wins, row.losses, row.difference) == (1, 3, pytest.approx(0.8 / 5))
    assert [change.query for change in row.gained] == ["q2"]


def test_the_first_system_is_the_baseline_unless_named(many: dict[str, np.ndarray]) -> None:
    assert [(row.baseline, row.system) for row in compared(many).rows] == [("a", "b"), ("a", "c")]
    named = compared(many, baseline="c")
    assert [(row.baseline, row.system) for row in named.rows] == [("c", "a"), ("c", "b")]
    assert named.baseline == "c"


def test_all_pairs(many: dict[str, np.ndarray]) -> None:
    comparison = compared(many, pairs="all")
    assert [(row.baseline, row.system) for row in comparison.rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert comparison.baseline is None


def test_corrections_count_the_comparisons(many: dict[str, np.ndarray]) -> None:
    rows = compared(many, pairs="all").rows
    for test in ("randomisation", "t", "wilcoxon"):
        raw = sorted(row.p_values[test]["none"] for row in rows)
        by_holm = sorted(row.p_values[test]["holm"] for row in rows)
        assert [row.p_values[test]["bonferroni"] for row in rows] == pytest.approx(
            [min(1, 3 * row.p_values[test]["none"]) for row in rows]
        )
        assert by_holm[0] == pytest.approx(min(1, 3 * raw[0]))
    assert [row.p for row in rows] == [row.p_values["randomisation"]["holm"] for row in rows]


def test_the_chosen_test_and_correction_decide_the_mark(many: dict[str, np.ndarray]) -> None:
    for test in ("randomisation", "t", "wilcoxon"):
        for correction in ("none", "holm", "bonferroni", "benjamini-hochberg"):
            for row in compared(many, test=test, correction=correction).rows:
                assert row.p == row.p_values[test][correction]
                assert row.mark == {0: "", 1: "*", 2: "**"}[(row.p < 0.05) + (row.p < 0.01)]


def test_threads_and_seed(many: dict[str, np.ndarray]) -> None:
    assert compared(many, n_jobs=2) == compared(many)
    assert compared(many, seed=1) != compared(many)


# ------------------------------------------------------------------------------------------------ weights, gaps


def test_weights_weigh_means_and_the_randomisation_test() -> None:
    weights = np.array([1.0, 2.0, 0.0, 4.0, 1.0])
    (row,) = compare_values({"a": A, "b": B}, QUERIES, metric="map", policy="x", query_weight=weights).rows
    differences = np.array([0.3, -0.1, 0.1, 0.5])
    kept = np.array([1.0, 2.0, 4.0, 1.0])
    assert row.weighted
    assert row.difference == pytest.approx((1 * 0.3 - 2 * 0.1 + 4 * 0.1 + 1 * 0.5) / 8)
    assert row.system_mean - row.baseline_mean == pytest.approx(row.difference)
    assert row.p_values["randomisation"]["none"] == randomisation_test(differences, kept)
    assert math.isnan(row.p_values["t"]["holm"])
    assert math.isnan(row.p_values["wilcoxon"]["none"])
    assert (row.weighted, row.queries, row.left_out) == (True, 4, 1)


def test_equal_weights_are_no_weights() -> None:
    weighted = compare_values({"a": A, "b": B}, QUERIES, metric="ndcg@10", policy="standard", query_weight=[2] * 5)
    (row,), (plain,) = weighted.rows, values_of(a=A, b=B).rows
    assert not row.weighted
    assert row.p_values == plain.p_values


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_tests_without_weights_refuse_them(test: str) -> None:
    settings = Settings(test=test)
    with pytest.raises(ValueError, match=f"the {test} test knows no query weights"):
        compare_values({"a": A, "b": B}, QUERIES, metric="map", policy="x", query_weight=range(5), settings=settings)


def test_undefined_queries_are_left_out_of_their_pair_only() -> None:
    gap = np.where(np.arange(5) == 1, np.nan, B)
    comparison = values_of(a=A, b=gap, c=B)
    with_gap, without = comparison.rows
    assert (with_gap.queries, with_gap.left_out, without.left_out) == (4, 1, 0)
    assert with_gap.baseline_mean == pytest.approx((0.1 + 0.3 + 0.9 + 0.2) / 4)
    assert comparison.means["ndcg@10"]["a"] == pytest.approx(2.0 / 5)
    assert comparison.means["ndcg@10"]["b"] == pytest.approx((0.4 + 0.3 + 1.0 + 0.7) / 4)
    assert "of 4 queries; 1 more are left out." in with_gap.explain()
    assert "left out (1 at most)" in str(comparison)


@pytest.mark.parametrize(("kept", "count"), [(1, "1 query has"), (0, "0 queries have")])
def test_too_few_queries_say_so(kept: int, count: str) -> None:
    comparison = values_of(a=A, b=np.where(np.arange(5) < kept, B, np.nan), c=B)
    row, other = comparison.rows
    assert math.isnan(row.p)
    assert row.mark == ""
    assert row.explain() == f"b and a cannot be compared by NDCG@10: {count} a value in both, 2 are needed."
    assert other.p_values["t"]["bonferroni"] == other.p_values["t"]["none"]  # the undefined one does not count
    assert json.loads(json.dumps(comparison.as_dict(), allow_nan=False))["comparisons"][0]["p"] is None
    assert comparison.to_latex()
    assert printed(comparison)


# ------------------------------------------------------------------------------------------------ writing


def printed(comparison: Comparison, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(comparison)
    output: str = console.file.getvalue()  # type: ignore[attr-defined]
    return output


def made(**changes) -> Comparison:
    """A comparison with chosen numbers."""
    comparison = values_of(a=A, b=B)
    row = dataclasses.replace(
        comparison.rows[0], difference=0.01234, interval=(0.004, 0.021), wins=61, losses=32, ties=7, queries=100
    )
    p = changes.pop("p", 0.003)
    settings = changes.pop("settings", row.settings)
    row = dataclasses.replace(row, p_values={settings.test: {settings.correction: p}}, settings=settings, **changes)
    return dataclasses.replace(comparison, rows=[row], settings=settings)


def explained(**changes) -> str:
    return made(**changes).rows[0].explain()


def test_a_found_difference_in_a_sentence() -> None:
    assert explained() == (
        "b beats a by 0.0123 NDCG@10 (95% interval 0.0040 to 0.0210), randomisation p = 0.003 after Holm; "
        "better on 61, worse on 32, equal on 7 of 100 queries."
    )


def test_a_loss_in_a_sentence() -> None:
    text = explained(difference=-0.01234, interval=(-0.021, -0.004), p=1e-6)
    assert text.startswith("b loses to a by 0.0123 NDCG@10 (95% interval 0.0040 to 0.0210), randomisation p < 0.0001")
    assert explained(higher_is_better=False).startswith("b loses to a by 0.0123")


def test_no_difference_found_in_a_sentence() -> None:
    assert explained(p=0.0512).startswith(
        "No difference found between a and b: NDCG@10 changes by +0.0123 (95% interval 0.0040 to 0.0210), "
        "randomisation p = 0.051 after Holm;"
    )
    same = values_of(a=A, b=A).rows[0]
    assert same.p == 1
    assert same.explain() == (
        "No difference found between a and b: NDCG@10 changes by +0.0000 (too few non-zero differences for an "
        "interval), randomisation p = 1 after Holm; better on 0, worse on 0, equal on 5 of 5 queries."
    )


def test_wilcoxon_may_find_a_difference_that_nobody_won() -> None:
    settings = Settings(test="wilcoxon", correction="none")
    assert explained(settings=settings).startswith("b beats a by 0.0123")
    assert explained(settings=settings, wins=30, losses=63).startswith(
        "A difference without a winner between a and b: NDCG@10 changes by +0.0123"
    )
    assert ", Wilcoxon p = 0.003; better" in explained(settings=settings)


def test_correction_and_level_are_named() -> None:
    settings = Settings(correction="benjamini-hochberg", level=0.9, test="t")
    assert "(90% interval 0.0040 to 0.0210), t p = 0.003 after Benjamini-Hochberg;" in explained(settings=settings)


def test_text_names_policy_means_and_every_row(many: dict[str, np.ndarray]) -> None:
    comparison = compared(many, policy="letor4")
    text = str(comparison)
    assert text.startswith("Policy letor4; randomisation test, p after Holm for 2 comparisons a metric")
    assert f"NDCG@10: a {many['a'].mean():.4f}, b {many['b'].mean():.4f}, c" in text
    for row in comparison.rows:
        assert row.explain() in text


@pytest.mark.parametrize(
    ("spelling", "shown"),
    [("ndcg@10", "NDCG@10"), ("rbp(0.8)@5", "RBP(0.8)@5"), ("recall@5", "recall@5"), ("nDCG@3", "nDCG@3")],
)
def test_short_names_of_metrics_are_acronyms(spelling: str, shown: str) -> None:
    assert _shown(spelling) == shown


def test_table_fits_a_terminal_and_keeps_brackets(many: dict[str, np.ndarray]) -> None:
    renamed = {"a": many["a"], "[red]b[/]": many["b"], "c": many["c"]}
    text = printed(compared(renamed), width=80)
    row = compared(renamed).rows[0]
    line = next(line for line in text.splitlines() if "[red]b[/]" in line)
    assert row.mark == "**"
    assert f"{row.difference:+.4f}**" in line
    assert f"{row.wins}/{row.losses}/{row.ties}" in line
    assert "Policy standard" in text
    assert "…" not in text


def test_table_of_all_pairs(many: dict[str, np.ndarray]) -> None:
    text = printed(compared(many, pairs="all", query_weight=np.arange(100)))
    assert all(pair in text for pair in ("b - a", "c - a", "c - b"))
    assert "queries are weighted" in text


def test_json_goes_round_unrounded(many: dict[str, np.ndarray]) -> None:
    comparison = compared(many)
    document = comparison.as_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["policy"] == "standard"
    assert document["metrics"]["ndcg@10"]["b"] == comparison.means["ndcg@10"]["b"]
    assert document["settings"]["permutations"] == 1_000
    for row, entry in zip(comparison.rows, document["comparisons"]):
        assert entry["difference"] == row.difference
        assert tuple(entry["interval"]) == row.interval
        assert entry["p"] == row.p == entry["p_values"]["randomisation"]["holm"]
        assert entry["gained"][0]["query"] == row.gained[0].query
        assert "settings" not in entry


@pytest.mark.parametrize("method", INTERVALS)
def test_the_interval_is_that_of_the_method_and_the_weights(many: dict[str, np.ndarray], method: str) -> None:
    weights = np.linspace(0.5, 2, 100)
    row = compared(many, interval=method, query_weight=weights).rows[0]
    differences = many["b"] - many["a"]
    assert row.interval == pytest.approx(mean_interval(differences, weights, method=method, resamples=1_000))
    with pytest.raises(ValueError, match="interval must be one of bounded, t, studentised, bca; got 'percentile'"):
        compared(many, interval="percentile")


def test_too_few_differences_are_named_wherever_an_interval_is_shown() -> None:
    """A system that moved 7 of 40 queries, beside one that moved all."""
    before, rng = np.linspace(0.1, 0.8, 40), np.random.default_rng(2)
    systems = {"a": before, "b": before + np.where(np.arange(40) < 7, 0.1, 0.0), "c": before + rng.normal(0, 0.1, 40)}
    comparison = compare_values(systems, np.arange(40), metric="ndcg@10", policy="standard")
    assert [math.isnan(row.interval[0]) for row in comparison.rows] == [True, False]
    assert "(too few non-zero differences for an interval), randomisation p" in comparison.rows[0].explain()
    assert "too few non-zero differences" in str(comparison)
    assert "nan" not in str(comparison) + printed(comparison) + comparison.to_latex()
    shown = " ".join(printed(comparison).split())
    assert "too few" in shown.split(" b ")[1][:40]
    assert "too few: too few non-zero differences for an interval" in shown
    assert "too few non-zero differences" in comparison.to_latex()
    first, second = comparison.as_dict()["comparisons"]
    assert (first["interval"], first["no_interval"]) == (None, "too few non-zero differences")
    assert (second["interval"], second["no_interval"]) == (list(comparison.rows[1].interval), None)


def test_infinite_effect_is_null_in_json() -> None:
    comparison = values_of(a=A, b=A + 0.1)
    assert comparison.rows[0].effect_size == math.inf
    assert comparison.as_dict()["comparisons"][0]["effect_size"] is None
    assert " inf " in printed(comparison)


def test_latex_escapes_and_marks() -> None:
    comparison = compare_values(
        {"50%_a": np.zeros(40), "[b] & \\c": np.ones(40) * 0.5, "*^~": np.zeros(40)},
        range(40),
        metric="p@10",
        policy="standard",
    )
    assert comparison.to_latex().splitlines()[1:] == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"System & P@10 \\",
        r"\midrule",
        r"50\%\_a & $0.0000$ \\",
        r"\midrule",
        r"{[}b] \& \textbackslash{}c & $0.5000^{**}$ \\",
        r"{*}\textasciicircum{}\textasciitilde{} & $0.0000$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_of_all_pairs_shows_differences() -> None:
    comparison = compare_values(
        {"a": np.zeros(40), "b": np.ones(40) * 0.5}, range(40), metric="map", policy="standard", pairs="all"
    )
    assert r"b $-$ a & $+0.5000^{**}$ \\" in comparison.to_latex()


# ------------------------------------------------------------------------------------------------ from scores


@pytest.fixture
def ranked(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    qid = np.repeat(np.arange(30), 8)
    y = rng.integers(0, 3, 240).astype(float)
    y[:8] = 1  # AUC of the first query is undefined
    return {"a": rng.normal(0, 1, 240), "b": y + rng.normal(0, 1, 240)}, y, qid


def test_compare_evaluates_each_system(ranked) -> None:
    systems, y, qid = ranked
    comparison = compare(systems, y, qid=qid, metrics=["ndcg@5", "auc", "inversions"], policy="trec", n_jobs=2)
    assert [row.metric for row in comparison.rows] == ["ndcg@5", "auc", "inversions"]
    assert comparison.policy == "trec"
    for name, scores in systems.items():
        means = evaluate(scores, y, qid=qid, metrics=["ndcg@5", "auc", "inversions"], policy="trec")
        assert {metric: comparison.means[metric][name] for metric in means} == pytest.approx(dict(means))
    assert [row.left_out for row in comparison.rows] == [0, 1, 0]
    assert [row.explain()[:9] for row in comparison.rows] == ["b beats a"] * 3
    assert "auc is undefined for 1 of 30 queries" in str(comparison)
    assert comparison.rows[0].gained[0].query in set(qid.tolist())


def test_compare_takes_one_metric_ranking_data_and_weights(ranked, rng: np.random.Generator) -> None:
    systems, y, qid = ranked
    weights = rng.random(30)
    data = RankingData.from_arrays(np.zeros((240, 1)), y, qid, query_weight=weights)
    plain = compare(systems, y, qid=qid, metrics="ndcg@5", query_weight=weights)
    assert compare(systems, data, metrics=NDCG(5)).as_dict() == plain.as_dict()
    assert plain.rows[0].weighted
    assert (
        plain.means["ndcg@5"]["b"]
        == evaluate(systems["b"], y, qid=qid, metrics="ndcg@5", query_weight=weights)["ndcg@5"]
    )


def test_evaluations_meet_by_query(ranked) -> None:
    systems, y, qid = ranked
    whole = {name: evaluate(scores, y, qid=qid, metrics=["map"]) for name, scores in systems.items()}
    some = np.flatnonzero(qid >= 3)[::-1]  # other queries, in another order
    part = evaluate(systems["b"][some], y[some], qid=qid[some], metrics=["map"])
    (row,) = compare_evaluations({"a": whole["a"], "b": part}).rows
    differences = (whole["b"].per_query["map"] - whole["a"].per_query["map"])[3:]
    assert row.difference == pytest.approx(differences.mean())
    assert (row.queries, row.left_out) == (27, 3)


def test_evaluations_that_do_not_compare_are_refused(ranked) -> None:
    systems, y, qid = ranked
    a = evaluate(systems["a"], y, qid=qid, metrics=["map"])
    with pytest.raises(ValueError, match=r"different policies \(a: standard, b: trec\)"):
        compare_evaluations({"a": a, "b": evaluate(systems["b"], y, qid=qid, metrics=["map"], policy="trec")})
    with pytest.raises(ValueError, match="different query weights"):
        compare_evaluations({"a": a, "b": evaluate(systems["b"], y, qid=qid, metrics="map", query_weight=range(30))})
    with pytest.raises(ValueError, match="system 'b' was not evaluated by 'map', only by ndcg@5"):
        compare_evaluations({"a": a, "b": evaluate(systems["b"], y, qid=qid, metrics="ndcg@5")})


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "wilcoxn"}, "test must be one of .*; got 'wilcoxn'. Did you mean 'wilcoxon'?"),
        ({"correction": "hom"}, "correction must be one of .* Did you mean 'holm'?"),
        ({"permutations": 999}, "permutations must be an integer, 1000 or larger; got 999"),
        ({"permutations": 1e5}, "permutations must be an integer"),
        ({"resamples": 10}, "resamples must be an integer, 1000 or larger"),
        ({"level": 95}, "level must be between 0 and 1, such as 0.95; got 95"),
        ({"moved": -1}, "moved must be"),
        ({"seed": -1}, "seed must be"),
        ({"pairs": "al"}, "pairs must be one of baseline, all; got 'al'. Did you mean 'all'?"),
        ({"baseline": "z"}, "baseline must be one of a, b; got 'z'"),
        ({"metrics": "auc(pooled)"}, "one value for all queries together"),
        ({"metrics": "ndgc@10"}, "Did you mean 'ndcg@10'?"),
    ],
)
def test_bad_options_are_reported(ranked, options: dict, message: str) -> None:
    systems, y, qid = ranked
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        compare(systems, y, qid=qid, **options)


def test_bad_systems_are_reported(ranked) -> None:
    systems, y, qid = ranked
    with pytest.raises(ValueError, match="two systems or more; got 'a'"):
        compare({"a": systems["a"]}, y, qid=qid)
    with pytest.raises(ValueError, match="two systems or more; got none"):
        compare({}, y, qid=qid)
    with pytest.raises(ValueError, match="mapping of names"):
        compare([systems["a"], systems["b"]], y, qid=qid)
    with pytest.raises(ValueError, match="names of systems must be text; got 1"):
        compare({"a": systems["a"], 1: systems["b"]}, y, qid=qid)
    with pytest.raises(ValueError, match=r"system 'b': scores has shape \(239,\)"):
        compare({"a": systems["a"], "b": systems["b"][1:]}, y, qid=qid)


def test_bad_values_are_reported() -> None:
    with pytest.raises(ValueError, match=r"system 'b' has values of shape \(4,\); expected one per query, 5 in all"):
        values_of(a=A, b=B[1:])
    with pytest.raises(ValueError, match="system 'b' has the value inf at query 2"):
        values_of(a=A, b=[1, 1, math.inf, 1, 1])


def test_a_notebook_shows_the_table_and_explains_its_rows():
    comparison = compare({"<a>": [1.0, 2.0, 3.0, 1.0], "b": [3.0, 1.0, 2.0, 5.0]}, [0, 1, 0, 1], qid=[1, 1, 2, 2])
    shown = comparison._repr_html_()
    assert "<a>" not in shown
    assert "&lt;a&gt;" in shown
    assert escape(comparison.rows[0].explain()) in shown
    assert repr(comparison) == "Comparison(<a>, b by ndcg@10; 2 queries)"


def test_an_interval_and_p_that_lead_to_other_conclusions_are_explained():
    (known,), ends = values_of(a=A, b=B).rows, {"apart": (0.01, 0.03), "across": (-0.01, 0.03)}
    for interval, p, before, words in (
        ("apart", 0.08, 0.04, "p = 0.04 before the correction"),
        ("apart", 0.08, 0.06, "different methods"),
        ("across", 0.02, 0.02, "has 0 in it"),
        ("apart", 0.02, 0.01, ""),
        ("across", 0.2, 0.1, ""),
    ):
        tests = {"randomisation": {"holm": p, "none": before}}
        row = dataclasses.replace(known, interval=ends[interval], p_values=tests)
        assert words in row.explain()
        assert bool(row.disagreement) == bool(words)
