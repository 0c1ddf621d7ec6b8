"""Running: every task once, whatever happens in between; results that other parts of the lab can read."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import podium
from podium.cli.lab_tables import print_outcome
from podium.evaluation.intervals import LEAST_DIFFERING
from podium.lab.experiments.experiment import Experiment
from podium.lab.experiments.making import make
from podium.lab.experiments.results import Results, read_model_run, read_search, run_file, search_file
from podium.lab.experiments.running import run
from podium.lab.experiments.tasks import Session, Task
from podium.lab.experiments.workers import Workers, _variables_of_children
from podium.lab.report import write_report
from podium.lab.report.leaderboard import leaderboard, published_beside

PARTS = ("train", "valid", "test")
MODELS: dict[str, Any] = {
    "Linear": {"max_iter": 20, "seeds": [0], "transform": ["raw", "zscore"]},
    "Trees": {
        "kind": "lambdamart",
        "n_estimators": 12,
        "feature_fraction": 0.5,
        "space": {"max_leaf_nodes": [3, 5], "min_samples_leaf": [5, 10]},
    },
    "Mix": {"kind": "blend", "members": ["@Linear", "@Trees"], "refit": "train+valid"},
    "Best": {"kind": "pick", "members": ["Linear", "Trees"]},
    "Best, folded": {"kind": "pick", "members": ["Linear", "Trees"], "refit": "train+valid"},
}
TABLE = {"title": "made", "model": "Linear", "policy": "letor4", "values": {"map": [0.5, 0.5, 0.5]}}
OF_VALIDATION = TABLE | {"model": "Best", "part": "valid"}


def write_data(path: Path, n_queries: int = 24, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    X = rng.random((n_queries * 8, 4), dtype=np.float32)
    y = np.clip((2 * X[:, 0] + X[:, 1] + rng.normal(0, 0.4, len(X))).round(), 0, 2)
    podium.write_letor(podium.RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), 8)), path)


def experiment(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"name": "small", "data": {"files": ["all.txt"]}, "folds": {"k": 3}, "models": MODELS}
    given |= {"metrics": ["ndcg@5", "map"], "policies": ["standard", "letor4"], "criterion": "map+ndcg@5"}
    return (
        given
        | {"seeds": [0, 1], "budget": {"trials": 3}, "baseline": "Linear", "published": [TABLE, OF_VALIDATION]}
        | changes
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    write_data(folder / "all.txt")
    return folder


@pytest.fixture(scope="module")
def outcome(place: Path) -> Any:
    return run(experiment(), place / "out", n_jobs=2, base=place)


def stamps(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = sorted([*folder.glob("runs/*.json"), *folder.glob("searches/*.json")])
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def without_times(run: Any) -> dict[str, Any]:
    return {key: value for key, value in run.__dict__.items() if "seconds" not in key and key != "peak_memory"}


def test_every_model_fold_and_seed_is_run_and_stored(outcome: Any, place: Path) -> None:
    results = Results.load(place / "out")
    assert outcome.failures == ()
    assert results.models == list(MODELS)
    counts = {name: len(results.of(name)) for name in results.models}
    assert counts == {"Linear": 3, "Trees": 3 * 2, "Mix": 3 * 2, "Best": 3 * 2, "Best, folded": 3 * 2}
    assert {search.fold for search in results.searches} == {"1", "2", "3"}
    assert all(len(search.trials) == 3 for search in results.searches)
    assert sorted(path.name for path in (place / "out").iterdir()) == [
        "experiment.json",
        "looks.jsonl",
        "queries.csv",
        "results.csv",
        "results.json",
        "run.lock",
        "runs",
        "searches",
    ]
    about = results.about
    assert about["data"]["files"]["all.txt"]["bytes"] == (place / "all.txt").stat().st_size
    assert {"podium", "python", "numpy"} <= about["versions"].keys()
    assert about["hardware"]["cores"] >= 1


def test_a_run_is_what_training_by_hand_gives(outcome: Any, place: Path) -> None:
    """The stored values of the tuned trees, from the data file to MAP per query, without the code of the lab's runs."""
    results = Results.load(place / "out")
    stored = next(run for run in results.of("Trees") if (run.fold, run.seed) == ("2", 1))
    search = next(search for search in results.searches if search.fold == "2")
    data = podium.read_letor(place / "all.txt")
    part = np.random.default_rng(0).permutation(np.arange(data.n_queries) % 3)
    train, valid, test = data.subset(part == 0), data.subset(part == 2), data.subset(part == 1)
    model = podium.LambdaMART(feature_fraction=0.5, random_state=1, **search.chosen).fit(train)
    found = podium.evaluate(model.predict(test), test, metrics=["map"], policy="letor4")
    assert stored.values["letor4"]["map"] == found["map"]
    assert stored.per_query["letor4"]["map"] == found.per_query["map"].tolist()
    assert list(stored.queries) == [str(query) for query in test.query_ids]
    judged = podium.evaluate(model.predict(valid), valid, metrics=["map", "ndcg@5"])
    assert stored.validation == judged["map"] + judged["ndcg@5"]
    assert stored.settings["n_estimators"] == search.chosen["n_estimators"] == len(stored.curves["valid"]["ndcg@5"])
    shares = {f"feature {n}": share for n, share in enumerate(model.feature_importances_, 1)}
    assert stored.importances == pytest.approx(shares)
    assert stored.model_bytes > 1000
    assert stored.peak_memory > 10**7
    assert stored.fit_seconds > 0


