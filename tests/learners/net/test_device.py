"""Epochs on a device: one program, the moves of the host on the same batches, and nothing but JAX is imported."""

import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import podium
from podium.learners.net.device import DeviceRules, DeviceRunner, ListClasses, epoch_program, shared_size
from podium.learners.net.optimization import OptimizerRules, make_optimizer, start_memory
from podium.learners.net.scoring import NetShape
from podium.learners.net.training import HostRunner, NetRules
from podium.objectives import parse_objective

LENGTHS = [1, 3, 20, 7, 9, 33, 12, 4, 5, 16, 2, 8]


def lists(rng, lengths=LENGTHS):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    X = rng.standard_normal((offsets[-1], 4)).astype(np.float32)
    return X, np.clip(np.round(X[:, 0] + 1), 0, 3), offsets


@pytest.mark.parametrize("objective", ["ranknet", "lambda", "listmle", "xendcg", "squared"])
@pytest.mark.parametrize("n_nets", [1, 2])
@pytest.mark.parametrize("with_base", [False, True])
def test_an_epoch_makes_the_moves_of_the_host_on_the_same_batches(rng, objective, n_nets, with_base):
    X, y, offsets = lists(rng)
    base = rng.standard_normal(len(X)) if with_base else None
    shape, optimizer = NetShape(4, (5,)), OptimizerRules("sgd", 0.05)
    rules = NetRules(n_nets=n_nets, optimizer=optimizer, batch_size=40)
    target = parse_objective(objective).bind(y, offsets)
    target.begin(2)
    form = target.on_device()
    own = DeviceRules(shape, optimizer, n_nets=n_nets)
    runner = DeviceRunner(X, offsets, lambda epoch: form, own, 40, rules.rates, base=base)
    weights = jnp.asarray(shape.start(1, n_nets))
    memory = start_memory(make_optimizer(optimizer, shape.penalised()), weights)
    found, _ = runner.epoch(2, weights, memory)
    host = HostRunner(X, offsets, target, shape, rules, base)
    parts, _ = runner.classes.epoch(0, 2)
    assert len(parts[0]) == runner.classes.n_batches == 3
    for batch in range(3):
        queries = np.concatenate([part[batch] for part in parts])
        weights, memory = host._batch(queries[queries >= 0].astype(np.int64), 0.05, None, weights, memory)
    np.testing.assert_allclose(np.asarray(found), np.asarray(weights), rtol=1e-5, atol=1e-5)


def test_classes_spread_their_lists_evenly_and_use_each_once(rng):
    lengths = rng.integers(1, 300, 500)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    classes = ListClasses(offsets, 5000)
    parts, largest = classes.epoch(3, 0)
    assert classes.widths == [8, 16, 32, 64, 128, 256, 320]  # 299 documents, in a size that is shared
    for part, width in zip(parts, classes.widths):
        there = (part >= 0).sum(axis=1)
        assert there.max() - there.min() <= 1
        assert (lengths[part[part >= 0]] <= width).all()
    chosen = np.concatenate([part[part >= 0] for part in parts])
    assert sorted(chosen.tolist()) == list(range(500))
    rows = [sum(lengths[part[b][part[b] >= 0]].sum() for part in parts) for b in range(classes.n_batches)]
    assert largest == max(rows)
    assert (
        np.concatenate([p.ravel() for p in parts]) != np.concatenate([p.ravel() for p in classes.epoch(3, 1)[0]])
    ).any()


def test_an_epoch_is_one_program_and_later_ones_compile_nothing(rng):
    X, y, offsets = lists(rng, rng.integers(1, 40, 60))
    shape, optimizer = NetShape(4, (6,)), OptimizerRules()
    form = parse_objective("ranknet").bind(y, offsets).on_device()
    rules = DeviceRules(shape, optimizer, dropout=0.1)
    runner = DeviceRunner(X, offsets, lambda epoch: form, rules, 300, lambda epoch, n: [1e-3] * n)
    weights = jnp.asarray(shape.start(1, 1))
    memory = start_memory(make_optimizer(optimizer, shape.penalised()), weights)
    before = epoch_program.cache_info().misses
    for number in range(5):
        weights, memory = runner.epoch(number, weights, memory)
    assert epoch_program.cache_info().misses - before == 1
    program = epoch_program(rules, form.gradients, tuple(runner.classes.widths), runner._largest)
    assert program._cache_size() == 1


def test_data_of_nearly_the_same_size_share_a_program(rng):
    """113 and 117 lists of 5 or 12 documents, in 3 batches: room for 40 lists per batch and 1,024 rows each."""
    shape, optimizer = NetShape(4, (5,)), OptimizerRules()
    rules = DeviceRules(shape, optimizer)
    for n_short, n_long in ((58, 55), (60, 57)):
        X, y, offsets = lists(rng, np.repeat([5, 12], [n_short, n_long]))
        form = parse_objective("ranknet").bind(y, offsets).on_device()
        runner = DeviceRunner(X, offsets, lambda epoch, form=form: form, rules, 340, lambda epoch, n: [1e-3] * n)
        weights = jnp.asarray(shape.start(1, 1))
        runner.epoch(0, weights, start_memory(make_optimizer(optimizer, shape.penalised()), weights))
    program = epoch_program(rules, form.gradients, tuple(runner.classes.widths), runner._largest)
    assert program._cache_size() == 1


