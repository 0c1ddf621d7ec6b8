"""Models on disk: what is loaded is what was saved, or an error that names the file."""

import hashlib
import json
import os
import pickle
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import (
    cut,
    delete,
    duplicate,
    flip,
    flip_at_the_front,
    flip_in_the_padding,
    huge_number,
    overwrite,
    splice,
    swap_blocks,
)

from podium.formats import container
from podium.formats.errors import FormatError
from podium.formats.kinds import DATA, MODEL
from podium.persistence.storage import load_parts, save_parts

META = {"learning_rate": 0.1, "metric": "ndcg@10", "features": ["bm25", "länge"], "start": -1.5e-300, "trees": 3}


def parts() -> dict[str, np.ndarray]:
    return {
        "threshold": np.arange(21, dtype=np.float32).reshape(3, 7) / 8,
        "value": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
        "left": np.arange(9, dtype=np.uint32),
        "missing_right": np.array([True, False, True]),
        "empty": np.empty((0, 4), np.int64),
        "one": np.array(7, np.int16),
    }


def same(left, right) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )


@pytest.fixture
def saved(tmp_path):
    save_parts(tmp_path / "m.podium", "LambdaMART", META, parts())
    return tmp_path / "m.podium"


def test_parts_come_back_exactly_and_read_only(saved):
    kind, meta, arrays = load_parts(saved)
    assert (kind, meta) == ("LambdaMART", META)
    assert same(arrays, parts())
    assert list(arrays) == sorted(arrays)
    assert not any(array.flags.writeable for array in arrays.values())


def test_a_model_without_facts_and_arrays_comes_back(tmp_path):
    save_parts(str(tmp_path / "m.podium"), "Constant", {}, {})
    assert load_parts(str(tmp_path / "m.podium")) == ("Constant", {}, {})


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
dtypes = st.sampled_from(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])


@settings(max_examples=100, deadline=None)
@given(
    st.text(min_size=1, max_size=10),
    st.dictionaries(st.text(max_size=5), numbers | st.text(max_size=5) | st.lists(numbers, max_size=4), max_size=4),
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(dtypes, st.lists(st.integers(0, 5), max_size=3)), max_size=6),
    st.integers(0, 2**32),
)
def test_any_parts_come_back(tmp_path_factory, kind, meta, shapes, seed):
    path, rng = tmp_path_factory.getbasetemp() / "any.podium", np.random.default_rng(seed)
    arrays = {name: rng.integers(0, 100, shape).astype(dtype) for name, (dtype, shape) in shapes.items()}
    save_parts(path, kind, meta, arrays)
    found_kind, found_meta, found = load_parts(path)
    assert found_kind == kind
    assert json.dumps(found_meta, sort_keys=True) == json.dumps(meta, sort_keys=True)
    assert same(found, arrays)


def test_equal_parts_give_equal_bytes_in_any_order(saved):
    backwards = {name: parts()[name] for name in reversed(parts())}
    other = saved.with_name("other.podium")
    save_parts(other, "LambdaMART", dict(reversed(META.items())), backwards)
    assert saved.read_bytes() == other.read_bytes()


def test_the_bytes_of_format_1_stay_as_they_are(saved):
    digest = hashlib.sha256(saved.read_bytes()).hexdigest()
    assert digest == "6a17b3c01318afab060f7bb6e1dabdeff41dd8af79970c4870a2f1c0741e4325"


MUTATIONS = (
    flip,
    flip_at_the_front,
    flip_in_the_padding,
    overwrite,
    huge_number,
    cut,
    delete,
    duplicate,
    splice,
    swap_blocks,
)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_no_damage_goes_unnoticed(saved, mutate):
    good, rng = saved.read_bytes(), np.random.default_rng(11)
    for _ in range(1_000):
        content = bytearray(good)
        mutate(content, rng)
        if content == good:
            continue
        saved.write_bytes(content)
        with pytest.raises(FormatError, match=r"m\.podium: "):
            load_parts(saved)


def test_a_flipped_bit_in_any_byte_is_found(saved):
    good = saved.read_bytes()
    for place in range(len(good)):
        content = bytearray(good)
        content[place] ^= 1 << place % 8
        saved.write_bytes(content)
        with pytest.raises(FormatError, match=r"m\.podium: "):
            load_parts(saved)


def test_a_file_cut_at_any_place_is_refused(saved):
    good = saved.read_bytes()
    for length in range(len(good)):
        saved.write_bytes(good[:length])
        with pytest.raises(FormatError, match=r"m\.podium: (the file is damaged|is no Podium model; it is empty)"):
            load_parts(saved)


def header_of(content: bytes) -> bytes:
    return content[64 : 64 + container._PREAMBLE.unpack_from(content)[3]]


def resealed(content: bytes, header: bytes) -> bytes:
    """The file with another header and a digest that fits it, as somebody with bad intentions would write it."""
    rest = content[64 + len(header_of(content)) :]
    header = header.ljust(container._padded(len(header)))
    return container._preamble(MODEL, header, 64 + len(header) + len(rest)) + header + rest


