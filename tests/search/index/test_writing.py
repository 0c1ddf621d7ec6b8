"""Lives of an index: whatever happens to a writer, in whatever order, a plain dict says what the index must hold."""

import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from collection import WORDS
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from oracles import search_scores

from podium._runtime import files
from podium.search import Document, IndexWriter, build_index, open_index
from podium.search.index.manifest import NAME

IDS = st.sampled_from([f"d{number:02}" for number in range(12)])
TEXTS = st.lists(st.sampled_from(WORDS[:8]), max_size=6).map(" ".join)
URLS = st.sampled_from(["", "", "http://a.org/x", "http://a.org/x/y", "https://A.org/x/", "http://b.org"])
LINKS = st.lists(st.tuples(st.one_of(IDS, URLS.filter(bool)), TEXTS).map(list), max_size=2)
FIELDS = {"title": TEXTS, "body": TEXTS, "url": URLS, "links": LINKS, "clicks": st.integers(0, 9)}
RECORDS = st.fixed_dictionaries({"id": IDS}, optional=FIELDS)


class Killed(BaseException):
    """Stands for the end of the process: nothing that touches a file happens afterwards."""


@contextmanager
def failing(at, error, forever):
    """The at-th change of a file fails, half done or not done; with `forever`, so do all that follow."""
    patch, changes = pytest.MonkeyPatch(), 0

    def breaks(change, after):
        def changed(*arguments, **options):
            nonlocal changes
            changes += 1
            if changes == at or (forever and changes > at):
                if after and changes == at:
                    change(*arguments, **options)
                raise error
            return change(*arguments, **options)

        return changed

    patch.setattr(files.os, "replace", breaks(os.replace, after=False))
    patch.setattr(files, "sync_folder", breaks(files.sync_folder, after=True))
    patch.setattr(files, "_new_file", breaks(files._new_file, after=False))
    patch.setattr(Path, "unlink", breaks(Path.unlink, after=False))
    try:
        yield
    finally:
        patch.undo()


class Life(RuleBasedStateMachine):
    """An index and its model: {id: record} as committed and as it will be."""

    def __init__(self):
        super().__init__()
        self.folder = Path(self.temporary.mktemp("life")) / "index"
        self.committed, self.current, self.checked = {}, {}, None
        self.writer = IndexWriter(self.folder)
        self.writer.commit()

    @rule(record=RECORDS)
    def add(self, record):
        self.writer.add(record)
        self.current[record["id"]] = record

    @rule(records=st.lists(RECORDS, max_size=5))
    def add_all(self, records):
        assert self.writer.add_all(records) == len(records)
        self.current |= {record["id"]: record for record in records}

    @rule(record=RECORDS, value=st.sampled_from([{1, 2}, object(), b"x"]))
    def add_what_cannot_be_stored(self, record, value):
        with pytest.raises(ValueError, match="must be a value that JSON can hold"):
            self.writer.add(record | {"clicks": value})

    @rule(id=IDS)
    def delete(self, id):
        assert self.writer.delete(id) == (id in self.current)
        self.current.pop(id, None)

    @rule()
    def commit(self):
        self.writer.commit()
        self.committed = dict(self.current)

    @rule(records=st.lists(RECORDS, min_size=4, max_size=9))
    def commit_each(self, records):
        """Eight segments of about one size are merged by themselves."""
        for record in records:
            self.add(record)
            self.commit()
        assert len(open_index(self.folder).segments) < 12

    @rule()
    def write_a_segment_before_the_commit(self):
        self.writer._analyse()
        self.writer._flush()

    @rule()
    def merge(self):
        self.writer.merge()
        self.committed = dict(self.current)
        assert len(open_index(self.folder).segments) <= 1

    @rule(through_block=st.booleans())
    def reopen(self, through_block):
        """Leaving a `with` block commits; closing does not."""
        if through_block:
            self.writer.__exit__(None, None, None)
            self.committed = dict(self.current)
        else:
            self.writer.close()
            self.current = dict(self.committed)
        with pytest.raises(ValueError, match="this writer is closed"):
            self.writer.commit()
        self.writer = IndexWriter(self.folder)

    @rule(at=st.integers(1, 9), merges=st.booleans(), repeats=st.booleans(), forever=st.booleans())
    def fail(self, at, merges, repeats, forever):
        """A commit on a full disk; then it is repeated, or the writer closed."""
        try:
            with failing(at, OSError(28, "No space left on device"), forever):
                self.writer.merge() if merges else self.writer.commit()
        except OSError:
            self.after_failure(repeats)
        else:
            self.committed = dict(self.current)

    def after_failure(self, repeats):
        with pytest.raises(ValueError, match="the last commit failed"):
            self.writer.add(("d00", ""))
        with pytest.raises(ValueError, match="the last commit failed"):
            self.writer.delete("d00")
        if repeats:
            self.writer.commit()
            self.committed = dict(self.current)
        else:
            self.writer.close()
            self.forget_what_was_not_committed()

    @rule(at=st.integers(1, 9), merges=st.booleans())
    def kill(self, at, merges):
        try:
            with failing(at, Killed(), forever=True):
                self.writer.merge() if merges else self.writer.commit()
        except Killed:
            self.writer.close()  # which only releases the lock, as the system does for a process that ended
            self.forget_what_was_not_committed()
        else:
            self.committed = dict(self.current)

    def forget_what_was_not_committed(self):
        """A commit that ends early has happened or not: its documents are all there or none is."""
        if contents(open_index(self.folder)) == expected(self.current):
            self.committed = dict(self.current)
        self.current = dict(self.committed)
        self.writer = IndexWriter(self.folder)

    @invariant()
    def the_index_is_its_model(self):
        if self.checked == self.committed:
            return
        self.checked = dict(self.committed)
        index = open_index(self.folder)
        assert contents(index) == expected(self.committed)
        check_statistics(index, self.committed)
        check_results(index, self.committed)
        check_links(index, self.committed)

    def teardown(self):
        self.writer.close()


