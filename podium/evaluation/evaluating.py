"""Evaluation: scores against labels, by named rules, one number per metric and one per query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.markup import notebook_table
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.query_ids import as_query_ids, group_rows
from podium.data.ranking import RankingData, as_labels, as_weights, refuse_beside_data
from podium.evaluation.coverage import judged_shares, mean_judged
from podium.evaluation.joining import Joined, join
from podium.evaluation.rankings import JudgedRows, Rankings
from podium.formats.subtopics import SubtopicQrels
from podium.metrics.base import Metric
from podium.metrics.lists import as_scores as as_scores
from podium.metrics.measures.spelling import expand_names, own_name
from podium.metrics.measures.strings import TextMeasure
from podium.metrics.policies import POLICIES, Policy, Ties, get_policy, refuse_fractions
from podium.metrics.registry import parse_metric, policy_of

if TYPE_CHECKING:
    from podium.formats.trec import Qrels, Run

MetricLike = str | Metric


@dataclass(frozen=True, eq=False)
class Evaluation(Mapping[str, float]):
    """Mean values by metric name, and the values per query.

    `per_query[name]` has one number per query (NaN: undefined, left out), `queries` their ids, `policy` the name of the
    rules, `notes` sentences a reader should know, `bracket[name]` how far ties could move the number,
    `texts[name]` the texts of measures such as `relstring`, `judged[name]`, of a run, the share of the documents that
    the number depends on which is judged.
    """

    means: Mapping[str, float]
    per_query: Mapping[str, Array]
    queries: Array
    rules: Policy
    query_weight: Array | None = None
    notes: tuple[str, ...] = ()
    bracket: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    texts: Mapping[str, Array] = field(default_factory=dict)  # of measures that are texts, one per query of the run
    judged: Mapping[str, float] = field(default_factory=dict)
    n_missing: int = 0  # so many queries at the end are judged but not in the run

    @property
    def policy(self) -> str:
        return self.rules.name

    def __getitem__(self, name: str) -> float:
        return self.means[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in self.means.items())
        return f"Evaluation({numbers}; {counted(len(self.queries), 'query', 'queries')}, policy {self.policy})"

    def _repr_html_(self) -> str:
        """For notebooks: the means, under which rules, and what a reader should know."""
        brackets = [[name, f"{low:.4f} to {high:.4f}"] for name, (low, high) in self.bracket.items()]
        columns = ("metric", "mean", *(["judged"] if self.judged else []))
        rows = [[name, value, *self._judged_cell(name)] for name, value in self.means.items()]
        title = f"{counted(len(self.queries), 'query', 'queries')}, policy {self.policy}"
        tables = notebook_table(title, columns, rows)
        if brackets:
            tables += notebook_table("Over all orders of tied documents", ("metric", "from worst to best"), brackets)
        return tables + "".join(f"<p>{escape(note)}</p>" for note in self.notes)

    def _judged_cell(self, name: str) -> list[Any]:
        return [self.judged.get(name, "")] if self.judged else []

    def to_frame(self, per_query: bool = False, backend: str = "pandas") -> Any:
        """A table: one row per metric, or per query with a column per metric; "pandas", "polars" or "pyarrow"."""
        from podium.formats.frames import make_frame

        if not per_query:
            judged = {"judged": [self.judged.get(name, np.nan) for name in self.means]} if self.judged else {}
            return make_frame({"metric": list(self.means), "mean": list(self.means.values()), **judged}, backend)
        texts = {name: list(column) for name, column in self.texts.items()}
        values = {name: np.asarray(column, dtype=np.float64) for name, column in self.per_query.items()}
        return make_frame({"query": list(self.queries), **values, **texts}, backend)

    def as_dict(self, per_query: bool = False) -> dict[str, Any]:
        """Plain numbers, unrounded; undefined ones are None."""
        result: dict[str, Any] = {
            "policy": self.policy,
            "metrics": {name: _number(value) for name, value in self.means.items()},
            "queries": len(self.queries),
            "notes": list(self.notes),
        }
        if self.judged:
            result["judged"] = dict(self.judged)
        if self.texts:
            result["texts"] = {name: dict(zip(map(str, self.queries), texts)) for name, texts in self.texts.items()}
        if self.bracket:
            result["bracket"] = {name: {"worst": a, "best": b} for name, (a, b) in self.bracket.items()}
        if per_query:
            result["per_query"] = {
                str(query): {name: _number(values[q]) for name, values in self.per_query.items()}
                for q, query in enumerate(self.queries)
            }
        return result


def evaluate(
    scores: Any,
    y: Any,
    *,
    qid: Any = None,
    group: Any = None,
    metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10", "map"),
    policy: str | Policy | None = None,
    docids: Any = None,
    query_weight: Any = None,
    sample_weight: Any = None,
    gain: str | None = None,
    label_gain: Sequence[float] | None = None,
    relevant: float | None = None,
    bracket: bool = False,
    n_jobs: int | None = None,
) -> Evaluation:
    """Evaluate scores.

    `scores` and `y` have one number per row, `qid` one id per row in any order (or `group`: rows per query); `y` may
    also be a RankingData, which contains its queries, document ids and weights. `sample_weight` has one weight per row,
    `query_weight` one per query in order of first appearance. `policy` defaults to "standard"; a Metric with a policy
    of its own keeps it, and a different `policy` is then refused. `gain`, `label_gain` and `relevant` override parts of
    the policy. `bracket=True` adds the lowest and highest value over all orders of tied documents.
    """
    _refuse_other_order(scores, y)
    metrics = _listed(metrics)
    rules = policy_of(metrics, policy, "standard").vary(gain=gain, label_gain=label_gain, relevant=relevant)
    judged = _judged_rows(y, qid, group, docids, query_weight, sample_weight)
    scores = as_scores(scores, len(judged.labels))
    parsed = _parsed(metrics, rules, judged)
    lists = Rankings(judged.reordered(scores), judged, rules.single_precision, n_jobs)
    return _evaluate_rows(lists, rules, parsed, bracket)


def evaluate_run(
    qrels: Qrels | SubtopicQrels,
    run: Run,
    *,
    metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10", "map"),
    policy: str | Policy | None = None,
    missing: str = "skip",
    depth: int | None = None,
    gain: str | None = None,
    label_gain: Sequence[float] | None = None,
    relevant: float | None = None,
    bracket: bool = False,
    n_jobs: int | None = None,
) -> Evaluation:
    """Evaluate a run against judgements, by default under the policy "trec". Unjudged documents have label 0.

    Metrics may be those of `evaluate`, and all of trec_eval and ir_measures by their names there; "official" and
    "all_trec" are trec_eval's groups. Measures of subtopics, such as "alpha_nDCG@20", need SubtopicQrels.
    `depth`: only so many documents per query count (`trec_eval -M`). `judged` of the result is how much is judged.

    Judged queries that the run lacks are left out, as trec_eval does, or with `missing="zero"` score 0
    (`trec_eval -c`); unjudged queries are always excluded. Both are reported in `notes`.
    """
    _refuse_other_pairs(qrels, run)
    if missing not in ("skip", "zero"):
        raise ValueError(f'missing must be "skip" or "zero"; got {missing!r}.')
    if depth is not None and depth < 1:
        raise ValueError(f"depth must be an integer from 1; got {depth}.")
    metrics = expand_names(_listed(metrics))
    rules = policy_of(metrics, policy, "trec").vary(gain=gain, label_gain=label_gain, relevant=relevant)
    subtopics = qrels if isinstance(qrels, SubtopicQrels) else None
    if subtopics is not None and bracket:
        raise ValueError("bracket orders tied documents by their labels; of judgements per subtopic there are several.")
    joined = join(qrels.numbered if isinstance(qrels, SubtopicQrels) else qrels, run, missing)
    rows = JudgedRows(joined.codes, joined.offsets, joined.queries, docids=joined.docids, judged=joined.pool)
    rows = replace(rows, subtopics=subtopics)
    parsed = _parsed(metrics, rules, rows, runs=True)
    lists = Rankings(joined.scores, rows, rules.single_precision, n_jobs, depth)
    result = _evaluate_rows(lists, rules, parsed, bracket)
    texts = {name: metric.texts(lists.lists(rules.ties), run.tag) for name, metric in _texts_of(parsed).items()}
    result = replace(result, texts=texts, notes=(*joined.notes, *result.notes))
    if missing == "zero" and joined.absent:
        result = _with_missing(result, joined, parsed)
    return replace(result, judged=mean_judged(judged_shares(lists.lists(rules.ties), parsed), result.per_query))


def _refuse_other_order(scores: Any, y: Any) -> None:
    """scikit-learn's metrics take labels first: integers in place of scores beside fractions in place of labels."""
    if isinstance(scores, RankingData):
        raise TypeError("evaluate takes the scores first: evaluate(scores, data); got a RankingData in their place.")
    if isinstance(y, RankingData):
        return
    try:
        first, second = np.asarray(scores, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):  # refused with its row later
        return
    if first.ndim != 1 or first.shape != second.shape or not first.size or not _are_labels(first) or np.ptp(first) == 0:
        return
    if np.isfinite(second).all() and (second % 1 != 0).any():
        message = "evaluate takes scores first, then labels, unlike scikit-learn's metrics"
        state = f"{message}; here the scores are integers from 0 and the labels are fractions"
        if (second < 0).any():
            raise ValueError(f"{state}. Call evaluate(scores, labels, ...).")
        warn(f"{state}. If they are swapped, call evaluate(scores, labels, ...).")


