"""Commands that choose and judge models: `podium tune`, `cross-validate` and `auto`."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

from typer import Argument, Option

from podium._runtime.files import plain_suffix
from podium.cli.application import AsJson, DataFile, Force, Metrics, command, output, show
from podium.cli.data_options import reads_data
from podium.cli.inputs import inputs, paths

Settings = Annotated[list[str], Option("--set", metavar="NAME=VALUE", help="A parameter that all trials share.")]
Jobs = Annotated[int | None, Option(help="n_jobs: the number of threads; default: all cores.")]
Criterion = Annotated[str, Option(help="What is maximised: a metric, or a sum such as map+meanndcg.")]
CriterionPolicy = Annotated[str, Option(help="Details of the metric: standard, letor4, trec, lightgbm, ...")]


@command("tune")
@reads_data
def tune_command(
    model: Annotated[str, Argument(help="lambdamart, linear, ...: podium models lists them.")],
    train: DataFile,
    valid: Annotated[Path, Option(help="Validation data: what the trials are judged by.")],
    out: Annotated[Path, Option(help="The file for the best model; - for standard output.")],
    trials: Annotated[int, Option(min=1, help="The number of settings to try.")] = 20,
    space: Annotated[list[str], Option(metavar="NAME=VALUES", help="low:high, low:high:log or a,b,c.")] = [],
    settings: Settings = [],
    metric: Criterion = "ndcg@10",
    policy: CriterionPolicy = "standard",
    seconds: Annotated[float | None, Option(help="No trial begins after this time.")] = None,
    sampler: Annotated[str, Option(help="optuna, random, or auto: optuna if it is installed.")] = "auto",
    seed: Annotated[int, Option(min=0, help="The random seed of the search.")] = 0,
    jobs: Jobs = None,
    history: Annotated[Path | None, Option(help="Write all trials to this .json or .csv file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Choose the settings of a model on validation data. The best model is written."""
    from podium.cli import terminal as _terminal
    from podium.models.registry import plan_model
    from podium.workflows.choosing import refuse_bad_history, tune_files
    from podium.workflows.outputs import refuse_other_kind

    out, report = output(out, as_json)
    refuse_other_kind("--out", out, "model", force, [train, valid])
    if history is not None:
        refuse_bad_history(history, [train, valid, out])
        refuse_other_kind("--history", history, f"trials{plain_suffix(history)}", force)
    options: dict[str, Any] = {"metric": metric, "policy": policy, "trials": trials, "seconds": seconds}
    options |= {"sampler": sampler, "random_state": seed, "history": history, "locate": inputs.reading}
    tuned = tune_files(plan_model(model, settings, jobs), space, train, valid, out, **options)
    if as_json:
        show(tuned.as_dict() | paths(written=out, history=history))
        return
    _terminal.print_tuned(tuned, report)
    show(f"{out}: written", file=report)
    show(f"podium: tuned in {tuned.seconds:.1f} s", file=sys.stderr)


@command("cross-validate")
@reads_data
def cross_validate_command(
    model: Annotated[str, Argument(help="lambdamart, linear, ...: podium models lists them.")],
    data: DataFile,
    folds: Annotated[int, Option(min=2, help="The number of parts that the queries are divided into.")] = 5,
    metric: Metrics = ["ndcg@10", "map"],
    policy: CriterionPolicy = "standard",
    settings: Settings = [],
    seed: Annotated[int, Option(min=0, help="The random seed of the division into folds.")] = 0,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Judge a model by cross-validation. Each query is scored by a model that was trained on others."""
    from podium.cli import terminal as _terminal
    from podium.models.registry import plan_model
    from podium.workflows.choosing import cross_validate_file

    options: dict[str, Any] = {"folds": folds, "metrics": metric, "policy": policy, "random_state": seed}
    validated = cross_validate_file(plan_model(model, settings, jobs), data, locate=inputs.reading, **options)
    if as_json:
        show(validated.as_dict())
    else:
        _terminal.print_folds(validated, metric)


@command("auto")
@reads_data
def auto_command(
    train: DataFile,
    out: Annotated[Path, Option(help="The file for the model; - for standard output.")],
    valid: Annotated[Path | None, Option(help="More data for the choice. Never test data.")] = None,
    budget: Annotated[float, Option(help="Seconds of choosing and training, without compiling on first use.")] = 600.0,
    metric: Criterion = "ndcg@10",
    policy: CriterionPolicy = "standard",
    refit: Annotated[str, Option(help="Final training: train, or all, with the rows of --valid too.")] = "train",
    settings: Settings = [],
    seed: Annotated[int | None, Option(help="The random seed.")] = None,
    jobs: Jobs = None,
    page: Annotated[Path | None, Option(help="Write a page about the choice to this .html or .md file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train the best blend of linear models, trees and nets. It is chosen by cross-validation."""
    from podium.cli import terminal as _terminal
    from podium.models.registry import plan_model
    from podium.workflows.choosing import auto_files
    from podium.workflows.outputs import refuse_other_kind

    out, report = output(out, as_json)
    sources = [train] if valid is None else [train, valid]
    refuse_other_kind("--out", out, "model", force, sources)
    if page is not None:
        kind = "page" if page.suffix.lower() == ".html" else "notes"
        refuse_other_kind("--page", page, kind, force, [*sources, out])
    settings = [f"budget={budget}", f"criterion={metric}", f"policy={policy}", f"refit={refit}", *settings]
    started = perf_counter()
    chosen = auto_files(plan_model("autoranker", settings, jobs, seed), train, valid, out, page, inputs.reading)
    seconds = perf_counter() - started
    if as_json:
        content = {"plan": chosen.plan_, "tried": chosen.tried_, "why": chosen.why(), "seconds": seconds}
        content |= {"left_out": chosen.left_out(), "timing": chosen.timing_}
        show(content | paths(written=out, page=page))
        return
    _terminal.print_auto(chosen, report)
    show("\n".join(f"{path}: written" for path in (out, page) if path is not None), file=report)
    show(f"podium: chosen and trained in {seconds:.1f} s", file=sys.stderr)
