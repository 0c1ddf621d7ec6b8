"""Numbers in texts of other programs: many lists of numbers, separated by blanks, read by one call per block.

Each is the float64 nearest to its text, as Python reads it; or an integer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_slices
from podium.formats.decimals import PADDING, READ, power_table, read_decimal

_LISTS = 256  # per block
_LONGEST = 64  # bytes of a number that is left to Python
_LARGEST_INTEGER = 2.0**53
_SURE_DIGITS = 15  # of an integer that is below the largest one, whatever they are
U = np.uint64
WELL, WRONG, UNCLEAR = 0, 1, 2  # how a list was read; what is unclear, such as inf, is left to Python


class NumberText:
    """A text, and the numbers of lists in it. The text is not copied, unless it ends with a list."""

    def __init__(self, content: bytes, end: int) -> None:
        """end: no list ends behind it."""
        self.content = content if len(content) >= end + PADDING else content + b"\0" * PADDING
        self.bytes = readonly(np.frombuffer(self.content, np.uint8))

    def read(self, spans: Array, counts: Array, places: Array, out: Array) -> int | None:
        """Read counts[k] numbers of bytes spans[k, 0] to spans[k, 1] into `out` from places[k] on; the first bad list.

        out: float64, or int64 for integers of at most 53 bits.
        """
        faults, powers = np.full(len(spans), WELL, np.int64), readonly(power_table())
        work = _read_integers if out.dtype == np.int64 else _read_floats

        def read(part: slice) -> None:
            lists = readonly(spans[part]), readonly(counts[part]), readonly(places[part])
            work(self.bytes, *lists, powers, out, faults[part])

        map_slices(read, len(spans), _LISTS)
        for one in np.flatnonzero(faults == UNCLEAR).tolist():
            numbers = self._read_slowly(spans[one], int(counts[one]), out.dtype == np.int64)
            if numbers is not None:
                out[places[one] : places[one] + counts[one]] = numbers
                faults[one] = WELL
        wrong = np.flatnonzero(faults != WELL)
        return int(wrong[0]) if len(wrong) else None

    def _read_slowly(self, span: Array, count: int, whole: bool) -> list[float] | None:
        words = self.content[span[0] : span[1]].split()
        if len(words) != count or max(map(len, words), default=0) > _LONGEST:
            return None
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            return None
        if whole and not all(abs(number) < _LARGEST_INTEGER and number == int(number) for number in numbers):
            return None
        return numbers


def read_lists(texts: Sequence[bytes], counts: Array) -> tuple[Array, int | None]:
    """The numbers of the lists, one behind the other, counts[k] of texts[k], as float64; and the first bad list.

    The caller makes sure that the counts are not larger than the texts are long.
    """
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64) - 1
    spans = np.stack([ends - [len(text) for text in texts], ends], axis=1).reshape(-1, 2)
    content = b" ".join(texts) + b"\0" * PADDING
    places = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    numbers = np.empty(places[-1])
    return numbers, NumberText(content, len(content) - PADDING).read(spans, counts, places[:-1], numbers)


@kernel
def _read_floats(
    text: Array, spans: Array, counts: Array, places: Array, powers: Array, out: Array, faults: Array
) -> None:
    """out[places[k] + i] = number i of list k, which has counts[k] of them."""
    for one in range(len(counts)):
        here, end, to = U(spans[one, 0]), U(spans[one, 1]), places[one]
        last = to + counts[one]
        while True:
            while here < end and text[here] == 32:
                here += U(1)
            if here >= end:
                break
            value, after, how = read_decimal(text, here, powers)
            is_end = after <= end and (after == end or text[after] == 32)
            if how != READ or not is_end:
                faults[one] = UNCLEAR
            if faults[one] == UNCLEAR or to >= last:
                faults[one] = max(faults[one], WRONG)
                break
            out[to] = value
            to += 1
            here = after
        if faults[one] == WELL and to < last:
            faults[one] = WRONG


@kernel
def _read_integers(
    text: Array, spans: Array, counts: Array, places: Array, powers: Array, out: Array, faults: Array
) -> None:
    """As `_read_floats`, of a sign and digits alone."""
    for one in range(len(counts)):
        here, end, to = U(spans[one, 0]), U(spans[one, 1]), places[one]
        last = to + counts[one]
        while True:
            while here < end and text[here] == 32:
                here += U(1)
            if here >= end:
                break
            negative = text[here] == 45
            first = here + U(negative)
            here, value = first, np.int64(0)
            while here < end and U(text[here]) - U(48) < U(10) and here - first <= U(_SURE_DIGITS):
                value = value * 10 + np.int64(text[here]) - 48
                here += U(1)
            if here == first or here - first > U(_SURE_DIGITS) or (here < end and text[here] != 32):
                faults[one] = UNCLEAR
            if faults[one] == UNCLEAR or to >= last:
                faults[one] = max(faults[one], WRONG)
                break
            out[to] = -value if negative else value
            to += 1
        if faults[one] == WELL and to < last:
            faults[one] = WRONG
