"""Decimals: the text of a number and the number nearest to it, in both directions.

Reading gives the float64 nearest to the text (ties to even), as `float(text)` does, in the first of three ways that is
sure: one exact product or quotient when mantissa and power of ten are small; a product of 128 bits with a bound on its
error; and where that bound leaves two answers, the caller leaves it to Python.

The float32 nearest to the text is the one nearest to that float64, unless the float64 lies exactly in the middle
between two float32 (rounding is monotone, and every such middle is a float64). Only then the text itself is compared
with the middle, and the float64 is moved to the side of the text before it is rounded: so the text is rounded once.

Writing gives the shortest text that reads back to the same float32.

Kernels count in uint64: Numba guards every signed index against being negative, and that guard costs more than the
work here. A text must have `PADDING` bytes after its end, because eight bytes are read in one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache

import numpy as np

from podium._runtime.compiler import Array, kernel

U = np.uint64
Whole = int | np.int64  # the same to the compiler
Truth = bool | np.bool
Power = tuple[np.uint64, np.uint64, np.uint64]  # a row of `power_table()`

PADDING = 16
READ, NO_NUMBER, UNDECIDED = 0, 1, 2  # how `read_decimal` ended
LONGEST_FLOAT32 = 20  # no text of `write_float32` has more bytes

SMALL_POWERS = np.array([10**power for power in range(20)], dtype=np.uint64)
EXACT_POWERS = np.array([float(10**power) for power in range(23)])  # 10**22 is the last that float64 holds exactly
_POWERS = np.array([float(f"1e{power}") for power in range(-60, 61)])  # the nearest float64
_POWER_ZERO = 60  # where 10**0 stands in it
_LOWEST, _HIGHEST = -342, 308  # beyond these powers of ten, 64 bits of mantissa are 0 or infinite as float64
_UNCUT = 27  # 5**27 < 2**64: up to here 10**power has no bits below the upper 64
_MOST_DIGITS = U(19)  # always fit into 64 bits
_FAR = U(1_000_000_000)  # a power of ten that decides alone, however many digits a text has
_BIAS = 2048  # added to the table's shifts, so that they are not negative
_PLUS, _MINUS, _POINT = 43, 45, 46
ZEROS = U(0x3030303030303030)  # eight times the character 0
_INFINITY = U(0x7FF << 52)
BELOW_FLOAT32, MIDDLE = U(0x1FFFFFFF), U(0x10000000)  # bits that float32 has no place for, and half of its last one
_SMALLEST_NORMAL = 2.0**-126  # of float32: below, its numbers are multiples of 2**-149
_MIDDLES_AMONG_SMALL = 2.0**150  # times this, a middle between two of those is an odd integer
_EXACT_SHIFT = 12  # a middle has 25 bits and 5**12 has 28: their product is exact


@cache
def power_table() -> Array:
    """Powers of ten for the kernels, one row per power from -342 to 308.

    (651, 3) uint64: `10**power = (high * 2**64 + low) * 2**(shift - 2048)`, truncated below 128 bits.
    """
    rows = [_power_row(power) for power in range(_LOWEST, _HIGHEST + 1)]
    return np.array(rows, dtype=np.uint64)


def _power_row(power: int) -> tuple[int, int, int]:
    if power >= 0:
        shift = (10**power).bit_length() - 128
        bits = 10**power >> shift if shift > 0 else 10**power << -shift
    else:
        shift = -((10**-power).bit_length() + 127)
        bits = (1 << -shift) // 10**-power
    return bits >> 64, bits & (2**64 - 1), shift + _BIAS


@kernel
def word_at(text: Array, position: np.uint64) -> np.uint64:
    """Eight bytes as one number, the first byte lowest. The compiler makes a single load of it."""
    return (
        U(text[position])
        | (U(text[position + U(1)]) << U(8))
        | (U(text[position + U(2)]) << U(16))
        | (U(text[position + U(3)]) << U(24))
        | (U(text[position + U(4)]) << U(32))
        | (U(text[position + U(5)]) << U(40))
        | (U(text[position + U(6)]) << U(48))
        | (U(text[position + U(7)]) << U(56))
    )


@kernel
def leading_digits(word: np.uint64) -> tuple[np.uint64, np.uint64, Truth]:
    """The digits at the start of eight characters: (how many, their values one per byte, whether another one follows).

    With eight digits the count is 0 and the third part False: there may be more of them.
    """
    values = word ^ ZEROS
    # The top bit of each byte that is no digit: 10 to 127 reach it when 118 is added, larger ones have it.
    others = (((values & U(0x7F7F7F7F7F7F7F7F)) + U(0x7676767676767676)) | values) & U(0x8080808080808080)
    first = (others & (~others + U(1))) >> U(7)  # 1 << (8 * count)
    return (first * U(0x0001020304050607)) >> U(56), values & (first - U(1)), others > U(0)


@kernel
def number_of(digits: np.uint64, count: np.uint64) -> np.uint64:
    """The number that at most seven digits make: bytes 1, 2, 3 -> 123."""
    return eight_digits((digits << (U(56) - (count << U(3)))) << U(8))  # zeros in front


@kernel
def eight_digits(digits: np.uint64) -> np.uint64:
    """Digits become pairs, pairs fours, fours the whole."""
    pairs = digits * U(10) + (digits >> U(8))
    upper = (pairs & U(0x000000FF000000FF)) * U((1_000_000 << 32) + 100)
    lower = ((pairs >> U(16)) & U(0x000000FF000000FF)) * U((10_000 << 32) + 1)
    return (upper + lower) >> U(32)


@kernel
def read_decimal(text: Array, position: np.uint64, powers: Array) -> tuple[float, np.uint64, Whole]:
    """The number at `position`: (value, position after it, READ or NO_NUMBER or UNDECIDED). powers: `power_table()`."""
    mantissa, exponent, truncated, end = scan_decimal(text, position)
    if end == position:
        return 0.0, end, NO_NUMBER
    row = power_row(exponent)
    power = powers[row, U(0)], powers[row, U(1)], powers[row, U(2)]
    value, sure = nearest_float64(mantissa, exponent, truncated, power)
    return (-value if text[position] == _MINUS else value), end, (READ if sure else UNDECIDED)


@kernel
def scan_decimal(text: Array, position: np.uint64) -> tuple[np.uint64, np.int64, Truth, np.uint64]:
    """Take `sign? digits .? digits (e sign? digits)?` apart: (mantissa, power of ten, lost digits?, position after it).

    text: uint8, with a byte that is part of no number at its end. The place is the given one if there is no number;
    the caller checks what follows the number. The mantissa has up to 19 digits, and no sign.
    """
    here = position + U(text[position] == _MINUS or text[position] == _PLUS)
    mantissa, exponent, n_digits = U(0), np.int64(0), U(0)
    truncated: Truth = False
    point, first = np.int64(0), here
    while True:
        word = word_at(text, here)
        count, digits, ends = leading_digits(word)
        if not ends:
            count = U(8)
        if count == U(0):
            if word & U(255) != U(_POINT) or point == 1:
                break
            point, count = np.int64(1), U(1)
            first += U(1)
        elif n_digits + count <= _MOST_DIGITS:
            mantissa = mantissa * SMALL_POWERS[count] + eight_digits(digits << (U(64) - (count << U(3))))
            n_digits = n_digits + count if mantissa > U(0) else U(0)  # zeros in front do not count
            exponent -= point * np.int64(count)
        else:
            digit, count = digits & U(255), U(1)
            n_digits = _digit_count(mantissa)  # zeros in front, within the first eight, were counted so far
            if n_digits < _MOST_DIGITS:
                mantissa = mantissa * U(10) + digit
                n_digits += U(1)
                exponent -= point
            else:
                truncated = truncated or digit > U(0)
                exponent += 1 - point
        here += count
    if here == first:  # nothing but a sign and a point
        return mantissa, exponent, truncated, position
    if word & U(0xDF) == U(69):  # e or E
        shift, end = _read_exponent(text, here + U(1))
        return mantissa, exponent + shift, truncated, (end if end > here + U(1) else position)
    return mantissa, exponent, truncated, here


@kernel
def _read_exponent(text: Array, position: np.uint64) -> tuple[np.int64, np.uint64]:
    """The digits after `e` and the position after them, which is the given one if there are none."""
    negative = text[position] == _MINUS
    first = position + U(negative or text[position] == _PLUS)
    exponent, end = U(0), first
    while U(text[end]) - U(48) < U(10):
        exponent = min(exponent * U(10) + U(text[end]) - U(48), _FAR)
        end += U(1)
    size = np.int64(exponent)
    return (-size if negative else size), (end if end > first else position)


@kernel
def power_row(exponent: Whole) -> np.uint64:
    """The row of `power_table()` for a power of ten; the last one for powers beyond, whose result does not need it."""
    return U(min(max(np.int64(exponent), np.int64(_LOWEST)), np.int64(_HIGHEST)) - np.int64(_LOWEST))


@kernel
def nearest_float64(mantissa: np.uint64, exponent: Whole, truncated: Truth, power: Power) -> tuple[float, Truth]:
    """The float64 nearest to `mantissa * 10**exponent`, and whether that is sure; the power is a row of the table.

    `truncated`: the mantissa lost digits, so that the number lies between it and the next one; sure if both agree.
    """
    if mantissa == U(0) or exponent < _LOWEST:
        return 0.0, True
    if exponent > _HIGHEST:
        return np.inf, True
    if mantissa <= U(1 << 53) and not truncated and -23 < exponent < 23:
        whole = np.float64(np.int64(mantissa))
        return (whole * EXACT_POWERS[U(exponent)] if exponent >= 0 else whole / EXACT_POWERS[U(-exponent)]), True
    exact = 0 <= exponent <= _UNCUT
    bits, sure = _nearest_bits(mantissa, power, exact)
    if truncated:
        bits_above, sure_above = _nearest_bits(mantissa + U(1), power, exact)
        sure = sure and sure_above and bits == bits_above
    return np.uint64(bits).view(np.float64), sure


@kernel
def nearest_float32(mantissa: np.uint64, exponent: Whole, truncated: Truth, power: Power) -> tuple[np.float32, Truth]:
    """The float32 nearest to `mantissa * 10**exponent`, rounded once, and whether that is sure; else as above."""
    wide, sure = nearest_float64(mantissa, exponent, truncated, power)
    if in_the_middle(wide):
        if truncated or mantissa > U(1 << 53) or not -_EXACT_SHIFT <= exponent <= 0:
            return np.float32(wide), False
        middle, text = wide * EXACT_POWERS[U(-exponent)], np.float64(np.int64(mantissa))  # both without an error
        wide = U(np.float64(wide).view(np.uint64) + U(text > middle) - U(text < middle)).view(np.float64)
    return np.float32(wide), sure


@kernel
def in_the_middle(wide: float) -> Truth:
    """Whether a float64 >= 0 is as far from the float32 below as from the one above; infinity follows the largest."""
    if wide >= _SMALLEST_NORMAL:
        middle: bool = np.float64(wide).view(np.uint64) & BELOW_FLOAT32 == MIDDLE
        return middle
    return (wide * _MIDDLES_AMONG_SMALL) % 2.0 == 1.0


def round_texts(numbers: Array, texts: Sequence[str | bytes]) -> Array:
    """The float32 nearest to each text; numbers: the float64 nearest to each, as `float` reads them."""
    sizes = np.abs(numbers)
    with np.errstate(invalid="ignore", over="ignore"):
        middle = np.where(
            sizes >= _SMALLEST_NORMAL,
            sizes.view(np.uint64) & BELOW_FLOAT32 == MIDDLE,
            (sizes * _MIDDLES_AMONG_SMALL) % 2.0 == 1.0,
        )
        if middle.any():
            numbers = numbers.copy()
            for row in np.flatnonzero(middle).tolist():
                numbers[row] = _towards(float(numbers[row]), texts[row])
        return numbers.astype(np.float32)


def _towards(number: float, text: str | bytes) -> float:
    """The float64 beside a number, on the side of the text; the number itself if the text is equal to it."""
    exact = Decimal(text if isinstance(text, str) else text.decode("ascii"))
    if exact == Decimal(number):
        return number
    return math.nextafter(number, math.inf if exact > Decimal(number) else -math.inf)


@kernel
def _nearest_bits(mantissa: np.uint64, power: Power, exact: Truth) -> tuple[np.uint64, Truth]:
    """The bits of the float64 nearest to `mantissa * power` (mantissa > 0), and whether they are sure.

    Unless the power is `exact`, the product is short of the true one by less than 4 units of its last place (one for
    the table, one for the product, doubled when moved up). It is unsure only if such an error could move it
    to or across the middle between two neighbours.
    """
    power_high, power_low, shift = power
    zeros = _leading_zeros(mantissa)
    mantissa <<= zeros
    high, low = _product(mantissa, power_high)
    carried, _ = _product(mantissa, power_low)
    low += carried
    high += U(low < carried)
    top = np.int64(shift) - _BIAS - np.int64(zeros) + 64 + 127  # the number is at least 2**top ...
    if high < U(1 << 63):
        high, low, top = (high << U(1)) | (low >> U(63)), low << U(1), top - 1  # ... and less than twice that
    biased = top + 1023
    n_bits = 53 if biased > 0 else 52 + biased  # bits of the result: fewer below 2**-1022
    if n_bits < 1:
        return U(0), n_bits < 0
    half = U(1) << U(63 - n_bits)
    upper, rest = high >> U(64 - n_bits), high & (half + half - U(1))
    if exact:
        up = rest > half or (rest == half and (low > U(0) or upper & U(1) == U(1)))
        sure = True
    else:
        up = rest >= half
        sure = not ((rest == half and low == U(0)) or (rest == half - U(1) and low >= U(2**64 - 4)))
    # A carry out of the mantissa raises the exponent, which is just what it should do.
    bits = upper + U(up) + (U(biased - 1 if biased > 0 else 0) << U(52))
    return min(bits, _INFINITY), sure


@kernel
def _leading_zeros(number: np.uint64) -> np.uint64:
    zeros = U(0)
    for step in (U(32), U(16), U(8), U(4), U(2), U(1)):
        if number >> (U(64) - step) == U(0):
            number <<= step
            zeros += step
    return zeros


@kernel
def _product(left: np.uint64, right: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The 128 bits of a product as (high, low), from halves of 32 bits."""
    mask = U(0xFFFFFFFF)
    a, b, c, d = left >> U(32), left & mask, right >> U(32), right & mask
    middle = ((b * d) >> U(32)) + (a * d & mask) + (b * c & mask)
    return a * c + (a * d >> U(32)) + (b * c >> U(32)) + (middle >> U(32)), left * right


