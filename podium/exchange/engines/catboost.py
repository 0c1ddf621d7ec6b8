"""CatBoost's JSON, in: oblivious trees and others, with the bits of CatBoost's own model.

A split sends x > border right, compared in float32. Missing values go right where their feature has them as the
largest (`AsTrue`), else left. An oblivious tree asks the same of a whole level: its split d sets bit d of the number of
a leaf. The score is `scale * (leaf + leaf + ...) + bias`, so the bias is a last tree of one leaf.

CatBoost reads its own JSON with changed values (by the last bit of some leaves): compare with the model that wrote it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import BITS, TOLERANCE, Claim, Imported
from podium.exchange.nodes import Nodes, forest_of
from podium.models.imported import ImportedForest

_FEATURES = ("float_features", "categorical_features", "text_features", "embedding_features")
_MISSING_RIGHT = {"AsIs": False, "AsFalse": False, "AsTrue": True}
_OTHER_SPLITS = "splits by categories, texts or embeddings, which CatBoost computes from tables of its own"
_ADVICE = "Train it on numbers: encode these features first, and leave out cat_features and text_features."
_ENGINE = 'CatBoost 1, predict(prediction_type="RawFormulaVal") of the model that wrote the file'


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    keys = re.findall(rb'"(\w+)"\s*:', head)
    first = {b"features_info", b"model_info", b"oblivious_trees", b"scale_and_bias", b"ctr_data"}
    return re.match(rb"\s*\{", head) is not None and bool(keys) and keys[0] in first


def read(content: bytes) -> Imported:
    """The model of a file; a ValueError says what is wrong with it, and where."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON ({error or 'nested too deep'}). Is the file cut short?") from None
    document = _typed(whole, dict, "the file")
    asked, names, n_features = _features(document)
    scale, bias = _scale_and_bias(document)
    plan = _Growing(asked)
    if ("oblivious_trees" in document) == ("trees" in document):
        raise ValueError('expected either "oblivious_trees" or "trees".')
    if "trees" in document:
        for number, tree in enumerate(_typed(document["trees"], list, "trees"), start=1):
            plan.add_tree(_typed(tree, dict, f"tree {number}"), f"tree {number}")
    else:
        for number, tree in enumerate(_typed(document["oblivious_trees"], list, "oblivious_trees"), start=1):
            plan.add_oblivious(_typed(tree, dict, f"tree {number}"), f"tree {number}")
    factor, claim = _with_bias(plan, scale, bias)
    forest = forest_of(plan.nodes(), 0.0, n_features)
    return Imported(ImportedForest.of(forest, "CatBoost JSON", names=names, factor=factor), claim)


@dataclass(frozen=True)
class _Feature:
    column: int
    missing_right: bool


def _features(document: dict[str, Any]) -> tuple[list[_Feature], list[str] | None, int]:
    """The features that splits name by their number, the names of all columns if they have names, and their number."""
    info = _typed(document.get("features_info"), dict, "features_info")
    kinds = [_typed(info.get(kind, []), list, kind) for kind in _FEATURES]
    total = sum(map(len, kinds))
    columns, names, asked = set[int](), [""] * total, list[_Feature]()
    for kind, members in zip(_FEATURES, kinds):
        for number, one in enumerate(members):
            where = f"{kind}, number {number}"
            column = _integer(_typed(one, dict, where).get("flat_feature_index"), total, where)
            if column in columns:
                raise ValueError(f"{where}: two features have the flat_feature_index {column}.")
            columns.add(column)
            names[column] = _typed(one.get("feature_id", ""), str, where)
            if kind == _FEATURES[0]:
                if _integer(one.get("feature_index"), total, where) != number:
                    raise ValueError(f"{where}: expected the feature_index {number}.")
                asked.append(_Feature(column, _missing_right(one, where)))
    are_names = all(names) and len(set(names)) == total and names != list(map(str, range(total)))
    return asked, (names if are_names else None), total


