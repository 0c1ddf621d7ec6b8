"""Boosted trees on a GPU: the bytes of the CPU, and the time per tree.

    python benchmarks/bench_trees_gpu.py --write-cases DIR         with Numba: trains on the CPU, writes digests
    python benchmarks/bench_trees_gpu.py --cases DIR --out FILE    with a GPU and CuPy, no Numba: compares, measures

Both sides make the same bins from a seed, by counter-based integers, and check that they are the same by their digest.
What an objective computes once when it is bound is in the cases. For small data the trees are there too, so that the
first difference can be found. Large data are only measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from _report import Row, bars_line, commit_of, hardware_line, table_of

from podium._runtime.random import stream_of
from podium.learners.trees.cuda.derivatives import Derivatives
from podium.learners.trees.cuda.device import SHARED_BYTES, Gpu, tree_source
from podium.learners.trees.cuda.trees import TreeBuilder
from podium.learners.trees.scoring.forest import Forest, TreeArrays
from podium.learners.trees.training.binning import BinEdges, BinnedRows
from podium.learners.trees.training.bundling import LayoutRules, make_layout
from podium.learners.trees.training.finishing import finish_tree, newton_steps
from podium.learners.trees.training.grown import GrownTree, GrowthRules
from podium.learners.trees.training.monotone import clip_to_constraints
from podium.metrics.closed_forms import ADDITIVE, ClosedForm
from podium.objectives.cuda.form import CudaObjective
from podium.objectives.cuda.lambdas import cuda_lambdas

SECTION = "## Boosted trees"
RATE = 0.1  # of learning
N_TREES = 5
BINS = (255, 255, 64, 255, 16, 2, 255, 32)  # of the features, in turns; every fifth has missing values
SIGNAL = 6  # features that labels depend on


@dataclass(frozen=True)
class Data:
    name: str
    n: int
    n_features: int
    length: int  # of lists, on average
    seed: int


@dataclass(frozen=True)
class Config:
    name: str
    objective: str = "lambda"
    settings: Mapping[str, Any] = field(default_factory=dict)
    growth: GrowthRules = field(default_factory=GrowthRules)
    layout: LayoutRules = field(default_factory=LayoutRules)
    weighted: bool = False
    row_fraction: float = 1.0
    feature_fraction: float = 1.0
    base_scores: bool = False


DATA = (
    Data("small", 3_000, 20, 30, 1),
    Data("medium", 40_000, 136, 100, 2),
    Data("large", 240_000, 136, 120, 3),
)
LIGHTGBM = {"metric": "ndcg@10", "normalize": "lightgbm"}
CONFIGS = (
    Config("LambdaMART", settings=LIGHTGBM),
    Config("lambdas of the papers", settings={"metric": "ndcg@10"}),
    Config("lambdas of MAP", settings={"metric": "map@20"}),
    Config("lambdas of ERR", settings={"metric": "err@10"}),
    Config("lambdas of RR", settings={"metric": "rr"}),
    Config("lambdas of NDCG@100, as XGBoost's", settings={"metric": "ndcg@100", "normalize": "xgboost"}),
    Config("squared error", "squared"),
    Config("logistic", "logistic"),
    Config("ordinal", "ordinal"),
    Config("RMSE per query", "query_rmse"),
    Config("RankNet", "ranknet", {"ties": True}),
    Config("hinge, level by level", "hinge", growth=GrowthRules(growth="level", max_depth=5, max_leaf_nodes=32)),
    Config("exponential", "exponential"),
    Config("255 leaves, one row per leaf", settings=LIGHTGBM, growth=GrowthRules(255, min_samples_leaf=1)),
    Config("many rows per leaf", settings=LIGHTGBM, growth=GrowthRules(63, min_samples_leaf=300)),
    Config("weights and base scores", settings=LIGHTGBM, weighted=True, base_scores=True),
    Config("half of the rows and features", settings=LIGHTGBM, row_fraction=0.5, feature_fraction=0.5),
    Config("extra trees", settings=LIGHTGBM, growth=GrowthRules(extra_trees=True)),
    Config("categories and constraints", layout=LayoutRules(categorical=(4, 7), signs=(1, -1)), settings=LIGHTGBM),
    Config("splits by gradients", settings=LIGHTGBM, growth=GrowthRules(split_by="gradients"), weighted=True),
    Config("oblivious", settings=LIGHTGBM, growth=GrowthRules(growth="oblivious", max_leaf_nodes=64)),
    Config(
        "oblivious, categories and constraints",
        "squared",
        growth=GrowthRules(growth="oblivious", max_leaf_nodes=32),
        layout=LayoutRules(categorical=(4, 7), signs=(1, -1)),
    ),
)  # fmt: skip


# --- data, the same everywhere ---------------------------------------------------------------------------------------


def mix(x: Any) -> Any:
    """64 bits scrambled, of numpy's or CuPy's arrays."""
    u = np.uint64
    x = (x ^ (x >> u(30))) * u(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> u(27))) * u(0x94D049BB133111EB)
    return x ^ (x >> u(31))


def draws(xp: Any, seed: int, numbers: Any) -> Any:
    return mix(numbers.astype(xp.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 0xD1B54A32D192ED03 % 2**64))


def n_bins_of(data: Data) -> np.ndarray:
    return np.array([BINS[f % len(BINS)] for f in range(data.n_features)], np.int32)


def make_slices(xp: Any, data: Data) -> Any:
    """(slices, rows, 32) uint8."""
    n_slices, sizes = -(-data.n_features // 32), n_bins_of(data)
    slices = xp.zeros((n_slices, data.n, 32), xp.uint8)
    for f in range(data.n_features):
        h = draws(xp, data.seed + 1000 * f, xp.arange(data.n))
        bins = (h % np.uint64(int(sizes[f]))).astype(xp.uint8)
        if f % 5 == 3:
            bins[(h >> np.uint64(40)) % np.uint64(10) == 0] = 255
        slices[f // 32, :, f % 32] = bins
    return slices


def make_labels(xp: Any, data: Data, slices: Any) -> np.ndarray:
    """Grades 0 to 4 that depend on some features."""
    signal = xp.zeros(data.n, xp.int64)
    for f in range(SIGNAL):
        part = slices[0, :, f].astype(xp.int64) * 255 // int(n_bins_of(data)[f])
        signal += xp.abs(part - 128) if f % 2 else part
    signal += (draws(xp, data.seed + 7, xp.arange(data.n)) % np.uint64(300)).astype(xp.int64)
    grades = sum((signal > limit).astype(xp.int64) for limit in (650, 780, 880, 960))
    return np.asarray(grades.get() if hasattr(grades, "get") else grades, np.float64)


def make_offsets(data: Data) -> np.ndarray:
    lengths = 1 + (draws(np, data.seed + 9, np.arange(data.n)) % np.uint64(2 * data.length - 1)).astype(np.int64)
    ends = np.cumsum(lengths)
    return np.concatenate([[0], ends[ends < data.n], [data.n]])


def edges_of(data: Data, categorical: tuple[int, ...]) -> BinEdges:
    sizes, named = n_bins_of(data), np.zeros(data.n_features, np.bool_)
    named[list(categorical)] = True
    bins = np.arange(255, dtype=np.float32)
    upper = np.where(named[:, None], bins, bins + np.float32(0.5)).astype(np.float32)
    upper[np.arange(255) >= sizes[:, None] - ~named[:, None]] = np.inf
    return BinEdges(upper, sizes, np.arange(data.n_features) % 5 == 3, named, np.zeros(data.n_features))


def layout_of(data: Data, config: Config, edges: BinEdges) -> Any:
    rules = config.layout
    signs = tuple(rules.signs) + (0,) * (data.n_features - len(rules.signs)) if rules.signs else ()
    return make_layout([], edges, replace(rules, signs=signs))


def digest(*arrays: Any) -> str:
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:32]


def digest_forest(trees: list[TreeArrays], n_features: int) -> str:
    forest = Forest.join(trees, 0.0, n_features)
    names = (
        "roots",
        "feature",
        "threshold",
        "left",
        "missing_right",
        "value",
        "gain",
        "count",
        "set_values",
        "set_sides",
    )
    return digest(*(getattr(forest, name) for name in names))


def weights_of(data: Data) -> np.ndarray:
    return (1 + draws(np, data.seed + 11, np.arange(data.n)) % np.uint64(3)).astype(np.float64)


def start_scores(data: Data, config: Config, start: float) -> np.ndarray:
    scores = np.full(data.n, start)
    if config.base_scores:
        scores += (draws(np, data.seed + 13, np.arange(data.n)) % np.uint64(1000)).astype(np.float64) / 1000.0
    return scores


# --- boosting, the same on both --------------------------------------------------------------------------------------


def boost(data: Data, config: Config, engine: Any, n_trees: int) -> list[TreeArrays]:
    """Newton's steps; `engine` has derive(), grow(...) -> (tree, sums of leaves), and add(tree, finished)."""
    trees, signs = [], config.layout.signs + (0,) * (data.n_features - len(config.layout.signs))
    by_gradients = config.growth.split_by == "gradients"
    weights = weights_of(data).astype(np.float32) if config.weighted else np.ones(data.n, np.float32)
    for number in range(n_trees):
        engine.derive()
        sample = None
        if config.row_fraction < 1:
            chosen = draws(np, data.seed + 17 + number, np.arange(data.n)) % np.uint64(1000)
            sample = np.flatnonzero(chosen < 1000 * config.row_fraction)
        drawn = draws(np, data.seed + 19 + number, np.arange(data.n_features)) % np.uint64(1000)
        allowed = drawn < 1000 * config.feature_fraction
        stream = stream_of(data.seed, number) if config.growth.extra_trees else None
        grown, sums = engine.grow(sample, allowed, stream, weights if by_gradients else None)
        values = newton_steps(sums, config.growth.l2_regularization)
        if not by_gradients:
            values = np.clip(values, grown.low, grown.high)
        elif any(signs):
            tree = finish_tree(grown, values, engine.edges)
            values = clip_to_constraints(tree, tree.value, signs)[grown.leaf_node]
        trees.append(finish_tree(grown, values * RATE, engine.edges))
        engine.add(grown, trees[-1])
    return trees


