"""Comparison: which of several rankings is better, by how much, and how sure that is.

A comparison has one row for each metric and pair of systems: means, their difference with its interval,
p-values of three tests as they are and corrected for the number of comparisons, effect size, queries won and lost,
and the queries that moved most. Everything is computed from one value per query, so a query without a value in either
system (NaN) or of weight 0 is left out of their row, and counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.markup import csv_table, latex_table, latex_text, notebook_table
from podium._runtime.words import check_choice, counted
from podium.evaluation.intervals import INTERVALS, TOO_FEW_DIFFERENCES
from podium.evaluation.significance import CORRECTIONS, TESTS

if TYPE_CHECKING:
    from rich.table import Table

_LEAST_DRAWS = 1_000  # fewer cannot distinguish p = 0.01 from p = 0.005


@dataclass(frozen=True)
class Settings:
    """How a comparison is made; the same settings and values give the same numbers."""

    test: str = "randomisation"
    correction: str = "holm"
    level: float = 0.95
    permutations: int = 100_000
    resamples: int = 10_000
    moved: int = 5
    seed: int = 0
    interval: str = "bounded"

    def __post_init__(self) -> None:
        check_choice("test", self.test, TESTS)
        check_choice("interval", self.interval, INTERVALS)
        check_choice("correction", self.correction, CORRECTIONS)
        for name, least in (("permutations", _LEAST_DRAWS), ("resamples", _LEAST_DRAWS), ("moved", 0), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be an integer, {least} or larger; got {value!r}.")
        if not 0 < self.level < 1:
            raise ValueError(f"level must be between 0 and 1, such as 0.95; got {self.level!r}.")


@dataclass(frozen=True)
class QueryChange:
    """One query's value in both systems."""

    query: Any
    baseline: float
    system: float
    difference: float


@dataclass(frozen=True)
class PairComparison:
    """One system against a baseline by one metric, over the queries that have a value in both."""

    metric: str
    baseline: str
    system: str
    baseline_mean: float
    system_mean: float
    difference: float  # system - baseline
    interval: tuple[float, float]  # NaN: too few differences that are not 0
    p_values: Mapping[str, Mapping[str, float]]  # test -> correction -> p
    effect_size: float  # paired Cohen's d; infinite when every query moved alike
    wins: int
    losses: int
    ties: int
    queries: int
    left_out: int
    weighted: bool
    higher_is_better: bool
    gained: tuple[QueryChange, ...]
    lost: tuple[QueryChange, ...]
    settings: Settings

    @property
    def p(self) -> float:
        """The p-value of the chosen test after the chosen correction: what marks and sentences go by."""
        return self.p_values[self.settings.test][self.settings.correction]

    @property
    def mark(self) -> str:
        """`**` for p < 0.01, `*` for p < 0.05, else nothing."""
        return "**" if self.p < 0.01 else "*" if self.p < 0.05 else ""

    def explain(self) -> str:
        """The row as a sentence."""
        if self.queries < 2:
            have = f"{self.queries} {'query has' if self.queries == 1 else 'queries have'} a value in both"
            return (
                f"{self.system} and {self.baseline} cannot be compared by {_shown(self.metric)}: {have}, 2 are needed."
            )
        settings = self.settings
        after = "" if settings.correction == "none" else f" after {_title(settings.correction)}"
        left_out = f"; {self.left_out} more are left out" if self.left_out else ""
        queries = f"{counted(self.queries, 'query', 'queries')}{left_out}"
        return (
            f"{self._verdict()}, {_title(settings.test)} p {_p_text(self.p)}{after}; "
            f"better on {self.wins}, worse on {self.losses}, equal on {self.ties} of {queries}."
            f"{self.disagreement and ' ' + self.disagreement}"
        )

    @property
    def disagreement(self) -> str:
        """Why the interval and p lead to other conclusions, where they do: a sentence, else empty."""
        (low, high), chance = self.interval, 1 - self.settings.level
        if math.isnan(low) or math.isnan(self.p) or (not low <= 0 <= high) == (self.p < chance):
            return ""
        before = self.p_values[self.settings.test].get("none", self.p)
        if self.p < chance:
            return "The interval has 0 in it all the same: the test and the interval are different methods."
        if before < chance:
            return (
                f"The interval is without 0 all the same: it is of this difference alone, as is p {_p_text(before)} "
                f"before the correction for the number of comparisons."
            )
        return "The interval is without 0 all the same: the test and the interval are different methods."

    def _verdict(self) -> str:
        metric = _shown(self.metric)
        if not self.mark or self._without_winner():
            verdict = "No difference found" if not self.mark else "A difference without a winner"
            change = f"{metric} changes by {_signed(self.difference)} ({self._interval(1)})"
            return f"{verdict} between {self.baseline} and {self.system}: {change}"
        verb = "beats" if (self.difference > 0) == self.higher_is_better else "loses to"
        amount = f"{abs(self.difference):.4f} {metric} ({self._interval(-1 if self.difference < 0 else 1)})"
        return f"{self.system} {verb} {self.baseline} by {amount}"

    def _interval(self, sign: int) -> str:
        """`95% interval 0.0040 to 0.0210`, of the difference or of its negative, or why there is none."""
        low, high = sorted(sign * end for end in self.interval)
        if math.isnan(low):
            return f"{TOO_FEW_DIFFERENCES} for an interval"
        return f"{_percent(self.settings.level)} interval {low:z.4f} to {high:z.4f}"

    def _without_winner(self) -> bool:
        # Wilcoxon ranks the moves: it can find that most queries gained while the mean fell.
        better = self.difference if self.higher_is_better else -self.difference
        return self.settings.test == "wilcoxon" and better * (self.wins - self.losses) <= 0


