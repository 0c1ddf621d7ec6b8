"""Files are wholly old or wholly new."""

import bz2
import gzip
import lzma
import os
import stat
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import numpy as np
import pytest

from podium._runtime.files import open_bytes, plain_suffix, refuse_bad_target, write_whole
from podium.data.ranking import RankingData
from podium.formats import write_data
from podium.formats.errors import FormatError
from podium.formats.letor import read_letor
from podium.formats.lines import line_blocks
from podium.formats.scores import write_scores
from podium.formats.trec import Run, write_run

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


def test_compression_is_reported_by_content_not_by_name(tmp_path):
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


def test_a_full_disk_is_reported_with_the_final_name(tmp_path, monkeypatch):
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


def write(path, content=b"new") -> None:
    with write_whole(path) as stream:
        stream.write(content)


def fail_to_write(path, error=RuntimeError) -> None:
    with write_whole(path) as stream:
        stream.write(b"half")
        raise error


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("far", [True, False])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_symbolic_link_is_followed_and_stays(tmp_path, there, far, steps):
    (tmp_path / "other").mkdir()
    target = tmp_path / ("other" if far else ".") / "target.gz"
    if there:
        target.write_bytes(b"old")
        target.chmod(0o640)
    links = [tmp_path / f"link{step}.gz" for step in range(steps)]
    for link, to in zip(links, [*links[1:], os.path.relpath(target, tmp_path)]):
        link.symlink_to(to)
    with pytest.raises(RuntimeError):
        fail_to_write(links[0])
    assert target.exists() == there
    write(links[0])
    assert all(link.is_symlink() for link in links)
    assert not target.is_symlink()
    assert gzip.decompress(target.read_bytes()) == b"new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        ["other", "target.gz", *(one.name for one in links)]
    )


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "no folder").symlink_to("none/target")
    (tmp_path / "to a folder").symlink_to(tmp_path)
    for name, error in {"loop": OSError, "no folder": FileNotFoundError, "to a folder": IsADirectoryError}.items():
        with pytest.raises(error, match=name):
            write(tmp_path / name)
    assert (tmp_path / "loop").is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755, 0o440, 0o2755])
def test_the_mode_of_a_replaced_file_stays_and_new_ones_get_the_usual(tmp_path, umask, mode):
    path = tmp_path / "file"
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640  # 0666 without what the umask takes
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_nobody_can_read_a_private_file_while_it_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with write_whole(path) as stream:
        stream.write(b"new")
        (part,) = (one for one in tmp_path.iterdir() if one != path)
        assert stat.S_IMODE(part.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only the superuser gives files away")
def test_the_owner_of_a_replaced_file_stays(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 1234, 2345)
    path.chmod(0o640)
    write(path)
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 2345, 0o640)
    assert path.read_bytes() == b"new"


def test_a_file_whose_owner_cannot_be_kept_is_refused_before_and_while_writing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    real = os.fstat

    def of_another(handle):
        found = real(handle)
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fstat", of_another)
    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(PermissionError, match=r"file: belongs to user .*Choose another name, or delete it"):
        write(path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match=r"file: belongs to user"):
        refuse_bad_target(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_written_into_and_stays(tmp_path, suffix, linked):
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    name = pipe
    if linked:
        name = tmp_path / f"link{suffix}"
        name.symlink_to(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(name, b"ranking " * 1000)
    reader.join(10)
    copy = tmp_path / "copy"
    copy.write_bytes(found[0])
    with open_bytes(copy) as stream:
        assert stream.read() == b"ranking " * 1000
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == sorted({pipe.name, name.name, "copy"})


def test_a_device_is_written_into_and_stays():
    before = os.stat("/dev/null")
    write("/dev/null")
    assert os.path.samestat(before, os.stat("/dev/null"))
    with pytest.raises(OSError, match="No space left"):
        write("/dev/full", b"x" * 100_000)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/./stdout"])
@pytest.mark.parametrize("to_file", [True, False])
def test_standard_output_is_written_to_where_it_stands_and_never_replaced(tmp_path, name, to_file):
    code = (
        "from podium._runtime.files import write_whole, is_standard_output\n"
        f"print('before')\nwith write_whole({name!r}) as stream: stream.write(b'content\\n')\n"
        f"print('behind', is_standard_output({name!r}))"
    )
    wanted = b"kept\nbefore\ncontent\nbehind True\n"
    path = tmp_path / "out"
    path.write_bytes(b"kept\n")
    inode = path.stat().st_ino
    if to_file:
        with open(path, "ab") as stream:
            subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
        assert (path.read_bytes(), path.stat().st_ino) == (wanted, inode)
    else:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert b"kept\n" + done.stdout == wanted
    assert os.listdir(tmp_path) == ["out"]


def test_every_writer_writes_into_a_pipe_what_it_writes_to_a_file(tmp_path):
    data = RankingData.from_arrays(np.eye(3, dtype=np.float32), [0, 1, 2], qid=[1, 1, 2], docids=list("abc"))
    writers = {
        "d.txt": partial(write_data, data),
        "d.csv": partial(write_data, data),
        "d.parquet": partial(write_data, data),
        "d.podium-data": partial(write_data, data),
        "d.run": partial(write_run, Run.from_scores(data, np.arange(3.0))),
        "d.scores": partial(write_scores, np.arange(3.0)),
    }
    (tmp_path / "pipes").mkdir()
    for name, writer in writers.items():
        writer(tmp_path / name)
        os.mkfifo(tmp_path / "pipes" / name)
        with ThreadPoolExecutor(1) as reader:
            found = reader.submit((tmp_path / "pipes" / name).read_bytes)
            writer(tmp_path / "pipes" / name)
            assert found.result(10) == (tmp_path / name).read_bytes(), name
    with pytest.raises(ValueError, match="LightGBM's layout is several files"):
        write_data(data, tmp_path / "pipes" / "d.txt", format="lightgbm")
