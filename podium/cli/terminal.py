"""Tables for the terminal. They show what the library returns as values."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from podium._runtime.words import counted, printable
from podium.cli.application import show

if TYPE_CHECKING:
    from podium.evaluation.comparison import Comparison
    from podium.evaluation.evaluating import Evaluation
    from podium.explain import Why
    from podium.explain.lambdas import Lambdas
    from podium.explain.queries import QueryExplained
    from podium.lab.tuning.tuning import Tuned
    from podium.models.registry import ModelEntry
    from podium.pipelines.auto.autoranker import AutoRanker
    from podium.pipelines.auto.cross_validation import CrossValidation

_SHOWN_TRIALS = 5


def print_evaluations(evaluations: Sequence[Evaluation], *, per_query: bool = False) -> None:
    """One row per metric, one column per policy; then the notes. How much is judged is the same for all policies."""
    *others, last = [(one.policy, one) for one in evaluations]
    _print_columns([*((policy, replace(one, judged={})) for policy, one in others), (last[0], _judged(evaluations))])
    _print_notes(evaluations)
    if per_query:
        print_queries(evaluations[0])


def _judged(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The last one, with what the others know of the coverage of judgements."""
    return replace(evaluations[-1], judged={k: v for one in evaluations for k, v in one.judged.items()})


def print_runs(runs: Mapping[str, Evaluation], *, per_query: bool = False) -> None:
    """One row per metric, one column per run; then the notes, and the values of each query."""
    _print_columns(list(runs.items()))
    for name, evaluation in runs.items():
        _print_notes([evaluation], f"{name}: ")
    if per_query:
        for name, evaluation in runs.items():
            show(name)
            print_queries(evaluation)


def _print_columns(columns: Sequence[tuple[str, Evaluation]]) -> None:
    names = [
        (name, *(["judged"] if one.judged else []), *(["worst .. best tie"] if one.bracket else []))
        for name, one in columns
    ]
    queries = sorted({len(one.queries) for _, one in columns})
    title = (
        counted(queries[0], "query", "queries") if len(queries) == 1 else f"{queries[0]:,} to {queries[-1]:,} queries"
    )
    table = number_table(title, "metric", [name for names_of_one in names for name in names_of_one])
    metrics = dict.fromkeys(name for _, one in columns for name in [*one, *one.texts])
    for name in metrics:
        table.add_row(Text(name), *(Text(cell) for _, evaluation in columns for cell in _cells(evaluation, name)))
    console().print(table)


def _print_notes(evaluations: Sequence[Evaluation], before: str = "") -> None:
    for note in dict.fromkeys(note for evaluation in evaluations for note in evaluation.notes):
        show(f"{before}{note}")


def print_queries(evaluation: Evaluation) -> None:
    """Tab-separated, a header and one line per query: for other programs."""
    show("\t".join(["query", *evaluation, *evaluation.texts]))
    for q, query in enumerate(evaluation.queries):
        numbers = [f"{evaluation.per_query[name][q]:.6f}" for name in evaluation]
        texts = [texts[q] if q < len(texts) else "" for texts in evaluation.texts.values()]
        show("\t".join([str(query), *numbers, *texts]))


def print_comparison(comparison: Comparison, *, per_query: bool = False) -> None:
    console().print(comparison.table())
    for row in comparison.rows:
        show(row.explain())
    for note in comparison.notes:
        show(note)
    if per_query:
        show(comparison.queries_csv("\t"), end="")


def print_models(entries: Sequence[ModelEntry]) -> None:
    rows = [(entry.name, entry.learner, entry.objective, entry.about) for entry in entries]
    print_table(("model", "learner", "objective", "what it is"), rows)


def print_parameters(entry: ModelEntry) -> None:
    """The model in a line, then one row per parameter."""
    show(f"{entry.name}: {entry.learner} x {entry.objective}")
    rows = [tuple(map(str, one.as_dict().values())) for one in entry.parameters.values()]
    print_table(("parameter", "default", "allowed", "what it means"), rows)


