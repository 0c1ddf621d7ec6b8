"""What a document of XGBoost says, as a model: JSON and UBJSON alike.

Nothing in it is believed: each value is looked at before it is used, and what is optional may be absent.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import BITS, TOLERANCE, Claim, Imported
from podium.exchange.nodes import Nodes, forest_of
from podium.exchange.rounding import below, unambiguous
from podium.learners.trees.scoring.categories import CategorySets
from podium.learners.trees.scoring.forest import Forest
from podium.models.imported import NOTHING, NUMBERED, ImportedForest

_MOST_FEATURES = 2**26
MOST_CATEGORY = 2**24  # float32 holds every integer below
_LARGEST = float(np.finfo(np.float32).max)
_SCALE = 2**20  # of sums of hessians that are no integers

_IDENTITY = frozenset(
    (
        "rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror", "reg:linear", "reg:squaredlogerror",
        "reg:absoluteerror", "reg:quantileerror", "reg:pseudohubererror", "binary:logitraw", "binary:hinge",
    )
)  # fmt: skip
_LOGIT = frozenset(("binary:logistic", "reg:logistic"))
_LOGARITHM = frozenset(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"))
"""Objectives by what they do to `base_score` before it is added."""
_SAME_SCORE = _IDENTITY - {"binary:hinge"}  # whose `predict` gives the sum of the leaves

_ENGINE = "XGBoost 3, Booster.predict on the CPU"
DENSE = "rows are dense: what a sparse matrix leaves out is missing to XGBoost, and 0 here"
_MISSING = "missing values are NaN: what else the training took for missing (missing=...) is not in the file"
_LOGARITHM_THERE = "the first score is a logarithm of base_score, which the C library there may round another way"

Fields = dict[str, Any]  # of an object


def imported(document: Any, encoding: str) -> Imported:
    """The model of a document, as `Booster.predict(output_margin=True)` scores: by all of its trees."""
    learner = _learner(document)
    trees, weights = _trees_of(learner)
    parameters, objective = _fields(learner, "learner_model_param"), _objective(learner)
    n_features = _whole(parameters, "num_feature", _MOST_FEATURES)
    start, is_exact = _start(parameters.get("base_score"), objective)
    nodes, prepared = _nodes(trees, weights, n_features)
    forest = forest_of(nodes, float(start), n_features)
    names = _names(learner, n_features)
    categories, notes = _category_names(learner, names, nodes.sets)
    model = ImportedForest.of(
        forest, f"XGBoost {encoding}, objective {objective}", names=names, prepared=prepared, categories=categories
    )
    return Imported(model, _claim(forest, is_exact), notes + _notes(learner, objective))


def _claim(forest: Forest, is_exact: bool) -> Claim:
    """Where the score before the first tree may be another by its last bit, each sum may round another way."""
    if is_exact:
        return Claim(BITS, _ENGINE, (DENSE, _MISSING))
    tolerance = 2.0**-22 * (forest.n_trees + 1) * forest.largest_score
    return Claim(TOLERANCE, _ENGINE, (DENSE, _MISSING, _LOGARITHM_THERE), tolerance)


def doubles_of(document: Any) -> Array:
    """The numbers of a document that are rounded to float32."""
    trees, weights = _trees_of(_learner(document))
    texts = [_numbers(tree, "split_conditions", f"tree {number}") for number, tree in enumerate(trees, start=1)]
    return np.concatenate([np.empty(0), *texts, *([] if weights is None else [weights])])


# --- objects and numbers


def _learner(document: Any) -> Fields:
    if not isinstance(document, dict):
        raise ValueError(f"expected an object with a learner; found {_shown(document)}.")
    return _fields(document, "learner")


def _fields(parent: Fields, name: str) -> Fields:
    inner = parent.get(name)
    if not isinstance(inner, dict):
        raise ValueError(f"expected {name} to be an object; found {_shown(inner)}.")
    return inner


def _list(parent: Fields, name: str) -> list[Any]:
    inner = parent.get(name)
    if not isinstance(inner, list):
        raise ValueError(f"expected {name} to be an array; found {_shown(inner)}.")
    return inner


def _shown(value: Any) -> str:
    if value is None or isinstance(value, dict | list | np.ndarray):
        return "nothing" if value is None else "an object" if isinstance(value, dict) else "an array"
    return repr(value)[:40] if isinstance(value, str | float | bool) else "a number"


def _whole(parent: Fields, name: str, most: int, default: str | None = None) -> int:
    """An integer, which XGBoost writes as text."""
    text = parent.get(name, default)
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,10}", text, re.ASCII) or int(text) > most:
        raise ValueError(f"expected {name} to be the text of an integer up to {most:,}; found {_shown(text)}.")
    return int(text)


def _numbers(parent: Fields, name: str, where: str, whole: bool = False) -> Array:
    """An array of numbers as float64, or of integers as int64."""
    values, wanted = parent.get(name), "integers" if whole else "numbers"
    if isinstance(values, np.ndarray) and values.dtype.kind in ("iu" if whole else "iuf"):
        return values.astype(np.int64 if whole else np.float64)
    if not isinstance(values, list) or set(map(type, values)) - ({int, bool} if whole else {int, float}):
        kinds = f"an array of {wanted}"
        raise ValueError(f"{where}: expected {name} to be {kinds}; {_what(values)}.")
    try:
        return np.array(values, np.int64 if whole else np.float64)
    except OverflowError:
        raise ValueError(f"{where}: {name} has a number that is too large.") from None


def _what(values: Any) -> str:
    return "there are other things in it" if isinstance(values, list | np.ndarray) else f"found {_shown(values)}"


# --- what is around the trees


def _trees_of(learner: Fields) -> tuple[list[Fields], Array | None]:
    """The trees, and of DART the weight of each."""
    booster, weights = _fields(learner, "gradient_booster"), None
    name = booster.get("name")
    if name == "dart":
        weights = _numbers(booster, "weight_drop", "gradient_booster")
        booster = _fields(booster, "gbtree")
    elif name != "gbtree":
        advice = "Train it with booster=gbtree, or train a Linear model here." if name == "gblinear" else ""
        raise ValueError(f"the booster is {_shown(name)}; only gbtree and dart are read. {advice}".strip())
    model = _fields(booster, "model")
    trees = _list(model, "trees")
    if not all(isinstance(tree, dict) for tree in trees):
        raise ValueError("trees must be objects.")
    said = _whole(_fields(model, "gbtree_model_param"), "num_trees", 2**31)
    if said != len(trees) or (weights is not None and len(weights) != said):
        weighted = "" if weights is None else f" and {len(weights):,} weights"
        raise ValueError(f"num_trees is {said:,}; there are {len(trees):,} trees{weighted}.")
    if "tree_info" in model and _numbers(model, "tree_info", "model", whole=True).any():
        raise ValueError("there are trees of several classes (tree_info); such models rank nothing.")
    return trees, weights


def _objective(learner: Fields) -> str:
    """The name of the objective; models of several outputs are refused."""
    parameters = _fields(learner, "learner_model_param")
    for name in ("num_class", "num_target"):
        if _whole(parameters, name, 2**31, default="0") > 1:
            raise ValueError(f"{name} is {parameters[name]}: models of several classes or targets rank nothing.")
    objective = _fields(learner, "objective").get("name")
    if not isinstance(objective, str) or objective not in _IDENTITY | _LOGIT | _LOGARITHM:
        problem = f"the objective is {_shown(objective)}, and what it does to base_score is not known"
        raise ValueError(f"{problem}. Known are: {', '.join(sorted(_IDENTITY | _LOGIT | _LOGARITHM))}.")
    return objective


def _start(text: Any, objective: str) -> tuple[np.float32, bool]:
    """The score before the first tree, and whether it is exactly that of XGBoost."""
    base = _base_score(text)
    if objective in _IDENTITY:
        return base, True
    one = np.float32(1)
    if not base > 0 or (objective in _LOGIT and not base < one):
        raise ValueError(f"base_score is {base:g}; with the objective {objective} it must be a probability or a mean.")
    odds = one / base - one if objective in _LOGIT else base
    logarithm = math.log(odds) if odds > 0 else -math.inf
    start = np.float32(-logarithm if objective in _LOGIT else logarithm)
    if not np.isfinite(start):
        raise ValueError(f"base_score is {base!r}, which gives no finite score.")
    return start, bool(odds == one)


def _base_score(text: Any) -> np.float32:
    """`5E-1`, `[5E-1]`, or a number."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = repr(text)[:100]
    number = r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?"
    if isinstance(text, str) and re.fullmatch(rf"\[({number},)+{number}\]", text, re.ASCII):
        raise ValueError("base_score has several values: models of several classes or targets rank nothing.")
    if not isinstance(text, str) or len(text) > 100 or not re.fullmatch(rf"{number}|\[{number}\]", text, re.ASCII):
        raise ValueError(f"expected base_score to be the text of a number; found {_shown(text)}.")
    with np.errstate(over="ignore"):
        base = np.float32(unambiguous(text.strip("[]")))
    if not np.isfinite(base):
        raise ValueError(f"base_score is {text}, which float32 does not hold.")
    return base


