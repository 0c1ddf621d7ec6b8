"""Stored results: what is read back is what was written, in the order of the experiment."""

from __future__ import annotations

import copy
import csv
import functools
import itertools
import json
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_results import make_results

from podium.cli.lab_tables import print_outcome
from podium.lab.experiments.records import ModelRun, Search
from podium.lab.experiments.results import Results, run_file, save_about, save_run, save_search, write_tables
from podium.lab.experiments.running import Outcome
from podium.lab.report import write_report
from podium.lab.report.leaderboard import leaderboard, published_beside
from podium.lab.report.page import Html
from podium.lab.tuning.tuning import Trial

ABOUT = {
    "name": "small",
    "models": {"trees/of: ours": {}, "trees_of- ours": {}},
    "folds": ["2", "1"],
    "metrics": ["ndcg@10"],
    "policies": ["letor4"],
}


def make_run(model: str, fold: str, seed: int, values: list[float | None]) -> ModelRun:
    known = [value for value in values if value is not None]
    return ModelRun(
        model,
        fold,
        seed,
        {"max_leaf_nodes": 7},
        tuple(f"q{n}" for n in range(len(values))),
        {"letor4": {"ndcg@10": values}},
        {"letor4": {"ndcg@10": sum(known) / len(known)}},
    )


def read_table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_about(tmp_path, ABOUT)
    for model, fold, seed in itertools.product(ABOUT["models"], ("1", "2"), (0, 1)):
        values = [0.25 * seed, 0.5] if fold == "1" else [1.0, None, 0.5]
        save_run(tmp_path, make_run(model, fold, seed, values))
    save_search(tmp_path, Search("trees/of: ours", "1", "ndcg@10 (letor4)", (Trial({"a": 1}, 0.5, 3),), {"a": 1}))
    return tmp_path


def test_results_are_in_the_order_of_the_experiment(folder: Path) -> None:
    results = Results.load(folder)
    assert results.models == list(ABOUT["models"])
    assert [(run.fold, run.seed) for run in results.of("trees/of: ours")] == [("2", 0), ("2", 1), ("1", 0), ("1", 1)]
    assert results.searches[0].trials[0] == Trial({"a": 1}, 0.5, 3)


def test_means_are_over_seeds_and_then_over_folds(folder: Path) -> None:
    results = Results.load(folder)
    first, second = ((0.0 + 0.5) / 2 + (0.25 + 0.5) / 2) / 2, (1.0 + 0.5) / 2
    assert results.mean("trees/of: ours", "letor4", "ndcg@10") == (first + second) / 2
    per_query = results.per_query("trees/of: ours", "letor4", "ndcg@10")
    assert per_query["1", "q0"] == 0.125
    assert str(per_query["2", "q1"]) == "nan"


def test_tables_have_one_line_per_value(folder: Path) -> None:
    results = Results.load(folder)
    write_tables(folder, results)
    lines = read_table(folder / "results.csv")
    assert len(lines) == 2 * 2 * 2 == len(json.loads((folder / "results.json").read_text())["results"])
    assert float(lines[0]["value"]) == 0.75
    queries = read_table(folder / "queries.csv")
    assert len(queries) == 2 * (2 + 3)
    assert [line["value"] for line in queries if line["query"] == "q1"] == ["", "0.5", "", "0.5"]


def test_a_damaged_run_is_named(folder: Path) -> None:
    path = run_file(folder, "trees/of: ours", "1", 0)
    path.write_text('{"model": 1')
    with pytest.raises(ValueError, match=r"expected JSON .* Delete the file"):
        Results.load(folder)
    path.write_text('{"model": "a", "queries": [], "more": 3}')
    with pytest.raises(ValueError, match="not a run of this version"):
        Results.load(folder)


