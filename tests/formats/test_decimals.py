"""Decimals: every text reads as Python reads it, every float32 writes as text that reads back."""

import math
import re
import struct
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import nearest_float32

from podium._runtime.compiler import kernel
from podium.formats import decimals
from podium.formats.decimals import NO_NUMBER, READ, UNDECIDED, U

REST = [" ", "\n", "\t", "\r\n", "#x", ":", "", "e", "9"]


def read(text: str, rest: str = "\n"):
    """(value, how many characters were read, how it ended)."""
    encoded = np.frombuffer((text + rest + "\n").encode() + bytes(decimals.PADDING), dtype=np.uint8).copy()
    with np.errstate(over="ignore"):
        value, end, state = decimals.read_decimal(encoded, U(0), decimals.power_table())
    return value, int(end), state


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


@kernel
def write_many(values, out, ends, powers):
    place = U(0)
    for i in range(len(values)):
        place = decimals.write_float32(out, place, values[i], powers)
        ends[i] = place


def texts_of(values) -> list[str]:
    values = np.asarray(values, dtype=np.float32)
    out, ends = np.empty(len(values) * decimals.LONGEST_FLOAT32, np.uint8), np.empty(len(values), np.int64)
    with np.errstate(over="ignore"):
        write_many(values, out, ends, decimals.power_table())
    starts = [0, *ends[:-1]]
    return [out[start:end].tobytes().decode() for start, end in zip(starts, ends)]


def assert_reads_as_python_does(text: str) -> None:
    value, length, state = read(text)
    assert length == len(text)
    assert state in (READ, UNDECIDED)
    if state == READ:
        assert bits(value) == bits(float(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("-0", -0.0),
        ("+12", 12.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("0.1", 0.1),
        ("22.240604", 22.240604),
        ("-26.871653", -26.871653),
        ("0001.50", 1.5),
        ("12345678", 12345678.0),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("1e5", 1e5),
        ("1E+5", 1e5),
        ("2.5e-3", 0.0025),
        ("1e23", 1e23),
        ("9007199254740993", 9007199254740992.0),  # 2**53 + 1, a tie: to even
        ("9007199254740995", 9007199254740996.0),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("1.7976931348623159e308", math.inf),
        ("1e400", math.inf),
        ("1e-400", 0.0),
        ("5e-324", 5e-324),
        ("2.2250738585072011e-308", 2.2250738585072011e-308),
        ("0e999999999999999999999", 0.0),
        ("1e-999999999999999999999", 0.0),
        ("0." + "0" * 400 + "1e401", 1.0),
        ("1" + "0" * 400 + "e-400", 1.0),
    ],
)
@pytest.mark.parametrize("rest", [" ", "\n", "#"])
def test_a_number_is_read_up_to_what_follows_it(text, value, rest):
    assert (bits(read(text, rest)[0]), *read(text, rest)[1:]) == (bits(value), len(text), READ)


@pytest.mark.parametrize(
    "text", ["", "-", "+", ".", "-.", "e5", "x", "1e", "1e+", "nan", "inf", "--1", "+-1", "-e1", " 1"]
)
def test_what_is_no_number_is_said_to_be_none(text):
    assert read(text)[2] == NO_NUMBER


@pytest.mark.parametrize("text", ["0,5", "0x10", "1_000", "1.2.3", "1:2", "1e5.5", "\u0661"])
def test_reading_stops_at_the_first_character_that_does_not_belong(text):
    value, length, state = read(text)
    number = re.match(r"(\d+\.?\d*(e\d+)?)?", text, re.ASCII)[0]
    assert (length, state) == (len(number), READ if number else NO_NUMBER)
    assert value == float(number or 0)


mantissas = st.builds(
    lambda digits, place: digits if place is None else f"{digits[:place]}.{digits[place:]}",
    st.text("0123456789", min_size=1, max_size=25),
    st.none() | st.integers(0, 25),
)
exponents = st.just("") | st.builds("{}{}".format, st.sampled_from(["e", "E", "e+", "e-"]), st.integers(0, 400))


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(["", "-", "+"]), mantissas, exponents)
def test_any_decimal_reads_as_python_reads_it(sign, mantissa, exponent):
    assert_reads_as_python_does(sign + mantissa + exponent)


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
@example(0.00017729554954364386)  # 20 digits behind the point, 17 of them count
def test_any_float64_is_read_from_its_shortest_text_and_from_17_and_25_digits(number):
    for text in (repr(number), f"{number:.16e}", f"{number:.17g}", f"{number:.24e}"):
        assert_reads_as_python_does(text)
    assert read(repr(number))[2] == READ


@settings(max_examples=200, deadline=None)
@given(st.floats(min_value=0, max_value=1e300, exclude_min=True), st.sampled_from(["", "1", "0001"]))
def test_the_middle_between_two_neighbours_is_right_or_left_to_python(number, more):
    with localcontext() as context:
        context.prec = 1200
        middle = (Decimal(number) + Decimal(math.nextafter(number, math.inf))) / 2
    text = str(middle).replace("E", "e")
    head, e, tail = text.partition("e")
    assert_reads_as_python_does(head + (more if "." in head else "") + e + tail)


@kernel
def read_many(text, ends, out, sure, powers):
    place = U(0)
    for i in range(len(ends)):
        mantissa, exponent, cut, _ = decimals.scan_decimal(text, place)
        row = decimals.power_row(exponent)
        power = powers[row, U(0)], powers[row, U(1)], powers[row, U(2)]
        out[i], sure[i] = decimals.nearest_float32(mantissa, exponent, cut, power)
        place = U(ends[i])