class Timed:
    """An engine, and when each tree began and the last one ended."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.edges, self.begun = engine, engine.edges, list[float]()
        self.grow, self.add = engine.grow, engine.add

    def derive(self) -> None:
        self.begun.append(time.perf_counter())
        self.engine.derive()

    def seconds(self) -> np.ndarray:
        return np.diff([*self.begun, time.perf_counter()])


class OnCpu:
    def __init__(self, binned: BinnedRows, config: Config, target: Any, scores: np.ndarray) -> None:
        from podium.learners.trees.training.growing import TreeGrower

        self.grower = TreeGrower(binned, config.growth, 2)
        self.binned, self.edges, self.target, self.scores = binned, binned.edges, target, scores
        self.g, self.h = np.empty((2, len(scores)), np.float32)

    def derive(self) -> None:
        self.target.derivatives(self.scores, self.g, self.h)

    def grow(self, sample: Any, allowed: Any, stream: Any, weights: Any) -> tuple[GrownTree, np.ndarray]:
        from podium.learners.trees.training.boosting import _sum_leaves

        grown = self.grower.grow(self.g, self.h, sample, allowed, stream, weights)
        totals = np.empty((len(grown.leaf_node), 2), np.int64)
        _sum_leaves(grown.rows, grown.leaf_start, self.g, self.h, *grown.units, totals)
        return grown, totals / np.array(grown.units)

    def add(self, grown: GrownTree, tree: TreeArrays) -> None:
        from podium.learners.trees.training.boosting import _add_to_leaves
        from podium.learners.trees.training.partitioning import route_rows

        if len(grown.rows) == len(self.scores):
            _add_to_leaves(grown.rows, grown.leaf_start, tree.value[grown.leaf_node], self.scores)
        else:
            arrays = grown.feature, grown.column, grown.left, grown.sides, tree.value
            route_rows(self.binned.columns, 0, len(self.scores), arrays, self.scores)


class OnGpu:
    def __init__(self, gpu: Any, data: Data, config: Config, bins: Any, objective: CudaObjective, scores: np.ndarray):
        self.edges = edges_of(data, config.layout.categorical)
        layout = layout_of(data, config, self.edges)
        self.builder = TreeBuilder(gpu, bins, self.edges.n_bins, self.edges, layout, config.growth, scores)
        self.derivatives = Derivatives(gpu, self.builder, objective)
        self.n = data.n

    def derive(self) -> None:
        self.derivatives.fill()

    def grow(self, sample: Any, allowed: Any, stream: Any, weights: Any) -> tuple[GrownTree, np.ndarray]:
        return self.builder.grow(sample, allowed, stream, weights)

    def add(self, grown: GrownTree, tree: TreeArrays) -> None:
        self.builder.add(tree.value, int(grown.leaf_start[-1]) < self.n)


# --- cases -----------------------------------------------------------------------------------------------------------


def case_name(data: Data, config: Config) -> str:
    return f"{data.name}-{CONFIGS.index(config)}"


def write_cases(folder: Path) -> None:
    from podium.objectives.registry import parse_objective

    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {"machine": hardware_line()}
    for data in DATA:
        slices, offsets = make_slices(np, data), make_offsets(data)
        labels = make_labels(np, data, slices)
        index[data.name] = {"bins": digest(slices), "labels": digest(labels), "offsets": digest(offsets), "trees": {}}
        rows = np.ascontiguousarray(slices.transpose(1, 0, 2).reshape(data.n, -1)[:, : -(-data.n_features // 8) * 8])
        columns = np.ascontiguousarray(rows[:, : data.n_features].T)
        for config in CONFIGS:
            edges = edges_of(data, config.layout.categorical)
            layout = layout_of(data, config, edges)
            binned = BinnedRows(
                rows.view(np.uint64), columns, edges.n_bins, edges, layout, np.zeros(data.n_features, np.bool_)
            )
            objective, weights = parse_objective(config.objective, **config.settings), None
            weights = weights_of(data) if config.weighted else None
            target = objective.bind(labels if config.objective != "logistic" else labels >= 2, offsets, weights)
            start = float(target.start())
            device: CudaObjective = target.on_cuda()
            meta = {"source": device.source, "numbers": dict(device.numbers), "per_row": device.per_row, "start": start}
            meta |= {"doubles": device.doubles_per_row, "n_queries": device.n_queries}
            engine = OnCpu(binned, config, target, start_scores(data, config, start))
            timed = Timed(engine)
            trees = boost(data, config, timed, N_TREES)
            seconds = float(timed.seconds().min())
            found = digest_forest(trees, data.n_features)
            index[data.name]["trees"][config.name] = {"digest": found, "seconds": seconds}
            extra: dict[str, np.ndarray] = {}
            if data.name == "small":
                forest = Forest.join(trees, 0.0, data.n_features)
                extra = {f"forest_{name}": getattr(forest, name) for name in ("feature", "threshold", "value", "gain")}
            np.savez_compressed(
                folder / f"{case_name(data, config)}.npz", meta=np.array(json.dumps(meta)), **device.arrays, **extra
            )
            print(f"{data.name}: {config.name}: {found}, {1e3 * seconds:.0f} ms per tree", flush=True)
    (folder / "cases.json").write_text(json.dumps(index, indent=1))


def read_case(folder: Path, data: Data, config: Config) -> tuple[CudaObjective, float, dict[str, np.ndarray]]:
    with np.load(folder / f"{case_name(data, config)}.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    meta = json.loads(str(arrays.pop("meta")))
    forest = {name: arrays.pop(name) for name in list(arrays) if name.startswith("forest_")}
    shape = meta["n_queries"], meta["per_row"], meta["doubles"]
    return CudaObjective(meta["source"], arrays, meta["numbers"], *shape), meta["start"], forest


def compare_cases(folder: Path, gpu: Any, names: list[str], configs: str) -> tuple[int, int]:
    """(configurations with the CPU's bytes, all)."""
    index, equal, total = json.loads((folder / "cases.json").read_text()), 0, 0
    import cupy

    for data in (data for data in DATA if data.name in names):
        bins, known = make_slices(cupy, data), index[data.name]
        if digest(bins.get()) != known["bins"] or digest(make_offsets(data)) != known["offsets"]:
            raise SystemExit(f"{data.name}: the bins are not those of the cases")
        for config in (config for config in CONFIGS if configs in config.name):
            objective, start, forest = read_case(folder, data, config)
            engine = OnGpu(gpu, data, config, bins, objective, start_scores(data, config, start))
            trees, want = boost(data, config, engine, N_TREES), known["trees"][config.name]["digest"]
            found = digest_forest(trees, data.n_features)
            total, equal = total + 1, equal + (found == want)
            print(f"{data.name}: {config.name}: {'equal' if found == want else f'DIFFERS {found} {want}'}", flush=True)
            if found != want and forest:
                show_difference(forest, Forest.join(trees, 0.0, data.n_features))
    return equal, total


def show_difference(want: Mapping[str, np.ndarray], found: Forest) -> None:
    for name, array in want.items():
        own = getattr(found, name.removeprefix("forest_"))
        if len(own) != len(array):
            print(f"  {name}: {len(own)} nodes, expected {len(array)}")
        else:
            where = np.flatnonzero(own != array)
            print(f"  {name}: {len(where)} differ, first {where[:3]}: {own[where[:3]]}, expected {array[where[:3]]}")


# --- time ------------------------------------------------------------------------------------------------------------

# The histogram of the prototype, to compare rates in one run.
_PROTOTYPE = r"""
extern "C" __global__ void prototype(const unsigned char* bins, const int2* gh, int n, unsigned long long* out) {
    extern __shared__ int s[];
    for (int i = threadIdx.x; i < 2 * 256 * 32; i += blockDim.x) s[i] = 0;
    __syncthreads();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const unsigned char* b = bins + (size_t)blockIdx.y * n * 32;
    #pragma unroll 4
    for (int i = blockIdx.x * warps + warp; i < n; i += gridDim.x * warps) {
        int2 v = gh[i];
        int bin = b[(size_t)i * 32 + lane];
        atomicAdd(&s[bin * 32 + lane], v.x);
        atomicAdd(&s[256 * 32 + bin * 32 + lane], v.y);
    }
    __syncthreads();
    unsigned long long* o = out + (size_t)blockIdx.y * 256 * 32;
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x) {
        long long p = ((long long)s[i] << 32) + (unsigned)s[256 * 32 + i];
        if (p) atomicAdd(&o[i], (unsigned long long)p);
    }
}
"""
_ROOT = r"""
extern "C" __global__ void __launch_bounds__(THREADS, 2) root_histogram(const Tree* arguments) {
    __shared__ Tree t;
    if (threadIdx.x == 0) t = *arguments;
    __syncthreads();
    build_histogram(t, 0);
}
"""


def list_objective(labels: np.ndarray, length: int) -> CudaObjective:
    """LightGBM's lambdas of NDCG@10 on lists of one length; its sums need no order, as nothing is compared."""
    offsets = np.append(np.arange(0, len(labels), length), len(labels))
    gains, queries = np.exp2(labels) - 1, len(offsets) - 1
    discounts = np.where(np.arange(length) < 10, 1 / np.log2(np.arange(length) + 2.0), 0.0)
    padded = np.zeros(queries * length)
    padded[: len(gains)] = gains
    best = -np.sort(-padded.reshape(queries, length), axis=1)[:, :10] @ discounts[:10]
    scales = np.divide(1.0, best, out=np.zeros(queries), where=best > 0)
    form = ClosedForm(ADDITIVE, 10, gains, scales, table=discounts)
    return cuda_lambdas(form, 1.0, True, 1.0, offsets, np.ones(queries), np.empty(0))


def time_events(work: Callable[[], Any], repeats: int = 10) -> float:
    """Milliseconds, by the GPU's clock."""
    import cupy

    work()
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end)) / repeats


