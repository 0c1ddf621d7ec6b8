"""The registry: one entry per model, with the module that holds its class; and settings written as text.

A class is imported when it is asked for, so that models of any module can be listed here. Names, defaults, limits and
words of parameters are the fields of the class (`parameters.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from podium._runtime.once import once
from podium._runtime.words import check_choice

if TYPE_CHECKING:
    from podium.models.frame.parameters import Parameter
    from podium.models.frame.ranker import Ranker


@dataclass(frozen=True)
class Entry:
    """One model."""

    class_name: str
    module: str
    learner: str
    objective: str
    about: str

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.class_name.lower()

    @property
    def kind(self) -> type[Ranker]:
        """The class; imports its module."""
        found: type[Ranker] = getattr(import_module(self.module), self.class_name)
        return found

    @once
    def parameters(self) -> dict[str, Parameter]:
        from podium.models.frame.parameters import parameters_of

        return parameters_of(self.kind)

    def as_dict(self, with_parameters: bool = False) -> dict[str, Any]:
        plain = {"name": self.name, "class": self.class_name, "learner": self.learner, "objective": self.objective}
        listed = {"parameters": [parameter.as_dict() for parameter in self.parameters.values()]}
        return plain | {"about": self.about} | (listed if with_parameters else {})


_PRODUCTS = "podium.models.trees.named"
_NETS = "podium.models.nets"
REGISTRY = (
    Entry(
        "RegressionTree",
        _PRODUCTS,
        learner="one tree",
        objective="squared error",
        about="One least-squares tree: the score of a document is the mean label of its leaf.",
    ),
    Entry(
        "MART",
        _PRODUCTS,
        learner="boosted trees",
        objective="squared error, logistic, ordinal or any other",
        about="Multiple additive regression trees.",
    ),
    Entry(
        "LambdaMART",
        _PRODUCTS,
        learner="boosted trees",
        objective="lambda of a metric",
        about="Boosted trees that optimize a ranking metric by lambda gradients.",
    ),
    Entry(
        "LambdaSMART",
        _PRODUCTS,
        learner="boosted trees on top of a base model",
        objective="lambda of a metric",
        about="LambdaMART that starts from the scores of a base model; init is required.",
    ),
    Entry(
        "MatrixNet",
        _PRODUCTS,
        learner="boosted oblivious trees",
        objective="Plackett-Luce likelihood, lambda or any other",
        about="Boosted trees with one split per level.",
    ),
    Entry(
        "RandomForest",
        _PRODUCTS,
        learner="mean of independent trees",
        objective="squared error or any other pointwise objective",
        about="Each tree is grown on a bootstrap sample of the queries and on a fraction of the features.",
    ),
    Entry(
        "Boosted",
        _PRODUCTS,
        learner="boosted trees",
        objective="any",
        about="Boosted trees with any objective: a name, an Objective or a Python function.",
    ),
    Entry(
        "Linear",
        "podium.models.linear",
        learner="linear scoring function",
        objective="any",
        about="One weight per feature, trained by L-BFGS on any objective.",
    ),
    Entry(
        "BayesRank",
        "podium.models.linear",
        learner="linear scoring function",
        objective="expected metric under Plackett-Luce",
        about="One weight per feature, which maximises the expected metric of rankings drawn from Plackett-Luce.",
    ),
    Entry(
        "Pointwise",
        "podium.models.pointwise",
        learner="any regressor or classifier of scikit-learn",
        objective="that of the estimator",
        about="Any regressor or classifier of scikit-learn, fitted to the labels of single documents.",
    ),
    Entry(
        "Pairwise",
        "podium.models.pointwise",
        learner="any binary classifier of scikit-learn",
        objective="that of the classifier, on pairs",
        about="Any binary classifier of scikit-learn, fitted to differences of two documents of a query.",
    ),
    Entry(
        "RankSVM",
        "podium.models.svm",
        learner="linear scoring function",
        objective="hinge or squared hinge of all pairs",
        about="One weight per feature; every better document is to score higher by a margin.",
    ),
    Entry(
        "KernelRankSVM",
        "podium.models.kernel_svm",
        learner="sum of kernels at training documents",
        objective="hinge or squared hinge of all pairs",
        about="RankSVM with a kernel: the score is a sum over training documents, with one factor per document.",
    ),
    Entry(
        "AdaRank",
        "podium.models.adarank",
        learner="boosted features",
        objective="any metric",
        about="Boosts single features on a distribution over queries, for any metric.",
    ),
    Entry(
        "CoordinateAscent",
        "podium.models.coordinate_ascent",
        learner="linear scoring function",
        objective="any metric",
        about="Moves one weight at a time to its exact optimum for any metric, from several starts.",
    ),
    Entry(
        "RankBoost",
        "podium.models.rankboost",
        learner="boosted weak rankers",
        objective="exponential loss of pairs",
        about="A weighted sum of weak rankers, each a function of one feature, boosted on pairs of documents.",
    ),
    Entry(
        "Bagged",
        "podium.pipelines.ensembles.bagged",
        learner="mean of models on samples of the queries",
        objective="that of the model",
        about="Copies of one model that differ in their queries or in their seed; the mean of their scores.",
    ),
    Entry(
        "Blend",
        "podium.pipelines.ensembles.blend",
        learner="weighted sum of models",
        objective="those of the models",
        about="A weighted sum of the scores of different models, normalized within the query.",
    ),
    Entry(
        "Stack",
        "podium.pipelines.ensembles.stack",
        learner="a model on the scores of models",
        objective="those of the models",
        about="A second ranker on top of the scores that models give to queries they have not seen.",
    ),
    Entry(
        "AutoRanker",
        "podium.pipelines.auto.autoranker",
        learner="a blend that is chosen by cross-validation",
        objective="those of the models",
        about="A blend of linear models, trees and nets that cross-validation chooses for the data.",
    ),
    Entry(
        "Net",
        _NETS,
        learner="neural network",
        objective="any",
        about="A multilayer perceptron with any objective: a name, an Objective or a Python function.",
    ),
    Entry(
        "RankNet",
        _NETS,
        learner="neural network",
        objective="logistic loss of pairs",
        about="A net trained on pairs of documents: the better one should have the higher score.",
    ),
    Entry(
        "LambdaRank",
        _NETS,
        learner="neural network",
        objective="lambda of a metric",
        about="A net that optimizes a ranking metric by lambda gradients.",
    ),
    Entry(
        "ListNet",
        _NETS,
        learner="neural network",
        objective="cross entropy of top-one probabilities",
        about="A net trained on the probability of each document to come first.",
    ),
    Entry(
        "ListMLE",
        _NETS,
        learner="neural network",
        objective="Plackett-Luce likelihood",
        about="A net trained on the likelihood of the order by labels, under Plackett-Luce.",
    ),
    Entry(
        "XENDCG",
        _NETS,
        learner="neural network",
        objective="XE-NDCG",
        about="A net trained on XE-NDCG, a cross entropy that bounds NDCG.",
    ),
    Entry(
        "ApproxNDCG",
        _NETS,
        learner="neural network",
        objective="NDCG of smooth ranks",
        about="A net trained on NDCG of smooth ranks.",
    ),
    Entry(
        "SelfAttentionRanker",
        "podium.models.attention",
        learner="self-attention over the documents of a query",
        objective="any",
        about="A small transformer over the documents of a query: scores depend on the whole list, not on its order.",
    ),
)


class _Classes(Mapping[str, "type[Ranker]"]):
    """The classes of the registry by their names, each imported when it is asked for."""

    def __init__(self) -> None:
        self._entries = {entry.class_name: entry for entry in REGISTRY}

    def __getitem__(self, name: str) -> type[Ranker]:
        return self._entries[name].kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


MODELS = _Classes()


@dataclass(frozen=True)
class Plan:
    """A model to be trained, and its parameters as JSON values: `init` as it was written."""

    model: Ranker
    parameters: dict[str, Any]


def catalogue() -> list[Entry]:
    """All models."""
    return list(REGISTRY)


def find_model(name: str) -> Entry:
    """The model with this name, in letters of any case."""
    entries = {entry.name: entry for entry in REGISTRY}
    check_choice("model", name.lower(), entries)
    return entries[name.lower()]


def plan_model(name: str, settings: Sequence[str] = (), n_jobs: int | None = None, seed: int | None = None) -> Plan:
    """A model with the settings of the command line (`learning_rate=0.05`), refused here if any of them is wrong."""
    from podium._runtime.threads import usable_threads

    entry = find_model(name)
    given = read_settings(entry, settings)
    for option, parameter, value in (("--jobs", "n_jobs", n_jobs), ("--seed", "random_state", seed)):
        if value is not None and parameter in given:
            raise ValueError(f"Give {option} or --set {parameter}=..., not both.")
        if value is not None and parameter not in entry.parameters:
            raise ValueError(f"{entry.class_name} has no {parameter}; leave {option} out.")
        given |= {} if value is None else {parameter: value}
    model = entry.kind(**given)
    model._check_parameters()
    usable_threads(model.n_jobs)
    plain = {name: _plain_value(value) for name, value in given.items()} | _base_text(settings)
    chosen = {parameter.name: parameter.default for parameter in entry.parameters.values()} | plain
    return Plan(model, {name: "inf" if value == math.inf else value for name, value in chosen.items()})


def read_settings(entry: Entry, settings: Sequence[str]) -> dict[str, Any]:
    """`["n_estimators=50", "metric=map"]` -> `{"n_estimators": 50, "metric": "map"}`, typed as the fields are."""
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ValueError(f"--set takes name=value, such as learning_rate=0.05; got {setting!r}.")
        check_choice(f"{entry.class_name}: a parameter", name, entry.parameters)
        if name in given:
            raise ValueError(f"--set {name}=... is given twice ({given[name]} and {text}); give it once.")
        given[name] = _value(entry, name, text)
    return given


def _base_text(settings: Sequence[str]) -> dict[str, Any]:
    """`init` as it was written: the name of a file, or a model."""
    texts = {name.strip(): text.strip() for name, _, text in (setting.partition("=") for setting in settings)}
    return {"init": texts["init"]} if texts.get("init", "none").lower() != "none" else {}


def _plain_value(value: Any) -> Any:
    """A model that is a parameter, or a list of them, as it is written in Python."""
    if isinstance(value, list):
        return [_plain_value(one) for one in value]
    return repr(value) if hasattr(value, "get_params") else value


def _value(entry: Entry, name: str, text: str) -> Any:
    declaration = entry.parameters[name].declaration
    try:
        return declaration.read(text)
    except (ValueError, KeyError):
        if declaration.kind.explains:
            raise
        raise declaration.refuse(entry.class_name, name, text) from None
