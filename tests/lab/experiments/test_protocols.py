"""Protocols: a model whose settings change is a new row, and nothing that was measured is lost."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import podium
from podium.lab.experiments.experiment import Experiment
from podium.lab.experiments.protocols import digest_of, joined, rows_of
from podium.lab.experiments.results import Results
from podium.lab.experiments.running import Outcome, run
from podium.lab.report import write_report
from tests.lab.experiments.test_running import stamps, write_data

LINEAR: dict[str, Any] = {"kind": "linear", "max_iter": 5}
BOOSTED: dict[str, Any] = {"kind": "lambdasmart", "init": "@A", "n_estimators": 3, "max_leaf_nodes": 3}
PICK: dict[str, Any] = {"kind": "pick", "members": ["A", "B"]}


def made(models: dict[str, Any], **changes: Any) -> Experiment:
    return Experiment(name="small", data={"files": ["all.txt"]}, folds={"k": 3}, models=models, **changes)


def resolved(models: dict[str, Any], name: str) -> Any:
    """The settings of a model with those of all that it refers to in the place of their names."""
    spec = {key: value for key, value in models[name].items() if key != "about"}
    if spec["kind"] == "pick":
        return "pick", [resolved(models, member) for member in spec["members"]]
    inner = resolved(models, spec["init"][1:]) if "init" in spec else None
    return sorted((key, value) for key, value in spec.items() if key != "init"), inner


STEPS, WORDS, BASES = st.integers(5, 7), st.sampled_from("xy"), st.sampled_from("AB")
SPECS = st.one_of(
    st.builds(lambda steps, about: LINEAR | {"max_iter": steps, "about": about}, STEPS, WORDS),
    st.builds(lambda trees, base: BOOSTED | {"n_estimators": trees, "init": f"@{base}"}, st.integers(3, 4), BASES),
    st.just(PICK),
)


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    """A, B of linear models and up to four others, one of them with the name of a second version."""
    models = {name: draw(st.builds(lambda n: LINEAR | {"max_iter": n}, st.integers(5, 7))) for name in "AB"}
    others = draw(st.lists(st.sampled_from(["C", "D", "A (2)", "C (2)"]), unique=True))
    models |= {name: draw(SPECS) for name in others}
    return {name: models[name] for name in draw(st.permutations(list(models)))}


@given(st.lists(experiments(), min_size=2, max_size=5))
def test_a_row_has_the_same_settings_for_ever_and_other_settings_are_another_row(history: list[dict[str, Any]]) -> None:
    stored, seen = made(history[0]), {name: resolved(history[0], name) for name in history[0]}
    for models in history:
        experiment = made(models)
        rows = rows_of(experiment, stored)
        stored = joined(experiment, stored, rows)
        assert list(rows) == list(models)
        assert len(set(rows.values())) == len(rows)
        for name, row in rows.items():
            assert row == name or re.fullmatch(rf"{re.escape(name)} \(\d+\)", row)
            assert seen.setdefault(row, resolved(models, name)) == resolved(models, name)
        plain = stored.to_plain()["models"]
        flat = {row: {"kind": spec["kind"], **spec} for row, spec in plain.items()}
        assert {row: resolved(flat, row) for row in flat} == seen
    again = rows_of(made(history[-1]), stored)
    assert again == rows


def test_the_digest_is_of_all_that_can_change_a_number_and_of_nothing_else() -> None:
    models = {"A": LINEAR, "B": LINEAR | {"max_iter": 6}}
    digest = digest_of(made(models))
    assert digest_of(made({"B": models["B"], "A": models["A"] | {"about": "words"}}, title="words")) == digest
    others = [made(models, seeds=[1]), made(models, metrics=["map"]), made(models, budget={"trials": 3})]
    others += [made(models | {"B": LINEAR}), made({"A": LINEAR}), made(models, on="valid")]
    assert len({digest, *map(digest_of, others)}) == 7


def test_another_budget_and_other_seeds_make_new_rows_of_the_models_that_they_are_about() -> None:
    trees = {"kind": "lambdamart", "n_estimators": 3, "space": {"max_leaf_nodes": [3, 5]}}
    models = {"A": {"kind": "ranksvm", "C": 0.1}, "T": trees, "Own": trees | {"trials": 2, "seeds": [7]}}
    first = made(models, budget={"trials": 3})
    longer, seeded = made(models, budget={"trials": 4, "seconds": 60}), made(models, budget={"trials": 3}, seeds=[0, 1])
    rows = rows_of(longer, first)
    assert rows == {"A": "A", "T": "T (2)", "Own": "Own (2)"}  # Own has trials of its own, and now a limit of seconds
    both = joined(longer, first, rows)
    assert (both.budget, both.seeds) == (first.budget, first.seeds)
    assert [(both.models[name].trials, both.models[name].seconds) for name in ("T", "T (2)")] == [(None, None), (4, 60)]
    assert both.models["Own (2)"].trials == 2
    later = rows_of(seeded, both)
    assert later == {"A": "A", "T": "T (3)", "Own": "Own"}  # nothing in A is random
    all_three = joined(seeded, both, later)
    assert [all_three.seeds_of(row) for row in ("T", "T (2)", "T (3)", "Own")] == [(0,), (0,), (0, 1), (7,)]
    assert rows_of(first, all_three) == {name: name for name in models}
    assert (rows_of(longer, all_three), rows_of(seeded, all_three)) == (rows, later)
    with pytest.raises(ValueError, match=r"budget\.seconds is 60 in an earlier protocol of this folder and missing"):
        joined(first, longer, {name: name for name in models})


def test_a_longer_search_is_a_row_beside_the_shorter_one(folder: Path) -> None:
    trees = {"kind": "lambdamart", "n_estimators": 3, "space": {"max_leaf_nodes": [3, 4, 5]}}
    outcomes = [
        run(made({"T": trees}, budget={"trials": trials}), folder / "budgets", n_jobs=1, base=folder, folds=["1"])
        for trials in (1, 3)
    ]
    assert [outcome.rows["T"] for outcome in outcomes] == ["T", "T (2)"]
    assert {search.model: len(search.trials) for search in outcomes[1].results.searches} == {"T": 1, "T (2)": 3}
    assert len(outcomes[1].results.looks) == 2
    assert [one["rows"] for one in outcomes[1].results.about["protocols"]] == [["T"], ["T (2)"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("protocols")
    write_data(folder / "all.txt")
    return folder


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> list[tuple[Outcome, dict[str, Any]]]:
    """Four calls: an experiment, one with changed settings, one without a model, and the first one again."""
    before = {"A": LINEAR, "B": LINEAR | {"max_iter": 6}, "C": BOOSTED, "Best": PICK}
    after = before | {"A": LINEAR | {"max_iter": 7}}
    table = {"title": "made", "model": "A", "policy": "standard", "values": {"map": [0.5, 0.5, 0.5]}}
    rules: dict[str, Any] = {"metrics": ["map"], "published": [table]}
    plans = [(before, "A"), (after, "A"), ({"B": before["B"]}, "B"), (before, "A")]
    outcomes = []
    for models, baseline in plans:
        changes = rules | {"baseline": baseline} | ({} if "A" in models else {"published": []})
        outcome = run(made(models, **changes), folder / "out", n_jobs=1, base=folder)
        outcomes.append((outcome, stamps(folder / "out")))
    return outcomes


def test_a_changed_model_is_a_row_of_its_own_and_so_is_what_is_made_of_it(
    outcomes: list[tuple[Outcome, dict[str, Any]]],
) -> None:
    (first, _), (second, _), (third, _), (fourth, _) = outcomes
    assert first.rows == {"A": "A", "B": "B", "C": "C", "Best": "Best"}
    assert second.rows == {"A": "A (2)", "B": "B", "C": "C (2)", "Best": "Best (2)"}
    assert third.rows == {"B": "B"}
    assert fourth.rows == first.rows
    assert not any(outcome.failures for outcome, _ in outcomes)
    assert [outcome.done for outcome, _ in outcomes] == [3 * 4, 3 * 3, 0, 0]
    models = second.results.about["experiment"]["models"]
    assert (models["A"]["max_iter"], models["A (2)"]["max_iter"]) == (5, 7)
    assert (models["C"]["init"], models["C (2)"]["init"]) == ("@A", "@A (2)")
    assert models["Best (2)"]["members"] == ["A (2)", "B"]


def test_runs_and_looks_of_earlier_protocols_stay(outcomes: list[tuple[Outcome, dict[str, Any]]]) -> None:
    for (before, files_before), (after, files_after) in itertools.pairwise(outcomes):
        assert files_before.items() <= files_after.items()
        assert after.results.looks[: len(before.results.looks)] == before.results.looks
        assert set(before.results.models) <= set(after.results.models)
    about = outcomes[-1][0].results.about
    protocols = [(one["number"], one["rows"]) for one in about["protocols"]]
    assert protocols == [(1, ["A", "B", "C", "Best"]), (2, ["A (2)", "C (2)", "Best (2)"]), (3, [])]
    assert [table["model"] for table in about["published"]] == ["A", "A (2)"]
    assert about["baseline"] == "A"


def test_the_new_row_is_the_changed_model(outcomes: list[tuple[Outcome, dict[str, Any]]], folder: Path) -> None:
    data = podium.read_letor(folder / "all.txt")
    part = np.random.default_rng(0).permutation(np.arange(data.n_queries) % 3)
    train, test = data.subset(part == 2), data.subset(part == 0)  # of fold 1; part 1 is for validation
    for row, steps in (("A", 5), ("A (2)", 7)):
        stored = next(one for one in Results.load(folder / "out").of(row) if one.fold == "1")
        model = podium.Linear(max_iter=steps).fit(train)
        expected = podium.evaluate(model.predict(test), test, metrics=["map"])
        assert stored.per_query["standard"]["map"] == expected.per_query["map"].tolist()


def test_the_report_and_the_terminal_show_the_protocols(
    outcomes: list[tuple[Outcome, dict[str, Any]]], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from podium.cli.lab_tables import outcome_json, print_outcome

    outcome = outcomes[1][0]
    print_outcome(outcome)
    assert "A: its settings are not those of an earlier protocol; its row is A (2)." in capsys.readouterr().out
    assert json.loads(json.dumps(outcome_json(outcome)))["rows"]["C"] == "C (2)"
    write_report(Results.load(folder / "out"), folder / "report.html")
    page = (folder / "report.html").read_text("utf-8")
    assert "A (2), C (2), Best (2)" in page
    assert outcome.results.about["protocols"][1]["digest"] in page
