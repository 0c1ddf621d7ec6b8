"""All examples, in the order of the sources, each computed anew at every call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from podium.lab.worked.boosting import boosting_examples
from podium.lab.worked.example import SOURCES, Example
from podium.lab.worked.folds import fold_examples
from podium.lab.worked.gains_and_bundles import lightgbm_examples
from podium.lab.worked.lambdas import lambda_examples
from podium.lab.worked.margins import margin_examples
from podium.lab.worked.measures import measure_examples
from podium.lab.worked.retrieval import retrieval_examples
from podium.lab.worked.trees import tree_examples

TOPICS: tuple[Callable[[], Iterator[Example]], ...] = (
    retrieval_examples,
    measure_examples,
    tree_examples,
    lambda_examples,
    margin_examples,
    boosting_examples,
    lightgbm_examples,
    fold_examples,
)


def worked_numbers() -> list[Example]:
    """The examples: per source, first its numbers, then its formulas at inputs of ours."""
    examples = [example for topic in TOPICS for example in topic()]
    return sorted(examples, key=lambda example: (SOURCES.index(example.source), example.kind == "formula"))
