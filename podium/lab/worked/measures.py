"""Metrics: precision, average precision, NDCG and its swaps, AUC and ERR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from podium.lab.worked.example import MARGINS, RANKNET, SURVEY, Example, formula, number
from podium.metrics import parse_metric
from podium.metrics.policies import discounts, gains

_OTHER_RANKING = (
    "The ranking beside these numbers is d1 d4 d3 d2 d5, in which all four relevant documents come first. "
    "P@4 = 3/4 and AP = 0.95 are those of d1 d4 d3 d5 d2."
)
_ROUNDED_SUM = "Rounded too early: 48.0 + 15 * 0.43 is 54.45, but 31 + 15/log2(3) + 15/log2(4) + 15/log2(5) is 54.42."
_FIFTH_DOCUMENT = (
    "The ideal ranking ends in a fifth document with gain 15, which is not in the list: its grades are 5, 4, 4, 4, 2, "
    "so the last gain is 3."
)
_ESTIMATES = (
    "The gains are said to be those of the estimated ratings. Then every ranking by its own estimates is ideal. Gains "
    "are those of the true labels."
)
_FROM_THE_TOP = (
    "S0 sums the positions of relevant documents. With positions counted from the top the formula gives 1 - AUC; they "
    "are to be counted from the bottom, here 5 + 3."
)


def measure_examples() -> Iterator[Example]:
    yield from _ndcg_and_swaps()
    yield from _precision()
    yield from _graded()
    yield from _formulas()


def _value(metric: str, labels: Sequence[float]) -> float:
    return parse_metric(metric).value(np.array(labels, dtype=np.float64))


def _ndcg_and_swaps() -> Iterator[Example]:
    first, ideal = "1/log2(3) + 1/log2(5) + 1/log2(6)", "1 + 1/log2(3) + 1/log2(4)"
    yield number(RANKNET, "DCG@5 of labels 0 1 0 1 1", "1.45", first, _value("dcg@5", [0, 1, 0, 1, 1]))
    yield number(RANKNET, "ideal DCG@5, labels 1 1 1 0 0", "2.13", ideal, _value("dcg@5", [1, 1, 1, 0, 0]))
    by_hand, ours = _ratio(first, ideal), _value("ndcg@5", [0, 1, 0, 1, 1])
    yield number(RANKNET, "NDCG@5 of labels 0 1 0 1 1", "0.68", by_hand, ours)
    swaps = (
        ("1 and 2", [1, 0, 0, 1, 1], ("1.82", "0.85", "0.17"), "1 + 1/log2(5) + 1/log2(6)", "1 - 1/log2(3)", 0),
        ("3 and 4", [0, 1, 1, 0, 1], ("1.52", "0.71", "0.03"), "1/log2(3) + 1/2 + 1/log2(6)", "1/2 - 1/log2(5)", 2),
    )
    for ranks, labels, printed, gained, change, rank in swaps:
        yield number(RANKNET, f"DCG@5 with ranks {ranks} swapped", printed[0], gained, _value("dcg@5", labels))
        by_hand, ours = _ratio(gained, ideal), _value("ndcg@5", labels)
        yield number(RANKNET, f"NDCG@5 with ranks {ranks} swapped", printed[1], by_hand, ours)
        delta = parse_metric("ndcg@5").swaps(np.array([0.0, 1, 0, 1, 1]), rank)[0]
        yield number(RANKNET, f"swap delta of NDCG@5, ranks {ranks}", printed[2], _ratio(change, ideal), delta)


def _precision() -> Iterator[Example]:
    ranked = [1, 1, 1, 0, 1]
    for k, printed in enumerate(("1/1", "2/2", "3/3", "3/4", "4/5", "4/6"), start=1):
        what = f"P@{k} of the ranking d1 d4 d3 d5 d2, d5 not relevant"
        yield number(MARGINS, what, printed, f"{sum(ranked[:k])} / {k}", _value(f"p@{k}", ranked))
    by_hand = "(1/1 + 4/5 + 3/3 + 2/2) / 4"
    yield number(MARGINS, "AP of the ranking d1 d4 d3 d5 d2", "0.95", by_hand, _value("map", ranked))
    as_printed = [1, 1, 1, 1, 0]
    what = "P@4 of the ranking that is printed, d1 d4 d3 d2 d5"
    yield number(MARGINS, what, "3/4", "4 / 4", _value("p@4", as_printed), _OTHER_RANKING)
    what, by_hand = "AP of the ranking that is printed", "(1/1 + 2/2 + 3/3 + 4/4) / 4"
    yield number(MARGINS, what, "0.95", by_hand, _value("map", as_printed), _OTHER_RANKING)


_RANKED, _IDEAL = (5, 2, 4, 4, 4), (5, 4, 4, 4, 2)


def _graded() -> Iterator[Example]:
    """Grades 5 2 4 4 4."""
    yield from _gains()
    for rank, printed in enumerate(("1", "0.63", "0.50", "0.43", "0.39"), start=1):
        ours = discounts(rank, "log2")[-1]
        yield number(MARGINS, f"discount of rank {rank}", printed, f"1/log2({1 + rank})", ours)
    yield from _dcg_and_ideal()
    for k, printed in enumerate(("1", "0.81", "0.84", "0.86", "0.87"), start=1):
        by_hand = _ratio(_dcg(_RANKED[:k]), _dcg(_IDEAL[:k]))
        slip = _FIFTH_DOCUMENT if k == 5 else ""
        what = f"NDCG@{k} of grades 5 2 4 4 4"
        yield number(MARGINS, what, printed, by_hand, _value(f"ndcg@{k}", _RANKED), slip)


def _gains() -> Iterator[Example]:
    values = gains(np.array(_RANKED, dtype=np.float64), "exponential")
    for grade, printed, rank in ((5, "31", 0), (2, "3", 1), (4, "15", 2)):
        yield number(MARGINS, f"gain of grade {grade}", printed, f"2**{grade} - 1", values[rank])
    for k, printed in enumerate(("31", "34", "49", "64", "79"), start=1):
        by_hand = " + ".join(f"{2**grade - 1}" for grade in _RANKED[:k])
        what = f"cumulative gain of grades 5 2 4 4 4 at rank {k}"
        yield number(MARGINS, what, printed, by_hand, values[:k].sum())


def _dcg_and_ideal() -> Iterator[Example]:
    for k, printed in enumerate(("31", "32.9", "40.4", "46.9", "52.7"), start=1):
        ours = _value(f"dcg@{k}", _RANKED)
        yield number(MARGINS, f"DCG@{k} of grades 5 2 4 4 4", printed, _dcg(_RANKED[:k]), ours)
    slips = {4: _ROUNDED_SUM, 5: _FIFTH_DOCUMENT}
    for k, printed in enumerate(("31", "40.5", "48.0", "54.5", "60.4"), start=1):
        ours, slip = _value(f"dcg@{k}", _IDEAL), slips.get(k, "")
        yield number(MARGINS, f"ideal DCG@{k}, grades 5 4 4 4 2", printed, _dcg(_IDEAL[:k]), ours, slip)


def _dcg(grades: Sequence[int]) -> str:
    terms = (f"{2**grade - 1}/log2({1 + rank})" for rank, grade in enumerate(grades[1:], start=2))
    return " + ".join([f"{2 ** grades[0] - 1}", *terms])


def _ratio(top: str, bottom: str) -> str:
    return " / ".join(f"({part})" if " " in part else part for part in (top, bottom))


def _formulas() -> Iterator[Example]:
    what = "NDCG@3 of true labels 0 1 2, ranked by estimates 2 1 0"
    estimated = "(3 + 1/log2(3)) / (3 + 1/log2(3))"
    ours = _value("ndcg@3", [0, 1, 2])
    yield formula(SURVEY, what, estimated, "(1/log2(3) + 3/2) / (3 + 1/log2(3))", ours, _ESTIMATES)
    what, ours = "AUC of labels 1 0 1 0 0", _value("auc", [1, 0, 1, 0, 0])
    yield formula(SURVEY, what, "(1 + 3 - 2*3/2) / (2*3)", "5 / 6", ours, _FROM_THE_TOP)
    stops = "3/4 + 1/3 * 1/4 * 1 * 1/4"
    yield formula(SURVEY, "ERR of labels 2 0 1, largest label 2", stops, stops, _value("err(rmax=2)", [2, 0, 1]))
