"""The cache of ranking data, 1,000,000 rows x 136 features: opening, checking and writing it.

The yardstick is NumPy's own file of the features alone: np.load of a mapped file (which checks nothing), np.save with
the same flush to disk, and the sum of the mapped array (what reading all of it costs at least). The files lie in the
page cache: these are the costs of the program, not of the disk, except for writing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from _report import best_of, print_header, print_result

from podium.data.ranking import RankingData
from podium.formats.cache import read_cache, write_cache

OPEN_BAR = 0.2  # seconds
VERIFY_BAR = 1.0  # GB/s


def make_data(n_rows: int, n_features: int) -> RankingData:
    rng = np.random.default_rng(3)
    features = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    docids = [f"clueweb09-en{row:010d}" for row in range(n_rows)]
    return RankingData.from_arrays(features, rng.integers(0, 5, n_rows), qid=np.arange(n_rows) // 120, docids=docids)


def save_flushed(features: np.ndarray, path: Path) -> None:
    with open(path, "wb") as stream:
        np.save(stream, features)
        stream.flush()
        os.fsync(stream.fileno())


def seconds_of_check(path: Path) -> float:
    data = read_cache(path)
    started = time.perf_counter()
    data.X  # noqa: B018 (its first use checks it)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=136)
    options = parser.parse_args()
    print_header(f"cache: {options.rows:,} rows x {options.features} features", ["podium", "numpy"])
    data = make_data(options.rows, options.features)
    gigabytes = data.X.nbytes / 1e9
    with tempfile.TemporaryDirectory() as folder:
        ours, numpys = Path(folder) / "x.podium-data", Path(folder) / "x.npy"
        write, _ = best_of(lambda: write_cache(data, ours) or True, repeat=3)
        save, _ = best_of(lambda: save_flushed(data.X, numpys) or True, repeat=3)
        opening, opened = best_of(lambda: read_cache(ours))
        loading, _ = best_of(lambda: np.load(numpys, mmap_mode="r"))
        check = min(seconds_of_check(ours) for _ in range(5))
        summing, _ = best_of(lambda: np.load(numpys, mmap_mode="r").sum(dtype=np.float32))
        assert np.array_equal(opened.X, data.X, equal_nan=True)
    report(gigabytes, {"open": (opening, loading), "check": (check, summing), "write": (write, save)})


def report(gigabytes: float, times: dict[str, tuple[float, float]]) -> None:
    for what, (ours, numpys) in times.items():
        print(
            f"{what:6} {ours * 1e3:8.1f} ms ({gigabytes / ours:5.2f} GB/s)   "
            f"numpy {numpys * 1e3:8.1f} ms ({gigabytes / numpys:5.2f} GB/s)"
        )
    opening, rate = times["open"][0], gigabytes / times["check"][0]
    print_result("open a cached set", "np.load, mapped", f"{opening:.3f} s", f"< {OPEN_BAR} s", opening < OPEN_BAR)
    print_result("check a cached set", f"{VERIFY_BAR} GB/s", f"{rate:.2f} GB/s", f">= {VERIFY_BAR}", rate >= VERIFY_BAR)


if __name__ == "__main__":
    main()