def expected(documents):
    return {id: stored(record) for id, record in documents.items()}


def stored(record):
    fields = {"fields": {"clicks": record["clicks"]}} if "clicks" in record else {}
    return {name: record[name] for name in ("title", "body", "url") if record.get(name)} | fields


def contents(index):
    """{id: what is stored of it} of the live documents."""
    numbers = [number for number in range(index.n_slots) if index.number(index.id(number)) == number]
    assert len(numbers) == len(index)
    return {index.id(number): index.stored(number) for number in numbers}


def words_of(record, field):
    names = ("title", "body") if field == "whole" else (field,)
    return " ".join(record.get(name, "") for name in names).split()


def check_statistics(index, documents):
    for field in ("whole", "body", "title"):
        columns = {id: words_of(record, field) for id, record in documents.items()}
        for term in WORDS[:8]:
            statistics = index.field(field).statistics(term)
            assert statistics.df == sum(term in words for words in columns.values())
            assert statistics.cf == sum(words.count(term) for words in columns.values())
            assert statistics.n_terms == sum(map(len, columns.values()))
            assert statistics.n_documents == len(documents)


def check_results(index, documents):
    columns = {id: words_of(record, "whole") for id, record in documents.items()}
    for weighting in ("bm25", "lmir-dir", "lmir-abs"):
        hits = index.search(" ".join(WORDS[:3]), 100, weighting=weighting)
        scores = search_scores(columns, WORDS[:3], weighting)
        assert dict(zip(hits.ids, hits.scores)) == pytest.approx(scores, abs=1e-5)


def check_links(index, documents):
    """Anchor texts and links by the rule: a link is to the document of that URL with the lowest id, or of that id."""
    edges, anchors = link_graph(documents)
    for id in documents:
        number = index.number(id)
        assert index.fact("inlinks")[number] == sum(target == id for _, target in edges)
        assert index.fact("outlinks")[number] == sum(source == id for source, _ in edges)
        assert index.fact("url_length")[number] == len(documents[id].get("url", ""))
        assert index.field("anchor").lengths[number] == len(anchors[id])
    live = [index.number(id) for id in documents]
    assert index.fact("pagerank").sum() == pytest.approx(index.fact("pagerank")[live].sum())
    assert index.fact("pagerank").sum() == pytest.approx(1 if documents else 0)


