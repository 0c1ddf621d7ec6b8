r"""Words: texts as numbers of distinct words, the same words as `analysis.split_words` gives.

ASCII text is split by a kernel that reads bytes: letters, digits and _ are what \w matches there, and NFKC changes none
of them. Any other text is split by the definition in Python, and its words are passed to the same kernel, separated by
blanks: what is left of other characters then belongs to words.

Words are numbered by a hash table. All threads look up words at once, in a table that nobody changes meanwhile; the
words that it does not have are then entered by one thread, in the order of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, inlined_bare_kernel
from podium._runtime.threads import map_blocks, usable_threads
from podium.data.texts import Texts
from podium.search.analysis.analyser import Analyser, split_words

_SEPARATOR = "\n"  # behind each text and each stored word; no word has it
_SHORT = 8  # bytes of a word that is its own key
_WORTH_THREADS = 1 << 17  # bytes
_MOST_AT_ONCE = 1 << 22  # characters, unless a text has more: a new word takes several times its length

_8, _32 = np.uint64(8), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_LONG = np.uint64(1 << 63)
# Odd numbers below 2**32: the product with 32 bits has no more than 64.
_FACTOR, _OTHER = np.uint64(0x9E3779B1), np.uint64(0x85EBCA77)
NEXT, WORDS, POOL = range(3)  # entries of `state`


def _letter_table() -> Array:
    """Per byte the byte of the word, 0 between words."""
    table = np.zeros(256, np.uint8)
    for byte in range(256):
        if byte >= 128 or chr(byte).isalnum() or chr(byte) == "_":
            table[byte] = ord(chr(byte).lower()) if byte < 128 else byte
    return table


LETTERS = _letter_table()
AS_THEY_ARE = np.where(np.arange(256) == ord(_SEPARATOR), 0, np.arange(256)).astype(np.uint8)


class Vocabulary:
    """Distinct words, numbered in order of appearance, in a hash table that grows."""

    def __init__(self) -> None:
        self._slots = np.zeros((1 << 13, 2), np.uint64)  # key; number + 1 (0: free), with a mark for long words
        self._pool = np.empty(1 << 16, np.uint8)  # the letters of all words, a separator behind each
        self._starts = np.zeros(len(self._slots) // 2 + 2, np.int64)
        self._n_words, self._used = 0, 0

    def __len__(self) -> int:
        return self._n_words

    def words(self, first: int = 0) -> list[str]:
        """The words from number `first` on."""
        return str(self._pool[self._starts[first] : self._used].data, "utf-8").split(_SEPARATOR)[:-1]

    def texts(self) -> Texts:
        """All words."""
        content = self._pool[: self._used]
        starts = self._starts[: self._n_words + 1]
        return Texts(content[content != ord(_SEPARATOR)], starts - np.arange(len(starts)))

    def numbers(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Word numbers of all texts, one after the other, and where those of each text end."""
        sizes = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        cuts = np.flatnonzero(np.diff(sizes // _MOST_AT_ONCE)) + 1
        if not len(cuts):
            return self._numbers(texts)
        blocks = [self._numbers(texts[a:b]) for a, b in pairwise([0, *cuts.tolist(), len(texts)])]
        before = np.cumsum([0, *(len(tokens) for tokens, _ in blocks)]).tolist()
        ends = [ends + size for (_, ends), size in zip(blocks, before)]
        return np.concatenate([tokens for tokens, _ in blocks]), np.concatenate(ends)

    def _numbers(self, texts: Sequence[str]) -> tuple[Array, Array]:
        data, ends = _encoded(texts)
        parts = 1 if len(data) < _WORTH_THREADS else usable_threads(None)
        bounds = np.searchsorted(ends, np.linspace(0, len(data), parts + 1)[1:-1])
        bounds = np.concatenate([[0], bounds, [len(ends)]])
        token_ends = np.empty(len(ends), np.int64)
        blocks = map_blocks(lambda part: self._look_up(data, ends, bounds[part : part + 2], token_ends), parts)
        before = 0
        for part, (tokens, missing) in enumerate(blocks):
            tokens[missing[:, 0]] = self._entered(data, LETTERS, missing[:, 1])
            token_ends[bounds[part] : bounds[part + 1]] += before
            before += len(tokens)
        return np.concatenate([tokens for tokens, _ in blocks]), token_ends

    def _look_up(self, data: Array, ends: Array, bounds: Array, token_ends: Array) -> tuple[Array, Array]:
        """Numbers of the words of some texts; of those that are not known, (place among these, first byte)."""
        first, last = bounds.tolist()
        n_bytes = int(ends[last - 1] if last else 0) - int(ends[first - 1] if first else 0)
        tokens, missing = np.empty(n_bytes // 2 + 1, np.int32), np.empty((n_bytes // 2 + 1, 2), np.int64)
        n_tokens, n_missing = split_bytes(
            data, ends, first, last, LETTERS, self._slots, self._pool, self._starts, tokens, token_ends, missing
        )
        return tokens[:n_tokens], missing[:n_missing].copy()

    def enter(self, words: Sequence[str]) -> Array:
        """The number of each word, which is entered as it is; it may be empty, and has no line break."""
        data = np.frombuffer((_SEPARATOR.join(words) + _SEPARATOR).encode(), np.uint8)
        begins = np.append(0, np.flatnonzero(data == ord(_SEPARATOR)) + 1)[: len(words)]
        return self._entered(data, AS_THEY_ARE, begins)

    def _entered(self, data: Array, letters: Array, begins: Array) -> Array:
        """The numbers of the words that begin at these bytes; new ones are entered."""
        numbers = np.empty(len(begins), np.int32)
        if not len(begins):
            return numbers
        self._reserve(len(data))
        state = np.array([0, self._n_words, self._used], np.int64)
        while not enter_words(data, letters, begins, self._slots, self._pool, self._starts, numbers, state):
            self._n_words = int(state[WORDS])  # the table is half full
            self._grow()
        self._n_words, self._used = int(state[WORDS]), int(state[POOL])
        return numbers

    def _reserve(self, n_bytes: int) -> None:
        if self._used + n_bytes > len(self._pool):
            pool = np.empty(2 * (self._used + n_bytes), np.uint8)
            pool[: self._used] = self._pool[: self._used]
            self._pool = pool

    def _grow(self) -> None:
        slots = np.zeros((2 * len(self._slots), 2), np.uint64)
        starts = np.zeros(len(slots) // 2 + 2, np.int64)
        starts[: self._n_words + 1] = self._starts[: self._n_words + 1]
        move_slots(self._slots, slots)
        self._slots, self._starts = slots, starts


def _encoded(texts: Sequence[str]) -> tuple[Array, Array]:
    """All texts as bytes, a separator behind each, and where each ends, separator included."""
    joined = _SEPARATOR.join(texts)
    if not joined.isascii():
        texts = [text if text.isascii() else " ".join(split_words(text)) for text in texts]
        joined = _SEPARATOR.join(texts)
    data = np.frombuffer((joined + _SEPARATOR).encode(), np.uint8)
    lengths = map(len, texts) if joined.isascii() else (len(text.encode()) for text in texts)
    return data, np.cumsum(np.fromiter(lengths, np.int64, len(texts)) + 1)


@bare_kernel
def split_bytes(
    data: Array,
    ends: Array,
    first: int,
    last: int,
    letters: Array,
    slots: Array,
    pool: Array,
    starts: Array,
    tokens: Array,
    token_ends: Array,
    missing: Array,
) -> tuple[Any, Any]:
    """Look up the words of texts first:last, each with a separator at its end. (words, words that are missing)."""
    n_tokens, n_missing = 0, 0
    byte = ends[first - 1] if first > 0 else 0
    for text in range(first, last):
        end = ends[text]
        while byte < end:
            if letters[data[byte]] == 0:
                byte += 1
                continue
            begin = byte
            key, code, byte = _read_word(data, letters, begin)
            slot = _find_slot(key, code, data, letters, begin, byte - begin, slots, pool, starts)
            entry = slots[slot, 1]
            tokens[n_tokens] = np.int64(entry & _LOW) - 1
            if entry == 0:
                missing[n_missing, 0], missing[n_missing, 1] = n_tokens, begin
                n_missing += 1
            n_tokens += 1
        token_ends[text] = n_tokens
    return n_tokens, n_missing


@bare_kernel
def enter_words(
    data: Array, letters: Array, begins: Array, slots: Array, pool: Array, starts: Array, numbers: Array, state: Array
) -> bool:
    """Number the words that begin at these bytes. False: the table is half full; grow it and call again.

    state: the next word of these, how many words there are, and how many bytes they have in the pool.
    """
    n_words, used = state[WORDS], state[POOL]
    for i in range(state[NEXT], len(begins)):
        if 2 * n_words >= len(slots):
            state[NEXT], state[WORDS], state[POOL] = i, n_words, used
            return False
        begin = begins[i]
        key, code, byte = _read_word(data, letters, begin)
        slot = _find_slot(key, code, data, letters, begin, byte - begin, slots, pool, starts)
        if slots[slot, 1] == 0:
            for position in range(begin, byte):
                pool[used] = letters[data[position]]
                used += 1
            pool[used] = 10  # the separator
            used += 1
            n_words += 1
            starts[n_words] = used
            slots[slot, 0], slots[slot, 1] = key, np.uint64(n_words)
            if byte - begin > _SHORT:
                slots[slot, 0], slots[slot, 1] = code, np.uint64(n_words) | _LONG
        numbers[i] = np.int64(slots[slot, 1] & _LOW) - 1
    state[NEXT], state[WORDS], state[POOL] = len(begins), n_words, used
    return True


@inlined_bare_kernel
def _read_word(data: Array, letters: Array, byte: Any) -> tuple[np.uint64, np.uint64, Any]:
    """(key, code, end) of the word that begins here: its last 8 bytes at most, and what became of those before."""
    key, code, left = np.uint64(0), np.uint64(0), _SHORT
    letter = letters[data[byte]]
    while letter != 0:
        if left == 0:
            code, key, left = _mixed(code ^ key), np.uint64(0), _SHORT
        key = (key << _8) | np.uint64(letter)
        left -= 1
        byte += 1
        letter = letters[data[byte]]
    return key, _mixed(code ^ key), byte


@inlined_bare_kernel
def _mixed(bits: np.uint64) -> np.uint64:
    """A hash of 64 bits, by products that never exceed 64 bits."""
    product, other = (bits & _LOW) * _FACTOR, (bits >> _32) * _OTHER
    mixed = product ^ ((other << _32) | (other >> _32))
    return mixed ^ (mixed >> _32)


@inlined_bare_kernel
def _find_slot(
    key: np.uint64,
    code: np.uint64,
    data: Array,
    letters: Array,
    begin: Any,
    length: Any,
    slots: Array,
    pool: Array,
    starts: Array,
) -> np.uint64:
    """The slot of a word, or the free one where it belongs. The key of a short word is the word itself."""
    mask = np.uint64(len(slots) - 1)
    slot = code & mask
    if length <= _SHORT:
        while slots[slot, 1] != 0 and (slots[slot, 0] != key or slots[slot, 1] & _LONG != 0):
            slot = (slot + np.uint64(1)) & mask
        return slot
    while slots[slot, 1] != 0:
        if slots[slot, 0] == code and slots[slot, 1] & _LONG != 0:
            word = np.int64(slots[slot, 1] & _LOW) - 1
            start = starts[word]
            if starts[word + 1] - start == length + 1:
                same = 0
                while same < length and pool[start + same] == letters[data[begin + same]]:
                    same += 1
                if same == length:
                    return slot
        slot = (slot + np.uint64(1)) & mask
    return slot


@bare_kernel
def move_slots(old: Array, new: Array) -> None:
    """Enter all words of a table into an empty one."""
    mask = np.uint64(len(new) - 1)
    for old_slot in range(len(old)):
        key, entry = old[old_slot, 0], old[old_slot, 1]
        if entry != 0:
            slot = (key if entry & _LONG != 0 else _mixed(key)) & mask
            while new[slot, 1] != 0:
                slot = (slot + np.uint64(1)) & mask
            new[slot, 0], new[slot, 1] = key, entry


class TermNumbers:
    """Texts as numbers of words, and the term of each word: each distinct word is analysed once."""

    def __init__(self, analyser: Analyser) -> None:
        self.analyser = analyser
        self._words, self._terms = Vocabulary(), Vocabulary()
        self._term_of_word = np.empty(0, np.int32)

    @property
    def terms(self) -> Texts:
        return self._terms.texts()

    @property
    def of_words(self) -> Array:
        """Per word the number of its term, -1 for a stop word."""
        return self._term_of_word[: len(self._words)]

    def words(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Word numbers of all texts, and where those of each text end."""
        known = len(self._words)
        numbered = self._words.numbers(texts)
        if known < len(self._words):
            self._analyse_from(known)
        return numbered

    def numbers(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Term numbers of all texts, -1 for a stop word, and where those of each text end."""
        words, ends = self.words(texts)
        return self._term_of_word[words], ends

    def _analyse_from(self, known: int) -> None:
        """Enter the terms of the words from number `known` on."""
        terms = self.analyser.terms_of(self._words.words(known))
        numbers = self._terms.enter(["" if term is None else term for term in terms])
        numbers[[word for word, term in enumerate(terms) if term is None]] = -1
        if len(self._words) > len(self._term_of_word):
            larger = np.empty(2 * len(self._words), np.int32)
            larger[:known] = self._term_of_word[:known]
            self._term_of_word = larger
        self._term_of_word[known : len(self._words)] = numbers
