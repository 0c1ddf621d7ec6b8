"""A fit that fails leaves the model as it was; one that is interrupted leaves a state of an uninterrupted run."""

import pickle
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import podium
from podium.data.ranking import RankingData
from podium.learners.trees.scoring.forest import FOREST_ARRAYS
from podium.models.trees.named import MART, Boosted, LambdaMART, MatrixNet, RandomForest

SMALL = {"n_estimators": 6, "max_leaf_nodes": 4, "min_samples_leaf": 5, "n_jobs": 1}
RUNS = {
    "plain": (LambdaMART, SMALL),
    "dart": (LambdaMART, SMALL | {"drop_rate": 0.6, "skip_drop": 0.0}),
    "sampled": (MART, SMALL | {"row_fraction": 0.6, "objective": "logistic"}),
    "oblivious": (MatrixNet, {"n_estimators": 6, "max_depth": 2, "n_jobs": 1}),
    "mean": (RandomForest, SMALL),
}


class Broken(Exception):
    """What goes wrong in a callback or an objective."""


@pytest.fixture(autouse=True)
def python_handles_ctrl_c():
    """A shell without job control starts commands in the background with Ctrl-C ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture(scope="module")
def parts(splits):
    return splits.train.subset(np.arange(6)), splits.valid.subset(np.arange(4)), splits.test.subset(np.arange(3))


def arrays(data):
    return data.X.copy(), data.y.copy(), data.qid.copy()


def raises_at(step, error=Broken):
    def callback(progress):
        if progress.iteration == step:
            raise error

    return callback


def narrow(data):
    return RankingData.from_arrays(data.X[:, :2], data.y, qid=data.qid)


def infinite(data):
    X, y, qid = arrays(data)
    X[3, 1] = np.inf
    return X, y, qid


# Each fails: (parameters, arguments of fit, options of fit) of the data, an evaluation set and a folder.
FAILURES = {
    "a callback at the first step": lambda d, e, f: ({}, (d,), {"callbacks": [raises_at(7)]}),
    "a callback at a later step": lambda d, e, f: ({}, (d,), {"callbacks": [raises_at(9)], "eval_set": e}),
    "a parameter": lambda d, e, f: ({"learning_rate": -1.0}, (d,), {}),
    "a feature that is not there": lambda d, e, f: ({"categorical": ["colour"]}, (d,), {}),
    "a monotone feature that is not there": lambda d, e, f: ({"monotone": {99: 1}}, (d,), {}),
    "an infinite value": lambda d, e, f: ({}, infinite(d), {}),
    "labels of another length": lambda d, e, f: ({}, (d.X, d.y[1:], d.qid), {}),
    "labels that are not numbers": lambda d, e, f: ({}, (d.X, np.full(d.n_rows, np.nan), d.qid), {}),
    "query ids of another length": lambda d, e, f: ({}, (d.X, d.y, d.qid[1:]), {}),
    "an evaluation set of another width": lambda d, e, f: ({}, (d,), {"eval_set": narrow(e)}),
    "an evaluation set of another kind": lambda d, e, f: ({}, (d,), {"eval_set": [(1, 2)]}),
    "early stopping without data": lambda d, e, f: ({}, (d,), {"early_stopping_rounds": 2}),
    "a metric without a value": lambda d, e, f: (
        {"eval_metric": "auc"},
        (d,),
        {"eval_set": (e.X, np.ones(e.n_rows), e.qid), "early_stopping_rounds": 2},
    ),
    "a checkpoint that cannot be written": lambda d, e, f: ({}, (d,), {"checkpoint": f / "none" / "run"}),
    "a file that is no checkpoint": lambda d, e, f: ({}, (d,), {"checkpoint": f / "other"}),
    "a base of another length": lambda d, e, f: ({"init": np.zeros(3)}, (d,), {}),
    "a warning that is an error": lambda d, e, f: ({}, (d.X, d.y), {}),
}


def state(model):
    """All attributes: the objects themselves, and their content at this moment."""
    return dict(model.__dict__), content(model.__dict__)


def content(attributes):
    return pickle.dumps({name: value for name, value in attributes.items() if not callable(value)})


def assert_unchanged(model, before):
    attributes, then = before
    assert set(model.__dict__) == set(attributes)
    assert all(model.__dict__[name] is attributes[name] for name in attributes)
    assert content(attributes) == then


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("start", ["unfitted", "fitted", "fit_more"])
def test_a_fit_that_fails_changes_nothing(failure, start, parts, tmp_path):
    data, valid, other = parts
    (tmp_path / "other").write_text("2 qid:1 1:0.5\n")
    model = LambdaMART(**SMALL)
    if start == "fitted":  # on columns of other names, which must still be there afterwards
        named, watched = (replace(part, feature_names=tuple(f"c{n}" for n in range(24))) for part in (other, valid))
        model.fit(named, eval_set=watched)
    elif start == "fit_more":
        model.fit(other, eval_set=valid)
    parameters, rows, options = FAILURES[failure](data, valid, tmp_path)
    model.set_params(**parameters, n_estimators=12)
    before = state(model)
    fit = partial(model.fit_more, n_estimators=9) if start == "fit_more" else model.fit
    with pytest.raises((Broken, ValueError, OSError, UserWarning)):
        fit(*rows, **options)
    assert_unchanged(model, before)
    assert hasattr(model, "forest_") == (start != "unfitted")


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
def test_an_objective_that_raises_changes_nothing_or_keeps_what_was_learned(error, parts):
    data, valid, other = parts
    calls = []

    def objective(scores, labels, offsets):
        calls.append(1)
        if len(calls) == limit:
            raise error
        return scores - labels, np.ones(len(labels))

    for limit in (7, 9):  # the first fit has 6 steps
        calls.clear()
        model = Boosted(**SMALL, objective=objective).fit(other, eval_set=valid)
        before = state(model)
        with pytest.raises(error):
            model.fit(data, eval_set=valid)
        if error is Broken or limit == 7:
            assert_unchanged(model, before)
        else:
            assert model.forest_.n_trees == model.best_iteration_ == 2
            assert len(model.evals_["eval_0"]["ndcg@10"]) == 2


def test_parameters_that_a_callback_changes_stay_as_it_has_set_them():
    data = RankingData.from_arrays(np.arange(40.0)[:, None], np.arange(40) % 3, group=[20, 20])

    def change(progress):
        progress.model.learning_rate = 0.5
        raise Broken

    model = LambdaMART(**SMALL)
    with pytest.raises(Broken):
        model.fit(data, callbacks=[change])
    assert model.learning_rate == 0.5


@pytest.mark.parametrize("wrong", [0, -3, 2.5, True, "5"])
def test_more_trees_are_a_number_from_one(wrong, parts):
    model = LambdaMART(**SMALL).fit(parts[0])
    before = state(model)
    with pytest.raises(ValueError, match="fit_more: n_estimators must be an integer from 1; got"):
        model.fit_more(parts[0], n_estimators=wrong)
    assert_unchanged(model, before)


# --- interrupts ---------------------------------------------------------------------------------------------------


def trees_of(model):
    return tuple(getattr(model.forest_, name).tobytes() for name in FOREST_ARRAYS), model.forest_.start


def whole_states(kind, parameters, data, **options):
    """The trees and curves of uninterrupted runs of 1, 2, ... trees."""
    found = {}
    for steps in range(1, parameters["n_estimators"] + 1):
        model = kind(**parameters | {"n_estimators": steps}).fit(data, **options)
        found[trees_of(model), repr(model.evals_)] = model.best_iteration_
    return found


def assert_whole(model, states):
    """What an interrupt has left is what some uninterrupted run has come to."""
    assert states[trees_of(model), repr(model.evals_)] == model.best_iteration_
    assert model.forest_.n_trees == model.best_iteration_


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("patience", [None, 2])
def test_an_interrupt_in_a_callback_keeps_the_step_it_came_after(name, patience, parts):
    kind, parameters = RUNS[name]
    data, *evals = parts
    options = {"eval_set": evals, "early_stopping_rounds": patience}
    for step in range(1, 1 + len(kind(**parameters).fit(data, **options).evals_["eval_0"]["ndcg@10"])):
        model = kind(**parameters)
        with pytest.raises(KeyboardInterrupt, match="what was learned is kept"):
            model.fit(data, callbacks=[raises_at(step, KeyboardInterrupt)], **options)
        expected = kind(**parameters | {"n_estimators": step}).fit(data, **options)
        assert trees_of(model) == trees_of(expected)
        assert model.evals_ == expected.evals_
        assert [len(curve) for part in model.evals_.values() for curve in part.values()] == [step, step]
        assert model.get_params() == kind(**parameters).get_params()


class InterruptAtLine:
    """Raises KeyboardInterrupt at the n-th line of Podium's own code that Python runs after the training has begun."""

    def __init__(self, line):
        self.line, self.seen = line, 0
        self.package = str(Path(podium.__file__).parent)

    def __enter__(self):
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def trace(self, frame, event, _):
        file = frame.f_code.co_filename
        if file.startswith(self.package) and not file.endswith("interrupts.py"):
            return self.count
        return None

    def count(self, frame, event, _):
        if event == "line":
            self.seen += 1
            if self.seen == self.line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.count


