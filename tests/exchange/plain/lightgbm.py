"""LightGBM's text, read line by line."""

import math
import struct

TINY = struct.unpack("f", struct.pack("f", 1e-35))[0]


def scores(content, X):
    text = content.decode("utf-8", "replace").replace("\r", "")
    head, *blocks = text[: text.index("\nend of trees")].split("\nTree=")
    header = dict(line.split("=", 1) for line in head.split("\n") if "=" in line)
    trees = [dict(line.split("=", 1) for line in block.split("\n")[1:] if "=" in line) for block in blocks]
    divisor = len(trees) if "average_output" in head.split("\n") and trees else 1
    flush = header.get("podium") != "1"
    sums = []
    for row in X.tolist():
        row = [0.0 if flush and abs(x) <= TINY else x for x in row]
        total = 0.0
        for tree in trees:
            total += leaf(tree, row)
        sums.append(total / divisor)
    return sums


def numbers(tree, name, kind):
    return [kind(word) for word in tree.get(name, "").split()]


def whole(word):
    assert float(word) == math.floor(float(word))
    return int(float(word))


def leaf(tree, row):
    values = numbers(tree, "leaf_value", float)
    if whole(tree["num_leaves"]) == 1:
        return values[0]
    left, right = numbers(tree, "left_child", whole), numbers(tree, "right_child", whole)
    features, kinds = numbers(tree, "split_feature", whole), numbers(tree, "decision_type", whole)
    thresholds, node = numbers(tree, "threshold", float), 0
    while node >= 0:
        goes_left = is_left(tree, row[features[node]], kinds[node], thresholds[node])
        node = left[node] if goes_left else right[node]
    return values[~node]


def is_left(tree, x, kind, threshold):
    missing = kind >> 2 & 3
    if kind & 1:
        if math.isnan(x) or x < 0:
            return x > -1 and x < 0 and is_listed(tree, 0, int(threshold))
        return is_listed(tree, int(x), int(threshold))
    if math.isnan(x) and missing != 2:
        x = 0.0
    if (missing == 1 and abs(x) <= TINY) or math.isnan(x):
        return bool(kind & 2)
    return x <= threshold


def is_listed(tree, category, number):
    bounds, words = numbers(tree, "cat_boundaries", whole), numbers(tree, "cat_threshold", whole)
    words = words[bounds[number] : bounds[number + 1]]
    return category // 32 < len(words) and bool(words[category // 32] >> category % 32 & 1)
