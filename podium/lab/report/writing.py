"""A report, from stored results to the file: the same results give the same bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from podium._runtime.files import write_whole
from podium.lab.experiments.results import Results
from podium.lab.report import charts, example_sections, provenance, query_sections, sections, training_sections
from podium.lab.report.page import Section, write_page
from podium.lab.report.statistics import Leaderboard, against_baseline, choose_baseline, rank_models
from podium.search.queries import read_queries


def write_report(
    results: Results,
    path: str | os.PathLike[str],
    *,
    queries: Mapping[str, str] | str | os.PathLike[str] | None = None,
    tables: str | os.PathLike[str] | None = None,
) -> None:
    """Write the report of an experiment as one HTML file that needs nothing else. Needs matplotlib (extra `report`).

    `queries`: the texts of queries by their ids, or a file that has them. With `tables=FOLDER` every table is also
    written there, as CSV with all digits and as LaTeX with those of the page.
    """
    charts.refuse_without_matplotlib()
    if not results.runs:
        raise ValueError("expected results of at least one finished run; found none. Run the experiment first.")
    if queries is not None:
        texts = dict(queries) if isinstance(queries, Mapping) else read_queries(queries)
        results = replace(results, about=results.about | {"query_texts": texts})
    metric = results.about["metrics"][0]
    boards = [rank_models(results, policy, metric) for policy in results.about["policies"]]
    title = str(results.about.get("title") or results.about.get("name") or "Experiment")
    parts = [part for part in _sections(results, boards) if part.blocks]
    page = write_page(title, sections.lead(results, boards[0]), sections.facts(results, boards[0]), parts)
    with write_whole(Path(path)) as file:
        file.write(page.encode())
    if tables is not None:
        _write_tables(Path(tables), parts)


def _write_tables(folder: Path, parts: list[Section]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for table in (table for part in parts for block in part.blocks for table in block.files):
        for ending, content in (("csv", table.csv), ("tex", f"{table.latex}\n")):
            with write_whole(folder / f"{table.name}.{ending}") as file:
                file.write(content.encode())


def _sections(results: Results, boards: list[Leaderboard]) -> list[Section]:
    """All sections in their order; those without content have no blocks."""
    main = boards[0]
    baseline = choose_baseline(results, main)
    against = {} if baseline is None else against_baseline(main, baseline)
    chosen, queries = _chosen(main, baseline), query_sections.Queries.of(results)
    return [
        sections.leaderboards(results, boards),
        example_sections.examples(results),
        sections.evidence(results),
        sections.published(results),
        sections.cutoffs(results, main, chosen),
        *([] if baseline is None else [query_sections.against_baseline(main, baseline, against, queries)]),
        query_sections.hard_queries(main, chosen, baseline, queries),
        sections.per_fold(results, main),
        training_sections.learning_curves(results, main),
        training_sections.importances(results, main),
        training_sections.cost(results, main),
        training_sections.tuning(results, main),
        provenance.provenance(results),
    ]


def _chosen(board: Leaderboard, baseline: str | None) -> list[str]:
    """The models that charts can tell apart: the best ones, and the baseline."""
    best = [model for model in board.models if model != baseline][: charts.SERIES - 1]
    return best if baseline is None else [model for model in board.models if model in {*best, baseline}]
