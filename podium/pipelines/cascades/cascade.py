"""Cascade: retrieve, compute features, re-rank by a learned model; as many stages as wanted.

    query -> first stage -> the best n -> features -> model -> list (-> the best m -> features -> model -> list ...)

Training data and searches get their rows from the same function, so that a document has the same features and score,
bit for bit, wherever it is met. A cascade never changes; any number of threads may search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from podium._runtime.threads import map_blocks
from podium._runtime.warn import warn
from podium._runtime.words import check_choice, counted
from podium.data.columns import SAME_COLUMNS, are_positions, first_difference
from podium.data.ranking import RankingData
from podium.formats.trec import Qrels, Run
from podium.metrics.base import Metric
from podium.metrics.policies import Policy
from podium.models.frame.estimator import check_fitted
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import one_query
from podium.search.features.declaring import Features
from podium.search.features.extracting import Extractor
from podium.search.queries import search_run
from podium.search.reading import Hit, Hits, Index, open_index
from podium.search.retrieval.weightings import Weighting, parse_weighting
from podium.search.searcher import Fields

if TYPE_CHECKING:
    from podium.pipelines.cascades.choosing import CascadeChoice

DEPTH = 1000  # documents that a stage re-ranks, unless something else is known
_QUERIES_PER_BLOCK = 8
_UNJUDGED = ("irrelevant", "skip")


@dataclass(frozen=True, eq=False)
class Stage:
    """Re-ranks the best `n` documents by a model of their features; those behind keep their order, behind.

    `n` is by default that of the declaration of the features, or 1,000. `features` are `podium.search.Features`,
    "letor" or the path of a TOML file. Without a model, the order stays: `Cascade.training_data` has what one can be
    trained on, and `Cascade.fit` chooses one.
    """

    model: Ranker | None = None
    features: Any = "letor"
    n: Any = None  # an integer, once the stage is made

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", Features.of(self.features))
        if self.n is None:
            object.__setattr__(self, "n", self.features.n or DEPTH)
        if isinstance(self.n, bool) or not isinstance(self.n, (int, np.integer)) or self.n < 1:
            raise ValueError(f"n, the documents that a stage re-ranks, must be an integer from 1; got {self.n!r}.")
        if self.model is None:
            return
        if self.features.n not in (None, self.n):
            trained = f"the features were computed of the best {self.features.n:,} documents per query"
            warn(f"{trained}; this stage re-ranks {self.n:,}. A model is best at the n that it was trained at.")
        if not isinstance(self.model, Ranker):
            raise ValueError(f"a stage needs a model of Podium, such as LambdaMART; got {self.model!r:.80}.")
        check_fitted(self.model)
        names = getattr(self.model, "feature_names_in_", None)
        if names is not None and not are_positions(names):
            difference = first_difference(self.features.names, list(names), "the model")
            if difference:
                raise ValueError(f"{difference}. {SAME_COLUMNS} Declare the features that the model was trained on.")
        if self.model.n_features_in_ != len(self.features):
            message = f"{counted(len(self.features), 'feature')} declared, the model has {self.model.n_features_in_:,}"
            raise ValueError(f"{message}. Declare the features that it was trained on.")

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """One score per candidate of a query."""
        assert self.model is not None
        self.model.refuse_unsupported(rows, "the features", fitted=True)
        return self.model.score_rows(rows, one_query(len(rows)))


@dataclass(frozen=True)
class CascadeHit(Hit):
    """A document that was found, and where the first stage had it: rank from 1."""

    first_rank: int
    first_score: float

    def __repr__(self) -> str:
        return f"CascadeHit(id={self.id!r}, score={self.score:.4f}, first_rank={self.first_rank})"


class CascadeHits(Hits):
    """Documents, best first. `first_ranks` and `first_scores` are those of the first stage."""

    __slots__ = ("first_ranks", "first_scores")

    def __init__(self, searched: Index, query: str, ranked: Ranked) -> None:
        ids = [searched.id(document) for document in ranked.documents.tolist()]
        super().__init__(searched, query, (ranked.documents, ranked.scores.tolist(), ids))
        self.first_ranks, self.first_scores = (ranked.places + 1).tolist(), ranked.first_scores.tolist()

    @overload
    def __getitem__(self, number: int) -> CascadeHit: ...
    @overload
    def __getitem__(self, number: slice) -> list[Hit]: ...
    def __getitem__(self, number: int | slice) -> CascadeHit | list[Hit]:
        if isinstance(number, slice):
            return super().__getitem__(number)
        hit = super().__getitem__(number)
        first = self.first_ranks[number], self.first_scores[number]
        return CascadeHit(hit.id, hit.score, hit.document, self, *first)

    def as_dicts(self) -> list[dict[str, Any]]:
        firsts = zip(self.first_ranks, self.first_scores)
        return [
            hit | {"first_rank": rank, "first_score": score} for hit, (rank, score) in zip(super().as_dicts(), firsts)
        ]


@dataclass(frozen=True, eq=False)
class Ranked:
    """The documents of a query in the order of a stage."""

    documents: np.ndarray  # (n,) int64
    scores: np.ndarray  # (n,) float64, falling
    places: np.ndarray  # (n,) int64: where the first stage has them, from 0
    first_scores: np.ndarray  # (n,) float64

    def top(self, n: int) -> Ranked:
        return Ranked(self.documents[:n], self.scores[:n], self.places[:n], self.first_scores[:n])

    def reordered(self, scores: np.ndarray) -> Ranked:
        """With new scores of the first documents. Equal ones keep their order; the others follow, below all of them."""
        n = len(scores)
        order = np.concatenate([np.argsort(-scores, kind="stable"), np.arange(n, len(self.documents))])
        behind = scores.min() - 1.0 - (self.scores[n - 1] - self.scores[n:]) if n else self.scores
        new = np.concatenate([scores, behind])[order]
        return Ranked(self.documents[order], new, self.places[order], self.first_scores[order])


@dataclass(frozen=True, eq=False)
class Scored:
    """What a stage scored: document numbers, their features and the scores, in the order of the stage before."""

    documents: np.ndarray
    rows: np.ndarray  # (documents, features) float32
    scores: np.ndarray


class Trace:
    """What one search did: the seconds of its steps (retrieve, features, score), and what the last stage scored."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.scored: Scored | None = None
        self._since = time.perf_counter()

    def done(self, step: str) -> None:
        """A step ends now; those of several stages are added up."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._since
        self._since = now


class Cascade:
    """An index and the stages that re-rank what it finds.

    `stages` is a list of `Stage`s, or of models for LETOR's 46 features; without any there is one without a model, for
    `training_data` and `fit`. `weighting` and `fields` are those of the first stage, as in `Index.search`. `choice_` is
    what `fit` tried, of a cascade that it returned.
    """

    def __init__(
        self,
        index: Index | str | os.PathLike[str],
        stages: Sequence[Stage | Ranker] | Stage | Ranker = (),
        *,
        weighting: str | Weighting = "bm25",
        fields: Fields = "whole",
    ) -> None:
        self.index = index if isinstance(index, Index) else open_index(index)
        self.weighting, self.fields = parse_weighting(weighting), fields
        items = [stages] if isinstance(stages, (Stage, Ranker)) else list(stages)
        self.stages = tuple(stage if isinstance(stage, Stage) else Stage(stage) for stage in items) or (Stage(),)
        for before, stage in zip(self.stages, self.stages[1:]):
            if stage.n > before.n:
                most = f"at most the {before.n} documents of the one before"
                raise ValueError(f"a stage re-ranks {most}; got n={stage.n}.")
        self.index.ranker(self.weighting, fields)  # refuses bad fields
        self._extractors = [Extractor(self.index, stage.features) for stage in self.stages]
        self.choice_: CascadeChoice | None = None

    def __repr__(self) -> str:
        names = ", ".join(f"{type(stage.model).__name__} of {stage.n}" for stage in self.stages if stage.model)
        return f"Cascade({str(self.index.folder)!r}, {self.weighting}{', ' if names else ''}{names})"

    def with_model(self, model: Ranker, stage: int = -1) -> Cascade:
        """The same cascade with this model in one of its stages."""
        stages = list(self.stages)
        stages[stage] = replace(stages[stage], model=model)
        return Cascade(self.index, stages, weighting=self.weighting, fields=self.fields)

    def fit(
        self,
        queries: Mapping[str, str],
        qrels: Qrels | Mapping[str, Mapping[str, float]],
        *,
        metric: str | Metric = "ndcg@10",
        policy: str | Policy = "standard",
        folds: int = 5,
        random_state: int = 0,
        n_jobs: int | None = None,
        report: Any = None,
    ) -> Cascade:
        """The same cascade, re-ranked by what gains on queries that it was not trained on, or not at all.

        Cross-validation over queries tries a z-score sum of the first stage and a linear model, the linear model, small
        trees and a blend. The first stage stays as it is unless one of them gains more than one standard error of the
        differences per query. `choice_` of the new cascade has what was tried; print it. `report(done, of, ...)` is
        called while features are computed, and after each candidate.
        """
        from podium.pipelines.cascades.choosing import Rules, fit_cascade

        return fit_cascade(self, queries, qrels, Rules(metric, policy, folds, random_state, n_jobs), report)

    def search(
        self,
        text: str,
        k: int = 10,
        *,
        weighting: str | Weighting | None = None,
        fields: Fields | None = None,
        trace: Trace | None = None,
    ) -> CascadeHits:
        """The k best documents of a query, as `Index.search` reads it; weighting and fields are the cascade's.

        A `trace` notes the seconds of each step, and the features that the models scored.
        """
        if weighting is not None or fields is not None:
            raise ValueError("a cascade has a weighting and fields of its own. Leave the option out.")
        return CascadeHits(self.index, text, self._ranked(text, self.index._checked_k(k), trace=trace).top(k))

    def search_many(
        self, texts: Sequence[str], k: int = 10, *, n_jobs: int | None = None, **first_stage: Any
    ) -> list[CascadeHits]:
        """`search` for many queries, on all cores."""
        return _over_queries(lambda text: self.search(text, k, **first_stage), texts, n_jobs)

    def rerank(self, text: str, ids: Sequence[str], k: int | None = None, *, trace: Trace | None = None) -> CascadeHits:
        """Documents of any engine, by their ids, in the order of this cascade, or the k best of them.

        All of them are re-ranked by the first model, whatever its n. They come to it in the order of the first stage
        with its scores, so that the candidates of a search get the rows, scores and order that they have there. What
        the first stage does not find comes behind, in the order given, with the score of a document without any term of
        the query: 0, or the lowest of the list if that is below. Ids that the index does not have are left out, with a
        warning.
        """
        from podium.pipelines.cascades.reranking import ranked_candidates

        trace = Trace() if trace is None else trace
        candidates = ranked_candidates(self, text, ids)
        trace.done("retrieve")
        ranked = self._through(text, candidates, None, trace, len(candidates.documents))
        return CascadeHits(self.index, text, ranked if k is None else ranked.top(self.index._checked_k(k)))

    def run(self, queries: Mapping[str, str], k: int = 1000, *, n_jobs: int | None = None, report: Any = None) -> Run:
        """The k best documents per query as a TREC run."""
        return search_run(self, queries, k, n_jobs=n_jobs, report=report)

    def _ranked(self, text: str, k: int, n_stages: int | None = None, trace: Trace | None = None) -> Ranked:
        """At least the k best documents (if there are so many) after the first stages, all of them by default."""
        trace = Trace() if trace is None else trace
        stages = self.stages[:n_stages]
        depth = max([k, *(stage.n for stage in stages if stage.model is not None)])
        hits = self.index.search(text, depth, weighting=self.weighting, fields=self.fields)
        scores = np.array(hits.scores, np.float64)
        ranked = Ranked(hits.documents, scores, np.arange(len(hits)), scores)
        trace.done("retrieve")
        return self._through(text, ranked, n_stages, trace)

    def _through(self, text: str, ranked: Ranked, n_stages: int | None, trace: Trace, n_first: int = 0) -> Ranked:
        """Candidates after the first stages; the first model re-ranks `n_first` of them, if that is more than its n."""
        for number, stage in enumerate(self.stages[:n_stages]):
            if stage.model is not None and len(ranked.documents):
                candidates, n_first = ranked.top(max(stage.n, n_first)), 0
                rows = self.rows(number, text, candidates)
                trace.done("features")
                scores = stage.scores(rows)
                ranked = ranked.reordered(scores)
                trace.scored = Scored(candidates.documents, rows, scores)
                trace.done("score")
        return ranked

    def rows(self, stage: int, text: str, ranked: Ranked, n_ranged: int | None = None) -> np.ndarray:
        """(documents, features) float32: what the model of a stage sees."""
        return self._extractors[stage].values(text, ranked.documents, ranked.scores, n_ranged=n_ranged)

    def training_data(
        self,
        queries: Mapping[str, str],
        qrels: Qrels | Mapping[str, Mapping[str, float]] | None = None,
        n: int | None = None,
        *,
        candidates: Run | None = None,
        unjudged: str = "irrelevant",
        add_judged: bool = False,
        stage: int = -1,
        n_jobs: int | None = None,
        report: Any = None,
    ) -> RankingData:
        """The features of the best n documents per query before a stage, by default the last, with their labels.

        `queries` are {id: text}; n is that of the stage, 1,000 unless it says otherwise. Documents without a judgement
        have label 0, or are left out with `unjudged="skip"`; queries without any judgement are left out. `add_judged`
        adds judged documents that are not among the n; min-max then keeps the range of the n. Without qrels the data
        has no labels. `candidates` is a run of any engine: its best n documents per query, as `rerank` sees them, take
        the place of those of the first stage.
        """
        check_choice("unjudged", unjudged, _UNJUDGED)
        stage = range(len(self.stages))[stage]
        n = self.stages[stage].n if n is None else self.index._checked_k(n)
        labels = qrels.to_dict() if isinstance(qrels, Qrels) else qrels
        if labels is None and (unjudged == "skip" or add_judged):
            raise ValueError("unjudged='skip' and add_judged need qrels.")
        if add_judged:
            self._refuse_unknown_scores(stage)
        asked = [name for name in queries if labels is None or labels.get(name)]
        ranked_by = self._first_ranking(queries, candidates, stage, n)

        def rows_of(name: str) -> _Rows:
            judged = None if labels is None else {str(id): float(label) for id, label in labels[name].items()}
            return self._training_rows(stage, queries[name], judged, ranked_by(name), unjudged == "skip", add_judged)

        parts = _over_queries(rows_of, asked, n_jobs, report)
        names = [name for name, part in zip(asked, parts) for _ in part.ids]
        if not names:
            known = f"no query has {'candidates' if asked else 'judgements'}"
            advice = "Are the queries, judgements and documents those of one collection?"
            raise ValueError(f"no training data: {known}. {advice}")
        return RankingData.from_arrays(
            np.concatenate([part.X for part in parts]),
            None if labels is None else np.concatenate([part.y for part in parts]),
            names,
            docids=[id for part in parts for id in part.ids],
            feature_names=self.stages[stage].features.names,
        )

    def _first_ranking(
        self, queries: Mapping[str, str], candidates: Run | None, stage: int, n: int
    ) -> Callable[[str], Ranked]:
        """Gives the n documents of a query that a stage sees: of the stages before, or of a run."""
        if candidates is None:
            return lambda name: self._ranked(queries[name], n, stage).top(n)
        from podium.pipelines.cascades.reranking import candidates_of_run

        ranked_by = candidates_of_run(self, queries, candidates, n)
        return lambda name: self._through(queries[name], ranked_by(name), stage, Trace(), n)

    def _training_rows(
        self,
        stage: int,
        text: str,
        judged: Mapping[str, float] | None,
        ranked: Ranked,
        only_judged: bool,
        add_judged: bool,
    ) -> _Rows:
        n_ranged = len(ranked.documents)
        if judged is not None and add_judged:
            ranked = self._with_judged(text, ranked, judged)
        X = self.rows(stage, text, ranked, n_ranged)
        ids = [self.index.id(document) for document in ranked.documents.tolist()]
        if judged is None:
            return _Rows(X, np.zeros(len(ids)), ids)
        y = np.array([max(judged.get(id, 0.0), 0.0) for id in ids])
        if not only_judged:
            return _Rows(X, y, ids)
        rows = [row for row, id in enumerate(ids) if id in judged]
        return _Rows(X[rows], y[rows], [ids[row] for row in rows])

    def _with_judged(self, text: str, ranked: Ranked, judged: Mapping[str, float]) -> Ranked:
        """Judged documents that were not found come behind, by id."""
        numbers, seen = [self.index.number(id) for id in sorted(judged)], set(ranked.documents.tolist())
        more = [number for number in numbers if number is not None and number not in seen]
        scores = np.full(len(more), np.nan)
        if more and any(item.kind == "score" for item in self.stages[0].features.features):
            from podium.pipelines.cascades.reranking import first_scores

            scores = first_scores(self, text, more)[1]
        new = np.array(more, np.int64)
        return Ranked(
            np.concatenate([ranked.documents, new]),
            np.concatenate([ranked.scores, scores]),
            np.concatenate([ranked.places, np.arange(len(ranked.places), len(ranked.places) + len(more))]),
            np.concatenate([ranked.first_scores, scores]),
        )

    def _refuse_unknown_scores(self, stage: int) -> None:
        named = next((item.name for item in self.stages[stage].features.features if item.kind == "score"), None)
        if stage and named is not None:
            message = f"add_judged: feature {named!r} is the score of stage {stage}, which judged documents that it"
            raise ValueError(f"{message} has not seen do not have. Leave the feature or add_judged out.")

    def explain(self, text: str, k: int = 10) -> Any:
        """The k best documents with their features and what each adds to the score: `podium search DIR --explain`."""
        from podium.pipelines.cascades.explaining import explain_search

        return explain_search(self, text, k)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write index, models and declarations as one new folder, which `podium.load` reads. Nothing in it is code."""
        from podium.pipelines.cascades.saving import save_cascade

        save_cascade(self, folder)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of one query."""

    X: np.ndarray
    y: np.ndarray
    ids: list[str]


def _over_queries(work: Any, queries: Sequence[str], n_jobs: int | None, report: Any = None) -> list[Any]:
    """`work(query)` of each, on threads, in order."""
    done = 0

    def block(number: int) -> list[Any]:
        nonlocal done
        block_queries = queries[number * _QUERIES_PER_BLOCK : (number + 1) * _QUERIES_PER_BLOCK]
        results = [work(query) for query in block_queries]
        done += len(block_queries)
        if report is not None:
            report(done, len(queries))
        return results

    parts = map_blocks(block, -(-len(queries) // _QUERIES_PER_BLOCK), n_jobs)
    return [result for part in parts for result in part]