DAMAGED = {
    "null value": (("values", "letor4", "ndcg@10"), None, "values.letor4.ndcg@10: expected a number but found null"),
    "cut queries": (("queries",), ["q0"], "per_query.letor4.ndcg@10: expected one value per query, 1, but found 2"),
    "cut values": (("per_query", "letor4", "ndcg@10"), [0.5], "expected one value per query, 2, but found 1"),
    "query twice": (("queries",), ["q0", "q0"], "queries: expected each once but found one twice"),
    "other queries": (("queries",), ["q0", "q7"], "queries: expected those of the other runs of fold 1"),
    "other model": (("model",), "trees", "model: expected one of trees/of: ours, trees_of- ours but found 'trees'"),
    "another model": (("model",), "trees_of- ours", "expected the record that is called so, but found"),
    "other fold": (("fold",), "3", "fold: expected one of 2, 1 but found '3'"),
    "other seed": (("seed",), 1, "expected the record that is called so, but found that of trees"),
    "seed as text": (("seed",), "0", "not a run of this version (seed: expected a valid integer)"),
    "no metric": (("values", "letor4"), {}, "values.letor4: expected ndcg@10 but found none"),
    "metric more": (("values", "letor4", "map"), 0.5, "per_query: expected the policies and metrics of values"),
    "null settings": (("settings",), None, "not a run of this version (settings: expected an object)"),
    "null curve": (("curves",), {"valid": {"map": [None]}}, "(curves.valid.map.0: expected a valid number)"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_run_that_is_json_is_named_with_what_is_wrong(folder: Path, case: str) -> None:
    place, value, message = DAMAGED[case]
    path = run_file(folder, "trees/of: ours", "1", 0)
    damage(path, place, value)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        Results.load(folder)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith("Delete the file and run the experiment again.")


def damage(path: Path, place: tuple[Any, ...], value: Any) -> None:
    content = json.loads(path.read_text())
    functools.reduce(operator.getitem, place[:-1], content)[place[-1]] = value
    path.write_text(json.dumps(content))


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a plain one."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from [(*path, key), *places_in(inner, (*path, key))]


FEW: tuple[Any, ...] = (None, "x", [])
MANY = (*FEW, True, -1, 0.5, 10**30, math.inf, {}, [None], {"x": None})


def mutations(content: Any, values: tuple[Any, ...]) -> Iterator[Any]:
    """The content with each of its values replaced, removed, renamed, cut or doubled, one at a time."""
    for place in places_in(content):
        for value in values:
            yield _with(content, place, lambda holder, key, value=value: operator.setitem(holder, key, value))
        yield _with(content, place, operator.delitem)
        if isinstance(place[-1], str):
            yield _with(content, place, lambda holder, key: holder.update({f"{key}x": holder.pop(key)}))
        inner = functools.reduce(operator.getitem, place, content)
        if isinstance(inner, (list, str)) and inner:
            yield _with(content, place, lambda holder, key: operator.setitem(holder, key, holder[key][:-1]))
            yield _with(content, place, lambda holder, key: operator.setitem(holder, key, holder[key] + holder[key]))


def _with(content: Any, place: tuple[Any, ...], change: Callable[[Any, Any], Any]) -> Any:
    changed = copy.deepcopy(content)
    change(functools.reduce(operator.getitem, place[:-1], changed), place[-1])
    return changed


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", ["experiment.json", "runs/b.1.0.json", "searches/b.2.json"])
def test_any_damage_to_a_file_is_named_or_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, thorough: bool
) -> None:
    """Whatever stands at any place of a file: an error that names it, or as many runs as before and all tables."""
    monkeypatch.setattr("podium.lab.report.charts._drawn", lambda *given: Html(""))
    results = small_results()
    save_about(tmp_path, results.about)
    for run in results.runs:
        save_run(tmp_path, run)
    for search in results.searches:
        save_search(tmp_path, search)
    path = tmp_path / file
    content, refused, harmless = json.loads(path.read_text()), 0, 0
    for changed in mutations(content, MANY if thorough else FEW):
        path.write_text(json.dumps(changed))
        try:
            loaded = Results.load(tmp_path)
        except ValueError as error:
            assert str(error).startswith(f"{tmp_path}/"), changed  # noqa: PT017 (others must pass)
            refused += 1
            continue
        assert (len(loaded.runs), len(loaded.searches)) == (len(results.runs), len(results.searches))
        json.dumps([one.as_dict() for one in (*leaderboard(loaded), *published_beside(loaded))], allow_nan=False)
        if thorough:
            write_tables(tmp_path, loaded)
            print_outcome(Outcome(tmp_path, loaded, (), {}, 0))
            write_report(loaded, tmp_path / "report.html")
        harmless += 1
    assert refused
    assert harmless


def small_results() -> Results:
    """Two models, two folds, two seeds and three queries, with all that a run and a search can have."""
    results = make_results(["a", "b"], n_queries=3, n_features=2)
    table = results.about["published"][0] | {"values": {"map": [0.5, 0.5, 0.5]}, "metrics": ["map"]}
    about = results.about | {"metrics": ["ndcg@10", "map"], "policies": ["letor4"], "baseline": "a"}
    runs = tuple(_shortened(run) for run in results.runs)
    searches = tuple(replace(search, trials=search.trials[:2]) for search in results.searches)
    return Results(about | {"published": [table]}, runs, searches)


def _shortened(run: ModelRun) -> ModelRun:
    curves = {"valid": {"ndcg@10": [0.4, 0.5]}}
    own = {"letor4": {metric: run.per_query["letor4"][metric] for metric in ("ndcg@10", "map")}}
    values = {"letor4": {metric: run.values["letor4"][metric] for metric in ("ndcg@10", "map")}}
    return replace(run, per_query=own, values=values, curves=curves, validation_values=values, notes=["a warning"])


def test_a_folder_without_an_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"found no experiment\.json"):
        Results.load(tmp_path)
