"""The kernels of plain tables: rows of cells, one delimiter between them.

A text is a uint8 array in which every line ends in a newline, with `PADDING` bytes after. Nothing is refused here: a
row that is not plain ends the reading, and a cell that needs a closer look is noted for Python.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, inlined_bare_kernel, kernel
from podium.formats.decimals import (
    BELOW_FLOAT32,
    EXACT_POWERS,
    MIDDLE,
    READ,
    ZEROS,
    Truth,
    U,
    Whole,
    eight_digits,
    leading_digits,
    nearest_float32,
    number_of,
    power_row,
    read_decimal,
    scan_decimal,
    word_at,
)
from podium.formats.letor.kernels import equal_bytes, skip_nan

# What is done with the cells of a column: a number is read into a column of X, or of the amounts after these; SKIPPED
# cells are passed over; of text column 0, 1, ... (TEXT, TEXT - 1, ...) it is noted where they are.
SKIPPED, TEXT = -1, -2
QUERY = 0  # the text column of query ids, in which no cell is empty
NOT_PLAIN, LIST_FULL = -1, -2  # in place of a number of rows

_NUL, _QUOTE, _ASCII = 0, 34, 128
_LF, _CR, _BLANK, _MINUS, _POINT = 10, 13, 32, 45, U(46)
_DOUBT = U(8)  # units of the last place of float64
_LARGE = np.float32(2**24)  # from here on, float32 does not distinguish all integers


@kernel
def survey(text: Array, stop: Whole) -> tuple[Whole, Truth, Truth]:
    """Of a text up to `stop`: (newlines, whether it has a quote or a NUL, whether it has a byte that is not ASCII)."""
    newlines, special, largest = 0, 0, np.uint8(0)
    for byte in text[:stop]:
        newlines += byte == _LF
        special |= (byte == _QUOTE) | (byte == _NUL)
        largest |= byte
    return newlines, special > 0, largest >= _ASCII


@kernel
def read_rows(
    text: Array,
    stop: Whole,
    delimiter: np.uint8,
    targets: Array,
    longest: Whole,
    powers: Array,
    X: Array,
    amounts: Array,
    spans: Array,
    noted: Array,
    counts: Array,
) -> Whole:
    """Read the rows of a text up to `stop`; their number, or NOT_PLAIN, or LIST_FULL.

    targets: (columns,) int64, what is done with each; longest: bytes that a cell may have; X: (rows, features) float32,
    filled; amounts: (rows, any) float64, filled; spans: (texts, rows, 2) int64, filled: from, to.
    noted: (any, 4) int64, filled up to counts[0]: row, target, from, to of numbers for Python.
    """
    position, end, features, columns = U(0), U(stop), X.shape[1], len(targets)
    row = 0
    while position < end:
        if text[position] == _LF:
            position += U(1)
            continue
        if text[position] == _CR and text[position + U(1)] == _LF:
            position += U(2)
            continue
        for column in range(columns):
            start, target = position, targets[column]
            fine: Truth = False
            if 0 <= target < features:
                value, position, fine = _short_number(text, start, delimiter)
                if not fine:
                    value, position, fine = _long_number(text, start, delimiter)
                X[U(row), U(target)] = value
            if not fine:
                while text[start] == _BLANK:
                    start += U(1)
                position, fine = _cell_end(text, start, delimiter), True
                if np.int64(position - start) > longest:
                    return NOT_PLAIN
                if target >= features:
                    amount, number_end, state = read_decimal(text, start, powers)
                    fine = state == READ and number_end == position and 0.0 <= amount < np.inf
                    amounts[U(row), U(target - features)] = amount
                elif target >= 0:
                    value, fine = _any_number(text, start, position, powers)
                    X[U(row), U(target)] = value
                elif target <= TEXT:
                    if target == TEXT - QUERY and position == start:
                        return NOT_PLAIN
                    spans[TEXT - target, row, 0], spans[TEXT - target, row, 1] = np.int64(start), np.int64(position)
                if not fine:
                    if counts[0] == len(noted):
                        return LIST_FULL
                    noted[counts[0], 0], noted[counts[0], 1] = row, target
                    noted[counts[0], 2], noted[counts[0], 3] = np.int64(start), np.int64(position)
                    counts[0] += 1
            if column < columns - 1:
                if text[position] != delimiter:
                    return NOT_PLAIN
                position += U(1)
        position += U(text[position] == _CR)
        if text[position] != _LF:
            return NOT_PLAIN
        position += U(1)
        row += 1
    return row


@inlined_bare_kernel
def _ends(byte: np.uint8, delimiter: np.uint8) -> Truth:
    ends: bool = byte == delimiter or byte in (_LF, _CR)
    return ends


@inlined_bare_kernel
def _short_number(text: Array, start: np.uint64, delimiter: np.uint8) -> tuple[np.float32, np.uint64, Truth]:
    """Up to seven digits, a point, up to seven digits, an exact quotient: (value, position after it, is it one).

    Where it ends is seen without reading it, so that the processor may begin with the next one.
    """
    end = start + _short_length(word_at(text, start), word_at(text, start + U(8)))
    position = start + U(text[start] == _MINUS)
    word = word_at(text, position)
    length, digits, short = leading_digits(word)
    short = short and length > U(0)
    wide: float = np.float64(np.int64(number_of(digits, length)))
    if (word >> (length << U(3))) & U(255) == _POINT:
        decimals, digits, ends = leading_digits(word_at(text, position + length + U(1)))
        short = short and ends
        length += decimals + U(1)
        power, part = EXACT_POWERS[decimals], np.float64(np.int64(number_of(digits, decimals)))
        wide = (wide * power + part) / power
    value = np.float32(-wide if position > start else wide)
    # In the middle between two float32 the text decides; numbers this short are never that small.
    short = short and np.float64(wide).view(np.uint64) & BELOW_FLOAT32 != MIDDLE
    return value, end, short and position + length == end and _ends(text[end], delimiter)


@kernel
def _long_number(text: Array, start: np.uint64, delimiter: np.uint8) -> tuple[np.float32, np.uint64, Truth]:
    """Up to seven digits, a point, 8 to 23 digits, as pandas writes float64: (value, position after it, is it one).

    As float64 it is off by less than three units of the last place (five operations, all of positive numbers). Unless a
    middle between two float32 is that near, the nearest float32 is the same.
    """
    position, nothing = start + U(text[start] == _MINUS), np.float32(0.0)
    word = word_at(text, position)
    length, digits, short = leading_digits(word)
    if length == U(0) or not short or (word >> (length << U(3))) & U(255) != _POINT:
        return nothing, start, False
    position += length + U(1)
    first = word_at(text, position)
    if not _all_digits(first):
        return nothing, start, False
    second = word_at(text, position + U(8))
    last = second
    if _all_digits(second):
        last = word_at(text, position + U(16))
        position += U(8)
    decimals, last_digits, ends = leading_digits(last)
    part = np.float64(np.int64(number_of(last_digits, decimals))) / EXACT_POWERS[decimals]
    if _all_digits(second):
        part = (np.float64(np.int64(eight_digits(second ^ ZEROS))) + part) / EXACT_POWERS[8]
    whole = np.float64(np.int64(number_of(digits, length) * U(100_000_000) + eight_digits(first ^ ZEROS)))
    wide: float = (whole + part) / EXACT_POWERS[8]
    position += U(8) + decimals
    near = (np.float64(wide).view(np.uint64) & BELOW_FLOAT32) - (MIDDLE - _DOUBT) <= U(2) * _DOUBT
    value = np.float32(-wide if text[start] == _MINUS else wide)
    return value, position, ends and not near and _ends(text[position], delimiter)


@inlined_bare_kernel
def _all_digits(word: np.uint64) -> Truth:
    count, _, ends = leading_digits(word)
    all_digits: bool = count == U(0) and not ends
    return all_digits


@inlined_bare_kernel
def _short_length(word: np.uint64, next_word: np.uint64) -> np.uint64:
    """How many of sixteen bytes stand before the first that is below `-`, as a comma, a tab and a newline are."""
    low, next_low = _below_minus(word), _below_minus(next_word)
    return _first(low) if low > U(0) else U(8) + _first(next_low)


@inlined_bare_kernel
def _below_minus(word: np.uint64) -> np.uint64:
    """The top bit of each byte below `-`; wrong ones stand only behind a right one."""
    return (word - U(0x2D2D2D2D2D2D2D2D)) & ~word & U(0x8080808080808080)


@inlined_bare_kernel
def _first(bits: np.uint64) -> np.uint64:
    """The number of the first byte that has its top bit."""
    return (((bits & (~bits + U(1))) >> U(7)) * U(0x0001020304050607)) >> U(56)


@kernel
def _any_number(text: Array, start: np.uint64, end: np.uint64, powers: Array) -> tuple[np.float32, Truth]:
    """A cell with any number below 2**24 whose float32 is sure, with nothing or `nan`: (value, whether it is so)."""
    if start == end:
        return np.float32(np.nan), True
    mantissa, exponent, truncated, position = scan_decimal(text, start)
    if position == start:
        return np.float32(np.nan), skip_nan(text, start) == end
    entry = power_row(exponent)
    power = powers[entry, U(0)], powers[entry, U(1)], powers[entry, U(2)]
    value, sure = nearest_float32(mantissa, exponent, truncated, power)
    fine = sure and value < _LARGE and position == end
    return (-value if text[start] == _MINUS else value), fine


@inlined_bare_kernel
def _cell_end(text: Array, position: np.uint64, delimiter: np.uint8) -> np.uint64:
    """Where the cell ends that begins here."""
    while not _ends(text[position], delimiter):
        position += U(1)
    return position


@kernel
def number_texts(text: Array, spans: Array, slots: Array, codes: Array, firsts: Array) -> Whole:
    """Number the distinct texts at spans (rows, 2) as they come; how many there are.

    slots: a power of 2 above the number of rows, of -1; codes: (rows,), filled: the number of each; firsts: (rows,),
    filled: the first row of each number.
    """
    count, mask = 0, U(len(slots) - 1)
    last_start, last_end = U(0), U(0)
    for row in range(len(spans)):
        start, end = U(spans[row, 0]), U(spans[row, 1])
        if row > 0 and equal_bytes(text, last_start, last_end, start, end):
            codes[row] = codes[row - 1]
            continue
        last_start, last_end = start, end
        digest, here = U(14695981039346656037), start  # FNV-1a
        while here < end:
            digest = (digest ^ U(text[here])) * U(1099511628211)
            here += U(1)
        slot = (digest ^ (digest >> U(32))) & mask
        while slots[slot] >= 0:
            first = firsts[slots[slot]]
            if equal_bytes(text, U(spans[first, 0]), U(spans[first, 1]), start, end):
                break
            slot = (slot + U(1)) & mask
        if slots[slot] < 0:
            slots[slot], firsts[count] = count, row
            count += 1
        codes[row] = slots[slot]
    return count
