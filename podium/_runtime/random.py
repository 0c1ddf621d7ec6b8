"""Counter-based random numbers: the number of a draw determines its value, for any threads and order of calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from podium._runtime.compiler import kernel

_U8 = np.uint64


def check_seed(name: str, seed: Any) -> None:
    """Refuse a seed that is not an integer from 0."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise ValueError(f"{name}: seed must be an integer from 0; got {seed!r}.")


@kernel
def mix(state: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of the splitmix generators)."""
    state = (state ^ (state >> _U8(30))) * _U8(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> _U8(27))) * _U8(0x94D049BB133111EB)
    return state ^ (state >> _U8(31))


def stream_of(seed: int, iteration: int, purpose: int = 0) -> np.uint64:
    """The stream of one iteration of one seed; what draws for several purposes has a stream for each."""
    seeded = int(mix(_U8(seed)))
    counted = seeded + iteration * 0xD1B54A32D192ED03 + purpose * 0x8CB92BA72F3D8DD7
    return _U8(mix(_U8(counted % 2**64)))  # kernels hand back Python's integers


@kernel
def random_bits(stream: np.uint64, number: int) -> np.uint64:
    """64 bits: draw `number` of a stream."""
    return mix(stream + (_U8(number) + _U8(1)) * _U8(0x9E3779B97F4A7C15))


@kernel
def uniform(stream: np.uint64, number: int) -> float:
    """Draw `number` of a stream: a multiple of 2^-53 with one half added, so neither 0 nor 1."""
    return (np.float64(random_bits(stream, number) >> _U8(11)) + 0.5) * 2.0**-53


def draw_lots(stream: np.uint64, numbers: np.ndarray) -> np.ndarray:
    """Of each number 31 bits, uint32; who has the smallest of them was drawn at random."""
    lots = np.empty(len(numbers), np.uint32)
    _fill_lots(stream, numbers, lots)
    return lots


@kernel
def _fill_lots(stream: np.uint64, numbers: np.ndarray, lots: np.ndarray) -> None:
    for k in range(len(numbers)):
        lots[k] = np.uint32(random_bits(stream, numbers[k]) >> _U8(33))
