"""How fast LETOR text and CSV are read, beside the readers of XGBoost, scikit-learn and pandas, each on one file.

    python benchmarks/bench_letor.py [--rows 280000] [--repeats 3] [--file FILE]

The file has the shape of MSLR: 136 features, of which half are single digits and most others have six decimals, 120
rows per query. `--file` takes a real one instead. All readers keep the file's values; scikit-learn reads the same file,
once, because it is slow. The peak memory is that of a child process that does nothing but read.

The CSV files have 100 features, a label, a query and a document id; one has two columns of categories too, and one has
features with all the digits of float64. Pandas reads with as many threads as it chooses, and with one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _report import Timing, hardware_line, measure, measure_in_turns, peak_memory, print_result, versions_line

from podium.data.ranking import RankingData
from podium.formats import read_data
from podium.formats.letor import read_letor, write_letor

ROWS_A_QUERY = 120
CHILD = "--child"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=280_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--file", type=Path)
    parser.add_argument(CHILD, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(_memory_of_a_read(arguments.file))
        return
    print(hardware_line())
    print(versions_line("xgboost-cpu", "scikit-learn", "pandas"))
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file or make_file(Path(folder) / "mslr-like.txt", arguments.rows)
        report(path, Path(folder), arguments.repeats)
        report_csv(Path(folder) / "table.csv", arguments.repeats)


def make_file(path: Path, rows: int) -> Path:
    """Write a file like MSLR's, the same one for the same number of rows."""
    rng = np.random.default_rng(136)
    columns = [_column(rng, number) for number in range(1, 137)]
    with open(path, "w", newline="\n") as file:
        for start in range(0, rows, ROWS_A_QUERY):
            n = min(ROWS_A_QUERY, rows - start)
            cells = [texts[rng.integers(0, len(texts), n)] for texts in columns]
            labels = rng.choice(5, n, p=[0.52, 0.32, 0.13, 0.02, 0.01])
            for label, *features in zip(labels, *cells):
                file.write(f"{label} qid:{start // ROWS_A_QUERY + 1} {' '.join(features)} \n")
    return path


def _column(rng: np.random.Generator, number: int) -> np.ndarray:
    """Texts `number:value` to choose from. Features come in fives (body, anchor, title, url, whole), as in MSLR."""
    zeros = (0.1, 0.8, 0.5, 0.5, 0.1)[(number - 1) % 5]
    if number in range(111, 126):
        values = [f"{value:.6f}" for value in rng.normal(-15, 7, 1000)]
    elif number > 125 or number in range(11, 16):
        values = [str(int(value)) for value in rng.lognormal(3, 2.5, 1000)]
    elif number in (*range(1, 6), *range(21, 46), *range(96, 101)):
        values = [str(value) for value in rng.poisson(2, 1000)]
    else:
        values = [f"{value:.6f}" for value in rng.gamma(0.5, 12, 1000)]
    if number <= 110 and number not in range(16, 21):
        values = ["0" if chance < zeros else value for chance, value in zip(rng.random(1000), values)]
    return np.array([f"{number}:{value}" for value in values], dtype=object)


def report(path: Path, folder: Path, repeats: int) -> None:
    size = path.stat().st_size / 1e6
    rivals = {"podium": lambda: read_letor(path), "podium, 1 thread": lambda: read_letor(path, n_jobs=1)}
    xgboost_read = _xgboost_reader(path)
    if xgboost_read is not None:
        rivals["xgboost"] = xgboost_read
    timings = measure_in_turns(rivals, repeats)
    sklearn_timing, difference = _compare_with_sklearn(path)
    timings["scikit-learn"] = sklearn_timing
    data = read_letor(path)
    print(f"file: {size:.0f} MB, {data.n_rows} rows, {data.n_queries} queries, {data.n_features} features")
    print(f"first call of podium in this process: {timings['podium'].first:.1f} s (compiling, unless cached)")
    ours = timings["podium"].best
    for name, timing in timings.items():
        print(f"read, {name:17} {timing.best:7.3f} s {size / timing.best:6.0f} MB/s {timing.best / ours:6.1f} x podium")
    print(f"equal to scikit-learn's arrays: {difference}")
    for name, bar in (("xgboost", 2), ("scikit-learn", 15)):
        if name in timings:
            ratio = timings[name].best / ours
            print_result(f"reading LETOR text, {size:.0f} MB", name, f"{ratio:.1f}x", f"{bar}x", ratio >= bar)
    _report_memory(path, data)
    _report_writing(data, folder, repeats)


CSV_FILES = {"": "%.6f", " with two columns of categories": "%.6f", " with all digits of float64": "%r"}


