"""The trees of LightGBM's text as nodes. Lines are located, their numbers read on all cores, and all of it is checked.

The text is not copied, and passes over the nodes take as many at a time as the caches hold: files have 100 MB and more.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium.exchange.nodes import Nodes, forest_of_parts
from podium.exchange.rounding import at_most
from podium.exchange.text_numbers import NumberText
from podium.formats.decimals import word_at
from podium.learners.trees.scoring.categories import CategorySets
from podium.learners.trees.scoring.forest import Forest
from podium.models.imported import AS_IS, TINY, TRUNCATED, ZERO_MISSING

ZERO_TYPE, NAN_TYPE = 1, 2  # bits 2 and 3 of decision_type: what is missing; others: nothing, NaN is 0
CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits 0 and 1
_MOST_CATEGORY = 2**24  # float32 holds every integer below
_LINES = (
    b"num_leaves", b"num_cat", b"split_feature", b"split_gain", b"threshold", b"decision_type", b"left_child",
    b"right_child", b"leaf_value", b"leaf_count", b"internal_count", b"cat_boundaries", b"cat_threshold", b"is_linear",
)  # fmt: skip
_KINDS = 3  # of splits that a feature has
_OF_PLAIN, _OF_ZERO, _OF_SET = 0, 1, 2
PART_NODES = 2**17  # what is read at a time
U = np.uint64
_TREE, _END, _OF_TREES = (U(int.from_bytes(word, "little")) for word in (b"Tree=", b"end of t", b"of trees"))


class Blocks:
    """The blocks of some trees, and where the lines of each have their numbers."""

    def __init__(self, text: NumberText, spans: dict[bytes, Array], first_tree: int = 0) -> None:
        self.text, self.spans, self.first_tree = text, spans, first_tree

    @classmethod
    def of(cls, content: bytes) -> tuple[Blocks, int, int]:
        """All of a file without carriage returns, and where the first tree and the line after the last one begin."""
        last = content.rfind(b"\nend of trees") + 1
        if last == 0:
            raise ValueError("there is no line 'end of trees'. Is the file cut short?")
        text, places = NumberText(content, last + 12), np.zeros(3, np.int64)
        names = np.zeros((len(_LINES), max(map(len, _LINES)) + 2), np.uint8)
        for number, name in enumerate(_LINES):
            names[number, : len(name) + 1] = np.frombuffer(name + b"=", np.uint8)
        _find_lines(text.bytes, readonly(names), np.empty((len(_LINES), 0, 2), np.int64), places)  # how many there are
        spans = np.zeros((len(_LINES), places[0], 2), np.int64)
        _find_lines(text.bytes, readonly(names), spans, places)
        return cls(text, dict(zip(_LINES, spans))), int(places[1]), int(places[2])

    @property
    def n_trees(self) -> int:
        return len(self.spans[b"num_leaves"])

    def part(self, trees: slice) -> Blocks:
        """Some of the trees."""
        return Blocks(self.text, {name: spans[trees] for name, spans in self.spans.items()}, trees.start)

    def lengths(self, name: bytes) -> Array:
        """How many bytes the line of each tree has; 0 where it has none."""
        return np.diff(self.spans[name], axis=1)[:, 0]

    def count_words(self, name: bytes) -> Array:
        """How many numbers the line of each tree has."""
        content = self.text.content
        return np.array([len(content[first:last].split()) for first, last in self.spans[name].tolist()], np.int64)

    def read(self, name: bytes, counts: Array, places: Array, out: Array, optional: bool = False) -> Array:
        """Read the line of all trees, counts[t] numbers of tree t, into `out` from places[t] on, and return `out`.

        optional: it stays as it is if a tree has no such line.
        """
        if optional and ((self.lengths(name) == 0) & (counts > 0)).any():
            return out
        wrong = self.text.read(np.where(counts[:, None] > 0, self.spans[name], 0), counts, places, out)
        if wrong is not None:
            expected = f"{counts[wrong]} {'integers' if out.dtype == np.int64 else 'numbers'}"
            raise ValueError(f"tree {self.first_tree + wrong + 1}: the line {name.decode()}= must have {expected}.")
        return out

    def integers(self, name: bytes, counts: Array) -> Array:
        """The integers of all trees, one list behind the other."""
        ends = np.cumsum(counts)
        return self.read(name, counts, ends - counts, np.empty(int(counts.sum()), np.int64))

    def refuse_linear(self) -> None:
        first, last = self.spans[b"is_linear"].T
        is_plain = (last == 0) | ((last == first + 1) & (self.text.bytes[first] == ord("0")))
        if not is_plain.all():
            problem = f"tree {int(np.argmin(is_plain)) + 1} has linear functions in its leaves, which are not supported"
            raise ValueError(f"{problem}. Train it with linear_tree=false.")


def read_trees(blocks: Blocks, n_features: int, is_own: bool) -> tuple[Forest, Array]:
    """The trees as a forest, and what is done to each feature."""
    blocks.refuse_linear()
    n_leaves, flags = _read_sizes(blocks), np.zeros((n_features, _KINDS), np.uint8)
    ends = np.concatenate([[0], np.cumsum(2 * n_leaves - 1)])
    bounds = [*np.searchsorted(ends[:-1], np.arange(0, ends[-1], PART_NODES)).tolist(), blocks.n_trees]
    parts = [slice(first, last) for first, last in pairwise(dict.fromkeys(bounds))]

    def read(number: int) -> Nodes:
        trees = parts[number]
        return _read_nodes(blocks.part(trees), n_leaves[trees], is_own, flags)

    sizes = [int(ends[trees.stop] - ends[trees.start]) for trees in parts]
    forest = forest_of_parts(sizes, read, 0.0, n_features)
    return forest, _prepared(flags)


def _read_nodes(blocks: Blocks, n_leaves: Array, is_own: bool, flags: Array) -> Nodes:
    """The nodes of some trees, splits before leaves; `flags` are set of the features that they ask for."""
    n_splits = n_leaves - 1
    ends = np.cumsum(n_splits + n_leaves)
    total, starts = int(ends[-1]), ends - n_splits - n_leaves

    def of_splits(name: bytes, out: Array, optional: bool = False) -> Array:
        return blocks.read(name, n_splits, starts, out, optional)

    def of_leaves(name: bytes, out: Array, optional: bool = False) -> Array:
        return blocks.read(name, n_leaves, starts + n_splits, out, optional)

    feature = of_splits(b"split_feature", np.full(total, -1, np.int64))
    kinds = of_splits(b"decision_type", np.zeros(total, np.int64))
    threshold = of_splits(b"threshold", np.zeros(total))
    left, right = (
        _linked(blocks, name, of_splits(name, np.full(total, -1, np.int64)), starts, n_splits)
        for name in (b"left_child", b"right_child")
    )
    _flag_kinds(feature, kinds, flags)  # on several threads at once: a flag is set, never cleared
    of_set, sets, empty = _sets(blocks, threshold, kinds, feature, starts)
    single, missing_right = _routes(threshold, kinds, is_own)
    single[empty] = -np.inf  # nothing is listed: all values go right
    count = of_leaves(b"leaf_count", of_splits(b"internal_count", np.zeros(total, np.int64), True), True)
    return Nodes(
        sizes=n_splits + n_leaves,
        left=left,
        right=right,
        feature=feature,
        threshold=single,
        missing_right=missing_right,
        value=of_leaves(b"leaf_value", np.zeros(total)),
        gain=of_splits(b"split_gain", np.zeros(total), True),
        count=count,
        of_set=of_set,
        sets=sets,
        first_tree=blocks.first_tree,
    )


def _read_sizes(blocks: Blocks) -> Array:
    """The number of leaves of each tree; as many values have room in its line."""
    n_leaves = blocks.integers(b"num_leaves", np.ones(blocks.n_trees, np.int64))
    wrong = (n_leaves < 1) | (n_leaves > blocks.lengths(b"leaf_value"))
    if wrong.any():
        tree = int(np.argmax(wrong))
        raise ValueError(f"tree {tree + 1}: num_leaves is {n_leaves[tree]}, and there are not so many leaf values.")
    return n_leaves


def _linked(blocks: Blocks, name: bytes, child: Array, starts: Array, n_splits: Array) -> Array:
    """Children as places; a split is k, a leaf ~k."""
    fault = np.full(2, -1, np.int64)
    _link(readonly(starts), readonly(n_splits), child, fault)
    if fault[0] >= 0:
        tree = blocks.first_tree + fault[0] + 1
        raise ValueError(f"tree {tree}: {name.decode()} names the node {fault[1]}, which is not there.")
    return child


def _prepared(flags: Array) -> Array:
    """What is done to each feature; all splits of a feature must want the same. flags: (features, kinds of splits)."""
    mixed = np.flatnonzero(flags.sum(axis=1) > 1)
    if len(mixed):
        raise ValueError(f"splits of feature {mixed[0]} (from 0) differ in what is missing, or in being categorical.")
    return np.select([flags[:, _OF_ZERO] > 0, flags[:, _OF_SET] > 0], [ZERO_MISSING, TRUNCATED], AS_IS).astype(np.uint8)


def _routes(threshold: Array, kinds: Array, is_own: bool) -> tuple[Array, Array]:
    """Thresholds in float32, and whether missing values go right."""
    with np.errstate(invalid="ignore"):
        single = at_most(np.where(kinds & CATEGORICAL, 0.0, threshold))
    if not is_own:  # values that a dense array has for 0 stay on the side of 0
        single = np.where((single >= -TINY) & (single < 0), np.nextafter(-TINY, np.float32(-1)), single)
        single = np.where((single >= 0) & (single < TINY), TINY, single)
    to_default, as_zero = (kinds & DEFAULT_LEFT) == 0, ~(threshold >= 0)
    has_default = np.isin((kinds >> 2) & 3, (ZERO_TYPE, NAN_TYPE))  # else NaN is 0
    missing_right = np.where(has_default, to_default, as_zero)
    return single, np.where(kinds & CATEGORICAL, True, missing_right)


def _sets(
    blocks: Blocks, threshold: Array, kinds: Array, feature: Array, starts: Array
) -> tuple[Array | None, CategorySets, Array]:
    """Of every node the number of its set or -1; the sets; and the splits whose set is empty."""
    categorical = np.flatnonzero(kinds & CATEGORICAL)
    if len(categorical) == 0:
        return None, CategorySets.none(), categorical
    n_sets = blocks.integers(b"num_cat", np.ones(blocks.n_trees, np.int64))
    with_sets = np.where((n_sets > 0) & (n_sets < 2**31), n_sets + 1, 0)
    with_sets = np.where(blocks.lengths(b"cat_boundaries") >= with_sets, with_sets, 0)
    bounds, n_words = blocks.integers(b"cat_boundaries", with_sets), blocks.count_words(b"cat_threshold")
    words = blocks.integers(b"cat_threshold", n_words)
    if (words < 0).any() or (words >= 2**32).any():
        raise ValueError("the lines cat_threshold= must have integers below 2**32.")
    tree_of = np.searchsorted(starts, categorical, side="right") - 1
    first, last = _ranges(bounds, with_sets, n_words, (tree_of, threshold[categorical], blocks.first_tree))
    bits = np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))
    low, high = np.searchsorted(bits, first * 32), np.searchsorted(bits, last * 32)
    is_empty, counts = low == high, high - low
    values = bits[_runs(low, counts)] - np.repeat(first * 32, counts)
    if (values >= _MOST_CATEGORY).any():
        raise ValueError(f"a category is {int(values.max()):,}; float32 holds integers below 2**24 only.")
    of_set, named = np.full(len(kinds), -1, np.int64), ~is_empty
    of_set[categorical[named]] = np.arange(int(named.sum()))
    set_starts = np.concatenate([[0], np.cumsum(counts[named])]).astype(np.int64)
    sides = np.zeros(len(values), np.uint8)
    sets = CategorySets(feature[categorical[named]].astype(np.int64), set_starts, values.astype(np.float32), sides)
    return of_set, sets, categorical[is_empty]


def _ranges(bounds: Array, with_sets: Array, n_words: Array, asked: tuple[Array, Array, int]) -> tuple[Array, Array]:
    """The words of each categorical split, counted over all trees. asked: trees, sets in these, and the first tree."""
    tree_of, number, before_trees = asked
    n_bounds = with_sets[tree_of]
    whole = (number >= 0) & (number < n_bounds - 1) & (number == np.floor(number))
    if not whole.all():
        at = int(np.argmin(whole))
        raise ValueError(
            f"tree {before_trees + tree_of[at] + 1}: the set {number[at]:g} of a categorical split is not there."
        )
    before = np.concatenate([[0], np.cumsum(with_sets)])[tree_of] + number.astype(np.int64)
    first, last = bounds[before], bounds[before + 1]
    wrong = (first < 0) | (last < first) | (last > n_words[tree_of])
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"tree {before_trees + tree_of[at] + 1}: cat_boundaries do not rise within cat_threshold.")
    start = np.concatenate([[0], np.cumsum(n_words)])[tree_of]
    return start + first, start + last


def _runs(starts: Array, counts: Array) -> Array:
    """starts[k], starts[k] + 1, ..., counts[k] of them, of all k."""
    before = np.concatenate([[0], np.cumsum(counts)])
    return np.repeat(starts - before[:-1], counts) + np.arange(before[-1])


@kernel
def _find_lines(text: Array, names: Array, spans: Array, places: Array) -> None:
    """spans[n, t] = the bytes behind `names[n]` in tree t, whose lines follow a line `Tree=`; of several, the last.

    places: how many trees there are, where the first one begins, and the line `end of trees`, which there must be.
    spans may have room for no tree.
    """
    here = U(0)
    places[0], places[1], places[2] = 0, -1, -1
    while places[2] < 0:
        stop, first = _line_end(text, here), word_at(text, here)
        tree = places[0] - 1
        if first == _END and word_at(text, here + U(4)) == _OF_TREES:
            places[2] = here
        elif first & U(0xFFFFFFFFFF) == _TREE:
            places[0] += 1
            places[1] = here if tree < 0 else places[1]
        elif 0 <= tree < spans.shape[1]:
            for number in range(len(names)):
                at = U(0)
                while names[number, at] != 0 and names[number, at] == text[here + at]:
                    at += U(1)
                if names[number, at] == 0:
                    spans[number, tree, 0], spans[number, tree, 1] = here + at, stop
                    break
        here = stop + U(1)
    places[1] = places[2] if places[0] == 0 else places[1]


@kernel
def _line_end(text: Array, here: np.uint64) -> np.uint64:
    """The next byte that is a line feed, which there is; eight at a time."""
    while True:
        others = word_at(text, here) ^ U(0x0A0A0A0A0A0A0A0A)
        zeros = (others - U(0x0101010101010101)) & ~others & U(0x8080808080808080)  # the lowest bit is a true one
        if zeros:
            lowest = (zeros & (~zeros + U(1))) >> U(7)
            return here + ((lowest * U(0x0001020304050607)) >> U(56))
        here += U(8)


@kernel
def _link(starts: Array, n_splits: Array, child: Array, fault: Array) -> None:
    """In place. fault: the first tree with a child that is not there, and this child."""
    for tree in range(len(starts)):
        n = n_splits[tree]
        for k in range(starts[tree], starts[tree] + n):
            number = child[k]
            if number >= n or ~number > n:
                fault[0], fault[1] = tree, number
                return
            child[k] = starts[tree] + (number if number >= 0 else n + ~number)


@kernel
def _flag_kinds(feature: Array, kinds: Array, flags: Array) -> None:
    """flags[f, kind] = 1 if feature f has splits of this kind; features that are not there are refused later."""
    for k in range(len(feature)):
        if 0 <= feature[k] < len(flags):
            of_zero = (kinds[k] >> 2) & 3 == ZERO_TYPE
            flags[feature[k], _OF_SET if kinds[k] & CATEGORICAL else _OF_ZERO if of_zero else _OF_PLAIN] = 1
