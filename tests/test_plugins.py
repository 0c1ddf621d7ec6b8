"""Members from one file each of a package outside Podium, by public names only, from Python and the command line."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import podium

MEMBERS = {
    "model": '''
from podium.learners import WeightedFeatures
from podium.models import LinearScores, TrainingPlan, parameter, parametrized, register_model


class Raising(WeightedFeatures):
    def step(self):
        self.settle(self.weights + 1.0)


@register_model
@parametrized
class EqualWeights(LinearScores):
    """The sum of all features, standardised."""

    n_rounds: int = parameter(1, "Number of rounds.", low=1, high=100)
    step_word = "round"

    def training_plan(self):
        make = lambda rows: Raising(rows.data.X, self.n_jobs)
        return TrainingPlan(make, self.keep_weights, self.n_rounds, target_metric="map")
''',
    "objective": '''
import numpy as np
from podium.objectives import register_objective


@register_objective
def halfway(scores, labels, offsets):
    """Squared error to half of the label."""
    return scores - labels / 2, np.ones(len(scores))
''',
    "metric": '''
import podium
from podium.metrics import register_metric


@register_metric
class FirstLabel(podium.Metric):
    """The label of the first document."""

    base_name = "firstlabel"

    def value(self, ranked_labels, judged=None):
        return float(ranked_labels[0])
''',
    "format": """
import numpy as np
import podium
from podium.formats import register_format


def read(path, **options):
    rows = [line.split("|") for line in open(path, encoding="utf-8")]
    X = np.array([row[2:] for row in rows], np.float32)
    return podium.RankingData.from_arrays(X, [float(row[0]) for row in rows], [row[1] for row in rows])


def write(data, path, **options):
    with open(path, "w", encoding="utf-8") as file:
        for label, qid, row in zip(data.y, data.qid, data.X):
            file.write("|".join(map(str, (label, qid, *row))) + "\\n")


register_format("bars", suffixes=[".bars"], reader=read, writer=write)
""",
    "weighting": """
from podium.search import register_weighting


def presence(tf, lengths, df, n_documents, average_length, *, weight=1.0):
    return tf**0 * weight


register_weighting("presence", presence, formula="weight", largest=8.0)
""",
    "feature": """
from podium.search import register_feature


def id_length(documents, *, factor=1.0):
    return [factor * len(one) for one in documents.ids]


