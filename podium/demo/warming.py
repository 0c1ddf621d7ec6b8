"""Warming up: everything that has kernels runs once on a little data, so that its kernels are compiled and kept.

Kernels are compiled for the types of their arguments, and these follow from the kind of data and the parameters. So the
cases are a list of calls: every format, metric, objective, model and way to search, as users call them.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import podium
from podium._runtime.kernels.cache import cache_folder, kernels_are_kept
from podium._runtime.kernels.compiling import announce_nothing, compile_seconds, compiled_kernels
from podium._runtime.progress import NotedReport
from podium._runtime.words import counted
from podium.data.ranking import RankingData
from podium.demo.letor import Splits, demo_splits, make_letor
from podium.demo.web import make_web
from podium.metrics.registry import METRICS
from podium.models.frame.ranker import Ranker
from podium.models.registry import ModelEntry, catalogue
from podium.objectives.registry import OBJECTIVES
from podium.pipelines.cascades.cascade import Cascade, Stage
from podium.search import WEIGHTINGS, build_index, open_index

_QUERIES = 20
_COMPARED = 60  # queries; with few, all permutations are tried and none are drawn
_QUICK: dict[str, Any] = {  # parameters of models, so that they are trained in a moment
    "n_estimators": 2,
    "min_samples_leaf": 5,
    "max_iter": 2,
    "max_epochs": 1,
    "hidden_layer_sizes": (4,),
    "embedding_size": 4,
    "max_pairs": 200,
    "n_rounds": 2,
    "n_restarts": 1,
    "n_members": 2,
    "folds": 2,
    "budget": 1e-6,
}
_TREES: dict[str, dict[str, Any]] = {
    "all thresholds": {"extra_trees": False},
    "random thresholds": {"extra_trees": True},
    "levels": {"growth": "level", "extra_trees": False},
    "oblivious trees": {"growth": "oblivious", "extra_trees": False},
    "samples of rows and features": {"row_fraction": 0.7, "feature_fraction": 0.7},
    "samples of queries": {"query_fraction": 0.7},
    "GOSS": {"goss": (0.3, 0.3)},
    "DART": {"drop_rate": 0.5, "skip_drop": 0.0},
    "bundled features": {"bundle_features": True},
    "transforms": {"transform": ("raw", "zscore", "rank")},
}
Case = tuple[str, Callable[[], Any]]


@dataclass(frozen=True)
class Warmth:
    """What warming up has done."""

    folder: Path
    is_kept: bool
    kernels: int  # that were compiled, not loaded
    seconds: float
    compile_seconds: float
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"folder": str(self.folder)}

    def sentence(self) -> str:
        compiled = f"{counted(self.kernels, 'kernel')} compiled" if self.kernels else "all kernels were compiled before"
        where = f"kept in {self.folder} ({self.bytes / 1e6:.0f} MB)" if self.is_kept else f"not kept in {self.folder}"
        return f"{compiled}, in {self.seconds:.0f} s; {where}"


def warm_up(report: NotedReport = lambda done, total, note="": None) -> Warmth:
    """Compile all kernels that are not in the cache; `report` is called before each case."""
    announce_nothing()
    compiled, before, start = compile_seconds(), compiled_kernels(), time.perf_counter()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # little data has few labels, models stop early
        cases = list(_cases(demo_splits(n_queries=_QUERIES), Path(folder)))
        for number, (name, run) in enumerate(cases):
            report(number, len(cases), name)
            run()
    cache = cache_folder()
    size = sum(path.stat().st_size for path in cache.glob("*.nbc"))
    seconds = time.perf_counter() - start
    return Warmth(cache, kernels_are_kept(), compiled_kernels() - before, seconds, compile_seconds() - compiled, size)


def _cases(data: Splits, folder: Path) -> Iterator[Case]:
    yield "files", partial(_files, data.train, folder)
    yield "metrics", partial(_metrics, make_letor(n_queries=_COMPARED))
    for entry in catalogue():
        if entry.missing_extra is None:
            yield entry.class_name, partial(_model, entry, data, folder)
    for name in OBJECTIVES:
        yield f"objective {name}", partial(_objective, name, data)
    for name, parameters in _TREES.items():
        yield f"trees: {name}", partial(_use, podium.LambdaMART(**_QUICK_TREES | parameters), data)
    yield "kinds of tables", partial(_tables, data)
    yield "explaining", partial(_explain, data)
    yield "searching", partial(_search, folder)


_QUICK_TREES = {name: _QUICK[name] for name in ("n_estimators", "min_samples_leaf")}


def _files(data: RankingData, folder: Path) -> None:
    podium.check({"train": data})
    for name in ("a.txt", "a.txt.gz", "a.csv", "a.podium-data"):
        podium.write_data(data, folder / name)
        podium.read_data(folder / name)
    podium.write_data(data, folder / "b.txt", format="lightgbm")
    podium.read_data(folder / "b.txt", format="lightgbm")
    qrels = podium.Qrels.from_dict({"1": {"a": 2, "b": 0}})
    run = podium.Run.from_dict({"1": {"a": 2.5, "b": 1.0}})
    podium.write_qrels(qrels, folder / "qrels.txt")
    podium.write_run(run, folder / "a.run")
    podium.evaluate_run(podium.read_qrels(folder / "qrels.txt"), podium.read_run(folder / "a.run"))


def _metrics(data: RankingData) -> None:
    scores = {"one": data.labels_for("warming up") + 0.5, "other": np.arange(data.n_rows, dtype=np.float32)}
    names = [*METRICS, *(f"{name}@10" for name in ("ndcg", "dcg", "map", "p", "recall", "rr", "err"))]
    for policy in ("standard", "trec"):
        for values in scores.values():
            podium.evaluate(values, data, metrics=names, policy=policy)
    podium.compare(scores, data, metrics=["ndcg@10"])


def _model(entry: ModelEntry, data: Splits, folder: Path) -> None:
    known = entry.kind().get_params(deep=False)
    parameters = {name: value for name, value in _QUICK.items() if name in known} | _parts(entry.class_name)
    model = _use(entry.kind(**parameters), data)
    model.save(folder / "model.podium")
    podium.load(folder / "model.podium").predict(_without_missing(data).test)


def _parts(name: str) -> dict[str, Any]:
    """Of models that are made of models, small ones."""
    members: list[Ranker] = [podium.LambdaMART(**_QUICK_TREES), podium.Linear(max_iter=2)]
    if name in ("Blend", "Stack"):
        return {"members": members}
    return {"Bagged": {"model": members[0]}, "LambdaSMART": {"init": members[1]}}.get(name, {})


def _use(model: Ranker, data: Splits) -> Ranker:
    """Train, and score few rows and many; with missing values, if the model takes them."""
    try:
        model.refuse_unsupported(data.train.X, "the training data")
    except ValueError:
        data = _without_missing(data)
    model.fit(data.train, eval_set=data.valid, early_stopping_rounds=2)
    model.predict(data.test)
    model.predict(data.test.X[:1], qid=[1])
    model.predict(data.test.X.astype(np.float64), qid=data.test.qid)
    if hasattr(model, "scorer"):
        model.scorer()
    return model


def _without_missing(data: Splits) -> Splits:
    return Splits(*(replace(part, X=np.nan_to_num(part.X)) for part in data))


def _objective(name: str, data: Splits) -> None:
    _use(podium.Boosted(objective=name, **_QUICK_TREES), data)
    _use(podium.Linear(objective=name, max_iter=2), data)


def _tables(data: Splits) -> None:
    """No missing values, sparse rows, weights, categories."""
    _use(podium.LambdaMART(**_QUICK_TREES), _without_missing(data))
    train = data.train
    X, y, qid = np.nan_to_num(train.X), train.labels_for("warming up"), train.qid
    sparse = scipy.sparse.csr_array(X)
    podium.LambdaMART(**_QUICK_TREES).fit(sparse, y, qid=qid, sample_weight=np.ones(len(y))).predict(sparse, qid=qid)
    codes = X.copy()
    codes[:, 0] = np.arange(len(X)) % 5
    model = podium.LambdaMART(categorical=[0], **_QUICK_TREES)
    model.fit(codes, y, qid=qid)
    model.predict(codes, qid=qid)
    model.predict(codes[:1], qid=qid[:1])


def _explain(data: Splits) -> None:
    model = podium.LambdaMART(**_QUICK_TREES).fit(data.train)
    podium.explain.importance(model)
    podium.explain.shap_values(model, data.test)
    podium.explain.permutation_importance(model, data.test)
    podium.explain.shap_summary(model, data.test)


def _search(folder: Path) -> None:
    web = make_web()
    index = open_index(build_index(web.documents, folder / "index"))
    queries = dict(islice(web.queries.items(), 5))
    for name in WEIGHTINGS:
        for query in queries.values():
            index.search(query, 5, weighting=name)
    index.search('"sourdough starter" bread', 5)
    cascade = Cascade(index, Stage(n=10))
    features = cascade.training_data(queries, web.qrels)
    model = podium.LambdaMART(**_QUICK_TREES).fit(features)
    Cascade(index, Stage(model, n=10)).search(next(iter(queries.values())), 5)