@pytest.mark.parametrize("name", ["plain", "dart", "mean"])
@pytest.mark.parametrize("patience", [None, 2])
def test_an_interrupt_at_any_line_keeps_a_state_that_exists_in_an_uninterrupted_run(name, patience, parts, rng):
    """As a handler of the user's own, or a second Ctrl-C, raises it: anywhere."""
    kind, parameters = RUNS[name]
    data, *evals = parts
    options = {"eval_set": evals, "early_stopping_rounds": patience}
    states = whole_states(kind, parameters, data, **options)
    with InterruptAtLine(-1) as counted:
        kind(**parameters).fit(data, **options)
    kept = 0
    for line in np.unique(rng.integers(1, counted.seen, 40)).tolist():
        model = kind(**parameters)
        before = state(model)
        with pytest.raises(KeyboardInterrupt), InterruptAtLine(line):
            model.fit(data, **options)
        if hasattr(model, "forest_"):
            assert_whole(model, states)
            kept += 1
        else:
            assert_unchanged(model, before)
    assert kept >= 10


def test_an_interrupted_fit_more_has_the_trees_it_had_or_more(parts):
    data, valid, _ = parts
    long = LambdaMART(**SMALL | {"n_estimators": 9}).fit(data)
    model = LambdaMART(**SMALL).fit(data)
    before = state(model)
    with pytest.raises(KeyboardInterrupt), InterruptAtLine(60):
        model.fit_more(data, n_estimators=3)
    assert_unchanged(model, before)
    for step in (7, 8):
        model = LambdaMART(**SMALL).fit(data)
        with pytest.raises(KeyboardInterrupt):
            model.fit_more(data, n_estimators=3, eval_set=valid, callbacks=[raises_at(step, KeyboardInterrupt)])
        assert model.n_estimators == 6
        assert model.forest_.n_trees == model.best_iteration_ == step
        assert len(model.evals_["eval_0"]["ndcg@10"]) == step - 6
        model.fit_more(data, n_estimators=9 - step)
        assert trees_of(model) == trees_of(long)


