"""Candidates: what AutoRanker tries on any data, a few settings per family, cheap ones first.

- linear: one weight per column, pairwise logistic loss;
- trees: small boosted trees with random split points, pairwise or lambda gradients, and a plain LambdaMART; the number
  of trees is chosen by staged scores;
- nets: small ones with strong dropout and weight decay, by pairs (RankNet) and by whole lists (ListMLE).

Whether z-scores and ranks within the query help depends on the data, so the first setting of each family is tried with
these columns and on the features as they are; the other settings are tried with what was better.

They were chosen on validation parts of small and medium-sized collections, where averaging and regularisation matter
more than size. A blend has at most one candidate of a group: linear, trees, RankNet, ListMLE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import is_sparse
from podium.models.frame.estimator import clone
from podium.models.frame.ranker import Ranker
from podium.models.linear import Linear
from podium.models.nets import ListMLE, NetRanker, RankNet
from podium.models.trees.named import Boosted, LambdaMART
from podium.pipelines.ensembles.bagged import Bagged

FAMILIES = ("linear", "trees", "nets")
_VIEWS = ("raw", "zscore", "rank")
_PENALTIES = (0.03, 0.1, 0.01, 0.3)
_TREES, _EVERY = 300, 20
_EPOCHS = 50
_HIDDEN = ((32, 32), (32,))
_BATCHES, _LARGEST_BATCH = 8, 4096
_TRIED_NETS = 4
FINAL_NETS, FINAL_FORESTS = 10, 5
WITHIN_QUERY, AS_THEY_ARE = "z-scores and ranks within the query", "features as they are"


@dataclass(frozen=True)
class Candidate:
    """A model to be tried."""

    name: str
    family: str
    group: str  # of which a blend has one
    model: Ranker
    every: int = 0  # scores are looked at after every so many trees; 0: at the end only
    columns: str = ""  # which of two kinds of columns it sees, where both are tried

    @property
    def transform(self) -> tuple[str, ...] | None:
        """Columns per feature; None: one, as it is."""
        transform: tuple[str, ...] | None = self.model.get_params(deep=False)["transform"]
        return transform

    @property
    def n_steps(self) -> int:
        """Steps of one training, at most."""
        names = ("n_estimators", "max_iter", "max_epochs")
        return next(int(getattr(self.model, name)) for name in names if hasattr(self.model, name))

    def work(self, n_rows: int, n_features: int) -> float:
        """Rows x columns x steps of one training, to which its seconds are nearly proportional within a family."""
        per_feature = len(self.transform or ("raw",))
        return float(n_rows * n_features * per_feature * self.n_steps)

    @property
    def steps(self) -> list[int]:
        """The numbers of trees to choose from; [0] where there is nothing to choose."""
        if not self.every:
            return [0]
        return list(range(self.every, self.model.get_params()["n_estimators"] + 1, self.every))

    @property
    def is_averaged(self) -> bool:
        """Whether several of it, with different seeds, are better than one."""
        return self.family == "nets" or (self.family == "trees" and _draws(self.model))

    def final(self, step: int, n_nets: int = FINAL_NETS, n_forests: int = FINAL_FORESTS) -> Ranker:
        """What is trained in the end: with the chosen number of trees, or so many nets, and averaged."""
        model: Ranker = clone(self.model)
        if self.family == "trees":
            model.set_params(n_estimators=step)
            several = n_forests > 1 and self.is_averaged
            return Bagged(model=model, n_members=n_forests, sample="seeds") if several else model
        if self.family == "nets":
            model.set_params(n_nets=n_nets)
        return model


def make_candidates(data: RankingData, families: tuple[str, ...]) -> tuple[list[Candidate], list[str]]:
    """Candidates for these data, in the order in which a budget is spent, and sentences about what is left out."""
    notes: list[str] = []
    candidates: list[Candidate] = []
    for family in (family for family in FAMILIES if family in families):
        reason = _reason_against(family, data)
        if reason:
            notes.append(f"{family}: left out, because {reason}.")
            continue
        if _views(data) is None:
            views = " and ".join(view for view in _VIEWS if view != "raw")
            tried = f"tried without {views} of the features within the query, which would fill up sparse rows"
            notes.append(f"{family}: {tried}. Dense rows (X.toarray()) have all candidates.")
        candidates += _MAKERS[family](data)
    if not candidates:
        raise ValueError(f"AutoRanker: no family is left to try. {' '.join(notes)} Name others by families=....")
    return _cheap_first(candidates), notes


def nets_each(candidates: Sequence[Candidate], n_nets: int = FINAL_NETS) -> int:
    """How many nets a member of a blend has: those that are nets share ten."""
    return max(1, n_nets // max(1, sum(one.family == "nets" for one in candidates)))


def with_batches(model: Ranker, n_rows: int) -> Ranker:
    """A net with eight batches per epoch, however many rows there are."""
    if isinstance(model, NetRanker):
        model.set_params(batch_size=int(min(max(32, -(-n_rows // _BATCHES)), _LARGEST_BATCH)))
    return model


def seeded(model: Ranker, seed: int) -> Ranker:
    """The same model with other random numbers; seeds of a bag count upwards, so they are kept apart."""
    if isinstance(model, Bagged):
        model.set_params(random_state=seed, model__random_state=seed * 1000)
    elif "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    return model


def _draws(model: Ranker) -> bool:
    return bool(model.get_params()["feature_fraction"] < 1)


def _cheap_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first setting of linear models and of trees, then the others, and nets, which cost most, last."""
    first = {family: next((one for one in candidates if one.family == family), None) for family in FAMILIES}

    def turn(candidate: Candidate) -> tuple[bool, bool]:
        start = first[candidate.family]
        is_first = start is not None and _setting(candidate) == _setting(start)
        return candidate.family == "nets", not is_first

    return sorted(candidates, key=turn)


