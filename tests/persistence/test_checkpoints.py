"""Checkpoints: a training that was killed at any moment ends in the same bytes as one that never stopped."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import mutations
import numpy as np
import pytest

import podium
from podium.formats.errors import FormatError
from podium.models.trees.named import MART, Boosted, LambdaMART, MatrixNet, RandomForest
from podium.persistence.checkpoints import Checkpoints, checksum, differing
from podium.workflows.training import plan_checkpoints

SMALL = {"n_estimators": 12, "max_leaf_nodes": 6, "min_samples_leaf": 5}
DART = SMALL | {"drop_rate": 0.4, "skip_drop": 0.2, "goss": (0.3, 0.3)}
RUNS = {
    "plain": (LambdaMART, SMALL),
    "sampled": (MART, SMALL | {"row_fraction": 0.7, "feature_fraction": 0.5, "objective": "ordinal"}),
    "dart": (LambdaMART, DART),
    "drawn": (MatrixNet, {"n_estimators": 8, "max_depth": 3, "objective": "xendcg", "bundle_features": True}),
    "categories": (LambdaMART, SMALL | {"categorical": [2], "monotone": {0: 1}}),
    "mean": (RandomForest, SMALL),
    "long lists": (Boosted, SMALL | {"metric": "map", "eval_metric": "ndcg@5"}),
}


class Killed(Exception):
    """Stands for the end of the process."""


def killed_after(step):
    def callback(progress):
        if progress.iteration == step:
            raise Killed

    return callback


def saved(model, folder, name="model.podium"):
    model.save(folder / name)
    return (folder / name).read_bytes()


@pytest.fixture(scope="module")
def parts(splits):
    """A few hundred rows to train on, and two sets to judge by."""
    return splits.train.subset(np.arange(12)), splits.valid, splits.test


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


def kill(model, data, step, path, **options):
    with pytest.raises(Killed):
        model.fit(data, checkpoint=path, callbacks=[killed_after(step)], **options)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("every", [1, 3])
def test_a_run_stopped_again_and_again_ends_in_the_same_bytes(name, every, parts, path, tmp_path):
    kind, parameters = RUNS[name]
    data, *evals = parts
    options = {"eval_set": evals, "early_stopping_rounds": 5}
    uninterrupted = kind(**parameters).fit(data, **options)
    whole, (curve, *_) = saved(uninterrupted, tmp_path), uninterrupted.evals_["eval_0"].values()
    for step in range(2, len(curve), 4):  # early stopping may come before n_estimators
        kill(kind(**parameters), data, step, path, every=every, **options)
    model = kind(**parameters, n_jobs=1).fit(data, checkpoint=path, every=every, **options)
    assert saved(model, tmp_path) == whole
    assert not path.exists()
    assert os.listdir(tmp_path) == ["model.podium"]


def test_the_best_trees_come_back_as_they_were_at_the_best_step(parts, path, tmp_path):
    """DART has made some of them smaller since."""
    data, valid, _ = parts
    parameters = DART | {"n_estimators": 40, "learning_rate": 0.9}
    options = {"eval_set": valid, "early_stopping_rounds": 6}
    model = LambdaMART(**parameters).fit(data, **options)
    whole, tried = saved(model, tmp_path), len(model.evals_["eval_0"]["ndcg@10"])
    assert tried == model.best_iteration_ + 6
    kill(LambdaMART(**parameters), data, tried - 1, path, every=1, **options)
    assert "best_leaves" in Checkpoints(path).read()[1]
    assert saved(LambdaMART(**parameters).fit(data, checkpoint=path, **options), tmp_path) == whole


def test_a_resumed_run_does_not_do_its_steps_again(parts, path, capsys):
    steps = []
    kill(LambdaMART(**SMALL), parts[0], 8, path, every=3)
    model = LambdaMART(**SMALL)
    model.fit(parts[0], checkpoint=path, verbose=100, callbacks=[lambda progress: steps.append(progress.iteration)])
    assert steps == list(range(7, 13))
    assert capsys.readouterr().out == f"{path}: resuming after 6 of 12 trees.\n"


@pytest.mark.parametrize("init", ["model", "scores"])
def test_base_models_and_base_scores_are_part_of_the_run(init, parts, path, tmp_path):
    data, valid, _ = parts
    bases = [MART(n_estimators=n, max_leaf_nodes=4).fit(data) for n in (3, 4)]
    first, second = bases if init == "model" else [base.predict(data) for base in bases]
    whole = saved(LambdaMART(**SMALL, init=first).fit(data, eval_set=valid), tmp_path)
    kill(LambdaMART(**SMALL, init=first), data, 5, path, every=2, eval_set=valid)
    with pytest.raises(ValueError, match=r"another training .what it starts from is 0 trees, checksum"):
        LambdaMART(**SMALL, init=second).fit(data, eval_set=valid, checkpoint=path)
    assert saved(LambdaMART(**SMALL, init=first).fit(data, eval_set=valid, checkpoint=path), tmp_path) == whole


def test_adding_trees_to_a_model_can_be_resumed_too(parts, path, tmp_path):
    data, valid, _ = parts
    begun, other = LambdaMART(**DART).fit(data), MART(**SMALL).fit(data)
    begun.save(tmp_path / "begun.podium")
    whole = saved(podium.load(tmp_path / "begun.podium").fit_more(data, n_estimators=8, eval_set=valid), tmp_path)
    stopped = podium.load(tmp_path / "begun.podium")
    options = {"n_estimators": 8, "eval_set": valid, "checkpoint": path}
    with pytest.raises(Killed):
        stopped.fit_more(data, every=4, callbacks=[killed_after(17)], **options)
    with pytest.raises(ValueError, match="another training"):
        other.fit_more(data, **options)
    assert saved(podium.load(tmp_path / "begun.podium").fit_more(data, **options), tmp_path) == whole
    assert not path.exists()


def test_a_training_that_has_come_to_its_end_leaves_nothing_and_ctrl_c_leaves_the_checkpoint(parts, path, tmp_path):
    def interrupt(progress):
        if progress.iteration == 7:
            raise KeyboardInterrupt

    whole = saved(LambdaMART(**SMALL).fit(parts[0], checkpoint=path, every=1), tmp_path)
    assert not path.exists()
    model = LambdaMART(**SMALL)
    with pytest.raises(KeyboardInterrupt, match="stopped after 7 trees"):
        model.fit(parts[0], checkpoint=path, every=3, callbacks=[interrupt])
    assert model.forest_.n_trees == 7
    assert path.exists()
    assert saved(LambdaMART(**SMALL).fit(parts[0], checkpoint=path), tmp_path) == whole


def test_what_a_killed_writer_left_behind_is_cleared_away(parts, path, tmp_path):
    orphan, stranger = tmp_path / f".{path.name}.0123456789ab.part", tmp_path / ".other.0123456789ab.part"
    for left in (orphan, stranger):
        left.write_bytes(b"half")
    LambdaMART(**SMALL).fit(parts[0], checkpoint=path)
    assert not orphan.exists()
    assert stranger.exists()


# --- other runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.2}, r"learning_rate is 0\.2 here and 'auto', which is 0\.05 there\)"),
        ({"metric": "map"}, "metric is 'map' here and 'ndcg@10' there"),
        ({"random_state": 1}, "random_state is 1 here and 0 there"),
        ({"n_estimators": 13, "max_bins": 9, "sigma": 2.0, "goss": (0.1, 0.1)}, r"; and 2 more\)"),
    ],
)
def test_other_parameters_are_refused_with_what_differs(change, message, parts, path):
    kill(LambdaMART(**SMALL), parts[0], 5, path, every=2)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        LambdaMART(**SMALL | change).fit(parts[0], checkpoint=path)
    assert str(caught.value).endswith("Delete it to begin anew, or give another path.")
    assert path.read_bytes() == before


def test_other_models_data_and_evaluation_sets_are_refused(parts, path):
    data, valid, test = parts
    kill(LambdaMART(**SMALL), data, 5, path, every=2, eval_set=[valid])
    X = data.X.copy()
    X[7, 0] += 1
    moved = replace(data, X=X)
    weighted = replace(data, query_weight=np.full(12, 2.0))

    def refused(model, rows, message, **options):
        with pytest.raises(ValueError, match=message):
            model.fit(rows, checkpoint=path, **options)

    refused(MART(**SMALL), data, "the model is MART here and LambdaMART there", eval_set=[valid])
    refused(LambdaMART(**SMALL), moved, "the training data is .* rows, 12 queries", eval_set=[valid])
    refused(LambdaMART(**SMALL), weighted, "the training data is", eval_set=[valid])
    refused(LambdaMART(**SMALL), data, "evaluation set 0 is", eval_set=[test])
    refused(LambdaMART(**SMALL), data, "the number of evaluation sets is 2 here and 1 there", eval_set=[valid, test])
    refused(LambdaMART(**SMALL), data, "early_stopping_rounds is 3", eval_set=[valid], early_stopping_rounds=3)
    LambdaMART(**SMALL, n_jobs=2).fit(data, eval_set=[valid], checkpoint=path)


def test_functions_are_reported_apart_by_their_code(parts, path):
    def pull(scores, labels, offsets):
        return scores - labels, np.ones_like(scores)

    def push(scores, labels, offsets):
        return 2 * (scores - labels), np.ones_like(scores)

    push.__name__, push.__qualname__ = pull.__name__, pull.__qualname__
    kill(Boosted(**SMALL, objective=pull), parts[0], 5, path, every=2)
    with pytest.raises(ValueError, match=r"objective is .*code"):
        Boosted(**SMALL, objective=push).fit(parts[0], checkpoint=path)
    Boosted(**SMALL, objective=pull).fit(parts[0], checkpoint=path)


def test_checksums_see_every_block_and_every_shape():
    array = np.zeros(3_000_000, np.float32)
    assert checksum([array]) == checksum([array], 1)
    for place in (0, 1_500_000, -1):
        other = array.copy()
        other[place] = 1
        assert checksum([other]) != checksum([array])
    assert checksum([array.reshape(3, -1)]) != checksum([array])
    assert differing({"a": "1", "b": "2"}, {"a": "1"}) == ["b is 2 here and not known there"]


# --- files that cannot be used ------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["flip", "cut", "append", "overwrite"])
def test_a_damaged_checkpoint_is_refused_and_stays(damage, parts, path, rng):
    kill(LambdaMART(**SMALL), parts[0], 5, path, every=2)
    content = bytearray(path.read_bytes())
    getattr(mutations, damage)(content, rng)
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"run\.checkpoint"):
        LambdaMART(**SMALL).fit(parts[0], checkpoint=path)
    assert path.read_bytes() == content


def test_other_files_are_never_written_over(parts, path, tmp_path):
    model = LambdaMART(**SMALL).fit(parts[0])
    model.save(path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match="holds a model, not a training under way"):
        LambdaMART(**SMALL).fit(parts[0], checkpoint=path)
    assert path.read_bytes() == before
    path.write_text("2 qid:1 1:0.5\n")
    with pytest.raises(FormatError, match="is no Podium checkpoint"):
        LambdaMART(**SMALL).fit(parts[0], checkpoint=path, checkpoint_errors="warn")
    path.unlink()
    kill(LambdaMART(**SMALL), parts[0], 5, path, every=2)
    with pytest.raises(FormatError, match="holds a training under way, not a model"):
        podium.load(path)
    with pytest.raises(IsADirectoryError):
        LambdaMART(**SMALL).fit(parts[0], checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be a whole number of steps from 1; got 0"),
        ({"every": True}, "every must be a whole number"),
        ({"checkpoint_errors": "ignore"}, "checkpoint_errors must be one of stop, warn; got 'ignore'"),
        ({"checkpoint": "run.gz"}, r"run\.gz: a checkpoint cannot be compressed"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message, parts, path):
    with pytest.raises(ValueError, match=message):
        LambdaMART(**SMALL).fit(parts[0], **({"checkpoint": path} | options))


# --- disks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["missing/run.checkpoint", "file/run.checkpoint"])
def test_a_folder_that_takes_no_file_is_reported_before_the_training(where, parts, tmp_path):
    (tmp_path / "file").write_text("no folder")

    def never(progress):
        raise AssertionError

    with pytest.raises(FileNotFoundError, match=r"does not exist\. Create it first"):
        LambdaMART(**SMALL).fit(parts[0], checkpoint=tmp_path / where, callbacks=[never])
    with pytest.warns(UserWarning, match=r"does not exist.*The training continues") as told:
        model = LambdaMART(**SMALL).fit(parts[0], checkpoint=tmp_path / where, every=1, checkpoint_errors="warn")
    assert len(told) == 1
    assert model.forest_.n_trees == 12


def test_a_folder_that_goes_away_stops_the_training_or_does_not(parts, tmp_path):
    def away(progress):
        if progress.iteration == 5:
            (tmp_path / "on").rename(tmp_path / "off")

    def back(progress):
        if progress.iteration == 9:
            (tmp_path / "off").rename(tmp_path / "on")

    (tmp_path / "on").mkdir()
    path = tmp_path / "on" / "run.checkpoint"
    with pytest.raises(OSError, match=r"cannot be written .*does not exist.*and the training stops"):
        LambdaMART(**SMALL).fit(parts[0], checkpoint=path, every=2, callbacks=[away])
    (tmp_path / "off").rename(tmp_path / "on")
    assert len(Checkpoints(path).read()[1]["depths"]) == 4  # still whole
    with pytest.warns(UserWarning, match="The training continues") as told:
        LambdaMART(**SMALL).fit(
            parts[0], checkpoint=path, every=2, checkpoint_errors="warn", callbacks=[away, back, killed_after(99)]
        )
    assert len(told) == 1
    assert not path.exists()


QUOTA = """
import resource, signal, sys, warnings
from podium.demo.letor import demo_splits
from podium.models.trees.named import LambdaMART

