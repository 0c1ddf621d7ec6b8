"""The index: what readers see is a commit, whole; killed, damaged and competing writers change nothing of it."""

import gc
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from collection import WORDS, random_documents, random_texts
from mutations import cut, flip, huge_number, overwrite

from podium.formats.container import open_container, write_container
from podium.formats.kinds import INDEX
from podium.search import IndexWriter, build_index, open_index
from podium.search.analysis import words
from podium.search.index import postings, segments
from podium.search.index.manifest import NAME

QUERIES = [WORDS[0], " ".join(WORDS[:3]), " ".join(WORDS[4:9]), f'"{WORDS[0]} {WORDS[1]}"', f"+{WORDS[0]} -{WORDS[2]}"]


def answers(index):
    return [(hits.ids, hits.scores) for hits in (index.search(query, 20) for query in QUERIES)]


def records(documents):
    return [{"id": name} | fields for name, fields in documents.items()]


def content(folder):
    """{file: bytes}, without the lock."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


def test_the_order_of_documents_changes_no_byte(tmp_path, rng):
    documents = records(random_documents(rng, 200))
    build_index(documents, tmp_path / "a", keep_texts=False)
    build_index([documents[place] for place in rng.permutation(200)], tmp_path / "b", keep_texts=False)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_the_number_of_threads_changes_no_byte(tmp_path, rng, monkeypatch):
    documents = records(random_documents(rng, 200))
    found = []
    for threads in (1, 2, 5):
        for module in (words, postings):
            monkeypatch.setattr(module, "usable_threads", lambda n_jobs, threads=threads: threads)
            monkeypatch.setattr(module, "_WORTH_THREADS", 1)
        build_index(documents, tmp_path / str(threads))
        found.append(content(tmp_path / str(threads)))
    assert postings._blocks_for(10_000, 10) == 5
    assert found[0] == found[1] == found[2]


def test_a_merged_index_is_the_index_of_its_documents(tmp_path, rng):
    """Random additions, replacements and deletions, then a merge: the bytes of an index built at once."""
    live, folder = {}, tmp_path / "changed"
    for _ in range(7):
        with IndexWriter(folder, keep_texts=False) as writer:
            for record in records(random_documents(rng, int(rng.integers(0, 15)))):
                record["id"] = f"d{rng.integers(0, 60)}"
                writer.add(record)
                live[record["id"]] = record
            for name in [f"d{rng.integers(0, 60)}" for _ in range(6)]:
                assert writer.delete(name) == (name in live)
                live.pop(name, None)
        index = open_index(folder)
        assert len(index) == len(live)
        assert {index.id(number) for number in range(index.n_slots) if index.number(index.id(number)) == number} == set(
            live
        )
    build_index(live.values(), tmp_path / "built", keep_texts=False)
    assert answers(open_index(folder)) == answers(open_index(tmp_path / "built"))
    with IndexWriter(folder) as writer:
        writer.merge()
    merged = sorted(data for name, data in content(folder).items() if name != NAME)
    built = sorted(data for name, data in content(tmp_path / "built").items() if name != NAME)
    assert merged == built


def test_fields_that_are_empty_take_no_room_and_can_be_searched(tmp_path):
    """Also once their documents are deleted: the merged index is that of the rest."""
    build_index([("a", "light beam"), ("b", "")], tmp_path / "built", keep_texts=False)
    with IndexWriter(tmp_path / "changed", keep_texts=False) as writer:
        writer.add(("a", "light beam"))
        writer.add(("b", ""))
        writer.commit()
        writer.add({"id": "c", "title": "light", "body": "ray"})
    index = open_index(tmp_path / "changed")
    assert index.search("light", fields="title").ids == ["c"]
    assert set(index.search("light").ids) == {"a", "c"}
    with IndexWriter(tmp_path / "changed") as writer:
        writer.delete("c")
        writer.merge()
    for name in ("built", "changed"):
        index = open_index(tmp_path / name)
        assert index.segments[0].has_fields == ["body"]
        assert index.search('light +"light beam" -title:ray').ids == ["a"]
        for field in ("title", "url"):
            assert index.search("light", fields=field).ids == []
            assert index.field(field).lengths.tolist() == [0, 0]
            assert index.field(field).statistics("light").df == 0
    merged, built = (
        [data for file, data in sorted(content(tmp_path / name).items()) if file != NAME]
        for name in ("changed", "built")
    )
    assert merged == built


def test_many_small_commits_do_not_leave_many_segments(tmp_path, rng):
    texts = random_texts(rng, 25)
    for number, text in enumerate(texts):
        with IndexWriter(tmp_path) as writer:
            writer.add((str(number), text))
    index = open_index(tmp_path)
    assert len(index) == 25
    assert len(index.segments) < 12
    assert [index.stored(index.number(str(number))).get("body", "") for number in range(25)] == texts


def test_readers_keep_their_snapshot(tmp_path, rng):
    documents = records(random_documents(rng, 50))
    build_index(documents, tmp_path)
    index = open_index(tmp_path)
    before = answers(open_index(tmp_path))
    with IndexWriter(tmp_path) as writer:
        for record in documents[:40]:
            writer.delete(record["id"])
        writer.add(("new", " ".join(WORDS)))
        assert answers(open_index(tmp_path)) == before  # nothing is committed yet
        writer.merge()
    assert answers(index) == before
    assert len(open_index(tmp_path)) == 11


def test_an_error_drops_what_was_not_committed(tmp_path):
    build_index([("a", "light")], tmp_path)
    writer = IndexWriter(tmp_path)
    writer.__enter__()
    writer.add(("b", "light"))
    writer.__exit__(RuntimeError, RuntimeError("stop"), None)
    assert open_index(tmp_path).search("light").ids == ["a"]


def test_a_second_writer_is_refused_politely(tmp_path):
    with IndexWriter(tmp_path) as writer:
        writer.add(("a", "light"))
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} is writing to this index. Only one writer"):
            IndexWriter(tmp_path)
    with IndexWriter(tmp_path) as writer:
        writer.add(("b", "light"))
    assert open_index(tmp_path).search("light").ids == ["a", "b"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted under /proc")
def test_an_open_index_keeps_one_file_open_per_segment(tmp_path):
    """Python keeps a descriptor per mapping, and many systems allow 1,024 of them."""
    for number in range(5):
        with IndexWriter(tmp_path) as writer:
            writer.add((str(number), "light"))
    before = len(os.listdir("/proc/self/fd"))
    index = open_index(tmp_path)
    assert index.search("light", 10).ids
    n_parts = len(list(tmp_path.glob("*.podium-part")))
    assert len(os.listdir("/proc/self/fd")) - before <= n_parts
    del index
    gc.collect()  # an index and its fields refer to each other
    assert len(os.listdir("/proc/self/fd")) <= before


def test_readers_and_a_writer_at_once(tmp_path):
    """Every answer is that of one commit: a commit has n documents, all with the same word."""
    build_index([("0", "light")], tmp_path)
    stop, problems = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                index = open_index(tmp_path)
                if sorted(index.search("light", 1000).ids) != sorted(map(str, range(len(index)))):
                    problems.append(len(index))
            except Exception as error:
                problems.append(error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, 12):
            with IndexWriter(tmp_path) as writer:
                writer.add((str(number), "light"))
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert problems == []


WRITER = """
import sys
from podium.search import IndexWriter
folder, number = sys.argv[1], int(sys.argv[2])
while True:
    with IndexWriter(folder) as writer:
        for place in range(20):
            writer.add((f"{number}-{place}", f"light number{number} " + "filler " * 50))
        if number >= 2:
            for place in range(20):
                writer.delete(f"{number - 2}-{place}")
        if number % 5 == 0:
            writer.merge()
    print(number, flush=True)
    number += 1