def _are_labels(values: Array) -> bool:
    return bool(np.isfinite(values).all() and (values >= 0).all() and (values % 1 == 0).all())


def _refuse_other_pairs(qrels: Any, run: Any) -> None:
    from podium.formats.trec import Qrels, Run, refuse_other_than

    if isinstance(qrels, Run) and isinstance(run, Qrels):
        raise TypeError("evaluate_run takes the judgements first: evaluate_run(qrels, run); got them the other way.")
    if not isinstance(qrels, SubtopicQrels):
        refuse_other_than(Qrels, qrels, "evaluate_run: qrels")
    refuse_other_than(Run, run, "evaluate_run: run")


def _listed(metrics: MetricLike | Sequence[MetricLike]) -> list[MetricLike]:
    return [metrics] if isinstance(metrics, (str, Metric)) else list(metrics)


def evaluate_under_all(
    metrics: Sequence[str], work: Callable[[list[str], str], Evaluation], runs: bool = False
) -> list[Evaluation]:
    """`work(metrics, policy)` for every policy; what a policy has no value for is left out, with a note why."""
    for name in metrics:
        parse_metric(name, runs=runs)
    first = work(list(metrics), "standard")
    return [first, *(_under(name, metrics, work, first) for name in POLICIES if name != "standard")]


