"""LETOR text: what is read, what is refused and in which words, what is written; for any cut and any thread count."""

import bz2
import gzip
import io
import lzma
import os
import random
import re
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from oracles import LetorFault, letor_rows, nearest_float32

from podium.data.ranking import RankingData
from podium.data.texts import Texts
from podium.formats.errors import FormatError
from podium.formats.letor import parsing as letor_parsing
from podium.formats.letor import pieces as letor_pieces
from podium.formats.letor import read_letor, read_svmlight, write_letor
from podium.formats.letor import table as letor_table
from podium.formats.letor.reading import group_by_qid

SMALL = b"2 qid:10 1:0.5 2:3 #docid = GX1 inc = 1\n0 qid:10 1:0.25 3:-1e-3\n1 qid:11 2:7\n"


def written(folder: Path, content: bytes, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@contextmanager
def cut_into(piece_bytes: int):
    """Read files in pieces of a few bytes, to prove that the cuts do not matter."""
    before = letor_pieces._FIRST_BYTES, letor_pieces.PIECE_BYTES
    letor_pieces._FIRST_BYTES, letor_pieces.PIECE_BYTES = max(1, piece_bytes // 2), piece_bytes
    try:
        yield
    finally:
        letor_pieces._FIRST_BYTES, letor_pieces.PIECE_BYTES = before


def same(one: RankingData, other: RankingData) -> bool:
    """Equal to the last bit."""
    return (
        one.X.shape == other.X.shape
        and np.array_equal(one.X, other.X, equal_nan=True)
        and np.array_equal(np.signbit(one.X), np.signbit(other.X))
        and one.y.tobytes() == other.y.tobytes()
        and one.query_ids.dtype == other.query_ids.dtype
        and one.query_ids.tolist() == other.query_ids.tolist()
        and np.array_equal(one.offsets, other.offsets)
        and np.array_equal(one.rows, other.rows)
        and one.docid_texts == other.docid_texts
        and one.comment_texts == other.comment_texts
    )


# --- what is read ------------------------------------------------------------------------------------------------


def test_a_small_file_is_read(tmp_path):
    data = read_letor(written(tmp_path, SMALL))
    assert data.X.tolist() == [[0.5, 3, 0], [0.25, 0, np.float32(-0.001)], [0, 7, 0]]
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert data.y.tolist() == [2, 0, 1]
    assert data.qid.tolist() == [10, 10, 11]
    assert data.query_ids.dtype == np.int64
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.rows.tolist() == [0, 1, 2]
    assert list(data.docids) == ["GX1", "", ""]
    assert list(data.comment_texts) == ["docid = GX1 inc = 1", "", ""]


def test_a_file_without_comments_has_no_document_ids(tmp_path):
    data = read_letor(written(tmp_path, b"# a line of its own\n1 qid:1 1:2\n1 qid:1 1:3 #\n"))
    assert data.docids is None
    assert data.comment_texts is None


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + SMALL,
        SMALL.replace(b"\n", b"\r\n"),
        SMALL.replace(b"\n", b"\r\n").rstrip(b"\n"),
        SMALL.rstrip(b"\n"),
        SMALL.replace(b" #", b"\t   #").replace(b"3:-", b"\t 3:-"),
        SMALL.replace(b"0 qid", b"  \t0 \t qid"),
        b"\n\r\n  \n# comment\n \t# qid:1 nonsense\n" + SMALL.replace(b"\n", b"\n\n") + b"\n\n#end",
        SMALL.replace(b"7\n", b"7   \t \n"),
        SMALL.replace(b"1:0.5 2:3", b"2:3 1:0.5"),
        SMALL.replace(b"1:0.5", b"0001:+.5e0"),
        SMALL.replace(b"7\n", b"7#\n"),
    ],
)
def test_the_same_data_in_other_dress_read_the_same(tmp_path, content):
    clean = read_letor(written(tmp_path, SMALL))
    assert same(read_letor(written(tmp_path, content, "other.txt")), clean)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "a.txt.bz2", "a.txt.zst", "a.txt"])
def test_compressed_files_are_written_and_read_by_name_and_content(tmp_path, name):
    data = read_letor(written(tmp_path, SMALL))
    write_letor(data, tmp_path / name)
    assert same(read_letor(tmp_path / name), data)
    os.replace(tmp_path / name, tmp_path / "unnamed")
    assert same(read_letor(tmp_path / "unnamed"), data)


def test_missing_features_are_zero_or_nan(tmp_path):
    path = written(tmp_path, b"1 qid:1 2:5\n1 qid:1 1:NaN 3:-nan\n")
    assert np.array_equal(read_letor(path).X, [[0, 5, 0], [np.nan, 0, np.nan]], equal_nan=True)
    assert np.array_equal(
        read_letor(path, missing="nan").X, [[np.nan, 5, np.nan], [np.nan, np.nan, np.nan]], equal_nan=True
    )


def test_n_features_sets_the_width(tmp_path):
    path = written(tmp_path, SMALL)
    assert read_letor(path, n_features=5).X.tolist() == [[*row, 0, 0] for row in read_letor(path).X.tolist()]
    with pytest.raises(FormatError, match="line 2: feature index 3 exceeds n_features=2"):
        read_letor(path, n_features=2)


def test_indices_may_count_from_zero(tmp_path):
    path = written(tmp_path, b"1 qid:1 0:4 2:5\n")
    assert read_letor(path, zero_based=True).X.tolist() == [[4, 0, 5]]
    with pytest.raises(FormatError, match="feature 0: indices count from 1"):
        read_letor(path)