def link_graph(documents):
    home = {}
    for id in sorted(documents, reverse=True):  # the lowest id comes last
        home[plain_url(documents[id].get("url", ""))] = id
    home.pop("", None)
    edges, anchors = set(), {id: [] for id in documents}
    for id, record in documents.items():
        for target, text in record.get("links", []):
            page = home.get(plain_url(target), target if target in documents else None)
            if page not in (None, id):
                edges.add((id, page))
                anchors[page] += text.split()
    return edges, anchors


def plain_url(url):
    return url.partition("://")[2].lower().rstrip("/")


def test_an_index_is_its_model_after_any_life(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(files.os, "fsync", lambda handle: None)  # no machine ends here
    machine = type("LifeInAFolder", (Life,), {"temporary": tmp_path_factory})
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=50))


def test_a_document_is_deleted_after_segments_were_merged_by_themselves(tmp_path):
    """A large segment has the old version of a document, the merged one has the new one."""
    build_index([(f"d{number:02}", "old light") for number in range(80)], tmp_path)
    for number in range(8):
        with IndexWriter(tmp_path) as writer:
            writer.add((f"d{number:02}", "new light"))
    assert len(open_index(tmp_path).segments) == 2
    with IndexWriter(tmp_path) as writer:
        assert [writer.delete(f"d{number:02}") for number in range(8)] == [True] * 8
        assert not writer.delete("d00")
    index = open_index(tmp_path)
    assert len(index) == 72
    assert len(index.search("new", 100)) == 0


def stored_bodies(folder):
    index = open_index(folder)
    return {index.id(number): index.stored(number)["body"] for number in range(index.n_slots)}


def test_texts_stay_with_their_documents_after_a_commit_that_failed(tmp_path):
    bodies = {f"b{number}": f"beta {number}" for number in range(70)}
    with IndexWriter(tmp_path) as writer:
        writer.add(("a", "alpha"))
        with failing(1, OSError(28, "No space left on device"), forever=True), pytest.raises(OSError, match="No space"):
            writer.commit()
        with pytest.raises(ValueError, match=r"the last commit failed\. Call commit\(\) again, or close\(\)"):
            writer.add_all(bodies.items())
        writer.commit()
        writer.add_all(bodies.items())
    assert stored_bodies(tmp_path) == {"a": "alpha"} | bodies


def test_a_value_that_json_cannot_hold_is_refused_and_changes_nothing(tmp_path):
    circle = []
    circle.append(circle)
    with IndexWriter(tmp_path) as writer:
        writer.add(("a", "alpha"))
        for value in ({1}, b"x", object(), circle, 10**5000):
            with pytest.raises(
                ValueError, match=r"document 'bad': 'clicks' must be (a value that JSON|nested at most)"
            ):
                writer.add({"id": "bad", "body": "omega", "clicks": value})
            with pytest.raises(ValueError, match="document 'bad': 'clicks' must be") as caught:
                writer.add_all([("b", "beta"), {"id": "bad", "body": "omega", "clicks": value}, ("c", "gamma")])
            assert caught.value.__notes__ == ["1 document added before this error."]
    assert stored_bodies(tmp_path) == {"a": "alpha", "b": "beta"}


def test_a_closed_writer_changes_nothing(tmp_path):
    first = IndexWriter(tmp_path)
    first.add(("a", "alpha"))
    first.commit()
    first.add(("b", "beta"))
    first.close()
    first.close()
    with IndexWriter(tmp_path) as second:
        second.add(("c", "gamma"))
        calls = [first.commit, first.merge, first.__enter__, lambda: first.add(("d", "")), lambda: first.delete("c")]
        for call in [*calls, lambda: first.add_all([("d", "")])]:
            with pytest.raises(ValueError, match=r"this writer is closed\. Open a new IndexWriter"):
                call()
    assert stored_bodies(tmp_path) == {"a": "alpha", "c": "gamma"}


def test_leaving_the_block_of_a_closed_writer_commits_nothing(tmp_path):
    with IndexWriter(tmp_path) as writer:
        writer.add(("a", "alpha"))
        writer.commit()
        writer.add(("b", "beta"))
        writer.close()
    assert stored_bodies(tmp_path) == {"a": "alpha"}


def reader_that_fails(records):
    yield from records
    raise OSError("the reader fails")


