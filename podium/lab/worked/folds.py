"""Data and tables: the folds of MQ2008, means of published tables, the size of Yahoo's challenge.

The tables themselves stand beside ours in the output of `podium lab run mq2008`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from podium.lab.experiments.datasets import DATASETS
from podium.lab.experiments.experiment import Published, read_experiment
from podium.lab.experiments.folds import rotation
from podium.lab.worked.example import LIGHTGBM, MARGINS, RANKNET, Example, number

_ROWS = {"S1": 2933, "S2": 3635, "S3": 3062, "S4": 2707, "S5": 2874}
_TRAINING_ROWS = "9630", "9404", "8643", "8514", "9442"
_VALIDATION_ROWS = "2707", "2874", "2933", "3635", "3062"
_NDCG = "0.36266", "0.39848", "0.42858", "0.45086", "0.46954", "0.48512", "0.49052", "0.45644", "0.22392", "0.22792"
_PRECISION = "0.4273", "0.40686", "0.39032", "0.36956", "0.34744", "0.32652", "0.30212", "0.2822", "0.26474", "0.2491"
_MEANS = {
    **{f"ndcg@{k}": mean for k, mean in enumerate(_NDCG, start=1)},
    "meanndcg": "0.4832",
    **{f"p@{k}": mean for k, mean in enumerate(_PRECISION, start=1)},
    "map": "0.46956",
}
_LIGHTGBM_MEANS = {"ndcg@1": "0.662012", "ndcg@3": "0.6966848", "ndcg@5": "0.7324584", "ndcg@10": "0.7780482"}


def fold_examples() -> Iterator[Example]:
    yield from _yahoo()
    yield from _rows_of_folds()
    ranksvm, lightgbm, *_ = read_experiment("mq2008")[0].published
    yield from _means(MARGINS, "RankSVM", ranksvm, _MEANS)
    yield from _means(LIGHTGBM, "LightGBM", lightgbm, _LIGHTGBM_MEANS)
    overall = [value for metric in _LIGHTGBM_MEANS for value in lightgbm.values[metric]]
    by_hand = f"({' + '.join(_LIGHTGBM_MEANS.values())}) / 4"
    yield number(LIGHTGBM, "mean of the four means", "0.717301", by_hand, fmean(overall))


def _yahoo() -> Iterator[Example]:
    sets = DATASETS["yahoo-set1"], DATASETS["yahoo-set2"]
    queries = sum(one.queries or 0 for one in sets)
    yield number(RANKNET, "queries of Yahoo's challenge, both sets", "36251", "29921 + 6330", queries)
    rows = sum(one.rows or 0 for one in sets) / 1000
    yield number(RANKNET, "thousands of documents", "883.", "(709877 + 172870) / 1000", rows)


def _rows_of_folds() -> Iterator[Example]:
    """Test parts of the folds are S5, S1, S2, S3 and S4, so their sizes are those of the parts."""
    folds = rotation([Path(part) for part in _ROWS]).folds
    for fold, printed in zip(folds, _TRAINING_ROWS):
        parts = [path.name for path in fold.train]
        what = f"rows of the training part, fold {fold.name}: {', '.join(parts)}"
        by_hand = " + ".join(str(_size(int(fold.name) + shift)) for shift in range(3))
        yield number(MARGINS, what, printed, by_hand, sum(_ROWS[part] for part in parts))
    for fold, printed in zip(folds, _VALIDATION_ROWS):
        part, by_hand = fold.valid[0].name, str(_size(int(fold.name) + 3))
        yield number(MARGINS, f"rows of the validation part, fold {fold.name}: {part}", printed, by_hand, _ROWS[part])
    total = " + ".join(map(str, _ROWS.values()))
    yield number(MARGINS, "rows of all test parts", total, total, DATASETS["mq2008"].rows or 0)


def _size(number_of_part: int) -> int:
    """The rows of S1 to S5, and of S1 again as S6, without the code that makes folds."""
    return list(_ROWS.values())[(number_of_part - 1) % 5]


def _means(source: str, model: str, table: Published, printed: dict[str, str]) -> Iterator[Example]:
    for metric, mean in printed.items():
        values = [float(value) for value in table.values[metric]]
        by_hand = f"({' + '.join(map(str, values))}) / 5"
        yield number(source, f"{model}, {metric}: mean of the five folds", mean, by_hand, fmean(values))