def test_a_file_may_name_no_feature_at_all(tmp_path):
    assert read_letor(written(tmp_path, b"1 qid:1\n0 qid:2 # x\n")).X.shape == (2, 0)


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["1", "2"], [1, 2]),
        (["0", str(2**32), str(2**40)], [0, 2**32, 2**40]),
        (["-5", "9223372036854775807", "-9223372036854775808"], [-5, 2**63 - 1, -(2**63)]),
        (["1", "01"], ["1", "01"]),
        (["1", "+1", "1_0"], ["1", "+1", "1_0"]),
        (["-0", "0"], ["-0", "0"]),
        (["9223372036854775808", "18446744073709551615", "5"], [2**63, 2**64 - 1, 5]),
        (["9223372036854775808", "-5"], ["9223372036854775808", "-5"]),
        (["18446744073709551616"], ["18446744073709551616"]),
        (["9" * 5000], ["9" * 5000]),
        (["queries/é", "查询", "\u0663", "a:b=c"], ["queries/é", "查询", "\u0663", "a:b=c"]),
    ],
)
def test_query_ids_stay_what_their_text_says(tmp_path, names, ids):
    data = read_letor(written(tmp_path, "".join(f"1 qid:{name} 1:1\n" for name in names).encode()))
    assert data.query_ids.tolist() == ids
    numbers = np.uint64 if ids[0] == 2**63 else np.int64
    assert data.query_ids.dtype == (numbers if isinstance(ids[0], int) else object)


def test_an_id_that_is_not_utf8_survives_a_round_trip(tmp_path):
    path = written(tmp_path, b"1 qid:caf\xe9 1:1 #docid = \xff\xfe\n")
    write_letor(read_letor(path), tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("comment", "docid"),
    [
        ("docid = GX008-86-4444840 inc = 1 prob = 0.086622", "GX008-86-4444840"),
        ("docid=X", "X"),
        (" \tdocid\t=  X#1=2\t", "X#1=2"),
        ("inc = 1 docid = X", "X"),
        ("notdocid = X", ""),
        ("docid = ", ""),
        ("docid", ""),
        ("docids = 1 docid = 2", "2"),
        ("", ""),
    ],
)
def test_the_document_id_is_found_in_the_comment(tmp_path, comment, docid):
    data = read_letor(written(tmp_path, f"1 qid:1 1:1 #{comment}\n1 qid:1 1:1 #docid = other\n".encode()))
    assert list(data.docids) == [docid, "other"]
    assert list(data.comment_texts) == [comment, "docid = other"]


def test_labels_may_be_fractions_and_large(tmp_path):
    data = read_letor(written(tmp_path, b"0.5 qid:1\n1e9 qid:1\n31 qid:1\n0.1 qid:1\n-0 qid:1\n.25 qid:1\n"))
    assert data.y.tolist() == [0.5, 1e9, 31, 0.1, 0, 0.25]


def test_values_are_the_float32_nearest_to_their_texts(tmp_path):
    texts = ["0.1", "16777217", "9007199254740993.0", "1e-40", "1e-400", "3.4028235e38", "0.30000000000000004"]
    # Beyond the middle between two float32, by less than float64 can say.
    texts += [
        "1.00000005960464477539062500000000001",
        "340282356779733661637539395458142568447.9",
        "7.0064923216240853e-46",
    ]
    data = read_letor(written(tmp_path, b"1 qid:1 " + " ".join(f"{i + 1}:{t}" for i, t in enumerate(texts)).encode()))
    assert data.X[0].tolist() == [nearest_float32(text) for text in texts]
    assert data.X[0, 7] == np.nextafter(np.float32(1), np.float32(2))
    assert data.X[0, 8] == np.finfo(np.float32).max


ROW = b"2 qid:1 1:0.5 2:3"


@pytest.mark.parametrize("before", [b"", b"1 qid:1 1:7 2:8\n", b"1 qid:1 1:7 2:8\n" * 50 + b"\n# a comment\n"])
@pytest.mark.parametrize("piece_bytes", [16, 4 << 20])
def test_a_last_line_that_is_cut_anywhere_is_a_row_of_less_or_an_error(tmp_path, before, piece_bytes):
    """Where the cut leaves a row that could be meant so, nobody can tell; everywhere else it is an error."""
    line = before.count(b"\n") + 1
    for end in range(1, len(ROW) + 1):
        path, rest = written(tmp_path, before + ROW[:end]), ROW[:end]
        whole = re.fullmatch(rb"2 qid:1( 1:0\.?5?( 2:3)?)? ?", rest) is not None
        if not whole or (before and b" 1:" not in rest):
            with cut_into(piece_bytes), pytest.raises(FormatError) as caught:
                read_letor(path)
            assert caught.value.line == line, rest
        else:
            with cut_into(piece_bytes):
                assert read_letor(path).n_rows == before.count(b"qid") + 1


@pytest.mark.parametrize("qid", [b" qid:1", b""])
def test_a_bare_last_line_is_cut_off_unless_it_has_a_newline_a_comment_or_no_example(tmp_path, qid):
    def read(content):
        path = written(tmp_path, content)
        return read_letor(path) if qid else read_svmlight(path, group_sizes=[content.count(b"2" + qid)])

    for content in (b"2%b 1:1\n2%b\n", b"2%b 1:1\n2%b #x", b"2%b\n2%b", b"2%b 1:1\n2%b 1:1", b"2%b\n2%b 1:1\n# end"):
        assert read(content.replace(b"%b", qid)).n_rows == 2
    for content in (b"2%b 1:1\n2%b", b"2%b 1:1\n2%b \t", b"2%b\n2%b 9:1\n2%b", b"2%b 1:1\r\n2%b\r"):
        with pytest.raises(FormatError, match=r"the last line has no features and no newline.*Is the file cut off\?"):
            read(content.replace(b"%b", qid))


