"""Files are wholly old or wholly new."""

import os

import pytest

from podium._files import open_bytes, plain_suffix, refuse_bad_target, write_whole


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
