"""Commands on data and models: one short function each. It parses, calls the library and prints.

Everything heavy is imported inside the commands, so that `podium --help` answers at once.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from podium.cli.application import AsJson, DataFile, Metrics, ModelFile, PolicyName, command, output, print_json, show
from podium.cli.inputs import inputs


@command("check")
def check_command(
    files: Annotated[list[Path], typer.Argument(help="Data files; several are splits of one experiment.")],
    as_json: AsJson = False,
) -> None:
    """Check ranking data for problems that would harm training or evaluation."""
    from podium.workflows.evaluating import check_files

    report = check_files(files, locate=inputs.path_of)
    if as_json:
        print_json(report.as_dict())
    else:
        show("\n".join(report.sentences()))
    raise typer.Exit(report.exit_code)


@command("eval")
def eval_command(
    data: Annotated[Path | None, typer.Argument(help="The labelled data (with --scores).")] = None,
    scores: Annotated[Path | None, typer.Option(help="One number per line, in the order of the data file.")] = None,
    qrels: Annotated[Path | None, typer.Option(help="TREC judgements (with --run, instead of DATA).")] = None,
    run: Annotated[Path | None, typer.Option(help="TREC run.")] = None,
    metric: Metrics = ["ndcg@10", "map"],  # noqa: B006 (typer copies it)
    policy: PolicyName = "",
    per_query: Annotated[bool, typer.Option("--per-query", help="Also one line per query.")] = False,
    bracket: Annotated[
        bool, typer.Option("--bracket", help="Also the lowest and highest value over all orders of tied documents.")
    ] = False,
    missing: Annotated[
        str, typer.Option(help="Judged queries missing from the run: skip, or zero (trec_eval -c).")
    ] = "skip",
    gain: Annotated[
        str | None, typer.Option(help="exponential (2^r - 1) or linear (r), instead of that of the policy.")
    ] = None,
    relevant: Annotated[float | None, typer.Option(help="The smallest label that counts as relevant.")] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate scores or a TREC run with the metrics of a policy."""
    from podium.cli import terminal as _terminal
    from podium.workflows import evaluating

    rules: dict[str, Any] = {"gain": gain, "relevant": relevant, "bracket": bracket, "locate": inputs.path_of}
    if (qrels is None) != (run is None) or (scores is None) == (run is None) or (data is None) != (scores is None):
        raise ValueError("Give DATA with --scores FILE, or --qrels FILE with --run FILE.")
    if data is not None and scores is not None:
        evaluations = evaluating.evaluate_files(data, scores, metric, policy or "standard", **rules)
    else:
        judged, ranked = cast(Path, qrels), cast(Path, run)
        evaluations = evaluating.evaluate_run_files(judged, ranked, metric, policy or "trec", missing=missing, **rules)
    if as_json:
        found = [evaluation.as_dict(per_query) for evaluation in evaluations]
        print_json({"policies": found} if policy == "all" else found[0])
    else:
        _terminal.print_evaluations(evaluations, metric, per_query=per_query)


