"""The cache file: opens lazily, says when it is damaged, and equal data gives equal bytes."""

import copy
import hashlib
import json
import os
import pickle
import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
from mutations import append, cut, delete, flip, huge_number, overwrite, splice, swap_blocks

from podium.data.ranking import RankingData
from podium.data.texts import Texts
from podium.formats import container
from podium.formats.cache import read_cache, write_cache
from podium.formats.errors import FormatError
from podium.formats.kinds import DATA


def sample(qid=("q1", "q2", "q1", "q3"), **more) -> RankingData:
    features = np.array([[1, np.nan, -0.0], [1e-45, 3.4e38, 0.1], [5, 6, 7], [0, 0, 9]], dtype=np.float32)
    options = {
        "docids": ["d1", "", "é", "d 4"],
        "feature_names": ["bm25", "länge", "x"],
        "sample_weight": [1, 2, 0.5, 4],
        "query_weight": [1, 0.25, 3],
    }
    return RankingData.from_arrays(features, [0, 1.5, 2, 3], qid=list(qid), **options | more)


def bare(n: int = 4, width: int = 3) -> RankingData:
    return RankingData.from_arrays(np.arange(n * width).reshape(n, width), np.ones(n), qid=np.arange(n) // 2)


def arrays_of(data: RankingData) -> dict:
    names = ("X", "y", "offsets", "query_ids", "rows", "sample_weight", "query_weight")
    found = {name: getattr(data, name) for name in names}
    texts = {"docids": data.docid_texts, "comments": data.comment_texts, "names": data.feature_names}
    return found | {name: None if value is None else list(value) for name, value in texts.items()}


def assert_same(left: RankingData, right: RankingData) -> None:
    for name, one in arrays_of(left).items():
        other = arrays_of(right)[name]
        if isinstance(one, np.ndarray) and one.dtype != object:
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert one.tobytes() == other.tobytes(), name
        else:
            assert (one is None) == (other is None)
            assert one is None or list(one) == list(other)


@pytest.mark.parametrize(
    "data",
    [
        sample(),
        sample(qid=[2**64 - 1, 2**64 - 2, 2**64 - 1, 0]),
        sample(qid=[-5, 2**53 + 1, 2**53, -5]),
        bare(),
        bare().subset([1]),
        RankingData.from_arrays(np.empty((0, 3)), [], qid=[]),
        RankingData.from_arrays(np.empty((2, 0)), [1, 2], qid=[1, 1]),
    ],
    ids=["text ids", "unsigned ids", "signed ids", "bare", "subset", "no rows", "no features"],
)
def test_everything_comes_back_bit_for_bit(tmp_path, data):
    write_cache(data, tmp_path / "x.podium-data")
    for verify in (False, True):
        assert_same(data, read_cache(tmp_path / "x.podium-data", verify=verify))


def test_comments_come_back(tmp_path):
    data = replace(bare(), comment_texts=Texts.of(["a", "", "docid = 3", "ü"]))
    write_cache(data, tmp_path / "x")
    assert_same(data, read_cache(tmp_path / "x"))


def test_the_cache_knows_every_field_of_ranking_data():
    names = {"X", "y", "offsets", "query_ids", "rows", "docid_texts", "comment_texts", "feature_names"}
    names |= {"sample_weight", "query_weight", "categories", "init_score"}
    assert {field.name for field in fields(RankingData)} == names


def test_equal_data_gives_equal_bytes(tmp_path):
    write_cache(sample(), tmp_path / "one")
    write_cache(read_cache(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_bytes_of_format_1_stay_as_they_are(tmp_path):
    write_cache(sample(), tmp_path / "x")
    digest = hashlib.sha256((tmp_path / "x").read_bytes()).hexdigest()
    assert digest == "8e9f2a7cc32e4eecf8cd4e24886048c5f73b3bfb0548d8f7cfbfdc8b6f4c9525"


def test_arrays_lie_at_multiples_of_64_bytes(tmp_path):
    write_cache(sample(), tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    assert len(content) % 64 == 0
    assert read_cache(tmp_path / "x").X.ctypes.data % 64 == 0


def test_arrays_are_read_only_and_the_features_are_mapped(tmp_path):
    write_cache(sample(), tmp_path / "x")
    data = read_cache(tmp_path / "x")
    assert not any(array.flags.writeable for array in arrays_of(data).values() if isinstance(array, np.ndarray))
    assert type(data.X) is np.ndarray
    assert not data.X.flags.owndata
    assert data.X is data.X


def test_features_are_checked_when_first_used_and_the_rest_works_without(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "_BLOCK", 256)
    path = tmp_path / "x.podium-data"
    write_cache(bare(200, 10), path)
    content = bytearray(path.read_bytes())
    content[-64 - 200 * 10 * 4 + 600] ^= 1
    path.write_bytes(content)
    data = read_cache(path)
    assert repr(data) == "RankingData(200 rows, 100 queries, 10 features)"
    assert data.y.sum() == 200
    for _ in range(2):
        with pytest.raises(FormatError, match=r"x\.podium-data: the file is damaged \(block \d+ of X does not match"):
            data.X  # noqa: B018
    with pytest.raises(FormatError, match="Write it again with podium convert"):
        read_cache(path, verify=True)


def test_mapped_data_can_be_cut_copied_and_sent_to_other_processes(tmp_path):
    write_cache(sample(), tmp_path / "x")
    data = read_cache(tmp_path / "x")
    again = pickle.loads(pickle.dumps(data))
    assert type(again) is RankingData
    assert_same(sample(), again)
    assert_same(sample(), copy.copy(read_cache(tmp_path / "x")))
    assert_same(sample().subset([2, 0]), data.subset([2, 0]))
    assert data.subset([2]).n_features == 3
    assert_same(sample(), RankingData.concat([data]))


def test_the_open_file_may_be_replaced(tmp_path):
    path = tmp_path / "x"
    write_cache(sample(), path)
    data = read_cache(path)
    write_cache(bare(), path)
    assert_same(sample(), data)


def test_many_blocks_are_checked_on_several_threads_and_the_first_bad_one_is_named(tmp_path):
    data = bare(80_000, 100)
    write_cache(data, tmp_path / "x")
    content = bytearray((tmp_path / "x").read_bytes())
    assert_same(data, read_cache(tmp_path / "x", verify=True))
    start = len(content) - data.X.nbytes
    for place in (start + 2 * (4 << 20), len(content) - 1):
        content[place] ^= 16
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match="block 3 of X does not match its checksum"):
        read_cache(tmp_path / "x", verify=True)


def test_writing_needs_no_second_copy_of_the_features(tmp_path):
    data = bare(100_000, 100)
    tracemalloc.start()
    write_cache(data, tmp_path / "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < data.X.nbytes / 3


MUTATIONS = (flip, overwrite, huge_number, cut, delete, splice, append, swap_blocks)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_no_damage_goes_unnoticed(tmp_path, monkeypatch, mutate):
    monkeypatch.setattr(container, "_BLOCK", 256)
    path, rng = tmp_path / "x", np.random.default_rng(7)
    data = RankingData.from_arrays(
        rng.normal(size=(40, 10)), rng.integers(0, 5, 40), qid=np.arange(40) % 7, docids=map(str, range(40))
    )
    write_cache(data, path)
    good = path.read_bytes()
    for _ in range(400):
        content = bytearray(good)
        mutate(content, rng)
        if content == good:
            continue
        path.write_bytes(content)
        with pytest.raises(FormatError):
            read_cache(path, verify=True)


def test_a_file_cut_at_any_place_is_refused(tmp_path):
    path = tmp_path / "x"
    write_cache(sample(), path)
    good = path.read_bytes()
    for length in {*range(0, len(good), 64), *range(80), len(good) - 1}:
        path.write_bytes(good[:length])
        with pytest.raises(FormatError):
            read_cache(path)


def resealed(content: bytes, header: bytes) -> bytes:
    """The file with another header and a digest that fits it, as somebody with bad intentions would write it."""
    old = container._PREAMBLE.unpack_from(content)[3]
    header = header.ljust(container._padded(len(header)))
    rest = content[64 + old :]
    return container._preamble(DATA, header, 64 + len(header) + len(rest)) + header + rest


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["arrays"][0].update(shape=[2**60]),
        lambda header: header["arrays"][0].update(shape=[-4]),
        lambda header: header["arrays"][0].update(shape=[4.0]),
        lambda header: header["arrays"][0].update(shape=[True]),
        lambda header: header["arrays"][0].update(shape="4"),
        lambda header: header["arrays"][0].update(dtype="O"),
        lambda header: header["arrays"][0].update(dtype="<f4"),
        lambda header: header["arrays"][0].update(offset=64),
        lambda header: header["arrays"][0].update(checksums=[]),
        lambda header: header["arrays"][0].update(checksums=[0]),
        lambda header: header["arrays"][0].update(name="z"),
        lambda header: header["arrays"][0].update(name=["y"]),
        lambda header: header["arrays"][-1].update(shape=[3, 4]),
        lambda header: header["arrays"][-1].update(shape=[0, 2**47]),
        lambda header: header["arrays"][-1].update(shape=[2**47, 0]),
        lambda header: header["arrays"].pop(),
        lambda header: header["arrays"].pop(0),
        lambda header: header["arrays"].append(header["arrays"][0]),
        lambda header: header["arrays"].append({}),
        lambda header: header["arrays"].append(None),
        lambda header: header.update(arrays=None),
        lambda header: header.update(arrays=[]),
        lambda header: header.clear(),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, change):
    path = tmp_path / "x"
    write_cache(sample(), path)
    content = path.read_bytes()
    header = json.loads(content[64 : 64 + container._PREAMBLE.unpack_from(content)[3]])
    change(header)
    path.write_bytes(resealed(content, json.dumps(header).encode()))
    with pytest.raises(FormatError):
        read_cache(path, verify=True)


@pytest.mark.parametrize("header", [b"[" * 100_000, b"\xff", b"{", b"3", b"null", b'{"arrays": ' + b"9" * 5000 + b"}"])
def test_a_header_that_is_no_json_is_refused(tmp_path, header):
    path = tmp_path / "x"
    write_cache(sample(), path)
    path.write_bytes(resealed(path.read_bytes(), header))
    with pytest.raises(FormatError, match="the file is damaged"):
        read_cache(path)


class Lie:
    """Ranking data that was never checked."""

    def __init__(self, **changes) -> None:
        vars(self).update(vars(sample()) | {"n_rows": 4, "is_contiguous": False} | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": np.array([0, 9, 3, 4])}, "offsets must rise from 0 to 4"),
        ({"offsets": np.array([0, 2, 3])}, "offsets must rise"),
        ({"y": np.array([1, 2, np.nan, 0])}, r"y\[2\] is nan"),
        ({"y": np.ones(3)}, "y has 3 entries"),
        ({"query_ids": np.array([1, 1, 2])}, "3 query ids, all different"),
        ({"query_ids": np.array([1, 2])}, "3 query ids"),
        ({"rows": np.array([0, 1, 2, -3])}, "grouping must have each of 4 rows once"),
        ({"rows": np.array([0, 2, 1, 4])}, "grouping must have each of 4 rows once"),
        ({"rows": np.array([0, 2, 1])}, "grouping must have each of 4 rows once"),
        ({"rows": np.array([2, 0, 1, 3])}, "rising within each query"),
        ({"feature_names": ("a", "a", "b")}, "names must differ"),
        ({"feature_names": ("a",)}, "feature_names has 1 entries instead of 3"),
        ({"sample_weight": np.array([1.0, 1.0, np.inf, 1.0])}, "weights must be finite"),
        ({"query_weight": np.ones(9)}, "query_weight has 9 entries"),
        ({"X": np.array([[np.inf] * 3] * 4, dtype=np.float32)}, "X holds an infinite value"),
    ],
)
def test_arrays_that_are_no_ranking_data_are_refused_although_the_checksums_fit(tmp_path, changes, message):
    write_cache(Lie(**changes), tmp_path / "x")
    with pytest.raises(FormatError, match=message):
        read_cache(tmp_path / "x", verify=True)


def test_texts_that_end_before_they_begin_are_refused(tmp_path):
    texts = Texts(np.frombuffer(b"abcd", np.uint8), np.array([0, 3, 1, 4, 4]))
    write_cache(Lie(docid_texts=texts), tmp_path / "x")
    with pytest.raises(FormatError, match="docids must rise"):
        read_cache(tmp_path / "x")


def test_a_newer_format_is_named(tmp_path):
    path = tmp_path / "x.podium-data"
    write_cache(sample(), path)
    content = bytearray(path.read_bytes())
    content[16] = 7
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"x\.podium-data: uses format 7; this version reads 1"):
        read_cache(path)


def test_foreign_files_are_refused_by_their_first_bytes(tmp_path):
    path = tmp_path / "x"
    with open(path, "wb") as stream:
        stream.truncate(10 << 30)  # 10 GB of nothing, on a disk that stores holes
    with pytest.raises(FormatError, match="is no Podium data cache"):
        read_cache(path)
    for content in (b"", b"PK\3\4 zip", pickle.dumps([1, 2, 3]), b"\x93NUMPY\1\0", b"\x1f\x8b\x08"):
        path.write_bytes(content)
        with pytest.raises(FormatError, match="is no Podium data cache"):
            read_cache(path)


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero", tmp_path / "missing"):
        with pytest.raises(OSError, match=os.path.basename(path)):
            read_cache(path)


def test_a_compressed_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot be compressed"):
        write_cache(sample(), tmp_path / "x.podium-data.gz")
    assert not list(tmp_path.iterdir())