@kernel
def write_float32(out: Array, position: np.uint64, value: np.float32, powers: Array) -> np.uint64:
    """Write the shortest text that reads back to a finite float32 or NaN; the position after it.

    Integers have no point, and a power of ten follows `e` as in Python: below 1e-4 and from 1e16 on.
    """
    if value != value:
        for letter in (110, 97, 110):
            out[position] = letter
            position += U(1)
        return position
    if np.float32(value).view(np.uint32) >> np.uint32(31):  # also for -0
        out[position] = 45
        position += U(1)
    size = np.float64(abs(value))
    if size < 2.0**24 and size == np.floor(size):
        return write_integer(out, position, U(size))
    digits, exponent = _shortest_digits(abs(value), powers)
    return _write_layout(out, position, digits, exponent)


@kernel
def write_integer(out: Array, position: np.uint64, number: np.uint64) -> np.uint64:
    end = position + _digit_count(number)
    here = end
    while here > position:
        here -= U(1)
        out[here] = np.uint8(U(48) + number % U(10))
        number //= U(10)
    return end


@kernel
def _digit_count(number: np.uint64) -> np.uint64:
    count = U(1)
    while count < U(20) and number >= SMALL_POWERS[count]:
        count += U(1)
    return count


@kernel
def _shortest_digits(value: np.float32, powers: Array) -> tuple[np.uint64, Whole]:
    """The shortest (digits, exponent) with `digits * 10**exponent` read back as this float32 > 0.

    All that reads back lies between the middles to the two neighbours. Seen as numbers of 9 digits, which always
    suffice, that is a range low..high; digits are dropped as long as a number of the rest is left in the range.
    """
    size = np.float64(value)
    below, above = _neighbours(value)
    top = _top_digit(size)
    scale = _POWERS[U(8 - top + _POWER_ZERO)]
    # The products err by less than 0.000001: the range is that much too wide, and reading back decides.
    low = U(np.int64(np.ceil((size + below) * 0.5 * scale - 0.000001)))
    high = U(np.int64((size + above) * 0.5 * scale + 0.000001))
    exponent = top - 8
    while (low + U(9)) // U(10) <= high // U(10):
        low, high, exponent = (low + U(9)) // U(10), high // U(10), exponent + 1
    while True:
        nearest = U(np.int64(np.rint(size * _POWERS[U(_POWER_ZERO - exponent)])))
        row = power_row(exponent)
        power = powers[row, U(0)], powers[row, U(1)], powers[row, U(2)]
        # Below a power of two float32 lie closer than above: the nearest may miss where the other side hits.
        for digits in (nearest, nearest - U(1), nearest + U(1)):
            value_back, sure = nearest_float32(digits, exponent, False, power)
            if sure and np.float64(value_back) == size:
                return digits, exponent
        exponent -= 1


