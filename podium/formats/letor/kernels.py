"""The kernels of LETOR text, `label qid:id index:value ... #comment`.

A piece is a uint8 array in which every line ends in a newline, with `PADDING` bytes after. It is read in steps, each a
loop over its rows: where they are (`find_rows`), label and qid (`read_heads`), features (`read_features`), comment
(`read_endings`). A step stops at the first row that it cannot read and returns (row, fault, place): how many rows are
valid, what is wrong with the next one, and where. Messages are composed in Python.

There are steps, and not one function per row, because Numba counts references to its arrays at every call: for short
rows that costs more than the reading.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.formats.decimals import (
    BELOW_FLOAT32,
    EXACT_POWERS,
    MIDDLE,
    NO_NUMBER,
    READ,
    UNDECIDED,
    Truth,
    U,
    Whole,
    leading_digits,
    nearest_float32,
    number_of,
    power_row,
    read_decimal,
    scan_decimal,
    word_at,
    write_float32,
    write_integer,
)

# What can be wrong with a row. The last three are no faults: a number waits for Python, the list of such is full, a
# number stands for a missing value.
FINE, BAD_LABEL, LABEL_RANGE, NO_QID, BAD_QID, NO_FIELD, LOW_INDEX, HIGH_INDEX = 0, 1, 2, 3, 4, 5, 6, 7
BAD_VALUE, VALUE_RANGE, TWICE, BAD_COMMENT, NO_ID, LATER, LIST_FULL, STANDS_FOR_NAN = 8, 9, 10, 11, 12, 13, 14, 15

# `lines`, (rows, 6) int32: where a row begins, its features, what comes after them, and its newline; the number of
# its line in the piece, from 0; and whether its indices do not rise.
START, FEATURES, ENDING, NEWLINE, NUMBER, UNSORTED = 0, 1, 2, 3, 4, 5
# `counts`, (6,) int64: runs of equal ids, numbers that wait, columns that X should have, bytes in comments,
# whether the indices of any row do not rise, and numbers that stand for missing values.
RUNS, WAITING, WIDEST, NOTED, ANY_UNSORTED, LARGEST = 0, 1, 2, 3, 4, 5
LARGEST_DOUBLE = 1.79769e308  # and more, up to 1.7976931348623157e308: what Istella's files have for a missing value

Ending = tuple[Whole, Whole, Whole]  # rows that are fine, fault, place
LABEL = -1  # the label's place among the columns

_TAB, _LF, _CR, _BLANK, _HASH, _PLUS, _MINUS, _COLON, _EQUALS = 9, 10, 13, 32, 35, 43, 45, 58, 61
_QID = U(int.from_bytes(b"qid:", "little"))
_DOCID = U(int.from_bytes(b"docid", "little"))
_NAN = U(int.from_bytes(b"nan", "little"))
_POINT = U(46)
_NEWLINES = U(int.from_bytes(b"\n" * 8, "little"))
_LOW_BITS = U(0x7F7F7F7F7F7F7F7F)
_NO_COLUMN = U(1 << 62)
_MOST = np.float32(np.finfo(np.float32).max)


@kernel
def find_rows(text: Array, start: Whole, end: Whole, lines: Array) -> Ending:
    """Find the lines that hold a row: neither blank nor a comment. lines: filled, but for FEATURES, ENDING and
    UNSORTED.

    Returns (rows, lines, place of a bad byte in a comment or -1); -1 rows if `lines` is too short for them.
    """
    position, stop, first = U(start), U(end), U(start)
    rows, number = 0, 0
    while position < stop:
        word = word_at(text, position) ^ _NEWLINES
        newlines = ~(((word & _LOW_BITS) + _LOW_BITS) | word | _LOW_BITS)  # the top bit of each byte that is 0
        while newlines != U(0):
            mark = newlines & (~newlines + U(1))
            newlines ^= mark
            newline = position + (((mark >> U(7)) * U(0x0001020304050607)) >> U(56))
            if newline >= stop:
                break
            first = _skip_blanks(text, first)
            if text[first] == _HASH:
                bad = _bad_byte(text, first, newline)
                if bad < newline:
                    return rows, number, np.int64(bad)
            elif not _at_line_end(text, first):
                if rows == len(lines):
                    return -1, number, -1
                lines[rows, START], lines[rows, NEWLINE], lines[rows, NUMBER] = (
                    np.int64(first),
                    np.int64(newline),
                    number,
                )
                rows += 1
            number += 1
            first = newline + U(1)
        position += U(8)
    return rows, number, -1


@kernel
def _bad_byte(text: Array, position: np.uint64, newline: np.uint64) -> np.uint64:
    """Where a comment has a NUL, or a return that ends no line; `newline` if nowhere."""
    while position < newline:
        word = word_at(text, position)
        if (word - U(0x0E0E0E0E0E0E0E0E)) & ~word & U(0x8080808080808080) == U(0):  # no byte below 14
            position += U(8)
            continue
        if text[position] == 0 or (text[position] == _CR and position + U(1) != newline):
            return position
        position += U(1)
    return newline


@kernel
def read_heads(
    text: Array,
    lines: Array,
    with_label: Truth,
    with_qid: Truth,
    powers: Array,
    y: Array,
    runs: Array,
    undecided: Array,
    counts: Array,
) -> Ending:
    """Read `label qid:id`, without the one or the other. y: (rows,) float64, filled; undecided: see `read_features`.

    runs: (rows, 5) int64, filled up to counts[RUNS], one per run of rows whose ids have the same bytes: its first row,
    id from, id to, its first line and its last line.
    """
    run, id_start, id_end = -1, U(0), U(0)
    for row in range(len(lines)):
        position = U(lines[row, START])
        digit = U(text[position]) - U(48)
        value: float = np.float64(np.int64(digit))
        end = position + U(1)
        state: Whole = READ
        if not with_label:
            value, end = np.float64(0.0), position
        elif digit > U(9) or text[end] != _BLANK:
            value, end, state = read_decimal(text, position, powers)
        if with_label and (state == NO_NUMBER or not _ends_field(text[end])):
            return row, BAD_LABEL, np.int64(position)
        if state == UNDECIDED:
            if not _put_off(undecided, counts, row, LABEL, position, end):
                return row, LIST_FULL, np.int64(position)
        elif not 0.0 <= value < np.inf:
            return row, LABEL_RANGE, np.int64(position)
        y[row] = value
        if with_qid:
            position = _skip_blanks(text, end)
            if word_at(text, position) & U(0xFFFFFFFF) != _QID:
                return row, NO_QID, np.int64(position)
            start = position + U(4)
            end = start
            while text[end] > _BLANK and text[end] != _HASH:
                end += U(1)
            if end == start or not _ends_field(text[end]):
                return row, BAD_QID, np.int64(position)
            if run < 0 or not equal_bytes(text, id_start, id_end, start, end):
                run += 1
                runs[run, 0], runs[run, 1], runs[run, 2] = row, np.int64(start), np.int64(end)
                runs[run, 3] = lines[row, NUMBER]
            runs[run, 4] = lines[row, NUMBER]
            id_start, id_end = start, end
            counts[RUNS] = run + 1
        lines[row, FEATURES] = np.int64(end)
    return len(lines), FINE, 0


@kernel
def fill_keys(keys: Array, base: Whole) -> None:
    """keys (columns + 1, 4) uint64: how the field of each column starts in the text, the mask and the length of that.

    Column 11 of a file that counts from 1 starts with ` 12:`. A field that starts as expected needs no parsing of its
    index. The last key, and those longer than eight bytes, match nothing: their mask hides a bit that they have.
    """
    text = np.zeros(32, dtype=np.uint8)
    text[0] = _BLANK
    for column in range(len(keys)):
        end = write_integer(text, U(1), U(column + base))
        text[end] = _COLON
        length = end + U(1)
        keys[column, 0], keys[column, 1], keys[column, 2] = U(1), U(0), U(0)
        if column < len(keys) - 1 and length <= U(8):
            mask = U(0xFFFFFFFFFFFFFFFF) >> (U(64) - (length << U(3)))
            keys[column, 0], keys[column, 1], keys[column, 2] = word_at(text, U(0)) & mask, mask, length


@kernel
def read_features(
    text: Array,
    lines: Array,
    keys: Array,
    base: Whole,
    limit: Whole,
    absent: np.float32,
    powers: Array,
    X: Array,
    undecided: Array,
    counts: Array,
) -> Ending:
    """Read `index:value` up to a comment or the end of the line.

    X: (rows, columns) float32, filled, `absent` where a row names no feature. Columns from X's width up to `limit` are
    read but not kept: counts[WIDEST] is the required width of X. keys: of `fill_keys` for X's columns, made flat.
    undecided: (any, 4) int64, filled up to counts[WAITING]: row, column, from, to of numbers that Python must read.

    Within a row, columns below `filled` are done, and the field expected next is that of column `filled`.
    """
    columns, lowest, beyond = U(X.shape[1]), U(base), U(limit)
    for line in range(len(lines)):
        row, position, filled = U(line), U(lines[line, FEATURES]), U(0)
        lines[line, UNSORTED] = 0
        while True:
            key = filled << U(2)
            if word_at(text, position) & keys[key + U(1)] == keys[key]:
                column = filled
                position += keys[key + U(2)]
            else:
                column, length = _short_index(word_at(text, position))
                column -= lowest
                position += length
                if length == U(0) or column >= beyond:
                    fault, position, column = _read_index(text, position - length, lowest, beyond)
                    if fault != FINE:
                        return line, fault, np.int64(position)
                    if column == _NO_COLUMN:
                        break
            digit = U(text[position]) - U(48)
            if digit < U(10) and text[position + U(1)] == _BLANK:  # in many files every second value
                value = np.float32(np.int64(digit))
                position += U(1)
            else:
                start, word = position, word_at(text, position)
                if word & U(255) == U(_MINUS):
                    position += U(1)
                    word = word_at(text, position)
                # Up to seven digits, a point, up to seven digits: an exact quotient. Written out here, because a
                # function of this size is not inlined, and calling it takes longer.
                length, digits, short = leading_digits(word)
                short = short and length > U(0)
                behind = (word >> (length << U(3))) & U(255)
                wide: float = np.float64(np.int64(number_of(digits, length)))
                if behind == _POINT:
                    word = word_at(text, position + length + U(1))
                    decimals, digits, ends = leading_digits(word)
                    short = short and ends
                    behind = (word >> (decimals << U(3))) & U(255)
                    length += decimals + U(1)
                    decimal_part = np.float64(np.int64(number_of(digits, decimals)))
                    wide = (wide * EXACT_POWERS[decimals] + decimal_part) / EXACT_POWERS[decimals]
                value = np.float32(-wide if position > start else wide)
                position += length
                # In the middle between two float32 the text decides; numbers this short are never that small.
                short = short and behind <= U(_BLANK) and np.float64(wide).view(np.uint64) & BELOW_FLOAT32 != MIDDLE
                if not short:  # any other number
                    mantissa, exponent, truncated, position = scan_decimal(text, start)
                    entry = power_row(exponent)
                    power = powers[entry, U(0)], powers[entry, U(1)], powers[entry, U(2)]
                    value, sure = nearest_float32(mantissa, exponent, truncated, power)
                    value = -value if text[start] == _MINUS else value
                    short = sure and position > start and text[position] <= _BLANK and abs(value) <= _MOST
                if not short:  # nan, a number for Python, or a fault
                    fault, position, value = _read_value(text, start, powers)
                    if fault == LATER:
                        if not _put_off(undecided, counts, line, np.int64(column), start, position):
                            return line, LIST_FULL, np.int64(start)
                    elif fault == STANDS_FOR_NAN:
                        counts[LARGEST] += 1
                    elif fault != FINE:
                        return line, fault, np.int64(start)
            if column >= columns:
                counts[WIDEST] = max(counts[WIDEST], np.int64(column) + 1)
                continue
            X[row, column] = value
            if column == filled:
                filled += U(1)
            elif column > filled:
                _fill(X, row, filled, column, absent)
                filled = column + U(1)
            else:
                lines[line, UNSORTED], counts[ANY_UNSORTED] = 1, 1
        _fill(X, row, filled, columns, absent)
        counts[WIDEST] = max(counts[WIDEST], np.int64(filled))
        lines[line, ENDING] = np.int64(position)
    return len(lines), FINE, 0


@kernel
def _fill(X: Array, row: np.uint64, column: np.uint64, end: np.uint64, value: np.float32) -> None:
    while column < end:
        X[row, column] = value
        column += U(1)


@kernel
def _short_index(word: np.uint64) -> tuple[np.uint64, np.uint64]:
    """A blank, up to six digits and a colon: the index and the length of all that; 0 if it is something else."""
    count, digits, _ = leading_digits(word >> U(8))
    behind = (word >> ((count << U(3)) + U(8))) & U(255)
    if word & U(255) != U(_BLANK) or count == U(0) or count > U(6) or behind != U(_COLON):
        return U(0), U(0)
    return number_of(digits, count), count + U(2)


@kernel
def _read_index(
    text: Array, position: np.uint64, lowest: np.uint64, beyond: np.uint64
) -> tuple[Whole, np.uint64, np.uint64]:
    """`index:` after blanks: (fault, position after it, column); no column at the end or before a comment."""
    field = _skip_blanks(text, position)
    if text[field] == _HASH or _at_line_end(text, field):
        return FINE, field, _NO_COLUMN
    position = field + U(text[field] == _MINUS)
    index = U(0)
    while U(text[position]) - U(48) < U(10):
        index = min(index * U(10) + U(text[position]) - U(48), _NO_COLUMN)
        position += U(1)
    if position == field or text[position] != _COLON:
        return NO_FIELD, field, U(0)
    if text[field] == _MINUS or index < lowest:
        return LOW_INDEX, field, U(0)
    if index - lowest >= beyond:
        return HIGH_INDEX, field, U(0)
    return FINE, position + U(1), index - lowest


@kernel
def _read_value(text: Array, position: np.uint64, powers: Array) -> tuple[Whole, np.uint64, np.float32]:
    """Any number that is finite as float32, or `nan`: (fault, position after it, value)."""
    mantissa, exponent, truncated, end = scan_decimal(text, position)
    row = power_row(exponent)
    power = powers[row, U(0)], powers[row, U(1)], powers[row, U(2)]
    value, sure = nearest_float32(mantissa, exponent, truncated, power)
    if end == position:
        value, sure, end = np.float32(np.nan), True, skip_nan(text, position)
    if end == position or not _ends_field(text[end]):
        return BAD_VALUE, position, np.float32(0.0)
    if not sure:
        return LATER, end, np.float32(0.0)
    if abs(value) > _MOST:
        wide, _, state = read_decimal(text, position, powers)
        if state == UNDECIDED:
            return LATER, end, np.float32(0.0)
        if LARGEST_DOUBLE <= wide < np.inf:
            return STANDS_FOR_NAN, end, np.float32(np.nan)
        return VALUE_RANGE, position, np.float32(0.0)
    return FINE, end, (-value if text[position] == _MINUS else value)


@kernel
def skip_nan(text: Array, position: np.uint64) -> np.uint64:
    """The position after `nan` in any case and with any sign (C prints `-nan`), or `position`."""
    start = position + U(text[position] == _MINUS or text[position] == _PLUS)
    lower = (word_at(text, start) & U(0xFFFFFF)) | U(0x202020)
    return start + U(3) if lower == _NAN else position


@kernel
def _put_off(undecided: Array, counts: Array, row: Whole, column: Whole, start: np.uint64, end: np.uint64) -> Truth:
    here = counts[WAITING]
    if here == len(undecided):
        return False
    undecided[here, 0], undecided[here, 1] = row, column
    undecided[here, 2], undecided[here, 3] = np.int64(start), np.int64(end)
    counts[WAITING] += 1
    return True


@kernel
def refuse_twice(text: Array, lines: Array, base: Whole, limit: Whole, seen: Array) -> Ending:
    """Find a feature named twice; only rows whose indices do not rise can have one.

    seen: (columns,) int64, zeros. Columns beyond it pass: such a piece is parsed again with all its columns.
    """
    columns = U(len(seen))
    for row in range(len(lines)):
        if lines[row, UNSORTED] == 0:
            continue
        position = U(lines[row, FEATURES])
        while True:
            field = _skip_blanks(text, position)
            _, position, column = _read_index(text, field, U(base), U(limit))
            if column == _NO_COLUMN:
                break
            if column < columns:
                if seen[column] == row + 1:
                    return row, TWICE, np.int64(field)
                seen[column] = row + 1
            while not _ends_field(text[position]):
                position += U(1)
    return len(lines), FINE, 0


@kernel
def read_endings(text: Array, lines: Array, notes: Array, counts: Array) -> Ending:
    """Read comments. notes: (rows, 4) int64, zeros, filled: comment from, to, document id from, to."""
    for row in range(len(lines)):
        position, newline = U(lines[row, ENDING]), U(lines[row, NEWLINE])
        if text[position] != _HASH:
            continue
        bad = _bad_byte(text, position, newline)
        if bad < newline:
            return row, BAD_COMMENT, np.int64(bad)
        start = position + U(1)
        end = newline - U(text[newline - U(1)] == _CR)
        notes[row, 0], notes[row, 1] = np.int64(start), np.int64(end)
        notes[row, 2], notes[row, 3] = _find_docid(text, start, end)
        counts[NOTED] += np.int64(end - start)
    return len(lines), FINE, 0


@kernel
def read_comment_ids(text: Array, lines: Array, notes: Array, runs: Array, counts: Array) -> Ending:
    """Read comments of one word as query ids. notes: of `read_endings`; runs, counts[RUNS]: see `read_heads`."""
    run, id_start, id_end = -1, U(0), U(0)
    for row in range(len(lines)):
        start, stop = U(notes[row, 0]), U(notes[row, 1])
        while start < stop and _is_blank(text[start]):
            start += U(1)
        while start < stop and _is_blank(text[stop - U(1)]):
            stop -= U(1)
        end = start
        while end < stop and text[end] > _BLANK and text[end] != _HASH:
            end += U(1)
        if start == stop or end < stop:
            return row, NO_ID, lines[row, ENDING]
        if run < 0 or not equal_bytes(text, id_start, id_end, start, end):
            run += 1
            runs[run, 0], runs[run, 1], runs[run, 2] = row, np.int64(start), np.int64(end)
            runs[run, 3] = lines[row, NUMBER]
        runs[run, 4] = lines[row, NUMBER]
        id_start, id_end = start, end
        counts[RUNS] = run + 1
    return len(lines), FINE, 0


@kernel
def _find_docid(text: Array, start: np.uint64, end: np.uint64) -> tuple[Whole, Whole]:
    """Where the id stands in a comment such as `docid = GX008-86-4444840 inc = 1`: (from, to), zeros if nowhere."""
    position = start
    while position + U(5) < end:
        if word_at(text, position) & U(0xFFFFFFFFFF) == _DOCID and (
            position == start or _is_blank(text[position - U(1)])
        ):
            here = _skip_blanks(text, position + U(5))
            if here < end and text[here] == _EQUALS:
                first = _skip_blanks(text, here + U(1))
                last = first
                while last < end and not _is_blank(text[last]):
                    last += U(1)
                if last > first:
                    return np.int64(first), np.int64(last)
        position += U(1)
    return 0, 0


@kernel
def find_docids(text: Array, offsets: Array, spans: Array) -> None:
    """The same for comments that lie one after the other; spans: (rows, 2) int64, filled."""
    for row in range(len(spans)):
        spans[row, 0], spans[row, 1] = _find_docid(text, U(offsets[row]), U(offsets[row + 1]))


@kernel
def copy_spans(text: Array, spans: Array, out: Array) -> None:
    """Copy text[from:to] of each row of spans (rows, 2) into `out`, one after the other."""
    position = U(0)
    for row in range(len(spans)):
        position = _copy(out, position, text, spans[row, 0], spans[row, 1])


@kernel
def _is_blank(byte: np.uint8) -> Truth:
    return byte in (_BLANK, _TAB)


@kernel
def _ends_field(byte: np.uint8) -> Truth:
    return byte in (_BLANK, _LF, _TAB, _CR, _HASH)


@kernel
def _skip_blanks(text: Array, position: np.uint64) -> np.uint64:
    while text[position] == _BLANK or text[position] == _TAB:
        position += U(1)
    return position


@kernel
def _at_line_end(text: Array, position: np.uint64) -> Truth:
    at_end: bool = text[position] == _LF or (text[position] == _CR and text[position + U(1)] == _LF)
    return at_end


@kernel
def equal_bytes(text: Array, start: np.uint64, end: np.uint64, other: np.uint64, other_end: np.uint64) -> Truth:
    if end - start != other_end - other:
        return False
    while start < end:
        if text[start] != text[other]:
            return False
        start += U(1)
        other += U(1)
    return True


@kernel
def write_rows(
    out: Array,
    X: Array,
    labels: tuple[Array, Array, Array],
    queries: tuple[Array, Array, Array],
    notes: tuple[Array, Array, Array],
    mark: Array,
    sparse: Truth,
    whole: Truth,
    keys: Array,
    powers: Array,
) -> Whole:
    """Write the rows of X (rows, columns) as lines into `out`, which must be long enough; the number of bytes.

    labels, queries, notes: texts as (bytes, offsets, which one for each row); mark: bytes before a note. sparse: leave
    out features that are 0, but (`whole`) not the last one of the first row, so that the width stays known. keys: of
    `fill_keys` for the columns, counted from 1.
    """
    position, columns = U(0), X.shape[1]
    for row in range(len(X)):
        position = _copy_text(out, position, labels, row)
        position = _copy_text(out, position, queries, row)
        for column in range(columns):
            value = X[row, column]
            bits = np.float32(value).view(np.uint32)  # -0 has one
            if sparse and bits == np.uint32(0) and not (whole and row == 0 and column == columns - 1):
                continue
            key, length = keys[U(column) << U(2)], keys[(U(column) << U(2)) + U(2)]
            if length == U(0):
                position = _write_long_key(out, position, U(column + 1))
            for _ in range(length):
                out[position] = np.uint8(key & U(255))
                position += U(1)
                key >>= U(8)
            digit = np.int64(value) if 0.0 <= value < 10.0 else np.int64(0)
            if np.float32(digit).view(np.uint32) == bits:  # 0 to 9
                out[position] = np.uint8(48 + digit)
                position += U(1)
            else:
                position = write_float32(out, position, value, powers)
        code = notes[2][row]
        if notes[1][code] < notes[1][code + 1]:
            position = _copy(out, position, mark, 0, len(mark))
            position = _copy_text(out, position, notes, row)
        out[position] = _LF
        position += U(1)
    return np.int64(position)


@kernel
def _write_long_key(out: Array, position: np.uint64, index: np.uint64) -> np.uint64:
    out[position] = _BLANK
    position = write_integer(out, position + U(1), index)
    out[position] = _COLON
    return position + U(1)


@kernel
def _copy_text(out: Array, position: np.uint64, texts: tuple[Array, Array, Array], row: Whole) -> np.uint64:
    data, offsets, codes = texts
    return _copy(out, position, data, offsets[codes[row]], offsets[codes[row] + 1])


@kernel
def _copy(out: Array, position: np.uint64, data: Array, start: Whole, end: Whole) -> np.uint64:
    here, stop = U(start), U(end)
    while here < stop:
        out[position] = data[here]
        position += U(1)
        here += U(1)
    return position
