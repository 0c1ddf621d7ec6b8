"""Scores files: what is written reads back exactly; anything else is refused by line."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.formats.errors import FormatError
from podium.formats.lines import line_blocks
from podium.formats.scores import read_scores, write_scores


def written(folder, content: bytes, name: str = "scores.txt"):
    path = folder / name
    path.write_bytes(content)
    return path


@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_scores_read_back_bit_for_bit(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("scores") / "s.txt"
    write_scores(numbers, path)
    assert read_scores(path).tobytes() == np.array(numbers, dtype=np.float64).tobytes()


def test_scores_are_written_as_the_shortest_text(tmp_path):
    write_scores([1.0, -0.5, 1e300, 0.1], tmp_path / "s")
    assert (tmp_path / "s").read_text() == "1\n-0.5\n1e+300\n0.1\n"


def test_float32_scores_keep_their_value(tmp_path):
    scores = np.array([0.1, 2.5], dtype=np.float32)
    write_scores(scores, tmp_path / "s.gz")
    np.testing.assert_array_equal(read_scores(tmp_path / "s.gz"), scores.astype(np.float64))


def test_blanks_crlf_a_byte_order_mark_and_a_blank_end_are_fine(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbf 1 \r\n2e0\t\r\n\r\n\n")
    np.testing.assert_array_equal(read_scores(path, 2), [1.0, 2.0])


@pytest.mark.parametrize("word", ["abc", "nan", "inf", "-inf", "1e999", "1_0", "0x1", "0,5", "1 2", "\u0661"])
def test_what_is_no_finite_number_is_refused_by_line(tmp_path, word):
    path = written(tmp_path, f"1\n{word}\n".encode())
    with pytest.raises(FormatError, match=r"scores\.txt, line 2: expected one finite number, found"):
        read_scores(path)


def test_an_empty_line_between_numbers_is_refused_by_its_line(tmp_path):
    with pytest.raises(FormatError, match=r"line 2: .* found an empty line"):
        read_scores(written(tmp_path, b"1\n\n\n3\n"))


def test_an_empty_line_between_blocks_is_refused_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("podium.formats.lines._BLOCK_BYTES", 2)
    with pytest.raises(FormatError, match=r"line 3: .* found an empty line"):
        read_scores(written(tmp_path, b"1\n2\n\n\n\n3\n"))


def test_a_wrong_count_says_both_numbers(tmp_path):
    with pytest.raises(FormatError, match="has 2 scores, the data has 3 rows"):
        read_scores(written(tmp_path, b"1\n2\n"), n_rows=3)


def test_an_empty_file_is_refused_unless_no_rows_are_expected(tmp_path):
    path = written(tmp_path, b"")
    with pytest.raises(FormatError, match="is empty"):
        read_scores(path)
    assert len(read_scores(path, 0)) == 0


@pytest.mark.parametrize("content", [b"1\n2\x00\n", "1\n2\n".encode("utf-16"), b"\xff\xfe1\n"])
def test_bytes_that_are_no_text_are_refused(tmp_path, content):
    with pytest.raises(FormatError, match="is it UTF-16 or binary"):
        read_scores(written(tmp_path, content))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_every_compression_is_read_and_a_cut_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"s{suffix}"
    numbers = np.random.default_rng(1).normal(size=5000)
    write_scores(numbers, path)
    np.testing.assert_array_equal(read_scores(path), numbers)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(FormatError, match="damaged"):
        read_scores(path)


def test_damaged_bytes_in_a_compressed_file_are_refused(tmp_path):
    content = bytearray(gzip.compress(b"1\n" * 1000, mtime=0))
    content[-6] ^= 1  # the checksum
    with pytest.raises(FormatError, match="damaged"):
        read_scores(written(tmp_path, bytes(content)))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("podium.formats.lines._LONGEST_LINE", 1000)
    with pytest.raises(FormatError, match="line 2: longer than"):
        list(line_blocks(written(tmp_path, b"1\n" + b" " * 2_000_000)))


@given(content=st.binary(max_size=60), size=st.integers(1, 9))
def test_blocks_put_together_are_the_file(tmp_path_factory, content, size):
    content = content.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf").lstrip(b"\xff\xfe\xef")
    path = written(tmp_path_factory.mktemp("blocks"), b"1" + content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("podium.formats.lines._BLOCK_BYTES", size)
        blocks = list(line_blocks(path))
    assert b"".join(block for _, block in blocks) == b"1" + content
    assert all(block.endswith(b"\n") for _, block in blocks[:-1])
    lines = 1
    for first, block in blocks:
        assert first == lines
        lines += block.count(b"\n")


@pytest.mark.parametrize("scores", [[1.0, np.nan], [np.inf], [[1.0]]])
def test_scores_that_are_no_list_of_finite_numbers_are_not_written(tmp_path, scores):
    with pytest.raises(ValueError, match="scores"):
        write_scores(scores, tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_a_folder_and_a_pipe_are_no_scores(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with pytest.raises(OSError, match=path.name):
            read_scores(path)
