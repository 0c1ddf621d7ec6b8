r"""Words: texts as numbers of distinct words, the same words as `analysis.split_words` gives.

ASCII text is split by a kernel that reads bytes: letters, digits and _ are what \w matches there, and NFKC changes none
of them. Any other text is split by the definition in Python, and its words are passed to the same kernel, separated by
blanks: what is left of other characters then belongs to words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from podium._runtime.compiler import bare_kernel
from podium.search.analysis import Analyser, split_words

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
TEXT, BYTE, TOKEN, WORDS, POOL = range(5)  # entries of `state`


def _letter_table() -> np.ndarray:
    """Per byte the byte of the word, 0 between words."""
    table = np.zeros(256, np.uint8)
    for byte in range(256):
        if byte >= 128 or chr(byte).isalnum() or chr(byte) == "_":
            table[byte] = ord(chr(byte).lower()) if byte < 128 else byte
    return table


LETTERS = _letter_table()


class Vocabulary:
    """Distinct words, numbered in order of appearance, in a hash table that grows."""

    def __init__(self) -> None:
        self._slots = np.zeros(1 << 12, np.uint64)  # upper half: a part of the hash; lower half: number + 1, or 0
        self._pool = np.empty(1 << 16, np.uint8)  # the letters of all words
        self._starts = np.zeros(len(self._slots) // 2 + 2, np.int64)
        self._n_words, self._used = 0, 0

    def __len__(self) -> int:
        return self._n_words

    def words(self, first: int = 0) -> list[str]:
        """The words from number `first` on."""
        content, ends = self._pool.data, self._starts[first : self._n_words + 1].tolist()
        return [str(content[start:end], "utf-8") for start, end in pairwise(ends)]

    def numbers(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Word numbers of all texts, one after the other, and where those of each text end."""
        data, ends = _encoded(texts)
        self._reserve(len(data))
        tokens, token_ends = np.empty(len(data) // 2 + len(texts) + 1, np.int32), np.empty(len(texts), np.int64)
        state = np.array([0, 0, 0, self._n_words, self._used], np.int64)
        while not split_bytes(
            data, ends, LETTERS, self._slots, self._pool, self._starts, tokens, token_ends, state
        ):  # the table is half full
            self._n_words = int(state[WORDS])
            self._grow()
        self._n_words, self._used = int(state[WORDS]), int(state[POOL])
        return tokens[: state[TOKEN]], token_ends

    def _reserve(self, n_bytes: int) -> None:
        if self._used + n_bytes > len(self._pool):
            pool = np.empty(2 * (self._used + n_bytes), np.uint8)
            pool[: self._used] = self._pool[: self._used]
            self._pool = pool

    def _grow(self) -> None:
        slots = np.zeros(4 * len(self._slots), np.uint64)
        starts = np.zeros(len(slots) // 2 + 2, np.int64)
        starts[: self._n_words + 1] = self._starts[: self._n_words + 1]
        fill_slots(slots, self._pool, starts, self._n_words)
        self._slots, self._starts = slots, starts


def _encoded(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    parts = [text.encode() if text.isascii() else " ".join(split_words(text)).encode() for text in texts]
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    return np.frombuffer(b"".join(parts), np.uint8), ends


@bare_kernel
def split_bytes(
    data: np.ndarray,
    ends: np.ndarray,
    letters: np.ndarray,
    slots: np.ndarray,
    pool: np.ndarray,
    starts: np.ndarray,
    tokens: np.ndarray,
    token_ends: np.ndarray,
    state: np.ndarray,
) -> bool:
    """Number the words of texts, of which text i ends at ends[i]. False: the table is full; grow it and call again.

    A word is written behind the pool as it is read; a new one stays there. state: the next text, byte and token, and
    how many words and letters there are.
    """
    text, byte, token, n_words, used = state[TEXT], state[BYTE], state[TOKEN], state[WORDS], state[POOL]
    mask = np.uint64(len(slots) - 1)
    complete = True
    while text < len(ends) and complete:
        end = ends[text]
        while byte < end:
            letter = letters[data[byte]]
            if letter == 0:
                byte += 1
                continue
            if 2 * n_words >= len(slots):
                complete = False
                break
            code, length = _OFFSET, 0
            while letter != 0:
                pool[used + length] = letter
                code = (code ^ np.uint64(letter)) * _PRIME
                length += 1
                byte += 1
                if byte == end:
                    break
                letter = letters[data[byte]]
            word, slot = _find_word(code, slots, mask, pool, starts, used, length)
            if word < 0:
                word = n_words
                n_words += 1
                used += length
                starts[n_words] = used
                slots[slot] = (code & ~_LOW) | np.uint64(n_words)
            tokens[token] = word
            token += 1
        if complete:
            token_ends[text] = token
            text += 1
    state[TEXT], state[BYTE], state[TOKEN], state[WORDS], state[POOL] = text, byte, token, n_words, used
    return complete


@bare_kernel
def _find_word(
    code: np.uint64, slots: np.ndarray, mask: np.uint64, pool: np.ndarray, starts: np.ndarray, used: int, length: int
) -> tuple[Any, np.uint64]:
    """(number of the word of so many letters behind the pool, its slot); -1 and a free slot for a new word."""
    slot = (code ^ (code >> _HALF)) & mask
    while slots[slot] != 0:
        if (slots[slot] ^ code) & ~_LOW == 0:
            word = np.int64(slots[slot] & _LOW) - 1
            start = starts[word]
            if starts[word + 1] - start == length:
                same = 0
                while same < length and pool[start + same] == pool[used + same]:
                    same += 1
                if same == length:
                    return word, slot
        slot = (slot + np.uint64(1)) & mask
    return -1, slot


@bare_kernel
def fill_slots(slots: np.ndarray, pool: np.ndarray, starts: np.ndarray, n_words: int) -> None:
    """Enter words that are all different into an empty table."""
    mask = np.uint64(len(slots) - 1)
    for word in range(n_words):
        code = _OFFSET
        for place in range(starts[word], starts[word + 1]):
            code = (code ^ np.uint64(pool[place])) * _PRIME
        slot = (code ^ (code >> _HALF)) & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (code & ~_LOW) | np.uint64(word + 1)


class TermNumbers:
    """Texts as numbers of terms: each distinct word is analysed once."""

    def __init__(self, analyser: Analyser) -> None:
        self.analyser = analyser
        self.terms: list[str] = []
        self._numbers: dict[str, int] = {}
        self._vocabulary = Vocabulary()
        self._term_of_word = np.empty(0, np.int32)

    def numbers(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Term numbers of all texts, -1 for a stop word, and where those of each text end."""
        words, ends = self._vocabulary.numbers(texts)
        known = len(self._term_of_word)
        if known < len(self._vocabulary):
            new = self._numbered(self.analyser.terms_of(self._vocabulary.words(known)))
            self._term_of_word = np.append(self._term_of_word, new).astype(np.int32)
        return self._term_of_word[words], ends

    def _numbered(self, new: list[str | None]) -> list[int]:
        known, numbers = self._numbers, []
        for term in new:
            number = -1 if term is None else known.get(term, len(known))
            if term is not None and number == len(known):
                known[term] = number
                self.terms.append(term)
            numbers.append(number)
        return numbers
