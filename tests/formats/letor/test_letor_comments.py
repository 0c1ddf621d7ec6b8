"""LETOR text with the query id as its comment: the data of the same text with `qid:`, or the line that is wrong."""

import gzip
import re
import warnings
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import LetorFault, letor_rows

from podium.data.ranking import RankingData
from podium.formats import read_data, write_data
from podium.formats.errors import FormatError
from podium.formats.letor import pieces as letor_pieces
from podium.formats.letor import read_letor, read_letor_comments

SMALL = b"2.14 1:0.5 245:0.000034 # 10\n0 3:1 # 10\n\n# a line of comment\n1.07 2:0.25 # 11\n"


def cut_into(piece_bytes):
    return patch.multiple(letor_pieces, _FIRST_BYTES=max(1, piece_bytes // 2), PIECE_BYTES=piece_bytes)


def read_quietly(reader, path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reader(path, **options)


def test_labels_are_fractions_and_features_that_are_left_out_are_0(tmp_path):
    (tmp_path / "learning.txt").write_bytes(SMALL)
    data = read_data(tmp_path / "learning.txt", format="letor-comments")
    assert (data.n_rows, data.n_queries, data.n_features) == (3, 2, 245)
    assert data.y.tolist() == [2.14, 0, 1.07]
    assert data.query_ids.tolist() == [10, 11]
    assert data.qid.tolist() == [10, 10, 11]
    assert data.X[0, [0, 1, 244]].tolist() == [0.5, 0, np.float32(0.000034)]
    assert data.comment_texts is None
    assert data.docid_texts is None


def test_it_is_converted_to_letor_text_without_loss(tmp_path):
    path = tmp_path / "learning.txt.gz"
    path.write_bytes(gzip.compress(SMALL))
    data = read_data(path, format="letor-comments")
    write_data(data, tmp_path / "train.txt")
    again = read_data(tmp_path / "train.txt")
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.y, data.y)
    np.testing.assert_array_equal(again.qid, data.qid)
    with pytest.raises(ValueError, match="format 'letor-comments' has no writer"):
        write_data(data, tmp_path / "back.txt", format="letor-comments")


def test_missing_values_and_numbers_of_features_are_read_as_in_letor_text(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1 0:5 # a\n0 1:nan # b\n")
    data = read_letor_comments(path, missing="nan", n_features=3, zero_based=True)
    np.testing.assert_array_equal(data.X, np.array([[5, np.nan, np.nan], [np.nan] * 3], np.float32))
    with pytest.raises(FormatError, match="indices count from 1"):
        read_letor_comments(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 1:2", "expected '# <query id>' after the features, found the end of the line. One word behind '#' names"),
        (b"1 1:2 #", "expected '# <query id>' after the features, found '#'."),
        (b"1 1:2 # \t", "expected '# <query id>' after the features, found '#'."),
        (b"1 1:2 # 10 inc = 1", "expected '# <query id>' after the features, found '# 10 inc = 1'."),
        (b"1 1:2 # 10#11", "expected '# <query id>' after the features, found '# 10#11'."),
        (b"1 qid:10 1:2 # 10", "expected 'feature:value', found 'qid:10'."),
        (b"x 1:2 # 10", "expected a label (a number, 0 or larger) as 1st field, found 'x'."),
        (b"1 1:2 1:3 # 10", "feature 1 is in this row twice."),
        (b"1 1:2 # 1\x000", "not LETOR text (NUL byte"),
    ],
)
@pytest.mark.parametrize("piece_bytes", [20, 4 << 20])
def test_a_bad_line_is_named_with_what_was_expected(line, message, piece_bytes, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"# first\n\n0 2:1 # 10\n" + line + b"\n1 1:1\n")
    with cut_into(piece_bytes), pytest.raises(FormatError, match=re.escape(message)) as caught:
        read_letor_comments(path)
    assert caught.value.line == 4


def test_letor_text_that_lacks_qid_but_has_comments_of_one_word_names_the_format(tmp_path):
    path = tmp_path / "x.txt"
    hint = '"#", read the file with format="letor-comments" (--from letor-comments).'
    for content, helps in ((SMALL, True), (b"1 1:2 # docid = X\n", False), (b"1 1:2\n", False)):
        path.write_bytes(content)
        with pytest.raises(FormatError, match="expected 'qid:<id>' as 2nd field") as caught:
            read_letor(path)
        assert (hint in str(caught.value)) == helps


def test_interleaved_queries_are_reported_by_line_and_refused_if_strict(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"0 1:1 # a\n\n1 1:2 # b\n2 1:3 # a\n")
    facts = 'rows of query "a" are at line 1 and again at line 4; 1 query is interleaved.'
    with pytest.warns(UserWarning, match=facts):
        data = read_letor_comments(path)
    assert data.qid.tolist() == ["a", "b", "a"]
    assert data.rows.tolist() == [0, 2, 1]
    with pytest.raises(FormatError, match=facts):
        read_letor_comments(path, strict=True)


def rows_of(content):
    """Label, id and values of each row by the oracle of LETOR text; None where a line cannot be read."""
    try:
        rows = letor_rows(content, with_qid=False)
    except LetorFault:
        return None
    ids = [row[3].strip(b" \t") for row in rows]
    if any(not one or min(one) <= 32 or b"#" in one for one in ids):
        return None
    return [(row[0], one, row[2]) for row, one in zip(rows, ids)]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("comments") / "any.txt"


labels = st.sampled_from(["0", "4", "2.14", "1e-3", "0.30000000000000004"])
features = st.lists(st.integers(1, 9), unique=True, max_size=4).map(
    lambda columns: "".join(f" {column}:{column / 7:.5f}" for column in columns)
)
endings = st.sampled_from([" # 1", "#1", " #\t2 ", " # 03", " # q\u00e9", " # 1\r", "", " # a b", " #"])
lines = st.builds("{}{}{}".format, labels, features, endings) | st.sampled_from(["", "# text", "\r", "  "])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(lines, max_size=12).map(lambda rows: "\n".join(rows).encode()) | st.binary(max_size=60),
    st.sampled_from([1, 10, 40, 4 << 20]),
    st.sampled_from([1, 3]),
)
@example(b"1 1:1 # 1\x0b", 10, 1)
def test_any_bytes_are_an_error_or_the_rows_of_the_oracle(scratch, content, piece_bytes, n_jobs):
    if content.startswith((b"BZh", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00")):
        return
    scratch.write_bytes(content)
    rows = rows_of(content)
    with cut_into(piece_bytes):
        if rows is None:
            with pytest.raises(FormatError):
                read_quietly(read_letor_comments, scratch, n_jobs=n_jobs)
            return
        data: RankingData = read_quietly(read_letor_comments, scratch, n_jobs=n_jobs)
    np.testing.assert_array_equal(data.y, [row[0] for row in rows])
    np.testing.assert_array_equal(data.X, np.array([row[2] for row in rows], np.float32).reshape(len(rows), -1))
    names = [row[1].decode("utf-8", "surrogateescape") for row in rows]
    assert [str(name) for name in data.qid] == names
    assert data.rows.tolist() == sorted(range(len(names)), key=lambda row: names.index(names[row]))
