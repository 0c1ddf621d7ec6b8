"""Stored documents: they come back as they were given, from blocks of bounded size, as a whole or their beginning."""

import json
from itertools import pairwise

import numpy as np
import pytest

from podium.search import IndexWriter, build_index, open_index
from podium.search.index import storing
from podium.search.index.storing import LARGEST, Store, StoreWriter, stored_text


def store_of(path, texts):
    writer = StoreWriter()
    for text in texts:
        writer.add(text)
    arrays = writer.arrays()
    assert {name: array.tolist() for name, array in writer.arrays().items()} == {
        name: array.tolist() for name, array in arrays.items()
    }  # reading changes nothing
    rows = np.arange(len(texts), dtype=np.uint32)
    return Store(path, *(arrays[f"store.{name}"] for name in ("data", "blocks", "firsts")), rows), arrays


@pytest.mark.parametrize("sizes", [[], [1] * 64, [1] * 65, [300_000] * 3, [1, 300_000, 1, 1], [200_000] * 5])
def test_blocks_have_at_most_64_documents_or_256_kibibytes_or_one_document(tmp_path, sizes):
    texts = [json.dumps({"body": "x" * size}).encode() for size in sizes]
    store, arrays = store_of(tmp_path, texts)
    assert [store.text(doc) for doc in range(len(texts))] == texts
    assert list(store.texts(np.arange(len(texts)))) == texts
    firsts = arrays["store.firsts"].tolist()
    for first, end in pairwise(firsts):
        assert end - first <= 64
        assert end - first == 1 or sum(map(len, texts[first:end])) <= 1 << 18


def test_documents_come_in_the_order_they_are_stored_in(tmp_path, rng):
    texts = [json.dumps({"body": str(number) * int(rng.integers(1, 9000))}).encode() for number in range(300)]
    writer = StoreWriter()
    for text in texts:
        writer.add(text)
    rows = rng.permutation(300).astype(np.uint32)
    arrays = writer.arrays()
    store = Store(tmp_path, arrays["store.data"], arrays["store.blocks"], arrays["store.firsts"], rows)
    docs = rng.permutation(300)[:50]
    assert [(doc, document["body"]) for doc, document in store.documents(docs)] == [
        (doc, json.loads(texts[rows[doc]])["body"]) for doc in sorted(docs, key=lambda doc: rows[doc])
    ]
    in_order = list(store.texts(docs))
    assert [in_order[place] for place in store.places(docs)] == [texts[rows[doc]] for doc in docs]


@pytest.mark.parametrize("piece", ["word ", "жук ", '"', "\\", "\\u00", "\x01", "\U0001f600", "\n\\n"])
@pytest.mark.parametrize("shift", range(7))
def test_the_beginning_of_a_document_is_cut_between_characters(tmp_path, monkeypatch, piece, shift):
    """Wherever the cut falls: in a character of several bytes, behind a backslash, in an escape."""
    monkeypatch.setattr(storing, "_BEGINNING", 1000 + shift)
    document = {"title": "T", "fields": {"body": "x"}, "body": piece * 100_000}
    store, _ = store_of(tmp_path, [stored_text("a", document)])
    beginning = store.beginning(0)
    body = beginning.pop("body")
    assert document["body"].startswith(body)
    assert 100 < len(body) <= 1000 + shift
    assert beginning == {"title": "T", "fields": {"body": "x"}}
    assert store.document(0) == document


def test_the_beginning_is_the_document_where_it_is_short_or_its_body_comes_late(tmp_path):
    short, late = {"body": "a"}, {"title": "x" * (3 << 20), "body": "y"}
    store, _ = store_of(tmp_path, [stored_text("a", document) for document in (short, late)])
    assert [store.beginning(0), store.beginning(1)] == [short, late]


def test_a_document_that_is_too_long_is_refused_and_changes_nothing(tmp_path):
    long = "x" * (LARGEST - 10)
    with IndexWriter(tmp_path) as writer:
        writer.add(("a", "alpha"))
        for record in [("b", long), {"id": "b", "body": "b", "note": long}]:
            with pytest.raises(ValueError, match=r"document 'b' has 67,10.,... bytes; at most 67,108,864 are stored"):
                writer.add(record)
            with pytest.raises(ValueError, match="document 'b' has") as caught:
                writer.add_all([("c", "gamma"), record])
            assert caught.value.__notes__ == ["1 document added before this error."]
    assert len(open_index(tmp_path)) == 2


def test_line_breaks_and_other_scripts_come_back(tmp_path):
    body = "a\nb\r\nc\u2028\U0001f600 \x01 жук"
    build_index([{"id": "a", "body": body, "tags": [body, None, 1.5]}], tmp_path / "i")
    assert open_index(tmp_path / "i").stored(0) == {"body": body, "fields": {"tags": [body, None, 1.5]}}
