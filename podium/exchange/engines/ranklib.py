"""RankLib's model files: trees in XML, weights or weak rankers on one line; and back.

    ## LambdaMART
    <ensemble>
        <tree id="1" weight="0.1">
            <split>
                <feature>3 </feature>
                <threshold> 0.5 </threshold>
                <split pos="left">
                    <output>1.25 </output>

The first line names the ranker, other lines that begin with ## are comments. Features count from 1, and what is missing
is 0. Trees send x <= threshold left; a score is s = (float) (s + output * weight), tree by tree, from 0. `Random
Forests` have several ensembles, whose scores are averaged in float64. `Coordinate Ascent`, `AdaRank` and `Linear
Regression`: `feature:weight`, feature 0 for a constant, added up in float64. `RankBoost`: `feature:threshold:weight`,
the weight where x > threshold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.chains import (
    AS_ZERO,
    LARGEST,
    chain_claim,
    java_number,
    linear_chain,
    linear_claim,
    missing_as_zero,
    send_missing,
    single_trees,
    zero_goes_right,
)
from podium.exchange.claims import BITS, DOUBLE, TOLERANCE, Claim, Imported, Written
from podium.exchange.engines.ranklib_xml import (
    MOST_FEATURES,
    Ensembles,
    parse_ensembles,
    read_feature,
    read_number,
    tree_xml,
)
from podium.exchange.forms import Form, LinearSum, Trees
from podium.exchange.nodes import Nodes, forest_of
from podium.exchange.rounding import at_most
from podium.models.frame.inspection import NumberedNames
from podium.models.imported import ImportedForest, ImportedLinear

WHERE = "RankLib"
TREES, LINEAR = ("lambdamart", "mart", "random forests"), ("coordinate ascent", "adarank", "linear regression")
NETS = ("ranknet", "lambdarank", "listnet")
_ENGINE = "RankLib 2"
_ROWS = "features are numbered from 1, in the order of the model; each row has the last one, or -missingZero is set"
_HEAD = re.compile(rb"##[ \t]*([A-Za-z][A-Za-z ]{2,30}?)[ \t]*\r?(\n|$)")
_FEATURES, _NAMES = "## Features = ", "## Feature names = "
_NEAR = 1e-9  # relative: sums of the same products in another order


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    match = _HEAD.match(head)
    return match is not None and match[1].decode().lower() in (*TREES, *LINEAR, *NETS, "rankboost")


# --- out


def write(form: Form, engine: str | None = None) -> Written:
    if isinstance(form, LinearSum):
        return _write_linear(form)
    if isinstance(form, Trees):
        if _is_rank_boost(form):
            return _write_rank_boost(form)
        if _is_average(form):
            return _write_average(form)
    return _write_trees(form)


def _header(name: str, names: Sequence[str]) -> str:
    """The first lines; RankLib skips all but the first."""
    lines = [f"## {name}", f"{_FEATURES}{len(names)}"]
    if not isinstance(names, NumberedNames):
        lines.append(f"{_NAMES}{json.dumps(list(names))}")
    return "\n".join([*lines, ""])


def _as_ranklib(trees: Trees) -> Trees:
    return send_missing(trees, zero_goes_right(trees), WHERE, AS_ZERO)


def _ensemble(trees: Trees) -> str:
    parts = trees.forest.split()
    return "".join(["<ensemble>\n", *(tree_xml(tree, number) for number, tree in enumerate(parts, 1)), "</ensemble>\n"])


def _write_trees(form: Form) -> Written:
    """One ensemble of trees of weight 1."""
    whole = single_trees(form, WHERE)
    trees = _as_ranklib(whole).in_single()
    content = _header("LambdaMART", trees.names) + "\n" + _ensemble(trees.with_start_as_tree())
    return Written(content.encode(), chain_claim(whole, f"{_ENGINE}, LambdaMART", [_ROWS]), trees.scores)


def _is_average(form: Trees) -> bool:
    """Whether the score is the mean of the trees, which are float32: then nothing is rounded on the way."""
    values, n_trees = form.forest.value, form.forest.n_trees
    mean = form.divisor == n_trees > 1 and form.factor == 1 and form.forest.start == 0
    with np.errstate(over="ignore"):
        return mean and values.dtype == np.float64 and bool((values.astype(np.float32) == values).all())


def _write_average(form: Trees) -> Written:
    """One ensemble per tree: the sum and the mean of these are float64."""
    single_trees(form, WHERE)  # refuses what no tree there has
    trees = _as_ranklib(form)
    ensembles = [f"<ensemble>\n{tree_xml(tree, 1)}</ensemble>\n\n" for tree in trees.forest.split()]
    content = _header("Random Forests", trees.names) + "\n" + "".join(ensembles)
    claim = trees.claim(np.float64, f"{_ENGINE}, Random Forests", [_ROWS])
    return Written(content.encode(), claim, trees.scores)


def _is_rank_boost(form: Trees) -> bool:
    """Whether each tree is 0 up to a threshold and something above it: then RankLib adds up in float64."""
    forest = form.forest
    if not form.is_plain or forest.start != 0 or forest.value.dtype != np.float64 or len(forest.sets):
        return False
    stumps = forest.n_trees > 0 and bool((np.diff(forest.roots) == 3).all())
    return stumps and not forest.value[1::3].any()


def _write_rank_boost(form: Trees) -> Written:
    trees = _as_ranklib(form)
    forest = trees.forest
    columns = (forest.feature[::3].tolist(), forest.threshold[::3].tolist(), forest.value[2::3].tolist())
    rankers = [f"{feature + 1}:{java_number(at)}:{weight!r}" for feature, at, weight in zip(*columns)]
    content = _header("RankBoost", trees.names) + " ".join(rankers) + "\n"
    claim = trees.claim(np.float64, f"{_ENGINE}, RankBoost", [_ROWS])
    return Written(content.encode(), claim, trees.scores)


def _write_linear(form: LinearSum) -> Written:
    """Without a constant the text of Coordinate Ascent, else that of Linear Regression, which begins with it."""
    name = "Linear Regression" if form.intercept else "Coordinate Ascent"
    constant = [f"0:{form.intercept!r}"] if form.intercept else []
    weights = [f"{number}:{weight!r}" for number, weight in enumerate(form.weights.tolist(), 1)]
    content = _header(name, form.names) + " ".join(constant + weights) + "\n"
    claim = linear_claim(form, np.float64, f"{_ENGINE}, {name}", [_ROWS])
    if form.intercept and claim.kind == BITS:
        claim = Claim(DOUBLE, claim.engine, (*claim.conditions, "from the constant on"))
    return Written(content.encode(), claim, lambda X: _linear_scores(form, X))


def _linear_scores(form: LinearSum, X: Array) -> Array:
    return linear_chain(form, missing_as_zero(X), form.intercept, np.float64)


# --- in


def read(content: bytes) -> Imported:
    """The model of a file; a ValueError says what is wrong with it, and where."""
    match = _HEAD.match(content)
    if match is None:
        raise ValueError('the first line must be "## " and the name of the ranker, such as "## LambdaMART".')
    name = match[1].decode()
    if name.lower() in NETS:
        advice = "Train a RankNet, LambdaRank or ListNet here; RankLib's trees, weights and RankBoost are read."
        raise ValueError(f"{name} is a net, which RankLib keeps without its scaling of the features. {advice}")
    lines = [line.strip(" \t") for line in content.decode("ascii", "replace").replace("\r", "\n").split("\n")]
    comments = [line for line in lines if line.startswith("##")]
    body = [line for line in lines if line and not line.startswith("##")]
    if name.lower() in TREES:
        return _read_trees(name, body, comments)
    if name.lower() in LINEAR:
        return _read_linear(name, body, comments)
    if name.lower() == "rankboost":
        return _read_rank_boost(name, body, comments)
    known = ", ".join([*TREES, *LINEAR, "RankBoost"])
    raise ValueError(f"the first line names {name!r}, which is none of: {known}.")


def _features(comments: Sequence[str], used: int) -> tuple[int, list[str] | None]:
    """How many features there are, and their names, as files of Podium say in comments; else those that are used."""
    n_features, names = max(used, 1), None
    for line in comments:
        if line.startswith(_FEATURES):
            text = line.removeprefix(_FEATURES).strip()
            if not re.fullmatch(r"\d{1,7}", text, re.ASCII) or not n_features <= int(text) <= MOST_FEATURES:
                raise ValueError(f'"{line[:60]}" must give an integer from {n_features:,} to {MOST_FEATURES:,}.')
            n_features = int(text)
        elif line.startswith(_NAMES):
            names = _names(line.removeprefix(_NAMES))
    if names is not None and len(names) != n_features:
        raise ValueError(f"{len(names)} features have names; there are {n_features:,}.")
    return n_features, names


def _names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f'"{_NAMES.strip()}" must be followed by a JSON list of different names.')
    return names


def _read_trees(name: str, body: Sequence[str], comments: Sequence[str]) -> Imported:
    parsed = parse_ensembles("".join(body))
    is_average = name.lower() == "random forests"
    if len(parsed.sizes) != 1 and not is_average:
        raise ValueError(f"{name} has one ensemble; found {len(parsed.sizes)}.")
    n_features, names = _features(comments, int(parsed.feature.max(initial=0)))
    one_by_one = is_average and bool((np.asarray(parsed.sizes) == 1).all())
    value = _values(parsed, is_average, one_by_one)
    nodes = Nodes(
        sizes=parsed.n_nodes, left=parsed.left, right=parsed.right, feature=parsed.feature - 1,
        threshold=parsed.threshold, missing_right=~(parsed.threshold >= 0), value=value,
    )  # fmt: skip
    forest = forest_of(nodes, 0.0, n_features)
    if not forest.largest_score <= LARGEST:
        raise ValueError(f"scores may reach {forest.largest_score:.3g}, which float32 does not hold.")
    divisor, chain = float(len(parsed.sizes)), not is_average and value.dtype == np.float64
    model = ImportedForest.of(forest, f"RankLib, {name}", names=names, divisor=divisor, single_sums=chain)
    if is_average and not one_by_one:
        claim = Claim(TOLERANCE, f"{_ENGINE}, {name}", ("bags of several trees are added up in float32 there",), 1e-5)
    else:
        claim = Claim(BITS, f"{_ENGINE}, {name}", (_ROWS,))
    return Imported(model, claim)


def _values(parsed: Ensembles, is_average: bool, one_by_one: bool) -> Array:
    """What leaves add: the exact product of two float32 numbers; RankLib rounds the sum after it, to float32."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value = parsed.output.astype(np.float64) * np.repeat(parsed.weight.astype(np.float64), parsed.n_nodes)
        single = value.astype(np.float32)
    if one_by_one:  # the sum of an ensemble is this one product
        return single.astype(np.float64)
    return single if not is_average and bool((single == value).all()) else value


