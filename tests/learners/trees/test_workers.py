"""Workers: barriers that no worker passes early, and one worker where several only wait for each other."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from podium._runtime.compiler import kernel
from podium.learners.trees.training.workers import Crew, barrier, cancel, is_cancelled, make_shared_state, reset


@kernel
def take_steps(shared, workers, worker, steps, slow, counts):
    """In every phase each worker counts what all had done in the phase before; a slow one makes the others sleep."""
    phase = barrier(shared, workers, 1)
    if is_cancelled(shared):
        return -1
    wrong = 0
    for step in range(steps):
        waste = 0.0
        for k in range(2_000_000 if worker == slow and step % 7 == 0 else 10):
            waste += np.sqrt(float(k))
        counts[worker, step] = 1 if waste >= 0.0 else 0
        phase = barrier(shared, workers, phase)
        for other in range(workers):
            wrong += int(counts[other, step] != 1)
        phase = barrier(shared, workers, phase)
    return wrong


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_no_worker_passes_a_barrier_before_the_others_arrive(workers):
    """With more workers than cores and one that is slow, those who wait must sleep and be woken."""
    shared, counts = make_shared_state(), np.zeros((workers, 60))
    reset(shared)
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(lambda worker: take_steps(shared, workers, worker, 60, 1, counts), range(workers)))
    assert found == [0] * workers


def test_cancelled_workers_return_at_once_even_when_they_sleep():
    shared, counts = make_shared_state(), np.zeros((2, 1))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(take_steps, shared, 2, 1, 1, -1, counts)  # the other one never comes
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.05)
        cancel(shared, 2)
        assert waiting.result(timeout=10) == -1


def test_a_worker_that_arrives_while_growth_is_cancelled_returns():
    shared, counts = make_shared_state(), np.zeros((2, 1))
    with ThreadPoolExecutor(1) as pool:
        for _ in range(300):
            reset(shared)
            arriving = pool.submit(take_steps, shared, 2, 1, 1, -1, counts)
            cancel(shared, 2)
            assert arriving.result(timeout=60) == -1


def test_one_worker_takes_over_where_it_is_faster():
    crew = Crew(2)
    crew.note(1.0, running=1.9)
    for _ in range(3):  # together they run a third of the time
        assert crew.now == 2
        crew.note(1.0, running=0.7)
    assert crew.now == 1  # one is tried
    crew.note(0.8, running=0.8)  # and is faster
    sizes = []
    for _ in range(20):
        sizes.append(crew.now)
        crew.note(0.8, running=0.8 * crew.now)
    assert sizes == [1] * 16 + [2] * 4  # then all are tried again, and have enough to do


def test_all_workers_go_on_where_one_is_slower():
    crew = Crew(2)
    for seconds in (1.0, 3.0, 1.0):
        crew.note(seconds, running=0.7)
    crew.note(1.5, running=1.5)  # faster than the slowest tree of all workers, but not than the others
    sizes = []
    for _ in range(17):
        sizes.append(crew.now)
        crew.note(1.0, running=0.7)
    assert sizes == [2] * 16 + [1]


def test_a_few_slow_trees_among_others_change_nothing():
    crew = Crew(2)
    for running in (0.7, 0.7, 1.9, 0.7, 0.7, 1.9):
        crew.note(1.0, running)
        assert crew.now == 2


def test_a_single_worker_has_no_choice():
    crew = Crew(1)
    crew.note(1.0, running=0.1)
    assert crew.now == 1
