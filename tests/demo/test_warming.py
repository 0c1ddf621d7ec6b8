"""After `podium warmup`, ordinary work compiles nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from podium._runtime.kernels.cache import cache_folder

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
    "demo",
    "check demo/train.txt demo/valid.txt demo/test.txt",
    "train lambdamart demo/train.txt --valid demo/valid.txt --out l.podium --set n_estimators=20",
    "rank l.podium demo/test.txt --out l.scores",
    "eval demo/test.txt --scores l.scores",
    "compare demo/test.txt --scores l.scores --scores demo/plain_sum.scores",
    "explain l.podium demo/test.txt --shap",
    "search demo/web/cascade bagels --explain",
    "features demo/web/index demo/web/queries.tsv --qrels demo/web/qrels.txt --n 20 --out features.txt",
    "train linear features.txt --out linear.podium",
    "convert features.txt features.csv",
)


WORK = f"""
import sys
from podium.cli import main
for words in {COMMANDS!r}:
    sys.argv = ["podium", *words.split()]
    try:
        main()
    except SystemExit as end:
        assert end.code in (None, 0, 1), words  # 1: podium check finds something
{TABLES}"""
COMPILED_ANEW = "metrics.curves."  # the start of names of kernels


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """Where it ran: a folder with the kernels of this machine, all marked as used long ago, and without some."""
    folder = tmp_path_factory.mktemp("warm")
    kept = folder / "kept" / "podium" / cache_folder().name
    kept.mkdir(parents=True)
    for path in cache_folder().glob("*.nbc"):
        if not path.name.startswith(COMPILED_ANEW):
            os.utime(shutil.copyfile(path, kept / path.name), (0, 0))
    before = kernels(folder)
    return folder, before, json.loads(python(folder, "-m", "podium", "warmup", "--json"))


def python(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kernels(folder: Path) -> set[str]:
    return {path.name for path in (folder / "kept").rglob("*.nbc")}


def used(folder: Path) -> set[str]:
    """Kernels that were compiled or loaded: the cache marks what is used after an hour or more."""
    return {path.name for path in (folder / "kept").rglob("*.nbc") if path.stat().st_mtime > 0}


def test_warming_up_says_what_it_compiled_and_where_it_is_kept(warm):
    folder, before, report = warm
    assert Path(report["folder"]).is_relative_to(folder / "kept")
    assert report["is_kept"]
    assert report["kernels"] >= len(kernels(folder) - before) > 0
    assert len(used(folder)) > 100  # and hundreds that are parts of these
    assert report["bytes"] == sum(path.stat().st_size for path in (folder / "kept").rglob("*.nbc"))
    assert 0 < report["compile_seconds"] <= report["seconds"]


def test_afterwards_ordinary_work_compiles_nothing(warm):
    """Nor does it load a kernel that warming up has neither compiled nor loaded."""
    folder, *_ = warm
    before = used(folder)
    python(folder, "-c", WORK)
    assert used(folder) == before