@pytest.mark.parametrize("n_good", [0, 1, 5, 2048, 2050])
@pytest.mark.parametrize("kind", ["pairs", "mappings"])
@pytest.mark.parametrize("bad", ["record", "reader"])
def test_add_all_adds_what_comes_before_an_error(tmp_path, n_good, kind, bad):
    pairs = [(f"d{number}", f"light {number}") for number in range(n_good)]
    records = pairs if kind == "pairs" else [{"id": id, "body": body} for id, body in pairs]
    broken = reader_that_fails(records) if bad == "reader" else [*records, ("", "x") if kind == "pairs" else {"id": ""}]
    with IndexWriter(tmp_path) as writer:
        with pytest.raises((OSError, ValueError)) as caught:
            writer.add_all(broken)
        noun = "document" if n_good == 1 else "documents"
        assert caught.value.__notes__ == [f"{n_good:,} {noun} added before this error."]
    assert stored_bodies(tmp_path) == dict(pairs)


def one_object_for_all(kind):
    record = Document("") if kind == "document" else {}
    for number in range(3):
        if kind == "document":
            record.id, record.body, record.fields = str(number), f"light {number}", {"clicks": number}
        else:
            record.update(id=str(number), body=f"light {number}", clicks=number)
        yield record


@pytest.mark.parametrize("kind", ["document", "mapping"])
@pytest.mark.parametrize("all_at_once", [False, True])
def test_a_record_can_be_used_again_for_the_next_document(tmp_path, kind, all_at_once):
    with IndexWriter(tmp_path) as writer:
        if all_at_once:
            writer.add_all(one_object_for_all(kind))
        else:
            for record in one_object_for_all(kind):
                writer.add(record)
    index = open_index(tmp_path)
    assert [index.stored(number)["fields"] for number in range(3)] == [{"clicks": number} for number in range(3)]


def test_texts_of_documents_that_were_replaced_or_deleted_before_the_commit_are_not_stored(tmp_path):
    with IndexWriter(tmp_path) as writer:
        writer.add(("a", "secret alpha"))
        writer.add(("b", "secret beta"))
        writer.add(("c", "gamma"))
        writer.add(("a", "alpha"))
        writer.delete("b")
    (segment,) = open_index(tmp_path).segments
    assert [text.decode() for text in segment.store.texts(np.arange(2))] == ['{"body":"gamma"}', '{"body":"alpha"}']
    assert segment.array("store.firsts").tolist() == [0, 2]
    assert stored_bodies(tmp_path) == {"a": "alpha", "c": "gamma"}


def test_a_writer_that_commits_nothing_leaves_no_new_folder(tmp_path):
    with pytest.raises(ValueError, match="language must be one of"):
        IndexWriter(tmp_path / "a" / "index", language="klingon")
    assert not (tmp_path / "a").exists()
    with pytest.raises(OSError, match="the reader fails"):
        build_index(reader_that_fails([("a", "light")]), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    IndexWriter(tmp_path / "mine").close()
    assert (tmp_path / "mine").is_dir()


def test_any_change_of_a_file_can_fail_and_the_commit_be_repeated(tmp_path):
    """Every single change of a file in a commit that replaces, deletes, writes links and merges."""
    for at in range(1, 40):
        folder = tmp_path / str(at)
        for number in range(7):
            with IndexWriter(folder) as writer:
                writer.add({"id": f"d{number}", "body": f"light {number}", "url": f"http://a.org/{number}"})
        writer = IndexWriter(folder)
        writer.add({"id": "d7", "body": "new", "links": [["d3", "beam"]]})
        writer.add({"id": "d2", "body": "new"})
        writer.delete("d5")
        try:
            with failing(at, OSError(5, "Input/output error"), forever=False):
                writer.commit()
            break
        except OSError:
            writer.commit()
        finally:
            writer.close()
        bodies = {f"d{number}": f"light {number}" for number in range(8)} | {"d7": "new", "d2": "new"}
        bodies.pop("d5")
        assert contents(open_index(folder)).keys() == bodies.keys()
        index = open_index(folder)
        assert {id: index.stored(index.number(id))["body"] for id in bodies} == bodies
        assert {path.name for path in folder.iterdir()} == {NAME, "write.lock", *index.manifest.files}
    assert at > 8
