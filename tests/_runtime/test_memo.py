"""Memos: values are found again, and memory stays below what was stated."""

import threading
import tracemalloc

import numpy as np
import pytest

from podium._runtime.memo import Memo


def test_values_are_kept_until_there_is_no_room():
    memo = Memo(1000)
    memo.keep("a", 1, 0)
    memo.keep("b", 2, 0)
    assert memo.values == {"a": 1, "b": 2}
    assert memo.n_bytes <= 1000
    memo.keep("large", 3, 800)  # no room for all three
    assert memo.values == {"large": 3}
    memo.keep("too large", 4, 2000)
    assert memo.values == {"large": 3}


def test_a_value_that_is_there_is_not_counted_again():
    memo = Memo(1000)
    memo.keep("a", 1, 100)
    before = memo.n_bytes
    memo.keep("a", 1, 100)
    assert memo.n_bytes == before


@pytest.mark.parametrize("size", [0, 8, 1000, 50_000])
def test_the_memory_in_use_is_at_most_what_was_stated(size):
    tracemalloc.start()
    try:
        memo, before = Memo(1_000_000), tracemalloc.get_traced_memory()[0]
        for number in range(20_000 if size < 1000 else 2000):
            memo.keep(f"word {number}" + "x" * (number % 50), np.zeros(size, np.uint8), size + 112)
            assert memo.n_bytes <= memo.most_bytes
        assert tracemalloc.get_traced_memory()[0] - before <= memo.most_bytes
    finally:
        tracemalloc.stop()


def test_threads_do_not_lose_count():
    memo = Memo(10**9)

    def fill(first):
        for number in range(first, first + 2000):
            memo.keep(number, number, 10)

    threads = [threading.Thread(target=fill, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Memo(10**9)
    for number in range(5000):
        alone.keep(number, number, 10)
    assert (memo.values, memo.n_bytes) == (alone.values, alone.n_bytes)
