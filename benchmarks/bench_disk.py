"""Training on rows that are too many for half of the memory: a data cache on disk, binned as it is read.

The rows are those of `_mslr.py`, the same block again and again, each time a little larger. What counts is memory of
the process's own (not the pages of the file, which the system may drop at any time): bins take half of the bytes of the
rows, and the rest should be small.

    python benchmarks/bench_disk.py [--share 0.55]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from _mslr import N_FEATURES, make_lists
from _report import own_memory, print_header, print_result

import podium
from podium.formats.cache import read_cache, write_cache

BLOCK, TREES, THREADS = 240_000, 4, 2
FIXED: dict[str, Any] = {
    "max_leaf_nodes": 31,
    "min_samples_leaf": 20,
    "learning_rate": 0.1,
    "feature_fraction": 1.0,
    "extra_trees": False,
}


def write_rows(path: Path, blocks: int) -> None:
    """A data cache of so many blocks, by way of a mapped file."""
    block = make_lists(BLOCK, BLOCK // 120)
    plain = path.with_suffix(".npy")
    X = np.lib.format.open_memmap(plain, "w+", np.float32, (blocks * BLOCK, N_FEATURES))
    for number in range(blocks):
        X[number * BLOCK : (number + 1) * BLOCK] = block.X * np.float32(1 + number / 1000)
    X.flush()
    labels, sizes = np.tile(block.y, blocks), np.tile(block.sizes, blocks)
    write_cache(podium.RankingData.from_arrays(X, labels, group=sizes), path)
    plain.unlink()


def train(path: str) -> None:
    """In a process of its own: print seconds up to the first tree, seconds per tree and the most memory."""
    small = make_lists(2_000, 20)
    podium.LambdaMART(n_estimators=2, n_jobs=THREADS, **FIXED).fit(small.X, small.y, group=small.sizes)
    before, most, ended = own_memory(), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    ends: list[float] = []
    started = time.perf_counter()
    data = read_cache(path)
    model = podium.LambdaMART(n_estimators=TREES, n_jobs=THREADS, **FIXED)
    model.fit(data, callbacks=[lambda _: ends.append(time.perf_counter())])
    ended.set()
    watcher.join()
    tree = (ends[-1] - ends[0]) / (TREES - 1)
    print(ends[0] - started - tree, tree, most[0] - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.55, help="bytes of the rows, as a share of the memory")
    parser.add_argument("--folder", help="where the files are written; twice the rows' bytes must fit")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        return train(options.train)
    print_header("rows on disk", [])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    blocks = max(1, round(options.share * memory / (BLOCK * N_FEATURES * 4)))
    size = blocks * BLOCK * N_FEATURES * 4
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        free = shutil.disk_usage(folder).free
        if free < 2.1 * size:
            sys.exit(
                f"needs {2.1 * size / 1e9:.0f} GB of disk, {free / 1e9:.0f} GB are free; see --share and --folder."
            )
        path = Path(folder) / "rows.podium-data"
        write_rows(path, blocks)
        command = [sys.executable, __file__, "--train", str(path)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    binning, tree, grown = (float(word) for word in done.stdout.split())
    print(f"{blocks * BLOCK:,} rows x {N_FEATURES}: {size / 1e9:.1f} GB, in a memory of {memory / 1e9:.1f} GB")
    print(f"opened, checked and binned in {binning:.0f} s, {tree:.1f} s per tree, {grown / 1e9:.2f} GB of memory")
    what = f"training on {size / memory:.2f} of the memory, from disk"
    print_result(f"{what}: memory of its own", "the rows", f"{grown / size:.2f}")
    print_result(f"{what}: until the first tree", "", f"{binning:.0f} s, {size / binning / 1e9:.2f} GB/s")


if __name__ == "__main__":
    main()