def read_float32(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel makes of texts without a sign, and where it is sure."""
    encoded = [f"{text}\n".encode() for text in texts]
    text = np.frombuffer(b"".join(encoded) + bytes(decimals.PADDING), dtype=np.uint8)
    out, sure = np.empty(len(texts), np.float32), np.empty(len(texts), np.bool)
    with np.errstate(over="ignore"):
        read_many(text, np.cumsum([len(one) for one in encoded]), out, sure, decimals.power_table())
    return out, sure


def around_a_middle(pattern: int, digits: int) -> list[str]:
    """Texts at, beside and near the middle between a float32 >= 0 and the next one, also cut to some digits."""
    low = Decimal(float(np.uint32(pattern).view(np.float32)))
    above = Decimal(2) ** 128 if pattern == 0x7F7FFFFF else Decimal(float(np.uint32(pattern + 1).view(np.float32)))
    with localcontext() as context:
        context.prec = 400
        middle = (low + above) / 2
        tiny = middle.scaleb(-60)
        texts = [str(middle), str(middle + tiny), str(middle - tiny), f"{middle:f}", f"{middle:.{digits}e}"]
        context.prec = digits
        texts += [str((+middle).next_minus()), str((+middle).next_plus())]
    return [text.replace("E", "e") for text in texts]


patterns = st.integers(0, 0x7F7FFFFF) | st.sampled_from(
    [
        0,
        1,
        2,
        0x007FFFFE,
        0x007FFFFF,
        0x00800000,
        0x3F7FFFFF,
        0x3F800000,
        0x4B000000,
        0x4B800001,
        0x7F7FFFFE,
        0x7F7FFFFF,
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(patterns, st.integers(9, 25)), min_size=1, max_size=20))
def test_a_text_near_the_middle_of_two_float32_is_rounded_once(drawn):
    texts = [text for pattern, digits in drawn for text in around_a_middle(pattern, digits)]
    wanted = np.array([nearest_float32(text) for text in texts], dtype=np.float32)
    found, sure = read_float32(texts)
    assert found[sure].tolist() == wanted[sure].tolist()
    assert decimals.round_texts(np.array([float(text) for text in texts]), texts).tolist() == wanted.tolist()
    negative = [f"-{text}".encode() for text in texts]
    assert decimals.round_texts(np.array([float(text) for text in negative]), negative).tolist() == (-wanted).tolist()


def test_rounding_twice_would_go_wrong_here():
    texts = [text for pattern in range(0x3F800000, 0x3F800040) for text in around_a_middle(pattern, 20)]
    wanted = [nearest_float32(text) for text in texts]
    twice = np.array([float(text) for text in texts]).astype(np.float32).tolist()
    assert 0.2 < np.mean([one != other for one, other in zip(twice, wanted)]) < 0.5
    assert decimals.round_texts(np.array([float(text) for text in texts]), texts).tolist() == wanted


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(mantissas, exponents), min_size=1, max_size=20))
def test_any_decimal_is_the_float32_nearest_to_it_where_the_kernel_is_sure(drawn):
    texts = [mantissa + exponent for mantissa, exponent in drawn]
    texts = [text for text in texts if re.match(r"\.?\d", text)]
    found, sure = read_float32(texts)
    wanted = np.array([nearest_float32(text) for text in texts], dtype=np.float32)
    assert found[sure].tolist() == wanted[sure].tolist()
    assert sure.mean() > 0.9 or len(texts) < 10


def test_integers_in_the_middle_are_read_without_python():
    texts = [f"{number}{decimals}" for number in range(2**24 - 9, 2**24 + 9) for decimals in ("", ".0", ".5", ".00001")]
    found, sure = read_float32(texts)
    assert sure.all()
    assert found.tolist() == [nearest_float32(text) for text in texts]


def test_a_float32_is_written_as_short_as_possible():
    values = [
        0,
        -0.0,
        1,
        -3,
        0.1,
        0.5,
        1e-4,
        1e-5,
        123456.7,
        16777216,
        1e15,
        1e16,
        3.4028235e38,
        1e-45,
        22.240604,
        1e10,
    ]
    wanted = (
        "0 -0 1 -3 0.1 0.5 0.0001 1e-5 123456.7 16777216 1000000000000000 1e16 3.4028235e38 1e-45 22.240604 10000000000"
    )
    assert texts_of(values) == wanted.split()
    assert texts_of([math.nan]) == ["nan"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200))
@example([1, 0x00800000, 0x007FFFFF, 0x7F7FFFFF, 0x80000000, 0x3F800000, 0x2B800000])
def test_any_float32_reads_back_from_its_text_and_has_no_digit_too_many(patterns):
    values = np.array(patterns, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    for value, text in zip(values, texts_of(values)):
        number, length, state = read(text)
        with np.errstate(over="ignore"):
            assert np.float32(number).tobytes() == value.tobytes()
        assert (length, state) == (len(text), READ)
        assert len(significant(text)) == len(significant(np.format_float_scientific(value, unique=True, trim="-")))


def test_all_powers_of_two_and_their_neighbours_read_back():
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    values = np.concatenate([powers, np.nextafter(powers, np.float32(0)), np.nextafter(powers[:-1], powers[1:])])
    assert np.array([float(text) for text in texts_of(values)]).astype(np.float32).tolist() == values.tolist()


def significant(text: str) -> str:
    digits = re.sub(r"[-.]|e.*", "", text).lstrip("0").rstrip("0")
    return digits or "0"