def refuse_no_labels(y: Any, what: str) -> None:
    if y is None:
        raise ValueError(f"{what} needs labels; got y=None. Give one label per row, or a RankingData that has them.")


def _judged_rows(y: Any, qid: Any, group: Any, docids: Any, query_weight: Any, sample_weight: Any) -> JudgedRows:
    if isinstance(y, RankingData):
        weights = {"query_weight": query_weight, "sample_weight": sample_weight}
        refuse_beside_data("evaluate", qid=qid, group=group, docids=docids, **weights)
        return _rows_of_data(y)
    refuse_no_labels(y, "evaluate")
    labels = as_labels(y, len(y))
    n = len(labels)
    if n == 0:
        raise ValueError("There are no rows to evaluate.")
    order, offsets, queries = group_rows(as_query_ids(qid, group, n))
    if docids is not None:
        docids = np.asarray(docids, dtype=object)
        if len(docids) != n:
            raise ValueError(f"docids has {len(docids)} entries, the labels have {n} rows.")
    if sample_weight is not None:
        sample_weight = as_weights(sample_weight, n, "sample_weight", "row")
    if query_weight is not None:
        query_weight = as_weights(query_weight, len(queries), "query_weight", "query")
    whole = np.asarray(y).dtype.kind in "biu"
    rows = JudgedRows(labels, offsets, queries, None, docids, sample_weight, query_weight, whole_labels=whole)
    return rows if order is None else rows.grouped_by(order)


