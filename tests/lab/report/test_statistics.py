"""Statistics of results: groups, means with intervals, hard queries."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from made_results import make_results

from podium.cli.lab_tables import print_outcome
from podium.evaluation.significance import randomisation_test
from podium.lab.experiments.results import Results
from podium.lab.experiments.running import Outcome
from podium.lab.report import statistics, write_report
from podium.lab.report.leaderboard import leaderboard, published_beside
from podium.lab.report.training_sections import _front

NAMES = ["worst", "middle", "best"]


def test_models_share_a_letter_if_and_only_if_they_do_not_differ(rng: np.random.Generator) -> None:
    for n in range(1, 9):
        models = [f"m{k}" for k in range(n)]
        for share in (0.0, 0.2, 0.5, 0.9, 1.0):
            different = {pair for pair in combinations(models, 2) if rng.random() < share}
            found = statistics.letters(models, different)
            for one, other in combinations(models, 2):
                assert bool(set(found[one]) & set(found[other])) == ((one, other) not in different)
            assert found[models[0]].startswith("a")
            assert all(found.values())


def test_three_models_of_which_the_outer_two_differ() -> None:
    assert statistics.letters("abc", [("a", "c")]) == {"a": "a", "b": "ab", "c": "b"}


def test_many_letters_are_shown_as_ranges() -> None:
    shown = {
        "": "",
        "a": "a",
        "abc": "abc",
        "abcd": "a-d",
        "abcdefhij": "a-f hij",
        "acegik": "acegik",
        "bdefgz": "b d-g z",
    }
    assert {groups: statistics.shortened(groups) for groups in shown} == shown


@pytest.fixture(scope="module")
def uneven() -> Results:
    """Folds of different sizes: the second one has lost most of its queries."""
    made = make_results(NAMES, 2, 2, 40)
    return replace(made, runs=tuple(_shortened(run) if run.fold == "2" else run for run in made.runs))


def _shortened(run):
    per_query = {p: {m: column[:10] for m, column in own.items()} for p, own in run.per_query.items()}
    values = {
        p: {m: float(np.mean([v for v in column if v is not None])) for m, column in own.items()}
        for p, own in per_query.items()
    }
    return replace(run, queries=run.queries[:10], per_query=per_query, values=values)


@pytest.mark.parametrize("metric", ["ndcg@10", "map"])  # map has an undefined query
def test_weights_make_the_mean_over_queries_that_over_folds(uneven: Results, metric: str) -> None:
    board = statistics.rank_models(uneven, "letor4", metric)
    for row in board.rows:
        column, weights = board.values.columns[row.model], board.values.weights
        known = ~np.isnan(column)
        assert np.average(column[known], weights=weights[known]) == pytest.approx(row.mean)
        assert row.interval[0] < row.mean < row.interval[1]
    assert board.models == NAMES[::-1]
    assert board.leaders == ["best"]


def test_a_value_that_is_no_mean_over_queries_has_no_interval(uneven: Results) -> None:
    values = statistics.gather(uneven, "letor4", "ndcg@10")
    assert np.isnan(statistics.interval_of(values, "best", 0.123)).all()


def test_the_baseline_is_that_of_the_experiment_or_its_first_model(uneven: Results) -> None:
    board = statistics.rank_models(uneven, "letor4", "ndcg@10")
    assert statistics.choose_baseline(uneven, board) == "worst"
    named = replace(uneven, about=uneven.about | {"baseline": "middle"})
    assert statistics.choose_baseline(named, board) == "middle"
    against = statistics.against_baseline(board, "worst")
    assert against["best"].difference == pytest.approx(board.best.mean - board.rows[-1].mean)
    assert against["best"].p < 0.01


def test_hard_queries_are_those_with_the_lowest_mean_unless_no_model_differs(uneven: Results) -> None:
    board = statistics.rank_models(uneven, "letor4", "ndcg@10")
    for column in board.values.columns.values():
        column[3], column[5] = 0.0, np.nan
    found = statistics.hardness(board)
    assert not {3, 5} & {place for place, _ in found}
    means = np.mean([board.values.columns[name] for name in NAMES], axis=0)
    assert [mean for _, mean in found] == pytest.approx(sorted(np.delete(means, [3, 5])))


def test_the_front_has_what_nothing_beats_in_both() -> None:
    assert _front([1, 2, 3], [5, 4, 6]) == [0, 2]
    assert _front([3, 1, 1], [1, 1, 2]) == [2]


def test_the_leaderboard_of_the_terminal_has_the_order_and_the_differences_of_the_report(uneven: Results) -> None:
    policy, metric = uneven.about["policies"][0], uneven.about["metrics"][0]
    board = statistics.rank_models(uneven, policy, metric)
    baseline = board.models[-1]
    lines = leaderboard(replace(uneven, about=uneven.about | {"baseline": baseline}))
    assert [line.model for line in lines] == board.models
    for line in lines[:-1]:
        own = uneven.mean(line.model, policy, metric) - uneven.mean(baseline, policy, metric)
        row = line.against[metric]
        assert row.difference == pytest.approx(own, abs=1e-12)
        assert row.interval[0] <= row.difference <= row.interval[1]
        shown = statistics.against_baseline(board, baseline)[line.model]
        assert (row.difference, row.interval, row.p) == (shown.difference, shown.interval, shown.p)
    assert lines[-1].against == {}


def test_p_values_of_the_terminal_and_json_are_corrected_for_the_number_of_models(
    uneven: Results, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Holm over two: the smaller p twice, the larger one as it is."""
    results = replace(uneven, about=uneven.about | {"baseline": "worst"})
    rows = {line.model: line.against for line in leaderboard(results) if line.against}
    assert set(rows) == {"middle", "best"}
    for metric in ("ndcg@10", "map"):
        values = statistics.gather(results, "letor4", metric)
        raw = {model: randomisation_test(*values.differences("worst", model)) for model in rows}
        small, large = sorted(raw, key=raw.__getitem__)
        assert rows[small][metric].p == pytest.approx(2 * raw[small])
        assert rows[large][metric].p == pytest.approx(max(raw[large], 2 * raw[small]))
        line = next(line for line in leaderboard(results) if line.model == large)
        assert line.as_dict()["against_baseline"][metric]["p"] == rows[large][metric].p
    print_outcome(Outcome(tmp_path, results, (), {}, 0))
    shown = " ".join(capsys.readouterr().out.split())
    assert "p of the randomisation test, after Holm for 2 comparisons." in shown
    alone = replace(results, runs=tuple(run for run in results.runs if run.model == "worst"))
    assert leaderboard(alone)[0].against == {}


