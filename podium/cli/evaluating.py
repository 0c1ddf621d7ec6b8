"""Commands that check data, and evaluate and compare rankings: scores of data files, and runs of any engine.

Each parses, calls the library and prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from podium.cli.application import AsJson, Force, Metrics, PolicyName, command, show
from podium.cli.data_options import reads_data
from podium.cli.inputs import inputs, paths
from podium.cli.studies import Curves, refuse_bad_picture, show_written

Qrels = Annotated[Path | None, Option(help="TREC judgements, for --run.")]
Runs = Annotated[list[Path], Option(help="A TREC run; several are shown side by side.")]
Missing = Annotated[str, Option(help="Judged queries missing from the run: skip, or zero (trec_eval -c).")]
_EVAL_METRICS = ["ndcg@10", "map"]


@command("check")
@reads_data
def check_command(
    files: Annotated[list[Path], Argument(help="Data files; several are splits of one experiment.")],
    as_json: AsJson = False,
) -> None:
    """Check ranking data for problems. Those are reported that would harm training or evaluation."""
    from podium.workflows.evaluating import check_files

    report = check_files(files, locate=inputs.reading)
    show(report.as_dict() if as_json else "\n".join(report.sentences()))
    raise typer.Exit(report.exit_code)


@command("eval")
@reads_data
def eval_command(
    files: Annotated[
        list[Path] | None, Argument(help="QRELS and a RUN or more; or DATA, labelled, with --scores.")
    ] = None,
    scores: Annotated[Path | None, Option(help="One number per line, in the order of the data file.")] = None,
    qrels: Qrels = None,
    run: Runs = [],
    metric: Metrics = [],
    policy: PolicyName = "",
    format: Annotated[str, Option(help="table, or trec: the lines that trec_eval prints.")] = "table",
    per_query: Annotated[bool, Option("--per-query", "-q", help="Also one line per query.")] = False,
    bracket: Annotated[bool, Option("--bracket", help="Also the worst and the best order of tied documents.")] = False,
    missing: Missing = "skip",
    complete: Annotated[bool, Option("-c", help="As --missing zero.")] = False,
    depth: Annotated[int | None, Option("--depth", "-M", help="Only the first documents of a run, per query.")] = None,
    gain: Annotated[str | None, Option(help="exponential (2^r - 1) or linear (r); default: the policy's.")] = None,
    relevant: Annotated[
        float | None, Option("--relevant", "-l", help="The smallest label that counts as relevant.")
    ] = None,
    out: Annotated[Path | None, Option(help="Also draw the first metric at k = 1 to 20: an .svg or .png file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate scores or TREC runs. The metrics are those of a policy; -m official and -m all_trec are trec_eval's."""
    from podium.cli import terminal as _terminal
    from podium.workflows import evaluating

    rules: dict[str, Any] = {"gain": gain, "relevant": relevant, "bracket": bracket, "locate": inputs.reading}
    names = metric or _EVAL_METRICS
    curves = Curves(out, names)
    curves.refuse_wrong_options(
        [*(files or []), *(path for path in (scores, qrels, *run) if path)], policy, format, force
    )
    asked = curves.names_asked()
    if scores is not None:
        if len(files or []) != 1 or qrels is not None or run or format != "table":
            raise ValueError("Give DATA with --scores FILE, or QRELS RUN... without --scores.")
        evaluations = evaluating.evaluate_files(files[0], scores, asked, policy or "standard", **rules)  # type: ignore[index]
        return _show_policies(curves.drawn_of(scores, evaluations), curves, policy, per_query, as_json)
    judged, runs = _qrels_and_runs(files or [], qrels, run)
    rules |= {"missing": "zero" if complete else missing, "depth": depth}
    if format == "trec":
        return _show_trec(judged, runs, metric, policy, per_query, as_json, rules)
    if format != "table":
        raise ValueError(f"--format must be table or trec; got {format!r}.")
    if len(runs) == 1:
        evaluations = evaluating.evaluate_run_files(judged, runs[0], asked, policy or "trec", **rules)
        return _show_policies(curves.drawn_of(runs[0], evaluations), curves, policy, per_query, as_json)
    if policy == "all":
        raise ValueError("--policy all shows one run under all policies; give one run, or one policy.")
    results = curves.drawn(evaluating.evaluate_runs(judged, runs, asked, policy or "trec", **rules))
    if as_json:
        show({"runs": {name: result.as_dict(per_query) for name, result in results.items()}} | paths(written=out))
    else:
        _terminal.print_runs(results, per_query=per_query)
        show_written(paths(written=out))