def _rows_of_data(data: RankingData) -> JudgedRows:
    if data.n_rows == 0:
        raise ValueError("There are no rows to evaluate.")
    weights = data.sample_weight, data.query_weight
    rows = JudgedRows(data.labels_for("evaluate"), data.offsets, data.query_ids, None, data.docids, *weights)
    return rows if data.is_contiguous else rows.grouped_by(data.rows)


def _parsed(metrics: Sequence[MetricLike], rules: Policy, judged: JudgedRows, runs: bool = False) -> dict[str, Metric]:
    """The metrics by their names as given, ready for these labels."""
    refuse_other_labels(judged, rules)
    return metrics_for(metrics, rules, _largest_label(judged), runs, judged.subtopics is not None)


def refuse_other_labels(judged: JudgedRows, rules: Policy) -> None:
    """Refuse fractions where the policy has no value for them."""
    if not judged.whole_labels:
        refuse_fractions(judged.labels if judged.judged is None else judged.judged[0], rules)


def metrics_for(
    metrics: Sequence[MetricLike], rules: Policy, largest_label: float, runs: bool = False, by_subtopic: bool = False
) -> dict[str, Metric]:
    """The metrics by their names as given, for data with this largest label."""
    if not metrics:
        raise ValueError('metrics is empty; name at least one, such as "ndcg@10".')
    parsed = {str(name): parse_metric(name, rules, runs=runs) for name in metrics}
    for name, metric in parsed.items():
        _refuse_other_judgements(name, metric, by_subtopic)
    return {name: metric.resolve(largest_label) for name, metric in parsed.items()}


def _refuse_other_judgements(name: str, metric: Metric, by_subtopic: bool) -> None:
    if metric.needs_subtopics and not by_subtopic:
        how = "podium.SubtopicQrels.read reads them, and podium.SubtopicQrels.from_dict makes them"
        raise ValueError(f"{name} needs judgements per subtopic, and the qrels have one per document. {how}.")
    if by_subtopic and metric.reads_labels and not metric.needs_subtopics:
        how = "Evaluate it with qrels of documents; qrels.documents has the largest judgement of each"
        raise ValueError(f"{name} needs one judgement per document, and the qrels have one per subtopic. {how}.")


def _texts_of(parsed: Mapping[str, Metric]) -> dict[str, TextMeasure]:
    return {name: metric for name, metric in parsed.items() if isinstance(metric, TextMeasure)}


@dataclass(frozen=True, eq=False)
class QueryValues:
    """One value per query of some rows, by metric; nothing in it depends on other queries."""

    per_query: Mapping[str, Array]
    worst: Mapping[str, Array]  # with ties in the order that is worst, where a bracket is wanted
    best: Mapping[str, Array]
    queries: Array
    tied_by_input: bool  # whether equal scores fell to the order of the rows for want of document ids

    @classmethod
    def of(cls, lists: Rankings, rules: Policy, metrics: Mapping[str, Metric], bracket: bool) -> QueryValues:
        metrics = {name: metric for name, metric in metrics.items() if metric.summary != "text"}

        def by_name(ties: Ties) -> dict[str, Array]:
            return {name: lists.values(metric, ties) for name, metric in metrics.items()}

        values, ends = by_name(rules.ties), (by_name("worst"), by_name("best")) if bracket else ({}, {})
        tied = lists.lists(rules.ties).tied
        by_input = rules.ties == "docid" and lists.judged.docids is None and tied is not None and bool(tied.any())
        return cls(values, *ends, lists.judged.queries, by_input)