def test_the_mean_beside_a_published_one_has_the_interval_of_its_difference(
    uneven: Results, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A published mean has no queries: the ends are those of our mean, minus it."""
    board = statistics.rank_models(uneven, "letor4", "ndcg@10")
    (table,) = published_beside(uneven)
    low, high = next(row.interval for row in board.rows if row.model == table.model)
    assert table.intervals["ndcg@10"] == pytest.approx((low - 0.5, high - 0.5))
    assert table.as_dict()["metrics"]["ndcg@10"]["low"] == pytest.approx(low - 0.5)
    print_outcome(Outcome(tmp_path, uneven, (), {}, 0))
    assert f"{low - 0.5:+.4f} to {high - 0.5:+.4f}" in capsys.readouterr().out
    write_report(uneven, tmp_path / "report.html")
    assert f"{low - 0.5:+.4f} to {high - 0.5:+.4f}" in (tmp_path / "report.html").read_text("utf-8")
    half = replace(uneven, runs=tuple(run for run in uneven.runs if run.fold == "1"))
    assert np.isnan(published_beside(half)[0].intervals["ndcg@10"]).all()
    of_validation = [uneven.about["published"][0] | {"part": "valid"}]
    (table,) = published_beside(replace(uneven, about=uneven.about | {"published": of_validation}))
    assert np.isnan(table.intervals["ndcg@10"]).all()
    assert table.as_dict()["metrics"]["ndcg@10"]["high"] is None


def test_too_few_differences_are_named_in_the_terminal_the_report_and_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Three queries in each of two folds."""
    results = make_results(["a", "b"], n_queries=3)
    results = replace(results, about=results.about | {"baseline": "a"})
    line = next(line for line in leaderboard(results) if line.model == "b")
    assert line.as_dict()["against_baseline"]["map"]["no_interval"] == "too few non-zero differences"
    assert line.as_dict()["against_baseline"]["map"]["low"] is None
    print_outcome(Outcome(tmp_path, results, (), {}, 0))
    shown = " ".join(re.sub("[│┃]", " ", capsys.readouterr().out).split())
    assert "(too few non-zero" in shown
    assert "nan" not in shown
    write_report(results, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "(too few different values for an interval)" in page
    assert ">too few different values<" in page
    assert ">too few non-zero differences<" in page


def test_a_metric_that_is_better_when_lower_turns_the_leaderboard_round(uneven: Results) -> None:
    policy, metric = uneven.about["policies"][0], uneven.about["metrics"][0]
    named = {"metrics": ["inversions"], "policies": [policy]}
    runs = tuple(
        replace(
            run,
            values={policy: {"inversions": run.values[policy][metric]}},
            per_query={policy: {"inversions": run.per_query[policy][metric]}},
        )
        for run in uneven.runs
    )
    turned = replace(uneven, about=uneven.about | named, runs=runs)
    assert [line.model for line in leaderboard(turned)] == [line.model for line in leaderboard(uneven)][::-1]