def test_progress_rises_to_the_size_of_the_file(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(SMALL * 1000))
    steps = []
    with cut_into(5000), pytest.warns(UserWarning, match="interleaved"):
        read_letor(path, progress=lambda done, total: steps.append((done, total)))
    assert len(steps) > 10
    assert all(done <= later for (done, _), (later, _) in pairwise(steps))
    assert steps[-1] == (path.stat().st_size, path.stat().st_size)


# --- queries out of order ----------------------------------------------------------------------------------------

INTERLEAVED = (
    b"0 qid:7 1:0\n# comment\n1 qid:7 1:1\n2 qid:x 1:2\n3 qid:9 1:3\n4 qid:7 1:4 #c\n5 qid:9 1:5\n6 qid:x 1:6\n"
)


def test_interleaved_queries_keep_their_rows_in_order_with_one_warning(tmp_path):
    path = written(tmp_path, INTERLEAVED)
    with pytest.warns(UserWarning, match="interleaved") as caught:
        data = read_letor(path)
    assert [str(warning.message) for warning in caught] == [
        f'{path}: rows of query "7" are at lines 1-3 and again at line 6; 3 queries are interleaved. '
        "Rows keep their order, and each query has all of its rows; pass strict=True to refuse."
    ]
    assert caught[0].filename == __file__
    assert data.qid.tolist() == ["7", "7", "x", "9", "7", "9", "x"]
    assert data.rows.tolist() == [0, 1, 4, 2, 6, 3, 5]
    assert data.X[:, 0].tolist() == data.y.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert list(data.comment_texts) == ["", "", "", "", "c", "", ""]


def test_interleaved_queries_are_refused_when_strict(tmp_path):
    with pytest.raises(FormatError, match='"7" are at lines 1-3 and again at line 6; 3 queries are interleaved'):
        read_letor(written(tmp_path, INTERLEAVED), strict=True)
    assert read_letor(written(tmp_path, SMALL), strict=True).n_rows == 3


