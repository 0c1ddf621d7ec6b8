"""Every model in every format: written with the scores that are expected of it, or refused in a sentence."""

import warnings

import numpy as np
import pytest
from families import small_model

from podium import MART, Linear
from podium.exchange import MODEL_FORMATS
from podium.exchange.claims import BITS, TOLERANCE
from podium.exchange.exporting import write_form
from podium.exchange.forms import form_of
from podium.models.registry import MODELS

WRITTEN = [name for name, row in MODEL_FORMATS.items() if row.writes]
SINGLE_DIGITS = 2e-6  # relative; of sums in float32
ROWS = 240


def training_data(missing=False):
    random = np.random.default_rng(8)
    X = random.standard_normal((ROWS, 5)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-1, 0, 1]).astype(float)
    if missing:
        X[random.random(X.shape) < 0.1] = np.nan
    return X, y, np.repeat(np.arange(ROWS // 12), 12)


def fitted(name, missing=False, **parameters):
    X, y, qid = training_data(missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return small_model(name, **parameters).fit(X, y, qid)


def refusal_or_scores(model, to, X, qid):
    """The sentence of a refusal, or None where the scores that are expected are those of the model."""
    try:
        written = write_form(form_of(model), to)
    except ValueError as error:
        return str(error)
    expected, scores = written.expected(X), model.predict(X, qid=qid)
    assert expected.dtype == np.float64
    if written.claim.kind == BITS:
        np.testing.assert_array_equal(expected, scores)
    else:
        assert written.claim.kind != TOLERANCE or written.claim.tolerance < 1e-4
        if "without the intercept" in written.claim.sentence():
            expected = expected + (scores - expected).mean()
        np.testing.assert_allclose(expected, scores, rtol=SINGLE_DIGITS, atol=SINGLE_DIGITS * np.abs(scores).max())
    return None


# What no format here expresses, however it was trained.
NOWHERE = {"AutoRanker", "Blend", "KernelRankSVM", "SelfAttentionRanker", "Stack"}


@pytest.mark.parametrize("name", MODELS)
def test_each_model_is_written_with_its_scores_or_refused(name):
    X, _, qid = training_data()
    options = {"weak_ranker": "threshold"} if name == "RankBoost" else {}
    options |= {"normalization": None} if name == "Bagged" else {}
    options |= {"init": fitted("MART")} if name == "LambdaSMART" else {}
    model = fitted(name, **options)
    refused = {to: sentence for to in WRITTEN if (sentence := refusal_or_scores(model, to, X, qid))}
    for sentence in refused.values():
        assert sentence.rstrip().endswith(".")
    assert (len(refused) == len(WRITTEN)) == (name in NOWHERE), refused


REFUSED = {
    "a transform": ("LambdaMART", {"transform": ["raw", "zscore"]}, "transform"),
    "imputation": ("Linear", {"impute": "mean"}, "missing values"),
    "a basis": ("Linear", {"basis": "polynomial"}, "basis"),
    "members within the query": ("Bagged", {}, "beside the others of its query"),
    "slopes": ("RankBoost", {"weak_ranker": "value"}, "weak ranker 1"),
    "init of another kind": ("LambdaMART", {"init": Linear(max_iter=20)}, "starts from the scores of Linear"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("to", WRITTEN)
def test_what_cannot_be_expressed_is_named_with_what_to_do(case, to):
    name, options, words = REFUSED[case]
    model = fitted(name, missing="impute" in options, **options)
    with pytest.raises(ValueError, match=words):
        write_form(form_of(model), to)


COMBINATIONS = {
    "missing values": {"missing": True},
    "an init of trees": {"init": MART(n_estimators=3)},
    "dart": {"drop_rate": 0.5},
    "level by level": {"growth": "level"},
    "oblivious": {"growth": "oblivious", "max_depth": 3},
    "gradients": {"split_by": "gradients"},
    "no trees that split": {"min_samples_leaf": 200},
}


@pytest.mark.parametrize("options", COMBINATIONS.values(), ids=COMBINATIONS)
@pytest.mark.parametrize("to", WRITTEN)
def test_trees_of_every_kind_are_written_with_their_scores(options, to):
    model = fitted("LambdaMART", **options)
    X, _, qid = training_data(missing=options.get("missing", False))
    refused = refusal_or_scores(model, to, X, qid)
    assert refused is None or "holds linear models" in refused or "missing" in refused