@kernel
def _neighbours(value: np.float32) -> tuple[float, float]:
    """The float32 below and above a float32 > 0, as float64; above the largest stands what would come next."""
    bits = np.float32(value).view(np.uint32)
    below = np.float64(np.uint32(bits - np.uint32(1)).view(np.float32))
    if bits == np.uint32(0x7F7FFFFF):
        return below, 2.0**128
    return below, np.float64(np.uint32(bits + np.uint32(1)).view(np.float32))


@kernel
def _top_digit(size: float) -> Whole:
    """The largest power with `10**power <= size`, or one off where rounding hides the difference."""
    binary = np.int64(np.float64(size).view(np.uint64) >> U(52)) - 1023
    power = binary * 78_913 >> 18  # 78913 / 2**18 is log10(2)
    return power + np.int64(size >= _POWERS[U(power + 1 + _POWER_ZERO)])


@kernel
def _write_layout(out: Array, position: np.uint64, digits: np.uint64, exponent: Whole) -> np.uint64:
    """123, -1 -> 12.3; 123, 2 -> 12300; 123, -5 -> 0.00123; 123, -9 -> 1.23e-7; 1, 20 -> 1e20."""
    end = write_integer(out, position, digits)
    count = np.int64(end - position)
    top = exponent + count - 1
    if top < -4 or top >= 16:
        end = _insert_point(out, position + U(1), end)
        out[end] = 101
        end += U(1)
        if top < 0:
            out[end] = 45
            end += U(1)
        return write_integer(out, end, U(abs(top)))
    if exponent >= 0:
        return _write_zeros(out, end, exponent)
    if top >= 0:
        return _insert_point(out, position + U(top + 1), end)
    position = _write_zeros(out, position, 1 - top)
    out[position - U(-top)] = 46
    return write_integer(out, position, digits)


@kernel
def _insert_point(out: Array, position: np.uint64, end: np.uint64) -> np.uint64:
    """Make room for a point at `position`, unless nothing would follow it; the new end."""
    if position == end:
        return end
    here = end
    while here > position:
        out[here] = out[here - U(1)]
        here -= U(1)
    out[position] = 46
    return end + U(1)


@kernel
def _write_zeros(out: Array, position: np.uint64, count: Whole) -> np.uint64:
    for _ in range(count):
        out[position] = 48
        position += U(1)
    return position