def _names(learner: Fields, n_features: int) -> list[str] | None:
    names = learner.get("feature_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("feature_names must be an array of texts.")
    if names and (len(names) != n_features or len(set(names)) != n_features):
        raise ValueError(f"feature_names has {len(set(names))} different names; there are {n_features} features.")
    return names or None


def _notes(learner: Fields, objective: str) -> tuple[str, ...]:
    """What the scores are, where another `predict` gives others; and what is not kept."""
    notes, attributes = [], learner.get("attributes")
    if objective not in _SAME_SCORE:
        notes.append(f"scores are those of predict(output_margin=True), which {objective} transforms")
    best = attributes.get("best_iteration") if isinstance(attributes, dict) else None
    if best is not None:
        stopped = f"training was stopped early, and the best iteration was {str(best)[:20]} (from 0)"
        cut = "booster[:best_iteration + 1].save_model(...) saves these alone"
        notes.append(f"{stopped}: XGBRanker.predict stops there, Booster.predict and this model do not; {cut}")
    return tuple(notes)


def _category_names(
    learner: Fields, names: list[str] | None, sets: CategorySets
) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """The names of categories of each feature, which XGBoost keeps from 3.1 on; and what is not kept."""
    booster = _fields(learner, "gradient_booster")
    model = _fields(booster["gbtree"] if booster.get("name") == "dart" else booster, "model")
    cats = model.get("cats")
    entries = cats.get("enc") if isinstance(cats, dict) else None
    if not entries:
        return {}, ()
    note = "names of categories are not kept: rows must have their numbers, as the training had them"
    if names is None or not isinstance(entries, list) or len(entries) != len(names):
        return {}, (note,)
    named: dict[str, list[Any]] = {}
    largest = np.full(len(names), -1)
    np.maximum.at(largest, np.repeat(sets.feature, np.diff(sets.start)), sets.values.astype(np.int64))
    for number, (name, entry) in enumerate(zip(names, entries)):
        try:
            known = _decoded(entry)
        except ValueError:
            return {}, (note,)
        if len(set(known)) < len(known) or (known and len(known) <= largest[number]):
            return {}, (note,)
        named |= {name: known} if known else {}
    return named, ()


def _decoded(entry: Any) -> list[Any]:
    """Texts, one behind the other and with their ends; or numbers."""
    if not isinstance(entry, dict):
        raise ValueError("categories must be objects.")
    if "offsets" not in entry:
        known = entry.get("values")
        is_whole = not isinstance(known, list) or set(map(type, known)) <= {int}
        return list(_numbers(entry, "values", "cats", whole=is_whole).tolist())
    ends, values = (_numbers(entry, name, "cats", whole=True) for name in ("offsets", "values"))
    text = (values & 255).astype(np.uint8)
    if (text > 127).any():  # XGBoost 3.2 counts letters where it should count bytes, so that names run into each other
        raise ValueError("there are names of categories with letters that are not ASCII")
    if len(ends) and (ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != len(text)):
        raise ValueError("the ends of the names of categories do not rise")
    return [text[start:end].tobytes().decode() for start, end in zip(ends.tolist(), ends[1:].tolist())]


# --- trees


def _nodes(trees: list[Fields], weights: Array | None, n_features: int) -> tuple[Nodes, Array]:
    """The nodes of all trees, and what is done to each feature."""
    sizes = _sizes(trees)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    left = _column(trees, "left_children", sizes, whole=True)
    _check_children(left, _column(trees, "right_children", sizes, whole=True), sizes)
    left = np.where(left >= 0, left + starts, -1)
    feature = _column(trees, "split_indices", sizes, whole=True)
    default_left = _column(trees, "default_left", sizes, whole=True) != 0
    kinds = _column(trees, "split_type", sizes, whole=True, optional=True)
    with np.errstate(over="ignore", invalid="ignore"):
        conditions = _column(trees, "split_conditions", sizes).astype(np.float32)
        values = conditions if weights is None else conditions * np.repeat(weights.astype(np.float32), sizes)
    asks = (left >= 0) & (feature >= 0) & (feature < n_features)
    of_set, sets = _sets(trees, np.where(asks, feature, -1), kinds, default_left, sizes)
    prepared = np.zeros(n_features, np.uint8)
    prepared[sets.feature] = NUMBERED
    _refuse_mixed(prepared, feature, asks & (of_set < 0) & ~(default_left & (conditions == np.inf)))
    cover = np.nan_to_num(_column(trees, "sum_hessian", sizes, optional=True)).clip(0, 2.0**40)
    is_count = (cover == np.floor(cover)).all()
    return Nodes(
        sizes=sizes,
        left=left,
        right=np.where(left >= 0, left + 1, -1),
        feature=feature,
        threshold=below(conditions),
        missing_right=np.where(of_set >= 0, False, ~default_left),
        value=values,
        gain=np.nan_to_num(_column(trees, "loss_changes", sizes, optional=True)).clip(-_LARGEST, _LARGEST),
        count=np.round(cover * (1 if is_count else _SCALE)).astype(np.int64),
        of_set=of_set,
        sets=sets,
    ), prepared


def _sizes(trees: list[Fields]) -> Array:
    """The number of nodes of each tree."""
    sizes = np.empty(len(trees), np.int64)
    for number, tree in enumerate(trees):
        where = f"tree {number + 1}"
        sizes[number] = len(_numbers(tree, "left_children", where, whole=True))
        try:
            parameters = _fields(tree, "tree_param")
            said = _whole(parameters, "num_nodes", 2**31)
            if _whole(parameters, "size_leaf_vector", 2**31, default="0") > 1:
                raise ValueError("leaves have several values; such models rank nothing.")
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if said != sizes[number] or said == 0:
            raise ValueError(f"{where}: num_nodes is {said:,}; there are {sizes[number]:,} left_children.")
    return sizes


def _column(trees: list[Fields], name: str, sizes: Array, whole: bool = False, optional: bool = False) -> Array:
    """One number per node, tree by tree."""
    parts = [np.empty(0, np.int64 if whole else np.float64)]
    for number, (tree, size) in enumerate(zip(trees, sizes.tolist()), start=1):
        if optional and name not in tree:
            parts.append(np.zeros(size, parts[0].dtype))
            continue
        parts.append(_numbers(tree, name, f"tree {number}", whole))
        if len(parts[-1]) != size:
            raise ValueError(f"tree {number}: {name} must have {size:,} numbers, one per node; has {len(parts[-1]):,}.")
    return np.concatenate(parts)


def _check_children(left: Array, right: Array, sizes: Array) -> None:
    outside = (left < -1) | (left >= np.repeat(sizes, sizes) - 1)
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(f"{_node(at, sizes)}: left_children names the node {left[at]}, which is not there.")
    apart = (left >= 0) & (right != left + 1)
    if apart.any():
        at = int(np.argmax(apart))
        raise ValueError(f"{_node(at, sizes)}: the right child must stand behind the left one; it is {right[at]}.")


def _node(at: int, sizes: Array) -> str:
    """`tree 3, node 5`: trees count from 1, nodes as the file has them, from 0."""
    ends = np.cumsum(sizes)
    tree = int(np.searchsorted(ends, at, side="right"))
    return f"tree {tree + 1}, node {at - int(ends[tree] - sizes[tree])}"


def _sets(
    trees: list[Fields], feature: Array, kinds: Array, default_left: Array, sizes: Array
) -> tuple[Array, CategorySets]:
    """Of every node the number of its set or -1; and the sets: what goes right.

    feature: -1 of nodes that ask nothing; what they list is left out.
    """
    if (wrong := (kinds < 0) | (kinds > 1)).any():
        raise ValueError(f"{_node(int(np.argmax(wrong)), sizes)}: split_type must be 0 or 1.")
    of_set, starts, categorical = np.full(len(kinds), -1, np.int64), np.cumsum(sizes) - sizes, np.flatnonzero(kinds)
    nodes, counts, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for tree in np.unique(np.searchsorted(starts, categorical, side="right") - 1).tolist():
        there = np.flatnonzero(kinds[starts[tree] : starts[tree] + sizes[tree]])
        size, listed = _listed(trees[tree], tree + 1, there)
        nodes.append(there + starts[tree])
        counts.append(size)
        values.append(listed)
    node, count = np.concatenate(nodes), np.concatenate(counts)
    used = feature[node] >= 0
    of_set[node[used]] = np.arange(int(used.sum()))
    owner, value = np.repeat(of_set[node], count), np.concatenate(values)
    to_right = np.flatnonzero(~default_left[node[used]])  # where missing values go, but nothing else that is not listed
    owner = np.concatenate([owner, to_right])
    value = np.concatenate([value.astype(np.float32), np.full(len(to_right), NOTHING)])
    order = np.lexsort((value, owner))
    owner, value = owner[order], value[order]
    is_new = (np.diff(owner, prepend=-2) != 0) | (np.diff(value, prepend=np.float32(0)) != 0)
    owner, value = owner[is_new & (owner >= 0)], value[is_new & (owner >= 0)]
    bounds = np.searchsorted(owner, np.arange(int(used.sum()) + 1))
    return of_set, CategorySets(feature[node[used]], bounds.astype(np.int64), value, np.ones(len(value), np.uint8))


def _listed(tree: Fields, number: int, categorical: Array) -> tuple[Array, Array]:
    """How many categories each of these nodes lists, and which."""
    where = f"tree {number}"
    names = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    nodes, segments, sizes, categories = (_numbers(tree, name, where, whole=True) for name in names)
    if not np.array_equal(nodes, categorical):
        raise ValueError(f"{where}: categories_nodes must be the nodes whose split_type is 1.")
    in_range = len(sizes) == len(nodes) and ((sizes >= 1) & (sizes <= len(categories))).all()
    if not in_range or not np.array_equal(segments, np.cumsum(sizes) - sizes) or sizes.sum() != len(categories):
        raise ValueError(f"{where}: categories_segments and categories_sizes do not divide categories among its nodes.")
    if ((categories < 0) | (categories >= MOST_CATEGORY)).any():
        raise ValueError(f"{where}: categories must be integers from 0 to {MOST_CATEGORY - 1:,}.")
    return sizes, categories


def _refuse_mixed(prepared: Array, feature: Array, by_number: Array) -> None:
    """Splits by categories see other values than splits by numbers."""
    mixed = prepared[feature[by_number]] == NUMBERED
    if mixed.any():
        name = int(feature[by_number][np.argmax(mixed)])
        raise ValueError(f"feature {name} (from 0) is split by categories and by numbers.")
