"""Threads: results in order, errors passed on, no pool that waits for itself."""

import threading
import time

import pytest

from podium._runtime.threads import _pool, map_blocks, serial_blas, threads_for


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5])
@pytest.mark.parametrize("n_blocks", [0, 1, 7])
def test_results_come_in_the_order_of_the_blocks(n_jobs, n_blocks):
    def work(block):
        time.sleep(0.002 * (n_blocks - block))  # the first one is done last
        return block * block

    assert map_blocks(work, n_blocks, n_jobs) == [block * block for block in range(n_blocks)]


def test_blocks_of_blocks_do_not_wait_for_each_other():
    assert map_blocks(lambda a: sum(map_blocks(lambda b: 10 * a + b, 3, 2)), 4, 2) == [3, 33, 63, 93]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_in_a_block_reaches_the_caller_and_the_pool_works_on(n_jobs):
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda block: 1 // (2 - block), 5, n_jobs)
    assert map_blocks(abs, 3, n_jobs) == [0, 1, 2]


def test_blocks_are_done_while_all_threads_of_the_pool_wait_for_their_caller():
    """As when each of them reads a value that the caller is computing, with blocks of its own."""
    release, begun, done = threading.Event(), threading.Barrier(3), []

    def wait(_):
        begun.wait(10)
        return release.wait(20)

    def work():
        begun.wait(10)
        done.extend(map_blocks(abs, 3, 2))
        release.set()

    threads = [
        threading.Thread(target=work, daemon=True),
        threading.Thread(target=lambda: [pool_of_two.submit(wait, block) for block in range(2)], daemon=True),
    ]
    pool_of_two = _pool(2)
    for thread in threads:
        thread.start()
    assert release.wait(10)
    assert done == [0, 1, 2]


def test_what_has_not_begun_when_a_block_of_code_fails_is_cancelled():
    release, begun = threading.Event(), threading.Event()

    def first():
        begun.set()
        release.wait(10)

    def fail():
        with threads_for(1, "test") as pool:
            pool.submit(first)
            waiting.append(pool.submit(time.sleep, 0))
            begun.wait(10)
            threading.Timer(0.05, release.set).start()
            raise KeyError

    waiting = []
    with pytest.raises(KeyError):
        fail()
    assert waiting[0].cancelled()


def test_blas_has_one_thread_inside_and_its_own_after_the_last_caller_has_left():
    from threadpoolctl import threadpool_info

    def threads():
        return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]

    before = threads()
    first, second = serial_blas(), serial_blas()
    first.__enter__()
    second.__enter__()
    assert set(threads()) <= {1}
    first.__exit__(None, None, None)  # who came first may leave first
    assert set(threads()) <= {1}
    second.__exit__(None, None, None)
    assert threads() == before
