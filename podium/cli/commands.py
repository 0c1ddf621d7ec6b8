"""Commands on data and models: one short function each. It parses, calls the library and prints.

Everything heavy is imported inside the commands, so that `podium --help` answers at once.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer import Argument, Option

from podium.cli.application import AsJson, DataFile, Force, ModelFile, command, output, show
from podium.cli.config import configure, with_parameters
from podium.cli.data_options import reads_data
from podium.cli.inputs import inputs


@command("convert")
@reads_data
def convert_command(
    source: DataFile,
    target: Annotated[Path, Argument(help="The file to write, its name gives the format; - for standard output.")],
    source_format: Annotated[str | None, Option("--from", help="The format of SOURCE; default: by its name.")] = None,
    target_format: Annotated[str | None, Option("--to", help="The format of TARGET; default: by its name.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Convert ranking data from one format to another."""
    from podium._runtime.files import refuse_bad_target, refuse_own_input
    from podium._runtime.warn import LossWarning
    from podium.formats import files_of, format_of, write_data
    from podium.workflows.outputs import refuse_other_data
    from podium.workflows.reading import read_file

    target, report = output(target, as_json)
    kind = format_of(target, target_format, reading=False)
    refuse_bad_target(target)
    refuse_own_input("TARGET", files_of(target, kind), files_of(source, format_of(source, source_format)))
    refuse_other_data("TARGET", target, kind, force)
    data = read_file(source, inputs.reading, format=source_format, labels="optional")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # what is lost is reported below, for all formats alike
        write_data(data, target, format=kind.name)
    lost = kind.drops(data)
    sizes = {"rows": data.n_rows, "queries": data.n_queries, "features": data.n_features}
    show(sizes | {"written": str(target), "not_kept": lost} if as_json else f"{target}: {data.sizes}", file=report)
    if lost and not as_json:
        show(f"This format has no place for {', '.join(lost)}; a .podium-data file keeps everything.", file=report)


@command("split")
def split_command(
    data: DataFile,
    out: Annotated[Path, Option(help="The new folder for the files of the parts.")],
    parts: Annotated[str | None, Option(help="Shares of the queries by name: train=0.8,valid=0.2.")] = None,
    folds: Annotated[int | None, Option(help="As LETOR has them: Fold1/train, vali and test, Fold2/...")] = None,
    seed: Annotated[int, Option(min=0, help="The random seed that draws the queries.")] = 0,
    source_format: Annotated[str | None, Option("--from", help="The format of DATA; default: by its name.")] = None,
    target_format: Annotated[str | None, Option("--to", help="The format of the parts; default: that of DATA.")] = None,
    as_json: AsJson = False,
) -> None:
    """Split ranking data into files by query. They are parts of given shares, or folds for cross-validation."""
    from podium.workflows.splitting import read_parts, split_file

    formats: dict[str, Any] = {"source_format": source_format, "target_format": target_format}
    shares = None if parts is None else read_parts(parts)
    made = split_file(data, out, shares, folds, seed=seed, locate=inputs.path_of, **formats)
    show(made.as_dict() if as_json else "\n".join(made.sentences()))


@command("models")
def models_command(
    model: Annotated[str | None, Argument(help="The model whose parameters to list.")] = None, as_json: AsJson = False
) -> None:
    """List the models, or the parameters of one. Each has its default, allowed values and meaning."""
    from podium.cli import terminal as _terminal
    from podium.models.registry import catalogue, find_model

    entries = catalogue() if model is None else [find_model(model)]
    if as_json:
        show({"models": [entry.as_dict() for entry in entries]} if model is None else entries[0].as_dict(True))
    elif model is None:
        _terminal.print_models(entries)
    else:
        _terminal.print_parameters(entries[0])