path, errors = sys.argv[1:]
data = demo_splits(n_queries=80).train
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def quota(progress):
    if progress.iteration == 5:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
warnings.simplefilter("always")
model = LambdaMART(n_estimators=12, max_leaf_nodes=6)
try:
    model.fit(data, checkpoint=path, every=2, checkpoint_errors=errors, callbacks=[quota])
    print(model.forest_.n_trees, "trees")
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the system")
@pytest.mark.parametrize("errors", ["stop", "warn"])
def test_a_disk_that_is_full_leaves_the_last_checkpoint_whole(errors, path, tmp_path):
    """The system lets no file grow beyond 4 kB from the fifth tree on."""
    command = [sys.executable, "-c", QUOTA, str(path), errors]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    if errors == "stop":
        assert "the checkpoint cannot be written (File too large), and the training stops." in done.stdout
        assert "The last one is still whole." in done.stdout
        assert os.listdir(tmp_path) == [path.name]
        assert len(Checkpoints(path).read()[1]["depths"]) == 4
    else:
        assert done.stdout == "12 trees\n"
        assert done.stderr.count("The last one is still whole. The training continues.") == 1


def test_a_checkpoint_that_cannot_be_removed_does_not_cost_the_model(path):
    checkpoints = Checkpoints(path)
    path.mkdir()  # since it was looked at
    with pytest.warns(UserWarning, match="could not be removed"):
        checkpoints.remove()


