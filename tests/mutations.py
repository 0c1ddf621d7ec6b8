"""Damage to a file, one kind a function: each changes some of the content in place."""

import numpy as np


def flip(content: bytearray, rng: np.random.Generator) -> None:
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))


def flip_at_the_front(content: bytearray, rng: np.random.Generator) -> None:
    content[rng.integers(64)] ^= 1 << int(rng.integers(8))


def flip_in_the_padding(content: bytearray, rng: np.random.Generator) -> None:
    zeros = np.flatnonzero(np.frombuffer(content, np.uint8) == 0)
    content[rng.choice(zeros)] ^= 1 << int(rng.integers(8))


def overwrite(content: bytearray, rng: np.random.Generator) -> None:
    place, length = int(rng.integers(len(content))), int(rng.integers(1, 80))
    content[place : place + length] = rng.bytes(len(content[place : place + length]))


def huge_number(content: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(content) // 4)) * 4
    content[place : place + 8] = rng.choice([b"\xff" * 8, b"\0" * 8, b"\0\0\0\0\0\1\0\0"])[: len(content) - place]


def cut(content: bytearray, rng: np.random.Generator) -> None:
    del content[rng.integers(len(content)) :]


def delete(content: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(content)))
    del content[place : place + int(rng.integers(1, 200))]


def duplicate(content: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(content)))
    content[place:place] = content[place : place + int(rng.integers(1, 200))]


def splice(content: bytearray, rng: np.random.Generator) -> None:
    (start, target), length = rng.integers(len(content), size=2).tolist(), int(rng.integers(1, 300))
    content[target : target + length] = content[start : start + length]


def swap_blocks(content: bytearray, rng: np.random.Generator) -> None:
    one, other = (rng.integers(len(content) // 64, size=2) * 64).tolist()
    content[one : one + 64], content[other : other + 64] = content[other : other + 64], content[one : one + 64]


def append(content: bytearray, rng: np.random.Generator) -> None:
    content += rng.bytes(int(rng.integers(1, 200)))
