"""XGBoost's trees as JSON, in and out, with the bits of its `predict` on the CPU both ways; UBJSON: `xgboost_ubj.py`.

A split sends x < c left, and missing values by `default_left`; the right child stands behind the left one. A split by
categories sends those that it lists right, and all others left, however large, below 0 or unseen; a category is an
integer, 2.7 is 2. Scores are added up in float32, tree by tree, from `base_score`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import Imported, Written
from podium.exchange.engines.xgboost_reading import DENSE, MOST_CATEGORY, doubles_of, imported
from podium.exchange.forms import Form, Trees, as_trees
from podium.exchange.rounding import midway, strict, unambiguous
from podium.models.frame.inspection import NumberedNames
from podium.models.imported import NOTHING, NUMBERED

_NO_PARENT = 2**31 - 1
_LARGEST = float(np.finfo(np.float32).max)
_NAMES = "XGBoost takes no [, ] and < in the names of features: they are _ in the file"
_CATEGORIES = "names of categories are not in the file: rows must have their numbers, as the model has them"
_FROM_ZERO = "categories are integers from 0, as the model numbers them"


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    version = rb'"version"\s*:\s*\[[\d\s,]*\]\s*,\s*'
    return re.match(rb"\s*\{\s*(" + version + rb')?"learner"\s*:\s*\{', head) is not None


# --- out


def write(form: Form, engine: str | None = None) -> Written:
    return written(form, as_json)


def as_json(document: dict[str, Any]) -> bytes:
    """Each number as the float64 that equals it: whoever reads float64 asks the same questions."""
    return json.dumps(document, default=np.ndarray.tolist, separators=(",", ":")).encode()


def written(form: Form, encode: Callable[[dict[str, Any]], bytes]) -> Written:
    """The document of a form, in one of its two encodings."""
    whole = as_trees(form, "XGBoost's format", missing_listed=True)
    trees = whole.in_single()
    names = column_names(trees.names)
    lost = {_NAMES: bool(names) and names != list(trees.names), _CATEGORIES: bool(trees.categories)}
    notes = tuple(note for note, is_lost in lost.items() if is_lost)
    conditions = [DENSE, _FROM_ZERO] if len(trees.forest.sets) else [DENSE]
    claim = whole.claim(np.float32, "XGBoost, predict on the CPU", conditions)
    codes = trees.prepared.copy()
    codes[trees.forest.sets.feature] = NUMBERED
    seen = replace(trees, prepared=codes)  # rows as XGBoost sees them
    return Written(encode(_document(trees, names)), claim, seen.scores, notes)


def column_names(names: Sequence[str]) -> list[str]:
    """Names that XGBoost takes, all different; none, if the features have none."""
    if isinstance(names, NumberedNames):
        return []
    plain, seen = list(names), set(names)
    for number, name in enumerate(names):
        if re.search(r"[\[\]<]", name):
            plain[number] = re.sub(r"[\[\]<]", "_", name)
            while plain[number] in seen:
                plain[number] += "_"
            seen.add(plain[number])
    return plain


def _document(trees: Trees, names: list[str]) -> dict[str, Any]:
    forest = trees.forest
    kinds = ["float"] * forest.n_features
    for feature in forest.sets.feature.tolist():
        kinds[feature] = "c"
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(forest.n_trees)},
        "iteration_indptr": list(range(forest.n_trees + 1)),
        "tree_info": [0] * forest.n_trees,
        "trees": _tree_documents(trees),
    }
    start = repr(float(np.float32(forest.start)))  # without brackets, which versions before 3.1 do not read
    sizes = {"num_class": "0", "num_feature": str(forest.n_features), "num_target": "1"}
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": kinds,
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {"base_score": start, "boost_from_average": "1", **sizes},
        "objective": {"name": "rank:ndcg"},
    }
    return {"learner": learner, "version": [2, 1, 0]}


def _tree_documents(trees: Trees) -> list[dict[str, Any]]:
    forest = trees.forest
    columns, listed = _columns(trees)
    named, parts = np.array(sorted(listed), np.int64), [listed[node] for node in sorted(listed)]
    ends, values = np.cumsum([0, *map(len, parts)]), np.concatenate([np.empty(0, np.int32), *parts])
    documents = []
    for number, (root, end) in enumerate(zip(forest.roots[:-1].tolist(), forest.roots[1:].tolist())):
        first, last = np.searchsorted(named, [root, end]).tolist()
        bounds = ends[first : last + 1]
        sizes = {"num_deleted": "0", "num_feature": str(forest.n_features), "num_nodes": str(end - root)}
        tree = {name: column[root:end] for name, column in columns.items()} | {
            "categories": values[bounds[0] : bounds[-1]],
            "categories_nodes": (named[first:last] - root).astype(np.int32),
            "categories_segments": bounds[:-1] - bounds[0],
            "categories_sizes": np.diff(bounds),
            "id": number,
            "tree_param": sizes | {"size_leaf_vector": "1"},
        }
        documents.append(dict(sorted(tree.items())))
    return documents


def _columns(trees: Trees) -> tuple[dict[str, Array], dict[int, Array]]:
    """What is known of each node, in the order of the file; and the categories that are listed, by node there.

    Only what is listed goes right. Where a split sends right what it does not list, it lists the others, and its two
    children change sides, with all that is below them.
    """
    forest = trees.forest
    node, left = np.arange(len(forest.left)), forest.left.astype(np.int64)
    leaf, unlisted_right = left == node, forest.missing_right == 1
    of_set = ~leaf & (forest.feature >= forest.n_features)
    first = left[of_set & unlisted_right]
    order = node.copy()  # of a node in the forest, its number in the file; and of this one, its number in the forest
    order[first], order[first + 1] = first + 1, first
    sets, default_left = _listed(trees, np.flatnonzero(of_set))
    default = ~leaf & ~unlisted_right
    default[of_set] = default_left
    names_none = of_set.copy()  # such a split asks nothing: all goes left
    names_none[list(sets)] = False
    conditions = np.where(leaf, forest.value, np.where(of_set, np.float32(0), strict(forest.threshold)))
    conditions[names_none] = np.inf
    root = np.repeat(forest.roots[:-1], np.diff(forest.roots))
    parents = np.full(len(node), _NO_PARENT, np.int64)
    for side in (0, 1):
        parents[left[~leaf] + side] = (order - root)[~leaf]
    columns: dict[str, tuple[Array, Any]] = {
        "base_weights": (forest.value, np.float32),  # some readers look for the values of leaves here
        "default_left": (default, np.uint8),
        "left_children": (np.where(leaf, -1, left - root), np.int32),
        "loss_changes": (np.clip(forest.gain, -_LARGEST, _LARGEST), np.float32),
        "right_children": (np.where(leaf, -1, left - root + 1), np.int32),
        "split_conditions": (conditions, np.float32),
        "split_indices": (np.where(leaf, 0, forest.owner), np.int32),
        "split_type": (of_set & ~names_none, np.uint8),
        "sum_hessian": (np.maximum(forest.count, 1), np.float32),  # XGBoost divides by it when it explains
    }
    in_order = {name: values[order].astype(dtype) for name, (values, dtype) in columns.items()}
    return in_order | {"parents": parents.astype(np.int32)}, {int(order[at]): known for at, known in sets.items()}


def _listed(trees: Trees, nodes: Array) -> tuple[dict[int, Array], list[bool]]:
    """Of splits by categories: what goes another way than what is not listed, if anything; whether missing does not."""
    forest, listed, default_left = trees.forest, {}, []
    for node in nodes.tolist():
        number = int(forest.feature[node]) - forest.n_features
        feature, unlisted = int(forest.sets.feature[number]), int(forest.missing_right[node])
        sides = forest.sets.sides_of(number)
        other = sides[1 - unlisted]
        lists_missing = trees.prepared[feature] == NUMBERED and (other == NOTHING).any()
        default_left.append(not lists_missing)
        if len(other) > lists_missing:
            listed[node] = _numbers(other[int(lists_missing) :], trees.names[feature])
    return listed, default_left


def _numbers(categories: Array, name: str) -> Array:
    """Categories as XGBoost lists them."""
    whole = categories.astype(np.int64)
    wrong = (whole != categories) | (whole < 0) | (whole >= MOST_CATEGORY)
    if wrong.any():
        problem = f"feature {name!r} has the category {float(categories[wrong][0]):g}"
        expected = f"XGBoost takes integers from 0 to {MOST_CATEGORY - 1:,}"
        raise ValueError(f"{problem}; {expected}. Number its categories from 0, and train again.")
    return whole.astype(np.int32)


# --- in


def read(content: bytes) -> Imported:
    """The model of a file; a ValueError says what is wrong with it, and where."""
    document = _parsed(content)
    if midway(doubles_of(document)).any():
        document = _parsed(content, parse_float=unambiguous)
    return imported(document, "JSON")


def _parsed(content: bytes, **options: Any) -> Any:
    try:
        return json.loads(content, **options)
    except RecursionError:
        raise ValueError("the JSON is too deep.") from None
    except ValueError as error:
        raise ValueError(f"the JSON cannot be read: {error}. Is the file cut short?") from None


# --- the program itself


def run(path: str, X: Array) -> tuple[Array, str]:
    """Scores by XGBoost; to be called in a process of its own, which a damaged file may end."""
    import xgboost

    booster = xgboost.Booster(params={"nthread": 1})
    booster.load_model(bytearray(Path(path).read_bytes()))  # by its content, whatever it is called
    rows = xgboost.DMatrix(X, nthread=1)
    return booster.predict(rows, output_margin=True, validate_features=False), f"XGBoost {xgboost.__version__}"