def _only_line(name: str, body: Sequence[str]) -> list[str]:
    """The words of the one line that RankLib reads."""
    if len(body) != 1:
        raise ValueError(f"{name} has one line of weights after the comments; found {len(body)}.")
    return body[0].split(" ")


def _read_linear(name: str, body: Sequence[str], comments: Sequence[str]) -> Imported:
    has_constant = name.lower() == "linear regression"
    features, weights = [], []
    for word in filter(None, _only_line(name, body)):
        feature, colon, weight = word.partition(":")
        features.append(read_feature(feature, f"{word[:40]!r}", 0 if has_constant else 1))
        weights.append(read_number(weight, f"the weight of {feature}") if colon else np.nan)
    if not np.isfinite(weights).all() or not features:
        raise ValueError(f"{name} must have pairs feature:weight, with finite weights.")
    if has_constant != (features.count(0) == 1):
        raise ValueError(f"{name} has one constant, as feature 0; found {features.count(0)}.")
    n_features, names = _features(comments, max(features))
    sums = np.zeros(n_features + 1)
    np.add.at(sums, features, weights)
    if not np.isfinite(sums).all():
        raise ValueError("the weights of a feature are not finite in sum.")
    model = ImportedLinear.of(sums[1:], sums[0], f"RankLib, {name}", names)
    in_order = features == sorted(set(features)) and not sums[0]
    if in_order:
        return Imported(model, Claim(BITS, f"{_ENGINE}, {name}", (_ROWS,)))
    reason = "products are added up in the order of the features, and a constant last"
    return Imported(model, Claim(TOLERANCE, f"{_ENGINE}, {name}", (_ROWS, reason), _NEAR))


