"""From files: what `podium tune`, `cross-validate` and `auto` do between the command line and the library."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium._runtime.files import plain_suffix, refuse_bad_target, refuse_own_input, write_whole
from podium._runtime.progress import progress
from podium._runtime.words import check_choice
from podium.data.ranking import RankingData
from podium.lab.tuning.spaces import read_space
from podium.lab.tuning.tuning import Tuned, plain_value, tune
from podium.models.registry import Plan
from podium.pipelines.auto.autoranker import AutoRanker
from podium.pipelines.auto.cross_validation import CrossValidation, cross_validate
from podium.pipelines.auto.page import refuse_bad_page, write_page
from podium.workflows.reading import Columns, Locate, itself, read_file, refuse_bad_out, warn_if_trained_on

HISTORY_FORMATS = (".json", ".csv")


def tune_files(
    plan: Plan,
    space: list[str],
    train_file: Path,
    valid_file: Path,
    out: Path,
    *,
    history: Path | None = None,
    locate: Locate = itself,
    **options: Any,
) -> Tuned:
    """Tune on two files, and write the best model and, if asked for, all trials. `options` are those of `tune`."""
    refuse_bad_out(out, [train_file, valid_file], model=True)
    if history is not None:
        refuse_bad_history(history, [train_file, valid_file, out])
    parsed = read_space(plan.model, space) if space else None
    train, valid = _read_both(train_file, valid_file, locate)
    with progress(f"tuning {type(plan.model).__name__}") as report:
        tuned = tune(plan.model, parsed, train, valid, report=report, **options)
    tuned.model.save(out)
    if history is not None:
        write_history(tuned, history)
    return tuned


def refuse_bad_history(history: Path, others: Sequence[Path]) -> None:
    check_choice("--history: the suffix", plain_suffix(history), HISTORY_FORMATS)
    refuse_bad_target(history)
    refuse_own_input("--history", [history], others)


def auto_files(
    plan: Plan, train_file: Path, valid_file: Path | None, out: Path, page: Path | None, locate: Locate = itself
) -> AutoRanker:
    """Choose and train a blend on one file, or on two of which the second takes part in the choice."""
    sources = [train_file] if valid_file is None else [train_file, valid_file]
    refuse_bad_out(out, sources, model=True)
    if page is not None:
        refuse_bad_page(page)
        refuse_own_input("--page", [page], [*sources, out])
    model = plan.model
    if not isinstance(model, AutoRanker):
        raise ValueError(f"podium auto trains an AutoRanker; got {type(model).__name__}.")
    train, valid = _read_both(train_file, valid_file, locate)
    with progress("choosing a model") as report:
        model.watch(report)
        model.fit(train, eval_set=valid)
    model.save(out)
    if page is not None:
        write_page(model, page)
    return model


def cross_validate_file(plan: Plan, data_file: Path, *, locate: Locate = itself, **options: Any) -> CrossValidation:
    """Cross-validate a model on one file; `options` are those of `cross_validate`."""
    data = read_file(data_file, locate)
    with progress(f"cross-validating {type(plan.model).__name__}"):
        return cross_validate(plan.model, data, n_jobs=plan.model.n_jobs, **options)


def _read_both(train_file: Path, valid_file: Path | None, locate: Locate) -> tuple[RankingData, Any]:
    """Training data, and validation data with the same columns, or None."""
    train = read_file(train_file, locate)
    if valid_file is None:
        return train, None
    columns = Columns.of_data(train, train_file)
    valid = columns.give(read_file(valid_file, locate, columns.categories or ()), valid_file)
    warn_if_trained_on(valid, valid_file, train, train_file)
    return train, valid


def write_history(tuned: Tuned, path: Path) -> None:
    """All trials: JSON as `--json` prints it, or CSV with one line per trial and one column per setting."""
    with write_whole(path) as file:
        if plain_suffix(path) == ".json":
            file.write(json.dumps(tuned.as_dict(), indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        else:
            file.write(_history_csv(tuned).encode())


def _history_csv(tuned: Tuned) -> str:
    settings = list(tuned.trials[0].settings)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", *settings, "value", "step", "seconds", "note"])
    for number, trial in enumerate(tuned.trials, 1):
        values = [json.dumps(v) if isinstance(v, list) else plain_value(v) for v in trial.settings.values()]
        writer.writerow([number, *values, trial.value, trial.step, f"{trial.seconds:.3f}", trial.note])
    return text.getvalue()
