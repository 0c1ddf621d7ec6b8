"""Model files of earlier versions are read, and give the scores they gave then.

The files of `old_files/` were written once, each by the version of its day, and are never written again; `scores.json`
has what those models answered.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import podium
from podium.persistence.storage import load_parts, save_parts

FOLDER = Path(__file__).parent / "old_files"
KNOWN = json.loads((FOLDER / "scores.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["mart", "lambdasmart", "boosted", "matrixnet", "randomforest"])
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


@pytest.mark.parametrize(
    ("name", "parameter", "used"),
    [("matrixnet", "growth", "leaf"), ("randomforest", "learning_rate", 0.5), ("randomforest", "drop_rate", 0.5)],
)
def test_a_parameter_that_is_gone_is_warned_of_where_it_had_an_effect(name, parameter, used, tmp_path):
    kind, meta, arrays = load_parts(FOLDER / f"{name}.podium")
    assert parameter in meta["parameters"]
    save_parts(tmp_path / "m.podium", kind, meta | {"parameters": meta["parameters"] | {parameter: used}}, arrays)
    rows = np.array(KNOWN["rows"], dtype=np.float32)
    with pytest.warns(UserWarning, match=f"holds {parameter}={used!r}, which .* no longer takes. Scores stay"):
        model = podium.load(tmp_path / "m.podium")
    np.testing.assert_array_equal(model.predict(rows), KNOWN[name])
    assert parameter not in model.get_params()


def test_a_parameter_that_no_version_had_is_refused(tmp_path):
    kind, meta, arrays = load_parts(FOLDER / "matrixnet.podium")
    save_parts(tmp_path / "m.podium", kind, meta | {"parameters": meta["parameters"] | {"depth": 2}}, arrays)
    with pytest.raises(ValueError, match="the parameters hold 'depth', which is not known"):
        podium.load(tmp_path / "m.podium")


def test_a_base_model_in_the_file_of_a_model_that_takes_none_is_refused(tmp_path):
    kind, meta, arrays = load_parts(FOLDER / "randomforest.podium")
    inner = {f"init/{name}": array for name, array in arrays.items()}
    save_parts(tmp_path / "m.podium", kind, meta | {"init": {"kind": kind, "meta": meta}}, {**arrays, **inner})
    with pytest.raises(ValueError, match="RandomForest takes no init"):
        podium.load(tmp_path / "m.podium")