def _missing_right(feature: dict[str, Any], where: str) -> bool:
    treatment = _typed(feature.get("nan_value_treatment", "AsIs"), str, where)
    if treatment not in _MISSING_RIGHT:
        raise ValueError(f"{where}: nan_value_treatment must be one of {', '.join(_MISSING_RIGHT)}.")
    return _MISSING_RIGHT[treatment]


def _scale_and_bias(document: dict[str, Any]) -> tuple[float, float]:
    """The file has [scale, [bias]], or [scale, bias]."""
    pair = _typed(document.get("scale_and_bias"), list, "scale_and_bias")
    if len(pair) != 2:
        raise ValueError("scale_and_bias must have two members.")
    biases = pair[1] if isinstance(pair[1], list) else [pair[1]]
    if len(biases) != 1:
        raise ValueError(f"the model has {len(biases)} scores per row; models of several classes rank nothing.")
    scale, bias = (_number(value, "scale_and_bias") for value in (pair[0], biases[0]))
    if not math.isfinite(scale) or not math.isfinite(bias):
        raise ValueError("scale_and_bias must have finite numbers.")
    return scale, bias


def _with_bias(plan: _Growing, scale: float, bias: float) -> tuple[float, Claim]:
    """Add the bias as a tree; the factor of all trees, and what is claimed then."""
    if scale == 1 or bias == 0:
        if bias != 0:
            plan.add_leaf(bias)
        return scale, Claim(BITS, _ENGINE)
    if scale == 0 or not math.isfinite(bias / scale):
        raise ValueError(f"scale_and_bias: the scale {scale:g} leaves nothing of the trees. Set the scale to 1.")
    plan.add_leaf(bias / scale)
    condition = f"the scale {scale:g} and a bias: the bias is divided by the scale, and added before it"
    return scale, Claim(TOLERANCE, _ENGINE, (condition,), 1e-12)


@dataclass
class _Growing:
    """The nodes of all trees, as they come."""

    features: list[_Feature]
    sizes: list[int] = field(default_factory=list)
    parts: list[tuple[Array, ...]] = field(default_factory=list)  # left, right, feature, threshold, missing_right, ...

    def add_leaf(self, value: float) -> None:
        """A tree of one leaf."""
        self._add(_Level([-1], [-1], [0], [0.0], [False], [value], [0]))

    def add_oblivious(self, tree: dict[str, Any], where: str) -> None:
        """A full binary tree, level by level; the root asks what sets the highest bit of a leaf's number."""
        splits = [self._split(one, where) for one in _typed(tree.get("splits", []), list, where)][::-1]
        values = _typed(tree.get("leaf_values"), list, where)
        if len(splits) > 40 or len(values) != 2 ** len(splits):
            problem = f"{len(splits)} splits have {2 ** min(len(splits), 40)} leaves; found {len(values)} leaf_values"
            raise ValueError(f"{where}: {problem}. Models of several classes rank nothing.")
        inner, total = len(values) - 1, 2 * len(values) - 1
        first = np.arange(total)
        asked = np.repeat(np.arange(len(splits)), 2 ** np.arange(len(splits)))
        leaf = first >= inner
        weights = _counts(tree.get("leaf_weights"), len(values))
        column, border, right = (np.array([one[k] for one in splits] or [0])[asked] for k in range(3))
        self._add(
            _Level(
                np.where(leaf, -1, 2 * first + 1),
                np.where(leaf, -1, 2 * first + 2),
                np.concatenate([column, np.zeros(len(values))]),
                np.concatenate([border, np.zeros(len(values))]),
                np.concatenate([right, np.zeros(len(values))]),
                np.concatenate([np.zeros(inner), [_number(value, where) for value in values]]),
                _sums(weights),
            )
        )

    def add_tree(self, tree: dict[str, Any], where: str) -> None:
        """A tree of nested nodes, each visited once."""
        level, waiting = _Level.empty(), [(tree, -1, False)]
        while waiting:
            node, parent, is_right = waiting.pop()
            number = len(level.left)
            if parent >= 0:
                (level.right if is_right else level.left)[parent] = number
            name = f"{where}, node {number}"
            inner = "split" in node
            column, border, missing_right = self._split(node["split"], name) if inner else (0, 0.0, False)
            value = 0.0 if inner else _number(node.get("value"), name)
            weight = 0 if inner else int(_counts([node.get("weight")], 1)[0])
            for values, one in zip(level.columns(), (-1, -1, column, border, missing_right, value, weight)):
                values.append(one)
            if inner:
                sides = [(_typed(node.get(side), dict, name), number, side == "right") for side in ("right", "left")]
                waiting.extend(sides)
        level.count = _inner_sums(level.left, level.right, level.count)
        self._add(level)

    def _split(self, split: Any, where: str) -> tuple[int, float, bool]:
        """Column, border, and whether missing values go right."""
        kind = _typed(split, dict, where).get("split_type", "FloatFeature")
        if kind != "FloatFeature":
            raise ValueError(f"{where}: has a split of the type {str(kind)[:40]!r}: {_OTHER_SPLITS}. {_ADVICE}")
        feature = self.features[_integer(split.get("float_feature_index"), len(self.features), where)]
        border = _number(split.get("border"), where)
        if math.isnan(border):
            raise ValueError(f"{where}: its border is not a number.")
        return feature.column, border, feature.missing_right

    def _add(self, level: _Level) -> None:
        self.sizes.append(len(level.left))
        self.parts.append(level.arrays())

    def nodes(self) -> Nodes:
        """All trees."""
        sizes = np.array(self.sizes, np.int64)
        parts = [_Level.empty().arrays(), *self.parts]
        left, right, feature, threshold, missing_right, value, count = map(np.concatenate, zip(*parts))
        before = np.repeat(np.cumsum(sizes) - sizes, sizes)
        left, right = (np.where(side < 0, -1, side + before) for side in (left, right))
        return Nodes(sizes, left, right, feature, threshold, missing_right, value, count=count)


