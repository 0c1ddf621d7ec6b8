"""Families of models that laws run over."""

from podium.models.boosted import BoostedTrees
from podium.models.nets import NetRanker
from podium.models.registry import MODELS

TREE_MODELS = {name: kind for name, kind in MODELS.items() if issubclass(kind, BoostedTrees)}
NETS = {name: kind for name, kind in MODELS.items() if issubclass(kind, NetRanker)}