@dataclass(frozen=True, repr=False)
class Comparison:
    """Systems compared by one or more metrics. Print it, or take `rows`, `table()`, `as_dict()` or `to_latex()`."""

    rows: list[PairComparison]
    means: Mapping[str, Mapping[str, float]]  # metric -> system -> mean over all queries the system has a value for
    policy: str
    baseline: str | None  # None: all pairs
    settings: Settings
    notes: tuple[str, ...] = ()
    queries: Sequence[Any] = ()
    values: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)  # metric -> system -> one per query
    judged: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of runs: metric -> system -> judged share

    def __repr__(self) -> str:
        systems = ", ".join(next(iter(self.means.values()), {}))
        return f"Comparison({systems} by {', '.join(self.means)}; {counted(len(self.queries), 'query', 'queries')})"

    def __str__(self) -> str:
        lines = [f"{self._caption()}."]
        for metric, means in self.means.items():
            listed = (f"{name} {mean:.4f}{self._coverage(metric, name)}" for name, mean in means.items())
            lines += ["", f"{_shown(metric)}: {', '.join(listed)}"]
            lines += [row.explain() for row in self.rows if row.metric == metric]
        return "\n".join([*lines, "", *self.notes] if self.notes else lines)

    def _coverage(self, metric: str, system: str) -> str:
        share = self.judged.get(metric, {}).get(system)
        return "" if share is None else f" (judged {share:.4f})"

    def __rich__(self) -> Table:
        return self.table()

    def table(self) -> Table:
        """A table for rich: `rich.print(comparison.table())`."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        caption = Text(self._caption())  # Text throughout: in names, brackets are no markup
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption=caption)
        table.caption_justify = "left"
        table.add_column("system")
        for name in self._columns():
            table.add_column(name, justify="right", no_wrap=True)
        for metric in self.means:
            table.add_row(Text(_shown(metric), style="bold"))
            for cells in self._cells(metric):
                table.add_row(*map(Text, cells))
        return table

    def as_dict(self, per_query: bool = False) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`; a number that is undefined or infinite is None."""
        rows = []
        for row in self.rows:
            values = asdict(row) | interval_json(row.interval, TOO_FEW_DIFFERENCES)
            rows.append(values | {"p": row.p, "explanation": row.explain()})
        result: dict[str, Any] = plain(
            {
                "policy": self.policy,
                "baseline": self.baseline,
                "metrics": self.means,
                **({"judged": self.judged} if self.judged else {}),
                "settings": asdict(self.settings),
                "comparisons": [{name: row[name] for name in row if name != "settings"} for row in rows],
                "notes": self.notes,
            }
        )
        if per_query:
            result["per_query"] = plain(
                {
                    str(query): {
                        metric: {name: float(column[q]) for name, column in columns.items()}
                        for metric, columns in self.values.items()
                    }
                    for q, query in enumerate(self.queries)
                }
            )
        return result

    def to_csv(self) -> str:
        """One line per metric and pair of systems, unrounded; an empty cell has no number."""
        lines = [
            {
                **{name: getattr(row, name) for name in _CSV_COLUMNS[:6]},
                "low": row.interval[0],
                "high": row.interval[1],
                "p": row.p,
                **{name: getattr(row, name) for name in _CSV_COLUMNS[9:]},
                **self._judged_pair(row),
            }
            for row in self.rows
        ]
        return csv_table([list(lines[0]), *(list(line.values()) for line in lines)])

    def _judged_pair(self, row: PairComparison) -> dict[str, float]:
        shares = self.judged.get(row.metric, {})
        pair = {"baseline_judged": row.baseline, "system_judged": row.system}
        return {name: shares.get(system, math.nan) for name, system in pair.items()} if self.judged else {}

    def queries_csv(self, delimiter: str = ",") -> str:
        """One line per metric and query: the value of each system, and for each pair who wins, if one does."""
        names = list(next(iter(self.means.values())))
        pairs = list(dict.fromkeys((row.baseline, row.system) for row in self.rows))
        lines: list[list[Any]] = [["metric", "query", *names, *(f"{first} : {second}" for first, second in pairs)]]
        better = {row.metric: row.higher_is_better for row in self.rows}
        for metric, columns in self.values.items():
            for q, query in enumerate(self.queries):
                values = [float(columns[name][q]) for name in names]
                winners = [
                    _winner(first, second, float(columns[first][q]), float(columns[second][q]), better[metric])
                    for first, second in pairs
                ]
                lines.append([metric, query, *values, *winners])
        return csv_table(lines, delimiter)

    def to_latex(self) -> str:
        r"""A `tabular` for the booktabs package, one column per metric, marks for p < 0.05 (*) and p < 0.01 (**).

        Rows are the systems with their means or, when all pairs were compared, the pairs with their differences.
        """
        header = " & ".join(["System", *(latex_text(_shown(metric)) for metric in self.means)])
        lines = [header, *(" & ".join(cells) for cells in self._latex_rows())]
        if self.baseline is not None:
            lines.insert(2, "\\midrule")
        caption = "\n".join((self._caption(), *self._judged_lines()))
        return latex_table(caption, f"l{'r' * len(self.means)}", lines)

    def _columns(self) -> list[str]:
        judged = ["judged"] if self.judged else []
        return ["mean", *judged, "change", f"{_percent(self.settings.level)} interval", "p", "d", "+/-/="]

    def _repr_html_(self) -> str:
        """For notebooks: the table, with its rows explained."""
        heading = ["system", *self._columns()]
        rows = [[_shown(metric), *cells] for metric in self.means for cells in self._cells(metric)]
        sentences = "".join(f"<li>{escape(row.explain())}</li>" for row in self.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"{notebook_table(self._caption(), ['metric', *heading], rows)}<ul>{sentences}</ul>{notes}"

    def _judged_lines(self) -> Iterator[str]:
        for metric, shares in self.judged.items():
            listed = ", ".join(f"{system} {share:.4f}" for system, share in shares.items())
            yield f"Judged, of what {_shown(metric)} depends on: {listed}"

    def _caption(self) -> str:
        test, correction = _title(self.settings.test), self.settings.correction
        count = len(self.rows) // len(self.means)
        after = "not corrected" if correction == "none" else f"after {_title(correction)}"
        weighted = "; queries are weighted" if any(row.weighted for row in self.rows) else ""
        most = max(row.left_out for row in self.rows)
        left_out = f"; queries without a value in both are left out ({most} at most)" if most else ""
        if any(math.isnan(row.interval[0]) for row in self.rows):
            left_out += f"; too few: {TOO_FEW_DIFFERENCES} for an interval"
        return (
            f"Policy {self.policy}; {test} test, p {after} for {count} comparison{'s' if count > 1 else ''} a metric "
            f"(* p < 0.05, ** p < 0.01); {INTERVAL_WORDS[self.settings.interval]}{weighted}{left_out}"
        )

    def _cells(self, metric: str) -> Iterator[list[str]]:
        if self.baseline is not None:
            yield [self.baseline, f"{self.means[metric][self.baseline]:.4f}", *self._judged_cell(metric, self.baseline)]
        for row in self.rows:
            if row.metric == metric:
                name = row.system if self.baseline is not None else f"{row.system} - {row.baseline}"
                low, high = row.interval
                ends = "too few" if math.isnan(low) else f"{low:z.4f}, {high:z.4f}"
                yield [
                    name,
                    f"{row.system_mean:.4f}",
                    *self._judged_cell(metric, row.system),
                    f"{_signed(row.difference)}{row.mark}",
                    ends,
                    _p_text(row.p).removeprefix("= ").replace(" ", ""),
                    f"{row.effect_size:.2f}",
                    f"{row.wins}/{row.losses}/{row.ties}",
                ]

    def _judged_cell(self, metric: str, system: str) -> list[str]:
        if not self.judged:
            return []
        share = self.judged.get(metric, {}).get(system)
        return ["" if share is None else f"{share:.4f}"]

    def _latex_rows(self) -> Iterator[list[str]]:
        if self.baseline is not None:
            means = [_latex_number(f"{means[self.baseline]:.4f}") for means in self.means.values()]
            yield [latex_text(self.baseline), *means]
        for baseline, system in dict.fromkeys((row.baseline, row.system) for row in self.rows):
            rows = [row for row in self.rows if (row.baseline, row.system) == (baseline, system)]
            if self.baseline is None:
                changes = [_latex_number(_signed(row.difference), row.mark) for row in rows]
                yield [f"{latex_text(system)} $-$ {latex_text(baseline)}", *changes]
            else:
                means = [_latex_number(f"{self.means[row.metric][system]:.4f}", row.mark) for row in rows]
                yield [latex_text(system), *means]


_CSV_COLUMNS = (
    *("metric", "baseline", "system", "baseline_mean", "system_mean", "difference"),
    *("low", "high", "p", "effect_size", "wins", "losses", "ties", "queries", "left_out"),
)


def _winner(first: str, second: str, value: float, other: float, higher_is_better: bool) -> str:
    if value == other or math.isnan(value + other):
        return ""
    return first if (value > other) == higher_is_better else second


INTERVAL_WORDS = {
    "bounded": "intervals by studentised bootstrap over queries, bounded by t",
    "t": "intervals by Student's t over queries",
    "studentised": "intervals by studentised bootstrap over queries",
    "bca": "intervals by BCa bootstrap over queries",
}


def interval_json(ends: tuple[float, float], reason: str) -> dict[str, Any]:
    """An interval for JSON: two numbers, or None and why there is none."""
    if math.isnan(ends[0]):
        return {"interval": None, "no_interval": reason}
    return {"interval": list(ends), "no_interval": None}


def _shown(metric: str) -> str:
    """Short names are acronyms: ndcg@10 -> NDCG@10, rbp(0.8) -> RBP(0.8), recall@5 -> recall@5."""
    return re.sub(r"^[a-z]{1,4}(?![A-Za-z_])", lambda letters: letters[0].upper(), metric)


def _title(name: str) -> str:
    """Tests and corrections that are called after somebody: Holm, Benjamini-Hochberg, Wilcoxon."""
    return name if name in ("randomisation", "t") else "-".join(word.capitalize() for word in name.split("-"))


def _percent(level: float) -> str:
    return f"{100 * level:g}%"


def _p_text(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"= {p:.2g}"


def _signed(difference: float) -> str:
    return f"{difference:+z.4f}"  # z: no minus before a zero


def _latex_number(number: str, mark: str = "") -> str:
    return f"${number}^{{{mark}}}$" if mark else f"${number}$"


def plain(value: Any) -> Any:
    """Lists, dictionaries and numbers as JSON knows them; no NaN, no infinity."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value
