"""The demo: the main job on the embedded web, from pages to a re-ranked list that is measured."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.words import counted, program_name
from podium.data.ranking import RankingData
from podium.demo.experiment import store_results
from podium.demo.letor import demo_splits, write_demo
from podium.demo.web import Web, make_web, write_web
from podium.evaluation.comparing import compare_evaluations
from podium.evaluation.comparison import Comparison
from podium.evaluation.evaluating import Evaluation, evaluate_run
from podium.evaluation.intervals import TOO_FEW_VALUES, mean_interval
from podium.formats.scores import write_scores
from podium.formats.trec import Qrels
from podium.models.trees.named import LambdaMART
from podium.pipelines.cascades.cascade import Cascade, CascadeHits, Stage
from podium.search.index.writing import build_index
from podium.search.reading import Hits, Index, open_index

METRICS = ("ndcg@10", "map", "p@5")
CANDIDATES = 100  # documents per query that are re-ranked
SHOWN_QUERY = "q189"  # of the test queries
MARK = ".podium-demo"  # a file in a folder that the demo made
_SHOWN_HITS = 5


@dataclass(frozen=True)
class Parts:
    """60 % of the queries to train on, the others to test on."""

    train: dict[str, str]
    test: dict[str, str]


@dataclass(frozen=True)
class Tour:
    """What the demo made and measured."""

    folder: Path
    web: Web
    parts: Parts
    data: RankingData
    cascade: Cascade
    before: Hits
    after: CascadeHits
    evaluations: Mapping[str, Evaluation]
    comparison: Comparison
    files: list[Path]  # the data set of feature values, which the documentation uses
    report: Path | None  # None without matplotlib, which draws it

    @property
    def model(self) -> LambdaMART:
        model = self.cascade.stages[0].model
        assert isinstance(model, LambdaMART)
        return model

    def as_dict(self) -> dict[str, Any]:
        return {
            "web": {"pages": len(self.web.pages), "queries": len(self.web.questions), "judgements": _judged(self.web)},
            "query": {"text": self.before.query, "bm25": self.before.ids, "cascade": self.after.ids},
            "model": {"name": type(self.model).__name__.lower(), "trees": int(self.model.forest_.n_trees)},
            "systems": {name: evaluation.as_dict() for name, evaluation in self.evaluations.items()},
            "comparison": self.comparison.as_dict(),
            "files": [str(path) for path in self.files],
            "report": None if self.report is None else str(self.report),
        }


def take_tour(folder: Path) -> Tour:
    """Make the web and index it, search, train a re-ranker on some queries, and measure it on the others."""
    _begin(folder)
    web = make_web()
    write_web(web, folder / "web")
    index = open_index(build_index(web.documents, _emptied(folder / "web" / "index")))
    parts = split_queries(web)
    data, held_out = training_data(index, web, parts.train), training_data(index, web, parts.test)
    start = time.perf_counter()
    cascade = train_cascade(index, data, held_out)
    seconds = time.perf_counter() - start
    cascade.save(_emptied(folder / "web" / "cascade"))
    evaluations = evaluate_both(cascade, web, parts)
    shown = web.queries[SHOWN_QUERY]
    before, after = index.search(shown, _SHOWN_HITS), cascade.search(shown, _SHOWN_HITS)
    comparison = compare_evaluations(evaluations, metrics=METRICS[:1])
    facts = {"query_texts": parts.test, "examples": [example_of(web, before, after)]}
    files, report = write_feature_files(folder), write_demo_report(folder, evaluations, cascade, seconds, facts)
    return Tour(folder, web, parts, data, cascade, before, after, evaluations, comparison, files, report)


def _begin(folder: Path) -> None:
    """Mark the folder as one of the demo, which a later demo may replace; any other is refused."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder for the demo. Choose another one with --out.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        message = f"{folder} is there already and was not made by podium demo"
        raise ValueError(f"{message}. Choose another folder with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("podium demo made this folder, and replaces its files when it is run again.\n")


def _emptied(folder: Path) -> Path:
    """The folder without what an earlier demo has left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def split_queries(web: Web) -> Parts:
    queries = list(web.queries.items())
    n = len(queries) * 3 // 5
    return Parts(dict(queries[:n]), dict(queries[n:]))


def training_data(index: Index, web: Web, queries: Mapping[str, str]) -> RankingData:
    """LETOR's 46 features of the best documents by BM25 for each query, with their grades."""
    return Cascade(index, Stage(n=CANDIDATES)).training_data(queries, web.qrels)


def train_cascade(index: Index, data: RankingData, held_out: RankingData) -> Cascade:
    """A re-ranker, its learning curves on both sets; nothing is chosen by them."""
    model = LambdaMART(n_estimators=100, max_leaf_nodes=8, extra_trees=False, metric="ndcg@10")
    return Cascade(index, Stage(model.fit(data, eval_set=[held_out, data]), n=CANDIDATES))


def evaluate_both(cascade: Cascade, web: Web, parts: Parts) -> dict[str, Evaluation]:
    """BM25 and the cascade on the queries that no model has seen."""
    qrels = web.qrels
    judged = Qrels.from_dict({name: qrels[name] for name in parts.test})
    rules: dict[str, Any] = {"metrics": METRICS, "policy": "standard", "missing": "zero"}
    systems = {"BM25": Cascade(cascade.index), "cascade": cascade}
    return {name: evaluate_run(judged, one.run(parts.test, CANDIDATES), **rules) for name, one in systems.items()}


def example_of(web: Web, before: Hits, after: CascadeHits) -> dict[str, Any]:
    """Both lists of the query that is shown, as the report has them."""
    grades = web.qrels[SHOWN_QUERY]
    lists = {
        name: [{"id": hit.id, "title": str(hit.stored["title"]), "grade": int(grades.get(hit.id, 0))} for hit in hits]
        for name, hits in (("BM25", before), ("cascade", after))
    }
    for hit, rank in zip(lists["cascade"], after.first_ranks):
        hit["before"] = rank
    return {"query": SHOWN_QUERY, "text": before.query, "lists": lists}


def write_demo_report(
    folder: Path, evaluations: Mapping[str, Evaluation], cascade: Cascade, seconds: float, facts: Mapping[str, Any]
) -> Path | None:
    """Store what was measured and, where matplotlib is installed, write report.html about it."""
    model = cascade.stages[0].model
    assert isinstance(model, LambdaMART)
    results = store_results(_emptied(folder / "results"), evaluations, model, seconds, folder / "web", facts)
    if find_spec("matplotlib") is None:
        return None
    from podium.lab.report import write_report

    write_report(results, folder / "report.html")
    return folder / "report.html"


def write_feature_files(folder: Path) -> list[Path]:
    """The synthetic data set of feature values, and the scores of a simple ranking of its test queries."""
    files = write_demo(folder)
    files.append(folder / "plain_sum.scores")
    write_scores(plain_sum(demo_splits().test), files[-1])
    return files


def plain_sum(data: RankingData) -> np.ndarray:
    """All features, each brought to 0..1 within its query, added up; a missing value adds nothing."""
    scores = np.zeros(data.n_rows)
    for start, end in zip(data.offsets[:-1], data.offsets[1:]):
        numbers = data.rows[start:end]
        rows = np.nan_to_num(data.X[numbers].astype(np.float64), nan=np.inf)
        low = np.min(rows, axis=0)
        low = np.where(np.isinf(low), 0.0, low)  # missing in the whole query
        rows = np.where(np.isinf(rows), low, rows)
        spread = np.max(rows, axis=0) - low
        scores[numbers] = np.sum((rows - low) / np.where(spread > 0, spread, 1.0), axis=1)
    return scores


def _judged(web: Web) -> int:
    return sum(len(pages) for pages in web.qrels.values())


def show_demo(tour: Tour) -> None:
    for number, show in enumerate((_show_data, _show_search, _show_training, _show_cascade, _show_gain, _show_next), 1):
        print(f"{number}. ", end="")
        show(tour)
        print()
    names = ", ".join(path.name for path in tour.files)
    print(f"Also written to {tour.folder}, for the examples of the documentation: {names} (synthetic feature values)")
    print()
    if tour.report is not None:
        print(f"Report: {tour.report} has all this with charts, in one file. Open it in a browser.")
    else:
        report = f"{program_name()} lab report {tour.folder}/results"
        print(f"For a report with charts: pip install 'podium[report]', then {report}")


def _show_data(tour: Tour) -> None:
    web, topics = tour.web, len({page.topic.name for page in tour.web.pages})
    print(f"Data: a small web made for this demo, written to {tour.folder / 'web'}")
    print(f"   pages.jsonl: {len(web.pages):,} pages on {topics} topics, with titles, addresses and links")
    queries = counted(len(web.questions), "query", "queries")
    print(f"   queries.tsv: {queries}; qrels.txt: {_judged(web):,} relevant pages, grades 1 to 4")


def _show_search(tour: Tour) -> None:
    print(f'Index and search: BM25 for "{tour.before.query}"')
    for line in _result_lines(tour, tour.before):
        print(line)


def _show_training(tour: Tour) -> None:
    data, queries = tour.data, len(tour.parts.train)
    pages = f"the best {CANDIDATES} pages of {queries} queries"
    print(f"Train: {data.n_features} features of {pages}, {data.n_rows:,} rows")
    print(f"   LambdaMART, {counted(tour.model.forest_.n_trees, 'tree')}")


def _show_cascade(tour: Tour) -> None:
    print("Search again: the cascade, BM25 re-ranked by the model")
    for line, before in zip(_result_lines(tour, tour.after), tour.after.first_ranks):
        print(f"{line}, BM25 rank {before}")


def _result_lines(tour: Tour, hits: Hits) -> list[str]:
    grades = tour.web.qrels[SHOWN_QUERY]
    return [
        f"   {rank}. grade {grades.get(hit.id, 0)}  {hit.stored['title']} ({hit.id})"
        for rank, hit in enumerate(hits, 1)
    ]


def _show_gain(tour: Tour) -> None:
    from podium.cli.terminal import print_table

    print(f"Is it better? On the {len(tour.parts.test)} queries that were not trained on:")
    rows = []
    for name, evaluation in tour.evaluations.items():
        low, high = mean_interval(evaluation.per_query[METRICS[0]])
        ends = TOO_FEW_VALUES if math.isnan(low) else f"{low:.4f} to {high:.4f}"
        rows.append([name, *(f"{evaluation[metric]:.4f}" for metric in METRICS), ends])
    print_table(("ranking", *METRICS, "95% interval of ndcg@10"), rows)
    print(f"   {tour.comparison.rows[0].explain()}")


def _show_next(tour: Tour) -> None:
    web, podium = tour.folder / "web", program_name()
    print("Next steps: search the cascade, make another one, or open the page of a service")
    print(f'   {podium} search {web}/cascade "where do bagels come from" --explain')
    files = f"{web}/queries.tsv --qrels {web}/qrels.txt --n {CANDIDATES} --out {web}/features.txt"
    print(f"   {podium} features {web}/index {files}")
    print(f"   {podium} train mart {web}/features.txt --out {web}/mart.podium --set n_estimators=50")
    print(f"   {podium} cascade {web}/index {web}/mart.podium --n {CANDIDATES} --out {web}/mart")
    print(f"   {podium} serve {web}/cascade {web}/index --log {web}/feedback.jsonl")