def measure(gpu: Any, n: int, leaves: int, n_trees: int, bins: Any, data: Data) -> dict[str, float]:
    """Milliseconds per tree by the wall clock, the parts of it by the GPU's, and what was allocated."""
    import cupy

    labels = make_labels(cupy, data, bins)
    objective = list_objective(labels, 100)
    cupy.get_default_memory_pool().free_all_blocks()
    before = cupy.get_default_memory_pool().total_bytes()
    config = Config("time", settings=LIGHTGBM, growth=GrowthRules(leaves))
    engine = OnGpu(gpu, data, config, bins, objective, np.zeros(n))
    timed = Timed(engine)
    trees = boost(data, config, timed, n_trees)
    gpu.download(engine.builder.scores[:1])
    steps = timed.seconds()[1:] * 1e3
    result = {
        "ms": float(np.median(steps)),
        "worst": float(steps.max()),
        "leaves": float(trees[-1].count.size // 2 + 1),
    }
    result["bytes"] = cupy.get_default_memory_pool().total_bytes() - before + bins.nbytes
    builder, blocks = engine.builder, gpu.n_blocks
    result["derivatives"] = time_events(engine.derive)
    arguments = (builder._arguments,)

    def grow_only() -> None:
        for array in (builder._outputs, builder._arrays["histograms"]):
            gpu.clear(array)
        builder._launch("measure")
        builder._launch("grow", SHARED_BYTES)

    grow_only()
    result["measure"] = time_events(lambda: (gpu.clear(builder._outputs), builder._launch("measure")))
    result["grow"] = time_events(grow_only) - result["measure"]
    result["sums"] = time_events(lambda: builder._launch("sum_leaves"))
    result["add"] = time_events(lambda: builder._launch("add_leaves"))
    gpu.clear(builder._outputs)
    builder._launch("measure")
    kernels = gpu.kernels(tree_source(builder.is_wide) + _ROOT, True)
    leaf = [builder._outputs]
    cupy.cuda.Device().synchronize()
    for array in leaf:
        gpu.clear(array)
    at, _ = builder._places["leaf_stop"]
    builder._outputs[at : at + 8].view(np.int64)[0] = n
    gpu.clear(builder._arrays["leaf_other"])
    gpu.clear(builder._arrays["leaf_histogram"])
    run = lambda: kernels.launch("root_histogram", blocks, gpu.n_threads, arguments, SHARED_BYTES)  # noqa: E731
    result["root"] = time_events(run)
    prototype = cupy.RawModule(code=_PROTOTYPE, options=("--std=c++17",)).get_function("prototype")
    prototype.max_dynamic_shared_size_bytes = 65536
    out, slices = cupy.zeros((bins.shape[0], 256, 32), cupy.uint64), bins.shape[0]
    packed, processors = builder._arrays["packed"], cupy.cuda.Device().attributes["MultiProcessorCount"]
    grid = max(1, processors * 2 // slices), slices
    result["prototype"] = time_events(
        lambda: prototype(grid, (1024,), (bins, packed, np.int32(n), out), shared_mem=65536)
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write-cases", type=Path)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--out", type=Path, help="the file whose last section is written")
    parser.add_argument("--data", default=",".join(data.name for data in DATA), help="of the cases, which data")
    parser.add_argument("--configs", default="", help="of the cases, those with this in their names")
    parser.add_argument("--sizes", default="240000x31,1000000x31,1000000x255,10000000x31")
    parser.add_argument("--commit", default=commit_of(Path(__file__).parent), help="where this is no checkout")
    options = parser.parse_args()
    if options.write_cases:
        return write_cases(options.write_cases)
    rows: list[Row] = []

    def report(*cells: Any) -> None:
        rows.append(Row(*cells))
        print(rows[-1].line(), flush=True)

    gpu = Gpu()
    begin = time.perf_counter()
    tiny = Data("tiny", 3_000, 20, 30, 1)
    import cupy

    bins = make_slices(cupy, tiny)
    objective = list_objective(make_labels(cupy, tiny, bins), 30)
    config = Config("tiny", settings=LIGHTGBM)
    boost(tiny, config, OnGpu(gpu, tiny, config, bins, objective, np.zeros(tiny.n)), 2)
    first = time.perf_counter() - begin
    report("first training ever on a GPU, compiling", "", f"{first:.1f} s", "under 15 s", first < 15)
    beside: dict[tuple[int, int], str] = {}
    if options.cases:
        equal, total = compare_cases(options.cases, gpu, options.data.split(","), options.configs)
        share = f"{equal} of {total} equal"
        report(
            f"forests on the GPU, {len(CONFIGS)} configurations x 3 data sets",
            "digests of the CPU's",
            share,
            "all",
            equal == total,
        )
        index = json.loads((options.cases / "cases.json").read_text())
        seconds = index["large"]["trees"]["LambdaMART"]["seconds"]
        beside[240_000, 31] = f"{1e3 * seconds:.0f} ms on the CPU that wrote the digests, {index['machine']}"
    bars = {(1_000_000, 31): (4.0, "aim 2.5"), (10_000_000, 31): (20.0, "aim 12"), (1_000_000, 255): (12.0, "")}
    for size in filter(None, options.sizes.split(",")):
        n, leaves = (int(part) for part in size.split("x"))
        data = Data(size, n, 136, 100, 5)
        bins = make_slices(cupy, data)
        found = measure(gpu, n, leaves, 12, bins, data)
        print({name: round(value, 3) for name, value in found.items()}, flush=True)
        bar, aim = bars.get((n, leaves), (0.0, ""))
        what = f"a tree with lambdas, {n:,} rows x 136, {leaves} leaves"
        limit = f"at most {bar:g} ms{', ' + aim if aim else ''}"
        cells = (limit, found["ms"] <= bar) if bar else ()
        parts = ", ".join(f"{name} {found[name]:.2f}" for name in ("derivatives", "measure", "grow", "sums", "add"))
        report(what, beside.get((n, leaves), ""), f"{found['ms']:.2f} ms ({parts})", *cells)
        updates = n * 160 / found["root"] / 1e6
        share = found["prototype"] / found["root"]
        report(
            f"root histogram of {n:,} rows x 160", "the prototype's rate", f"{share:.2f}x, {updates:.0f} G updates/s"
        )
        if n == 10_000_000:
            ratio = found["bytes"] / bins.nbytes
            report(
                f"allocated at {n:,} x 136, {leaves} leaves",
                "padded bins",
                f"{ratio:.2f}x",
                "at most 1.3x",
                ratio <= 1.3,
            )
        del bins
        cupy.get_default_memory_pool().free_all_blocks()
    print(bars_line(rows))
    if options.out:
        write_results(options.out, rows, options.commit)


def write_results(path: Path, rows: list[Row], commit: str) -> None:
    """As the last section of the file; the nets' benchmark writes what is before it."""
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    wrote = f"`benchmarks/bench_trees_gpu.py --out` wrote this on {name}, CuPy {cupy.__version__}."
    about = f"Commit {commit}. {bars_line(rows)}."
    before = path.read_text(encoding="utf-8").split(SECTION)[0].rstrip() if path.exists() else "# Benchmarks on a GPU"
    path.write_text(f"{before}\n\n{SECTION}\n\n{wrote}\n\n{about}\n\n{table_of(rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
