"""Solr's Learning to Rank module: what it makes of a model that was put into its store."""

import json

import numpy as np


def scores(content, X, names):
    """names: of the features of X, as the feature store has them."""
    model = json.loads(content)
    listed = [feature["name"] for feature in model["features"]]
    assert listed
    rows = [dict(zip(names, row)) for row in np.asarray(X, np.float32)]
    kind = model["class"].rpartition(".")[2]
    score = {"LinearModel": linear, "MultipleAdditiveTreesModel": trees}[kind]
    return [score(model["params"], [row[name] for name in listed], listed) for row in rows]


def linear(params, values, listed):
    total = np.float32(0)
    for name, x in zip(listed, values):
        x = np.float32(0) if x != x else x  # the default value of a feature
        total = np.float32(total + np.float32(x * np.float32(params["weights"][name])))
    return float(total)


def trees(params, values, listed):
    assert params["isNullSameAsZero"] is False
    total = np.float32(0)
    for tree in params["trees"]:
        node = tree["root"]
        while "feature" in node:
            x, threshold = values[listed.index(node["feature"])], np.float32(node["threshold"]) + np.float32(1e-6)
            if x <= threshold:
                node = node["left"]
            elif x > threshold:
                node = node["right"]
            else:
                node = node["left" if node["missing"] == "left" else "right"]
        total = np.float32(total + np.float32(tree["weight"]) * np.float32(node["value"]))
    return float(total)