register_feature("id-length", id_length, formula="factor x length of the id")
""",
}
DATA = "".join(f"{(q + d) % 3} qid:{q} 1:{(q + d) % 3} 2:{d}\n" for q in range(1, 5) for d in range(6))
DOCUMENTS = {"a": "apple apple pear", "bbb": "apple pear plum", "cc": "fig"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    package = folder / "toys"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in MEMBERS.items():
        (package / f"{name}.py").write_text(text)
    (folder / "data.txt").write_text(DATA)
    (folder / "docs.jsonl").write_text(
        "".join(json.dumps({"id": id, "body": text}) + "\n" for id, text in DOCUMENTS.items())
    )
    (folder / "queries.tsv").write_text("q1\tapple plum\n")
    return folder


def in_folder(folder, *words):
    environment = os.environ | {"PYTHONPATH": str(Path(podium.__file__).parent.parent)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def run(folder):
    """A command, which must succeed unless `fails`; its JSON, or what it says."""

    def run(*words, plugin=None, fails=False):
        command = [
            sys.executable,
            "-m",
            "podium",
            *map(str, words),
            *([] if plugin is None else ["--plugin", f"toys.{plugin}"]),
        ]
        environment = os.environ | {"PYTHONPATH": str(Path(podium.__file__).parent.parent)}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


PUBLIC = {"learners", "formats", "metrics", "models", "objectives", "search"}


@pytest.mark.parametrize("member", MEMBERS)
def test_members_use_public_names_only(member):
    for node in ast.walk(ast.parse(MEMBERS[member])):
        if isinstance(node, ast.ImportFrom):
            assert node.module in {f"podium.{name}" for name in PUBLIC}
            assert not any(alias.name.startswith("_") for alias in node.names)


def test_a_model_is_trained_saved_and_refused_by_name_without_its_plugin(run, folder):
    said = run("train", "equalweights", "data.txt", "--out", "m.podium", "--set", "n_rounds=2", plugin="model")
    assert "EqualWeights: 2 rounds" in said
    scores = [float(line) for line in run("rank", "m.podium", "data.txt", plugin="model").split()]
    data = podium.read_letor(folder / "data.txt")
    z = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    assert scores == pytest.approx((2 * z).sum(axis=1).tolist(), abs=1e-5)
    refusal = run("rank", "m.podium", "data.txt", fails=True)
    assert "'EqualWeights' is not a model of Podium; import the module that registers it (--plugin MODULE)" in refusal
    assert "equalweights" in run("models", plugin="model")


def test_an_objective_is_trained_and_refused_by_name_without_its_plugin(run, folder):
    settings = ["--set", "objective=halfway", "--set", "n_estimators=200", "--set", "min_samples_leaf=1"]
    run("train", "boosted", "data.txt", "--out", "o.podium", *settings, plugin="objective")
    scores = [float(line) for line in run("rank", "o.podium", "data.txt", plugin="objective").split()]
    assert scores == pytest.approx((podium.read_letor(folder / "data.txt").y / 2).tolist(), abs=1e-3)
    assert "halfway" in run("rank", "o.podium", "data.txt", fails=True)


def test_a_metric_evaluates(run, folder):
    (folder / "up.scores").write_text("".join(f"{d}\n" for _ in range(4) for d in range(6)))
    said = json.loads(run("eval", "data.txt", "--scores", "up.scores", "-m", "firstlabel", "--json", plugin="metric"))
    assert said["metrics"]["firstlabel"] == sum((q + 5) % 3 for q in range(1, 5)) / 4  # the last document is the first
    assert "firstlabel" in run("eval", "data.txt", "--scores", "up.scores", "-m", "firstlabel", fails=True)


def test_a_format_is_written_and_read(run, folder):
    run("convert", "data.txt", "data.bars", plugin="format")
    assert (folder / "data.bars").read_text().splitlines()[0] == "1.0|1|1.0|0.0"
    run("convert", "data.bars", "back.txt", plugin="format")
    there, back = (podium.read_letor(folder / name) for name in ("data.txt", "back.txt"))
    assert there.X.tolist() == back.X.tolist()
    assert there.y.tolist() == back.y.tolist()
    assert ".bars" in run("convert", "data.txt", "other.bars", fails=True)


def test_a_weighting_ranks_and_a_feature_is_computed(run, folder):
    run("index", "docs.jsonl", "--out", "idx")
    words = ["search", "idx", "apple plum", "--weighting", "presence(weight=2)", "--json"]
    hits = json.loads(run(*words, plugin="weighting"))["hits"]
    assert [(hit["id"], hit["score"]) for hit in hits] == [("bbb", 4.0), ("a", 2.0)]
    assert "presence" in run(*words, fails=True)

    (folder / "features.toml").write_text('[[feature]]\nname = "length"\nkind = "id-length"\nfactor = 10\n')
    words = ["features", "idx", "queries.tsv", "--features", "features.toml", "--n", "2", "--out", "features.csv"]
    run(*words, plugin="feature")
    values = {line.split(",")[-1] for line in (folder / "features.csv").read_text().splitlines()[1:]}
    assert {float(value) for value in values} == {10.0, 30.0}
    assert "id-length" in run(*words[:-1], "other.csv", fails=True)


PROGRAM = """
import toys.model, toys.objective, toys.metric, toys.format, toys.weighting, toys.feature, podium
data = podium.read_letor("data.txt")
podium.write_data(data, "again.bars")
again = podium.read_data("again.bars")
model = podium.Boosted(objective="halfway", n_estimators=200, min_samples_leaf=1, eval_metric="firstlabel").fit(again)
print(model.score(again), toys.model.EqualWeights(n_rounds=3).fit(data).best_iteration_)
index = podium.search.open_index(podium.search.build_index([{"id": "a", "body": "fig"}], "one"))
print(index.search("fig", weighting="presence")[0].score)
features = podium.search.Features([podium.search.Feature("n", "id-length")])
print(podium.search.Extractor(index, features).values("fig", [0]).tolist())
"""


def test_the_same_members_in_python(folder):
    done = in_folder(folder, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2.0 3", "1.0", "[[1.0]]"]