"""


def test_a_killed_writer_leaves_the_last_commit(tmp_path):
    """A real process, killed at random moments. Commit n holds batches n - 1 and n, 20 documents each, and no other."""
    draws, number, kills = random.Random(3), 0, 0
    while kills < 4:
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(number)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()  # compiled code is loaded: from now on it commits all the time
        time.sleep(draws.uniform(0.0, 0.25))
        process.send_signal(signal.SIGKILL)
        printed = [number, *map(int, process.stdout.read().split())]
        process.wait()
        process.stdout.close()
        index = open_index(tmp_path)
        found = index.search("light", 1000)
        batches = sorted({int(name.partition("-")[0]) for name in found.ids})
        last = batches[-1]
        assert last in (printed[-1], printed[-1] + 1)  # killed between the commit and the message
        assert batches == [max(0, last - 1), last][-min(2, last + 1) :]
        assert len(found) == len(index) == 20 * len(batches)
        for batch in batches:
            assert len(index.search(f"number{batch}", 100)) == 20
        number, kills = last + 1, kills + 1
    with IndexWriter(tmp_path) as writer:
        writer.add(("end", "light"))
    index = open_index(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {NAME, "write.lock", *index.manifest.files}


def outcome(folder):
    """The answers, or the file that an error names."""
    try:
        return answers(open_index(folder))
    except (ValueError, OSError) as error:
        return next(path.name for path in folder.iterdir() if path.name in str(error))


@pytest.mark.parametrize("damage", [flip, cut, overwrite, huge_number], ids=lambda damage: damage.__name__)
def test_damaged_files_are_refused_and_never_give_other_answers(tmp_path, rng, damage):
    build_index(records(random_documents(rng, 60)), tmp_path)
    before = answers(open_index(tmp_path))
    for path in [path for path in tmp_path.iterdir() if path.suffix != ".lock"]:
        good = path.read_bytes()
        for _ in range(25):
            bad = bytearray(good)
            damage(bad, rng)
            path.write_bytes(bad)
            assert outcome(tmp_path) in (before, path.name)
        path.write_bytes(good)


def test_an_index_of_another_analyser_is_refused(tmp_path):
    build_index([("a", "light")], tmp_path / "i")
    path = tmp_path / "i" / NAME
    with open_container(path, INDEX) as file:
        meta = file.meta
    for key, value, message in [
        ("version", 99, "was built with version 99 of the text analysis; this version has 1"),
        ("stemmer", "0.0", "was built with PyStemmer 0.0; installed is"),
        ("language", "klingon", "language must be one of"),
    ]:
        write_container(path, INDEX, meta | {"analyser": meta["analyser"] | {key: value}}, {})
        with pytest.raises(ValueError, match=message):
            open_index(tmp_path / "i")
    write_container(path, INDEX, meta | {"links": "../../etc/passwd.podium-part"}, {})
    with pytest.raises(ValueError, match="is no name of a part"):
        open_index(tmp_path / "i")
    write_container(path, INDEX, meta, {})
    with pytest.raises(ValueError, match=re.escape("was built with language='english'; got 'russian'")):
        IndexWriter(tmp_path / "i", language="russian")


def test_what_is_missing_or_in_the_way_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No index at .* Build one with: podium index DOCUMENTS --out"):
        open_index(tmp_path / "nothing")
    build_index([("a", "light")], tmp_path / "i", keep_texts=False)
    with pytest.raises(FileExistsError, match="holds an index already"):
        build_index([("a", "light")], tmp_path / "i")
    with pytest.raises(ValueError, match="keep_texts=False: it has no texts"):
        _ = open_index(tmp_path / "i").search("light")[0].stored


def test_an_empty_index_finds_nothing(tmp_path):
    build_index([], tmp_path / "none")
    build_index([("a", ""), ("b", "the of")], tmp_path / "blank")
    for name, n in (("none", 0), ("blank", 2)):
        index = open_index(tmp_path / name)
        assert len(index) == n
        for weighting in ("bm25", "lmir-abs", "bm25f"):
            assert list(index.search("light of", 5, weighting=weighting)) == []
            assert list(index.search('+light "a b"', 5, weighting=weighting)) == []


def test_a_document_can_be_very_long_and_repeat_a_word_very_often(tmp_path):
    text = "laser " * 70_000 + "light beam"
    build_index([("a", text), ("b", "laser light beam")], tmp_path / "i")
    index = open_index(tmp_path / "i")
    assert index.search("laser light").ids == ["b", "a"]
    assert index.search('"light beam"').ids == ["b", "a"]
    assert index.search('"laser light"').ids == ["b"]  # only the first 65,535 occurrences have positions
    assert index.field("body").lengths.tolist() == [70_002, 3]
    with IndexWriter(tmp_path / "i") as writer:
        writer.add(("c", "light beam"))
        writer.merge()
    assert set(open_index(tmp_path / "i").search('"light beam"').ids) == {"a", "b", "c"}


def test_stored_documents_come_back(tmp_path):
    record = {"id": "é1", "title": "T", "body": "b\ud800 \U0001f600", "url": "u", "clicks": 3, "tags": ["x", None]}
    build_index([record, {"id": "2", "body": "lamp"}], tmp_path / "i")
    index = open_index(tmp_path / "i")
    kept = index.stored(index.number("é1"))
    fields = {"clicks": 3, "tags": ["x", None]}
    assert kept == {"title": "T", "body": "b\ufffd \U0001f600", "url": "u", "fields": fields}  # half a character
    assert index.search("lamp")[0].stored == {"body": "lamp"}
    assert index.number("3") is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"body": "x"}, "expected a key id"),
        ({"id": ""}, "must be text that is not empty"),
        ({"id": 1.5}, "the id must be text or an integer"),
        ({"id": "a\0b"}, "holds a NUL"),
        ({"id": "\ud800"}, "not valid Unicode"),
        ({"id": "a", "body": 3}, "body must be text; found int"),
        ({"id": "a", "links": "b"}, "links must be a list; found str"),
        ({"id": "a", "links": [3]}, "a link must be a URL"),
        (("a",), "a tuple of 1"),
        ("a", "got str"),
        (("a", 3), "body must be text; found int"),
    ],
)
def test_records_that_are_no_documents_are_named(tmp_path, record, message):
    with IndexWriter(tmp_path) as writer, pytest.raises(ValueError, match=message):
        writer.add(record)


def test_pairs_are_the_documents_with_their_id_and_body(tmp_path, rng):
    """Pairs are checked all at once; one that is odd has all of them checked one by one."""
    for place, ids in enumerate([["b", "a", "b", "c"], ["b", "é", "b", "c"]]):
        pairs = list(zip(ids, random_texts(rng, 4)))
        build_index(pairs, tmp_path / f"pairs{place}")
        build_index([{"id": name, "body": text} for name, text in pairs], tmp_path / f"mappings{place}")
        assert content(tmp_path / f"pairs{place}") == content(tmp_path / f"mappings{place}")
        index = open_index(tmp_path / f"pairs{place}")
        assert [index.id(number) for number in range(len(index))] == sorted(set(ids))
        assert index.stored(index.number("b")).get("body", "") == pairs[2][1]


@pytest.mark.parametrize("odd", [("", "x"), ("a\0", "x"), (3, "x"), ("a", None)])
def test_an_odd_pair_among_many_is_named(tmp_path, odd):
    with pytest.raises(ValueError, match=r"must be text|holds a NUL"):
        build_index([("b", "light"), odd, ("c", "light")], tmp_path / "i")


def test_a_commit_that_failed_can_be_repeated(tmp_path, monkeypatch):
    def no_room(*_args):
        raise OSError(28, "No space left on device")

    with IndexWriter(tmp_path) as writer:
        writer.add({"id": "a", "title": "beam", "body": "light"})
        with monkeypatch.context() as patch:
            patch.setattr(segments, "write_container", no_room)
            with pytest.raises(OSError, match="No space left"):
                writer.commit()
    assert open_index(tmp_path).search("light beam").ids == ["a"]


def test_positions_wider_than_16_bits_survive_a_merge(tmp_path):
    for name, text in (("a", "x " * 66_000 + "speed light"), ("b", "speed light")):
        with IndexWriter(tmp_path) as writer:
            writer.add((name, text))
    with IndexWriter(tmp_path) as writer:
        writer.merge()
    index = open_index(tmp_path)
    assert set(index.search('"speed light"').ids) == {"a", "b"}
    assert index.segments[0].array("body.positions").dtype == np.uint32
