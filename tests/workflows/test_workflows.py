"""From files to files: each workflow gives what the same steps give when they are done by hand on data in memory."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import podium
from podium import LambdaMART, cli, compare, evaluate, evaluate_run, read_data
from podium.demo.letor import demo_splits
from podium.formats.scores import write_scores
from podium.formats.trec import Qrels, Run, write_qrels, write_run
from podium.metrics import POLICIES
from podium.models.registry import plan_model
from podium.workflows import evaluating, explaining, ranking, training

METRICS = ["ndcg@5", "map"]
SETTINGS = {"n_estimators": 3, "max_leaf_nodes": 4, "metric": "ndcg@5"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    for name, part in zip(("train", "valid", "test"), demo_splits(n_queries=30)):
        podium.write_data(replace(part, feature_names=None), made / f"{name}.txt")
    test = read_data(made / "test.txt")
    for place in (0, 1):
        write_scores(test.X[:, place], made / f"{place}.scores")
    write_qrels(Qrels.from_data(test), made / "qrels")
    write_run(Run.from_scores(test, test.X[:, 0]), made / "run")
    trained = LambdaMART(**SETTINGS).fit(
        read_data(made / "train.txt"), eval_set={"valid.txt": read_data(made / "valid.txt")}
    )
    trained.save(made / "by-hand.podium")
    return made


def test_training_from_files_writes_the_model_that_fit_gives(folder):
    plan = plan_model("lambdamart", [f"{name}={value}" for name, value in SETTINGS.items()])
    valid = folder / "valid.txt"
    trained = training.train_files(plan, [folder / "train.txt"], [valid], folder / "m.podium")
    assert (folder / "m.podium").read_bytes() == (folder / "by-hand.podium").read_bytes()
    data, model = read_data(valid), podium.load(folder / "m.podium")
    assert dict(trained.evaluations[str(valid)]) == dict(evaluate(model.predict(data), data, metrics="ndcg@5"))
    with pytest.raises(ValueError, match="train"):
        training.train_files(plan, [folder / "train.txt"], [], folder / "train.txt")


def test_ranking_and_explaining_a_file_give_the_scores_of_the_model(folder):
    model, data = podium.load(folder / "by-hand.podium"), read_data(folder / "test.txt")
    ranked = ranking.rank_file(folder / "by-hand.podium", folder / "test.txt")
    np.testing.assert_array_equal(ranked.scores, model.predict(data))
    query = str(data.query_ids[0])
    top = explaining.explain_file(folder / "by-hand.podium", folder / "test.txt", query, top=2).top
    best = np.sort(model.predict(data)[data.qid == data.query_ids[0]])[::-1][:2]
    assert [one.score for one in top] == best.tolist()


@pytest.mark.parametrize("policy", ["standard", "letor4"])
def test_evaluating_files_is_evaluating_what_they_hold(folder, policy):
    data = read_data(folder / "test.txt")
    (found,) = evaluating.evaluate_files(folder / "test.txt", folder / "0.scores", METRICS, policy)
    assert dict(found) == dict(evaluate(data.X[:, 0], data, metrics=METRICS, policy=policy))
    (of_run,) = evaluating.evaluate_run_files(folder / "qrels", folder / "run", METRICS, policy)
    run = Run.from_scores(data, data.X[:, 0])
    assert dict(of_run) == dict(evaluate_run(Qrels.from_data(data), run, metrics=METRICS, policy=policy))


def test_policy_all_gives_one_evaluation_per_policy(folder):
    found = evaluating.evaluate_files(folder / "test.txt", folder / "0.scores", METRICS, "all")
    assert {one.policy for one in found} == set(POLICIES)


def test_comparing_files_is_comparing_what_they_hold(folder):
    data, files = read_data(folder / "test.txt"), [folder / "0.scores", folder / "1.scores"]
    found = evaluating.compare_files(folder / "test.txt", files, permutations=1000)
    by_hand = compare({path.name: data.X[:, place] for place, path in enumerate(files)}, data, permutations=1000)
    assert found.as_dict() == by_hand.as_dict()


def test_checking_files_names_them(folder):
    report = evaluating.check_files([folder / "train.txt", folder / "test.txt"])
    assert list(report.parts) == [str(folder / "train.txt"), str(folder / "test.txt")]


@pytest.mark.parametrize("module", sorted(Path(cli.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_the_command_line_neither_reads_data_nor_evaluates(module):
    tree = ast.parse(module.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not {name for name in imported if name.startswith(("read_d", "read_s", "read_q", "read_r"))}
    assert not imported & {"evaluate", "evaluate_run", "compare", "check", "queries"}


def test_curves_are_named_after_files_without_their_folders(folder, tmp_path):
    (tmp_path / "valid.txt").write_bytes((folder / "test.txt").read_bytes())
    plan = plan_model("lambdamart", [f"{name}={value}" for name, value in SETTINGS.items()])
    for files, names in (
        ([folder / "valid.txt"], ["valid.txt"]),
        ([folder / "valid.txt", folder / "test.txt"], ["valid.txt", "test.txt"]),
        ([folder / "valid.txt", tmp_path / "valid.txt"], ["valid.txt 1", "valid.txt 2"]),
    ):
        trained = training.train_files(plan, [folder / "train.txt"], files, tmp_path / "m.podium")
        assert sorted(podium.load(tmp_path / "m.podium").evals_) == sorted(names)
        assert list(trained.evaluations) == [str(path) for path in files]
        assert str(folder).encode() not in (tmp_path / "m.podium").read_bytes()