def report_csv(path: Path, repeats: int) -> None:
    for kind, digits in CSV_FILES.items():
        make_csv(path, 120_000, digits, categories="categories" in kind)
        size = path.stat().st_size / 1e6
        rivals = {"podium": lambda: read_data(path), "pandas": lambda: pd.read_csv(path)}
        if "max_threads" in dir(pd.options.mode):
            rivals["pandas, 1 thread"] = lambda: _pandas_on_one_thread(path)
        timings = measure_in_turns(rivals, repeats)
        ours = timings.pop("podium").best
        print(f"read CSV{kind}, {size:.0f} MB: podium {ours:.3f} s, {size / ours:.0f} MB/s")
        for name, timing in timings.items():
            ratio = timing.best / ours
            bar = ("at least 3x", ratio >= 3) if name == "pandas" else ()
            print_result(f"reading CSV{kind}, {size:.0f} MB", name, f"{ratio:.1f}x", *bar)


def _pandas_on_one_thread(path: Path) -> pd.DataFrame:
    with pd.option_context("mode.max_threads", 1):
        return pd.read_csv(path)


def make_csv(path: Path, rows: int, digits: str, categories: bool) -> None:
    """Write a table, the same one for the same arguments; of four features one is a small whole number."""
    rng = np.random.default_rng(100)
    names = [f"f{number}" for number in range(1, 101)] + (["shop", "colour"] if categories else [])
    with open(path, "w", newline="\n") as file:
        file.write(",".join(["label", "qid", "docid", *names]) + "\n")
        for start in range(0, rows, ROWS_A_QUERY):
            n = min(ROWS_A_QUERY, rows - start)
            features = [
                map(str, rng.poisson(2, n).tolist())
                if number % 4 == 0
                else map(digits.__mod__, rng.normal(0, 10, n).tolist())
                for number in range(100)
            ]
            shops, colours = rng.integers(0, 300, n).tolist(), rng.choice(["red", "green", "blue"], n).tolist()
            texts = [[f"shop {shop}" for shop in shops], colours] if categories else []
            labels, query = rng.integers(0, 5, n).tolist(), start // ROWS_A_QUERY + 1
            for row, (label, *cells) in enumerate(zip(labels, *features, *texts), start):
                file.write(f"{label},{query},document-{row},{','.join(cells)}\n")


def _xgboost_reader(path: Path):  # type: ignore[no-untyped-def]
    try:
        import xgboost
    except ImportError:
        print("xgboost is not installed: no comparison with it")
        return None
    xgboost.set_config(verbosity=0)
    return lambda: xgboost.DMatrix(f"{path}?format=libsvm&indexing_mode=1")


def _compare_with_sklearn(path: Path) -> tuple[Timing, str]:
    from sklearn.datasets import load_svmlight_file

    result: list[tuple] = []  # type: ignore[type-arg]
    timing = measure(lambda: result.append(load_svmlight_file(path, query_id=True, zero_based=False)), repeats=0)
    X, y, qid = result[0]
    data = read_letor(path)
    same = (
        np.array_equal(X.toarray().astype(np.float32), data.X)
        and np.array_equal(y, data.y)
        and np.array_equal(qid, data.qid)
    )
    return timing, "yes" if same else "NO"


def _report_memory(path: Path, data: RankingData) -> None:
    child = subprocess.run(
        [sys.executable, __file__, CHILD, "--file", str(path)], capture_output=True, text=True, check=True
    )
    growth = int(child.stdout)
    arrays = data.X.nbytes + data.y.nbytes + data.rows.nbytes + data.offsets.nbytes + data.query_ids.nbytes
    print(
        f"memory: peak grows by {growth / 1e6:.0f} MB, the arrays have {arrays / 1e6:.0f} MB: {growth / arrays:.2f} x"
    )
    ratio = growth / arrays
    print_result("peak memory of reading LETOR text", "the final arrays", f"{ratio:.2f}x", "at most 2x", ratio <= 2)


def _memory_of_a_read(path: Path) -> int:
    """How much the peak grows when a file is read, with kernels that are loaded already."""
    with tempfile.TemporaryDirectory() as folder:
        read_letor(make_file(Path(folder) / "small.txt", 100))
    before = peak_memory()
    data = read_letor(path)
    return peak_memory() - before if data.n_rows else 0


def _report_writing(data: RankingData, folder: Path, repeats: int) -> None:
    part = data.subset(slice(0, 500))
    path = folder / "written.txt"
    timing = measure(lambda: write_letor(part, path), repeats)
    values, size = part.X.size, path.stat().st_size / 1e6
    print(
        f"write: {timing.best / values * 1e9:.0f} ns per value, {size / timing.best:.0f} MB/s "
        f"({part.n_rows} rows, first call {timing.first:.1f} s)"
    )


if __name__ == "__main__":
    main()
