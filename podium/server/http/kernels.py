"""Kernels: the matrix in a JSON body, read straight into float32.

Only what is plain is read here (numbers and null, rows of one length); of anything else the general reader takes care,
which has the words for it.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.formats.decimals import READ, Truth, U, Whole, read_decimal

NOT_PLAIN = -1

_OPEN, _CLOSE, _COMMA, _MINUS, _ZERO, _POINT = 91, 93, 44, 45, U(48), 46
_LARGEST = 3.4028235677973366e38  # from here on, the nearest float32 is infinite


@kernel
def read_matrix(text: Array, start: Whole, stop: Whole, powers: Array, X: Array) -> tuple[Whole, Whole]:
    """Read `[[1, 2.5, null], ...]` at `start` into the rows of X: (rows, position after it), or NOT_PLAIN twice.

    text: uint8, with `PADDING` zeros after `stop`; X: (any, features) float32, of which the first rows are filled.
    """
    end, features = U(stop), X.shape[1]
    position = _skip(text, U(start))
    if text[position] != _OPEN:
        return NOT_PLAIN, NOT_PLAIN
    position = _skip(text, position + U(1))
    row = 0
    while row < len(X) and text[position] == _OPEN:
        position += U(1)
        for column in range(features):
            position = _skip(text, position)
            value, after = _number(text, position, powers)
            if after == position:
                return NOT_PLAIN, NOT_PLAIN
            X[U(row), U(column)] = value
            position = _skip(text, after)
            if text[position] != (_COMMA if column < features - 1 else _CLOSE):
                return NOT_PLAIN, NOT_PLAIN
            position += U(1)
        row += 1
        position = _skip(text, position)
        if text[position] == _CLOSE and position < end:
            after = position + U(1)
            plain = not _has_bare_point(text[U(start) : after])
            return (row, np.int64(after)) if plain else (NOT_PLAIN, NOT_PLAIN)
        if text[position] != _COMMA:
            return NOT_PLAIN, NOT_PLAIN
        position = _skip(text, position + U(1))
    return NOT_PLAIN, NOT_PLAIN


@kernel
def _skip(text: Array, position: np.uint64) -> np.uint64:
    """The first position from here on without white space."""
    while text[position] == 32 or text[position] == 10 or text[position] == 13 or text[position] == 9:
        position += U(1)
    return position


@kernel
def _number(text: Array, position: np.uint64, powers: Array) -> tuple[np.float32, np.uint64]:
    """A number of JSON or null: (value, position after it); the same position where it is neither."""
    first = position + U(text[position] == _MINUS)
    digit = U(text[first]) - _ZERO
    if digit > U(9):  # also below: unsigned numbers wrap around
        is_null = (
            text[position] == 110
            and text[position + U(1)] == 117
            and text[position + U(2)] == 108
            and text[position + U(3)] == 108
        )
        return np.float32(np.nan), (position + U(4) if is_null else position)
    if digit == U(0) and U(text[first + U(1)]) - _ZERO <= U(9):  # 01 is no number in JSON
        return np.float32(0.0), position
    value, end, state = read_decimal(text, position, powers)
    if state != READ or not abs(value) < _LARGEST:
        return np.float32(0.0), position
    return np.float32(value), end


@kernel
def _has_bare_point(text: Array) -> Truth:
    """Whether a point has no digit behind it."""
    bare = 0
    for here in range(len(text) - 1):
        bare |= (text[here] == _POINT) & ((text[here + 1] < 48) | (text[here + 1] > 57))
    return bare > 0
