"""The demo: the main job on the embedded data, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium.data.ranking import RankingData
from podium.demo.letor import Splits, demo_splits, write_demo
from podium.evaluation.comparing import compare
from podium.evaluation.comparison import Comparison
from podium.evaluation.evaluating import Evaluation, evaluate
from podium.formats.scores import write_scores
from podium.lint.checks import check
from podium.lint.rules import Report
from podium.models.products import LambdaMART

METRICS = ("ndcg@10", "map", "p@5")
POLICIES = ("standard", "letor4", "trec")


@dataclass(frozen=True)
class Tour:
    """What the demo found."""

    files: list[Path]
    sizes: Mapping[str, str]
    report: Report
    best_feature: str
    model: LambdaMART
    evaluations: Mapping[str, list[Evaluation]]  # system -> one per policy
    comparison: Comparison

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [str(path) for path in self.files],
            "check": self.report.to_json(),
            "best_feature": self.best_feature,
            "model": {"name": type(self.model).__name__.lower(), "trees": int(self.model.forest_.n_trees)},
            "systems": {name: [one.to_json() for one in found] for name, found in self.evaluations.items()},
            "comparison": self.comparison.to_json(),
        }


def take_tour(folder: Path) -> Tour:
    """Make the data, check it, rank the test queries by one feature, by a sum and by a trained model, and compare."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = demo_splits()
    best, model = best_single_feature(splits.train), train_model(splits)
    systems = {
        "best feature": single_feature(splits.test, best),
        "plain sum": plain_sum(splits.test),
        "LambdaMART": model.predict(splits.test),
    }
    files = write_demo(folder)
    for name, scores in systems.items():
        write_scores(scores, folder / f"{name.replace(' ', '_').lower()}.scores")
    return Tour(
        files=files,
        sizes={name: f"{d.n_rows} documents, {d.n_queries} queries" for name, d in splits._asdict().items()},
        report=check(splits._asdict()),
        best_feature=(splits.test.feature_names or ())[best],
        model=model,
        evaluations={
            name: [evaluate(scores, splits.test, metrics=METRICS, policy=policy) for policy in POLICIES]
            for name, scores in systems.items()
        },
        comparison=compare(systems, splits.test, metrics=METRICS[:1]),
    )


def train_model(splits: Splits) -> LambdaMART:
    """Boosted trees that learn from one part and stop by another; the test queries stay unseen."""
    model = LambdaMART(n_estimators=100, max_leaf_nodes=8, metric="ndcg@10")
    return model.fit(splits.train, eval_set=splits.valid, early_stopping_rounds=20)


def best_single_feature(data: RankingData) -> int:
    """The column that ranks best by itself, larger values first."""
    values = [evaluate(single_feature(data, k), data, metrics=["ndcg@10"])["ndcg@10"] for k in range(data.n_features)]
    return int(np.argmax(values))


def single_feature(data: RankingData, column: int) -> np.ndarray:
    """One column as scores; a missing value ranks last."""
    values = np.asarray(data.X[:, column], dtype=np.float64)
    return np.where(np.isnan(values), np.nanmin(values) - 1.0, values)


def plain_sum(data: RankingData) -> np.ndarray:
    """All features, each brought to 0..1 within its query, added up; a missing value adds nothing."""
    scores = np.zeros(data.n_rows)
    for start, end in zip(data.offsets[:-1], data.offsets[1:]):
        own = data.rows[start:end]
        rows = np.nan_to_num(data.X[own].astype(np.float64), nan=np.inf)
        low = np.min(rows, axis=0)
        low = np.where(np.isinf(low), 0.0, low)  # missing in the whole query
        rows = np.where(np.isinf(rows), low, rows)
        spread = np.max(rows, axis=0) - low
        scores[own] = np.sum((rows - low) / np.where(spread > 0, spread, 1.0), axis=1)
    return scores


def show_demo(tour: Tour) -> None:
    from rich.table import Table

    from podium.cli.terminal import console

    print("1. Data: synthetic, LETOR-like, written to", tour.files[0].parent)
    for path, size in zip(tour.files, tour.sizes.values()):
        print(f"   {path.name}: {size}")
    print("\n2. Check: podium check reports")
    for sentence in tour.report.sentences():
        print(f"   {sentence}")
    trees = tour.model.forest_.n_trees
    print(f"\n3. Train: LambdaMART on train.txt; early stopping on valid.txt keeps {trees} trees")
    print(
        f"\n4. Rank the test queries by the best feature ({tour.best_feature}), the sum of all features, and LambdaMART"
    )
    table = Table("ranking", "policy", *METRICS)
    for name, found in tour.evaluations.items():
        for one in found:
            table.add_row(name, one.policy, *(f"{one[metric]:.4f}" for metric in METRICS))
    console().print(table)
    print(
        "   The same ranking has different values under different policies, so every value is reported with its policy."
    )
    print("\n5. Are the differences significant?")
    for row in tour.comparison.rows:
        print(f"   {row.explain()}")
    folder = tour.files[0].parent
    print("\n6. Next steps")
    print(f"   podium train lambdamart {folder}/train.txt --valid {folder}/valid.txt --out {folder}/lambdamart.podium")
    print(f"   podium rank {folder}/lambdamart.podium {folder}/test.txt --out {folder}/mine.scores")
    print(f"   podium eval {folder}/test.txt --scores {folder}/mine.scores --policy all")
    print(f"   podium compare {folder}/test.txt --scores {folder}/lambdamart.scores --scores {folder}/mine.scores")
