"""Error messages of the LETOR parser: where, what was found, what was expected, what to do."""

from __future__ import annotations

import re

from podium.formats.errors import FormatError
from podium.formats.letor import kernels
from podium.formats.letor.parsing import Rules
from podium.formats.letor.pieces import Piece

_BLANKS = re.compile(rb"[ \t\r]*")
_FIELD = re.compile(rb"[^ \t\r#]*")
_COMMENT_OF_ONE_WORD = re.compile(rb"[^#]*#[ \t]*[^ \t\r#]+[ \t\r]*")


def explain(piece: Piece, rules: Rules, lines_before: int, row: int, fault: int, position: int) -> FormatError:
    """The error message of a fault: what was expected, what was found, what to do."""
    if row < len(piece.lines):
        number, newline = int(piece.lines[row, kernels.NUMBER]), int(piece.lines[row, kernels.NEWLINE])
    else:  # a comment after all rows
        number, newline = piece.n_lines, piece.buffer.find(b"\n", position)
    start = max(piece.buffer.rfind(b"\n", 0, position) + 1, piece.start)
    line = lines_before + number + 1
    message = _not_text(piece.buffer, start, newline)
    if message is None:
        text, last = _field_at(piece.buffer, start, newline, position)
        if fault == kernels.NO_ID:
            text = bytes(piece.buffer[position:newline]).strip()
        message = _words(rules, fault, text, unterminated=last and piece.unterminated and newline == piece.end - 1)
        if fault == kernels.NO_QID and _COMMENT_OF_ONE_WORD.fullmatch(piece.buffer, position, newline):
            message += ' If it stands behind "#", read the file with format="letor-comments" (--from letor-comments).'
    return FormatError(rules.path, message, line)


def _not_text(buffer: bytearray, start: int, newline: int) -> str | None:
    """Bytes that no text has, wherever the line became unreadable."""
    nul = buffer.find(b"\0", start, newline)
    if nul >= 0:
        return f"not LETOR text (NUL byte at column {nul - start + 1}); is it UTF-16 or compressed?"
    carriage_return = buffer.find(b"\r", start, newline - 1)
    if carriage_return >= 0:
        column = carriage_return - start + 1
        return f"not LETOR text (carriage return at column {column}, not at the end); write newlines between lines."
    first = buffer[start]
    if first >= 128 or (first < 32 and first != 9):
        return f"not LETOR text (byte 0x{first:02x} at column 1); is it compressed or binary?"
    return None


def _field_at(buffer: bytearray, start: int, newline: int, position: int) -> tuple[bytes, bool]:
    """The field at `position`, which may lie after its colon, and whether it is the last of its line."""
    if buffer[position - 1 : position] == b":":
        position = max(start, buffer.rfind(b" ", start, position) + 1, buffer.rfind(b"\t", start, position) + 1)
    end = _end_of(_FIELD, buffer, position, newline)
    return bytes(buffer[position:end]), _end_of(_BLANKS, buffer, end, newline) == newline


def _end_of(pattern: re.Pattern[bytes], buffer: bytearray, start: int, end: int) -> int:
    match = pattern.match(buffer, start, end)
    return start if match is None else match.end()


def _words(rules: Rules, fault: int, text: bytes, unterminated: bool) -> str:
    shown = shown_token(text)
    index, _, value = text.partition(b":")
    feature = f"feature {shortened(index.decode('ascii', 'backslashreplace'))}"
    if fault == kernels.BAD_LABEL and text.startswith(b"qid:"):
        advice = 'Rows without labels are read with labels="optional", and podium rank takes them.'
        return f"expected a label (a number, 0 or larger) as 1st field, found {shown}. {advice}"
    if fault == kernels.BAD_LABEL:
        return f"expected a label (a number, 0 or larger) as 1st field, found {shown}."
    if fault == kernels.LABEL_RANGE:
        return f"label {shown}; labels must be finite numbers, 0 or larger."
    if fault == kernels.NO_QID and text and not rules.with_label:
        return f"expected 'qid:<id>' as 1st field, found {shown}. The first row has no label, so none may have one."
    if fault == kernels.NO_QID and text:
        return f"expected 'qid:<id>' as 2nd field, found {shown}. Every line needs its query there."
    if fault in (kernels.NO_QID, kernels.BAD_QID):
        return f"expected 'qid:<id>' as 2nd field, found {shown if text else 'the end of the line'}. Name the query."
    if fault == kernels.NO_ID:
        shown = shown if text else "the end of the line"
        return f"expected '# <query id>' after the features, found {shown}. One word behind '#' names the query."
    if unterminated and fault in (kernels.NO_FIELD, kernels.BAD_VALUE):
        return f"the line ends inside 'feature:value', with {shown}. Is the file cut off?"
    if fault == kernels.NO_FIELD:
        return f"expected 'feature:value', found {shown}. Comments start with '#'."
    if fault == kernels.LOW_INDEX and rules.base == 1 and not index.startswith(b"-"):
        return (
            f"{feature}: indices count from 1. Pass zero_based=True (--zero-based) if those of this file count from 0."
        )
    if fault == kernels.LOW_INDEX:
        return f"{feature}: indices count from {rules.base}."
    if fault == kernels.HIGH_INDEX:
        return f"feature index {feature[8:]} exceeds {rules.limit_name}. Pass a larger number if the file is right."
    if fault == kernels.TWICE:
        return f"{feature} is in this row twice. Keep one value."
    if fault == kernels.BAD_VALUE and not value:
        return f"{feature} has no value: found {shown}, expected 'feature:value'."
    if fault == kernels.BAD_VALUE and value.lower().lstrip(b"+-") not in (b"inf", b"infinity"):
        return f"{feature}: cannot read {shown_token(value)} as a number."
    return f"{feature}: {shown_token(value)} is not finite as float32. Write nan for a missing value."


def shown_token(token: bytes) -> str:
    """A token between quotes, shortened, with everything that does not print escaped."""
    return repr(shortened(token.decode("utf-8", "backslashreplace")))


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}...{text[-10:]}"