def _evaluate_rows(lists: Rankings, rules: Policy, parsed: Mapping[str, Metric], bracket: bool) -> Evaluation:
    return summarised(QueryValues.of(lists, rules, parsed, bracket), rules, parsed, lists.judged.query_weight)


def summarised(
    values: QueryValues, rules: Policy, metrics: Mapping[str, Metric], query_weight: Array | None
) -> Evaluation:
    """Means over the queries, added in their order, and what a reader should know."""

    def means(per_query: Mapping[str, Array]) -> dict[str, float]:
        return {name: metrics[name].summarise(one, query_weight) for name, one in per_query.items()}

    worst, best = means(values.worst), means(values.best)
    brackets = {name: (worst[name], best[name]) for name in worst}
    notes = tuple(_notes(values, {name: metrics[name] for name in values.per_query}, rules))
    return Evaluation(means(values.per_query), values.per_query, values.queries, rules, query_weight, notes, brackets)


def _largest_label(judged: JudgedRows) -> float:
    labels = judged.labels if judged.judged is None else judged.judged[0]
    return float(labels.max(initial=0.0))


def _notes(values: QueryValues, metrics: Mapping[str, Metric], rules: Policy) -> Iterator[str]:
    n = len(values.queries)
    for name, metric in metrics.items():
        left_out = int(np.isnan(values.per_query[name]).sum())
        if left_out:
            yield f"{name} is undefined for {left_out} of {n} queries (one label only); they are left out."
        yield from (f"{name}: {note}" for note in metric.notes())
        if metric.cut_by_policy and metric.cutoff is not None and "@" not in own_name(name):
            yield f"{name}: the first {metric.cutoff} places count (policy {rules.name!r} without a cutoff)."
    if values.tied_by_input:
        yield "There are equal scores but no document ids: ties fall to the order of the input."


def _under(
    policy: str, metrics: Sequence[str], work: Callable[[list[str], str], Evaluation], like: Evaluation
) -> Evaluation:
    known, notes = [], []
    for name in metrics:
        try:
            known.append(work([name], policy))
        except ValueError as error:
            notes.append(f"{policy}: {error}")
    if not known:
        nothing: dict[str, Any] = {key: {} for key in ("means", "per_query", "bracket", "texts", "judged")}
        return replace(like, rules=get_policy(policy), notes=tuple(notes), **nothing)
    return replace(
        known[0],
        means={name: value for one in known for name, value in one.means.items()},
        per_query={name: values for one in known for name, values in one.per_query.items()},
        bracket={name: ends for one in known for name, ends in one.bracket.items()},
        texts={name: texts for one in known for name, texts in one.texts.items()},
        judged={name: share for one in known for name, share in one.judged.items()},
        notes=(*dict.fromkeys(note for one in known for note in one.notes), *notes),
    )


def _with_missing(result: Evaluation, joined: Joined, parsed: Mapping[str, Metric]) -> Evaluation:
    """Judged queries that the run lacks have the value 0; what counts queries or judgements counts theirs."""
    missing = {name: parsed[name].of_missing(*joined.absent_pool) for name in result.per_query}
    per_query = {name: np.concatenate([values, missing[name]]) for name, values in result.per_query.items()}
    share = (len(result.queries)) / (len(result.queries) + len(joined.absent))
    return replace(
        result,
        per_query=per_query,
        means={name: parsed[name].summarise(values) for name, values in per_query.items()},
        queries=np.concatenate([result.queries, np.array(joined.absent, dtype=object)]),
        bracket={name: (worst * share, best * share) for name, (worst, best) in result.bracket.items()},
        n_missing=len(joined.absent),
    )


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