@dataclass
class _Level:
    """The nodes of one tree; children are numbers of nodes, -1 in leaves."""

    left: Any
    right: Any
    feature: Any
    threshold: Any
    missing_right: Any
    value: Any
    count: Any

    @classmethod
    def empty(cls) -> _Level:
        return cls([], [], [], [], [], [], [])

    def columns(self) -> tuple[Any, ...]:
        return self.left, self.right, self.feature, self.threshold, self.missing_right, self.value, self.count

    def arrays(self) -> tuple[Array, ...]:
        kinds = (np.int64, np.int64, np.int64, np.float32, np.bool_, np.float64, np.int64)
        with np.errstate(over="ignore"):
            return tuple(np.asarray(one, np.float64).astype(kind) for one, kind in zip(self.columns(), kinds))


def _counts(weights: Any, n: int) -> Array:
    """Training rows of leaves, which change no score: 0 where they are not there."""
    listed = weights if isinstance(weights, list) and len(weights) == n else [0] * n
    return np.array([int(one) if _is_count(one) else 0 for one in listed], np.int64)


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < 2**40


def _sums(leaves: Array) -> Array:
    """The counts of a full binary tree, level by level, from those of its leaves."""
    levels = [leaves]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    return np.concatenate(levels)


def _inner_sums(left: list[int], right: list[int], count: list[int]) -> list[int]:
    """The counts of splits, from those of leaves; children stand behind their parents."""
    for node in range(len(left) - 1, -1, -1):
        if left[node] >= 0:
            count[node] = count[left[node]] + count[right[node]]
    return count


# --- values of a JSON document


def _typed(value: Any, kind: Callable[..., Any], where: str) -> Any:
    if not isinstance(value, kind):  # type: ignore[arg-type]
        names = {dict: "an object", list: "a list", str: "a text"}
        raise ValueError(f"{where}: expected {names[kind]}; found {str(value)[:40]!r}.")  # type: ignore[index]
    return value


def _number(value: Any, where: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, int) and abs(value) >= 2**1000):
        raise ValueError(f"{where}: expected a number; found {str(value)[:40]!r}.")
    return float(value)


def _integer(value: Any, end: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise ValueError(f"{where}: expected the number of a feature, from 0 to {end - 1}; found {str(value)[:40]!r}.")
    return value