# --- kill -9 ------------------------------------------------------------------------------------------------------

KILLS = """
import os, random, select, signal, sys, traceback
from pathlib import Path
from time import perf_counter
from podium.demo.letor import demo_splits
from podium.models.trees.named import LambdaMART

case, folder = sys.argv[1], Path(sys.argv[2])
parts = demo_splits(n_queries=80)
options = {"eval_set": [parts.valid, parts.test], "early_stopping_rounds": 12}
more = {"drop_rate": 0.3, "skip_drop": 0.3, "goss": (0.3, 0.3)} if case == "dart" else {}
path, every = folder / "run.checkpoint", 1 if case == "dart" else 3

def train(name, **kept):
    model = LambdaMART(n_estimators=30, max_leaf_nodes=6, n_jobs=1, **more)
    model.fit(parts.train, **options, **kept).save(folder / name)

train("whole.podium")  # compiles
started = perf_counter()
train("kept.podium", checkpoint=path, every=every)
longest, draws, kills = perf_counter() - started, random.Random(7), 0
rounds = 0
while kills < 20 or rounds == 0:
    assert kills < 200
    child = os.fork()
    if child == 0:
        try:
            train(f"killed{rounds}.podium", checkpoint=path, every=every, verbose=1000)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    select.select([os.pidfd_open(child)], [], [], draws.uniform(0.1, 0.8) * longest)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    kills += os.WIFSIGNALED(status)
    rounds += os.WIFEXITED(status)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
print(kills, "kills")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork") or not sys.platform.startswith("linux"), reason="needs Linux")
@pytest.mark.parametrize("case", ["stopping", "dart"])
def test_killed_at_any_moment_a_run_ends_in_the_same_bytes(case, tmp_path):
    """A warm process forks the runs, so that they die while they train and not while they are loaded."""
    command = [sys.executable, "-u", "-W", "ignore", "-c", KILLS, case, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": resuming after ") >= 5
    assert len({file.read_bytes() for file in tmp_path.glob("*.podium")}) == 1
    assert {file.suffix for file in tmp_path.iterdir()} - {".checkpoint", ".part"} == {".podium"}


# --- the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def podium_train(tmp_path, monkeypatch, capsys, parts):
    """Runs `podium train` on two files in a folder of its own; returns its exit code and what it printed."""
    from podium import cli

    monkeypatch.chdir(tmp_path)
    for name, part in zip(("train.txt", "valid.txt"), parts):
        podium.write_letor(replace(part, feature_names=None), name)
    small = ["--set", "n_estimators=12", "--set", "max_leaf_nodes=6", "--set", "min_samples_leaf=5"]

    def run(*words):
        command = ["podium", "train", "lambdamart", "train.txt", "--valid", "valid.txt", *small, *words]
        monkeypatch.setattr(sys, "argv", command)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as end:
                cli.main()
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return run


def test_the_command_goes_on_from_its_checkpoint(podium_train):
    assert podium_train("--out", "whole.podium")[0] == 0
    model, checkpoint = LambdaMART(**SMALL), Path("run.checkpoint")
    kill(model, podium.read_letor("train.txt"), 8, checkpoint, every=3, eval_set=[podium.read_letor("valid.txt")])
    words = ["--checkpoint", "run.checkpoint", "--every", "3"]
    code, out, err = podium_train("--out", "m.podium", *words, "--set", "learning_rate=0.2")
    assert (code, out) == (2, "")
    difference = "learning_rate is 0.2 here and 'auto', which is 0.05 there"
    assert f"run.checkpoint: is the checkpoint of another training ({difference})" in err
    code, out, err = podium_train("--out", "m.podium", *words)
    assert code == 0
    assert "podium: run.checkpoint: resuming after 6 of 12 trees.\n" in err
    assert Path("m.podium").read_bytes() == Path("whole.podium").read_bytes()
    assert not checkpoint.exists()


def test_the_command_keeps_its_checkpoint_until_the_model_is_written(parts, path, tmp_path):
    kept = plan_checkpoints(path, 5, False, tmp_path / "m.podium")
    LambdaMART(**SMALL).fit(parts[0], checkpoint=kept)
    assert kept.ended
    assert path.exists()
    kept.remove()
    assert os.listdir(tmp_path) == []


def test_the_command_refuses_bad_checkpoints_before_it_reads_the_data(podium_train):
    Path("train.txt").write_text("no data")
    code, _, err = podium_train("--out", "m.podium", "--checkpoint", "./m.podium")
    assert code == 2
    assert "--checkpoint m.podium is --out too" in err
    code, _, err = podium_train("--out", "m.podium", "--every", "3")
    assert code == 2
    assert "--every needs a checkpoint file. Add --checkpoint FILE." in err
    code, _, err = podium_train("--out", "m.podium", "--checkpoint", "valid.txt")
    assert code == 2
    assert "valid.txt: is no Podium checkpoint" in err
    code, _, err = podium_train("--out", "m.podium", "--checkpoint", "none/run")
    assert code == 2
    assert "the folder none does not exist" in err


def test_the_command_can_train_without_checkpoints(podium_train):
    code, out, err = podium_train("--out", "m.podium", "--checkpoint", "none/run", "--checkpoint-errors=warn")
    assert code == 0
    assert "m.podium: written" in out
    assert err.count("The training continues.") == 1


def test_a_checkpoint_behind_a_link_is_written_resumed_and_removed_there_and_the_link_stays(parts, path, tmp_path):
    (tmp_path / "disk").mkdir()
    path.symlink_to(tmp_path / "disk" / "run")
    kill(LambdaMART(**SMALL), parts[0], 5, path, every=2)
    assert path.is_symlink()
    (tmp_path / "disk" / ".run.0123456789ab.part").write_bytes(b"left over")
    told = []
    kept = Checkpoints(path, 2, say=told.append)
    resumed = LambdaMART(**SMALL).fit(parts[0], checkpoint=kept)
    assert "resuming after 4 of 12 trees" in told[0]
    assert path.is_symlink()
    assert list((tmp_path / "disk").iterdir()) == []
    assert saved(resumed, tmp_path) == saved(LambdaMART(**SMALL).fit(parts[0]), tmp_path)