def test_shared_sizes_are_at_most_a_quarter_larger():
    assert [shared_size(n) for n in (0, 1, 7, 8, 9, 15, 17, 33, 1000, 2**17 + 1)] == [
        0,
        1,
        7,
        8,
        10,
        16,
        20,
        40,
        1024,
        2**17 + 1,
    ]
    assert all(n <= shared_size(n) <= 1.25 * n for n in range(5000))


@pytest.mark.parametrize("objective", ["lambda", "xendcg"])
def test_a_model_is_trained_on_the_device_and_resumed_in_the_same_bytes(splits, tmp_path, objective):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 5:
            raise Killed

    def make():
        return podium.Net(objective=objective, derivatives="device", max_epochs=8, dropout=0.1, learning_rate=5e-3)

    make().fit(splits.train).save(tmp_path / "whole.podium")
    kept = {"checkpoint": tmp_path / "run.check", "every": 2}
    with pytest.raises(Killed):
        make().fit(splits.train, **kept, callbacks=[kill])
    resumed = make().fit(splits.train, **kept)
    resumed.save(tmp_path / "resumed.podium")
    assert (tmp_path / "whole.podium").read_bytes() == (tmp_path / "resumed.podium").read_bytes()
    constant = podium.evaluate(np.zeros(splits.test.n_rows), splits.test, metrics=["ndcg@10"])["ndcg@10"]
    assert resumed.score(splits.test) > constant + 0.1


def test_objectives_of_the_users_own_stay_on_the_host_with_one_warning(splits):
    def squared(scores, labels, offsets):
        return scores - labels, np.ones(len(labels))

    with pytest.warns(
        UserWarning, match="'custom' has no form for a device; its derivatives are computed on the host"
    ) as seen:
        asked = podium.Net(objective=squared, derivatives="device", max_epochs=2).fit(splits.train)
    assert len(seen) == 1
    host = podium.Net(objective=squared, derivatives="host", max_epochs=2).fit(splits.train)
    np.testing.assert_array_equal(asked.net_.weights, host.net_.weights)


def test_half_precision_trains_nearly_the_same_net(splits):
    scores = [
        podium.LambdaRank(derivatives="device", precision=precision, max_epochs=3)
        .fit(splits.train)
        .predict(splits.test)
        for precision in ("float32", "bfloat16")
    ]
    assert 0 < np.abs(scores[0] - scores[1]).max() < 0.05 * np.ptp(scores[0])


def test_the_modules_of_the_device_import_nothing_but_jax():
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('numba', 'llvmlite', 'sklearn', 'narwhals', 'pandas'):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import podium.learners.net.device
print(sorted(name for name in sys.modules if name.startswith('podium')))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ["attention", "attention_network", "device", "network", "optimization", "scoring"]
    shared = ["podium", "podium._runtime", "podium._runtime.lazy", "podium._runtime.once", "podium.data"]
    shared += ["podium.data.standardising", "podium.learners", "podium.learners.net"]
    assert done.stdout.strip() == str([*shared, *(f"podium.learners.net.{name}" for name in names)])
    folder = Path(podium.__file__).parent / "learners" / "net"
    for name in [*names, "batches", "../../_runtime/__init__", "../../_runtime/once"]:
        text = (folder / f"{name}.py").read_text()
        used = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
        known = {
            "__future__",
            "collections",
            "dataclasses",
            "functools",
            "importlib",
            "itertools",
            "math",
            "os",
            "threading",
            "typing",
        }
        assert used - known <= {"jax", "numpy", "optax", "podium"}, name


@pytest.mark.parametrize("budget", [1, 7, 40, 10_000])
@pytest.mark.parametrize("lengths", [[40], [1], [40, 3, 5], [40, 40], [1, 1, 50], [3, 9, 17, 33, 65], LENGTHS])
def test_no_batch_is_empty_also_where_a_query_is_longer_than_a_batch(lengths, budget):
    classes = ListClasses(np.concatenate([[0], np.cumsum(lengths)]), budget)
    for epoch in range(20):
        parts, largest = classes.epoch(1, epoch)
        batches = [np.concatenate([part[batch] for part in parts]) for batch in range(classes.n_batches)]
        assert all((batch >= 0).any() for batch in batches)
        assert sorted(query for batch in batches for query in batch if query >= 0) == list(range(len(lengths)))
        assert largest == max(sum(lengths[query] for query in batch if query >= 0) for batch in batches)
