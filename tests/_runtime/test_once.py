"""Attributes that are computed once: by one thread, without deadlock, in objects that pickle."""

import functools
import pickle
import sys
import threading
from dataclasses import dataclass

import pytest

import podium
from podium._runtime.once import once

SOON = 0.05  # seconds that a computation waits for others to begin it too


class Page:
    """Counts computations of its attributes; each waits for a second thread to begin it."""

    def __init__(self):
        self.computed, self.second = [], threading.Event()

    @once
    def words(self):
        """The words of the page."""
        self.computed.append("words")
        if len(self.computed) > 1:
            self.second.set()
        self.second.wait(SOON)
        return ["light"]

    @once
    def n_words(self):
        return len(self.words)


class UnguardedPage(Page):
    words = functools.cached_property(vars(Page)["words"]._compute)
    words.__set_name__(Page, "words")


@dataclass(frozen=True)
class Record:
    text: str

    @once
    def size(self):
        return len(self.text)


def read_at_once(page, name, n_threads=4):
    start, values = threading.Barrier(n_threads), []

    def read():
        start.wait(10)
        values.append(getattr(page, name))

    threads = [threading.Thread(target=read, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(values) == n_threads
    return values


def test_threads_that_read_at_once_get_one_value():
    page = Page()
    values = read_at_once(page, "words")
    assert page.computed == ["words"]
    assert all(value is values[0] for value in values)
    assert page.words is values[0]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="cached_property has a lock before Python 3.12")
def test_cached_property_computes_twice():
    page = UnguardedPage()
    read_at_once(page, "words")
    assert len(page.computed) > 1


def test_attributes_that_read_one_another_do_not_wait_for_ever():
    page = Page()
    assert read_at_once(page, "n_words") == [1] * 4
    assert page.computed == ["words"]


def test_objects_wait_for_their_own_values_only():
    """While one page computes, another is done."""
    slow, quick, begun, end = Page(), Page(), threading.Event(), threading.Event()
    slow.second = type("Waits", (), {"wait": lambda self, seconds: (begun.set(), end.wait(10))})()
    thread = threading.Thread(target=lambda: slow.words, daemon=True)
    thread.start()
    assert begun.wait(10)
    assert quick.words == ["light"]
    assert "words" not in vars(slow)
    end.set()
    thread.join(10)
    assert vars(slow)["words"] == ["light"]


def test_an_error_is_not_kept():
    class Fails:
        tries = 0

        @once
        def value(self):
            self.tries += 1
            return 1 // (self.tries - 1)

    fails, before = Fails(), set(once._turns)
    with pytest.raises(ZeroDivisionError):
        _ = fails.value
    assert set(once._turns) == before
    assert fails.value == 1


def test_owners_are_pickled_with_their_values_and_no_lock_stays():
    before = set(once._turns)  # an interrupt in another test may have left some
    record = Record("light")
    assert record.size == 5
    copy = pickle.loads(pickle.dumps(record))
    assert (copy, vars(copy)["size"]) == (record, 5)
    assert set(once._turns) == before


def test_documentation_is_that_of_the_function():
    assert Page.words.__doc__ == "The words of the page."


def test_no_module_uses_cached_property():
    """It has no lock from Python 3.12 on; objects are shared by threads."""
    from pathlib import Path

    sources = sorted(Path(podium.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    users = [
        str(path)
        for path in sources
        if "import cached_property" in (text := path.read_text())
        or "@cached_property" in text
        or "functools.cached_property(" in text
    ]
    assert users == []
