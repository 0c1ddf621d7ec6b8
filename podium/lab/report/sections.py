"""The first sections of a report: which model is best, how sure that is, and what was published."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from podium._runtime.words import counted
from podium.evaluation.comparison import INTERVAL_WORDS
from podium.evaluation.intervals import TOO_FEW_VALUES
from podium.lab.experiments.results import Results
from podium.lab.report import charts
from podium.lab.report.charts import Curve
from podium.lab.report.leaderboard import Beside, published_beside
from podium.lab.report.page import Block, Section, figure, folded, paragraph, side_by_side
from podium.lab.report.statistics import Leaderboard, Row, decimals_of, gather, shortened
from podium.lab.report.tables import NOTHING, Cell, Column, Rows, Value, interval, number, table
from podium.metrics.policies import POLICIES

_SHOWN_INTERVALS = 40  # models in a chart
_NAMED = 4  # models in a caption
_BESIDE = 4  # metrics of a leaderboard that leaves room for a chart
_NARROW = 5  # columns
_FOLDS = "Folds and seeds"


def shown_metric(metric: str) -> str:
    """As the literature writes it: ndcg@10 -> NDCG@10; names of more than four letters stay."""
    if metric == "meanndcg":
        return "MeanNDCG"
    return re.sub(r"^[a-z]{1,4}(?![A-Za-z_])", lambda letters: letters[0].upper(), metric)


def lead(results: Results, board: Leaderboard) -> str:
    """The result in two sentences."""
    best, tied, others = board.best, len(board.leaders) - 1, len(board.rows) - 1
    decimals = board.decimals
    sentence = f"The best model is {best.model}: {shown_metric(board.metric)} {number(best.mean, decimals)}"
    if math.isfinite(best.interval[0]):
        sentence += f" (95% interval {interval(best.interval, decimals)})"
    elif _absent(best) != NOTHING:
        sentence += f" ({_absent(best)} for an interval)"
    sentence += f", under the policy {board.policy}."
    if not others:
        return sentence
    apart = (
        f"{tied} of the {others} others do not differ significantly from it"
        if tied
        else "It differs from every other model"
    )
    if others == 1:
        apart = "The other one does not differ significantly from it" if tied else "It differs from the other one"
    return f"{sentence} {apart} (randomisation test, p < 0.05 after Holm's correction)."


def evidence(results: Results) -> Section:
    """What values of the test parts can show: how often they were judged, and what was chosen by looking at them."""
    blocks = [paragraph(sentence) for sentence in limits_of(results.about)]
    if results.looks:
        blocks.append(_looks(results))
    if results.unrecorded:
        blocks.append(paragraph(unrecorded_looks(results.unrecorded)))
    if len(results.about.get("protocols", [])) > 1:
        blocks.append(_protocols(results))
    return Section("evidence", "What was seen of the test parts", blocks)


def limits_of(about: Mapping[str, Any]) -> list[str]:
    """Sentences about how far values of this data can be trusted."""
    limits = []
    if about.get("development"):
        limits.append(
            f"This data is a development set: {about['development']}. Differences between models are estimates for "
            "data like this, not a test; confirm a choice on data that nobody has looked at."
        )
    if about.get("turns"):
        limits.append(
            "The parts turn: the validation part of a fold is the test part of another one. What is chosen within each "
            "fold has not seen its test part. What is the same in all folds, such as a grid, a constant or a number of "
            "trees, was chosen with every query in view if it was chosen by validation values of several folds."
        )
    return limits


def unrecorded_looks(runs: int) -> str:
    """That the number of looks is too small."""
    there = counted(runs, "run was", "runs were")
    return f"{there} judged without a line in looks.jsonl: there were more looks than are counted."


def _looks(results: Results) -> Block:
    rows: Rows = []
    for fold in results.about["folds"]:
        looks = [look for look in results.looks if look.fold == fold]
        stored = len([run for run in results.runs if run.fold == fold])
        if looks:
            rows.append([_fold_name(fold), len(looks), stored, looks[0].time, looks[-1].time])
    columns = [Column("fold"), Column("looks", 0), Column("runs kept", 0), Column("first"), Column("last")]
    caption = (
        "How often scores were judged by the labels of each test part, counted before the values were known. More "
        "looks than runs: some were repeated. A pick copies the values of its member, without a look of its own."
    )
    return table("looks", caption, columns, rows)


def _protocols(results: Results) -> Block:
    rows: Rows = [
        [protocol["number"], protocol["started"], protocol["digest"], ", ".join(protocol["rows"]) or NOTHING]
        for protocol in results.about["protocols"]
    ]
    columns = [Column("protocol", 0), Column("started"), Column("digest"), Column("rows that began with it", wide=True)]
    caption = (
        "The experiment was changed while its results were there. A model whose settings changed is a new row, such as "
        "“Linear (2)”; the row before it stays, with its runs and its looks."
    )
    return table("protocols", caption, columns, rows)


def facts(results: Results, board: Leaderboard) -> dict[str, str]:
    """Numbers of the whole experiment, by what they are of."""
    part = "validation" if results.about.get("on") == "valid" else "test"
    folds, seeds = ({getattr(run, what) for run in results.runs} for what in ("fold", "seed"))
    counts = [
        counted(len(board.rows), "model"),
        counted(len(board.values.keys), f"{part} query", f"{part} queries"),
        *([f"{len(folds)} folds"] if len(folds) > 1 else []),
        *([f"{len(seeds)} seeds per model"] if len(seeds) > 1 else []),
        counted(len(results.runs), "run"),
    ]
    if results.looks:
        counts.append(counted(len(results.looks), "look at the test parts", "looks at the test parts"))
    best = {f"{shown_metric(board.metric)} of the best model": number(board.best.mean, board.decimals)}
    return best | {what: count for count, what in (words.split(" ", 1) for words in counts)}


def leaderboards(results: Results, boards: Sequence[Leaderboard]) -> Section:
    whole, picture = _leaderboard(results, boards[0]), _interval_chart(boards[0])
    few = len(results.about["metrics"]) <= _BESIDE
    blocks = [side_by_side([whole, picture])] if few else [whole, picture]
    blocks += [
        folded(f"Policy {board.policy}: the same rankings, measured by other rules", _leaderboard(results, board))
        for board in boards[1:]
    ]
    return Section("leaderboard", "Leaderboard", blocks)


def _leaderboard(results: Results, board: Leaderboard) -> Block:
    first, *others = results.about["metrics"]
    decimals = {first: board.decimals} | {name: decimals_of(gather(results, board.policy, name)) for name in others}
    columns = [Column("model"), Column("rank", 0), Column(shown_metric(first), decimals[first])]
    columns += [Column("95% interval", 4), Column("group")]
    columns += [Column(shown_metric(metric), decimals[metric]) for metric in others]
    leaders = {metric: results.ranked(board.policy, metric)[0] for metric in [first, *others]}
    best = {metric: results.mean(leader, board.policy, metric) for metric, leader in leaders.items()}
    rows: Rows = []
    for row in board.rows:
        means = {metric: results.mean(row.model, board.policy, metric) for metric in others}
        marked = [_marked(mean, best[metric], decimals[metric]) for metric, mean in means.items()]
        rows.append([*_row(row, best[first], decimals[first]), *marked])
    return table(f"leaderboard-{board.policy}", _leaderboard_caption(results, board), columns, rows)


def _leaderboard_caption(results: Results, board: Leaderboard) -> str:
    parts = [f"Policy {board.policy}. Mean over folds of the mean over seeds; {INTERVAL_WORDS['bounded']}."]
    if len(board.rows) > 1:
        parts.append(
            "Models that share a letter under “group” (a-d: a to d) do not differ significantly (randomisation test, "
            f"p < 0.05 after Holm's correction for {counted(board.pairs, 'pair')}). The best value of a column is "
            "marked."
        )
    whole = len(results.about["folds"])
    partial = [row.model for row in board.rows if row.folds < whole]
    if partial:
        named = ", ".join(partial) if len(partial) <= _NAMED else f"{len(partial)} of {len(board.rows)} models"
        parts.append(f"Not all of the {whole} folds have finished for {named}.")
    return " ".join(parts)


def _row(row: Row, best: float, decimals: int) -> list[Value | Cell]:
    ends, groups = interval(row.interval, decimals, absent=_absent(row)), shortened(row.groups)
    return [row.model, row.rank, _marked(row.mean, best, decimals), Cell(ends, "quiet"), Cell(groups, "plain")]


def _absent(row: Row) -> str:
    """What is shown where a mean has no interval: why, or a dash where it is no mean over queries."""
    return TOO_FEW_VALUES if row.is_mean else NOTHING


def _marked(value: float, best: float, decimals: int) -> Value | Cell:
    """The best value, and all that look the same."""
    return Cell(value, "best") if round(value, decimals) == round(best, decimals) else value


def _interval_chart(board: Leaderboard) -> Block:
    shown = board.rows[:_SHOWN_INTERVALS]
    leaders = len([row for row in shown if row.model in board.leaders])
    tied = f" and the {leaders - 1} that do not differ significantly from it" if leaders > 1 else ""
    metric = shown_metric(board.metric)
    label, axis = f"{metric} of each model with its interval", f"{metric} ({board.policy})"
    picture = charts.intervals("intervals", label, shown, board.leaders, axis)
    caption = (
        f"Mean {metric} and its 95% interval. Filled dots: the best model{tied}. Intervals of two "
        "models may overlap although they differ significantly: the tests are paired, query by query."
    )
    return figure(picture, caption)


def published(results: Results) -> Section:
    """Tables of papers or tools, ours beside them."""
    folds = [str(fold) for fold in results.about["folds"]]
    tables = enumerate(published_beside(results), 1)
    blocks = [block for n, beside in tables for block in _published(results, beside, folds, f"published-{n}")]
    return Section("published", "Published results and ours", blocks)


def _published(results: Results, beside: Beside, folds: list[str], name: str) -> list[Block]:
    """The means beside each other, with the digits of their source; the values of the folds fold out."""
    source = f" Source: {beside.source}." if beside.source else ""
    caption = (
        f"{beside.title}, beside {beside.model} of this experiment, under the policy {beside.policy}: means over the "
        f"{'validation' if beside.part == 'valid' else 'test'} parts of all folds. {_words_of_ends(beside)}{source}"
    )
    means: Rows = []
    rows: Rows = []
    for metric, (their_mean, our_mean) in beside.means.items():
        theirs, ours = zip(*beside.rows[metric], (their_mean, our_mean))
        differences = [one - other for one, other in zip(ours, theirs)]
        shown = shown_metric(metric)
        ends = Cell(interval(beside.intervals[metric], signed=True), "quiet")
        means.append([shown, their_mean, our_mean, differences[-1], ends])
        rows += [[shown, "published", *theirs], [Cell(shown, "quiet"), "ours", *ours]]
        rows.append([Cell(shown, "quiet"), "difference", *(Cell(number(d, signed=True), "quiet") for d in differences)])
    compared = [Column("metric"), Column("published", 4), Column("ours", 4), Column("difference", 4, signed=True)]
    compared.append(Column("95% interval", 4))
    columns = [Column("metric"), Column("values"), *(Column(_fold_name(fold), 4) for fold in folds), Column("mean", 4)]
    whole = table(f"{name}-folds", f"{beside.title} and {beside.model}, per fold.", columns, rows)
    blocks = [table(name, caption, compared, means), folded(f"{beside.title}: values per fold", whole)]
    if beside.model not in results.models:
        blocks.append(paragraph(f"{beside.model} has not finished a run."))
    return blocks


def _words_of_ends(beside: Beside) -> str:
    if beside.part == "valid":
        return "There are no intervals, as values per query are stored of test parts only."
    return "Intervals are over our queries; the published mean, of which no values per query are known, is a constant."


def _fold_name(fold: str) -> str:
    return f"fold {fold}" if fold.isdigit() else fold


def per_fold(results: Results, board: Leaderboard) -> Section:
    """The first metric in each fold; with several seeds, also how far they are apart."""
    folds = [str(fold) for fold in results.about["folds"]]
    if len(folds) < 2 and len({run.seed for run in results.runs}) < 2:
        return Section("folds", _FOLDS, [])
    columns = [Column("model"), *(Column(_fold_name(fold), 4) for fold in folds if len(folds) > 1)]
    columns += [Column("mean", board.decimals), Column("deviation over seeds", 4)]
    rows: Rows = []
    for model in board.models:
        means = [results.fold_mean(model, fold, board.policy, board.metric) for fold in folds if len(folds) > 1]
        mean = results.mean(model, board.policy, board.metric)
        rows.append([model, *means, mean, _seed_deviation(results, model, board)])
    several = any(row[-1] is not None for row in rows)
    caption = f"{shown_metric(board.metric)} under {board.policy} per fold, mean over seeds."
    caption += " The deviation is that of the mean over folds from seed to seed." if several else ""
    return Section("folds", _FOLDS, [table("folds", caption, columns, rows)], narrow=len(columns) <= _NARROW)


def _seed_deviation(results: Results, model: str, board: Leaderboard) -> float | None:
    """The standard deviation over the seeds that have finished in every fold of the model."""
    by_seed: dict[int, list[float]] = {}
    for run in results.of(model):
        value = run.values[board.policy][board.metric]
        by_seed.setdefault(run.seed, []).append(math.nan if value is None else value)
    folds = max(map(len, by_seed.values()))
    means = [sum(values) / folds for values in by_seed.values() if len(values) == folds]
    if len(means) < 2:
        return None
    centre = sum(means) / len(means)
    return math.sqrt(sum((mean - centre) ** 2 for mean in means) / (len(means) - 1))


def cutoffs(results: Results, board: Leaderboard, chosen: Sequence[str]) -> Section:
    """One chart per metric that was measured at three cutoffs or more."""
    families: dict[str, list[int]] = {}
    for metric in results.about["metrics"]:
        match = re.fullmatch(r"([a-z]+)@(\d+)", metric)
        if match:
            families.setdefault(match[1], []).append(int(match[2]))
    blocks = [
        _cutoff_chart(results, board, chosen, name, sorted(ks)) for name, ks in families.items() if len(set(ks)) > 2
    ]
    return Section("cutoffs", "Quality at each cutoff", [side_by_side(blocks)] if blocks else [])


def _cutoff_chart(results: Results, board: Leaderboard, chosen: Sequence[str], name: str, ks: list[int]) -> Block:
    lines = [
        Curve(model, ks, [results.mean(model, board.policy, f"{name}@{k}") for k in ks], series)
        for series, model in enumerate(chosen)
    ]
    shown = name.upper() if len(name) < 5 else name
    picture = charts.curves(f"cutoff-{name}", f"{shown} at cutoffs {ks}", lines, "cutoff k", f"{shown}@k", ticks=ks)
    first, last = (number(lines[0].y[end], board.decimals) for end in (0, -1))
    policy = POLICIES.get(board.policy)
    short = (
        " Lists with fewer than k documents count as 0 under this policy." if policy and policy.short == "zero" else ""
    )
    caption = (
        f"{shown}@k under {board.policy} of {_listed(chosen)}: how good the first k ranks are. "
        f"{chosen[0]} goes from {first} at k = {ks[0]} to {last} at k = {ks[-1]}; lines that cross "
        f"mean that the choice of k decides which model is better.{short if name == 'ndcg' else ''}"
    )
    return figure(picture, caption)


def _listed(names: Sequence[str]) -> str:
    return f"the {len(names)} models named" if len(names) > 3 else " and ".join(names) if names else NOTHING
