"""UBJSON, value by value, from a function that calls itself; the document is scored as that of JSON."""

import struct

from exchange.plain.xgboost import scores_of

NUMBERS = {"i": "b", "U": "B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}


def scores(content, X):
    document, end = value(content, 0)
    assert end == len(content)
    return scores_of(document, X)


def number(content, at, marker):
    size = struct.calcsize(NUMBERS[marker])
    return struct.unpack(NUMBERS[marker], content[at : at + size])[0], at + size


def text(content, at):
    size, at = number(content, at + 1, chr(content[at]))
    return content[at : at + size].decode(), at + size


def value(content, at):
    marker, at = chr(content[at]), at + 1
    if marker == "{":
        return whole_object(content, at)
    if marker == "[":
        return whole_array(content, at)
    if marker == "S":
        return text(content, at)
    if marker in "TFZ":
        return {"T": True, "F": False, "Z": None}[marker], at
    return number(content, at, marker)


def skip(content, at):
    while content[at : at + 1] == b"N":
        at += 1
    return at


def whole_object(content, at):
    values, at = {}, skip(content, at)
    while content[at : at + 1] != b"}":
        key, at = text(content, at)
        values[key], at = value(content, at)
        at = skip(content, at)
    return values, at + 1


def whole_array(content, at):
    marker, values, count = None, [], None
    if content[at : at + 1] == b"$":
        marker, at = chr(content[at + 1]), at + 2
    if content[at : at + 1] == b"#":
        count, at = number(content, at + 2, chr(content[at + 1]))
        for _ in range(count):
            one, at = value(content, at) if marker is None else number(content, at, marker)
            values.append(one)
        return values, at
    at = skip(content, at)
    while content[at : at + 1] != b"]":
        one, at = value(content, at)
        values.append(one)
        at = skip(content, at)
    return values, at + 1
