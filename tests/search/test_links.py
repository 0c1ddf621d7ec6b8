"""Links: PageRank as the linear system has it, anchors at their targets, facts about URLs; all follow deletions."""

import numpy as np
import pytest

from podium.search import IndexWriter, build_index, open_index
from podium.search.links import page_rank, url_key


def solved(sources, targets, kept, damping=0.85):
    """PageRank by solving (I - d M) x = (1 - d) / n."""
    places = np.flatnonzero(kept)
    n = len(places)
    matrix = np.zeros((n, n))
    for column, doc in enumerate(places):
        out = {target for source, target in zip(sources, targets) if source == doc}
        for row, other in enumerate(places):
            matrix[row, column] = (other in out) / len(out) if out else 1 / n
    ranks = np.zeros(len(kept))
    ranks[places] = np.linalg.solve(np.eye(n) - damping * matrix, np.full(n, (1 - damping) / n))
    return ranks


@pytest.mark.parametrize("seed", range(5))
def test_page_rank_solves_its_equation(seed):
    rng = np.random.default_rng(seed)
    kept = rng.random(30) < 0.8
    alive = np.flatnonzero(kept)
    pairs = {(s, t) for s, t in rng.choice(alive, (40, 2)).tolist() if s != t}
    sources, targets = np.array(sorted(pairs)).T
    found = page_rank(sources, targets, kept)
    np.testing.assert_allclose(found, solved(sources.tolist(), targets.tolist(), kept), atol=1e-10)
    assert found.sum() == pytest.approx(1)


@pytest.fixture
def web(tmp_path):
    pages = [
        {"id": "home", "url": "http://Example.org/", "body": "start",
         "links": [["http://example.org/a#top", "lasers"]]},
        {"id": "a", "url": "https://example.org/a/", "body": "x", "links": [["http://example.org", "back home"], "b"]},
        {"id": "b", "url": "http://example.org/a/b", "body": "y", "anchors": ["given text"],
         "links": [["a", "beam"], ["http://example.org/a", "beam again"], ["b", "self"], ["http://else.org", "out"]]},
        {"id": "c", "body": "no url", "links": [{"url": "http://example.org/a", "text": "light source"}]},
    ]  # fmt: skip
    build_index(pages, tmp_path / "web")
    return tmp_path / "web"


def facts(index, name):
    return {index.id(number): index.fact(name)[number] for number in range(index.n_slots) if not deleted(index, number)}


def deleted(index, number):
    return index.number(index.id(number)) != number


def test_anchor_texts_belong_to_the_page_they_point_to(web):
    index = open_index(web)
    assert index.search("anchor:laser").ids == ["a"]
    assert index.search("beam light", fields="anchor").ids == ["a"]
    assert index.search("anchor:home").ids == ["home"]
    assert index.search("anchor:given").ids == ["b"]
    assert index.search("anchor:self").ids == []
    assert index.search('anchor:"lasers beam"').ids == []  # two texts are no phrase
    assert index.search("lasers").ids == []  # the whole document is what it says itself


def test_links_and_urls_are_counted(web):
    index = open_index(web)
    assert facts(index, "inlinks") == {"home": 1, "a": 3, "b": 1, "c": 0}
    assert facts(index, "outlinks") == {"home": 1, "a": 2, "b": 1, "c": 1}
    assert facts(index, "slashes") == {"home": 3, "a": 4, "b": 4, "c": 0}
    assert facts(index, "url_length") == {"home": 19, "a": 22, "b": 22, "c": 0}
    assert facts(index, "children") == {"home": 1, "a": 1, "b": 0, "c": 0}
    assert sum(facts(index, "pagerank").values()) == pytest.approx(1)
    with pytest.raises(ValueError, match="fact must be one of pagerank"):
        index.fact("rank")


def test_a_deleted_page_takes_its_links_with_it(web):
    with IndexWriter(web) as writer:
        writer.delete("home")
    index = open_index(web)
    assert index.search("anchor:laser").ids == []
    assert facts(index, "inlinks") == {"a": 2, "b": 1, "c": 0}
    assert sum(facts(index, "pagerank").values()) == pytest.approx(1)
    with IndexWriter(web) as writer:
        writer.add({"id": "d", "body": "new", "links": [["c", "lasers"]]})
    index = open_index(web)
    assert len(index.segments) == 2
    assert index.search("anchor:laser").ids == ["c"]
    before = facts(index, "pagerank")
    with IndexWriter(web) as writer:
        writer.merge()
    assert facts(open_index(web), "pagerank") == pytest.approx(before)


def test_spellings_of_one_address():
    assert len({url_key(url) for url in ("http://A.org/x/", "https://a.org/x#y", "a.org/x")}) == 1
    assert url_key("http://a.org/X") != url_key("http://a.org/x")
