"""CatBoost's JSON, walked split by split."""

import json
import struct

KINDS = "float_features", "categorical_features", "text_features", "embedding_features"


def single(x):
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return float("inf") if x > 0 else -float("inf")


def scores(content, X):
    document = json.loads(content)
    features = document["features_info"]["float_features"]
    scale, bias = document["scale_and_bias"]
    bias = bias[0] if isinstance(bias, list) else bias
    assert sum(len(document["features_info"].get(kind, [])) for kind in KINDS) == X.shape[1]
    sums = []
    for row in X.tolist():
        total = 0.0
        for tree in document.get("oblivious_trees", []):
            splits = tree.get("splits", [])
            leaf = sum(goes_right(split, features, row) << bit for bit, split in enumerate(splits))
            total += tree["leaf_values"][leaf]
        for tree in document.get("trees", []):
            node = tree
            while "split" in node:
                node = node["right"] if goes_right(node["split"], features, row) else node["left"]
            total += node["value"]
        sums.append([scale * total + bias, 0 if scale == 1 or bias == 0 else 1e-9 * (abs(scale * total) + abs(bias))])
    return sums


def goes_right(split, features, row):
    assert split.get("split_type", "FloatFeature") == "FloatFeature"
    feature = features[split["float_feature_index"]]
    x = row[feature["flat_feature_index"]]
    if x != x:
        return feature.get("nan_value_treatment", "AsIs") == "AsTrue"
    return x > single(split["border"])