def test_what_a_checkpoint_holds_is_kept_by_an_interrupt_before_the_next_step(parts, tmp_path):
    data, path = parts[0], tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        LambdaMART(**SMALL).fit(data, checkpoint=path, every=2, callbacks=[raises_at(5, KeyboardInterrupt)])
    calls = []

    def objective(scores, labels, offsets):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return scores - labels, np.ones(len(labels))

    own = tmp_path / "own.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        Boosted(**SMALL, objective=objective).fit(data, checkpoint=own, every=2)
    calls[:] = [1, 1, 1]
    model = Boosted(**SMALL, objective=objective)
    with pytest.raises(KeyboardInterrupt, match="stopped after 2 trees"):
        model.fit(data, checkpoint=own, every=2)
    assert model.forest_.n_trees == 2
    assert path.exists()
    assert own.exists()
    assert LambdaMART(**SMALL).fit(data, checkpoint=path).forest_.n_trees == 6
    assert not path.exists()


def test_a_search_stops():
    from sklearn.model_selection import GridSearchCV

    X = np.arange(80.0).reshape(40, 2)
    started = []

    class Watched(MART):
        def check_parameters(self):
            started.append(1)
            signal.raise_signal(signal.SIGINT)

    search = GridSearchCV(Watched(**SMALL), {"learning_rate": [0.1, 0.2, 0.3]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            search.fit(X, np.arange(40) % 3)
    assert len(started) == 1


def test_handlers_of_the_user_and_other_threads_are_left_alone(parts):
    seen = []

    def look(progress):
        seen.append(signal.getsignal(signal.SIGINT))

    def own(number, frame):
        raise AssertionError

    previous = signal.signal(signal.SIGINT, own)
    try:
        LambdaMART(**SMALL).fit(parts[0], callbacks=[look])
    finally:
        signal.signal(signal.SIGINT, previous)
    assert set(seen) == {own}
    seen.clear()
    thread = threading.Thread(target=LambdaMART(**SMALL).fit, args=(parts[0],), kwargs={"callbacks": [look]})
    thread.start()
    thread.join()
    assert set(seen) == {previous}
    with pytest.raises(Broken):
        LambdaMART(**SMALL).fit(parts[0], callbacks=[raises_at(2)])
    assert signal.getsignal(signal.SIGINT) == previous


def test_one_signal_waits_for_the_end_of_the_step_and_two_do_not(parts):
    data, done = parts[0], []

    def press(times):
        def callback(progress):
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            done.append(progress.iteration)

        return callback

    for times, finished in ((1, [1]), (2, [])):
        done.clear()
        model = LambdaMART(**SMALL)
        with pytest.raises(KeyboardInterrupt, match="stopped after 1 tree;"):
            model.fit(data, callbacks=[press(times)])
        assert done == finished
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    # A fit inside a callback hears it too.
    with pytest.raises(KeyboardInterrupt, match="stopped after 1 tree;"):
        model.fit(data, callbacks=[lambda progress: LambdaMART(**SMALL).fit(data, callbacks=[press(1)]) and None])
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_an_interrupt_that_a_compiled_function_disguises_is_one_all_the_same(parts):
    """Numba's dispatcher can turn a KeyboardInterrupt inside it into a SystemError."""

    def disguised(progress):
        if progress.iteration == 3:
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    model = LambdaMART(**SMALL)
    with pytest.raises(KeyboardInterrupt, match="stopped after 3 trees"):
        model.fit(parts[0], callbacks=[disguised])
    before = state(model)
    with pytest.raises(SystemError):
        model.fit(parts[0], callbacks=[raises_at(2, SystemError)])
    assert_unchanged(model, before)


SIGNALS = """
import os, random, signal, sys, threading, time
import numpy as np
from podium.demo.letor import demo_splits
from podium.learners.trees.scoring.forest import FOREST_ARRAYS
from podium.models.trees.named import LambdaMART

splits = demo_splits(n_queries=80)
data, options = splits.train.subset(np.arange(12)), {"eval_set": [splits.valid.subset(np.arange(6))]}
parameters = {"max_leaf_nodes": 6, "min_samples_leaf": 5, "drop_rate": 0.5, "skip_drop": 0.1}
def look(model):
    return tuple(getattr(model.forest_, name).tobytes() for name in FOREST_ARRAYS), repr(model.evals_)
states, steps = set(), 20
for n in range(1, steps + 1):
    states.add(look(LambdaMART(n_estimators=n, **parameters).fit(data, **options)))
def seconds():
    started = time.perf_counter()
    LambdaMART(n_estimators=steps, n_jobs=1, **parameters).fit(data, **options)
    return time.perf_counter() - started
longest, draws = min(seconds() for _ in range(3)), random.Random(3)

def press(delay, times):
    time.sleep(delay)
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)

counts = {"kept": 0, "nothing": 0, "whole": 0}
for _ in range(int(sys.argv[1])):
    model = LambdaMART(n_estimators=steps, n_jobs=draws.choice([1, 1, 2]), **parameters)
    thread = threading.Thread(target=press, args=(draws.uniform(0, 1.2) * longest, draws.choice([1, 1, 2])))
    interrupted = False
    try:
        thread.start()
        model.fit(data, **options)
        thread.join()
        time.sleep(0.001)
    except KeyboardInterrupt:
        interrupted = True
    while True:
        try:
            thread.join()
            break
        except KeyboardInterrupt:
            pass
    fitted = hasattr(model, "forest_")
    assert interrupted
    assert not fitted or look(model) in states
    assert fitted or not [name for name in vars(model) if name.endswith("_")]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    counts["nothing" if not fitted else "whole" if model.forest_.n_trees == steps else "kept"] += 1
print(counts)
assert counts["kept"] > 0, counts
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_real_signals_at_random_moments_keep_whole_states():
    command = [sys.executable, "-W", "ignore", "-c", SIGNALS, "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_parameter_is_left_out_of_the_fitted_state():
    """Or a fit that fails would turn back what the user has set."""
    assert not [field.name for field in fields(LambdaMART) if field.name.endswith("_")]
