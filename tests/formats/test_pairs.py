"""Pair files: documents by their ids become rows, and everything doubtful is refused by line."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.data.ranking import RankingData
from podium.formats.errors import FormatError
from podium.formats.pairs import read_pairs

QID = ["b", "a", "b", "a", "b", "a"]
DOCIDS = ["d1", "d1", "d2", "d#2", "d3", "d1"]  # query a has d1 twice


def data_of(qid=QID, docids=DOCIDS):
    return RankingData.from_arrays(np.zeros((len(qid), 1)), qid=qid, docids=docids)


def written(folder, content, name="pairs.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_columns_that_are_left_out_are_1_and_comments_are_skipped(tmp_path):
    text = "\ufeff# judged in May\n\nb d1 d2\r\nb\td3  d1 0.25 # two of eight\n  b d2 d3 1e-1 2.5 #\n"
    first, second, p, weight = read_pairs(written(tmp_path, text), data_of())
    assert (first.tolist(), second.tolist()) == ([0, 4, 2], [2, 0, 4])
    assert (p.tolist(), weight.tolist()) == ([1.0, 0.25, 0.1], [1.0, 1.0, 2.5])


def test_files_may_be_compressed_and_lack_the_last_line_end(tmp_path):
    path = written(tmp_path, gzip.compress(b"b d1 d2 0.5"), "pairs.gz")
    assert [part.tolist() for part in read_pairs(path, data_of())] == [[0], [2], [0.5], [1.0]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("c d1 d2", "there is no query 'c' in the data"),
        ("b d1 d9", "there is no document 'd9' in query 'b' of the data\\.$"),
        ("b d#2 d1", "there is no document 'd#2' in query 'b' of the data; it is of query 'a'"),
        ("a d#2 d1", "document 'd1' is more than once in query 'a'"),
        ("b d1 d1", "expected two documents, found 'd1' twice"),
        ("b d1", r"expected 3 to 5 columns \(qid docA docB probability weight\), found 2"),
        ("b d1 #d2 d3", "expected 3 to 5 columns .* found 2"),
        ("b d1 d2 1 1 1", "found 6"),
        ("b d1 d2 1.5", r"the probability \(column 4 of .*\) must be a number from 0 to 1; found '1.5'"),
        ("b d1 d2 -0.1", "must be a number from 0 to 1; found '-0.1'"),
        ("b d1 d2 nan", "must be a number from 0 to 1; found 'nan'"),
        ("b d1 d2 1 -2", r"the weight \(column 5 of .*\) must be a finite number, 0 or larger; found '-2'"),
        ("b d1 d2 1 1e999", "must be a finite number, 0 or larger; found '1e999'"),
        ("b d1 d2 1 1_0", "must be a finite number"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path, line, message):
    path = written(tmp_path, f"# judged\nb d1 d2 0.5\n{line}\nb d2 d3 0.5 1\n")
    with pytest.raises(FormatError, match=f"pairs.txt, line 3: .*{message}") as error:
        read_pairs(path, data_of())
    assert error.value.line == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [("# nothing\n\n", "has no pairs"), ("b d1 d2 1 0\nb d1 d3 0.5 0\n", "the weight of every pair is 0")],
)
def test_a_file_that_teaches_nothing_is_refused(tmp_path, text, message):
    with pytest.raises(FormatError, match=message):
        read_pairs(written(tmp_path, text), data_of())


def test_data_without_document_ids_are_refused(tmp_path):
    with pytest.raises(FormatError, match="names documents by their ids, and the data have none"):
        read_pairs(written(tmp_path, "b d1 d2\n"), data_of(docids=None))


def test_numbers_and_texts_are_found_as_ids_of_queries(tmp_path):
    path = written(tmp_path, "007 d1 d2\n")
    for ids in ([7, 7], np.array([7, 7], np.uint64), ["007", "007"]):
        assert read_pairs(path, data_of(ids, ["d2", "d1"]))[0].tolist() == [1]
    with pytest.raises(FormatError, match="there is no query '007'"):
        read_pairs(path, data_of(["7", "7"], ["d2", "d1"]))


names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1).filter(
    lambda name: not name.startswith("#")
)


@given(documents=st.lists(names, min_size=2, unique=True), seed=st.integers(0, 99))
def test_every_pair_reads_back_as_the_rows_of_its_documents(tmp_path_factory, documents, seed):
    rng = np.random.default_rng(seed)
    qid, docids = np.repeat([3, 5], len(documents)), np.array(documents * 2, dtype=object)
    order = rng.permutation(len(qid))
    data = data_of(qid[order], docids[order].tolist())
    pairs = [(i, j, *rng.random(2).tolist()) for i in range(len(qid)) for j in range(len(qid)) if i != j]
    pairs = [pair for pair in pairs if data.qid[pair[0]] == data.qid[pair[1]]]
    lines = [f"{data.qid[i]} {data.docids[i]} {data.docids[j]} {p!r} {w!r}\n" for i, j, p, w in pairs]
    path = written(tmp_path_factory.mktemp("pairs"), "".join(lines))
    assert list(zip(*(part.tolist() for part in read_pairs(path, data)))) == pairs
