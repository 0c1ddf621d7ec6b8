"""What formats are tested on: random forests, rows on which programs differ, and a plain walk through a forest."""

from dataclasses import replace

import numpy as np

from podium.exchange.forms import Trees
from podium.exchange.nodes import Nodes, forest_of
from podium.learners.trees.scoring.categories import SET_THRESHOLD, CategorySets
from podium.models.frame.inspection import NumberedNames
from podium.models.imported import ImportedForest

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1e-38, 1e-36, -1e-36, 3.4e38, -3.4e38], np.float32)


def random_forest(seed, n_trees=5, n_features=6, depth=5, categorical=(), missing="any", start=0.25, single=False):
    """A forest of random shapes: single leaves, chains, bushes.

    categorical: features that are asked for sets of categories. missing: where missing values go: "any", or "zero" for
    the side of 0. single: values and sums in float32.
    """
    random = np.random.default_rng(seed)
    sizes, nodes, sets = [], [], []
    for _ in range(n_trees):
        first = len(nodes)
        nodes.append(None)
        waiting = [(first, 0)]
        while waiting:
            place, level = waiting.pop(random.integers(len(waiting)))
            if level >= depth or random.random() < (0.15 if level else 0.05):
                nodes[place] = {"left": -1, "right": -1, "feature": 0, "threshold": 0, "missing": False, "of_set": -1}
                nodes[place]["value"] = random.standard_normal() * 10.0 ** random.integers(-3, 2)
                continue
            feature, of_set = int(random.integers(n_features)), -1
            threshold = np.float32(random.choice([random.standard_normal(), *SPECIAL, float(random.integers(-3, 4))]))
            right = bool(random.integers(2)) if missing == "any" else not threshold >= 0
            if feature in categorical:
                known = np.unique(random.integers(0, 40, random.integers(2, 12)))
                sides = random.integers(0, 2, len(known))
                of_set, right = len(sets), bool(random.integers(2))
                sets.append((feature, known, sides))
            nodes.extend([None, None])
            both = [len(nodes) - 2, len(nodes) - 1]
            random.shuffle(both)
            nodes[place] = {
                "left": both[0],
                "right": both[1],
                "feature": feature,
                "threshold": threshold,
                "missing": right,
                "of_set": of_set,
                "value": 0.0,
            }
            waiting += [(both[0], level + 1), (both[1], level + 1)]
        sizes.append(len(nodes) - first)
    column = {name: np.array([node[name] for node in nodes]) for name in nodes[0]}
    counts = np.random.default_rng(seed).integers(0, 100, len(nodes))
    made = Nodes(
        np.array(sizes), column["left"], column["right"], column["feature"], column["threshold"].astype(np.float32),
        column["missing"], column["value"].astype(np.float32 if single else np.float64),
        gain=np.where(column["left"] >= 0, 1.0, 0.0), count=counts, of_set=column["of_set"], sets=_joined(sets),
    )  # fmt: skip
    return forest_of(made, float(np.float32(start)) if single else start, n_features)


def _joined(sets):
    if not sets:
        return CategorySets.none()
    starts = np.cumsum([0, *(len(known) for _, known, _ in sets)])
    values = np.concatenate([known for _, known, _ in sets]).astype(np.float32)
    sides = np.concatenate([sides for _, _, sides in sets]).astype(np.uint8)
    return CategorySets(np.array([feature for feature, _, _ in sets]), starts.astype(np.int64), values, sides)


def random_model(seed, names=None, **options):
    """A model of such a forest, without names of features unless given."""
    return ImportedForest.of(random_forest(seed, **options), "test", names=names)


def random_form(seed, names=None, **options):
    forest = random_forest(seed, **options)
    return Trees.of(forest, names or NumberedNames(forest.n_features))


def on_grid(forest, digits):
    """The forest with its start and leaves rounded to the grid of so many digits."""
    value = forest.value.astype(np.float64)
    total = abs(forest.start) + np.maximum.reduceat(np.abs(value), forest.roots[:-1]).sum()
    grid = 2.0 ** (np.ceil(np.log2(total)) - digits)
    rounded = (np.round(value / grid) * grid + 0.0).astype(forest.value.dtype)
    return replace(forest, value=rounded, start=float(np.round(forest.start / grid) * grid + 0.0))


def hostile_rows(forest, n_rows=400, seed=0, missing=True, categorical=()):
    """Rows of thresholds and their neighbours, zeros, the smallest and largest numbers, missing and unseen values."""
    random = np.random.default_rng([seed, 7])
    at = np.unique(forest.threshold[np.isfinite(forest.threshold)])
    with np.errstate(over="ignore"):
        beside = [at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf)), SPECIAL]
    values = np.concatenate(beside)
    rows = random.choice(values[np.isfinite(values)], (n_rows, forest.n_features)).astype(np.float32)
    for feature in categorical:
        rows[:, feature] = random.integers(-2, 50, n_rows)
    if missing:
        rows[random.random(rows.shape) < 0.15] = np.nan
    return rows


def plain_scores(forest, X, dtype=np.float64):
    """The sum of leaves by a walk in plain Python: shares nothing with the kernels."""
    scores = []
    for row in X.tolist():
        score = dtype(forest.start)
        for root in forest.roots[:-1].tolist():
            node = root
            while forest.left[node] != node:
                node = int(forest.left[node]) + int(_goes_right(forest, node, row))
            score = dtype(score + dtype(forest.value[node]))
        scores.append(score)
    return np.array(scores, np.float64)


def _goes_right(forest, node, row):
    feature = int(forest.feature[node])
    if feature < forest.n_features:
        x = row[feature]
        return bool(forest.missing_right[node]) if x != x else x > forest.threshold[node]
    assert forest.threshold[node] == SET_THRESHOLD
    number = feature - forest.n_features
    left, right = forest.sets.sides_of(number)
    x = row[int(forest.sets.feature[number])]
    if x in left.tolist() or x in right.tolist():
        return x in right.tolist()
    return bool(forest.missing_right[node])
