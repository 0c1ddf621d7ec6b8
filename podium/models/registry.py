"""The registry: one entry per model, with the module that holds its class; and settings written as text.

A class is imported when it is asked for, so that models of any module can be listed here. Names, defaults, limits and
words of parameters are the fields of the class (`parameters.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from podium._runtime.once import once
from podium._runtime.words import check_choice, excerpt
from podium.models.other_names import refuse_unknown_parameter

if TYPE_CHECKING:
    from podium.models.frame.parameters import Parameter
    from podium.models.frame.ranker import Ranker

RankerClass = TypeVar("RankerClass", bound="Ranker")


@dataclass(frozen=True)
class ModelEntry:
    """One model. What its class says of itself is read there (`kind.step_word`, ...), which imports it."""

    class_name: str
    module: str
    family: str  # trees, linear, svm, boosting, estimators, nets or ensembles; a plugin may name another
    learner: str
    objective: str
    about: str
    registered: type[Ranker] | None = None  # by a plugin
    is_trained: bool = True  # here; False for what only files of other programs give

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.class_name.lower()

    @property
    def kind(self) -> type[Ranker]:
        """The class; imports its module."""
        kind: type[Ranker] = self.registered or getattr(import_module(self.module), self.class_name)
        return kind

    @once
    def parameters(self) -> dict[str, Parameter]:
        from podium.models.frame.parameters import parameters_of

        return parameters_of(self.kind)

    @property
    def missing_extra(self) -> str | None:
        """What has to be installed before the model can be trained, as a sentence; None where nothing is missing."""
        if self.family != "nets" or (find_spec("jax") and find_spec("optax")):
            return None
        return 'JAX is not installed. Install it with: pip install "podium[neural]"'

    def as_dict(self, with_parameters: bool = False) -> dict[str, Any]:
        plain = {"name": self.name, "class": self.class_name, "family": self.family, "learner": self.learner}
        listed = {"parameters": [parameter.as_dict() for parameter in self.parameters.values()]}
        return plain | {"objective": self.objective, "about": self.about} | (listed if with_parameters else {})


_IMPORTED = "imported"
_OWN: dict[tuple[str, str], tuple[tuple[str, str, str], ...]] = {  # (module, family): (class, learner, objective)
    ("podium.models.trees.named", "trees"): (
        ("RegressionTree", "one tree", "squared error"),
        ("MART", "boosted trees", "squared error, logistic, ordinal or any other"),
        ("LambdaMART", "boosted trees", "lambda of a metric"),
        ("LambdaSMART", "boosted trees on top of an init model", "lambda of a metric"),
        ("MatrixNet", "boosted oblivious trees", "Plackett-Luce likelihood, lambda or any other"),
        ("RandomForest", "mean of independent trees", "squared error or any other pointwise objective"),
        ("Boosted", "boosted trees", "any"),
    ),
    ("podium.models.linear", "linear"): (
        ("Linear", "linear scoring function", "any"),
        ("BayesRank", "linear scoring function", "expected metric under Plackett-Luce"),
    ),
    ("podium.models.pointwise", "estimators"): (
        ("Pointwise", "any regressor or classifier of scikit-learn", "that of the estimator"),
        ("Pairwise", "any binary classifier of scikit-learn", "that of the classifier, on pairs"),
    ),
    ("podium.models.svm", "svm"): (("RankSVM", "linear scoring function", "hinge or squared hinge of all pairs"),),
    ("podium.models.kernel_svm", "svm"): (
        ("KernelRankSVM", "sum of kernels at training documents", "hinge or squared hinge of all pairs"),
    ),
    ("podium.models.adarank", "linear"): (("AdaRank", "boosted features", "any metric"),),
    ("podium.models.coordinate_ascent", "linear"): (("CoordinateAscent", "linear scoring function", "any metric"),),
    ("podium.models.rankboost", "boosting"): (("RankBoost", "boosted weak rankers", "exponential loss of pairs"),),
    ("podium.pipelines.ensembles.bagged", "ensembles"): (
        ("Bagged", "mean of models on samples of the queries", "that of the model"),
    ),
    ("podium.pipelines.ensembles.blend", "ensembles"): (("Blend", "weighted sum of models", "those of the models"),),
    ("podium.pipelines.ensembles.stack", "ensembles"): (
        ("Stack", "a model on the scores of models", "those of the models"),
    ),
    ("podium.pipelines.auto.autoranker", "ensembles"): (
        ("AutoRanker", "a blend that is chosen by cross-validation", "those of the models"),
    ),
    ("podium.models.nets", "nets"): (
        ("Net", "neural network", "any"),
        ("RankNet", "neural network", "logistic loss of pairs"),
        ("LambdaRank", "neural network", "lambda of a metric"),
        ("ListNet", "neural network", "cross entropy of top-one probabilities"),
        ("ListMLE", "neural network", "Plackett-Luce likelihood"),
        ("XENDCG", "neural network", "XE-NDCG"),
        ("ApproxNDCG", "neural network", "NDCG of smooth ranks"),
    ),
    ("podium.models.attention", "nets"): (
        ("SelfAttentionRanker", "self-attention over the documents of a query", "any"),
    ),
    ("podium.models.imported", _IMPORTED): (
        ("ImportedForest", "trees of another program", "that of the program"),
        ("ImportedLinear", "linear scoring function of another program", "that of the program"),
    ),
}
_ABOUT = {
    "RegressionTree": "One least-squares tree: the score of a document is the mean label of its leaf.",
    "MART": "Multiple additive regression trees.",
    "LambdaMART": "Boosted trees that optimize a ranking metric by lambda gradients.",
    "LambdaSMART": "LambdaMART that starts from the scores of an init model; init is required.",
    "MatrixNet": "Boosted trees with one split per level.",
    "RandomForest": "Each tree is grown on a bootstrap sample of the queries and on a fraction of the features.",
    "Boosted": "Boosted trees with any objective: a name, an Objective or a Python function.",
    "Linear": "One weight per feature, trained by L-BFGS on any objective.",
    "BayesRank": "One weight per feature, which maximises the expected metric of rankings drawn from Plackett-Luce.",
    "Pointwise": "Any regressor or classifier of scikit-learn, fitted to the labels of single documents.",
    "Pairwise": "Any binary classifier of scikit-learn, fitted to differences of two documents of a query.",
    "RankSVM": "One weight per feature; every better document is to score higher by a margin.",
    "KernelRankSVM": "RankSVM with a kernel: the score is a sum over training documents, with one factor per document.",
    "AdaRank": "Boosts single features on a distribution over queries, for any metric.",
    "CoordinateAscent": "Moves one weight at a time to its exact optimum for any metric, from several starts.",
    "RankBoost": "A weighted sum of weak rankers, each a function of one feature, boosted on pairs of documents.",
    "Bagged": "Copies of one model that differ in their queries or in their seed; the mean of their scores.",
    "Blend": "A weighted sum of the scores of different models, normalized within the query.",
    "Stack": "A second ranker on top of the scores that models give to queries they have not seen.",
    "AutoRanker": "A blend of linear models, trees and nets that cross-validation chooses for the data.",
    "Net": "A multilayer perceptron with any objective: a name, an Objective or a Python function.",
    "RankNet": "A net trained on pairs of documents: the better one should have the higher score.",
    "LambdaRank": "A net that optimizes a ranking metric by lambda gradients.",
    "ListNet": "A net trained on the probability of each document to come first.",
    "ListMLE": "A net trained on the likelihood of the order by labels, under Plackett-Luce.",
    "XENDCG": "A net trained on XE-NDCG, a cross entropy that bounds NDCG.",
    "ApproxNDCG": "A net trained on NDCG of smooth ranks.",
    "SelfAttentionRanker": "A small transformer over the documents of a query: scores depend on the whole list, "
    "not on its order.",
    "ImportedForest": "Trees of a file of LightGBM, XGBoost or another program; they score, and are not trained.",
    "ImportedLinear": "Weights of a file of another program; they score, and are not trained.",
}
_entries = {
    name: ModelEntry(name, module, family, learner, objective, _ABOUT[name], is_trained=family != _IMPORTED)
    for (module, family), models in _OWN.items()
    for name, learner, objective in models
}


def register_model(
    kind: type[RankerClass], *, family: str = "plugins", learner: str = "", objective: str = ""
) -> type[RankerClass]:
    """Make a class of your own a model that can be named on the command line, saved and loaded.

    The first line of its docstring is what `podium models` says about it. Returns the class, so it is a decorator too.
    """
    known = _entries.get(kind.__name__)
    if known is not None and known.registered is not kind:
        raise ValueError(f"there is a model {kind.__name__} already, of {known.module}; choose another name.")
    about = (kind.__doc__ or "").partition("\n")[0]
    _entries[kind.__name__] = ModelEntry(kind.__name__, kind.__module__, family, learner, objective, about, kind)
    return kind


class _Classes(Mapping[str, "type[Ranker]"]):
    """The classes of the registry by their names, each imported when it is asked for.

    Those that are trained here are listed; those that files of other programs give are known too.
    """

    def __getitem__(self, name: str) -> type[Ranker]:
        return _entries[name].kind

    def __iter__(self) -> Iterator[str]:
        return (entry.class_name for entry in catalogue())

    def __len__(self) -> int:
        return len(catalogue())


MODELS = _Classes()


def is_registered(kind: type) -> bool:
    """Whether this very class is a model of the registry."""
    return MODELS.get(kind.__name__) is kind


def refuse_unregistered(name: str) -> None:
    """Refuse the name of a class that no module has registered."""
    if name not in _entries:
        advice = "import the module that registers it (--plugin MODULE)"
        raise ValueError(f"{excerpt(name)} is not a model of Podium; {advice}")


@dataclass(frozen=True)
class Plan:
    """A model to be trained, and its parameters as JSON values: `init` as it was written."""

    model: Ranker
    parameters: dict[str, Any]


def catalogue() -> list[ModelEntry]:
    """All models that can be trained."""
    return [entry for entry in _entries.values() if entry.is_trained]


def find_model(name: str) -> ModelEntry:
    """The model with this name, in letters of any case, to be trained."""
    entries = {entry.name: entry for entry in catalogue()}
    check_choice("model", name.lower(), entries)
    return entries[name.lower()]


def plan_model(name: str, settings: Sequence[str] = (), n_jobs: int | None = None, seed: int | None = None) -> Plan:
    """A model with the settings of the command line (`learning_rate=0.05`), refused here if any of them is wrong."""
    from podium._runtime.threads import usable_threads

    entry = find_model(name)
    values = read_settings(entry, settings)
    for option, parameter, value in (("--jobs", "n_jobs", n_jobs), ("--seed", "random_state", seed)):
        if value is not None and parameter in values:
            raise ValueError(f"Give {option} or --set {parameter}=..., not both.")
        if value is not None and parameter not in entry.parameters:
            raise ValueError(f"{entry.class_name} has no {parameter}; leave {option} out.")
        values |= {} if value is None else {parameter: value}
    model = entry.kind(**values)
    model.check_parameters()
    usable_threads(model.n_jobs)
    plain = {name: _plain_value(value) for name, value in values.items()} | _base_text(settings)
    chosen = {parameter.name: parameter.default for parameter in entry.parameters.values()} | plain
    return Plan(model, {name: "inf" if value == math.inf else value for name, value in chosen.items()})


def read_settings(entry: ModelEntry, settings: Sequence[str]) -> dict[str, Any]:
    """`["n_estimators=50", "metric=map"]` -> `{"n_estimators": 50, "metric": "map"}`, typed as the fields are."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ValueError(f"--set takes name=value, such as learning_rate=0.05; got {setting!r}.")
        refuse_unknown_parameter(entry.class_name, name, entry.parameters)
        if name in values:
            raise ValueError(f"--set {name}=... is given twice ({values[name]} and {text}); give it once.")
        values[name] = _value(entry, name, text)
    return values


def _base_text(settings: Sequence[str]) -> dict[str, Any]:
    """`init` as it was written: the name of a file, or a model."""
    texts = {name.strip(): text.strip() for name, _, text in (setting.partition("=") for setting in settings)}
    return {"init": texts["init"]} if texts.get("init", "none").lower() != "none" else {}


def _plain_value(value: Any) -> Any:
    """A model that is a parameter, or a list of them, as it is written in Python."""
    if isinstance(value, list):
        return [_plain_value(one) for one in value]
    return repr(value) if hasattr(value, "get_params") else value


def _value(entry: ModelEntry, name: str, text: str) -> Any:
    declaration = entry.parameters[name].declaration
    try:
        return declaration.read(text)
    except (ValueError, KeyError):
        if declaration.kind.explains:
            raise
        raise declaration.refuse(entry.class_name, name, text) from None