def numbers_in(value, path=()):
    """The place of every number in the header's list of arrays."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(inner, int):
            yield (*path, key)
        yield from numbers_in(inner, (*path, key))


HUGE = (-1, 2**31, 2**32, 2**40, 2**47, 2**48, 2**63, 2**64, 10**30, 1e300, True, None, "9", [], {})


def test_a_huge_count_with_a_digest_that_fits_is_refused_without_asking_for_memory(saved):
    good = saved.read_bytes()
    places = list(numbers_in(json.loads(header_of(good))["arrays"]))
    tracemalloc.start()
    for *path, last in places:
        for huge in HUGE:
            header = json.loads(header_of(good))
            target = header["arrays"]
            for key in path:
                target = target[key]
            target[last] = huge
            saved.write_bytes(resealed(good, json.dumps(header).encode()))
            try:
                arrays = load_parts(saved)[2]  # (0, 2**40) is a shape that fits: there is nothing in it
                assert sum(array.nbytes for array in arrays.values()) <= len(good)
            except FormatError:
                pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


def test_any_header_with_a_digest_that_fits_is_understood_or_refused(saved):
    good, rng = saved.read_bytes(), np.random.default_rng(13)
    tokens = [
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b'"',
        b"null",
        b"1e999",
        b"NaN",
        b"-",
        b"0",
        b"99999999999",
        b"\xff",
        b"\\u",
    ]
    for _ in range(2_000):
        header = bytearray(header_of(good))
        place, length = int(rng.integers(len(header))), int(rng.integers(0, 6))
        header[place : place + length] = tokens[rng.integers(len(tokens))]
        saved.write_bytes(resealed(good, bytes(header)))
        try:
            _, meta, arrays = load_parts(saved)
        except FormatError:
            continue
        assert isinstance(meta, dict)
        assert sum(array.nbytes for array in arrays.values()) <= len(good)


def test_a_header_that_does_not_say_which_model_is_refused(saved):
    good = saved.read_bytes()
    for meta in ({}, {"kind": "", "meta": {}}, {"kind": 3, "meta": {}}, {"kind": "MART"}, {"kind": "MART", "meta": 1}):
        header = json.loads(header_of(good)) | {"meta": meta}
        saved.write_bytes(resealed(good, json.dumps(header).encode()))
        with pytest.raises(FormatError, match=r"m\.podium: does not say which model it holds"):
            load_parts(saved)


def test_foreign_files_are_refused_by_what_they_begin_with(tmp_path):
    path = tmp_path / "m.podium"
    for content, found in (
        (pickle.dumps({"a": np.zeros(3)}), r"begins with b'\\x80"),
        (b"tree\nversion=v4\n", r"begins with b'tree\\nver'"),
        (b"\x1f\x8b\x08", r"begins with b'\\x1f\\x8b"),
        (b"\x93NUMPY\1\0", r"begins with b'\\x93NUMPY"),
        (b"\0" * 1000, "begins with"),
        (b"", "is empty"),
    ):
        path.write_bytes(content)
        with pytest.raises(
            FormatError, match=rf"m\.podium: is no Podium model; it {found}.*Make one with podium train or model\.save"
        ):
            load_parts(path)


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.podium", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * (8 << 20))
    with pytest.raises(FormatError, match="is no Podium model; it begins with b'PK"):
        load_parts(tmp_path / "m.podium")


def test_a_pickle_behind_our_front_is_not_run(saved):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(saved.parent / "exploded"),)

    saved.write_bytes(resealed(saved.read_bytes(), pickle.dumps(Bomb())))
    with pytest.raises(FormatError, match="the header is not understood"):
        load_parts(saved)
    assert os.listdir(saved.parent) == ["m.podium"]


def test_a_newer_format_is_named(saved):
    content = bytearray(saved.read_bytes())
    content[16] = 7
    saved.write_bytes(content)
    with pytest.raises(FormatError, match=r"m\.podium: uses format 7; this version reads 1\. Load it with a newer"):
        load_parts(saved)


def test_ranking_data_is_no_model(tmp_path):
    container.write_container(tmp_path / "m.podium-data", DATA, {}, parts())
    with pytest.raises(FormatError, match=r"m\.podium-data: holds ranking data, not a model"):
        load_parts(tmp_path / "m.podium-data")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero", tmp_path / "missing"):
        with pytest.raises(OSError, match=os.path.basename(path)):
            load_parts(path)


@pytest.mark.parametrize("front", [b"", container._PREAMBLE.pack(b"\x93PODIUM\n", b"model", 1, 64, 10 << 30)])
def test_ten_gigabytes_of_nothing_are_refused_at_once(tmp_path, front):
    with open(tmp_path / "m.podium", "wb") as stream:
        stream.write(front)
        stream.truncate(10 << 30)  # holes: the disk stores nothing
    started = time.monotonic()
    message = "has 10737418240 bytes; a Podium model has at most 8589934592" if front else "it begins with"
    with pytest.raises(FormatError, match=rf"m\.podium: .*{message}"):
        load_parts(tmp_path / "m.podium")
    assert time.monotonic() - started < 1


def test_a_symbolic_link_to_a_model_is_a_model(saved):
    link = saved.with_name("link.podium")
    link.symlink_to(saved)
    assert load_parts(link)[0] == "LambdaMART"


def test_a_failed_write_leaves_the_old_model(saved, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*m\.podium"):
        save_parts(saved, "MART", {}, {"value": np.zeros(1000)})
    assert load_parts(saved)[0] == "LambdaMART"
    assert os.listdir(saved.parent) == ["m.podium"]


def test_what_cannot_be_saved_is_refused_and_changes_nothing(saved):
    before = saved.read_bytes()
    for kind, meta, arrays, message in (
        ("", {}, {}, "the kind of a model must be its name"),
        (None, {}, {}, "the kind of a model must be its name; got None"),
        ("MART", [], {}, "meta must be a dict; got list"),
        ("MART", {"a": np.nan}, {}, "meta must be plain JSON"),
        ("MART", {}, {"a": [object()]}, "array a has dtype object"),
        ("MART", {}, {3: np.zeros(1)}, "the name of an array"),
    ):
        with pytest.raises(ValueError, match=rf"m\.podium: {message}"):
            save_parts(saved, kind, meta, arrays)
    assert saved.read_bytes() == before
    with pytest.raises(ValueError, match="cannot be compressed; drop the suffix"):
        save_parts(saved.with_name("m.podium.gz"), "MART", {}, {})