def _setting(candidate: Candidate) -> str:
    return candidate.name.removesuffix(f", {AS_THEY_ARE}")


def _reason_against(family: str, data: RankingData) -> str:
    values = data.X.data if is_sparse(data.X) else data.X
    if family == "linear" and np.isnan(values).any():
        return "it does not support missing values"
    if family != "trees" and is_sparse(data.X):
        return "it does not support sparse rows"
    if family == "nets" and (find_spec("jax") is None or find_spec("optax") is None):
        return 'it needs JAX (pip install "podium[neural]")'
    return ""


def _views(data: RankingData) -> tuple[str, ...] | None:
    """Sparse rows stay as they are: z-scores and ranks would fill them up."""
    return None if is_sparse(data.X) else _VIEWS


def _both_ways(candidate: Candidate) -> list[Candidate]:
    """With its columns made within the query, and on the features as they are; once where it has no such columns."""
    if candidate.transform is None:
        return [candidate]
    bare: Ranker = clone(candidate.model).set_params(transform=None)
    name = f"{candidate.name}, {AS_THEY_ARE}"
    return [replace(candidate, columns=WITHIN_QUERY), replace(candidate, name=name, model=bare, columns=AS_THEY_ARE)]


def _linear(data: RankingData) -> list[Candidate]:
    common: dict[str, Any] = {"objective": "ranknet", "pair_exponent": 0.5, "transform": _views(data), "max_iter": 200}
    made = [
        Candidate(f"linear, penalty {penalty:g}", "linear", "linear", Linear(l2_regularization=penalty, **common))
        for penalty in _PENALTIES
    ]
    return [one for candidate in made for one in _both_ways(candidate)]


def _trees(data: RankingData) -> list[Candidate]:
    small, large = (int(np.clip(data.n_rows // share, low, high)) for share, low, high in ((200, 3, 40), (70, 5, 120)))
    common: dict[str, Any] = {
        "n_estimators": _TREES,
        "learning_rate": 0.05,
        "feature_fraction": 0.4,
        "extra_trees": True,
        "transform": _views(data),
    }
    # The large trees of the literature on any data: "auto" would make it one more of the small, randomised ones.
    plain: dict[str, Any] = {"n_estimators": _TREES, "max_leaf_nodes": 31, "learning_rate": 0.1}
    plain |= {"feature_fraction": 1.0, "extra_trees": False, "transform": None}
    pairs: dict[str, Any] = {"objective": "ranknet", "pair_exponent": 0.5}
    models = {
        "pairwise, 7 leaves": Boosted(max_leaf_nodes=7, min_samples_leaf=small, **pairs, **common),
        "LambdaMART": LambdaMART(min_samples_leaf=min(20, small), **plain),
        "pairwise, 12 leaves": Boosted(max_leaf_nodes=12, min_samples_leaf=large, **pairs, **common),
        "lambda, 12 leaves": LambdaMART(max_leaf_nodes=12, min_samples_leaf=large, **common),
    }
    made = [Candidate(f"trees, {name}", "trees", "trees", model, _EVERY) for name, model in models.items()]
    return [one for candidate in made for one in _both_ways(candidate)]


def _nets(data: RankingData) -> list[Candidate]:
    common: dict[str, Any] = {
        "transform": ("zscore", "rank"),
        "max_epochs": _EPOCHS,
        "dropout": 0.3,
        "learning_rate": 5e-3,
        "schedule": "linear",
        "weight_decay": 3e-2,
        "n_nets": _TRIED_NETS,
        "derivatives": "device",  # one program to compile, not one per size of batch
    }
    kinds: dict[str, Callable[..., NetRanker]] = {"RankNet": partial(RankNet, pair_exponent=0.5), "ListMLE": ListMLE}
    made = [
        Candidate(f"nets, {name} {' x '.join(map(str, sizes))}", "nets", name, kind(hidden_layer_sizes=sizes, **common))
        for name, kind in kinds.items()
        for sizes in _HIDDEN
    ]
    return [one for candidate in made for one in _both_ways(candidate)]


_MAKERS = {"linear": _linear, "trees": _trees, "nets": _nets}