def test_what_was_chosen_never_depends_on_labels_of_the_test_part(outcome: Any, place: Path, tmp_path: Path) -> None:
    """With the test labels of fold 1 turned around, searches and validation values of that fold stay the same."""
    data = podium.read_letor(place / "all.txt")
    part = np.random.default_rng(0).permutation(np.arange(data.n_queries) % 3)
    y = np.where(part[data.query_numbers] == 0, 2 - data.labels_for("test"), data.labels_for("test"))
    podium.write_letor(podium.RankingData.from_arrays(data.X, y, data.qid), tmp_path / "all.txt")
    other = run(experiment(), tmp_path / "out", n_jobs=1, base=tmp_path, folds=["1"], models=["Trees", "Linear"])
    before, after = Results.load(place / "out"), other.results
    chosen = [[search.chosen for search in found.searches if search.fold == "1"] for found in (before, after)]
    assert chosen[0] == chosen[1]
    for name in ("Trees", "Linear"):
        first, second = ([one for one in found.of(name) if one.fold == "1"] for found in (before, after))
        assert [one.validation for one in first] == [one.validation for one in second]
        assert first[0].values != second[0].values


def test_validation_data_is_folded_in_with_the_steps_that_were_chosen(outcome: Any, place: Path) -> None:
    found = Results.load(place / "out")
    stored = next(run for run in found.of("Mix") if (run.fold, run.seed) == ("1", 0))
    chosen = {"Trees": next(search.chosen for search in found.searches if search.fold == "1")}
    data = podium.read_letor(place / "all.txt")
    part = np.random.default_rng(0).permutation(np.arange(data.n_queries) % 3)
    train = podium.RankingData.concat([data.subset(part == 2), data.subset(part == 1)])
    model = make(podium.lab.Experiment(**experiment()), "Mix", "1", chosen, seed=0).fit(train)
    test = data.subset(part == 0)
    expected = podium.evaluate(model.predict(test), test, metrics=["map"], policy="standard")
    assert stored.values["standard"]["map"] == expected["map"]
    picked = next(run for run in found.of("Best, folded") if (run.fold, run.seed) == ("1", 0))
    best = make(podium.lab.Experiment(**experiment()), picked.settings["picked"], "1", chosen, seed=0).fit(train)
    expected = podium.evaluate(best.predict(test), test, metrics=["map"], policy="standard")
    assert picked.values["standard"]["map"] == expected["map"]


def test_the_pick_is_the_best_on_validation_data_in_each_fold(outcome: Any) -> None:
    results = outcome.results
    for one in results.of("Best"):
        means = {
            name: np.mean([other.validation for other in results.of(name) if other.fold == one.fold])
            for name in ("Linear", "Trees")
        }
        best = max(means, key=means.__getitem__)
        assert one.settings["picked"] == best
        same = [other for other in results.of(best) if other.fold == one.fold and other.seed in (one.seed, 0)][-1]
        assert one.per_query == same.per_query


