"""Nets on the CPU: an epoch against eager PyTorch, scoring against bare matrix products, per-pair updates, MQ2008.

PyTorch's side is what one writes by hand: lists padded to the longest of the batch, all pairs of lambdas as tensors,
one backward pass, Adam. Both have the same lists, layers and batches, all cores, and data in memory. `bench_net_gpu.py`
has the same on a GPU. Quality on MQ2008 (`_mq2008.py`), beside LightGBM's rank_xendcg on the same columns, needs
$PODIUM_DATA/MQ2008 and takes minutes; `--only speed` leaves it out.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _mq2008 import METRICS, XENDCG, Values, criterion, per_query
from _quality import compare_means, mean_of
from _report import measure_in_turns, print_header, print_result

import podium
from podium.data.ranking import RankingData
from podium.learners.net.batches import shuffled_batches
from podium.learners.net.scoring import Inputs, NetFunction, NetShape
from podium.learners.net.training import HostRunner, NetRules, NetTraining
from podium.objectives import Lambda

FEATURES, HIDDEN, BATCH, CUTOFF = 136, 64, 4096, 10


def make_lists(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists of 40 to 200 documents, 120 on average, as in MSLR."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(40, 201, n_rows // 120)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    X = rng.standard_normal((offsets[-1], FEATURES), dtype=np.float32)
    y = np.clip(np.round(X[:, :6].sum(axis=1) / 2 + rng.standard_normal(len(X))), 0, 4)
    return X, y, offsets


# --- an epoch ------------------------------------------------------------------------------------------------------


def podium_epoch(X: np.ndarray, y: np.ndarray, offsets: np.ndarray) -> Any:
    inputs, rules = Inputs.of(X), NetRules(batch_size=BATCH, max_epochs=10**6)
    shape = NetShape(inputs.width, (HIDDEN,))
    target = Lambda("ndcg@10").bind(y, offsets)
    return NetTraining(inputs, shape, rules, HostRunner(inputs.columns(X), offsets, target, shape, rules)).step


def torch_epoch(X: np.ndarray, y: np.ndarray, offsets: np.ndarray) -> Any:
    """Padded eager PyTorch."""
    import torch

    gains = torch.as_tensor(np.exp2(y) - 1, dtype=torch.float32)
    columns = torch.as_tensor(Inputs.of(X).columns(X))
    discounts = 1 / np.log2(np.arange(CUTOFF) + 2.0)
    ideal = [np.sort(2 ** y[a:b] - 1)[::-1][:CUTOFF] for a, b in itertools.pairwise(offsets)]
    scale = torch.as_tensor([1 / max(best @ discounts[: len(best)], 1e-9) for best in ideal], dtype=torch.float32)
    table = torch.zeros(int(np.diff(offsets).max()))
    table[:CUTOFF] = torch.as_tensor(discounts)
    net = torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1))
    optimizer, state = torch.optim.Adam(net.parameters(), 1e-3), {"epoch": 0}

    def lambdas(scores: Any, v: Any, there: Any, s: Any) -> Any:
        order = torch.where(there, scores, -torch.inf).argsort(dim=1, descending=True, stable=True)
        place = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))
        weight = table[place]
        change = (v[:, :, None] - v[:, None, :]) * (weight[:, :, None] - weight[:, None, :]).abs()
        change = change * (there[:, :, None] & there[:, None, :])
        o = scores[:, :, None] - scores[:, None, :]
        return -s[:, None] * (change * torch.sigmoid(-torch.sign(change) * o)).sum(dim=2)

    def epoch() -> None:
        for queries in shuffled_batches(offsets, BATCH, 0, state["epoch"]):
            lengths = offsets[queries + 1] - offsets[queries]
            at = np.arange(lengths.max())
            there = torch.as_tensor(at < lengths[:, None])
            rows = torch.as_tensor(np.minimum(offsets[queries][:, None] + at, len(X) - 1))
            optimizer.zero_grad()
            scores = net(columns[rows])[:, :, 0]
            with torch.no_grad():
                gradients = lambdas(scores, gains[rows] * there, there, scale[queries]) / len(queries)
            scores.backward(gradients)
            optimizer.step()
        state["epoch"] += 1

    return epoch


def measure_epochs(n_rows: int, repeats: int) -> None:
    X, y, offsets = make_lists(n_rows)
    found = measure_in_turns({"podium": podium_epoch(X, y, offsets), "torch": torch_epoch(X, y, offsets)}, repeats)
    own, other = found["podium"], found["torch"]
    print(f"LambdaRank(ndcg@10), {len(X):,} rows x {FEATURES}, hidden {HIDDEN}, {BATCH:,} documents per batch")
    print(f"Podium {own.best:.3f} s per epoch (first, with compilation: {own.first:.1f} s), PyTorch {other.best:.3f} s")
    ratio = other.best / own.best
    print_result("CPU epoch of LambdaRank", "eager PyTorch", f"{ratio:.2f}x", "at least 3x", ratio >= 3)


# --- scoring -------------------------------------------------------------------------------------------------------


def measure_scoring(repeats: int) -> None:
    X, _, _ = make_lists(100_000)
    X = np.ascontiguousarray(X[:100_000])
    shape = NetShape(FEATURES, (HIDDEN,))
    function = NetFunction(shape, Inputs.of(X), shape.start(0, 1))
    layers = shape.unpack(function.weights[0])
    bare = {"net": lambda: function.scores(X), "bare": lambda: (X @ layers[0].matrix) @ layers[1].matrix}
    found = measure_in_turns(bare, repeats)
    own, other = found["net"].best, found["bare"].best
    print(f"{len(X):,} documents: {own * 1e3:.1f} ms, its matrix products alone {other * 1e3:.1f} ms")
    what, ratio = "scoring 100k documents by a net", own / other
    print_result(what, "its matrix products", f"{ratio:.2f}x", "at most 1.5x", ratio <= 1.5)


# --- per-pair updates ----------------------------------------------------------------------------------------------


def measure_pairs() -> None:
    X, y, offsets = make_lists(2_400, seed=3)
    qid, times = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), {}
    for update in ("batch", "pair"):
        marks: list[float] = []
        podium.RankNet(update=update, max_epochs=4, batch_size=600).fit(
            X, y, qid, callbacks=[lambda progress, marks=marks: marks.append(time.perf_counter())]
        )
        times[update] = min(np.diff(marks))
    ratio = times["pair"] / times["batch"]
    print_result("RankNet, per-pair updates", "one backward pass per batch", f"{ratio:.0f}x slower")


# --- MQ2008 --------------------------------------------------------------------------------------------------------

INNER_SEEDS = (100, 101)  # for the choice; others than those of the test
SMALL = {
    "transform": ("zscore", "rank"),
    "hidden_layer_sizes": (32,),
    "dropout": 0.3,
    "learning_rate": 5e-3,
    "schedule": "linear",
    "weight_decay": 3e-2,
    "derivatives": "device",  # one program to compile, not one per size of batch
    "n_jobs": 1,
}
EPOCHS = (20, 30, 40, 50, 60)
NETS = {
    "a bag of ten RankNets": ("RankNet", {"pair_exponent": 0.5, "n_nets": 10}),
    "RankNet": ("RankNet", {"pair_exponent": 0.5}),
    "LambdaRank": ("LambdaRank", {}),
    "ListNet": ("ListNet", {}),
    "ListMLE": ("ListMLE", {}),
}
BASELINE = "LightGBM rank_xendcg"
BASELINE_SETTINGS = ((7, 40, 100), (7, 40, 200), (15, 40, 60), (15, 40, 120), (31, 40, 60))
"""As many as EPOCHS: leaves, documents per leaf, trees."""
BARS = dict.fromkeys(NETS, (0.4696, 0.4832)) | {"a bag of ten RankNets": (0.487, 0.497)}  # MAP, MeanNDCG
FOLDED = {"a bag of ten RankNets": (0.489, 0.501)}  # trained again with the validation part


def read_parts(folder: Path, numbers: tuple[int, ...]) -> RankingData:
    return RankingData.concat([podium.read_letor(folder / f"S{number % 5 + 1}.txt.xz") for number in numbers])


def settings_of(name: str) -> Sequence[Any]:
    return BASELINE_SETTINGS if name == BASELINE else EPOCHS


def fit(name: str, data: RankingData, seed: int, setting: Any) -> Any:
    """Features within their query, as z-scores and ranks, for all; nets have 8 batches per epoch."""
    if name == BASELINE:
        return XENDCG(*setting, SMALL["transform"], seed).fit(data)
    kind, own = NETS[name]
    batch = -(-data.n_rows // 8)
    return getattr(podium, kind)(**SMALL, **own, max_epochs=setting, batch_size=batch, random_state=seed).fit(data)


def judge_settings(folder: Path, name: str, held: tuple[int, int]) -> np.ndarray:
    """(settings, 2): MAP + MeanNDCG of both held parts for models that were trained on the three others."""
    train = read_parts(folder, tuple(sorted(set(range(5)) - set(held))))
    parts = [read_parts(folder, (part,)) for part in held]
    values = np.zeros((len(settings_of(name)), 2))
    for number, setting in enumerate(settings_of(name)):
        models = [fit(name, train, seed, setting) for seed in INNER_SEEDS]
        values[number] = [np.mean([criterion(model.predict(part), part) for model in models]) for part in parts]
    return values


def choose_setting(name: str, judged: dict[tuple[int, int], np.ndarray], test: int) -> Any:
    """The best on average over the four parts other than `test`, each judged by models of the rest."""
    values = [found[:, 1 - held.index(test)] for held, found in judged.items() if test in held]
    return settings_of(name)[int(np.mean(values, axis=0).argmax())]


def measure_test(folder: Path, name: str, parts: tuple[int, ...], test: int, setting: Any, seeds: int) -> Values:
    """Values per query of a test part, the mean over seeds, for models that were trained on these parts."""
    train, data = read_parts(folder, parts), read_parts(folder, (test,))
    found = [per_query(fit(name, train, seed, setting).predict(data), data) for seed in range(seeds)]
    return {metric: np.mean([values[metric] for values in found], axis=0) for metric in METRICS}


Tested = dict[tuple[str, int], list[Values]]
"""By name and number of training parts: the values of each fold's test part."""


