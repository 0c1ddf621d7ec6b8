"""Files are wholly old or wholly new."""

import bz2
import gzip
import lzma
import os
import sys
import zlib
from itertools import product

import numpy as np
import pytest

from podium._files import open_bytes, plain_suffix, refuse_bad_target, write_whole
from podium.formats.errors import FormatError
from podium.formats.letor import read_letor
from podium.formats.lines import line_blocks

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_what_is_written_is_read_back_through_the_compression(tmp_path, suffix):
    path = tmp_path / f"file.txt{suffix}"
    with write_whole(path) as stream:
        stream.write(b"ranking " * 1000)
    with open_bytes(path) as stream:
        assert stream.read() == b"ranking " * 1000
    assert (path.stat().st_size < 8000) == bool(suffix)
    assert plain_suffix(path) == ".txt"
    assert os.listdir(tmp_path) == [path.name]


def test_compression_is_told_by_content_not_by_name(tmp_path):
    with write_whole(tmp_path / "a.gz") as stream:
        stream.write(b"text")
    (tmp_path / "a.gz").rename(tmp_path / "a.txt")
    with open_bytes(tmp_path / "a.txt") as stream:
        assert stream.read() == b"text"


def test_equal_content_gives_equal_compressed_bytes(tmp_path):
    for name in ("one.gz", "two.gz"):
        with write_whole(tmp_path / name) as stream:
            stream.write(b"text")
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_an_interrupted_writer_leaves_the_old_file_and_nothing_else(tmp_path, suffix, error):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(b"old")

    def write():
        with write_whole(path) as stream:
            stream.write(b"new" * 100_000)
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [path.name]


def test_a_full_disk_is_told_with_the_final_name(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    path.write_bytes(b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(OSError, match=r"No space left on device; nothing was changed.*file\.txt"),
        write_whole(path) as stream,
    ):
        stream.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_missing_folder_and_a_folder_as_target_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"), write_whole(tmp_path / "no" / "x"):
        pass
    with pytest.raises(IsADirectoryError, match="is a folder"), write_whole(tmp_path):
        pass


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"file\.txt: nothing can be written to the folder"):
        refuse_bad_target(tmp_path / "file.txt")
    tmp_path.chmod(0o700)


def test_only_regular_files_are_read(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; expected a file"):
        open_bytes(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        open_bytes("/dev/zero")
    with pytest.raises(FileNotFoundError):
        open_bytes(tmp_path / "none")


CODECS = {
    ".gz": lambda text: gzip.compress(text, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: zstd.compress(text, options={zstd.CompressionParameter.checksum_flag: 1}),
}
ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError)
ROWS = [b"%d qid:%d 1:0.%d 2:%d #docid = D%d\n" % (row % 3, row // 4, row * 37 % 100, row, row) for row in range(12)]


def written_by_us(folder, suffix) -> bytes:
    with write_whole(folder / f"whole{suffix}") as stream:
        stream.writelines(ROWS)
    return (folder / f"whole{suffix}").read_bytes()


def two_streams(folder, suffix) -> bytes:
    return CODECS[suffix](b"".join(ROWS[:6])) + CODECS[suffix](b"".join(ROWS[6:]))


@pytest.mark.parametrize("make", [written_by_us, two_streams])
@pytest.mark.parametrize("suffix", CODECS)
def test_every_flipped_bit_of_a_compressed_file_is_an_error_or_changes_nothing(tmp_path, suffix, make):
    good, path, wrong = make(tmp_path, suffix), tmp_path / f"f.txt{suffix}", 0
    for place, bit in product(range(len(good)), range(8)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            with open_bytes(path) as stream:
                content = stream.read()
        except ERRORS:
            wrong += 1
            continue
        if content == damaged:  # not taken for compressed: then it is no text either
            with pytest.raises(FormatError, match=path.name):
                read_letor(path)
            wrong += 1
        else:
            assert content == b"".join(ROWS), (place, bit)
    assert wrong > 7 * len(good)


@pytest.mark.parametrize("suffix", CODECS)
def test_readers_refuse_what_follows_a_stream_and_streams_that_break_off(tmp_path, suffix):
    path, good = tmp_path / f"f.txt{suffix}", two_streams(tmp_path, suffix)
    path.write_bytes(good)
    assert read_letor(path).n_rows == len(ROWS)
    for damaged in (good + b"more", good + b"\0\0\0\1", good[:-1], good[: len(good) // 2 + 5], good + good[:10]):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=path.name):
            read_letor(path)
        with pytest.raises(FormatError, match=path.name):
            list(line_blocks(path))


def test_zeros_that_fill_a_block_and_frames_without_content_are_skipped(tmp_path):
    text = b"".join(ROWS)
    skipped = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    for name, content in {
        "a.xz": lzma.compress(text) + bytes(200_000) + lzma.compress(text),
        "a.zst": CODECS[".zst"](text) + skipped + CODECS[".zst"](text),
        "a.gz": gzip.compress(text) + bytes(512),
    }.items():
        (tmp_path / name).write_bytes(content)
        with open_bytes(tmp_path / name) as stream:
            assert stream.read() == (text if name == "a.gz" else 2 * text)


def test_large_streams_are_read_in_small_steps(tmp_path, rng):
    text = bytes(rng.integers(48, 58, 700_000, dtype=np.uint8))
    for suffix, codec in CODECS.items():
        (tmp_path / f"large{suffix}").write_bytes(codec(text) + codec(b"") + codec(text))
        with open_bytes(tmp_path / f"large{suffix}") as stream:
            assert b"".join(iter(lambda stream=stream: stream.read(10_007), b"")) == text + text
