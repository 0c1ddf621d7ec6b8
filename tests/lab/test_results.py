"""Stored results: what is read back is what was written, in the order of the experiment."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import pytest

from podium.lab.results import Results, Run, Search, Trial, run_file, save_about, save_run, save_search, write_tables

ABOUT = {
    "name": "small",
    "models": {"trees/of: ours": {}, "trees_of- ours": {}},
    "folds": ["2", "1"],
    "metrics": ["ndcg@10"],
    "policies": ["letor4"],
}


def make_run(model: str, fold: str, seed: int, values: list[float | None]) -> Run:
    known = [value for value in values if value is not None]
    return Run(
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


def test_a_folder_without_an_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"found no experiment\.json"):
        Results.load(tmp_path)
