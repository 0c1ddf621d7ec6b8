"""Models of Solr's Learning to Rank module: what is sent to `schema/model-store` of a collection.

`MultipleAdditiveTreesModel`: nested trees, whose numbers are texts. A split sends x <= threshold left, but Solr adds
1e-6 to every threshold it reads, in float32: so the number that is written is one that gives the model's threshold
after that. Below 1e-6 there often is none. Missing values go where each split says (Solr 9.2 and later), if the
features are configured so. `LinearModel`: the weight of each feature. Both add up in float32.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.chains import (
    chain_claim,
    is_split,
    java_number,
    linear_chain,
    linear_claim,
    missing_as_zero,
    node_name,
    refuse_same_names,
    single_trees,
    single_weights,
    used_names,
)
from podium.exchange.claims import Written
from podium.exchange.forms import Form, LinearSum, Trees
from podium.learners.trees.scoring.forest import TreeArrays

WHERE = "Solr"
NAME = "podium"  # of the model, to be changed in the file
SLACK = np.float32(1e-6)  # what Solr adds
_PACKAGE = "org.apache.solr.ltr.model"
_STEPS = 4  # float32 numbers on each side of threshold - slack that are tried
_POST = f'PUT it to schema/model-store of the collection; the model is called "{NAME}" there'
_FEATURES = "the feature store has the features under the names of the model's"
_MISSING = 'each feature that can be missing has "defaultValue": "NaN" there; without it, missing values are 0'


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return head.startswith(f'{{"class": "{_PACKAGE}.'.encode())


def write(form: Form, engine: str | None = None) -> Written:
    if isinstance(form, LinearSum):
        return _write_linear(form)
    whole = single_trees(form, WHERE)
    written = _written_thresholds(whole)
    trees = whole.in_single()
    names = {feature: json.dumps(name) for feature, name in used_names(whole).items()}
    texts = [_tree_text(tree, names, written) for tree in trees.with_start_as_tree().forest.split()]
    params = f'"isNullSameAsZero": false, "trees": [{", ".join(texts)}]'
    content = _body("MultipleAdditiveTreesModel", list(names.values()) or [json.dumps(whole.names[0])], params)
    conditions = [_FEATURES] if whole.complete else [_FEATURES, _MISSING]
    return Written(content, chain_claim(whole, "Solr 9.2 and later", conditions), trees.scores, (_POST,))


def _body(kind: str, names: Sequence[str], params: str) -> bytes:
    """names: of the features, as JSON."""
    features = ", ".join(f'{{"name": {name}}}' for name in names)
    head = f'"class": "{_PACKAGE}.{kind}", "name": "{NAME}", "features": [{features}]'
    return f'{{{head}, "params": {{{params}}}}}\n'.encode()


# --- trees


def _written_thresholds(trees: Trees) -> dict[float, float]:
    """By threshold, the number that Solr makes it of; refused where there is none."""
    splits = np.flatnonzero(is_split(trees))
    wanted, first = np.unique(trees.forest.threshold[splits], return_index=True)
    written, is_reached = without_slack(wanted)
    if not is_reached.all():
        at = int(np.argmin(is_reached))
        problem = f"{node_name(trees, int(splits[first[at]]))} has the threshold {float(wanted[at]):.9g}"
        reason = "Solr adds 1e-6 to what it reads, in float32, and no number gives this one"
        raise ValueError(f"{problem}. {reason}. Multiply the feature by 1,000 or more in the data, and train again.")
    return dict(zip(wanted.tolist(), written.tolist()))


def without_slack(thresholds: Array) -> tuple[Array, Array]:
    """Numbers w with w + 1e-6 = threshold in float32, and whether there is one."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = (thresholds.astype(np.float64) - np.float64(SLACK)).astype(np.float32)
        written, is_reached = near.copy(), near + SLACK == thresholds
        for direction in (np.float32(-np.inf), np.float32(np.inf)):
            tried = near
            for _ in range(_STEPS):
                tried = np.nextafter(tried, direction)
                better = ~is_reached & (tried + SLACK == thresholds)
                written, is_reached = np.where(better, tried, written), is_reached | better
    return written, is_reached


def _tree_text(tree: TreeArrays, names: dict[int, str], written: dict[float, float]) -> str:
    """The nested JSON of a tree; children stand behind their parents, so theirs is made first."""
    left, texts = tree.left.astype(np.int64).tolist(), [""] * len(tree.left)
    thresholds = tree.threshold.tolist()
    for node in range(len(left) - 1, -1, -1):
        child = left[node]
        if child == node:
            texts[node] = f'{{"value": "{float(tree.value[node])!r}"}}'
            continue
        feature, threshold = names[int(tree.feature[node])], java_number(written[thresholds[node]])
        missing = "right" if tree.missing_right[node] else "left"
        texts[node] = (
            f'{{"feature": {feature}, "threshold": "{threshold}", "missing": "{missing}", '
            f'"left": {texts[child]}, "right": {texts[child + 1]}}}'
        )
        texts[child] = texts[child + 1] = ""
    return f'{{"weight": "1", "root": {texts[0]}}}'


# --- weights


def _write_linear(form: LinearSum) -> Written:
    refuse_same_names(form.names, WHERE)
    weights = json.dumps(dict(zip(form.names, single_weights(form, WHERE).tolist())))
    conditions = [_FEATURES]
    if form.intercept:
        conditions.append(f"without the intercept {form.intercept:.9g}, which changes no order")
    claim = linear_claim(form, np.float32, "Solr 6.4 and later", conditions)
    content = _body("LinearModel", [json.dumps(name) for name in form.names], f'"weights": {weights}')
    return Written(content, claim, lambda X: linear_chain(form, missing_as_zero(X), 0.0, np.float32), (_POST,))
