"""The LTR plugins of Elasticsearch and OpenSearch: what they make of a model that was posted to them."""

import json

import numpy as np


def scores(content, X, names, missing="stated"):
    """names: of the features of X; missing: what the version of the plugin does with a missing value."""
    model = json.loads(content)["model"]["model"]
    rows = [dict(zip(names, row)) for row in np.asarray(X, np.float32)]
    definition = json.loads(model["definition"])
    if model["type"] == "model/linear":
        return [linear(definition, row) for row in rows]
    assert model["type"] == "model/xgboost+json"
    assert definition
    return [trees(definition, row, missing) for row in rows]


def linear(weights, row):
    total = np.float32(0)
    for name, x in row.items():
        total = np.float32(total + np.float32(np.float32(weights.get(name, 0)) * (np.float32(0) if x != x else x)))
    return float(total)


def trees(definition, row, missing):
    total = np.float32(0)
    for node in definition:
        while "leaf" not in node:
            assert {"nodeid", "depth", "split", "split_condition", "yes", "no"} <= set(node)
            yes, no = node["children"]
            assert (yes["nodeid"], no["nodeid"]) == (node["yes"], node["no"])
            assert node["missing"] in (node["yes"], node["no"])
            node = yes if goes_first(node, row[node["split"]], missing) else no
        total = np.float32(total + np.float32(1) * np.float32(node["leaf"]))
    return float(total)


def goes_first(node, x, missing):
    if x != x and missing == "stated":
        return node["missing"] == node["yes"]
    if x != x and missing == "zero":
        x = np.float32(0)
    return bool(np.float32(node["split_condition"]) > x)