@command("train")
@reads_data
def train_command(
    model: Annotated[str, Argument(help="lambdamart, mart, ...: podium models lists them.")],
    train: Annotated[list[Path], Argument(help="Files of data, read as one; a query must be in one of them.")],
    out: Annotated[Path, Option(help="The file for the model; - for standard output.")],
    valid: Annotated[list[Path], Option(help="Data to evaluate after each tree; the first file stops early.")] = [],
    pair_file: Annotated[Path | None, Option(help="Train on pairs: lines of qid docA docB probability weight.")] = None,
    settings: Annotated[list[str], Option("--set", metavar="NAME=VALUE", help="podium models MODEL lists them.")] = [],
    early_stopping: Annotated[int | None, Option(min=1, help="Stop after so many trees without improvement.")] = None,
    jobs: Annotated[int | None, Option(help="The number of threads; no model depends on it. Default: all.")] = None,
    seed: Annotated[int | None, Option(help="The random seed, as --set random_state=.")] = None,
    checkpoint: Annotated[Path | None, Option(help="A file for checkpoints; the same command resumes from it.")] = None,
    every: Annotated[int | None, Option(min=1, help="The number of trees between two checkpoints; default 10.")] = None,
    checkpoint_errors: Annotated[str | None, Option(help="stop or warn if no checkpoint can be written.")] = None,
    scheduler: Annotated[
        str | None, Option(metavar="ADDRESS", help="Train on the workers of this Dask scheduler: tcp://10.0.0.5:8786.")
    ] = None,
    config: Annotated[
        Path | None, Option(help="A TOML file with all this; options win.", callback=configure, is_eager=True)
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train a model and write it to a file. Ctrl-C stops training, writes the trees so far and exits with 130."""
    from podium.models.registry import plan_model
    from podium.workflows import training
    from podium.workflows.outputs import refuse_other_kind

    out, report = output(out, as_json)
    refuse_other_kind("--out", out, "model", force, [*train, *valid, *([] if pair_file is None else [pair_file])])
    plan = plan_model(model, with_parameters(config, model, settings), jobs, seed)
    if early_stopping is not None and not valid and plan.parameters.get("validation_fraction") is None:
        advice = "Add --valid FILE, or --set validation_fraction=0.2"
        raise ValueError(f"--early-stopping needs validation data. {advice}.")
    checkpoints = training.plan_checkpoints(checkpoint, every, checkpoint_errors, out)
    options: dict[str, Any] = {"early_stopping_rounds": early_stopping, "checkpoints": checkpoints}
    if scheduler is None:
        trained = training.train_files(plan, train, valid, out, locate=inputs.reading, pair_file=pair_file, **options)
    else:
        from podium.workflows.distributing import train_on_workers

        if pair_file is not None:
            raise ValueError("--pair-file does not go with --scheduler: pairs name rows of one machine. Leave one out.")
        trained = train_on_workers(plan, train, valid, out, scheduler, reading=inputs.reading, **options)
    if as_json:
        show(trained.as_dict())
    else:
        show("\n".join(trained.sentences()), file=report)
        show(f"podium: trained in {trained.seconds:.1f} s", file=sys.stderr)
    raise typer.Exit(130 if trained.interrupted else 0)


@command("rank")
@reads_data
def rank_command(
    model: ModelFile,
    data: DataFile,
    out: Annotated[Path | None, Option(help="A run if it ends in .run or .trec, else scores; - for stdout.")] = None,
    format: Annotated[str | None, Option(help="scores (one per line, in the order of DATA) or trec (a run).")] = None,
    tag: Annotated[str | None, Option(help="The name in the last column of a run; default: podium.")] = None,
    top: Annotated[int | None, Option(min=1, help="Only the top K documents per query of a run.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Score every document with a saved model."""
    from podium.workflows import ranking
    from podium.workflows.outputs import refuse_other_kind
    from podium.workflows.reading import refuse_bad_out

    kind, report = ranking.ranking_format(out, format, tag, top), sys.stdout
    if out is not None:
        out, report = output(out, as_json)
        refuse_bad_out(out, [model, data])
        refuse_other_kind("--out", out, "scores" if kind == "scores" else "run", force)
    ranked = ranking.rank_file(
        model, data, format=kind, tag="podium" if tag is None else tag, top=top, locate=inputs.reading
    )
    if out is not None:
        ranked.write(out)
    if as_json:
        show(ranked.overview() | (ranked.as_dict() if out is None else {"written": str(out)}))
    elif out is None:
        sys.stdout.buffer.writelines(ranked.lines())
    else:
        show(f"{out}: {ranked.sentence()}", file=report)


@command("inspect")
def inspect_command(
    model: ModelFile,
    tree: Annotated[int | None, Option(min=1, help="Show this tree, counted from 1.")] = None,
    depth: Annotated[int | None, Option(min=0, help="With --tree and --out: draw so many levels.")] = None,
    node: Annotated[int, Option(min=0, help="With --tree and --out: draw what is below this node.")] = 0,
    importance: Annotated[str | None, Option(help="Show the importances: gain, split or cover.")] = None,
    out: Annotated[Path | None, Option(help="Draw the tree, importances or learning curves: .svg, .png.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Describe a saved model. It shows its trees or other parts, features and parameters."""
    from podium.cli.studies import Shown, refuse_bad_picture
    from podium.workflows.reading import open_model

    shown = Shown(tree, depth, node, importance)
    shown.refuse_wrong_options(out)
    refuse_bad_picture(out, [model], force)
    shown.show(open_model(model, inputs.path_of), out, as_json)


@command("explain")
@reads_data
def explain_command(
    model: ModelFile,
    data: DataFile,
    query: Annotated[str | None, Option(help="The id of the query whose ranking is explained.")] = None,
    documents: Annotated[tuple[str, str] | None, Option(help="Two documents to compare: ids, or rows from 1.")] = None,
    top: Annotated[int | None, Option(min=1, help="The top K documents of the query; default 5.")] = None,
    lambdas: Annotated[bool, Option("--lambdas", help="With --query: its pairs, with rho, |dZ| and lambda.")] = False,
    shap: Annotated[bool, Option("--shap", help="Mean |SHAP| of each feature within the queries of DATA.")] = False,
    permutation: Annotated[bool, Option("--permutation", help="The drop of the metric per shuffled feature.")] = False,
    ablation: Annotated[Path | None, Option(help="Train on this file without each feature: the drop.")] = None,
    group: Annotated[list[str], Option(metavar="NAME=F,F", help="With --ablation: left out together.")] = [],
    metric: Annotated[str | None, Option("--metric", "-m", help="Of --permutation, --ablation and --lambdas.")] = None,
    out: Annotated[Path | None, Option(help="Also draw a plot to an .svg or .png file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Explain a ranking, or what each feature is worth. Contributions of the features explain that of one query."""
    from podium.cli import studies
    from podium.cli import terminal as _terminal
    from podium.workflows.explaining import explain_file

    asked = studies.Asked(shap, permutation, ablation, group, metric, lambdas)
    studies.refuse_bad_picture(out, [path for path in (model, data, ablation) if path is not None], force)
    if asked.refuse_wrong_options(query, documents, top):
        studies.print_study(asked, model, data, out, as_json)
        return
    query = cast(str, query)
    if (documents is not None) + (top is not None) + lambdas > 1:
        raise ValueError("Give one of --documents I J, --top K and --lambdas.")
    options: dict[str, Any] = {"documents": documents, "top": top or 5}
    options["lambdas"] = (metric or "ndcg@10") if lambdas else None
    explained = explain_file(model, data, query, **options, locate=inputs.reading)
    if as_json:
        show({"query": query} | explained.as_dict() | studies.draw(explained, out))
    else:
        _terminal.print_explanation(explained)
        studies.show_written(studies.draw(explained, out))


@command("demo")
def demo_command(
    out: Annotated[Path, Option(help="The folder for the files of the demo.")] = Path("demo"), as_json: AsJson = False
) -> None:
    """Show the whole job on a small web made by code. It is indexed and searched; a re-ranker meets BM25."""
    from podium.demo.show import show_demo, take_tour

    tour = take_tour(out)
    if as_json:
        show(tour.as_dict())
    else:
        show_demo(tour)


@command("doctor")
def doctor_command(as_json: AsJson = False) -> None:
    """Report on the installation. It lists versions, processor, threads, folders, and what each extra adds."""
    from podium import doctor
    from podium.cli import terminal as _terminal

    examined = doctor.examine()
    if as_json:
        show(examined)
    else:
        _terminal.print_rows(doctor.rows(examined))
        show("".join(f"{sentence}\n" for sentence in examined["advice"]), end="")
    raise typer.Exit(1 if examined["advice"] else 0)


@command("warmup")
def warmup_command(as_json: AsJson = False) -> None:
    """Compile all kernels ahead, and say where they are kept."""
    from podium._runtime.progress import progress
    from podium.demo.warming import warm_up

    with progress("compiling kernels") as report:
        warmth = warm_up(report)
    show(warmth.as_dict() if as_json else warmth.sentence())
    raise typer.Exit(0 if warmth.is_kept else 1)