@command("compare")
def compare_command(
    data: DataFile,
    scores: Annotated[
        list[Path], typer.Option(help="A scores file; two or more are needed. The first is the baseline.")
    ],
    metric: Metrics = ["ndcg@10"],  # noqa: B006 (typer copies it)
    policy: PolicyName = "standard",
    pairs: Annotated[str, typer.Option(help="baseline: each against the first; all: every pair.")] = "baseline",
    test: Annotated[str, typer.Option(help="randomisation, t or wilcoxon.")] = "randomisation",
    correction: Annotated[str, typer.Option(help="holm, bonferroni or benjamini-hochberg.")] = "holm",
    interval: Annotated[str, typer.Option(help="The method of intervals: bounded, t, studentised or bca.")] = "bounded",
    permutations: Annotated[int, typer.Option(help="Permutations of the randomisation test.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The random seed of the tests.")] = 0,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether the difference between rankings is significant."""
    from podium.workflows.evaluating import compare_files

    comparison = compare_files(
        data,
        scores,
        locate=inputs.path_of,
        metrics=metric,
        policy=policy,
        pairs=pairs,
        test=test,
        correction=correction,
        interval=interval,
        permutations=permutations,
        seed=seed,
    )
    if as_json:
        print_json(comparison.as_dict())
    elif latex:
        show(comparison.to_latex())
    else:
        from podium.cli import terminal as _terminal

        _terminal.print_comparison(comparison)


@command("convert")
def convert_command(
    source: DataFile,
    target: Annotated[
        Path, typer.Argument(help="The file to write; the format follows from its name. - for standard output.")
    ],
    source_format: Annotated[
        str | None, typer.Option("--from", help="The format of SOURCE, if its name does not tell.")
    ] = None,
    target_format: Annotated[
        str | None, typer.Option("--to", help="The format of TARGET, if its name does not tell.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert ranking data from one format to another."""
    from podium._runtime.files import refuse_bad_target, refuse_own_input
    from podium._runtime.warn import LossWarning
    from podium.formats import files_of, format_of, write_data
    from podium.workflows.reading import read_file

    target, report = output(target, as_json)
    kind = format_of(target, target_format, reading=False)
    refuse_bad_target(target)
    refuse_own_input("TARGET", files_of(target, kind), files_of(source, format_of(source, source_format)))
    data = read_file(source, inputs.path_of, format=source_format, labels="optional")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # what is lost is reported below, for all formats alike
        write_data(data, target, format=kind.name)
    lost = kind.drops(data)
    found = {"rows": data.n_rows, "queries": data.n_queries, "features": data.n_features, "written": str(target)}
    if as_json:
        print_json(found | {"not_kept": lost})
    else:
        show(f"{target}: {data.n_rows} rows, {data.n_queries} queries, {data.n_features} features", file=report)
        if lost:
            show(f"This format has no place for {', '.join(lost)}; a .podium-data file keeps everything.", file=report)


@command("models")
def models_command(
    model: Annotated[str | None, typer.Argument(help="The model whose parameters to list.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, or the parameters of one with defaults, allowed values and meaning."""
    from podium.cli import terminal as _terminal
    from podium.models.registry import catalogue, find_model

    entries = catalogue() if model is None else [find_model(model)]
    if as_json:
        print_json({"models": [entry.as_dict() for entry in entries]} if model is None else entries[0].as_dict(True))
    elif model is None:
        _terminal.print_models(entries)
    else:
        _terminal.print_parameters(entries[0])


@command("train")
def train_command(
    model: Annotated[str, typer.Argument(help="lambdamart, mart, ...: podium models lists them.")],
    train: DataFile,
    out: Annotated[Path, typer.Option(help="The file for the model; - for standard output.")],
    valid: Annotated[
        list[Path],
        typer.Option(help="Validation data, evaluated after each tree; the first file is used for early stopping."),
    ] = [],  # noqa: B006 (typer copies it)
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter: podium models MODEL lists them.")
    ] = [],  # noqa: B006 (typer copies it)
    early_stopping: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="early_stopping_rounds: stop after this many trees without improvement.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="n_jobs: the number of threads; default: all cores. The model does not depend on it."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The random seed, as --set random_state=.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write checkpoints to this file; the same command then resumes from it.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=1, help="The number of trees between two checkpoints; default 10.")
    ] = None,
    checkpoint_errors: Annotated[
        str | None, typer.Option(help="stop (the default) or warn if a checkpoint cannot be written.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model and write it to a file. Ctrl-C stops training, writes the trees so far and exits with 130."""
    from podium.models.registry import plan_model
    from podium.workflows import training

    if early_stopping is not None and not valid:
        raise ValueError("--early-stopping needs validation data. Add --valid FILE.")
    out, report = output(out, as_json)
    plan = plan_model(model, settings, jobs, seed)
    trained = training.train_files(
        plan,
        train,
        valid,
        out,
        early_stopping_rounds=early_stopping,
        checkpoints=training.plan_checkpoints(checkpoint, every, checkpoint_errors, out),
        locate=inputs.path_of,
    )
    if as_json:
        print_json(trained.as_dict())
    else:
        show("\n".join(trained.sentences()), file=report)
        show(f"podium: trained in {trained.seconds:.1f} s", file=sys.stderr)
    raise typer.Exit(130 if trained.interrupted else 0)


@command("rank")
def rank_command(
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write: a TREC run if it ends in .run or .trec, else scores. - for standard output."
        ),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="scores (one number per line, in the order of DATA) or trec (a run).")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The name in the last column of a run; default: podium.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only the top K documents per query of a run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score every document with a saved model."""
    from podium.workflows import ranking
    from podium.workflows.reading import refuse_bad_out

    kind, report = ranking.ranking_format(out, format, tag, top), sys.stdout
    if out is not None:
        out, report = output(out, as_json)
        refuse_bad_out(out, [model, data])
    ranked = ranking.rank_file(
        model, data, format=kind, tag="podium" if tag is None else tag, top=top, locate=inputs.path_of
    )
    if out is not None:
        ranked.write(out)
    if as_json:
        print_json(ranked.overview() | (ranked.as_dict() if out is None else {"written": str(out)}))
    elif out is None:
        sys.stdout.buffer.writelines(ranked.lines())
    else:
        show(f"{out}: {ranked.sentence()}", file=report)


@command("inspect")
def inspect_command(
    model: ModelFile,
    tree: Annotated[int | None, typer.Option(min=1, help="Show this tree, counted from 1.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Draw the tree, or without --tree the learning curves, to an .svg or .png file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a saved model: its trees or other parts, features, parameters."""
    from podium.explain import drawings
    from podium.models.frame import inspection
    from podium.persistence.saving import load
    from podium.workflows.reading import refuse_bad_out

    if out is not None:
        drawings.refuse_other_suffixes(out)
        refuse_bad_out(out, [model])
    ranker = load(inputs.path_of(model))
    if tree is not None and not hasattr(ranker, "forest_"):
        raise ValueError(f"--tree {tree}: {type(ranker).__name__} has no trees. Leave --tree out.")
    found = ranker.inspect()
    text = str(found) if tree is None else inspection.tree_text(ranker, tree)
    if out is not None and tree is not None:
        drawings.draw_tree(ranker, tree, out)
    elif out is not None:
        drawings.draw_curves(ranker, out)
    written = {} if out is None else {"written": str(out)}
    if as_json:
        print_json(found.as_dict() | ({} if tree is None else {"tree": tree, "text": text}) | written)
    else:
        show("\n".join([text, *(f"{out}: written" for out in written.values())]))


@command("explain")
def explain_command(
    model: ModelFile,
    data: DataFile,
    query: Annotated[str | None, typer.Option(help="The id of the query whose ranking is explained.")] = None,
    documents: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Two documents to compare: their ids, or row numbers in DATA, from 1, if it has no ids."),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="The top K documents of the query; default 5.")] = None,
    shap: Annotated[
        bool, typer.Option("--shap", help="Mean |SHAP| of each feature within the queries of DATA.")
    ] = False,
    permutation: Annotated[
        bool, typer.Option("--permutation", help="How much the metric drops when each feature is shuffled.")
    ] = False,
    ablation: Annotated[
        Path | None, typer.Option(help="Train again on this file without each feature; how much the metric drops.")
    ] = None,
    group: Annotated[
        list[str], typer.Option(metavar="NAME=F,F", help="With --ablation: features that are left out together.")
    ] = [],  # noqa: B006 (typer copies it)
    metric: Annotated[str | None, typer.Option("--metric", "-m", help="Of --permutation and --ablation.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also draw a plot to an .svg or .png file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain the ranking of a query by the contributions of the features, or what each feature is worth over all."""
    from podium.cli import studies
    from podium.cli import terminal as _terminal
    from podium.explain import drawings
    from podium.workflows.explaining import explain_file
    from podium.workflows.reading import refuse_bad_out

    asked = studies.Asked(shap, permutation, ablation, group, metric)
    if asked.refuse_wrong_options(query, documents, top):
        studies.print_study(asked, model, data, out, as_json)
        return
    query = cast(str, query)
    if documents is not None and top is not None:
        raise ValueError("Give --documents I J or --top K, not both.")
    if out is not None:
        drawings.refuse_other_suffixes(out)
        refuse_bad_out(out, [model, data])
    given: dict[str, Any] = {"documents": documents, "top": top or 5, "locate": inputs.path_of}
    found = explain_file(model, data, query, **given)
    if out is not None:
        found.picture(out)
    if as_json:
        print_json({"query": query} | found.as_dict() | ({} if out is None else {"written": str(out)}))
    else:
        _terminal.print_explanation(found)
        if out is not None:
            show(f"{out}: written")


@command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="The folder for the files of the demo.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Index a small web made by code, search it, train a re-ranker and compare it with BM25."""
    from podium.demo.show import show_demo, take_tour

    tour = take_tour(out)
    if as_json:
        print_json(tour.as_dict())
    else:
        show_demo(tour)


@command("doctor")
def doctor_command(as_json: AsJson = False) -> None:
    """Report versions, processor, threads, folders, and what each extra adds."""
    from podium import doctor
    from podium.cli import terminal as _terminal

    found = doctor.examine()
    if as_json:
        print_json(found)
    else:
        _terminal.print_rows(doctor.rows(found))
        for sentence in found["advice"]:
            show(sentence)
    raise typer.Exit(1 if found["advice"] else 0)
