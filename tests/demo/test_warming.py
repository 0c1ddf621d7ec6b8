"""After `podium warmup`, ordinary work compiles nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TABLES = """
import numpy as np, pandas as pd, podium
train, valid, test = (podium.read_letor(f"demo/{part}.txt") for part in ("train", "valid", "test"))
model = podium.LambdaMART(n_estimators=5, metric="ndcg@10").fit(train, eval_set=valid, early_stopping_rounds=20)
model.predict(test), model.scorer()(test.X[:1])
frame = pd.DataFrame(np.nan_to_num(train.X), columns=[f"x{number}" for number in range(train.n_features)])
frame["kind"] = pd.Categorical(np.arange(len(frame)) % 4)
model = podium.LambdaMART(n_estimators=5, max_leaf_nodes=8).fit(frame, train.y, train.qid)
model.predict(frame.iloc[:1]), podium.evaluate(model.predict(frame), train, metrics=["ndcg@10", "map"])
"""
COMMANDS = (
    "-m podium demo",
    "-m podium check demo/train.txt demo/valid.txt demo/test.txt",
    "-m podium train lambdamart demo/train.txt --valid demo/valid.txt --out l.podium --set n_estimators=20",
    "-m podium rank l.podium demo/test.txt --out l.scores",
    "-m podium eval demo/test.txt --scores l.scores",
    "-m podium compare demo/test.txt --scores l.scores --scores demo/plain_sum.scores",
    "-m podium explain l.podium demo/test.txt --shap",
    "-m podium search demo/web/cascade bagels --explain",
    "-m podium features demo/web/index demo/web/queries.tsv --qrels demo/web/qrels.txt --n 20 --out features.txt",
    "-m podium train linear features.txt --out linear.podium",
    "-m podium convert features.txt features.csv",
)


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm")
    return folder, json.loads(python(folder, "-m", "podium", "warmup", "--json"))


def python(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode in (0, 1), done.stderr  # 1: podium check finds something
    return done.stdout


def kernels(folder: Path) -> set[str]:
    return {path.name for path in (folder / "kept").rglob("*.nbc")}


def test_warming_up_says_what_it_compiled_and_where_it_is_kept(warm):
    folder, report = warm
    assert Path(report["folder"]).is_relative_to(folder / "kept")
    assert report["is_kept"]
    assert report["kernels"] >= len(kernels(folder)) > 300
    assert report["bytes"] == sum(path.stat().st_size for path in (folder / "kept").rglob("*.nbc"))
    assert 0 < report["compile_seconds"] <= report["seconds"]


def test_afterwards_ordinary_work_compiles_nothing(warm):
    folder, _ = warm
    before = kernels(folder)
    for command in COMMANDS:
        python(folder, *command.split())
        assert kernels(folder) == before, command
    python(folder, "-c", TABLES)
    assert kernels(folder) == before