def print_explanation(explained: QueryExplained | Lambdas | Why) -> None:
    """The lines of a query; for two documents the reasons, in words and as a table of features."""
    if hasattr(explained, "sentences"):
        show("\n".join(explained.sentences()))
    else:
        show(explained.text)
        console().print(explained.table())


def print_auto(model: AutoRanker, report: IO[str]) -> None:
    from podium.pipelines.auto.page import columns, tried_rows

    print_table(columns(model), tried_rows(model), report)
    show("\n".join(model.why()), file=report)
    spent = {word: model.timing_[word] for word in ("choosing", "training", "compiling") if word in model.timing_}
    about = ", ".join(f"{word} {seconds:.1f} s" for word, seconds in spent.items())
    show(f"Spent: {about}; compiling, on first use only, is not part of the budget.", file=report)


def print_folds(validated: CrossValidation, metrics: list[str]) -> None:
    """One row per fold, then that of all queries."""
    lines = [*enumerate(validated.folds, 1), ("all", validated.evaluation)]
    rows = [[str(name), str(len(part.queries)), *(f"{part[metric]:.4f}" for metric in metrics)] for name, part in lines]
    rows.append(["sd", "", *(f"{validated.spread(metric):.4f}" for metric in metrics)])
    print_table(("fold", "queries", *metrics), rows)
    for note in validated.evaluation.notes:
        show(note)


def print_tuned(tuned: Tuned, report: IO[str]) -> None:
    """The best trials, then what was chosen."""
    from podium.lab.tuning.tuning import plain_value
    from podium.models.frame.inspection import settings_words
    from podium.models.frame.resolving import differing_values

    rows = []
    for number, trial in tuned.ranked()[:_SHOWN_TRIALS]:
        step = "" if trial.step is None else str(trial.step)
        settings = " ".join(f"{name}={_shown(value)}" for name, value in trial.settings.items())
        rows.append([str(number + 1), f"{trial.value:.4f}", step, settings])
    print_table(("trial", tuned.criterion, "step", "settings"), rows, report)
    show(f"{tuned.summary()}.", file=report)
    chosen = (f"{name}={_shown(plain_value(value))}" for name, value in tuned.chosen.items())
    show(f"chosen: {' '.join(chosen)}", file=report)
    others = differing_values(tuned.model)
    if others:
        show(f'by the training data ("auto"): {settings_words(others)}', file=report)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_rows(rows: Sequence[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for what, value in rows:
        table.add_row(Text(what), Text(value))
    console().print(table)


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str]], file: IO[str] | None = None) -> None:
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(Text, row))  # Text: brackets are no markup
    console(file).print(table)


def number_table(title: str, first: str, columns: Iterable[str]) -> Table:
    """An empty table with names in the first column and numbers in the others."""
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def console(file: IO[str] | None = None) -> Console:
    """The width of a terminal, or enough for a wide table when the output goes to a file."""
    out = sys.stdout if file is None else file
    return _PlainConsole(file=out, width=None if out.isatty() else 160, highlight=False)


class _PlainConsole(Console):
    """A console whose texts have no control characters; colours are no texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def _cells(evaluation: Evaluation, name: str) -> list[str]:
    from podium.metrics.registry import parse_metric

    if name in evaluation.texts:
        texts = set(evaluation.texts[name])
        cells = [texts.pop() if len(texts) == 1 else "-"]
    else:
        value = evaluation.means.get(name, float("nan"))
        counts = parse_metric(name, runs=True).summary == "sum" if name in evaluation.means else False
        cells = ["-" if np.isnan(value) else f"{value:.0f}" if counts else f"{value:.4f}"]
    if evaluation.judged:
        cells.append(f"{evaluation.judged[name]:.4f}" if name in evaluation.judged else "")
    if evaluation.bracket:
        ends = evaluation.bracket.get(name)
        cells.append("" if ends is None else f"{ends[0]:.4f} .. {ends[1]:.4f}")
    return cells
