"""Links: PageRank as the linear system has it, anchors at their targets, facts about URLs; all follow deletions."""

import numpy as np
import pytest
from collection import WORDS, random_pages

from podium.search import IndexWriter, build_index, open_index
from podium.search.index.links import FACTS, page_rank, url_key
from podium.search.index.segments import FIELDS


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


URLS = ["http://a.org/x", "https://A.org/x/", "http://a.org/x/y", "http://b.org", ""]


def pages_of_few_urls(rng, n):
    """Pages of which several have one URL, with links by URL and by id."""
    pages = random_pages(rng, n)
    for page in pages.values():
        page["url"] = str(rng.choice(URLS))
        page["links"] = [[str(rng.choice([*URLS[:4], *pages])), text] for _, text in page["links"]]
    return pages


def in_segments(pages, folder, rng, **options):
    """The pages after a life of several commits, with others and older versions that were deleted or replaced."""
    others = {f"x{number}": page for number, page in enumerate(pages_of_few_urls(rng, 6).values())}
    others["x0"]["body"] = "long " * 70_000 + "end"  # positions of more than 16 bits
    versions = {id: page | {"body": "older"} for id, page in pages.items() if rng.random() < 0.3}
    ids = list(pages)
    parts = [[(ids[row], pages[ids[row]]) for row in part] for part in np.array_split(rng.permutation(len(ids)), 9)]
    for part in [list(versions.items()), parts[0] + list(others.items()), *parts[1 : rng.integers(2, 9)]]:
        with IndexWriter(folder, **options) as writer:
            writer.add_all({"id": id} | page for id, page in part)
    with IndexWriter(folder) as writer:
        writer.add_all({"id": id} | page for part in parts[2:] for id, page in part)
    with IndexWriter(folder) as writer:
        assert all(writer.delete(id) for id in others)


def everything(index):
    """What an index says of its documents, by id, and what it answers: all to the last bit."""
    numbers = {id: index.number(id) for id in sorted(index.id(number) for number in range(index.n_slots))}
    live = {id: number for id, number in numbers.items() if number is not None}
    said = {name: [index.fact(name)[number] for number in live.values()] for name in FACTS}
    said |= {f"{name}.lengths": index.field(name).lengths[list(live.values())].tolist() for name in FIELDS}
    for weighting in ("bm25", "lmir-dir", "lmir-jm", "lmir-abs"):
        for field in FIELDS:
            for query in (" ".join(WORDS[:3]), f'"{WORDS[0]} {WORDS[1]}" +{WORDS[0]}'):
                hits = index.search(query, 50, weighting=weighting, fields=field)
                said[weighting, field, query] = hits.ids, hits.scores
    return said


@pytest.mark.parametrize("seed", range(6))
def test_segments_deletions_and_replacements_change_no_fact_and_no_score(tmp_path, seed):
    rng = np.random.default_rng(seed)
    pages = pages_of_few_urls(rng, 25)
    build_index([{"id": id} | page for id, page in pages.items()], tmp_path / "built")
    in_segments(pages, tmp_path / "segments", rng)
    built, segments = everything(open_index(tmp_path / "built")), everything(open_index(tmp_path / "segments"))
    for name, values in built.items():
        assert segments[name] == values, name


@pytest.mark.parametrize("seed", range(3))
def test_a_merged_index_has_the_bytes_of_one_built_at_once_without_texts(tmp_path, seed):
    """With texts too, apart from the order in which these are stored: that in which they came."""
    rng = np.random.default_rng(seed)
    pages = pages_of_few_urls(rng, 25)
    for keep_texts in (False, True):
        built, merged = tmp_path / f"built{keep_texts}", tmp_path / f"merged{keep_texts}"
        build_index([{"id": id} | page for id, page in pages.items()], built, keep_texts=keep_texts)
        in_segments(pages, merged, rng, keep_texts=keep_texts)
        with IndexWriter(merged) as writer:
            writer.merge()
        assert part_arrays(merged) == part_arrays(built)
        if not keep_texts:
            assert part_bytes(merged) == part_bytes(built)
    index, other = open_index(built), open_index(merged)
    assert [index.stored(number) for number in range(25)] == [other.stored(number) for number in range(25)]


def part_bytes(folder):
    return sorted(path.read_bytes() for path in folder.glob("*.podium-part"))


def part_arrays(folder):
    (segment,) = open_index(folder).segments
    names = [name for name in segment._mapped if not name.startswith("store")]
    return {name: segment.array(name).tolist() for name in names}


def test_page_rank_without_links_is_the_same_for_all_and_sums_to_1(tmp_path):
    build_index([(id, "light") for id in "abcd"], tmp_path / "plain")
    with IndexWriter(tmp_path / "plain") as writer:
        writer.delete("b")
    assert open_index(tmp_path / "plain").fact("pagerank").tolist() == [1 / 3, 0, 1 / 3, 1 / 3]
    assert open_index(tmp_path / "plain").fact("inlinks").tolist() == [0, 0, 0, 0]
    build_index([{"id": id, "url": f"http://x.org/{id}"} for id in "abc"], tmp_path / "urls")
    assert open_index(tmp_path / "urls").fact("pagerank").tolist() == [1 / 3, 1 / 3, 1 / 3]


def test_a_link_to_a_url_of_several_documents_is_to_the_lowest_id(tmp_path):
    pages = [{"id": id, "url": "http://x.org/same"} for id in ("c", "b", "d")]
    build_index([*pages, {"id": "a", "links": [["http://x.org/same", "beam"]]}], tmp_path / "one")
    for page in [*pages, {"id": "a", "links": [["http://x.org/same", "beam"]]}]:
        with IndexWriter(tmp_path / "many") as writer:
            writer.add(page)
    for name in ("one", "many"):
        index = open_index(tmp_path / name)
        assert index.search("anchor:beam").ids == ["b"]
        assert facts(index, "inlinks") == {"a": 0, "b": 1, "c": 0, "d": 0}
