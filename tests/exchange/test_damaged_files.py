"""Damaged files of other programs are refused with a sentence, or score as a plain reader does; never a crash."""

import json

import numpy as np
import pytest
from exchange.damage import count_verdicts
from exchange.forests import random_form
from exchange.plain import catboost as plain_catboost
from exchange.plain import lightgbm as plain_lightgbm
from exchange.plain import ranklib as plain_ranklib
from exchange.plain import svmlight as plain_svmlight
from exchange.plain import xgboost as plain_xgboost
from exchange.plain import xgboost_ubj as plain_xgboost_ubj
from hypothesis import given
from hypothesis import strategies as st

from podium.exchange.engines import catboost, lightgbm, ranklib, svmlight, xgboost, xgboost_ubj

EDITS = 200


def lightgbm_text():
    return lightgbm.write(random_form(1, n_trees=4, depth=4, categorical=(2,))).content


def catboost_json(nested):
    """A file as CatBoost writes it, of random trees."""
    random = np.random.default_rng(4)
    features = [
        {"borders": [0.5], "feature_id": "", "feature_index": k, "flat_feature_index": 2 - k, "has_nans": True}
        | {"nan_value_treatment": ["AsFalse", "AsTrue", "AsIs"][k]}
        for k in range(3)
    ]

    def split():
        border = float(np.float32(random.choice([-0.5, 0.0, 1.0, random.standard_normal()])))
        facts = {"border": border, "float_feature_index": int(random.integers(3))}
        return facts | {"split_index": 0, "split_type": "FloatFeature"}

    def tree(depth):
        if depth == 0:
            return {"value": random.standard_normal(), "weight": 3}
        return {"left": tree(depth - 1), "right": tree(int(random.integers(depth))), "split": split()}

    def oblivious(depth):
        values = random.standard_normal(2**depth).tolist()
        return {"leaf_values": values, "leaf_weights": [1] * 2**depth, "splits": [split() for _ in range(depth)]}

    trees = {"trees": [tree(3) for _ in range(4)]} if nested else {"oblivious_trees": [oblivious(d) for d in (3, 0, 2)]}
    document = {"features_info": {"float_features": features}, **trees, "scale_and_bias": [1, [0.25]]}
    return json.dumps(document, indent=1).encode()


def svmlight_text(kernel):
    random = np.random.default_rng(2)
    n = 1 if kernel == "linear" else 3
    vectors = random.standard_normal((n, 4)) * (random.random((n, 4)) < 0.8)
    model = svmlight.SvmlightModel(kernel, random.standard_normal(n), vectors, -0.25, degree=2, gamma=0.5)
    return svmlight.model_text(model)


def ranklib_trees(name="LambdaMART", weight=b"1.0"):
    """Every tree of Random Forests is an ensemble of its own."""
    content = ranklib.write(random_form(1, n_trees=4, depth=3, missing="zero", start=0.0)).content
    if name == "Random Forests":
        content = content.replace(b"</tree>\n\t<tree", b"</tree>\n</ensemble>\n<ensemble>\n\t<tree")
    return content.replace(b"LambdaMART", name.encode()).replace(b'weight="1.0"', b'weight="%b"' % weight)


RANKLIB_WEIGHTS = b"## Coordinate Ascent\n## Restart = 5\n1:0.25 2:-1.5E-3 4:3.0000000000000004 3:0.1 5:-7.0"
RANKLIB_RANKERS = b"## RankBoost\n## Features = 4\n1:0.25:0.5 2:-1.5E-3:-0.25 4:3.0:0.1 3:-1.0E8:0.3 1:0.5:-2.0 2:0:1"


def xgboost_file(engine):
    return engine.write(random_form(1, n_trees=3, depth=3, categorical=(2,))).content


FORMATS = {
    "lightgbm": (lightgbm.read, plain_lightgbm.scores, lightgbm_text),
    "lightgbm of LightGBM": (
        lightgbm.read,
        plain_lightgbm.scores,
        lambda: lightgbm_text().replace(b"podium=1\n", b""),
    ),
    "catboost": (catboost.read, plain_catboost.scores, lambda: catboost_json(nested=False)),
    "catboost nested": (catboost.read, plain_catboost.scores, lambda: catboost_json(nested=True)),
    "svmlight": (svmlight.read, plain_svmlight.scores, lambda: svmlight_text("linear")),
    "svmlight gaussian": (svmlight.read, plain_svmlight.scores, lambda: svmlight_text("gaussian")),
    "svmlight polynomial": (svmlight.read, plain_svmlight.scores, lambda: svmlight_text("polynomial")),
    "ranklib": (ranklib.read, plain_ranklib.scores, ranklib_trees),
    "ranklib of RankLib": (ranklib.read, plain_ranklib.scores, lambda: ranklib_trees(weight=b"0.1")),
    "ranklib averages": (ranklib.read, plain_ranklib.scores, lambda: ranklib_trees("Random Forests", b"0.1")),
    "ranklib weights": (ranklib.read, plain_ranklib.scores, lambda: RANKLIB_WEIGHTS),
    "ranklib rankers": (ranklib.read, plain_ranklib.scores, lambda: RANKLIB_RANKERS),
    "xgboost": (xgboost.read, plain_xgboost.scores, lambda: xgboost_file(xgboost)),
    "xgboost-ubj": (xgboost_ubj.read, plain_xgboost_ubj.scores, lambda: xgboost_file(xgboost_ubj)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_refused_or_score_as_they_say(name):
    read, plain, make = FORMATS[name]
    verdicts = count_verdicts(read, plain, make(), EDITS)
    assert set(verdicts) == {"refused", "taken"}
    assert min(verdicts.values()) > EDITS / 20, verdicts


@pytest.mark.parametrize("name", FORMATS)
@given(st.integers(0, 2**40))
def test_more_damaged_files_are_refused_or_score_as_they_say(name, seed):
    read, plain, make = FORMATS[name]
    count_verdicts(read, plain, make(), 10, first=seed)
