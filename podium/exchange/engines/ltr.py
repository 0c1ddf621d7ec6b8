"""Models of the LTR plugins of Elasticsearch and OpenSearch: what `_ltr/_featureset/SET/_createmodel` takes.

The definition is a JSON text within JSON: nested trees as XGBoost prints them (`model/xgboost+json`), or the weight of
each feature (`model/linear`). Features go by their names. A split sends x < c to its first child; leaves are added up
in float32, without the base score of XGBoost, so the start is a first tree of one leaf.

What is missing is 0 in older plugins; later a NaN, which always went right; today it goes where the split says.
"""

from __future__ import annotations

import json
import re

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.chains import (
    AS_ZERO,
    chain_claim,
    linear_chain,
    linear_claim,
    missing_as_zero,
    node_name,
    other_sides,
    refuse_same_names,
    send_missing,
    single_trees,
    single_weights,
    used_names,
    zero_goes_right,
)
from podium.exchange.claims import Written
from podium.exchange.forms import Form, LinearSum, Trees
from podium.exchange.rounding import strict
from podium.learners.trees.scoring.forest import TreeArrays

WHERE = "the LTR plugin"
NAME = "podium"  # of the model, to be changed in the file
STATED, RIGHT, ZERO = "stated", "right", "zero"  # where missing values go
_RULES = {RIGHT: "sends missing values right at every split", ZERO: AS_ZERO}
_ENGINES = (
    '"elasticsearch" (the plugin of January 2024 or later), "elasticsearch-2023" (before), or "opensearch-3.1", '
    "with the version of OpenSearch"
)
_LARGEST = np.finfo(np.float32).max
_DEEPEST = 400  # levels: JSON may be nested 1,000 deep there, and a level of a tree is two of JSON
_SCORES = "features have the names and values of the model's, and none is negative, which the search engine refuses"


def missing_rule(engine: str | None) -> str | None:
    """Where a plugin sends missing values; None: it was not said which plugin."""
    if engine is None:
        return None
    match = re.fullmatch(r"(elasticsearch)(-\d{4})?|opensearch-(\d{1,4})\.(\d{1,4})(\.\d+)*", engine, re.ASCII)
    if match is None:
        raise ValueError(f"engine must be {_ENGINES}; got {engine!r}.")
    if match[1]:
        return STATED if match[2] is None or match[2] >= "-2024" else ZERO
    version = (int(match[3]), int(match[4]))
    return STATED if version >= (3, 8) else RIGHT if version >= (3, 2) else ZERO


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return head.startswith(b'{"model": {"name": ')


def write(form: Form, engine: str | None = None) -> Written:
    rule = missing_rule(engine)
    words = f"LTR plugin of {engine}" if engine else "LTR plugin of Elasticsearch or OpenSearch"
    return _write_linear(form, words) if isinstance(form, LinearSum) else _write_trees(form, rule, words)


def _body(kind: str, definition: str) -> bytes:
    """What the plugin takes."""
    model = {"name": NAME, "model": {"type": f"model/{kind}", "definition": definition}}
    return json.dumps({"model": model}).encode() + b"\n"


# --- trees


def _write_trees(form: Form, rule: str | None, words: str) -> Written:
    whole = single_trees(form, WHERE)
    _refuse_depth(whole)
    trees = _with_rule(whole, rule).in_single()
    first = trees.with_start_as_tree()
    names = {feature: json.dumps(name) for feature, name in used_names(whole).items()}
    texts = [_tree_text(tree, names) for tree in first.forest.split()] or ['{"nodeid": 0, "leaf": 0.0}']
    content = _body("xgboost+json", f"[{','.join(texts)}]")
    return Written(content, chain_claim(whole, words, [_SCORES]), trees.scores, _notes(len(names)))


def _notes(n_features: int) -> tuple[str, ...]:
    advice = f"the feature set needs all {n_features:,} that the model uses, under their names"
    return (f'POST it to _ltr/_featureset/SET/_createmodel; the model is called "{NAME}" there; {advice}',)


def _refuse_depth(trees: Trees) -> None:
    deepest = int(trees.forest.depths.max(initial=0))
    if deepest > _DEEPEST:
        tree = int(np.argmax(trees.forest.depths)) + 1
        problem = f"tree {tree} has {deepest:,} levels; JSON that deep is refused by the search engine"
        raise ValueError(f"{problem}. Train it with max_depth={_DEEPEST} at most.")


def _with_rule(trees: Trees, rule: str | None) -> Trees:
    """The trees with missing values where the plugin sends them."""
    # What every number obeys is written with its children changed: x < -largest never holds, so all go right.
    always = trees.forest.threshold >= _LARGEST
    sides = {RIGHT: ~always, ZERO: zero_goes_right(trees)}
    if rule in sides:
        return send_missing(trees, sides[rule], WHERE, _RULES[rule])
    if rule is None and not trees.complete:
        for known in (RIGHT, ZERO):
            others = other_sides(trees, sides[known])
            if len(others):
                problem = f"{node_name(trees, int(others[0]))}: where missing values go depends on the plugin"
                raise ValueError(f"{problem}. Give engine={_ENGINES}; or complete=True, if no value is missing.")
    return trees


def _tree_text(tree: TreeArrays, names: dict[int, str]) -> str:
    """The nested JSON of a tree; children stand behind their parents, so theirs is made first."""
    left, texts = tree.left.astype(np.int64).tolist(), [""] * len(tree.left)
    always, depths = tree.threshold >= _LARGEST, _levels(left)
    with np.errstate(over="ignore"):
        conditions = np.where(always, -_LARGEST, strict(tree.threshold))
    for node in range(len(left) - 1, -1, -1):
        if left[node] == node:
            texts[node] = f'{{"nodeid": {node}, "leaf": {float(tree.value[node])!r}}}'
            continue
        yes, no = (left[node] + 1, left[node]) if always[node] else (left[node], left[node] + 1)
        missing = left[node] + int(tree.missing_right[node])
        texts[node] = (
            f'{{"nodeid": {node}, "depth": {depths[node]}, "split": {names[int(tree.feature[node])]}, '
            f'"split_condition": {float(conditions[node])!r}, "yes": {yes}, "no": {no}, "missing": {missing}, '
            f'"children": [{texts[yes]}, {texts[no]}]}}'
        )
        texts[yes] = texts[no] = ""
    return texts[0]


def _levels(left: list[int]) -> list[int]:
    """How deep each node lies."""
    levels = [0] * len(left)
    for node, child in enumerate(left):
        if child != node:
            levels[child] = levels[child + 1] = levels[node] + 1
    return levels


# --- weights


def _write_linear(form: LinearSum, words: str) -> Written:
    weights = single_weights(form, WHERE)
    refuse_same_names(form.names, WHERE)
    content = _body("linear", json.dumps(dict(zip(form.names, weights.tolist()))))
    conditions = [_SCORES, "the feature set lists the features in the order of the model"]
    if form.intercept:
        conditions.append(f"without the intercept {form.intercept:.9g}, which changes no order")
    claim = linear_claim(form, np.float32, words, conditions)
    return Written(content, claim, lambda X: _linear_scores(form, X), _notes(len(form.names)))


def _linear_scores(form: LinearSum, X: Array) -> Array:
    return linear_chain(form, missing_as_zero(X), 0.0, np.float32)
