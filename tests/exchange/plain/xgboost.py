"""A document of XGBoost, from JSON, scored node by node; single precision by C's own functions."""

import ctypes
import json
import math
import struct

_strtof = ctypes.CDLL(None).strtof
_strtof.restype = ctypes.c_float
_strtof.argtypes = [ctypes.c_char_p, ctypes.c_void_p]

LOGIT = ("binary:logistic", "reg:logistic")
LOGARITHM = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")


def single(number):
    try:
        return struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def nearest(text):
    return _strtof(text.encode(), None)


def scores(content, X):
    return scores_of(json.loads(content, parse_float=nearest), X)


def scores_of(document, X):
    learner = document["learner"]
    booster, weights = learner["gradient_booster"], None
    if booster["name"] == "dart":
        booster, weights = booster["gbtree"], booster["weight_drop"]
    trees = booster["model"]["trees"]
    weights = [1] * len(trees) if weights is None else weights
    start, sums = start_of(learner), []
    for row in X.tolist():
        total = start
        for tree, weight in zip(trees, weights, strict=True):
            total = single(total + single(single(leaf(tree, row)) * single(weight)))
        sums.append(total)
    return sums


def start_of(learner):
    text = learner["learner_model_param"]["base_score"]
    base = nearest(text.strip("[]")) if isinstance(text, str) else single(text)
    name = learner["objective"]["name"]
    if name in LOGIT:
        return single(-math.log(single(single(1 / base) - 1)))
    return single(math.log(base)) if name in LOGARITHM else base


def leaf(tree, row):
    node, left = 0, tree["left_children"]
    while left[node] >= 0:
        x = row[tree["split_indices"][node]]
        goes_left = tree["default_left"][node] if math.isnan(x) else is_left(tree, node, x)
        node = left[node] if goes_left else tree["right_children"][node]
    return tree["split_conditions"][node]


def is_left(tree, node, x):
    if "split_type" not in tree or not tree["split_type"][node]:
        return x < single(tree["split_conditions"][node])
    number = list(tree["categories_nodes"]).index(node)
    first, size = tree["categories_segments"][number], tree["categories_sizes"][number]
    return x < 0 or int(x) not in list(tree["categories"])[first : first + size]