def test_a_second_call_repeats_nothing_and_other_data_or_rules_are_refused(outcome: Any, place: Path) -> None:
    before = stamps(place / "out")
    again = run(experiment(), place / "out", n_jobs=2, base=place)
    assert again.done == 0
    assert stamps(place / "out") == before
    with pytest.raises(ValueError, match=r"another experiment: folds\.seed is 0 there and 1 here"):
        run(experiment(folds={"k": 3, "seed": 1}), place / "out", base=place)
    with pytest.raises(ValueError, match=r'another experiment: criterion is "map\+ndcg@5" there and "" here'):
        run(experiment(criterion=""), place / "out", base=place)
    other = place / "other"
    other.mkdir(exist_ok=True)
    write_data(other / "all.txt", seed=1)
    with pytest.raises(ValueError, match=r"data\.files\.all\.txt\.\w+ is .* there and .* here"):
        run(experiment(), place / "out", base=other)
    with pytest.raises(ValueError, match="holds other files"):
        run(experiment(), other, base=place)
    assert stamps(place / "out") == before


def test_every_judgement_of_a_test_part_is_counted_also_of_runs_that_were_deleted(place: Path, tmp_path: Path) -> None:
    given = experiment(
        models=LINEARS | {"Best": {"kind": "pick", "members": list(LINEARS)}}, baseline=None, published=[]
    )
    first = run(given | {"seeds": [0]}, tmp_path / "out", n_jobs=2, base=place, folds=["1", "2"])
    trained = [one for one in first.results.runs if one.model != "Best"]  # a pick copies what its member was judged by
    assert len(first.results.looks) == len(trained) > 0
    assert {(look.model, look.fold, look.seed) for look in first.results.looks} == {
        (one.model, one.fold, one.seed) for one in trained
    }
    run_file(tmp_path / "out", "Linear 1", "2", 0).unlink()
    again = run(given | {"seeds": [0]}, tmp_path / "out", n_jobs=1, base=place, folds=["1", "2"])
    assert len(again.results.looks) == len(trained) + 1
    assert again.results.looks[-1].model == "Linear 1"
    assert json.loads((tmp_path / "out" / "results.json").read_text())["looks"] == len(trained) + 1
    file = tmp_path / "out" / "looks.jsonl"
    file.write_bytes(file.read_bytes() + b"{}\n")
    with pytest.raises(ValueError, match=rf"looks\.jsonl, line {len(trained) + 2}: expected a look"):
        Results.load(tmp_path / "out")


