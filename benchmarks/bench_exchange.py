"""Models of other programs: scoring one that LightGBM trained, beside LightGBM; reading large files; exported files.

    python benchmarks/bench_exchange.py [scoring] [loading] [formats]

Formats are those of `podium.exchange.MODEL_FORMATS` whose program can be asked here; a new one is measured by itself.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from _mslr import make_lists
from _report import measure, measure_in_turns, print_header, print_result

import podium
from podium.exchange import MODEL_FORMATS, export, import_model
from podium.exchange.registry import ModelFormat

TREES, LEAVES, TRAINING_ROWS, ROWS, REPEATS = 1000, 64, 10_000, 10_000, 5
LARGE_TREES, LARGE_LEAVES, LARGE_ROWS, LARGE_BYTES = 40, 255, 20_000, 100_000_000
WHAT = f"{TREES:,} x {LEAVES}"
PEAK = """
import sys
sys.path.insert(0, {folder!r})
from _report import peak_memory, resident_memory
from podium.exchange import import_model
import_model({small!r})
before = resident_memory()
import_model({large!r})
print(peak_memory() - before)
"""


def train_lightgbm(trees: int, leaves: int, rows: int) -> lightgbm.Booster:
    data = make_lists(rows, rows // 120)
    parameters = {"objective": "regression", "num_leaves": leaves, "learning_rate": 0.1, "verbose": -1}
    return lightgbm.train(parameters, lightgbm.Dataset(data.X, data.y), trees)


def show_scoring(path: Path) -> None:
    """The same model in both, on one and two threads."""
    X = make_lists(ROWS, ROWS // 120, seed=1).X
    model, booster = import_model(path), lightgbm.Booster(model_file=str(path))
    for threads in (1, 2):
        model.set_params(n_jobs=threads)
        work: dict[str, Callable[[], Any]] = {
            "podium": lambda: model.predict(X),
            "LightGBM": lambda threads=threads: booster.predict(X, num_threads=threads),
        }
        best = {name: timing.best for name, timing in measure_in_turns(work, REPEATS).items()}
        ratio = best["LightGBM"] / best["podium"]
        us = {name: seconds / ROWS * 1e6 for name, seconds in best.items()}
        name = f"an imported model of {WHAT} leaves scores, {threads} thread{'s' * (threads > 1)}"
        measured = f"{ratio:.1f}x ({us['podium']:.2f} against {us['LightGBM']:.2f} us per document)"
        print_result(name, "LightGBM", measured, "15x", ratio >= 15)
        equal = int((work["podium"]() == work["LightGBM"]()).sum())
        print_result(f"{name}, same bits", "LightGBM", f"{equal:,} of {ROWS:,} rows", "all", equal == ROWS)


def repeat_trees(text: bytes, size: int) -> bytes:
    """A model of so many bytes: its trees again and again, with new numbers."""
    start, end = text.index(b"Tree=0"), text.index(b"end of trees")
    trees = [block[block.index(b"\n") :] for block in re.split(rb"(?=^Tree=)", text[start:end], flags=re.M)[1:]]
    copies = -(-size // (end - start))
    blocks = [b"Tree=%d" % number + tree for number, tree in enumerate(trees * copies)]
    sizes = b"tree_sizes=" + b" ".join(b"%d" % len(block) for block in blocks)
    return re.sub(rb"tree_sizes=[^\n]*", sizes, text[:start]) + b"".join(blocks) + text[end:]


def show_loading(folder: Path, small: Path) -> None:
    """A text of 100 MB, in Podium and in LightGBM."""
    large = folder / "large.txt"
    booster = train_lightgbm(LARGE_TREES, LARGE_LEAVES, LARGE_ROWS)
    large.write_bytes(repeat_trees(booster.model_to_string().encode(), LARGE_BYTES))
    size = large.stat().st_size
    work = {"podium": lambda: import_model(large), "LightGBM": lambda: lightgbm.Booster(model_file=str(large))}
    best = {name: timing.best for name, timing in measure_in_turns(work, REPEATS).items()}
    ratio, name = best["LightGBM"] / best["podium"], f"import of a LightGBM text of {size / 1e6:.0f} MB"
    measured = f"{ratio:.2f}x ({best['podium']:.2f} against {best['LightGBM']:.2f} s)"
    print_result(name, "LightGBM's loader", measured, "1x", ratio >= 1)
    X = make_lists(500, 5, seed=2).X
    equal = int((import_model(large).predict(X) == lightgbm.Booster(model_file=str(large)).predict(X)).sum())
    print_result(f"{name}, same bits", "LightGBM", f"{equal} of 500 rows", "all", equal == 500)
    program = PEAK.format(folder=str(Path(__file__).parent), small=str(small), large=str(large))
    peak = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    times = peak / size
    print_result(f"{name}, peak memory", "the file", f"{times:.1f}x ({peak / 1e6:.0f} MB)", "at most 4x", times <= 4)


def show_formats(folder: Path, original: Path) -> None:
    """One model in every format: bytes, and seconds to load it and score a row, in its program and here."""
    model = import_model(original)
    native = folder / "model.podium"
    model.save(native)
    row, bytes_of = make_lists(1, 1).X[:1], {"LightGBM's own file": original.stat().st_size}
    bytes_of["podium's file"] = native.stat().st_size
    print(f"{WHAT}: " + ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in bytes_of.items()), flush=True)
    seconds = measure(lambda: podium.load(native).predict(row), REPEATS).best
    print_result(f"load {WHAT} leaves and score a row", "-", f"{seconds * 1e3:.1f} ms, podium's file")
    for form in MODEL_FORMATS.values():
        if form.writes:
            show_format(form, model, folder / f"model.{form.name}", row, bytes_of)


def show_format(form: ModelFormat, model: Any, path: Path, row: np.ndarray, bytes_of: dict[str, int]) -> None:
    try:
        export(model, path, to=form.name)
    except ValueError as error:
        print(f"{form.name}: {error}")
        return
    size = path.stat().st_size
    ratios = ", ".join(f"{size / other:.2f}x {name}" for name, other in bytes_of.items())
    print_result(f"{WHAT} leaves as {form.name}", "size", f"{size / 1e6:.2f} MB ({ratios})")
    work: dict[str, Callable[[], Any]] = {}
    if form.runtime and is_here(form, path, row):
        work[form.runtime] = partial(form.load().run, str(path), row)
    if form.reads:
        work["podium"] = lambda: import_model(path, form.name).predict(row)
    times = {name: timing.best for name, timing in measure_in_turns(work, REPEATS).items()}
    measured = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in times.items())
    print_result(f"load {WHAT} leaves as {form.name} and score a row", form.runtime or "-", measured or "not here")


def is_here(form: ModelFormat, path: Path, row: np.ndarray) -> bool:
    """Whether the program of a format is installed; it scores a row."""
    try:
        form.load().run(str(path), row)
    except (ImportError, OSError, ValueError) as error:
        print(f"{form.name}: {error}")
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="scoring, loading, formats; all without")
    parts = parser.parse_args().parts or ["scoring", "loading", "formats"]
    print_header("Models of other programs", ["lightgbm", "xgboost", "onnxruntime", "catboost", "treelite"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "model.txt"
        train_lightgbm(TREES, LEAVES, TRAINING_ROWS).save_model(str(path))
        if "scoring" in parts:
            show_scoring(path)
        if "loading" in parts:
            show_loading(folder, path)
        if "formats" in parts:
            show_formats(folder, path)


if __name__ == "__main__":
    main()
