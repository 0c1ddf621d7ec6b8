"""Evaluating and comparing files of scores and TREC runs, and checking data files."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium._runtime.warn import LossWarning
from podium.evaluation.evaluating import Evaluation, evaluate, evaluate_run, evaluate_under_all
from podium.formats.scores import read_scores
from podium.formats.trec import read_qrels, read_run
from podium.workflows.reading import Locate, Reading, itself, read_file

if TYPE_CHECKING:
    from podium.evaluation.comparison import Comparison
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
    judged, ranked = read_qrels(locate(qrels)), read_run(locate(run))
    return _under(policy, metrics, lambda names, one: evaluate_run(judged, ranked, metrics=names, policy=one, **rules))


def _under(policy: str, metrics: Sequence[str], work: Callable[[list[str], str], Evaluation]) -> list[Evaluation]:
    return evaluate_under_all(metrics, work) if policy == "all" else [work(list(metrics), policy)]


def compare_files(data: Path, scores: Sequence[Path], *, locate: Locate = itself, **options: Any) -> Comparison:
    """Compare files of scores with the labels of a data file; `options` are those of `compare`."""
    from podium.evaluation.comparing import compare

    judged = read_file(data, locate)
    times = Counter(path.name for path in scores)  # files that share a name are called by their whole path
    names = {path: path.name if times[path.name] == 1 else str(path) for path in scores}
    return compare({name: read_scores(locate(path), judged.n_rows) for path, name in names.items()}, judged, **options)


def check_files(files: Sequence[Path], *, locate: Locate = itself) -> Report:
    """Check data files; several are the splits of one experiment."""
    from podium.lint.checks import check

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # it is one of the findings
        paths = {str(path): locate(path) for path in files}
        options = locate.options if isinstance(locate, Reading) else {}
        parts = {name: read_file(path, Reading(options=options), labels="optional") for name, path in paths.items()}
    return check(parts, {} if "zero_based" in options else paths)
