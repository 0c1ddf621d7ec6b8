"""RankLib's files, read as RankLib does: lines joined, elements by their order, float32 after each tree."""

import re
import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import numpy as np


def scores(content, X, in_order=False):
    """in_order: weights as RankLib adds them, in the order of the file."""
    lines = [line.strip(" \t") for line in re.split("[\r\n]", content.decode("ascii", "replace"))]
    name = lines[0].removeprefix("##").strip().lower()
    body = [line for line in lines if line and not line.startswith("##")]
    rows = [[np.float32(0) if x != x else x for x in row] for row in np.asarray(X, np.float32)]
    if name in ("lambdamart", "mart", "random forests"):
        ensembles = ElementTree.fromstring(f"<all>{''.join(body)}</all>")
        return [mean([ensemble_score(ensemble, row) for ensemble in ensembles]) for row in rows]
    return [boosted(body[0], row) if name == "rankboost" else weighted(body[0], row, in_order) for row in rows]


def mean(sums):
    total = 0.0
    for one in sums:
        total += float(one)
    return total / len(sums)


def ensemble_score(ensemble, row):
    s = np.float32(0)
    for tree in ensemble:
        node = tree[0]
        while node[0].tag == "feature":
            feature, threshold = int(node[0].text), single(node[1].text)
            node = node[2] if row[feature - 1] <= threshold else node[3]
        s = np.float32(np.float64(s) + np.float64(single(node[0].text)) * np.float64(single(tree.get("weight"))))
    return s


def single(text):
    """The float32 nearest to a text, by fractions; of two, the even one."""
    wide = float(text)
    with np.errstate(over="ignore"):
        near = np.float32(wide)
    if not np.isfinite(near) or wide == 0:
        return near
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    exact = Fraction(text.strip())
    finite = [one for one in around if np.isfinite(one)]
    return min(finite, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.uint32)) & 1))


def weighted(line, row, in_order):
    """From the first feature to the last, then the constant; else from the constant on."""
    pairs = [word.split(":") for word in line.split(" ") if word]
    pairs = [(int(feature), float(weight)) for feature, weight in pairs]
    constant = sum(weight for feature, weight in pairs if feature == 0)
    if in_order:
        total = constant
        for feature, weight in pairs:
            total += weight * float(row[feature - 1]) if feature else 0.0
        return total
    merged, total = {}, 0.0
    for feature, weight in pairs:
        merged[feature] = merged.get(feature, 0.0) + weight
    for feature in sorted(set(merged) - {0}):
        total += merged[feature] * float(row[feature - 1])
    return total + constant


def boosted(line, row):
    total = 0.0
    for word in filter(None, line.split(" ")):
        feature, threshold, weight = word.split(":")
        total += float(weight) * (1 if float(row[int(feature) - 1]) > float(threshold) else 0)
    return total
