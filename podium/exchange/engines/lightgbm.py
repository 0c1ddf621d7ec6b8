"""LightGBM's text of trees, in and out, with the bits of its `predict` both ways.

A split sends x <= threshold left, compared in float64. What is missing depends on the split: nothing (NaN is 0), NaN,
or |x| <= 1e-35 and NaN. A set of categories is a list of bits; what is listed goes left, all else right.

`predict` of a dense array takes |x| <= 1e-35 for 0 before any split sees it; rows of a CSR matrix are seen as they are.
A file of Podium has the line `podium=1`: its thresholds are meant as they stand, and read so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import BITS, Claim, Imported, Written
from podium.exchange.engines.lightgbm_trees import CATEGORICAL, DEFAULT_LEFT, NAN_TYPE, ZERO_TYPE, Blocks, read_trees
from podium.exchange.forms import Form, Trees, as_trees
from podium.learners.trees.scoring.forest import TreeArrays
from podium.models.frame.inspection import NumberedNames
from podium.models.imported import TINY, TRUNCATED, ZERO_MISSING, ImportedForest, prepare

_LARGEST = float(np.finfo(np.float32).max)
_SAME_SCORE = frozenset(
    ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg", "custom", "none")
)
"""Objectives whose `predict` gives the sum of the leaves."""

_DENSE = "a value with |x| <= 1e-35 counts as 0 in a dense array, as LightGBM takes it; rows of a CSR matrix do not"
_FLOATS = "for values that float32 holds: LightGBM compares in float64"


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return re.match(rb"tree\r?\n", head) is not None


# --- out


def write(form: Form, engine: str | None = None) -> Written:
    whole = as_trees(form, "LightGBM's text", zero_missing=True)
    trees = whole.in_double()
    first = trees.with_start_as_tree()
    blocks = [_tree_text(number, tree, trees) for number, tree in enumerate(first.forest.split())]
    names, infos = column_names(trees.names), _feature_infos(trees)
    lines = [
        "tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0",
        f"max_feature_idx={trees.forest.n_features - 1}", "objective=lambdarank", "podium=1",
        f"feature_names={' '.join(names)}", f"feature_infos={' '.join(infos)}",
        f"tree_sizes={' '.join(str(len(block)) for block in blocks)}", "", "",
    ]  # fmt: skip
    used, gain = trees.forest.used_features()
    order = np.argsort(-gain, kind="stable")
    importances = [f"{names[used[one]]}={gain[one]:.17g}" for one in order.tolist()]
    tail = ["end of trees", "", "feature_importances:", *importances, "", "parameters:", "end of parameters", ""]
    tail += [f"pandas_categorical:{json.dumps([list(known) for known in trees.categories.values()] or None)}", ""]
    content = "\n".join(lines).encode() + b"".join(blocks) + "\n".join(tail).encode()
    sets = trees.forest.sets
    conditions = [_DENSE] + ([] if len(sets) == 0 else ["categories are integers from 0, as the model numbers them"])
    claim = whole.claim(np.float64, "LightGBM 4, predict", conditions)
    return Written(content, claim, lambda X: _dense_scores(trees, X))


def _dense_scores(trees: Trees, X: Array) -> Array:
    """As `predict` of a dense array gives them."""
    rows = np.where(np.abs(X) <= TINY, np.float32(0), X)
    codes = trees.prepared.copy()
    codes[trees.forest.sets.feature] = TRUNCATED
    return trees.scores(prepare(np.ascontiguousarray(rows), codes))


def column_names(names: Sequence[str]) -> list[str]:
    """Names without blanks and without what JSON must escape, all different; features without names are counted."""
    if isinstance(names, NumberedNames):
        return _counted(len(names))
    plain = [re.sub(r'[\s",:\[\]{}=]+', "_", name) or "_" for name in names]
    seen: set[str] = set()
    for number, name in enumerate(plain):
        plain[number] = name if name not in seen else f"{name}_{number}"
        seen.add(plain[number])
    return plain


def _feature_infos(trees: Trees) -> Iterator[str]:
    """The numbers of categories of a feature, `[-inf:inf]` of others that are used, `none` of the rest."""
    forest = trees.forest
    used = set(forest.owner[forest.left != np.arange(len(forest.left))].tolist())
    sets = forest.sets
    listed: dict[int, set[int]] = {}
    for number, feature in enumerate(sets.feature.tolist()):
        values = sets.values[sets.start[number] : sets.start[number + 1]]
        listed.setdefault(feature, set()).update(map(int, values.tolist()))
    named = {name: len(known) for name, known in trees.categories.items()}
    for feature, name in enumerate(trees.names):
        categories = range(named[name]) if name in named else sorted(listed.get(feature, ()))
        yield ":".join(map(str, categories)) or ("[-inf:inf]" if feature in used else "none")


def _tree_text(number: int, tree: TreeArrays, trees: Trees) -> bytes:
    leaf = tree.left == np.arange(len(tree.left))
    splits, leaves = np.flatnonzero(~leaf), np.flatnonzero(leaf)
    names = np.empty(len(leaf), np.int64)  # what nodes are called: k, and ~k of leaves
    names[splits], names[leaves] = np.arange(len(splits)), ~np.arange(len(leaves))
    left = tree.left[splits].astype(np.int64)
    feature, threshold, kinds, swapped, sets = _questions(tree, splits, trees)
    left_child = names[np.where(swapped, left + 1, left)]
    right_child = names[np.where(swapped, left, left + 1)]
    mean = _inner_means(tree)
    boundaries = np.cumsum([0, *(len(words) for words in sets)])
    rows: list[tuple[str, Any]] = [
        ("num_leaves", [len(leaves)]), ("num_cat", [len(sets)]), ("split_feature", feature),
        ("split_gain", tree.gain[splits]), ("threshold", threshold), ("decision_type", kinds),
        ("left_child", left_child), ("right_child", right_child), ("leaf_value", tree.value[leaves]),
        ("leaf_weight", tree.count[leaves]), ("leaf_count", tree.count[leaves]), ("internal_value", mean[splits]),
        ("internal_weight", tree.count[splits]), ("internal_count", tree.count[splits]),
    ]  # fmt: skip
    if sets:
        rows += [("cat_boundaries", boundaries), ("cat_threshold", np.concatenate(sets))]
    rows += [("is_linear", [0]), ("shrinkage", [1])]
    lines = [f"{name}={' '.join(map(_number, np.asarray(values).tolist()))}" for name, values in rows]
    return "\n".join([f"Tree={number}", *lines, "\n\n"]).encode()


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.17g}"


def _inner_means(tree: TreeArrays) -> Array:
    """The mean score of the training rows that came by each node; children stand behind their parents."""
    mean, left = tree.value.astype(np.float64), tree.left.astype(np.int64)
    for node in range(len(left) - 1, -1, -1):
        child = left[node]
        if child != node:
            rows = tree.count[child : child + 2]
            total = rows.sum()
            mean[node] = (mean[child : child + 2] * rows).sum() / total if total else mean[child : child + 2].mean()
    return mean


def _questions(tree: TreeArrays, splits: Array, trees: Trees) -> tuple[Array, Array, Array, Array, list[Array]]:
    """Of every split: feature, threshold, decision_type, whether its children change sides; and the sets as words."""
    n_features, missing_left = trees.forest.n_features, tree.missing_right[splits] == 0
    feature = tree.feature[splits].astype(np.int64)
    threshold = np.minimum(tree.threshold[splits].astype(np.float64), _LARGEST)
    kinds = (NAN_TYPE << 2) + np.where(missing_left, DEFAULT_LEFT, 0)
    of_set = feature >= n_features
    all_right = (threshold == -np.inf) & ~missing_left & np.isin(feature, trees.forest.sets.feature)  # nothing listed
    plain = ~of_set & ~all_right & (trees.prepared[np.where(of_set, 0, feature)] == ZERO_MISSING)
    kinds[plain] += (ZERO_TYPE - NAN_TYPE) << 2
    sets: list[Array] = []
    for at in np.flatnonzero(of_set | all_right).tolist():
        sides: Sequence[Array] = [np.empty(0)] * 2
        if of_set[at]:
            number = int(feature[at]) - n_features
            sides = tree.sets.sides_of(number)
            feature[at] = tree.sets.feature[number]
        # What is listed goes left, all else right: so the side opposite to that of missing values is listed.
        words = _words(sides[1 if missing_left[at] else 0], trees.names[feature[at]])
        threshold[at], kinds[at] = len(sets), CATEGORICAL + (NAN_TYPE << 2)
        sets.append(words)
    return feature, threshold, kinds, of_set & missing_left, sets


def _words(categories: Array, name: str) -> Array:
    """Numbers of categories as bits of 32 per word; at least one word."""
    whole = categories.astype(np.int64)
    if (whole != categories).any() or (whole < 0).any():
        wrong = float(categories[(whole != categories) | (whole < 0)][0])
        problem = f"feature {name!r} has the category {wrong:g}; LightGBM's text takes integers from 0 only"
        raise ValueError(f"{problem}. Number its categories from 0, and train again.")
    bits = np.zeros(32 * (int(whole.max(initial=0)) // 32 + 1), np.uint8)
    bits[whole] = 1
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.int64)


# --- in


def read(content: bytes) -> Imported:
    """The model of a file; a ValueError says what is wrong with it, and where."""
    content = content.replace(b"\r", b"") if b"\r" in content else content
    blocks, start, end = Blocks.of(content)
    header = _header(content[:start])
    n_features = _whole(header, "max_feature_idx", 2**31 - 3) + 1
    for name in ("num_class", "num_tree_per_iteration"):
        if _whole(header, name, 2**31) != 1:
            raise ValueError(f"{name} is {header[name]}; models of several classes rank nothing.")
    names, objective = header.get("feature_names", "").split(" "), header.get("objective", "")
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names; there are {n_features} features.")
    is_own, counted = header.get("podium") == "1", _counted(n_features)
    forest, prepared = read_trees(blocks, n_features, is_own)
    source = "LightGBM text" + (f", objective {objective}" if objective else "")
    divisor = float(forest.n_trees) if "average_output" in header and forest.n_trees else 1.0
    categories, notes = _categories(content[end:], header, names)
    name, *options = objective.split(" ")
    if objective and (name not in _SAME_SCORE or "sqrt" in options):
        notes += (f"scores are those of predict(raw_score=True): {objective} changes them, in the same order",)
    model = ImportedForest.of(
        forest,
        source,
        names=None if names == counted else names,
        prepared=prepared,
        divisor=divisor,
        categories=categories,
    )
    how = (
        "dense rows" if not is_own else "rows of a CSR matrix, or dense ones without values below 1e-35 that are not 0"
    )
    return Imported(model, Claim(BITS, f"LightGBM 4, predict of {how}", (_FLOATS,)), notes)


def _counted(n_features: int) -> list[str]:
    return [f"Column_{number}" for number in range(n_features)]


def _header(text: bytes) -> dict[str, str]:
    lines = text.decode("utf-8", "replace").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _whole(header: dict[str, str], name: str, most: int) -> int:
    text = header.get(name, "")
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or int(text) > most:
        shown = f"{name}={text[:40]}" if name in header else "no such line"
        raise ValueError(f"the header must have {name}= and an integer up to {most:,}; found {shown}.")
    return int(text)


def _categories(
    tail: bytes, header: dict[str, str], names: Sequence[str]
) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """The names of categories that pandas had, by feature, where it is clear whose they are; and what is not kept."""
    found_at = tail.find(b"\npandas_categorical:")
    if found_at < 0:
        return {}, ()
    try:
        listed = json.loads(tail[found_at:].split(b"\n")[1].partition(b":")[2])
    except (ValueError, RecursionError):
        raise ValueError("the line pandas_categorical: must have JSON.") from None
    if not isinstance(listed, list) or not listed:
        return {}, ()
    infos = header.get("feature_infos", "").split(" ")
    owners = [name for name, info in zip(names, infos) if info != "none" and not info.startswith("[")]
    fit = len(owners) == len(listed) and all(isinstance(known, list) and known for known in listed)
    if not fit or any(isinstance(one, (list, dict)) for known in listed for one in known):
        return {}, ("categories are numbers, as in feature_infos: the file does not say which names belong to which",)
    return dict(zip(owners, listed)), ()


# --- the program itself


def run(path: str, X: Array) -> tuple[Array, str]:
    """Scores by LightGBM, of dense rows; to be called in a process of its own, which a damaged file may end."""
    import lightgbm

    booster = lightgbm.Booster(model_file=path, params={"num_threads": 1})
    return np.asarray(booster.predict(X, raw_score=True)), f"LightGBM {lightgbm.__version__}"
