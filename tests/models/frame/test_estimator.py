"""Models follow scikit-learn's conventions without importing it: scoring starts in a fraction of a second."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import podium

X = np.array([[0.1, 3.0], [0.7, 1.0], [0.4, 2.0], [0.9, 0.5]])
Y, QID = [0, 2, 1, 2], [1, 1, 2, 2]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    data = podium.RankingData.from_arrays(X, Y, QID)
    podium.LambdaMART(n_estimators=3, min_samples_leaf=1).fit(data).save(folder / "model.podium")
    podium.write_letor(data, folder / "data.txt")
    return folder


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


ROWS = ["numpy.eye(2)", "numpy.eye(2, dtype='f4')", "podium.read_letor(f'{folder}/data.txt')"]


@pytest.mark.parametrize("rows", ROWS)
def test_loading_and_predicting_do_not_import_scikit_learn(saved, rows):
    code = f"import sys, numpy, podium; folder = {str(saved)!r}; podium.load(folder + '/model.podium').predict({rows})"
    assert run_python(f"{code}; print('sklearn' in sys.modules)") == "False\n"


def test_podium_rank_does_not_import_scikit_learn(saved):
    arguments = ["podium", "rank", str(saved / "model.podium"), str(saved / "data.txt")]
    code = f"import sys; sys.argv = {arguments}; from podium.__main__ import main\ntry: main()\nexcept SystemExit: pass"
    assert run_python(f"{code}\nprint('sklearn' in sys.modules)").splitlines()[-1] == "False"


def test_repr_has_the_parameters_that_are_not_as_by_default():
    assert repr(podium.Linear()) == "Linear()"
    assert repr(podium.Linear(max_iter=3, objective="lambda")) == "Linear(max_iter=3, objective='lambda')"
    assert repr(podium.Bagged(podium.Linear(max_iter=3))) == "Bagged(model=Linear(max_iter=3))"


def test_parameters_of_inner_models_are_set_by_their_path():
    model = podium.Bagged(podium.Linear()).set_params(n_members=2, model__max_iter=7)
    assert (model.n_members, model.model.max_iter) == (2, 7)
    with pytest.raises(ValueError, match="Invalid parameter 'tree' for estimator Linear"):
        podium.Linear().set_params(tree=1)


def test_a_model_that_is_not_fitted_is_refused_by_the_error_of_scikit_learn():
    with pytest.raises(NotFittedError, match="This Linear instance is not fitted yet"):
        podium.Linear().predict(X)


def test_requests_survive_clone_and_pickle():
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        model = podium.Linear().set_fit_request(qid=True).set_score_request(qid=True, group=False)
        for copy in (clone(model), pickle.loads(pickle.dumps(model))):
            routing = copy.get_metadata_routing()
            assert (routing.fit.requests["qid"], routing.score.requests["group"]) == (True, False)
        with pytest.raises(TypeError, match="tree"):
            model.set_fit_request(tree=True)


def test_notebooks_show_the_name_of_a_model():
    assert "Linear" in podium.Linear()._repr_html_()


def test_notebooks_show_what_differs_from_the_defaults_and_what_was_fitted():
    model = podium.MART(n_estimators=3, min_samples_leaf=1)
    assert "MART, not fitted" in model._repr_html_()
    assert "learning_rate" not in model._repr_html_()
    model.fit(X, Y, QID, eval_set=(X, Y, QID))
    shown = model._repr_html_()
    for text in ("MART, fitted", "n_estimators", "training queries", f"{model.best_score_:.4f}", "chosen by the data"):
        assert text in shown
    assert "all parameters have their defaults" in podium.Linear()._repr_html_()
