"""Families of models that laws run over."""

from podium.models.nets import NetRanker
from podium.models.registry import MODELS
from podium.models.trees.boosted import BoostedTrees
from podium.persistence.values import to_plain

TREE_MODELS = {name: kind for name, kind in MODELS.items() if issubclass(kind, BoostedTrees)}
NETS = {name: kind for name, kind in MODELS.items() if issubclass(kind, NetRanker)}

# Few steps and small nets, but trees that split: laws must see models that learn.
_SMALL = {
    "n_estimators": 3,
    "min_samples_leaf": 1,
    "extra_trees": False,
    "max_epochs": 2,
    "hidden_layer_sizes": (4,),
    "embedding_size": 4,
    "max_iter": 20,
    "n_rounds": 2,
    "n_restarts": 1,
    "n_members": 2,
    "folds": 2,
    "n_jobs": 1,
}


def small_model(name, **parameters):
    """A model that is trained in milliseconds; LambdaSMART needs its `init`."""
    kind = MODELS[name]
    known = kind().get_params(deep=False)
    small = {key: value for key, value in _SMALL.items() if key in known}
    return kind(**small | _parts(name) | parameters)


def _parts(name):
    """Of models that are made of models, these."""
    if name not in ("Bagged", "Blend", "Stack", "AutoRanker"):
        return {}
    members = [small_model("LambdaMART"), small_model("Linear")]
    if name == "AutoRanker":
        return {"plan": {"members": [to_plain(member) for member in members], "weights": [0.5, 0.5]}}
    return {"model": members[0]} if name == "Bagged" else {"members": members}