def test_runs_without_a_look_are_counted_and_named(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = experiment(
        models=LINEARS | {"Best": {"kind": "pick", "members": list(LINEARS)}}, baseline=None, published=[]
    )
    whole = run(given | {"seeds": [0]}, tmp_path / "out", n_jobs=1, base=place, folds=["1"])
    assert whole.results.unrecorded == 0
    file = tmp_path / "out" / "looks.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[1:]))
    assert Results.load(tmp_path / "out").unrecorded == 1
    file.unlink()
    results = Results.load(tmp_path / "out")
    assert results.unrecorded == len(LINEARS)  # the pick has the values of one of them
    print_outcome(replace(whole, results=results))
    named = f"{len(LINEARS)} runs were judged without a line in looks.jsonl: there were more looks than are counted."
    assert named in capsys.readouterr().out
    write_report(results, tmp_path / "report.html")
    assert named in (tmp_path / "report.html").read_text("utf-8")


def test_a_look_that_the_disk_does_not_take_is_an_error_and_leaves_no_half_line(tmp_path: Path) -> None:
    """The largest size of a file ends in the middle of the second line."""
    program = (
        "import resource, pathlib\n"
        "from podium.lab.experiments.looks import read_looks, record_look\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "record_look(folder, 'A', '1', 0)\n"
        "size = (folder / 'looks.jsonl').stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    record_look(folder, 'B', '1', 0)\n"
        "except OSError as error:\n"
        "    print(error)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "record_look(folder, 'C', '1', 0)\n"
        "print([look.model for look in read_looks(folder)])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "the look was not recorded" in ended.stdout
    assert ended.stdout.endswith("['A', 'C']\n")


def test_on_validation_parts_nothing_is_counted(place: Path, tmp_path: Path) -> None:
    given = experiment(models=LINEARS, baseline=None, published=[], on="valid")
    found = run(given, tmp_path / "out", n_jobs=1, base=place, folds=["2"])
    assert found.results.runs
    assert found.results.looks == ()


def test_the_leaderboard_has_means_and_paired_intervals(outcome: Any) -> None:
    results = outcome.results
    lines = leaderboard(results)
    firsts = [line.values["standard"]["ndcg@5"] for line in lines]
    assert firsts == sorted(firsts, reverse=True)
    trees = next(line for line in lines if line.model == "Trees")
    assert trees.values["letor4"]["map"] == results.mean("Trees", "letor4", "map")
    own, other = (results.mean(name, "standard", "map") for name in ("Trees", "Linear"))
    mean, (low, high) = trees.against["map"].difference, trees.against["map"].interval
    assert mean == pytest.approx(own - other)
    values = [results.per_query(name, "standard", "map") for name in ("Trees", "Linear")]
    n_different = sum(values[0][query] != values[1][query] for query in values[0])
    assert n_different > 0
    if n_different < LEAST_DIFFERING:
        assert math.isnan(low)
        assert math.isnan(high)
    else:
        assert low < mean < high
    assert next(line for line in lines if line.model == "Linear").against == {}
    table, of_validation = published_beside(results)
    per_fold = [one.values["letor4"]["map"] for one in results.of("Linear")]
    assert table.rows["map"] == list(zip([0.5] * 3, per_fold))
    assert table.means["map"] == (0.5, np.mean(per_fold))
    picked = [results.fold_mean("Best", fold, "letor4", "map", "valid") for fold in "123"]
    first = [one.validation_values["letor4"]["map"] for one in results.of("Best") if one.fold == "1"]
    assert picked[0] == pytest.approx(sum(first) / len(first))
    assert [ours for _, ours in of_validation.rows["map"]] == pytest.approx(picked)
    assert picked != pytest.approx([results.fold_mean("Best", fold, "letor4", "map") for fold in "123"])
    json.dumps([line.as_dict() for line in lines] + [table.as_dict(), of_validation.as_dict()], allow_nan=False)


def test_values_of_the_validation_part_are_those_of_the_model_without_it(outcome: Any, place: Path) -> None:
    results = Results.load(place / "out")
    for one in results.of("Linear"):
        shown = one.validation_values["standard"]
        assert shown["map"] + shown["ndcg@5"] == pytest.approx(one.validation)
    for folded, picked in zip(results.of("Best, folded"), results.of("Best")):
        assert folded.validation_values == picked.validation_values
    assert all(one.validation_values == {} for one in results.of("Mix")), "it never saw that part apart"


SLOW = """
import sys, time
from podium.models import linear
fit = linear.Linear.fit
def slow(self, *given, **named):
    time.sleep(0.3)
    return fit(self, *given, **named)
linear.Linear.fit = slow
"""


def start(place: Path, out: Path, models: dict[str, Any], *words: str) -> subprocess.Popen[bytes]:
    """The command line in a process group of its own, with linear models that take their time."""
    toml = place / "exp.json"
    toml.write_text(json.dumps(experiment(models=models, baseline=None, published=[], seeds=list(range(4)))))
    (place / "sitecustomize.py").write_text(SLOW)
    code = (
        "import json, sys; from podium.lab.experiments import running, experiment\n"
        "from podium import cli\n"
        "experiment.read_experiment = lambda path: (experiment.Experiment(**json.loads(open(path).read())), '.')\n"
        "if __name__ == '__main__':\n    cli.main()\n"
    )
    script = place / "podium_here.py"
    script.write_text(code)
    command = [sys.executable, str(script), "lab", "run", str(toml), "--out", str(out), "--no-report", *words]
    paths = os.pathsep.join([str(place), str(Path(podium.__file__).parent.parent)])
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.Popen(
        command,
        cwd=place,
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for_runs(process: subprocess.Popen[bytes], folder: Path, number: int) -> None:
    """Until so many runs are there. A process that ends before, or takes minutes, is the test's failure."""
    end = time.monotonic() + 300
    while len(list(folder.glob("runs/*.json"))) < number:
        if process.poll() is not None or time.monotonic() > end:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"no runs came: {process.communicate()}")
        time.sleep(0.02)


def is_gone(group: int) -> bool:
    """Whether a process group has nobody left; the one that cleans up behind the others may take a moment."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


LINEARS = {f"Linear {n}": {"kind": "linear", "max_iter": 5, "l2_regularization": n} for n in (1, 2)}


def test_a_killed_run_goes_on_without_repeating_what_was_finished(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(place, out, LINEARS, "--jobs", "2")
    wait_for_runs(process, out, 3)
    with pytest.raises(ValueError, match="another run writes its results here"):
        run(experiment(models=LINEARS, baseline=None, published=[], seeds=list(range(4))), out, base=place)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    finished = stamps(out)
    assert 3 <= len(finished) < 2 * 3 * 4
    assert is_gone(process.pid)
    again = start(place, out, LINEARS, "--jobs", "2", "--json")
    text, errors = again.communicate(timeout=240)
    assert again.returncode == 0, errors.decode()
    assert json.loads(text)["runs"] == 2 * 3 * 4
    after = stamps(out)
    assert {name: after[name] for name in finished} == finished
    whole = run(
        experiment(models=LINEARS, baseline=None, published=[], seeds=list(range(4))), tmp_path / "whole", base=place
    )
    assert [without_times(one) for one in Results.load(out).runs] == [without_times(one) for one in whole.results.runs]


def test_ctrl_c_ends_the_workers_and_keeps_what_was_finished(place: Path, tmp_path: Path) -> None:
    for attempt in range(5):  # on a busy machine, the last runs may end before the signal comes
        out = tmp_path / f"out{attempt}"
        process = start(place, out, LINEARS, "--jobs", "2")
        wait_for_runs(process, out, 2)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        if process.returncode != 0:
            break
    assert process.returncode == 130
    assert is_gone(process.pid)
    lines = (out / "results.csv").read_text().splitlines()
    assert len(lines) == 1 + 4 * len(list(out.glob("runs/*.json")))


def test_a_model_that_fails_is_told_and_the_others_go_on(place: Path, tmp_path: Path) -> None:
    models = {
        "Bad": {"kind": "pointwise", "estimator": "logistic_regression", "relevant": 99.0},
        "Died": {"kind": "linear", "space": {"l2_regularization": [1.0]}, "max_iter": 4},
        "Good": {"kind": "linear", "max_iter": 5, "seeds": [0]},
        "Mix": {"kind": "blend", "members": ["@Died", "@Good"]},
        "Best": {"kind": "pick", "members": ["Bad", "Good"]},
    }
    (place / "sitecustomize.py").write_text(
        "import os\nfrom podium.lab.tuning import tuning\ntuning.tune = lambda *given, **named: os._exit(7)\n"
    )
    out = tmp_path / "out"
    old = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(place), str(Path(podium.__file__).parent.parent), old])
    try:
        found = run(
            experiment(models=models, baseline=None, published=[], seeds=[0]), out, n_jobs=2, base=place, folds=["1"]
        )
    finally:
        os.environ["PYTHONPATH"] = old
        (place / "sitecustomize.py").unlink()
    told = {(failure.model, failure.seed): failure.error for failure in found.failures}
    assert found.results.models == ["Good"]
    assert told["Bad", 0].startswith("ValueError: ")
    assert "exit code 7" in told["Died", None]
    assert told["Died", 0].startswith("it needs Died, fold 1, tuning, which failed: its process ended")
    assert told["Mix", 0].startswith("it needs Died, fold 1, tuning, which failed")
    assert told["Best", 0].startswith("it needs Bad, fold 1, seed 0, which failed: ValueError")
    assert {line["model"] for line in json.loads((out / "failures.json").read_text())} == {"Bad", "Died", "Mix", "Best"}
    assert not search_file(out, "Died", "1").exists()
    assert run_file(out, "Good", "1", 0).exists()


def test_peers_that_are_missing_are_left_out(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {
        "Linear": MODELS["Linear"],
        "LightGBM": {"n_estimators": 3},
        "Mix": {"kind": "blend", "members": ["@Linear", "@LightGBM"]},
    }
    monkeypatch.setattr("podium.lab.experiments.making.is_installed", lambda name: False)
    given = experiment(models=models, baseline="LightGBM", published=[])
    found = run(given, tmp_path / "out", n_jobs=1, base=place, folds=["1"])
    assert found.left_out["LightGBM"] == "lightgbm is not installed. Install it with: pip install lightgbm"
    assert found.left_out["Mix"].startswith("it needs LightGBM: ")
    assert found.results.models == ["Linear"]
    assert Results.load(tmp_path / "out").about["left_out"] == found.left_out


def test_some_models_and_folds_can_be_run_first(place: Path, tmp_path: Path) -> None:
    models = {"A": LINEARS["Linear 1"], "B": LINEARS["Linear 2"], "C": LINEARS["Linear 2"] | {"refit": "train+valid"}}
    given = experiment(models=models, baseline=None, published=[], on="valid")
    first = run(given, tmp_path / "out", n_jobs=1, base=place, folds=["2"], models=["B"])
    assert [(one.model, one.fold, one.seed) for one in first.results.runs] == [("B", "2", 0), ("B", "2", 1)]
    second = run(given, tmp_path / "out", n_jobs=1, base=place, folds=["2"], models=["C"])
    assert second.results.of("C")[0].values == second.results.of("B")[0].values  # not trained on what judges it
    data = podium.read_letor(place / "all.txt")
    part = np.random.default_rng(0).permutation(np.arange(data.n_queries) % 3)
    assert set(first.results.runs[0].queries) == set(map(str, data.subset(part == 2).query_ids))
    with pytest.raises(ValueError, match="folds must be one of 1, 2, 3; got '4'"):
        run(given, tmp_path / "out", base=place, folds=["4"])
    with pytest.raises(ValueError, match="Did you mean"):
        run(given | {"models": {"Linear": {}}}, tmp_path / "two", base=place, models=["Linaer"])


def test_a_known_data_set_is_found_rotated_and_compared_with_what_was_published(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = podium.read_letor(place / "all.txt")
    (tmp_path / "mq2008").mkdir()
    for number in range(5):
        queries = slice(number * 4, number * 4 + 4)
        podium.write_letor(data.subset(queries), tmp_path / "mq2008" / f"S{number + 1}.txt.gz")
    monkeypatch.setenv("PODIUM_DATA", str(tmp_path))
    given = experiment(data={"name": "mq2008"}, folds={}, models=LINEARS, baseline=None, published=[], seeds=[0])
    with pytest.warns(UserWarning, match=r"S\d\.txt\.gz: expected .* bytes of content"):
        found = run(given, tmp_path / "out", n_jobs=1, folds=["2"], models=["Linear 1"])
    assert found.failures == ()
    assert set(found.results.runs[0].queries) == {"0", "1", "2", "3"}  # S1
    assert found.results.about["turns"]
    assert "judged many times" in found.results.about["development"]
    assert list(found.results.about["data"]["files"]) == [f"S{number}.txt.gz" for number in (1, 2, 3, 4, 5)]


def test_a_worker_that_dies_while_it_waits_is_replaced(place: Path, tmp_path: Path) -> None:
    """The task after that goes to a new process, and ends as it should."""
    described = Experiment(**experiment(models={"Linear": MODELS["Linear"]}, published=[]))
    workers = Workers(1, Session(described, described.folds_in(place), tmp_path))
    try:
        for fold in ("1", "2"):
            workers.begin(Task("run", "Linear", fold, 0))
            assert [answer.error for answer in workers.answers()] == [""]
            for worker in workers._workers:
                os.kill(worker.process.pid, signal.SIGKILL)
                worker.process.join()
    finally:
        workers.end()
    assert run_file(tmp_path, "Linear", "2", 0).is_file()


@pytest.mark.parametrize(
    "data",
    [{"train": "train.txt", "valid": "vali.txt", "test": "test.txt"}, {"train": "train.txt", "test": "test.txt"},
     {"folder": "."}],
    ids=["files", "no validation file", "folder"],
)  # fmt: skip
def test_on_validation_parts_the_file_of_the_test_part_may_be_missing(tmp_path: Path, data: dict[str, Any]) -> None:
    write_data(tmp_path / "train.txt", 10)
    if "valid" in data or "folder" in data:
        renumbered = (tmp_path / "train.txt").read_text().replace("qid:", "qid:9")
        (tmp_path / "vali.txt").write_text(renumbered)
    models = {"Linear": {"max_iter": 5, "seeds": [0]}}
    given = experiment(models=models, published=[], data=data, folds={}, on="valid")
    found = run(given, tmp_path / "out", n_jobs=1, base=tmp_path)
    assert found.failures == ()
    assert "test.txt" not in found.results.about["data"]["files"]
    with pytest.raises((FileNotFoundError, ValueError), match="test"):
        run(given | {"on": "test"}, tmp_path / "other", n_jobs=1, base=tmp_path)


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        ({"models": {"Linear": {"by_fold": {"9": {}}}}}, {}, "by_fold: unknown fold '9'. Known: 1, 2, 3"),
        (
            {"published": [TABLE | {"values": {"map": [0.5, 0.5]}}]},
            {},
            r"published\[0\].values.map: expected one number per fold, 3, but found 2",
        ),
        ({}, {"folds": ["4"]}, "folds must be one of 1, 2, 3; got '4'"),
        ({}, {"folds": []}, "folds: expected at least one of 1, 2, 3 but found none"),
        ({}, {"models": []}, "models: expected at least one of Linear"),
        ({}, {"n_jobs": -2}, "n_jobs must be positive"),
        ({}, {"threads": 0}, "threads must be an integer from 1"),
    ],
)
def test_what_the_data_decides_is_checked_before_anything_runs(
    place: Path, tmp_path: Path, given: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    described = experiment(models={"Linear": MODELS["Linear"]}, published=[]) | given
    with pytest.raises(ValueError, match=message):
        run(described, tmp_path / "out", base=place, **{"n_jobs": 1} | arguments)
    assert not (tmp_path / "out").exists()


def test_workers_share_programs_and_a_folder_of_the_users_own_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "JAX_COMPILATION_CACHE_DIR"
    monkeypatch.delenv(name, raising=False)
    with _variables_of_children(1, "shared"):
        assert os.environ[name] == "shared"
    assert name not in os.environ
    monkeypatch.setenv(name, "own")
    with _variables_of_children(1, "shared"):
        assert os.environ[name] == "own"


def test_a_script_without_a_guard_gets_one_sentence(place: Path, tmp_path: Path) -> None:
    given = experiment(models=LINEARS, baseline=None, published=[], seeds=[0])
    script = tmp_path / "script.py"
    script.write_text(f"import podium.lab\npodium.lab.run({given!r}, {str(tmp_path / 'out')!r}, base={str(place)!r})\n")
    environment = os.environ | {"PYTHONPATH": str(Path(podium.__file__).parent.parent)}
    found = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 1
    assert found.stderr.count("Traceback") == 1
    assert "RuntimeError: podium.lab.run starts processes" in found.stderr
    assert not list((tmp_path / "out").glob("runs/*"))


def test_lightgbms_published_table_is_that_of_the_validation_parts(real_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    found = run("mq2008", tmp_path, models=["LightGBM (published settings)"])
    table = next(one for one in published_beside(found.results) if one.model == "LightGBM (published settings)")
    for pairs in table.rows.values():
        np.testing.assert_allclose(*zip(*pairs), atol=2e-6)
    assert table.means["ndcg@10"][1] - found.results.mean(table.model, "lightgbm", "ndcg@10") > 0.005


def choices_with(folder: Path, shuffled: str | None) -> tuple[list[Any], list[float | None]]:
    """What tuning, early stopping and a pick choose, and the test values, where one part has shuffled labels."""
    for number, part in enumerate(PARTS):
        write_data(folder / "whole.txt", 12, number)
        data = podium.read_letor(folder / "whole.txt")
        labels = np.random.default_rng(0).permutation(data.y) if part == shuffled else data.y
        podium.write_letor(replace(data, y=labels, query_ids=100 * number + np.arange(12)), folder / part)
    models = {name: MODELS[name] for name in ("Linear", "Trees", "Best")}
    models["Stopped"] = {"kind": "lambdamart", "n_estimators": 40, "early_stopping_rounds": 3}
    given = experiment(data=dict(zip(PARTS, PARTS)), folds={}, models=models, seeds=[0], published=[])
    made = Experiment(**given)
    session = Session(made, made.folds_in(folder), folder / f"out-{shuffled}")
    session.perform(Task("search", "Trees", "1"))
    for name in ("Linear", "Trees", "Stopped", "Best"):
        session.perform(Task("run", name, "1"))
    search = read_search(search_file(session.folder, "Trees", "1"))
    runs = [read_model_run(run_file(session.folder, name, "1", 0)) for name in models]
    choices = [(run.settings, run.curves, run.validation, run.validation_values) for run in runs]
    values = [run.values["standard"]["map"] for run in runs]
    return [[trial.value for trial in search.trials], search.chosen, *choices], values


def test_test_labels_change_no_choice_and_validation_labels_do(tmp_path: Path) -> None:
    choices, values = choices_with(tmp_path, None)
    choices_of_shuffled, values_of_shuffled = choices_with(tmp_path, "test")
    assert choices_of_shuffled == choices
    assert all(one != other for one, other in zip(values, values_of_shuffled))
    assert choices_with(tmp_path, "valid")[0][0] != choices[0]