def _read_rank_boost(name: str, body: Sequence[str], comments: Sequence[str]) -> Imported:
    """Each weak ranker is a tree of one split: 0 up to the threshold, its weight above it."""
    features, thresholds, weights = [], [], []
    for number, word in enumerate(filter(None, _only_line(name, body)), 1):
        parts = word.split(":")
        if len(parts) != 3:
            raise ValueError(f"weak ranker {number} must be feature:threshold:weight; found {word[:40]!r}.")
        features.append(read_feature(parts[0], f"weak ranker {number}"))
        thresholds.append(read_number(parts[1], f"the threshold of weak ranker {number}"))
        weights.append(read_number(parts[2], f"the weight of weak ranker {number}"))
    n_features, names = _features(comments, max(features, default=0))
    forest = forest_of(_stumps(np.array(features), np.array(thresholds), np.array(weights)), 0.0, n_features)
    model = ImportedForest.of(forest, f"RankLib, {name}", names=names)
    return Imported(model, Claim(BITS, f"{_ENGINE}, {name}", (_ROWS,)))


def _stumps(features: Array, thresholds: Array, weights: Array) -> Nodes:
    part = np.arange(3 * len(features)) % 3  # a split, its left leaf, its right leaf
    split, places = part == 0, np.arange(3 * len(features))
    return Nodes(
        sizes=np.full(len(features), 3, np.int64),
        left=np.where(split, places + 1, -1),
        right=np.where(split, places + 2, -1),
        feature=np.where(split, np.repeat(features, 3) - 1, 0).astype(np.int64),
        threshold=np.where(split, np.repeat(at_most(thresholds), 3), 0).astype(np.float32),
        missing_right=split & ~(np.repeat(thresholds, 3) >= 0),
        value=np.where(part == 2, np.repeat(weights, 3), 0.0),
        gain=np.where(split, np.abs(np.repeat(weights, 3)), 0.0),
    )
