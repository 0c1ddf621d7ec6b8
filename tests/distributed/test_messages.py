"""Messages between ranks: what is sent arrives, and nothing else is believed."""

import numpy as np
import pytest

pytest.importorskip("distributed")

from podium.distributed.messages import DTYPES, Expected, MessageError, decode, encode, is_beat

SMALL = np.arange(6, dtype=np.int64).reshape(2, 3)


def sent(*arrays):
    return encode(3, 8, arrays)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (5,), (3, 2), (40_000,), (0, 4)])
def test_arrays_arrive_as_they_were_sent(dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    (arrived,) = decode(sent(array), 3, 8, [Expected.like(array)])
    np.testing.assert_array_equal(arrived, array)
    assert arrived.dtype == array.dtype


def changed(**parts):
    return sent(SMALL) | parts


@pytest.mark.parametrize(
    "message",
    [
        None,
        b"bytes",
        [SMALL],
        {},
        changed(generation=2),
        changed(generation="3"),
        changed(number=7),
        changed(number=True),
        changed(arrays=[]),
        changed(arrays="<i8"),
        changed(arrays=[["<i8", [2, 3]]] * 100),
        changed(arrays=[["<i8", [3, 2]]]),
        changed(arrays=[["<i8", [-2, -3]]]),
        changed(arrays=[["<i8", [2, 3.0]]]),
        changed(arrays=[["<i8", [2, 1 << 60]]]),
        changed(arrays=[["<f8", [2, 3]]]),
        changed(arrays=[["|O", [2, 3]]]),
        changed(arrays=[["<i8"]]),
        changed(bytes=[]),
        changed(bytes=[b"short"]),
        changed(bytes=["text"]),
        changed(bytes=[None]),
        changed(more=1),
        {"beat": True},
    ],
)
def test_a_message_that_is_not_the_expected_one_is_refused(message):
    with pytest.raises(MessageError):
        decode(message, 3, 8, [Expected.like(SMALL)])


def test_lengths_may_be_left_open_one_by_one():
    expected = [Expected(SMALL.dtype, (None, 3))]
    assert decode(sent(SMALL), 3, 8, expected)[0].shape == (2, 3)
    with pytest.raises(MessageError, match="shape"):
        decode(sent(SMALL.T), 3, 8, expected)


def test_arrays_of_objects_are_not_sent():
    with pytest.raises(ValueError, match="object"):
        sent(np.array([None]))


def test_only_a_beat_is_a_beat():
    assert is_beat({"beat": True})
    assert not is_beat(sent(SMALL))
    assert not is_beat({"beat": 1})