def measure_mq2008(folder: Path, seeds: int, names: list[str]) -> None:
    """Fold k is tested on part k + 4 and trained on k to k + 2, or on k to k + 3 with the validation part.

    The number of epochs, or LightGBM's setting, is chosen by inner folds over the four parts of training and
    validation, and the test part is seen after that; the other settings were chosen on validation parts. One process
    per core, each with one thread: products this small have no work for two.
    """
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    started, tested = time.perf_counter(), {}
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for name in (BASELINE, *names):
            inner = {
                held: pool.submit(judge_settings, folder, name, held) for held in itertools.combinations(range(5), 2)
            }
            judged = {held: task.result() for held, task in inner.items()}
            chosen = [choose_setting(name, judged, (fold + 4) % 5) for fold in range(5)]
            for length in (3, 4) if name == BASELINE or name in FOLDED else (3,):
                tasks = [
                    pool.submit(measure_test, folder, name, tuple(range(k, k + length)), k + 4, chosen[k], seeds)
                    for k in range(5)
                ]
                tested[name, length] = [task.result() for task in tasks]
            print(f"{name}: settings by fold {chosen}; {time.perf_counter() - started:.0f} s", flush=True)
    report(tested, seeds)


def report(tested: Tested, seeds: int) -> None:
    parts = {(*key, metric): [own[metric] for own in values] for key, values in tested.items() for metric in METRICS}
    own = [key for key in tested if key[0] != BASELINE]
    titles = {key: f"{key[0]}{', validation part folded in' if key[1] == 4 else ''}" for key in own}
    for key in own:
        bar, found = (FOLDED if key[1] == 4 else BARS)[key[0]], [mean_of(parts[*key, metric]) for metric in METRICS]
        what, met = f"MQ2008, {titles[key]}, mean of {seeds} seeds", found[0] >= bar[0] and found[1] >= bar[1]
        shown = f"{found[0]:.4f} / {found[1]:.4f}"
        print_result(what, "MAP / MeanNDCG", shown, f"at least {bar[0]} / {bar[1]}", met)
    for metric in METRICS:
        gains = compare_means({key: (parts[*key, metric], parts[BASELINE, key[1], metric]) for key in own})
        for key, gain in gains.items():
            shown = f"{mean_of(parts[*key, metric]):.4f}, {gain}"
            print_result(f"MQ2008 {metric}, {titles[key]}, mean of {seeds} seeds", BASELINE, shown)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", choices=["speed", "quality"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS))
    options = parser.parse_args()
    print_header("Nets", ["jax", "optax", "torch"])
    if options.only != "quality":
        if find_spec("torch") is None:
            print("PyTorch is not installed (pip install torch): no epochs of it.")
        else:
            measure_epochs(options.rows, options.repeats)
        measure_scoring(10 * options.repeats)
        measure_pairs()
    if options.only != "speed":
        if "PODIUM_DATA" not in os.environ:
            print("PODIUM_DATA is not set: no MQ2008 here.")
            return
        measure_mq2008(Path(os.environ["PODIUM_DATA"]) / "MQ2008", options.seeds, options.nets)


if __name__ == "__main__":
    main()
