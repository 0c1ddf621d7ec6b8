"""Threads: searches that begin at once in an index just opened answer as one thread does, and so do those that follow.

Everything runs twice: with the installed Python's `cached_property`, and with one without a lock, as it is from Python
3.12 on. A last test takes the lock of `once` away and sees the comparison fail.
"""

import functools
import sys
import threading
import time

import numpy as np
import pytest
from collection import WORDS, index_of, random_pages

from podium._runtime.once import once
from podium.search import Extractor, Features, open_index

N_THREADS = 4
FEATURES = Features.letor().add("pairs", "bigrams", "body").add("more", "feedback", "whole")


def without_lock(name_of, function_of):
    """The `__get__` of Python 3.12, where of two threads that compute a value the first is the last to set it.

    That is the worst case: what the second thread has done with its own value meanwhile is lost.
    """
    seconds = {}

    def get(self, instance, owner=None):
        if instance is None:
            return self
        values, name = vars(instance), getattr(self, name_of)
        if name in values:
            return values[name]
        second, is_first = threading.Event(), (id(instance), name) not in seconds
        second = seconds.setdefault((id(instance), name), second)
        value = getattr(self, function_of)(instance)
        if is_first and second.wait(0.02):
            time.sleep(0.002)
        values[name] = value
        second.set()
        return value

    return get


@pytest.fixture(scope="module", params=["built", "segments"])
def folder(request, tmp_path_factory):
    rng, folder = np.random.default_rng(4), tmp_path_factory.mktemp("index") / "pages"
    index_of(random_pages(rng, 80), folder, request.param, rng)
    return folder


@pytest.fixture(autouse=True)
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=["installed", "lock-free"])
def cached_property(request, monkeypatch):
    if request.param == "lock-free":
        monkeypatch.setattr(functools.cached_property, "__get__", without_lock("attrname", "func"))


def answers(index, first=0):
    """What an index says about everything that is computed on first use. Threads begin with words of their own."""
    extractor = Extractor(index, FEATURES)
    plain = [f"{WORDS[1]} {WORDS[4]}", *WORDS[:7]]
    for text in plain[first:]:
        index.search(text)
    questions = [
        lambda: [(hits.ids, hits.scores) for hits in (index.search(text, 50) for text in plain)],
        lambda: [(hits.ids, hits.scores) for hits in (index.search(text, 50, weighting="lmir-dir") for text in plain)],
        lambda: [(hits.ids, hits.scores) for hits in index.search_many(plain, 50, n_jobs=2)],
        lambda: index.search(f'"{WORDS[0]} {WORDS[1]}" -{WORDS[3]}', fields={"title": 2, "body": 1}).scores,
        lambda: index.search(plain[0], weighting="bm25f", fields=["title", "anchor", "body"]).scores,
        lambda: [extractor.values(text, np.arange(index.n_slots)[::3]).tolist() for text in plain[:2]],
        lambda: [str(hit.snippet(8)) for hit in index.search(plain[0], 3)],
    ]
    return [ask() for ask in questions]


def cold_answers(folder):
    """The answers of an index just opened to threads that ask at once, and those it gives later."""
    index, start, found = open_index(folder), threading.Barrier(N_THREADS), []

    def ask(first):
        start.wait(10)
        found.append(answers(index, first))

    threads = [threading.Thread(target=ask, args=(2 * number,), daemon=True) for number in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == N_THREADS
    return [*found, answers(index)]


@pytest.mark.usefixtures("cached_property")
def test_threads_that_ask_at_once_get_the_answers_of_one(folder):
    expected = answers(open_index(folder))
    for _ in range(12):
        for found in cold_answers(folder):
            assert found == expected


def test_without_locks_answers_are_lost(folder, monkeypatch):
    """So that the test above can fail."""
    expected = answers(open_index(folder))
    for _ in range(100):
        monkeypatch.setattr(once, "__get__", without_lock("_name", "_compute"))
        if any(found != expected for found in cold_answers(folder)):
            return
    pytest.fail("100 indexes without locks answered as one thread does")


def test_the_largest_impact_is_that_of_all_terms(folder):
    """It decides how wide the sums of a query are; threads that learn different terms must not lose one's impact."""
    index = open_index(folder)
    source = index.ranker().main
    for term in WORDS:
        source.prepare(term)
    expected = source.largest
    for _ in range(20):
        source = open_index(folder).ranker().main
        threads = [threading.Thread(target=source.prepare, args=(term,)) for term in WORDS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert source.largest == expected


def test_one_ranker_serves_threads_that_ask_for_it_at_once(folder):
    for _ in range(20):
        index, start, found = open_index(folder), threading.Barrier(N_THREADS), []

        def ask(index=index, start=start, found=found):
            start.wait(10)
            found.append(index.ranker("bm25", {"title": 2.0, "body": 1.0}))

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(N_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == N_THREADS
        assert len({id(ranker) for ranker in found}) == 1