def _qrels_and_runs(files: list[Path], qrels: Path | None, runs: list[Path]) -> tuple[Path, list[Path]]:
    """The judgements and the runs, from arguments or options."""
    if qrels is None and len(files) >= 2 and not runs:
        return files[0], files[1:]
    if qrels is not None and (files or runs) and not (files and runs):
        return qrels, [*files, *runs]
    raise ValueError("Give DATA with --scores FILE, or QRELS RUN..., or --qrels FILE with --run FILE.")


def _show_policies(evaluations: list[Any], curves: Curves, policy: str, per_query: bool, as_json: bool) -> None:
    """One set of scores, or one run, under one policy or all."""
    from podium.cli import terminal as _terminal

    written = paths(written=curves.out)
    if as_json:
        policies = [evaluation.as_dict(per_query) for evaluation in evaluations]
        show({"policies": policies} if policy == "all" else policies[0] | written)
    else:
        _terminal.print_evaluations(evaluations, per_query=per_query)
        show_written(written)


def _show_trec(
    qrels: Path, runs: list[Path], metric: list[str], policy: str, per_query: bool, as_json: bool, rules: dict[str, Any]
) -> None:
    """The lines of trec_eval, one run after the other."""
    from podium.evaluation.trec_lines import trec_lines
    from podium.metrics.measures.spelling import expand_names
    from podium.workflows.evaluating import evaluate_runs

    if as_json or rules["bracket"] or policy not in ("", "trec"):
        raise ValueError(
            "--format trec prints trec_eval's lines, by the policy trec; leave --json, --bracket and --policy out."
        )
    names: Any = expand_names(metric or ["official"], families=True)
    for result in evaluate_runs(qrels, runs, names, **rules).values():
        show("\n".join(trec_lines(result, per_query)))


@command("compare")
@reads_data
def compare_command(
    data: Annotated[Path | None, Argument(help="The labelled data, with --scores.")] = None,
    scores: Annotated[
        list[Path], Option(help="A scores file; two or more are needed. The first is the baseline.")
    ] = [],
    qrels: Qrels = None,
    run: Annotated[list[Path], Option(help="A TREC run; two or more are needed. The first is the baseline.")] = [],
    metric: Metrics = ["ndcg@10"],
    policy: PolicyName = "",
    pairs: Annotated[str, Option(help="baseline: each against the first; all: every pair.")] = "baseline",
    test: Annotated[str, Option(help="randomisation, t or wilcoxon.")] = "randomisation",
    correction: Annotated[str, Option(help="holm, bonferroni or benjamini-hochberg.")] = "holm",
    interval: Annotated[str, Option(help="The method of intervals: bounded, t, studentised or bca.")] = "bounded",
    permutations: Annotated[int, Option(help="Permutations of the randomisation test.")] = 100_000,
    seed: Annotated[int, Option(help="The random seed of the tests.")] = 0,
    missing: Missing = "skip",
    per_query: Annotated[bool, Option("--per-query", "-q", help="Also the values of each query.")] = False,
    latex: Annotated[bool, Option("--latex", help="Print a LaTeX table.")] = False,
    csv: Annotated[bool, Option("--csv", help="Print CSV; with --per-query, the values of each query.")] = False,
    out: Annotated[Path | None, Option(help="Also draw the differences per query: an .svg or .png file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Test whether rankings differ significantly. They are scores of DATA, or runs; the first one is the baseline."""
    from podium.cli import terminal as _terminal
    from podium.workflows.evaluating import compare_files, compare_run_files

    options: dict[str, Any] = {"metrics": metric, "pairs": pairs, "test": test, "seed": seed}
    options |= {"correction": correction, "interval": interval, "permutations": permutations}
    refuse_bad_picture(out, [path for path in (data, qrels, *scores, *run) if path is not None], force)
    if data is not None and scores and qrels is None and not run:
        comparison = compare_files(data, scores, locate=inputs.reading, policy=policy or "standard", **options)
    elif qrels is not None and run and data is None and not scores:
        options["missing"] = missing
        comparison = compare_run_files(qrels, run, locate=inputs.reading, policy=policy or "trec", **options)
    else:
        raise ValueError("Give DATA with --scores A --scores B, or --qrels FILE with --run A --run B.")
    written = _draw_differences(comparison, out)
    if csv:
        show(comparison.queries_csv() if per_query else comparison.to_csv(), end="")
    elif as_json or latex:
        show(comparison.as_dict(per_query) | written if as_json else comparison.to_latex())
    else:
        _terminal.print_comparison(comparison, per_query=per_query)
        show_written(written)


def _draw_differences(comparison: Any, out: Path | None) -> dict[str, str]:
    if out is not None:
        from podium.explain.drawings import draw_differences

        draw_differences(comparison, out)
    return paths(written=out)
