"""A process of its own for a program that scores a file: `-m podium.exchange.running FORMAT FILE ROWS SCORES`."""

from __future__ import annotations

import sys

import numpy as np

from podium.exchange.registry import find_format


def main(name: str, path: str, rows: str, scores: str) -> None:
    """Score the rows of a .npy file, write the scores to another one, and print what the program is called."""
    values, words = find_format(name).load().run(path, np.load(rows, allow_pickle=False))
    np.save(scores, np.asarray(values, np.float64).reshape(-1))
    print(words)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
