"""Inspection: what a model of trees is made of, as plain values and as a text to read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.learners.trees.scoring.forest import Forest, TreeArrays
from podium.metrics.base import Metric
from podium.models.frame.estimator import check_fitted
from podium.models.frame.parameters import UNSAVED, value_of

CategoryNames = Mapping[int, Sequence[Any]]

_FEATURES_SHOWN = 10
_TREES_SHOWN = 5
_VALUES_SHOWN = 6  # of a set of categories
_MISSING_NUMBER = -1  # of the category that stands for missing values, in models that were imported
_BUNDLES_SHOWN = 5
_RANGES_SHOWN = 6  # of the features of a bundle
_LONGEST_VALUE = 200  # characters of a list


@dataclass(frozen=True)
class ModelInspection:
    """A fitted model of any kind: what it was trained on, and its parameters."""

    model: str
    n_features: int
    parameters: dict[str, Any]
    changed: list[str]  # the parameters that are not as by default
    resolved_params: dict[str, Any]  # where "auto" is allowed, what the training had

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`."""
        return asdict(self)

    def sentences(self) -> list[str]:
        head = f"{self.model}: {counted(self.n_features, 'feature')}"
        return [head, *self._details(), self._parameters(), *self._resolved()]

    def _details(self) -> list[str]:
        return []

    def _parameters(self) -> str:
        shown = [f"{name}={_excerpt(self.parameters[name])}" for name in self.changed]
        return f"parameters: {', '.join(shown) if shown else 'all as by default'}"

    def _resolved(self) -> list[str]:
        """What the parameters do not say: what `"auto"` was in the training, and what has been set since."""
        differing = {name: value for name, value in self.resolved_params.items() if value != self.parameters[name]}
        return [f"trained with: {settings_words(differing)}"] if differing else []

    def __str__(self) -> str:
        return "\n".join(self.sentences())


@dataclass(frozen=True)
class Tree:
    """One tree in numbers; `levels` has the one question of each level if the tree is oblivious."""

    leaves: int
    depth: int
    levels: list[str] | None

    @property
    def oblivious(self) -> bool:
        """Whether every split of a level asks the same, all the way down."""
        return self.levels is not None


