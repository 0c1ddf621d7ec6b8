"""Evaluating and comparing files of scores and TREC runs, and checking data files."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from podium._runtime.warn import LossWarning
from podium.evaluation.evaluating import Evaluation, evaluate, evaluate_run, evaluate_under_all
from podium.formats.scores import read_scores
from podium.formats.subtopics import SubtopicQrels
from podium.formats.trec import read_qrels, read_run
from podium.metrics.measures.spelling import expand_names
from podium.metrics.registry import parse_metric
from podium.workflows.reading import Locate, Reading, itself, read_file

if TYPE_CHECKING:
    from podium.evaluation.comparison import Comparison
    from podium.formats.trec import Qrels
    from podium.lint.rules import Report


def evaluate_files(
    data: Path, scores: Path, metrics: Sequence[str], policy: str = "standard", *, locate: Locate = itself, **rules: Any
) -> list[Evaluation]:
    """Evaluate a file of scores with the labels of a data file; policy "all" gives one evaluation per policy.

    `rules` are further arguments of `evaluate`.
    """
    judged = read_file(data, locate)
    numbers = read_scores(locate(scores), judged.n_rows)
    return _under(policy, metrics, lambda names, one: evaluate(numbers, judged, metrics=names, policy=one, **rules))


def evaluate_run_files(
    qrels: Path, run: Path, metrics: Sequence[str], policy: str = "trec", *, locate: Locate = itself, **rules: Any
) -> list[Evaluation]:
    """Evaluate a TREC run with TREC judgements; `rules` are further arguments of `evaluate_run`."""
    names = cast(list[str], expand_names(metrics))
    judged, ranked = read_judgements(qrels, names, locate), read_run(locate(run))
    return _under(
        policy, names, lambda part, one: evaluate_run(judged, ranked, metrics=part, policy=one, **rules), runs=True
    )


def evaluate_runs(
    qrels: Path,
    runs: Sequence[Path],
    metrics: Sequence[str],
    policy: str = "trec",
    *,
    locate: Locate = itself,
    **rules: Any,
) -> dict[str, Evaluation]:
    """Evaluate several runs with the same judgements, by the names of their files."""
    judged = read_judgements(qrels, metrics, locate)
    return {
        name: evaluate_run(judged, read_run(locate(path)), metrics=metrics, policy=policy, **rules)
        for name, path in names_of(runs).items()
    }


def read_judgements(path: Path, metrics: Sequence[str], locate: Locate = itself) -> Qrels | SubtopicQrels:
    """The judgements of a file: per subtopic if one of the metrics needs that."""
    parsed = [parse_metric(name, runs=True) for name in expand_names(metrics)]
    by_subtopic = any(metric.needs_subtopics for metric in parsed)
    return SubtopicQrels.read(locate(path)) if by_subtopic else read_qrels(locate(path))


def names_of(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by their names; those that share one are called by their whole path."""
    times = Counter(path.name for path in paths)
    names = {path.name if times[path.name] == 1 else str(path): path for path in paths}
    if len(names) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise ValueError(f"{twice} is given more than once; give each file once.")
    return names


def _under(
    policy: str, metrics: Sequence[str], work: Callable[[list[str], str], Evaluation], runs: bool = False
) -> list[Evaluation]:
    return evaluate_under_all(metrics, work, runs) if policy == "all" else [work(list(metrics), policy)]


def compare_files(data: Path, scores: Sequence[Path], *, locate: Locate = itself, **options: Any) -> Comparison:
    """Compare files of scores with the labels of a data file; `options` are those of `compare`."""
    from podium.evaluation.comparing import compare

    judged = read_file(data, locate)
    systems = {name: read_scores(locate(path), judged.n_rows) for name, path in names_of(scores).items()}
    return compare(systems, judged, **options)


def compare_run_files(qrels: Path, runs: Sequence[Path], *, locate: Locate = itself, **options: Any) -> Comparison:
    """Compare TREC runs with TREC judgements; `options` are those of `compare`."""
    from podium.evaluation.comparing import compare

    judged = read_judgements(qrels, options.get("metrics", ()), locate)
    return compare({name: read_run(locate(path)) for name, path in names_of(runs).items()}, judged, **options)


def check_files(files: Sequence[Path], *, locate: Locate = itself) -> Report:
    """Check data files; several are the splits of one experiment."""
    from podium.lint.checks import check

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # it is one of the findings
        paths = {str(path): locate(path) for path in files}
        options = locate.options if isinstance(locate, Reading) else {}
        parts = {name: read_file(path, Reading(options=options), labels="optional") for name, path in paths.items()}
    return check(parts, {} if "zero_based" in options else paths)
