"""Model files of earlier versions are read, and give the scores they gave then.

`old_files/` was written once by the first format and is never written again; `scores.json` has what those models
answered.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import podium

FOLDER = Path(__file__).parent / "old_files"
KNOWN = json.loads((FOLDER / "scores.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["mart", "lambdasmart", "boosted"])
def test_arrays_get_the_same_scores(name):
    rows = np.array(KNOWN["rows"], dtype=np.float32)
    np.testing.assert_array_equal(podium.load(FOLDER / f"{name}.podium").predict(rows), KNOWN[name])


def test_tables_with_categories_get_the_same_scores():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(KNOWN["abc"], columns=list("abc")).assign(d=pandas.Categorical(KNOWN["names"]))
    model = podium.load(FOLDER / "lambdamart.podium")
    np.testing.assert_array_equal(model.predict(table), KNOWN["lambdamart"])
    assert list(model.evals_["eval_0"]) == ["ndcg@5"]


def test_a_parameter_that_was_spelt_otherwise_has_its_new_name():
    assert podium.load(FOLDER / "mart.podium").step == "tree"
    assert podium.load(FOLDER / "lambdasmart.podium").init.step == "tree"


def test_old_models_can_be_trained_further():
    rng = np.random.default_rng(0)
    X, y, qid = rng.integers(0, 8, (60, 4)).astype(np.float32), rng.integers(0, 3, 60), np.arange(60) // 6
    for name in ("mart", "boosted"):
        model = podium.load(FOLDER / f"{name}.podium")
        assert np.isfinite(model.refit(X, y, qid).predict(X)).all()
        assert model.fit_more(X, y, qid, n_estimators=2).forest_.n_trees == 5
