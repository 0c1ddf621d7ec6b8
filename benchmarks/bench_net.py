"""Nets on the CPU: an epoch against eager PyTorch, scoring against bare matrix products, per-pair updates, MQ2008.

PyTorch's side is what one writes by hand: lists padded to the longest of the batch, all pairs of lambdas as tensors,
one backward pass, Adam. Both have the same lists, layers and batches, all cores, and data in memory. `bench_net_gpu.py`
has the same on a GPU. Quality on MQ2008 needs $PODIUM_DATA/MQ2008 and takes long: `--mq2008`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
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
                pulls = lambdas(scores, gains[rows] * there, there, scale[queries]) / len(queries)
            scores.backward(pulls)
            optimizer.step()
        state["epoch"] += 1

    return epoch


def measure_epochs(n_rows: int, repeats: int) -> None:
    X, y, offsets = make_lists(n_rows)
    found = measure_in_turns({"podium": podium_epoch(X, y, offsets), "torch": torch_epoch(X, y, offsets)}, repeats)
    own, other = found["podium"], found["torch"]
    print(f"LambdaRank(ndcg@10), {len(X):,} rows x {FEATURES}, hidden {HIDDEN}, {BATCH:,} documents per batch")
    print(f"Podium {own.best:.3f} s per epoch (first, with compilation: {own.first:.1f} s), PyTorch {other.best:.3f} s")
    print_result("CPU epoch of LambdaRank", "eager PyTorch", f"{other.best / own.best:.2f}x", "at least 3x")


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
    print_result("scoring 100k documents by a net", "its matrix products", f"{own / other:.2f}x", "at most 1.5x")


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
    print_result(
        "RankNet, per-pair updates", "one backward pass per batch", f"{times['pair'] / times['batch']:.0f}x slower", ""
    )


# --- MQ2008 --------------------------------------------------------------------------------------------------------

EPOCHS = (20, 40, 60)
METRICS = ("map", "meanndcg")
SMALL = {
    "transform": ("zscore", "rank"),
    "hidden_layer_sizes": (32,),
    "dropout": 0.3,
    "learning_rate": 5e-3,
    "schedule": "linear",
    "weight_decay": 1e-2,
}


def read_folds(folder: Path) -> list[tuple[RankingData, RankingData, RankingData]]:
    """Per fold, training, validation and test part."""
    parts = [podium.read_letor(folder / f"S{number}.txt.xz") for number in range(1, 6)]
    turned = [[parts[(fold + k) % 5] for k in range(5)] for fold in range(5)]
    return [(RankingData.concat(own[:3]), own[3], own[4]) for own in turned]


def fit_net(kind: str, data: RankingData, epochs: int, seed: int, n_nets: int) -> Any:
    """Features within their query, as z-scores and ranks; 8 batches per epoch."""
    own = {"pair_exponent": 0.5} if kind == "RankNet" else {}
    batch = -(-data.n_rows // 8)
    model = getattr(podium, kind)(**SMALL, **own, max_epochs=epochs, batch_size=batch, random_state=seed, n_nets=n_nets)
    return model.fit(data)


def judge(model: Any, data: RankingData) -> np.ndarray:
    found = podium.evaluate(model.predict(data), data, metrics=METRICS, policy="letor4")
    return np.array([found[name] for name in METRICS])


def measure_fold(kind: str, n_nets: int, seeds: int, parts: tuple[RankingData, RankingData, RankingData]) -> np.ndarray:
    """Test values (2, 2): trained on the training part, and on the validation part too.

    The number of epochs is the one with the best validation values, on average over the seeds.
    """
    train, valid, test = parts
    models = {(epochs, seed): fit_net(kind, train, epochs, seed, n_nets) for epochs in EPOCHS for seed in range(seeds)}
    values = {epochs: sum(judge(models[epochs, seed], valid).sum() for seed in range(seeds)) for epochs in EPOCHS}
    chosen = max(EPOCHS, key=values.__getitem__)
    alone = np.mean([judge(models[chosen, seed], test) for seed in range(seeds)], axis=0)
    if n_nets == 1:
        return np.array([alone, alone])
    both = RankingData.concat([train, valid])
    folded = [judge(fit_net(kind, both, chosen, seed, n_nets), test) for seed in range(seeds)]
    return np.array([alone, np.mean(folded, axis=0)])


def measure_mq2008(folder: Path, seeds: int, kinds: list[str]) -> None:
    folds = read_folds(folder)
    for name in kinds:
        kind, n_nets = ("RankNet", 10) if name == "bag" else (name, 1)
        alone, folded = np.mean([measure_fold(kind, n_nets, seeds, parts) for parts in folds], axis=0)
        what, bar = f"MQ2008, {name}, mean of {seeds} seeds", "at least 0.4696 / 0.4832"
        if name == "bag":
            what, bar = f"MQ2008, a bag of ten RankNets, mean of {seeds} seeds", "at least 0.487 / 0.497"
        print_result(what, "MAP / MeanNDCG", f"{alone[0]:.4f} / {alone[1]:.4f}", bar)
        if name == "bag":
            shown = f"{folded[0]:.4f} / {folded[1]:.4f}"
            print_result(f"{what}, validation part folded in", "MAP / MeanNDCG", shown, "at least 0.489 / 0.501")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--mq2008", action="store_true", help="quality only")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=["bag", "RankNet", "LambdaRank", "ListNet", "ListMLE"])
    options = parser.parse_args()
    print_header("Nets", ["jax", "optax", "torch"])
    folder = os.environ.get("PODIUM_DATA")
    if options.mq2008:
        if not folder:
            raise SystemExit("PODIUM_DATA is not set: no MQ2008 here.")
        measure_mq2008(Path(folder) / "MQ2008", options.seeds, options.kinds)
        return
    measure_epochs(options.rows, options.repeats)
    measure_scoring(options.repeats)
    measure_pairs()


if __name__ == "__main__":
    main()
