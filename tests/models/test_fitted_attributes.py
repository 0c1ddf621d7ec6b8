"""Every attribute of a fitted model has a sentence, and every sentence an attribute."""

import numpy as np
import pytest
from families import NETS, small_model

from podium.data.ranking import RankingData
from podium.models.frame.parameters import attributes_of
from podium.models.registry import MODELS

DATA = RankingData.from_arrays(
    np.random.default_rng(0).standard_normal((24, 2)).astype(np.float32),
    np.tile([0.0, 1.0, 2.0, 0.0, 1.0, 0.0], 4),
    np.arange(24) // 6,
    feature_names=["a", "b"],
)
# The nets that follow have one frame, and training each takes seconds.
TRAINED = [name for name in MODELS if name not in NETS or name == "Net"]


@pytest.mark.parametrize("name", TRAINED)
def test_what_fit_sets_is_what_is_described(name):
    model = small_model(name, **({"init": np.zeros(DATA.n_rows)} if name == "LambdaSMART" else {})).fit(DATA)
    present = {one for one in {*vars(model), *dir(type(model))} if one.endswith("_") and not one.startswith("_")}
    assert present == set(attributes_of(MODELS[name]))


@pytest.mark.parametrize("name", MODELS)
def test_each_is_a_sentence_that_help_shows(name):
    described = attributes_of(MODELS[name])
    assert all(about.endswith(".") for about in described.values())
    assert all(f"\n{one}\n    {about[:30]}" in MODELS[name].__doc__ for one, about in described.items())
    if name in NETS:
        assert described == attributes_of(MODELS["Net"])
