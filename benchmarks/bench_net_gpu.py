"""An epoch of LambdaRank(ndcg@10) on a GPU, against padded eager PyTorch on the same GPU in the same run.

33,000 queries of 81 to 128 documents, 136 features, hidden layers 512, 256, 128, batches of 512 queries. Needs JAX,
optax, PyTorch and a GPU, and no Numba; without a GPU it says so and ends, unless --smoke asks for a small epoch on any
device, without PyTorch. Both sides have their data on the GPU beforehand. Derivatives are compared with a float64
reference in NumPy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _report import Row, bars_line, commit_of, table_of

from podium.metrics.closed_forms import ADDITIVE
from podium.objectives.device import DeviceObjective
from podium.objectives.lambdas import lambda_gradients

HIDDEN = (512, 256, 128)
CUTOFF, FEATURES, LONGEST = 10, 136, 128
PEAK_FLOPS, PEAK_BYTES = 790e12, 4.3e12  # bf16 products and copies, as measured on an H200


def make_lists(n_queries: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(81, LONGEST + 1, n_queries)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.standard_normal((offsets[-1], FEATURES), dtype=np.float32)
    signal = X[:, :8].sum(axis=1) / 3 + np.tanh(X[:, 8] * X[:, 9]) + rng.standard_normal(len(X)).astype(np.float32)
    return X, np.clip(np.round(signal + 0.5), 0, 4).astype(np.float32), offsets


def make_objective(labels: np.ndarray, offsets: np.ndarray) -> DeviceObjective:
    """Lambda of NDCG@10, as it is bound where Numba is installed."""
    gains = np.exp2(labels.astype(np.float64)) - 1
    discounts = np.where(np.arange(LONGEST) < CUTOFF, 1 / np.log2(np.arange(LONGEST) + 2.0), 0.0)
    ideal = np.array(
        [np.sort(gains[a:b])[::-1][:CUTOFF] @ discounts[: min(CUTOFF, b - a)] for a, b in pairwise(offsets)]
    )
    scales = np.divide(1.0, ideal, out=np.zeros(len(ideal)), where=ideal > 0)
    settings = {"kind": ADDITIVE, "cutoff": CUTOFF, "sigma": 1.0, "normalised": False}
    queries = {"weight": np.ones(len(ideal)), "scale": scales}
    return DeviceObjective.of(lambda_gradients, {"value": gains}, queries, settings, discounts)


def slow_lambdas(scores: np.ndarray, gains: np.ndarray, scale: float, table: np.ndarray) -> np.ndarray:
    """One query, float64."""
    table, place = table.astype(np.float64), np.empty(len(scores), np.int64)
    place[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    change = (gains[:, None] - gains) * np.abs(table[place][:, None] - table[place])
    o = scores[:, None] - scores
    return -scale * (change / (1 + np.exp(np.sign(change) * o))).sum(axis=1)


def best_of(work: Any, repeats: int) -> tuple[float, float]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times), float(np.median(times))


# --- Podium's device path ------------------------------------------------------------------------------------------


def podium_side(
    X: Any, objective: DeviceObjective, offsets: np.ndarray, batch_rows: int, precision: str, repeats: int
) -> dict:
    import jax
    import jax.numpy as jnp

    from podium.learners.net.device import DeviceRules, DeviceRunner
    from podium.learners.net.optimization import OptimizerRules, make_optimizer, start_memory
    from podium.learners.net.scoring import NetShape

    shape = NetShape(FEATURES, HIDDEN)
    rules = DeviceRules(shape, OptimizerRules("adam", 1e-3), precision=precision)
    runner = DeviceRunner(X, offsets, lambda epoch: objective, rules, batch_rows, lambda epoch, n: [1e-3] * n)
    weights = jnp.asarray(shape.start(0, 1))
    state = [weights, start_memory(make_optimizer(rules.optimizer, shape.penalised()), weights), 0]

    def epoch() -> None:
        state[0], state[1] = runner.epoch(state[2], state[0], state[1])
        state[2] += 1
        jax.block_until_ready(state[0])

    start = time.perf_counter()
    epoch()
    first = time.perf_counter() - start
    best, median = best_of(epoch, repeats)
    return {"first": first, "best": best, "median": median, "weights": np.asarray(state[0]), "shape": shape,
            "batches": runner.classes.n_batches, "rows": runner._largest, "runner": runner, "epoch": epoch}  # fmt: skip


def derivative_error(
    objective: DeviceObjective, labels: np.ndarray, offsets: np.ndarray, n_queries: int = 300
) -> float:
    """The largest difference from the reference, relative to the largest derivative of the list."""
    import jax

    rng = np.random.default_rng(5)
    worst = 0.0
    derive = jax.jit(objective.gradients)
    chosen = rng.choice(len(offsets) - 1, n_queries, replace=False)
    scores, mask, value = (np.zeros((n_queries, LONGEST), kind) for kind in (np.float32, bool, np.float32))
    for k, q in enumerate(chosen):
        n = offsets[q + 1] - offsets[q]
        scores[k, :n], mask[k, :n] = rng.standard_normal(n), True
        value[k, :n] = objective.rows["value"][offsets[q] : offsets[q + 1]]
    own = {name: values[chosen] for name, values in objective.queries.items()}
    found = np.asarray(derive(scores, mask, {"value": value}, own, objective.table))
    for k, q in enumerate(chosen):
        n = offsets[q + 1] - offsets[q]
        exact = slow_lambdas(
            *(part[k, :n].astype(np.float64) for part in (scores, value)), own["scale"][k], objective.table
        )
        worst = max(worst, np.abs(found[k, :n] - exact).max() / max(np.abs(exact).max(), 1e-30))
    return float(worst)


# --- padded eager PyTorch ------------------------------------------------------------------------------------------


def torch_side(
    X: np.ndarray, objective: DeviceObjective, offsets: np.ndarray, batch: int, repeats: int, mixed: bool
) -> dict:
    import torch

    device = torch.device("cuda")
    n_queries = len(offsets) - 1
    lengths = np.diff(offsets)
    padded = torch.zeros((n_queries, LONGEST, FEATURES), device=device)
    value = torch.zeros((n_queries, LONGEST), device=device)
    there = torch.as_tensor(np.arange(LONGEST) < lengths[:, None], device=device)
    padded[there] = torch.as_tensor(X, device=device)
    value[there] = torch.as_tensor(objective.rows["value"], device=device)
    scale, table = (
        torch.as_tensor(objective.queries["scale"], device=device),
        torch.as_tensor(objective.table, device=device),
    )
    torch.backends.cuda.matmul.allow_tf32 = mixed
    torch.manual_seed(0)
    sizes = (FEATURES, *HIDDEN)
    layers: list[Any] = []
    for a, b in pairwise(sizes):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(HIDDEN[-1], 1)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def lambdas(scores: Any, v: Any, m: Any, s: Any) -> Any:
        order = torch.where(m, scores, -torch.inf).argsort(dim=1, descending=True, stable=True)
        place = torch.empty_like(order).scatter_(1, order, torch.arange(LONGEST, device=device).expand_as(order))
        weight = table[place]
        change = (v[:, :, None] - v[:, None, :]) * (weight[:, :, None] - weight[:, None, :]).abs()
        change = change * (m[:, :, None] & m[:, None, :])
        o = scores[:, :, None] - scores[:, None, :]
        return -s[:, None] * (change * torch.sigmoid(-torch.sign(change) * o)).sum(dim=2)

    def epoch() -> None:
        order = torch.randperm(n_queries, device=device)
        for start in range(0, n_queries, batch):
            chosen = order[start : start + batch]
            m = there[chosen]
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
                scores = net(padded[chosen])[:, :, 0]
            with torch.no_grad():
                gradients = lambdas(scores.float(), value[chosen], m, scale[chosen]) / len(chosen)
            scores.backward(gradients.to(scores.dtype))
            optimizer.step()
        torch.cuda.synchronize()

    epoch()
    best, median = best_of(epoch, repeats)
    return {"best": best, "median": median}


def flops_and_bytes() -> tuple[int, int]:
    """Per row of an epoch: operations of the products, and traffic in bf16 (rows twice, activations and slopes)."""
    widths = tuple(zip((FEATURES, *HIDDEN), (*HIDDEN, 1)))
    flops = sum((4 if number == 0 else 6) * a * b for number, (a, b) in enumerate(widths))  # none by the inputs
    return flops, 2 * (3 * FEATURES + 7 * sum(HIDDEN))


def measure(n_queries: int, repeats: int, with_torch: bool = True) -> Iterator[Row]:
    X, labels, offsets = make_lists(n_queries)
    objective, what = make_objective(labels, offsets), f"GPU epoch of LambdaRank, {len(labels):,} rows x {FEATURES}"
    error = derivative_error(objective, labels, offsets)
    yield Row("lambdas on the GPU", "float64 NumPy", f"{error:.1e} relative", "1e-5", bool(error <= 1e-5))
    batch_rows = int(np.ceil(len(X) / np.ceil(n_queries / 512)))
    flops, traffic = flops_and_bytes()
    best = {}
    for precision in ("float32", "bfloat16"):
        side = podium_side(X, objective, offsets, batch_rows, precision, repeats)
        best[precision] = side["best"]
        rate, moved = flops * len(X) / side["best"], traffic * len(X) / side["best"]
        shares = f"{rate / PEAK_FLOPS:.0%} of the matrix peak in bf16, {moved / PEAK_BYTES:.0%} of memory bandwidth"
        measured = f"{side['best'] * 1e3:.1f} ms, median {side['median'] * 1e3:.1f} ms, {shares}"
        yield Row(f"{what}, {precision}", "", measured)
        first = side["first"]
        yield Row(f"first {what}, {precision}, compiling", "", f"{first:.1f} s", "below 10 s", first < 10)
    if not with_torch:
        return
    for name, mixed in (("padded eager PyTorch", False), ("padded eager PyTorch, bf16 autocast", True)):
        side = torch_side(X, objective, offsets, 512, repeats, mixed=mixed)
        own, other = best["bfloat16"], side["best"]
        measured = f"{other / own:.2f}x, {own * 1e3:.1f} against {other * 1e3:.1f} ms"
        yield Row(what, name, measured, *(() if mixed else ("at least 4x, aim 6x", other / own >= 4)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=33_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--smoke", action="store_true", help="a small epoch on whatever device there is, without PyTorch"
    )
    parser.add_argument("--out", help="write the results to this file, too")
    options = parser.parse_args()
    import jax

    if options.smoke:
        for row in measure(min(options.queries, 400), 1, with_torch=False):
            print(row.line(), flush=True)
        return
    if not any(device.platform == "gpu" for device in jax.devices()):
        print("No GPU: nothing to measure.")
        return
    import optax
    import torch

    machine = (
        f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, optax {optax.__version__}, PyTorch {torch.__version__}"
    )
    print(machine)
    rows = []
    for row in measure(options.queries, options.repeats):
        print(row.line(), flush=True)
        rows.append(row)
    if options.out:
        head = f"# Benchmarks on a GPU\n\n`benchmarks/bench_net_gpu.py --out` wrote this on {machine}.\n\n"
        about = f"Commit {commit_of(Path(__file__).parent)}. {bars_line(rows)}.\n\n"
        path = Path(options.out)  # whose later sections others write
        later = path.read_text(encoding="utf-8").partition("\n## ")[1:] if path.exists() else ()
        path.write_text(f"{head}{about}{table_of(rows)}\n{''.join(later)}", encoding="utf-8")


if __name__ == "__main__":
    main()