def test_rows_of_a_query_that_a_cut_divides_are_not_interleaved(tmp_path):
    path = written(tmp_path, b"".join(b"1 qid:%d 1:%d\n" % (i // 10, i) for i in range(100)))
    with cut_into(40):
        assert read_letor(path, strict=True).group.tolist() == [10] * 10


# --- what is refused ---------------------------------------------------------------------------------------------

FINE = b"1 qid:1 1:0.5 2:3\n"


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        # no text at all
        (FINE + FINE.decode().encode("utf-16-le"), 2, "not LETOR text (NUL byte at column 2); is it UTF-16"),
        (FINE.decode().encode("utf-16"), 1, "not LETOR text (NUL byte at column 4)"),
        (b"1 qid:1 \x001:5\n", 1, "not LETOR text (NUL byte at column 9); is it UTF-16 or compressed?"),
        (b"1 qid:1 1:5 # a\x00b\n", 1, "NUL byte at column 16"),
        (b"# a\x00b\n" + FINE, 1, "NUL byte at column 4"),
        (b"1 qid:1 1:5\r1 qid:1 1:6\r", 1, "carriage return at column 12"),
        (b"1 qid:1 1:5 #a\r1 qid:1 1:6\n", 1, "carriage return at column 15"),
        (b"#a\r" + FINE, 1, "carriage return at column 3"),
        (b"1 qid:1 1:5\r\r\n", 1, "carriage return at column 12"),
        (b"\x80\x04\x95}q.", 1, "not LETOR text (byte 0x80 at column 1); is it compressed or binary?"),
        # label
        (FINE + b"x qid:1 1:5\n", 2, "expected a label (a number, 0 or larger) as 1st field, found 'x'"),
        (b"1_0 qid:1 1:5\n", 1, "found '1_0'"),
        (b"nan qid:1 1:5\n", 1, "found 'nan'"),
        (b"inf qid:1 1:5\n", 1, "found 'inf'"),
        (b"-1 qid:1 1:5\n", 1, "label '-1'; labels must be finite numbers, 0 or larger"),
        (b"1e400 qid:1 1:5\n", 1, "label '1e400'"),
        (b"-1e-400000000000000000000000000000000 qid:1 1:5\n-3 qid:1\n", 2, "label '-3'"),
        # qid
        (FINE + b"2 1:0.5 2:1\n", 2, "expected 'qid:<id>' as 2nd field, found '1:0.5'"),
        (FINE + b"2 1:0.5 qid:1\n", 2, "expected 'qid:<id>' as 2nd field, found '1:0.5'"),
        (FINE + b"2 qid: 1:0.5\n", 2, "expected 'qid:<id>' as 2nd field, found 'qid:'"),
        (FINE + b"2 QID:1 1:0.5\n", 2, "found 'QID:1'"),
        (FINE + b"2\n", 2, "found the end of the line"),
        (FINE + b"2 # comment\n", 2, "found the end of the line"),
        (FINE + b"2 qid:a\x01b 1:1\n", 2, r"found 'qid:a\x01b'"),
        # values
        (FINE + b"1 qid:1 12:0,5\n", 2, "feature 12: cannot read '0,5' as a number"),
        (b"1 qid:1 1:0x10\n", 1, "cannot read '0x10'"),
        (b"1 qid:1 1:1_0\n", 1, "cannot read '1_0'"),
        ("1 qid:1 1:\u0663\n".encode(), 1, "cannot read '\u0663'"),
        (b"1 qid:1 1:.\n", 1, "cannot read '.'"),
        (b"1 qid:1 1:5e\n", 1, "cannot read '5e'"),
        (b"1 qid:1 1:1.2.3\n", 1, "cannot read '1.2.3'"),
        (b"1 qid:1 1:nan2:3\n", 1, "cannot read 'nan2:3'"),
        (b"1 qid:1 1:" + b"1" * 200 + b"x\n", 1, f"cannot read '{'1' * 40}...{'1' * 9}x'"),
        (b"1 qid:1 1:inf\n", 1, "'inf' is not finite as float32. Write nan for a missing value"),
        (b"1 qid:1 1:-Infinity\n", 1, "'-Infinity' is not finite"),
        (b"1 qid:1 1:1e400\n", 1, "'1e400' is not finite"),
        (b"1 qid:1 1:1e39\n", 1, "'1e39' is not finite"),
        (b"1 qid:1 1:3.4028236e38\n", 1, "'3.4028236e38' is not finite"),
        (b"1 qid:1 1: 2:3\n", 1, "feature 1 has no value"),
        # indices
        (b"1 qid:1 0:4\n", 1, "feature 0: indices count from 1"),
        (b"1 qid:1 -3:4\n", 1, "feature -3: indices count from 1"),
        (b"1 qid:1 1000000000:4\n", 1, "feature index 1000000000 exceeds max_features=100000"),
        (b"1 qid:1 99999999999999999999999:4\n", 1, "exceeds max_features=100000"),
        (b"1 qid:1 3:1 3:2\n", 1, "feature 3 is in this row twice"),
        (FINE + b"1 qid:1 4:1 2:1 3:0 4:2\n", 2, "feature 4 is in this row twice"),
        (b"1 qid:1 2:1 1:1 200:1 200:1\n1 qid:1 x\n", 1, "feature 200 is in this row twice"),
        # fields
        (b"1 qid:1 foo 1:2\n", 1, "expected 'feature:value', found 'foo'. Comments start with '#'"),
        (b"1 qid:1 +1:3\n", 1, "found '+1:3'"),
        (b"1 qid:1 :3\n", 1, "found ':3'"),
        (b"1 qid:1 2\n", 1, "expected 'feature:value', found '2'"),
        (FINE * 900 + b"1 qid:1 1:0.5 2:", 901, "the line ends inside 'feature:value', with '2:'. Is the file cut"),
        (FINE + b"1 qid:1 1:0.5 2", 2, "the line ends inside 'feature:value', with '2'"),
        (FINE + b"1 qid:1 1:0.5 2:-", 2, "the line ends inside 'feature:value', with '2:-'"),
        (FINE + b"1 q", 2, "expected 'qid:<id>' as 2nd field, found 'q'"),
        # nothing
        (b"", None, "no rows: the file is empty"),
        (b"# one\n\n  \n", None, "no rows: all 3 lines are blank or comments"),
    ],
)
def test_a_bad_line_is_named_with_what_was_expected(tmp_path, content, line, words):
    path = written(tmp_path, content)
    for piece_bytes, n_jobs in ((4 << 20, 1), (4 << 20, 3), (20, 2)):
        with cut_into(piece_bytes), pytest.raises(FormatError) as caught:
            read_letor(path, n_jobs=n_jobs)
        assert caught.value.line == line
        assert words in str(caught.value)
        assert str(caught.value).startswith(f"{path}: " if line is None else f"{path}, line {line}: ")


def test_the_first_of_many_bad_lines_is_reported(tmp_path):
    lines = [FINE] * 500 + [b"1 qid:1 1:x\n"] * 500
    for place, bad in ((137, b"-1 qid:1\n"), (260, b"1 qid:1 2:1 1:1 2:1\n"), (431, b"1 qid:1 #\0\n")):
        changed = [*lines]
        changed[place] = bad
        for piece_bytes, n_jobs in ((100, 4), (3000, 2), (4 << 20, 1)):
            with cut_into(piece_bytes), pytest.raises(FormatError) as caught:
                read_letor(written(tmp_path, b"".join(changed)), n_jobs=n_jobs)
            assert caught.value.line == place + 1


def test_a_number_that_only_python_can_read_is_still_checked_in_its_turn(tmp_path):
    tie = b"340282356779733661637539395458142568448.0" + b"0" * 20  # rounds to infinity, but 19 digits do not tell
    content = FINE + b"1 qid:1 1:" + tie + b"\n1 qid:1 1:x\n"
    with pytest.raises(FormatError, match=r"line 2: feature 1: .* is not finite as float32"):
        read_letor(written(tmp_path, content))
    hard = b"9007199254740993.0"
    data = read_letor(written(tmp_path, b"".join(b"%b qid:1 1:-%b 2:1\n" % (hard, hard) for _ in range(3000))))
    assert set(data.y) == {9007199254740992.0}
    assert set(data.X[:, 0]) == {np.float32(-9007199254740992.0)}


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_data_that_is_cut_off_or_damaged_is_refused_with_the_name(tmp_path, compress):
    rng = random.Random(1)
    content = b"".join(b"1 qid:%d 1:%f 2:%f\n" % (i, rng.random(), rng.random()) for i in range(5000))
    whole = compress(content)
    path = written(tmp_path, whole[: len(whole) // 2], "train.txt.gz")
    for n_jobs in (1, 2):
        with pytest.raises(FormatError, match="the compressed data cannot be read") as caught:
            read_letor(path, n_jobs=n_jobs)
        assert str(caught.value).startswith(f"{path}: ")
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 255
    with pytest.raises(FormatError):
        read_letor(written(tmp_path, bytes(damaged), "train.txt.gz"))


def test_a_bad_line_before_the_damage_is_the_one_reported(tmp_path):
    rng = random.Random(1)
    content = b"1 qid:1 1:x\n" + b"".join(b"1 qid:%d 1:%f\n" % (i, rng.random()) for i in range(5000))
    whole = gzip.compress(content)
    with pytest.raises(FormatError, match="line 1: feature 1: cannot read 'x'"):
        read_letor(written(tmp_path, whole[: len(whole) // 2], "train.txt.gz"))


def test_a_line_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    for module in (letor_pieces, letor_table):
        monkeypatch.setattr(module, "LINE_BYTES", 1 << 20)
    with cut_into(1 << 18), pytest.raises(FormatError, match="line 2: longer than 1 MiB"):
        read_letor(written(tmp_path, FINE + b"1 qid:1 " + b"1" * (3 << 20)))
    long = b"1 qid:1" + b"".join(b" %d:1" % i for i in range(1, 90_001)) + b"\n"
    assert len(long) > 700_000
    with cut_into(1000):
        assert read_letor(written(tmp_path, FINE + long)).X.shape == (2, 90_000)


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path, monkeypatch):
    path = written(tmp_path, FINE * 100)
    with cut_into(100):
        pieces = letor_pieces.Pieces(os.fspath(path))
        assert pieces.read() is not None
        os.truncate(path, len(FINE) * 10)
        with pytest.raises(FormatError, match=r"ended after \d+ of 1800 bytes: it was changed"):
            list(iter(pieces.read, None))
        pieces.close()


def test_what_is_no_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_letor(tmp_path / "absent.txt")
    with pytest.raises(IsADirectoryError):
        read_letor(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        read_letor("/dev/null")


def test_a_matrix_larger_than_memory_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_table, "memory", lambda: 1_250_000)
    rows = b"1 qid:1 1:1\n" * 300
    with pytest.raises(ValueError, match=r"rows or more with 100000 features take .* GB as a matrix"):
        read_letor(written(tmp_path, rows + b"1 qid:1 100000:1\n"))
    assert read_letor(written(tmp_path, rows)).n_rows == 300


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"missing": "none"}, 'missing must be "zero" or "nan"; got \'none\''),
        ({"n_features": 0}, "n_features must be an integer from 1"),
        ({"max_features": 2.5}, "max_features must be an integer from 1"),
        ({"n_jobs": 0}, "n_jobs must be positive"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        read_letor(written(tmp_path, SMALL), **options)


# --- what other readers let pass in silence ----------------------------------------------------------------------


def test_a_row_without_qid_never_passes_where_scikit_learn_drops_it(tmp_path):
    from sklearn.datasets import load_svmlight_file

    content = b"1 qid:1 1:1\n1 1:2\n"
    _, y, qid = load_svmlight_file(io.BytesIO(content), query_id=True)
    assert (len(y), len(qid)) == (2, 1)  # one id is lost, without a word
    with pytest.raises(FormatError, match="line 2"):
        read_letor(written(tmp_path, content))


def test_query_ids_that_xgboost_merges_stay_apart(tmp_path):
    content = "".join(f"1 qid:{qid} 1:1\n" for qid in (0, 2**32, 2**40))
    assert read_letor(written(tmp_path, content.encode())).group.tolist() == [1, 1, 1]


@pytest.mark.parametrize("content", [b"nan qid:1 1:1\n", b"1 qid:1 1:inf\n", b"1 qid:1 1000000000:1\n", b"\xff\xfe1\0"])
def test_nan_labels_infinite_values_and_huge_indices_are_loud(tmp_path, content):
    with pytest.raises(FormatError, match="line 1"):
        read_letor(written(tmp_path, content))


# --- real files --------------------------------------------------------------------------------------------------


def test_mq2008_is_read_as_published(real_data):
    data = read_letor(real_data / "MQ2008" / "S1.txt.xz")
    assert (data.n_rows, data.n_queries, data.n_features) == (2933, 157, 46)
    assert np.bincount(data.y.astype(int)).tolist() == [2316, 427, 190]
    assert data.docids[0] == "GX008-86-4444840"
    assert data.comment_texts[0] == "docid = GX008-86-4444840 inc = 1 prob = 0.086622"
    assert data.X[0, :3].tolist() == [np.float32(0.007477), 0, 1]


def test_the_example_of_svmrank_is_read(real_data):
    data = read_letor(real_data / "svmrank-example3" / "train.dat")
    assert (data.group.tolist(), data.n_features) == ([4, 4, 4], 5)
    assert data.X[0].tolist() == [1, 1, 0, np.float32(0.2), 0]


@pytest.mark.parametrize("name", ["msn1.fold1.train.5k.txt.xz", "mslr_fold1_valid_sample.txt.xz"])
def test_mslr_reads_as_scikit_learn_reads_it_and_writes_back(real_data, tmp_path, name):
    from sklearn.datasets import load_svmlight_file

    content = lzma.decompress((real_data / "MSLR-sample" / name).read_bytes())
    X, y, qid = load_svmlight_file(io.BytesIO(content), query_id=True, zero_based=False)
    data = read_letor(real_data / "MSLR-sample" / name)
    assert np.array_equal(data.X, X.toarray().astype(np.float32))
    assert np.array_equal(data.y, y)
    assert np.array_equal(data.qid, qid)
    write_letor(data, tmp_path / "again.txt")
    assert same(read_letor(tmp_path / "again.txt"), data)


def test_lightgbms_example_is_read_with_its_group_sizes(real_data):
    folder = real_data / "lightgbm-lambdarank"
    sizes = np.loadtxt(folder / "rank.train.query", dtype=int)
    data = read_svmlight(folder / "rank.train.xz", group_sizes=sizes)
    assert (data.n_rows, data.n_features, data.group.tolist()) == (3005, 300, sizes.tolist())
    assert data.X[0, 9] == np.float32(0.89)


def test_group_sizes_must_fit_the_rows_and_the_text_has_no_qid(tmp_path):
    path = written(tmp_path, b"1 1:2\n0 2:3 # docid = x\n")
    assert read_svmlight(path, group_sizes=[1, 1]).X.tolist() == [[2, 0], [0, 3]]
    with pytest.raises(ValueError, match="group sizes add up to 3, X has 2 rows"):
        read_svmlight(path, group_sizes=[1, 2])
    with pytest.raises(FormatError, match="line 1: expected 'feature:value', found 'qid:10'"):
        read_svmlight(written(tmp_path, SMALL), group_sizes=[3])


# --- cuts and threads change nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("piece_bytes", [1, 64, 1000, 30_000])
@pytest.mark.parametrize("n_jobs", [1, 2, 7])
def test_the_result_does_not_depend_on_cuts_or_threads(tmp_path, piece_bytes, n_jobs):
    rng = random.Random(3)
    lines = []
    for row in range(300):
        columns = sorted(rng.sample(range(1, 5 + row), rng.randint(1, 4)), key=lambda _: rng.random())
        features = " ".join(f"{column}:{rng.choice(['0', '1.5', '-0.25', 'nan', '1e-7'])}" for column in columns)
        lines.append(f"{rng.randint(0, 4)} qid:{row // 7} {features}{rng.choice(['', f' #docid = {row}', ' # x'])}")
    path = written(tmp_path, "\n".join(lines).encode())
    whole = read_letor(path, n_jobs=1)
    with cut_into(piece_bytes):
        assert same(read_letor(path, n_jobs=n_jobs), whole)


def test_a_later_piece_may_be_wider_and_a_first_guess_too_small(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_table, "_SEGMENT_BYTES", 200)
    lines = [b"1 qid:%d 1:1 2:2 3:3 4:4 5:5 6:6 7:7\n" % i for i in range(10)]
    lines += [b"1 qid:%d 1:%d\n" % (i, i) for i in range(10, 200)]
    lines += [b"1 qid:%d 30:%d\n" % (i, i) for i in range(200, 210)]
    with cut_into(120):
        data = read_letor(written(tmp_path, b"".join(lines)), n_jobs=3, missing="nan")
    assert data.X.shape == (210, 30)
    assert data.X[:10, :7].tolist() == [[1, 2, 3, 4, 5, 6, 7]] * 10
    assert data.X[10:200, 0].tolist() == list(range(10, 200))
    assert data.X[200:, 29].tolist() == list(range(200, 210))
    assert np.isnan(data.X).sum() == 210 * 30 - 10 * 7 - 190 - 10


def test_many_threads_may_read_at_once(tmp_path):
    path = written(tmp_path, SMALL)
    data, results = read_letor(path), []
    threads = [threading.Thread(target=lambda: results.append(read_letor(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(same(result, data) for result in results)


def test_an_error_leaves_no_thread_and_no_open_file(tmp_path):
    path = written(tmp_path, FINE * 1000 + b"x\n" + FINE * 1000)
    before = threading.active_count()
    with cut_into(500), pytest.raises(FormatError):
        read_letor(path, n_jobs=3)
    assert threading.active_count() == before


def test_an_error_of_the_progress_report_comes_through(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    before = threading.active_count()
    with cut_into(50), pytest.raises(KeyboardInterrupt):
        read_letor(written(tmp_path, FINE * 100), progress=stop)
    assert threading.active_count() == before


# --- any bytes ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("letor") / "any.txt"


def assert_reads_as_the_oracle_says(
    path: Path, content: bytes, piece_bytes: int, n_jobs: int, with_qid: bool, labels: str = "required"
) -> None:
    assume(not content.startswith((b"BZh", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00")))  # as compressed data do
    path.write_bytes(content)
    rules = letor_parsing.make_rules(path, with_qid, "zero", None, 100_000, False, labels)
    rows, bad_line = oracle_of(content, with_qid, labels)
    if rows is None:
        with cut_into(piece_bytes), pytest.raises(FormatError) as caught:
            letor_table.read_whole(rules, n_jobs, None)
        assert caught.value.line == bad_line
        return
    with cut_into(piece_bytes), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the largest double")
        table = letor_table.read_whole(rules, n_jobs, None)
    X = np.array([row[2] for row in rows], dtype=np.float32).reshape(len(rows), -1)
    assert table.X.shape == X.shape
    assert np.array_equal(table.X, X, equal_nan=True)
    assert np.array_equal(np.signbit(table.X[table.X == 0]), np.signbit(X[X == 0]))
    if table.y is None:
        assert labels == "optional"
        assert {row[0] for row in rows} == {0}
    else:
        assert table.y.tobytes() == np.array([row[0] for row in rows], dtype=np.float64).tobytes()
    assert texts(table.comments, len(rows)) == [row[3] for row in rows]
    assert texts(table.docids, len(rows)) == [row[4] for row in rows]
    if with_qid:
        assert_grouped_stably(table, [row[1] for row in rows])


def oracle_of(content: bytes, with_qid: bool, labels: str):
    """(rows, None), or (None, the first bad line)."""
    try:
        return letor_rows(content, with_qid=with_qid, labels=labels), None
    except LetorFault as fault:
        return None, fault.args[0]


def texts(column: Texts | None, n: int) -> list[bytes]:
    return [b""] * n if column is None else [text.encode("utf-8", "surrogateescape") for text in column]


def assert_grouped_stably(table, ids: list[bytes]) -> None:
    names = [name.decode("utf-8", "surrogateescape") for name in ids]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = group_by_qid(table, "any.txt", strict=False)
    assert data.rows.tolist() == sorted(range(len(names)), key=lambda row: names.index(names[row]))
    assert [str(name) for name in data.qid] == names


some_bytes = st.binary(max_size=80) | st.text("0123456789:.-+eEnaqid #\t\r\n,", max_size=80).map(str.encode)
sizes = st.sampled_from([1, 10, 40, 4 << 20])
jobs = st.sampled_from([1, 3])


@settings(max_examples=200, deadline=None)
@given(some_bytes, sizes, jobs, st.booleans(), st.sampled_from(["required", "optional"]))
@example(b"1 qid:1 1:.\n", 40, 1, True, "required")
@example(b"1 qid:1 1:0/5\n", 40, 1, True, "required")
@example(b"0\n0", 1, 1, False, "required")
@example(b"\xef\xbb\xbf\xef\xbb\xbf1 qid:1\n", 1, 1, True, "required")
@example(b"qid:1 1:5\nqid:2 1:1.7976931348623157e+308 # qid:3\n", 1, 1, True, "optional")
@example(b"# qid:1 1:5\nqid:2 1:2\n1 qid:2 1:3\n", 10, 1, True, "optional")
@example(b"1 qid:2 1:2\nqid:2 1:3\n", 10, 1, True, "optional")
@example(b"1:0.5 3:2\n2:1 # x\n", 1, 3, False, "optional")
@example(b"1:0.5 3:2\n2 2:1\n", 1, 3, False, "optional")
def test_any_bytes_are_an_error_or_what_the_oracle_reads(scratch, content, piece_bytes, n_jobs, with_qid, labels):
    assert_reads_as_the_oracle_says(scratch, content, piece_bytes, n_jobs, with_qid, labels)


numbers = (
    st.integers(0, 9).map(str)
    | st.floats(-1e6, 1e6).map(lambda number: f"{number:.6f}")
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    | st.integers(0, 10**20).map(str)
    | st.sampled_from(["nan", "-nan", "0.", ".5", "+1", "-0", "1E-5", "1e-320", "9007199254740993.0", "00012"])
)
columns = st.lists(st.integers(1, 12) | st.integers(1, 300), unique=True, max_size=6).flatmap(
    lambda indices: st.sampled_from([indices, sorted(indices), sorted(indices)])
)
blank = st.sampled_from([" ", " ", " ", "  ", "\t"])
comments = st.sampled_from(["", "", "#", "#docid = X1", " # inc=1\tdocid =Y z", "#docid", "# \u00e9"])
ids = st.sampled_from(["1", "1", "2", "03", "q\u00e9", "-5", "9223372036854775808"])


@st.composite
def letor_lines(draw) -> str:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", "  ", "\t", "# docid = 1", " #"]))
    space = draw(blank)
    features = [f"{index}:{draw(numbers)}" for index in draw(columns)]
    label = draw(st.sampled_from(["0", "1", "4", "0.5", "1e9", "31.0"]))
    return space.join([label, f"qid:{draw(ids)}", *features]) + draw(comments)


letor_files = st.builds(
    lambda lines, end, last: (end.join(lines) + last * end).encode(),
    st.lists(letor_lines(), max_size=10),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(letor_files, sizes, jobs)
def test_any_good_file_reads_as_the_oracle_reads_it(scratch, content, piece_bytes, n_jobs):
    assert_reads_as_the_oracle_says(scratch, content, piece_bytes, n_jobs, True)


@settings(max_examples=200, deadline=None)
@given(
    letor_files,
    st.lists(
        st.tuples(
            st.integers(0, 10**6), st.integers(0, 3), st.sampled_from(b"0123456789:.-+eEnaqid #\t\r\n,\x00\xff\x0b")
        ),
        min_size=1,
        max_size=3,
    ),
    sizes,
    jobs,
)
def test_any_good_file_with_a_few_bytes_changed_is_an_error_or_what_the_oracle_reads(
    scratch, content, changes, piece_bytes, n_jobs
):
    mutated = bytearray(content)
    for place, removed, inserted in changes:
        place %= len(mutated) + 1
        mutated[place : place + removed] = bytes([inserted])
    assert_reads_as_the_oracle_says(scratch, bytes(mutated), piece_bytes, n_jobs, True)


# --- what is written ---------------------------------------------------------------------------------------------


def test_rows_are_written_in_their_shortest_form(tmp_path):
    data = RankingData.from_arrays(
        [[0, 1.5, np.nan], [-0.0, 0.1, 0], [1e-7, 16777216, 0]], [0, 0.5, 1e9], qid=[7, 7, 7]
    )
    write_letor(data, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == (
        "0 qid:7 1:0 2:1.5 3:nan\n0.5 qid:7 1:-0 2:0.1 3:0\n1000000000 qid:7 1:1e-7 2:16777216 3:0\n"
    )
    write_letor(data, tmp_path / "b.txt", sparse=True)
    assert (tmp_path / "b.txt").read_text() == (
        "0 qid:7 2:1.5 3:nan\n0.5 qid:7 1:-0 2:0.1\n1000000000 qid:7 1:1e-7 2:16777216\n"
    )


def test_the_first_row_of_a_sparse_file_keeps_the_width(tmp_path):
    data = RankingData.from_arrays([[1, 0, 0], [0, 0, 0]], [0, 1], qid=[1, 2])
    write_letor(data, tmp_path / "a.txt", sparse=True)
    assert (tmp_path / "a.txt").read_text() == "0 qid:1 1:1 3:0\n1 qid:2\n"
    assert same(read_letor(tmp_path / "a.txt"), data)


def test_comments_are_kept_and_document_ids_become_comments(tmp_path):
    path = written(tmp_path, SMALL)
    write_letor(read_letor(path), tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes().splitlines()[0] == b"2 qid:10 1:0.5 2:3 3:0 #docid = GX1 inc = 1"
    data = RankingData.from_arrays([[1], [2]], [0, 1], qid=[1, 1], docids=["a#b", ""])
    write_letor(data, tmp_path / "ids.txt")
    assert (tmp_path / "ids.txt").read_text() == "0 qid:1 1:1 #docid = a#b\n1 qid:1 1:2\n"
    assert list(read_letor(tmp_path / "ids.txt").docids) == ["a#b", ""]


def test_weights_are_lost_with_a_warning_and_names_are_kept(tmp_path):
    data = RankingData.from_arrays([[1]], [0], qid=[1], feature_names=["bm25"], query_weight=[2])
    path = tmp_path / "a.txt"
    with pytest.warns(UserWarning, match="no place for query_weight; a .podium-data file keeps them"):
        write_letor(data, path)
    assert path.read_text() == '# features: ["bm25"]\n0 qid:1 1:1\n'


@pytest.mark.parametrize(
    ("qid", "docid", "words"),
    [
        ("a b", "x", "query id 'a b'"),
        ("a#b", "x", "query id 'a#b'"),
        ("a\nb", "x", r"query id 'a\\nb'"),
        ("", "x", "query id ''"),
        ("q", "x y", "row 2: document id 'x y'"),
        ("q", "x\ny", r"row 2: document id 'x\\ny'"),
    ],
)
def test_ids_that_the_format_cannot_hold_are_refused(tmp_path, qid, docid, words):
    data = RankingData.from_arrays([[1], [1]], [0, 0], qid=[qid, qid], docids=["fine", docid])
    path = written(tmp_path, b"old")
    with pytest.raises(ValueError, match=words):
        write_letor(data, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["train.txt"]


def test_comments_that_would_not_read_back_are_refused(tmp_path):
    data = RankingData.from_arrays([[1], [1]], [0, 0], qid=[1, 1])
    arrays = (data.X, data.y, data.offsets, data.query_ids, data.rows)
    with pytest.raises(ValueError, match=r"row 2: comment 'x\\ny'"):
        write_letor(RankingData(*arrays, comment_texts=Texts.of(["", "x\ny"])), tmp_path / "a.txt")
    with pytest.raises(ValueError, match="row 1: the document id is 'd', but the comment 'x' does not say so"):
        write_letor(
            RankingData(*arrays, docid_texts=Texts.of(["d", ""]), comment_texts=Texts.of(["x", "y"])),
            tmp_path / "a.txt",
        )
    with pytest.raises(ValueError, match="row 2 has an infinite feature"):
        write_letor(RankingData(np.float32([[1], [np.inf]]), *arrays[1:]), tmp_path / "a.txt")
    with pytest.raises(ValueError, match="the data have no rows"):
        write_letor(data.subset([]), tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


tokens = st.text(
    st.characters(codec="utf-8", exclude_characters="#", exclude_categories=["Z", "C"]), min_size=1, max_size=5
)
notes = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=10)


@st.composite
def ranking_data(draw) -> RankingData:
    n, width = draw(st.integers(1, 8)), draw(st.integers(0, 6))
    patterns = draw(st.lists(st.integers(0, 2**32 - 1) | st.just(0), min_size=n * width, max_size=n * width))
    X = np.array(patterns, dtype=np.uint32).view(np.float32).reshape(n, width).copy()
    X[np.isinf(X)] = 0
    y = draw(st.lists(st.floats(0, 1e300) | st.integers(0, 4), min_size=n, max_size=n))
    qid = draw(st.lists(tokens, min_size=n, max_size=n) | st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    data = RankingData.from_arrays(X, y, qid=qid)
    arrays = (data.X, data.y, data.offsets, data.query_ids, np.arange(n))
    comment = draw(st.none() | st.lists(notes, min_size=n, max_size=n))
    return RankingData(*arrays, comment_texts=None if comment is None else Texts.of(comment))


@settings(max_examples=100, deadline=None)
@given(ranking_data(), st.booleans(), sizes)
def test_what_is_written_reads_back_bit_for_bit(scratch, data, sparse, piece_bytes):
    assume(data.comment_texts is None or not any("docid" in text for text in data.comment_texts))
    with cut_into(piece_bytes):
        write_letor(data, scratch, sparse=sparse)
        again = read_letor(scratch)
    whole_numbers = all(str(name).lstrip("-").isdigit() for name in data.query_ids)
    if data.query_ids.dtype == object and whole_numbers:  # text that is a number comes back as one
        assert [str(name) for name in again.query_ids] == data.query_ids.tolist()
    else:
        assert again.query_ids.tolist() == data.query_ids.tolist()
    assert np.array_equal(again.X, data.X, equal_nan=True)
    assert np.array_equal(np.signbit(again.X[again.X == 0]), np.signbit(data.X[data.X == 0]))
    assert again.y.tobytes() == data.y.tobytes()
    assert np.array_equal(again.offsets, data.offsets)
    kept = data.comment_texts is not None and len(data.comment_texts.data) > 0
    assert again.comment_texts == (data.comment_texts if kept else None)


def test_a_row_longer_than_a_piece_is_written(tmp_path):
    data = RankingData.from_arrays(np.full((3, 2000), 0.1), [0, 1, 2], qid=[1, 1, 1])
    with cut_into(1000):
        write_letor(data, tmp_path / "a.txt")
        assert same(read_letor(tmp_path / "a.txt"), data)


# --- memory ------------------------------------------------------------------------------------------------------

CHILD = """
import sys
from podium.formats.letor import read_letor

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

read_letor(sys.argv[1], n_jobs=2)  # compiles
before = peak()
data = read_letor(sys.argv[2], n_jobs=2)
print(peak() - before, data.X.nbytes + data.y.nbytes + data.rows.nbytes)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("name", ["large.txt", "large.txt.gz"])
def test_the_peak_of_memory_stays_below_twice_the_result(tmp_path, name):
    rows = b"".join(
        b"1 qid:%d %b\n" % (i, b" ".join(b"%d:%d" % (j, (i * j) % 10) for j in range(1, 101))) for i in range(500)
    )
    content = b"".join(rows.replace(b"qid:", b"qid:%d-" % i) for i in range(240))
    large = written(tmp_path, gzip.compress(content, 1) if name.endswith("gz") else content, name)
    small = written(tmp_path, rows, "small.txt")
    child = subprocess.run([sys.executable, "-c", CHILD, small, large], capture_output=True, text=True, check=True)
    growth, arrays = map(int, child.stdout.split())
    assert growth < 2 * arrays + 12 * letor_pieces.PIECE_BYTES + letor_table._SEGMENT_BYTES
