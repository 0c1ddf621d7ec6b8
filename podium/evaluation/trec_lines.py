"""The output of trec_eval 9: one line per measure and query, then one per measure for all, in its order and format."""

from __future__ import annotations

from collections.abc import Iterator

from podium.evaluation.evaluating import Evaluation
from podium.metrics.measures.spelling import TREC_ORDER
from podium.metrics.registry import parse_metric

_FIRST_LETTERS = len("num_nonrel_judged_ret ")  # the width of the first column
_OF_ALL_ONLY = {"num_q", "gm_map", "gm_bpref"}  # what has no line for a query


def trec_lines(evaluation: Evaluation, per_query: bool = False) -> Iterator[str]:
    """Lines without their ends. Queries are in order of their ids, as bytes; those that the run lacks have none."""
    names = sorted([*evaluation, *evaluation.texts], key=_place)
    if per_query:
        queries = evaluation.queries[: len(evaluation.queries) - evaluation.n_missing].tolist()
        for q in sorted(range(len(queries)), key=lambda q: str(queries[q]).encode("utf-8", "surrogateescape")):
            for name in names:
                yield from _of_query(evaluation, name, q, str(queries[q]))
    for name in names:
        if name not in evaluation.texts:
            yield _line(name, "all", _number(name, evaluation[name]))
        elif _root(name) == "runid":
            yield _line(name, "all", str(evaluation.texts[name][0]))


def _of_query(evaluation: Evaluation, name: str, q: int, query: str) -> Iterator[str]:
    if name not in evaluation.texts:
        if _root(name) not in _OF_ALL_ONLY:
            yield _line(name, query, _number(name, float(evaluation.per_query[name][q])))
    elif _root(name) != "runid":
        yield _line(name, query, f"'{evaluation.texts[name][q]}'")


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<{_FIRST_LETTERS}}\t{query}\t{value}"


def _number(name: str, value: float) -> str:
    """Counts as integers, all else with four digits."""
    return str(int(value)) if parse_metric(name, runs=True).summary == "sum" else f"{value:6.4f}"


def _root(name: str) -> str:
    """The measure without its parameters: `P_10` -> `P`; a name that trec_eval lacks stays as it is."""
    roots = (root for root in TREC_ORDER if name.lower() == root.lower() or name.lower().startswith(f"{root.lower()}_"))
    return max(roots, key=len, default=name)


def _place(name: str) -> int:
    """Where a measure stands in the output; sorting is stable, so parameters keep their order."""
    root = _root(name)
    return TREC_ORDER.index(root) if root in TREC_ORDER else len(TREC_ORDER)
