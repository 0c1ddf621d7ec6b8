"""Whether work grows in proportion to the input: the processor time of an input of four times the size, compared."""

import gc
import time

_MOST = 2.5**2  # twice the input may take 2.5 times as long; four times the input shows it better
_ATTEMPTS = 8


def assert_doubling_is_cheap(work, make, n):
    """`work(make(4 * n))` takes at most 2.5 x 2.5 times as long as `work(make(n))`; with the square it would be 16."""
    small, large = make(n), make(4 * n)
    ratios = []
    for _ in range(_ATTEMPTS):
        ratios.append(_seconds(work, large) / max(_seconds(work, small), 1e-5))
        if ratios[-1] <= _MOST:
            return
    raise AssertionError(f"four times the input took {min(ratios):.1f} times as long")


def _seconds(work, value):
    gc.disable()
    try:
        start = time.thread_time()
        work(value)
        return time.thread_time() - start
    finally:
        gc.enable()