@dataclass(frozen=True)
class Inspection(ModelInspection):
    """A fitted model of trees. Print it, or take its fields or `as_dict()`."""

    trees: list[Tree]
    features_used: int
    top_features: list[tuple[str, float]]  # with their share in the gain of all splits, the largest first
    start: float  # the score before the first tree
    n_bytes: int  # of the arrays of the trees
    bundles: list[list[str]] = field(default_factory=list)  # features that were trained as one; empty when none
    base: Inspection | None = None  # the model that this one started from

    @property
    def n_trees(self) -> int:
        return len(self.trees)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`."""
        return asdict(self) | {
            "n_trees": self.n_trees,
            "trees": [asdict(tree) | {"oblivious": tree.oblivious} for tree in self.trees],
            "top_features": [{"feature": name, "gain_share": share} for name, share in self.top_features],
            "base": None if self.base is None else self.base.as_dict(),
        }

    def sentences(self) -> list[str]:
        lines = [
            f"{self.model}: {counted(self.n_trees, 'tree')}{self._sizes()}; {self.n_bytes / 1000:,.1f} kB",
            f"features: {self.features_used:,} of {self.n_features:,} are used",
        ]
        if self.top_features:
            shares = ", ".join(f"{name} ({share:.1%})" for name, share in self.top_features)
            lines.append(f"most gain: {shares}")
        lines += self._levels()
        lines += self._bundles()
        lines.append(f"score before the first tree: {self.start:.6g}")
        lines += [self._parameters(), *self._resolved()]
        return lines + ([] if self.base is None else ["started from:", *(f"  {one}" for one in self.base.sentences())])

    def _sizes(self) -> str:
        if not self.trees:
            return ""
        leaves, depths = [tree.leaves for tree in self.trees], [tree.depth for tree in self.trees]
        return f" with {_span(leaves)} leaves, {_span(depths)} deep"

    def _parameters(self) -> str:
        return super()._parameters() + (", all others as by default" if self.changed else "")

    def _bundles(self) -> list[str]:
        """How many features share columns, and which: as ranges, since one-hot data have hundreds."""
        if not self.bundles:
            return []
        sizes, shown = [len(bundle) for bundle in self.bundles], self.bundles[:_BUNDLES_SHOWN]
        total = f"bundled: {counted(sum(sizes), 'feature')} in {counted(len(sizes), 'bundle')}"
        lines = [f"  {len(bundle):,} features: {_shortened_ranges(bundle)}" for bundle in shown]
        if others := sizes[_BUNDLES_SHOWN:]:
            lines.append(f"  and {counted(len(others), 'more bundle')} of {_span(others)} features")
        return [total, *lines]

    def _levels(self) -> list[str]:
        """One split per level: which trees are so, and the questions of the first ones."""
        oblivious = [(number, tree.levels) for number, tree in enumerate(self.trees, 1) if tree.levels]
        if not oblivious:
            return []
        shown = [f"  tree {number}: {'; '.join(levels)}" for number, levels in oblivious[:_TREES_SHOWN]]
        return [f"oblivious, one split per level: {len(oblivious):,} of {counted(self.n_trees, 'tree')}", *shown]


def settings_words(settings: Mapping[str, Any]) -> str:
    """`"max_leaf_nodes=4, extra_trees=True"`"""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def inspect(model: Any) -> Inspection:
    """What a fitted model of trees is made of."""
    check_fitted(model)
    forest, names = model.forest_, column_names(model)
    used, gain = forest.used_features()
    order = np.argsort(-gain, kind="stable")[:_FEATURES_SHOWN]
    total = gain.sum() or 1.0
    name, _, parameters, changed, resolved = about_model(model)
    return Inspection(
        name,
        forest.n_features,
        parameters,
        changed,
        resolved,
        trees=[_tree(tree, names, category_names(model)) for tree in forest.split()],
        features_used=len(used),
        top_features=[(names[used[rank]], float(gain[rank] / total)) for rank in order if gain[rank] > 0],
        start=float(forest.start),
        n_bytes=_size(forest),
        bundles=[[names[f] for f in bundle] for bundle in model.bundles_],
        base=inspect(model.init_) if hasattr(model.init_, "forest_") else None,
    )


def _excerpt(value: Any) -> str:
    """A parameter in one line: of a long list of numbers, its beginning."""
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE or not isinstance(value, list) else f"{text[:_LONGEST_VALUE]}..."


def _plain(value: Any) -> Any:
    """A parameter for JSON and for people: a metric, objective or function as it is called."""
    if isinstance(value, Metric):
        return value.name if value.policy.name == "standard" else f"{value.name} (policy {value.policy.name})"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range, np.ndarray)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return "inf" if value == math.inf else value  # JSON has no number for it
    return f"callable {getattr(value, '__name__', 'objective')}" if callable(value) else str(value)


class NumberedNames(Sequence[str]):
    """`feature 1`, `feature 2`, ..., each made when it is asked for: of a sparse model most never are."""

    def __init__(self, number: int) -> None:
        self._numbers = range(1, number + 1)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [f"feature {number}" for number in self._numbers[index]]
        return f"feature {self._numbers[index]}"


def feature_names(model: Any) -> Sequence[str]:
    """As the training data had them; features without names are numbered from 1, as LETOR text does."""
    known = getattr(model, "feature_names_in_", None)
    return NumberedNames(model.n_features_in_) if known is None else tuple(map(str, known))


def column_names(model: Any, features: Sequence[str] | None = None) -> Sequence[str]:
    """What the learner saw: the features, or what was made of them, such as `zscore(bm25)` and `missing(bm25)`.

    features: what to call them; None: as the model does.
    """
    names = feature_names(model) if features is None else features
    names = names if model.transform_ is None else model.transform_.names(names)
    return names if model.imputation_ is None else model.imputation_.names(names)


def category_names(model: Any) -> CategoryNames:
    """Of the columns whose categories the model numbers: number -> names."""
    by_feature = {model._feature_number("categorical", column): names for column, names in model.categories_.items()}
    return {column: names for feature, names in by_feature.items() for column in model._columns_of([feature])}


def question(tree: TreeArrays, node: int, names: Sequence[str], categories: CategoryNames) -> str:
    """What a split asks: `bm25 <= 3.2`, `colour is red, blue`; `or missing` where missing values count as yes."""
    feature, missing = int(tree.feature[node]), "" if tree.missing_right[node] else " or missing"
    if feature >= len(names):
        left, right = tree.sets.sides_of(feature - len(names))
        is_left = len(right) == 0 or 0 < len(left) <= len(right)
        known, word = (left, "is") if is_left else (right, "is not")
        owner = int(tree.sets.feature[feature - len(names)])
        shown = [_category(value, categories.get(owner)) for value in known.tolist()]
        missing = "" if _MISSING_NUMBER in known.tolist() else missing
        more = f", ... ({len(shown)} values)" if len(shown) > _VALUES_SHOWN else ""
        return f"{names[owner]} {word} {', '.join(shown[:_VALUES_SHOWN])}{more}{missing}"
    return f"{names[feature]} <= {float(tree.threshold[node]):.5g}{missing}"


def _category(value: float, names: Sequence[Any] | None) -> str:
    if value == _MISSING_NUMBER:
        return "missing"
    return f"{value:.7g}" if names is None else str(names[int(value)])


def tree_text(model: Any, tree: int) -> str:
    """Tree number `tree`, from 1, one line per node, children below their parent: the yes first, then the no."""
    if not 1 <= tree <= model.forest_.n_trees:
        raise ValueError(f"tree must be from 1 to {model.forest_.n_trees}; got {tree}.")
    arrays, names, categories = model.forest_.split()[tree - 1], column_names(model), category_names(model)
    lines: list[str] = []
    waiting = [(0, 0, "")]
    while waiting:
        node, depth, word = waiting.pop()
        left, rows = int(arrays.left[node]), counted(int(arrays.count[node]), "row")
        if left == node:
            lines.append(f"{'  ' * depth}{word}{arrays.value[node]:+.4g} ({rows})")
            continue
        asked = question(arrays, node, names, categories)
        lines.append(f"{'  ' * depth}{word}{asked}? (gain {arrays.gain[node]:.4g}, {rows})")
        waiting += [(left + 1, depth + 1, "no: "), (left, depth + 1, "yes: ")]
    return "\n".join(lines)


def _tree(tree: TreeArrays, names: Sequence[str], categories: CategoryNames) -> Tree:
    leaf = tree.left == np.arange(len(tree.left))
    return Tree(int(leaf.sum()), tree.depth, _one_split_per_level(tree, names, categories))


def _one_split_per_level(tree: TreeArrays, names: Sequence[str], categories: CategoryNames) -> list[str] | None:
    """The question of each level, if all splits of a level ask the same and all leaves lie at the bottom."""
    levels: list[str] = []
    nodes = np.zeros(1, dtype=np.int64)
    while True:
        left = tree.left[nodes].astype(np.int64)
        leaves = left == nodes
        if leaves.all():
            return levels or None
        asked = {(int(tree.feature[n]), float(tree.threshold[n]), int(tree.missing_right[n])) for n in nodes[~leaves]}
        if leaves.any() or len(asked) > 1:
            return None
        levels.append(question(tree, int(nodes[0]), names, categories))
        nodes = np.stack([left, left + 1], axis=1).reshape(-1)


def _shortened_ranges(names: Sequence[str]) -> str:
    """The first ranges of these names, and how many more there are."""
    ranges = name_ranges(names)
    more = len(ranges) - _RANGES_SHOWN
    return ", ".join(ranges[:_RANGES_SHOWN]) + (f", ... ({more:,} more)" if more > 0 else "")


def name_ranges(names: Sequence[str]) -> list[str]:
    """Names that differ in the number at their end as ranges: `["f 3", "f 1", "f 2", "g"]` -> `["f 1 to f 3", "g"]`."""
    numbered: dict[tuple[str, bool], list[int]] = {}
    for name in names:
        match = re.fullmatch(r"(.*?)(0|[1-9][0-9]{0,17})", name, re.DOTALL)  # `f01` is not the name of number 1
        numbers = numbered.setdefault((match[1] if match else name, match is not None), [])
        numbers += [int(match[2])] if match else []
    return [one for (name, _), numbers in numbered.items() for one in _runs(name, sorted(numbers)) or [name]]


def _runs(prefix: str, numbers: list[int]) -> list[str]:
    ends = [stop for stop, number in enumerate(numbers, 1) if number + 1 not in numbers[stop : stop + 1]]
    runs = [numbers[start:end] for start, end in zip([0, *ends], ends)]
    return [f"{prefix}{run[0]}" + (f" to {prefix}{run[-1]}" if len(run) > 1 else "") for run in runs]


def _size(forest: Forest) -> int:
    return sum(getattr(forest, one.name).nbytes for one in fields(forest) if one.name not in ("start", "n_features"))


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class LinearInspection(ModelInspection):
    """A fitted linear model: its weights, the largest first."""

    weights: list[tuple[str, float]]
    intercept: float

    def _details(self) -> list[str]:
        shown = ", ".join(f"{name} {weight:+.4g}" for name, weight in self.weights[:_FEATURES_SHOWN])
        return [f"largest weights: {shown}", f"intercept: {self.intercept:.6g}"]


@dataclass(frozen=True)
class EnsembleInspection(ModelInspection):
    """A fitted model that is made of models."""

    members: list[Any]  # an inspection of each
    weights: list[float]  # of their scores; empty where another model combines them

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"members": [member.as_dict() for member in self.members]}

    def _details(self) -> list[str]:
        weights = [f" with weight {weight:.4g}" for weight in self.weights] or [""] * len(self.members)
        return [f"made of {member.sentences()[0]}{weight}" for member, weight in zip(self.members, weights)]


@dataclass(frozen=True)
class NetInspection(ModelInspection):
    """A fitted net: its layers."""

    nets: int
    widths: list[int]  # inputs (features, and one per feature with missing values), hidden layers, output
    weights: int  # per net

    def _details(self) -> list[str]:
        layers = " - ".join(f"{width:,}" for width in self.widths)
        return [f"{counted(self.nets, 'net')} with layers {layers}; {self.weights:,} weights per net"]


def about_model(model: Any) -> tuple[str, int, dict[str, Any], list[str], dict[str, Any]]:
    """What every `ModelInspection` has: parameters as plain values, which are not as by default, what "auto" was."""
    known = [one for one in fields(model) if one.name not in UNSAVED | {"init"}]
    plain = {one.name: _plain(value_of(model, one.name)) for one in known}
    changed = [one.name for one in known if plain[one.name] != _plain(one.default)]
    resolved = dict(getattr(model, "resolved_params_", {}))
    return type(model).__name__, model.n_features_in_, plain, changed, resolved
