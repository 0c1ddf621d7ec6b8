"""The container: equal content gives equal bytes, arrays come back bit for bit, and headers that lie are refused."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.formats import container
from podium.formats.cache import read_cache
from podium.formats.container import open_container, write_container
from podium.formats.errors import FormatError
from podium.formats.kinds import DATA, MODEL

DTYPES = [dtype.removeprefix("<") for dtype in container._DTYPES]
META = {"rate": 0.1, "names": ["a", "é"], "deep": {"none": None, "yes": True, "big": 2**70, "tiny": 5e-324}}


def arrays() -> dict[str, np.ndarray]:
    return {"value": np.arange(6.0).reshape(2, 3), "left": np.arange(5, dtype=np.uint32), "none": np.empty((0, 4))}


def read(path, kind=MODEL):
    with open_container(path, kind) as opened:
        return opened.meta, opened.read_all()


def assert_same(left, right) -> None:
    assert list(left) == list(right)
    for name in left:
        assert left[name].dtype == right[name].dtype
        assert left[name].shape == right[name].shape
        assert left[name].tobytes() == right[name].tobytes()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def small_arrays(draw):
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    content = draw(st.binary(min_size=size, max_size=size))
    if dtype.kind == "b":
        content = bytes(byte & 1 for byte in content)
    return np.frombuffer(content, dtype).reshape(shape)


names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.text(max_size=4), json_values, max_size=4),
    st.dictionaries(names, small_arrays(), max_size=4),
    st.sampled_from([DATA, MODEL]),
)
def test_facts_and_arrays_come_back_bit_for_bit(tmp_path_factory, meta, content, kind):
    path = tmp_path_factory.getbasetemp() / "container"
    write_container(path, kind, meta, content)
    found_meta, found = read(path, kind)
    assert json.dumps(found_meta, sort_keys=True) == json.dumps(meta, sort_keys=True)  # -0.0 and 1.0 too
    assert_same(content, found)
    with open_container(path, kind) as opened:
        assert_same(content, {name: opened.map(name).verified() for name in content})
    assert path.stat().st_size % 64 == 0


def test_equal_content_gives_equal_bytes(tmp_path):
    write_container(tmp_path / "one", MODEL, {"a": 1, "b": [2.5]}, arrays())
    changed = {name: np.asarray(array, array.dtype.newbyteorder(">"), order="F") for name, array in arrays().items()}
    write_container(tmp_path / "two", MODEL, {"b": [2.5], "a": 1}, changed)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_arrays_are_read_only_in_both_ways(tmp_path):
    write_container(tmp_path / "x", MODEL, {}, arrays())
    with open_container(tmp_path / "x", MODEL) as opened:
        for name in arrays():
            assert not opened.read(name).flags.writeable
            assert not opened.map(name).verified().flags.writeable


def test_truth_values_from_memory_that_was_never_set_are_stored_as_truth_values(tmp_path):
    odd = np.frombuffer(b"\0\1\2\xff", dtype=bool)
    write_container(tmp_path / "x", MODEL, {}, {"odd": odd})
    assert read(tmp_path / "x")[1]["odd"].tobytes() == b"\0\1\1\1"


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a"], dtype=object),
        np.array(["a"]),
        np.array([b"a"]),
        np.zeros(1, complex),
        np.zeros(1, np.longdouble),
        np.zeros(1, "M8[s]"),
        np.zeros(1, [("a", "f4")]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_only_arrays_of_numbers_are_stored(tmp_path, array):
    with pytest.raises(ValueError, match=r"x: array z has dtype .*; only numbers and bool are stored"):
        write_container(tmp_path / "x", MODEL, {}, {"z": array})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "meta",
    [
        {"a": float("nan")},
        {"a": [float("inf")]},
        {"a": (1, 2)},
        {1: "a"},
        {"a": {None: 1}},
        {"a": np.float32(1)},
        {"a": np.arange(3)},
        {"a": {1, 2}},
        {"a": b"bytes"},
        {"a": "\ud800" + "\udc00"},
        {"a": 10**5000},
    ],
)
def test_facts_that_json_would_change_are_refused(tmp_path, meta):
    with pytest.raises(ValueError, match="x: meta must be plain JSON without NaN and infinity"):
        write_container(tmp_path / "x", MODEL, meta, {})
    assert not list(tmp_path.iterdir())


def test_facts_that_hold_themselves_are_refused(tmp_path):
    meta: dict = {}
    meta["self"] = meta
    with pytest.raises(ValueError, match="meta must be plain JSON"):
        write_container(tmp_path / "x", MODEL, meta, {})


@pytest.mark.parametrize("name", ["", "é", "a\n", "a" * 201, 3])
def test_names_of_arrays_are_short_and_plain(tmp_path, name):
    with pytest.raises(ValueError, match="the name of an array must be 1 to 200 ASCII characters"):
        write_container(tmp_path / "x", MODEL, {}, {name: np.zeros(1)})


def test_what_could_not_be_read_is_not_written(tmp_path):
    path, one = tmp_path / "x", np.zeros(1, np.int8)
    with pytest.raises(ValueError, match="at most 10000 arrays; this one has 10001"):
        write_container(path, MODEL, {}, {f"a{place}": one for place in range(10_001)})
    with pytest.raises(ValueError, match="at most 16777216 bytes of facts"):
        write_container(path, MODEL, {"a": "x" * (16 << 20)}, {})
    with pytest.raises(ValueError, match="x: array a has too large a shape"):
        write_container(path, MODEL, {}, {"a": np.empty((0, 2**30, 2**30), np.int8)})
    with pytest.raises(ValueError, match="a Podium model has at most 4096 bytes; this one has 8"):
        write_container(path, replace(MODEL, largest=4096), {}, {"a": np.zeros(1000)})
    assert not list(tmp_path.iterdir())


def test_each_kind_says_what_it_is_when_given_for_another(tmp_path):
    write_container(tmp_path / "m.podium-data", DATA, {}, arrays())
    with pytest.raises(FormatError, match=r"m\.podium-data: holds ranking data, not a model\. podium convert and"):
        read(tmp_path / "m.podium-data", MODEL)
    write_container(tmp_path / "m.podium", MODEL, {}, arrays())
    with pytest.raises(
        FormatError, match=r"m\.podium: holds a model, not ranking data\. podium rank uses it, podium\.load"
    ):
        read_cache(tmp_path / "m.podium")
    write_container(tmp_path / "m.other", replace(MODEL, mark=b"other"), {}, arrays())
    with pytest.raises(FormatError, match="is marked as b'other', a kind this version does not know"):
        read(tmp_path / "m.other")


def test_the_damaged_block_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "_BLOCK", 256)
    path = tmp_path / "m.podium"
    write_container(path, MODEL, {}, {"a": np.zeros(3), "value": np.zeros(200)})
    content = bytearray(path.read_bytes())
    content[-1600 + 256 * 3 + 5] ^= 4
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"m\.podium: the file is damaged \(block 4 of value does not match"):
        read(path)


def header_of(content: bytes) -> bytes:
    return content[64 : 64 + container._PREAMBLE.unpack_from(content)[3]]


def resealed(content: bytes, header: bytes, kind=MODEL) -> bytes:
    """The file with another header and a digest that fits it, as somebody with bad intentions would write it."""
    rest = content[64 + len(header_of(content)) :]
    header = header.ljust(container._padded(len(header)))
    return container._preamble(kind, header, 64 + len(header) + len(rest)) + header + rest


def test_two_damages_that_hide_from_the_checksums_are_found_by_the_digest(tmp_path):
    path = tmp_path / "x"
    write_container(path, MODEL, {}, {"a": np.zeros(8), "b": np.ones(8)})
    header = json.loads(header_of(path.read_bytes()))
    one, other = header["arrays"]
    one["checksums"], other["checksums"] = other["checksums"], one["checksums"]
    content = bytearray(resealed(path.read_bytes(), json.dumps(header).encode()))
    content[-128:-64], content[-64:] = content[-64:], content[-128:-64]
    path.write_bytes(content)
    with pytest.raises(FormatError, match="the arrays do not match their digest"):
        read(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["arrays"][0].update(shape=[2**60]),
        lambda header: header["arrays"][0].update(shape=[2**40, 2**40]),
        lambda header: header["arrays"][0].update(shape=[-2, -3]),
        lambda header: header["arrays"][0].update(shape=[2.0, 3.0]),
        lambda header: header["arrays"][0].update(shape=[True, 6]),
        lambda header: header["arrays"][0].update(shape=[1] * 9),
        lambda header: header["arrays"][0].update(shape=None),
        lambda header: header["arrays"][0].update(shape={"0": 6}),
        lambda header: header["arrays"][0].update(dtype="|O"),
        lambda header: header["arrays"][0].update(dtype=">f8"),
        lambda header: header["arrays"][0].update(dtype=["<f8"]),
        lambda header: header["arrays"][0].update(dtype="<M8[s]"),
        lambda header: header["arrays"][0].update(offset=64),
        lambda header: header["arrays"][0].update(checksums=[]),
        lambda header: header["arrays"][0].update(checksums=[0]),
        lambda header: header["arrays"][0].update(checksums=None),
        lambda header: header["arrays"][0].update(name=["value"]),
        lambda header: header["arrays"][0].update(name=""),
        lambda header: header["arrays"][0].update(name="left"),
        lambda header: header["arrays"][2].update(shape=[0, 2**40, 2**40]),
        lambda header: header["arrays"].pop(0),
        lambda header: header["arrays"].append(None),
        lambda header: header["arrays"].extend([header["arrays"][2]] * 10_000),
        lambda header: header.update(arrays="value"),
        lambda header: header.update(meta=[]),
        lambda header: header.update(meta=float("nan")),
        lambda header: header.update(digest=None),
        lambda header: header.pop("digest"),
        lambda header: header.pop("meta"),
    ],
)
def test_a_header_that_lies_is_refused_without_asking_for_memory(tmp_path, change):
    path = tmp_path / "x"
    write_container(path, MODEL, {}, arrays())
    content = path.read_bytes()
    header = json.loads(header_of(content))
    change(header)
    path.write_bytes(resealed(content, json.dumps(header).encode()))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="x: the file is damaged"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [b"[" * 100_000, b"\xff", b"{", b"3", b"null", b'"meta"', b'{"meta":{"a":1e999},"digest":"","arrays":[]}'],
    ids=lambda header: ascii(header[:12]),
)
def test_a_header_that_is_no_plain_json_is_refused(tmp_path, header):
    path = tmp_path / "x"
    write_container(path, MODEL, {}, {})
    path.write_bytes(resealed(path.read_bytes(), header))
    with pytest.raises(FormatError, match="the header is not understood"):
        read(path)


def test_truth_values_that_are_none_are_refused(tmp_path):
    path = tmp_path / "x"
    write_container(path, MODEL, {}, {"a": np.array([0, 1, 2], np.uint8)})
    path.write_bytes(resealed(path.read_bytes(), header_of(path.read_bytes()).replace(b"<u1", b"<b1")))
    with pytest.raises(FormatError, match="a has truth values other than 0 and 1"):
        read(path)
